"""One MLflow span at a time: JSON in every attribute, the provider's own request and reply, functions of any type."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.mlflow import MLflow
from groundtrace.model import Reading, Said, Span
from groundtrace.testing import ConventionContract
from spans import MARS, MOON, PROMPT, found

KINDS = ["LLM", "CHAT_MODEL", "CHAIN", "AGENT", "RETRIEVER", "RERANKER", "TOOL", "EMBEDDING", "PARSER", "UNKNOWN", "MY"]
NAMES = st.sampled_from(
    [
        *("mlflow.spanType", "mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.llm.model", "mlflow.linkedPrompts"),
        *("mlflow.traceTag.tenant", "session.id", "user.id", "metadata", "tool_name", "tool_call_id", "model"),
    ]
)
KEYS = ["messages", "input", "output", "choices", "content", "role", "contexts", "result", "instructions", "text", "id"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just('"It was cut'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=8,
)


def span(kind: str | None, given: Any = None, back: Any = None, name: str = "step", **attributes: Any) -> Span:
    """A span as MLflow writes it: each value as JSON; two underscores in names stand for a dot."""
    held = {"mlflow.spanType": kind, "mlflow.spanInputs": given, "mlflow.spanOutputs": back}
    held |= {key.replace("__", "."): value for key, value in attributes.items()}
    written = {key: json.dumps(value) for key, value in held.items() if value is not None}
    return Span("s", "t", name=name, attributes=written, scope="mlflow.tracing.provider")


def reading(kind: str | None, given: Any = None, back: Any = None, name: str = "step", **attributes: Any) -> Reading:
    """The reading of such a span."""
    found = MLflow().reading(span(kind, given, back, name, **attributes))
    assert found is not None
    return found


def words(said: Said | None) -> str | None:
    """The text that is said."""
    return said.value if said is not None else None


def texts(reading: Reading) -> list[str | None]:
    """The texts of the documents."""
    return [words(document.text) for document in reading.documents or ()]


class TestMLflow(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> MLflow:
        """The convention."""
        return MLflow()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        more: dict[str, Any] = {
            "metadata": {"session_id": "s"},
            "mlflow__linkedPrompts": [{"name": "p", "version": "1"}],
        }
        return [span(kind, {"question": "How far?", "context": ["a"]}, {"answer": "Far."}, **more) for kind in KINDS]


# --- chains, agents and traced functions ------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "role"), [("CHAIN", "request"), ("AGENT", "agent"), ("UNKNOWN", "request")])
def test_a_function_says_what_it_was_called_with_and_what_it_returned(kind: str, role: str) -> None:
    """Both unwrapped from JSON, a text from its quotes."""
    found = reading(kind, {"question": "How far?"}, "Far.")

    assert found.role == role
    assert found.query == Said("How far?", "mlflow.spanInputs")
    assert found.output == Said("Far.", "mlflow.spanOutputs")


def test_a_type_of_the_users_own_is_a_step_of_the_request() -> None:
    """MLflow takes any text as a type."""
    assert reading("ORCHESTRATOR", {"question": "How far?"}, "Far.").role == "request"
    assert reading(None, {"question": "How far?"}, "Far.").role == "request"


@pytest.mark.parametrize("kind", ["EVALUATOR", "GUARDRAIL"])
def test_an_evaluator_stands_aside(kind: str) -> None:
    """What a scorer asks its judge is no answer."""
    assert reading(kind, {"question": "How far?"}, "Far.").aside


@pytest.mark.parametrize("kind", ["PARSER", "MEMORY"])
def test_a_parser_is_no_request(kind: str) -> None:
    """It is a step in between."""
    assert reading(kind, {"messages": []}, "Far.").role == "other"


def test_langgraph_states_are_conversations() -> None:
    """What was asked is the user's last message, what was answered the assistant's."""
    talk = [{"type": "human", "content": "How far?"}, {"type": "ai", "content": "Far."}]
    found = reading("CHAIN", {"messages": [["user", "How far?"]]}, {"messages": talk})

    assert (words(found.query), words(found.output)) == ("How far?", "Far.")


def test_a_chain_that_is_handed_passages_names_its_parts() -> None:
    """DSPy's modules and LangChain's templates are filled with a context."""
    found = reading("CHAIN", {"context": [MOON, MARS], "question": "How far?"}, {"answer": "Far."})

    assert texts(found) == [MOON, MARS]
    assert words(found.variables["question"]) == "How far?"
    assert reading("CHAIN", {"question": "How far?"}, "Far.").variables == {}


def test_an_untyped_function_that_returns_documents_is_a_retriever() -> None:
    """Nobody told MLflow its type, the documents tell it; a list of texts does so where the name does."""
    found = reading("UNKNOWN", {"q": "How far?"}, [{"page_content": MOON, "metadata": {"doc_id": "moon"}}])
    named = reading("UNKNOWN", {"q": "How far?"}, [MOON, MARS], name="retrieve")
    plain = reading("UNKNOWN", {"text": "The Moon."}, ["The", "Moon"], name="split")

    assert (found.role, texts(found), words(found.query)) == ("retrieval", [MOON], "How far?")
    assert (named.role, texts(named)) == ("retrieval", [MOON, MARS])
    assert (plain.role, plain.documents) == ("request", None)


def test_an_untyped_function_that_is_handed_documents_is_no_retriever() -> None:
    """Nor is it one where it failed and returned nothing."""
    found = reading("UNKNOWN", {"question": "How far?", "contexts": [MOON]})

    assert (found.role, texts(found), found.output) == ("request", [MOON], None)


# --- calls to a model -------------------------------------------------------------------------------------------------


def test_a_chat_completion_is_read_from_the_providers_own_request_and_reply() -> None:
    """OpenAI's autolog keeps both whole."""
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": PROMPT}]
    told = {"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"content": "Far [2]."}}]}
    found = reading("CHAT_MODEL", {"model": "gpt-4o", "messages": talk}, told, mlflow__llm__model="gpt-4o-2024")

    assert found.role == "generation"
    assert [(m.role, words(m.text)) for m in found.messages] == [("system", "Be brief."), ("user", PROMPT)]
    assert words(found.output) == "Far [2]."
    assert (found.model, found.response_id, found.calls) == ("gpt-4o-2024", "chatcmpl-1", ())


def test_a_call_that_asks_for_a_tool_is_no_answer() -> None:
    """In chat completions, in the Responses API, in Anthropic's blocks."""
    asked = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"query": "far"}'}}
    chat = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [asked]}}]}
    responses = {"output": [{"type": "function_call", "call_id": "c", "name": "search", "arguments": "{}"}]}
    blocks = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "search", "input": {}}]}
    for told in (chat, responses, blocks):
        found = reading("CHAT_MODEL", {"messages": [{"role": "user", "content": "How far?"}]}, told)
        assert [call.name for call in found.calls] == ["search"]
        assert found.output is None


