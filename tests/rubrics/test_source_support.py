"""Source support: pairs, levels, evidence, aggregates and what must be looked at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from groundtrace.citations import cite
from groundtrace.errors import InvalidVerdict
from groundtrace.evaluate import evaluate
from groundtrace.model import Case, Citation, Finding, Gap, Passage, Record, Scorecard
from groundtrace.rubrics.source_support import LEVELS, SourceSupport
from groundtrace.testing import RubricContract, ScriptedJudge, sample_record

FERRY = "The night ferry leaves at 21:40 every day except Sunday."
BIKES = "Bicycles travel free of charge on all crossings."
PORT = "The port of Aldmere was rebuilt in 1987 after the fire."


def record(answer: str, passages: tuple[str, ...] = (FERRY, BIKES, PORT), **fields: Any) -> Record:
    """A record whose citations are read from its answer."""
    context = tuple(Passage(id=f"p{n}", text=text, rank=n) for n, text in enumerate(passages, 1))
    return sample_record(answer, passages, citations=cite(answer, context), **fields)


def reply(score: int, evidence: str | None, **fields: Any) -> dict[str, Any]:
    """What a careful judge would write."""
    made: dict[str, Any] = {"score": score, "support_level": LEVELS[score], "rationale": "It is as the passage says."}
    made |= {"key_evidence": evidence, "missing_information": None if score == 5 else "more", "confidence": 0.9}
    return made | fields


def by_level(levels: Mapping[str, int]) -> ScriptedJudge:
    """A judge that gives each passage id its level and quotes the passage's beginning."""

    def script(case: Case) -> dict[str, Any]:
        passage = case.body["passage"]
        score = levels[passage["id"]]
        return reply(score, passage["text"] if score > 2 else None)

    return ScriptedJudge(script)


def judged(answer: str, levels: Mapping[str, int], rubric: SourceSupport | None = None, **fields: Any) -> Scorecard:
    """The card of an answer."""
    (card,) = evaluate([record(answer, **fields)], [rubric or SourceSupport()], by_level(levels))
    return card


def items(answer: str, rubric: SourceSupport | None = None, **fields: Any) -> list[Case | Finding]:
    """What is asked about an answer."""
    return list((rubric or SourceSupport()).cases(record(answer, **fields), frozenset()))


def told(verdict: Mapping[str, Any], claim: str = "The ferry leaves at 21:40 [1].", passage: str = FERRY) -> Finding:
    """The finding a verdict leads to."""
    rubric, rec = SourceSupport(), record(claim, (passage,))
    (case,) = rubric.cases(rec, frozenset())
    assert isinstance(case, Case)
    return rubric.finding(rec, case, rubric.schema(frozenset()).model_validate(verdict), frozenset())


class TestContract(RubricContract):
    """The contract every rubric is held to."""

    def make(self) -> SourceSupport:
        return SourceSupport()

    def record(self) -> Record:
        return record("The ferry leaves at 21:40 [1].")

    def verdict(self, case: Case) -> Mapping[str, Any]:
        return reply(5, "The night ferry leaves at 21:40")


# --- which pairs ----------------------------------------------------------------------------------------------------


def test_each_cited_claim_meets_each_passage_it_cites() -> None:
    """And uncited claims of an answer that cites are left out, yet counted."""
    asked = items("The ferry leaves at 21:40 [1][3]. Bikes are free [2]. Dogs are not allowed.")
    assert [item.slot for item in asked] == ["c1>p1", "c1>p3", "c2>p2"]
    card = judged("The ferry leaves at 21:40 [1]. Dogs are not allowed on board.", {"p1": 5})
    assert card.details["claims_uncited"] == 1


def test_an_answer_without_citations_meets_its_best_passages() -> None:
    """Each claim with its three nearest by overlap; the best is kept."""
    asked = items("The ferry leaves at 21:40.", passages=(BIKES, PORT, FERRY, "Tea is served."))
    assert len(asked) == 3
    assert asked[0].slot == "c1~p3"
    card = judged("The ferry leaves at 21:40.", {"p1": 2, "p2": 1, "p3": 5}, passages=(BIKES, PORT, FERRY))
    assert card.scores[0].value == 5
    assert card.scores[2].value is None
    assert card.scores[2].label == "not_applicable"


