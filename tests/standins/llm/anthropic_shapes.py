"""Anthropic's shapes: messages, their content blocks and stop reasons, errors and headers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from .asked import Asked, Body, Said
from .script import Act, stamp

_NUMBERS = count(1)
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_BARRED = frozenset(
    [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
        "oneOf",
        "not",
        "patternProperties",
        "if",
        "then",
        "else",
    ]
)
_NEWEST = "2026-10-21"
_REMOVED = ("temperature", "top_p", "top_k")
"""What the API refuses, at default values too, since that version."""

_STOPS = {"stop": "end_turn", "length": "max_tokens", "filter": "refusal", "refusal": "refusal"}


def messages(body: Body) -> Asked:
    """A message's question; the text up to the last breakpoint is what can be cached."""
    texts: list[str] = []
    marked = -1
    for block in _blocks(body):
        texts.append(str(block.get("text", "")))
        if block.get("cache_control"):
            marked = len(texts)
    if body.get("cache_control"):  # the whole request's own breakpoint stands at its last block
        marked = len(texts)
    asked = Asked("messages", str(body.get("model", "")), "\n".join(texts), body)
    asked.marked = "\n".join(texts[:marked]) if marked >= 0 else ""
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    if form.get("type") == "json_schema":
        asked.mode, asked.schema, asked.strict = "schema", form.get("schema"), True
    tools = [tool for tool in body.get("tools") or () if "input_schema" in tool]
    forced = (body.get("tool_choice") or {}).get("name")
    chosen = next((tool for tool in tools if tool["name"] == forced), tools[0] if len(tools) == 1 else None)
    if chosen and asked.mode == "text":
        asked.mode, asked.tool, asked.schema = "tool", chosen["name"], chosen["input_schema"]
    return asked


def _blocks(body: Body) -> Iterator[Mapping[str, Any]]:
    """Every block of text: the system's, then the messages'."""
    for content in (body.get("system"), *(message.get("content") for message in body["messages"])):
        if isinstance(content, str):
            yield {"text": content}
        else:
            yield from (block for block in content or () if isinstance(block, Mapping))


def complaint(asked: Asked) -> str | None:
    """Why the provider would refuse the request before any model sees it; None where it would not."""
    body = asked.body
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    removed = [name for name in _REMOVED if name in body]
    if removed and asked.headers.get("anthropic-version", _NEWEST) >= _NEWEST:
        return f"{removed[0]}: Extra inputs are not permitted"
    if any(message.get("role") not in ("user", "assistant", "system") for message in body["messages"]):
        return "messages: Unexpected role"
    marks = sum("cache_control" in block for block in _blocks(body))
    if marks > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    fault = next(_strict_faults(asked.schema), None) if asked.strict else None
    return fault and f"output_config.format.schema: {fault}"


def _strict_faults(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    kind = schema.get("type")
    for word in _BARRED & schema.keys():
        yield f"For '{kind}' type, property '{word}' is not supported"
    if kind == "object" and schema.get("additionalProperties") is not False:
        yield "For 'object' type, 'additionalProperties' must be explicitly set to false"
    for word in ("properties", "$defs"):
        for inner in schema.get(word, {}).values():
            yield from _strict_faults(inner)
    for word in ("anyOf", "allOf"):
        for inner in schema.get(word, ()):
            yield from _strict_faults(inner)
    yield from _strict_faults(schema.get("items"))


# --- what is answered -----------------------------------------------------------------------------------------------


def reply(asked: Asked, said: Said) -> Body:
    """A message. Input tokens are those that neither came from the cache nor went into it."""
    number = next(_NUMBERS)
    content: list[Body] = [{"type": "text", "text": said.text}] if said.text else []
    stop = _STOPS.get(said.finish, said.finish)
    if asked.tool and said.finish == "stop":
        called = _object(said.text)
        if called is not None:
            content = [{"type": "tool_use", "id": f"toolu_{number}", "name": asked.tool, "input": called}]
            stop = "tool_use"
    if said.thoughts:
        content.insert(0, {"type": "thinking", "thinking": said.thoughts, "signature": "c3RhbmRpbg=="})
    told: Body = {
        "id": f"msg_{number:012d}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": {"type": "refusal", "category": None, "explanation": None} if stop == "refusal" else None,
    }
    if said.tokens:
        one = said.tokens
        hour = any((block.get("cache_control") or {}).get("ttl") == "1h" for block in _blocks(asked.body))
        told["usage"] = {
            "input_tokens": max(0, one.input - one.cached - one.written),
            "cache_creation_input_tokens": one.written,
            "cache_read_input_tokens": one.cached,
            "cache_creation": {"ephemeral_5m_input_tokens": 0 if hour else one.written,
                               "ephemeral_1h_input_tokens": one.written if hour else 0},
            "output_tokens": one.output,
            "service_tier": "batch" if asked.batched else "standard",
        }  # fmt: skip
    return told


def stream(told: Body) -> bytes:
    """A message as the events of a stream, which a client may ask for on its own account where max_tokens is high."""
    usage = told.get("usage", {"input_tokens": 0, "output_tokens": 0})
    begun = told | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    events: list[Body] = [{"type": "message_start", "message": begun}]
    for at, block in enumerate(told["content"]):
        kind = block["type"]
        empty, deltas = {
            "text": ({"text": ""}, [{"type": "text_delta", "text": block.get("text")}]),
            "tool_use": ({"input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}]),
            "thinking": ({"thinking": "", "signature": ""},
                         [{"type": "thinking_delta", "thinking": block.get("thinking")},
                          {"type": "signature_delta", "signature": block.get("signature")}]),
        }[kind]  # fmt: skip
        events.append({"type": "content_block_start", "index": at, "content_block": block | empty})
        events += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": at})
    ended = {name: told[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    events += [{"type": "message_delta", "delta": ended, "usage": usage}, {"type": "message_stop"}]
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def _object(text: str) -> Any:
    """What a tool is called with; a provider never passes on what is no object."""
    try:
        called = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return called if isinstance(called, dict) else None


def error(status: int, act: Act, number: int = 0) -> Body:
    """An error's body."""
    kind = act.get("kind", _KINDS.get(status, "api_error"))
    told = {"type": kind, "message": act.get("message", f"The stand-in says {status}.")}
    return {"type": "error", "error": told, "request_id": f"req_{number:012d}"}


def headers(number: int, left: int) -> dict[str, str]:
    """What every reply carries."""
    return {
        "request-id": f"req_{number:012d}",
        "anthropic-organization-id": "standin",
        "anthropic-ratelimit-requests-limit": "10000",
        "anthropic-ratelimit-requests-remaining": str(left),
        "anthropic-ratelimit-requests-reset": "2030-01-01T00:00:00Z",
    }


def told_to_wait(seconds: float, how: str) -> dict[str, str]:
    """When to come back."""
    if how == "date":
        return {"retry-after": stamp(time.time() + seconds)}
    if how in ("reset", "reset_tokens"):
        when = datetime.now(UTC) + timedelta(seconds=seconds)
        what = "requests" if how == "reset" else "tokens"
        return {f"anthropic-ratelimit-{what}-remaining": "0",
                f"anthropic-ratelimit-{what}-reset": when.isoformat(timespec="milliseconds")}  # fmt: skip
    return {"retry-after": f"{seconds:g}"}


def model(name: str) -> Body:
    """A model as it is listed."""
    return {"id": name, "type": "model", "display_name": name, "created_at": "2025-01-01T00:00:00Z"}
