"""RAG faithfulness: four dimensions, what may be null, whose arithmetic counts, who must look."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from groundtrace.citations import cite
from groundtrace.errors import InvalidVerdict
from groundtrace.evaluate import evaluate
from groundtrace.model import Case, Finding, Gap, Passage, Record, Scorecard
from groundtrace.rubrics.rag_faithfulness import RagFaithfulness
from groundtrace.testing import RubricContract, ScriptedJudge, sample_record

FERRY = "The night ferry leaves at 21:40 every day except Sunday."
BIKES = "Bicycles travel free of charge on all crossings."
GOOD = "The night ferry leaves at 21:40 [1]. Bicycles travel free of charge [2]."


def record(answer: str = GOOD, passages: tuple[str, ...] = (FERRY, BIKES), **fields: Any) -> Record:
    """A record whose citations are read from its answer."""
    context = tuple(Passage(id=f"p{n}", text=text, rank=n) for n, text in enumerate(passages, 1))
    return sample_record(answer, passages, citations=cite(answer, context), **fields)


def dimension(score: int | None, *spans: str, why: str = "As the trace shows.") -> dict[str, Any]:
    """One dimension of a reply."""
    return {"score": score, "justification": why, "evidence_spans": list(spans)}


def reply(overall: float = 5.0, **parts: Any) -> dict[str, Any]:
    """A careful judge's reply on GOOD; dimensions and lists may be replaced."""
    scores = {
        "claim_support": dimension(5, "The night ferry leaves at 21:40"),
        "citation_accuracy": dimension(5, "Bicycles travel free of charge"),
        "abstention_appropriateness": dimension(None),
        "source_conflict_handling": dimension(None),
    }
    lists: dict[str, Any] = {"unsupported_claims": [], "hallucination_flags": []}
    for name, part in parts.items():
        (scores if name in scores else lists)[name] = part
    return {"overall_faithfulness_score": overall, "dimension_scores": scores, **lists}


def judged(verdict: Any, rec: Record | None = None, **judge: Any) -> Scorecard:
    """The card a reply leads to."""
    (card,) = evaluate([rec or record()], [RagFaithfulness()], ScriptedJudge(verdict, **judge))
    return card


def told(verdict: Mapping[str, Any], rec: Record | None = None, unassessed: frozenset[str] = frozenset()) -> Finding:
    """The finding a reply leads to; raises InvalidVerdict."""
    rubric, rec = RagFaithfulness(), rec or record()
    (case,) = rubric.cases(rec, unassessed)
    assert isinstance(case, Case)
    return rubric.finding(rec, case, rubric.schema(unassessed).model_validate(verdict), unassessed)


def values(card: Scorecard) -> dict[str, float | None]:
    """Score names without the rubric's own, and their values."""
    return {score.name.removeprefix("rag_faithfulness").lstrip("."): score.value for score in card.scores}


class TestContract(RubricContract):
    """The contract every rubric is held to."""

    def make(self) -> RagFaithfulness:
        return RagFaithfulness()

    def record(self) -> Record:
        return record()

    def verdict(self, case: Case) -> Mapping[str, Any]:
        return reply()


def test_a_faithful_answer_scores_its_mean() -> None:
    """Null dimensions are left out, never counted as 0."""
    card = judged(reply())
    assert values(card) == {"": 5.0, "claim_support": 5, "citation_accuracy": 5, "abstention": None,
                            "source_conflict": None}  # fmt: skip
    assert card.headline is not None
    assert card.headline.label == "none"
    assert card.details["faithfulness_score"] == 100.0
    assert {s.label for s in card.scores if s.value is None} == {"not_applicable"}


def test_the_mean_is_ours_halves_up_and_the_hundred_unrounded() -> None:
    """Mean of 5, 4, 4, 4: 4.25 is published as 4.3, and 81.3 comes from 4.25."""
    spans = ("The night ferry leaves at 21:40",)
    four = dimension(4, *spans)
    card = judged(reply(4.3, citation_accuracy=four, abstention_appropriateness=four, source_conflict_handling=four))
    assert values(card)[""] == 4.3
    assert card.details["faithfulness_score"] == 81.3


def test_a_mean_wrong_twice_stands_corrected_and_held() -> None:
    """Our figure, and a person decides."""
    card = judged(reply(4.0))
    assert (card.status, values(card)[""]) == ("pending_review", 5.0)
    assert "figure_corrected" in [r.reason for r in card.review]
    assert "the mean of the scored dimensions is 5.0; got 4.0" in card.attempts[0].faults[0]


