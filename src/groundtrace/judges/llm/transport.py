"""How a question is asked of a provider that has had enough: as many at once as it bears, and again when it is well.

`Limiter` learns how many requests may be under way, from the provider's refusals and its rate limit headers;
`ask_patiently` puts one question, waits and puts it again, and ends by its deadline whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from groundtrace.judges.llm.client import TRANSIENT, Answer, Client, Question, Trouble

_FIRST, _LONGEST = 0.5, 30.0
"""Seconds: the window the first wait is drawn from, which doubles with every attempt, and the widest."""

_backoff = wait_random_exponential(multiplier=_FIRST, max=_LONGEST)

_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_SPAN = re.compile(r"(?:([0-9.]+)d)?(?:([0-9.]+)h)?(?:([0-9.]+)m(?!s))?(?:([0-9.]+)s)?(?:([0-9.]+)ms)?")
_UNITS = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)

_EPOCH, _EPOCH_MS = 1e9, 1e11
"""A number above is a time of day, in seconds or milliseconds since 1970: nobody is told to wait for 30 years."""


class Limiter:
    """Lets as many requests out at once as the provider bears, `most` at first; for one event loop.

    A refusal halves the number, once for all that were under way then, and no request starts before the time the
    provider names. After it every success lets one more out, up to the number before; from there on the number grows
    by one in a round, then two, then four, for as long as nothing is refused: providers' quotas change, and `most` is
    reached again in a few rounds from wherever it fell. Who waits is served in the order they came.

    >>> limiter = Limiter(4)
    >>> place = asyncio.run(limiter.acquire())
    >>> limiter.refused(place)
    >>> limiter.release()
    >>> limiter.limit, limiter.in_flight
    (2, 0)
    """

    __slots__ = (
        "_before", "_calm", "_cuts", "_held", "_limit", "_resume", "_step", "_waiting", "_well", "in_flight", "most",
    )  # fmt: skip

    def __init__(self, most: int) -> None:
        self.most = max(1, most)
        self.in_flight = 0
        self._limit = self._before = float(self.most)
        """How many there may be, and how many there might be before the last refusal."""
        self._cuts = 0
        """How often it was halved: a place knows the number it was taken under."""
        self._well, self._calm, self._step = True, 0, 1.0
        """Whether anything succeeded since, how much in this round, and what the next round is wider by."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._held: list[asyncio.Future[None]] = []
        """Those that had been given a place just when a pause began."""
        self._resume: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> int:
        """How many requests may be under way now."""
        return int(self._limit)

    @property
    def paused(self) -> bool:
        """Whether the provider is being left alone."""
        return self._resume is not None

    async def acquire(self, until: float | None = None) -> int:
        """Take a place; TimeoutError where none is free by the loop's time `until`. What it returns, others ask for."""
        if self._resume is not None or self.in_flight + 1 > self._limit:  # so it is wherever others wait
            await self._wait(until)
        else:
            self.in_flight += 1
        return self._cuts

    def release(self) -> None:
        """Give a place back; say first how it went."""
        self.in_flight -= 1
        if self._waiting:
            self._serve()

    def well(self, place: int) -> None:
        """The request of this place was answered."""
        if self._limit >= self.most or place != self._cuts:  # one from before says nothing of what is borne now
            return
        self._well = True
        if self._limit < self._before:
            self._limit = min(self._limit + 1, self._before)
        else:
            self._limit = min(self._limit + self._step / self._limit, self.most)
            self._calm += 1
            if self._calm >= self._limit:
                self._calm, self._step = 0, 2 * self._step
        self._serve()

    def refused(self, place: int, retry_after: float | None = None) -> None:
        """The provider had too many requests; it wants none for `retry_after` seconds."""
        if place == self._cuts:
            if self._well:  # where nothing got through in between it is the same storm, and tells nothing new
                self._before = self._limit
            self._limit = max(1.0, self._limit / 2)
            self._cuts += 1
            self._well, self._calm, self._step = False, 0, 1.0
        if retry_after:
            self.pause(retry_after)

    def pause(self, seconds: float) -> None:
        """Let no request start for so long; a pause under way is never cut short."""
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if self._resume is not None:
            if self._resume.when() >= when:
                return
            self._resume.cancel()
        self._resume = loop.call_at(when, self._go_on)

    def _go_on(self) -> None:
        self._resume = None
        for turn in self._held:
            if not turn.done():
                turn.set_result(None)
        self._held.clear()
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._resume is None and self.in_flight + 1 <= self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

    async def _wait(self, until: float | None) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout_at(until):
                await turn
                while self._resume is not None:  # a pause began between the place was given and this woke up
                    self._held.append(loop.create_future())
                    await self._held[-1]
        except BaseException:
            if turn.done() and not turn.cancelled():  # the place had been given: another may have it
                self.release()
            else:
                with contextlib.suppress(ValueError):
                    self._waiting.remove(turn)
            raise


