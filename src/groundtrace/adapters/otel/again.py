"""Traces of a file, made to be sent to a server: as if they had ended just now, and with what their logs held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from groundtrace.adapters.otel.requests import taken

_TIMES = ("startTimeUnixNano", "endTimeUnixNano", "timeUnixNano")
_PROJECT = "openinference.project.name"


def requests(traces: bytes, logs: bytes, *, project: str, ended: int) -> Iterator[tuple[bytes, int]]:
    """OTLP requests of lines of OTLP JSON, each with how many spans it holds.

    The last span ends then (nanoseconds since 1970), the others as long before as they did. What a log record says of
    a span is put among its attributes: Phoenix takes no logs.
    """
    exports = [orjson.loads(line) for line in traces.splitlines() if line.strip()]
    held = _by_span(orjson.loads(line) for line in logs.splitlines() if line.strip())
    spans = [span for export in exports for span in _spans(export)]
    later = ended - max(int(span["endTimeUnixNano"]) for span in spans)
    for span in spans:
        _move(span, later)
        known = {pair["key"] for pair in span["attributes"]}
        more = (pair for pair in held.get(span["spanId"], ()) if pair["key"] not in known)
        span["attributes"] += ({"key": pair["key"], "value": _on_a_span(pair["value"])} for pair in more)
    for export in exports:
        for group in export["resourceSpans"]:
            group["resource"]["attributes"].append({"key": _PROJECT, "value": {"stringValue": project}})
        for parcel in taken("traces", orjson.dumps(export), json=True, apart=lambda _: False).parcels:
            yield parcel.data, parcel.count


def _spans(export: Any) -> Iterator[Any]:
    for group in export["resourceSpans"]:
        for scope in group["scopeSpans"]:
            yield from scope["spans"]


def _by_span(exports: Iterator[Any]) -> dict[str, list[Any]]:
    """What log records say, by the span they name."""
    found: dict[str, list[Any]] = {}
    for export in exports:
        for group in export["resourceLogs"]:
            for scope in group["scopeLogs"]:
                for record in scope["logRecords"]:
                    found.setdefault(record["spanId"], []).extend(record["attributes"])
    return found


def _move(span: Any, later: int) -> None:
    for at in (span, *span.get("events", ())):
        for name in _TIMES:
            if name in at:
                at[name] = str(int(at[name]) + later)


def _on_a_span(value: Any) -> Any:
    """A value as attributes of spans have it: what holds others is a JSON text there."""
    nested = "arrayValue" in value or "kvlistValue" in value
    return {"stringValue": orjson.dumps(_plain(value)).decode()} if nested else value


def _plain(value: Any) -> Any:
    if "arrayValue" in value:
        return [_plain(item) for item in value["arrayValue"].get("values", ())]
    if "kvlistValue" in value:
        return {pair["key"]: _plain(pair["value"]) for pair in value["kvlistValue"].get("values", ())}
    if "intValue" in value:
        return int(value["intValue"])
    return next(iter(value.values()), None)
