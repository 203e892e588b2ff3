"""A pool of threads that keeps every place of a judge busy, however unevenly its replies come.

Each thread pulls a case, asks, puts the reply to the gate and, where the gate wants the case asked again, asks it
again in the same place. No thread waits for another's reply, so one slow reply costs one place and never a chunk.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from groundtrace.model import Case, Reply
    from groundtrace.ports import Again

Heard: TypeAlias = "tuple[Case, Reply]"


def hear(cases: Iterable[Case], again: Again, ask: Callable[[Case], Reply], concurrency: int) -> Iterator[Heard]:
    """Ask every case with at most `concurrency` asked at once; yield each with its last reply as they finish.

    `ask` turns trouble into a Reply with a `fault`; anything it raises ends the stream and is raised here, as is
    what `cases` raises. Closing the iterator lets what is in flight finish unheard and stops. At most twice
    `concurrency` heard cases wait to be taken, so a slow reader slows the judge instead of filling the memory.
    """
    pool = _Pool(iter(cases), again, ask=ask, concurrency=max(1, concurrency))
    try:
        yield from pool.heard()
    finally:
        pool.stop()


class _Pool:
    def __init__(self, cases: Iterator[Case], again: Again, *, ask: Callable[[Case], Reply], concurrency: int) -> None:
        self._cases = cases
        self._again = again
        self._ask = ask
        self._one_at_a_time = threading.Lock()
        self._room = threading.Semaphore(2 * concurrency)
        self._stopped = threading.Event()
        self._done: queue.SimpleQueue[Heard | BaseException | None] = queue.SimpleQueue()
        # In the context of who hears: what is asked inside a tracer's "leave me alone" is left alone.
        self._threads = [
            threading.Thread(target=copy_context().run, args=(self._work,), name=f"judge-{n}", daemon=True)
            for n in range(concurrency)
        ]

    def heard(self) -> Iterator[Heard]:
        for thread in self._threads:
            thread.start()
        working = len(self._threads)
        while working:
            item = self._done.get()
            if item is None:
                working -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                self._room.release()
                yield item

    def stop(self) -> None:
        """End the threads: none pulls another case; those waiting for room are let go."""
        self._stopped.set()
        for _ in self._threads:
            self._room.release()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _work(self) -> None:
        try:
            while (case := self._next()) is not None:
                self._done.put(self._settle(case))
        except BaseException as error:  # noqa: BLE001 - carried to the reader's thread and raised there
            self._stopped.set()
            self._done.put(error)
        finally:
            self._done.put(None)

    def _next(self) -> Case | None:
        """The next case, once there is room for its reply; None when there is none or the pool stops."""
        self._room.acquire()
        with self._one_at_a_time:
            case = None if self._stopped.is_set() else next(self._cases, None)
        if case is None:
            self._room.release()
        return case

    def _settle(self, case: Case) -> Heard:
        """Ask until the gate is content."""
        while True:
            reply = self._ask(case)
            with self._one_at_a_time:
                repeat = self._again(case, reply)
            if repeat is None or self._stopped.is_set():
                return case, reply
            case = repeat
