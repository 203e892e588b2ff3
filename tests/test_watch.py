"""A watch looks again and again, from where the last round came to, whatever the platform does meanwhile."""

from __future__ import annotations

import datetime as dt
import importlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import killed
import neighbours
from groundtrace.cli.watch import line
from groundtrace.errors import PlanError, PlatformError
from groundtrace.memory import InMemory
from groundtrace.model import JUDGE_MARK, Ref, Trace
from groundtrace.plan import Plan
from groundtrace.plugins import find
from groundtrace.run.growing import Growing
from groundtrace.run.watch import LONGEST, Round, place_of, watch
from groundtrace.store import open_store
from groundtrace.tally import Report
from live import Desk, around, desk_in
from terminal import groundtrace

NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


class Clock:
    """The time, which goes on while somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = NOON, list[float]()

    def __call__(self) -> dt.datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += dt.timedelta(seconds=seconds)
        self.slept.append(seconds)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A stand-in, with its plugins installed."""
    with desk_in(tmp_path, monkeypatch) as made:
        yield made


def rounds(desk: Desk, memory: Any, clock: Clock, **more: Any) -> Iterator[Round]:
    """A watch on the stand-in."""
    return watch(desk.plan, memory, clock=clock, sleep=clock.sleep, **more)


def ago(seconds: float) -> dt.datetime:
    """So long before noon."""
    return NOON - dt.timedelta(seconds=seconds)


def test_two_rounds_score_what_came_and_nothing_twice(desk: Desk) -> None:
    """The second begins where the first came to, less the overlap."""
    clock, memory = Clock(), InMemory()
    old, late = desk.put(0, ago(3600)), desk.put(1, ago(10))
    going = rounds(desk, memory, clock, every=60, overlap=600)
    first = next(going)
    assert (first.since, first.until) == (ago(86400), NOON)
    assert desk.scored() == {old, late}
    written = desk.written()
    new = desk.put(2, NOON + dt.timedelta(seconds=30))
    second = next(going)
    assert second.until - NOON == pytest.approx(dt.timedelta(seconds=60), abs=dt.timedelta(seconds=1))
    assert (second.since, second.report.traces) == (ago(600), 2)
    assert desk.scored() == {old, late, new}
    assert len(desk.written()) == len({*desk.written()}) > len(written)
    assert sum(clock.slept) == pytest.approx(60, abs=1)


def test_a_watch_that_was_killed_goes_on_where_it_was(desk: Desk, tmp_path: Path) -> None:
    """The store knows the place; a run row of its own does not grow with the rounds."""
    clock = Clock()
    desk.put(0, ago(7200))
    for expected in (ago(86400), ago(900), ago(600)):
        with open_store(tmp_path / "s.db") as store:
            (only,) = islice(rounds(desk, store, clock), 1)
        assert only.since == expected
        clock.now += dt.timedelta(seconds=300)
    with open_store(tmp_path / "s.db") as store:
        list(islice(rounds(desk, store, clock), 3))
        assert len(store.runs()) == 4


@pytest.mark.parametrize(
    "other",
    [
        {"rubrics": ("source_support",)},
        {"sinks": ("jsonl:scores.jsonl",)},
        {"sources": ({"use": "fake", "argument": "there", "tags": "b"},)},
        {"sources": ({"use": "fake", "argument": "there", "url": "https://eu.example.org"},)},
    ],
)
def test_another_watch_has_a_place_of_its_own(desk: Desk, other: dict[str, Any]) -> None:
    """What one did is not done for the other, which may ask of the same traces something else."""
    plan = desk.plan.model_copy(update={"sources": ({"use": "fake", "argument": "there", "tags": "a"},)})
    assert place_of(plan) != place_of(plan.model_copy(update=other))
    assert place_of(plan).startswith("watch:fake:there ")
    assert place_of(plan) == place_of(plan.model_copy(update={"judge": "offline", "since": NOON}))


def test_what_one_watch_reached_is_not_lost_for_another(desk: Desk) -> None:
    """On the same store, with another rubric."""
    clock, memory, mine = Clock(), InMemory(), desk.plan
    desk.plan = mine.model_copy(update={"rubrics": ("source_support",)})
    theirs = rounds(desk, memory, clock)
    desk.plan = mine
    next(rounds(desk, memory, clock))
    clock.now += dt.timedelta(hours=3)
    desk.put(1, clock.now - dt.timedelta(minutes=100))
    next(theirs)
    clock.now += dt.timedelta(hours=1)
    assert next(rounds(desk, memory, clock)).report.traces == 1


