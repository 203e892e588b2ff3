"""What of an answer is no prose: code, tables' rules and headers, footnotes, the list of sources at the end."""

from __future__ import annotations

import itertools
import re
import string
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

Span = tuple[int, int]

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"[ \t]{0,12}(?:[-*+>][ \t]+)?(`{3,}(?!`)|~{3,}(?!~))(?=[^`\n]*$)[ \t]*([\w+-]*)")
_PROSE = frozenset(("markdown", "md", "text", "txt"))
_TICKS = re.compile(r"`+")
_RULE = re.compile(r"[ \t]*(?:\|[ \t]*)?:?-+:?[ \t]*(?:\|[ \t\r]*(?:(?::-*:?|-+:?)[ \t\r]*)?)*$")
_UNDERLINE = re.compile(r"[ \t]*(?:={3,}|-{3,})[ \t\r]*$")
_FOOTNOTE = re.compile(r"[ \t]*\[\^[^\]\s]{1,40}\]:|[ \t]{0,3}\[[^\]\n]{1,80}\]:[ \t]*(?:<?\w{1,12}://|www\.|[\"'])")
_SOURCES = re.compile(
    r"[ \t]*(?:[-*+>#][ \t>#]*)?[*_]{0,3}(?:sources?|references?|citations?|bibliography|footnotes|works cited"
    r"|sources? (?:used|cited|list)|reference list|quellen|literatur|références|fuentes|referencias|fonti"
    r"|参考文献|出典|来源)[*_]{0,3}(?:[ \t]*(?:[:：][*_]{0,3}|[*_]{1,3}))?[ \t\r]*\n?$",
    re.IGNORECASE,
)
_ENTRY = re.compile(
    r"[ \t]*(?:[-*+•][ \t]|\[\^?[^\]\n]{1,80}\]|【|\(?\d{1,3}[.):][ \t]|[⁰¹²³⁴-⁹]{1,3}[ \t]|<?\w{1,12}://"
    r"|[*_]{0,2}(?:source|document|reference|passage) \d{1,3}[*_]{0,2}[:.]|\r?\n|$)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"[ \t]*(?:[-*+•][ \t]+)?(?:\[\d{1,3}\]|\(?\d{1,3}[.)]|[⁰¹²³⁴-⁹]{1,3})[ \t]+"
    r"(?:\[[^\[\]\n]{1,200}\]\([^()\s]{1,2000}\)|<?(?:https?://|www\.)\S{1,2000})[ \t\r]*\n?$"
)
_FORMULA = re.compile(
    r"\$\$[^$]{1,2000}\$\$|(?<![\\$\w])\$(?![\s\d])[^$\n]{0,400}(?<=\S)\$(?!\d)"
    r"|\\\((?:[^\\\n]|\\(?![()])){1,400}\\\)|\\\[\s(?:[^\\]|\\(?![\[\]])){1,2000}\\\]"
)
_ITEM = re.compile(r"[ \t]*(?:[-*+•◦‣▪–—>|#]|\(?(?:\d{1,3}|[a-zA-Z])[.)](?=\s)|\[\^?\d|【|`{3,}|~{3,})")
_WRAPPED = 40  # a line that was wrapped is at least this long; shorter ones are lines of their own
_TITLE = 80
_LONG = 100  # no line that announces sources is longer
_STARTS = frozenset(f"{string.ascii_letters}“\"'")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an answer is no prose; all spans in order and apart.

    `set_aside` are whole lines of code, footnotes and listed sources: no claims, no citations. `definitions` are those
    of them that name a source. `titles` are headings and header rows, `code` is code within a line and formulas,
    `wraps` are line breaks in the middle of a sentence.
    """

    set_aside: tuple[Span, ...]
    definitions: tuple[Span, ...]
    titles: tuple[Span, ...]
    code: tuple[Span, ...]
    wraps: tuple[int, ...]


_PROSE_ALONE = Layout((), (), (), (), ())


@lru_cache(maxsize=16)  # whose citations are read is soon asked whether it abstains
def layout(answer: str) -> Layout:
    r"""Read an answer's markdown line by line.

    >>> read = layout("# Moon\nIt is far [1].\n```\nx[1]\n```\n[^1]: nasa")
    >>> read.titles, read.set_aside, read.definitions
    (((0, 7),), ((22, 35), (35, 45)), ((35, 45),))
    """
    if _is_prose(answer):
        formulas = _formulas(answer)
        return Layout((), (), (), formulas, ()) if formulas else _PROSE_ALONE
    lines = [match.span() for match in _LINE.finditer(answer)]
    fenced = list(_fenced(answer, lines))
    fences = [(lines[first][0], lines[last][1]) for first, last in fenced]
    inside = {line for first, last in fenced for line in range(first, last + 1)}
    free = [span for number, span in enumerate(lines) if number not in inside]
    definitions = list(_definitions(answer, free))
    defined = set(definitions)
    prose = [span for span in free if span not in defined]
    titles = tuple(_titles(answer, prose))
    return Layout(
        tuple(sorted(fences + definitions)),
        tuple(definitions),
        titles,
        (*_code(answer, prose), *_formulas(answer)),
        tuple(_wraps(answer, prose, titles)),
    )


def _is_prose(answer: str) -> bool:
    """Whether it is one line that starts with a letter and announces no sources: nothing but prose."""
    if answer[:1] not in _STARTS or "\n" in answer or "`" in answer or "|" in answer:
        return False
    return len(answer) > _LONG or _SOURCES.match(answer) is None


def _fenced(answer: str, lines: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """First and last line of each closed code block; one of prose gives its two fences only."""
    opened: tuple[int, str, str] | None = None
    for number, (start, end) in enumerate(lines):
        fence = _FENCE.match(answer, start, end - (answer[end - 1] == "\n"))
        if not fence:
            continue
        ticks, language = fence.groups()
        if opened is None:
            opened = number, ticks, language.lower()
        elif ticks.startswith(opened[1]) and not language:
            if opened[2] in _PROSE:
                yield opened[0], opened[0]
                yield number, number
            else:
                yield opened[0], number
            opened = None


def _definitions(answer: str, lines: Sequence[Span]) -> Iterator[Span]:
    """Footnotes, and under a line that announces sources the entries up to the first line that is none.

    Numbered addresses at the very end are entries without such a line, unless a colon announces them as what is said.
    """
    listing = False
    numbered = _addresses(answer, lines)
    for at, (start, end) in enumerate(lines):
        if at >= numbered or _FOOTNOTE.match(answer, start, end):
            yield start, end
        elif _SOURCES.match(answer, start, end):
            listing = True
        elif listing:
            listing = _ENTRY.match(answer, start, end) is not None
            if listing:
                yield start, end


def _addresses(answer: str, lines: Sequence[Span]) -> int:
    """From which line on an answer only lists numbered addresses; past the last one where it does not."""
    first = at = len(lines)
    while at and (answer[slice(*lines[at - 1])].isspace() or _ADDRESS.match(answer, *lines[at - 1])):
        at -= 1
        first = first if answer[slice(*lines[at])].isspace() else at
    said = answer[lines[at - 1][0] : lines[at - 1][1]].rstrip() if at else ":"
    return len(lines) if said.endswith((":", "：")) else first


def _titles(answer: str, lines: Sequence[Span]) -> Iterator[Span]:
    """Headings: signed, underlined, or bold on a line of their own; the header row of a table; "Sources:"."""
    for (start, end), below in itertools.zip_longest(lines, lines[1:]):
        text = answer[start:end].strip()
        signed = text.startswith("#") and text.lstrip("#")[:1].isspace()
        if signed or _SOURCES.match(answer, start, end):
            yield start, end
        elif below and text and len(text) <= _TITLE:
            last = below[1] - (answer[below[1] - 1] == "\n")
            header = "|" in text and _RULE.match(answer, below[0], last)
            underlined = text[-1] not in ".!?]|" and _UNDERLINE.match(answer, below[0], last)
            if header or underlined or _bold(text):
                yield start, end


def _bold(text: str) -> bool:
    sign, core = text[:2], text.removesuffix(":")
    return sign in ("**", "__") and core[-2:] == sign and core.count(sign) == 2 and core[-3:-2] not in ".!?"


def _code(answer: str, lines: Sequence[Span]) -> Iterator[Span]:
    """Code within a line: from a run of ticks to the next run as long."""
    for start, end in lines:
        if answer.find("`", start, end) < 0:
            continue
        runs = [match.span() for match in _TICKS.finditer(answer, start, end)]
        ahead: dict[int, deque[int]] = {}
        for at, (opens, closes) in enumerate(runs):
            ahead.setdefault(closes - opens, deque()).append(at)
        closed = -1
        for at, (opens, closes) in enumerate(runs):
            same = ahead[closes - opens]
            while same and same[0] <= at:
                same.popleft()
            if at > closed and same:
                closed = same[0]
                yield opens, runs[closed][1]


def _formulas(answer: str) -> tuple[Span, ...]:
    """Mathematics as LaTeX writes it; a sum of money is none."""
    if "$" in answer or "\\(" in answer or "\\[" in answer:
        return tuple(match.span() for match in _FORMULA.finditer(answer))
    return ()


def _wraps(answer: str, lines: Sequence[Span], titles: Iterable[Span]) -> Iterator[int]:
    """Line breaks that only wrap a sentence: a long line ends nothing and the next goes on in lower case."""
    over = set(titles)
    for line, (start, stop) in itertools.pairwise(lines):
        end = line[1]
        ended = answer[max(line[0], end - 3) : end].rstrip()[-1:] in ("", *".!?:;|。！？")
        goes_on = answer[start:stop].lstrip()[:1].islower() and not _ITEM.match(answer, start, stop)
        if end == start and end - line[0] > _WRAPPED and goes_on and not ended and line not in over:
            yield end - 1
