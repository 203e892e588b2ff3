"""One span of Traceloop's at a time: steps, retrievers, tools, vector stores, and what wraps their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.adapters.otel import OtelSource
from groundtrace.conventions.openllmetry import OpenLLMetry
from groundtrace.model import Event, Reading, Span, Window
from groundtrace.read import read
from groundtrace.testing import ConventionContract
from spans import CONVENTIONS, MARS, MOON, PROMPT, one

SCOPE = "opentelemetry.instrumentation.langchain"
BESIDE: dict[str, Any] = {"tags": ["a"], "metadata": {"session_id": "s-1", "user_id": "u-1"}, "kwargs": {"name": "x"}}
NODES = [
    json.dumps({"node": {"id_": ident, "text": text, "metadata": {"title": ident}}, "score": score})
    for ident, text, score in (("moon", MOON, 0.9), ("mars", MARS, 0.4))
]
NAMES = st.sampled_from(
    [
        *("traceloop.span.kind", "traceloop.entity.input", "traceloop.entity.output", "traceloop.entity.name"),
        *("gen_ai.task.input", "gen_ai.task.output", "gen_ai.operation.name", "llm.request.type", "tool.name"),
        *("tool.arguments", "gen_ai.tool.call.result", "traceloop.association.properties.session_id"),
    ]
)
KINDS = ["workflow", "task", "agent", "tool"]
WORDS = st.sampled_from(
    [*KINDS, "vector_db_retrieve", "chat", '{"inputs": [', '["{\\"node\\": 1}"]', '"half', "{'a': (", "[0.1, 0.2"]
)
KEYS = [
    "inputs",
    "outputs",
    "output",
    "input_str",
    "kwargs",
    "args",
    "metadata",
    "documents",
    "nodes",
    "kwds",
    "result",
]
MORE = ["response", "current_agent_name", "tool_calls", "tool_output", "blocks", "node", "id", "text", "input"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*KEYS, *MORE]), inner, max_size=4),
    max_leaves=8,
)


def reading(kind: str, given_: Any = None, told: Any = None, **attributes: Any) -> Reading:
    """The reading of a span of this kind; two underscores in names stand for a dot."""
    held: dict[str, Any] = {"traceloop.span.kind": kind} if kind else {}
    held |= {"traceloop.entity.input": _json(given_)} if given_ is not None else {}
    held |= {"traceloop.entity.output": _json(told)} if told is not None else {}
    held |= {name.replace("__", "."): value for name, value in attributes.items()}
    found = OpenLLMetry().reading(Span("s", "t", attributes=held, scope=SCOPE))
    assert found is not None
    return found


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def wrapped(value: Any) -> dict[str, Any]:
    """An input as LangChain's callbacks put it."""
    return {"inputs": value, **BESIDE}


class TestOpenLLMetry(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> OpenLLMetry:
        """The convention."""
        return OpenLLMetry()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        named = {
            "traceloop.entity.input": json.dumps(wrapped({"question": "How far?"})),
            "traceloop.entity.output": json.dumps({"outputs": [{"page_content": MOON, "metadata": {}}], "kwargs": {}}),
            "traceloop.association.properties.session_id": "s-1",
            "traceloop.entity.name": "Retriever",
            "tool.arguments": '{"query": "How far?"}',
        }
        kinds = [Span("s", "t", attributes={"traceloop.span.kind": kind, **named}) for kind in KINDS]
        operations = [{"gen_ai.operation.name": name, **named} for name in ("vector_db_retrieve", "chat", "embeddings")]
        return [*kinds, *(Span("s", "t", attributes=held) for held in operations)]


@given(st.dictionaries(NAMES, VALUES | VALUES.map(json.dumps), max_size=7), st.sampled_from([*KINDS, None]))
def test_whatever_stands_in_a_span_reading_it_raises_nothing(held: dict[str, Any], kind: str | None) -> None:
    """Wrong types, texts for lists, JSON that breaks off, Python that does."""
    held = {**held, "traceloop.span.kind": kind} if kind else held
    OpenLLMetry().reading(Span("s", "t", attributes=held))


# --- workflows and agents ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        (wrapped({"question": "How far?"}), {"outputs": "Far.", "kwargs": {}}),
        (wrapped("How far?"), {"outputs": {"answer": "Far."}, "kwargs": {}}),
        (wrapped({"messages": [["user", "How far?"]]}), {"outputs": {"messages": [["ai", "Far."]]}, "kwargs": {}}),
        ({"args": ["How far?"], "kwargs": {}}, '"Far."'),
        ({"args": [], "kwargs": {"question": "How far?", "k": 3}}, {"answer": "Far.", "cost": 1}),
        ({"args": ["How far?", 3, [MOON]], "kwargs": {}}, "Far."),
        ({"message": "How far?"}, {"response": "Far.", "sources": []}),
        ({"query_bundle": {"query_str": "How far?", "image_path": None}}, {"response": "Far.", "metadata": {}}),
        ({"str_or_query_bundle": "How far?"}, {"response": "Far."}),
        ("How far?", "Far."),
    ],
    ids=[
        "LangChain",
        "bare",
        "LangGraph",
        "decorated",
        "by name",
        "by place",
        "chat engine",
        "query bundle",
        "query",
        "texts",
    ],
)
def test_a_workflow_says_what_went_in_and_what_came_out(given_: Any, told: Any) -> None:
    """Out of whatever LangChain, LlamaIndex or a decorator put around both."""
    found = reading("workflow", given_, told)

    assert found.role == "request"
    assert found.query is not None
    assert found.output is not None
    assert (found.query.value, found.query.attribute) == ("How far?", "traceloop.entity.input")
    assert (found.output.value, found.output.attribute) == ("Far.", "traceloop.entity.output")
    assert found.content == "present"


