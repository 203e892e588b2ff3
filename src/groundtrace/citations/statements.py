"""An answer cut into statements, each with the marks that belong to it.

A statement runs from the mark before it, or from where its sentence starts, to the mark behind it, or to where the
sentence ends. Lines of lists and rows of tables are sentences of their own.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from groundtrace.citations.layout import Layout, Span
from groundtrace.citations.speech import abstains, beside_the_point, contrasts, may_abstain, states_nothing
from groundtrace.model import Struct
from groundtrace.text import sentences

_BETWEEN = re.compile(
    r"[\s,;:.!?)\]|–—]*(?:-(?!\d)[\s,;:.!?)\]|–—]*)*"
    r"(?:(?:and|but|or|nor|yet|so|while|whereas|though|although|plus|as well as|also)\b[\s,]*)*",
    re.IGNORECASE,
)
_BEFORE = re.compile(r"[\s|]*")
_BEHIND = re.compile(
    r"(?:\((?:see|cf\.?|sources?)|[\s,;:(\[|–—-]|(?<=\s)(?:and|but|or|whereas|although|according to|as per|based on"
    r"|as (?:stated|noted|described|reported|shown|mentioned|explained|seen) (?:in|by))(?: the)?\b)+$",
    re.IGNORECASE,
)
_JOINING = (
    "see",
    "cf",
    "source",
    "sources",
    "and",
    "but",
    "or",
    "whereas",
    "although",
    " in",
    " by",
    " to",
    " per",
    " on",
)
_LONG = max(map(len, _JOINING))
_LEAD_IN = re.compile(
    r"\W*(?:(?:according|to|as|per|in|from|by|based|on|see|cf|also|both|the|stated|reported|noted|shown|mentioned"
    r"|described|explained|and|or|sources?|documents?|passages?|references?|articles?|contexts?|chunks?|respectively"
    r"|etc|too)\b\W*)+",
    re.IGNORECASE,
)
_SOURCES = re.compile(r"\W*(?:sources?|references?|citations?|quellen|fuentes|références)\b", re.IGNORECASE)
_SIGNS = ("**", "__", "`")
_ENDS = re.compile(r"[^A-Za-z0-9 ,;:'$%/-]")  # whatever may end a sentence
_TURN = re.compile(r"[.!?] +(?=[A-Z])")
_LAST = re.compile(r"[.!?]? *\Z")
_GOES_ON = re.compile(r"\s*(?:[,;:]|\s(?:and|but|while|which|who|whereas|or|so|though|although)\b)")
_CLOSES = re.compile(r"[.!?。！？]|.\s*(?:$|[.!?。！？\n])", re.DOTALL)
_OPENS = re.compile(r"(?:^|[,;:.!?\n。]\s*|[\s,;](?:and|but|while|which|who|whereas|or|so|though|although)\s+)$")

Kind = Literal["claim", "silence", "talk"]


class Statement(Struct, frozen=True):
    """A stretch of the answer and the marks that belong to it, by number.

    It is a "claim", "silence" (it says that something can't be said), or other "talk" that claims nothing.
    """

    start: int
    end: int
    marks: tuple[int, ...] = ()
    kind: Kind = "claim"
    sentence: Span = (0, 0)
    """The sentence it is cut from."""


_Piece = tuple[int, int, list[int]]


@dataclass(slots=True)
class _Sentence:
    """A sentence with the marks before it on its line, within it, and behind it up to the next."""

    start: int
    end: int
    opening: list[int]
    inside: list[int]
    behind: list[int]


def statements(answer: str, plan: Layout, marks: Iterable[Span], cited: Iterable[Span] = ()) -> tuple[Statement, ...]:
    """Cut an answer into statements; `marks` are in order and apart, `cited` is what a provider says is cited.

    >>> from groundtrace.citations.layout import layout
    >>> text = "It is far [1], and dry. Why? [2] Nobody said."
    >>> [(text[s.start : s.end], s.marks, s.kind) for s in statements(text, layout(text), [(10, 13), (29, 32)])]
    [('It is far', (0,), 'claim'), ('dry.', (), 'claim'), ('Why?', (1,), 'talk'), ('Nobody said.', (), 'claim')]
    """
    return _kinds(answer, _cut(answer, plan, tuple(marks), tuple(sorted(_cuts(answer, cited)))))


def reaches(
    answer: str, plan: Layout, marks: Iterable[Span], cited: Sequence[Span] = ()
) -> list[tuple[Span, tuple[int, ...]]]:
    """Where each of the statements stands and which marks it has: as `statements`, without asking what it does.

    >>> from groundtrace.citations.layout import layout
    >>> reaches("It is far [1], and dry.", layout(""), [(10, 13)])
    [((0, 9), (0,)), ((19, 23), ())]
    """
    marks, cuts = tuple(marks), tuple(sorted(_cuts(answer, cited))) if cited else ()
    simple = () if cuts or plan.set_aside or plan.wraps else _from_mark_to_mark(answer, marks)
    found: list[tuple[Span, tuple[int, ...]]] = []
    for statement in simple or _cut(answer, plan, marks, cuts):
        if may_abstain(answer[statement.start : statement.end]):
            found += [(side, statement.marks) for side, _ in _sides(answer, statement)]
        else:
            found.append(((statement.start, statement.end), statement.marks))
    return found


def _from_mark_to_mark(answer: str, marks: Iterable[Span]) -> Sequence[Statement]:
    """The statements of a line in which each ends in a mark: "It is far [1]. It is dry [2]."; none where it is not so.

    Where its sentences end need not be found out then, as the same statements are cut from one or from two.
    """
    if not (answer[:1].isalpha() and answer[1:2] not in {")", "."} and answer.isascii() and answer.isprintable()):
        return ()
    found: list[Statement] = []
    at = 0
    for number, (start, end) in enumerate(marks):
        if found:
            turn, joined = _TURN.match(answer, at, start), _BETWEEN.match(answer, at, start)
            if turn is None or joined is None or turn.end() != joined.end():
                return ()
            at = turn.end()
        place = _trimmed(answer, at, start)
        if place is None or _ENDS.search(answer, at, start) or _LEAD_IN.fullmatch(answer, *place):
            return ()
        found.append(Statement(*place, (number,)))
        at = end
    return found if _LAST.match(answer, at) else ()


# Citations, claims and abstention of one answer are asked for one after the other, by the rubric and by the judge.
@functools.lru_cache(maxsize=4)
def _cut(answer: str, plan: Layout, marks: tuple[Span, ...], cuts: tuple[Span, ...]) -> tuple[Statement, ...]:
    spans = [*marks, *cuts]
    order: Sequence[int] = range(len(spans))
    if cuts:
        order = sorted(order, key=lambda number: spans[number])
    titles = [start for start, _ in plan.titles]
    found: list[Statement] = []
    since = 0
    for sentence in _owning(answer, _sentences(answer, plan, marks), spans, order):
        at = bisect_right(titles, sentence.start) - 1
        title = at >= 0 and sentence.start < plan.titles[at][1]
        pieces, loose = _pieces(answer, sentence, spans)
        own = [number for number in loose if number < len(marks)]
        if own and not pieces and found:
            since = _credit(answer, sentence, found, since, own)
        for start, end, numbers in pieces:
            own = [number for number in numbers if number < len(marks)]
            bare = not own and (title or answer[end : sentence.end].strip(" *_") in (":", "："))
            found.append(Statement(start, end, tuple(own), "talk" if bare else "claim", (sentence.start, sentence.end)))
    return tuple(found)


@functools.lru_cache(maxsize=4)
def _kinds(answer: str, found: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """The statements with what each of them does: a sentence that states nothing has no claims in it."""
    whole = functools.cache(lambda span: states_nothing(answer[slice(*span)]))
    told = (
        replace(statement, kind="talk") if statement.kind == "claim" and whole(statement.sentence) else statement
        for statement in found
    )
    return tuple(_spoken(answer, told))


def _credit(answer: str, sentence: _Sentence, found: list[Statement], since: int, marks: Sequence[int]) -> int:
    """Give the marks of a sentence that says nothing ("See [1].") to the statement before it.

    A line of its own that names sources is for all statements since the last such line, if they have no marks.
    """
    opens_a_line = not answer[answer.rfind("\n", 0, sentence.start) + 1 : sentence.start].strip(" \t*_>-")
    if not (opens_a_line and _SOURCES.match(answer, sentence.start)):
        found[-1] = replace(found[-1], marks=(*found[-1].marks, *marks))
        return since
    if not any(statement.marks for statement in found[since:]):
        found[since:] = [replace(statement, marks=tuple(marks)) for statement in found[since:]]
    return len(found)


def _spoken(answer: str, found: Iterable[Statement]) -> Iterator[Statement]:
    """The statements with those that abstain told apart, and with them what only goes round an abstention."""
    sides = [(statement, side, quiet) for statement in found for side, quiet in _sides(answer, statement)]
    some = any(quiet for _, _, quiet in sides)
    for statement, (start, end), quiet in sides:
        aside = some and not statement.marks and beside_the_point(answer[start:end])
        kind: Kind = "silence" if quiet else "talk" if aside or states_nothing(answer[start:end]) else statement.kind
        yield replace(statement, start=start, end=end, kind=kind)


def _sides(answer: str, statement: Statement) -> list[tuple[Span, bool]]:
    """A statement whole, or, where it abstains in part, its sides, and whether each abstains."""
    start, end = statement.start, statement.end
    if not may_abstain(answer[start:end]):
        return [((start, end), False)]
    sides = [(start + a, start + b) for a, b in contrasts(answer[start:end])]
    quiet = [abstains(answer[a:b]) for a, b in sides]
    if all(quiet) or not any(quiet):
        return [((start, end), quiet[0])]
    places = [(_trimmed(answer, *side), silent) for side, silent in zip(sides, quiet, strict=True)]
    return [(place, silent) for place, silent in places if place]


# --- sentences and the marks they own ---------------------------------------------------------------------------------


def _sentences(answer: str, plan: Layout, marks: Sequence[Span]) -> list[Span]:
    """The sentences of the prose without its marks, as spans of the answer."""
    gone = [(_blank_before(answer, start), end, "") for start, end in marks if end > start]
    if plan.set_aside or plan.wraps:
        gone += [(start, end, "\n") for start, end in plan.set_aside]
        gone += [(at, at + 1, " ") for at in plan.wraps]
        gone.sort()
    if not gone:
        return list(sentences(answer))
    kept: list[str] = []
    places: list[int] = []  # where in what is kept, and by how much the answer is ahead of it there
    ahead: list[int] = []
    size = at = 0
    for start, end, instead in (*gone, (len(answer), len(answer), "")):
        if start > at:
            kept.append(answer[at:start])
            places.append(size)
            ahead.append(at - size)
            size += start - at
        if instead:
            kept.append(instead)
            places.append(size)
            ahead.append(start - size)
            size += 1
        at = max(at, end)
    return [
        (start + ahead[bisect_right(places, start) - 1], end + ahead[bisect_right(places, end - 1) - 1])
        for start, end in sentences("".join(kept))
    ]


def _blank_before(answer: str, start: int) -> int:
    """Where the blanks before a mark begin; those that open its line stay."""
    if start > 1 and answer[start - 1] == " " and answer[start - 2].isalnum():
        return start - 1
    before = answer[:start] if start < 64 else answer[start - 64 : start]
    bare = len(before.rstrip(" \t\u00a0"))
    return start - len(before) + bare if bare and before[bare - 1] != "\n" else start


def _owning(answer: str, spans: Sequence[Span], marks: Sequence[Span], order: Sequence[int]) -> Iterator[_Sentence]:
    """The sentences with their marks: one behind a sentence is its own, one that opens a line the next one's."""
    ahead = iter([*order, -1])
    mark = next(ahead)
    before: _Sentence | None = None
    for start, end in [*spans, (len(answer) + 1, len(answer) + 1)]:
        sentence = _Sentence(start, end, [], [], [])
        line = answer.rfind("\n", before.end if before else 0, start)
        while mark >= 0 and marks[mark][0] < start:
            opens = marks[mark][0] > line and (before is None or line >= 0) and start < end
            (before.behind if before and not opens else sentence.opening).append(mark)
            mark = next(ahead)
        if before:
            yield before
        while mark >= 0 and marks[mark][0] < end:
            sentence.inside.append(mark)
            mark = next(ahead)
        before = sentence


def _pieces(answer: str, sentence: _Sentence, marks: Sequence[Span]) -> tuple[list[_Piece], list[int]]:
    """The statements of a sentence with their marks, and the marks left where the sentence says nothing."""
    found: list[_Piece] = []
    carried = list(sentence.opening)
    at = sentence.start
    for mark in [*sentence.inside, None]:
        start, end = (sentence.end, sentence.end) if mark is None else marks[mark]
        own = sentence.behind if mark is None else [mark]
        place = _trimmed(answer, at, start, behind=at > sentence.start)
        if place is None or _LEAD_IN.fullmatch(answer, *place):
            (found[-1][2] if found and not carried else carried).extend(own)
        else:
            found.append((*place, carried + own))
            carried = []
        at = max(at, end)
    if found and carried:
        found[-1][2].extend(carried)
        carried = []
    return found, carried


def _trimmed(answer: str, start: int, end: int, *, behind: bool = False) -> Span | None:
    """A stretch without what only joins it to the mark before, without loose brackets and signs; None if nothing."""
    text = answer[start:end].rstrip()
    if end - start < 3 and not any(c.isalnum() for c in text):
        return None
    if not behind and _is_bare(text):
        return start, start + len(text)
    joined = (_BETWEEN if behind else _BEFORE).match(answer, start, end)
    start = joined.end() if joined else start
    tail = answer[max(start, end - 40) : end].rstrip()
    end = max(start, end - 40) + len(tail)
    loose = _BEHIND.search(tail) if not tail[-1:].isalnum() or tail.lower().endswith(_JOINING) else None
    if loose:
        end -= len(tail) - loose.start()
    start, end = _unsigned(answer, start, end)
    if answer.startswith("(", start, end) and answer.count("(", start, end) > answer.count(")", start, end):
        start += 1
    if behind and answer.startswith((":", "："), start, end):
        start += 1
    text = answer[start:end]
    start += len(text) - len(text.lstrip())
    end -= len(text) - len(text.rstrip())
    spoken = text[:1].isalnum() or any(c.isalnum() for c in text)
    return (start, end) if spoken else None


def _unsigned(answer: str, start: int, end: int) -> Span:
    """A stretch without signs around it, or at one end, whose partner is not in it."""
    for sign in _SIGNS:
        if answer.find(sign, start, end) < 0:
            continue
        odd = answer.count(sign, start, end) % 2 == 1
        around = answer.startswith(sign, start, end) and answer.endswith(sign, start, end)
        if around and end - start > 2 * len(sign) and answer.count(sign, start, end) == 2:
            start, end = start + len(sign), end - len(sign)
        elif odd and answer.startswith(sign, start, end):
            start += len(sign)
        elif odd and answer.endswith(sign, start, end):
            end -= len(sign)
    return start, end


def _is_bare(text: str) -> bool:
    """Whether a stretch has no sign and no word at its ends that could be left out."""
    if not (text[:1].isalnum() and text[-1:].isalnum()) or text[-_LONG:].lower().endswith(_JOINING):
        return False
    return not ("*" in text or "_" in text or "`" in text)


def _cuts(answer: str, cited: Iterable[Span]) -> set[Span]:
    """Places of no length where a cited stretch that is a clause begins or ends in the middle of a sentence."""
    found: set[Span] = set()
    for start, end in cited:
        last = start + len(answer[start:end].rstrip(" \t\n,;:"))
        goes_on = _GOES_ON.match(answer, last)
        if _OPENS.search(answer[max(0, start - 12) : start]) and (goes_on or _CLOSES.match(answer, last - 1)):
            found.add((start, start))
            if goes_on:
                found.add((last, last))
    return found
