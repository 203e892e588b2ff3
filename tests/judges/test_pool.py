"""A pool keeps every place busy, loses nothing and never hangs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.judges import pool
from groundtrace.model import Case, Reply
from groundtrace.testing import JudgeContract, ScriptedJudge, sample_case


class TestScriptedJudge(JudgeContract):
    """One place at a time."""

    def make(self) -> ScriptedJudge:
        return ScriptedJudge("{}")


class TestConcurrentJudge(JudgeContract):
    """Eight places."""

    def make(self) -> ScriptedJudge:
        return ScriptedJudge("{}", concurrency=8)


def _cases(count: int) -> Iterator[Case]:
    return (sample_case(slot=f"c{n}>p1") for n in range(count))


def _done(case: Case, reply: Reply) -> None:  # the gate is content
    return None


def test_a_slow_reply_costs_one_place_and_never_a_chunk() -> None:
    """One case takes until every other one is through: with a barrier anywhere this would hang."""
    others = threading.Semaphore(0)

    def ask(case: Case) -> Reply:
        if case.slot == "c5>p1":
            assert all(others.acquire(timeout=60) for _ in range(399))
        else:
            others.release()
        return Reply("{}", "judge")

    heard = [case.slot for case, _ in pool.hear(_cases(400), _done, ask, 4)]
    assert len(heard) == 400
    assert heard[-1] == "c5>p1"


def test_every_place_is_used() -> None:
    """As many cases are asked at once as there are places: with fewer this would hang."""
    together = threading.Barrier(16, timeout=60)

    def ask(case: Case) -> Reply:
        together.wait()
        return Reply("{}", "judge")

    assert len(list(pool.hear(_cases(160), _done, ask, 16))) == 160


@settings(deadline=None, max_examples=40)
@given(
    count=st.integers(0, 60),
    places=st.integers(1, 12),
    refused=st.sets(st.integers(0, 59)),
    slow_reader=st.booleans(),
)
def test_every_case_is_heard_once_whatever_is_asked_again(
    count: int, places: int, refused: set[int], *, slow_reader: bool
) -> None:
    """No deadlock and no loss: any number of cases, places and refusals, a reader that dawdles or not."""

    def again(case: Case, reply: Reply) -> Case | None:
        number = int(case.slot[1:].split(">")[0])
        return sample_case(slot=case.slot, remark="again") if number in refused and not case.remark else None

    asked: Counter[str] = Counter()
    lock = threading.Lock()

    def ask(case: Case) -> Reply:
        with lock:
            asked[case.slot] += 1
        return Reply("{}", "judge")

    heard = []
    for case, _ in pool.hear(_cases(count), again, ask, places):
        if slow_reader and len(heard) < 3:
            time.sleep(0.002)
        heard.append(case.slot)
    assert sorted(heard) == sorted(f"c{n}>p1" for n in range(count))
    assert all(asked[f"c{n}>p1"] == (2 if n in refused else 1) for n in range(count))


def test_what_the_stream_of_cases_raises_reaches_the_reader() -> None:
    """A platform that fails in mid-stream fails the run, not a thread nobody watches."""

    def stream() -> Iterator[Case]:
        yield from _cases(3)
        raise ConnectionError("platform gone")

    with pytest.raises(ConnectionError, match="platform gone"):
        list(pool.hear(stream(), _done, lambda case: Reply("{}", "judge"), 4))


def test_a_bug_in_asking_reaches_the_reader() -> None:
    """Nothing is swallowed."""

    def ask(case: Case) -> Reply:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(pool.hear(_cases(5), _done, ask, 3))


def test_a_reader_that_leaves_stops_the_judge() -> None:
    """Closing the stream asks nothing more and leaves no thread behind."""
    asked: list[str] = []

    def ask(case: Case) -> Reply:
        asked.append(case.slot)
        return Reply("{}", "judge")

    before = threading.active_count()
    heard = pool.hear(_cases(10_000), _done, ask, 4)
    next(heard)
    heard.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    assert len(asked) < 100


def test_a_reader_that_waits_slows_the_judge() -> None:
    """Replies nobody took yet are bounded."""
    asked: list[str] = []

    def ask(case: Case) -> Reply:
        asked.append(case.slot)
        return Reply("{}", "judge")

    heard = pool.hear(_cases(10_000), _done, ask, 4)
    next(heard)
    time.sleep(0.2)
    assert len(asked) <= 1 + 2 * 4 + 4
    heard.close()  # type: ignore[attr-defined]
