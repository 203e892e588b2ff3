"""The sinks of one source, told in batches; the memory knows of every write before it leaves."""

from __future__ import annotations

import functools
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from groundtrace.adapters.marks import Marks
from groundtrace.adapters.published import published
from groundtrace.memory import InMemory
from groundtrace.model import Intent, Receipt
from groundtrace.review import is_of, outranks, stands, subject_of
from groundtrace.run.holds import key_of
from groundtrace.run.isolated import Isolated
from groundtrace.tally import Report

if TYPE_CHECKING:
    from groundtrace.model import JudgeKind, Record, Reply, Scorecard
    from groundtrace.ports import Memory, Sink
    from groundtrace.run.holds import Holds

BATCH = 16
"""Cards written at once: few enough that a run cut short loses little, enough that files are not opened for each."""

_MOST, _SOON = 2 * BATCH, 0.25
"""Cards written at once where they come quickly, and the seconds after a batch within which more than `BATCH` wait: one
lock, look-up and word to the disk is then shared by many. Only where somebody says when no more come (`rest`); and no
more of them, for a judge's places stand idle while many are written."""

_LEFT_OUT = "partial and not sent"
"""What the report calls a card that has nothing to send."""

_NO_HEADLINE = "a partial card has no score of its rubric's own: where the headline alone is sent, nothing of it is"
_REPLIES = 4096
"""Replies kept within a run, so that equal questions close to each other are asked once."""


@dataclass(frozen=True)
class Door:
    """A sink, what the report calls it, and the place it is, whatever folder a run is started in.

    One that reads back what it holds is asked every time; of another the memory knows what it holds.
    """

    shown: str
    sink: Sink

    @functools.cached_property
    def place(self) -> str:
        """The same for the same files or the same platform."""
        files = [str(Path(file).absolute()) for file in getattr(self.sink, "files", ())]
        return ", ".join(files) or self.shown

    @functools.cached_property
    def reads_back(self) -> bool:
        """Whether it looks at what is there before it writes."""
        return bool(getattr(self.sink, "reads_back", getattr(self.sink, "files", ())))


class _Leaving(NamedTuple):
    """A card on its way out: as judged, as it is kept and as sinks are told it (None: not), and what is counted."""

    card: Scorecard
    kept: Scorecard | None
    told: Scorecard | None
    reports: tuple[Report, ...]


_Due: TypeAlias = "tuple[list[Receipt], dict[tuple[str, str], Intent]]"
"""What a sink is known to hold already, and what it is to be given, by card and score."""


