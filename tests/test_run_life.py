"""The life of a run: stopped, resumed, done twice, by two at once; and whose word stays."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import groundtrace
from groundtrace.errors import PlanError
from groundtrace.evaluate import evaluate
from groundtrace.memory import InMemory
from groundtrace.model import Decision, Label, RunState
from groundtrace.plan import Plan
from groundtrace.review import decide
from groundtrace.run import run
from groundtrace.run.holds import Holds
from groundtrace.run.life import Life, plan_of, unfinished
from groundtrace.store import open_store, run_key
from groundtrace.tally import Report
from groundtrace.testing import ScriptedJudge
from terminal import groundtrace as command

PASSAGE = "The night ferry to Sandhaven leaves at 21:40 every day and takes 95 minutes."


def record(number: int) -> dict[str, Any]:
    """One of many records, each with a question of its own."""
    answer = f"Ferry {number} leaves at 21:40 every day [1]."
    return {"id": f"r{number}", "query": f"When does ferry {number} leave?", "context": [PASSAGE], "answer": answer}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with 40 records."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "records.jsonl").write_text("".join(json.dumps(record(n)) + "\n" for n in range(40)), encoding="utf-8")
    return folder


def cards(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of cards."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def plan(**more: Any) -> Plan:
    """What most tests here do."""
    said = {"sources": "records.jsonl", "sinks": "jsonl:out.jsonl", "rubrics": "source_support", "store": "store.db"}
    return Plan(**{**said, **more})


# --- again ----------------------------------------------------------------------------------------------------------


def test_a_second_run_asks_nothing_and_writes_nothing(here: Path) -> None:
    """The store knows the cards, the sink what it holds."""
    first, before = run(plan()), (here / "out.jsonl").read_bytes()
    second = run(plan())
    assert (first.receipts, first.about.calls) == ({"jsonl:out.jsonl": {"written": 120}}, 40)
    assert (second.receipts, second.about.calls) == ({"jsonl:out.jsonl": {"unchanged": 120}}, 0)
    assert (here / "out.jsonl").read_bytes() == before
    assert second.scores == first.scores


def test_what_was_taken_away_from_a_file_is_written_again_without_a_question(here: Path) -> None:
    """A file is looked at, whatever the store remembers of it."""
    run(plan())
    whole = (here / "out.jsonl").read_bytes()
    (here / "out.jsonl").unlink()
    again = run(plan())
    assert (again.about.calls, again.receipts) == (0, {"jsonl:out.jsonl": {"written": 120}})
    assert sorted(whole.splitlines()) == sorted((here / "out.jsonl").read_bytes().splitlines()) or again.scores


def test_another_version_takes_the_place_and_the_old_card_stays_in_history(here: Path) -> None:
    """A setting of the rubric is part of its version, as its prompt is."""
    run(plan())
    changed = run(plan(rubrics="source_support,review_below=5"))
    with open_store("store.db") as store:
        (ident,) = {card["id"] for card in cards(here / "out.jsonl") if card["record_id"] == "r7"}
        versions = [card.version for card in store.history(ident)]
    assert len(set(versions)) == 2
    assert changed.receipts == {"jsonl:out.jsonl": {"written": 120}}
    newest = {card["id"]: card["version"] for card in cards(here / "out.jsonl")}
    assert set(newest.values()) == {versions[-1]}


def test_a_model_s_scores_stay_when_offline_runs_after_it(here: Path, hire: Callable[..., ScriptedJudge]) -> None:
    """And the report says how many; nothing is asked."""
    hire()
    model = run(plan(judge="hired"))
    before = (here / "out.jsonl").read_bytes()
    offline = run(plan(sources="records.jsonl"))
    assert model.scores["source_support"].mean == 5
    assert offline.kept == {"llm": 120}
    assert (offline.about.calls, offline.scores) == (0, model.scores)
    assert (here / "out.jsonl").read_bytes() == before


def test_a_corrected_card_survives_every_run_after_it(here: Path, hire: Callable[..., ScriptedJudge]) -> None:
    """A person's word is final; the platform gets it with the next run."""
    hire()
    run(plan(judge="hired"))
    with open_store("store.db") as store:
        ident = cards(here / "out.jsonl")[3]["id"]
        card = store.card(ident)
        assert card is not None
        label = Label(card_id=ident, score="source_support", value=2, who="ada")
        decision = Decision(card_id=ident, state="corrected", who="ada", when="2026-11-30T08:00Z", labels=(label,))
        store.keep_card(decide(card, decision))
    again = run(plan(judge="hired", rubrics="source_support,review_below=5"))
    assert again.kept == {"human": 3}
    newest = {card["id"]: card for card in cards(here / "out.jsonl")}[ident]
    assert newest["judge_kind"] == "human"
    assert next(s["value"] for s in newest["scores"] if s["name"] == "source_support") == 2
    last = run(plan(judge="hired", rubrics="source_support,review_below=5"))
    assert (last.about.calls, last.receipts) == (0, {"jsonl:out.jsonl": {"unchanged": 120}})


