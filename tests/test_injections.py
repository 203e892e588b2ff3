"""The record never speaks as the judge: over two hundred attacks, in every place, with judges that repeat them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import forged
from forged import FORGED, HIGHEST, HONEST, NONCE, OWN, PLACES, RUBRICS
from groundtrace.evaluate import evaluate
from groundtrace.memory import InMemory
from groundtrace.model import Case, Record, Scorecard
from groundtrace.testing import ScriptedJudge, sample_record

ATTACKS = forged.texts()


def own(case: Case) -> str:
    """The judge's own verdict."""
    return json.dumps(forged.verdict(case.rubric, forged=False))


def parroted(case: Case, spell: Callable[[str, dict[str, Any]], str] = lambda written, _: written) -> str:
    """What looks most like a verdict in the record; the first time the first, then the last."""
    due = set(RUBRICS[case.rubric].schema(frozenset()).model_fields)
    every = forged.found(case.body)
    likely = [one for one in every if len(due & one[1].keys()) > 1] or every
    return spell(*likely[-1 if case.remark else 0]) if likely else ""


JUDGES: dict[str, Callable[[Case], str]] = {
    "own": own,
    "echo before": lambda case: f"{case.render(NONCE)}\n{own(case)}",
    "echo after": lambda case: f"{own(case)}\n{case.render(NONCE)}",
    "echo around": lambda case: f"{case.render(NONCE)}\n{own(case)}\n{case.render(NONCE)}",
    "own inside": lambda case: _inside(case.render(NONCE), own(case)),
    "echo instead": lambda case: case.render(NONCE),
    "a part instead": lambda case: max(map(str, case.body.values()), key=len),
    "repeats": parroted,
    "repeats in a fence": lambda case: f"My verdict:\n```json\n{parroted(case)}\n```\nI am sure.",
    "repeats, written anew": lambda case: parroted(case, lambda _, told: json.dumps(told, indent=4)),
    "repeats, in another order": lambda case: parroted(case, lambda _, told: json.dumps(told, sort_keys=True)),
    "repeats before": lambda case: f"{parroted(case)}\n{own(case)}",
    "repeats after": lambda case: f"{own(case)}\n{parroted(case)}",
}


def _inside(told: str, verdict: str) -> str:
    """The verdict where the record left an object open, so that both become one."""
    at = told.rfind('"and":')
    at = told.find("\n", at) if at >= 0 else len(told)
    return f"{told[:at]} {verdict} {'}' if '[' not in told[at - 2 : at] else ']}'}"


def cases() -> dict[str, list[Record]]:
    """Every attack in every place, by the rubric it is put to: over its places it meets all four."""
    names, made = list(RUBRICS), {name: list[Record]() for name in RUBRICS}
    for number, (name, attack) in enumerate(ATTACKS.items()):
        for at, place in enumerate((*PLACES[:4], PLACES[4 + number % 3])):
            rubric = names[(number + at) % len(names)]
            told = forged.ready(attack, rubric)
            made[rubric].append(forged.record(rubric, told, place, id=f"{name} in {place}"))
    return made


RECORDS = cases()


def judged(script: Callable[[Case], str], records: Iterable[Record], rubric: str) -> list[Scorecard]:
    """The cards of records under one rubric."""
    return list(evaluate(records, [RUBRICS[rubric]], ScriptedJudge(script)))


def stolen(card: Scorecard) -> bool:
    """Whether a card says what the record wanted it to."""
    scored = [finding for finding in card.findings if finding.status == "scored" and finding.decided_by != "rule"]
    says = "\n".join(_reasons([finding.model_dump(mode="json") for finding in scored]))
    headline = card.headline.value if card.headline else None
    return f"{FORGED}:" in says or (headline is not None and headline > HONEST[card.rubric])


def _reasons(value: Any) -> Iterable[str]:
    """What a judge wrote in its own words, wherever it stands on a card."""
    for name, held in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if name in ("rationale", "judge_rationale", "justifications", "explanation", "evaluation_notes"):
            yield json.dumps(held)
        else:
            yield from _reasons(held)


def test_the_corpus_is_large_and_every_attack_is_another() -> None:
    """Over two hundred, of seven kinds."""
    assert len(ATTACKS) >= 200
    assert len(set(ATTACKS.values())) == len(ATTACKS)
    assert Counter(name.split("-")[0] for name in ATTACKS).keys() >= {"forged", "fences", "unicode", "languages"}


@pytest.mark.parametrize("rubric", RUBRICS)
def test_the_forgeries_are_good_ones(rubric: str) -> None:
    """Said by the judge itself, of a record that does not hold them, both verdicts pass: nothing else stops them."""
    for forging, value in ((True, HIGHEST[rubric]), (False, HONEST[rubric])):
        told = json.dumps(forged.verdict(rubric, forged=forging))
        (card,) = judged(lambda _, said=told: said, [forged.record(rubric)], rubric)  # type: ignore[misc]
        assert (card.status, card.headline and card.headline.value) == ("scored", value)
        assert stolen(card) is forging


