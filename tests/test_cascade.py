"""The cheap judge speaks first; what it doubts, and nothing else, is a new question for the full one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from groundtrace.cascade import cascade
from groundtrace.errors import PlanError
from groundtrace.memory import InMemory
from groundtrace.model import Case, Finding, Kind, Record, Score, Scorecard, card_id
from groundtrace.review import subject_of
from groundtrace.rubrics import law
from groundtrace.testing import ScriptedJudge, sample_record


class Rating(law.Verdict):
    """What the rubric of these tests wants to hear."""

    score: law.Level


class Whole:
    """One case for each record; the card's score is what the judge said."""

    version = "1"
    prompt_hash = "0"
    kinds: tuple[Kind, ...] = ("answer",)

    def __init__(self, name: str = "whole") -> None:
        self.name = name

    def schema(self, unassessed: frozenset[str]) -> type[Rating]:
        return Rating

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterator[Case | Finding]:
        yield Case(self.name, "1", record.id, "0", "Rate it.", {"answer": record.answer}, {})

    def finding(self, record: Record, case: Case, verdict: Rating, unassessed: frozenset[str]) -> Finding:
        return Finding(slot=case.slot, value=verdict.score)

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        value = findings[0].value
        if value is None:
            return law.unscored_card(self, record, findings)
        return law.card(self, record, findings, scores=[Score(name=self.name, value=value, low=1, high=5)])


def _records(*answers: str) -> list[Record]:
    made = (sample_record(answer) for answer in answers)
    return [
        record.model_copy(update={"id": f"r{n}", "ref": record.ref.__class__("otel", trace_id=f"t{n}")})
        for n, record in enumerate(made)
    ]


def _said(case: Case) -> Any:
    """The cheap judge's word is the answer itself."""
    text = str(case.body["answer"])
    return {"score": int(text)} if text.isdigit() else "no JSON"


def _judges() -> tuple[ScriptedJudge, ScriptedJudge]:
    return ScriptedJudge(_said, id="cheap", kind="offline"), ScriptedJudge({"score": 2}, id="full", concurrency=2)


def test_only_what_the_cheap_judge_doubts_is_asked_of_the_full_one() -> None:
    """What is clear stands; what is borderline or no verdict at all goes on."""
    cheap, full = _judges()
    cards = {card.record_id: card for card in cascade(_records("1", "3", "5", "what"), [Whole()], cheap, full)}
    assert {name: card.decided_by for name, card in cards.items()} == {
        "r0": "cheap",
        "r1": "full",
        "r2": "cheap",
        "r3": "full",
    }
    assert {name: card.judge for name, card in cards.items() if card.decided_by == "full"} == {
        "r1": "full",
        "r3": "full",
    }
    assert sorted(case.record_id for case in full.heard) == ["r1", "r3"]


def test_only_the_doubtful_rubric_of_a_record_is_asked_again() -> None:
    """Another rubric's card of the same record stands."""
    cheap, full = ScriptedJudge(lambda c: {"score": 3 if c.rubric == "b" else 5}, id="cheap"), _judges()[1]
    cards = list(cascade(_records("x", "y"), [Whole("a"), Whole("b")], cheap, full))
    assert sorted((card.record_id, card.rubric, card.decided_by) for card in cards) == [
        ("r0", "a", "cheap"),
        ("r0", "b", "full"),
        ("r1", "a", "cheap"),
        ("r1", "b", "full"),
    ]


def test_a_second_run_asks_nobody_and_the_history_shows_both_verdicts() -> None:
    """Cards settled under either judge are handed over."""
    memory, records = InMemory(), _records("1", "3", "5")
    first = []
    for card in cascade(records, [Whole()], *_judges(), memory=memory):
        memory.keep_card(card)
        first.append(card)
    cheap, full = _judges()
    again = list(cascade(records, [Whole()], cheap, full, memory=memory))
    assert (cheap.heard, full.heard) == ([], [])
    assert {c.id: (c.decided_by, c.scores) for c in again} == {c.id: (c.decided_by, c.scores) for c in first}
    history = memory.history(card_id(records[1].ref, "whole"))
    assert [card.decided_by for card in history] == ["cheap", "full"]


