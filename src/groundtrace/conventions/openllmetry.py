"""Traceloop's OpenLLMetry: `traceloop.span.kind`, `traceloop.entity.input` / `.output`, vector stores' result events.

Source: the packages `opentelemetry-instrumentation-*` of Traceloop and its `opentelemetry-semantic-conventions-ai`.
Verified by real captures: langchain, llamaindex, openai, anthropic, chromadb and traceloop-sdk 0.62.4 (LangChain 1.8,
LangGraph 1.2, LlamaIndex 0.14: engines and agents, alone and with the openai instrumentor beside it; decorators of
workflows and tasks), langchain and openai 0.40.
Not captured, from the packages' source: Milvus's and Pinecone's results, CrewAI, Haystack (whose instrumentor is broken
since Haystack 3). What a model was given and said stands in `gen_ai.*`: see `genai` for 0.6x, `genai_old` for 0.4x;
here it is only whether that was captured at all.

A stream of a LlamaIndex query engine never ends its spans: the request is lost but for its retriever and splitters,
which name parents that are not there, and the next query hangs from them, in the same trace. With the openai
instrumentor beside it the call to the model, and so the answer, is kept.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from groundtrace.conventions.messages import last_user_text, message, messages, tool_result
from groundtrace.conventions.shapes import (
    MANY,
    Decoded,
    asks,
    blocks,
    decode,
    documents,
    is_masked,
    listed,
    looks_up,
    number,
    retrieved,
    said,
    text,
)
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Event, Reading, Role, Said, Span, Tool

_TRACE_CONTENT = "unset TRACELOOP_TRACE_CONTENT (or set it to true) in the traced process: content capture is off"
_OF_LITELLM = "set litellm.turn_off_message_logging = False (turn_off_message_logging: false in a proxy's settings)"

_INPUTS = ("traceloop.entity.input", "gen_ai.task.input", "gen_ai.tool.call.arguments")
_OUTPUTS = ("traceloop.entity.output", "gen_ai.task.output", "gen_ai.tool.call.result")
_PROPERTY = "traceloop.association.properties."
_SESSIONS = tuple((name, _PROPERTY + name) for name in ("session_id", "thread_id", "conversation_id", "chat_id"))
_USERS = (("user_id", f"{_PROPERTY}user_id"),)
_CALLS: Mapping[str, Role] = {
    "chat": "generation",
    "completion": "generation",
    "text_completion": "generation",
    "generate_content": "generation",
    "embedding": "embedding",
    "embeddings": "embedding",
}
_KINDS: Mapping[str, Role] = {"workflow": "request", "agent": "agent"}
_RESULTS = ("db.query.result", "db.search.result")
_CONTEXTS = ("context", "contexts", "context_str", "documents", "docs", "passages", "text_chunks", "chunks", "sources")
_HANDED = ("nodes", *_CONTEXTS)
_SCOPES = (
    *("openai.v", "anthropic", "langchain", "llamaindex", "cohere", "bedrock", "mistralai", "ollama", "groq"),
    *("together", "replicate", "watsonx", "google_generativeai", "haystack", "crewai", "openai_agents", "alephalpha"),
)
_LONGEST = 20_000  # characters of a Python dict that are parsed


class OpenLLMetry:
    """Reads one span of any instrumentor of Traceloop, or of a function its decorators wrap."""

    name = "openllmetry"
    marks = (
        *("traceloop.", "llm.request.type", "db.query.", "db.search."),
        *(f"opentelemetry.instrumentation.{package}" for package in _SCOPES),
    )

    def reading(self, span: Span) -> Reading | None:
        """What the span holds, by its kind or operation; None where neither tells."""
        attributes = span.attributes
        stored = _stored(span.events) if span.events else None
        if stored is not None:
            return Reading("retrieval", documents=stored, **_facts(attributes, None))
        kind, operation = attributes.get("traceloop.span.kind"), attributes.get("gen_ai.operation.name")
        if operation == "vector_db_retrieve":
            return _retrieval(attributes)
        called = _called(span, operation)
        if called is not None or not isinstance(kind, str) or not kind:
            facts = _facts(attributes, None)
            known = called is not None or facts["session"] or facts["user"]
            return Reading(**(called or {"role": "other"}), **facts) if known else None
        if kind == "tool" or operation == "execute_tool" or "tool.name" in attributes:
            return _tool(attributes)
        if kind in _KINDS:
            return _request("agent" if operation == "invoke_agent" else _KINDS[kind], attributes)
        return _step(attributes)


# --- by kind ----------------------------------------------------------------------------------------------------------


def _called(span: Span, operation: Any) -> dict[str, Any] | None:
    """A call to a model: that its content is off holds unless the vocabulary it stands in finds any.

    A rerank says in its messages what it was given, and is left to that vocabulary.
    """
    asked = span.attributes.get("llm.request.type")
    named = asked if isinstance(asked, str) else operation
    role = _CALLS.get(named.lower()) if isinstance(named, str) else None
    if role != "generation":
        return {"role": role} if role is not None else None
    remedy = _OF_LITELLM if span.scope.startswith("litellm") else _TRACE_CONTENT
    return {"role": role, "content": "off", "remedy": remedy}


def _retrieval(attributes: Mapping[str, Any]) -> Reading:
    """What a retriever was asked, and what it found, in its order."""
    place, given = _held(attributes, _INPUTS)
    found_at, told = _held(attributes, _OUTPUTS)
    found = documents(told.value, found_at)
    cut = _cut(told, found_at)
    absent: dict[str, Any] = {"content": "off", "remedy": _TRACE_CONTENT} if told.value is None else {}
    return Reading(
        "retrieval",
        query=_unwrapped(given, place, question),
        documents=(Document(cut),) if cut is not None else found,
        **absent,
        **_facts(attributes, given.value),
    )


def _request(role: Role, attributes: Mapping[str, Any]) -> Reading:
    """A workflow or an agent: what went in and what came out."""
    place, given = _held(attributes, _INPUTS)
    told_at, told = _held(attributes, _OUTPUTS)
    asked = _inner(given.value)
    if isinstance(asked, Mapping) and not any(asked.values()):
        # LangChain does not know the input of a stream before it ends, and tells it with the output.
        late = told.value.get("kwargs") if isinstance(told.value, Mapping) else None
        late = late.get("inputs") if isinstance(late, Mapping) else None
        place, asked = (told_at, late) if late else (place, asked)
    variables, handed = _variables(asked, place)
    off = given.value is None and told.value is None
    absent: dict[str, Any] = {"content": "off", "remedy": _TRACE_CONTENT} if off else {}
    return Reading(
        role,
        query=_unwrapped(Decoded(asked, given.cut), place, question),
        output=_unwrapped(Decoded(_inner(told.value), told.cut), told_at, reply),
        variables=variables,
        documents=handed,
        **absent,
        **_facts(attributes, given.value),
    )


def _step(attributes: Mapping[str, Any]) -> Reading:
    """A task: a retriever or a reranker where documents come out, a filled template where they go in.

    What went in and came out of any other is kept: in a session's workflow, that says nothing, tasks are its turns.
    """
    if attributes.get("gen_ai.operation.name") == "embeddings":
        return Reading("embedding", **_facts(attributes, None))
    place, given = _held(attributes, _INPUTS)
    found_at, told = _held(attributes, _OUTPUTS)
    asked, answered = _inner(given.value), _inner(told.value)
    facts = _facts(attributes, given.value)
    turn = _turn(answered, found_at) if isinstance(answered, Mapping) else None
    if turn is not None:
        return Reading(**turn, **facts)
    named = looks_up(text(attributes.get("traceloop.entity.name")) or "")
    variables, handed = _variables(asked, place)
    found = _listed(answered, found_at, named=named, asked=asks(asked))
    if found is None:
        query = _unwrapped(Decoded(asked, given.cut), place, question)
        output = _unwrapped(Decoded(answered, told.cut), found_at, reply)
        return Reading("other", query=query, output=output, variables=variables, documents=handed, **facts)
    role: Role = "rerank" if handed else "retrieval"
    return Reading(role, query=_unwrapped(Decoded(asked), place, question), documents=found, **facts)


def _turn(answered: Mapping[str, Any], place: str) -> dict[str, Any] | None:
    """A step of LlamaIndex's agents: what the model is given, said in this turn, or said when the agent stopped.

    Of an agent that streams, the last step alone tells the answer: its workflow is recorded without.
    """
    ended = answered.get("result")
    told = ended if isinstance(ended, Mapping) else answered
    if "current_agent_name" not in told:
        return None
    if isinstance(told.get("response"), Mapping):
        spoken = message(told["response"], place)
        wanted = listed(told.get("tool_calls")) if told is answered else []
        calls = (Tool(text(c.get("tool_name")) or "", text(c.get("tool_id"))) for c in wanted)
        return {"role": "generation", "output": spoken.text if spoken is not None else None, "calls": tuple(calls)}
    last = last_user_text(messages(told.get("input"), place)) if isinstance(told.get("input"), list) else None
    return {"role": "other", "variables": {"question": last}} if last is not None else None


def _tool(attributes: Mapping[str, Any]) -> Reading:
    """What a tool was asked and what it answered."""
    place, given = _held(attributes, ("tool.arguments", *_INPUTS))
    told_at, told = _held(attributes, _OUTPUTS)
    asked, answered = _inner(given.value), _inner(told.value)
    if isinstance(asked, str):
        asked = _literal(asked)
    if isinstance(answered, Mapping) and isinstance(answered.get("kwargs"), Mapping):
        answered = {"type": "tool", **answered["kwargs"]}  # LangChain's constructor form of a message
    if isinstance(answered, Mapping) and isinstance(answered.get("tool_output"), Mapping):
        answered = answered["tool_output"]  # LlamaIndex's, which holds the text in blocks
        answered = blocks(listed(answered.get("blocks"))) or answered
    words, found = (None, ()) if told.cut else tool_result(answered, told_at)
    name = next((t for n in ("gen_ai.tool.name", "tool.name") if (t := text(attributes.get(n)))), None)
    tool = Tool(
        name or text(attributes.get("traceloop.entity.name")) or "",
        text(attributes.get("gen_ai.tool.call.id")),
        said(asked if isinstance(asked, str) else _written(asked), place),
        _cut(told, told_at) or said(words, told_at),
        found,
    )
    query = None if isinstance(asked, str) else _unwrapped(Decoded(asked, given.cut), place, question)
    return Reading("tool", query=query, tool=tool, **_facts(attributes, given.value))


# --- what wraps a value -----------------------------------------------------------------------------------------------


def _held(attributes: Mapping[str, Any], names: Iterable[str]) -> tuple[str, Decoded]:
    """The first of these attributes the span has, decoded; a text may stand in JSON's quotes."""
    for name in names:
        value = attributes.get(name)
        if value is None or value == "null":
            continue
        # An embedding is a long list of numbers that nobody needs.
        if isinstance(value, str) and value[:1] == "[" and value[1:2] in "-0123456789.":
            return name, Decoded("")
        if isinstance(value, str) and value[:1] == '"':
            return name, _quoted(value)
        return name, decode(value)
    return "", Decoded(None)


