"""What comes in parts, held until it is whole: groups of parts by key, bounded in parts, bytes and time.

A group is over when all that began in it has ended and nothing more came for a while, or when it has been held too
long. One that grows too large, or for which there is no room, is let go as a whole: half of it is not what it was.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from groundtrace.live import Counts, born_again

Part = TypeVar("Part")

FULL, TOO_LARGE, LATE, UNFINISHED = "full", "too_large", "late", "unfinished"
"""Why something was let go: no room, larger than a group may be, after its group was over, never over."""

_LEAST = 0.02
"""Seconds between two looks, at least."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is held: of one group, of all together, and for how many seconds.

    `settle` is how long nothing must have come for a group to be over, `lifetime` how long one is held at most. With
    `drop` "oldest" the group that has been over for longest makes room where there is none.
    """

    settle: float = 2.0
    lifetime: float = 300.0
    most_parts: int = 2_000
    most_bytes: int = 8_000_000
    held_parts: int = 20_000
    held_bytes: int = 64_000_000
    drop: Literal["newest", "oldest"] = "newest"


@dataclass(slots=True, eq=False)
class Group(Generic[Part]):
    """The parts of one key so far."""

    key: int
    first: float
    last: float
    parts: list[Part] = field(default_factory=list)
    size: int = 0
    open: int = 0
    """How many began and did not end."""
    roots: int = 0
    """And how many of those are roots: without its root a group is not what it was."""
    over: str = ""
    """Why it was let go, if it was: what still comes of it is not held."""
    done: bool = False


class Gathering(Generic[Part]):
    """Groups in the making; every call is short, from any thread."""

    def __init__(self, bounds: Bounds, counts: Counts, clock: Callable[[], float] = time.monotonic) -> None:
        self.bounds, self._counts, self._clock = bounds, counts, clock
        self._begin()
        born_again(self._begin)

    def begin(self, key: int, *, root: bool) -> bool:
        """Something of this key begins; a root begins a group, and what comes after its group is late.

        Whether this is the first group there is.
        """
        with self._lock:
            group = self._held.get(key)
            first = False
            if group is None:
                if not root:
                    self._counts.add(LATE)
                    return False
                first, now = not self._held, self._clock()
                group = self._held[key] = Group(key, now, now)
                if not self._room(1, 1):
                    group.over = FULL
                    self._counts.add(FULL)
            else:
                self._quiet.pop(key, None)
            group.open += 1
            group.roots += root
            return first

    def end(self, key: int, part: Part, size: int, *, root: bool) -> Sequence[Part]:
        """Something of this key ended; the parts that are held no more, as they should have been."""
        with self._lock:
            group = self._held.get(key)
            if group is None:
                return (part,)
            group.open -= 1
            group.roots -= root
            freed = self._put(group, part, size)
            if group.open <= 0:
                self._rest(group)
            return freed

    def put(self, key: int, part: Part, size: int, *, last: bool) -> Sequence[Part]:
        """Something of this key came, of which nobody said that it began; the parts that are held no more.

        After the last one the group may be over.
        """
        with self._lock:
            group = self._held.get(key)
            if group is None:
                if self._closed:
                    return (part,)
                now = self._clock()
                group = self._held[key] = Group(key, now, now, open=1, roots=1)
            if last:
                group.open = group.roots = 0
            freed = self._put(group, part, size)
            self._quiet.pop(key, None)
            if group.open <= 0:
                self._rest(group)
            return freed

    def holds(self, key: int) -> bool:
        """Whether there is a group of this key."""
        return key in self._held

    @property
    def is_empty(self) -> bool:
        """Whether there is no group."""
        return not self._held

    def due(self, most: int) -> list[Group[Part]]:
        """The groups that are over, oldest first; their room is theirs until they are `release`d."""
        with self._lock:
            now, taken = self._clock(), list[Group[Part]]()
            while self._hurried and len(taken) < most:
                taken.append(self._take(self._hurried.pop(0)))
            while self._quiet and len(taken) < most:
                group = next(iter(self._quiet.values()))
                if group.last + self.bounds.settle > now:
                    break
                taken.append(self._take(self._out(group)))
            while self._held and len(taken) < most:
                group = next(iter(self._held.values()))
                if group.first + self.bounds.lifetime > now:
                    break
                self._take(self._out(group))
                if group.parts:
                    taken.append(group)
                else:
                    self._free(group)
            return taken

    def wait(self) -> float | None:
        """In how many seconds a group may be over; None where there is none."""
        with self._lock:
            if self._hurried:
                return 0.0
            if not self._held:
                return None
            settle = self.bounds.settle
            if self._quiet:
                settle = next(iter(self._quiet.values())).last + settle - self._clock()
            return max(settle, _LEAST)

    def release(self, group: Group[Part]) -> None:
        """A group that was taken is done with."""
        with self._lock:
            self._free(group)

    def hurry(self) -> list[Group[Part]]:
        """Wait no more for what may come late: all that ended is due now; those groups, and those being worked on."""
        with self._lock:
            for group in self._quiet.values():
                self._hurried.append(group)
                del self._held[group.key]  # what comes now is late
            self._quiet.clear()
            return [*self._hurried, *self._taken.values()]

    def close(self, *, for_good: bool = False) -> list[Group[Part]]:
        """Let go of what is not over; where only the root ended, the rest is not waited for.

        `for_good`: nothing that is `put` from now on is held.
        """
        with self._lock:
            if for_good:
                self._closed = True
            left = [group for group in self._held.values() if group.open > 0]
            for group in left:
                if group.roots <= 0 and not group.over:
                    self._quiet[group.key] = group
                    continue
                del self._held[group.key]
                self._free(group)
                if group.parts:
                    self._counts.add(UNFINISHED)
            return [group for group in left if group.done and group.parts]

    # --- inside the lock ----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may trace, or shut down, in the thread it interrupts
        self._held: dict[int, Group[Part]] = {}
        self._quiet: OrderedDict[int, Group[Part]] = OrderedDict()
        """Those in which nothing is open, by when that came to be."""
        self._hurried: list[Group[Part]] = []
        self._taken: dict[int, Group[Part]] = {}
        self._parts = self._bytes = 0
        self._closed = False

    def _put(self, group: Group[Part], part: Part, size: int) -> Sequence[Part]:
        group.last = self._clock()
        if group.over:
            return (part,)
        group.parts.append(part)
        group.size += size
        self._parts += 1
        self._bytes += size
        bounds = self.bounds
        if len(group.parts) > bounds.most_parts or group.size > bounds.most_bytes:
            return self._let_go(group, TOO_LARGE)
        if not self._room(0, 0):
            return self._let_go(group, FULL)
        return ()

    def _rest(self, group: Group[Part]) -> None:
        """Nothing is open in it: what was let go is forgotten, what is held waits for late ones."""
        if group.over:
            del self._held[group.key]
        else:
            self._quiet[group.key] = group
            self._quiet.move_to_end(group.key)

    def _room(self, parts: int, size: int) -> bool:
        """Whether there is room for more, made if that may be."""
        bounds = self.bounds
        while self._parts + parts > bounds.held_parts or self._bytes + size > bounds.held_bytes:
            if bounds.drop == "newest" or not self._quiet:
                return False
            oldest = next(iter(self._quiet.values()))
            self._let_go(oldest, FULL)
            self._quiet.pop(oldest.key)
            del self._held[oldest.key]
            oldest.done = True
        return True

    def _let_go(self, group: Group[Part], why: str) -> Sequence[Part]:
        freed, group.parts = group.parts, []
        self._parts -= len(freed)
        self._bytes -= group.size
        group.size, group.over = 0, why
        self._counts.add(why)
        return freed

    def _out(self, group: Group[Part]) -> Group[Part]:
        self._quiet.pop(group.key, None)
        del self._held[group.key]
        return group

    def _take(self, group: Group[Part]) -> Group[Part]:
        self._taken[id(group)] = group
        return group

    def _free(self, group: Group[Part]) -> None:
        self._taken.pop(id(group), None)
        if group.done:
            return
        self._parts -= len(group.parts)
        self._bytes -= group.size
        group.size, group.done = 0, True
