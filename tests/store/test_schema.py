"""A store of another version: brought forward as a whole, or left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import inspect, text

from groundtrace.errors import PlanError
from groundtrace.model import Intent, Receipt
from groundtrace.store import open_store
from groundtrace.store.address import address_of
from groundtrace.store.database import Database
from groundtrace.store.schema import VERSION, prepare
from groundtrace.store.tables import metadata
from groundtrace.testing import sample_card
from oldstore import give_back

if TYPE_CHECKING:
    from sqlalchemy import Connection

FIRST = Path(__file__).parents[1] / "fixtures" / "store" / "schema-1.sql"
"""The tables of version 1 with a card in them, as they were released; never changed."""


def columns(connection: Connection) -> dict[str, dict[str, bool]]:
    """Every table and column, and whether it may be null."""
    tables = inspect(connection)
    return {
        name: {column["name"]: bool(column["nullable"]) for column in tables.get_columns(name)}
        for name in tables.get_table_names()
        if name.startswith("groundtrace_")
    }


def test_a_store_of_the_first_version_is_read_by_this_one(tmp_path: Path) -> None:
    """Its tables become the declared ones, and its card is there."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as old:
        old.executescript(FIRST.read_text(encoding="utf-8"))
    old.close()
    with open_store(path) as store:
        assert store.card(sample_card().id) == sample_card()
        with store._database.reading() as connection:
            declared = {
                table.name: {c.name: bool(c.nullable) for c in table.columns} for table in metadata.sorted_tables
            }
            assert columns(connection) == declared
            indices = {i["name"] for name in declared for i in inspect(connection).get_indexes(name)}
            assert {index.name for table in metadata.sorted_tables for index in table.indexes} <= indices


def test_an_older_store_is_brought_forward_step_by_step(where: str) -> None:
    """Each step sees what the one before made; what was kept stays."""
    with open_store(where) as store:
        store.keep_card(sample_card())
    steps = {
        VERSION + 1: lambda c: c.execute(text("ALTER TABLE groundtrace_cards ADD COLUMN mood TEXT")),
        VERSION + 2: lambda c: c.execute(text("UPDATE groundtrace_cards SET mood = 'calm ' || rubric")),
    }
    database = Database(address_of(where), 5)
    prepare(database, VERSION + 2, steps)  # type: ignore[arg-type]
    with database.reading() as connection:
        assert connection.execute(text("SELECT mood FROM groundtrace_cards")).scalars().all() == ["calm source_support"]
        assert connection.execute(text("SELECT value FROM groundtrace_meta")).scalars().all() == [str(VERSION + 2)]
    prepare(database, VERSION + 2, {})
    database.close()


def test_writes_of_version_4_wait_and_stand_as_they_did(where: str) -> None:
    """What was noted and not confirmed is due, in its order; what stands is not written again."""
    with open_store(where) as store, store._database.writing() as connection:
        give_back(connection)
        connection.execute(text("UPDATE groundtrace_meta SET value = '4'"))
        names = "sink, card_id, score, feedback_id, content_hash, state, reason, time, run"
        values = "(:sink, :card_id, :score, :feedback_id, :content_hash, :state, NULL, '', 'r'"
        waits = [written("c1", "x", "h2"), written("c1", '\x01"y\\u0000"', "h2"), written("c2", "x", "h1")]
        connection.execute(text(f"INSERT INTO groundtrace_outbox ({names}) VALUES {values})"), waits)
        adding = text(f"INSERT INTO groundtrace_receipts ({names}, standing) VALUES {values}, :standing)")
        stands = [written("c1", "x", "h0", standing=False), *(written("c3", score, "h1") for score in "xy")]
        connection.execute(adding, [{"standing": True, **row, "state": "written"} for row in stands])
    with open_store(where) as store:
        told = [(intent.card_id, intent.score, intent.content_hash) for intent in store.outbox()]
        assert told == [("c1", "x", "h2"), ("c1", "y\0", "h2"), ("c2", "x", "h1")]
        of = {"sink": "s", "feedback_id": "f-x", "score": "x"}
        assert store.intend(Intent(**of, card_id="c1", content_hash="h0")) is None
        known = store.intend(Intent(**of, card_id="c3", content_hash="h1"))
        assert known == Receipt(**of, card_id="c3", content_hash="h1", state="written")
        with store._database.reading() as connection:
            assert not {"groundtrace_outbox", "groundtrace_receipts"} & {*inspect(connection).get_table_names()}


def written(card_id: str, score: str, content_hash: str, **more: object) -> dict[str, object]:
    """A row of version 4, of a write or a receipt."""
    of = {"sink": "s", "card_id": card_id, "score": score, "feedback_id": f"f-{score.strip(chr(1))}"}
    return {**of, "content_hash": content_hash, "state": None, **more}


def test_a_step_that_fails_undoes_all_steps(where: str) -> None:
    """The store is as it was and still of use."""
    with open_store(where) as store:
        store.keep_card(sample_card())
    steps = {
        VERSION + 1: lambda c: c.execute(text("ALTER TABLE groundtrace_cards ADD COLUMN mood TEXT")),
        VERSION + 2: lambda c: c.execute(text("UPDATE nowhere SET mood = 'lost'")),
    }
    database = Database(address_of(where), 5)
    with pytest.raises(Exception, match="nowhere"):
        prepare(database, VERSION + 2, steps)  # type: ignore[arg-type]
    with database.reading() as connection:
        assert "mood" not in columns(connection)["groundtrace_cards"]
    database.close()
    with open_store(where) as store:
        assert store.card(sample_card().id) == sample_card()


def test_a_newer_store_is_refused_and_not_touched(where: str) -> None:
    """The message says both versions and what to do."""
    with open_store(where) as store, store._database.writing() as connection:
        connection.execute(text("UPDATE groundtrace_meta SET value = '7'"))
    path = Path(where)
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(PlanError) as caught:
        open_store(where)
    assert f"version 7, and this groundtrace knows them up to version {VERSION}" in str(caught.value)
    assert "pip install -U groundtrace" in str(caught.value)
    assert (path.read_bytes() if path.exists() else b"") == before


def test_a_store_that_hides_its_version_is_refused(where: str) -> None:
    """Nobody guesses what its tables hold."""
    with open_store(where) as store, store._database.writing() as connection:
        connection.execute(text("DELETE FROM groundtrace_meta"))
    with pytest.raises(PlanError, match="does not say the version"):
        open_store(where)


def test_the_file_of_another_program_is_refused_and_not_touched(tmp_path: Path) -> None:
    """It may be anybody's browser history."""
    path = tmp_path / "places.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE moz_places (url TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(PlanError, match="SQLite file of something else"):
        open_store(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["places.db"]
