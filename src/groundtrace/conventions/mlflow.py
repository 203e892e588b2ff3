"""MLflow, its own spans as they leave over OTLP or in an exported trace: `mlflow.spanType`, `mlflow.spanInputs`, ...

Source: MLflow's tracing package (`mlflow.entities.span`, `mlflow.tracing.constant`, the autolog of each library). Every
value is JSON, a text too stands in quotes. Inputs are what a function was called with, outputs what it returned; a call
to a model holds its provider's own request and reply, so what OpenAI and Anthropic cite survives in it.

Captured: LangChain and LangGraph (mlflow 3.18); openai 3.57 (chat completions, the Responses API), anthropic 2.14, dspy
3.4, llama-index-core 0.14, traced functions, and the GenAI translation (mlflow-tracing 3.17.2). From its source alone:
Gemini, Bedrock, CrewAI. Over OTLP the session, the user and the tags of a trace are left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import orjson

from groundtrace.conventions.cited import may_cite, mentions, searched
from groundtrace.conventions.messages import answered, conversation, parts, tool_result
from groundtrace.conventions.shapes import (
    Decoded,
    asks,
    decode,
    documents,
    listed,
    looks_up,
    retrieved,
    said,
    text,
)
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Message, Reading, Role, Said, Span, Tool

_INPUTS, _OUTPUTS, _TYPE = "mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.spanType"
_ROLES: Mapping[str, Role] = {
    "LLM": "generation",
    "CHAT_MODEL": "generation",
    "CHAIN": "request",
    "WORKFLOW": "request",
    "TASK": "request",
    "UNKNOWN": "request",
    "AGENT": "agent",
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "TOOL": "tool",
    "EMBEDDING": "embedding",
}
_ASIDE = {"EVALUATOR", "GUARDRAIL"}
_STEPS = {"PARSER", "MEMORY"}
_TAG = "mlflow.traceTag."
_TAGS = 20
_LONGEST = 1_000_000

_UNMASK = "leave this field out of the span processors given to mlflow.tracing.configure(span_processors=[...])"
_RECORD = "record it with span.set_inputs(...) and span.set_outputs(...), or trace the function with @mlflow.trace"
_LIST = (
    'return a list of texts or of documents ({"page_content", "metadata", "id"}) from the span of type RETRIEVER, '
    "or give it one with span.set_outputs(...)"
)
_TRANSLATED = "unset MLFLOW_ENABLE_OTEL_GENAI_SEMCONV: it drops what chains and retrievers were given and returned"


class MLflow:
    """Reads one span of MLflow's tracing."""

    name = "mlflow"
    marks = ("mlflow.",)

    def reading(self, span: Span) -> Reading | None:
        """What the span holds, by its type; None where it has none."""
        held = span.attributes
        kind = _value(held.get(_TYPE)).value
        if not isinstance(kind, str) or not kind:
            if _INPUTS not in held and _OUTPUTS not in held:
                return _translated(span)
            kind = "UNKNOWN"
        kind = kind.upper()
        # A type of the user's own is a step like a chain is one.
        role: Role = _ROLES.get(kind, "other" if kind in _ASIDE | _STEPS else "request")
        told = _HELD.get(role)
        facts = told(span, _value(held.get(_INPUTS)), _value(held.get(_OUTPUTS))) if told is not None else {}
        # Nobody told this function's type: what it gave back tells that it is a retriever.
        role = "retrieval" if facts.pop("looks_up", False) and kind == "UNKNOWN" else role
        session, user = _whose(held)
        return Reading(
            role=role,
            model=_model(held),
            session=session,
            user=user,
            slices=_slices(held),
            aside=kind in _ASIDE,
            **facts,
        )


# --- by type ----------------------------------------------------------------------------------------------------------


def _request(span: Span, given: Decoded, back: Decoded) -> dict[str, Any]:
    """A chain, an agent or a traced function: what it was called with and what it returned."""
    found = retrieved(back.value, _OUTPUTS, named=looks_up(span.name), asked=asks(given.value))
    variables, handed = parts(given.value, _INPUTS, _UNMASK)
    return {
        "query": _unwrapped(given, _INPUTS, question),
        "output": _unwrapped(back, _OUTPUTS, reply) if found is None else None,
        "variables": variables,
        "documents": handed if found is None else found,
        "looks_up": found is not None,
    }


def _generation(span: Span, given: Decoded, back: Decoded) -> dict[str, Any]:
    """A call to a model: its provider's request and reply, or what a traced function of this type was called with."""
    if given.value is None and back.value is None:
        return {"content": "off", "remedy": _RECORD}
    spoken = _cut(given, _INPUTS) or conversation(given.value, _INPUTS)
    variables, handed = parts(given.value, _INPUTS, _UNMASK)
    if not spoken and (asked := _unwrapped(given, _INPUTS, question)) is not None:
        spoken = (Message("user", asked),)
    raw = span.attributes.get(_OUTPUTS)
    raw = raw if isinstance(raw, str) else str(raw)[:_LONGEST]
    told = back.value if isinstance(back.value, Mapping) else {}
    found = searched(told, _OUTPUTS) if "file_search_call" in raw else None
    return {
        "messages": spoken,
        "output": _unwrapped(back, _OUTPUTS, _spoken),
        "calls": tuple(t for m in answered(told, _OUTPUTS) for t in m.tools if t.arguments is not None),
        "documents": handed if found is None else found,
        "citations": mentions(told, _OUTPUTS) if may_cite(raw) else (),
        "variables": variables,
        "response_id": text(told.get("id")) if told.get("object") or told.get("type") else None,
    }


