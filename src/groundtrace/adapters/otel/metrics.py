"""What is counted and measured of scores, once for every way out: few names, few labels, no ids.

The names are OpenTelemetry's form; Prometheus has `_` for each dot and `_total` after a counter. A score's histogram
has edges at every whole and half step of both scales, and says which of them it is on (`groundtrace.scale`): a share of
low scores is read from one bucket. Loads no SDK: a meter is handed in.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from groundtrace.adapters.marks import Marks
from groundtrace.adapters.published import State, receipts, results
from groundtrace.model import Receipt, Scorecard

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

SCORE = "groundtrace.evaluation.score"
CARDS = "groundtrace.evaluation.cards"
UNSCORED = "groundtrace.evaluation.unscored"
REVIEW = "groundtrace.evaluation.review"
ERRORS = "groundtrace.judge.errors"
COST = "groundtrace.judge.cost"

NAME, SCALE, RUBRIC = "gen_ai.evaluation.name", "groundtrace.scale", "groundtrace.rubric.name"
KIND, STATUS, REASON = "groundtrace.judge.kind", "groundtrace.status", "groundtrace.reason"

BUCKETS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
"""Upper edges for scores from 0 to 1 and from 1 to 5; numbers with a point, so that every version writes `le="2.0"`."""

OTHER = "other"
_WORD = re.compile("[a-z][a-z0-9_]{0,40}")


class Measures(NamedTuple):
    """What of a card is counted and measured: plain values, for a process that has no SDK."""

    rubric: str
    judge_kind: str
    status: str
    scores: tuple[tuple[str, float, str], ...]
    """Name, value, and the scale it is on."""
    unscored: str | None
    review: frozenset[str]
    faults: int
    cost: float


def measures(card: Scorecard) -> Measures:
    """What a card adds to the counts.

    >>> from groundtrace.testing import sample_card
    >>> measures(sample_card()).scores
    (('groundtrace.source_support', 4.0, '1-5'),)
    """
    published = results(card)
    return Measures(
        rubric=card.rubric,
        judge_kind=card.judge_kind,
        status=card.status,
        scores=tuple(
            (told.name, float(told.value), f"{told.low or 0:g}-{1.0 if told.high is None else told.high:g}")
            for told in published
            if told.value is not None
        ),
        unscored=_word(card.reason or "unscored") if card.status == "unscored" else None,
        review=frozenset(_word(review.reason) for review in card.review),
        faults=sum(bool(attempt.faults) for attempt in card.attempts),
        cost=sum(attempt.cost or 0.0 for attempt in card.attempts if not attempt.cached),
    )


def _word(reason: str) -> str:
    """A reason as a label: one of few words, never a sentence."""
    return reason if _WORD.fullmatch(reason) else OTHER


class Instruments:
    """The instruments, made on a meter."""

    def __init__(self, meter: Meter) -> None:
        self._score = meter.create_histogram(
            SCORE,
            unit="1",
            description="Scores, by name and scale",
            explicit_bucket_boundaries_advisory=list(BUCKETS),
        )
        self._cards = meter.create_counter(CARDS, unit="{card}", description="Cards, by rubric and what became of them")
        self._unscored = meter.create_counter(
            UNSCORED, unit="{card}", description="Cards that could not be scored, by why"
        )
        self._review = meter.create_counter(
            REVIEW,
            unit="{card}",
            description="Cards a person should look at, by why; one card may have several reasons",
        )
        self._errors = meter.create_counter(
            ERRORS, unit="{reply}", description="Replies of a judge that were not valid, and replies that never came"
        )
        self._cost = meter.create_counter(
            COST, unit="{USD}", description="What a judge's replies cost, in US dollars, as far as their price is known"
        )

    def take(self, card: Measures) -> None:
        """Count a card in."""
        by = {RUBRIC: card.rubric, KIND: card.judge_kind}
        for name, value, scale in card.scores:
            self._score.record(value, {NAME: name, SCALE: scale, KIND: card.judge_kind})
        self._cards.add(1, by | {STATUS: card.status})
        if card.unscored is not None:
            self._unscored.add(1, by | {REASON: card.unscored})
        for why in sorted(card.review):
            self._review.add(1, by | {REASON: why})
        if card.faults:
            self._errors.add(card.faults, by)
        if card.cost:
            self._cost.add(card.cost, by)


class Counted:
    """What this process counted at one place: each card once, and again when its content changed."""

    def __init__(self, meter: Meter) -> None:
        self._instruments = Instruments(meter)
        self._seen = Marks()
        self._lock = threading.Lock()
        self.behind = False
        """Whether what was counted could not be told of: the next time tells of it too."""

    def take(self, cards: Iterable[Scorecard]) -> list[bool]:
        """Count cards in; of each whether it was new."""
        with self._lock:
            return [self._take(card) for card in cards]

    def _take(self, card: Scorecard) -> bool:
        new = self._seen.add((card.id, card.content_hash))
        if new:
            self._instruments.take(measures(card))
        return new

    def told(self, cards: Sequence[Scorecard], sink: str, tell: Callable[[bool], str]) -> Iterator[Receipt]:
        """Count cards in and tell of all that was counted; what became of each score.

        `tell` hears whether there is anything new, and says why it could not be told.
        """
        new = self.take(cards)
        behind = self.behind
        reason = tell(behind or any(new))
        self.behind = bool(reason)
        for card, fresh in zip(cards, new, strict=True):
            state: State = "failed" if reason else "written" if fresh or behind else "unchanged"
            states = {result.feedback_id: state for result in results(card)}
            yield from receipts(card, sink, states, {"failed": reason})
