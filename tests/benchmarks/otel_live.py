"""What judging in process costs the program: `python tests/benchmarks/otel_live.py [TRACES]`.

A program that answers questions, traced with OpenTelemetry's SDK, in turns with a processor that does nothing, with
another that does nothing, and with ours: their blocks follow each other, so that what else the machine does falls on
all, and the first two say how much that is. CPU is that of the whole process, our thread's with it; the offline judge
has a process of its own, which is not counted. Wall time is that of the calls that end a span, and of whole questions,
which wait for an answer as for a model; beside it what a question costs its own thread. At the default share it fails
where CPU or a question's time is more than may be.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from opentelemetry import metrics
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import Tracer

import groundtrace
from hosts import ANSWER, PASSAGES

BLOCKS = 40
STEPS = 7
"""Spans of plumbing a trace has beside its three of the question."""

ANSWERING = 0.01
"""Seconds a question's answer takes: a program that does nothing but trace is none."""

LIMIT, SLOWER = 50.0, 1.10
"""Microseconds of CPU a span, at most, and how much longer a question may take of a hundred: at the default share."""


class Nowhere(LogRecordExporter):
    """Takes log records and does nothing with them."""

    def export(self, batch: object) -> LogRecordExportResult:
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is held."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


class Program:
    """Traces questions and takes the time of every end of a span."""

    def __init__(self, processor: SpanProcessor) -> None:
        made = Resource({"service.name": "ferry-desk"})
        self.tracers = TracerProvider(resource=made, shutdown_on_exit=False, meter_provider=metrics.NoOpMeterProvider())
        self.tracers.add_span_processor(processor)
        self.tracer: Tracer = self.tracers.get_tracer("ferry-desk")
        self.ends: list[int] = []
        self.questions: list[int] = []
        self.own: list[int] = []
        self.cpu = 0.0

    def block(self, traces: int) -> None:
        """Answer some questions."""
        began = time.process_time()
        for at in range(traces):
            before, spent = time.perf_counter_ns(), time.thread_time_ns()
            self.answer(f"When does the night ferry number {at} leave?")
            self.own.append(time.thread_time_ns() - spent)
            self.questions.append(time.perf_counter_ns() - before)
        self.cpu += time.process_time() - began

    def forget(self) -> None:
        """Begin to measure."""
        self.cpu = 0.0
        for times in (self.ends, self.questions, self.own):
            times.clear()

    def answer(self, question: str) -> None:
        """One question: a root, its plumbing, a retrieval, a generation."""
        kind, tracer, clock, ends = "openinference.span.kind", self.tracer, time.perf_counter_ns, self.ends
        with tracer.start_as_current_span("answer", attributes={kind: "CHAIN"}, end_on_exit=False) as chain:
            chain.set_attribute("input.value", question)
            for at in range(STEPS):
                step = tracer.start_span(f"step {at}", attributes={"db.system": "postgresql", "db.rows": at})
                before = clock()
                step.end()
                ends.append(clock() - before)
            retrieval = tracer.start_span("retrieve", attributes={kind: "RETRIEVER", "input.value": question})
            for rank, text in enumerate(PASSAGES):
                retrieval.set_attribute(f"retrieval.documents.{rank}.document.id", f"d{rank}")
                retrieval.set_attribute(f"retrieval.documents.{rank}.document.content", text)
            before = clock()
            retrieval.end()
            ends.append(clock() - before)
            generation = tracer.start_span("generate", attributes={kind: "LLM", "llm.model_name": "a-model"})
            time.sleep(ANSWERING)
            generation.set_attribute("llm.output_messages.0.message.role", "assistant")
            generation.set_attribute("llm.output_messages.0.message.content", ANSWER)
            before = clock()
            generation.end()
            ends.append(clock() - before)
            chain.set_attribute("output.value", ANSWER)
        before = clock()
        chain.end()
        ends.append(clock() - before)


def main(traces: int) -> None:
    """Measure at each share."""
    loggers = LoggerProvider(shutdown_on_exit=False)
    loggers.add_log_record_processor(SimpleLogRecordProcessor(Nowhere()))
    meters = MeterProvider(metric_readers=[InMemoryMetricReader()], shutdown_on_exit=False)
    told = {"logger_provider": loggers, "meter_provider": meters}
    print(f"{traces} traces of {STEPS + 3} spans; CPU in microseconds a span, the rest in microseconds")
    missed: list[str] = []
    for share in (0.1, 1.0):
        ours = groundtrace.otel.processor(sample=share, settle=0.1, **told)
        idle, again, live = Program(SpanProcessor()), Program(SpanProcessor()), Program(ours)
        programs = (idle, again, live)
        for program in programs:
            program.block(100)  # what is loaded once is no cost of a span
        ours.force_flush()
        for program in programs:
            program.forget()
        for _ in range(BLOCKS):
            for program in programs:
                program.block(traces // BLOCKS)
            began = time.process_time()
            ours.force_flush()
            live.cpu += time.process_time() - began
        cost = (live.cpu - idle.cpu) * 1e6 / len(live.ends)
        verdict = "" if share == 1 else f" (at most {LIMIT:g})"
        print(f"sample={share:g}: CPU {cost:.1f}{verdict}; {dict(ours.counts)}")
        slower = compared(programs)
        if share < 1:
            missed += [f"a span costs {cost:.1f} microseconds"] * (cost > LIMIT) + slower
        for program in programs:
            program.tracers.shutdown()
    loggers.shutdown()
    meters.shutdown()
    if missed:
        sys.exit("; ".join(missed))


def compared(programs: tuple[Program, Program, Program]) -> list[str]:
    """Print how long everything took; what of it took longer than may be."""
    missed = []
    for what, times in (("end of a span", "ends"), ("question", "questions"), ("its own CPU", "own")):
        for q in (0.5, 0.99):
            without, twin, held = (at(getattr(program, times), q) for program in programs)
            shown = f"{without:.1f} and {twin:.1f} without, {held:.1f} with, {held / min(without, twin) - 1:+.1%}"
            print(f"  {what}, p{round(q * 100)}: {shown}")
            if times == "questions" and held > SLOWER * max(without, twin):
                missed.append(f"a question, p{round(q * 100)}: {shown}")
    return missed


def at(times: list[int], share: float) -> float:
    """A quantile, in microseconds."""
    return sorted(times)[min(int(len(times) * share), len(times) - 1)] / 1000


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
