"""Everything that speaks as OpenAI does, straight on its SDK: OpenAI, Azure, vLLM, Ollama, proxies.

The SDK builds, signs and sends each request and raises its own errors. The body is given to it as bytes and the reply
is taken from it as bytes, since its typed models cost as much again as the whole call.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
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
    import openai

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
        self._content = "content" if "content" in inspect.signature(self._sdk.post).parameters else "body"  # in 2.0
        self._named, self._count = secrets.token_hex(8), itertools.count(1)
        http = http_of(type(self._sdk._client))  # noqa: SLF001 - the kind of reply it gives
        self._raw, wait = http.Response, http.Timeout(timeout)
        # What is given is not made anew by the SDK for each request.
        self._options = {"headers": {}, "params": {}, "max_retries": 0, "timeout": wait, "follow_redirects": False}

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
        sent: dict[str, Any] = {self._content: shapes.dumped(self._body(question))}
        sent["options"] = {**self._options, "idempotency_key": key}
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._sdk.post(self._url, cast_to=self._raw, **sent)
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


def sdk_of(key: str, base_url: str | None, timeout: float, concurrency: int) -> openai.AsyncOpenAI:
    """The SDK on aiohttp, without its headers on this machine."""
    try:
        import openai
    except ImportError:
        hint = "pip install 'groundtrace[openai]'"
        raise PlanError("judge", "openai", "needs a package that is not installed", hint=hint) from None

    class Plain(openai.AsyncOpenAI):
        """The SDK with the same headers for every request: to another's address none of the environment's."""

        said: dict[str, Any] | None = None
        first: Any = None
        """The first request whose words were given as bytes: the next ones are like it, but for their words and key."""

        @property
        def default_headers(self) -> dict[str, Any]:
            return super().default_headers if self.said is None else self.said

        def platform_headers(self) -> dict[str, str]:
            return {}

        def _build_request(self, options: Any, **given: Any) -> Any:
            words, key, first = _words(options), options.idempotency_key, self.first
            if not isinstance(words, bytes) or not key or (first is not None and first.url != options.url):
                return super()._build_request(options, **given)
            if first is None:
                made = super()._build_request(options, **given)
                self.first = _First(options.url, made)
                return made
            return first.like(key, words)

    http = _transport(openai, timeout, concurrency)
    sdk = Plain(api_key=key, base_url=base_url, max_retries=0, timeout=timeout, http_client=http)
    sdk._platform = "Unknown"  # noqa: SLF001 - else the first call starts a thread to find it out for a header
    headers = {name: value for name, value in sdk.default_headers.items() if isinstance(value, str)}
    if base_url is not None:
        headers = {name: headers[name] for name in ("Accept", "Content-Type", "User-Agent")} | sdk.auth_headers
    sdk.said = {**headers, "Accept-Encoding": "gzip, deflate"}
    return sdk


class _First:
    """A request the SDK built, and others like it: their headers are put together once, which costs as much as asking.

    An SDK that builds its requests elsewhere builds each of them in full.
    """

    def __init__(self, url: str, made: Any) -> None:
        self.url, self._made = url, made
        names = [name.lower() for name, _ in made.headers.raw]
        self._keyed = _KEY in names  # not in all of its releases
        self._headers = [
            header
            for name, header in zip(names, made.headers.raw, strict=True)
            if name not in (_KEY, b"content-length")
        ]

    def like(self, key: str, words: bytes) -> Any:
        """The same with other words, and another key where it has one."""
        made, headers = self._made, self._headers
        if self._keyed:
            headers = [*headers, (_KEY, key.encode())]
        return type(made)(made.method, made.url, headers=headers, content=words, extensions=made.extensions)


_KEY = b"idempotency-key"


def _words(options: Any) -> Any:
    """What a request says, wherever this SDK keeps it."""
    given = getattr(options, "content", None)
    return options.json_data if given is None else given


def _transport(openai: Any, timeout: float, concurrency: int) -> Any:
    """The SDK's own client on aiohttp, whose requests are made without merging what is never set."""
    http = http_of(openai.DefaultAioHttpClient)
    read = functools.lru_cache(maxsize=8)(http.URL)

    class Direct(openai.DefaultAioHttpClient):  # type: ignore[misc]
        """Follows no redirect: what is judged goes to the address that was named."""

        def build_request(self, method: str, url: str, **given: Any) -> Any:
            if any(given.get(name) for name in ("params", "files", "data", "json", "cookies")):
                return super().build_request(method, url, **given)
            wait = given.get("timeout")
            ends = {"timeout": (wait if isinstance(wait, http.Timeout) else http.Timeout(wait)).as_dict()}
            given = {"headers": given["headers"], "content": given.get("content")}
            return http.Request(method, read(url), **given, extensions=ends)

        async def send(self, request: Any, *, stream: bool = False, **given: Any) -> Any:
            """One request and its whole answer: without a login on the way there are no steps in between."""
            if stream or given.get("auth") or request.url.userinfo:
                return await super().send(request, stream=stream, **given)
            response = await self._transport_for_url(request.url).handle_async_request(request)
            response.request = request
            try:
                whole = b"".join([some async for some in response.stream])
            except BaseException:
                await response.stream.aclose()
                raise
            response.stream = http.ByteStream(whole)
            response.read()  # unpacks it
            return response

    limits = http.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    return Direct(limits=limits, follow_redirects=False, timeout=timeout)


def http_of(client: type) -> Any:
    """The package an SDK's client stands on: httpx, or httpx2 since OpenAI's 3."""
    name = next(kind.__module__.partition(".")[0] for kind in client.__mro__ if kind.__name__ == "AsyncClient")
    return importlib.import_module(name)


def _address(sdk: openai.AsyncOpenAI, path: str) -> str:
    """The whole address of a call; what stands behind a question mark in the base stays behind it."""
    base, mark, rest = str(sdk.base_url).partition("?")
    return f"{base.rstrip('/')}{path}{mark}{rest.rstrip('/')}"
