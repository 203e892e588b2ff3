"""Braintrust, rows as its API hands them over and `braintrust.*` attributes as they travel over OpenTelemetry.

Both tell a span by its input, output, metadata and `span_attributes` (type, purpose, name). No type says "retriever":
that a step looked something up is told by what it gave back, by its name, or by attributes of other vocabularies that
the ingestion of OpenTelemetry spans left in the metadata. A row is one attribute, `braintrust.row`, as it came; rows
of type "log" share a span's id and must come after it, or under an id of their own.

Source: braintrust 0.48.1, and rows captured from it (`@traced` with a wrapped OpenAI client: chat completions, tools,
streams, responses with file search, errors; the handlers for langchain 1.5.2 and llama-index-core 0.14.25; the
LangSmith wrapper; JSON attachments; scorer spans) at a stand-in for its API. From tables and the shapes other SDKs
document: LangChain.js, the wrapper of the Vercel AI SDK, rows of ingested OpenTelemetry spans (nothing is known of how
the platform itself nests what it leaves in the metadata; flat and nested names are both read), reviews, rerankers, and
rows that a preview cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from msgspec.structs import replace

from groundtrace.conventions.cited import mentions, searched
from groundtrace.conventions.messages import answered, conversation, message, tool_result
from groundtrace.conventions.shapes import (
    MANY,
    Decoded,
    asks,
    decode,
    documents,
    given_back,
    handed,
    looks_up,
    numbered,
    retrieved,
    said,
    text,
)
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Message, Reading, Role, Said, Span, Tool

_ROW = "braintrust.row"
_SIDES = (("input_json", "input"), ("output_json", "output"))
_ASIDE = {"score", "review", "automation", "facet", "preprocessor", "classifier", "evaluator", "guardrail"}
_FOREIGN = ("gen_ai.", "openinference.", "traceloop.", "llm.", "ai.", "mlflow.", "langfuse.")
_KINDS: Mapping[str, Role] = {
    **dict.fromkeys(("llm", "chat", "generate_content", "text_completion"), "generation"),
    **dict.fromkeys(("retriever", "retrieval", "vector_db_retrieve"), "retrieval"),
    **dict.fromkeys(("embedding", "embeddings"), "embedding"),
    **dict.fromkeys(("tool", "execute_tool"), "tool"),
    **dict.fromkeys(("agent", "invoke_agent"), "agent"),
    "reranker": "rerank",
}
"""What other vocabularies call what a span does, where its attributes were left in the metadata."""
_KIND_NAMES = ("openinference.span.kind", "gen_ai.operation.name", "traceloop.span.kind", "langsmith.span.kind")
_LISTED, _FOUND, _SOUGHT = "retrieval.documents.", "gen_ai.retrieval.documents", "gen_ai.retrieval.query.text"
_SESSIONS = ("session_id", "session.id", "thread_id", "conversation_id", "gen_ai.conversation.id")
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_STEPS = ("seq:step:", "map:key:", "graph:step:", "langsmith:")
_ATTACHED = ("braintrust_attachment", "external_attachment", "inline_attachment")
_BESIDE = ("context", "contexts", "retrieved_contexts", "retrieved_context", "passages", "documents")
_DEEP = 6

_RECORD = "drop notrace_io=True of @traced, or log the input and the output of this span"
_UNMASK = "drop the function given to braintrust.set_masking_function, or let it pass this field, if it may be judged"
_FAILED_MASK = "ERROR: Failed to mask field"
_DETACH = "{} is kept in a Braintrust attachment: log the text itself in place of an Attachment or JSONAttachment"
_LIST = 'let the span that retrieves log a list of documents as its output, [{"id": ..., "text": ...}]'


@dataclass(frozen=True, slots=True)
class _Told:
    """A span of either form: what went in and what came out, with the places they stand in."""

    kind: str
    name: str
    given: Decoded
    given_at: str
    told: Decoded
    told_at: str
    metadata: Mapping[str, Any]
    tags: Any
    environment: str | None
    root: bool
    failed: bool

    def known(self, *names: str) -> str | None:
        """What the metadata says by the first of these names, its own or the one a framework nests in it."""
        inner = self.metadata.get("metadata")
        for held in (self.metadata, inner):
            if held and isinstance(held, dict):
                for name in names:
                    if (told := text(_dotted(held, name))) is not None:
                        return told
        return None


class Braintrust:
    """Reads one row of Braintrust's API, or one span with its OpenTelemetry attributes."""

    name = "braintrust"
    marks = ("braintrust.",)

    def reading(self, span: Span) -> Reading | None:
        """What the span holds, by its type and by what it gave back; None where nothing of it is Braintrust's."""
        row = decode(span.attributes.get(_ROW)).value
        attributes = _said_of(span.attributes)
        sorts = row.get("span_attributes") if isinstance(row, Mapping) else attributes.get("span_attributes")
        sorts = sorts if isinstance(sorts, Mapping) else {}
        kind = (text(sorts.get("type")) or "").lower()
        if sorts.get("purpose") == "scorer" or kind in _ASIDE:
            return Reading("other", aside=True)
        if isinstance(row, Mapping):
            told = _row(row, span, kind, text(sorts.get("name")) or span.name)
        elif attributes:
            told = _attributes(attributes, span, kind, text(sorts.get("name")) or span.name)
        else:
            return None
        left = (told.known(*_KIND_NAMES) or "").lower()
        if left in _ASIDE:
            return Reading("other", aside=True)
        facts = _facts(told)
        foreign = not isinstance(row, Mapping) and not kind and any(n.startswith(_FOREIGN) for n in span.attributes)
        if kind == "log" or foreign:
            return Reading("other", **facts)
        return _READ[_role(told, left)](told, facts)


