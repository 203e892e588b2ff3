"""One trace reads the same from every format, and damage costs what is damaged."""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Link, SpanKind, StatusCode

from groundtrace.adapters.files import find
from groundtrace.adapters.otel import OtelSource, formats, protobuf
from groundtrace.adapters.otel.wire import Decoder
from groundtrace.model import Event, Record, Span, Trace, Window
from groundtrace.plugins import installed, load
from groundtrace.read import read as records

FORMATS = Path(__file__).parents[2] / "fixtures" / "traces" / "formats"
TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7", "00000000000000aa"
ALWAYS = Window()
PACKS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def read(path: Path, *notes: str) -> list[Trace]:
    """The traces of a file or folder, and that of the rest was said what was expected."""
    source = OtelSource(str(path))
    traces = list(source.traces(ALWAYS, lambda *_: True))
    assert [note.removeprefix(f"{path}: ") for note in source.notes()] == list(notes)
    return traces


def record(trace: Trace) -> Record:
    """The one record of a trace."""
    (found,) = records(trace, [load("convention", plugin.name) for plugin in installed("convention")])
    return found


def spans(document: object) -> list[Span]:
    """What one JSON value holds."""
    decoded = Decoder().decode(json.dumps(document).encode())
    assert decoded is not None
    assert decoded.strange is None
    return decoded.spans


def prefixed(*messages: bytes) -> bytes:
    """Messages as the collector's file exporter writes them."""
    return b"".join(struct.pack(">I", len(message)) + message for message in messages)


def delimited(*messages: bytes) -> bytes:
    """Messages as protobuf's own libraries write them one after the other."""
    return b"".join(varint(len(message)) + message for message in messages)


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    return varint_more(number) if number > 127 else bytes([number])


def varint_more(number: int) -> bytes:
    """All but the last seven bits first."""
    return bytes([number & 0x7F | 0x80]) + varint(number >> 7)


class Written(SpanExporter):
    """Keeps what the SDK's own encoder makes of each batch."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    def export(self, spans: Any) -> SpanExportResult:
        """One message a batch."""
        self.messages.append(encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS


def told(count: int = 3) -> list[bytes]:
    """Messages of one span each, of a trace each, by OpenTelemetry's SDK."""
    written = Written()
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(written))
    tracer = provider.get_tracer("some.instrumentation", "1.0")
    for number in range(count):
        with tracer.start_as_current_span(f"step {number}") as span:
            span.set_attribute("number", number)
    return written.messages


# --- all of them ----------------------------------------------------------------------------------------------------


def test_one_trace_in_eight_formats_is_one_record() -> None:
    """Zipkin's alone has no resource, writes names small, and every value as text."""
    found = {file.name: record(*read(file)) for file in sorted(FORMATS.iterdir())}
    assert len(found) == 8
    wanted = found["otlp-collector.jsonl"]
    assert wanted.query
    assert wanted.answer
    assert len(wanted.context) > 2
    assert wanted.citations
    assert not wanted.gaps
    zipkin = found.pop("zipkin-v2.json")
    assert all(other == wanted for other in found.values())
    assert zipkin.model_copy(update={"slices": wanted.slices}) == wanted


@pytest.mark.parametrize("ending", PACKS)
@pytest.mark.parametrize("form", [b"".join, lambda parts: prefixed(*parts), lambda parts: delimited(*parts)])
def test_protobuf_reads_the_same_as_json_in_every_form_and_packing(
    ending: str, form: Callable[[list[bytes]], bytes], tmp_path: Path
) -> None:
    """Told by what is in it: the name says nothing."""
    whole = (FORMATS / "otlp.pb").read_bytes()
    for number, name in enumerate(("x.pb", "x.binpb", "x.otlp", "x.jsonl")):
        file = tmp_path / f"{number}{name}{ending}"
        file.write_bytes(PACKS[ending](form([whole])))
        assert read(file) == read(FORMATS / "otlp-collector.jsonl")
        assert OtelSource.recognises(file)
    (check, *_) = OtelSource(str(tmp_path)).doctor()
    assert (check.well, check.detail) == (True, "OTLP protobuf")


