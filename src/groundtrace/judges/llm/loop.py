"""Hears cases in an event loop of its own thread: every place is kept busy, and nothing is left behind.

A worker a place pulls a case, asks, puts the reply to the gate and, where that wants the case asked again, asks again
in the same place. Pulling and the gate run in the loop's thread, one at a time. At most twice as many heard cases as
places wait to be taken, so a slow reader slows the judge instead of filling the memory.

What came in one turn of the loop goes through the gate together, is kept together and goes to the reader together:
many times the same step costs less than as many times all steps. Once the places that came free are asked again the
reader has its turn: one interpreter can't run both, and where both want it they cost each other a tenth of all they do.
A reader that is slow, for a platform it writes to, is not waited for.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from groundtrace.model import Case, Reply
    from groundtrace.ports import Again

Heard: TypeAlias = "tuple[Case, Reply]"
Ask: TypeAlias = "Callable[[Case], Awaitable[Reply]]"
_Word: TypeAlias = "tuple[Case | None, BaseException | None]"
"""The gate's word on a reply: the case to ask again, or None; or what it raised."""
_Came: TypeAlias = "tuple[Case, Reply, asyncio.Future[_Word]]"
"""A reply, and who waits for the gate's word on it."""
_Passed: TypeAlias = "tuple[Case, Reply, asyncio.Future[_Word], Case | None]"
"""The same with the gate's word: the case to ask again, or None."""
Session: TypeAlias = "Callable[[], AbstractAsyncContextManager[Ask]]"
"""Opens what the calls need inside the loop, gives what asks a case, and closes it in the end."""

_LOOK = 0.2
"""Seconds between two looks whether it is to end."""

_TAKEN = 8
"""Heard cases that are taken before their room is given back: the loop is woken once for all of them."""

_TURN = 0.02
"""Seconds the loop leaves to the reader, at most, to take what it was handed."""


