"""One database: connections, and write transactions that threads and processes take in turn.

On SQLite (WAL) readers never wait and writers queue: threads of this process for a lock, processes for the database's
own, at most `patience` seconds. A commit outlives the process; after a power cut the last moments may be missing, the
file is whole, and what is missing is done again. On PostgreSQL a commit outlives both.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.exc import SQLAlchemyError

from groundtrace.errors import PlanError, PlatformError
from groundtrace.store.trouble import trouble

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Executable

    from groundtrace.errors import GroundtraceError
    from groundtrace.store.address import Address

_PRAGMAS = ("synchronous = NORMAL", "temp_store = MEMORY", "journal_size_limit = 67108864")


_BEFORE = -1
"""An era that is over."""


class _Batch(threading.local):
    """What one thread has told and not committed; `broken` is the trouble that undid it."""

    depth = 0
    connection: Connection | None = None
    era = 0
    """When its transaction began, as `Database` counts."""
    broken: GroundtraceError | None = None


class Database:
    """An open database; `sqlite` tells the two kinds apart."""

    def __init__(self, where: Address, patience: float) -> None:
        self.where = where
        self.sqlite = where.path is not None
        self._patience = patience
        self._opening = True
        self._parents: list[Connection] = []
        """Connections of the process this one was forked from: closing them here would end its transactions."""
        self._forget()
        self._engine = self._connect()
        self._driver_error: type[Exception] = self._engine.dialect.loaded_dbapi.Error

    def _forget(self) -> None:
        self._process = os.getpid()
        self._writer = threading.Lock()
        self._batch = _Batch()
        self._giving = threading.Lock()
        self._era = 0
        """How often the store was let go of: what was connected before is closed where it is given back."""
        self._readers: deque[Connection] = deque()
        """On SQLite, connections to look things up by that nobody uses; outside a transaction they hold nothing up."""
        self._free: Connection | None = None
        """On SQLite, the one to write, while nobody does."""

    def _connect(self) -> Engine:
        waits = {"timeout": self._patience} if self.sqlite else {"connect_timeout": max(2, int(self._patience))}
        try:
            engine = create_engine(
                self.where.url,
                hide_parameters=True,
                pool_size=8,
                max_overflow=56,
                pool_pre_ping=not self.sqlite,
                connect_args=waits,
            )
        except ImportError:
            hint = "pip install 'groundtrace[postgres]'"
            raise PlanError("store", self.where.shown, "needs psycopg, which is not installed", hint=hint) from None
        if self.sqlite:
            event.listen(engine, "connect", _settle)
            event.listen(engine, "begin", _take_turn)
        return engine

    def opened(self) -> None:
        """From here on trouble is the platform's, not the plan's."""
        self._opening = False

    def probe(self, harmless: Executable) -> None:
        """Run a statement that writes and changes nothing: PlanError where nothing can be written.

        To take the turn of a writer is not enough: SQLite gives it for a file that can only be read, too.
        """
        before, self._opening = self._opening, True
        try:
            with self.writing() as connection:
                connection.execute(harmless)
        finally:
            self._opening = before

    def close(self) -> None:
        """Let go of every connection; one in use is let go of when that is over."""
        with self._told():
            with self._giving:
                self._era += 1
                self._engine.dispose()
            with suppress(IndexError):
                while True:
                    self._drop(self._readers.pop(), _BEFORE)
            if self._writer.acquire(timeout=self._patience):
                try:
                    writer, self._free = self._free, None
                    if writer is not None:
                        self._drop(writer, _BEFORE)
                finally:
                    self._writer.release()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Nothing of SQL reaches a user."""
        try:
            yield
        except (SQLAlchemyError, self._driver_error) as error:
            raise self._ours(error) from None

    def _ours(self, error: Exception) -> GroundtraceError:
        return trouble(error, self.where, opening=self._opening)

    def _own(self) -> _Batch:
        """This thread's batch; a process forked from the one that opened the store starts with none."""
        if self._process != os.getpid():
            self._parents += [*self._readers, *([self._free] if self._free else [])]
            self._forget()
            self._engine.dispose(close=False)
        if self._batch.broken:
            raise self._batch.broken
        return self._batch

    @property
    def begun(self) -> bool:
        """Whether this thread has told something in a batch that is not committed."""
        return self._own().connection is not None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to look things up; inside a batch it sees what the batch told."""
        batch, era = self._own(), self._era
        lent: Connection | None = None
        try:
            if batch.connection is None:
                lent = self._lend()
                yield lent
            else:
                yield batch.connection
        except (SQLAlchemyError, self._driver_error) as error:
            if lent is None and batch.connection is not None and not self.sqlite:
                self._end(batch, commit=False)  # it refuses to go on after trouble with a question
                batch.broken = self._undone()
            raise self._ours(error) from None
        finally:
            if lent is not None:
                self._take_back(lent, era)

    @contextmanager
    def writing(self, *, at_once: bool = False) -> Iterator[Connection]:
        """A connection in a write transaction, committed at the end; in a batch with the batch, unless `at_once`."""
        batch = self._own()
        whole = batch.depth == 0
        try:
            yield batch.connection or self._open(batch)
            if whole or at_once:
                self._end(batch, commit=True)
        except (SQLAlchemyError, self._driver_error) as error:
            told = self._ours(error)
            self._broke(batch, told, whole=whole)
            raise told from None
        except BaseException as error:
            self._broke(batch, error, whole=whole)
            raise

    def _broke(self, batch: _Batch, error: BaseException, *, whole: bool) -> None:
        """Undo what a thread told; where that was in a batch, the batch is broken by it."""
        self._end(batch, commit=False)
        if not whole:
            batch.broken = error if isinstance(error, PlanError | PlatformError) else self._undone()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Group this thread's writes; committed however the block ends, for what was told is true all the same."""
        batch = self._own()
        batch.depth += 1
        try:
            yield
        except BaseException:
            self._leave(batch)
            raise
        broken = self._leave(batch)
        if broken:
            raise broken

    def _leave(self, batch: _Batch) -> GroundtraceError | None:
        """Commit a batch at its end, and say what broke it."""
        batch.depth -= 1
        if batch.depth:
            return None
        broken, batch.broken = batch.broken, None
        with self._told():
            self._end(batch, commit=True)
        return broken

    def _undone(self) -> PlatformError:
        return PlatformError(f"what was told to the store {self.where.shown} was undone by an error in between")

    def _lend(self) -> Connection:
        """A connection to look things up by: on SQLite one that was used before, if there is one."""
        if self.sqlite:
            with suppress(IndexError):
                return self._readers.pop()
        return self._engine.connect()

    def _take_back(self, lent: Connection, era: int) -> None:
        if self.sqlite and era == self._era and not lent.invalidated:
            self._readers.append(lent)
        else:
            self._drop(lent, era)

    def _open(self, batch: _Batch) -> Connection:
        """Begin this thread's transaction, in its turn."""
        if self.sqlite and not self._writer.acquire(timeout=self._patience):
            raise PlatformError(f"the store {self.where.shown} is held by another thread of this process")
        era = self._era
        try:
            connection, self._free = self._free, None
            if connection is None:
                connection = self._engine.connect().execution_options(writing=True)
        except BaseException:
            if self.sqlite:
                self._writer.release()
            raise
        batch.connection, batch.era = connection, era
        connection.begin()
        return connection

    def _end(self, batch: _Batch, *, commit: bool) -> None:
        """End this thread's transaction, if one is open; whatever happens, its turn is given back.

        On SQLite a connection that committed is kept for the next writer.
        """
        connection, batch.connection = batch.connection, None
        if connection is None:
            return
        kept = False
        try:
            if commit:
                connection.commit()
                kept = self.sqlite
        finally:
            try:
                if kept:
                    self._free = connection
                else:
                    self._drop(connection, batch.era)
            finally:
                if self.sqlite:
                    self._writer.release()

    def _drop(self, connection: Connection, era: int) -> None:
        """Give a connection of that era back, whatever state it is in; what it had not committed is undone."""
        with suppress(SQLAlchemyError, self._driver_error), self._giving:
            if era != self._era:
                connection.invalidate()  # its pool is gone: nobody else would close it
            connection.close()


def _settle(connection: Any, _: object) -> None:
    """A new connection of SQLite: transactions are begun by us, so that a writer says so at its start."""
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _take_turn(connection: Connection) -> None:
    """A writer takes its turn at once; one that reads first and writes later could never get it."""
    if connection.get_execution_options().get("writing"):
        connection.connection.cursor().execute("BEGIN IMMEDIATE")
