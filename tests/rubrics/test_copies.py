"""A user's copy of a rubric: untouched it is the built-in, and each thing set in it moves what it says."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from groundtrace import record
from groundtrace.errors import PlanError
from groundtrace.evaluate import evaluate
from groundtrace.model import Scorecard
from groundtrace.plugins import load
from groundtrace.rubrics import copies, law
from groundtrace.rubrics.settings import NAMES
from groundtrace.testing import ScriptedJudge

VERSIONS = {
    "factual_accuracy": ("2.8edc1300a779", "63c1fc34e97c"),
    "rag_faithfulness": ("2.b68295b658db", "233501027080"),
    "source_support": ("2.60c3f94d0d11", "bf7dc26e08ca"),
    "summary_groundedness": ("2.19b8056dc0fe", "37befda04150"),
}
"""What stored cards were made under; where one moves on purpose, so does the rubric's number of rules."""

FERRY = "The night ferry leaves at 21:40."


def rubric(name: str, **options: Any) -> Any:
    """A rubric as a plan makes it."""
    return load("rubric", {"use": name, **options})


def copied(name: str, folder: Path) -> Path:
    """An untouched copy."""
    return copies.write(rubric(name).edition, folder)[0]


def changed(
    name: str, folder: Path, *edits: tuple[str, str], more: str = "", prompt: tuple[str, str] = ("", "")
) -> Path:
    """A copy with texts of its settings and of its prompt replaced, and more settings at its end."""
    path = copied(name, folder)
    text = path.read_text("utf-8")
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text + more, "utf-8")
    words = path.with_suffix(".md")
    words.write_text(words.read_text("utf-8").replace(*prompt) if prompt[0] else words.read_text("utf-8"), "utf-8")
    return path


def commented(name: str) -> str:
    """The examples a copy shows in its comments, with the comment signs taken away."""
    lines = rubric(name).edition.own.told.splitlines()
    shown = [line[2:] for line in lines if re.match(r"# (\[\[|\w+ = )", line)]
    return "\n" + "\n".join(shown) + "\n"


# --- an untouched copy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_an_untouched_copy_is_the_built_in(name: str, tmp_path: Path) -> None:
    """The same prompt, version and hash, and nothing to note."""
    own, copy = rubric(name), rubric(name, copy=str(copied(name, tmp_path)))
    assert copy.edition.prompt == own.edition.prompt
    assert (copy.version, copy.prompt_hash) == (own.version, own.prompt_hash) == VERSIONS[name]
    assert copy.notes() == own.notes() == ()
    assert "{{" not in own.edition.prompt


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_saved_by_another_editor_is_the_same(name: str, tmp_path: Path) -> None:
    """A byte order mark and the line ends of Windows are no other words."""
    path = copied(name, tmp_path)
    for file in (path, path.with_suffix(".md")):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert rubric(name, copy=path).version == rubric(name).version


@pytest.mark.parametrize("name", NAMES)
def test_a_key_left_out_is_the_built_ins(name: str, tmp_path: Path) -> None:
    """A copy may hold the name of its rubric alone."""
    path = copied(name, tmp_path)
    path.write_text(f'rubric = "{name}"\n', "utf-8")
    assert rubric(name, copy=path).version == rubric(name).version


@pytest.mark.parametrize("name", NAMES)
def test_a_rubric_with_a_copy_is_of_its_kind(name: str, tmp_path: Path) -> None:
    """It can be sent to a worker, and says what it is."""
    edition = rubric(name, copy=copied(name, tmp_path)).edition
    assert pickle.loads(pickle.dumps(edition)) == edition


# --- each setting ---------------------------------------------------------------------------------------------------