@pytest.mark.parametrize("form", [lambda *parts: b"".join(parts), prefixed, delimited])
def test_several_messages_are_all_read(form: Callable[..., bytes], tmp_path: Path) -> None:
    """One batch after the other, and from a pipe."""
    (tmp_path / "x.pb").write_bytes(form(*told(40)))
    traces = read(tmp_path)
    assert sorted(trace.spans[0].attributes["number"] for trace in traces) == list(range(40))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "x.pb").read_bytes())))
        assert list(OtelSource("-").traces(ALWAYS, lambda *_: True)) == traces


@pytest.mark.parametrize("name", ["otlp.pb", "otlp-collector.jsonl"])
def test_messages_that_the_collector_packed_one_by_one_are_read(name: str, tmp_path: Path) -> None:
    """With `compression: zstd` it writes a length and a packed message, JSON or protobuf."""
    whole = (FORMATS / name).read_bytes()
    (tmp_path / "x.json").write_bytes(prefixed(*[zstandard.ZstdCompressor().compress(whole)] * 2))
    (trace,) = read(tmp_path / "x.json", "10 spans came a second time: the fuller copy was kept")
    assert len(trace.spans) == 10
    (tmp_path / "y.json").write_bytes(prefixed(whole))
    assert read(tmp_path / "y.json") == read(FORMATS / "otlp-collector.jsonl")


def test_a_folder_of_all_formats_is_one_trace(tmp_path: Path) -> None:
    """Each file is told by its content, and the spans that all of them hold are there once."""
    for file in FORMATS.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    source = OtelSource(str(tmp_path))
    (trace,) = source.traces(ALWAYS, lambda *_: True)
    assert len(trace.spans) == 10
    assert sum(loss.count for loss in source.losses) == 70
    assert all("second time" in loss.problem.one for loss in source.losses)
    assert record(trace).answer == record(*read(FORMATS / "otlp.pb")).answer


CAPTURED = Path(__file__).parents[2] / "fixtures" / "otlp"


@pytest.mark.parametrize("name", ["phoenix-rest.json", "phoenix-frame.jsonl", "phoenix-otlp.json"])
def test_what_phoenix_hands_out_is_the_record_it_was_given(name: str) -> None:
    """The same trace, sent to a Phoenix server and asked for again; it keeps no resource."""
    found, wanted = record(*read(CAPTURED / name)), record(*read(FORMATS / "otlp.pb"))
    assert OtelSource.recognises(CAPTURED / name)
    assert found.model_copy(update={"slices": wanted.slices}) == wanted
    assert found.slices.items() <= wanted.slices.items()


def test_what_mlflow_hands_out_is_a_whole_record() -> None:
    """A traced function, its retriever and its call to a model, as `Trace.to_json` has them."""
    found = record(*read(CAPTURED / "mlflow-trace.json"))
    assert OtelSource.recognises(CAPTURED / "mlflow-trace.json")
    assert (found.query, found.answer) == ("When did Apollo 11 land?", "On 20 July 1969 [1].")
    assert [passage.id for passage in found.context] == ["a", "b"]
    assert [citation.passage_id for citation in found.citations] == ["a"]
    assert found.slices["team"] == "x"


# --- OTLP as protobuf -----------------------------------------------------------------------------------------------


