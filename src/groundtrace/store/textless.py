"""Cards, faults and reports without other people's texts: figures, codes and ids stay.

Left out are answers, passages, claims, quotes, rationales, notes and replies. Kept are ids, levels, labels, flags,
tags, offsets, numbers and the places of faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from groundtrace.model import Attempt, Evidence, Finding, Score, Scorecard

_CODE = re.compile(r"[\w.:>#-]{1,80}")
_QUOTED = re.compile(r"[\"'`“”‘’«»„].*[\"'`“”‘’«»„]|(?:\"|“|«|„|(?:^|(?<=\s))['`‘]).*", re.DOTALL)
_TELLING = re.compile(r"\S*[^a-z_\s,.;:()…@$-]\S*")
"""A word that could be a name, a number or foreign: our own fault lines do without capitals and digits."""

_PLACE = re.compile(r" @ (\$(?:\.[A-Za-z_]\w{0,60}|\[\d{1,9}\])*)$")
_FREE = {"claim", "why"}
_DECIDED = {"state", "who", "when", "judge", "judge_kind"}


def textless(card: Scorecard) -> Scorecard:
    """The card without texts, standing for the whole one: content hash and basis are the whole card's."""
    left = card.model_copy(
        update={
            "reason": card.reason and code(card.reason),
            "scores": tuple(_score(score) for score in card.scores),
            "findings": tuple(_finding(finding) for finding in card.findings),
            "review": tuple(review.model_copy(update={"note": ""}) for review in card.review),
            "details": _details(card.details),
            "gaps": tuple(gap.model_copy(update={"reason": code(gap.reason), "remedy": ""}) for gap in card.gaps),
            "attempts": tuple(_attempt(attempt) for attempt in card.attempts),
            "emptied": None,
        }
    )
    return left.model_copy(update={"emptied": (left.content_hash, card.content_hash)})


def masked(fault: str) -> str:
    """A fault line without what it quotes: where the fault is stays, and what kind it is.

    >>> masked("the quote 'leaves at 21:40' stands in no passage @ $.key_evidence")
    'the quote … stands in no passage @ $.key_evidence'
    """
    place = _PLACE.search(fault)
    told = fault[: place.start()] if place else fault
    told = _QUOTED.sub("…", told.partition("; got ")[0])[:500]
    return _TELLING.sub("…", told.partition(": ")[0])[:200] + (place.group() if place else "")


def figures(value: Any) -> Any:
    """Numbers and truth values, in the shape they came in; texts are empty.

    >>> figures({"claim": "It leaves.", "pairs": 2, "spans": [{"start": 1, "quote": "leaves"}]})
    {'claim': '', 'pairs': 2, 'spans': [{'start': 1, 'quote': ''}]}
    """
    if isinstance(value, Mapping):
        return {key: figures(held) for key, held in value.items() if _CODE.fullmatch(str(key))}
    if isinstance(value, (list, tuple)):
        return [figures(held) for held in value]
    return value if value is None or isinstance(value, (bool, int, float)) else ""


def report(text: str) -> str:
    """A run's report in JSON without the claims and reasons of its lowest cards, and without what errors quote."""
    try:
        told = json.loads(text)
    except ValueError:
        return ""
    if not isinstance(told, dict):
        return ""
    for name in ("failed", "notes"):
        if isinstance(told.get(name), list):
            told[name] = [str(line).partition(": ")[0][:200] for line in told[name]]
    if isinstance(told.get("lowest"), list):
        told["lowest"] = [
            {key: "" if key in _FREE else held for key, held in low.items()}
            for low in told["lowest"]
            if isinstance(low, dict)
        ]
    return json.dumps(told)


def code(text: str) -> str:
    """A reason if it is one word, as ours are; else only that there was one.

    >>> code("context_off"), code("the answer was: it leaves at nine")
    ('context_off', '…')
    """
    return text if _CODE.fullmatch(text) else "…"


def _details(details: Mapping[str, Any]) -> Any:
    """A card's own figures; of a person's decision also who decided what and when, not why."""
    decision = details.get("decision")
    if not isinstance(decision, Mapping):
        return figures(details)
    kept = {key: held for key, held in decision.items() if key in _DECIDED}
    return {**figures(details), "decision": {**figures(decision), **kept}}


def _evidence(evidence: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    return tuple(held.model_copy(update={"quote": ""}) for held in evidence)


def _score(score: Score) -> Score:
    return score.model_copy(update={"rationale": "", "evidence": _evidence(score.evidence)})


def _finding(finding: Finding) -> Finding:
    left = {"rationale": "", "evidence": _evidence(finding.evidence), "details": figures(finding.details)}
    return finding.model_copy(update=left | {"reason": finding.reason and code(finding.reason)})


def _attempt(attempt: Attempt) -> Attempt:
    faults = tuple(masked(fault) for fault in attempt.faults)
    return attempt.model_copy(update={"text": "", "faults": faults, "notes": ()})
