"""What the pages say is what happens: their Python runs, their commands print what stands there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

import cli_page
import scores_page
from groundtrace.plan import Plan
from groundtrace.rubrics.catalogue import CATALOGUE
from groundtrace.rubrics.factual_accuracy import SEVERITIES
from groundtrace.rubrics.rag_faithfulness import SEVERITIES as UNSUPPORTED
from groundtrace.rubrics.summary_groundedness import RATINGS
from groundtrace.rubrics.totals import LEVELS
from mlflow_house import House
from servers import Server
from terminal import shell

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "integrations").glob("*/README.md")),
]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
VOLATILE = ((re.compile(r" · \d+\.\d s\b"), ""), (re.compile(r"\b[0-9a-f]{16,32}\b"), "0" * 16))
"""How long something took, and the ids of spans."""

RECORD = {"id": "r1", "query": "Are dogs free?", "context": ["Dogs travel for free."], "answer": "Dogs are free [1]."}


def blocks(language: str) -> list[tuple[str, str]]:
    """Every block of a language: where it stands, and its text."""
    found = []
    for page in PAGES:
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match[2] == language:
                line = page.read_text(encoding="utf-8")[: match.start()].count("\n") + 1
                found.append((f"{page.relative_to(ROOT)}:{line}", match[3]))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds what the pages speak of, and is the current one."""
    data = resources.files("groundtrace.data")
    for name, copy in (("demo.jsonl", "spans.jsonl"), ("demo.logs.jsonl", "spans.logs.jsonl")):
        (tmp_path / copy).write_bytes(data.joinpath(name).read_bytes())
    (tmp_path / "records.jsonl").write_text(json.dumps(RECORD) + "\n", encoding="utf-8")
    shutil.copytree(ROOT / "integrations", tmp_path / "integrations")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def places(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the server a page speaks of where the page finds it."""

    def put(page: str) -> None:
        if page == "docs/phoenix.md":
            monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", request.getfixturevalue("phoenix_desk").url)
        if page == "docs/mlflow.md":
            server: Server = request.getfixturevalue("mlflow_server")
            monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
            House(server.url, "my-experiment").ask(3)

    return put


def test_there_is_something_to_check() -> None:
    """A walk that finds nothing would pass."""
    assert len(PAGES) >= 6
    assert len(blocks("python")) >= 3
    assert len(blocks("console")) >= 4


@pytest.mark.parametrize(("where", "code"), blocks("python"), ids=[where for where, _ in blocks("python")])
def test_the_python_of_the_pages_runs(folder: Path, where: str, code: str) -> None:
    """As it stands, in a folder with the files it names."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = re.findall(r"^# -> (.*)$", code, re.MULTILINE)
    assert done.stdout.splitlines()[: len(expected)] == expected


@pytest.mark.parametrize("page", [page for page in PAGES if "```console" in page.read_text(encoding="utf-8")], ids=str)
def test_the_commands_of_a_page_print_what_stands_there(
    folder: Path, page: Path, places: Callable[[str], None]
) -> None:
    """`$ command`, then lines of its output in their order; `...` stands for any lines between."""
    places(str(page.relative_to(ROOT)))
    talk = "".join(text for where, text in blocks("console") if where.startswith(f"{page.relative_to(ROOT)}:"))
    for part in re.split(r"^\$ ", talk, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = shell(command, folder)
        assert done.returncode in (0, 2), done.stderr
        said, at = _steady(done.stdout + done.stderr), 0
        for piece in re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE):
            found = said.find(_steady(piece).strip(), at)
            assert found >= 0, f"{command} says:\n{said}"
            at = found + len(_steady(piece).strip())


def _steady(text: str) -> str:
    for pattern, instead in VOLATILE:
        text = pattern.sub(instead, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("plan", [text for where, text in blocks("toml") if where.startswith("docs/plan.md")])
def test_the_plans_of_the_pages_are_plans(plan: str) -> None:
    """Every key is one, every value fits."""
    Plan(**{"sources": "otel:x", **tomllib.loads(plan)})


def test_the_readme_installs_and_tests_in_one_line_each() -> None:
    """The two lines that `.ci/run` takes from it and runs in a fresh clone."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^python3 -m venv .*$", readme, re.MULTILINE) == [
        "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/groundtrace demo",
        "python3 -m venv .venv-test && .venv-test/bin/pip install '.[dev]' && .ci/servers && .venv-test/bin/pytest",
    ]


def test_the_page_of_the_command_line_is_the_command_lines_own() -> None:
    """docs/cli.md is what its options and their help say."""
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == cli_page.page()


def test_the_table_of_scores_is_the_catalogues_own() -> None:
    """docs/scores.md holds every score there is."""
    assert scores_page.PAGE.read_text(encoding="utf-8") == scores_page.page()


def test_the_labels_of_the_catalogue_are_those_cards_have() -> None:
    """What a person may correct a label to is what the rubrics publish."""
    choices = {score.name: score.choices for score in CATALOGUE if score.choices}
    assert choices == {
        "source_support": tuple(LEVELS.values()),
        "source_support.min": tuple(LEVELS.values()),
        "factual_accuracy": SEVERITIES,
        "rag_faithfulness": ("none", *UNSUPPORTED),
        "summary_groundedness": tuple(name for _, name in RATINGS),
    }


def test_links_between_the_pages_lead_somewhere() -> None:
    """A file that is linked to is there."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
