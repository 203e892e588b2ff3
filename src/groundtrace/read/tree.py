"""The requests of a trace: its spans in the order of their tree, and which of them belong to which request.

Spans come in any order, without roots, in circles, from clocks that disagree. Order is parent before child first,
start time only among siblings. All walks are iterative and see every span once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import astuple, replace

from groundtrace.model import Reading, Span, Struct, Trace
from groundtrace.read.turns import is_silent, sessions
from groundtrace.read.twins import without_twins

_NEVER = 1 << 62
_NONE: list[Seen] = []
_NOTHING = Reading("other")
_LOST = "lost "
_HELD = {"query": "query", "context": "documents", "answer": "output"}
"""The part of a reading that holds a field of the record."""


class Seen(Struct, frozen=True, eq=False):
    """A span with what is said of it. `parent` is the span it stands below, `tree` the top its tree hangs from."""

    span: Span
    reading: Reading
    parent: Seen | None = None
    tree: str = ""
    place: int = 0

    @property
    def orphan(self) -> bool:
        """Whether the top its tree hangs from names a parent that is not in the trace."""
        return self.tree.startswith(_LOST)

    def above(self) -> Iterable[Seen]:
        """The spans it stands below, nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent


@dataclass(slots=True)
class Request:
    """One request: its own span where there is one, and all that was seen for it, in order."""

    top: Seen | None
    seen: list[Seen]
    _by_role: dict[str, list[Seen]] | None = field(default=None, repr=False, compare=False)

    def of(self, role: str, *others: str) -> list[Seen]:
        """What was seen in these roles, in order."""
        known = self._by_role or self._sorted()
        if not others:
            return known.get(role, _NONE)
        held = [one for one in (role, *others) if one in known]
        if len(held) < 2:
            return known[held[0]] if held else _NONE
        return [s for s in self.seen if s.reading.role in held]

    def take(self, more: Iterable[Seen]) -> None:
        """Have what was seen elsewhere beside its own, in order."""
        self.seen = sorted((*more, *self.seen), key=lambda s: s.place)
        self._by_role = None

    def _sorted(self) -> dict[str, list[Seen]]:
        by_role: dict[str, list[Seen]] = {}
        for seen in self.seen:
            role = seen.reading.role
            if role in by_role:
                by_role[role].append(seen)
            else:
                by_role[role] = [seen]
        self._by_role = by_role
        return by_role

    @property
    def declares(self) -> bool:
        """Whether a user's own mapping speaks for anything in it."""
        return any(seen.reading.declared for seen in self.seen)

    @property
    def tree(self) -> str:
        """The tree it stands in; what was shared with it may be of others."""
        return (self.top or next((s for s in self.seen if s.reading.role == "generation"), self.seen[0])).tree


def walk(trace: Trace, readings: Mapping[int, Reading]) -> tuple[Seen, ...]:
    """Every span of a trace with its reading (by position), parents first, siblings by start time.

    What runs inside a span that stands aside (an evaluator's own calls) is left without a reading.
    """
    spans = trace.spans
    first = {spans[at].id: at for at in range(len(spans) - 1, -1, -1)}
    starts = [_NEVER if span.start is None else span.start for span in spans]
    in_time = sorted(range(len(spans)), key=starts.__getitem__)
    parents = [first.get(span.parent_id, at) if span.parent_id else at for at, span in enumerate(spans)]
    below: dict[int, list[int]] = {}
    tops: list[int] = []
    for at in reversed(in_time):  # those that began last lie at the bottom of the pile
        above = parents[at]
        if above == at:
            tops.append(at)
        elif above in below:
            below[above].append(at)
        else:
            below[above] = [at]
    order: dict[int, Seen] = {}
    asides: set[int] = set()
    # What is left when all trees are walked hangs in circles of parents: each is entered where it started.
    for top in (*reversed(tops), *in_time):
        if top in order:
            continue
        tree = _tree_of(spans[top], first)
        waiting = [top]
        while waiting:
            at = waiting.pop()
            if at in order:
                continue
            above = parents[at]
            reading = _NOTHING if above in asides else readings.get(at, _NOTHING)
            if reading.aside or above in asides:
                asides.add(at)
            order[at] = Seen(spans[at], reading, order.get(above), tree, len(order))
            if at in below:
                waiting += below[at]
    return tuple(order.values())


def _tree_of(top: Span, held: Container[str]) -> str:
    """What a topmost span hangs from: orphans of one lost parent are one tree."""
    return f"{_LOST}{top.parent_id}" if top.parent_id and top.parent_id not in held else f"top {top.id}"


def requests(order: Sequence[Seen], stands_alone: Callable[[Seen], bool]) -> list[Request]:
    """The requests of a trace.

    A request is the outermost chain or agent that holds a generation (or that holds none although its tree has none
    either); generations outside of any make one request per tree, cut where each was given its own passages
    (`stands_alone`). What lies outside, as a retriever beside the agent, goes to its tree's next request. What stands
    around several turns and says nothing is a session: each turn is a request. What two instrumentations recorded of
    one call is one.

    A span that a user's own mapping tells the whole of is a request by itself, wherever it stands. What stands around
    it is none then, and other generations of its tree are steps.
    """
    if _is_one(order):
        return [Request(order[0], [*order])]
    whole = _whole(order) if any(seen.reading.declared for seen in order) else {}
    stepped = {top.tree for top in whole.values()}
    owners = _owners(order, whole)
    asked: dict[int, Request] = {}
    loose: dict[str, list[Seen]] = {}
    for seen in order:
        owner = owners.get(seen.place)
        if owner is not None:
            if owner.place in asked:
                asked[owner.place].seen.append(seen)
            else:
                asked[owner.place] = Request(owner, [seen])
        elif seen.reading.role == "generation" and seen.tree not in stepped:
            loose.setdefault(seen.tree, []).append(seen)
    found = list(asked.values())
    for calls in loose.values():
        found.extend(Request(None, group) for group in _groups(calls, stands_alone))
    if len(found) == 1 and len(found[0].seen) == len(order):
        return found
    found.sort(key=lambda r: r.seen[0].place)
    held = {s.place for request in found for s in request.seen}
    found = without_twins(found) if len(found) > 1 else found
    spare = (s for s in order if s.place not in held)
    _share(found, [s for s in spare if s.reading.role != "generation" or s.tree not in stepped])
    return found


