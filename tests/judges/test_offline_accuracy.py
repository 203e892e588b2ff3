"""Factual accuracy by counting words: a contradiction is shown or not claimed, and what can't be told is left open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from groundtrace.evaluate import evaluate
from groundtrace.judges.offline import OfflineJudge
from groundtrace.judges.offline.accuracy import LISTED
from groundtrace.model import Reply, Scorecard
from groundtrace.read import record
from groundtrace.rubrics.factual_accuracy import RESULTS, FactualAccuracy
from groundtrace.testing import HOSTILE_TEXTS, sample_case

FACTS = json.loads((Path(__file__).parents[1] / "fixtures" / "offline" / "facts.json").read_text("utf-8"))
BRIDGE = ["Opened in 1931, the Alder bridge spans 402 metres.", "Trams and buses cross the Alder bridge day and night."]
TEXT = (
    "The Alder bridge spans 640 metres [1]. Trams and buses cross it day and night [2]. Its architect built the opera."
)


def ask(text: str, evidence: list[str]) -> tuple[dict[str, Any], Reply]:
    """The verdict on a text, and the reply it came in."""
    passages = [{"id": f"e{place}", "text": passage} for place, passage in enumerate(evidence, start=1)]
    case = sample_case(rubric="factual_accuracy", body={"target_text": text, "evidence": passages})
    ((_, reply),) = OfflineJudge().hear([case], lambda case, reply: None)
    return json.loads(reply.text), reply


def card(text: str, evidence: list[str]) -> Scorecard:
    """The card, through the gate."""
    (made,) = evaluate([record("What of it?", evidence, text)], [FactualAccuracy()], OfflineJudge())
    return made


@pytest.mark.parametrize("row", FACTS, ids=[row["why"] for row in FACTS])
def test_a_claim_is_judged_as_the_fixture_says(row: dict[str, Any]) -> None:
    """Result, severity and quote of each; the score is the result's."""
    verdict, reply = ask(row["claim"], row["evidence"])
    (claim,) = verdict["claim_verifications"]
    assert (claim["verification_result"], claim["severity"]) == (row["result"], row["severity"])
    assert claim["evidence_quote"] == row["quote"]
    assert claim["score"] == RESULTS[row["result"]]
    assert reply.flags == ((row["flag"],) if "flag" in row else ())


@pytest.mark.parametrize("row", FACTS, ids=[row["why"] for row in FACTS])
def test_the_gate_accepts_each_claim_at_the_first_asking(row: dict[str, Any]) -> None:
    """A deterministic judge has to pass it at once."""
    made = card(row["claim"], row["evidence"])
    assert made.status == "scored"
    assert [attempt.faults for attempt in made.attempts] == [()]
    assert "extraction_incomplete" not in made.flags


def test_the_reply_has_exactly_the_fields_of_the_contract() -> None:
    """Field for field what an LLM would be asked for."""
    verdict, _ = ask(TEXT, BRIDGE)
    assert list(verdict) == [
        "overall_factual_accuracy_score", "total_verifiable_claims", "claim_verifications", "overall_summary",
    ]  # fmt: skip
    assert {tuple(claim) for claim in verdict["claim_verifications"]} == {
        (
            "claim_id", "claim_text", "verification_result", "evidence_quote", "score", "severity", "judge_rationale",
        )
    }  # fmt: skip


def test_the_overall_score_is_the_mean_of_what_could_be_verified() -> None:
    """One contradicted, one supported, one of which nothing is known."""
    verdict, _ = ask(TEXT, BRIDGE)
    assert [claim["score"] for claim in verdict["claim_verifications"]] == [0, 1, None]
    assert verdict["overall_factual_accuracy_score"] == 0.5
    assert verdict["total_verifiable_claims"] == 2
    assert "640 where the evidence has 402" in verdict["overall_summary"]


