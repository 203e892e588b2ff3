"""Times as MLflow's API writes them."""

from __future__ import annotations

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


def milliseconds(written: object) -> int | None:
    """A time in milliseconds since 1970; None where it is none.

    >>> milliseconds("1970-01-01T00:00:01.500Z")
    1500
    """
    if not isinstance(written, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(written)
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)) - _EPOCH) // _MILLISECOND


def lasted(written: object) -> int | None:
    """A length in milliseconds, which is written in seconds; None where it is none.

    >>> lasted("0.016s"), lasted("1.5"), lasted(None)
    (16, None, None)
    """
    if not isinstance(written, str) or not written.endswith("s"):
        return None
    try:
        return round(float(written[:-1]) * 1000)
    except (ValueError, OverflowError):
        return None


def said(moment: int) -> str:
    """A time for people and for labels.

    >>> said(1500)
    '1970-01-01T00:00:01.500000+00:00'
    """
    return (_EPOCH + moment * _MILLISECOND).isoformat(timespec="microseconds")
