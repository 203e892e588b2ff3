"""What the judges of one run may cost together: past it, nothing more is asked, and the run can go on another day."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from groundtrace.errors import PlanError
from groundtrace.judges.around import Around

if TYPE_CHECKING:
    from groundtrace.model import Case, Reply
    from groundtrace.ports import Again, Judge


class Budget:
    """Counts what judges cost, in US dollars; without a cap nothing is counted.

    PlanError for a judge whose price is not known: a cap that can't be kept is none.
    """

    def __init__(self, cap: float | None) -> None:
        self._cap, self._spent = cap, 0.0
        self._lock = threading.Lock()

    @property
    def is_spent(self) -> bool:
        """Whether the cap is reached."""
        return self._cap is not None and self._spent >= self._cap

    @property
    def notes(self) -> tuple[str, ...]:
        """That it was spent, for the report."""
        if not self.is_spent:
            return ()
        return (f"stopped asking: {self._spent:.4f} US dollars were spent, max_cost is {self._cap:g}",)

    def watching(self, judge: Judge) -> Judge:
        """The judge, with what its replies cost counted here."""
        if self._cap is None or judge.kind == "offline":
            return judge
        if not getattr(judge, "priced", True):
            hint = "give it: input_price and output_price, in US dollars a million tokens, as options of the judge"
            raise PlanError("max_cost", self._cap, f"can't be kept: the price of {judge.id} is not known", hint=hint)
        return _Watched(judge, self)

    def count(self, reply: Reply) -> None:
        """Add what a reply cost."""
        if reply.cost and not reply.cached:
            with self._lock:
                self._spent += reply.cost


class _Watched(Around):
    """A judge whose replies are counted as they come."""

    def __init__(self, judge: Judge, budget: Budget) -> None:
        super().__init__(judge)
        self._budget = budget

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its last reply."""

        def counted(case: Case, reply: Reply) -> Case | None:
            self._budget.count(reply)
            return again(case, reply)

        yield from self._judge.hear(cases, counted)
