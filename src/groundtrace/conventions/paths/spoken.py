"""What a span says by a mapping: each thing at its path, and where a path leads nowhere, what stands there instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from groundtrace.conventions.paths.grammar import Nothing, Path, Step, follow, inside, seen, unpacked
from groundtrace.conventions.paths.table import WITHIN, Table
from groundtrace.conventions.shapes import MANY, documents, metadata_of, number, said, text
from groundtrace.model import Document, Reading, Said, Span, State, Tool


@dataclass
class Mapped:
    """One mapping, ready to read spans."""

    table: Table
    paths: Mapping[str, Path] = field(init=False)

    def __post_init__(self) -> None:
        self.paths = self.table.paths()

    def fits(self, span: Span) -> bool:
        """Whether it speaks of this span: as its `spans` say, else where any of its texts stands."""
        if self.table.spans is not None:
            return self.table.spans.fit(span)
        told = (self.paths.get(key) for key in ("query", "answer", "context", "source", "summary"))
        return any(path and not isinstance(follow(path, span.attributes), Nothing) for path in told)

    def reading(self, span: Span) -> Reading:
        """What stands at its paths; what does not is missing, with what is there instead."""
        role = self.table.plays
        summing = self.table.summing
        context, answer = ("source", "summary") if summing else ("context", "answer")
        told = self._context(span, context)
        state, remedy = _state(told)
        searching = role in {"retrieval", "rerank"}
        return Reading(
            role,
            query=self._said(span, "query"),
            documents=None if role == "tool" or (searching and state != "present") else told,
            tool=_tool(span, told) if role == "tool" and told is not None else None,
            output=self._said(span, answer),
            content=state if searching else "present",
            remedy=remedy if searching else "",
            declared=self._declared(context, answer),
            kind=self.table.of,
            key_facts=self._facts(span),
            session=self._fact(span, "session"),
            user=self._fact(span, "user"),
            model=self._fact(span, "model"),
            response_id=self._fact(span, "response_id"),
        )

    def _declared(self, context: str, answer: str) -> tuple[Literal["query", "context", "answer"], ...]:
        fields: tuple[tuple[Literal["query", "context", "answer"], str], ...]
        fields = (("query", "query"), ("context", context), ("answer", answer))
        return tuple(name for name, key in fields if key in self.paths)

    def _said(self, span: Span, key: str) -> Said | None:
        """The text at a path; missing where there is none, None where the mapping has no such path."""
        path = self.paths.get(key)
        if path is None:
            return None
        held = follow(path, span.attributes)
        if isinstance(held, Nothing):
            return self._missing(span, key, held)
        value = unpacked(held[0])
        words = said(text(value), path.text)
        return words or self._missing(span, key, replace(seen(value), where=path.text))

    def _missing(self, span: Span, key: str, there: Nothing) -> Said:
        """What stands for a text that is not there; a span that lost attributes may have held it."""
        path = self.paths[key]
        if there.state != "missing" or span.dropped:
            return Said("", path.text, "truncated" if there.state == "missing" else there.state)
        named = span.name[:80] or span.id
        remedy = f"mapping {self.table.name} finds no {key} at {path.text} of span {named}: {there}; "
        return Said("", path.text, "missing", f"{remedy}record it there, or mend {self.table.key}.{key} in the plan")

    def _fact(self, span: Span, key: str) -> str | None:
        held = follow(self.paths[key], span.attributes) if key in self.paths else ()
        return text(held[0]) if not isinstance(held, Nothing) and held else None

    def _facts(self, span: Span) -> tuple[str, ...]:
        path = self.paths.get("key_facts")
        held = follow(path, span.attributes) if path is not None else ()
        if path is None or isinstance(held, Nothing):
            return ()
        every = _items(held, path)
        return tuple(words for item in every if (words := text(item)) and words.strip())

    # --- the context --------------------------------------------------------------------------------------------------

    def _context(self, span: Span, key: str) -> tuple[Document, ...] | None:
        """The passages at a path, () where a list there is empty; one that is missing stands for a list that is not."""
        path = self.paths.get(key)
        if path is None:
            return None
        held = follow(path, span.attributes)
        if isinstance(held, Nothing):
            return (Document(self._missing(span, key, held)),)
        listed = _items(held, path)
        if listed is held and not path.many and isinstance(held[0], str) and not held[0].strip():
            # A list that is empty says that nothing was retrieved; an empty text says nothing.
            return (Document(self._missing(span, key, replace(seen(held[0]), where=path.text))),)
        read: list[Document] = []
        for at, item in enumerate(islice(listed, MANY + 1)):
            document = Nothing("", f"more than {MANY} items") if at == MANY else self._document(item, path)
            if isinstance(document, Nothing):
                where = document.where or f"item {at + 1} of {len(listed)}"
                return (Document(self._missing(span, key, replace(document, where=where))),)
            read.append(document)
        return tuple(read)

    def _document(self, item: Any, path: Path) -> Document | Nothing:
        """One passage: the text at the mapping's own path, or as passages are written by most."""
        found = unpacked(item)
        if "text" not in self.paths:
            made = self._usual(item, found, path)
        else:
            held = inside(found, self.paths["text"].steps, "")
            if isinstance(held, Nothing):
                return replace(held, where="", there=f"{held.there} and no {self.paths['text'].text}")
            words = unpacked(held[0])
            made = Document(_whole(words, f"{path.text}.{self.paths['text'].text}")) if isinstance(words, str) else None
        if made is None or made.text is None:
            return seen(item)
        return self._with_facts(made, found)

    def _usual(self, item: Any, found: Any, path: Path) -> Document | None:
        if isinstance(found, Mapping):
            usual = documents([found], path.text)
            if usual and (usual[0].text is not None or not isinstance(item, str)):
                return usual[0]
        if isinstance(item, str):
            cut = seen(item).state == "truncated"
            return None if cut else Document(_whole(found if isinstance(found, str) else item, path.text))
        return Document(said(text(item), path.text))

    def _with_facts(self, made: Document, found: Any) -> Document:
        """A passage with what the mapping says of it beside its text."""
        if not isinstance(found, Mapping):
            return made
        own = {key: _within(found, self.paths[key].steps) for key in WITHIN[1:] if key in self.paths}
        taken = {step for key in WITHIN if (path := self.paths.get(key)) for step in path.steps[:1]}
        known = made.metadata or {k: v for k, v in metadata_of(found).items() if k not in taken}
        metadata = {**known, "title": text(own["title"])} if text(own.get("title")) else known
        score = number(own["score"]) if "score" in own else made.score
        return Document(
            made.text, text(own.get("id")) or made.id, score, metadata, text(own.get("timestamp")) or made.timestamp
        )


