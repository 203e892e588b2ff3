"""The corpus of captured traces, read by the command line and held against its gold by the corpus's own scorer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from groundtrace.adapters.otel import OtelSource
from groundtrace.model import Record, Window
from groundtrace.read import read
from spans import CONVENTIONS

TRACES = Path(__file__).parent / "fixtures" / "traces"
FORMATS = sorted(path for path in (TRACES / "formats").iterdir() if path.is_file())
RIGHT, CITED = 0.99, 0.99


def test_the_corpus_is_read_as_its_scorer_asks() -> None:
    """Of the whole traces 99 in 100 are right, of their citations too; every other trace says what it lacks."""
    command = [sys.executable, "score.py", ".", "--verbose", "--command", f"{sys.executable} -m groundtrace.cli show"]
    told = subprocess.run(command, cwd=TRACES, capture_output=True, text=True, check=True).stdout
    right, whole, explained, others = map(
        int, re.findall(r"^right (\d+)/(\d+) = .*; explained (\d+)/(\d+) = ", told, re.MULTILINE)[0]
    )
    cited, citing = map(int, re.findall(r"^citations (\d+)/(\d+)$", told, re.MULTILINE)[0])
    assert (whole, others, citing) == (166, 57, 122), told
    assert right / whole >= RIGHT, told
    assert explained == others, told
    assert cited / citing >= CITED, told


def records(path: Path) -> list[Record]:
    """What a file is read as."""
    source = OtelSource(str(path))
    traces = source.traces(Window(), lambda _ref, _signals: True)
    found = [record for trace in traces for record in read(trace, CONVENTIONS)]
    assert not source.notes()
    return found


@pytest.mark.parametrize("path", FORMATS, ids=lambda path: path.name)
def test_one_trace_in_every_format_is_one_record(path: Path) -> None:
    """Whoever stored it: the same query, passages, answer and citations."""
    (wanted,) = records(TRACES / "formats" / "otlp-collector.jsonl")
    (found,) = records(path)
    assert (found.query, found.answer, found.citations) == (wanted.query, wanted.answer, wanted.citations)
    assert [(p.id, p.text, p.rank, p.retrieval_rank) for p in found.context] == [
        (p.id, p.text, p.rank, p.retrieval_rank) for p in wanted.context
    ]
    assert (found.gaps, found.kind, found.ref.trace_id) == ((), "answer", wanted.ref.trace_id)
    assert {name: ref.span_id for name, ref in found.targets.items()} == {
        name: ref.span_id for name, ref in wanted.targets.items()
    }


def test_rows_of_our_own_captures_are_complete() -> None:
    """Every captured trace of ours has its gold, and no gold is without a file."""
    for file in sorted(TRACES.glob("*.gold.json")):
        rows = json.loads(file.read_text(encoding="utf-8"))
        name = f"{file.name.removesuffix('.gold.json')}.jsonl"
        assert {row["file"] for row in rows} == {name}
        told = {t.ref.trace_id for t in OtelSource(str(TRACES / name)).traces(Window(), lambda _ref, _signals: True)}
        assert {row["trace_id"] for row in rows} <= told
