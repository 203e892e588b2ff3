"""The user's own mapping: what a path is, what spans say by it, and that a bad one never starts a run."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.paths import Paths, declare, settle
from groundtrace.conventions.paths.grammar import Nothing, follow, parse
from groundtrace.errors import PlanError
from groundtrace.model import Reading, Record, Ref, Span, Trace, dump, load
from groundtrace.plan import Plan
from groundtrace.read import read
from groundtrace.testing import ConventionContract
from spans import CONVENTIONS

FIXTURES = Path(__file__).parent.parent / "fixtures" / "paths"
GRAMMAR = json.loads((FIXTURES / "grammar.json").read_text(encoding="utf-8"))
RECORDS = json.loads((FIXTURES / "records.json").read_text(encoding="utf-8"))
BAD = tomllib.loads((FIXTURES / "bad.toml").read_text(encoding="utf-8"))["case"]
WHOLE = {
    "name": "mine",
    "spans": {"name": "generate"},
    "query": "app.in.question",
    "answer": "app.answer",
    "context": "app.docs[*]",
    "text": "body",
    "id": "key",
    "session": "app.session",
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["question", "body", "key", "0"]), inner, max_size=3)
        | inner.map(json.dumps)
    ),
    max_leaves=8,
)


def span(given: Mapping[str, Any]) -> Span:
    """A span as a fixture writes it."""
    return Span(
        given["id"],
        "t",
        given.get("name", given["id"]),
        given.get("parent"),
        kind=given.get("kind", "internal"),
        start=given.get("start", int(given["id"][1:])),
        attributes=given["attributes"],
        scope=given.get("scope", ""),
        dropped=given.get("dropped", 0),
    )


class TestPaths(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> Paths:
        """The convention."""
        searched = {"name": "mine", "role": "tool", "query": "search.text", "context": "search.hits"}
        summed = {"name": "mine", "source": "sum.of", "summary": "sum.text", "key_facts": "sum.facts"}
        return declare([WHOLE, searched, summed])[0]

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        held = {"app.in": '{"question": "Who?"}', "app.answer": "Ada.", "app.docs": [{"body": "Ada.", "key": 1}]}
        summed = {"sum.of": "Ada wrote.", "sum.text": "Ada.", "sum.facts": ["Ada"]}
        return [
            Span("s", "t", "generate", attributes={**held, "app.session": "7"}),
            Span("s", "t", "search", attributes={"search.text": "who", "search.hits": ["Ada."]}),
            Span("s", "t", "sum", attributes=summed),
        ]


@pytest.mark.parametrize("case", GRAMMAR, ids=[case["case"] for case in GRAMMAR])
def test_a_path_leads_to_its_values_or_says_what_stands_there(case: dict[str, Any]) -> None:
    """Attribute names with dots, JSON in them, lists, flattened lists."""
    found = follow(parse(case["path"], "query"), case["attributes"])

    if "says" in case:
        assert str(found) == case["says"]
    else:
        assert not isinstance(found, Nothing)
        assert list(found) == case["expect"]


@pytest.mark.parametrize("case", BAD, ids=[case["says"][:60] for case in BAD])
def test_a_bad_mapping_says_what_to_change(case: dict[str, Any]) -> None:
    """The key, the value, the position in a path, the example and its first difference; as a plan, too."""
    for make in (lambda: settle([{"name": "mine", **case["table"]}]), lambda: plan({"mine": case["table"]})):
        with pytest.raises(PlanError) as error:
            make()
        assert case["says"] in str(error.value)


def plan(conventions: Any) -> Plan:
    """A plan with these conventions."""
    return Plan(sources="otel:x", conventions=conventions)


def seen(record: Record) -> dict[str, Any]:
    """A record as the fixtures write it."""
    texts = {passage.id: passage.text for passage in record.context}
    return {
        "kind": record.kind,
        "query": record.query,
        "context": [passage.text for passage in record.context],
        "answer": record.answer,
        "ids": [passage.id for passage in record.context],
        "scores": [passage.score for passage in record.context],
        "titles": [passage.metadata.get("title") for passage in record.context],
        "times": [passage.timestamp for passage in record.context],
        "ranks": [passage.retrieval_rank for passage in record.context],
        "cited": [texts.get(citation.passage_id or "") for citation in record.citations],
        "keys": dict(record.ref.keys),
        "model": record.slices.get("generator_model"),
        "targets": {name: ref.span_id for name, ref in record.targets.items()},
        "key_facts": list(record.key_facts),
    }


@pytest.mark.parametrize("case", RECORDS, ids=[case["case"] for case in RECORDS])
def test_spans_become_the_records_a_mapping_tells_of(case: dict[str, Any]) -> None:
    """Beside the installed conventions, and before them."""
    mapped = plan(case["conventions"]).vocabularies()
    mapped = tuple(convention for convention in mapped if isinstance(convention, Paths))
    records = read(Trace(Ref("otel", trace_id="t"), tuple(map(span, case["spans"]))), (*mapped, *CONVENTIONS))

    assert len(records) == len(case["expect"])
    for record, expected in zip(records, case["expect"], strict=True):
        asked = {name: value for name, value in expected.items() if name != "gaps"}
        assert {name: value for name, value in seen(record).items() if name in asked} == asked
        if "gaps" in expected:
            assert [(g.field, g.reason) for g in record.gaps] == [(f, r) for f, r, _ in expected["gaps"]]
            for gap, (_, _, says) in zip(record.gaps, expected["gaps"], strict=True):
                assert any(part in gap.remedy for part in says.split("|")), gap.remedy


@given(st.dictionaries(st.sampled_from(["app.in", "app.answer", "app.docs", "app.docs.0.body", "app"]), VALUES))
def test_whatever_the_attributes_hold_is_read_or_is_a_gap(attributes: dict[str, Any]) -> None:
    """Nothing raises, and a field that is not there is never an empty context that is judged."""
    (convention,) = declare([WHOLE])
    held = Span("s", "t", "generate", attributes=attributes)
    (record,) = read(Trace(Ref("otel", trace_id="t"), (held,)), (convention,))

    assert load(Record, dump(record)) == record
    assert all(gap.remedy for gap in record.gaps)
    for field in ("query", "answer"):
        assert (getattr(record, field) is None) == (record.gap(field) is not None)
    if not record.context and record.gap("context") is None:
        assert follow(parse("app.docs[*]", ""), attributes) == ()


@given(st.text(max_size=40))
def test_any_text_is_a_path_or_a_plan_error(text: str) -> None:
    """And what was read as one is written as it was."""
    try:
        path = parse(text, "query")
    except PlanError as error:
        said = str(error)
    else:
        said = repr(path.text)
    assert repr(text) in said


@pytest.mark.parametrize(
    "hostile", ["[" * 1_000_000, '"' * 999_999, "[*]" * 300_000, '{"a":' * 200_000, "\\" * 1_000_000]
)
def test_hostile_values_take_no_longer_than_reading_them(hostile: str) -> None:
    """A megabyte of brackets, of quotation marks, of steps."""
    (convention,) = declare([{**WHOLE, "spans": {"name": "*a*b*c*"}}, {**WHOLE, "spans": {"name": "*"}}])
    begin = time.perf_counter()
    with pytest.raises(PlanError):
        parse(f"{hostile}[", "query")
    convention.reading(Span("s", "t", hostile, attributes={"app.in": hostile, "app.docs": [hostile], "app": hostile}))
    assert time.perf_counter() - begin < 3


# --- in a plan ------------------------------------------------------------------------------------------------------

TABLES = """
[conventions]
use = ["genai"]

