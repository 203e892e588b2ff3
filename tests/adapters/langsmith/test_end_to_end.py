"""From traces on LangSmith to scores on them, by the whole river: again, killed in between, and after a complaint."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langsmith import Client, traceable, tracing_context

from groundtrace.memory import InMemory
from groundtrace.model import Ref
from groundtrace.plan import Plan
from groundtrace.run import run
from groundtrace.sampling import sample
from groundtrace.store import open_store
from pulling import write
from pushing import PROJECT, Stand, standing

RUBRIC = "rag_faithfulness"
TRACES = 40
_PATIENCE = 120.0


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in."""
    with standing(monkeypatch) as made:
        yield made


def answer(stand: Stand, count: int = TRACES) -> list[str]:
    """Questions answered by an application that the SDK traces; the ids of its traces."""
    client = Client(api_url=stand.url, api_key="lsv2_pt_application", info={"version": "0.18.5"})

    @traceable(run_type="retriever", client=client)
    def retrieve(question: str) -> list[dict[str, Any]]:
        town = question.rsplit(maxsplit=1)[-1].rstrip("?")
        text = f"The night ferry of {town} leaves at 21:40 every day."
        return [{"page_content": text, "metadata": {"source": town}, "type": "Document"}]

    @traceable(run_type="chain", name="answer", client=client)
    def ask(question: str) -> dict[str, Any]:
        town = retrieve(question)[0]["metadata"]["source"]
        hour = "21:40" if town[-1] in "02468" else "09:15"
        return {"answer": f"The night ferry of {town} leaves at {hour} every day [1]."}

    with tracing_context(enabled=True, project_name=PROJECT, client=client):
        for n in range(count):
            ask(f"When does the ferry leave in town{n}?")
    client.flush()
    getattr(client, "close", client.cleanup)()  # an older SDK has no close
    roots = [run["id"] for run in stand.store.runs.values() if run.get("parent_run_id") is None]
    assert len(roots) == count
    return roots


def plan(stand: Stand, **told: Any) -> Plan:
    """A run over the project; its scores go home."""
    source = f"langsmith:{PROJECT},url={stand.url},settle=0"
    return Plan(**{"sources": source, "rubrics": RUBRIC, "sample": 1.0, "audit_rate": 0.0, **told})


def test_traces_are_scored_where_they_are_and_once(stand: Stand) -> None:
    """Pulled, judged, written and confirmed; a run that remembers nothing finds all of it as it is."""
    roots = answer(stand)
    first = run(plan(stand))
    assert not first.failed
    assert (first.traces, sum(first.cards[RUBRIC].values())) == (TRACES, TRACES)
    before = stand.feedback()
    assert {row["run_id"] for row in before.values()} == {*roots}
    for row in before.values():
        root = stand.store.runs[row["run_id"]]
        assert (row["trace_id"], row["session_id"]) == (root["trace_id"], root["session_id"])
        assert row["start_time"].removesuffix("+00:00") == root["start_time"].removesuffix("Z").removesuffix("+00:00")
    scores = {row["run_id"]: row["score"] for row in before.values() if row["key"].endswith(".claim_support")}
    assert len(scores) == TRACES
    assert len({*scores.values()}) > 1
    stand.store.log.clear()
    second = run(plan(stand))
    (receipts,) = second.receipts.values()
    assert set(receipts) == {"unchanged"}
    assert stand.feedback() == before
    assert not stand.asked("PATCH")
    assert not [row for row in stand.asked("POST", "/feedback") if row["path"].endswith("/feedback")]


def test_applications_of_every_kind_are_scored_on_their_roots(stand: Stand) -> None:
    """Functions, trees made by hand, a wrapped client, LangChain and LangGraph: each as its own tracer leaves it."""
    write(stand, 10)
    report = run(plan(stand))
    assert not report.failed
    assert (report.traces, sum(report.cards[RUBRIC].values())) == (10, 10)
    roots = {ident for ident, row in stand.store.runs.items() if row.get("parent_run_id") is None}
    scores = [row for row in stand.feedback().values() if row["key"].endswith(".claim_support")]
    assert {row["run_id"] for row in scores} == roots
    assert {row["score"] for row in scores} == {5}


def test_a_run_without_our_marks_shows_no_complaints_of_ours(stand: Stand) -> None:
    """Low scores of ours are no user's complaint: they bring nothing back."""
    answer(stand, 6)
    memory = InMemory()
    run(plan(stand), memory=memory)
    again = run(plan(stand, sample=0.0), memory=memory)
    assert (again.traces, again.failed) == (0, ())


def test_late_negative_feedback_brings_a_skipped_trace_back(stand: Stand) -> None:
    """Whatever the sample says, once."""
    roots = answer(stand, 12)
    memory = InMemory()
    assert run(plan(stand, sample=0.0), memory=memory).traces == 0
    assert not stand.store.feedback
    told = {"id": str(uuid.uuid4()), "run_id": roots[5], "key": "user_score", "score": 0}
    stand.store.upsert_feedback({**told, "feedback_source": {"type": "app"}})
    later = dt.datetime.now(dt.UTC).isoformat()  # a window in which none of them began
    second = run(plan(stand, sample=0.0, since=later), memory=memory)
    assert (second.traces, second.failed) == (1, ())
    ours = [row for row in stand.store.feedback.values() if row["key"].startswith("groundtrace.")]
    assert {row["run_id"] for row in ours} == {roots[5]}
    before = stand.feedback()
    assert run(plan(stand, sample=0.0, since=later), memory=memory).traces == 0
    assert stand.feedback() == before


