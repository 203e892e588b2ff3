"""Sends on what is held, each parcel once, with the scores its trace was given by then."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from groundtrace.adapters.otel.requests import enriched, halves
from groundtrace.adapters.otel.sending import takes_none
from groundtrace.adapters.otel.sink import on_spans
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.published import results
from groundtrace.errors import PlatformError
from groundtrace.model import Receipt
from groundtrace.run.isolated import Isolated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Literal

    from groundtrace.adapters.otel.requests import Signal
    from groundtrace.adapters.otel.sending import Backend
    from groundtrace.model import Scorecard
    from groundtrace.serve.assembly import Assembly, Load
    from groundtrace.serve.counts import Counts
    from groundtrace.serve.spool import Spool

WORKERS = 4
"""Requests that are on their way at once."""

_REFUSED = frozenset({400, 413, 422})
"""Statuses that say that it is the spans that are not taken, not who sends them: no waiting helps."""

_LONGEST, _PATIENT = 30.0, 300.0
"""Seconds between two attempts at most: by our own count, and where the backend names a time."""

_PACE = 0.2


class OnSpans:
    """The sink that puts scores on the spans they are about, before those are sent on.

    Its place is the spool: what stands there is asked every time, never a memory of before.
    """

    name = "spans"
    updates: Literal["upsert", "append"] = "upsert"

    def __init__(self, assembly: Assembly, spool: Spool) -> None:
        self._assembly = assembly
        self.files = (spool.folder,)

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Put the cards' scores on their spans, as long as those are held; else what was sent on stays as it is."""
        for card in cards:
            on_time = self._assembly.score(card)
            reason = "" if on_time else "its spans were sent on before it was judged"
            for score in dict.fromkeys([result.score for result in results(card)] + [s.name for s in card.scores]):
                yield Receipt(
                    sink=self.name,
                    card_id=card.id,
                    score=score,
                    state="written" if on_time else "kept",
                    reason=reason or None,
                    feedback_id=card.feedback_id(score),
                    content_hash=card.content_hash,
                )


class Forwarding:
    """Workers that send on what may go, until they are stopped; `made` opens a connection for each."""

    def __init__(
        self,
        assembly: Assembly,
        spool: Spool,
        made: Callable[[], Backend],
        counts: Counts,
        tell: Callable[[str], None],
        *,
        workers: int = WORKERS,
    ) -> None:
        self._assembly, self._spool, self._counts, self._tell = assembly, spool, counts, tell
        self._stop = threading.Event()
        self._backends = [made() for _ in range(workers)]
        self._threads = [
            threading.Thread(target=self._work, args=(backend,), name=f"forwarding-{at}", daemon=True)
            for at, backend in enumerate(self._backends)
        ]
        self.trouble = ""
        """Why nothing arrives, while it does not."""

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish what is on its way; what still waits stays in the spool."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)
        for backend in self._backends:
            backend.close()

    def _work(self, backend: Backend) -> None:
        while not self._stop.is_set():
            load = self._assembly.take(_PACE)
            if load is None:
                continue
            arrived = False
            with Isolated("sending on", self._tell):
                arrived = self._arrived(backend, load)
            if arrived:
                self._assembly.passed(load)
                self.trouble = ""
            else:
                self._assembly.back(load)
                self._stop.wait(_PACE)

    def _arrived(self, backend: Backend, load: Load) -> bool:
        """Send parcels until they arrived, or no backend will ever take them; False where we are stopped before."""
        whole, scored = self._read(load)
        todo = [whole] if whole else []
        while todo:
            data = todo.pop()
            refused = self._sent(backend, load.signal, data)
            if refused is None:
                continue
            if refused.status not in _REFUSED and not (load.signal == "logs" and takes_none(refused)):
                return False  # stopped
            smaller = halves(load.signal, data) if refused.status in _REFUSED else ()
            todo += reversed(smaller)
            if not smaller:
                self._lost(load.signal, 1 if refused.status in _REFUSED else load.items, str(refused))
        self._counts.add("sent on", "spans with scores", scored)
        self._counts.add("sent on", {"traces": "spans", "logs": "log records"}[load.signal], load.items)
        return True

    def _sent(self, backend: Backend, signal: Signal, data: bytes) -> Refused | None:
        """Send one request as often as it takes; the refusal where asking again is in vain."""
        tries = 0
        while True:
            try:
                sent = backend.send(signal, data)
            except Refused as refused:
                if refused.status in _REFUSED or (signal == "logs" and takes_none(refused)) or self._stop.is_set():
                    return refused
                self._troubled(refused)
                luck = random.random()  # noqa: S311 - so that not all come at once
                self._stop.wait(_pause(refused.retry_after, tries, luck))
                tries = min(tries + 1, 10)
                if self._stop.is_set():
                    return refused
                continue
            if sent.refused:
                self._lost(signal, sent.refused, f"{backend.url} left them out: {sent.why or 'it does not say why'}")
            return None

    def _read(self, load: Load) -> tuple[bytes, int]:
        """The parcels as one request, and how many of its spans were given scores."""
        known: dict[str, Mapping[str, Mapping[str, Any]]] = {}
        parts, scored = list[bytes](), 0
        for piece, trace in load.pieces:
            try:
                data = self._spool.read(piece)
            except PlatformError as error:
                self._lost(load.signal, piece.count, str(error))
                continue
            if trace is not None and trace.cards and load.signal == "traces":
                if trace.trace_id not in known:
                    known[trace.trace_id] = {span_id: more for (_, span_id), more in on_spans(trace.cards).items()}
                data, found = enriched(data, known[trace.trace_id])
                scored += len(found)
            parts.append(data)
        return b"".join(parts), scored

    def _troubled(self, refused: Refused) -> None:
        if not self.trouble:
            self._tell(f"nothing is sent on for now, and what comes is kept: {refused}")
        self.trouble = str(refused)
        self._counts.add("sent on", "tried again")

    def _lost(self, signal: Signal, n: int, why: str) -> None:
        what = {"traces": "spans", "logs": "log records"}[signal]
        if not self._counts.of("lost"):
            self._tell(f"{what} can't be sent on, and are lost: {why}")
        self._counts.add("lost", what, n)


def _pause(asked: float | None, tries: int, luck: float) -> float:
    """Seconds until a request is sent again: not before the backend asked for it, and then soon.

    >>> _pause(10.0, 0, 0.0), _pause(10.0, 0, 1.0), _pause(None, 3, 0.5), _pause(None, 20, 0.5)
    (10.0, 12.0, 2.0, 30.0)
    """
    if asked:
        return min(asked, _PATIENT) * (1 + 0.2 * luck)
    return min(_LONGEST, 0.25 * 2.0**tries) * (0.8 + 0.4 * luck)