BOUNDS = [
    ("source_support", 'pairs = "auto"', 'pairs = "all"'),
    ("source_support", "candidates = 3", "candidates = 4"),
    ("source_support", "most_pairs = 300", "most_pairs = 30"),
    ("source_support", "review_below = 3", "review_below = 4"),
    ("source_support", "review_confidence = 0.7", "review_confidence = 0.8"),
    ("source_support", "supported = 4", "supported = 3"),
    ("source_support", "uncited_cover = 0.35", "uncited_cover = 0.4"),
    ("source_support", "backed = 0.5", "backed = 0.6"),
    ("factual_accuracy", 'domain_constraints = ""', 'domain_constraints = "Doses are critical."'),
    ("factual_accuracy", "untraced_share = 0.2", "untraced_share = 0.3"),
    ("factual_accuracy", "verifiable_floor = 0.5", "verifiable_floor = 0.6"),
    ("factual_accuracy", "moderate_from = 3", "moderate_from = 2"),
    ("rag_faithfulness", "review_below = 4.0", "review_below = 4.5"),
    ("summary_groundedness", "review_below = 3.0", "review_below = 3.5"),
    ("summary_groundedness", "review_below_high_risk = 3.5", "review_below_high_risk = 4"),
    ("summary_groundedness", "derived = false", "derived = true"),
]
WORDS = [
    ("source_support", "Same topic,", "On the topic,"),
    ("factual_accuracy", "small and without consequence", "of no consequence"),
    ("factual_accuracy", "the evidence disproves the claim", "the evidence rules the claim out"),
    ("factual_accuracy", '"Partially Supported" = 0.5', '"Partially Supported" = 0.25'),
    ("rag_faithfulness", "claim_support = 1.0", "claim_support = 2"),
    ("rag_faithfulness", "a detail that changes little", "a trifle"),
    ("rag_faithfulness", "the answer cites nothing. Only then.", "the answer cites nothing."),
    ("summary_groundedness", "Good = 3.5", "Good = 3.6"),
    ("summary_groundedness", "causal_logical_structure = 1.0", "causal_logical_structure = 0.5"),
    ("summary_groundedness", "nothing found.", "nothing at all."),
    ("summary_groundedness", "does the summary keep to the source?", "does it add nothing?"),
]


@pytest.mark.parametrize(("name", "old", "new"), BOUNDS, ids=[f"{name}: {new}" for name, _, new in BOUNDS])
def test_each_bound_makes_another_version_of_the_same_prompt(name: str, old: str, new: str, tmp_path: Path) -> None:
    """The judge is not told of it, and yet it moves what stands on the card."""
    copy = rubric(name, copy=changed(name, tmp_path, (old, new)))
    assert copy.version == copy.edition.of_copy != rubric(name).version
    assert copy.prompt_hash == rubric(name).prompt_hash


@pytest.mark.parametrize(("name", "old", "new"), WORDS, ids=[f"{name}: {new}" for name, _, new in WORDS])
def test_each_anchor_definition_weight_and_rating_makes_another_prompt(
    name: str, old: str, new: str, tmp_path: Path
) -> None:
    """What the judge goes by it is told, and the version with it."""
    copy = rubric(name, copy=changed(name, tmp_path, (old, new)))
    assert copy.version == copy.edition.of_copy != rubric(name).version
    assert copy.prompt_hash != rubric(name).prompt_hash
    assert new.rsplit(" = ", maxsplit=1)[-1] in copy.edition.prompt


@pytest.mark.parametrize("name", NAMES)
def test_the_prompts_words_make_another_version(name: str, tmp_path: Path) -> None:
    """A word more is another question."""
    path = changed(name, tmp_path, prompt=("nothing else:", "not a word more:"))
    copy = rubric(name, copy=path)
    assert "not a word more:" in copy.edition.prompt
    assert {copy.version, copy.prompt_hash}.isdisjoint(VERSIONS[name])


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_a_copy_shows_in_its_comments_hold(name: str, tmp_path: Path) -> None:
    """Uncommented they are shown to the judge, after the prompt's own."""
    copy = rubric(name, copy=changed(name, tmp_path, more=commented(name)))
    before, _, after = copy.edition.prompt.partition("library")
    assert before.startswith(rubric(name).edition.prompt[:400])
    assert after.rstrip().endswith("```")
    assert copy.version != rubric(name).version


def test_an_option_of_the_plan_goes_before_the_copy(tmp_path: Path) -> None:
    """The copy before the built-in; the note is about the copy as it stands."""
    path = changed("source_support", tmp_path, ("candidates = 3", "candidates = 5"))
    assert load("rubric", f"source_support,copy={path},candidates=3").version == VERSIONS["source_support"][0]
    both = rubric("source_support", copy=path, candidates=2)
    assert both.edition.of_copy == rubric("source_support", copy=path).version != both.version


@pytest.mark.parametrize("weight", [1, 2, 0.3])
def test_equal_weights_are_no_weights(weight: float, tmp_path: Path) -> None:
    """The plain mean, the same prompt and the same version."""
    path = copied("rag_faithfulness", tmp_path)
    path.write_text(path.read_text("utf-8").replace("= 1.0", f"= {weight}"), "utf-8")
    assert rubric("rag_faithfulness", copy=path).version == VERSIONS["rag_faithfulness"][0]


# --- what each setting says -----------------------------------------------------------------------------------------


