"""What a person is asked about a scorecard on a platform, and which card first."""

from __future__ import annotations

from groundtrace.model import Scorecard
from groundtrace.rubrics.catalogue import CATALOGUE, Published


def asked() -> tuple[Published, ...]:
    """All scores a person may be asked for that are ours."""
    return tuple(told for told in CATALOGUE if not told.on_request and not told.name.endswith(".assessed"))


def questions(card: Scorecard) -> tuple[Published, ...]:
    """The scores a person is asked for: those of the rubric, or of the card where the rubric is not ours."""
    ours = tuple(told for told in asked() if told.name.partition(".")[0] == card.rubric)
    return ours or tuple(Published(score.name, score.low, score.high, "", "") for score in card.scores)


def levels(told: Published) -> dict[float, str]:
    """The words for each whole number of a score, the best first; none where not each number has one.

    >>> levels(Published("support", 1, 3, "", "", choices=("full", "partial", "none")))
    {3: 'full', 2: 'partial', 1: 'none'}
    """
    steps = range(int(told.high), int(told.low) - 1, -1)
    return dict(zip(steps, told.choices, strict=True)) if len(told.choices) == len(steps) else {}


def urgency(card: Scorecard) -> tuple[bool, float, str]:
    """Sorts cards for people: what is looked at now first, then the lowest score on its own range."""
    weakest = card.weakest
    return card.waits != "now", (weakest.unit if weakest is not None else None) or 0.0, card.id
