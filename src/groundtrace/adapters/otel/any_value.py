"""A value of OTLP's own message for values, as Python has it."""

from __future__ import annotations

from typing import Any

from groundtrace.adapters.otel.messages import AnyValue
from groundtrace.adapters.values import DEEPEST, TOO_DEEP, double, integer


def plain(value: AnyValue, depth: int = DEEPEST) -> Any:
    """A value as Python has it; a number that is none (NaN, Infinity) is the word for it."""
    if value.int_value is not None:
        whole = integer(value.int_value)
        return str(value.int_value) if whole is None else whole
    if value.double_value is not None:
        return double(value.double_value)
    if value.array_value is not None:
        items = value.array_value.values or ()
        return [item and plain(item, depth - 1) for item in items] if depth else TOO_DEEP
    if value.kvlist_value is not None:
        pairs = value.kvlist_value.values or ()
        return {pair.key or "": pair.value and plain(pair.value, depth - 1) for pair in pairs} if depth else TOO_DEEP
    scalars = (value.string_value, value.bool_value, value.bytes_value)
    return next((scalar for scalar in scalars if scalar is not None), None)
