"""A score as Phoenix's annotations: where they go, what is sent, and what one that is there says of itself.

Every score is on the span of the answer. The rubric's own is on that of the request too, which Phoenix's tables show,
and on the trace and, as one of its turns, on the session: more than two or three chips are hidden behind a number
there, the worst first. A passage's score is on its document in the retriever's span. An annotation that is there under
the same name and identifier is replaced by Phoenix itself.

In its metadata stands which content it is, whose word it is and which number was written: a score that is not that
number is one somebody edited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from groundtrace.adapters.facts import cut, facts_of, sound
from groundtrace.adapters.ledger import Stamp, stamp, stamp_of
from groundtrace.adapters.phoenix.api import Row as Told
from groundtrace.adapters.phoenix.said import OURS, name_of, number, result_of
from groundtrace.adapters.published import NEEDS_REVIEW, NOT_ASSESSED, Result
from groundtrace.model import Finding, Scorecard

Kind: TypeAlias = Literal["span", "trace", "session", "document"]

EXPLANATION = 10_000
"""Bytes of an explanation: no limit of Phoenix's is known; the store has the whole text."""

UNSCORED = "unscored"
"""The label of a card that could not be judged."""

SUPPORTED, UNSUPPORTED = "supported", "unsupported"
"""Labels of the second score of a document, of which Phoenix makes its metrics of retrieval: any number but 0 counts as
relevant there, and so would the least of 1 to 5."""

_HELD = "groundtrace"
"""Where in the metadata of an annotation our own facts stand."""

_ANNOTATORS = {"llm": "LLM", "offline": "CODE", "human": "HUMAN"}
_DIGITS = 6
_SPAN, _TRACE = re.compile("[0-9a-f]{16}"), re.compile("[0-9a-f]{32}")
_DOCUMENTS = "source_support"
"""The rubric whose findings are about passages."""


class Place(NamedTuple):
    """What an annotation is on; `position` is a document's."""

    kind: Kind
    ident: str
    position: int | None = None


class Said(NamedTuple):
    """What an annotation says."""

    value: float | None
    label: str | None
    why: str = ""


class Annotation(NamedTuple):
    """One annotation that is due, and the result it tells."""

    place: Place
    name: str
    identifier: str
    result: Result
    body: Mapping[str, Any]

    @property
    def key(self) -> tuple[Place, str, str]:
        """What tells it apart on Phoenix."""
        return self.place, self.name, self.identifier


class Row(NamedTuple):
    """An annotation of ours as Phoenix gives it back."""

    place: Place
    name: str
    identifier: str
    score: float | None
    stamp: Stamp
    card_id: str
    edited: bool
    """Whether somebody changed what was written."""
    request: str
    low: float | None
    high: float | None
    told: Told

    @property
    def key(self) -> tuple[Place, str, str]:
        """What tells it apart on Phoenix."""
        return self.place, self.name, self.identifier


# --- where they go ----------------------------------------------------------------------------------------------------


def identifier(card: Scorecard, kind: Kind = "span") -> str:
    """What our annotations of a card are found by: the rubric, and where several requests may share a place, whose.

    Phoenix shows the mean of those that share a name, so a session shows that of its turns.
    """
    own = f"{OURS}{card.rubric}"
    return own if kind == "span" else f"{own}:{card.ref.span_id or card.ref.trace_id}"


def spans_of(card: Scorecard) -> tuple[str, ...]:
    """The spans that get a card's scores: the request's, if that is another, and the answer's."""
    refs = [card.targets.get("root") or card.ref, card.targets.get("answer")]
    found = dict.fromkeys(ref.span_id for ref in refs if ref is not None and ref.span_id)
    return tuple(ident for ident in found if _SPAN.fullmatch(ident))


def placeless(card: Scorecard) -> str | None:
    """Why a card has no place on Phoenix, by its ids; None where it may have one."""
    if not _TRACE.fullmatch(card.ref.trace_id):
        return f"{card.ref.trace_id!r} is no id of a trace"
    return None if spans_of(card) else f"{card.ref.span_id!r} is no id of a span"


def of_result(card: Scorecard, result: Result) -> Iterator[Annotation]:
    """The annotations of a result that are read back: on spans, and the rubric's own on the trace."""
    *above, answer = spans_of(card)
    yield _made(card, result, Place("span", answer))
    if is_whole(card, result):
        for ident in above:
            yield _made(card, result, Place("span", ident))
        yield _made(card, result, Place("trace", card.ref.trace_id))


def of_session(card: Scorecard, result: Result) -> Iterator[Annotation]:
    """The annotation of a result on its session, where it has one."""
    session = next(
        (ref.keys["session_id"] for ref in (card.ref, *card.targets.values()) if "session_id" in ref.keys), ""
    )
    if session and is_whole(card, result):
        yield _made(card, result, Place("session", session))


def is_whole(card: Scorecard, result: Result) -> bool:
    """Whether a result speaks for its whole card: the rubric's own score, or what stands for it."""
    name = f"{card.rubric}.assessed" if card.partial and card.status == "scored" else card.rubric
    return result.score == name


