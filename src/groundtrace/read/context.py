"""The passages an answer was given, in the order its markers count them.

What the model was shown comes first: passages its prompt numbers or holds, blocks handed over, results of the tools
it called in this turn. What retrievers, rerankers and tools recorded supplies ids, scores, metadata and the place
feedback can be attached to, matched by text; it is the context itself where no prompt shows any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from groundtrace.model import Document, Gap, Message, Origin, Passage, Ref, Said, Struct
from groundtrace.read.gaps import gap, lost, part
from groundtrace.read.ids import content_id, unique_id
from groundtrace.read.known import MANY, SAME, Known, counted, facts_of, known_of, words_of
from groundtrace.read.masks import holds_mask
from groundtrace.read.plain import facts as plain_facts
from groundtrace.read.plain import sound
from groundtrace.read.prompt import Entry, Span, context_section, numbered, places
from groundtrace.read.tree import Request, Seen
from groundtrace.read.turns import asked_at
from groundtrace.read.unknown import fed_elsewhere, is_empty, lacking, nothing, of_no_account, until_answered
from groundtrace.text import folded

_CONTEXTS = (
    *("context", "contexts", "context_str", "documents", "docs", "passages", "sources", "chunks", "text_chunks"),
    *("retrieved_documents", "retrieved_context", "search_results", "evidence", "knowledge"),
)
"""The parts of a prompt that may hold the passages, in the order they are looked at."""

_FEW = 20  # messages of one turn of the user's that passages are looked for in
_NO_TEXT = (
    "the text of {id} is not in the trace, those of other passages are: record it, or let the function named by "
    "`passages` in the plan give it"
)
_FED_ELSEWHERE = (
    "what was retrieved stands in the prompt of another call, and not in that of the call that answered: instrument "
    "the retrieval, or the tool, that this one was given"
)


_NO_FACTS: Mapping[str, Any] = MappingProxyType({})


class Context(Struct, frozen=True):
    """The passages and where each was read; a gap where they are not known; a doubt where their numbers are not."""

    passages: tuple[Passage, ...] = ()
    origins: tuple[Origin, ...] = ()
    gap: Gap | None = None
    doubt: Gap | None = None
    places: Mapping[str, tuple[Span, ...]] = msgspec.field(default_factory=dict)
    """Where passages stand in the texts the model was shown."""
    cited: Mapping[int, str] = msgspec.field(default_factory=dict)
    """The passage that stands for each document block the model was handed, by the block's position."""
    counted: bool = False
    """Whether the ranks are the numbers the model was shown."""


class _Shown(Struct, frozen=True):
    """A text the model was shown; `holds_nothing_else` where no instructions or question stand in it."""

    said: Said
    seen: Seen
    holds_nothing_else: bool = False
    documents: tuple[Document, ...] = ()


class _Found(Struct, frozen=True):
    """A passage on its way: its text, where it was read, its number there, and what else is known of it.

    `key` is its text's matching form, where that was asked for already.
    """

    said: Said
    seen: Seen
    number: int | None = None
    id: str | None = None
    known: Known | None = None
    facts: Mapping[str, Any] = _NO_FACTS
    key: str | None = None


def find_context(request: Request, final: Seen | None, named: Seen | None, ref: Ref) -> Context:
    """The context of a request's answer; `named` is the span that names the prompt's parts, `ref` the trace."""
    request = until_answered(request, final)
    known, texts = known_of(request), [*shown(final, named)]
    answers, void = _answered(request, final)
    spans: dict[str, tuple[Span, ...]] = {}
    in_prompt = _in_texts([s for s in texts if s.said.legible], known, spans)
    bare = [s for s in texts if s.holds_nothing_else] if in_prompt else texts
    masked = _masked(request, known, [*answers, *bare], void)
    if masked is not None:
        return Context(gap=lost("context", "masked", masked.remedy))
    blocks, lists = _blocks(final), [in_prompt, *_in_tools(answers, known, spans)]
    shows = bool(in_prompt or blocks)
    if all(f.number is None and f.known is None for found in lists for f in found):
        recorded = _recorded(request, final, known, blocks)
        if isinstance(recorded, Gap) and not any(lists):
            return Context(gap=recorded, places=spans)
        recorded = [] if isinstance(recorded, Gap) else recorded
        section = [] if recorded or any(lists) else list(_unnumbered(texts))
        lists, shows = [recorded or section] if recorded or section else lists, shows or bool(section)
    found = _apart(lists, known)
    flaw = _flaw(lists, found) or (lacking(request, final, void) if any(lists) and not shows else None)
    if flaw is not None:
        return Context(gap=flaw, places=spans)
    if not found:
        why = nothing(request, final, known, [s.said for s in texts], [s.said for s in answers])
        return Context(gap=why, places=spans)
    context = _passages(found, ref)
    doubt = context.doubt if context.doubt or context.counted else _doubt(texts, known, shows=shows)
    return replace(context, doubt=doubt, places=spans, cited=_cited(blocks, context.passages))


