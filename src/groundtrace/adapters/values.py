"""One value at a time: ids, times and attribute values of any spelling, as Python and the model have them.

For every adapter that reads spans from JSON.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import re
from collections.abc import Mapping
from typing import Any

from groundtrace.adapters.lines import clean

DEEPEST = 32
"""How deep arrays and maps in an attribute may nest."""

TOO_DEEP = "(nested too deep)"
"""Stands where an attribute nests deeper than that."""

_DIGITS = "0123456789abcdef"
_SECOND = 1_000_000_000
_FRACTION = re.compile(r"\.(\d{1,9})\d*")


def neat(value: Any, depth: int = DEEPEST) -> Any:
    r"""Any JSON as an attribute may hold it: whole characters, numbers that are numbers, not too deep.

    >>> neat({"a": [float("nan"), "half \ud83d"]})
    {'a': ['NaN', 'half �']}
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        return double(value)
    if isinstance(value, list):
        return [neat(item, depth - 1) for item in value] if depth else TOO_DEEP
    if isinstance(value, dict):
        return {clean(key): neat(item, depth - 1) for key, item in value.items()} if depth else TOO_DEEP
    return value


def integer(value: float | str | None) -> int | None:
    """The whole number, or None where it is none."""
    try:
        return None if value is None else int(value)
    except (ValueError, OverflowError):
        return None


def double(value: float | str) -> float | str:
    """The number; what is none is said in words."""
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return str(value)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def time(value: float | str | None) -> int | None:
    """Nanoseconds since 1970, or None where there are none: 0 is how protobuf writes nothing."""
    try:
        found = int(value)  # type: ignore[arg-type]  # None is the TypeError
    except (ValueError, OverflowError, TypeError):
        return None
    return found if found > 0 else None


def moment(value: object, unit: int = 1) -> int | None:
    """Nanoseconds since 1970 from a count of units of so many, or from a date; a date without a zone is in UTC.

    >>> moment(1_700_000_000_000_001, 1000), moment("2023-11-14T22:13:20.000001002Z")
    (1700000000000001000, 1700000000000001002)
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return time(value * unit)
    if not isinstance(value, str):
        return None
    if value.isdecimal():
        return time(int(value[:20]) * unit)
    fraction = _FRACTION.search(value)
    try:
        date = dt.datetime.fromisoformat(_FRACTION.sub("", value, count=1))
        seconds = (date if date.tzinfo else date.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return time(int(seconds) * _SECOND + (int(fraction[1].ljust(9, "0")) if fraction else 0))


def identity(raw: str | None, size: int) -> str:
    """An id of so many bytes in hex, from hex or base64; one that is neither stays what it is, all zeros is none.

    >>> identity("bmEtc0NybqfIGc/rf4s/XQ==", 16), identity("0000000000000000", 8), identity("my-span", 8)
    ('6e612d7343726ea7c819cfeb7f8b3f5d', '', 'my-span')
    """
    if not raw or not raw.strip("0"):
        return ""
    if len(raw) == 2 * size and not raw.strip(_DIGITS):
        return raw
    folded = raw.lower().replace("-", "")
    if len(folded) == 2 * size and not folded.strip(_DIGITS):
        return folded
    if len(raw) == -(-size // 3) * 4 and raw.endswith("="):
        try:
            read = base64.b64decode(raw.replace("-", "+").replace("_", "/"), validate=True)
        except binascii.Error:
            return raw
        if len(read) == size:
            return read.hex() if any(read) else ""
    return raw


def padded(raw: object, size: int) -> str:
    """An id as tools other than OpenTelemetry write it: with `0x` before it, or without its leading zeros.

    >>> padded("0x1f", 8), padded("1F", 8), padded(None, 8)
    ('000000000000001f', '000000000000001f', '')
    """
    if not isinstance(raw, str):
        return ""
    short = raw.lower().removeprefix("0x")
    if 0 < len(short) < 2 * size and not short.strip(_DIGITS):
        return identity(short.zfill(2 * size), size)
    return identity(short if raw[:2] in ("0x", "0X") else raw, size)


def word(value: object) -> str:
    """The text, or the number as a text; anything else is no word."""
    return value if isinstance(value, str) else str(value) if type(value) is int else ""


def listed(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; of anything else none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
