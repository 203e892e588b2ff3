"""OpenAI's shapes: how a reply's form is asked for, and what a chat completion or a response says.

What other servers of the same shape send beside it, or leave out, is read without trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from groundtrace.judges.llm.client import Answer, Question, Stop
from groundtrace.judges.llm.schema import label, strict
from groundtrace.model import Usage

_LIMITS = ("x-ratelimit-", "retry-after")

_STOPS: Mapping[str, Stop] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "content_filter": "filter",
    "refusal": "refusal",
}


def given(seed: int | None, effort: str | None, *, responses: bool) -> dict[str, Any]:
    """What the plan sets for every question; a response is not kept by the provider."""
    made: dict[str, Any] = {"store": False} if responses else {}
    if seed is not None:
        made["seed"] = seed
    if effort is not None:
        made |= {"reasoning": {"effort": effort}} if responses else {"reasoning_effort": effort}
    return made


def form(question: Question, *, responses: bool) -> dict[str, Any] | None:
    """How the reply's shape is asked for, in the words of the one API or the other."""
    if question.mode == "plain":
        return None
    if question.mode == "json":
        told: dict[str, Any] = {"type": "json_object"}
        return {"format": told} if responses else told
    closed = strict(question.schema)
    schema = closed or dict(question.schema)
    held = {"name": label(question.name), "strict": closed is not None, "schema": schema}
    if responses:
        return {"format": {"type": "json_schema", **held}}
    return {"type": "json_schema", "json_schema": held}


def dumped(said: Any) -> bytes:
    """As JSON; half of a surrogate pair, which no JSON can hold, becomes U+FFFD."""
    try:
        return orjson.dumps(said)
    except TypeError:
        return orjson.dumps(_whole(said))


def _whole(said: Any) -> Any:
    if isinstance(said, str):
        return said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(said, dict):
        return {name: _whole(inner) for name, inner in said.items()}
    return [_whole(inner) for inner in said] if isinstance(said, list) else said


# --- what is answered -------------------------------------------------------------------------------------------------


def loaded(content: bytes) -> dict[str, Any] | None:
    """A reply as the object it is, or None where it is none."""
    try:
        told = orjson.loads(content)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def limits(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that say how much more may be asked, and when."""
    return {name: value for name, value in headers.items() if name.startswith(_LIMITS)}


def status(error: Any) -> int:
    """The status of an error that came as a success, which some proxies send."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return 429 if "rate_limit" in str(code) else 502


def completion(reply: Mapping[str, Any], told: Mapping[str, str]) -> Answer:
    """A chat completion's first choice."""
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    message = message if isinstance(message, dict) else {}
    refusal = message.get("refusal")
    refusal = refusal if isinstance(refusal, str) else ""
    stop: Stop = "refusal" if refusal else _STOPS.get(str(choice.get("finish_reason")), "")
    usage = _usage(reply.get("usage"), ("prompt_tokens", "completion_tokens"), "prompt_tokens_details")
    return Answer(_text(message.get("content")), stop, usage, _name(reply), refusal, told)


def response(reply: Mapping[str, Any], told: Mapping[str, str]) -> Answer:
    """A response's message; its reasoning is not looked at."""
    output = reply.get("output")
    items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
    parts = [part for item in items if item.get("type") == "message" for part in _parts(item.get("content"))]
    text = "".join(str(part.get("text") or "") for part in parts if part.get("type") == "output_text")
    refusal = "".join(str(part.get("refusal") or "") for part in parts if part.get("type") == "refusal")
    short = reply.get("incomplete_details")
    reason = short.get("reason") if isinstance(short, dict) else None
    stop: Stop = "refusal" if refusal else _STOPS.get(str(reason), "length" if reason else "")
    usage = _usage(reply.get("usage"), ("input_tokens", "output_tokens"), "input_tokens_details")
    return Answer(text, stop, usage, _name(reply), refusal, told)


def _text(content: Any) -> str:
    """A message's text, whether it is one or comes in parts."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in _parts(content) if part.get("type", "text") == "text")


def _parts(content: Any) -> list[dict[str, Any]]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _usage(told: Any, names: tuple[str, str], details: str) -> Usage | None:
    """The tokens; None where none are told."""
    if not isinstance(told, dict):
        return None
    inner = told.get(details)
    cached = inner.get("cached_tokens") if isinstance(inner, dict) else 0
    return Usage(_count(told.get(names[0])), _count(told.get(names[1])), _count(cached))


def _count(told: Any) -> int:
    return told if isinstance(told, int) and told > 0 else 0


def _name(reply: Mapping[str, Any]) -> str:
    return str(reply.get("model") or "")
