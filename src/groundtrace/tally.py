"""A run counted: every trace, record, card, score and write, in numbers that add up.

`Report.of_card(a) + Report.of_card(b)` is the report of both, in any order and any grouping.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundtrace.model import Record, Score, Scorecard

COST_CAP = "daily cost cap"
"""Why a trace was passed over that there was no money for."""

_LOWEST = 10
_AT_ONCE = 256
"""Reports held back to be added up together: a sum sorts and merges what it has only once for all of them."""

_NOTES = 100
_BILLION = 10**9
_SUPPORTED = 0.75
"""A level of 4 on a scale of 1 to 5: what is below is worth a look."""

_FIFTHS = ((1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1))

_NAMES = re.compile(r"\b(?=[a-f-]{0,35}\d)[0-9a-f][0-9a-f-]{6,34}[0-9a-f]\b|\b\d{5,}\b", re.IGNORECASE)
"""Ids and long numbers in a text, which make many texts of one."""


@dataclass(frozen=True, slots=True)
class Tally:
    """All values of one published score; sums are in billionths, so that they add up exactly in any order.

    `fifths` counts the values by fifth of their range (of a scale of 1 to 5: by level); `nulls` did not apply.

    >>> (Tally.of(4, 1, 5) + Tally.of(5, 1, 5)).mean
    4.5
    """

    count: int = 0
    nulls: int = 0
    billionths: int = 0
    minimum: float | None = None
    low: float = 0.0
    high: float = 1.0
    fifths: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)

    @staticmethod
    def of(value: float | None, low: float, high: float) -> Tally:
        """The tally of one value."""
        return _tally(value, low, high)

    @property
    def mean(self) -> float | None:
        """The mean of the values; None where there is none."""
        return self.billionths / self.count / _BILLION if self.count else None

    def __add__(self, other: Tally) -> Tally:
        return self.total((self, other))

    @classmethod
    def total(cls, tallies: Sequence[Tally]) -> Tally:
        """The sum of tallies, made once for all of them."""
        told = next((tally for tally in reversed(tallies) if tally.count), tallies[0])
        a, b, c, d, e = map(sum, zip(*(tally.fifths for tally in tallies), strict=True))
        return cls(
            count=sum(tally.count for tally in tallies),
            nulls=sum(tally.nulls for tally in tallies),
            billionths=sum(tally.billionths for tally in tallies),
            minimum=min((tally.minimum for tally in tallies if tally.minimum is not None), default=None),
            low=told.low,
            high=told.high,
            fifths=(a, b, c, d, e),
        )


@functools.lru_cache(maxsize=1024, typed=True)  # most scores are one of five levels
def _tally(value: float | None, low: float, high: float) -> Tally:
    if value is None:
        return Tally(nulls=1, low=low, high=high)
    fifth = max(0, min(4, int((value - low) / (high - low) * 5))) if high > low else 0
    return Tally(1, 0, round(value * _BILLION), value, low, high, _FIFTHS[fifth])


@dataclass(frozen=True, slots=True)
class Low:
    """A card worth looking at: its weakest score (`unit` is 0..1), the claim behind it and why it is low."""

    unit: float
    rubric: str
    card_id: str
    score: str
    value: float
    high: float
    claim: str
    why: str
    record_id: str
    trace_id: str
    span_id: str | None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class About:
    """What two equal runs may differ in: when, how long, how much was known already. `cost` is in US dollars.

    `more_failed` and `more_notes` count what a report's `failed` and `notes` have no room for; what came twice, twice.
    """

    judge: str = ""
    judge_kind: str = ""
    limits: str = ""
    batch_id: str = ""
    state: str = ""
    started: str = ""
    seconds: float = 0.0
    calls: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    more_failed: int = 0
    more_notes: int = 0

    def __add__(self, other: About) -> About:
        return self.total((self, other))

    @classmethod
    def total(cls, told: Sequence[About]) -> About:
        """The sum of what is told apart, made once for all of it; of words the first counts."""
        costs = [about.cost for about in told if about.cost is not None]
        words: dict[str, Any] = {name: next(filter(None, map(attrgetter(name), told)), "") for name in _WORDS}
        amounts: dict[str, Any] = {name: sum(map(attrgetter(name), told)) for name in _AMOUNTS}
        started = min(filter(None, (about.started for about in told)), default="")
        return cls(**words, **amounts, started=started, cost=sum(costs) if costs else None)


_WORDS = ("judge", "judge_kind", "limits", "batch_id", "state")
_AMOUNTS = ("seconds", "calls", "cached", "tokens_in", "tokens_out", "more_failed", "more_notes")
_NOTHING = About()


@dataclass(frozen=True, slots=True)
class Report:
    """What a run saw, scored, wrote and could not do. Reports add up; `about` is left out of comparisons.

    `seen` traces were offered and `traces` of them looked at: `passed` counts those passed over by why, `skipped`
    ones could not be read, `growing` ones were not over, `held` ones were left to another run, `mended` ones had
    damage. `unread` counts traces in which nothing to judge was found, by why and by what was seen instead. `suited`
    counts the records each rubric was named for, of a plan that names its own. `gaps` counts what records lack, and
    the remedies, without the ids in them. `cards` counts by rubric and status, `reasons` why they are unscored;
    `review` counts those a person should see, `doubts` why, `urgent` how many now. `kept` counts the scores this
    judge's word left standing, by whose they are. `receipts` counts by sink and state. `cases` and `tokens` are a dry
    run's estimate. `failed` holds what a platform or a plugin refused, `notes` what was lost, both up to a bound;
    `about` counts the rest.
    """

    seen: int = 0
    passed: Mapping[str, int] = field(default_factory=dict)
    traces: int = 0
    skipped: int = 0
    growing: int = 0
    held: int = 0
    mended: int = 0
    records: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    suited: Mapping[str, int] = field(default_factory=dict)
    gaps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cards: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    review: Mapping[str, int] = field(default_factory=dict)
    doubts: Mapping[str, int] = field(default_factory=dict)
    urgent: int = 0
    causes: Mapping[str, int] = field(default_factory=dict)
    abstained: Mapping[str, int] = field(default_factory=dict)
    scores: Mapping[str, Tally] = field(default_factory=dict)
    lowest: tuple[Low, ...] = ()
    replies: int = 0
    retries: int = 0
    faults: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)
    receipts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    cases: int = 0
    tokens: int = 0
    failed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    about: About = field(default=_NOTHING, compare=False)

    @property
    def left_out(self) -> int:
        """The traces passed over, whatever for."""
        return sum(self.passed.values())

    @property
    def left_behind(self) -> int:
        """What a later run has to take up again: traces not over, or another run's, or too dear; and what failed."""
        too_dear = self.passed.get(COST_CAP, 0)
        return self.growing + self.held + too_dear + len(self.failed) + self.about.more_failed

    def __add__(self, other: Report) -> Report:
        return self.total((self, other))

    @classmethod
    def total(cls, reports: Sequence[Report]) -> Report:
        """The sum of reports, put in order once for all of them."""
        first, *others = map(_counts, reports)
        held, due = list(first), {at: [first[at]] for at in _BOUNDED if first[at]}
        for other in others:
            for at, value in enumerate(other):
                if value:
                    due.setdefault(at, [first[at]] if first[at] else []).append(value)
        for at, values in due.items():
            held[at] = _sum(values)
        told = [report.about for report in reports if report.about is not _NOTHING]
        both = cls(*held, *([About.total(told) if len(told) > 1 else told[0]] if told else []))
        if len(both.failed) < _NOTES > len(both.notes):
            return both
        failed, notes = (_too_many(map(attrgetter(name), reports)) for name in ("failed", "notes"))
        return replace(both, about=both.about + About(more_failed=failed, more_notes=notes)) if failed + notes else both

    def __radd__(self, other: int) -> Report:
        """Lets `sum` start from its 0."""
        return self if other == 0 else NotImplemented

    @classmethod
    def of_record(cls, record: Record) -> Report:
        """What one record says; one without a request lacks nothing that should be there."""
        gaps = {f"{gap.field}: {gap.reason}": {_NAMES.sub("…", gap.remedy): 1} for gap in record.gaps}
        return cls(records={record.kind: 1}, gaps=gaps if record.kind != "other" else {})

    @classmethod
    def of_card(cls, card: Scorecard) -> Report:
        """What one card says."""
        told, low = card.attempts, _low(card)
        asked = [attempt for attempt in told if not attempt.cached]
        used = [attempt.usage for attempt in asked if attempt.usage]
        costs = [attempt.cost for attempt in asked if attempt.cost is not None]
        return cls(
            cards={card.rubric: {card.status: 1}},
            reasons={card.rubric: {card.reason or "unknown": 1}} if card.status == "unscored" else {},
            review={card.rubric: 1} if card.review else {},
            doubts={review.reason: 1 for review in card.review},
            urgent=any(review.priority == "now" for review in card.review),
            causes={card.root_cause: 1} if card.root_cause else {},
            abstained={card.rubric: 1} if "abstained" in card.flags else {},
            scores={score.name: Tally.of(score.value, score.low, score.high) for score in _counted(card)},
            lowest=(low,) if low else (),
            replies=len(told),
            retries=sum([attempt.attempt > 1 for attempt in told]),
            faults=sum([bool(attempt.faults) for attempt in told]),
            about=About(
                calls=len(asked),
                cached=len(told) - len(asked),
                tokens_in=sum(usage.input for usage in used),
                tokens_out=sum(usage.output for usage in used),
                cost=sum(costs) if costs else None,
            ),
        )


