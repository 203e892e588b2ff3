"""A run as LangSmith's API tells it, by either generation, as a span; the runs of a trace as a trace.

The row stays as it came, in the attribute `langsmith.run`: what it means is a convention's to say. v1 writes types and
statuses in lower case and the project as `session_id`, v2 in upper case and `project_id`; a time without a zone is UTC
[webhooks and older SDKs write those]. What v2 does with payloads kept apart is not documented; it is read as v1's.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from groundtrace.adapters.lines import REPLACED
from groundtrace.adapters.times import nanoseconds
from groundtrace.model import JUDGE_MARK, Ref, Signal, Span, Trace

Row: TypeAlias = Mapping[str, Any]

PLATFORM = "langsmith"
ATTRIBUTE = "langsmith.run"
MOST = 25_000
"""Runs a trace can hold [LangSmith's documentation]."""

ROOT = (
    "ID", "NAME", "RUN_TYPE", "STATUS", "START_TIME", "END_TIME", "TRACE_ID", "PROJECT_ID", "THREAD_ID", "ERROR",
    "TAGS", "METADATA", "FEEDBACK_STATS", "DOTTED_ORDER",
)  # fmt: skip
"""What is asked of a root before its trace is chosen."""

WHOLE = (
    "ID", "NAME", "RUN_TYPE", "STATUS", "START_TIME", "END_TIME", "TRACE_ID", "PROJECT_ID", "THREAD_ID", "ERROR",
    "TAGS", "METADATA", "INPUTS", "OUTPUTS", "PARENT_RUN_IDS", "DOTTED_ORDER", "REFERENCE_EXAMPLE_ID",
)  # fmt: skip
"""What is asked of every run of a trace that was chosen; attachments are left alone."""

ROOT_V1 = (
    "id", "name", "run_type", "status", "start_time", "end_time", "trace_id", "session_id", "thread_id", "error",
    "tags", "extra", "feedback_stats", "dotted_order",
)  # fmt: skip
WHOLE_V1 = (
    "id", "name", "run_type", "status", "start_time", "end_time", "trace_id", "session_id", "thread_id", "error",
    "tags", "extra", "inputs", "outputs", "inputs_s3_urls", "outputs_s3_urls", "parent_run_id", "parent_run_ids",
    "dotted_order", "reference_example_id",
)  # fmt: skip

_STATUS = {"success": "ok", "error": "error"}


def zoned(time: object) -> str:
    """A time as the API told it, with the zone it may lack; "" where it is none.

    >>> zoned("2026-03-06T10:00:00.123456")
    '2026-03-06T10:00:00.123456+00:00'
    """
    if not isinstance(time, str):
        return ""
    try:
        moment = dt.datetime.fromisoformat(time)
    except ValueError:
        return ""
    return time if moment.tzinfo is not None else f"{time}+00:00"


def span(row: Row) -> Span:
    """A run as a span that holds its row.

    >>> told = {"id": "b", "trace_id": "a", "parent_run_id": None, "run_type": "TOOL", "status": "SUCCESS"}
    >>> span(told | {"dotted_order": "20260101T000000000000Za.20260101T000000000001Zb"}).parent_id
    'a'
    """
    status = row.get("status")
    failed = row.get("error")
    attributes: dict[str, Any] = {ATTRIBUTE: row}
    if is_ours(row):
        attributes[JUDGE_MARK] = True
    name = row.get("name")
    return Span(
        str(row["id"]),
        trace_of(row),
        name if isinstance(name, str) else "",
        parent_of(row),
        "internal",
        nanoseconds(row.get("start_time")),
        nanoseconds(row.get("end_time")),
        "error" if failed else _STATUS.get(status.lower(), "unset") if isinstance(status, str) else "unset",
        failed if isinstance(failed, str) else "",
        attributes,
    )


def trace_of(row: Row) -> str:
    """The id of the trace a run is part of."""
    return str(row.get("trace_id") or row["id"])


def parent_of(row: Row) -> str | None:
    """The run a run stands below, from whichever of three places tells: some rows lack one or two of them."""
    named = row.get("parent_run_id")
    if named:
        return str(named)
    above = row.get("parent_run_ids")
    if isinstance(above, list) and above:
        return str(above[-1])
    order = row.get("dotted_order")
    if isinstance(order, str) and "." in order:
        return order.rsplit(".", 2)[-2].partition("Z")[2] or None
    return None


def is_over(row: Row) -> bool:
    """Whether a run ended; one that was begun and never told to have ended is pending."""
    return bool(row.get("end_time")) and str(row.get("status") or "").lower() != "pending"


def is_ours(row: Row) -> bool:
    """Whether a judge of ours left a run: its metadata or its tags carry the mark."""
    tags = row.get("tags")
    return JUDGE_MARK in metadata(row) or (isinstance(tags, list) and JUDGE_MARK in tags)


def metadata(row: Row) -> Mapping[str, Any]:
    """What the traced program says of a run beside what went in and came out."""
    extra = row.get("extra")
    told = extra.get("metadata") if isinstance(extra, Mapping) else None
    told = told if isinstance(told, Mapping) else row.get("metadata")
    return told if isinstance(told, Mapping) else {}


def ref(root: Row, project: str) -> Ref:
    """Where feedback on a trace goes: its root, in its project, with the start LangSmith files it under."""
    keys = {"run_id": str(root["id"]), "start_time": zoned(root.get("start_time"))}
    return Ref(PLATFORM, project, trace_of(root), str(root["id"]), {k: v for k, v in keys.items() if v})


def trace(
    of: Ref,
    runs: Iterable[Row],
    *,
    signals: Sequence[Signal] = (),
    complete: bool = True,
    notes: Sequence[str] = (),
    damaged: Sequence[str] = (),
) -> Trace:
    """The runs of a trace, each once, in the order they began; `damaged` are the ids of rows that lost characters."""
    held = {str(row["id"]): row for row in runs}
    spans = sorted(map(span, held.values()), key=lambda one: (one.start or 0, one.id))
    told = [f"span {ident}: {REPLACED}" for ident in damaged if ident in held]
    return Trace(of, tuple(spans), signals=tuple(signals), complete=complete, notes=(*notes, *told))
