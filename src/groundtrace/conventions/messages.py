"""What is said in turns: messages in every form frameworks write them, and the question or answer inside a value.

Like `shapes`, nothing here raises, and what has no known shape is None or empty.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from groundtrace.conventions.shapes import MANY, blocks, decode, documents, said, text
from groundtrace.model import Document, Message, Said, Tool

_DEPTH = 6
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
_WRITTEN = {"text", "input_text", "output_text"}
_ASKED = {"tool_call", "tool_use", "function_call", "tool-call"}
_ANSWERED = {"tool_call_response", "tool_result", "function_call_output", "tool-result"}
_MESSAGE_KEYS = {"role", "content", "parts", "output", "arguments"}

_QUESTIONS = ("question", "query", "user_question", "user_query", "user_input", "query_str", "input", "q")
_BARE_QUESTIONS = ("message", "prompt", "text", "content")
_ANSWERS = ("answer", "output", "response", "result", "reply", "output_text", "final_answer", "text", "content")
# The way Python prints an object that has no text: a generator that streamed the answer, say.
_PRINTED = re.compile(r"<[^<>\n]{0,200}\bobject\b[^<>\n]{0,100}>")
_CHOICES = ("choices", "generations", "candidates")


def messages(value: Any, attribute: str) -> tuple[Message, ...]:
    """A conversation in order: OpenAI, Anthropic, LangChain, GenAI parts, (role, text) pairs, or a plain text.

    >>> [(m.role, m.text.value) for m in messages('[["user", "Hi"], {"role": "ai", "content": "Yes?"}]', "x")]
    [('user', 'Hi'), ('assistant', 'Yes?')]
    """
    found = decode(value).value
    if isinstance(found, Mapping) and isinstance(found.get("messages"), (list, tuple)):
        found = found["messages"]
    if isinstance(found, (list, tuple)) and len(found) == 1 and isinstance(found[0], (list, tuple)):
        nested = found[0]
        found = nested if nested and not isinstance(nested[0], str) else found
    if isinstance(found, str):
        words = said(found, attribute)
        return (Message("user", words),) if words else ()
    if not isinstance(found, (list, tuple)):
        return ()
    read = (message(item, attribute) for item in islice(found, MANY))
    return tuple(m for m in read if m is not None)


def message(item: Any, attribute: str, remedy: str = "") -> Message | None:
    """One message with its text, the documents handed over as blocks, and its tool calls or results."""
    item = _plain_message(item)
    if item is None:
        return None
    name = str(item.get("role") or item.get("type") or "user").lower()
    role = _ROLES.get(name, name)
    held = _Held(attribute)
    content = item.get("parts") if isinstance(item.get("parts"), (list, tuple)) else item.get("content")
    if role == "tool" or name == "function_call_output":
        answered = item.get("output") if content is None else content
        own = isinstance(answered, (list, tuple)) and any(_kind(p) in _ANSWERED for p in answered)
        if own:
            held.read(answered)
        else:
            held.tools.append(_result(item, answered, attribute, item.get("artifact")))
        return Message("tool", None, tuple(held.documents), tuple(held.tools))
    if name == "function_call":
        held.read([item])
        role = "assistant"
    held.read(content if isinstance(content, (list, tuple)) else [content])
    for call in islice(item.get("tool_calls") or (), MANY) if isinstance(item.get("tool_calls"), (list, tuple)) else ():
        if isinstance(call, Mapping):
            inner = call["function"] if isinstance(call.get("function"), Mapping) else call
            held.tools.append(_call({**inner, "id": call.get("id")}, attribute))
    # What a person typed in blocks reads best apart; what a model wrote in blocks is one text.
    joined = ("" if role == "assistant" else "\n\n").join(held.texts)
    return Message(role, said(joined, attribute, remedy), tuple(held.documents), tuple(held.tools))


def _plain_message(item: Any) -> Mapping[str, Any] | None:
    """A message as one flat object, whichever way its framework writes it down."""
    if isinstance(item, str):
        item = {"role": "user", "content": item}
    elif isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], str):
        item = {"role": item[0], "content": item[1]}
    if not isinstance(item, Mapping):
        return None
    if isinstance(item.get("kwargs"), Mapping) and isinstance(item.get("id"), list):
        # LangChain's constructor form names the class: ["langchain", "schema", "messages", "HumanMessage"].
        kind = str(item["id"][-1] if item["id"] else "").removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": kind, **item["kwargs"]}
    if isinstance(item.get("data"), Mapping) and "content" in item["data"]:
        return {**item["data"], "type": item.get("type") or item["data"].get("type")}
    inner = item.get("message")
    item = inner if isinstance(inner, Mapping) else item
    return item if item.keys() & _MESSAGE_KEYS else None


@dataclass
class _Held:
    """What the blocks of one message hold, sorted."""

    attribute: str
    texts: list[str] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)

    def read(self, parts: Iterable[Any]) -> None:
        for part in islice(parts, MANY):
            if isinstance(part, str):
                self.texts.append(part)
            elif isinstance(part, Mapping):
                self._sort(part)

    def _sort(self, part: Mapping[str, Any]) -> None:
        kind = _kind(part)
        if kind in _WRITTEN or not kind:
            words = part.get("text") if part.get("text") is not None else part.get("content")
            words = words.get("value") if isinstance(words, Mapping) else words
            if isinstance(words, str):
                self.texts.append(words)
        elif kind in {"document", "search_result", "blob"}:
            block = _document_block(part, self.attribute)
            if block is not None:
                self.documents.append(block)
        elif kind in _ASKED:
            self.tools.append(_call(part, self.attribute))
        elif kind in _ANSWERED:
            answer = next(
                (part[k] for k in ("response", "result", "content", "output") if part.get(k) is not None), None
            )
            self.tools.append(_result(part, answer, self.attribute))
        elif kind.startswith("server_tool") or kind.endswith("_search_call") or kind == "web_search_tool_result":
            self._searched(part)

    def _searched(self, part: Mapping[str, Any]) -> None:
        """A search the provider ran itself: its results are documents where they hold any text."""
        inner = part.get("server_tool_call") or part.get("server_tool_call_response") or part
        inner = inner if isinstance(inner, Mapping) else part
        listed = inner.get("results") or inner.get("content")
        found = documents(listed, self.attribute) if isinstance(listed, (list, tuple)) else None
        self.documents.extend(d for d in found or () if d.text is not None)


def _kind(part: Any) -> str:
    return str(part.get("type") or "") if isinstance(part, Mapping) else ""


def _call(part: Mapping[str, Any], attribute: str) -> Tool:
    asked = next((part[k] for k in ("arguments", "input", "args") if part.get(k) is not None), None)
    words = asked if isinstance(asked, str) else _written(asked)
    ident = text(part.get("call_id")) or text(part.get("id")) or text(part.get("toolCallId"))
    return Tool(str(part.get("name") or part.get("toolName") or ""), ident, said(words, attribute))


def _result(part: Mapping[str, Any], answer: Any, attribute: str, artifact: Any = None) -> Tool:
    name = str(part.get("name") or "")
    ident = next((t for k in ("tool_call_id", "tool_use_id", "call_id", "id") if (t := text(part.get(k)))), None)
    words, listed = tool_result(answer, attribute, artifact)
    return Tool(name, ident, result=said(words, attribute), documents=listed)


def tool_result(value: Any, attribute: str, artifact: Any = None) -> tuple[str | None, tuple[Document, ...]]:
    """What a tool answered: as text, and the documents listed in it or beside it (LangChain's artifact)."""
    found = decode(value).value
    if isinstance(found, Mapping) and isinstance(found.get("data"), Mapping):
        artifact = found["data"].get("artifact") or artifact
        found = found["data"].get("content", found)
    if isinstance(found, list) and found and all(_kind(p) in _WRITTEN for p in found):
        value = found = blocks(found)
    listed = documents(artifact, attribute) or (None if isinstance(found, str) else documents(found, attribute)) or ()
    words = found if isinstance(found, str) else value if isinstance(value, str) else _written(found)
    return words, tuple(d for d in listed if d.text is not None)


def _document_block(part: Mapping[str, Any], attribute: str) -> Document | None:
    """A passage handed over as a block: Anthropic's document and search_result, GenAI's text blob."""
    source = part.get("source")
    held = part.get("content")
    if _kind(part) == "blob":
        if not str(part.get("mime_type") or "").startswith("text/") or not isinstance(held, str):
            return None
        written = _unpacked(held)
    elif isinstance(source, Mapping):
        data = source.get("data") if source.get("data") is not None else source.get("content")
        written = data if isinstance(data, str) else blocks(data) if isinstance(data, list) else None
    else:
        written = held if isinstance(held, str) else blocks(held) if isinstance(held, list) else None
        written = written if written is not None else part.get("text")
    words = said(written, attribute)
    if words is None:
        return None
    facts = {k: v for k in ("title", "context", "source") if isinstance(v := part.get(k), str) and v}
    return Document(words, text(part.get("id")), metadata=facts)


def _unpacked(held: str) -> str | None:
    try:
        return base64.b64decode(held, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _written(value: Any) -> str | None:
    """A structured value as JSON text."""
    if value is None:
        return None
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return None


def last_user_text(conversation: Iterable[Message]) -> Said | None:
    """What the user said last; a message that only carries tool results is not the user speaking."""
    return next((m.text for m in reversed(tuple(conversation)) if m.role == "user" and m.text), None)


# --- the question and the answer inside a value ---------------------------------------------------------------------


def question(value: Any) -> str | None:
    """The question inside a request's input, however its framework wraps it; None where none can be told.

    >>> question('{"messages": [["user", "Who?"]]}'), question({"data": {"builder": {"query": "Who?"}}})
    ('Who?', 'Who?')
    >>> question("Who?"), question({"a": 1, "b": 2})
    ('Who?', None)
    """
    found = decode(value)
    held = found.value
    for _ in range(_DEPTH):
        if isinstance(held, Mapping) and len(held) == 1:
            held = decode(next(iter(held.values()))).value
    if isinstance(held, str):
        return None if found.cut else held or None
    if isinstance(held, (list, tuple)):
        return _asked_last(held)
    for level, group in enumerate(_levels(held)):
        asked = next(_questions(group, _QUESTIONS + (_BARE_QUESTIONS if level == 0 else ())), None)
        if asked:
            return asked
    return None


def _levels(value: Any) -> Iterator[list[Mapping[str, Any]]]:
    """The objects inside a value, level by level."""
    group = [value] if isinstance(value, Mapping) else []
    for _ in range(_DEPTH - 2):
        if group:
            yield group
        inner = (v for held in group for v in islice(held.values(), 100))
        group = list(islice((v for v in inner if isinstance(v, Mapping)), 200))


def _questions(group: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        yield from (held[key] for held in group if isinstance(held.get(key), str) and held[key])
    for held in group:
        for talk in (held.get("messages"), held.get("input")):
            if isinstance(talk, (list, tuple)) and (asked := _asked_last(talk)):
                yield asked


def _asked_last(talk: Iterable[Any]) -> str | None:
    last = last_user_text(messages(tuple(talk), ""))
    return last.value if last is not None else None


def reply(value: Any, depth: int = _DEPTH) -> str | None:
    """The answer inside an output, however its framework wraps it; None where none can be told.

    >>> reply('{"choices": [{"message": {"role": "assistant", "content": "Yes."}}]}'), reply("Yes.")
    ('Yes.', 'Yes.')
    >>> reply({"reasoning": "Clear.", "answer": "Yes."}), reply({"messages": [["user", "Hm?"], ["ai", "Yes."]]})
    ('Yes.', 'Yes.')
    >>> reply({"intent": 3, "sure": True}) is None
    True
    """
    found = decode(value)
    held = found.value
    if found.cut or depth == 0:
        return None
    if isinstance(held, (list, tuple)):
        return reply(held[0], depth - 1) if len(held) == 1 else _spoken_last(held)
    if isinstance(held, Mapping):
        return _reply_in(held, depth)
    return held if isinstance(held, str) and held and not _PRINTED.fullmatch(held) else None


def _reply_in(held: Mapping[str, Any], depth: int) -> str | None:
    if isinstance(held.get("messages"), (list, tuple)):
        return _spoken_last(held["messages"])
    spoken = message({"role": "assistant", **held}, "")
    if spoken is not None and spoken.text is not None:
        return spoken.text.value
    inner = [held[k][0] for k in _CHOICES if isinstance(held.get(k), list) and held[k]]
    inner = inner or [held[k] for k in _ANSWERS if k in held] or list(held.values())[: 1 if len(held) == 1 else 0]
    return next((r for i in inner if (r := reply(i, depth - 1))), None)


def _spoken_last(talk: Iterable[Any]) -> str | None:
    """What the assistant said last; None where the talk ends otherwise, as with a tool it asked for."""
    spoken = messages(tuple(talk), "")
    last = spoken[-1] if spoken else None
    return last.text.value if last is not None and last.role == "assistant" and last.text is not None else None
