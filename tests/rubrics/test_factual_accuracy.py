"""Factual accuracy: the contract, the versions, the prompt, and what holds for every reply (the rulings are data)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from groundtrace import record as make
from groundtrace.evaluate import evaluate
from groundtrace.model import Case, Record, Scorecard
from groundtrace.rubrics import law
from groundtrace.rubrics.factual_accuracy import RESULTS, SEVERITIES, AccuracyVerdict, FactualAccuracy
from groundtrace.testing import HOSTILE_TEXTS, RubricContract, ScriptedJudge, sample_record

TOWER = "The tower in Corvin, built of brick in 1880, is 90 metres high and has 12 floors."
CLAIMS = ("The tower is 90 metres high", "It was built in 1880", "It has 12 floors", "It is made of brick")
QUOTES = ("is 90 metres high", "in 1880", "has 12 floors", "built of brick")


def record(**fields: Any) -> Record:
    """A text of four claims and the passage they are held against."""
    return sample_record(". ".join(CLAIMS) + ".", (TOWER,), **fields)


def reply(*results: tuple[str, str | None], **parts: Any) -> dict[str, Any]:
    """A careful judge's reply: for each of the claims in turn a result and a severity."""
    told = results or (("Supported", None),) * len(CLAIMS)
    scores = [RESULTS[result] for result, _ in told]
    verifiable = [score for score in scores if score is not None]
    overall = float(law.halves_up(sum(verifiable, Fraction(0)) / len(verifiable), 2)) if verifiable else None
    rows = [
        {
            "claim_id": f"C{n}",
            "claim_text": CLAIMS[n],
            "verification_result": result,
            "evidence_quote": QUOTES[n],
            "score": None if scores[n] is None else float(scores[n] or 0),
            "severity": severity,
            "judge_rationale": "As the passage has it.",
        }
        for n, (result, severity) in enumerate(told)
    ]
    made: dict[str, Any] = {"overall_factual_accuracy_score": overall, "total_verifiable_claims": len(verifiable)}
    return made | {"claim_verifications": rows, "overall_summary": "As told.", **parts}


def judged(verdict: Any, **fields: Any) -> Scorecard:
    """The card a reply leads to."""
    (card,) = evaluate([record(**fields)], [FactualAccuracy()], ScriptedJudge(verdict))
    return card


def asked(rubric: FactualAccuracy, rec: Record) -> Case:
    """The one question a record raises."""
    (case,) = rubric.cases(rec, frozenset())
    assert isinstance(case, Case)
    return case


class TestContract(RubricContract):
    """The contract every rubric is held to."""

    def make(self) -> FactualAccuracy:
        return FactualAccuracy()

    def record(self) -> Record:
        return record()

    def verdict(self, case: Case) -> Mapping[str, Any]:
        return reply()


# --- versions, schema, prompt ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting", [{"domain_constraints": "Doses are critical."}, {"untraced_share": 0.5}, {"verifiable_floor": 0.6}]
)
def test_each_setting_makes_another_version(setting: dict[str, Any]) -> None:
    """Whatever moves a score, a flag or a question is hashed; the prompt stays the same."""
    assert FactualAccuracy(**setting).version != FactualAccuracy().version
    assert FactualAccuracy(**setting).prompt_hash == FactualAccuracy().prompt_hash


def test_the_schema_a_judge_is_given_is_the_contract_field_for_field() -> None:
    """Names, results, scores and severities as the rubric has them."""
    schema = asked(FactualAccuracy(), record()).schema
    claim = schema["$defs"]["ClaimVerification"]
    assert schema["required"] == [
        "overall_factual_accuracy_score", "total_verifiable_claims", "claim_verifications", "overall_summary",
    ]  # fmt: skip
    assert claim["required"] == [
        "claim_id", "claim_text", "verification_result", "evidence_quote", "score", "severity", "judge_rationale",
    ]  # fmt: skip
    assert claim["properties"]["score"]["enum"] == [1, 0.5, 0, None]
    assert set(claim["properties"]["verification_result"]["enum"]) == set(RESULTS)


def test_it_is_for_answers_and_summaries() -> None:
    """Any text can be held against what it was made from."""
    assert FactualAccuracy().kinds == ("answer", "summary")
    assert judged(reply(), kind="summary").status == "scored"


def test_domain_constraints_and_risk_are_part_of_the_question() -> None:
    """Another field or another risk is another question, with the same prefix."""
    plain = asked(FactualAccuracy(), record())
    medical = asked(FactualAccuracy(domain_constraints="Doses are critical."), record())
    risky = asked(FactualAccuracy(), record(risk="high"))
    assert len({plain.digest, medical.digest, risky.digest}) == 3
    assert {plain.prefix} == {medical.prefix, risky.prefix}
    assert "domain_constraints" not in plain.body


