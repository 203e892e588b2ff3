"""A score as MLflow's assessment: what is sent of it, and what one that is there says of itself.

MLflow makes the ids, so an assessment says in its metadata which score of which card it is, which content and whose
word; by that it is found again and changed. Its source and its span can't be changed, and metadata is only added to:
where the kind of judge changes, a new one is put in the old one's place (`overrides`), which then no longer counts.

A number is a number and a missing one is never null, which MLflow shows as an error: what does not apply says so in
words, what could not be scored is MLflow's own error form with the reason, and so is what a person must decide on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from groundtrace.adapters.facts import cut, facts_of, sound
from groundtrace.adapters.ledger import Stamp, stamp, stamp_of
from groundtrace.adapters.mlflow import api
from groundtrace.adapters.mlflow.said import (
    HUMAN,
    IDENTIFIER,
    SOURCE,
    error_of,
    is_ours,
    metadata,
    source_type,
    value_of,
)
from groundtrace.adapters.published import NEEDS_REVIEW, WITHDRAWN, Result, short
from groundtrace.model import Finding, JudgeKind, Ref, Scorecard, Target

Where: TypeAlias = Literal["trace", "root", "answer", "retrieval"]
"""What of a trace an assessment is put on."""

MOST = 10_000
"""Bytes of a rationale, and of the claims in the metadata: the store has them whole."""

FIELDS = ("feedback", "rationale", "metadata")
"""What is changed of an assessment that is there."""

_TYPES: Mapping[JudgeKind, str] = {"llm": "LLM_JUDGE", "offline": "CODE", "human": HUMAN}
_SHORT = 500
_MARK = "groundtrace."
_HEX = re.compile("[0-9a-f]{32}")
_SPAN = re.compile("[0-9a-f]{16}")
_HUMAN = stamp("", "human", "scored").rank


class Place(NamedTuple):
    """The trace an assessment is of, and the span; no span is the trace as a whole."""

    trace_id: str
    span_id: str | None = None


class Held(NamedTuple):
    """An assessment of ours that is there."""

    id: str
    identifier: str
    score: str
    span_id: str | None
    rationale: str
    stamp: Stamp
    card_id: str
    source_type: str
    names: tuple[str, ...]
    """The names in its metadata that are ours."""
    edited: bool
    """Whether it says another thing than was written."""
    outspoken: bool
    """Whether a person put a word of their own in its place."""


# --- where it goes --------------------------------------------------------------------------------------------------


def place_of(card: Scorecard, target: Where) -> Place | None:
    """What a card's assessments are put on; None where its trace is none of MLflow's.

    >>> from groundtrace.testing import sample_card
    >>> place_of(sample_card(), "root")
    Place(trace_id='tr-00000000000000000000000000000001', span_id='0000000000000001')
    """
    ref = _target(card, target if target != "trace" else "root")
    trace_id = ref.trace_id
    folded = trace_id.lower().replace("-", "")
    if ref.platform != api.PLATFORM and _HEX.fullmatch(folded):
        trace_id = f"tr-{folded}"
    if not trace_id.startswith(("tr-", "trace:")) or "/" in trace_id or "?" in trace_id or "#" in trace_id:
        return None
    named = ref.span_id if target != "trace" and _SPAN.fullmatch(ref.span_id or "") else None
    return Place(trace_id, named)


def _target(card: Scorecard, target: Target) -> Ref:
    return card.targets.get(target) or card.targets.get("root") or card.ref


# --- what is sent ---------------------------------------------------------------------------------------------------


def body(card: Scorecard, result: Result, place: Place) -> dict[str, Any]:
    """The assessment of one result, as it is made."""
    made: dict[str, Any] = {
        "assessment_name": sound(short(result.score)),
        "trace_id": place.trace_id,
        "source": {"source_type": _TYPES[card.judge_kind], "source_id": sound(f"{SOURCE}{card.rubric}")},
        "feedback": feedback(result),
        "rationale": _rationale(card, result),
        "metadata": _facts(card, result),
        "valid": True,
    }
    if place.span_id is not None:
        made["span_id"] = place.span_id
    return made


def feedback(result: Result) -> dict[str, Any]:
    """The value in MLflow's form: a number, a word why there is none, or an error."""
    if result.value is not None:
        return {"value": float(result.value)}
    code = result.error or (result.label if result.label in (NEEDS_REVIEW, WITHDRAWN) else None)
    if code is None:
        return {"value": sound(result.label or "")}
    why = cut(sound(result.explanation or code), _SHORT)
    return {"error": {"error_code": sound(code), "error_message": why}}


def changed(made: Mapping[str, Any], held: Held) -> dict[str, Any]:
    """An assessment as a change of the one that is there: what it no longer says is emptied, for nothing is removed."""
    kept = {name: made[name] for name in FIELDS}
    return {**kept, "metadata": {**dict.fromkeys(held.names, ""), **made["metadata"]}}


