"""Hear a judge, but for the cases that need no asking: those are settled beside it, and none waits for long."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from groundtrace.model import Case, Reply
    from groundtrace.ports import Again, Judge

_WAITING = 512
"""Cases settled beside a judge that wait to be taken, at most; then it pulls no more until they are."""

Settle: TypeAlias = "Callable[[Case], tuple[Case, Reply | None]]"
"""A case and its reply, where there is one; else the case that the judge is asked instead."""


def hear(judge: Judge, cases: Iterable[Case], again: Again, settle: Settle) -> Iterator[tuple[Case, Reply]]:
    """Each case with its reply, settled or heard; `settle` runs where cases are pulled, one at a time."""
    source, settled = iter(cases), deque[tuple["Case", "Reply"]]()
    pulled, over = 0, False

    def left() -> Iterator[Case]:
        nonlocal pulled, over
        while len(settled) < _WAITING:
            case = next(source, None)
            if case is None:
                over = True
                return
            pulled += 1
            asked, reply = settle(case)
            if reply is None:
                yield asked
            else:
                settled.append((asked, reply))

    while not over:
        before = pulled
        for heard in judge.hear(left(), again):
            while settled:
                yield settled.popleft()
            yield heard
        while settled:
            yield settled.popleft()
        if pulled == before and not over:  # it wants no more
            return
