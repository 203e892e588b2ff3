"""Providers that have too many requests, in virtual time: what becomes of those who ask them patiently.

`recovery` keeps every place of a limiter busy through one storm of refusals and measures how soon the throughput is
what it was; `wild` asks a number of questions of a provider that fails in every way there is, some of which are
cancelled. Both are drawn from a seed, and check on every request what must always hold.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import formatdate

import virtual_time
from groundtrace.judges.llm.client import Answer, Question, Trouble
from groundtrace.judges.llm.transport import Limiter, ask_patiently, parse_retry_after

QUESTION = Question("rubric", "record", {}, "verdict")
WITHIN, BEFORE, LOOKED = 10.0, 10.0, 5.0
"""Seconds: by when the throughput is back, how long it is taken before the storm, and how long after it."""

FORMS: dict[str, Callable[[float, float], dict[str, str]]] = {
    "seconds": lambda left, _: {"retry-after": str(math.ceil(left))},
    "fraction": lambda left, _: {"retry-after": f"{left:.3f}"},
    "date": lambda left, now: {"retry-after": formatdate(math.ceil(now + left), usegmt=True)},
    "ms": lambda left, _: {"retry-after-ms": str(math.ceil(left * 1_000))},
    "span": lambda left, _: {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{left:.2f}s"},
    "short": lambda left, _: {"retry-after": str(min(1, math.ceil(left)))},
}
"""How a provider says when to come back; "short": too soon."""


@dataclass
class Provider:
    """Answers after a while; how is decided by `reply`, which is given the time of day and may sleep or raise."""

    limiter: Limiter
    reply: Callable[[float], Awaitable[Answer]]
    under: int = 0
    most_under: int = 0
    asked: int = 0

    async def ask(self, question: Question) -> Answer:
        """As the client of an SDK would."""
        assert not self.limiter.paused, "a request started while the provider was to be left alone"
        sound(self.limiter)
        self.asked += 1
        self.under += 1
        self.most_under = max(self.most_under, self.under)
        try:
            answer = await self.reply(virtual_time.wall())
        finally:
            self.under -= 1
            sound(self.limiter)
        return answer

    async def close(self) -> None:
        """Nothing is held."""


def sound(limiter: Limiter) -> None:
    """Nobody waits where there is a place, and the limit is within its bounds."""
    assert 1 <= limiter._limit <= limiter.most
    waiting = any(not turn.done() for turn in limiter._waiting)
    assert not waiting or limiter.paused or limiter.in_flight + 1 > limiter._limit


# --- one storm, every place busy ------------------------------------------------------------------------------------


@dataclass
class Recovered:
    """What one storm did."""

    places: int
    back: float | None
    """Seconds after the last Retry-After by which there had been `LOOKED` at 90 % of the throughput before."""
    ratio: float
    """Throughput in the last `LOOKED` of the `WITHIN` seconds after the last Retry-After, over that before."""
    refused: int
    late: int
    """Questions that ended after their deadline."""


@dataclass
class _Storm:
    pick: random.Random
    start: float = virtual_time.BEGAN + 1.0 + BEFORE
    clear: float = 0.0
    refused: int = 0
    served: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        pick = self.pick
        self.end = self.start + pick.uniform(0.2, 6.0)
        self.share = pick.choice((1.0, 1.0, pick.uniform(0.3, 1.0)))
        self.said = FORMS[pick.choice(list(FORMS))]
        self.shape = pick.choice(("steady", "even", "heavy"))
        self.typical = pick.uniform(0.2, 1.0)
        self.clear = self.end

    def latency(self) -> float:
        match self.shape:
            case "steady":
                return self.typical
            case "even":
                return self.pick.uniform(0.01, self.typical)
        return min(1.0, self.pick.lognormvariate(math.log(self.typical / 2), 0.6))

    def before(self) -> float:
        """Answers in as long a time as is looked at after the storm."""
        return sum(self.start - BEFORE < at <= self.start for at in self.served) * LOOKED / BEFORE

    def served_by(self, until: float) -> int:
        """Answers in the time looked at that ends then."""
        return sum(until - LOOKED < at <= until for at in self.served)

    def back(self) -> float | None:
        """When the throughput was back, or None."""
        enough = 0.9 * self.before()
        looks = (LOOKED + n / 4 for n in range(int(4 * (WITHIN - LOOKED)) + 1))
        return next((look for look in looks if self.served_by(self.clear + look) >= enough), None)

    async def reply(self, now: float) -> Answer:
        if self.start <= now < self.end and self.pick.random() < self.share:
            await asyncio.sleep(self.pick.uniform(0.005, 0.2))
            now = virtual_time.wall()
            headers = self.said(max(0.0, self.end - now), now)
            seconds = parse_retry_after(headers, now)
            assert seconds is not None
            self.refused += 1
            self.clear = max(self.clear, now + seconds)
            raise Trouble("rate", "429: too many requests", retry_after=seconds)
        await asyncio.sleep(self.latency())
        self.served.append(virtual_time.wall())
        return Answer("{}")


def recovery(seed: int, deadline: float = 60.0) -> Recovered:
    """Keep 8 to 32 places busy through a storm."""
    pick = random.Random(seed)
    random.seed(seed)  # the jitter of the waits is drawn from the common source
    storm, places = _Storm(pick), pick.choice((8, 16, 32))
    return virtual_time.run(_recovery(storm, places, pick, deadline))


async def _recovery(storm: _Storm, places: int, pick: random.Random, deadline: float) -> Recovered:
    limiter = Limiter(places)
    provider = Provider(limiter, storm.reply)
    late = 0

    async def place() -> None:
        nonlocal late
        while (began := virtual_time.wall()) < storm.clear + WITHIN:
            asking = asyncio.ensure_future(
                ask_patiently(
                    provider, QUESTION, limiter=limiter, timeout=5, deadline=deadline, clock=virtual_time.wall
                )
            )
            if pick.random() < 0.02:
                asyncio.get_running_loop().call_later(pick.uniform(0, 1), asking.cancel)
            await asyncio.wait((asking,))
            late += virtual_time.wall() - began > deadline + 1e-6
            if not asking.cancelled() and asking.exception() is not None:
                raise asking.exception()

    async with asyncio.TaskGroup() as group:
        for _ in range(places):
            group.create_task(place())
    assert (limiter.in_flight, len(limiter._waiting), provider.under) == (0, 0, 0)
    assert provider.most_under <= places
    return Recovered(places, storm.back(), storm.served_by(storm.clear + WITHIN) / storm.before(), storm.refused, late)


# --- every way to fail ----------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What became of the questions of one wild schedule."""

    served: int = 0
    failed: int = 0
    cancelled: int = 0
    asked: int = 0
    seconds: float = 0.0


