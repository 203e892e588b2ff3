"""Anthropic, Google and every other provider pydantic-ai has a model for, through its model layer.

No agent, no run, no tool loop: one request a question. The SDKs' own retries are off, and the connections are this
client's own, so that closing it leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from groundtrace.errors import PlanError
from groundtrace.judges.llm import refusals
from groundtrace.judges.llm.client import Answer, Question, Stop, Trouble
from groundtrace.judges.llm.openai_api import sdk_of
from groundtrace.judges.llm.providers import KEYS, http_of, key_of
from groundtrace.judges.llm.schema import Kept, label, strict
from groundtrace.model import Usage

if TYPE_CHECKING:
    from pydantic_ai.models import Model, ModelRequestParameters

_PLACEHOLDER = "no-key"
_MOST = 8_192
"""Output tokens that are asked for where the plan names none and the provider wants a number."""

_heard: ContextVar[list[Mapping[str, str]]] = ContextVar("heard")
"""The headers of the reply to the question that is asked just now, once it begins."""

_Closing = Callable[[], Awaitable[None]]


class PydanticAIClient:
    """Asks one model of `provider` through pydantic-ai: its structured output, or a forced tool call where it has none.

    With a `base_url` nothing of the environment is sent but the provider's key, and a placeholder where there is
    none. Anthropic is told to keep the rubric's part in its cache. `timeout` is in seconds and holds for the whole
    attempt.
    """

    def __init__(
        self,
        provider: str,
        model: str,
        base_url: str | None = None,
        *,
        seed: int | None = None,
        reasoning_effort: str | None = None,
        timeout: float = 60,
        concurrency: int = 32,
    ) -> None:
        names = KEYS.get(provider, (f"{provider.replace('-', '_').upper()}_API_KEY",))
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise PlanError("base_url", base_url, "is no address; it starts with http:// or https://")
        key = key_of(provider, model, names, wanted=provider in KEYS and base_url is None)
        self._door = refusals.Door(provider, model, names[0], key, bool(key) or base_url is None)
        self._timeout = timeout
        self._most = _MOST if provider == "anthropic" else None
        self._settings = _settings(provider, seed, reasoning_effort, timeout)
        try:
            self._model, self._closing = _opened(self._door, base_url, timeout, concurrency)
        except ImportError as error:
            raise _missing(provider, error) from None
        self._forms = Kept(functools.partial(_form, self._model))

    async def ask(self, question: Question) -> Answer:
        """Put one question; raises Trouble."""
        try:
            return await self._asked(question)
        except Trouble as trouble:
            if trouble.option != "max_tokens" or question.max_tokens is not None or self._most is None:
                raise
            self._most = None  # ours was too much for this model: pydantic-ai knows how much it can do
        return await self._asked(question)

    async def close(self) -> None:
        """Let go of its connections."""
        for close in self._closing:
            await close()
        await asyncio.sleep(0)  # the sockets are closed by the loop, once it turns

    async def _asked(self, question: Question) -> Answer:
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        asked = [ModelRequest(parts=[UserPromptPart(question.body)], instructions=question.prefix)]
        settings = dict(self._settings)
        if question.temperature is not None:
            if _knows(self._model, "anthropic_disallows_sampling_settings"):
                raise Trouble("unsupported", f"{self._door.model} takes no temperature", option="temperature")
            settings["temperature"] = question.temperature
        if most := question.max_tokens or self._most:
            settings["max_tokens"] = most
        form = self._forms.of(question)
        heard: list[Mapping[str, str]] = []
        token = _heard.set(heard)
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._model.request(asked, settings, form)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - SDKs and transports raise what they like; all of it is Trouble
            return self._stopped(question, error, came=bool(heard))
        finally:
            _heard.reset(token)
        return _answer(response, _limits(heard))

    def _stopped(self, question: Question, error: Exception, *, came: bool) -> Answer:
        """What an error means: an answer where a filter stopped the question, else Trouble, which is raised."""
        from pydantic_ai.exceptions import ContentFilterError, ModelHTTPError, UnexpectedModelBehavior, UserError

        door = self._door
        if isinstance(error, ModelHTTPError):
            headers = _headers(error)
            words = refusals.filtered(error.status_code, error.body)
            if words is None:
                raise refusals.refused(door, error.status_code, error.body, headers) from None
            return Answer("", "filter", refusal=door.safe(words), limits=headers)
        if isinstance(error, ContentFilterError):
            return Answer("", "filter", refusal=door.safe(error))
        if isinstance(error, UserError):  # pydantic-ai knows that this model can't do what is asked
            option = "" if question.mode == "plain" else "mode"
            raise Trouble("unsupported" if option else "request", door.safe(error), option=option) from None
        strange = isinstance(error, (AttributeError, KeyError, TypeError))  # what SDKs do with JSON of another shape
        if isinstance(error, UnexpectedModelBehavior) or _unreadable(error) or (came and strange):
            raise Trouble("server", door.safe(f"{door.provider} sent what can't be read: {error}")) from None
        raise refusals.broken(door, error) from None


# --- what is asked ----------------------------------------------------------------------------------------------------


def _settings(provider: str, seed: int | None, effort: str | None, timeout: float) -> dict[str, Any]:
    """What the plan sets for every question, in pydantic-ai's words."""
    made: dict[str, Any] = {"timeout": timeout}
    if seed is not None:
        made["seed"] = seed
    if effort is not None:
        made["thinking"] = False if effort == "none" else effort
    if provider == "anthropic":
        made["anthropic_cache_instructions"] = True
    return made


