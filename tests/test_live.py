"""Work beside a host: groups are whole or let go, threads and processes outlive forks, nothing waits without end."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.live import BROKEN, Beat, Counts, harmless
from groundtrace.live.apart import Apart, Lost
from groundtrace.live.gathering import FULL, LATE, TOO_LARGE, UNFINISHED, Bounds, Gathering
from sent_there import broken, counting, doubling, warning


class Clock:
    """A clock that is set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def gathering(**bounds: Any) -> tuple[Gathering[str], Counts, Clock]:
    """A gathering with a clock of its own."""
    counts, clock = Counts(), Clock()
    return Gathering(Bounds(**{"settle": 2.0, "lifetime": 60.0, **bounds}), counts, clock), counts, clock


def test_a_group_is_over_a_while_after_its_last_part() -> None:
    """A child that begins late starts the wait anew, as long as it comes in time."""
    held, _, clock = gathering()
    assert held.begin(1, root=True)
    assert not held.begin(1, root=False)
    held.end(1, "root", 10, root=True)
    clock.now = 50
    assert held.due(9) == []
    held.end(1, "child", 10, root=False)
    clock.now = 51.5
    assert held.due(9) == []
    held.begin(1, root=False)
    held.end(1, "late child", 10, root=False)
    clock.now = 53.25
    assert held.due(9) == []
    clock.now = 53.5
    (group,) = held.due(9)
    assert group.parts == ["root", "child", "late child"]
    assert held.wait() is None


def test_what_comes_after_its_group_is_late_and_a_new_root_begins_a_new_one() -> None:
    """A child is counted; a service that is called again under the same id has a group of its own."""
    held, counts, clock = gathering()
    held.begin(1, root=True)
    held.end(1, "first", 1, root=True)
    clock.now = 2
    (first,) = held.due(9)
    held.begin(1, root=False)
    assert counts.told() == {LATE: 1}
    assert held.end(1, "late", 1, root=False) == ("late",)
    held.begin(1, root=True)
    held.end(1, "second", 1, root=True)
    clock.now = 4
    (second,) = held.due(9)
    assert (first.parts, second.parts) == (["first"], ["second"])


def test_a_group_that_grows_too_large_is_let_go_as_a_whole() -> None:
    """And what still comes of it is not held, until its last part came."""
    held, counts, clock = gathering(most_parts=2)
    held.begin(1, root=True)
    for name in ("a", "b", "c", "d"):
        held.begin(1, root=False)
        freed = held.end(1, name, 1, root=False)
        assert list(freed) == {"c": ["a", "b", "c"], "d": ["d"]}.get(name, [])
    assert counts.told() == {TOO_LARGE: 1}
    held.end(1, "root", 1, root=True)
    assert held.is_empty
    clock.now = 100
    assert held.due(9) == []


def test_where_there_is_no_room_the_newest_is_dropped() -> None:
    """Or the oldest that is over, where that is wanted."""
    for drop, kept in (("newest", ["a"]), ("oldest", ["b"])):
        held, counts, clock = gathering(held_parts=1, drop=drop)
        for key, name in ((1, "a"), (2, "b")):
            held.begin(key, root=True)
            held.end(key, name, 1, root=True)
        clock.now = 3
        assert [part for group in held.due(9) for part in group.parts] == kept
        assert counts.told() == {FULL: 1}


def test_what_is_never_over_is_let_go_after_its_lifetime() -> None:
    """With what it has; who takes it sees that its root is open."""
    held, counts, clock = gathering()
    held.begin(1, root=True)
    held.begin(1, root=False)
    held.end(1, "child", 1, root=False)
    clock.now = 60
    (group,) = held.due(9)
    assert (group.parts, group.roots) == (["child"], 1)
    assert held.is_empty
    assert counts.told() == {}


