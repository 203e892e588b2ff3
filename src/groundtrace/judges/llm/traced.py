"""What a judge was asked, as OpenTelemetry GenAI spans of their own, marked so that they are never judged themselves.

They go to the tracer provider of the process; where it has none, by OTLP to where the `OTEL_EXPORTER_OTLP_*` variables
say. They hold which rubric, which record, the tokens and what went wrong, and no text of a trace.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, StatusCode

from groundtrace.judges.around import Around
from groundtrace.model import JUDGE_MARK

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer
    from opentelemetry.util.types import AttributeValue

    from groundtrace.model import Case, Reply
    from groundtrace.ports import Again, Judge

_WAIT = 10_000
"""Milliseconds that what is left is given to go out."""


class Traced(Around):
    """A judge whose every question leaves a span, as soon as its reply is there."""

    traces = True
    """Its spans go where the program's own do, so it has to be asked inside that program."""

    def __init__(self, judge: Judge) -> None:
        super().__init__(judge)
        self._model = judge.id.partition(",")[0]

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its last reply; what was asked twice leaves two spans."""
        provider = _provider()
        tracer = trace.get_tracer(JUDGE_MARK) if provider is None else provider.get_tracer(JUDGE_MARK)

        def told(case: Case, reply: Reply) -> Case | None:
            self._tell(tracer, case, reply)
            return again(case, reply)

        try:
            yield from self._judge.hear(cases, told)
        finally:
            if provider is not None:
                provider.force_flush(_WAIT)
                provider.shutdown()

    def _tell(self, tracer: Tracer, case: Case, reply: Reply) -> None:
        provider, _, model = self._model.partition(":")
        told: dict[str, AttributeValue] = {
            JUDGE_MARK: self.id,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": model,
            "groundtrace.rubric": case.rubric,
            "groundtrace.record_id": case.record_id,
            "groundtrace.attempt": reply.attempt,
        }
        if reply.temperature is not None:
            told["gen_ai.request.temperature"] = reply.temperature
        if reply.usage is not None:
            told["gen_ai.usage.input_tokens"] = reply.usage.input
            told["gen_ai.usage.output_tokens"] = reply.usage.output
            told["gen_ai.usage.cache_read.input_tokens"] = reply.usage.cached
        if reply.cost is not None:
            told["groundtrace.cost_usd"] = reply.cost
        end = time.time_ns()
        start = end - int((reply.latency or 0) * 1e9)
        # A root of its own: inside a trace of the user's it would look like a part of what is judged.
        span = tracer.start_span(f"chat {model}", context.Context(), SpanKind.CLIENT, told, start_time=start)
        if reply.fault is not None:
            span.set_attribute("error.type", "judge_fault")
            span.set_status(StatusCode.ERROR, reply.fault)
        span.end(end)


_PROVIDERS = {"google": "gcp.gemini"}
"""Where the semantic conventions have another name for a provider than a spec has."""


def _provider() -> TracerProvider | None:
    """A provider for one hearing; None where the process has one."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "groundtrace"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