def _form(model: Model, question: Question) -> ModelRequestParameters:
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    told = [InstructionPart(content=question.prefix)]
    if question.mode == "plain":
        return ModelRequestParameters(instruction_parts=told)
    closed = strict(question.schema)
    schema, name = closed or dict(question.schema), label(question.name)
    shape = OutputObjectDefinition(json_schema=schema, name=name, strict=True if closed else None)
    if question.mode == "json":
        if not _knows(model, "supports_json_object_output"):
            raise Trouble("unsupported", f"{model.model_name} has no JSON mode", option="mode")
        return ModelRequestParameters(
            output_mode="prompted", output_object=shape, prompted_output_template=False, instruction_parts=told
        )
    if _knows(model, "supports_json_schema_output"):
        return ModelRequestParameters(output_mode="native", output_object=shape, instruction_parts=told)
    tool = ToolDefinition(name=name, parameters_json_schema=schema, kind="output")
    return ModelRequestParameters(
        output_mode="tool", output_tools=[tool], allow_text_output=False, instruction_parts=told
    )


def _knows(model: Model, what: str) -> bool:
    """Whether pydantic-ai says so of the model."""
    profile: Any = model.profile
    return bool(profile.get(what) if isinstance(profile, Mapping) else getattr(profile, what, False))


# --- what is answered -------------------------------------------------------------------------------------------------


def _answer(response: Any, limits: Mapping[str, str]) -> Answer:
    from pydantic_ai.messages import TextPart, ToolCallPart

    text = "".join(
        part.content if isinstance(part, TextPart) else part.args_as_json_str()
        for part in response.parts
        if isinstance(part, (TextPart, ToolCallPart))
    )
    details = response.provider_details or {}
    stop: Stop = {"length": "length", "content_filter": "filter"}.get(response.finish_reason, "")  # type: ignore[assignment]
    if details.get("finish_reason") == "refusal" or details.get("refusal"):
        stop = "refusal"
    used = response.usage
    usage = Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens) if used.input_tokens else None
    return Answer(text, stop, usage, response.model_name or "", str(details.get("refusal") or ""), limits)


def _headers(error: Any) -> dict[str, str]:
    """The headers of a refusal, which the SDK below has where pydantic-ai does not pass them on."""
    told = getattr(error, "headers", None) or getattr(getattr(error.__cause__, "response", None), "headers", None)
    return {str(name).lower(): str(value) for name, value in (told or {}).items()}


def _unreadable(error: BaseException | None) -> bool:
    """Whether what came was no JSON, or not of the provider's shape."""
    while error is not None:
        if isinstance(error, ValueError) and not isinstance(error, OSError):
            return True
        error = error.__cause__
    return False


async def _hear(response: Any) -> None:
    """Note a reply's headers, which pydantic-ai does not pass on."""
    heard = _heard.get(None)
    if heard is not None:
        heard.append(response.headers)


