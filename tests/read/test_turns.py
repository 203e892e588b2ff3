"""Which message of the user began a turn, and what of the talk belongs to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundtrace.model import Span
from spans import MARS, MOON, one

_RETRY = "Validation feedback:\nGive a unit.\n\nFix the errors and try again."


def _talk(*messages: dict[str, Any]) -> Span:
    return Span(
        "s0",
        "t",
        start=0,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([_said("assistant", "384,400 km.")]),
        },
    )


def _said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _called(name: str = "search", ident: str = "c1") -> dict[str, Any]:
    called = {"type": "tool_call", "id": ident, "name": name, "arguments": {"query": "moon"}}
    return {"role": "assistant", "parts": [called]}


def _answered(result: str, ident: str = "c1", *, role: str = "tool", beside: str | None = None) -> dict[str, Any]:
    parts = [{"type": "tool_call_response", "id": ident, "response": result}]
    return {"role": role, "parts": [*parts, *([{"type": "text", "content": beside}] if beside else [])]}


@pytest.mark.parametrize(
    "after",
    [
        [_answered(MOON), _said("assistant", "384,400"), _said("user", _RETRY)],
        [_answered(MOON), _said("user", "The user is waiting: answer now.")],
        [_answered(MOON, role="user", beside="<system-reminder>Be brief.</system-reminder>")],
        [_answered(MOON), _said("user", "<system-reminder>\nBe brief.\n</system-reminder>")],
    ],
)
def test_what_a_framework_says_in_the_users_name_begins_no_turn(after: list[dict[str, Any]]) -> None:
    """A retry, a reminder, whatever follows results before an answer: what tools found for the question counts."""
    before = [_said("user", "Hi"), _said("assistant", "Hello."), _said("user", "How far is the Moon?")]
    made = one(_talk(*before, _called(), *after))

    assert made.query == "How far is the Moon?"
    assert [p.text for p in made.context] == [MOON]
    assert [turn.text for turn in made.history] == ["Hi", "Hello."]


def test_a_question_after_an_answer_begins_a_turn() -> None:
    """Also where the answer was given by a tool's arguments, or the model's own search stands beside it."""
    searched = {"type": "tool_call", "id": "c1", "name": "web_search", "arguments": {}}
    found = {"type": "tool_call_response", "id": "c1", "response": MOON}
    beside = {"role": "assistant", "parts": [searched, found, {"type": "text", "content": "Far."}]}
    told = [_called(), _answered(MOON), _said("assistant", "Far.")]
    handed = [_called(), _answered(MOON), _called("final_result", "f"), _answered("Final result processed.", "f")]

    for turn in (told, handed, [beside]):
        made = one(_talk(_said("user", "How far?"), *turn, _said("user", "Why Mars?"), _called(), _answered(MARS)))
        assert made.query == "Why Mars?"
        assert [p.text for p in made.context] == [MARS]
        bare = one(_talk(_said("user", "How far?"), *turn, _said("user", "Why Mars?")))
        assert (bare.query, bare.context) == ("Why Mars?", ())
