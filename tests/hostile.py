"""Malformed and hostile replies, made from sound ones: `audited` reads what the gate makes of them a second time."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from forged import RUBRICS
from groundtrace.citations import cite
from groundtrace.model import Passage, Record
from groundtrace.testing import sample_record

PASSAGES = (
    "The night ferry leaves at 21:40 every day except Sunday.",
    "Bicycles travel free of charge on all crossings.",
    "The port of Aldmere was rebuilt in 1987 after the great fire.",
)
CLAIMS = (
    "The night ferry leaves at 21:40",
    "Bicycles travel free of charge",
    "The port of Aldmere was rebuilt in 1987",
)
QUOTES = ("night ferry leaves at 21:40", "Bicycles travel free of charge", "was rebuilt in 1987")
LEVELS = {
    5: "Directly Supports", 4: "Strongly Implies", 3: "Partially Supports", 2: "Weakly Related",
    1: "No Support / Contradicts",
}  # fmt: skip
WORTH = {
    "Supported": Fraction(1),
    "Partially Supported": Fraction(1, 2),
    "Contradicted": Fraction(0),
    "Unverifiable": None,
}
FOUR = ("claim_support", "citation_accuracy", "abstention_appropriateness", "source_conflict_handling")
FIVE = {
    "factual_consistency": "violations", "key_information_omission": "omitted_items",
    "unsupported_content_insertion": "inserted_items", "entity_relationship_preservation": "violations",
    "causal_logical_structure": "violations",
}  # fmt: skip


def record(rubric: str) -> Record:
    """The record all replies are about: of a single claim where every claim is a case."""
    context = [Passage(id=f"p{n}", text=text, rank=n) for n, text in enumerate(PASSAGES, 1)]
    told = CLAIMS[:1] if rubric == "source_support" else CLAIMS
    answer = " ".join(f"{claim} [{n}]." for n, claim in enumerate(told, 1))
    kind = "summary" if rubric == "summary_groundedness" else "answer"
    return sample_record(answer, PASSAGES, context=tuple(context), citations=cite(answer, context), kind=kind)


RECORDS = {name: record(name) for name in RUBRICS}


# --- sound replies ----------------------------------------------------------------------------------------------------


def sound(rubric: str, picked: random.Random) -> dict[str, Any]:
    """A reply the gate takes."""
    made: dict[str, Callable[[random.Random], dict[str, Any]]] = {
        "source_support": _pair, "factual_accuracy": _claims, "rag_faithfulness": _answer,
        "summary_groundedness": _summary,
    }  # fmt: skip
    return made[rubric](picked)


def _pair(picked: random.Random) -> dict[str, Any]:
    score = picked.randint(1, 5)
    return {
        "score": score,
        "support_level": LEVELS[score],
        "rationale": "The words of both were compared.",
        "key_evidence": QUOTES[0] if score > 2 or picked.random() < 0.5 else None,
        "missing_information": None if score == 5 else "the rest of it",
        "confidence": picked.choice([0, 1, 0.5, 0.75, 0.9]),
    }


def _claims(picked: random.Random) -> dict[str, Any]:
    rows = []
    for at, claim in enumerate(CLAIMS):
        result = picked.choice(list(WORTH))
        worth = WORTH[result]
        wrong = result in ("Partially Supported", "Contradicted")
        row = {"claim_id": f"C{at + 1}", "claim_text": claim, "verification_result": result}
        row |= {"evidence_quote": None if result == "Unverifiable" else QUOTES[at]}
        row |= {"score": None if worth is None else float(worth)}
        row |= {"severity": picked.choice(["Critical", "Major", "Minor"]) if wrong else None}
        rows.append(row | {"judge_rationale": "As the passage has it."})
    known = [WORTH[row["verification_result"]] for row in rows]
    scored = [worth for worth in known if worth is not None]
    mean = round(float(sum(scored, Fraction(0)) / len(scored)), 2) if scored else None
    head: dict[str, Any] = {"overall_factual_accuracy_score": mean, "total_verifiable_claims": len(scored)}
    return head | {"claim_verifications": rows, "overall_summary": "Each claim was held against the evidence."}


def _answer(picked: random.Random) -> dict[str, Any]:
    scores: dict[str, int | None] = {name: picked.randint(1, 4) for name in FOUR[:2]}
    scores |= {name: picked.choice([None, 2, 3, 5]) for name in FOUR[2:]}
    lost = {"claim": CLAIMS[1], "closest_retrieved_passage": picked.choice(["p2", None]), "severity": "minor"}
    flag = {"type": "overgeneralization", "description": "Too wide.", "trace_reference": "p1"}
    return {
        "overall_faithfulness_score": round(float(mean(scores)), 4),
        "dimension_scores": {
            name: {"score": score, "justification": "As read.", "evidence_spans": [] if score is None else [QUOTES[0]]}
            for name, score in scores.items()
        },
        "unsupported_claims": [lost] * picked.randint(0, 1),
        "hallucination_flags": [flag] * picked.randint(0, 1),
    }


def _summary(picked: random.Random) -> dict[str, Any]:
    scores = {name: picked.randint(1, 5) for name in FIVE}
    exact = mean(scores)
    return {
        "overall_faithfulness_score": float(exact),
        "overall_rating": rating(exact),
        "dimensions": {
            name: {"score": scores[name], "explanation": "Compared.", items: [f"'{QUOTES[0]}'"] * (scores[name] < 5)}
            for name, items in FIVE.items()
        },
        "critical_failures": picked.choice([[], ["It leaves the fire out."]]),
        "evaluation_notes": picked.choice([None, "Short."]),
    }


def mean(scores: Mapping[str, int | None]) -> Fraction:
    """The exact mean of what has a score."""
    known = [Fraction(score) for score in scores.values() if score is not None]
    return sum(known, Fraction(0)) / len(known)


def rating(mean: Fraction) -> str:
    """What a summary of that mean is called."""
    bounds = (("Excellent", 9), ("Good", 7), ("Fair", 5), ("Poor", 3))
    return next((name for name, halves in bounds if mean >= Fraction(halves, 2)), "Unacceptable")


# --- what goes wrong with them ----------------------------------------------------------------------------------------

_RAW = "@@raw:"
ODD: tuple[Any, ...] = (
    None, True, False, "", " ", "x", "5", "4.0", "null", "None", "N/A", "NaN", [], {}, [[]], [None],
    {"score": 5}, -1, 0, 1, 2, 3, 4, 5, 6, 10, 999, -5, 0.1, 2.5, 3.999999, 4.0, 5.000001, 1e-9, 10**40,
    f"{_RAW}NaN", f"{_RAW}Infinity", f"{_RAW}-Infinity", f"{_RAW}1e999", f"{_RAW}-1e999", f"{_RAW}1e99999",
    f"{_RAW}{'9' * 400}", f"{_RAW}05", f"{_RAW}.5", f"{_RAW}5.", f"{_RAW}+5", f"{_RAW}0x5", f"{_RAW}5e0",
    f"{_RAW}50e-1", f"{_RAW}4.99999999999999999999999", f"{_RAW}-0", f"{_RAW}undefined", f"{_RAW}'5'", "\x00",
    "\x07\x1b[31m", "\u202e5\u202c", "\ufeff", "\ud800", "５", "Ⅴ", "５.０", "Directly Supports", "Supported",
    "supported", "Excellent", "critical", "Critical", "words that stand nowhere in any text",
    "The night ferry leaves at 22:40", "night ferry leaves ... Sunday", "the", "21:40", "...", "“”", "p1", "p9",
    "[1]", "a" * 5000, "The night ferry leaves at 21:40 every day except Monday.", PASSAGES[1], PASSAGES[2],
    *QUOTES, *CLAIMS,
)  # fmt: skip


def hostile(rubric: str, picked: random.Random) -> str:
    """A reply with none to four things wrong with it; some are the kind a gate should take."""
    made = sound(rubric, picked)
    for _ in range(picked.choice([0, 1, 1, 1, 1, 2, 2, 3])):
        picked.choice(_IN_TREE)(made, picked)
    text = json.dumps(made, ensure_ascii=picked.random() < 0.3)
    text = re.sub(r'"@@raw:([^"]*)"', r"\1", text)
    for _ in range(picked.choice([0, 0, 0, 1, 1, 2])):
        text = picked.choice(_IN_TEXT)(text, picked)
    return text


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a verdict: what holds it, and under which key."""
    for key, held in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from _holders(held)


