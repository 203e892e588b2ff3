"""A judge that asks another several times and takes the verdict in the middle; that they differ is told.

One reply of a model is one draw. Where it matters, an odd number of draws costs as many times as much and moves less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from groundtrace.errors import InvalidVerdict, PlanError
from groundtrace.evaluate import parse
from groundtrace.judges.around import Around
from groundtrace.model import Reply, Usage

if TYPE_CHECKING:
    from groundtrace.model import Case
    from groundtrace.ports import Again, Judge

DIFFER = "votes_differ"
"""The flag of a verdict whose votes lie more than one level apart, or call it by different names."""

_SEVERITIES = ("minor", "major", "critical")
_MOST = 100

Key = tuple[str, str, str]
Told = Callable[["Case", Sequence[Reply]], None]


class Voting(Around):
    """A judge that is asked every case `votes` times; the reply that counts is the one whose score is the median.

    Of an even number the lower middle counts, of equal scores the earliest. Usage and cost are those of all votes.
    Where most votes came to nothing, the case has a fault; where most hold no verdict, the gate gets one of those. Once
    refused, all are asked again. A model at temperature 0, or a cache inside, says the same every time: put the
    cache outside. `told` hears every case with all its votes.
    """

    def __init__(self, judge: Judge, votes: int = 3, *, told: Told | None = None) -> None:
        if not 1 <= votes <= _MOST:
            raise PlanError("votes", votes, f"must be a number from 1 to {_MOST}")
        super().__init__(judge, f"votes={votes}")
        self._votes, self._told = votes, told
        self._ends: dict[str, Callable[[], bool]] = {}
        """What the judge inside was told to end by: of what it left, the votes that came decide nothing."""
        for name in ("stop_when", "cut_when"):
            if hasattr(judge, name):
                setattr(self, name, partial(self._end_by, name))

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its median reply, as the last of its votes comes in."""
        poll = _Poll(iter(cases), again, self._votes, self._decided)
        while not poll.over:
            before = poll.asked
            for case, reply in self._judge.hear(poll.ballots(), poll.cast):
                poll.heard(case, reply)
                yield from poll.counted()
            if any(end() for end in self._ends.values()):
                return
            poll.close()
            yield from poll.counted()
            if poll.asked == before and not poll.over:  # it wants no more
                return

    def _end_by(self, name: str, end: Callable[[], bool]) -> None:
        self._ends[name] = end
        getattr(self._judge, name)(end)

    def _decided(self, case: Case, votes: Sequence[Reply]) -> Reply:
        if self._told is not None:
            self._told(case, votes)
        return replace(median(case, votes, self._votes), judge=self.id)


@dataclass
class _Open:
    """A case whose votes are coming in."""

    case: Case
    votes: dict[int, Reply] = field(default_factory=dict)


class _Poll:
    """One hearing: every case goes out once a vote, under slots of their own, and comes back as one."""

    def __init__(
        self, cases: Iterator[Case], again: Again, votes: int, decide: Callable[[Case, Sequence[Reply]], Reply]
    ) -> None:
        self._cases, self._again, self._votes, self._decide = cases, again, votes, decide
        self._open: dict[Key, _Open] = {}
        self._place: dict[Key, tuple[Key, int]] = {}
        self._once_more: deque[Case] = deque()
        self._counted: deque[tuple[Case, Reply]] = deque()
        self._exhausted = False
        self.asked = 0

    @property
    def over(self) -> bool:
        return self._exhausted and not self._once_more

    def ballots(self) -> Iterator[Case]:
        """Every case as often as it is voted on; those refused first."""
        while True:
            if self._once_more:
                self.asked += 1
                yield self._once_more.popleft()
                continue
            case = next(self._cases, None)
            if case is None:
                self._exhausted = True
                return
            self._once_more.extend(self._papers(case))

    def _papers(self, case: Case) -> list[Case]:
        self._open[case.key] = _Open(case)
        papers = [replace(case, slot=f"{case.slot} vote {number}") for number in range(1, self._votes + 1)]
        self._place |= {paper.key: (case.key, number) for number, paper in enumerate(papers)}
        return papers

    def cast(self, paper: Case, reply: Reply) -> Case | None:
        """Take a vote; the last one decides, and where the gate wants another verdict its place is asked first."""
        key, number = self._place.get(paper.key, (paper.key, -1))
        held = self._open.get(key)
        if held is None or number < 0 or number in held.votes:
            return None
        held.votes[number] = reply
        if len(held.votes) < self._votes or not self._settled(key):
            return None
        mine = next((again for again in self._once_more if again.key == paper.key), None)
        if mine is not None:
            self._once_more.remove(mine)
            self.asked += 1
        return mine

    def _settled(self, key: Key) -> bool:
        """Decide a case; True where it is to be voted on once more."""
        held = self._open.pop(key)
        reply = self._decide(held.case, [held.votes[number] for number in sorted(held.votes)])
        repeat = self._again(held.case, reply)
        if repeat is None:
            for number in range(1, self._votes + 1):
                self._place.pop((key[0], key[1], f"{key[2]} vote {number}"), None)
            self._counted.append((held.case, reply))
            return False
        self._once_more.extend(self._papers(repeat))
        return True

    def heard(self, paper: Case, reply: Reply) -> None:
        """Take a vote from a judge that leaves the gate to others."""
        key, number = self._place.get(paper.key, (paper.key, -1))
        held = self._open.get(key)
        if held is not None and number not in held.votes and held.case.remark == paper.remark:
            self.cast(paper, reply)

    def close(self) -> None:
        """Decide what lacks votes that will never come; what waits to be asked waits on."""
        waiting = {self._place[paper.key][0] for paper in self._once_more}
        for key in [key for key, held in self._open.items() if held.votes and key not in waiting]:
            self._settled(key)

    def counted(self) -> Iterator[tuple[Case, Reply]]:
        while self._counted:
            yield self._counted.popleft()


