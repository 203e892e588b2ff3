"""Scores into the program they were made in: events, evaluator spans and metrics, through what the program has set up.

An event is a log record in the context of the span that was judged. An evaluator span is OpenInference's: a trace of
its own, exactly one link. It leaves through the processors the judged span went through, whatever the program's
sampler says: what was judged was sampled already.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import metadata
from typing import TYPE_CHECKING, Literal, TypeAlias

from opentelemetry import context as contexts
from opentelemetry import metrics, trace
from opentelemetry._logs import LogRecord, SeverityNumber, get_logger_provider
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, SynchronousMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags

from groundtrace.adapters.otel.metrics import Instruments
from groundtrace.adapters.otel.sink import EVENT
from groundtrace.live import Counts, give_way, harmless
from groundtrace.model import JUDGE_MARK

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource

    from groundtrace.adapters.otel.metrics import Measures
    from groundtrace.adapters.otel.said import Said
    from groundtrace.adapters.otel.sink import Event

Kind: TypeAlias = Literal["events", "spans", "metrics"]

NAME = "groundtrace"
OURS = frozenset({NAME, JUDGE_MARK})
"""The scopes of spans that are ours, and never judged."""

_QUIET = (
    contexts._SUPPRESS_INSTRUMENTATION_KEY,  # noqa: SLF001 - where instrumentations look, and no public name is had
    contexts._SUPPRESS_HTTP_INSTRUMENTATION_KEY,  # noqa: SLF001 - same
    "suppress_instrumentation",
    "suppress_language_model_instrumentation",
)
"""What instrumentations look for in the context: OpenTelemetry's, OpenInference's, OpenLLMetry's."""

_BARE = "opentelemetry._logs"
"""The API's own providers, which send nothing: a program that has no other has no logs signal."""

_judging: ContextVar[bool] = ContextVar("groundtrace_judging", default=False)


@contextmanager
def quietly() -> Iterator[None]:
    """What is done inside leaves no spans, and those it leaves all the same are known as a judge's."""
    held = contexts.get_current()
    for key in _QUIET:
        held = contexts.set_value(key, True, held)  # noqa: FBT003 - the API's form
    token, mark = contexts.attach(held), _judging.set(True)
    try:
        yield
    finally:
        _judging.reset(mark)
        contexts.detach(token)


def is_judging() -> bool:
    """Whether what runs here is asked by a judge of ours."""
    return _judging.get()


