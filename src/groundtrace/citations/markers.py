"""The marks by which an answer points to passages: [1], [2, 3], [4-6], [^7], [doc 8], 【9†source】, [passage-id].

Brackets and links are marks by their form and stand here; what is one only by its use stands in `signs`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from groundtrace.citations.index import Index, Marker, counted, number_of
from groundtrace.citations.layout import Layout, Span
from groundtrace.citations.signs import may_sign, rounds, spoken, superscripts, tagged

_BRACKET = re.compile(r"(?<!!)(?:\\?\[|［)([^\[\]［］\n]{1,200}?)(?:\\?\]|］)|【([^【】\n]{1,200})】")
_PLAIN = re.compile(r"\[(\d{1,3})\]")
_OPENS = re.compile(r"\\?\[|［|【")
_URL = re.compile(r"\((?=[^()\s]{0,2000}[./#:])(?:[^()\s]|\([^()\s]{0,200}\)){1,2000}(?:[ \t]+\"[^\"\n]{0,200}\")?\)")
LINK = re.compile(r"\(\[([^\[\]\n]{1,300})\]\(((?:[^()\s]|\([^()\s]{0,200}\)){1,2000})\)\)")
_ENTRY = re.compile(r"[ \t]*(?:[-*+•][ \t]+)?(?:(\d{1,3})[.):]|([⁰¹²³⁴-⁹]{1,3}))[ \t]")
_TO_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
# What is glued to an index: x[1], my_list[0], sum([1, 2]); a word before a mark may well have no blank behind it.
_INDEXED = re.compile(
    r"(?:(?<![^\W_])[a-z]|[^\W_]*_\w*|(?<![^\W_])(?:list|lst|array|arr|args|argv|kwargs|tuple|dict|vec|vector|nums|str"
    r"|buf|ptr|matrix))\Z"
)
_CALLED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\(\Z")
_MEASURES = ("=", "∈", "⊂", " +", "nterval", "ange", "cale", "omain", "ector", "atrix", "rray", "uple")
_MEASURED = re.compile(
    r"(?:[=∈⊂]|\s\+|\b(?:interval|range|scale|domain|vector|matrix|array|tuple))\s?\Z", re.IGNORECASE
)
_ALONE = frozenset(("", " ", ".", ",", "\n"))
_OPERATORS = frozenset("=+∪∩⊂")
_COMPUTED = re.compile(r"\s*(?:=(?!=?>)|[+∪∩⊂]\s|\.[a-z_]+\()")
_CLOSES_A_CLAIM = re.compile(r"\s*(?:\Z|[.,;:!?)。，、；！？\n|]|\[)")
# A link that stands for its claim's source, not for words of the claim: behind "Source:", or called as the passage is.
_POINTING = re.compile(
    r"(?:[(\[:–—]|\b(?:see|via|cf\.?|from|at|source|sources|to|per|by|and))[ \t]*\Z|\A\s*\Z|[.!?][ \t]*\Z|\n[ \t]*\Z",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"\W*(?:sources?|links?|here|refs?|references?|citations?|read more|more|details|docs?)\W*", re.IGNORECASE
)
_MANY = 20_000  # citations of one answer; from there on a mark points to one passage, so that ranges can't multiply


def may_mark(answer: str) -> bool:
    """Whether an answer has a sign in it without which there is no mark.

    >>> may_mark("It is far [1]."), may_mark("It is far."), may_mark("As Source 2 says.")
    (True, False, True)
    """
    return "[" in answer or may_sign(answer) or (not answer.isascii() and ("【" in answer or "［" in answer))


def find(answer: str, index: Index, plan: Layout) -> list[Marker]:
    """The marks of an answer in order and apart, none in code, in formulas, in footnotes or in the list of sources.

    Links are none, except a number with a link behind it and a link to a passage's own address. Numbers count
    passages by their ranks. An answer that closes a claim with [0] where no passage is counted 0 counts from 0 itself,
    if the ranks start at 1, are not what the model was shown, and all of its numbers in brackets then fit; else that
    [0] is out of range, as any number too high is.

    >>> from groundtrace.model import Passage
    >>> moon = Index([Passage(id="m-1", text="", rank=1), Passage(id="m-2", text="", rank=2)])
    >>> from groundtrace.citations.layout import layout
    >>> text = "Far [1, 2], old [m-2], dry [9], see [here](m.org), [1969]."
    >>> [(mark.text, mark.targets) for mark in find(text, moon, layout(text))]
    [('[1, 2]', ('m-1', 'm-2')), ('[m-2]', ('m-2',)), ('[9]', (None,))]
    """
    brackets = _brackets(answer) if "[" in answer or not answer.isascii() else []
    found = _pointing(answer, _based(answer, index, brackets) if "[0" in answer else index, brackets)
    linked = "([" in answer
    signed = may_sign(answer)
    if linked:
        found += _links(answer, index)
    if signed:
        found = [*tagged(answer, index), *superscripts(answer, index), *spoken(answer, index), *found]
        found = found or rounds(answer, index)
    if linked or signed:
        found.sort(key=attrgetter("start"))
    return _apart(found, plan)


def _apart(found: Iterable[Marker], plan: Layout) -> list[Marker]:
    """The marks that are in prose and do not overlap the one before."""
    hidden = _merged((*plan.set_aside, *plan.code)) if plan.set_aside or plan.code else []
    starts = [start for start, _ in hidden]
    kept: list[Marker] = []
    total = end = 0
    for mark in found:
        if mark.start < end:
            continue
        at = bisect_right(starts, mark.start) - 1 if starts else -1
        if at >= 0 and mark.start < hidden[at][1]:
            continue
        total += len(mark.targets)
        end = mark.end
        kept.append(mark if total <= _MANY else Marker(mark.start, end, mark.text, mark.targets[:1]))
    return kept


def _merged(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


# --- brackets ---------------------------------------------------------------------------------------------------------

_Bracket = tuple[int, int, str]


def _brackets(answer: str) -> list[_Bracket]:
    """Where brackets open and close, and what stands in them."""
    found: list[_Bracket] = []
    plain = answer.isascii() and "\\" not in answer
    at = answer.find("[") if plain else 0
    while at >= 0:
        if not plain:
            opens = _OPENS.search(answer, at)
            if opens is None:
                break
            at = opens.start()
        short = _PLAIN.match(answer, at)
        match = short if short and (at == 0 or answer[at - 1] != "!") else _BRACKET.match(answer, at)
        if match:
            found.append((at, match.end(), match[1] or match[2]))
        at = match.end() if match else at + 1
        if plain:
            at = answer.find("[", at)
    return found


def _pointing(answer: str, index: Index, brackets: Iterable[_Bracket]) -> list[Marker]:
    """The brackets that point to passages."""
    found: list[Marker] = []
    known: dict[str, tuple[str | None, ...]] = {}  # what many of them hold is looked up once
    indexed = -1
    for start, end, content in brackets:
        targets = known.get(content)
        if targets is None:
            targets = known[content] = index.targets(content)
        if not targets and index.base and content.strip() in ("0", "^0") and _CLOSES_A_CLAIM.match(answer, end):
            targets = (None,)
        if not targets:
            link = _linked(answer, index, start, end, content) if answer.startswith("(", end) else None
            found += [link] if link else []
        elif start == indexed or _is_index(answer, start, end):
            indexed = end
        else:
            alone = answer[end : end + 1] in _ALONE and (not start or answer[start - 1] in _ALONE)
            opens, closes = (start, end) if alone else _grown(answer, start, end)
            found.append(Marker(opens, closes, answer[opens:closes], targets))
    return found


def _linked(answer: str, index: Index, start: int, end: int, content: str) -> Marker | None:
    """The mark a link to a passage is: whole where its words are not the claim's own, else its address."""
    if not index.passages or answer.startswith("!", start - 1 if start else len(answer)):
        return None
    link = _URL.match(answer, end)
    passage = index.named(link[0][1:-1].split()[0].strip("<>")) if link else None
    if link is None or passage is None:
        return None
    before = answer[max(0, start - 24) : start]
    words = content.strip("*_` ")
    pointing = _POINTING.search(before) and _CLOSES_A_CLAIM.match(answer, link.end())
    if not (pointing or _POINTER.fullmatch(words) or index.named(words) == passage):
        start = end
    return Marker(start, link.end(), answer[start : link.end()], (passage,))


