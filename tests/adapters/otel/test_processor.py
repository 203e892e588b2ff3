"""Traces judged inside the program that makes them: the real SDK, judges that fail in every way, forks, shutdowns."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

import groundtrace
from faults import FAULTS
from groundtrace.adapters.otel.processor import Processor
from groundtrace.errors import PlanError
from groundtrace.live import BROKEN
from groundtrace.live.gathering import FULL, LATE, TOO_LARGE, UNFINISHED
from groundtrace.model import JUDGE_MARK, Case
from groundtrace.plan import Plan
from groundtrace.run import judging, run
from groundtrace.testing import ScriptedJudge
from hired import SUPPORTED
from hosts import ANSWER, MADE_UP, PASSAGES, Host, answer, collector, host
from standins.llm import StandIn, standing

SCORES = [
    "groundtrace.source_support",
    "groundtrace.source_support.citation_precision",
    "groundtrace.source_support.min",
]
QUICK: dict[str, Any] = {"settle": 0.01, "sample": 1}
LONG = 60_000
"""Milliseconds that a busy machine may take."""


@pytest.fixture
def program() -> Iterator[Host]:
    """A traced program."""
    with host() as made:
        yield made


def processor(program: Host, *args: Any, **more: Any) -> Processor:
    """A processor in a program."""
    made = groundtrace.otel.processor(*args, **{**QUICK, **program.providers(), **more})
    program.add(made)
    return made


def scripted(script: Any = SUPPORTED, **how: Any) -> ScriptedJudge:
    """A judge that says what it is told to."""
    return ScriptedJudge(script, **how)


# --- what is told -----------------------------------------------------------------------------------------------------


def test_a_trace_is_judged_and_told_in_three_ways(program: Host) -> None:
    """Events in the context of the answer's span, an evaluator span with one link to it, metrics."""
    ours = processor(program, "source_support")
    ident = answer(program.tracer, "When does it leave?")
    assert ours.force_flush(LONG)
    (generation,) = [span for span in program.made() if span.name == "generate"]
    assert generation.context is not None
    events = program.events()
    assert sorted(event["gen_ai.evaluation.name"] for event in events) == SCORES
    assert {(event["trace_id"], event["span_id"]) for event in events} == {(ident, generation.context.span_id)}
    assert {event["event_name"] for event in events} == {"gen_ai.evaluation.result"}
    assert {event["gen_ai.evaluation.score.value"] for event in events} == {5.0, 1.0}
    (carrier,) = program.own()
    assert carrier.context is not None
    assert carrier.context.trace_id != ident
    assert carrier.parent is None
    (link,) = carrier.links
    assert (link.context.trace_id, link.context.span_id) == (ident, generation.context.span_id)
    assert carrier.attributes is not None
    assert carrier.attributes["openinference.span.kind"] == "EVALUATOR"
    assert carrier.attributes["evaluations.0.evaluation.name"] == "groundtrace.source_support"
    assert carrier.resource.attributes["service.name"] == "ferry-desk"
    scores = program.measured()["groundtrace.evaluation.score"]
    support = scores["groundtrace.source_support, offline, 1-5"]
    assert (support.count, support.sum) == (1, 5.0)
    assert {1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 0, 0.5} <= set(support.explicit_bounds)
    assert ours.counts == {"judged": 1, "events": 3, "spans": 1}
    assert program.measured()["groundtrace.live"]["judged"].value == 1


