"""The passages an answer was given, in the order its markers count them.

What the model was shown comes first: passages its prompt numbers or holds, blocks handed over, results of the tools
it called in this turn. What retrievers, rerankers and tools recorded supplies ids, scores, metadata and the place
feedback can be attached to, matched by text; it is the context itself where no prompt shows any.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from groundtrace.model import Document, Gap, Message, Origin, Passage, Ref, Said, Struct
from groundtrace.read.gaps import gap, lost, part
from groundtrace.read.masks import holds_mask
from groundtrace.read.plain import facts as plain_facts
from groundtrace.read.plain import sound
from groundtrace.read.prompt import Entry, Span, context_section, numbered, places
from groundtrace.read.tree import Request, Seen
from groundtrace.text import folded

T = TypeVar("T")

_CONTEXTS = (
    *("context", "contexts", "context_str", "documents", "docs", "passages", "sources", "chunks", "text_chunks"),
    *("retrieved_documents", "retrieved_context", "search_results", "evidence", "knowledge"),
)
_LABELLED = re.compile(r"\s*[\[【](\d{1,3})[\]】][:.]?\s+")
_NO_TEXTS = (
    "the retriever's span holds ids and no texts: record them as retrieval.documents.N.document.content, or capture "
    "the prompt (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY), or name a function that gives texts by "
    'their ids: passages = "module:function" in a plan'
)
_NO_TEXT = (
    "the text of {id} is not in the trace, those of other passages are: record it, or let the function named by "
    "`passages` in the plan give it"
)
_SAME = 40  # characters of a passage that tell it from others
_MANY = 200  # documents looked for inside other texts
_MOST = 10_000  # more than any retriever returns: a bound for hostile traces


class Context(Struct, frozen=True):
    """The passages and where each was read; a gap where they are not known; a doubt where their numbers are not."""

    passages: tuple[Passage, ...] = ()
    origins: tuple[Origin, ...] = ()
    gap: Gap | None = None
    doubt: Gap | None = None
    places: Mapping[str, tuple[Span, ...]] = msgspec.field(default_factory=dict)
    """Where passages stand in the texts the model was shown."""
    cited: Mapping[int, str] = msgspec.field(default_factory=dict)
    """The passage that stands for each document block the model was handed, by the block's position."""
    counted: bool = False
    """Whether the ranks are the numbers the model was shown."""


@dataclass(slots=True, eq=False)
class _Known:
    """A document as the trace records it somewhere, with all that is known of it."""

    document: Document
    seen: Seen
    key: str
    retrieval_rank: int | None = None
    target: tuple[Seen, int] | None = None


class _Shown(Struct, frozen=True):
    """A text the model was shown; `holds_nothing_else` where no instructions or question stand in it."""

    said: Said
    seen: Seen
    holds_nothing_else: bool = False
    documents: tuple[Document, ...] = ()


class _Found(Struct, frozen=True):
    """A passage on its way: its text, where it was read, its number there, and what else is known of it."""

    said: Said
    seen: Seen
    number: int | None = None
    id: str | None = None
    known: _Known | None = None
    facts: Mapping[str, Any] = msgspec.field(default_factory=dict)


