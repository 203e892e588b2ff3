"""A lease has one owner, whatever dies and whatever the clocks do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
from sqlalchemy import update

from groundtrace.errors import PlatformError
from groundtrace.model import Run
from groundtrace.run.holds import Holds
from groundtrace.store import Store, open_store, owner
from groundtrace.store.address import address_of
from groundtrace.store.database import Database
from groundtrace.store.leases import Leases, dead, ended, run_key
from groundtrace.store.schema import prepare
from groundtrace.store.tables import runs
from nursery import Nursery, lines


class Clock:
    """Says what it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def leases() -> Iterator[Callable[[str, Clock], Leases]]:
    """The leases of a process with a clock of its own."""
    made: list[Database] = []

    def open_(where: str, clock: Clock) -> Leases:
        made.append(Database(address_of(where), 5))
        prepare(made[-1])
        return Leases(made[-1], clock)

    yield open_
    for database in made:
        database.close()


def state_of(run: Run | None) -> tuple[str, str] | None:
    """Which run, and in which state."""
    return None if run is None else (run.id, run.state)


Book: TypeAlias = Callable[[str, Clock], Leases]


def test_of_many_processes_one_gets_each_lease(where: str, nursery: Nursery, tmp_path: Path) -> None:
    """No work is done twice, none is left."""
    logs = [tmp_path / f"log-{n}" for n in range(6)]
    for log in logs:
        nursery.start("race", where, log, keys=40)
    told = [line for log in logs for line in lines(log, until="done") if line != "done"]
    assert sorted(told, key=int) == [str(n) for n in range(40)]