def test_the_example_of_the_prompt_passes_its_own_gate() -> None:
    """A prompt that shows a reply the gate refuses would teach the fault."""
    text = FactualAccuracy().edition.prompt.split("## Example")[1]
    shown = text.split("```")[1]
    answer = text.split('Text: "')[1].split('"')[0]
    evidence = [text.split(f'{name}: "')[1].split('"')[0] for name in ("e1", "e2")]
    (card,) = evaluate([make("?", evidence, answer)], [FactualAccuracy()], ScriptedJudge(shown))
    assert card.attempts[0].faults == ()
    assert card.details["total_verifiable_claims"] == 3


def test_the_module_prints_its_prompt_schema_and_version() -> None:
    """Readable by who must approve it."""
    command = [sys.executable, "-m", "groundtrace.rubrics.factual_accuracy"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert "# Factual accuracy" in done.stdout
    assert '"claim_verifications"' in done.stdout
    assert f"factual_accuracy {FactualAccuracy().version}" in done.stdout


# --- what holds for every reply -------------------------------------------------------------------------------------

OUTCOMES = [(result, severity) for result in RESULTS for severity in ("Critical", "Major", "Minor")]


@given(st.tuples(*[st.sampled_from(OUTCOMES)] * len(CLAIMS)))
def test_the_card_is_the_arithmetic_of_its_claims(results: tuple[tuple[str, str], ...]) -> None:
    """Score, share and severity follow from the claims alone, whatever was told of the rest."""
    card = judged(reply(*results))
    scores = [RESULTS[result] for result, _ in results]
    verifiable = [score for score in scores if score is not None]
    mean = float(sum(verifiable) / len(verifiable)) if verifiable else None
    assert card.scores[0].value == (None if mean is None else pytest.approx(mean, abs=5e-5))
    assert card.scores[1].value == len(verifiable) / len(scores)
    wrong = [severity for score, (_, severity) in zip(scores, results, strict=True) if score in (0, Fraction(1, 2))]
    worst = max((severity.lower() for severity in wrong), key=SEVERITIES.index, default="none")
    expected = "moderate" if worst == "minor" and len(wrong) >= 3 else worst
    assert card.details["hallucination_severity"] == expected
    assert ("critical_claim" in [r.reason for r in card.review]) == (worst == "critical")


@pytest.mark.parametrize("value", ["1", "", [], {}, True, 1e300, float("nan"), "null"])
def test_a_claim_score_is_a_number_or_null(value: object) -> None:
    """Whatever else stands there is a fault of the reply, and nothing breaks."""
    told = reply()
    told["claim_verifications"][0]["score"] = value
    with pytest.raises(ValidationError, match=r"Input should be 1, 0\.5, 0 or null"):
        AccuracyVerdict.model_validate(told)


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_words_of_a_judge_are_a_fault_at_most(text: str) -> None:
    """Ids, claims, quotes and reasons may hold anything."""
    told = reply()
    for name in ("claim_id", "claim_text", "evidence_quote", "judge_rationale"):
        told["claim_verifications"][1][name] = text
    card = judged(json.dumps(told))
    assert card.status in ("scored", "unscored")
    assert len(card.attempts) <= 2


def test_a_text_that_says_a_thing_twice_has_it_traced_twice() -> None:
    """The claim is found at the first place; the second is no sentence left out."""
    twice = "The tower is 90 metres high. It has 12 floors. The tower is 90 metres high!"
    told = reply(("Supported", None))
    (card,) = evaluate(
        [sample_record(twice, (TOWER,))],
        [FactualAccuracy(untraced_share=0.34)],
        ScriptedJudge(told),
    )
    assert card.details["sentences_untraced"] == 1


def test_a_text_that_states_nothing_is_not_asked_about() -> None:
    """Never 1 and never 0."""
    (card,) = evaluate([sample_record("I don't know.", (TOWER,))], [FactualAccuracy()], ScriptedJudge("{}"))
    assert (card.status, card.reason) == ("unscored", "no_claims")


def test_the_verifiable_share_names_the_claims_the_evidence_is_silent_on() -> None:
    """A definition helps nobody who looks at a low share."""
    silent, *_ = CLAIMS
    results = (("Unverifiable", None), *(("Supported", None),) * 3)
    (share,) = (s for s in judged(reply(*results)).scores if s.name.endswith("verifiable_share"))
    assert share.rationale == f"the evidence is silent on 1 of 4 claims: '{silent}'"
    assert judged(reply()).scores[-1].rationale == "the evidence speaks of all 4 claims"


def test_one_error_is_one_error() -> None:
    """In words a person reads."""
    results = (("Contradicted", "Major"), *(("Supported", None),) * 3)
    assert [review.note for review in judged(reply(*results)).review] == ["1 major error"]
