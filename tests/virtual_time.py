"""An event loop whose clock goes only while everything sleeps, and then at once: an hour passes in a millisecond.

For what has no sockets and no threads. Where nothing is ready and nothing is due any more, everything waits for ever:
that is raised as `Deadlock` instead of hanging.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

BEGAN = 1_800_000_000.0
"""What `VirtualLoop.wall` tells at the loop's time 0, in seconds since 1970."""


class Deadlock(Exception):
    """Everything waits, and nothing will ever happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Sleeping moves its time on and takes none."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._selector = self

    def time(self) -> float:
        """Seconds since it was made."""
        return self._now

    def wall(self) -> float:
        """Seconds since 1970."""
        return BEGAN + self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Called by the loop when it would wait for a socket: goes to what is due next."""
        if timeout is None:
            raise Deadlock
        self._now += timeout
        return []

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps who could be woken."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it to its end in a time of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def wall() -> float:
    """The running loop's time since 1970."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.wall()