def find_context(request: Request, final: Seen | None, named: Seen | None, ref: Ref) -> Context:
    """The context of a request's answer; `named` is the span that names the prompt's parts, `ref` the trace."""
    known = _known(request)
    masked = next((k.document.text for k in known if k.document.text and k.document.text.state == "masked"), None)
    if masked is not None:
        return Context(gap=lost("context", "masked", masked.remedy))
    texts, tools = list(shown(final, named)), list(tool_results(request, final))
    spans: dict[str, tuple[Span, ...]] = {}
    lists = [_in_texts([s for s in texts if s.said.legible], known, spans)]
    blocks = _blocks(final)
    lists += _in_tools(tools, known, spans)
    if all(f.number is None and f.known is None for found in lists for f in found):
        written = [k for k in known if k.document.text is not None and k.document.text.value]
        if any(k.seen.reading.role == "rerank" for k in written):
            # What a reranker left out was not handed on.
            written = [k for k in written if k.seen.reading.role != "retrieval"]
        other = (
            [_enriched(_Found(d.text, final, id=d.id, facts=_facts(d)), known) for _, d in blocks if d.text and final]
            or [_Found(k.document.text, k.seen, known=k) for k in written if k.document.text]
            or ([] if any(lists) else list(_unnumbered(texts)))
        )
        bare = next((k for k in known if k.document.text is None and k.document.id), None)
        if other and written and bare is not None and not blocks:
            # Some of what was retrieved has no text: what the answer leans on may be just that.
            return Context(gap=gap("context", "not_found", _NO_TEXT.format(id=bare.document.id)), places=spans)
        lists = [other] if other else lists
    if any(holds_mask(f.said.value) for found in lists for f in found):
        return Context(gap=lost("context", "masked"), places=spans)
    found = _apart(lists, known)
    cut = next((f.said for f in found if f.said.state != "present"), None)
    if cut is not None:
        return Context(gap=lost("context", cut.state, cut.remedy), places=spans)
    if not found:
        return Context(gap=_nothing(request, final, known, [*texts, *tools]), places=spans)
    context = _passages(found, ref)
    doubt = context.doubt or _doubt(found, texts, known)
    by_text = {(key, nth): p.id for p, key, nth in _counted(context.passages, lambda p: p.text)}
    handed = _counted(blocks, lambda block: block[1].text.value if block[1].text else "")
    cited = {at: ident for (at, _), key, nth in handed if (ident := by_text.get((key, nth)) or by_text.get((key, 0)))}
    return replace(context, doubt=doubt, places=spans, cited=cited)


def in_order(request: Request, seen: Seen, ref: Ref) -> Context:
    """The documents a span declares to be the context, all of them and as they stand; markers count their order.

    What a retriever recorded of the same text supplies the place feedback can be attached to.
    """
    known = {(key, nth): k for k, key, nth in _counted(_known(request), lambda k: k.key)}
    found = []
    for document, key, nth in _counted(seen.reading.documents or (), _words):
        if document.text is not None:
            same = known.get((key, nth))
            rank, target = (same.retrieval_rank, same.target) if same is not None else (None, None)
            found.append(_Found(document.text, seen, known=_Known(document, seen, key, rank, target)))
    return _passages(found, ref)


def as_one(said: Said, seen: Seen, ref: Ref) -> Context:
    """A context that is one text: the source of a summary."""
    if said.state != "present":
        return Context(gap=lost("context", said.state, said.remedy))
    return _passages([_Found(said, seen)], ref)


# --- what the trace records -------------------------------------------------------------------------------------------


def _known(request: Request) -> list[_Known]:
    """Every document recorded for the request, once: as reranked, as retrieved, as handed over, as a tool listed it."""
    holding = [s for s in request.seen if s.reading.documents or (s.reading.tool and s.reading.tool.documents)]
    if len(holding) == 1 and holding[0].reading.role == "retrieval" and not request.of("rerank", "tool"):
        return _told_once(holding[0], _unlabelled(holding[0].reading.documents or ()))
    retrieved = _Told()
    for seen in request.of("retrieval"):
        for at, (document, key, nth) in enumerate(_counted(seen.reading.documents or (), _words)):
            known = retrieved.same(document, key, nth)
            if known is None:
                retrieved.add(_Known(document, seen, key, at + 1, (seen, at)), nth)
            elif known.target is not None and known.target[0] in seen.above():
                # A function around a retriever hands on what it found: feedback belongs to the retriever itself.
                known.retrieval_rank, known.target = at + 1, (seen, at)
    told = _Told()
    ordered = [*request.of("rerank"), *request.of("retrieval"), *request.of("request", "agent", "generation", "other")]
    listed = [(s, _unlabelled(s.reading.documents or ())) for s in ordered]
    listed += [(s, s.reading.tool.documents) for s in request.of("tool") if s.reading.tool is not None]
    inside = {s.place for s, documents in listed if documents and _is_step(s)}
    for seen, documents in sorted(listed, key=lambda pair: pair[0].place in inside):
        for document, key, nth in _counted(documents, _words):
            same = told.same(document, key, nth) or _within(document, seen, told.all)
            if same is not None:
                told.unite(same, document)
            if same is not None or seen.place in inside:
                continue
            place = retrieved.same(document, key, nth)
            rank, target = (place.retrieval_rank, place.target) if place is not None else (None, None)
            told.add(_Known(document, seen, key, rank, target), nth)
    return told.all[:_MOST]


