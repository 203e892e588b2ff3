"""OTLP as protobuf: one message, or a stream of messages with their lengths before them.

The collector's file exporter writes four bytes of length before each message (JSON too, once it compresses), others a
varint. Of one large message each resource is read for itself. Messages are walked down to the single span, so that a
damaged one is counted alone; `opentelemetry-proto` reads what a span or log record is made of.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, TypeVar

import zstandard
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from opentelemetry.proto.common.v1 import common_pb2 as common
from opentelemetry.proto.logs.v1 import logs_pb2 as logs
from opentelemetry.proto.resource.v1 import resource_pb2 as resources
from opentelemetry.proto.trace.v1 import trace_pb2 as traces

from groundtrace.adapters.lines import Losses, Problem, Text
from groundtrace.adapters.otel import messages
from groundtrace.adapters.otel.messages import AnyValue, Array, Export, KeyValue, LogRecord, Map, Parsed

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer  # type: ignore[import-untyped]

Form = Literal["whole", "prefixed", "delimited"]
"""One message; messages after four bytes of length each, the highest first; after a varint each."""

DAMAGED = Problem("message is no OTLP", "messages are no OTLP", "skipped")
_CUT = Problem("ends within a message", "", "what stood before was read")
_BREAKS = Problem("holds bytes that are no protobuf", "", "what stood before was read")
_TOO_LONG = Problem("message is too long", "messages are too long", "skipped; the option line_mb raises the limit")
_UNPACKED = Problem("message can't be unpacked", "messages can't be unpacked", "skipped")

_ZSTD = b"\x28\xb5\x2f\xfd"
_TOP = 0x0A
"""The tag every OTLP message starts with: its first resource."""
_INNER = {0x0A: (0x0A, 0x10, 0x1A), 0x12: (0x0A, 0x12, 0x1A)}
"""The tags a resource and a scope may start with, by the tag they stand under."""
_SCOPE, _ITEM, _SCHEMA_URL = 0x12, 0x12, 0x1A
_TRACE_ID, _SPAN_ID = 0x0A, 0x12
_SPAN_TIMES, _LOG_TIMES = {0x39, 0x41}, {0x09, 0x59}
_LEAST_JSON, _MOST_JSON = len('{"resourceSpans":[]}'), 1 << 26
"""Lengths that may stand before JSON: other four bytes before it are text, or what a crash left."""
_PIECE = 1 << 16
_M = TypeVar("_M", bound=Message)


# --- what it is -----------------------------------------------------------------------------------------------------


def form(start: bytes) -> Form | None:
    """How the first bytes of a file hold OTLP messages; None where they don't."""
    if opens(start):
        return "whole"
    room, rest = int.from_bytes(start[:4], "big"), start[4:12]
    packed = room > len(_ZSTD) and rest.startswith(_ZSTD)
    if opens(start, 4, room) or packed or (_LEAST_JSON <= room < _MOST_JSON and rest[:2] == b'{"'):
        return "prefixed"
    try:
        room, at = _varint(start, 0)
    except ValueError:
        return None
    return "delimited" if opens(start, at, room) else None


def opens(data: bytes, at: int = 0, room: int | None = None) -> bool:
    r"""Whether an OTLP message of so many bytes may start here: a resource's spans or logs, and what they start with.

    >>> opens(bytes.fromhex("0a07 1205 1203 0a0161")), opens(b"\n\n{")
    (True, False)
    """
    if data[at : at + 1] != b"\n":
        return False
    room = room or 1 << 62
    try:
        size, inner = _varint(data, at + 1)
        if not 2 <= size <= room - (inner - at):
            return False
        tag, held = data[inner], inner + 1
        length, first = _varint(data, held)
        if tag == _SCHEMA_URL:
            return length <= size - (first - inner)
        return (
            tag in _INNER
            and length <= size - (first - inner)
            and (not length or (first < len(data) and data[first] in _INNER[tag]))
        )
    except (ValueError, IndexError):
        return False


# --- its messages ---------------------------------------------------------------------------------------------------


