"""Rows of Braintrust's API as a trace: one span a row, the row verbatim in its attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groundtrace.model import Ref, Span, Trace

ROW = "braintrust.row"


def trace(rows: Iterable[Mapping[str, Any]]) -> Trace:
    """The trace of these rows, as an adapter hands it over; rows that merely log something come last."""
    listed = sorted(rows, key=lambda row: (row.get("span_attributes") or {}).get("type") == "log")
    spans = tuple(span(row) for row in listed)
    return Trace(Ref("braintrust", "p", spans[0].trace_id if spans else ""), spans)


def span(row: Mapping[str, Any]) -> Span:
    """One row as a span: tolerant of rows that lack their parents, their times or their attributes."""
    attributes = row.get("span_attributes") or {}
    metrics = row.get("metrics") or {}
    parents = row.get("span_parents") or [None]
    error = row.get("error")
    return Span(
        str(row["span_id"]),
        str(row["root_span_id"]),
        name=attributes.get("name") or "",
        parent_id=parents[0],
        start=_nanoseconds(metrics.get("start")),
        end=_nanoseconds(metrics.get("end")),
        status="error" if error else "unset",
        status_message=str(error).strip().splitlines()[-1] if error else "",
        attributes={ROW: row},
    )


def _nanoseconds(seconds: Any) -> int | None:
    return int(seconds * 1_000_000_000) if isinstance(seconds, (int, float)) else None
