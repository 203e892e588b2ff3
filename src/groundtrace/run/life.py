"""A run as the memory knows it: that it began, with which plan, how it ended; and how it goes on after it was cut."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from groundtrace.errors import GroundtraceError, PlanError
from groundtrace.model import dump
from groundtrace.plan import Plan
from groundtrace.run.holds import SECONDS, Holds
from groundtrace.tally import About, Report

if TYPE_CHECKING:
    from types import TracebackType

    from groundtrace.model import Run, RunState
    from groundtrace.ports import Memory


class Life:
    """One run from its begin to its end; one that is left by an error was interrupted. Without a memory it is nobody's.

    What a killed run could not say of its end is seen by who asks for it: its process is gone.
    """

    def __init__(self, memory: Memory | None, ident: str, plan: Plan, *, again: bool = False) -> None:
        self._memory, self._ident, self._plan, self._again = memory, ident, plan, again
        self._closed = self._alone = False

    def __enter__(self) -> Self:
        if self._memory is not None:
            from groundtrace.store import owner, run_key

            self._alone = self._memory.lease(run_key(self._ident), owner(self._ident), SECONDS)
            if self._again and not self._alone:
                hint = "what it leaves undone can be gone on with once it is over"
                raise PlanError("resume", self._ident, "goes on elsewhere", hint=hint)
            told = {"folder": str(Path.cwd()), "plan": json.loads(self._plan.model_dump_json())}
            self._memory.start_run(self._ident, json.dumps(told))
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self._memory is not None and not self._closed:
            with suppress(GroundtraceError):  # what ended the run is what to tell
                self._memory.end_run(self._ident, "interrupted")

    def holds(self) -> Holds:
        """The traces this run works on, in a memory others may share; and itself, which says that it lives."""
        if self._memory is None:
            raise PlanError("memory", None, "is needed to hold traces")
        from groundtrace.store import owner, run_key

        held = Holds(self._memory, owner(self._ident))
        if self._alone:
            held.keep(run_key(self._ident))
        return held

    def close(self, report: Report, *, stopped: bool) -> Report:
        """Note how the run ended; the report says whether there is something to go on with."""
        state: RunState = "interrupted" if stopped else "failed" if report.failed else "finished"
        report += Report(about=About(state=state))
        if self._memory is None:
            return report
        try:
            self._memory.end_run(self._ident, state, dump(report))
        except GroundtraceError as error:
            return replace(report, failed=tuple(dict.fromkeys((*report.failed, str(error)))))
        self._closed = True
        return report


def unfinished(memory: Memory) -> Run | None:
    """The run that was cut short last (stopped, killed, refused by a platform); one of this folder goes first."""
    cut = tuple(memory.runs("interrupted", "failed"))
    return next((run for run in cut if _folder(run) == str(Path.cwd())), next(iter(cut), None))


def _folder(run: Run) -> str | None:
    """Where a run began."""
    told = json.loads(run.plan or "{}").get("folder")
    return told if isinstance(told, str) else None


def plan_of(run: Run, store: str | None) -> Plan:
    """The plan a run began with, to be run again on this store; PlanError where its paths would name other things."""
    folder = _folder(run)
    if folder != str(Path.cwd()):
        raise PlanError("resume", run.id, f"was started in {folder}", hint=f"go there first: cd {folder}")
    return Plan.model_validate({**json.loads(run.plan)["plan"], "store": store})
