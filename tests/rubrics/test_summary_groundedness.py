"""Summary groundedness: the contract, the versions, the forms of its schema, the prompt (the rulings are data)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace import record as make
from groundtrace.evaluate import evaluate
from groundtrace.model import Case, Record, Scorecard
from groundtrace.rubrics import law
from groundtrace.rubrics.summary_groundedness import DIMENSIONS, ITEMS, RATINGS, SummaryGroundedness, rating
from groundtrace.testing import HOSTILE_TEXTS, RubricContract, ScriptedJudge, sample_record

SOURCE = "Because the harbour froze in January, the island's mill ran out of grain and stopped."
SUMMARY = "The mill stopped because the harbour froze."


def record(**fields: Any) -> Record:
    """A source and a summary of it."""
    return sample_record(SUMMARY, (SOURCE,), **({"kind": "summary"} | fields))


def reply(*scores: int, items: str = "'harbour froze'", **parts: Any) -> dict[str, Any]:
    """A careful judge's reply: a score for each dimension; below 5 an item that stands in source and summary."""
    told = scores or (5,) * len(DIMENSIONS)
    dimensions = {
        name: {"score": score, "explanation": "As told.", ITEMS.get(name, "violations"): [items] if score < 5 else []}
        for name, score in zip(DIMENSIONS, told, strict=True)
    }
    exact = law.mean(told)
    made: dict[str, Any] = {"overall_faithfulness_score": law.halves_up(exact, 2), "overall_rating": rating(exact)}
    return made | {"dimensions": dimensions, "critical_failures": [], **parts}


def judged(verdict: Any, rec: Record | None = None, **judge: Any) -> Scorecard:
    """The card a reply leads to."""
    (card,) = evaluate([rec or record()], [SummaryGroundedness()], ScriptedJudge(verdict, **judge))
    return card


def asked(rec: Record, unassessed: frozenset[str] = frozenset()) -> Case:
    """The one question a record raises."""
    (case,) = SummaryGroundedness().cases(rec, unassessed)
    assert isinstance(case, Case)
    return case


class TestContract(RubricContract):
    """The contract every rubric is held to."""

    def make(self) -> SummaryGroundedness:
        return SummaryGroundedness()

    def record(self) -> Record:
        return record()

    def verdict(self, case: Case) -> Mapping[str, Any]:
        return reply()


# --- versions, schema, prompt ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", [{"review_below": 2.5}, {"review_below_high_risk": 4.0}, {"derived": True}])
def test_each_setting_makes_another_version(setting: dict[str, Any]) -> None:
    """Whatever moves a score or a review is hashed; the prompt stays the same."""
    assert SummaryGroundedness(**setting).version != SummaryGroundedness().version
    assert SummaryGroundedness(**setting).prompt_hash == SummaryGroundedness().prompt_hash


def test_the_schema_a_judge_is_given_is_the_contract_field_for_field() -> None:
    """Five dimensions with lists of their own names; notes alone may be left out."""
    schema = asked(record()).schema
    assert schema["required"] == ["overall_faithfulness_score", "overall_rating", "dimensions", "critical_failures"]
    assert schema["$defs"]["Dimensions"]["required"] == list(DIMENSIONS)
    assert schema["$defs"]["Omissions"]["required"] == ["score", "explanation", "omitted_items"]
    assert schema["$defs"]["Insertions"]["required"] == ["score", "explanation", "inserted_items"]
    assert schema["$defs"]["Violations"]["required"] == ["score", "explanation", "violations"]


def test_key_facts_extend_the_schema_only_where_there_are_some() -> None:
    """And then their states are due."""
    assert "key_facts" not in asked(record()).schema["properties"]
    assert "KeyFact" not in asked(record()).schema["$defs"]
    asking = asked(record(key_facts=("the mill stopped",)))
    assert "key_facts" in asking.schema["required"]
    assert asking.schema["$defs"]["KeyFact"]["properties"]["state"]["enum"] == ["present", "partial", "missing"]
    assert asking.prefix == asked(record()).prefix