def test_what_the_sdk_exports_as_protobuf_comes_back() -> None:
    """Every field a span has, values of every kind."""
    written = Written()
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(written))
    kept: list[ReadableSpan] = []
    tracer = provider.get_tracer("some.instrumentation", "1.0")
    with tracer.start_as_current_span("outer") as outer:
        inner: Any = tracer.start_span("inner", kind=SpanKind.CLIENT, links=[Link(outer.get_span_context(), {"l": 1})])
        inner.set_attributes({"text": "ü", "list": [1, 2], "half": 0.5, "yes": True, "bytes": b"\x00\xff", "n": -1})
        inner.add_event("said", {"what": "hi"}, timestamp=7)
        inner.set_status(StatusCode.ERROR, "404")
        inner.end()
        kept.append(inner)
    decoded = Decoder().decode(b"".join(written.messages))
    assert decoded is not None
    (span, top), context = decoded.spans, kept[0].get_span_context()
    assert context is not None
    assert (span.trace_id, span.id) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert (span.parent_id, span.links[0].span_id, top.parent_id) == (top.id, top.id, None)
    assert span.links[0].attributes == {"l": 1}
    text = {"text": "ü", "list": [1, 2], "half": 0.5, "yes": True, "n": -1}
    assert span.attributes == {**text, "bytes": base64.b64encode(b"\x00\xff").decode()}
    assert span.events == (Event("said", 7, {"what": "hi"}),)
    assert (span.kind, span.status, span.status_message, span.scope) == (
        "client",
        "error",
        "404",
        "some.instrumentation",
    )
    assert (span.start, span.end) == (kept[0].start_time, kept[0].end_time)
    assert span.resource["service.name"] == "shop"


def test_logs_as_protobuf_are_joined(tmp_path: Path) -> None:
    """x.logs.pb stands beside x.pb."""
    kept = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    written = Written()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(written))
    with tracing.get_tracer("t").start_as_current_span("call"):
        provider.get_logger("l").emit(
            severity_number=SeverityNumber.INFO, body={"said": ["hi"]}, attributes={"a": 1}, event_name="gen_ai.choice"
        )
    (tmp_path / "x.pb").write_bytes(written.messages[0])
    (tmp_path / "x.logs.pb").write_bytes(encode_logs(kept.get_finished_logs()).SerializeToString())
    (trace,) = read(tmp_path / "x.pb")
    ((log,),) = [span.logs for span in trace.spans]
    assert (log.name, log.body, log.attributes) == ("gen_ai.choice", {"said": ["hi"]}, {"a": 1})
    assert log.time


def test_protobuf_is_looked_for_by_those_who_read_it(tmp_path: Path) -> None:
    """A folder's .pb is no file of records; scores go beside it under its name."""
    for name in ("x.pb", "y.binpb.gz", "z.otlp", "other.bin"):
        (tmp_path / name).write_bytes(told(1)[0])
    assert {file.name for file in find(str(tmp_path), binary=True).files()} == {"x.pb", "y.binpb.gz", "z.otlp"}
    assert not find(str(tmp_path)).files()
    assert OtelSource(str(tmp_path / "y.binpb.gz")).home().spans == tmp_path / "y.groundtrace.jsonl"


def test_metrics_as_protobuf_are_named(tmp_path: Path) -> None:
    """They start like traces do."""
    from opentelemetry.proto.metrics.v1 import metrics_pb2 as metrics

    metric = metrics.Metric(name="requests", unit="1", gauge=metrics.Gauge(data_points=[metrics.NumberDataPoint()]))
    scoped = [metrics.ScopeMetrics(metrics=[metric])]
    data = metrics.MetricsData(resource_metrics=[metrics.ResourceMetrics(scope_metrics=scoped)])
    (tmp_path / "x.pb").write_bytes(data.SerializeToString())
    assert not read(tmp_path / "x.pb", "1 line holds metrics, not traces: skipped; OTLP traces are read here")


def test_a_kind_and_a_state_nobody_knows_are_none() -> None:
    """Numbers from a later protocol."""
    from opentelemetry.proto.trace.v1 import trace_pb2 as traces

    span = traces.Span(trace_id=bytes(15) + b"\1", span_id=bytes(7) + b"\1", name="x", start_time_unix_nano=5)
    span.kind = 99  # type: ignore[assignment]
    span.status.code = 77  # type: ignore[assignment]
    data = traces.TracesData(resource_spans=[traces.ResourceSpans(scope_spans=[traces.ScopeSpans(spans=[span])])])
    decoded = Decoder().decode(data.SerializeToString())
    assert decoded is not None
    assert [(one.kind, one.status, one.start, one.end) for one in decoded.spans] == [("internal", "unset", 5, None)]


