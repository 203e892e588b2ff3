"""The memory of one process: what was asked, answered, concluded and written while it runs."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from groundtrace.model import Attempt, Ref, Run

if TYPE_CHECKING:
    from groundtrace.model import Intent, Label, Receipt, Record, Reply, RunState, Scorecard


class InMemory:
    """Remembers for as long as the process lives; safe to share between threads.

    Only replies the gate found no fault in are given back by `reply`.

    >>> memory = InMemory()
    >>> memory.lease("shard-1", "me", 60), memory.lease("shard-1", "you", 60)
    (True, False)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._replies: dict[tuple[str, str], Reply] = {}
        self._costs: dict[tuple[str, str], float | None] = {}
        self._attempts: dict[str, list[Attempt]] = {}
        self._records: dict[tuple[Ref, str], Record] = {}
        self._cards: dict[str, list[Scorecard]] = {}
        self._labels: dict[tuple[str, str, str], Label] = {}
        self._outbox: dict[tuple[str, str], dict[str, Intent]] = {}
        self._receipts: dict[tuple[str, str], dict[str, Receipt]] = {}
        self._leases: dict[str, tuple[str, float]] = {}
        self._cursors: dict[str, str] = {}
        self._runs: dict[str, Run] = {}

    def reply(self, judge: str, digest: str) -> Reply | None:
        """An accepted reply of this judge to an equal question, or None."""
        return self._replies.get((judge, digest))

    def keep_reply(
        self, judge: str, digest: str, reply: Reply, faults: tuple[str, ...], *, card_id: str = "", slot: str = ""
    ) -> None:
        """Keep a reply before it is used; one with faults is never given back."""
        with self._lock:
            self._pay(judge, reply)
            if not faults and reply.fault is None:
                self._replies[judge, digest] = reply
            if card_id:
                self._attempts.setdefault(card_id, []).append(Attempt.of(reply, faults, slot=slot))

    def spent(self, since: str, judge: str | None = None) -> float | None:
        """What the replies kept since then (ISO time, UTC; to the second) cost; None if the price of one is unknown."""
        with self._lock:
            paid = self._costs.items()
            costs = [cost for (second, by), cost in paid if second >= since[:19] and judge in (None, by)]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def _pay(self, judge: str, reply: Reply) -> None:
        """Note what a reply cost, by the second it came in and by judge; the lock is held."""
        if reply.is_charged:
            when = _now()[:19], judge
            before = self._costs.get(when, 0.0)
            self._costs[when] = None if before is None or reply.cost is None else before + reply.cost

    def attempts(self, card_id: str) -> tuple[Attempt, ...]:
        """Every reply that was kept for a card, in the order they came."""
        with self._lock:
            told = tuple(self._attempts.get(card_id, ()))
        return told or tuple(attempt for card in self.history(card_id) for attempt in card.attempts)

    def keep_record(self, record: Record) -> None:
        """Keep a record, so that its cards can be looked at with what they were made from."""
        with self._lock:
            self._records[record.ref, record.id] = record

    def record(self, card: Scorecard) -> Record | None:
        """The record a card was made from, as it was last kept, or None."""
        return self._records.get((card.ref, card.record_id))

    def card(self, card_id: str, subject: str = "") -> Scorecard | None:
        """The newest version of a card, or None; with a subject, of those that are of it."""
        with self._lock:
            versions = tuple(self._cards.get(card_id, ()))
        return next((card for card in reversed(versions) if _is_of(card, subject)), None)

    def keep_card(self, card: Scorecard) -> None:
        """Keep a card as its newest version; one of equal content and basis takes its place, others stay."""
        with self._lock:
            versions = self._cards.get(card.id, [])
            if versions and _version(versions[-1]) == _version(card):
                versions[-1] = card
            else:  # a new version is younger than all that waits
                self._cards[card.id] = [*self._cards.pop(card.id, ()), card]

    def history(self, card_id: str) -> tuple[Scorecard, ...]:
        """Every version of a card, oldest first."""
        with self._lock:
            return tuple(self._cards.get(card_id, ()))

    def waiting(self, rubric: str | None = None, limit: int | None = None) -> Iterable[Scorecard]:
        """The cards a person must see and nobody decided: now before queue, then the lowest score, then the oldest."""
        with self._lock:
            newest = [versions[-1] for versions in self._cards.values()]
        due = [card for card in newest if card.waits and rubric in (None, card.rubric)]
        return tuple(sorted(due, key=_urgency)[:limit])

    def keep_labels(self, labels: Iterable[Label], *, instead_of: tuple[str, str] | None = None) -> None:
        """Keep what a person said of scores; what the same person said of the same score before is over.

        With a card's id and a person in `instead_of`, all that person said of the card before is over.
        """
        with self._lock:
            for key in [key for key in self._labels if (key[0], key[2]) == instead_of]:
                del self._labels[key]
            self._labels |= {(label.card_id, label.score, label.who): label for label in labels}

    def labels(self, rubric: str | None = None) -> tuple[Label, ...]:
        """What people said of scores, by card, score and person; of one rubric's if it is named."""
        with self._lock:
            told = sorted(self._labels.items())
        return tuple(label for _, label in told if rubric in (None, label.rubric))

    def intend(self, intent: Intent) -> Receipt | None:
        """Note a write before it goes out; the receipt of an equal earlier one that still stands, or None."""
        place, content = (intent.sink, intent.feedback_id), intent.content_hash
        with self._lock:
            waiting = self._outbox.setdefault(place, {})
            known = self._receipts.get(place, {}).get(content)
            if known is None or waiting.keys() - {content}:
                waiting.pop(content, None)  # noted anew, it is younger than all that waits
                waiting[content] = intent
                return None
            return known

    def intend_all(self, intents: Sequence[Intent]) -> list[Receipt | None]:
        """As `intend`, of many in their order."""
        return [self.intend(intent) for intent in intents]

    def keep_receipts(self, told: Sequence[Receipt]) -> None:
        """As `keep_receipt`, of many in their order."""
        for receipt in told:
            self.keep_receipt(receipt)

    def keep_receipt(self, receipt: Receipt) -> None:
        """Note what became of a write; one that is unconfirmed or failed stays in the outbox.

        What is written now stands alone: earlier receipts of the place, and older writes to it, are over.
        """
        if receipt.feedback_id is None or receipt.content_hash is None or receipt.state in ("unconfirmed", "failed"):
            return
        place, content = (receipt.sink, receipt.feedback_id), receipt.content_hash
        with self._lock:
            waiting = self._outbox.get(place, {})
            if receipt.state != "kept":
                self._receipts.pop(place, None)
                for older in list(waiting)[: list(waiting).index(content)] if content in waiting else ():
                    del waiting[older]
            self._receipts.setdefault(place, {})[content] = receipt
            waiting.pop(content, None)

    def outbox(self) -> Iterable[Intent]:
        """The writes that were noted and never confirmed."""
        with self._lock:
            return tuple(intent for waiting in self._outbox.values() for intent in waiting.values())

    def forget(self, intent: Intent) -> None:
        """Take a write out of the outbox that nobody wants any more."""
        with self._lock:
            self._outbox.get((intent.sink, intent.feedback_id), {}).pop(intent.content_hash, None)

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Take a piece of work for a while; False where another owner holds it."""
        now = self._clock()
        with self._lock:
            holder, until = self._leases.get(key, (owner, now))
            if holder != owner and until > now:
                return False
            self._leases[key] = (owner, now + seconds)
            return True

    def release(self, key: str, owner: str) -> None:
        """Give a piece of work back; only its owner can."""
        with self._lock:
            if self._leases.get(key, ("", 0.0))[0] == owner:
                del self._leases[key]

    def cursor(self, source: str) -> str | None:
        """How far a source was read."""
        return self._cursors.get(source)

    def move_cursor(self, source: str, value: str) -> None:
        """Note how far a source was read."""
        with self._lock:
            self._cursors[source] = value

    def start_run(self, run_id: str, plan_json: str) -> None:
        """Note that a run begins, or goes on."""
        with self._lock:
            known = self._runs.pop(run_id, None)
            started = known.started if known else _now()
            self._runs[run_id] = Run(id=run_id, plan=plan_json, started=started)

    def end_run(self, run_id: str, state: RunState, report_json: str = "") -> None:
        """Note how a run ended."""
        with self._lock:
            if run_id in self._runs:
                ended = {"state": state, "report": report_json, "ended": _now()}
                self._runs[run_id] = self._runs[run_id].model_copy(update=ended)

    def last_run(self, state: RunState | None = None) -> Run | None:
        """The run that began or went on last, of those in this state if one is named."""
        return next(iter(self.runs(*([state] if state else []))), None)

    def runs(self, *states: RunState) -> tuple[Run, ...]:
        """The runs, the one that began or went on last first; those in one of these states if any is named."""
        with self._lock:
            return tuple(run for run in reversed(self._runs.values()) if not states or run.state in states)

    def batch(self) -> AbstractContextManager[None]:
        """Nothing to group: what is told is known at once."""
        return nullcontext()


def _version(card: Scorecard) -> tuple[str, str]:
    return card.content_hash, card.basis


def _is_of(card: Scorecard, subject: str) -> bool:
    """Whether a card is of this subject, or neither says of which; see `review.subject_of`."""
    return not (subject and card.basis) or card.basis.partition("-")[0] == subject


def _urgency(card: Scorecard) -> tuple[bool, float]:
    """Where a card waits: what has no score comes after what has."""
    unit = card.weakest.unit if card.weakest else None
    return card.waits != "now", math.inf if unit is None else unit


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
