"""Values as JSON can hold them: no lone surrogates, no NaN, nothing endlessly deep."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

_SURROGATES = re.compile("[\ud800-\udfff]")
_DEEP = 12
_MANY = 10_000


def sound(text: str) -> str:
    r"""A text without lone surrogates: each becomes U+FFFD, so that all offsets stay.

    >>> sound("a\ud800b") == "a\ufffdb"
    True
    """
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def plain(value: object, depth: int = _DEEP) -> object:
    """A value of plain JSON types; NaN and infinities are None, what is nested too deep is left out.

    >>> plain({"a": float("nan"), 1: ("b",)})
    {'a': None, '1': ['b']}
    """
    if type(value) is str:
        return sound(value)
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if depth == 0 or isinstance(value, float):
        return None
    if isinstance(value, Mapping):
        return {sound(str(k)): plain(v, depth - 1) for k, v in islice(value.items(), _MANY)}
    if isinstance(value, (list, tuple, set, frozenset)):
        listed: Iterable[object] = islice(value, _MANY)
        return [plain(v, depth - 1) for v in listed]
    return sound(str(value))


def facts(held: Mapping[Any, Any]) -> dict[str, Any]:
    """What is known of a thing, as plain JSON."""
    return {sound(str(k)): plain(v) for k, v in islice(held.items(), _MANY)}
