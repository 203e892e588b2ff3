"""What providers' replies cite, in each provider's shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.cited import may_cite, mentions, searched
from groundtrace.model import Mention

REPLIES = json.loads((Path(__file__).parents[1] / "fixtures" / "citations" / "replies.json").read_text("utf-8"))
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def shown(mention: Mention, answer: str) -> str:
    """A mention as the fixtures write it: what is cited, to where, with which words."""
    if mention.start is None or mention.end is None:
        said = mention.claim or "(all)"
    else:
        said = answer[mention.start : mention.end] or f"@{mention.start}"
    to = f"#{mention.document}" if mention.document is not None else mention.document_id or "?"
    return f"{said} -> {to}" + (f" “{mention.quote}”" if mention.quote else "")


@pytest.mark.parametrize("case", REPLIES, ids=lambda case: case["name"])
def test_a_reply_cites_what_its_provider_says(case: dict[str, Any]) -> None:
    """Each provider's own shape, also as the JSON text a span keeps it in."""
    for reply in (case["reply"], json.dumps(case["reply"])):
        assert [shown(mention, case["answer"]) for mention in mentions(reply, "x")] == case["mentions"]
    assert not case["mentions"] or may_cite(json.dumps(case["reply"]))


def spoiled(value: Any, data: st.DataObject) -> Any:
    """The same with a value here and there that is of another kind."""
    if data.draw(st.integers(0, 9)) == 0:
        return data.draw(JSON)
    if isinstance(value, dict):
        return {key: spoiled(held, data) for key, held in value.items() if data.draw(st.integers(0, 15))}
    return [spoiled(held, data) for held in value] if isinstance(value, list) else value


@given(st.data())
def test_a_reply_of_any_form_cites_or_does_not(data: st.DataObject) -> None:
    """Whatever is wrong in it: offsets are in order where there are any, and nothing raises."""
    reply = spoiled(data.draw(st.sampled_from(REPLIES))["reply"], data)
    searched(reply, "x")
    for mention in mentions(reply, "x"):
        assert (mention.start is None) == (mention.end is None)
        assert mention.start is None or mention.end is None or 0 <= mention.start <= mention.end


def gemini(answer: str, start: int, end: int) -> Mention:
    """What Gemini cites of an answer by a segment of bytes."""
    grounding = {
        "groundingChunks": [{"web": {"uri": "u"}}],
        "groundingSupports": [{"segment": {"startIndex": start, "endIndex": end}, "groundingChunkIndices": [0]}],
    }
    reply = {"candidates": [{"content": {"parts": [{"text": answer}]}, "groundingMetadata": grounding}]}
    return mentions(reply, "x")[0]


@given(st.text(max_size=40), st.integers(0, 170), st.integers(0, 170))
def test_bytes_never_split_a_character(answer: str, one: int, other: int) -> None:
    """The stretch is the smallest of whole characters that holds the bytes."""
    start, end = sorted((one, other))
    found = gemini(answer, start, end)
    assert found.start is not None
    assert found.end is not None
    assert 0 <= found.start <= found.end <= len(answer)
    held = [len(answer[:at].encode("utf-8", "surrogatepass")) for at in (found.start, found.end)]
    size = len(answer.encode("utf-8", "surrogatepass"))
    assert held[0] <= start or start > size
    assert held[1] >= min(end, size)
    if start < end <= size:
        inner = answer[found.start + 1 : found.end - 1].encode("utf-8", "surrogatepass")
        assert len(inner) <= end - start


@given(st.text(max_size=40), st.data())
def test_bytes_between_characters_are_their_place(answer: str, data: st.DataObject) -> None:
    """Offsets Gemini really gives."""
    places = st.integers(0, len(answer))
    start, end = sorted((data.draw(places), data.draw(places)))
    before, through = (len(answer[:at].encode("utf-8", "surrogatepass")) for at in (start, end))
    found = gemini(answer, before, through)
    assert (found.start, found.end) == (start, end)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("Azure on your data", ["It left.", "It landed."]),
        ("Bedrock", ["It landed."]),
        ("Gemini: bytes", ["It is far."]),
    ],
)
def test_what_a_provider_looked_up_itself_are_passages(name: str, texts: list[str]) -> None:
    """In the order its citations count them; what has no text is none."""
    reply = next(case["reply"] for case in REPLIES if case["name"] == name)
    found = searched(reply, "output.value") or ()
    assert [document.text.value for document in found if document.text is not None] == texts


def test_a_reply_that_looked_nothing_up_has_no_passages() -> None:
    """A search with no results is one; no search is none."""
    assert searched({"output": [{"type": "file_search_call", "results": []}]}, "x") == ()
    assert searched({"choices": [{"message": {"content": "Hi."}}]}, "x") is None
    assert searched("Hi.", "x") is None
