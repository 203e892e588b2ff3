"""Times as platforms write them, and nanoseconds since 1970; a time without a zone is UTC."""

from __future__ import annotations

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_BARE = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - what a time without a zone is counted from
_LOOKED = "looked at 24 hours"
_DAY, _SECOND, _MICROSECOND = 86_400_000_000_000, 1_000_000_000, 1_000


def last_day(since: str) -> str:
    """What is said where nobody said when to begin, and the last day was looked at.

    >>> last_day("2026-03-06T10:00:00")
    'looked at 24 hours, from 2026-03-06T10:00:00 UTC on: --since gives another time'
    """
    return f"{_LOOKED}, from {since} UTC on: --since gives another time"


def is_window(note: str) -> bool:
    """Whether a note says which day was looked at, and nothing that was lost."""
    return note.startswith(f"{_LOOKED}, from ")


def nanoseconds(written: object) -> int | None:
    """A written time in nanoseconds since 1970; None where it is none.

    >>> nanoseconds("2026-03-06T10:00:00.123456") == nanoseconds("2026-03-06T11:00:00.123456+01:00")
    True
    """
    if not isinstance(written, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(written)
    except ValueError:
        return None
    past = moment - (_EPOCH if moment.tzinfo is not None else _EPOCH_BARE)
    return past.days * _DAY + past.seconds * _SECOND + past.microseconds * _MICROSECOND


def written(moment: int) -> str:
    """A time in UTC, with its zone.

    >>> written(nanoseconds("2026-03-06T10:00:00.123456"))
    '2026-03-06T10:00:00.123456+00:00'
    """
    return (_EPOCH + dt.timedelta(microseconds=moment // _MICROSECOND)).isoformat(timespec="microseconds")
