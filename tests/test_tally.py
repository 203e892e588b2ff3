"""Reports add up: in any order, in any grouping, and without rounding."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.model import Attempt, Finding, Gap, Record, Ref, Review, Score, Scorecard, Usage, dump, load
from groundtrace.tally import About, Report, Tally
from groundtrace.testing import sample_card, sample_record

levels = st.floats(1, 5, allow_nan=False)
values = st.none() | levels
attempts = st.builds(
    Attempt,
    slot=st.just("c1"),
    attempt=st.integers(1, 2),
    judge=st.just("j"),
    text=st.just("{}"),
    faults=st.sampled_from([(), ("wrong @ $",)]),
    cached=st.booleans(),
    usage=st.none() | st.builds(Usage, input=st.integers(0, 999), output=st.integers(0, 99)),
)


@st.composite
def cards(draw: st.DrawFn) -> Scorecard:
    """Any card a run could meet."""
    rubric = draw(st.sampled_from(["source_support", "rag_faithfulness"]))
    status = draw(st.sampled_from(["scored", "unscored", "pending_review"]))
    names = draw(st.lists(st.sampled_from(["", ".min", ".claim_support", ".assessed"]), unique=True, min_size=1))
    scores = [Score(name=rubric + name, value=draw(values), low=1, high=5, rationale="why") for name in names]
    return sample_card(
        *scores,
        rubric=rubric,
        ref=Ref("testing", trace_id=draw(st.text("abc", min_size=1, max_size=3))),
        status=status,
        reason=draw(st.sampled_from(["context_off", "invalid_verdict"])) if status == "unscored" else None,
        review=tuple(draw(st.lists(st.builds(Review, reason=st.sampled_from("xy")), max_size=2))),
        flags=draw(st.sampled_from([(), ("abstained",)])),
        root_cause=draw(st.sampled_from([None, "generation", "citation"])),
        attempts=tuple(draw(st.lists(attempts, max_size=2))),
        findings=(Finding(slot="c1", value=2.0, details={"claim": draw(st.text(max_size=5))}),),
    )


@settings(max_examples=50)
@given(st.lists(cards(), max_size=6), st.randoms(), st.integers(0, 6))
def test_a_whole_is_the_sum_of_its_parts(some: list[Scorecard], random: Any, cut: int) -> None:
    """However the cards are shared out and in whatever order they finish."""
    reports = [Report.of_card(card) for card in some]
    whole = sum(reports, Report())
    mixed = random.sample(reports, len(reports))
    assert sum(mixed[:cut], Report()) + sum(mixed[cut:], Report()) == whole
    assert Report.total([Report(), *mixed]) == whole


@settings(max_examples=50)
@given(st.lists(cards(), max_size=4))
def test_a_report_survives_json(some: list[Scorecard]) -> None:
    """A worker can send its report home, and no NaN is in it."""
    report = sum((Report.of_card(card) for card in some), Report(notes=("x: 1 line is not JSON",)))
    assert load(Report, dump(report)) == report
    json.loads(dump(report), parse_constant=pytest.fail)


@given(st.lists(levels, min_size=1))
def test_a_tally_holds_mean_minimum_and_spread(some: list[float]) -> None:
    """The mean is exact to the billionth, every value lies in one fifth."""
    tally = sum((Tally.of(value, 1, 5) for value in some), Tally())
    exact = sum(map(Fraction, some)) / len(some)
    assert tally.mean is not None
    assert abs(Fraction(tally.mean) - exact) < Fraction(1, 10**8)
    assert (tally.count, tally.minimum, sum(tally.fifths)) == (len(some), min(some), len(some))


def test_every_level_of_a_scale_has_its_own_place_in_the_spread() -> None:
    """1 to 5 fall into five different fifths; so do the ends of a share."""
    assert sum((Tally.of(level, 1, 5) for level in range(1, 6)), Tally()).fifths == (1, 1, 1, 1, 1)
    assert (Tally.of(0, 0, 1) + Tally.of(1, 0, 1)).fifths == (1, 0, 0, 0, 1)


def test_a_score_without_a_range_is_still_counted() -> None:
    """Other people's rubrics make odd scales."""
    tally = Tally.of(3, 1, 1) + Tally.of(1, 1, 1)
    assert (tally.mean, tally.count, sum(tally.fifths)) == (2.0, 2, 2)


def test_what_a_report_has_no_room_for_is_counted() -> None:
    """A hundred notes are kept; nothing is dropped without a word."""
    report = sum((Report(notes=(f"line {n:03}",), failed=(f"write {n:03}",)) for n in range(123)), Report())
    assert (len(report.notes), report.about.more_notes) == (100, 23)
    assert (len(report.failed), report.about.more_failed) == (100, 23)
    assert (report + report).notes == report.notes
    assert load(Report, dump(report)).about == report.about