def split(data: Iterable[bytes], how: Form, name: str, losses: Losses, line_mb: int) -> Iterator[Text]:
    """The messages of a file; what is cut, damaged or too long is told to `losses`."""
    reader = _Reader(data, line_mb << 20)
    try:
        while (message := reader.next(how)) is not None:
            if isinstance(message, Problem):
                losses.add(name, message)
            elif message:
                yield Text(name, 0, message)
    except EOFError:
        losses.add(name, _CUT)
    except ValueError:
        losses.add(name, _BREAKS)


class _Reader:
    """Takes messages off bytes that come a piece at a time; holds no more than one of them."""

    def __init__(self, data: Iterable[bytes], limit: int) -> None:
        self._data = iter(data)
        self._held = bytearray()
        self._limit = limit

    def next(self, how: Form) -> bytes | Problem | None:
        """The next message, or what is wrong with it; None at the end."""
        if not self._fill(1):
            return None
        if how == "prefixed":
            return _unpacked(self._take(int.from_bytes(self._exactly(4), "big")), self._limit)
        if how == "delimited":
            return self._take(self._number()[0])
        tag, head = self._number()
        if tag & 7 == 2:
            size, more = self._number()
            body = self._take(size)
            return body if isinstance(body, Problem) else (head + more + body if tag == _TOP and body else b"")
        self._exactly(_fixed(tag)) if tag & 7 else self._number()
        return b""

    def _take(self, size: int) -> bytes | Problem:
        if size <= self._limit:
            return self._exactly(size)
        while size > len(self._held):
            size -= len(self._held)
            self._held.clear()
            if not self._fill(1):
                raise EOFError
        del self._held[:size]
        return _TOO_LONG

    def _number(self) -> tuple[int, bytes]:
        """A varint, and the bytes it was."""
        self._fill(10)
        if not self._held:
            raise EOFError
        value, end = _varint(self._held, 0)
        return value, self._exactly(end)

    def _exactly(self, size: int) -> bytes:
        if not self._fill(size):
            raise EOFError
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def _fill(self, size: int) -> bool:
        while len(self._held) < size:
            piece = next(self._data, None)
            if piece is None:
                return False
            self._held += piece
        return True


def _unpacked(message: bytes | Problem, limit: int) -> bytes | Problem:
    """A message out of its own zstd frame, a little at a time: a bomb fills no memory."""
    if isinstance(message, Problem) or not message.startswith(_ZSTD):
        return message
    whole = bytearray()
    try:
        with zstandard.ZstdDecompressor().stream_reader(message) as stream:
            while piece := stream.read(_PIECE):
                whole += piece
                if len(whole) > limit:
                    return _TOO_LONG
    except zstandard.ZstdError:
        return _UNPACKED
    return bytes(whole)


# --- what they hold -------------------------------------------------------------------------------------------------


def parse(data: bytes) -> Parsed:
    """What one message holds."""
    parsed = Parsed()
    for group in _under(data, _TOP, parsed):
        scopes = [
            (_first(common.InstrumentationScope, of_scope, parsed), list(_under(of_scope, _ITEM, parsed)))
            for of_scope in _under(group, _SCOPE, parsed)
        ]
        items = [item for _, of_scope in scopes for item in of_scope]
        signal = next(filter(None, map(_signal, items)), "")
        if signal == "spans":
            parsed.exports.append(_spans(_first(resources.Resource, group, parsed), scopes, parsed))
        elif signal == "logs":
            parsed.exports.append(_logs(scopes, parsed))
        elif signal == "metrics":
            parsed.others.append({"resourceMetrics": []})
        else:
            parsed.misshapen += len(items)
    return parsed


def _spans(resource: resources.Resource | None, scopes: list[_Scoped], parsed: Parsed) -> Export:
    attributes = _pairs(resource.attributes) if resource else None
    groups = [
        messages.ScopeSpans(
            messages.Scope(scope.name) if scope else None, [_span(span) for span in _read(traces.Span, items, parsed)]
        )
        for scope, items in scopes
    ]
    return Export([messages.ResourceSpans(messages.Resource(attributes), groups)])


def _logs(scopes: list[_Scoped], parsed: Parsed) -> Export:
    groups = [
        messages.ScopeLogs(None, [_log(log) for log in _read(logs.LogRecord, items, parsed)]) for _, items in scopes
    ]
    return Export(None, [messages.ResourceLogs(None, groups)])