def test_all_takes_uncited_claims_in_and_cited_leaves_them_out() -> None:
    """The plan can choose."""
    answer = "The ferry leaves at 21:40 [1]. Bicycles travel free."
    assert len(items(answer, SourceSupport(pairs="all"))) == 4
    assert len(items(answer, SourceSupport(pairs="cited"))) == 1
    uncited = items("The ferry leaves at 21:40.", SourceSupport(pairs="cited"))
    assert not [item for item in uncited if isinstance(item, Case)]


def test_a_citation_that_points_nowhere_scores_1_without_a_judge() -> None:
    """Reason code unresolved_citation, level label unchanged."""
    (finding,) = items("Each crossing costs nine euros [9].")
    assert isinstance(finding, Finding)
    assert (finding.value, finding.reason, finding.decided_by) == (1, "unresolved_citation", "rule")
    assert finding.label == "No Support / Contradicts"


def test_an_empty_passage_scores_1_as_insufficient() -> None:
    """Seen, and empty."""
    (finding,) = items("The ferry leaves at 21:40 [1].", passages=("  ",))
    assert isinstance(finding, Finding)
    assert (finding.value, finding.reason) == (1, "empty_passage")
    assert "insufficient" in finding.rationale


def test_a_retrieval_that_returned_nothing_scores_1() -> None:
    """No passage can back the claim."""
    card = judged("The ferry leaves at 21:40.", {}, passages=())
    assert (card.status, card.scores[0].value, card.root_cause) == ("scored", 1, "retrieval_empty")
    assert card.decided_by == "rule"


@pytest.mark.parametrize("field", ["context", "answer"])
def test_a_gap_is_not_judged(field: str) -> None:
    """Masked, off, cut: unscored, with the gap as reason."""
    gaps = (Gap(field=field, reason="masked", remedy="unset HIDE"),)  # type: ignore[arg-type]
    card = judged("The ferry leaves at 21:40 [1].", {}, gaps=gaps)
    assert (card.status, card.reason, card.root_cause) == ("unscored", f"{field}_masked", "trace_gap")
    assert "unset HIDE" in card.details["rationale"]


def test_a_query_that_is_missing_does_not_matter() -> None:
    """The rubric needs none."""
    gaps = (Gap(field="query", reason="off"),)
    assert judged("The ferry leaves at 21:40 [1].", {"p1": 5}, gaps=gaps, query=None).status == "scored"


def test_an_answer_that_states_nothing_is_unscored() -> None:
    """Never 1 and never 5."""
    card = judged("I don't know.", {})
    assert (card.status, card.reason) == ("unscored", "no_claims")


# --- one verdict ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "line"),
    [
        (reply(5, "The night ferry leaves at 21:40", support_level="Strongly Implies"), r"\$\.support_level"),
        (reply(5, "The night ferry leaves at 21:40", missing_information="x"), r"\$\.missing_information"),
        (reply(4, "The night ferry leaves at 21:40", missing_information=None), r"\$\.missing_information"),
        (reply(5, "The ferry arrives at dawn in Aldmere"), r"\$\.key_evidence"),
        (reply(3, None), r"\$\.key_evidence"),
        (reply(5, "The night ferry leaves at 21:40", rationale=" "), r"\$\.rationale"),
        (reply(5, "The night ferry leaves at 21:40", rationale="It left on 4 May 2019."), r"\$\.rationale"),
        (reply(5, "The night ferry leaves at 21:40", rationale="All 385 passengers say so."), r"\$\.rationale"),
    ],
)
def test_what_breaks_the_contract_is_a_fault(verdict: Mapping[str, Any], line: str) -> None:
    """Each with the path of the field at fault."""
    with pytest.raises(InvalidVerdict, match=line):
        told(verdict)


def test_evidence_is_located_in_the_passage() -> None:
    """Its offsets quote the passage."""
    finding = told(reply(5, "the night ferry  leaves at 21:40"))
    (evidence,) = finding.evidence
    assert evidence.match == "normalised"
    assert FERRY[evidence.start : evidence.end] == "The night ferry leaves at 21:40"
    assert finding.details["key_evidence_span"]["match"] == "normalised"