def test_the_same_is_told_as_by_a_run_over_a_file(program: Host, tmp_path: Path) -> None:
    """The spans and logs of real OTLP exporters: what a run makes of those spans is what was told in the program."""
    with collector() as taken:
        program.tracers.add_span_processor(groundtrace.otel.processor(**QUICK, **program.providers()))
        program.tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{taken.url}/v1/traces")))
        program.loggers.add_log_record_processor(
            SimpleLogRecordProcessor(OTLPLogExporter(endpoint=f"{taken.url}/v1/logs"))
        )
        for said in (ANSWER, MADE_UP):
            answer(program.tracer, "When does it leave?", said)
        program.tracers.force_flush(LONG)
        program.tracers.shutdown()
    (tmp_path / "spans.pb").write_bytes(b"".join(taken.taken["/v1/traces"]))
    (tmp_path / "told.pb").write_bytes(b"".join(taken.taken["/v1/logs"]))
    report = run(Plan(sources=f"{tmp_path}/spans.pb", sinks=f"otel:{tmp_path}/out", store="none", audit_rate=0.0))
    assert (report.traces, report.passed) == (2, {"left by our own judges": 6})
    wanted = _told(tmp_path / "out" / "scores.groundtrace.logs.jsonl")
    from groundtrace.adapters.otel.wire import Decoder

    decoded = Decoder().decode((tmp_path / "told.pb").read_bytes())
    assert decoded is not None
    found = {(log.trace_id, log.span_id, str(log.attributes["gen_ai.evaluation.name"])): log for log in decoded.logs}
    assert found.keys() == wanted.keys()
    for key, log in found.items():
        assert {k: v for k, v in log.attributes.items() if k not in VOLATILE} == wanted[key]
        assert log.name == "gen_ai.evaluation.result"


VOLATILE = {"groundtrace.batch.id"}


def _told(file: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    from groundtrace.adapters.otel.wire import Decoder

    found = {}
    for line in file.read_bytes().splitlines():
        decoded = Decoder().decode(line)
        for log in decoded.logs if decoded else ():
            kept = {k: v for k, v in log.attributes.items() if k not in VOLATILE}
            found[log.trace_id, log.span_id or "", str(log.attributes["gen_ai.evaluation.name"])] = kept
    return found


def test_what_cannot_be_scored_says_why(program: Host) -> None:
    """An event without a number, at WARN; a counter, and no score in the histogram."""
    ours = processor(program, "source_support", scripted("no verdict"))
    answer(program.tracer, "When?")
    assert ours.force_flush(LONG)
    (event,) = program.events()
    assert (event["error.type"], event["severity"]) == ("invalid_verdict", "WARN")
    assert (ours.counts["judged"], ours.counts["unscored"]) == (1, 1)
    assert "gen_ai.evaluation.score.value" not in event
    measured = program.measured()
    assert "groundtrace.evaluation.score" not in measured
    assert measured["groundtrace.evaluation.unscored"]["llm, invalid_verdict, source_support"].value == 1
    assert [point.value for point in measured["groundtrace.judge.errors"].values()] == [2]
    assert sum(point.value for point in measured["groundtrace.evaluation.review"].values()) >= 1


def test_contents_that_are_not_captured_are_told_once_with_what_to_mend(
    program: Host, caplog: pytest.LogCaptureFixture
) -> None:
    """Its traces count as judged, and none of their cards has a score."""
    ours = processor(program, ["source_support", "rag_faithfulness"])
    for _ in range(2):
        answer(program.tracer, "When?", passages=("", ""))
    assert ours.force_flush(LONG)
    assert (ours.counts["judged"], ours.counts["unscored"]) == (2, 4)
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("groundtrace")]
    assert line.startswith("a trace has no score: source_support: context could not be read: content_off; ")
    assert "record them as retrieval.documents.N.document.content" in line


@pytest.mark.parametrize(
    ("told", "kept"), [(["events"], (3, 0, False)), (["spans"], (0, 1, False)), ([], (0, 0, False))]
)
def test_only_what_is_wanted_is_told(program: Host, told: list[Any], kept: tuple[int, int, bool]) -> None:
    """Each way by itself."""
    ours = processor(program, "source_support", scripted(), tell=told)
    answer(program.tracer, "When?")
    assert ours.force_flush(LONG)
    found = len(program.events()), len(program.own()), "groundtrace.evaluation.score" in program.measured()
    assert found == kept


def test_headline_scores_alone(program: Host) -> None:
    """One event a card."""
    ours = processor(program, "source_support", scripted(), scores="headline")
    answer(program.tracer, "When?")
    assert ours.force_flush(LONG)
    assert [event["gen_ai.evaluation.name"] for event in program.events()] == ["groundtrace.source_support"]


