"""Whose word stands on a platform: across files, judges, cascades that were cut, outages and lost holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import pytest

import groundtrace.plugins
from groundtrace.adapters.published import results
from groundtrace.cascade import cascade
from groundtrace.errors import InvalidVerdict
from groundtrace.memory import InMemory
from groundtrace.model import Case, Decision, Finding, Label, Receipt, Record, Reply, Scorecard
from groundtrace.plan import Plan
from groundtrace.review import decide
from groundtrace.run import run
from groundtrace.run.holds import Holds, key_of
from groundtrace.run.writing import Door, Writing
from groundtrace.store import open_store
from groundtrace.testing import ScriptedJudge, sample_card
from hired import SUPPORTED

PASSAGE = "The night ferry to Sandhaven leaves at 21:40 every day and takes 95 minutes."
REFUSED = {
    **SUPPORTED,
    "score": 1,
    "support_level": "No Support / Contradicts",
    "key_evidence": None,
    "missing_information": "all of it",
}
DOUBTED = {**SUPPORTED, "score": 3, "support_level": "Partially Supports", "missing_information": "a part"}
DOWN = Reply("", "down", fault="HTTP 503 overloaded")

Put: TypeAlias = Callable[[str, str, Any], Any]


class Platform:
    """A sink that replaces by id and is not read back; it refuses the scores it is told to."""

    name = "platform"
    updates: Literal["upsert", "append"] = "upsert"

    def __init__(self) -> None:
        self.held: dict[str, tuple[str, float | None]] = {}
        self.refuses: tuple[str, ...] = ()

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        for card in cards:
            for told in results(card):
                refused = told.score.endswith(self.refuses) if self.refuses else False
                if not refused:
                    self.held[told.score] = card.judge, told.value
                yield Receipt(
                    card_id=card.id,
                    score=told.score,
                    state="failed" if refused else "written",
                    reason="503" if refused else None,
                    feedback_id=told.feedback_id,
                    content_hash=told.content_hash,
                )


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    """Let plans name a thing of this test."""
    true, named = groundtrace.plugins.load, dict[tuple[str, str], Any]()

    def load(kind: Any, spec: Any) -> Any:
        known = isinstance(spec, str) and (kind, spec) in named
        return named[kind, spec] if known else true(kind, spec)

    def put(kind: str, name: str, thing: Any) -> Any:
        named[kind, name] = thing
        return thing

    monkeypatch.setattr(sys.modules["groundtrace.run.river"], "load", load)
    return put


@pytest.fixture
def platform(put: Put) -> Platform:
    """The platform plans call "up"."""
    return put("sink", "up", Platform())  # type: ignore[no-any-return]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with two files of one record each, numbered alike."""
    monkeypatch.chdir(tmp_path)
    write("a.jsonl", f"{PASSAGE[:-1]} [1].", "When?")
    write("b.jsonl", "The ferry takes 95 minutes [1].", "How long?")
    return tmp_path


def write(name: str, answer: str, query: str, **more: Any) -> None:
    """A file of one record."""
    record = {"id": "r1", "query": query, "context": [PASSAGE], "answer": answer, **more}
    Path(name).write_text(json.dumps(record) + "\n", encoding="utf-8")


def plan(**more: Any) -> Plan:
    """What most tests here do."""
    said = {"sources": "a.jsonl", "sinks": "up", "rubrics": "source_support", "store": "s.db", "audit_rate": 0.0}
    return Plan(**{**said, **more})


def corrected(card: Scorecard, value: float) -> Scorecard:
    """The card with its headline as Ada has it."""
    label = Label(card_id=card.id, score="source_support", value=value, who="ada")
    return decide(card, Decision(card_id=card.id, state="corrected", who="ada", when="2026-11-30", labels=(label,)))


def newest() -> Scorecard:
    """The one card of the store."""
    with open_store("s.db") as store:
        (ident,) = store.card_ids("")
        found = store.card(ident)
        assert found is not None
        return found


# --- records numbered alike -----------------------------------------------------------------------------------------


def test_a_decision_outlives_a_run_over_another_file_numbered_alike(here: Path, put: Put, platform: Platform) -> None:
    """Back at the first file it stands, is written nowhere anew, and is the newest version again."""
    judge = put("judge", "A", ScriptedJudge(SUPPORTED, id="A"))
    run(plan(judge="A"))
    with open_store("s.db") as store:
        store.keep_card(corrected(newest(), 2))
    run(plan(judge="A"))
    put("sink", "other", Platform())
    run(plan(judge="A", sources="b.jsonl", sinks="other"))
    assert newest().judge == "A"
    asked = len(judge.heard)
    again = run(plan(judge="A"))
    assert (again.kept, again.receipts, len(judge.heard)) == ({"human": 3}, {"up": {"unchanged": 3}}, asked)
    assert platform.held["source_support"] == ("ada", 2)
    assert newest().decided_by == "human"