def test_which_of_two_texts_is_the_question_is_not_guessed() -> None:
    """A function's arguments without their names; passages among them are known by their shape."""
    passages = [{"id": "moon", "text": MOON}]
    found = reading("task", {"args": ["How far?", "en", passages], "kwargs": {}}, '"Far."')

    assert reading("workflow", {"args": ["How far?", "en"], "kwargs": {}}, '"Far."').query is None
    assert [d.id for d in found.documents or ()] == ["moon"]


def test_the_input_of_a_stream_is_told_with_its_output() -> None:
    """LangChain does not know it before the stream ends, and the input says nothing."""
    told = {"outputs": "Far.", "kwargs": {"tags": [], "inputs": {"question": "How far?"}}}
    found = reading("workflow", wrapped({"input": ""}), told)

    assert found.query is not None
    assert (found.query.value, found.query.attribute) == ("How far?", "traceloop.entity.output")


def test_the_same_under_its_newer_name_is_read() -> None:
    """`gen_ai.task.*` is the same again; the entity's is not asked for twice."""
    given_ = json.dumps(wrapped({"question": "How far?"}))
    found = reading("agent", gen_ai__task__input=given_, gen_ai__task__output='{"outputs": "Far.", "kwargs": {}}')

    assert found.role == "agent"
    assert found.query is not None
    assert found.query.attribute == "gen_ai.task.input"
    assert found.output is not None
    assert found.output.value == "Far."


def test_session_and_user_are_properties_or_in_the_metadata() -> None:
    """0.6x has them as association properties, 0.4x only in what LangChain was given beside the input."""
    new = reading("workflow", "How far?", traceloop__association__properties__thread_id="s-2")
    old = reading("workflow", wrapped("How far?"))

    assert (new.session, new.user) == ("s-2", None)
    assert (old.session, old.user) == ("s-1", "u-1")


@pytest.mark.parametrize("kind", ["workflow", "agent"])
def test_what_was_not_captured_names_the_setting(kind: str) -> None:
    """A span of a request without either side."""
    found = reading(kind)

    assert (found.content, found.query, found.output) == ("off", None, None)
    assert "TRACELOOP_TRACE_CONTENT" in found.remedy


def test_what_is_cut_or_masked_is_said_to_be() -> None:
    """JSON that breaks off is never pieced together; a mask is a mask, also in quotes."""
    cut = reading("workflow", json.dumps(wrapped({"question": "How far?"}))[:60], '"Far away is the Mo')
    masked = reading("workflow", "__REDACTED__", {"outputs": "[REDACTED]", "kwargs": {}})

    assert [s.state for s in (cut.query, cut.output) if s] == ["truncated", "truncated"]
    assert [s.state for s in (masked.query, masked.output) if s] == ["masked", "masked"]


# --- retrievals -------------------------------------------------------------------------------------------------------


