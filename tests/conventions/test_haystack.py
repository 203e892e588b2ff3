"""One span of Haystack's own tracer at a time: components by their class, pipelines, agents, content that is off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.haystack import Haystack
from groundtrace.model import Reading, Span
from groundtrace.testing import ConventionContract
from spans import MARS, MOON, one

GIVEN, TOLD = "haystack.component.input", "haystack.component.output"
DOCUMENTS = [
    {"title": "The Moon", "id": "moon", "content": MOON, "blob": None, "score": 0.9, "embedding": None},
    {"title": "Mars", "id": "mars", "content": MARS, "blob": None, "score": 0.5, "embedding": None},
]
SYSTEM: dict[str, Any] = {"role": "system", "meta": {}, "name": None, "content": [{"text": "Be brief."}]}
ASKED: dict[str, Any] = {"role": "user", "meta": {}, "name": None, "content": [{"text": "How far?"}]}
CALLED = {
    "role": "assistant",
    "content": [{"tool_call": {"tool_name": "look", "arguments": {"query": "far"}, "id": "c1", "extra": None}}],
}
ANSWERED = {
    "role": "tool",
    "content": [{"tool_call_result": {"result": MOON, "origin": {"tool_name": "look", "id": "c1"}, "error": False}}],
}
REPLY = {"role": "assistant", "meta": {"model": "gpt-4o"}, "content": [{"text": "Far."}]}


def component(kind: str, given_it: Any = None, told: Any = None, **span: Any) -> Span:
    """The span of a component of this class; None is not written."""
    held = {"haystack.component.name": "it", "haystack.component.type": kind}
    written = {GIVEN: given_it, TOLD: told}
    held |= {k: v if isinstance(v, str) else json.dumps(v) for k, v in written.items() if v is not None}
    return Span("s", "t", name="haystack.component.run", attributes=held, **span)


def pipeline(given_it: Any, told: Any = None, name: str = "haystack.pipeline", **span: Any) -> Span:
    """The span of a pipeline's run."""
    held = {f"{name}.input_data": given_it, f"{name}.output_data": told}
    written = {k: v if isinstance(v, str) else json.dumps(v) for k, v in held.items() if v is not None}
    return Span(span.pop("ident", "p"), "t", name=f"{name}.run", attributes=written, **span)


def read(span: Span) -> Reading:
    """The reading of a span that has one."""
    found = Haystack().reading(span)
    assert found is not None
    return found


