"""A span that ended here is the span a file of it gives: on every trace of the corpus, and on the SDK's own spans."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from groundtrace.adapters.otel import OtelSource, readable
from groundtrace.model import Span, Trace, Window
from groundtrace.plan import Plan
from groundtrace.read import read
from hosts import answer, collector

CORPUS = Path(__file__).parents[2] / "fixtures" / "traces"
FILES = [file for file in sorted(CORPUS.glob("*.jsonl")) if ".logs." not in file.name]


def all_of(source: OtelSource) -> list[Trace]:
    """Every trace it gives."""
    return list(source.traces(Window(), lambda _, __: True))


def ended(span: Span) -> ReadableSpan:
    """The span of a file as the SDK would have held it."""

    def context(trace_id: str, span_id: str) -> SpanContext:
        return SpanContext(int(trace_id or "0", 16), int(span_id or "0", 16), False, TraceFlags(1))  # noqa: FBT003

    def held(attributes: Any, dropped: int = 0) -> BoundedAttributes:
        made = BoundedAttributes(attributes=dict(attributes))
        made.dropped = dropped
        return made

    return ReadableSpan(
        name=span.name,
        context=context(span.trace_id, span.id),
        parent=context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=Resource(dict(span.resource)),
        attributes=held(span.attributes, span.dropped),
        events=[Event(event.name, held(event.attributes), event.time) for event in span.events],
        links=[Link(context(link.trace_id, link.span_id), held(link.attributes)) for link in span.links],
        kind=SpanKind[span.kind.upper()],
        status=Status(StatusCode[span.status.upper()], span.status_message or None),
        start_time=span.start,
        end_time=span.end,
        instrumentation_scope=InstrumentationScope(span.scope),
    )


def test_there_is_a_corpus() -> None:
    """A walk that finds nothing would pass."""
    assert len(FILES) > 40


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_equal_spans_and_records_on_the_corpus(file: Path, tmp_path: Path) -> None:
    """What the SDK's own encoder makes of a span, read from a file, and the same span read where it ended."""
    conventions = Plan(sources=("otel:-",)).vocabularies()
    for number, trace in enumerate(all_of(OtelSource(str(file)))):
        spans = [ended(span) for span in trace.spans]
        written = tmp_path / f"{number}.pb"
        written.write_bytes(encode_spans(spans).SerializeToString())
        (told,) = all_of(OtelSource(str(written)))
        here = readable.trace(spans)
        assert here.spans == told.spans
        assert here.ref == told.ref
        assert read(here, conventions) == read(told, conventions)


def test_equal_over_a_real_exporter(tmp_path: Path) -> None:
    """The SDK's spans, exported to an endpoint on this machine: odd values, limits, events, links, an error."""
    kept = InMemorySpanExporter()
    with collector() as taken:
        limits = SpanLimits(max_span_attributes=12)
        provider = TracerProvider(resource=Resource({"service.name": "x", "n": 3}), span_limits=limits)
        provider.add_span_processor(SimpleSpanProcessor(kept))
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{taken.url}/v1/traces")))
        tracer = provider.get_tracer("odd", "1")
        answer(tracer, "When?")
        other = SpanContext(7, 8, is_remote=False, trace_flags=TraceFlags(1))
        with tracer.start_as_current_span("odd", kind=SpanKind.CLIENT, links=[Link(other, {"a": [1, 2]})]) as span:
            for name, value in ODD.items():
                span.set_attribute(name, value)
            span.add_event("seen", {"a": True})
        many = {f"a{number}": number for number in range(20)}
        with pytest.raises(ValueError, match="no"), tracer.start_as_current_span("failed", attributes=many):
            raise ValueError("no")
        provider.shutdown()
        bodies = taken.taken["/v1/traces"]
    file = tmp_path / "x.pb"
    file.write_bytes(b"".join(bodies))
    told = {trace.ref.trace_id: trace for trace in all_of(OtelSource(str(file)))}
    by_trace: dict[int, list[ReadableSpan]] = {}
    for ended_span in kept.get_finished_spans():
        assert ended_span.context is not None
        by_trace.setdefault(ended_span.context.trace_id, []).append(ended_span)
    assert len(told) == len(by_trace) == 3
    for spans in by_trace.values():
        here = readable.trace(spans)
        assert here.spans == told[here.ref.trace_id].spans


ODD: dict[str, Any] = {
    "text": "naïve ☕",
    "true": True,
    "whole": -(1 << 62),
    "too large": 1 << 70,
    "half": 0.5,
    "none": math.nan,
    "endless": -math.inf,
    "list": ["a", "b"],
    "numbers": (1.5, math.inf),
    "bytes": b"\x00\xff",
}


def test_weight_grows_with_what_is_held() -> None:
    """Texts count by their length."""
    small, large = (ended(Span(id="1", trace_id="2", attributes={"a": "x" * n})) for n in (1, 10_000))
    assert readable.weight(large) - readable.weight(small) == 9_999


def test_a_spans_weight_counts_every_text_it_holds() -> None:
    """Those in a sequence, an event and a link too: what is held is bounded by it."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("x")
    text = "x" * 10_000
    at = SpanContext(1, 1, is_remote=False)
    span = tracer.start_span("one", attributes={"a": text, "many": (text, text)}, links=[Link(at, {"b": text})])
    span.add_event("seen", {"c": text, "more": (text, text)})
    span.end()
    assert isinstance(span, ReadableSpan)
    assert 70_000 <= readable.weight(span) < 80_000
