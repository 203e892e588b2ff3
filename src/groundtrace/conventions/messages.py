"""What is said in turns: messages in every form frameworks write them.

Like `shapes`, nothing here raises, and what has no known shape is None or empty.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
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
_IN_BLOCKS = ("parts", "blocks")
_SPEAKERS = ("user", "assistant", "system")
_BARE = {"role", "content", "parts", "finish_reason"}
_BARE_PART = {"type", "content", "text"}
_MESSAGE_KEYS = {"role", "content", "parts", "output", "arguments"}
CHOICES = ("choices", "generations", "candidates")
_OF_LANGCHAIN = {"artifact", "tool_call_id"}
_TALKS = ("messages", "input", "contents", "prompts", "prompt")
CONTEXTS = (
    *("context", "contexts", "context_str", "documents", "docs", "passages", "sources", "chunks", "text_chunks"),
    *("retrieved_documents", "retrieved_context", "retrieved_contexts", "search_results"),
)
"""What people call the passages a prompt or a function is filled with."""
_SYSTEMS = ("system", "instructions", "system_instruction")
_FROM_DOCUMENTS = re.compile(
    r"\b(?:from|using|use|on|by|with|in)\b[^.!?\n]{0,60}\b"
    r"(?:documents?|passages?|sources?|context|excerpts?|search results?|snippets?)\b",
    re.IGNORECASE,
)
_PASSAGE = 30  # characters a passage has at least


def messages(value: Any, attribute: str) -> tuple[Message, ...]:
    """A conversation in order: OpenAI, Anthropic, LangChain, GenAI parts, (role, text) pairs, or a plain text.

    >>> [(m.role, m.text.value) for m in messages('[["user", "Hi"], {"role": "ai", "content": "Yes?"}]', "x")]
    [('user', 'Hi'), ('assistant', 'Yes?')]
    """
    found = decode(value).value if isinstance(value, str) else value
    if isinstance(found, str):
        words = said(found, attribute)
        return (Message("user", words),) if words else ()
    if not isinstance(found, (list, tuple)):
        found = found.get("messages") if isinstance(found, Mapping) else None
        if not isinstance(found, (list, tuple)):
            return ()
    if len(found) == 1 and isinstance(found[0], (list, tuple)):
        nested = found[0]
        found = nested if nested and not isinstance(nested[0], str) else found
    return tuple([m for item in found[:MANY] if (m := message(item, attribute)) is not None])


def conversation(value: Any, attribute: str) -> tuple[Message, ...]:
    """What a model's API was sent: its instructions, then its messages, input, contents or prompt.

    >>> [(m.role, m.text.value) for m in conversation({"instructions": "Be brief.", "input": "Why?"}, "x")]
    [('system', 'Be brief.'), ('user', 'Why?')]
    """
    held = decode(value).value
    if not isinstance(held, Mapping):
        return messages(held, attribute)
    told = next((held[key] for key in _SYSTEMS if held.get(key)), None)
    first = message({"role": "system", "content": told}, attribute) if isinstance(told, (str, list)) else None
    spoken = next((talk for key in _TALKS if (talk := messages(held.get(key), attribute))), ())
    return (first, *spoken) if first is not None and first.text is not None else spoken


def answered(value: Any, attribute: str) -> tuple[Message, ...]:
    """What a model's API sent back, as messages: its first choice, its output items, or its own content.

    >>> called = [{"type": "function_call", "name": "look", "arguments": "{}", "call_id": "c"}]
    >>> [t.name for m in answered({"output": called}, "x") for t in m.tools]
    ['look']
    """
    held = decode(value).value
    if not isinstance(held, Mapping):
        return messages(held, attribute)
    first: Any = next((held[key][0] for key in CHOICES if isinstance(held.get(key), list) and held[key]), None)
    if isinstance(first, list):
        first = first[0] if first else None
    if isinstance(first, Mapping):
        # Gemini's candidate holds a message as its content.
        return messages([first["content"] if isinstance(first.get("content"), Mapping) else first], attribute)
    output = held.get("output")
    if isinstance(output, (list, Mapping)):
        return messages(output if isinstance(output, list) else [output], attribute)
    return messages([{"role": "assistant", **held}], attribute)


def noted(body: Any, attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an event or log record about one message tells: structured, or as JSON in one of its attributes.

    >>> noted(None, {"gen_ai.event.content": '{"role": "user", "content": "Why?"}'})["content"]
    'Why?'
    >>> noted(None, {"content": '[{"text": "Why?"}]'})["content"]
    [{'text': 'Why?'}]
    """
    told = body if isinstance(body, Mapping) else attributes
    inner = decode(told.get("gen_ai.event.content")).value
    if isinstance(inner, Mapping):
        told = {**told, **inner}
    for key in ("content", "message"):
        held = decode(told.get(key)).value if isinstance(told.get(key), str) else None
        if isinstance(held, list) and held and all(isinstance(part, Mapping) for part in held):
            told = {**told, key: held}
    return told


