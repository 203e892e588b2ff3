"""The version of the tables: a new store is made, an older one is brought forward, a newer one is left alone."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import create_engine, insert, inspect, select, text, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from groundtrace.errors import PlanError
from groundtrace.store.tables import meta, metadata, said
from groundtrace.store.trouble import ANEW, trouble

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from groundtrace.store.address import Address
    from groundtrace.store.database import Database

Step: TypeAlias = "Callable[[Connection], None]"

VERSION = 5
"""The tables as `tables.py` has them."""


def _reviews(connection: Connection) -> None:
    """People's labels, and the cards that wait for a person found without reading every card."""
    for line in (
        "ALTER TABLE groundtrace_cards ADD COLUMN waits TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE groundtrace_cards ADD COLUMN unit FLOAT",
        (
            "CREATE TABLE groundtrace_labels (card_id TEXT NOT NULL, score TEXT NOT NULL, who TEXT NOT NULL, "
            "rubric TEXT NOT NULL, value FLOAT, label TEXT, decided TEXT NOT NULL, why TEXT NOT NULL, "
            "weight FLOAT NOT NULL, time TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (card_id, score, who))"
        ),
        "CREATE INDEX groundtrace_cards_waiting ON groundtrace_cards (waits, unit, seq) WHERE waits != ''",
    ):
        connection.execute(text(line))
    asked = text("SELECT seq, body FROM groundtrace_cards WHERE seq > :after ORDER BY seq LIMIT 500")
    told = text("UPDATE groundtrace_cards SET waits = :waits, unit = :unit WHERE seq = :seq")
    after = 0
    while found := connection.execute(asked, {"after": after}).all():
        after = found[-1].seq
        due = [{"seq": seq, **waiting} for seq, body in found if (waiting := _waiting(body))]
        if due:
            connection.execute(told, due)


def _waiting(body: str) -> dict[str, Any] | None:
    """Whether and where a card of version 1 waits; one that is damaged is left for who reads it."""
    try:
        card = json.loads(said(body))
        urgent = any(review["priority"] == "now" for review in card["review"])
        units = [(s["value"] - s["low"]) / (s["high"] - s["low"]) for s in card["scores"] if s["value"] is not None]
        waits = "" if not card["review"] or card["decided_by"] == "human" else "now" if urgent else "queue"
    except (ValueError, LookupError, TypeError, ArithmeticError):
        return None
    return {"waits": waits, "unit": min(units, default=None)}


def _spending(connection: Connection) -> None:
    """What was spent today is looked up before every trace of a run with a cap."""
    connection.execute(text("CREATE INDEX IF NOT EXISTS groundtrace_replies_time ON groundtrace_replies (time)"))


def _counted(connection: Connection) -> str:
    """A column that grows with every row and is never given twice."""
    if connection.dialect.name == "postgresql":
        return "BIGSERIAL PRIMARY KEY"
    return "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"


def _deliveries(connection: Connection) -> None:
    """Traces that a platform's rules named and that are to be evaluated."""
    connection.execute(
        text(
            f"CREATE TABLE IF NOT EXISTS groundtrace_inbox (seq {_counted(connection)}, "
            "platform TEXT NOT NULL, project TEXT NOT NULL, trace_id TEXT NOT NULL, "
            "turn BIGINT NOT NULL, attempts INTEGER NOT NULL, time TEXT NOT NULL)"
        )
    )
    place = "groundtrace_inbox_trace ON groundtrace_inbox (platform, project, trace_id)"
    connection.execute(text(f"CREATE UNIQUE INDEX IF NOT EXISTS {place}"))
    order = "groundtrace_inbox_due ON groundtrace_inbox (platform, attempts, seq)"
    connection.execute(text(f"CREATE INDEX IF NOT EXISTS {order}"))