def judged(made: Any, reply: Mapping[str, Any], answer: str, context: str, **fields: Any) -> Scorecard:
    """The card of one record under an edition."""
    given = record("When?", [context], answer, **fields)
    (card,) = evaluate([given], [made], ScriptedJudge(lambda _: json.dumps(reply)))
    return card


def support(score: int, level: str) -> dict[str, Any]:
    """A judge's reply on the ferry."""
    missing = None if score == 5 else "the whole of it"
    told = {"rationale": "It is as it says.", "key_evidence": FERRY, "missing_information": missing, "confidence": 0.9}
    return {"score": score, "support_level": level, **told}


def test_the_lowest_score_that_counts_as_support_can_be_set(tmp_path: Path) -> None:
    """Four is support by the law, and not where five is asked for."""
    reply, answer = support(4, "Strongly Implies"), "The night ferry leaves at 21:40 [1]."
    strict = rubric("source_support", copy=changed("source_support", tmp_path, ("supported = 4", "supported = 5")))
    for made, share in ((rubric("source_support"), 1), (strict, 0)):
        card = judged(made, reply, answer, FERRY)
        assert {score.name: score.value for score in card.scores}["source_support.citation_precision"] == share
        assert card.details["share_supported"] == share


def accuracy(*rows: tuple[str, float | None, str | None], overall: float | None) -> dict[str, Any]:
    """A judge's reply on as many claims as there are rows."""
    claims = ("The night ferry leaves at 21:40", "It is lovely", "It has two decks")
    told = [
        {
            "claim_id": f"C{at}",
            "claim_text": claims[at],
            "verification_result": result,
            "evidence_quote": FERRY if score else None,
            "score": score,
            "severity": severity,
            "judge_rationale": "As it is told.",
        }
        for at, (result, score, severity) in enumerate(rows)
    ]
    count = sum(score is not None for _, score, _ in rows)
    made: dict[str, Any] = {"overall_factual_accuracy_score": overall, "total_verifiable_claims": count}
    return made | {"claim_verifications": told, "overall_summary": "As told."}


LOVELY = "The night ferry leaves at 21:40. It is lovely. It has two decks."
OPINION = '\n[[extra_results]]\nname = "Opinion"\ndefinition = "nobody could check it."\n'


def test_a_result_of_ones_own_without_a_score_is_counted_apart(tmp_path: Path) -> None:
    """Out of the mean and out of the share the evidence speaks of."""
    made = rubric("factual_accuracy", copy=changed("factual_accuracy", tmp_path, more=OPINION))
    rows = [("Supported", 1.0, None), ("Opinion", None, "Major"), ("Unverifiable", None, None)]
    card = judged(made, accuracy(*rows, overall=1.0), LOVELY, FERRY)
    assert [score.value for score in card.scores] == [1.0, 0.5]
    assert card.details["results"] == {"Supported": 1, "Opinion": 1, "Unverifiable": 1}
    assert card.attempts[0].faults == ()
    assert "- `Opinion`: nobody could check it." in made.edition.prompt
    assert "Unverifiable | Opinion>" in made.edition.prompt


def test_opinions_alone_are_nothing_wrong(tmp_path: Path) -> None:
    """Where nothing was to be checked nothing fell short, and nobody is to blame."""
    made = rubric("factual_accuracy", copy=changed("factual_accuracy", tmp_path, more=OPINION))
    opinions = [("Opinion", None, None)] * 3
    assert judged(made, accuracy(*opinions, overall=None), LOVELY, FERRY).root_cause is None
    silent = [*opinions[:2], ("Unverifiable", None, None)]
    assert judged(made, accuracy(*silent, overall=None), LOVELY, FERRY).root_cause is not None


def test_a_result_of_ones_own_is_no_result_of_anybody_elses(tmp_path: Path) -> None:
    """Without the copy it is a fault of the reply."""
    reply = accuracy(("Supported", 1.0, None), ("Opinion", None, None), ("Unverifiable", None, None), overall=1.0)
    assert judged(rubric("factual_accuracy"), reply, LOVELY, FERRY).status == "unscored"
    made = rubric("factual_accuracy", copy=changed("factual_accuracy", tmp_path, more=OPINION))
    assert judged(made, reply, LOVELY, FERRY).status == "scored"