@dataclass
class _Weather:
    """Several storms, a bucket of requests, a bound on how many at once, and faults at random."""

    pick: random.Random
    over: bool = False

    def __post_init__(self) -> None:
        pick = self.pick
        starts = [virtual_time.BEGAN + pick.uniform(0, 20) for _ in range(pick.randint(0, 4))]
        self.storms = [(at, at + pick.uniform(0.1, 8)) for at in starts]
        self.said = list(FORMS.values())[: pick.randint(1, len(FORMS))]
        self.faulty = pick.choice((0.0, 0.05, 0.3))
        self.bucket, self.rate = pick.choice(((math.inf, 0.0), (pick.randint(1, 20), pick.uniform(1, 20))))
        self.left, self.filled = float(self.bucket), virtual_time.BEGAN
        self.bears = pick.choice((math.inf, pick.randint(1, 16)))
        self.at_once = 0

    async def reply(self, now: float) -> Answer:
        self.at_once += 1
        try:
            return await self._reply(now)
        finally:
            self.at_once -= 1

    async def _reply(self, now: float) -> Answer:
        pick = self.pick
        if not self.over:
            self._refuse(now)
            if pick.random() < self.faulty:
                await self._fail()
        await asyncio.sleep(pick.choice((0.0, pick.random(), pick.expovariate(3))))
        limits = {} if self.over or pick.random() < 0.95 else FORMS["span"](pick.uniform(0, 3), now)
        return Answer("{}", limits=limits)

    def _refuse(self, now: float) -> None:
        for start, end in self.storms:
            if start <= now < end and self.pick.random() < 0.9:
                raise self._rate(self.pick.choice(self.said)(end - now, now), now)
        self.left = min(self.bucket, self.left + (now - self.filled) * self.rate)
        self.filled = now
        if self.left < 1:
            raise self._rate({"retry-after": f"{(1 - self.left) / self.rate:.3f}"}, now)
        self.left -= 1
        if self.at_once > self.bears:
            raise self._rate(self.pick.choice(({}, {"retry-after": "soon"}, {"retry-after": "-1"})), now)

    def _rate(self, headers: dict[str, str], now: float) -> Trouble:
        return Trouble("rate", "429", retry_after=parse_retry_after(headers, now))

    async def _fail(self) -> None:
        match self.pick.choice(("500", "503", "reset", "hang", "drip", "fatal", "day")):
            case "500":
                raise Trouble("server", "500")
            case "503":
                raise Trouble("server", "503", retry_after=self.pick.uniform(0, 3))
            case "reset":
                raise Trouble("connection", "reset by peer")
            case "hang":
                await asyncio.get_running_loop().create_future()
            case "drip":
                while True:  # noqa: ASYNC110 - bytes that come one by one, and never all
                    await asyncio.sleep(0.3)
            case "fatal":
                raise Trouble("fatal", "401")
            case "day":
                raise Trouble("rate", "429", retry_after=86_400)


