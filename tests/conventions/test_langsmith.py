"""LangSmith: one run at a time in both forms, every producer of the captures, the ways to list passages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.adapters.otel import OtelSource
from groundtrace.conventions.langsmith import LangSmith
from groundtrace.model import Reading, Record, Span, Trace, Window
from groundtrace.read import read
from groundtrace.testing import ConventionContract
from langsmith_rows import run, traces
from spans import CONVENTIONS, MARS, MOON, PROMPT, VENUS

TRACES = Path(__file__).parents[1] / "fixtures" / "traces"
ROWS: list[dict[str, Any]] = json.loads((TRACES / "langsmith-runs.json").read_text(encoding="utf-8"))
EXPECTED: dict[str, Any] = json.loads((TRACES / "langsmith-runs.expected.json").read_text(encoding="utf-8"))
KINDS = ["chain", "llm", "retriever", "tool", "prompt", "parser", "embedding", "LLM", "mystery", ""]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("[REDACTED]"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("output", "input", "messages", "message", "documents", "context", "contexts", "page_content"),
                    *("generations", "choices", "kwargs", "id", "type", "role", "content", "update", "artifact"),
                    *("tool_calls", "arguments", "response_metadata", "results", "metadata", "annotations", "text"),
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def row(kind: str, inputs: Any = None, outputs: Any = None, parent: str | None = None, **more: Any) -> dict[str, Any]:
    """A run as the API tells it."""
    ident = more.pop("id", f"{kind}-1")
    held = {"id": ident, "trace_id": "t", "parent_run_id": parent, "name": kind, "run_type": kind, "status": "success"}
    return {**held, "inputs": inputs, "outputs": outputs, "error": None, "extra": {"metadata": {}}, **more}


def reading(kind: str, inputs: Any = None, outputs: Any = None, **more: Any) -> Reading:
    """What is read from such a run, which is the same from the span its SDK exports."""
    found = LangSmith().reading(run(row(kind, inputs, outputs, **more)))
    assert found is not None
    if not more:
        told = {"gen_ai.prompt": json.dumps(inputs), "gen_ai.completion": json.dumps(outputs)}
        exported = LangSmith().reading(exported_span(kind, **told))
        assert exported is not None
        assert _without_places(exported) == _without_places(found)
    return found


def exported_span(kind: str, status: str = "ok", **attributes: Any) -> Span:
    """A span as the SDK exports it."""
    held = {"langsmith.span.kind": kind, "gen_ai.operation.name": "chat", **attributes}
    return Span("s", "t", name=kind, status=status, attributes=held)


def _without_places(found: Reading) -> str:
    return (
        repr(found)
        .replace("gen_ai.prompt", "langsmith.run.inputs")
        .replace("gen_ai.completion", "langsmith.run.outputs")
    )


def record(*rows: Mapping[str, Any]) -> Record:
    """The record of these runs, which are one trace with one request."""
    (trace,) = traces(rows)
    (found,) = read(trace, CONVENTIONS)
    return found


def texts(found: Reading) -> list[tuple[str | None, str]] | None:
    """The documents of a reading by id and text."""
    if found.documents is None:
        return None
    return [(d.id, d.text.value if d.text is not None else "") for d in found.documents]


class TestLangSmith(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> LangSmith:
        """The convention."""
        return LangSmith()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        told = {"gen_ai.prompt": '{"query": "How far?"}', "gen_ai.completion": '{"output": "Far."}'}
        exported = [exported_span(kind, **told) for kind in KINDS if kind]
        return [*exported, *(run(row(kind, {"query": "How far?"}, {"output": "Far."})) for kind in KINDS if kind)]


@given(kind=st.sampled_from(KINDS), inputs=VALUES, outputs=VALUES, extra=VALUES, tags=VALUES, whole=VALUES)
def test_no_run_breaks_it(*, kind: str, inputs: Any, outputs: Any, extra: Any, tags: Any, whole: Any) -> None:
    """Whatever stands where inputs, outputs, metadata or the row itself should."""
    given_row = {"run_type": kind, "inputs": inputs, "outputs": outputs, "extra": extra, "tags": tags, "status": whole}
    LangSmith().reading(Span("s", "t", attributes={"langsmith.run": given_row}))
    LangSmith().reading(Span("s", "t", attributes={"langsmith.run": whole}))
    told = {"gen_ai.prompt": inputs, "gen_ai.completion": outputs, "langsmith.metadata.session_id": extra}
    LangSmith().reading(exported_span(kind, **told, **{"langsmith.span.tags": tags, "langsmith.trace.name": whole}))


# --- the captured runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ident", EXPECTED["records"])
def test_a_captured_trace_is_the_record_written_by_hand(ident: str) -> None:
    """One for each producer: chains, graphs, tools, functions, wrapped clients, an error."""
    want = EXPECTED["records"][ident]
    trace = next(t for t in traces(ROWS) if t.ref.trace_id == ident)
    (found,) = read(trace, CONVENTIONS)
    names = {s.id: s.name for s in trace.spans}
    text_of = {p.id: p.text for p in found.context}

    assert (found.kind, found.query, found.answer) == (want["kind"], want["query"], want["answer"])
    shown = [[None if p.id.startswith("p-") else p.id, p.text] for p in found.context]
    assert shown == want["context"]
    cited = [[c.marker, c.start, c.end, text_of.get(c.passage_id or "")] for c in found.citations]
    assert cited == want["citations"]
    assert {g.field: g.reason for g in found.gaps} == want["gaps"]
    target = found.targets.get("retrieval")
    assert (names[target.span_id or ""] if target is not None else None) == want["retrieval"]


def test_every_producer_is_expected() -> None:
    """No trace and no retriever of the file is left out."""
    assert {r["trace_id"] for r in ROWS} == EXPECTED["records"].keys()
    assert {r["name"] for r in ROWS if r["run_type"] == "retriever"} == EXPECTED["retrievals"].keys()
    assert {r["name"] for r in ROWS if r["run_type"] == "tool"} == EXPECTED["tools"].keys()


@pytest.mark.parametrize("held", [r for r in ROWS if r["run_type"] == "retriever"], ids=lambda r: r["id"][-6:])
def test_a_captured_retriever_tells_what_it_found(held: dict[str, Any]) -> None:
    """A retriever of LangChain and functions that return dicts, Documents, texts, an object, or yield them."""
    want = EXPECTED["retrievals"][held["name"]]
    found = LangSmith().reading(run(held))

    assert found is not None
    assert found.role == "retrieval"
    assert found.query is not None
    assert found.query.value in want["query"]
    assert [list(pair) for pair in texts(found) or ()] == want["documents"]


@pytest.mark.parametrize("held", [r for r in ROWS if r["run_type"] == "tool"], ids=lambda r: r["name"])
def test_a_captured_tool_tells_what_it_answered(held: dict[str, Any]) -> None:
    """A text alone, or a message with the documents beside it."""
    want = EXPECTED["tools"][held["name"]]
    found = LangSmith().reading(run(held))

    assert found is not None
    assert found.tool is not None
    assert found.query is not None
    assert found.tool.result is not None
    assert (found.query.value, found.tool.result.value) == (want["query"], want["result"])
    assert [[d.id, d.text and d.text.value] for d in found.tool.documents] == want["documents"]


@pytest.mark.parametrize("name", ["langgraph-langsmith-otel", "agent-langsmith-otel", "openai-langsmith-otel"])
def test_captures_through_opentelemetry_are_read_as_their_script_says(name: str) -> None:
    """A graph, an agent with a search tool, traced functions around a wrapped client; plain, streamed, failing."""
    gold = {g["trace_id"]: g for g in json.loads((TRACES / f"{name}.gold.json").read_text(encoding="utf-8"))}
    for trace in OtelSource(str(TRACES / f"{name}.jsonl")).traces(Window(), lambda _ref, _signals: True):
        want = gold.pop(trace.ref.trace_id)
        (found,) = read(trace, CONVENTIONS)
        assert (found.query, found.answer) == (want["query"], want["answer"])
        assert [p.text for p in found.context] == [c["content"] for c in want["contexts"]]
        ids = [p.id.removeprefix("file-") for p in found.context]
        assert ids == [c["id"] for c in want["contexts"]]
        inline = [(c.start, ids.index(c.passage_id) + 1 if c.passage_id else None) for c in found.citations if c.marker]
        assert inline == [(c["start"], c["context_index"]) for c in want["inline_citations"]]
        structured = [(c.passage_id or "").removeprefix("file-") for c in found.citations if not c.marker]
        assert structured == [c["doc_id"] for c in want["structured_citations"]]
        assert found.ref.keys.get("session_id") == want["session_id"]
        assert found.ref.keys.get("user_id") == want["user_id"]
        assert found.targets["root"].span_id == want["root_span_id"]
        assert found.targets["answer"].span_id == want["generation_span_id"]
        if want["error"]:
            gap = found.gap("answer")
            assert gap is not None
            assert "model_not_found" in gap.remedy or "404" in gap.remedy
    assert not gold


# --- retrievals -------------------------------------------------------------------------------------------------------

DOCUMENT = {"page_content": MOON, "metadata": {}, "type": "Document"}
MADE = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "document", "Document"]}
SPELLINGS = {
    "texts": {"output": [MOON, MARS]},
    "dicts": {"output": [{"page_content": MOON}, {"page_content": MARS}]},
    "documents": {"documents": [DOCUMENT, {**DOCUMENT, "page_content": MARS}]},
    "contexts": {"contexts": [MOON, MARS]},
    "constructors": {"output": [{**MADE, "kwargs": {"page_content": t, "type": "Document"}} for t in (MOON, MARS)]},
    "wrapped": {"output": {"documents": [{"text": MOON}, {"content": MARS}]}},
}


@pytest.mark.parametrize("outputs", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_however_a_retrieval_is_written_the_record_is_one(outputs: dict[str, Any]) -> None:
    """Texts, dicts, Documents, an object of contexts, LangChain's constructors: the same passages, all else equal."""

    def asked(found: Any) -> Record:
        root = row("chain", {"question": "How far?"}, {"output": "Far [1]."}, id="root")
        return record(root, row("retriever", {"query": "How far?"}, found, "root"))

    found = asked(outputs)

    assert [p.text for p in found.context] == [MOON, MARS]
    assert found == asked(SPELLINGS["texts"])
    assert found.citations[0].passage_id == found.context[0].id


