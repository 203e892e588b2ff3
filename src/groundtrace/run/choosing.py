"""Which traces a run looks at, why it passes over the others, and what it may still spend today."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from groundtrace.plugins import function
from groundtrace.run.isolated import Isolated
from groundtrace.sampling import Sampling, sample
from groundtrace.tally import COST_CAP

if TYPE_CHECKING:
    from typing import Self

    from groundtrace.model import Ref, Signal
    from groundtrace.plan import Plan
    from groundtrace.ports import Judge, Memory

UNPICKED = "not in the sample"
OUR_OWN = "left by our own judges"


class Choosing:
    """What a plan says of which traces are looked at; the same for all its sources."""

    def __init__(self, told: Sampling, purse: Purse) -> None:
        self._told, self.purse = told, purse
        self._predicate: Callable[..., object] | None = function(told.predicate) if told.predicate else None
        self.patient = told.errors or self._predicate is not None
        """Whether a trace's errors are asked for, which are known once the whole trace is."""

    @classmethod
    def of(cls, plan: Plan, judges: Iterable[Judge], memory: Memory) -> Self:
        """As the plan says; PlanError where its predicate can't be had."""
        told = plan.sample if isinstance(plan.sample, Sampling) else Sampling(share=plan.sample)
        paid = [judge.id for judge in judges if judge.kind != "offline"]  # what is judged here is judged for nothing
        return cls(told, Purse(memory, told.max_cost_per_day, paid))

    def why_not(
        self, ref: Ref, signals: tuple[Signal, ...], default_share: float, tell: Callable[[str], None]
    ) -> str | None:
        """Why a trace is passed over, or None; `tell` hears of a predicate that broke on it: then it is looked at."""
        share = default_share if self._told.share is None else self._told.share
        picked = sample(share, errors=self._told.errors)(ref, signals) or self._wanted(ref, signals, tell)
        return UNPICKED if not picked else COST_CAP if self.purse.is_empty() else None

    def why_not_late(self, ref: Ref, signals: tuple[Signal, ...], tell: Callable[[str], None]) -> str | None:
        """As `why_not`, of a trace that only what its user said can bring back."""
        picked = any(signal.negative for signal in signals) or self._wanted(ref, signals, tell)
        return UNPICKED if not picked else COST_CAP if self.purse.is_empty() else None

    def _wanted(self, ref: Ref, signals: tuple[Signal, ...], tell: Callable[[str], None]) -> bool:
        if self._predicate is None:
            return False
        with Isolated(f"the predicate {self._told.predicate} broke, so trace {ref.trace_id} is looked at", tell):
            return bool(self._predicate(ref, signals))
        return True


class Purse:
    """What may be spent on these judges in a day, in US dollars, and whether it was, by all runs on one memory."""

    def __init__(self, memory: Memory, cap: float | None, judges: Sequence[str]) -> None:
        self._memory, self._judges = memory, judges
        self._cap = cap if judges else None
        self._emptied = ""
        self.notes: tuple[str, ...] = ()
        """Why no more traces were taken, for the report."""

    @property
    def capped(self) -> bool:
        """Whether there is an end to it."""
        return self._cap is not None

    def is_empty(self) -> bool:
        """Whether no more may be spent today (UTC): the cap is reached, or what was spent is not known."""
        if self._cap is None:
            return False
        today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0).isoformat()
        if self._emptied != today:
            costs = {judge: self._memory.spent(today, judge) for judge in self._judges}
            free = next((judge for judge, cost in costs.items() if cost is None), None)
            spent = sum(cost or 0.0 for cost in costs.values())
            if free is not None:
                why = f"the replies of judge {free} have no price, so max_cost_per_day can't be kept"
            elif spent >= self._cap:
                why = f"{spent:.2f} US dollars were spent today (UTC), max_cost_per_day is {self._cap:.2f}"
            else:
                return False
            self._emptied = today
            self.notes = (*self.notes, f"took no more traces: {why}")
        return True
