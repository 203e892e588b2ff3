"""A span exporter around another one: spans wait until their trace is judged, and leave with the scores on them.

Each span is passed on exactly once, with scores or without: where there is no room, where the judge takes longer than
`deadline`, where a trace's root does not come, they go on as they are. A span that ended can't be changed: the one that
was judged leaves as a copy with attributes more.

A trace is over once a span has come that has no parent here and nothing more came for `settle` seconds. Source:
`opentelemetry.sdk.trace.export` of 1.37 to 1.45, whose processors call an exporter by one thread at a time.
"""

from __future__ import annotations

import copy
import logging
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from groundtrace.adapters.otel import readable
from groundtrace.adapters.otel.telling import OURS, quietly
from groundtrace.live import Beat, Counts, born_again, give_way, harmless
from groundtrace.live.gathering import LATE, UNFINISHED, Bounds, Gathering, Group

if TYPE_CHECKING:
    from groundtrace.adapters.otel.said import Additions
    from groundtrace.live import Judging

_BATCH = 16
"""Traces that are judged together, at most: each has a deadline of its own."""

_TOGETHER = 512
"""Spans that are passed on together, at most: as many as the SDK sends by itself."""

_GONE = 2_000
"""Traces that are remembered after they left, so that nothing waits for them again."""

_NUMBERED = re.compile(r"evaluations\.(\d+)\.")
_LOG = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Waiting:
    """A trace that is over, and when it leaves as it is."""

    group: Group[ReadableSpan]
    due: float