def _replace(made: Any, picked: random.Random) -> None:
    places = list(_holders(made))
    if places:
        holder, key = picked.choice(places)
        holder[key] = json.loads(json.dumps(picked.choice(ODD)))


def _remove(made: Any, picked: random.Random) -> None:
    places = list(_holders(made))
    if places:
        holder, key = picked.choice(places)
        del holder[key]


def _double(made: Any, picked: random.Random) -> None:
    lists = [holder[key] for holder, key in _holders(made) if isinstance(holder[key], list) and holder[key]]
    if lists:
        chosen = picked.choice(lists)
        chosen.insert(picked.randint(0, len(chosen)), json.loads(json.dumps(picked.choice(chosen))))


def _swap(made: Any, picked: random.Random) -> None:
    places = [place for place in _holders(made) if not isinstance(place[0][place[1]], (dict, list))]
    if len(places) > 1:
        (one, at), (other, there) = picked.sample(places, 2)
        one[at], other[there] = other[there], one[at]


def _rename(made: Any, picked: random.Random) -> None:
    places = [(holder, key) for holder, key in _holders(made) if isinstance(holder, dict)]
    if places:
        holder, key = picked.choice(places)
        new = picked.choice([key.upper(), f" {key}", f"{key}s", key.replace("_", ""), "\u200b" + key])
        holder[new] = holder.pop(key)


