"""What of a scorecard a platform is told: the scores that count, or why there are none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from groundtrace.model import Evidence, Receipt, Score, Scorecard
from groundtrace.rubrics.catalogue import CATALOGUE

State: TypeAlias = Literal["written", "unchanged", "kept", "unconfirmed", "failed"]
"""What became of a result on a platform that is read back; one that may have arrived is unconfirmed."""

PREFIX = "groundtrace."
"""Stands before every score's name on a platform, so that it meets no other's."""

NEEDS_REVIEW = "needs_review"
NOT_APPLICABLE = "not_applicable"
NOT_ASSESSED = "not_assessed"
WITHDRAWN = "withdrawn"
"""The label of a score that no longer stands, and, since all that is said of it is this, its content's hash."""


@dataclass(frozen=True, slots=True)
class Result:
    """One line of feedback as a platform shows it. `error` says why a card could not be scored."""

    score: str
    feedback_id: str
    content_hash: str
    value: float | None = None
    label: str | None = None
    explanation: str = ""
    low: float | None = None
    high: float | None = None
    evidence: tuple[Evidence, ...] = ()
    error: str | None = None

    @property
    def name(self) -> str:
        """The score's name on a platform."""
        return PREFIX + self.score


def short(score: str) -> str:
    """A score's name where names are cut by width: its last part, unless another rubric's score ends in the same.

    >>> short("rag_faithfulness"), short("rag_faithfulness.claim_support"), short("rag_faithfulness.assessed")
    ('rag_faithfulness', 'claim_support', 'rag_faithfulness.assessed')
    """
    rubric, _, last = score.partition(".")
    others = {told.name.partition(".")[2] for told in CATALOGUE if told.name.partition(".")[0] != rubric}
    known = any(told.name == score for told in CATALOGUE)
    return last if last and known and last not in others else score


def published(card: Scorecard) -> tuple[str, ...]:
    """The names of the results that are published of a card: its rubric's alone where it is not scored."""
    return tuple(score.name for score in _told(card)) if card.status == "scored" else (card.rubric,)


def _told(card: Scorecard) -> Iterable[Score]:
    """The scores of a scored card without the empty headline of a partial one."""
    if not card.partial:
        return card.scores
    return [score for score in card.scores if score.name != card.rubric or score.value is not None]


def results(card: Scorecard) -> tuple[Result, ...]:
    """What is published of a card.

    A scored card gives one result a score; the empty headline of a partial one is left out, any other score without
    a value says by its label why. A card that waits for a person gives a flag and no number, an unscored one its
    reason.
    """
    digest = card.content_hash
    if card.status != "scored":
        bare = Result(card.rubric, card.feedback_id(card.rubric), digest)
        return (_flagged(bare, card) if card.status == "pending_review" else _failed(bare, card),)
    return tuple(
        Result(
            score=score.name,
            feedback_id=card.feedback_id(score.name),
            content_hash=digest,
            value=score.value,
            label=_why_empty(score.rationale) if score.value is None and not score.label else score.label,
            explanation=score.rationale,
            low=score.low,
            high=score.high,
            evidence=score.evidence,
        )
        for score in _told(card)
    )


def withdrawn(card: Scorecard, published: Iterable[str]) -> tuple[Result, ...]:
    """What takes the place of scores that an earlier version of a card published and this one does not.

    `published` are names of scores that a platform holds; those of other rubrics are left alone.
    """
    now = {result.score for result in results(card)}
    mine = sorted(name for name in published if name.partition(".")[0] == card.rubric and name not in now)
    why = {"pending_review": "a person must decide", "unscored": f"not scored: {card.reason or 'unscored'}"}
    explanation = why.get(card.status, f"the newest card, by {card.judge or card.judge_kind}, has no such score")
    return tuple(
        Result(name, card.feedback_id(name), WITHDRAWN, label=WITHDRAWN, explanation=explanation) for name in mine
    )


def receipts(
    card: Scorecard,
    sink: str,
    states: Mapping[str, State],
    reasons: Mapping[str, str] | None = None,
    over: Iterable[str] = (),
) -> Iterator[Receipt]:
    """One receipt a score, from what became of the results that were due, by feedback id.

    `reasons` are by feedback id, or by state where all of one state share theirs. A score that is not published by
    itself (held back, or an empty headline) shares the fate of its card. One that was withdrawn has a receipt too.
    """
    order: tuple[State, ...] = ("failed", "unconfirmed", "written", "kept", "unchanged")
    told = reasons or {}
    whole = next((state for state in order if state in states.values()), "unchanged")
    digest = card.content_hash
    names = [score.name for score in card.scores] or [card.rubric]
    for name in [*names, *(name for name in over if name not in names)]:
        feedback_id = card.feedback_id(name)
        state = states.get(feedback_id, whole)
        yield Receipt.trusted(
            sink=sink,
            card_id=card.id,
            score=name,
            state=state,
            reason=told.get(feedback_id) or told.get(state),
            feedback_id=feedback_id,
            content_hash=digest,
        )


class Write(Protocol):
    """One result on its way, and what became of it (None: nothing yet)."""

    result: Result
    state: State | None
    reason: str


def receipts_of(
    card: Scorecard, sink: str, writes: Sequence[Write], fate: tuple[State, str] | None = None
) -> Iterator[Receipt]:
    """One receipt a score, from what became of each result; from `fate` where nothing was sent."""
    if fate is not None:
        state, reason = fate
        fates = {result.feedback_id: state for result in results(card)}
        yield from receipts(card, sink, fates, {str(state): reason})
        return
    states: dict[str, State] = {w.result.feedback_id: w.state for w in writes if w.state}
    reasons: dict[str, str] = {w.state: w.reason for w in writes if w.state}
    reasons |= {w.result.feedback_id: w.reason for w in writes}
    ended = (w for w in writes if w.result.label == WITHDRAWN and w.state not in ("unchanged", "kept"))
    yield from receipts(card, sink, states, reasons, [w.result.score for w in ended])


def _flagged(bare: Result, card: Scorecard) -> Result:
    told = "; ".join(f"{review.reason}: {review.note}" if review.note else review.reason for review in card.review)
    return replace(bare, label=NEEDS_REVIEW, explanation=told or "a person must decide")


def _failed(bare: Result, card: Scorecard) -> Result:
    said = [str(card.details.get("rationale") or "")]
    said += [finding.rationale or finding.reason or "" for finding in card.findings if finding.status == "unscored"]
    said += [f"{gap.field} is missing: {gap.reason}" + (f"; {gap.remedy}" if gap.remedy else "") for gap in card.gaps]
    reason = card.reason or "unscored"
    return replace(bare, explanation=next(filter(None, said), reason), error=reason)


def _why_empty(rationale: str) -> str:
    return NOT_ASSESSED if rationale.startswith("not assessed") else NOT_APPLICABLE
