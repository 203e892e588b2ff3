"""The JSON of other tools that is read beside OTLP, told apart by what it holds, never by a file's name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from groundtrace.adapters import mlflow_json, phoenix_json
from groundtrace.adapters.otel import jaeger, zipkin
from groundtrace.model import Span


class Format(NamedTuple):
    """One tool's JSON: what it is called, how its files start, and its spans (None where a value is no such thing)."""

    name: str
    mark: re.Pattern[bytes]
    spans: Callable[[object], list[Span] | None]


FORMATS = tuple(Format(of.NAME, of.MARK, of.spans) for of in (jaeger, zipkin, phoenix_json, mlflow_json))
_OTLP = re.compile(rb'"(resource_?[sS]pans|resource_?[lL]ogs|batches|scope_?[sS]pans|instrumentationLibrarySpans)"\s*:')

_BARE = re.compile(rb'"parent_?[sS]pan_?[iI]d"\s*:')
"""Of spans of OTLP in a list of their own."""


def spans(document: object) -> list[Span] | None:
    """The spans of a JSON value in one of these formats, or None where nobody knows it."""
    try:
        return next((found for known in FORMATS if (found := known.spans(document)) is not None), None)
    except RecursionError:
        return None


def named(start: bytes) -> str | None:
    """What the first bytes of a file of JSON look like, or None.

    >>> named(b'{"resourceSpans": ['), named(b'[{"traceID": "1", '), named(b'{"query": "resourceSpans"}')
    ('OTLP JSON', 'Jaeger JSON', None)
    """
    if _OTLP.search(start):
        return "OTLP JSON"
    known = next((known.name for known in FORMATS if known.mark.search(start)), None)
    return known or ("OTLP JSON" if _BARE.search(start) else None)
