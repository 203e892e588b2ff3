"""From traces on Braintrust to scores on them, by the whole river: again, killed in between, and after a complaint."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import braintrust
import pytest

from braintrust_pulling import PROJECT, Stand, standing
from braintrust_writing import ANSWER, exported, installed, write
from groundtrace.memory import InMemory
from groundtrace.model import Ref, card_id
from groundtrace.plan import Plan
from groundtrace.run import run
from groundtrace.run.watch import watch
from groundtrace.sampling import sample
from groundtrace.store import open_store
from live import entries
from standins.llm import hired

RUBRIC = "rag_faithfulness"
TRACES = 40
_PATIENCE = 120.0


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stand]:
    """A stand-in to which the SDK writes, now."""
    home = tmp_path / "home"
    home.mkdir()
    with standing(monkeypatch, bounded=True, clock=time.time) as made, installed(made, monkeypatch, home):
        yield made


@braintrust.traced(name="retrieve", type="tool")
def retrieve(question: str) -> list[dict[str, Any]]:
    """What is known of a town."""
    town = question.rsplit(maxsplit=1)[-1].rstrip("?")
    return [{"id": town, "text": f"The night ferry of {town} leaves at 21:40 every day."}]


@braintrust.traced(name="answer")
def ask(question: str) -> str:
    """Answers, rightly of every second town."""
    town = retrieve(question)[0]["id"]
    return f"The night ferry of {town} leaves at {'21:40' if town[-1] in '02468' else '09:15'} every day [1]."


def answer(stand: Stand, count: int = TRACES, first: int = 0) -> dict[str, str]:
    """Questions answered by an application that the SDK traces; the rows of its roots, by trace."""
    before = roots(stand)
    logger = braintrust.init_logger(project=PROJECT)
    for n in range(first, first + count):
        ask(f"When does the ferry leave in town{n}?")
    logger.flush()
    made = {trace: row for trace, row in roots(stand).items() if trace not in before}
    assert len(made) == count
    return made


def rows(stand: Stand) -> list[dict[str, Any]]:
    """All rows of the project."""
    return list(stand.store.rows(("project_logs", stand.project)))


def roots(stand: Stand) -> dict[str, str]:
    """The rows of roots, by trace."""
    return {row["root_span_id"]: row["id"] for row in rows(stand) if row["is_root"]}


def scorers(stand: Stand) -> dict[str, dict[str, Any]]:
    """Our scorer spans, by row."""
    return {row["id"]: row for row in rows(stand) if (row["span_attributes"] or {}).get("purpose") == "scorer"}


def plan(stand: Stand, **told: Any) -> Plan:
    """A run over the project; its scores go home."""
    source = f"braintrust:{PROJECT},url={stand.url},app_url={stand.url},queries=6000,settle=0"
    return Plan(**{"sources": source, "rubrics": RUBRIC, "sample": 1.0, "audit_rate": 0.0, **told})


def inserted(stand: Stand) -> list[dict[str, Any]]:
    """The rows that were taken of what was sent over REST."""
    sent = stand.standin.asked("/v1/project_logs", lambda told: told.get("status") == 200)
    return [event for told in sent for event in told["body"]["events"]]


def test_250_traces_of_four_kinds_are_scored_where_they_are_and_once(stand: Stand) -> None:
    """Pulled, judged, written and confirmed; a run that remembers nothing finds all of it as it is."""
    with hired() as provider:
        provider.script(base={"answer": ANSWER})
        write(250, provider.v1)
    theirs = {row["id"]: row for row in rows(stand)}
    found = roots(stand)
    first = run(plan(stand))
    assert not first.failed
    assert (first.traces, sum(first.cards[RUBRIC].values())) == (250, 250)
    (receipts,) = first.receipts.values()
    assert set(receipts) == {"written"}
    made = scorers(stand)
    spans = {row["root_span_id"]: row["span_id"] for row in theirs.values() if row["id"] in found.values()}
    assert {row["root_span_id"]: row["span_parents"] for row in made.values()} == {t: [s] for t, s in spans.items()}
    assert set(made) == {card_id(Ref("braintrust", stand.project, t, s), RUBRIC) for t, s in spans.items()}
    assert set(roots(stand)) == set(found)  # no ghost
    for row in rows(stand):
        if row["id"] in theirs:
            changed = {name for name in row if row[name] != theirs[row["id"]][name]}
            assert changed <= ({"metadata", "_xact_id"} if row["is_root"] else set())
    before = rows(stand)
    stand.store.requests.clear()
    second = run(plan(stand))
    (receipts,) = second.receipts.values()
    assert set(receipts) == {"unchanged"}
    assert not inserted(stand)
    assert rows(stand) == before
    third = run(plan(stand, rubrics=f"{RUBRIC},review_below=1"))
    (receipts,) = third.receipts.values()
    assert set(receipts) == {"written"}
    after = scorers(stand)
    assert set(after) == set(made)
    versions = [{row["metadata"]["version"] for row in held.values()} for held in (made, after)]
    assert [len(held) for held in versions] == [1, 1]
    assert versions[0] != versions[1]
    assert len(rows(stand)) == len(before)


def test_an_experiment_is_scored_in_its_place(stand: Stand) -> None:
    """As a whole, and nothing in the logs."""
    experiment = braintrust.init(project=PROJECT, experiment="first")
    for n in range(12):
        with experiment.start_span(name="eval", type="eval", input={"question": f"When {n}?"}) as top:
            with top.start_span(name="retrieve", type="tool", input="When?") as span:
                span.log(output=[{"id": "a", "text": f"Ferry {n} leaves at 21:40."}])
            top.log(output=f"Ferry {n} leaves at 21:40 [1].", expected="21:40")
    experiment.flush()
    source = f"braintrust:{PROJECT},experiment=first,url={stand.url},app_url={stand.url},queries=6000,settle=0"
    report = run(Plan(sources=source, rubrics=RUBRIC, audit_rate=0.0))
    assert (report.failed, report.traces) == ((), 12)
    held = stand.store.rows(("experiment", experiment.id))
    assert len([row for row in held if row["span_attributes"].get("purpose") == "scorer"]) == 12
    assert rows(stand) == []


def test_our_own_scores_and_judges_bring_nothing_back(stand: Stand) -> None:
    """Low scores of ours are no user's complaint, and our writing is no change that others made."""
    answer(stand, 6)
    memory = InMemory()
    run(plan(stand), memory=memory)
    again = run(plan(stand, sample=0.0), memory=memory)
    assert (again.traces, again.failed) == (0, ())
    settled = plan(stand).sources[0]
    assert isinstance(settled, str)
    report = run(plan(stand, sources=settled.replace("settle=0", "settle=30")), memory=memory)
    assert report.growing == 6  # the program's own spans ended just now


