"""Google's Agent Development Kit as it wrote its calls on spans: `gcp.vertex.agent.llm_request`, `.llm_response`, ...

Source: google/adk-python, telemetry/tracing.py. Until 2.x a call to the model (`call_llm`) holds the request as it went
to Gemini and the whole response, with its grounding; a tool's span its arguments and its response. Later releases keep
content in the logs by the GenAI conventions, which know those spans.
Verified by a real capture of google-adk 1.18.0 (an agent with a tool, two turns, streaming, failing, content off); what
Gemini grounds an answer on was put in by a scripted model, in the shape google-genai gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from groundtrace.conventions.cited import mentions, searched
from groundtrace.conventions.messages import last_user_text, message, tool_result
from groundtrace.conventions.shapes import MANY, decode, listed, said, text
from groundtrace.conventions.wrapped import question
from groundtrace.model import Message, Reading, Said, Span, Tool

_OWN = "gcp.vertex.agent"
_ASKED, _TOLD = f"{_OWN}.llm_request", f"{_OWN}.llm_response"
_ARGUMENTS, _ANSWER, _SENT = f"{_OWN}.tool_call_args", f"{_OWN}.tool_response", f"{_OWN}.data"
_UNTOLD = {"", "{}", "N/A", "<not specified>", "<not serializable>"}
_OFF = "set ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=true in the traced process, or unset it: it was set to false"


class ADK:
    """Reads one span of Google's Agent Development Kit that tells its content itself."""

    name = "adk"
    marks = (_OWN,)

    def reading(self, span: Span) -> Reading | None:
        """What the span holds; None where it has no content of its own and never has."""
        held = span.attributes
        session = text(held.get(f"{_OWN}.session_id")) or text(held.get("gen_ai.conversation.id"))
        if span.name == "call_llm" or _there(held, _ASKED) or _there(held, _TOLD):
            return _generation(held, session)
        if _there(held, _ARGUMENTS) or _there(held, _ANSWER):
            return _tool(held, session)
        if _there(held, _SENT):
            return Reading("other", query=last_user_text(_turns(decode(held[_SENT]).value, _SENT)), session=session)
        if held.get("gen_ai.operation.name") is None and span.name.startswith(("agent_run", "invoke_agent")):
            return Reading("agent", session=session)
        return Reading("other", session=session) if session else None


def _there(held: Mapping[str, Any], name: str) -> bool:
    """Whether an attribute holds anything: with its content off a call's is not there, a tool's is empty."""
    value = held.get(name)
    return bool(value) if not isinstance(value, str) else value not in _UNTOLD


def _generation(held: Mapping[str, Any], session: str | None) -> Reading:
    """A call to the model: its instructions and contents, its first candidate and what that is grounded on."""
    facts: dict[str, Any] = {"model": text(held.get("gen_ai.request.model")), "session": session}
    if not _there(held, _ASKED) and not _there(held, _TOLD):
        # A call that failed tells nothing at all, its event's id neither.
        off = f"{_OWN}.event_id" in held
        return Reading("generation", content="off" if off else "present", remedy=_OFF if off else "", **facts)
    given, told = decode(held.get(_ASKED)), decode(held.get(_TOLD))
    asked, replied = _object(given.value), _object(told.value)
    spoken = (
        *_instructions(_object(asked.get("config")).get("system_instruction")),
        *_turns(asked.get("contents"), _ASKED),
    )
    answered = _turns([replied.get("content")], _TOLD)
    return Reading(
        "generation",
        messages=(Message("user", Said(str(given.value), _ASKED, "truncated")),) if given.cut else spoken,
        calls=tuple(tool for m in answered for tool in m.tools if tool.arguments is not None),
        output=Said(str(told.value), _TOLD, "truncated") if told.cut else next((m.text for m in answered), None),
        documents=searched(replied, _TOLD) if _grounded(replied) else None,
        citations=mentions(replied, _TOLD) if _grounded(replied) else (),
        **facts,
    )


def _tool(held: Mapping[str, Any], session: str | None) -> Reading:
    """A tool's run; early releases told the whole event that carried its response."""
    answer = decode(held.get(_ANSWER))
    whole = _turns([_object(answer.value).get("content")], _ANSWER)
    asked = held.get(_ARGUMENTS) if _there(held, _ARGUMENTS) else None
    words, found = (None, ()) if answer.cut or not _there(held, _ANSWER) else tool_result(_bare(answer.value), _ANSWER)
    result = Said(str(answer.value), _ANSWER, "truncated") if answer.cut else said(words, _ANSWER)
    carried = next((tool for m in whole for tool in m.tools if tool.result is not None), None)
    tool = carried or Tool("", None, None, result, found)
    name, ident = text(held.get("gen_ai.tool.name")) or tool.name, text(held.get("gen_ai.tool.call.id")) or tool.id
    tool = Tool(name, ident, said(asked, _ARGUMENTS), tool.result, tool.documents)
    return Reading("tool", query=said(question(asked), _ARGUMENTS), tool=tool, session=session)


# --- parts ------------------------------------------------------------------------------------------------------------


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _grounded(replied: Mapping[str, Any]) -> bool:
    return "grounding_metadata" in replied or "groundingMetadata" in replied


def _instructions(told: Any) -> tuple[Message, ...]:
    """The system instruction: a text, or a content of parts."""
    content = told.get("parts") if isinstance(told, Mapping) else told
    spoken = message({"role": "system", "content": content}, _ASKED) if isinstance(content, (str, list)) else None
    return (spoken,) if spoken is not None and spoken.text is not None else ()


def _turns(contents: Any, place: str) -> tuple[Message, ...]:
    """Gemini's contents, whose parts name their kind by a key; what the model thought is not said."""
    read = (message(_turn(item), place) for item in islice(contents, MANY)) if isinstance(contents, list) else ()
    return tuple(m for m in read if m is not None)


def _turn(content: Any) -> Any:
    if not isinstance(content, Mapping):
        return None
    parts = [_block(part) for part in listed(content.get("parts")) if part.get("thought") is not True]
    return {"role": content.get("role") or "user", "parts": parts}


def _block(part: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, kind in (("function_call", "tool_call"), ("function_response", "tool_result")):
        called = part.get(name)
        if isinstance(called, Mapping):
            called = {k: v for k, v in called.items() if k != "response"} | {"result": _bare(called.get("response"))}
            return {**called, "type": kind, "arguments": called.get("args")}
    return part


def _bare(response: Any) -> Any:
    """What a function returned: ADK wraps what is no object as {"result": ...}."""
    return response["result"] if isinstance(response, Mapping) and response.keys() == {"result"} else response
