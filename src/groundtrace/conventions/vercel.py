"""The Vercel AI SDK's own spans, `ai.*`: versions 4 to 6 with `experimental_telemetry`, 7 with LegacyOpenTelemetry.

Source: packages/ai of vercel/ai (version 6) and packages/otel (version 7). Checked against real captures of ai 4.3.19,
5.0.277, 6.0.326 and 7.0.173 with @ai-sdk/otel 1.0.173: generateText, streamText and generateObject, with and without
tools, embed and rerank; not checked: streamObject, images and speech, agents of the workflow SDK.
A call is two spans, `ai.generateText` around an `ai.generateText.doGenerate` for every step: the outer one is the
request, the inner ones its generations. Version 7's default integration writes `gen_ai.*`, which `genai` reads; of it
only the session, the user and what a reranker kept are read here. Sources a provider cites are in no span.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec.structs import replace

from groundtrace.conventions.messages import conversation, last_user_text, messages, tool_result
from groundtrace.conventions.shapes import MANY, decode, documents, listed, number, said, text
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Message, Reading, Role, Said, Span, State, Tool

_STEPS = (".doGenerate", ".doStream")
_OPERATIONS: Mapping[str, Role] = {
    "ai.generateText": "request",
    "ai.streamText": "request",
    "ai.generateObject": "request",
    "ai.streamObject": "request",
    "ai.embed": "embedding",
    "ai.embedMany": "embedding",
    "ai.toolCall": "tool",
}
_PROMPT, _MESSAGES = "ai.prompt", "ai.prompt.messages"
_TEXT, _OBJECT, _CALLS = "ai.response.text", "ai.response.object", "ai.response.toolCalls"
_ARGUMENTS, _RESULT = "ai.toolCall.args", "ai.toolCall.result"
_CANDIDATES, _RANKING = "ai.documents", "ai.ranking"

_OWN = ("ai.telemetry.metadata.", "ai.settings.context.")
_SESSIONS = (
    *("sessionId", "session_id", "session.id", "threadId", "thread_id"),
    *("conversationId", "conversation_id", "chatId", "chat_id"),
)
_USERS = ("userId", "user_id", "user.id")

_RECORD = "do not set {} to false in the telemetry settings of the call"


class Vercel:
    """Reads one span of the Vercel AI SDK."""

    name = "vercel"
    marks = ("ai.",)

    def reading(self, span: Span) -> Reading | None:
        """What the span holds, by its operation; None where it is none of the SDK's."""
        held = span.attributes
        named = text(held.get("ai.operationId")) or span.name
        step = named.endswith(_STEPS)
        role = _OPERATIONS.get(named.removesuffix(".doGenerate").removesuffix(".doStream").removesuffix(".doEmbed"))
        facts: dict[str, Any] = {
            "session": _own(held, _SESSIONS),
            "user": _own(held, _USERS),
            "tags": _tags(held),
            "model": text(held.get("ai.response.model")) or text(held.get("ai.model.id")),
        }
        if _RANKING in held:
            return Reading("rerank", documents=_ranked(held), remedy=_RECORD.format("recordInputs"), **facts)
        if role == "request":
            return _generation(span, facts) if step else _request(span, facts)
        if role == "tool":
            return _tool(held, facts)
        if role is None and not (facts["session"] or facts["user"]):
            return None
        return Reading(role or "other", **facts)