def test_a_model_s_word_outlives_a_run_over_another_file_numbered_alike(
    here: Path, put: Put, platform: Platform
) -> None:
    """Offline, back at the first file, overwrites nothing."""
    put("judge", "A", ScriptedJudge(REFUSED, id="A"))
    put("sink", "other", Platform())
    run(plan(judge="A"))
    run(plan(sources="b.jsonl", sinks="other"))
    again = run(plan())
    assert (again.kept, again.about.calls) == ({"llm": 3}, 0)
    assert platform.held["source_support"] == ("A", 1)


def test_what_is_left_over_is_the_card_it_was_meant_for(here: Path, put: Put, platform: Platform) -> None:
    """Not the other record's that has its id."""
    platform.refuses = ("source_support", ".min", ".citation_precision")
    put("judge", "A", ScriptedJudge(SUPPORTED, id="A"))
    put("sink", "other", Platform())
    run(plan(judge="A"))
    run(plan(sources="b.jsonl", sinks="other"))
    platform.refuses = ()
    write("c.jsonl", "Dogs sleep.", "Do dogs sleep?", id="r2")
    run(plan(sources="c.jsonl", sinks="up", rubrics="factual_accuracy"))
    assert platform.held["source_support"] == ("A", 5)


# --- an offline card never replaces a model's -----------------------------------------------------------------------


def test_in_a_cascade_the_cheap_judge_overwrites_no_model_either(here: Path, put: Put, platform: Platform) -> None:
    """What it is sure of goes to the full judge where its own word would lose."""
    put("judge", "A", ScriptedJudge(REFUSED, id="A"))
    full = put("judge", "B", ScriptedJudge(SUPPORTED, id="B"))
    run(plan(judge="A"))
    told = plan(cascade={"judge": "B"})
    report = run(told)
    assert (len(full.heard), report.kept) == (1, {})
    assert platform.held["source_support"] == ("B", 5)
    again = run(told)
    assert (again.about.calls, again.receipts) == (0, {"up": {"unchanged": 3}})


def test_a_cascade_that_is_cut_leaves_no_draft_to_count(here: Path, put: Put, platform: Platform) -> None:
    """The model's card is still the newest version, and offline does not get past it."""
    put("judge", "A", ScriptedJudge(SUPPORTED, id="A"))
    run(plan(judge="A"))

    def killed(case: Case) -> Any:
        raise KeyboardInterrupt

    put("judge", "B", ScriptedJudge(killed, id="B"))
    with pytest.raises(KeyboardInterrupt):
        run(plan(cascade={"judge": "B", "band": [0, 1]}))
    assert newest().judge == "A"
    assert run(plan()).kept == {"llm": 3}
    assert platform.held["source_support"] == ("A", 5)


def test_a_draft_is_an_earlier_version_unless_it_would_displace_more(here: Path, put: Put) -> None:
    """The history of a card shows both verdicts of a cascade, and never a weaker word over a stronger."""
    memory, rubric = InMemory(), groundtrace.plugins.rubric("source_support")
    record = groundtrace.record(query="When?", context=[PASSAGE], answer=f"{PASSAGE[:-1]} [1].")
    cheap = lambda: ScriptedJudge(DOUBTED, id="cheap", kind="offline")  # noqa: E731

    def scored(full: str) -> Scorecard:
        judge = ScriptedJudge(SUPPORTED, id=full)
        (card,) = cascade([record], [rubric], cheap(), judge, memory=memory, band=(0.0, 1.0))
        memory.keep_card(card)
        return card

    ident = scored("B").id
    assert [card.judge for card in memory.history(ident)] == ["cheap", "B"]
    scored("C")
    assert [card.judge for card in memory.history(ident)] == ["cheap", "B", "C"]


# --- outages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [{"judge": "B"}, {"cascade": {"judge": "B", "band": [0, 1]}}])
def test_a_judge_that_is_down_takes_no_score_away(here: Path, put: Put, platform: Platform, told: Any) -> None:
    """What stood stays and is counted; the report says who gave out and why; later it is asked again."""
    put("judge", "A", ScriptedJudge(SUPPORTED, id="A"))
    put("judge", "B", ScriptedJudge(DOWN, id="B"))
    run(plan(judge="A"))
    report = run(plan(**told))
    assert (report.kept, report.cards) == ({"llm": 3}, {"source_support": {"scored": 1}})
    assert platform.held["source_support"] == ("A", 5)
    assert any("judge B gave out on source_support" in note and "HTTP 503" in note for note in report.notes)
    assert newest().judge == "A"
    up = put("judge", "B", ScriptedJudge(REFUSED, id="B"))
    run(plan(**told))
    assert (len(up.heard), platform.held["source_support"]) == (1, ("B", 1))


