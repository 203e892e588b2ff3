"""The river, from plan to report: what is written, what adds up, and what no trouble can stop."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import neighbours
from groundtrace.errors import PlanError
from groundtrace.memory import InMemory
from groundtrace.model import Record
from groundtrace.plan import Plan
from groundtrace.run import look, run
from groundtrace.tally import Report

Install: TypeAlias = Callable[[str], None]

FERRY = "The night ferry to Sandhaven leaves at 21:40 every day and takes 95 minutes."
DOGS = "Dogs travel for free and must be kept on a lead on the car deck."
RECORDS: list[dict[str, Any]] = [
    {"id": "good", "query": "When does it leave?", "context": [FERRY], "answer": "It leaves at 21:40 every day [1]."},
    {"id": "wrong", "query": "Are dogs free?", "context": [FERRY, DOGS], "answer": "Dogs travel for free [1]."},
    {
        "id": "made",
        "query": "How long?",
        "context": [FERRY],
        "answer": "It takes 95 minutes [1]. A cabin costs 60 euros.",
    },
    {"id": "none", "query": "Is there wifi?", "context": [], "answer": "There is wifi in all 40 cabins."},
    {"id": "mute", "query": "Is there a pool?", "context": [DOGS], "answer": "I don't know."},
    {"id": "blind", "query": "Anything?", "answer": "Yes, all of it."},
    {"id": "off", "query": "Anything else?", "context": [FERRY]},
]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package of tests/plugins for one test."""
    return lambda name: neighbours.install(name, tmp_path, monkeypatch)


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of records, one line of which is torn, in a folder that is the current one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    lines = [json.dumps(record) for record in RECORDS]
    (folder / "records.jsonl").write_text("\n".join([*lines[:3], '{"id": "torn', *lines[3:]]) + "\n", encoding="utf-8")
    return folder / "records.jsonl"


def cards(file: Path) -> list[dict[str, Any]]:
    """The scorecards a jsonl sink left."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_scores_go_home_and_a_second_run_adds_nothing(records: Path) -> None:
    """Beside the records they came from, once."""
    first = run(Plan(sources="records.jsonl"))
    home = records.with_name("records.groundtrace.jsonl")
    written = home.read_bytes()
    second = run(Plan(sources="records.jsonl"))
    assert {(card["record_id"], card["rubric"]) for card in cards(home)} == {
        (record["id"], rubric) for record in RECORDS for rubric in ("rag_faithfulness", "source_support")
    }
    assert home.read_bytes() == written
    assert set(first.receipts["beside records.jsonl"]) == {"written"}
    assert set(second.receipts["beside records.jsonl"]) == {"unchanged"}


def test_the_report_tells_what_happened(records: Path) -> None:
    """Counts, reasons, what was lost, and the lowest cards with their claim."""
    report = run(Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", batch_id="b7"))
    assert (report.seen, report.traces, report.records) == (len(RECORDS), len(RECORDS), {"answer": len(RECORDS)})
    assert sum(report.cards["rag_faithfulness"].values()) == len(RECORDS)
    assert report.cards["rag_faithfulness"]["unscored"] == sum(report.reasons["rag_faithfulness"].values()) == 2
    assert any("1 line is not JSON (line 4)" in note for note in report.notes)
    assert {gap.partition(":")[0] for gap in report.gaps} == {"context", "answer"}
    assert report.abstained == {"rag_faithfulness": 1}
    assert any("cabin costs 60 euros" in low.claim for low in report.lowest)
    assert report.about.judge.startswith("offline@")
    assert (report.about.batch_id, report.about.cost) == ("b7", 0.0)
    assert {card["batch_id"] for card in cards(records.with_name("out.jsonl"))} == {"b7"}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_run_is_the_sum_of_its_parts(records: Path, count: int) -> None:
    """However many workers share it; times and cache hits aside."""
    plan = Plan(sources="records.jsonl", sinks="jsonl:whole.jsonl")
    whole = run(plan)
    parts = [run(part) for part in plan.model_copy(update={"sinks": ("jsonl:parts.jsonl",)}).split(count)]
    total = sum(parts, Report())
    assert total.receipts.pop("jsonl:parts.jsonl") == whole.receipts.pop("jsonl:whole.jsonl")
    assert total == whole
    folder = records.parent
    assert len(cards(folder / "parts.jsonl")) == len(cards(folder / "whole.jsonl"))


def test_several_sources_each_go_home(records: Path) -> None:
    """A card is never written beside traces it does not come from."""
    shutil.copy(records, records.with_name("more.jsonl"))
    run(Plan(sources=("records.jsonl", "more.jsonl"), rubrics="rag_faithfulness"))
    for name in ("records", "more"):
        assert len(cards(records.with_name(f"{name}.groundtrace.jsonl"))) == len(RECORDS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"judge": "ofline"},
        {"rubrics": "rag_faithfullness"},
        {"sinks": ("jsonl:out.jsonl", "jsnl:x")},
        {"sources": ("records.jsonl", "jsonl:no")},
    ],
)
def test_a_bad_plan_never_starts_a_run(records: Path, wrong: dict[str, Any]) -> None:
    """Nothing is read, asked or written before everything that was named is there."""
    with pytest.raises(PlanError):
        run(Plan(**{"sources": "records.jsonl", "sinks": "jsonl:out.jsonl", **wrong}))
    assert [path.name for path in records.parent.iterdir()] == ["records.jsonl"]


def test_a_dry_run_counts_and_leaves_nothing(records: Path, install: Install) -> None:
    """No judge is asked: this one would have nothing to say."""
    install("neighbour")
    report = run(Plan(sources="records.jsonl", judge="silent:x", dry_run=True))
    assert report.cases > 0
    assert report.tokens > 100 * report.cases
    assert (report.cards, report.receipts, report.about.calls) == ({}, {}, 0)
    assert [path.name for path in records.parent.iterdir()] == ["records.jsonl"]


def test_looking_shows_every_record_and_leaves_nothing(records: Path) -> None:
    """What `groundtrace show` does."""
    seen: list[Record] = []
    report = look(Plan(sources="records.jsonl"), seen.append)
    assert [record.id for record in seen] == [record["id"] for record in RECORDS]
    assert (report.cases, report.traces) == (0, len(RECORDS))
    assert [path.name for path in records.parent.iterdir()] == ["records.jsonl"]


def test_a_memory_that_outlives_the_run_asks_and_writes_nothing_twice(records: Path) -> None:
    """Equal questions have equal answers."""
    memory = InMemory()
    plan = Plan(sources="records.jsonl", sinks="jsonl:out.jsonl")
    first, second = run(plan, memory=memory), run(plan, memory=memory)
    assert first.about.calls > 0
    assert (second.about.calls, second.about.cached) == (0, first.replies)
    assert set(second.receipts["jsonl:out.jsonl"]) == {"unchanged"}
    assert list(memory.outbox()) == []


def test_equal_questions_of_a_run_are_asked_once(records: Path) -> None:
    """Also without a memory of one's own."""
    lines = [{**RECORDS[0], "id": f"same{n}"} for n in range(5)]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    about = run(Plan(sources="records.jsonl", rubrics="rag_faithfulness")).about
    assert (about.calls, about.cached) == (1, 4)


