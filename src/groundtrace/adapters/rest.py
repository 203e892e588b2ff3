"""A platform's REST API over httpx2, for platforms whose SDK has no public way to ask for what is needed."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import httpx2
import orjson

from groundtrace.adapters.lines import mended
from groundtrace.adapters.patience import AGAIN, Patience, Refused, Stranger, deepest, retry_after, said

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

CONNECTIONS = 32
"""Requests that may be under way at once."""

MOST = 256 * 1024 * 1024
"""Bytes of the largest answer that is read."""

_NOWHERE = frozenset({301, 302, 303, 307, 308, 404, 405})
"""Statuses of a server that has no such API, or sends people on to log in."""

_TIMEOUT = httpx2.Timeout(60.0, connect=10.0)


class Rest:
    """One API at one address. `headers` go with every request; what they hold is never shown.

    `platform` and `where` are for messages: whose API it is, and which setting holds its address. `remedies` says, by
    status, what may be done about a refusal. Redirects are not followed: the key would go along. `patience` is how many
    seconds may pass until a request is sent for the last time; `clock` and `sleep` are for tests.
    """

    def __init__(
        self,
        platform: str,
        url: str,
        *,
        where: str,
        headers: Mapping[str, str] | None = None,
        remedies: Mapping[int, str] | None = None,
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.platform, self.url = platform, url.rstrip("/")
        self._where, self._remedies = where, remedies or {}
        self._patience = Patience(patience, clock=clock, sleep=sleep)
        self._client = httpx2.Client(
            headers=dict(headers or {}),
            timeout=_TIMEOUT,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        )
        self._closing = weakref.finalize(self, self._client.close)  # nobody ends a source: it goes with the last of it
        self.mended = 0
        """Answers so far that held halves of characters, which are U+FFFD now."""
        self._spoke = False
        """Whether anything answered in JSON so far."""

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Ask nothing again once `stopping` says so."""
        self._patience.stop_when(stopping)

    def close(self) -> None:
        """Let go of the connections."""
        self._closing()

    def call(
        self,
        method: Method,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, Any] | None = None,
        patience: float | None = None,
        passing: Callable[[Refused], bool] = lambda refused: refused.status in AGAIN,
        first: Callable[[], None] = lambda: None,
    ) -> Any:
        """What the platform answers, decoded, None for an empty answer; asked again where that may help.

        Raises Refused. `passing` says which refusals are worth another try, `first` runs before every try (a throttle
        waits there), and `patience` is as that of the whole line.
        """
        body = None if json is None else orjson.dumps(json)
        given = {name: told for name, told in (params or {}).items() if told is not None}

        def once() -> Any:
            first()
            return self._once(method, path, body, given)

        return self._patience.asked(once, seconds=patience, passing=passing)

    def _once(self, method: Method, path: str, body: bytes | None, params: Mapping[str, Any]) -> Any:
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            with self._client.stream(
                method, f"{self.url}{path}", content=body, params=params or None, headers=headers
            ) as response:
                held = _bounded(response)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            # what HTTP itself does not let out may be a header, and that the key
            what = type(error).__name__ if isinstance(error, httpx2.LocalProtocolError) else deepest(error)
            why = f"{what}; is the address right ({self._where})?"
            raise Refused(f"{self.platform} did not answer {method} {path}: {why}", status=0) from None
        if held is None:
            raise Refused(f"{self.platform}'s answer to {method} {path} is larger than {MOST >> 20} MB", status=413)
        if held.lstrip().startswith((b"{", b"[")):
            self._spoke = True
        elif not self._spoke and ((held and response.is_success) or response.status_code in _NOWHERE):
            raise self._stranger(response, held, method, path)
        if not response.is_success:
            raise self._refused(response, held, method, path)
        return self._decoded(held, method, path) if held else None

    def _stranger(self, response: httpx2.Response, held: bytes, method: str, path: str) -> Stranger:
        """What to say of an address where the API never answered, and something else does."""
        told, status = said(held.decode(errors="replace")), response.status_code
        what = f"this is no {self.platform}: {method} {path} is answered with {status}{f' and {told}' if told else ''}"
        return Stranger(f"{what}; is the address right ({self._where}), and no login before it?", status=status)

    def _refused(self, response: httpx2.Response, held: bytes, method: str, path: str) -> Refused:
        status, told = response.status_code, said(held.decode(errors="replace"))
        remedy = self._remedies.get(status, "")
        message = f"{self.platform} refused {method} {path} with {status}{f': {told}' if told else ''}{remedy}"
        return Refused(message, status=status, detail=told, retry_after=retry_after(response.headers))

    def _decoded(self, held: bytes, method: str, path: str) -> Any:
        try:
            return orjson.loads(held)
        except orjson.JSONDecodeError:
            try:
                told = mended(held)
            except ValueError:  # it was cut on its way, or is a page for people
                raise Refused(f"{self.platform}'s answer to {method} {path} is no JSON", status=502) from None
        self.mended += 1
        return told


def _bounded(response: httpx2.Response) -> bytes | None:
    """The body, or None where it is larger than anything that is asked for."""
    held = bytearray()
    for part in response.iter_bytes():
        held += part
        if len(held) > MOST:
            return None
    return bytes(held)