def test_null_is_counted_and_never_zero() -> None:
    """What does not apply leaves the mean alone."""
    tally = Tally.of(None, 1, 5) + Tally.of(4, 1, 5)
    assert (tally.mean, tally.nulls, tally.count) == (4.0, 1, 1)
    assert Tally.of(None, 1, 5).mean is None


def test_sum_starts_from_nothing() -> None:
    """`sum` needs no start value."""
    one = Report(traces=1)
    assert sum([one, one]) == Report(traces=2)


def test_when_and_how_long_are_no_part_of_what_happened() -> None:
    """Two equal runs are equal, whenever they ran and whatever was known already."""
    assert Report(about=About(batch_id="a", seconds=1.0, calls=3)) == Report(about=About(cached=3))
    assert (Report(about=About(cost=0.5)) + Report(about=About(cost=0.25))).about.cost == 0.75
    assert (Report() + Report()).about.cost is None


def test_unscored_and_held_cards_enter_no_mean() -> None:
    """Only what counts is counted."""
    held = sample_card(status="pending_review", review=(Review(reason="x", priority="now"),))
    bare = sample_card(status="unscored", reason="answer_truncated").model_copy(update={"scores": ()})
    report = Report.of_card(held) + Report.of_card(bare)
    assert report.scores == {}
    assert report.cards == {"source_support": {"pending_review": 1, "unscored": 1}}
    assert (report.reasons, report.urgent) == ({"source_support": {"answer_truncated": 1}}, 1)


def test_an_abstaining_answer_stays_apart_from_the_means_of_claims() -> None:
    """An answer without claims says nothing about how claims are supported."""
    names = ("rag_faithfulness.claim_support", "rag_faithfulness.assessed", "rag_faithfulness.abstention")
    scores = [Score(name=name, value=5, low=1, high=5) for name in names]
    report = Report.of_card(sample_card(*scores, rubric="rag_faithfulness", flags=("abstained",)))
    assert set(report.scores) == {"rag_faithfulness.abstention"}
    assert report.abstained == {"rag_faithfulness": 1}


def test_the_lowest_cards_come_first_with_their_claim_and_reason() -> None:
    """What a person should look at."""
    low = sample_card(
        Score(name="source_support", value=4.5, low=1, high=5, rationale="fine on the whole"),
        Score(name="source_support.min", value=2, low=1, high=5, rationale="nothing says so"),
        findings=(
            Finding(slot="c2", value=5, details={"claim": "good"}),
            Finding(slot="c1", value=2, details={"claim": "bad"}),
        ),
    )
    top = sample_card(Score(name="source_support", value=5, low=1, high=5))
    (only,) = (Report.of_card(low) + Report.of_card(top)).lowest
    assert (only.score, only.value, only.claim, only.why) == ("source_support.min", 2, "bad", "nothing says so")


def test_gaps_are_counted_with_their_remedy_and_other_traces_are_not() -> None:
    """A trace without a request lacks nothing that should be there."""
    gap = Gap(field="answer", reason="truncated", remedy="raise the limit")
    records = [sample_record(gaps=(gap,)), Record(id="o", ref=Ref("otel"), kind="other", gaps=(gap,))]
    report = sum(map(Report.of_record, records), Report())
    assert report.gaps == {"answer: truncated": {"raise the limit": 1}}
    assert report.records == {"answer": 1, "other": 1}


def test_the_json_of_a_report_is_plain() -> None:
    """Machines read counts and sums without knowing Python."""
    told = json.loads(dump(Report.of_card(sample_card())))
    assert told["cards"] == {"source_support": {"scored": 1}}
    assert told["scores"]["source_support"]["billionths"] == 4_000_000_000


def test_gaps_that_differ_in_ids_alone_are_one() -> None:
    """A thousand failed requests are one line, and not a thousand."""
    remedies = [f"request {n:08x}-aaaa-4bbb-8ccc-{n:012x} failed with 503 after {n + 10_000} ms" for n in range(99)]
    records = [sample_record(gaps=(Gap(field="answer", reason="error", remedy=remedy),)) for remedy in remedies]
    assert sum(map(Report.of_record, records), Report()).gaps == {
        "answer: error": {"request … failed with 503 after … ms": 99}
    }


def test_a_sum_is_in_order_and_within_its_bounds_whatever_is_added() -> None:
    """Also where nothing is."""
    odd = Report(notes=tuple(f"note {n}" for n in range(300, 0, -1)), failed=("b", "a"))
    assert odd + Report() == Report() + odd
    assert (odd + Report()).failed == ("a", "b")
    assert (len((odd + Report()).notes), (odd + Report()).about.more_notes) == (100, 200)
