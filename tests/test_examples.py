"""The examples run as they stand and print what they say they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("[0-9][0-9]_*.py"))


def test_there_are_examples() -> None:
    """A walk that finds nothing would pass."""
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_what_it_says(example: Path, tmp_path: Path) -> None:
    """Its docstring ends with the lines it prints, four spaces in."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    docstring = re.search(r'"""(.*?)"""', example.read_text(encoding="utf-8"), re.DOTALL)
    assert docstring is not None
    promised = re.findall(r"^    (.*)$", docstring[1], re.MULTILINE)
    assert promised
    assert done.stdout.splitlines() == promised