class Writing:
    """Writes the cards of one source; `kind` is the judge's whose run this is.

    With `rests` somebody calls `rest` where no more cards come for a while, so that more may wait where many come.
    """

    def __init__(
        self,
        doors: Sequence[Door],
        memory: Memory,
        holds: Holds | None,
        kind: JudgeKind,
        *,
        headline_only: bool = False,
        rests: bool = False,
    ) -> None:
        self._headline_only = headline_only
        self._doors, self._memory, self._holds, self._kind = doors, memory, holds, kind
        self._waiting: dict[str, _Leaving] = {}
        self._finished: list[str] = []
        self._tried = Marks()
        """The cards each place was given: by number (from 1) which scores of `_names`; 0 where that failed."""
        self._names: dict[tuple[str, ...], int] = {}
        self._lost: set[str] = set()
        own = [size for door in doors if isinstance(size := getattr(door.sink, "batch", None), int)]
        self.batch = max([BATCH, *own])
        """Cards written at once: more where a sink asks its platform before each batch, and may ask but rarely."""
        self._most = _MOST if rests and not own else self.batch
        self._grows = 0.0
        """Until when more than that may wait, by a clock that is never set: only after a batch that reached a sink."""
        self.vain = 0
        """Batches in a row of which every write to every sink failed."""
        self.lost = 0
        """The cards in them."""
        self.report = Report()

    def take(self, card: Scorecard) -> None:
        """Write a card, now or with the next few."""
        if not self._is_ours(card):
            return
        if card.id in self._waiting:  # what is kept by now decides on it
            self.flush()
        counts, kept, stood = self._kept(card)
        asked_now = counts if counts is card else counts.model_copy(update={"attempts": card.attempts})
        told = self._told(counts)
        goes = bool(told.scores) or told.status != "scored"
        reports = (*stood, Report.of_card(asked_now), *(() if goes else (self._left_out(),)))
        self._waiting[card.id] = _Leaving(card, kept, told if goes else None, reports)
        waiting = len(self._waiting)
        if waiting >= self._most or (waiting >= self.batch and time.monotonic() >= self._grows):
            self.flush()

    def rest(self) -> None:
        """Write what waits: no more come just now."""
        if self._waiting or self._finished:
            self.flush()

    def finish(self, trace: str | None) -> None:
        """A trace is given back with the next batch, when all of it is written."""
        if trace is not None:
            self._finished.append(trace)

    def flush(self) -> None:
        """Keep and write what waits, to every sink; one that fails keeps no other from its cards."""
        leaving, self._waiting = [one for one in self._waiting.values() if self._is_ours(one.card)], {}
        finished, self._finished = self._finished, []
        went = self._out(leaving)
        if self._holds is not None and finished:
            with self._memory.batch():
                self._holds.release(finished)
        if set(went) == {"failed"}:
            self.vain, self.lost, self._grows = self.vain + 1, self.lost + len(leaving), 0.0
        elif any(one.told is not None for one in leaving):
            self.vain, self.lost, self._grows = 0, 0, time.monotonic() + _SOON

    def _out(self, leaving: Sequence[_Leaving]) -> Counter[str]:
        """Keep cards, count them, and write those that are to be written; how many of their scores became what.

        Where they can't be kept together each is tried alone: what comes before the one that can't be is written.
        """
        cards = [one.told for one in leaving if one.told is not None]
        first: _Due = ([], {})
        try:
            with self._memory.batch():  # with what the first sink is to be given: before anything leaves
                for one in leaving:
                    if one.kept is not None:
                        self._memory.keep_card(one.kept)
                if cards and self._doors:
                    first = self._due(self._doors[0], cards)
        except Exception:  # whatever it is, it comes again for the card it is about
            if len(leaving) == 1:
                raise
            return sum((self._out([one]) for one in leaving), Counter[str]())
        self.report = Report.total((self.report, *(report for one in leaving for report in one.reports)))
        went: Counter[str] = Counter()
        for at, door in enumerate(self._doors if cards else ()):
            went += self._through(door, cards, first if at == 0 else None)
        return went

    def left_over(self) -> None:
        """Write what earlier runs meant to write to these sinks and could not; what another run writes now is its.

        What is due for a score the card has no more is nobody's: once the card is written, it is forgotten.
        """
        places = {door.place: door for door in self._doors}
        due: dict[tuple[str, str], list[Intent]] = {}
        for intent in self._memory.outbox():
            where = intent.sink, intent.card_id
            written = self._given(where)
            if intent.sink in places and (written is None or (written and intent.score not in written)):
                due.setdefault(where, []).append(intent)
        for (place, ident), intents in due.items():
            card = self._meant(ident, intents[-1])
            if card is None or card.emptied or (self._holds and not self._holds.take(key_of(card.ref))):
                continue
            if (place, ident) not in self._tried:
                self._through(places[place], [self._told(card)])
            written = self._given((place, ident))
            with self._memory.batch():
                for intent in intents:
                    if written and intent.score not in written:
                        self._memory.forget(intent)
            if self._holds is not None:
                self._holds.release([key_of(card.ref)])

    def _given(self, where: tuple[str, str]) -> tuple[str, ...] | None:
        """The scores a place was given of a card in this run; none where one failed, None where it was not tried."""
        tried = self._tried.get(where)
        if tried is None:
            return None
        return next((names for names, number in self._names.items() if number == tried), ())

    def _meant(self, ident: str, intent: Intent) -> Scorecard | None:
        """The card a write is due for, in its newest version: another file's record may be numbered alike."""
        newest = self._memory.card(ident)
        if newest is None or newest.content_hash == intent.content_hash:
            return newest
        of = newest
        for card in self._memory.history(ident):
            if intent.content_hash in (card.content_hash, self._told(card).content_hash):
                of = card
        return newest if is_of(newest, of.basis) else self._memory.card(ident, subject_of(of.basis))

    def note(self, what: str) -> None:
        """Note what was lost."""
        self.report += Report(notes=(what,))

    def fail(self, why: str) -> None:
        """Note what a platform or a plugin refused."""
        self.report += Report(failed=(why,))

    def _told(self, card: Scorecard) -> Scorecard:
        """What of a card the sinks are given."""
        return headline(card) if self._headline_only else card

    def _left_out(self) -> Report:
        """What is said of a partial card of which no sink is given anything."""
        return Report(receipts={door.shown: {_LEFT_OUT: 1} for door in self._doors}, notes=(_NO_HEADLINE,))

    def _is_ours(self, card: Scorecard) -> bool:
        """Whether nobody else took the card's trace; a process may have slept, between judging and writing too."""
        key = key_of(card.ref)
        if self._holds is None or self._holds.held(key):
            return True
        self.report += Report(held=int(key not in self._lost))
        self._lost.add(key)
        return False

    def _kept(self, card: Scorecard) -> tuple[Scorecard, Scorecard | None, tuple[Report, ...]]:
        """The card that counts from now on, what is to be kept for that, and what to say of it.

        It is this one, or one that stands, as where its word weighs more; and the newest version from now on, also
        where a record of another file with the same id came in between.
        """
        newest = self._memory.card(card.id)
        known = newest
        if newest is not None and not is_of(newest, card.basis):
            known = self._memory.card(card.id, subject_of(card.basis))
        if known is None or not self._stays(known, card):
            new = newest is None or _kept_of(newest) != _kept_of(card)
            return card, card if new else None, ()
        scores = sum(score.value is not None for score in known.scores)
        stood = Report(kept={known.judge_kind: scores})
        same = card.content_hash == known.content_hash
        return card if same else known, known if known is not newest else None, (stood,)

    def _stays(self, known: Scorecard, card: Scorecard) -> bool:
        """Whether a card stays: against this new one, or, where it was given instead of a new one, against our judge.

        Says why where that was no question of weight.
        """
        if outranks(known, card.judge_kind, card.basis):
            return True
        if stands(known, card):
            why = next((f.rationale for f in card.findings if f.status == "unscored" and f.rationale), card.reason)
            self.note(f"judge {card.judge} gave out on {card.rubric}, so scores of before stay: {why}"[:500])
            return True
        return outranks(known, self._kind, card.basis) and known.content_hash == card.content_hash

    def _through(self, door: Door, cards: Sequence[Scorecard], due: _Due | None = None) -> Counter[str]:
        """Write cards to one sink; how many of their scores became what. `due` is known where it was noted before."""
        if due is None:
            with self._memory.batch():
                due = self._due(door, cards)
        known, left = due
        states: Counter[str] = Counter()
        asked = {card_id for card_id, _ in left}
        standing = {(receipt.card_id, receipt.score) for receipt in known}
        written = list(self._written(door, cards, left))
        with self._memory.batch():
            new = [r for r in written if r.state != "unchanged" or (r.card_id, r.score) not in standing]
            self._memory.keep_receipts([receipt.model_copy(update={"sink": door.place}) for receipt in new])
        receipts = [*(receipt for receipt in known if receipt.card_id not in asked), *written]
        for receipt in receipts:
            states[receipt.state] += 1
            if receipt.state in ("failed", "unconfirmed"):
                self._tried[door.place, receipt.card_id] = 0
            if receipt.state == "failed":
                self.fail(f"writing to {door.shown}: {receipt.reason}")
            if receipt.state == "unconfirmed":
                self.note(f"writing to {door.shown}: unconfirmed, so tried again with the next run: {receipt.reason}")
        self.report += Report(receipts={door.shown: dict(states)})
        return states

    def _due(self, door: Door, cards: Sequence[Scorecard]) -> _Due:
        """What a sink is known to hold already, and what it is to be given: noted before it leaves."""
        known: list[Receipt] = []
        left: dict[tuple[str, str], Intent] = {}
        due: list[Intent] = []
        for card in cards:
            names = published(card)
            self._tried[door.place, card.id] = self._names.setdefault(names, len(self._names) + 1)
            due += (
                Intent.trusted(
                    sink=door.place,
                    card_id=card.id,
                    score=name,
                    feedback_id=card.feedback_id(name),
                    content_hash=card.content_hash,
                )
                for name in names
            )
        for intent, receipt in zip(due, self._memory.intend_all(due), strict=True):
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
        fates: dict[str, Receipt] = {}
        with Isolated("", said.append):
            for receipt in door.sink.write([card for card in cards if card.id in ids]) if ids else ():
                left.pop((receipt.card_id, receipt.score), None)
                fates.setdefault(receipt.card_id, receipt)
                yield receipt
        for intent in left.values():
            if said:
                yield Receipt(**intent.model_dump(), state="failed", reason=said[0])
            elif intent.card_id in bare:  # of what publishes no score a sink speaks as a whole, or not at all
                if fate := fates.get(intent.card_id):
                    yield Receipt(**intent.model_dump(), state=fate.state, reason=fate.reason)
            else:
                yield Receipt(**intent.model_dump(), state="unconfirmed", reason="the sink said nothing about it")


def headline(card: Scorecard) -> Scorecard:
    """The card with its rubric's own score alone; a partial one has none."""
    own = () if card.partial else tuple(score for score in card.scores if score.name == card.rubric)
    return card.model_copy(update={"scores": own})


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
            self._pay(judge, reply)
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

    def intend_all(self, intents: Sequence[Intent]) -> list[Receipt | None]:
        """As of one."""
        return [None] * len(intents)

    def keep_receipt(self, receipt: Receipt) -> None:
        """The report counts them."""

    def keep_receipts(self, told: Sequence[Receipt]) -> None:
        """As of one."""
