"""Summary groundedness by counting words: what is listed is quoted, and what can't be seen stays unassessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from groundtrace.evaluate import evaluate
from groundtrace.judges.offline import OfflineJudge
from groundtrace.model import Scorecard
from groundtrace.read import record
from groundtrace.rubrics.summary_groundedness import DIMENSIONS, ITEMS, SummaryGroundedness
from groundtrace.testing import HOSTILE_TEXTS, sample_case

FIXTURE = json.loads((Path(__file__).parents[1] / "fixtures" / "offline" / "summaries.json").read_text("utf-8"))
SOURCE = FIXTURE["source"]
SUMMARIES = FIXTURE["summaries"]
WHOLE = SUMMARIES[0]["summary"]
NAMES = [row["why"] for row in SUMMARIES]


def ask(summary: str, **body: Any) -> dict[str, Any]:
    """The verdict on a summary."""
    case = sample_case(rubric="summary_groundedness", body={"source": SOURCE, "summary": summary, **body})
    ((_, reply),) = OfflineJudge().hear([case], lambda case, reply: None)
    verdict: dict[str, Any] = json.loads(reply.text)
    return verdict


def card(summary: str, source: list[Any], key_facts: list[str] | None = None) -> Scorecard:
    """The card, through the gate."""
    asked = record(None, source, summary, kind="summary", key_facts=key_facts or [])
    (made,) = evaluate([asked], [SummaryGroundedness()], OfflineJudge())
    return made


@pytest.mark.parametrize("row", SUMMARIES, ids=NAMES)
def test_each_summary_gets_the_levels_of_the_fixture(row: dict[str, Any]) -> None:
    """Four dimensions by fixed cuts; the fifth is not assessed."""
    dimensions = ask(row["summary"])["dimensions"]
    assert {name: found["score"] for name, found in dimensions.items()} == {
        **row["scores"],
        "causal_logical_structure": None,
    }


@pytest.mark.parametrize("row", SUMMARIES, ids=NAMES)
def test_a_five_lists_nothing_and_what_is_listed_is_quoted(row: dict[str, Any]) -> None:
    """The quotes stand in the summary, or, of what is left out, in the source."""
    made = card(row["summary"], SOURCE)
    (finding,) = made.findings
    assert [attempt.faults for attempt in made.attempts] == [()]
    assert finding.details["items_dropped"] == 0
    for name, found in finding.details["dimensions"].items():
        assert (found["score"] in {5, None}) == (not found["items"])
        assert all(evidence["match"] == "exact" for evidence in found["evidence"][:1]), name


@pytest.mark.parametrize("row", SUMMARIES, ids=NAMES)
def test_the_card_is_partial_and_its_rating_stays_empty(row: dict[str, Any]) -> None:
    """A mean of four dimensions of five is published as such."""
    made = card(row["summary"], SOURCE)
    assert made.partial
    assert made.headline is None
    assert made.details["overall_rating"] is None
    scores = {score.name: score.value for score in made.scores}
    mean = sum(row["scores"].values()) / len(row["scores"])
    assert scores["summary_groundedness.assessed"] == mean
    assert scores["summary_groundedness.causal"] is None


def test_the_reply_has_exactly_the_fields_of_the_contract() -> None:
    """Field for field what an LLM would be asked for; key facts only where there are some."""
    verdict = ask(WHOLE)
    assert list(verdict) == [
        "overall_faithfulness_score", "overall_rating", "dimensions", "critical_failures", "evaluation_notes",
    ]  # fmt: skip
    assert set(verdict["dimensions"]) == set(DIMENSIONS)
    for name, found in verdict["dimensions"].items():
        assert list(found) == ["score", "explanation", ITEMS.get(name, "violations")]
    assert verdict["critical_failures"] == []


def test_a_wrong_number_is_shown_beside_the_sentence_that_has_the_right_one() -> None:
    """Summary and source, both quoted."""
    changed = next(row for row in SUMMARIES if row["why"] == "another number")
    (item,) = ask(changed["summary"])["dimensions"]["factual_consistency"]["violations"]
    assert "500 sacks" in item
    assert "300 sacks" in item


def test_key_facts_have_states_and_sharpen_omission() -> None:
    """The lower of both counts: half of the key facts is a 3, but next to nothing of the source is there."""
    asked = [row["fact"] for row in FIXTURE["key_facts"]]
    kept = "The council had stored flour since 1902, so no one went hungry."
    verdict = ask(kept, key_facts=asked)
    assert verdict["key_facts"] == FIXTURE["key_facts"]
    omission = verdict["dimensions"]["key_information_omission"]
    assert omission["score"] == ask(kept)["dimensions"]["key_information_omission"]["score"] == 1
    assert "300 sacks" in omission["omitted_items"][0]
    assert "Of 2 key facts 1 " in omission["explanation"]
    assert card(kept, SOURCE, asked).details["key_facts"] == FIXTURE["key_facts"]


def test_key_facts_never_raise_a_summary_that_leaves_out_the_rest() -> None:
    """That all key facts are there is no proof that nothing is missing."""
    kept = "The council had stored flour since 1902, so no one went hungry."
    without = ask(kept)["dimensions"]["key_information_omission"]
    whole = ask(kept, key_facts=["The council had stored flour since 1902"])["dimensions"]["key_information_omission"]
    assert whole["score"] == without["score"] < 5
    assert whole["omitted_items"] == without["omitted_items"]


def test_a_key_fact_that_the_source_has_not_is_shown_by_what_is_held_least() -> None:
    """It is missing all the same, and the gate takes the card at the first asking."""
    fact = "Zebras graze quietly"
    verdict = ask(WHOLE, key_facts=[fact])
    assert verdict["key_facts"] == [{"fact": fact, "state": "missing"}]
    assert ask(WHOLE)["dimensions"]["key_information_omission"]["score"] == 5
    omission = verdict["dimensions"]["key_information_omission"]
    assert (omission["score"], len(omission["omitted_items"])) == (1, 1)
    assert [attempt.faults for attempt in card(WHOLE, SOURCE, [fact]).attempts] == [()]


@pytest.mark.parametrize("summary", ["🎉", "Is it so?"])
def test_a_summary_that_states_nothing_is_looked_at(summary: str) -> None:
    """Where nothing is claimed nothing can be wrong; the mean says more than there is."""
    assert [review.reason for review in card(summary, SOURCE).review] == ["nothing_stated"]


PARTS = st.sampled_from(
    [
        "The bridge opened in 1931", "The bridge opened in 1932", "Ilse Brandt designed it", "Karl Otto designed it",
        "Sales rose 12% to $4.2 billion", "Sales fell 14%", "Dr. Ada said “no”", "He «said» \"`no`\" ‘or’ 'yes”",
        "Is it late?", "It does not leave", "über den Fluß", "a ... b […] c", "- item", "5", "x", "…",
        "." * 300 + "end",
    ]
)  # fmt: skip
ENDS = st.sampled_from([". ", ".\n", "; ", ", and ", " while ", "\n- ", " [1]. ", "“", "”"])
TEXTS = st.lists(st.tuples(PARTS, ENDS).map("".join), min_size=1, max_size=6).map("".join) | st.text()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3), st.lists(TEXTS, max_size=2))
@example("[PERSON]", ["A ferry."], [])
@example("A ferry.", ["[PERSON]"], [])
def test_whatever_the_summary_the_gate_finds_no_fault(summary: str, source: list[str], key_facts: list[str]) -> None:
    """Items quote, fives list nothing, figures add up: for any summary of any source."""
    made = card(summary, source, key_facts)
    assert all(not attempt.faults for attempt in made.attempts), [a.faults for a in made.attempts]
    unjudged = {"empty_source", "empty_summary", "answer_not_given", "answer_masked", "context_masked"}
    assert made.status == "scored" or made.reason in unjudged


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.sampled_from([sentence["text"] for sentence in SOURCE] + ["Nothing else happened there"]), min_size=1)
)
def test_what_is_copied_from_the_source_is_consistent_with_it(copied: list[str]) -> None:
    """A source summarised by itself adds nothing and leaves nothing out."""
    whole = " ".join(copied)
    scores = [found["score"] for found in card(whole, [whole]).findings[0].details["dimensions"].values()]
    assert scores == [5, 5, 5, 5, None]


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=range(len(HOSTILE_TEXTS)))
def test_hostile_summaries_and_sources_give_cards(text: str) -> None:
    """As summary, as source and as both."""
    for summary, source in ((text, WHOLE), (WHOLE, text), (text, text)):
        assert all(not attempt.faults for attempt in card(summary, [source]).attempts)
