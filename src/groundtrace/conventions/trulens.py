"""TruLens, the spans of its recorded apps: `ai.observability.record_root.*`, `.retrieval.*`, `.call.*`, ...

Source: `trulens.otel.semconv.trace`. Every span also keeps the call itself (`call.kwargs.NAME`, `call.return`), its
objects the way Python prints them: that is read where nothing better is there, as with a LangChain prompt, or a tool's
result in LangGraph. The recorded output of a streamed answer is its last piece alone, so it is put together from what
was returned. Passages have no ids and no scores.

Captured with TruLens 2.16: TruApp (typed and untyped functions, streamed too), TruChain, TruGraph, TruLlama. From its
source alone: rerankers, real MCP servers, conversations.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from groundtrace.conventions.messages import conversation, last_user_text, parts, tool_result
from groundtrace.conventions.shapes import asks, decode, documents, looks_up, number, retrieved, said, text
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Message, Reading, Role, Said, Span, Tool

_BASE = "ai.observability."
_GIVEN, _RETURNED = f"{_BASE}call.kwargs", f"{_BASE}call.return"
_ASKED, _ANSWERED = f"{_BASE}record_root.input", f"{_BASE}record_root.output"
_SOUGHT, _FOUND = f"{_BASE}retrieval.query_text", f"{_BASE}retrieval.retrieved_contexts"
_RANKED_FOR, _KEPT = f"{_BASE}reranking.query_text", f"{_BASE}reranking.output_context_texts"
_ROLES: Mapping[str, Role] = {
    "record_root": "request",
    "nested_record_root": "request",
    "agent": "agent",
    "generation": "generation",
    "retrieval": "retrieval",
    "reranking": "rerank",
    "tool": "tool",
    "mcp": "tool",
}
_ASIDE = {"eval", "eval_root", "eval_decision", "guardrail"}
_MANY = 1_000
_SLICES = {"app": "app_name", "app_version": "app_version", "run": "run.name", "prompt_version": "prompt.version_id"}

_UNMASK = "give TruLens this value unmasked: it records what the instrumented function was called with and returned"
_PIECES = "TruLens keeps the last piece of this stream alone: record the answer from a call that does not stream"
_LIST = (
    "name what was retrieved: @instrument(span_type=SpanAttributes.SpanType.RETRIEVAL, attributes="
    '{SpanAttributes.RETRIEVAL.RETRIEVED_CONTEXTS: "return"})'
)
_RERANKED = "record what was kept as SpanAttributes.RERANKER.OUTPUT_CONTEXT_TEXTS"

# LangChain's messages as Python prints them; only the literal of a text is evaluated, never a call.
_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_PRINTED = re.compile(r"\b(System|Human|AI|Tool)Message(?:Chunk)?\(content=")
_TALKS = {"System": "system", "Human": "user", "AI": "assistant", "Tool": "tool"}
_TALK = ("messages=[", "[", "{'messages': [")
_CONSTRUCTED = re.compile(r"\{['\"]\w|\[\{['\"]|\[?\w+\(\w+=|<[\w.]+ object|(?:messages|page_content|text|id)=['\"\[]")
_CALLED = re.compile(r" tool_calls=\[\{'name': '([^'\n]{1,200})'")

Held = Mapping[str, Any]


class TruLens:
    """Reads one span of an app that TruLens records."""

    name = "trulens"
    marks = (_BASE,)

    def reading(self, span: Span) -> Reading | None:
        """What the span holds, by its type; None where it has none."""
        held = span.attributes
        kind = held.get(f"{_BASE}span_type")
        if not isinstance(kind, str) or not kind:
            return None
        kind = kind.lower()
        told = _HELD.get(_ROLES.get(kind, "other"), _step)
        given = {k[len(_GIVEN) + 1 :]: v for k, v in held.items() if k.startswith(f"{_GIVEN}.")}
        facts = {"role": _ROLES.get(kind, "other"), **told(span, held, given)} if kind not in _ASIDE else {}
        return Reading(
            **{"role": "other", **facts},
            model=text(held.get(f"{_BASE}cost.model")),
            session=text(held.get(f"{_BASE}conversation_id")),
            slices=_slices(held),
            aside=kind in _ASIDE,
        )


# --- by type ----------------------------------------------------------------------------------------------------------


def _request(_: Span, held: Held, given: Held) -> dict[str, Any]:
    """The app's own call: what it was asked and what it answered."""
    asked = held.get(_ASKED)
    return {
        "query": said(_question({"input": asked}), _ASKED, _UNMASK) if asked else _query(given),
        "output": _streamed(held) or _text(held.get(_ANSWERED), _ANSWERED) or _text(held.get(_RETURNED), _RETURNED),
    }


def _generation(_: Span, held: Held, given: Held) -> dict[str, Any]:
    """A call to a model: LangChain's messages, its provider's request, or what the user's own function was given."""
    variables, handed = parts(given, _GIVEN, _UNMASK)
    spoken = next((m for v in given.values() if (m := _printed(v))), ()) or conversation(given, _GIVEN)
    returned = held.get(_RETURNED)
    if not spoken and (asked := _query(given)) is not None:
        spoken = (Message("user", asked),)
    called = _CALLED.search(returned) if isinstance(returned, str) and returned.startswith("content=") else None
    return {
        "messages": spoken,
        "output": _streamed(held) or _text(returned, _RETURNED),
        "calls": (Tool(called.group(1), arguments=Said("{}", _RETURNED)),) if called is not None else (),
        "documents": handed,
        "variables": variables,
    }


