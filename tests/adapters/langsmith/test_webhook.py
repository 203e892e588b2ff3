"""A message of LangSmith's rules names traces, and nothing else of it is believed."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

import killed
from groundtrace.adapters import patience
from groundtrace.adapters.langsmith.source import LangSmithSource
from groundtrace.adapters.langsmith.webhook import delivery
from groundtrace.errors import PlatformError
from groundtrace.model import Window
from groundtrace.plan import Plan
from groundtrace.plugins import installed
from groundtrace.run.watch import watch
from groundtrace.serve.webhooks import Counts, Evaluation
from groundtrace.store import open_store
from live import entries
from pushing import PROJECT, Stand, standing

SECRET = "a-secret-nobody-guesses"
RULE = "0198a1b2-0000-7000-8000-00000000000a"


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in with a project."""
    with standing(monkeypatch) as made:
        yield made


def put(stand: Stand, n: int, seconds_ago: float = 600, **told: Any) -> str:
    """A trace of a question, what was found for it, and an answer; its id."""
    begun = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds_ago)
    ended = begun + dt.timedelta(seconds=1)
    times = {"start_time": begun.isoformat(), "end_time": ended.isoformat()}
    query, fact = f"When does ferry {n} leave?", f"Ferry {n} leaves at 21:{n % 60:02} every day."
    root = stand.run(n, **times, inputs={"input": query}, outputs={"output": f"{fact[:-1]} [1]."}, **told)
    child, order = str(uuid.UUID(int=n + 10**6)), begun.strftime("%Y%m%dT%H%M%S%fZ")
    documents = [{"page_content": fact, "metadata": {}, "type": "Document"}]
    more = {"trace_id": root, "parent_run_id": root, "name": "retriever", "run_type": "retriever"}
    more |= {"inputs": {"query": query}, "outputs": {"documents": documents}, "session_name": PROJECT}
    stand.store.upsert_run("patch", {"id": root, "dotted_order": f"{order}{root}"})
    stand.store.upsert_run("post", {"id": child, "dotted_order": f"{order}{root}.{order}{child}", **more, **times})
    return root


def message(stand: Stand, *traces: str) -> dict[str, Any]:
    """What LangSmith's documentation says a rule sends; times have no zone, texts may be links."""
    runs = [
        {
            "id": ident,
            "trace_id": ident,
            "session_id": stand.project,
            "is_root": True,
            "run_type": "chain",
            "status": "success",
            "start_time": "2026-11-30T08:00:00.123456",
            "end_time": "2026-11-30T08:00:01.123456",
            "inputs": None,
            "inputs_s3_urls": {"ROOT": {"presigned_url": "https://example.org/x"}},
            "outputs": {"output": "a forged answer that nobody gave"},
            "parent_run_ids": [],
            "feedback_stats": None,
        }
        for ident in traces
    ]
    times = {"start_time": "2026-11-30T08:00:00", "end_time": "2026-11-30T08:05:00"}
    return {"rule_id": RULE, **times, "runs": runs, "feedback_stats": None}


def test_a_message_names_each_trace_once(stand: Stand) -> None:
    """Of each project; a child's trace is its root's."""
    a, b = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
    told = message(stand, a, b, a)
    told["runs"][1] |= {"id": str(uuid.UUID(int=3)), "session_id": a}
    assert delivery(told).rule == RULE
    assert delivery(told).traces == ((stand.project, a), (a, b))
    assert delivery({"rule_id": None, "runs": []}).traces == ()


def test_an_odd_run_keeps_no_other_from_being_heard(stand: Stand) -> None:
    """LangSmith sends no message again that was refused; what nobody could read is counted."""
    a, b = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
    told = message(stand, a, b, b)
    told["runs"][1]["session_id"] = None
    told["runs"][2] = 7
    named = delivery(told)
    assert (named.traces, named.unreadable) == (((stand.project, a),), 2)


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        [],
        "runs",
        {"rule_id": RULE},
        {"runs": {}},
        {"runs": [7]},
        {"runs": [{}]},
        {"runs": [{"trace_id": "x", "session_id": str(uuid.UUID(int=1))}]},
        {"runs": [{"trace_id": str(uuid.UUID(int=1))}]},
        {"runs": [{"trace_id": str(uuid.UUID(int=1)), "session_id": 7}]},
        {"runs": [{"trace_id": str(uuid.UUID(int=1)), "session_id": "../sessions"}]},
    ],
)
def test_what_is_no_message_of_a_rule_is_refused(wrong: object) -> None:
    """Also ids that are none, which would stand in an address we ask."""
    with pytest.raises(PlatformError, match="no message of a LangSmith rule"):
        delivery(wrong)


