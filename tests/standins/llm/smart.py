"""A judge that needs no model: reads a groundtrace prompt and gives a valid verdict under any of the four rubrics.

It counts shared words, quotes real text and keeps to every rule the gate holds a reply to. To a prompt that is none of
ours it says the smallest value the schema allows. Quick on purpose: benchmarks time the client beside it.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from groundtrace.citations import abstention

from .asked import FENCE, Asked

_SPACES = {**dict.fromkeys(map(ord, string.punctuation), " "), **dict.fromkeys(map(ord, "…“”‘’–—«»•"), " ")}
_RATINGS = re.compile(r"goes by it:\s+([\d.]+) and above Excellent,\s+([\d.]+) and\s+above Good,\s+([\d.]+) and\s+"
                      r"above Fair,\s+([\d.]+) and\s+above Poor")  # fmt: skip
_HOLDS_BACK = re.compile(
    r"n['’]t\b|\b(?:no[trn]?|nothing|neither|un(?:able|clear|known)|cannot|sorry|without|lacks?|insufficient)\b"
)
_LONGEST_QUOTE = 300
_LEVELS = {
    5: "Directly Supports",
    4: "Strongly Implies",
    3: "Partially Supports",
    2: "Weakly Related",
    1: "No Support / Contradicts",
}
_NAMED = ("Excellent", "Good", "Fair", "Poor")
_SUMMARY = {
    "factual_consistency": "violations",
    "key_information_omission": "omitted_items",
    "unsupported_content_insertion": "inserted_items",
    "entity_relationship_preservation": "violations",
    "causal_logical_structure": "violations",
}

Parts = dict[str, list[str]]


def answer(asked: Asked) -> str:
    """The verdict as JSON text."""
    parts = fenced(asked)
    if "claim" in parts and "passage" in parts:
        verdict: Any = _support(parts)
    elif "target_text" in parts:
        verdict = _accuracy(parts)
    elif "passages" in parts and "answer" in parts:
        verdict = _faithfulness(parts)
    elif "summary" in parts and "source" in parts:
        verdict = _summary(parts, asked.prompt)
    elif asked.schema is not None:
        verdict = least(asked.schema, asked.schema)
    else:
        return "OK" if asked.mode == "text" else "{}"
    return orjson.dumps(verdict).decode()


def fenced(asked: Asked) -> Parts:
    """The record's parts by their label, as they stand between the fences."""
    if not asked.nonce:
        return {}
    pieces = asked.record.split(f"{FENCE}:{asked.nonce}:")
    parts: Parts = {}
    for piece in pieces[1:]:
        label, found, text = piece.partition(">>>\n")
        if found and label != "end":
            parts.setdefault(label, []).append(text.removesuffix("\n"))
    return parts


# --- the four rubrics -----------------------------------------------------------------------------------------------


def _support(parts: Parts) -> dict[str, Any]:
    share, quote, _ = _where(_words(parts["claim"][0]), _read([_passage(parts["passage"][0])[1]]))
    score = next((level for level, least in ((5, 0.8), (4, 0.6), (3, 0.4), (2, 0.15)) if share >= least), 1)
    score = score if quote else 1
    return {
        "score": score,
        "support_level": _LEVELS[score],
        "rationale": "The claim and the passage were compared word by word, and the score says how much they share.",
        "key_evidence": quote or None,
        "missing_information": None if score == 5 else "The words of the claim that the passage lacks",
        "confidence": 0.9,
    }


def _accuracy(parts: Parts) -> dict[str, Any]:
    worth = {"Supported": 1.0, "Partially Supported": 0.5, "Contradicted": 0.0} | _told(parts, "scores", {})
    places = _read(_passage(text)[1] for text in parts["evidence"])
    rows: list[dict[str, Any]] = []
    scores: list[float] = []
    for at, (claim, words) in enumerate(_sentences(parts["target_text"][0]), 1):
        share, quote, _ = _where(words, places)
        result = "Supported" if quote and share >= 0.5 else "Unverifiable"
        score = worth.get(result)
        scores += [] if score is None else [score]
        rows.append(
            {
                "claim_id": f"C{at}",
                "claim_text": claim,
                "verification_result": result,
                "evidence_quote": quote if result == "Supported" else None,
                "score": _plain(score),
                "severity": None,
                "judge_rationale": "The words were looked for in the evidence.",
            }
        )
    return {
        "overall_factual_accuracy_score": _plain(round(sum(scores) / len(scores), 4)) if scores else None,
        "total_verifiable_claims": len(scores),
        "claim_verifications": rows,
        "overall_summary": "Each sentence was held against the evidence.",
    }


