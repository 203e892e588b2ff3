"""Traces are put together from what comes in any order, judged once they are over, and sent on in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.adapters.otel.requests import Parcel
from groundtrace.errors import PlanError
from groundtrace.model import Ref, Scorecard
from groundtrace.serve.assembly import Assembly, Full, Limits
from groundtrace.serve.spool import Spool
from groundtrace.testing import sample_card
from serving import cut_off

A, B = "a" * 32, "b" * 32


class Clock:
    """A clock that goes when it is told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Place:
    """An assembly on a spool, with all that was told."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder, self.settings, self.clock = folder, settings, Clock()
        self.told: list[str] = []
        self.open()

    def open(self) -> None:
        """Begin, or begin again as after a kill."""
        self.spool = Spool(self.folder)
        more = {"forwards": True, "idle": 10.0, "deadline": 60.0} | self.settings
        self.held = Assembly(self.spool, clock=self.clock, tell=self.told.append, **more)

    def again(self) -> None:
        """As after a kill."""
        cut_off(self.spool)
        self.open()

    def put(self, trace_id: str, *data: bytes, rooted: bool = False, signal: Any = "traces") -> None:
        """Something comes."""
        self.held.put([Parcel(signal, trace_id, 1, rooted, one) for one in data or (b"x",)])

    def later(self, seconds: float) -> None:
        """Time goes by."""
        self.clock.now += seconds
        self.held.tend()

    def due(self) -> list[str]:
        """What is to be judged now; it is judged."""
        found = self.held.due()
        self.held.judged(found)
        return [trace.trace_id for trace in found]

    def sent(self) -> list[bytes]:
        """What may be sent on now; it arrives."""
        found = []
        while (load := self.held.take(0)) is not None:
            found += [self.spool.read(piece) for piece, _ in load.pieces]
            self.held.passed(load)
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """One that sends on."""
    made = Place(tmp_path / "spool")
    yield made
    made.spool.__exit__(None, None, None)


def card(trace_id: str = A) -> Scorecard:
    """A card of a trace."""
    return sample_card(ref=Ref("otel", trace_id=trace_id, span_id="1" * 16))


def test_a_trace_is_over_when_nothing_more_comes(place: Place) -> None:
    """Ten seconds after its root; six times that without one, for the root may run on."""
    place.put(A, rooted=True)
    place.put(B)
    place.later(9)
    place.put(A)
    place.later(9.5)
    assert place.due() == []
    place.later(0.5)
    assert place.due() == [A]
    place.later(40)
    assert place.due() == []
    place.later(1)
    assert place.due() == [B]
    assert place.due() == []


def test_spans_are_sent_on_once_their_trace_is_judged(place: Place) -> None:
    """Each once."""
    place.put(A, b"1", rooted=True)
    place.put(A, b"2")
    place.later(10)
    assert place.sent() == []
    assert place.due() == [A]
    assert place.sent() == [b"1", b"2"]
    assert place.sent() == []


def test_spans_are_sent_on_in_time_judged_or_not(place: Place) -> None:
    """After the deadline from the first; what comes then goes at once. The trace is judged all the same."""
    place.put(A, b"1")
    place.later(59)
    place.put(A, b"2")
    assert place.sent() == []
    place.later(1)
    assert place.sent() == [b"1", b"2"]
    place.put(A, b"3", rooted=True)
    place.later(0.2)
    assert place.sent() == [b"3"]
    place.later(10)
    [trace] = place.held.due()
    assert list(place.held.read(trace)) == [b"1", b"2", b"3"]
    assert not place.held.score(card()), "its spans are gone"
    place.held.judged([trace])
    assert place.sent() == []


def test_scores_are_put_on_what_is_still_here(place: Place) -> None:
    """And taken along; the newest of a card counts."""
    place.put(A, rooted=True)
    place.later(10)
    [trace] = place.held.due()
    assert place.held.score(card())
    assert place.held.score(card())
    assert not place.held.score(card(B))
    assert trace.cards == [card()]
    place.held.judged([trace])
    load = place.held.take(0)
    assert load is not None
    assert load.pieces[0][1] is trace
    assert trace.cards
    place.held.passed(load)
    assert trace.cards == [], "they are not held any longer"


def test_what_nobody_judges_goes_at_once(place: Place) -> None:
    """Spans of traces that are not in the sample, log records of no trace: they have no id here."""
    place.put("", b"1")
    place.put("", b"2", signal="logs")
    assert place.sent() == [b"1", b"2"]
    assert place.held.waiting() == {"traces": 0, "to send": 0, "kept": 0, "bytes": place.spool.size}


def test_a_late_span_joins_its_trace_which_is_judged_again(place: Place) -> None:
    """As long as that is remembered whole; then it goes on alone, and is counted."""
    place.put(A, b"1", rooted=True)
    place.later(10)
    assert place.due() == [A]
    assert place.sent() == [b"1"]
    place.put(A, b"2")
    place.later(10)
    [trace] = place.held.due()
    assert list(place.held.read(trace)) == [b"1", b"2"]
    place.held.judged([trace])
    assert place.sent() == [b"2"]
    place.later(31)
    place.put(A, b"3")
    assert place.sent() == [b"3"]
    place.later(100)
    assert place.due() == []
    assert place.held.counts["late"] == 1
    assert place.held.waiting()["kept"] == 0


def test_a_trace_that_grew_while_it_was_judged_is_judged_again(place: Place) -> None:
    """Nothing of it is sent on before."""
    place.put(A, b"1", rooted=True)
    place.later(10)
    judging = place.held.due()
    place.put(A, b"2")
    place.held.judged(judging)
    assert place.sent() == []
    place.later(10)
    assert place.due() == [A]
    assert place.sent() == [b"1", b"2"]


def test_after_a_kill_nothing_is_done_twice(place: Place) -> None:
    """What was sent on stays sent, what was judged stays judged; what was neither is done."""
    place.put("", b"0")
    place.put(A, b"1", rooted=True)
    place.later(60)
    assert place.sent() == [b"0", b"1"]
    place.put(B, b"2", rooted=True)
    place.again()
    assert place.sent() == []
    place.later(10)
    assert sorted(place.due()) == [A, B]
    assert place.sent() == [b"2"]
    place.again()
    place.later(100)
    assert place.due() == []
    assert place.sent() == []
    place.put(A, b"3")
    assert place.sent() == [b"3"], "a late one of a trace that was judged before the kill"
    assert place.held.counts["late"] == 1


@pytest.mark.parametrize("trace_id", ["", A])
def test_what_waits_to_be_sent_on_is_not_let_go_of_for_want_of_a_backend(tmp_path: Path, trace_id: str) -> None:
    """A start that forgets where to is refused, and the next one sends it: what is judged as well as what is not."""
    place = Place(tmp_path / "spool")
    place.put(trace_id, b"held", rooted=True)
    cut_off(place.spool)
    with Spool(tmp_path / "spool") as spool, pytest.raises(PlanError, match="1 parcel of before waits to be sent on"):
        Assembly(spool, forwards=False)
    place.open()
    place.later(60)
    assert place.sent() == [b"held"]
    place.again()
    place.settings = {"forwards": False}
    place.again()
    place.later(10)
    assert place.due() == [trace_id] * bool(trace_id), "what was sent on waits for nothing but its judge"
    place.spool.__exit__(None, None, None)


def test_what_was_only_to_be_judged_asks_for_no_backend(tmp_path: Path) -> None:
    """It was taken by a server that sent nothing on."""
    place = Place(tmp_path / "spool", forwards=False)
    place.put(A, rooted=True)
    place.again()
    place.later(10)
    assert place.due() == [A]
    place.spool.__exit__(None, None, None)


def test_what_was_on_its_way_at_a_kill_is_sent_again(place: Place) -> None:
    """Nobody knows whether it arrived."""
    place.put("", b"1")
    assert place.held.take(0) is not None
    place.again()
    assert place.sent() == [b"1"]


def test_what_did_not_arrive_waits(place: Place) -> None:
    """In its order."""
    place.put("", b"1")
    load = place.held.take(0)
    assert load is not None
    place.put("", b"2")
    place.held.back(load)
    assert place.sent() == [b"1", b"2"]


def test_more_than_may_wait_is_refused(tmp_path: Path) -> None:
    """As a whole; there is room once something left."""
    place = Place(tmp_path, limits=Limits(pieces=2))
    place.put("", b"1")
    with pytest.raises(Full):
        place.put("", b"2", b"3")
    place.put("", b"4")
    assert place.held.is_full
    assert place.sent() == [b"1", b"4"]
    place.put("", b"5")
    assert place.sent() == [b"5"]
    place.spool.__exit__(None, None, None)


def test_nobodys_spans_wait_for_a_slow_judge(tmp_path: Path) -> None:
    """Where half of what may wait does, new traces are sent on as they come, whole; it is counted."""
    place = Place(tmp_path, limits=Limits(pieces=4))
    place.put(A, b"1")
    place.put("", b"2")
    place.put(B, b"3")
    assert place.sent() == [b"2", b"3"]
    place.put(B, b"4")
    assert place.sent() == [b"4"]
    assert place.held.counts["not judged: too many waited"] == 1
    place.spool.__exit__(None, None, None)


def test_a_trace_without_end_is_not_judged(tmp_path: Path) -> None:
    """It is sent on, named and counted."""
    place = Place(tmp_path, limits=Limits(trace=200))
    place.put(A, b"1" * 50)
    assert place.sent() == []
    place.put(A, bytes(range(256)), rooted=True)
    assert place.sent() == [b"1" * 50, bytes(range(256))]
    place.later(100)
    assert place.due() == []
    assert place.held.counts["too large"] == 1
    assert A in place.told[0]
    place.spool.__exit__(None, None, None)


@pytest.mark.parametrize("forwards", [True, False])
def test_what_still_comes_of_it_is_let_go_of_too(tmp_path: Path, forwards: bool) -> None:  # noqa: FBT001 - pytest's way
    """Nothing of it stays."""
    place = Place(tmp_path, limits=Limits(trace=200), forwards=forwards)
    place.put(A, bytes(range(256)))
    place.put(A, b"more")
    assert place.sent() == ([bytes(range(256)), b"more"] if forwards else [])
    place.later(31)
    assert place.held.waiting()["kept"] == 0
    place.spool.__exit__(None, None, None)


def test_a_trace_that_can_not_be_judged_is_given_up_alone(place: Place) -> None:
    """After its batch fell apart; it is sent on."""
    place.put(A, b"1", rooted=True)
    place.put(B, b"2", rooted=True)
    place.later(10)
    both = place.held.due()
    assert len(both) == 2
    place.held.put_off(both, "trouble", own=True)
    place.later(10)
    assert place.held.due() == [], "not yet"
    for _ in range(7):
        place.later(1000)
        while batch := place.held.due():
            bad = [trace for trace in batch if trace.trace_id == A]
            place.held.put_off(bad, "it breaks the judge", own=True)
            place.held.judged([trace for trace in batch if trace.trace_id != A])
    assert place.told == [f"gave up trace {A}: it breaks the judge"]
    assert place.held.counts == {"judged": 1, "given up": 1}


def test_what_failed_before_is_in_nobodys_way(place: Place) -> None:
    """Where it is doubted who is at fault, and at the end, what never failed comes first."""
    place.put(A, b"1", rooted=True)
    place.later(10)
    place.held.put_off(place.held.due(), "trouble", own=True)
    place.put(B, b"2", rooted=True)
    place.later(100)
    for wary, first in ((False, A), (True, B)):
        (trace,) = place.held.due(wary=wary)
        assert trace.trace_id == first
        place.held.put_off([trace], "", own=False)
        place.later(100)
    place.held.hurry()
    assert place.due() == [B]


def test_without_a_backend_nothing_is_kept_longer_than_it_is_judged(tmp_path: Path) -> None:
    """And a little, for late spans."""
    place = Place(tmp_path, forwards=False)
    place.put(A, rooted=True)
    place.later(10)
    assert place.due() == [A]
    place.later(31)
    assert place.held.waiting()["kept"] == 0
    place.put(A)
    assert place.held.waiting()["kept"] == 0
    assert place.held.counts["late"] == 1
    place.spool.__exit__(None, None, None)


def test_in_a_hurry_nothing_is_waited_for(place: Place) -> None:
    """All is judged now; what is left is let go."""
    place.put(A, b"1")
    place.put(B, b"2")
    place.held.hurry()
    first, second = place.held.due()
    place.held.judged([first])
    assert place.sent() == [b"1"]
    place.held.let_go()
    assert place.sent() == [b"2"]
    place.held.judged([second])


def test_at_the_end_what_can_not_be_judged_waits_for_the_next_start(place: Place) -> None:
    """It is tried once more, a batch also in parts, and given up for nothing."""
    place.put(A, b"1", rooted=True)
    place.put(B, b"2", rooted=True)
    place.later(10)
    place.held.put_off(place.held.due(), "no judge", own=False)
    assert place.held.due() == [], "not yet"
    place.held.hurry()
    both = place.held.due()
    assert len(both) == 2
    place.held.put_off(both, "trouble", own=True)
    batches = 0
    while batch := place.held.due():
        place.held.put_off(batch, "trouble", own=True)
        batches += 1
        assert batches < 9
    assert place.told == []
    assert place.held.waiting()["traces"] == 2
    place.again()
    place.later(10)
    assert sorted(place.due()) == [A, B]