class TestHaystack(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> Haystack:
        """The convention."""
        return Haystack()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        kinds = ["InMemoryBM25Retriever", "OpenAIChatGenerator", "PromptBuilder", "Agent", "ToolInvoker", "LLMRanker"]
        given_it = {"query": "far", "messages": [ASKED], "documents": DOCUMENTS}
        told = {"documents": DOCUMENTS, "replies": [REPLY], "tool_messages": [ANSWERED]}
        return [
            *(component(kind, given_it, told) for kind in kinds),
            pipeline({"r": {"query": "far"}}, {"llm": {"replies": [REPLY]}}),
        ]


@pytest.mark.parametrize("kind", ["InMemoryBM25Retriever", "QdrantEmbeddingRetriever", "SerperDevWebSearch"])
def test_a_retriever_tells_what_it_asked_for_and_what_it_found(kind: str) -> None:
    """Documents have ids, scores and their metadata beside them."""
    found = read(component(kind, {"query": "far", "top_k": 2}, {"documents": DOCUMENTS}))

    assert found.role == "retrieval"
    assert found.query is not None
    assert found.query.value == "far"
    assert [(d.id, d.score, d.text and d.text.value) for d in found.documents or ()] == [
        ("moon", 0.9, MOON),
        ("mars", 0.5, MARS),
    ]
    assert found.documents is not None
    assert found.documents[0].metadata == {"title": "The Moon"}
    assert found.slices == {"retriever": kind}


def test_no_documents_are_none_found_and_another_shape_is_no_list() -> None:
    """An empty list was returned; what is no list of documents is not told."""
    assert read(component("BM25Retriever", {"query": "far"}, {"documents": []})).documents == ()
    assert read(component("BM25Retriever", {"query": "far"}, {"documents": 7})).documents is None
    assert read(component("BM25Retriever", {"query": "far"})).documents is None


def test_what_reorders_or_widens_documents_is_no_retriever() -> None:
    """A ranker, a joiner, and a retriever that takes another one's documents."""
    assert read(component("LostInTheMiddleRanker", {"documents": DOCUMENTS}, {"documents": DOCUMENTS})).role == "rerank"
    assert read(component("DocumentJoiner", {"documents": [DOCUMENTS]}, {"documents": DOCUMENTS})).role == "rerank"
    window = component(
        "SentenceWindowRetriever",
        {"retrieved_documents": DOCUMENTS[:1]},
        {"context_windows": [MOON], "context_documents": DOCUMENTS},
    )
    assert read(window).role == "rerank"
    assert [d.id for d in read(window).documents or ()] == ["moon", "mars"]


def test_a_retriever_of_messages_is_none_of_documents() -> None:
    """It reads a talk's history."""
    assert Haystack().reading(component("ChatMessageRetriever", {}, {"messages": [ASKED]})) is None


def test_a_retriever_that_failed_says_so() -> None:
    """What went in is there, so its content is not off."""
    found = read(component("BM25Retriever", {"query": "far"}, status="error"))

    assert found.content == "present"
    assert "failed" in found.remedy


def test_a_prompt_builder_names_what_fills_its_template() -> None:
    """The template itself is no part; variables may be given in a bag of their own."""
    given_it = {"documents": DOCUMENTS, "template": "{{ q }}", "template_variables": {"question": "How far?"}}
    found = read(component("ChatPromptBuilder", given_it, {"prompt": [ASKED]}))

    assert found.role == "other"
    assert {name: s.value for name, s in found.variables.items()} == {"question": "How far?"}
    assert [d.id for d in found.documents or ()] == ["moon", "mars"]


def test_a_chat_generator_tells_its_messages_and_its_first_reply() -> None:
    """Its model stands in the reply's own metadata."""
    found = read(component("OpenAIChatGenerator", {"messages": [SYSTEM, ASKED]}, {"replies": [REPLY, REPLY]}))

    assert found.role == "generation"
    assert [(m.role, m.text and m.text.value) for m in found.messages] == [
        ("system", "Be brief."),
        ("user", "How far?"),
    ]
    assert found.output is not None
    assert (found.output.value, found.output.attribute, found.model) == ("Far.", TOLD, "gpt-4o")


def test_a_generator_of_texts_is_read_alike() -> None:
    """A prompt in, texts out, what is known of them beside them."""
    found = read(component("OpenAIGenerator", {"prompt": "How far?"}, {"replies": ["Far."], "meta": [{"model": "g"}]}))

    assert [m.text.value for m in found.messages if m.text] == ["How far?"]
    assert found.output is not None
    assert (found.output.value, found.model) == ("Far.", "g")


def test_a_component_of_a_users_own_is_told_by_what_it_takes_and_gives() -> None:
    """Replies make a generation, documents for a query a retrieval; anything else is neither."""
    assert read(component("MyModel", {"messages": [ASKED]}, {"replies": [REPLY]})).role == "generation"
    assert read(component("Library", {"query": "far"}, {"documents": DOCUMENTS})).role == "retrieval"
    assert Haystack().reading(component("DocumentSplitter", {"documents": DOCUMENTS}, {"documents": DOCUMENTS})) is None
    assert Haystack().reading(component("AnswerBuilder", {"query": "far"}, {"answers": []})) is None


def test_tool_calls_and_results_are_read_in_either_spelling() -> None:
    """Haystack 2 puts an underscore before the names."""
    older = [
        {"_role": m["role"], "_content": m["content"], "_name": None, "_meta": {}} for m in (ASKED, CALLED, ANSWERED)
    ]
    for talk in ([ASKED, CALLED, ANSWERED], older):
        found = read(component("OpenAIChatGenerator", {"messages": talk}, {"replies": [CALLED]}))

        assert [m.role for m in found.messages] == ["user", "assistant", "tool"]
        (answered,) = found.messages[2].tools
        assert (answered.name, answered.id, answered.result and answered.result.value) == ("look", "c1", MOON)
        assert found.output is None
        assert [(c.name, c.arguments and c.arguments.value) for c in found.calls] == [("look", '{"query": "far"}')]


def test_a_tool_invoker_tells_all_that_its_tools_answered() -> None:
    """One answer is that tool's, several are read together."""
    alone = read(component("ToolInvoker", {"messages": [CALLED]}, {"tool_messages": [ANSWERED]}))
    both = read(component("ToolInvoker", {"messages": [CALLED]}, {"tool_messages": [ANSWERED, ANSWERED]}))

    assert alone.tool is not None
    assert alone.tool.result is not None
    assert (alone.tool.name, alone.tool.result.value) == ("look", MOON)
    assert both.tool is not None
    assert both.tool.result is not None
    assert both.tool.result.value == f"{MOON}\n\n{MOON}"


def test_an_agent_and_its_steps_are_read() -> None:
    """Its talk, its model's calls and its tools have spans of their own."""
    told = {"messages": [SYSTEM, ASKED, CALLED, ANSWERED, REPLY], "last_message": REPLY}
    held = {"haystack.agent.input": json.dumps({"messages": [ASKED]}), "haystack.agent.output": json.dumps(told)}
    agent = read(Span("a", "t", name="haystack.agent.run", attributes=held))
    step = {"input": json.dumps({"messages": [ASKED]}), "output": json.dumps({"replies": [REPLY]})}
    held = {f"haystack.agent.step.llm.{name}": value for name, value in step.items()}
    model = read(Span("m", "t", name="haystack.agent.step.llm", attributes=held))
    held = {
        "haystack.tool.name": "look",
        "haystack.agent.step.tool.input": '{"query": "far"}',
        "haystack.agent.step.tool.output": json.dumps(DOCUMENTS),
    }
    tool = read(Span("l", "t", name="haystack.agent.step.tool", attributes=held))

    assert (agent.role, agent.query and agent.query.value, agent.output and agent.output.value) == (
        "agent",
        "How far?",
        "Far.",
    )
    assert (model.role, model.output and model.output.value) == ("generation", "Far.")
    assert tool.tool is not None
    assert (tool.role, tool.tool.name, [d.id for d in tool.tool.documents]) == ("tool", "look", ["moon", "mars"])
    assert Haystack().reading(Span("x", "t", name="haystack.agent.step", attributes={"haystack.agent.step": 0})) is None


@pytest.mark.parametrize(
    ("given_it", "query"),
    [
        ({"retriever": {"query": "How far?"}, "prompt_builder": {"question": "How far?"}}, "How far?"),
        ({"embedder": {"text": "How far?"}, "retriever": {"top_k": 3}}, "How far?"),
        ({"prompt_builder": {"template_variables": {"question": "How far?"}}, "retriever": {"query": "far"}}, "far"),
        ({"agent": {"messages": [ASKED]}}, "How far?"),
        ({"agent": {"messages": [{"_role": "user", "_content": [{"text": "How far?"}]}]}, "x": {"k": 1}}, "How far?"),
        ({"query": "How far?"}, "How far?"),
        ({"a": {"text": "One"}, "b": {"text": "Two"}}, None),
        ({"retriever": {"top_k": 3}}, None),
    ],
)
def test_a_pipelines_question_is_among_what_its_components_were_called_with(given_it: Any, query: str | None) -> None:
    """A question by its name, a talk, or the one text that is embedded."""
    found = read(pipeline(given_it, {}))

    assert found.role == "request"
    assert (found.query and found.query.value) == query


@pytest.mark.parametrize(
    ("told", "answer"),
    [
        ({"answer_builder": {"answers": [{"data": "Far.", "documents": []}]}, "llm": {"replies": ["Near."]}}, "Far."),
        ({"llm": {"replies": [REPLY]}}, "Far."),
        ({"llm": {"replies": ["Far."], "meta": [{}]}}, "Far."),
        ({"agent": {"messages": [ASKED, REPLY], "last_message": REPLY}}, "Far."),
        ({"agent": {"messages": [ASKED, REPLY, CALLED]}}, None),
        ({"one": {"replies": ["Far."]}, "two": {"replies": ["Near."]}}, None),
        ({"retriever": {"documents": DOCUMENTS}}, None),
    ],
)
def test_a_pipelines_answer_is_what_was_built_or_its_one_reply(told: Any, answer: str | None) -> None:
    """Two models at its ends are not told apart."""
    found = read(pipeline({"retriever": {"query": "far"}}, told))

    assert (found.output and found.output.value) == answer


def test_answers_built_of_a_whole_talk_end_with_the_answer() -> None:
    """AnswerBuilder makes one of every message of an agent's, unless it is told not to."""
    meta = {"all_messages": [ASKED, REPLY]}
    built = [{"data": "How far?", "meta": meta}, {"data": "Far.", "meta": meta}]

    found = read(pipeline({"agent": {"messages": [ASKED]}}, {"answer_builder": {"answers": built}}))

    assert found.output is not None
    assert found.output.value == "Far."


def built(answer: str) -> Span:
    """A pipeline whose answer refers to the first of two documents."""
    documents = [{**d, "meta": {"source_index": n, "referenced": n == 1}} for n, d in enumerate(DOCUMENTS, 1)]
    told = {"answer_builder": {"answers": [{"data": answer, "documents": documents}]}}
    return pipeline({"retriever": {"query": "How far?"}}, told)


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("It is far (1).", [(10, 13, "moon")]),
        ("It is far <1>, not near (2).", [(10, 13, "moon")]),
        ("It is far.", [(None, None, "moon")]),
        ("It is far [1].", []),
    ],
)
def test_documents_an_answer_refers_to_are_its_citations(answer: str, cited: list[Any]) -> None:
    """Where the number stands, else of the whole answer; square brackets are read as they stand."""
    assert [(m.start, m.end, m.document_id) for m in read(built(answer)).citations] == cited


