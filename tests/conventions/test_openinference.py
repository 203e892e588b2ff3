"""One OpenInference span at a time: what each kind holds, and what a hostile one does not break."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.openinference import OpenInference
from groundtrace.model import Reading, Span
from groundtrace.testing import ConventionContract

MESSAGE = "llm.input_messages.0.message"
REPLY = "llm.output_messages.0.message"
NAMES = st.sampled_from(
    [
        *("input.value", "output.value", f"{MESSAGE}.role", f"{MESSAGE}.content", MESSAGE, f"{REPLY}.content"),
        *(f"{MESSAGE}.contents.0.message_content.type", f"{MESSAGE}.contents.0.message_content.text"),
        *(f"{REPLY}.tool_calls.0.tool_call.function.name", "llm.output_messages.x.message.content"),
        *("retrieval.documents.0.document.content", "retrieval.documents.0.document", "retrieval.documents.0"),
        *("retrieval.documents.0.document.metadata", "retrieval.documents.0.document.score", "metadata", "tag.tags"),
        *("reranker.query", "llm.prompt_template.variables", "llm.invocation_parameters", "session.id"),
    ]
)
KINDS = ["LLM", "CHAIN", "AGENT", "RETRIEVER", "RERANKER", "TOOL", "PROMPT", "EMBEDDING", "EVALUATOR", "OTHER"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("__REDACTED__"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def reading(kind: str, **attributes: Any) -> Reading:
    """The reading of a span of this kind; underscores in names stand for dots."""
    named = {name.replace("__", "."): value for name, value in attributes.items()}
    found = OpenInference().reading(Span("s", "t", attributes={"openinference.span.kind": kind, **named}))
    assert found is not None
    return found


class TestOpenInference(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> OpenInference:
        """The convention."""
        return OpenInference()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        named = {"input.value": "How far?", "output.value": '{"answer": "Far."}', "metadata": "{}", "tag.tags": ["a"]}
        return [Span("s", "t", attributes={"openinference.span.kind": kind, **named}) for kind in KINDS]


def test_a_chain_says_what_went_in_and_what_came_out() -> None:
    """Both unwrapped, with the attribute they stand in."""
    found = reading("CHAIN", input__value='{"question": "How far?"}', output__value='{"answer": "Far."}')

    assert found.role == "request"
    assert found.query is not None
    assert (found.query.value, found.query.attribute) == ("How far?", "input.value")
    assert found.output is not None
    assert found.output.value == "Far."


def test_a_masked_input_is_masked_and_says_which_setting_masks_it() -> None:
    """The remedy names the variable of the attribute's own kind."""
    found = reading("AGENT", input__value="__REDACTED__", output__value="__REDACTED__")

    assert found.query is not None
    assert found.query.state == "masked"
    assert "OPENINFERENCE_HIDE_INPUTS" in found.query.remedy
    assert found.output is not None
    assert "OPENINFERENCE_HIDE_OUTPUTS" in found.output.remedy


def test_json_that_breaks_off_is_cut() -> None:
    """A value limit leaves half an object: there is an input, and it is not whole."""
    found = reading("CHAIN", input__value='{"messages": [["user", "How far is th')

    assert found.query is not None
    assert found.query.state == "truncated"


def test_a_retriever_lists_its_documents_in_order() -> None:
    """By index, not by the order attributes come in; ids from the attribute, the reply or the metadata."""
    raw = {"documents": [{"id": "a", "page_content": "One."}, {"id": "b", "page_content": "Two."}]}
    found = reading(
        "RETRIEVER",
        retrieval__documents__1__document__content="Two.",
        retrieval__documents__0__document__content="One.",
        retrieval__documents__0__document__score=0.5,
        output__value=json.dumps(raw),
    )

    assert found.documents is not None
    assert [(d.id, d.text.value if d.text else None, d.score) for d in found.documents] == [
        ("a", "One.", 0.5),
        ("b", "Two.", None),
    ]


