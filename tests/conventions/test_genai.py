"""One GenAI span at a time, with the logs beside it: where content stands, and what to change where it does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.genai import GenAI
from groundtrace.model import Event, Log, Reading, Span
from groundtrace.testing import ConventionContract

DETAILS = "gen_ai.client.inference.operation.details"
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "How far?"}]}]
TOLD = [{"role": "assistant", "parts": [{"type": "text", "content": "Far."}], "finish_reason": "stop"}]
NAMES = st.sampled_from(
    [
        *("gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"),
        *("gen_ai.retrieval.documents", "gen_ai.retrieval.query.text", "gen_ai.tool.call.result"),
        *("gen_ai.tool.call.arguments", "gen_ai.prompt.variable.question", "gen_ai.conversation.id"),
        *("gen_ai.request.choice.count", "gen_ai.data_source.id", "gen_ai.response.model"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "parts", "type", "content", "result", "id", "text"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def reading(operation: str | None, scope: str = "", logs: tuple[Log, ...] = (), **attributes: Any) -> Reading:
    """The reading of a span of this operation; two underscores in names stand for a dot."""
    named = {f"gen_ai.{name.replace('__', '.')}": value for name, value in attributes.items()}
    held = {"gen_ai.operation.name": operation, **named} if operation else named
    found = GenAI().reading(Span("s", "t", attributes=held, scope=scope, logs=logs))
    assert found is not None
    return found


class TestGenAI(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> GenAI:
        """The convention."""
        return GenAI()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        named = {
            "gen_ai.input.messages": json.dumps(ASKED),
            "gen_ai.output.messages": json.dumps(TOLD),
            "gen_ai.retrieval.documents": "[]",
            "gen_ai.tool.call.result": "Far.",
        }
        operations = ["chat", "retrieval", "execute_tool", "invoke_agent", "invoke_workflow", "embeddings", "plan"]
        return [Span("s", "t", attributes={"gen_ai.operation.name": name, **named}) for name in operations]


@pytest.mark.parametrize("form", [json.dumps, lambda value: value], ids=["JSON text", "structured"])
def test_content_on_the_span_is_read(form: Any) -> None:
    """Messages are a JSON text on spans, structured where an exporter allows it."""
    found = reading("chat", input__messages=form(ASKED), output__messages=form(TOLD), response__id="r-1")

    assert found.role == "generation"
    assert [m.text.value for m in found.messages if m.text] == ["How far?"]
    assert found.output is not None
    assert (found.output.value, found.output.attribute) == ("Far.", "gen_ai.output.messages")
    assert found.response_id == "r-1"


def test_content_in_the_logs_is_read_and_said_to_stand_there() -> None:
    """EVENT_ONLY keeps the span bare."""
    log = Log(DETAILS, attributes={"gen_ai.input.messages": ASKED, "gen_ai.output.messages": TOLD, "user.id": "u"})
    found = reading("chat", logs=(log,))

    assert found.output is not None
    assert found.output.attribute == "logs: gen_ai.output.messages"
    assert (found.user, found.content) == ("u", "present")


def test_content_in_one_event_a_message_is_read() -> None:
    """The form before v1.37, as logs or as span events."""
    logs = (
        Log("gen_ai.system.message", {"content": "Be brief."}),
        Log("", {"content": "How far?"}, {"event.name": "gen_ai.user.message"}),
        Log("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "Far."}}),
    )
    events = (Event("gen_ai.user.message", attributes={"content": "How far?"}),)

    found = reading("chat", logs=logs)
    other = GenAI().reading(Span("s", "t", attributes={"gen_ai.operation.name": "chat"}, events=events))

    assert [(m.role, m.text.value) for m in found.messages if m.text] == [("system", "Be brief."), ("user", "How far?")]
    assert found.output is not None
    assert found.output.value == "Far."
    assert other is not None
    assert [m.text.value for m in other.messages if m.text] == ["How far?"]


@pytest.mark.parametrize(
    ("scope", "logs", "state", "says"),
    [
        ("opentelemetry.instrumentation.genai.openai", (), "off", "CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"),
        ("opentelemetry.instrumentation.genai.openai", (), "off", "NAME.logs.jsonl"),
        ("opentelemetry.instrumentation.openai_v2", (Log("gen_ai.choice", {"index": 0}),), "off", "SPAN_ONLY"),
        ("gcp.vertex.agent", (), "elsewhere", "NAME.logs.jsonl"),
        ("pydantic-ai", (), "off", "include_content=True"),
        ("com.anthropic.sdk.python", (), "off", "instrumentor"),
    ],
)
def test_a_call_without_content_says_what_to_change(scope: str, logs: tuple[Log, ...], state: str, says: str) -> None:
    """The exact setting of the instrumentation that wrote the span."""
    found = reading("chat", scope=scope, logs=logs)

    assert found.content == state
    assert says in found.remedy


def test_content_kept_in_a_store_is_elsewhere() -> None:
    """An upload hook leaves a reference."""
    assert reading("chat", input__messages_ref="s3://bucket/1").content == "elsewhere"


def test_messages_that_break_off_are_cut() -> None:
    """A length limit leaves JSON without an end."""
    found = reading("chat", input__messages=json.dumps(ASKED)[:-9], output__messages=json.dumps(TOLD)[:-9])

    assert [m.text.state for m in found.messages if m.text] == ["truncated"]
    assert found.output is not None
    assert found.output.state == "truncated"


def test_a_retrieval_holds_ids_and_a_query() -> None:
    """Texts are not part of the convention; an empty list is a finding."""
    found = reading(
        "retrieval",
        retrieval__query__text="How far?",
        retrieval__documents='[{"id":"a","score":0.5}]',
        data_source__id="kb",
    )

    assert found.query is not None
    assert found.query.value == "How far?"
    assert [(d.id, d.text, d.score) for d in found.documents or ()] == [("a", None, 0.5)]
    assert found.slices == {"knowledge_base": "kb"}
    assert reading("retrieval", retrieval__documents="[]").documents == ()
    assert reading("retrieval").documents is None


def test_prompt_variables_are_named() -> None:
    """LangChain's instrumentation names the parts of the prompt."""
    found = reading("chat", input__messages=ASKED, prompt__variable__question="How far?")

    assert found.variables["question"].attribute == "gen_ai.prompt.variable.question"