def test_what_a_pipeline_says_is_cited_reaches_the_record() -> None:
    """Its generator tells no citations of its own."""
    told = {"replies": ["It is far (1)."]}
    record = one(
        built("It is far (1)."),
        component("BM25Retriever", {"query": "How far?"}, {"documents": DOCUMENTS}, parent_id="p", start=1),
        Span(
            "g",
            "t",
            name="haystack.component.run",
            parent_id="p",
            start=2,
            attributes=component("OpenAIGenerator", {"prompt": "How far?"}, told).attributes,
        ),
    )

    assert [(c.start, c.end, c.passage_id) for c in record.citations] == [(10, 13, "moon")]


@pytest.mark.parametrize("kind", ["BM25Retriever", "OpenAIChatGenerator", "Agent", "LLM", "ToolInvoker", "LLMRanker"])
def test_a_component_without_content_says_which_setting_it_is(kind: str) -> None:
    """Neither what went in nor what came out is written where content tracing is off."""
    found = read(component(kind))

    assert found.content == "off"
    assert "HAYSTACK_CONTENT_TRACING_ENABLED=true" in found.remedy


def test_a_pipeline_tells_its_question_also_where_content_is_off() -> None:
    """The record lacks its passages and its answer, and says why."""
    root = pipeline({"retriever": {"query": "How far?"}})
    steps = [component(kind).attributes for kind in ("BM25Retriever", "OpenAIChatGenerator")]
    spans = [Span(f"s{n}", "t", parent_id="p", start=n, attributes=held) for n, held in enumerate(steps)]
    record = one(root, *spans)

    assert record.query == "How far?"
    assert {(g.field, g.reason) for g in record.gaps} == {("context", "content_off"), ("answer", "content_off")}
    assert all("HAYSTACK_CONTENT_TRACING_ENABLED" in g.remedy for g in record.gaps)