def _masked(request: Request, known: Iterable[Known], shown: Iterable[_Shown], void: Collection[Said]) -> Said | None:
    """A masked text among the documents, what tools answered and the texts that may hold the passages.

    It is not pieced together from where it leaked: what a tool's span masks may stand in the prompt.
    """
    every = [k.document.text for k in known]
    if request.of("tool"):
        ran = (s.reading.tool.result for s in request.of("tool") if s.reading.tool is not None)
        every += [said for said in ran if said not in void]
    every += [s.said for s in shown]
    for said in every:
        if said is not None and said.state == "masked":
            return said
    return None


def _flaw(lists: Iterable[Sequence[_Found]], found: Iterable[_Found]) -> Gap | None:
    """The gap of passages of which one is masked in part, or cut."""
    for listed in lists:
        for one in listed:
            if holds_mask(one.said.value):
                return lost("context", "masked")
    cut = next((f.said for f in found if f.said.state != "present"), None)
    return lost("context", cut.state, cut.remedy) if cut is not None else None


def _recorded(
    request: Request, final: Seen | None, known: Sequence[Known], blocks: Sequence[tuple[int, Document]]
) -> list[_Found] | Gap:
    """The passages where no text of the prompt tells them apart: the blocks handed over, else what was retrieved."""
    if blocks and final is not None:
        return [
            _enriched(_Found(d.text, final, id=d.id, facts=facts_of(d)), known) for _, d in blocks if d.text is not None
        ]
    written = [k for k in known if k.document.text is not None and k.document.text.value]
    if any(k.seen.reading.role == "rerank" for k in written):
        # What a reranker left out was not handed on.
        written = [k for k in written if k.seen.reading.role != "retrieval"]
    aside = fed_elsewhere(written, request, final)
    if aside and len(aside) == len(written):
        return gap("context", "not_instrumented", _FED_ELSEWHERE)
    bare = next((k for k in known if k.document.text is None and k.document.id), None)
    if written and bare is not None:
        # Some of what was retrieved has no text: what the answer leans on may be just that.
        return gap("context", "not_found", _NO_TEXT.format(id=bare.document.id))
    return [_Found(k.document.text, k.seen, known=k) for k in written if k.document.text and id(k) not in aside]


def _cited(blocks: Sequence[tuple[int, Document]], passages: Iterable[Passage]) -> dict[int, str]:
    """The passage each block became, by the block's position."""
    if not blocks:
        return {}
    by_text = {(key, nth): p.id for p, key, nth in counted(passages, lambda p: p.text)}
    handed = counted(blocks, lambda block: block[1].text.value if block[1].text else "")
    return {at: ident for (at, _), key, nth in handed if (ident := by_text.get((key, nth)) or by_text.get((key, 0)))}


def in_order(request: Request, seen: Seen, ref: Ref) -> Context:
    """The documents a span declares to be the context, all of them and as they stand; markers count their order.

    What a retriever recorded of the same text supplies the place feedback can be attached to.
    """
    known = {(key, nth): k for k, key, nth in counted(known_of(request), lambda k: k.key)}
    found = []
    for document, key, nth in counted(seen.reading.documents or (), words_of):
        if document.text is not None:
            same = known.get((key, nth))
            rank, target = (same.retrieval_rank, same.target) if same is not None else (None, None)
            found.append(_Found(document.text, seen, known=Known(document, seen, key, rank, target)))
    return _passages(found, ref)


def as_one(said: Said, seen: Seen, ref: Ref) -> Context:
    """A context that is one text: the source of a summary."""
    if said.state != "present":
        return Context(gap=lost("context", said.state, said.remedy))
    return _passages([_Found(said, seen)], ref)