def test_a_retriever_that_found_nothing_is_told_from_one_that_recorded_nothing() -> None:
    """An empty list is a finding; no list is not."""
    assert reading("RETRIEVER", output__value='{"documents": []}').documents == ()
    silent = reading("RETRIEVER", input__value="How far?")
    assert silent.documents is None
    assert "retrieval.documents" in silent.remedy


@pytest.mark.parametrize(("kept", "state"), [((0, 1), "present"), ((1, 2), "truncated"), ((0, 2), "truncated")])
@pytest.mark.parametrize("kind", ["retrieval.documents", "reranker.output_documents"])
def test_a_list_with_a_hole_is_a_part_of_one(kind: str, kept: tuple[int, ...], state: str) -> None:
    """They count from 0: a limit evicted what is missing, whatever the span says it dropped."""
    held = {f"{kind}.{n}.document.content": f"Text {n}." for n in kept}
    found = reading("RETRIEVER" if kind.startswith("ret") else "RERANKER", **held)

    texts = [d.text for d in found.documents or () if d.text is not None]
    assert [(t.value, t.state) for t in texts] == [(f"Text {n}.", state) for n in kept]
    assert all(("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in t.remedy) is (state == "truncated") for t in texts)


def test_a_generation_is_read_from_its_messages() -> None:
    """Blocks of an answer are one text; the tools it asked for are calls; the reply's id is kept."""
    found = reading(
        "LLM",
        **{f"{MESSAGE}.role": "user", f"{MESSAGE}.content": "How far?", f"{REPLY}.role": "assistant"},
        **{f"{REPLY}.contents.{i}.message_content.type": "text" for i in range(2)},
        **{f"{REPLY}.contents.{i}.message_content.text": t for i, t in enumerate(["The Moon", " is far."])},
        **{f"{REPLY}.tool_calls.0.tool_call.function.name": "search"},
        llm__model_name="m-1",
        output__value='{"id":"chatcmpl-7","choices":[]}',
    )

    assert found.output is not None
    assert found.output.value == "The Moon is far."
    assert [t.name for t in found.calls] == ["search"]
    assert (found.model, found.response_id) == ("m-1", "chatcmpl-7")
    assert [(m.role, m.text.value if m.text else None) for m in found.messages] == [("user", "How far?")]


def test_a_generation_made_by_hand_is_read_from_its_input_and_output() -> None:
    """Without message attributes the plain values are the conversation."""
    found = reading("LLM", input__value="How far?", output__value='{"choices":[{"message":{"content":"Far."}}]}')

    assert found.messages[0].text is not None
    assert found.messages[0].text.value == "How far?"
    assert found.output is not None
    assert found.output.value == "Far."


def test_of_several_choices_the_first_is_the_answer() -> None:
    """n=2 asks for alternatives; two messages of one reply follow each other."""
    texts = {f"llm.output_messages.{i}.message.content": t for i, t in enumerate(["First.", "Second."])}

    chosen = reading("LLM", **texts, llm__invocation_parameters='{"n": 2}')
    followed = reading("LLM", **texts)

    assert chosen.output is not None
    assert chosen.output.value == "First."
    assert followed.output is not None
    assert followed.output.value == "Second."


def test_a_search_the_provider_ran_hands_over_documents_and_is_no_call() -> None:
    """OpenAI's file search stands in the raw reply, its call among the tool calls."""
    raw = {"id": "resp_1", "output": [{"type": "file_search_call", "results": [{"file_id": "a", "text": "One."}]}]}
    found = reading(
        "LLM", output__value=json.dumps(raw), **{f"{REPLY}.tool_calls.0.tool_call.function.name": "file_search_call"}
    )

    assert found.documents is not None
    assert [d.id for d in found.documents] == ["a"]
    assert found.calls == ()


def test_citations_come_from_the_metadata_where_the_reply_is_not_kept() -> None:
    """The Anthropic instrumentor files them by block; offsets are the answer's."""
    blocks = {f"{REPLY}.contents.{i}.message_content.text": t for i, t in enumerate(["It is", " far."])}
    cited = {"citations": {"1": [{"document_index": 0, "cited_text": "far"}]}}
    found = reading("LLM", **blocks, metadata=json.dumps(cited))

    assert [(m.start, m.end, m.document, m.quote) for m in found.citations] == [(5, 10, 0, "far")]


def test_a_prompt_template_names_its_parts() -> None:
    """LangChain's PROMPT span holds the variables as its input."""
    found = reading("PROMPT", input__value='{"question": "How far?", "context": "[1] The Moon."}')

    assert {k: v.value for k, v in found.variables.items()} == {"question": "How far?", "context": "[1] The Moon."}


def test_a_chain_that_is_handed_passages_names_its_parts_too() -> None:
    """DSPy predicts from a list of contexts; a chain without any is no template."""
    found = reading("CHAIN", input__value='{"context": ["One.", "Two."], "question": "How far?"}')

    assert [d.text.value for d in found.documents or () if d.text] == ["One.", "Two."]
    assert found.variables["question"].value == "How far?"
    assert reading("CHAIN", input__value='{"question": "How far?"}').variables == {}


def test_what_an_evaluator_runs_stands_aside() -> None:
    """Its own calls to a model are no answers."""
    assert reading("EVALUATOR").aside
    assert reading("GUARDRAIL").aside
    assert not reading("CHAIN").aside


def test_a_span_without_a_kind_says_nothing() -> None:
    """OpenInference attributes alone do not make a span one."""
    assert OpenInference().reading(Span("s", "t", attributes={"input.value": "How far?"})) is None


@given(st.sampled_from(KINDS), st.dictionaries(NAMES, VALUES | VALUES.map(json.dumps), max_size=8))
def test_a_hostile_span_gives_a_reading(kind: str, attributes: dict[str, Any]) -> None:
    """Whatever stands in any attribute."""
    assert OpenInference().reading(Span("s", "t", attributes={"openinference.span.kind": kind, **attributes}))


def test_a_text_that_is_written_both_ways_is_said_once() -> None:
    """The OpenAI Agents instrumentor writes the same text as the content and as a block of it."""
    block = {f"{REPLY}.contents.0.message_content.type": "text", f"{REPLY}.contents.0.message_content.text": "Far."}
    found = reading("LLM", **block, **{f"{REPLY}.role": "assistant", f"{REPLY}.content": "Far."})

    assert found.output is not None
    assert found.output.value == "Far."


def test_a_block_without_a_type_is_a_text() -> None:
    """So pydantic-ai's instrumentor writes what a tool answered: no list of documents."""
    block = {f"{MESSAGE}.contents.0.message_content.text": "[1] The Moon.\n\n[2] Mars."}
    tool = reading("LLM", **block, **{f"{MESSAGE}.role": "tool"}).messages[0].tools[0]

    assert tool.result is not None
    assert (tool.result.value, tool.documents) == ("[1] The Moon.\n\n[2] Mars.", ())


def test_what_a_tool_answered_within_a_reply_is_no_call() -> None:
    """A file search the provider ran stands among the reply's messages, and its results after it."""
    found = reading(
        "LLM",
        **{f"{REPLY}.role": "tool", f"{REPLY}.content": "[]", f"{REPLY}.tool_call_id": "fs_1"},
        **{"llm.output_messages.1.message.role": "assistant", "llm.output_messages.1.message.content": "Far."},
    )

    assert found.calls == ()
    assert found.output is not None
    assert found.output.value == "Far."


@pytest.mark.parametrize(
    ("description", "query"),
    [("How far is the Moon?\n", "How far is the Moon?"), ("Documents:\n[1] ...\n\nHow far?", None)],
)
def test_a_crews_one_task_is_its_question(description: str, query: str | None) -> None:
    """Where it was called with no inputs; a filled prompt is none."""
    task = {"description": description, "expected_output": "An answer.", "raw": "Far."}
    for told in (task, {"raw": "Far.", "tasks_output": [task]}):
        found = reading("CHAIN", **{"output.value": json.dumps(told)})
        assert (found.query and found.query.value, found.output and found.output.value) == (query, "Far.")
    both = reading("CHAIN", **{"output.value": json.dumps({"raw": "Far.", "tasks_output": [task, task]})})
    assert both.query is None
