"""What was seen before, in so little room that a run of any length fits."""

from __future__ import annotations

from array import array
from collections.abc import Hashable

_WHOLE = 2**64 - 1
_LEAST = 1024
"""Places at first; there are always half as many again as things."""


class Marks:
    """A whole number (below 2**64) for each of many things, or none, at 12 to 48 bytes each: a dict takes 170.

    Things are told apart by their hash alone: of a million, two share one in one of thirty million runs.

    >>> marks = Marks()
    >>> marks["a"] = 7
    >>> marks.get("a"), marks.get("b"), "a" in marks
    (7, None, True)
    """

    __slots__ = ("_count", "_keys", "_numbers")

    def __init__(self) -> None:
        self._count = 0
        self._keys = _empty(_LEAST)
        self._numbers: array[int] | None = None
        """Made for the first number that is not 0."""

    def __contains__(self, thing: Hashable) -> bool:
        return self._keys[self._place(_key(thing))] != 0

    def __setitem__(self, thing: Hashable, number: int) -> None:
        key = _key(thing)
        self._note(self._place(key), key, number)

    def get(self, thing: Hashable) -> int | None:
        """The number of a thing, or None where it was not seen."""
        at = self._place(_key(thing))
        if not self._keys[at]:
            return None
        return self._numbers[at] if self._numbers is not None else 0

    def add(self, thing: Hashable) -> bool:
        """Note a thing; whether it was not seen before."""
        key = _key(thing)
        at = self._place(key)
        if self._keys[at]:
            return False
        self._note(at, key, 0)
        return True

    def _place(self, key: int) -> int:
        """Where a key is, or would be."""
        keys, last = self._keys, len(self._keys) - 1
        at = key & last
        while keys[at] and keys[at] != key:
            at = at + 1 & last
        return at

    def _note(self, at: int, key: int, number: int) -> None:
        if not self._keys[at]:
            self._count += 1
        self._put(at, key, number)
        if 3 * self._count > 2 * len(self._keys):
            self._grow()

    def _put(self, at: int, key: int, number: int) -> None:
        self._keys[at] = key
        if number and self._numbers is None:
            self._numbers = _empty(len(self._keys))
        if self._numbers is not None:
            self._numbers[at] = number

    def _grow(self) -> None:
        keys, numbers = self._keys, self._numbers
        self._keys, self._numbers = _empty(2 * len(keys)), None
        for at, key in enumerate(keys):
            if key:
                self._put(self._place(key), key, numbers[at] if numbers is not None else 0)


def _empty(places: int) -> array[int]:
    return array("Q", bytes(8 * places))


def _key(thing: Hashable) -> int:
    return hash(thing) & _WHOLE or 1