def test_a_judge_that_is_down_from_the_start_is_said_on_the_card(here: Path, put: Put, platform: Platform) -> None:
    """Where nothing stood, nothing is made up: neither is a draft of the cheap judge."""
    put("judge", "B", ScriptedJudge(DOWN, id="B"))
    report = run(plan(cascade={"judge": "B", "band": [0, 1]}))
    assert (report.kept, report.cards) == ({}, {"source_support": {"unscored": 1}})
    assert platform.held["source_support"] == ("B", None)


# --- what another run took ------------------------------------------------------------------------------------------


def test_what_was_lost_after_it_was_judged_is_not_written(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may sleep between judging and writing; the trace is counted once, whatever its rubrics."""
    clock = [0.0]
    monkeypatch.setattr(sys.modules["groundtrace.run.holds"], "time", SimpleNamespace(monotonic=lambda: clock[0]))
    memory = InMemory(clock=lambda: clock[0])
    holds, key = Holds(memory, "me"), key_of(sample_card().ref)
    writing = Writing([Door("up", platform)], memory, holds, "llm")
    assert holds.take(key)
    for rubric in ("source_support", "factual_accuracy"):
        writing.take(sample_card(rubric=rubric))
    clock[0] = 1000.0
    assert memory.lease(key, "another", 60)
    writing.take(sample_card(rubric="rag_faithfulness"))
    writing.flush()
    assert (platform.held, writing.report.held, list(memory.outbox())) == ({}, 1, [])


# --- writes nobody wants any more -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["a.jsonl", "c.jsonl"])
def test_a_write_of_a_score_the_card_lost_leaves_the_outbox(
    source: str, here: Path, put: Put, platform: Platform
) -> None:
    """As of a card a person rejected; whether the run reads its trace or finds it left over."""
    put("judge", "A", ScriptedJudge(SUPPORTED, id="A"))
    platform.refuses = (".min",)
    run(plan(judge="A"))
    with open_store("s.db") as store:
        assert [intent.score for intent in store.outbox()] == ["source_support.min"]
        card = newest()
        store.keep_card(decide(card, Decision(card_id=card.id, state="rejected", who="ada", when="2026-11-30")))
    platform.refuses = ()
    write("c.jsonl", "Dogs sleep [1].", "Do dogs sleep?", id="r2")
    run(plan(sources=source))
    with open_store("s.db") as store:
        assert list(store.outbox()) == []


def test_a_write_that_fails_again_stays_in_the_outbox(here: Path, put: Put, platform: Platform) -> None:
    """Only what was written has nothing due beside it."""
    put("judge", "A", ScriptedJudge(SUPPORTED, id="A"))
    platform.refuses = (".min",)
    for _ in range(2):
        run(plan(judge="A"))
        with open_store("s.db") as store:
            assert [intent.score for intent in store.outbox()] == ["source_support.min"]


# --- what breaks ----------------------------------------------------------------------------------------------------


class Breaking:
    """A rubric that raises a verdict's error where there is no verdict."""

    def __init__(self, where: str) -> None:
        self._inner, self._where = groundtrace.plugins.rubric("source_support"), where
        for name in ("name", "version", "prompt_hash", "kinds", "schema", "finding"):
            setattr(self, name, getattr(self._inner, name))

    def cases(self, record: Record, unassessed: frozenset[str]) -> Any:
        self._break("cases")
        return self._inner.cases(record, unassessed)

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        self._break("conclude")
        return self._inner.conclude(record, findings)

    def notes(self) -> tuple[str, ...]:
        self._break("notes")
        return ("all is well",)

    def _break(self, where: str) -> None:
        if where == self._where:
            raise InvalidVerdict(["the mean is off @ $.x"])


@pytest.mark.parametrize("where", ["cases", "conclude"])
def test_a_verdict_s_error_from_elsewhere_in_a_rubric_costs_that_card(
    where: str, here: Path, put: Put, platform: Platform
) -> None:
    """It is no more the run's end than any other."""
    put("rubric", "breaking", Breaking(where))
    report = run(plan(rubrics="breaking"))
    assert report.reasons == {"source_support": {"rubric_failed": 1}}


@pytest.mark.parametrize("who", ["rubric", "sink", "source"])
def test_notes_that_break_are_lost_and_the_report_is_not(who: str, here: Path, put: Put, platform: Platform) -> None:
    """Scores were written; the report still comes, and the run is over."""

    def notes() -> Any:
        raise ValueError("no notes today")

    if who == "rubric":
        put("rubric", "breaking", Breaking("notes"))
    elif who == "sink":
        platform.notes = notes  # type: ignore[attr-defined]
    else:
        source = groundtrace.plugins.load("source", "jsonl:a.jsonl")
        source.notes = notes
        put("source", "jsonl:a.jsonl", source)
    report = run(plan(rubrics="breaking" if who == "rubric" else "source_support"))
    assert report.cards == {"source_support": {"scored": 1}}
    assert report.about.state == "finished"
    assert any(note.startswith(f"notes of {who} ") for note in report.notes)
    assert run(plan(dry_run=True)).traces == 1
