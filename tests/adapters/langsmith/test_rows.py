"""A run of either API is one span, whatever its row holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.adapters.langsmith import rows
from groundtrace.adapters.langsmith.said import Scale, complaint, signals
from groundtrace.adapters.times import nanoseconds
from groundtrace.model import JUDGE_MARK, Span, Trace, dump, load

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [name.lower() for name in rows.WHOLE] + [*rows.WHOLE_V1, "feedback_stats"]
ROWS = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8).map(lambda row: {**row, "id": "r", "trace_id": "t"})
STATS = st.dictionaries(
    st.text(max_size=5),
    st.dictionaries(st.sampled_from(["n", "avg", "min", "max", "values", "comments", "sources"]), JSON) | JSON,
    max_size=3,
)
GOOD_OR_BAD = {"type": "categorical", "categories": [{"value": 0, "label": "bad"}, {"value": 1, "label": "good"}]}


def row(**told: Any) -> dict[str, Any]:
    """A run that ended well."""
    held = {"id": "b", "trace_id": "a", "name": "n", "run_type": "chain", "status": "success"}
    return held | {"start_time": "2026-11-06T10:00:00.123456", "end_time": "2026-11-06T10:00:01Z"} | told


@given(ROWS)
def test_whatever_a_row_holds_it_is_a_span_that_holds_it(told: dict[str, Any]) -> None:
    """Nothing raises, and nothing is changed."""
    made = rows.span(told)
    assert made.attributes[rows.ATTRIBUTE] == told
    assert load(Span, dump(made)) == made
    rows.is_over(told)
    assert load(Trace, dump(rows.trace(rows.ref(told, "p"), [told]))).ref.project == "p"


@given(STATS, JSON, JSON)
def test_whatever_feedback_counts_hold_they_are_signals_or_nothing(stats: Any, score: Any, value: Any) -> None:
    """No platform's odd value ends a pull."""
    for scale in (Scale(), Scale([{"feedback_key": "k", "feedback_config": stats}, stats, score])):
        assert all(signal.name for signal in signals({"id": "r", "feedback_stats": stats}, scale) if signal.name)
        complaint({"key": "k", "score": score, "value": value, "feedback_source": stats}, scale)


def test_both_apis_tell_the_same_span() -> None:
    """But for their row: upper case, another name of the project, parents in a list."""
    first = row(parent_run_id="a", session_id="p", error="ValueError", status="error")
    second = row(parent_run_ids=["x", "a"], project_id="p", error="ValueError", status="ERROR", run_type="CHAIN")
    told = [rows.span(one) for one in (first, second)]
    assert told[0].parent_id == told[1].parent_id == "a"
    assert told[0].status == told[1].status == "error"
    assert (told[0].start, told[0].end) == (told[1].start, told[1].end)


@pytest.mark.parametrize(
    ("told", "parent"),
    [
        ({"parent_run_id": "p"}, "p"),
        ({"parent_run_id": None, "parent_run_ids": ["a", "p"]}, "p"),
        ({"parent_run_id": None, "parent_run_ids": [], "dotted_order": "1Za.2Zp.3Zb"}, "p"),
        ({"dotted_order": "1Zb"}, None),
        ({"dotted_order": "nonsense.more"}, None),
        ({}, None),
    ],
)
def test_a_parent_is_told_by_one_of_three(told: dict[str, Any], parent: str | None) -> None:
    """Issue 751: the direct one is often missing."""
    assert rows.parent_of(row(**told)) == parent


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2026-11-06T10:00:00.123456", 1_793_959_200_123_456_000),
        ("2026-11-06T10:00:00.123456Z", 1_793_959_200_123_456_000),
        ("2026-11-06T11:00:00.123456+01:00", 1_793_959_200_123_456_000),
        ("2026-11-06T10:00:00.123456789Z", 1_793_959_200_123_456_000),
        ("2026-11-06T10:00:00", 1_793_959_200_000_000_000),
        ("yesterday", None),
        (None, None),
        (1_793_959_200, None),
    ],
)
def test_times_are_read_to_the_microsecond(written: object, expected: int | None) -> None:
    """With a zone or without, which is UTC then."""
    assert nanoseconds(written) == expected
    assert rows.zoned(written) == "" if expected is None else nanoseconds(rows.zoned(written)) == expected


def test_a_time_the_api_told_is_told_back_as_it_was() -> None:
    """It is part of what LangSmith files feedback under; only the zone is added where it lacks one."""
    assert rows.zoned("2026-11-06T11:00:00.1234+01:00") == "2026-11-06T11:00:00.1234+01:00"
    assert rows.ref(row(start_time="2026-11-06T10:00:00"), "p").keys["start_time"] == "2026-11-06T10:00:00+00:00"


def test_a_run_of_ours_is_known_by_its_mark() -> None:
    """In the metadata of either API, or the tags."""
    assert rows.span(row(extra={"metadata": {JUDGE_MARK: "1"}})).is_judging
    assert rows.span(row(metadata={JUDGE_MARK: "1"})).is_judging
    assert rows.span(row(tags=[JUDGE_MARK])).is_judging
    assert not rows.span(row(tags=["prod"])).is_judging


@pytest.mark.parametrize(
    ("config", "score", "value", "complains"),
    [
        (None, 0, None, True),
        (None, False, None, True),
        (None, -1, None, True),
        (None, 1, None, False),
        (None, None, "bad", False),
        ({"type": "continuous", "min": 1, "max": 5}, 2, None, True),
        ({"type": "continuous", "min": 1, "max": 5}, 3, None, False),
        ({"type": "continuous", "min": -1, "max": 1}, 0, None, False),
        (GOOD_OR_BAD, None, "bad", True),
        (GOOD_OR_BAD, None, "good", False),
        ({"type": "freeform"}, None, "anything", False),
    ],
)  # fmt: skip
def test_what_is_a_complaint_is_the_keys_own_scale_to_say(
    config: Any,
    score: Any,
    value: Any,
    complains: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """Thumbs where it has none."""
    scale = Scale([] if config is None else [{"feedback_key": "k", "feedback_config": config}])
    assert scale.is_complaint("k", score, value) is complains
    lower = Scale([{"feedback_key": "k", "feedback_config": {"min": 0, "max": 10}, "is_lower_score_better": True}])
    assert lower.is_complaint("k", 9)
    assert not lower.is_complaint("k", 1)
