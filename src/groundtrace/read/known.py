"""The documents a trace records for a request: each once, with all that is known of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from groundtrace.model import Document
from groundtrace.read.tree import Request, Seen
from groundtrace.text import folded

T = TypeVar("T")

SAME = 40
"""Characters of a passage that tell it from others."""

MANY = 200
"""Documents looked for inside other texts."""

_LABELLED = re.compile(r"\s*[\[【](\d{1,3})[\]】][:.]?\s+")
_MOST = 10_000  # more than any retriever returns: a bound for hostile traces


class Known(msgspec.Struct, eq=False, gc=False):
    """A document as the trace records it somewhere, with all that is known of it."""

    document: Document
    seen: Seen
    key: str
    retrieval_rank: int | None = None
    target: tuple[Seen, int] | None = None


def known_of(request: Request) -> list[Known]:
    """Every document recorded for the request, once: as reranked, as retrieved, as handed over, as a tool listed it."""
    once = _told_once(request)
    if once is not None:
        return once
    retrieved = _Told()
    for seen in request.of("retrieval"):
        for at, (document, key, nth) in enumerate(counted(seen.reading.documents or (), words_of)):
            known = retrieved.same(document, key, nth)
            if known is None:
                retrieved.add(Known(document, seen, key, at + 1, (seen, at)), nth)
            elif known.target is not None and known.target[0] in seen.above():
                # A function around a retriever hands on what it found: feedback belongs to the retriever itself.
                known.retrieval_rank, known.target = at + 1, (seen, at)
    told = _Told()
    ordered = [*request.of("rerank"), *request.of("retrieval"), *request.of("request", "agent", "generation", "other")]
    listed = [(s, _unlabelled(s.reading.documents or ())) for s in ordered]
    listed += [(s, s.reading.tool.documents) for s in request.of("tool") if s.reading.tool is not None]
    inside = {s.place for s, documents in listed if documents and _is_step(s)}
    for seen, documents in sorted(listed, key=lambda pair: pair[0].place in inside):
        for document, key, nth in counted(documents, words_of):
            same = told.same(document, key, nth) or _within(document, seen, told.all)
            if same is not None:
                told.unite(same, document)
            if same is not None or seen.place in inside:
                continue
            place = retrieved.same(document, key, nth)
            rank, target = (place.retrieval_rank, place.target) if place is not None else (None, None)
            told.add(Known(document, seen, key, rank, target), nth)
    return told.all[:_MOST]


def _told_once(request: Request) -> list[Known] | None:
    """The documents of the one retriever that told any; None where they must be held against others."""
    holding = [s for s in request.seen if s.reading.documents or (s.reading.tool and s.reading.tool.documents)]
    if len(holding) != 1 or holding[0].reading.role != "retrieval":
        return None
    seen, documents = holding[0], holding[0].reading.documents or ()
    bare = _unlabelled(documents)
    ids = [document.id for document in bare if document.id]
    unique = len({*ids}) == len(ids)
    if request.of("rerank", "tool") and (not unique or bare is not documents or _is_step(seen)):
        return None
    if unique:
        return [Known(d, seen, folded(words_of(d)), at + 1, (seen, at)) for at, d in enumerate(bare[:_MOST])]
    told = _Told()
    for at, (document, key, nth) in enumerate(counted(bare, words_of)):
        same = told.same(document, key, nth)
        if same is not None:
            told.unite(same, document)
        else:
            told.add(Known(document, seen, key, at + 1, (seen, at)), nth)
    return told.all[:_MOST]


def _is_step(seen: Seen) -> bool:
    """Whether it is a step of a retrieval, which alone says what was handed on: the rest was filtered out."""
    return any(s.reading.role == "retrieval" and s.reading.documents is not None for s in seen.above())


class _Told:
    """Documents by what tells them apart: their text; their id only where one of two is told without a text.

    Texts that repeat within a list are told apart by their count there, for the markers count each of them.
    """

    def __init__(self) -> None:
        self.all: list[Known] = []
        self._by_text: dict[tuple[str, int], Known] = {}
        self._by_id: dict[str, Known] = {}

    def add(self, known: Known, nth: int) -> None:
        self.all.append(known)
        if known.key:
            self._by_text.setdefault((known.key, nth), known)
        if known.document.id:
            self._by_id.setdefault(known.document.id, known)

    def unite(self, known: Known, document: Document) -> None:
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
            known.key = folded(words_of(known.document))
            self._by_text.setdefault((known.key, 0), known)

    def same(self, document: Document, key: str, nth: int) -> Known | None:
        """The document among these that this one is, the nth (from 0) of this text in its list; or None."""
        if (key, nth) in self._by_text:
            return self._by_text[key, nth]
        named = self._by_id.get(document.id or "")
        if named is None or not (key and named.key):
            return named
        # A reranker, say, that puts the title before each text; a text told twice is two passages.
        return named if key != named.key and (key in named.key or named.key in key) else None


def counted(items: Iterable[T], words: Callable[[T], str]) -> list[tuple[T, str, int]]:
    """Each item with its text's matching form and how many of that text came before it."""
    before: dict[str, int] = {}
    found = []
    for item in items:
        key = folded(words(item))
        nth = before.get(key, 0)
        before[key] = nth + 1
        found.append((item, key, nth))
    return found


def words_of(document: Document) -> str:
    """A document's text, as far as it is there."""
    return document.text.value if document.text is not None else ""


def _within(document: Document, seen: Seen, found: Iterable[Known]) -> Known | None:
    """The retrieved document that one handed over later holds, dressed up for the prompt with a title, say."""
    if document.text is None or seen.reading.role in {"retrieval", "rerank"}:
        return None
    key = folded(document.text.value)
    near = (k for k in islice(found, MANY) if len(k.key) >= SAME and k.key in key)
    return max(near, key=lambda k: len(k.key), default=None)


def _unlabelled(documents: Sequence[Document]) -> Sequence[Document]:
    """Documents without the numbers written before them, where all of them are numbered on."""
    if not documents or documents[0].text is None or _LABELLED.match(documents[0].text.value) is None:
        return documents
    labels = [_LABELLED.match(d.text.value) if d.text else None for d in documents]
    numbers = [int(m.group(1)) for m in labels if m is not None]
    if not numbers or len(numbers) < len(documents) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return documents
    pairs = zip(documents, labels, strict=True)
    return [replace(d, text=replace(d.text, value=d.text.value[m.end() :])) for d, m in pairs if d.text and m]


def facts_of(document: Document) -> Mapping[str, Any]:
    """What is known of a document beside its text and id."""
    return {"score": document.score, "metadata": document.metadata, "timestamp": document.timestamp}
