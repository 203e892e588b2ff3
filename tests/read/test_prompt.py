"""What a filled prompt holds: each fixture is a prompt, and beside it the passages and the question in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.read.prompt import asked, context_section, numbered, places

PROMPTS = sorted((Path(__file__).parents[1] / "fixtures" / "prompts").glob("*.txt"))


def fixture(path: Path) -> tuple[str, dict[str, Any]]:
    """A prompt and what it holds."""
    return path.read_text(encoding="utf-8"), json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PROMPTS, ids=lambda path: path.stem)
def test_a_prompt_shows_its_passages_and_its_question(path: Path) -> None:
    """Numbers are labels only outside of the passages' own text; the question is the prompt's, not a passage's."""
    prompt, expected = fixture(path)
    known = [span for span in places(expected.get("known", []), prompt) if span is not None]

    entries = numbered(prompt, known)
    section = context_section(prompt) if not entries else None

    assert [[e.number, e.id, e.text] for e in entries] == expected["passages"]
    assert asked(prompt, [(e.start, e.end) for e in entries]) == expected["question"]
    assert (prompt[slice(*section)] if section else None) == expected.get("section")


def test_a_text_that_holds_nothing_else_needs_no_heading() -> None:
    """A tool's result or a named context is all passages; in a prompt the same list may be questions."""
    listed = "1. The Moon.\n2. Mars."

    assert [e.text for e in numbered(listed, loose=True)] == ["The Moon.", "Mars."]
    assert numbered(listed) == ()


PASSAGE = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"]), min_size=1, max_size=60).map(
    str.strip
)


@given(
    st.lists(PASSAGE.filter(lambda t: t and t[0].isalpha()), min_size=2, max_size=6), st.sampled_from(["\n", "\n\n"])
)
def test_what_is_numbered_is_read_back(passages: list[str], between: str) -> None:
    """Passages of one paragraph, numbered on, come back as they were, with offsets that hold them."""
    lines = [f"[{n}] {text}" for n, text in enumerate(passages, start=1)]
    prompt = "Documents:\n" + between.join(lines) + "\n\nQuestion: Which of them?"

    entries = numbered(prompt)

    assert [e.text for e in entries] == passages
    assert all(prompt[e.start : e.end].endswith(e.text) or e.text in prompt[e.start : e.end] for e in entries)
    assert asked(prompt, [(e.start, e.end) for e in entries]) == "Which of them?"


@given(st.text(max_size=200), st.text(min_size=1, max_size=20))
def test_a_text_is_found_where_it_stands(around: str, text: str) -> None:
    """Placed into any prompt, apart from white space and case."""
    if not text.strip():
        return
    span = places([text], f"{around}{text}{around}")[0]

    assert span is not None
    assert 0 <= span[0] < span[1] <= 2 * len(around) + len(text)


@given(st.text(st.sampled_from("[]<>()1209.:#*-\n documentQ/=\"'`"), max_size=300))
def test_no_prompt_raises(prompt: str) -> None:
    """Labels, tags and fences in any disorder; offsets stay inside."""
    entries = numbered(prompt)

    assert all(0 <= e.start <= e.end <= len(prompt) for e in entries)
    asked(prompt, [(e.start, e.end) for e in entries])
    context_section(prompt)


@pytest.mark.parametrize(
    "piece",
    [
        "[1] a\n",
        "Documents:\n[1]\n",
        "<document>",
        "<doc><text>",
        "Question:\n",
        " " * 50,
        "docs\n---\n",
        "1. \n",
        "(source: " * 3,
    ],
)
def test_the_work_grows_no_faster_than_the_prompt(piece: str) -> None:
    """Twice the text makes at most twice the calls; a pattern that went back over its megabyte would not return."""

    def read_all(size: int) -> None:
        prompt = piece * (size // len(piece))
        entries = numbered(prompt)
        asked(prompt, [(e.start, e.end) for e in entries])
        context_section(prompt)

    calls = [_calls(lambda size=size: read_all(size)) for size in (40_000, 80_000)]
    read_all(1_000_000)

    assert calls[1] <= 2 * calls[0] + 100


def _calls(work: Callable[[], None]) -> int:
    """How many functions are called in doing it."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
