"""A cheap judge first; only what it doubts goes to the full one, as a new question.

Both are held to the same gate, at most two attempts each. What the cheap judge said of a doubtful card stays in the
memory as an earlier version of the full judge's, unless its word weighs less than what stood there before. A cheap
card that would lose against what stands is doubtful too: the full judge's word may take that place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groundtrace.errors import PlanError
from groundtrace.evaluate import evaluate, never
from groundtrace.model import AUDIT
from groundtrace.review import broke, is_of, outranks, subject_of

if TYPE_CHECKING:
    from groundtrace.model import Record, Ref, Scorecard
    from groundtrace.ports import Judge, Memory, Rubric

BAND = (0.4, 0.8)
"""Between these, on 0..1, a cheap judge's score is borderline."""

_DRAIN = 256
"""Cards of the cheap judge held back at most while it is looking for the next one it doubts."""

_FAULTS = ("judge_failed", "judge_silent", "invalid_verdict")
"""Reasons of unscored cards that another judge may do better than."""


def cascade(
    records: Iterable[Record],
    rubrics: Sequence[Rubric],
    cheap: Judge,
    full: Judge,
    *,
    band: tuple[float, float] = BAND,
    memory: Memory | None = None,
    referrals: Mapping[str, Rubric] | None = None,
    batch_id: str = "",
    finished: Callable[[Record], None] | None = None,
    stopping: Callable[[], bool] | None = None,
) -> Iterator[Scorecard]:
    """Score records with a cheap judge, and what it doubts once more with the full one; see `evaluate` and `doubtful`.

    A card says in `decided_by` whose it is. One that either judge gave before for the same record is given again
    without asking. PlanError where both judges are the same, or the band is none.
    """
    check_band("band", band)
    check_judges(cheap, full)
    both = _Both(band, memory, cheap, records, finished, rubrics={rubric.name for rubric in rubrics})
    known = {rubric.name: rubric for rubric in (*(referrals or {}).values(), *rubrics)}
    first = evaluate(
        both.opened(),
        rubrics,
        cheap,
        memory=memory,
        referrals=referrals,
        batch_id=batch_id,
        finished=both.close,
        stopping=stopping,
        deeper=full,
    )

    def asked() -> Iterator[Scorecard]:
        return evaluate(
            both.doubted(first),
            tuple(known.values()),
            full,
            memory=memory,
            referrals=referrals,
            batch_id=batch_id,
            stopping=stopping,
            wanted=both.wants,
            sent=both.sent,
        )

    return both.cards(asked, first, stopping or never)


def check_judges(cheap: Judge, full: Judge) -> None:
    """Refuse a cascade of one judge: PlanError."""
    if cheap.id == full.id:
        raise PlanError("cascade", full.id, "is the judge that is asked first", hint="name another judge")


def check_band(key: str, band: tuple[float, float]) -> None:
    """Refuse a band that is no part of 0 to 1, under the name it was given by: PlanError."""
    if not 0 <= band[0] <= band[1] <= 1:
        raise PlanError(key, list(band), "is no part of 0 to 1", hint=f"write {list(BAND)}")


def doubtful(card: Scorecard, band: tuple[float, float] = BAND) -> bool:
    """Whether a cheap judge's card needs a better judge: flagged for review, partial, failed, or within the band.

    What a rule decided is the same under every judge.

    >>> from groundtrace.model import Score
    >>> from groundtrace.testing import sample_card
    >>> [doubtful(sample_card(Score(name="source_support", value=v, low=1, high=5))) for v in (1, 3, 5)]
    [False, True, False]
    """
    if card.decided_by == "rule" and not card.partial:
        return False
    if card.partial or card.reason in _FAULTS or any(review.reason != AUDIT for review in card.review):
        return True
    unit = card.headline.unit if card.headline else None
    return unit is not None and band[0] <= unit <= band[1]


@dataclass
class _Held:
    """Records of one id, how many of their cards were not handed out yet, how many had their last one made.

    `asked` are the rubrics they were sent on to.
    """

    records: list[Record] = field(default_factory=list)
    left: int = 0
    closed: int = 0
    asked: set[str] = field(default_factory=set)


