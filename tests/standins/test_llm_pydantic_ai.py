"""pydantic-ai's models, which the judge speaks to Anthropic and Google through, against the stand-in."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import groundtrace
from groundtrace.model import Case
from standins.llm import StandIn

for needed in ("pydantic_ai", "openai", "anthropic", "google.genai"):
    pytest.importorskip(needed)

from pydantic_ai import Agent, ModelHTTPError, NativeOutput, PromptedOutput, ToolOutput  # noqa: E402
from pydantic_ai.models.anthropic import AnthropicModel  # noqa: E402
from pydantic_ai.models.google import GoogleModel  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: E402
from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: E402
from pydantic_ai.providers.google import GoogleProvider  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

Dialect = Literal["chat", "responses", "messages", "gemini"]
DIALECTS: tuple[Dialect, ...] = ("chat", "responses", "messages", "gemini")


class Support(BaseModel):
    """A verdict of source support, with the bounds a provider may not know."""

    score: int = Field(ge=1, le=5)
    support_level: str
    rationale: str
    key_evidence: str | None
    missing_information: str | None
    confidence: float


def model(stand: StandIn, dialect: Dialect) -> Any:
    """A model of pydantic-ai."""
    match dialect:
        case "chat":
            return OpenAIChatModel("gpt-5.2", provider=OpenAIProvider(base_url=stand.v1, api_key="k"))
        case "responses":
            return OpenAIResponsesModel("gpt-5.2", provider=OpenAIProvider(base_url=stand.v1, api_key="k"))
        case "messages":
            return AnthropicModel("claude-sonnet-5-5", provider=AnthropicProvider(api_key="k", base_url=stand.url))
        case "gemini":
            return GoogleModel("gemini-2.5-flash", provider=GoogleProvider(api_key="k", base_url=stand.url))


def case() -> Case:
    """A question of source support."""
    record = groundtrace.record(
        query="When?", context=["The night ferry leaves at 21:40 every day."], answer="The ferry leaves at 21:40 [1]."
    )
    (made,) = groundtrace.rubric("source_support").cases(record, frozenset())
    assert isinstance(made, Case)
    return made


def ask(stand: StandIn, dialect: Dialect, form: Any, **settings: Any) -> Any:
    """The question put to a model, whose connections end with it."""

    async def run() -> Any:
        asked = case()
        agent: Any = Agent(model(stand, dialect), output_type=form, instructions=asked.prefix, retries=0)
        async with agent:
            return await agent.run(asked.render(secrets.token_hex(8)), model_settings=settings or None)

    return asyncio.run(run())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("form", "mode"), [(NativeOutput, "schema"), (ToolOutput, "tool"), (PromptedOutput, "any")])
def test_structured_output(stand: StandIn, dialect: Dialect, form: Any, mode: str) -> None:
    """Each of the ways to ask for a form comes back typed, with what the stand-in's providers accept of a schema."""
    told = {} if dialect == "messages" else {"temperature": 0.0}
    result = ask(stand, dialect, form(Support), **told)
    assert isinstance(result.output, Support)
    assert result.output.key_evidence == "The night ferry leaves at 21:40 every day."
    (kept,) = stand.kept()
    assert kept["dialect"] == dialect
    assert mode in (kept["mode"], "any")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_cached_tokens(stand: StandIn, dialect: Dialect) -> None:
    """The second question reads the rubric from the cache."""
    how = {"anthropic_cache_instructions": True} if dialect == "messages" else {}
    ask(stand, dialect, NativeOutput(Support), **how)
    usage = ask(stand, dialect, NativeOutput(Support), **how).usage
    assert 1024 <= usage.cache_read_tokens < usage.input_tokens
    assert usage.output_tokens > 0


def test_anthropic_streams_unless_told(stand: StandIn) -> None:
    """Without a limit the model asks for all the output there is, which the SDK wants streamed."""
    ask(stand, "messages", NativeOutput(Support))
    ask(stand, "messages", NativeOutput(Support), max_tokens=4000)
    first, second = (kept["body"] for kept in stand.kept())
    assert (first["stream"], second["stream"], second["max_tokens"]) == (True, False, 4000)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [400, 401, 404, 429, 503])
def test_errors(stand: StandIn, dialect: Dialect, status: int) -> None:
    """One class for every provider, with the status."""
    stand.script({"do": {"status": status, "headers": {"x-should-retry": "false"}}})
    with pytest.raises(ModelHTTPError) as raised:
        ask(stand, dialect, str)
    assert raised.value.status_code == status
