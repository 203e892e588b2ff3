"""What the README says is done: the real SDK, the command line, and a stand-in for LangSmith on this machine."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from groundtrace import Plan
from groundtrace.adapters.langsmith.filters import Filter
from groundtrace.adapters.published import PREFIX
from groundtrace.cli import app as command_line
from groundtrace.rubrics.catalogue import CATALOGUE
from standins.langsmith import Store, serve

HERE = Path(__file__).parent
SERVICES = sorted(HERE.glob("*.service"))


@pytest.fixture
def house() -> Iterator[tuple[Store, dict[str, str]]]:
    """A LangSmith, and the environment of who uses it."""
    server, store, url = serve()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LANGSMITH", "LANGCHAIN"))}
    ours = {"LANGSMITH_ENDPOINT": url, "LANGSMITH_API_KEY": "lsv2_of_the_tests", "LANGSMITH_TRACING": "true"}
    yield store, {**kept, **ours, "LANGSMITH_PROJECT": "tent-desk"}
    server.shutdown()
    server.server_close()


def said(arguments: list[str], env: dict[str, str], folder: Path) -> str:
    """What a command printed; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def keys(store: Store) -> Counter[str]:
    """How much feedback stands under each key."""
    return Counter(row["key"].removeprefix(PREFIX) for row in store.feedback.values())


def test_an_experiment_is_scored_on_the_platform_as_without_one(
    house: tuple[Store, dict[str, str]], tmp_path: Path
) -> None:
    """The same scores with a key and without; with one they are feedback on the experiment's runs."""
    store, env = house
    script = [str(HERE / "evaluate_my_app.py")]
    alone = said(script, {name: value for name, value in env.items() if not name.startswith("LANGSMITH")}, tmp_path)
    assert not store.feedback
    assert said(script, env, tmp_path) == alone
    assert said(script, env, tmp_path) == alone
    assert len(store.datasets) == 1, "the dataset is made once"
    told = keys(store)
    assert told["source_support"] == told["rag_faithfulness.claim_support"] == 6
    assert {row["run_id"] for row in store.feedback.values()} <= set(store.runs)


def test_traces_of_the_app_are_scored_once(house: tuple[Store, dict[str, str]], tmp_path: Path) -> None:
    """Traced by the SDK, pulled and scored by the command line; a second run leaves what is there."""
    store, env = house
    said([str(HERE / "my_app.py")], env, tmp_path)
    roots = {ident for ident, run in store.runs.items() if not run.get("parent_run_id")}
    line = "-m groundtrace.cli run langsmith:tent-desk,settle=0 --sample 1 --since 1h --store kept.db"
    first = said(shlex.split(line), env, tmp_path)
    assert "3 traces read" in first
    assert {row["run_id"] for row in store.feedback.values()} == roots
    scores = sorted(row["score"] for row in store.feedback.values() if row["key"] == f"{PREFIX}source_support")
    assert scores == [1, 5, 5]
    before = json.dumps(store.feedback, sort_keys=True, default=str)
    again = said(shlex.split(line), env, tmp_path)
    assert "unchanged" in again
    assert json.dumps(store.feedback, sort_keys=True, default=str) == before


def test_the_rule_is_the_one_that_attach_makes(house: tuple[Store, dict[str, str]], tmp_path: Path) -> None:
    """Who makes it by hand makes the same."""
    store, env = house
    said([str(HERE / "my_app.py")], env, tmp_path)
    url = "https://scores.example.com/langsmith"
    line = f"-m groundtrace.cli attach langsmith:tent-desk --url {url} --secret-env GROUNDTRACE_SECRET"
    said(shlex.split(line), {**env, "GROUNDTRACE_SECRET": "of-the-tests-and-long"}, tmp_path)
    [posted] = [entry["json"] for entry in store.log if entry["method"] == "POST" and entry["path"].endswith("/rules")]
    shown = json.loads((HERE / "rule.json").read_text(encoding="utf-8"))
    shown["session_id"] = posted["session_id"]
    shown["webhooks"][0]["headers"]["X-Groundtrace-Secret"] = "of-the-tests-and-long"
    assert posted == shown


def test_the_plan_of_the_watch_is_one() -> None:
    """Every key is one, every value fits."""
    plan = Plan.from_toml(HERE / "watch.toml")
    assert plan.sources == ("langsmith:my-project",)
    tomllib.loads((HERE / "watch.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("service", SERVICES, ids=lambda path: path.stem)
def test_a_service_starts_a_command_there_is(service: Path) -> None:
    """With options it has."""
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read(service, encoding="utf-8")
    check(shlex.split(read["Service"]["ExecStart"])[1:])


def test_the_commands_of_the_readme_are_commands() -> None:
    """With options they have."""
    lines = re.findall(
        r"^groundtrace (.*?)(?:  +#.*)?$", (HERE / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(lines) >= 5
    for line in lines:
        check(shlex.split(line))


def test_the_keys_of_the_readme_are_keys() -> None:
    """Who copies one into a chart sees something."""
    named = set(re.findall(rf"{re.escape(PREFIX)}([a-z_.]+)", (HERE / "README.md").read_text(encoding="utf-8")))
    known = {told.name for told in CATALOGUE}
    assert {name for name in named if name.startswith(("rag", "source", "factual", "summary"))} <= known


def test_the_filters_of_the_readme_are_filters() -> None:
    """Held against the grammar, as one of a source is."""
    filters = re.findall(r"`((?:and|or|eq)\(.*?\))`", (HERE / "README.md").read_text(encoding="utf-8"))
    assert len(filters) == 2
    for told in filters:
        assert Filter(raw=told).text == told


def check(words: list[str]) -> None:
    """That a command line is one, without running it."""
    name, *arguments = words
    command = get_command(command_line).get_command(None, name)  # type: ignore[attr-defined]
    assert command is not None, f"there is no command {name}"
    command.make_context(name, arguments, resilient_parsing=False)
