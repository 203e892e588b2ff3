"""Trouble with the store: said in words that tell what to do, and nothing is written wrongly."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundtrace.errors import GroundtraceError, PlanError, PlatformError
from groundtrace.model import Attempt, Reply, Scorecard
from groundtrace.store import Store, address, open_store
from groundtrace.testing import sample_card
from nursery import Nursery, lines, numbered


def fill(store: Store, count: int, start: int = 0) -> None:
    """Tell a store some cards."""
    for n in range(start, start + count):
        store.keep_card(numbered(n))


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder whose path anybody may walk: other users of this machine come by in the test."""
    folder = Path(tempfile.mkdtemp(prefix="gt-open-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def nobody() -> Iterator[None]:
    """Not to be root for a while: root may write everywhere."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    yield
    os.seteuid(was)


# --- no room --------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_and_what_was_kept_stays(tmp_path: Path) -> None:
    """On a real file system without room where this user may mount one, else at SQLite's own bound of pages."""
    room = tmp_path / "room"
    room.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(room)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
    try:
        with open_store(room / "store.db") as store:
            if not mounted:
                _bound(store)
            kept: list[int] = []
            with pytest.raises(PlatformError, match=r"(?i)room|cannot be written") as caught:
                fill_up(store, kept)
            assert "--resume" in str(caught.value)
            assert kept
            assert all(store.card(_large(n).id) == _large(n) for n in kept)
            with pytest.raises(PlatformError), store.batch():
                store.keep_card(_large(len(kept)))
        with open_store(room / "store.db") as store:
            assert all(store.card(_large(n).id) == _large(n) for n in kept)
    finally:
        if mounted:
            subprocess.run(["umount", str(room)], check=True)


def _bound(store: Store) -> None:
    with store._database.reading() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 60")


def fill_up(store: Store, kept: list[int]) -> None:
    """Tell a store large cards without end."""
    while True:
        store.keep_card(_large(len(kept)))
        kept.append(len(kept))


def _large(n: int) -> Scorecard:
    attempt = Attempt(slot="c1", attempt=1, judge="judge", text=f"{n} " * 4000)
    return numbered(n).model_copy(update={"attempts": (attempt,)})


# --- no access ------------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_is_a_wrong_plan(open_to_all: Path, request: pytest.FixtureRequest) -> None:
    """It is said before anything is read or asked."""
    with open_store(open_to_all / "store.db") as store:
        fill(store, 1)
    (open_to_all / "store.db").chmod(0o444)
    open_to_all.chmod(0o555)
    request.getfixturevalue("nobody")
    with pytest.raises(PlanError, match="write access"):
        open_store(open_to_all / "store.db")


def test_a_file_that_can_only_be_read_is_refused_before_anything_is_told(
    open_to_all: Path, request: pytest.FixtureRequest
) -> None:
    """Its folder may be written to; what it holds can still be looked at."""
    with open_store(open_to_all / "store.db") as store:
        fill(store, 1)
        store.probe()
    open_to_all.chmod(0o777)
    (open_to_all / "store.db").chmod(0o444)
    request.getfixturevalue("nobody")
    with open_store(open_to_all / "store.db") as store:
        assert store.card(numbered(0).id) == numbered(0)
        with pytest.raises(PlanError, match="write access") as caught:
            store.probe()
        assert "--resume" not in str(caught.value)


def test_a_folder_that_cannot_be_written_is_a_wrong_plan(open_to_all: Path, nobody: None) -> None:
    """Nothing can be made there."""
    if open_to_all.stat().st_uid == os.geteuid():
        open_to_all.chmod(0o555)
    with pytest.raises(PlanError, match="cannot be made here"):
        open_store(open_to_all / "store.db")


def test_a_file_that_becomes_unwritable_is_the_platforms_trouble(tmp_path: Path) -> None:
    """A run that began well can be resumed."""
    with open_store(tmp_path / "store.db") as store:
        fill(store, 1)
        with store._database.writing() as connection:
            connection.exec_driver_sql("PRAGMA query_only = ON")
        with pytest.raises(PlatformError, match="--resume"):
            fill(store, 1, start=1)
        assert store.card(numbered(0).id) == numbered(0)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("folder", "is a folder"),
        ("nowhere/store.db", "a folder that does not exist"),
        ("notes.txt", "is no store"),
        ("notes.txt/store.db", "a folder that does not exist"),
        ("nul\0byte.db", "is no path"),
        ("x" * 5000, "cannot be read|no path|cannot be made"),
    ],
)
def test_a_wrong_path_is_a_wrong_plan(tmp_path: Path, path: str, problem: str) -> None:
    """Each is named with what to do, and nothing is made or changed."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("Dear diary, SQLite format 3 is nice.", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PlanError, match=problem):
        open_store(tmp_path / path)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8").startswith("Dear diary")


@pytest.mark.parametrize("name", ["with space.db", "hash#mark.db", "what?.db", "100%.db", "ünï.db", "a'b.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    """It is the file that is opened, made once."""
    for n in range(2):
        with open_store(tmp_path / name) as store:
            assert (store.card(numbered(0).id) is None) is (n == 0)
            fill(store, 1)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_without_a_name_it_stands_where_the_platform_keeps_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is made; where it can't be, that is said."""
    monkeypatch.setattr(address, "user_data_path", lambda name: tmp_path / "data" / name)
    with open_store() as store:
        fill(store, 1)
    assert (tmp_path / "data" / "groundtrace" / "store.db").exists()
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(address, "user_data_path", lambda name: tmp_path / "file" / name)
    with pytest.raises(PlanError, match="cannot be made"):
        open_store()


