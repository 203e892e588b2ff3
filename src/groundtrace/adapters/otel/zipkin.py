"""Zipkin's JSON (version 2) to spans: a list of them, or one a line.

Source: Zipkin's API and OpenTelemetry's rules for it: tags are texts, events annotations whose attributes are lost or
stand in the text. Times are microseconds. Checked against a trace converted by those rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from groundtrace.adapters.otel.tagged import of_tags
from groundtrace.adapters.values import listed, moment, neat, padded, word
from groundtrace.model import Event, Span

NAME = "Zipkin JSON"
MARK = re.compile(rb'"(localEndpoint|remoteEndpoint)"\s*:|"traceId"\s*:\s*"[0-9a-fA-F]+"[^{}]*"id"\s*:')

_MICRO = 1000
_FIELDS = frozenset({"timestamp", "duration", "localEndpoint", "tags", "name", "parentId"})


def spans(document: object) -> list[Span] | None:
    """The spans of one JSON value; None where it is none of Zipkin's."""
    rows = document if isinstance(document, list) else [document]
    found = [_span(row) for row in listed(rows) if {"traceId", "id"} <= row.keys() and _FIELDS & row.keys()]
    return found if found and len(found) == len(rows) else None


def _span(row: Mapping[str, Any]) -> Span:
    start = moment(row.get("timestamp"), _MICRO)
    lasted = moment(row.get("duration"), _MICRO)
    tags, place = row.get("tags"), row.get("localEndpoint")
    service = word(place.get("serviceName")) if isinstance(place, dict) else ""
    return of_tags(
        Span(
            id=padded(row.get("id"), 8),
            trace_id=padded(row.get("traceId"), 16),
            name=word(row.get("name")),
            parent_id=padded(row.get("parentId"), 8) or None,
            start=start,
            end=start + (lasted or 0) if start and ("duration" in row) else None,
            attributes=neat(tags) if isinstance(tags, dict) else {},
            events=tuple(map(_event, listed(row.get("annotations")))),
            resource={"service.name": service} if service else {},
        ),
        word(row.get("kind")),
    )


def _event(annotation: Mapping[str, Any]) -> Event:
    """An annotation; its text is the event's name, alone or with its attributes as JSON."""
    text, at = word(annotation.get("value")), moment(annotation.get("timestamp"), _MICRO)
    if text.startswith("{"):
        with suppress(ValueError, RecursionError):
            told = json.loads(text)
            if isinstance(told, dict) and len(told) == 1 and isinstance(held := next(iter(told.values())), dict):
                return Event(next(iter(told)), at, neat(held))
    name, bar, rest = text.partition("|{")
    if bar:
        with suppress(ValueError, RecursionError):
            held, _ = json.JSONDecoder().raw_decode("{" + rest)
            return Event(name, at, neat(held))
    return Event(text, at)