def _is_one(order: Sequence[Seen]) -> bool:
    """Whether all stands below one request that says something and generates, as in most traces."""
    if not order or order[0].reading.role not in {"request", "agent"} or is_silent(order[0]):
        return False
    generates = False
    for seen in order:
        if seen.reading.declared or (seen.parent is None and seen.place > 0):
            return False
        generates = generates or seen.reading.role == "generation"
    return generates


def _whole(order: Sequence[Seen]) -> dict[int, Seen]:
    """For each span inside one that a user's mapping tells the whole of, that span; the innermost where they nest."""
    inside: dict[int, Seen] = {}
    for seen in order:
        above = seen if seen.reading.whole else seen.parent and inside.get(seen.parent.place)
        if above is not None:
            inside[seen.place] = above
    return inside


def _owners(order: Sequence[Seen], whole: Mapping[int, Seen]) -> dict[int, Seen]:
    """For each span inside a request, the span of that request."""
    around = {above.place for top in {*whole.values()} for above in top.above()} if whole else set()
    silent, turns = sessions(order)
    outermost: dict[int, Seen] = {}
    generating: set[str] = set()
    holding: set[int] = set()
    for seen in order:
        role = seen.reading.role
        above = outermost.get(seen.parent.place) if seen.parent is not None else None
        if above is None and (seen.place in turns or (role in {"request", "agent"} and seen.place not in silent)):
            above = seen
        if above is not None:
            outermost[seen.place] = above
        if role == "generation":
            generating.add(seen.tree)
            if above is not None:
                holding.add(above.place)
    tops = {top.place: top for top in outermost.values()}
    left_out = {
        place
        for place, top in tops.items()
        if place in around or not (place in holding or (top.tree not in generating and _speaks(top.reading)))
    }
    if left_out:
        outermost = {place: top for place, top in outermost.items() if top.place not in left_out}
    return {**outermost, **whole} if whole else outermost


def _speaks(reading: Reading) -> bool:
    return reading.query is not None or reading.output is not None or reading.record is not None


def _groups(calls: list[Seen], stands_alone: Callable[[Seen], bool]) -> list[list[Seen]]:
    """Generations without a request around them: steps of one, unless several were given passages of their own."""
    alone = [s for s in calls if s.reading.output is not None and not s.reading.calls and stands_alone(s)]
    # One that wraps another, as a framework's own span around a client's, is the same call.
    wrapping = {above.place for s in alone for above in s.above()} if len(alone) > 1 else set()
    alone = [s for s in alone if s.place not in wrapping]
    if len(alone) < 2:
        return [calls]
    ends = {s.place for s in alone[:-1]}
    groups: list[list[Seen]] = [[]]
    for seen in calls:
        groups[-1].append(seen)
        if seen.place in ends:
            groups.append([])
    return [group for group in groups if group]


def _share(found: Sequence[Request], rest: Sequence[Seen]) -> None:
    """Give what lies outside of every request to the next one of its tree, else of the trace.

    An orphan's search goes to none that searched by itself: it is a piece of a request that was lost.
    """
    if not found or not rest:
        return
    searched = {id(r) for r in found if r.of("retrieval", "rerank")}
    ends = [(request, request.seen[-1].place, {s.tree for s in request.seen}) for request in found]
    given: dict[int, list[Seen]] = {}
    for seen in rest:
        near = [e for e in ends if seen.tree in e[2]] or ends
        following = [e for e in near if e[1] > seen.place] or near[-1:]
        next_one = id(following[0][0])
        lost = near is ends and seen.orphan and seen.reading.role in {"retrieval", "rerank"}
        if not (lost and next_one in searched):
            given.setdefault(next_one, []).append(seen)
    for request in found:
        request.take(given.get(id(request), ()))


def _says_little(reading: Reading) -> bool:
    return reading.role == "other"


def merged(readings: Sequence[Reading]) -> Reading:
    """One reading of a span that speaks several vocabularies: the first to know a thing is believed.

    What a user's own mapping speaks for is never filled from another one, also where it finds nothing.

    >>> merged([Reading("other", session="s"), Reading("tool", user="u")]).role
    'tool'
    """
    best, *rest = sorted(readings, key=_says_little)
    kept = {"role", "content", "remedy"} | {_HELD[name] for name in best.declared}
    if best.declared:
        kept |= {"record", "declared", "kind", "key_facts"}
    missing = {
        name: value
        for other in reversed(rest)
        for name, value in zip(Reading.__struct_fields__, astuple(other), strict=True)
        if value and name not in kept and not getattr(best, name)
    }
    full = replace(best, **missing) if missing else best
    if full.content == "off" and (full.messages or full.output is not None):
        full = replace(full, content="present", remedy="")
    return full
