"""The offline judge answers like any judge, says why, and never claims more than counting words can know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from groundtrace.evaluate import evaluate
from groundtrace.judges.offline import CUTS, RULES, OfflineJudge, confidence, level
from groundtrace.judges.offline.faithfulness import LISTED
from groundtrace.lexical import Comparison, Passages, compare
from groundtrace.model import Case, Reply, Scorecard
from groundtrace.ports import Judge
from groundtrace.read import record
from groundtrace.rubrics.rag_faithfulness import RagFaithfulness
from groundtrace.rubrics.source_support import LEVELS, SourceSupport
from groundtrace.testing import HOSTILE_TEXTS, JudgeContract, sample_case

FIXTURES = Path(__file__).parents[1] / "fixtures" / "offline"
GOLDEN = json.loads((FIXTURES / "pairs.json").read_text("utf-8"))
ANSWERS = json.loads((FIXTURES / "answers.json").read_text("utf-8"))
FERRY = ["The night ferry leaves at 21:40 every day except Sunday.", "Bicycles travel free of charge on all crossings."]
RUBRICS = (SourceSupport(), RagFaithfulness())


class TestOfflineJudge(JudgeContract):
    """The contract every judge is held to."""

    def make(self) -> Judge:
        """The judge with nothing set, for there is nothing to set."""
        return OfflineJudge()


def ask(case: Case) -> Reply:
    """The judge's one reply."""
    ((_, reply),) = OfflineJudge().hear([case], lambda case, reply: None)
    return reply


def pair(claim: str, passage: str) -> tuple[dict[str, Any], Reply]:
    """The verdict on a claim and a passage, and the reply it came in."""
    reply = ask(sample_case(body={"claim": claim, "passage": {"id": "p1", "text": passage}}))
    return json.loads(reply.text), reply


def cards(answer: str, passages: list[str] | None = None) -> list[Scorecard]:
    """Both rubrics' cards, through the gate."""
    asked = record("When does the ferry leave?", FERRY if passages is None else passages, answer)
    return list(evaluate([asked], RUBRICS, OfflineJudge()))


@pytest.mark.parametrize("row", GOLDEN["pairs"], ids=[row["why"] for row in GOLDEN["pairs"]])
def test_scores_stay_what_they_are_under_one_rules_number(row: dict[str, Any]) -> None:
    """A score that moves needs a new RULES, which changes the judge's id, and a new fixture."""
    assert GOLDEN["rules"] == RULES
    found = compare(row["claim"], Passages([row["passage"]]))
    verdict, _ = pair(row["claim"], row["passage"])
    assert (round(found.score, 4), verdict["score"]) == (row["composite"], row["score"])


def test_its_id_names_its_rules_and_is_the_same_in_every_process() -> None:
    """The id is part of the cache key."""
    program = "from groundtrace.judges.offline import OfflineJudge; print(OfflineJudge().id, end='')"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert told == OfflineJudge().id
    assert told.startswith(f"offline@{RULES}.")


def test_it_says_what_it_cannot_see() -> None:
    """On every card stands what a high score does not prove."""
    judge = OfflineJudge()
    assert judge.kind == "offline"
    assert all(word in judge.limits for word in ("negation", "English", "not proof"))
    assert judge.unassessed("source_support") == frozenset()
    assert judge.unassessed("rag_faithfulness") == {"abstention_appropriateness", "source_conflict_handling"}
    assert judge.unassessed("factual_accuracy") == frozenset()
    assert judge.unassessed("summary_groundedness") == {"causal_logical_structure"}


def test_a_rubric_it_does_not_know_is_a_fault_not_an_exception() -> None:
    """Another rubric's cards go unscored with a reason; the run goes on."""
    reply = ask(sample_case(rubric="tone"))
    assert reply.text == ""
    assert "does not know the rubric 'tone'; it knows source_support, factual_accuracy, " in str(reply.fault)


def test_a_case_without_its_parts_is_a_fault_that_names_the_part() -> None:
    """A rubric of the same name from elsewhere may ask otherwise."""
    assert "'claim'" in str(ask(sample_case(body={"passage": {"id": "p1", "text": "x"}})).fault)


def test_a_remark_changes_nothing_but_the_attempt() -> None:
    """There is no chance in it, so there is nothing to reconsider."""
    case = sample_case()
    remarks = iter([sample_case(remark="once more"), None])
    replies: list[Reply] = []

    def again(case: Case, reply: Reply) -> Case | None:
        replies.append(reply)
        return next(remarks)

    ((heard, last),) = OfflineJudge().hear([case], again)
    assert heard.remark == "once more"
    assert [reply.attempt for reply in replies] == [1, 2]
    assert replies[0].text == replies[1].text == last.text
    assert last.temperature is None


def test_the_reply_on_a_pair_has_exactly_the_fields_of_the_contract() -> None:
    """Field for field what an LLM would be asked for."""
    verdict, _ = pair("The night ferry leaves at 21:40.", FERRY[0])
    assert list(verdict) == [
        "score", "support_level", "rationale", "key_evidence", "missing_information", "confidence",
    ]  # fmt: skip
    assert verdict["support_level"] == LEVELS[verdict["score"]]


