"""The script runs as it stands, both ways: real SDK, real exporter, a receiver on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("score_as_it_runs.py")
SCORES = [("5.0", "5.0", "5.0"), ("5.0", "3.0", "5.0"), ("1.0", "5.0", "3.0")]


@pytest.mark.parametrize(("options", "spans"), [([], 15), (["--on-spans"], 9)], ids=["beside", "on them"])
def test_the_scores_of_every_answer_arrive(options: list[str], spans: int, tmp_path: Path) -> None:
    """Two evaluator spans an answer beside the app's own, or none; the same scores as from a file."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    first, *lines = done.stdout.splitlines()
    assert first == f"{spans} spans arrived"
    told = [line.split()[1] for line in lines if line.startswith("  ")]
    assert sorted(zip(told[::3], told[1::3], told[2::3], strict=True)) == sorted(SCORES)
    assert list(tmp_path.iterdir()) == []