# --- the two forms ----------------------------------------------------------------------------------------------------


def _said_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The span's own attributes; what the processor puts on every span says nothing of it."""
    held = {n[len("braintrust.") :]: v for n, v in attributes.items() if n.startswith("braintrust.")}
    held = {n: v for n, v in held.items() if n not in {"context_json", "parent", "row", "otel.preserve_attributes"}}
    for name in ("span_attributes", "metadata", "tags"):
        if name in held:
            held[name] = decode(held[name]).value
    return held


def _row(row: Mapping[str, Any], span: Span, kind: str, name: str) -> _Told:
    context = row.get("context")
    origin = context.get("span_origin") if isinstance(context, Mapping) else None
    environment = origin.get("environment") if isinstance(origin, Mapping) else None
    metadata = row.get("metadata")
    return _Told(
        kind,
        name,
        decode(row.get("input")),
        f"{_ROW}.input",
        decode(row.get("output")),
        f"{_ROW}.output",
        metadata if isinstance(metadata, Mapping) else {},
        row.get("tags"),
        text(environment.get("name")) if isinstance(environment, Mapping) else None,
        root=bool(row.get("is_root")) or not span.parent_id,
        failed=bool(row.get("error")) or span.status == "error",
    )


def _attributes(held: Mapping[str, Any], span: Span, kind: str, name: str) -> _Told:
    (given_at, given), (told_at, told) = (
        next(((n, decode(held[n])) for n in names if held.get(n) is not None), (names[1], Decoded(None)))
        for names in _SIDES
    )
    metadata = held.get("metadata")
    return _Told(
        kind,
        name,
        given,
        f"braintrust.{given_at}",
        told,
        f"braintrust.{told_at}",
        metadata if isinstance(metadata, Mapping) else {},
        held.get("tags"),
        None,
        root=not span.parent_id,
        failed=span.status == "error",
    )


def _facts(told: _Told) -> dict[str, Any]:
    prompt = told.metadata.get("prompt")
    version = text(prompt.get("version")) if isinstance(prompt, Mapping) else None
    slices = {
        "prompt_version": told.known("prompt_version") or version,
        "environment": told.environment or told.known("environment"),
    }
    listed = told.tags if isinstance(told.tags, (list, tuple)) else told.metadata.get("tags")
    tags = (text(v) for v in islice(listed, MANY)) if isinstance(listed, (list, tuple)) else ()
    return {
        "session": told.known(*_SESSIONS),
        "user": told.known("user_id", "user.id"),
        "model": told.known("model", "ls_model_name", "invocation_params.model", *_MODELS),
        "slices": {name: value for name, value in slices.items() if value},
        "tags": tuple(t for t in tags if t and not t.startswith(_STEPS)),
    }


