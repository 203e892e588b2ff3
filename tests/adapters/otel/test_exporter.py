"""Scores on the spans before they leave: each span is passed on exactly once, scored or as it was."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

import groundtrace
from groundtrace.adapters.otel import OtelSource
from groundtrace.adapters.otel.exporter import Exporter
from groundtrace.errors import PlanError
from groundtrace.live import BROKEN
from groundtrace.live.gathering import FULL, LATE, TOO_LARGE, UNFINISHED
from groundtrace.model import Window
from groundtrace.testing import ScriptedJudge
from hired import SUPPORTED
from hosts import Handed, answer, collector

QUICK: dict[str, Any] = {"settle": 0.01, "sample": 1}
LONG = 60_000


def exporter(inner: Any, judge: Any = None, **more: Any) -> Exporter:
    """An exporter around another."""
    judge = ScriptedJudge(SUPPORTED) if judge is None else judge
    return groundtrace.otel.exporter(inner, "source_support", judge, **{**QUICK, **more})


def traced(ours: Exporter, **how: Any) -> TracerProvider:
    """A provider whose spans go there, one by one."""
    provider = TracerProvider(shutdown_on_exit=False, **how)
    provider.add_span_processor(SimpleSpanProcessor(ours))
    return provider


def by_name(spans: Sequence[ReadableSpan]) -> dict[str, ReadableSpan]:
    """Spans by their names."""
    return {span.name: span for span in spans}


def evaluations(span: ReadableSpan) -> dict[str, Any]:
    """What was added to a span, without the texts."""
    held = span.attributes or {}
    return {name: value for name, value in held.items() if "evaluation" in name and "metadata" not in name}


def test_the_span_that_was_judged_carries_its_scores() -> None:
    """In OpenInference's numbered form and in OpenTelemetry's; all else is as it was."""
    inner = Handed()
    provider = traced(exporter(inner))
    plain = Handed()
    provider.add_span_processor(SimpleSpanProcessor(plain))
    answer(provider.get_tracer("x"), "When?")
    assert inner.spans == []
    provider.shutdown()
    found, before = by_name(inner.spans), by_name(plain.spans)
    assert found.keys() == before.keys() == {"answer", "retrieve", "generate"}
    assert found["answer"] is not found["generate"]
    for name in ("answer", "retrieve"):
        assert found[name].attributes == before[name].attributes
    added = evaluations(found["generate"])
    assert added["evaluations.0.evaluation.name"] == "groundtrace.source_support"
    assert added["evaluations.0.evaluation.score"] == 5.0
    assert added["evaluations.0.evaluation.annotator_kind"] == "LLM"
    assert added["evaluations.2.evaluation.name"] == "groundtrace.source_support.citation_precision"
    assert added["gen_ai.evaluation.name"] == "groundtrace.source_support"
    assert added["gen_ai.evaluation.score.value"] == 5.0
    for name in (
        "name",
        "context",
        "parent",
        "kind",
        "start_time",
        "end_time",
        "resource",
        "status",
        "events",
        "links",
    ):
        assert getattr(found["generate"], name) == getattr(before["generate"], name)


def test_a_span_keeps_the_evaluations_and_the_losses_it_has() -> None:
    """Numbers go on after those that are there; what a limit took is still told."""
    inner = Handed()
    ours = exporter(inner)
    provider = traced(ours, span_limits=SpanLimits(max_span_attributes=5))
    tracer = provider.get_tracer("x")
    kind = "openinference.span.kind"
    with tracer.start_as_current_span("chain", attributes={kind: "CHAIN", "input.value": "When?"}):
        documents = {"retrieval.documents.0.document.content": "The night ferry leaves at 21:40 every day."}
        tracer.start_span("retrieve", attributes={kind: "RETRIEVER", **documents}).end()
        with tracer.start_as_current_span("generate", attributes={kind: "LLM"}) as span:
            span.set_attribute("lost", 1)
            span.set_attribute("lost as well", 1)
            span.set_attribute(kind, "LLM")
            span.set_attribute("evaluations.3.evaluation.name", "mine")
            span.set_attribute("evaluations.3.evaluation.score", 0.5)
            span.set_attribute("llm.output_messages.0.message.role", "assistant")
            span.set_attribute("llm.output_messages.0.message.content", "It leaves at 21:40 [1].")
            span.add_event("seen")
    provider.shutdown()
    found = by_name(inner.spans)["generate"]
    added = evaluations(found)
    assert added["evaluations.3.evaluation.name"] == "mine"
    assert added["evaluations.4.evaluation.name"] == "groundtrace.source_support"
    assert found.dropped_attributes == 2
    assert [event.name for event in found.events] == ["seen"]


@pytest.mark.parametrize("proto", ["http", "grpc"])
def test_over_real_exporters_to_an_endpoint(tmp_path: Path, proto: str) -> None:
    """Batched, by OTLP; read back from the endpoint, the scores are on the span and every span came once."""
    if proto == "grpc":
        pytest.importorskip("grpc")
        with grpc_collector() as (url, bodies):
            _send(Grpc(endpoint=url, insecure=True))
    else:
        with collector() as taken:
            _send(OTLPSpanExporter(endpoint=f"{taken.url}/v1/traces"))
            bodies = taken.taken["/v1/traces"]
    file = tmp_path / "came.pb"
    file.write_bytes(b"".join(bodies))
    traces = list(OtelSource(str(file)).traces(Window(), lambda _, __: True))
    spans = [span for one in traces for span in one.spans]
    assert (len(traces), len(spans)) == (20, 60)
    assert not any("more than once" in note for one in traces for note in one.notes)
    scored = [span for span in spans if "gen_ai.evaluation.score.value" in span.attributes]
    assert {span.name for span in scored} == {"generate"}
    assert len(scored) == 20


def _send(inner: Any) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    ours = groundtrace.otel.exporter(inner, "source_support", deadline=60, shutdown_seconds=60, **QUICK)
    provider.add_span_processor(BatchSpanProcessor(ours, schedule_delay_millis=50))
    for number in range(20):
        answer(provider.get_tracer("x"), f"When? {number}")
    provider.shutdown()
    assert ours.counts == {"scored": 20}


def grpc_collector() -> Any:
    """An OTLP endpoint over gRPC."""
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import contextmanager

    import grpc
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    @contextmanager
    def standing() -> Iterator[tuple[str, list[bytes]]]:
        bodies: list[bytes] = []

        def take(body: bytes, _: Any) -> bytes:
            bodies.append(body)
            return ExportTraceServiceResponse().SerializeToString()

        handler = grpc.method_handlers_generic_handler(
            "opentelemetry.proto.collector.trace.v1.TraceService",
            {"Export": grpc.unary_unary_rpc_method_handler(take)},
        )
        server = grpc.server(ThreadPoolExecutor(2))
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}", bodies
        finally:
            server.stop(None).wait()

    return standing()


# --- as they were -----------------------------------------------------------------------------------------------------


class Silent:
    """A judge that says nothing until it is let go."""

    id, kind, limits = "silent", "llm", ""

    def __init__(self) -> None:
        self.asked, self.leave = threading.Event(), threading.Event()

    def unassessed(self, rubric: str) -> frozenset[str]:
        return frozenset()

    def hear(self, cases: Any, again: Any) -> Iterator[Any]:
        next(iter(cases))
        self.asked.set()
        self.leave.wait(120)
        return iter(())


def wait_for(over: Any) -> None:
    """Wait until it is so."""
    end = time.monotonic() + 60
    while not over():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_is_judged_too_late_leaves_as_it_was() -> None:
    """At its deadline, once; the score that comes afterwards is of no use."""
    judge, inner = Silent(), Handed()
    ours = exporter(inner, judge, deadline=0.1, shutdown_seconds=0.1)
    provider = traced(ours)
    answer(provider.get_tracer("x"), "When?")
    wait_for(lambda: len(inner.spans) == 3)
    assert ours.counts == {"deadline": 1}
    judge.leave.set()
    provider.shutdown()
    assert len(inner.spans) == 3
    assert all(not evaluations(span) for span in inner.spans)


def test_what_there_is_no_room_for_leaves_as_it_was() -> None:
    """At once, and all of a trace that grew too large."""
    inner = Handed()
    ours = exporter(inner, settle=60, lifetime=120, held_spans=4, most_spans=3)
    provider = traced(ours)
    tracer = provider.get_tracer("x")
    with tracer.start_as_current_span("large"):
        for _ in range(5):
            tracer.start_span("step").end()
        assert len(inner.spans) == 5
    assert len(inner.spans) == 6
    answer(tracer, "held")
    answer(tracer, "no room")
    assert len(inner.spans) == 9
    provider.shutdown()
    assert len(inner.spans) == 12
    assert ours.counts == {TOO_LARGE: 1, FULL: 1, "scored": 1}


def test_a_share_waits_and_the_rest_passes_at_once() -> None:
    """With the answer of the exporter inside."""
    inner = Handed()
    ours = exporter(inner, sample=0, settle=60)
    provider = traced(ours)
    answer(provider.get_tracer("x"), "When?")
    assert len(inner.spans) == 3
    assert ours.counts == {"not_in_sample": 1}
    assert ours.export(inner.spans[:1]) is SpanExportResult.SUCCESS
    provider.shutdown()


def test_what_comes_after_its_trace_left_does_not_wait() -> None:
    """A child that ended late, and the root of a trace that left before it came."""
    inner = Handed()
    ours = exporter(inner)
    provider = traced(ours)
    tracer = provider.get_tracer("x")
    root = tracer.start_span("root")
    inside = trace.set_span_in_context(root)
    late = tracer.start_span("late", inside)
    root.end()
    assert ours.force_flush(LONG)
    assert [span.name for span in inner.spans] == ["root"]
    late.end()
    assert [span.name for span in inner.spans] == ["root", "late"]
    torn = tracer.start_span("torn")
    tracer.start_span("child", trace.set_span_in_context(torn)).end()
    assert ours.force_flush(LONG)
    assert [span.name for span in inner.spans] == ["root", "late", "child"]
    torn.end()
    assert [span.name for span in inner.spans] == ["root", "late", "child", "torn"]
    assert ours.counts == {"nothing_to_judge": 1, LATE: 2, UNFINISHED: 1}
    provider.shutdown()


def test_a_trace_whose_root_never_comes_leaves_after_a_while() -> None:
    """As it was."""
    inner = Handed()
    ours = exporter(inner, lifetime=0.05)
    provider = traced(ours)
    root = provider.get_tracer("x").start_span("root")
    provider.get_tracer("x").start_span("child", trace.set_span_in_context(root)).end()
    wait_for(lambda: inner.spans)
    assert ours.counts == {UNFINISHED: 1}
    provider.shutdown()
    assert [span.name for span in inner.spans] == ["child"]
    root.end()


def test_calls_from_elsewhere_under_one_id_are_each_scored() -> None:
    """One after the other."""
    inner = Handed()
    ours = exporter(inner)
    provider = traced(ours)
    for number in (1, 2):
        remote = SpanContext(77, number, is_remote=True, trace_flags=TraceFlags(1))
        answer(provider.get_tracer("x"), "When?", context=trace.set_span_in_context(NonRecordingSpan(remote)))
        assert ours.force_flush(LONG)
    assert (len(inner.spans), ours.counts) == (6, {"scored": 2})
    scored = [evaluations(span) for span in inner.spans if evaluations(span)]
    assert [said["gen_ai.evaluation.score.value"] for said in scored] == [5.0, 5.0]
    provider.shutdown()


def test_a_call_of_which_spans_passed_by_is_not_judged_without_them() -> None:
    """Another call under the same id, begun while the first one waits for its judge."""
    judge, inner = Silent(), Handed()
    ours = exporter(inner, judge, deadline=60, shutdown_seconds=0.1)
    provider = traced(ours)
    remote = SpanContext(77, 1, is_remote=True, trace_flags=TraceFlags(1))
    for _ in range(2):
        answer(provider.get_tracer("x"), "When?", context=trace.set_span_in_context(NonRecordingSpan(remote)))
        assert judge.asked.wait(20)
    assert (len(inner.spans), ours.counts) == (3, {LATE: 3})
    provider.shutdown()
    judge.leave.set()
    assert (len(inner.spans), ours.counts) == (6, {LATE: 3, "deadline": 1})


def test_nothing_is_done_before_it_has_left() -> None:
    """A flush and a shutdown wait for what is being sent."""

    class Slow(Handed):
        def export(self, spans: Sequence[ReadableSpan]) -> Any:
            time.sleep(0.1)
            return super().export(spans)

    inner = Slow()
    ours = exporter(inner)
    provider = traced(ours)
    answer(provider.get_tracer("x"), "When?")
    assert ours.force_flush(LONG)
    assert len(inner.spans) == 3
    answer(provider.get_tracer("x"), "When?")
    provider.shutdown()
    assert (len(inner.spans), ours.counts) == (6, {"scored": 2})


def test_what_is_sent_leaves_no_spans() -> None:
    """Instrumentations of the HTTP client inside are told to be quiet, as the SDK itself tells them."""
    quiet: list[object] = []

    class Looking(Handed):
        def export(self, spans: Sequence[ReadableSpan]) -> Any:
            quiet.append(contexts.get_value(contexts._SUPPRESS_INSTRUMENTATION_KEY))
            return super().export(spans)

    inner = Looking()
    ours = exporter(inner)
    provider = traced(ours)
    answer(provider.get_tracer("x"), "When?")
    wait_for(lambda: len(inner.spans) == 3)
    provider.shutdown()
    assert quiet
    assert all(quiet)


def test_a_span_that_waits_does_not_wait_for_what_is_being_sent() -> None:
    """Who ends a span of a trace that is held goes on, whatever the exporter inside is at."""
    began, leave = threading.Event(), threading.Event()

    class Stuck(Handed):
        def export(self, spans: Sequence[ReadableSpan]) -> Any:
            began.set()
            leave.wait(60)
            return super().export(spans)

    inner = Stuck()
    ours = exporter(inner)
    provider = traced(ours)
    answer(provider.get_tracer("x"), "When?")
    assert began.wait(60)
    program = threading.Thread(target=answer, args=(provider.get_tracer("x"), "And now?"))
    program.start()
    program.join(20)
    went_on = not program.is_alive()
    leave.set()
    provider.shutdown()
    assert went_on
    assert len(inner.spans) == 6


def test_a_span_that_comes_while_it_is_shut_down_is_not_kept() -> None:
    """It was let in before, and put to its trace after: it passes."""

    class Open(Handed):
        def shutdown(self) -> None:
            """It still takes what comes."""

    inner = Open()
    ours = exporter(inner, settle=60, sample=0.5)
    ours._choose = lambda _: ours.shutdown() is None  # the shutdown falls between the two
    provider = traced(ours)
    with provider.get_tracer("x").start_as_current_span("late"):
        pass
    assert [span.name for span in inner.spans] == ["late"]


def test_a_judge_that_hangs_keeps_nothing_of_what_left() -> None:
    """What waited to be asked about and left at its deadline is not held any more."""
    judge = Silent()
    known: list[weakref.ref[ReadableSpan]] = []

    class Noting(Handed):
        def export(self, spans: Sequence[ReadableSpan]) -> Any:
            known.extend(weakref.ref(span) for span in spans)
            return SpanExportResult.SUCCESS

    ours = exporter(Noting(), judge, deadline=0.1, shutdown_seconds=0.1)
    provider = traced(ours)
    answer(provider.get_tracer("x"), "When?")
    assert judge.asked.wait(60)
    for _ in range(5):
        answer(provider.get_tracer("x"), "And now?")
    wait_for(lambda: len(known) == 18)
    wait_for(lambda: gc.collect() is not None and sum(span() is not None for span in known) <= 3)
    judge.leave.set()
    provider.shutdown()


def test_scores_of_a_call_that_left_are_not_anothers() -> None:
    """A second call under the same id waits for its own."""
    asked, leave = threading.Event(), threading.Event()

    class Slow(ScriptedJudge):
        def hear(self, cases: Any, again: Any) -> Any:
            asked.set()
            leave.wait(120)
            return super().hear(cases, again)

    inner = Handed()
    ours = exporter(inner, Slow(SUPPORTED), deadline=0.1)
    provider = traced(ours)
    at = SpanContext(7, 7, is_remote=True, trace_flags=TraceFlags(1))
    caller = trace.set_span_in_context(NonRecordingSpan(at))
    answer(provider.get_tracer("x"), "When?", context=caller)
    assert asked.wait(60)
    wait_for(lambda: len(inner.spans) == 3)
    ours._deadline = 120
    answer(provider.get_tracer("x"), "When?", context=caller)
    wait_for(lambda: ours._waiting)
    leave.set()
    wait_for(lambda: len(inner.spans) == 6)
    provider.shutdown()
    assert [bool(evaluations(span)) for span in inner.spans if span.name == "generate"] == [False, True]


def test_what_the_exporter_inside_refuses_is_said_and_not_sent_twice() -> None:
    """It has tried again itself; what it raises stays here."""

    class Refusing(Handed):
        def export(self, spans: Sequence[ReadableSpan]) -> Any:
            super().export(spans)
            if len(self.spans) > 4:
                raise ConnectionError("no")
            return SpanExportResult.FAILURE

    inner = Refusing()
    ours = exporter(inner)
    provider = traced(ours)
    for _ in range(2):
        answer(provider.get_tracer("x"), "When?")
        ours.force_flush(LONG)
    provider.shutdown()
    assert len(inner.spans) == 6
    assert ours.counts["refused_spans"] == 6
    assert ours.counts[BROKEN] == 1


def test_spans_of_ours_pass_at_once() -> None:
    """They are never judged."""
    inner = Handed()
    provider = traced(exporter(inner, settle=60))
    provider.get_tracer("groundtrace").start_span("groundtrace.source_support").end()
    assert len(inner.spans) == 1
    provider.shutdown()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_passes_on_its_own_and_nothing_of_its_parents() -> None:
    """What was held when it was forked is passed on once, by the parent."""
    inner = Handed()
    ours = exporter(inner, settle=0.05)
    provider = traced(ours)
    answer(provider.get_tracer("x"), "of the parent")
    child = os.fork()
    if not child:
        inner.spans.clear()
        answer(provider.get_tracer("x"), "of the child")
        well = ours.force_flush(LONG)
        os._exit(0 if well and len(inner.spans) == 3 and ours.counts == {"scored": 1} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ours.force_flush(LONG)
    provider.shutdown()
    assert (len(inner.spans), ours.counts) == (3, {"scored": 1})


def test_what_is_no_exporter_is_said_at_once() -> None:
    """And so are times that are none."""
    with pytest.raises(PlanError, match="is no span exporter"):
        groundtrace.otel.exporter("otlp")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=r"is no span exporter; .*BatchSpanProcessor\(exporter\("):
        groundtrace.otel.exporter(SimpleSpanProcessor(Handed()))  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="deadline: 0 must be more"):
        groundtrace.otel.exporter(Handed(), deadline=0)
    with pytest.raises(PlanError, match="deadline: '5' is text and no number"):
        groundtrace.otel.exporter(Handed(), deadline="5")  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="did you mean 'deadline'"):
        groundtrace.otel.exporter(Handed(), dead_line=5)  # type: ignore[call-arg]


def test_one_that_is_added_as_a_processor_does_its_work_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK takes anything, and calls what is not there at the program's first span."""
    inner = Handed()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(exporter(inner))  # type: ignore[arg-type]
    answer(provider.get_tracer("x"), "When?")
    provider.shutdown()
    assert len(evaluations(by_name(inner.spans)["generate"])) > 0
    assert len(inner.spans) == 3
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("groundtrace")]
    assert "add_span_processor(BatchSpanProcessor(groundtrace.otel.exporter(" in line