def _told_once(seen: Seen, documents: Sequence[Document]) -> list[_Known]:
    """The documents of the one retriever that told any."""
    told = _Told()
    for at, (document, key, nth) in enumerate(_counted(documents, _words)):
        same = told.same(document, key, nth)
        if same is not None:
            told.unite(same, document)
        else:
            told.add(_Known(document, seen, key, at + 1, (seen, at)), nth)
    return told.all[:_MOST]


def _is_step(seen: Seen) -> bool:
    """Whether it is a step of a retrieval, which alone says what was handed on: the rest was filtered out."""
    return any(s.reading.role == "retrieval" and s.reading.documents is not None for s in seen.above())


class _Told:
    """Documents by what tells them apart: their text; their id only where one of two is told without a text.

    Texts that repeat within a list are told apart by their count there, for the markers count each of them.
    """

    def __init__(self) -> None:
        self.all: list[_Known] = []
        self._by_text: dict[tuple[str, int], _Known] = {}
        self._by_id: dict[str, _Known] = {}

    def add(self, known: _Known, nth: int) -> None:
        self.all.append(known)
        if known.key:
            self._by_text.setdefault((known.key, nth), known)
        if known.document.id:
            self._by_id.setdefault(known.document.id, known)

    def unite(self, known: _Known, document: Document) -> None:
        """Add to a document what it is told to be elsewhere."""
        one = known.document
        known.document = replace(
            one,
            text=one.text or document.text,
            id=one.id or document.id,
            score=one.score if one.score is not None else document.score,
            metadata=one.metadata or document.metadata,
            timestamp=one.timestamp or document.timestamp,
        )
        if not known.key:
            known.key = folded(_words(known.document))
            self._by_text.setdefault((known.key, 0), known)

    def same(self, document: Document, key: str, nth: int) -> _Known | None:
        """The document among these that this one is, the nth (from 0) of this text in its list; or None."""
        if (key, nth) in self._by_text:
            return self._by_text[key, nth]
        named = self._by_id.get(document.id or "")
        if named is None or not (key and named.key):
            return named
        # A reranker, say, that puts the title before each text; a text told twice is two passages.
        return named if key != named.key and (key in named.key or named.key in key) else None


def _counted(items: Iterable[T], words: Callable[[T], str]) -> Iterator[tuple[T, str, int]]:
    """Each item with its text's matching form and how many of that text came before it."""
    before: dict[str, int] = {}
    for item in items:
        key = folded(words(item))
        nth = before.get(key, 0)
        yield item, key, nth
        before[key] = nth + 1


def _words(document: Document) -> str:
    return document.text.value if document.text is not None else ""


def _within(document: Document, seen: Seen, found: Iterable[_Known]) -> _Known | None:
    """The retrieved document that one handed over later holds, dressed up for the prompt with a title, say."""
    if document.text is None or seen.reading.role in {"retrieval", "rerank"}:
        return None
    key = folded(document.text.value)
    near = (k for k in islice(found, _MANY) if len(k.key) >= _SAME and k.key in key)
    return max(near, key=lambda k: len(k.key), default=None)


def _unlabelled(documents: Sequence[Document]) -> Sequence[Document]:
    """Documents without the numbers written before them, where all of them are numbered on."""
    labels = [_LABELLED.match(d.text.value) if d.text else None for d in documents]
    numbers = [int(m.group(1)) for m in labels if m is not None]
    if not numbers or len(numbers) < len(documents) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return documents
    pairs = zip(documents, labels, strict=True)
    return [replace(d, text=replace(d.text, value=d.text.value[m.end() :])) for d, m in pairs if d.text and m]