def test_what_a_text_says_twice_is_traced_twice() -> None:
    """A claim stands where it stands first; said again, nothing was left out."""
    made = card("in May. The bridge opened in 1931. in May. ", ["The bridge opened in 1931. "])
    assert "extraction_incomplete" not in made.flags
    assert made.details["sentences_untraced"] == 0


def test_citation_marks_are_no_part_of_a_claim() -> None:
    """[1] is no number that the evidence would have to hold."""
    verdict, _ = ask(TEXT, BRIDGE)
    assert not any("[" in claim["claim_text"] for claim in verdict["claim_verifications"])


def test_nothing_verifiable_is_null_and_never_one() -> None:
    """The silence of the evidence proves nothing."""
    verdict, _ = ask("Its architect built the opera.", BRIDGE)
    assert verdict["overall_factual_accuracy_score"] is None
    assert verdict["total_verifiable_claims"] == 0
    made = card("Its architect built the opera.", BRIDGE)
    assert made.headline
    assert made.headline.value is None


def test_a_compound_sentence_is_two_claims_where_each_side_says_something() -> None:
    """A wrong half does not sink the right one."""
    verdict, _ = ask("The Alder bridge was opened in 1931, and trams have crossed the Alder bridge since 1950.", BRIDGE)
    assert [claim["claim_text"] for claim in verdict["claim_verifications"]] == [
        "The Alder bridge was opened in 1931",
        "trams have crossed the Alder bridge since 1950.",
    ]


def test_a_clause_that_is_contradicted_beside_one_that_holds_is_partial_and_graver() -> None:
    """A part is right and another is wrong."""
    told = "The Alder bridge carries trams all day while the Alder tunnel measures 640 metres."
    verdict, _ = ask(told, ["The Alder bridge carries trams all day.", "The Alder tunnel measures 402 metres."])
    (claim,) = verdict["claim_verifications"]
    assert (claim["verification_result"], claim["score"], claim["severity"]) == ("Partially Supported", 0.5, "Major")
    assert claim["evidence_quote"] == "The Alder tunnel measures 402 metres."


def test_it_never_finds_a_critical_error() -> None:
    """What an error does to whoever relies on it is beyond counting words."""
    severities = {ask(row["claim"], row["evidence"])[0]["claim_verifications"][0]["severity"] for row in FACTS}
    assert severities == {None, "Minor", "Major"}


@pytest.mark.parametrize(
    ("claim", "evidence", "result"),
    [
        ("The result was 5 million.", "The result was -5 million.", "Unverifiable"),
        ("The result was \u22125 million.", "The result was 5 million.", "Unverifiable"),
        ("The result was -5 million.", "The result was \u22125 million.", "Supported"),
        ("The bridge opened on 03/04/2021.", "The bridge opened on 04/03/2021.", "Unverifiable"),
        ("The bridge opened on 03/04/2021.", "The bridge opened on 03/04/2021.", "Supported"),
        ("The bridge opened on 2021-04-03.", "The bridge opened on 2021-03-04.", "Unverifiable"),
        ("The bridge opened on 2021-04-03.", "The bridge opened on 3 April 2021.", "Supported"),
        ("The bridge opened on 3 April 2021.", "The bridge opened on 2021-04-03.", "Supported"),
    ],
)
def test_a_minus_and_the_order_of_day_and_month_are_part_of_what_is_said(
    claim: str, evidence: str, result: str
) -> None:
    """A date that may be two days has to stand as it is written; one that can't may be written in another way."""
    (row,) = ask(claim, [evidence])[0]["claim_verifications"]
    assert row["verification_result"] == result


def test_a_very_long_text_gets_a_partial_card_at_the_first_asking() -> None:
    """As many claims as a person reads; the rest is counted, and nothing is claimed of the whole."""
    text = " ".join(f"The Alder bridge number {n} was opened by the mayor in 1931." for n in range(3_000))
    made = card(text, [text[:20_000]])
    (attempt,) = made.attempts
    assert attempt.faults == ()
    assert len(attempt.text) < 450_000
    assert (made.status, made.partial, made.headline) == ("scored", True, None)
    assert made.scores[0].name == "factual_accuracy.assessed"
    assert made.scores[0].rationale.startswith(f"{LISTED} of {LISTED} claims assessed; 2500 more sentences were not")
    assert "claims_left_out" in {review.reason for review in made.review}
    assert made.details["sentences_untraced"] == 3_000 - LISTED