def hear(
    cases: Iterable[Case],
    again: Again,
    session: Session,
    concurrency: int,
    late: Callable[[], bool] = lambda: False,
    *,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[Heard]:
    """Each case with its last reply, as they finish; what `cases`, `again` or `session` raise is raised here.

    Closing the iterator cancels what is in flight and waits until no task and no thread is left; so does `late`, which
    is asked all the time: what was in flight then has no reply. `idle` is called in the reader's thread, a few times a
    second, while nothing is heard.
    """
    hearing = _Hearing(iter(cases), again, session=session, concurrency=max(1, concurrency))
    try:
        yield from hearing.heard(late, idle)
    finally:
        hearing.stop()


class _Hearing:
    def __init__(self, cases: Iterator[Case], again: Again, *, session: Session, concurrency: int) -> None:
        self._cases, self._again, self._session = cases, again, session
        self._concurrency = concurrency
        self._done: queue.SimpleQueue[list[Heard] | BaseException | None] = queue.SimpleQueue()
        self._together = getattr(again, "together", nullcontext)
        self._came: list[_Came] = []
        """The replies of this turn of the loop."""
        self._waiting = threading.Event()
        """Whether the reader waits for more."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._stopped = threading.Event()
        self._left: int | None = None
        """How much of what was handed over is still to be taken, once it is late."""
        # In the context of who hears: what is asked inside a tracer's "leave me alone" is left alone.
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name="judge", daemon=True)

    def heard(self, late: Callable[[], bool], idle: Callable[[], None]) -> Iterator[Heard]:
        self._thread.start()
        taken = 0
        while (items := self._next(late, idle)) is not None:
            if isinstance(items, BaseException):
                raise items
            for item in items:
                taken += 1
                if taken >= min(_TAKEN, self._concurrency):
                    self._make_room(taken)
                    taken = 0
                yield item

    def _next(self, late: Callable[[], bool], idle: Callable[[], None]) -> list[Heard] | BaseException | None:
        """What was heard, or how it ended; None as well once it is late and nothing that was heard is left."""
        if self._done.empty():
            self._waiting.set()
        while not late():
            try:
                return self._done.get(timeout=_LOOK)
            except queue.Empty:
                idle()
        if self._left is None:
            self._left = self._done.qsize()
        self._left -= 1
        return self._done.get_nowait() if self._left >= 0 else None

    def stop(self) -> None:
        """End the thread: what is in flight is cancelled."""
        self._stopped.set()
        self._waiting.set()
        if self._loop is not None and self._main is not None and not self._loop.is_closed():
            self._call(self._main.cancel)
        if self._thread.ident is not None:
            self._thread.join()

    def _call(self, what: Callable[[], object]) -> None:
        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop has just come to its end
            return

    def _make_room(self, places: int) -> None:
        def release() -> None:
            for _ in range(places):
                self._room.release()

        self._call(release)

    def _run(self) -> None:
        try:
            asyncio.run(self._all())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - carried to the reader's thread and raised there
            self._done.put(error)
        finally:
            self._done.put(None)

    async def _all(self) -> None:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.current_task()
        self._room = asyncio.Semaphore(2 * self._concurrency)
        if self._stopped.is_set():
            return
        async with self._session() as ask:
            workers = [asyncio.create_task(self._work(ask)) for _ in range(self._concurrency)]
            try:
                await _together(workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, ask: Ask) -> None:
        while True:
            await self._room.acquire()
            case = None if self._stopped.is_set() else next(self._cases, None)
            if case is None:
                self._room.release()
                return
            while True:
                repeat, error = await self._word_on(case, await ask(case))
                if error is not None:
                    raise error
                if repeat is None or self._stopped.is_set():
                    break
                case = repeat

    def _word_on(self, case: Case, reply: Reply) -> asyncio.Future[_Word]:
        """What the gate says of a reply, once it heard all that came in this turn of the loop."""
        loop = asyncio.get_running_loop()
        if not self._came:
            loop.call_soon(self._gate)
        word: asyncio.Future[_Word] = loop.create_future()
        self._came.append((case, reply, word))
        return word

    def _gate(self) -> None:
        """Put what came to the gate, and hand over what it is done with."""
        came, self._came = [one for one in self._came if not one[2].done()], []  # else its worker was ended
        heard: list[_Passed] = []
        failed: BaseException | None = None
        try:
            with self._together():
                failed = self._put(came, heard)
        except BaseException as error:  # noqa: BLE001 - what was heard in this turn is not kept, so nobody hears of it
            failed = error
            heard.clear()
        for _, _, word, repeat in heard:
            word.set_result((repeat, None))
        if failed is not None:  # raised by a worker, and so in the reader's thread
            for _, _, word in came[len(heard) :]:
                word.set_result((None, failed))
        over = self._stopped.is_set()
        self._hand_over([(case, reply) for case, reply, _, repeat in heard if repeat is None or over])

    def _put(self, came: Sequence[_Came], heard: list[_Passed]) -> BaseException | None:
        """Add to `heard` what the gate says of each, until it raises: then what it raised."""
        for case, reply, word in came:
            try:
                heard.append((case, reply, word, self._again(case, reply)))
            except BaseException as error:  # noqa: BLE001 - raised by the worker
                return error
        return None

    def _hand_over(self, ready: list[Heard]) -> None:
        """Give the reader what was heard, and its turn once the places that came free are asked again.

        They are two steps of the loop away: in the first they pull and ask, in the second their requests are written.
        """
        if not ready:
            return
        idle = self._waiting.is_set()
        self._waiting.clear()
        self._done.put(ready)
        if idle:
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._waiting.wait, _TURN)


async def _together(workers: Iterable[asyncio.Task[None]]) -> None:
    """Wait for all, or raise what the first raises."""
    done, _ = await asyncio.wait(list(workers), return_when=asyncio.FIRST_EXCEPTION)
    for worker in done:
        worker.result()