async def ask_patiently(
    client: Client,
    question: Question,
    *,
    limiter: Limiter,
    timeout: float,  # noqa: ASYNC109 - of one try, of which there may be several
    deadline: float,
    clock: Callable[[], float] = time.time,
    met: Callable[[Trouble | None], None] = lambda _: None,
) -> Answer:
    """Put a question until it is answered, for at most `deadline` seconds in all, waiting for a place included.

    One try may take `timeout` seconds, however slowly its answer drips. What may be well the next time is asked again,
    after a wait drawn from a window that doubles, or when the provider said; all else is raised as it came. At the end
    the last Trouble is raised, with the number of attempts in its message. `clock` tells the time since 1970.
    `met` hears of every Trouble as it comes, and None with an answer.
    """
    asking = _Asking(client, question, limiter, timeout=timeout, deadline=deadline, clock=clock, met=met)
    try:
        return await asking.once()
    except Trouble as trouble:
        if trouble.kind not in TRANSIENT:
            raise
    return await asking.again()


class _Asking:
    """One question on its way: what it met so far, and how long it has left."""

    __slots__ = (
        "_client", "_clock", "_drawn", "_loop", "_met", "_question", "_timeout", "ends", "last", "limiter", "started",
        "told", "tries",
    )  # fmt: skip

    def __init__(
        self,
        client: Client,
        question: Question,
        limiter: Limiter,
        *,
        timeout: float,
        deadline: float,
        clock: Callable[[], float],
        met: Callable[[Trouble | None], None],
    ) -> None:
        self._client, self._question, self.limiter = client, question, limiter
        self._timeout, self._clock, self._met = timeout, clock, met
        self._loop = asyncio.get_running_loop()
        self.started = self._loop.time()
        self.ends = self.started + deadline
        self.tries = 0
        self.last: Trouble | None = None
        self.told = True
        """Whether the retrying knows of the last Trouble."""
        self._drawn = (0, 0.0)

    async def once(self) -> Answer:
        """Wait for a place and ask; raises Trouble."""
        try:
            place = await self.limiter.acquire(self.ends)
        except TimeoutError:
            raise self._late() from None
        try:
            now = self._loop.time()
            if now < self.ends:
                return await self._ask(place, now)
        finally:
            self.limiter.release()
        raise self._late()

    async def _ask(self, place: int, now: float) -> Answer:
        self.tries += 1
        try:
            async with asyncio.timeout_at(min(now + self._timeout, self.ends)):
                answer = await self._client.ask(self._question)
        except TimeoutError:
            raise self._noted(Trouble("timeout", f"no answer in {_rounded(self._loop.time() - now)} s")) from None
        except Trouble as trouble:
            self._heed(place, self._noted(trouble))
            raise
        self._met(None)
        self.limiter.well(place)
        if answer.limits and (seconds := _until_reset(answer.limits, self._clock)):
            self.limiter.pause(self._bounded(seconds))
        return answer

    async def again(self) -> Answer:
        """Go on after the first Trouble; raises the last one, with the attempts counted."""
        retrying = AsyncRetrying(
            sleep=asyncio.sleep,
            wait=self._pause,
            stop=self._over,
            retry=retry_if_exception(lambda error: isinstance(error, Trouble) and error.kind in TRANSIENT),
            reraise=True,
        )
        try:
            return await retrying(self._next)
        except Trouble as trouble:
            tries = f"{self.tries} attempt{'' if self.tries == 1 else 's'}"
            message = f"after {tries} in {_rounded(self._loop.time() - self.started)} s: {trouble.message}"
            raise Trouble(
                trouble.kind, message, retry_after=trouble.retry_after, option=trouble.option
            ) from trouble.__cause__

    async def _next(self) -> Answer:
        """The next try; the first one was made before, and is only told."""
        if not self.told and self.last is not None:
            self.told = True
            raise self.last
        return await self.once()

    def _late(self) -> Trouble:
        """What to say where there is no time for another try."""
        return self.last or self._noted(Trouble("timeout", "no place came free"))

    def _noted(self, trouble: Trouble) -> Trouble:
        self.told = self.last is not None
        self.last = trouble
        self._met(trouble)
        return trouble

    def _heed(self, place: int, trouble: Trouble) -> None:
        """Tell the limiter; Retry-After is the service's word, not one for this question alone."""
        seconds = self._bounded(trouble.retry_after)
        if trouble.kind == "rate":
            self.limiter.refused(place, seconds)
        elif trouble.kind in TRANSIENT and seconds:
            self.limiter.pause(seconds)

    def _bounded(self, seconds: float | None) -> float:
        """What was named, but nothing below 0 and nothing beyond this question's own end."""
        left = self.ends - self._loop.time()
        return min(seconds, max(left, 0.0)) if seconds is not None and seconds > 0 else 0.0

    def _pause(self, state: RetryCallState) -> float:
        """Seconds before the next try, drawn once for each: releases of tenacity differ in which of the two asks first.

        Where the provider named a time, the wait is in the limiter's line; only a very short one is not trusted.
        """
        if self._drawn[0] != state.attempt_number:
            named = self.last.retry_after if self.last is not None else None
            seconds = _backoff(state)
            if named is not None and named > 0:
                seconds = 0.0 if named >= _FIRST else min(seconds, _FIRST)
            self._drawn = (state.attempt_number, seconds)
        return self._drawn[1]

    def _over(self, state: RetryCallState) -> bool:
        return self._loop.time() + self._pause(state) >= self.ends


