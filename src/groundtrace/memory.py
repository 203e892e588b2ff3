"""The memory of one process: what was asked, answered, concluded and written while it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundtrace.model import Intent, Receipt, Reply, Scorecard


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
        self._cards: dict[str, Scorecard] = {}
        self._outbox: dict[tuple[str, str, str], Intent] = {}
        self._receipts: dict[tuple[str, str, str], Receipt] = {}
        self._leases: dict[str, tuple[str, float]] = {}
        self._cursors: dict[str, str] = {}

    def reply(self, judge: str, digest: str) -> Reply | None:
        """An accepted reply of this judge to an equal question, or None."""
        return self._replies.get((judge, digest))

    def keep_reply(self, judge: str, digest: str, reply: Reply, faults: tuple[str, ...]) -> None:
        """Keep a reply before it is used; one with faults is never given back."""
        if not faults and reply.fault is None:
            with self._lock:
                self._replies[judge, digest] = reply

    def card(self, card_id: str) -> Scorecard | None:
        """The newest version of a card, or None."""
        return self._cards.get(card_id)

    def keep_card(self, card: Scorecard) -> None:
        """Keep a card as its newest version."""
        with self._lock:
            self._cards[card.id] = card

    def intend(self, intent: Intent) -> Receipt | None:
        """Note a write before it goes out; the receipt of an equal earlier one, or None."""
        with self._lock:
            key = (intent.sink, intent.feedback_id, intent.content_hash)
            known = self._receipts.get(key)
            if known is None:
                self._outbox[key] = intent
            return known

    def keep_receipt(self, receipt: Receipt) -> None:
        """Note what became of a write; one that is unconfirmed or failed stays in the outbox."""
        if receipt.feedback_id is None or receipt.content_hash is None:
            return
        key = (receipt.sink, receipt.feedback_id, receipt.content_hash)
        with self._lock:
            if receipt.state not in ("unconfirmed", "failed"):
                self._outbox.pop(key, None)
                self._receipts[key] = receipt

    def outbox(self) -> Iterable[Intent]:
        """The writes that were noted and never confirmed."""
        with self._lock:
            return tuple(self._outbox.values())

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
