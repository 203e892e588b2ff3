"""What a human must see, what a human decided, and whose word weighs more."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.adapters.jsonl import JsonlSink
from groundtrace.adapters.otel import OtelSink
from groundtrace.adapters.published import results
from groundtrace.errors import PlanError
from groundtrace.evaluate import evaluate
from groundtrace.judges.offline import OfflineJudge
from groundtrace.memory import InMemory
from groundtrace.model import Decision, Finding, JudgeKind, Label, Ref, Review, Score, Scorecard, card_id, dump, load
from groundtrace.review import audited, decide, labels, outranks, stands
from groundtrace.rubrics.source_support import SourceSupport
from groundtrace.sampling import sample
from groundtrace.testing import HOSTILE_TEXTS, ScriptedJudge, sample_card, sample_record

LOW = Review(reason="low_support", priority="now", note="1 of 2 pairs score below 3")
SCORES = (
    Score(name="rag_faithfulness", value=3.5, low=1, high=5, label="major", rationale="mean of two"),
    Score(name="rag_faithfulness.claim_support", value=2, low=1, high=5, label="weak", rationale="half is backed"),
    Score(name="rag_faithfulness.abstention", value=None, low=1, high=5, rationale="not in play"),
)
HELD = sample_card(
    *SCORES,
    rubric="rag_faithfulness",
    status="pending_review",
    risk="high",
    review=(LOW,),
    judge_kind="llm",
    temperature=0.0,
    confidence=0.5,
    calibration="stale",
    limits="sees no tables",
    details={"pairs": 2},
)
MEAN, CLAIMS, ABSTENTION = (score.name for score in SCORES)


def decision(state: str = "accepted", card: Scorecard = HELD, **fields: object) -> Decision:
    """A decision of Ada's; a correction is told as NAME=(value, label)."""
    corrected = fields.pop("corrected", {})
    told = [
        Label(card_id=card.id, score=name, value=value, label=label)
        for name, (value, label) in corrected.items()  # type: ignore[attr-defined]
    ]
    made = {"card_id": card.id, "state": state, "who": "Ada", "when": "2026-11-30T12:00:00Z", "why": "I read it"}
    return Decision.model_validate({**made, "labels": tuple(told), **fields})


# --- whose word weighs more -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["human", "llm", "offline"])
def test_a_persons_decision_stands_against_everybody(kind: JudgeKind) -> None:
    """Also where it took the scores away."""
    assert outranks(decide(HELD, decision()), kind)
    assert outranks(decide(HELD, decision("rejected")), kind)


def test_a_better_judges_card_stands_and_an_equal_ones_does_not() -> None:
    """A card that holds no score, or none yet, stands like its scores would."""
    kinds: list[JudgeKind] = ["offline", "llm", "human"]
    stands = {(one, other) for one in kinds for other in kinds if outranks(sample_card(judge_kind=one), other)}
    assert stands == {("llm", "offline"), ("human", "offline"), ("human", "llm")}
    assert outranks(HELD, "offline")
    assert not any(outranks(sample_card(judge_kind=kind, status="unscored"), "offline") for kind in kinds)


# --- the share that is picked at random -----------------------------------------------------------------------------

PLAIN = sample_card()
CARDS = [
    PLAIN.model_copy(update={"id": card_id(Ref("otel", trace_id=f"{n:032x}"), "source_support")})
    for n in range(100_000)
]
FIXED = [25, 49, 51, 83, 127, 169, 175, 220, 264]


def picked(rate: float) -> set[str]:
    """The ids of the cards that are picked."""
    return {card.id for card in CARDS if audited(card, rate).review}


def test_the_share_is_the_share_and_a_smaller_one_lies_within() -> None:
    """Of 100,000 cards, within three standard deviations."""
    ones, tens = picked(0.01), picked(0.1)
    assert abs(len(ones) - 1_000) < 3 * (100_000 * 0.01 * 0.99) ** 0.5
    assert abs(len(tens) - 10_000) < 3 * (100_000 * 0.1 * 0.9) ** 0.5
    assert ones < tens


def test_who_is_picked_says_nothing_about_who_was_sampled() -> None:
    """A sample of the traces is audited like all of them."""
    choose = sample(0.1)
    sampled = [float(choose(Ref("otel", trace_id=f"{n:032x}"), ())) for n in range(len(CARDS))]
    tens = picked(0.1)
    audit = [float(card.id in tens) for card in CARDS]
    assert abs(statistics.correlation(sampled, audit)) < 3 / len(CARDS) ** 0.5


