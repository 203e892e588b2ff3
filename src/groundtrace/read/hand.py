"""Records made by hand: a query, its passages and the answer, as a program or a file has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groundtrace.citations import cite
from groundtrace.model import Citation, Gap, Kind, Mention, Passage, Record, Ref, Risk, Signal, Turn
from groundtrace.read.context import content_id, unique_id
from groundtrace.read.plain import facts, plain, sound

_TEXTS = ("text", "content", "page_content")
_TAKEN = {*_TEXTS, "id", "score", "timestamp", "metadata", "rank"}


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

    Passages are texts, objects with a `text` (and `id`, `score`, `timestamp`, `metadata`), or Passages; they count
    from 1 as the answer's markers do. `context=[]` says that nothing was retrieved, `context=None` that it is not
    known. Citations are read from the answer unless they are given. Whatever is not given is a gap.

    >>> made = record("How far?", [{"id": "moon", "text": "The Moon is 384,400 km away."}], "384,400 km [1].")
    >>> [(c.marker, c.passage_id) for c in made.citations], made.gaps
    ([('[1]', 'moon')], ())
    """
    passages = _passages(context or ())
    answer = _text(answer)
    query = _text(query)
    key = json.dumps([query, [p.text for p in passages], answer], ensure_ascii=False)
    ident = sound(id) if id else content_id("r", key)
    given = {"query": query, "context": context, "answer": answer}
    return Record(
        id=ident,
        ref=ref or Ref("record", trace_id=ident),
        kind=kind,
        query=query,
        context=passages,
        answer=answer,
        citations=_citations(answer, passages, citations),
        history=tuple(t if isinstance(t, Turn) else Turn(role=sound(t[0]), text=sound(t[1])) for t in history),
        key_facts=tuple(sound(f) for f in key_facts),
        slices={sound(k): sound(v) for k, v in (slices or {}).items()},
        tags=tuple(sound(t) for t in tags),
        risk=risk,
        signals=tuple(signals),
        gaps=tuple(_gap(name) for name, value in given.items() if value is None),
    )


def _text(value: str | None) -> str | None:
    return sound(value) if value and value.strip() else None


def _gap(name: str) -> Gap:
    empty = " ([] where nothing was retrieved)" if name == "context" else ""
    return Gap.model_validate({"field": name, "reason": "not_given", "remedy": f"give the record its {name}{empty}"})


def _passages(items: Sequence[str | Mapping[str, Any] | Passage]) -> tuple[Passage, ...]:
    taken: set[str] = set()
    made = [_passage(item, at, taken) for at, item in enumerate(items, start=1)]
    if len({p.rank for p in made}) < len(made):
        made = [p.model_copy(update={"rank": at}) for at, p in enumerate(made, start=1)]
    return tuple(made)


def _passage(item: str | Mapping[str, Any] | Passage, rank: int, taken: set[str]) -> Passage:
    if isinstance(item, Passage):
        return item.model_copy(update={"id": unique_id(item.id, taken)})
    item = {"text": item} if isinstance(item, str) else item
    text = next((sound(str(item[k])) for k in _TEXTS if item.get(k) is not None), "")
    ident = item.get("id")
    metadata = item.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {k: v for k, v in item.items() if k not in _TAKEN}
    score = plain(item.get("score"))
    when = item.get("timestamp")
    return Passage(
        id=unique_id(sound(str(ident)) if ident not in {None, ""} else content_id("p", text), taken),
        text=text,
        rank=rank,
        score=score if isinstance(score, (int, float)) and not isinstance(score, bool) else None,
        timestamp=sound(str(when)) if when is not None else None,
        metadata=facts(known),
    )


def _citations(
    answer: str | None, passages: Sequence[Passage], given: Sequence[Citation | Mention | Mapping[str, Any]] | None
) -> tuple[Citation, ...]:
    """The answer's citations: those given, else those its markers make."""
    if answer is None:
        return ()
    if given is None:
        return cite(answer, passages)
    own = [c for c in given if isinstance(c, Citation) and 0 <= c.start <= c.end <= len(answer)]
    mentions = [m if isinstance(m, Mention) else _mention(m) for m in given if isinstance(m, (Mention, Mapping))]
    made = [c for c in cite(answer, passages, mentions) if c.origin == "structured"]
    return tuple(sorted((*own, *made), key=lambda c: c.start))


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