def _quoted(value: str) -> Decoded:
    try:
        return Decoded(json.loads(value, strict=False))
    except ValueError:
        return Decoded(value, cut=len(value) > 1 and value[-1] != '"')


def _inner(value: Any) -> Any:
    """The value itself out of what LangChain's callbacks, the decorators and LlamaIndex put around it."""
    if not isinstance(value, Mapping):
        return value
    for key, beside in (
        ("inputs", {"tags", "metadata", "kwargs"}),
        ("input_str", {"tags", "metadata", "kwargs", "inputs"}),
        ("outputs", {"kwargs"}),
        ("output", {"kwargs"}),
    ):
        if key in value and beside & value.keys() and value.keys() <= {key, *beside}:
            return value[key]
    if value.keys() == {"args", "kwargs"}:
        named, args = value["kwargs"], value["args"]
        if isinstance(named, Mapping) and named:
            return named
        return _unnamed(args) if isinstance(args, list) else args
    if value.keys() == {"output"} and isinstance(value["output"], Mapping):
        return value["output"]
    return value["kwds"] if value.keys() == {"kwds"} else value


def _unnamed(args: list[Any]) -> Any:
    """What a function was called with: its one argument, or the only text and the first list among them."""
    if len(args) == 1:
        return args[0]
    texts, lists = [a for a in args if isinstance(a, str)], [a for a in args if isinstance(a, list)]
    asked = {"question": texts[0]} if len(texts) == 1 else {}
    return {**asked, "nodes": lists[0]} if lists else asked


