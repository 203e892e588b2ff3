"""Texts, JSON, documents and citations out of whatever a span holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.cited import mentions
from groundtrace.conventions.shapes import Decoded, decode, documents, is_masked, number, said

FIXTURES = Path(__file__).parents[1] / "fixtures" / "shapes"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def cases(name: str) -> list[Any]:
    """The cases of a fixture, named for what they show."""
    return [pytest.param(c, id=c["case"]) for c in json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))]


@pytest.mark.parametrize("case", cases("documents"))
def test_documents_are_found_in_every_shape(case: dict[str, Any]) -> None:
    """LangChain, LlamaIndex, file search, plain texts; printed objects and messages are no documents."""
    found = documents(case["value"], "output.value")

    told = None if found is None else [[d.id, d.text.value if d.text else None, d.score] for d in found]
    assert told == case["expect"]


@given(st.dictionaries(st.text(min_size=1, max_size=8), JSON, min_size=1))
def test_an_object_is_decoded_as_it_was_written(value: dict[str, Any]) -> None:
    """Decoding undoes writing."""
    assert decode(json.dumps(value)) == Decoded(value)


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(min_size=8), min_size=1), st.data())
def test_json_cut_anywhere_is_seen_to_be_cut(value: dict[str, str], data: st.DataObject) -> None:
    """A length limit leaves a prefix: every one but the shortest is told from a plain text."""
    whole = json.dumps(value)
    cut = whole[: data.draw(st.integers(17, len(whole) - 1))] if len(whole) > 18 else whole[:-1]

    assert decode(cut).cut == (len(cut) > 16)


@pytest.mark.parametrize(
    "text",
    [
        "[1] (source: moon) The Moon is far.",
        "{braces} open this sentence, and it goes on to its end.",
        "[see the appendix] for what the tables say about it",
        "[" * 100_000,
        '{"a":' * 50_000,
    ],
)
def test_a_text_that_only_starts_like_json_stays_a_text(text: str) -> None:
    """Answers start with [1] and with braces; nesting without end is a text too."""
    assert decode(text).value == text


def test_json_other_parsers_refuse_is_still_read() -> None:
    """NaN and control characters stand in real telemetry."""
    assert decode('{"a": NaN, "b": "line\nbreak"}').value["b"] == "line\nbreak"


@given(JSON)
def test_nothing_a_span_holds_makes_a_shape_raise(value: Any) -> None:
    """Whatever stands in an attribute."""
    decode(value)
    documents(value, "x")
    mentions(value, "x")
    said(value, "x")
    number(value)


def test_a_text_with_half_a_character_is_damaged() -> None:
    """The rest of it can be read."""
    half = said("The \ud83d", "output.value")

    assert half is not None
    assert half.state == "damaged"
    assert half.legible
    assert "halves of characters" in half.remedy


@pytest.mark.parametrize(
    "text",
    [
        *(
            "__REDACTED__",
            " [REDACTED] ",
            "<redacted>",
            "[Scrubbed due to 'password']",
            "REDACTED",
            "[MASKED]",
            "<masked>",
        ),
        *("***", "******", "[Filtered]", "[REDACTED_EMAIL]", "<PERSON>", "<EMAIL_ADDRESS>", "XXXX", "xxxxxxxx", "████"),
        *("__REDACTED__ __REDACTED__", "**REDACTED**", "[REDACTED: email], <PERSON>.", "__REDACTED_EMAIL__"),
    ],
)
def test_a_masked_text_is_known_as_one(text: str) -> None:
    """The marks OpenInference, logfire and people put in a text's place."""
    assert is_masked(text)


def test_a_text_that_speaks_of_masking_is_not_masked() -> None:
    """Only a whole value is a mask."""
    assert not is_masked("The name was [REDACTED] in the report.")
    for text in (
        "Redacted.",
        "**",
        "XXX",
        "[1]",
        "<b>",
        "Dear <PERSON>",
        "[filter]",
        "hidden",
        "The masked ball",
        "",
        " ",
    ):
        assert not is_masked(text)


@pytest.mark.parametrize("piece", ["x", "*", "__REDACTED__ ", "[redacted ", "<PERSON>", "[scrubbed due to ", " ", "█"])
def test_a_mask_of_any_length_is_looked_at_once(piece: str) -> None:
    """A pattern that went back over repeats of repeats would not return."""
    assert not is_masked(piece * 150 + "!")
    assert not is_masked(piece * 100_000 + "!")


def test_annotations_of_openai_point_into_the_answer() -> None:
    """File citations are a place, links a span; both name what they point to."""
    noted = [
        {"type": "file_citation", "index": 7, "file_id": "file-a", "filename": "a.md"},
        {"type": "url_citation", "start_index": 8, "end_index": 20, "url": "https://x.example", "title": "X"},
    ]
    reply = {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "It did.", "annotations": noted}]}]
    }

    assert [(m.start, m.end, m.document_id) for m in mentions(reply, "output.value")] == [
        (7, 7, "file-a"),
        (8, 20, "https://x.example"),
    ]
