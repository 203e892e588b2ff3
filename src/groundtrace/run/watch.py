"""A run that never ends: round after round over a window that moves on with the time.

A round reads from where the last whole one came to, and a little further back, for traces that ended or arrived late.
How far it came is kept in the memory once a round was whole, so a watch that was killed goes on from there; what was
asked and written before is known and costs nothing. Trouble with a platform ends a round and no watch: the next one
comes later, and reads what this one did not. Only who is refused itself is not helped by waiting.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groundtrace.errors import PlanError, PlatformError
from groundtrace.evaluate import never
from groundtrace.run import Report, run

if TYPE_CHECKING:
    from groundtrace.plan import Plan
    from groundtrace.ports import Memory
    from groundtrace.run import Watch

EVERY, OVERLAP = 60.0, 900.0
"""Seconds between two rounds, and that a round looks back behind the last one."""

FIRST = dt.timedelta(hours=24)
"""How far the first round of all looks back where nobody says."""

HOLD = dt.timedelta(hours=1)
"""How long is waited for traces that are not over, or another run's, before a watch moves on without them."""

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
    """What a memory knows the place of a watch by: the same for the same sources."""
    names = [spec if isinstance(spec, str) else f"{spec['use']}:{spec.get('argument', '')}" for spec in plan.sources]
    return f"watch:{', '.join(names)}"


def begin_of(plan: Plan, mark: dt.datetime | None, until: dt.datetime, overlap: float) -> dt.datetime:
    """Where a round begins: at what was reached, else as the plan says, else a day ago."""
    if mark is None:
        return plan.since or until - FIRST
    return min(mark, until) - dt.timedelta(seconds=overlap)


def reached(plan: Plan, memory: Memory) -> dt.datetime | None:
    """How far earlier rounds over these sources came; None where there was none."""
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
    since = begin_of(plan, mark, until, overlap)
    if mark is None:  # so that a round in trouble does not lose what its day began with
        mark = since
        memory.move_cursor(place, mark.isoformat())
    windowed = plan.model_copy(update={"since": since})
    report, trouble, named = _run(windowed, memory, ident, stopping, progress, first=number == 1)
    one = Round(number, since, until, report, trouble)
    came = _came_to(one, mark)
    if came > mark:
        memory.move_cursor(place, came.isoformat())
    return one, named


def _run(
    plan: Plan, memory: Memory, ident: str, stopping: Callable[[], bool], progress: Watch | None, *, first: bool
) -> tuple[Report, str, float]:
    """One run over one window, why it was cut short if it was, and the seconds the platform named then.

    Trouble is raised where waiting does not help.
    """
    cut: list[Exception | None] = []
    try:
        report = run(plan, memory=memory, progress=progress, stopping=stopping, run_id=ident, cut=cut.append)
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


def _came_to(one: Round, mark: dt.datetime) -> dt.datetime:
    """How far a round came: what was cut short is read again from its begin, what is not over for a while."""
    if one.trouble:
        return mark
    return one.until - HOLD if one.report.growing or one.report.held else one.until


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
