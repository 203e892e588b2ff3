"""Times as Braintrust writes them."""

from __future__ import annotations

import datetime as dt


def written(seconds: float) -> str:
    """Unix seconds as a time in UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat().replace("+00:00", "Z")
