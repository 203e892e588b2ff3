"""What an exporter of OpenTelemetry sends, taken apart by trace; and what it is answered.

A parcel is a request of OTLP by itself: several of one signal, one after another, are one request that holds them all.
That is how protobuf is, and how they are sent on. Fields that nobody here knows stay in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import orjson
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

from groundtrace.adapters.lines import clean
from groundtrace.adapters.otel import messages
from groundtrace.adapters.otel.encoded import logs_of, spans_of, value
from groundtrace.errors import GroundtraceError

Signal: TypeAlias = Literal["traces", "logs"]

SIGNALS: tuple[Signal, ...] = ("traces", "logs")
METHODS: Mapping[Signal, str] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
"""What gRPC calls the sending of them."""

_NO_IDS = "had no trace id of 16 bytes and span id of 8"
_NO_FIT = "fitted no OTLP message"


class Malformed(GroundtraceError):
    """What came is no request of OTLP."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """Spans or log records of one trace, as a request of their own; of no trace in particular where it has no id."""

    signal: Signal
    trace_id: str
    count: int
    rooted: bool
    """Whether a span without a parent is among them."""

    data: bytes


@dataclass
class Taken:
    """A request, taken apart."""

    parcels: list[Parcel] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    """How many spans or log records were left out, by why."""

    def refuse(self, why: str, count: int = 1) -> None:
        """Count what is left out."""
        if count:
            self.refused[why] = self.refused.get(why, 0) + count

    @property
    def count(self) -> int:
        """Spans or log records that were taken."""
        return sum(parcel.count for parcel in self.parcels)

    def said(self, signal: Signal) -> str:
        """Why some were refused, for who sent them."""
        what = {"traces": "spans", "logs": "log records"}[signal]
        return "; ".join(f"{n} {what} {why}" for why, n in self.refused.items())


def taken(signal: Signal, data: bytes, *, json: bool, apart: Callable[[str], bool]) -> Taken:
    """A request taken apart: a parcel for each trace that is to be `apart`, by its id, and one for all others.

    Malformed where it is no request of this signal; a span without ids is refused alone.
    """
    told = Taken()
    request = _from_json(signal, data, told) if json else _parsed(signal, data)
    groups = request.resource_spans if signal == "traces" else request.resource_logs
    made: dict[str, Any] = {}
    counts: dict[str, int] = {}
    roots: set[str] = set()
    for group in groups:
        scopes = group.scope_spans if signal == "traces" else group.scope_logs
        parts = [(scope, _by_trace(signal, scope, told, apart, roots)) for scope in scopes]
        group.ClearField("scope_spans" if signal == "traces" else "scope_logs")
        for trace_id in dict.fromkeys(ident for _, by in parts for ident in by):
            if trace_id not in made:
                made[trace_id] = type(request)()
            into = (made[trace_id].resource_spans if signal == "traces" else made[trace_id].resource_logs).add()
            into.CopyFrom(group)
            for scope, by in parts:
                if trace_id in by:
                    of_scope = (into.scope_spans if signal == "traces" else into.scope_logs).add()
                    of_scope.CopyFrom(scope)
                    (of_scope.spans if signal == "traces" else of_scope.log_records).extend(by[trace_id])
                    counts[trace_id] = counts.get(trace_id, 0) + len(by[trace_id])
    told.parcels = [
        Parcel(signal, trace_id, counts[trace_id], trace_id in roots, of.SerializeToString())
        for trace_id, of in made.items()
    ]
    return told


def _by_trace(
    signal: Signal, scope: Any, told: Taken, apart: Callable[[str], bool], roots: set[str]
) -> dict[str, list[Any]]:
    """The spans or log records of a scope by the trace they go with, taken out of it; "" for those that go alone."""
    by: dict[str, list[Any]] = {}
    known: dict[bytes, str] = {}
    for item in list(scope.spans if signal == "traces" else scope.log_records):
        raw = item.trace_id
        if signal == "traces" and not (_is_id(raw, 16) and _is_id(item.span_id, 8)):
            told.refuse(_NO_IDS)
            continue
        trace_id = known.get(raw)
        if trace_id is None:
            named = raw.hex() if _is_id(raw, 16) else ""
            trace_id = known[raw] = named if named and apart(named) else ""
        by.setdefault(trace_id, []).append(item)
        if signal == "traces" and not item.parent_span_id:
            roots.add(trace_id)
    scope.ClearField("spans" if signal == "traces" else "log_records")
    return by


def _is_id(raw: bytes, size: int) -> bool:
    return len(raw) == size and any(raw)


def _request(signal: Signal) -> Any:
    if signal == "traces":
        return trace_service.ExportTraceServiceRequest()
    return logs_service.ExportLogsServiceRequest()


def _parsed(signal: Signal, data: bytes) -> Any:
    request = _request(signal)
    try:
        request.ParseFromString(data)
    except DecodeError:
        raise Malformed(f"this is no protobuf of an OTLP request with {signal}") from None
    return request


def _from_json(signal: Signal, data: bytes, told: Taken) -> Any:
    """A request in JSON, as protobuf has it."""
    parsed = messages.parse(data) if data.strip() else None
    if parsed is None:
        raise Malformed("this is no JSON")
    if parsed.others and parsed.others != [{}]:
        raise Malformed(f"this is {messages.looks(parsed.others)}")
    told.refuse(_NO_FIT, parsed.misshapen)
    request = _request(signal)

    def refuse() -> None:
        told.refuse(_NO_FIT)

    try:
        for export in parsed.exports:
            if signal == "traces":
                request.resource_spans.extend(spans_of(group, refuse) for group in export.resource_spans or ())
            else:
                request.resource_logs.extend(logs_of(group, refuse) for group in export.resource_logs or ())
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise Malformed("a resource or a scope in it fits no OTLP message") from None
    return request


# --- answers --------------------------------------------------------------------------------------------------------


def answer(signal: Signal, told: Taken, *, json: bool) -> bytes:
    """What an exporter is told of a request that was taken, all of it or all but some."""
    count, said = sum(told.refused.values()), told.said(signal)
    name = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
    if json:
        return orjson.dumps({"partialSuccess": {name: str(count), "errorMessage": said}} if count else {})
    if not count:
        return b""
    if signal == "traces":
        spans = trace_service.ExportTracePartialSuccess(rejected_spans=count, error_message=said)
        return bytes(trace_service.ExportTraceServiceResponse(partial_success=spans).SerializeToString())
    records = logs_service.ExportLogsPartialSuccess(rejected_log_records=count, error_message=said)
    return bytes(logs_service.ExportLogsServiceResponse(partial_success=records).SerializeToString())


def refusal(code: int, why: str, *, json: bool) -> bytes:
    """What an exporter is told of a request that was not taken: a `google.rpc.Status`."""
    if json:
        return orjson.dumps({"code": code, "message": why})
    return bytes(Status(code=code, message=why).SerializeToString())


def retry_info(code: int, why: str, seconds: int) -> bytes:
    """A `google.rpc.Status` that says when the same request may be taken, for gRPC's details."""
    status = Status(code=code, message=why)
    status.details.add().Pack(RetryInfo(retry_delay={"seconds": seconds}))
    return bytes(status.SerializeToString())