def test_the_responses_api_keeps_what_a_file_search_found_and_what_was_cited() -> None:
    """Instructions are the system's, results documents, annotations citations."""
    said = {
        "type": "output_text",
        "text": "Far.",
        "annotations": [{"type": "file_citation", "index": 3, "file_id": "f"}],
    }
    searched = {"type": "file_search_call", "results": [{"file_id": "f", "text": MOON, "score": 0.5}]}
    told = {"id": "resp_1", "object": "response", "output": [searched, {"type": "message", "content": [said]}]}
    told["output"][1]["role"] = "assistant"  # type: ignore[index]
    found = reading("CHAT_MODEL", {"instructions": "Be brief.", "input": "How far?"}, told)

    assert [(m.role, words(m.text)) for m in found.messages] == [("system", "Be brief."), ("user", "How far?")]
    assert [(d.id, words(d.text), d.score) for d in found.documents or ()] == [("f", MOON, 0.5)]
    assert [(m.start, m.document_id, m.attribute) for m in found.citations] == [(3, "f", "mlflow.spanOutputs")]
    assert words(found.output) == "Far."


def test_a_chat_completion_cites_links_beside_its_text() -> None:
    """Web search in chat completions names the kind of an annotation twice."""
    noted = {"type": "url_citation", "url_citation": {"url": "https://a", "start_index": 0, "end_index": 3}}
    told = {"choices": [{"message": {"role": "assistant", "content": "Far (a).", "annotations": [noted]}}]}

    cited = reading("CHAT_MODEL", {"messages": []}, told).citations
    assert [(m.start, m.end, m.document_id) for m in cited] == [(0, 3, "https://a")]


def test_anthropics_citations_survive() -> None:
    """They point at the documents handed over as blocks."""
    document = {"type": "document", "source": {"type": "text", "data": MOON}, "title": "moon"}
    cited = {"type": "char_location", "document_index": 0, "cited_text": "384,400 km"}
    told = {"role": "assistant", "content": [{"type": "text", "text": "Far.", "citations": [cited]}]}
    asked = {
        "messages": [{"role": "user", "content": [document, {"type": "text", "text": "How far?"}]}],
        "system": "Hm.",
    }
    found = reading("CHAT_MODEL", asked, told)

    assert [m.role for m in found.messages] == ["system", "user"]
    assert [words(d.text) for d in found.messages[1].documents] == [MOON]
    assert [(m.start, m.end, m.document) for m in found.citations] == [(0, 4, 0)]


