"""Messages in every form frameworks write them, and the question or answer inside a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.messages import last_user_text, message, messages, set_apart, tool_result
from groundtrace.conventions.wrapped import question, reply

FIXTURES = Path(__file__).parents[1] / "fixtures" / "shapes"
WORDS = [
    "messages",
    "content",
    "role",
    "type",
    "data",
    "kwargs",
    "parts",
    "query",
    "answer",
    "tool_calls",
    "choices",
    "x",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=16,
)


def cases(name: str) -> list[Any]:
    """The cases of a fixture, named for what they show."""
    return [pytest.param(c, id=c["case"]) for c in json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))]


@pytest.mark.parametrize("as_text", [False, True], ids=["structured", "JSON"])
@pytest.mark.parametrize("case", cases("messages"))
def test_messages_are_read_in_every_form(case: dict[str, Any], *, as_text: bool) -> None:
    """OpenAI, Anthropic, LangChain, GenAI, pairs: one form comes out, structured or as JSON text."""
    value = json.dumps(case["value"]) if as_text and not isinstance(case["value"], str) else case["value"]

    found = messages(value, "input.value")

    tools = [t for m in found for t in m.tools]
    assert [[m.role, m.text.value if m.text else None] for m in found] == case["expect"]
    assert [d.text.value for m in found for d in m.documents if d.text] == case.get("documents", [])
    assert [
        [t.name, t.id, t.arguments.value if t.arguments else None, t.result.value if t.result else None] for t in tools
    ] == case.get("tools", [])
    assert [[d.id, d.text.value if d.text else None] for t in tools for d in t.documents] == case.get("listed", [])


@pytest.mark.parametrize("case", cases("questions"))
def test_the_question_is_found_in_any_wrapping(case: dict[str, Any]) -> None:
    """Every framework wraps its input in its own way; what is no question is none."""
    assert question(case["value"]) == case["expect"]


@pytest.mark.parametrize("as_text", [False, True], ids=["structured", "JSON"])
@pytest.mark.parametrize("case", cases("replies"))
def test_the_answer_is_found_in_any_wrapping(case: dict[str, Any], *, as_text: bool) -> None:
    """So do outputs; steps in between and printed objects are no answers."""
    value = json.dumps(case["value"]) if as_text and isinstance(case["value"], dict) else case["value"]

    assert reply(value) == case["expect"]


@given(JSON)
def test_nothing_a_span_holds_makes_them_raise(value: Any) -> None:
    """Whatever stands in an attribute, structured or as JSON."""
    for form in (value, json.dumps(value)):
        messages(form, "x")
        message(form, "x")
        question(form)
        reply(form)
        tool_result(form, "x")


def test_endless_nesting_ends() -> None:
    """A hostile depth costs nothing and finds nothing."""
    deep: Any = "How far?"
    for _ in range(100_000):
        deep = {"query": deep}

    assert question(deep) is None
    assert reply(deep) is None


def test_a_message_of_tool_results_is_not_the_user_speaking() -> None:
    """Anthropic sends tool results under the user's role."""
    talk = messages(
        [["user", "How far?"], {"role": "user", "content": [{"type": "tool_result", "content": "far"}]}], "x"
    )

    last = last_user_text(talk)

    assert last is not None
    assert last.value == "How far?"


def test_a_tools_result_comes_out_of_what_wraps_it() -> None:
    """JSON quotes, the AI SDK's typed values, MCP's content; a message of LangChain keeps its artifact."""
    typed = {"type": "text", "value": "The Moon."}
    blocks = {"content": [{"type": "text", "text": "The Moon."}], "isError": False}
    for wrapped in ('"The Moon."', typed, blocks, {"type": "content", "value": blocks["content"]}):
        assert tool_result(wrapped, "x") == ("The Moon.", ())
    assert tool_result('"The Moon.', "x") == ('"The Moon.', ())
    listed = tool_result({"type": "json", "value": {"documents": [{"id": "m", "text": "The Moon."}]}}, "x")[1]
    assert [d.id for d in listed] == ["m"]
    message = {**blocks, "tool_call_id": "c", "artifact": [{"id": "m", "page_content": "The Moon."}]}
    assert [d.id for d in tool_result(message, "x")[1]] == ["m"]