@pytest.mark.parametrize("outputs", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_a_chain_that_hands_passages_on_is_read_the_same(outputs: dict[str, Any]) -> None:
    """Under `context` at the root, where no run of a retriever tells it."""
    peeled = outputs.get("output", outputs)
    listed = next(iter(peeled.values())) if isinstance(peeled, dict) else peeled
    found = record(row("chain", {"question": "How far?"}, {"answer": "Far [1].", "context": listed}))

    assert [p.text for p in found.context] == [MOON, MARS]
    assert found.answer == "Far [1]."


@pytest.mark.parametrize(
    "outputs",
    [
        *({"output": None}, {"rows": [{"a": 1}]}, {"output": [{"vector": [0.1]}]}, {"output": [1, 2]}, {"output": {}}),
        *({"output": [MOON, None]}, {"documents": "2 found", "n": 2}, {"output": [["human", "Hi"]]}, {"output": True}),
        {"output": [{"type": "human", "content": "Hi", "additional_kwargs": {}}]},
    ],
    ids=lambda outputs: json.dumps(outputs)[:40],
)
def test_a_retrieval_of_no_known_shape_is_a_gap_and_never_an_empty_context(outputs: Any) -> None:
    """The gap says how a retriever run should return what it found."""
    root = row("chain", {"question": "How far?"}, {"output": "Far."}, id="root")
    found = record(root, row("retriever", {"query": "How far?"}, outputs, "root"))
    gap = found.gap("context")

    if not found.context:  # a text is what the retriever said: it stands for itself
        assert gap is not None
        assert "page_content" in gap.remedy
    else:
        assert [p.text for p in found.context] == ["2 found"]


def test_a_retrieval_that_found_nothing_is_an_empty_context() -> None:
    """An empty list is an answer of the retriever's."""
    root = row("chain", {"question": "How far?"}, {"output": "I don't know."}, id="root")
    for outputs in ({"documents": []}, {"output": []}, {"contexts": []}):
        found = record(root, row("retriever", {"query": "How far?"}, outputs, "root"))
        assert (found.context, found.gap("context")) == ((), None)


def test_a_failed_retriever_and_a_hidden_one_say_so() -> None:
    """An error is no setting, `{}` on a run that ended well is one."""
    failed = reading("retriever", {"query": "How far?"}, None, status="error", error="Timeout()")
    assert failed.documents is None
    assert "failed" in failed.remedy

    hidden = reading("retriever", {"query": "How far?"}, {}, status="success")
    assert (hidden.documents, hidden.content) == (None, "off")
    assert "LANGSMITH_HIDE_OUTPUTS" in hidden.remedy


def test_documents_keep_ids_metadata_and_scores() -> None:
    """A pair of a document and its score is LangChain's search with scores."""
    plain = reading("retriever", {"query": "q"}, {"output": [[{**DOCUMENT, "id": "moon"}, 0.5]]})

    assert plain.documents is not None
    assert [(d.id, d.score) for d in plain.documents] == [("moon", 0.5)]


def test_a_retriever_that_returns_one_text_is_read_as_a_tool_that_answered() -> None:
    """Its numbers count, as in the result of a search tool."""
    root = row("chain", {"question": "How far?"}, {"output": "Far [2]."}, id="root")
    joined = row("retriever", {"query": "How far?"}, {"output": f"[1] {MARS}\n\n[2] {MOON}"}, "root")
    found = record(root, joined)

    assert [p.text for p in found.context] == [MARS, MOON]
    assert [c.passage_id for c in found.citations] == [found.context[1].id]


def test_a_retrieval_seen_many_times_is_one_and_the_deepest_retriever_its_target() -> None:
    """A function around a retriever, a lambda, the root's context and a tool's artifact tell the same passages."""
    listed = [{**DOCUMENT, "id": "moon"}, {**DOCUMENT, "page_content": MARS, "id": "mars"}]
    message = {"type": "tool", "content": f"{MOON}\n\n{MARS}", "tool_call_id": "c", "artifact": listed, "name": "s"}
    rows = [
        row("chain", {"question": "How far?"}, {"answer": "Far [1].", "context": listed}, id="root"),
        row("tool", {"query": "How far?"}, {"output": message}, "root", id="tool"),
        row("retriever", {"query": "How far?"}, {"output": [MOON, MARS]}, "tool", id="around"),
        row("chain", {"input": "How far?"}, {"output": listed}, "around", id="lambda"),
        row("retriever", {"query": "How far?"}, {"documents": listed}, "lambda", id="deepest"),
    ]
    found = record(*rows)

    assert [(p.id, p.text) for p in found.context] == [("moon", MOON), ("mars", MARS)]
    targets = [p.target for p in found.context]
    assert [(t[0].span_id, t[1]) for t in targets if t is not None] == [("deepest", 0), ("deepest", 1)]
    assert found.targets["retrieval"].span_id == "deepest"


def test_what_a_compressor_drops_is_no_context() -> None:
    """The retriever around another hands on what counts, in its order; ranks and targets are the inner one's."""
    inner = [{**DOCUMENT, "id": "mars", "page_content": MARS}, {**DOCUMENT, "id": "moon"}]
    rows = [
        row("chain", {"question": "How far?"}, {"output": "Far."}, id="root"),
        row("retriever", {"query": "How far?"}, {"documents": inner[1:]}, "root", id="compressor"),
        row("retriever", {"query": "How far?"}, {"documents": inner}, "compressor", id="base"),
    ]
    found = record(*rows)

    assert [(p.id, p.rank, p.retrieval_rank) for p in found.context] == [("moon", 1, 2)]
    assert found.context[0].target is not None
    assert found.context[0].target[0].span_id == "base"


# --- chains, prompts, tools -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"input": "How far?"}, {"output": "Far."}),
        ({"input": "How far?"}, {"input": "How far?", "context": [DOCUMENT], "answer": "Far."}),
        ({"question": "How far?", "k": 3}, {"answer": "Far."}),
        ({"question": "How far?"}, {"output": {"answer": "Far.", "context": [DOCUMENT]}}),
        ({"q": "How far?", "args": [1], "z": 2}, {"output": {"output": "Far."}}),
        ({"query": "How far?"}, {"query": "How far?", "result": "Far.", "source_documents": [DOCUMENT]}),
        ({"question": "How far?"}, {"question": "How far?", "generation": "Far.", "documents": [DOCUMENT]}),
        (
            {"messages": [{"type": "human", "content": "How far?"}]},
            {"messages": [{"type": "human", "content": "How far?"}, {"type": "ai", "content": "Far."}]},
        ),
        ({"messages": [["user", "Hi"], ["ai", "Hello"], ["user", "How far?"]]}, {"messages": [["ai", "Far."]]}),
        ({"question": "How far?"}, {"output": ["Fa", "r", ".", " "]}),
    ],
)
def test_a_request_is_read_however_it_is_wrapped(inputs: Any, outputs: Any) -> None:
    """Single values under `input` and `output`, objects as they are or under `output`, states of graphs, streams."""
    found = reading("chain", inputs, outputs)

    assert found.role == "request"
    assert found.query is not None
    assert found.query.value == "How far?"
    assert found.output is not None
    assert found.output.value.strip() == "Far."


