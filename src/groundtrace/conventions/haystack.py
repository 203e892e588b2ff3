"""Haystack's own tracing: `haystack.pipeline.*`, `haystack.component.*`, `haystack.agent.*`.

Source: haystack-ai 3.4 with opentelemetry-haystack 2.0, whose tracer writes every value as JSON text. A component tells
its class, and what went in and came out of it where HAYSTACK_CONTENT_TRACING_ENABLED is true; without it there is only
what the pipeline was called with, which is always written.
Verified by real captures of haystack-ai 3.4.1 and opentelemetry-haystack 2.0.0: pipelines of a BM25 retriever, a
ranker, ChatPromptBuilder or PromptBuilder, OpenAIChatGenerator (streaming, failing) or a generator of texts, and
AnswerBuilder; run_async; an Agent alone and in a pipeline; content off. Not captured, known from the source: Haystack
2's ToolInvoker and `_role`, `_content` messages; LLM, DocumentJoiner, generators inside of rankers and evaluators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from groundtrace.conventions.messages import last_user_text, message, tool_result
from groundtrace.conventions.shapes import MANY, Decoded, blocks, decode, documents, handed, listed, said, text
from groundtrace.conventions.wrapped import question
from groundtrace.model import Document, Mention, Message, Reading, Role, Said, Span, Tool

_GIVEN, _TOLD = "haystack.component.input", "haystack.component.output"
_OFF = "set HAYSTACK_CONTENT_TRACING_ENABLED=true in the traced process, before haystack is imported"
_PIPELINES = ("haystack.pipeline", "haystack.async_pipeline")
_AGENT = ("haystack.agent.input", "haystack.agent.output")
_STEP = ("haystack.agent.step.llm.input", "haystack.agent.step.llm.output")
_TOOL = ("haystack.agent.step.tool.input", "haystack.agent.step.tool.output")
_KINDS = (
    *(("evaluator", "aside"), ("messageretriever", "other"), ("retriever", "retrieval"), ("websearch", "retrieval")),
    *(("ranker", "rerank"), ("documentjoiner", "rerank"), ("embedder", "embedding"), ("promptbuilder", "prompt")),
    *(("toolinvoker", "tool"), ("generator", "generation"), ("agent", "agent")),
)
"""What a component is for, by what its class is called."""
_WRITTEN = ("template", "prompt")  # not what fills a prompt
_FOUND = ("documents", "context_documents")
_ASKED = ("query", "text")
_POINTED = re.compile(r"[(<{#]\s?(\d{1,4})\b[)>}]?")


class Haystack:
    """Reads one span of Haystack's own tracer."""

    name = "haystack"
    marks = ("haystack.",)

    def reading(self, span: Span) -> Reading | None:
        """What the span holds, by its name and by the class of its component; None where it has no meaning here."""
        held = span.attributes
        if span.name == "haystack.agent.step.llm" or not held.keys().isdisjoint(_STEP):
            return _generation(held, *_STEP)
        if span.name == "haystack.agent.step.tool" or not held.keys().isdisjoint(_TOOL):
            return _called(held)
        if span.name == "haystack.agent.run" or not held.keys().isdisjoint(_AGENT):
            return _agent(held, *_AGENT)
        if span.name.endswith("pipeline.run") or any(f"{name}.input_data" in held for name in _PIPELINES):
            return _pipeline(span)
        kind = held.get("haystack.component.type")
        return _component(span, kind) if isinstance(kind, str) else None


def _component(span: Span, named: str) -> Reading | None:
    """What a component of this class was given and gave back."""
    held = span.attributes
    kind = next((kind for part, kind in _KINDS if part in named.lower()), None) or _by_shape(held)
    if kind in {"retrieval", "rerank"}:
        return _retrieval(span, "rerank" if kind == "rerank" else "retrieval")
    if kind in {"generation", "agent"} or named == "LLM":  # an agent without tools
        return (_generation if kind == "generation" else _agent)(held, _GIVEN, _TOLD)
    if kind in {"tool", "prompt"}:
        return (_invoked if kind == "tool" else _prompt)(held)
    if kind == "aside":
        return Reading("other", aside=True)
    return Reading("embedding") if kind == "embedding" else None


def _by_shape(held: Mapping[str, Any]) -> str | None:
    """What a component of a user's own is for, as far as what it takes and gives tells."""
    given, told = held.get(_GIVEN), held.get(_TOLD)
    if not isinstance(given, str) or not isinstance(told, str):
        return None
    if '"replies"' in told[:100] and ('"messages"' in given or '"prompt"' in given):
        return "generation"
    return "retrieval" if '"documents"' in told[:100] and '"query"' in given else None


# --- by kind ----------------------------------------------------------------------------------------------------------


