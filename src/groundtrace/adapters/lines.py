"""JSON texts in files, read in spite of damage, every loss named and counted.

A file may be plain, gzip or zstd (told by its first bytes, not its name), one JSON text a line or spread over lines.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

import msgspec
import zstandard

LINE_MB = 64
"""The longest JSON text that is read, in MB; a longer one is skipped and named, so that memory stays bounded."""

REPLACED = "text that is no Unicode was replaced by U+FFFD"
NO_UTF8 = "bytes that are no UTF-8 were replaced by U+FFFD"
"""Said in a trace's notes of a span whose text lost characters: halves of them, or bytes that are none."""

_CHUNK = 1 << 18
_PIECE = 1 << 11
"""Packed bytes unpacked at once: the worst zstd block makes 64 MB of them."""
_SHOWN = 3
"""Line numbers or file names named in a note; the rest is in its count."""
_PUNCTUATION = b"{[ \t\r"
_BLANK = b" \t\r\n\0"
"""What may stand around a text: a crash can leave a run of NUL bytes in a file."""


# --- what was lost --------------------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """A kind of loss: said of one line, of several, and what was done about it. `many` is empty for a whole file."""

    one: str
    many: str
    outcome: str


NOT_JSON = Problem("line is not JSON", "lines are not JSON", "skipped")
_EMPTY = Problem("is empty", "", "nothing to read")
_TOO_LONG = Problem("line is too long", "lines are too long", "skipped; the option line_mb raises the limit")
_ENDS_EARLY = Problem("the compressed data ends early", "", "what stood before was read")
_DAMAGED = Problem("the compressed data is damaged", "", "what could be unpacked was read, and may be wrong")
_BROKEN = Problem("holds one JSON text that is not whole", "", "skipped")
_BREAKS = Problem("line breaks the JSON", "lines break the JSON", "the rest of the file is skipped")
_TOO_BIG = Problem("holds one JSON text that is too long", "", "skipped; the option line_mb raises the limit")
_OTHER_PACKING = Problem("is compressed in a way that is not read: gz and zst are", "", "skipped")
_UTF16 = Problem("is UTF-16", "", "skipped; save it as UTF-8")


@dataclass(slots=True)
class Loss:
    """How often one problem was met in one file, and on which lines first."""

    file: str
    problem: Problem
    count: int = 0
    lines: list[int] = field(default_factory=list)
    more: bool = False
    """Whether other lines had it too."""

    def __str__(self) -> str:
        if not self.problem.many:
            return f"{self.file}: {self.problem.one}: {self.problem.outcome}"
        what = self.problem.one if self.count == 1 else self.problem.many
        return f"{self.file}: {self.count:,} {what}{self._where()}: {self.problem.outcome}"

    def _where(self) -> str:
        if not self.lines:
            return ""
        numbers = ", ".join(map(str, self.lines)) + (" ..." if self.more else "")
        return f" (line{'s' if len(self.lines) > 1 else ''} {numbers})"

    def met(self, line: int | None, count: int) -> None:
        """Count it, and keep the line's number while there are few."""
        self.count += count
        if line and line not in self.lines:
            if len(self.lines) < _SHOWN:
                self.lines.append(line)
            else:
                self.more = True


