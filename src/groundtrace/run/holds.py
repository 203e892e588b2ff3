"""The traces a run works on: while it does, no other run on the same memory judges or writes them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

from groundtrace.errors import GroundtraceError

if TYPE_CHECKING:
    from types import TracebackType

    from groundtrace.model import Ref
    from groundtrace.ports import Memory

SECONDS = 120.0
"""How long a trace stays ours without a word; on one machine the death of its run ends it at once."""


def key_of(ref: Ref) -> str:
    """What a trace is held under.

    >>> from groundtrace.model import Ref
    >>> key_of(Ref("otel", trace_id="a"))
    'trace:otel:a'
    """
    return f"trace:{ref.platform}:{ref.trace_id}"


class Holds:
    """Takes traces, keeps them while the run lives, gives them back; a context that gives back all that is left."""

    def __init__(self, memory: Memory, owner: str) -> None:
        self._memory, self._owner = memory, owner
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="holds", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
        try:
            self.release(list(self._until))
        except GroundtraceError as error:  # a hold ends by itself
            logging.getLogger(__name__).debug("holds could not be given back", exc_info=error)

    def keep(self, key: str) -> None:
        """Keep what its owner took already."""
        with self._lock:
            self._until[key] = time.monotonic() + SECONDS

    def take(self, key: str) -> bool:
        """Take a trace, or take it for longer; False where another run has it."""
        until = time.monotonic() + SECONDS
        if not self._memory.lease(key, self._owner, SECONDS):
            with self._lock:
                self._until.pop(key, None)
            return False
        with self._lock:
            self._until[key] = until
        return True

    def take_all(self, keys: Sequence[str]) -> list[bool]:
        """As `take`, of many: which of them are ours. In one order in all runs, for others wait until all are taken."""
        with self._memory.batch():
            ours = {key: self.take(key) for key in sorted(set(keys))}
        return [ours[key] for key in keys]

    def held(self, key: str) -> bool:
        """Whether a trace is still ours: asked before it is written, for a process may have slept too long."""
        with self._lock:
            until = self._until.get(key, 0.0)
        return time.monotonic() < until or self.take(key)

    def release(self, keys: Iterable[str]) -> None:
        """Give traces back; in the order all runs take them, so that of two none waits for the other for ever."""
        for key in sorted(keys):
            with self._lock:
                self._until.pop(key, None)
            self._memory.release(key, self._owner)

    def _beat(self) -> None:
        """Take again what is held, long before its time is over; trouble with the memory is told where it matters."""
        while not self._over.wait(SECONDS / 4):
            with self._lock:
                keys = list(self._until)
            for key in keys:
                with self._lock:
                    still = key in self._until
                try:
                    if still:
                        self._renew(key)
                except GroundtraceError as error:
                    logging.getLogger(__name__).debug("a hold could not be renewed", exc_info=error)

    def _renew(self, key: str) -> None:
        """Take a trace for longer; one that was given back meanwhile is given back again."""
        until = time.monotonic() + SECONDS
        mine = self._memory.lease(key, self._owner, SECONDS)
        with self._lock:
            kept = key in self._until
            if kept and mine:
                self._until[key] = until
            elif kept:
                self._until.pop(key)
        if mine and not kept:
            self._memory.release(key, self._owner)