@pytest.mark.parametrize("row", GOLDEN["pairs"], ids=[row["why"] for row in GOLDEN["pairs"]])
def test_evidence_is_quoted_from_the_passage_and_null_rules_are_kept(row: dict[str, Any]) -> None:
    """Missing information is null exactly at 5; what carries the score stands in the passage letter for letter."""
    verdict, _ = pair(row["claim"], row["passage"])
    assert (verdict["missing_information"] is None) == (verdict["score"] == 5)
    parts = (verdict["key_evidence"] or "").split(" ... ")
    assert all(part in row["passage"] for part in parts)
    assert verdict["key_evidence"] or verdict["score"] < 3


def test_what_is_missing_is_named() -> None:
    """A low score can be checked without reading the passage."""
    verdict, _ = pair("The ferry leaves at 22:15 from Oban, and dogs need muzzles.", FERRY[0])
    assert verdict["score"] <= 3
    for told in (verdict["rationale"], verdict["missing_information"]):
        assert "22" in told
        assert "Oban" in told
        assert "dogs need muzzles" in told


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("The tunnel is not open to cyclists.", "The tunnel is open to cyclists."),
        ("The tunnel is open to cyclists.", "The tunnel isn't open to cyclists."),
        ("Revenue rose in the north.", "Revenue fell in the north."),
    ],
)
def test_a_possible_contradiction_is_flagged_and_never_a_five(claim: str, passage: str) -> None:
    """It can't see what a negation means, but it can see one."""
    verdict, reply = pair(claim, passage)
    assert reply.flags == ("possible_contradiction",)
    assert verdict["score"] < 5
    assert verdict["confidence"] <= 0.5
    plain = compare(claim, Passages([passage]))
    assert plain.score >= CUTS[4], "the clash itself moves no score"


def test_a_language_it_does_not_know_is_flagged_and_sure_of_little() -> None:
    """Characters are compared where words mean nothing to it."""
    text = "Die Brücke ist im Jahr 1932 eröffnet worden."
    verdict, reply = pair(text, text)
    assert reply.flags == ("language_not_covered",)
    assert verdict["score"] == 4
    assert verdict["confidence"] <= 0.2


def test_a_missing_number_of_two_digits_keeps_a_claim_below_four() -> None:
    """However well the rest is covered."""
    full = Comparison(score=0.7, cover=1, phrasing=1)
    assert level(full) == 4
    assert level(Comparison(score=0.7, cover=1, phrasing=1, missing_numbers=("1970",))) == 3
    assert level(Comparison(score=0.7, cover=1, phrasing=1, missing_numbers=("twelve",))) == 3
    assert level(Comparison(score=0.7, cover=1, phrasing=1, missing_numbers=("7",))) == 4


@pytest.mark.parametrize(
    "blemish",
    [
        {"missing_numbers": ("7",)},
        {"missing_names": ("Oban",)},
        {"personal": True},
        {"negation_clash": True},
        {"antonym_clash": ("rose", "fell")},
        {"english": False},
    ],
)
def test_the_top_grade_needs_more_than_overlap(blemish: dict[str, Any]) -> None:
    """Nothing may be missing and nothing in doubt."""
    assert level(Comparison(score=1, cover=1, phrasing=1)) == 5
    assert level(Comparison(score=1, cover=1, phrasing=1, **blemish)) == 4


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_support_never_lowers_the_level_and_confidence_grows_from_the_cut(one: float, other: float) -> None:
    """For any two composites."""
    low, high = (Comparison(score=s, cover=s, phrasing=s) for s in sorted((one, other)))
    assert level(low) <= level(high)
    assert 0.5 <= confidence(low) <= 1
    near, far = sorted((low, high), key=lambda found: abs(found.score - CUTS[4]))
    assert confidence(near) <= confidence(far)


@pytest.mark.parametrize("row", ANSWERS, ids=[row["name"] for row in ANSWERS])
def test_an_answer_is_judged_by_its_claims_and_its_citations(row: dict[str, Any]) -> None:
    """The fixture says what each answer deserves."""
    asked = record("When does the ferry leave?", FERRY, row["answer"])
    (case,) = RagFaithfulness().cases(asked, OfflineJudge().unassessed("rag_faithfulness"))
    assert isinstance(case, Case)
    verdict = json.loads(ask(case).text)
    scores = {name: found["score"] for name, found in verdict["dimension_scores"].items()}
    assert scores == {
        "claim_support": row["claim_support"],
        "citation_accuracy": row["citation_accuracy"],
        "abstention_appropriateness": None,
        "source_conflict_handling": None,
    }
    listed = [
        [u["claim"].rstrip("."), u["closest_retrieved_passage"], u["severity"]] for u in verdict["unsupported_claims"]
    ]
    assert [[claim, severity] for claim, _, severity in listed] == [[c, s] for c, _, s in row["unsupported"]]
    assert [flag["type"] for flag in verdict["hallucination_flags"]] == row["flags"]


