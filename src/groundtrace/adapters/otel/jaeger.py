"""Jaeger's JSON to spans: what its query API and its UI's download hold, its Elasticsearch rows, its protobuf as JSON.

Source: Jaeger's `model/json` and `api_v2`, and OpenTelemetry's rules for formats other than its own: what Jaeger has no
field for (kind, status, scope) stands in tags, events are logs with a field `event`. Times are microseconds. No server
ran; checked against a trace converted by those rules. Jaeger's third API answers in OTLP, see `messages`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from groundtrace.adapters.otel.tagged import of_tags
from groundtrace.adapters.values import listed, moment, neat, padded, word
from groundtrace.model import Event, Link, Span

NAME = "Jaeger JSON"
MARK = re.compile(rb'"(traceID|operationName|operation_name)"\s*:')

_MICRO = 1000
_TYPED = re.compile(r"v_?([A-Z]\w*|str|bool|int64|float64|binary)")
_SECONDS = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?s")


def spans(document: object) -> list[Span] | None:
    """The spans of one JSON value; None where it is none of Jaeger's."""
    found = [_span(row, process) for row, process in _rows(document)]
    return found or None


def _rows(document: object) -> Iterator[tuple[Mapping[str, Any], object]]:
    """Each span's row with the process it ran in."""
    held = document.get("result", document) if isinstance(document, dict) else None
    if not isinstance(held, dict):
        return
    if _is_span(held):
        yield held, held.get("process")
        return
    for trace in [held, *listed(held.get("data"))]:
        processes = trace.get("processes")
        for row in [one for one in listed(trace.get("spans")) if _is_span(one)]:
            named = processes.get(word(_of(row, "processID"))) if isinstance(processes, dict) else None
            yield row, row.get("process") or named or trace.get("process")


def _is_span(row: Mapping[str, Any]) -> bool:
    return _of(row, "traceID") is not None and ("operationName" in row or "operation_name" in row)


def _span(row: Mapping[str, Any], process: object) -> Span:
    start, lasted = moment(_of(row, "startTime"), _MICRO), _lasted(row.get("duration"))
    trace_id = padded(_of(row, "traceID"), 16)
    parent, links = _above(row, trace_id)
    events = listed(row.get("logs"))
    return of_tags(
        Span(
            id=padded(_of(row, "spanID"), 8),
            trace_id=trace_id,
            name=word(_of(row, "operationName")),
            parent_id=parent,
            start=start,
            end=start + lasted if start and lasted is not None else None,
            attributes=_tags(row.get("tags") or row.get("tag")),
            events=tuple(map(_event, events)),
            links=links,
            resource=_resource(process),
        )
    )


def _above(row: Mapping[str, Any], trace_id: str) -> tuple[str | None, tuple[Link, ...]]:
    """The parent, and whatever else the span points to."""
    parent = padded(_of(row, "parentSpanID"), 8) or None
    links: list[Link] = []
    told = [
        (word(_of(one, "refType")), padded(_of(one, "traceID"), 16) or trace_id, padded(_of(one, "spanID"), 8))
        for one in listed(row.get("references"))
    ]
    for _, trace, span in sorted(told, key=lambda one: one[0] == "FOLLOWS_FROM"):
        if span and trace == trace_id and parent in (None, span):
            parent = span
        elif span:
            links.append(Link(trace, span))
    return parent, tuple(links)


def _event(log: Mapping[str, Any]) -> Event:
    fields = _tags(log.get("fields"))
    return Event(word(fields.pop("event", "")), moment(log.get("timestamp"), _MICRO), fields)


def _resource(process: object) -> dict[str, Any]:
    if not isinstance(process, dict):
        return {}
    service = word(_of(process, "serviceName"))
    return {**_tags(process.get("tags") or process.get("tag")), **({"service.name": service} if service else {})}


def _tags(raw: object) -> dict[str, Any]:
    """Tags as a list of keys and values, or as Elasticsearch has them: one object, dots written as @."""
    if isinstance(raw, dict):
        return {key.replace("@", "."): neat(value) for key, value in raw.items()}
    return {word(tag.get("key")): _value(tag) for tag in listed(raw)}


def _value(tag: Mapping[str, Any]) -> Any:
    """A tag's value by the type it says it has."""
    kind = word(_of(tag, "vType") or tag.get("type") or "string").lower()
    value = tag.get("value")
    if value is None:
        value = next((v for k, v in tag.items() if _TYPED.fullmatch(k) and k not in ("vType", "v_type")), None)
    try:
        if kind == "bool":
            return str(value).lower() == "true"
        if kind == "int64":
            return int(value or 0)
        if kind == "float64":
            return neat(float(value or 0))
    except (ValueError, TypeError, OverflowError):
        return neat(value)
    return "" if value is None else neat(value)


def _lasted(raw: object) -> int | None:
    """Nanoseconds from microseconds, or from seconds as protobuf writes them in JSON."""
    if isinstance(raw, str) and (said := _SECONDS.fullmatch(raw)):
        return int(said[1]) * 1_000_000_000 + int((said[2] or "").ljust(9, "0"))
    if isinstance(raw, str) and raw.isdecimal():
        return int(raw[:20]) * _MICRO
    return int(raw * _MICRO) if isinstance(raw, (int, float)) and abs(raw) < 1 << 53 else None


def _of(row: Mapping[str, Any], name: str) -> Any:
    """What stands under a name, in either of Jaeger's spellings: traceID, traceId or trace_id."""
    found = row.get(name)
    if found is None:
        found = row.get(name.replace("ID", "Id"))
    return row.get(_snake(name)) if found is None else found


def _snake(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name.replace("ID", "Id")).lower()
