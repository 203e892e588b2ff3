"""The passages of a record as the marks of its answer call them: by number, by id, by address or file name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from groundtrace.model import Passage, Struct

_SEPARATOR = re.compile(r"\s*(?:[,;，、；&]|\band\b)\s*")
_LABEL = r"(?:\^|(?:doc(?:ument)?|source|passage|ref(?:erence)?|context|chunk|cit(?:e|ation)|snippet)s?[\s.:_#-]*)?"
_NUMBER = re.compile(rf"{_LABEL}(\d{{1,9}})(?:†[^†]{{0,190}})?", re.IGNORECASE)
_RANGE = re.compile(rf"{_LABEL}(\d{{1,9}})\s*(?:[-‐‑‒–—−]|to|\.{{2,3}})\s*\^?(\d{{1,9}})", re.IGNORECASE)
_THREAD = re.compile(r"\d{1,9}:\d{1,9}†([^†]{0,190})")
_LOCATOR = re.compile(r"(?:pp?|pages?|sec(?:tion)?|ch(?:apter)?|§)\.?\s*\d{1,6}(?:\s*[-–]\s*\d{1,6})?", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_PLAUSIBLE = 999
_WIDEST = 50
_NAMED_BY = ("title", "url", "source", "link", "uri", "href", "filename", "file_name", "file_id", "name")


class Marker(Struct, frozen=True):
    """A mark in the answer and the passages it points to: an id each, None where it points to nothing there is.

    A tag that opens what its partner cites points to nothing by itself: it has no targets.
    """

    start: int
    end: int
    text: str
    targets: tuple[str | None, ...]


class Index:
    """The passages as markers call them: by rank, by id, by what their metadata names them.

    `counted` says that the ranks are the numbers the model was shown; `base` is what the answer starts to count at.
    """

    def __init__(
        self,
        passages: Sequence[Passage],
        footnotes: Mapping[str, str] | None = None,
        *,
        counted: bool = False,
        base: int = 1,
    ) -> None:
        self.passages = passages
        self.footnotes = footnotes or {}
        self.counted = counted
        self.base = base
        self.ids = {passage.id for passage in passages}
        # The first of several that have the same rank.
        self.ranks = {passage.rank: passage.id for passage in reversed(passages)}
        if base == 0:
            self.ranks = {rank - 1: known for rank, known in self.ranks.items()}

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The ids of the passages by what else they go by; the first has a name that several have."""
        return {name: passage.id for passage in reversed(self.passages) for name in _names(passage)}

    @cached_property
    def _shapes(self) -> set[str]:
        return {_DIGITS.sub("0", known) for known in self.ids if _DIGITS.search(known) and not known.isdigit()}

    def from_zero(self) -> Index:
        """The same passages for an answer that counts them from 0, though their ranks start at 1."""
        return Index(self.passages, self.footnotes, counted=self.counted, base=0)

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
        if whole.isdecimal() and len(whole) <= 9:
            return self._number(whole)
        if whole in self.ids:
            return (whole,)
        found: list[str | None] = []
        for part in _SEPARATOR.split(whole):
            pointed = self._pointed(part)
            if not pointed and not (found and _LOCATOR.fullmatch(part)):
                named = self.named(whole) if "." in whole or "/" in whole else None
                return (named,) if named else ()
            found += pointed
        known = dict.fromkeys(target for target in found if target)
        return (*known, *(None for target in found if target is None))

    def _number(self, digits: str) -> tuple[str | None, ...]:
        passage = self.numbered(digits)
        return (passage,) if passage or 0 < int(digits) <= _PLAUSIBLE else ()

    def _pointed(self, part: str) -> Sequence[str | None]:
        name = part.removeprefix("^")
        if name in self.ids and not name.isdigit():
            return (name,)
        number = _NUMBER.fullmatch(part)
        if number:
            return self._number(number[1])
        between = _RANGE.fullmatch(part)
        if between:
            return self._range(int(between[1]), int(between[2]))
        thread = _THREAD.fullmatch(part)
        if thread:
            return (self.named(thread[1]),)
        return (None,) if _DIGITS.sub("0", part) in self._shapes else ()

    def _range(self, first: int, last: int) -> Sequence[str | None]:
        if not self.base <= first <= last or first > _PLAUSIBLE:
            return ()
        if last - first >= max(_WIDEST, len(self.passages)):
            return (None,)
        return [self.numbered(str(number)) for number in range(first, last + 1)]


def counted(content: str) -> int | None:
    """The highest number a mark's content counts to, None where it is none of numbers.

    >>> counted("1, 3"), counted("0-2"), counted("p7")
    (3, 2, None)
    """
    parts = _SEPARATOR.split(content.strip())
    found = [_NUMBER.fullmatch(part) or _RANGE.fullmatch(part) for part in parts]
    return max((int(one[one.re.groups]) for one in found if one), default=None)


def number_of(content: str) -> str | None:
    """The digits of a mark's content that is one number.

    >>> number_of("^3"), number_of("doc 3"), number_of("1, 3")
    ('3', '3', None)
    """
    number = _NUMBER.fullmatch(content.strip())
    return number[1] if number else None


def _names(passage: Passage) -> Iterator[str]:
    if not passage.metadata:
        return
    values: Iterable[Any] = (passage.metadata.get(key) for key in _NAMED_BY)
    yield from (_folded(value) for value in values if isinstance(value, str) and value.strip())


def _folded(name: str) -> str:
    return name.strip().rstrip("/").casefold()
