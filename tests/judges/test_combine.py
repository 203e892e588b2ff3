"""Judges made of judges: a cache asks once, a recording says it again, votes have a median."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.errors import PlanError
from groundtrace.evaluate import evaluate
from groundtrace.judges.combine import Cached, Recorded, Voting
from groundtrace.model import Case, JudgeKind, Record, Reply, Usage
from groundtrace.ports import Again
from groundtrace.rubrics.source_support import LEVELS, SourceSupport
from groundtrace.testing import JudgeContract, ScriptedJudge, sample_case, sample_record

SUPPORT = SourceSupport()
QUOTE = "The night ferry leaves at 21:40"


def verdict(score: int, **fields: Any) -> dict[str, Any]:
    """What a careful judge would write."""
    made: dict[str, Any] = {"score": score, "support_level": LEVELS[score], "rationale": "It is as the passage says."}
    made |= {"key_evidence": QUOTE, "missing_information": None if score == 5 else "more", "confidence": 0.9}
    return made | fields


def records(count: int = 3) -> list[Record]:
    """Records that differ in what they answer."""
    return [sample_record(f"The ferry leaves at 21:4{n}.", id=f"r{n}") for n in range(count)]


def scores(judge: Any, told: Iterable[Record] | None = None) -> dict[str, float | None]:
    """Each record's headline, from this judge."""
    cards = evaluate(records() if told is None else told, [SUPPORT], judge)
    return {card.record_id: card.headline.value if card.headline else None for card in cards}


class Plain:
    """A judge that leaves the gate to others."""

    id, limits = "plain", ""
    kind: JudgeKind = "llm"

    def unassessed(self, rubric: str) -> frozenset[str]:
        return frozenset()

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        return ((case, Reply(json.dumps(verdict(4)), self.id)) for case in cases)


class TestCached(JudgeContract):
    """A cache is a judge."""

    def make(self) -> Cached:
        return Cached(ScriptedJudge("{}", concurrency=4), {})


class TestVoting(JudgeContract):
    """So are votes."""

    def make(self) -> Voting:
        return Voting(ScriptedJudge("{}", concurrency=4), votes=3)


class TestVotingOfOne(JudgeContract):
    """One vote too."""

    def make(self) -> Voting:
        return Voting(ScriptedJudge("{}"), votes=1)


