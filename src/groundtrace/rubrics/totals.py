"""What the pairs of an answer add up to: per claim, per source and for the answer as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from groundtrace import lexical
from groundtrace.model import Finding, Score
from groundtrace.rubrics import law

if TYPE_CHECKING:
    from groundtrace.model import Claim, Record, RootCause

NAME = "source_support"
LEVELS = {
    5: "Directly Supports",
    4: "Strongly Implies",
    3: "Partially Supports",
    2: "Weakly Related",
    1: "No Support / Contradicts",
}


def best_of_claims(scored: Iterable[Finding]) -> dict[str, float]:
    """Each claim's best passage."""
    best: dict[str, float] = {}
    for finding in scored:
        claim = finding.details["claim_id"]
        best[claim] = max(best.get(claim, 0), finding.value or 0)
    return best


def flags_of(
    findings: Sequence[Finding], best: Mapping[str, float], bare: Sequence[Claim], *, supported: int
) -> set[str]:
    """What the findings were flagged with, and what the card as a whole shows; `supported` is the lowest support."""
    flags = {flag for finding in findings for flag in finding.flags}
    if any(finding.status == "unscored" for finding in findings):
        flags.add("partly_unscored")
    if any(claim.id not in best for claim in bare):
        flags.add("uncited_unbacked")
    lonely = any(
        value <= 2 and len(best) > 1 and law.mean(v for other, v in best.items() if other != claim) >= supported
        for claim, value in best.items()
    )
    if lonely or bare:
        flags.add("red_flag")
    return flags


def scores_of(
    scored: Sequence[Finding],
    best: Mapping[str, float],
    stated: Sequence[Claim],
    *,
    partial: bool,
    supported: int,
) -> list[Score]:
    """Mean and minimum over claims, citation precision over cited pairs; where a pair is missing, what was assessed."""
    exact, lowest = law.mean(best.values()), min(best.values())
    weakest = min(scored, key=lambda f: (best[f.details["claim_id"]], f.slot))
    cited = [finding for finding in scored if finding.details["cited"]]
    precise = sum((f.value or 0) >= supported and f.details["precise"] for f in cited)
    unknown = "not_assessed" if partial else None
    told = _told(best, stated, supported)
    return [
        law.score(
            f"{NAME}.assessed" if partial else NAME,
            law.halves_up(exact, 2),
            1,
            5,
            label=None if partial else LEVELS[int(law.halves_up(exact, 0))],
            rationale=told,
            evidence=weakest.evidence,
        ),
        law.score(
            f"{NAME}.min",
            None if partial else lowest,
            1,
            5,
            label=unknown or LEVELS[int(lowest)],
            rationale=f"{weakest.details['claim']!r}: {weakest.rationale}",
            evidence=weakest.evidence,
        ),
        law.score(
            f"{NAME}.citation_precision",
            law.halves_up(Fraction(precise, len(cited)), 4) if cited and not partial else None,
            0,
            1,
            label=unknown or (None if cited else "not_applicable"),
            rationale=_precise(precise, len(cited)) if cited else "the answer cites nothing",
        ),
    ]


def _precise(some: int, all_of: int) -> str:
    """How many citations are precise, in words that say what that is.

    >>> _precise(0, 1)
    "0 of 1 citation is backed by a quote that holds the claim's own facts"
    """
    some_of = f"{some} of 1 citation is" if all_of == 1 else f"{some} of {all_of} citations are"
    return f"{some_of} backed by a quote that holds the claim's own facts"


def aggregates_of(
    scored: Sequence[Finding], best: Mapping[str, float], stated: Sequence[Claim], *, supported: int
) -> dict[str, Any]:
    """Per claim, per source and per answer: mean, minimum and the share that is supported."""
    return {
        "claims": [_claim_row(claim, best) for claim in stated],
        "sources": _sources(scored, supported),
        **_spread(list(best.values()), supported),
        "claims_total": len(stated),
        "claims_scored": len(best),
        "claims_uncited": sum(not claim.citations for claim in stated),
        "pairs_scored": len(scored),
    }


def _spread(values: Sequence[float], supported: int) -> dict[str, float]:
    return {
        "mean": law.halves_up(law.mean(values), 4),
        "minimum": min(values),
        "share_supported": law.halves_up(law.mean([value >= supported for value in values]), 4),
    }


def _told(best: Mapping[str, float], stated: Sequence[Claim], supported: int) -> str:
    backed = sum(value >= supported for value in best.values())
    left = len(stated) - len(best)
    return f"{backed} of {len(best)} claims supported" + (f"; {left} uncited or unscored, not counted" if left else "")


def _claim_row(claim: Claim, best: Mapping[str, float]) -> dict[str, Any]:
    return {
        "claim_id": claim.id,
        "text": claim.text,
        "start": claim.start,
        "end": claim.end,
        "cited": bool(claim.citations),
        "score": best.get(claim.id),
    }


def _sources(scored: Iterable[Finding], supported: int) -> dict[str, dict[str, float]]:
    """Per source: how many pairs, their mean, the lowest, the share that is supported."""
    by_source: dict[str, list[float]] = {}
    for finding in scored:
        if finding.details["source_id"] is not None:
            by_source.setdefault(finding.details["source_id"], []).append(finding.value or 0)
    return {source: {"pairs": len(values), **_spread(values, supported)} for source, values in by_source.items()}


def cause_of(
    record: Record,
    scored: Sequence[Finding],
    best: Mapping[str, float],
    flags: set[str],
    *,
    supported: int,
    backed: float,
) -> RootCause | None:
    """Why the card falls short; None where it doesn't. A claim covered from `backed` on stands in a passage."""
    weak = [finding for finding in scored if best[finding.details["claim_id"]] < supported]
    if not weak and not flags & {"red_flag", "misleading_citation"}:
        return None
    if not weak:
        return law.root_cause(record, citation="misleading_citation" in flags)
    return law.root_cause(record, citation=all(_stands_elsewhere(record, finding, scored, backed) for finding in weak))


def _stands_elsewhere(record: Record, weak: Finding, scored: Sequence[Finding], backed: float) -> bool:
    """Whether a claim stands in a passage other than those it cites."""
    claim = weak.details["claim_id"]
    cited = {finding.details["source_id"] for finding in scored if finding.details["claim_id"] == claim}
    others = [passage.text for passage in record.context if passage.id not in cited]
    held = lexical.compare(weak.details["claim"], lexical.Passages(others)) if others else None
    return bool(weak.details["cited"] and held and held.score >= backed)
