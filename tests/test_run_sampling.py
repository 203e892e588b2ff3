"""Which traces a run looks at, which it comes back to, and when it has spent enough."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import neighbours
from groundtrace.cli.printed import reading
from groundtrace.errors import PlanError
from groundtrace.memory import InMemory
from groundtrace.model import Ref, Reply
from groundtrace.plan import Plan
from groundtrace.plugins import load
from groundtrace.ports import Memory
from groundtrace.run import run
from groundtrace.run.holds import Holds, key_of
from groundtrace.run.river import River
from groundtrace.sampling import sample
from groundtrace.store import open_store

CONTEXT = "The night ferry to Sandhaven leaves at 21:40 every day."
Open = Callable[[], AbstractContextManager[Memory]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder of the test's own, in which the critic's plugins are installed."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    neighbours.install("critic", tmp_path, monkeypatch)
    return here


@pytest.fixture(params=["process", "store"])
def memory(request: pytest.FixtureRequest, folder: Path) -> Open:
    """A memory that outlives a run: the process's own, or a store opened anew for each run."""
    kept = InMemory()
    return (lambda: nullcontext(kept)) if request.param == "process" else (lambda: open_store(folder / "store.db"))


def write_records(file: Path, records: list[dict[str, Any]]) -> None:
    """A file of records."""
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def made(name: str, **more: Any) -> dict[str, Any]:
    """A record."""
    return {"id": name, "query": "When?", "context": [CONTEXT], "answer": "At 21:40 every day [1].", **more}


def scored(file: Path) -> dict[str, set[str]]:
    """The traces that have cards, by rubric."""
    told: dict[str, set[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        card = json.loads(line)
        told.setdefault(card["rubric"], set()).add(card["trace_id"])
    return told


def a_trace(*, sampled: bool) -> str:
    """A trace id a tenth does or does not hold."""
    return next(name for name in map(str, range(1000)) if sample(0.1)(Ref("critic", trace_id=name), ()) == sampled)


def write_platform(traces: dict[str, int], feedback: list[dict[str, Any]]) -> None:
    """What the critic's platform knows by now."""
    Path("shop.json").write_text(json.dumps({"traces": traces, "feedback": feedback}), encoding="utf-8")


def the_day(day: int) -> Plan:
    """A run over one day of January 1970."""
    since, until = f"1970-01-{day + 1:02}", f"1970-01-{day + 2:02}"
    return Plan(sources="critic:shop.json", rubrics="rag_faithfulness", since=since, until=until)


def test_a_complaint_that_comes_late_brings_its_trace_back_once(folder: Path, memory: Open) -> None:
    """Whatever window the next run has; who was looked at, or praised, is not looked at for it."""
    out, inside, praised = a_trace(sampled=False), a_trace(sampled=True), "praised"
    assert not sample(0.1)(Ref("critic", trace_id=praised), ())
    traces, cards = {out: 1, inside: 1, praised: 1}, folder / "shop.cards.jsonl"
    write_platform(traces, [])
    with memory() as kept:
        first = run(the_day(1), memory=kept)
    assert (first.seen, first.traces, first.passed) == (3, 1, {"not in the sample": 2})
    assert scored(cards) == {"rag_faithfulness": {inside}}
    said = [{"trace": out, "day": 2, "negative": True}, {"trace": praised, "day": 2, "negative": False}]
    write_platform(traces, said)
    with memory() as kept:
        second = run(the_day(2), memory=kept)
    assert (second.seen, second.traces, second.passed) == (1, 1, {})
    assert scored(cards) == {"rag_faithfulness": {inside, out}}
    with memory() as kept:
        assert kept.cursor("feedback:critic:shop") == "2"
        third = run(the_day(3), memory=kept)
    assert (third.seen, third.traces, third.cards) == (0, 0, {})


def test_a_complaint_is_not_forgotten_when_its_scores_could_not_be_written(folder: Path) -> None:
    """The second watermark moves once what it brought is written."""
    out, kept = a_trace(sampled=False), InMemory()
    write_platform({out: 1}, [])
    run(the_day(1), memory=kept)
    write_platform({out: 1}, [{"trace": out, "day": 2, "negative": True}])
    cards = folder / "shop.cards.jsonl"
    stopped = run(the_day(2), memory=kept, stopping=lambda: True)
    assert (stopped.about.state, kept.cursor("feedback:critic:shop"), scored(cards)) == ("interrupted", "0", {})
    run(the_day(3), memory=kept)
    assert (kept.cursor("feedback:critic:shop"), scored(cards)) == ("2", {"rag_faithfulness": {out}})


def test_a_trace_is_not_looked_at_twice_in_a_run_for_being_complained_about(folder: Path) -> None:
    """It is in the window and among the late ones."""
    out = a_trace(sampled=False)
    write_platform({out: 1}, [{"trace": out, "day": 1, "negative": True}])
    report = run(the_day(1), memory=InMemory())
    assert (report.seen, report.traces, len(scored(folder / "shop.cards.jsonl"))) == (1, 1, 1)


def test_feedback_added_to_a_file_brings_its_record_back(folder: Path) -> None:
    """Files are read whole, so the next run sees it."""
    records = [made("a"), made("b")]
    write_records(folder / "r.jsonl", records)
    plan = Plan(sources="r.jsonl", sample=0.0, rubrics="rag_faithfulness")
    assert run(plan).passed == {"not in the sample": 2}
    write_records(folder / "r.jsonl", [records[0], made("b", signals=[{"name": "thumb", "negative": True}])])
    assert run(plan).traces == 1
    assert scored(folder / "r.groundtrace.jsonl") == {"rag_faithfulness": {"b"}}


@pytest.mark.parametrize("since", [None, "2020-01-01"])
def test_traces_that_failed_are_looked_at_on_request(folder: Path, since: str | None) -> None:
    """Also where the failed span is the last one of the trace, in another line."""
    lines = [span("bad", "1"), span("good", "2"), span("bad", "3", code=2), span("good", "4", code=1)]
    (folder / "spans.jsonl").write_text("".join(lines), encoding="utf-8")
    told: dict[str, Any] = {"sources": "otel:spans.jsonl", "since": since}
    assert run(Plan(**told, sample={"share": 0.0, "errors": True})).traces == 1
    assert run(Plan(**told, sample={"share": 0.0})).traces == 0


def span(trace: str, ident: str, code: int = 0) -> str:
    """A line of OTLP JSON with one span."""
    told = {"traceId": trace.encode().hex().zfill(32), "spanId": ident.zfill(16), "name": "x", "status": {"code": code}}
    told |= {"startTimeUnixNano": "1764500000000000000", "endTimeUnixNano": "1764500001000000000"}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [told]}]}]}) + "\n"


