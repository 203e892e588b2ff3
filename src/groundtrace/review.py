"""Which scorecards a human must see, and why; what a human decided; whose word weighs more.

A card waits while it has reviews and no person decided it. Rubrics say what is suspicious; beside that a share of the
cards nothing is wrong with is picked at random, so that labels do not come from suspicious cards alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from groundtrace.errors import PlanError
from groundtrace.model import AUDIT, Label, Review, Score
from groundtrace.sampling import drawn

if TYPE_CHECKING:
    from groundtrace.model import Decision, JudgeKind, Scorecard

_WEIGHT: Mapping[JudgeKind, int] = MappingProxyType({"offline": 1, "llm": 2, "human": 3})


def subject_of(basis: str) -> str:
    """The part of a basis that is equal for the same question and answer, whatever was retrieved and whoever judges."""
    return basis.partition("-")[0]


def is_of(card: Scorecard, basis: str) -> bool:
    """Whether a card is about the question and answer this is the basis of; one that does not say may be."""
    return not (basis and card.basis) or subject_of(basis) == subject_of(card.basis)


TRANSIENT = ("judge_failed", "judge_silent")
"""Reasons that say nothing about the record: such a card is worth asking again."""


def broke(card: Scorecard) -> bool:
    """Whether the judge gave out on the card or a part of it, which says nothing about the record."""
    return card.reason in TRANSIENT or any(finding.reason in TRANSIENT for finding in card.findings)


def stands(known: Scorecard, card: Scorecard) -> bool:
    """Whether a card stays where this one came: its word weighs more, or the judge of this one gave out.

    An outage takes no score away: neither a whole card, nor the headline of one that was assessed in full.
    """
    if outranks(known, card.judge_kind, card.basis):
        return True
    if known.status == "unscored" or not is_of(known, card.basis):
        return False
    return broke(card) and (card.status == "unscored" or (card.partial and not known.partial))


def outranks(known: Scorecard, kind: JudgeKind, basis: str = "") -> bool:
    """Whether a card stands against another by a judge of this kind: a model's against offline, a person's always.

    A card without a score stands against nobody, unless a person decided that it has none; and none stands for what
    another question and answer are the `basis` of, though it has the same id: records of two files may be numbered
    alike.

    >>> from groundtrace.testing import sample_card
    >>> outranks(sample_card(judge_kind="llm"), "offline"), outranks(sample_card(judge_kind="llm"), "llm")
    (True, False)
    """
    if not is_of(known, basis):
        return False
    if known.decided_by == "human":
        return True
    return known.status != "unscored" and _WEIGHT[known.judge_kind] > _WEIGHT[kind]


# --- what a human must see ------------------------------------------------------------------------------------------


def audited(card: Scorecard, rate: float) -> Scorecard:
    """The card, queued for a person where it is of the share (0..1) of unflagged ones that is picked at random.

    The same cards are picked in every run, a smaller share's among a larger one's, whichever traces were sampled. Such
    a review stands for 1 / rate cards, holds nothing back, and is no part of what platforms are told to update.

    >>> from groundtrace.testing import sample_card
    >>> [[(review.reason, review.weight) for review in audited(sample_card(), rate).review] for rate in (0, 1)]
    [[], [('audit', 1.0)]]
    """
    others = tuple(review for review in card.review if review.reason != AUDIT)
    picked = (
        card.status == "scored" and card.decided_by != "human" and not others and drawn("audit", card.id) < rate * 2**64
    )
    reviews = (*others, Review(reason=AUDIT, note=_PICKED, weight=1 / rate)) if picked else others
    return card if reviews == card.review else card.model_copy(update={"review": reviews})


_PICKED = "picked at random among the cards that nobody has to see"


# --- what a human decided -------------------------------------------------------------------------------------------


Ranges: TypeAlias = "Mapping[str, tuple[float, float]]"
"""The scores a card may have, by name: from where to where."""


def decide(card: Scorecard, decision: Decision, ranges: Ranges = MappingProxyType({})) -> Scorecard:
    """The card as a person decided: accepted as it is, with scores corrected, or rejected and without scores.

    It is the person's from now on, final for every judge, and waits for nobody. A corrected score is that score and
    nothing else: a mean over it is corrected by name or stays. Where a corrected value has no label, the label of the
    value before is gone; a correction to null means that the score does not apply. `ranges` are those of its rubric: a
    score the card lacks, as one that was not judged does, can then be given too. PlanError where the decision is not
    about this card, or a correction names no score of it or leaves the score's range.
    """
    _check(card, decision, ranges)
    corrected = {label.score: label for label in decision.labels}
    told = {"state": decision.state, "who": decision.who, "when": decision.when, "why": decision.why}
    told |= {"judge": card.judge, "judge_kind": card.judge_kind}
    before = {score.name: score.value for score in card.scores if score.name in corrected}
    scores = tuple(
        _corrected(score, corrected[score.name], decision) if score.name in corrected else score
        for score in (*card.scores, *_lacking(card, corrected, ranges))
    )
    left: dict[str, object] = {"status": "scored", "reason": None, "scores": _dated(scores, card.rubric, corrected)}
    if decision.state == "rejected":
        left = {"status": "unscored", "reason": "rejected", "scores": ()}
    elif decision.state == "accepted" and card.status == "unscored":
        left = {}
    mine = {"judge": decision.who, "timestamp": decision.when, "review": ()}
    details = {**card.details, "decision": {**told, **({"before": before} if before else {})}}
    return card.model_copy(update={**_PERSONAL, **left, **mine, "details": details})


def _dated(scores: tuple[Score, ...], rubric: str, corrected: Collection[str]) -> tuple[Score, ...]:
    """The scores; a mean nobody corrected does not go on saying which of the corrected scores it was made from."""
    means = {rubric, f"{rubric}.assessed"} - {*corrected}
    others = len({*corrected} - {rubric, f"{rubric}.assessed"})
    if not others:
        return scores
    said = f"as the judge had it; {others} other score{' was' if others == 1 else 's were'} corrected since"
    return tuple(score.model_copy(update={"rationale": said}) if score.name in means else score for score in scores)


_PERSONAL: Mapping[str, object] = MappingProxyType(
    {
        "judge_kind": "human",
        "decided_by": "human",
        "temperature": None,
        "confidence": None,
        "calibration": None,
        "limits": "",
    }
)
"""A card in a person's hands: what is known of its judge is not known of the person."""