def test_traces_are_read_by_their_ids_whenever_they_were(stand: Stand) -> None:
    """And no others; one that is not there is not over."""
    old, _ = put(stand, 1, 90 * 86400), put(stand, 2)
    absent = str(uuid.UUID(int=77))
    source = LangSmithSource(stand.project, url=stand.url, ids=(old, absent))
    asked: list[str] = []
    found = list(source.traces(Window(None, None), lambda ref, _: asked.append(ref.trace_id) or True))
    assert [(trace.ref.trace_id, trace.complete, len(trace.spans)) for trace in found] == [
        (old, True, 2),
        (absent, False, 0),
    ]
    assert asked == [old, absent]
    assert not list(source.late(Window(None, None), None, lambda *_: True))


# --- from message to feedback ---------------------------------------------------------------------------------------


def around(stand: Stand, folder: Path) -> dict[str, str]:
    """The environment of a user with a key; the source's entry is made where the installed package has none yet."""
    path = [os.environ.get("PYTHONPATH", "")]
    if "langsmith" not in {plugin.name for plugin in installed("source")}:
        at = "groundtrace.adapters.langsmith"
        doors = {"source_langsmith": f"{at}.source:LangSmithSource", "sink_langsmith": f"{at}.sink:LangSmithSink"}
        path.append(entries(folder, **doors))
    told = {"LANGSMITH_ENDPOINT": stand.url, "LANGSMITH_API_KEY": "lsv2_pt_standin", "HOOK": SECRET}
    return {**os.environ, **told, "PYTHONPATH": os.pathsep.join(path)}