def _pipeline(span: Span) -> Reading:
    """A run of a pipeline: what its components were called with, and what those at its ends gave back."""
    held = span.attributes
    name = next((p for p in _PIPELINES if f"{p}.input_data" in held or f"{p}.output_data" in held), _PIPELINES[0])
    given, told = decode(held.get(f"{name}.input_data")), decode(held.get(f"{name}.output_data"))
    asked = Said(str(given.value), f"{name}.input_data", "truncated") if given.cut else None
    output, citations = _replied(told, f"{name}.output_data")
    return Reading(
        "request",
        query=asked or said(question(_plain(given.value)) or _text_given(given.value), f"{name}.input_data"),
        output=output,
        citations=citations,
        **(_state(held, f"{name}.output_data") if span.status != "error" else {}),
    )


def _agent(held: Mapping[str, Any], given_in: str, told_in: str) -> Reading:
    """An agent: the talk it was given or what fills its prompt, and what it said last."""
    given, told = decode(held.get(given_in)), decode(held.get(told_in))
    spoken = _turns(_part(given.value, "messages"), given_in)
    variables, found = handed(given.value, given_in)
    last = last_user_text(spoken)
    output, _ = _replied(Decoded({"agent": told.value}, told.cut), told_in)
    return Reading(
        "agent",
        query=Said(str(given.value), given_in, "truncated") if given.cut else last,
        documents=found,
        variables=variables,
        output=output,
        **_state(held, given_in, told_in),
    )


def _generation(held: Mapping[str, Any], given_in: str, told_in: str) -> Reading:
    """A call to a model: its messages or its prompt, and the first of its replies."""
    given, told = decode(held.get(given_in)), decode(held.get(told_in))
    prompt = said(_part(given.value, "prompt"), given_in)
    spoken = (Message("user", prompt),) if prompt else _turns(_part(given.value, "messages"), given_in)
    first = next(iter(_list(_part(told.value, "replies"))), None)
    replied = _turns([{"role": "assistant", "content": first} if isinstance(first, str) else first], told_in)
    facts = _part(first, "meta") or _part(first, "_meta") or next(iter(listed(_part(told.value, "meta"))), None)
    cut = [
        Said(str(d.value), place, "truncated") if d.cut else None for d, place in ((given, given_in), (told, told_in))
    ]
    return Reading(
        "generation",
        messages=(Message("user", cut[0]),) if cut[0] else spoken,
        calls=tuple(tool for m in replied for tool in m.tools if tool.arguments is not None),
        output=cut[1] or next((m.text for m in replied if m.text is not None), None),
        model=text(_part(facts, "model")),
        **_state(held, given_in, told_in),
    )


def _prompt(held: Mapping[str, Any]) -> Reading:
    """A prompt's builder: what fills its template."""
    given = decode(held.get(_GIVEN)).value
    given = given if isinstance(given, Mapping) else {}
    own = given.get("template_variables")
    parts = {k: v for k, v in {**given, **(own if isinstance(own, Mapping) else {})}.items() if k not in _WRITTEN}
    named, found = handed(parts, _GIVEN)
    named = named or {str(k): words for k, v in islice(parts.items(), 100) if (words := said(v, _GIVEN)) is not None}
    return Reading("other", variables=named, documents=found or None)


def _retrieval(span: Span, role: Role) -> Reading:
    """A retriever, or what orders, merges or widens what one found: what it asked for and its documents in order."""
    held = span.attributes
    given, told = decode(held.get(_GIVEN)).value, decode(held.get(_TOLD))
    lists = (documents(_part(told.value, name), _TOLD) for name in _FOUND)
    found: tuple[Document, ...] | None = next((d for d in lists if d is not None), None)
    if told.cut:
        found = (Document(Said(str(told.value), _TOLD, "truncated")),)
    query = next((words for name in _ASKED if (words := said(_part(given, name), _GIVEN)) is not None), None)
    if any(isinstance(_part(given, name), list) for name in ("documents", "retrieved_documents")):
        role = "rerank"
    state = _state(held, _GIVEN, _TOLD)
    if span.status == "error" and not state:
        state = {"remedy": f"{held.get('haystack.component.name')} failed: there is nothing to judge"}
    slices = {"retriever": str(held.get("haystack.component.type"))} if role == "retrieval" else {}
    return Reading(role, query=query, documents=found, slices=slices, **state)


def _called(held: Mapping[str, Any]) -> Reading:
    """A tool an agent called."""
    given_in, told_in = _TOOL
    asked, told = held.get(given_in), held.get(told_in)
    words, found = tool_result(told, told_in)
    result = Said(str(told), told_in, "truncated") if decode(told).cut else said(words, told_in)
    tool = Tool(text(held.get("haystack.tool.name")) or "", None, said(asked, given_in), result, found)
    state = _state(held, given_in, told_in)
    return Reading("tool", query=said(question(asked), given_in), tool=tool, **state)