def _facts(document: Document) -> Mapping[str, Any]:
    return {"score": document.score, "metadata": document.metadata, "timestamp": document.timestamp}


# --- what the model was shown -----------------------------------------------------------------------------------------


def shown(final: Seen | None, named: Seen | None) -> Iterator[_Shown]:
    """The prompt's own texts: its named context, what the user said last, the instructions."""
    messages = final.reading.messages if final is not None else ()
    spoken = [m for m in messages if m.text is not None]
    if named is not None:
        for name in _CONTEXTS:
            said = named.reading.variables.get(name)
            if said is not None and _belongs(said, spoken):
                yield _Shown(said, named, holds_nothing_else=True)
    if final is None:
        return
    asked = [m for m in spoken if m.role == "user"][-1:]
    for message in (*asked, *(m for m in reversed(spoken) if m.role == "system")):
        if message.text is not None:
            yield _Shown(message.text, final)


def _belongs(said: Said, spoken: Sequence[Message]) -> bool:
    """Whether a named part went into this prompt, as far as the prompt is there to tell."""
    heard = [m.text.value for m in spoken if m.text is not None and m.text.legible]
    start = said.value.strip()[:_SAME]
    return not heard or any(start in words for words in heard)


def tool_results(request: Request, final: Seen | None) -> Iterator[_Shown]:
    """What tools answered after the user spoke last; from the tools' own spans where the prompt does not tell."""
    found = []
    if final is not None:
        messages = final.reading.messages
        asked = max((at for at, m in enumerate(messages) if m.role == "user" and m.text is not None), default=-1)
        answers = (tool for message in messages[asked + 1 :] for tool in message.tools)
        found = [_Shown(t.result, final, holds_nothing_else=True, documents=t.documents) for t in answers if t.result]
    if not found:
        ran = ((s, s.reading.tool) for s in request.of("tool"))
        found = [_Shown(t.result, s, holds_nothing_else=True, documents=t.documents) for s, t in ran if t and t.result]
    yield from found


def _blocks(final: Seen | None) -> list[tuple[int, Document]]:
    """Passages handed over as blocks, with their position among all blocks.

    Those beside the last question where it has any, else all; and whatever the reply cites.
    """
    if final is None:
        return []
    messages = final.reading.messages
    handed = [(m, d) for m in messages for d in m.documents]
    last = next((m for m in reversed(messages) if m.role == "user" and m.text is not None), None)
    own = last if last is not None and last.documents else None
    cited = {m.document for m in final.reading.citations}
    return [(at, d) for at, (m, d) in enumerate(handed) if d.text and (own is None or m is own or at in cited)]


def holds_passages(seen: Seen) -> bool:
    """Whether a generation was given passages in its own prompt."""
    if any(m.documents for m in seen.reading.messages):
        return True
    texts = (s.said for s in shown(seen, seen) if s.said.legible)
    return any(numbered(said.value) for said in texts)


# --- passages out of texts -------------------------------------------------------------------------------------------


def _in_texts(texts: Iterable[_Shown], known: Sequence[_Known], spans: dict[str, tuple[Span, ...]]) -> list[_Found]:
    """The passages of the first of these texts that holds any."""
    for shown in texts:
        found, where = _in_text(shown, known)
        if found:
            spans[shown.said.value] = where
            return found
    return []


def _in_tools(
    tools: Iterable[_Shown], known: Sequence[_Known], spans: dict[str, tuple[Span, ...]]
) -> list[list[_Found]]:
    """The passages of every tool's result: numbered, listed, else the result itself."""
    found: list[list[_Found]] = []
    for shown in tools:
        inside, where = _in_text(shown, known) if shown.said.legible else ([], ())
        if inside:
            spans[shown.said.value] = where
        listed = [
            _enriched(_Found(d.text, shown.seen, id=d.id, facts=_facts(d)), known) for d in shown.documents if d.text
        ]
        found.append(inside or listed or [_Found(shown.said, shown.seen)])
    return found


