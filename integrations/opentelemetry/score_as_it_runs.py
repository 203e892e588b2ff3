"""The same small app, which judges its own traces while it runs: scores beside its spans, or on them.

    python score_as_it_runs.py [--on-spans]

1. A receiver on this machine takes OTLP over HTTP, as a collector or a backend would.
2. The app is traced as before; one line more has its traces judged, offline, in a process of its own.
3. What arrived is printed: the scores with the answer they are of.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from score_my_app import QUESTIONS, answer, receiver

import groundtrace

RUBRICS = ["source_support", "rag_faithfulness"]
SHOWN = ("source_support", "rag_faithfulness.claim_support", "rag_faithfulness.citation_accuracy")


def provider(endpoint: str, *, on_spans: bool) -> TracerProvider:
    """The app's tracing, with the line that has it judged."""
    made = TracerProvider(resource=Resource({"service.name": "tent-desk"}))
    exporter = OTLPSpanExporter(endpoint=endpoint)
    if on_spans:
        ours = groundtrace.otel.exporter(exporter, RUBRICS, sample=1, deadline=60, shutdown_seconds=60)
        made.add_span_processor(BatchSpanProcessor(ours))
    else:
        made.add_span_processor(groundtrace.otel.processor(RUBRICS, sample=1, shutdown_seconds=60))
        made.add_span_processor(BatchSpanProcessor(exporter))
    return made


def arrived(file: Path) -> Iterator[dict[str, Any]]:
    """Every span in a file, its attributes as a mapping."""
    for line in file.read_text(encoding="utf-8").splitlines():
        for of_resource in json.loads(line)["resourceSpans"]:
            for of_scope in of_resource["scopeSpans"]:
                for span in of_scope["spans"]:
                    pairs = {pair["key"]: next(iter(pair["value"].values())) for pair in span.get("attributes", ())}
                    yield {**span, "attributes": pairs}


def scores(span: dict[str, Any]) -> dict[str, float]:
    """The scores a span carries, by name."""
    held = span["attributes"]
    names = {key: value for key, value in held.items() if key.startswith("evaluations.") and key.endswith("name")}
    told = {value: held.get(key.removesuffix("name") + "score") for key, value in names.items()}
    return {name.removeprefix("groundtrace."): score for name, score in told.items() if score is not None}


def main(*, on_spans: bool) -> None:
    """Run all three steps."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arrived.jsonl"
        with receiver(file) as endpoint:
            tracers = provider(endpoint, on_spans=on_spans)
            for question in QUESTIONS:
                answer(tracers.get_tracer("tent-desk"), question)
            tracers.shutdown()
        spans = list(arrived(file))
    asked = {span["spanId"]: span["attributes"]["input.value"] for span in spans if span["name"] == "answer"}
    of = {span["spanId"]: asked[span["parentSpanId"]] for span in spans if span["name"] == "generate"}
    told: dict[str, dict[str, float]] = {}
    for span in spans:
        judged = span["spanId"] if on_spans else next((link["spanId"] for link in span.get("links", ())), "")
        if judged in of and scores(span):
            told.setdefault(of[judged], {}).update(scores(span))
    print(f"{len(spans)} spans arrived")
    for question, found in told.items():
        print(question)
        for name in SHOWN:
            print(f"  {name:<35} {found.get(name, '-')}")


if __name__ == "__main__":
    main(on_spans="--on-spans" in sys.argv[1:])
