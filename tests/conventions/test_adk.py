"""One span of Google's Agent Development Kit at a time: calls, tools, and content that was never written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.adk import ADK
from groundtrace.model import Reading, Span
from groundtrace.testing import ConventionContract
from spans import MARS, MOON, one

OWN = "gcp.vertex.agent."
ASKED: dict[str, Any] = {"role": "user", "parts": [{"text": "How far?"}]}
CALLED: dict[str, Any] = {
    "role": "model",
    "parts": [{"function_call": {"id": "c1", "name": "look", "args": {"query": "far"}}}],
}
ANSWERED: dict[str, Any] = {
    "role": "user",
    "parts": [{"function_response": {"id": "c1", "name": "look", "response": {"result": f"[1] {MOON}"}}}],
}
REPLY: dict[str, Any] = {"role": "model", "parts": [{"text": "Let me see.", "thought": True}, {"text": "Far [1]."}]}


def call(*contents: Any, told: Any = None, ident: str = "s", instruction: Any = "Be brief.", **more: Any) -> Span:
    """A call to the model."""
    request = {"model": "gemini-2.5-flash", "config": {"system_instruction": instruction}, "contents": [*contents]}
    held = {
        "gen_ai.system": "gcp.vertex.agent",
        "gen_ai.request.model": "gemini-2.5-flash",
        f"{OWN}session_id": "s-1",
        f"{OWN}event_id": "e-1",
        f"{OWN}llm_request": json.dumps(request),
        f"{OWN}llm_response": told if isinstance(told, str) else json.dumps(told or {"content": REPLY}),
    }
    attributes = {k: v for k, v in {**held, **more.pop("held", {})}.items() if v is not None}
    return Span(ident, "t", name="call_llm", scope="gcp.vertex.agent", attributes=attributes, **more)


def tool(arguments: Any = '{"query": "far"}', response: Any = None, **more: Any) -> Span:
    """A tool's run."""
    held = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        f"{OWN}llm_request": "{}",
        f"{OWN}llm_response": "{}",
        f"{OWN}tool_call_args": arguments,
        f"{OWN}tool_response": response,
    }
    held = {k: v for k, v in held.items() if v is not None}
    return Span("l", "t", name="execute_tool look", scope="gcp.vertex.agent", attributes=held, **more)


def read(span: Span) -> Reading:
    """The reading of a span that has one."""
    found = ADK().reading(span)
    assert found is not None
    return found


class TestADK(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> ADK:
        """The convention."""
        return ADK()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        sent = {f"{OWN}data": json.dumps([ASKED]), f"{OWN}session_id": "s-1"}
        return [call(ASKED), tool(response='{"result": "Far."}'), Span("d", "t", name="send_data", attributes=sent)]


@pytest.mark.parametrize("instruction", ["Be brief.", {"role": "user", "parts": [{"text": "Be brief."}]}])
def test_a_call_tells_its_instructions_its_talk_and_its_answer(instruction: Any) -> None:
    """What the model thought is not what it said."""
    found = read(call(ASKED, CALLED, ANSWERED, instruction=instruction))

    assert found.role == "generation"
    assert [(m.role, m.text and m.text.value) for m in found.messages] == [
        ("system", "Be brief."),
        ("user", "How far?"),
        ("assistant", None),
        ("user", None),
    ]
    (answered,) = found.messages[3].tools
    assert (answered.name, answered.id, answered.result and answered.result.value) == ("look", "c1", f"[1] {MOON}")
    assert found.output is not None
    assert (found.output.value, found.output.attribute) == ("Far [1].", f"{OWN}llm_response")
    assert (found.model, found.session) == ("gemini-2.5-flash", "s-1")


def test_a_call_that_asks_for_a_tool_answers_nothing() -> None:
    """It names the tool and its arguments."""
    found = read(call(ASKED, told={"content": CALLED}))

    assert found.output is None
    assert [(c.name, c.arguments and c.arguments.value) for c in found.calls] == [("look", '{"query": "far"}')]


def test_what_an_answer_is_grounded_on_are_its_documents_and_citations() -> None:
    """Gemini counts bytes of UTF-8; the chunks hold what was retrieved."""
    grounding = {
        "grounding_chunks": [{"retrieved_context": {"uri": u, "text": t}} for u, t in (("m", MARS), ("l", MOON))],
        "grounding_supports": [
            {"segment": {"start_index": 7, "end_index": 13, "text": "\u00c9toil"}, "grounding_chunk_indices": [1]}
        ],
    }
    content = {"role": "model", "parts": [{"text": "Voil\u00e0 \u00c9toile."}]}
    found = read(call(ASKED, told={"content": content, "grounding_metadata": grounding}))

    assert [d.text and d.text.value for d in found.documents or ()] == [MARS, MOON]
    (cited,) = found.citations
    assert found.output is not None
    assert found.output.value[cited.start : cited.end] == "\u00c9toil"
    assert cited.quote == MOON


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ('{"result": "Far."}', "Far."),
        ('{"distance": "far", "unit": "km"}', '{"distance": "far", "unit": "km"}'),
        (json.dumps({"content": ANSWERED, "author": "a"}), f"[1] {MOON}"),
        ("<not serializable>", None),
    ],
)
def test_a_tool_tells_what_it_was_asked_and_what_it_answered(response: str, words: str | None) -> None:
    """A text is wrapped as {"result": ...}; early releases told the whole event."""
    found = read(tool(response=response))

    assert found.role == "tool"
    assert found.query is not None
    assert found.query.value == "far"
    assert found.tool is not None
    assert (found.tool.name, found.tool.id, found.tool.result and found.tool.result.value) == ("look", "c1", words)


