"""What a platform is told beside a score: who judged by what, whose slice it is; and what it would not understand."""

from __future__ import annotations

import math
from typing import Any

from groundtrace.adapters.lines import clean
from groundtrace.adapters.published import Result
from groundtrace.model import Scorecard

SHORT = 500
"""Bytes of one fact that is a text."""

_SOURCES = 50


def facts(card: Scorecard) -> dict[str, Any]:
    """Who judged by what, and why a person looks; of a held card nothing by which its score could be guessed."""
    held = card.status == "pending_review"
    told: dict[str, Any] = {
        "evaluator": f"groundtrace/{card.rubric}",
        "rubric": card.rubric,
        "version": card.version,
        "prompt_hash": card.prompt_hash,
        "judge": card.judge,
        "judge_kind": card.judge_kind,
        "temperature": card.temperature,
        "calibration": card.calibration,
        "limits": card.limits,
        "status": card.status,
        "decided_by": card.decided_by,
        "partial": card.partial,
        "confidence": None if held else card.confidence,
        "root_cause": None if held else card.root_cause,
        "risk": card.risk,
        "priority": card.waits,
        "review": [review.reason for review in card.review],
        "flags": list(card.flags),
        "source_ids": list(card.source_ids[:_SOURCES]),
        "card_id": card.id,
        "record_id": card.record_id,
    }
    return plain(told)


def facts_of(card: Scorecard, result: Result) -> dict[str, Any]:
    """The same of one result, with its range, and whose slice it is."""
    told = {"content_hash": result.content_hash, "low": result.low, "high": result.high}
    return facts(card) | plain(told | {f"slice.{name}": value for name, value in card.slices.items()})


def plain(told: dict[str, Any]) -> dict[str, Any]:
    """Facts by name, those that say nothing left out, texts whole or cut, and sound."""
    return {sound(name): _fact(fact) for name, fact in told.items() if fact not in (None, "", [])}


def _fact(fact: Any) -> Any:
    if isinstance(fact, list):
        return [_fact(item) for item in fact]
    return cut(sound(fact), SHORT) if isinstance(fact, str) else fact


def fault(result: Result) -> str | None:
    """Why a result would not be understood, or would break a platform's lists, before it is sent.

    >>> fault(Result("source_support", "id", "hash", value=4.0, label=["Some string here"]))
    "a label must be text, not ['Some string here'] @ $.source_support.label"
    """
    for name, told, kinds, wanted in (
        ("label", result.label, str, "text"),
        ("explanation", result.explanation, str, "text"),
        ("value", result.value, (int, float), "a number"),
    ):
        odd = told is not None and not isinstance(told, kinds)
        if odd or (isinstance(told, float) and not math.isfinite(told)):
            return f"a {name} must be {wanted}, not {str(told)[:80]} @ $.{result.score}.{name}"
    return None


def cut(text: str, most: int) -> str:
    """The text in so many bytes of UTF-8, with a mark where it was cut.

    >>> cut("a" * 100, 50)
    'aaaaaaaaaaaaaaaa ... (cut: 100 characters in all)'
    """
    if len(text) * 4 <= most:
        return text
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    mark = f" ... (cut: {len(text)} characters in all)"
    return encoded[: max(0, most - len(mark) - 1)].decode(errors="ignore") + mark


def sound(text: str) -> str:
    """A text every server takes: no half characters, for which an SDK would drop all emoji, and no NUL."""
    whole = text if text.isascii() else clean(text)
    return whole.replace("\x00", "\ufffd") if "\x00" in whole else whole