def test_a_retriever_of_langchain_lists_its_documents() -> None:
    """With what their metadata says, which holds the id where any does."""
    told = {"documents": [{"page_content": MOON, "metadata": {"doc_id": "moon"}}, {"page_content": MARS}]}
    asked = {"query": "How far?", **BESIDE}
    found = reading("task", asked, told, gen_ai__operation__name="vector_db_retrieve")

    assert found.role == "retrieval"
    assert found.query is not None
    assert found.query.value == "How far?"
    assert [(d.id, d.text.value) for d in found.documents or () if d.text] == [("moon", MOON), (None, MARS)]


def test_a_retriever_that_found_nothing_is_not_one_that_was_not_recorded() -> None:
    """Empty is empty; off is off; a shape nobody knows is neither."""
    name = "vector_db_retrieve"
    empty = reading("task", "How far?", {"documents": []}, gen_ai__operation__name=name)
    off = reading("task", gen_ai__operation__name=name)
    odd = reading("task", "How far?", {"found": 3}, gen_ai__operation__name=name)
    cut = reading("task", "How far?", '{"documents": [{"page_content": "The Mo', gen_ai__operation__name=name)

    assert empty.documents == ()
    assert (off.documents, off.content) == (None, "off")
    assert "TRACELOOP_TRACE_CONTENT" in off.remedy
    assert odd.documents is None
    assert [d.text.state for d in cut.documents or () if d.text] == ["truncated"]


def test_nodes_of_llamaindex_are_documents_and_a_step_that_takes_them_reranks() -> None:
    """A list of JSON texts, each with a node and its score."""
    retrieved = reading("task", {"query_bundle": {"query_str": "How far?"}}, NODES)
    kept = reading("task", {"nodes": NODES, "query_bundle": None}, NODES[:1])

    assert retrieved.role == "retrieval"
    assert [(d.id, d.score) for d in retrieved.documents or ()] == [("moon", 0.9), ("mars", 0.4)]
    assert kept.role == "rerank"
    assert [d.id for d in kept.documents or ()] == ["moon"]


def test_a_retriever_of_llamaindex_that_found_nothing() -> None:
    """Its name says what it is."""
    found = reading("task", {"query": "How far?"}, [], traceloop__entity__name="VectorIndexRetriever.task")

    assert (found.role, found.documents) == ("retrieval", ())


@pytest.mark.parametrize(
    "told",
    [[MOON], "[0.25, -0.5]", [-0.5], {"outputs": [{"type": "ai", "content": "Far."}], "kwargs": {}}, "Far.", "[]"],
    ids=["chunks of text", "an embedding", "a negative number", "messages", "a text", "nothing"],
)
def test_what_else_a_step_gives_back_is_no_retrieval(told: Any) -> None:
    """Splitters, embeddings and models' replies."""
    found = reading("task", {"text": MOON}, told, traceloop__entity__name="TokenTextSplitter.task")

    assert (found.role, found.documents) == ("other", None)


def test_a_step_that_fills_a_template_names_its_parts() -> None:
    """The context with the question beside it; documents where they are handed over in a list."""
    context = f"[1] {MOON}"
    filled = reading("task", wrapped({"question": "How far?", "context": context}), "Documents: ...")
    kwds = reading("task", {"kwds": {"context_str": context}}, {"answer": "Far."})
    listed = reading("task", {"query_str": "How far?", "text_chunks": [MOON, MARS]}, '"Far."')
    plain = reading("task", wrapped({"question": "How far?"}), "How far?")

    assert {name: s.value for name, s in filled.variables.items()} == {"question": "How far?", "context": context}
    assert {name: s.value for name, s in kwds.variables.items()} == {"context_str": context}
    assert [d.text.value for d in listed.documents or () if d.text] == [MOON, MARS]
    assert not plain.variables


