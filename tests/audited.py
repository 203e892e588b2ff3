"""A second reading of a card: it is held against the reply it rests on with nothing of the gate's own.

JSON, ranges, labels, arithmetic and quotes are looked at from scratch. What is found is a silent score.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from groundtrace.evaluate import evaluate
from groundtrace.model import Scorecard, dump
from groundtrace.testing import ScriptedJudge
from hostile import FIVE, FOUR, LEVELS, PASSAGES, RECORDS, RUBRICS, WORTH, mean, rating


def judged(rubric: str, first: str, second: str) -> Scorecard:
    """The card that a reply leads to, and where it was refused, the one after it."""
    judge = ScriptedJudge(lambda case: second if case.remark else first)
    (card,) = evaluate([RECORDS[rubric]], [RUBRICS[rubric]], judge)
    return card


def audit(card: Scorecard) -> list[str]:
    """What is wrong with a card, seen from scratch; nothing, if it is unscored or its reply bears it out."""
    faults = [f"{number} on the card" for number in _numbers(card.model_dump()) if not math.isfinite(number)]
    try:
        json.loads(dump(card), parse_constant=lambda name: faults.append(f"{name} in its JSON"))
    except ValueError as error:
        faults.append(f"its JSON is broken: {error}")
    if not [score for score in card.scores if score.value is not None]:
        return faults
    last = card.attempts[-1]
    told = _object(last.text)
    if told is None:
        return [*faults, "scored from what is not one JSON object"]
    held = "figure_corrected" in card.flags or "claim_unassessed" in card.flags
    if bool(last.faults) != held or (held and not card.review):
        faults.append("scored with faults, and nobody is told")
    try:
        faults += _AUDITS[card.rubric](card, told, held)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        faults.append(f"scored from a verdict that lacks something: {error!r}")
    return faults


def _numbers(value: Any) -> Iterator[float]:
    waiting = [value]
    while waiting:
        held = waiting.pop()
        if isinstance(held, float):
            yield held
        waiting += held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else ()


def _object(text: str) -> dict[str, Any] | None:
    """The one object of a text, strictly: distinct keys, true numbers, nothing like it before or after."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    def number(digits: str) -> Fraction:
        if len(digits) > 300:
            raise ValueError("no number")
        return Fraction(digits)

    def never(name: str) -> None:
        raise ValueError(name)

    decoder = json.JSONDecoder(object_pairs_hook=distinct, parse_float=number, parse_constant=never)
    start = re.search(r'\{\s*["}]', text)
    if start is None:
        return None
    try:
        told, end = decoder.raw_decode(text, start.start())
    except (ValueError, RecursionError, OverflowError):
        return None
    return None if re.search(r'\{\s*["}]', text[end:]) else told


def _level(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)) or value not in (1, 2, 3, 4, 5):
        raise ValueError(f"no level: {value!r}")
    return int(value)


def _void(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip() in ("", "None", "N/A"))


def _near(figure: Any, exact: Fraction) -> bool:
    """Within half a unit of the coarsest decimal it could have been rounded at."""
    if isinstance(figure, bool) or not isinstance(figure, (int, Fraction)):
        raise TypeError(f"no figure: {figure!r}")
    decimals = next((n for n in range(300) if (Fraction(figure) * 10**n).denominator == 1), 300)
    return abs(Fraction(figure) - exact) <= Fraction(1, 2 * 10**decimals)


def _value(card: Scorecard, name: str) -> float | None:
    full = f"{card.rubric}.{name}" if name else card.rubric
    return next((score.value for score in card.scores if score.name == full), None)


