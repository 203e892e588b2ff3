"""A small RAG app whose OpenTelemetry traces go to Phoenix; run it, and each of its answers is a trace there.

    PHOENIX_COLLECTOR_ENDPOINT=http://127.0.0.1:6006 python integrations/phoenix/my_app.py tent-desk

An app that is traced by OpenInference's instrumentors, or by OpenTelemetry's of GenAI, needs none of this:
`groundtrace run phoenix:PROJECT` reads its traces too.
"""

from __future__ import annotations

import os
import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

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


def answer(tracer: Tracer, question: str) -> str:
    """Retrieve, then generate; the spans speak OpenInference."""
    names, said = QUESTIONS[question]
    whole = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": said}
    with tracer.start_as_current_span("tent desk", attributes=whole | {"session.id": f"camper-{os.getpid()}"}):
        found = {"openinference.span.kind": "RETRIEVER", "input.value": question}
        for place, name in enumerate(names):
            found |= {f"retrieval.documents.{place}.document.id": name}
            found |= {f"retrieval.documents.{place}.document.content": HANDBOOK[name]}
        with tracer.start_as_current_span("search", attributes=found):
            pass
        numbered = "\n".join(f"[{n}] {HANDBOOK[name]}" for n, name in enumerate(names, start=1))
        asked = f"Answer from these documents.\n\nDocuments:\n{numbered}\n\nQuestion: {question}"
        generation = {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": asked,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": said,
        }
        with tracer.start_as_current_span("generate", attributes=generation):
            pass
    return said


def main() -> None:
    """Answer the questions, traced into a project of Phoenix."""
    url = os.environ["PHOENIX_COLLECTOR_ENDPOINT"].rstrip("/").removesuffix("/v1/traces")
    key = os.environ.get("PHOENIX_API_KEY")
    resource = Resource.create({"service.name": "tent-desk", "openinference.project.name": sys.argv[1]})
    provider = TracerProvider(resource=resource)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{url}/v1/traces", headers=headers)))
    for question in QUESTIONS:
        print(answer(provider.get_tracer("tent-desk"), question))
    provider.shutdown()


if __name__ == "__main__":
    main()
