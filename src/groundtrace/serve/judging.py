"""Judges traces that are over, batch after batch, through the same river as `groundtrace run`."""

from __future__ import annotations

import datetime as dt
import functools
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from groundtrace.adapters.otel.arrived import SHARE, Arrived, homeless
from groundtrace.errors import GroundtraceError
from groundtrace.evaluate import never
from groundtrace.model import Ref
from groundtrace.plugins import load
from groundtrace.review import broke
from groundtrace.run.holds import Holds
from groundtrace.run.isolated import Isolated
from groundtrace.run.river import River
from groundtrace.run.writing import Door, Passing
from groundtrace.sampling import Sampling, sample
from groundtrace.store import owner
from groundtrace.tally import COST_CAP, About, Report

if TYPE_CHECKING:
    from groundtrace.model import Scorecard
    from groundtrace.plan import Plan
    from groundtrace.ports import Judge, Memory, Sink
    from groundtrace.serve.assembly import Assembly, Gathering
    from groundtrace.serve.counts import Counts
    from groundtrace.store import Store

_PAUSE = 0.2
_SOON, _LATER = 1.0, 60.0
"""Seconds until scores that were not taken are written again, or a judge is asked that gave out; doubled from the first
up to the last.
"""

_LOOK, _GRACE = 0.1, 5.0
"""Seconds between two looks how a batch goes; seconds it has, once there is no time left, to write what is judged."""

_WHILE = 5.0
"""Seconds a judge gives no answer until that is told: one that is busy for a moment is nobody's trouble."""

_KNOWN = 1000
"""Kinds of notes that are told."""

_WRITING = "writing to "
"""How a report begins to tell that a place did not take scores."""

_COUNT = re.compile(r"\d+")


def wanted(plan: Plan) -> Callable[[str], bool]:
    """Whether a trace may be judged, by its id alone; where more decides, any may."""
    told = _sampling(plan)
    if told.errors or told.predicate:
        return lambda _: True
    picked = sample(_share(told))
    return lambda trace_id: plan.holds(trace_id) and picked(Ref(Arrived.platform, trace_id=trace_id), ())


def _sampling(plan: Plan) -> Sampling:
    return plan.sample if isinstance(plan.sample, Sampling) else Sampling(share=plan.sample)


def _share(told: Sampling) -> float:
    return SHARE if told.share is None else told.share


def checked(plan: Plan, *, forwards: bool) -> None:
    """Open all a plan names, the judge's door too, so that trouble comes before the first span: PlanError."""
    if not (plan.sinks or forwards):
        raise homeless()
    river, _ = _opened(plan, Passing(), None, never, lambda _: None)
    river.knock()


def _opened(
    plan: Plan, memory: Memory, own: Sink | None, stopping: Callable[[], bool], cut: Callable[[Exception | None], None]
) -> tuple[River, Sequence[Door]]:
    river = River.opened(plan.model_copy(update={"sources": (), "sinks": ()}), memory, stopping=stopping, cut=cut)
    named = [
        Door(spec if isinstance(spec, str) else f"{spec['use']}:{spec.get('argument', '')}", load("sink", spec))
        for spec in plan.sinks
    ]
    return river, [*([Door("the spans that are sent on", own)] if own is not None else []), *named]