@pytest.mark.parametrize(("same", "judge"), [(True, "full"), (False, "cheap")])
def test_where_a_model_s_card_stands_the_cheap_judges_word_does_not_count(judge: str, *, same: bool) -> None:
    """An offline card never replaces an LLM's of the same answer, whatever it is made from: the full judge is asked."""
    memory, records = InMemory(), _records("5")
    new = next(cascade(records, [Whole()], *_judges()))
    older = f"{subject_of(new.basis)}-older" if same else "another-older"
    memory.keep_card(new.model_copy(update={"judge": "old", "judge_kind": "llm", "basis": older}))
    (card,) = cascade(records, [Whole()], *_judges(), memory=memory)
    assert (card.judge, card.basis == older) == (judge, False)


class Referring(Whole):
    """Sends a record on where it finds little."""

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        card = super().conclude(record, findings)
        return card.model_copy(update={"refer": ("deep",) if (findings[0].value or 5) < self.below else ()})

    def __init__(self, below: int) -> None:
        super().__init__("whole")
        self.below = below


@pytest.mark.parametrize("below", [3, 4])
def test_a_card_of_the_full_judge_sends_its_record_on_once(below: int) -> None:
    """By the full judge where the cheap one saw no reason to, and to a person only where the rubric ran already."""
    told: list[Record] = []
    cheap = ScriptedJudge(lambda case: {"score": 3 if case.rubric == "whole" else 5}, id="cheap")
    full, deep = ScriptedJudge({"score": 2}, id="full"), Whole("deep")
    cards = list(
        cascade(
            _records("3"),
            [Referring(below)],
            cheap,
            full,
            referrals={"deep": deep},
            finished=told.append,
            band=(0.4, 0.6),
        )
    )
    assert sorted((card.rubric, card.judge) for card in cards) == [
        ("deep", "full" if below == 3 else "cheap"),
        ("whole", "full"),
    ]
    assert [review.reason for card in cards for review in card.review] == ([] if below == 3 else ["red_flag"])
    assert len(told) == 1
    both = list(cascade(_records("3"), [Referring(3), deep], cheap, full, referrals={}, finished=told.append))
    assert sorted(card.rubric for card in both) == ["deep", "whole"]
    assert [review.reason for card in both for review in card.review] == ["red_flag"]


def test_a_record_is_finished_once_its_last_card_was_taken() -> None:
    """The bookkeeping spans both judges."""
    told: list[str] = []
    taken: dict[str, int] = {}
    cheap = ScriptedJudge(lambda case: {"score": 3 if case.rubric == "b" else 5}, id="cheap", concurrency=3)

    def finished(record: Record) -> None:
        assert taken[record.id] == 2
        told.append(record.id)

    for card in cascade(_records(*"abcdef"), [Whole("a"), Whole("b")], cheap, _judges()[1], finished=finished):
        taken[card.record_id] = taken.get(card.record_id, 0) + 1
    assert sorted(told) == [f"r{n}" for n in range(6)]


@pytest.mark.parametrize("answer", ["5", "3"])
def test_a_long_stream_is_held_a_piece_at_a_time(answer: str) -> None:
    """Neither cards that stand nor cards that go on pile up."""
    taken = ahead = pulled = 0

    def stream() -> Iterator[Record]:
        nonlocal pulled, ahead
        for n in range(3000):
            pulled += 1
            ahead = max(ahead, pulled - taken)
            record = sample_record(answer)
            yield record.model_copy(update={"id": f"r{n}"})

    for _ in cascade(stream(), [Whole()], *_judges()):
        taken += 1
    assert taken == 3000
    assert ahead <= 600


def test_after_a_stop_nothing_more_is_asked_or_given_half() -> None:
    """Half a cascade is no verdict; what stands is given."""
    cheap, full = _judges()
    assert list(cascade(_records("3", "5"), [Whole()], cheap, full, stopping=lambda: True)) == []
    assert (cheap.heard, full.heard) == ([], [])
    stopped = cascade(_records(*"5353"), [Whole()], cheap, full, stopping=lambda: len(cheap.heard) > 2)
    assert all(card.decided_by == "cheap" or card.judge == "full" for card in stopped)
    assert len(cheap.heard) == 3


def test_a_judge_does_not_check_itself_and_a_band_lies_within_0_to_1() -> None:
    """A plan that makes no sense is refused before anything is read."""
    cheap, full = _judges()
    with pytest.raises(PlanError, match="asked first"):
        cascade([], [Whole()], cheap, cheap)
    with pytest.raises(PlanError, match="band"):
        cascade([], [Whole()], cheap, full, band=(0.8, 0.4))