# --- which role it plays ----------------------------------------------------------------------------------------------


def _role(told: _Told, left: str) -> Role:
    """What the span did, by its type, by what other vocabularies call it, else by what it gave back."""
    held = told.told.value
    if isinstance(held, Mapping) and "embedding_length" in held:
        return "embedding"
    if told.kind == "llm":
        return "generation"
    return _KINDS.get(left) or _proven(told)


def _proven(told: _Told) -> Role:
    """What the span did, as far as its name, its metadata and what it gave back prove it."""
    held = told.told.value
    if _left(told) is not None:
        return "retrieval"
    if _reranked(told) is not None:
        return "rerank"
    if _looked_up(told):
        return "rerank" if "rerank" in told.name.lower() else "retrieval"
    if told.kind == "tool":
        return "tool"
    # A framework's own model class, or a call nobody typed; the call below it may be traced as well.
    spoken = held.get("role") in ("assistant", "model") if isinstance(held, Mapping) else isinstance(held, str)
    spoken = spoken and not told.root
    talk = told.given.value if isinstance(told.given.value, list) else []
    talked = spoken and talk and all(isinstance(m, Mapping) and "role" in m for m in islice(talk, MANY))
    return "generation" if talked else "request"


def _looked_up(told: _Told) -> bool:
    held = told.told.value
    glue = told.name.startswith("Runnable") and not told.name.startswith("RunnableLambda")
    owned = text(told.metadata.get("class")) or ""
    named = told.known("ls_retriever_name") is not None or looks_up(told.name) or owned.endswith("Retriever")
    # A step that hands on more than what was found (a chain's parallel parts) did not itself look it up.
    several = told.kind in {"task", "eval"} and isinstance(held, Mapping) and len(held) > 1
    if glue or (several and not named):
        return False
    if retrieved(held, told.told_at, named=named, asked=asks(told.given.value)) is not None:
        return True
    steps = told.kind in {"task", "eval"} and not isinstance(held, str)
    return named and not steps and not told.root and not told.failed


# --- by role ----------------------------------------------------------------------------------------------------------


def _request(told: _Told, facts: Mapping[str, Any], role: Role = "request") -> Reading:
    """A chain, an agent or a function: what went in and what came out, and the passages handed on in either."""
    variables, given = handed(told.given.value, told.given_at)
    passed = retrieved(told.told.value, told.told_at)
    return Reading(
        role,
        query=_query(told),
        documents=handed(told.told.value, told.told_at)[1] or given or _beside(told),
        variables=variables,
        output=None if passed else _unwrapped(told.told, told.told_at, reply),
        **_state(told, told.given.value is None and told.told.value is None),
        **facts,
    )


def _beside(told: _Told) -> tuple[Document, ...] | None:
    """The passages a case of an experiment names in its metadata, `hooks.metadata["context"]`, as scorers find them."""
    held = ((name, told.metadata.get(name)) for name in _BESIDE) if told.kind == "eval" else ()
    listed = ((name, [value] if isinstance(value, str) else value) for name, value in held if value)
    found = (handed({"context": value}, f"{_ROW}.metadata.{name}")[1] for name, value in listed)
    return next((documents for documents in found if documents), None)


def _agent(told: _Told, facts: Mapping[str, Any]) -> Reading:
    return _request(told, facts, "agent")


def _generation(told: _Told, facts: Mapping[str, Any]) -> Reading:
    """A call to a model: the conversation it was given, what it said, the tools it asked for, what it cited."""
    held = _choices(told.told.value)
    replied = answered(held, told.told_at) if isinstance(held, Mapping) else ()
    prompt = told.metadata.get("prompt")
    variables = handed(prompt.get("variables"), f"{told.given_at} (prompt)")[0] if isinstance(prompt, Mapping) else {}
    output = _unwrapped(told.told, told.told_at, lambda value: reply(_choices(value)))
    calls = [t for m in replied for t in m.tools if t.arguments is not None]
    return Reading(
        "generation",
        messages=_spoken(told),
        output=output,
        calls=tuple(calls),
        documents=searched(held, told.told_at) if isinstance(held, Mapping) else None,
        citations=mentions(held, told.told_at) if isinstance(held, Mapping) else (),
        variables=variables,
        response_id=told.known("id"),
        **_state(told, (output is None and not calls) or told.given.value is None),
        **facts,
    )


