"""Answers the messages of a platform's rules, and evaluates the traces they name.

A message is checked (a secret, its size, its form), what it names is kept in the store, and only then it is answered:
a platform that was answered may forget it. What was kept is evaluated beside that, from the platform's API and never
from the message, by the same river as `groundtrace run`; killed at any point, it goes on after the next start. A trace
that is not over yet, or not there yet, is asked for again, as is one whose scores the platform did not take, and one
whose batch was cut short, in smaller parts. After a day a trace is given up, counted and named, if by itself it came to
nothing often enough; trouble that a whole batch had is never held against it.

Needs the extra `serve`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route

from groundtrace.errors import GroundtraceError, PlanError, PlatformError
from groundtrace.evaluate import never
from groundtrace.plugins import find, load, table
from groundtrace.run import Report, run
from groundtrace.run.river import River
from groundtrace.run.writing import Passing
from groundtrace.serve.listening import answering, bearer, digest, knows, opened_socket
from groundtrace.tally import COST_CAP

if TYPE_CHECKING:
    from starlette.requests import Request

    from groundtrace.model import Delivery, Trace
    from groundtrace.plan import Plan
    from groundtrace.store import Store
    from groundtrace.store.inbox import Due

MOST_BYTES = 20_000_000
"""Bytes of a message: a rule tells many runs at once, with their texts."""

MOST_WAITING = 100_000
"""Traces that wait; of more, the platform is told to come again."""

_SECONDS = 4.0
"""Seconds in which a message must have come whole: LangSmith waits five for its answer."""

_CONNECTIONS = 64
_BATCH = 64
"""Traces evaluated together, a quarter of them after each attempt that came to nothing."""

_FIRST, _LONGEST = 30.0, 900.0
"""Seconds until a trace is asked for again, the first time and at most."""

_GIVEN_UP, _ENOUGH = dt.timedelta(days=1), 3
"""How long after its delivery a trace is given up, and how often it must have come to nothing by itself since."""

_PAUSE = 0.2
_KNOWN = 1000
"""Kinds of notes that are told."""

_NAMED = 20
"""Traces that are named when they are given up."""

_COUNT = re.compile(r"\d+")
_WRITING = "writing to "
"""How a run begins to tell of a score that was not taken; that keeps no other from being evaluated."""


Delivered: TypeAlias = "Callable[[object], Delivery]"
Tell: TypeAlias = Callable[[str], None]


@dataclass
class Counts:
    """What came and what became of it, since the start."""

    state: str = "starting"
    messages: Counter[str] = field(default_factory=Counter)
    """Answered, by what they were answered with."""

    traces: Counter[str] = field(default_factory=Counter)
    """Evaluated, put off, given up."""

    scores: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, counter: Counter[str], what: str, n: int = 1) -> None:
        """Count; from any thread."""
        with self._lock:
            counter[what] += n

    def told(self, waiting: int) -> dict[str, Any]:
        """All of it, for whoever looks whether we are well."""
        with self._lock:
            held = {"messages": dict(self.messages), "traces": dict(self.traces), "scores": dict(self.scores)}
            return {"state": self.state, "waiting": waiting, **held}


# --- receiving ------------------------------------------------------------------------------------------------------


class _Answer(Exception):
    """Ends the handling of a message with a status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


def receiver(
    platform: str, delivered: Delivered, secret: str, store: Store, counts: Counts, *, most_bytes: int = MOST_BYTES
) -> Starlette:
    """The application that takes messages at `/` and `/PLATFORM` and says at `/health` how it is."""
    wanted = digest(secret)

    async def take(request: Request) -> JSONResponse:
        try:
            _admit(request, wanted)
            body = await _body(request, most_bytes)
            named = await run_in_threadpool(_keep, platform, delivered, body, store)
        except _Answer as answer:
            counts.add(counts.messages, f"{answer.status} {answer.why}")
            return JSONResponse({"error": answer.why}, answer.status)
        counts.add(counts.messages, "202 kept")
        if named.unreadable:
            counts.add(counts.traces, "unreadable", named.unreadable)
        return JSONResponse({"traces": len(named.traces), "unreadable": named.unreadable}, 202)

    async def health(_: Request) -> JSONResponse:
        try:
            waiting = await run_in_threadpool(store.inbox.count, platform)
        except GroundtraceError:
            return JSONResponse(counts.told(-1) | {"state": "the store does not answer"}, 503)
        return JSONResponse(counts.told(waiting))

    places = [Route(path, take, methods=["POST"]) for path in ("/", f"/{platform}")]
    return Starlette(routes=[*places, Route("/health", health, methods=["GET"])])


