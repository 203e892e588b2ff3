"""Gemini's shapes: generateContent, its candidates, block reasons, errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from itertools import count
from typing import Any

from .asked import Asked, Body, Said
from .script import Act

_NUMBERS = count(1)
_PARAMETERS = ("parametersJsonSchema", "parameters_json_schema", "parameters")
_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_FINISHES = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "filter": "SAFETY",
    "refusal": "SAFETY",
    "recitation": "RECITATION",
}


def generate(body: Body, model: str) -> Asked:
    """A question; the SDK writes camel case, people write snake case, and the API takes both."""
    texts = [_text(body.get("systemInstruction") or body.get("system_instruction"))]
    texts += [_text(content) for content in body["contents"]]
    asked = Asked("gemini", model, "\n".join(text for text in texts if text), body)
    config: Mapping[str, Any] = body.get("generationConfig") or body.get("generation_config") or {}
    asked.schema = config.get("responseJsonSchema") or config.get("responseSchema") or config.get("response_schema")
    json_wanted = (config.get("responseMimeType") or config.get("response_mime_type")) == "application/json"
    asked.mode = "schema" if asked.schema else "json" if json_wanted else "text"
    calls = [call for tool in body.get("tools") or () for call in tool.get("functionDeclarations") or ()]
    if len(calls) == 1 and asked.mode == "text":
        asked.mode, asked.tool = "tool", calls[0]["name"]
        asked.schema = next((call for call in map(calls[0].get, _PARAMETERS) if call), None)
    return asked


def _text(content: Any) -> str:
    parts = content.get("parts", ()) if isinstance(content, Mapping) else ()
    return "\n".join(str(part.get("text", "")) for part in parts)


def complaint(asked: Asked) -> str | None:
    """Why the provider would refuse the request before any model sees it; None where it would not."""
    config = asked.body.get("generationConfig") or {}
    if "responseSchema" in config and "responseJsonSchema" in config:
        return "response_schema and response_json_schema cannot both be set"
    if asked.mode == "schema" and config.get("responseMimeType") != "application/json":
        return "response_schema needs response_mime_type application/json"
    if "$defs" in (config.get("responseSchema") or {}):
        return "Unknown name \"$defs\" at 'generation_config.response_schema': Cannot find field."
    return None


def reply(asked: Asked, said: Said, blocked: str | None = None) -> Body:
    """A reply; a blocked prompt has no candidates."""
    number = next(_NUMBERS)
    told: Body = {"modelVersion": said.model, "responseId": f"standin{number:012d}"}
    if blocked:
        told["promptFeedback"] = {"blockReason": blocked, "safetyRatings": []}
    else:
        finish = _FINISHES.get(said.finish, said.finish)
        candidate: Body = {"content": {"role": "model"}, "finishReason": finish, "index": 0}
        parts = _parts(asked, said)
        if parts:
            candidate["content"]["parts"] = parts
        told["candidates"] = [candidate]
    if said.tokens:
        one = said.tokens
        spoken = 0 if blocked else one.output - one.thought
        usage: Body = {"promptTokenCount": one.input, "totalTokenCount": one.input + spoken + one.thought,
                       "promptTokensDetails": [{"modality": "TEXT", "tokenCount": one.input}]}  # fmt: skip
        usage |= {"candidatesTokenCount": spoken} if spoken else {}
        usage |= {"thoughtsTokenCount": one.thought} if one.thought else {}
        if one.cached:
            usage["cachedContentTokenCount"] = one.cached
            usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": one.cached}]
        told["usageMetadata"] = usage
    return told


def _parts(asked: Asked, said: Said) -> list[Body]:
    parts: list[Body] = [{"text": said.thoughts, "thought": True}] if said.thoughts else []
    if asked.tool and said.finish == "stop":
        try:
            return [*parts, {"functionCall": {"name": asked.tool, "args": json.loads(said.text)}}]
        except (ValueError, RecursionError):
            pass
    return [*parts, {"text": said.text}] if said.text else parts


def error(status: int, act: Act) -> Body:
    """An error's body; when to come back stands in its details, there is no header for it."""
    name = act.get("kind", _NAMES.get(status, "UNKNOWN" if status < 500 else "INTERNAL"))
    details: list[Body] = []
    if "retry_after" in act:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{act['retry_after']:g}s"})
    if "code" in act:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": act["code"]}
        details.insert(0, info | {"domain": "googleapis.com"})
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "error"
    told: Body = {
        "code": status,
        "message": act.get("message", f"The stand-in says {status} {phrase}."),
        "status": name,
    }
    return {"error": told | ({"details": details} if details else {})}


def headers(number: int, left: int) -> dict[str, str]:
    """What every reply carries: nothing of use."""
    return {"server-timing": "gfet4t7; dur=1", "x-standin-left": str(left), "x-standin-number": str(number)}


def model(name: str) -> Body:
    """A model as it is listed."""
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": ["generateContent"]}
