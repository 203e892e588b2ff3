"""The LLM judge against providers that misbehave: a fault once costs one question, a fault always costs one record."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from groundtrace import record
from groundtrace.errors import PlanError, PlatformError
from groundtrace.evaluate import evaluate
from groundtrace.judges.llm import LlmJudge
from groundtrace.judges.llm.factories import openai
from groundtrace.model import Record, Scorecard
from groundtrace.plugins import load
from standins.llm import StandIn, standing
from standins.llm.spoil import WAYS

RUBRIC = "rag_faithfulness"
BAD = "number 3 "
"""Stands in the record that is in trouble and in no other."""

RECORDS: list[Record] = [
    record(
        id=f"r{n}",
        query="When does it leave?",
        context=[f"The night ferry number {n} leaves at 21:40 and takes 95 minutes.", "Dogs travel for free."],
        answer=f"The night ferry number {n} leaves at 21:40 [1].",
    )
    for n in range(6)
]


@pytest.fixture(scope="module")
def stand() -> Iterator[StandIn]:
    """A provider of ours."""
    with standing() as made:
        yield made


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")


def judge(stand: StandIn, **more: Any) -> LlmJudge:
    """A judge at the stand-in."""
    return openai("gpt-4o", base_url=stand.v1, **{"timeout": 5, "deadline": 20, **more})


def cards(stand: StandIn, **more: Any) -> dict[str, Scorecard]:
    """The cards of the records, by record."""
    return {card.record_id: card for card in evaluate(RECORDS, [load("rubric", RUBRIC)], judge(stand, **more))}


def plain(card: Scorecard) -> dict[str, Any]:
    """A card without what no two runs share."""
    return card.model_dump(exclude={"timestamp", "attempts", "batch_id", "judge", "basis"})


@pytest.fixture(scope="module")
def clean(stand: StandIn) -> dict[str, Scorecard]:
    """The cards of a run in which nothing goes wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
        stand.script()
        found = cards(stand)
    assert {card.status for card in found.values()} == {"scored"}
    return found


OVERLOOKED = {"fenced", "prose", "extra_field", "echo_before", "echo_after"}
"""What the gate reads through: an echo holds no object here."""

OF_CLAIMS = {"missing_id", "dropped_claim", "extra_id", "duplicate_id", "wrong_level"}
"""What can go wrong with claims and labels, which this rubric has none of: other rubrics' tests have them."""

OF_RECORDS = {"parrot", "parrot_before", "parrot_after"}
"""What needs a verdict forged in the record."""

FAULTS = sorted(set(WAYS) - OVERLOOKED - OF_CLAIMS - OF_RECORDS)
BROKEN: list[dict[str, Any]] = [
    {"refuse": True},
    {"finish": "length", "answer": '{"dimensions": {'},
    {"finish": "filter", "answer": ""},
    {"answer": ""},
]
TRANSPORT: list[dict[str, Any]] = [
    {"status": 429, "retry_after": 0.2},
    {"status": 500},
    {"status": 503},
    {"reset": "before"},
    {"reset": "body"},
]


@pytest.mark.parametrize("what", BROKEN, ids=str)
def test_a_reply_that_holds_no_verdict_once_is_asked_for_once_more(
    stand: StandIn, clean: dict[str, Scorecard], what: dict[str, Any]
) -> None:
    """One question more, with what was wrong; then the card is what it is without."""
    stand.script({"when": {"prompt": BAD, "nth": 1}, "do": what})
    found = cards(stand)
    assert {card.status for card in found.values()} == {"scored"}
    assert stand.log()["requests"] == len(RECORDS) + 1
    first = found["r3"].attempts[0]
    assert len(first.faults) == 1
    assert first.faults[0].endswith(" @ $")
    assert {name: plain(card) for name, card in found.items()} == {name: plain(card) for name, card in clean.items()}