def test_what_was_judged_is_told_whatever_the_sampler_says() -> None:
    """An evaluator span is a root of its own, which a program's sampler would leave out."""
    with host() as program:
        kept = InMemorySpanExporter()
        tracers = TracerProvider(sampler=ParentBased(OnlyAnswers()), shutdown_on_exit=False)
        ours = groundtrace.otel.processor("source_support", scripted(), **QUICK, **program.providers())
        tracers.add_span_processor(ours)
        tracers.add_span_processor(SimpleSpanProcessor(kept))
        answer(tracers.get_tracer("x"), "When?")
        answer(tracers.get_tracer("x"), "Dropped", context=_dropped())
        assert ours.force_flush(LONG)
        names = sorted(span.name for span in kept.get_finished_spans())
        tracers.shutdown()
    assert names == ["answer", "generate", "groundtrace.source_support", "retrieve"]
    assert ours.counts["judged"] == 1


class OnlyAnswers(Sampler):
    """Samples the program's own questions and nothing else."""

    def should_sample(self, parent_context: Any, trace_id: int, name: str, *args: Any, **more: Any) -> SamplingResult:
        return TraceIdRatioBased(1.0 if name == "answer" else 0.0).should_sample(parent_context, trace_id, name)

    def get_description(self) -> str:
        return "only answers"


def _dropped() -> contexts.Context:
    return trace.set_span_in_context(NonRecordingSpan(SpanContext(5, 6, is_remote=True, trace_flags=TraceFlags(0))))


# --- which traces -----------------------------------------------------------------------------------------------------


def test_a_share_is_picked_by_id(program: Host, caplog: pytest.LogCaptureFixture) -> None:
    """The same traces that any run would pick at that share; those left out are counted, the first is said."""
    from groundtrace.sampling import sample

    caplog.set_level(logging.INFO, "groundtrace")
    judge = scripted()
    ours = processor(program, "source_support", judge, sample=0.3)
    idents = [answer(program.tracer, f"When? {n}") for n in range(40)]
    assert ours.force_flush(LONG)
    choose = sample(0.3)
    from groundtrace.model import Ref

    wanted = {ident for ident in idents if choose(Ref("otel", trace_id=f"{ident:032x}"), ())}
    assert 0 < len(wanted) < 40
    assert {event["trace_id"] for event in program.events()} == wanted
    assert LATE not in ours.counts
    assert (ours.counts["judged"], ours.counts["not_in_sample"]) == (len(wanted), 40 - len(wanted))
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("groundtrace")]
    assert "sample=1 judges all" in line


def test_a_call_from_elsewhere_is_judged_by_itself(program: Host) -> None:
    """A service that is called twice under one trace id has two records."""
    ours = processor(program, "source_support", scripted())
    for number in (1, 2):
        remote = SpanContext(77, number, is_remote=True, trace_flags=TraceFlags(1))
        answer(program.tracer, f"When? {number}", context=trace.set_span_in_context(NonRecordingSpan(remote)))
        assert ours.force_flush(LONG)
    assert {event["trace_id"] for event in program.events()} == {77}
    assert len({event["span_id"] for event in program.events()}) == 2


def test_what_ends_after_the_root_is_waited_for(program: Host) -> None:
    """A stream that goes on: its trace is not over before it is."""
    ours = processor(program, "source_support", scripted())
    root = program.tracer.start_span("answer", attributes={"openinference.span.kind": "CHAIN", "input.value": "When?"})
    inside = trace.set_span_in_context(root)
    documents = {f"retrieval.documents.{n}.document.content": text for n, text in enumerate(PASSAGES)}
    kind = {"openinference.span.kind": "RETRIEVER"}
    program.tracer.start_span("retrieve", inside, attributes={**kind, **documents}).end()
    child = program.tracer.start_span("generate", inside, attributes={"openinference.span.kind": "LLM"})
    root.end()
    time.sleep(0.05)
    assert ours.force_flush(200)
    assert ours.counts == {}
    child.set_attribute("llm.output_messages.0.message.role", "assistant")
    child.set_attribute("llm.output_messages.0.message.content", ANSWER)
    child.end()
    assert ours.force_flush(LONG)
    assert ours.counts["judged"] == 1
    assert program.events()[0]["gen_ai.evaluation.score.value"] == 5.0
    program.tracer.start_span("too late", inside).end()
    assert ours.counts[LATE] == 1