def _limits(heard: list[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for headers in heard for name, value in headers.items() if "ratelimit" in name}


# --- the SDKs ---------------------------------------------------------------------------------------------------------


def _missing(provider: str, error: ImportError) -> PlanError:
    """One line with the command; for what is no extra of ours pydantic-ai names its own."""
    named = re.search(r"pydantic-ai-slim\[[\w,-]+\]", str(error))
    package = f"groundtrace[{provider}]" if provider in KEYS else named[0] if named else f"pydantic-ai-slim[{provider}]"
    return PlanError("judge", provider, "needs a package that is not installed", hint=f"pip install '{package}'")


def _opened(
    door: refusals.Door, base_url: str | None, timeout: float, concurrency: int
) -> tuple[Model, list[_Closing]]:
    """The model, and what closes its connections."""
    from pydantic_ai.models import infer_model

    if door.provider == "anthropic":
        made, closing = _anthropic(door, base_url, timeout, concurrency)
    elif door.provider == "google":
        made, closing = _google(door, base_url, timeout, concurrency)
    else:
        made, closing = _other(door, base_url, timeout, concurrency)
    return infer_model(f"{door.provider}:{door.model}", lambda _: made), closing


def _anthropic(
    door: refusals.Door, base_url: str | None, timeout: float, concurrency: int
) -> tuple[Any, list[_Closing]]:
    import anthropic
    from pydantic_ai.providers.anthropic import AnthropicProvider

    class Plain(anthropic.AsyncAnthropic):
        """The SDK without its headers on this machine."""

        def platform_headers(self) -> dict[str, str]:
            return {}

    quick = importlib.util.find_spec("aiohttp") is not None
    http: Any = anthropic.DefaultAioHttpClient if quick else anthropic.DefaultAsyncHttpxClient
    limits = http_of(http).Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    client = http(event_hooks={"response": [_hear]}, follow_redirects=False, timeout=timeout, limits=limits)
    sdk = Plain(api_key=door.key or _PLACEHOLDER, base_url=base_url, max_retries=0, timeout=timeout, http_client=client)
    sdk.auth_token = None
    if base_url is not None:
        sdk._custom_headers = {}  # noqa: SLF001 - what the environment has for Anthropic's own address
    sdk._platform = "Unknown"  # noqa: SLF001 - else the first call starts a thread to find it out for a header
    return AnthropicProvider(anthropic_client=sdk), [sdk.close]


def _google(door: refusals.Door, base_url: str | None, timeout: float, concurrency: int) -> tuple[Any, list[_Closing]]:
    """Google's SDK goes over aiohttp by itself where that is installed and no other client is given."""
    from google import genai
    from google.genai.types import HttpOptions, HttpRetryOptions
    from pydantic_ai.providers.google import GoogleProvider

    options = HttpOptions(
        base_url=base_url, timeout=max(1, int(timeout * 1000)), retry_options=HttpRetryOptions(attempts=1)
    )
    session: Any = None
    if base_url is not None and importlib.util.find_spec("aiohttp") is not None:
        import aiohttp

        # The SDK's own session would send what a .netrc has for the host, and look for it in a thread at every call.
        session = options.aiohttp_client = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency))
    client = genai.Client(vertexai=False, api_key=door.key or _PLACEHOLDER, http_options=options)

    async def close() -> None:
        await client.aio.aclose()
        client.close()
        if session is not None:
            await session.close()

    return GoogleProvider(client=client), [close]


def _other(door: refusals.Door, base_url: str | None, timeout: float, concurrency: int) -> tuple[Any, list[_Closing]]:
    """Any other provider, by the variables its documentation names; one of OpenAI's shape over our own connections.

    Else OpenAI's SDK would send what the environment says of OpenAI's organisation to whoever it is.
    """
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.providers import infer_provider_class

    try:
        kind: Any = infer_provider_class(door.provider)
    except ValueError:
        raise PlanError("judge", door.provider, "is no provider that pydantic-ai knows") from None
    takes = inspect.signature(kind.__init__).parameters
    if base_url is not None and "openai_client" in takes:
        sdk = sdk_of(door.key or _PLACEHOLDER, base_url, timeout, concurrency)
        return kind(openai_client=sdk), [sdk.close]
    if base_url is not None and "base_url" not in takes:
        raise PlanError("base_url", base_url, f"can't be set for {door.provider}")
    given = {"base_url": base_url, "api_key": door.key or _PLACEHOLDER} if base_url is not None else {}
    try:
        made = kind(**{name: value for name, value in given.items() if name in takes})
    except UserError as error:
        raise PlanError("judge", f"{door.provider}:{door.model}", f"can't be reached: {door.safe(error)}") from None

    async def close() -> None:
        async with made:  # what it opened for itself ends with the last who holds it
            pass

    client: Any = getattr(made, "client", None)
    if "openai_client" in takes and f"{type(client).__module__}.{type(client).__name__}" == "openai.AsyncOpenAI":
        sdk = sdk_of(client.api_key, str(client.base_url), timeout, concurrency)
        return kind(openai_client=sdk), [sdk.close, close]
    if hasattr(client, "max_retries"):
        client.max_retries = 0
    return made, [close]
