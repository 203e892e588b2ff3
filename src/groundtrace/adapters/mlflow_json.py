"""MLflow's trace JSON to spans: `{"info": ..., "data": {"spans": [...]}}`, or the artifact that holds the spans alone.

Captured: mlflow 3.17 (`Trace.to_json`, `Trace.to_dict`), ids in base64. From its source alone: the older spans with a
context and ids in hex. Attributes are JSON texts, as the spans have them over OTLP. The session, the user and the tags
of a trace stand in its info alone: its root span is given them, under the names MLflow has for them on spans.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from groundtrace.adapters.values import listed, moment, neat, padded, word
from groundtrace.model import Event, Link, Span

NAME = "MLflow JSON"
MARK = re.compile(rb'"mlflow\.(traceRequestId|spanType|spanInputs)"\s*:')

_METADATA = ("trace_metadata", "request_metadata")
_COPIED = {"mlflow.trace.session": "session.id", "mlflow.trace.user": "user.id"}


def spans(document: object) -> list[Span] | None:
    """The spans of one JSON value; None where it is none of MLflow's."""
    if not isinstance(document, dict):
        return None
    data, info = document.get("data"), document.get("info")
    rows = (data if isinstance(data, dict) else document).get("spans")
    if not isinstance(rows, list) or not all(_is_span(row) for row in rows) or not (rows or isinstance(info, dict)):
        return None
    told = _told(info) if isinstance(info, dict) else {}
    found = [_span(row) for row in rows]
    return [replace(span, attributes={**told, **span.attributes}) if not span.parent_id else span for span in found]


def _is_span(row: object) -> bool:
    held = row.get("attributes") if isinstance(row, dict) else None
    return isinstance(held, dict) and any(name.startswith("mlflow.") for name in held)


def _span(row: Mapping[str, Any]) -> Span:
    context, status, held = row.get("context"), row.get("status"), row["attributes"]
    ids = context if isinstance(context, dict) else row
    if not isinstance(status, dict):
        status = {"code": row.get("status_code"), "message": row.get("status_message")}
    code = word(status.get("code")).removeprefix("STATUS_CODE_").lower()
    return Span(
        id=padded(ids.get("span_id"), 8),
        trace_id=padded(word(ids.get("trace_id")).removeprefix("tr-"), 16),
        name=word(row.get("name")),
        parent_id=padded(row.get("parent_span_id") or row.get("parent_id"), 8) or None,
        start=moment(row.get("start_time_unix_nano") or row.get("start_time")),
        end=moment(row.get("end_time_unix_nano") or row.get("end_time")),
        status=code if code in ("ok", "error") else "unset",
        status_message=word(status.get("message")),
        attributes={key: _text(value) for key, value in held.items()},
        events=tuple(map(_event, listed(row.get("events")))),
        links=tuple(
            Link(padded(word(link.get("trace_id")).removeprefix("tr-"), 16), padded(link.get("span_id"), 8))
            for link in listed(row.get("links"))
        ),
        scope="mlflow",
    )


def _event(told: Mapping[str, Any]) -> Event:
    held = told.get("attributes")
    at = moment(told.get("time_unix_nano") or told.get("timestamp"))
    return Event(word(told.get("name")), at, neat(held) if isinstance(held, dict) else {})


def _text(value: object) -> Any:
    """The JSON text of a value; most are one already."""
    return neat(value) if isinstance(value, str) else json.dumps(neat(value), ensure_ascii=False)


def _told(info: Mapping[str, Any]) -> dict[str, Any]:
    """Session, user and the tags people gave, as a span's attributes."""
    tags = info.get("tags")
    told: dict[str, Any] = {}
    for name, value in tags.items() if isinstance(tags, dict) else ():
        if isinstance(value, str) and not name.startswith("mlflow."):
            told[f"mlflow.traceTag.{name}"] = value
    metadata = next((held for name in _METADATA if isinstance(held := info.get(name), dict)), {})
    return told | {name: _text(metadata[key]) for key, name in _COPIED.items() if metadata.get(key)}