def test_a_trace_that_never_ends_does_not_hold_back_what_is_heard_of_others(stand: Stand) -> None:
    """Complained about, it is counted; the next run asks for what came since, and not for that again."""
    begun = dt.datetime.now(dt.UTC) - dt.timedelta(days=5)
    (stuck,) = answer(stand, 1)
    stand.store.runs[stuck] |= {"start_time": begun.isoformat(), "end_time": None, "outputs": None, "status": "pending"}
    told = {"id": str(uuid.uuid4()), "run_id": stuck, "key": "user_score", "score": 0}
    stand.store.upsert_feedback({**told, "feedback_source": {"type": "app"}})
    memory, since = InMemory(), dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    report = run(plan(stand, since=since), memory=memory)
    assert (report.growing, report.failed) == (0, ())
    assert [note for note in report.notes if "never told to have ended: not judged" in note]
    assert memory.cursor(f"feedback:langsmith:{PROJECT}") is not None
    assert not [row for row in stand.store.feedback.values() if row["key"].startswith("groundtrace.")]


def test_a_sink_is_named_with_its_options(stand: Stand) -> None:
    """Scores on the retriever's run, and what a person must see in a queue."""
    roots = answer(stand, 6)
    sink = f"langsmith:{PROJECT},url={stand.url},target=retrieval,queue=true"
    report = run(plan(stand, sinks=sink, audit_rate=1.0))
    assert not report.failed
    assert {*next(iter(report.receipts.values()))} == {"written"}
    runs = {row["run_id"] for row in stand.store.feedback.values()}
    assert len(runs) == 6
    assert not runs & {*roots}
    assert {stand.store.runs[ident]["run_type"] for ident in runs} == {"retriever"}
    starts = {(row["start_time"], row["run_id"]) for row in stand.store.feedback.values()}
    assert len(starts) == 6
    assert {item["run_id"] for item in stand.store.items.values()} == runs


def test_a_tenth_is_looked_at_by_itself(stand: Stand) -> None:
    """Of a live platform."""
    roots = answer(stand)
    report = run(Plan(sources=plan(stand).sources, rubrics=RUBRIC))
    picked = [root for root in roots if sample(0.1)(Ref("langsmith", trace_id=root), ())]
    assert report.traces == len(picked)


# --- killed -----------------------------------------------------------------------------------------------------------


class _Run:
    """The real command line, in a process of its own."""

    def __init__(self, stand: Stand, folder: Path, *words: str) -> None:
        words = words or (f"langsmith:{PROJECT},url={stand.url},settle=0", "--rubric", RUBRIC, "--sample", "1")
        command = [sys.executable, "-m", "groundtrace.cli", "run", *words, "--store", str(folder / "s.db"), "--json"]
        env = os.environ | {"LANGSMITH_API_KEY": "lsv2_pt_standin"}
        self.out, self.err = folder / "out.json", folder / "err.txt"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=err)

    def kill_when(self, there: Callable[[], bool]) -> None:
        """End it as a power cut would, in the middle of its work."""
        end = time.monotonic() + _PATIENCE
        while not there():
            assert self.process.poll() is None, self.err.read_text()
            assert time.monotonic() < end
            time.sleep(0.005)
        self.process.kill()
        assert self.process.wait() == -9

    def report(self) -> dict[str, Any]:
        """What it says at its end."""
        assert self.process.wait(_PATIENCE) == 0, self.err.read_text() + self.out.read_text()
        told: dict[str, Any] = json.loads(self.out.read_text())
        return told


@pytest.mark.parametrize("written", [0, 10, 60])
def test_a_run_killed_between_judge_and_write_goes_on_with_none_lost_or_doubled(
    stand: Stand, tmp_path: Path, written: int
) -> None:
    """Before the first write, and in the middle of later ones, some of which have no answer yet."""
    answer(stand)
    run(plan(stand))
    undisturbed = stand.feedback()
    stand.store.feedback.clear()
    stand.store.fconfigs.clear()
    stand.store.log.clear()
    slow = {"method": "POST", "path": "/feedback$", "delay": 60.0, "times": 99, "skip": written}
    stand.store.faults.append(slow)
    first = _Run(stand, tmp_path)
    begun = _posts(stand)
    first.kill_when(lambda: len(_posts(stand)) > len(begun) + written)
    stand.store.faults.clear()
    assert len(stand.store.feedback) < len(undisturbed)
    with open_store(str(tmp_path / "s.db")) as store:
        assert list(store.outbox())
    report = _Run(stand, tmp_path, "--resume").report()
    assert not report["failed"]
    after = stand.feedback()
    assert _told(after) == _told(undisturbed)
    with open_store(str(tmp_path / "s.db")) as store:
        assert not list(store.outbox())
    taken = [row["json"]["id"] for row in _posts(stand) if row.get("status") == 200]
    assert len(taken) == len({*taken})


def _posts(stand: Stand) -> list[dict[str, Any]]:
    return [row for row in list(stand.store.log) if row["method"] == "POST" and row["path"].endswith("/feedback")]


def _told(feedback: dict[str, Any]) -> dict[str, Any]:
    """What feedback says, without when it came."""
    names = ("key", "score", "value", "comment", "run_id", "trace_id", "session_id", "start_time", "error")
    return {key: [row[name] for name in names] for key, row in feedback.items()}
