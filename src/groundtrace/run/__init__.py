"""The river: traces in, records, cards, scores out; and the report of what happened, which adds up.

A bad plan never starts a run: everything a plan names is opened before the first trace is read. A bad trace never
stops one: what it raises is counted and named. `run(plan) == sum(run(part) for part in plan.split(n))`.
"""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from groundtrace.run.life import Life
from groundtrace.run.river import Cut, River, Saw, Watch, survey
from groundtrace.run.writing import Passing
from groundtrace.tally import About, Report

if TYPE_CHECKING:
    from groundtrace.model import Record
    from groundtrace.plan import Plan
    from groundtrace.ports import Memory

__all__ = ["Report", "Watch", "look", "remembering", "run"]


def run(
    plan: Plan,
    *,
    memory: Memory | None = None,
    progress: Watch | None = None,
    stopping: Callable[[], bool] | None = None,
    run_id: str = "",
    cut: Cut | None = None,
    saw: Saw | None = None,
) -> Report:
    """Do what the plan says and report it. PlanError or PlatformError before anything starts; later trouble is told.

    With a store in the plan, or a `memory` that outlives the run, nothing is asked or written twice, and two runs at
    once share the work. `progress` is called from time to time. Once `stopping` says so, what is in flight finishes
    and the rest is left; a run killed or stopped goes on when the plan runs again. `run_id` names a run to go on with:
    PlanError where it goes on elsewhere. `cut` is told of every source that was not read and judged to its end,
    `saw` of every trace that is looked at.
    """
    begin = time.perf_counter()
    with remembering(plan, memory) as kept:
        river = River.opened(plan, kept or Passing(), progress=progress, stopping=stopping, cut=cut, saw=saw)
        started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        ident = run_id or _ident(plan, started)
        about = About(
            river.judges, (river.full or river.judge).kind, river.judge.limits, batch_id=ident, started=started
        )
        total = Report(about=about)
        if plan.dry_run:
            total += sum((survey(river, source) for source, _ in river.banks), Report())
        else:
            with Life(kept, ident, plan, again=bool(run_id)) as life, life.holds() if kept else nullcontext() as holds:
                for source, doors in river.banks:
                    total += river.flow(source, doors, total, holds)
                total = life.close(total, stopped=river.stopping())
        return total + Report(about=About(seconds=time.perf_counter() - begin))


def look(plan: Plan, see: Callable[[Record], None]) -> Report:
    """Read a plan's sources, show each record to `see`, and report; nothing is judged or written."""
    river = replace(River.opened(plan.model_copy(update={"dry_run": True}), Passing()), rubrics=())
    return sum((survey(river, source, see) for source, _ in river.banks), Report())


@contextmanager
def remembering(plan: Plan, memory: Memory | None) -> Iterator[Memory | None]:
    """The memory of a run: the one given, or the plan's store, open for as long as it takes."""
    if memory is not None or plan.store in (None, "none") or plan.dry_run:
        yield memory
        return
    from groundtrace.store import open_store

    where = None if plan.store == "default" else plan.store
    with open_store(where, keep_text=plan.keep_text) as store:
        store.probe()
        yield store


def _ident(plan: Plan, started: str) -> str:
    """What a run is called: as the plan says, else by when it began; a part of one, with which part it is."""
    name = plan.batch_id or f"{started}-{secrets.token_hex(2)}"
    return f"{name}/{plan.shard[0]}-of-{plan.shard[1]}" if plan.shard else name
