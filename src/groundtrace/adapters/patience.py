"""How long a platform is asked again, and what its refusals say: for every adapter that asks one over HTTP."""

from __future__ import annotations

import email.utils
import html
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import orjson
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random_exponential

from groundtrace.errors import PlatformError

PATIENCE = 900.0
"""Seconds after which a request is not tried again, where nobody says how long to wait for it."""

_FIRST, _CLOSED = 15.0, 3.0
"""Seconds after which an address that never answered is taken to be wrong, or out of reach; one where nothing listens,
which says so at once, sooner."""

_STEP = 0.2
"""Seconds between two looks at whether to stop."""

_LONGEST = 366 * 86_400.0
"""A Retry-After of more seconds is no time anybody waits for, and is not believed."""

AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may be well the next time."""

_PAGE = re.compile(r"\s*<(!doctype\s+html|html|head|body|title)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)

_backoff = wait_random_exponential(multiplier=0.5, max=30.0)

WAITS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Seconds between looks for what was not taken in yet, or is not listed yet."""

T = TypeVar("T")


class Refused(PlatformError):
    """A platform answered with an error: its `status`, and what it said in `detail`; 0 where no answer came."""

    def __init__(self, message: str, *, status: int, detail: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after, denied=status in (401, 403))
        self.status, self.detail = status, detail


class Stranger(Refused):
    """What answers at an address is not the platform, or stands before it, as a page to log in does."""


class Patience:
    """Asks again, in its own time, what may be well the next time.

    `seconds` may pass until a request is sent for the last time; without them that is PATIENCE, and a Retry-After of
    any length is kept to. An address that never answered is given up sooner, and all where it is time to stop. `clock`
    and `sleep` are for tests.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds, self._clock, self._sleep = seconds, clock, sleep
        self._reached = False
        """Whether anything answered so far."""
        self._stopping: Callable[[], bool] | None = None

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for nothing any more once `stopping` says so: what is asked then is asked for the last time."""
        self._stopping = stopping

    def asked(
        self,
        once: Callable[[], T],
        *,
        seconds: float | None = None,
        passing: Callable[[Refused], bool] = lambda refused: refused.status in AGAIN,
    ) -> T:
        """What `once` gives, which raises Refused where it was refused; `passing` says which refusals pass.

        With `seconds`, here or in general, no time is waited that would end later, whoever named it.
        """
        waiting = _Waiting(self._seconds if seconds is None else seconds, self._clock, lambda: self._reached)
        retrying = Retrying(
            sleep=self._rest,
            wait=waiting.seconds,
            stop=lambda state: self._is_stopped() or waiting.is_over(state),
            retry=retry_if_exception(lambda e: isinstance(e, Refused) and (e.status == 0 or passing(e))),
            reraise=True,
        )
        told: T = retrying(self._noted, once)
        return told

    def _is_stopped(self) -> bool:
        return self._stopping is not None and self._stopping()

    def _rest(self, seconds: float) -> None:
        """Wait; where somebody may want us to stop, that is seen at once."""
        if self._stopping is None:
            self._sleep(seconds)
            return
        left = seconds
        while left > 0 and not self._stopping():
            self._sleep(min(left, _STEP))
            left -= _STEP

    def _noted(self, once: Callable[[], T]) -> T:
        try:
            told = once()
        except Refused as refused:
            self._reached = self._reached or refused.status != 0
            raise
        self._reached = True
        return told


class Looks:
    """Looks again for what may come soon; where nothing came of it, the next thing is not waited for as long."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep
        self._waits: tuple[float, ...] = WAITS

    def allows(self, looks: int) -> bool:
        """Wait after so many looks in vain; False where that was long enough."""
        if looks >= len(self._waits):
            self._waits = WAITS[:1]
            return False
        self._sleep(self._waits[looks])
        return True

    def met(self) -> None:
        """Note that what was waited for came."""
        self._waits = WAITS


class _Waiting:
    """How long one request is waited for, and whether it is sent again; tenacity asks either of them first."""

    def __init__(self, patience: float | None, clock: Callable[[], float], reached: Callable[[], bool]) -> None:
        self._patience, self._clock, self._began = patience, clock, clock()
        self._reached = reached

    def seconds(self, state: RetryCallState) -> float:
        """Seconds until the next try: what the platform named, else a random time from a window that doubles."""
        named = _named(state)
        return min(_backoff(state), max(0.0, self._left(state))) if named is None else named

    def is_over(self, state: RetryCallState) -> bool:
        """Whether it was long enough, or would be before the time the platform named."""
        left = self._left(state)
        return left <= 0 or (self._patience is not None and (_named(state) or 0.0) > left)

    def _left(self, state: RetryCallState) -> float:
        patience = PATIENCE if self._patience is None else self._patience
        if not self._reached():
            patience = min(patience, _CLOSED if _is_closed(state) else _FIRST)
        return self._began + patience - self._clock()


def _is_closed(state: RetryCallState) -> bool:
    """Whether nothing listens at the address."""
    under: BaseException | None = state.outcome.exception() if state.outcome else None
    while under is not None and not isinstance(under, ConnectionRefusedError):
        under = under.__cause__ or under.__context__
    return under is not None


def _named(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after if isinstance(error, Refused) else None


def said(text: str) -> str:
    """The reason in an error's body, in a line; of a page for people, its title.

    >>> said("<html><title>404 Not Found</title><body>...")
    'a web page, "404 Not Found"'
    """
    if is_page(text):
        title = _TITLE.search(text)
        named = " ".join(html.unescape(title[1]).split())[:100] if title else ""
        return f'a web page, "{named}"' if named else "a web page"
    try:
        told: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        told = text
    if isinstance(told, dict):
        told = next((told[name] for name in ("detail", "error", "message", "Message") if told.get(name)), told)
    return " ".join((told if isinstance(told, str) else orjson.dumps(told).decode()).split())[:300]


def is_page(text: str) -> bool:
    """Whether an answer is a page for people.

    >>> is_page("<!DOCTYPE html><title>Log in</title>"), is_page('{"data": []}')
    (True, False)
    """
    return _PAGE.match(text) is not None


def deepest(error: BaseException) -> str:
    """The first line of what an error came from in the end; the words above it may hold parts of a key."""
    while (under := error.__cause__ or error.__context__) is not None:
        error = under
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds named by Retry-After, as a number or a date; None where they are none that could be waited for."""
    named = headers.get("Retry-After")
    if named is None:
        return None
    try:
        seconds = float(named)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(named).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) and seconds <= _LONGEST else None
