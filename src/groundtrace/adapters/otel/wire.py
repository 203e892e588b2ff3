"""OTLP JSON to the spans and log records it tells of: ids in hex, values as Python has them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from groundtrace.adapters.lines import Problem, damage
from groundtrace.adapters.otel import messages
from groundtrace.adapters.otel.messages import AnyValue, KeyValue, LogRecord
from groundtrace.model import Event, Link, Log, Span

DEEPEST = 32
"""How deep arrays and maps in an attribute may nest."""

TOO_DEEP = "(nested too deep)"
"""Stands where an attribute nests deeper than that."""

_KINDS: Mapping[object, str] = {
    spelling: kind
    for number, kind in enumerate(("internal", "server", "client", "producer", "consumer"), start=1)
    for spelling in (number, str(number), f"SPAN_KIND_{kind.upper()}")
}
_STATUSES: Mapping[object, str] = {
    spelling: status
    for number, status in enumerate(("ok", "error"), start=1)
    for spelling in (number, str(number), f"STATUS_CODE_{status.upper()}")
}
_UNNAMED = Problem("span has no id", "spans have no id", "kept, with one made from the content")
_BACKWARDS = Problem("span ends before it starts", "spans end before they start", "kept")
_DAMAGED = Problem(
    "span or log record held text that is no Unicode",
    "spans or log records held text that is no Unicode",
    "kept, U+FFFD stands there",
)
_HEX = {size: re.compile(f"[0-9a-f]{{{2 * size}}}") for size in (8, 16)}


class Note(NamedTuple):
    """Something odd about a span or log record that was read all the same: what, where, and as what it is counted."""

    trace_id: str
    text: str
    problem: Problem


@dataclass(slots=True)
class Decoded:
    """What one OTLP JSON text held."""

    spans: list[Span] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    nameless: int = 0
    """Spans without a trace id: nothing can be joined to them."""
    misshapen: int = 0
    """Resources, spans and log records that fit no reading of the protocol."""
    strange: str | None = None
    """What the text holds where it is JSON and neither traces nor logs."""


class Decoder:
    """Reads OTLP JSON texts one by one; equal names, trace ids and resources share their memory.

    >>> text = b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "0af7651916cd43dd8448eb211c80319c", '
    >>> text += b'"spanId": "00f067aa0ba902b7", "attributes": [{"key": "n", "value": {"intValue": "7"}}]}]}]}]}'
    >>> [span] = Decoder().decode(text).spans
    >>> span.id, span.attributes
    ('00f067aa0ba902b7', {'n': 7})
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._traces: dict[str, str] = {}
        self._resource: Mapping[str, Any] = {}

    def decode(self, data: bytes) -> Decoded | None:
        """What one text holds; None where it is no JSON at all."""
        parsed = messages.parse(data)
        if parsed is None:
            return None
        decoded = Decoded(misshapen=parsed.misshapen, strange=parsed.strange)
        for export in parsed.exports:
            for group in export.resource_spans or ():
                self._take_spans(group, decoded)
            for logs in export.resource_logs or ():
                for of_scope in logs.scope_logs or ():
                    decoded.logs += map(self._log, of_scope.log_records or ())
        for message in parsed.replaced:
            what = "a log record of span" if isinstance(message, LogRecord) else "span"
            note = f"{what} {_id(message.span_id, 8)}: {damage(data)}"
            decoded.notes.append(Note(self._trace_id(message.trace_id), note, _DAMAGED))
        return decoded

    def _take_spans(self, group: messages.ResourceSpans, decoded: Decoded) -> None:
        resource = self._shared(group.resource)
        for of_scope in group.scope_spans or ():
            scope = self._name((of_scope.scope and of_scope.scope.name) or "")
            for message in of_scope.spans or ():
                trace_id = self._trace_id(message.trace_id)
                if trace_id:
                    span = self._span(message, trace_id, resource, scope)
                    decoded.spans.append(span)
                    decoded.notes += _oddities(message, span)
                else:
                    decoded.nameless += 1

    def _span(self, message: messages.Span, trace_id: str, resource: Mapping[str, Any], scope: str) -> Span:
        attributes = self._attributes(message.attributes)
        status = message.status
        return Span(
            id=_id(message.span_id, 8) or _made_id(message, attributes),
            trace_id=trace_id,
            name=self._name(message.name or ""),
            parent_id=_id(message.parent_span_id, 8) or None,
            kind=_KINDS.get(message.kind, "internal"),
            start=_time(message.start_time_unix_nano),
            end=_time(message.end_time_unix_nano),
            status=_STATUSES.get(status.code, "unset") if status else "unset",
            status_message=(status.message or "") if status else "",
            attributes=attributes,
            events=tuple(
                Event(self._name(event.name or ""), _time(event.time_unix_nano), self._attributes(event.attributes))
                for event in message.events or ()
            ),
            links=tuple(
                Link(self._trace_id(link.trace_id), _id(link.span_id, 8), self._attributes(link.attributes))
                for link in message.links or ()
            ),
            scope=scope,
            resource=resource,
            dropped=_integer(message.dropped_attributes_count) or 0,
        )

    def _log(self, message: LogRecord) -> Log:
        attributes = self._attributes(message.attributes)
        name = message.event_name or attributes.get("event.name") or ""
        return Log(
            name=self._name(name if isinstance(name, str) else ""),
            body=None if message.body is None else _plain(message.body, DEEPEST),
            attributes=attributes,
            time=_time(message.time_unix_nano) or _time(message.observed_time_unix_nano),
            trace_id=self._trace_id(message.trace_id),
            span_id=_id(message.span_id, 8) or None,
        )

    def _attributes(self, pairs: Iterable[KeyValue] | None) -> dict[str, Any]:
        names = self._names
        found: dict[str, Any] = {}
        for pair in pairs or ():
            value = pair.value
            key = names.setdefault(pair.key or "", pair.key or "")
            if value is None or value.string_value is not None:
                found[key] = value and value.string_value
            else:
                found[key] = _plain(value, DEEPEST)
        return found

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, name)

    def _trace_id(self, raw: str | None) -> str:
        known = self._traces.get(raw or "")
        if known is None:
            known = self._traces[raw or ""] = _id(raw, 16)
        return known

    def _shared(self, resource: messages.Resource | None) -> Mapping[str, Any]:
        """The resource; the one before where it is the same, as it is when each span has a line of its own."""
        attributes = self._attributes(resource.attributes if resource else None)
        if attributes != self._resource:
            self._resource = attributes
        return self._resource