def _facts(card: Scorecard, result: Result) -> dict[str, str]:
    """Who judged by what, and which content it is, each as a text."""
    told = facts_of(card, result)
    told |= {"identifier": result.feedback_id, "score": result.score, "written": _word(feedback(result))}
    if card.status == "scored" and result.label != WITHDRAWN:
        told |= {"label": result.label, "claims": _claims(card.findings) if result.score == _first(card) else None}
    return {
        f"{_MARK}{name}": sound(_flat(fact))
        for name, fact in told.items()
        if fact not in (None, "") and fact is not False
    }


def _flat(fact: Any) -> str:
    return ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)


def _first(card: Scorecard) -> str:
    """The score that carries the claims: the headline, or where there is none the first."""
    headline = card.headline
    named = headline if headline is not None and not (card.partial and headline.value is None) else None
    return (named or card.scores[0]).name if card.scores else ""


def _claims(findings: Iterable[Finding]) -> str | None:
    """The findings as JSON in a text, for MLflow shows an object as [object Object]; as many as there is room for."""
    told: list[dict[str, Any]] = []
    room = MOST
    for finding in findings:
        one: dict[str, Any] = {
            "slot": finding.slot,
            "value": finding.value,
            "label": finding.label,
            "why": finding.rationale,
        }
        one |= {"quotes": [found.quote for found in finding.evidence], "unscored": finding.reason}
        short_ = {name: _trimmed(said) for name, said in one.items() if said not in (None, "", [])}
        room -= len(json.dumps(short_, ensure_ascii=False).encode(errors="replace"))
        if room < 0:
            break
        told.append(short_)
    return json.dumps(told, ensure_ascii=False) if told else None


def _trimmed(said: Any) -> Any:
    return (
        [cut(sound(one), _SHORT) for one in said]
        if isinstance(said, list)
        else (cut(sound(said), _SHORT) if isinstance(said, str) else said)
    )


def _rationale(card: Scorecard, result: Result) -> str:
    """Why, after the label, which MLflow has no other place for; and who judged."""
    label = result.label if result.value is not None else None
    why = result.explanation or result.error or ""
    if result.error and result.error not in why:
        why = f"{result.error}: {why}"
    text = ". ".join(part.rstrip(".") for part in (label, why) if part)
    who = " ".join(sound(f"({card.rubric} {card.version} by {card.judge or card.judge_kind})").split())
    tail = cut(who, 300)
    return f"{cut(sound(text), MOST - len(tail.encode()) - 2)}\n\n{tail}" if text else tail


def _word(told: Mapping[str, Any]) -> str:
    """A feedback in a word, to see later whether it is still what was written."""
    error = told.get("error")
    return f"error {error['error_code']}" if error else json.dumps(told["value"])


# --- what is there --------------------------------------------------------------------------------------------------


def held(told: Iterable[Mapping[str, Any]]) -> list[Held]:
    """Our assessments among those of a trace; of one that another took the place of, the newest."""
    rows = [*told]
    instead = {one.get("overrides"): one for one in rows if one.get("overrides")}
    found = []
    for one in rows:
        taken = instead.get(one.get("assessment_id"))
        if is_ours(one) and (taken is None or not is_ours(taken)):
            found.append(_held(one, taken))
    return found


def _held(one: Mapping[str, Any], taken: Mapping[str, Any] | None) -> Held:
    said = metadata(one)
    error = error_of(one)
    stamped = stamp(str(said.get(f"{_MARK}content_hash")), said.get(f"{_MARK}judge_kind"), said.get(f"{_MARK}status"))
    outspoken = taken is not None and source_type(taken) == HUMAN
    now = f"error {error}" if error else json.dumps(value_of(one))
    return Held(
        id=str(one.get("assessment_id")),
        identifier=str(said.get(IDENTIFIER)),
        score=str(said.get(f"{_MARK}score") or one.get("assessment_name")),
        span_id=one.get("span_id") or None,
        rationale=str(one.get("rationale") or ""),
        stamp=stamped._replace(rank=_HUMAN) if outspoken else stamped,
        card_id=str(said.get(f"{_MARK}card_id") or ""),
        source_type=source_type(one),
        names=tuple(name for name in said if name.startswith(_MARK)),
        edited=not same(now, str(said.get(f"{_MARK}written"))),
        outspoken=outspoken,
    )


def stands(row: Held, made: Mapping[str, Any]) -> bool:
    """Whether an assessment that is there says what was to be said."""
    wanted = made["metadata"]
    told = row.stamp.content_hash == wanted[f"{_MARK}content_hash"] and not row.edited
    return told and _word(made["feedback"]) == wanted[f"{_MARK}written"]


def same(one: str, other: str) -> bool:
    """Whether two words for a value are one: 4 is 4.0.

    >>> same("4", "4.0"), same("4", "3"), same('"not_applicable"', '"not_applicable"')
    (True, False, True)
    """
    if one == other:
        return True
    try:
        return math.isclose(float(one), float(other), abs_tol=1e-9)
    except ValueError:
        return False


def due_of(card: Scorecard, result: Result) -> Stamp:
    """The stamp of a result about to be written, as one that is there tells it."""
    return stamp_of(card, result.content_hash, result.score)
