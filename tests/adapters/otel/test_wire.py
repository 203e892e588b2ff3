"""OTLP JSON of any spelling becomes the same spans."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, StatusCode

from groundtrace.adapters.otel.messages import parse
from groundtrace.adapters.otel.wire import Decoder
from groundtrace.adapters.values import TOO_DEEP
from groundtrace.model import Span

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"

scalars = st.text(st.characters(exclude_categories=["Cs"])) | st.booleans() | st.integers(-(2**63), 2**63 - 1)
scalars |= st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4)
)
WRITTEN = """
resourceSpans resource_spans scopeSpans spans traceId spanId attributes key value stringValue intValue doubleValue
arrayValue values resource scope status events logRecords resourceLogs scopeLogs trace batches kind name links body x
"""
KEYS = st.sampled_from(WRITTEN.split())
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=30,
)


def spelt(value: Any) -> dict[str, Any]:
    """A value as OTLP JSON has it."""
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [spelt(item) for item in value]}}
    return {"kvlistValue": {"values": [{"key": key, "value": spelt(item)} for key, item in value.items()]}}


def export(**span: Any) -> dict[str, Any]:
    """An export of one span."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": TRACE, "spanId": SPAN, **span}]}]}]}


def snake(value: Any) -> Any:
    """The same JSON with protobuf's own names."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {"".join("_" + c.lower() if c.isupper() else c for c in key): snake(item) for key, item in value.items()}


def decode(document: object) -> list[Span]:
    """The spans of a document, or none."""
    decoded = Decoder().decode(json.dumps(document).encode())
    return decoded.spans if decoded else []


@settings(deadline=None)  # a busy machine is no fault
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), values, max_size=5))
def test_attributes_come_back_as_they_were(attributes: dict[str, Any]) -> None:
    """Text, numbers, lists and maps, in the usual spelling and in protobuf's own."""
    document = export(attributes=[{"key": key, "value": spelt(value)} for key, value in attributes.items()])
    (usual,), (other,) = decode(document), decode(snake(document))
    assert usual == other
    assert usual.attributes == attributes
    assert list(map(type, usual.attributes.values())) == list(map(type, attributes.values()))


@settings(deadline=None)  # a busy machine is no fault
@given(anything)
def test_no_json_raises(document: Any) -> None:
    """What fits nothing is counted, and no number that is none gets through."""
    decoded = Decoder().decode(json.dumps(document).encode())
    assert decoded is not None
    for span in decoded.spans:
        json.dumps([span.attributes, span.start, span.end, span.dropped], allow_nan=False)
    for log in decoded.logs:
        json.dumps([log.body, log.attributes], allow_nan=False)


@settings(deadline=None)  # a busy machine is no fault
@given(st.binary(max_size=200))
def test_no_bytes_raise(data: bytes) -> None:
    """Junk is no JSON, and that is all."""
    decoded = Decoder().decode(data)
    assert decoded is None or not decoded.spans


@settings(deadline=None)  # a busy machine is no fault
@given(st.text('{}[]":,aresourceSpans0', max_size=60))
def test_nothing_that_looks_like_json_raises(text: str) -> None:
    """Neither do torn lines."""
    decoded = Decoder().decode(text.encode())
    assert decoded is None or not decoded.spans


def test_kinds_and_states_are_read_from_numbers_and_names() -> None:
    """Protobuf's own JSON writes names, OTLP JSON numbers."""
    for kind, spellings in {
        "internal": (0, 1, "SPAN_KIND_UNSPECIFIED", None),
        "client": (3, "3", "SPAN_KIND_CLIENT"),
    }.items():
        assert {decode(export(kind=spelling))[0].kind for spelling in spellings} == {kind}
    for status, codes in {
        "unset": (0, None, "?"),
        "ok": (1, "STATUS_CODE_OK"),
        "error": (2, "2", "STATUS_CODE_ERROR"),
    }.items():
        assert {decode(export(status={"code": code}))[0].status for code in codes} == {status}


def test_everything_else_a_span_says_is_kept() -> None:
    """Events, links, dropped counts, messages, scope and resource."""
    document = export(
        events=[{"name": "exception", "timeUnixNano": "7", "attributes": [{"key": "a", "value": {"intValue": 1}}]}],
        links=[{"traceId": TRACE.upper(), "spanId": "AAAAAAAAAAE=", "attributes": []}],
        droppedAttributesCount=3,
        status={"code": 2, "message": "404"},
    )
    of_resource = document["resourceSpans"][0]
    of_resource["resource"] = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    of_resource["scopeSpans"][0]["scope"] = {"name": "some.instrumentation", "version": "1"}
    (span,) = decode(document)
    assert [(event.name, event.time, event.attributes) for event in span.events] == [("exception", 7, {"a": 1})]
    assert [(link.trace_id, link.span_id) for link in span.links] == [(TRACE, "0000000000000001")]
    assert (span.dropped, span.status, span.status_message) == (3, "error", "404")
    assert (span.scope, span.resource) == ("some.instrumentation", {"service.name": "shop"})


def test_what_the_sdk_exports_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of OpenTelemetry's own SDK, through its own exporter's encoding and protobuf's own JSON."""
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "4")
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("some.instrumentation", "1.0")
    with tracer.start_as_current_span("outer") as outer:
        inner = tracer.start_span("inner", kind=SpanKind.CLIENT, links=[Link(outer.get_span_context())])
        inner.set_attributes({"evicted": 0, "text": "x", "list": [1, 2], "half": 0.5, "yes": True})
        inner.add_event("said", {"what": "hi"})
        inner.set_status(StatusCode.ERROR, "404")
        inner.end()
    finished = exporter.get_finished_spans()
    context = finished[0].get_span_context()
    assert context is not None
    spans = {span.name: span for span in decode(MessageToDict(encode_spans(finished)))}
    assert spans["outer"].parent_id is None
    read = spans["inner"]
    assert (read.trace_id, read.id) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert read.parent_id == spans["outer"].id == read.links[0].span_id
    assert read.attributes == {"text": "x", "list": [1, 2], "half": 0.5, "yes": True}
    assert (read.dropped, read.kind, read.status, read.status_message) == (1, "client", "error", "404")
    assert (read.start, read.end) == (finished[0].start_time, finished[0].end_time)
    assert [(event.name, event.attributes) for event in read.events] == [("said", {"what": "hi"})]
    assert (read.scope, read.resource["service.name"]) == ("some.instrumentation", "shop")


def test_nesting_is_cut_where_it_is_too_deep() -> None:
    """What follows walks values by recursion; a bomb must not reach it."""
    value: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(60):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
    (span,) = decode(export(attributes=[{"key": "deep", "value": value}]))
    assert TOO_DEEP in str(span.attributes)


def test_equal_names_and_resources_share_their_memory() -> None:
    """A file of a million spans holds its attribute names once."""
    decoder = Decoder()
    document = export(attributes=[{"key": "some.long.attribute", "value": {"boolValue": True}}])
    document["resourceSpans"][0]["resource"] = {"attributes": [{"key": "a", "value": {"intValue": 1}}]}
    data = json.dumps(document).encode()
    spans = [span for _ in range(2) if (decoded := decoder.decode(data)) for span in decoded.spans]
    assert spans[0].resource is spans[1].resource
    assert next(iter(spans[0].attributes)) is next(iter(spans[1].attributes))
    assert spans[0].trace_id is spans[1].trace_id


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"a": }', "\ufeff"])
def test_what_is_no_json_is_none(text: str) -> None:
    """The caller counts the line."""
    assert parse(text.encode()) is None
