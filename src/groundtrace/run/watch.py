"""A run that never ends: round after round over a window that moves on with the time.

A round reads from where the last whole one came to, and a little further back, for traces that ended or arrived late;
of traces that go on for longer the ids are kept, and they are asked for by them. How far it came is kept in the memory
once a round was whole, so a watch that was killed goes on from there; what was asked and written before is known and
costs nothing. Trouble with a platform ends a round and no watch: the next one comes later, and reads what this one did
not. Only who is refused itself is not helped by waiting.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import itertools
import random
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import orjson

from groundtrace.errors import PlanError, PlatformError
from groundtrace.evaluate import never
from groundtrace.run import Report, run
from groundtrace.run.growing import Growing
from groundtrace.tally import COST_CAP

if TYPE_CHECKING:
    from groundtrace.model import Trace
    from groundtrace.plan import Plan
    from groundtrace.ports import Memory
    from groundtrace.run import Watch
    from groundtrace.run.river import Saw

EVERY, OVERLAP = 60.0, 900.0
"""Seconds between two rounds, and that a round looks back behind the last one."""

FIRST = dt.timedelta(hours=24)
"""How far the first round of all looks back where nobody says."""

HOLD = dt.timedelta(hours=1)
"""How long a watch looks back for traces that are not over, or another run's; later they are asked for by their ids."""

LONGEST = 900.0
"""Seconds between two rounds in the longest trouble, unless a platform names more."""

_STEP = 0.2
"""Seconds between two looks at whether to stop."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round: its window, what it did, why it was cut short if it was, and the seconds until the next."""

    number: int
    since: dt.datetime
    until: dt.datetime
    report: Report
    trouble: str = ""
    wait: float = 0.0
    given_up: int = 0
    """Traces that were not over, and are waited for no more."""


def watch(
    plan: Plan,
    memory: Memory,
    *,
    every: float = EVERY,
    overlap: float = OVERLAP,
    stopping: Callable[[], bool] = never,
    progress: Watch | None = None,
    clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Round]:
    """Do what a plan says every so many seconds, each round as it ends, until `stopping` says so.

    PlanError where the first round can't be; PlatformError where the platform does not let us in.
    """
    _check(plan)
    failures, spent = 0, 0.0
    ident = plan.batch_id or f"watch-{clock().isoformat(timespec='seconds')}-{secrets.token_hex(2)}"
    for number in itertools.count(1):
        until = clock()
        left = {} if plan.max_cost is None else {"max_cost": plan.max_cost - spent}
        round_ = plan.model_copy(update={"until": until, **left})
        try:
            one, named = _look(
                round_, memory, number, ident=ident, overlap=overlap, stopping=stopping, progress=progress
            )
        except PlatformError as error:  # of the memory, for those of a platform are told in the round
            if error.denied or number == 1:
                raise
            one, named = Round(number, until, until, Report(failed=(str(error),)), str(error)), 0.0
        failures = failures + 1 if one.trouble else 0
        yield (one := replace(one, wait=max(named, _patience(every, failures)) if one.trouble else every))
        spent += one.report.about.cost or 0.0
        over = plan.max_cost is not None and (spent >= plan.max_cost or one.report.about.state == "interrupted")
        if over or _stopped(one.wait, stopping, sleep):
            return


def place_of(plan: Plan) -> str:
    """What a memory knows the place of a watch by: the same for the same sources, rubrics and sinks, said the same.

    Another rubric, filter or workspace has traces of its own to do, so it has a place of its own.
    """
    told = orjson.dumps([plan.sources, plan.rubrics, plan.sinks], default=str, option=orjson.OPT_SORT_KEYS)
    return f"watch:{names_of(plan)} {hashlib.sha256(told).hexdigest()[:16]}"


def names_of(plan: Plan) -> str:
    """The sources of a watch, for people."""
    names = [spec if isinstance(spec, str) else f"{spec['use']}:{spec.get('argument', '')}" for spec in plan.sources]
    return ", ".join(names)


def begin_of(
    plan: Plan, mark: dt.datetime | None, until: dt.datetime, overlap: float, *, first: bool = True
) -> dt.datetime:
    """Where a round begins: the first one as the plan says; else at what was reached, else a day ago."""
    if plan.since is not None and (first or mark is None):
        return plan.since
    return until - FIRST if mark is None else min(mark, until) - dt.timedelta(seconds=overlap)


