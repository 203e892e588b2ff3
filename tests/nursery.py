"""Processes to race, to lock and to kill, in milliseconds each: a program that forks a child for each line it is told.

A line is `{"do": name, "where": store, "log": file, ...}`; the child's id is printed. What a child has done for certain
it appends to its log, a line each; the last one is "done".
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from groundtrace.model import Attempt, Intent, Receipt, Reply, Scorecard
from groundtrace.store import Store, open_store, owner
from groundtrace.testing import sample_card, sample_record


class Nursery:
    """Starts processes that work on stores, and kills them."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program
        self._children: list[int] = []

    def start(self, do: str, where: object, log: Path, **told: object) -> int:
        """A child that does something; its id."""
        assert self._program.stdin
        assert self._program.stdout
        line = json.dumps({"do": do, "where": str(where), "log": str(log), **told})
        self._program.stdin.write(line + "\n")
        self._program.stdin.flush()
        self._children.append(int(self._program.stdout.readline()))
        return self._children[-1]

    def kill(self, child: int) -> None:
        """End a child as a power cut would, and wait until it is gone."""
        with suppress(ProcessLookupError):
            while True:
                os.kill(child, signal.SIGKILL)
                time.sleep(0.002)

    def clear(self) -> None:
        """End all that are left."""
        for child in self._children:
            self.kill(child)


def lines(log: Path, until: str = "", seconds: float = 30) -> list[str]:
    """What a child's log says, once it has said `until`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        told = log.read_text(encoding="ascii").splitlines() if log.exists() else []
        if not until or until in told:
            return told
        time.sleep(0.01)
    pytest.fail(f"{log.name} never said {until!r}")


# --- what the children do ---------------------------------------------------------------------------------------------


def tell(store: Store, log: int, name: str) -> None:
    """Tell one thing."""
    store.move_cursor(name, "here")
    os.write(log, b"told\n")


def hold(store: Store, log: int) -> None:
    """Hold the store's write lock until killed."""
    with store._database.writing():
        os.write(log, b"holding\n")
        signal.pause()


def lease(store: Store, log: int, key: str, *, stay: bool) -> None:
    """Take a lease for an hour and say whether it was given; then stay alive, or end without giving it back."""
    store.start_run("leasing", "{}")
    taken = store.lease(key, owner("leasing"), 3600)
    os.write(log, b"taken\n" if taken else b"refused\n")
    while stay:
        signal.pause()


def race(store: Store, log: int, keys: int) -> None:
    """Take every lease that is free."""
    for key in range(keys):
        if store.lease(f"k{key}", owner(str(os.getpid())), 3600):
            os.write(log, f"{key}\n".encode())
    time.sleep(1)  # alive while the others still ask


def stream(store: Store, log: int, start: int) -> None:
    """Tell one thing after another until killed; the log names what was committed."""
    n = start
    while True:
        card = numbered(n)
        store.keep_reply("judge", f"d{n}", Reply("r" * (n % 3000), "judge"), ())
        os.write(log, f"reply {n}\n".encode())
        with store.batch():
            store.keep_record(sample_record(id=str(n)))
            store.keep_card(card)
            intent = intention(card)
            store.intend(intent)
            os.write(log, f"intent {n}\n".encode())
        store.keep_receipt(Receipt(**intent.model_dump(), state="written"))
        os.write(log, f"receipt {n}\n".encode())
        n += 1


def numbered(n: int) -> Scorecard:
    """The n-th card of a stream."""
    attempts = (Attempt(slot="c1", attempt=1, judge="judge", text="t" * (n * 97 % 20_000)),)
    return sample_card(id=f"00000000-0000-5000-8000-{n:012d}", record_id=str(n), attempts=attempts)


def intention(card: Scorecard) -> Intent:
    """The write of a card's headline."""
    name = card.rubric
    ids = {"feedback_id": card.feedback_id(name), "content_hash": card.content_hash}
    return Intent(sink="s", card_id=card.id, score=name, **ids)


def main() -> None:
    """Fork a child for each line."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are buried at once
    for line in sys.stdin:
        job: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child:
            print(child, flush=True)
            continue
        log = os.open(job.pop("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        do = {"tell": tell, "hold": hold, "lease": lease, "race": race, "stream": stream}[job.pop("do")]
        try:
            with open_store(job.pop("where"), patience=job.pop("patience", 30)) as store:
                do(store, log, **job)
            os.write(log, b"done\n")
        finally:
            os._exit(0)


if __name__ == "__main__":
    main()