def _is_index(answer: str, start: int, end: int) -> bool:
    """Whether a bracket of numbers is an index, an interval or a list in a formula."""
    before = answer[start - 1] if start else ""
    if before == " ":
        if answer.endswith(_MEASURES, 0, start - 1) and _MEASURED.search(answer, max(0, start - 12), start):
            return True
    elif before == "(":
        if answer[end : end + 1] in {")", ","} and _CALLED.search(answer, max(0, start - 40), start):
            return True
    elif before == "=" or (before.isascii() and (before.isalnum() or before == "_") and _glued(answer, start)):
        return True
    ahead = answer[end : end + 1]
    if ahead == ".":
        return answer[end + 1 : end + 2].isalpha() and _COMPUTED.match(answer, end) is not None
    if ahead == " ":
        ahead = answer[end + 1 : end + 2]
    return ahead in _OPERATORS and _COMPUTED.match(answer, end) is not None


def _glued(answer: str, start: int) -> bool:
    """Whether a name of a program's stands right before a bracket."""
    return _INDEXED.search(answer[max(0, start - 40) : start]) is not None


def _based(answer: str, index: Index, brackets: Iterable[_Bracket]) -> Index:
    """The passages as the answer counts them: from 0 where it shows that it does."""
    if index.counted or 0 in index.ranks or "0" in index.ids or 1 not in index.ranks:
        return index
    used = [b for b in brackets if not _is_index(answer, b[0], b[1])]
    closing = any(content.strip() in ("0", "^0") and _CLOSES_A_CLAIM.match(answer, end) for _, end, content in used)
    highest = max((n for b in used if (n := counted(b[2])) is not None), default=0)
    return index.from_zero() if closing and highest + 1 <= max(index.ranks) else index


