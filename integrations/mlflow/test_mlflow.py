"""What the README says is done, on a real MLflow."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import uuid
from pathlib import Path

from groundtrace import Plan
from groundtrace.adapters.mlflow.api import Api
from groundtrace.adapters.mlflow.said import assessments
from groundtrace.sampling import Sampling
from servers import Server, clean

HERE = Path(__file__).parent


def said(words: list[str], server: Server, folder: Path) -> str:
    """What a command printed; it has to end well."""
    env = clean() | {"MLFLOW_TRACKING_URI": server.url, "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_lines_of_the_readme_do_what_it_says(mlflow_server: Server, tmp_path: Path) -> None:
    """Traced, looked at, scored; once, however often."""
    name = f"tent-desk-{uuid.uuid4().hex[:8]}"
    readme = (HERE / "README.md").read_text(encoding="utf-8").replace("tent-desk", name)
    lines = re.findall(r"^(?:python|groundtrace) .*?(?=  +#|$)", readme, re.MULTILINE)
    assert len(lines) == 3
    for line in (*lines, lines[-1]):
        program, *words = shlex.split(line)
        if program == "python":
            assert "18 euros" in said([str(HERE.parents[1] / words[0]), *words[1:]], mlflow_server, tmp_path)
        else:
            kept = ["--store", "s.db"] if words[0] == "run" else []
            assert "bad" not in said(["-m", "groundtrace.cli", *words, *kept], mlflow_server, tmp_path)
    api = Api(mlflow_server.url)
    infos = [info for page in api.infos(api.experiment(name).id, 0, 10**14) for info in page]
    rows = [row for info in infos for row in assessments(info)]
    told = {
        name: sorted(row["feedback"]["value"] for row in rows if row["assessment_name"] == name)
        for name in ("source_support", "claim_support")
    }
    assert told == {"source_support": [1, 5, 5], "claim_support": [3, 5, 5]}


def test_the_plan_of_the_watch_is_one() -> None:
    """Every key is one, every value fits."""
    plan = Plan.from_toml(HERE / "watch.toml")
    assert (plan.sources, plan.sample) == (("mlflow:tent-desk",), Sampling(share=1.0))
