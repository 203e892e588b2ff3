"""A small RAG app with real OpenTelemetry spans, its traces in a file, and groundtrace's scores beside them.

    python score_my_app.py [FOLDER]

1. A receiver on this machine takes OTLP over HTTP, as a collector would, and keeps it as OTLP JSON lines.
2. The app answers three questions and traces them with the OpenTelemetry SDK; its spans speak OpenInference.
3. groundtrace reads the file, judges offline and writes evaluation events that carry the spans' own ids.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

from groundtrace import Plan, run

HANDBOOK = {
    "drying": "Dry the tent for at least 24 hours before packing it. Mould forms within three days in a damp bag.",
    "poles": "The poles are made of aluminium 7001. A bent pole can be sent in for repair; this costs 18 euros.",
    "warranty": "The warranty covers faults in material for two years. Damage by storms is not covered.",
}
QUESTIONS = {
    "How long should I dry the tent?": (
        ("drying", "poles"),
        "Dry it for at least 24 hours before packing it [1].",
    ),
    "What does a bent pole cost?": (("poles", "warranty"), "A repair costs 18 euros [1]. It takes five working days."),
    "Are storms covered?": (("warranty", "drying"), "No, damage by storms is not covered by the warranty [2]."),
}
"""What is asked, what is retrieved, what is answered: the second answer makes something up, the third cites wrongly."""


# --- 1. the receiver ------------------------------------------------------------------------------------------------


@contextmanager
def receiver(file: Path) -> Iterator[str]:
    """An OTLP endpoint on this machine that adds every export to a file; gives its address."""

    class Intake(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(body)
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(as_otlp_json(MessageToDict(request, use_integers_for_enums=True))) + "\n")
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Intake) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
        server.shutdown()


def as_otlp_json(value: Any, key: str = "") -> Any:
    """OTLP's own JSON writes ids as hex, where protobuf's JSON writes base64."""
    if isinstance(value, dict):
        return {name: as_otlp_json(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [as_otlp_json(item) for item in value]
    return base64.b64decode(value).hex() if key in ("traceId", "spanId", "parentSpanId") else value


# --- 2. the app -----------------------------------------------------------------------------------------------------


def answer(tracer: Tracer, question: str) -> str:
    """Retrieve, generate, and trace both: what an OpenInference instrumentation does by itself."""
    ids, said = QUESTIONS[question]
    with tracer.start_as_current_span("answer", attributes={"openinference.span.kind": "CHAIN"}) as chain:
        chain.set_attribute("input.value", question)
        with tracer.start_as_current_span("retrieve", attributes={"openinference.span.kind": "RETRIEVER"}) as retrieval:
            retrieval.set_attribute("input.value", question)
            for rank, name in enumerate(ids):
                retrieval.set_attribute(f"retrieval.documents.{rank}.document.id", name)
                retrieval.set_attribute(f"retrieval.documents.{rank}.document.content", HANDBOOK[name])
        with tracer.start_as_current_span("generate", attributes={"openinference.span.kind": "LLM"}) as generation:
            numbered = "\n".join(f"[{number}] {HANDBOOK[name]}" for number, name in enumerate(ids, start=1))
            generation.set_attribute("llm.model_name", "a-model")
            generation.set_attribute("llm.input_messages.0.message.role", "user")
            prompt = f"Documents:\n{numbered}\n\nQuestion: {question}"
            generation.set_attribute("llm.input_messages.0.message.content", prompt)
            generation.set_attribute("llm.output_messages.0.message.role", "assistant")
            generation.set_attribute("llm.output_messages.0.message.content", said)
        chain.set_attribute("output.value", said)
    return said


def trace_the_app(endpoint: str) -> None:
    """Answer every question once, exporting to the endpoint."""
    provider = TracerProvider(resource=Resource({"service.name": "tent-desk"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    for question in QUESTIONS:
        answer(provider.get_tracer("tent-desk"), question)
    provider.shutdown()


# --- 3. the scores --------------------------------------------------------------------------------------------------


def scores(file: Path) -> dict[str, dict[str, float]]:
    """What the evaluation events in a file say: for each span that was judged, its scores by name."""
    told: dict[str, dict[str, float]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        for record in json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]:
            said = {a["key"]: next(iter(a["value"].values())) for a in record["attributes"]}
            if "gen_ai.evaluation.score.value" in said:
                name = said["gen_ai.evaluation.name"].removeprefix("groundtrace.")
                told.setdefault(record["spanId"], {})[name] = said["gen_ai.evaluation.score.value"]
    return told


def main(folder: Path) -> None:
    """Run all three steps and print what the events say."""
    folder.mkdir(parents=True, exist_ok=True)
    traces = folder / "traces.jsonl"
    with receiver(traces) as endpoint:
        trace_the_app(endpoint)
    report = run(Plan(sources=f"otel:{traces}", sinks=f"otel:{folder}"))
    print(f"{report.traces} traces read from {traces}")
    for span, told in scores(folder / "scores.groundtrace.logs.jsonl").items():
        print(f"span {span}")
        for name in ("source_support", "rag_faithfulness.claim_support", "rag_faithfulness.citation_accuracy"):
            print(f"  {name:<35} {told.get(name, '-')}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tent-desk"))