def test_a_predicate_of_the_users_own_adds_traces(folder: Path) -> None:
    """Those it is true of; one it breaks on is named, and looked at."""
    code = "def wanted(ref, signals):\n    return {'a': True, 'b': False}[ref.trace_id]\n"
    (folder / "house_rules_a.py").write_text(code, encoding="utf-8")
    write_records(folder / "r.jsonl", [made("a"), made("b"), made("c")])
    told = {"share": 0.0, "predicate": "house_rules_a:wanted"}
    report = run(Plan(sources="r.jsonl", sample=told, rubrics="rag_faithfulness"))
    assert (report.traces, report.passed) == (2, {"not in the sample": 1})
    assert report.notes == ("the predicate house_rules_a:wanted broke, so trace c is looked at: KeyError: 'c'",)
    assert scored(folder / "r.groundtrace.jsonl") == {"rag_faithfulness": {"a", "c"}}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"shaer": 0.1}, "'shaer' is no key of it; did you mean 'share'?"),
        ({"share": 2}, "sample.share: 2 does not fit: must be 1 or less"),
        ({"max_cost_per_day": -1}, "sample.max_cost_per_day: -1 does not fit: must be 0 or more"),
        ({"errors": "perhaps"}, "sample.errors: 'perhaps' does not fit: is neither true nor false"),
        ("most", "sample: 'most' does not fit: is no number"),
        ([0.1], "sample: [0.1] does not fit: is no number"),
    ],
)
def test_a_sample_that_is_none_is_told_in_words(told: object, said: str) -> None:
    """Before anything starts."""
    with pytest.raises(PlanError) as caught:
        Plan(sources="otel:-", sample=told)
    assert said in str(caught.value)


@pytest.mark.parametrize("where", ["no_such_module_here:f", "json:no_such_function", "json:__doc__", "json"])
def test_a_predicate_that_is_not_there_never_starts_a_run(folder: Path, where: str) -> None:
    """The plan is refused; nothing was written."""
    write_records(folder / "r.jsonl", [made("a")])
    with pytest.raises(PlanError):
        run(Plan(sources="r.jsonl", sample={"predicate": where}))
    assert [file.name for file in folder.iterdir()] == ["r.jsonl"]


def test_a_table_is_written_and_read_back(folder: Path) -> None:
    """A plan file says the same."""
    plan = Plan(sources="otel:-", sample={"share": 0.1, "errors": True, "max_cost_per_day": 5.0})
    (folder / "plan.toml").write_text(plan.to_toml(), encoding="utf-8")
    assert Plan.from_toml("plan.toml") == plan
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def capped(cap: float, judge: str) -> Plan:
    """Ten records, asked of a judge with a price."""
    write_records(Path("r.jsonl"), [made(f"r{n}", answer=f"At 21:4{n} [1].") for n in range(10)])
    told = {"max_cost_per_day": cap}
    return Plan(sources="r.jsonl", sinks="jsonl:cards.jsonl", judge=judge, rubrics="rag_faithfulness", sample=told)


