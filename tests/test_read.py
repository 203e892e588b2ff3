"""Traces become records: the captured corpus against its gold, and what holds for every trace there could be."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import mutants
from groundtrace.adapters.otel import OtelSource
from groundtrace.model import Record, Ref, Signal, Span, Window, dump, load
from groundtrace.read import read
from spans import CONVENTIONS, MARS, MOON, PROMPT, call, found, listed, span

TRACES = Path(__file__).parent / "fixtures" / "traces"
GOLD: list[dict[str, Any]] = [
    row
    for file in (TRACES / "gold.json", *sorted(TRACES.glob("*.gold.json")))
    for row in json.loads(file.read_text(encoding="utf-8"))
]


def captured(name: str) -> dict[str, tuple[Record, ...]]:
    """The records of a captured file by trace id, read as the command line reads it."""
    source = OtelSource(str(TRACES / name))
    return {t.ref.trace_id: read(t, CONVENTIONS) for t in source.traces(Window(), lambda _ref, _signals: True)}


def words(text: str | None) -> str:
    """A text apart from its white space."""
    return " ".join((text or "").split())


@pytest.mark.parametrize("name", sorted({gold["file"] for gold in GOLD}))
def test_a_captured_file_is_read_as_its_gold_says(name: str) -> None:
    """Whole traces with query, passages in prompt order, answer and citations; what can't be whole with its gaps."""
    records = captured(name)
    for gold in (g for g in GOLD if g["file"] == name):
        got = records[gold["trace_id"]]
        wholes = [r for r in got if r.query and r.context and r.answer]
        if gold["query"] and gold["contexts"] and gold["answer"]:
            (whole,) = wholes
            assert words(whole.query) == words(gold["query"])
            assert words(whole.answer) == words(gold["answer"])
            assert [words(p.text) for p in whole.context] == [words(c["content"]) for c in gold["contexts"]]
            assert not whole.gaps
            assert_cited(whole, gold)
        else:
            lacks = {f for f, v in (("query", "query"), ("context", "contexts"), ("answer", "answer")) if not gold[v]}
            assert not wholes
            assert all(lacks <= {gap.field for gap in r.gaps} for r in got)
            assert all(gap.reason and gap.remedy for r in got for gap in r.gaps)


def assert_cited(whole: Record, gold: dict[str, Any]) -> None:
    """Inline citations exactly, structured ones on their claims."""
    texts = {p.id: words(p.text) for p in whole.context}
    wanted = {c["index"]: words(c["content"]) for c in gold["contexts"]}
    inline = {(c.start, texts.get(c.passage_id or "")) for c in whole.citations if c.origin == "inline"}
    assert inline == {(c["start"], wanted.get(c["context_index"])) for c in gold["inline_citations"]}
    for cited in (c for c in gold["structured_citations"] if c["recorded_in_trace"]):
        at = words(whole.answer).find(words(cited["claim"]))
        near = [c for c in whole.citations if c.start <= at + len(cited["claim"]) + 8 and c.end >= at]
        assert wanted[cited["context_index"]] in {texts.get(c.passage_id or "") for c in near}


def test_the_corpus_gives_ids_sessions_and_targets_too() -> None:
    """Passage ids, session and user as the traces tell them; feedback goes to the generation and the root."""
    for name in ("langchain-openinference.jsonl", "langgraph-openinference.jsonl", "openai-genai.jsonl"):
        records = captured(name)
        for gold in (g for g in GOLD if g["file"] == name):
            (got,) = records[gold["trace_id"]]
            assert got.targets["answer"].span_id == gold["generation_span_id"]
            assert got.targets["root"].span_id == gold["root_span_id"]
            assert (got.ref.keys.get("session_id"), got.ref.keys.get("user_id")) == (
                gold["session_id"],
                gold["user_id"],
            )
            for passage, wanted in zip(got.context, gold["contexts"], strict=True):
                assert passage.id.removeprefix("file-") == wanted["id"]


def test_what_an_earlier_turn_retrieved_is_no_context() -> None:
    """The trap of the followup turns: the history holds tool results that the markers do not count."""
    followups = [g for g in GOLD if g.get("history_context_ids")]
    assert len(followups) >= 3
    for gold in followups:
        (got,) = captured(gold["file"])[gold["trace_id"]]
        assert len(got.context) == 3
        assert [t.role for t in got.history] == ["user", "assistant"]


def test_the_order_spans_come_in_does_not_matter() -> None:
    """Files, lines and services tell them in any order."""
    for name in ("langgraph-openinference.jsonl", "multi-service-openinference.jsonl", "openai-genai.jsonl"):
        for trace in OtelSource(str(TRACES / name)).traces(Window(), lambda _ref, _signals: True):
            shuffled = list(trace.spans)
            random.Random(7).shuffle(shuffled)
            assert read(replace(trace, spans=tuple(shuffled)), CONVENTIONS) == read(trace, CONVENTIONS)


HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["__REDACTED__", PROMPT, "\ud800", "\x00"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "messages", "query", "answer", "id", "text"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
ATTRIBUTES = st.sampled_from(
    [
        *("input.value", "output.value", "llm.input_messages.0.message.role", "llm.input_messages.0.message.content"),
        *("llm.output_messages.0.message.content", "retrieval.documents.0.document.content", "metadata"),
        *("retrieval.documents.0.document.metadata", "gen_ai.input.messages", "gen_ai.output.messages"),
        *("gen_ai.retrieval.documents", "gen_ai.tool.call.result", "gen_ai.prompt.variable.context", "session.id"),
    ]
)


@st.composite
def hostile_spans(draw: st.DrawFn) -> tuple[Span, ...]:
    """Spans with any content in any tree."""
    idents = [f"s{n}" for n in range(draw(st.integers(1, 5)))]
    kinds = st.sampled_from(["LLM", "CHAIN", "AGENT", "RETRIEVER", "RERANKER", "TOOL", "PROMPT", "EVALUATOR", None])
    operations = st.sampled_from(["chat", "retrieval", "execute_tool", "invoke_agent", None])
    spans = []
    for _ in range(draw(st.integers(0, 6))):
        held = draw(st.dictionaries(ATTRIBUTES, HOSTILE | HOSTILE.map(lambda v: json.dumps(v)[:-1]), max_size=6))
        named = {"openinference.span.kind": draw(kinds), "gen_ai.operation.name": draw(operations)}
        spans.append(
            Span(
                draw(st.sampled_from(idents)),
                "t",
                parent_id=draw(st.sampled_from([*idents, None, "gone"])),
                start=draw(st.none() | st.integers(-3, 3)),
                status=draw(st.sampled_from(["ok", "error"])),
                status_message=draw(st.sampled_from(["", "\ud800 failed"])),
                attributes=held | {k: v for k, v in named.items() if v},
                dropped=draw(st.sampled_from([0, 0, 2])),
            )
        )
    return tuple(spans)


@given(hostile_spans())
def test_no_trace_raises_and_every_record_is_sound(spans: tuple[Span, ...]) -> None:
    """At least one record; a field is there or has a gap; ids are unique; JSON holds all of it."""
    records = found(*spans)

    assert records
    for made in records:
        assert load(Record, dump(made)) == made
        assert (made.query is None) == (made.gap("query") is not None)
        assert (made.answer is None) == (made.gap("answer") is not None)
        assert made.gap("context") is None or made.context == ()
        assert len({p.id for p in made.context}) == len({p.rank for p in made.context}) == len(made.context)


def test_a_record_knows_what_made_its_answer_and_where_it_ran() -> None:
    """Slices for comparing, keys for the platform, the user's tags and signals."""
    root = span("s0", "CHAIN", Q="How far?", held={"session.id": "sess", "user.id": "u", "tag.tags": ["space"]})
    root = replace(root, resource={"service.name": "chat", "deployment.environment.name": "prod"})
    spans = (
        root,
        span("s1", "EMBEDDING", "s0", held={"embedding.model_name": "e-1"}),
        span("s2", "RETRIEVER", "s0", held=listed(MARS, MOON)),
        call("s3", "s0", A='{"id":"chatcmpl-9"}', also={"llm.model_name": "m-1"}),
    )
    (made,) = found(*spans, signals=(Signal("thumbs", -1.0, negative=True),))

    assert made.slices == {
        "generator_model": "m-1",
        "embedding_model": "e-1",
        "retriever": "s2",
        "environment": "prod",
        "service": "chat",
    }
    assert made.ref == Ref("otel", trace_id="t", span_id="s0", keys={"session_id": "sess", "user_id": "u"})
    assert made.targets["answer"].keys == {"response_id": "chatcmpl-9"}
    assert (made.tags, made.signals[0].negative, made.id) == (("space",), True, "t:s0")


@pytest.mark.parametrize("seed", range(4))
def test_mutated_traces_are_read_without_a_word_that_is_not_theirs(seed: int) -> None:
    """Captured traces with one to six things wrong: nothing is raised, nothing is made up; JSON keeps the record."""
    for number in range(60):
        trace = mutants.mutant(random.Random(f"ci/{seed}/{number}"))
        records = read(trace, CONVENTIONS)
        assert records
        assert mutants.invented(trace, records) == []
        assert all(load(Record, dump(record)) == record for record in records)