def test_late_negative_feedback_brings_a_skipped_trace_back(stand: Stand) -> None:
    """Whatever the sample says, once; by the SDK's own log_feedback."""
    found = answer(stand, 12)
    memory = InMemory()
    assert run(plan(stand, sample=0.0), memory=memory).traces == 0
    assert not scorers(stand)
    trace, row = list(found.items())[5]
    logger = braintrust.init_logger(project=PROJECT)
    logger.log_feedback(id=row, scores={"thumb": 0}, comment="Wrong boat.", source="app")
    logger.flush()
    later = dt.datetime.now(dt.UTC).isoformat()  # a window in which none of them began
    second = run(plan(stand, sample=0.0, since=later), memory=memory)
    assert (second.traces, second.failed) == (1, ())
    assert {made["root_span_id"] for made in scorers(stand).values()} == {trace}
    before = rows(stand)
    assert run(plan(stand, sample=0.0, since=later), memory=memory).traces == 0
    assert rows(stand) == before


def test_a_trace_that_never_ends_does_not_hold_back_what_is_heard_of_others(stand: Stand) -> None:
    """Complained about, it is counted; the next run asks for what came since, and not for that again."""
    begun = dt.datetime.now(dt.UTC) - dt.timedelta(days=5)
    stand.row(1, begun=begun, metrics={"start": begun.timestamp()}, scores={"thumb": 0})
    memory, since = InMemory(), dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    report = run(plan(stand, since=since), memory=memory)
    assert (report.growing, report.failed) == (0, ())
    assert [note for note in report.notes if "never told to have ended: not judged" in note]
    assert memory.cursor(f"feedback:braintrust:{PROJECT}") is not None
    assert not scorers(stand)