def test_the_pick_is_fixed_for_good() -> None:
    """Runs of different versions pick the same cards."""
    assert [n for n, card in enumerate(CARDS[:300]) if audited(card, 0.02).review] == FIXED


def test_only_scored_cards_without_a_reason_for_review_are_picked() -> None:
    """Flagged ones are seen anyway, unscored ones have nothing to say, decided ones are done."""
    decided = decide(HELD, decision())
    for card in (HELD, sample_card(status="unscored"), sample_card(review=(LOW,)), decided):
        assert audited(card, 1) == card


@pytest.mark.parametrize("risk", ["normal", "high"])
def test_a_pick_holds_nothing_and_stands_for_its_share(risk: str) -> None:
    """A random look is no suspicion, whatever the risk."""
    seen = next(one for one in (audited(sample_card(id=card.id, risk=risk), 0.01) for card in CARDS) if one.review)
    assert seen.status == "scored"
    assert [(r.reason, r.priority, r.weight) for r in seen.review] == [("audit", "queue", 100)]
    assert results(seen) == results(seen.model_copy(update={"review": ()}))


@given(st.floats(0.001, 1), st.floats(0, 1))
def test_a_pick_is_made_anew_with_every_rate(one: float, other: float) -> None:
    """What an earlier run picked at another rate neither stays nor weighs on."""
    for card in CARDS[:20]:
        assert audited(audited(card, one), other) == audited(card, other)
        assert audited(card, one).content_hash == card.content_hash


def test_a_changed_audit_rate_writes_nothing_anew(tmp_path: Path) -> None:
    """Platforms hold what they held."""
    for sink in (JsonlSink(str(tmp_path / "cards.jsonl")), OtelSink(str(tmp_path / "out"))):
        states = [{r.state for r in sink.write([audited(sample_card(), rate)])} for rate in (0, 1, 0.01)]
        assert states == [{"written"}, {"unchanged"}, {"unchanged"}]


# --- decisions ------------------------------------------------------------------------------------------------------


def test_an_accepted_card_counts_and_is_the_persons() -> None:
    """Held scores are published as they are; what was known of the judge is no claim about the person."""
    card = decide(HELD, decision())
    assert (card.status, card.scores, card.findings, card.attempts) == ("scored", SCORES, HELD.findings, HELD.attempts)
    assert (card.judge, card.judge_kind, card.decided_by, card.timestamp) == (
        *("Ada", "human", "human", "2026-11-30T12:00:00Z"),
    )
    assert (card.temperature, card.confidence, card.calibration, card.limits) == (None, None, None, "")
    assert (card.review, card.waits) == ((), None)
    assert card.details["pairs"] == 2
    assert card.details["decision"] == {
        "state": "accepted",
        "who": "Ada",
        "when": "2026-11-30T12:00:00Z",
        "why": "I read it",
        "judge": HELD.judge,
        "judge_kind": "llm",
    }
    assert [result.value for result in results(card)] == [3.5, 2, None]


def test_a_corrected_score_is_that_score_and_moves_no_other() -> None:
    """The mean over it is the person's to correct; the judge's value is told in the decision."""
    card = decide(HELD, decision("corrected", corrected={CLAIMS: (4.0, "strong")}))
    assert card.status == "scored"
    assert [(s.value, s.label) for s in card.scores] == [(3.5, "major"), (4, "strong"), (None, None)]
    assert card.scores[1].rationale == "corrected from 2, says Ada: I read it"
    assert card.scores[0].rationale == "as the judge had it; 1 other score was corrected since"
    assert card.scores[0] == SCORES[0].model_copy(update={"rationale": card.scores[0].rationale})
    assert card.details["decision"]["before"] == {CLAIMS: 2}


def test_a_mean_that_is_corrected_or_accepted_keeps_its_own_words() -> None:
    """Only what was left while others moved is the judge's of before."""
    both = decide(HELD, decision("corrected", corrected={CLAIMS: (4.0, None), MEAN: (4.0, None)}))
    assert both.scores[0].rationale == "corrected from 3.5, says Ada: I read it"
    assert decide(HELD, decision("accepted")).scores[0] == SCORES[0]


def test_a_label_goes_with_the_value_it_was_for() -> None:
    """A new value without a label has none; the same value with another label is a correction as well."""
    card = decide(HELD, decision("corrected", corrected={MEAN: (4.0, None), CLAIMS: (2.0, "none")}))
    assert [(s.value, s.label) for s in card.scores[:2]] == [(4, None), (2, "none")]
    assert card.scores[1].rationale == "corrected, says Ada: I read it"
    assert decide(HELD, decision("corrected", corrected={MEAN: (3.5, None)})).scores[0].label == "major"