def test_a_tools_documents_are_listed() -> None:
    """An object that lists them is what a function returned."""
    found = read(tool(response=json.dumps({"documents": [{"id": "moon", "content": MOON}]})))

    assert found.tool is not None
    assert [(d.id, d.text and d.text.value) for d in found.tool.documents] == [("moon", MOON)]


def test_an_agents_turn_is_put_together() -> None:
    """The question is the user's, the passages the tool's, the answer the last call's."""
    agent = Span(
        "a", "t", name="invoke_agent a", scope="gcp.vertex.agent", attributes={"gen_ai.operation.name": "invoke_agent"}
    )
    record = one(
        agent,
        call(ASKED, told={"content": CALLED}, ident="c1", parent_id="a", start=1),
        tool(response=json.dumps({"result": f"[1] {MOON}"}), parent_id="a", start=2),
        call(ASKED, CALLED, ANSWERED, ident="c2", parent_id="a", start=3),
    )

    assert (record.query, record.answer, [p.text for p in record.context]) == ("How far?", "Far [1].", [MOON])
    assert record.ref.keys == {"session_id": "s-1"}
    assert [c.passage_id for c in record.citations] == [record.context[0].id]


def test_what_other_agents_said_is_not_the_users_question() -> None:
    """An agent is told it as a message of the user's."""
    handed = {"role": "user", "parts": [{"text": "For context:"}, {"text": "[front] said: Ask the other one."}]}

    assert [m.role for m in read(call(ASKED, handed)).messages] == ["system", "user", "assistant"]


@pytest.mark.parametrize("empty", [None, "{}", {}])
def test_a_call_without_content_says_which_setting_it_is(empty: Any) -> None:
    """A call that was told but not what it said."""
    found = read(call(ASKED, held={f"{OWN}llm_request": empty, f"{OWN}llm_response": empty}))

    assert found.content == "off"
    assert "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS" in found.remedy


def test_a_call_that_failed_is_not_one_without_content() -> None:
    """It tells nothing at all."""
    failed = Span("s", "t", name="call_llm", scope="gcp.vertex.agent", status="error")

    assert read(failed).content == "present"
    assert ADK().reading(Span("s", "t", name="invocation", scope="gcp.vertex.agent")) is None
    assert read(Span("s", "t", name="agent_run [a]", scope="gcp.vertex.agent")).role == "agent"


def test_what_was_cut_is_told_to_be_cut() -> None:
    """A limit on attributes breaks JSON off."""
    whole = call(ASKED).attributes
    found = read(call(held={name: whole[name][:-9] for name in (f"{OWN}llm_request", f"{OWN}llm_response")}))
    answer = read(tool(response='{"result": "The Moon is fa')).tool

    assert found.messages[0].text is not None
    assert found.output is not None
    assert answer is not None
    assert answer.result is not None
    assert {found.messages[0].text.state, found.output.state, answer.result.state} == {"truncated"}


def test_later_releases_are_left_to_the_genai_conventions() -> None:
    """Their spans hold an event's id and no content."""
    held = {"gen_ai.operation.name": "generate_content", f"{OWN}event_id": "e", "gen_ai.conversation.id": "s-1"}
    found = read(Span("s", "t", name="generate_content gemini", scope="gcp.vertex.agent", attributes=held))

    assert (found.role, found.session) == ("other", "s-1")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("config", "system_instruction", "contents", "role", "parts", "text", "function_call", "content"),
                    *("function_response", "response", "result", "grounding_metadata", "grounding_chunks", "segment"),
                    *("grounding_supports", "grounding_chunk_indices", "start_index", "end_index", "args", "id"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
NAMES = st.sampled_from(["llm_request", "llm_response", "tool_call_args", "tool_response", "data", "session_id"])


@given(st.dictionaries(NAMES, VALUES | VALUES.map(lambda v: json.dumps(v, default=str)), max_size=4))
def test_a_hostile_span_does_not_raise(attributes: dict[str, Any]) -> None:
    """Whatever the attributes hold, as values or as JSON texts."""
    held = {f"{OWN}{name}": value for name, value in attributes.items()}
    for name in ("call_llm", "execute_tool look", "send_data"):
        ADK().reading(Span("s", "t", name=name, attributes=held))