def test_a_result_of_ones_own_with_a_score_counts_and_says_how_grave_it_is(tmp_path: Path) -> None:
    """Below 1 it needs a severity; another score than its own is a fault."""
    more = '\n[[extra_results]]\nname = "Nearly"\ndefinition = "all but a hair."\nscore = 0.9\n'
    made = rubric("factual_accuracy", copy=changed("factual_accuracy", tmp_path, more=more))
    rows = [("Supported", 1.0, None), ("Nearly", 0.9, "Minor"), ("Unverifiable", None, None)]
    card = judged(made, accuracy(*rows, overall=0.95), LOVELY, FERRY)
    assert (card.scores[0].value, card.scores[0].label) == (0.95, "minor")
    assert card.attempts[0].faults == ()
    for wrong in (("Nearly", 0.9, None), ("Nearly", 0.5, "Minor"), ("Nearly", 0.8, "Minor")):
        told = judged(made, accuracy(rows[0], wrong, rows[2], overall=0.95), LOVELY, FERRY)
        assert any("claim_verifications[1]" in fault for fault in told.attempts[0].faults)


SCORES = (
    ("Supported = 1.0", "Supported = 0.9"),
    ('"Partially Supported" = 0.5', '"Partially Supported" = 0.3'),
    ("Contradicted = 0.0", "Contradicted = 0.1"),
)


def test_what_each_result_scores_can_be_set(tmp_path: Path) -> None:
    """Schema, prompt, its example and the mean go by it; what a result scored before is a fault, and ours stands."""
    made = rubric("factual_accuracy", copy=changed("factual_accuracy", tmp_path, *SCORES))
    rows = [("Supported", 0.9, "Major"), ("Partially Supported", 0.3, "Minor"), ("Unverifiable", None, None)]
    card = judged(made, accuracy(*rows, overall=0.6), LOVELY, FERRY)
    assert (card.scores[0].value, card.scores[0].label) == (0.6, "minor")
    assert (card.attempts[0].faults, card.review) == ((), ())
    assert '"score": <0.9, 0.3, 0.1 or null>' in made.edition.prompt
    assert "| Contradicted | 0.1 |" in made.edition.prompt
    assert "For every claim scored 0.1 or 0.3, and for no other:" in made.edition.prompt
    shown = json.loads(made.edition.prompt.split("## Example")[1].split("```")[1])
    assert [row["score"] for row in shown["claim_verifications"]] == [0.9, 0.1, 0.9, None]
    assert shown["overall_factual_accuracy_score"] == 0.63
    enum = made.schema(frozenset()).model_json_schema()["$defs"]["ClaimVerification"]["properties"]["score"]["enum"]
    assert enum == [0.9, 0.3, 0.1, None]
    told = judged(made, accuracy(("Supported", 1.0, None), *rows[1:], overall=0.6), LOVELY, FERRY)
    assert told.attempts[0].faults == ("Supported is 0.9; got 1 @ $.claim_verifications[0].score",)
    assert (told.status, told.scores[0].value) == ("pending_review", 0.6)


def test_the_offline_judge_keeps_to_what_each_result_scores(tmp_path: Path) -> None:
    """Its figures pass the gate at the first asking."""
    made = rubric("factual_accuracy", copy=changed("factual_accuracy", tmp_path, *SCORES))
    (card,) = evaluate([record("When?", [FERRY], FERRY)], [made], load("judge", "offline"))
    assert (card.scores[0].value, card.attempts[0].faults) == (0.9, ())


def test_a_prompt_from_before_scores_could_be_set_holds_while_they_are_not(tmp_path: Path) -> None:
    """Set, they have to stand in it."""
    path = changed("factual_accuracy", tmp_path)
    words, text = path.with_suffix(".md"), path.with_suffix(".md").read_text("utf-8")
    for new, old in (
        ("{{scores.Supported}}", "1"),
        ("{{scores.Partially Supported}}", "0.5"),
        ("{{scores.Contradicted}}", "0"),
        ("{{wrong}}", "0{{extra_wrong}} or 0.5"),
        ("{{values}}", "1, 0.5, 0{{extra_values}}"),
        ("{{example_mean}}", "0.67"),
    ):
        text = text.replace(new, old)
    words.write_text(text, "utf-8")
    assert rubric("factual_accuracy", copy=path).version == VERSIONS["factual_accuracy"][0]
    path.write_text(path.read_text("utf-8").replace("Contradicted = 0.0", "Contradicted = 0.1"), "utf-8")
    with pytest.raises(PlanError, match=r"'{{scores\.Contradicted}}' is missing"):
        rubric("factual_accuracy", copy=path)