# --- exactly once -----------------------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "begin", "child", "end", "flush", "pause", "foreign"]),
        st.integers(0, 5),
    ),
    max_size=25,
)


class Wandering:
    """A program that begins and ends spans in any order."""

    def __init__(self, ours: Exporter) -> None:
        self.ours, self.provider = ours, traced(ours)
        self.counting = Handed()
        self.provider.add_span_processor(SimpleSpanProcessor(self.counting))
        self.tracer = self.provider.get_tracer("x")
        self.open: list[Any] = []

    def answer(self, _: int) -> None:
        answer(self.tracer, "When?")

    def foreign(self, number: int) -> None:
        remote = SpanContext(number + 1, 9, is_remote=True, trace_flags=TraceFlags(1))
        answer(self.tracer, "When?", context=trace.set_span_in_context(NonRecordingSpan(remote)))

    def begin(self, _: int) -> None:
        self.open.append(self.tracer.start_span("root"))

    def child(self, number: int) -> None:
        if self.open:
            above = trace.set_span_in_context(self.open[number % len(self.open)])
            self.open.append(self.tracer.start_span("child", above))

    def end(self, number: int) -> None:
        if self.open:
            self.open.pop(number % len(self.open)).end()

    def flush(self, number: int) -> None:
        self.ours.force_flush(number * 4)

    def pause(self, number: int) -> None:
        time.sleep(number / 1000)


