"""LangSmith, spans its SDK exports through OpenTelemetry and runs as its API hands them over.

Both hold a run: its type, inputs, outputs and metadata. A span tells them as `langsmith.span.kind`, `gen_ai.prompt`,
`gen_ai.completion` (JSON) and `langsmith.metadata.*`; its `gen_ai.operation.name` is of no use ("embeddings" on a
retriever, "chat" on a prompt template). A run of the API is one attribute, `langsmith.run`, the row as it came.

Source: the exporter of langsmith 0.15.1, and captures made with it and langchain-core 1.8.3, langchain 1.5.2,
langgraph 1.2.24, langchain-classic 1.0.8, openai 3.57.0 and anthropic 2.14.0: chains of both generations, compressing
and joined retrievers, graphs, agents with tools, @traceable functions, wrapped clients, and hidden inputs and outputs
(`{}` on every run). Not verified, for no platform was at hand: payloads kept in object storage, rows of its second API,
runs that spans of others became there, `langsmith.trace.session_id` (the SDK writes the project's id to it).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from groundtrace.conventions.cited import mentions, searched
from groundtrace.conventions.messages import CONTEXTS, answered, conversation, tool_result
from groundtrace.conventions.shapes import MANY, decode, documents, said, text
from groundtrace.conventions.wrapped import question, reply
from groundtrace.model import Document, Mention, Message, Reading, Said, Span, Tool

_ROW = "langsmith.run"
_KIND, _METADATA = "langsmith.span.kind", "langsmith.metadata."
_NAMES = (*CONTEXTS, "source_documents", "retrieved_docs", "input_documents")
_UNREAD = {"parser": ("inputs", "outputs"), "embedding": ("inputs", "outputs"), "prompt": ("outputs",)}
"""The sides of a run that tell nothing other runs do not."""
_SESSIONS = ("session_id", "thread_id", "conversation_id")
_STEPS = ("seq:step:", "map:key:", "graph:step:", "langsmith:")
_EVALUATORS = "evaluators"
"""The project the SDK traces evaluators into."""

_UNHIDE = "unset LANGSMITH_HIDE_{} in the traced process, and hide_{} of its langsmith.Client"
_STORED = "the {0} are kept apart from the run: fetch {0}_s3_urls.ROOT.presigned_url into its {0}"
_MASKED = (
    "a filter masks this text: unset anonymizer, hide_inputs and hide_outputs of the traced process's langsmith.Client"
)
_FAILED = "the retriever run failed, nothing was retrieved"
_SELECT = "the run was pulled without its {0}: select {0}"
_LIST = 'let the retriever run return a list of documents, [{"page_content": ..., "metadata": ...}]'
_SHORT = 32  # characters a streamed piece has, at most and on average: passages are longer


@dataclass(frozen=True, slots=True)
class _Side:
    """The inputs or the outputs of a run: its named parts, the attribute they stand in, what stands for lost ones."""

    held: Mapping[str, Any]
    place: str
    lost: Said | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of either form."""

    kind: str
    name: str
    inputs: _Side
    outputs: _Side
    metadata: Callable[[str], Any]
    status: str


class LangSmith:
    """Reads one span of LangSmith's OpenTelemetry export, or one run of its API."""

    name = "langsmith"
    marks = ("langsmith.",)

    def reading(self, span: Span) -> Reading | None:
        """What the run holds, by its type; of a span without one, whose session it is."""
        run = _row(span) if _ROW in span.attributes else _span(span)
        if run is None:
            return None
        facts = _facts(span, run)
        if not run.kind:
            return Reading("other", **facts) if any(facts.values()) else None
        read = _READ.get(run.kind)
        # A parser is a step of its chain, whatever the operation's name makes of it.
        return read(run, facts) if read is not None else Reading("request", **facts)


# --- the two forms ----------------------------------------------------------------------------------------------------