def _own(held: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """What the app says of itself, in the call's metadata or, from version 7 on, in its runtime context."""
    return next((t for name in names for prefix in _OWN if (t := text(held.get(prefix + name)))), None)


def _tags(held: Mapping[str, Any]) -> tuple[str, ...]:
    found = next((held[p + "tags"] for p in _OWN if isinstance(held.get(p + "tags"), (list, tuple))), ())
    return tuple(t for tag in islice(found, MANY) if (t := text(tag)))


# --- by operation -----------------------------------------------------------------------------------------------------


def _request(span: Span, facts: Mapping[str, Any]) -> Reading:
    """The call as the app made it: what the user said last in its prompt, and the text of its last step."""
    held = span.attributes
    raw = held.get(_PROMPT)
    given = decode(raw)
    query = Said(str(raw), _PROMPT, "truncated") if given.cut else None
    if query is None:
        last = last_user_text(conversation(given.value, _PROMPT))
        query = said(question(last.value), _PROMPT) if last is not None else None
    content, remedy = _content(span)
    return Reading("request", query=query, output=_output(held), content=content, remedy=remedy, **facts)


def _generation(span: Span, facts: Mapping[str, Any]) -> Reading:
    """One step: the conversation it was given, what it said, the tools it asked for instead."""
    held = span.attributes
    place = _MESSAGES if _MESSAGES in held else _PROMPT
    given = decode(held.get(place))
    spoken = conversation(given.value, place)
    if given.cut:
        spoken = (Message("user", Said(str(given.value), place, "truncated")),)
    content, remedy = _content(span)
    return Reading(
        "generation",
        messages=spoken,
        output=_output(held),
        calls=_calls(held),
        response_id=text(held.get("ai.response.id")) or text(held.get("gen_ai.response.id")),
        content=content,
        remedy=remedy,
        **facts,
    )


def _tool(held: Mapping[str, Any], facts: Mapping[str, Any]) -> Reading:
    """A tool the SDK ran: its arguments and its result, both as JSON, also where the result is a plain text."""
    asked, answered = held.get(_ARGUMENTS), held.get(_RESULT)
    words, found = tool_result(answered, _RESULT)
    tool = Tool(
        text(held.get("ai.toolCall.name")) or "",
        text(held.get("ai.toolCall.id")),
        said(asked, _ARGUMENTS),
        Said(str(answered), _RESULT, "truncated") if _is_cut(answered) else said(words, _RESULT),
        found,
    )
    return Reading("tool", query=said(question(asked), _ARGUMENTS), tool=tool, **facts)


def _ranked(held: Mapping[str, Any]) -> tuple[Document, ...] | None:
    """What a reranker kept, in its order: positions among the candidates, with their scores."""
    candidates, ranking = held.get(_CANDIDATES), held.get(_RANKING)
    if not isinstance(candidates, (list, tuple)) or not isinstance(ranking, (list, tuple)):
        return None
    given = documents([_unquoted(c) for c in islice(candidates, MANY)], _CANDIDATES) or ()
    kept: list[Document] = []
    for one in (decode(item).value for item in islice(ranking, MANY)):
        place = one.get("index") if isinstance(one, Mapping) else None
        if not isinstance(place, int) or not 0 <= place < len(given):
            return None
        kept.append(replace(given[place], score=number(one.get("relevanceScore"))))
    return tuple(kept)


# --- parts ------------------------------------------------------------------------------------------------------------


def _output(held: Mapping[str, Any]) -> Said | None:
    """The text of the reply; of an object the answer it holds, else the object itself."""
    words = said(held.get(_TEXT), _TEXT)
    raw = held.get(_OBJECT)
    if words is not None or not isinstance(raw, str):
        return words
    if decode(raw).cut:
        return Said(raw, _OBJECT, "truncated")
    return said(reply(raw) or raw, _OBJECT)


def _calls(held: Mapping[str, Any]) -> tuple[Tool, ...]:
    """The tools a step asked for; one that ended otherwise had them run by the provider."""
    if held.get("ai.response.finishReason") not in (None, "tool-calls"):
        return ()
    asked = messages([{"role": "assistant", "tool_calls": _named(decode(held.get(_CALLS)).value)}], _CALLS)
    return tuple(tool for message in asked for tool in message.tools)


def _named(calls: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": call.get("toolCallId"),
            "name": call.get("toolName"),
            "arguments": call.get("input", call.get("args")),
        }
        for call in listed(calls)
    ]


def _content(span: Span) -> tuple[State, str]:
    """Whether the prompt and the reply were recorded, and what to change where one was not."""
    held = span.attributes
    given = _PROMPT in held or _MESSAGES in held
    ended = held.get("ai.response.finishReason") == "stop" and span.status != "error"
    answered = not ended or any(key in held for key in (_TEXT, _OBJECT, _CALLS))
    if given and answered:
        return "present", ""
    off = [name for name, there in (("recordInputs", given), ("recordOutputs", answered)) if not there]
    return "off", _RECORD.format(" and ".join(off))


def _is_cut(value: Any) -> bool:
    """Whether a result breaks off, be it an object, a list, or a text in quotes that are not closed."""
    return decode(value).cut or (isinstance(value, str) and value[:1] == '"' and len(value) > 1 and value[-1] != '"')


def _unquoted(value: Any) -> Any:
    """A candidate out of the JSON it is written in."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return value
