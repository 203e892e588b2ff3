"""Langfuse, what its SDKs export over OpenTelemetry: `langfuse.observation.*`, `langfuse.trace.*`.

An observation has a type, an input and an output, JSON where they are no texts. The decorator `@observe` writes its
function's arguments, `{"args": [...], "kwargs": {...}}`; the OpenAI wrapper writes messages, with the tools beside them
where there are any; the LangChain handler lists tool definitions as messages of the role tool, after the user's. The
SDK's processor also puts session, user, tags and environment on spans of other instrumentations.

Source: the SDK itself and captures made with langfuse 5.0.4, 4.18.0 and 3.15.0 (`@observe`, observations made by hand,
the OpenAI wrapper with chat completions, tools, streams and responses, the LangChain handler on chains and agents)
with openai 3.57.0, langchain 1.5.2 and langchain-core 1.8.3. `langfuse.trace.input` and `output` are of version 4 and
older, where the user sets them. From tables alone: `langfuse.session.id` and `langfuse.user.id`, media, and the
JavaScript SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from msgspec.structs import replace

from groundtrace.conventions.cited import mentions, searched
from groundtrace.conventions.messages import answered, conversation, tool_result
from groundtrace.conventions.shapes import (
    MANY,
    Decoded,
    asks,
    decode,
    documents,
    given_back,
    handed,
    looks_up,
    retrieved,
    said,
    text,
)
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Message, Reading, Role, Said, Span, Tool

_TYPE, _INPUT, _OUTPUT = "langfuse.observation.type", "langfuse.observation.input", "langfuse.observation.output"
_TRACE_INPUT, _TRACE_OUTPUT = "langfuse.trace.input", "langfuse.trace.output"
_ASIDE = {"evaluator", "guardrail"}
_FOREIGN = ("gen_ai.", "openinference.", "traceloop.", "llm.", "ai.", "mlflow.", "haystack.")

_CAPTURE = (
    "let Langfuse record inputs and outputs: set LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=true, drop "
    "capture_input=False and capture_output=False of @observe, or call update(input=..., output=...)"
)
_UNMASK = "drop the mask function given to Langfuse(mask=...), or let it pass this field, if it may be judged"
_FAILED_MASK = "<fully masked due to failed mask function>"
_MEDIA = "@@@langfuseMedia:"
_KEPT = "Langfuse keeps this apart from the trace, as media: record the text itself"
_LIST = 'let the retriever return a list of documents, [{"id": ..., "text": ...}]'


class Langfuse:
    """Reads one observation of a Langfuse SDK; of a span of others, whose session it is."""

    name = "langfuse"
    marks = ("langfuse.",)

    def reading(self, span: Span) -> Reading | None:
        """What the observation holds, by its type; None where nothing of it is Langfuse's."""
        held = span.attributes
        kind = (text(held.get(_TYPE)) or "").lower()
        facts = _facts(held)
        if kind in _ASIDE:
            return Reading("other", aside=True, **facts)
        if not kind:
            own = not any(name.startswith(_FOREIGN) for name in held)
            told = any(name in held for name in (_INPUT, _OUTPUT, _TRACE_INPUT, _TRACE_OUTPUT))
            if not own or not told:
                return Reading("other", **facts) if any(facts.values()) else None
        return _HELD.get(kind, _step)(_Seen(span, decode(held.get(_INPUT)), decode(held.get(_OUTPUT))), facts)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A span with its input and output, decoded once."""

    span: Span
    given: Decoded
    told: Decoded

    @property
    def output(self) -> Said | None:
        """The output where a limit cut it, and it is JSON that breaks off."""
        return Said(str(self.told.value), _OUTPUT, "truncated") if self.told.cut else None

    @property
    def query(self) -> Said | None:
        """What was asked, out of the input."""
        return _unwrapped(self.given, _INPUT, _asked)

    def off(self, *names: str) -> dict[str, Any]:
        """That nothing was recorded, where none of these attributes is there."""
        lacking = not any(name in self.span.attributes for name in names)
        return {"content": "off", "remedy": _CAPTURE} if lacking else {}


def _facts(held: Mapping[str, Any]) -> dict[str, Any]:
    slices = {
        "prompt": text(held.get("langfuse.observation.prompt.name")),
        "prompt_version": text(held.get("langfuse.observation.prompt.version")),
        "environment": text(held.get("langfuse.environment")),
        "release": text(held.get("langfuse.release")),
    }
    tags = decode(held.get("langfuse.trace.tags")).value
    return {
        "session": text(held.get("session.id")) or text(held.get("langfuse.session.id")),
        "user": text(held.get("user.id")) or text(held.get("langfuse.user.id")),
        "model": text(held.get("langfuse.observation.model.name")),
        "slices": {name: value for name, value in slices.items() if value},
        "tags": tuple(t for v in islice(tags, MANY) if (t := text(v))) if isinstance(tags, (list, tuple)) else (),
    }


# --- by type ----------------------------------------------------------------------------------------------------------


def _request(seen: _Seen, facts: Mapping[str, Any], role: Role = "request") -> Reading:
    """An agent, a chain or a function: what went in and what came out, and the passages handed on in either."""
    held = seen.span.attributes
    variables, passages = handed(_called(seen.given.value), _INPUT)
    beside = handed(seen.told.value, _OUTPUT)[1]
    listed = isinstance(seen.told.value, list) and retrieved(seen.told.value, _OUTPUT)
    asked = _unwrapped(decode(held[_TRACE_INPUT]), _TRACE_INPUT, question) if _TRACE_INPUT in held else None
    answer = _unwrapped(decode(held[_TRACE_OUTPUT]), _TRACE_OUTPUT, reply) if _TRACE_OUTPUT in held else None
    return Reading(
        role,
        query=asked or seen.query,
        documents=beside or passages,
        variables=variables,
        output=answer or (None if listed else _unwrapped(seen.told, _OUTPUT, reply)),
        **seen.off(_INPUT, _OUTPUT, _TRACE_INPUT, _TRACE_OUTPUT),
        **facts,
    )


def _agent(seen: _Seen, facts: Mapping[str, Any]) -> Reading:
    return _request(seen, facts, "agent")


def _step(seen: _Seen, facts: Mapping[str, Any]) -> Reading:
    """A span without a type that tells more: what it gave back tells whether it looked something up."""
    name, told = seen.span.name, seen.told.value
    named = looks_up(name)
    # The glue of a chain hands on what its retriever found, and more beside it.
    glue = name.startswith("Runnable") and not name.startswith("RunnableLambda")
    several = isinstance(told, Mapping) and len(told) > 1 and not named
    asked = asks(_called(seen.given.value))
    found = None if glue or several else retrieved(told, _OUTPUT, named=named, asked=asked)
    if found is not None and "rerank" in name.lower():
        return Reading("rerank", query=seen.query, documents=found, **facts)
    inner = named and seen.span.parent_id and seen.span.status != "error" and not glue
    return _retriever(seen, facts) if found is not None or inner else _request(seen, facts)


def _generation(seen: _Seen, facts: Mapping[str, Any]) -> Reading:
    """A call to a model: the conversation it was given, what it said, the tools it asked for, what it cited."""
    cut = Said(str(seen.given.value), _INPUT, "truncated") if seen.given.cut else None
    held = _choices(seen.told.value)
    api: Mapping[str, Any] = held if isinstance(held, Mapping) else {}
    return Reading(
        "generation",
        messages=(Message("user", cut),) if cut is not None else _conversation(seen.given.value),
        output=seen.output or _said(held if isinstance(held, str) else reply(held), _OUTPUT),
        calls=tuple(t for m in answered(api, _OUTPUT) for t in m.tools if t.arguments is not None) if api else (),
        documents=searched(api, _OUTPUT),
        citations=mentions(api, _OUTPUT),
        response_id=_response_id(seen.told.value),
        **seen.off(_INPUT),
        **facts,
    )


def _retriever(seen: _Seen, facts: Mapping[str, Any]) -> Reading:
    """What a retriever was asked and what it found; where it found one text, it is read as a tool that answered so."""
    cut = seen.output
    found, answer = given_back(seen.told.value, _OUTPUT) if cut is None else ((Document(cut),), None)
    if (words := _said(answer, _OUTPUT)) is not None:
        if words.state == "present":
            return Reading("tool", query=seen.query, tool=Tool(seen.span.name, result=words), **facts)
        found = (Document(words),)
    off = seen.off(_OUTPUT) if seen.span.status != "error" else {}
    remedy = off.pop("remedy", "") or ("" if found is not None else _LIST)
    return Reading("retrieval", query=seen.query, documents=found, remedy=remedy, **off, **facts)


def _tool(seen: _Seen, facts: Mapping[str, Any]) -> Reading:
    """What a tool was asked and what it answered."""
    words, found = tool_result(seen.span.attributes.get(_OUTPUT), _OUTPUT)  # as it was written
    tool = Tool(seen.span.name, result=seen.output or _said(words, _OUTPUT), documents=found)
    return Reading("tool", query=seen.query, tool=tool, **facts)


def _embedding(seen: _Seen, facts: Mapping[str, Any]) -> Reading:  # noqa: ARG001 - one shape for all types
    return Reading("embedding", **facts)


_HELD: Mapping[str, Callable[[_Seen, Mapping[str, Any]], Reading]] = {
    "generation": _generation,
    "retriever": _retriever,
    "tool": _tool,
    "agent": _agent,
    "embedding": _embedding,
}


# --- parts ------------------------------------------------------------------------------------------------------------


def _said(value: Any, attribute: str) -> Said | None:
    words = said(value, attribute)
    if words is None:
        return None
    if words.value.startswith(_MEDIA):
        return replace(words, state="elsewhere", remedy=_KEPT)
    masked = words.state == "masked" or words.value == _FAILED_MASK
    return replace(words, state="masked", remedy=_UNMASK) if masked else words


def _unwrapped(found: Decoded, attribute: str, unwrap: Callable[[Any], str | None]) -> Said | None:
    """A text out of whatever wraps it; JSON that breaks off is cut, masked is masked."""
    if found.cut:
        return Said(str(found.value), attribute, "truncated")
    return _said(found.value if isinstance(found.value, str) else unwrap(found.value), attribute)


def _called(value: Any) -> Any:
    """A function's arguments by name, where the decorator wrote them; those without a name go by their place."""
    if not isinstance(value, Mapping) or value.keys() != {"args", "kwargs"}:
        return value
    args, named = value["args"], value["kwargs"]
    placed = {str(at): arg for at, arg in enumerate(islice(args, MANY))} if isinstance(args, list) else {}
    return {**placed, **named} if isinstance(named, Mapping) else placed