def _in_text(shown: _Shown, known: Sequence[_Known]) -> tuple[list[_Found], tuple[Span, ...]]:
    """The passages a text numbers; else the known ones it holds, in its order."""
    prompt = shown.said.value
    written = [k for k in known if k.document.text is not None and k.document.text.legible]
    where = places([k.document.text.value if k.document.text else "" for k in written], prompt)
    spans = [span for span in where if span is not None]
    entries = numbered(prompt, spans, loose=shown.holds_nothing_else)
    if entries:
        return [_entry(e, shown, known) for e in entries], tuple((e.start, e.end) for e in entries)
    inside: dict[Span, _Known] = {}
    for span, k in zip(where, written, strict=True):
        if span is not None:
            inside.setdefault(span, k)
    found = [_Found(part(shown.said, prompt[a:b]), shown.seen, known=inside[a, b]) for a, b in sorted(inside)]
    return found, tuple(sorted(spans))


def _entry(entry: Entry, shown: _Shown, known: Sequence[_Known]) -> _Found:
    found = _Found(part(shown.said, entry.text), shown.seen, entry.number, entry.id)
    return _enriched(found, known)


def _enriched(found: _Found, known: Sequence[_Known]) -> _Found:
    """A passage with what the trace records of it: the same text, the same id, or a text within its own."""
    key = folded(found.said.value)
    equal = [k for k in known if k.key and k.key == key]
    same = next((k for k in equal if found.id and k.document.id == found.id), next(iter(equal), None))
    same = same or next((k for k in known if found.id and k.document.id == found.id and k.key in key), None)
    if same is None:
        near = (k for k in islice(known, _MANY) if len(k.key) >= _SAME or 2 * len(k.key) > len(key) > 0)
        same = max((k for k in near if k.key in key), key=lambda k: len(k.key), default=None)
        if same is not None and same.document.text is not None:
            found = replace(found, said=part(found.said, same.document.text.value))
    return replace(found, known=same)


def _unnumbered(texts: Iterable[_Shown]) -> Iterator[_Found]:
    """A context that is one piece: a named part, or what stands under a heading."""
    for shown in texts:
        span = (0, len(shown.said.value)) if shown.holds_nothing_else else context_section(shown.said.value)
        if span is not None:
            yield _Found(part(shown.said, shown.said.value[slice(*span)].strip()), shown.seen)
            return


# --- passages --------------------------------------------------------------------------------------------------------


def _apart(lists: Iterable[Sequence[_Found]], known: Iterable[_Known]) -> list[_Found]:
    """Each passage once: a text shown in two lists is one, what one list repeats is as many as its markers count.

    Passages that repeat are those the trace records of that text, in its order.
    """
    twins: dict[str, list[_Known]] = {}
    for one in known:
        twins.setdefault(one.key, []).append(one)
    apart: dict[tuple[str, int], _Found] = {}
    for listed in lists:
        for found, key, nth in _counted((f for f in listed if f.said.value.strip()), lambda f: f.said.value):
            twin = next(iter(twins.get(key, ())[nth : nth + 1]), found.known)
            named = found.known is not None and found.known.document.id == found.id != (twin and twin.document.id)
            apart.setdefault((key, nth), replace(found, known=found.known if named else twin))
    return list(apart.values())


def _passages(found: Sequence[_Found], ref: Ref) -> Context:
    """Passages with unique ids, ranked by their numbers where these tell them apart, else in order."""
    given = [f.number for f in found if f.number is not None]
    unique = len(set(given)) == len(given)
    ahead = iter(range(max(given, default=0) + 1, max(given, default=0) + len(found) + 1))
    ranks = (
        [f.number if f.number is not None else next(ahead) for f in found] if unique else list(range(1, len(found) + 1))
    )
    taken: set[str] = set()
    passages, origins = [], []
    for at, (one, rank) in enumerate(sorted(zip(found, ranks, strict=True), key=lambda pair: pair[1])):
        passages.append(_passage(one, rank, taken, ref))
        origins.append(
            Origin.trusted(field=f"context[{at}]", span_id=sound(one.seen.span.id), attribute=sound(one.said.attribute))
        )
    remedy = "number the passages of a turn through, over all tools' results"
    doubt = None if unique else gap("citations", "ambiguous_numbering", remedy)
    return Context(tuple(passages), tuple(origins), doubt=doubt, counted=bool(given) and unique)