def test_a_signal_handler_may_do_what_it_interrupts() -> None:
    """It runs in the thread it interrupts: one that traces, or shuts a program down, must not wait for that thread."""
    script = """
import signal
from groundtrace.live import Counts
from groundtrace.live.gathering import Bounds, Gathering

counts = Counts()

def clock():
    signal.raise_signal(signal.SIGUSR1)
    return 0.0

def handler(*_):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    held.begin(2, root=True)
    held.end(2, "in the handler", 1, root=True)
    held.close()

held = Gathering(Bounds(), counts, clock)
signal.signal(signal.SIGUSR1, handler)
held.begin(1, root=True)
held.end(1, "root", 1, root=True)
print(sorted(part for group in held.hurry() for part in group.parts))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['in the handler', 'root']"


def test_closing_waits_for_nobody() -> None:
    """What has no root yet is let go; what has one is due at once, whatever else is open."""
    held, counts, _ = gathering()
    held.begin(1, root=True)
    held.begin(1, root=False)
    held.end(1, "of 1", 1, root=False)
    held.begin(2, root=True)
    held.begin(2, root=False)
    held.end(2, "of 2", 1, root=True)
    assert [group.parts for group in held.close()] == [["of 1"]]
    assert counts.told() == {UNFINISHED: 1}
    (group,) = held.hurry()
    assert group.parts == ["of 2"]
    assert held.wait() == 0
    assert held.due(9) == [group]
    held.release(group)
    assert group.done


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("besrd"), st.integers(1, 40)), max_size=120))
def test_every_part_leaves_once_and_the_bounds_hold(steps: list[tuple[int, str, int]]) -> None:
    """Whatever begins, ends and comes: held, freed or taken, never two of these, and never more than there is room."""
    held, _, clock = gathering(most_parts=3, most_bytes=60, held_parts=6, held_bytes=100, lifetime=9.0)
    left: list[int] = []
    for number, (key, step, size) in enumerate(steps):
        clock.now += 0.5
        before = len(left)
        if step == "b":
            held.begin(key, root=True)
        elif step in "es":
            left += held.put(key, number, size, last=step == "s")  # type: ignore[arg-type]
        elif step == "d":
            for group in held.due(2):
                left += group.parts  # type: ignore[arg-type]
                held.release(group)
        else:
            held.hurry()
        assert held._parts <= 6
        assert held._bytes <= 100
        assert len(left) >= before
    for group in held.close():
        left += group.parts  # type: ignore[arg-type]
    held.hurry()
    for group in held.due(99):
        left += group.parts  # type: ignore[arg-type]
        held.release(group)
    put = [number for number, (_, step, _) in enumerate(steps) if step in "es"]
    assert sorted(left) == put
    assert (held._parts, held._bytes) == (0, 0)


# --- the thread -------------------------------------------------------------------------------------------------------


class Steps:
    """Something to do, in a thread."""

    def __init__(self, work: Callable[[], float | None]) -> None:
        self.counts, self.taken = Counts(), 0
        self.work = work
        self.beat = Beat("steps", self.step, self.counts)

    def step(self) -> float | None:
        self.taken += 1
        return self.work()


def test_a_thread_sleeps_until_it_is_woken() -> None:
    """And starts with the first thing there is to do."""
    steps = Steps(lambda: None)
    assert threading.active_count() == len(threading.enumerate())
    assert not any(thread.name == "steps" for thread in threading.enumerate())
    for number in range(1, 4):
        steps.beat.wake()
        assert steps.beat.until(lambda number=number: steps.taken >= number, 10)
    steps.beat.close()


def test_what_a_step_raises_is_counted_and_the_thread_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """One line says so, however often it happens."""

    def broken() -> float | None:
        raise ValueError("no")

    steps = Steps(broken)
    steps.beat.wake()
    assert steps.beat.until(lambda: steps.counts.told().get(BROKEN, 0) >= 3, 10)
    steps.beat.close()
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


def test_waiting_ends_at_its_deadline() -> None:
    """Also where a step never ends."""
    never = threading.Event()
    steps = Steps(lambda: never.wait(60) and None)
    steps.beat.wake()
    began = time.monotonic()
    assert not steps.beat.until(lambda: False, 0.2)
    assert time.monotonic() - began < 10
    never.set()
    steps.beat.close()


def test_where_no_thread_can_be_had_who_waits_does_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of an interpreter."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    steps = Steps(lambda: None)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    steps.beat.wake()
    assert steps.taken == 0
    assert steps.beat.until(lambda: steps.taken >= 2, 10)


def test_a_harmless_method_raises_nothing() -> None:
    """What it raised is counted."""

    class Guest:
        def __init__(self) -> None:
            self._counts = Counts()

        @harmless
        def called(self, value: int, *, by: int = 1) -> float:
            """A division."""
            return value / by

    guest = Guest()
    assert (guest.called(4, by=2), guest.called(4, by=0), guest._counts.told()) == (2.0, None, {BROKEN: 1})
    assert Guest.called.__doc__ == "A division."


# --- the process ------------------------------------------------------------------------------------------------------


def one(apart: Apart[int, Any], value: int) -> Any:
    """The only answer of a call."""
    (said,) = apart(value)
    return said


@pytest.fixture
def apart() -> Any:
    """The function, in a process of its own."""
    made: Apart[int, Any] = Apart(doubling, patience=20)
    yield made
    made.close()


def test_calls_are_made_in_another_process(apart: Apart[int, Any]) -> None:
    """One process for all of them, without the host's instrumentation; what it prints is no answer."""
    apart.start()
    first = apart.pid
    assert [one(apart, n) for n in range(5)] == [0, 2, 4, 6, 8]
    assert apart.pid == first
    pid, disabled, arguments = one(apart, 99)
    assert pid == apart.pid != os.getpid()
    assert (disabled, arguments) == ("true", 1)
    assert len(one(apart, 3_000_000)) == 3_000_000


def test_what_the_function_raises_is_told_and_the_process_stays(apart: Apart[int, Any]) -> None:
    """Also what looks like trouble with a pipe."""
    one(apart, 1)
    pid = apart.pid
    with pytest.raises(Lost, match="OSError: not below zero"):
        one(apart, -1)
    assert (one(apart, 4), apart.pid) == (8, pid)


