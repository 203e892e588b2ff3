"""Spans that ended in this process to the spans a file of them would give: one way to read a trace, wherever it is.

What OTLP's encoding would do to a value is done here: what it has no form for is left out, bytes are base64, a number
that is none is the word for it. Source: `opentelemetry.exporter.otlp.proto.common` of 1.45, against which every trace
of the corpus is tested.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, StatusCode

from groundtrace.adapters.lines import clean
from groundtrace.adapters.otel.source import ordered
from groundtrace.adapters.values import DEEPEST, TOO_DEEP, double
from groundtrace.model import Event, Link, Ref, Span, Trace

PLATFORM = "otel"

_KINDS = {
    SpanKind.INTERNAL: "internal",
    SpanKind.SERVER: "server",
    SpanKind.CLIENT: "client",
    SpanKind.PRODUCER: "producer",
    SpanKind.CONSUMER: "consumer",
}
_STATUSES = {StatusCode.UNSET: "unset", StatusCode.OK: "ok", StatusCode.ERROR: "error"}
_WHOLE = 1 << 63
"""OTLP's whole numbers have 64 bits."""


def trace(spans: Iterable[ReadableSpan]) -> Trace:
    """The spans of one trace as it is read from a file."""
    resources: dict[int, Mapping[str, Any]] = {}
    made = [_span(span, resources) for span in spans]
    return Trace(ref=Ref(PLATFORM, trace_id=made[0].trace_id if made else ""), spans=ordered(made))


def trace_id(context: SpanContext) -> str:
    """A trace's id as it is written."""
    return f"{context.trace_id:032x}"


def weight(span: ReadableSpan) -> int:
    """About how many bytes a span holds; quick, for it is asked of every span that ends."""
    # The attributes as they stand: to go through the SDK's views of them, which lock and copy, costs ten times as much.
    attributes: Any = span._attributes or {}  # noqa: SLF001
    size = 300
    for key, value in getattr(attributes, "_dict", attributes).items():
        size += len(key) + (len(value) if type(value) is str else _size(value))
    if span._events:  # noqa: SLF001
        for event in span.events:
            size += 100 + sum([len(str(value)) for value in (event.attributes or {}).values()])
    for link in span._links or ():  # noqa: SLF001 - the view copies
        size += 100 + sum([len(str(value)) for value in (link.attributes or {}).values()])
    return size


def _size(value: object) -> int:
    """About how many bytes a value holds that is no text, with all the texts in it."""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum([len(str(key)) + _size(item) for key, item in value.items()])
    if isinstance(value, (tuple, list)):
        return sum([len(item) if type(item) is str else _size(item) for item in value])
    return len(value) if isinstance(value, str) else 8


def _span(span: ReadableSpan, resources: dict[int, Mapping[str, Any]]) -> Span:
    context = span.context or SpanContext(0, 0, is_remote=False)
    resource = resources.get(id(span.resource))
    if resource is None:
        resource = resources[id(span.resource)] = _attributes(span.resource.attributes)
    return Span(
        id=f"{context.span_id:016x}",
        trace_id=trace_id(context),
        name=_text(span.name),
        parent_id=f"{span.parent.span_id:016x}" if span.parent and span.parent.span_id else None,
        kind=_KINDS.get(span.kind, "internal"),
        start=span.start_time or None,
        end=span.end_time or None,
        status=_STATUSES.get(span.status.status_code, "unset"),
        status_message=_text(span.status.description or ""),
        attributes=_attributes(span.attributes),
        events=tuple([Event(_text(e.name), e.timestamp or None, _attributes(e.attributes)) for e in span.events]),
        links=tuple([_link(link.context, link.attributes) for link in span.links]),
        scope=span.instrumentation_scope.name if span.instrumentation_scope else "",
        resource=resource,
        dropped=span.dropped_attributes,
    )


def _link(context: SpanContext, attributes: Mapping[str, Any] | None) -> Link:
    trace, span = context.trace_id, context.span_id
    return Link(f"{trace:032x}" if trace else "", f"{span:016x}" if span else "", _attributes(attributes))


def _attributes(held: Mapping[str, Any] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in (held or {}).items():
        with suppress(ValueError):  # what can't be sent is not there
            found[key] = value if type(value) is str and value.isascii() else _value(value)
    return found


def _value(value: Any, depth: int = DEEPEST) -> Any:
    """A value as it comes out of OTLP; ValueError where it has no form for it, or for a part of it."""
    if isinstance(value, (Mapping, Sequence)) and not isinstance(value, (str, bytes)):
        if not depth:
            return TOO_DEEP
        if isinstance(value, Mapping):
            return {str(key): _value(item, depth - 1) for key, item in value.items()}
        return [_value(item, depth - 1) for item in value]
    if isinstance(value, float):
        return double(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, str):
        value.encode()
    elif value is not None and not (isinstance(value, int) and -_WHOLE <= value < _WHOLE):
        raise ValueError
    return value


def _text(text: str) -> str:
    return text if text.isascii() else clean(text)