def of_documents(card: Scorecard, result: Result) -> Iterator[Annotation]:
    """The annotations of the passages a card speaks of, each with its support and whether there is any.

    A passage no claim was held against has a label and no number; with it Phoenix's metrics of retrieval show none.
    """
    if card.rubric != _DOCUMENTS or not is_whole(card, result):
        return
    for ident, (span, position) in card.retrieved.items():
        if not _SPAN.fullmatch(span):
            continue
        place = Place("document", span, position)
        if card.status != "scored":
            label = NEEDS_REVIEW if card.status == "pending_review" else UNSCORED
            for name in (_DOCUMENTS, SUPPORTED):
                yield _document(card, result, place, name, Said(None, label))
            continue
        pairs = [one for one in card.findings if one.status == "scored" and one.details.get("source_id") == ident]
        yield from _supports(card, result, place, pairs)


def _supports(card: Scorecard, result: Result, place: Place, pairs: Sequence[Finding]) -> Iterator[Annotation]:
    if not pairs:
        why = "no claim of the answer was held against this passage"
        for name in (_DOCUMENTS, SUPPORTED):
            yield _document(card, result, place, name, Said(None, NOT_ASSESSED, why))
        return
    best = max(pairs, key=lambda one: one.value or 0.0)
    claims = [str(one.details.get("claim") or "") for one in pairs]
    told = f"{best.details.get('claim')!r}: {best.rationale}"
    held = f"the best of {len(claims)} claims; {told}" if len(claims) > 1 else told
    yield _document(card, result, place, _DOCUMENTS, Said(best.value, best.label, held))
    source = card.details.get("sources", {}).get(best.details.get("source_id"), {})
    backs = float(source.get("share_supported") or 0.0) > 0
    label = SUPPORTED if backs else UNSUPPORTED
    yield _document(card, result, place, SUPPORTED, Said(float(backs), label, held))


# --- what is sent -----------------------------------------------------------------------------------------------------


def _made(card: Scorecard, result: Result, place: Place) -> Annotation:
    name, found = name_of(result.score), identifier(card, place.kind)
    label = result.label if result.label or result.value is not None else UNSCORED
    why = result.explanation
    if result.error and result.error not in why:
        why = f"{result.error}: {why}" if why else result.error
    body = _body(card, result, place, name, Said(result.value, label, why))
    return Annotation(place, name, found, result, {**body, "identifier": found})


def _document(card: Scorecard, result: Result, place: Place, name: str, said: Said) -> Annotation:
    """An annotation of a document, for which Phoenix takes no identifier."""
    return Annotation(place, name, "", result, _body(card, result, place, name, said))


def _body(card: Scorecard, result: Result, place: Place, name: str, said: Said) -> dict[str, Any]:
    value, why = _number(said.value), cut(sound(said.why or ""), EXPLANATION)
    held = facts_of(card, result) | {"score": result.score, "value": value, "request": card.ref.span_id or ""}
    made: dict[str, Any] = {
        f"{place.kind}_id": place.ident,
        "name": name,
        "annotator_kind": _ANNOTATORS[card.judge_kind],
        "result": {"score": value, "label": sound(said.label) if said.label else None, "explanation": why or None},
        "metadata": {_HELD: held},
    }
    if place.position is not None:
        made["span_id"] = made.pop("document_id")
        made["document_position"] = place.position
    return made


def _number(value: float | None) -> float | None:
    return None if value is None else round(float(value), _DIGITS)


# --- what is there ----------------------------------------------------------------------------------------------------


def row_of(kind: Kind, told: Told) -> Row | None:
    """An annotation of ours in what Phoenix listed; None where it is somebody else's."""
    found = str(told.get("identifier") or "")
    if not found.startswith(OURS):
        return None
    metadata = told.get("metadata")
    kept = metadata.get(_HELD) if isinstance(metadata, Mapping) else None
    held = kept if isinstance(kept, Mapping) else {}
    score = number(result_of(told).get("score"))
    written = number(held.get("value"))
    return Row(
        place=Place(kind, str(told.get(f"{kind}_id"))),
        name=str(told.get("name")),
        identifier=found,
        score=score,
        stamp=stamp(str(held.get("content_hash") or ""), held.get("judge_kind"), held.get("status"), _named(held)),
        card_id=str(held.get("card_id") or ""),
        edited=not held or told.get("source") == "APP" or not same(score, written),
        request=str(held.get("request") or ""),
        low=number(held.get("low")),
        high=number(held.get("high")),
        told=told,
    )


def _named(held: Mapping[str, Any]) -> str:
    return str(held.get("score") or "")


def due_of(card: Scorecard, result: Result) -> Stamp:
    """The stamp of a result about to be written, as a row tells it."""
    return stamp_of(card, result.content_hash, result.score)


def same(one: float | None, other: float | None) -> bool:
    """Whether two scores are one, in the decimals that are written."""
    return one is other or (one is not None and other is not None and abs(one - other) < 10**-_DIGITS)
