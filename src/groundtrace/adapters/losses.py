"""What was lost or left on the way from a platform, counted, for the report."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

Problem: TypeAlias = tuple[str, str]
"""What to say of one, and of several, with their number as `{n}`."""


class Losses:
    """Counts problems, and says them.

    >>> losses = Losses()
    >>> losses.add(("{n} row was torn", "{n} rows were torn"), 1_000)
    >>> losses.notes()
    ('1,000 rows were torn',)
    """

    def __init__(self) -> None:
        self._counts: Counter[Problem] = Counter()

    def add(self, problem: Problem, count: int = 1) -> None:
        """Count one more."""
        if count:
            self._counts[problem] += count

    def count(self, problem: Problem) -> int:
        """How many there were."""
        return self._counts[problem]

    def notes(self) -> tuple[str, ...]:
        """One line a problem."""
        return tuple((one if n == 1 else many).format(n=f"{n:,}") for (one, many), n in self._counts.items())