# --- the verdict in the middle ----------------------------------------------------------------------------------------


def median(case: Case, votes: Sequence[Reply], asked: int) -> Reply:
    """The reply whose headline number is the median of those that hold a verdict, with what all of them took.

    >>> from groundtrace.testing import sample_case
    >>> votes = [Reply(f'{{"score": {score}}}', "j", cost=0.25) for score in (5, 2, 4)]
    >>> chosen = median(sample_case(), votes, 3)
    >>> chosen.text, chosen.cost, chosen.flags
    ('{"score": 4}', 0.75, ('votes_differ',))
    """
    came = [reply for reply in votes if reply.fault is None]
    if 2 * len(came) <= asked:
        why = next((reply.fault for reply in votes if reply.fault is not None), "no reply came")
        chosen = Reply("", votes[0].judge, votes[0].attempt, fault=f"{len(came)} of {asked} votes came: {why}")
        return _summed(chosen, votes)
    read = [(reply, _read(reply)) for reply in came]
    usable = [(reply, told) for reply, told in read if told is not None]
    if 2 * len(usable) <= asked:  # the gate says what is wrong with one of them
        return _summed(next(reply for reply, told in read if told is None), votes)
    numbers = [_headline(told) for _, told in usable]
    ranked = sorted(range(len(usable)), key=lambda at: (numbers[at] is not None, numbers[at] or Decimal(0), at))
    middle = numbers[ranked[(len(ranked) - 1) // 2]]
    chosen = usable[numbers.index(middle)][0]
    return _summed(chosen, votes, (DIFFER,) if _differ(case, numbers, [told for _, told in usable]) else ())


def _read(reply: Reply) -> dict[str, Any] | None:
    if reply.stop:
        return None
    try:
        return parse(reply.text)[0]
    except InvalidVerdict:
        return None


def _headline(told: Mapping[str, Any]) -> Decimal | None:
    """The number a verdict is about: its `score`, or the first that is called overall."""
    names = [name for name in told if name == "score"] or [name for name in told if name.startswith("overall")]
    for name in names:
        value = told[name]
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            return Decimal(value)
    return None


def _differ(case: Case, numbers: Sequence[Decimal | None], verdicts: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the votes lie more than a level of five apart, or have different labels."""
    if len({_labels(case, told) for told in verdicts}) > 1 or len({number is None for number in numbers}) > 1:
        return True
    known = [number for number in numbers if number is not None]
    level = Decimal("0.25") if case.rubric == "factual_accuracy" else Decimal(1)
    return bool(known) and max(known) - min(known) > level


def _labels(case: Case, told: Mapping[str, Any]) -> tuple[str, ...]:
    """What a verdict calls its subject: every text of a closed list, and how grave the worst of its claims is."""
    closed = [name for name, part in case.schema.get("properties", {}).items() if "enum" in part]
    named = [f"{name}: {told[name]}" for name in sorted(closed) if isinstance(told.get(name), str)]
    rows = [row for value in told.values() if isinstance(value, list) for row in value if isinstance(row, dict)]
    graves = [str(row["severity"]).lower() for row in rows if row.get("severity")]
    worst = max((grave for grave in graves if grave in _SEVERITIES), key=_SEVERITIES.index, default="none")
    return (*named, worst)


def _summed(chosen: Reply, votes: Sequence[Reply], flags: tuple[str, ...] = ()) -> Reply:
    """The chosen reply with what all votes took: a price nobody knows makes the sum unknown."""
    charged = [reply for reply in votes if reply.is_charged]
    prices = [reply.cost for reply in charged]
    used = [reply.usage for reply in votes if reply.usage is not None]
    usage = Usage(sum(u.input for u in used), sum(u.output for u in used), sum(u.cached for u in used))
    return replace(
        chosen,
        usage=usage if used else None,
        cost=None if not prices or None in prices else sum(price for price in prices if price is not None),
        latency=max((reply.latency for reply in votes if reply.latency is not None), default=None),
        cached=all(reply.cached for reply in votes),
        flags=chosen.flags + tuple(flag for flag in flags if flag not in chosen.flags),
    )