def _admit(request: Request, wanted: bytes) -> None:
    """Refuse who does not know the secret, before a byte of the message is read; takes the same time for any guess."""
    given = [
        request.headers.get("x-groundtrace-secret"),
        bearer(request.headers.get("authorization", "")),
        request.query_params.get("secret"),
    ]
    known = [knows(one, wanted) for one in given if one is not None]
    if not any(known):
        raise _Answer(401, "wrong secret" if known else "no secret")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _Answer(415, "compressed")


async def _body(request: Request, most: int) -> bytes:
    """A message, whole; refused where it is too large or too slow."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        raise _Answer(413, "too large")
    held = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                held += part
                if len(held) > most:
                    raise _Answer(413, "too large")
    except TimeoutError:
        raise _Answer(408, "too slow") from None
    except ClientDisconnect:
        raise _Answer(400, "torn") from None
    return bytes(held)


def _keep(platform: str, delivered: Delivered, body: bytes, store: Store) -> Delivery:
    """Keep what a message names; what that is."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise _Answer(400, "no JSON") from None
    try:
        named = delivered(told)
    except PlatformError:
        raise _Answer(422, "no message of a rule") from None
    try:
        if not store.inbox.put(platform, named.traces, most=MOST_WAITING):
            raise _Answer(503, "too many traces wait")
    except GroundtraceError:
        raise _Answer(503, "the store does not take it") from None
    return named


# --- evaluating -----------------------------------------------------------------------------------------------------