def test_a_list_a_chain_returns_is_not_its_answer() -> None:
    """Rewritten questions are neither passages nor an answer, documents are passages."""
    rewritten = reading("chain", {"question": "How far?"}, {"output": ["How far is the Moon?", "Moon distance?"]})
    handed = reading("chain", {"input": "How far?"}, {"output": [DOCUMENT]})
    spoken = reading("chain", {"input": "How far?"}, {"output": [{"type": "human", "content": "Hi"}]})

    assert (rewritten.documents, rewritten.output) == (None, None)
    assert texts(handed) == [(None, MOON)]
    assert handed.output is None
    assert spoken.documents is None


def test_sources_that_are_addresses_are_no_passages() -> None:
    """They name what was found, they are not its text."""
    found = record(row("chain", {"question": "How far?"}, {"answer": "Far.", "sources": ["https://moon.example"]}))

    assert found.context == ()
    assert found.gap("context") is not None


def test_a_context_handed_on_as_one_text_is_split_by_its_numbers() -> None:
    """As a chain that formats its documents returns it."""
    held = {"answer": "Far [2].", "context": f"[1] {MARS}\n\n[2] {MOON}"}
    found = record(row("chain", {"question": "How far?"}, held))

    assert [p.text for p in found.context] == [MARS, MOON]