def test_two_sinks_both_get_every_card(records: Path) -> None:
    """What one was told does not count for the other."""
    report = run(Plan(sources="records.jsonl", sinks=("jsonl:a.jsonl", "jsonl:b.jsonl")))
    assert report.receipts["jsonl:a.jsonl"] == report.receipts["jsonl:b.jsonl"]
    assert records.with_name("a.jsonl").read_bytes() == records.with_name("b.jsonl").read_bytes()


def test_high_risk_of_the_plan_is_every_records_risk(records: Path) -> None:
    """What should be reviewed must be, and is held back."""
    report = run(Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", risk="high"))
    assert {card["risk"] for card in cards(records.with_name("out.jsonl"))} == {"high"}
    assert report.cards["rag_faithfulness"]["pending_review"] > 0


def test_a_red_flag_sends_the_record_on_to_the_deeper_rubric(records: Path) -> None:
    """An uncited claim no passage supports is looked at as a whole answer, though nobody named that rubric."""
    run(Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", rubrics="source_support"))
    sent = {card["record_id"] for card in cards(records.with_name("out.jsonl")) if card["rubric"] == "rag_faithfulness"}
    assert "made" in sent
    assert "good" not in sent


def test_progress_is_told(records: Path) -> None:
    """It only grows, over all sources, and the last word is the whole."""
    said: list[tuple[int, int]] = []
    shutil.copy(records, records.with_name("more.jsonl"))
    plan = Plan(sources=("records.jsonl", "more.jsonl"), sinks="jsonl:out.jsonl")
    run(plan, progress=lambda *so_far: said.append(so_far))
    assert said[-1] == (2 * len(RECORDS), 4 * len(RECORDS))
    assert said == sorted(said)


# --- trouble --------------------------------------------------------------------------------------------------------


def test_a_platform_that_gives_out_loses_nothing_that_was_read(records: Path, install: Install) -> None:
    """What came before is judged and written, and the refusal is told."""
    install("neighbour")
    report = run(Plan(sources="neighbour:10,fail_after=4", sinks="jsonl:out.jsonl", rubrics="source_support"))
    assert report.failed == ("reading neighbour: neighbour: the door is locked",)
    assert {card["record_id"] for card in cards(records.with_name("out.jsonl"))} == {"t0", "t1", "t2", "t3"}


def test_a_source_that_breaks_ends_itself_only(records: Path, install: Install) -> None:
    """The other source is read to its end."""
    install("hostile")
    monkey = Plan(
        sources=({"use": "mangled", "breaks": True}, "records.jsonl"), sinks="jsonl:out.jsonl", judge="quitter:999"
    )
    report = run(monkey)
    assert report.failed == ("reading mangled: RuntimeError: the second page is missing",)
    assert report.traces == 1 + len(RECORDS)


def test_a_trace_that_cannot_be_read_is_counted_named_and_shown(records: Path, install: Install) -> None:
    """A bad trace never stops a run."""
    install("hostile")
    seen: list[Record] = []
    report = look(Plan(sources="mangled"), seen.append)
    assert (report.traces, report.skipped) == (3, 1)
    assert any(note.startswith("trace t1 could not be read: ") for note in report.notes)
    assert [(record.ref.trace_id, record.kind) for record in seen] == [
        ("t0", "answer"),
        ("t1", "other"),
        ("t2", "answer"),
    ]
    assert {gap.field for gap in seen[1].gaps} == {"query", "context", "answer"}


def test_a_sink_that_refuses_keeps_no_other_from_its_cards(records: Path, install: Install) -> None:
    """What did not go out stays in the outbox and is told."""
    install("neighbour")
    memory = InMemory()
    report = run(Plan(sources="records.jsonl", sinks=("neighbour:letters,full=yes", "jsonl:out.jsonl")), memory=memory)
    assert report.failed == ("writing to neighbour:letters,full=yes: neighbour: the letter box is full",)
    assert set(report.receipts["neighbour:letters,full=yes"]) == {"failed"}
    assert set(report.receipts["jsonl:out.jsonl"]) == {"written"}
    assert {intent.sink for intent in memory.outbox()} == {"neighbour:letters,full=yes"}
    assert len(cards(records.with_name("out.jsonl"))) == 2 * len(RECORDS)


def test_a_sink_that_breaks_is_told_like_one_that_refuses(records: Path, install: Install) -> None:
    """Other people's code raises what it likes."""
    install("hostile")
    report = run(Plan(sources="records.jsonl", sinks="shredder"))
    assert report.failed == ("writing to shredder: OSError: the paper is jammed",)
    assert set(report.receipts["shredder"]) == {"failed"}


@pytest.mark.parametrize(
    ("where", "reason"), [("cases", "rubric_failed"), ("finding", "invalid_verdict"), ("conclude", "rubric_failed")]
)
def test_a_rubric_that_breaks_on_a_record_gives_that_record_an_unscored_card(
    records: Path, install: Install, where: str, reason: str
) -> None:
    """The others are scored, and a person is asked to look."""
    install("hostile")
    lines = [{"id": f"t{n}", "query": "q?", "context": [DOGS], "answer": "Dogs travel for free [1]."} for n in range(3)]
    records.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    report = run(Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", rubrics=f"brittle:{where}"))
    told = {card["record_id"]: card for card in cards(records.with_name("out.jsonl"))}
    assert {name: card["status"] for name, card in told.items()} == {"t0": "scored", "t1": "unscored", "t2": "scored"}
    assert (told["t1"]["reason"], report.failed) == (reason, ())
    assert told["t1"]["review"]


def test_a_judge_that_breaks_leaves_what_was_judged(records: Path, install: Install) -> None:
    """The cards before it are written; the rest is told as failed."""
    install("hostile")
    report = run(Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", judge="quitter:2"))
    assert report.failed == ("judge quitter: RuntimeError: no more",)
    assert cards(records.with_name("out.jsonl"))


def test_an_interrupted_run_has_written_what_was_judged(records: Path, install: Install) -> None:
    """Ctrl-C costs the questions in flight."""
    install("hostile")
    with pytest.raises(KeyboardInterrupt):
        run(
            Plan(
                sources="records.jsonl",
                sinks="jsonl:out.jsonl",
                judge={"use": "quitter", "argument": 2, "how": "interrupt"},
            )
        )
    assert cards(records.with_name("out.jsonl"))


def test_a_judge_without_words_leaves_unscored_cards_for_a_person(records: Path, install: Install) -> None:
    """Whatever stays unscored is in the report."""
    install("neighbour")
    report = run(Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", judge="silent:x"))
    assert report.reasons["source_support"]["judge_failed"] > 0
    assert report.doubts["judge_failed"] > 0
    assert report.faults == report.replies > 0
    assert report.failed == ()


def test_a_live_source_is_sampled_unless_the_plan_says_otherwise(records: Path, install: Install) -> None:
    """A tenth, and every trace its user complained about."""
    install("neighbour")
    plan = Plan(sources={"use": "neighbour", "argument": 100, "mood": "bad"}, sinks="jsonl:out.jsonl")
    tenth = run(plan)
    assert tenth.seen == 100
    assert 20 <= tenth.traces <= 45  # a fifth complained
    assert run(plan.model_copy(update={"sample": 1.0})).traces == 100
    assert run(plan.model_copy(update={"sample": 0.0})).traces == 20