def test_a_pipeline_that_failed_is_not_one_without_content() -> None:
    """Its output was never there."""
    assert read(pipeline({"r": {"query": "far"}}, status="error")).content == "present"
    assert read(pipeline({"r": {"query": "far"}}, {"llm": {}}, name="haystack.async_pipeline")).content == "present"


def test_what_was_cut_is_told_to_be_cut() -> None:
    """A limit on attributes breaks JSON off."""
    whole = json.dumps({"documents": DOCUMENTS})
    (document,) = read(component("BM25Retriever", {"query": "far"}, whole[:-20])).documents or ()
    generation = read(
        component("OpenAIChatGenerator", json.dumps({"messages": [ASKED]})[:-9], '{"replies": ["It is fa')
    )

    assert document.text is not None
    assert document.text.state == "truncated"
    assert generation.messages[0].text is not None
    assert generation.messages[0].text.state == "truncated"
    assert generation.output is not None
    assert generation.output.state == "truncated"
    asked = read(pipeline('{"retriever": {"query": "How fa', '{"llm": {"replies": ["It is'))
    assert asked.query is not None
    assert asked.output is not None
    assert (asked.query.state, asked.output.state) == ("truncated", "truncated")


def test_an_evaluator_and_what_it_calls_stand_aside() -> None:
    """They are no part of the request."""
    assert read(component("FaithfulnessEvaluator", {"responses": ["Far."]}, {"score": 1})).aside


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("messages", "role", "_role", "content", "_content", "text", "tool_call", "tool_call_result"),
                    *("replies", "documents", "answers", "data", "meta", "source_index", "referenced", "origin"),
                    *("query", "prompt", "template_variables", "last_message", "tool_messages", "result", "id"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KINDS = st.sampled_from(
    ["BM25Retriever", "PromptBuilder", "ChatGenerator", "Agent", "ToolInvoker", "Ranker", "Own", "LLM", 7, None]
)
NAMES = st.sampled_from(
    [
        *(GIVEN, TOLD, "haystack.pipeline.input_data", "haystack.pipeline.output_data", "haystack.agent.input"),
        *("haystack.agent.output", "haystack.agent.step.llm.input", "haystack.agent.step.llm.output"),
        *("haystack.agent.step.tool.input", "haystack.agent.step.tool.output", "haystack.tool.name"),
    ]
)


@given(KINDS, st.dictionaries(NAMES, VALUES | VALUES.map(lambda v: json.dumps(v, default=str)), max_size=4))
def test_a_hostile_span_does_not_raise(kind: Any, attributes: dict[str, Any]) -> None:
    """Whatever the attributes hold, as values or as JSON texts."""
    for name in ("haystack.component.run", "haystack.pipeline.run", "haystack.agent.run"):
        Haystack().reading(Span("s", "t", name=name, attributes={**attributes, "haystack.component.type": kind}))