def test_every_digit_of_a_bound_is_told(tmp_path: Path) -> None:
    """A judge that is told 4.5 where 4.4999999 is meant is told another bound."""
    edits = (
        ("Excellent = 4.5", "Excellent = 4.4999999"),
        ("causal_logical_structure = 1.0", "causal_logical_structure = 1.2345678"),
    )
    prompt = rubric("summary_groundedness", copy=changed("summary_groundedness", tmp_path, *edits)).edition.prompt
    assert "4.4999999 and above Excellent" in prompt
    assert "`causal_logical_structure` counts 1.2345678" in prompt


WRONG_FIGURES = {
    "a level that is not the score's": (
        "source_support",
        ('"support_level": "Directly Supports"', '"support_level": "Weakly Related"'),
        "'support_level' is wrong: score 5 is 'Directly Supports'; got 'Weakly Related'",
    ),
    "a share that is not the claims'": (
        "factual_accuracy",
        ('"overall_factual_accuracy_score": 1,', '"overall_factual_accuracy_score": 0.5,'),
        "'overall_factual_accuracy_score' is wrong: the mean of the verifiable claims is 1.0; got 0.5",
    ),
    "a score that is not the result's": (
        "factual_accuracy",
        ('"score": 1,', '"score": 0.5,'),
        "'claim_verifications[0].score' is wrong: Supported is 1; got 0.5",
    ),
    "a mean that is not the dimensions'": (
        "rag_faithfulness",
        ('"overall_faithfulness_score": 5.0', '"overall_faithfulness_score": 4.0'),
        "'overall_faithfulness_score' is wrong: the mean of the scored dimensions is 5.0; got 4.0",
    ),
    "a mean that is nearly right": (
        "summary_groundedness",
        ('"overall_faithfulness_score": 4.8', '"overall_faithfulness_score": 4.6'),
        "'overall_faithfulness_score' is wrong: the mean of the dimensions is 4.8; got 4.6",
    ),
    "a rating that is not the mean's": (
        "summary_groundedness",
        ('"overall_rating": "Excellent"', '"overall_rating": "Good"'),
        "'overall_rating' is wrong: a mean of 4.8 is 'Excellent'; got 'Good'",
    ),
}


@pytest.mark.parametrize(("name", "edit", "says"), WRONG_FIGURES.values(), ids=WRONG_FIGURES)
def test_an_example_with_a_wrong_figure_is_refused(name: str, edit: tuple[str, str], says: str, tmp_path: Path) -> None:
    """It would teach the judge the fault it is then refused for."""
    more = commented(name)
    assert more.count(edit[0]) == 1
    with pytest.raises(PlanError) as told:
        rubric(name, copy=changed(name, tmp_path, more=more.replace(*edit)))
    assert says in str(told.value)


def test_how_many_minor_errors_are_moderate_can_be_set(tmp_path: Path) -> None:
    """Three by the law."""
    rows = [("Supported", 1.0, None), ("Contradicted", 0.0, "Minor"), ("Unverifiable", None, None)]
    reply = accuracy(*rows, overall=0.5)
    reply["claim_verifications"][1]["evidence_quote"] = FERRY
    path = changed("factual_accuracy", tmp_path, ("moderate_from = 3", "moderate_from = 1"))
    for made, label in ((rubric("factual_accuracy"), "minor"), (rubric("factual_accuracy", copy=path), "moderate")):
        assert judged(made, reply, LOVELY, FERRY).scores[0].label == label


def faithfulness(*scores: int | None, overall: float) -> dict[str, Any]:
    """A judge's reply on four dimensions."""
    names = ("claim_support", "citation_accuracy", "abstention_appropriateness", "source_conflict_handling")
    told = {
        name: {"score": score, "justification": "As told.", "evidence_spans": [FERRY] if score else []}
        for name, score in zip(names, scores, strict=True)
    }
    empty: dict[str, Any] = {"unsupported_claims": [], "hallucination_flags": []}
    return {"overall_faithfulness_score": overall, "dimension_scores": told, **empty}


def test_weights_make_the_mean_and_hold_the_judges_figure_against_it(tmp_path: Path) -> None:
    """(3 * 5 + 2) / 4 is 4.25; the plain mean of 3.5 is then a fault. A null takes its weight with it."""
    path = changed("rag_faithfulness", tmp_path, ("claim_support = 1.0", "claim_support = 3"))
    made, answer = rubric("rag_faithfulness", copy=path), "The night ferry leaves at 21:40 [1]."
    card = judged(made, faithfulness(5, 2, None, None, overall=4.3), answer, FERRY)
    assert (card.scores[0].value, card.details["faithfulness_score"]) == (4.3, 81.3)
    assert card.attempts[0].faults == ()
    plain = judged(made, faithfulness(5, 2, None, None, overall=3.5), answer, FERRY)
    assert "the weighted mean of the scored dimensions is 4.3; got 3.5" in plain.attempts[0].faults[0]
    assert (plain.status, plain.scores[0].value) == ("pending_review", 4.3)
    assert "`claim_support` counts 3, `citation_accuracy` counts 1" in made.edition.prompt


