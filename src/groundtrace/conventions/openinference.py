"""OpenInference, the vocabulary of Arize's instrumentors: `openinference.span.kind`, `input.value`, `llm.*`, ...

Source: the OpenInference specification, `spec/semantic_conventions.md`; what the instrumentors really write was read
from captured traces of LangChain, LangGraph, LlamaIndex (engines and agents), Haystack, DSPy, CrewAI, pydantic-ai and
the OpenAI and Anthropic SDKs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from groundtrace.conventions.cited import may_cite, mention, mentions
from groundtrace.conventions.messages import message, messages, tool_result
from groundtrace.conventions.shapes import (
    Decoded,
    decode,
    documents,
    filled,
    id_and_time,
    in_order,
    is_json,
    is_masked,
    layout,
    listed,
    number,
    numbered,
    said,
    text,
)
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Mention, Message, Reading, Role, Said, Span, Tool

_ROLES: Mapping[str, Role] = {
    "LLM": "generation",
    "EMBEDDING": "embedding",
    "CHAIN": "request",
    "AGENT": "agent",
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "TOOL": "tool",
}
_ASIDE = {"EVALUATOR", "GUARDRAIL"}
_FACTS = (
    ("llm.response.model_name", "model"),
    ("llm.model_name", "model"),
    ("embedding.model_name", "model"),
    ("session.id", "session"),
    ("user.id", "user"),
    ("llm.prompt_template.version", "version"),
)
_CONTEXTS = ("context", "contexts", "documents", "docs", "passages", "text_chunks", "chunks", "sources")
_UNMASK = (
    ("llm.input_messages", "unset OPENINFERENCE_HIDE_INPUT_MESSAGES and OPENINFERENCE_HIDE_INPUT_TEXT"),
    ("llm.output_messages", "unset OPENINFERENCE_HIDE_OUTPUT_MESSAGES and OPENINFERENCE_HIDE_OUTPUT_TEXT"),
    ("input.", "unset OPENINFERENCE_HIDE_INPUTS"),
    ("output.", "unset OPENINFERENCE_HIDE_OUTPUTS"),
)
_EVICTED = "raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT in the traced process: documents of this list are missing"
_REPLY_ID = re.compile(r'"id":\s*"((?:chatcmpl-|cmpl-|resp_|msg_|gen-)[\w-]{1,200})"')

_PLAIN = {"role", "content"}
_SPEAKERS = ("user", "assistant", "system")
"""A message of these with nothing but a text is as plain as most are."""


class OpenInference:
    """Reads one span of any OpenInference instrumentor."""

    name = "openinference"
    marks = ("openinference.",)

    def reading(self, span: Span) -> Reading | None:
        """What the span holds, by its kind; None where it has none."""
        attributes = span.attributes
        kind = attributes.get("openinference.span.kind")
        if not isinstance(kind, str) or not kind:
            return None
        kind = kind.upper()
        role, held = _ROLES.get(kind, "other"), _HELD.get(kind)
        reading = held(role, attributes) if held is not None else Reading(role, aside=kind in _ASIDE)
        facts: dict[str, Any] = {}
        for name, fact in _FACTS:
            if name in attributes and fact not in facts and (told := text(attributes[name])) is not None:
                facts[fact] = told
        if "version" in facts:
            facts["slices"] = {"prompt_version": facts.pop("version")}
        if "tag.tags" in attributes:
            facts["tags"] = _tags(attributes["tag.tags"])
        return replace(reading, **facts) if facts else reading


# --- by kind --------------------------------------------------------------------------------------------------------


def _prompt(role: Role, attributes: Mapping[str, Any]) -> Reading:
    """A prompt template: the parts that filled it."""
    variables, handed = _variables(decode(attributes.get("input.value")).value, "input.value")
    return Reading(role, variables=variables, documents=handed)


def _request(role: Role, attributes: Mapping[str, Any]) -> Reading:
    """A chain or an agent: what went in and what came out; its input is a filled template if passages are in it."""
    plain = attributes.get("input.value")
    if isinstance(plain, str) and not is_json(plain):
        told = _unwrapped(decode(attributes.get("output.value")), "output.value", reply)
        return Reading(role, query=_said(plain, "input.value"), output=told)
    given, gave = decode(plain), decode(attributes.get("output.value"))
    variables, handed = _variables(given.value, "input.value")
    return Reading(
        role,
        query=_unwrapped(given, "input.value", question) or _task(gave.value),
        output=_unwrapped(gave, "output.value", reply),
        variables=variables if handed or not variables.keys().isdisjoint(_CONTEXTS) else {},
        documents=handed,
    )


def _task(told: Any) -> Said | None:
    """What CrewAI's one task was, in its own words, where it is a line: more than that is a prompt that was filled."""
    if not isinstance(told, Mapping) or "raw" not in told:
        return None
    tasks = listed(told.get("tasks_output")) or [told]
    asked = tasks[0].get("description") if len(tasks) == 1 and "expected_output" in tasks[0] else None
    return _said(asked.strip(), "output.value") if isinstance(asked, str) and "\n" not in asked.strip() else None


