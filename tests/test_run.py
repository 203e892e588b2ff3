"""The river, from plan to report: what is written, what adds up, and what no trouble can stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import neighbours
from groundtrace.errors import PlanError
from groundtrace.memory import InMemory
from groundtrace.model import Record, Scorecard
from groundtrace.plan import Plan
from groundtrace.run import look, run
from groundtrace.tally import Report

Install: TypeAlias = Callable[[str], None]

FERRY = "The night ferry to Sandhaven leaves at 21:40 every day and takes 95 minutes."
DOGS = "Dogs travel for free and must be kept on a lead on the car deck."
FOR_ANSWERS = ("factual_accuracy", "rag_faithfulness", "source_support")
"""The built-in rubrics that judge answers; a plan that names none asks them all."""

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


def write_spans(file: Path) -> None:
    """The demo's traces."""
    data = resources.files("groundtrace.data")
    file.write_bytes(data.joinpath("demo.jsonl").read_bytes())
    file.with_suffix(".logs.jsonl").write_bytes(data.joinpath("demo.logs.jsonl").read_bytes())


def test_scores_go_home_and_a_second_run_adds_nothing(records: Path) -> None:
    """Beside the records they came from, once."""
    first = run(Plan(sources="records.jsonl"))
    home = records.with_name("records.groundtrace.jsonl")
    written = home.read_bytes()
    second = run(Plan(sources="records.jsonl"))
    assert {(card["record_id"], card["rubric"]) for card in cards(home)} == {
        (record["id"], rubric) for record in RECORDS for rubric in FOR_ANSWERS
    }
    assert home.read_bytes() == written
    assert set(first.receipts["records.groundtrace.jsonl"]) == {"written"}
    assert set(second.receipts["records.groundtrace.jsonl"]) == {"unchanged"}


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


def test_files_given_one_by_one_are_one_reading(records: Path) -> None:
    """As a shell expands `run *.jsonl`: what stands in two is judged once, and the folder that holds them is home."""
    more = records.with_name("more.jsonl")
    more.write_text("".join(json.dumps(record) + "\n" for record in (RECORDS[0], {**RECORDS[1], "id": "new"})))
    plan = Plan(sources=("records.jsonl", "more.jsonl", "./records.jsonl"), rubrics="rag_faithfulness")
    report = run(plan)
    assert report.traces == len(RECORDS) + 1
    home = records.with_name(f"{records.parent.name}.groundtrace.jsonl")
    assert set(report.receipts) == {home.name}
    assert {card["record_id"] for card in cards(home)} == {*(record["id"] for record in RECORDS), "new"}
    everything = sorted(path.name for path in records.parent.iterdir())
    again = run(Plan(sources=everything, rubrics="rag_faithfulness"))
    assert set(again.receipts[home.name]) == {"unchanged"}
    assert sum(run(part).traces for part in plan.split(2)) == report.traces


def test_one_file_given_twice_has_its_own_home(records: Path) -> None:
    """However it is spelled."""
    report = run(Plan(sources=("records.jsonl", str(records), "./records.jsonl"), rubrics="rag_faithfulness"))
    assert (report.traces, list(report.receipts)) == (len(RECORDS), ["records.groundtrace.jsonl"])


def test_sources_of_different_kinds_each_go_home(records: Path) -> None:
    """A card is never written beside traces it does not come from."""
    write_spans(records.with_name("spans.jsonl"))
    report = run(Plan(sources=("records.jsonl", "spans.jsonl"), rubrics="rag_faithfulness"))
    assert set(report.receipts) == {
        "records.groundtrace.jsonl",
        "spans.groundtrace.logs.jsonl, spans.groundtrace.jsonl",
    }


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
    write_spans(records.with_name("spans.jsonl"))
    plan = Plan(sources=("records.jsonl", "spans.jsonl"), sinks="jsonl:out.jsonl")
    run(plan, progress=lambda *so_far: said.append(so_far))
    assert said[-1] == (len(RECORDS) + 5, len(FOR_ANSWERS) * (len(RECORDS) + 5))
    assert said == sorted(said)


@pytest.mark.parametrize("sink", ["jsonl:out.jsonl", "otel:out"])
def test_a_file_of_scores_that_was_torn_is_told_and_whole_again(records: Path, sink: str) -> None:
    """What a crash cut off is written again, and nobody has to find the torn line by himself."""
    plan = Plan(sources="records.jsonl", sinks=sink, rubrics="rag_faithfulness")
    run(plan)
    file = next(
        path for path in (records.with_name("out.jsonl"), *records.parent.glob("out/*.logs.jsonl")) if path.exists()
    )
    file.write_bytes(file.read_bytes()[:-40])
    report = run(plan)
    name = file.relative_to(records.parent)
    assert f"{name}: the last line was torn: what it should have said is written again" in report.notes
    assert next(iter(report.receipts.values()))["written"] > 0


# --- kinds of record ------------------------------------------------------------------------------------------------


SUMMARIES = [
    {"id": "whole", "source": f"{FERRY} {DOGS}", "summary": FERRY, "key_facts": ["Dogs travel for free."]},
    {"id": "other", "kind": "summary", "context": [FERRY, DOGS], "answer": "The ferry leaves at 22:55."},
    {"id": "empty", "source": "", "summary": "The ferry leaves at 21:40."},
    {"id": "half", "summary": "The ferry leaves at 21:40."},
]