def _retrieval(_: Span, held: Held, given: Held) -> dict[str, Any]:
    """What a retriever was asked and what it found, in its order."""
    found = documents(held.get(_FOUND), _FOUND)
    if found is None:
        found = documents(held.get(_RETURNED), _RETURNED)
    return {
        "query": said(held.get(_SOUGHT), _SOUGHT, _UNMASK) or _query(given),
        "documents": found,
        "remedy": "" if found is not None else _LIST,
    }


def _rerank(_: Span, held: Held, __: Held) -> dict[str, Any]:
    """What a reranker kept, in its order."""
    kept = documents(held.get(_KEPT), _KEPT)
    scores = held.get(f"{_BASE}reranking.output_context_scores")
    if kept and isinstance(scores, (list, tuple)) and len(scores) == len(kept):
        kept = tuple(Document(d.text, d.id, number(s)) for d, s in zip(kept, scores, strict=True))
    return {"query": said(held.get(_RANKED_FOR), _RANKED_FOR, _UNMASK), "documents": kept or None, "remedy": _RERANKED}


def _tool(span: Span, held: Held, given: Held) -> dict[str, Any]:
    """What a tool was asked and what it answered, an MCP server's tool too."""
    mcp = f"{_BASE}mcp."
    place = f"{mcp}output_content" if f"{mcp}output_content" in held else _RETURNED
    answer = held.get(place)
    printed = [t.result.value for m in _printed(answer) for t in m.tools if t.result is not None]
    words, found = tool_result("\n\n".join(printed) or _content(answer) or answer, place)
    asked = held.get(f"{mcp}input_arguments") or next((v for v in given.values() if isinstance(v, str)), None)
    name = text(held.get(f"{mcp}tool_name")) or text(held.get("gen_ai.tool.name")) or span.name
    tool = Tool(name, None, said(asked, _GIVEN), said(words, place, _UNMASK), found)
    return {"tool": tool, "query": _query(given)}


def _step(span: Span, held: Held, given: Held) -> dict[str, Any]:
    """Any other call: a filled prompt's parts; and where its name and shape prove it, a retrieval."""
    variables, _ = parts(decode(given.get("input")).value, f"{_GIVEN}.input", _UNMASK)
    name = str(held.get(f"{_BASE}call.function") or span.name).rpartition(".")[2]
    found = retrieved(held.get(_RETURNED), _RETURNED, named=looks_up(name), asked=asks(given))
    if found is None:
        return {"variables": variables}
    return {"role": "retrieval", "query": _query(given), "documents": found}


_HELD: Mapping[Role, Callable[[Span, Held, Held], dict[str, Any]]] = {
    "request": _request,
    "agent": _request,
    "generation": _generation,
    "retrieval": _retrieval,
    "rerank": _rerank,
    "tool": _tool,
}


# --- parts ------------------------------------------------------------------------------------------------------------


def _query(given: Held) -> Said | None:
    return said(_question(given), _GIVEN, _UNMASK)


def _question(given: Held) -> str | None:
    """The question among what a function was called with; in a printed conversation the user's last words."""
    talk = next((m for value in given.values() if (m := _printed(value))), ())
    if talk:
        spoken = last_user_text(talk)
        return spoken.value if spoken is not None else None
    asked = question(given)
    return None if asked is None or _CONSTRUCTED.match(asked) else asked


def _text(value: Any, attribute: str) -> Said | None:
    """The answer in a returned value, be it an object as Python prints it."""
    told = _content(value)
    return said(reply(value) if told is None else told, attribute, _UNMASK)


def _streamed(held: Held) -> Said | None:
    """A streamed answer put together of its pieces; it is cut where they are objects that hold no plain text."""
    pieces = held.get(_RETURNED)
    if held.get(f"{_BASE}generation.is_streaming") is not True or not isinstance(pieces, (list, tuple)):
        return None
    texts = [told if (told := _content(piece)) is not None else piece for piece in pieces]
    if any(not isinstance(t, str) or (t is p and _CONSTRUCTED.match(t)) for t, p in zip(texts, pieces, strict=True)):
        return Said("", _RETURNED, "truncated", _PIECES)
    return said("".join(texts), _RETURNED, _UNMASK)


def _content(value: Any) -> str | None:
    """The text of one message as Python prints it: `content='It is far.' additional_kwargs={} ...`."""
    if not isinstance(value, str) or not value.startswith("content="):
        return None
    found = _LITERAL.match(value, len("content="))
    return _literal(found.group()) if found is not None else None


def _printed(value: Any) -> tuple[Message, ...]:
    """A LangChain prompt as Python prints it: `messages=[SystemMessage(content='...'), ...]`."""
    if not isinstance(value, str) or not value.startswith(_TALK) or "Message(content=" not in value[:200]:
        return ()
    found: list[Message] = []
    at = 0
    while len(found) < _MANY and (head := _PRINTED.search(value, at)) is not None:
        at = head.end()
        body = _LITERAL.match(value, at)
        torn = body is None and value[at : at + 1] in {"'", '"'}
        words = Said(value[at + 1 :], _GIVEN, "truncated") if torn else None  # else a list of blocks, that is not read
        if body is not None:
            at, words = body.end(), said(_literal(body.group()), _GIVEN, _UNMASK)
        if head.group(1) == "Tool":
            found.append(Message("tool", tools=(Tool(result=words),)))
        else:
            found.append(Message(_TALKS[head.group(1)], words))
        if torn:
            break
    return tuple(found)


def _literal(printed: str) -> str | None:
    try:
        return str(ast.literal_eval(printed))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _slices(held: Held) -> dict[str, str]:
    """The app and its version, and the managed prompt an answer was made with."""
    return {name: told for name, key in _SLICES.items() if (told := text(held.get(_BASE + key)))}
