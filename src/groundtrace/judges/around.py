"""What a judge made of another one says of itself: its own business, and for the rest the other's word."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundtrace.ports import Judge

_PASSED_ON = ("notes", "doctor", "check", "priced", "price", "stop_when", "cut_when", "when_idle", "trouble", "traces")
"""What a judge may have beyond the port: it is had of the one inside, or not at all."""


class Around:
    """A judge around another; `told` is what it adds to the id, where it can change a reply."""

    def __init__(self, judge: Judge, told: str = "") -> None:
        self._judge = judge
        self.id = f"{judge.id},{told}" if told else judge.id
        self.kind, self.limits = judge.kind, judge.limits
        for name in _PASSED_ON:
            if hasattr(judge, name):
                setattr(self, name, getattr(judge, name))

    def unassessed(self, rubric: str) -> frozenset[str]:
        """The judge's own word."""
        return self._judge.unassessed(rubric)
