"""A trace as MLflow's API tells it, as spans: ids in base64, values as OTLP has them.

MLflow keeps each attribute as JSON and reads back what looks like JSON: a text that holds an object comes back as one,
one that holds a number as that number. Texts were what the traced program wrote, so objects and lists are JSON texts
again here. Beside what came in other vocabularies it puts a translation of its own (`mlflow.spanInputs` ...): that is
left out, for it says less than what it was made from. It keeps no scope and no logs, and what OTLP told of the resource
stands among the trace's tags, beside those people gave.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from groundtrace.adapters.lines import clean
from groundtrace.adapters.mlflow.api import PLATFORM, Row
from groundtrace.adapters.values import padded
from groundtrace.model import Event, Link, Ref, Signal, Span, Trace

_DEEPEST = 32
_TOO_DEEP = "(nested too deep)"
_STATUS = {"STATUS_CODE_OK": "ok", "STATUS_CODE_ERROR": "error", "1": "ok", "2": "error"}
_SESSION = {"mlflow.trace.session": "session.id", "mlflow.trace.user": "user.id"}
_RESOURCE = (
    "cloud.", "container.", "deployment.", "faas.", "host.", "k8s.", "openinference.project.", "os.", "process.",
    "service.", "telemetry.",
)  # fmt: skip
"""What the names of tags start with that tell of the traced program, by OpenTelemetry's conventions."""

_TRANSLATED = (
    "ai.", "braintrust.", "gcp.vertex.agent.", "gen_ai.", "haystack.", "langfuse.", "langsmith.", "llm.", "logfire.",
    "openinference.", "pydantic_ai.", "traceloop.",
)  # fmt: skip
"""What attributes start with in the vocabularies of others; a span of MLflow's own tracing has none of them."""

_TRANSLATION = frozenset({"mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.spanType"})

_SCALARS = ("string_value", "bool_value", "double_value", "bytes_value")


def ref(info: Row, experiment: str) -> Ref:
    """Where feedback on a trace goes."""
    return Ref(PLATFORM, experiment, str(info.get("trace_id")))


def is_elsewhere(info: Row) -> bool:
    """Whether a trace's spans are kept as a file: older MLflow did that, and archives do."""
    tags = info.get("tags")
    return (tags.get("mlflow.trace.spansLocation") if isinstance(tags, Mapping) else None) != "TRACKING_STORE"


def trace(
    info: Row,
    rows: Iterable[Row],
    experiment: str,
    *,
    signals: Sequence[Signal] = (),
    complete: bool = True,
    notes: Sequence[str] = (),
) -> Trace:
    """The spans of a trace, each once, in the order they began; what is told of the whole stands on its root."""
    ident = str(info.get("trace_id"))
    held = {one.id: one for one in (_span(row, ident) for row in rows)}
    of_root, resource = _told(info)
    spans = []
    for one in sorted(held.values(), key=lambda one: (one.start or 0, one.id)):
        attributes = one.attributes if one.parent_id else {**of_root, **one.attributes}
        spans.append(replace(one, resource=resource, attributes=attributes))
    return Trace(ref(info, experiment), tuple(spans), signals=tuple(signals), complete=complete, notes=tuple(notes))


def _span(row: Row, trace_id: str) -> Span:
    status = row.get("status")
    status = status if isinstance(status, Mapping) else {}
    return Span(
        id=padded(row.get("span_id"), 8),
        trace_id=trace_id,
        name=_text(row.get("name")),
        parent_id=padded(row.get("parent_span_id"), 8) or None,
        start=_nanoseconds(row.get("start_time_unix_nano")),
        end=_nanoseconds(row.get("end_time_unix_nano")),
        status=_STATUS.get(str(status.get("code")), "unset"),
        status_message=_text(status.get("message")),
        attributes=_untranslated(_attributes(row.get("attributes"))),
        events=tuple(
            Event(
                _text(event.get("name")),
                _nanoseconds(event.get("time_unix_nano")),
                _attributes(event.get("attributes")),
            )
            for event in _listed(row.get("events"))
        ),
        links=tuple(
            Link(padded(link.get("trace_id"), 16), padded(link.get("span_id"), 8)) for link in _listed(row.get("links"))
        ),
    )


def _attributes(told: object) -> dict[str, Any]:
    return {_text(pair.get("key")): _written(plain(pair.get("value"))) for pair in _listed(told)}


def _untranslated(held: dict[str, Any]) -> dict[str, Any]:
    """What was told of a span, without what MLflow made of it."""
    if not any(name.startswith(_TRANSLATED) for name in held):
        return held
    return {name: value for name, value in held.items() if name not in _TRANSLATION}


def _written(value: Any) -> Any:
    """What an attribute held when it was written: objects and lists were JSON texts."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def plain(value: object, depth: int = _DEEPEST) -> Any:
    """A value as Python has it.

    >>> plain({"array_value": {"values": [{"int_value": "7"}, {"string_value": "seven"}]}})
    [7, 'seven']
    """
    if not isinstance(value, Mapping):
        return None
    if (whole := value.get("int_value")) is not None:
        return int(whole) if str(whole).lstrip("-").isdecimal() else str(whole)
    listed, pairs = value.get("array_value"), value.get("kvlist_value")
    if isinstance(listed, Mapping) or isinstance(pairs, Mapping):
        if not depth:
            return _TOO_DEEP
        if isinstance(listed, Mapping):
            return [plain(one, depth - 1) for one in _listed(listed.get("values"))]
        named = _listed(pairs.get("values")) if isinstance(pairs, Mapping) else []
        return {_text(pair.get("key")): plain(pair.get("value"), depth - 1) for pair in named}
    found = next((value[name] for name in _SCALARS if value.get(name) is not None), None)
    return clean(found) if isinstance(found, str) else found


def _told(info: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """What stands in a trace's info alone, as attributes of its root and of its resource."""
    root: dict[str, Any] = {}
    resource: dict[str, Any] = {}
    tags, metadata = info.get("tags"), info.get("trace_metadata")
    for name, value in tags.items() if isinstance(tags, Mapping) else ():
        if not isinstance(value, str) or name.startswith("mlflow."):
            continue
        if name.startswith(_RESOURCE):
            resource[name] = clean(value)
        else:
            root[f"mlflow.traceTag.{name}"] = clean(value)
    for name, attribute in _SESSION.items():
        if isinstance(metadata, Mapping) and isinstance(value := metadata.get(name), str) and value:
            root[attribute] = clean(value)
    return root, resource


def _nanoseconds(value: object) -> int | None:
    try:
        moment = int(str(value))
    except ValueError:
        return None
    return moment if moment > 0 else None


def _text(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""


def _listed(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
