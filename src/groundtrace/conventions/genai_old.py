"""What `gen_ai.*` looked like before: numbered attributes, one JSON blob, events for the prompt and the completion.

Source: semantic-conventions up to v1.27 for the blobs and the two events, Traceloop's packages for the numbered form.
Verified by real captures: the openai and langchain instrumentors of Traceloop 0.40, and its cohere instrumentor 0.62.4
with cohere 7 (chat, stream, rerank; it asks for cohere < 6, and leaves out the documents and citations of a chat).
Not captured, known from the packages' source or from memory: LiteLLM's and OpenLIT's events, the blobs of early Strands
Agents, LlamaIndex's unnumbered completion. LangSmith's spans hold the same blobs and are left to its own vocabulary; an
event a message (`gen_ai.user.message`: Strands Agents 1.62 and Azure captured) is read in `genai`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from groundtrace.conventions.messages import answered, conversation, last_user_text, message, tool_result
from groundtrace.conventions.shapes import decode, in_order, number, numbered, said, text
from groundtrace.conventions.wrapped import question
from groundtrace.model import Document, Message, Reading, Role, Said, Span, Tool

_ASKED, _TOLD = "gen_ai.prompt", "gen_ai.completion"
_EVENTS = {"gen_ai.content.prompt": _ASKED, "gen_ai.content.completion": _TOLD}
_ROLES: Mapping[str, Role] = {"invoke_agent": "agent", "execute_tool": "tool", "invoke_workflow": "request"}
_BEDROCK = {"text", "toolUse", "toolResult"}  # the keys that name the kind of a block there
_EMBEDDINGS = ("embedding", "embeddings")
_RANKED = re.compile(r"Doc (\d{1,9}), Score: (\S{1,40})")
# OpenLIT joins the messages of a prompt to one text, a role before each.
_SPEAKER = re.compile(r"(?:\A|\n)(system|user|assistant|tool|developer): ")


class GenAIOld:
    """Reads one span that older GenAI instrumentations wrote, with the events and logs joined to it."""

    name = "genai_old"
    marks = (_ASKED, _TOLD, "gen_ai.content.", "event_name")
    fallback = True

    def reading(self, span: Span) -> Reading | None:
        """What the span, its events and logs hold; None where they hold none of the older forms."""
        attributes = span.attributes
        if "langsmith.span.kind" in attributes and (_ASKED in attributes or _TOLD in attributes):
            return None
        model = text(attributes.get("gen_ai.response.model")) or text(attributes.get("gen_ai.request.model"))
        named, operation = attributes.get("llm.request.type"), attributes.get("gen_ai.operation.name")
        if named in _EMBEDDINGS or operation in _EMBEDDINGS:
            return Reading("embedding", model=model)
        spoken, replies = _said_on(attributes)
        if named == "rerank":
            return _rerank(spoken, replies, model)
        asked, told = _events(span)
        spoken, replies = spoken or asked, replies or told
        if not spoken and not replies:
            return None
        role = _role(attributes, operation)
        if role == "tool":
            return _tool(attributes, spoken, replies)
        output = next((m.text for m in replies if m.text is not None and m.role not in {"system", "tool"}), None)
        last = last_user_text(spoken)
        return Reading(
            role,
            query=said(question(last.value), last.attribute) if last is not None and role != "generation" else None,
            messages=spoken if role == "generation" else (),
            calls=tuple(t for m in replies for t in m.tools if t.arguments is not None),
            output=output,
            model=model,
            response_id=text(attributes.get("gen_ai.response.id")),
            session=text(attributes.get("gen_ai.conversation.id")) or text(attributes.get("session.id")),
            user=text(attributes.get("llm.user")) or text(attributes.get("user.id")),
        )


def _role(attributes: Mapping[str, Any], operation: Any) -> Role:
    if isinstance(operation, str) and operation in _ROLES:
        return _ROLES[operation]
    if "tool.name" in attributes:  # as Strands Agents wrote them first
        return "tool"
    return "agent" if "agent.name" in attributes else "generation"


# --- by form ----------------------------------------------------------------------------------------------------------


def _said_on(attributes: Mapping[str, Any]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """What a call was given and what it said, from the span's own attributes."""
    spoken, replies = tuple(_numbered(attributes, _ASKED, "user")), tuple(_numbered(attributes, _TOLD, "assistant"))
    if not spoken and (blob := attributes.get(_ASKED)) is not None:
        spoken = _whole(blob, _ASKED, "user") or conversation(blob, _ASKED)
    if not replies and (blob := attributes.get(_TOLD)) is not None:
        replies = _whole(blob, _TOLD, "assistant") or answered(blob, _TOLD)
    if not replies and (words := said(attributes.get(f"{_TOLD}.content"), f"{_TOLD}.content")) is not None:
        replies = (Message("assistant", words),)
    return spoken, replies