def test_the_state_of_a_graph_tells_no_passages_of_an_earlier_turn() -> None:
    """What a node is given and what the graph gives back may be left over; what a node returns is not."""
    thread = {"thread_id": "th", "ls_integration": "langgraph"}
    node = {"metadata": {**thread, "langgraph_node": "n"}}
    old = [{"page_content": VENUS}]
    state = {"question": "How far?", "context": old}

    def asked(*steps: dict[str, Any]) -> Record:
        root = row(
            "chain", {"question": "How far?"}, {**state, "answer": "Far."}, id="root", extra={"metadata": thread}
        )
        return record(root, *steps)

    answered = row("chain", state, {"answer": "Far."}, "root", id="generate", extra=node)
    retrieved = row("chain", state, {"context": [DOCUMENT]}, "root", id="retrieve", extra=node)
    assert [p.text for p in asked(retrieved, answered).context] == [MOON]
    assert asked(answered).context == ()
    assert asked(answered).gap("context") is not None


def test_a_prompt_template_names_the_parts_of_the_prompt() -> None:
    """Its operation is `chat` in an exported span, and yet it is no call to a model."""
    found = reading("prompt", {"question": "How far?", "context": [DOCUMENT]}, {"output": {"messages": []}})

    assert found.role == "request"
    assert found.variables["question"].value == "How far?"
    assert texts(found) == [(None, MOON)]
    assert found.query is None