def test_a_paraphrase_that_adds_nothing_is_accepted() -> None:
    """It has no span, and adds no number, date or name."""
    finding = told(reply(3, "every day except Sunday the night ferry leaves"))
    assert finding.evidence[0].match in ("paraphrase", "fuzzy")


def test_low_scores_need_no_evidence() -> None:
    """1 and 2 may leave it empty, or name what isn't there."""
    assert told(reply(1, "")).evidence == ()
    assert told(reply(2, "nothing of the kind")).evidence == ()


def test_a_wrong_level_label_may_stand_corrected() -> None:
    """Twice the wrong label: our figure stands and a person decides."""
    wrong = reply(4, "The night ferry leaves at 21:40", support_level="Directly Supports")
    (card,) = evaluate([record("The ferry leaves at 21:40 [1].")], [SourceSupport()], ScriptedJudge(wrong))
    assert (card.status, card.scores[0].value) == ("pending_review", 4)
    assert "figure_corrected" in [r.reason for r in card.review]


def test_a_quote_without_the_claims_facts_misleads() -> None:
    """A high score whose span lacks the number is flagged and does not count as precise."""
    card = judged("The ferry leaves at 21:40 [1].", {"p1": 5})
    assert card.scores[2].value == 1
    (card,) = evaluate(
        [record("The ferry leaves at 21:40 [1].")],
        [SourceSupport()],
        ScriptedJudge(reply(5, "every day except Sunday")),
    )
    assert card.scores[2].value == 0
    assert "misleading_citation" in card.flags
    assert "misleading_citation" in [r.reason for r in card.review]


def test_figures_worked_out_at_level_4_do_not_mislead() -> None:
    """A difference of two figures in the span is in the span."""
    passage = "The night train carried 41200 passengers and the day train 36900."
    finding = told(reply(4, passage), "The night train carried 4300 more passengers than the day train [1].", passage)
    assert "misleading_citation" not in finding.flags


# --- the card -------------------------------------------------------------------------------------------------------


def test_mean_minimum_and_shares_are_over_claims() -> None:
    """Best citation per claim, then the answer; sources beside it."""
    card = judged("The ferry leaves at 21:40 [1][2]. The port was rebuilt in 1987 [3].", {"p1": 5, "p2": 2, "p3": 4})
    assert [s.value for s in card.scores[:2]] == [4.5, 4]
    assert card.details["share_supported"] == 1.0
    assert card.details["sources"]["p2"] == {"pairs": 1, "mean": 2.0, "minimum": 2.0, "share_supported": 0.0}
    assert card.scores[2].value == pytest.approx(2 / 3, abs=1e-4)


def test_one_bad_claim_among_good_ones_is_a_red_flag() -> None:
    """The record is also put to rag_faithfulness."""
    card = judged("The ferry leaves at 21:40 [1]. The port was rebuilt in 1987 [3]. Bikes are free [2].",
                  {"p1": 5, "p2": 1, "p3": 5})  # fmt: skip
    assert "red_flag" in card.flags
    assert card.refer == ("rag_faithfulness",)


def test_an_uncited_claim_that_nothing_backs_is_a_red_flag() -> None:
    """Found by overlap where the judge wasn't asked."""
    card = judged("The ferry leaves at 21:40 [1]. Volcanic eruptions destroyed four vineyards.", {"p1": 5})
    assert {"red_flag", "uncited_unbacked"} <= set(card.flags)
    assert card.details["claims_uncited_unbacked"] == ["c2"]
    fine = judged("The ferry leaves at 21:40 [1]. The night ferry leaves every day except Sunday.", {"p1": 5})
    assert "red_flag" not in fine.flags


def test_low_support_goes_to_review_and_high_risk_holds_the_card() -> None:
    """Should under normal risk is must under high risk."""
    low = judged("The ferry leaves at 21:40 [1].", {"p1": 2})
    assert (low.status, [r.reason for r in low.review]) == ("scored", ["low_support"])
    three = judged("The ferry leaves at 21:40 [1].", {"p1": 3})
    assert (three.status, three.review) == ("scored", ())
    held = judged("The ferry leaves at 21:40 [1].", {"p1": 3}, risk="high")
    assert (held.status, [r.reason for r in held.review]) == ("pending_review", ["low_support"])
    assert judged("The ferry leaves at 21:40 [1].", {"p1": 5}, risk="high").status == "scored"


