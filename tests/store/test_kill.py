"""A process killed at any point leaves a store in which everything it was told is whole."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from groundtrace.store import open_store
from nursery import Nursery, intention, lines, numbered


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
def test_twenty_kills_lose_and_halve_nothing(where: str, nursery: Nursery, tmp_path: Path) -> None:
    """What was committed is there; a write that left and was not confirmed is in the outbox."""
    pick = random.Random(20)
    for point in range(20):
        first, log = point * 1_000_000, tmp_path / f"log-{point}"
        child = nursery.start("stream", where, log, start=first)
        lines(log, until=f"receipt {first}")
        time.sleep(pick.uniform(0, 0.08))
        nursery.kill(child)
        _check(where, log, first)


@pytest.mark.parametrize("where", ["postgresql"], indirect=True)
def test_kills_on_postgresql(where: str, nursery: Nursery, tmp_path: Path) -> None:
    """The same holds there."""
    pick = random.Random(21)
    for point in range(5):
        first, log = point * 1_000_000, tmp_path / f"log-{point}"
        child = nursery.start("stream", where, log, start=first)
        lines(log, until=f"receipt {first}")
        time.sleep(pick.uniform(0, 0.08))
        nursery.kill(child)
        time.sleep(0.05)  # what the server had received it still commits
        _check(where, log, first)


def _check(where: str, log: Path, first: int) -> None:
    """Hold the store against what the killed process says it had done."""
    done = {"reply": first - 1, "intent": first - 1, "receipt": first - 1}
    for line in lines(log):
        what, _, number = line.partition(" ")
        done[what] = int(number)
    with open_store(where) as store:
        for n in range(first, done["reply"] + 1):
            reply = store.reply("judge", f"d{n}")
            assert reply is not None
            assert reply.text == "r" * (n % 3000)
        for n in range(first, done["intent"] + 1):
            assert store.card(numbered(n).id) == numbered(n)
            assert store.record(numbered(n)) is not None
        waiting = [intent for intent in store.outbox() if int(intent.card_id[-12:]) >= first]
        sure = [intention(numbered(n)) for n in range(done["receipt"] + 1, done["intent"] + 1)]
        assert len(waiting) <= 1
        for intent in sure:  # its receipt may have been committed and not logged
            assert intent in waiting or store.intend(intent) is not None
        for intent in waiting:
            assert store.card(intent.card_id) == numbered(int(intent.card_id[-12:]))
