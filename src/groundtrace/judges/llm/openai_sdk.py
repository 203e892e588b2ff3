"""OpenAI's SDK as a judge wants it: what it makes of one request is made once for all that are like it.

It builds, signs and sends the first; of the next ones only the words and the key are new. That, and reading the answer
without what a client of httpx does in between, is a third of what a call costs. Loaded once it is asked: it imports the
SDK.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import openai
from openai import DefaultAioHttpClient

from groundtrace.judges.llm.providers import http_of

_http = http_of(DefaultAioHttpClient)
_url = functools.lru_cache(maxsize=64)(_http.URL)
_CONTENT = "content" if "content" in inspect.signature(openai.AsyncOpenAI.post).parameters else "body"  # in 2.0
_KEY = "idempotency-key"


class Plain(openai.AsyncOpenAI):
    """The SDK with the same headers for every request: to another's address none of the environment's."""

    said: dict[str, Any] | None = None
    begun = ""
    """The key of the first question: by it its request is known among others."""
    given: Any = None
    """What was told of that request, as the SDK keeps it."""
    first: _First | None = None
    """The request itself, as the SDK built it."""

    @property
    def default_headers(self) -> dict[str, Any]:
        """What is said in every request."""
        return super().default_headers if self.said is None else self.said

    def platform_headers(self) -> dict[str, str]:
        """Nothing of this machine."""
        return {}

    async def ask(self, url: str, words: bytes, key: str) -> Any:
        """Send words to an address, once; the answer as it came. Who asks keeps the time, for the whole attempt."""
        if self.given is not None and self.given.url == url:
            given = self.given.model_copy(update={_place(self.given): words, "idempotency_key": key})
            return await self.request(_http.Response, given)
        self.begun = self.begun or key
        once = {"timeout": None, "max_retries": 0, "follow_redirects": False, "idempotency_key": key}
        told: dict[str, Any] = {"options": once, _CONTENT: words}
        return await self.post(url, cast_to=_http.Response, **told)

    async def request(self, cast_to: Any, options: Any, **more: Any) -> Any:
        """As of the SDK, which is told it by all that asks."""
        if self.given is None and self.begun and options.idempotency_key == self.begun:
            self.given = options
        return await super().request(cast_to, options, **more)

    def _build_request(self, options: Any, **more: Any) -> Any:
        words, key, given = getattr(options, _place(options)), options.idempotency_key, self.given
        alike = given is not None and (options.url, options.headers) == (given.url, given.headers)
        if not alike or not isinstance(words, bytes) or not key:
            return super()._build_request(options, **more)
        if self.first is None:
            self.first = _First(super()._build_request(options, **more))
        return self.first.like(key, words)


def _place(options: Any) -> str:
    """Where this SDK keeps what a request says."""
    return "json_data" if getattr(options, "content", None) is None else "content"


class _First:
    """A request the SDK built, and others like it: their headers are put together once, which costs as much as asking.

    An SDK that builds its requests elsewhere builds each of them in full.
    """

    def __init__(self, built: Any) -> None:
        self._built = built
        self._keyed = _KEY in built.headers  # not in all of its releases
        self._encoding = built.headers.encoding

    def like(self, key: str, words: bytes) -> Any:
        """The same with other words, and another key where it has one."""
        built, stream = self._built, _http.ByteStream(words)
        request = type(built)(
            built.method, built.url, headers=built.headers, stream=stream, extensions=built.extensions
        )
        request.headers.encoding = self._encoding  # else it is found out again
        request.headers["content-length"] = str(len(words))
        if self._keyed:
            request.headers[_KEY] = key
        request.read()
        return request


class _Direct(DefaultAioHttpClient):
    """Its client on aiohttp, whose requests are made without merging what is never set.

    Follows no redirect: what is judged goes to the address that was named.
    """

    def build_request(self, method: str, url: Any, **given: Any) -> Any:
        """A request; anything but headers and words goes the long way."""
        if any(given.get(name) for name in ("params", "files", "data", "json", "cookies")):
            return super().build_request(method, url, **given)
        wait = given.get("timeout")
        ends = {"timeout": (wait if isinstance(wait, _http.Timeout) else _http.Timeout(wait)).as_dict()}
        given = {"headers": given["headers"], "content": given.get("content")}
        return _http.Request(method, _url(url), **given, extensions=ends)

    async def send(self, request: Any, *, stream: bool = False, **given: Any) -> Any:
        """One request and its whole answer: without a login on the way there are no steps in between."""
        if stream or given.get("auth") or request.url.userinfo:
            return await super().send(request, stream=stream, **given)
        response: Any = await self._transport_for_url(request.url).handle_async_request(request)
        response.request = request
        try:
            whole = b"".join([some async for some in response.stream])
        except BaseException:
            await response.stream.aclose()
            raise
        response.stream = _http.ByteStream(whole)
        if "content-encoding" in response.headers:
            response.read()  # unpacks it
        else:
            response._content = whole  # noqa: SLF001 - what reading comes to, where nothing is to be unpacked
        return response


def made(key: str, base_url: str | None, timeout: float, concurrency: int) -> Plain:
    """The SDK with a client of its own."""
    limits = _http.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    http = _Direct(limits=limits, follow_redirects=False, timeout=timeout)
    sdk = Plain(api_key=key, base_url=base_url, max_retries=0, timeout=timeout, http_client=http)
    sdk._platform = "Unknown"  # noqa: SLF001 - else the first call starts a thread to find it out for a header
    headers = {name: value for name, value in sdk.default_headers.items() if isinstance(value, str)}
    if base_url is not None:
        headers = {name: headers[name] for name in ("Accept", "Content-Type", "User-Agent")} | sdk.auth_headers
    sdk.said = {**headers, "Accept-Encoding": "gzip, deflate"}
    return sdk
