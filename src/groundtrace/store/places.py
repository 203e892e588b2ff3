"""What is known of the places that writes go to: what stands there, and what is on its way.

A row holds all scores of a card that have the same content at the same sink: they are noted and confirmed together, and
one row costs a fifth of five.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import bindparam, delete, select, text, update

from groundtrace.model import Receipt
from groundtrace.store import rows
from groundtrace.store.prepared import Prepared, adding, replacing
from groundtrace.store.tables import outbox, standing

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, Connection

    from groundtrace.model import Intent
    from groundtrace.store.rows import Scores

_SIZES = (1, 16, 32, 100)
"""How many cards are asked about in one statement; where there are fewer, the last is asked about again."""


@functools.cache
def _questions(size: int) -> tuple[tuple[str, ...], Prepared, Prepared]:
    """The parameters for so many ids, and the statements: what is noted of them, and what stands."""
    ids = tuple(f"id_{n}" for n in range(size))
    some: list[BindParameter[str]] = [bindparam(name) for name in ids]
    noted = (
        select(outbox.c.seq, outbox.c.card_id, outbox.c.content_hash, outbox.c.scores)
        .where(outbox.c.sink == bindparam("sink"), outbox.c.card_id.in_(some))
        .order_by(outbox.c.seq)
    )
    stands = (
        select(standing.c.card_id, standing.c.content_hash, standing.c.scores)
        .where(standing.c.sink == bindparam("sink"), standing.c.card_id.in_(some))
        .order_by(standing.c.card_id)
    )
    return ids, Prepared(noted), Prepared(stands)


_CHANGE = Prepared(update(outbox).where(outbox.c.seq == bindparam("at")).values(scores=bindparam("now")))
_DROP = Prepared(delete(outbox).where(outbox.c.seq == bindparam("at")))
_OVER = Prepared(
    delete(standing).where(
        standing.c.card_id == bindparam("of"),
        standing.c.sink == bindparam("of_sink"),
        standing.c.content_hash == bindparam("of_content"),
    )
)

_LOCKS = text("SELECT pg_advisory_xact_lock(key) FROM unnest(CAST(:keys AS bigint[])) AS key")

_Card = tuple[str, str]
"""A sink and a card's id."""


@dataclass
class _Noted:
    """Writes of one content that wait; `seq` is None where they are not in the outbox yet."""

    content: str
    scores: Scores
    seq: int | None = None
    changed: bool = True