def test_a_record_of_another_file_that_is_numbered_alike_is_another_record(
    here: Path, hire: Callable[..., ScriptedJudge]
) -> None:
    """What a model or a person said of one file's r3 says nothing of another's."""
    hire()
    run(plan(judge="hired"))
    with open_store("store.db") as store:
        for card in map(store.card, [card["id"] for card in cards(here / "out.jsonl")][:5]):
            assert card is not None
            store.keep_card(decide(card, Decision(card_id=card.id, state="accepted", who="ada", when="2026-11-30")))
    other = here / "other.jsonl"
    lines = [{**record(n), "answer": f"A cabin on ferry {n} costs 60 euros [1]."} for n in range(40)]
    other.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    report = run(plan(sources="other.jsonl", sinks="jsonl:others.jsonl"))
    assert (report.kept, report.about.calls) == ({}, 40)
    assert {card["judge_kind"] for card in cards(here / "others.jsonl")} == {"offline"}


# --- stopped --------------------------------------------------------------------------------------------------------


def test_a_stop_finishes_what_is_in_flight_and_the_rest_is_done_later(
    here: Path, hire: Callable[..., ScriptedJudge]
) -> None:
    """No question is asked twice, no score is missing."""
    judge = hire(concurrency=4, latency=lambda _: 0.01)
    first = run(plan(judge="hired"), stopping=lambda: len(judge.heard) >= 10)
    assert first.about.state == "interrupted"
    assert 10 <= len(judge.heard) <= 14
    assert sum(first.cards["source_support"].values()) == len(judge.heard)
    with open_store("store.db") as store:
        cut = unfinished(store)
        assert cut is not None
        again = plan_of(cut, "store.db")
    second = run(again, run_id=cut.id)
    assert second.about.state == "finished"
    assert len(judge.heard) == 40
    assert len({card["id"] for card in cards(here / "out.jsonl")}) == len(cards(here / "out.jsonl")) == 40
    with open_store("store.db") as store:
        assert unfinished(store) is None


def test_a_record_of_many_questions_that_is_cut_gives_no_card(hire: Callable[..., ScriptedJudge]) -> None:
    """Half an answer's claims are no card; what was answered is kept for the next time."""
    answer = " ".join(f"Ferry {n} leaves at 21:40 every day [1]." for n in range(20))
    long = groundtrace.record(query="When?", context=[PASSAGE], answer=answer)
    judge, memory = hire(), InMemory()
    told: list[Any] = []
    rubric = groundtrace.plugins.rubric("source_support")
    stop = lambda: len(judge.heard) >= 5  # noqa: E731 - a name for the form of the port
    cut = list(evaluate([long], [rubric], judge, memory=memory, finished=told.append, stopping=stop))
    assert (cut, told, len(judge.heard)) == ([], [], 5)
    whole = list(evaluate([long], [rubric], judge, memory=memory, finished=told.append))
    assert [card.status for card in whole] == ["scored"]
    assert (told, len(judge.heard)) == ([long], 20)


