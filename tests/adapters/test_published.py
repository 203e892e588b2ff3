"""What of a card leaves the house."""

from __future__ import annotations

from typing import Any

import pytest

from groundtrace.adapters.published import receipts, results
from groundtrace.model import Finding, Gap, Review, Score, Scorecard
from groundtrace.testing import sample_card

DIMENSIONS = (
    Score(name="rag_faithfulness", value=None, low=1, high=5),
    Score(name="rag_faithfulness.assessed", value=4.5, low=1, high=5),
    Score(name="rag_faithfulness.abstention", value=None, low=1, high=5, rationale="not assessed by this judge"),
    Score(name="rag_faithfulness.citation_accuracy", value=None, low=1, high=5, rationale="the answer cites nothing"),
    Score(name="rag_faithfulness.source_conflict", value=None, low=1, high=5, label="not_assessed", rationale="-"),
)


def unscored(**fields: Any) -> Scorecard:
    """A card nobody could judge."""
    return sample_card(status="unscored", reason="context_off").model_copy(update={"scores": ()} | fields)


def test_every_score_of_a_card_is_a_result_under_our_name() -> None:
    """With its range, its words and one id for ever."""
    card = sample_card()
    first, second = results(card)
    assert (first.name, first.value, first.low, first.high) == ("groundtrace.source_support", 4, 1, 5)
    assert (first.label, first.explanation, first.error) == ("Strongly Implies", "It follows.", None)
    assert first.feedback_id == card.feedback_id("source_support") != second.feedback_id
    assert {first.content_hash, second.content_hash} == {card.content_hash}


def test_a_score_without_a_value_says_why_and_an_empty_headline_says_nothing() -> None:
    """Null is never a number, and "does not apply" is not "was not looked at"."""
    card = sample_card(*DIMENSIONS, rubric="rag_faithfulness", partial=True)
    assert {result.score: (result.value, result.label) for result in results(card)} == {
        "rag_faithfulness.assessed": (4.5, None),
        "rag_faithfulness.abstention": (None, "not_assessed"),
        "rag_faithfulness.citation_accuracy": (None, "not_applicable"),
        "rag_faithfulness.source_conflict": (None, "not_assessed"),
    }


def test_a_card_that_waits_for_a_person_is_a_flag() -> None:
    """No number leaves before somebody decided."""
    review = (Review(reason="low_support", note="1 of 2 pairs"), Review(reason="red_flag"))
    (flag,) = results(sample_card(status="pending_review", review=review))
    assert (flag.name, flag.value, flag.label) == ("groundtrace.source_support", None, "needs_review")
    assert flag.explanation == "low_support: 1 of 2 pairs; red_flag"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"details": {"rationale": "context could not be read: off; set X=1"}},
            "context could not be read: off; set X=1",
        ),
        ({"findings": (Finding(slot="", status="unscored", rationale="twice wrong"),)}, "twice wrong"),
        ({"findings": (Finding(slot="", status="unscored", reason="judge_failed"),)}, "judge_failed"),
        ({"gaps": (Gap(field="context", reason="off", remedy="set X=1"),)}, "context is missing: off; set X=1"),
        ({}, "context_off"),
    ],
)
def test_a_card_that_was_not_scored_says_why(fields: dict[str, Any], why: str) -> None:
    """The reason is the error, the sentence explains it."""
    (failure,) = results(unscored(**fields))
    assert (failure.name, failure.value, failure.label) == ("groundtrace.source_support", None, None)
    assert (failure.error, failure.explanation) == ("context_off", why)


def test_every_score_has_a_receipt_published_or_not() -> None:
    """A score that is held back shares the fate of its card."""
    held = sample_card(status="pending_review")
    (flag,) = results(held)
    told = list(receipts(held, "here", {flag.feedback_id: "written"}))
    assert [(receipt.score, receipt.state) for receipt in told] == [
        ("source_support", "written"),
        ("source_support.citation_precision", "written"),
    ]
    partial = sample_card(*DIMENSIONS, rubric="rag_faithfulness", partial=True)
    states = dict.fromkeys((result.feedback_id for result in results(partial)), "unchanged")
    assert {receipt.state for receipt in receipts(partial, "here", states)} == {"unchanged"}  # type: ignore[arg-type]
    (receipt,) = receipts(unscored(), "here", {unscored().feedback_id("source_support"): "failed"}, {"failed": "full"})
    assert (receipt.score, receipt.state, receipt.reason, receipt.sink) == ("source_support", "failed", "full", "here")
    assert receipt.content_hash == unscored().content_hash
