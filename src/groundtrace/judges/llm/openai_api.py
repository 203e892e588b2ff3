"""Everything that speaks as OpenAI does, straight on its SDK: OpenAI, Azure, vLLM, Ollama, proxies.

The SDK builds, signs and sends each request and raises its own errors. The body is given to it as bytes and the reply
is taken from it as bytes, since its typed models cost as much again as the whole call.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from typing import TYPE_CHECKING, Any, Literal

import orjson

from groundtrace.errors import PlanError
from groundtrace.judges.llm import openai_shapes as shapes
from groundtrace.judges.llm import refusals
from groundtrace.judges.llm.client import Answer, Question, Trouble
from groundtrace.judges.llm.providers import key_of
from groundtrace.judges.llm.schema import Kept

if TYPE_CHECKING:
    from groundtrace.judges.llm.openai_sdk import Plain

_PLACEHOLDER = "no-key"
"""Sent to servers that want none: the SDK wants one."""


class OpenAIClient:
    """Asks one model through OpenAI's SDK, over `/chat/completions` or, with api="responses", `/responses`.

    With a `base_url` nothing of the environment is sent but the key `api_key_env` names, and a placeholder where
    there is none; without one the SDK's own variables (address, organisation, project, headers) count. Not streamed,
    no call before the first question, none of the SDK's own retries; a redirect is not followed. `timeout` is in
    seconds and holds for the whole attempt.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        *,
        api: Literal["chat", "responses"] = "chat",
        seed: int | None = None,
        reasoning_effort: str | None = None,
        timeout: float = 60,
        concurrency: int = 32,
    ) -> None:
        if api == "responses" and seed is not None:
            raise PlanError("seed", seed, "is not taken by the Responses API", hint='leave it out, or set api = "chat"')
        own = base_url is None and not os.environ.get("OPENAI_BASE_URL")
        key = key_of("openai", model, (api_key_env,), wanted=own)
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise PlanError("base_url", base_url, "is no address; it starts with http:// or https://")
        self._door = refusals.Door("openai" if own else "the server", model, api_key_env, key, bool(key))
        self._responses, self._timeout = api == "responses", timeout
        self._given = shapes.given(seed, reasoning_effort, responses=self._responses)
        self._limit = "max_output_tokens" if self._responses else "max_completion_tokens" if own else "max_tokens"
        self._frames = Kept(self._frame)
        self._sdk = sdk_of(key or _PLACEHOLDER, base_url, timeout, concurrency)
        self._url = _address(self._sdk, "/responses" if self._responses else "/chat/completions")
        self._named, self._count = secrets.token_hex(8), itertools.count(1)

    async def ask(self, question: Question) -> Answer:
        """Put one question; raises Trouble."""
        limit = self._limit
        try:
            return await self._asked(question)
        except Trouble as trouble:
            other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}.get(limit)
            if trouble.option != "max_tokens" or other is None or other not in trouble.message:
                raise
            self._limit = other  # one server knows the one word, one the other, and says so
            self._frames.forget()
        return await self._asked(question)

    async def close(self) -> None:
        """Let go of its connections."""
        await self._sdk.close()
        await asyncio.sleep(0)  # the sockets are closed by the loop, once it turns

    async def _asked(self, question: Question) -> Answer:
        key = f"{self._named}-{next(self._count)}"  # else the SDK draws a random one for each
        words = shapes.dumped(self._body(question))
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._sdk.ask(self._url, words, key)
        except Exception as error:  # noqa: BLE001 - an SDK and its transport raise what they like; all of it is Trouble
            return self._stopped(error)
        reply = shapes.loaded(response.content)
        if reply is None:
            raise Trouble("server", self._door.safe(f"{self._door.provider} sent no JSON object"))
        if fault := reply.get("error"):
            raise refusals.refused(self._door, shapes.status(fault), reply, response.headers)
        return (shapes.response if self._responses else shapes.completion)(reply, shapes.limits(response.headers))

    def _body(self, question: Question) -> dict[str, Any]:
        """The request; what is equal for all records is put into words once."""
        frame = self._frames.of(question)
        turns = [{"role": "system", "content": frame["prefix"]}, {"role": "user", "content": question.body}]
        return {"model": self._door.model, ("input" if self._responses else "messages"): turns, **frame["rest"]}

    def _frame(self, question: Question) -> dict[str, Any]:
        """The parts of a request that its record does not change."""
        rest = dict(self._given)
        if question.temperature is not None:
            rest["temperature"] = question.temperature
        if question.max_tokens is not None:
            rest[self._limit] = question.max_tokens
        form = shapes.form(question, responses=self._responses)
        if form is not None:
            rest["text" if self._responses else "response_format"] = orjson.Fragment(orjson.dumps(form))
        return {"prefix": orjson.Fragment(shapes.dumped(question.prefix)), "rest": rest}

    def _stopped(self, error: Exception) -> Answer:
        """What an error means: an answer where a filter stopped the question, else Trouble, which is raised."""
        response = getattr(error, "response", None)
        if response is None:
            raise refusals.broken(self._door, error) from None
        body = shapes.loaded(response.content) or response.text
        words = refusals.filtered(response.status_code, body)
        if words is None:
            raise refusals.refused(self._door, response.status_code, body, response.headers) from None
        return Answer("", "filter", refusal=self._door.safe(words), limits=shapes.limits(response.headers))


# --- the SDK ----------------------------------------------------------------------------------------------------------


def sdk_of(key: str, base_url: str | None, timeout: float, concurrency: int) -> Plain:
    """The SDK on aiohttp, without its headers on this machine."""
    try:
        import openai  # noqa: F401 - the next one needs it
    except ImportError:
        hint = "pip install 'groundtrace[openai]'"
        raise PlanError("judge", "openai", "needs a package that is not installed", hint=hint) from None
    from groundtrace.judges.llm.openai_sdk import made

    return made(key, base_url, timeout, concurrency)


def _address(sdk: Plain, path: str) -> str:
    """The whole address of a call; what stands behind a question mark in the base stays behind it."""
    base, mark, rest = str(sdk.base_url).partition("?")
    return f"{base.rstrip('/')}{path}{mark}{rest.rstrip('/')}"