def test_a_tenth_is_looked_at_by_itself(stand: Stand) -> None:
    """Of a live project."""
    found = answer(stand)
    report = run(Plan(sources=plan(stand).sources, rubrics=RUBRIC))
    assert report.traces == len([trace for trace in found if sample(0.1)(Ref("braintrust", trace_id=trace), ())])


# --- killed -----------------------------------------------------------------------------------------------------------


class _Run:
    """The real command line, in a process of its own."""

    def __init__(self, stand: Stand, folder: Path, *words: str) -> None:
        source = f"braintrust:{PROJECT},queries=6000,settle=0"
        words = words or (source, "--rubric", RUBRIC, "--sample", "1")
        command = [sys.executable, "-m", "groundtrace.cli", "run", *words, "--store", str(folder / "s.db"), "--json"]
        self.out, self.err = folder / "out.json", folder / "err.txt"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.process = subprocess.Popen(command, cwd=folder, env=os.environ.copy(), stdout=out, stderr=err)

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


@pytest.mark.parametrize(("sent", "taken"), [(0, False), (0, True), (1, False), (1, True)])
def test_a_run_killed_between_judge_and_write_goes_on_with_none_lost_or_doubled(
    stand: Stand, tmp_path: Path, sent: int, *, taken: bool
) -> None:
    """Before the first write and in the middle of later ones; whether or not the last one was taken before the end."""
    answer(stand, 250)  # in batches of a hundred
    clean = {row["id"]: dict(row) for row in stand.store.objects["project_logs", stand.project].values()}
    run(plan(stand))
    undisturbed = _told(stand)
    stand.store.objects["project_logs", stand.project] = clean
    stand.store.requests.clear()
    where = f"/v1/project_logs/{stand.project}/insert"
    more = {} if taken else {"drop": True, "done": False}
    stand.standin.fail(where, skip=sent, times=99, delay=60.0, **more)
    first = _Run(stand, tmp_path)
    first.kill_when(lambda: len(stand.standin.asked(where)) > sent)
    stand.standin.faults.clear()
    until = time.monotonic() + 10
    while taken and len(scorers(stand)) == 0 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(scorers(stand)) < len(undisturbed)
    with open_store(str(tmp_path / "s.db")) as store:
        assert list(store.outbox())
    report = _Run(stand, tmp_path, "--resume").report()
    assert not report["failed"]
    assert _told(stand) == undisturbed
    assert len(roots(stand)) == 250
    with open_store(str(tmp_path / "s.db")) as store:
        assert not list(store.outbox())
    ids = [event["id"] for event in inserted(stand) if not event.get("_is_merge")]
    assert len(ids) == len({*ids})


def _told(stand: Stand) -> dict[str, Any]:
    """What our scorer spans say, without when that was."""
    names = ("scores", "root_span_id", "span_id", "span_parents", "span_attributes")
    return {ident: [row[name] for name in names] for ident, row in scorers(stand).items()}


# --- watched ----------------------------------------------------------------------------------------------------------


