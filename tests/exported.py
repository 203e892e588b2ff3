"""Traces of a small RAG application, sent by OpenTelemetry's own SDK and exporters to a real server."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import IdGenerator, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context

Style = Literal["openinference", "genai", "both"]

PASSAGES = (
    ("kb-1", "The Eiffel Tower is 330 metres tall, including antennas.", 0.92),
    ("kb-2", "The Eiffel Tower was completed on 31 March 1889.", 0.88),
    ("kb-3", "Paris is the capital of France.", 0.41),
)
QUESTION = "How tall is the Eiffel Tower and when was it completed?"
ANSWER = "The Eiffel Tower is 330 metres tall [1]. It was completed in 1887 [2]."
SECOND = 1_000_000_000


@dataclass
class Sent:
    """The ids of a trace that was sent."""

    trace: str
    root: str = ""
    retriever: str = ""
    llm: str = ""
    session: str = ""
    others: list[str] = field(default_factory=list)


class Chosen(IdGenerator):
    """Gives the ids that were chosen, then random ones."""

    def __init__(self, traces: Sequence[int] = (), spans: Sequence[int] = ()) -> None:
        self.traces, self.spans = list(traces), list(spans)
        self._random = random.SystemRandom()

    def generate_trace_id(self) -> int:
        return self.traces.pop(0) if self.traces else self._random.getrandbits(128)

    def generate_span_id(self) -> int:
        return self.spans.pop(0) if self.spans else self._random.getrandbits(64)


@contextmanager
def tracer(
    endpoint: str,
    project: str,
    *,
    grpc: bool = False,
    headers: Mapping[str, str] | None = None,
    ids: IdGenerator | None = None,
    batched: bool = False,
) -> Iterator[Tracer]:
    """A tracer of the real SDK; what it traced has left when this ends."""
    exporter: Any
    if grpc:
        exporter = GrpcExporter(endpoint=endpoint, insecure=True)
    else:
        exporter = HttpExporter(endpoint=f"{endpoint}/v1/traces", headers=dict(headers or {}))
    resource = Resource.create({"service.name": "tower-desk", "openinference.project.name": project})
    provider = TracerProvider(resource=resource, id_generator=ids or Chosen())
    provider.add_span_processor(BatchSpanProcessor(exporter) if batched else SimpleSpanProcessor(exporter))
    try:
        yield provider.get_tracer("tower")
    finally:
        provider.shutdown()


def answered(
    made: Tracer,
    *,
    style: Style = "openinference",
    at: int,
    session: str = "",
    answer: str = ANSWER,
    error: bool = False,
    rooted: bool = True,
    more: Mapping[str, Any] | None = None,
) -> Sent:
    """One request: a root, a retriever and a call to a model, each a second long, from `at` on (nanoseconds)."""
    root = made.start_span("rag_query", attributes=_root(style, session, answer) | dict(more or {}), start_time=at)
    within = set_span_in_context(root)
    found = made.start_span("retrieve kb", within, kind=SpanKind.CLIENT, attributes=_retriever(style), start_time=at)
    found.end(at + SECOND)
    told = made.start_span(
        "chat tiny-1", within, kind=SpanKind.CLIENT, attributes=_llm(style, answer), start_time=at + SECOND
    )
    if error:
        told.set_status(Status(StatusCode.ERROR, "the model was not there"))
    told.end(at + 2 * SECOND)
    if rooted:
        root.end(at + 2 * SECOND)
    spans = [f"{one.get_span_context().span_id:016x}" for one in (root, found, told)]
    return Sent(f"{root.get_span_context().trace_id:032x}", *spans, session=session)


def _root(style: Style, session: str, answer: str) -> dict[str, Any]:
    held: dict[str, Any] = {"session.id": session} if session else {}
    if style != "genai":
        held |= {"openinference.span.kind": "CHAIN", "input.value": QUESTION, "output.value": answer}
    if style != "openinference":
        held |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "tower"}
    return held


def _retriever(style: Style) -> dict[str, Any]:
    held: dict[str, Any] = {}
    if style != "genai":
        held |= {"openinference.span.kind": "RETRIEVER", "input.value": QUESTION}
        for at, (ident, text, score) in enumerate(PASSAGES):
            names = f"retrieval.documents.{at}.document"
            held |= {f"{names}.id": ident, f"{names}.content": text, f"{names}.score": score}
            held[f"{names}.metadata"] = json.dumps({"source": f"https://kb.example/{ident}"})
    if style != "openinference":
        found = [{"id": ident, "content": text, "score": score} for ident, text, score in PASSAGES]
        held |= {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": QUESTION}
        held["gen_ai.retrieval.documents"] = json.dumps(found)
    return held


def _llm(style: Style, answer: str) -> dict[str, Any]:
    listed = "\n".join(f"[{at}] {text}" for at, (_, text, _) in enumerate(PASSAGES, 1))
    prompt = f"Answer from the context only, cite as [n].\n{listed}"
    held: dict[str, Any] = {}
    if style != "genai":
        held |= {"openinference.span.kind": "LLM", "llm.model_name": "tiny-1", "output.value": answer}
        for at, (role, text) in enumerate((("system", prompt), ("user", QUESTION))):
            names = f"llm.input_messages.{at}.message"
            held |= {f"{names}.role": role, f"{names}.content": text}
        held |= {
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": answer,
        }
    if style != "openinference":
        held |= {"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny-1", "gen_ai.response.model": "tiny-1"}
        held["gen_ai.system_instructions"] = json.dumps([{"type": "text", "content": prompt}])
        asked = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
        said = [{"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]
        held |= {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said)}
    return held
