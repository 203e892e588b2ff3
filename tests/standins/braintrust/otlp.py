"""Spans of OpenTelemetry as rows, as far as it is documented how Braintrust makes them.

`braintrust.*` attributes are the row's fields, `_json` ones as JSON; conversations under the names of the GenAI
conventions, of the AI SDK or of OpenInference become input and output, and are no metadata any more; what is left is
metadata. An event is also a row of its own. The stand-in's own choices: the row's `id` (made of the span's ids), its
type where none is said, that an event's row is of type "log" and shares the span's id, and names of token counts.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .store import Store
from .times import written

_INPUTS = ("braintrust.input_json", "braintrust.input", "gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages")
_OUTPUTS = ("braintrust.output_json", "braintrust.output", "gen_ai.output.messages", "gen_ai.completion")
_LISTED = {"llm.input_messages": "input", "llm.output_messages": "output"}
_TOKENS = {
    "gen_ai.usage.input_tokens": "prompt_tokens",
    "gen_ai.usage.output_tokens": "completion_tokens",
    "gen_ai.usage.prompt_tokens": "prompt_tokens",
    "gen_ai.usage.completion_tokens": "completion_tokens",
}
_FIELDS = ("expected", "metrics", "tags", "scores", "span_attributes", "origin")
_PARENT = "braintrust.parent"


def rows(store: Store, raw: bytes, parent: str, org: str | None) -> list[dict[str, Any]]:
    """The rows of an export; `parent` says of which object, unless a span says it itself."""
    request = ExportTraceServiceRequest.FromString(raw)
    told = [span for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
    return [row for span in told for row in _rows(store, span, parent, org)]


def _rows(store: Store, span: Any, parent: str, org: str | None) -> Iterator[dict[str, Any]]:
    held = _plain(span.attributes)
    place = _place(store, str(held.pop(_PARENT, None) or parent), org)
    ids = {"root_span_id": span.trace_id.hex(), "span_id": span.span_id.hex()}
    start, end = span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9
    row: dict[str, Any] = {"id": str(uuid.uuid5(uuid.NAMESPACE_OID, "/".join(ids.values()))), **ids, **place}
    row["span_parents"] = [span.parent_span_id.hex()] if span.parent_span_id else None
    row["created"] = written(start)
    row["input"], row["output"] = _taken(held, _INPUTS), _taken(held, _OUTPUTS)
    for prefix, side in _LISTED.items():
        row[side] = _unflat(held, prefix) if row[side] is None else row[side]
    for name in _FIELDS:
        row[name] = _taken(held, (f"braintrust.{name}_json", f"braintrust.{name}"))
    context = _taken(held, ("braintrust.context_json",)) or {"span_origin": {"name": "opentelemetry"}}
    named = _taken(held, ("braintrust.metadata",)) or {}
    row["context"] = context
    counts = {name: held.pop(key) for key, name in _TOKENS.items() if key in held}
    row["metrics"] = {"start": start, "end": end, **counts, **(row["metrics"] or {})}
    said = row["span_attributes"] or {}
    kind = "llm" if held.get("gen_ai.operation.name") in ("chat", "text_completion") else "task"
    row["span_attributes"] = {"name": span.name, "type": kind, **said}
    row["error"] = span.status.message or "error" if span.status.code == 2 else None
    row["metadata"] = {**held, **named}
    yield row
    for event in span.events:
        log = {**ids, **place, "id": str(uuid.uuid4()), "span_parents": row["span_parents"], "input": event.name}
        log["metadata"] = _plain(event.attributes)
        yield {**log, "span_attributes": {"name": event.name, "type": "log"}, "created": row["created"]}


def _place(store: Store, parent: str, org: str | None) -> dict[str, str]:
    """The object a parent names, as a row says it."""
    kind, _, name = parent.partition(":")
    if kind == "experiment_id":
        return {"experiment_id": name}
    ident = name if kind == "project_id" else store.project(name or "default-otel-project", org)["id"]
    return {"project_id": ident, "log_id": "g"}


def _taken(held: dict[str, Any], names: Iterable[str]) -> Any:
    """The first of these attributes, read as JSON where it is; it is metadata no more, and neither are the others."""
    found = [held.pop(name) for name in names if name in held]
    if not found or not isinstance(found[0], str):
        return found[0] if found else None
    try:
        return json.loads(found[0])
    except ValueError:
        return found[0]


def _unflat(held: dict[str, Any], prefix: str) -> list[dict[str, Any]] | None:
    """Messages told in an attribute for each of their parts, `PREFIX.0.message.role`."""
    out: dict[int, dict[str, Any]] = {}
    for name in [name for name in held if name.startswith(f"{prefix}.")]:
        number, _, rest = name[len(prefix) + 1 :].partition(".")
        out.setdefault(int(number), {})[rest.removeprefix("message.")] = held.pop(name)
    return [out[number] for number in sorted(out)] or None


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(told: Any) -> Any:
    kind = told.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in told.array_value.values]
    if kind == "kvlist_value":
        return _plain(told.kvlist_value.values)
    return getattr(told, kind) if kind else None