@pytest.mark.parametrize(
    ("name", "first"), [("rag_faithfulness", "claim_support"), ("summary_groundedness", "factual")]
)
def test_the_offline_judge_goes_by_the_weights(name: str, first: str, tmp_path: Path) -> None:
    """It reads no prompt, so they stand in the question as well; a plain question has none."""
    path = copied(name, tmp_path)
    path.write_text(re.sub(rf"({first}\w*) = 1\.0", r"\1 = 7", path.read_text("utf-8")), "utf-8")
    answer, context = "The night ferry leaves at 22:40 [1]. Dogs are free [1].", FERRY
    given = record("When?", [context], answer, kind="summary" if first == "factual" else "answer")
    cards = [
        next(evaluate([given], [made], load("judge", "offline"))) for made in (rubric(name), rubric(name, copy=path))
    ]
    assert [card.attempts[0].faults for card in cards] == [(), ()]
    assert cards[0].scores[0].value != cards[1].scores[0].value


SUMMARY = ("factual_consistency", "key_information_omission", "unsupported_content_insertion",
           "entity_relationship_preservation", "causal_logical_structure")  # fmt: skip


def summary(*scores: int, overall: float, rating: str) -> dict[str, Any]:
    """A judge's reply on five dimensions."""
    lists = dict(
        zip(SUMMARY, ("violations", "omitted_items", "inserted_items", "violations", "violations"), strict=True)
    )
    dimensions = {
        name: {"score": score, "explanation": "As told.", lists[name]: [] if score == 5 else [f"'{FERRY}'"]}
        for name, score in zip(SUMMARY, scores, strict=True)
    }
    told = {"overall_faithfulness_score": overall, "overall_rating": rating}
    return {**told, "dimensions": dimensions, "critical_failures": []}


def test_weights_and_ratings_of_a_summary(tmp_path: Path) -> None:
    """(3 * 2 + 4 * 5) / 7 is 3.71, Good by the law and Fair where Good begins at 4."""
    edits = (("factual_consistency = 1.0", "factual_consistency = 3"), ("Good = 3.5", "Good = 4"))
    made = rubric("summary_groundedness", copy=changed("summary_groundedness", tmp_path, *edits))
    card = judged(made, summary(2, 5, 5, 5, 5, overall=3.71, rating="Fair"), FERRY, FERRY, kind="summary")
    assert (card.scores[0].value, card.scores[0].label) == (3.71, "Fair")
    assert card.attempts[0].faults == ()
    wrong = judged(made, summary(2, 5, 5, 5, 5, overall=4.4, rating="Good"), FERRY, FERRY, kind="summary")
    assert "the weighted mean of the dimensions is 3.71; got 4.4" in wrong.attempts[0].faults[0]
    assert "a weighted mean of 3.71 is 'Fair'; got 'Good'" in wrong.attempts[0].faults[1]


@pytest.mark.parametrize("name", ["rag_faithfulness", "summary_groundedness"])
def test_the_prompts_own_example_keeps_to_the_weights(name: str, tmp_path: Path) -> None:
    """An example with another mean than the one asked for would teach the fault."""
    first = "claim_support" if name == "rag_faithfulness" else SUMMARY[0]
    path = changed(name, tmp_path, (f"{first} = 1.0", f"{first} = 9"))
    made = rubric(name, copy=path)
    shown = json.loads(made.edition.prompt.split("## Example")[1].split("```")[1])
    rows = shown.get("dimension_scores") or shown["dimensions"]
    weights = {dimension: Fraction(9 if dimension == first else 1) for dimension in rows}
    mean = law.weighted({dimension: row["score"] for dimension, row in rows.items()}, weights)
    assert shown["overall_faithfulness_score"] == law.halves_up(mean, 1)


# --- bad copies -----------------------------------------------------------------------------------------------------