def test_other_libraries_requests_are_conversations_too() -> None:
    """LangChain's completion prompts, Gemini's contents, LlamaIndex's blocks, Bedrock's converse."""
    gemini = {"contents": [{"role": "user", "parts": [{"text": "How far?"}]}]}
    llama = {"messages": [{"role": "user", "blocks": [{"block_type": "text", "text": "How far?"}]}]}
    bedrock = {"messages": [{"role": "user", "content": [{"text": "How far?"}]}]}
    for asked in (["How far?"], "How far?", {"prompt": "How far?"}, gemini, llama, bedrock):
        assert [words(m.text) for m in reading("LLM", asked, "Far.").messages] == ["How far?"]
    candidate = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Far."}]}}]}
    converse = {"output": {"message": {"role": "assistant", "content": [{"text": "Far."}]}}}
    block = {"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": "Far."}]}}
    for told in (candidate, converse, block):
        assert words(reading("LLM", gemini, told).output) == "Far."


def test_a_users_own_function_of_this_type_is_a_generation() -> None:
    """It was given a question and passages, no messages; what it streams is put together."""
    found = reading("LLM", {"question": "How far?", "contexts": [MOON]}, ["It is ", "far."])

    assert texts(found) == [MOON]
    assert [words(m.text) for m in found.messages] == ["How far?"]
    assert words(found.output) == "It is far."


def test_a_call_without_content_names_what_to_record() -> None:
    """A span opened by hand holds what was set on it."""
    found = reading("LLM")

    assert found.content == "off"
    assert "set_inputs" in found.remedy


# --- retrievers and tools ---------------------------------------------------------------------------------------------


def test_a_retriever_says_what_it_was_asked_and_what_it_found() -> None:
    """LangChain's documents, a plain list of texts, nothing at all."""
    document = {"page_content": MOON, "metadata": {"source": "a"}, "id": "moon"}
    found = reading("RETRIEVER", "How far?", [document])

    assert (words(found.query), [d.id for d in found.documents or ()], texts(found)) == ("How far?", ["moon"], [MOON])
    assert texts(reading("RETRIEVER", {"q": "How far?"}, [MOON, MARS])) == [MOON, MARS]
    assert reading("RETRIEVER", "How far?", []).documents == ()
    assert texts(reading("RERANKER", {"query": "How far?"}, [document])) == [MOON]


@pytest.mark.parametrize("back", ["one text", {"odd": 1}, None, [1, 2]])
def test_a_retrieval_of_no_known_shape_is_not_an_empty_one(back: Any) -> None:
    """It gives a gap that names the list MLflow wants."""
    found = reading("RETRIEVER", "How far?", back)

    assert found.documents is None
    assert "page_content" in found.remedy


def test_a_tool_answers_in_a_message_with_documents_beside_it() -> None:
    """LangGraph's tool node."""
    told = {"type": "tool", "content": f"[1] {MOON}", "artifact": [{"page_content": MOON, "id": "moon"}]}
    found = reading("TOOL", {"query": "How far?"}, {**told, "tool_call_id": "c"}, name="search", tool_call_id="c")

    assert found.tool is not None
    assert (found.tool.name, found.tool.id, words(found.tool.result)) == ("search", "c", f"[1] {MOON}")
    assert [d.id for d in found.tool.documents] == ["moon"]
    assert words(found.query) == "How far?"


def test_crewais_tools_wrap_their_answer() -> None:
    """In a result."""
    found = reading("TOOL", {"query": "How far?"}, {"result": MOON}, tool_name="search")

    assert found.tool is not None
    assert (found.tool.name, words(found.tool.result)) == ("search", MOON)


# --- what is known besides --------------------------------------------------------------------------------------------


def test_the_session_stands_on_the_span_or_in_langchains_configuration() -> None:
    """Over OTLP MLflow leaves its own behind."""
    copied = reading("CHAIN", "Q", "A", session__id="s1", user__id="u1")
    configured = reading("CHAIN", "Q", "A", metadata={"thread_id": "s2", "user_id": "u2"})

    assert (copied.session, copied.user) == ("s1", "u1")
    assert (configured.session, configured.user) == ("s2", "u2")


def test_tags_and_the_prompts_version_are_slices() -> None:
    """Tags are plain texts, the prompts JSON."""
    held = span("CHAIN", "Q", "A", mlflow__linkedPrompts=[{"name": "rag", "version": "3"}])
    tagged = Span("s", "t", attributes={**held.attributes, "mlflow.traceTag.tenant": "acme"})
    found = MLflow().reading(tagged)

    assert found is not None
    assert found.slices == {"tenant": "acme", "prompt_version": "rag/3"}


