"""A share of the traces is looked at, the same one everywhere, and every complaint."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from groundtrace.model import Ref, Signal
from groundtrace.sampling import IN_PROCESS, in_process, sample, shard

REFS = [Ref("otel", trace_id=f"{n:032x}") for n in range(4000)]
SHARES = st.floats(0, 1, allow_nan=False)


def picked(share: float, refs: list[Ref] = REFS) -> set[str]:
    """The trace ids a share picks."""
    choose = sample(share)
    return {ref.trace_id for ref in refs if choose(ref, ())}


def test_a_tenth_is_about_a_tenth_and_the_ends_are_exact() -> None:
    """Nothing means nothing and all means all."""
    assert picked(0) == set()
    assert picked(1) == {ref.trace_id for ref in REFS}
    assert 320 < len(picked(0.1)) < 480  # four standard deviations around 400


@given(SHARES, SHARES)
def test_a_smaller_sample_lies_within_a_larger_one(one: float, other: float) -> None:
    """Raising the share re-judges nothing and drops nothing."""
    assert picked(min(one, other), REFS[:200]) <= picked(max(one, other), REFS[:200])


@given(st.text())
def test_the_platform_a_trace_came_through_and_odd_ids_change_nothing(trace_id: str) -> None:
    """One request is sampled alike wherever its trace is read."""
    choose = sample(0.5)
    assert choose(Ref("otel", trace_id=trace_id), ()) == choose(Ref("langsmith", "p", trace_id, "s"), ())


def test_a_complaint_is_always_looked_at_and_praise_is_not() -> None:
    """Negative feedback overrules the share."""
    choose = sample(0)
    assert choose(REFS[0], (Signal("stars", 5.0), Signal("stars", 1.0, negative=True)))
    assert not choose(REFS[0], (Signal("stars", 5.0),))


def test_every_trace_has_one_shard_and_shards_are_even_within_a_sample() -> None:
    """Which part a trace belongs to does not depend on whether it is sampled."""
    counts = Counter(shard(trace_id, 4) for trace_id in picked(0.25))
    assert set(counts) == {0, 1, 2, 3}
    assert all(190 < count < 310 for count in counts.values())


def test_the_choice_is_fixed_for_good() -> None:
    """Runs of different versions look at the same traces."""
    assert [shard(ref.trace_id, 10) for ref in REFS[:8]] == [7, 4, 1, 3, 5, 7, 8, 4]
    assert sorted(int(trace_id, 16) for trace_id in picked(0.002)) == [319, 420, 838, 1334, 2375, 2439]


def test_a_tenth_of_a_million_is_a_tenth_and_shares_are_nested() -> None:
    """Within three standard deviations, at every share."""
    shares = (0.01, 0.05, 0.1, 0.5)
    pickers = [sample(share) for share in shares]
    counts, total = [0] * len(shares), 1_000_000
    for n in range(total):
        ref = Ref("otel", trace_id=f"{n:032x}")
        picked = [int(pick(ref, ())) for pick in pickers]
        assert picked == sorted(picked)
        counts = [count + one for count, one in zip(counts, picked, strict=True)]
    for count, share in zip(counts, shares, strict=True):
        assert abs(count - total * share) < 3 * (total * share * (1 - share)) ** 0.5


def test_errors_are_looked_at_on_request_only() -> None:
    """A source says that a trace failed."""
    failed = (Signal("error", value=True),)
    assert sample(0, errors=True)(REFS[0], failed)
    assert not sample(0)(REFS[0], failed)


def test_in_process_the_choice_is_the_same_and_says_what_it_cannot_do() -> None:
    """A trace that ended is gone."""
    assert {r.trace_id for r in REFS if in_process(0.1)(r, ())} == picked(0.1)
    assert "later" in IN_PROCESS