def _made_id(message: messages.Span, attributes: Mapping[str, Any]) -> str:
    """An id for a span that came without one: the same for the same content."""
    content = (message.parent_span_id, message.name, message.start_time_unix_nano, message.end_time_unix_nano)
    return hashlib.sha256(repr((content, attributes)).encode()).hexdigest()[:16]


def _oddities(message: messages.Span, span: Span) -> Iterator[Note]:
    if not _id(message.span_id, 8):
        said = f"span {span.id}: came without an id; this one is made from its content"
        yield Note(span.trace_id, said, _UNNAMED)
    if span.start and span.end and span.end < span.start:
        yield Note(span.trace_id, f"span {span.id}: ends before it starts", _BACKWARDS)


# --- one value ------------------------------------------------------------------------------------------------------


def _plain(value: AnyValue, depth: int) -> Any:
    """A value as Python has it; a number that is none (NaN, Infinity) is the word for it."""
    if value.int_value is not None:
        whole = _integer(value.int_value)
        return str(value.int_value) if whole is None else whole
    if value.double_value is not None:
        return _double(value.double_value)
    if value.array_value is not None:
        items = value.array_value.values or ()
        return [item and _plain(item, depth - 1) for item in items] if depth else TOO_DEEP
    if value.kvlist_value is not None:
        pairs = value.kvlist_value.values or ()
        return {pair.key or "": pair.value and _plain(pair.value, depth - 1) for pair in pairs} if depth else TOO_DEEP
    scalars = (value.string_value, value.bool_value, value.bytes_value)
    return next((scalar for scalar in scalars if scalar is not None), None)


def _integer(value: float | str | None) -> int | None:
    try:
        return None if value is None else int(value)
    except (ValueError, OverflowError):
        return None


def _double(value: float | str) -> float | str:
    try:
        number = float(value)
    except ValueError:
        return str(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _time(value: float | str | None) -> int | None:
    """Nanoseconds since 1970, or None where there are none: 0 is how protobuf writes nothing."""
    time = _integer(value)
    return time if time and time > 0 else None


def _id(raw: str | None, size: int) -> str:
    """An id of so many bytes in hex, from hex or base64; one that is neither stays what it is, all zeros is none.

    >>> _id("bmEtc0NybqfIGc/rf4s/XQ==", 16), _id("0000000000000000", 8), _id("my-span", 8)
    ('6e612d7343726ea7c819cfeb7f8b3f5d', '', 'my-span')
    """
    if not raw or not raw.strip("0"):
        return ""
    hexadecimal = _HEX[size]
    if hexadecimal.fullmatch(raw):
        return raw
    plain = raw.lower().replace("-", "")
    if hexadecimal.fullmatch(plain):
        return plain
    if len(raw) == -(-size // 3) * 4 and raw.endswith("="):
        try:
            read = base64.b64decode(raw.replace("-", "+").replace("_", "/"), validate=True)
        except binascii.Error:
            return raw
        if len(read) == size:
            return read.hex() if any(read) else ""
    return raw
