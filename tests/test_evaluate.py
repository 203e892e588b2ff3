"""The gate: exactly one JSON object that fits, asked once more with its faults, never believed before."""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.errors import InvalidVerdict, PlanError
from groundtrace.evaluate import evaluate, parse
from groundtrace.judges.patient import Patient
from groundtrace.memory import InMemory
from groundtrace.model import Case, Finding, Kind, Record, Reply, Score, Scorecard
from groundtrace.plugins import load
from groundtrace.ports import Again
from groundtrace.rubrics import law
from groundtrace.store import open_store
from groundtrace.testing import HOSTILE_TEXTS, ScriptedJudge, sample_record


class Rating(law.Verdict):
    """What the rubric of these tests wants to hear."""

    score: law.Level
    note: law.NullableText = None


class EveryWord:
    """A rubric small enough to see through: one case a word of the answer, the card's score their mean."""

    name = "every_word"
    version = "1"
    prompt_hash = "0"
    kinds: tuple[Kind, ...] = ("answer",)

    def __init__(self, refer: tuple[str, ...] = (), name: str = "every_word") -> None:
        self.name = name
        self._refer = refer

    def schema(self, unassessed: frozenset[str]) -> type[Rating]:
        return Rating

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterator[Case | Finding]:
        for n, word in enumerate((record.answer or "").split()):
            if word == "skip":
                yield law.unscored("told_to_skip", "skipped", slot=str(n))
            else:
                yield Case(self.name, "1", record.id, str(n), "Rate the word.", {"word": word}, {})

    def finding(self, record: Record, case: Case, verdict: Rating, unassessed: frozenset[str]) -> Finding:
        finding = Finding(slot=case.slot, value=verdict.score)
        if verdict.note == "wrong":
            raise InvalidVerdict(["wrong note @ $.note"])
        if verdict.note == "nearly":
            raise InvalidVerdict(["nearly @ $.note"], standing=finding.model_copy(update={"flags": ("mended",)}))
        return finding

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        scored = [f.value for f in findings if f.value is not None]
        if not scored:
            return law.unscored_card(self, record, findings)
        mean = law.halves_up(law.mean(scored), 2)
        scores = [Score(name=self.name, value=mean, low=1, high=5)]
        return law.card(self, record, findings, scores=scores, refer=self._refer)


def _records(*answers: str) -> list[Record]:
    return [sample_record(answer).model_copy(update={"id": f"r{n}"}) for n, answer in enumerate(answers)]


def _one(script: Any, answer: str = "word") -> Scorecard:
    (card,) = evaluate(_records(answer), [EveryWord()], ScriptedJudge(script))
    return card


def test_a_good_reply_becomes_a_stamped_card() -> None:
    """The card says who judged, when, in which batch and by which words."""
    (card,) = evaluate(_records("word"), [EveryWord()], ScriptedJudge({"score": 4}, limits="blind"), batch_id="b1")
    assert card.status == "scored"
    assert card.scores[0].value == 4
    assert (card.judge, card.judge_kind, card.batch_id, card.limits) == ("scripted", "llm", "b1", "blind")
    assert card.timestamp.endswith("+00:00")
    assert [a.text for a in card.attempts] == ['{"score": 4}']


def test_a_broken_reply_is_told_why_and_asked_once_more() -> None:
    """The fault lines reach the judge, and the second reply counts."""
    judge = ScriptedJudge(lambda case: {"score": 4} if case.remark else {"score": 6})
    (card,) = evaluate(_records("word"), [EveryWord()], judge)
    assert card.status == "scored"
    assert "less than or equal to 5; got 6 @ $.score" in (judge.heard[1].remark or "")
    assert [(a.attempt, bool(a.faults)) for a in card.attempts] == [(1, True), (2, False)]


def test_a_reply_broken_twice_leaves_the_card_unscored_and_keeps_both() -> None:
    """Two attempts, no score, a review."""
    card = _one("I would say four.")
    assert (card.status, card.reason) == ("unscored", "invalid_verdict")
    assert [a.faults for a in card.attempts] == [("reply holds no JSON object @ $",)] * 2
    assert [r.reason for r in card.review] == ["invalid_verdict"]
    assert card.scores == ()


def test_a_figure_wrong_twice_may_stand_corrected() -> None:
    """What a rubric lets stand is used only after the second fault."""
    card = _one({"score": 3, "note": "nearly"})
    assert card.scores[0].value == 3
    assert "mended" in card.flags
    assert len(card.attempts) == 2


