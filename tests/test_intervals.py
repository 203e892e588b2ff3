"""Intervals by drawing whole clusters: they cover what they should, and say nothing where there is nothing to say."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.intervals import Interval, difference_interval, interval, kin, mean_interval, paired_interval

LEVELS = st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0])
VALUES = st.lists(st.tuples(LEVELS, st.integers(0, 5)), min_size=2, max_size=30)


def simulated(seed: int, clusters: int) -> tuple[list[float], list[int]]:
    """Scores of documents whose own level moves all of its scores; the true mean is 3."""
    dice = random.Random(seed)
    values: list[float] = []
    marks: list[int] = []
    for cluster in range(clusters):
        level = dice.gauss(3, 1)
        for _ in range(dice.randint(1, 6)):
            values.append(dice.gauss(level, 0.5))
            marks.append(cluster)
    return values, marks


@pytest.mark.parametrize("clusters", [6, 20])
def test_it_covers_the_true_mean_about_as_often_as_it_says(clusters: int) -> None:
    """19 times in 20, with as few as six documents; one that takes each score by itself is far too sure."""
    runs = 150
    samples = [simulated(seed, clusters) for seed in range(runs)]
    within = [mean_interval(values, marks, seed=seed) for seed, (values, marks) in enumerate(samples)]
    alone = [mean_interval(values, seed=seed) for seed, (values, _) in enumerate(samples[:50])]
    assert 0.91 <= sum(held is not None and held.low <= 3 <= held.high for held in within) / runs <= 0.99
    assert sum(held is not None and held.low <= 3 <= held.high for held in alone) / 50 < 0.85


def test_a_difference_of_two_windows_is_covered_too() -> None:
    """Each window's documents are its own."""
    runs, held = 100, 0
    for seed in range(runs):
        (old, were), (new, are) = simulated(seed, 15), simulated(10_000 + seed, 20)
        found = difference_interval(old, [value + 0.5 for value in new], (were, are), seed=seed)
        assert found is not None
        held += found.low <= 0.5 <= found.high
    assert held / runs >= 0.9


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_is_nothing(pairs: list[tuple[float, int]], dice: random.Random) -> None:
    """The same scores in another order give the same interval, to the last digit."""
    other = dice.sample(pairs, len(pairs))
    first, second = (mean_interval([v for v, _ in held], [c for _, c in held]) for held in (pairs, other))
    assert first == second


@given(VALUES)
def test_the_mean_lies_within_and_the_bounds_within_what_was_seen(pairs: list[tuple[float, int]]) -> None:
    """Or there is no interval, and then because one cluster, or no spread, says nothing."""
    values, marks = [value for value, _ in pairs], [mark for _, mark in pairs]
    found = mean_interval(values, marks)
    if found is None:
        by_cluster = {mark: fmean(v for v, m in pairs if m == mark) for mark in marks}
        assert len(set(by_cluster.values())) == 1
        return
    assert min(values) - 1e-9 <= found.low <= fmean(values) + 1e-9
    assert fmean(values) - 1e-9 <= found.high <= max(values) + 1e-9
    assert found.clusters == len(set(marks))


@given(st.lists(LEVELS, min_size=2, max_size=20), st.integers(0, 3))
def test_a_level_asked_for_is_wider_the_surer_it_is(values: list[float], seed: int) -> None:
    """An interval of 99 % holds that of 80 %."""
    narrow, wide = mean_interval(values, level=0.8, seed=seed), mean_interval(values, level=0.99, seed=seed)
    assert (narrow is None) == (wide is None)
    assert narrow is None or wide is None or wide.low <= narrow.low <= narrow.high <= wide.high


@pytest.mark.parametrize(
    ("values", "marks"), [([], []), ([4], ["a"]), ([4, 5, 1], ["a", "a", "a"]), ([3, 3, 3], None), ([0.1] * 9, None)]
)
def test_where_nothing_can_be_said_nothing_is(values: list[float], marks: list[str] | None) -> None:
    """No values, one cluster, no spread: None, never a width of 0."""
    assert mean_interval(values, marks) is None


def test_a_paired_change_is_surer_than_two_means() -> None:
    """The same records twice: what they have in common falls out."""
    values, marks = simulated(1, 20)
    after = [value + 0.2 + 0.05 * (at % 3) for at, value in enumerate(values)]
    paired, apart = paired_interval(values, after, marks), difference_interval(values, after, (marks, marks))
    assert paired is not None
    assert apart is not None
    assert paired.excludes_zero
    assert not apart.excludes_zero


def test_two_lists_of_other_lengths_are_no_pairs() -> None:
    """A mistake of the caller, and never half an answer."""
    with pytest.raises(ValueError, match="zip"):
        paired_interval([1, 2], [1])
    with pytest.raises(ValueError, match="zip"):
        mean_interval([1, 2], ["a"])


def test_any_statistic_can_be_asked_about() -> None:
    """Draws without an answer are left out; where most have none there is no interval."""

    def share(rows: object) -> float:
        held = list(rows)  # type: ignore[call-overload]
        return sum(one == other for one, other in held) / len(held)

    rows = [(float(at % 2), float(at % 3 > 0)) for at in range(30)]
    found = interval(rows, share)
    assert found is not None
    assert 0 <= found.low < share(rows) < found.high <= 1
    assert interval(rows, lambda _: None) is None


def test_one_of_two_windows_with_a_single_document_says_nothing() -> None:
    """However many the other has."""
    assert difference_interval([1, 2, 3], [4]) is None
    assert difference_interval([1, 1], [2, 2]) is None


def test_kin_of_kin_are_kin() -> None:
    """Documents chain traces together, in whatever order they come."""
    assert kin([]) == []
    assert len(set(kin([["a"], ["b"], ["a", "b"]]))) == 1
    assert len(set(kin([[("text", at)] for at in range(9)]))) == 9


@given(st.lists(st.sets(st.integers(0, 8), max_size=3), max_size=12))
def test_who_shares_a_mark_has_the_same_number(marks: list[set[int]]) -> None:
    """And a number is that of the first of its kin."""
    numbers = kin(marks)
    assert all(numbers[a] == numbers[b] for a, one in enumerate(marks) for b, two in enumerate(marks) if one & two)
    assert all(number == numbers.index(number) for number in numbers)


def test_an_interval_excludes_zero_when_it_lies_on_one_side() -> None:
    """A change that may be none is no change."""
    assert Interval(0.1, 0.3, 0.95, 9).excludes_zero
    assert Interval(-0.3, -0.1, 0.95, 9).excludes_zero
    assert not Interval(-0.1, 0.3, 0.95, 9).excludes_zero
