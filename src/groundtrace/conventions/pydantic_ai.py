"""pydantic-ai and the Logfire SDK, where they write more than, or other than, `gen_ai.*` (that `genai` reads).

Source: pydantic_ai/_instrumentation.py (formats 1 to 6), logfire's llm_providers and openai_agents integrations and its
scrubbing.py. Checked against real captures: pydantic-ai-slim 0.2.20 (format 1), 1.0.18 (1 and 2), 2.68.0 (2, 5, 6);
logfire 3.16.2, 4.3.6 and 5.4.0 with openai 1 and 3 and anthropic; openai-agents 0.24.0 through logfire. Not checked:
images and speech, realtime sessions, deferred tools.
An agent's span holds `pydantic_ai.all_messages` (format 1: `all_messages_events`) and `final_result`; formats 1 and 2
name a tool's `tool_arguments` and `tool_response`. What pydantic-ai says to the model about a reply it refused
stands as a message of the user: it is none. Logfire's format 1 holds a provider's own `request_data` and
`response_data`, for the Responses API and the OpenAI Agents SDK a list of `events`; a streamed reply is a span of its
own, beside the call. Logfire scrubs tool results, `final_result` and what apps note on their own spans; never messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec.structs import replace

from groundtrace.conventions.cited import mentions, searched
from groundtrace.conventions.messages import conversation, last_user_text, message, messages, tool_result
from groundtrace.conventions.shapes import (
    MANY,
    Decoded,
    decode,
    documents,
    is_masked,
    listed,
    said,
    text,
)
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Mention, Message, Reading, Role, Said, Span, Tool

_ALL = ("pydantic_ai.all_messages", "all_messages_events")
_FINAL = "final_result"
_ARGUMENTS = ("tool_arguments", "gen_ai.tool.call.arguments")
_RESULTS = ("tool_response", "gen_ai.tool.call.result")
_INPUT, _OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
_EVENTS, _REQUEST, _RESPONSE = "events", "request_data", "response_data"
_CHOICE, _UNKNOWN = "gen_ai.choice", "gen_ai.unknown"
_REFUSED = ("Fix the errors and try again.", "</pyai:retry_feedback>")

_ROLES: tuple[tuple[str, Role], ...] = (
    ("OpenAI Agents trace", "request"),
    ("Agent run", "agent"),
    ("Guardrail", "other"),
)
_QUESTIONS = ("question", "user_question", "user_query", "user_input", "user_message", "user_prompt")
_ANSWERS = ("answer", "return", "response", "output", "result")
_FOUND = ("documents", "docs", "passages", "contexts", "chunks", "retrieved_documents", "search_results", "results")
_RETRIEVES = ("retriev", "search", "lookup")
_SESSIONS, _USERS = ("session_id", "thread_id", "conversation_id"), ("user_id", "user")

_CONTENT = "use InstrumentationSettings(include_content=True)"
_SCRUBBED = (
    "logfire scrubbed it: let it through with logfire.configure(scrubbing=logfire.ScrubbingOptions(callback=...))"
)
_STREAMS = {"logfire.openai", "logfire.anthropic"}
_STREAMED = (
    "logfire writes a streamed reply to a span of its own, and of its own trace where none is open: open a "
    "logfire.span around the call"
)
_SENSITIVE = "use RunConfig(trace_include_sensitive_data=True)"
_TEXTS = "record what was retrieved as a list of objects with an id and a text"


class PydanticAI:
    """Reads one span of pydantic-ai, or of the Logfire SDK and its integrations."""

    name = "pydantic_ai"
    marks = ("pydantic_ai", "pydantic-ai", "pydantic-evals", "logfire")

    def reading(self, span: Span) -> Reading | None:
        """What the span holds beside `gen_ai.*`; None where that is all, or nothing."""
        held, scope = span.attributes, span.scope
        if scope == "pydantic-evals":
            return Reading("other", aside=True) if span.name.startswith("evaluator") else None
        if scope == "logfire":
            return _noted(span)
        if scope == "logfire.openai_agents":
            return _openai_agents(span)
        if any(key in held for key in (*_ALL, _FINAL)):
            return _agent(held)
        if _RESULTS[0] in held or _ARGUMENTS[0] in held or is_masked(held.get(_RESULTS[1])):
            return _tool(held)
        return _call(span)


def _call(span: Span) -> Reading | None:
    """A call to a model, where it is written otherwise than `genai` reads it."""
    held = span.attributes
    if _INPUT in held or _OUTPUT in held:
        read = _refused(held)
        streams = read is None and _OUTPUT not in held and span.status != "error" and span.scope in _STREAMS
        return Reading("generation", content="elsewhere", remedy=_STREAMED) if streams else read
    if isinstance(held.get(_EVENTS), (str, list, tuple)):
        return _events(held)
    if span.name.startswith("Embedding"):
        return Reading("embedding", model=text(held.get("gen_ai.request.model")))
    return _provider(held) if isinstance(held.get(_REQUEST), str) else None


# --- pydantic-ai ------------------------------------------------------------------------------------------------------


def _agent(held: Mapping[str, Any]) -> Reading:
    """A run of an agent: what the user asked last, and its result, of an object the answer in it."""
    place = next((key for key in _ALL if key in held), _ALL[0])
    given = decode(held.get(place))
    turns = _turns(given.value) if place != _ALL[0] else given.value
    spoken = _unrefused(messages(turns, place))
    asked = Said(str(given.value), place, "truncated") if given.cut else last_user_text(spoken)
    result = _told(held, _FINAL)
    told = decode(result)
    output = Said(str(result), _FINAL, "truncated") if told.cut else _said(reply(told.value) or result, _FINAL)
    facts = decode(held.get("metadata")).value
    off = asked is None and output is None and given.value is not None
    return Reading(
        "agent",
        query=asked,
        output=output,
        model=text(held.get("model_name")),
        session=_own(facts, _SESSIONS),
        user=_own(facts, _USERS),
        content="off" if off else "present",
        remedy=_CONTENT if off else "",
    )


def _own(facts: Any, names: Iterable[str]) -> str | None:
    return next((t for n in names if (t := text(facts.get(n)))), None) if isinstance(facts, Mapping) else None


def _tool(held: Mapping[str, Any]) -> Reading:
    """A tool that was run. A scrubbed result is the passage it would have been: nothing else stands in for it."""
    asked, place = next(((held[key], key) for key in _ARGUMENTS if key in held), (None, ""))
    answered, where = next(((held[key], key) for key in _RESULTS if key in held), (None, ""))
    words, found = tool_result(answered, where)
    told = Said(str(answered), where, "truncated") if decode(answered).cut else _said(words, where)
    hidden = told if told is not None and told.state == "masked" else None
    tool = Tool(
        text(held.get("gen_ai.tool.name")) or "",
        text(held.get("gen_ai.tool.call.id")),
        _said(asked, place),
        told,
        found if hidden is None else (Document(hidden),),
    )
    return Reading("tool", query=_said(question(asked), place), tool=tool)


def _refused(held: Mapping[str, Any]) -> Reading | None:
    """A call in which a reply was refused: the conversation without what was said about it as if by the user."""
    raw = held.get(_INPUT)
    if not isinstance(raw, str) or not any(mark in raw for mark in _REFUSED):
        return None
    return Reading("generation", messages=_unrefused(messages(raw, _INPUT)))


def _unrefused(spoken: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(
        replace(m, role="system") if m.role == "user" and m.text and m.text.value.endswith(_REFUSED) else m
        for m in spoken
    )


def _turns(events: Any) -> list[Any]:
    """Messages out of events: a choice holds one inside, the parts of the user's are events of their own."""
    if not isinstance(events, (list, tuple)):
        return [events] if events is not None else []
    turns: list[Any] = []
    for event in (_turn(e) for e in islice(events, MANY)):
        if turns and _is_plain(event) and _is_plain(turns[-1]):
            turns[-1] = {"role": "user", "content": [*turns[-1]["content"], *event["content"]]}
        elif event is not None:
            turns.append(event)
    return turns


