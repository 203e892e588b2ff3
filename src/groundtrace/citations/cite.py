"""Citations and claims of an answer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from msgspec.structs import replace

from groundtrace.citations.index import Index, Marker
from groundtrace.citations.layout import Layout, Span, layout
from groundtrace.citations.markers import LINK, find, footnotes, may_mark
from groundtrace.citations.signs import opened
from groundtrace.citations.speech import may_abstain_in_part
from groundtrace.citations.statements import Statement, reaches, statements
from groundtrace.model import Citation, Claim, Mention, Passage
from groundtrace.text import fold, folded

Target = str | None


def cite(
    answer: str, passages: Sequence[Passage], mentions: Sequence[Mention] = (), *, counted: bool = False
) -> tuple[Citation, ...]:
    """The citations of an answer: its marks, resolved by the passages' ranks and ids, and what its provider noted.

    A mark that names several passages gives a citation each, at the same place; what points to no passage has
    `passage_id` None and is never dropped. A mark with no statement of its own cites an empty one. `counted` says that
    the ranks are the numbers the model was shown: then an answer can't count from 0 where they start at 1.

    >>> moon = [Passage(id="a", text="", rank=1), Passage(id="b", text="", rank=2)]
    >>> [(c.marker, c.passage_id, c.claim_end) for c in cite("It is far [1, b]. It is old [7].", moon)]
    [('[1, b]', 'a', 9), ('[1, b]', 'b', 9), ('[7]', None, 27)]
    """
    if not mentions and not may_mark(answer):
        return ()
    plan = layout(answer)
    index = Index(passages, counted=counted)
    if plan.definitions:
        index = Index(passages, footnotes(answer, index, plan), counted=counted)
    marks = find(answer, index, plan)
    if mentions:
        return _with(_noted(answer, marks, mentions, index), answer, plan)
    if not marks:
        return ()
    owned = _owned(reaches(answer, plan, [(mark.start, mark.end) for mark in marks]))
    cited: list[Citation] = []
    for number, mark in enumerate(marks):
        claim = owned.get(number) or (mark.start, mark.start)
        cited += [_inline(mark, claim, target) for target in mark.targets]
    return tuple(cited)


def _with(noted: _Noted, answer: str, plan: Layout) -> tuple[Citation, ...]:
    """The citations of an answer whose provider noted some."""
    every = sorted([*noted.marks, *noted.points], key=lambda mark: (mark.start, mark.end))
    places = [(mark.start, mark.end) for mark in every]
    owned = _owned(reaches(answer, plan, places, [place for place, _ in noted.spans]))
    inline = set(noted.marks)
    found: list[Citation] = []
    for number, mark in enumerate(every):
        claim = owned.get(number, (mark.start, mark.start))
        if mark in inline:
            found += [_inline(mark, claim, target) for target in mark.targets]
        else:
            found += [_structured(claim, target, mark.text or None) for target in mark.targets]
    found += [_structured(place, target) for place, target in noted.spans]
    return tuple(sorted(found, key=lambda citation: (citation.start, citation.end)))


def _inline(mark: Marker, claim: Span, target: Target) -> Citation:
    return Citation.trusted(
        marker=mark.text,
        start=mark.start,
        end=mark.end,
        claim_start=claim[0],
        claim_end=claim[1],
        passage_id=target,
        origin="inline",
    )


def _structured(claim: Span, target: Target, marker: str | None = None) -> Citation:
    start, end = claim
    return Citation.trusted(
        marker=marker,
        start=start,
        end=end,
        claim_start=start,
        claim_end=end,
        passage_id=target,
        origin="structured",
    )


def _owned(stated: Iterable[tuple[Span, tuple[int, ...]]]) -> dict[int, Span]:
    """From where to where the statements reach that a mark belongs to."""
    found: dict[int, Span] = {}
    for (start, end), marks in stated:
        for mark in marks:
            found[mark] = found.get(mark, (start, 0))[0], end
    return found


# --- what a provider noted --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Noted:
    """The answer's own marks, now resolved; points and links a provider put behind claims; the claims it marked.

    What a provider noted of the answer as a whole adds nothing where a mark says it of a claim.
    """

    marks: list[Marker]
    points: list[Marker] = field(default_factory=list)
    spans: list[tuple[Span, Target]] = field(default_factory=list)


def _noted(answer: str, marks: list[Marker], mentions: Iterable[Mention], index: Index) -> _Noted:
    noted = _Noted(marks)
    known = {(mark.start, mark.end): mark for mark in marks}
    starts = [mark.start for mark in marks]
    marked = {target for mark in marks for target in mark.targets if target}
    pointed: dict[Span, dict[Target, None]] = {}
    for mention in mentions:
        target, place = _target(mention, index), _place(answer, mention)
        at = bisect_right(starts, place[1]) - 1 if place else -1
        mark = marks[at] if at >= 0 else None
        if place is None and mention.claim is None and target in marked:
            continue
        if place is None:
            noted.spans.append(((0, 0), target))
        elif mark and mark.end > place[0] and not _says_more(answer, place, mark):
            pointed.setdefault((mark.start, mark.end), {})[target] = None
        elif place[0] == place[1] or LINK.fullmatch(answer, *place):
            pointed.setdefault(place, {})[target] = None
        else:
            noted.spans.append((place, target))
    for place, targets in pointed.items():
        if place not in known:
            noted.points.append(Marker(*place, answer[slice(*place)], tuple(targets)))
    noted.marks = [replace(mark, targets=tuple(pointed.get((mark.start, mark.end), mark.targets))) for mark in marks]
    return noted


def _says_more(answer: str, place: Span, mark: Marker) -> bool:
    """Whether a noted stretch holds words beside the mark."""
    around = answer[place[0] : mark.start] + answer[mark.end : place[1]]
    return any(c.isalnum() for c in around)


def _place(answer: str, mention: Mention) -> Span | None:
    """Where a noted claim stands: at its offsets if they quote it, else where its words are."""
    start, end = mention.start, mention.end if mention.end is not None else mention.start
    if start is not None and end is not None and 0 <= start <= end <= len(answer):
        said = answer[start:end]
        if not mention.claim or said == mention.claim or folded(said) == folded(mention.claim):
            return _stripped(answer, start, end)
    if not mention.claim or not mention.claim.strip():
        return None
    at = answer.find(mention.claim)
    if at >= 0:
        return _stripped(answer, at, at + len(mention.claim))
    whole, wanted = fold(answer), folded(mention.claim)
    at = whole.text.find(wanted) if wanted else -1
    return whole.span(at, at + len(wanted)) if at >= 0 else None


def _stripped(answer: str, start: int, end: int) -> Span:
    """The stretch without white space around it; a place without any stands right behind what is said before it."""
    while start < end and answer[start].isspace():
        start += 1
    while end and answer[end - 1].isspace():
        end -= 1
        start = min(start, end)
    return start, end


def _target(mention: Mention, index: Index) -> Target:
    """The passage a provider means: by its id or name, by its place if the quote agrees, else by the quote.

    A name is also what all pieces of one file go by: then the quote tells which it is.
    """
    named = index.named(mention.document_id)
    quote = folded(mention.quote or "")
    if named and (named == mention.document_id or not quote):
        return named
    place = mention.document
    at_place = index.passages[place].id if place is not None and 0 <= place < len(index.passages) else None
    meant = named or at_place
    if meant is None and not quote:
        return None
    quoted = [passage.id for passage in index.passages if quote and quote in folded(passage.text)]
    return quoted[0] if len(quoted) == 1 and meant not in quoted else meant


# --- claims -----------------------------------------------------------------------------------------------------------


def claims(answer: str, citations: Sequence[Citation]) -> tuple[Claim, ...]:
    """What an answer states, each statement with the citations that belong to it; ids c1, c2 ... in reading order.

    A claim runs from the mark before it, or from where its sentence starts, to the mark behind it, or to where the
    sentence ends; items of lists and rows of tables are sentences of their own. Questions, courtesies, headings and
    "I don't know" are none. Claims never overlap and hold no mark; their offsets quote the answer.

    >>> answer = "The moonwalk lasted two hours [1], and it was broadcast. I don't know more."
    >>> [(c.id, c.text, len(c.citations)) for c in claims(answer, cite(answer, []))]
    [('c1', 'The moonwalk lasted two hours', 1), ('c2', 'it was broadcast.', 0)]
    """
    inline = [c for c in citations if c.origin == "inline" and 0 <= c.start < c.end <= len(answer)]
    noted = [c for c in citations if c.origin == "structured" and 0 <= c.start < c.end <= len(answer)]
    marks = list(_apart([*((c.start, c.end) for c in inline), *_links(answer, noted), *_openings(answer, inline)]))
    stated = [
        statement
        for statement in statements(answer, layout(answer), marks, [(c.start, c.end) for c in noted])
        if statement.kind == "claim"
    ]
    by_mark: dict[Span, list[Citation]] = {}
    for citation in inline:
        by_mark.setdefault((citation.start, citation.end), []).append(citation)
    covering = _covering(stated, noted)
    return tuple(
        Claim(
            id=f"c{number}",
            text=answer[statement.start : statement.end],
            start=statement.start,
            end=statement.end,
            citations=(
                *(c for mark in statement.marks for c in by_mark.get(marks[mark], ())),
                *covering.get(number, ()),
            ),
        )
        for number, statement in enumerate(stated, start=1)
    )


def _apart(places: Iterable[Span]) -> Iterator[Span]:
    end = -1
    for place in sorted(set(places)):
        if place[0] >= end:
            yield place
            end = place[1]


def _links(answer: str, noted: Iterable[Citation]) -> Iterator[Span]:
    """The links in brackets a provider put right behind what it noted: marks, though they are no citations here."""
    for end in {citation.end for citation in noted}:
        at = end
        while link := LINK.match(answer, at + len(answer[at : at + 8]) - len(answer[at : at + 8].lstrip())):
            yield link.span()
            at = link.end()


def _openings(answer: str, inline: Iterable[Citation]) -> Iterator[Span]:
    """The tags that open what those that cite close."""
    closing = {c.start for c in inline if c.marker is not None and c.marker.startswith("</")}
    if closing:
        yield from (place for at, place in opened(answer).items() if at in closing)


def _covering(stated: Sequence[Statement], noted: Iterable[Citation]) -> Mapping[int, list[Citation]]:
    """The noted citations that reach into each statement, by its number from 1."""
    ends = [statement.end for statement in stated]
    found: dict[int, list[Citation]] = {}
    for citation in noted:
        number = bisect_right(ends, citation.start)
        while number < len(stated) and stated[number].start < citation.end:
            found.setdefault(number + 1, []).append(citation)
            number += 1
    return found


@lru_cache(maxsize=64)
def abstention(answer: str) -> Literal["pure", "partial"] | None:
    """Whether an answer says that it can't answer: "pure" where it claims nothing else, "partial" where it does.

    >>> abstention("I don't know."), abstention("It is far. The documents don't say how far."), abstention("It is far.")
    ('pure', 'partial', None)
    """
    if not may_abstain_in_part(answer):
        return None
    plan = layout(answer)
    marks = [(mark.start, mark.end) for mark in find(answer, Index(()), plan)]
    kinds = {statement.kind for statement in statements(answer, plan, marks)}
    if "silence" not in kinds:
        return None
    return "partial" if "claim" in kinds else "pure"