def test_a_trace_without_a_question_costs_nothing(program: Host) -> None:
    """Counted, and no judge is asked."""
    judge = scripted()
    ours = processor(program, "source_support", judge)
    with program.tracer.start_as_current_span("GET /health", attributes={"http.request.method": "GET"}):
        pass
    assert ours.force_flush(LONG)
    assert (ours.counts, judge.heard) == ({"nothing_to_judge": 1}, [])


def test_bounds_drop_whole_traces_and_count_them(program: Host) -> None:
    """Too large, no room, never over."""
    ours = processor(program, "source_support", scripted(), most_spans=5, held_spans=6, settle=60, lifetime=120)
    tracer = program.tracer
    with tracer.start_as_current_span("large"):
        for _ in range(9):
            tracer.start_span("step").end()
    answer(tracer, "one")
    answer(tracer, "two")
    answer(tracer, "no room")
    tracer.start_span("never over")
    ours.shutdown()
    assert {name: n for name, n in ours.counts.items() if name in {TOO_LARGE, FULL, UNFINISHED, "judged"}} == {
        TOO_LARGE: 1,
        FULL: 2,
        "judged": 2,
    }


# --- judges that fail -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stand() -> Iterator[StandIn]:
    """A provider of ours."""
    with standing() as made:
        yield made


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_no_fault_of_a_judge_reaches_the_program(
    program: Host,
    stand: StandIn,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: dict[str, Any],
) -> None:
    """Nothing is raised, no score is made up, every trace is accounted for, it is said once, and nobody waits."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    stand.script({"when": {"prompt": "breakfast"}, "do": fault})
    judge = f"openai:gpt-4o,base_url={stand.v1},timeout=1,deadline=2"
    ours = processor(program, "rag_faithfulness", judge)
    idents = [answer(program.tracer, f"When? {n}", MADE_UP if n == 1 else ANSWER) for n in range(3)]
    slowest = 0.0
    for number in range(50):
        span = program.tracer.start_span(f"meanwhile {number}")
        before = time.thread_time()
        span.end()
        slowest = max(slowest, time.thread_time() - before)
    assert slowest < 0.05  # its own CPU: it waits for no judge, whatever else the machine does
    assert ours.force_flush(LONG)
    counts = ours.counts
    assert counts.get("judged", 0) + counts.get("failed", 0) == 3, counts
    assert counts["nothing_to_judge"] == 50
    assert BROKEN not in counts
    assert sum("was not judged" in record.message for record in caplog.records) == (counts.get("failed", 0) > 0)
    scored = {e["trace_id"] for e in program.events() if "gen_ai.evaluation.score.value" in e}
    assert idents[1] not in scored
    if counts.get("judged") == 3:
        assert scored == {idents[0], idents[2]}
    program.tracers.shutdown()


def test_a_judge_whose_calls_leave_spans_is_asked_in_the_program(
    program: Host, stand: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For there the spans go, as those of the program do; and they are not judged."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", program.tracers)  # as set_tracer_provider does, once
    stand.script()
    ours = processor(program, "rag_faithfulness", f"openai:gpt-4o,base_url={stand.v1},trace_judge=true")
    answer(program.tracer, "When?")
    assert ours.force_flush(LONG)
    assert "chat gpt-4o" in {span.name for span in program.spans.get_finished_spans()}
    assert dict(ours.counts)["judged"] == 1


class Hanging:
    """A judge that never says anything."""

    id, kind, limits = "hanging", "llm", ""

    def __init__(self) -> None:
        self.asked, self.leave = threading.Event(), threading.Event()

    def unassessed(self, rubric: str) -> frozenset[str]:
        return frozenset()

    def hear(self, cases: Any, again: Any) -> Iterator[Any]:
        next(iter(cases))
        self.asked.set()
        self.leave.wait(120)
        return iter(())


def test_a_judge_that_hangs_costs_the_program_its_deadline_and_no_more(program: Host) -> None:
    """What waits behind it is dropped and counted."""
    judge = Hanging()
    ours = processor(program, "source_support", judge, shutdown_seconds=0.3, held_spans=9)
    answer(program.tracer, "When?")
    assert judge.asked.wait(20)
    for _ in range(5):
        answer(program.tracer, "When?")
    assert not ours.force_flush(100)
    began = time.monotonic()
    program.tracers.shutdown()
    assert time.monotonic() - began < 20
    assert ours.counts == {FULL: 3, "shutdown": 3}
    judge.leave.set()
    ours.shutdown()
    answer(program.tracer, "after")
    assert ours.counts == {FULL: 3, "shutdown": 3}


class Waiting(Hanging):
    """One that knows why."""

    def trouble(self) -> str:
        return "no connection to 127.0.0.1:9"


def test_what_a_judge_waits_for_is_said_while_it_waits(
    program: Host, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, however long it takes: its traces are not given up for minutes."""
    monkeypatch.setattr(judging, "_LOOK", 0.01)
    monkeypatch.setattr(judging, "_LONG", 0.02)
    judge = Waiting()
    processor(program, "source_support", judge, shutdown_seconds=0.1)
    answer(program.tracer, "When?")
    assert judge.asked.wait(20)
    while not caplog.records:
        time.sleep(0.01)
    program.tracers.shutdown()
    judge.leave.set()
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("groundtrace")]
    assert line == "the judge gives no answer, and is asked again: no connection to 127.0.0.1:9"


