"""A score as LangSmith's feedback: what is sent of it, and what a row that is there says of itself.

A row that is there can only be changed in its score, value and comment [LangSmith's API]; what else is sent with a
change is taken or ignored, which is not known. So the last line of the comment says which content this is, whose word
it is and which number was written; it is believed over the metadata, which may be of the version before. A score that
is not that number is one somebody edited.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from groundtrace.adapters.facts import cut, facts_of, sound
from groundtrace.adapters.langsmith.rows import zoned
from groundtrace.adapters.ledger import Stamp, stamp, stamp_of
from groundtrace.adapters.published import PREFIX, Result
from groundtrace.model import Ref, Scorecard, Target

if TYPE_CHECKING:
    from groundtrace.adapters.langsmith.api import Api

SOURCE = "model"
"""The kind of source all our feedback names; that of people is `app` or `api`, and never touched."""

COMMENT = 10_000
"""Bytes of a comment: no limit of LangSmith's is known; the store has the whole text."""

TRIMMED = 1_000
"""And of one that LangSmith refused as too large."""

PAGE = 100
"""Rows of feedback a page, the most LangSmith gives."""

_DIGITS = 4
"""LangSmith keeps so many decimals, and refuses more [SDK]."""

_MARK = re.compile(
    r"\[groundtrace ([0-9a-z]{1,16}) (scored|unscored|pending_review) (human|llm|offline)"
    r" (none|-?\d+(?:\.\d+)?(?:e[-+]?\d+)?): .*\]"
)
_NO_NUMBER = "none"
_HUMAN = stamp("", "human", "scored").rank
_SPAN = re.compile("[0-9a-f]{16}")


class Place(NamedTuple):
    """The run feedback is put on.

    Its start is part of LangSmith's key: always the run's own, as the API spells it, with the zone it may lack.
    """

    run_id: str
    trace_id: str
    project_id: str = ""
    start_time: str = ""


class Row(NamedTuple):
    """Feedback of ours as LangSmith gives it back."""

    id: str
    key: str
    run_id: str
    score: float | None
    value: object
    stamp: Stamp
    card_id: str
    correction: object
    edited: bool = False
    """Whether its score is another than was written, as far as the mark tells."""

    @property
    def name(self) -> str:
        """The score's name, without what stands before it on a platform."""
        return self.key.removeprefix(PREFIX)


# --- where it goes --------------------------------------------------------------------------------------------------


def target_of(card: Scorecard, target: Target) -> Ref:
    """What of a card's trace feedback is put on: the target that was asked for, else the root."""
    return card.targets.get(target) or card.targets.get("root") or card.ref


def place_of(ref: Ref) -> Place | None:
    """The run behind a ref, as far as the ref tells; None where it is no run of LangSmith's.

    The id of an OpenTelemetry span is that of a run once LangSmith has ingested it, filled up with zeros [SDK]. A start
    is only believed of the root, whose id is the trace's: a pull keeps one for the whole trace.

    >>> place_of(Ref("otel", trace_id="0" * 31 + "a", span_id="00f067aa0ba902b7")).run_id
    '00000000-0000-0000-00f0-67aa0ba902b7'
    """
    trace_id = identity(ref.trace_id)
    run_id = identity(ref.span_id) if ref.span_id else trace_id
    if run_id is None:
        return None
    told = ref.keys if ref.platform == "langsmith" and run_id in (trace_id, ref.keys.get("run_id")) else {}
    project = (ref.project if ref.platform == "langsmith" else None) or ""
    return Place(run_id, trace_id or "", project, zoned(told.get("start_time")))


def identity(text: str | None) -> str | None:
    """A run's or trace's id as LangSmith spells it; None where it is none."""
    try:
        return str(uuid.UUID(f"{text:0>32}" if _SPAN.fullmatch(text or "") else text))
    except (ValueError, TypeError, AttributeError):
        return None


# --- what is sent ---------------------------------------------------------------------------------------------------


def body(card: Scorecard, result: Result, place: Place, *, extend: bool) -> dict[str, Any]:
    """The feedback of one result, as it is created.

    The run of the judge's own trace is linked where the card's `details` name it as `judge_run_id`: a plugin's rubric
    does that whose judge is traced on LangSmith. No judge of ours does: what `trace_judge` leaves are OpenTelemetry
    spans, and whether they go to LangSmith is for an exporter to know; a card may be of several of them.
    """
    source: dict[str, Any] = {"type": SOURCE, "metadata": facts_of(card, result)}
    made: dict[str, Any] = {
        "id": result.feedback_id,
        "run_id": place.run_id,
        "trace_id": place.trace_id,
        "session_id": place.project_id,
        "start_time": place.start_time,
        "key": result.name,
        **said(card, result),
        "error": result.error is not None,
        "feedback_source": source,
        "extend_trace_retention": extend,
    }
    if (config := ranged(result)) is not None:
        made["feedback_config"] = config
    if (judged := identity(card.details.get("judge_run_id"))) is not None:
        source["metadata"]["__run"] = {"run_id": judged}
    return made


