"""A program that answers questions and is traced with OpenTelemetry's own SDK, and what leaves it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry import metrics
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

PASSAGES = ("The night ferry leaves at 21:40 every day.", "Dogs travel for free.")
ANSWER = "The night ferry leaves at 21:40 [1]."
MADE_UP = "The night ferry serves a breakfast of nine courses [1]."


def answer(
    tracer: Tracer,
    question: str,
    said: str = ANSWER,
    context: Context | None = None,
    passages: Sequence[str] = PASSAGES,
) -> int:
    """Retrieve, generate, and trace both in OpenInference's words; the trace's id."""
    kind = "openinference.span.kind"
    with tracer.start_as_current_span("answer", context, attributes={kind: "CHAIN"}) as chain:
        chain.set_attribute("input.value", question)
        with tracer.start_as_current_span("retrieve", attributes={kind: "RETRIEVER"}) as retrieval:
            retrieval.set_attribute("input.value", question)
            for rank, text in enumerate(passages):
                retrieval.set_attribute(f"retrieval.documents.{rank}.document.id", f"d{rank}")
                retrieval.set_attribute(f"retrieval.documents.{rank}.document.content", text)
        with tracer.start_as_current_span("generate", attributes={kind: "LLM"}) as generation:
            generation.set_attribute("llm.model_name", "a-model")
            generation.set_attribute("llm.output_messages.0.message.role", "assistant")
            generation.set_attribute("llm.output_messages.0.message.content", said)
        chain.set_attribute("output.value", said)
        return chain.get_span_context().trace_id


@dataclass
class Host:
    """A program with all three signals, kept in memory."""

    tracers: TracerProvider
    spans: InMemorySpanExporter
    loggers: LoggerProvider
    logs: InMemoryLogRecordExporter
    meters: MeterProvider
    reader: InMemoryMetricReader

    @property
    def tracer(self) -> Tracer:
        """What it is traced with."""
        return self.tracers.get_tracer("ferry-desk")

    def providers(self) -> dict[str, Any]:
        """As `groundtrace.otel.processor` takes them."""
        return {"logger_provider": self.loggers, "meter_provider": self.meters}

    def add(self, processor: SpanProcessor) -> None:
        """Have it look on, before what it makes is exported."""
        self.tracers.add_span_processor(processor)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))

    def events(self) -> list[dict[str, Any]]:
        """What was told as events: the attributes, with the ids they stand under."""
        return [
            {
                **(log.log_record.attributes or {}),
                "trace_id": log.log_record.trace_id,
                "span_id": log.log_record.span_id,
                "event_name": log.log_record.event_name,
                "severity": log.log_record.severity_text,
                "body": log.log_record.body,
            }
            for log in self.logs.get_finished_logs()
        ]

    def own(self) -> list[ReadableSpan]:
        """The spans that groundtrace made."""
        return [s for s in self.spans.get_finished_spans() if _scope(s) == "groundtrace"]

    def made(self) -> list[ReadableSpan]:
        """The spans of the program."""
        return [s for s in self.spans.get_finished_spans() if _scope(s) != "groundtrace"]

    def measured(self) -> dict[str, dict[str, Any]]:
        """What is measured: by instrument, by attributes, the sum."""
        data = self.reader.get_metrics_data()
        found: dict[str, dict[str, Any]] = {}
        for of_resource in data.resource_metrics if data else ():
            for of_scope in of_resource.scope_metrics:
                for metric in of_scope.metrics:
                    points = found.setdefault(metric.name, {})
                    for point in metric.data.data_points:
                        points[", ".join(f"{v}" for _, v in sorted((point.attributes or {}).items()))] = point
        return found


def _scope(span: ReadableSpan) -> str:
    return span.instrumentation_scope.name if span.instrumentation_scope else ""


@contextmanager
def host(resource: Mapping[str, Any] | None = None) -> Iterator[Host]:
    """A program, shut down in the end."""
    made = Resource(dict(resource or {"service.name": "ferry-desk"}))
    spans, logs, reader = InMemorySpanExporter(), InMemoryLogRecordExporter(), InMemoryMetricReader()
    loggers = LoggerProvider(resource=made, shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
    meters = MeterProvider(metric_readers=[reader], resource=made, shutdown_on_exit=False)
    quiet = metrics.NoOpMeterProvider()
    tracers = TracerProvider(resource=made, shutdown_on_exit=False, meter_provider=quiet)
    try:
        yield Host(tracers, spans, loggers, logs, meters, reader)
    finally:
        tracers.shutdown()
        loggers.shutdown()
        meters.shutdown()


@dataclass
class Collector:
    """What an OTLP endpoint on this machine was sent, by path."""

    url: str
    taken: dict[str, list[bytes]] = field(default_factory=dict)


@contextmanager
def collector() -> Iterator[Collector]:
    """An OTLP endpoint on this machine that takes all it is sent."""
    made = Collector("")

    class Intake(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.taken.setdefault(self.path, []).append(body)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Intake) as server:
        made.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield made
        server.shutdown()


class Handed(SpanExporter):
    """An exporter that keeps what it is handed, and may be slow or refuse."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.is_over = False

    def export(self, spans: Sequence[ReadableSpan]) -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        assert not self.is_over, "spans came after the exporter was shut down"
        self.spans += spans
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True

    def shutdown(self) -> None:
        self.is_over = True
