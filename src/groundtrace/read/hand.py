"""Records made by hand: a query, its passages and the answer, as a program or a file has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from groundtrace.citations import cite
from groundtrace.model import Citation, Gap, Kind, Mention, Passage, Record, Ref, Risk, Signal, Turn
from groundtrace.read.gaps import Field, gap, lost
from groundtrace.read.given import TEXTS, check
from groundtrace.read.ids import content_id, unique_id
from groundtrace.read.masks import holds_mask, is_mask
from groundtrace.read.plain import facts, plain, sound

T = TypeVar("T")

_WORDS: Mapping[Kind, Mapping[Field, str]] = {"summary": {"context": "source", "answer": "summary"}}
_TAKEN = {*TEXTS, "id", "score", "timestamp", "metadata", "rank"}


def record(
    query: str | None = None,
    context: Sequence[str | Mapping[str, Any] | Passage] | None = (),
    answer: str | None = None,
    *,
    id: str | None = None,  # noqa: A002 - it is the record's own word, in files too
    citations: Sequence[Citation | Mention | Mapping[str, Any]] | None = None,
    history: Iterable[Turn | tuple[str, str]] = (),
    key_facts: Iterable[str] = (),
    kind: Kind = "answer",
    slices: Mapping[str, str] | None = None,
    tags: Iterable[str] = (),
    risk: Risk = "normal",
    signals: Iterable[Signal] = (),
    ref: Ref | None = None,
) -> Record:
    """Make a record by hand: what was asked, what was retrieved for it, what was answered.

    A record of kind "summary" has its source as the context and the summary as the answer; it needs no query.
    Passages are texts, objects with a `text` (and `id`, `score`, `timestamp`, `metadata`), or Passages; they count
    from 1 as the answer's markers do. `context=[]` says that nothing was retrieved, `context=None` that it is not
    known. Citations are read from the answer unless they are given. Whatever is not given, or masked, is a gap.
    A TypeError says what is of a wrong type, a ValueError what word is unknown or which Citation given does not lie
    in the answer; both say what is wanted.

    >>> made = record("How far?", [{"id": "moon", "text": "The Moon is 384,400 km away."}], "384,400 km [1].")
    >>> [(c.marker, c.passage_id) for c in made.citations], made.gaps
    ([('[1]', 'moon')], ())
    >>> record(context=["The source."], answer="A summary.", kind="summary", key_facts=["It is a source."]).gaps
    ()
    """
    history, key_facts, tags = _listed(history), _listed(key_facts), _listed(tags)
    lists = {"citations": citations, "history": history, "key_facts": key_facts, "slices": slices, "tags": tags}
    check(query, context, answer, kind=kind, risk=risk, ident=id, **lists)
    return made(
        query,
        context,
        answer,
        id=id,
        citations=citations,
        history=history,
        key_facts=key_facts,
        kind=kind,
        slices=slices,
        tags=tags,
        risk=risk,
        signals=tuple(signals),
        ref=ref,
        make=Record,
    )


def made(
    query: str | None,
    context: Sequence[str | Mapping[str, Any] | Passage] | None,
    answer: str | None,
    *,
    id: str | None,  # noqa: A002 - as above
    citations: Sequence[Citation | Mention | Mapping[str, Any]] | None,
    history: Iterable[Turn | tuple[str, str]],
    key_facts: Iterable[str],
    kind: Kind,
    slices: Mapping[str, str] | None,
    tags: Iterable[str],
    risk: Risk,
    signals: tuple[Signal, ...] = (),
    ref: Ref | None = None,
    make: Callable[..., Record] = Record.trusted,
) -> Record:
    """As `record`, of what is known to be of the right types: of that nothing is asked again."""
    texts = [_written(item) for item in context or ()]
    ident = sound(id) if id else _made_id(query, texts, answer)
    lacks = {g.field: g for g in _gaps(query, None if context is None else texts, answer, kind)}
    passages = () if "context" in lacks else _passages(context or (), texts)
    answer = None if "answer" in lacks else _text(answer)
    query = None if "query" in lacks else _text(query)
    return make(
        id=ident,
        ref=ref or Ref("record", trace_id=ident),
        targets={},
        kind=kind,
        query=query,
        context=passages,
        answer=answer,
        citations=_citations(answer, passages, citations),
        history=tuple([t if isinstance(t, Turn) else Turn(role=sound(t[0]), text=sound(t[1])) for t in history]),
        key_facts=tuple([sound(f) for f in key_facts]),
        slices={sound(k): sound(v) for k, v in (slices or {}).items()},
        tags=tuple([sound(t) for t in tags]),
        risk=risk,
        signals=signals,
        gaps=tuple(lacks.values()),
        origins=(),
    )


def _made_id(query: str | None, texts: Iterable[str | None], answer: str | None) -> str:
    told = [_text(query), [sound(text or "") for text in texts], _text(answer)]
    return content_id("r", json.dumps(told, ensure_ascii=False))


def _listed(given: Iterable[T]) -> Iterable[T]:
    """What can be read twice: an iterator as a list, all else as it is."""
    return list(given) if isinstance(given, Iterator) else given


def _text(value: str | None) -> str | None:
    return sound(value) if value and value.strip() else None


def _gaps(query: str | None, texts: Sequence[str | None] | None, answer: str | None, kind: Kind) -> Iterator[Gap]:
    """What a record lacks: what was not given, passages without a text, what is masked in part, or damaged."""
    if query is not None and is_mask(query):
        yield lost("query", "masked")
    elif kind != "summary" and _text(query) is None:
        yield _gap("query", kind)
    told = [text for text in texts or () if text]
    if texts is None:
        yield _gap("context", kind)
    elif any(map(holds_mask, told)):
        yield lost("context", "masked")
    elif None in texts:
        bare = f"context[{texts.index(None)}] holds no text"
        yield gap("context", "not_given", f"give the record its passages' texts ({bare})")
    elif any(sound(text) != text for text in told):
        yield lost("context", "damaged")
    if answer is not None and holds_mask(answer):
        yield lost("answer", "masked")
    elif answer is None or _text(answer) is None:
        yield _gap("answer", kind)
    elif sound(answer) != answer:
        yield lost("answer", "damaged")


def _gap(field: Field, kind: Kind) -> Gap:
    empty = " ([] where nothing was retrieved)" if field == "context" and kind == "answer" else ""
    return gap(field, "not_given", f"give the record its {_WORDS.get(kind, {}).get(field, field)}{empty}")


def _passages(items: Sequence[str | Mapping[str, Any] | Passage], texts: Sequence[str | None]) -> tuple[Passage, ...]:
    taken: set[str] = set()
    made = [
        _passage(item, sound(text or ""), at, taken)
        for at, (item, text) in enumerate(zip(items, texts, strict=True), start=1)
    ]
    if len({p.rank for p in made}) < len(made):
        made = [p.model_copy(update={"rank": at}) for at, p in enumerate(made, start=1)]
    return tuple(made)


def _written(item: str | Mapping[str, Any] | Passage) -> str | None:
    """The text of a passage; None where it has none, "" where it was seen to be empty."""
    if isinstance(item, str):
        return str(item)
    if isinstance(item, Passage):
        return item.text
    return next((str(item[k]) for k in TEXTS if item.get(k) is not None), None)


def _passage(item: str | Mapping[str, Any] | Passage, text: str, rank: int, taken: set[str]) -> Passage:
    if isinstance(item, Passage):
        return item.model_copy(update={"id": unique_id(item.id, taken)})
    ident = score = when = None
    known: dict[str, Any] = {}
    if not isinstance(item, str):
        ident, score, when = item.get("id"), plain(item.get("score")), item.get("timestamp")
        metadata = item.get("metadata")
        beside = metadata if isinstance(metadata, Mapping) else {k: v for k, v in item.items() if k not in _TAKEN}
        known = facts(beside)
    make = Passage.trusted if score is None else Passage  # all else is a text by now, or plain
    return make(
        id=unique_id(content_id("p", text) if ident in {None, ""} else sound(str(ident)), taken),
        text=text,
        rank=rank,
        retrieval_rank=None,
        score=score if isinstance(score, (int, float)) and not isinstance(score, bool) else None,
        timestamp=None if when is None else sound(str(when)),
        metadata=known,
        target=None,
    )


def _citations(
    answer: str | None, passages: Sequence[Passage], given: Sequence[Citation | Mention | Mapping[str, Any]] | None
) -> tuple[Citation, ...]:
    """The answer's citations: those given, else those its markers make."""
    if answer is None:
        return ()
    if given is None:
        return cite(answer, passages)
    known = {p.id for p in passages}
    own = [_checked(c, answer, known) for c in given if isinstance(c, Citation)]
    mentions = [m if isinstance(m, Mention) else _mention(m) for m in given if isinstance(m, (Mention, Mapping))]
    cited = cite(answer, passages, mentions)
    made = [c for c in cited if c.origin == "structured" or any(_points_at(m, c, answer) for m in mentions)]
    return tuple(sorted((*own, *made), key=lambda c: c.start))


