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


def test_the_answer_of_a_structured_output_is_the_answer_in_it() -> None:
    """Where the span says that its output is JSON."""
    told = json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": '{"answer": "Far.", "km": 1}'}]}])
    held = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": told}
    for extra, answer in (({}, '{"answer": "Far.", "km": 1}'), ({"gen_ai.output.type": "json"}, "Far.")):
        found = GenAI().reading(Span("s", "t", attributes={**held, **extra}))
        assert found is not None
        assert found.output is not None
        assert found.output.value == answer


def test_messages_without_their_content_are_content_that_is_off() -> None:
    """They tell that something was said, and not what."""
    empty = json.dumps([{"role": "user", "parts": [{"type": "text"}, {"type": "tool_call", "id": "c", "name": "kb"}]}])
    held = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": empty, "gen_ai.output.messages": empty}
    for scope, named in (("pydantic-ai", "include_content=True"), ("gen_ai", "recordInputs")):
        found = GenAI().reading(Span("s", "t", scope=scope, attributes=held))
        assert found is not None
        assert (found.content, named in found.remedy) == ("off", True)


@pytest.mark.parametrize(
    "held", [{"gen_ai.system": "az.ai.inference"}, {"az.namespace": "Microsoft.CognitiveServices"}]
)
def test_azure_has_a_switch_of_its_own(held: dict[str, Any]) -> None:
    """Its packages leave content out unless told otherwise."""
    found = GenAI().reading(Span("s", "t", attributes={"gen_ai.operation.name": "chat", **held}))

    assert found is not None
    assert (found.content, "AZURE_TRACING_GEN_AI_CONTENT_RECORDING_ENABLED" in found.remedy) == ("off", True)


@pytest.mark.parametrize("newest_first", [True, False])
def test_a_thread_of_azures_is_read_in_either_order(*, newest_first: bool) -> None:
    """Its messages are events, with their text one level down; what the agent said last is the answer."""
    said = [("user", "Hello."), ("assistant", "Hello!"), ("user", "How far?"), ("assistant", "Far.")]
    events = [
        Event(f"gen_ai.{role}.message", attributes={"gen_ai.event.content": json.dumps(content)})
        for role, words in said
        for content in [{"role": role, "content": {"text": {"value": words, "annotations": []}}}]
    ]
    held = {"gen_ai.operation.name": "list_messages", "gen_ai.thread.id": "thread-1", "gen_ai.thread.run.id": "run-1"}
    told = tuple(reversed(events) if newest_first else events)
    found = GenAI().reading(Span("s", "t", attributes=held, events=told))

    assert found is not None
    assert (found.role, found.session) == ("generation", "thread-1")
    assert [m.text.value for m in found.messages if m.text] == ["Hello.", "Hello!", "How far?"]
    assert found.output is not None
    assert found.output.value == "Far."


def test_litellm_calls_the_user_by_another_name() -> None:
    """The same its older attributes have."""
    found = GenAI().reading(Span("s", "t", attributes={"gen_ai.operation.name": "chat", "llm.user": "u-1"}))

    assert found is not None
    assert found.user == "u-1"


def test_search_results_written_as_texts_are_documents() -> None:
    """OpenTelemetry's instrumentation of anthropic flattens what it has no name for."""
    texts = ["The Moon is 384,400 km away from the Earth.", "Mars is named for the Roman god of war.", "How far?"]
    asked = [{"role": "user", "parts": [{"type": "text", "content": text} for text in texts]}]
    instructions = [{"type": "text", "content": "Answer only from the documents."}]
    found = reading("chat", input__messages=asked, output__messages=TOLD, system_instructions=instructions)

    assert found.messages[-1].text is not None
    assert found.messages[-1].text.value == "How far?"
    assert [d.text.value for d in found.messages[-1].documents if d.text] == texts[:2]