def _retrieval(told: _Told, facts: Mapping[str, Any]) -> Reading:
    """What was looked up and what was found; where one text was found, it is read as a tool that answered so."""
    listed = _left(told)
    held, at = told.told.value, told.told_at
    cut = Said(str(held), at, "truncated") if told.told.cut else None
    found, answer = (listed, None) if listed else ((Document(cut),), None) if cut else given_back(held, at)
    words = _said(answer, at)
    if words is not None and words.state == "present":
        return Reading("tool", query=_query(told), tool=Tool(told.name, result=words), **facts)
    found = (Document(words),) if words is not None else _detached(found, held, at)
    state = _state(told, not found and not (found == () and held is not None))
    remedy = state.pop("remedy", "") or (_LIST if found is None else "")
    return Reading("retrieval", query=_query(told), documents=found, remedy=remedy, **state, **facts)


def _rerank(told: _Told, facts: Mapping[str, Any]) -> Reading:
    """What a reranker kept, in its order."""
    found = _reranked(told) or _left(told) or documents(told.told.value, told.told_at)
    return Reading("rerank", query=_query(told), documents=found, remedy=_LIST, **facts)


def _tool(told: _Told, facts: Mapping[str, Any]) -> Reading:
    """What a tool was asked and what it answered; an empty list says nothing."""
    held, at = told.told.value, told.told_at
    words, found = tool_result(held, at) if held not in (None, [], {}) else (None, ())
    result = Said(str(held), at, "truncated") if told.told.cut else _said(words, at)
    if _attachment(held) is not None:
        result = Said("attachment", at, "elsewhere", _DETACH.format(at))
    ident = text(held.get("tool_call_id")) if isinstance(held, Mapping) else None
    return Reading("tool", query=_query(told), tool=Tool(told.name, ident, result=result, documents=found), **facts)


def _embedding(told: _Told, facts: Mapping[str, Any]) -> Reading:  # noqa: ARG001 - one shape for all roles
    return Reading("embedding", **facts)


_READ: Mapping[Role, Callable[[_Told, Mapping[str, Any]], Reading]] = {
    "request": _request,
    "agent": _agent,
    "generation": _generation,
    "retrieval": _retrieval,
    "rerank": _rerank,
    "tool": _tool,
    "embedding": _embedding,
}


# --- parts ------------------------------------------------------------------------------------------------------------


def _dotted(held: Mapping[str, Any], name: str) -> Any:
    """What stands under a dotted name, flat or nested."""
    if name in held:
        return held[name]
    first, _, rest = name.partition(".")
    inner = held.get(first) if rest else None
    return _dotted(inner, rest) if isinstance(inner, dict) else None


def _said(value: Any, attribute: str) -> Said | None:
    words = said(value, attribute)
    if words is None:
        return None
    masked = words.state == "masked" or words.value.startswith(_FAILED_MASK)
    return replace(words, state="masked", remedy=_UNMASK) if masked else words


def _unwrapped(found: Decoded, attribute: str, unwrap: Callable[[Any], str | None]) -> Said | None:
    """A text out of whatever wraps it; JSON that breaks off is cut, masked is masked, what is attached is elsewhere."""
    if found.cut:
        return Said(str(found.value), attribute, "truncated")
    if isinstance(found.value, Mapping) and found.value.get("type") in _ATTACHED:
        return Said("attachment", attribute, "elsewhere", _DETACH.format(attribute))
    return _said(found.value if isinstance(found.value, str) else unwrap(found.value), attribute)


