"""What the README says is done: the real SDK, the command line, and a stand-in for Braintrust on this machine."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from groundtrace import Plan
from groundtrace.adapters.braintrust.columns import column
from groundtrace.adapters.braintrust.names import name_of
from groundtrace.cli import app as command_line
from groundtrace.rubrics.catalogue import CATALOGUE
from standins.braintrust import Standin

HERE = Path(__file__).parent
README = (HERE / "README.md").read_text(encoding="utf-8")
CHARTS = (HERE / "charts.btql").read_text(encoding="utf-8")
QUICK = "queries=6000"
PATHS = re.compile(r"\b(?:scores|metrics|metadata)\.\w+(?:\.\w+)*")

House = tuple[Standin, dict[str, str]]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A Braintrust, and the environment of who uses it, in a home where no key of anybody's lies."""
    server = Standin()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BRAINTRUST")}
    ours = {"BRAINTRUST_APP_URL": server.url, "BRAINTRUST_API_KEY": "sk-test", "BRAINTRUST_DISABLE_ATEXIT_FLUSH": "1"}
    yield server, {**kept, **ours, "HOME": str(tmp_path)}
    server.close()


def said(arguments: list[str], env: dict[str, str], folder: Path) -> str:
    """What a command printed; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def rows(server: Standin, *, scorers: bool) -> list[dict[str, Any]]:
    """What the project holds: scorer spans, or all else."""
    project = server.store.project("bike-desk")["id"]
    held = server.store.rows(("project_logs", project))
    return [row for row in held if ((row["span_attributes"] or {}).get("purpose") == "scorer") is scorers]


def scored(house: House, folder: Path, sink: str = "") -> str:
    """The project's traces pulled and scored by the command line; none is picked for people at random."""
    (folder / "plan.toml").write_text("audit_rate = 0.0\n", encoding="utf-8")
    line = f"-m groundtrace.cli run braintrust:bike-desk,settle=0,{QUICK} --sample 1 --since 1h --store kept.db"
    line += " --plan plan.toml"
    to = ["--to", f"braintrust:bike-desk,{QUICK},{sink}"] if sink else []
    return said([*shlex.split(line), *to], house[1], folder)


def test_traces_of_the_app_are_scored_once(house: House, tmp_path: Path) -> None:
    """Traced by the SDK, pulled and scored by the command line; a second run leaves what is there."""
    server, env = house
    said([str(HERE / "my_app.py")], env, tmp_path)
    roots = {row["span_id"] for row in rows(server, scorers=False) if row["is_root"]}
    assert "3 traces read" in scored(house, tmp_path)
    written = rows(server, scorers=True)
    assert {parent for row in written for parent in row["span_parents"]} == roots
    name = name_of("source_support")
    assert sorted(row["scores"][name] for row in written if name in row["scores"]) == [0, 1, 1]
    assert {row["metadata"]["prompt_version"] for row in written} == {"7"}
    before = json.dumps(rows(server, scorers=True) + rows(server, scorers=False), sort_keys=True, default=str)
    assert "unchanged" in scored(house, tmp_path)
    assert json.dumps(rows(server, scorers=True) + rows(server, scorers=False), sort_keys=True, default=str) == before


def test_what_people_answer_there_comes_back(house: House, tmp_path: Path) -> None:
    """From the review list and its columns to a decision in the store; and the doctor is content."""
    server, env = house
    said([str(HERE / "my_app.py")], env, tmp_path)
    scored(house, tmp_path, "review=true")
    listed = [row for row in rows(server, scorers=False) if "~__bt_review_lists" in (row["metadata"] or {})]
    assert len(listed) == 2
    [row] = [row for row in listed if "deposit" in str(row["input"])]
    answer = {"id": "said", "span_id": "f" * 16, "root_span_id": row["root_span_id"], "span_parents": [row["span_id"]]}
    answer |= {"project_id": row["project_id"], "log_id": "g", "span_attributes": {"type": "review"}}
    server.store.write([{**answer, "scores": {column("source_support"): 0.75}, "metadata": {"user_email": "ada@b.c"}}])
    line = f"-m groundtrace.cli review --from braintrust:bike-desk,{QUICK} --store kept.db"
    told = said(shlex.split(line), env, tmp_path)
    assert "corrected by ada@b.c: source_support 4 of 5" in told
    assert "1 decision taken" in told
    assert "0 decisions taken" in said(shlex.split(line), env, tmp_path)
    health = said(shlex.split(f"-m groundtrace.cli doctor braintrust:bike-desk,{QUICK}"), env, tmp_path)
    assert "bad" not in health
    assert "columns in which people give our scores: 8" in health


def test_what_the_charts_name_is_there(house: House, tmp_path: Path) -> None:
    """Who copies a query sees something: every field it names is on a row that a run writes."""
    server, env = house
    said([str(HERE / "my_app.py")], env, tmp_path)
    scored(house, tmp_path, "review=true")
    here = {path for row in rows(server, scorers=True) + rows(server, scorers=False) for path in paths(row)}
    known = {f"scores.{name(told.name)}" for told in CATALOGUE for name in (name_of, column)}
    known |= {f"metrics.{name_of(told.name)}_raw" for told in CATALOGUE} | {"metadata.reason"}
    named = {path for path in PATHS.findall(README + CHARTS) if not path.endswith(".md")}
    assert len(named) > 12
    assert named <= here | known


def paths(row: dict[str, Any]) -> Iterator[str]:
    """The fields of a row, by the names that lead to them."""
    for name in ("scores", "metrics", "metadata"):
        held: list[tuple[str, Any]] = [(name, row[name])]
        while held:
            path, value = held.pop()
            if isinstance(value, dict):
                held += [(f"{path}.{key}", told) for key, told in value.items()]
            yield path


def test_the_plan_of_the_watch_is_one() -> None:
    """Every key is one, every value fits."""
    plan = Plan.from_toml(HERE / "watch.toml")
    assert plan.sources == ("braintrust:my-project",)
    assert plan.sinks == ("braintrust:my-project,review=true",)


def test_the_service_starts_a_command_there_is() -> None:
    """With options it has."""
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(HERE / "groundtrace-watch.service", encoding="utf-8")
    check(shlex.split(read["Service"]["ExecStart"])[1:])


def test_the_commands_of_the_readme_are_commands() -> None:
    """With options they have."""
    lines = re.findall(r"^groundtrace (.*?)(?:  +#.*)?$", README, re.MULTILINE)
    assert len(lines) >= 4
    for line in lines:
        check(shlex.split(line))


def check(words: list[str]) -> None:
    """That a command line is one, without running it."""
    name, *arguments = words
    command = get_command(command_line).get_command(None, name)  # type: ignore[attr-defined]
    assert command is not None, f"there is no command {name}"
    command.make_context(name, arguments, resilient_parsing=False)
