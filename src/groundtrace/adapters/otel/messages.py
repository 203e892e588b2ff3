"""The messages of OTLP JSON, and how JSON of any spelling is fitted into them.

The usual spelling is decoded straight into structs that refuse what they don't know. Whatever they refuse goes the
careful way: snake_case and older names are mended, unknown fields dropped, text that is no Unicode replaced, and a
span that still does not fit is counted alone, never with its neighbours.
"""

from __future__ import annotations

import functools
import json
import re
import typing
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from groundtrace.adapters.lines import clean


class Wire(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """A message of the OTLP protocol."""


Number = int | float | str | None
"""64-bit integers are strings in OTLP JSON; many writers use numbers all the same."""


class Array(Wire):
    """Values in order."""

    values: list[AnyValue | None] | None = None


class Map(Wire):
    """Values by name."""

    values: list[KeyValue] | None = None


class AnyValue(Wire):
    """A value with its type; none set is null."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Number = None
    double_value: Number = None
    array_value: Array | None = None
    kvlist_value: Map | None = None
    bytes_value: str | None = None


class KeyValue(Wire):
    """A value with its name."""

    key: str | None = None
    value: AnyValue | None = None


class Resource(Wire):
    """What produced the spans: a service in an environment."""

    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Number = None
    entity_refs: msgspec.Raw | None = None


class Scope(Wire):
    """The instrumentation that made the spans."""

    name: str | None = None
    version: str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Number = None


class Event(Wire):
    """Something a span noted while it ran."""

    time_unix_nano: Number = None
    name: str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Number = None


class Link(Wire):
    """Another span that a span points to."""

    trace_id: str | None = None
    span_id: str | None = None
    trace_state: str | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Number = None
    flags: Number = None


class Status(Wire):
    """How a span ended."""

    message: str | None = None
    code: int | str | None = None


class Span(Wire):
    """One operation of a trace."""

    trace_id: str | None = None
    span_id: str | None = None
    trace_state: str | None = None
    parent_span_id: str | None = None
    flags: Number = None
    name: str | None = None
    kind: int | str | None = None
    start_time_unix_nano: Number = None
    end_time_unix_nano: Number = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Number = None
    events: list[Event] | None = None
    dropped_events_count: Number = None
    links: list[Link] | None = None
    dropped_links_count: Number = None
    status: Status | None = None


class LogRecord(Wire):
    """One log record; it may name a trace and a span."""

    time_unix_nano: Number = None
    observed_time_unix_nano: Number = None
    severity_number: int | str | None = None
    severity_text: str | None = None
    body: AnyValue | None = None
    attributes: list[KeyValue] | None = None
    dropped_attributes_count: Number = None
    flags: Number = None
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None


class ScopeSpans(Wire):
    """Spans of one instrumentation."""

    scope: Scope | None = None
    spans: list[Span] | None = None
    schema_url: str | None = None


class ScopeLogs(Wire):
    """Log records of one instrumentation."""

    scope: Scope | None = None
    log_records: list[LogRecord] | None = None
    schema_url: str | None = None


class ResourceSpans(Wire):
    """Spans of one service."""

    resource: Resource | None = None
    scope_spans: list[ScopeSpans] | None = None
    schema_url: str | None = None


class ResourceLogs(Wire):
    """Log records of one service."""

    resource: Resource | None = None
    scope_logs: list[ScopeLogs] | None = None
    schema_url: str | None = None


class Export(Wire):
    """What one line of a file holds: spans, or log records."""

    resource_spans: list[ResourceSpans] | None = None
    resource_logs: list[ResourceLogs] | None = None


_W = TypeVar("_W", bound=Wire)
_decode = msgspec.json.Decoder(Export).decode

_NAMES = {
    "batches": "resourceSpans",
    "instrumentationLibrarySpans": "scopeSpans",
    "instrumentationLibraryLogs": "scopeLogs",
    "instrumentationLibrary": "scope",
}
"""Names that Tempo and OTLP before 1.0 gave things."""
_WRAPPED = ("trace", "result")
"""In what Tempo's second API and Jaeger's third put OTLP."""
_SNAKE = re.compile("_([a-z])")

NESTED = object()
"""Stands for JSON that is nested too deep to be read."""


class Parsed(msgspec.Struct):
    """The messages of one JSON text, and what it took to read them."""

    exports: list[Export] = msgspec.field(default_factory=list)
    replaced: list[Span | LogRecord] = msgspec.field(default_factory=list)
    """Messages whose text was no Unicode here and there; U+FFFD stands in its place."""
    misshapen: int = 0
    """Resources, spans and log records that fit no reading of the protocol."""
    others: list[object] = msgspec.field(default_factory=list)
    """JSON values that are no OTLP, as they stand."""
    torn: bool = False
    """Whether the bytes of those were no UTF-8, or held half characters."""


def parse(data: bytes) -> Parsed | None:
    """Read one JSON text; None where it is no JSON at all.

    >>> parse(b'{"resource_spans": [{"scope_spans": [{"spans": [{"span_id": "07", "x": 1}]}]}]}').misshapen
    0
    >>> parse(b'{"resourceMetrics": []}').others
    [{'resourceMetrics': []}]
    """
    try:
        export = _decode(data)
    except (ValueError, RecursionError):
        export = Export()
    if export.resource_spans is not None or export.resource_logs is not None:
        return Parsed([export])
    try:
        raw = json.loads(data.decode("utf-8", "surrogateescape"))
    except ValueError:
        return None
    except RecursionError:
        return Parsed(others=[NESTED])
    parsed = Parsed()
    for item in raw if isinstance(raw, list) else [raw]:
        document = next((inner for name in _WRAPPED if _is_otlp(inner := _member(item, name))), _bare(item))
        if _is_otlp(document):
            parsed.exports.append(_fitted(document, parsed))
        else:
            parsed.others.append(item)
    if parsed.others or not parsed.exports:
        parsed.others = parsed.others or [raw]
        parsed.torn = _torn(parsed.others)
    return parsed


def _bare(item: object) -> object:
    """Spans of OTLP in a list of their own, as Phoenix hands them out, put where OTLP has them; else the item."""
    spans = _listed(_member(item, "data"))
    if spans and all(isinstance(_member(span, "attributes"), list) and _member(span, "traceId") for span in spans):
        return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    return item


def _fitted(document: object, parsed: Parsed) -> Export:
    """As much of a document as can be made to fit."""
    return Export(
        [
            ResourceSpans(
                _fit(Resource, _member(of_resource, "resource"), parsed),
                [
                    ScopeSpans(
                        _fit(Scope, _member(of_scope, "scope"), parsed),
                        _fits(Span, _member(of_scope, "spans"), parsed),
                        _schema(of_scope),
                    )
                    for of_scope in _listed(_member(of_resource, "scopeSpans"))
                ],
                _schema(of_resource),
            )
            for of_resource in _listed(_member(document, "resourceSpans"))
        ],
        [
            ResourceLogs(
                _fit(Resource, _member(of_resource, "resource"), parsed),
                [
                    ScopeLogs(
                        _fit(Scope, _member(of_scope, "scope"), parsed),
                        _fits(LogRecord, _member(of_scope, "logRecords"), parsed),
                        _schema(of_scope),
                    )
                    for of_scope in _listed(_member(of_resource, "scopeLogs"))
                ],
                _schema(of_resource),
            )
            for of_resource in _listed(_member(document, "resourceLogs"))
        ],
    )


def _schema(of: object) -> str | None:
    """The version of the conventions something says it keeps to."""
    told = _member(of, "schemaUrl")
    return clean(told) if isinstance(told, str) else None


def _fits(kind: type[_W], raw: object, parsed: Parsed) -> list[_W]:
    fitted = (_fit(kind, item, parsed) for item in _listed(raw))
    return [wire for wire in fitted if wire is not None]


def _fit(kind: type[_W], raw: object, parsed: Parsed) -> _W | None:
    """One message made to fit, or None where it can't be; that is counted."""
    if raw is None:
        return None
    replaced: list[str] = []
    try:
        wire = msgspec.convert(_mended(kind, raw, replaced), kind, strict=False)
    except (ValueError, RecursionError):
        parsed.misshapen += 1
        return None
    if replaced and isinstance(wire, (Span, LogRecord)):
        parsed.replaced.append(wire)
    return wire


def _mended(kind: type[Wire] | None, raw: object, replaced: list[str]) -> object:
    """A message with the names `kind` knows and no others, its text clean; what was not is told to `replaced`."""
    if isinstance(raw, str):
        text = clean(raw)
        if text != raw:
            replaced.append(text)
        return text
    if isinstance(raw, list):
        return [_mended(kind, item, replaced) for item in raw]
    if not isinstance(raw, dict) or kind is None:
        return raw
    known = _members(kind)
    named = ((_camel(key), value) for key, value in raw.items())
    return {key: _mended(known[key], value, replaced) for key, value in named if key in known}


@functools.cache
def _members(kind: type[Wire]) -> Mapping[str, type[Wire] | None]:
    """The names a message knows, and the message each of them holds."""
    hints = typing.get_type_hints(kind)
    return {field.encode_name: _message(hints[field.name]) for field in msgspec.structs.fields(kind)}


def _message(hint: object) -> type[Wire] | None:
    if isinstance(hint, type) and issubclass(hint, Wire):
        return hint
    return next((found for part in typing.get_args(hint) if (found := _message(part))), None)


@functools.lru_cache(maxsize=1024)
def _camel(key: str) -> str:
    """The name as OTLP JSON has it today.

    >>> _camel("start_time_unix_nano"), _camel("batches")
    ('startTimeUnixNano', 'resourceSpans')
    """
    name = _SNAKE.sub(lambda match: match[1].upper(), key)
    return _NAMES.get(name, name)


def _member(raw: object, name: str) -> object:
    return next((v for k, v in raw.items() if _camel(k) == name), None) if isinstance(raw, dict) else None


def _listed(raw: object) -> list[object]:
    return raw if isinstance(raw, list) else [] if raw is None else [raw]


def _is_otlp(document: object) -> bool:
    return isinstance(document, dict) and any(_camel(key) in ("resourceSpans", "resourceLogs") for key in document)


def _torn(raw: object) -> bool:
    """Whether a text in JSON holds half characters; bytes that are no UTF-8 were read as such."""
    try:
        json.dumps(raw, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except RecursionError:
        return False
    return False


def looks(documents: list[object]) -> str:
    """What JSON that nobody reads looks like."""
    first = documents[0] if documents else None
    if first is NESTED:
        return "JSON that is nested too deep"
    keys: set[str] = set(first) if isinstance(first, dict) else set()
    if keys & {"resourceMetrics", "resource_metrics"}:
        return "metrics, not traces"
    return "JSON that is no OTLP"
