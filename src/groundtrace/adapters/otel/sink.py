"""Scores as OpenTelemetry sees them: evaluation events for log stores, evaluator spans for OpenInference's readers."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import orjson

from groundtrace.adapters.ledger import Ledger, Line, Stamp, chunks, encode, stamp, stamp_of, writable
from groundtrace.adapters.otel.wire import Decoder
from groundtrace.adapters.published import PREFIX, Result, State, receipts, results, withdrawn
from groundtrace.errors import PlanError
from groundtrace.model import Receipt, Ref, Scorecard, Target

EVENT = "gen_ai.evaluation.result"
"""OpenTelemetry's event for a score. It has no place for a range or an evaluator: those are in `groundtrace.*`."""

INFO, WARN = 9, 13
_TRACE_ID, _SPAN_ID = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")
_ANNOTATORS = {"human": "HUMAN", "llm": "LLM", "offline": "CODE"}
_KEPT = "a person's or a better judge's score stands"


class OtelSink:
    """Writes `<stem>.groundtrace.logs.jsonl` and `<stem>.groundtrace.jsonl` into a folder, made if it is missing.

    The first holds one `gen_ai.evaluation.result` event a score, the second one OpenInference evaluator span a card,
    linked to the span that was judged; both are OTLP JSON lines any collector reads. What stands there already is not
    written again, a changed card is added as its newest version. A score that the newest version does not publish is
    withdrawn: an event without a value, labelled so, stands under its id.
    """

    name = "otel"
    updates: Literal["upsert", "append"] = "append"

    def __init__(self, folder: str, *, stem: str = "scores") -> None:
        if Path(stem).name != stem:
            raise PlanError("stem", stem, "is no file name")
        place = Path(folder)
        self.events = place / f"{stem}.groundtrace.logs.jsonl"
        self.spans = place / f"{stem}.groundtrace.jsonl"
        writable(place, self.files)
        self._events = Ledger(self.events, _event_stamps)
        self._spans = Ledger(self.spans, _span_stamps)

    @property
    def files(self) -> tuple[Path, ...]:
        """What it writes to."""
        return self.events, self.spans

    def notes(self) -> tuple[str, ...]:
        """What it found broken in its files, one line each."""
        return self._events.notes() + self._spans.notes()

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Write the cards' scores, and say what became of each one once it is on the disk."""
        for chunk in chunks(cards):
            for card, (states, reason, over) in zip(chunk, self._written(chunk), strict=True):
                yield from receipts(card, self.name, states, {"kept": _KEPT, "failed": reason}, over)

    def _written(self, cards: Sequence[Scorecard]) -> Iterator[_Told]:
        """What became of the results of each card."""
        leaving = [_Leaving(card) for card in cards]
        told = list(self._added(self._events, events, leaving))
        linked = [at for at, one in enumerate(leaving) if ids(one.card)[1] and not told[at][1]]  # a link names a span
        spans = self._added(self._spans, carrier, [leaving[at] for at in linked])
        for at, (states, reason) in zip(linked, spans, strict=True):
            if reason:
                told[at] = states, reason
        for one, (states, reason) in zip(leaving, told, strict=True):
            yield states, reason, [] if reason else one.over(states)

    def _added(self, to: Ledger, made: _Made, leaving: Sequence[_Leaving]) -> Iterator[tuple[Mapping[str, State], str]]:
        """What became of each card's line, and why one failed; where there is no room for all, each is tried alone."""
        try:
            added = to.append([one.line(made) for one in leaving]) if leaving else []
        except (OSError, TypeError, ValueError) as error:
            if len(leaving) > 1:
                for one in leaving:
                    yield from self._added(to, made, [one])
            elif isinstance(error, OSError):
                yield dict.fromkeys(leaving[0].due, "failed"), error.strerror or str(error)
            else:
                raise
            return
        yield from ((states, "") for states in added)


_Made: TypeAlias = "Callable[[Scorecard, Sequence[Result]], object]"
_Told: TypeAlias = "tuple[Mapping[str, State], str, list[str]]"
"""What became of a card's results by feedback id, why some failed, and the scores that were withdrawn."""