def _query(told: _Told) -> Said | None:
    sought = said(_dotted(told.metadata, _SOUGHT), f"{_ROW}.metadata.{_SOUGHT}")
    given = told.given.value
    listed = given.get("queries") if isinstance(given, Mapping) else None
    if isinstance(listed, list) and len(listed) == 1:
        return sought or _said(listed[0], told.given_at)
    return sought or (None if documents(given, "") else _unwrapped(told.given, told.given_at, question))


def _spoken(told: _Told) -> tuple[Message, ...]:
    """What a model was given, behind the instructions its API took beside the messages."""
    if told.given.cut:
        return (Message("user", Said(str(told.given.value), told.given_at, "truncated")),)
    if isinstance(told.given.value, str) and (words := _said(told.given.value, told.given_at)) is not None:
        talk: tuple[Message, ...] = (Message("user", words),)
    else:
        talk = conversation(told.given.value, told.given_at)
    ahead = told.metadata.get("instructions") or told.metadata.get("system")
    if not isinstance(ahead, (str, list)) or not talk or talk[0].role == "system":
        return talk
    first = message({"role": "system", "content": ahead}, f"{_ROW}.metadata")
    return (first, *talk) if first is not None else talk


def _choices(value: Any) -> Any:
    """A reply as the provider's API names its parts: a list holds choices, or output items."""
    if not isinstance(value, list) or not value:
        return value
    first = value[0]
    return {"choices": value} if isinstance(first, Mapping) and "message" in first else {"output": value}


def _left(told: _Told) -> tuple[Document, ...] | None:
    """The documents that attributes of other vocabularies tell, left in the metadata by the ingestion of their span."""
    at = f"{_ROW}.metadata"
    flat = [v.get("document") for _, v in numbered(told.metadata, _LISTED)]
    nested = _dotted(told.metadata, _LISTED[:-1])
    listed = list(nested.values()) if isinstance(nested, Mapping) else nested if isinstance(nested, list) else []
    inner = [v.get("document", v) for v in islice(listed, MANY) if isinstance(v, Mapping)]
    return documents(flat or inner or _dotted(told.metadata, _FOUND), at) or None


def _reranked(told: _Told) -> tuple[Document, ...] | None:
    """The documents a reranker was handed, in the order of the places it gave back."""
    held, given = told.told.value, told.given.value
    places = held.get("results") if isinstance(held, Mapping) else held
    if not isinstance(places, list) or not places or not isinstance(given, Mapping):
        return None
    candidates = documents(given.get("documents"), told.given_at)
    order = [p.get("index") if isinstance(p, Mapping) else None for p in islice(places, MANY)]
    if not candidates or any(type(at) is not int or not 0 <= at < len(candidates) for at in order):
        return None
    return tuple(candidates[at] for at in order if at is not None)


def _attachment(value: Any, depth: int = _DEEP) -> str | None:
    """The name of the first attachment in a value."""
    if isinstance(value, Mapping):
        if value.get("type") in _ATTACHED:
            return text(value.get("filename")) or text(value.get("key")) or "attachment"
        value = list(islice(value.values(), MANY))
    if not isinstance(value, list) or depth == 0:
        return None
    return next((name for v in islice(value, MANY) if (name := _attachment(v, depth - 1)) is not None), None)


def _detached(found: tuple[Document, ...] | None, held: Any, at: str) -> tuple[Document, ...] | None:
    """The documents found, those without a text as kept elsewhere where attachments stand for texts."""
    name = _attachment(held) if found is None or any(d.text is None for d in found) else None
    if name is None:
        return found
    kept = Said(name, at, "elsewhere", _DETACH.format("the text of a document"))
    return tuple(d if d.text is not None else replace(d, text=kept) for d in found) if found else (Document(kept),)


def _state(told: _Told, missing: bool) -> dict[str, Any]:  # noqa: FBT001 - the two things a state is made of
    """Where the content is that should be here: nowhere, or in an attachment."""
    if not missing or told.failed:
        return {}
    sides = ((told.given_at, told.given.value), (told.told_at, told.told.value))
    kept = next((at for at, value in sides if _attachment(value) is not None), None)
    if kept is not None:
        return {"content": "elsewhere", "remedy": _DETACH.format(kept)}
    if told.told.value is None and told.given.value is None:
        return {"content": "off", "remedy": _RECORD}
    return {}