def test_a_transport_fault_is_not_asked_again() -> None:
    """The two retries never mix."""
    judge = ScriptedJudge(Reply("", "scripted", fault="timeout after 30 s"))
    (card,) = evaluate(_records("word"), [EveryWord()], judge)
    assert (card.status, card.reason, len(judge.heard)) == ("unscored", "judge_failed", 1)
    assert card.findings[0].rationale == "timeout after 30 s"


def test_a_part_that_fails_leaves_the_rest() -> None:
    """One bad reply costs one finding."""
    card = _one(lambda case: {"score": 5} if case.body["word"] == "good" else "no", "good bad good")
    assert [f.status for f in card.findings] == ["scored", "unscored", "scored"]
    assert card.scores[0].value == 5


def test_a_record_without_request_or_generation_gets_no_card() -> None:
    """Kind "other" is shown, never judged."""
    other = sample_record().model_copy(update={"kind": "other"})
    assert not list(evaluate([other], [EveryWord()], ScriptedJudge({"score": 4})))


def test_a_card_decided_by_rule_asks_nobody() -> None:
    """No case, no call."""
    judge = ScriptedJudge({"score": 4})
    (card,) = evaluate(_records("skip"), [EveryWord()], judge)
    assert (card.status, card.reason, card.decided_by, judge.heard) == ("unscored", "told_to_skip", "rule", [])


def test_thousands_of_cards_decided_by_rule_stream() -> None:
    """A judge that is never asked does not hold the cards back."""
    pulled = 0

    def records() -> Iterator[Record]:
        nonlocal pulled
        for n in range(5_000):
            pulled += 1
            yield sample_record("skip").model_copy(update={"id": f"r{n}"})

    cards = evaluate(records(), [EveryWord()], ScriptedJudge({"score": 4}, concurrency=4))
    next(cards)
    assert pulled < 1_000
    assert sum(1 for _ in cards) == 4_999


def test_equal_questions_are_asked_once_with_a_memory() -> None:
    """The same case from another record costs nothing, and says that it was remembered."""
    judge, memory = ScriptedJudge({"score": 4}), InMemory()
    first = list(evaluate(_records("a b", "b"), [EveryWord()], judge, memory=memory))
    asked = len(judge.heard)
    again = list(evaluate(_records("a b", "b"), [EveryWord()], judge, memory=memory))
    assert asked == 2
    assert len(judge.heard) == asked
    assert all(a.cached for card in again for a in card.attempts)
    assert sorted(c.content_hash for c in again) == sorted(c.content_hash for c in first)


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_costs_no_card(text: str) -> None:
    """Whatever the fields hold, with a memory or without."""
    rec = sample_record(text, (text, "x"), query=text, slices={"k": text})
    for memory in (None, InMemory()):
        (card,) = evaluate([rec], [EveryWord()], ScriptedJudge({"score": 4}), memory=memory)
        assert card.status in ("scored", "unscored")


@pytest.mark.parametrize(
    ("records", "rubrics", "judge", "said"),
    [
        (sample_record(), [EveryWord()], ScriptedJudge("{}"), "give a list of records"),
        (5, [EveryWord()], ScriptedJudge("{}"), "give a list of records"),
        ([], EveryWord(), ScriptedJudge("{}"), "give a list of rubrics"),
        ([], ["source_support"], ScriptedJudge("{}"), "give a list of rubrics"),
        ([], [EveryWord()], "offline", "groundtrace.judge"),
    ],
)
def test_the_wrong_thing_is_told_at_once(records: Any, rubrics: Any, judge: Any, said: str) -> None:
    """Before anything is asked, and in words that help."""
    with pytest.raises(PlanError, match=said):
        evaluate(records, rubrics, judge)


def test_an_unchanged_record_keeps_its_card() -> None:
    """Nothing new can come of asking again; a failed judge, another judge or other content is asked."""
    memory, judge = InMemory(), ScriptedJudge({"score": 4})
    (first,) = evaluate(_records("a b"), [EveryWord()], judge, memory=memory)
    memory.keep_card(first)
    (again,) = evaluate(_records("a b"), [EveryWord()], ScriptedJudge("never asked"), memory=memory)
    assert again.content_hash == first.content_hash
    assert all(attempt.cached for attempt in again.attempts)
    other = ScriptedJudge({"score": 2}, id="other")
    (new,) = evaluate(_records("a b"), [EveryWord()], other, memory=memory)
    assert new.scores[0].value == 2
    down = ScriptedJudge(Reply("", "down", fault="timeout"), id="down")
    (failed,) = evaluate(_records("a b"), [EveryWord()], down, memory=memory)
    memory.keep_card(failed)
    (up,) = evaluate(_records("a b"), [EveryWord()], ScriptedJudge({"score": 4}, id="down"), memory=memory)
    assert up.status == "scored"


