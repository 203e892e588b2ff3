"""What a plan chooses for a run: a cascade, risk record by record, headline scores alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundtrace.errors import PlanError
from groundtrace.plan import Cascade, Plan
from groundtrace.run import run
from groundtrace.run.risk import same_model
from groundtrace.testing import ScriptedJudge
from terminal import groundtrace as command

PASSAGE = "The night ferry to Sandhaven leaves at 21:40 every day and takes 95 minutes."
RECORDS = [
    {"id": "sure", "query": "When?", "context": [PASSAGE], "answer": f"{PASSAGE[:-1]} [1].", "tags": ["health"]},
    {"id": "odd", "query": "When?", "context": [PASSAGE], "answer": "A cabin costs 60 euros [1].", "tags": ["fun"]},
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with two records."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in RECORDS), encoding="utf-8")
    return tmp_path


def cards(folder: Path) -> dict[str, dict[str, Any]]:
    """The newest card of each record."""
    lines = (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()
    return {card["record_id"]: card for card in map(json.loads, lines)}


def plan(**more: Any) -> Plan:
    """What most tests here do."""
    said = {"sources": "records.jsonl", "sinks": "jsonl:out.jsonl", "rubrics": "source_support", "audit_rate": 0.0}
    return Plan(**{**said, **more})


def test_a_cascade_puts_what_the_first_judge_doubts_to_the_full_one(
    here: Path, hire: Callable[..., ScriptedJudge]
) -> None:
    """And with a store asks nobody the second time."""
    judge = hire()
    told = plan(cascade={"judge": "hired"}, store="store.db")
    report = run(told)
    assert [case.record_id for case in judge.heard] == ["odd"]
    assert {name: card["decided_by"] for name, card in cards(here).items()} == {"sure": "cheap", "odd": "full"}
    assert report.about.judge.endswith(", then scripted")
    again = run(told)
    assert (again.about.calls, len(judge.heard), again.receipts) == (0, 1, {"jsonl:out.jsonl": {"unchanged": 6}})


def test_a_cascade_reads_back_from_its_file_and_is_checked(here: Path) -> None:
    """A band that is none, a key that is none."""
    told = plan(cascade={"judge": "offline", "band": [0.2, 0.5]})
    (here / "plan.toml").write_text(told.to_toml(), encoding="utf-8")
    assert Plan.from_toml("plan.toml") == told
    assert told.cascade == Cascade(judge="offline", band=(0.2, 0.5))
    with pytest.raises(PlanError, match="band"):
        plan(cascade={"judge": "offline", "band": [0.9, 0.5]})
    with pytest.raises(PlanError, match="cascade"):
        plan(cascade={"judge": "offline", "bnd": [0.1, 0.5]})


@pytest.mark.parametrize(
    ("risk", "high"),
    [
        ("normal", set()),
        ("high", {"sure", "odd"}),
        ({"tags": {"health": "high"}}, {"sure"}),
        ({"default": "high", "tags": {"fun": "normal"}}, {"sure"}),
        ({"predicate": "mine:is_risky"}, {"odd"}),
        ({"predicate": "mine:breaks"}, {"sure", "odd"}),
    ],
)
def test_risk_is_a_record_s_own(here: Path, risk: Any, high: set[str]) -> None:
    """By default, by tag, by a function; one that breaks makes the record high and is told."""
    code = "def is_risky(record):\n    return 'cabin' in record.answer\n\n\ndef breaks(record):\n    return 1 / 0\n"
    (here / "mine.py").write_text(code, encoding="utf-8")
    sys.modules.pop("mine", None)
    report = run(plan(risk=risk))
    assert {name for name, card in cards(here).items() if card["risk"] == "high"} == high
    broke = isinstance(risk, dict) and risk.get("predicate") == "mine:breaks"
    assert any("could not be told, so it is high: ZeroDivisionError" in note for note in report.notes) == broke


def test_a_predicate_that_is_not_there_never_starts_a_run(here: Path) -> None:
    """Nothing is read or written."""
    with pytest.raises(PlanError, match="nowhere:to_be_found"):
        run(plan(risk={"predicate": "nowhere:to_be_found"}))
    assert not (here / "out.jsonl").exists()


def test_a_copy_that_was_not_tested_is_said_in_the_report(here: Path) -> None:
    """And judges all the same."""
    command("rubric copy source_support", here)
    file = here / "rubrics" / "source_support.toml"
    file.write_text(file.read_text("utf-8").replace("review_below = 3", "review_below = 5"), encoding="utf-8")
    report = run(plan(rubrics="source_support,copy=rubrics/source_support.toml"))
    assert [note for note in report.notes if "groundtrace rubric test" in note]
    assert report.cards == {"source_support": {"scored": 2}}


def test_headline_sends_each_rubric_s_own_score_alone(here: Path) -> None:
    """What was sent before and is no more is taken back; sent again it is whole."""
    run(plan(scores="headline"))
    assert {score["name"] for card in cards(here).values() for score in card["scores"]} == {"source_support"}
    run(plan())
    assert {len(card["scores"]) for card in cards(here).values()} == {3}


def test_headline_sends_nothing_of_a_partial_card_and_counts_it(here: Path) -> None:
    """The offline judge leaves rag_faithfulness partial: there is no headline to send, nor anything in its place."""
    report = run(plan(rubrics=["rag_faithfulness", "source_support"], scores="headline"))
    lines = (here / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [[score["name"] for score in json.loads(line)["scores"]] for line in lines] == [["source_support"]] * 2
    assert report.receipts == {"jsonl:out.jsonl": {"partial and not sent": 2, "written": 2}}
    assert sum("a partial card has no score of its rubric's own" in note for note in report.notes) == 1


def test_a_partial_card_that_waits_for_a_person_says_so_and_no_number(here: Path) -> None:
    """A flag is no score."""
    run(plan(rubrics="rag_faithfulness", scores="headline", risk="high"))
    told = cards(here)["odd"]
    assert (told["status"], told["scores"]) == ("pending_review", [])


def test_two_models_of_one_tag_are_two_models(here: Path, hire: Callable[..., ScriptedJudge]) -> None:
    """What follows a colon in a model's name is a size or a version, no provider's name before it."""
    assert same_model("openai:llama3.1:8b,base_url=http://127.0.0.1:11434/v1", "llama3.1:8b")
    assert same_model("openai:llama3.1", "ollama/llama3.1:latest")
    assert same_model("openai:gpt-5.2", "openai:gpt-5.2-20260101")
    assert not same_model("openai:qwen3:8b,base_url=http://127.0.0.1:11434/v1", "llama3.1:8b")
    assert not same_model("openai:llama3.1:70b", "llama3.1:8b")
    assert not same_model("openai:gpt-5.2", "")


def test_a_judge_of_its_own_model_s_answers_is_said_once_and_marked(
    here: Path, hire: Callable[..., ScriptedJudge]
) -> None:
    """Dates at the end of a model's name aside."""
    hire(id="openai:gpt-5.2,temperature=0")
    spoken = [{**record, "slices": {"generator_model": "gpt-5.2-2026-01-01"}} for record in RECORDS]
    (here / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in spoken), encoding="utf-8")
    report = run(plan(judge="hired"))
    assert sum("wrote answers it judges" in note for note in report.notes) == 1
    assert all("self_judged" in card["flags"] for card in cards(here).values())
