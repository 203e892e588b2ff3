"""What may be lost or left on the way from LangSmith, as the report says it."""

from __future__ import annotations

from collections.abc import Mapping

OURS = "{n} trace of our own judges: left out", "{n} traces of our own judges: left out"
PENDING = "{n} trace has not ended: left for the next run", "{n} traces have not ended: left for the next run"
STALE = (
    "{n} trace began more than a day ago and was never told to have ended: not judged",
    "{n} traces began more than a day ago and were never told to have ended: not judged",
)
YOUNG = "{n} trace ended just now: left for the next run", "{n} traces ended just now: left for the next run"
GROWING = (
    "{n} trace has runs that have not ended or not come yet: left for the next run",
    "{n} traces have runs that have not ended or not come yet: left for the next run",
)
UNENDED = (
    "{n} trace holds runs that were never told to have ended: read as it is",
    "{n} traces hold runs that were never told to have ended: read as they are",
)
ORPHANED = (
    "{n} trace lacks runs that others stand below: read as it is",
    "{n} traces lack runs that others stand below: read as they are",
)
VANISHED = (
    "{n} trace was listed, but LangSmith gave none of its runs: left for the next run",
    "{n} traces were listed, but LangSmith gave none of their runs: left for the next run",
)
GONE = (
    "{n} trace that users complained about more than a day ago has no root on LangSmith: not judged",
    "{n} traces that users complained about more than a day ago have no root on LangSmith: not judged",
)
FULL = (
    "{n} trace has as many runs as LangSmith keeps of one, 25,000: there may have been more",
    "{n} traces have as many runs as LangSmith keeps of one, 25,000: there may have been more",
)
DAMAGED = (
    "{n} run held halves of characters, which are U+FFFD now",
    "{n} runs held halves of characters, which are U+FFFD now",
)
AFRESH = (
    "{n} window was begun again, for LangSmith's cursor had run out: no trace was taken twice",
    "{n} windows were begun again, for LangSmith's cursor had run out: no trace was taken twice",
)
_WHOLE_WINDOWS = (
    "LangSmith does not take a query by many roots: whole windows were read instead, "
    "without runs that began more than 15 minutes after the last of their roots ended"
)
UNFILTERED = (_WHOLE_WINDOWS, _WHOLE_WINDOWS)
PARTIAL = ("LangSmith gives fewer runs of many traces than of one: they were asked for one by one instead",) * 2
NAMELESS = (
    "{n} run has no time that can be read: left out",
    "{n} runs have no time that can be read: left out",
)
UNLISTED = ("LangSmith finds no traces by when feedback came: all feedback since then was listed instead",) * 2
UNSCALED = ("the feedback configs could not be had, so only scores up to 0 count as complaints",) * 2


def apart(lost: Mapping[str, int]) -> tuple[str, ...]:
    """One line a reason for which inputs or outputs are not there."""
    return tuple(f"inputs or outputs kept apart from {n:,} runs {why}" for why, n in lost.items())