class Evaluation:
    """Evaluates what waits, until it is asked to stop; `source` is the spec of the source as a table."""

    def __init__(
        self,
        plan: Plan,
        source: Mapping[str, Any],
        store: Store,
        counts: Counts,
        tell: Tell,
        *,
        stopping: Callable[[], bool] = never,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._plan, self._source, self._store = plan, dict(source), store
        self._counts, self._tell = counts, tell
        self._stopping, self._clock, self._sleep = stopping, clock, sleep
        self._later: dict[int, float] = {}
        """When a trace that was put off is asked for again, by its place in the inbox."""
        self._vain: Counter[int] = Counter()
        """How often a trace came to nothing by itself, since the start."""
        self._noted: set[str] = set()
        begun = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._ident = plan.batch_id or f"serve-{begun}-{secrets.token_hex(2)}"

    def work(self) -> None:
        """Evaluate until asked to stop; trouble with the store is waited out as well."""
        while not self._stopping():
            try:
                idle = not self.once()
            except GroundtraceError as error:
                self._tell(str(error))
                idle = True
            if idle and not self._stopping():
                self._sleep(_PAUSE)

    def once(self) -> bool:
        """Evaluate some of what waits; whether there was any."""
        batch = self._next()
        if not batch:
            return False
        self._counts.state = "working"
        cut: list[Exception | None] = []
        over: dict[str, bool] = {}
        try:
            report = self._evaluated(batch, cut, over)
        except (PlatformError, PlanError) as error:
            cut.append(error)
            report = Report(failed=(str(error),))
        for why in report.failed:
            self._tell(why)
        self._note(report.notes)
        for states in report.receipts.values():
            for state, n in states.items():
                self._counts.add(self._counts.scores, state, n)
        if self._stopping() and cut:
            return True
        troubled = bool(cut) or any(not why.startswith(_WRITING) for why in report.failed)
        unwritten = self._unwritten(batch, report)
        if troubled:
            own = len(batch) == 1 and all(isinstance(error, PlanError) for error in cut)
            self._put_off(batch, next(iter(report.failed), "its batch was cut short"), own=own)
        elif report.held or report.passed.get(COST_CAP) or report.seen < len(batch):
            self._put_off(batch, "they are another run's, not there, or too dear", own=len(batch) == 1)
        else:
            growing = {ident for ident, complete in over.items() if not complete}
            late = [due for due in batch if due.trace_id in growing]
            lost = [due for due in batch if due.trace_id in unwritten - growing]
            self._put_off(late, "they are not over, or not there")
            self._put_off(lost, "their scores were not taken, and stay due in the store")
            self._finish([due for due in batch if due.trace_id not in growing | unwritten], "evaluated")
        self._counts.state = "in trouble" if troubled or unwritten else "well"
        return True

    def _unwritten(self, batch: Sequence[Due], report: Report) -> set[str]:
        """The traces of a batch that have scores a platform did not take, or may not have taken."""
        if not any(states.get("failed") or states.get("unconfirmed") for states in report.receipts.values()):
            return set()
        cards = {intent.card_id for intent in self._store.outbox()}
        due = {card.ref.trace_id for ident in cards if (card := self._store.card(ident)) is not None}
        return due & {one.trace_id for one in batch}

    def _note(self, notes: Sequence[str]) -> None:
        """Tell what was lost, once and not with every batch that sees its like."""
        for note in notes:
            alike = _COUNT.sub("#", note)
            if alike not in self._noted and len(self._noted) < _KNOWN:
                self._noted.add(alike)
                self._tell(note)

    def _evaluated(self, batch: Sequence[Due], cut: list[Exception | None], over: dict[str, bool]) -> Report:
        """One run over these traces and no others; which of those it looked at were over."""
        source = {**self._source, "argument": batch[0].project, "ids": [due.trace_id for due in batch]}
        plan = self._plan.model_copy(update={"sources": (source,)})

        def saw(_: int, trace: Trace) -> None:
            over[trace.ref.trace_id] = trace.complete

        return run(plan, memory=self._store, stopping=self._stopping, run_id=self._ident, cut=cut.append, saw=saw)

    def _next(self) -> Sequence[Due]:
        """Traces of one project that failed equally often, so that those that never end come to be alone."""
        now = self._clock()
        waiting = self._store.inbox.due(self._source["use"], 10 * _BATCH)
        found = [due for due in waiting if self._later.get(due.seq, 0.0) <= now or not due.attempts]
        alike = [d for d in found if (d.project, d.attempts) == (found[0].project, found[0].attempts)]
        return alike[: max(1, _BATCH >> 2 * min(found[0].attempts, 3))] if found else ()

    def _finish(self, batch: Sequence[Due], what: str) -> None:
        if not batch:
            return
        self._store.inbox.done(batch)
        for due in batch:
            self._later.pop(due.seq, None)
            self._vain.pop(due.seq, None)
        self._counts.add(self._counts.traces, what, len(batch))

    def _put_off(self, batch: Sequence[Due], why: str, *, own: bool = True) -> None:
        """Ask for these again later; those that are old and often came to nothing by themselves are given up.

        What befell a batch as a whole is nobody's own: after a long outage all are old.
        """
        if own:
            self._vain.update(due.seq for due in batch)
        edge = (dt.datetime.now(dt.UTC) - _GIVEN_UP).isoformat()
        old = [due for due in batch if own and due.since < edge and self._vain[due.seq] >= _ENOUGH]
        if old:
            names = ", ".join(due.trace_id for due in old[:_NAMED]) + " ..." * (len(old) > _NAMED)
            self._tell(f"gave up {len(old):,} traces a day after they were delivered ({names}): {why}")
            self._finish(old, "given up")
        again = [due for due in batch if due not in old]
        if not again:
            return
        self._store.inbox.put_off(again)
        for due in again:
            self._later[due.seq] = self._clock() + min(_FIRST * 2.0 ** min(due.attempts, 10), _LONGEST)
        self._counts.add(self._counts.traces, "put off", len(again))


# --- both -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """What is served, where: the source as a table, the platform's way to read a message, and an open socket."""

    source: Mapping[str, Any]
    delivered: Delivered
    socket: socket.socket

    @property
    def url(self) -> str:
        """Its address here."""
        host, port = self.socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def opened(plan: Plan, spec: str, listen: str) -> Place:
    """Open all that is named, so that trouble comes before the first message: PlanError."""
    source = table("source", spec)
    factory: Any = find("source", source["use"])
    if not hasattr(factory, "delivered"):
        raise PlanError("platform", spec, "sends no messages of new traces", hint="langsmith does")
    load("source", {**source, "argument": "-"})  # its project comes with each message
    River.opened(plan.model_copy(update={"sources": ()}), Passing()).knock()
    return Place(source, factory.delivered, opened_socket(listen))


def serve(plan: Plan, place: Place, secret: str, store: Store, *, stopping: Callable[[], bool], tell: Tell) -> Counts:
    """Take messages and evaluate what they name, until asked to stop: then what is in flight is finished.

    What waits stays in the store and is evaluated after the next start.
    """
    counts = Counts()
    app = receiver(place.source["use"], place.delivered, secret, store, counts)
    with _answering(app, place.socket):
        counts.state = "well"
        Evaluation(plan, place.source, store, counts, tell, stopping=stopping).work()
        counts.state = "stopping"
    return counts


@contextmanager
def _answering(app: Starlette, at: socket.socket) -> Iterator[None]:
    """A server for the messages of rules, in a thread of its own."""
    with answering(app, at, most=_CONNECTIONS, seconds=_SECONDS):
        yield
