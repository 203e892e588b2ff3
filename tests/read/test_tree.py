"""Which requests a trace holds, whatever its tree looks like."""

from __future__ import annotations

import json

from msgspec.structs import replace

from groundtrace.model import Span
from spans import MARS, MOON, PROMPT, VENUS, call, found, listed, one, span


def test_a_trace_without_a_request_is_other_with_three_gaps() -> None:
    """Embeddings alone, nothing at all, or spans nobody here understands."""
    embedding = one(span("s0", "EMBEDDING"))
    empty = one()
    foreign = one(Span("s0", "t", scope="apollo.app", attributes={"app.kind": "chain"}))

    assert [r.kind for r in (embedding, empty, foreign)] == ["other"] * 3
    for made in (embedding, empty, foreign):
        assert [g.field for g in made.gaps] == ["query", "context", "answer"]
    assert [r.gaps[0].reason for r in (embedding, empty, foreign)] == [
        "no_request",
        "not_instrumented",
        "not_instrumented",
    ]
    assert "mlflow" in foreign.gaps[0].remedy


def test_each_outermost_agent_is_a_request() -> None:
    """Turns of a talk under one root that says nothing; what is retrieved between them is the next one's."""
    spans = [
        Span("s0", "t", name="session", start=0),
        span("s1", "AGENT", "s0", Q="How far?", A="Far."),
        call("s2", "s1", prompt="How far?"),
        span("s3", "RETRIEVER", "s0", held=listed(MARS)),
        span("s4", "AGENT", "s0", Q="Which colour?", A="Red."),
        call("s5", "s4", told="Red.", prompt="Which colour?"),
    ]
    first, second = found(*spans)

    assert [(r.query, r.answer) for r in (first, second)] == [("How far?", "Far."), ("Which colour?", "Red.")]
    assert first.gap("context") is not None
    assert [p.text for p in second.context] == [MARS]
    assert first.id != second.id
    assert [r.targets["root"].span_id for r in (first, second)] == ["s1", "s4"]


def test_steps_without_a_request_around_them_are_one_request() -> None:
    """A rewriting call and the answer; the root an application made is where feedback goes."""
    root = Span("s0", "t", name="POST /chat", start=0)
    made = one(root, call("s1", "s0", told="moon distance", prompt="Rewrite: how far?"), call("s2", "s0"))

    assert (made.answer, made.ref.span_id, made.targets["root"].span_id) == ("Far.", "s2", "s0")


def test_generations_with_passages_of_their_own_are_requests_of_their_own() -> None:
    """A batch of questions in one trace."""
    other = f"Documents:\n[1] {MARS}\n[2] {VENUS}\n\nQuestion: Which colour?"
    first, second = found(call("s1"), call("s2", told="Red.", prompt=other))

    assert [(r.query, r.answer) for r in (first, second)] == [
        ("How far is the Moon?", "Far."),
        ("Which colour?", "Red."),
    ]


def test_a_lost_root_does_not_tear_a_request_apart() -> None:
    """Orphans of one lost parent belong together, and a retriever alone to the only request there is."""
    together = one(span("s1", "RETRIEVER", "gone", held=listed(MARS, MOON, ids=["mars", "moon"])), call("s2", "gone"))
    apart = one(span("s1", "RETRIEVER", "lost", held=listed(MARS, MOON, ids=["mars", "moon"])), call("s2", "gone"))

    for made in (together, apart):
        assert [(p.id, p.retrieval_rank) for p in made.context] == [("mars", 1), ("moon", 2)]
        assert made.ref.span_id == "s2"


def test_a_span_that_speaks_two_vocabularies_is_heard_once() -> None:
    """What the one leaves out the other says."""
    both = {
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": PROMPT}]}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "Far."}]}]),
        "llm.model_name": "m-1",
    }
    made = one(span("s0", "LLM", held=both))

    assert (made.query, made.answer, len(made.context)) == ("How far is the Moon?", "Far.", 2)
    assert made.slices["generator_model"] == "m-1"


def test_circles_of_parents_clocks_that_disagree_and_spans_without_ids_are_read() -> None:
    """The tree says what belongs together, times only order siblings."""
    circle = one(span("s0", "CHAIN", "s1", Q="How far?"), call("s1", "s0"))
    own_parent = one(span("s0", "CHAIN", "s0", Q="How far?", A="Far."))
    skewed = one(span("s0", "CHAIN", Q="How far?", start=900), call("s1", "s0", start=-5, end=-50))
    nameless = found(replace(call("s1"), id=""), replace(span("s2", "CHAIN", Q="How far?", A="Far."), id=""))

    assert circle.answer == own_parent.answer == skewed.answer == "Far."
    assert nameless


def test_a_chain_of_a_hundred_thousand_spans_is_no_depth() -> None:
    """Walks are iterative."""
    spans = [Span(f"s{n}", "t", parent_id=f"s{n - 1}" if n else None, start=n) for n in range(100_000)]
    made = one(
        span("top", "CHAIN", Q="How far?"), replace(spans[0], parent_id="top"), *spans[1:], call("end", "s99999")
    )

    assert (made.query, made.answer) == ("How far?", "Far.")


def test_a_request_whose_root_is_missing_says_so() -> None:
    """Still growing, or begun in a service that is not here: with the spans above it, it may become another one."""
    inner = [span("s1", "RETRIEVER", "s0", held=listed(MOON)), call("s2", "s0", also={})]
    lacking, whole = one(*inner), one(span("s0", "CHAIN", Q="How far?"), *inner)
    below = one(span("s0", "CHAIN", "gone", Q="How far?"), *inner)
    circle = one(span("s0", "CHAIN", "s1", Q="How far?"), call("s1", "s0"))

    assert lacking.tags == below.tags == ("root_missing",)
    assert whole.tags == circle.tags == ()
    assert lacking.answer == whole.answer == "Far."
