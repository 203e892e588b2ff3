"""An address that is listened at: the socket, who is let in, and a server that silent callers can't fill."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from groundtrace.errors import PlanError

if TYPE_CHECKING:
    from starlette.applications import Starlette


def opened_socket(listen: str, key: str = "listen") -> socket.socket:
    """The socket of a place written HOST:PORT; PlanError where it is no place, or taken."""
    host, port = place_of(listen, key)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise PlanError(key, listen, f"can't be listened at: {error}") from None


def place_of(listen: str, key: str = "listen") -> tuple[str, int]:
    """The host and the port of a place; PlanError where it is none.

    >>> place_of("[::1]:4318")
    ('::1', 4318)
    """
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise PlanError(key, listen, "is no place to listen", hint="write HOST:PORT; 127.0.0.1 is this machine alone")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it.

    >>> is_loopback("localhost"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def digest(secret: str) -> bytes:
    """A secret as it is held: compared in the same time for any guess."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def knows(given: str | None, wanted: bytes) -> bool:
    """Whether what was given is the secret."""
    return given is not None and hmac.compare_digest(digest(given), wanted)


def bearer(authorization: str) -> str | None:
    """The token in an Authorization header.

    >>> bearer("Bearer abc"), bearer("Basic abc")
    ('abc', None)
    """
    return authorization[7:] if authorization[:7].lower() == "bearer " else None


class Prompt(H11Protocol):
    """A connection that must say soon what it wants, and makes room for others while it does not.

    uvicorn itself waits for a request without end, and counts who waits among those it works for: a handful of silent
    connections, made by anybody, would keep every message out.
    """

    most, seconds = 64, 4.0
    begun = 0.0
    _deadline: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        return bool(getattr(self.cycle, "response_complete", True))  # there is no cycle before the first request

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Let it in; where that is one too many, the one that has been silent longest goes."""
        super().connection_made(transport)
        at = transport.get_extra_info("socket")
        if (
            at is not None
        ):  # asyncio leaves it out for sockets that were opened elsewhere: every answer took 40 ms longer
            at.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begun = self.loop.time()
        self._wait()
        idle = [other for other in self.connections if isinstance(other, Prompt) and other.is_idle]
        if len(self.connections) >= self.most and idle:
            min(idle, key=lambda other: other.begun).leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """It went."""
        self._unset()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hear a part of a request; parts that make none do not prolong the time for it."""
        super().data_received(data)
        if not self.is_idle:
            self._unset()
        elif self._deadline is None:
            self._wait()

    def leave(self) -> None:
        """Hang up; nobody counts it any more."""
        self.connections.discard(self)
        self.transport.abort()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.seconds, self._late)

    def _unset(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self.is_idle:
            self.leave()


@contextmanager
def answering(app: Starlette, at: socket.socket, *, most: int, seconds: float, alive: int = 5) -> Iterator[None]:
    """A server in a thread of its own: signals stay with the one that called.

    At most so many connections; each says what it wants within `seconds`, and may wait `alive` seconds with the next.
    At the end nobody new is let in, and who is being answered is answered.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # an address may hold the secret
        lifespan="off",
        ws="none",
        http=type("_Prompt", (Prompt,), {"most": most, "seconds": seconds}),
        loop="asyncio",
        limit_concurrency=most,
        timeout_keep_alive=alive,
        timeout_graceful_shutdown=5,
        server_header=False,
        log_config=None,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([at],), name="receiver", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        at.close()
