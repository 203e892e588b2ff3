"""How a run is stopped and gone on with from the command line."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from groundtrace.errors import PlanError
from groundtrace.plan.words import refuse_secrets
from groundtrace.run.life import plan_of
from groundtrace.run.life import unfinished as cut_short
from groundtrace.store import open_store
from groundtrace.store.address import address_of

if TYPE_CHECKING:
    from types import FrameType

    from groundtrace.model import Run
    from groundtrace.plan import Plan
    from groundtrace.store import Store


def where_of(store: str | None) -> str | None:
    """The place of a store as `open_store` takes it; PlanError where there is to be none, or it holds a password."""
    store = store or os.environ.get("GROUNDTRACE_STORE")
    if store == "none":
        raise PlanError("store", store, "keeps nothing to look at", hint="name the store the run had")
    refuse_secrets(store, "store")
    return None if store in (None, "default") else store


@contextmanager
def opened(where: str | None, *, keep_text: bool = True) -> Iterator[Store | None]:
    """The store of earlier runs, to be looked into; None where there was none yet in its usual place."""
    place = where_of(where)
    path = address_of(place).path
    if path is not None and not path.exists():
        if place is not None:
            raise PlanError("store", place, "is not there", hint="name the store the run had")
        yield None
        return
    with open_store(place, keep_text=keep_text) as store:
        yield store


def unfinished(store: str | None, told: Sequence[str]) -> tuple[str, Plan] | None:
    """The run of a store that was cut short last, and its plan; None where there is none, which is said."""
    if told:
        hint = "write groundtrace run --resume alone, with the --store it had"
        raise PlanError("resume", ", ".join(told), "stands beside --resume, which takes all from its run", hint=hint)
    with opened(store) as memory:
        run = cut_short(memory) if memory else None
        running = memory.runs("running") if memory and not run else ()
    if run is not None:
        return run.id, plan_of(run, where_of(store) or "default")
    typer.echo(f"groundtrace: nothing to resume: {_elsewhere(running)}", err=True)
    return None


def _elsewhere(running: Sequence[Run]) -> str:
    """Why there is nothing to resume."""
    if not running:
        return "every run in this store came to its end"
    last = f"{running[0].id}, begun {running[0].started}"
    said = f"run {last}, says that it is running" if len(running) == 1 else ""
    return f"{said or f'{len(running)} runs say that they are running, the last {last}'}, here or on another machine"


def command(plan: Plan, run_id: str = "") -> str:
    """The line that goes on with a run of this plan, and which run that is, begun in this folder."""
    if plan.store == "none":
        return "the same command (nothing was kept)"
    where = "" if plan.store in (None, "default") else f" --store {shlex.quote(str(plan.store))}"
    return f"groundtrace run --resume{where}" + (f" (run {run_id}, in {Path.cwd()})" if run_id else "")


class Asked:
    """Whether we were asked to stop, called; `by` holds the numbers of the signals that came."""

    def __init__(self) -> None:
        self.by: list[int] = []

    def __call__(self) -> bool:
        """Whether to stop."""
        return bool(self.by)

    @property
    def code(self) -> int:
        """What a command that only ends when it is asked to ends with: SIGTERM is how a service is ended."""
        return 130 if signal.SIGINT in self.by else 0


@contextmanager
def stoppable(how: str = "") -> Iterator[Asked]:
    """Whether Ctrl-C or SIGTERM came: the first lets what is in flight finish, a second stops at once.

    A second raises KeyboardInterrupt, which says how the run is gone on with.
    """
    asked = Asked()

    def stop(number: int, _: FrameType | None) -> None:
        asked.by.append(number)
        if len(asked.by) > 1:
            raise KeyboardInterrupt(how)
        typer.echo("groundtrace: stopping; what is in flight finishes (Ctrl-C again stops at once)", err=True)
        sys.stderr.flush()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