def test_a_parser_and_an_embedding_say_nothing_of_their_own() -> None:
    """A parser's span is no generation either."""
    assert reading("parser", {"input": {"content": "Far."}}, {"output": "Far."}).role == "request"
    assert reading("embedding", {"input": "How far?"}, {"output": [0.1]}).role == "embedding"


@pytest.mark.parametrize(
    "result",
    [
        {"type": "tool", "content": MOON, "tool_call_id": "c", "artifact": [DOCUMENT]},
        [{"type": "tool", "content": MOON, "tool_call_id": "c", "artifact": [DOCUMENT]}],
        {"update": {"messages": [{"type": "tool", "content": MOON, "tool_call_id": "c", "artifact": [DOCUMENT]}]}},
    ],
    ids=["message", "list", "command"],
)
def test_a_tool_answers_with_a_message(result: Any) -> None:
    """LangChain's message, also inside of a graph's command: the text the model sees, the documents beside it."""
    tool = reading("tool", {"query": "How far?"}, {"output": result}).tool

    assert tool is not None
    assert tool.id == "c"
    assert tool.result is not None
    assert tool.result.value == MOON
    assert [d.text and d.text.value for d in tool.documents] == [MOON]


def test_a_tool_that_returns_documents_lists_them() -> None:
    """Without a message around them."""
    tool = reading("tool", {"query": "How far?"}, {"output": [DOCUMENT]}).tool

    assert tool is not None
    assert [d.text and d.text.value for d in tool.documents] == [MOON]