# --- what the model was shown -----------------------------------------------------------------------------------------


def shown(final: Seen | None, named: Seen | None) -> Iterator[_Shown]:
    """The prompt's own texts: its named context, what the user said last, the instructions."""
    messages = final.reading.messages if final is not None else ()
    spoken = [m for m in messages if m.text is not None]
    if named is not None:
        variables = named.reading.variables
        for name in _CONTEXTS:
            if name in variables and _belongs(variables[name], spoken):
                yield _Shown(variables[name], named, holds_nothing_else=True)
    if final is None:
        return
    for message in (*_asked(messages), *[m for m in reversed(spoken) if m.role == "system"]):
        if message.text is not None:
            yield _Shown(message.text, final)


def _asked(messages: Sequence[Message]) -> Iterator[Message]:
    """What the user said in this turn, nearest first: passages may have a message of their own before the question."""
    began = asked_at(messages)
    told = 0
    for at in range(len(messages) - 1, -1, -1):
        if told == _FEW or (at < began and messages[at].role == "assistant"):
            return
        if messages[at].role == "user" and messages[at].text is not None:
            told += 1
            yield messages[at]


def _belongs(said: Said, spoken: Sequence[Message]) -> bool:
    """Whether a named part went into this prompt, as far as it and the prompt are there to tell."""
    if said.state == "masked":
        return True
    heard = [m.text.value for m in spoken if m.text is not None and m.text.legible]
    start = said.value.strip()[:SAME]
    return not heard or any(start in words for words in heard)


def tool_results(request: Request, final: Seen | None) -> Iterator[_Shown]:
    """What tools answered in this turn; from the tools' own spans where the prompt does not tell."""
    found = []
    if final is not None and any(message.tools for message in final.reading.messages):
        messages = final.reading.messages
        answers = (tool for message in messages[max(asked_at(messages), 0) :] for tool in message.tools)
        found = [_Shown(t.result, final, holds_nothing_else=True, documents=t.documents) for t in answers if t.result]
    if not found:
        ran = ((s, s.reading.tool) for s in request.of("tool"))
        found = [_Shown(t.result, s, holds_nothing_else=True, documents=t.documents) for s, t in ran if t and t.result]
    yield from found


def _answered(request: Request, final: Seen | None) -> tuple[list[_Shown], Collection[Said]]:
    """What tools answered in this turn, and those of all their results that nothing can be read from."""
    if not request.of("tool") and (final is None or not any(m.tools for m in final.reading.messages)):
        return [], ()
    void = of_no_account(request, final)
    return [s for s in tool_results(request, final) if s.said not in void], void


def _blocks(final: Seen | None) -> list[tuple[int, Document]]:
    """Passages handed over as blocks, with their position among all blocks.

    Those beside the last question where it has any, else all; and whatever the reply cites.
    """
    if final is None:
        return []
    messages = final.reading.messages
    handed = [(m, d) for m in messages for d in m.documents]
    if not handed:
        return []
    began = asked_at(messages)
    own = messages[began] if began >= 0 and messages[began].documents else None
    cited = {m.document for m in final.reading.citations}
    return [(at, d) for at, (m, d) in enumerate(handed) if d.text and (own is None or m is own or at in cited)]


def holds_passages(seen: Seen) -> bool:
    """Whether a generation was given passages in its own prompt."""
    if any(m.documents for m in seen.reading.messages):
        return True
    texts = (s.said for s in shown(seen, seen) if s.said.legible)
    return any(numbered(said.value) for said in texts)


# --- passages out of texts -------------------------------------------------------------------------------------------


def _in_texts(texts: Iterable[_Shown], known: Sequence[Known], spans: dict[str, tuple[Span, ...]]) -> list[_Found]:
    """The passages of the text that holds most of the known ones; among those that hold as many, of one that numbers.

    Else of the first that numbers any, a plain list (1. 2.) last: users number what they ask or have themselves.
    """
    best: tuple[list[_Found], tuple[Span, ...], str] = ([], (), "")
    most = (0, False)
    written = _legible(known)
    for shown in texts:
        found, where = _in_text(shown, known, written)
        # A few words found anywhere (a name, a number) need not be the passage.
        told = [f.known for f in found if f.number is not None or len(f.said.value) >= SAME]
        held = len({id(known) for known in told if known is not None})
        counts = bool(found) and found[0].number is not None and (held > 0 or not _is_plain(shown.said.value, where))
        if found and (not best[0] or (held, counts) > most):
            best, most = (found, where, shown.said.value), (held, counts)
        if counts and held >= len(written):
            break
    if best[0]:
        spans[best[2]] = best[1]
    return best[0]


