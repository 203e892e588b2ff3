"""One TruLens span at a time: what the recorder noted, and the call itself as Python prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.trulens import TruLens
from groundtrace.model import Reading, Said, Span
from groundtrace.testing import ConventionContract
from spans import MARS, MOON, PROMPT, found

BASE = "ai.observability."
PRINTED = (
    'messages=[SystemMessage(content="Don\'t guess.", additional_kwargs={}, response_metadata={}), '
    f"HumanMessage(content={PROMPT!r}, additional_kwargs={{}}, response_metadata={{}})]"
)
KINDS = ["record_root", "nested_record_root", "retrieval", "reranking", "generation", "agent", "tool", "MCP", "unknown"]
NAMES = st.sampled_from(
    [
        *("span_type", "record_root.input", "record_root.output", "call.return", "call.kwargs.input", "call.function"),
        *("call.kwargs.messages", "call.kwargs.contexts", "call.kwargs.query", "retrieval.query_text", "cost.model"),
        *("retrieval.retrieved_contexts", "reranking.output_context_texts", "reranking.output_context_scores"),
        *("generation.is_streaming", "mcp.output_content", "mcp.input_arguments", "conversation_id", "app_name"),
    ]
).map(lambda name: BASE + name)
ODD = st.sampled_from(
    ["content='It was cut", "messages=[HumanMessage(content='", "[AIMessage(content=[{", "content='\\x'"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def span(kind: str, name: str = "step", given: dict[str, Any] | None = None, **attributes: Any) -> Span:
    """A span of this type, called with `given`; two underscores in names stand for a dot."""
    held = {f"{BASE}{key.replace('__', '.')}": value for key, value in attributes.items()}
    held |= {f"{BASE}call.kwargs.{key}": value for key, value in (given or {}).items()}
    return Span("s", "t", name=name, attributes={f"{BASE}span_type": kind, **held}, scope="trulens")


def reading(kind: str, name: str = "step", given: dict[str, Any] | None = None, **attributes: Any) -> Reading:
    """The reading of such a span."""
    found = TruLens().reading(span(kind, name, given, **attributes))
    assert found is not None
    return found


def words(said: Said | None) -> str | None:
    """The text that is said."""
    return said.value if said is not None else None


def texts(reading: Reading) -> list[str | None]:
    """The texts of the documents."""
    return [words(document.text) for document in reading.documents or ()]


class TestTruLens(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> TruLens:
        """The convention."""
        return TruLens()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        named: dict[str, Any] = {"record_root__input": "How far?", "call__return": "Far.", "conversation_id": "c"}
        lists: dict[str, Any] = {"retrieval__retrieved_contexts": [MOON], "reranking__output_context_texts": [MOON]}
        given = {"input": PRINTED, "contexts": [MOON]}
        return [span(kind, given=given, **named, **lists, generation__is_streaming=True) for kind in KINDS]


# --- the request ------------------------------------------------------------------------------------------------------


def test_the_root_says_what_was_asked_and_answered() -> None:
    """As the recorder noted it, with the app, its version and the conversation."""
    named = {"record_root__input": "How far?", "record_root__output": "Far.", "conversation_id": "c"}
    found = reading("record_root", **named, app_name="rag", app_version="v1", run__name="")

    assert found.role == "request"
    assert found.query == Said("How far?", f"{BASE}record_root.input")
    assert found.output == Said("Far.", f"{BASE}record_root.output")
    assert (found.session, found.slices) == ("c", {"app": "rag", "app_version": "v1"})


def test_a_root_the_recorder_noted_nothing_on_has_its_call() -> None:
    """What it was called with and what it returned, printed or not."""
    plain = reading("nested_record_root", given={"question": "How far?"}, call__return="Far.")
    printed = reading("record_root", given={"input": PRINTED}, call__return="content='Far [2].' additional_kwargs={}")

    assert (words(plain.query), words(plain.output)) == ("How far?", "Far.")
    assert (words(printed.query), words(printed.output)) == (PROMPT, "Far [2].")


def test_a_streamed_answer_is_put_together() -> None:
    """Only its last piece is noted as the output."""
    pieces = {"record_root__output": " far.", "call__return": ["It is [1]", "[2]", " far.", ""]}
    found = reading("record_root", record_root__input="How far?", **pieces, generation__is_streaming=True)

    assert found.output == Said("It is [1][2] far.", f"{BASE}call.return")


@pytest.mark.parametrize(
    "piece",
    ['{"answer": "It is"}', "{'answer': 'It is'}", "ChatCompletionChunk(id='c')", "<a.B object at 0x7f>", 7, None],
)
def test_a_streamed_answer_in_objects_is_not_whole(piece: Any) -> None:
    """The last of them is no answer, and neither are all of them joined."""
    found = reading("record_root", record_root__output="far.", call__return=[piece], generation__is_streaming=True)

    assert found.output is not None
    assert (found.output.state, "does not stream" in found.output.remedy) == ("truncated", True)


def test_a_list_that_was_not_streamed_is_no_stream() -> None:
    """The output stands as it was noted."""
    found = reading("record_root", record_root__output="Far.", call__return=["Far.", "0.9"])

    assert words(found.output) == "Far."


@pytest.mark.parametrize("kind", ["eval", "eval_root", "eval_decision", "guardrail"])
def test_evaluations_stand_aside(kind: str) -> None:
    """Their own calls to a model are no answers."""
    found = reading(kind, record_root__input="How far?", call__return="1.0")

    assert (found.aside, found.role, found.output) == (True, "other", None)


# --- retrieval --------------------------------------------------------------------------------------------------------


def test_a_retrieval_says_what_it_was_asked_and_what_it_found() -> None:
    """Texts in their order; nothing found is nothing found."""
    found = reading("retrieval", retrieval__query_text="How far?", retrieval__retrieved_contexts=[MOON, MARS])

    assert (found.role, words(found.query), texts(found)) == ("retrieval", "How far?", [MOON, MARS])
    assert reading("retrieval", retrieval__retrieved_contexts=[]).documents == ()


def test_a_retrieval_without_its_attributes_has_its_call() -> None:
    """Documents as Python prints them are no texts: a gap then names the attribute."""
    plain = reading("retrieval", given={"query": "How far?"}, call__return=[MOON, MARS])
    printed = reading("retrieval", call__return=[f"page_content={MOON!r} metadata={{}}"])

    assert (words(plain.query), texts(plain)) == ("How far?", [MOON, MARS])
    assert printed.documents is None
    assert "RETRIEVED_CONTEXTS" in printed.remedy


def test_a_reranker_keeps_texts_and_scores() -> None:
    """In the order it gave them."""
    lists = {"reranking__output_context_texts": [MARS, MOON], "reranking__output_context_scores": [0.9, "x"]}
    found = reading("reranking", reranking__query_text="How far?", **lists)

    assert (found.role, words(found.query), texts(found)) == ("rerank", "How far?", [MARS, MOON])
    assert [d.score for d in found.documents or ()] == [0.9, None]
    assert reading("reranking").documents is None


def test_an_untyped_step_that_looks_things_up_is_a_retrieval() -> None:
    """@instrument() alone gives no type; its name and what it returned do."""
    found = reading("unknown", "RAG.retrieve", {"query": "How far?"}, call__return=[MOON, MARS])
    printed = [f"page_content={MOON!r} metadata={{}}"]

    assert (found.role, words(found.query), texts(found)) == ("retrieval", "How far?", [MOON, MARS])
    assert reading("unknown", "VectorStoreRetriever.invoke", call__return=printed).role == "other"
    assert reading("unknown", "RAG.split", {"text": "A. B."}, call__return=["A.", "B."]).role == "other"


def test_a_filled_template_names_its_parts() -> None:
    """LangChain's prompt is called with them."""
    given = {"input": f'{{"context": "[1] {MOON}", "question": "How far?"}}', "config": "{'tags': []}"}
    found = reading("unknown", "ChatPromptTemplate.invoke", given, call__return=PRINTED)

    assert {name: said.value for name, said in found.variables.items()} == {
        "context": f"[1] {MOON}",
        "question": "How far?",
    }