class Count:
    """Reports added up as they come, a few hundred at once.

    >>> count = Count()
    >>> count.add(Report(traces=1))
    >>> count.report.traces
    1
    """

    def __init__(self) -> None:
        self._sum = Report()
        self._new: list[Report] = []

    def add(self, report: Report) -> None:
        """Count what a report says."""
        self._new.append(report)
        if len(self._new) >= _AT_ONCE:
            self._sum, self._new = self.report, []

    @property
    def report(self) -> Report:
        """The sum so far."""
        return Report.total((self._sum, *self._new))


_COUNTED = tuple(f.name for f in fields(Report) if f.name != "about")
_counts = attrgetter(*_COUNTED)
_BOUNDED = tuple(_COUNTED.index(name) for name in ("lowest", "failed", "notes"))


def _sum(values: Sequence[Any]) -> Any:
    """The sum of values of one kind; of texts and low cards the first few, in order, whatever order they came in."""
    first = values[0]
    if isinstance(first, tuple):
        held = {*itertools.chain(*values)}
        lows = isinstance(first[0], Low)
        return tuple(heapq.nsmallest(_LOWEST, held, key=_place) if lows else sorted(held)[:_NOTES])
    if isinstance(first, int):
        return sum(values)
    if len(values) == 1:
        return first
    if isinstance(first, Tally):
        return Tally.total(values)
    by_key: dict[str, list[Any]] = {}
    for held in values:
        for key, value in held.items():
            by_key.setdefault(key, []).append(value)
    return {key: _sum(by_key[key]) for key in sorted(by_key)}


