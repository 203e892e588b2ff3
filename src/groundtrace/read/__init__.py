"""Traces become records: conventions say what each span holds, and here it is put together, by one precedence.

`read` takes a trace, `record` makes one by hand. Inside: `tree` finds the requests of a trace (`turns` those of a
session, `twins` those recorded twice), `final` the call that answered, `exchange` the query and the answer, `context`
the passages, `prompt` what a filled prompt holds, `declared` what a user's own mapping says, `gaps` what is missing and
why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from groundtrace.citations import cite
from groundtrace.model import Citation, Gap, Mention, Reading, Record, Ref, Span, Target, Trace
from groundtrace.ports import Convention
from groundtrace.read.context import Context, as_one, find_context, holds_passages
from groundtrace.read.declared import declared_answer, declared_context, declared_query
from groundtrace.read.dispatch import dispatch
from groundtrace.read.exchange import Found, find_answer, find_query, history, named_parts
from groundtrace.read.final import final_generation
from groundtrace.read.gaps import gap, is_damaged, length_limit, limited, lost, mended, nothing_asked
from groundtrace.read.hand import record
from groundtrace.read.masks import veiled
from groundtrace.read.plain import sound
from groundtrace.read.resolve import Resolver, resolved
from groundtrace.read.summaries import Wanted, source_of
from groundtrace.read.tree import Request, Seen, merged, requests, walk

__all__ = ["heard", "read", "readings", "record"]

ROOT_MISSING = "root_missing"
"""The tag of a record whose topmost span names a parent that is not in the trace: with it, it may become another."""


def read(
    trace: Trace, conventions: Sequence[Convention], *, kind: Wanted = "auto", passages: Resolver | None = None
) -> tuple[Record, ...]:
    """The records of a trace: one for each request in it, at least one; what is missing is a gap, never a guess.

    A trace without any request or generation gives one of kind "other". `kind` "summary" reads every request as one
    that summarises what it was given, "answer" none; "auto" tells by the prompt. `passages` gives the text of a
    document of which the trace holds the id alone, or None. Never raises, whatever the spans hold.
    """
    said = heard(trace, conventions, passages)
    made = [(at, r.record) for at, r in said.items() if r.record is not None]
    if made:
        return tuple(_placed(trace, trace.spans[at], given) for at, given in made)
    order = walk(trace, said)
    asked = requests(order, holds_passages)
    if not asked:
        return (_other(trace, order, nothing_asked(trace, said.keys(), [c.name for c in conventions])),)
    if len(asked) == 1:
        return (_record(trace, asked[0], alone=True, wanted=kind),)
    trees = Counter(request.tree for request in asked)
    return tuple(_record(trace, request, alone=trees[request.tree] == 1, wanted=kind) for request in asked)


# --- hearing the conventions ------------------------------------------------------------------------------------------


def heard(trace: Trace, conventions: Sequence[Convention], passages: Resolver | None = None) -> dict[int, Reading]:
    """What is heard of each span, by its position, with the texts that `passages` gives."""
    found = readings(trace, conventions)
    return found if passages is None else {at: resolved(reading, passages) for at, reading in found.items()}


def readings(trace: Trace, conventions: Sequence[Convention]) -> dict[int, Reading]:
    """What the conventions say of each span, by its position; spans are dispatched by the marks they carry."""
    chosen = dispatch(tuple(conventions)).of
    found: dict[int, Reading] = {}
    dropped = False
    for at, span in enumerate(trace.spans):
        dropped = dropped or span.dropped != 0
        said: list[Reading] = []
        for one in chosen(span):  # in the order they are heard: the first to know a thing is believed
            reading = one.reading(span)
            if reading is not None:
                said.append(reading)
        if said:
            found[at] = veiled(merged(said) if len(said) > 1 else said[0])
    limit, mends = length_limit(trace, found.values()), mended(trace)
    if limit is None and not mends and not dropped:
        return found
    return {
        at: limited(reading, trace.spans[at], limit, mend=mends.get(trace.spans[at].id))
        for at, reading in found.items()
    }


# --- putting a record together ----------------------------------------------------------------------------------------


def _record(trace: Trace, request: Request, *, alone: bool, wanted: Wanted) -> Record:
    final = final_generation(request)
    named = named_parts(request, final)
    own = request.top or final or request.seen[-1]
    ref = _ref(trace.ref, None)
    mapped = request.declares
    context = declared_context(request, final, ref) if mapped else None
    source = source_of(request, final, named, wanted) if context is None and own.reading.kind == "answer" else None
    # A summary was made of its source, not for a query.
    forced = wanted == "summary" and context is None
    bare = own.reading.kind == "summary" or source is not None or forced
    if forced and source is None:
        remedy = "no text that could be summarised stands in this request: leave out kind = summary, or map its source"
        context = Context(gap=gap("context", "not_instrumented", remedy))
    if context is None:
        context = as_one(*source, ref) if source is not None else find_context(request, final, named, ref)
    query = declared_query(request, final) if mapped else None
    query = query or (Found() if bare else find_query(request, final, named, context.places))
    answer = (declared_answer(request, final) if mapped else None) or find_answer(request, final)
    citations, doubt = _citations(answer, context, request, final)
    gaps = [g for g in (query.gap, context.gap, answer.gap, doubt) if g is not None]
    here, keys = _ref(ref, own.span.id), _keys(request)
    return Record.trusted(
        id=sound(f"{trace.ref.trace_id}:{own.span.id}"),
        ref=_ref(here, own.span.id, keys) if keys else here,
        targets=_targets(here, request, final, own, alone=alone),
        kind="summary" if bare else own.reading.kind,
        query=query.value,
        context=context.passages,
        answer=answer.value,
        citations=citations,
        history=history(final),
        key_facts=tuple([sound(fact) for fact in own.reading.key_facts]),
        slices=_slices(request, final, own),
        tags=_tags(request, own),
        risk="normal",
        signals=trace.signals,
        gaps=_spelled(gaps) if gaps else (),
        origins=(*query.origins, *answer.origins, *context.origins),
    )


def _other(trace: Trace, order: Sequence[Seen], gaps: tuple[Gap, ...]) -> Record:
    """The record of a trace in which nothing was asked."""
    ref = _ref(trace.ref, order[0].span.id if order else None)
    ident = sound(trace.ref.trace_id)
    gaps = _spelled(gaps)
    return Record(id=ident, ref=ref, targets={"root": ref}, kind="other", signals=trace.signals, gaps=gaps)


def _spelled(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Gaps whose remedies, which name what spans name, are sound texts."""
    return tuple([g.model_copy(update={"remedy": sound(g.remedy)}) for g in gaps])


