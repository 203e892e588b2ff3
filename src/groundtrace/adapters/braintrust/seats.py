"""Where a card goes on Braintrust: the row of the span it is about, which is looked for and never guessed.

A row has an id, a span id and the id of its trace's root span, and all three differ. A change of a row that is not
there would be taken, as a new trace of nothing; so what a ref names must have been read, in the trace it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from groundtrace.adapters.braintrust import btql
from groundtrace.adapters.braintrust.api import PLATFORM, Row
from groundtrace.adapters.braintrust.scored import Seat
from groundtrace.model import Ref, Scorecard, Target

Lack: TypeAlias = Literal["wrong", "absent", "unseen"]
"""Why there is no seat: what a ref says is wrong; a row it names is not there; or a span, or that is not there yet."""


class Lost(NamedTuple):
    """A ref that leads to no row, and why."""

    lack: Lack
    reason: str


def ref_of(card: Scorecard, target: Target) -> Ref:
    """What of a card's trace it is put under: the target that was asked for, else the root."""
    return card.targets.get(target) or card.targets.get("root") or card.ref


def row_id(ref: Ref) -> str | None:
    """The id of a row that a ref of Braintrust's carries: of its span, or of the root of its trace."""
    return (ref.keys.get("id") or None) if ref.platform == PLATFORM else None


def where(refs: Iterable[Ref], own: Iterable[str]) -> btql.Tree:
    """The rows these refs may lead to, and our own of these ids in their traces; bounded by the traces."""
    traces, rows, spans, roots = set[str](), set(own), set[str](), False
    for ref in refs:
        traces.add(ref.trace_id)
        if ident := row_id(ref):
            rows.add(ident)
        if ref.span_id:
            spans.add(ref.span_id)
        roots = roots or not (ref.span_id or ident)
    return btql.every(
        btql.within("root_span_id", sorted(traces)),
        btql.some(
            btql.within("id", sorted(rows)) if rows else None,
            btql.within("span_id", sorted(spans)) if spans else None,
            btql.compared("eq", "is_root", value=True) if roots else None,
        ),
    )


class Rows:
    """What was read of some traces."""

    def __init__(self, read: Iterable[Row]) -> None:
        self.by_id: dict[str, Row] = {}
        self._spans: dict[tuple[str, str], list[Row]] = {}
        self._roots: dict[str, list[Row]] = {}
        for row in read:
            self.by_id[str(row.get("id"))] = row
            if _is_span(row):
                trace = str(row.get("root_span_id"))
                self._spans.setdefault((trace, str(row.get("span_id"))), []).append(row)
                if row.get("is_root") is True:
                    self._roots.setdefault(trace, []).append(row)

    def seat(self, ref: Ref) -> Seat | Lost:
        """The row a ref leads to, by its id and the span it is of; a pull keeps one id for a whole trace."""
        ident, span, trace = row_id(ref), ref.span_id, ref.trace_id
        if not trace:
            return Lost("wrong", "it does not say which trace it is of")
        there = self._spans.get((trace, span), []) if span else []
        if ident is not None:
            row = self.by_id.get(ident)
            if row is None:
                return _missing(ident, span, trace, there)
            if row.get("root_span_id") != trace:
                return Lost("wrong", f"the row {ident} is of the trace {row.get('root_span_id')}, not of {trace}")
            if span is None or row.get("span_id") == span:
                return Seat.of(row)
        elif span is None:
            there = self._roots.get(trace, [])
        what = f"span {span} of the trace {trace}" if span else f"trace {trace}"
        if len(there) > 1:
            return Lost("wrong", f"Braintrust has {len(there)} rows of the {what}: name one by its id")
        return Seat.of(there[0]) if there else Lost("unseen", f"Braintrust has no {what} here, or not yet")


def _missing(ident: str, span: str | None, trace: str, there: list[Row]) -> Lost:
    """A row that is not there, though the span may be: then the id is another thing's."""
    named = f"Braintrust has no row {ident} in the trace {trace}"
    if ident == span:
        named = f"{ident} is the id of a span, not of a row"
    if there:
        return Lost("wrong", f"{named}; the row of the span {span} is {there[0].get('id')}. Nothing was written")
    return Lost("absent", f"{named}. Nothing was written")


def _is_span(row: Mapping[str, Any]) -> bool:
    """Whether a row is one that other spans stand below: lines of a log share the id of theirs, scorers judge."""
    return row.get("span_attributes.type") != "log" and row.get("span_attributes.purpose") != "scorer"