def _too_many(texts: Iterable[tuple[str, ...]]) -> int:
    """How many of all texts a report has no room for."""
    return max(0, len({*itertools.chain(*texts)}) - _NOTES)


def _place(low: Low) -> tuple[float, str, str, str]:
    """Lowest first; the rest makes the order the same in every run."""
    return low.unit, low.rubric, low.card_id, str(low)


def _counted(card: Scorecard) -> Iterable[Score]:
    """The scores that enter the means; an answer that makes no claim says nothing about how claims are supported."""
    if card.status != "scored":
        return ()
    apart = ("claim_support", "assessed") if "abstained" in card.flags else ()
    return (score for score in card.scores if score.name.rpartition(".")[2] not in apart)


def _low(card: Scorecard) -> Low | None:
    """The card's weakest score, if any is worth a look; of two as weak, the one that is no mean of others."""
    means = (card.rubric, f"{card.rubric}.assessed")
    told = [(unit, score) for score in card.scores if (unit := score.unit) is not None and unit < _SUPPORTED]
    if card.status == "unscored" or not told:
        return None
    unit, score = min(told, key=lambda pair: (pair[0], pair[1].name in means))
    return Low(
        unit=unit,
        rubric=card.rubric,
        card_id=card.id,
        score=score.name,
        value=score.value or 0.0,
        high=score.high,
        claim=next(_claims(card), ""),
        why=score.rationale,
        record_id=card.record_id,
        trace_id=card.ref.trace_id,
        span_id=card.ref.span_id,
        cause=card.root_cause,
    )


def _claims(card: Scorecard) -> Iterator[str]:
    """The claims that pull a card down, worst first."""
    for finding in sorted(card.findings, key=lambda f: (f.value is None, f.value)):
        yield from (str(lost.get("claim")) for lost in finding.details.get("unsupported_claims") or ())
        if finding.details.get("claim"):
            yield str(finding.details["claim"])