def _items(held: tuple[Any, ...], path: Path) -> tuple[Any, ...]:
    """The items at a path: those it names, or those of the one list it leads to."""
    if path.many:
        return held
    only = unpacked(held[0])
    return tuple(only) if isinstance(only, (list, tuple)) else held


def _within(item: Mapping[str, Any], steps: tuple[Step, ...]) -> Any:
    held = inside(item, steps, "")
    return None if isinstance(held, Nothing) else held[0]


def _whole(words: str, place: str) -> Said:
    """A passage's text; an empty one is a passage too, for the others keep their numbers."""
    return said(words, place) or Said(words, place)


def _state(told: tuple[Document, ...] | None) -> tuple[State, str]:
    lacking = next((d.text for d in told or () if d.text is not None and d.text.state != "present"), None)
    return (lacking.state, lacking.remedy) if lacking is not None else ("present", "")


def _tool(span: Span, told: tuple[Document, ...]) -> Tool:
    """A tool's answer: its passages, and all of them as one text."""
    texts = [document.text for document in told if document.text is not None]
    lacking = next((words for words in texts if words.state != "present"), None)
    joined = Said("\n\n".join(words.value for words in texts), texts[0].attribute if texts else "")
    return Tool(span.name, result=lacking or joined, documents=told if lacking is None else ())
