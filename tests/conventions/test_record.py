"""Records in a file: whatever types stand in the object, it is a record with gaps for what it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.record import ATTRIBUTE, RecordConvention
from groundtrace.model import Record, Span, dump, load
from groundtrace.testing import ConventionContract

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "query",
        "context",
        "answer",
        "id",
        "citations",
        "history",
        "key_facts",
        "tags",
        "slices",
        "kind",
        "metadata",
        "risk",
        "source",
        "summary",
    ]
)


def made(**given_fields: Any) -> Record:
    """The record of an object with these fields."""
    found = RecordConvention().reading(Span("s", "t", attributes={ATTRIBUTE: given_fields}))
    assert found is not None
    assert found.record is not None
    return found.record


class TestRecordConvention(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> RecordConvention:
        """The convention."""
        return RecordConvention()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        return [
            Span("s", "t", attributes={ATTRIBUTE: {"query": "How far?", "context": ["The Moon."], "answer": "Far."}})
        ]

    def test_it_survives_hostile_values(self) -> None:
        """An attribute that holds no object is no record; what stands inside one is the property test's."""
        for odd in (None, "text", 7, [], [{}]):
            assert self.make().reading(Span("s", "t", attributes={ATTRIBUTE: odd})) is None


def test_a_whole_record_has_no_gaps() -> None:
    """Texts and objects may stand side by side in the context."""
    record = made(
        id="r1",
        query="How far?",
        context=["The Moon.", {"id": "mars", "text": "Mars.", "score": 0.5, "metadata": {"title": "Mars"}}],
        answer="Far [2].",
        history=[{"role": "user", "content": "Hi"}],
        key_facts=["far"],
        tags=["space"],
        slices={"prompt_version": "3"},
        metadata={"team": "a"},
        risk="high",
        kind="summary",
    )

    assert record.gaps == ()
    assert (record.id, record.kind, record.risk) == ("r1", "summary", "high")
    assert [(p.id, p.rank, p.score) for p in record.context][1] == ("mars", 2, 0.5)
    assert [c.passage_id for c in record.citations] == ["mars"]
    assert (record.tags, record.key_facts) == (("space",), ("far",))
    assert record.slices == {"prompt_version": "3", "team": "a"}
    assert [(t.role, t.text) for t in record.history] == [("user", "Hi")]


@pytest.mark.parametrize("field", ["query", "context", "answer"])
def test_what_is_not_given_is_a_gap(field: str) -> None:
    """The record is there, and says what it lacks."""
    whole = {"query": "How far?", "context": [], "answer": "Far."}
    record = made(**{name: value for name, value in whole.items() if name != field})

    assert [(g.field, g.reason) for g in record.gaps] == [(field, "not_given")]


def test_an_empty_context_says_that_nothing_was_retrieved() -> None:
    """[] is a finding, null is a gap."""
    assert made(query="q", context=[], answer="a").gap("context") is None
    assert made(query="q", context=None, answer="a").gap("context") is not None


@pytest.mark.parametrize(
    ("context", "texts"),
    [
        ("The Moon.", ["The Moon."]),
        ({"text": "The Moon."}, ["The Moon."]),
        ({"documents": [{"id": "a", "page_content": "The Moon."}]}, ["The Moon."]),
        ([{"page_content": "The Moon."}, {"content": "Mars."}], ["The Moon.", "Mars."]),
    ],
)
def test_a_context_is_read_in_every_form_people_write_it(context: Any, texts: list[str]) -> None:
    """A text, an object, a list of either."""
    assert [p.text for p in made(query="q", context=context, answer="a").context] == texts


@pytest.mark.parametrize(
    ("fields", "field", "remedy"),
    [
        ({"query": ["a"]}, "query", "query is a list (of 1): give a text"),
        ({"query": 5}, "query", "query is a number: give a text"),
        ({"answer": {"x": 1}}, "answer", "answer is an object (of 'x'): give a text"),
        ({"answer": True}, "answer", "answer is true or false: give a text"),
        ({"context": 42}, "context", "context is a number: give a list of passages"),
        ({"context": {"a": 7}}, "context", None),
        ({"context": ["One.", None]}, "context", "context[1] is null: give a text, or an object with a text"),
        ({"context": ["One.", 7]}, "context", "context[1] is a number: give a text, or an object with a text"),
        ({"context": [{"text": ["a"]}]}, "context", "context[0].text is a list (of 1): give a text"),
    ],
)
def test_a_field_of_a_wrong_type_is_a_gap_that_says_what_was_given(
    fields: dict[str, Any], field: str, remedy: str | None
) -> None:
    """It is never made into a text that is then judged; a text of the user's does not stand in the remedy."""
    record = made(**{"query": "q", "context": ["One."], "answer": "a", **fields})
    reason = "malformed" if remedy else "not_given"

    assert [(g.field, g.reason) for g in record.gaps] == [(field, reason)]
    assert not getattr(record, field)
    assert remedy is None or record.gaps[0].remedy == remedy


