"""The store behind the command line: what is remembered where, what is shown of it, and every trouble in one line."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from groundtrace.plan import Plan
from groundtrace.run import run
from groundtrace.store import open_store
from terminal import groundtrace

PASSAGE = "The night ferry to Sandhaven leaves at 21:40 every day and takes 95 minutes."


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with 60 records."""
    monkeypatch.chdir(tmp_path)
    records = [
        {"id": f"r{n}", "query": f"When is {n}?", "context": [PASSAGE], "answer": f"Ferry {n} leaves at 21:40 [1]."}
        for n in range(60)
    ]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return tmp_path


LINE = "run records.jsonl --rubric source_support --to jsonl:out.jsonl"


def ids(folder: Path) -> list[str]:
    """The cards in the file they were written to."""
    return [json.loads(line)["id"] for line in (folder / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_store_is_in_the_data_directory_unless_it_is_named(here: Path, own_store: Path) -> None:
    """A second run from the same place knows the first."""
    first = json.loads(groundtrace(f"{LINE} --json", here).stdout)
    second = json.loads(groundtrace(f"{LINE} --json", here).stdout)
    assert (own_store / "groundtrace" / "store.db").is_file()
    assert (first["about"]["calls"], second["about"]["calls"], second["about"]["state"]) == (60, 0, "finished")
    apart = json.loads(groundtrace(f"{LINE} --json --store apart.db", here).stdout)
    assert apart["about"]["calls"] == 60
    nothing = json.loads(groundtrace(f"{LINE} --json --store none", here).stdout)
    assert nothing["about"]["calls"] == 60
    assert len(ids(here)) == 60


def test_a_dry_run_leaves_no_store(here: Path, own_store: Path) -> None:
    """It writes nothing at all."""
    assert groundtrace(f"{LINE} --dry-run", here).returncode == 0
    assert not list(own_store.iterdir())


def test_a_card_is_shown_with_its_record_its_attempts_and_its_versions(here: Path) -> None:
    """By the start of its id; as JSON, whole."""
    groundtrace(LINE, here)
    groundtrace(LINE.replace("source_support", "source_support,review_below=5"), here)
    ident = ids(here)[0]
    shown = groundtrace(f"show --card {ident[:13]}", here)
    assert shown.returncode == 0, shown.stderr
    for told in (ident, PASSAGE[:40], "try 1", "Versions, oldest first", "Strongly Implies"):
        assert told in shown.stdout
    told = json.loads(groundtrace(f"show --card {ident} --json", here).stdout)
    assert (told["card"]["id"], len(told["versions"]), len(told["attempts"])) == (ident, 2, 2)
    assert told["record"]["context"][0]["text"] == PASSAGE


@pytest.mark.parametrize(
    ("card", "said"),
    [("12", "is too short"), ("ffffffff-0000", "is not in this store")],
)
def test_a_card_that_can_t_be_shown_is_said(here: Path, card: str, said: str) -> None:
    """In one line, exit code 2."""
    groundtrace(LINE, here)
    done = groundtrace(f"show --card {card}", here)
    assert (done.returncode, done.stdout, said in done.stderr) == (2, "", True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--store no/such/store.db", "stands in a folder that does not exist"),
        ("--store records.jsonl", "is no store"),
        ("--store mysql://me@db/x", "is no database a store can be on"),
        ("--store postgresql://me:hunter2@localhost/x", "is a secret and does not belong in a plan"),
    ],
)
def test_a_store_that_can_t_be_one_never_starts_a_run(here: Path, options: str, said: str) -> None:
    """Nothing is read, nothing written, no password repeated."""
    done = groundtrace(f"{LINE} {options}", here)
    assert (done.returncode, done.stdout, said in done.stderr) == (2, "", True), done.stderr
    assert "hunter2" not in done.stderr
    assert not (here / "out.jsonl").exists()


def test_a_newer_store_is_left_alone(here: Path) -> None:
    """The line says what to do; not a byte of it changes."""
    groundtrace(f"{LINE} --store newer.db", here)
    with sqlite3.connect(here / "newer.db") as database:
        database.execute("update groundtrace_meta set value = '999' where key = 'schema'")
    database.close()
    before = (here / "newer.db").read_bytes()
    done = groundtrace(f"{LINE} --store newer.db", here)
    assert (done.returncode, "version 999" in done.stderr) == (2, True)
    assert (here / "newer.db").read_bytes() == before


@pytest.mark.parametrize("beside", ["records.jsonl", "--dry-run", "--sample 0", "--plan p.toml", "--judge offline"])
def test_resume_stands_alone(here: Path, beside: str) -> None:
    """It takes everything from its run; nothing is begun that was not asked for."""
    run(Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", store="s.db"), stopping=lambda: True)
    done = groundtrace(f"run --resume --store s.db {beside}", here)
    assert (done.returncode, "stands beside --resume" in done.stderr) == (2, True)
    assert not (here / "out.jsonl").exists()


@pytest.mark.parametrize("line", ["show --card abcdef", "run --resume"])
def test_looking_into_a_store_makes_none(here: Path, own_store: Path, line: str) -> None:
    """Neither where it was named nor in its usual place."""
    named = groundtrace(f"{line} --store none.db", here)
    assert (named.returncode, "'none.db' is not there" in named.stderr) == (2, True)
    assert groundtrace(line, here).returncode == (0 if "resume" in line else 2)
    assert not [file for folder in (here, own_store) for file in folder.rglob("*.db")]


@pytest.mark.parametrize("line", [LINE, "review", "show --card abcdef", "run --resume"])
def test_a_password_in_the_environment_is_refused_with_what_to_do(
    here: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL has places of its own for it."""
    monkeypatch.setenv("GROUNDTRACE_STORE", "postgresql://me:hunter2@localhost/x")
    done = groundtrace(line, here)
    assert (done.returncode, "set PGPASSWORD, or write it to ~/.pgpass" in done.stderr) == (2, True)
    assert "hunter2" not in done.stderr
    assert "set it in the environment" not in done.stderr


def test_a_full_store_stops_the_run_in_one_line_and_nothing_is_lost(here: Path) -> None:
    """What was kept goes on standing; with room again the rest is done once."""
    plan = Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", rubrics="source_support", store="store.db")
    with open_store("store.db") as store:
        with store._database.writing() as connection:
            pages = connection.exec_driver_sql("pragma page_count").scalar_one()
        bound = f"pragma max_page_count = {pages + 40}"
        engine = store._database._engine
        from sqlalchemy import event

        event.listen(engine, "connect", lambda opened, _: opened.execute(bound))
        store.close()  # what it opens from here on is bound
        report = run(plan, memory=store)
    assert len(report.failed) == 1
    assert report.failed[0].startswith("no room left for the store store.db")
    part = ids(here) if (here / "out.jsonl").exists() else []
    assert len(part) == len(set(part)) < 60
    again = run(plan)
    assert (again.failed, again.about.state) == ((), "finished")
    assert len(ids(here)) == len(set(ids(here))) == 60


def test_a_locked_store_stops_the_run_in_one_line(here: Path) -> None:
    """It names who holds it; the run ends instead of hanging."""
    plan = Plan(sources="records.jsonl", sinks="jsonl:out.jsonl", rubrics="source_support", store="store.db")
    run(plan)
    holder = sqlite3.connect("store.db", isolation_level=None)
    holder.execute("begin immediate")
    from groundtrace.errors import PlatformError

    with open_store("store.db", patience=0.2) as store, pytest.raises(PlatformError, match="is locked by"):
        run(plan, memory=store)
    holder.execute("rollback")
    holder.close()
    assert run(plan).receipts == {"jsonl:out.jsonl": {"unchanged": 180}}