def _legible(known: Iterable[Known]) -> list[Known]:
    """Those of the known documents whose text can be looked for."""
    return [k for k in known if k.document.text is not None and k.document.text.legible]


def _is_plain(text: str, where: Sequence[Span]) -> bool:
    """Whether the first of the numbered passages of a text has a bare number: `1.` or `1)`."""
    start = where[0][0]
    return text[start : start + 20].lstrip(" \t#>*=_-")[:1].isdigit()


def _in_tools(
    answers: Iterable[_Shown], known: Sequence[Known], spans: dict[str, tuple[Span, ...]]
) -> list[list[_Found]]:
    """The passages of every tool's result that is not empty: numbered, listed, else the result itself."""
    found: list[list[_Found]] = []
    for shown in answers:
        if is_empty(shown.said):
            continue
        inside, where = _in_text(shown, known, _legible(known)) if shown.said.legible else ([], ())
        if inside:
            spans[shown.said.value] = where
        listed = [
            _enriched(_Found(d.text, shown.seen, id=d.id, facts=facts_of(d)), known) for d in shown.documents if d.text
        ]
        found.append(inside or listed or [_Found(shown.said, shown.seen)])
    return found


def _in_text(shown: _Shown, known: Sequence[Known], written: Sequence[Known]) -> tuple[list[_Found], tuple[Span, ...]]:
    """The passages a text numbers; else the known ones it holds, in its order; `written` are those with a text."""
    prompt = shown.said.value
    where = places([words_of(k.document) for k in written], prompt)
    spans = [span for span in where if span is not None]
    entries = numbered(prompt, spans, loose=shown.holds_nothing_else)
    if entries:
        ending: dict[int, Known] = {}
        if len({k.key for k in known}) == len(known):  # told apart by their texts
            ending = {span[1]: k for span, k in zip(where, written, strict=True) if span is not None}
        found = [_entry(e, shown, known, ending.get(e.end)) for e in entries]
        return found, tuple([(e.start, e.end) for e in entries])
    inside: dict[Span, Known] = {}
    for span, k in zip(where, written, strict=True):
        if span is not None:
            inside.setdefault(span, k)
    found = [_Found(part(shown.said, prompt[a:b]), shown.seen, known=inside[a, b]) for a, b in sorted(inside)]
    return found, tuple(sorted(spans))


def _entry(entry: Entry, shown: _Shown, known: Sequence[Known], there: Known | None) -> _Found:
    """A passage the prompt numbers; `there` is the known one that ends there, where no other has its text."""
    said = part(shown.said, entry.text)
    if there is not None and there.key and words_of(there.document) == entry.text:
        return _Found(said, shown.seen, entry.number, entry.id, there, _NO_FACTS, there.key)
    return _enriched(_Found(said, shown.seen, entry.number, entry.id), known)


def _enriched(found: _Found, known: Sequence[Known]) -> _Found:
    """A passage with what the trace records of it: the same text, the same id, or a text within its own."""
    key = folded(found.said.value) if found.key is None else found.key
    equal = [k for k in known if k.key == key] if key else []
    same = equal[0] if equal else None
    if found.id:
        same = next((k for k in equal if k.document.id == found.id), same)
        same = same or next((k for k in known if k.document.id == found.id and k.key in key), None)
    if same is None:
        near = (k for k in islice(known, MANY) if len(k.key) >= SAME or 2 * len(k.key) > len(key) > 0)
        same = max((k for k in near if k.key in key), key=lambda k: len(k.key), default=None)
        if same is not None and same.document.text is not None:
            found, key = replace(found, said=part(found.said, same.document.text.value)), same.key
    return _Found(found.said, found.seen, found.number, found.id, same, found.facts, key)


def _unnumbered(texts: Iterable[_Shown]) -> Iterator[_Found]:
    """A context that is one piece: a named part, or what stands under a heading."""
    for shown in texts:
        span = (0, len(shown.said.value)) if shown.holds_nothing_else else context_section(shown.said.value)
        if span is not None:
            yield _Found(part(shown.said, shown.said.value[slice(*span)].strip()), shown.seen)
            return