def test_a_tool_says_what_it_was_asked_and_what_it_answered() -> None:
    """Documents listed in a result are found."""
    answer = json.dumps({"documents": [{"id": "a", "text": "The Moon."}]})
    found = reading(
        "execute_tool", tool__name="search", tool__call__arguments='{"query": "far"}', tool__call__result=answer
    )

    assert found.tool is not None
    assert (found.tool.name, [d.id for d in found.tool.documents]) == ("search", ["a"])
    assert found.query is not None
    assert found.query.value == "far"


def test_a_workflow_is_asked_its_last_user_message_unwrapped() -> None:
    """LangChain's root gives the chain's input as JSON in a message."""
    wrapped = [{"role": "user", "parts": [{"type": "text", "content": '{"question": "How far?"}'}]}]
    found = reading("invoke_workflow", input__messages=wrapped)

    assert (found.role, found.query.value if found.query else None) == ("request", "How far?")


def test_the_system_instructions_come_first() -> None:
    """They stand in an attribute of their own."""
    found = reading("chat", system_instructions='[{"type":"text","content":"Be brief."}]', input__messages=ASKED)

    assert [m.role for m in found.messages] == ["system", "user"]


def test_a_tool_call_is_no_answer() -> None:
    """What a model asks for is a call; a search the provider ran itself is none."""
    parts = [{"type": "tool_call", "id": "c", "name": "search", "arguments": {"query": "far"}}]
    found = reading("chat", input__messages=ASKED, output__messages=[{"role": "assistant", "parts": parts}])

    assert found.output is None
    assert [t.name for t in found.calls] == ["search"]


def test_an_application_span_with_a_session_gives_the_session_and_no_more() -> None:
    """People put gen_ai.conversation.id on their own root spans."""
    found = reading(None, conversation__id="sess-1")

    assert (found.role, found.session) == ("other", "sess-1")


def test_older_dialects_are_left_to_their_own_conventions() -> None:
    """gen_ai.prompt and gen_ai.completion mean other things elsewhere: here they would only look like content off."""
    for name in ("gen_ai.prompt", "gen_ai.completion.0.content"):
        assert GenAI().reading(Span("s", "t", attributes={"gen_ai.operation.name": "chat", name: "x"})) is None


@given(
    st.dictionaries(NAMES, VALUES | VALUES.map(json.dumps), max_size=6),
    st.dictionaries(NAMES, VALUES, max_size=3),
    VALUES,
)
def test_a_hostile_span_does_not_raise(attributes: dict[str, Any], logged: dict[str, Any], body: Any) -> None:
    """Whatever stands in any attribute, log or event."""
    logs = tuple(Log(name, body, logged) for name in (DETAILS, "gen_ai.user.message", "gen_ai.choice"))
    GenAI().reading(Span("s", "t", attributes=attributes, logs=logs, events=(Event(DETAILS, attributes=logged),)))