def test_a_judge_that_raises_is_no_trouble_of_the_programs(program: Host, caplog: pytest.LogCaptureFixture) -> None:
    """Each of its cards says so."""

    def raises(_: Case) -> str:
        raise RuntimeError("out of order")

    ours = processor(program, "source_support", scripted(raises))
    for _ in range(3):
        answer(program.tracer, "When?")
    assert ours.force_flush(LONG)
    assert {event["error.type"] for event in program.events()} == {"judge_failed"}
    assert ours.counts["judged"] == 3


def test_a_judge_of_no_use_is_told_once_and_left_alone(
    program: Host, stand: StandIn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A key that is refused: one line that says what to mend, and a pause that grows."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    caplog.set_level(logging.WARNING)
    stand.script({"do": {"status": 401, "message": "no"}})
    ours = processor(program, "rag_faithfulness", f"openai:gpt-4o,base_url={stand.v1}")
    for _ in range(3):
        answer(program.tracer, "When?")
        assert ours.force_flush(LONG)
    assert ours.counts == {"failed": 3}
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("groundtrace")]
    assert "OPENAI_API_KEY" in line
    assert "sk-of-the-tests" not in line
    assert ours._refused == 3


# --- its own spans ----------------------------------------------------------------------------------------------------


def test_what_a_judge_leaves_is_never_judged(program: Host) -> None:
    """A client that is instrumented, or a span with our mark: no trace of it is looked at, so there is no end to it."""
    keys: list[Any] = []

    def traced(_: Case) -> dict[str, Any]:
        keys.append(contexts.get_value(contexts._SUPPRESS_INSTRUMENTATION_KEY))
        keys.append(contexts.get_value("suppress_instrumentation"))
        answer(program.tracer, "What does the judge think?")
        program.tracers.get_tracer(JUDGE_MARK).start_span("chat", contexts.Context()).end()
        return SUPPORTED

    judge = scripted(traced, concurrency=2)
    ours = processor(program, "source_support", judge)
    answer(program.tracer, "When?")
    for _ in range(3):
        assert ours.force_flush(LONG)
    assert ours.counts["judged"] == 1
    assert len(judge.heard) == len(keys) / 2
    assert set(keys) == {True}
    assert len(program.own()) == 1