def said(card: Scorecard, result: Result) -> dict[str, Any]:
    """The part of it that can be changed later."""
    label = None if result.label is None else sound(result.label)
    return {"score": _number(result), "value": label, "comment": _comment(card, result)}


def _number(result: Result) -> float | None:
    return None if result.value is None else round(float(result.value), _DIGITS)


def changed(made: Mapping[str, Any], *, bare: bool) -> dict[str, Any]:
    """A feedback as a change of the row that is there: never which run it is on, or when that started."""
    names = ("score", "value", "comment") if bare else ("score", "value", "comment", "error", "feedback_source")
    return {name: made[name] for name in names}


def trimmed(made: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the least that still says what it is."""
    source = made["feedback_source"]
    kept = {name: fact for name, fact in source["metadata"].items() if name in _LEAST}
    text, _, mark = made["comment"].rpartition("\n")
    return {**made, "comment": f"{cut(text, TRIMMED // 2)}\n{mark}", "feedback_source": {**source, "metadata": kept}}


_LEAST = frozenset({"rubric", "version", "judge", "judge_kind", "status", "card_id", "content_hash", "__run"})


def ranged(result: Result) -> dict[str, Any] | None:
    """The range of its key, which LangSmith keeps from the first feedback on."""
    if result.low is None or result.high is None:
        return None
    return {"type": "continuous", "min": result.low, "max": result.high}


def _comment(card: Scorecard, result: Result) -> str:
    """Why, as far as there is room for it, and in the last line which content it is."""
    judge = " ".join(sound(f"{card.rubric} {card.version} by {card.judge or card.judge_kind}").split())
    number = _NO_NUMBER if (value := _number(result)) is None else repr(value)
    head = f"{result.content_hash[:16]} {card.status} {card.judge_kind} {number}"
    mark = f"[groundtrace {head}: {cut(judge, 200)}]"
    why = result.explanation or result.error or ""
    if result.error and result.error not in why:
        why = f"{result.error}: {why}"
    text = cut(sound(why), COMMENT - len(mark.encode()) - 2)
    return f"{text}\n\n{mark}" if text else mark


# --- what is there --------------------------------------------------------------------------------------------------


def pages(api: Api, asked: Mapping[str, Any], patience: float | None = None) -> Iterator[list[Any]]:
    """All feedback that fits, a page at a time."""
    offset = 0
    while True:
        told = api.call("GET", "/feedback", params={**asked, "limit": PAGE, "offset": offset}, patience=patience)
        page = told if isinstance(told, list) else []
        yield page
        if len(page) < PAGE:
            return
        offset += PAGE


def rows(told: object) -> Iterator[Row]:
    """Our feedback in what LangSmith listed."""
    for raw in told if isinstance(told, list) else ():
        if not isinstance(raw, Mapping) or not str(raw.get("key")).startswith(PREFIX):
            continue
        source = raw.get("feedback_source")
        if isinstance(source, Mapping) and source.get("type") == SOURCE:
            facts = source.get("metadata")
            yield _row(raw, facts if isinstance(facts, Mapping) else {})


def _row(raw: Mapping[str, Any], facts: Mapping[str, Any]) -> Row:
    told = raw.get("score")
    score = float(told) if isinstance(told, int | float) else None
    mark = _MARK.fullmatch(str(raw.get("comment") or "").rstrip().rpartition("\n")[2])
    facts_of = str(facts.get("content_hash"))[:16], facts.get("status"), facts.get("judge_kind")
    content, status, kind = mark.groups()[:3] if mark else facts_of
    written = mark[4] if mark else None
    stamped = stamp(content, kind, status)
    corrected = raw.get("correction")
    return Row(
        id=str(raw.get("id")),
        key=str(raw.get("key")),
        run_id=str(raw.get("run_id")),
        score=score,
        value=raw.get("value"),
        stamp=stamped._replace(rank=_HUMAN) if corrected else stamped,
        card_id=str(facts.get("card_id") or ""),
        correction=corrected,
        edited=written is not None and not same(score, None if written == _NO_NUMBER else float(written)),
    )


def holds(row: Row, made: Mapping[str, Any], result: Result) -> bool:
    """Whether a row says what was to be said."""
    return row.stamp.content_hash == result.content_hash[:16] and same(row.score, made["score"])


def same(one: float | None, other: float | None) -> bool:
    """Whether two scores are one, as LangSmith counts decimals."""
    return one is other or (one is not None and other is not None and abs(one - other) < 10**-_DIGITS)


def due_of(card: Scorecard, result: Result) -> Stamp:
    """The stamp of a result about to be written, as a row tells it."""
    return stamp_of(card, result.content_hash[:16], result.score)