def _retrieval(_: Span, given: Decoded, back: Decoded) -> dict[str, Any]:
    """What a retriever was asked and what it found, in its order."""
    cut = Said(str(back.value), _OUTPUTS, "truncated") if back.cut else None
    found = (Document(cut),) if cut is not None else documents(back.value, _OUTPUTS)
    return {
        "query": _unwrapped(given, _INPUTS, question),
        "documents": found,
        "remedy": "" if found is not None else _LIST,
    }


def _tool(span: Span, given: Decoded, back: Decoded) -> dict[str, Any]:
    """What a tool was asked and what it answered."""
    words, found = tool_result(back.value, _OUTPUTS)
    if isinstance(back.value, Mapping) and set(back.value) == {"result"}:
        words, found = tool_result(back.value["result"], _OUTPUTS)
    tool = Tool(
        text(_value(span.attributes.get("tool_name")).value) or span.name,
        text(_value(span.attributes.get("tool_call_id")).value),
        said(given.value if isinstance(given.value, str) else span.attributes.get(_INPUTS), _INPUTS),
        Said(str(back.value), _OUTPUTS, "truncated") if back.cut else said(words, _OUTPUTS, _UNMASK),
        found,
    )
    return {"tool": tool, "query": _unwrapped(given, _INPUTS, question)}


_HELD: Mapping[Role, Callable[[Span, Decoded, Decoded], dict[str, Any]]] = {
    "request": _request,
    "agent": _request,
    "generation": _generation,
    "retrieval": _retrieval,
    "rerank": _retrieval,
    "tool": _tool,
}


def _translated(span: Span) -> Reading | None:
    """A span MLflow wrote in the GenAI conventions instead: they have no word for its retrievers and chains."""
    kind = span.attributes.get("gen_ai.operation.name") if span.scope.startswith("mlflow.") else None
    role = _ROLES.get(kind) if isinstance(kind, str) else None
    if role not in {"retrieval", "rerank", "request"}:
        return None
    return Reading(role, content="off", remedy=_TRANSLATED)


# --- parts ------------------------------------------------------------------------------------------------------------


def _value(held: Any) -> Decoded:
    """An attribute's value: all are JSON; one that is none was written by something else, and is taken as it is."""
    if not isinstance(held, str):
        return Decoded(held)
    if held[:1] in ("{", "["):
        return decode(held)
    try:
        return Decoded(orjson.loads(held))
    except ValueError:
        torn = held[:1] == '"' and not held[1:].rstrip().endswith('"')
        return Decoded(held[1:], cut=True) if torn else Decoded(held)


def _unwrapped(given: Decoded, attribute: str, unwrap: Callable[[Any], str | None]) -> Said | None:
    if given.cut:
        return Said(str(given.value), attribute, "truncated")
    return None if given.value is None else said(unwrap(given.value), attribute, _UNMASK)


def _cut(given: Decoded, attribute: str) -> tuple[Message, ...]:
    return (Message("user", Said(str(given.value), attribute, "truncated")),) if given.cut else ()


def _spoken(value: Any) -> str | None:
    """A model's text; the pieces of a function that streams it come as a list."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(piece, str) for piece in value):
        return "".join(value) or None
    return reply(value)


def _whose(held: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The session and the user: on the span where MLflow copied them to it, else what LangChain was configured with."""
    session, user = (text(_value(held.get(name)).value) for name in ("session.id", "user.id"))
    configured = _value(held.get("metadata")).value if not (session and user) else None
    if isinstance(configured, Mapping):
        session = session or text(configured.get("session_id")) or text(configured.get("thread_id"))
        user = user or text(configured.get("user_id"))
    return session, user


def _model(held: Mapping[str, Any]) -> str | None:
    return text(_value(held.get("mlflow.llm.model")).value) or text(_value(held.get("model")).value)


def _slices(held: Mapping[str, Any]) -> dict[str, str]:
    """The tags a user gave the trace, and the prompt of MLflow's registry it was made with."""
    tags = islice(((k[len(_TAG) :], text(v)) for k, v in held.items() if k.startswith(_TAG)), _TAGS)
    found = {name: value for name, value in tags if name and value}
    for prompt in listed(_value(held.get("mlflow.linkedPrompts")).value)[:1]:
        name, version = text(prompt.get("name")), text(prompt.get("version"))
        found |= {"prompt_version": f"{name}/{version}"} if name and version else {}
    return found