def _passage(found: _Found, rank: int, taken: set[str], ref: Ref) -> Passage:
    document = found.known.document if found.known is not None else None
    target = found.known.target if found.known is not None else None
    facts = _facts(document) if document is not None else dict(found.facts)
    ident = (document.id if document is not None else None) or found.id
    return Passage.trusted(
        id=unique_id(sound(ident) if ident else content_id("p", found.said.value), taken),
        text=sound(found.said.value),
        rank=rank,
        retrieval_rank=found.known.retrieval_rank if found.known is not None else None,
        score=facts.get("score"),
        timestamp=sound(facts["timestamp"]) if facts.get("timestamp") else None,
        metadata=plain_facts(facts.get("metadata") or {}),
        target=(Ref(ref.platform, ref.project, ref.trace_id, sound(target[0].span.id)), target[1]) if target else None,
    )


def content_id(kind: str, text: str) -> str:
    """An id that is the same wherever the same text is.

    >>> content_id("p", "The Moon.") == content_id("p", "the  moon.")
    True
    """
    return f"{kind}-{hashlib.sha256(folded(text).encode('utf-8', 'replace')).hexdigest()[:12]}"


def unique_id(ident: str, taken: set[str]) -> str:
    """An id none of the others has: `#2`, `#3` ... is appended to one that is taken.

    >>> unique_id("a", {"a"})
    'a#2'
    """
    free = ident
    count = 1
    while free in taken:
        count += 1
        free = f"{ident}#{count}"
    taken.add(free)
    return free


# --- what is not known -----------------------------------------------------------------------------------------------


def _doubt(found: Sequence[_Found], texts: Iterable[_Shown], known: Sequence[_Known]) -> Gap | None:
    """A doubt about the numbers: the order is the retriever's, and what is left of the prompt does not show it."""
    if any(f.number is not None for f in found):
        return None
    cut = next((s for s in texts if s.said.state == "truncated"), None)
    if cut is None:
        return None
    written = [k.document.text.value for k in known if k.document.text is not None]
    visible = [span for span in places(written, cut.said.value) if span is not None]
    in_order = visible == sorted(visible) and None not in places(written[: len(visible)], cut.said.value)
    return None if visible and in_order else lost("citations", "truncated", cut.said.remedy)


def _nothing(request: Request, final: Seen | None, known: Sequence[_Known], shown: Sequence[_Shown]) -> Gap | None:
    """Why there are no passages; None where a retrieval was seen and returned nothing."""
    retrievals = [
        s for s in request.seen if s.reading.role in {"retrieval", "rerank"} or s.reading.documents is not None
    ]
    if not known and any(s.reading.documents == () for s in retrievals):
        return None
    hidden = next((s.said for s in shown if not s.said.legible), None)
    if hidden is not None:
        return lost("context", hidden.state, hidden.remedy)
    for seen in (*retrievals, *([final] if final is not None else ())):
        if seen.reading.content != "present":
            return lost("context", seen.reading.content, seen.reading.remedy)
    if retrievals:
        remedy = next((s.reading.remedy for s in retrievals if s.reading.remedy), "")
        return lost("context", "off", remedy or _NO_TEXTS)
    if final is not None and final.span.status == "error":
        return gap("context", "error", "the request failed before anything was retrieved: there is nothing to judge")
    remedy = (
        "no retrieval, tool result or passage in a prompt is in the trace: instrument the retriever, if there is one"
    )
    return gap("context", "not_instrumented", remedy)