def test_a_correction_to_null_says_that_the_score_does_not_apply() -> None:
    """And one from null gives it a value."""
    card = decide(HELD, decision("corrected", corrected={CLAIMS: (None, None), ABSTENTION: (5, None)}))
    assert [(r.value, r.label) for r in results(card)] == [(3.5, "major"), (None, "not_applicable"), (5, None)]
    assert [s.rationale for s in card.scores[1:]] == [
        "does not apply, says Ada: I read it",
        "corrected from null, says Ada: I read it",
    ]


def test_a_rejected_card_has_no_score_and_says_why() -> None:
    """Platforms take back what they show."""
    card = decide(sample_card(review=(LOW,)), decision("rejected", sample_card()))
    assert (card.status, card.reason, card.scores, card.review) == ("unscored", "rejected", (), ())
    assert [(r.value, r.error) for r in results(card)] == [(None, "rejected")]


def test_accepting_an_unscored_card_leaves_it_so() -> None:
    """A person agrees that nothing can be judged here; no judge is asked again."""
    unscored = sample_card(status="unscored", reason="judge_failed", review=(LOW,))
    card = decide(unscored, decision(card=unscored))
    assert (card.status, card.reason, card.waits) == ("unscored", "judge_failed", None)
    assert labels(unscored, decision(card=unscored)) == ()


@pytest.mark.parametrize("state", ["accepted", "corrected", "rejected"])
def test_a_decision_is_written_over_what_a_judge_said_and_not_over_itself(state: str, tmp_path: Path) -> None:
    """The next run updates the platform in place, once."""
    sink, before = JsonlSink(str(tmp_path / "cards.jsonl")), sample_card(review=(LOW,))
    corrected = {"source_support": (2, None)} if state == "corrected" else {}
    after = decide(before, decision(state, before, corrected=corrected))
    assert after.content_hash != before.content_hash
    states = [{receipt.state for receipt in sink.write([card])} for card in (before, after, after)]
    assert states == [{"written"}, {"written"}, {"unchanged"}]


def test_no_judge_is_asked_about_a_decided_card() -> None:
    """A person's decision is what every later run gives."""
    memory = InMemory()
    (card,) = evaluate([sample_record()], [SourceSupport()], OfflineJudge(), memory=memory)
    decided = decide(card, decision("rejected", card))
    memory.keep_card(decided)
    changed = sample_record().model_copy(update={"tags": ("read anew",)})
    judge = ScriptedJudge("never asked")
    (told,) = evaluate([changed], [SourceSupport()], judge, memory=memory)
    assert told.model_copy(update={"attempts": decided.attempts}) == decided
    assert all(attempt.cached for attempt in told.attempts)
    assert judge.heard == []


BAD = [
    (decision("corrected", corrected={CLAIMS: (7, None)}), f"{CLAIMS}: 7.0 is outside the score's range, 1 to 5"),
    (decision("corrected", corrected={"claim_support": (4, None)}), "is no score of this card; did you mean"),
    (decision("corrected"), "a correction names scores"),
    (decision("accepted", corrected={CLAIMS: (4, None)}), "corrects none"),
    (decision(who=" "), "who: ' ' is no name"),
    (decision(card=sample_card()), "is not the card decided here"),
    (decision("corrected", labels=(Label(card_id="", score=CLAIMS, value=1),) * 2), "is corrected twice"),
]


@pytest.mark.parametrize(("made", "said"), BAD, ids=[said for _, said in BAD])
def test_a_decision_that_makes_no_sense_is_refused_in_words(made: Decision, said: str) -> None:
    """Nothing is changed by it, and nothing learned from it."""
    for use in (decide, labels):
        with pytest.raises(PlanError) as caught:
            use(HELD, made)
        assert said in str(caught.value)


def test_a_card_without_scores_says_so_when_it_is_corrected() -> None:
    """There is no range a value could be held to."""
    bare = HELD.model_copy(update={"scores": (), "status": "unscored"})
    with pytest.raises(PlanError, match="the card has no scores"):
        decide(bare, decision("corrected", corrected={CLAIMS: (4, None)}))


