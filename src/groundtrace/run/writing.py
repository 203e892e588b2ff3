"""The sinks of one source, told in batches; the memory knows of every write before it leaves."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from groundtrace.adapters.published import results
from groundtrace.memory import InMemory
from groundtrace.model import Intent, Receipt
from groundtrace.review import outranks
from groundtrace.run.holds import key_of
from groundtrace.run.isolated import Isolated
from groundtrace.tally import Report

if TYPE_CHECKING:
    from groundtrace.model import JudgeKind, Record, Reply, Scorecard
    from groundtrace.ports import Memory, Sink
    from groundtrace.run.holds import Holds

BATCH = 16
"""Cards written at once: few enough that a run cut short loses little, enough that files are not opened for each."""

_REPLIES = 4096
"""Replies kept within a run, so that equal questions close to each other are asked once."""


@dataclass(frozen=True)
class Door:
    """A sink, what the report calls it, and the place it is, whatever folder a run is started in.

    One that reads back what it holds is asked every time; of another the memory knows what it holds.
    """

    shown: str
    sink: Sink

    @property
    def place(self) -> str:
        """The same for the same files or the same platform."""
        files = [str(Path(file).absolute()) for file in getattr(self.sink, "files", ())]
        return ", ".join(files) or self.shown

    @property
    def reads_back(self) -> bool:
        """Whether it looks at its own files before it writes."""
        return bool(getattr(self.sink, "files", ()))


class Writing:
    """Writes the cards of one source; `kind` is the judge's whose run this is."""

    def __init__(
        self,
        doors: Sequence[Door],
        memory: Memory,
        holds: Holds | None,
        kind: JudgeKind,
        *,
        headline_only: bool = False,
    ) -> None:
        self._headline_only = headline_only
        self._doors, self._memory, self._holds, self._kind = doors, memory, holds, kind
        self._waiting: list[Scorecard] = []
        self._finished: list[str] = []
        self._tried: set[tuple[str, str]] = set()
        self.vain = 0
        """Batches in a row of which every write to every sink failed."""
        self.report = Report()

    def take(self, card: Scorecard) -> None:
        """Write a card, now or with the next few."""
        if not self._still_ours(card):
            return
        kept = self._kept(card)
        self.report += Report.of_card(kept)
        self._waiting.append(self._told(kept))
        if len(self._waiting) >= BATCH:
            self.flush()

    def finish(self, trace: str | None) -> None:
        """A trace is given back with the next batch, when all of it is written."""
        if trace is not None:
            self._finished.append(trace)

    def flush(self) -> None:
        """Write what waits to every sink; one that fails keeps no other from its cards."""
        cards, self._waiting = self._waiting, []
        finished, self._finished = self._finished, []
        went: Counter[str] = Counter()
        for door in self._doors if cards else ():
            went += self._through(door, cards)
        if self._holds is not None and finished:
            with self._memory.batch():
                self._holds.release(finished)
        self.vain = self.vain + 1 if set(went) == {"failed"} else self.vain if not cards else 0

    def left_over(self) -> None:
        """Write what earlier runs meant to write to these sinks and could not; what another run writes now is its."""
        places = {door.place: door for door in self._doors}
        due: dict[str, set[str]] = {}
        for intent in self._memory.outbox():
            if intent.sink in places and (intent.sink, intent.card_id) not in self._tried:
                due.setdefault(intent.card_id, set()).add(intent.sink)
        for ident, sinks in due.items():
            card = self._memory.card(ident)
            if card is None or card.emptied or (self._holds and not self._holds.take(key_of(card.ref))):
                continue
            for place in sorted(sinks):
                self._through(places[place], [self._told(card)])
            if self._holds is not None:
                self._holds.release([key_of(card.ref)])

    def note(self, what: str) -> None:
        """Note what was lost."""
        self.report += Report(notes=(what,))

    def fail(self, why: str) -> None:
        """Note what a platform or a plugin refused."""
        self.report += Report(failed=(why,))

    def _told(self, card: Scorecard) -> Scorecard:
        """What of a card the sinks are given."""
        return headline(card) if self._headline_only else card

    def _still_ours(self, card: Scorecard) -> bool:
        if self._holds is None or self._holds.held(key_of(card.ref)):
            return True
        self.report += Report(held=1)
        return False

    def _kept(self, card: Scorecard) -> Scorecard:
        """The card that counts from now on: this one, or one whose word weighs more and came in between."""
        newest = self._memory.card(card.id)
        if newest is None or not outranks(newest, self._kind, card.basis):
            if newest is None or _kept_of(newest) != _kept_of(card):
                self._memory.keep_card(card)
            return card
        scores = sum(score.value is not None for score in newest.scores)
        self.report += Report(kept={newest.judge_kind: scores})
        return card if card.content_hash == newest.content_hash else newest

    def _through(self, door: Door, cards: Sequence[Scorecard]) -> Counter[str]:
        """Write cards to one sink; how many of their scores became what."""
        states: Counter[str] = Counter()
        with self._memory.batch():
            known, left = self._due(door, cards)
        asked = {card_id for card_id, _ in left}
        standing = {(receipt.card_id, receipt.score) for receipt in known}
        written = list(self._written(door, cards, left))
        with self._memory.batch():
            for receipt in written:
                if receipt.state != "unchanged" or (receipt.card_id, receipt.score) not in standing:
                    self._memory.keep_receipt(receipt.model_copy(update={"sink": door.place}))
        receipts = [*(receipt for receipt in known if receipt.card_id not in asked), *written]
        for receipt in receipts:
            states[receipt.state] += 1
            if receipt.state == "failed":
                self.fail(f"writing to {door.shown}: {receipt.reason}")
        self.report += Report(receipts={door.shown: dict(states)})
        return states

    def _due(self, door: Door, cards: Sequence[Scorecard]) -> tuple[list[Receipt], dict[tuple[str, str], Intent]]:
        """What a sink is known to hold already, and what it is to be given: noted before it leaves."""
        known: list[Receipt] = []
        left: dict[tuple[str, str], Intent] = {}
        for card in cards:
            self._tried.add((door.place, card.id))
            for told in results(card):
                intent = Intent(
                    sink=door.place,
                    card_id=card.id,
                    score=told.score,
                    feedback_id=told.feedback_id,
                    content_hash=told.content_hash,
                )
                receipt = self._memory.intend(intent)
                if receipt is None or door.reads_back:
                    left[intent.card_id, intent.score] = intent
                if receipt is not None:
                    known.append(receipt.model_copy(update={"state": "unchanged"}))
        return known, left

    def _written(
        self, door: Door, cards: Sequence[Scorecard], left: dict[tuple[str, str], Intent]
    ) -> Iterator[Receipt]:
        """What became of every score that was due."""
        ids, said = {card_id for card_id, _ in left}, list[str]()
        bare = {card.id for card in cards if card.status != "scored"}
        spoken: set[str] = set()
        with Isolated("", said.append):
            for receipt in door.sink.write([card for card in cards if card.id in ids]) if ids else ():
                left.pop((receipt.card_id, receipt.score), None)
                spoken.add(receipt.card_id)
                yield receipt.model_copy(update={"sink": door.shown})
        for intent in left.values():
            if said:
                yield Receipt(**intent.model_dump(), state="failed", reason=said[0])
            elif intent.card_id not in bare or intent.card_id in spoken:  # of what has no score a sink may be silent
                yield Receipt(**intent.model_dump(), state="unconfirmed", reason="the sink said nothing about it")