# --- generation and tools ---------------------------------------------------------------------------------------------


def test_a_generation_of_the_users_own_is_given_passages() -> None:
    """They are its arguments."""
    given = {"query": "How far?", "contexts": [MOON, MARS], "model": "gpt-4o"}
    found = reading("generation", given=given, call__return="Far [1].", cost__model="gpt-4o")

    assert (texts(found), words(found.output), found.model) == ([MOON, MARS], "Far [1].", "gpt-4o")
    assert [words(m.text) for m in found.messages] == ["How far?"]


def test_langchains_messages_are_read_as_they_are_printed() -> None:
    """Escapes are undone; only literals are looked at."""
    found = reading("generation", given={"input": PRINTED}, call__return="content='Far [2].' additional_kwargs={}")

    assert [(m.role, words(m.text)) for m in found.messages] == [("system", "Don't guess."), ("user", PROMPT)]
    assert words(found.output) == "Far [2]."
    assert found.calls == ()


def test_a_generation_that_asks_for_a_tool_is_no_answer() -> None:
    """Its content is empty."""
    told = "content='' additional_kwargs={} tool_calls=[{'name': 'search', 'args': {}, 'id': 'c'}] usage_metadata={}"
    found = reading("generation", given={"input": PRINTED}, call__return=told)

    assert ([call.name for call in found.calls], found.output) == (["search"], None)


