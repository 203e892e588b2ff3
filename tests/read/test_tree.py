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


def _turns(top: Span, *, output: str | None = "Far.") -> list[Span]:
    """Two turns below one span."""
    return [
        top,
        span("s1", "AGENT", "s0", Q="How far is the Moon?", A=output),
        span("s2", "RETRIEVER", "s1", held=listed(MOON)),
        call("s3", "s1", prompt="How far is the Moon?"),
        span("s4", "AGENT", "s0", Q="Why is Mars named so?", A="For war."),
        span("s5", "RETRIEVER", "s4", held=listed(MARS)),
        call("s6", "s4", prompt="Why is Mars named so?", told="For war."),
    ]


def test_a_session_around_several_turns_is_no_request() -> None:
    """A chain, an agent or a session in a session that says nothing; the session's id holds for each turn."""
    chain = span("s0", "CHAIN", held={"session.id": "a"}, start=0)
    nested = [span("s", "CHAIN", start=0), *_turns(span("s0", "AGENT", "s", held={"session.id": "a"}))]

    for spans in (_turns(chain), nested):
        records = found(*spans)

        assert [(r.query, r.answer) for r in records] == [
            ("How far is the Moon?", "Far."),
            ("Why is Mars named so?", "For war."),
        ]
        assert [[p.text for p in r.context] for r in records] == [[MOON], [MARS]]
        assert [r.ref.keys["session_id"] for r in records] == ["a", "a"]


def test_what_says_anything_or_generates_by_itself_is_one_request() -> None:
    """An agent that calls others, whichever way; steps that pass on what the ones before put out."""
    top = span("s0", "AGENT", start=0)
    asked, *inside = _turns(span("s0", "AGENT", Q="Moon and Mars?", start=0))
    writer = span("s7", "AGENT", "s0", Q="Write of: Far away it is. For war.", A="Both.")
    beside = call("s8", "s0", prompt="Moon and Mars?", told="Both.")
    tools = [replace(s, parent_id="tool") if s.parent_id == "s0" else s for s in inside]

    assert one(asked, *inside).query == "Moon and Mars?"
    assert len(found(top, *inside, beside)) == 1
    assert one(top, span("tool", "TOOL", "s0", start=1), *tools, beside).answer == "Both."
    assert len(found(*_turns(top, output="Far away it is."), writer, call("s8", "s7", told="Both."))) == 1
    asks = {"input.value": "Moon?"}
    same = [replace(s, attributes={**s.attributes, **asks}) if s.id in {"s1", "s4"} else s for s in inside]
    assert len(found(top, *same)) == 1
    hidden = replace(inside[0], attributes={"openinference.span.kind": "AGENT"})
    assert len(found(top, hidden, *inside[1:])) == 1


def test_the_tasks_of_a_workflow_that_says_nothing_are_its_turns() -> None:
    """Traceloop's decorators on a loop that takes no arguments and returns nothing."""
    told = [("How far is the Moon?", "Far."), ("Why is Mars named so?", "For war.")]
    empty = {"traceloop.entity.input": '{"args": [], "kwargs": {}}', "traceloop.entity.output": "null"}
    spans = [Span("top", "t", start=0, attributes={"traceloop.span.kind": "workflow", **empty})]
    for at, (asked, answered) in enumerate(told):
        inside = {"traceloop.entity.input": json.dumps({"inputs": asked}), "traceloop.entity.output": answered}
        spans.append(
            Span(f"k{at}", "t", parent_id="top", start=9 * at, attributes={"traceloop.span.kind": "task", **inside})
        )
        spans.append(call(f"g{at}", f"k{at}", prompt=asked, told=answered, start=9 * at + 1))

    assert [(r.query, r.answer) for r in found(*spans)] == told


def test_two_instrumentations_of_one_call_are_one_request() -> None:
    """Trees side by side of the same question, answer and time: the one stays that tells more, with what was found."""
    root = span("s0", "CHAIN", Q="How far is the Moon?", A="Far [2].", scope="openinference", end=20)
    search = span("s1", "RETRIEVER", "s0", held=listed(MOON, MARS, ids=["moon", "mars"]))
    inner = call("s2", "s0", told="Far [2].", scope="openinference", end=15)
    spoken = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": PROMPT}
    spoken |= {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Far [2]."}
    other = Span("o1", "t", start=3, end=14, scope="openllmetry", attributes={"llm.request.type": "chat", **spoken})
    plain = replace(root, attributes={**root.attributes, "output.value": "Far."}), call("s2", "s0", told="Far.")

    for spans in ((root, search, inner, other), (replace(other, start=0, end=50), root, search, inner)):
        made = one(*spans)
        assert (made.query, made.answer, made.ref.span_id) == ("How far is the Moon?", "Far [2].", "s0")
        assert [p.id for p in made.context] == ["mars", "moon"]
    below = span("o2", "RETRIEVER", "o0", held=listed(MOON, ids=["moon"]), start=4)
    top = {"traceloop.span.kind": "workflow", "traceloop.entity.input": json.dumps({"inputs": "How far is the Moon?"})}
    above = Span("o0", "t", start=3, end=14, scope="openllmetry", attributes={**top, "traceloop.entity.output": "Far."})
    moved = one(*plain, above, below)
    assert (moved.ref.span_id, moved.targets["retrieval"].span_id) == ("s0", "o2")
    assert [p.id for p in moved.context] == ["mars", "moon"]
    assert len(found(root, inner, replace(other, start=20, end=30))) == 2
    assert len(found(root, inner, replace(other, scope="openinference"))) == 2
    also = replace(root, attributes={**root.attributes, "input.value": "And Mars?"})
    assert len(found(also, call("s2", "s0", told="Far [2].", prompt="And Mars?", scope="openinference"), other)) == 2