def test_a_run_elsewhere_is_not_resumed_here(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its paths would name other files."""
    run(plan(), stopping=lambda: True)
    monkeypatch.chdir(tmp_path)
    with open_store(here / "store.db") as store:
        cut = unfinished(store)
        assert cut is not None
        with pytest.raises(PlanError, match="cd "):
            plan_of(cut, str(here / "store.db"))


def test_the_run_that_was_cut_last_is_resumed_one_of_this_folder_first(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped or refused, whichever was later."""
    memory = InMemory()
    cut = plan(store=None)

    def left(ident: str, state: RunState) -> None:
        with Life(memory, ident, cut):
            memory.end_run(ident, state)

    left("stopped", "interrupted")
    left("refused", "failed")
    told = [unfinished(memory)]
    monkeypatch.chdir(tmp_path)
    left("elsewhere", "interrupted")
    told.append(unfinished(memory))
    monkeypatch.chdir(here)
    told.append(unfinished(memory))
    with Life(memory, "refused", cut) as life:
        life.close(Report(), stopped=False)
    told.append(unfinished(memory))
    assert [run.id if run else None for run in told] == ["refused", "elsewhere", "refused", "stopped"]


def test_of_two_that_resume_one_run_the_second_is_told(here: Path) -> None:
    """One id has one run; a new run of any name may begin beside it."""
    run(plan(batch_id="nightly"), stopping=lambda: True)
    with open_store("store.db") as store:
        cut = unfinished(store)
        assert cut is not None
        assert store.lease(run_key(cut.id), "another", 60)
        with pytest.raises(PlanError, match="goes on elsewhere"):
            run(plan_of(cut, "store.db"), run_id=cut.id)
        assert [(told.id, told.state) for told in store.runs()] == [(cut.id, "interrupted")]
        assert run(plan(batch_id="nightly")).about.state == "finished"
        store.release(run_key(cut.id), "another")
    with open_store("store.db") as store, Life(store, "live", plan()) as life, life.holds():
        assert not store.lease(run_key("live"), "another", 60)
    with open_store("store.db") as store:
        assert store.lease(run_key("live"), "another", 60), "it is given back"


def test_runs_elsewhere_are_said_where_there_is_nothing_to_resume(here: Path) -> None:
    """Nobody here knows whether they live."""
    with open_store("store.db") as store:
        for ident in ("one", "two"):
            store.start_run(ident, "{}")
            told = command("run --resume --store store.db", here).stderr
            assert f"{ident}, begun 20" in told
    assert "2 runs say that they are running, the last two" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_run_that_says_how_to_go_on(here: Path, number: signal.Signals) -> None:
    """Whenever it comes: all or a part is done, nothing twice."""
    lines = "".join(json.dumps(record(n)) + "\n" for n in range(400))
    (here / "records.jsonl").write_text(lines, encoding="utf-8")
    line = [
        sys.executable,
        "-m",
        "groundtrace.cli",
        "run",
        "records.jsonl",
        "--to",
        "jsonl:out.jsonl",
        "--rubric",
        "source_support",
    ]
    with subprocess.Popen([*line, "--store", "my store.db"], cwd=here, stderr=subprocess.PIPE, text=True) as child:
        while not (here / "out.jsonl").exists():
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(number)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "groundtrace run --resume --store 'my store.db' (run 20" in said
    assert f", in {here})" in said
    done = len(cards(here / "out.jsonl"))
    assert 0 < done < 400
    again = command("run --resume --store 'my store.db' --json", here)
    assert again.returncode == 0, again.stderr
    assert len({card["id"] for card in cards(here / "out.jsonl")}) == len(cards(here / "out.jsonl")) == 400
    nothing = command("run --resume --store 'my store.db'", here)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "nothing to resume" in nothing.stderr


# --- two at once ----------------------------------------------------------------------------------------------------


def test_two_runs_on_one_store_share_the_work(here: Path, hire: Callable[..., ScriptedJudge]) -> None:
    """Each question is asked by one of them, each score written by one."""
    judge = hire(concurrency=2, latency=lambda _: 0.005)
    reports = []
    both = [threading.Thread(target=lambda: reports.append(run(plan(judge="hired")))) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join()
    digests = [case.digest for case in judge.heard]
    assert len(digests) == len(set(digests)) == 40
    assert len(cards(here / "out.jsonl")) == 40
    assert [report.cards for report in reports] == [{"source_support": {"scored": 40}}] * 2
    assert [report.failed for report in reports] == [(), ()]


def test_a_trace_held_by_another_is_not_touched_until_it_is_free(here: Path) -> None:
    """A stop while waiting leaves it to the other, and the report says so."""
    memory = InMemory()
    lines = (here / "records.jsonl").read_text(encoding="utf-8").splitlines()
    (here / "records.jsonl").write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
    key = "trace:jsonl:r0"
    assert memory.lease(key, "another", 1000)
    since = time.monotonic()
    report = run(plan(store=None), memory=memory, stopping=lambda: time.monotonic() - since > 1)
    assert (report.held, report.cards) == (1, {"source_support": {"scored": 1}})
    memory.release(key, "another")
    assert run(plan(store=None), memory=memory).cards == {"source_support": {"scored": 2}}


def test_holds_are_given_back_and_lost_ones_are_known() -> None:
    """One that another took after its time is not ours to write."""
    clock = [0.0]
    memory = InMemory(clock=lambda: clock[0])
    with Holds(memory, "one") as one, Holds(memory, "two") as two:
        assert (one.take("a"), two.take("a"), one.held("a"), two.held("a")) == (True, False, True, False)
        clock[0] = 1000.0
        assert two.take("a")
        assert not one.take("a")
        assert not one.held("a")
    assert memory.lease("a", "three", 1)