class Places:
    """What stands and what waits, of some cards at their sinks; `save` puts down what was changed."""

    def __init__(self) -> None:
        self._noted: dict[_Card, list[_Noted]] = {}
        """The oldest first."""
        self._standing: dict[_Card, dict[str, Scores]] = {}
        """By content."""
        self._new: dict[tuple[_Card, str], None] = {}
        """Which of what stands was changed."""

    @classmethod
    def of(cls, connection: Connection, writes: Iterable[Intent | Receipt], *, hold: bool) -> Self:
        """What a database knows of the places of these writes; to change it, `hold` it."""
        found = cls()
        by_sink: dict[str, dict[str, None]] = {}
        for write in writes:
            by_sink.setdefault(write.sink, {})[write.card_id] = None
        if hold:
            _hold(connection, [(sink, ident) for sink, cards in by_sink.items() for ident in cards])
        for sink, cards in by_sink.items():
            ids = list(cards)
            for at in range(0, len(ids), _SIZES[-1]):
                some = ids[at : at + _SIZES[-1]]
                names, noted, stands = _questions(next(size for size in _SIZES if size >= len(some)))
                asked = {"sink": sink, **dict(zip_longest(names, some, fillvalue=some[-1]))}
                for row in noted.every(connection, asked):
                    waits = _Noted(row.content_hash, rows.scores_of(row.scores), row.seq, changed=False)
                    found._noted.setdefault((sink, row.card_id), []).append(waits)
                for row in stands.every(connection, asked):
                    found._standing.setdefault((sink, row.card_id), {})[row.content_hash] = rows.scores_of(row.scores)
        return found

    def known(self, intent: Intent) -> Receipt | None:
        """The receipt of an equal write that still stands, unless other content is on its way to the same place."""
        card, ident = (intent.sink, intent.card_id), intent.feedback_id
        fate = self._standing.get(card, {}).get(intent.content_hash, {}).get(ident)
        if fate is None or any(
            ident in noted.scores and noted.content != intent.content_hash for noted in self._noted.get(card, ())
        ):
            return None
        score, state, why = fate
        return Receipt.trusted(**{**vars(intent), "score": score}, state=state, reason=why)

    def note(self, intent: Intent) -> Receipt | None:
        """Note a write as the youngest, unless an equal one is known: then its receipt."""
        known = self.known(intent)
        if known is not None:
            return known
        self.forget(intent)
        noted = self._noted.setdefault((intent.sink, intent.card_id), [])
        if not noted or noted[-1].seq is not None or noted[-1].content != intent.content_hash:
            noted.append(_Noted(intent.content_hash, {}))
        noted[-1].scores[intent.feedback_id] = intent.score, None, None
        return None

    def forget(self, write: Intent) -> None:
        """Take a write out of what waits."""
        for noted in self._noted.get((write.sink, write.card_id), ()):
            if noted.content == write.content_hash and write.feedback_id in noted.scores:
                del noted.scores[write.feedback_id]
                noted.changed = True

    def keep(self, receipt: Receipt, why: str | None) -> None:
        """Note what became of a write; one that was confirmed waits no more.

        What was written stands alone: what stood there before, and older writes to the place, are over.
        """
        card, ident, content = (receipt.sink, receipt.card_id), receipt.feedback_id or "", receipt.content_hash or ""
        noted, fate = self._noted.get(card, []), (receipt.score, receipt.state, why)
        at = next((at for at, one in enumerate(noted) if one.content == content and ident in one.scores), None)
        if receipt.state in ("failed", "unconfirmed"):
            if at is not None:
                noted[at].scores[ident], noted[at].changed = fate, True
            return
        stood = self._standing.setdefault(card, {})
        if at is not None:
            for one in noted[at : at + 1] if receipt.state == "kept" else noted[: at + 1]:
                one.changed = one.scores.pop(ident, None) is not None or one.changed
        if receipt.state != "kept":
            self._new.update({(card, held): None for held, scores in stood.items() if scores.pop(ident, None)})
        stood.setdefault(content, {})[ident] = fate
        self._new[card, content] = None

    def save(self, connection: Connection, made: Mapping[str, str], *, sqlite: bool) -> None:
        """Put down what was changed."""
        changed = [(card, one) for card, noted in self._noted.items() for one in noted if one.changed]
        new = [
            {"sink": sink, "card_id": ident, "content_hash": one.content, "scores": rows.spelled(one.scores), **made}
            for (sink, ident), one in changed
            if one.seq is None and one.scores
        ]
        adding(outbox).run_all(connection, new)
        held = [one for _, one in changed if one.seq is not None]
        _CHANGE.run_all(connection, [{"at": one.seq, "now": rows.spelled(one.scores)} for one in held if one.scores])
        _DROP.run_all(connection, [{"at": one.seq} for one in held if not one.scores])
        stands, over = list[dict[str, Any]](), list[dict[str, Any]]()
        for (sink, ident), content in self._new:
            if scores := self._standing[sink, ident][content]:
                row = {"card_id": ident, "sink": sink, "content_hash": content, "scores": rows.spelled(scores)}
                stands.append({**row, **made})
            else:
                over.append({"of": ident, "of_sink": sink, "of_content": content})
        replacing(standing, sqlite=sqlite).run_all(connection, stands)
        _OVER.run_all(connection, over)


def _hold(connection: Connection, cards: Iterable[_Card]) -> None:
    """Let others who write of these cards wait until this transaction ends, also where there is no row to be held yet.

    SQLite has one writer at a time anyway. In one order for all, so that of two none waits for the other for ever.
    """
    if connection.dialect.name == "postgresql":
        held = {hashlib.sha256(f"{sink}\0{ident}".encode("utf-8", "replace")).digest() for sink, ident in cards}
        keys = sorted(int.from_bytes(one[:8], signed=True) for one in held)
        connection.execute(_LOCKS, {"keys": keys})