def _numbered(attributes: Mapping[str, Any], prefix: str, speaker: str) -> Iterator[Message]:
    """Messages an attribute a part: `gen_ai.prompt.0.role`, `.content`, `.tool_calls.0.name`."""
    for index, held in numbered(attributes, f"{prefix}."):
        place = f"{prefix}.{index}.content"
        content = decode(held.get("content"))
        if content.cut:
            yield Message(text(held.get("role")) or speaker, Said(str(content.value), place, "truncated"))
            continue
        blocks = _blocks(content.value)
        calls = [call for _, call in in_order(held.get("tool_calls"))]
        plain: dict[str, Any] = {k: v for k, v in held.items() if isinstance(v, str)}
        plain |= {"role": plain.get("role") or speaker, "content": blocks or held.get("content"), "tool_calls": calls}
        if (spoken := message(plain, place)) is not None:
            yield spoken


def _blocks(value: Any) -> list[Any] | None:
    """Content blocks, where a text is the JSON of a list of them and of nothing else."""
    if not isinstance(value, list) or not value or not all(isinstance(v, Mapping) for v in value):
        return None
    return value if all("type" in v or v.keys() <= _BEDROCK for v in value) else None


def _whole(blob: Any, place: str, speaker: str) -> tuple[Message, ...]:
    """A blob that is one text, be it cut."""
    held = decode(blob)
    words = Said(str(held.value), place, "truncated") if held.cut else said(held.value, place)
    return (Message(speaker, words),) if words is not None else ()


def _events(span: Span) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The same from events of the span or log records beside it: all in one, or a message each."""
    found: dict[str, list[Message]] = {_ASKED: [], _TOLD: []}
    notes = ((log.name or _name(log.attributes), log.body, log.attributes) for log in span.logs)
    for name, body, attributes in (*notes, *((e.name, None, e.attributes) for e in span.events)):
        key = _EVENTS.get(name)
        if key is None:
            continue
        value = attributes.get(key) if attributes.get(key) is not None else body
        if key == _TOLD:
            found[key] += _whole(value, f"events: {name}", "assistant") or answered(value, f"events: {name}")
        else:
            found[key] += _asked(value, f"events: {name}")
    return tuple(found[_ASKED]), tuple(found[_TOLD])


def _name(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("event.name") or attributes.get("event_name") or "")


def _asked(value: Any, place: str) -> Iterable[Message]:
    """A prompt as an event tells it: one text with a role before each message, one message, or all of them."""
    held = decode(value).value
    if isinstance(held, Mapping) and "role" in held:
        one = message(held, place)
        return (one,) if one is not None else ()
    if not isinstance(held, str) or _SPEAKER.match(held) is None:
        return _whole(value, place, "user") or conversation(held, place)
    _, *parts = _SPEAKER.split(held)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return tuple(m for role, words in pairs if (m := message({"role": role, "content": words}, place)) is not None)


# --- by role ----------------------------------------------------------------------------------------------------------


def _rerank(spoken: tuple[Message, ...], replies: tuple[Message, ...], model: str | None) -> Reading:
    """A rerank as Traceloop tells it: its documents as system messages, its ranking as "Doc 1, Score: 0.9"."""
    given = [m.text for m in spoken if m.role != "user"]
    found: list[Document] = []
    for told in replies:
        ranked = _RANKED.match(told.text.value) if told.text is not None else None
        if ranked is None or int(ranked[1]) >= len(given):
            return Reading("rerank", query=last_user_text(spoken), model=model)
        found.append(Document(given[int(ranked[1])], score=number(ranked[2])))
    return Reading("rerank", query=last_user_text(spoken), documents=tuple(found) if replies else None, model=model)


def _tool(attributes: Mapping[str, Any], spoken: tuple[Message, ...], replies: tuple[Message, ...]) -> Reading:
    """A tool's span: what it was asked and what it answered."""
    asked = attributes.get("gen_ai.tool.call.arguments") or attributes.get("tool.parameters")
    told = next((attributes[k] for k in ("tool.result", _TOLD) if attributes.get(k) is not None), None)
    words, found = tool_result(told, _TOLD)
    tool = Tool(
        text(attributes.get("gen_ai.tool.name")) or text(attributes.get("tool.name")) or "",
        text(attributes.get("gen_ai.tool.call.id")) or text(attributes.get("tool.id")),
        said(asked, "tool.parameters"),
        said(words, _TOLD) or next((m.text for m in replies), None),
        found,
    )
    return Reading("tool", query=said(question(asked), "tool.parameters") or last_user_text(spoken), tool=tool)