def _turn(event: Any) -> Any:
    if not isinstance(event, Mapping):
        return event
    if event.get("event.name") == _UNKNOWN:
        data = event.get("data")
        kind = data.get("type") if isinstance(data, Mapping) else None
        role = {"input_text": "user", "output_text": "assistant"}.get(str(kind))
        event = {"role": role, "content": data.get("text")} if role and isinstance(data, Mapping) else {}
    if isinstance(event.get("message"), Mapping):
        return event["message"]
    if event.get("role") == "user" and isinstance(event.get("content"), str):
        return {"role": "user", "content": [event["content"]]}
    return event or None


def _is_plain(turn: Any) -> bool:
    return (
        isinstance(turn, Mapping)
        and turn.get("role") == "user"
        and isinstance(turn.get("content"), list)
        and len(turn) == 2
    )


# --- calls as the Logfire SDK writes them -----------------------------------------------------------------------------


def _events(held: Mapping[str, Any]) -> Reading:
    """A call as a list of events: what was said, and at the end, or as a choice, what the model said."""
    given = decode(held.get(_EVENTS))
    if given.cut:
        return _generation(held, (Message("user", Said(str(given.value), _EVENTS, "truncated")),), ())
    events = listed(given.value)
    named = [e.get("event.name") == _CHOICE for e in events]
    first = named.index(True) if True in named else _replied(events)
    own = held.get("response")
    data = [e["data"] for e in events[first:] if isinstance(e.get("data"), Mapping)]
    return _generation(
        held,
        _unrefused(messages(_turns(events[:first]), _EVENTS)),
        messages(_turns(events[first:]), _EVENTS),
        found=searched({"output": data}, _EVENTS),
        cited=mentions(own, "response") if isinstance(own, str) and "annotations" in own else (),
    )


def _replied(events: list[Mapping[str, Any]]) -> int:
    """Where the reply starts: with what the assistant says at the end."""
    at = len(events)
    while at and events[at - 1].get("role") == "assistant":
        at -= 1
    return at


