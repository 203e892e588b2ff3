"""The tables of writes as they were up to version 4 of the store: a row a score."""

from __future__ import annotations

from sqlalchemy import Connection, text


def give_back(connection: Connection) -> None:
    """Put them, with nothing in them, in the place of those that hold all scores of a card together."""
    seq = "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"
    if connection.dialect.name == "postgresql":
        seq = "BIGSERIAL PRIMARY KEY"
    place = "sink TEXT NOT NULL, card_id TEXT NOT NULL, score TEXT NOT NULL, feedback_id TEXT NOT NULL"
    row = f"{place}, content_hash TEXT NOT NULL, state TEXT, reason TEXT, time TEXT NOT NULL, run TEXT NOT NULL"
    for line in (
        "DROP TABLE groundtrace_writes",
        "DROP TABLE groundtrace_standing",
        f"CREATE TABLE groundtrace_outbox (seq {seq}, {row})",
        f"CREATE TABLE groundtrace_receipts ({row}, standing BOOLEAN NOT NULL)",
    ):
        connection.execute(text(line))
