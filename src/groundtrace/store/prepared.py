"""Statements that are spelled once and handed to the driver as they are: those a run says for every record.

SQLAlchemy writes them for either dialect, and knows how each value goes in and comes out. Left out is its own way from
a statement to the driver, which costs several times what the statement does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects import sqlite as lite
from sqlalchemy.exc import StatementError

from groundtrace.store.tables import Said, is_plain, plain

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Table
    from sqlalchemy.sql.base import Executable
    from sqlalchemy.types import TypeEngine

_Way = Callable[[Any], Any] | None


class Prepared:
    """One statement; raises the driver's errors, which `Database` tells as ours.

    `columns` are those an INSERT gives values to: one that a row lacks is NULL. Any other parameter that a row lacks is
    the statement's own.
    """

    def __init__(self, statement: Executable, columns: Iterable[str] = ()) -> None:
        self._statement = statement
        self._columns = list(columns)
        self._spelled: dict[str, _Spelled] = {}

    def run(self, connection: Connection, row: Mapping[str, Any]) -> int:
        """Run it with one row; how many rows of the table it met."""
        spelled = self._of(connection.dialect)
        cursor = _driver(connection).execute(spelled.text, spelled.bound(row))
        met = int(cursor.rowcount)
        cursor.close()
        return met

    def run_all(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it once for each row."""
        if rows:
            spelled = self._of(connection.dialect)
            cursor = _driver(connection).cursor()
            cursor.executemany(spelled.text, [spelled.bound(row) for row in rows])
            cursor.close()

    def every(self, connection: Connection, row: Mapping[str, Any]) -> list[Any]:
        """All rows found, their columns by name."""
        spelled = self._of(connection.dialect)
        cursor = _driver(connection).execute(spelled.text, spelled.bound(row))
        told = [spelled.made(found, cursor.description) for found in cursor.fetchall()]
        cursor.close()
        return told

    def first(self, connection: Connection, row: Mapping[str, Any]) -> Any:
        """The first row found, its columns by name; None where there is none."""
        spelled = self._of(connection.dialect)
        cursor = _driver(connection).execute(spelled.text, spelled.bound(row))
        found = cursor.fetchone()
        told = None if found is None else spelled.made(found, cursor.description)
        cursor.close()
        return told

    def _of(self, dialect: Dialect) -> _Spelled:
        spelled = self._spelled.get(dialect.name)
        if spelled is None:
            spelled = self._spelled[dialect.name] = _Spelled(self._statement, dialect, self._columns)
        return spelled


def _driver(connection: Connection) -> Any:
    """The driver's own connection, sqlite3's or psycopg's: both have `execute`, which gives a cursor."""
    return connection.connection.dbapi_connection


@functools.cache
def adding(table: Table) -> Prepared:
    """A row more in a table."""
    return Prepared(insert(table).inline(), _given(table))


@functools.cache
def replacing(table: Table, *, sqlite: bool) -> Prepared:
    """A row that takes the place of the one with its key."""
    made = lite.insert(table) if sqlite else postgresql.insert(table)
    keys = [column.name for column in table.primary_key]
    rest = {column.name: made.excluded[column.name] for column in table.columns if not column.primary_key}
    return Prepared(made.on_conflict_do_update(index_elements=keys, set_=rest), _given(table))


def _given(table: Table) -> list[str]:
    """The columns a row has values for; the database counts `seq`."""
    return [column.name for column in table.columns if column.name != "seq"]


class _Spelled:
    """A statement in the words of one dialect, and how its values go in and come out."""

    def __init__(self, statement: Any, dialect: Dialect, columns: list[str]) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=columns or None)
        self.text: str = compiled.string
        self._fixed: Mapping[str, Any] = dict.fromkeys(columns) if columns else compiled.params
        self._by_place: bool = compiled.positional
        names: list[str] = compiled.positiontup if compiled.positional else list(self._fixed)
        self._names, self._values = names, itemgetter(*names, *names[:1])  # of one name alone it would give no tuple
        types = [(at, compiled.binds[name].type) for at, name in enumerate(names)]
        self._said = [at for at, kind in types if isinstance(kind, Said)]
        others = ((at, _driver_type(kind, dialect).bind_processor(dialect)) for at, kind in types)
        self._ways = [(at, way) for at, way in others if way is not None and at not in self._said]
        self._told = list(getattr(statement, "selected_columns", ()))
        self._back: list[tuple[str, _Way]] | None = None
        """How the values of a row come out, once the driver has described one; made in one go, for threads share it."""
        self._dialect = dialect

    def bound(self, row: Mapping[str, Any]) -> Any:
        """A row as the driver takes it; StatementError, as of SQLAlchemy, where a value is of the wrong type."""
        told: list[Any]
        try:
            *told, _ = self._values(row)
        except KeyError:
            told = [row[name] if name in row else self._fixed[name] for name in self._names]
        try:
            texts = [told[at] for at in self._said if told[at] is not None]
            if not is_plain("".join(texts)):
                for at in self._said:
                    told[at] = None if told[at] is None else plain(told[at])
            for at, way in self._ways:
                told[at] = None if told[at] is None else way(told[at])
        except TypeError as error:
            raise StatementError(str(error), self.text, None, error) from None
        return told if self._by_place else dict(zip(self._fixed, told, strict=True))

    def made(self, found: Sequence[Any], description: Sequence[Any]) -> SimpleNamespace:
        """A row of the table with its values as SQLAlchemy would give them; the driver describes its columns."""
        if self._back is None:
            kinds = [kind for _, kind, *_rest in description]
            types = [_driver_type(column.type, self._dialect) for column in self._told]
            ways = [of.result_processor(self._dialect, kind) for of, kind in zip(types, kinds, strict=True)]
            self._back = [(column.key, way) for column, way in zip(self._told, ways, strict=True)]
        pairs = zip(self._back, found, strict=True)
        return SimpleNamespace(**{name: value if way is None else way(value) for (name, way), value in pairs})


def _driver_type(kind: TypeEngine[Any], dialect: Dialect) -> TypeEngine[Any]:
    return kind.dialect_impl(dialect)