BAD = [
    (
        "source_support",
        "candidates = 3",
        "candidate = 3",
        "'candidate' is no key of this rubric; did you mean 'candidates'?",
    ),
    ("factual_accuracy", "Contradicted = 0.0", "Contradicted = 0.7", "scores: {'Supported': 1.0,"),
    ("factual_accuracy", "Supported = 1.0", "Supported = 1.5", "should be less than or equal to 1"),
    ("source_support", '2 = "Same', '# 2 = "Same', "levels: '2' is missing; write it back; the built-in has"),
    ("source_support", '2 = "Same', '0 = "Same', "levels: '0' is no key of [levels]"),
    (
        "source_support",
        "review_confidence = 0.7",
        "review_confidence = 7",
        "review_confidence: 7 should be less than or equal to 1",
    ),
    ("source_support", "review_confidence = 0.7", "review_confidence = nan", "review_confidence: nan should be"),
    ("source_support", "supported = 4", "supported = true", "supported: True should be a whole number"),
    ("source_support", 'pairs = "auto"', 'pairs = "every"', "pairs: 'every' should be 'auto', 'cited' or 'all'"),
    ("source_support", "Same topic,", "Same\\ntopic,", "must stand on one line"),
    ("source_support", "[levels]", "levels = 3\n[others]", "levels: 3 must be a table: [levels]"),
    (
        "source_support",
        'rubric = "source_support"',
        'rubric = "rag_faithfulness"',
        "'rag_faithfulness' is not the rubric this is a copy for",
    ),
    (
        "rag_faithfulness",
        "claim_support = 1.0",
        "claim_support = 0",
        "weights.claim_support: 0 should be greater than 0",
    ),
    (
        "rag_faithfulness",
        "claim_support = 1.0",
        "claim_support = -1",
        "weights.claim_support: -1 should be greater than 0",
    ),
    ("rag_faithfulness", "claim_support = 1.0", 'claim_support = "2"', "weights.claim_support: '2' should be a number"),
    (
        "rag_faithfulness",
        'null = "the answer cites nothing. Only then."',
        "",
        "anchors.citation_accuracy: 'null' is missing",
    ),
    ("factual_accuracy", "[results]", "[results", "is not TOML"),
    ("factual_accuracy", 'domain_constraints = ""', "domain_constraints = 3", "domain_constraints: 3 should be text"),
    ("summary_groundedness", "Good = 3.5", "Good = 4.6", "must fall from Excellent over Good"),
]


@pytest.mark.parametrize(("name", "old", "new", "says"), BAD, ids=[f"{name}: {new[:30]}" for name, _, new, _ in BAD])
def test_a_bad_copy_is_told_with_file_key_and_value(name: str, old: str, new: str, says: str, tmp_path: Path) -> None:
    """And with what to write."""
    path = changed(name, tmp_path, (old, new))
    with pytest.raises(PlanError) as told:
        rubric(name, copy=path)
    assert says in str(told.value)
    assert str(path) in str(told.value)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """Nobody mends a copy one run at a time."""
    edits = (("candidates = 3", "candidates = 0"), ("supported = 4", "supported = 9"))
    with pytest.raises(PlanError) as told:
        rubric("source_support", copy=changed("source_support", tmp_path, *edits))
    assert len(str(told.value).splitlines()) == 2


BROKEN_EXTRA: list[tuple[str, str]] = [
    (OPINION + OPINION, "'Opinion' is the name of two results"),
    (OPINION.replace("Opinion", "supported"), "'supported' is the name of two results"),
    (OPINION + "score = 2\n", "extra_results.0.score: 2 should be less than or equal to 1"),
    ("\n[[extra_results]]\nname = 'X'\n", "'extra_results.0.definition' is missing"),
    ("\n[[examples]]\ntext = 'T'\nevidence = []\nreply = 'so'\n", "examples.0.reply: 'so' is not JSON"),
    ("\n[[examples]]\ntext = 'T'\nevidence = []\nreply = '{}'\n", "is missing"),
    ("\n[[examples]]\ntext = 'T'\nevidence = []\nreply = '{}'\nclaim = 'c'\n", "'examples.0.claim' is no key here"),
]