def _placed(trace: Trace, span: Span, given: Record) -> Record:
    """A record that came ready made, at its place on the platform."""
    ref = _ref(trace.ref, span.id)
    placed: dict[str, object] = {"ref": ref, "targets": {"root": ref, "answer": ref}, "signals": trace.signals}
    mend = mended(trace).get(span.id)
    if mend is not None:
        damaged = {"context": any(is_damaged(p.text) for p in given.context), "answer": is_damaged(given.answer or "")}
        gaps = [lost(name, "damaged", mend) for name in ("context", "answer") if damaged[name]]
        placed |= {gap.field: () if gap.field == "context" else None for gap in gaps}
        placed |= {"gaps": (*given.gaps, *gaps), "citations": () if gaps else given.citations}
    return given.model_copy(update=placed)


def _ref(within: Ref, span_id: str | None, keys: Mapping[str, str] | None = None) -> Ref:
    """A span of the trace that is referred to, or that trace."""
    named, ident = sound(within.trace_id), sound(span_id) if span_id is not None else None
    if named is within.trace_id and ident == within.span_id and not keys:
        return within
    return Ref(within.platform, within.project, named, ident, {**within.keys, **keys} if keys else within.keys)


def _keys(request: Request) -> dict[str, str]:
    """The session and the user, as far as any span of the request tells, or one it stands below."""
    spans = request.seen if request.top is None else (*request.seen, *request.top.above())
    telling = [seen.reading for seen in spans if seen.reading.session or seen.reading.user]
    if not telling:
        return {}
    told = {
        "session_id": next((reading.session for reading in telling if reading.session), None),
        "user_id": next((reading.user for reading in telling if reading.user), None),
    }
    return {name: sound(value) for name, value in told.items() if value}


