"""The script runs as it stands: real SDK, real exporter, a receiver on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("score_my_app.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder the script ran in."""
    folder = tmp_path_factory.mktemp("opentelemetry")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    (folder / "said.txt").write_text(done.stdout, encoding="utf-8")
    return folder


def rows(file: Path, *path: str) -> list[dict[str, Any]]:
    """What lies at the end of a path in every line of a file."""
    found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for key in path:
        found = [item for one in found for item in one[key]]
    return found


def test_every_event_names_a_span_the_app_made(folder: Path) -> None:
    """The scores are on the app's own spans."""
    spans = rows(folder / "tent-desk" / "traces.jsonl", "resourceSpans", "scopeSpans", "spans")
    events = rows(folder / "tent-desk" / "scores.groundtrace.logs.jsonl", "resourceLogs", "scopeLogs", "logRecords")
    assert len(spans) == 9
    assert {event["eventName"] for event in events} == {"gen_ai.evaluation.result"}
    assert {(e["traceId"], e["spanId"]) for e in events} <= {(s["traceId"], s["spanId"]) for s in spans}


def test_the_made_up_claim_and_the_wrong_citation_are_found(folder: Path) -> None:
    """The first answer is fine, the second makes something up, the third cites wrongly."""
    lines = (folder / "said.txt").read_text(encoding="utf-8").splitlines()
    told = [tuple(line.split()) for line in lines if line.startswith("  ")]
    assert told == [
        ("source_support", "5.0"),
        ("rag_faithfulness.claim_support", "5.0"),
        ("rag_faithfulness.citation_accuracy", "5.0"),
        ("source_support", "5.0"),
        ("rag_faithfulness.claim_support", "3.0"),
        ("rag_faithfulness.citation_accuracy", "5.0"),
        ("source_support", "1.0"),
        ("rag_faithfulness.claim_support", "5.0"),
        ("rag_faithfulness.citation_accuracy", "3.0"),
    ]