def _grown(answer: str, start: int, end: int) -> Span:
    """The mark with what belongs to it: second brackets, the link behind it, superscript around it."""
    ahead = answer[end : end + 1]
    if ahead == "]" and answer[start - 1 : start] == "[":
        start, end = start - 1, end + 1
        ahead = answer[end : end + 1]
    if ahead == "(":
        link = _URL.match(answer, end)
        end = link.end() if link else end
        ahead = answer[end : end + 1]
    if start >= 5 and answer[start - 1] == ">" and answer[start - 5 : start].lower() == "<sup>":
        start -= 5
    return start, end + 6 if ahead == "<" and answer[end : end + 6].lower() == "</sup>" else end


def _links(answer: str, index: Index) -> Iterator[Marker]:
    """Links in brackets to a passage's own address."""
    for link in LINK.finditer(answer):
        passage = index.named(link[2])
        if passage:
            yield Marker(link.start(), link.end(), link[0], (passage,))


# --- footnotes --------------------------------------------------------------------------------------------------------


def footnotes(answer: str, index: Index, plan: Layout) -> dict[str, str]:
    """Which passage the answer's own footnotes call by a number, where one names exactly one passage."""
    found = {}
    for start, end in plan.definitions:
        line = answer[start:end]
        mark = _BRACKET.search(line[:100])
        entry = _ENTRY.match(line)
        if entry and (mark is None or mark.start() > entry.start(entry.lastindex or 0)):
            number, rest = entry[1] or entry[2].translate(_TO_DIGITS), line[entry.end() :]
        elif mark and (digits := number_of(mark[1] or mark[2])):
            number, rest = digits, line[mark.end() :]
        else:
            continue
        passages = _told_in(rest, index)
        if len(passages) == 1:
            found[number] = passages[0]
    return found


def _told_in(line: str, index: Index) -> Sequence[str]:
    """The passages a footnote names, by id, title or address."""
    said = line.strip(" :\t\r\n")
    words = line.replace("](", " ").split()
    named = {index.named(word.strip("()<>[]\"'`*_.,;:")) for word in words} | {index.named(said)}
    return [name for name in named if name and not name.isdigit()]