@pytest.mark.parametrize("what", [*BROKEN, *({"spoil": way} for way in FAULTS)], ids=str)
def test_a_reply_that_is_always_wrong_costs_its_record_alone(
    stand: StandIn, clean: dict[str, Scorecard], what: dict[str, Any]
) -> None:
    """Two questions, no score, a person to see it; every other card is as in a clean run."""
    stand.script({"when": {"prompt": BAD}, "do": what})
    found = cards(stand)
    if stand.log()["unspoilt"]:
        pytest.fail("nothing was spoilt: this proves nothing")
    bad = found.pop("r3")
    assert bad.status in {"unscored", "pending_review"}, bad
    assert bad.review
    assert len(bad.attempts) == 2
    assert {name: plain(card) for name, card in found.items()} == {
        name: plain(card) for name, card in clean.items() if name != "r3"
    }


@pytest.mark.parametrize("way", sorted(OF_CLAIMS - {"wrong_level"}))
def test_claims_that_are_not_those_asked_for_are_never_scored(stand: StandIn, way: str) -> None:
    """Ids and claims that are missing, too many or told twice: once costs a question, always its record."""
    rubric = load("rubric", "factual_accuracy")
    stand.script({"when": {"prompt": BAD, "nth": 1}, "do": {"spoil": way}})
    once = {card.record_id: card for card in evaluate(RECORDS, [rubric], judge(stand))}
    assert (stand.log()["unspoilt"], once["r3"].status, len(once["r3"].attempts)) == (0, "scored", 2)
    stand.script({"when": {"prompt": BAD}, "do": {"spoil": way}})
    always = {card.record_id: card for card in evaluate(RECORDS, [rubric], judge(stand))}
    assert always["r3"].status in {"unscored", "pending_review"}
    assert [card.status for name, card in sorted(always.items()) if name != "r3"] == ["scored"] * (len(RECORDS) - 1)


@pytest.mark.parametrize("what", TRANSPORT, ids=str)
def test_trouble_on_the_way_once_is_asked_again_and_costs_nothing(
    stand: StandIn, clean: dict[str, Scorecard], what: dict[str, Any]
) -> None:
    """The same question again; the gate never hears of it."""
    stand.script({"when": {"prompt": BAD, "nth": 1}, "do": what})
    found = cards(stand)
    assert {name: plain(card) for name, card in found.items()} == {name: plain(card) for name, card in clean.items()}
    assert len(found["r3"].attempts) == 1


@pytest.mark.parametrize("what", [*TRANSPORT, {"hang": True}, {"drip": {"bytes": 1, "every": 0.5}}], ids=str)
def test_trouble_on_the_way_always_ends_by_the_deadline_and_costs_its_record_alone(
    stand: StandIn, clean: dict[str, Scorecard], what: dict[str, Any]
) -> None:
    """A hang with a time limit of 2 seconds is over in little more than the deadline; nobody is left waiting."""
    stand.script({"when": {"prompt": BAD}, "do": what})
    began, threads = time.monotonic(), threading.active_count()
    found = cards(stand, timeout=2, deadline=4)
    assert time.monotonic() - began < 12
    assert threading.active_count() == threads
    bad = found.pop("r3")
    assert (bad.status, bad.reason) == ("unscored", "judge_failed")
    assert "attempt" in bad.attempts[0].faults[0]
    assert {name: plain(card) for name, card in found.items()} == {
        name: plain(card) for name, card in clean.items() if name != "r3"
    }


@pytest.mark.parametrize(
    ("status", "told"),
    [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "gpt-4o")],
)
def test_what_can_never_succeed_ends_the_run_at_once(stand: StandIn, status: int, told: str) -> None:
    """One line that says what to mend, and no key in it."""
    stand.script({"do": {"status": status, "message": "no such thing"}})
    with pytest.raises(PlatformError, match=told) as refused:
        cards(stand)
    assert "sk-of-the-tests" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert stand.log()["requests"] <= len(RECORDS)


def test_a_schema_that_is_not_taken_is_done_without_and_said(stand: StandIn, clean: dict[str, Scorecard]) -> None:
    """JSON mode next, plain words last; remembered, so that it is refused once."""
    refused = {"status": 400, "message": "response_format json_schema is not supported"}
    stand.script({"when": {"mode": "schema"}, "do": refused})
    made = judge(stand, concurrency=1)
    found = {card.record_id: card for card in evaluate(RECORDS, [load("rubric", RUBRIC)], made)}
    assert {name: plain(card)["scores"] for name, card in found.items()} == {
        name: plain(card)["scores"] for name, card in clean.items()
    }
    assert stand.log()["modes"]["schema"] == 1
    assert made.notes() == (f"judge {made.id}: takes no JSON schema; JSON mode is used",)