# --- calls to a model -------------------------------------------------------------------------------------------------

LC = {"lc": 1, "type": "constructor"}
HUMAN = {**LC, "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": PROMPT}}
AI = {**LC, "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {"content": "Far.", "type": "ai"}}
SAID = {"generations": [[{"text": "Far.", "type": "ChatGeneration", "message": AI}]], "type": "LLMResult"}


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({"messages": [[HUMAN]]}, SAID),
        ({"prompts": [PROMPT]}, {"generations": [[{"text": "Far.", "type": "Generation"}]]}),
        (
            {"messages": [{"role": "user", "content": PROMPT}], "model": "m"},
            {"choices": [{"message": {"role": "assistant", "content": "Far."}}], "usage_metadata": {}},
        ),
        (
            {"input": PROMPT, "model": "m"},
            {
                "output": [
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Far."}]}
                ]
            },
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Far."}]},
        ),
        ({"messages": [{"role": "user", "content": PROMPT}]}, {"messages": [{"role": "assistant", "content": "Far."}]}),
        ({"input": PROMPT}, {"text": "Far."}),
        ({"prompt": PROMPT}, {"output": "Far."}),
        ({"text_in": PROMPT}, {"output": {"type": "ai", "content": "Far."}}),
    ],
    ids=["langchain", "text model", "chat", "responses", "anthropic", "ingested", "ingested text", "own", "message"],
)
def test_a_call_is_read_whichever_library_made_it(inputs: Any, outputs: Any) -> None:
    """LangChain's constructors in a list of lists, wrapped clients, functions, spans others ingested."""
    found = reading("llm", inputs, outputs)

    assert found.role == "generation"
    assert [m.text and m.text.value for m in found.messages if m.role == "user"] == [PROMPT]
    assert found.output is not None
    assert found.output.value == "Far."
    assert found.calls == ()