def message(item: Any, attribute: str, remedy: str = "") -> Message | None:
    """One message with its text, the documents handed over as blocks, and its tool calls or results."""
    if (words := _only_text(item)) is not None:
        return Message(item["role"], said(words, attribute, remedy))
    item = _plain_message(item)
    if item is None:
        return None
    name = str(item.get("role") or item.get("type") or "user").lower()
    role = _ROLES.get(name, name)
    held = _Held(attribute)
    content = next((item[k] for k in _IN_BLOCKS if isinstance(item.get(k), (list, tuple))), item.get("content"))
    if role == "tool" or name == "function_call_output":
        told = item.get("output") if content is None else content
        own = isinstance(told, (list, tuple)) and any(map(_is_answer, told))
        if own:
            held.read(told)
        else:
            held.tools.append(_result(item, told, attribute, item.get("artifact")))
        return Message("tool", None, tuple(held.documents), tuple(held.tools))
    if name == "function_call":
        held.read([item])
        role = "assistant"
    held.read(content if isinstance(content, (list, tuple)) else [content])
    for call in islice(item.get("tool_calls") or (), MANY) if isinstance(item.get("tool_calls"), (list, tuple)) else ():
        if isinstance(call, Mapping):
            inner = call["function"] if isinstance(call.get("function"), Mapping) else call
            held.tools.append(_call({**inner, "id": call.get("id")}, attribute))
    if role == "user" and held.texts[:1] == ["For context:"]:
        role = "assistant"  # so Google ADK tells an agent what other agents said
    # What a person typed in blocks reads best apart; what a model wrote in blocks is one text.
    joined = ("" if role == "assistant" else "\n\n").join(held.texts)
    return Message(role, said(joined, attribute, remedy), tuple(held.documents), tuple(held.tools))


def _only_text(item: Any) -> str | None:
    """The text of a message that holds nothing else, as most do."""
    if type(item) is not dict or not _BARE.issuperset(item) or item.get("role") not in _SPEAKERS:
        return None
    content = item.get("parts", item.get("content"))
    if type(content) is list and len(content) == 1 and type(content[0]) is dict and _BARE_PART.issuperset(content[0]):
        part = content[0]
        content = part.get("content", part.get("text")) if part.get("type") == "text" else None
    return content if type(content) is str and not ("parts" in item and "content" in item) else None


def _plain_message(item: Any) -> Mapping[str, Any] | None:
    """A message as one flat object, whichever way its framework writes it down."""
    if isinstance(item, str):
        item = {"role": "user", "content": item}
    elif isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], str):
        item = {"role": item[0], "content": item[1]}
    if not isinstance(item, Mapping):
        return None
    inner = item.get("message")
    item = inner if isinstance(inner, Mapping) else item
    if isinstance(item.get("kwargs"), Mapping) and isinstance(item.get("id"), list):
        # LangChain's constructor form names the class: ["langchain", "schema", "messages", "HumanMessage"].
        kind = str(item["id"][-1] if item["id"] else "").removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": kind, **item["kwargs"]}
    if isinstance(item.get("data"), Mapping) and "content" in item["data"]:
        return {**item["data"], "type": item.get("type") or item["data"].get("type")}
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
        called = part.get("toolUse") or part.get("toolResult")
        if isinstance(called, Mapping):  # Bedrock's blocks name their kind by the key
            part = {**called, "type": "tool_use" if "toolUse" in part else "tool_result"}
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
    ident = next((t for k in ("call_id", "id", "toolCallId", "toolUseId") if (t := text(part.get(k)))), None)
    return Tool(str(part.get("name") or part.get("toolName") or ""), ident, said(words, attribute))


def _result(part: Mapping[str, Any], answer: Any, attribute: str, artifact: Any = None) -> Tool:
    name = str(part.get("name") or part.get("toolName") or "")
    keys = ("tool_call_id", "tool_use_id", "call_id", "toolCallId", "toolUseId", "id")
    ident = next((t for k in keys if (t := text(part.get(k)))), None)
    words, listed = tool_result(answer, attribute, artifact)
    return Tool(name, ident, result=said(words, attribute), documents=listed)


def tool_result(value: Any, attribute: str, artifact: Any = None) -> tuple[str | None, tuple[Document, ...]]:
    """What a tool answered: as text, and the documents listed in it or beside it (LangChain's artifact)."""
    found = decode(value).value
    if (bare := _bare(found)) is not found:
        value = found = bare
    if isinstance(found, Mapping) and isinstance(found.get("data"), Mapping):
        artifact = found["data"].get("artifact") or artifact
        found = found["data"].get("content", found)
    elif isinstance(found, Mapping) and "content" in found and (found.get("type") == "tool" or "tool_call_id" in found):
        artifact, found = found.get("artifact") or artifact, found["content"]
    if isinstance(found, list) and found and (all(_kind(p) in _WRITTEN for p in found) or _is_one_text(found)):
        value = found = blocks(found)
    listed = documents(artifact, attribute) or (None if isinstance(found, str) else documents(found, attribute)) or ()
    words = found if isinstance(found, str) else value if isinstance(value, str) else _written(found)
    return words, tuple(d for d in listed if d.text is not None)