def _provider(held: Mapping[str, Any]) -> Reading | None:
    """A call as its provider's own request and reply, the reply of a stream in one text."""
    given, told = decode(held.get(_REQUEST)), decode(held.get(_RESPONSE)).value
    if given.cut:
        return _generation(held, (Message("user", Said(str(given.value), _REQUEST, "truncated")),), ())
    spoken = conversation(given.value, _REQUEST) if isinstance(given.value, Mapping) else ()
    answer: Any = None
    if isinstance(told, Mapping):
        parts = (told.get(key) for key in ("message", "combined_chunk_content", "text"))
        answer = next((part for part in parts if part), None)
    words = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
    spoke = message(words, _RESPONSE)
    if not spoken and spoke is None:
        return None
    return _generation(held, spoken, (replace(spoke, role="assistant"),) if spoke is not None else ())


def _generation(
    held: Mapping[str, Any],
    spoken: tuple[Message, ...],
    answered: tuple[Message, ...],
    found: tuple[Document, ...] | None = None,
    cited: tuple[Mention, ...] = (),
) -> Reading:
    texts = [m.text for m in answered if m.text is not None and m.role == "assistant"]
    streamed = not answered and found is None
    return Reading(
        "generation",
        content="elsewhere" if streamed else "present",
        remedy=_STREAMED if streamed else "",
        messages=tuple(_unveiled(m) for m in spoken),
        output=_remedied(texts[-1]) if texts else None,
        calls=tuple(t for m in answered for t in m.tools if t.arguments is not None),
        documents=found,
        citations=cited,
        model=text(held.get("gen_ai.response.model")) or text(held.get("gen_ai.request.model")),
        response_id=text(held.get("gen_ai.response.id")),
    )


def _openai_agents(span: Span) -> Reading | None:
    """A span of the OpenAI Agents SDK: the trace, an agent, a tool, a guardrail, a call to a model."""
    held, name = span.attributes, span.name
    if _EVENTS in held:
        return _events(held)
    role = next((role for start, role in _ROLES if name.startswith(start)), None)
    if role is not None:
        return Reading(role, session=text(held.get("group_id")), aside=name.startswith("Guardrail"))
    if name.startswith("Function"):
        asked, answered = _told(held, "input"), _told(held, "output")
        words, found = tool_result(answered, "output")
        tool = Tool(text(held.get("name")) or "", None, _said(asked, "input"), _said(words, "output"), found)
        return Reading("tool", query=_said(question(asked), "input"), tool=tool)
    given = decode(held.get(_REQUEST)).value
    if not isinstance(given, Mapping) or not given.get("messages"):
        called = name.startswith(("Responses API", "Chat completion"))
        failed = span.status == "error"
        return Reading("generation", content="present" if failed else "off", remedy=_SENSITIVE) if called else None
    turns = listed(given.get("messages"))
    first = _replied(turns)
    return _generation(held, messages(turns[:first], _REQUEST), messages(turns[first:], _REQUEST))


# --- what an app notes on its own spans -------------------------------------------------------------------------------


def _noted(span: Span) -> Reading | None:
    """A span an app opened itself: a request where it notes its question, a retrieval where it notes what was found."""
    held = span.attributes
    if held.get("logfire.span_type") != "span" or "gen_ai.operation.name" in held:
        return None
    asked = next((_said(held[key], key) for key in _QUESTIONS if key in held), None)
    place = next((key for key in _FOUND if key in held), None)
    found = _listed(decode(held[place]), place) if place is not None else None
    if asked is not None:
        told = ((reply(held[key]) or held[key], key) for key in _ANSWERS if isinstance(held.get(key), str))
        return Reading("request", query=asked, documents=found, output=next((_said(*t) for t in told), None))
    if place is None or not ("query" in held or any(word in span.name.lower() for word in _RETRIEVES)):
        return None
    return Reading(
        "retrieval",
        query=_said(question(held.get("query")), "query"),
        documents=found,
        remedy=_TEXTS,
    )


def _listed(given: Decoded, place: str) -> tuple[Document, ...] | None:
    """The documents of a list; words without a space between them are ids, no texts."""
    if given.cut:
        return (Document(Said(str(given.value), place, "truncated")),)
    found = documents(given.value, place)
    ids = [text(item) for item in given.value] if found and isinstance(given.value, list) else []
    if ids and all(ident and " " not in ident.strip() for ident in ids):
        return tuple(Document(id=ident) for ident in ids)
    return found


# --- what was scrubbed ------------------------------------------------------------------------------------------------


def _told(held: Mapping[str, Any], key: str) -> Any:
    """An attribute; logfire writes nothing as JSON, too."""
    return None if held.get(key) == "null" else held.get(key)


def _said(value: Any, place: str) -> Said | None:
    return said(value, place, _SCRUBBED)


def _remedied(words: Said) -> Said:
    return replace(words, remedy=_SCRUBBED) if words.state == "masked" else words


def _unveiled(spoken: Message) -> Message:
    """A message whose masked text says how to have it kept."""
    masked = spoken.text is not None and spoken.text.state == "masked"
    return replace(spoken, text=replace(spoken.text, remedy=_SCRUBBED)) if masked and spoken.text else spoken
