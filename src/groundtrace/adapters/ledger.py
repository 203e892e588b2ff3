"""Files of JSON lines that only grow: what stands there is read back, and nothing is written twice.

Any number of processes may write to one file: each locks it, reads what the others added, and adds its line whole.
A line a crash left torn is ended, never cut off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from pydantic_core import to_jsonable_python

from groundtrace.adapters.lines import clean
from groundtrace.adapters.marks import Marks
from groundtrace.errors import PlanError
from groundtrace.model import OURS_ALONE, parts

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from groundtrace.adapters.published import State
    from groundtrace.model import Scorecard

_RANKS = {"offline": 1, "llm": 2, "human": 3}
_CONTENT = 2**62 - 1


class Stamp(NamedTuple):
    """Which content stands under an id, and whose word it is: what outranks it may replace it, and its equals."""

    content_hash: str
    rank: int
    score: str = ""
    """The score's name, where a line holds several under ids of their own."""


def stamp(content_hash: str, judge_kind: object, status: object, score: str = "") -> Stamp:
    """The stamp of a card: a person's outranks a model's, a model's the offline judge's, any score an unscored card.

    >>> stamp("h", "llm", "scored").rank > stamp("h", "offline", "scored").rank > stamp("h", "llm", "unscored").rank
    True
    """
    nobody = status == "unscored" and judge_kind != "human"
    return Stamp(content_hash, 0 if nobody else _RANKS.get(str(judge_kind), 0), sys.intern(score))


def stamp_of(card: Scorecard, content_hash: str, score: str = "") -> Stamp:
    """The stamp of a card about to be written: even an unscored one replaces what its own judge said before."""
    return stamp(content_hash, card.judge_kind, "scored", score)


class _Stood(NamedTuple):
    """What is remembered of a stamp: a hash of the content, and the rank."""

    content: int
    rank: int


def _short(stamped: Stamp) -> _Stood:
    return _Stood(hash(stamped.content_hash) & _CONTENT, stamped.rank)


def _packed(stamped: Stamp) -> int:
    content, rank = _short(stamped)
    return content << 2 | rank


def _stood(packed: int | None) -> _Stood | None:
    return None if packed is None else _Stood(packed >> 2, packed & 3)


def _state(known: _Stood | None, stamped: Stamp) -> State:
    if known is None:
        return "written"
    if known.content == _short(stamped).content:
        return "unchanged"
    return "kept" if known.rank > stamped.rank else "written"


class Line(NamedTuple):
    """A line about to be added: the ids that are due with their stamps, and what makes the line of those to write.

    `over` is told the names of the scores in the file and gives ids whose time is over, with what takes their place: of
    them only those that stand in the file are due.
    """

    due: Mapping[str, Stamp]
    compose: Callable[[Collection[str]], object]
    over: Callable[[Collection[str]], Mapping[str, Stamp]] | None = None