def _asked(value: Any) -> str | None:
    """The question a function was called with: the one it names so, else its first text."""
    called = _called(value)
    if called is value:
        return None if documents(value, "") else question(value)
    # With a second name beside it, a single argument is not taken for the question whatever it is called.
    named = question({"": None, **called})
    if named is not None:
        return named
    first = next((v for v in called.values() if isinstance(v, str) or (isinstance(v, (list, Mapping)) and v)), None)
    return first if isinstance(first, str) else None if documents(first, "") else question(first)


def _conversation(value: Any) -> tuple[Message, ...]:
    """What a model was given, without the tool definitions that the LangChain handler lists as messages."""
    if isinstance(value, list):
        value = [m for m in islice(value, MANY) if not _defines_tool(m)]
    return conversation(value, _INPUT)


def _defines_tool(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("role") == "tool" and isinstance(item.get("content"), Mapping)


def _choices(value: Any) -> Any:
    """A reply as the provider's API names its parts: the wrapper keeps a list of choices, or of output items."""
    if not isinstance(value, list):
        return value
    spoken = all(isinstance(item, Mapping) and "role" in item and "type" not in item for item in islice(value, MANY))
    return {"choices": [{"message": item} for item in value[:1]]} if value and spoken else {"output": value}


def _response_id(value: Any) -> str | None:
    held = value if isinstance(value, Mapping) else {}
    found = text(held.get("id"))
    return found if found and not found.startswith(("lc_run-", "run-")) else None