def test_usage_cached_tokens_and_cost_are_kept(stand: StandIn) -> None:
    """Of every reply; an unknown price is None and never 0."""
    stand.script({"do": {"usage": {"input": 1000, "output": 100, "cached": 600}}})
    unknown = cards(stand)["r1"].attempts[0]
    assert unknown.usage is not None
    assert (unknown.usage.input, unknown.usage.output, unknown.usage.cached) == (1000, 100, 600)
    assert unknown.cost is None
    known = cards(stand, input_price=2.0, output_price=10.0)["r1"].attempts[0]
    assert known.cost == pytest.approx(0.003)


def test_the_rubrics_part_goes_first_and_is_the_same_for_all(stand: StandIn) -> None:
    """Byte for byte; the record's part stands in fences of its own."""
    stand.script(keep=-1)
    cards(stand)
    bodies = [asked["body"] for asked in stand.kept()]
    assert len({body["messages"][0]["content"] for body in bodies}) == 1
    fences = {body["messages"][1]["content"].split(":")[1] for body in bodies}
    assert len(fences) == len(RECORDS)
    assert all(body["temperature"] == 0 for body in bodies)


def test_closing_a_hearing_leaves_nothing_behind(stand: StandIn) -> None:
    """No thread, no call in flight."""
    stand.script({"do": {"wait": 1.0}})
    threads = threading.active_count()
    going = evaluate(RECORDS, [load("rubric", RUBRIC)], judge(stand))
    next(iter(going))
    going.close()  # type: ignore[attr-defined]
    assert threading.active_count() == threads


def test_settings_that_change_a_reply_change_the_id(stand: StandIn) -> None:
    """And no others do; what makes no sense is refused."""
    base = judge(stand).id
    assert judge(stand, timeout=9, concurrency=2).id == base
    others = {judge(stand, **more).id for more in ({"temperature": 1.0}, {"seed": 7}, {"structured": "json"})}
    assert len(others | {base}) == 4
    assert openai("gpt-4o").id == "openai:gpt-4o"
    for wrong in ({"timeout": 0}, {"concurrency": -1}, {"input_price": 1.0}):
        with pytest.raises(PlanError):
            judge(stand, **wrong)


def test_what_is_in_flight_can_be_left(stand: StandIn) -> None:
    """The hearing ends, those that were answered are heard, and the rest has no reply: it is no fault of theirs."""
    stand.script({"when": {"prompt": BAD}, "do": {"hang": True}})
    asked, late = judge(stand), threading.Event()
    asked.cut_when(late.is_set)
    found = []
    for card in evaluate(RECORDS, [load("rubric", RUBRIC)], asked, stopping=late.is_set):
        found.append(card)
        if len(found) == len(RECORDS) - 1:
            late.set()
    assert {card.status for card in found} == {"scored"}
    assert len(found) == len(RECORDS) - 1


def test_one_who_is_to_stop_waits_for_no_provider_in_trouble(stand: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be asked again for minutes; no record is said to have failed for that."""
    monkeypatch.setattr("groundtrace.judges.llm._VAIN", 0.0)
    stand.script({"do": {"status": 503}})
    asked = judge(stand, deadline=1000)
    asked.stop_when(lambda: bool(asked.trouble()))
    assert list(evaluate(RECORDS, [load("rubric", RUBRIC)], asked, stopping=lambda: bool(asked.trouble()))) == []


def test_a_judge_says_why_it_gives_no_answer_as_long_as_it_does_not(stand: StandIn) -> None:
    """A question it refuses is an answer of a kind."""
    asked = judge(stand, deadline=0.1)

    def trouble(**does: Any) -> str:
        stand.script({"do": does} if does else {})
        list(evaluate(RECORDS[:1], [load("rubric", RUBRIC)], asked))
        return asked.trouble()

    assert asked.trouble() == ""
    assert "we are closed" in trouble(status=503, message="we are closed")
    assert trouble(status=400, message="not this one") == ""
    assert trouble(status=500) != ""
    assert trouble() == ""