def test_a_damaged_span_costs_itself_alone(tmp_path: Path) -> None:
    """Text that is no UTF-8 in one span of a message of ten."""
    whole = (FORMATS / "otlp.pb").read_bytes()
    (tmp_path / "x.pb").write_bytes(whole.replace(b"VectorStoreRetriever", b"VectorStoreRetrieve\xff"))
    (trace,) = read(tmp_path / "x.pb", "1 entry fits no OTLP message: skipped")
    assert len(trace.spans) == 9


@pytest.mark.parametrize("form", [prefixed, delimited])
def test_a_message_that_is_none_costs_itself_alone(form: Callable[..., bytes], tmp_path: Path) -> None:
    """Its neighbours are read."""
    first, second = told(2)
    (tmp_path / "x.pb").write_bytes(form(first, b"junk, no message", second))
    assert len(read(tmp_path / "x.pb", "1 message is no OTLP: skipped")) == 2


def test_a_stream_that_is_cut_gives_what_stood_before(tmp_path: Path) -> None:
    """A crash, or a copy that was made while the file was written."""
    first, second = told(2)
    for form in (prefixed, delimited, lambda *parts: b"".join(parts)):
        (tmp_path / "x.pb").write_bytes(form(first, second)[:-9])
        assert len(read(tmp_path / "x.pb", "ends within a message: what stood before was read")) == 1
    (tmp_path / "x.pb").write_bytes(first + b"\x0f\x0f\x0f")
    assert len(read(tmp_path / "x.pb", "holds bytes that are no protobuf: what stood before was read")) == 1


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF])
def test_a_length_of_gigabytes_fills_no_memory(size: int, tmp_path: Path) -> None:
    """What it says is never believed before it is there."""
    (first,) = told(1)
    for bomb in (struct.pack(">I", size), varint(size)):
        form = prefixed if len(bomb) == 4 else delimited
        (tmp_path / "x.pb").write_bytes(form(first) + bomb + first)
        assert len(read(tmp_path / "x.pb", "ends within a message: what stood before was read")) == 1
        (tmp_path / "y.pb").write_bytes(bomb + first)
        assert not read(tmp_path / "y.pb", "ends within a message: what stood before was read")


def test_a_message_longer_than_the_limit_is_skipped_and_the_next_is_read(tmp_path: Path) -> None:
    """As a line that is too long is; packed bombs too."""
    first, second = told(2)
    from opentelemetry.proto.trace.v1 import trace_pb2 as traces

    long = traces.TracesData.FromString(first)
    long.resource_spans[0].scope_spans[0].spans[0].name = "x" * (1 << 20)
    for message in (long.SerializeToString(), zstandard.ZstdCompressor().compress(bytes(80 << 20))):
        (tmp_path / "x.pb").write_bytes(prefixed(first, message, second))
        source = OtelSource(str(tmp_path / "x.pb"), line_mb=1)
        assert len(list(source.traces(ALWAYS, lambda *_: True))) == 2
        assert source.notes() == (
            f"{tmp_path}/x.pb: 1 message is too long: skipped; the option line_mb raises the limit",
        )


@pytest.mark.parametrize(
    "text",
    [
        b"\n\n{}",
        b"\n[",
        b'[1, {"a": 2}]',
        b'\n\n\n\n{"a": 2}',
        b'\0\0\0\0{"a": 2}',
        b'\0\0\0\n{"a": 2}',
        b"{}",
        b"\0\0\0{\n",
        b"",
        b"\n",
        b"\n" * 99,
        b"\r\n{",
        b"query,answer\n",
        b"\x89PNG\r\n",
    ],
)
def test_what_is_no_protobuf_is_not_taken_for_it(text: bytes) -> None:
    """Blank lines before JSON start with the byte a message starts with."""
    assert protobuf.form(text + b'  "resourceSpans": []}' * 9) is None
    assert protobuf.form(text) is None


