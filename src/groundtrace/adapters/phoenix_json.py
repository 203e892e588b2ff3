"""Phoenix's span JSON to spans: what `GET /v1/projects/{id}/spans` answers, and the data frame of spans as JSON.

Captured: Phoenix 20.26 over REST, and its client 3.5 (`get_spans_dataframe`, written with pandas' `to_json`). Phoenix
loads what OpenInference writes as JSON texts (metadata, prompt variables, tool parameters): the data frame has objects
there, REST has one attribute for each of their values. Both are written as texts again. REST leaves out the resource
and the scope. Attributes nested as Phoenix stores them are read too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from groundtrace.adapters.values import listed, moment, neat, padded, word
from groundtrace.model import Event, Span

NAME = "Phoenix JSON"
MARK = re.compile(rb'"context\.trace_id"\s*:|"context"\s*:\s*\{[^{}]*"trace_id"\s*:')

_MILLI = 1_000_000
_TEXTS = re.compile(r"(?:metadata|.*\.document\.metadata|.*prompt_template\.variables|tool\.parameters)(?=\.|$)")
"""The names under which OpenInference has JSON texts, whole or taken apart."""
_IDS = ("trace_id", "span_id")
_KIND = "openinference.span.kind"


def spans(document: object) -> list[Span] | None:
    """The spans of one JSON value; None where it is none of Phoenix's."""
    held = document.get("data") if isinstance(document, dict) else document
    rows = held if isinstance(held, list) else [document]
    found = [_span(row) for row in listed(rows) if _is_span(row)]
    return found if found and len(found) == len(rows) else None


def _is_span(row: Mapping[str, Any]) -> bool:
    context = row.get("context")
    return "context.trace_id" in row or (isinstance(context, dict) and "trace_id" in context and "span_kind" in row)


def _span(row: Mapping[str, Any]) -> Span:
    context = row.get("context")
    ids = context if isinstance(context, dict) else {name: row.get(f"context.{name}") for name in _IDS}
    given = row.get("attributes")
    columns = {name.removeprefix("attributes."): value for name, value in row.items() if name.startswith("attributes.")}
    attributes = _joined(_flat("", given if isinstance(given, dict) else columns))
    kind = word(row.get("span_kind")).upper()
    if kind and kind != "UNKNOWN":
        attributes.setdefault(_KIND, kind)
    status = word(row.get("status_code")).lower()
    return Span(
        id=padded(ids.get("span_id"), 8),
        trace_id=padded(ids.get("trace_id"), 16),
        name=word(row.get("name")),
        parent_id=padded(row.get("parent_id"), 8) or None,
        start=moment(row.get("start_time"), _MILLI),
        end=moment(row.get("end_time"), _MILLI),
        status=status if status in ("ok", "error") else "unset",
        status_message=word(row.get("status_message")),
        attributes=attributes,
        events=tuple(map(_event, listed(row.get("events")))),
    )


def _event(told: Mapping[str, Any]) -> Event:
    held = told.get("attributes")
    at = moment(told.get("timestamp"), _MILLI)
    return Event(word(told.get("name")), at, neat(held) if isinstance(held, dict) else {})


def _flat(name: str, value: object) -> Iterator[tuple[str, Any]]:
    """Attributes as OpenInference writes them: a name with dots for each value; what is null was not there."""
    if isinstance(value, dict) and not _TEXTS.fullmatch(name):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and listed(value):
        for number, inner in enumerate(value):
            yield from _flat(f"{name}.{number}", inner)
    elif value is not None:
        yield name, neat(value)


def _joined(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Attributes with each JSON text that Phoenix loaded or took apart put together again."""
    found: dict[str, Any] = {}
    loaded: dict[str, dict[str, Any]] = {}
    for name, value in pairs:
        text = _TEXTS.match(name)
        if text is None or (text.end() == len(name) and not isinstance(value, dict)):
            found[name] = value
        elif text.end() == len(name):
            loaded.setdefault(text[0], {}).update(value)
        else:
            _put(loaded.setdefault(text[0], {}), name[text.end() + 1 :].split("."), value)
    return found | {name: json.dumps(value, ensure_ascii=False) for name, value in loaded.items() if name not in found}


def _put(into: dict[str, Any], path: list[str], value: Any) -> None:
    """Put a value where its name says; where another stands in the way, under the whole of its name."""
    at = into
    for part in path[:-1]:
        inner = at.setdefault(part, {})
        if not isinstance(inner, dict):
            into[".".join(path)] = value
            return
        at = inner
    at[path[-1]] = value