def _generation(role: Role, attributes: Mapping[str, Any]) -> Reading:
    """A call to a model: the conversation it was given, what it said, the tools it asked for, what it cited."""
    spoken = _messages(attributes, "llm.input_messages.")
    if not spoken:
        given = attributes.get("input.value")
        spoken = (Message("user", _said(given, "input.value")),) if is_masked(given) else messages(given, "input.value")
    answered = _messages(attributes, "llm.output_messages.")
    raw = attributes.get("output.value")
    texts = [m.text for m in answered if m.text is not None]
    output = texts[-1] if texts else None if answered else _unwrapped(decode(raw), "output.value", reply)
    # Choices stand beside each other, the first is the one used; a reply's own messages follow each other.
    if len(texts) > 1 and number(_invocation(attributes).get("n")) not in {None, 1.0}:
        output = texts[0]
    filled = "llm.prompt_template.variables"
    variables, handed = _variables(decode(attributes[filled]).value, filled) if filled in attributes else ({}, None)
    searched = _searched(raw)
    return Reading(
        role,
        messages=spoken,
        output=output,
        calls=tuple([t for m in answered for t in m.tools if t.result is None and not t.name.endswith("_call")]),
        documents=handed if searched is None else searched,
        citations=_citations(attributes, raw),
        variables=variables,
        response_id=_response_id(raw),
    )


def _retrieval(role: Role, attributes: Mapping[str, Any]) -> Reading:
    """What a retriever was asked and what it found, in its order."""
    found = _documents(attributes, "retrieval.documents.")
    raw = attributes.get("output.value")
    lacks = raw is not None and (not found or any(d.id is None for d in found))
    also = documents(raw, "output.value") if lacks else None
    if also and len(found) == len(also):
        found = tuple(d if d.id else replace(d, id=other.id) for d, other in zip(found, also, strict=True))
    seen = found or also
    return Reading(
        role,
        query=_asked(attributes.get("input.value")),
        documents=seen,
        remedy="" if seen is not None else "record what was retrieved as retrieval.documents.N.document.content",
    )


def _rerank(role: Role, attributes: Mapping[str, Any]) -> Reading:
    """What a reranker kept, in its order."""
    return Reading(
        role,
        query=_said(attributes.get("reranker.query"), "reranker.query"),
        documents=_documents(attributes, "reranker.output_documents.") or None,
        remedy="record what was kept as reranker.output_documents.N.document.content",
    )


def _tool(role: Role, attributes: Mapping[str, Any]) -> Reading:
    """What a tool was asked and what it answered."""
    given, answered = attributes.get("input.value"), attributes.get("output.value")
    words, found = (None, ()) if is_masked(answered) else tool_result(answered, "output.value")
    tool = Tool(
        _first(attributes, "tool.name") or "",
        _first(attributes, "tool_call.id"),
        _said(given, "input.value"),
        _said(answered, "output.value") if is_masked(answered) else said(words, "output.value"),
        found,
    )
    return Reading(role, tool=tool, query=_asked(given))


_HELD: Mapping[str, Callable[[Role, Mapping[str, Any]], Reading]] = {
    "LLM": _generation,
    "CHAIN": _request,
    "AGENT": _request,
    "RETRIEVER": _retrieval,
    "RERANKER": _rerank,
    "TOOL": _tool,
    "PROMPT": _prompt,
}


# --- parts ------------------------------------------------------------------------------------------------------------


def _said(value: Any, attribute: str) -> Said | None:
    words = said(value, attribute)
    return words if words is None or words.state != "masked" else replace(words, remedy=_unmasking(attribute))


def _unmasking(attribute: str) -> str:
    """What to unset where an attribute is masked."""
    return next((remedy for prefix, remedy in _UNMASK if attribute.startswith(prefix)), "")


def _asked(value: Any) -> Said | None:
    """The question that a span's input is or wraps."""
    if isinstance(value, str) and not is_json(value):
        return _said(value, "input.value")
    return _unwrapped(decode(value), "input.value", question)


def _unwrapped(given: Decoded, attribute: str, unwrap: Callable[[Any], str | None]) -> Said | None:
    """A text out of whatever wraps it; JSON that breaks off is cut, masked is masked."""
    if given.cut:
        return Said(str(given.value), attribute, "truncated")
    if given.value is None:
        return None
    return _said(given.value if is_masked(given.value) else unwrap(given.value), attribute)


def _first(attributes: Mapping[str, Any], name: str) -> str | None:
    return text(attributes.get(name))


def _tags(value: Any) -> tuple[str, ...]:
    held = decode(value).value
    return tuple(t for v in held if (t := text(v))) if isinstance(held, (list, tuple)) else ()


