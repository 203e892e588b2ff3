"""How a trace was read: what each span says, and for every field the places looked at, in order, and why each lost.

The same functions that put a record together say what comes first; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from groundtrace.model import Document, Message, Reading, Record, Ref, Said, Struct, Trace
from groundtrace.read import context as contexts
from groundtrace.read import exchange
from groundtrace.read.final import around, final_generation
from groundtrace.read.prompt import numbered
from groundtrace.read.tree import Request, Seen, requests, walk
from groundtrace.text import folded

Part = Literal["query", "context", "answer"]


class Held(Struct, frozen=True):
    """One thing a span says: the attribute it stands in, and its text or count; `state` where it is not whole."""

    what: str
    attribute: str
    text: str
    state: str = "present"


class Line(Struct, frozen=True):
    """One span in the order of its tree: how deep it stands, what it is taken for, and what it says."""

    depth: int
    span_id: str
    name: str
    role: str
    held: tuple[Held, ...] = ()
    remark: str = ""


class Place(Struct, frozen=True):
    """One place a field was looked for; `verdict` is "taken", or why it was not."""

    part: Part
    span_id: str
    attribute: str
    text: str
    verdict: str


class Told(Struct, frozen=True):
    """How one record came to be: the places of each field in the order they count."""

    record: Record
    places: tuple[Place, ...] = ()


class Explained(Struct, frozen=True):
    """How a trace was read: its spans, and each of its records."""

    trace_id: str
    lines: tuple[Line, ...]
    records: tuple[Told, ...]


def explain(trace: Trace, heard: dict[int, Reading], records: Sequence[Record]) -> Explained:
    """How a trace was read; `heard` is what its spans said, by position, and `records` what came of it."""
    order = walk(trace, heard)
    asked = requests(order, contexts.holds_passages)
    told: list[Told] = []
    for at, record in enumerate(records):
        request = asked[at] if at < len(asked) and len(asked) == len(records) else None
        told.append(Told(record, tuple(_places(request, record, trace.ref)) if request is not None else ()))
    spoken = {trace.spans[at].id for at in heard}
    return Explained(trace.ref.trace_id, tuple(_line(seen, spoken) for seen in order), tuple(told))


def _line(seen: Seen, spoken: set[str]) -> Line:
    depth = sum(1 for _ in seen.above())
    remark = "" if seen.span.id in spoken else "says nothing in what is understood here"
    if seen.reading.aside:
        remark = "stands aside: an evaluator or a guardrail is no part of the request"
    elif seen.reading.content != "present":
        remark = f"content {seen.reading.content}" + (f": {seen.reading.remedy}" if seen.reading.remedy else "")
    return Line(depth, seen.span.id, seen.span.name, seen.reading.role, tuple(_held(seen.reading)), remark)


def _held(reading: Reading) -> Iterator[Held]:
    """What a reading holds, in the words of the record."""
    for what, said in (("query", reading.query), ("output", reading.output)):
        if said is not None:
            yield Held(what, said.attribute, said.value, said.state)
    for name, said in reading.variables.items():
        yield Held(f"variable {name}", said.attribute, said.value, said.state)
    if reading.documents is not None:
        first = next((d.text for d in reading.documents if d.text is not None), None)
        lacking = sum(d.text is None for d in reading.documents)
        told = f"{len(reading.documents)} documents" + (f", {lacking} without a text" if lacking else "")
        yield Held("documents", first.attribute if first else "", told, first.state if first else "present")
    yield from (_message(message) for message in reading.messages)
    if reading.tool is not None and reading.tool.result is not None:
        result = reading.tool.result
        yield Held(f"result of {reading.tool.name or 'a tool'}", result.attribute, result.value, result.state)
    if reading.calls:
        yield Held("asks for", "", ", ".join(call.name or "a tool" for call in reading.calls))
    if reading.citations:
        yield Held("citations", reading.citations[0].attribute, f"{len(reading.citations)} noted by the provider")


def _message(message: Message) -> Held:
    said = message.text
    beside = [f"{len(message.documents)} documents"] if message.documents else []
    beside += [f"{len(message.tools)} tool calls or results"] if message.tools else []
    text = "; ".join([said.value if said is not None else "no text", *beside])
    return Held(f"message of {message.role}", said.attribute if said else "", text, said.state if said else "present")


# --- the precedence, walked again ------------------------------------------------------------------------------------


def _places(request: Request, record: Record, ref: Ref) -> Iterator[Place]:
    final = final_generation(request)
    named = exchange.named_parts(request, final)
    context = contexts.find_context(request, final, named, ref)
    yield from _queries(record, list(exchange.candidates(request, final, named, context.places)))
    yield from _contexts(request, final, named, record)
    yield from _answers(request, final, record)


def _queries(record: Record, found: Sequence[tuple[Said, Seen]]) -> Iterator[Place]:
    over = False
    for said, seen in found:
        taken = not over and _is_origin(record, "query", said, seen)
        lost = "an earlier place holds the query" if over else "what is left of it does not hold the query"
        lost = "a summary was made of its source, not for a query" if record.kind == "summary" else lost
        yield Place(
            "query", seen.span.id, said.attribute, said.value, _verdict(record, "query", said, lost, taken=taken)
        )
        over = over or taken


def _contexts(request: Request, final: Seen | None, named: Seen | None, record: Record) -> Iterator[Place]:
    origins = {(o.span_id, o.attribute) for o in record.origins if o.field.startswith("context")}
    passages = {folded(passage.text) for passage in record.context}
    texts = [(s.said, s.seen) for s in contexts.shown(final, named)]
    texts += [(s.said, s.seen) for s in contexts.tool_results(request, final)]
    for said, seen in texts:
        whole = folded(said.value)
        holds = any(passage in whole for passage in passages)
        taken = holds and (seen.span.id, said.attribute) in origins
        lost = (
            "its passages stand in another place"
            if holds or numbered(said.value)
            else "no passages are told apart in it"
        )
        yield Place(
            "context", seen.span.id, said.attribute, said.value, _verdict(record, "context", said, lost, taken=taken)
        )
    for what, seen, documents in _listed(request, final):
        yield _documents(record, passages, what=what, seen=seen, documents=documents)


def _listed(request: Request, final: Seen | None) -> Iterator[tuple[str, Seen, tuple[Document, ...] | None]]:
    """The documents spans told as such, and the retrievals that told none; blocks handed to the model first."""
    blocks = tuple(d for m in final.reading.messages for d in m.documents) if final is not None else ()
    if final is not None and blocks:
        yield "handed to the model as blocks", final, blocks
    for seen in request.seen:
        tool = seen.reading.tool
        if seen.reading.documents is not None or seen.reading.role in {"retrieval", "rerank"}:
            yield seen.reading.role, seen, seen.reading.documents
        elif tool is not None and tool.documents:
            yield f"listed by {tool.name or 'a tool'}", seen, tool.documents


def _documents(
    record: Record, passages: set[str], *, what: str, seen: Seen, documents: tuple[Document, ...] | None
) -> Place:
    """What became of a list of documents: how many of them are in the context."""
    if documents is None:
        return Place(
            "context", seen.span.id, "", what, f"its documents are not recorded; {seen.reading.remedy}".rstrip("; ")
        )
    texts = [d.text for d in documents if d.text is not None]
    first = next(iter(texts), Said())
    kept = sum(any(passage in folded(t.value) or folded(t.value) in passage for passage in passages) for t in texts)
    origins = {(o.span_id, o.attribute) for o in record.origins if o.field.startswith("context")}
    taken = kept > 0 and any((seen.span.id, text.attribute) in origins for text in texts)
    lacking = len(documents) - len(texts)
    if not documents:
        lost = "nothing was retrieved here"
    elif lacking:
        lost = f"{lacking} of {len(documents)} have no text"
    elif kept < len(texts):
        lost = (
            f"{kept} of {len(documents)} are in the context: what the model was shown, or a reranker, left out the rest"
        )
    else:
        lost = "they stand in the context as another place shows them; ids, scores and the place for feedback are these"
    verdict = _verdict(record, "context", first, lost, taken=taken)
    return Place("context", seen.span.id, first.attribute, f"{len(documents)} documents, {what}", verdict)


def _answers(request: Request, final: Seen | None, record: Record) -> Iterator[Place]:
    every = {
        s.place: s
        for s in (*around(request, final), *((final,) if final is not None else ()), *request.of("generation"))
    }
    told = folded(record.answer or "")
    for seen in every.values():
        said = seen.reading.output
        if said is None:
            continue
        taken = any(_is_origin(record, field, said, seen) for field in ("answer", "answer.generated"))
        same = folded(said.value) == told
        lost = "the call's own words are the same" if same else "not the call that made the answer"
        yield Place(
            "answer", seen.span.id, said.attribute, said.value, _verdict(record, "answer", said, lost, taken=taken)
        )


def _verdict(record: Record, part: Part, said: Said, lost: str, *, taken: bool) -> str:
    """Why a place counts or not, as far as the record shows it."""
    gap = record.gap(part)
    if gap is not None and lost.endswith("have no text"):
        return lost
    if taken and gap is None:
        return "taken"
    if said.state != "present":
        return said.state + (f": {said.remedy}" if said.remedy else "")
    return f"not used: the field is {gap.reason.replace('_', ' ')}" if gap is not None else lost


def _is_origin(record: Record, field: str, said: Said, seen: Seen) -> bool:
    return any(o.field == field and o.span_id == seen.span.id and o.attribute == said.attribute for o in record.origins)
