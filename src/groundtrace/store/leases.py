"""Who works on what: leases that no clock can give to two owners.

Three things end a lease. Its owner gives it back. Its owner's process is seen to be dead: it ran under this boot of
this kernel, in this process namespace, and no process with its id and start time does now. Its time is over:

- On SQLite by the machine's monotonic clock, which all processes on such a file share (WAL needs one machine). It knows
  no wall clock and can't be set; after a reboot it starts again, which shows as more time left than was ever asked for.
- On PostgreSQL, where owners sit on many machines, once this process saw the lease unrenewed for all its seconds by its
  own monotonic clock; or where the server's clock is an hour past its end, so that workers that live for moments only
  can take it too. Setting the server's clock back or forth by less than an hour makes no second owner.
"""

from __future__ import annotations

import functools
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy import text as sql
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as lite

from groundtrace.store.prepared import Prepared
from groundtrace.store.tables import leases

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from groundtrace.store.database import Database

_GRACE = 3600.0

_RELEASE = Prepared(delete(leases).where(leases.c.key == bindparam("of"), leases.c.owner == bindparam("by")))


def owner(run: str) -> str:
    """Who this process is while it does a run: host, boot, process and run."""
    pid = os.getpid()
    return f"{_host()}:{_boot()}:{pid}.{_started(pid) or ''}:{run}"


def dead(owned_by: str) -> bool:
    """Whether an owner is certainly gone; of one on another machine, or named in another way, nobody knows.

    >>> dead(owner("run")), dead("somebody else")
    (False, False)
    """
    parts = owned_by.split(":", 3)
    if len(parts) != 4 or parts[:2] != [_host(), _boot()] or sys.platform == "win32":
        return False
    pid, _, started = parts[2].partition(".")
    if not pid.isdecimal() or int(pid) > 2**31 - 1:
        return False
    if started:
        return _started(int(pid)) != started
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def ended(owned_by: str, *, one_machine: bool) -> bool:
    """Whether an owner is gone, as far as can be known of one that holds nothing: dead, or of another boot of its host.

    Where all owners are on `one_machine`, whatever their containers are called, only its boot counts. No lease is given
    away on this: machines may share a name.
    """
    if dead(owned_by):
        return True
    parts = owned_by.split(":", 3)
    if len(parts) != 4:
        return False
    then, now = (boot.rpartition("-")[0] for boot in (parts[1], _boot()))
    return bool(then and now) and then != now and (one_machine or parts[0] == _host())


def run_key(run_id: str) -> str:
    """What a run holds of itself, for as long as it lives."""
    return f"run:{run_id}"


@functools.cache
def _host() -> str:
    return socket.gethostname().replace(":", "-")


@functools.cache
def _boot() -> str:
    """This boot of this kernel and this process namespace: only there a process id means one process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When a process started, in ticks since boot; None where none runs, or none can be seen."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if told[0] in ("Z", "X") else told[19]


class Leases:
    """The leases of one database; `clock` is monotonic, in seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def take(self, key: str, owned_by: str, seconds: float) -> bool:
        """Take a lease or take it again; False where another owner holds it. In a batch, others see it at its end."""
        with self._database.writing() as connection:
            now = self._now(connection)
            fresh = {"key": key, "owner": owned_by, "turn": 1, "seconds": seconds, "until": now + seconds}
            if _taking(sqlite=self._database.sqlite).run(connection, fresh) == 1:
                return True
            row = connection.execute(select(leases).where(leases.c.key == key).with_for_update()).first()
            if row is None:  # given back since: nobody can be in between, for its place was locked by our insert
                connection.execute(insert(leases).values(fresh))
                return True
            if row.owner != owned_by and not self._over(row, now):
                return False
            taken = fresh | {"turn": row.turn + 1}
            connection.execute(update(leases).where(leases.c.key == key).values(taken))
            return True

    def release(self, key: str, owned_by: str) -> None:
        """Give a lease back; only its owner can."""
        with self._database.writing() as connection:
            _RELEASE.run(connection, {"of": key, "by": owned_by})

    def over(self, key: str, owned_by: str) -> bool:
        """Whether this owner still has a lease and its time is over, as `take` sees it."""
        with self._database.reading() as connection:
            row = connection.execute(select(leases).where(leases.c.key == key, leases.c.owner == owned_by)).first()
            return row is not None and self._over(row, self._now(connection))

    def _now(self, connection: Connection) -> float:
        if self._database.sqlite:
            return self._clock()
        return float(connection.execute(sql("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())

    def _over(self, row: Row[tuple[str, str, int, float, float]], now: float) -> bool:
        if dead(row.owner):
            return True
        if self._database.sqlite:
            return bool(now >= row.until or row.until - now > row.seconds + 1)
        return self._watched(row.key, row.turn, row.seconds) or bool(now >= row.until + _GRACE)

    def _watched(self, key: str, turn: int, seconds: float) -> bool:
        """Whether this process saw the lease at this same turn for all its time."""
        now = self._clock()
        with self._lock:
            known, since = self._seen.get(key, (0, now))
            if known != turn:
                since = now
            self._seen[key] = turn, since
            return now - since >= seconds


@functools.cache
def _taking(*, sqlite: bool) -> Prepared:
    """A lease nobody has."""
    made = lite.insert(leases) if sqlite else postgresql.insert(leases)
    return Prepared(made.on_conflict_do_nothing(), [column.name for column in leases.columns])
