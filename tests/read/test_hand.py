"""Records made by hand, in a program or in a file."""

from __future__ import annotations

import json
from pathlib import Path

from groundtrace.adapters.jsonl import JsonlSource
from groundtrace.model import Window
from groundtrace.read import read, record
from spans import CONVENTIONS, MARS, MOON


def test_a_record_made_by_hand_is_whole() -> None:
    """The same content has the same id; passages count from 1."""
    made = record("How far?", [MOON, {"id": "mars", "text": MARS, "title": "Mars"}], "Far [2].")

    assert made.gaps == ()
    assert [(p.rank, p.text) for p in made.context] == [(1, MOON), (2, MARS)]
    assert made.context[1].metadata == {"title": "Mars"}
    assert [c.passage_id for c in made.citations] == ["mars"]
    assert made.id == record("How far?", [MOON, {"id": "mars", "text": MARS}], "Far [2].").id
    assert made.ref.trace_id == made.id


def test_what_is_not_given_by_hand_is_a_gap_and_an_empty_context_is_none() -> None:
    """None is not known, [] is nothing."""
    assert {(g.field, g.reason) for g in record().gaps} == {("query", "not_given"), ("answer", "not_given")}
    assert record("q", None, "a").gap("context") is not None
    assert record("q", [], "a").gaps == ()
    assert record("q", [], "  ").gap("answer") is not None


def test_a_file_of_records_is_read_at_its_places(tmp_path: Path) -> None:
    """The record's own id, the trace and span it names; lines that are no records give none."""
    path = tmp_path / "r.jsonl"
    lines = [
        {"id": "r1", "query": "How far?", "context": [MOON], "answer": "Far [1].", "trace_id": "abc", "span_id": "def"},
        {"query": "How far?", "answer": "Far."},
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")

    whole, partial = (
        read(trace, CONVENTIONS)[0] for trace in JsonlSource(str(path)).traces(Window(), lambda _ref, _signals: True)
    )

    assert (whole.id, whole.ref.platform, whole.ref.trace_id, whole.ref.span_id) == ("r1", "jsonl", "abc", "def")
    assert whole.gaps == ()
    assert whole.targets["answer"] == whole.ref
    assert [(g.field, g.reason) for g in partial.gaps] == [("context", "not_given")]
    assert partial.ref.trace_id == partial.id
