"""`groundtrace doctor`: what is well and what is not between here and sources, judges and where scores go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from groundtrace.cli import plain, printed
from groundtrace.errors import GroundtraceError
from groundtrace.model import Check
from groundtrace.plugins import load

if TYPE_CHECKING:
    from groundtrace.plan import Plan


_ITSELF = ": `groundtrace doctor` says more"
"""How refusals end that are not told by the doctor."""


def examine(plan: Plan, *, sources: bool, judge: bool) -> bool:
    """Look at what a plan names and print it, well or not; whether all is well."""
    out = printed.console()
    sound = True
    for check in _checks(plan, sources=sources, judge=judge):
        sound = sound and check.well
        mark, style = ("ok  ", "green") if check.well else ("bad ", "red")
        out.print(Text.assemble((mark, style), f"{plain(check.name)}: {plain(check.detail.replace(_ITSELF, ''))}"))
        if check.remedy and not check.well:
            out.print(Text(f"      {plain(check.remedy)}", "yellow"))
    return sound


def _checks(plan: Plan, *, sources: bool, judge: bool) -> Iterator[Check]:
    for spec in plan.sources if sources else ():
        yield from _heard(str(spec), load("source", spec).doctor)
    if judge:
        made = load("judge", plan.judge)
        ask = getattr(made, "doctor", None)
        yield from _heard(made.id, ask) if ask is not None else [Check(made.id, well=True, detail="needs nothing")]


def _heard(name: str, ask: Callable[[], Iterable[Check]]) -> list[Check]:
    """What something says of itself, or that it could not even say that."""
    try:
        return list(ask())
    except GroundtraceError as error:
        return [Check(name, well=False, detail=str(error))]