[conventions.mine]
query = "app.question"
answer = "app.answer"
context = "app.docs[*]"
text = "body"

[[conventions.mine.examples]]
attributes = { "app.question" = "Who?", "app.answer" = "Ada.", "app.docs" = '[{"body": "Ada."}]' }
expect = { query = "Who?", answer = "Ada.", context = ["Ada."] }

[[conventions.theirs]]
spans = { name = "search" }
role = "retrieval"
context = "hits"

[[conventions.theirs]]
spans = { name = ["generate", "write*"], attributes = { stage = "final" } }
role = "generation"
answer = "text"
"""


def test_mappings_stand_in_a_plan_and_read_back_equal() -> None:
    """From TOML, to TOML, JSON and parts of the plan."""
    made = Plan(sources="otel:x", **tomllib.loads(TABLES))

    assert [spec if isinstance(spec, str) else spec["name"] for spec in made.conventions] == [
        "genai",
        "mine",
        "theirs",
        "theirs",
    ]
    assert [convention.name for convention in made.vocabularies()] == ["mine", "theirs", "genai"]
    assert load(Plan, dump(made)) == made
    assert Plan(**tomllib.loads(made.to_toml())) == made
    assert all(part.conventions == made.conventions for part in made.split(3))


def test_mappings_stand_beside_the_installed_conventions_unless_some_are_named() -> None:
    """A mapping alone leaves none of them out."""
    alone, listed = plan({"mine": {"query": "q"}}), plan(["record", {"name": "mine", "query": "q"}])

    assert [c.name for c in alone.vocabularies()] == ["mine", *(c.name for c in plan(()).vocabularies())]
    assert [c.name for c in listed.vocabularies()] == ["mine", "record"]


@pytest.mark.parametrize(
    ("conventions", "says"),
    [
        ({"query": "app.q"}, "conventions.query: 'app.q' is no mapping; write a table: [conventions.NAME]"),
        ({"genai": {"query": "q"}}, "conventions: 'genai' is the name of an installed convention"),
        ({"mine": {"name": "generate", "query": "q"}}, "conventions.mine.name: 'generate' is no key under a heading"),
        ({"mine": ["q"]}, "conventions.mine: 'q' is no mapping"),
        ([{"query": "q"}], "convention: {'query': 'q'} does not say what to use"),
        (["genai", "genai"], "conventions: 'genai' is named twice"),
        ([{"name": "mine", "query": "http://me:hunter2@host"}], "holds a password"),
    ],
)
def test_what_is_no_mapping_is_refused(conventions: Any, says: str) -> None:
    """Before anything starts."""
    with pytest.raises(PlanError) as error:
        plan(conventions)
    assert says in str(error.value)


def test_examples_may_stand_in_a_file_and_travel_with_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has no such file still has them."""
    monkeypatch.chdir(tmp_path)
    example = {"attributes": {"q": "Who?", "docs": {"a": [None, 1]}}, "expect": {"query": "Who?"}}
    (tmp_path / "examples.jsonl").write_text(json.dumps(example) + "\n\n", encoding="utf-8")
    made = plan({"mine": {"query": "q", "examples": "examples.jsonl"}})
    (tmp_path / "examples.jsonl").unlink()

    assert load(Plan, dump(made)) == made
    assert Plan(**tomllib.loads(made.to_toml())) == made
    assert isinstance(made.conventions[0], dict)
    assert made.conventions[0]["examples"][0]["expect"] == {"query": "Who?"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no example"),
        ("{\n", "conventions.mine.examples, examples.jsonl line 1: '{' is no JSON"),
        (
            '\n{"attributes": {}}\n',
            "examples.jsonl line 2: '{\"attributes\": {}}' is no example: expect: Field required",
        ),
        ('{"attributes": {"q": "Who?"}, "expect": {"query": "What?"}}', "conventions.mine.examples[1].query: 'Who?'"),
        (" " * 1_000_001, "holds more than 1,000,000 characters"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_a_bad_file_of_examples_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, says: str
) -> None:
    """With the line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(PlanError) as error:
        plan({"mine": {"query": "q", "examples": "examples.jsonl"}})
    assert says in str(error.value)


def test_an_example_may_expect_anything_a_mapping_reads() -> None:
    """Also of a retrieval, a tool and a summary."""
    example = {
        "name": "generate",
        "attributes": {"q": "Who?", "a": "Ada.", "d": [{"t": "Ada.", "k": 1, "s": 0.5, "h": "People"}], "u": 7},
        "expect": {
            "answer": "Ada.",
            "user": "7",
            "context": [{"text": "Ada.", "id": "1", "score": 0.5, "title": "People"}],
        },
    }
    whole = {"spans": {"name": "gen*", "attributes": {"stage": "final"}}, "query": "q", "answer": "a", "context": "d"}
    within = {"text": "t", "id": "k", "score": "s", "title": "h", "user": "u"}
    found = {"context": "d", "examples": [{"attributes": {"d": ["Ada."]}, "expect": {"context": ["Ada."]}}]}
    nothing = {"context": "d", "examples": [{"attributes": {"d": []}, "expect": {"context": []}}]}
    summed = {
        "attributes": {"d": "Ada wrote.", "a": "Ada.", "f": ["Ada"]},
        "expect": {"source": "Ada wrote.", "summary": "Ada.", "key_facts": ["Ada"]},
    }
    summary = {"source": "d", "summary": "a", "key_facts": "f", "examples": [summed]}

    assert settle([{"name": "mine", **whole, **within, "examples": [example]}])
    assert settle(
        [{"name": "mine", "role": role, **table} for role in ("retrieval", "tool") for table in (found, nothing)]
    )
    assert settle([{"name": "mine", **summary}])


def test_an_example_is_read_as_the_whole_mapping_reads_it() -> None:
    """An earlier mapping of the name that takes the span is told."""
    first = {"name": "mine", "query": "a.q"}
    second = {
        "name": "mine",
        "query": "b.q",
        "examples": [{"attributes": {"a.q": "1", "b.q": "2"}, "expect": {"query": "2"}}],
    }

    with pytest.raises(PlanError, match=r"conventions.mine.examples\[1\].query: '1' is read where '2' is expected"):
        settle([first, second])
    assert settle([second, first])


def test_a_reading_says_where_it_stood() -> None:
    """`show` prints the path."""
    (convention,) = declare([WHOLE])
    reading = convention.reading(Span("s", "t", "generate", attributes={"app.in": '{"question": "Who?"}'}))

    assert isinstance(reading, Reading)
    assert reading.query is not None
    assert reading.query.attribute == "app.in.question"
