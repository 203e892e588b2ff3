"""The memory of one process keeps the port's promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groundtrace.memory import InMemory
from groundtrace.testing import MemoryContract

if TYPE_CHECKING:
    from groundtrace.ports import Memory


class TestInMemory(MemoryContract):
    """The contract every memory is held to."""

    def make(self) -> Memory:
        return InMemory()


def test_a_lease_runs_out() -> None:
    """A worker that died does not block its work for ever."""
    now = [0.0]
    memory = InMemory(clock=lambda: now[0])
    assert memory.lease("work", "a", 10)
    now[0] = 9.9
    assert not memory.lease("work", "b", 10)
    now[0] = 10.1
    assert memory.lease("work", "b", 10)
