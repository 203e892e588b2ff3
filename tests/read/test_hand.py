"""Records made by hand, in a program or in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groundtrace.adapters.jsonl import JsonlSource
from groundtrace.conventions.record import ATTRIBUTE, RecordConvention
from groundtrace.model import Citation, Passage, Span, Window
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


def test_a_summary_made_by_hand_needs_no_query() -> None:
    """The source is its context, the summary its answer."""
    made = record(context=[MOON], answer="Far.", kind="summary", key_facts=["384,400 km"])

    assert (made.kind, made.key_facts, made.gaps) == ("summary", ("384,400 km",), ())
    assert [g.remedy for g in record(None, None, None, kind="summary").gaps] == [
        "give the record its source",
        "give the record its summary",
    ]


@pytest.mark.parametrize(
    ("query", "context", "answer", "field"),
    [
        ("__REDACTED__", [MOON], "Far.", "query"),
        ("How far?", [MOON, "[REDACTED]"], "Far.", "context"),
        ("How far?", [{"id": "moon", "text": f"{MOON} <REDACTED>"}], "Far.", "context"),
        ("How far?", [Passage(id="moon", text="[MASKED]", rank=1)], "Far.", "context"),
        ("How far?", [MOON], "***", "answer"),
        ("How far?", [MOON], "It is [REDACTED] km.", "answer"),
    ],
)
def test_what_is_masked_is_a_gap_also_by_hand(
    query: str, context: list[str | dict[str, str] | Passage], answer: str, field: str
) -> None:
    """And nothing of it stays in the record; the id still tells two such records apart."""
    made = record(query, context, answer)
    raw = {"query": query, "context": [_plain(c) for c in context], "answer": answer}
    filed = RecordConvention().reading(Span("s", "t", attributes={ATTRIBUTE: raw}))

    assert filed is not None
    for given in (made, filed.record):
        assert given is not None
        assert [(g.field, g.reason) for g in given.gaps] == [(field, "masked")]
        assert not getattr(given, field)
    assert made.id != record(f"{query} {MARS}", context, answer).id
    assert record(kind="summary", context=[MOON], answer="__REDACTED__").gap("answer") is not None


def _plain(passage: str | dict[str, str] | Passage) -> str | dict[str, str]:
    return passage.text if isinstance(passage, Passage) else passage


@pytest.mark.parametrize("bare", [{"id": "doc-1"}, {"id": "doc-1", "text": None}])
def test_a_passage_without_a_text_makes_the_context_a_gap(bare: dict[str, str | None]) -> None:
    """An id tells nothing to judge by; a text that is there and empty was seen to be empty."""
    filed = RecordConvention().reading(
        Span("s", "t", attributes={ATTRIBUTE: {"query": "q", "answer": "a", "context": {"documents": [bare]}}})
    )
    assert filed is not None
    for made in (record("How far?", [MOON, bare], "Far."), filed.record):
        assert made is not None
        gap = made.gap("context")
        assert made.context == ()
        assert gap is not None
        assert gap.reason == "not_given"
        assert "text" in gap.remedy
    empty = record("How far?", [MOON, {"id": "doc-1", "text": ""}], "Far.")
    assert (empty.gaps, [p.text for p in empty.context]) == ((), [MOON, ""])


def test_a_citation_given_to_no_passage_points_nowhere() -> None:
    """It is unresolved, like a marker out of range."""
    lost = Citation(start=4, end=7, claim_start=0, claim_end=3, passage_id="x")
    made = record("How far?", [{"id": "moon", "text": MOON}], "Far [1].", citations=[lost])

    assert [c.passage_id for c in made.citations] == [None]
    kept = record(context=[{"id": "x", "text": MOON}], answer="Far [1].", citations=[lost])
    assert kept.citations == (lost,)


@pytest.mark.parametrize("places", [(4, 99, 0, 3), (4, 7, 0, 99), (-1, 3, 0, 3), (7, 4, 0, 3)])
def test_a_citation_given_outside_of_the_answer_is_refused(places: tuple[int, int, int, int]) -> None:
    """The program that made it has to know."""
    start, end, claim_start, claim_end = places
    cited = Citation(start=start, end=end, claim_start=claim_start, claim_end=claim_end)

    with pytest.raises(ValueError, match="code points of the answer, 0 to 8"):
        record("How far?", [MOON], "Far [1].", citations=[cited])


@pytest.mark.parametrize("place", [{"start": 4, "end": 7}, {"start": 3, "end": 7}, {"claim": "[1]"}])
def test_a_citation_given_at_a_marks_place_is_kept(place: dict[str, Any]) -> None:
    """It says what the mark points to; marks nothing was given for do not count."""
    context = [{"id": "moon", "text": MOON}, {"id": "mars", "text": MARS}]
    made = record("How far?", context, "Far [1]. Red [2].", citations=[{**place, "passage_id": "mars"}])

    assert [(c.marker, c.passage_id) for c in made.citations] == [("[1]", "mars")]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"answer": 5}, "answer is a number: give a text"),
        ({"query": b"far"}, "query is a bytes (b'far'): give a text"),
        ({"context": 5}, "context is a number: give a list of passages"),
        ({"context": [5]}, "context[0] is a number: give a text, or an object with a text"),
        ({"context": "text"}, "context is a text ('text'): give a list of passages, [...] around a single one"),
        ({"context": {"text": MOON}}, "context is an object (of 'text'): give a list of passages"),
        ({"context": (t for t in (MOON,))}, "context is a generator: give a list of passages"),
        ({"context": [{"text": 5}]}, "context[0].text is a number: give a text"),
        ({"id": 5}, "id is a number: give a text"),
        ({"tags": "space"}, "tags is a text ('space'): give a list, [...] around a single one"),
        ({"key_facts": [5]}, "key_facts[0] is a number: give a text"),
        ({"history": ["Hi"]}, "history[0] is a text ('Hi'): give (role, text)"),
        ({"slices": {"a": 1}}, "slices is a number: give texts by name"),
        ({"citations": [5]}, "citations[0] is a number: give a Citation, or"),
        ({"answer": 5, "context": 6}, "context is a number: give a list of passages; answer is a number"),
    ],
)
def test_a_wrong_type_is_refused_in_words(given: dict[str, Any], says: str) -> None:
    """What was given, and what is wanted."""
    with pytest.raises(TypeError) as error:
        record(**given)
    assert str(error.value).startswith(says)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "sumary"}, "kind is 'sumary': give one of answer, summary, other"),
        ({"risk": "hihg"}, "risk is 'hihg': give one of normal, high"),
    ],
)
def test_an_unknown_word_is_refused_in_words(given: dict[str, Any], says: str) -> None:
    """With those that are known."""
    with pytest.raises(ValueError, match=says):
        record(**given)


def test_what_comes_one_by_one_is_taken_whole() -> None:
    """An iterator is looked at before it is taken, and still all there."""
    made = record("q", [], "a", history=iter([("user", "Hi")]), tags=iter(["a", "b"]), key_facts=iter(["c"]))

    assert ([t.text for t in made.history], made.tags, made.key_facts) == (["Hi"], ("a", "b"), ("c",))


def test_halves_of_characters_by_hand_are_damage_of_the_answer_or_the_passage() -> None:
    """A question may have lost one; U+FFFD that was given is as it was written."""
    assert record("q \ud800", [MOON], "Far.").gaps == record("q", [f"{MOON} \ufffd"], "Far \ufffd.").gaps == ()
    for made, field in (
        (record("q", [MOON, {"text": "Mars \ud800"}], "Far."), "context"),
        (record("q", [MOON], "Far \udfff."), "answer"),
    ):
        assert [(g.field, g.reason) for g in made.gaps] == [(field, "damaged")]
        assert not getattr(made, field)