def headline(card: Scorecard) -> Scorecard:
    """The card with its rubric's own score alone; of a partial one with the mean of what was assessed."""
    names = {card.rubric} if card.headline and card.headline.value is not None else {f"{card.rubric}.assessed"}
    scores = tuple(score for score in card.scores if score.name in names)
    return card.model_copy(update={"scores": scores or tuple(s for s in card.scores if s.name == card.rubric)})


def _kept_of(card: Scorecard) -> tuple[object, ...]:
    """What a version in the memory is known by; reviews too, for who is picked at random is no content."""
    return card.basis, card.content_hash, [(review.reason, review.weight) for review in card.review]


class Passing(InMemory):
    """The memory of a run nobody asks afterwards: the newest replies and nothing else, so that it never grows."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: OrderedDict[tuple[str, str], Reply] = OrderedDict()

    def reply(self, judge: str, digest: str) -> Reply | None:
        """An accepted reply of this run to an equal question, or None."""
        return self._newest.get((judge, digest))

    def keep_reply(self, judge: str, digest: str, reply: Reply, faults: tuple[str, ...], **_: str) -> None:
        """Keep a reply for a while."""
        with self._lock:
            self._pay(reply)
        if not faults and reply.fault is None:
            self._newest[judge, digest] = reply
            if len(self._newest) > _REPLIES:
                self._newest.popitem(last=False)

    def keep_record(self, record: Record) -> None:
        """Records go to the judge."""

    def keep_card(self, card: Scorecard) -> None:
        """Cards go to the sinks."""

    def intend(self, intent: Intent) -> Receipt | None:
        """The sinks know what they hold."""

    def keep_receipt(self, receipt: Receipt) -> None:
        """The report counts them."""