def _unwrapped(given: Decoded, place: str, unwrap: Any) -> Said | None:
    """A text out of whatever wraps it; JSON that breaks off is cut, masked is masked."""
    if given.cut:
        return _cut(given, place)
    value = given.value
    return said(value if is_masked(value) else unwrap(value) if value is not None else None, place)


def _cut(given: Decoded, place: str) -> Said | None:
    return Said(str(given.value), place, "truncated") if given.cut else None


def _literal(value: str) -> Any:
    """Arguments that were printed as a Python dict."""
    if value[:1] != "{" or len(value) > _LONGEST:
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes no printed dict has
            return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return value


def _written(value: Any) -> str | None:
    try:
        return None if value is None else json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return None


# --- documents and parts ----------------------------------------------------------------------------------------------


def _listed(value: Any, place: str, *, named: bool = False, asked: bool = False) -> tuple[Document, ...] | None:
    """The documents of a list, as far as it is one; LlamaIndex lists each as a JSON text of its own."""
    if isinstance(value, list):
        value = [decode(item).value if isinstance(item, str) else item for item in islice(value, MANY)]
    return retrieved(value, place, named=named, asked=asked)


def _variables(held: Any, place: str) -> tuple[dict[str, Said], tuple[Document, ...] | None]:
    """A template's named parts where passages are among them, and the documents handed over in a list."""
    if isinstance(held, list):
        return {}, _listed(held, place) or None
    if not isinstance(held, Mapping):
        return {}, None
    lists = ((key, held.get(key)) for key in _HANDED if isinstance(held.get(key), list))
    handed = next((d for key, value in lists if (d := _listed(value, place, named=key in _CONTEXTS))), None)
    if handed is None and not any(isinstance(held.get(key), str) for key in _CONTEXTS):
        return {}, None
    return {str(k): words for k, v in islice(held.items(), MANY) if (words := said(v, place)) is not None}, handed