class _Leaving:
    """A card's results on their way out, by feedback id; those that are withdrawn are added as they are found."""

    def __init__(self, card: Scorecard) -> None:
        self.card = card
        self._published = {result.feedback_id: result for result in results(card)}
        self.due = _due(card, self._published)

    def line(self, made: _Made) -> Line:
        """A line of them, made so of the card and those that are new."""
        return Line(self.due, lambda keys: made(self.card, _picked(self._published, keys)), self._ended)

    def over(self, states: Mapping[str, State]) -> list[str]:
        """The scores that were written, among them those withdrawn."""
        return [self._published[key].score for key in states if states[key] == "written"]

    def _ended(self, scores: Collection[str]) -> Mapping[str, Stamp]:
        ended = {result.feedback_id: result for result in withdrawn(self.card, scores)}
        self._published.update(ended)
        return _due(self.card, ended)


class Event(NamedTuple):
    """One result as a log record in the context of the span that was judged, in whatever form it leaves."""

    trace_id: str
    span_id: str
    time: int
    is_warning: bool
    body: str
    attributes: dict[str, Any]


def event(card: Scorecard, result: Result) -> Event:
    """What is said of a result; the ids are empty where the target has none that OTLP can hold."""
    trace_id, span_id, elsewhere = ids(card)
    said = _standard(card, result) | _facts(card, result) | elsewhere
    attributes = {name: value for name, value in said.items() if value is not None}
    when = nanoseconds(card.timestamp)
    return Event(trace_id, span_id, when, result.error is not None, _said(result), attributes)


def events(card: Scorecard, published: Iterable[Result]) -> dict[str, Any]:
    """The card's results as one OTLP LogsData: a log record each, with the ids of the span that was judged."""
    records = [
        {
            "timeUnixNano": str(said.time),
            "observedTimeUnixNano": str(said.time),
            "severityNumber": WARN if said.is_warning else INFO,
            "severityText": "WARN" if said.is_warning else "INFO",
            "eventName": EVENT,
            "body": {"stringValue": said.body},
            "attributes": _attributes(said.attributes),
            **({"traceId": said.trace_id} if said.trace_id else {}),
            **({"spanId": said.span_id} if said.span_id else {}),
        }
        for said in (event(card, result) for result in published)
    ]
    scoped = {"scope": _scope(), "logRecords": records}
    return {"resourceLogs": [{"resource": _resource(), "scopeLogs": [scoped]}]}


def carrier(card: Scorecard, published: Sequence[Result]) -> dict[str, Any]:
    """The card's results as one OTLP TracesData: a span of a trace of its own with one link, to the span judged."""
    trace_id, span_id, _ = ids(card)
    linked = {"traceId": carrier_ids(card)[0], "links": [{"traceId": trace_id, "spanId": span_id}]}
    return _evaluator(card, published, f"{PREFIX}{card.rubric}", linked)


def child(card: Scorecard, published: Sequence[Result]) -> dict[str, Any]:
    """The same as a late child of the span that was judged: it stands in that span's own trace."""
    trace_id, span_id, _ = ids(card)
    return _evaluator(card, published, f"evaluate {card.rubric}", {"traceId": trace_id, "parentSpanId": span_id})


def _evaluator(card: Scorecard, published: Sequence[Result], name: str, place: Mapping[str, Any]) -> dict[str, Any]:
    when = str(nanoseconds(card.timestamp))
    span = {
        **place,
        "spanId": carrier_ids(card)[1],
        "name": name,
        "kind": 1,
        "startTimeUnixNano": when,
        "endTimeUnixNano": when,
        "attributes": _attributes({"openinference.span.kind": "EVALUATOR"} | evaluations(card, published)),
        "status": {},
    }
    return {"resourceSpans": [{"resource": _resource(), "scopeSpans": [{"scope": _scope(), "spans": [span]}]}]}


def carrier_ids(card: Scorecard) -> tuple[str, str]:
    """The ids of the span that carries a version of a card: the same for the same version."""
    version = json.dumps([card.id, card.content_hash, card.timestamp])
    return uuid.UUID(card.id).hex, hashlib.sha256(version.encode()).hexdigest()[:16]