class Judging:
    """Judges what is over, until it is asked to stop; `own` is the sink that puts scores on spans, where there is one.

    `stopping` ends it with what is in flight, also where a judge does not return from it. A trace the judge gave out
    on waits to be judged again, with no card until then: only one that fails while others are answered is its own.
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
        self._broke: list[Exception] = []
        """What ended a batch before its end, and where that was the judge or the store, what they raised."""
        self._batch: dict[str, Gathering] = {}
        self._unanswered: set[str] = set()
        """The traces that are judged, by id, and those of them the judge gave out on."""
        self._answers: Counter[str] = Counter()
        self._answers_before: Counter[str] = Counter()
        """Cards with an answer that is not a memory's, by judge; how many there were before the batch."""
        self._let = False
        """Whether a card of the batch was let through though the judge gave out on it: that is then the trace's."""
        opened, self._doors = _opened(plan, store, own, stopping, self._cut.append)
        self._river = replace(opened, broke=self._broke.append, withheld=self._withheld)
        for judge in filter(None, (opened.judge, opened.full)):
            getattr(judge, "cut_when", _uncut)(stopping)
        for door in self._doors:
            getattr(door.sink, "stop_when", _uncut)(stopping)
        self.left = False
        """Whether a batch was left where it was: its thread may never end."""
        self._leaving = threading.Lock()
        self._away, self._since = "", 0.0
        """Why the judge gives no answer, and since when."""
        self._resume, self._respite = float("-inf"), _SOON
        """When a judge that gave out is asked again, whatever trace is due; how long after that."""
        self._sampling = _sampling(plan)
        self.share = _share(self._sampling)
        self._noted: set[str] = set()
        begun = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._ident = plan.batch_id or f"serve-{begun}-{secrets.token_hex(2)}"
        self._unjudged = self._unwritten = ""
        """What keeps traces from being judged, and what scores from being written."""

    @property
    def trouble(self) -> str:
        """What keeps traces from being judged or written, while it does."""
        return "; ".join(filter(None, (self._unwritten, self._unjudged)))

    def told(self) -> str:
        """How many of the traces are judged, by whom, and where their scores go, in a line."""
        share, more = self.share, self._sampling.errors or self._sampling.predicate
        which = f"{100 * share:g} % of the traces{', and those the plan names,' if more else ''} are judged"
        which = "every trace is judged" if share == 1 else which if share or more else "no trace is judged"
        hint = " (--sample 1: all)" if 0 < share < 1 else ""
        first, *named = [door.shown for door in self._doors]  # the spans, where they are sent on, are said last
        places = " and ".join(filter(None, (", ".join(named), first)))
        return f"{which} by {self._river.judges}{hint}, and scores go to {places}"

    def work(self, over: Callable[[], bool]) -> None:
        """Judge until it is `over`, or asked to stop."""
        with Holds(self._store, owner(self._ident)) as holds:
            while not (over() or self._stopping()):
                if not self.once(holds):
                    self._sleep(_PAUSE)

    def rest(self) -> None:
        """Judge all that is here, or until asked to stop."""
        self._resume = float("-inf")
        with Holds(self._store, owner(self._ident)) as holds:
            while not self._stopping() and self.once(holds):
                pass

    def once(self, holds: Holds) -> bool:
        """Judge some of what is over, and write what was not taken before; whether there was any of that."""
        self._assembly.tend()
        doubted = self._respite > _SOON  # the judge gave out last: whether it is there, others than those tell
        batch = self._assembly.due(wary=doubted) if self._clock() >= self._resume else []
        if not batch and self._clock() < self._again:
            return False
        self._batch = {trace.trace_id: trace for trace in batch}
        self._beside(functools.partial(self._judge, batch, holds))
        return True

    def _beside(self, work: Callable[[], None]) -> None:
        """Do it in a thread of its own, and wait for it; once it is late not for long: it is left as by a kill."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - carried to the thread that waits and raised there
                raised.append(error)

        thread = threading.Thread(target=run, name="judging", daemon=True)
        thread.start()
        late: float | None = None
        while thread.is_alive():
            thread.join(_LOOK)
            with self._leaving:  # without a batch the judge is not asked: what its end made known stands
                if self._batch:
                    self._look()
            if late is None and self._stopping():
                late = time.monotonic()
            if late is not None and time.monotonic() > late + _GRACE and self._leave():
                return
        if raised:
            raise raised[0]

    def _leave(self) -> bool:
        """Leave a batch; False where it is just being finished."""
        if not self._leaving.acquire(blocking=False):
            return False
        self.left = True
        self._leaving.release()
        return True

    def _look(self) -> None:
        """See whether the judge answers; one that does not for a while is told of."""
        _, away = self._silent()
        if bool(away) != bool(self._away):
            self._unjudged, self._since = away, self._clock()
        self._away = away
        if away and self._clock() >= self._since + _WHILE:
            self._tell_once(f"nothing is judged for now, and what comes is kept: {away}")

    def _silent(self) -> tuple[str, str]:
        """The id of a judge that gives no answer, and what it says of why; twice "" where each gives some."""
        for judge in filter(None, (self._river.judge, self._river.full)):
            if why := self._word(judge):
                return judge.id, f"judge {judge.id}: {why}"
        return "", ""

    def _word(self, judge: Judge) -> str:
        """A judge's own word of its trouble; one that breaks on being asked for it may answer all the same."""
        trouble = getattr(judge, "trouble", None)
        with Isolated(f"judge {judge.id} can't say whether it is in trouble", self._tell_once):
            return str(trouble() or "") if callable(trouble) else ""
        return ""

    def _withheld(self, card: Scorecard) -> bool:
        """Keep back a card the judge gave out on, and come back to its trace.

        One it gave out on before, while it answers others, is as it is.
        """
        if not broke(card):
            self._answers.update({attempt.judge for attempt in card.attempts if not attempt.cached})
            return False
        trace = self._batch.get(card.ref.trace_id)
        if trace is None:
            return False
        if trace.attempts and self._is_there(trace):
            self._let = True
            return False
        self._unanswered.add(trace.trace_id)
        return True

    def _is_there(self, trace: Gathering) -> bool:
        """Whether the judge answered others in this batch, or since it gave out on this trace before.

        Its last word can't tell: what it gives out on is asked again until there is no time left, and so comes last.
        """
        judge, away = self._silent()
        before = self._answers_before if trace.answers is None else trace.answers
        return not away or self._answers[judge] > before[judge]

    def _judge(self, batch: Sequence[Gathering], holds: Holds) -> None:
        """Judge a batch, write what came of it, and what was not taken before."""
        self._cut.clear()
        self._broke.clear()
        self._unanswered.clear()
        self._let = False
        self._answers_before = self._answers.copy()
        source = Arrived({trace.trace_id: functools.partial(self._assembly.read, trace) for trace in batch})
        before = Report(about=About(self._river.judges, self._river.judge.kind, batch_id=self._ident))
        try:
            report = self._river.flow(source, self._doors, before, holds)
        except GroundtraceError as error:
            self._cut.append(error)
            report = Report(failed=(str(error),))
        with self._leaving:
            if not self.left:
                self._note(report)
                self._finish(batch, report)
                self._remember(report)
                self._batch = {}

    def _remember(self, report: Report) -> None:
        """Come back to what a platform did not take, ever later as long as it takes nothing."""
        counted = [states for states in report.receipts.values() if states]
        if report.failed or any(states.get("failed") or states.get("unconfirmed") for states in counted):
            self._again, self._pause = self._clock() + self._pause, min(2 * self._pause, _LATER)
        else:
            self._again, self._pause = float("inf"), _SOON

    def _finish(self, batch: Sequence[Gathering], report: Report) -> None:
        why = next(iter(report.failed), "its batch was cut short")
        self._unwritten = next((said for said in report.failed if not batch or said.startswith(_WRITING)), "")
        if not batch:
            return  # the judge was not asked: what is known of it stands
        gave_out = any(isinstance(error, GroundtraceError) for error in self._broke)
        again = [trace for trace in batch if trace.trace_id in self._unanswered]
        own = [trace for trace in again if self._is_there(trace)]
        away = self._known(there=own == again and (self._let or bool(own)), gave_out=gave_out)
        self._unjudged = next((said for said in report.failed if not said.startswith(_WRITING)), away)
        if self._cut and (self._stopping() or gave_out):
            self._assembly.put_off(batch, why, own=False)  # there was no time, or no judge: nobody is given up for that
        elif self._cut:
            by_itself = len(batch) == 1 and not any(isinstance(error, GroundtraceError) for error in self._cut)
            self._assembly.put_off(batch, why, own=by_itself or len(batch) > 1)
        elif report.held or report.passed.get(COST_CAP):
            self._assembly.put_off(batch, "another server works on them, or the money is spent", own=False)
        else:
            self._assembly.put_off(own, "the judge gave out on it", own=True)
            self._assembly.put_off([trace for trace in again if trace not in own], away, own=False)
            for trace in again:
                trace.answers = self._answers.copy()
            self._assembly.judged([trace for trace in batch if trace.trace_id not in self._unanswered])

    def _known(self, *, there: bool, gave_out: bool) -> str:
        """Note whether the judge is there, from what came of a batch; why not, where it is not."""
        judge, away = self._silent()
        if there or self._answers[judge] > self._answers_before[judge]:
            away = self._away = ""  # its last word was of a trace it does not have, and is not to be told of the next
        if away or gave_out:
            self._resume, self._respite = self._clock() + self._respite, min(2 * self._respite, _LATER)
        else:
            self._resume, self._respite = float("-inf"), _SOON
        return away

    def _note(self, report: Report) -> None:
        """Tell what went wrong, once and not with every batch that sees its like; count what was written."""
        for note in (*report.failed, *report.notes):
            self._tell_once(note)
        what = "reasons" if report.cards and not report.scores else "scores"  # what has no score is told as well
        for states in report.receipts.values():
            for state, n in states.items():
                self._counts.add(what, state, n)
        for states in report.cards.values():
            for state, n in states.items():
                self._counts.add("cards", state, n)

    def _tell_once(self, note: str) -> None:
        alike = _COUNT.sub("#", note)
        if alike not in self._noted and len(self._noted) < _KNOWN:
            self._noted.add(alike)
            self._tell(note)


def _uncut(_: Callable[[], bool]) -> None:
    """A judge that can't leave what is in flight, a sink that never waits for long."""