class _Both:
    """What is between the two judges; everything but `cards` may run in the full judge's threads, one at a time."""

    def __init__(
        self,
        band: tuple[float, float],
        memory: Memory | None,
        cheap: Judge,
        records: Iterable[Record],
        tell: Callable[[Record], None] | None,
        *,
        rubrics: AbstractSet[str],
    ) -> None:
        self._band, self._memory, self._cheap, self._records, self._tell = band, memory, cheap, records, tell
        self._rubrics = rubrics
        self._drafts: dict[str, Scorecard] = {}
        self._held: dict[tuple[Ref, str], _Held] = {}
        self._standing: deque[Scorecard] = deque()
        self._over: deque[Record] = deque()
        self._rubric = ""
        self._exhausted = False

    def opened(self) -> Iterator[Record]:
        """The records, known by id until their last card is handed out."""
        for record in self._records:
            self._held.setdefault((record.ref, record.id), _Held()).records.append(record)
            yield record

    def close(self, record: Record) -> None:
        """The cheap judge is done with a record."""
        key = (record.ref, record.id)
        self._held[key].closed += 1
        self._settle(key)

    def doubted(self, first: Iterator[Scorecard]) -> Iterator[Record]:
        """The records of doubtful cards; ends early when many others wait to be handed out."""
        while len(self._standing) < _DRAIN:
            card = next(first, None)
            if card is None:
                self._exhausted = True
                return
            held = self._held[card.ref, card.record_id]
            held.left += 1
            held.asked.update(card.refer)
            ours = card.judge == self._cheap.id and card.decided_by != "human"
            if ours and card.decided_by != "rule":
                card = card.model_copy(update={"decided_by": "cheap"})
            if not (ours and (doubtful(card, self._band) or self._loses(card))):
                self._standing.append(card)
                continue
            self._drafts[card.id] = card
            self._rubric = card.rubric
            yield held.records[-1]

    def wants(self, rubric: Rubric) -> bool:
        """Whether the record just given is doubtful under this rubric."""
        return rubric.name == self._rubric

    def sent(self, record: Record, rubric: str) -> bool:
        """Whether the full judge is to put a record to this rubric too, because of its own card; then one more is due.

        Not where every record is put to it, or the cheap judge's card had sent this one there.
        """
        held = self._held[record.ref, record.id]
        if rubric in self._rubrics or rubric in held.asked:
            return False
        held.asked.add(rubric)
        held.left += 1
        return True

    def _loses(self, card: Scorecard) -> bool:
        """Whether another card stands against the cheap judge's."""
        known = self._memory.card(card.id, subject_of(card.basis)) if self._memory else None
        return known is not None and outranks(known, card.judge_kind, card.basis)

    def _keep_draft(self, card: Scorecard) -> None:
        """Keep what the cheap judge said of a card the full one decided, as its earlier version.

        Not before, for a draft that is the newest version would count. It displaces nothing that weighs more.
        """
        draft = self._drafts.pop(card.id, None)
        if draft is None or self._memory is None or broke(card) or not is_of(draft, card.basis):
            return
        if not self._loses(draft) and not outranks(draft, card.judge_kind, card.basis):
            self._memory.keep_card(draft)

    def cards(
        self, asked: Callable[[], Iterator[Scorecard]], first: Iterator[Scorecard], stopping: Callable[[], bool]
    ) -> Iterator[Scorecard]:
        """All cards as they are settled; `asked` gives those of the full judge, a stretch at a time.

        After a stop the cheap judge's cards that stand are given; of those it doubts none is.
        """
        while not self._exhausted:
            if stopping():
                deque(self.doubted(first), maxlen=0)
            else:
                for card in asked():
                    self._keep_draft(card)
                    yield from self._handed([card])
                    yield from self._handed(self._stood())
            yield from self._handed(self._stood())

    def _stood(self) -> Iterator[Scorecard]:
        while self._standing:
            yield self._standing.popleft()

    def _handed(self, cards: Iterable[Scorecard]) -> Iterator[Scorecard]:
        for card in cards:
            yield card
            key = (card.ref, card.record_id)
            self._held[key].left -= 1
            self._settle(key)
        while self._over:
            record = self._over.popleft()
            if self._tell is not None:
                self._tell(record)

    def _settle(self, key: tuple[Ref, str]) -> None:
        held = self._held[key]
        if held.left == 0 and held.closed == len(held.records):
            self._over.extend(self._held.pop(key).records)