@pytest.mark.parametrize("name", DIMENSIONS)
def test_a_judge_that_is_blind_for_a_dimension_may_leave_it_and_the_rating_open(name: str) -> None:
    """Its schema takes null there and nowhere else."""
    partial = SummaryGroundedness().schema(frozenset({name})).model_json_schema()
    open_to_null = [
        key
        for key, kind in partial["$defs"]["Dimensions"]["properties"].items()
        if "anyOf" in partial["$defs"][kind["$ref"].rsplit("/", 1)[1]]["properties"]["score"]
    ]
    assert open_to_null == [name]
    assert {"type": "null"} in partial["properties"]["overall_rating"]["anyOf"]
    assert asked(record(), frozenset({name})).schema["$defs"] != asked(record()).schema["$defs"]


def test_it_is_for_summaries_alone() -> None:
    """A record of another kind gives no card."""
    judge = ScriptedJudge(reply())
    assert not list(evaluate([record(kind="answer")], [SummaryGroundedness()], judge))
    assert not judge.heard


def test_the_example_of_the_prompt_passes_its_own_gate() -> None:
    """A prompt that shows a reply the gate refuses would teach the fault."""
    text = SummaryGroundedness().edition.prompt.split("## Example")[1]
    source, summary = (" ".join(text.split(f'{name}: "')[1].split('"')[0].split()) for name in ("Source", "Summary"))
    card = judged(text.split("```")[1], make(None, [source], summary, kind="summary"))
    assert card.attempts[0].faults == ()
    assert card.details["overall_rating"] == "Good"
    assert card.findings[0].details["items_dropped"] == 0


def test_the_module_prints_its_prompt_schema_and_version() -> None:
    """Readable by who must approve it."""
    command = [sys.executable, "-m", "groundtrace.rubrics.summary_groundedness"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    assert "# Summary groundedness" in done.stdout
    assert '"critical_failures"' in done.stdout
    assert f"summary_groundedness {SummaryGroundedness().version}" in done.stdout


# --- what holds for every reply -------------------------------------------------------------------------------------


@given(st.tuples(*[st.integers(1, 5)] * len(DIMENSIONS)))
def test_the_card_is_the_arithmetic_of_its_dimensions(scores: tuple[int, ...]) -> None:
    """Mean, rating and review follow from the five scores alone."""
    card = judged(reply(*scores))
    assert card.status == "scored"
    assert card.scores[0].value == sum(scores) / 5
    assert [score.value for score in card.scores[1:]] == list(scores)
    assert ("low_groundedness" in [review.reason for review in card.review]) == (sum(scores) < 15)


@given(st.integers(100, 500))
def test_ratings_leave_no_mean_without_a_label(hundredths: int) -> None:
    """And a better mean never has a worse rating."""
    labels = [label for _, label in RATINGS]
    better = Fraction(hundredths + 1, 100)
    assert labels.index(rating(better)) <= labels.index(rating(Fraction(hundredths, 100)))


@pytest.mark.parametrize(
    ("mean", "label"),
    [(Fraction(9, 2), "Excellent"), (Fraction(7, 2), "Good"), (Fraction(5, 2), "Fair"), (Fraction(3, 2), "Poor"),
     (Fraction(449, 100), "Good"), (Fraction(349, 100), "Fair"), (Fraction(249, 100), "Poor"),
     (Fraction(149, 100), "Unacceptable")],
)  # fmt: skip
def test_a_bound_belongs_to_the_better_rating(mean: Fraction, label: str) -> None:
    """As the mean of five never stands on some of them, a judge blind for one may."""
    assert rating(mean) == label


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_words_of_a_judge_are_a_fault_at_most(text: str) -> None:
    """Items, explanations and failures may hold anything."""
    told = reply(4, 4, 4, 4, 4, items=text, critical_failures=[text], evaluation_notes=text)
    card = judged(json.dumps(told))
    assert card.status in ("scored", "unscored")
    assert len(card.attempts) <= 2


def test_an_item_full_of_open_quotes_is_read_in_no_time() -> None:
    """Quotation marks that never close cost no more than they are long."""
    began = time.perf_counter()
    judged(reply(4, 5, 5, 5, 5, items="'harbour froze' " + "'a " * 50_000))
    assert time.perf_counter() - began < 5
