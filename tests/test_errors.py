"""Errors name the value, say what to do, and survive a trip between processes."""

from __future__ import annotations

import pickle

import pytest

from groundtrace.errors import GroundtraceError, InvalidVerdict, PlanError, PlatformError

ERRORS: list[GroundtraceError] = [
    PlanError("judge", "ofline", "is not installed", valid=["offline", "openai"], hint="see `groundtrace plugins`"),
    PlanError("source", "x.jsonl", "does not exist"),
    PlatformError("429 Too Many Requests", retry_after=2.5),
    InvalidVerdict(["missing @ $.score", "too high @ $.confidence"]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_an_error_comes_back_from_a_pickle_whole(error: GroundtraceError) -> None:
    """A worker's error says the same at home."""
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_a_plan_error_names_value_choice_and_nearest() -> None:
    """What was given, what would be right."""
    text = str(ERRORS[0])
    assert "'ofline'" in text
    assert "did you mean 'offline'" in text
    assert "openai" in text
    assert "groundtrace plugins" in text


def test_what_is_meant_is_not_said_twice() -> None:
    """Where the nearest is all that is listed; a hint follows the question."""
    error = PlanError("source", "setle", "is no option of it", valid=["settle"], hint="a comma is written \\,")
    assert str(error) == "source: 'setle' is no option of it; did you mean 'settle'? a comma is written \\,"


def test_nothing_near_is_not_guessed() -> None:
    """A nearest match that isn't near helps nobody."""
    assert PlanError("judge", "zzz", "is not installed", valid=["offline"]).nearest is None


def test_fault_lines_are_the_message() -> None:
    """The text of an InvalidVerdict is what the judge is told."""
    assert str(ERRORS[3]) == "missing @ $.score\ntoo high @ $.confidence"
