"""Runs of LangSmith's API as traces: each row becomes a span that holds it verbatim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from groundtrace.model import Ref, Span, Trace

_STATUS = {"success": "ok", "error": "error"}


def traces(rows: Iterable[Mapping[str, Any]]) -> list[Trace]:
    """The traces these runs belong to, in the order they come up."""
    grouped: dict[str, list[Span]] = {}
    projects: dict[str, str | None] = {}
    for row in rows:
        grouped.setdefault(row["trace_id"], []).append(run(row))
        projects.setdefault(row["trace_id"], row.get("session_id"))
    return [Trace(Ref("langsmith", projects[ident], ident), tuple(spans)) for ident, spans in grouped.items()]


def run(row: Mapping[str, Any]) -> Span:
    """One run as a span."""
    return Span(
        row["id"],
        row["trace_id"],
        name=row.get("name") or "",
        parent_id=row.get("parent_run_id"),
        start=_nanoseconds(row.get("start_time")),
        end=_nanoseconds(row.get("end_time")),
        status=_STATUS.get(str(row.get("status")).lower(), "unset"),
        status_message=row.get("error") or "",
        attributes={"langsmith.run": row},
    )


def _nanoseconds(written: str | None) -> int | None:
    """A time as LangSmith writes it, which at times has no zone and is UTC then."""
    if written is None:
        return None
    moment = datetime.fromisoformat(written)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000) * 1_000
