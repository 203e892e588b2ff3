"""What a filter asks of LangSmith is what its user meant, or it is refused before anything is asked."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.adapters.langsmith.filters import Filter, lint, quoted
from groundtrace.errors import PlanError
from standins.langsmith import language

RUN = {"id": "r", "name": "n", "run_type": "chain", "status": "success", "tags": ["prod"]}


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ('search(name, "x")', 'write search("x"), or eq(name, "x") for a whole value'),
        ("neq(error, null)", 'write eq(status, "error")'),
        ('equals(name, "x")', "it has eq, neq"),
        ('seach("x")', "did you mean search?"),
        ("eq(name)", "write eq(field, value)"),
        ('eq("x", name)', "write eq(field, value)"),
        ("eq(name, ferry)", 'write eq(name, "ferry") if it is a text'),
        ('eq(metadata.env, "prod")', 'write and(eq(metadata_key, "env"), eq(metadata_value, "prod"))'),
        ('has(tag, "x")', "did you mean tags?"),
        ('in(name, "x")', 'write in(name, ["x"])'),
        ('eq(name, ["x", "y"])', 'write in(name, ["x", "y"])'),
        ("not(eq(is_root, true), eq(is_root, false))", ""),
        ('eq(name, "x"', "lacks a )"),
        ('eq(name, "x"))', "goes on after its end"),
        ('eq(name, "x") and eq(name, "y")', "join two with and(..., ...)"),
        ('eq(name, "x)', "a text stands in double quotes"),
        ('"x"', 'such as eq(name, "x")'),
        ("name", 'such as eq(name, "x")'),
        ("and()", "gives and 0 conditions"),
        ("", "says nothing"),
        ("(" * 10_000, "too much"),
        ("not(" * 10_000, ""),
        ("[" * 10_000, ""),
    ],
)
def test_a_mistake_is_refused_with_what_to_write(written: str, instead: str) -> None:
    """Issue langsmith-cli#307 and those like it: LangSmith says 400, and late."""
    with pytest.raises(PlanError) as caught:
        lint(written)
    assert instead in str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        'and(eq(feedback_key, "k"), gte(feedback_score, 4))',
        'and(in(metadata_key, ["session_id", "thread_id"]), eq(metadata_value, "t"))',
        "or(gt(latency, '10s'), not(eq(is_root, true)))",
        'search("tax")',
        'and(eq(input_key, "messages.content"), like(input_value, "%refund%"))',
        'eq(a_field_nobody_knows_of, "x")',
        'gt(start_time, "2026-11-01T00:00:00Z")',
        r"eq(name, 'it\'s')",
        "eq(error, null)",
        "neq(reference_example_id, null)",
    ],
)
def test_what_the_language_has_passes_as_it_is(written: str) -> None:
    """Field names are LangSmith's to know."""
    assert lint(f" {written} ") == written


@given(st.text(max_size=30), st.text(max_size=30))
def test_whatever_a_value_holds_it_is_asked_for_as_it_is(key: str, value: str) -> None:
    """Quotes, backslashes, brackets, line ends."""
    asked = Filter(tags=("prod",), metadata={key: value}).text
    assert lint(asked) == asked
    node = language.parse(asked)
    run = {**RUN, "extra": {"metadata": {key: value}}}
    assert language.matches(node, run, [])
    assert not language.matches(node, {**RUN, "extra": {"metadata": {key: f"{value}!"}}}, [])


@given(st.text(alphabet="eqandsrch(),[]\"'\\ 1.-_\n", max_size=40))
def test_anything_at_all_is_read_or_refused(written: str) -> None:
    """Never anything else; what is let through the stand-in can read as well."""
    try:
        told = lint(written)
    except PlanError:
        return
    assert told == written.strip()


def test_a_metadata_value_with_both_quotes_is_escaped() -> None:
    """The second half of langsmith-cli#307."""
    assert re.search(r'"it\'s \\"q\\""', Filter(metadata={"user": 'it\'s "q"'}).text)
    assert quoted('it\'s "q"') == '"it\'s \\"q\\""'
