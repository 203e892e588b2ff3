"""A model that judges: any provider, never a silent number, and nothing that waits for ever.

    groundtrace run traces.jsonl --judge openai:gpt-5.2
    groundtrace run traces.jsonl --judge openai:qwen3,base_url=http://127.0.0.1:8000/v1
    groundtrace run traces.jsonl --judge anthropic:claude-sonnet-4-6
    groundtrace run traces.jsonl --judge google:gemini-2.5-pro

The rubric's part of a prompt goes first and is the same for every record, so that providers can keep it; the record's
part follows inside fences that only this request knows. The gate says what a reply is worth; here it is only fetched.
What a provider does not take (a schema, a temperature) is left out from then on, and said in `notes`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from groundtrace.errors import PlatformError
from groundtrace.evaluate import never
from groundtrace.judges.llm.client import TRANSIENT, Answer, Client, Question, Trouble
from groundtrace.judges.llm.loop import hear
from groundtrace.judges.llm.prices import price_of
from groundtrace.judges.llm.providers import check
from groundtrace.judges.llm.settings import Settings
from groundtrace.judges.llm.taken import Taken
from groundtrace.judges.llm.transport import Limiter, ask_patiently
from groundtrace.model import Check, Reply

if TYPE_CHECKING:
    from groundtrace.judges.llm.loop import Ask
    from groundtrace.model import Case, JudgeKind, Usage
    from groundtrace.ports import Again

__all__ = ["LlmJudge", "Settings"]

_VAIN = 2.0
"""Seconds without an answer, of a provider in trouble, after which one who is to stop waits no more."""

_SHOWN = 300
"""Characters of a provider's message that are told."""


class LlmJudge:
    """Asks a model about every case; `make` opens the client of its provider, inside the event loop."""

    kind: JudgeKind = "llm"
    limits = ""

    def __init__(self, settings: Settings, make: Callable[[Settings], Client]) -> None:
        self.settings, self._make = settings, make
        self.id = settings.id
        self._price = price_of(settings)
        self._taken = Taken.of(settings)
        self._late = self._stopping = never
        self._idle: Callable[[], None] = _resting
        self._away, self._since = "", 0.0
        """Why it gives no answer, and since when."""

    def __repr__(self) -> str:
        return f"<LlmJudge {self.id}>"

    @property
    def priced(self) -> bool:
        """Whether it is known what a call costs."""
        return self._price is not None

    def price(self, usage: Usage) -> float | None:
        """What so many tokens cost, in US dollars; None where it is not known."""
        return self._price(usage) if self._price else None

    def unassessed(self, rubric: str) -> frozenset[str]:  # noqa: ARG002 - the port's parameter
        """Nothing: a model has no such excuse."""
        return frozenset()

    def notes(self) -> tuple[str, ...]:
        """What the provider did not take, one line each."""
        return tuple(f"judge {self.id}: {note}" for note in self._taken.notes)

    def check(self) -> None:
        """PlanError where the key is missing; nobody is asked."""
        check(self.settings)

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its last reply, as they finish; PlatformError where no call can ever succeed."""
        yield from hear(cases, again, self._session, self.settings.concurrency, self._is_late, idle=self._idle)

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait no more for a provider in trouble once `stopping` says so; what is in flight at another finishes."""
        self._stopping = stopping

    def when_idle(self, what: Callable[[], None]) -> None:
        """Call `what` while no answer comes, in the thread that hears: what was put off until there are more is due."""
        self._idle = what

    def cut_when(self, late: Callable[[], bool]) -> None:
        """End a hearing once it is `late`, with what is in flight: that has no reply then."""
        self._late = late

    def trouble(self) -> str:
        """Why it gives no answer just now, or is about to be asked again; "" where its last word was one."""
        return self._away

    def _met(self, trouble: Trouble | None) -> None:
        """Note how it went; who refuses a question is there."""
        why = trouble.message[:_SHOWN] if trouble is not None and trouble.kind in TRANSIENT else ""
        if why and not self._away:
            self._since = time.monotonic()
        self._away = why

    def _is_late(self) -> bool:
        vain = self._away and time.monotonic() - self._since >= _VAIN
        return self._late() or bool(vain and self._stopping())

    def doctor(self) -> Iterator[Check]:
        """Whether the key, the model and structured output are well: one case judged, and what it costs."""
        from groundtrace.judges.llm.doctor import checks

        yield from checks(self)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Ask]:
        client = self._make(self.settings)
        limiter = Limiter(self.settings.concurrency)
        try:
            nonces = _nonces()
            yield lambda case: self._ask(client, limiter, case, next(nonces))
        finally:
            await client.close()

    async def _ask(self, client: Client, limiter: Limiter, case: Case, nonce: str) -> Reply:
        """One case, asked as often as it takes; trouble with it is a reply with a fault."""
        begin, body = time.monotonic(), case.render(nonce)
        while True:
            question = self._taken.question(case, body)
            try:
                answer = await ask_patiently(
                    client,
                    question,
                    limiter=limiter,
                    timeout=self.settings.timeout,
                    deadline=self.settings.deadline,
                    met=self._met,
                )
            except Trouble as trouble:
                if trouble.kind == "unsupported" and self._taken.leaves_out(question, trouble.option):
                    continue
                if trouble.kind == "fatal":
                    raise PlatformError(trouble.message[:_SHOWN]) from None
                return self._reply(case, question, None, begin, fault=trouble.message[:_SHOWN])
            return self._reply(case, question, answer, begin)

    def _reply(
        self, case: Case, question: Question, answer: Answer | None, begin: float, *, fault: str | None = None
    ) -> Reply:
        usage = answer.usage if answer else None
        return Reply(
            text=(answer.text or answer.refusal) if answer else "",
            judge=self.id,
            attempt=1 if case.remark is None else 2,
            usage=usage,
            cost=self.price(usage) if usage else None,
            latency=time.monotonic() - begin,
            fault=fault,
            stop=answer.stop if answer else "",
            temperature=question.temperature,
        )


def _resting() -> None:
    """Nothing was put off."""


def _nonces() -> Iterator[str]:
    """Words nobody can foresee, one for each request; the system gives many at a time for what one costs."""
    while True:
        drawn = secrets.token_hex(1024)
        yield from (drawn[at : at + 16] for at in range(0, len(drawn), 16))