def test_a_since_that_is_said_is_where_a_watch_begins(desk: Desk) -> None:
    """Also where one before came further; its later rounds go on from what was reached."""
    clock, memory = Clock(), InMemory()
    next(rounds(desk, memory, clock))
    old = desk.put(0, ago(5 * 86400))
    desk.plan = desk.plan.model_copy(update={"since": ago(6 * 86400)})
    desk.stand.told("/trouble", refuse=1, status=500)
    cut, first, second = islice(rounds(desk, memory, clock, every=60, overlap=600), 3)
    assert (cut.since, first.since, bool(cut.trouble)) == (ago(6 * 86400), ago(6 * 86400 + 600), True)
    assert desk.scored() == {old}
    assert second.since > ago(600)


@pytest.mark.parametrize("status", [429, 500])
def test_trouble_ends_a_round_and_no_watch(desk: Desk, status: int) -> None:
    """The next one comes later and later, and reads what this one did not."""
    clock, memory = Clock(), InMemory()
    going = rounds(desk, memory, clock, every=60, overlap=600)
    next(going)
    desk.put(0, NOON)
    desk.stand.told("/trouble", refuse=3, status=status)
    cut = list(islice(going, 3))
    assert all(f"answered by {status}" in one.trouble and one.report.failed for one in cut)
    assert [60 <= one.wait <= most for one, most in zip(cut, (120, 240, 480), strict=True)] == [True] * 3
    assert {one.since for one in cut} == {ago(600)}
    well = next(going)
    assert (well.since, well.trouble, well.wait) == (ago(600), "", 60)
    assert desk.scored() == {"t0"}
    assert next(going).since > ago(600)


class Shaken(InMemory):
    """A memory that cannot be reached for a while."""

    shakes = 0

    def cursor(self, source: str) -> str | None:
        if source.startswith("watch:") and self.shakes:
            self.shakes -= 1
            raise PlatformError("the store is held by another")
        return super().cursor(source)


def test_a_memory_in_trouble_is_waited_for_too(desk: Desk) -> None:
    """Unless it is so from the start."""
    memory = Shaken()
    going = rounds(desk, memory, Clock())
    next(going)
    desk.put(0, NOON)
    memory.shakes = 1
    assert [one.trouble for one in islice(going, 2)] == ["the store is held by another", ""]
    assert desk.scored() == {"t0"}
    memory.shakes = 1
    with pytest.raises(PlatformError):
        next(rounds(desk, memory, Clock()))


def test_trouble_that_lasts_is_asked_after_now_and_then(desk: Desk) -> None:
    """Never less than every quarter of an hour."""
    desk.stand.told("/trouble", refuse=20, status=503)
    waits = [one.wait for one in islice(rounds(desk, InMemory(), Clock(), every=1), 20)]
    assert LONGEST / 2 <= waits[-1] <= LONGEST


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("before", [0, 1])
def test_who_is_refused_stops_at_once(desk: Desk, status: int, before: int) -> None:
    """In the first round and later."""
    going = rounds(desk, InMemory(), Clock())
    list(islice(going, before))
    desk.stand.told("/trouble", refuse=1, status=status)
    with pytest.raises(PlatformError, match=str(status)):
        next(going)


def test_a_trace_of_two_hours_is_scored_once_it_is_over(desk: Desk) -> None:
    """Long after it left the window: it is asked for by its id, also by a watch that was started again."""
    clock, memory = Clock(), InMemory()
    desk.put(0, ago(60), complete=False)
    for _ in range(2):
        going = rounds(desk, memory, clock, every=600)
        end = clock.now + dt.timedelta(hours=1)
        while clock.now < end:
            next(going)
    assert not desk.scored()
    desk.put(0, ago(60))
    seen = list(islice(going, 4))
    assert desk.scored() == {"t0"}
    assert (sum(one.report.traces for one in seen), [one.given_up for one in seen]) == (1, [0, 0, 0, 0])
    assert memory.cursor(f"growing:{place_of(desk.plan)}") == "[]"


