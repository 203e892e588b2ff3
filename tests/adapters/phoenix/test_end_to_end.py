"""Phoenix from the command line: run, watch, review, the demo; as a user does it, in processes of their own."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2

import servers
from exported import SECOND
from groundtrace.adapters.phoenix.api import Api
from groundtrace.adapters.phoenix.said import listed
from groundtrace.memory import InMemory
from groundtrace.plan import Plan
from groundtrace.run.watch import watch
from terminal import BIN, groundtrace

from .conftest import Desk


def test_run_twice_and_review(desk: Desk, tmp_path: Path) -> None:
    """Written, unchanged, and a person's word taken as a decision that stays."""
    (one,) = desk.send()
    line = f"run phoenix:{desk.project} --sample 1 --rubric source_support --rubric rag_faithfulness --store mine.db"
    first = groundtrace(line, tmp_path)
    assert f"8 scores written  phoenix:{desk.project}" in first.stdout, first.stdout + first.stderr
    assert f"8 scores unchanged  phoenix:{desk.project}" in groundtrace(line, tmp_path).stdout
    desk.said("span", one.llm, "source_support", score=1, explanation="No source says 1887.")
    told = groundtrace(f"review --from phoenix:{desk.project} --store mine.db", tmp_path)
    assert told.returncode == 0, told.stderr
    again = groundtrace(line, tmp_path)
    assert again.returncode == 0, again.stderr
    row = next(row for row in desk.annotations("trace", one.trace) if row["name"] == "source_support")
    assert row["result"]["score"] == 1, "what the person decided is the score now"
    assert row["annotator_kind"] == "HUMAN"


def test_a_watch_takes_what_comes(desk: Desk) -> None:
    """It begins before the project is there, and a round that finds nothing new writes nothing."""
    source: dict[str, Any] = {"use": "phoenix", "argument": desk.project, "settle": 0}
    plan = Plan(sources=(source,), rubrics="rag_faithfulness", sample=1.0)
    began, minutes = datetime.fromtimestamp(desk.now / SECOND, UTC), itertools.count()
    rounds = []
    for one in watch(plan, InMemory(), clock=lambda: began + timedelta(minutes=next(minutes)), sleep=lambda _: None):
        rounds.append(one.report)
        assert ("has no project" in one.trouble) is (one.number == 1)
        if len(rounds) < 3:
            desk.send(1, ago=30)
        else:
            break
    told = [(report.traces, report.receipts.get(f"phoenix:{desk.project}", {})) for report in rounds]
    assert told == [(0, {}), (1, {"written": 5}), (2, {"written": 5, "unchanged": 5})]


def test_the_demo_shows_itself_in_phoenix(tmp_path: Path) -> None:
    """It starts Phoenix, shows where to look, and is gone with all it held after Ctrl-C."""
    programs = servers.programs("phoenix")
    env = servers.clean() | {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "COLUMNS": "120"}
    env |= {"PATH": f"{BIN}{os.pathsep}{programs}{os.pathsep}{env['PATH']}", "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "groundtrace.cli", "demo", "--phoenix"],
        cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            if line.startswith("end "):
                break
        text = "".join(said)
        url = re.findall(r"http://127\.0\.0\.1:\d+", text)
        assert url, text + (process.stderr.read() if process.stderr else "")
        api = Api(url[0])
        project = api.project("groundtrace-demo")
        assert sum(map(len, api.pages(f"/projects/{project}/traces"))) == 5
        (lowest,) = re.findall(r"/redirects/traces/([0-9a-f]{32})", text)
        rows = listed(api, str(project), "trace", [lowest])
        assert {row["name"]: row["result"]["score"] for row in rows}["source_support"] == 3
        assert httpx2.get(f"{url[0]}/redirects/traces/{lowest}", follow_redirects=True).is_success
    finally:
        process.send_signal(signal.SIGINT)
        rest, trouble = process.communicate(timeout=60)
    assert process.returncode == 0, trouble
    assert "Phoenix is gone" in rest
    assert not servers._answers(f"{url[0]}/healthz")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("groundtrace-phoenix")] == []


def test_the_demo_says_the_line_that_installs_phoenix(tmp_path: Path) -> None:
    """Where there is none; nothing is left behind."""
    done = groundtrace("demo --phoenix", tmp_path, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 2
    assert "pip install arize-phoenix" in done.stderr
    assert not (tmp_path / "groundtrace-demo").exists()