def labels(card: Scorecard, decision: Decision, ranges: Ranges = MappingProxyType({})) -> tuple[Label, ...]:
    """What a decision on this card, as it was before, says about its judge: the scores confirmed, or those corrected.

    A correction confirms no other score, a rejection says nothing of any. On a partial card a score without a value is
    one the judge could not assess, and accepting it says nothing. Each weighs as the card was picked. `ranges` are as
    in `decide`.
    """
    _check(card, decision, ranges)
    weight = min((review.weight for review in card.review), default=1.0)
    told = {"who": decision.who, "when": decision.when, "weight": weight}
    if decision.state == "accepted":
        return tuple(
            Label(card_id=card.id, score=score.name, value=score.value, label=score.label, why=decision.why, **told)
            for score in card.scores
            if card.status != "unscored" and (score.value is not None or not card.partial)
        )
    if decision.state == "rejected":
        return ()
    return tuple(
        label.model_copy(update={**told, "card_id": card.id, "why": label.why or decision.why})
        for label in decision.labels
    )


def _lacking(card: Scorecard, named: Iterable[str], ranges: Ranges) -> Iterator[Score]:
    """The scores a person names and the card lacks."""
    known = {score.name for score in card.scores}
    for name in named:
        if name not in known:
            yield Score(name=name, value=None, low=ranges[name][0], high=ranges[name][1])


def _check(card: Scorecard, decision: Decision, ranges: Ranges) -> None:
    if decision.card_id != card.id:
        raise PlanError("card", decision.card_id, f"is not the card decided here, {card.id}")
    if not decision.who.strip():
        raise PlanError("who", decision.who, "is no name", hint="a decision says whose it is")
    if bool(decision.labels) != (decision.state == "corrected"):
        hint = "a correction names scores; who accepts or rejects a card corrects none"
        raise PlanError("correct", len(decision.labels), f"corrections of a card that is {decision.state}", hint=hint)
    scores = {**ranges, **{score.name: (score.low, score.high) for score in card.scores}}
    seen: set[str] = set()
    for label in decision.labels:
        if label.score not in scores:
            hint = "" if scores else "the card has no scores"
            raise PlanError("correct", label.score, "is no score of this card", valid=scores, hint=hint)
        if label.score in seen:
            raise PlanError("correct", label.score, "is corrected twice")
        seen.add(label.score)
        low, high = scores[label.score]
        if label.value is not None and not low <= label.value <= high:
            raise PlanError(label.score, label.value, f"is outside the score's range, {low:g} to {high:g}")


def _corrected(score: Score, label: Label, decision: Decision) -> Score:
    """The score as the person has it, and why; what the judge quoted for its own stays with the findings."""
    same = label.value == score.value
    before = "null" if score.value is None else f"{round(score.value, 2):g}"
    said = "does not apply" if label.value is None else "corrected" if same else f"corrected from {before}"
    why = label.why or decision.why
    return score.model_copy(
        update={
            "value": label.value,
            "label": score.label if same and label.label is None else label.label,
            "rationale": f"{said}, says {decision.who}" + (f": {why}" if why else ""),
            "evidence": (),
        }
    )