def _checked(citation: Citation, answer: str, known: Collection[str]) -> Citation:
    """A citation that lies in the answer, and points nowhere where it points to no passage."""
    places = ((citation.start, citation.end), (citation.claim_start, citation.claim_end))
    if not all(0 <= start <= end <= len(answer) for start, end in places):
        remedy = f"give start, end, claim_start and claim_end as code points of the answer, 0 to {len(answer)}"
        raise ValueError(f"a citation lies outside of the answer: {citation!r}; {remedy}")
    return citation if citation.passage_id in known else citation.model_copy(update={"passage_id": None})


def _points_at(mention: Mention, citation: Citation, answer: str) -> bool:
    """Whether what was given is the place of a mark in the answer, and no claim of its own."""
    start, end = mention.start, mention.end if mention.end is not None else mention.start
    if start is None or end is None or not (start <= citation.end and citation.start <= end):
        return mention.claim is not None and mention.claim.strip() == citation.marker
    beside = answer[start : citation.start] + answer[citation.end : end]
    return not any(c.isalnum() for c in beside)


def _mention(given: Mapping[str, Any]) -> Mention:
    start, end = given.get("start"), given.get("end")
    placed = isinstance(start, int) and isinstance(end, int) and 0 <= start <= end
    texts = {k: sound(v) for k in ("claim", "passage_id", "quote") if isinstance(v := given.get(k), str)}
    return Mention(
        start=start if placed else None,
        end=end if placed else None,
        claim=texts.get("claim"),
        document_id=texts.get("passage_id"),
        quote=texts.get("quote"),
        attribute="citations",
    )