def wild(seed: int) -> Outcome:
    """Ask 10 to 40 questions of a provider that fails in every way, and cancel some; every one ends by its deadline."""
    pick = random.Random(seed)
    random.seed(seed)
    return virtual_time.run(_wild(_Weather(pick), pick))


async def _wild(weather: _Weather, pick: random.Random) -> Outcome:
    limiter, outcome = Limiter(pick.randint(1, 32)), Outcome()
    provider = Provider(limiter, weather.reply)
    timeout, deadline = pick.uniform(0.5, 5), pick.choice((3.0, 20.0, 60.0))
    loop = asyncio.get_running_loop()

    async def question(after: float) -> None:
        await asyncio.sleep(after)
        began = loop.time()
        try:
            await ask_patiently(
                provider, QUESTION, limiter=limiter, timeout=timeout, deadline=deadline, clock=virtual_time.wall
            )
            outcome.served += 1
        except Trouble:
            outcome.failed += 1
        except asyncio.CancelledError:
            outcome.cancelled += 1
        assert loop.time() - began <= deadline + 1e-6, "a question outlived its deadline"

    count = pick.randint(10, 40)
    tasks = [asyncio.ensure_future(question(pick.choice((0.0, pick.uniform(0, 10))))) for _ in range(count)]
    await asyncio.sleep(0)
    for task in tasks:
        if pick.random() < 0.15:
            loop.call_later(pick.uniform(0, 12), task.cancel)
    for done in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(done, asyncio.CancelledError):  # before it had begun to ask
            outcome.cancelled += 1
        elif done is not None:
            raise done
    outcome.asked, outcome.seconds = provider.asked, loop.time()
    assert outcome.served + outcome.failed + outcome.cancelled == count
    assert (limiter.in_flight, len(limiter._waiting), provider.under) == (0, 0, 0)
    assert provider.most_under <= limiter.most
    weather.over = True  # and now that all is well, the next one is answered
    await ask_patiently(provider, QUESTION, limiter=limiter, timeout=60, deadline=200, clock=virtual_time.wall)
    return outcome
