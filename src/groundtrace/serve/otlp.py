"""Takes what OpenTelemetry's exporters send, judges the traces that are in it, and sends all of it on if asked to.

What came is on the disk before it is answered. From there traces are put together, judged once nothing more comes of
them, and their scores written where the plan says. With a backend to forward to, every span and log record is sent on:
those of traces that are not judged at once, the others once they are judged, with the scores on the span they are
about, or when their time is over, as they came. Killed at any point, it goes on after the next start.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from groundtrace.adapters.otel.requests import SIGNALS, Signal, answer, refusal
from groundtrace.adapters.otel.sending import backend
from groundtrace.errors import PlanError
from groundtrace.evaluate import never
from groundtrace.serve.assembly import Assembly, Limits
from groundtrace.serve.counts import Counts
from groundtrace.serve.forwarding import Forwarding, OnSpans
from groundtrace.serve.intake import SOON, Answer, Intake, admit
from groundtrace.serve.judging import Judging, checked, wanted
from groundtrace.serve.listening import answering, bearer, digest, is_loopback, knows, opened_socket, place_of
from groundtrace.serve.spool import Spool

if TYPE_CHECKING:
    from starlette.requests import Request

    from groundtrace.plan import Plan
    from groundtrace.serve.grpc import Grpc
    from groundtrace.store import Store

_SECONDS = 30.0
"""Seconds in which a request must have come whole; exporters wait ten for its answer."""

_CONNECTIONS = 256
_ALIVE = 75
"""Seconds a connection may rest: exporters send every few seconds."""

_TYPES: Mapping[str, bool] = {"application/x-protobuf": False, "application/protobuf": False, "application/json": True}
"""What a body may be, and whether that is JSON."""

_NO_METRICS = (
    "metrics are not taken here: set OTEL_METRICS_EXPORTER=none, or OTEL_EXPORTER_OTLP_METRICS_ENDPOINT to your backend"
)

_GRPC_CODES: Mapping[int, int] = {400: 3, 401: 16, 404: 5, 408: 4, 413: 8, 415: 3, 429: 8, 503: 14}
"""The codes of `google.rpc.Status` that go with statuses of HTTP."""


@dataclass(frozen=True)
class Settings:
    """How a server is to be: seconds, bytes, and where it sends on to."""

    spool: Path
    forward: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: str | None = field(default=None, repr=False)
    idle: float = 10.0
    deadline: float = 60.0
    drain: float = 20.0
    limits: Limits = field(default_factory=Limits)
    workers: int = 4


@dataclass(frozen=True)
class Place:
    """Where a server listens."""

    socket: socket.socket
    grpc: Grpc | None = None

    @property
    def url(self) -> str:
        """Its address for OTLP over HTTP."""
        host, port = self.socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def opened(plan: Plan, settings: Settings, listen: str, grpc: str | None = None) -> Place:
    """Open all that is named, so that trouble comes before the first span: PlanError."""
    for key, place in (("listen", listen), ("grpc", grpc)):
        if place is not None and settings.token is None and not is_loopback(place_of(place, key)[0]):
            hint = "give --token-env NAME, and put a proxy with TLS in front"
            raise PlanError(key, place, "can be reached from elsewhere, and anybody could send there", hint=hint)
    checked(plan, forwards=settings.forward is not None)
    if settings.forward is not None:
        backend(settings.forward, headers=settings.headers, key="forward").close()
    at = opened_socket(listen)
    try:
        made = Place(at) if grpc is None else Place(at, _over_grpc(grpc, settings.token))
        _check_way(settings.forward, made)
    except PlanError:
        at.close()
        raise
    return made


def _over_grpc(listen: str, token: str | None) -> Grpc:
    from groundtrace.serve.grpc import Grpc  # noqa: PLC0415 - grpcio is loaded where it is asked for

    return Grpc(listen, token)


def _check_way(forward: str | None, place: Place) -> None:
    """Refuse to send on to ourselves: PlanError."""
    parts = urlsplit(forward or "")
    ports = {place.socket.getsockname()[1], place.grpc.port if place.grpc else None}
    if parts.hostname and is_loopback(parts.hostname) and parts.port in ports:
        raise PlanError("forward", forward, "is this server itself", hint="name the backend, or listen elsewhere")


class Server:
    """Everything that works together; `run` is all of it, from the first span to the last."""

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        store: Store,
        tell: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.counts, self.settings, self._clock = Counts(), settings, clock
        self.spool = Spool(settings.spool)
        forwards = settings.forward is not None
        self.assembly = Assembly(
            self.spool,
            forwards=forwards,
            idle=settings.idle,
            deadline=settings.deadline,
            limits=settings.limits,
            tell=tell,
            clock=clock,
        )
        self.intake = Intake(self.assembly, self.counts, wanted=wanted(plan), forwards=forwards, tell=tell)
        self._until, self._stopping = float("inf"), never
        own = OnSpans(self.assembly, self.spool) if forwards else None
        self.judging = Judging(
            plan, self.assembly, store, self.counts, tell, own=own, stopping=self._is_late, sleep=sleep, clock=clock
        )
        self.forwarding: Forwarding | None = None
        if settings.forward is not None:
            url, headers = settings.forward, settings.headers
            self.forwarding = Forwarding(
                self.assembly,
                self.spool,
                lambda: backend(url, headers=headers),
                self.counts,
                tell,
                workers=settings.workers,
            )
        self._store = store

    def run(self, place: Place, stopping: Callable[[], bool]) -> None:
        """Take, judge and send on until asked to stop; then nothing more is taken, and what is here is finished.

        What is not finished in time stays in the spool, for the next start.
        """
        self._stopping = stopping
        with self.spool, ExitStack() as stack:
            stack.callback(self.assembly.close)
            if self.forwarding is not None:
                stack.callback(self.forwarding.stop)
                self.forwarding.start()
            with ExitStack() as doors:
                doors.enter_context(
                    answering(self.app(), place.socket, most=_CONNECTIONS, seconds=_SECONDS, alive=_ALIVE)
                )
                if place.grpc is not None:
                    doors.enter_context(place.grpc.answering(self.intake))
                self.counts.state = "well"
                self.judging.work(stopping)
                self._close()
            self._drain()

    def _close(self) -> None:
        """Take nothing more, and let the time run for what is here."""
        if not self.intake.closed:
            self.intake.closed, self.counts.state = True, "stopping"
            self._until = self._clock() + self.settings.drain

    def _drain(self) -> None:
        """Judge what is here, and send it on."""
        self.assembly.hurry()
        self.judging.rest()
        self.assembly.let_go()
        waited = threading.Event()
        while self.forwarding is not None and self.assembly.waiting()["to send"]:
            if self._is_late() and self.forwarding.trouble:
                break
            if self._clock() > self._until + self.settings.drain:
                break
            waited.wait(0.05)

    def _is_late(self) -> bool:
        """Whether there is no time left; a judge that takes long asks as well, and is not waited for with the rest."""
        if self._stopping():
            self._close()
        return self._clock() > self._until

    def summary(self) -> str:
        """What was done, in a line."""
        spans, sent = self.counts.of("spans"), self.counts.of("sent on")
        passed, judged = spans.get("not in the sample", 0), self.assembly.counts["judged"]
        out = f" ({passed:,} not in the sample)" if passed else ""
        said = [_several(spans.get("taken", 0), "span") + " taken" + out]
        said += [_several(judged, "trace") + " judged"]
        said += [_several(n, "score") + f" {state}" for state, n in self.counts.of("scores").items()]
        said += [_several(n, "reason") + f" for no score {state}" for state, n in self.counts.of("reasons").items()]
        said += [_several(sent.get("spans", 0), "span") + " sent on"] if self.forwarding else []
        hint = "; --sample 1 judges all" if passed and not judged and self.judging.share else ""
        left = self.assembly.waiting()["kept"]
        wait = f"; {_several(left, 'parcel')} wait{'s' * (left == 1)} for the next start" if left else ""
        why = f": {trouble}" if wait and (trouble := self._trouble()) else ""
        return ", ".join(said) + hint + wait + why

    def _trouble(self) -> str:
        """What keeps scores, or what is sent on, from getting there."""
        return (self.forwarding.trouble if self.forwarding else "") or self.judging.trouble

    def told(self, known: bool = True) -> tuple[int, dict[str, Any]]:  # noqa: FBT001, FBT002 - who asks is known
        """How it goes, and whether requests are taken: 200 or 503; what a backend answers is told who is known."""
        held = {**self.counts.told(), "waiting": self.assembly.waiting(), "traces": dict(self.assembly.counts)}
        trouble = self._trouble()
        if self.counts.state == "well":
            full = "full: too much waits" if self.assembly.is_full else ""
            held["state"] = full or (trouble if known or not trouble else "in trouble") or "well"
        taking = not self.intake.closed and not self.assembly.is_full
        return (200 if taking else 503), held

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    def app(self) -> Starlette:
        """The application: takes spans at `/v1/traces`, log records at `/v1/logs`, and says at `/health` how it is."""
        wanted_token = None if self.settings.token is None else digest(self.settings.token)

        def door(answered: Callable[[Request], Awaitable[bytes]]) -> Callable[[Request], Any]:
            async def take(request: Request) -> Response:
                json = _kind(request) or False
                try:
                    body = await answered(request)
                except Answer as refused:
                    self.intake.refused(refused, request.client.host if request.client else "somebody")
                    again = {} if refused.again is None else {"Retry-After": str(refused.again)}
                    if refused.status == 401:
                        again["WWW-Authenticate"] = "Bearer"
                    told = refusal(_GRPC_CODES.get(refused.status, 2), refused.why, json=json)
                    return Response(told, refused.status, again, _named(json=json))
                self.counts.add("requests", "200 taken")
                return Response(body, 200, media_type=_named(json=json))

            return take

        async def health(request: Request) -> JSONResponse:
            known = wanted_token is None or knows(bearer(request.headers.get("authorization", "")), wanted_token)
            status, held = await run_in_threadpool(self.told, known)
            return JSONResponse(held, status)

        doors = {signal: functools.partial(self._answered, signal, wanted_token) for signal in SIGNALS}
        routes = [Route(f"/v1/{signal}", door(way), methods=["POST"]) for signal, way in doors.items()]
        routes += [Route("/v1/metrics", door(_no_metrics), methods=["POST"])]
        return Starlette(routes=[*routes, Route("/health", health, methods=["GET"])])

    async def _answered(self, signal: Signal, wanted_token: bytes | None, request: Request) -> bytes:
        """The answer to a request that was taken."""
        admit(request.headers.get("authorization", ""), wanted_token)
        json = _kind(request)
        if json is None:
            raise Answer(415, "a Content-Type that is not read; application/x-protobuf and application/json are")
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self.intake.most:
            raise Answer(413, f"too large: more than {self.intake.most >> 20} MB")
        with _rooms(self.intake) as more:
            body = await _body(request, self.intake.most, more)
            encoding = request.headers.get("content-encoding", "")
            told = await run_in_threadpool(self.intake.take, signal, body, json=json, encoding=encoding)
        return answer(signal, told, json=json)


@contextmanager
def _rooms(intake: Intake) -> Iterator[Callable[[int], None]]:
    """Memory taken as a body comes, given back at the end."""
    with ExitStack() as stack:
        yield lambda size: stack.enter_context(intake.room(size))


def _several(n: int, what: str) -> str:
    """A number and its noun."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


async def _no_metrics(_: Request) -> bytes:
    """An application that sends all it has to one address is told what to set."""
    raise Answer(404, _NO_METRICS)


async def _body(request: Request, most: int, more: Callable[[int], None]) -> bytes:
    """A request, whole; Answer where it is too large or too slow."""
    held = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                more(len(part))
                held += part
                if len(held) > most:
                    raise Answer(413, f"too large: more than {most >> 20} MB")
    except TimeoutError:
        raise Answer(408, "too slow", again=SOON) from None
    except ClientDisconnect:
        raise Answer(400, "torn") from None
    return bytes(held)


def _kind(request: Request) -> bool | None:
    """Whether a body is JSON; None where it is nothing that is read."""
    return _TYPES.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())


def _named(*, json: bool) -> str:
    return "application/json" if json else "application/x-protobuf"