@pytest.mark.parametrize(
    "outputs",
    [
        {
            "generations": [
                [
                    {
                        "text": "",
                        "message": {
                            **AI,
                            "kwargs": {"content": "", "tool_calls": [{"name": "look", "args": {"q": 1}}]},
                        },
                    }
                ]
            ]
        },
        {
            "choices": [
                {"message": {"content": None, "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]}}
            ]
        },
        {"output": [{"type": "function_call", "name": "look", "arguments": "{}", "call_id": "c"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "look", "input": {"q": 1}}]},
    ],
    ids=["langchain", "chat", "responses", "anthropic"],
)
def test_a_call_that_asks_for_a_tool_has_no_answer(outputs: Any) -> None:
    """The tool it asks for is told instead."""
    found = reading("llm", {"messages": [["user", "How far?"]]}, outputs)

    assert found.output is None
    assert [t.name for t in found.calls] == ["look"]


def test_the_named_parts_of_a_function_that_calls_a_model_are_its_prompts() -> None:
    """Where it is given a question and a context, and no messages."""
    found = reading("llm", {"question": "How far?", "context": MOON}, {"output": "Far."})

    assert found.messages == ()
    assert {k: v.value for k, v in found.variables.items()} == {"question": "How far?", "context": MOON}


def test_citations_of_wrapped_clients_are_kept() -> None:
    """OpenAI's annotations with the passages of its file search, Anthropic's by document."""
    noted = {"type": "file_citation", "file_id": "f1", "filename": "moon.md", "index": 3}
    parts = [{"type": "output_text", "text": "Far.", "annotations": [noted]}]
    results = [{"file_id": "f1", "text": MOON, "score": 0.5}]
    outputs: dict[str, Any] = {
        "output": [
            {"type": "file_search_call", "results": results},
            {"type": "message", "role": "assistant", "content": parts},
        ]
    }
    found = record(row("llm", {"input": "How far?"}, outputs))
    assert [(p.id, p.text) for p in found.context] == [("f1", MOON)]
    assert [c.passage_id for c in found.citations] == ["f1"]

    cited = [{"type": "char_location", "document_index": 1, "cited_text": "The Moon"}]
    handed = [{"type": "document", "source": {"type": "text", "data": t}} for t in (MARS, MOON)]
    asked = {"messages": [{"role": "user", "content": [*handed, {"type": "text", "text": "How far?"}]}]}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "Far.", "citations": cited}]}
    found = record(row("llm", asked, reply))
    assert [p.text for p in found.context] == [MARS, MOON]
    assert [c.passage_id for c in found.citations] == [found.context[1].id]


def test_the_providers_id_of_a_reply_is_kept_and_langchains_own_is_not() -> None:
    """What a platform knows the reply by."""
    named = {**AI, "kwargs": {"content": "Far.", "id": "lc_run--1", "response_metadata": {"id": "chatcmpl-1"}}}
    own = {**AI, "kwargs": {"content": "Far.", "id": "lc_run--1"}}

    def replied(message: Any) -> Any:
        return {"generations": [[{"text": "Far.", "message": message}]]}

    assert reading("llm", {"messages": [[HUMAN]]}, replied(named)).response_id == "chatcmpl-1"
    assert reading("llm", {"messages": [[HUMAN]]}, replied(own)).response_id is None
    assert reading("llm", {"input": "Hi"}, {"id": "resp_1", "output": []}).response_id == "resp_1"


# --- what is not there ------------------------------------------------------------------------------------------------


def test_hidden_inputs_and_outputs_are_gaps_that_name_the_setting() -> None:
    """`{}` on every run, in both forms."""
    rows = [row("chain", {}, {}, id="root"), row("llm", {}, {}, "root"), row("retriever", {}, {}, "root")]
    found = record(*rows)

    reasons = {g.field: (g.reason, g.remedy.split()[1]) for g in found.gaps}
    assert reasons == {
        "query": ("content_off", "LANGSMITH_HIDE_INPUTS"),
        "context": ("content_off", "LANGSMITH_HIDE_OUTPUTS"),
        "answer": ("content_off", "LANGSMITH_HIDE_OUTPUTS"),
    }


def test_a_function_without_arguments_hides_nothing() -> None:
    """The retriever tells what was asked."""
    rows = [
        row("chain", {}, {"output": "Far."}, id="root"),
        row("retriever", {"query": "How far?"}, {"output": [MOON]}, "root"),
    ]
    assert record(*rows).query == "How far?"


def test_a_run_that_has_not_ended_hides_nothing() -> None:
    """Its outputs are empty for now."""
    found = reading("chain", {"question": "How far?"}, {}, status="pending")
    assert found.output is None


def test_content_that_is_not_in_the_row_is_elsewhere() -> None:
    """Large payloads stand in object storage; a pull may not have asked for them."""
    kept = reading("llm", None, None, inputs_s3_urls={"ROOT": {}}, outputs_s3_urls={"ROOT": {"presigned_url": "u"}})
    assert kept.content == "elsewhere"
    assert kept.output is not None
    assert kept.output.state == "elsewhere"
    assert "outputs_s3_urls" in kept.output.remedy

    held = {k: v for k, v in row("llm").items() if k not in {"inputs", "outputs"}}
    found = LangSmith().reading(run(held))
    assert found is not None
    assert found.content == "elsewhere"
    assert "select" in found.remedy