# --- passages --------------------------------------------------------------------------------------------------------


def _apart(lists: Sequence[Sequence[_Found]], known: Sequence[Known]) -> list[_Found]:
    """Each passage once: a text shown in two lists is one, what one list repeats is as many as its markers count.

    Passages that repeat are those the trace records of that text, in its order.
    """
    alone = {k.key: k for k in known}
    if len(lists) == 1 and len(alone) == len(known):
        keys = {found.key for found in lists[0] if found.key and alone.get(found.key, found) is found.known}
        if len(keys) == len(lists[0]):
            return [*lists[0]]
    twins: dict[str, list[Known]] = {}
    for one in known:
        twins.setdefault(one.key, []).append(one)
    apart: dict[tuple[str, int], _Found] = {}
    for listed in lists:
        before: dict[str, int] = {}
        for found in listed:
            if not found.said.value.strip():
                continue
            key = folded(found.said.value) if found.key is None else found.key
            nth = before.get(key, 0)
            before[key] = nth + 1
            alike = twins.get(key, ())
            twin = alike[nth] if nth < len(alike) else found.known
            named = found.known is not None and found.known.document.id == found.id != (twin and twin.document.id)
            same = twin is found.known or named
            apart.setdefault((key, nth), found if same else replace(found, known=twin))
    return list(apart.values())


def _passages(found: Sequence[_Found], ref: Ref) -> Context:
    """Passages with unique ids, ranked by their numbers where these tell them apart, else in order."""
    given = [f.number for f in found if f.number is not None]
    unique = len({*given}) == len(given)
    ranks = given
    if not unique or len(given) < len(found):
        ahead = count(max(given, default=0) + 1) if unique else count(1)
        ranks = [f.number if f.number is not None and unique else next(ahead) for f in found]
    taken: set[str] = set()
    retrievers: dict[int, Ref] = {}
    passages, origins = [], []
    for at, (rank, _, one) in enumerate(sorted(zip(ranks, count(), found, strict=False))):
        passages.append(_passage(one, rank, taken, _retriever(one, ref, retrievers)))
        origins.append(
            Origin.trusted(field=f"context[{at}]", span_id=sound(one.seen.span.id), attribute=sound(one.said.attribute))
        )
    remedy = "number the passages of a turn through, over all tools' results"
    doubt = None if unique else gap("citations", "ambiguous_numbering", remedy)
    return Context(tuple(passages), tuple(origins), doubt=doubt, counted=bool(given) and unique)


def _retriever(found: _Found, ref: Ref, known: dict[int, Ref]) -> tuple[Ref, int] | None:
    """Where feedback on a passage can be attached; the passages of one retriever share what names it."""
    if found.known is None or found.known.target is None:
        return None
    seen, at = found.known.target
    if seen.place not in known:
        known[seen.place] = Ref(ref.platform, ref.project, ref.trace_id, sound(seen.span.id))
    return known[seen.place], at


def _passage(found: _Found, rank: int, taken: set[str], target: tuple[Ref, int] | None) -> Passage:
    known = found.known
    document = known.document if known is not None else Document(**found.facts)
    ident, words = document.id or found.id, found.said.value
    return Passage.trusted(
        id=unique_id(sound(ident) if ident else content_id("p", words), taken),
        text=sound(words),
        rank=rank,
        retrieval_rank=known.retrieval_rank if known is not None else None,
        score=document.score,
        timestamp=sound(document.timestamp) if document.timestamp else None,
        metadata=plain_facts(document.metadata) if document.metadata else {},
        target=target,
    )


# --- what is not known -----------------------------------------------------------------------------------------------


def _doubt(texts: Iterable[_Shown], known: Sequence[Known], *, shows: bool) -> Gap | None:
    """A doubt about the numbers: the order is the retriever's, and what is left of the prompt does not show it."""
    # Where another text shows the passages, a cut one may still have numbered them.
    cut = next((s for s in texts if s.said.state == "truncated" or (not shows and s.said.state != "present")), None)
    if cut is None:
        return None
    written = [k.document.text.value for k in known if k.document.text is not None]
    visible = [span for span in places(written, cut.said.value) if span is not None]
    in_order = visible == sorted(visible) and None not in places(written[: len(visible)], cut.said.value)
    return None if visible and in_order else lost("citations", cut.said.state, cut.said.remedy)
