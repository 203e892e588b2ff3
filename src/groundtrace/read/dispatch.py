"""Which conventions are asked about a span: those one of whose marks stands on it, its events, logs or scope.

Nobody is asked about the spans our own judges left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from groundtrace.model import Span
from groundtrace.ports import Convention

_NAMES = 20_000
"""Names that are remembered; hostile traces may have a new one in every span."""

_KINDS, _SHARED = 128, 300
"""Kinds of spans that are remembered, and the attributes each of them has at most."""


class Dispatch:
    """The conventions in the order they are heard, and for each name the ones it marks.

    Names repeat from span to span, so each is held against the marks once.
    """

    def __init__(self, conventions: Sequence[Convention]) -> None:
        self.conventions = tuple(sorted(conventions, key=lambda convention: getattr(convention, "fallback", False)))
        self._everywhere = sum(1 << at for at, one in enumerate(self.conventions) if "" in one.marks)
        self._marked: dict[str, int] = {}
        self._chosen: dict[int, tuple[Convention, ...]] = {}
        self._alike: dict[tuple[str, ...], tuple[Convention, ...]] = {}

    def of(self, span: Span) -> tuple[Convention, ...]:
        """The conventions to be asked about a span, in order."""
        if span.logs or span.events or len(span.attributes) > _SHARED:
            return self._asked(span)
        # Spans of one kind have the same names, and nothing but these counts.
        names = (span.scope, *span.attributes)
        chosen = self._alike.get(names)
        if chosen is None:
            if len(self._alike) >= _KINDS:
                self._alike.clear()
            chosen = self._alike[names] = self._asked(span)
        return chosen

    def _asked(self, span: Span) -> tuple[Convention, ...]:
        if span.is_judging:
            return ()
        marked = self._marked
        bits = self._everywhere | (marked[span.scope] if span.scope in marked else self._mark(span.scope))
        for name in span.attributes:
            bits |= marked[name] if name in marked else self._mark(name)
        for log in span.logs:
            for name in log.attributes:
                bits |= marked[name] if name in marked else self._mark(name)
        for event in span.events:
            bits |= marked[event.name] if event.name in marked else self._mark(event.name)
        chosen = self._chosen.get(bits)
        if chosen is None:
            chosen = self._chosen[bits] = tuple(one for at, one in enumerate(self.conventions) if bits >> at & 1)
        return chosen

    def _mark(self, name: str) -> int:
        if len(self._marked) >= _NAMES:
            self._marked.clear()
        found = sum(1 << at for at, one in enumerate(self.conventions) if _starts(name, one.marks))
        self._marked[name] = found
        return found


def _starts(name: str, marks: Iterable[str]) -> bool:
    return any(mark and name.startswith(mark) for mark in marks)


@lru_cache(maxsize=8)
def dispatch(conventions: tuple[Convention, ...]) -> Dispatch:
    """The dispatch of these conventions, made once."""
    return Dispatch(conventions)