def _is_answer(part: Any) -> bool:
    return _kind(part) in _ANSWERED or (isinstance(part, Mapping) and "toolResult" in part)


def _is_one_text(parts: list[Any]) -> bool:
    """Whether a result is one block of text, as Bedrock writes it; several may be passages."""
    return len(parts) == 1 and isinstance(parts[0], Mapping) and parts[0].keys() == {"text"}


def _bare(result: Any) -> Any:
    """A tool's result out of what wraps it: JSON quotes, the AI SDK's {"type", "value"}, MCP's {"content": [...]}."""
    if isinstance(result, str) and len(result) > 1 and result[0] == result[-1] == '"':
        try:
            result = decode(json.loads(result, strict=False)).value
        except ValueError:
            return result
    if isinstance(result, Mapping) and "value" in result and isinstance(result.get("type"), str) and len(result) < 4:
        result = decode(result["value"]).value
    parts = result.get("content") if isinstance(result, Mapping) and not result.keys() & _OF_LANGCHAIN else None
    return parts if isinstance(parts, list) and parts and all(_kind(p) in _WRITTEN for p in parts) else result


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


def set_apart(talk: tuple[Message, ...], value: Any, attribute: str) -> tuple[Message, ...]:
    """The talk with passages that stand as parts of their own before the last question taken out of it, as documents.

    Some instrumentations write search results as plain texts. Told by all of this: the instructions say to answer from
    documents, and none are in the talk; the message is three texts or more; the last alone asks; the others are as
    long as passages are and end as statements do.

    >>> parts = ["The Moon is 384,400 km away from the Earth.", "Mars is named for the Roman god of war.", "How far?"]
    >>> said_first = Message("system", Said("Answer only from the documents."))
    >>> talk = (said_first, *messages([{"role": "user", "parts": parts}], "x"))
    >>> last = set_apart(talk, [{"role": "user", "parts": parts}], "x")[-1]
    >>> last.text.value, len(last.documents)
    ('How far?', 2)
    """
    instructions = [m.text.value for m in talk if m.role == "system" and m.text is not None]
    at = max((i for i, m in enumerate(talk) if m.role == "user" and m.text), default=None) if instructions else None
    if at is None or "\n\n" not in (said_last := talk[at].text or Said()).value or not said_last.value.endswith("?"):
        return talk
    if any(m.documents or m.tools for m in talk) or not any(map(_FROM_DOCUMENTS.search, instructions)):
        return talk
    listed_messages = [m for item in _listed(value) if (m := _plain_message(item)) is not None]
    asked = [m for m in listed_messages if str(m.get("role") or m.get("type") or "user").lower() in {"user", "human"}]
    texts = _texts(asked[-1]) if asked else []
    *passages, last = texts or [""]
    if len(passages) < 2 or "\n\n".join(texts) != said_last.value or not all(map(_is_passage, passages)):
        return talk
    handed = tuple(Document(said(words, attribute)) for words in passages)
    return (*talk[:at], Message("user", said(last, attribute), handed), *talk[at + 1 :])


def _listed(value: Any) -> list[Any]:
    held = decode(value).value
    held = held.get("messages") if isinstance(held, Mapping) else held
    return list(islice(held, MANY)) if isinstance(held, (list, tuple)) else []


def _texts(item: Mapping[str, Any]) -> list[str]:
    """The parts of a message where all of them are texts."""
    content = next((item[k] for k in (*_IN_BLOCKS, "content") if isinstance(item.get(k), (list, tuple))), ())
    texts = [
        p if isinstance(p, str) else (p.get("text") or p.get("content")) if _kind(p) in _WRITTEN else None
        for p in content
    ]
    return [t for t in texts if isinstance(t, str)] if all(isinstance(t, str) for t in texts) else []


def _is_passage(words: str) -> bool:
    return len(words) >= _PASSAGE and words.rstrip().endswith((".", "!", ")", '"', "\u201d", "\u3002"))


def last_user_text(conversation: Iterable[Message]) -> Said | None:
    """What the user said last; a message that only carries tool results is not the user speaking."""
    texts = [m.text for m in conversation if m.role == "user" and m.text is not None]
    return texts[-1] if texts else None


# --- what a function was called with ----------------------------------------------------------------------------------


def parts(value: Any, attribute: str, remedy: str = "") -> tuple[dict[str, Said], tuple[Document, ...] | None]:
    """The named texts a prompt or a function was filled with and the list of passages among them; none without any.

    >>> named, passages = parts({"question": "How far?", "contexts": ["The Moon is far."]}, "x")
    >>> named["question"].value, [d.text.value for d in passages]
    ('How far?', ['The Moon is far.'])
    >>> parts({"question": "How far?"}, "x")
    ({}, None)
    """
    if not isinstance(value, Mapping) or not any(name in value for name in CONTEXTS):
        return {}, None
    named = {str(k): s for k, v in islice(value.items(), 100) if (s := said(v, attribute, remedy)) is not None}
    lists = (value[name] for name in CONTEXTS if isinstance(value.get(name), (list, tuple)))
    found = next((d for held in lists if (d := documents(held, attribute))), None)
    return named, tuple(d for d in found if d.text is not None) if found else None