class Losses:
    """What could not be read so far; equal problems of a file are counted together.

    >>> losses = Losses()
    >>> for line in (4, 9, 12):
    ...     losses.add("spans.jsonl", NOT_JSON, line)
    >>> losses.notes()
    ('spans.jsonl: 3 lines are not JSON (lines 4, 9, 12): skipped',)
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, Problem], Loss] = {}

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._found.values())

    def add(self, file: str, problem: Problem, line: int | None = None, count: int = 1) -> None:
        """Count a problem met in a file, at a line where it has one."""
        self._found.setdefault((file, problem), Loss(file, problem)).met(line, count)

    def notes(self) -> tuple[str, ...]:
        """One line for each problem of a file; a problem that many files share is one line."""
        shared: dict[Problem, list[Loss]] = {}
        for loss in self:
            shared.setdefault(loss.problem, []).append(loss)
        return tuple(note for losses in shared.values() for note in _told(losses))


def _told(losses: list[Loss]) -> Iterable[str]:
    if len(losses) <= _SHOWN:
        return map(str, losses)
    problem, count = losses[0].problem, sum(loss.count for loss in losses)
    what = f"{count:,} {problem.many}" if problem.many else problem.one
    names = ", ".join(loss.file for loss in losses[:_SHOWN])
    return (f"{len(losses)} files ({names} ...): {what}: {problem.outcome}",)


# --- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """One JSON text as it stands in a file, and the line it starts at, 0 where there are none."""

    file: str
    line: int
    data: bytes


def texts(file: Path | None, losses: Losses, line_mb: int = LINE_MB) -> Iterator[Text]:
    """The JSON texts of a file, or of standard input for None; never raises, what is lost is told to `losses`."""
    name = called(file)
    yield from split(chunks(file, losses), name, losses, line_mb)


def split(data: Iterable[bytes], name: str, losses: Losses, line_mb: int = LINE_MB) -> Iterator[Text]:
    """The JSON texts of bytes that come a piece at a time."""
    limit = line_mb << 20
    lines = (item for item in _lines(data, limit) if item[1] is None or item[1].strip(_BLANK))
    first = next(lines, None)
    if first is None:
        if not any(loss.file == name for loss in losses):
            losses.add(name, _EMPTY)
        return
    if first[1] is not None and first[1].rstrip(_BLANK)[-1:] in (b"{", b"[", b","):
        yield from _spread(first, lines, name=name, losses=losses, limit=limit)
    else:
        yield from _each(chain([first], lines), name, losses)


def called(file: Path | None) -> str:
    """What a file is called in notes; None is standard input."""
    return "standard input" if file is None else str(file)


def head(file: Path, size: int = 1 << 20, losses: Losses | None = None) -> bytes:
    """The first bytes of a file, unpacked, to tell what it holds; empty where it can't be read."""
    start = b""
    for chunk in chunks(file, losses or Losses()) if file.is_file() else ():
        start += chunk[: size - len(start)]
        if len(start) >= size:
            break
    return start


def obstacle(file: Path) -> str:
    """Why nothing can be read from a file; empty where something can."""
    losses = Losses()
    start = head(file, losses=losses)
    told = "" if start.strip(_BLANK) else _EMPTY.one
    return next((loss.problem.one for loss in losses), told) if told else ""


def clean(text: str) -> str:
    r"""The text with U+FFFD where it holds half a character, which no UTF-8 can carry.

    >>> clean("whole"), clean("half \ud83d"), clean("pair \ud83d\ude00")
    ('whole', 'half �', 'pair 😀')
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cleaned(value: object) -> object:
    """What JSON held, with every text in it clean."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): cleaned(item) for key, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, list) else value


def mended(data: bytes | bytearray) -> object:
    r"""JSON in which some text is no Unicode, with U+FFFD there; ValueError where it is no JSON.

    >>> mended(b'{"half": "\\ud83d"}') == {"half": "\ufffd"}
    True
    """
    try:
        return cleaned(json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: None))
    except RecursionError:
        raise ValueError("nested too deep") from None


def damage(data: bytes) -> str:
    r"""What stood in a text where U+FFFD stands now.

    >>> damage(b"caf\xe9") == NO_UTF8, damage(b'"half \\ud83d"') == REPLACED
    (True, True)
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return NO_UTF8
    return REPLACED


_Line = tuple[int, bytes | None]
"""A line's number and its bytes; None where it is longer than the limit."""


def _each(lines: Iterable[_Line], name: str, losses: Losses) -> Iterator[Text]:
    for number, line in lines:
        if line is None:
            losses.add(name, _TOO_LONG, number)
        else:
            yield Text(name, number, line.strip(_BLANK))


