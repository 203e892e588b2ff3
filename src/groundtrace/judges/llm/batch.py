"""A model asked by the thousand at half the price: cases go out as one batch, and the replies come within a day.

    groundtrace run traces.jsonl --judge openai-batch:gpt-5.2
    groundtrace run traces.jsonl --judge anthropic-batch:claude-sonnet-5-5

A round is as many cases as fit into a batch, or as there are; it is sent, waited for and put to the gate, and what the
gate wants asked again goes out with the next round's cases. What is sent stands in a ledger before it is waited for: a
run that was cut finds the batch that holds its questions and takes the answers from there. A question that got none
(expired, an error) is asked once more in the next round; then its case has a fault.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, stop_never, wait_random_exponential

from groundtrace.errors import PlatformError
from groundtrace.judges.llm.batch_desk import Desk
from groundtrace.judges.llm.batch_hearing import Heard, Hearing
from groundtrace.judges.llm.batch_ledger import Ledger
from groundtrace.judges.llm.client import TRANSIENT, Question, Trouble
from groundtrace.model import Check

if TYPE_CHECKING:
    from groundtrace.model import Case, JudgeKind, Usage
    from groundtrace.ports import Again

T = TypeVar("T")

HALF = 0.5
"""What a question in a batch costs of its usual price, at OpenAI and at Anthropic."""

_SLICE = 0.5
"""Seconds after which a wait looks whether it should end."""

_backoff = wait_random_exponential(multiplier=1, max=60)


class BatchJudge:
    """Asks a model by its provider's batch API, which takes up to a day and costs half.

    `make` opens the provider's desk for each hearing. `question` puts a case into words; `leaves_out` hears of an
    option the provider did not take and says whether the question can be put without it. `cost` is the usual price of
    a reply in US dollars. A batch has at most `most` cases and `most_bytes` bytes. It is looked at after `interval`
    seconds, then ever more rarely, down to every `longest`. Handing in is tried for `patience` seconds, a batch that
    was handed in is never given up. `stopping` is asked while it waits: true ends the hearing, and the batch stays in
    the ledger. `taken` says what the provider did not take, `live` whether
    the same model answers outside of a batch.
    """

    kind: JudgeKind = "llm"
    limits = ""

    def __init__(
        self,
        id: str,  # noqa: A002 - the port's name
        make: Callable[[], Desk],
        *,
        question: Callable[[Case], Question] | None = None,
        leaves_out: Callable[[Question, str], bool] | None = None,
        cost: Callable[[Usage], float | None] | None = None,
        ledger: str | Path | None = None,
        most: int = 5_000,
        most_bytes: int = 50_000_000,
        interval: float = 30,
        longest: float = 300,
        patience: float = 1_800,
        taken: Callable[[], Iterable[str]] = tuple,
        live: Callable[[], Iterable[Check]] = tuple,
        stopping: Callable[[], bool] | None = None,
    ) -> None:
        self.id = id
        self.ledger = Ledger(ledger)
        self.question, self.leaves_out = question or in_words, leaves_out or _never
        with contextlib.closing(make()) as desk:  # a key that is missing is said before anything is judged
            self.where = desk.where
            self.most, self.most_bytes = max(1, min(most, desk.most)), min(most_bytes, desk.most_bytes)
        self.stopping = stopping or _no
        self._make, self._cost, self._left_out, self._live = make, cost, taken, live
        self._interval, self._longest, self._patience = interval, max(interval, longest), patience
        self._notes: list[str] = []

    def unassessed(self, rubric: str) -> frozenset[str]:  # noqa: ARG002 - the port's parameter
        """Nothing: a model has no such excuse."""
        return frozenset()

    def notes(self) -> tuple[str, ...]:
        """Which batches were left running, found again or failed, and what was not taken, one line each."""
        return tuple(f"judge {self.id}: {note}" for note in (*self._notes, *self._left_out()))

    @property
    def priced(self) -> bool:
        """Whether it is known what a question costs."""
        return self._cost is not None

    def doctor(self) -> Iterator[Check]:
        """Whether the key, the model and structured output are well: one case, asked live, for a batch takes a day."""
        yield from self._live()
        yield Check(self.where, well=True, detail="one case was asked live; in a batch it costs half")

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """End a hearing once `stopping` says so, even while it waits for a batch."""
        self.stopping = stopping

    def note(self, what: str) -> None:
        """Say something in the run's report, once."""
        if what not in self._notes:
            self._notes.append(what)

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[Heard]:
        """Each case with its last reply, a batch at a time; PlatformError where no question can ever succeed.

        Closing the iterator leaves the batch running and in the ledger.
        """
        with contextlib.closing(self._make()) as desk:
            hearing = Hearing(self, desk, iter(cases), again)
            try:
                yield from hearing.heard()
            except _Stopped:
                return
            finally:
                hearing.leave()

    def price(self, usage: Usage | None) -> float | None:
        """What these tokens cost in a batch; None where nobody knows."""
        usual = self._cost(usage) if self._cost and usage else None
        return None if usual is None else usual * HALF

    def patiently(self, what: Callable[[], T], *, ever: bool) -> T:
        """Try until it is well, `ever` without end; a provider's own wait is kept. Raises PlatformError."""
        retrying = Retrying(
            retry=retry_if_exception(_passes),
            wait=_pause,
            stop=stop_never if ever else stop_after_delay(self._patience),
            sleep=self.sleep,
            reraise=True,
        )
        try:
            return retrying(what)
        except Trouble as trouble:
            raise PlatformError(trouble.message, retry_after=trouble.retry_after) from None

    def looks(self) -> Iterator[float]:
        """Seconds to wait before each further look at a batch."""
        pause = self._interval
        while True:
            yield pause
            pause = min(self._longest, pause * 1.5)

    def sleep(self, seconds: float) -> None:
        """Wait, unless it is to stop."""
        end = time.monotonic() + seconds
        while True:
            if self.stopping():
                raise _Stopped
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _SLICE))


class _Stopped(Exception):
    """The run is to end; what was sent stays in the ledger."""


def in_words(case: Case) -> Question:
    """A case as a question under its rubric's schema."""
    return Question(case.prefix, case.render(secrets.token_hex(8)), case.schema, case.rubric, temperature=0.0)


def _never(_: Question, __: str) -> bool:
    return False


def _no() -> bool:
    return False


def _passes(error: BaseException) -> bool:
    return isinstance(error, Trouble) and error.kind in TRANSIENT


def _pause(state: RetryCallState) -> float:
    """As long as the provider says, else longer after every try."""
    error = state.outcome.exception() if state.outcome else None
    told = error.retry_after if isinstance(error, Trouble) else None
    return told if told is not None else _backoff(state)