def _span(span: Span) -> _Run:
    held = span.attributes
    # Spans that are not the SDK's own may be marked for LangSmith; it takes these names too.
    given = "input.value" if "input.value" in held and "gen_ai.prompt" not in held else "gen_ai.prompt"
    told = "output.value" if "output.value" in held and "gen_ai.completion" not in held else "gen_ai.completion"
    kind = (text(held.get(_KIND)) or "").lower()
    unread = _UNREAD.get(kind, ())
    return _Run(
        kind,
        text(held.get("langsmith.trace.name")) or span.name,
        _Side({}, given) if "inputs" in unread else _side(held.get(given), given, "inputs"),
        _Side({}, told) if "outputs" in unread else _side(held.get(told), told, "outputs", ended=span.status == "ok"),
        lambda name: held.get(f"{_METADATA}{name}"),
        span.status,
    )


def _row(span: Span) -> _Run | None:
    row = decode(span.attributes[_ROW]).value
    if not isinstance(row, Mapping):
        return None
    extra = decode(row.get("extra")).value
    metadata = extra.get("metadata") if isinstance(extra, Mapping) else None
    metadata = metadata if isinstance(metadata, Mapping) else decode(row.get("metadata")).value
    known = metadata if isinstance(metadata, Mapping) else {}
    told = text(row.get("status")) or ""
    status = "error" if row.get("error") else {"success": "ok", "error": "error"}.get(told.lower(), span.status)
    return _Run(
        (text(row.get("run_type")) or "").lower(),
        text(row.get("name")) or span.name,
        _stored(row, "inputs") or _side(row["inputs"], f"{_ROW}.inputs", "inputs"),
        _stored(row, "outputs") or _side(row["outputs"], f"{_ROW}.outputs", "outputs", ended=status == "ok"),
        known.get,
        status,
    )


def _stored(row: Mapping[str, Any], side: str) -> _Side | None:
    """A side of a run that is not in its row: kept in object storage, or not asked for."""
    place = f"{_ROW}.{side}"
    if not row.get(side) and row.get(f"{side}_s3_urls"):
        return _Side({}, place, Said("", place, "elsewhere", _STORED.format(side)))
    if side not in row:
        return _Side({}, place, Said("", place, "elsewhere", _SELECT.format(side)))
    return None


def _side(value: Any, place: str, side: str, *, ended: bool = True) -> _Side:
    """A side of a run, its parts by name: what is no object is wrapped as the SDK wraps it."""
    found = decode(value)
    if found.cut:
        return _Side({}, place, Said(str(found.value), place, "truncated"))
    held = found.value
    if isinstance(held, Mapping):
        hidden = Said("", place, "off", _UNHIDE.format(side.upper(), side)) if ended and not held else None
        return _Side(held, place, hidden)
    return _Side({} if held is None else {side.removesuffix("s"): held}, place)


def _facts(span: Span, run: _Run) -> dict[str, Any]:
    held = span.attributes
    project = text(held.get("langsmith.trace.session_name"))
    # LangSmith calls a project a session too: the SDK names it, and then the id is the project's.
    own = None if project else text(held.get("langsmith.trace.session_id"))
    model = text(held.get("gen_ai.response.model")) or text(held.get("gen_ai.request.model"))
    version = text(run.metadata("lc_hub_commit_hash"))
    return {
        "session": next((t for name in _SESSIONS if (t := text(run.metadata(name)))), own),
        "user": text(run.metadata("user_id")),
        "model": model or text(run.metadata("ls_model_name")) or text(run.outputs.held.get("model")),
        "slices": {"prompt_version": version} if version else {},
        "tags": _tags(span),
        "aside": project == _EVALUATORS,
    }


def _tags(span: Span) -> tuple[str, ...]:
    """The user's own tags, without those that count the steps of a chain."""
    row = decode(span.attributes.get(_ROW)).value if _ROW in span.attributes else None
    told = row.get("tags") if isinstance(row, Mapping) else span.attributes.get("langsmith.span.tags")
    listed = told.split(", ") if isinstance(told, str) else told if isinstance(told, (list, tuple)) else ()
    return tuple(t for v in islice(listed, MANY) if (t := text(v)) and not t.startswith(_STEPS))


# --- by type ----------------------------------------------------------------------------------------------------------


