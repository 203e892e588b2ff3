"""One request of an exporter, taken: unpacked within bounds, taken apart, and on the disk before it is answered."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import zstandard

from groundtrace.adapters.otel.requests import Malformed, Parcel, Signal, Taken, taken
from groundtrace.errors import GroundtraceError
from groundtrace.serve.assembly import Assembly, Full
from groundtrace.serve.counts import Counts
from groundtrace.serve.listening import bearer, knows

MOST = 20 << 20
"""Bytes of a request, and of what it unpacks to."""

_AT_ONCE = 64 << 20
"""Bytes of all requests that are being read or taken apart; beyond that others are to come again."""

_PIECE = 1 << 18
_GULP, _SIP = 4096, 512
_THREADS = 2
"""Requests that are taken apart at once: each takes several times its bytes while it is."""

SOON, LATER = 1, 5
"""Seconds after which who was turned away is to come again: there is room in a moment, or once something left."""


class Answer(Exception):
    """Ends a request with a status of HTTP; `again` is after how many seconds the same one may be taken."""

    def __init__(self, status: int, why: str, *, again: int | None = None) -> None:
        super().__init__(why)
        self.status, self.why, self.again = status, why, again


class Intake:
    """Takes requests; `wanted` says by its id whether a trace is judged, others are kept only to be sent on."""

    def __init__(
        self,
        assembly: Assembly,
        counts: Counts,
        *,
        wanted: Callable[[str], bool],
        forwards: bool,
        most: int = MOST,
        at_once: int = _AT_ONCE,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._assembly, self._counts, self._wanted, self._forwards = assembly, counts, wanted, forwards
        self.most, self._at_once = most, max(at_once, most)
        self._held = 0
        self._tell, self._told = tell, set[int]()
        self._lock, self._turn = threading.Lock(), threading.BoundedSemaphore(_THREADS)
        self.closed = False
        """Whether nothing is taken any more: the server is about to end."""

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """So many bytes of memory, as long as they are held; Answer where there is no room for them now."""
        with self._lock:
            if self._held + size > self._at_once:
                raise Answer(503, "too many requests at once", again=SOON)
            self._held += size
        try:
            yield
        finally:
            with self._lock:
                self._held -= size

    def take(self, signal: Signal, body: bytes, *, json: bool, encoding: str) -> Taken:
        """Take a request; it is on the disk when this returns. Answer where it is not taken."""
        if self.closed:
            raise Answer(503, "stopping", again=LATER)
        with self._turn:
            data = unpacked(body, encoding, self.most)
            try:
                told = taken(signal, data, json=json, apart=self._wanted)
            except Malformed as error:
                raise Answer(400, str(error)) from None
        parcels = told.parcels if self._forwards else [parcel for parcel in told.parcels if parcel.trace_id]
        try:
            self._assembly.put(parcels)
        except Full as error:
            raise Answer(429, str(error), again=LATER) from None
        except GroundtraceError as error:
            raise Answer(503, str(error), again=LATER) from None
        self._count(signal, told, parcels)
        return told

    def counted(self, what: str) -> None:
        """Count an answer."""
        self._counts.add("requests", what)

    def refused(self, answer: Answer, sender: str, over: str = "") -> None:
        """Count a refusal; the first of a kind is told: its sender may say nothing, or nowhere anybody looks."""
        self.counted(f"{over}{answer.status} {answer.why}")
        with self._lock:
            known = answer.status in self._told or self.closed
            self._told.add(answer.status)
        if not known:
            self._tell(f"refused what {sender} sent ({answer.status}): {answer.why}; /health counts more of the kind")

    def _count(self, signal: Signal, told: Taken, kept: list[Parcel]) -> None:
        name = {"traces": "spans", "logs": "log records"}[signal]
        judged = sum(parcel.count for parcel in kept if parcel.trace_id)
        self._counts.add(name, "taken", told.count)
        self._counts.add(name, "not in the sample", told.count - judged)
        for why, n in told.refused.items():
            self._counts.add(name, f"refused: {why}", n)


def admit(authorization: str, token: bytes | None) -> None:
    """Refuse who does not know the token, before anything of the request is looked at."""
    if token is not None and not knows(bearer(authorization), token):
        raise Answer(401, "no token, or a wrong one")


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A body as it was before it was packed, a little at a time: a bomb fills no memory. Answer where it can't be.

    >>> import gzip
    >>> unpacked(gzip.compress(b"spans"), "gzip", 10)
    b'spans'
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return _bounded([body], most)
    try:
        if encoding in ("gzip", "x-gzip"):
            return _bounded(_gunzipped(body), most)
        if encoding == "zstd":
            return _bounded(_unzstd(body), most)
    except (zlib.error, zstandard.ZstdError, EOFError):
        raise Answer(400, f"this is no {encoding}") from None
    raise Answer(415, "a Content-Encoding that is not read; gzip, zstd and identity are")


def _bounded(parts: Iterator[bytes] | list[bytes], most: int) -> bytes:
    held, size = [], 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size > most:
            raise Answer(413, f"too large: more than {most >> 20} MB, unpacked")
    return b"".join(held)


def _gunzipped(body: bytes) -> Iterator[bytes]:
    """What one member after another holds; EOFError where the last is cut.

    A little at a time: what follows a member is copied, and a body may be a million of them.
    """
    ended = False
    one = zlib.decompressobj(wbits=31)
    for at in range(0, len(body), _GULP):
        left = body[at : at + _GULP]
        while left:
            part = one.decompress(left, _PIECE)
            ended = one.eof
            left = one.unused_data if ended else one.unconsumed_tail
            if ended:
                one = zlib.decompressobj(wbits=31)
            yield part
    while not ended and (part := one.decompress(b"", _PIECE)):
        yield part
        ended = one.eof
    if not (ended or one.eof):
        raise EOFError


def _unzstd(body: bytes) -> Iterator[bytes]:
    """What one frame after another holds; EOFError where the last is cut.

    So few bytes at a time that what they unpack to at most (128 KB of every four) can be held.
    """
    one, at = _frames(), 0
    while at < len(body):
        part = one.decompress(body[at : at + _SIP])
        at += _SIP
        if part:
            yield part
        if one.eof and (at := min(at, len(body)) - len(one.unused_data)) < len(body):
            one = _frames()
    if not one.eof:
        raise EOFError


def _frames() -> Any:
    return zstandard.ZstdDecompressor(max_window_size=1 << 25).decompressobj()
