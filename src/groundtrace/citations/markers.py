"""The marks by which an answer points to passages: [1], [2, 3], [4-6], [^7], [doc 8], 【9†source】, [passage-id]."""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groundtrace.citations.layout import Layout, Span
from groundtrace.model import Passage

_BRACKET = re.compile(r"(?<!!)(?:\\?\[|［)([^\[\]［］\n]{1,200}?)(?:\\?\]|］)|【([^【】\n]{1,200})】")
_URL = re.compile(r"\((?=[^()\s]{0,2000}[./#:])(?:[^()\s]|\([^()\s]{0,200}\)){1,2000}(?:[ \t]+\"[^\"\n]{0,200}\")?\)")
LINK = re.compile(r"\(\[([^\[\]\n]{1,300})\]\(((?:[^()\s]|\([^()\s]{0,200}\)){1,2000})\)\)")
_SEPARATOR = re.compile(r"\s*(?:[,;，、；&]|\band\b)\s*")
_LABEL = r"(?:\^|(?:doc(?:ument)?|source|passage|ref(?:erence)?|context|chunk|cit(?:e|ation)|snippet)s?[\s.:_#-]*)?"
_NUMBER = re.compile(rf"{_LABEL}(\d{{1,9}})(?:†[^†]{{0,190}})?", re.IGNORECASE)
_RANGE = re.compile(rf"{_LABEL}(\d{{1,9}})\s*(?:[-‐‑‒–—−]|to|\.{{2,3}})\s*\^?(\d{{1,9}})", re.IGNORECASE)
_THREAD = re.compile(r"\d{1,9}:\d{1,9}†([^†]{0,190})")
_LOCATOR = re.compile(r"(?:pp?|pages?|sec(?:tion)?|ch(?:apter)?|§)\.?\s*\d{1,6}(?:\s*[-–]\s*\d{1,6})?", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_PLAUSIBLE = 999
_WIDEST = 50
_MANY = 20_000  # citations of one answer; from there on a mark points to one passage, so that ranges can't multiply
_NAMED_BY = ("title", "url", "source", "link", "uri", "href", "filename", "file_name", "file_id", "name")


@dataclass(frozen=True, slots=True)
class Marker:
    """A mark in the answer and the passages it points to: an id each, None where it points to nothing there is."""

    start: int
    end: int
    text: str
    targets: tuple[str | None, ...]


class Index:
    """The passages as markers call them: by rank, by id, by what their metadata names them."""

    def __init__(self, passages: Sequence[Passage], footnotes: Mapping[str, str] | None = None) -> None:
        self.passages = tuple(passages)
        self.footnotes = footnotes or {}
        self.ranks: dict[int, str] = {}
        self.ids = {passage.id for passage in passages}
        self.names: dict[str, str] = {}
        for passage in passages:
            self.ranks.setdefault(passage.rank, passage.id)
            for name in _names(passage):
                self.names.setdefault(name, passage.id)
        self.shapes = {_DIGITS.sub("0", known) for known in self.ids if _DIGITS.search(known) and not known.isdigit()}

    def named(self, name: str | None) -> str | None:
        """The passage with this id, title, address or file name."""
        if name is None:
            return None
        return name if name in self.ids else self.names.get(_folded(name))

    def numbered(self, digits: str) -> str | None:
        """The passage an answer counts under this number: as its own footnotes say, else by rank, else by id."""
        counted = self.footnotes.get(digits) or self.ranks.get(int(digits))
        return counted or (digits if digits in self.ids else None)

    def targets(self, content: str) -> tuple[str | None, ...]:
        """What a mark's content points to; nothing at all where it is no citation."""
        whole = content.strip()
        if whole in self.ids and not whole.isdigit():
            return (whole,)
        found: list[str | None] = []
        for part in _SEPARATOR.split(whole):
            pointed = self._pointed(part)
            if not pointed and not (found and _LOCATOR.fullmatch(part)):
                return ()
            found += pointed
        known = dict.fromkeys(target for target in found if target)
        return (*known, *(None for target in found if target is None))

    def _pointed(self, part: str) -> Sequence[str | None]:
        name = part.removeprefix("^")
        if name in self.ids and not name.isdigit():
            return (name,)
        number = _NUMBER.fullmatch(part)
        if number:
            digits = number[1]
            passage = self.numbered(digits)
            return (passage,) if passage or 0 < int(digits) <= _PLAUSIBLE else ()
        between = _RANGE.fullmatch(part)
        if between:
            return self._range(int(between[1]), int(between[2]))
        thread = _THREAD.fullmatch(part)
        if thread:
            return (self.named(thread[1]),)
        return (None,) if _DIGITS.sub("0", part) in self.shapes else ()

    def _range(self, first: int, last: int) -> Sequence[str | None]:
        if not 0 < first <= last or first > _PLAUSIBLE:
            return ()
        if last - first >= max(_WIDEST, len(self.passages)):
            return (None,)
        return [self.numbered(str(number)) for number in range(first, last + 1)]


def _names(passage: Passage) -> Iterator[str]:
    values: Iterable[Any] = (passage.metadata.get(key) for key in _NAMED_BY)
    return (_folded(value) for value in values if isinstance(value, str) and value.strip())


def _folded(name: str) -> str:
    return name.strip().rstrip("/").casefold()


def find(answer: str, index: Index, plan: Layout) -> list[Marker]:
    """The marks of an answer in order, none in code, in footnotes or in the list of sources; links are none.

    A number with a link behind it and a link in brackets to a passage's own address are.

    >>> moon = Index([Passage(id="m-1", text="", rank=1), Passage(id="m-2", text="", rank=2)])
    >>> from groundtrace.citations.layout import layout
    >>> text = "Far [1, 2], old [m-2], dry [9], see [here](m.org), [1969]."
    >>> [(mark.text, mark.targets) for mark in find(text, moon, layout(text))]
    [('[1, 2]', ('m-1', 'm-2')), ('[m-2]', ('m-2',)), ('[9]', (None,))]
    """
    apart = sorted((*plan.set_aside, *plan.code))
    starts = [start for start, _ in apart]
    pointed = functools.cache(index.targets)
    found: list[Marker] = []
    total = 0
    for match in sorted((*_BRACKET.finditer(answer), *LINK.finditer(answer)), key=lambda m: m.start()):
        at = bisect_right(starts, match.start()) - 1
        hidden = at >= 0 and match.start() < apart[at][1]
        if hidden or (found and match.start() < found[-1].end):
            continue
        if match.re is LINK:
            passage = index.named(match[2])
            targets: tuple[str | None, ...] = (passage,) if passage else ()
            start, end = match.span()
        else:
            targets = pointed(match[1] or match[2])
            start, end = _grown(answer, *match.span())
        if targets:
            total += len(targets)
            found.append(Marker(start, end, answer[start:end], targets if total <= _MANY else targets[:1]))
    return found


def _grown(answer: str, start: int, end: int) -> Span:
    """The mark with what belongs to it: second brackets, the link behind it, superscript around it."""
    if answer[start - 1 : start] == "[" and answer[end : end + 1] == "]":
        start, end = start - 1, end + 1
    link = _URL.match(answer, end)
    end = link.end() if link else end
    start -= 5 if answer[start - 5 : start].lower() == "<sup>" and start >= 5 else 0
    end += 6 if answer[end : end + 6].lower() == "</sup>" else 0
    return start, end


def footnotes(answer: str, index: Index, plan: Layout) -> dict[str, str]:
    """Which passage the answer's own footnotes call by a number, where one names exactly one passage."""
    found = {}
    for start, end in plan.definitions:
        line = answer[start:end]
        mark = _BRACKET.search(line[:100])
        number = _NUMBER.fullmatch((mark[1] or mark[2]).strip()) if mark else None
        if mark is None or number is None:
            continue
        said = line[mark.end() :].strip(" :\t\r\n")
        named = {index.named(word.strip("()<>[]\"'`*_.,;:")) for word in said.split()} | {index.named(said)}
        passages = [name for name in named if name and not name.isdigit()]
        if len(passages) == 1:
            found[number[1]] = passages[0]
    return found