def _chain(run: _Run, facts: Mapping[str, Any]) -> Reading:
    """A chain, a graph, a node or a function: what went in, what came out, and the passages handed on in either."""
    # A function without arguments has no inputs either: they count as hidden where nothing else tells the question.
    lost = run.inputs.lost
    off = lost is not None and lost.state == "off"
    node = run.metadata("langgraph_node") is not None
    # A graph's state outlives the turn: what a node is given, or a graph with a thread gives back, may be an old one's.
    aged = not node and run.metadata("ls_integration") == "langgraph" and run.metadata("thread_id") is not None
    named = not node and any(name in run.inputs.held for name in _NAMES)
    variables, given = _variables(run.inputs) if named else ({}, None)
    handed = (None if aged else _handed(run.outputs)) or given
    told = _peeled(run.outputs.held)
    whole = _streamed(told) or (None if handed and isinstance(told, list) else reply(told))
    return Reading(
        "request",
        query=_asked(run) if lost is None or off else lost,
        documents=handed,
        output=run.outputs.lost or said(whole, run.outputs.place, _MASKED),
        variables=variables if named else {} if aged else _joined(run.outputs),
        content="off" if off else "present",
        remedy=lost.remedy if lost is not None and off else "",
        **facts,
    )


def _prompt(run: _Run, facts: Mapping[str, Any]) -> Reading:
    """A prompt template: the parts that filled it."""
    variables, handed = _variables(run.inputs)
    return Reading("request", documents=handed, variables=variables, **facts)


def _llm(run: _Run, facts: Mapping[str, Any]) -> Reading:
    """A call to a model: the conversation it was given, what it said, the tools it asked for, what it cited."""
    given, told = run.inputs, run.outputs
    spoken = conversation(given.held, given.place)
    variables, handed = ({}, None) if spoken else _variables(given)
    if not spoken and len(variables) == 1 and not handed and len(given.held) == 1:
        spoken, variables = (Message("user", next(iter(variables.values()))),), {}
    if given.lost is not None and given.lost.state == "truncated":
        spoken = (Message("user", given.lost),)
    replied = answered(told.held, told.place)
    found = [d for m in replied for d in m.documents]
    off = given.lost if given.lost is not None and given.lost.state != "truncated" else None
    return Reading(
        "generation",
        messages=spoken,
        output=told.lost or said(reply(told.held), told.place, _MASKED),
        calls=tuple(t for m in replied for t in m.tools if t.arguments is not None),
        documents=searched(told.held, told.place) or (tuple(found) if found else handed),
        citations=_citations(told),
        variables=variables,
        response_id=_response_id(told.held),
        content=off.state if off is not None else "present",
        remedy=off.remedy if off is not None else "",
        **facts,
    )


def _retriever(run: _Run, facts: Mapping[str, Any]) -> Reading:
    """What a retriever was asked and what it found; where it found one text, it is read as a tool that answered so."""
    told = run.outputs
    asked = _asked(run)
    peeled = _peeled(told.held)
    cut = told.lost if told.lost is not None and told.lost.state == "truncated" else None
    off = told.lost if cut is None else None
    found = (Document(cut),) if cut is not None else documents(peeled, told.place)
    if found is None and (joined := said(peeled, told.place) or next(iter(_joined(told).values()), None)) is not None:
        return Reading("tool", query=asked, tool=Tool(run.name, result=joined), **facts)
    missing = _FAILED if run.status == "error" else _LIST
    remedy = off.remedy if off is not None else missing if found is None else ""
    return Reading(
        "retrieval",
        query=asked,
        documents=found,
        content=off.state if off is not None else "present",
        remedy=remedy,
        **facts,
    )


def _tool(run: _Run, facts: Mapping[str, Any]) -> Reading:
    """What a tool was asked and what it answered: a text, documents, or a message with documents beside its text."""
    told = run.outputs
    asked = _asked(run)
    result = _peeled(told.held)
    inner = result.get("update") if isinstance(result, Mapping) else None
    if isinstance(inner, Mapping):
        result = inner.get("messages", result)
    if isinstance(result, list) and len(result) == 1 and isinstance(result[0], Mapping):
        result = result[0] if result[0].get("type") == "tool" else result
    words, found = tool_result(result, told.place) if told.held else (None, ())
    ident = text(result.get("tool_call_id")) if isinstance(result, Mapping) else None
    tool = Tool(run.name, ident, result=told.lost or said(words, told.place), documents=found)
    return Reading("tool", query=asked, tool=tool, **facts)