@contextmanager
def command(stand: Stand, folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A groundtrace that does not end by itself."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    line = [*killed.PROGRAM, *words, "--store", str(folder / "s.db"), "--rubric", "rag_faithfulness"]
    with subprocess.Popen(line, cwd=folder, env=around(stand, folder), text=True, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def feedback(stand: Stand) -> dict[str, int]:
    """How many scores stand on each trace."""
    found: dict[str, int] = {}
    for row in stand.store.feedback.values():
        found[row["run_id"]] = found.get(row["run_id"], 0) + 1
    return found


def test_what_a_rule_tells_of_is_scored_on_langsmith_once(stand: Stand, tmp_path: Path) -> None:
    """Delivered twice, as LangSmith does where an answer was lost; the forged answer of the message is not judged."""
    ids = [put(stand, n) for n in range(1, 6)]
    put(stand, 9)
    with command(stand, tmp_path, "serve", "langsmith", "--secret-env", "HOOK", "--listen", "127.0.0.1:0") as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert "listening at " in first, first + process.stderr.read()
        url = first.partition("listening at ")[2].partition(";")[0]
        with httpx2.Client(trust_env=False, headers={"X-Groundtrace-Secret": SECRET}) as client:
            for sent in (ids[:3], ids, ids):
                begun = time.monotonic()
                assert client.post(url, json=message(stand, *sent)).status_code == 202
                assert time.monotonic() - begun < 1
            end = time.monotonic() + 90
            while client.get(url.replace("/langsmith", "/health")).json()["waiting"]:
                assert time.monotonic() < end
                time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, trouble = process.communicate(timeout=60)
    assert process.returncode == 0, trouble
    told = feedback(stand)
    assert sorted(told) == sorted(ids)
    assert set(told.values()) == {5}
    posted = [row for row in stand.asked("POST", "/feedback") if "configs" not in row["path"]]
    assert len(posted) == 25
    assert "forged" not in json.dumps(list(stand.store.feedback.values()), default=str)
    assert SECRET not in trouble


def test_scores_that_were_not_taken_are_written_later(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though no other message comes; what waits is counted, and nothing else of its batch waits with it."""
    monkeypatch.setattr(patience, "WAITS", (0.01, 0.01))
    monkeypatch.setenv("LANGSMITH_ENDPOINT", stand.url)
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_pt_standin")
    ident, clock, said = put(stand, 1), [0.0], list[str]()
    stand.store.faults.append({"method": "POST", "path": "/feedback$", "status": 404, "times": 60})
    plan = Plan(sources=("langsmith:-",), rubrics=("rag_faithfulness",), sample=1.0)
    with open_store(tmp_path / "s.db") as store:
        store.inbox.put("langsmith", [(stand.project, ident)], most=9)
        counts = Counts()
        evaluating = Evaluation(plan, {"use": "langsmith"}, store, counts, said.append, clock=lambda: clock[0])
        assert evaluating.once()
        assert (counts.state, counts.traces, store.inbox.count("langsmith")) == ("in trouble", {"put off": 1}, 1)
        assert any("unconfirmed" in line for line in said)
        assert not stand.store.feedback
        stand.store.faults.clear()
        clock[0] += 31
        assert evaluating.once()
        assert (counts.state, counts.traces["evaluated"], store.inbox.count("langsmith")) == ("well", 1, 0)
    assert feedback(stand) == {ident: 5}


def test_a_watch_scores_a_project_and_then_what_is_new(stand: Stand, tmp_path: Path) -> None:
    """Line by line; killed and started again it goes on."""
    old = put(stand, 1)
    words = ("watch", f"langsmith:{PROJECT}", "--sample", "1", "--every", "1")
    with command(stand, tmp_path, *words) as process:
        assert process.stdout is not None
        assert " round 1: 1 trace, 5 scores written, 0 unscored, 0 US dollars" in process.stdout.readline()
        new = put(stand, 2, 60)
        lines = [process.stdout.readline() for _ in range(3)]
        assert any(" 5 scores written" in line for line in lines), lines
        process.kill()
    before = dict(stand.store.feedback)
    with command(stand, tmp_path, *words) as process:
        assert process.stdout is not None
        assert " 0 scores written, 10 as before" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert set(feedback(stand)) == {old, new}
    assert stand.store.feedback == before


def test_a_key_that_is_refused_ends_a_watch_with_one_line(stand: Stand, tmp_path: Path) -> None:
    """Which says what may be wrong with it."""
    stand.store.faults.append({"method": "GET", "path": "/sessions", "status": 403, "times": 99})
    with command(stand, tmp_path, "watch", f"langsmith:{PROJECT}", "--quiet") as process:
        out, trouble = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    (line,) = trouble.splitlines()
    assert "403" in line
    assert "another region or workspace" in line


def test_a_project_that_is_not_there_ends_a_watch_before_it_begins(stand: Stand, tmp_path: Path) -> None:
    """It is never made."""
    with command(stand, tmp_path, "watch", "langsmith:fairies", "--quiet") as process:
        out, trouble = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert trouble.startswith("groundtrace: langsmith: 'fairies' is no project")
    assert [row["name"] for row in stand.store.sessions.values()] == [PROJECT]


def test_attach_and_detach_from_the_command_line(stand: Stand, tmp_path: Path) -> None:
    """They say what they did; the secret comes from the environment and is not told."""
    env = around(stand, tmp_path)
    word = [sys.executable, "-m", "groundtrace.cli"]
    url = ["--url", "https://example.org/langsmith"]
    told = []
    for line in (["attach", *url, "--sample", "0.3", "--secret-env", "HOOK"], ["attach", *url], ["detach", *url]):
        done = subprocess.run(
            [*word, line[0], f"langsmith:{PROJECT}", *line[1:]], env=env, capture_output=True, text=True, check=True
        )
        told.append(done.stdout)
        if line[0] == "attach" and len(told) == 1:
            (rule,) = stand.store.rules.values()
            assert rule["webhooks"][0]["headers"] == {"X-Groundtrace-Secret": SECRET}
    assert [text.split(" ")[0] for text in told] == ["created", "changed", "removed"]
    assert SECRET not in "".join(told)
    assert not stand.store.rules
    for odd in (f"example.org/langsmith?secret={SECRET}", f"https://?secret={SECRET}"):
        line = [*word, "attach", f"langsmith:{PROJECT}", "--url", odd]
        done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, "is no address" in done.stderr) == (2, True)
        assert SECRET not in done.stdout + done.stderr


HURRIED = """
from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.source import LangSmithSource

def source(project, *, url):
    made = LangSmithSource(project, url=url)
    made.api = Api(url, patience=0.0)
    return made
"""


@pytest.mark.parametrize("status", [429, 500])
def test_a_watch_lives_through_langsmiths_trouble(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """What outlasts the adapter's patience ends a round; what came meanwhile is scored in a later one."""
    monkeypatch.syspath_prepend(entries(tmp_path, source_hurried=f"hurried_{status}:source"))
    (tmp_path / "entries" / f"hurried_{status}.py").write_text(HURRIED, encoding="utf-8")
    plan = Plan(sources=f"hurried:{PROJECT},url={stand.url}", rubrics="rag_faithfulness", sample=1.0)
    ident = put(stand, 1)
    more = {"headers": {"Retry-After": "700"}} if status == 429 else {}
    stand.store.faults.append({"method": "POST", "path": "runs/query", "status": status, "times": 1, **more})
    with open_store(tmp_path / "s.db") as store:
        rounds = watch(plan, store, sleep=lambda _: None)
        first = next(rounds)
        assert str(status) in first.trouble
        assert first.wait >= (700 if status == 429 else 60)
        assert next(rounds).trouble == ""
    assert set(feedback(stand)) == {ident}