def test_of_two_runs_that_take_many_at_once_each_gets_its_own_and_none_waits_for_ever(where: str) -> None:
    """The one forwards, the other backwards, again and again: two that held what the other wants would never end."""
    taken: dict[str, list[str]] = {"one": [], "two": []}

    def take(name: str, keys: list[str]) -> None:
        with open_store(where, patience=20) as store, Holds(store, name) as holds:
            for at in range(0, len(keys), 16):
                some = keys[at : at + 16]
                taken[name] += [key for key, ours in zip(some, holds.take_all(some), strict=True) if ours]
            together.wait(60)

    keys, together = [f"trace:{n:03}" for n in range(160)], threading.Barrier(2)
    threads = [threading.Thread(target=take, args=(name, keys[::way])) for name, way in (("one", 1), ("two", -1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken["one"] + taken["two"]) == keys


def test_a_run_that_gives_back_what_another_takes_does_not_wait_for_it_for_ever(where: str) -> None:
    """It gives traces back in the order they were finished, in one step, while the other takes them in one."""
    keys = [f"trace:{n:03}" for n in range(16)]
    broke: list[Exception] = []

    def work(name: str, *, gives: bool) -> None:
        try:
            with open_store(where, patience=20) as store, Holds(store, name) as holds:
                for _ in range(30):
                    holds.take_all(keys)
                    if gives:
                        with store.batch():
                            holds.release(reversed(keys))
        except PlatformError as error:
            broke.append(error)

    threads = [threading.Thread(target=work, args=(name,), kwargs={"gives": name == "one"}) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not broke


def test_the_lease_of_a_killed_process_is_free_at_once(where: str, nursery: Nursery, tmp_path: Path) -> None:
    """And not a moment before."""
    first = nursery.start("lease", where, tmp_path / "first", key="work", stay=True)
    lines(tmp_path / "first", until="taken")
    nursery.start("lease", where, tmp_path / "second", key="work", stay=False)
    assert lines(tmp_path / "second", until="done") == ["refused", "done"]
    nursery.kill(first)
    nursery.start("lease", where, tmp_path / "third", key="work", stay=False)
    assert lines(tmp_path / "third", until="done") == ["taken", "done"]


def test_a_killed_run_is_told_as_interrupted(
    where: str, nursery: Nursery, tmp_path: Path, opened: Callable[..., Store]
) -> None:
    """It had no time to say so itself."""
    child = nursery.start("lease", where, tmp_path / "log", key="work", stay=True)
    lines(tmp_path / "log", until="taken")
    store = opened(where)
    assert store.last_run("interrupted") is None
    assert state_of(store.last_run("running")) == ("leasing", "running")
    nursery.kill(child)
    assert state_of(store.last_run("interrupted")) == ("leasing", "interrupted")
    assert store.last_run("running") is None


def test_only_a_process_of_this_boot_can_be_seen_to_be_dead() -> None:
    """Of others nobody knows, so their leases run their time."""
    host, boot, _, run = owner("a:run").split(":", 3)
    assert run == "a:run"
    assert not dead(owner("run"))
    assert dead(f"{host}:{boot}:{os.getpid()}.1:run"), "the process id was given to another since"
    assert not dead(f"elsewhere:{boot}:999999.1:run")
    assert not dead(f"{host}:another-boot:999999.1:run")
    assert not any(dead(name) for name in ("", "me", "a:b:c:d", f"{host}:{boot}:x:run", f"{host}:{boot}:{'9' * 50}:r"))


@pytest.mark.parametrize("one_machine", [True, False])
def test_a_run_of_another_boot_is_over(*, one_machine: bool) -> None:
    """Of the same host, or of the one machine all owners are on; of other hosts, and of containers, nobody knows."""
    host, boot, process, _ = owner("a").split(":", 3)
    before = f"0{boot[1:]}" if boot[0] != "0" else f"1{boot[1:]}"
    namespace = f"{boot.rpartition('-')[0]}-1"
    assert ended(f"{host}:{before}:{process}:a", one_machine=one_machine)
    assert ended(f"{host}:{boot}:{os.getpid()}.1:a", one_machine=one_machine)
    assert ended(f"elsewhere:{before}:{process}:a", one_machine=one_machine) is one_machine
    told = (owner("a"), f"{host}:{namespace}:{process}:a", f"elsewhere:{boot}:{process}:a", f"{host}::{process}:a")
    assert not any(ended(name, one_machine=one_machine) for name in (*told, "", "me", "a:b:c"))


def test_a_run_whose_hold_on_itself_ran_out_is_told_as_interrupted(where: str) -> None:
    """As of a container that was replaced; one that holds nothing may live."""
    clock = Clock()
    elsewhere = f"another:{owner('').split(':')[1].rpartition('-')[0]}-1:17.1:"
    with open_store(where) as opened:
        store = Store(opened._database, keep_text=True, clock=clock)
        for ident in ("bare", "held"):
            store.start_run(ident, "{}")
        with opened._database.writing() as connection:
            connection.execute(update(runs).values(owner=elsewhere + runs.c.id))
        assert store.lease(run_key("held"), f"{elsewhere}held", 120)
        assert [(run.id, run.state) for run in store.runs()] == [("held", "running"), ("bare", "running")]
        clock.now += 121
        cut = store.last_run("interrupted")
        clock.now += 121
        cut = cut or store.last_run("interrupted")
        assert state_of(cut) == ("held", "interrupted")
        assert [run.id for run in store.runs("running")] == ["bare"]


def test_on_sqlite_a_lease_ends_by_the_clock_of_the_machine(leases: Book, tmp_path: Path) -> None:
    """Renewing it makes it last longer; a reboot, after which the clock starts anew, ends it."""
    clock = Clock()
    book = leases(str(tmp_path / "store.db"), clock)
    assert book.take("work", "a", 10)
    clock.now += 9
    assert book.take("work", "a", 10)
    clock.now += 9
    assert not book.take("work", "b", 10)
    clock.now += 1.1
    assert book.take("work", "b", 10)
    assert not book.take("work", "a", 10)
    clock.now = 5.0
    assert book.take("work", "a", 10)


def test_on_postgresql_a_lease_ends_when_it_was_seen_unrenewed(leases: Book, schema: str) -> None:
    """By the clock of who waits; the clock of the server may go as it likes."""
    mine, yours = Clock(), Clock()
    a, b = leases(schema, mine), leases(schema, yours)
    assert a.take("work", "a", 10)
    assert not b.take("work", "b", 10)
    yours.now += 9
    assert a.take("work", "a", 10)
    yours.now += 2
    assert not b.take("work", "b", 10), "it was renewed in between"
    yours.now += 9.9
    assert not b.take("work", "b", 10)
    yours.now += 0.2
    assert b.take("work", "b", 10)
    assert not a.take("work", "a", 10)


@pytest.mark.parametrize(("hours", "given"), [(-2, False), (0.9, False), (1.1, True)])
def test_a_step_of_the_servers_clock_makes_no_second_owner(
    leases: Book, schema: str, hours: float, *, given: bool
) -> None:
    """Back by any step, forth by less than an hour; a worker of long ago waits no longer than that."""
    import psycopg

    clock = Clock()
    book = leases(schema, clock)
    assert book.take("work", "a", 10)
    with psycopg.connect(schema.replace("+psycopg", "")) as connection:
        connection.execute("UPDATE groundtrace_leases SET until = until - %s", [hours * 3600 + 10])
    assert book.take("work", "b", 10) is given


def test_the_wall_clock_plays_no_part(
    where: str, opened: Callable[..., Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set back by a year, it gives no lease to a second owner and puts nothing out of order."""
    import time

    from groundtrace.testing import sample_card

    store = opened(where)
    assert store.lease("work", "a", 60)
    store.keep_card(sample_card())
    really = time.time
    monkeypatch.setattr(time, "time", lambda: really() - 365 * 86400)
    monkeypatch.setattr("groundtrace.store.rows.now", lambda: "2001-01-01T00:00:00+00:00")
    assert not store.lease("work", "b", 60)
    store.keep_card(sample_card(version="2"))
    assert (store.card(sample_card().id) or sample_card()).version == "2"
    store.start_run("later", "{}")
    store.start_run("latest", "{}")
    assert state_of(store.last_run()) == ("latest", "running")