def test_long_claims_are_cut_and_there_is_room_for_so_many() -> None:
    """A reply has an end, whatever it is about."""
    words = "grey dust and stones of the Moon " * 100
    text = " ".join(f"{n} times {words.strip()}." for n in range(400))
    made = card(text, [words])
    (attempt,) = made.attempts
    assert attempt.faults == ()
    assert len(attempt.text) < 450_000
    assert made.partial


def test_claims_score_as_a_copy_of_the_rubric_has_it() -> None:
    """The judge keeps to the scores it is given, as it does to weights."""
    passages = [{"id": f"e{place}", "text": passage} for place, passage in enumerate(BRIDGE, start=1)]
    scores = {"Supported": 0.9, "Partially Supported": 0.3, "Contradicted": 0.1}
    body = {"target_text": TEXT, "evidence": passages, "scores": scores}
    ((_, reply),) = OfflineJudge().hear([sample_case(rubric="factual_accuracy", body=body)], lambda case, reply: None)
    verdict = json.loads(reply.text)
    assert [claim["score"] for claim in verdict["claim_verifications"]] == [0.1, 0.9, None]
    assert verdict["overall_factual_accuracy_score"] == 0.5


PARTS = st.sampled_from(
    [
        "The bridge opened in 1931", "The bridge opened in 1932", "It was opened on 4 May 1931", "in May", "on 31 June",
        "Ilse Brandt designed the bridge", "Karl Otto designed the bridge", "The ferry leaves at 21:40", "at 22:15",
        "Sales rose 12% to $4.2 billion", "Sales rose 14% to $4.2 billion", "Apollo 11 landed", "Dr. Ada said “no”",
        "Is it late?", "It does not leave", "I don't know", "über den Fluß", "a ... b […] c", "- item", "1.2.3.4", "…",
    ]
)  # fmt: skip
MARKERS = st.sampled_from(["", " [1]", " [9]", "[^1]", " 【1】"])
ENDS = st.sampled_from([". ", ".\n", "; ", ", and ", " while ", "\n- ", "! "])
TEXTS = st.lists(st.tuples(PARTS, MARKERS, ENDS).map("".join), min_size=1, max_size=6).map("".join) | st.text()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
@example("in May. The bridge opened in 1931. in May. ", ["The bridge opened in 1931. "])
@example("The bridge opened in 1931. ", ["[PERSON]"])
@example("[PERSON]", ["The bridge opened in 1931. "])
@example("NONE", ["None"])
@example("N/A", ["N/A"])
def test_whatever_the_text_the_gate_finds_no_fault(text: str, evidence: list[str]) -> None:
    """Claims are the text's, quotes are the evidence's, figures add up: for any text over any evidence."""
    made = card(text, evidence)
    assert all(not attempt.faults for attempt in made.attempts), [a.faults for a in made.attempts]
    if made.status != "scored":  # nothing to judge, or a text that is a mask from end to end
        assert made.reason in {"no_claims", "answer_missing", "answer_not_given", "answer_masked", "context_masked"}


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TEXTS)
def test_a_text_never_contradicts_itself(text: str) -> None:
    """What stands in the evidence word for word is never called wrong."""
    results = card(text, [text]).details.get("results", {})
    assert "Contradicted" not in results


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=range(len(HOSTILE_TEXTS)))
def test_hostile_texts_and_evidence_give_cards(text: str) -> None:
    """As text, as evidence and as both."""
    for told, evidence in ((text, BRIDGE[0]), (BRIDGE[0], text), (text, text)):
        assert all(not attempt.faults for attempt in card(told, [evidence]).attempts)