def _faithfulness(parts: Parts) -> dict[str, Any]:
    text, found = parts["answer"][0], [_passage(passage) for passage in parts["passages"]]
    passages = [passage for _, passage in found] if parts["passages"] != ["(none)"] else []
    places = _read(passages)
    lost: list[dict[str, Any]] = []
    quotes: list[str] = []
    stated = _sentences(text)
    for claim, words in stated:
        share, quote, at = _where(words, places)
        quotes += [quote] if quote else []
        if share < 0.3:
            lost.append({"claim": claim, "closest_retrieved_passage": found[at][0].get("id") if passages else None,
                         "severity": "minor"})  # fmt: skip
    held_back = abstention(text) if not passages or _HOLDS_BACK.search(text.lower()) else None
    if held_back == "pure" or (held_back and not passages):
        support, lost = 5, []
    elif not passages:
        support = 1
    else:
        support = 5 if not lost else max(1, min(4, round(5 - 4 * len(lost) / len(stated))))
    spans = list(dict.fromkeys(quotes))[:3] or [sentence for sentence, _ in stated][:1]
    spans = spans or [sentence for place in places for sentence, _ in place.sentences][:1]
    off = set(_told(parts, "not_assessed", []))
    scores = {
        "claim_support": support,
        "citation_accuracy": _citations(parts, off),
        "abstention_appropriateness": None if "abstention_appropriateness" in off else 5,
        "source_conflict_handling": None,
    }
    return {
        "overall_faithfulness_score": _mean(scores, _told(parts, "weights", {}), 1),
        "dimension_scores": {
            name: {
                "score": score,
                "justification": "It does not apply here." if score is None else "The words were compared.",
                "evidence_spans": [] if score is None else spans,
            }
            for name, score in scores.items()
        },
        "unsupported_claims": lost,
        "hallucination_flags": [],
    }


def _citations(parts: Parts, off: set[str]) -> int | None:
    stood = _told(parts, "citations", [])
    if not stood or "citation_accuracy" in off:
        return None
    resolved = all(isinstance(one, dict) and one.get("passage_id") is not None for one in stood)
    return 4 if resolved else 3


def _summary(parts: Parts, prompt: str) -> dict[str, Any]:
    places = _read(_passage(text)[1] for text in parts["source"])
    stated = _sentences(parts["summary"][0])
    added = [one for one, words in stated if _tells(words) and _where(words, places)[0] < 0.3]
    scores = dict.fromkeys(_SUMMARY, 5) | ({"unsupported_content_insertion": 3} if added else {})
    mean = _mean(scores, _told(parts, "weights", {}), 2)
    bounds = _RATINGS.search(prompt)
    known = [float(bound) for bound in bounds.groups()] if bounds else [4.5, 3.5, 2.5, 1.5]
    verdict: dict[str, Any] = {
        "overall_faithfulness_score": mean,
        "overall_rating": next((n for n, b in zip(_NAMED, known, strict=True) if mean >= b), "Unacceptable"),
        "dimensions": {
            name: {
                "score": scores[name],
                "explanation": "The words of source and summary were compared.",
                items: added[:3] if scores[name] < 5 else [],
            }
            for name, items in _SUMMARY.items()
        },
        "critical_failures": [],
        "evaluation_notes": "Words were counted.",
    }
    facts = _told(parts, "key_facts", [])
    return verdict | ({"key_facts": [{"fact": fact, "state": "present"} for fact in facts]} if facts else {})


# --- words ----------------------------------------------------------------------------------------------------------


