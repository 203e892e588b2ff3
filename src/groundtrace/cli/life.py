"""How a run is stopped and gone on with from the command line."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from groundtrace.errors import PlanError
from groundtrace.run.life import plan_of
from groundtrace.run.life import unfinished as cut_short
from groundtrace.store import open_store

if TYPE_CHECKING:
    from types import FrameType

    from groundtrace.plan import Plan


def where_of(store: str | None) -> str | None:
    """The place of a store as `open_store` takes it; PlanError where there is to be none."""
    store = store or os.environ.get("GROUNDTRACE_STORE")
    if store == "none":
        raise PlanError("store", store, "keeps nothing to look at", hint="name the store the run had")
    return None if store in (None, "default") else store


def unfinished(store: str | None, told: Sequence[str]) -> tuple[str, Plan] | None:
    """The run of a store that was cut short last, and its plan; None where every run came to its end."""
    if told:
        hint = "write groundtrace run --resume alone, with the --store it had"
        raise PlanError("resume", ", ".join(told), "stands beside --resume, which takes all from its run", hint=hint)
    where = where_of(store)
    with open_store(where) as memory:
        run = cut_short(memory)
    return None if run is None else (run.id, plan_of(run, where or "default"))


def command(plan: Plan) -> str:
    """The line that goes on with a run of this plan."""
    where = "" if plan.store in (None, "default") else f" --store {shlex.quote(str(plan.store))}"
    return "the same command (nothing was kept)" if plan.store == "none" else f"groundtrace run --resume{where}"


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C or SIGTERM came: the first lets what is in flight finish, a second stops at once."""
    asked: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt
        typer.echo("groundtrace: stopping; what is in flight finishes (Ctrl-C again stops at once)", err=True)
        sys.stderr.flush()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
