"""What people said on a platform about scores, taken into the store as if they had said it here."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from groundtrace.cli import plain
from groundtrace.cli.life import opened
from groundtrace.cli.review import _held, _keep, _said, _undecided
from groundtrace.errors import PlanError
from groundtrace.model import Decision
from groundtrace.plugins import load

if TYPE_CHECKING:
    from groundtrace.model import Label, Scorecard

_ALIKE = 1e-4
"""From which difference on two scores are two: platforms keep four decimals."""

_SKEW = 300_000_000_000
"""Nanoseconds by which a platform's clock may be ahead or behind: what was taken before is known by itself."""

_LEFT = "left: "
"""How a line about what could not be taken begins."""


def take(where: str | None, spec: str) -> None:
    """Decide the cards of a store that people spoke of on a platform since the last time, and say so.

    What somebody says of one card is one decision: it accepts a card all of whose scores are confirmed, and else
    corrects those that are named. PlanError where there is no store, PlatformError where the platform does not tell.
    """
    source = load("source", spec)
    place = f"labels:{source.platform}:{getattr(source, 'project', None) or ''}"
    began = time.time_ns()
    with opened(where) as store:
        if store is None:
            raise PlanError("store", where or "default", "is not there", hint="a run makes it")
        store.probe()
        since = store.cursor(place)
        known = {(label.card_id, label.who, label.score): label.value for label in store.labels()}
    said: dict[tuple[str, str], list[Label]] = {}
    for label in source.labels(int(since) if since else None):
        said.setdefault((label.card_id, label.who), []).append(label)
    new = (labels for labels in said.values() if not all(_is_known(known, label) for label in labels))
    told = sorted(new, key=lambda labels: max(label.when for label in labels))
    done = [_decided(where, labels) for labels in told]
    with opened(where) as store:
        if store is not None:
            store.move_cursor(place, str(began - _SKEW))
    for line in (*done, *source.notes()):
        typer.echo(plain(line), err=True)
    count = sum(not line.startswith(_LEFT) for line in done)
    typer.echo(f"groundtrace: {count} decision{'' if count == 1 else 's'} taken from {plain(spec)}", err=True)


def _is_known(known: Mapping[tuple[str, str, str], float | None], label: Label) -> bool:
    """Whether the same person's last word on the score was the same."""
    key = (label.card_id, label.who, label.score)
    return key in known and known[key] == label.value


def _decided(where: str | None, labels: Sequence[Label]) -> str:
    """Decide one card as one person said; a line about it."""
    who, ident = labels[0].who, labels[0].card_id
    with opened(where) as store:
        found = store.card(ident) if store is not None else None
    if found is None:
        return f"{_LEFT}what {who} said of card {ident}, which is not in this store"
    with opened(where, keep_text=found.emptied is None) as store:
        if store is None:
            return f"{_LEFT}what {who} said of card {ident}, which is gone with its store"
        with _held(store, found):
            before = _undecided(store, found)
            decision = _decision(before, labels)
            try:
                after = _keep(store, before, decision)
            except PlanError as error:
                return f"{_LEFT}what {who} said of card {ident}: {error}"
    named = {label.score for label in labels}
    scores = ", ".join(_said(score) for score in after.scores if score.name in named)
    return f"{decision.state} by {who}: {scores}, card {ident[:13]}"


def _decision(card: Scorecard, labels: Sequence[Label]) -> Decision:
    """What one person said of a card, as a decision on it."""
    newest = {label.score: label for label in sorted(labels, key=lambda label: label.when)}
    held = {score.name: score.value for score in card.scores}
    confirmed = card.status != "unscored" and all(
        name in newest and newest[name].value is not None and abs(value - (newest[name].value or 0.0)) < _ALIKE
        for name, value in held.items()
        if value is not None
    )
    alone = newest.keys() <= held.keys() and any(value is not None for value in held.values())
    accepted = confirmed and alone
    return Decision(
        card_id=card.id,
        state="accepted" if accepted else "corrected",
        who=labels[0].who,
        when=max(label.when for label in labels),
        why="; ".join(dict.fromkeys(label.why for label in newest.values() if label.why)),
        labels=() if accepted else tuple(newest.values()),
    )
