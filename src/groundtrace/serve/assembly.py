"""Traces while their spans come in, until they are judged and sent on; what they hold stands in the spool.

Nobody says when a trace is over. One whose root ended is taken to be over when nothing of it came for a while, one
without a root after a longer while. A span that comes later still joins its trace as long as that is remembered, and
the trace is judged again, whole; after that it goes on alone, counted. Of a trace only a few numbers are in memory.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from groundtrace.errors import GroundtraceError, PlanError
from groundtrace.serve.spool import JUDGED, PASSED

if TYPE_CHECKING:
    from groundtrace.adapters.otel.requests import Parcel, Signal
    from groundtrace.model import Scorecard
    from groundtrace.serve.spool import Piece, Spool

IDLE, DEADLINE = 10.0, 60.0
"""Seconds without a word after which a trace whose root ended is over; seconds a span is held for scores at most."""

_ROOTLESS = 6
"""How much longer a trace without a root is waited for: its root may run on, or never come."""

_KEPT = 30.0
"""Seconds a trace is kept for late spans once it was judged."""

_SEEN = 50_000
"""Traces remembered after that, so that a late span is not taken for a trace."""

_BATCH, _BATCH_BYTES = 32, 4 << 20
"""Traces judged together, a quarter of them after each attempt that came to nothing; bytes of them as they are kept."""

_LOAD, _LOAD_BYTES = 2000, 256 << 10
"""Spans sent together, and bytes of them as they are kept: several times as much as they are sent."""

_FIRST, _LONGEST, _VAIN = 30.0, 900.0, 6
"""Seconds until a trace is judged again that could not be, the first time and at most; and how often."""


_PACE = 0.1
"""Seconds between two looks at all that is here."""


class Full(GroundtraceError):
    """No more fits in: who sends is to come again later."""


@dataclass(frozen=True)
class Limits:
    """How much may wait."""

    pieces: int = 100_000
    spool: int = 2 << 30
    """Bytes on the disk."""

    trace: int = 8 << 20
    """Bytes of one trace, as they are kept; a larger one is not judged."""


@dataclass(eq=False)
class Gathering:
    """What is known of one trace: where its parcels stand, and how far it is."""

    trace_id: str
    first: float
    last: float
    pieces: list[Piece] = field(default_factory=list)
    rooted: bool = False
    size: int = 0
    state: Literal["open", "judging", "judged", "given up"] = "open"
    cards: list[Scorecard] = field(default_factory=list)
    queued: int = 0
    """How many of its parcels are on their way or there."""

    passed: int = 0
    grew: bool = False
    """Whether more came while it was judged."""

    attempts: int = 0
    again: float = 0.0
    answers: Counter[str] | None = None
    """How many answers each judge had given in all when one gave out on this."""

    gone: float | None = None
    """When it is forgotten."""


class Load(NamedTuple):
    """Parcels that are sent on together, each with its trace where it has one that was gathered."""

    signal: Signal
    pieces: Sequence[tuple[Piece, Gathering | None]]

    @property
    def items(self) -> int:
        """Spans, or log records."""
        return sum(piece.count for piece, _ in self.pieces)


class Assembly:
    """All that waits; `forwards` says whether it is also sent on, `tell` hears what is lost. Safe from any thread."""

    def __init__(
        self,
        spool: Spool,
        *,
        forwards: bool,
        idle: float = IDLE,
        deadline: float = DEADLINE,
        limits: Limits | None = None,
        tell: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spool, self._forwards, self._tell, self._clock = spool, forwards, tell, clock
        self._idle, self._deadline, self._limits = idle, deadline, limits or Limits()
        self._traces: dict[str, Gathering] = {}
        self._ready: deque[tuple[Piece, Gathering | None]] = deque()
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._changed = threading.Condition(threading.RLock())
        self._pieces = self._under_way = 0
        self._hurried, self._swept = False, -math.inf
        self.counts: Counter[str] = Counter()
        """Traces, by what became of them."""
        self._take_up(spool.found)

    # --- in -----------------------------------------------------------------------------------------------------------

    def put(self, parcels: Sequence[Parcel]) -> None:
        """Keep what came; it is on the disk when this returns. Full, or PlatformError, where it is not, none of it."""
        if not parcels:
            return
        with self._changed:
            if self._pieces + len(parcels) > self._limits.pieces or self._spool.size > self._limits.spool:
                raise Full("too much waits to be judged or sent on")
            self._pieces += len(parcels)
        try:
            pieces = self._spool.put(parcels, onward=self._forwards)
        except GroundtraceError:
            with self._changed:
                self._pieces -= len(parcels)
            raise
        with self._changed:
            for piece in pieces:
                self._index(piece)
            self._changed.notify_all()

    def _take_up(self, found: Iterable[Piece]) -> None:
        """Go on with what an earlier server left; PlanError where it was to be sent on, and nobody says where to."""
        found = [*found]
        waits = sum(piece.onward and not piece.done & PASSED for piece in found)
        if waits and not self._forwards:
            said = f"{waits} parcel{'s' if waits > 1 else ''} of before wait{'' if waits > 1 else 's'} to be sent on"
            hint = "say where to with --forward, or name another folder with --spool"
            raise PlanError("spool", str(self._spool.folder), said, hint=hint)
        for piece in found:
            self._pieces += 1
            if piece.done & JUDGED and piece.trace_id:
                self._remember(piece.trace_id)
            if piece.done == PASSED | JUDGED:
                self._release([piece])
            else:
                self._index(piece, late=False)

    def _index(self, piece: Piece, *, late: bool = True) -> None:
        """Put a parcel where it belongs."""
        trace_id, now = piece.trace_id, self._clock()
        trace = self._traces.get(trace_id)
        if trace is None:
            if not trace_id or (late and self._is_late(piece)) or self._is_too_much():
                if trace_id:
                    self._remember(trace_id)
                self._alone(piece)
                return
            trace = self._traces[trace_id] = Gathering(trace_id, now, now)
        piece.trace_id = trace.trace_id  # one text for all of them
        trace.last, trace.gone = now, None
        trace.rooted = trace.rooted or piece.rooted
        trace.size += piece.size
        if piece.done & PASSED:
            trace.pieces.insert(trace.queued, piece)
            trace.queued += 1
            trace.passed += 1
        else:
            trace.pieces.append(piece)
        if trace.state == "judging":
            trace.grew = True
        elif trace.state == "judged":
            trace.state = "open"
        if trace.size > self._limits.trace and trace.state == "open":
            self._give_up(trace, "too large")
        elif trace.state == "given up":
            self._settle(trace)

    def _is_late(self, piece: Piece) -> bool:
        known = bytes.fromhex(piece.trace_id) in self._seen
        if known:
            self.counts["late"] += 1
        return known

    def _is_too_much(self) -> bool:
        """Whether a trace is better sent on at once than held: nobody's telemetry waits for a slow judge."""
        limits = self._limits
        if not self._forwards or (self._pieces < limits.pieces // 2 and self._spool.size < limits.spool // 2):
            return False
        self.counts["not judged: too many waited"] += 1
        return True

    def _alone(self, piece: Piece) -> None:
        """What nobody judges: it is sent on, or done with."""
        if not self._forwards:
            self._spool.mark([piece], PASSED | JUDGED)
            self._release([piece])
        elif piece.done & PASSED:
            self._spool.mark([piece], JUDGED)
            self._release([piece])
        else:
            self._ready.append((piece, None))

    # --- judging ------------------------------------------------------------------------------------------------------

    def due(self, *, wary: bool = False) -> list[Gathering]:
        """Traces that are over and not judged yet, some of them, of those that failed equally often.

        `wary`, and at the end, those that failed least come first: one that is never answered is in nobody's way.
        """
        with self._changed:
            now, found, size = self._clock(), list[Gathering](), 0
            traces: Iterable[Gathering] = self._traces.values()
            for trace in sorted(traces, key=lambda one: one.attempts) if wary or self._hurried else traces:
                if trace.state != "open" or not self._is_over(trace, now):
                    continue
                if found and trace.attempts != found[0].attempts:
                    continue
                found.append(trace)
                size += trace.size
                if len(found) >= max(1, _BATCH >> 2 * min(trace.attempts, 3)) or size > _BATCH_BYTES:
                    break
            for trace in found:
                trace.state, trace.grew = "judging", False
            return found

    def _is_over(self, trace: Gathering, now: float) -> bool:
        if trace.again > now:
            return False
        wait = 0.0 if self._hurried else self._idle * (1 if trace.rooted else _ROOTLESS)
        return now - trace.last >= wait

    def read(self, trace: Gathering) -> Iterator[bytes]:
        """All that came of a trace."""
        for piece in list(trace.pieces):
            yield self._spool.read(piece)

    def score(self, card: Scorecard) -> bool:
        """Put a card on its trace; False where its spans were on their way before."""
        with self._changed:
            trace = self._traces.get(card.ref.trace_id)
            if trace is None or trace.queued == len(trace.pieces):
                return False
            trace.cards = [*(one for one in trace.cards if one.id != card.id), card]
            return True

    def judged(self, traces: Iterable[Gathering], what: str = "judged") -> None:
        """These are done with; one that grew meanwhile is not."""
        with self._changed:
            for trace in traces:
                if trace.grew:
                    trace.state = "open"
                    continue
                trace.state = "judged"
                self.counts[what] += 1
                self._settle(trace)
            self._changed.notify_all()

    def put_off(self, traces: Sequence[Gathering], why: str, *, own: bool) -> None:
        """Judge these later; one that could not be by itself often enough is given up. `own`: it is their fault.

        At the end later is the next start: only a batch is tried in parts, for one of it may keep the others.
        """
        with self._changed:
            for trace in traces:
                trace.state = "open"
                trace.attempts += own
                pause = min(_FIRST * 2.0 ** min(trace.attempts, 10), _LONGEST)
                if self._hurried:
                    pause = 0.0 if own and len(traces) > 1 else math.inf
                trace.again = self._clock() + pause
                if trace.attempts >= _VAIN and not self._hurried:
                    self._tell(f"gave up trace {trace.trace_id}: {why}")
                    self._give_up(trace, "given up")

    def _give_up(self, trace: Gathering, what: str) -> None:
        trace.state = "given up"
        self.counts[what] += 1
        if what == "too large":
            self._tell(f"trace {trace.trace_id} is too large to be judged: more than {self._limits.trace >> 20} MB")
        self._settle(trace)

    def _settle(self, trace: Gathering) -> None:
        """Note what is done with all of a trace, and let go of it in a while."""
        if not self._forwards:
            self._spool.mark(trace.pieces, PASSED | JUDGED)
        else:
            self._spool.mark([piece for piece in trace.pieces if piece.done & PASSED], JUDGED)
        self._queue(trace)
        self._go(trace)

    def _queue(self, trace: Gathering) -> None:
        """Send a trace on as it is."""
        if self._forwards and trace.queued < len(trace.pieces):
            self._ready.extend((piece, trace) for piece in trace.pieces[trace.queued :])
            trace.queued = len(trace.pieces)

    def _go(self, trace: Gathering) -> None:
        if trace.state in ("judged", "given up") and (not self._forwards or trace.passed == len(trace.pieces)):
            trace.cards = []
            trace.gone = self._clock() + _KEPT

    # --- out ----------------------------------------------------------------------------------------------------------

    def take(self, seconds: float) -> Load | None:
        """Parcels that may be sent on, waited for so long at most."""
        with self._changed:
            self._sweep()
            if not self._ready:
                self._changed.wait(seconds)
                self._sweep()
            if not self._ready:
                return None
            signal, taken, count, size = self._ready[0][0].signal, list[tuple["Piece", "Gathering | None"]](), 0, 0
            while self._ready and self._ready[0][0].signal == signal and count < _LOAD and size < _LOAD_BYTES:
                piece, trace = self._ready.popleft()
                taken.append((piece, trace))
                count, size = count + piece.count, size + piece.size
            self._under_way += len(taken)
            return Load(signal, taken)

    def passed(self, load: Load) -> None:
        """These arrived."""
        with self._changed:
            self._under_way -= len(load.pieces)
            over = [piece for piece, trace in load.pieces if trace is None or trace.state in ("judged", "given up")]
            self._spool.mark(over, PASSED | JUDGED)
            self._spool.mark([piece for piece, _ in load.pieces], PASSED)
            self._release([piece for piece, trace in load.pieces if trace is None])
            for _, trace in load.pieces:
                if trace is not None:
                    trace.passed += 1
                    self._go(trace)
            self._changed.notify_all()

    def back(self, load: Load) -> None:
        """These did not arrive, and nobody tries any more before the next start."""
        with self._changed:
            self._under_way -= len(load.pieces)
            self._ready.extendleft(reversed(load.pieces))

    def tend(self) -> None:
        """Let go of what is over."""
        with self._changed:
            self._sweep()

    def _sweep(self) -> None:
        """Queue what was held long enough; forget what is over. Not more often than anybody would notice."""
        now = self._clock()
        if now < self._swept + _PACE:
            return
        self._swept = now
        for trace in list(self._traces.values()):
            if trace.gone is not None and trace.gone <= now:
                self._forget(trace)
            elif trace.state in ("judged", "given up") or now - trace.first >= self._deadline:
                self._queue(trace)

    def _forget(self, trace: Gathering) -> None:
        del self._traces[trace.trace_id]
        self._remember(trace.trace_id)
        self._release(trace.pieces)

    def _remember(self, trace_id: str) -> None:
        self._seen[bytes.fromhex(trace_id)] = None
        if len(self._seen) > _SEEN:
            self._seen.popitem(last=False)

    def _release(self, pieces: Sequence[Piece]) -> None:
        self._pieces -= len(pieces)
        self._spool.release(pieces)

    # --- the end ------------------------------------------------------------------------------------------------------

    def hurry(self) -> None:
        """Wait for nothing any more: all that is here is judged, once more where it could not be, and sent on."""
        with self._changed:
            self._hurried = True
            for trace in self._traces.values():
                trace.again = 0.0
            self._changed.notify_all()

    def let_go(self) -> None:
        """Send on all that is here, judged or not."""
        with self._changed:
            self._deadline, self._swept = 0.0, -math.inf
            self._changed.notify_all()

    def close(self) -> None:
        """Forget what is over, so that the next start has only what is not."""
        with self._changed:
            for trace in [trace for trace in self._traces.values() if trace.gone is not None]:
                self._forget(trace)

    def waiting(self) -> dict[str, int]:
        """How much is here: traces to be judged, parcels to be sent on, parcels in all, bytes on the disk."""
        with self._changed:
            open_ = sum(trace.state in ("open", "judging") for trace in self._traces.values())
            held = sum(len(trace.pieces) - trace.queued for trace in self._traces.values()) if self._forwards else 0
            sending = held + len(self._ready) + self._under_way
            return {"traces": open_, "to send": sending, "kept": self._pieces, "bytes": self._spool.size}

    @property
    def is_full(self) -> bool:
        """Whether who sends is told to come again."""
        return self._pieces >= self._limits.pieces or self._spool.size > self._limits.spool