class Exporter(SpanExporter):
    """Holds traces until they are judged, `deadline` seconds at most, and passes them on to `inner`.

    `choose` picks the traces that wait by their id; all others pass at once. `seconds` is what `shutdown` gives the
    judge at most. `counts` says what became of each.
    """

    def __init__(
        self,
        inner: SpanExporter,
        judging: Judging[Additions],
        *,
        bounds: Bounds,
        choose: Callable[[str], bool] | None,
        deadline: float,
        seconds: float,
    ) -> None:
        self._inner, self._judging = inner, judging
        self._choose, self._deadline, self._seconds = choose, deadline, seconds
        self._counts = Counts()
        self._gathering: Gathering[ReadableSpan] = Gathering(bounds, self._counts)
        self._leaving = Beat("groundtrace-export", self._leave, self._counts)
        self._asking = Beat("groundtrace", self._ask, self._counts)
        self._over = self._refused = self._bare = False
        self._begin()
        born_again(self._begin)

    def _begin(self) -> None:
        """With nothing held; what a forked process's parent holds, its parent passes on."""
        self._lock = threading.RLock()
        self._one_at_a_time = threading.RLock()
        self._ready_soon = False
        """Whether the judge was told that there will be something to judge."""
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._parting: list[Group[ReadableSpan]] = []
        """Groups whose spans are being passed on, by who has the turn."""
        self._asked: OrderedDict[int, Group[ReadableSpan]] = OrderedDict()
        """Those of which the judge is still to be asked."""
        self._ready: deque[tuple[Group[ReadableSpan], Additions]] = deque()
        self._left: OrderedDict[int, set[int]] = OrderedDict()
        """The spans of the traces that left, by their ids."""
        self._torn: OrderedDict[int, None] = OrderedDict()
        """Traces of which some spans left before their root had come."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of traces and spans so far."""
        return self._counts.told()

    # --- what the SDK calls -------------------------------------------------------------------------------------------

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Take these; those that wait for nothing are passed on at once, and what became of them is told."""
        passed: list[ReadableSpan] = []
        for span in spans:
            freed = self._taken(span)
            passed += (span,) if freed is None else freed
        if not self._gathering.is_empty:
            self._leaving.wake()
            if not self._ready_soon:
                self._ready_soon = True
                self._asking.wake()
        return self._pass_on(passed)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Pass all on, with the scores that come in time."""
        end = time.monotonic() + timeout_millis / 1000
        well = self._emptied(timeout_millis / 1000)
        left = max(0, int((end - time.monotonic()) * 1000))
        return bool(self._inner.force_flush(left)) and well is True

    def shutdown(self) -> None:
        """Pass all on, with the scores that come in time, and shut down the exporter inside."""
        if self._over:
            return
        self._over = True
        self._emptied(self._seconds)
        self._leaving.close()
        self._asking.close()
        self._judging.close()
        turn = self._one_at_a_time.acquire(timeout=self._seconds)  # what is being passed on goes before
        try:
            self._inner.shutdown()
        finally:
            if turn:
                self._one_at_a_time.release()

    @harmless
    def _taken(self, span: ReadableSpan) -> Sequence[ReadableSpan] | None:
        """What of a trace does not wait, this span or more of it; None or an empty one where all of it does."""
        context, scope = span.context, span.instrumentation_scope
        if self._over or context is None or (scope is not None and scope.name in OURS):
            return (span,)
        key = context.trace_id
        last = span.parent is None or span.parent.is_remote
        if self._is_late(span, key, last=last):
            self._counts.add(LATE)
            return (span,)
        if not self._gathering.holds(key) and not self._chosen(key):
            if last:
                self._counts.passed_over()
            return (span,)
        return self._gathering.put(key, span, readable.weight(span), last=last)

    def _is_late(self, span: ReadableSpan, key: int, *, last: bool) -> bool:
        """Whether what it belongs to left already, or is about to: it is passed on then, and does not wait in vain.

        Another call under the same id is known by this, that its spans stand below none of those that left. One of
        which some spans passed by is torn, and its root passes as well: without them it is not what it was.
        """
        with self._lock:
            if key in self._waiting or key in self._torn:
                if last:
                    self._torn.pop(key, None)
                else:
                    _remember(self._torn, key, None)
                return True
            gone = self._left.get(key)
            if last or gone is None or span.parent is None or span.parent.span_id not in gone:
                return False
            if span.context is not None:
                gone.add(span.context.span_id)
            return True

    def _chosen(self, key: int) -> bool:
        return self._choose is None or self._choose(f"{key:032x}")

    # --- where it was added as a processor ----------------------------------------------------------------------------

    def on_start(self, span: ReadableSpan, parent_context: object = None) -> None:  # noqa: ARG002 - the SDK's form
        """A span began, and it was told here: there should be a processor around this."""
        if not self._bare:
            self._bare = True
            _LOG.warning(
                "groundtrace's exporter was added as a processor, and sends each span by itself while the program "
                "waits: write add_span_processor(BatchSpanProcessor(groundtrace.otel.exporter(...)))"
            )

    def _on_ending(self, span: ReadableSpan) -> None:
        """A span is about to end."""

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span as the SDK's simplest processor would: the program goes on, and nothing is lost."""
        if span.context is not None and span.context.trace_flags.sampled:
            self.export((span,))

    # --- leaving ------------------------------------------------------------------------------------------------------

    def _leave(self) -> float | None:
        """Pass on what is judged or due, and have judged what is over; in how many seconds to look again."""
        with self._one_at_a_time:
            leaving: list[ReadableSpan] = []
            for group in self._gathering.due(_TOGETHER):
                if group.roots > 0:
                    self._counts.add(UNFINISHED)
                    leaving += self._parted(group)
                else:
                    self._wait_for(group)
            while self._ready:
                leaving += self._scored(*self._ready.popleft())
            leaving += self._overdue(time.monotonic())
            self._see_off(leaving)
        return self._pause()

    def _wait_for(self, group: Group[ReadableSpan]) -> None:
        with self._lock:
            self._waiting[group.key] = _Waiting(group, time.monotonic() + self._deadline)
            self._asked[group.key] = group
        self._asking.wake()

    def _scored(self, group: Group[ReadableSpan], told: Additions) -> Sequence[ReadableSpan]:
        """The spans of a trace that was judged; none where they left before."""
        with self._lock:
            waiting = self._waiting.get(group.key)
            if waiting is None or waiting.group is not group:  # another call may wait under the same id
                return ()
            del self._waiting[group.key]
        spans = self._parted(group)
        return self._enriched(spans, told) or spans

    @harmless
    def _enriched(self, spans: Sequence[ReadableSpan], told: Additions) -> Sequence[ReadableSpan]:
        if told:
            self._counts.add("scored")
        return [_more(span, told) for span in spans]

    def _overdue(self, now: float) -> list[ReadableSpan]:
        leaving: list[ReadableSpan] = []
        while True:
            with self._lock:
                first = next(iter(self._waiting.values()), None)
                if first is None or first.due > now:
                    return leaving
                del self._waiting[first.group.key]
                self._asked.pop(first.group.key, None)  # a judge that hangs holds nothing more
            self._counts.add("deadline")
            leaving += self._parted(first.group)

    def _parted(self, group: Group[ReadableSpan]) -> list[ReadableSpan]:
        """The spans of a group that leaves now; whoever has the turn sees them off."""
        spans = group.parts
        with self._lock:
            _remember(self._left, group.key, {span.context.span_id for span in spans if span.context is not None})
            if group.roots > 0:
                _remember(self._torn, group.key, None)
        self._parting.append(group)
        return spans

    def _see_off(self, spans: Sequence[ReadableSpan]) -> None:
        """Pass on the spans of groups that leave: only then are those done."""
        self._pass_on(spans)
        for group in self._parting:
            self._gathering.release(group)
        self._parting.clear()

    def _pause(self) -> float | None:
        with self._lock:
            first = next(iter(self._waiting.values()), None)
        pauses = [self._gathering.wait(), None if first is None else max(first.due - time.monotonic(), 0.0)]
        return min((pause for pause in pauses if pause is not None), default=None)

    def _pass_on(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Hand spans to the exporter inside; what it refuses is its own to have tried again."""
        said = SpanExportResult.SUCCESS
        if not spans:  # who only has spans that wait need not wait for what is being sent
            return said
        with self._one_at_a_time:
            for start in range(0, len(spans), _TOGETHER):
                some = spans[start : start + _TOGETHER]
                if self._handed(some) is not SpanExportResult.SUCCESS:
                    self._counts.add("refused_spans", len(some))
                    said = SpanExportResult.FAILURE
        return said

    @harmless
    def _handed(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with quietly():  # as the SDK's own processors do: what sends them would be traced, and that sent, without end
            return self._inner.export(spans)

    @harmless
    def _emptied(self, seconds: float) -> bool:
        """Have all that is held leave: judged within so many seconds, or as it is."""
        with self._one_at_a_time:
            left_open = self._gathering.close(for_good=self._over)
            self._see_off([span for group in left_open for span in self._parted(group)])
        groups = self._gathering.hurry()

        def left() -> bool:
            self._asking.help()
            return all(group.done for group in groups)

        well = self._leaving.until(left, seconds)
        if not well:
            with self._one_at_a_time:
                due = [span for group in self._gathering.due(len(groups)) for span in self._parted(group)]
                self._see_off([*due, *self._overdue(float("inf"))])
        return well

    # --- judging ------------------------------------------------------------------------------------------------------

    def _ask(self) -> float | None:
        groups: dict[str, Group[ReadableSpan]] = {}
        with self._lock:
            while self._asked and len(groups) < _BATCH:
                key, group = self._asked.popitem(last=False)
                groups[f"{key:032x}"] = group
        if not groups:
            self._judging.ready()
            return None
        traces = []
        for group in groups.values():
            traces.append(readable.trace(group.parts))
            give_way()
        with quietly():
            for judged in self._judging(traces):
                if judged.said is None:
                    self._counts.add("failed" if judged.why else "nothing_to_judge")
                if judged.why:
                    known = self._refused or self._over  # or its process was ended, and that says nothing of it
                    level = logging.DEBUG if known else logging.WARNING
                    _LOG.log(level, "a trace was not judged: %s", judged.why)
                self._refused = bool(judged.why)
                self._counts.without_score(judged.unscored)
                self._ready.append((groups[judged.trace_id], judged.said or {}))
                self._leaving.wake()
        return 0.0


_T = TypeVar("_T")


def _remember(held: OrderedDict[int, _T], key: int, value: _T) -> None:
    held[key] = value
    held.move_to_end(key)
    while len(held) > _GONE:
        held.popitem(last=False)


def _more(span: ReadableSpan, told: Additions) -> ReadableSpan:
    """The span, or a copy with what is said of it; evaluations that it has already keep their numbers."""
    context = span.context
    added = told.get((context.trace_id, context.span_id)) if context is not None else None
    if not added:
        return span
    held = span.attributes or {}
    taken = [int(number[1]) for name in held if (number := _NUMBERED.match(name))]
    first = max(taken, default=-1) + 1
    moved = {_NUMBERED.sub(lambda n: f"evaluations.{int(n[1]) + first}.", name): value for name, value in added.items()}
    attributes = BoundedAttributes(attributes={**held, **moved}, immutable=True)
    attributes.dropped = span.dropped_attributes
    made = copy.copy(span)
    made._attributes = attributes  # noqa: SLF001 - a span that ended has no other door, and the constructor loses counts
    return made
