"""Values as rows and back; JSON that holds whatever a text can hold."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from groundtrace.errors import PlanError
from groundtrace.model import (
    NAMESPACE,
    Attempt,
    Intent,
    Label,
    Reply,
    Run,
    Scorecard,
    Usage,
    canonical,
    dump,
    load,
    named,
)
from groundtrace.store.textless import masked, textless
from groundtrace.store.trouble import ANEW

if TYPE_CHECKING:
    from sqlalchemy import Row

    from groundtrace.model import Record, Ref

T = TypeVar("T")

Scores: TypeAlias = dict[str, tuple[str, str | None, str | None]]
"""By feedback id, of scores of one card with one content: the name, and what became of the write and why (None: it is
not known)."""


def now() -> str:
    """The time for people; nothing is ordered by it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


def body(value: BaseModel) -> str:
    """A value as JSON, also where it holds what JSON in UTF-8 can't."""
    try:
        return dump(value)
    except PydanticSerializationError:
        return json.dumps(value.model_dump(mode="json"))


def value(kind: type[T], text: str) -> T:
    """The value back from `body`; PlanError where the store holds something else in its place."""
    try:
        return load(kind, text)
    except ValidationError:
        pass
    try:
        return TypeAdapter(kind).validate_python(json.loads(text))
    except ValueError:
        raise PlanError("store", kind.__name__, "is damaged in the store: it does not read back", hint=ANEW) from None


def record_key(ref: Ref, record_id: str) -> str:
    """The same for the same record, whichever run reads it; ids alone may be shared by two platforms."""
    return named(NAMESPACE.bytes, json.dumps([ref.platform, ref.trace_id, ref.span_id, record_id]))


def record_row(record: Record) -> dict[str, Any]:
    """A record, keyed so that it replaces itself."""
    return {
        "key": record_key(record.ref, record.id),
        "id": record.id,
        "platform": record.ref.platform,
        "trace_id": record.ref.trace_id,
        "body": body(record),
    }


def reply_row(reply: Reply, faults: tuple[str, ...], *, keep_text: bool) -> dict[str, Any]:
    """A reply with its faults; without its text it can't be given back."""
    told = faults if keep_text else tuple(masked(fault) for fault in faults)
    fault = reply.fault if keep_text or reply.fault is None else masked(reply.fault)
    usage = reply.usage
    return {
        "attempt": reply.attempt,
        "model": reply.judge,
        "text": reply.text if keep_text else "",
        "faults": json.dumps(told),
        "fault": fault,
        "flags": json.dumps(reply.flags),
        "input": usage and usage.input,
        "output": usage and usage.output,
        "cache_read": usage and usage.cached,
        "cost": reply.cost,
        "latency": reply.latency,
        "temperature": reply.temperature,
        "cached": reply.cached,
        "usable": keep_text and not faults and reply.fault is None,
    }


def reply_of(row: Row[*tuple[Any, ...]]) -> Reply:
    """The reply as it came."""
    return Reply(
        text=row.text,
        judge=row.model,
        attempt=row.attempt,
        usage=None if row.input is None else Usage(row.input, row.output, row.cache_read),
        cost=row.cost,
        latency=row.latency,
        cached=row.cached,
        fault=row.fault,
        flags=() if row.flags == "[]" else tuple(json.loads(row.flags)),
        temperature=row.temperature,
    )


def attempt_of(row: Row[*tuple[Any, ...]]) -> Attempt:
    """A reply as it is shown on a card."""
    return Attempt.of(reply_of(row), tuple(json.loads(row.faults)), slot=row.slot)


def card_row(card: Scorecard, *, keep_text: bool) -> dict[str, Any]:
    """A card; its hash and basis are the whole card's, whatever is left of it."""
    return {
        "id": card.id,
        "record_id": card.record_id,
        "rubric": card.rubric,
        "version": card.version,
        "judge": card.judge,
        "judge_kind": card.judge_kind,
        "status": card.status,
        "content_hash": card.content_hash,
        "basis": card.basis,
        "body": body(card if keep_text else textless(card)),
    } | waiting(card)


def waiting(card: Scorecard) -> dict[str, Any]:
    """Whether and where a card waits for a person."""
    weakest = card.weakest
    return {"waits": card.waits or "", "unit": weakest and weakest.unit}


def card_of(text: str) -> Scorecard:
    """The card as it was kept."""
    return value(Scorecard, text)


def label_row(label: Label, *, keep_text: bool) -> dict[str, Any]:
    """What a person said of a score, keyed so that it replaces what the same person said before."""
    told = label.model_dump(exclude={"when", "why"})
    return told | {"rubric": label.rubric, "decided": label.when, "why": label.why if keep_text else ""}


def label_of(row: Row[*tuple[Any, ...]]) -> Label:
    """What a person said of a score."""
    told = {name: getattr(row, name) for name in Label.model_fields if name != "when"}
    return Label(**told, when=row.decided)


def spelled(scores: Scores) -> str:
    """Scores of one content as a row has them."""
    return canonical([[ident, *fate] for ident, fate in scores.items()]).decode()


def scores_of(text: str) -> Scores:
    """Scores of one content as they were before `spelled`."""
    return {ident: (score, state, why) for ident, score, state, why in json.loads(text)}


def intents_of(row: Row[*tuple[Any, ...]]) -> Iterator[Intent]:
    """Writes that were noted together."""
    for ident, (score, _, _) in scores_of(row.scores).items():
        yield Intent(sink=row.sink, card_id=row.card_id, score=score, feedback_id=ident, content_hash=row.content_hash)


def run_of(row: Row[*tuple[Any, ...]], state: str) -> Run:
    """A run, in the state it is truly in."""
    told = {name: getattr(row, name) for name in Run.model_fields}
    return Run(**(told | {"state": state}))
