"""What a platform's rules named and nobody evaluated yet: kept before the platform is answered, until it is done."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as lite

from groundtrace.store import rows
from groundtrace.store.tables import inbox

if TYPE_CHECKING:
    from groundtrace.store.database import Database


class Due(NamedTuple):
    """A trace to be evaluated; `attempts` is how often that came to nothing, `since` when it was delivered (UTC)."""

    seq: int
    turn: int
    platform: str
    project: str
    trace_id: str
    attempts: int
    since: str


class Inbox:
    """The traces of one database that wait; each stands there once, however often it was delivered."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, platform: str, traces: Collection[tuple[str, str]], *, most: int) -> bool:
        """Keep traces, as project and id; False, and none is kept, where more than `most` would wait then.

        One that waits already is begun anew. They are there once this returns, whatever happens to the process.
        """
        told = [
            {"platform": platform, "project": project, "trace_id": ident, "turn": 1, "attempts": 0, "time": rows.now()}
            for project, ident in dict.fromkeys(traces)
        ]
        with self._database.writing(at_once=True) as connection:
            if connection.execute(select(func.count()).select_from(inbox)).scalar_one() + len(told) > most:
                return False
            made = (lite.insert if self._database.sqlite else postgresql.insert)(inbox)
            anew = {"turn": inbox.c.turn + 1, "attempts": 0, "time": made.excluded.time}
            keys = [inbox.c.platform, inbox.c.project, inbox.c.trace_id]
            if told:
                connection.execute(made.on_conflict_do_update(index_elements=keys, set_=anew), told)
        return True

    def due(self, platform: str, limit: int) -> tuple[Due, ...]:
        """The traces that wait, those nobody tried first, then by when they were delivered."""
        columns = (inbox.c.seq, inbox.c.turn, inbox.c.platform, inbox.c.project)
        asked = select(*columns, inbox.c.trace_id, inbox.c.attempts, inbox.c.time).where(inbox.c.platform == platform)
        with self._database.reading() as connection:
            found = connection.execute(asked.order_by(inbox.c.attempts, inbox.c.seq).limit(limit))
            return tuple(Due(*row) for row in found)

    def done(self, traces: Sequence[Due]) -> None:
        """Forget traces that were evaluated; one that was delivered again meanwhile stays."""
        with self._database.writing(at_once=True) as connection:
            for due in traces:
                connection.execute(delete(inbox).where(inbox.c.seq == due.seq, inbox.c.turn == due.turn))

    def put_off(self, traces: Sequence[Due]) -> None:
        """Note that an attempt at these came to nothing."""
        with self._database.writing(at_once=True) as connection:
            for due in traces:
                same = (inbox.c.seq == due.seq, inbox.c.turn == due.turn)
                connection.execute(update(inbox).where(*same).values(attempts=due.attempts + 1))

    def count(self, platform: str) -> int:
        """How many traces wait."""
        with self._database.reading() as connection:
            asked = select(func.count()).select_from(inbox).where(inbox.c.platform == platform)
            return connection.execute(asked).scalar_one()