def test_a_day_costs_no_more_than_its_cap(folder: Path, memory: Open) -> None:
    """A run ends cleanly when the money is spent, and the next one of the day takes nothing at all."""
    with memory() as kept:
        report = run(capped(5.0, "priced:1.0"), memory=kept)
        spent = kept.spent("2000-01-01")
    assert report.failed == ()
    assert report.passed == {"daily cost cap": 10 - report.traces}
    assert 0 < report.traces < 10
    assert spent is not None
    assert 5 <= spent <= 8
    assert (
        f"took no more traces: {spent:.2f} US dollars were spent today (UTC), max_cost_per_day is 5.00" in report.notes
    )
    with memory() as kept:
        again = run(capped(5.0, "priced:1.0"), memory=kept)
    assert (again.traces, again.passed) == (0, {"daily cost cap": 10})
    assert len(scored(folder / "cards.jsonl")["rag_faithfulness"]) == report.traces


def test_what_there_is_no_money_for_is_left_to_others(folder: Path, memory: Open) -> None:
    """Who has money may take it at once; nobody waits for a run that will not look at it."""
    plan = capped(2.0, "priced:1.0")
    with memory() as kept:
        river = River.opened(plan, kept)
        reading = river.reading(load("source", "jsonl:r.jsonl"), Holds(kept, "one"))
        looked_at = []
        for record in reading.records():
            looked_at.append(key_of(record.ref))
            kept.keep_reply(river.judge.id, record.id, Reply("{}", "priced", cost=1.0), ())
        assert len(looked_at) == 2
        others = [key for n in range(10) if (key := f"trace:jsonl:r{n}") not in looked_at]
        assert all(map(Holds(kept, "two").take, others))


def test_a_run_without_a_memory_keeps_to_its_cap_too(folder: Path) -> None:
    """It counts what it spent itself."""
    report = run(capped(5.0, "priced:1.0"))
    assert 0 < report.traces < 10
    assert report.left_out == 10 - report.traces


def test_a_cap_on_a_judge_without_prices_is_said_to_be_vain(folder: Path) -> None:
    """Unknown is not nothing."""
    report = run(capped(5.0, "priced"))
    assert 0 < report.traces < 5
    assert [note for note in report.notes if "traces" in note] == [
        "took no more traces: the replies of judge priced have no price, so max_cost_per_day can't be kept"
    ]


def test_what_other_judges_cost_is_not_this_runs(folder: Path, memory: Open) -> None:
    """Neither their price nor that they have none keeps this one from its own."""
    with memory() as kept:
        kept.keep_reply("other", "d", Reply("{}", "other", cost=9.0), ())
        kept.keep_reply("free", "d", Reply("{}", "free"), ())
        assert 0 < run(capped(5.0, "priced:1.0"), memory=kept).traces < 10


@pytest.mark.parametrize("pair", [("priced:1.0", "offline"), ("offline", "priced:1.0")])
def test_a_cascade_costs_what_either_of_its_judges_costs(folder: Path, pair: tuple[str, str]) -> None:
    """The cheap one may be the one with a price."""
    told = capped(2.0, pair[0]).model_dump() | {"cascade": {"judge": pair[1], "band": (0, 1)}}
    report = run(Plan(**told))
    assert 0 < report.traces < 10
    assert report.passed == {"daily cost cap": 10 - report.traces}


def test_a_judge_that_costs_nothing_needs_no_cap(folder: Path) -> None:
    """Whatever others spent today."""
    kept = InMemory()
    kept.keep_reply("other", "d", Reply("{}", "other", cost=9.0), ())
    assert run(capped(5.0, "offline"), memory=kept).traces == 10


def test_every_rubric_sees_the_same_traces(folder: Path) -> None:
    """The sample is of traces, whatever asks."""
    both = [made(f"a{n}", kind="answer") for n in range(200)]
    write_records(folder / "r.jsonl", both)
    run(Plan(sources="r.jsonl", sinks="jsonl:answers.jsonl", sample=0.1))
    write_records(
        folder / "s.jsonl", [{"id": r["id"], "source": CONTEXT, "summary": "It leaves at 21:40."} for r in both]
    )
    run(Plan(sources="s.jsonl", sinks="jsonl:sums.jsonl", sample=0.1))
    told = scored(folder / "answers.jsonl") | scored(folder / "sums.jsonl")
    assert sorted(told) == ["factual_accuracy", "rag_faithfulness", "source_support", "summary_groundedness"]
    picked = {r["id"] for r in both if sample(0.1)(Ref("jsonl", trace_id=r["id"]), ())}
    assert picked
    assert all(traces == picked for traces in told.values())


def test_every_process_picks_the_same_traces() -> None:
    """Python's own hash differs between processes; ours doesn't."""
    code = (
        "from groundtrace.model import Ref; from groundtrace.sampling import sample; pick = sample(0.1);"
        "print([n for n in range(3000) if pick(Ref('otel', trace_id=str(n)), ())])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1


def test_a_person_reads_why_traces_were_passed_over(folder: Path) -> None:
    """In the first line."""
    report = run(capped(0.0, "priced:1.0"))
    assert reading(report).startswith("0 traces read of 10 (10 daily cost cap) · ")
