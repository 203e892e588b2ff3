"""Parcels on the disk before they are answered for, until nobody needs them: killed and started again, all is there.

A spool is a folder of segments, files that only grow: a parcel after another, each with its length and its checksum.
Beside each stands what was done with its parcels. A segment goes once all of it is done. What a kill left half
written was never answered for, and is cut off.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

import zstandard

from groundtrace.errors import PlanError, PlatformError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from types import TracebackType

    from groundtrace.adapters.otel.requests import Parcel, Signal

PASSED, JUDGED = 1, 2
"""What may have been done with a parcel: it was sent on; it was judged, or nobody will."""

_SIGNALS: tuple[Signal, ...] = ("traces", "logs")
_MAGIC = b"gtP1"
_HEAD = struct.Struct("<4sIIIBB16s")
"""Mark, size as written, checksum of it, count, signal, flags, trace id."""

_DONE = struct.Struct("<QBB")
"""Where a parcel stands, what was done with it, and a check of the two."""

_ROOTED, _ONWARD = 1, 2
"""What is known of a parcel without reading it: a root is in it; it was taken to be sent on."""

_SEGMENT = 16 << 20
_NAMED = re.compile(r"\d{12}\.otlp")


class Piece:
    """A parcel on the disk: where it stands, and what of it is known without reading it."""

    __slots__ = ("at", "count", "done", "onward", "rooted", "segment", "signal", "size", "trace_id")

    def __init__(
        self,
        segment: _Segment,
        at: int,
        size: int,
        *,
        signal: Signal,
        trace_id: str,
        count: int,
        rooted: bool,
        onward: bool,
    ) -> None:
        self.segment, self.at, self.size = segment, at, size
        self.signal, self.trace_id, self.count, self.rooted = signal, trace_id, count, rooted
        self.onward, self.done = onward, 0


@dataclass(eq=False)
class _Segment:
    """One file, and the one that says what was done with what it holds."""

    path: Path
    file: IO[bytes]
    done: IO[bytes]
    size: int = 0
    living: int = 0
    """Parcels of it that somebody still needs."""

    @property
    def ledger(self) -> Path:
        """Where what was done is kept."""
        return self.path.with_suffix(".done")


class Spool:
    """The parcels in a folder, which is one server's alone; to be used in a `with`.

    `found` are those of before, that a server left. `segment` is for tests.
    """

    def __init__(self, folder: Path, *, segment: int = _SEGMENT) -> None:
        self.folder, self._most = folder, segment
        self._lock, self._sync = threading.Lock(), threading.Lock()
        self._segments: dict[Path, _Segment] = {}
        self._active: _Segment | None = None
        self._written = self._safe = 0
        self._closed = False
        self.torn = 0
        """Parcels that were damaged, or cut off at a file's end: those were never answered for."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds other people's texts
            self._alone = (folder / "lock").open("ab")
        except OSError as error:
            hint = "name a folder of yours with --spool"
            raise PlanError("spool", str(folder), f"can't be made: {error.strerror}", hint=hint) from None
        self._hold()
        self.found = tuple(self._opened())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        with self._lock:
            self._closed = True
            for segment in list(self._segments.values()):
                if segment.living:
                    segment.file.close()
                    segment.done.close()
                else:
                    self._forget(segment)
            self._alone.close()

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return sum(segment.size for segment in list(self._segments.values()))

    def put(self, parcels: Sequence[Parcel], *, onward: bool = False) -> list[Piece]:
        """Keep parcels; they are on the disk when this returns. PlatformError where there is no room for them.

        `onward` are those that are to be sent on: a later server that sends nothing on must know.
        """
        packing = zstandard.ZstdCompressor(level=1)
        told = [_told(parcel, packing, onward=onward) for parcel in parcels]
        with self._lock:
            if self._closed:
                raise PlatformError(f"the spool {self.folder} is closed")
            segment = self._current()
            pieces = []
            at = segment.size
            for parcel, written in zip(parcels, told, strict=True):
                pieces.append(
                    Piece(
                        segment,
                        at,
                        len(written),
                        signal=parcel.signal,
                        trace_id=parcel.trace_id,
                        count=parcel.count,
                        rooted=parcel.rooted,
                        onward=onward,
                    )
                )
                at += len(written)
            self._append(segment, b"".join(told))
            segment.living += len(pieces)
            self._written += 1
            mine = self._written
        try:
            self._flush(mine)
        except PlatformError:  # who sent it is to send it again
            self.mark(pieces, PASSED | JUDGED)
            self.release(pieces)
            raise
        return pieces

    def read(self, piece: Piece) -> bytes:
        """A parcel's request; PlatformError where the disk lost it."""
        try:
            raw = os.pread(piece.segment.file.fileno(), piece.size, piece.at)
            return zstandard.ZstdDecompressor().decompress(raw[_HEAD.size :])
        except (OSError, zstandard.ZstdError) as error:
            raise PlatformError(f"{piece.segment.path}: a parcel can't be read any more: {error}") from None

    def mark(self, pieces: Iterable[Piece], what: int) -> None:
        """Note what was done with parcels: a process killed after this does not do it again."""
        by: dict[_Segment, list[bytes]] = {}
        with self._lock:
            for piece in pieces:
                if piece.done | what != piece.done:
                    piece.done |= what
                    by.setdefault(piece.segment, []).append(_DONE.pack(piece.at, what, _check(piece.at, what)))
            for segment, lines in by.items():
                _note(segment, b"".join(lines))

    def release(self, pieces: Iterable[Piece]) -> None:
        """Parcels nobody needs any more; the files go that hold no others."""
        with self._lock:
            for piece in pieces:
                piece.segment.living -= 1
                if not piece.segment.living and piece.segment is not self._active:
                    self._forget(piece.segment)

    # --- files --------------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """One server a folder: two would send everything twice."""
        if sys.platform != "win32":
            try:
                fcntl.flock(self._alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._alone.close()
                hint = "name another folder with --spool"
                raise PlanError("spool", str(self.folder), "is another server's", hint=hint) from None

    def _opened(self) -> Iterator[Piece]:
        """The parcels of before that are not done."""
        for path in sorted(path for path in self.folder.iterdir() if _NAMED.fullmatch(path.name)):
            segment = _Segment(path, path.open("r+b", buffering=0), path.with_suffix(".done").open("a+b", 0))
            self._segments[path] = segment
            pieces = {piece.at: piece for piece in self._scanned(segment)}
            for at, what in _kept(segment):
                if at in pieces:
                    pieces[at].done |= what
            segment.living = len(pieces)
            if not pieces:
                self._forget(segment)
            yield from pieces.values()

    def _scanned(self, segment: _Segment) -> Iterator[Piece]:
        """The parcels of a file, without what is damaged; where none begins, what comes after is cut off."""
        at, end = 0, segment.file.seek(0, 2)
        while at < end:
            size, piece = self._piece(segment, at, end)
            if piece is not None:
                yield piece
            else:
                self.torn += 1
                if at + size < end and os.pread(segment.file.fileno(), len(_MAGIC), at + size) != _MAGIC:
                    size = 0
            if not size:
                segment.file.truncate(at)
                break
            at += size
        segment.size = at

    def _piece(self, segment: _Segment, at: int, end: int) -> tuple[int, Piece | None]:
        """How much stands there, and the parcel; 0 where none begins."""
        raw = os.pread(segment.file.fileno(), _HEAD.size, at)
        if len(raw) < _HEAD.size:
            return 0, None
        mark, size, checked, count, signal, flags, trace_id = _HEAD.unpack(raw)
        if mark != _MAGIC or at + _HEAD.size + size > end or signal >= len(_SIGNALS):
            return 0, None
        if zlib.crc32(os.pread(segment.file.fileno(), size, at + _HEAD.size)) != checked:
            return _HEAD.size + size, None
        return _HEAD.size + size, Piece(
            segment,
            at,
            _HEAD.size + size,
            signal=_SIGNALS[signal],
            trace_id=trace_id.hex() if any(trace_id) else "",
            count=count,
            rooted=bool(flags & _ROOTED),
            onward=bool(flags & _ONWARD),
        )

    def _current(self) -> _Segment:
        """The file that is written to."""
        if self._active is not None and self._active.size < self._most:
            return self._active
        full = self._active
        if full is not None:
            self._synced(full)
        last = max((int(path.stem) for path in self._segments), default=0)
        path = self.folder / f"{last + 1:012d}.otlp"
        try:
            self._active = _made(path)
        except OSError as error:
            raise PlatformError(f"the spool {self.folder} can't be written to: {error.strerror}") from None
        self._segments[path] = self._active
        if full is not None and not full.living:
            self._forget(full)
        return self._active

    def _append(self, segment: _Segment, data: bytes) -> None:
        """Put bytes at the end of a file; on trouble nothing of them stays."""
        left = memoryview(data)
        try:
            at = segment.size
            while left:
                n = os.pwrite(segment.file.fileno(), left, at)
                left, at = left[n:], at + n
        except OSError as error:
            with suppress(OSError):
                segment.file.truncate(segment.size)
            raise PlatformError(f"the spool {self.folder} can't be written to: {error.strerror}") from None
        segment.size = at

    def _flush(self, mine: int) -> None:
        """See that what was written is on the disk; who waits meanwhile finds it done.

        What stands in a file before the active one is there already.
        """
        with self._sync:
            if self._safe >= mine:
                return
            with self._lock:
                reached, segment = self._written, self._active
            if segment is not None:
                with suppress(ValueError):  # it was full, put on the disk and taken away meanwhile
                    self._synced(segment)
            self._safe = reached

    def _synced(self, segment: _Segment) -> None:
        try:
            os.fsync(segment.file.fileno())
        except OSError as error:
            raise PlatformError(f"the spool {self.folder} can't be written to: {error.strerror}") from None

    def _forget(self, segment: _Segment) -> None:
        """Take a file away that nobody needs."""
        self._segments.pop(segment.path, None)
        segment.file.close()
        segment.done.close()
        for path in (segment.path, segment.ledger):
            with suppress(OSError):
                path.unlink()


def _made(path: Path) -> _Segment:
    """A file with its ledger, whose names are on the disk; where that can't be, nothing is left in the way."""
    with ExitStack() as undone:
        file = os.fdopen(_private(path, os.O_EXCL), "r+b", buffering=0)
        undone.callback(path.unlink)
        undone.callback(file.close)
        ledger = os.fdopen(_private(path.with_suffix(".done"), os.O_APPEND | os.O_TRUNC), "a+b", 0)
        undone.callback(ledger.close)
        _sync_folder(path.parent)
        undone.pop_all()
    return _Segment(path, file, ledger)  # not buffered: what did not fit is not tried again


def _private(path: Path, more: int) -> int:
    """Make a file that only its owner may read."""
    return os.open(path, os.O_RDWR | os.O_CREAT | more, 0o600)


def _told(parcel: Parcel, packing: zstandard.ZstdCompressor, *, onward: bool) -> bytes:
    """A parcel as it is written."""
    packed = packing.compress(parcel.data)
    trace_id = bytes.fromhex(parcel.trace_id) if parcel.trace_id else bytes(16)
    kind = _SIGNALS.index(parcel.signal)
    flags = (_ROOTED if parcel.rooted else 0) | (_ONWARD if onward else 0)
    return _HEAD.pack(_MAGIC, len(packed), zlib.crc32(packed), parcel.count, kind, flags, trace_id) + packed


def _note(segment: _Segment, lines: bytes) -> None:
    """Write lines to a ledger, none of them half; without room for them it is done again after a kill."""
    with suppress(OSError):
        if segment.done.write(lines) < len(lines):
            at = segment.done.seek(0, 2)
            segment.done.truncate(at - at % _DONE.size)


def _kept(segment: _Segment) -> Iterator[tuple[int, int]]:
    """What was done with the parcels of a file; a line a kill left half is none, nor is what follows it shifted."""
    segment.done.seek(0)
    raw = segment.done.read()
    whole = len(raw) // _DONE.size * _DONE.size
    if whole < len(raw):
        segment.done.truncate(whole)
    for at, what, check in _DONE.iter_unpack(raw[:whole]):
        if check == _check(at, what):
            yield at, what


def _check(at: int, what: int) -> int:
    return (zlib.crc32(at.to_bytes(8, "little")) ^ (what * 0x5B)) & 0xFF


def _sync_folder(folder: Path) -> None:
    """See that a file's name is on the disk."""
    if sys.platform != "win32":
        at = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(at)
        finally:
            os.close(at)
