"""How sure a figure is: bootstrap intervals that draw whole clusters, so that kin count once.

Scores of one document or one trace are kin: resampled one by one they pretend to more evidence than there is. So what
is drawn is the cluster. Every function is pure and seeded: the same values, in whatever order, give the same interval.
Where there is nothing to go by (one cluster, or no spread at all) the answer is None, never an interval of no width.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

Sample: TypeAlias = Sequence[tuple[float, ...]]
"""Rows of figures that belong together: one value each, or one by each rater."""

RESAMPLES = 2000
FEWEST = 2
"""Clusters below which nothing is said."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Where the true figure lies, at a level of confidence, judged by so many clusters."""

    low: float
    high: float
    level: float
    clusters: int

    @property
    def excludes_zero(self) -> bool:
        """Whether a change is more than chance at this level."""
        return self.low > 0 or self.high < 0


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, *, level: float = 0.95, seed: int = 0
) -> Interval | None:
    """The interval of a mean; `clusters` says of each value whose kin it is (nobody says: each is its own).

    >>> mean_interval([3, 4, 4, 5, 3, 4, 5, 5])
    Interval(low=3.375, high=4.75, level=0.95, clusters=8)
    >>> mean_interval([4, 4, 4]), mean_interval([1, 5], ["a", "a"])
    (None, None)
    """
    groups = [[_total(group)] for group in _grouped([(float(value),) for value in values], clusters)]
    return _interval(groups, _mean, level, seed)


def paired_interval(
    before: Sequence[float],
    after: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Interval | None:
    """The interval of the mean change from `before` to `after`, the same things measured twice, in the same order."""
    changes = [new - old for old, new in zip(before, after, strict=True)]
    return mean_interval(changes, clusters, level=level, seed=seed)


def difference_interval(
    before: Sequence[float],
    after: Sequence[float],
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Interval | None:
    """The interval of mean `after` less mean `before`, two windows of different things; each is drawn by itself."""
    sides = [
        [[_total(group)] for group in _grouped([(float(v),) for v in values], clusters[at] if clusters else None)]
        for at, values in enumerate((before, after))
    ]
    fewest = min(map(len, sides))
    if fewest < FEWEST:
        return None
    dice = random.Random(seed)  # noqa: S311 - a bootstrap must give the same twice, and guards no secret
    drawn = []
    for _ in range(RESAMPLES):
        old, new = (_mean(_drawn(side, dice)) for side in sides)
        drawn.append(new - old)
    return _percentiles(drawn, level, fewest)


def interval(
    rows: Sample,
    statistic: Callable[[Sample], float | None],
    clusters: Sequence[Hashable] | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
) -> Interval | None:
    """The interval of any statistic of rows, such as an agreement; draws for which it is None are left out.

    None too where more than half of the draws give nothing.
    """
    return _interval(_grouped(rows, clusters), statistic, level, seed)


def _interval(
    groups: Sequence[list[tuple[float, ...]]], statistic: Callable[[Sample], float | None], level: float, seed: int
) -> Interval | None:
    if len(groups) < FEWEST:
        return None
    dice = random.Random(seed)  # noqa: S311 - a bootstrap must give the same twice
    told = (statistic(_drawn(groups, dice)) for _ in range(RESAMPLES))
    drawn = [figure for figure in told if figure is not None and math.isfinite(figure)]
    return _percentiles(drawn, level, len(groups)) if 2 * len(drawn) > RESAMPLES else None


def kin(marks: Iterable[Iterable[Hashable]]) -> list[int]:
    """Which things are kin: two that share a mark, or whose kin do; a number for each, equal for kin.

    >>> kin([["doc 1", "t1"], ["doc 2"], ["doc 3", "t1"], ["doc 3"], []])
    [0, 1, 0, 0, 4]
    """
    family: list[int] = []
    first: dict[Hashable, int] = {}

    def head(at: int) -> int:
        while family[at] != at:
            family[at] = family[family[at]]
            at = family[at]
        return at

    for at, own in enumerate(marks):
        family.append(at)
        for mark in own:
            one, other = head(first.setdefault(mark, at)), head(at)
            family[max(one, other)] = min(one, other)
    return [head(at) for at in range(len(family))]


# --- drawing --------------------------------------------------------------------------------------------------------


def _total(rows: Sample) -> tuple[float, ...]:
    """A cluster in short, for a mean: its sum and how many it holds."""
    return math.fsum(row[0] for row in rows), float(len(rows))


def _mean(totals: Sample) -> float:
    return math.fsum(total[0] for total in totals) / math.fsum(total[1] for total in totals)


def _grouped(rows: Sample, clusters: Sequence[Hashable] | None) -> list[list[tuple[float, ...]]]:
    """The rows by cluster, in an order that is the rows' own: whatever order they came in, the same draws follow."""
    groups: dict[Hashable, list[tuple[float, ...]]] = {}
    for row, mark in zip(rows, range(len(rows)) if clusters is None else clusters, strict=True):
        groups.setdefault(mark, []).append(row)
    return sorted(sorted(group) for group in groups.values())


def _drawn(groups: Sequence[list[tuple[float, ...]]], dice: random.Random) -> list[tuple[float, ...]]:
    return [row for group in dice.choices(groups, k=len(groups)) for row in group]


def _percentiles(drawn: list[float], level: float, clusters: int) -> Interval | None:
    """The middle of the draws, widened for few clusters as Student's t is wider than the normal.

    Tim Hesterberg, What Teachers Should Know About the Bootstrap (2015), section 4.2: the expanded percentile interval.
    """
    drawn.sort()
    if not drawn or math.isclose(drawn[0], drawn[-1], rel_tol=1e-12, abs_tol=1e-12):
        return None
    spread = math.sqrt(clusters / (clusters - 1)) * _student((1 + level) / 2, clusters - 1)
    tail = NormalDist().cdf(-spread)
    return Interval(_quantile(drawn, tail), _quantile(drawn, 1 - tail), level, clusters)


def _quantile(ordered: Sequence[float], share: float) -> float:
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def _student(share: float, freedom: int) -> float:
    """A quantile of Student's t; exact for 1 and 2 degrees of freedom, else by Cornish and Fisher (Hill 1970).

    >>> [round(_student(0.975, n), 2) for n in (1, 2, 3, 5, 10, 100)]
    [12.71, 4.3, 3.18, 2.57, 2.23, 1.98]
    """
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    if freedom == 2:
        return (2 * share - 1) / math.sqrt(2 * share * (1 - share))
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))
