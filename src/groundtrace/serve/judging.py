"""Judges traces that are over, batch after batch, through the same river as `groundtrace run`."""

from __future__ import annotations

import datetime as dt
import functools
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from groundtrace.adapters.otel.arrived import SHARE, Arrived, homeless
from groundtrace.errors import GroundtraceError
from groundtrace.evaluate import never
from groundtrace.model import Ref
from groundtrace.plugins import load
from groundtrace.run.holds import Holds
from groundtrace.run.river import River
from groundtrace.run.writing import Door, Passing
from groundtrace.sampling import Sampling, sample
from groundtrace.store import owner
from groundtrace.tally import COST_CAP, About, Report

if TYPE_CHECKING:
    from groundtrace.plan import Plan
    from groundtrace.ports import Memory, Sink
    from groundtrace.serve.assembly import Assembly, Gathering
    from groundtrace.serve.counts import Counts
    from groundtrace.store import Store

_PAUSE = 0.2
_SOON, _LATER = 1.0, 60.0
"""Seconds until scores that were not taken are written again; doubled from the first up to the last."""

_KNOWN = 1000
"""Kinds of notes that are told."""

_COUNT = re.compile(r"\d+")


def wanted(plan: Plan) -> Callable[[str], bool]:
    """Whether a trace may be judged, by its id alone; where more decides, any may."""
    told = plan.sample if isinstance(plan.sample, Sampling) else Sampling(share=plan.sample)
    if told.errors or told.predicate:
        return lambda _: True
    picked = sample(SHARE if told.share is None else told.share)
    return lambda trace_id: plan.holds(trace_id) and picked(Ref(Arrived.platform, trace_id=trace_id), ())


def checked(plan: Plan, *, forwards: bool) -> None:
    """Open all a plan names, so that trouble comes before the first span: PlanError."""
    if not (plan.sinks or forwards):
        raise homeless()
    _opened(plan, Passing(), None, never, lambda _: None)


def _opened(
    plan: Plan, memory: Memory, own: Sink | None, stopping: Callable[[], bool], cut: Callable[[Exception | None], None]
) -> tuple[River, Sequence[Door]]:
    river = River.opened(plan.model_copy(update={"sources": (), "sinks": ()}), memory, stopping=stopping, cut=cut)
    named = [
        Door(spec if isinstance(spec, str) else f"{spec['use']}:{spec.get('argument', '')}", load("sink", spec))
        for spec in plan.sinks
    ]
    return river, [*([Door("the spans", own)] if own is not None else []), *named]


class Judging:
    """Judges what is over, until it is asked to stop; `own` is the sink that puts scores on spans, where there is one.

    `stopping` ends it with what is in flight.
    """

    def __init__(
        self,
        plan: Plan,
        assembly: Assembly,
        store: Store,
        counts: Counts,
        tell: Callable[[str], None],
        *,
        own: Sink | None = None,
        stopping: Callable[[], bool] = never,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._assembly, self._store, self._counts, self._tell = assembly, store, counts, tell
        self._stopping, self._sleep, self._clock = stopping, sleep, clock
        self._again, self._pause = float("-inf"), _SOON
        """When scores that were not taken are written again, first those of earlier starts; how long after that."""
        self._cut: list[Exception | None] = []
        self._river, self._doors = _opened(plan, store, own, stopping, self._cut.append)
        self._noted: set[str] = set()
        begun = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._ident = plan.batch_id or f"serve-{begun}-{secrets.token_hex(2)}"
        self.trouble = ""
        """What keeps traces from being judged or written, while it does."""

    def work(self, over: Callable[[], bool]) -> None:
        """Judge until it is `over`, or asked to stop."""
        with Holds(self._store, owner(self._ident)) as holds:
            while not (over() or self._stopping()):
                if not self.once(holds):
                    self._sleep(_PAUSE)

    def rest(self) -> None:
        """Judge all that is here, or until asked to stop."""
        with Holds(self._store, owner(self._ident)) as holds:
            while not self._stopping() and self.once(holds):
                pass

    def once(self, holds: Holds) -> bool:
        """Judge some of what is over, and write what was not taken before; whether there was any of that."""
        self._assembly.tend()
        batch = self._assembly.due()
        if not batch and self._clock() < self._again:
            return False
        self._cut.clear()
        source = Arrived({trace.trace_id: functools.partial(self._assembly.read, trace) for trace in batch})
        before = Report(about=About(self._river.judges, self._river.judge.kind, batch_id=self._ident))
        try:
            report = self._river.flow(source, self._doors, before, holds)
        except GroundtraceError as error:
            self._cut.append(error)
            report = Report(failed=(str(error),))
        self._note(report)
        self._finish(batch, report)
        self._remember(report)
        return True

    def _remember(self, report: Report) -> None:
        """Come back to what a platform did not take, ever later as long as it takes nothing."""
        counted = [states for states in report.receipts.values() if states]
        if report.failed or any(states.get("failed") or states.get("unconfirmed") for states in counted):
            self._again, self._pause = self._clock() + self._pause, min(2 * self._pause, _LATER)
        else:
            self._again, self._pause = float("inf"), _SOON

    def _finish(self, batch: Sequence[Gathering], report: Report) -> None:
        why = next(iter(report.failed), "its batch was cut short")
        self.trouble = why if report.failed else ""
        if self._cut:
            own = len(batch) == 1 and not any(isinstance(error, GroundtraceError) for error in self._cut)
            self._assembly.put_off(batch, why, own=own or len(batch) > 1)
        elif report.held or report.passed.get(COST_CAP):
            self._assembly.put_off(batch, "another server works on them, or the money is spent", own=False)
        else:
            self._assembly.judged(batch)

    def _note(self, report: Report) -> None:
        """Tell what went wrong, once and not with every batch that sees its like; count what was written."""
        for note in (*report.failed, *report.notes):
            alike = _COUNT.sub("#", note)
            if alike not in self._noted and len(self._noted) < _KNOWN:
                self._noted.add(alike)
                self._tell(note)
        for states in report.receipts.values():
            for state, n in states.items():
                self._counts.add("scores", state, n)
        for states in report.cards.values():
            for state, n in states.items():
                self._counts.add("cards", state, n)
