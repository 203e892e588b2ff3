"""OpenAI's shapes: chat completions and responses, their errors, headers and what strict schemas may hold."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from .asked import Asked, Body, Said
from .script import Act, stamp

_NUMBERS = count(1)
_BARRED = frozenset(
    [
        "default",
        "oneOf",
        "allOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "contains",
        "uniqueItems",
        "unevaluatedProperties",
        "unevaluatedItems",
    ]
)
_KINDS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def _text(content: Any) -> str:
    """A message's text, whether it is one or comes in parts."""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))


def chat(body: Body) -> Asked:
    """A chat completion's question."""
    form = body.get("response_format") or {}
    held = form.get("json_schema") or {}
    asked = Asked(
        "chat", str(body.get("model", "")), "\n".join(_text(m.get("content")) for m in body["messages"]), body
    )
    asked.mode = {"json_schema": "schema", "json_object": "json"}.get(form.get("type", ""), "text")
    asked.schema, asked.strict = held.get("schema"), bool(held.get("strict"))
    _tool(asked, [tool.get("function", {}) for tool in body.get("tools") or ()])
    return asked


def responses(body: Body) -> Asked:
    """A response's question."""
    said = body.get("input", "")
    texts = [said] if isinstance(said, str) else [_text(item.get("content")) for item in said]
    form = (body.get("text") or {}).get("format") or {}
    prompt = "\n".join([*([body["instructions"]] if body.get("instructions") else []), *texts])
    asked = Asked("responses", str(body.get("model", "")), prompt, body)
    asked.mode = {"json_schema": "schema", "json_object": "json"}.get(form.get("type", ""), "text")
    asked.schema, asked.strict = form.get("schema"), bool(form.get("strict"))
    _tool(asked, [tool for tool in body.get("tools") or () if tool.get("type") == "function"])
    return asked


def _tool(asked: Asked, tools: list[Mapping[str, Any]]) -> None:
    if len(tools) == 1 and asked.mode == "text":
        asked.mode, asked.tool, asked.schema = "tool", tools[0].get("name"), tools[0].get("parameters")


def complaint(asked: Asked) -> str | None:
    """Why the provider would refuse the request before any model sees it; None where it would not."""
    if asked.mode == "json" and "json" not in asked.prompt.lower():
        where = "'messages' must contain the word 'json' in some form"
        return f"{where}, to use 'response_format' of type 'json_object'."
    if not asked.strict or asked.schema is None:
        return None
    fault = next(_strict_faults(asked.schema, ()), None)
    held = asked.body.get("response_format", {}).get("json_schema") or asked.body.get("text", {}).get("format") or {}
    return fault and f"Invalid schema for response_format '{held.get('name')}': {fault}"


def _strict_faults(schema: Any, path: tuple[str, ...]) -> Iterator[str]:
    """What structured outputs don't take: objects that are open, optional fields, words they don't know."""
    if not isinstance(schema, Mapping):
        return
    at = f"In context=({', '.join(repr(step) for step in path)})"
    for word in _BARRED & schema.keys():
        yield f"{at}, '{word}' is not permitted."
    if "$ref" in schema and len(schema) > 1:
        yield f"{at}, $ref cannot have keywords {sorted(set(schema) - {'$ref'})}."
    if not path and schema.get("type") != "object":
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield f"{at}, 'additionalProperties' is required to be supplied and to be false."
    for name in schema.get("properties", {}).keys() - set(schema.get("required", ())):
        yield f"{at}, 'required' must include every key in properties. Missing {name!r}."
    yield from _inner_faults(schema, path)


