"""What the README says is done, on a real Phoenix."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
import uuid
from pathlib import Path

from groundtrace import Plan
from groundtrace.adapters.phoenix.api import Api
from groundtrace.adapters.phoenix.said import listed
from groundtrace.sampling import Sampling
from servers import Server, clean

HERE = Path(__file__).parent


def said(words: list[str], server: Server, folder: Path) -> str:
    """What a command printed; it has to end well."""
    env = clean() | {"PHOENIX_COLLECTOR_ENDPOINT": server.url, "NO_COLOR": "1"}
    env["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")
    done = subprocess.run(
        [sys.executable, "-W", "error", *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_lines_of_the_readme_do_what_it_says(phoenix_server: Server, tmp_path: Path) -> None:
    """Traced, looked at, scored; once, however often; and its filters find what they say."""
    name, api = f"tent-desk-{uuid.uuid4().hex[:8]}", Api(phoenix_server.url)
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:python|groundtrace) .*?(?=  +#|$)", readme.replace("tent-desk", name), re.MULTILINE)
    assert len(lines) == 3
    for line in (*lines, lines[-1]):
        program, *words = shlex.split(line)
        if program == "python":
            assert "18 euros" in said([str(HERE.parents[1] / words[0]), *words[1:]], phoenix_server, tmp_path)
            until = time.monotonic() + 60
            while len(spans(api, name)) < 9:  # Phoenix shows them in its own time
                assert time.monotonic() < until
                time.sleep(0.1)
        else:
            kept = ["--store", "none"] if words[0] == "run" else []
            assert "bad" not in said(["-m", "groundtrace.cli", *words, *kept], phoenix_server, tmp_path)
    answers = [str(row["context"]["span_id"]) for row in spans(api, name) if row["span_kind"] == "LLM"]
    rows = list(listed(api, str(api.project(name)), "span", answers))
    told = {
        name: sorted(row["result"]["score"] for row in rows if row["name"] == name)
        for name in ("source_support", "claim_support")
    }
    assert told == {"source_support": [1, 5, 5], "claim_support": [3, 5, 5]}
    found = api.call(
        "GET",
        f"/projects/{api.project(name)}/traces",
        params={"filter": re.findall(r"Traces: `(.*?)`", readme)[0]},
    )
    assert len(found["data"]) == 1
    for filtered in re.findall(r"`(any\(a\..*?)`", readme, re.DOTALL):
        api.call("GET", f"/projects/{api.project(name)}/traces", params={"filter": filtered})


def spans(api: Api, name: str) -> list[dict[str, object]]:
    """The spans of a project."""
    project = api.project(name)
    if project is None:
        return []
    return [dict(row) for page in api.pages(f"/projects/{project}/spans") for row in page]


def test_the_plan_of_the_watch_is_one() -> None:
    """Every key is one, every value fits."""
    plan = Plan.from_toml(HERE / "watch.toml")
    assert (plan.sources, plan.sample) == (("phoenix:tent-desk",), Sampling(share=1.0))