def evaluations(card: Scorecard, published: Iterable[Result], first: int = 0) -> dict[str, Any]:
    """The card's results as OpenInference says them on a span, numbered from `first`; None where nothing is said."""
    attributes: dict[str, Any] = {}
    for number, result in enumerate(published, start=first):
        facts = {name.removeprefix(PREFIX): value for name, value in _facts(card, result).items()}
        if result.error is not None:
            facts["error.type"] = result.error
        said = {
            "name": result.name,
            "score": result.value,
            "label": result.label,
            "explanation": result.explanation or result.error,
            "annotator_kind": _ANNOTATORS[card.judge_kind],
            "identifier": f"{PREFIX}{card.rubric}",
            "metadata": encode(facts).decode(),
        }
        attributes |= {f"evaluations.{number}.evaluation.{field}": value for field, value in said.items()}
    return attributes


def on_spans(cards: Iterable[Scorecard]) -> dict[tuple[str, str], dict[str, Any]]:
    """What cards add to the spans they are about, by trace and span id, before those leave.

    OpenInference's numbered form, and OpenTelemetry's: that one has no number, so of several scores it says the lowest
    on its own range.
    """
    found: dict[tuple[str, str], list[tuple[Scorecard, Result]]] = {}
    for card in cards:
        trace_id, span_id, _ = ids(card)
        if span_id:
            found.setdefault((trace_id, span_id), []).extend((card, result) for result in results(card))
    return {place: _on_span(told) for place, told in found.items()}


def _on_span(told: Sequence[tuple[Scorecard, Result]]) -> dict[str, Any]:
    numbered: dict[str, Any] = {}
    for number, (card, result) in enumerate(told):
        numbered |= evaluations(card, [result], number)
    card, lowest = min(told, key=lambda one: _height(one[1]))
    standard = {name: said for name, said in _standard(card, lowest).items() if name.startswith("gen_ai.evaluation.")}
    return {name: said for name, said in (numbered | standard).items() if said is not None}


def _height(result: Result) -> float:
    """How high a score is on its range; those without a value come last."""
    if result.value is None or result.low is None or result.high is None or result.high <= result.low:
        return 2.0
    return (result.value - result.low) / (result.high - result.low)


# --- what an event says ---------------------------------------------------------------------------------------------


def _standard(card: Scorecard, result: Result) -> dict[str, Any]:
    """The attributes of the convention, and the three that Logfire reads beside them."""
    name, target = _target(card)
    evaluator = {"name": f"{PREFIX}{card.rubric}", "arguments": {"judge": card.judge}}
    return {
        "gen_ai.evaluation.name": result.name,
        "gen_ai.evaluation.score.value": None if result.value is None else float(result.value),
        "gen_ai.evaluation.score.label": result.label,
        "gen_ai.evaluation.explanation": result.explanation or None,
        "gen_ai.response.id": target.keys.get("response_id"),
        "error.type": result.error,
        "gen_ai.evaluation.target": name,
        "gen_ai.evaluation.evaluator.source": json.dumps(evaluator),
        "gen_ai.evaluation.evaluator.version": card.version,
    }


def _facts(card: Scorecard, result: Result) -> dict[str, Any]:
    """What the conventions have no place for: the range, who judged by which rubric, on what evidence, for whom."""
    matches = Counter(evidence.match for evidence in result.evidence)
    located = sum(matches[match] for match in ("exact", "normalised", "fuzzy"))
    facts = {
        "score.low": None if result.low is None else float(result.low),
        "score.high": None if result.high is None else float(result.high),
        "evidence.located": located,
        "evidence.paraphrase": matches["paraphrase"],
        "evidence.absent": matches["absent"],
        "rubric.name": card.rubric,
        "rubric.version": card.version,
        "prompt.hash": card.prompt_hash or None,
        "judge.id": card.judge or None,
        "judge.kind": card.judge_kind,
        "judge.temperature": card.temperature,
        "judge.calibration": card.calibration,
        "judge.limits": card.limits or None,
        "card.id": card.id,
        "record.id": card.record_id,
        "feedback.id": result.feedback_id,
        "content.hash": result.content_hash,
        "batch.id": card.batch_id or None,
        "status": card.status,
        "partial": card.partial,
        "risk": card.risk,
        "decided_by": card.decided_by,
        "confidence": card.confidence,
        "root_cause": card.root_cause,
        "review": [review.reason for review in card.review] or None,
        "flags": list(card.flags) or None,
        "source_ids": list(card.source_ids) or None,
        "tags": list(card.tags) or None,
    }
    if card.status == "pending_review":  # nothing by which the score could be guessed
        facts |= {"confidence": None, "root_cause": None}
    facts |= {f"slice.{name}": value for name, value in card.slices.items()}
    return {f"{PREFIX}{name}": value for name, value in facts.items() if value is not None}


