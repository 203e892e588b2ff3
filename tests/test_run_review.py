"""What a person sees of a run, and what the next run makes of what the person said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from groundtrace.memory import InMemory
from groundtrace.model import AUDIT, Decision, Label, Receipt, Scorecard
from groundtrace.plan import Plan
from groundtrace.review import audited, decide
from groundtrace.run import Report, run
from groundtrace.run.writing import Door, Writing
from groundtrace.testing import sample_card

COUNT = 60


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Records nothing is wrong with."""
    path = tmp_path / "records.jsonl"
    with path.open("w", encoding="utf-8") as lines:
        for n in range(COUNT):
            said = f"Dogs travel for free on line {n + 10}."
            record = {"id": f"r{n}", "query": "Are dogs free?", "context": [said], "answer": said}
            lines.write(json.dumps(record) + "\n")
    return path


def scored(records: Path, memory: InMemory, **fields: Any) -> Report:
    """One run with one rubric; its cards stand in cards.jsonl."""
    sink = f"jsonl:{records.parent}/cards.jsonl"
    given = {"sources": f"jsonl:{records}", "rubrics": ("source_support",), "sinks": (sink,)}
    return run(Plan(**given, **fields), memory=memory)


def picked(memory: InMemory) -> list[Scorecard]:
    """The cards that wait because they were picked at random."""
    return [card for card in memory.waiting() if [review.reason for review in card.review] == [AUDIT]]


@pytest.mark.parametrize("risk", ["normal", "high"])
def test_a_run_queues_a_share_of_the_cards_nobody_has_to_see(records: Path, risk: str) -> None:
    """They are scored and written like all others."""
    memory = InMemory()
    report = scored(records, memory, audit_rate=0.2, risk=risk)
    found = picked(memory)
    assert 0 < len(found) < COUNT / 2
    assert report.doubts == {AUDIT: len(found)}
    assert report.cards == {"source_support": {"scored": COUNT}}
    assert {card.status for card in found} == {"scored"}
    assert {card.review[0].weight for card in found} == {5}
    assert all(audited(card, 0.2) == card for card in found)


def test_another_rate_changes_the_queue_and_nothing_that_is_written(records: Path) -> None:
    """No judge is asked, no sink is told."""
    memory = InMemory()
    scored(records, memory, audit_rate=0.1)
    few = {card.id for card in picked(memory)}
    written = (records.parent / "cards.jsonl").read_bytes()
    for rate, weight in ((0.4, {2.5}), (0, set())):
        report = scored(records, memory, audit_rate=rate)
        assert report.about.calls == 0
        assert all(set(states) == {"unchanged"} for states in report.receipts.values())
        assert {card.review[0].weight for card in picked(memory)} == weight
        assert few <= {card.id for card in picked(memory)} or rate == 0
    assert (records.parent / "cards.jsonl").read_bytes() == written
    assert {len(memory.history(ident)) for ident in few} == {1}


def test_the_next_run_puts_a_correction_where_the_score_was(records: Path) -> None:
    """Once; and whatever else changes, the person's word stays."""
    memory = InMemory()
    scored(records, memory, audit_rate=1)
    card = picked(memory)[0]
    label = Label(card_id=card.id, score="source_support", value=2)
    made = Decision(card_id=card.id, state="corrected", who="Ada", when="2026-11-30", labels=(label,))
    memory.keep_card(decide(card, made))
    states: list[dict[str, int]] = []
    for fields in ({}, {}, {"risk": "high"}):
        (told,) = scored(records, memory, audit_rate=1, **fields).receipts.values()
        states.append({state: told.get(state, 0) for state in ("written", "failed", "unconfirmed")})
        lines = (records.parent / "cards.jsonl").read_text(encoding="utf-8").splitlines()
        first, found = (held for held in map(json.loads, lines) if held["id"] == card.id)
        assert first["judge_kind"] == "offline"
        assert (found["judge"], found["judge_kind"], found["scores"][0]["value"]) == ("Ada", "human", 2)
        assert card.id not in {waiting.id for waiting in memory.waiting()}
    assert states[0]["written"] == len(card.scores)
    assert states[1] == {"written": 0, "failed": 0, "unconfirmed": 0}


class Silent:
    """A sink that takes cards and says nothing."""

    name = "silent"
    updates: Literal["upsert", "append"] = "append"

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Nothing comes back."""
        list(cards)
        return iter(())


def test_why_a_write_is_unconfirmed_is_told() -> None:
    """The number alone says nothing; it is tried again."""
    memory = InMemory()
    writing = Writing([Door("silent:here", Silent())], memory, None, "offline")
    writing.take(sample_card())
    writing.flush()
    assert writing.report.receipts == {"silent:here": {"unconfirmed": 2}}
    told = "writing to silent:here: unconfirmed, so tried again with the next run: the sink said nothing about it"
    assert writing.report.notes == (told,)
    assert len(list(memory.outbox())) == 2


def test_a_held_card_without_a_headline_is_written_and_confirmed(tmp_path: Path) -> None:
    """Its flag is published under the rubric's own name, which is no score of a partial card."""
    record = {"query": "Are dogs free?", "context": ["Dogs travel for free."], "risk": "high"}
    record["answer"] = "Dogs travel for free [1]. A cabin costs 60 euros."
    (tmp_path / "records.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    sinks = (f"jsonl:{tmp_path}/cards.jsonl", f"otel:{tmp_path}/out")
    plan = Plan(sources=f"jsonl:{tmp_path}/records.jsonl", rubrics=("rag_faithfulness",), sinks=sinks)
    memory = InMemory()
    reports = [run(plan, memory=memory) for _ in range(2)]
    assert reports[0].cards == {"rag_faithfulness": {"pending_review": 1}}
    assert [{*states} for states in reports[0].receipts.values()] == [{"written"}] * 2
    assert [{*states} for states in reports[1].receipts.values()] == [{"unchanged"}] * 2
    assert not list(memory.outbox())