@settings(deadline=None)
@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    """Bytes changed, cut out and put in, anywhere."""
    whole = bytearray(b"".join(_MESSAGES))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    decoded = Decoder().decode(bytes(whole))
    assert decoded is None or all(span.trace_id for span in decoded.spans)
    json.dumps([span.attributes for span in decoded.spans] if decoded else None, allow_nan=False)


_MESSAGES = told(3)


# --- Jaeger ---------------------------------------------------------------------------------------------------------


def jaeger(**more: Any) -> dict[str, Any]:
    """A span of Jaeger's query API."""
    made = {"traceID": TRACE.lstrip("0"), "spanID": SPAN.lstrip("0"), "operationName": "call", "processID": "p1"}
    return {**made, "startTime": 1_700_000_000_000_001, "duration": 5, "tags": [], "logs": [], **more}


def query(*rows: dict[str, Any]) -> dict[str, Any]:
    """What Jaeger's query API answers."""
    process = {"serviceName": "shop", "tags": [{"key": "host", "type": "string", "value": "h"}]}
    return {"data": [{"traceID": TRACE, "spans": list(rows), "processes": {"p1": process}}], "total": 0, "errors": None}


def test_jaegers_spans_have_everything_it_tells() -> None:
    """Short ids, typed tags, logs as events, the process as the resource, and what OpenTelemetry put into tags."""
    tags = [
        {"key": "n", "type": "int64", "value": 7},
        {"key": "big", "type": "int64", "value": "9007199254740993"},
        {"key": "f", "type": "float64", "value": 0.5},
        {"key": "b", "type": "bool", "value": True},
        {"key": "s", "type": "string", "value": "text"},
        {"key": "span.kind", "type": "string", "value": "client"},
        {"key": "otel.status_code", "type": "string", "value": "ERROR"},
        {"key": "otel.status_description", "type": "string", "value": "404"},
        {"key": "error", "type": "bool", "value": True},
        {"key": "otel.scope.name", "type": "string", "value": "some.instrumentation"},
    ]
    fields = [{"key": "event", "type": "string", "value": "said"}, {"key": "what", "type": "string", "value": "hi"}]
    above = [
        {"refType": "FOLLOWS_FROM", "traceID": TRACE, "spanID": "bb"},
        {"refType": "CHILD_OF", "traceID": TRACE.lstrip("0"), "spanID": "aa"},
    ]
    logs = [{"timestamp": 1_700_000_000_000_002, "fields": fields}]
    (span,) = spans(query(jaeger(tags=tags, logs=logs, references=above)))
    assert (span.trace_id, span.id, span.parent_id, span.name) == (TRACE, SPAN, PARENT, "call")
    assert span.attributes == {"n": 7, "big": 9007199254740993, "f": 0.5, "b": True, "s": "text"}
    assert span.events == (Event("said", 1_700_000_000_000_002_000, {"what": "hi"}),)
    assert (span.start, span.end) == (1_700_000_000_000_001_000, 1_700_000_000_000_006_000)
    assert (span.kind, span.status, span.status_message) == ("client", "error", "404")
    assert (span.scope, span.resource) == ("some.instrumentation", {"service.name": "shop", "host": "h"})
    assert [link.span_id for link in span.links] == ["00000000000000bb"]


def test_jaegers_other_spellings_read_the_same() -> None:
    """A trace alone, a span a line with its process as Elasticsearch keeps it, and protobuf as JSON."""
    (usual,) = spans(query(jaeger(tags=[{"key": "a.b", "type": "int64", "value": 7}])))
    process = {"serviceName": "shop", "tags": [{"key": "host", "type": "string", "value": "h"}]}
    row = jaeger(tag={"a@b": 7}, process=process)
    del row["tags"], row["processID"]
    short = {"trace_id": base64.b64encode(bytes.fromhex(TRACE)), "span_id": base64.b64encode(bytes.fromhex(SPAN))}
    proto = {key: value.decode() for key, value in short.items()} | {
        "operation_name": "call",
        "start_time": "2023-11-14T22:13:20.000001Z",
        "duration": "0.000005s",
        "tags": [{"key": "a.b", "v_type": "INT64", "v_int64": "7"}],
        "process": {"service_name": "shop", "tags": [{"key": "host", "v_str": "h"}]},
    }
    for document in (query(jaeger(tags=[{"key": "a.b", "type": "int64", "value": "7"}]))["data"][0], row, [row]):
        assert spans(document) == [usual]
    assert spans({"result": {"spans": [proto]}}) == spans(proto) == [usual]