def _extra(made: Any, picked: random.Random) -> None:
    holders = [made, *(holder[key] for holder, key in _holders(made) if isinstance(holder[key], dict))]
    picked.choice([h for h in holders if isinstance(h, dict)])[
        picked.choice(["thoughts", "score", "id", "", "__proto__"])
    ] = json.loads(json.dumps(picked.choice(ODD)))


def _nudge(made: Any, picked: random.Random) -> None:
    """A number moved a little: the arithmetic is no longer right, or only just."""
    numbers = [
        (holder, key) for holder, key in _holders(made)
        if isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool)
    ]  # fmt: skip
    if numbers:
        holder, key = picked.choice(numbers)
        if isinstance(holder[key], float) and not math.isfinite(holder[key]):
            return
        holder[key] = holder[key] + picked.choice([-1, 1, 0.5, -0.5, 0.01, -0.01, 0.005, 0.0001, 2])


def _misquote(made: Any, picked: random.Random) -> None:
    """A text with a letter, a figure or a word changed."""
    words = [(h, k) for h, k in _holders(made) if isinstance(h[k], str) and len(h[k]) > 3]
    if words:
        holder, key = picked.choice(words)
        text = holder[key]
        at = picked.randrange(len(text))
        ways = [
            text[:at] + picked.choice("0123456789xyz \n\"'…") + text[at + 1 :],
            text.upper(),
            text + " not",
            text * 2,
        ]
        ways += [
            re.sub(r"\d", lambda d: str((int(d[0]) + 1) % 10), text),
            text[:at],
            text[at:],
            text[::-1],
            f'"{text}"',
        ]
        holder[key] = picked.choice(ways)


def _deepen(text: str, picked: random.Random) -> str:
    """Something nested in the first object, deep enough for readers that call themselves."""
    depth, inside = picked.choice([3, 50, 400, 900, 990]), picked.choice(["5", '"\\ud83d"', "{}", '"x"'])
    opens, closes = picked.choice([("[", "]"), ('{"a":', "}")])
    return text.replace("{", f'{{"deep": {opens * depth}{inside}{closes * depth}, ', 1)


_IN_TREE: tuple[Callable[[Any, random.Random], None], ...] = (
    _replace, _replace, _replace, _remove, _double, _swap, _rename, _extra, _nudge, _nudge, _misquote, _misquote,
)  # fmt: skip


def _at(change: Callable[[str, int, random.Random], str]) -> Callable[[str, random.Random], str]:
    return lambda text, picked: change(text, picked.randrange(len(text) + 1), picked)


_IN_TEXT: tuple[Callable[[str, random.Random], str], ...] = (
    _at(lambda text, at, _: text[:at]),
    _at(lambda text, at, picked: text[:at] + text[at + picked.randint(1, 20) :]),
    _at(lambda text, at, picked: text[:at] + picked.choice('{}[]",:\\0\x00\x01\u2028\ufeff\ud800 \t\n') + text[at:]),
    _at(lambda text, at, picked: text[:at] + picked.choice(['"', '{"', "\\u0000", "\\ud800", "//", "/*"]) + text[at:]),
    lambda text, picked: text + picked.choice(["", " ", "\n", "and"]) + text,
    lambda text, picked: picked.choice(["{}", '{"a": 1}', "[]", "null", "5", "{"]) + text,
    lambda text, picked: text + picked.choice(["{}", '{"score": 5}', "]", "}", "[5]", "{oops}"]),
    lambda text, _: f"```json\n{text}\n```",
    lambda text, _: f"Here is my verdict:\n\n{text}\n\nAsk me anything.",
    lambda text, _: f"\ufeff{text}",
    lambda text, _: f"[{text}]",
    lambda text, _: f'{{"verdict": {text}}}',
    lambda text, _: f'{{"and": {text}, {text[1:]}' if text.startswith("{") else text,
    lambda text, _: text.replace('"', "'"),
    lambda text, _: text.replace("null", "None").replace("true", "True"),
    lambda text, _: re.sub(r"\}$", ",}", text),
    lambda text, _: re.sub(r'^\{("[^"]*": )', r"{\g<1>1, \g<1>", text),
    lambda text, picked: re.sub(
        r'("\w*score": )[^,}]*', rf"\g<1>{picked.choice(['NaN', '1e999', '5', '-Infinity'])}", text
    ),
    lambda text, picked: re.sub(r"\d", lambda d: str((int(d[0]) + picked.randint(0, 1)) % 10), text),
    lambda text, _: text + " " * 1_000_001 if len(text) % 50 == 0 else text,
    lambda text, _: '{"a":' * 3000 + text,
    _deepen,
    lambda _, picked: picked.choice(
        ["", " ", "null", "5", "{}", "[]", '"', "\x00", "I can't help with that.", "{" * 999]
    ),
    lambda text, _: json.dumps(text),
    lambda text, _: text.translate({ord(c): ord(c) + 0xFEE0 for c in '{}":,'}),
)