def _of_pair(card: Scorecard, told: dict[str, Any], held: bool) -> list[str]:  # noqa: FBT001
    score = _level(told["score"])
    faults = [] if _value(card, "") == score else ["the headline is not the score"]
    if not held and told["support_level"] != LEVELS[score]:
        faults.append("another level than the score's")
    if told["support_level"] not in LEVELS.values():
        faults.append("no level at all")
    share = told["confidence"]
    if isinstance(share, bool) or not isinstance(share, (int, Fraction)) or not 0 <= share <= 1:
        faults.append("no confidence")
    if _void(told["missing_information"]) != (score == 5):
        faults.append("missing information where none is, or none where some is")
    if not isinstance(told["rationale"], str) or not told["rationale"].strip():
        faults.append("no rationale")
    if score > 2 and (_void(told["key_evidence"]) or not stands(told["key_evidence"], PASSAGES[0])):
        faults.append(f"evidence that stands nowhere: {told['key_evidence']!r}")
    return faults


def _of_claims(card: Scorecard, told: dict[str, Any], held: bool) -> list[str]:  # noqa: C901, FBT001
    rows, faults = told["claim_verifications"], []
    text = RECORDS[card.rubric].answer or ""
    ids = [row["claim_id"] for row in rows]
    if len(set(ids)) < len(ids) or not all(isinstance(name, str) and name for name in ids):
        faults.append("ids that are none, or twice")
    kept = []
    for row in rows:
        result = row["verification_result"]
        worth = WORTH[result]
        if not held and row["score"] != worth:
            faults.append("a score that is not the result's")
        if not stands(row["claim_text"], text, figures=True):
            faults.append(f"a claim the text does not make: {row['claim_text']!r}")
        if cuts(row["claim_text"], text) or (
            not _void(row["evidence_quote"])
            and result in ("Supported", "Contradicted")
            and any(cuts(row["evidence_quote"], passage) for passage in PASSAGES)
        ):
            faults.append(f"{CUT}: {row['claim_text']!r}, {row['evidence_quote']!r}")
        if result in ("Partially Supported", "Contradicted") and row["severity"] not in ("Critical", "Major", "Minor"):
            faults.append("an error without a severity")
        unasked = result == "Unverifiable" or _void(row["evidence_quote"])
        found = not unasked and any(stands(row["evidence_quote"], passage, figures=True) for passage in PASSAGES)
        if result in ("Supported", "Contradicted") and not found:
            if not held:
                faults.append(f"a quote that stands nowhere: {row['evidence_quote']!r}")
            continue
        kept.append(worth)
    scored = [worth for worth in kept if worth is not None]
    exact = sum(scored, Fraction(0)) / len(scored) if scored else None
    published = _value(card, "assessed" if card.partial else "")
    if not held and exact is not None and not _near(told["overall_factual_accuracy_score"], exact):
        faults.append("a mean that is not the claims'")
    if not held and told["total_verifiable_claims"] != len(scored):
        faults.append("a count that is not the claims'")
    if "claim_unassessed" not in card.flags and not _same(published, exact, 4):
        faults.append(f"published {published}, not {exact}")
    return faults


def _of_answer(card: Scorecard, told: dict[str, Any], held: bool) -> list[str]:  # noqa: FBT001
    faults, scores = [], dict[str, int | None]()
    for name in FOUR:
        one = told["dimension_scores"][name]
        scores[name] = None if one["score"] is None and name != FOUR[0] else _level(one["score"])
        spans = one["evidence_spans"]
        every = (*PASSAGES, RECORDS[card.rubric].answer or "")
        if scores[name] is not None and not any(stands(span, text) for span in spans for text in every):
            faults.append(f"{name} rests on nothing")
        if scores[name] is None and not one["justification"].strip():
            faults.append(f"{name} is null without a reason")
    if scores["citation_accuracy"] is None:
        faults.append("citations without a score")
    if scores["claim_support"] == 5 and told["unsupported_claims"]:
        faults.append("full support with unsupported claims")
    for item in told["unsupported_claims"]:
        if not stands(item["claim"], RECORDS[card.rubric].answer or "") or item["severity"] not in (
            "critical",
            "major",
            "minor",
        ):
            faults.append(f"an unsupported claim nobody made: {item!r}")  # noqa: PERF401 - beside its condition
    exact = mean(scores)
    if not held and not _near(told["overall_faithfulness_score"], exact):
        faults.append("a mean that is not the dimensions'")
    if not _same(_value(card, ""), exact, 1):
        faults.append(f"published {_value(card, '')}, not {exact}")
    return faults


