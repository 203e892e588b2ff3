"""A card of the store as a person reads it: its scores, what it was made from, every attempt, every version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.console import Group
from rich.text import Text

from groundtrace.cli import figure, plain, printed
from groundtrace.cli.life import opened
from groundtrace.errors import PlanError

if TYPE_CHECKING:
    from groundtrace.cli.printed import Row
    from groundtrace.model import Attempt, Scorecard
    from groundtrace.store import Store

_REPLY = 2000
"""Characters of a reply that are shown; --json holds it whole."""


def show(ident: str, where: str | None, *, as_json: bool) -> None:
    """Print a card of the store with its record, attempts and history; PlanError where there is no such card."""
    with opened(where) as store:
        card = store.card(full_id(store, ident)) if store else None
        if store is None or card is None:
            raise PlanError("card", ident, "is not in this store", hint="a run's report and its sinks name card ids")
        attempts, versions, record = store.attempts(card.id), store.history(card.id), store.record(card)
    if as_json:
        told = {
            "card": card.model_dump(mode="json"),
            "record": record.model_dump(mode="json") if record else None,
            "attempts": [attempt.model_dump(mode="json") for attempt in attempts],
            "versions": [version.model_dump(mode="json") for version in versions],
        }
        typer.echo(json.dumps(told))
        return
    out = printed.console()
    out.print(printed.grid(_card(card)))
    if record is not None:
        out.print(printed.record(record))
    out.print(Group(Text("Asked and answered", "bold"), printed.grid(_attempts(attempts))))
    out.print(Group(Text("\nVersions, oldest first", "bold"), printed.grid(_versions(versions))))


def full_id(store: Store, ident: str) -> str:
    """The id of the one card that starts so; PlanError where several do or it is too short to say."""
    if len(ident) < 6:
        raise PlanError("card", ident, "is too short", hint="write 6 characters of the id, or more")
    found = store.card_ids(ident)
    if len(found) > 1:
        raise PlanError("card", ident, f"is the start of {len(found)} cards", hint="write more of it")
    return found[0] if found else ident


def _card(card: Scorecard) -> Iterator[Row]:
    yield "card", f"{card.id}  {card.rubric} {card.version}", "bold"
    yield "trace", f"{plain(card.ref.trace_id)}, record {plain(card.record_id)}", ""
    by = f"{card.status} by {plain(card.judge or '-')} ({card.judge_kind}, {card.decided_by}), {card.timestamp}"
    yield "status", by + (f": {plain(card.reason)}" if card.reason else ""), "" if card.status == "scored" else "yellow"
    for score in card.scores:
        value = "-" if score.value is None else f"{figure(score.value)} of {score.high:g}"
        yield "score", f"{score.name}  {value}  {plain(score.label or '')}  {plain(score.rationale, 200)}".rstrip(), ""
    for review in card.review:
        yield "review", f"{review.priority}: {review.reason}  {plain(review.note, 200)}".rstrip(), "yellow"


def _attempts(attempts: tuple[Attempt, ...]) -> Iterator[Row]:
    for told in attempts:
        where = plain(told.slot) if told.slot else "the whole record"
        cost = "" if told.cost is None else f", {told.cost:.6f} US dollars"
        yield f"try {told.attempt}", f"{where}, by {plain(told.judge)}{cost}", "cyan"
        yield "", plain(told.text, _REPLY) or "(no text)", ""
        for fault in told.faults:
            yield "fault", plain(fault, 400), "yellow"
    if not attempts:
        yield "", "no judge was asked: rules decided", "dim"


def _versions(versions: tuple[Scorecard, ...]) -> Iterator[Row]:
    for card in versions:
        told = ", ".join(f"{s.name} {figure(s.value)}" for s in card.scores if s.value is not None)
        by = f"{card.rubric} {card.version} by {plain(card.judge or '-')}"
        yield card.timestamp or "-", f"{by}: {told or card.reason or card.status}", ""