def _tags(request: Request, own: Seen) -> tuple[str, ...]:
    """The user's own, and what is to be known of the record."""
    told = [sound(tag) for seen in request.seen if seen.reading.tags for tag in seen.reading.tags]
    if own.orphan:
        told.append(ROOT_MISSING)
    return tuple(dict.fromkeys(told)) if told else ()


def _targets(here: Ref, request: Request, final: Seen | None, own: Seen, *, alone: bool) -> dict[Target, Ref]:
    """Where feedback can be attached: the request, whose own span is `here`, the generation, the first retriever."""
    root = own
    if request.top is None and alone:
        root = next(reversed([own, *own.above()]))
    targets: dict[Target, Ref] = {"root": here if root is own else _ref(here, root.span.id)}
    answering = final or own
    reply = answering.reading.response_id
    targets["answer"] = _ref(here, answering.span.id, {"response_id": sound(reply)} if reply else None)
    retrievers = request.of("retrieval")
    retrieval = next(iter(retrievers or request.of("rerank") or request.of("tool")), None)
    if retrieval is not None:
        for inner in retrievers[1:]:
            # A function around a retriever may be traced as one too: what it holds is the retriever.
            retrieval = inner if retrieval in inner.above() else retrieval
        targets["retrieval"] = _ref(here, retrieval.span.id)
    return targets


def _slices(request: Request, final: Seen | None, own: Seen) -> dict[str, str]:
    """What scores can be compared by: what made the answer, and where it ran."""
    resource = own.span.resource
    if final is not None and final.span.resource is not resource:
        resource = {**final.span.resource, **resource}
    embeddings = [s.reading.model for s in request.of("embedding") if s.reading.model]
    retrievers = [s.span.name for s in request.of("retrieval") if s.span.name]
    known: dict[str, object] = {
        "generator_model": (final or own).reading.model,
        "embedding_model": embeddings[0] if embeddings else None,
        "retriever": retrievers[0] if retrievers else None,
        "environment": resource.get("deployment.environment.name") or resource.get("deployment.environment"),
        "service": resource.get("service.name"),
    }
    for seen in reversed(request.seen):
        if seen.reading.slices:
            known.update(seen.reading.slices)
    return {name: sound(str(value)) for name, value in known.items() if value}


# --- citations --------------------------------------------------------------------------------------------------------


def _citations(
    answer: Found, context: Context, request: Request, final: Seen | None
) -> tuple[tuple[Citation, ...], Gap | None]:
    """The answer's citations; none of its numbers is resolved where it is in doubt what they count.

    They are those of the generation, else of the request's own span, as of a pipeline that built the answer.
    """
    if answer.value is None:
        return (), None
    citing = [s.reading for s in (final, request.top) if s is not None and s.reading.citations]
    told = citing[0].output.value if citing and citing[0].output is not None else ""
    mentions = citing[0].citations if citing else ()
    noted = [_placed_in(answer.value, m, told, context) for m in mentions]
    cited = cite(answer.value, context.passages, noted, counted=context.counted)
    if context.doubt is None or not any(c.origin == "inline" for c in cited):
        return cited, None
    open_ended = (c.model_copy(update={"passage_id": None}) if c.origin == "inline" else c for c in cited)
    return tuple(open_ended), context.doubt


def _placed_in(answer: str, mention: Mention, told: str, context: Context) -> Mention:
    """A provider's citation with the passage its block became, by its words where the answer is not what was told."""
    block = context.cited.get(mention.document) if mention.document is not None else None
    mention = replace(mention, document=None, document_id=block or mention.document_id)
    if told == answer or mention.start is None or mention.end is None:
        return mention
    return replace(mention, start=None, end=None, claim=told[mention.start : mention.end] or None)
