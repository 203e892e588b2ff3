"""One span in the older GenAI forms at a time: numbered attributes, blobs, events, an event a message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.genai import GenAI
from groundtrace.conventions.genai_old import GenAIOld
from groundtrace.model import Event, Log, Reading, Span
from groundtrace.testing import ConventionContract
from spans import MARS, MOON, PROMPT, one

ASKED = {"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": "Be brief."}
ASKED |= {"gen_ai.prompt.1.role": "user", "gen_ai.prompt.1.content": "How far?"}
TOLD = {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Far."}
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How far?"}]
NAMES = st.sampled_from(
    [
        *("gen_ai.prompt", "gen_ai.completion", "gen_ai.prompt.0", "gen_ai.prompt.0.role", "gen_ai.prompt.0.content"),
        *("gen_ai.prompt.1.tool_calls.0.name", "gen_ai.prompt.1.tool_calls", "gen_ai.completion.0.content"),
        *("gen_ai.completion.0.tool_calls.0.arguments", "gen_ai.completion.content", "gen_ai.prompt.x.role"),
        *("llm.request.type", "gen_ai.operation.name", "tool.name", "tool.result", "tool.parameters"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("Doc 99, Score: nan"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "messages", "choices"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


def reading(
    *attributes: dict[str, Any], events: tuple[Event, ...] = (), logs: tuple[Log, ...] = (), **more: Any
) -> Reading:
    """The reading of a span with these attributes; two underscores in further names stand for a dot."""
    held = {name: value for one_of in attributes for name, value in one_of.items()}
    held |= {name.replace("__", "."): value for name, value in more.items()}
    found = GenAIOld().reading(Span("s", "t", attributes=held, events=events, logs=logs))
    assert found is not None
    return found


def told(found: Reading) -> tuple[list[tuple[str, str]], str | None]:
    """What a call was given, and what it said."""
    spoken = [(m.role, m.text.value) for m in found.messages if m.text]
    return spoken, found.output.value if found.output is not None else None


BOTH = ([("system", "Be brief."), ("user", "How far?")], "Far.")


class TestGenAIOld(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> GenAIOld:
        """The convention."""
        return GenAIOld()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        named = {**ASKED, **TOLD, "tool.parameters": "{}", "tool.result": "Far."}
        kinds: list[dict[str, Any]] = [{"llm.request.type": name} for name in ("chat", "rerank", "embedding")]
        kinds += [{"gen_ai.operation.name": name} for name in ("invoke_agent", "execute_tool")]
        blobs = {"gen_ai.prompt": json.dumps({"messages": MESSAGES}), "gen_ai.completion": '{"content": "Far."}'}
        return [Span("s", "t", attributes=held) for held in (*({**named, **kind} for kind in kinds), blobs)]


@given(st.dictionaries(NAMES, VALUES | VALUES.map(json.dumps), max_size=7), VALUES)
def test_whatever_stands_in_a_span_reading_it_raises_nothing(held: dict[str, Any], body: Any) -> None:
    """On the span, in its events, and in the logs beside it."""
    events = tuple(Event(f"gen_ai.content.{name}", attributes=held) for name in ("prompt", "completion"))
    logs = (Log("", body, {"event_name": "gen_ai.content.prompt"}),)
    GenAIOld().reading(Span("s", "t", attributes=held, events=events, logs=logs))
    parts = {"content": body, "message": body, "gen_ai.event.content": body}
    noted = tuple(Event(name, attributes=parts) for name in ("gen_ai.user.message", "gen_ai.choice"))
    GenAI().reading(Span("s", "t", attributes={"gen_ai.operation.name": "execute_tool"}, events=noted))


# --- numbered attributes ----------------------------------------------------------------------------------------------


def test_messages_are_numbered_and_in_the_order_of_their_numbers() -> None:
    """However the attributes are sorted."""
    more = {f"gen_ai.prompt.{n}.{k}": v for n in (10, 2) for k, v in (("role", "user"), ("content", f"{n}?"))}
    found = reading(more, TOLD, ASKED, gen_ai__response__id="r-1", gen_ai__request__model="m", llm__user="u-1")

    assert found.role == "generation"
    assert told(found) == ([*BOTH[0], ("user", "2?"), ("user", "10?")], "Far.")
    assert found.messages[1].text is not None
    assert found.messages[1].text.attribute == "gen_ai.prompt.1.content"
    assert (found.response_id, found.model, found.user) == ("r-1", "m", "u-1")


def test_tool_calls_and_their_results_are_messages() -> None:
    """What was asked for stands in numbers below the message; a call instead of an answer is none."""
    call = {"tool_calls.0.id": "c", "tool_calls.0.name": "search", "tool_calls.0.arguments": '{"query": "How far?"}'}
    between = {f"gen_ai.prompt.2.{k}": v for k, v in {"role": "assistant", **call}.items()}
    answer = {"gen_ai.prompt.3.role": "tool", "gen_ai.prompt.3.content": MOON, "gen_ai.prompt.3.tool_call_id": "c"}
    found = reading(ASKED, between, answer, TOLD)
    asking = reading(ASKED, {f"gen_ai.completion.0.{k}": v for k, v in call.items()})

    assert [(m.role, [t.name for t in m.tools]) for m in found.messages[2:]] == [
        ("assistant", ["search"]),
        ("tool", [""]),
    ]
    result = found.messages[3].tools[0].result
    assert result is not None
    assert result.value == MOON
    assert ([t.name for t in asking.calls], asking.output) == (["search"], None)


def test_content_may_be_blocks_written_as_json() -> None:
    """As the cohere instrumentor writes a reply; a text that looks like a list is none."""
    blocks = json.dumps([{"type": "text", "text": "Far"}, {"type": "text", "text": "."}])
    found = reading(ASKED, gen_ai__completion__0__content=blocks)
    plain = reading(ASKED, gen_ai__completion__0__content="[1] says it is far.")
    data = reading(ASKED, gen_ai__completion__0__content='["Far."]')

    assert told(found)[1] == "Far."
    assert told(plain)[1] == "[1] says it is far."
    assert told(data)[1] == '["Far."]'


def test_the_first_of_several_completions_is_the_answer() -> None:
    """They are choices, beside each other."""
    found = reading(ASKED, TOLD, gen_ai__completion__1__content="Farther.")

    assert told(found)[1] == "Far."


def test_a_completion_without_a_number_is_read() -> None:
    """As the llamaindex instrumentor once wrote it."""
    found = reading(ASKED, {"gen_ai.completion.role": "assistant", "gen_ai.completion.content": "Far."})

    assert told(found) == BOTH


@pytest.mark.parametrize(
    "kind",
    [{"llm.request.type": "embedding"}, {"gen_ai.operation.name": "embeddings"}],
    ids=["by request type", "by operation"],
)
def test_the_texts_of_an_embedding_are_no_conversation(kind: dict[str, str]) -> None:
    """They stand where the messages of a chat do."""
    found = reading(ASKED, kind, gen_ai__request__model="m")

    assert (found.role, found.messages, found.model) == ("embedding", (), "m")


def test_a_rerank_names_its_documents_by_number() -> None:
    """They are told as system messages; the ranking says which of them is where."""
    given_ = {"gen_ai.prompt.0.role": "system", "gen_ai.prompt.0.content": MARS}
    given_ |= {"gen_ai.prompt.1.role": "system", "gen_ai.prompt.1.content": MOON}
    given_ |= {"gen_ai.prompt.2.role": "user", "gen_ai.prompt.2.content": "How far?"}
    ranked = {
        "gen_ai.completion.0.content": "Doc 1, Score: 0.9",
        "gen_ai.completion.1.content": f"Doc 0, Score: 0.4\n{MARS}",
    }
    found = reading(given_, ranked, llm__request__type="rerank")
    odd = reading(given_, {"gen_ai.completion.0.content": "Doc 7, Score: 0.9"}, llm__request__type="rerank")

    assert found.role == "rerank"
    assert found.query is not None
    assert found.query.value == "How far?"
    assert [(d.text and d.text.value, d.score) for d in found.documents or ()] == [(MOON, 0.9), (MARS, 0.4)]
    assert odd.documents is None


def test_content_that_is_cut_or_masked_is_said_to_be() -> None:
    """Never pieced together."""
    cut = reading(ASKED, gen_ai__completion__0__content='[{"type": "text", "text": "Far aw')
    masked = reading(ASKED, gen_ai__completion__0__content="[REDACTED]")

    assert cut.output is not None
    assert cut.output.state == "truncated"
    assert masked.output is not None
    assert masked.output.state == "masked"


# --- blobs and events -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (json.dumps(MESSAGES), '{"role": "assistant", "content": "Far."}'),
        (json.dumps({"messages": MESSAGES}), json.dumps({"choices": [{"message": {"content": "Far."}}]})),
        (MESSAGES, [{"role": "assistant", "content": "Far."}]),
    ],
    ids=["a list", "a request", "structured"],
)
def test_one_blob_holds_the_whole_conversation(asked: Any, answer: Any) -> None:
    """As JSON, or structured where an exporter allows it."""
    assert told(reading(gen_ai__prompt=asked, gen_ai__completion=answer)) == BOTH


def test_a_blob_may_be_a_text_and_may_be_cut() -> None:
    """A prompt of its own words; JSON that breaks off."""
    plain = reading(gen_ai__prompt="How far?", gen_ai__completion="Far.")
    cut = reading(gen_ai__prompt=json.dumps(MESSAGES)[:50], gen_ai__completion="Far.")

    assert told(plain) == ([("user", "How far?")], "Far.")
    assert [m.text.state for m in cut.messages if m.text] == ["truncated"]


def test_an_agents_blob_is_its_request_and_a_tools_its_answer() -> None:
    """The operation says whose the blobs are; Strands Agents first named tools by other attributes."""
    agent = reading(gen_ai__operation__name="invoke_agent", gen_ai__prompt="How far?", gen_ai__completion="Far.")
    named = {"tool.name": "search", "tool.id": "c", "tool.parameters": '{"query": "How far?"}', "tool.result": MOON}
    tool = reading(named, gen_ai__prompt='{"name": "search"}', gen_ai__completion=MOON)

    assert (agent.role, agent.messages) == ("agent", ())
    assert agent.query is not None
    assert agent.query.value == "How far?"
    assert tool.tool is not None
    assert (tool.tool.name, tool.tool.id, tool.tool.result and tool.tool.result.value) == ("search", "c", MOON)


def test_blobs_of_langsmith_are_left_to_its_own_vocabulary() -> None:
    """Its retrievers and parsers hold the same attributes."""
    held = {"langsmith.span.kind": "parser", "gen_ai.prompt": "How far?", "gen_ai.completion": "Far."}

    assert GenAIOld().reading(Span("s", "t", attributes=held)) is None


def test_events_hold_the_prompt_and_the_completion() -> None:
    """Of the span, or beside it in the logs, where each message may have a record of its own."""
    named = {"gen_ai.prompt": json.dumps(MESSAGES)}
    events = (Event("gen_ai.content.prompt", attributes=named),)
    events += (Event("gen_ai.content.completion", attributes={"gen_ai.completion": "Far."}),)
    names = {"event_name": "gen_ai.content.prompt"}
    logs = (Log("", MESSAGES[0], names), Log("", MESSAGES[1], names))
    last = {"index": 0, "message": {"role": "assistant", "content": "Far."}}
    logs += (Log("gen_ai.content.completion", last, {}),)

    assert told(reading(events=events)) == BOTH
    assert told(reading(logs=logs)) == BOTH
    assert told(reading(TOLD, events=events)) == BOTH


def test_events_are_enough_to_find_the_convention() -> None:
    """A span whose attributes say nothing of the older forms."""
    events = (Event("gen_ai.content.prompt", attributes={"gen_ai.prompt": PROMPT}),)
    events += (Event("gen_ai.content.completion", attributes={"gen_ai.completion": "Far [2]."}),)
    made = one(Span("s", "t", attributes={"gen_ai.system": "openai"}, events=events))

    assert (made.query, made.answer, len(made.context)) == ("How far is the Moon?", "Far [2].", 2)


def test_a_prompt_with_a_role_before_each_message_is_taken_apart() -> None:
    """As OpenLIT joins it; a text that only speaks of a user is not."""
    joined = "system: Be brief.\nuser: How far?"
    parted = reading(events=(Event("gen_ai.content.prompt", attributes={"gen_ai.prompt": joined}),))
    whole = reading(events=(Event("gen_ai.content.prompt", attributes={"gen_ai.prompt": f"Who is\n{joined}"}),))

    assert told(parted)[0] == BOTH[0]
    assert told(whole)[0] == [("user", f"Who is\n{joined}")]


# --- an event a message, in the forms of today's conventions ----------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (
            {"gen_ai.event.content": '{"content": "How far?"}'},
            {"gen_ai.event.content": '{"message": {"content": "Far."}}'},
        ),
        ({"content": '[{"text": "How far?"}]'}, {"message": '[{"text": "Far."}]', "finish_reason": "end_turn"}),
        ({"content": "How far?"}, {"message": "Far.", "finish_reason": "end_turn"}),
    ],
    ids=["Azure", "Strands", "texts"],
)
def test_an_event_a_message_is_read_in_every_form(asked: dict[str, str], answer: dict[str, str]) -> None:
    """JSON in an attribute of its own, blocks as JSON, or plain texts."""
    events = (Event("gen_ai.user.message", attributes=asked), Event("gen_ai.choice", attributes=answer))
    found = GenAI().reading(Span("s", "t", attributes={"gen_ai.operation.name": "chat"}, events=events))

    assert found is not None
    assert told(found) == ([("user", "How far?")], "Far.")


def test_tools_in_blocks_named_by_their_key_are_read() -> None:
    """As Bedrock writes them, and Strands Agents after it: the call, its result, and the tool's own span."""
    used = [{"toolUse": {"toolUseId": "c", "name": "search", "input": {"query": "How far?"}}}]
    result = [{"toolResult": {"toolUseId": "c", "status": "success", "content": [{"text": f"[1] {MOON}"}]}}]
    events = (
        Event("gen_ai.user.message", attributes={"content": '[{"text": "How far?"}]'}),
        Event("gen_ai.assistant.message", attributes={"content": json.dumps(used)}),
        Event("gen_ai.tool.message", attributes={"content": json.dumps(result)}),
        Event("gen_ai.choice", attributes={"message": '[{"text": "Far [1]."}]'}),
    )
    made = one(Span("s", "t", attributes={"gen_ai.operation.name": "chat"}, events=events))
    ran = (
        Event("gen_ai.tool.message", attributes={"content": '{"query": "How far?"}', "id": "c"}),
        Event("gen_ai.choice", attributes={"message": json.dumps(result[0]["toolResult"]["content"]), "id": "c"}),
    )
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    tool = GenAI().reading(Span("s", "t", attributes=named, events=ran))

    assert (made.query, made.answer, [p.text for p in made.context]) == ("How far?", "Far [1].", [MOON])
    assert tool is not None
    assert tool.tool is not None
    assert tool.tool.result is not None
    assert tool.tool.result.value == f"[1] {MOON}"
    assert tool.query is not None
    assert tool.query.value == "How far?"


def test_a_reply_by_another_role_name_is_the_models() -> None:
    """LangChain's streamed message is "unknown" to its Traceloop instrumentor."""
    said = json.dumps([{"role": "unknown", "parts": [{"type": "text", "content": "Far."}]}])
    held = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}
    found = GenAI().reading(Span("s", "t", attributes=held))

    assert found is not None
    assert told(found)[1] == "Far."
