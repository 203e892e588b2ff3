"""The scores the four rubrics publish: their names, ranges and labels, and when one has no value."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """One score as a dashboard shows it: `low` to `high`, what it says, when it is null, the labels it can have.

    `labels` says what they tell, `choices` are the words themselves; a score without them has none.
    """

    name: str
    low: float
    high: float
    says: str
    null: str
    labels: str = ""
    on_request: bool = False
    choices: tuple[str, ...] = ()
    lower_is_better: bool = False


_WHOLE = "never; left out where the card is partial"
_PARTIAL = "never; there only where the card is partial"
_BLIND = "the judge does not assess it"

_SHARES = "none of the claims is verifiable"

_LEVELS = ("Directly Supports", "Strongly Implies", "Partially Supports", "Weakly Related", "No Support / Contradicts")
_ERRORS = ("none", "minor", "moderate", "major", "critical")
_UNSUPPORTED = ("none", "minor", "major", "critical")
_RATINGS = ("Excellent", "Good", "Fair", "Poor", "Unacceptable")

CATALOGUE: tuple[Published, ...] = (
    Published(
        "source_support",
        1,
        5,
        "mean over claims, each by its best passage",
        _WHOLE,
        "the level of the mean",
        choices=_LEVELS,
    ),
    Published("source_support.assessed", 1, 5, "the same over the claims that were assessed", _PARTIAL),
    Published(
        "source_support.min",
        1,
        5,
        "the claim that is backed least",
        "the card is partial",
        "the level of that claim",
        choices=_LEVELS,
    ),
    Published(
        "source_support.citation_precision",
        0,
        1,
        "share of cited pairs that are supported by a quote that holds the claim's own facts",
        "the answer cites nothing, or the card is partial",
    ),
    Published(
        "factual_accuracy",
        0,
        1,
        "share of the verifiable claims that is borne out; partly is half",
        f"{_SHARES}; left out where the card is partial",
        f"the gravest error: {', '.join(_ERRORS)}",
        choices=_ERRORS,
    ),
    Published(
        "factual_accuracy.assessed",
        0,
        1,
        "the same over the claims that were assessed",
        f"{_SHARES}; there only where the card is partial",
    ),
    Published(
        "factual_accuracy.verifiable_share",
        0,
        1,
        "share of the claims that the evidence speaks of",
        "there is no claim",
    ),
    Published(
        "rag_faithfulness",
        1,
        5,
        "mean of the dimensions that apply",
        _WHOLE,
        f"the gravest unsupported claim: {', '.join(_UNSUPPORTED)}",
        choices=_UNSUPPORTED,
    ),
    Published("rag_faithfulness.assessed", 1, 5, "mean of the dimensions that were assessed", _PARTIAL),
    Published("rag_faithfulness.claim_support", 1, 5, "are the claims backed by the passages", _BLIND),
    Published(
        "rag_faithfulness.citation_accuracy",
        1,
        5,
        "do the citations point to what backs their claims",
        f"the answer cites nothing, or {_BLIND}",
    ),
    Published(
        "rag_faithfulness.abstention",
        1,
        5,
        "was it right to answer, or to hold back",
        f"nothing to decide, or {_BLIND}",
    ),
    Published(
        "rag_faithfulness.source_conflict",
        1,
        5,
        "are passages that disagree handled openly",
        f"the passages don't disagree, or {_BLIND}",
    ),
    Published(
        "summary_groundedness",
        1,
        5,
        "mean of the five dimensions",
        _WHOLE,
        f"the rating: {', '.join(_RATINGS)}",
        choices=_RATINGS,
    ),
    Published("summary_groundedness.assessed", 1, 5, "mean of the dimensions that were assessed", _PARTIAL),
    Published("summary_groundedness.factual_consistency", 1, 5, "does what is stated agree with the source", _BLIND),
    Published("summary_groundedness.omission", 1, 5, "is what a reader needs there; 5 is nothing left out", _BLIND),
    Published("summary_groundedness.insertion", 1, 5, "is nothing added; 5 is nothing", _BLIND),
    Published("summary_groundedness.entities", 1, 5, "are names, numbers, dates and relations kept", _BLIND),
    Published("summary_groundedness.causal", 1, 5, "are causes, conditions and order kept", _BLIND),
    Published(
        "summary_groundedness.omission_rate",
        0,
        1,
        "(5 - omission) / 4; rises as it gets worse",
        _BLIND,
        on_request=True,
        lower_is_better=True,
    ),
    Published(
        "summary_groundedness.insertion_rate",
        0,
        1,
        "(5 - insertion) / 4; rises as it gets worse",
        _BLIND,
        on_request=True,
        lower_is_better=True,
    ),
    Published("summary_groundedness.source_fidelity", 1, 5, "the dimension entities", _BLIND, on_request=True),
    Published(
        "summary_groundedness.claim_support_ratio",
        0,
        1,
        "share of the summary's sentences in which no fault is named",
        _BLIND,
        on_request=True,
    ),
)
"""Every score there is, in the order a card has them."""
