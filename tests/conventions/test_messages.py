"""Messages in every form frameworks write them, and the question or answer inside a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.messages import last_user_text, message, messages, question, reply, tool_result

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
