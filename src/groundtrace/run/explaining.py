"""How the traces of a plan were read: for a person who asks why one was read so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from groundtrace.errors import PlanError
from groundtrace.plugins import load
from groundtrace.read import heard, read
from groundtrace.read.explain import Explained, explain
from groundtrace.run.reading import resolver

if TYPE_CHECKING:
    from groundtrace.model import Ref, Signal
    from groundtrace.plan import Plan

_MOST = 5
"""Traces that are explained; more begin alike only where the start of an id is short."""


def explanations(plan: Plan, start: str) -> Iterator[Explained]:
    """How each trace was read whose id starts so; PlanError where there is none. Nothing is judged or written."""
    wanted = start.strip().lower()
    if not wanted:
        raise PlanError("explain", start, "is no id of a trace", hint="write its id, or the start of it")
    conventions = plan.vocabularies()
    passages = resolver(plan, lambda _: None)
    found = 0

    def choose(ref: Ref, signals: tuple[Signal, ...]) -> bool:  # noqa: ARG001 - the port's parameter
        return ref.trace_id.lower().startswith(wanted)

    for spec in plan.sources:
        for trace in load("source", spec).traces(plan.window, choose):
            found += 1
            if found > _MOST:
                return
            records = read(trace, conventions, kind=plan.kind, passages=passages)
            yield explain(trace, heard(trace, conventions, passages), records)
    if not found:
        hint = "write its id, or the start of it, as `groundtrace show` prints it"
        raise PlanError("explain", start, "is the id of no trace there", hint=hint)