PASSAGES = ["The Moon is 384,400 km away from the Earth.", "Mars is named for the Roman god of war."]
INSTRUCTIONS = "Answer only from the documents, with citations."


def talk(parts: list[str], instructions: str = INSTRUCTIONS) -> tuple[Any, ...]:
    """A talk whose last message is of these parts, passages set apart, and the message as it was."""
    given_it = [{"role": "user", "parts": [{"type": "text", "content": part} for part in parts]}]
    whole = messages([{"role": "system", "content": instructions}, *given_it], "x")
    return set_apart(whole, given_it, "x"), whole


def test_passages_that_are_parts_of_the_question_are_set_apart() -> None:
    """Where the instructions say to answer from documents, and none are told otherwise."""
    told, _ = talk([*PASSAGES, "How far is the Moon?"])

    assert told[-1].text.value == "How far is the Moon?"
    assert [d.text.value for d in told[-1].documents] == PASSAGES


@pytest.mark.parametrize(
    ("parts", "instructions"),
    [
        ([*PASSAGES, "How far is the Moon?"], "Be brief."),
        ([PASSAGES[0], "How far is the Moon?"], INSTRUCTIONS),
        ([*PASSAGES, "Tell me how far the Moon is."], INSTRUCTIONS),
        ([PASSAGES[0], "And is that not rather far away from here?", "How far?"], INSTRUCTIONS),
        ([PASSAGES[0], "Thank you.", "How far?"], INSTRUCTIONS),
        ([PASSAGES[0], "Please answer in the following language: French,", "How far?"], INSTRUCTIONS),
        ([f"{PASSAGES[0]}\n\n{PASSAGES[1]}\n\nHow far?"], INSTRUCTIONS),
    ],
)
def test_parts_that_may_be_the_users_own_words_stay_together(parts: list[str], instructions: str) -> None:
    """Nothing says that they are passages."""
    told, whole = talk(parts, instructions)

    assert told == whole


def test_parts_beside_documents_or_tools_stay_together() -> None:
    """There the passages are known."""
    parts = [{"type": "text", "content": part} for part in (*PASSAGES, "How far?")]
    block = {"type": "document", "source": {"type": "text", "data": "The Sun."}}
    for others in (
        [{"role": "user", "content": [block]}],
        [{"role": "tool", "content": "The Sun.", "tool_call_id": "c"}],
    ):
        given_it = [{"role": "user", "parts": parts}, *others]
        whole = messages([{"role": "system", "content": INSTRUCTIONS}, *given_it], "x")

        assert set_apart(whole, given_it, "x") == whole


@given(JSON)
def test_setting_apart_never_raises(value: Any) -> None:
    """Whatever the messages are."""
    whole = messages([{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": "A\n\nB?"}], "x")
    set_apart(whole, value, "x")
    set_apart(whole, [{"role": "user", "parts": value}], "x")


def test_crewai_calls_its_answer_raw() -> None:
    """A crew's output and a task's."""
    assert reply({"raw": "Far.", "pydantic": None, "json_dict": None, "tasks_output": [{"raw": "Near."}]}) == "Far."


def test_what_google_adk_tells_an_agent_of_others_is_not_the_user_speaking() -> None:
    """It is told as a message of the user's."""
    parts = [{"type": "text", "content": "For context:"}, {"type": "text", "content": "[front] said: Well?"}]
    spoken = messages([{"role": "user", "content": "How far?"}, {"role": "user", "parts": parts}], "x")

    assert last_user_text(spoken) == spoken[0].text


def test_an_object_as_python_prints_it_is_no_answer() -> None:
    """What it holds is told elsewhere; an answer may hold code, and one that only names a call is words."""
    assert (
        reply("StopEvent(result=AgentOutput(response=ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>)))") is None
    )
    assert reply("StopEvent(result=AgentOutput(response=ChatMessage(blocks=[TextBlock(text='It is fa...") is None
    assert reply("Call Retriever(k=3) twice.") == "Call Retriever(k=3) twice."
    assert reply("Far (k=3)") == "Far (k=3)"
