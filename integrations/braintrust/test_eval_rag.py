"""The experiment and the scorers that are pushed: Braintrust's own command line, and a stand-in on this machine."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from standins.braintrust import Standin

HERE = Path(__file__).parent
EVAL = ["-m", "braintrust.cli", "eval", "--no-progress-bars", "--jsonl"]
SCORES = {
    "groundtrace_source_support": 2 / 3,
    "groundtrace_source_support_min": 2 / 3,
    "groundtrace_source_support_citation_precision": 2 / 3,
    "groundtrace_rag_faithfulness_assessed": 5 / 6,
    "groundtrace_rag_faithfulness_claim_support": 5 / 6,
    "groundtrace_rag_faithfulness_citation_accuracy": 5 / 6,
}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[tuple[Standin, dict[str, str], Path]]:
    """A Braintrust, the environment of who has no key for it, and a folder that is theirs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BRAINTRUST")}
    folder = tmp_path / "app"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    with closing(Standin()) as stand:
        where = {"BRAINTRUST_APP_URL": stand.url, "BRAINTRUST_API_URL": stand.url, "HOME": str(tmp_path)}
        yield stand, {**kept, **where}, folder


def said(arguments: list[str], env: dict[str, str], folder: Path) -> str:
    """What a command printed; it has to end well."""
    line = [sys.executable, *arguments]
    done = subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def scores(printed: str) -> dict[str, float]:
    """The means an experiment's summary tells."""
    told = json.loads(printed.strip().splitlines()[-1])["scores"]
    return {name: score["score"] for name, score in told.items()}


def test_an_experiment_needs_no_account(house: tuple[Standin, dict[str, str], Path]) -> None:
    """Without a key, by Braintrust's command and as a script: the same scores, and nobody is asked."""
    stand, env, folder = house
    assert scores(said([*EVAL, "--no-send-logs", "eval_rag.py"], env, folder)) == pytest.approx(SCORES)
    printed = said(["-W", "error", "eval_rag.py"], env, folder)
    assert [name for name in SCORES if f"'{name}'" in printed] == list(SCORES)
    assert stand.requests == []


def test_an_experiment_that_is_sent_has_the_same_scores(house: tuple[Standin, dict[str, str], Path]) -> None:
    """They are on the platform, each on its scorer's span."""
    stand, env, folder = house
    printed = said([*EVAL, "eval_rag.py"], {**env, "BRAINTRUST_API_KEY": "sk-test"}, folder)
    assert scores(printed) == pytest.approx(SCORES)
    [ident] = stand.store.experiments
    told: dict[str, list[float]] = {}
    for row in stand.store.rows(("experiment", ident)):
        for name, score in (row.get("scores") or {}).items():
            told.setdefault(name, []).extend([] if score is None else [score])
    assert {name: sum(found) / 3 for name, found in told.items() if found} == pytest.approx(SCORES)


UV = """#!/bin/sh
while [ "$1" != --target ]; do shift; done
mkdir -p "$2"
"""
"""In place of what fetches packages: nothing is fetched."""

AS_BRAINTRUST = """
from braintrust.framework import _set_lazy_load
from braintrust.framework2 import global_
with _set_lazy_load(True):
    import register
import json
case = {"input": "When?", "output": "The bus leaves at nine [1].", "metadata": {"context": ["The bus leaves at nine."]}}
print(json.dumps([function.handler(**case).as_dict() for function in global_.functions]))
"""
"""What becomes of a bundle, as far as the SDK's own code tells: its functions are found by their place in it."""


def test_scorers_are_pushed(house: tuple[Standin, dict[str, str], Path], tmp_path: Path) -> None:
    """Their names, their parameters, and a bundle that holds all they need of this folder."""
    stand, env, folder = house
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "uv.py").touch()
    (tools / "uv").write_text(UV, encoding="utf-8")
    (tools / "uv").chmod(0o755)
    paths = {name: os.pathsep.join([str(tools), env.get(name, "")]) for name in ("PATH", "PYTHONPATH")}
    line = ["push", "scorers.py", "--requirements", "requirements.txt", "--if-exists", "replace"]
    said(["-m", "braintrust.cli", *line], {**env, **paths, "BRAINTRUST_API_KEY": "sk-test"}, folder)

    functions: list[dict[str, Any]] = stand.store.functions
    names = ["groundtrace_source_support", "groundtrace_factual_accuracy"]
    assert [told["name"] for told in functions] == names
    assert {told["function_type"] for told in functions} == {"scorer"}
    for told in functions:
        fields = set(told["function_schema"]["parameters"]["properties"])
        assert fields == {"input", "output", "expected", "metadata", "trace"}
        assert "def " in told["function_data"]["data"]["preview"]
    [bundle] = stand.store.blobs.values()
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(io.BytesIO(bundle)).extractall(unpacked)
    assert sorted(path.name for path in unpacked.iterdir()) == ["register.py", "scorers.py"]
    printed = said(["-c", AS_BRAINTRUST], {**env, "PYTHONPATH": os.pathsep.join(sys.path)}, unpacked)
    given = json.loads(printed)
    assert [(score["name"], score["score"]) for score in given] == [(name, 1) for name in names]
    assert all(score["metadata"]["rationale"] for score in given)