def test_what_a_vector_store_found_stands_in_its_events() -> None:
    """An event a result; the text may be in its metadata, a result may be an id alone."""
    told = [
        {"id": "moon", "score": 0.9, "document": MOON, "metadata": '{"source": "a"}'},
        {"id": "mars", "distance": 0.4, "metadata": json.dumps({"text": MARS})},
        {"id": "venus"},
    ]
    events = [Event("db.query.result", attributes={f"db.query.result.{k}": v for k, v in d.items()}) for d in told]
    events.insert(0, Event("db.query.embeddings", attributes={"db.query.embeddings.vector": "[0.1]"}))
    found = OpenLLMetry().reading(Span("s", "t", attributes={"db.system": "chroma"}, events=tuple(events)))

    assert found is not None
    assert found.role == "retrieval"
    assert [(d.id, d.text and d.text.value, d.score) for d in found.documents or ()] == [
        ("moon", MOON, 0.9),
        ("mars", MARS, None),
        ("venus", None, None),
    ]


# --- tools, calls, agents' steps --------------------------------------------------------------------------------------


def test_a_tool_says_what_it_was_asked_and_what_it_answered() -> None:
    """LangChain prints the arguments as Python and wraps the answer in a message."""
    message = {"lc": 1, "type": "constructor", "id": ["langchain", "ToolMessage"], "kwargs": {"content": f"[1] {MOON}"}}
    asked = {"input_str": "{'query': 'How far?'}", **BESIDE, "inputs": None}
    found = reading("tool", asked, {"output": message, "kwargs": {}}, gen_ai__tool__name="search")

    assert found.role == "tool"
    assert found.query is not None
    assert found.query.value == "How far?"
    assert found.tool is not None
    assert found.tool.name == "search"
    assert found.tool.arguments is not None
    assert found.tool.arguments.value == '{"query": "How far?"}'
    assert found.tool.result is not None
    assert found.tool.result.value == f"[1] {MOON}"


def test_a_tool_of_a_llamaindex_agent_answers_in_blocks() -> None:
    """Its call stands in a step, with its own name for the arguments."""
    told = {"tool_name": "search", "tool_output": {"blocks": [{"block_type": "text", "text": f"[1] {MOON}"}]}}
    found = reading("task", None, told, tool__name="search", tool__arguments='{"query": "How far?"}')

    assert found.tool is not None
    assert found.tool.result is not None
    assert found.tool.result.value == f"[1] {MOON}"
    assert found.query is not None
    assert found.query.value == "How far?"


def test_the_steps_of_a_llamaindex_agent_are_its_turns() -> None:
    """What the model is given, what it said or asked for, and the answer a stream leaves in the last step."""
    asked = {"input": [{"role": "user", "blocks": [{"block_type": "text", "text": "How far?"}]}]}
    spoken = {"role": "assistant", "blocks": [{"block_type": "text", "text": "Far."}]}
    named = {"current_agent_name": "a"}
    calls = [{"tool_name": "search", "tool_id": "c"}]
    given_ = reading("task", None, {**asked, **named})
    called = reading("task", None, {"response": {"role": "assistant", "blocks": []}, "tool_calls": calls, **named})
    ended = reading("task", None, {"result": {"response": spoken, "tool_calls": calls, **named}})

    assert given_.variables["question"].value == "How far?"
    assert (called.role, [t.name for t in called.calls]) == ("generation", ["search"])
    assert (ended.role, ended.calls) == ("generation", ())
    assert ended.output is not None
    assert ended.output.value == "Far."


@pytest.mark.parametrize(
    ("scope", "named"),
    [(SCOPE, "TRACELOOP_TRACE_CONTENT"), ("litellm", "turn_off_message_logging")],
)
def test_a_call_without_content_names_the_setting_of_its_producer(scope: str, named: str) -> None:
    """It is off until the vocabulary that holds the messages says otherwise."""
    held = {"llm.request.type": "chat", "gen_ai.request.model": "m"}
    made = one(Span("s", "t", scope=scope, attributes=held))
    told = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": PROMPT, "gen_ai.completion.0.content": "Far."}
    full = one(Span("s", "t", scope=scope, attributes={**held, **told}))

    assert {g.reason for g in made.gaps} == {"content_off"}
    assert all(named in g.remedy for g in made.gaps)
    assert (full.gaps, full.answer, full.query) == ((), "Far.", "How far is the Moon?")


def test_an_embedding_is_no_generation() -> None:
    """Also where its texts stand in a prompt."""
    found = reading("", llm__request__type="embedding", gen_ai__prompt__0__content="How far?")

    assert found.role == "embedding"


def test_a_span_of_a_foreign_instrumentor_with_a_session_says_the_session() -> None:
    """Association properties stand on every span inside."""
    found = reading("", traceloop__association__properties__session_id="s-1")

    assert (found.role, found.session) == ("other", "s-1")


