"""A span processor that judges each trace once it is over, beside the program it stands in.

What runs in the program's threads is short: a span that begins is counted, one that ends is put to its trace. All else
is done by a thread of ours, or by a process. Nothing is raised into the program, and the program waits for nothing;
what there is no room for is dropped as a whole trace and counted.

A trace is over once all its spans that began here have ended and none came for `settle` seconds. Where a service is
called twice under one trace id, each call is judged by itself. Source: `opentelemetry.sdk.trace` of 1.37 to 1.45.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import TraceFlags

from groundtrace.adapters.otel import readable
from groundtrace.adapters.otel.telling import OURS, Telling, exporting, is_judging, quietly
from groundtrace.live import Beat, Counts, give_way, harmless, hook
from groundtrace.live.gathering import UNFINISHED, Bounds, Gathering, Group

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor, TracerProvider

    from groundtrace.adapters.otel.said import Said
    from groundtrace.live import Judged, Judging

BATCH = 32
"""Traces that are judged together, at most."""

_LONGEST = 60.0
"""Seconds that a judge which refuses is left alone, at most; doubled from one second on."""

_SAMPLED = TraceFlags.SAMPLED
_LOG = logging.getLogger(__name__)


class Processor(SpanProcessor):
    """Collects traces, has them judged and tells what came of it; `counts` says what became of each.

    `choose` picks the traces looked at by their id; `seconds` is what `shutdown` takes at most.
    """

    def __init__(
        self,
        judging: Judging[Sequence[Said]],
        telling: Callable[[Counts], Telling],
        *,
        bounds: Bounds,
        choose: Callable[[str], bool] | None,
        seconds: float,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self._counts = Counts()
        self._judging, self._telling = judging, telling(self._counts)
        self._choose, self._seconds = choose, seconds
        self._pipeline: SynchronousMultiSpanProcessor | None = getattr(tracer_provider, "_active_span_processor", None)
        self._gathering: Gathering[ReadableSpan] = Gathering(bounds, self._counts)
        self._beat = Beat("groundtrace", self._step, self._counts)
        self._over = self._gone = self._looked = False
        self._refused = 0
        self._passed = 0
        """The trace that was passed over last: most that comes next is of it."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What was done and what was dropped so far, by what and why."""
        return self._counts.told()

    # --- in the program's threads -------------------------------------------------------------------------------------

    @hook
    def on_start(self, span: Span) -> None:
        """A span began."""
        context = span.context
        if context is None or context.trace_id == self._passed:
            return
        if self._over or not context.trace_flags & _SAMPLED or is_judging():
            return
        key = context.trace_id
        if not self._gathering.holds(key) and not self._wanted(span, key):
            self._passed = key
            if _is_root(span) and not _is_own(span):
                self._counts.passed_over()
            return
        if self._pipeline is None:
            self._pipeline = getattr(span, "_span_processor", None)
        if self._gathering.begin(key, root=_is_root(span)):
            self._beat.wake()

    @hook
    def on_end(self, span: ReadableSpan) -> None:
        """A span ended."""
        context = span.context
        if context is None or context.trace_id == self._passed:
            return
        key = context.trace_id
        if not self._over and context.trace_flags & _SAMPLED and self._gathering.holds(key):
            self._gathering.end(key, span, readable.weight(span), root=_is_root(span))

    def _wanted(self, span: Span, key: int) -> bool:
        """Whether a trace is looked at."""
        if _is_own(span):
            return False
        return self._choose is None or self._choose(f"{key:032x}")

    # --- when asked to wait -------------------------------------------------------------------------------------------

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Have all traces judged whose spans ended, and wait for that; False where it takes longer."""
        return bool(self._flushed(timeout_millis / 1000))

    def shutdown(self) -> None:
        """Take no more, have what is over judged within the deadline, and count what is not."""
        if self._over:
            return
        self._over = True
        self._gathering.close()
        self._flushed(self._seconds)
        self._gone = True
        left = self._gathering.hurry()
        if left:
            self._counts.add("shutdown", len(left))
        self._beat.close()
        self._judging.close()

    @harmless
    def _flushed(self, seconds: float) -> bool:
        groups = self._gathering.hurry()
        return self._beat.until(lambda: all(group.done for group in groups), seconds)

    # --- in our thread ------------------------------------------------------------------------------------------------

    def _step(self) -> float | None:
        self._look_at_order()
        groups = self._gathering.due(BATCH)
        if not groups:
            pause = self._gathering.wait()
            if pause is not None:
                self._judging.ready()
            return pause
        for group in [group for group in groups if group.roots > 0]:
            self._counts.add(UNFINISHED)  # it has been held for long enough
            self._gathering.release(group)
        groups = [group for group in groups if not group.done]
        try:
            with quietly():
                return self._judged({f"{group.key:032x}": group for group in groups})
        finally:
            for group in groups:
                self._gathering.release(group)

    @harmless
    def _look_at_order(self) -> None:
        """Say it where what is told at the end finds the exporters closed: they are shut down in their order."""
        if self._looked or self._pipeline is None:
            return
        self._looked = True
        ahead = exporting(self._pipeline, before=self) if self._telling.sends_spans else ()
        if ahead:
            _LOG.warning(
                "groundtrace's processor was added after %s, which is shut down before it: evaluator spans that are "
                "told at shutdown are lost. Add it first, or call the provider's force_flush() before its shutdown()",
                type(ahead[0]).__name__,
            )

    def _judged(self, groups: Mapping[str, Group[ReadableSpan]]) -> float:
        """Judge these and tell of each as it is done; in how many seconds to go on."""
        refused = 0
        traces = []
        for group in groups.values():
            traces.append(readable.trace(group.parts))
            give_way()
        for judged in self._judging(traces):
            group = groups[judged.trace_id]
            if self._gone:
                return 0.0
            self._tell(judged, group.parts[-1], known=self._refused + refused > 0)
            refused += bool(judged.why)
            self._gathering.release(group)
        self._refused = self._refused + 1 if refused == len(groups) else 0
        return min(2.0 ** (self._refused - 1), _LONGEST) if self._refused else 0.0

    @harmless
    def _tell(self, judged: Judged[Sequence[Said]], span: ReadableSpan, *, known: bool) -> None:
        """Say what came of a trace; of a judge that refuses one after another, once (`known`) why."""
        if judged.why:
            self._counts.add("failed")
            _LOG.log(logging.DEBUG if known else logging.WARNING, "a trace was not judged: %s", judged.why)
            return
        self._counts.add("nothing_to_judge" if judged.said is None else "judged")
        self._counts.without_score(judged.unscored)
        self._telling.tell(judged.said or (), self._pipeline, span.resource)


def _is_root(span: ReadableSpan) -> bool:
    """Whether it is the first here: it has no parent, or one in another process."""
    parent = span.parent
    return parent is None or parent.is_remote


def _is_own(span: ReadableSpan) -> bool:
    scope = span.instrumentation_scope
    return scope is not None and scope.name in OURS