def test_a_summary_of_a_wrong_type_is_called_by_its_own_word() -> None:
    """As everything it lacks is."""
    assert [g.remedy for g in made(summary=5, source=6).gaps] == [
        "source is a number: give a list of passages",
        "summary is a number: give a text",
    ]


@pytest.mark.parametrize(
    ("key", "word"),
    [("contex", "context"), ("contexts", "context"), ("Query", "query"), ("question", "query"), ("response", "answer")],
)
def test_a_key_that_may_be_meant_is_named(key: str, word: str) -> None:
    """A typo, or another house's word for it."""
    whole = {"query": "q", "context": [], "answer": "a"}
    record = made(**{k: v for k, v in whole.items() if k != word}, **{key: "x"})

    (gap,) = record.gaps
    assert (gap.field, gap.reason) == (word, "not_given")
    assert gap.remedy.endswith(f": it holds {key!r}, did you mean {word!r}?")
    odd = RecordConvention().reading(Span("s", "t", attributes={ATTRIBUTE: {7: "x", "answer": {8: "a"}}}))
    assert odd is not None
    assert odd.record is not None
    assert odd.record.gaps[-1].remedy == "answer is an object (of 8): give a text"
    assert "did you mean" not in made(query="q", answer="a", team="x", **{"con\ntext": []}).gaps[0].remedy


def test_citations_that_are_given_count_and_the_markers_do_not() -> None:
    """A file may know better than the answer's text."""
    cited = [{"claim": "Far", "passage_id": "mars"}]
    record = made(context=[{"id": "mars", "text": "Mars."}], answer="Far [1].", citations=cited)

    assert [(c.origin, c.passage_id) for c in record.citations] == [("structured", "mars")]
    assert made(context=["Mars."], answer="Far [1].", citations=[]).citations == ()


@given(st.dictionaries(FIELDS, VALUES, max_size=8))
def test_any_object_is_a_record_that_survives_json(fields: dict[str, Any]) -> None:
    """Numbers for texts, texts for lists, NaN, lone surrogates."""
    record = made(**fields)

    assert load(Record, dump(record)) == record
    assert len({p.id for p in record.context}) == len(record.context)


@pytest.mark.parametrize(
    ("fields", "kind", "context", "answer"),
    [
        ({"source": "Long.", "summary": "Short."}, "summary", ["Long."], "Short."),
        ({"source": ["One.", {"text": "Two."}], "summary": "Short."}, "summary", ["One.", "Two."], "Short."),
        ({"context": ["Long."], "summary": "Short."}, "summary", ["Long."], "Short."),
        ({"kind": "summary", "context": ["Long."], "answer": "Short."}, "summary", ["Long."], "Short."),
        ({"kind": "summary", "source": "Long.", "answer": "Short."}, "summary", ["Long."], "Short."),
        ({"kind": "answer", "context": ["Long."], "answer": "Far.", "summary": "x"}, "answer", ["Long."], "Far."),
        ({"context": ["Long."], "answer": "Far.", "summary": "x", "source": "y"}, "answer", ["Long."], "Far."),
    ],
)
def test_a_summary_is_told_by_its_kind_or_by_its_fields(
    fields: dict[str, Any], kind: str, context: list[str], answer: str
) -> None:
    """`source` and `summary`, or the words of every record; an answer that also has a summary stays one."""
    record = made(**fields)

    assert (record.kind, [p.text for p in record.context], record.answer) == (kind, context, answer)


def test_what_a_summary_lacks_is_called_by_its_own_word() -> None:
    """It needs no query."""
    assert made(source="Long.", summary="Short.").gaps == ()
    assert [(g.field, g.remedy) for g in made(summary="Short.").gaps] == [("context", "give the record its source")]
    assert [g.remedy for g in made(kind="summary", source="Long.").gaps] == ["give the record its summary"]


@pytest.mark.parametrize(
    ("given_risk", "risk"),
    [("High", "high"), (" HIGH ", "high"), ("Normal", "normal"), (None, "normal"), ("", "normal")]
    + [(odd, "high") for odd in ("hihg", "low", 1, True, ["high"])],
)
def test_a_risk_is_read_in_any_case_and_an_unknown_one_is_high(given_risk: Any, risk: str) -> None:
    """Who meant to say something is not taken for nobody."""
    assert made(query="q", context=[], answer="a", risk=given_risk).risk == risk
