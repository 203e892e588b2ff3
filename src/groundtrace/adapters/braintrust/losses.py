"""What is lost or left on the way from Braintrust, as the report says it."""

from __future__ import annotations

from collections.abc import Mapping

OURS = "{n} trace of our own judges: left out", "{n} traces of our own judges: left out"
PENDING = "{n} trace has not ended: left for the next run", "{n} traces have not ended: left for the next run"
STALE = (
    "{n} trace began more than a day ago and was never told to have ended: not judged",
    "{n} traces began more than a day ago and were never told to have ended: not judged",
)
YOUNG = (
    "{n} trace ended or was changed just now: left for the next run",
    "{n} traces ended or were changed just now: left for the next run",
)
GROWING = (
    "{n} trace has spans that have not ended or not come yet: left for the next run",
    "{n} traces have spans that have not ended or not come yet: left for the next run",
)
UNENDED = (
    "{n} trace holds spans that were never told to have ended: read as it is",
    "{n} traces hold spans that were never told to have ended: read as they are",
)
ORPHANED = (
    "{n} trace lacks spans that others stand below: read as it is",
    "{n} traces lack spans that others stand below: read as they are",
)
VANISHED = (
    "{n} trace was named, but Braintrust gave no root of it: left for the next run",
    "{n} traces were named, but Braintrust gave no roots of them: left for the next run",
)
GONE = (
    "{n} trace that users complained about lacks its root for more than a day: not judged",
    "{n} traces that users complained about lack their roots for more than a day: not judged",
)
NAMELESS = (
    "{n} row has no id, or no time that can be read: left out",
    "{n} rows have no id, or no time that can be read: left out",
)
LARGE = (
    "{n} trace is larger than Braintrust gives at once, even row by row: not judged",
    "{n} traces are larger than Braintrust gives at once, even row by row: not judged",
)
DAMAGED = (
    "{n} row held halves of characters, which are U+FFFD now",
    "{n} rows held halves of characters, which are U+FFFD now",
)
UNFILTERED = ("Braintrust did not take the question by metadata: roots were looked through here instead",) * 2
UNSCALED = ("the project's scores could not be had, so only scores of 0 count as complaints",) * 2


def apart(lost: Mapping[str, int]) -> tuple[str, ...]:
    """One line a reason for which attachments are not there."""
    return tuple(f"attachments in {n:,} places {why}" for why, n in lost.items())