def rejected(signal: Signal, data: bytes) -> tuple[int, str]:
    """How many spans or log records a backend did not take of a request it took, and why.

    An answer that can't be read says nothing of that.
    """
    kind: Any = (
        trace_service.ExportTraceServiceResponse if signal == "traces" else logs_service.ExportLogsServiceResponse
    )
    try:
        partial = kind.FromString(data).partial_success
    except DecodeError:
        return 0, ""
    count = partial.rejected_spans if signal == "traces" else partial.rejected_log_records
    return max(0, count), partial.error_message


def said(data: bytes) -> str:
    """What a `google.rpc.Status` in an answer says; nothing where it holds none."""
    try:
        return str(Status.FromString(data).message)
    except DecodeError:
        return ""


def delay_of(details: bytes) -> float | None:
    """Seconds a backend asks to wait, in the details of its refusal; None where it names none."""
    try:
        status = Status.FromString(details)
        for detail in status.details:
            info = RetryInfo()
            if detail.Unpack(info):
                return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    except DecodeError:
        pass
    return None


# --- on their way ---------------------------------------------------------------------------------------------------


def enriched(data: bytes, more: Mapping[str, Mapping[str, Any]]) -> tuple[bytes, frozenset[str]]:
    """A parcel of spans with more attributes on some of them, by span id; and which of them were in it.

    What a span says under a name already stays; `evaluations.N` are counted on from those it has.
    """
    request = _parsed("traces", data)
    found: set[str] = set()
    for span in _spans(request):
        ident = span.span_id.hex()
        if ident in more and ident not in found:
            found.add(ident)
            known = {pair.key for pair in span.attributes}
            first = 1 + max((int(n) for key in known if (n := _numbered(key))), default=-1)
            for key, given in more[ident].items():
                name = _shifted(key, first)
                if given is not None and name not in known:
                    span.attributes.add(key=name, value=value(clean(given) if isinstance(given, str) else given))
    return (bytes(request.SerializeToString()) if found else data), frozenset(found)


def halves(signal: Signal, data: bytes) -> tuple[bytes, ...]:
    """A request as two of about half the spans or log records; none where it holds a single one."""
    request, parts = _parsed(signal, data), (_request(signal), _request(signal))
    items = list(_each(signal, request))
    for at, (group, scope, item) in enumerate(items):
        into = parts[at * 2 >= len(items)]
        of_group = (into.resource_spans if signal == "traces" else into.resource_logs).add()
        of_group.resource.CopyFrom(group.resource)
        of_group.schema_url = group.schema_url
        of_scope = (of_group.scope_spans if signal == "traces" else of_group.scope_logs).add()
        of_scope.scope.CopyFrom(scope.scope)
        of_scope.schema_url = scope.schema_url
        (of_scope.spans if signal == "traces" else of_scope.log_records).append(item)
    return tuple(bytes(part.SerializeToString()) for part in parts) if len(items) > 1 else ()


def _each(signal: Signal, request: Any) -> Iterator[tuple[Any, Any, Any]]:
    for group in request.resource_spans if signal == "traces" else request.resource_logs:
        for scope in group.scope_spans if signal == "traces" else group.scope_logs:
            for item in scope.spans if signal == "traces" else scope.log_records:
                yield group, scope, item


def _spans(request: Any) -> Iterator[Any]:
    return (span for _, _, span in _each("traces", request))


def _numbered(key: str) -> str:
    """The number in `evaluations.N...`, or nothing.

    >>> _numbered("evaluations.12.evaluation.name"), _numbered("evaluations.x")
    ('12', '')
    """
    head, _, rest = key.partition(".")
    number = rest.partition(".")[0]
    return number if head == "evaluations" and number.isdecimal() and len(number) < 9 else ""


def _shifted(key: str, by: int) -> str:
    number = _numbered(key)
    return f"evaluations.{int(number) + by}{key[len('evaluations.') + len(number) :]}" if number and by else key