def test_otlp_in_a_result_is_otlp() -> None:
    """As Jaeger's third API streams it."""
    inner = {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": TRACE, "spanId": SPAN}]}]}]}
    assert [span.id for span in spans({"result": inner})] == [SPAN]


# --- Zipkin ---------------------------------------------------------------------------------------------------------


def test_zipkins_spans_have_what_it_keeps() -> None:
    """Text for every value, events as their names or as JSON."""
    row = {
        "traceId": TRACE[16:],
        "id": SPAN,
        "parentId": "00000000000000aa",
        "kind": "CLIENT",
        "name": "call",
        "timestamp": 1_700_000_000_000_001,
        "duration": 5,
        "localEndpoint": {"serviceName": "shop"},
        "tags": {"n": "7", "error": "404", "otel.scope.name": "some.instrumentation"},
        "annotations": [
            {"timestamp": 1_700_000_000_000_002, "value": "plain"},
            {"timestamp": 1_700_000_000_000_002, "value": '{"said": {"what": "hi"}}'},
            {"timestamp": 1_700_000_000_000_002, "value": 'said|{"what": "hi"}|0'},
        ],
    }
    (span,) = spans([row])
    assert spans(row) == [span]
    assert (span.trace_id, span.id, span.parent_id) == (TRACE[16:].zfill(32), SPAN, PARENT)
    assert (span.kind, span.status, span.status_message, span.scope) == (
        "client",
        "error",
        "404",
        "some.instrumentation",
    )
    assert (span.attributes, span.resource) == ({"n": "7"}, {"service.name": "shop"})
    assert [(event.name, event.attributes) for event in span.events] == [("plain", {}), *[("said", {"what": "hi"})] * 2]
    assert (span.start, span.end) == (1_700_000_000_000_001_000, 1_700_000_000_000_006_000)


# --- Phoenix --------------------------------------------------------------------------------------------------------


FLAT = {
    "input.value": "q?",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "q?",
    "retrieval.documents.0.document.content": "text",
    "retrieval.documents.0.document.metadata": '{"source": "a"}',
    "metadata": '{"k": 1}',
    "tag.tags": ["x", "y"],
}
NESTED = {
    "input": {"value": "q?"},
    "llm": {"input_messages": [{"message": {"role": "user", "content": "q?"}}]},
    "retrieval": {"documents": [{"document": {"content": "text", "metadata": {"source": "a"}}}]},
    "metadata": {"k": 1},
    "tag": {"tags": ["x", "y"]},
}
APART = {
    **{name: value for name, value in FLAT.items() if "metadata" not in name},
    "retrieval.documents.0.document.metadata.source": "a",
    "metadata.k": 1,
}
COLUMNS = {
    "attributes.input.value": "q?",
    "attributes.llm.input_messages": [{"message.role": "user", "message.content": "q?"}],
    "attributes.retrieval.documents": [{"document.content": "text", "document.metadata": {"source": "a"}}],
    "attributes.metadata": {"k": 1},
    "attributes.tag.tags": ["x", "y"],
    "attributes.llm.token_count.total": None,
}


def test_phoenix_reads_the_same_from_its_api_and_its_data_frame() -> None:
    """Attributes flat, nested, or in columns of which most are empty."""
    same = {"name": "call", "span_kind": "LLM", "parent_id": PARENT, "status_code": "ERROR", "status_message": "404"}
    said = {"name": "exception", "timestamp": "2023-11-14T22:13:20.000001+00:00", "attributes": {"exception.type": "E"}}
    times = {"start_time": "2023-11-14T22:13:20.000001+00:00", "end_time": "2023-11-14T22:13:21Z"}
    rows = [
        {"id": "U3Bhbjox", "context": {"trace_id": TRACE, "span_id": SPAN}, "attributes": held, "events": [said]}
        | same
        | times
        for held in (FLAT, NESTED, APART)
    ]
    frame = {"context.trace_id": TRACE, "context.span_id": SPAN, "events": [said]} | same | times | COLUMNS
    (usual,) = spans({"data": rows[:1], "next_cursor": None})
    assert usual.attributes == FLAT | {"openinference.span.kind": "LLM"}
    assert (usual.trace_id, usual.id, usual.parent_id, usual.status, usual.status_message) == (
        *(TRACE, SPAN, PARENT),
        *("error", "404"),
    )
    assert (usual.start, usual.end) == (1_700_000_000_000_001_000, 1_700_000_001_000_000_000)
    assert usual.events == (Event("exception", 1_700_000_000_000_001_000, {"exception.type": "E"}),)
    for document in (rows[1], rows[2], rows, frame, [frame], {"data": [frame]}):
        assert {json.dumps([one.attributes, one.start], sort_keys=True) for one in spans(document)} == {
            json.dumps([usual.attributes, usual.start], sort_keys=True)
        }
    (milliseconds,) = spans(frame | {"start_time": 1_700_000_000_000})
    assert milliseconds.start == 1_700_000_000_000_000_000


# --- MLflow ---------------------------------------------------------------------------------------------------------


def test_mlflows_traces_read_as_its_spans_over_otlp_do() -> None:
    """Ids in base64 and in hex; the session and the tags of the trace are given to its root."""
    ids = {
        "trace_id": base64.b64encode(bytes.fromhex(TRACE)).decode(),
        "span_id": base64.b64encode(bytes.fromhex(SPAN)).decode(),
    }
    held = {"mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": '{"question": "q?"}', "n": 7}
    times = {"start_time_unix_nano": 1_700_000_000_000_000_001, "end_time_unix_nano": 1_700_000_000_000_000_005}
    status = {"code": "STATUS_CODE_ERROR", "message": "404"}
    root: dict[str, Any] = {
        **ids,
        "parent_span_id": None,
        "name": "chain",
        "attributes": held,
        "status": status,
        "events": [],
        **times,
    }
    below = root | {"parent_span_id": ids["span_id"], "span_id": "AAAAAAAAAAE="}
    info = {"trace_id": f"tr-{TRACE}", "tags": {"team": "a", "mlflow.artifactLocation": "x"}}
    info["trace_metadata"] = {"mlflow.trace.session": "s-1", "mlflow.trace.user": "u-1"}
    first, second = spans({"info": info, "data": {"spans": [root, below]}})
    added = {"session.id": "s-1", "user.id": "u-1", "mlflow.traceTag.team": "a"}
    assert first.attributes == added | held | {"n": "7"}
    assert (first.trace_id, first.id, first.parent_id, first.scope) == (TRACE, SPAN, None, "mlflow")
    assert (first.status, first.status_message, first.start) == ("error", "404", 1_700_000_000_000_000_001)
    assert (second.parent_id, second.id, second.attributes) == (SPAN, "0000000000000001", held | {"n": "7"})
    old: dict[str, Any] = {
        "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{SPAN}"},
        "parent_id": None,
        "name": "chain",
    }
    old |= {"start_time": 1_700_000_000_000_000_001, "end_time": 1_700_000_000_000_000_005, "attributes": held}
    (alone,) = spans({"spans": [old | {"status_code": "ERROR", "status_message": "404", "events": []}]})
    assert alone.attributes == held | {"n": "7"}
    assert (alone.trace_id, alone.id, alone.status, alone.start) == (TRACE, SPAN, "error", first.start)