def test_a_judges_own_loop_knows_that_it_is_asked_quietly(stand: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked over HTTP runs in a loop of its own thread, in the context of who hears."""
    from groundtrace.adapters.otel.telling import is_judging, quietly
    from groundtrace.judges.llm.loop import hear

    found: list[bool] = []

    class Session:
        async def __aenter__(self) -> Any:
            async def ask(case: Any) -> Any:
                await asyncio.sleep(0)
                found.append(is_judging())
                return case

            return ask

        async def __aexit__(self, *_: object) -> None:
            """Nothing to close."""

    with quietly():
        assert len(list(hear([1, 2], lambda _, __: None, Session, 2))) == 2  # type: ignore[arg-type,list-item]
    assert found == [True, True]
    assert not is_judging()


# --- forks and ends ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_judges_its_own_and_the_parent_its_own(program: Host) -> None:
    """Whatever was on its way when it was forked; the judge's process is made anew in the child."""
    ours = processor(program, "source_support")
    answer(program.tracer, "before")
    assert ours.force_flush(LONG)
    open_span = program.tracer.start_span("answer", attributes={"openinference.span.kind": "CHAIN"})
    answer(program.tracer, "held while it forks")
    first, second = os.pipe()
    child = os.fork()
    if not child:
        try:
            program.spans.clear()
            open_span.end()  # the parent's trace: not the child's to judge
            answer(program.tracer, "in the child")
            well = ours.force_flush(LONG)
            told = json.dumps([well, dict(ours.counts), len(program.own())])
            ours.shutdown()
            os.write(second, told.encode())
        finally:
            os._exit(0)
    os.close(second)
    os.waitpid(child, 0)
    assert json.loads(os.read(first, 9999)) == [True, {"judged": 1, "events": 3, "spans": 1}, 1]
    os.close(first)
    open_span.end()
    assert ours.force_flush(LONG)
    assert ours.counts == {"judged": 2, "events": 6, "spans": 2, "nothing_to_judge": 1}


def test_shutdown_judges_what_is_over_within_its_deadline(program: Host) -> None:
    """Without waiting for late ones; what is not over is counted."""
    ours = processor(program, "source_support", scripted(), settle=600, lifetime=1200)
    for _ in range(3):
        answer(program.tracer, "When?")
    root = program.tracer.start_span("answer")
    program.tracer.start_span("child", trace.set_span_in_context(root)).end()
    program.tracers.shutdown()
    assert ours.counts == {"judged": 3, "events": 9, "spans": 3, UNFINISHED: 1}
    assert len(program.own()) == 3
    root.end()


@pytest.mark.parametrize("way", [SimpleSpanProcessor, BatchSpanProcessor])
def test_what_is_told_after_the_exporters_are_shut_down_is_lost_and_said(
    way: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A processor that was added last; where the program flushes before it ends, all arrives."""
    for flushes, told in ((False, "lost_spans"), (True, "spans")):
        caplog.clear()
        kept, tracers = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(way(kept))
        ours = groundtrace.otel.processor("source_support", scripted(), **QUICK)
        tracers.add_span_processor(ours)
        answer(tracers.get_tracer("x"), "When?")
        if flushes:
            tracers.force_flush(LONG)
        tracers.shutdown()
        arrived = sum(span.name == "groundtrace.source_support" for span in kept.get_finished_spans())
        assert (ours.counts, arrived) == ({"judged": 1, told: 1}, flushes)
        (line,) = [r.getMessage() for r in caplog.records if r.name.startswith("groundtrace")]
        assert f"was added after {way.__name__}" in line


def test_the_offline_judge_runs_in_a_process_that_ends_with_the_program(program: Host) -> None:
    """And is not started before the first trace begins."""
    ours = processor(program)
    assert ours._judging.pid is None  # type: ignore[attr-defined]
    answer(program.tracer, "When?")
    assert ours.force_flush(LONG)
    pid = ours._judging.pid  # type: ignore[attr-defined]
    assert pid not in (None, os.getpid())
    program.tracers.shutdown()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_that_ends_at_once_loses_nothing(tmp_path: Path) -> None:
    """A script whose last line is its question: providers shut down by themselves when the interpreter ends."""
    import subprocess
    import sys

    script = """
import sys
sys.path.insert(0, sys.argv[1])
import groundtrace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from hosts import answer
provider = TracerProvider()
provider.add_span_processor(groundtrace.otel.processor("source_support", sample=1))
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
answer(provider.get_tracer("x"), "When?")
"""
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, tests], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split()) == ["answer", "generate", "groundtrace.source_support", "retrieve"]


# --- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"sample": 2}, "is no share"),
        ({"sample": True}, "is no share"),
        ({"settle": 0}, "must be more than 0"),
        ({"held_mb": float("nan")}, "must be more than 0"),
        ({"tell": ["event"]}, "did you mean 'events'"),
        ({"tell": "events"}, r"'events' is no list; write tell=\['events'\]"),
        ({"sample": "1"}, "sample: '1' is text and no number"),
        ({"samples": 1}, r"otel.processor: 'samples' is no argument of it; did you mean 'sample'"),
        ({"rubric": "source_support"}, "did you mean 'rubrics'"),
        ({"drop": "all"}, "is no way to drop"),
        ({"judge": "ofline"}, "did you mean 'offline'"),
        ({"rubrics": "source_suport"}, "did you mean 'source_support'"),
        ({"rubrics": ["source_support", 7]}, "is no rubric"),
        ({"scores": "some"}, "scores"),
        ({"conventions": "openinferenc"}, "did you mean 'openinference'"),
        ({"passages": "no_such:thing"}, "does not import"),
    ],
    ids=str,
)
def test_what_cannot_be_had_is_said_at_once(wrong: dict[str, Any], told: str) -> None:
    """In words, before anything is traced."""
    with pytest.raises(PlanError, match=told):
        groundtrace.otel.processor(**wrong)


@pytest.mark.parametrize("judge", ["openai:gpt-4o", "anthropic:claude-sonnet-4-6,votes=3", "google:gemini-2.5-pro"])
def test_a_key_that_is_missing_is_said_at_once(judge: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not with the first trace, by a warning; a server of one's own may want none."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(PlanError, match=r"needs a key; set (OPENAI|ANTHROPIC|GOOGLE)_API_KEY"):
        groundtrace.otel.processor("source_support", judge)
    groundtrace.otel.processor("source_support", f"{judge},base_url=http://127.0.0.1:9/v1").shutdown()


def test_a_mapping_of_the_users_own_goes_along(program: Host) -> None:
    """Into the judge's process as well."""
    mapping = {"mine": {"query": "ask", "context": "found", "answer": "said"}}
    ours = processor(program, "source_support", conventions=mapping)
    given = {"ask": "When?", "found": json.dumps(list(PASSAGES)), "said": ANSWER}
    with program.tracer.start_as_current_span("mine", attributes=given):
        pass
    assert ours.force_flush(LONG)
    assert ours.counts.get("judged") == 1, ours.counts
    assert program.events()[0]["gen_ai.evaluation.score.value"] == 5.0


def test_traces_of_many_threads_are_all_accounted_for(program: Host) -> None:
    """Each is judged or dropped and counted, once."""
    ours = processor(program, "source_support", scripted(concurrency=4), settle=0.005, held_spans=200)

    def ask() -> None:
        for number in range(25):
            answer(program.tracer, f"When? {number}")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ours.force_flush(LONG)
    program.tracers.shutdown()
    counts = dict(ours.counts)
    assert counts["judged"] + counts.get(FULL, 0) == 200, counts
    assert counts["spans"] == counts["judged"] == len(program.own())
    assert set(counts) <= {"judged", FULL, "events", "spans"}