def test_a_reply_mended_on_the_second_attempt_is_remembered() -> None:
    """The question is what is remembered, not the remark."""
    judge, memory = ScriptedJudge(lambda case: {"score": 4} if case.remark else {}), InMemory()
    for _ in range(2):
        list(evaluate(_records("a"), [EveryWord()], judge, memory=memory))
    assert len(judge.heard) == 2


def test_a_card_may_send_its_record_on_to_another_rubric() -> None:
    """Put to it when it isn't running anyway, else to a person."""
    deeper = EveryWord(name="deeper")
    judge = ScriptedJudge({"score": 2})
    cards = list(evaluate(_records("a"), [EveryWord(("deeper",))], judge, referrals={"deeper": deeper}))
    assert [c.rubric for c in cards] == ["every_word", "deeper"]
    both = list(evaluate(_records("a"), [EveryWord(("deeper",)), deeper], judge, referrals={"deeper": deeper}))
    assert sorted(c.rubric for c in both) == ["deeper", "every_word"]
    (flagged,) = [c for c in both if c.rubric == "every_word"]
    assert [r.reason for r in flagged.review] == ["red_flag"]


def test_under_high_risk_a_red_flag_holds_the_card() -> None:
    """A review that comes from the referral is one like any other."""
    records = [sample_record("a").model_copy(update={"risk": "high"})]
    deeper = EveryWord(name="deeper")
    cards = list(evaluate(records, [EveryWord(("deeper",)), deeper], ScriptedJudge({"score": 2})))
    assert {card.rubric: card.status for card in cards} == {"every_word": "pending_review", "deeper": "scored"}


def test_two_records_of_one_id_do_not_mix() -> None:
    """Their answers in flight stay apart."""
    records = [
        sample_record("good").model_copy(update={"id": "r"}),
        sample_record("bad").model_copy(update={"id": "r"}),
    ]
    judge = ScriptedJudge(lambda case: {"score": 5 if case.body["word"] == "good" else 1}, concurrency=2)
    cards = list(evaluate(records, [EveryWord()], judge))
    assert sorted(c.scores[0].value or 0 for c in cards) == [1, 5]
    assert {c.record_id for c in cards} == {"r"}


class _Forgetful:
    """A judge that breaks the port: it never asks the gate, and leaves out some cases."""

    id, kind, limits = "forgetful", "llm", ""

    def unassessed(self, rubric: str) -> frozenset[str]:
        return frozenset()

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        for n, case in enumerate(cases):
            if n % 2 == 0:
                yield case, Reply('{"score": 4}' if n % 4 == 0 else "{}", self.id)


def test_a_judge_that_breaks_the_port_costs_its_own_findings() -> None:
    """Silence and unchecked replies are found out; no card is lost."""
    cards = list(evaluate(_records("a b c d", "e"), [EveryWord()], _Forgetful()))  # type: ignore[list-item]
    assert len(cards) == 2
    reasons = [f.reason for card in cards for f in card.findings]
    assert reasons.count("judge_silent") == 2
    assert reasons.count("invalid_verdict") == 1
    assert reasons.count(None) == 2


@given(seed=st.integers(0, 1_000), places=st.integers(1, 8))
def test_a_shuffled_stream_gives_the_same_cards(seed: int, places: int) -> None:
    """Order of records and of replies changes nothing in any card."""
    records = _records("a bb", "ccc", "skip", "dddd a skip", "a")
    shuffled = random.Random(seed).sample(records, len(records))
    judge = ScriptedJudge(lambda case: {"score": len(case.body["word"])}, concurrency=places)
    first = evaluate(records, [EveryWord(), EveryWord(name="twin")], ScriptedJudge(judge._script))
    second = evaluate(shuffled, [EveryWord(), EveryWord(name="twin")], judge)

    def plain(cards: Iterable[Scorecard]) -> list[str]:
        return sorted(card.content_hash for card in cards)

    assert plain(first) == plain(second)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('[{"score": 4}]', "array"),
        ('{"score": 4} {"score": 5}', "more than one JSON object"),
        ('{"score": 4}\n```json\n{"score": 5}\n```', "more than one JSON object"),
        ('{"score": 4} {"score": 5', "more than one JSON object"),
        ('{"verdict": {"score": 4}', "not valid JSON"),
        ('{"score": 4}' + " " * 1_000_000, "characters"),
        ('{"score": 4', "not valid JSON"),
        ('{"score": NaN}', "NaN is no number"),
        ('{"score": Infinity}', "Infinity is no number"),
        ('{"score": 4, "score": 5}', "stands twice"),
        (r'{"rationale": "half \ud83d of it"}', "half of a character"),
        ("{" * 100_000, "no JSON object"),
        ('{"a":' * 100_000, "not valid JSON"),
    ],
)
def test_what_is_not_one_json_object_is_a_fault(text: str, fault: str) -> None:
    """Nothing is repaired by guessing."""
    with pytest.raises(InvalidVerdict, match=fault):
        parse(text)