def _spread(first: _Line, lines: Iterator[_Line], *, name: str, losses: Losses, limit: int) -> Iterator[Text]:
    """Texts that go over several lines, one after the other; where they are none, each line for itself."""
    held, size = [first], 0
    for item in lines:
        held.append(item)
        size += len(item[1] or b"") + 1
        if item[1] is None or size > limit:
            break
    whole = b"\n".join(line or b"" for _, line in held) if size <= limit else b""
    row = end = 0
    for text in _documents(whole):
        start = end + len(text) - len(text.lstrip())
        row += whole.count(b"\n", end, start)
        yield Text(name, held[row][0], text.strip())
        row += whole.count(b"\n", start, end + len(text))
        end += len(text)
    if end:
        if whole[end:].strip():
            losses.add(name, _BREAKS, held[min(row + 1, len(held) - 1)][0])
    elif not (first[1] or b"").strip(_PUNCTUATION):
        losses.add(name, _BROKEN if size <= limit else _TOO_BIG)
    else:
        yield from _each(chain(held, lines), name, losses)


def _documents(whole: bytes) -> Iterator[bytes]:
    """The JSON texts that follow each other, with the blanks before them; ends where there is no more."""
    try:
        msgspec.json.decode(whole, type=msgspec.Raw)
    except (ValueError, RecursionError):
        pass
    else:
        yield whole
        return
    text, at = whole.decode("utf-8", "surrogateescape"), 0
    parse, blank = json.JSONDecoder().raw_decode, re.compile(r"\s*")
    while match := blank.match(text, at):
        try:
            _, end = parse(text, match.end())
        except (ValueError, RecursionError):
            return
        yield text[at:end].encode("utf-8", "surrogateescape")
        at = end


# --- bytes ----------------------------------------------------------------------------------------------------------


def _lines(data: Iterable[bytes], limit: int) -> Iterator[_Line]:
    """Numbered lines; of one longer than the limit only the number."""
    number, size = 1, 0
    held: list[bytes] = []
    for chunk in data:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            held.append(piece)
            yield number, b"".join(held) if size + len(piece) <= limit else None
            held.clear()
            number, size = number + 1, 0
        size += len(rest)
        if size <= limit:
            held.append(rest)
    if size:
        yield number, b"".join(held) if size <= limit else None


def chunks(file: Path | None, losses: Losses) -> Iterator[bytes]:
    """The bytes of a file, unpacked; trouble ends them and is told."""
    name = called(file)
    try:
        with _opened(file) as stream:
            first = stream.read(_CHUNK)
            if first.startswith((b"\xff\xfe", b"\xfe\xff")):
                losses.add(name, _UTF16)
            elif first.startswith((b"\xfd7zXZ\0", b"BZh", b"PK\x03\x04", b"7z\xbc\xaf")):
                losses.add(name, _OTHER_PACKING)
            elif first.startswith(b"\x1f\x8b"):
                yield from _unpacked(first, stream, lambda: zlib.decompressobj(31), name=name, losses=losses)
            elif first.startswith(b"\x28\xb5\x2f\xfd"):
                yield from _unpacked(first, stream, _zstd, name=name, losses=losses)
            else:
                yield first.removeprefix(b"\xef\xbb\xbf")
                while chunk := stream.read(_CHUNK):
                    yield chunk
    except OSError as error:
        losses.add(name, Problem(f"can't be read ({error.strerror or error})", "", "skipped"))


def _opened(file: Path | None) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if file is None else file.open("rb")


class _Unpacker(Protocol):
    """What zlib and zstandard both give for one packed stream."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _zstd() -> _Unpacker:
    return zstandard.ZstdDecompressor().decompressobj()


def _unpacked(
    first: bytes, stream: BinaryIO, make: Callable[[], _Unpacker], *, name: str, losses: Losses
) -> Iterator[bytes]:
    """Packed streams that follow each other, unpacked a little at a time: a bomb fills no memory."""
    unpacker = make()
    begun = False
    for piece in chain(_sliced(first), _pieces(stream)):
        data = piece
        try:
            while data:
                if unpacker.eof:
                    unpacker = make()
                begun = True
                yield unpacker.decompress(data)
                data = unpacker.unused_data.lstrip(b"\0") if unpacker.eof else b""
        except (zlib.error, zstandard.ZstdError):
            losses.add(name, _DAMAGED)
            return
    if begun and not unpacker.eof:
        losses.add(name, _ENDS_EARLY)


def _sliced(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield from _sliced(chunk)