# --- others ---------------------------------------------------------------------------------------------------------


def test_who_holds_a_locked_store_is_named(nursery: Nursery, tmp_path: Path) -> None:
    """Readers go on meanwhile; when it is gone so is the trouble."""
    path = tmp_path / "store.db"
    with open_store(path, patience=0.2) as store:
        fill(store, 1)
        child = nursery.start("hold", path, tmp_path / "log")
        lines(tmp_path / "log", until="holding")
        with pytest.raises(PlatformError, match=f"is locked by process {child} \\(python") as caught:
            fill(store, 1, start=1)
        assert "--resume" in str(caught.value)
        assert store.card(numbered(0).id) == numbered(0)
        nursery.kill(child)
        fill(store, 1, start=1)
        assert store.card(numbered(1).id) == numbered(1)


def test_a_thread_that_holds_the_store_is_said(tmp_path: Path) -> None:
    """Waiting for it has an end."""
    import threading

    with open_store(tmp_path / "store.db", patience=0.2) as store:
        heard: list[str] = []

        def other() -> None:
            try:
                store.move_cursor("source", "2")
            except PlatformError as error:
                heard.append(str(error))

        with store.batch():
            store.move_cursor("source", "1")
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        assert "another thread" in heard[0]
        assert store.cursor("source") == "1"


# --- damage ---------------------------------------------------------------------------------------------------------


