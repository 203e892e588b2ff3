"""Times as LangSmith's API writes them."""

from __future__ import annotations

import datetime as dt
import re

ZONED = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
"""Ends a time that says its zone."""


def now() -> str:
    """This moment, with its zone."""
    return dt.datetime.now(dt.UTC).isoformat()


def moment(written: object) -> dt.datetime | None:
    """A written time; one without a zone is UTC."""
    if not written:
        return None
    told = dt.datetime.fromisoformat(str(written))
    return told if told.tzinfo else told.replace(tzinfo=dt.UTC)