_READ: Mapping[str, Callable[[_Run, Mapping[str, Any]], Reading]] = {
    "chain": _chain,
    "llm": _llm,
    "retriever": _retriever,
    "tool": _tool,
    "prompt": _prompt,
    "embedding": lambda _, facts: Reading("embedding", **facts),
}


# --- parts ------------------------------------------------------------------------------------------------------------


def _asked(run: _Run) -> Said | None:
    return said(question(run.inputs.held) if run.inputs.held else None, run.inputs.place, _MASKED)


def _peeled(held: Mapping[str, Any]) -> Any:
    """What a function returned: the SDK puts all but objects under `output`, and objects too at times."""
    value: Any = held
    for _ in range(3):
        if isinstance(value, Mapping) and len(value) == 1 and "output" in value:
            value = value["output"]
    return value


def _variables(side: _Side) -> tuple[dict[str, Said], tuple[Document, ...] | None]:
    """The named parts that are texts, and the passages among them that were handed over as a list."""
    named = {str(k): s for k, v in islice(side.held.items(), MANY) if (s := said(v, side.place)) is not None}
    return named, _listed(side.held, side.place)


def _handed(side: _Side) -> tuple[Document, ...] | None:
    """The passages a step hands on: named as such, or all it returns and documents each of them."""
    peeled = _peeled(side.held)
    if isinstance(peeled, Mapping):
        return _listed(peeled, side.place)
    if isinstance(peeled, list) and peeled and not any(isinstance(item, str) for item in islice(peeled, MANY)):
        return _texts(documents(peeled, side.place))
    return None


def _listed(held: Mapping[str, Any], place: str) -> tuple[Document, ...] | None:
    for name in (name for name in _NAMES if name in held):
        listed = held[name]
        if not isinstance(listed, list) or not listed:
            continue
        # Sources that are plain texts are names or addresses.
        if name == "sources" and any(isinstance(item, str) for item in islice(listed, MANY)):
            continue
        if (found := _texts(documents(listed, place))) is not None:
            return found
    return None


def _texts(found: tuple[Document, ...] | None) -> tuple[Document, ...] | None:
    return tuple(d for d in found or () if d.text is not None) or None


def _joined(side: _Side) -> dict[str, Said]:
    """The passages a step hands on as one text."""
    peeled = _peeled(side.held)
    if not isinstance(peeled, Mapping):
        return {}
    named = ((name, peeled[name]) for name in _NAMES if name in peeled and name != "sources")
    return {name: words for name, value in named if (words := said(value, side.place)) is not None}


def _streamed(value: Any) -> str | None:
    """A text that was yielded in pieces: short ones, and white space stands where they meet."""
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(v, str) for v in value):
        return None
    meets = any(v[:1].isspace() for v in value[1:]) or any(v[-1:].isspace() for v in value[:-1])
    whole = "".join(value)
    return whole if meets and len(whole) <= _SHORT * len(value) else None


def _reply(held: Mapping[str, Any]) -> Mapping[str, Any]:
    """The provider's reply, or the message LangChain made of it."""
    value: Any = held.get("generations")
    for _ in range(3):
        if isinstance(value, list) and value:
            value = value[0]
    spoken = value.get("message") if isinstance(value, Mapping) else None
    inner = spoken.get("kwargs", spoken) if isinstance(spoken, Mapping) else None
    return inner if isinstance(inner, Mapping) else held


def _citations(side: _Side) -> tuple[Mention, ...]:
    held = _reply(side.held)
    peeled = held.get("output")
    return mentions(peeled if isinstance(peeled, Mapping) else held, side.place)


def _response_id(held: Mapping[str, Any]) -> str | None:
    """The provider's id of the reply; LangChain puts its own where it has none."""
    inner = _reply(held)
    more = inner.get("response_metadata")
    found = (text(more.get("id")) if isinstance(more, Mapping) else None) or text(inner.get("id"))
    return found if found and not found.startswith(("lc_run-", "run-")) else None