def reached(plan: Plan, memory: Memory) -> dt.datetime | None:
    """How far earlier rounds of such a watch came; None where there was none."""
    mark = memory.cursor(place_of(plan))
    return None if mark is None else dt.datetime.fromisoformat(mark)


def _check(plan: Plan) -> None:
    """Refuse what a watch can't be: PlanError."""
    if plan.until is not None:
        raise PlanError("until", plan.until.isoformat(), "has no place in a watch, which goes on", hint="leave it out")
    if plan.dry_run:
        raise PlanError("dry_run", value=True, problem="has no place in a watch", hint="groundtrace run does that")


def _look(
    plan: Plan,
    memory: Memory,
    number: int,
    *,
    ident: str,
    overlap: float,
    stopping: Callable[[], bool],
    progress: Watch | None,
) -> tuple[Round, float]:
    """One round up to the plan's `until`, and the seconds the platform named if it was in trouble."""
    until = plan.until or dt.datetime.now(dt.UTC)
    place, mark = place_of(plan), reached(plan, memory)
    since = begin_of(plan, mark, until, overlap, first=number == 1)
    if mark is None or (number == 1 and plan.since is not None):  # a round in trouble does not lose where it began
        mark = since
        memory.move_cursor(place, mark.isoformat())
    growing = Growing(plan, memory, place, until)
    windowed = plan.model_copy(update={"since": since})
    go = functools.partial(_run, memory=memory, ident=ident, stopping=stopping, progress=progress)
    report, trouble, named = go(windowed, saw=growing.saw, first=number == 1)
    growing.settle(well=not trouble)
    came = mark if trouble else until - HOLD if report.growing or report.held else until
    if not (trouble or report.held or report.passed.get(COST_CAP) or stopping()):
        more, trouble, named = _by_ids(growing, plan, report, go)
        report = more + report
    report += Report(notes=tuple(growing.kept()))
    if came > mark:  # after what is waited for is kept
        memory.move_cursor(place, came.isoformat())
    return Round(number, since, until, report, trouble, given_up=growing.given_up), named


def _by_ids(
    growing: Growing, plan: Plan, before: Report, go: Callable[..., tuple[Report, str, float]]
) -> tuple[Report, str, float]:
    """One run over the traces that were not over when the window left them behind, as `_run` tells of one."""
    left = None if plan.max_cost is None else plan.max_cost - (before.about.cost or 0.0)
    asked = growing.to_ask()
    if not asked or (left is not None and left <= 0):
        return Report(), "", 0.0
    places = sorted({source for source, _ in asked})

    def saw(at: int, trace: Trace) -> None:
        growing.saw(places[at], trace)

    report, trouble, named = go(growing.asking(asked, left), saw=saw, first=False)
    capped = report.held or report.passed.get(COST_CAP)
    growing.settle(() if capped else asked, well=not trouble)
    return report, trouble, named


def _run(
    plan: Plan,
    *,
    memory: Memory,
    ident: str,
    stopping: Callable[[], bool],
    progress: Watch | None,
    saw: Saw,
    first: bool,
) -> tuple[Report, str, float]:
    """One run over one window, why it was cut short if it was, and the seconds the platform named then.

    Trouble is raised where waiting does not help.
    """
    cut: list[Exception | None] = []
    try:
        report = run(plan, memory=memory, progress=progress, stopping=stopping, run_id=ident, cut=cut.append, saw=saw)
    except (PlatformError, PlanError) as error:
        cut.append(error)
        report = Report(failed=(str(error),))
    known = [each for each in cut if isinstance(each, PlatformError | PlanError)]
    for each in known:
        if each.denied if isinstance(each, PlatformError) else first:
            raise each from None
    trouble = str(known[0]) if known else next(iter(report.failed), "stopped") if cut else ""
    named = [each.retry_after or 0.0 for each in known if isinstance(each, PlatformError)]
    return report, trouble, max(named, default=0.0)


def _patience(every: float, failures: int) -> float:
    """Seconds until the next round after so many in trouble: a random time from a window that doubles."""
    window = min(every * 2.0 ** min(failures, 10), LONGEST)
    return max(every, window * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries, protects nothing


def _stopped(seconds: float, stopping: Callable[[], bool], sleep: Callable[[float], None]) -> bool:
    """Wait; whether to stop, which is seen at once."""
    left = seconds
    while left > 0 and not stopping():
        sleep(min(left, _STEP))
        left -= _STEP
    return stopping()