def test_printed_tool_results_belong_to_the_conversation() -> None:
    """LangGraph's state holds them after the question."""
    talk = f"[HumanMessage(content='How far?'), AIMessage(content=''), ToolMessage(content={MOON!r}, name='search')]"
    found = reading("generation", given={"input": talk}, call__return="content='Far.' id='x'")

    assert [m.role for m in found.messages] == ["user", "assistant", "tool"]
    assert [words(t.result) for t in found.messages[2].tools] == [MOON]


def test_a_printed_prompt_that_breaks_off_is_truncated() -> None:
    """What is left of the last message is not whole."""
    found = reading("generation", given={"input": PRINTED[:200]}, call__return="content='It is far, as the bo")

    assert [m.text.state for m in found.messages if m.text] == ["present", "truncated"]
    assert found.output is None or found.output.value != "It is far, as the bo"


def test_printed_blocks_have_no_text_and_hide_none() -> None:
    """The next message tells itself."""
    talk = "[HumanMessage(content=[{'type': 'image'}]), HumanMessage(content='How far?')]"

    assert [words(m.text) for m in reading("generation", given={"input": talk}).messages] == [None, "How far?"]


def test_streamed_messages_are_put_together() -> None:
    """LangChain's chunks, each printed."""
    pieces = ["content='It is ' additional_kwargs={}", 'content="far." additional_kwargs={}', "content='' id='c'"]
    found = reading("generation", given={"input": PRINTED}, call__return=pieces, generation__is_streaming=True)

    assert words(found.output) == "It is far."


def test_a_tool_answers() -> None:
    """By what it returned, or by what an MCP server did; LangGraph's tool node answers in messages."""
    plain = reading("tool", "search", {"query": "How far?"}, call__return=MOON).tool
    node = f"{{'messages': [ToolMessage(content={'[1] ' + MOON!r}, name='search', tool_call_id='c')]}}"
    graph = reading("tool", "search", {"input": PRINTED}, mcp__tool_name="kb", mcp__output_content=node)

    assert plain is not None
    assert (plain.name, words(plain.arguments), words(plain.result)) == ("search", "How far?", MOON)
    assert graph.tool is not None
    assert (graph.tool.name, words(graph.tool.result)) == ("kb", f"[1] {MOON}")
    assert words(graph.query) == PROMPT


def test_a_masked_text_says_so() -> None:
    """What an app masks before it is called is masked."""
    found = reading("record_root", record_root__input="[REDACTED]", record_root__output="Far.")

    assert found.query is not None
    assert found.query.state == "masked"


def test_a_span_without_a_type_says_nothing() -> None:
    """Attributes of the recorder alone do not make a step."""
    assert TruLens().reading(Span("s", "t", attributes={f"{BASE}app_name": "rag"})) is None


def test_a_whole_trace_is_a_record() -> None:
    """Contexts as the prompt numbers them, with their places in the retrieval."""
    parts = [
        span("record_root", record_root__input="How far is the Moon?", record_root__output="Far [2]."),
        span("retrieval", retrieval__query_text="How far is the Moon?", retrieval__retrieved_contexts=[MOON, MARS]),
        span("generation", given={"input": PRINTED}, call__return="content='Far [2].' additional_kwargs={}"),
        span("eval_root", record_root__input="Is it grounded?", record_root__output="Yes."),
    ]
    trace = (
        Span(str(n), "t", parent_id="0" if n else None, start=n, attributes=s.attributes) for n, s in enumerate(parts)
    )
    (record,) = found(*trace)

    assert (record.query, record.answer) == ("How far is the Moon?", "Far [2].")
    assert [(p.text, p.rank, p.retrieval_rank) for p in record.context] == [(MARS, 1, 2), (MOON, 2, 1)]
    assert [record.passage(c.passage_id) for c in record.citations] == [record.context[1]]
    assert record.gaps == ()


@given(st.sampled_from(KINDS), st.dictionaries(NAMES, VALUES, max_size=8))
def test_a_hostile_span_raises_nothing(kind: str, attributes: dict[str, Any]) -> None:
    """Whatever stands in any attribute."""
    TruLens().reading(Span("s", "t", attributes={f"{BASE}span_type": kind, **attributes}))