def says(how: str) -> Any:
    """What a judge does."""

    def say(_: Any) -> Any:
        if how == "raises":
            raise RuntimeError("no")
        if how == "slow":
            time.sleep(0.003)
        return SUPPORTED

    return say


@settings(max_examples=60)
@given(steps=_STEPS, judge=st.sampled_from(["well", "raises", "slow", "silent"]), room=st.sampled_from([3, 7, 1000]))
def test_every_span_is_passed_on_exactly_once(steps: list[tuple[str, int]], judge: str, room: int) -> None:
    """Whatever begins and ends in whatever order, however the judge behaves, wherever it is flushed and shut down."""
    inner, silent = Handed(), Silent()
    made: Any = silent if judge == "silent" else ScriptedJudge(says(judge))
    how = {"settle": 0.001, "deadline": 0.01, "lifetime": 0.05, "shutdown_seconds": 0.02}
    ours = exporter(inner, made, held_spans=room, most_spans=max(3, room // 2), **how)
    program = Wandering(ours)
    for step, number in steps:
        getattr(program, step)(number)
    program.provider.shutdown()
    silent.leave.set()
    for span in program.open:
        span.end()
    assert _ids(inner.spans) == _ids(program.counting.spans)
    assert BROKEN not in ours.counts


def _ids(spans: Sequence[ReadableSpan]) -> Counter[tuple[int, int]]:
    return Counter((span.context.trace_id, span.context.span_id) for span in spans if span.context is not None)


def test_every_span_once_from_many_threads() -> None:
    """Asked by eight threads at once, one by one, while somebody flushes; then all is shut down in the middle of it."""
    inner, judge = Handed(), ScriptedJudge(SUPPORTED, concurrency=4)
    ours = exporter(inner, judge, settle=0.002, deadline=0.5, held_spans=60, shutdown_seconds=20)
    provider = traced(ours)
    counting = Handed()
    provider.add_span_processor(SimpleSpanProcessor(counting))
    tracer = provider.get_tracer("x")

    def ask() -> None:
        for number in range(25):
            answer(tracer, f"When? {number}")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        ours.force_flush(20)
    provider.shutdown()
    assert len(counting.spans) == 600
    assert _ids(inner.spans) == _ids(counting.spans)
    assert BROKEN not in ours.counts