def _invocation(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    held = decode(attributes.get("llm.invocation_parameters")).value
    return held if isinstance(held, Mapping) else {}


def _variables(held: Any, attribute: str) -> tuple[dict[str, Said], tuple[Document, ...] | None]:
    """A template's named parts as texts, and the passages among them that were handed over as a list."""
    if not isinstance(held, (dict, Mapping)):
        return {}, None
    named = {str(k): s for k, v in held.items() if (s := _said(v, attribute)) is not None}
    for name in _CONTEXTS:
        if name in held and isinstance(held[name], (list, tuple)) and (found := documents(held[name], attribute)):
            return named, tuple(d for d in found if d.text is not None)
    return named, None


def _documents(attributes: Mapping[str, Any], prefix: str) -> tuple[Document, ...]:
    found: list[Document] = []
    places = layout(attributes, prefix)
    for _, tree in places:
        names = tree.get("document")
        if not isinstance(names, dict):
            continue
        held = filled(names, attributes)
        metadata = decode(held["metadata"]).value if "metadata" in held else {}
        metadata = metadata if isinstance(metadata, (dict, Mapping)) else {}
        ident, when = id_and_time(metadata)
        content = names.get("content")
        words = _said(held["content"], content) if isinstance(content, str) else None
        score = number(held["score"]) if "score" in held else None
        found.append(Document(words, text(held.get("id")) or ident, score, metadata, when))
    # They count from 0: where a number is missing, a limit evicted a document, whatever the span says it dropped.
    return tuple(found) if not places or places[-1][0] < len(places) else tuple(_one_of_a_part(d) for d in found)


def _one_of_a_part(document: Document) -> Document:
    words = document.text
    cut = replace(words, state="truncated", remedy=_EVICTED) if words is not None and words.legible else words
    return replace(document, text=cut)


def _messages(attributes: Mapping[str, Any], prefix: str) -> tuple[Message, ...]:
    found: list[Message] = []
    for index, tree in layout(attributes, prefix):
        names = tree.get("message")
        if not isinstance(names, dict):
            continue
        if names.keys() == _PLAIN and isinstance(content := names["content"], str) and isinstance(names["role"], str):
            role = attributes[names["role"]]
            if role in _SPEAKERS:
                found.append(Message(role, _said(attributes[content], content)))
                continue
        held, where = filled(names, attributes), f"{prefix}{index}.message.content"
        remedy = next(r for start, r in _UNMASK if prefix.startswith(start))
        parts = [_part(v["message_content"]) for _, v in in_order(held.get("contents")) if "message_content" in v]
        calls = [v.get("tool_call") for _, v in in_order(held.get("tool_calls"))]
        written = held.get("content")
        # The OpenAI Agents instrumentor writes one text both ways.
        twice = written is not None and written == "".join(str(p.get("text")) for p in parts if isinstance(p, Mapping))
        spoken_in: Any = parts if twice else [written, *parts] if parts and written else parts or written
        plain = {k: v for k, v in held.items() if isinstance(v, str)} | {"content": spoken_in, "tool_calls": calls}
        if (spoken := message(plain, where if not parts else f"{where}s", remedy)) is not None:
            found.append(spoken)
    return tuple(found)


def _part(held: Any) -> Any:
    """A content block; documents are kept by the instrumentor as JSON in its text."""
    if not isinstance(held, Mapping):
        return None
    if text(held.get("type")) in {"document", "search_result", "tool_result", "tool_use"}:
        inner = decode(held.get("text")).value
        return {**inner, "type": held["type"]} if isinstance(inner, Mapping) else held
    # A block that names no type is a text (pydantic-ai's tool messages): no list of documents.
    return {"type": "text", **held}


def _searched(raw: Any) -> tuple[Document, ...] | None:
    """The passages of a file search the provider ran itself, as its own reply lists them."""
    if not isinstance(raw, str) or "file_search_call" not in raw:
        return None
    held = decode(raw).value
    outputs = listed(held.get("output")) if isinstance(held, Mapping) else []
    found = [documents(o["results"], "output.value") or () for o in outputs if isinstance(o.get("results"), list)]
    return tuple(d for docs in found for d in docs if d.text is not None) if found else None


def _citations(attributes: Mapping[str, Any], raw: Any) -> tuple[Mention, ...]:
    """The provider's citations: the Anthropic instrumentor keeps them by block in `metadata`, else in the raw reply."""
    in_reply = mentions(raw, "output.value") if isinstance(raw, str) and may_cite(raw) else ()
    if in_reply or "metadata" not in attributes or '"citations"' not in str(attributes["metadata"] or ""):
        return in_reply
    held = decode(attributes["metadata"]).value
    by_block = held.get("citations") if isinstance(held, Mapping) else None
    blocks = numbered(attributes, "llm.output_messages.0.message.contents.")
    found, at = [], 0
    for index, block in blocks:
        words = block.get("message_content", {}).get("text")
        size = len(words) if isinstance(words, str) else 0
        cited = listed(by_block.get(str(index))) if isinstance(by_block, Mapping) else []
        found += [mention(c, at, at + size, "metadata") for c in cited]
        at += size
    return tuple(found)


def _response_id(raw: Any) -> str | None:
    """The provider's id of the reply, where the reply itself is kept."""
    found = _REPLY_ID.search(raw) if isinstance(raw, str) and '"id"' in raw else None
    return found.group(1) if found else None
