"""What people said of a trace on MLflow, and whether it was a complaint.

An assessment says who it is of: HUMAN is a person's word, and no judge's, ours or another's. MLflow gives a name no
scale, so `false`, a number up to 0 and words such as "no" complain, and nothing else does. What people say under a name
of ours, or instead of one of ours, is a label of that score and no complaint about the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from groundtrace.adapters.mlflow.api import PLATFORM, Row
from groundtrace.adapters.mlflow.times import milliseconds
from groundtrace.model import Signal
from groundtrace.sampling import ERROR

IDENTIFIER = "groundtrace.identifier"
"""Under this key of its metadata an assessment of ours says which score of which card it is."""

SOURCE = "groundtrace/"
"""What the name of our source starts with; the rubric stands after it."""

HUMAN = "HUMAN"

_COMPLAINTS = frozenset({"no", "false", "bad", "negative", "incorrect", "thumbs_down", "dislike"})


def assessments(info: Row) -> list[Row]:
    """What was said of a trace by anybody, as far as it still stands or stood."""
    told = info.get("assessments")
    return [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []


def signals(info: Row, *, failed: bool = False) -> tuple[Signal, ...]:
    """What people said of a trace, and whether something in it failed."""
    told = [*(signal for _, signal in _by_people(info))]
    if failed or info.get("state") == "ERROR":
        told.append(Signal(ERROR, value=True, source=PLATFORM))
    return tuple(told)


def complaints(info: Row, since: int) -> tuple[Signal, ...]:
    """What people complained of since then (milliseconds since 1970), or changed."""
    return tuple(s for one, s in _by_people(info) if s.negative and (changed(one) or since) >= since)


def _by_people(info: Row) -> Iterator[tuple[Row, Signal]]:
    held = assessments(info)
    ours = {id(one) for one in ours_and_instead(held)}
    for one in held:
        if id(one) in ours or source_type(one) != HUMAN or one.get("valid") is False or "feedback" not in one:
            continue
        value = value_of(one)
        said = value if isinstance(value, (bool, int, float, str)) else None
        comment = one.get("rationale")
        name, text = str(one.get("assessment_name")), comment if isinstance(comment, str) else ""
        yield one, Signal(name, value=said, negative=is_complaint(value), comment=text, source=PLATFORM)


def ours_and_instead(held: Iterable[Row]) -> list[Row]:
    """Assessments of ours, and what people put in their places or beside them under their names."""
    rows = [*held]
    ours = [one for one in rows if is_ours(one)]
    names, ids = {one.get("assessment_name") for one in ours}, {one.get("assessment_id") for one in ours}
    return [one for one in rows if one.get("assessment_name") in names or one.get("overrides") in ids]


def is_ours(one: Row) -> bool:
    """Whether we wrote it: MLflow's pages copy the metadata of what a person edits, and name the person as source."""
    source = one.get("source")
    who = str(source.get("source_id")) if isinstance(source, Mapping) else ""
    return who.startswith(SOURCE) and IDENTIFIER in metadata(one)


def metadata(one: Row) -> Mapping[str, Any]:
    """What is told beside the value."""
    told = one.get("metadata")
    return told if isinstance(told, Mapping) else {}


def source_type(one: Row) -> str:
    """Whose word it is: HUMAN, LLM_JUDGE or CODE."""
    source = one.get("source")
    return str(source.get("source_type")) if isinstance(source, Mapping) else ""


def value_of(one: Row) -> Any:
    """What was said; None for an error, or for nothing."""
    told = one.get("feedback")
    return told.get("value") if isinstance(told, Mapping) else None


def error_of(one: Row) -> str:
    """The code of an error; "" where it is none."""
    told = one.get("feedback")
    error = told.get("error") if isinstance(told, Mapping) else None
    return str(error.get("error_code") or "error") if isinstance(error, Mapping) else ""


def changed(one: Row) -> int | None:
    """When it was last said, in milliseconds since 1970."""
    return milliseconds(one.get("last_update_time") or one.get("create_time"))


def is_complaint(value: object) -> bool:
    """Whether a value complains.

    >>> is_complaint(False), is_complaint(0), is_complaint("No"), is_complaint(1), is_complaint(None)
    (True, True, True, False, False)
    """
    if isinstance(value, str):
        return value.strip().lower().replace(" ", "_") in _COMPLAINTS
    return isinstance(value, (bool, int, float)) and value <= 0