def parse_retry_after(value: Mapping[str, str] | str | None, now: float) -> float | None:
    """When to come back, in seconds from `now`, by a reply's headers or the value of its Retry-After alone.

    `retry-after-ms` goes before `retry-after`, and that before the reset of a quota that is spent. Seconds, fractions,
    spans ("6m0s") and dates are read. A time that has passed is 0, what makes no sense is None; the caller has to set
    a bound.

    >>> parse_retry_after({"Retry-After": "7"}, 0), parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 15)
    (7.0, 45.0)
    >>> parse_retry_after({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s"}, 0)
    90.0
    """
    if value is None or isinstance(value, str):
        return _seconds(value, now)
    headers = {str(name).lower(): str(text) for name, text in value.items()}
    milliseconds = headers.get("retry-after-ms", "").strip()
    if len(milliseconds) < 20 and _SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1_000
    named = _seconds(headers.get("retry-after"), now)
    return named if named is not None else _until_reset(headers, lambda: now)


def _until_reset(limits: Mapping[str, str], clock: Callable[[], float]) -> float | None:
    """Seconds until every quota that is spent is there again; None where none is, or nobody says when."""
    longest = None
    for name, left in limits.items():
        if left == "0" and "remaining" in name:
            seconds = _seconds(limits.get(name.replace("remaining", "reset")), clock())
            if seconds is not None and (longest is None or seconds > longest):
                longest = seconds
    return longest


def _seconds(text: str | None, now: float) -> float | None:
    """A number of seconds, a time since 1970, a span or a date as seconds from now."""
    text = (text or "").strip()
    if not text or len(text) > 64:
        return None
    if _SECONDS.fullmatch(text):
        number = float(text)
        return number if number < _EPOCH else max(0.0, (number if number < _EPOCH_MS else number / 1_000) - now)
    if span := _SPAN.fullmatch(text):
        with contextlib.suppress(ValueError):
            return sum(float(part) * unit for part, unit in zip(span.groups(), _UNITS, strict=True) if part)
    if text.startswith("-") and _SECONDS.fullmatch(text, 1):
        return 0.0
    when = _date(text)
    return None if when is None else max(0.0, when.timestamp() - now)


def _date(text: str) -> datetime | None:
    """An HTTP date, or an ISO one as Anthropic sends it."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
            when = read(text)
            when = when if when.tzinfo else when.replace(tzinfo=UTC)
            when.timestamp()  # the first and the last year have hours that no number stands for
            return when
    return None


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"