def _said(result: Result) -> str:
    """The result in words, for readers that show only a log record's body.

    >>> _said(Result("source_support", "id", "hash", value=4.0, low=1, high=5, label="Strongly Implies"))
    'groundtrace.source_support = 4 of 1..5 (Strongly Implies)'
    """
    if result.error:
        return f"{result.name}: not scored: {result.error}"
    if result.value is None:
        return f"{result.name}: {result.label}"
    label = f" ({result.label})" if result.label else ""
    return f"{result.name} = {result.value:g} of {result.low:g}..{result.high:g}{label}"


def _target(card: Scorecard) -> tuple[str, Ref]:
    """What was judged: the span of the answer, else the root, else what the record stands for."""
    names: tuple[Target, ...] = ("answer", "root")
    return next(((name, card.targets[name]) for name in names if name in card.targets), ("record", card.ref))


def ids(card: Scorecard) -> tuple[str, str, dict[str, Any]]:
    """The target's ids where OTLP can hold them; in attributes where it can't (another platform's, a record's)."""
    _, target = _target(card)
    trace_id = target.trace_id if _TRACE_ID.fullmatch(target.trace_id) else ""
    span_id = target.span_id if trace_id and _SPAN_ID.fullmatch(target.span_id or "") else ""
    elsewhere: dict[str, Any] = {}
    if target.platform != "otel" or not trace_id or (target.span_id and not span_id):
        elsewhere = {
            f"{PREFIX}target.platform": target.platform,
            f"{PREFIX}target.trace_id": target.trace_id,
            f"{PREFIX}target.span_id": target.span_id,
        }
    return trace_id, span_id or "", elsewhere


def nanoseconds(timestamp: str) -> int:
    """An ISO time as OTLP counts it; now where there is none.

    >>> nanoseconds("2026-01-01T00:00:00.000001+00:00")
    1767225600000001000
    """
    try:
        moment = dt.datetime.fromisoformat(timestamp)
    except ValueError:
        return time.time_ns()
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) * 1000


# --- OTLP JSON ------------------------------------------------------------------------------------------------------


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: object) -> dict[str, Any]:
    """A value as OTLP JSON spells it.

    >>> _value(3), _value(True), _value(["a"])
    ({'intValue': '3'}, {'boolValue': True}, {'arrayValue': {'values': [{'stringValue': 'a'}]}})
    """
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}


def _resource() -> dict[str, Any]:
    return {"attributes": _attributes({"service.name": "groundtrace"})}


@functools.cache
def _scope() -> dict[str, Any]:
    return {"name": "groundtrace", "version": metadata.version("groundtrace")}


# --- reading it back ------------------------------------------------------------------------------------------------


def _due(card: Scorecard, published: Mapping[str, Result]) -> dict[str, Stamp]:
    return {key: stamp_of(card, result.content_hash, result.score) for key, result in published.items()}


def _picked(published: Mapping[str, Result], keys: Collection[str]) -> list[Result]:
    return [published[key] for key in keys]


def _event_stamps(line: bytes) -> Iterator[tuple[str, Stamp]]:
    decoded = Decoder().decode(line)
    for log in decoded.logs if decoded else ():
        facts = {name.removeprefix(PREFIX): value for name, value in log.attributes.items()}
        yield from _stamps(facts, facts.get("gen_ai.evaluation.name"))


def _span_stamps(line: bytes) -> Iterator[tuple[str, Stamp]]:
    decoded = Decoder().decode(line)
    for span in decoded.spans if decoded else ():
        for name, value in span.attributes.items():
            if name.startswith("evaluations.") and name.endswith(".metadata"):
                yield from _stamps(_parsed(value), span.attributes.get(f"{name.removesuffix('.metadata')}.name"))


def _parsed(value: object) -> object:
    try:
        return orjson.loads(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _stamps(facts: object, name: object) -> Iterator[tuple[str, Stamp]]:
    if isinstance(facts, dict) and {"feedback.id", "content.hash"} <= facts.keys():
        score = str(name or "").removeprefix(PREFIX)
        made = stamp(str(facts["content.hash"]), facts.get("judge.kind"), facts.get("status"), score)
        yield str(facts["feedback.id"]), made