def test_a_torn_log_loses_no_whole_transaction_before_the_tear(tmp_path: Path) -> None:
    """What a power cut tore off the end of the write-ahead log is gone; all before it is there, and whole."""
    path, copy = tmp_path / "store.db", tmp_path / "copy.db"
    with open_store(path) as store:
        fill(store, 30)
        wal = Path(f"{path}-wal").read_bytes()
        main = path.read_bytes()
    pick = random.Random(7)
    counts = []
    for torn in sorted(pick.randrange(len(wal) // 2, len(wal)) for _ in range(12)):
        copy.write_bytes(main)
        Path(f"{copy}-wal").write_bytes(wal[:torn] + pick.randbytes(pick.randrange(3) * 100))
        with open_store(copy) as store:
            there = [store.card(numbered(n).id) for n in range(30)]
            count = sum(card is not None for card in there)
            assert there[:count] == [numbered(n) for n in range(count)]
            fill(store, 1, start=100)
            assert store.card(numbered(100).id) == numbered(100)
        counts.append(count)
    assert counts == sorted(counts)
    assert 0 < counts[0] < counts[-1]


def test_a_damaged_file_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    """Wherever the damage is: at opening or when it is come upon."""
    path = tmp_path / "store.db"
    with open_store(path) as store:
        fill(store, 60)
    whole = path.read_bytes()
    pick, said = random.Random(8), []
    for page in [0, *sorted(pick.sample(range(1, len(whole) // 4096), 12))]:
        bad = bytearray(whole)
        bad[page * 4096 + 16 : page * 4096 + 4096] = pick.randbytes(4080)
        path.write_bytes(bad)
        trouble = read_through(path, 60)
        if trouble:
            said.append(trouble)
            assert path.read_bytes() == bad
    assert len(said) >= 4
    assert all("damaged" in line and "left as it is" in line and "rrr" not in line for line in said)


def read_through(path: Path, count: int) -> str:
    """Look up every card; gives what was said of damage, if it was met."""
    try:
        with open_store(path) as store:
            for n in range(count):
                assert store.card(numbered(n).id) in (None, numbered(n))
    except PlanError as error:
        return str(error)
    return ""


def test_a_value_that_does_not_read_back_is_said(tmp_path: Path) -> None:
    """Somebody edited the database by hand."""
    path = tmp_path / "store.db"
    with open_store(path) as store:
        fill(store, 1)
    with sqlite3.connect(path) as other:
        other.execute("UPDATE groundtrace_cards SET body = '{\"id\": 3}'")
    other.close()
    with open_store(path) as store, pytest.raises(PlanError, match=r"Scorecard.*damaged"):
        store.card(numbered(0).id)


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_the_platforms_trouble(tmp_path: Path) -> None:
    """The data is fine; the password is not shown."""
    with pytest.raises(PlatformError) as caught:
        open_store(f"postgresql://me:hunter2@/db?host={tmp_path}", patience=2)
    assert "cannot be reached" in str(caught.value)
    assert "hunter2" not in _all_of(caught.value)


def test_a_database_that_does_not_exist_is_a_wrong_plan(server: str) -> None:
    """It is made by its owner."""
    with pytest.raises(PlanError, match="createdb"):
        open_store(server.replace("/postgres?", "/nowhere?"))


def test_a_server_that_goes_away_is_said_and_found_again(schema: str, opened: Callable[..., Store]) -> None:
    """What was kept is there when it comes back."""
    import psycopg

    store = opened(schema)
    store.keep_card(sample_card())
    with psycopg.connect(schema.replace("+psycopg", ""), autocommit=True) as other:

        def tell() -> None:
            with store.batch():
                store.keep_reply("judge", "d1", Reply("text", "judge"), ())
                other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
                store.keep_reply("judge", "d2", Reply("text", "judge"), ())

        with pytest.raises(PlatformError, match="--resume"):
            tell()
    assert store.card(sample_card().id) == sample_card()
    assert store.reply("judge", "d1") is None


def test_without_psycopg_the_line_to_install_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(PlanError, match=r"pip install 'groundtrace\[postgres\]'"):
        open_store("postgresql://me:hunter2@db/scores")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:hunter2@db/scores",
        "postgres+nothing://me:hunter2@db/scores",
        "postgresql://me:hunter2@db:port/scores",
        "sqlite://",
        "sqlite:///:memory:",
        "http://me:hunter2@db/scores?password=hunter2",
        "://me:hunter2@db",
    ],
)
def test_a_wrong_url_is_a_wrong_plan_and_shows_no_password(url: str) -> None:
    """The message says what would be right."""
    with pytest.raises(PlanError) as caught:
        open_store(url)
    assert "postgresql+psycopg://" in str(caught.value)
    assert "hunter2" not in _all_of(caught.value)


def test_a_store_shows_no_password(schema: str, opened: Callable[..., Store]) -> None:
    """Neither when it is printed nor when its trouble is."""
    store = opened(schema.replace("tester@", "tester:hunter2@") + "&passfile=/hunter2")
    assert "tester:***@" in repr(store)
    assert "hunter2" not in repr(store)


def _all_of(error: GroundtraceError) -> str:
    """Everything an error could ever print."""
    import traceback

    return f"{error!s} {error!r} {error.__dict__} {''.join(traceback.format_exception(error))}".replace(
        # a traceback shows this file's own lines, which hold the password as the test wrote it
        "hunter2@/db?host=",
        "",
    )
