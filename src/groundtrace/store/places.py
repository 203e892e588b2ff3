"""What is known of the places that writes go to: what stands there, and what is on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import bindparam, select, true

from groundtrace.store import rows
from groundtrace.store.prepared import Prepared
from groundtrace.store.tables import outbox, receipts

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from groundtrace.model import Intent, Receipt

_IDS = tuple(f"id_{n}" for n in range(100))
"""Places asked about in one statement; where fewer are, the last is asked about again."""

_NOTED = Prepared(
    select(outbox.c.feedback_id, outbox.c.content_hash).where(
        outbox.c.sink == bindparam("sink"), outbox.c.feedback_id.in_([bindparam(name) for name in _IDS])
    )
)
_STANDING = Prepared(
    select(receipts).where(
        receipts.c.sink == bindparam("sink"),
        receipts.c.feedback_id.in_([bindparam(name) for name in _IDS]),
        receipts.c.standing == true(),
    )
)

Place = tuple[str, str]


@dataclass
class Places:
    """Receipts that stand and contents that wait, by sink and feedback id; and what is noted now."""

    standing: dict[tuple[Place, str], Receipt] = field(default_factory=dict)
    outgoing: dict[Place, set[str]] = field(default_factory=dict)
    noted: dict[tuple[Place, str], dict[str, Any]] = field(default_factory=dict)
    """The rows to be added to the outbox, in their order."""
    younger: list[dict[str, str]] = field(default_factory=list)
    """What is to be taken out of the outbox before, because it is noted anew."""
    _held: dict[Place, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, connection: Connection, writes: Sequence[Intent | Receipt]) -> Self:
        """What a database knows of the places of these writes."""
        found = cls()
        by_sink: dict[str, list[str]] = {}
        for write in writes:
            by_sink.setdefault(write.sink, []).append(write.feedback_id or "")
        for sink, ids in by_sink.items():
            for at in range(0, len(ids), len(_IDS)):
                some = ids[at : at + len(_IDS)]
                asked = {"sink": sink, **dict(zip_longest(_IDS, some, fillvalue=some[-1]))}
                for row in _STANDING.every(connection, asked):
                    found.standing[(sink, row.feedback_id), row.content_hash] = rows.receipt_of(row)
                    found._held.setdefault((sink, row.feedback_id), set()).add(row.content_hash)
                for row in _NOTED.every(connection, asked):
                    found.outgoing.setdefault((sink, row.feedback_id), set()).add(row.content_hash)
        return found

    def known(self, intent: Intent) -> Receipt | None:
        """The receipt of an equal write that still stands."""
        return self.standing.get(((intent.sink, intent.feedback_id), intent.content_hash))

    def waiting(self, intent: Intent) -> set[str]:
        """The contents that are on their way to the same place."""
        return self.outgoing.get((intent.sink, intent.feedback_id), set())

    def others(self, row: Mapping[str, str | None]) -> bool:
        """Whether anything but what a write brings stands at its place, or is on its way there."""
        place, content = (row["of_sink"] or "", row["of_id"] or ""), row["of"] or ""
        return bool(self.outgoing.get(place, set()) - {content}) or self._held.get(place, {content}) != {content}

    def note(self, intent: Intent) -> Receipt | None:
        """Note a write, unless an equal one stands and nothing else is on its way: then its receipt."""
        place, content = (intent.sink, intent.feedback_id), intent.content_hash
        known, waiting = self.known(intent), self.outgoing.setdefault(place, set())
        if known is not None and not waiting - {content}:
            return known
        if self.noted.pop((place, content), None) is None and waiting:
            self.younger.append({"of_sink": intent.sink, "of_id": intent.feedback_id, "of": content})
        self.noted[place, content] = vars(intent)
        waiting.add(content)
        return None
