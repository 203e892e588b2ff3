"""How a trace was read: what each span says, and for every field the places looked at, in order, and why each lost.

The same functions that put a record together say what comes first; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from groundtrace.model import Message, Reading, Record, Ref, Said, Struct, Trace
from groundtrace.ports import Convention
from groundtrace.read import context as contexts
from groundtrace.read import exchange
from groundtrace.read.prompt import numbered
from groundtrace.read.tree import Request, Seen, requests, walk

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


def explain(
    trace: Trace, conventions: Sequence[Convention], heard: dict[int, Reading], records: Sequence[Record]
) -> Explained:
    """How a trace was read; `heard` is what its spans said, by position, and `records` what came of it."""
    order = walk(trace, heard)
    asked = requests(order, contexts.holds_passages)
    told: list[Told] = []
    for at, record in enumerate(records):
        request = asked[at] if at < len(asked) and len(asked) == len(records) else None
        told.append(Told(record, tuple(_places(request, record, trace.ref)) if request is not None else ()))
    spoken = {trace.spans[at].id for at in heard}
    names = ", ".join(convention.name for convention in conventions)
    return Explained(trace.ref.trace_id, tuple(_line(seen, spoken, names) for seen in order), tuple(told))


def _line(seen: Seen, spoken: set[str], names: str) -> Line:
    depth = sum(1 for _ in seen.above())
    remark = "" if seen.span.id in spoken else f"says nothing in what is understood here ({names})"
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
    final = exchange.final_generation(request)
    named = exchange.named_parts(request, final)
    context = contexts.find_context(request, final, named, ref)
    yield from _queries(record, list(exchange.candidates(request, final, named, context.places)))
    yield from _contexts(request, final, named, record)
    yield from _answers(request, final, record)


def _queries(record: Record, found: Sequence[tuple[Said, Seen]]) -> Iterator[Place]:
    over = False
    for said, seen in found:
        taken = not over and _is_origin(record, "query", said, seen)
        lost = "an earlier place holds the query" if over else "cut, and what is left does not hold it"
        lost = "a summary was made of its source, not for a query" if record.kind == "summary" else lost
        yield Place("query", seen.span.id, said.attribute, said.value, _verdict(said, lost, taken=taken))
        over = over or taken


def _contexts(request: Request, final: Seen | None, named: Seen | None, record: Record) -> Iterator[Place]:
    origins = {(o.span_id, o.attribute) for o in record.origins if o.field.startswith("context")}
    texts = [(s.said, s.seen) for s in contexts.shown(final, named)]
    texts += [(s.said, s.seen) for s in contexts.tool_results(request, final)]
    over = False
    for said, seen in texts:
        taken = (seen.span.id, said.attribute) in origins
        lost = "its passages stand in another place" if numbered(said.value) else "no passages are told apart in it"
        yield Place("context", seen.span.id, said.attribute, said.value, _verdict(said, lost, taken=taken))
        over = over or taken
    for seen in request.seen:
        documents = seen.reading.documents
        if documents is None:
            continue
        said = next((d.text for d in documents if d.text is not None), Said())
        lost = "nothing was retrieved here" if not documents else "the same texts are taken from another place"
        lost = "the model was shown them: ids, scores and the place for feedback are taken from here" if over else lost
        verdict = _verdict(said, lost, taken=(seen.span.id, said.attribute) in origins)
        yield Place("context", seen.span.id, said.attribute, f"{len(documents)} documents", verdict)


def _answers(request: Request, final: Seen | None, record: Record) -> Iterator[Place]:
    around = list(exchange.around(request, final))
    every = {s.place: s for s in (*around, *((final,) if final is not None else ()), *request.of("generation"))}
    for seen in every.values():
        said = seen.reading.output
        if said is None:
            continue
        taken = any(_is_origin(record, field, said, seen) for field in ("answer", "answer.generated"))
        lost = "the call's own words are the same" if seen in around else "not the call that made the answer"
        yield Place("answer", seen.span.id, said.attribute, said.value, _verdict(said, lost, taken=taken))


def _verdict(said: Said, lost: str, *, taken: bool) -> str:
    if taken:
        return "taken"
    if said.state == "present":
        return lost
    return said.state + (f": {said.remedy}" if said.remedy else "")


def _is_origin(record: Record, field: str, said: Said, seen: Seen) -> bool:
    return any(o.field == field and o.span_id == seen.span.id and o.attribute == said.attribute for o in record.origins)