@pytest.mark.parametrize("row", ANSWERS, ids=[row["name"] for row in ANSWERS])
def test_the_gate_accepts_it_at_the_first_asking(row: dict[str, Any]) -> None:
    """Everyone passes the same gate; a deterministic judge has to pass it at once."""
    for card in cards(row["answer"]):
        assert card.status == "scored" or card.reason == "no_claims"
        assert [attempt.faults for attempt in card.attempts] == [()] * len(card.attempts)


def test_a_card_of_the_offline_judge_is_partial_and_says_its_limits() -> None:
    """The headline stays empty where two dimensions were not assessed."""
    _, faithfulness = sorted(cards(ANSWERS[0]["answer"]), key=lambda card: card.rubric, reverse=True)
    assert faithfulness.partial
    assert faithfulness.headline is None
    assert faithfulness.limits == OfflineJudge.limits
    assert {score.name: score.value for score in faithfulness.scores}["rag_faithfulness.assessed"] == 5


SENTENCES = st.sampled_from(
    [
        "The night ferry leaves at 21:40", "Bicycles travel free of charge", "Dogs need a muzzle in 12 ports",
        "Dr. Ada King said “no” in 1843", "I think it rains", "Is it late?", "It does not leave on Sunday",
        "According to the passages, the ferry leaves", "Sales rose 12% to $4.2 billion", "über den Fluß", "…", "- item",
    ]
)  # fmt: skip
MARKERS = st.sampled_from(["", " [1]", " [2]", " [1][2]", " [1, 2]", " [9]", "[^1]", " 【1】"])
ENDS = st.sampled_from([". ", ".\n", "; ", ", and ", "\n- ", "! "])
TEXTS = st.lists(st.tuples(SENTENCES, MARKERS, ENDS).map("".join), min_size=1, max_size=6).map("".join)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_whatever_the_answer_the_gate_finds_no_fault(answer: str, passages: list[str]) -> None:
    """Quotes stand, figures add up, null rules are kept: for any answer over any passages."""
    for card in cards(answer, passages):
        assert all(not attempt.faults for attempt in card.attempts), [a.faults for a in card.attempts]


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=range(len(HOSTILE_TEXTS)))
def test_hostile_answers_and_passages_give_cards(text: str) -> None:
    """As answer, as passage and as both."""
    for answer, passage in ((text, FERRY[0]), (FERRY[0], text), (text, text)):
        assert all(not a.faults for card in cards(answer, [passage]) for a in card.attempts)


def test_an_answer_of_thousands_of_wrong_claims_gets_a_reply_that_can_be_read() -> None:
    """The gravest few hundred are listed, all are counted, and the gate takes it."""
    minor = "Bicycles and dogs travel free of charge on crossings. "
    answer = minor + " ".join(f"Boat {n} sank off Kiel with sheep [9]." for n in range(1000, 4000))
    card = next(card for card in cards(answer) if card.rubric == "rag_faithfulness")
    assert card.status == "scored"
    (attempt,) = card.attempts
    verdict = json.loads(attempt.text)
    assert {item["severity"] for item in verdict["unsupported_claims"]} == {"major"}
    assert len(verdict["unsupported_claims"]) == LISTED
    assert "of 3001 claims" in verdict["dimension_scores"]["claim_support"]["justification"]
    assert [flag["type"] for flag in verdict["hallucination_flags"]].count("misattribution") == LISTED


def test_a_fault_is_listed_once_however_often_the_answer_repeats_it() -> None:
    """And counted each time."""
    verdict = json.loads(
        next(c for c in cards("The boat sank off Kiel [9]. " * 5) if c.rubric == "rag_faithfulness").attempts[0].text
    )
    assert [item["claim"] for item in verdict["unsupported_claims"]] == ["The boat sank off Kiel"]
    assert "0 of 5 claims" in verdict["dimension_scores"]["claim_support"]["justification"]


def test_equal_passages_are_tokenised_once() -> None:
    """Twenty claims against one passage cost one reading of it."""
    judge = OfflineJudge()
    body = {"passage": {"id": "p1", "text": FERRY[0]}}
    several = [sample_case(slot=f"c{n}", body={"claim": f"Claim {n} is new.", **body}) for n in range(20)]
    assert len(list(judge.hear(several, lambda case, reply: None))) == 20
    remembered = judge._short.cache_info()  # no public face: what is remembered shows in speed alone
    assert remembered.hits >= 19
    assert remembered.maxsize == 256


@pytest.mark.parametrize("script", ["offline_judge.py", "offline_speed.py"])
def test_a_benchmark_without_its_data_says_what_to_set(script: str, tmp_path: Path) -> None:
    """The labelled sets are no part of the project."""
    path = Path(__file__).parents[1] / "benchmarks" / script
    settings_there = {**os.environ, "GROUNDTRACE_SHARED": str(tmp_path)}
    ran = subprocess.run([sys.executable, path], env=settings_there, capture_output=True, check=False, text=True)
    assert ran.returncode == 2
    assert "set GROUNDTRACE_SHARED" in ran.stdout
    assert not ran.stderr