@pytest.fixture(params=["mapping", "folder"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Where replies are kept."""
    return {} if request.param == "mapping" else tmp_path / "replies"


# --- Cached -----------------------------------------------------------------------------------------------------------


def test_an_equal_question_is_asked_once(kept: Any) -> None:
    """Also by another cache over the same place; what was known is marked and costs nothing."""
    first, second = ScriptedJudge(verdict(4), concurrency=2), ScriptedJudge(verdict(2))
    before = scores(Cached(first, kept))
    (card, *_) = evaluate(records(), [SUPPORT], Cached(second, kept))
    assert scores(Cached(second, kept)) == before == {"r0": 4, "r1": 4, "r2": 4}
    assert not second.heard
    assert card.attempts[0].cached
    assert card.judge == first.id


def test_another_judge_or_another_question_is_asked(kept: Any) -> None:
    """The key is both."""
    scores(Cached(ScriptedJudge(verdict(4)), kept))
    other = ScriptedJudge(verdict(3), id="other")
    assert scores(Cached(other, kept)) == {"r0": 3, "r1": 3, "r2": 3}
    assert len(other.heard) == 3
    more = ScriptedJudge(verdict(2))
    assert scores(Cached(more, kept), records(4)) == {"r0": 4, "r1": 4, "r2": 4, "r3": 2}
    assert len(more.heard) == 1


def test_what_the_gate_refused_and_what_failed_is_not_kept(kept: Any) -> None:
    """Nor a second reply, of which nobody says what the gate made of it."""
    refused = ScriptedJudge(lambda case: verdict(4) if case.remark else "no JSON")
    assert scores(Cached(refused, kept)) == {"r0": 4, "r1": 4, "r2": 4}
    failing = ScriptedJudge(Reply("", "scripted", fault="timeout"))
    assert set(scores(Cached(failing, kept)).values()) == {None}
    assert len(failing.heard) == 3


def test_a_kept_reply_that_is_refused_now_is_asked_again_with_its_faults() -> None:
    """The rules may have changed since."""
    shelf: dict[str, str] = {}
    scores(Cached(ScriptedJudge(verdict(4)), shelf))
    spoilt = {key: text.replace("Strongly Implies", "Directly Supports") for key, text in shelf.items()}
    judge = ScriptedJudge(verdict(3))
    assert scores(Cached(judge, spoilt)) == {"r0": 3, "r1": 3, "r2": 3}
    assert all(case.remark for case in judge.heard)


@pytest.mark.parametrize("broken", ["", "{", "[]", "null", '{"text": 5, "judge": "j"}', '{"judge": "j"}', '"x"'])
def test_half_a_file_is_no_reply(tmp_path: Path, broken: str) -> None:
    """It is asked again, and kept anew."""
    scores(Cached(ScriptedJudge(verdict(4)), tmp_path))
    files = list(tmp_path.rglob("*.json"))
    assert len(files) == 3
    for file in files:
        file.write_text(broken, encoding="utf-8")
    assert scores(Cached(ScriptedJudge(verdict(3)), tmp_path)) == {"r0": 3, "r1": 3, "r2": 3}
    assert scores(Cached(ScriptedJudge(verdict(2)), tmp_path)) == {"r0": 3, "r1": 3, "r2": 3}


def test_a_folder_that_cannot_be_had_is_said_at_once_and_one_that_fills_up_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A cache is a help, never a need."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(PlanError, match="is no folder to keep replies in"):
        Cached(ScriptedJudge(verdict(4)), tmp_path / "file")
    judge = Cached(ScriptedJudge(verdict(4)), tmp_path / "full")
    (tmp_path / "full").rmdir()
    (tmp_path / "full").write_text("", encoding="utf-8")
    assert scores(judge) == {"r0": 4, "r1": 4, "r2": 4}
    assert len([line for line in caplog.messages if "not kept any more" in line]) == 1


def test_thousands_of_known_replies_come_a_piece_at_a_time() -> None:
    """They wait for nobody, and never all at once."""
    shelf: dict[str, str] = {}
    cases = [sample_case(slot=f"c{n}>p1", body={"claim": str(n)}) for n in range(3000)]
    list(Cached(ScriptedJudge("{}"), shelf).hear(iter(cases), lambda *_: None))
    pulled = 0

    def stream() -> Iterator[Case]:
        nonlocal pulled
        for pulled, case in enumerate(cases, start=1):  # noqa: B007 - counted for the reader
            yield case

    judge = ScriptedJudge("{}", concurrency=4)
    heard = Cached(judge, shelf).hear(stream(), lambda *_: None)
    next(heard)
    assert pulled < 1000
    assert len([*heard]) == 2999
    assert not judge.heard


# --- Recorded ---------------------------------------------------------------------------------------------------------


def test_a_recording_gives_the_same_cards_without_the_judge(tmp_path: Path) -> None:
    """Refused replies, faults and what the judge can't assess included."""

    def script(case: Case) -> Any:
        if case.record_id == "r2":
            return Reply("", "scripted", fault="timeout", cost=0.5)
        if case.record_id == "r1" and not case.remark:
            return "half \ud800 of it"
        return Reply(json.dumps(verdict(4)), "scripted", usage=Usage(10, 5), flags=("noticed",))

    path = tmp_path / "said.jsonl"
    judge = ScriptedJudge(script, concurrency=3, limits="blind", unassessed=["citation_accuracy"])
    recording = Recorded(path, judge)
    first = {card.record_id: card for card in evaluate(records(), [SUPPORT], recording)}
    replay = Recorded(path)
    assert (replay.id, replay.kind, replay.limits) == ("scripted", "llm", "blind")
    assert replay.unassessed("source_support") == {"citation_accuracy"}
    again = {card.record_id: card for card in evaluate(records(), [SUPPORT], replay)}
    assert {name: card.content_hash for name, card in first.items()} == {n: c.content_hash for n, c in again.items()}
    assert [len(first[name].attempts) for name in ("r0", "r1", "r2")] == [1, 2, 1]
    assert again["r0"].attempts[0].usage == Usage(10, 5)
    assert all(attempt.cached for card in again.values() for attempt in card.attempts)


def test_a_question_that_was_not_recorded_is_a_fault_that_says_so(tmp_path: Path) -> None:
    """No network is asked instead."""
    path = tmp_path / "said.jsonl"
    scores(Recorded(path, ScriptedJudge(verdict(4))))
    cards = {card.record_id: card for card in evaluate(records(4), [SUPPORT], Recorded(path))}
    assert (cards["r3"].status, cards["r3"].reason) == ("unscored", "judge_failed")
    assert cards["r3"].findings[0].rationale == "the question (source_support of 'r3') was not recorded in said.jsonl"
    assert cards["r0"].status == "scored"


def test_a_question_asked_twice_has_both_replies_in_turn(tmp_path: Path) -> None:
    """And the last one from then on."""
    path = tmp_path / "said.jsonl"
    numbers = itertools.count(1)
    judge = ScriptedJudge(lambda _: f"reply {next(numbers)}")
    list(Recorded(path, judge).hear([sample_case(), sample_case()], lambda *_: None))
    told = [reply.text for _, reply in Recorded(path).hear([sample_case()] * 3, lambda *_: None)]
    assert sorted(told[:2]) == ["reply 1", "reply 2"]
    assert told[2] == told[1]


def test_a_judge_that_leaves_the_gate_to_others_is_recorded_once(tmp_path: Path) -> None:
    """One line a reply."""
    path = tmp_path / "said.jsonl"
    assert scores(Recorded(path, Plain())) == scores(Recorded(path)) == {"r0": 4, "r1": 4, "r2": 4}
    assert path.read_text().count('"question"') == 3


def test_a_recording_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """A line broken in the middle of it is another thing."""
    path = tmp_path / "said.jsonl"
    scores(Recorded(path, ScriptedJudge(verdict(4))))
    whole = path.read_text()
    path.write_text(whole[:-40])
    assert [value for value in scores(Recorded(path)).values() if value] == [4, 4]
    path.write_text(whole.replace('{"question"', '{"question', 1))
    with pytest.raises(PlanError, match="is broken in line"):
        Recorded(path)
    path.write_text("")
    with pytest.raises(PlanError, match="does not say which judge"):
        Recorded(path)
    with pytest.raises(PlanError, match="record it first"):
        Recorded(tmp_path / "nothing.jsonl")
    with pytest.raises(PlanError, match="can't be written"):
        Recorded(tmp_path, ScriptedJudge(verdict(4)))


class TestRecording(JudgeContract):
    """While it records it is a judge."""

    @pytest.fixture(autouse=True)
    def _here(self, tmp_path: Path) -> None:
        self.path = tmp_path / "said.jsonl"

    def make(self) -> Recorded:
        return Recorded(self.path, ScriptedJudge("{}", concurrency=4))


class TestReplayed(TestRecording):
    """And where it says it again."""

    def make(self) -> Recorded:
        Recorded(self.path, ScriptedJudge("{}"))
        return Recorded(self.path)


# --- Voting -----------------------------------------------------------------------------------------------------------


def votes(*told: Any) -> ScriptedJudge:
    """A judge that gives these replies in turn."""
    return ScriptedJudge(list(told))


def one(judge: ScriptedJudge, number: int | None = None, **fields: Any) -> Any:
    """The one card of a record that was voted on."""
    voting = Voting(judge, votes=number or len(judge._script), **fields)  # type: ignore[arg-type]
    (card,) = evaluate(records(1), [SUPPORT], voting)
    return card


@pytest.mark.parametrize(
    ("told", "median", "differ"),
    [
        ((4, 4, 4), 4, False),
        ((5, 2, 4), 4, True),
        ((3, 5), 3, True),
        ((4, 5, 5), 5, True),
        ((1, 1, 5, 5, 3), 3, True),
        ((4,), 4, False),
    ],
)
def test_the_median_counts_and_a_difference_is_told(told: tuple[int, ...], median: int, *, differ: bool) -> None:
    """Labels that differ, or more than a level between them, send the card to a person."""
    card = one(votes(*map(verdict, told)))
    assert card.headline.value == median
    assert ("votes_differ" in card.flags) is differ
    assert ("votes_differ" in [review.reason for review in card.review]) is differ
    assert card.judge == f"scripted,votes={len(told)}"


def test_of_equal_scores_the_earliest_counts() -> None:
    """With its own words."""
    card = one(votes(verdict(2), verdict(4, rationale="First it is."), verdict(4, rationale="Then it is.")))
    assert card.findings[0].rationale == "First it is."


def test_what_all_votes_took_is_summed_and_an_unknown_price_stays_unknown() -> None:
    """Never less than was spent."""

    def priced(*costs: float | None) -> Any:
        text = json.dumps(verdict(4))
        return one(votes(*(Reply(text, "j", usage=Usage(100, 10, 50), cost=c, latency=c) for c in costs))).attempts[0]

    known, unknown = priced(0.25, 0.5, 1.0), priced(0.25, None, 1.0)
    assert (known.cost, known.usage, known.latency) == (1.75, Usage(300, 30, 150), 1.0)
    assert unknown.cost is None


def test_a_majority_must_come() -> None:
    """Two timeouts of three are a fault; one is not."""
    lost = Reply("", "scripted", fault="timeout after 5 s", cost=0.5)
    card = one(votes(lost, verdict(4), lost))
    assert (card.status, card.reason) == ("unscored", "judge_failed")
    assert card.findings[0].rationale == "1 of 3 votes came: timeout after 5 s"
    assert one(votes(lost, verdict(4), verdict(3))).headline.value == 3
    assert one(votes(lost, verdict(4))).status == "unscored"


def test_where_most_hold_no_verdict_the_gate_says_so_and_all_are_asked_again() -> None:
    """Nothing is scored by the minority."""
    judge = ScriptedJudge(lambda case: verdict(3) if case.remark else [verdict(5), "no JSON", ""][len(judge.heard) % 3])
    card = one(judge, 3)
    assert [bool(attempt.faults) for attempt in card.attempts] == [True, False]
    assert card.headline.value == 3
    assert len(judge.heard) == 6
    assert {case.slot for case in judge.heard} == {f"c1~p1 vote {n}" for n in (1, 2, 3)}
    stubborn = one(votes("no JSON", "nor here", verdict(5)), 3)
    assert (stubborn.status, stubborn.reason) == ("unscored", "invalid_verdict")


def test_a_vote_that_was_cut_or_refused_is_none() -> None:
    """Even where what came before would be a verdict."""
    text = json.dumps(verdict(5))
    cut, refused = Reply(text, "scripted", stop="length"), Reply(text, "scripted", stop="refusal")
    assert one(votes(cut, verdict(3), verdict(3))).headline.value == 3
    assert one(votes(cut, refused, verdict(3))).status == "unscored"


@pytest.mark.parametrize("places", [1, 2, 7, 32])
def test_many_records_at_once_are_voted_on_each_by_itself(places: int) -> None:
    """Whatever order the votes come in, and half of them refused first."""

    def script(case: Case) -> Any:
        number = int(case.record_id[1:])
        return verdict(1 + number % 5, key_evidence=QUOTE) if case.remark or number % 2 else "no JSON"

    judge = ScriptedJudge(script, concurrency=places, latency=lambda turn: 0.001 * (turn % 3))
    told = scores(Voting(judge, votes=3), [sample_record(f"It leaves at {n}.", id=f"r{n}") for n in range(40)])
    assert told == {f"r{n}": 1 + n % 5 for n in range(40)}
    assert len(judge.heard) == 3 * 20 + 6 * 20


def test_a_judge_that_leaves_the_gate_to_others_votes_too() -> None:
    """It is just as good."""
    assert scores(Voting(Plain(), votes=3)) == {"r0": 4, "r1": 4, "r2": 4}


def test_votes_that_never_come_are_not_waited_for() -> None:
    """A judge that falls silent leaves what it said."""

    class Silent(Plain):
        def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
            for case in cases:
                if not case.slot.endswith("vote 2"):
                    yield case, Reply(json.dumps(verdict(4)), self.id)

    assert scores(Voting(Silent(), votes=3)) == {"r0": 4, "r1": 4, "r2": 4}


def test_votes_that_were_cut_off_decide_nothing() -> None:
    """Who was told to end left some: the case waits for all of them."""
    late: list[bool] = []

    class Cut(Plain):
        def cut_when(self, end: Callable[[], bool]) -> None:
            self.end = end

        def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
            for number, case in enumerate(cases):
                if number == 5:
                    late.append(True)
                if self.end():
                    return
                yield case, Reply(json.dumps(verdict(4)), self.id)

    voting: Any = Voting(Cut(), votes=3)
    voting.cut_when(lambda: bool(late))
    heard = list(voting.hear(iter([sample_case(slot=f"c{n}>p1") for n in range(2)]), lambda *_: None))
    assert [len(reply.text) > 0 for _, reply in heard] == [True]


def test_every_vote_can_be_heard() -> None:
    """Stability is measured with it."""
    told: list[list[str]] = []
    hear: Callable[..., None] = lambda case, replies: told.append([case.slot, *(r.judge for r in replies)])  # noqa: E731
    one(votes(verdict(4), verdict(3), verdict(4)), told=hear)
    assert told == [["c1~p1", "scripted", "scripted", "scripted"]]


@pytest.mark.parametrize("number", [0, -1, 101])
def test_a_number_of_votes_makes_sense(number: int) -> None:
    """None is no vote."""
    with pytest.raises(PlanError, match="must be a number from 1 to 100"):
        Voting(ScriptedJudge("{}"), votes=number)