# --- what is not whole ------------------------------------------------------------------------------------------------


def cut(kind: str, name: str, value: str) -> Reading:
    """The reading of a span whose value a limit cut."""
    held = {**span(kind, "How far?", "Far.").attributes, name: value}
    found = MLflow().reading(Span("s", "t", attributes=held))
    assert found is not None
    return found


def test_a_value_that_breaks_off_is_truncated() -> None:
    """Texts lose the quote at their end, objects their brackets."""
    query = cut("CHAIN", "mlflow.spanInputs", '"How far is the Mo').query
    output = cut("CHAIN", "mlflow.spanOutputs", '{"answer": "It is 384,400 k').output
    prompt = cut("LLM", "mlflow.spanInputs", '{"messages": [{"role": "user", "content": "How fa').messages
    listed = cut("RETRIEVER", "mlflow.spanOutputs", '[{"page_content": "The Moon is 38').documents
    tool = cut("TOOL", "mlflow.spanOutputs", '{"content": "The Moon is 384,4').tool

    assert query is not None
    assert output is not None
    assert tool is not None
    assert tool.result is not None
    assert (query.state, output.state, tool.result.state) == ("truncated", "truncated", "truncated")
    assert [m.text.state for m in prompt if m.text] == ["truncated"]
    assert [d.text.state for d in listed or () if d.text] == ["truncated"]


def test_a_masked_value_names_the_processor_that_masks() -> None:
    """MLflow masks in span processors of the user's own."""
    found = reading("CHAIN", {"question": "[REDACTED]"}, "__REDACTED__")

    assert found.query is not None
    assert (found.query.state, "span_processors" in found.query.remedy) == ("masked", True)
    assert found.output is not None
    assert found.output.state == "masked"


def test_a_span_written_in_the_genai_conventions_lost_what_they_have_no_word_for() -> None:
    """The retriever's span is there, and the setting that emptied it is named."""
    held = {"gen_ai.operation.name": "RETRIEVER"}
    translated = Span("r", "t", "RETRIEVER", attributes=held, scope="mlflow.tracing.provider")
    found = MLflow().reading(translated)

    assert found is not None
    assert (found.role, found.documents, found.content) == ("retrieval", None, "off")
    assert "MLFLOW_ENABLE_OTEL_GENAI_SEMCONV" in found.remedy
    assert MLflow().reading(Span("r", "t", attributes=held, scope="other")) is None


def test_values_that_were_decoded_on_the_way_are_read_as_they_are() -> None:
    """A trace that was exported and loaded again may hold objects."""
    held = {"mlflow.spanType": "RETRIEVER", "mlflow.spanInputs": {"q": "How far?"}, "mlflow.spanOutputs": [MOON]}
    found = MLflow().reading(Span("s", "t", attributes=held))

    assert found is not None
    assert (found.role, words(found.query), texts(found)) == ("retrieval", "How far?", [MOON])


def test_a_whole_trace_is_a_record() -> None:
    """Root, retriever and call together: contexts in the prompt's order with the retriever's ids."""
    documents = [{"page_content": MOON, "id": "m"}, {"page_content": MARS, "id": "r"}]
    talk = {"messages": [{"role": "user", "content": PROMPT}]}
    told = {"choices": [{"message": {"role": "assistant", "content": "Far [2]."}}]}
    parts = [
        span("UNKNOWN", {"question": "How far is the Moon?"}, "Far [2]."),
        span("RETRIEVER", "How far is the Moon?", documents),
        span("CHAT_MODEL", talk, told),
    ]
    trace = (
        Span(str(n), "t", parent_id="0" if n else None, start=n, attributes=s.attributes) for n, s in enumerate(parts)
    )
    (record,) = found(*trace)

    assert record.query == "How far is the Moon?"
    assert [(p.id, p.rank, p.retrieval_rank) for p in record.context] == [("r", 1, 2), ("m", 2, 1)]
    assert record.answer == "Far [2]."
    assert [c.passage_id for c in record.citations] == ["m"]
    assert record.gaps == ()


@given(st.sampled_from(KINDS), st.dictionaries(NAMES, VALUES | VALUES.map(json.dumps), max_size=8))
def test_a_hostile_span_raises_nothing(kind: str, attributes: dict[str, Any]) -> None:
    """Whatever stands in any attribute."""
    MLflow().reading(Span("s", "t", attributes={"mlflow.spanType": kind, **attributes}))
