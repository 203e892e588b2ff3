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
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from groundtrace.errors import PlatformError
from groundtrace.judges.llm.client import Answer, Client, Mode, Question, Trouble
from groundtrace.judges.llm.loop import hear
from groundtrace.judges.llm.prices import price_of
from groundtrace.judges.llm.settings import Api, Settings, Structured
from groundtrace.judges.llm.transport import Limiter, ask_patiently
from groundtrace.model import Check, Reply

if TYPE_CHECKING:
    from groundtrace.judges.llm.loop import Ask
    from groundtrace.model import Case, JudgeKind
    from groundtrace.ports import Again

__all__ = ["LlmJudge", "Settings", "anthropic", "google", "openai"]

_WORSE: dict[Mode, Mode] = {"schema": "json", "json": "plain"}
_SHOWN = 300
"""Characters of a provider's message that are told."""

_JSON_ONLY = "\n\nReply with one JSON object and nothing else."
"""Said where no mode of the provider asks for JSON."""


class LlmJudge:
    """Asks a model about every case; `make` opens the client of its provider, inside the event loop."""

    kind: JudgeKind = "llm"
    limits = ""

    def __init__(self, settings: Settings, make: Callable[[Settings], Client]) -> None:
        self.settings, self._make = settings, make
        self.id = settings.id
        self._price = price_of(settings)
        self._taken = _Taken.of(settings)

    def __repr__(self) -> str:
        return f"<LlmJudge {self.id}>"

    @property
    def priced(self) -> bool:
        """Whether it is known what a call costs."""
        return self._price is not None

    def unassessed(self, rubric: str) -> frozenset[str]:  # noqa: ARG002 - the port's parameter
        """Nothing: a model has no such excuse."""
        return frozenset()

    def notes(self) -> tuple[str, ...]:
        """What the provider did not take, one line each."""
        return tuple(f"judge {self.id}: {note}" for note in self._taken.notes)

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its last reply, as they finish; PlatformError where no call can ever succeed."""
        yield from hear(cases, again, self._session, self.settings.concurrency)

    def doctor(self) -> Iterator[Check]:
        """Whether the key, the model and structured output are well: one case judged, and what it costs."""
        from groundtrace.judges.llm.doctor import checks

        yield from checks(self)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Ask]:
        client = self._make(self.settings)
        limiter = Limiter(self.settings.concurrency)
        try:
            yield lambda case: self._ask(client, limiter, case)
        finally:
            await client.close()

    async def _ask(self, client: Client, limiter: Limiter, case: Case) -> Reply:
        """One case, asked as often as it takes; trouble with it is a reply with a fault."""
        begin, body = time.monotonic(), case.render(secrets.token_hex(8))
        while True:
            question = self._taken.question(case, body)
            try:
                answer = await ask_patiently(
                    client, question, limiter=limiter, timeout=self.settings.timeout, deadline=self.settings.deadline
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
            cost=self._price(usage) if self._price and usage else None,
            latency=time.monotonic() - begin,
            fault=fault,
            stop=answer.stop if answer else "",
            temperature=question.temperature,
        )


@dataclass(slots=True)
class _Taken:
    """What the provider takes, as far as it was seen; worse is never taken back."""

    mode: Mode
    fixed: bool
    temperature: float | None
    max_tokens: int | None
    notes: list[str]

    @classmethod
    def of(cls, settings: Settings) -> _Taken:
        """As the settings say, nothing seen yet."""
        best: Mode = "schema" if settings.structured == "auto" else settings.structured
        return cls(best, settings.structured != "auto", settings.temperature, settings.max_tokens, [])

    def question(self, case: Case, body: str) -> Question:
        """A case as it is put now."""
        prefix = case.prefix + (_JSON_ONLY if self.mode == "plain" else "")
        return Question(prefix, body, case.schema, case.rubric, self.mode, self.temperature, self.max_tokens)

    def leaves_out(self, question: Question, option: str) -> bool:
        """Do without what was refused; False where that can't be. Others in flight may have learnt it already."""
        if option == "mode" and question.mode in _WORSE and not self.fixed:
            if self.mode == question.mode:
                self.mode = _WORSE[question.mode]
                self.notes.append(f"takes no {_NAMED[question.mode]}; {_NAMED[self.mode]} is used")
            return True
        if option == "temperature" and question.temperature is not None:
            if self.temperature is not None:
                self.notes.append(f"takes no temperature of {self.temperature:g}; its own is used")
            self.temperature = None
            return True
        return False


_NAMED: dict[Mode, str] = {"schema": "JSON schema", "json": "JSON mode", "plain": "plain text"}


def openai(
    model: str,
    *,
    base_url: str | None = None,
    temperature: float | None = 0.0,
    timeout: float = 60.0,
    deadline: float = 300.0,
    concurrency: int = 32,
    seed: int | None = None,
    max_tokens: int | None = None,
    reasoning_effort: str | None = None,
    api: Api = "chat",
    structured: Structured = "auto",
    input_price: float | None = None,
    output_price: float | None = None,
) -> LlmJudge:
    """A judge behind anything that speaks OpenAI's API: OpenAI, Azure, vLLM, Ollama, proxies."""
    settings = Settings("openai", model, base_url, temperature, timeout, deadline, concurrency, seed, max_tokens)
    return _made(settings, reasoning_effort, api, structured, (input_price, output_price))


def anthropic(
    model: str,
    *,
    base_url: str | None = None,
    temperature: float | None = 0.0,
    timeout: float = 60.0,
    deadline: float = 300.0,
    concurrency: int = 16,
    max_tokens: int = 8192,
    reasoning_effort: str | None = None,
    structured: Structured = "auto",
    input_price: float | None = None,
    output_price: float | None = None,
) -> LlmJudge:
    """A judge at Anthropic; the rubric's part of a prompt is kept in its cache."""
    settings = Settings("anthropic", model, base_url, temperature, timeout, deadline, concurrency, None, max_tokens)
    return _made(settings, reasoning_effort, "chat", structured, (input_price, output_price))


def google(
    model: str,
    *,
    base_url: str | None = None,
    temperature: float | None = 0.0,
    timeout: float = 60.0,
    deadline: float = 300.0,
    concurrency: int = 16,
    seed: int | None = None,
    max_tokens: int | None = None,
    structured: Structured = "auto",
    input_price: float | None = None,
    output_price: float | None = None,
) -> LlmJudge:
    """A judge at Google."""
    settings = Settings("google", model, base_url, temperature, timeout, deadline, concurrency, seed, max_tokens)
    return _made(settings, None, "chat", structured, (input_price, output_price))


def _made(
    settings: Settings,
    reasoning_effort: str | None,
    api: Api,
    structured: Structured,
    prices: tuple[float | None, float | None],
) -> LlmJudge:
    full = replace(
        settings,
        reasoning_effort=reasoning_effort,
        api=api,
        structured=structured,
        input_price=prices[0],
        output_price=prices[1],
    )
    from groundtrace.judges.llm.providers import client_of

    return LlmJudge(full, client_of(full))