def _passage(text: str) -> tuple[Mapping[str, Any], str]:
    """What is known of a passage, and its text."""
    head, _, rest = text.partition("\n")
    try:
        facts = orjson.loads(head)
    except ValueError:
        return {}, text
    return (facts, rest) if isinstance(facts, dict) else ({}, text)


def _told(parts: Parts, label: str, otherwise: Any) -> Any:
    """A part that is JSON."""
    try:
        return orjson.loads(parts[label][0]) if label in parts else otherwise
    except ValueError:
        return otherwise


def _words(text: str) -> set[str]:
    return set(text.lower().translate(_SPACES).split())


def _sentences(text: str) -> list[tuple[str, set[str]]]:
    """Pieces of the text, letter for letter, each with its words; cut where a fence was taken out of the record's own.

    No pattern: on two thousand characters it would cost more than all the rest.
    """
    cut = text.replace("[fence removed]", "\n").replace(". ", ".\n").replace("? ", "?\n").replace("! ", "!\n")
    made = []
    for piece, bare in zip(cut.split("\n"), cut.lower().translate(_SPACES).split("\n"), strict=True):
        words = set(bare.split())
        if words and (piece.isascii() or any(map(str.isalnum, piece))):
            made.append((piece.strip(), words))
    return made


class _Source:
    """A passage, taken apart only where it is looked at closely."""

    __slots__ = ("_cut", "low", "text")

    def __init__(self, text: str) -> None:
        self.text, self.low = text, text.lower()
        self._cut: list[tuple[str, set[str]]] | None = None

    @property
    def sentences(self) -> list[tuple[str, set[str]]]:
        if self._cut is None:
            self._cut = _sentences(self.text)
        return self._cut


def _read(texts: Iterable[str]) -> list[_Source]:
    return [_Source(text) for text in texts]


def _where(wanted: set[str], sources: Sequence[_Source]) -> tuple[float, str, int]:
    """The share of the wanted words in the sentence that has most of them, that sentence, and in which text it is.

    It is looked for in the text that has most of them.
    """
    held = [sum(word in source.low for word in wanted) for source in sources]
    at = held.index(max(held)) if held else 0
    if not held or not sources[at].sentences:  # no word of it stands anywhere: any sentence will do
        at = next((at for at, source in enumerate(sources) if source.sentences), -1)
    if at < 0:
        return 0.0, "", 0
    quote, words = max(sources[at].sentences, key=lambda sentence: len(wanted & sentence[1]))
    share = len(wanted & words) / (len(wanted) or 1)
    if len(quote) > _LONGEST_QUOTE:
        quote = quote[:_LONGEST_QUOTE].rpartition(" ")[0] or quote
    return share, quote, at


def _tells(words: set[str]) -> bool:
    return sum(len(word) >= 6 and word.isascii() for word in words) >= 2


def _mean(scores: Mapping[str, int | None], weights: Mapping[str, float], digits: int) -> float:
    there = {name: score for name, score in scores.items() if score is not None}
    total = sum(weights.get(name, 1) for name in there)
    return round(sum(weights.get(name, 1) * score for name, score in there.items()) / total, digits)


def _plain(number: float | None) -> float | int | None:
    return int(number) if number is not None and number == int(number) else number


# --- prompts that are none of ours ----------------------------------------------------------------------------------


def least(schema: Any, root: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one return a kind of schema
    """The smallest value a JSON Schema allows; Gemini's own upper-case types too."""
    if not isinstance(schema, Mapping):
        return None
    if "$ref" in schema:
        target: Any = root
        for step in str(schema["$ref"]).split("/")[1:]:
            target = target[step]
        return least(target, root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return least(schema[choice][0], root)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = str(kind[0] if isinstance(kind, list) else kind).lower()
    if kind == "object":
        due = schema.get("required", list(schema.get("properties", {})))
        return {name: least(schema.get("properties", {}).get(name), root) for name in due}
    if kind == "array":
        return [least(schema.get("items"), root) for _ in range(int(schema.get("minItems", 0)))]
    number = schema.get("minimum", 0)
    return {"integer": int(number), "number": number, "boolean": True, "null": None}.get(kind, "text")
