"""The ledger forgets nothing it was told, and believes nothing that is torn."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from groundtrace.errors import PlanError
from groundtrace.judges.llm import batch_ledger
from groundtrace.judges.llm.batch_ledger import Ledger, Sent


def sent(token: str, *keys: str, age: timedelta = timedelta(0), judge: str = "j") -> Sent:
    """A batch as it is noted."""
    return Sent(token, judge, "openai x", datetime.now(UTC) - age, len(keys), "", Counter(keys), f"batch_{token}")


def note(ledger: Ledger, what: Sent) -> None:
    """Both lines of a batch."""
    ledger.asked(what)
    ledger.sent(what)


def left(ledger: Ledger) -> dict[str, list[str]]:
    """What can still be taken, by token."""
    return {one.token: sorted(one.left.elements()) for one in ledger.open("j", "openai x")}


def test_it_lies_in_the_data_directory(own_store: Path) -> None:
    """Where nobody names a file."""
    note(Ledger(), sent("a", "k"))
    assert left(Ledger()) == {"a": ["k"]}
    assert (own_store / "groundtrace" / "batches.jsonl").exists()


def test_what_is_taken_is_not_there(tmp_path: Path) -> None:
    """Equal questions are counted; what is over, old or another's is left out."""
    ledger = Ledger(tmp_path / "l")
    note(ledger, sent("a", "k", "k", "m"))
    note(ledger, sent("b", "n"))
    note(ledger, sent("c", "o"))
    note(ledger, sent("d", "p", age=timedelta(days=29)))
    note(ledger, sent("e", "q", judge="another"))
    ledger.taken("a", ["k"])
    ledger.taken("b", ["n"])
    ledger.over("c")
    assert left(Ledger(tmp_path / "l")) == {"a": ["k", "m"]}
    (batch,) = ledger.open("j", "openai x")
    assert (batch.batch, batch.count) == ("batch_a", 3)
    assert not ledger.open("j", "openai y")


def test_torn_and_strange_lines_are_passed_over(tmp_path: Path) -> None:
    """What comes after a torn line stands on a line of its own."""
    path = tmp_path / "l"
    path.write_bytes(b'\xff\n[]\n{"asked": "z"}\n{"taken": "a", "digests": 3}\nnull\n{"asked": "y", "at": "2')
    note(Ledger(path), sent("a", "k"))
    assert left(Ledger(path)) == {"a": ["k"]}


def test_a_large_one_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what is over, and nothing else is lost."""
    monkeypatch.setattr(batch_ledger, "_LARGE", 5_000)
    ledger = Ledger(tmp_path / "l")
    for n in range(50):
        note(ledger, sent(f"t{n}", *("k" * 32 for _ in range(5))))
        if n not in (7, 30):
            ledger.over(f"t{n}")
    ledger.taken("t7", ["k" * 32])
    before = left(ledger)
    assert (tmp_path / "l").stat().st_size < 2_000
    note(ledger, sent("new", "m"))
    assert left(ledger) == before | {"new": ["m"]}
    assert [len(keys) for keys in before.values()] == [4, 5]


def _notes(path: Path, name: str) -> None:
    ledger = Ledger(path)
    for n in range(10):
        note(ledger, sent(f"{name}{n}", "k"))
        ledger.open("j", "openai x")


def test_several_processes_write_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while one of them writes it anew."""
    monkeypatch.setattr(batch_ledger, "_LARGE", 1)
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_notes, args=(tmp_path / "l", name)) for name in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(left(Ledger(tmp_path / "l"))) == 30


def test_a_place_that_can_not_be_written(tmp_path: Path) -> None:
    """Said before anything is sent."""
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match="ledger"):
        Ledger(tmp_path / "file" / "l")
