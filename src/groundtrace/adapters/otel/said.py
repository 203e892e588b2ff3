"""What is said of cards in a running program, as plain values: made where it was judged, sent where the program is.

Loads no SDK: the process that counts words has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from groundtrace.adapters.otel.metrics import Measures, measures
from groundtrace.adapters.otel.sink import Event, carrier_ids, evaluations, event, on_spans
from groundtrace.adapters.published import PREFIX, Result, results
from groundtrace.model import JUDGE_MARK, Scorecard


class Said(NamedTuple):
    """One card: its events, and its evaluator span's name, ids and attributes."""

    events: tuple[Event, ...]
    name: str
    ids: tuple[str, str]
    attributes: dict[str, Any]
    measures: Measures


def said(cards: Iterable[Scorecard]) -> tuple[Said, ...]:
    """What is said of each card."""
    return tuple(_said(card, results(card)) for card in cards)


def _said(card: Scorecard, published: Sequence[Result]) -> Said:
    kind = {"openinference.span.kind": "EVALUATOR", JUDGE_MARK: card.judge or card.judge_kind}
    attributes = kind | evaluations(card, published)
    return Said(
        events=tuple([event(card, result) for result in published]),
        name=f"{PREFIX}{card.rubric}",
        ids=carrier_ids(card),
        attributes=_there(attributes),
        measures=measures(card),
    )


Additions = dict[tuple[int, int], dict[str, Any]]
"""Attributes that are added to spans, by their trace and span ids."""


def additions(cards: Iterable[Scorecard]) -> Additions:
    """What cards add to the spans that were judged."""
    return {(int(trace, 16), int(span, 16)): more for (trace, span), more in on_spans(cards).items()}


def _there(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