@pytest.mark.parametrize(("more", "says"), BROKEN_EXTRA)
def test_a_bad_result_or_example_is_told(more: str, says: str, tmp_path: Path) -> None:
    """An example whose reply breaks the contract would teach the fault."""
    with pytest.raises(PlanError) as told:
        rubric("factual_accuracy", copy=changed("factual_accuracy", tmp_path, more=more))
    assert says in str(told.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("{{levels.3}}", "so so"), "'{{levels.3}}' is missing; put it where"),
        (lambda text: text + "{{level.3}}\n", "'{{level.3}}' is no place of this prompt; did you mean '{{levels.3}}'?"),
    ],
)
def test_a_prompt_without_its_places_is_refused(change: Callable[[str], str], says: str, tmp_path: Path) -> None:
    """Else a level that is set would be read by nobody."""
    path = copied("source_support", tmp_path)
    words = path.with_suffix(".md")
    words.write_text(change(words.read_text("utf-8")), "utf-8")
    with pytest.raises(PlanError) as told:
        rubric("source_support", copy=path)
    assert says in str(told.value)
    assert str(words) in str(told.value)


def test_weights_need_their_place_only_where_they_differ(tmp_path: Path) -> None:
    """A place with nothing to say may go; the words of a user are never read as places."""
    gone = ("{{weighting}}\n", "")
    calm = changed(
        "rag_faithfulness",
        tmp_path / "calm",
        ("a detail that changes little", "{{sic}}"),
        prompt=gone,
    )
    assert "{{sic}}" in rubric("rag_faithfulness", copy=calm).edition.prompt
    heavy = changed("rag_faithfulness", tmp_path / "heavy", ("claim_support = 1.0", "claim_support = 2"), prompt=gone)
    with pytest.raises(PlanError, match="weighting"):
        rubric("rag_faithfulness", copy=heavy)


@pytest.mark.parametrize("data", [b"\xff\xfe", b"rubric = \x00", b"a = " + b"[" * 5000, b" " * 1_000_001, None])
@pytest.mark.parametrize("suffix", [".toml", ".md"])
def test_a_file_that_is_no_text_is_told(data: bytes | None, suffix: str, tmp_path: Path) -> None:
    """Not UTF-8, not TOML, too large, not there."""
    path = copied("source_support", tmp_path)
    file = path.with_suffix(suffix)
    file.unlink()
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(PlanError) as told:
        rubric("source_support", copy=path)
    assert "\n" not in str(told.value) or suffix == ".md"
    assert str(file) in str(told.value)


def test_an_option_out_of_range_is_told() -> None:
    """The plan's own words are held to the same bounds."""
    with pytest.raises(PlanError, match="rubric source_support, review_confidence: 7"):
        load("rubric", "source_support,review_confidence=7")


# --- adopting -------------------------------------------------------------------------------------------------------


def test_a_copy_that_was_not_tested_is_noted_until_it_is_adopted(tmp_path: Path) -> None:
    """And again once it changes."""
    path = changed("source_support", tmp_path, ("supported = 4", "supported = 3"))
    made = rubric("source_support", copy=path)
    (note,) = made.notes()
    assert f"source_support: the copy {path} was not tested yet; groundtrace rubric test {path}" in note
    before = path.read_bytes()
    copies.adopt(path, made.version)
    assert path.read_bytes().replace(f'adopted = "{made.version}"\n'.encode(), b"") == before
    assert rubric("source_support", copy=path).notes() == ()
    assert rubric("source_support", copy=path, candidates=2).notes() == ()
    assert rubric("source_support", copy=path).version == made.version
    path.write_text(path.read_text("utf-8").replace("supported = 3", "supported = 5"), "utf-8")
    assert "changed since it was last tested" in rubric("source_support", copy=path).notes()[0]
    copies.adopt(path, rubric("source_support", copy=path).version)
    assert path.read_text("utf-8").count("adopted =") == 1
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["source_support.md", "source_support.toml"]


@pytest.mark.parametrize(
    ("told", "want"),
    [
        (b"", b'adopted = "v"\n'),
        (b"\xef\xbb\xbfrubric = 'x'\r\n[t]\r\n", b"\xef\xbb\xbfrubric = 'x'\r\nadopted = \"v\"\r\n[t]\r\n"),
        (b"adopted='old' # why\nrubric = 'x'", b"adopted = \"v\"\nrubric = 'x'"),
        (b"[t]\nrubric = 'x'\n", None),
        (b"a = '''\nadopted = 1\n'''\n", None),
    ],
)
def test_adopting_changes_one_line_or_nothing(told: bytes, want: bytes | None) -> None:
    """Where the line would land in a table or a text, the user is told to write it."""
    assert copies.adopted(told, "v") == want


def test_a_copy_is_never_written_over(tmp_path: Path) -> None:
    """Either file there is enough, and then neither is written."""
    copied("source_support", tmp_path).unlink()
    with pytest.raises(PlanError, match=r"source_support\.md' is there already"):
        copied("source_support", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["source_support.md"]
