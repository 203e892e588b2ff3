"""What holds for every rubric: our own arithmetic, halves up, null is null."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from groundtrace.model import Gap
from groundtrace.rubrics import law
from groundtrace.testing import sample_record


class Sheet(law.Verdict):
    """One of each kind of field."""

    level: law.Level = 3
    text: law.NullableText = None
    share: law.Share = 0.5
    figure: law.Figure = Decimal(1)


@pytest.mark.parametrize("text", ["", "  ", "None", "N/A", None])
def test_some_judges_write_null_as_text(text: str | None) -> None:
    """'', 'None' and 'N/A' are null in nullable text."""
    assert Sheet(text=text).text is None


def test_other_text_is_text() -> None:
    """A sentence that mentions None is no null."""
    assert Sheet(text="None of it.").text == "None of it."


@pytest.mark.parametrize("level", [0, 6, 4.5, "4", True, None, float("nan")])
def test_a_level_is_a_whole_number_from_1_to_5(level: object) -> None:
    """Nothing else is."""
    with pytest.raises(ValidationError):
        Sheet.model_validate({"level": level})


@pytest.mark.parametrize("level", [4, 4.0, Decimal("4.0")])
def test_four_point_zero_is_four(level: object) -> None:
    """However it is written."""
    assert Sheet.model_validate({"level": level}).level == 4


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 3))
def test_halves_go_up(values: list[int], digits: int) -> None:
    """Our rounding is never below the exact value by a half unit or more, nor above it by more than one."""
    exact = law.mean(values)
    rounded = Fraction(str(law.halves_up(exact, digits)))
    unit = Fraction(1, 10**digits)
    assert -unit / 2 < rounded - exact <= unit / 2


@pytest.mark.parametrize(
    ("figure", "values", "fine"),
    [
        ("4.3", [4, 4, 4, 5], True),  # 4.25, a half: up
        ("4.2", [4, 4, 4, 5], True),  # or down: within rounding, bound included
        ("4.1", [4, 4, 4, 5], False),
        ("4.25", [4, 4, 4, 5], True),
        ("4.26", [4, 4, 4, 5], False),
        ("4", [4, 4, 4, 5], True),
        ("5", [4, 4, 4, 5], False),
        ("2.67", [3, 3, 2], True),
        ("2.66", [3, 3, 2], False),
        ("1e1", [4], False),
    ],
)
def test_a_figure_is_ours_but_for_rounding(figure: str, values: list[int], *, fine: bool) -> None:
    """Compared as fractions at the decimals the judge wrote."""
    assert law.agrees(Decimal(figure), law.mean(values)) is fine


def test_a_version_changes_with_anything_that_can_move_a_score() -> None:
    """Rules, words, schema, settings."""
    base = law.version(1, "prompt", Sheet, {"a": 1})
    assert base == law.version(1, "prompt", Sheet, {"a": 1})
    others = [
        law.version(2, "prompt", Sheet, {"a": 1}),
        law.version(1, "Prompt", Sheet, {"a": 1}),
        law.version(1, "prompt", law.Verdict, {"a": 1}),
        law.version(1, "prompt", Sheet, {"a": 2}),
    ]
    assert base not in others
    assert len(set(others)) == len(others)


def test_the_cause_is_what_failed_first() -> None:
    """Nothing retrieved, the wrong thing retrieved, a wrong citation, or the generation."""
    record = sample_record(query="When does the night ferry leave?")
    assert law.root_cause(record) == "generation"
    assert law.root_cause(record, citation=True) == "citation"
    assert law.root_cause(record.model_copy(update={"context": ()})) == "retrieval_empty"
    blank = sample_record(query="When?", passages=["", " \n"])
    assert law.root_cause(blank) == "retrieval_empty"
    elsewhere = sample_record(query="Which glacier feeds the reservoir?", passages=["Bicycles travel free of charge."])
    assert law.root_cause(elsewhere) == "retrieval_miss"
    masked = record.model_copy(update={"gaps": (Gap(field="context", reason="masked"),)})
    assert law.root_cause(masked) == "trace_gap"