def test_of_a_reply_too_long_to_be_read_a_card_keeps_the_beginning() -> None:
    """And says how long it was: a card is no place for a megabyte of nonsense."""
    endless = ScriptedJudge(lambda _: "x" * 1_200_000)
    (card,) = evaluate([sample_record()], [load("rubric", "rag_faithfulness")], endless)
    assert [attempt.text[:3] for attempt in card.attempts] == ["xxx", "xxx"]
    assert all(attempt.text.endswith("[the first 20,000 of 1,200,000 characters]") for attempt in card.attempts)
    assert all(len(attempt.text) < 21_000 for attempt in card.attempts)


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"score": 4}\n```',
        'For the set {a, b} I find: {"score": 4}',
        'My verdict:\n{"score": 4}\nThat is {all}.',
        '\ufeff {"score": 4} \n',
    ],
)
def test_a_fence_or_prose_around_it_is_allowed_and_noted(text: str) -> None:
    """One object is one object."""
    told, notes = parse(text)
    assert told == {"score": 4}
    assert notes == ("text around the JSON object ignored",)


@pytest.mark.parametrize(
    ("reply", "faulty"),
    [
        ('{"score": 4.0}', False),
        ('{"score": 4.5}', True),
        ('{"score": "4"}', True),
        ('{"score": true}', True),
        ('{"score": 4, "note": "N/A"}', False),
        ('{"score": 4, "mood": "fine"}', False),
        ('{"score": 4, "note": 7}', True),
        ('{"score": 1e400}', True),
    ],
)
def test_types_are_strict_and_unknown_fields_counted(reply: str, *, faulty: bool) -> None:
    """4.0 is the integer 4; text is no number; what isn't known is ignored and noted."""
    card = _one(reply)
    assert (card.status == "unscored") is faulty
    if "mood" in reply:
        assert card.attempts[0].notes == ("unknown field ignored @ $.mood",)


@given(st.text(max_size=200))
def test_no_text_gets_past_the_gate_by_accident(text: str) -> None:
    """Whatever a judge says, the outcome is a card."""
    card = _one(text)
    assert card.status in ("scored", "unscored")


def test_replies_survive_odd_text() -> None:
    """Lone surrogates in a reply don't break the card's JSON."""
    card = _one(json.dumps({"score": 4, "note": "x"}).replace("x", "\ud800"))
    assert card.model_dump_json()


class FourAtATime(ScriptedJudge):
    """Puts four replies to the gate at once; looks how many the store holds meanwhile, and whether others may write."""

    def __init__(self, store: str) -> None:
        super().__init__({"score": 4})
        self.store, self.seen = store, list[tuple[int, int]]()

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Four by four."""
        coming = iter(cases)
        while four := list(itertools.islice(coming, 4)):
            with again.together():  # type: ignore[attr-defined]
                heard = [(case, self._ask(case)) for case in four]
                for case, reply in heard:
                    assert again(case, reply) is None
                before = self._kept()
            self.seen.append((before, self._kept()))
            yield from heard

    def _kept(self) -> int:
        with closing(sqlite3.connect(self.store, timeout=0, isolation_level=None)) as others:
            others.execute("BEGIN IMMEDIATE")
            return int(others.execute("SELECT count(*) FROM groundtrace_replies").fetchone()[0])


@pytest.mark.parametrize("around", [lambda judge: judge, Patient])
def test_replies_that_came_together_are_kept_together(around: Callable[[Any], Any], tmp_path: Path) -> None:
    """In one step, at the end, and before any card is given."""
    place = str(tmp_path / "store.db")
    judge = FourAtATime(place)
    with open_store(place) as store:
        cards = list(
            evaluate(
                [sample_record(answer="one two three four five six seven eight")],
                [EveryWord()],
                around(judge),
                memory=store,
            )
        )
    assert [card.status for card in cards] == ["scored"]
    assert judge.seen == [(0, 4), (4, 8)]