def test_an_unsure_judge_is_reviewed_under_high_risk() -> None:
    """Confidence below 0.7."""
    judge = ScriptedJudge(reply(5, FERRY, confidence=0.6))
    (card,) = evaluate([record("The ferry leaves at 21:40 [1].", risk="high")], [SourceSupport()], judge)
    assert [r.reason for r in card.review] == ["low_confidence"]
    assert card.confidence == 0.6


def test_a_pair_that_failed_is_said() -> None:
    """The rest is scored; the card says it isn't whole."""

    def script(case: Case) -> Any:
        return reply(5, FERRY) if case.body["passage"]["id"] == "p1" else "broken"

    answer = "The ferry leaves at 21:40 [1]. Bikes are free [2]."
    (card,) = evaluate([record(answer)], [SourceSupport()], ScriptedJudge(script))
    assert card.partial
    assert (card.headline, card.scores[0].name, card.scores[0].value) == (None, "source_support.assessed", 5)
    assert [(s.value, s.label) for s in card.scores[1:]] == [(None, "not_assessed")] * 2
    assert "partly_unscored" in [r.reason for r in card.review]
    assert (card.details["claims_total"], card.details["claims_scored"]) == (2, 1)


def test_a_very_long_answer_is_asked_about_in_part() -> None:
    """So many pairs and no more; the rest is counted, and the card says that it isn't whole."""
    answer = " ".join(f"Ferry number {n} leaves at 21:40 [1]." for n in range(2, 12))
    rubric = SourceSupport(most_pairs=4)
    judge = ScriptedJudge(reply(5, FERRY))
    (card,) = evaluate([record(answer)], [rubric], judge)
    assert len(judge.heard) == 4
    assert card.partial
    assert card.headline is None
    assert "6 more pairs were not asked" in card.findings[-1].rationale
    assert card.details["claims_total"] == 10


def test_structured_citations_that_lead_nowhere_leave_an_answer_uncited() -> None:
    """No claim cites, so each meets its best passages."""
    lost = Citation(start=0, end=0, claim_start=0, claim_end=0, passage_id="p1", origin="structured")
    rec = record("The ferry leaves at 21:40.").model_copy(update={"citations": (lost,)})
    (card,) = evaluate([rec], [SourceSupport()], by_level({"p1": 5, "p2": 1, "p3": 1}))
    assert card.scores[0].value == 5


def test_a_year_off_by_a_few_is_a_strange_fact() -> None:
    """The scale's digits are no terms to work a year out from."""
    verdict = reply(5, "The port of Aldmere was rebuilt in 1987", rationale="It was rebuilt in 1984, as claimed.")
    with pytest.raises(InvalidVerdict, match="1984"):
        told(verdict, "The port was rebuilt in 1987 [1].", PORT)


def test_a_claim_cited_to_the_wrong_passage_is_the_citations_fault() -> None:
    """It stands in the context, yet not where the answer says."""
    card = judged("The night ferry leaves at 21:40 every day except Sunday [2].", {"p2": 1})
    assert card.root_cause == "citation"


def test_metadata_that_helps_is_shown_and_the_rest_is_not() -> None:
    """Title and date, never a platform's keepings."""
    rec = record("The ferry leaves at 21:40 [1].")
    passage = rec.context[0].model_copy(update={"metadata": {"title": "Timetable", "secret": "x"}, "timestamp": "2025"})
    (case,) = SourceSupport().cases(rec.model_copy(update={"context": (passage,)}), frozenset())
    assert isinstance(case, Case)
    assert case.body["metadata"] == {"title": "Timetable", "date": "2025"}


def test_settings_are_part_of_the_version() -> None:
    """A setting that moves routing or pairs makes another version."""
    assert SourceSupport().version != SourceSupport(pairs="all").version
    assert SourceSupport().version != SourceSupport(review_below=2).version


def test_the_module_prints_its_prompt_schema_and_version() -> None:
    """Readable by who must approve it."""
    command = [sys.executable, "-m", "groundtrace.rubrics.source_support"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert "# Source support" in done.stdout
    assert '"support_level"' in done.stdout
    assert f"source_support {SourceSupport().version}" in done.stdout
