"""Traces while their spans come in: held in memory, and beyond a bound in a temporary file, so that memory stays small.

Nothing is let go early: a trace is handed out once, when everything was read, with all that was told of it. What the
file holds of a trace is a chain of pieces, each naming the one before it; in memory stand two numbers a trace.
The file has no name (where the platform allows that), is the user's own, and is gone with the reading, however it ends.
"""

from __future__ import annotations

import math
import struct
import tempfile
from array import array
from collections.abc import Iterator
from typing import IO, Self

import msgspec

from groundtrace.errors import PlanError
from groundtrace.model import Log, Span

HELD_MB = 64
"""How many MB of files may be held in memory before what was read of them goes to the temporary file."""

_LATER_MB = 16
"""And from then on: small, for there is an index to hold as well."""
_LINK = struct.Struct("<qI")
_FIRST = -1
_PACKED, _WRITTEN = b"m", b"j"


class Held(msgspec.Struct, gc=False):
    """What was told of one trace so far."""

    spans: dict[str, Span] = msgspec.field(default_factory=dict)
    logs: list[Log] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    repeated: int = 0

    def take(self, span: Span) -> bool:
        """Take a span in; of one that is here already the fuller copy stays. Whether it was new."""
        known = self.spans.setdefault(span.id, span)
        if known is span:
            return True
        self.spans[span.id] = max(known, span, key=_fullness)
        self.repeated += 1
        return False

    def start(self) -> float:
        """When the first span started; infinite where none says."""
        return start_of(self.spans)


class Shelf:
    """Everything by trace id; to be used in a `with`."""

    def __init__(self, held_mb: float = HELD_MB) -> None:
        self._open: dict[str, Held] = {}
        self._size, self._bound, self._held_mb = 0, held_mb * (1 << 20), held_mb
        self._file: IO[bytes] | None = None
        self._numbers: dict[str, int] = {}
        self._last, self._starts = array("q"), array("d")
        self.repeated = 0
        """Spans that came again after the first copy of theirs went to the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def spilled(self) -> bool:
        """Whether anything went to the temporary file."""
        return self._file is not None

    def of(self, trace_id: str) -> Held:
        """Where what is told of a trace now is put; ask anew for each text."""
        held = self._open.get(trace_id)
        if held is None:
            held = self._open[trace_id] = Held()
        return held

    def took(self, size: int) -> None:
        """So many bytes of a file were taken in; beyond the bound they go to the temporary file."""
        self._size += size
        if self._size > self._bound:
            self._spill()
            self._size, self._bound = 0, min(self._held_mb, _LATER_MB) * (1 << 20)

    def traces(self) -> Iterator[tuple[str, float, Held]]:
        """Each trace with its first span's start, by that and its id; those without a time or a span come last.

        Where copies of a span tell two starts and went to the file apart, the earlier one counts for the order.
        """
        if self._file is not None:
            self._spill()
            order = sorted(self._numbers.items(), key=lambda item: (self._starts[item[1]], item[0]))
            self._numbers = {}
            for trace_id, number in order:
                held = self._gathered(self._file, self._last[number])
                yield trace_id, held.start(), held
            return
        for start, trace_id in sorted((held.start(), trace_id) for trace_id, held in self._open.items()):
            yield trace_id, start, self._open.pop(trace_id)

    def _spill(self) -> None:
        """Write down what is held, each trace's piece after its last one."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="groundtrace-")  # noqa: SIM115 - closed by __exit__
            at = self._file.seek(0, 2)
            for trace_id, held in self._open.items():
                number = self._numbers.setdefault(trace_id, len(self._last))
                if number == len(self._last):
                    self._last.append(_FIRST)
                    self._starts.append(math.inf)
                piece = _written(held)
                self._file.write(_LINK.pack(self._last[number], len(piece)))
                self._file.write(piece)
                self._last[number] = at
                self._starts[number] = min(self._starts[number], held.start())
                at += _LINK.size + len(piece)
            self._file.flush()
        except OSError as error:
            place = tempfile.gettempdir()
            hint = "these files are too large to be held in memory; name a roomier place: TMPDIR=/some/where"
            raise PlanError("TMPDIR", place, f"can't be written to ({error.strerror or error})", hint=hint) from error
        self._open.clear()

    def _gathered(self, file: IO[bytes], at: int) -> Held:
        """All pieces of a trace as one, the first one first."""
        pieces: list[Held] = []
        while at != _FIRST:
            file.seek(at)
            at, size = _LINK.unpack(file.read(_LINK.size))
            pieces.append(_read(file.read(size)))
        whole = pieces.pop()
        while pieces:
            piece = pieces.pop()
            self.repeated += sum(not whole.take(span) for span in piece.spans.values())
            whole.logs += piece.logs
            whole.notes += piece.notes
            whole.repeated += piece.repeated
        return whole


def start_of(spans: dict[str, Span]) -> float:
    """When the first of some spans started; infinite where none says."""
    return min((span.start for span in spans.values() if span.start), default=math.inf)


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Held).decode


def _written(held: Held) -> bytes:
    try:
        return _PACKED + _pack(held)
    except OverflowError:  # a number of more than 64 bits
        return _WRITTEN + msgspec.json.encode(held)


def _read(piece: bytes) -> Held:
    return _unpack(memoryview(piece)[1:]) if piece[:1] == _PACKED else msgspec.json.decode(piece[1:], type=Held)


def _fullness(span: Span) -> tuple[int, int, str]:
    return len(span.attributes), span.end or 0, repr((span.attributes, span.events))