def _of_summary(card: Scorecard, told: dict[str, Any], held: bool) -> list[str]:  # noqa: FBT001
    faults, scores = [], dict[str, int | None]()
    answer, source = RECORDS[card.rubric].answer or "", " ".join(PASSAGES)
    for name, items in FIVE.items():
        one = told["dimensions"][name]
        score = scores[name] = _level(one["score"])
        said = [item for item in one[items] if item.strip()]
        where = source if name == "key_information_omission" else answer
        if score == 5 and said:
            faults.append(f"{name} is 5 with items")
        if score < 5 and not any(stands(part, where, figures=True) for item in said for part in _parts(item)):
            faults.append(f"{name} below 5 names nothing: {said!r}")
    exact = mean(scores)
    if not held and (not _near(told["overall_faithfulness_score"], exact) or told["overall_rating"] != rating(exact)):
        faults.append("a mean or a rating that is not the dimensions'")
    if not isinstance(told["critical_failures"], list):
        faults.append("no list of failures")
    if not _same(_value(card, ""), exact, 2) or (card.headline and card.headline.label) != rating(exact):
        faults.append(f"published {_value(card, '')}, not {exact}")
    return faults


CUT = "a number cut in two"
"""A quote "letter for letter" may end within a number, by the law; it is counted, apart from what breaks a rule."""

_AUDITS: Mapping[str, Callable[[Scorecard, dict[str, Any], bool], list[str]]] = {
    "source_support": _of_pair, "factual_accuracy": _of_claims, "rag_faithfulness": _of_answer,
    "summary_groundedness": _of_summary,
}  # fmt: skip


def _same(published: float | None, exact: Fraction | None, digits: int) -> bool:
    if published is None or exact is None:
        return published is None and exact is None
    return abs(Fraction(str(published)) - exact) <= Fraction(1, 2 * 10**digits)


def _parts(item: str) -> list[str]:
    return [item, *re.findall(r"['\"“‘«`]([^'\"”’»`]{2,})", item)]


def stands(quote: Any, text: str, *, figures: bool = False) -> bool:
    """Whether a quote stands in a text: but for case, signs and spaces, in parts, nearly, or told in its words.

    With `figures`, what is not there letter for letter must have the text's own numbers.
    """
    if not isinstance(quote, str):
        raise TypeError(f"no text: {quote!r}")
    wanted, held = _letters(quote), _letters(text)
    words, known = set(wanted.split()), set(held.split())
    numbers = {word for word in words if word.isdigit()}
    if not wanted:
        return False
    if wanted in held:
        return True
    parts = _parted(quote)
    if len(parts) > 1 and all(part in held for part in parts):
        return True
    if figures and not numbers <= known:
        return False
    alike = difflib.SequenceMatcher(None, wanted, held, autojunk=False)
    if sum(block.size for block in alike.get_matching_blocks() if block.size > 1) >= 0.8 * len(wanted):
        return True
    stems = {word[:4] for word in known}
    new = {word for word in words if word[:4] not in stems}
    return len(new) <= 0.5 * len(words) and not new & numbers


def cuts(quote: Any, text: str) -> bool:
    """Whether a quote that stands there letter for letter begins or ends within a number, and so tells another one."""
    held = _letters(text)
    parts = [_letters(quote)] if _letters(quote) in held else _parted(quote)
    numbers = {word for part in parts for word in part.split() if word.isdigit()}
    return all(part in held for part in parts) and not numbers <= set(held.split())


def _parted(quote: str) -> list[str]:
    """A quote cut at its ellipses."""
    return [_letters(part) for part in re.split(r"\.{3,}|…", quote) if _letters(part)]


def _letters(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", plain).split())