@pytest.mark.parametrize(
    ("verdict", "rec", "line"),
    [
        (reply(citation_accuracy=dimension(None)), None, "citation_accuracy.score"),
        (reply(), record("The night ferry leaves at 21:40. Bicycles travel free."), "citation_accuracy.score"),
        (reply(), record(GOOD + " A cabin costs 80 euros [7]."), "citation_accuracy.score"),
        (reply(claim_support=dimension(5, "The boat sails at dawn")), None, "claim_support.evidence_spans"),
        (reply(claim_support=dimension(5)), None, "claim_support.evidence_spans"),
        (reply(source_conflict_handling=dimension(None, why=" ")), None, "source_conflict_handling.justification"),
        (reply(unsupported_claims=[{"claim": "Bicycles travel free of charge", "closest_retrieved_passage": None,
                                    "severity": "minor"}]), None, "unsupported_claims"),
        (reply(hallucination_flags=[{"type": "misattribution", "description": "x", "trace_reference": "[2]"}]),
         None, "hallucination_flags"),
        (reply(4.5, claim_support=dimension(4, FERRY), unsupported_claims=[
            {"claim": "Whales are often seen from the deck", "closest_retrieved_passage": None, "severity": "minor"}]),
         None, r"unsupported_claims\[0\].claim"),
        (reply(citation_accuracy=dimension(None)),
         record("I don't know. The documents do not say."), "abstention_appropriateness.score"),
    ],
)  # fmt: skip
def test_what_breaks_the_contract_is_a_fault(verdict: Mapping[str, Any], rec: Record | None, line: str) -> None:
    """Each with the path of the field at fault."""
    with pytest.raises(InvalidVerdict, match=line):
        told(verdict, rec)


def test_a_citation_to_nothing_allows_three() -> None:
    """At most."""
    rec = record(GOOD + " A cabin costs 80 euros [7].")
    lost = [{"claim": "A cabin costs 80 euros", "closest_retrieved_passage": "p2", "severity": "major"}]
    three = dimension(3, "A cabin costs 80 euros")
    card = judged(reply(3.0, claim_support=three, citation_accuracy=three, unsupported_claims=lost), rec)
    assert card.status == "scored"
    assert card.details["severity"] == "major"
    assert card.headline is not None
    assert card.headline.label == "major"


def test_further_unlocated_spans_are_dropped_and_counted() -> None:
    """One located span is enough; the rest must not pretend."""
    card = judged(reply(claim_support=dimension(5, "The night ferry leaves at 21:40", "nowhere to be found")))
    assert card.status == "scored"
    assert card.findings[0].details["evidence_dropped"] == 1
    assert all(e.found for e in card.findings[0].evidence)


def test_evidence_may_stand_in_passage_or_answer() -> None:
    """Passage id None is the answer."""
    finding = told(reply(claim_support=dimension(5, "leaves at 21:40 [1]", "every day except Sunday")))
    assert {e.passage_id for e in finding.evidence if e.quote != "Bicycles travel free of charge"} == {None, "p1"}


@pytest.mark.parametrize("reference", ["p2", "[2]", "2", "Bicycles travel free", "no such thing"])
def test_ids_markers_and_quotes_count_as_located(reference: str) -> None:
    """What stands nowhere is dropped and counted."""
    lost = [{"claim": "Bicycles travel free of charge", "closest_retrieved_passage": reference, "severity": "minor"}]
    flags = [{"type": "fabrication", "description": "x", "trace_reference": reference}]
    four = dimension(4, "Bicycles travel free of charge")
    finding = told(reply(4.5, claim_support=four, unsupported_claims=lost, hallucination_flags=flags))
    kept = reference if reference != "no such thing" else None
    assert finding.details["unsupported_claims"][0]["closest_retrieved_passage"] == kept
    assert finding.details["hallucination_flags"][0]["trace_reference"] == kept
    assert finding.details["evidence_dropped"] == (0 if kept else 2)


@pytest.mark.parametrize(
    ("severity", "reasons", "priority"),
    [("critical", ["critical_claim"], "now"), ("major", ["major_claim"], "queue"), ("minor", [], None)],
)
def test_severity_decides_who_looks(severity: str, reasons: list[str], priority: str | None) -> None:
    """Critical now, major queued, minor for the trend alone."""
    lost = [{"claim": "Bicycles travel free of charge", "closest_retrieved_passage": None, "severity": severity}]
    four = dimension(4, "Bicycles travel free of charge")
    card = judged(reply(4.5, claim_support=four, unsupported_claims=lost))
    assert [r.reason for r in card.review] == reasons
    assert {r.priority for r in card.review} == ({priority} if priority else set())
    assert card.details["trend_only"] is (severity == "minor")


def test_high_risk_holds_what_falls_below_four() -> None:
    """And nothing else."""
    three = dimension(3, "Bicycles travel free of charge")
    low = judged(reply(3.0, claim_support=three, citation_accuracy=three), record(risk="high"))
    assert (low.status, [r.reason for r in low.review]) == ("pending_review", ["low_faithfulness"])
    assert judged(reply(3.0, claim_support=three, citation_accuracy=three)).status == "scored"
    assert judged(reply(), record(risk="high")).status == "scored"


