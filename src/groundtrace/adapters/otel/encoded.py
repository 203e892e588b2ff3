"""OTLP JSON as OTLP protobuf: what came spelled one way leaves the other, with all it held."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from opentelemetry.proto.common.v1 import common_pb2 as common
from opentelemetry.proto.logs.v1 import logs_pb2 as logs
from opentelemetry.proto.resource.v1 import resource_pb2 as resources
from opentelemetry.proto.trace.v1 import trace_pb2 as traces

from groundtrace.adapters.otel import messages
from groundtrace.adapters.otel.messages import AnyValue, KeyValue
from groundtrace.adapters.values import identity

_T = TypeVar("_T")
_S = TypeVar("_S")


def spans_of(group: messages.ResourceSpans, refuse: Callable[[], None]) -> traces.ResourceSpans:
    """Spans of one service; `refuse` is told of each that no protobuf can hold, and it is left out."""
    return traces.ResourceSpans(
        resource=_resource(group.resource),
        scope_spans=[
            traces.ScopeSpans(
                scope=_scope(of_scope.scope),
                spans=_each(_span, of_scope.spans, refuse),
                schema_url=of_scope.schema_url or "",
            )
            for of_scope in group.scope_spans or ()
        ],
        schema_url=group.schema_url or "",
    )


def logs_of(group: messages.ResourceLogs, refuse: Callable[[], None]) -> logs.ResourceLogs:
    """Log records of one service, as `spans_of`."""
    return logs.ResourceLogs(
        resource=_resource(group.resource),
        scope_logs=[
            logs.ScopeLogs(
                scope=_scope(of_scope.scope),
                log_records=_each(_log, of_scope.log_records, refuse),
                schema_url=of_scope.schema_url or "",
            )
            for of_scope in group.scope_logs or ()
        ],
        schema_url=group.schema_url or "",
    )


def value(given: object) -> common.AnyValue:
    """A value of Python as OTLP has it.

    >>> value(["a", 1]).array_value.values[1].int_value
    1
    """
    if isinstance(given, bool):
        return common.AnyValue(bool_value=given)
    if isinstance(given, int):
        return common.AnyValue(int_value=given)
    if isinstance(given, float):
        return common.AnyValue(double_value=given)
    if isinstance(given, (list, tuple)):
        return common.AnyValue(array_value=common.ArrayValue(values=map(value, given)))
    return common.AnyValue(string_value=str(given))


def _each(made: Callable[[_T], _S], items: Iterable[_T] | None, refuse: Callable[[], None]) -> list[_S]:
    found = []
    for item in items or ():
        try:
            found.append(made(item))
        except (ValueError, TypeError, OverflowError, binascii.Error):
            refuse()
    return found


def _span(span: messages.Span) -> traces.Span:
    return traces.Span(
        trace_id=_id(span.trace_id, 16),
        span_id=_id(span.span_id, 8),
        trace_state=span.trace_state or "",
        parent_span_id=_id(span.parent_span_id, 8),
        flags=_number(span.flags),
        name=span.name or "",
        kind=_enum(span.kind, traces.Span.SpanKind.Value),
        start_time_unix_nano=_number(span.start_time_unix_nano),
        end_time_unix_nano=_number(span.end_time_unix_nano),
        attributes=_pairs(span.attributes),
        dropped_attributes_count=_number(span.dropped_attributes_count),
        events=[
            traces.Span.Event(
                time_unix_nano=_number(event.time_unix_nano),
                name=event.name or "",
                attributes=_pairs(event.attributes),
                dropped_attributes_count=_number(event.dropped_attributes_count),
            )
            for event in span.events or ()
        ],
        dropped_events_count=_number(span.dropped_events_count),
        links=[
            traces.Span.Link(
                trace_id=_id(link.trace_id, 16),
                span_id=_id(link.span_id, 8),
                trace_state=link.trace_state or "",
                attributes=_pairs(link.attributes),
                dropped_attributes_count=_number(link.dropped_attributes_count),
                flags=_number(link.flags),
            )
            for link in span.links or ()
        ],
        dropped_links_count=_number(span.dropped_links_count),
        status=_status(span.status),
    )


def _status(status: messages.Status | None) -> traces.Status | None:
    if status is None:
        return None
    return traces.Status(message=status.message or "", code=_enum(status.code, traces.Status.StatusCode.Value))


def _log(log: messages.LogRecord) -> logs.LogRecord:
    return logs.LogRecord(
        time_unix_nano=_number(log.time_unix_nano),
        observed_time_unix_nano=_number(log.observed_time_unix_nano),
        severity_number=_enum(log.severity_number, logs.SeverityNumber.Value),
        severity_text=log.severity_text or "",
        body=None if log.body is None else _any(log.body),
        attributes=_pairs(log.attributes),
        dropped_attributes_count=_number(log.dropped_attributes_count),
        flags=_number(log.flags),
        trace_id=_id(log.trace_id, 16),
        span_id=_id(log.span_id, 8),
        event_name=log.event_name or "",
    )


def _resource(resource: messages.Resource | None) -> resources.Resource | None:
    if resource is None:
        return None
    dropped = _bounded(resource.dropped_attributes_count)
    return resources.Resource(attributes=_pairs(resource.attributes), dropped_attributes_count=dropped)


def _scope(scope: messages.Scope | None) -> common.InstrumentationScope | None:
    if scope is None:
        return None
    return common.InstrumentationScope(
        name=scope.name or "",
        version=scope.version or "",
        attributes=_pairs(scope.attributes),
        dropped_attributes_count=_bounded(scope.dropped_attributes_count),
    )


def _pairs(pairs: Iterable[KeyValue] | None) -> list[common.KeyValue]:
    return [
        common.KeyValue(key=pair.key or "", value=None if pair.value is None else _any(pair.value))
        for pair in pairs or ()
    ]


def _any(told: AnyValue) -> common.AnyValue:
    """A value; one of an array or a map holds values itself."""
    if told.array_value is not None:
        items = [common.AnyValue() if item is None else _any(item) for item in told.array_value.values or ()]
        return common.AnyValue(array_value=common.ArrayValue(values=items))
    if told.kvlist_value is not None:
        return common.AnyValue(kvlist_value=common.KeyValueList(values=_pairs(told.kvlist_value.values)))
    return common.AnyValue(**_scalar(told))


def _scalar(told: AnyValue) -> dict[str, Any]:
    """A value that is one thing, under the name protobuf has for it."""
    if told.string_value is not None:
        return {"string_value": told.string_value}
    if told.bool_value is not None:
        return {"bool_value": told.bool_value}
    if told.int_value is not None:
        return {"int_value": int(told.int_value)}
    if told.double_value is not None:
        return {"double_value": float(told.double_value)}
    packed = told.bytes_value
    return {} if packed is None else {"bytes_value": base64.b64decode(packed, validate=True)}


def _id(raw: str | None, size: int) -> bytes:
    """An id's bytes, none where there is none; ValueError where it is no id."""
    return bytes.fromhex(identity(raw, size))


def _number(raw: float | str | None) -> int:
    return int(raw) if raw is not None else 0


def _bounded(raw: float | str | None) -> int:
    """A count; of one that is none nothing hangs."""
    try:
        return min(max(int(raw or 0), 0), 2**32 - 1)
    except (ValueError, OverflowError):
        return 0


def _enum(raw: int | str | None, named: Callable[[str], Any]) -> Any:
    if isinstance(raw, str) and not raw.isdecimal():
        return named(raw)
    return int(raw or 0)