def test_a_trace_that_ends_in_the_window_is_asked_for_no_more(desk: Desk) -> None:
    """And one that never ends is asked for less and less often, and given up after a day: counted and named."""
    clock, memory = Clock(), InMemory()
    desk.put(0, ago(60), complete=False)
    desk.put(1, ago(60), complete=False)
    going = rounds(desk, memory, clock, every=1200)
    next(going)
    desk.put(1, ago(60))
    next(going)
    assert desk.scored() == {"t1"}
    looked, lost = 0, list[Round]()
    while clock.now < NOON + dt.timedelta(hours=26):
        one = next(going)
        looked += one.report.traces
        lost += [one] * bool(one.given_up)
    assert (looked < 40, len(lost)) == (True, 1)
    assert "gave up 1 traces (t0): they were not over a day after they were first seen" in lost[0].report.notes
    assert ", 1 given up, " in line(lost[0])


def test_trouble_while_asking_by_id_forgets_none(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the round, and the next one asks again, which is told as any trouble is."""
    clock, memory = Clock(), InMemory()
    desk.put(0, ago(60), complete=False)
    going = rounds(desk, memory, clock, every=600)
    while clock.now < NOON + dt.timedelta(hours=3):
        next(going)
    desk.put(0, ago(60))
    clock.now += dt.timedelta(hours=1)
    fake: Any = find("source", "fake")
    asked = fake._named

    def refused(source: Any, choose: Any) -> Iterator[Trace]:
        desk.stand.told("/trouble", refuse=1, status=500)
        return asked(source, choose)

    with monkeypatch.context() as patched:
        patched.setattr(fake, "_named", refused)
        cut = next(going)
    assert ("answered by 500" in cut.trouble, desk.scored()) == (True, set())
    assert (next(going).trouble, desk.scored()) == ("", {"t0"})


def test_what_cannot_be_asked_by_id_is_named_when_it_is_left(tmp_path: Path, desk: Desk) -> None:
    """As the traces of files."""
    clock, memory = Clock(), InMemory()
    held = Growing(Plan(sources=f"otel:{tmp_path}/none.jsonl"), memory, "place", clock())
    held.saw(0, replace(desk.traces[0], complete=False))
    held.settle(well=True)
    assert (held.kept(), held.given_up) == ([], 0)
    later = Growing(Plan(sources=f"otel:{tmp_path}/none.jsonl"), memory, "place", clock())
    assert not later.to_ask()
    (note,) = later.kept()
    assert desk.traces[0].ref.trace_id in note
    assert "can't be had by id" in note
    assert later.given_up == 1


def test_no_more_are_waited_for_than_can_be_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those seen first are given up."""
    monkeypatch.setattr(importlib.import_module("groundtrace.run.growing"), "MOST", 2)
    memory = InMemory()
    for minute, ident in enumerate("abc"):
        held = Growing(desk.plan, memory, "place", NOON + dt.timedelta(minutes=minute))
        held.saw(0, Trace(Ref("fake", trace_id=ident), complete=False))
        held.settle(well=True)
        notes = held.kept()
    assert notes == ["gave up 1 traces (a): more than 2 were not over"]


def test_what_our_own_judges_left_is_not_judged(desk: Desk) -> None:
    """A watch on the project its judge traces into would never end."""
    (span, *_) = desk.traces[0].spans
    desk.put(0, ago(60), spans=(replace(span, attributes={JUDGE_MARK: True}),))
    (only,) = islice(rounds(desk, InMemory(), Clock()), 1)
    assert (only.report.traces, only.report.passed) == (0, {"left by our own judges": 1})
    assert not desk.stand.told("/scores")


def test_the_money_is_for_the_whole_watch(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends it; what was not asked about is read again by the next one."""
    neighbours.install("critic", tmp_path, monkeypatch)
    desk.plan = desk.plan.model_copy(update={"judge": "priced:1.0", "max_cost": 5.0})
    going = rounds(desk, InMemory(), Clock())
    desk.put(0, ago(60))
    first = next(going)
    for number in range(1, 9):
        desk.put(number, ago(60))
    costs = [one.report.about.cost or 0.0 for one in (first, *going)]
    assert (costs[0], len(costs)) == (2.0, 2)
    assert 3 <= costs[1] < 12


@pytest.mark.parametrize("wrong", [{"until": NOON}, {"dry_run": True}])
def test_what_a_watch_cannot_be_is_refused(desk: Desk, wrong: dict[str, Any]) -> None:
    """It has no end and writes."""
    with pytest.raises(PlanError):
        next(watch(desk.plan.model_copy(update=wrong), InMemory()))


def test_a_round_is_a_line(desk: Desk) -> None:
    """With what a person or a log wants to know."""
    clock = Clock()
    desk.put(0, ago(60))
    going = rounds(desk, InMemory(), clock)
    assert line(next(going)) == ("2026-11-30 12:00:00Z round 1: 1 trace, 5 scores written, 0 unscored, 0 US dollars")
    assert line(next(going)).partition(" ")[2].partition(" ")[2] == (
        "round 2: 1 trace, 0 scores written, 5 as before, 0 unscored, 0 US dollars"
    )
    sampled = Round(1, ago(60), ago(0), Report(seen=30, traces=3, passed={"not in the sample": 27}))
    assert " round 1: 3 of 30 traces, 0 scores written, " in line(sampled)
    desk.stand.told("/trouble", refuse=1, status=500)
    assert ", cut short: fake: GET /traces was answered by 500; again in " in line(next(going))


# --- the command ----------------------------------------------------------------------------------------------------


def started(desk: Desk, folder: Path, *words: str) -> subprocess.Popen[str]:
    """A watch as a user runs it."""
    env = {**os.environ, **around()}
    command = [*killed.PROGRAM, "watch", f"fake:{desk.stand.url}", "--sample", "1", "--rubric", killed.RUBRIC, *words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_watch_ends_when_it_is_told_to(desk: Desk, tmp_path: Path, number: int, code: int) -> None:
    """After what is in flight, with one line."""
    desk.put(0, dt.datetime.now(dt.UTC))
    with started(desk, tmp_path, "--every", "600") as going:
        assert going.stdout is not None
        first = going.stdout.readline()
        going.send_signal(number)
        _, trouble = going.communicate(timeout=60)
    assert going.returncode == code
    assert " round 1: 1 trace, 5 scores written, 0 unscored, 0 US dollars" in first
    assert "watching fake:http://127.0.0.1" in trouble
    assert "what was done is kept in" in trouble
    assert "stopping; what is in flight finishes" in trouble
    assert "Traceback" not in trouble


def test_a_watch_says_once_what_its_sample_leaves_out(desk: Desk, tmp_path: Path) -> None:
    """Else nothing seems to come; and how it is ended is a sentence."""
    desk.put(0, dt.datetime.now(dt.UTC))
    with started(desk, tmp_path, "--every", "1", "--sample", "0") as going:
        assert going.stdout is not None
        for _ in range(2):
            assert "0 of 1 trace, 0 scores written" in going.stdout.readline()
        for _ in range(2):  # the second stops at once
            going.send_signal(signal.SIGINT)
        _, trouble = going.communicate(timeout=60)
    assert trouble.count("the sample leaves 1 of 1 trace out: --sample 1, or share = 1 under [sample]") == 1
    assert "from here" not in trouble


def test_a_watch_that_is_killed_is_started_again(desk: Desk, tmp_path: Path) -> None:
    """By the same command, from where it was."""
    desk.put(0, dt.datetime.now(dt.UTC))
    for _ in range(2):
        with started(desk, tmp_path, "--every", "1", "--json") as going:
            assert going.stdout is not None
            assert json.loads(going.stdout.readline())["traces"] == 1
            going.kill()
    written = desk.written()
    assert len(written) == len({*written}) == 5


def test_who_may_not_read_is_told_in_one_line(desk: Desk, tmp_path: Path) -> None:
    """And the command ends with 3."""
    desk.stand.told("/trouble", refuse=1, status=401)
    done = groundtrace(f"watch fake:{desk.stand.url} --quiet", tmp_path, env=around())
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines() == ["groundtrace: fake: GET /traces was answered by 401"]


def test_a_watch_needs_a_store(desk: Desk, tmp_path: Path) -> None:
    """It goes by what it did."""
    done = groundtrace(f"watch fake:{desk.stand.url} --store none", tmp_path, env=around())
    assert done.returncode == 2
    assert "is not enough for a watch" in done.stderr
