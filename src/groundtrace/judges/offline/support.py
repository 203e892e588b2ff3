"""Source support: a claim and the passage it cites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groundtrace.judges.offline.measure import (
    WEAK,
    Answered,
    Tokenise,
    confidence,
    flags,
    held_against,
    lacking,
    level,
    quoted,
    quotes,
    reasons,
)
from groundtrace.lexical import Comparison

_LEVELS = {
    5: "Directly Supports",
    4: "Strongly Implies",
    3: "Partially Supports",
    2: "Weakly Related",
    1: "No Support / Contradicts",
}
_OPENINGS = {
    5: "The passage says this nearly word for word",
    4: "The passage holds most of this in its own words",
    3: "The passage holds a part of this",
    2: "The passage shares words with the claim and does not carry it; it comes closest here",
    1: "The passage has next to nothing of the claim",
}


def judge_pair(body: Mapping[str, Any], tokenise: Tokenise) -> Answered:
    """The verdict on a claim and the passage it is held against."""
    text = body["passage"]["text"]
    found = held_against(body["claim"], [text], tokenise)
    score = level(found)
    shown = quotes(found, [text])
    verdict = {
        "score": score,
        "support_level": _LEVELS[score],
        "rationale": " ".join([_opening(score, shown), *reasons(found)]),
        "key_evidence": shown[0] if shown else None,
        "missing_information": None if score == 5 else _missing(found),
        "confidence": confidence(found),
    }
    return verdict, flags([found])


def _opening(score: int, shown: Sequence[str]) -> str:
    return f"{_OPENINGS[score]}: {quoted(shown[0])}." if shown else f"{_OPENINGS[score]}."


def _missing(found: Comparison) -> str:
    """What the passage would have to hold for a higher score."""
    wanted = [lacking(found)]
    if found.weakest_clause and found.weakest_cover < WEAK:
        wanted.append(f"what {quoted(found.weakest_clause)} says")
    return ", ".join(filter(None, wanted)) or "the claim in so many words"
