"""What comes in one turn goes on together; the loop and its reader take turns, and neither ever stops the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from groundtrace.judges.llm.loop import Ask, hear
from groundtrace.model import Case, Reply
from groundtrace.testing import sample_case


@asynccontextmanager
async def _session() -> AsyncIterator[Ask]:
    async def ask(_: Case) -> Reply:
        await asyncio.sleep(0.001)
        return Reply("{}", "judge")

    yield ask


def test_a_reader_that_takes_its_time_does_not_stop_the_judge() -> None:
    """While it holds one case, the judge goes on for as long as there is room: were it waited for, this would hang."""
    pulled = threading.Semaphore(0)

    def cases() -> Iterator[Case]:
        for n in range(40):
            pulled.release()
            yield sample_case(slot=f"c{n}>p1")

    going = hear(cases(), lambda _, __: None, _session, 4)
    first, _ = next(iter(going))
    for _ in range(8):  # twice as many as places
        assert pulled.acquire(timeout=60)
    heard = [first.slot, *(case.slot for case, _ in going)]
    assert sorted(heard) == sorted(f"c{n}>p1" for n in range(40))


def test_what_was_heard_before_it_is_late_is_given_whole() -> None:
    """Replies that passed the gate while the reader was busy elsewhere are paid for, and no more are asked."""
    passed = threading.Semaphore(0)

    def gate(_: Case, __: Reply) -> None:
        passed.release()

    late = threading.Event()
    going = hear((sample_case(slot=f"c{n}>p1") for n in range(40)), gate, _session, 4, late.is_set)
    next(iter(going))
    for _ in range(8):
        assert passed.acquire(timeout=60)
    late.set()
    assert 8 <= 1 + sum(1 for _ in going) < 40


def test_a_reader_that_leaves_is_not_waited_for() -> None:
    """It closes what it reads in the middle of its turn; no thread is left."""
    threads = threading.active_count()
    going = hear((sample_case(slot=f"c{n}>p1") for n in range(40)), lambda _, __: None, _session, 4)
    next(iter(going))
    going.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads


def test_what_the_gate_raises_is_raised_to_the_reader() -> None:
    """On the third reply of many; the others' places do not hang."""
    looked_at: list[str] = []

    def again(case: Case, _: Reply) -> None:
        looked_at.append(case.slot)
        if len(looked_at) == 3:
            raise StopIteration("no more")

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(hear((sample_case(slot=f"c{n}>p1") for n in range(40)), again, _session, 8))
    assert len(looked_at) == 3


def test_what_is_asked_again_keeps_its_place() -> None:
    """Every case once more, in the place it has: never more are asked at once, and each is heard once."""
    asked, most = 0, 0

    @asynccontextmanager
    async def session() -> AsyncIterator[Ask]:
        async def ask(_: Case) -> Reply:
            nonlocal asked, most
            asked += 1
            most = max(most, asked)
            await asyncio.sleep(0.001)
            asked -= 1
            return Reply("{}", "judge")

        yield ask

    def again(case: Case, _: Reply) -> Case | None:
        return None if case.remark else sample_case(slot=case.slot, remark="again")

    heard = [case for case, _ in hear((sample_case(slot=f"c{n}>p1") for n in range(40)), again, session, 8)]
    assert sorted(case.slot for case in heard) == sorted(f"c{n}>p1" for n in range(40))
    assert all(case.remark for case in heard)
    assert most == 8


class Turns:
    """A gate that keeps what it hears at the end of a turn; `breaks` is the turn (from 1) whose keeping fails."""

    def __init__(self, breaks: int = 0) -> None:
        self.breaks, self.turns = breaks, 0
        self.said: list[str] = []
        self.kept: list[str] = []

    def __call__(self, case: Case, _: Reply) -> None:
        """It is done."""
        self.said.append(case.slot)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is said inside is kept at the end."""
        self.turns += 1
        yield
        if self.turns == self.breaks:
            raise OSError("disk full")
        self.kept += self.said
        self.said = []


def test_what_came_in_one_turn_is_kept_in_one_step_before_anybody_hears_of_it() -> None:
    """Eight that are answered at the same moment make one turn, not eight."""
    gate = Turns()
    for case, _ in hear((sample_case(slot=f"c{n}>p1") for n in range(40)), gate, _session, 8):
        assert case.slot in gate.kept
    assert sorted(gate.kept) == sorted(f"c{n}>p1" for n in range(40))
    assert gate.turns < 40


def test_a_turn_that_could_not_be_kept_is_handed_to_nobody() -> None:
    """The reader hears of the trouble instead, and no place hangs."""
    gate, heard = Turns(breaks=2), list[str]()
    going = hear((sample_case(slot=f"c{n}>p1") for n in range(40)), gate, _session, 8)
    with pytest.raises(OSError, match="disk full"):
        heard.extend(case.slot for case, _ in going)
    assert heard == gate.kept
    assert gate.said


def test_its_reader_is_told_while_nothing_is_heard() -> None:
    """In the reader's thread, before the answer that is waited for: this one comes only after that."""
    told: list[int] = []
    silent = threading.Event()

    @asynccontextmanager
    async def session() -> AsyncIterator[Ask]:
        async def ask(_: Case) -> Reply:
            await asyncio.to_thread(silent.wait, 60)
            return Reply("{}", "judge")

        yield ask

    def idle() -> None:
        told.append(threading.get_ident())
        silent.set()

    assert len(list(hear([sample_case()], lambda _, __: None, session, 4, idle=idle))) == 1
    assert {*told} == {threading.get_ident()}