def _invoked(held: Mapping[str, Any]) -> Reading:
    """The tools of Haystack 2, called by a component of their own: what all of them answered."""
    answers = _turns(_part(decode(held.get(_TOLD)).value, "tool_messages"), _TOLD)
    tools = [tool for m in answers for tool in m.tools]
    texts = [tool.result.value for tool in tools if tool.result is not None]
    state = _state(held, _GIVEN, _TOLD)
    if not tools:
        return Reading("tool", **state)
    whole = Tool(
        tools[0].name, tools[0].id, None, said("\n\n".join(texts), _TOLD), tuple(d for t in tools for d in t.documents)
    )
    return Reading("tool", tool=tools[0] if len(tools) == 1 else whole, **state)


# --- parts ------------------------------------------------------------------------------------------------------------


def _state(held: Mapping[str, Any], *places: str) -> dict[str, Any]:
    """Nothing to say where content is in one of these places; else that its tracing is off."""
    return {} if any(place in held for place in places) else {"content": "off", "remedy": _OFF}


def _part(held: Any, name: str) -> Any:
    return held.get(name) if isinstance(held, Mapping) else None


def _list(held: Any) -> list[Any]:
    return held if isinstance(held, list) else []


def _turns(talk: Any, place: str) -> tuple[Message, ...]:
    read = (message(_turn(item), place) for item in islice(_list(talk), MANY))
    return tuple(m for m in read if m is not None)


def _turn(item: Any) -> Any:
    """A ChatMessage with its parts, which a key names, as blocks that a type names."""
    if not isinstance(item, Mapping):
        return item
    role = item["_role"] if "_role" in item else item.get("role")
    content = item["_content"] if "_content" in item else item.get("content")
    parts = [_block(part) for part in listed(content)] if isinstance(content, list) else content
    return {"role": role, "content": parts}


def _block(part: Mapping[str, Any]) -> Mapping[str, Any]:
    asked, answered = part.get("tool_call"), part.get("tool_call_result")
    if isinstance(asked, Mapping):
        return {"type": "tool_call", **asked, "name": asked.get("tool_name")}
    if isinstance(answered, Mapping):
        origin = answered.get("origin")
        told = answered.get("result")
        told = blocks(told) or told if isinstance(told, list) else told
        named = {"name": _part(origin, "tool_name"), "id": _part(origin, "id")}
        return {"type": "tool_result", **named, "result": told}
    return part


def _plain(given: Any) -> Any:
    """What a pipeline was called with, its messages in the form of today."""
    if not isinstance(given, Mapping):
        return given
    return {
        name: {**part, "messages": [_turn(m) for m in part["messages"]]}
        if isinstance(_part(part, "messages"), list)
        else part
        for name, part in islice(given.items(), MANY)
    }


def _text_given(given: Any) -> str | None:
    """The text to be embedded or the prompt, where a pipeline was asked in no other way; one text, however often."""
    parts = [p for p in given.values() if isinstance(p, Mapping)] if isinstance(given, Mapping) else []
    texts = {p[name] for name in ("text", "prompt") for p in parts if isinstance(p.get(name), str)}
    return texts.pop() if len(texts) == 1 else None


def _replied(told: Decoded, place: str) -> tuple[Said | None, tuple[Mention, ...]]:
    """The answer among what components gave back: a built one, an agent's last word, else the one reply."""
    if told.cut:
        return Said(str(told.value), place, "truncated"), ()
    parts = listed(list(told.value.values())) if isinstance(told.value, Mapping) else []
    for part in parts:
        if answers := listed(part.get("answers")):
            built = _chosen(answers)
            words = said(built.get("data"), place)
            return words, _cited(words, built, place) if words is not None else ()
    for part in parts:
        talk = [part["last_message"]] if isinstance(part.get("last_message"), Mapping) else part.get("messages")
        spoken = _turns(talk, place)
        if spoken:
            return spoken[-1].text if spoken[-1].role == "assistant" else None, ()
    replies = [first for part in parts if (first := next(iter(_list(part.get("replies"))), None)) is not None]
    if len(replies) != 1:
        return None, ()
    spoken = _turns(replies, place)
    return said(replies[0], place) or next((m.text for m in spoken), None), ()


def _chosen(answers: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first of a model's answers; the last where they were built of a whole talk, a message each."""
    talk = listed(_part(answers[0].get("meta"), "all_messages"))
    return answers[-1 if any(m.get("role", m.get("_role")) != "assistant" for m in talk) else 0]


def _cited(words: Said, built: Mapping[str, Any], place: str) -> tuple[Mention, ...]:
    """The documents an answer was found to refer to: where their numbers stand in it, else of the answer as a whole.

    None where it has square brackets: marks in these are read as they stand.
    """
    numbered = {}
    for document in listed(built.get("documents")):
        facts = document.get("meta") if isinstance(document.get("meta"), Mapping) else document
        if _part(facts, "referenced") is True and (ident := text(document.get("id"))):
            numbered[text(_part(facts, "source_index"))] = ident
    if "[" in words.value:
        return ()
    found = [(m, numbered[m[1]]) for m in _POINTED.finditer(words.value) if m[1] in numbered]
    placed = tuple(Mention(*m.span(), document_id=ident, attribute=place) for m, ident in found)
    return placed or tuple(Mention(document_id=ident, attribute=place) for ident in numbered.values())
