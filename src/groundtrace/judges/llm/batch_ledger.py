"""Remembers which batches were sent and which questions are in them, so that nothing is paid for twice after a crash.

A file of JSON lines that only grows, with no text of anyone in it: `asked` stands before a batch goes out, `sent` once
the provider gave it an id, `taken` for each question whose answer was used, `over` when nothing is left in it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from platformdirs import user_data_path

from groundtrace.errors import PlanError

if sys.platform != "win32":
    import fcntl

KEPT = timedelta(days=28)
"""How long a batch is looked for: providers keep results for 29 or 30 days."""

_LARGE = 4_000_000
"""Bytes from which on a ledger is written anew without what is over."""


@dataclass(slots=True)
class Sent:
    """A batch: who asked, where, when, the questions in it, and its id once the provider gave one."""

    token: str
    judge: str
    where: str
    at: datetime
    count: int
    """Questions it was sent with."""

    after: str = ""
    """The batch that was the newest at the provider before."""

    left: Counter[str] = field(default_factory=Counter)
    """How often each question's answer can still be taken."""

    batch: str | None = None


class Ledger:
    """The batches that were sent; without a path in the platform's data directory.

    Any number of processes may use one file.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path).expanduser() if path else user_data_path("groundtrace") / "batches.jsonl"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                pass
        except OSError as error:
            hint = "name another file"
            raise PlanError("ledger", str(self.path), f"can't be written: {error.strerror}", hint=hint) from None

    def open(self, judge: str, where: str) -> list[Sent]:
        """The batches of this judge, sent there, that hold answers nobody took yet; oldest first."""
        with self._locked() as file:
            said = self._read(file)
            if os.fstat(file).st_size > _LARGE:
                self._shortened(file, said)
        return [sent for sent in said.values() if sent.judge == judge and sent.where == where]

    def asked(self, sent: Sent) -> None:
        """Note a batch that is about to be sent."""
        self._add(_line(sent))

    def sent(self, sent: Sent) -> None:
        """Note the id a provider gave to a batch."""
        self._add({"sent": sent.token, "batch": sent.batch})

    def taken(self, token: str, keys: Iterable[str]) -> None:
        """Note that answers in a batch were used."""
        self._add({"taken": token, "digests": list(keys)})

    def over(self, token: str) -> None:
        """Note that there is nothing in a batch, or nothing any more."""
        self._add({"over": token})

    def _add(self, what: Mapping[str, Any]) -> None:
        """Put a line on the disk, after whatever a crash left."""
        with self._locked() as file:
            size = os.fstat(file).st_size
            torn = size > 0 and _last(file, size) != b"\n"
            _write(file, b"\n" * torn + orjson.dumps(what) + b"\n")

    def _read(self, file: int) -> dict[str, Sent]:
        """The batches by their own token; what is torn or strange is left out."""
        said: dict[str, Sent] = {}
        os.lseek(file, 0, os.SEEK_SET)
        with open(file, "rb", closefd=False) as lines:
            for line in lines:
                with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
                    _follow(said, orjson.loads(line))
        oldest = datetime.now(UTC) - KEPT
        return {token: sent for token, sent in said.items() if sent.at > oldest and sent.left}

    def _shortened(self, file: int, said: Mapping[str, Sent]) -> None:
        """Write the file anew, where at least half of it is over; a crash leaves the old one or the new one.

        It is locked by a file beside it, so that nobody adds to the one that is replaced.
        """
        lines = b"".join(orjson.dumps(row) + b"\n" for sent in said.values() for row in _lines(sent))
        if 2 * len(lines) > os.fstat(file).st_size:
            return
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        with beside.open("wb") as made:
            made.write(lines)
            made.flush()
            os.fsync(made.fileno())
        beside.replace(self.path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, ours alone until we are done; where there are no file locks (Windows), one writer is assumed."""
        lock = os.open(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform != "win32":
                fcntl.flock(lock, fcntl.LOCK_EX)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o600)
            try:
                yield file
            finally:
                os.close(file)
        finally:
            os.close(lock)


def _line(sent: Sent) -> dict[str, Any]:
    return {
        "asked": sent.token,
        "judge": sent.judge,
        "where": sent.where,
        "at": sent.at.isoformat(timespec="seconds"),
        "count": sent.count,
        "after": sent.after,
        "digests": list(sent.left.elements()),
    }


def _lines(sent: Sent) -> Iterator[dict[str, Any]]:
    yield _line(sent)
    if sent.batch:
        yield {"sent": sent.token, "batch": sent.batch}


def _follow(said: dict[str, Sent], row: Mapping[str, Any]) -> None:
    """What one line changes."""
    if "asked" in row:
        at = datetime.fromisoformat(row["at"])
        left = Counter(str(key) for key in row["digests"])
        said[row["asked"]] = Sent(
            row["asked"], row["judge"], row["where"], at, int(row["count"]), str(row.get("after", "")), left
        )
    elif "sent" in row and row["sent"] in said:
        said[row["sent"]].batch = row["batch"]
    elif "taken" in row and row["taken"] in said:
        sent = said[row["taken"]]
        sent.left -= Counter(row["digests"])
    elif "over" in row:
        said.pop(row["over"], None)


def _last(file: int, size: int) -> bytes:
    os.lseek(file, size - 1, os.SEEK_SET)
    return os.read(file, 1)


def _write(file: int, line: bytes) -> None:
    left = memoryview(line)
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)