def test_masked_and_cut_texts_are_gaps() -> None:
    """An anonymizer leaves its mark, a limit of the exporter half an object."""
    masked = reading("chain", {"question": "[REDACTED]"}, {"output": "[REDACTED]"})
    assert masked.query is not None
    assert (masked.query.state, "anonymizer" in masked.query.remedy) == ("masked", True)

    whole = json.dumps({"documents": [DOCUMENT, DOCUMENT]})
    cut = LangSmith().reading(exported_span("retriever", **{"gen_ai.completion": whole[:90]}))
    assert cut is not None
    assert cut.documents is not None
    assert [d.text and d.text.state for d in cut.documents] == ["truncated"]
    call = LangSmith().reading(exported_span("llm", **{"gen_ai.prompt": whole[:90], "gen_ai.completion": whole[:90]}))
    assert call is not None
    assert [m.text and m.text.state for m in call.messages] == ["truncated"]
    assert call.output is not None
    assert call.output.state == "truncated"


# --- whose it is ------------------------------------------------------------------------------------------------------


def test_metadata_tells_session_user_model_and_prompt() -> None:
    """In both forms, under any of the three names of a session; the project's id is none."""
    held = {"thread_id": "th", "user_id": "u", "ls_model_name": "m", "lc_hub_commit_hash": "abc"}
    told = {f"langsmith.metadata.{k}": v for k, v in held.items()}
    told |= {"langsmith.trace.session_name": "project", "langsmith.trace.session_id": "project-id"}
    exported = LangSmith().reading(exported_span("llm", **told, **{"langsmith.span.tags": "mine, seq:step:1"}))
    rows = run(row("llm", None, None, session_id="project-id", tags=["mine", "graph:step:2"], extra={"metadata": held}))

    for found in (exported, LangSmith().reading(rows)):
        assert found is not None
        assert (found.session, found.user, found.model) == ("th", "u", "m")
        assert found.slices == {"prompt_version": "abc"}
        assert found.tags == ("mine",)


def test_rows_of_the_second_api_are_read_too() -> None:
    """Types and states in capitals, metadata beside the inputs."""
    second = row("LLM", {"input": "How far?"}, {"text": "Far."}, status="SUCCESS", metadata={"session_id": "s"})
    del second["extra"]
    found = LangSmith().reading(run(second))

    assert found is not None
    assert (found.role, found.session) == ("generation", "s")


def test_a_span_marked_by_hand_leaves_its_content_to_the_vocabulary_it_is_in() -> None:
    """LangSmith's kind and metadata, the content as older GenAI instrumentations write it."""
    held = {"langsmith.span.kind": "LLM", "langsmith.metadata.user_id": "u", "llm.request.type": "chat"}
    held |= {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": PROMPT,
        "gen_ai.completion.0.content": "Far [2].",
    }
    (found,) = read(Trace(traces([row("llm")])[0].ref, (Span("s", "t", attributes=held),)), CONVENTIONS)

    assert (found.query, found.answer) == ("How far is the Moon?", "Far [2].")
    assert [p.text for p in found.context] == [MARS, MOON]
    assert found.ref.keys == {"user_id": "u"}


def test_evaluators_stand_aside() -> None:
    """What an evaluator asks a model is no request of the user's."""
    held = {"langsmith.trace.session_name": "evaluators"}
    found = LangSmith().reading(exported_span("chain", **held))
    assert found is not None
    assert found.aside


def test_a_span_that_only_carries_metadata_tells_whose_it_is() -> None:
    """And nothing where it does not even do that."""
    found = LangSmith().reading(Span("s", "t", attributes={"langsmith.metadata.session_id": "s"}))
    assert found is not None
    assert (found.role, found.session) == ("other", "s")
    assert LangSmith().reading(Span("s", "t", attributes={"langsmith.metadata.x": "s"})) is None