class Telling:
    """Says what cards say, in as many ways as are wanted; a way that fails is counted and costs no other.

    Providers that are not given are the program's own, looked for when there is something to say.
    """

    def __init__(
        self,
        counts: Counts,
        kinds: Collection[Kind],
        *,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._counts, self._kinds = counts, frozenset(kinds)
        self._logger_provider, self._meter_provider = logger_provider, meter_provider
        self._version = metadata.version(NAME)
        self._instruments: _Instruments | None = None
        self._carriers: _Carriers | None = None

    @property
    def sends_spans(self) -> bool:
        """Whether evaluator spans are wanted."""
        return "spans" in self._kinds

    def tell(self, cards: Iterable[Said], pipeline: SynchronousMultiSpanProcessor | None, made: Resource) -> None:
        """Say what is said of each card; `pipeline` and `made` are the judged span's."""
        for card in cards:
            if "events" in self._kinds:
                for said in card.events:
                    self._event(said)
                    give_way()
            if self.sends_spans and pipeline is not None:
                self._span(card, pipeline, made)
                give_way()
            if "metrics" in self._kinds:
                self._measure(card.measures)
                give_way()

    @harmless
    def _event(self, said: Event) -> None:
        provider = self._logger_provider or get_logger_provider()
        if type(provider).__module__.startswith(_BARE):
            return
        record = LogRecord(
            timestamp=said.time,
            observed_timestamp=said.time,
            context=_target(said.trace_id, said.span_id),
            severity_number=SeverityNumber.WARN if said.is_warning else SeverityNumber.INFO,
            severity_text="WARN" if said.is_warning else "INFO",
            body=said.body,
            attributes=said.attributes,
            event_name=EVENT,
        )
        provider.get_logger(NAME, self._version).emit(record)
        self._counts.add("events")

    @harmless
    def _span(self, card: Said, pipeline: SynchronousMultiSpanProcessor, made: Resource) -> None:
        if self._carriers is None or not self._carriers.leads_to(pipeline, made):
            self._carriers = _Carriers(pipeline, made, self._version)
        if self._carriers.send(card):
            ways = exporting(pipeline)
            gone = bool(ways) and all(map(_is_closed, ways))
            self._counts.add("lost_spans" if gone else "spans")

    @harmless
    def _measure(self, measures: Measures) -> None:
        if self._instruments is None:
            provider = self._meter_provider or metrics.get_meter_provider()
            self._instruments = _Instruments(provider.get_meter(NAME, self._version), self._counts.told)
        self._instruments.take(measures)


def exporting(pipeline: SynchronousMultiSpanProcessor, before: SpanProcessor | None = None) -> Sequence[SpanProcessor]:
    """What of a pipeline is known to export, in its order; with `before` what stands before that, if it is there."""
    ways: Sequence[SpanProcessor] = getattr(pipeline, "_span_processors", ())
    if before is not None:
        ways = ways[: ways.index(before)] if before in ways else ()
    return [way for way in ways if hasattr(way, "span_exporter")]


def _is_closed(way: SpanProcessor) -> bool:
    """Whether what it is given now leaves no more: the SDK has no word for it, and its releases differ in who knows."""
    known = (way, getattr(way, "_batch_processor", None), getattr(way, "span_exporter", None))
    return any(getattr(one, name, False) is True for one in known for name in ("_shutdown", "_stopped"))


def _target(trace_id: str, span_id: str) -> contexts.Context:
    """The context of the span that was judged, as if it had come from elsewhere: it is over."""
    if not trace_id or not span_id:
        return contexts.Context()
    return trace.set_span_in_context(NonRecordingSpan(_context(trace_id, span_id)), contexts.Context())


def _context(trace_id: str, span_id: str) -> SpanContext:
    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=sampled)


class _Carriers(IdGenerator):
    """Evaluator spans with ids of their cards' own, sent the way the judged spans go."""

    def __init__(self, pipeline: SynchronousMultiSpanProcessor, made: Resource, version: str) -> None:
        self._pipeline, self._made = pipeline, made
        self._ids = (0, 0)
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=made,
            shutdown_on_exit=False,  # the pipeline is the program's
            active_span_processor=pipeline,
            id_generator=self,
            span_limits=SpanLimits(max_span_attributes=SpanLimits.UNSET, max_span_attribute_length=SpanLimits.UNSET),
        )
        self._tracer = self._provider.get_tracer(NAME, version)

    def leads_to(self, pipeline: object, made: object) -> bool:
        """Whether it goes this way."""
        return self._pipeline is pipeline and self._made is made

    def send(self, card: Said) -> bool:
        """A card's span, made and ended; False where there is no span to link to."""
        if not card.events or not card.events[0].span_id:
            return False
        own, span = card.ids
        self._ids = (int(own, 16), int(span, 16))
        target, when = card.events[0], card.events[0].time
        self._tracer.start_span(
            card.name,
            contexts.Context(),
            attributes=card.attributes,
            links=[Link(_context(target.trace_id, target.span_id))],
            start_time=when,
        ).end(when)
        return True

    def generate_trace_id(self) -> int:
        """The card's."""
        return self._ids[0]

    def generate_span_id(self) -> int:
        """That of the card's version."""
        return self._ids[1]


class _Instruments(Instruments):
    """What is counted and measured of cards, and what became of the traces."""

    def __init__(self, meter: metrics.Meter, told: Callable[[], Mapping[str, int]]) -> None:
        super().__init__(meter)
        self._told = told
        meter.create_observable_counter(
            "groundtrace.live", [self._observed], unit="{item}", description="What became of traces in this process"
        )

    def _observed(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(count, {"groundtrace.outcome": what}) for what, count in self._told().items()]