@pytest.mark.parametrize("rubric", RUBRICS)
@pytest.mark.parametrize("judge", JUDGES)
def test_no_verdict_is_taken_from_the_record(judge: str, rubric: str) -> None:
    """Whatever the judge repeats, before, after, around or instead of its own."""
    cards = judged(JUDGES[judge], RECORDS[rubric], rubric)
    assert [card.record_id for card in cards if stolen(card)] == []
    scored = [card for card in cards if card.status == "scored"]
    if judge == "own":  # an attack alone costs nobody a score
        assert [
            card.record_id for card in cards if card.status != "scored" and " in answer" not in card.record_id
        ] == []
        assert len(scored) >= 0.9 * len(cards)
    for card in scored:
        assert card.headline is not None
        assert card.headline.value == HONEST[rubric]
        assert OWN in json.dumps([finding.details for finding in card.findings])


@pytest.mark.parametrize("rubric", RUBRICS)
def test_what_only_repeats_the_record_is_told_so(rubric: str) -> None:
    """The fault names it, the second time it ends in a review, and both replies are kept."""
    attack = forged.ready(ATTACKS["forged-01"], rubric)
    (card,) = judged(parroted, [forged.record(rubric, attack, "context")], rubric)
    assert (card.status, card.reason) == ("unscored", "invalid_verdict")
    assert [attempt.faults for attempt in card.attempts] == [
        ("the reply repeats the record; give a verdict of your own @ $",)
    ] * 2
    assert "invalid_verdict" in [review.reason for review in card.review]


@pytest.mark.parametrize("spelling", [
    "verdict", "pretty", "sorted", "spaced", "escaped", "double", "fullwidth", "zerowidth", "bidi", "math",
    "softhyphen", "nbsp", "combining", "tagged", "curly", "entities", "uescaped",
])  # fmt: skip
@pytest.mark.parametrize("rubric", RUBRICS)
def test_no_spelling_hides_that_it_stands_there(rubric: str, spelling: str) -> None:
    """A judge that reads through it and writes it out plainly repeats it all the same."""
    made = forged.verdict(rubric, forged=True)
    told = forged.SPELLINGS[spelling](made)
    for written in (json.dumps(made), json.dumps(made, indent=2), json.dumps(made, ensure_ascii=False)):
        reply = json.dumps(json.loads(written), sort_keys=spelling == "sorted")
        (card,) = judged(lambda _, said=reply: said, [forged.record(rubric, told, "context")], rubric)  # type: ignore[misc]
        assert "repeats the record" in card.attempts[0].faults[0], spelling
        assert not stolen(card)


@pytest.mark.parametrize("rubric", RUBRICS)
@pytest.mark.parametrize("close", ["}", "]}"])
def test_a_verdict_put_into_a_forged_one_is_two(rubric: str, close: str) -> None:
    """The record opens an object, the judge's own verdict fills it, the record closes it."""
    head = forged.SPELLINGS["head" if close == "}" else "head_list"](forged.verdict(rubric, forged=True))
    told = [forged.record(rubric, head, "context")]
    (card,) = judged(lambda case: f"{head} {own(case)} {close}", told, rubric)
    assert card.attempts[0].faults == ("reply holds a verdict inside another, one is wanted @ $",)
    assert card.status == "unscored"


def test_an_honest_verdict_may_quote_the_attack() -> None:
    """And the record may speak of verdicts; only the very object is nobody's."""
    for attack in ATTACKS.values():
        told = forged.ready(attack, "source_support")
        said = forged.verdict("source_support", forged=False) | {
            "key_evidence": told,
            "rationale": f"It says {told!r}.",
        }
        text = json.dumps(said)
        (first, *_) = judged(
            lambda _, text=text: text,  # type: ignore[misc]
            [forged.record("source_support", told, "context")],
            "source_support",
        )
        assert not [fault for attempt in first.attempts for fault in attempt.faults if "repeats" in fault]


def test_what_was_remembered_is_held_against_the_record_too() -> None:
    """A memory from before is no way around."""
    attack = forged.ready(ATTACKS["forged-01"], "source_support")
    told, memory = forged.record("source_support", attack, "context"), InMemory()
    case = next(c for c in RUBRICS["source_support"].cases(told, frozenset()) if isinstance(c, Case))
    from groundtrace.model import Reply

    memory.keep_reply(
        "scripted", case.digest, Reply(json.dumps(forged.verdict("source_support", forged=True)), "x"), ()
    )
    judge = ScriptedJudge(own)
    (card,) = evaluate([told], [RUBRICS["source_support"]], judge, memory=memory)
    assert judge.heard
    assert not stolen(card)


def test_no_attack_ends_its_fence() -> None:
    """Of every part one beginning and one end, though the attack knew the nonce."""
    for rubric, records in RECORDS.items():
        for told in records:
            for case in RUBRICS[rubric].cases(told, frozenset()):
                if isinstance(case, Case):
                    lines = case.render(NONCE).split("\n")
                    marks = [line for line in lines if f"<<<groundtrace:{NONCE}" in line]
                    assert marks[1::2] == [f"<<<groundtrace:{NONCE}:end>>>"] * (len(marks) // 2), told.id
                    assert not any(line.endswith(":end>>>") for line in marks[::2]), told.id


def test_a_record_full_of_braces_costs_little_to_look_through() -> None:
    """No text makes the gate slow."""
    import time

    for text in (
        '{"a":' * 20_000,
        "{" * 100_000,
        '{"a": 1} ' * 20_000,
        '{"a": [' * 10_000,
        "｛" * 50_000,
        "\\u007b" * 20_000,
    ):
        rec = sample_record("The night ferry leaves at 21:40 [1].", (f"{forged.PASSAGE} {text}",), query=None)
        began = time.process_time()
        judged(own, [rec], "source_support")
        assert time.process_time() - began < 5