def _together(connection: Connection) -> None:
    """Scores of a card that have one content at one sink are one row: what waits there, and what stands."""
    row = "sink TEXT NOT NULL, content_hash TEXT NOT NULL, scores TEXT NOT NULL, time TEXT NOT NULL, run TEXT NOT NULL"
    keyed = "" if connection.dialect.name == "postgresql" else " WITHOUT ROWID"
    key = f"PRIMARY KEY (card_id, sink, content_hash)){keyed}"
    for line in (
        f"CREATE TABLE groundtrace_writes (seq {_counted(connection)}, card_id TEXT NOT NULL, {row})",
        "CREATE INDEX groundtrace_writes_card ON groundtrace_writes (card_id, sink)",
        f"CREATE TABLE groundtrace_standing (card_id TEXT NOT NULL, {row}, {key}",
    ):
        connection.execute(text(line))
    of = "sink, card_id, content_hash, scores, time, run) VALUES (:sink, :card_id, :content_hash, :scores, :time, :run"
    for asked, told in (
        ("SELECT * FROM groundtrace_outbox ORDER BY seq", f"INSERT INTO groundtrace_writes ({of})"),
        (
            "SELECT * FROM groundtrace_receipts WHERE standing ORDER BY card_id, sink, content_hash, score",
            f"INSERT INTO groundtrace_standing ({of})",
        ),
    ):
        found = connection.execute(text(asked).execution_options(yield_per=500))
        for _, alike in itertools.groupby(found, key=lambda row: (row.card_id, row.sink, row.content_hash)):
            connection.execute(text(told), _joined(list(alike)))
    for table in ("groundtrace_outbox", "groundtrace_receipts"):
        connection.execute(text(f"DROP TABLE {table}"))


def _joined(alike: list[Row[Any]]) -> dict[str, str]:
    """Rows of version 4, of scores of a card that have one content at one sink, as one."""
    last = alike[-1]
    texts = ((row.feedback_id, row.score, row.state, row.reason) for row in alike)
    scores = json.dumps([[None if one is None else said(one) for one in row] for row in texts])
    of = {"sink": last.sink, "card_id": last.card_id, "content_hash": last.content_hash}
    return of | {"scores": scores, "time": last.time, "run": last.run}


STEPS: Mapping[int, Step] = MappingProxyType({2: _reviews, 3: _spending, 4: _deliveries, 5: _together})
"""What brings a store from version n - 1 to n, by n. A step is never changed once it was released."""

_LOCK = 6010031
"""Any number, always the same: who makes or changes the tables holds it."""


def prepare(database: Database, version: int = VERSION, steps: Mapping[int, Step] = STEPS) -> None:
    """Make the tables, or bring them forward step by step, all or nothing; PlanError where that can't be."""
    where = database.where
    if where.path and where.path.exists() and where.path.stat().st_size:
        _look(where, version)
    if database.sqlite:
        with database.reading() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    with database.reading() as connection:
        if _found(connection, where, version) == version:
            return
    with database.writing() as connection:
        if not database.sqlite:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        found = _found(connection, where, version)
        if found == 0:
            metadata.create_all(connection)
            connection.execute(insert(meta).values(key="schema", value=str(version)))
        for number in range(found + 1, version + 1) if found else ():
            steps[number](connection)
            connection.execute(update(meta).where(meta.c.key == "schema").values(value=str(number)))


def _look(where: Address, version: int) -> None:
    """Refuse what is no store of ours before a byte of it can change."""
    path = where.path or Path()
    uri = f"{path.resolve().as_uri()}?mode=ro"
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            _found(connection, where, version)
    except SQLAlchemyError as error:
        raise trouble(error, where, opening=True) from None
    finally:
        engine.dispose()


def _found(connection: Connection, where: Address, version: int) -> int:
    """The version of the tables that are there, 0 where none are; PlanError where it is not ours to use."""
    names = set(inspect(connection).get_table_names())
    if meta.name not in names:
        if where.path and names:
            raise PlanError(
                "store", where.shown, "is a SQLite file of something else", hint="name another file; it was left as is"
            )
        return 0
    told = connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()
    if told is None or not told.isdecimal():
        raise PlanError("store", where.shown, "does not say the version of its tables", hint=ANEW)
    if int(told) > version:
        raise PlanError(
            "store",
            where.shown,
            f"has tables of version {told}, and this groundtrace knows them up to version {version}",
            hint="update it (pip install -U groundtrace) or name another store; it was left as it is",
        )
    return int(told)