# --- whole traces -----------------------------------------------------------------------------------------------------


def test_pieces_of_a_request_that_was_lost_are_none_of_the_next_one() -> None:
    """A stream of LlamaIndex never ends its spans: what was searched for it hangs from nowhere, in the next trace."""
    nodes = [[json.dumps({"node": {"id_": i, "text": text}, "score": 1.0})] for i, text in (("a", MARS), ("b", MOON))]
    name = "VectorIndexRetriever.task"

    def step(ident: str, parent: str, start: int, kind: str, **held: Any) -> Span:
        named: dict[str, Any] = {
            "input": {"query": "How far?"},
            "output": held.get("told"),
            "name": held.get("name", "x"),
        }
        told = {f"traceloop.entity.{k}": v if isinstance(v, str) else json.dumps(v) for k, v in named.items()}
        return Span(
            ident, "t", name=ident, parent_id=parent, start=start, attributes={"traceloop.span.kind": kind, **told}
        )

    lost = step("s0", "gone", 0, "task", name=name, told=nodes[0])
    request = step("s2", "gone-too", 2, "workflow", told={"response": "Far [1]."})
    own = step("s3", "s2", 3, "task", name=name, told=nodes[1])
    made = one(lost, request, own)

    assert (made.query, made.answer) == ("How far?", "Far [1].")
    assert [(p.id, p.target and p.target[0].span_id) for p in made.context] == [("b", "s3")]
    assert made.targets["retrieval"].span_id == "s3"


def test_what_a_postprocessor_left_out_or_dressed_up_is_one_passage_each() -> None:
    """The nodes that were handed on are the context, with the place each was retrieved at."""
    dressed = [json.dumps({"node": {"id_": "mars", "text": f"Of planets. {MARS}"}, "score": 0.4})]
    told = {"traceloop.span.kind": "workflow", "traceloop.entity.input": "How far?", "traceloop.entity.output": "Far."}
    found = {"traceloop.span.kind": "task", "traceloop.entity.output": json.dumps(NODES)}
    kept = {"traceloop.span.kind": "task", "traceloop.entity.output": json.dumps(dressed)}
    kept["traceloop.entity.input"] = json.dumps({"nodes": NODES})
    made = one(
        Span("s0", "t", start=0, attributes=told),
        Span("s1", "t", parent_id="s0", start=1, attributes=found),
        Span("s2", "t", parent_id="s0", start=2, attributes=kept),
    )

    assert [(p.id, p.text, p.retrieval_rank) for p in made.context] == [("mars", f"Of planets. {MARS}", 2)]
    assert made.context[0].target is not None
    assert (made.context[0].target[0].span_id, made.context[0].target[1]) == ("s1", 1)


@pytest.mark.parametrize(
    "name",
    [
        *("chroma-traceloop", "cohere-traceloop", "langchain-openinference-duplicate", "llamaindex-agent-traceloop"),
        *("llamaindex-traceloop-leaked", "strands-genai"),
    ],
)
def test_what_was_really_captured_gives_its_records(name: str) -> None:
    """Every trace of these files: the query, the context in order, the answer, and what its markers point to."""
    folder = Path(__file__).parents[1] / "fixtures" / "traces"
    expected = {row["trace_id"]: row for row in json.loads((folder / f"{name}.gold.json").read_text("utf-8"))}
    for trace in OtelSource(str(folder / f"{name}.jsonl")).traces(Window(), lambda _ref, _signals: True):
        want = expected.pop(trace.ref.trace_id)
        made = [r for r in read(trace, CONVENTIONS) if r.query == want["query"]]
        assert len(made) == 1
        texts = {p.id: p.text for p in made[0].context}
        assert list(texts.values()) == [c["content"] for c in want["contexts"]]
        assert made[0].answer == want["answer"]
        numbered = {c["index"]: c["content"] for c in want["contexts"]}
        pointed = [(c["start"], numbered.get(c["context_index"])) for c in want["inline_citations"]]
        assert [(c.start, texts.get(c.passage_id or "")) for c in made[0].citations] == pointed
        lacking = {field for field in ("context", "answer") if not want[f"{field}s" if field == "context" else field]}
        assert {g.field for g in made[0].gaps} == lacking
    assert not expected