# --- none of them ---------------------------------------------------------------------------------------------------

NAMES = (
    *("traceID", "spanID", "operationName", "data", "spans", "processes"),
    *("process", "references", "tags", "logs", "fields", "key"),
    *("value", "type", "traceId", "id", "name", "timestamp"),
    *("duration", "localEndpoint", "annotations", "context", "trace_id", "span_id"),
    *("span_kind", "attributes", "events", "start_time", "info", "mlflow.spanType"),
    *("metadata", "context.trace_id", "result", "parentId", "error", "otel.status_code"),
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([TRACE, SPAN, "é\ud83d"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=40,
)


@settings(deadline=None, max_examples=300)
@given(
    anything,
    st.sampled_from(
        [
            lambda x: query(jaeger(tags=x, logs=x, references=x)),
            lambda x: query(jaeger(tags=[{"key": x, "type": "int64", "value": x}], duration=x, startTime=x)),
            lambda x: [{"traceId": x, "id": x, "tags": {"a": x}, "timestamp": x, "duration": x, "annotations": [x]}],
            lambda x: {
                "context": {"trace_id": TRACE, "span_id": x},
                "span_kind": x,
                "attributes": {"a": x},
                "events": x,
            },
            lambda x: {"spans": [{"attributes": {"mlflow.spanType": x}, "span_id": x, "trace_id": x, "status": x}]},
            lambda x: x,
        ]
    ),
)
def test_no_json_of_theirs_raises(inner: Any, shape: Callable[[Any], Any]) -> None:
    """What fits nothing is counted or named; text that is no Unicode and numbers that are none don't get through."""
    decoded = Decoder().decode(json.dumps(shape(inner)).encode())
    assert decoded is not None
    for span in decoded.spans:
        json.dumps([span.attributes, span.start, span.end, span.resource], allow_nan=False, ensure_ascii=False).encode()
        assert span.trace_id
        assert span.id


def test_what_was_mended_in_their_json_is_noted() -> None:
    """As for OTLP."""
    decoded = Decoder().decode(json.dumps(query(jaeger(operationName="half \ud83d"))).encode())
    assert decoded is not None
    assert [note.text for note in decoded.notes] == ["its spans: text that is no Unicode was replaced by U+FFFD"]
    assert decoded.spans[0].name == "half \ufffd"


def test_a_row_of_none_among_theirs_is_counted() -> None:
    """Never left out without a word."""
    decoded = Decoder().decode(json.dumps([{"traceId": TRACE, "id": SPAN, "name": "x"}, {"a": 1}]).encode())
    assert decoded is not None
    assert (len(decoded.spans), decoded.misshapen) == (1, 1)


@pytest.mark.parametrize(
    "document", [{"data": []}, {"data": [{"id": 1}]}, [], 7, {"spans": []}, {"info": {}}, {"traceId": "x", "id": "y"}]
)
def test_json_that_nobody_knows_is_named(document: object) -> None:
    """As it was before other formats were read."""
    decoded = Decoder().decode(json.dumps(document).encode())
    assert decoded is not None
    assert decoded.strange == "JSON that is no OTLP"


def test_files_of_every_format_are_recognised_and_records_are_not() -> None:
    """A bare path on the command line finds its source."""
    named = {file.name: formats.named(file.read_bytes()) for file in FORMATS.glob("*.json*")}
    assert {name for name, found in named.items() if found != "OTLP JSON"} == {"jaeger-query.json", "zipkin-v2.json"}
    assert all(map(OtelSource.recognises, FORMATS.iterdir()))
    assert formats.named(json.dumps({"data": [{"context": {"trace_id": TRACE}}]}).encode()) == "Phoenix JSON"
    assert formats.named(json.dumps({"context.trace_id": TRACE}).encode()) == "Phoenix JSON"
    assert formats.named(json.dumps({"attributes": {"mlflow.spanType": '"LLM"'}}).encode()) == "MLflow JSON"
    for fact in ({"query": "q", "context": ["traceID"]}, {"trace_id": "1", "context": {"text": "x"}, "id": "7"}):
        assert formats.named(json.dumps(fact).encode()) is None
    assert len({name for name, _ in groupby(sorted(known.name for known in formats.FORMATS))}) == 4
