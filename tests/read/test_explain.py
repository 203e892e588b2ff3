"""Why a trace was read as it was: told by the functions that read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groundtrace.adapters.otel import OtelSource
from groundtrace.model import Ref, Span, Trace, Window
from groundtrace.read import heard, read
from groundtrace.read.explain import Explained, Place, explain
from spans import CONVENTIONS, MARS, MOON, call, listed, span

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
FILES = sorted({gold["file"] for gold in json.loads((TRACES / "gold.json").read_text(encoding="utf-8"))})


def told(*spans: Span) -> Explained:
    """How a trace of these spans is read."""
    return explained(Trace(Ref("otel", trace_id="t"), spans))


def explained(trace: Trace) -> Explained:
    """How a trace is read."""
    return explain(trace, heard(trace, CONVENTIONS), read(trace, CONVENTIONS))


def verdicts(found: Explained, part: str) -> list[tuple[str, str]]:
    """Span and verdict of each place of a field."""
    return [(place.span_id, place.verdict) for place in found.records[0].places if place.part == part]


def test_each_field_says_where_it_was_looked_for_and_what_won() -> None:
    """In the order of the precedence; who lost says why."""
    found = told(
        span("s0", "CHAIN", Q="How far is the Moon?", A="Far."),
        span("s1", "RETRIEVER", "s0", Q="moon distance", held=listed(MARS, MOON)),
        call("s2", "s0"),
    )
    assert verdicts(found, "query") == [
        ("s0", "taken"),
        ("s1", "an earlier place holds the query"),
        ("s2", "an earlier place holds the query"),
    ]
    assert [verdict for _, verdict in verdicts(found, "context")] == [
        "taken",
        "they stand in the context as another place shows them; ids, scores and the place for feedback are these",
    ]
    assert verdicts(found, "answer") == [("s0", "the call's own words are the same"), ("s2", "taken")]
    assert [(line.depth, line.role) for line in found.lines] == [(0, "request"), (1, "retrieval"), (1, "generation")]
    assert [held.what for held in found.lines[1].held] == ["query", "documents"]


def test_what_can_t_be_read_says_so_where_it_stands() -> None:
    """A masked question, a span of no known vocabulary, an evaluator."""
    masked = told(span("s0", "CHAIN", Q="__REDACTED__", A="Far."), call("s2", "s0"))
    assert ("s0", "masked: unset OPENINFERENCE_HIDE_INPUTS") in verdicts(masked, "query")
    others = told(
        span("s0", "CHAIN", Q="How far?", A="Far."),
        call("s1", "s0"),
        Span("s2", "t", "GET", parent_id="s0", attributes={"http.method": "GET"}),
        span("s3", "EVALUATOR", "s0", A="0.9"),
    )
    remarks = {line.span_id: line.remark for line in others.lines}
    assert remarks["s2"].startswith("says nothing in what is understood here")
    assert remarks["s3"].startswith("stands aside")
    assert remarks["s0"] == ""


def test_a_field_with_a_gap_says_so_at_every_place_that_can_be_read() -> None:
    """Nothing is said to be the same as what was not taken."""
    found = told(
        span("s0", "CHAIN", Q="How far is the Moon?", A="Far away."),
        call("s2", "s0", told="__REDACTED__"),
    )
    assert verdicts(found, "answer")[0] == ("s0", "not used: the field is masked")
    assert verdicts(found, "answer")[1][1].startswith("masked: ")


def test_what_a_reranker_left_out_and_what_was_not_recorded_is_told() -> None:
    """The retriever's list was cut; another retriever told nothing."""
    found = told(
        span("s0", "CHAIN", Q="How far is the Moon?", A="Far."),
        span("s1", "RETRIEVER", "s0", Q="q", held=listed(MARS, MOON)),
        span(
            "s2",
            "RERANKER",
            "s0",
            held={"reranker.query": "q", "reranker.output_documents.0.document.content": MOON},
        ),
        call("s3", "s0", prompt="How far is the Moon?"),
    )
    assert dict(verdicts(found, "context"))["s1"].startswith("1 of 2 are in the context")
    lacking = told(span("s0", "CHAIN", Q="How far?", A="Far."), span("s1", "RETRIEVER", "s0", Q="q"), call("s3", "s0"))
    assert dict(verdicts(lacking, "context"))["s1"].startswith(
        "its documents are not recorded; record what was retrieved"
    )


@pytest.mark.parametrize("name", FILES)
def test_what_is_taken_is_what_the_record_holds(name: str) -> None:
    """Over the corpus: a field that is whole has a place that is taken, one that is not has none."""
    for trace in OtelSource(str(TRACES / name)).traces(Window(), lambda _ref, _signals: True):
        found = explained(trace)
        for one in found.records:
            if one.record.kind != "answer":
                continue
            for part, value in (("query", one.record.query), ("answer", one.record.answer)):
                assert _is_taken(one.places, part) == (value is not None), (trace.ref.trace_id, part, one.places)
            assert _is_taken(one.places, "context") or not one.record.context, (trace.ref.trace_id, one.places)


def _is_taken(places: tuple[Place, ...], part: str) -> bool:
    return any(place.part == part and place.verdict == "taken" for place in places)
