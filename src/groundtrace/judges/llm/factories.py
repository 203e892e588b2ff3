"""The judges a spec can name, with the options each takes; what is around a judge is the same for all.

The order is fixed: a redaction stands next to the model, votes are counted outside of it, and a cache outside of both,
so that what is kept is what was concluded.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from groundtrace.judges.combine import Cached
from groundtrace.judges.llm import LlmJudge
from groundtrace.judges.llm.batch import BatchJudge
from groundtrace.judges.llm.prices import price_of
from groundtrace.judges.llm.providers import client_of, needed
from groundtrace.judges.llm.settings import Api, Settings, Structured
from groundtrace.judges.llm.taken import Taken
from groundtrace.judges.redaction import Redact, Redacting
from groundtrace.judges.voting import Voting

if TYPE_CHECKING:
    from groundtrace.judges.llm.batch_desk import Desk
    from groundtrace.ports import Judge

__all__ = ["anthropic", "anthropic_batch", "google", "openai", "openai_batch"]


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
    votes: int = 1,
    redact: Redact | None = None,
    cache: str | None = None,
    trace_judge: bool = False,
) -> Judge:
    """A judge behind anything that speaks OpenAI's API: OpenAI, Azure, vLLM, Ollama, proxies."""
    asked = (model, base_url, temperature, timeout, deadline, concurrency, seed, max_tokens, reasoning_effort)
    settings = Settings("openai", *asked, api, structured, input_price, output_price)
    return _live(settings, _Around(votes, redact, cache, trace_judge))


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
    votes: int = 1,
    redact: Redact | None = None,
    cache: str | None = None,
    trace_judge: bool = False,
) -> Judge:
    """A judge at Anthropic; the rubric's part of a prompt is kept in its cache."""
    asked = (model, base_url, temperature, timeout, deadline, concurrency, None, max_tokens, reasoning_effort)
    settings = Settings("anthropic", *asked, "chat", structured, input_price, output_price)
    return _live(settings, _Around(votes, redact, cache, trace_judge))


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
    votes: int = 1,
    redact: Redact | None = None,
    cache: str | None = None,
    trace_judge: bool = False,
) -> Judge:
    """A judge at Google."""
    asked = (model, base_url, temperature, timeout, deadline, concurrency, seed, max_tokens, None)
    settings = Settings("google", *asked, "chat", structured, input_price, output_price)
    return _live(settings, _Around(votes, redact, cache, trace_judge))


def openai_batch(
    model: str,
    *,
    base_url: str | None = None,
    temperature: float | None = 0.0,
    seed: int | None = None,
    max_tokens: int | None = None,
    reasoning_effort: str | None = None,
    structured: Structured = "auto",
    input_price: float | None = None,
    output_price: float | None = None,
    most: int = 5_000,
    interval: float = 30,
    ledger: str | None = None,
    votes: int = 1,
    redact: Redact | None = None,
    cache: str | None = None,
) -> Judge:
    """A judge asked by OpenAI's Batch API: within a day, at half the price."""
    settings = Settings(
        "openai",
        model,
        base_url,
        temperature,
        seed=seed,
        max_tokens=max_tokens,
        reasoning_effort=reasoning_effort,
        structured=structured,
        input_price=input_price,
        output_price=output_price,
    )
    needed("openai", ("openai",))
    from groundtrace.judges.llm import openai_shapes as shapes
    from groundtrace.judges.llm.openai_batch import OpenAIDesk

    options = shapes.given(seed, reasoning_effort, responses=False)
    desk = lambda: OpenAIDesk(model, base_url, options=options)  # noqa: E731 - a desk for each hearing
    return _batch(settings, desk, _Batches(most, interval, ledger), _Around(votes, redact, cache))


def anthropic_batch(
    model: str,
    *,
    base_url: str | None = None,
    temperature: float | None = 0.0,
    max_tokens: int = 8192,
    structured: Structured = "auto",
    input_price: float | None = None,
    output_price: float | None = None,
    most: int = 2_000,
    interval: float = 30,
    ledger: str | None = None,
    votes: int = 1,
    redact: Redact | None = None,
    cache: str | None = None,
) -> Judge:
    """A judge asked by Anthropic's Message Batches: within a day, at half the price."""
    settings = Settings(
        "anthropic",
        model,
        base_url,
        temperature,
        max_tokens=max_tokens,
        structured=structured,
        input_price=input_price,
        output_price=output_price,
    )
    needed("anthropic", ("anthropic",))
    from groundtrace.judges.llm.anthropic_batch import AnthropicDesk

    desk = lambda: AnthropicDesk(model, base_url, max_tokens=max_tokens)  # noqa: E731 - a desk for each hearing
    return _batch(settings, desk, _Batches(most, interval, ledger), _Around(votes, redact, cache))


# --- putting one together -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around a judge."""

    votes: int
    redact: Redact | None
    cache: str | None
    trace_judge: bool = False

    def dress(self, judge: Judge) -> Judge:
        """The judge with all of it around."""
        if self.trace_judge:
            from groundtrace.judges.llm.traced import Traced

            judge = Traced(judge)
        if self.redact is not None:
            judge = Redacting(judge, self.redact)
        if self.votes != 1:
            judge = Voting(judge, self.votes)
        return Cached(judge, self.cache) if self.cache else judge


@dataclass(frozen=True, slots=True)
class _Batches:
    """How batches are made up and looked at."""

    most: int
    interval: float
    ledger: str | None


def _live(settings: Settings, around: _Around) -> Judge:
    return around.dress(LlmJudge(settings, client_of(settings)))


def _batch(settings: Settings, desk: Callable[[], Desk], batches: _Batches, around: _Around) -> Judge:
    taken = Taken.of(settings)
    judge = BatchJudge(
        settings.id,
        desk,
        question=lambda case: taken.question(case, case.render(secrets.token_hex(8))),
        leaves_out=taken.leaves_out,
        cost=price_of(settings),
        ledger=batches.ledger,
        most=batches.most,
        interval=batches.interval,
        taken=lambda: taken.notes,
        live=lambda: LlmJudge(settings, client_of(settings)).doctor(),
    )
    return around.dress(judge)