def _stored(events: Iterable[Event]) -> tuple[Document, ...] | None:
    """What a vector store found, an event each; None where it tells nothing."""
    found: list[Document] = []
    for event in islice(events, MANY):
        if event.name not in _RESULTS:
            continue
        told = {key: event.attributes.get(f"{event.name}.{key}") for key in ("id", "score", "document")}
        facts = next((m for k in ("metadata", "entity") if (m := _facts_of(event, k))), {})
        words = told["document"] or next((facts[k] for k in ("text", "page_content", "content") if facts.get(k)), None)
        written = said(words, f"{event.name}.document")
        found.append(Document(written, text(told["id"]), number(told["score"]), facts))
    return tuple(found) if found else None


def _facts_of(event: Event, key: str) -> Mapping[str, Any]:
    held = decode(event.attributes.get(f"{event.name}.{key}")).value
    return held if isinstance(held, Mapping) else {}


def _facts(attributes: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """The session and the user: as association properties, in older versions only in the input's metadata."""
    metadata = given.get("metadata") if isinstance(given, Mapping) else None
    metadata = metadata if isinstance(metadata, Mapping) else {}
    version = text(attributes.get("traceloop.prompt.version"))
    slices = {"prompt_version": version} if version else {}
    session, user = _told(attributes, metadata, _SESSIONS), _told(attributes, metadata, _USERS)
    return {"session": session, "user": user, "slices": slices}


def _told(attributes: Mapping[str, Any], metadata: Mapping[str, Any], names: Iterable[tuple[str, str]]) -> str | None:
    """The first of these facts that an association property tells, or the metadata under its plain name."""
    for name, told_as in names:
        if told_as in attributes and (value := text(attributes[told_as])):
            return value
        if name in metadata and (value := text(metadata[name])):
            return value
    return None