class Ledger:
    """One file and what it already says; `stamps` finds the ids and stamps in a line of it, and never raises."""

    def __init__(self, path: Path, stamps: Callable[[bytes], Iterable[tuple[str, Stamp]]]) -> None:
        self.path = path
        self._stamps = stamps
        self._known = Marks()
        self._scores: set[str] = set()
        self._read = self._inode = 0
        self._torn = False
        self._notes: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Without what was learned of the file, which is told apart by hashes of this process: it is read anew."""
        return {**self.__dict__, "_known": Marks(), "_scores": set(), "_read": 0, "_inode": 0, "_torn": False}

    def notes(self) -> tuple[str, ...]:
        """What was found broken in the file."""
        return self._notes

    def append(self, lines: Sequence[Line]) -> list[dict[str, State]]:
        """Add lines for the ids whose content is new; says for each line what became of its ids.

        All of them are on the disk when this returns; OSError where they could not be put there, and then nothing of
        them is in the file.
        """
        states: list[dict[str, State]] = []
        told: list[bytes] = []
        with _locked(self.path) as file:
            self._catch_up(file)
            fresh: dict[str, _Stood] = {}
            scores = set(self._scores)
            learned: list[tuple[str, Stamp]] = []
            for line in lines:
                over = line.over(scores) if line.over else {}
                due = {**line.due, **{key: end for key, end in over.items() if key in fresh or key in self._known}}
                states.append({key: _state(fresh.get(key) or _stood(self._known.get(key)), due[key]) for key in due})
                new = [key for key, state in states[-1].items() if state == "written"]
                if new:
                    told.append(encode(line.compose(new)))
                    fresh |= {key: _short(due[key]) for key in new}
                    scores |= {due[key].score for key in new}
                    learned += ((key, due[key]) for key in new)
            if told:
                self._write(file, b"\n".join(told))
                self._learn(learned)
        return states

    def _catch_up(self, file: int) -> None:
        """Read what was added since the last look; all of it where the file is another than before."""
        status = os.fstat(file)
        if status.st_ino != self._inode or status.st_size < self._read:
            self._known, self._scores = Marks(), set()
            self._read, self._inode, self._torn = 0, status.st_ino, False
        if status.st_size == self._read:
            return
        with open(file, "rb", closefd=False) as added:
            added.seek(self._read)
            line = b""
            for line in added:
                self._learn(self._stamps(line))
        self._read, self._torn = status.st_size, not line.endswith(b"\n")
        if self._torn and not any(self._stamps(line)):
            self._notes = (f"{self.path}: the last line was torn: what it should have said is written again",)

    def _learn(self, stamps: Iterable[tuple[str, Stamp]]) -> None:
        for key, stamped in stamps:
            self._known[key] = _packed(stamped)
            self._scores.add(stamped.score)

    def _write(self, file: int, line: bytes) -> None:
        """Put a line on the disk, after whatever a crash left; on trouble nothing of it stays."""
        left = memoryview((b"\n" if self._torn else b"") + line + b"\n")
        before, size = self._read, len(left)
        try:
            while left:
                left = left[os.write(file, left) :]
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, before)
            raise
        self._read, self._torn = before + size, False


_TOGETHER = 64
"""Cards that are put on the disk at once."""


def chunks(cards: Iterable[Scorecard]) -> Iterator[list[Scorecard]]:
    """The cards, as many at a time as are put on the disk at once."""
    left = iter(cards)
    while chunk := list(islice(left, _TOGETHER)):
        yield chunk


def encode(value: object) -> bytes:
    r"""A value as one line of JSON, for every reader of lines.

    Half characters, which UTF-8 can't carry, become U+FFFD; characters at which some readers end a line are escaped.

    >>> encode({"text": "half \ud83d"}).decode(), encode("one\u2028line")
    ('{"text":"half \ufffd"}', b'"one\\u2028line"')
    """
    try:
        line = orjson.dumps(value, default=parts, option=OURS_ALONE)
    except TypeError:
        line = orjson.dumps(_cleaned(value))
    if not line.isascii():
        for end in "\x85\u2028\u2029":
            line = line.replace(end.encode(), f"\\u{ord(end):04x}".encode())
    return line


def writable(folder: Path, files: Iterable[Path] = (), key: str = "to") -> None:
    """Refuse a folder, or files in it, that nothing can be written to, before anything is judged: PlanError."""
    hint = "name a place that is yours: --to otel:FOLDER, or --to jsonl:FILE"
    try:
        existing = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    except OSError as error:  # a name too long to be one
        raise PlanError(key, str(folder), f"can't be made: {error.strerror}", hint=hint) from None
    if not existing.is_dir():
        raise PlanError(key, str(folder), f"is no folder: {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise PlanError(key, str(folder), "can't be written to", hint=hint)
    try:
        _make_for_a_moment(folder.absolute())
    except OSError as error:
        raise PlanError(key, str(folder), f"can't be made: {error.strerror}", hint=hint) from None
    for file in files:
        if file.exists() and not (os.access(file, os.W_OK) and not file.is_dir()):
            raise PlanError(key, str(file), "can't be written to", hint=hint)


def _make_for_a_moment(folder: Path) -> None:
    """Make a folder that is missing and take it away again; OSError where it can't be made."""
    made: list[Path] = []
    try:
        for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            path.mkdir()
            made.append(path)
    except FileExistsError:  # somebody else made it just now
        pass
    finally:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir()


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(_key(key)): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    try:
        return _cleaned(parts(value))
    except TypeError:
        return to_jsonable_python(value)


def _key(key: object) -> str:
    """A key as JSON has it."""
    return key if isinstance(key, str) else str(next(iter(to_jsonable_python({key: None}))))


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, ours alone until we are done; where there are no file locks (Windows), one writer is assumed."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
    try:
        file = os.open(path, flags, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, flags, 0o644)
    try:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)