def test_what_is_warned_of_there_is_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    """By the logging of the program, before the answer is there."""
    apart: Apart[int, int] = Apart(warning, patience=20)
    answers = apart(3)
    assert next(answers) == 3
    assert [(r.name, r.levelname, r.getMessage()) for r in caplog.records] == [
        ("groundtrace.judges", "WARNING", "still waiting, for the 3. time")
    ]
    assert list(answers) == []
    apart.close()


def test_answers_come_one_by_one() -> None:
    """Those before a fault too; who stops listening does not get the rest with the next call."""
    apart: Apart[int, int] = Apart(counting, patience=20)
    assert list(apart(5)) == [0, 1, 2, 3, 4]
    assert list(apart(0)) == []
    pid, heard = apart.pid, list[int]()
    with pytest.raises(Lost, match="ValueError: 13"):
        heard.extend(apart(99))
    assert (heard, apart.pid) == (list(range(13)), pid)
    for number in apart(12):
        assert number == 0
        break
    assert list(apart(2)) == [0, 1]
    assert apart.pid not in (None, pid)
    apart.close()


def test_a_call_that_hangs_costs_itself_alone() -> None:
    """Its process is killed, the next call has a new one."""
    apart: Apart[int, Any] = Apart(doubling, patience=20)
    assert one(apart, 1) == 2
    apart._patience = 0.2
    with pytest.raises(Lost, match=r"took longer than 0\.2 seconds"):
        one(apart, 13)
    apart._patience = 20
    assert one(apart, 2) == 4
    with pytest.raises(Lost, match="its process ended"):
        one(apart, 14)
    assert one(apart, 3) == 6
    apart.close()


def test_a_process_that_never_begins_is_not_waited_for() -> None:
    """A plugin may hang while it is loaded; the next call tries again."""
    apart: Apart[int, Any] = Apart(functools.partial(time.sleep, 600), patience=20, starting=0.2)
    for _ in range(2):
        with pytest.raises(Lost, match=r"did not begin within 0\.2 seconds"):
            one(apart, 1)
        assert apart.pid is None
    apart.close()


def test_closing_ends_a_call_on_its_way(apart: Apart[int, Any]) -> None:
    """And no more are taken."""
    assert one(apart, 1) == 2
    said: list[str] = []

    def call() -> None:
        try:
            one(apart, 13)
        except Lost as lost:
            said.append(str(lost))

    thread = threading.Thread(target=call)
    thread.start()
    while not apart._calling.locked():
        time.sleep(0.01)
    apart.close()
    thread.join(10)
    assert said == ["closed"]
    with pytest.raises(Lost, match="closed"):
        one(apart, 1)
    assert apart.pid is None


def test_what_cannot_be_made_there_is_said() -> None:
    """With each call, and no process is left."""
    apart: Apart[int, Any] = Apart(broken, patience=20)
    for _ in range(2):
        with pytest.raises(Lost, match="ImportError: no such module"):
            one(apart, 1)
    assert apart.pid is None


def test_where_no_process_can_be_started_it_is_done_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the interpreter is built into another program; said once."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    apart: Apart[int, Any] = Apart(doubling, patience=20)
    assert (one(apart, 2), one(apart, 3), apart.pid) == (4, 6, None)
    assert len([record for record in caplog.records if "no process" in record.message]) == 1


def test_what_cannot_go_there_is_done_here() -> None:
    """A function that is of no module."""
    apart: Apart[int, Any] = Apart(lambda: lambda value: [value + 1], patience=20)
    assert (one(apart, 1), apart.pid) == (2, None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_leaves_the_process_to_its_parent() -> None:
    """The child makes one of its own and the parent's goes on; when the parent is killed its process ends."""
    script = """
    import os, sys, time
    sys.path.insert(0, %r)
    from test_live import doubling, one
    from groundtrace.live.apart import Apart
    apart = Apart(doubling, patience=20)
    assert one(apart, 1) == 2
    first = apart.pid
    child = os.fork()
    if not child:
        assert apart.pid is None
        assert one(apart, 2) == 4 and apart.pid != first
        apart.close()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert one(apart, 3) == 6 and apart.pid == first
    print(first, flush=True)
    list(apart(13))
    """
    code = textwrap.dedent(script) % str(Path(__file__).parent)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        first = int(process.stdout.readline())
        process.kill()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            os.kill(first, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.kill(first, signal.SIGKILL)
    pytest.fail("the process outlived its host")


def test_a_fork_begins_with_nothing() -> None:
    """Groups and counts are the parent's."""
    held, counts, clock = gathering()
    held.begin(1, root=True)
    held.end(1, "a", 1, root=True)
    counts.add("seen")
    child = os.fork()
    if not child:
        os._exit(0 if held.is_empty and counts.told() == {} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    clock.now = 2
    assert [group.parts for group in held.due(9)] == [["a"]]
    assert counts.told() == {"seen": 1}