def test_nothing_retrieved_and_facts_stated_scores_1_by_rule() -> None:
    """Decided without asking, with the retrieval failure noted."""
    card = judged("never asked", record("The night ferry leaves at 21:40.", ()))
    assert (card.decided_by, card.root_cause) == ("rule", "retrieval_empty")
    assert values(card)["claim_support"] == 1
    assert values(card)["citation_accuracy"] is None
    assert "retrieval" in card.details["justifications"]["claim_support"]
    assert card.details["severity"] == "major"


def test_nothing_retrieved_and_an_honest_answer_scores_5_by_rule() -> None:
    """Pure abstention: 5 by the letter, marked, apart from claim-support means."""
    card = judged("never asked", record("I don't know. The documents do not say.", ()))
    assert (card.decided_by, values(card)["claim_support"], values(card)["abstention"]) == ("rule", 5, 5)
    assert "abstained" in card.flags
    assert card.details["abstained"] is True


def test_nothing_retrieved_and_half_an_answer_is_asked() -> None:
    """Where a rule can't decide, the judge does, and claim_support above 1 is a fault only without abstention."""
    (item,) = RagFaithfulness().cases(record("I don't know the price, but the ferry leaves at 21:40.", ()), frozenset())
    assert isinstance(item, Case)


@pytest.mark.parametrize(
    "answer", ["Dazu kann ich Ihnen leider keine Auskunft geben.", "Je ne sais pas.", "わかりません。"]
)
def test_nothing_retrieved_and_an_answer_we_can_not_read_is_asked(answer: str) -> None:
    """A rule of ours that reads English decides nothing about other tongues, and overrules no judge there."""
    rec = record(answer, ())
    (item,) = RagFaithfulness().cases(rec, frozenset())
    assert isinstance(item, Case)
    five = dimension(5, answer)
    card = judged(
        reply(5.0, claim_support=five, citation_accuracy=dimension(None), abstention_appropriateness=five), rec
    )
    assert (card.status, values(card)["claim_support"]) == ("scored", 5)


@pytest.mark.parametrize("field", ["query", "context", "answer"])
def test_a_gap_is_not_judged(field: str) -> None:
    """All three are needed."""
    card = judged(reply(), record(gaps=(Gap(field=field, reason="off", remedy="turn it on"),)))  # type: ignore[arg-type]
    assert (card.status, card.reason) == ("unscored", f"{field}_off")


def test_a_judge_that_declares_itself_blind_gives_a_partial_card() -> None:
    """Dimensions published, their mean as .assessed with the count, headline, label and severity empty."""
    blind = {"abstention_appropriateness", "source_conflict_handling"}
    card = judged(reply(), unassessed=blind)
    assert card.partial
    assert card.headline is None
    assert values(card) == {"assessed": 5.0, "claim_support": 5, "citation_accuracy": 5, "abstention": None,
                            "source_conflict": None}  # fmt: skip
    assert "2 of 4" in card.scores[0].rationale
    assert {s.label for s in card.scores if s.value is None} == {"not_assessed"}
    assert card.details["severity"] is None
    assert card.details["faithfulness_score"] is None


def test_a_declared_blindness_is_binding() -> None:
    """A score for what it said it can't see is a fault; null where it did not say so is one too."""
    blind = frozenset({"source_conflict_handling"})
    with pytest.raises(InvalidVerdict, match=r"source_conflict_handling\.score"):
        told(reply(source_conflict_handling=dimension(5, FERRY)), unassessed=blind)
    assert told(reply(claim_support=dimension(None)), unassessed=frozenset({"claim_support"}))


def test_citations_that_could_not_be_read_are_not_judged() -> None:
    """A gap in the citations empties that dimension and the headline; the others stand."""
    rec = record(gaps=(Gap(field="citations", reason="ambiguous", remedy="number the passages through"),))
    judge = ScriptedJudge(reply(citation_accuracy=dimension(None)))
    (card,) = evaluate([rec], [RagFaithfulness()], judge)
    assert (card.status, card.partial, card.headline) == ("scored", True, None)
    assert judge.heard[0].body["citations"] == []
    assert judge.heard[0].body["not_assessed"] == ["citation_accuracy"]
    assert judged(reply(), rec).status == "unscored"


def test_passages_carry_rank_and_time() -> None:
    """In the order the answer's markers count them."""
    rec = record()
    dated = rec.context[0].model_copy(update={"timestamp": "2025-03-01"})
    (case,) = RagFaithfulness().cases(rec.model_copy(update={"context": (dated, rec.context[1])}), frozenset())
    assert isinstance(case, Case)
    assert case.body["passages"][0] == {"id": "p1", "rank": 1, "text": FERRY, "timestamp": "2025-03-01"}
    assert [c["passage_id"] for c in case.body["citations"]] == ["p1", "p2"]


def test_the_module_prints_its_prompt_schema_and_version() -> None:
    """Readable by who must approve it."""
    command = [sys.executable, "-m", "groundtrace.rubrics.rag_faithfulness"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert "# RAG faithfulness" in done.stdout
    assert '"hallucination_flags"' in done.stdout
    assert f"rag_faithfulness {RagFaithfulness().version}" in done.stdout