def test_a_card_that_was_not_judged_can_be_given_its_rubrics_scores() -> None:
    """By whoever knows their ranges; what is learned is the person's word alone."""
    bare = HELD.model_copy(update={"scores": (), "status": "unscored", "reason": "judge_failed"})
    made, ranges = decision("corrected", corrected={CLAIMS: (4, None)}), {MEAN: (1.0, 5.0), CLAIMS: (1.0, 5.0)}
    after = decide(bare, made, ranges)
    assert (after.status, after.reason, after.judge_kind) == ("scored", None, "human")
    assert [(score.name, score.value, score.low, score.high) for score in after.scores] == [(CLAIMS, 4, 1, 5)]
    assert [(label.score, label.value) for label in labels(bare, made, ranges)] == [(CLAIMS, 4)]
    for use in (decide, labels):
        with pytest.raises(PlanError, match="outside the score's range, 1 to 5"):
            use(bare, decision("corrected", corrected={CLAIMS: (6, None)}), ranges)
        with pytest.raises(PlanError, match="is no score of this card"):
            use(bare, decision("corrected", corrected={ABSTENTION: (4, None)}), ranges)


def test_an_outage_takes_no_score_away_and_anything_else_does() -> None:
    """Neither a whole card, nor the headline of one that was assessed in full."""
    silent, fault = Finding(slot="c1", status="unscored", reason="judge_silent"), "judge_failed"
    known = sample_card(judge_kind="llm", basis="a-1")

    def left(**told: Any) -> bool:
        return stands(known, sample_card(**{"judge_kind": "llm", "basis": "a-2", **told}))

    assert left(status="unscored", reason=fault)
    assert left(partial=True, findings=(silent,))
    assert not left(status="unscored", reason="invalid_verdict")
    assert not left(status="unscored", reason=fault, basis="b-2")
    assert not left(findings=(silent,))
    assert not stands(known.model_copy(update={"status": "unscored"}), sample_card(status="unscored", reason=fault))
    assert left(judge_kind="offline")


values = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.floats(0, 6)
names = st.sampled_from([MEAN, CLAIMS, ABSTENTION])


@given(
    st.dictionaries(names, st.tuples(values, st.none() | st.sampled_from(HOSTILE_TEXTS)), max_size=3),
    st.sampled_from(["accepted", "corrected", "rejected"]),
    st.sampled_from(HOSTILE_TEXTS),
    st.sampled_from(HOSTILE_TEXTS),
)
def test_a_decided_card_is_always_a_card(
    corrected: dict[str, tuple[float | None, str | None]], state: str, who: str, why: str
) -> None:
    """No value out of range, and JSON both ways (but for half characters, which JSON in UTF-8 can't carry)."""
    made = decision(state, corrected=corrected, who=who, why=why)
    try:
        card = decide(HELD, made)
    except PlanError:
        return
    assert all(s.value is None or s.low <= s.value <= s.high for s in card.scores)
    assert Scorecard.model_validate(card.model_dump()) == card
    assert len(card.content_hash) == 64
    if "ud800" not in repr((who, why, corrected)):
        assert load(Scorecard, dump(card)) == card


# --- labels ---------------------------------------------------------------------------------------------------------


def test_accepting_confirms_every_score() -> None:
    """Also that one does not apply."""
    told = labels(HELD, decision())
    assert [(label.score, label.value, label.label) for label in told] == [
        *((MEAN, 3.5, "major"), (CLAIMS, 2, "weak"), (ABSTENTION, None, None)),
    ]
    assert {(label.card_id, label.who, label.when, label.why, label.weight) for label in told} == {
        (HELD.id, "Ada", "2026-11-30T12:00:00Z", "I read it", 1.0),
    }


def test_what_a_judge_could_not_assess_is_confirmed_by_nobody() -> None:
    """A partial card's empty scores are the judge's lack, not the answer's."""
    partial = HELD.model_copy(update={"partial": True})
    assert [label.score for label in labels(partial, decision())] == [MEAN, CLAIMS]


def test_a_correction_speaks_of_the_corrected_scores_and_a_rejection_of_none() -> None:
    """Who mends one score has not confirmed the others."""
    made = decision("corrected", corrected={CLAIMS: (4.0, "strong")})
    (label,) = labels(HELD, made)
    assert (label.card_id, label.score, label.value, label.label) == (HELD.id, CLAIMS, 4, "strong")
    assert (label.who, label.when, label.why) == ("Ada", "2026-11-30T12:00:00Z", "I read it")
    assert labels(HELD, decision("rejected")) == ()


@pytest.mark.parametrize(("reviews", "weight"), [((), 1), ((Review(reason="audit", weight=100),), 100), ((LOW,), 1)])
def test_a_label_weighs_as_its_card_was_picked(reviews: tuple[Review, ...], weight: float) -> None:
    """A random card of a hundred speaks for all of them, a suspicious one for itself."""
    card = HELD.model_copy(update={"review": reviews})
    assert {label.weight for label in labels(card, decision())} == {weight}