def test_each_rubric_judges_the_kinds_of_record_it_is_for(records: Path) -> None:
    """Summaries and answers in one file: no card, and no row of the report, for a rubric that has nothing to say."""
    with records.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(summary) + "\n" for summary in SUMMARIES)
    report = run(Plan(sources="records.jsonl", sinks="jsonl:out.jsonl"))
    written = {(card["record_id"], card["rubric"]): card for card in cards(records.with_name("out.jsonl"))}
    for_summaries = ("factual_accuracy", "summary_groundedness")
    assert set(written) == {
        *((record["id"], rubric) for record in RECORDS for rubric in FOR_ANSWERS),
        *((summary["id"], rubric) for summary in SUMMARIES for rubric in for_summaries),
    }
    assert report.records == {"answer": len(RECORDS), "summary": len(SUMMARIES)}
    assert report.cards["summary_groundedness"] == {"scored": 2, "unscored": 2}
    assert written["empty", "summary_groundedness"]["reason"] == "empty_source"
    assert written["half", "summary_groundedness"]["reason"] == "context_not_given"
    alone = run(Plan(sources="records.jsonl", rubrics="rag_faithfulness", sinks="jsonl:alone.jsonl"))
    assert set(alone.cards) == {"rag_faithfulness"}


def test_a_mapping_of_the_plan_brings_summaries_to_their_rubric(records: Path) -> None:
    """From spans of an application's own making, to scores beside them, judged offline."""
    held = {"my.text": json.dumps({"body": FERRY}), "my.sum": "The ferry to Sandhaven leaves at 21:40.", "other": "x"}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in held.items()]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "summarise", "attributes": attributes}
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    records.with_name("spans.jsonl").write_text(line + "\n", encoding="utf-8")
    mine = {"spans": {"name": "summarise"}, "source": "my.text.body", "summary": "my.sum"}

    report = run(Plan(sources="spans.jsonl", sinks="jsonl:out.jsonl", conventions={"mine": mine}))
    without = run(Plan(sources="spans.jsonl", sinks="jsonl:none.jsonl"))

    assert set(report.cards) == {"factual_accuracy", "summary_groundedness"}
    assert report.cards["summary_groundedness"] == {"scored": 1}
    assert {card["span_id"] for card in cards(records.with_name("out.jsonl"))} == {"b" * 16}
    assert (without.records, without.cards) == ({"other": 1}, {})


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
    assert len(cards(records.with_name("out.jsonl"))) == len(FOR_ANSWERS) * len(RECORDS)


@pytest.fixture
def many(records: Path) -> Path:
    """Two hundred records, no two of them equal."""
    lines = (json.dumps({**RECORDS[0], "id": f"m{n}", "context": [f"{FERRY} It has {n} cabins."]}) for n in range(200))
    records.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return records


def test_no_judge_is_asked_for_cards_that_go_nowhere(many: Path, install: Install) -> None:
    """After three batches that no sink took, the source ends and says so."""
    install("neighbour")
    report = run(Plan(sources="records.jsonl", sinks="neighbour:letters,full=yes", rubrics="source_support"))
    assert report.failed == (
        "stopped judging jsonl: no score of 48 cards went out",
        "writing to neighbour:letters,full=yes: neighbour: the letter box is full",
    )
    assert report.cards == {"source_support": {"scored": 48}}
    assert report.about.calls == 48


def test_one_sink_that_takes_cards_is_enough_to_go_on(many: Path, install: Install) -> None:
    """The other's refusal is told once."""
    install("neighbour")
    sinks = ("neighbour:letters,full=yes", "jsonl:out.jsonl")
    report = run(Plan(sources="records.jsonl", sinks=sinks, rubrics="source_support"))
    assert len(report.failed) == 1
    assert len(cards(many.with_name("out.jsonl"))) == 200


class Forgetful(InMemory):
    """A memory that breaks at the third card."""

    def keep_card(self, card: Scorecard) -> None:
        """Break."""
        if card.record_id == RECORDS[2]["id"]:
            raise OSError("no space left")
        super().keep_card(card)


def test_trouble_with_keeping_a_card_is_not_the_judges(records: Path) -> None:
    """What was kept before is written, and the line says what broke."""
    plan = Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", rubrics="source_support")
    report = run(plan, memory=Forgetful())
    assert report.failed == ("keeping scores: OSError: no space left",)
    assert [card["record_id"] for card in cards(records.with_name("out.jsonl"))] == ["good", "wrong"]


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


def test_a_judge_that_breaks_on_a_case_costs_that_card_only(records: Path, install: Install) -> None:
    """The record is named, the run goes on, and nothing claims to be a sample."""
    install("hostile")
    plan = Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", judge="stumbler:wrong", rubrics="rag_faithfulness")
    report = run(plan)
    told = {card["record_id"]: card for card in cards(records.with_name("out.jsonl"))}
    assert (report.traces, report.left_out, set(told)) == (len(RECORDS), 0, {record["id"] for record in RECORDS})
    assert (told["wrong"]["status"], told["wrong"]["reason"]) == ("unscored", "judge_failed")
    assert told["good"]["reason"] is None
    assert report.failed == ()
    assert [note for note in report.notes if "broke on" in note] == [
        "judge stumbler broke on rag_faithfulness of record wrong of trace wrong: TypeError: I tripped"
    ]


def test_a_judge_that_breaks_on_everything_is_told_as_broken(many: Path, install: Install) -> None:
    """It is not asked two hundred times."""
    install("hostile")
    report = run(Plan(sources=many.name, sinks="jsonl:out.jsonl", judge="stumbler", rubrics="rag_faithfulness"))
    assert report.failed == ("judge stumbler: TypeError: I tripped",)
    assert report.cards == {"rag_faithfulness": {"unscored": 15}}
    assert report.left_out == 0


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
