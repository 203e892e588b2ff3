"""How much depends on a record: by the plan's default, its tags and slices, or a function of the user's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from groundtrace.plan import Risks
from groundtrace.plugins import function
from groundtrace.run.isolated import Isolated

if TYPE_CHECKING:
    from groundtrace.model import Record
    from groundtrace.plan import Plan


class Weighing:
    """Says how risky a record is; PlanError where the plan's function can't be had.

    Of several answers "high" stands, the record's own too. `tell` hears of a function that broke on a record: what it
    could not weigh is high.
    """

    def __init__(self, plan: Plan, tell: Callable[[str], None]) -> None:
        self._rules = plan.risk if isinstance(plan.risk, Risks) else Risks(default=plan.risk)
        self._predicate = function(self._rules.predicate) if self._rules.predicate else None
        self._tell = tell

    def weighed(self, record: Record) -> Record:
        """The record with the risk the plan gives it."""
        return record if record.risk == "high" or not self._is_high(record) else record.model_copy(update=_HIGH)

    def _is_high(self, record: Record) -> bool:
        rules = self._rules
        named = [rules.tags.get(tag) for tag in record.tags]
        named += [rules.slices.get(f"{name}={value}") for name, value in record.slices.items()]
        if "high" in named:
            return True
        if self._predicate is not None:
            said: list[object] = []
            with Isolated(f"risk of record {record.id} could not be told, so it is high", self._tell):
                said.append(self._predicate(record))
            if not said or said[0] is True or said[0] == "high":
                return True
        return rules.default == "high" and "normal" not in named


_HIGH = {"risk": "high"}


def same_model(judge: str, generator: str) -> bool:
    """Whether a judge's id names the model that wrote an answer; dates at the end of a model's name aside.

    >>> same_model("openai:gpt-5.2,temperature=0", "gpt-5.2-2026-01-01"), same_model("openai:gpt-5.2", "gpt-5.2-mini")
    (True, False)
    >>> same_model("openai:llama3.1:8b", "llama3.1:8b"), same_model("openai:qwen3:8b", "llama3.1:8b")
    (True, False)
    """
    if not (judge and generator):
        return False
    provider, _, model = re.split(r"[,@?]", judge, maxsplit=1)[0].partition(":")
    told = {_bare(generator), _bare(generator.partition(":")[2])}  # a generator may be told with its provider too
    return _bare(model or provider) in told


def _bare(model: str) -> str:
    """A model without the path it is under and without the date of its version; a tag after a colon is its own."""
    name = model.strip().lower().rpartition("/")[2]
    return re.sub(r"(?:-(?:\d{8}|\d{4}-\d{2}-\d{2})|[-:]latest)$", "", name)