def _inner_faults(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    for word in ("properties", "$defs"):
        for name, inner in schema.get(word, {}).items():
            yield from _strict_faults(inner, (*path, word, name))
    for at_choice, inner in enumerate(schema.get("anyOf", ())):
        yield from _strict_faults(inner, (*path, "anyOf", str(at_choice)))
    if "items" in schema:
        yield from _strict_faults(schema["items"], (*path, "items"))


# --- what is answered -----------------------------------------------------------------------------------------------


def chat_reply(asked: Asked, said: Said) -> Body:
    """A chat completion."""
    number = next(_NUMBERS)
    refused = said.finish == "refusal"
    message: Body = {"role": "assistant", "content": None if refused else said.text, "refusal": None, "annotations": []}
    finish = {"stop": "stop", "length": "length", "filter": "content_filter", "refusal": "stop"}.get(
        said.finish, said.finish
    )
    if refused:
        message["refusal"] = said.text
    elif asked.tool and said.finish == "stop":
        call = {"name": asked.tool, "arguments": said.text}
        message["content"], finish = None, "tool_calls"
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": call}]
    elif said.finish == "filter":
        message["content"] = ""
    choices = [
        {"index": at, "message": message, "logprobs": None, "finish_reason": finish} for at in range(said.number)
    ]
    reply: Body = {
        "id": f"chatcmpl-{number:012d}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": said.model,
        "choices": choices,
        "service_tier": "default",
        "system_fingerprint": "fp_standin",
    }
    if said.tokens:
        one = said.tokens
        output = one.output * said.number
        reply["usage"] = {
            "prompt_tokens": one.input,
            "completion_tokens": output,
            "total_tokens": one.input + output,
            "prompt_tokens_details": {"cached_tokens": one.cached, "cache_write_tokens": one.written},
            "completion_tokens_details": {"reasoning_tokens": one.thought, "audio_tokens": 0,
                                          "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
        }  # fmt: skip
    return reply


def responses_reply(asked: Asked, said: Said) -> Body:
    """A response; one that ended early is incomplete."""
    number = next(_NUMBERS)
    short = {"length": "max_output_tokens", "filter": "content_filter"}.get(said.finish)
    status = "incomplete" if short else "completed"
    content: Body = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
    if said.finish == "refusal":
        content = {"type": "refusal", "refusal": said.text}
    item: Body = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": status, "content": [content]}
    if asked.tool and said.finish == "stop":
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": asked.tool,
                "arguments": said.text, "status": "completed"}  # fmt: skip
    output = [item] if said.text or said.finish == "stop" else []
    if said.thoughts:
        summary = [{"type": "summary_text", "text": said.thoughts}]
        output.insert(0, {"type": "reasoning", "id": f"rs_{number}", "summary": summary})
    body, now = asked.body, time.time()
    reply: Body = {
        "id": f"resp_{number:012d}",
        "object": "response",
        "created_at": now,
        "completed_at": now,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": short} if short else None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": said.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "metadata": {},
    }
    if said.tokens:
        one = said.tokens
        reply["usage"] = {
            "input_tokens": one.input,
            "input_tokens_details": {"cached_tokens": one.cached, "cache_write_tokens": one.written},
            "output_tokens": one.output,
            "output_tokens_details": {"reasoning_tokens": one.thought},
            "total_tokens": one.input + one.output,
        }
    return reply


def error(status: int, act: Act) -> Body:
    """An error's body."""
    kind, code = _KINDS.get(status, ("server_error", None))
    told = {"message": act.get("message", f"The stand-in says {status}."), "type": act.get("kind", kind)}
    return {"error": told | {"param": None, "code": act.get("code", code)}}


def headers(number: int, left: int) -> dict[str, str]:
    """What every reply carries."""
    return {
        "x-request-id": f"req_{number:012d}",
        "openai-version": "2020-10-01",
        "openai-processing-ms": "1",
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-remaining-requests": str(left),
        "x-ratelimit-reset-requests": "6ms",
        "x-ratelimit-limit-tokens": "2000000",
        "x-ratelimit-remaining-tokens": "1999000",
        "x-ratelimit-reset-tokens": "12ms",
    }


def told_to_wait(seconds: float, how: str) -> dict[str, str]:
    """When to come back, as the script wants it said."""
    match how:
        case "date":
            return {"retry-after": stamp(time.time() + seconds)}
        case "ms":
            return {"retry-after-ms": str(round(seconds * 1000))}
        case "reset":
            return {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": span(seconds)}
        case "reset_tokens":
            return {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": span(seconds)}
        case _:
            return {"retry-after": f"{seconds:g}"}


def span(seconds: float) -> str:
    """A length of time as OpenAI writes it.

    >>> span(0.25), span(2.5), span(90), span(3661)
    ('250ms', '2.5s', '1m30s', '1h1m1s')
    """
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    shown = f"{hours:g}h" * bool(hours) + f"{minutes:g}m" * bool(minutes or hours)
    return f"{shown}{round(rest, 3):g}s"


def model(name: str) -> Body:
    """A model as it is listed."""
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "standin"}