_Scoped = tuple["common.InstrumentationScope | None", "list[bytes]"]


def _signal(item: bytes) -> str:
    """Of what kind an item is: spans and log records have their ids and times under different numbers.

    Empty where it is damaged.
    """
    try:
        held = dict(_fields(item))
    except ValueError:
        return ""
    if held.keys() & _SPAN_TIMES or (len(held.get(_TRACE_ID, b"")) == 16 and len(held.get(_SPAN_ID, b"")) == 8):
        return "spans"
    if held.keys() & _LOG_TIMES or _TRACE_ID not in held:
        return "logs"
    return "metrics"


def _read(kind: type[_M], items: list[bytes], parsed: Parsed) -> Iterator[_M]:
    for item in items:
        try:
            yield kind.FromString(item)
        except DecodeError:
            parsed.misshapen += 1


def _first(kind: type[_M], data: bytes, parsed: Parsed) -> _M | None:
    """The resource or the scope of a message: its first field."""
    return next(_read(kind, list(_under(data, 0x0A, Parsed()))[:1], parsed), None)


def _under(data: bytes, tag: int, parsed: Parsed) -> Iterator[bytes]:
    """What stands under a tag; where a message breaks, what stood before."""
    try:
        for found, value in _fields(data):
            if found == tag:
                yield value
    except ValueError:
        parsed.misshapen += 1


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags of a message and the bytes under them; ValueError where it breaks."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        start = at
        if tag & 7 == 2:
            size, start = _varint(data, at)
            at = start + size
        elif tag & 7:
            at += _fixed(tag)
        else:
            _, at = _varint(data, at)
        if at > end:
            raise ValueError("cut")
        yield tag, data[start:at]


def _fixed(tag: int) -> int:
    """How many bytes stand under a tag that tells it by its type alone."""
    sizes = {1: 8, 5: 4}
    if tag & 7 not in sizes:
        raise ValueError("no wire type")
    return sizes[tag & 7]


def _varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    """A number of up to ten bytes, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("cut")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("no number")


# --- one of them ----------------------------------------------------------------------------------------------------


def _span(span: traces.Span) -> messages.Span:
    return messages.Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        name=span.name,
        kind=span.kind,
        start_time_unix_nano=span.start_time_unix_nano,
        end_time_unix_nano=span.end_time_unix_nano,
        attributes=_pairs(span.attributes),
        dropped_attributes_count=span.dropped_attributes_count,
        events=[messages.Event(event.time_unix_nano, event.name, _pairs(event.attributes)) for event in span.events],
        links=[
            messages.Link(link.trace_id.hex(), link.span_id.hex(), attributes=_pairs(link.attributes))
            for link in span.links
        ],
        status=messages.Status(span.status.message, span.status.code),
    )


def _log(log: logs.LogRecord) -> LogRecord:
    return LogRecord(
        time_unix_nano=log.time_unix_nano,
        observed_time_unix_nano=log.observed_time_unix_nano,
        body=_any(log.body) if log.HasField("body") else None,
        attributes=_pairs(log.attributes),
        trace_id=log.trace_id.hex(),
        span_id=log.span_id.hex(),
        event_name=log.event_name,
    )


def _pairs(pairs: RepeatedCompositeFieldContainer[common.KeyValue]) -> list[KeyValue]:
    return [KeyValue(pair.key, _any(pair.value)) for pair in pairs]


def _any(value: common.AnyValue) -> AnyValue:
    which = value.WhichOneof("value")
    if which == "string_value":
        return AnyValue(value.string_value)
    if which == "array_value":
        return AnyValue(array_value=Array([_any(item) for item in value.array_value.values]))
    if which == "kvlist_value":
        return AnyValue(kvlist_value=Map(_pairs(value.kvlist_value.values)))
    if which == "bytes_value":
        return AnyValue(bytes_value=base64.b64encode(value.bytes_value).decode())
    if which in ("bool_value", "int_value", "double_value"):
        return AnyValue(**{which: getattr(value, which)})
    return AnyValue()