@contextmanager
def watching(stand: Stand, folder: Path, project: str = PROJECT, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`groundtrace watch` on a project, in a process of its own."""
    command = [sys.executable, "-m", "groundtrace.cli", "watch", f"braintrust:{project},queries=6000,settle=0", *words]
    told = {"cwd": folder, "env": os.environ.copy(), "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, "--store", str(folder / "s.db")], **told) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_watch_scores_a_project_and_then_what_is_new(stand: Stand, tmp_path: Path) -> None:
    """Line by line; killed and started again it goes on."""
    old = answer(stand, 1)
    words = ("--sample", "1", "--every", "1", "--rubric", RUBRIC)
    with watching(stand, tmp_path, PROJECT, *words) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " round 1: 1 trace, 5 scores written, 0 unscored, 0 US dollars" in line
        new = answer(stand, 1, first=1)
        lines = [process.stdout.readline() for _ in range(3)]
        assert any(" 5 scores written" in line for line in lines), lines
        process.kill()
    before = rows(stand)
    with watching(stand, tmp_path, PROJECT, *words) as process:
        assert process.stdout is not None
        assert " 0 scores written, 10 as before" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert {row["root_span_id"] for row in scorers(stand).values()} == {*old, *new}
    assert rows(stand) == before


def test_a_key_that_is_refused_ends_a_watch_with_one_line(stand: Stand, tmp_path: Path) -> None:
    """Which says what may be wrong with it."""
    stand.standin.fail("/v1/project", 403, times=99)
    with watching(stand, tmp_path, PROJECT, "--quiet") as process:
        out, trouble = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    (line,) = trouble.splitlines()
    assert "403" in line
    assert "another organisation" in line


def test_a_project_that_is_not_there_ends_a_watch_before_it_begins(stand: Stand, tmp_path: Path) -> None:
    """It is never made."""
    with watching(stand, tmp_path, "fairies", "--quiet") as process:
        out, trouble = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert trouble.startswith("groundtrace: braintrust: 'fairies' is no project here")
    assert [row["name"] for row in stand.store.projects.values()] == [PROJECT]


def test_a_braintrust_that_refuses_is_asked_once_and_said_once(stand: Stand, tmp_path: Path) -> None:
    """What users complained about is not asked for where nothing of the project could be."""
    stand.standin.fail("/v1/project", 403, times=99)
    report = run(Plan(sources=f"braintrust:{PROJECT}", store=str(tmp_path / "store.db")))
    assert len(report.failed) == 1
    assert not [note for note in report.notes if "scores" in note]
    assert len(stand.standin.asked("/v1/project")) == 1


HURRIED = """
from groundtrace.adapters.braintrust.api import Api
from groundtrace.adapters.braintrust.source import BraintrustSource

def source(project, *, url, ids=()):
    made = BraintrustSource(project, url=url, app_url=url, ids=ids)
    made.api = Api(url, url, queries=6000, patience=0.0)
    return made
"""


@pytest.mark.parametrize("status", [429, 500])
def test_a_watch_lives_through_braintrusts_trouble(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """What outlasts the adapter's patience ends a round; what came meanwhile is scored in a later one."""
    monkeypatch.syspath_prepend(entries(tmp_path, source_hurried=f"hurried_bt_{status}:source"))
    (tmp_path / "entries" / f"hurried_bt_{status}.py").write_text(HURRIED, encoding="utf-8")
    plan = Plan(sources=f"hurried:{PROJECT},url={stand.url}", rubrics=RUBRIC, sample=1.0)
    begun = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=10)
    clock, stand.store.clock = stand.store.clock, begun.timestamp
    trace = stand.rag(1, begun=begun)
    stand.store.clock = clock
    more = {"headers": {"Retry-After": "700"}} if status == 429 else {}
    stand.standin.fail("/btql", status, times=20 if status == 500 else 1, **more)
    with open_store(tmp_path / "s.db") as store:
        rounds = watch(plan, store, sleep=lambda _: None)
        first = next(rounds)
        assert str(status) in first.trouble
        assert first.wait >= (700 if status == 429 else 60)
        stand.standin.faults.clear()
        assert next(rounds).trouble == ""
    assert {row["root_span_id"] for row in scorers(stand).values()} == {trace}


def test_a_watch_comes_back_for_a_trace_that_goes_on_for_hours(stand: Stand, tmp_path: Path) -> None:
    """It is asked for by its id once it left the window."""
    now = [dt.datetime.now(dt.UTC)]
    begun = now[0] - dt.timedelta(minutes=5)
    trace = stand.rag(1, begun=begun)
    stand.merge(1, metrics={"end": None})
    monkey = plan(stand)

    def passing(seconds: float) -> None:
        now[0] += dt.timedelta(seconds=seconds)

    with open_store(tmp_path / "s.db") as store:
        rounds = watch(monkey, store, every=3600, clock=lambda: now[0], sleep=passing)
        for _ in range(6):
            one = next(rounds)
            assert (one.trouble, one.given_up) == ("", 0)
        assert not scorers(stand)
        stand.merge(1, metrics={"end": begun.timestamp() + 60})
        for _ in range(3):
            next(rounds)
    assert {row["root_span_id"] for row in scorers(stand).values()} == {trace}


def test_spans_of_opentelemetry_that_came_late_complete_their_trace(stand: Stand, tmp_path: Path) -> None:
    """The processor sends children before roots end: nothing is judged without its root."""
    sender = exported()
    tracer = sender.provider.get_tracer("slow")
    top = tracer.start_span("answer")
    sender("When?")
    sender.provider.force_flush()
    assert run(plan(stand)).traces == 1
    top.end()
    sender.provider.shutdown()
    assert run(plan(stand)).traces == 2
