"""Which client speaks to which provider; an extra that is missing is named with the command that installs it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from groundtrace.errors import PlanError

if TYPE_CHECKING:
    from groundtrace.judges.llm.client import Client
    from groundtrace.judges.llm.settings import Settings

_NEEDED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openai": ("openai", "aiohttp"),
        "anthropic": ("pydantic_ai", "anthropic"),
        "google": ("pydantic_ai", "google.genai"),
    }
)

KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openai": ("OPENAI_API_KEY",),
        "anthropic": ("ANTHROPIC_API_KEY",),
        "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    }
)
"""The variables that hold a provider's key, as its own SDK reads them."""


def client_of(settings: Settings) -> Callable[[Settings], Client]:
    """What opens a client for these settings; PlanError where its SDK is not installed."""
    needed(settings.provider, _NEEDED[settings.provider])
    return _openai if settings.provider == "openai" else _pydantic_ai


def needed(provider: str, modules: Iterable[str]) -> None:
    """PlanError where one of these modules is not installed, with the command that installs it."""
    for module in modules:
        if not _is_there(module):
            hint = f"pip install 'groundtrace[{provider}]'"
            raise PlanError("judge", provider, f"needs {module.partition('.')[0]}, which is not installed", hint=hint)


def key_of(provider: str, model: str, names: Sequence[str], *, wanted: bool) -> str:
    """The key in the first of these variables that has one, else ""; PlanError where it is `wanted` and none has."""
    key = next((key for name in names if (key := os.environ.get(name, "").strip())), "")
    if wanted and not key:
        raise PlanError("judge", f"{provider}:{model}", f"needs a key; set {names[0]}")
    return key


def check(settings: Settings) -> None:
    """PlanError where the key is missing that no call can do without; nobody is asked."""
    names = KEYS.get(settings.provider)
    own = settings.base_url is None and not (settings.provider == "openai" and os.environ.get("OPENAI_BASE_URL"))
    if names:
        key_of(settings.provider, settings.model, names, wanted=own)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is not there either
        return False


def _openai(settings: Settings) -> Client:
    from groundtrace.judges.llm.openai_api import OpenAIClient

    return OpenAIClient(
        settings.model,
        base_url=settings.base_url,
        api=settings.api,
        seed=settings.seed,
        reasoning_effort=settings.reasoning_effort,
        timeout=settings.timeout,
        concurrency=settings.concurrency,
    )


def _pydantic_ai(settings: Settings) -> Client:
    from groundtrace.judges.llm.pydantic_api import PydanticAIClient

    return PydanticAIClient(
        settings.provider,
        settings.model,
        base_url=settings.base_url,
        seed=settings.seed,
        reasoning_effort=settings.reasoning_effort,
        timeout=settings.timeout,
        concurrency=settings.concurrency,
    )


def http_of(client: type) -> Any:
    """The package an SDK's client stands on: httpx, or httpx2 since OpenAI's 3."""
    name = next(kind.__module__.partition(".")[0] for kind in client.__mro__ if kind.__name__ == "AsyncClient")
    return importlib.import_module(name)
