"""Files' texts and messages to the spans and log records they tell of: ids in hex, values as Python has them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from groundtrace.adapters.lines import Problem, damage
from groundtrace.adapters.otel import formats, messages, protobuf
from groundtrace.adapters.otel.any_value import plain
from groundtrace.adapters.otel.messages import KeyValue, LogRecord
from groundtrace.adapters.values import identity, integer, neat, time
from groundtrace.model import Event, Link, Log, Span

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
_ANY_DEPTH = 200
_UNNAMED = Problem("span has no id", "spans have no id", "kept, with one made from the content")
_BACKWARDS = Problem("span ends before it starts", "spans end before they start", "kept")
_DAMAGED = Problem(
    "span or log record held text that is no Unicode",
    "spans or log records held text that is no Unicode",
    "kept, U+FFFD stands there",
)


class Note(NamedTuple):
    """Something odd about a span or log record that was read all the same: what, where, and as what it is counted."""

    trace_id: str
    text: str
    problem: Problem


class Decoded(msgspec.Struct):
    """What one text or message held."""

    spans: list[Span] = msgspec.field(default_factory=list)
    logs: list[Log] = msgspec.field(default_factory=list)
    notes: list[Note] = msgspec.field(default_factory=list)
    nameless: int = 0
    """Spans without a trace id: nothing can be joined to them."""
    misshapen: int = 0
    """Resources, spans and log records that fit no reading of the protocol."""
    strange: str | None = None
    """What the text holds where it is JSON and neither traces nor logs."""


class Decoder:
    """Reads texts and messages one by one; equal names, trace ids and resources share their memory.

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
        """What one text or message holds; None where it is neither JSON nor protobuf."""
        parsed = protobuf.parse(data) if protobuf.opens(data) else messages.parse(data)
        if parsed is None:
            return None
        decoded = Decoded(misshapen=parsed.misshapen)
        for export in parsed.exports:
            for group in export.resource_spans or ():
                self._take_spans(group, decoded)
            for logs in export.resource_logs or ():
                for of_scope in logs.scope_logs or ():
                    decoded.logs += map(self._log, of_scope.log_records or ())
        for message in parsed.replaced:
            what = "a log record of span" if isinstance(message, LogRecord) else "span"
            note = f"{what} {identity(message.span_id, 8)}: {damage(data)}"
            decoded.notes.append(Note(self._trace_id(message.trace_id), note, _DAMAGED))
        if parsed.others:
            self._take_foreign(parsed, decoded, data)
        return decoded

    def _take_spans(self, group: messages.ResourceSpans, decoded: Decoded) -> None:
        resource = self._shared(group.resource)
        spans, notes = decoded.spans, decoded.notes
        for of_scope in group.scope_spans or ():
            scope = self._name((of_scope.scope and of_scope.scope.name) or "")
            for message in of_scope.spans or ():
                trace_id = self._traces.get(message.trace_id or "") or self._trace_id(message.trace_id)
                if not trace_id:
                    decoded.nameless += 1
                    continue
                span = self._span(message, trace_id, resource, scope)
                spans.append(span)
                if span.end and span.start and span.end < span.start:
                    notes.append(_backwards(span))
                if span.id != message.span_id and not identity(message.span_id, 8):
                    notes.append(_unnamed(span))

    def _span(self, message: messages.Span, trace_id: str, resource: Mapping[str, Any], scope: str) -> Span:
        attributes = self._attributes(message.attributes)
        status, name, events, links = message.status, message.name or "", message.events, message.links
        parent, dropped = message.parent_span_id, message.dropped_attributes_count
        # By position, in the order of the model: by name costs half as much again.
        return Span(
            identity(message.span_id, 8) or _made_id(message, attributes),
            trace_id,
            self._names.setdefault(name, name),
            (identity(parent, 8) or None) if parent else None,
            _KINDS.get(message.kind, "internal"),
            time(message.start_time_unix_nano),
            time(message.end_time_unix_nano),
            _STATUSES.get(status.code, "unset") if status else "unset",
            (status.message or "") if status else "",
            attributes,
            tuple([self._event(event) for event in events]) if events else (),
            tuple([self._link(link) for link in links]) if links else (),
            (),
            scope,
            resource,
            (integer(dropped) or 0) if dropped else 0,
        )

    def _event(self, event: messages.Event) -> Event:
        return Event(self._name(event.name or ""), time(event.time_unix_nano), self._attributes(event.attributes))

    def _link(self, link: messages.Link) -> Link:
        return Link(self._trace_id(link.trace_id), identity(link.span_id, 8), self._attributes(link.attributes))

    def _log(self, message: LogRecord) -> Log:
        attributes = self._attributes(message.attributes)
        name = message.event_name or attributes.get("event.name") or ""
        return Log(
            self._name(name if isinstance(name, str) else ""),
            None if message.body is None else plain(message.body),
            attributes,
            time(message.time_unix_nano) or time(message.observed_time_unix_nano),
            self._trace_id(message.trace_id),
            identity(message.span_id, 8) or None,
        )

    def _take_foreign(self, parsed: messages.Parsed, decoded: Decoded, data: bytes) -> None:
        """The spans of other tools' JSON, and the name of what is none of them."""
        documents = [neat(other, _ANY_DEPTH) for other in parsed.others] if parsed.torn else parsed.others
        looked = [formats.spans(document) for document in documents]
        if all(spans is None for spans in looked) and not parsed.exports:
            decoded.strange = messages.looks(parsed.others)
            return
        for spans in looked:
            decoded.misshapen += spans is None
            for read in spans or ():
                if not read.trace_id:
                    decoded.nameless += 1
                    continue
                span = read
                if not read.id:
                    span = replace(read, id=_digest(read.parent_id, read.name, read.start, read.attributes))
                    decoded.notes.append(_unnamed(span))
                decoded.spans.append(span)
                if span.end and span.start and span.end < span.start:
                    decoded.notes.append(_backwards(span))
        if parsed.torn:
            traces = {span.trace_id for span in decoded.spans}
            decoded.notes += [Note(trace, f"its spans: {damage(data)}", _DAMAGED) for trace in sorted(traces)]

    def _attributes(self, pairs: Iterable[KeyValue] | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if pairs:
            named = self._names.setdefault
            for pair in pairs:
                value = pair.value
                key = pair.key or ""
                text = value.string_value if value is not None else None
                found[named(key, key)] = plain(value) if text is None and value is not None else text
        return found

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, name)

    def _trace_id(self, raw: str | None) -> str:
        known = self._traces.get(raw or "")
        if known is None:
            known = self._traces[raw or ""] = identity(raw, 16)
        return known

    def _shared(self, resource: messages.Resource | None) -> Mapping[str, Any]:
        """The resource; the one before where it is the same, as it is when each span has a line of its own."""
        attributes = self._attributes(resource.attributes if resource else None)
        if attributes != self._resource:
            self._resource = attributes
        return self._resource


def _made_id(message: messages.Span, attributes: Mapping[str, Any]) -> str:
    """An id for a span that came without one: the same for the same content."""
    times = (message.start_time_unix_nano, message.end_time_unix_nano)
    return _digest((message.parent_span_id, message.name, *times), attributes)


def _digest(*content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _unnamed(span: Span) -> Note:
    return Note(span.trace_id, f"span {span.id}: came without an id; this one is made from its content", _UNNAMED)


def _backwards(span: Span) -> Note:
    return Note(span.trace_id, f"span {span.id}: ends before it starts", _BACKWARDS)
