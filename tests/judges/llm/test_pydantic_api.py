"""Anthropic, Google and the rest against the stand-in with the real SDKs: every mode, stop and error."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import gc
import os
import platform
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.errors import PlanError
from groundtrace.judges.llm.client import Answer, Question, Trouble
from groundtrace.judges.llm.pydantic_api import PydanticAIClient
from standins.ferry import case, stands
from standins.llm import StandIn, standing

for needed in ("pydantic_ai", "anthropic", "google.genai"):
    pytest.importorskip(needed)

# Google's own SDK does what aiohttp discourages.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

KEY = "sk-ant-test-0123456789abcdef"
MODELS = {"anthropic": "claude-sonnet-5-5", "google": "gemini-2.5-flash", "vllm": "qwen3-32b"}
PROVIDERS = tuple(MODELS)
BOTH = PROVIDERS[:2]
_OURS = ("ANTHROPIC_", "GOOGLE_", "GEMINI_", "OPENAI_", "VLLM_")
OPEN = Path("/proc/self/fd")


@pytest.fixture(scope="module")
def process() -> Iterator[StandIn]:
    """A stand-in in a process of its own."""
    with standing() as made:
        yield made


@pytest.fixture
def stand(process: StandIn, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """It, with everything before forgotten, every request kept, and the keys in the environment."""
    for name in [name for name in os.environ if name.startswith(_OURS)]:
        monkeypatch.delenv(name)
    for name in ("ANTHROPIC", "GOOGLE", "VLLM"):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
    process.script(keep=-1)
    return process


def question(more: str = "", **given: Any) -> Question:
    """The question of the ferry."""
    asked = case()
    return Question(asked.prefix, asked.render("5ea1") + more, asked.schema, "verdict", **given)


def with_client(use: Callable[[PydanticAIClient], Awaitable[Any]], provider: str, url: str | None, **given: Any) -> Any:
    """What a client gives, which is closed in the end."""

    async def run() -> Any:
        client = PydanticAIClient(provider, given.pop("model", MODELS[provider]), url, **given)
        try:
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(run())


def base(stand: StandIn, provider: str) -> str:
    """Where the provider is."""
    return stand.v1 if provider == "vllm" else stand.url


def ask(stand: StandIn, provider: str, *questions: Question, **given: Any) -> list[Answer]:
    """The questions, one after the other."""

    async def use(client: PydanticAIClient) -> list[Answer]:
        return [await client.ask(one) for one in questions or (question(),)]

    answers: list[Answer] = with_client(use, provider, base(stand, provider), **given)
    return answers


def trouble(stand: StandIn, provider: str, asked: Question | None = None, **given: Any) -> Trouble:
    """What a question that fails raises."""
    with pytest.raises(Trouble) as raised:
        ask(stand, provider, asked or question(), **given)
    assert KEY not in raised.value.message
    assert "\n" not in raised.value.message
    return raised.value


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("mode", "seen"), [("schema", "schema"), ("json", "json"), ("plain", "text")])
def test_modes(stand: StandIn, provider: str, mode: Any, seen: str) -> None:
    """Each way a provider has; one that has no JSON mode says so before anything is sent."""
    if (provider, mode) == ("anthropic", "json"):
        found = trouble(stand, provider, question(mode="json"))
        assert (found.kind, found.option) == ("unsupported", "mode")
        assert stand.kept() == []
        return
    (answer,) = ask(stand, provider, question(mode=mode, max_tokens=900))
    stands(answer.text)
    assert (answer.stop, answer.model) == ("", MODELS[provider])
    (kept,) = stand.kept()
    assert kept["mode"] == seen


def test_a_tool_where_there_is_no_structured_output(stand: StandIn) -> None:
    """An older model is made to call the one tool it has, whose arguments are the verdict."""
    (answer,) = ask(stand, "anthropic", model="claude-3-haiku-20240307")
    stands(answer.text)
    assert stand.kept()[0]["mode"] == "tool"


def test_anthropic_request(stand: StandIn) -> None:
    """The rubric is the system's block with the cache's breakpoint; nothing is streamed; nothing is set unasked."""
    ask(stand, "anthropic")
    body = stand.kept()[0]["body"]
    (block,) = body["system"]
    assert block["text"] == case().prefix
    assert block["cache_control"]["type"] == "ephemeral"
    assert not body.get("stream")
    assert body["max_tokens"] == 8192
    assert not {"temperature", "top_p", "thinking"} & body.keys()


def test_google_request(stand: StandIn) -> None:
    """The rubric is the system instruction; what is set is sent, and nothing else."""
    ask(stand, "google", question(temperature=0.0, max_tokens=700), seed=7)
    ask(stand, "google")
    first, second = (kept["body"] for kept in stand.kept())
    assert first["systemInstruction"]["parts"] == [{"text": case().prefix}]
    config = first["generationConfig"]
    assert (config["temperature"], config["maxOutputTokens"], config["seed"]) == (0.0, 700, 7)
    assert not {"temperature", "maxOutputTokens", "seed"} & second["generationConfig"].keys()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_prefix_is_the_same(stand: StandIn, provider: str) -> None:
    """Two records share the rubric's part, and the second reads it from the cache."""
    first, second = ask(stand, provider, question("\nOne."), question("\nTwo."))
    assert first.usage is not None
    assert second.usage is not None
    assert (first.usage.cached, second.usage.cached > 1000) == (0, True)
    assert second.usage.cached < second.usage.input
    assert second.usage.output > 0
    one, two = (str(kept["body"]) for kept in stand.kept())
    assert one.replace("One.", "Two.") == two


def test_nothing_of_the_environment_is_sent(stand: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """To an address of the plan goes the key; a server without one gets a placeholder."""
    for name in ("ANTHROPIC_AUTH_TOKEN", "GOOGLE_CLOUD_PROJECT", "OPENAI_ORG_ID", "ANTHROPIC_WEBHOOK_SIGNING_KEY"):
        monkeypatch.setenv(name, "secret-of-ours")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Ours: secret-of-ours")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ours password secret-of-ours\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for provider in PROVIDERS:
        ask(stand, provider)
    for name in ("ANTHROPIC", "GOOGLE", "VLLM"):
        monkeypatch.delenv(f"{name}_API_KEY")
    for provider in PROVIDERS:
        ask(stand, provider)
    kept = [one["headers"] for one in stand.kept()]
    assert "secret-of-ours" not in str(kept)
    assert "Basic " not in str(kept)
    for ours in (platform.python_version(), platform.machine()):
        assert ours.lower() not in str(kept[0]).lower()
    named = ("x-api-key", "x-goog-api-key", "authorization")
    for with_key, without in zip(kept[:3], kept[3:], strict=True):
        assert any(with_key.get(name, "").endswith(KEY) for name in named)
        assert any(without.get(name, "").endswith("no-key") for name in named)


# --- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_stops(stand: StandIn, provider: str) -> None:
    """A refusal, the end of its tokens, a filter: told apart where the provider does, none raised."""
    stand.script({"do": {"finish": "length"}})
    assert ask(stand, provider)[0].stop == "length"
    stand.script({"do": {"refuse": "I will not."}})
    assert ask(stand, provider)[0].stop == ("filter" if provider == "google" else "refusal")
    stand.script({"do": {"finish": "filter"}})
    assert ask(stand, provider)[0].stop == ("refusal" if provider == "anthropic" else "filter")


def test_google_blocks_the_question(stand: StandIn) -> None:
    """A prompt that is blocked has no candidates."""
    stand.script({"do": {"blocked": "PROHIBITED_CONTENT"}})
    (answer,) = ask(stand, "google")
    assert (answer.stop, answer.text) == ("filter", "")


@pytest.mark.parametrize("provider", BOTH)
def test_thoughts_are_no_text(stand: StandIn, provider: str) -> None:
    """Only the answer is."""
    stand.script({"do": {"thoughts": '{"score": 1}'}})
    (answer,) = ask(stand, provider)
    stands(answer.text)


def test_anthropic_rate_limit_headers(stand: StandIn) -> None:
    """They come with the answer of the question that was asked, also with many at once."""

    async def use(client: PydanticAIClient) -> list[Answer]:
        return await asyncio.gather(*(client.ask(question(f"\n{n}")) for n in range(8)))

    answers = with_client(use, "anthropic", stand.url)
    assert all(answer.limits["anthropic-ratelimit-requests-remaining"].isdigit() for answer in answers)
    assert all("ratelimit" in name for answer in answers for name in answer.limits)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_keys_and_models(stand: StandIn, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can never succeed is fatal, and says what to set."""
    stand.script(key="another")
    refused = trouble(stand, provider)
    assert refused.kind == "fatal"
    assert f"set {provider.upper()}_API_KEY" in refused.message
    stand.script(models=["another"])
    unknown = trouble(stand, provider)
    assert unknown.kind == "fatal"
    assert MODELS[provider] in unknown.message
    if provider in BOTH:
        monkeypatch.delenv(f"{provider.upper()}_API_KEY")
        with pytest.raises(PlanError, match=f"{provider.upper()}_API_KEY"):
            PydanticAIClient(provider, "m")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "request"), (403, "fatal"), (413, "request"), (429, "rate"), (500, "server"), (503, "server"),
     (529, "server")],
)  # fmt: skip
def test_errors(stand: StandIn, provider: str, status: int, kind: str) -> None:
    """What each status means, asked once."""
    stand.script({"do": {"status": status, "message": f"No luck with {KEY}."}}, keep=-1)
    found = trouble(stand, provider)
    assert (found.kind, found.option) == (kind, "")
    assert "No luck" in found.message
    assert len(stand.kept()) == 1


@pytest.mark.parametrize("provider", BOTH)
def test_when_to_come_back(stand: StandIn, provider: str) -> None:
    """Anthropic says it in a header, Google in the body."""
    stand.script({"do": {"status": 429, "retry_after": 7}})
    assert trouble(stand, provider).retry_after == 7


@pytest.mark.parametrize(
    ("provider", "status", "message", "kind", "option"),
    [
        ("anthropic", 400, "prompt is too long: 210000 tokens > 200000 maximum", "request", ""),
        ("anthropic", 400, "temperature: Extra inputs are not permitted", "unsupported", "temperature"),
        ("anthropic", 400, "output_config.format: schema is invalid", "unsupported", "mode"),
        ("anthropic", 400, "Your credit balance is too low to access the Anthropic API.", "fatal", ""),
        ("google", 400, "API key not valid. Please pass a valid API key.", "fatal", ""),
        ("google", 400, "The input token count (2000000) exceeds the maximum number of tokens allowed", "request", ""),
        ("google", 400, 'Invalid JSON payload received. Unknown name "seed"', "unsupported", "seed"),
        ("google", 400, "Thinking level is not supported for this model.", "unsupported", "reasoning_effort"),
        ("google", 400, "Invalid value at 'generation_config.response_schema'", "unsupported", "mode"),
        ("google", 429, "You exceeded your current quota, please check your plan and billing details.", "rate", ""),
    ],
)  # fmt: skip
def test_what_providers_say(
    stand: StandIn, provider: str, *, status: int, message: str, kind: str, option: str
) -> None:
    """In their own words."""
    stand.script({"do": {"status": status, "message": message}})
    found = trouble(stand, provider)
    assert (found.kind, found.option) == (kind, option)


def test_our_limit_is_too_much(stand: StandIn) -> None:
    """Where the plan names no limit and ours is refused, the model's own is asked for."""
    message = "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens"
    stand.script({"when": {"nth": 1}, "do": {"status": 400, "message": message}}, keep=-1)
    (answer,) = ask(stand, "anthropic")
    stands(answer.text)
    assert stand.kept()[1]["body"]["max_tokens"] != 8192
    stand.script({"do": {"status": 400, "message": message}})
    assert trouble(stand, "anthropic", question(max_tokens=8192)).option == "max_tokens"


def test_a_temperature_a_model_does_not_take(stand: StandIn) -> None:
    """Said before anything is sent, so that what is recorded is what was asked."""
    found = trouble(stand, "anthropic", question(temperature=0.0), model="claude-opus-4-8")
    assert (found.kind, found.option) == ("unsupported", "temperature")
    assert stand.kept() == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_connections(stand: StandIn, provider: str) -> None:
    """A connection that breaks is no timeout; nor is one nobody takes."""
    for where in ("before", "close", "headers", "body"):
        stand.script({"do": {"reset": where}})
        assert trouble(stand, provider).kind == "connection", where
    with pytest.raises(Trouble) as raised:
        with_client(lambda client: client.ask(question()), provider, "http://127.0.0.1:9")
    assert raised.value.kind == "connection"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_timeouts(stand: StandIn, provider: str) -> None:
    """The time holds for the whole attempt."""
    for how in ({"hang": True}, {"drip": {"bytes": 1, "every": 0.05}}):
        stand.script({"do": how})
        begun = time.monotonic()
        assert trouble(stand, provider, timeout=0.4).kind == "timeout"
        assert time.monotonic() - begun < 2


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("reply", ["<html>busy</html>", "[]", "{}", "", "null"])
def test_what_cannot_be_read(stand: StandIn, provider: str, reply: str) -> None:
    """No JSON, no reply in it: trouble with the server, or an empty answer, never another error."""
    stand.script({"do": {"raw": reply, "status": 200, "headers": {"content-type": "application/json"}}})
    try:
        (answer,) = ask(stand, provider)
    except Trouble as found:
        assert found.kind == "server"  # noqa: PT017 - either is right
    else:
        assert answer.text == ""


# --- what is missing, what is left ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "package", "command"),
    [("anthropic", "anthropic", "groundtrace[anthropic]"), ("google", "pydantic_ai", "groundtrace[google]"),
     ("groq", "groq", "pydantic-ai-slim[groq]")],
)  # fmt: skip
def test_a_missing_extra(
    stand: StandIn, monkeypatch: pytest.MonkeyPatch, provider: str, package: str, command: str
) -> None:
    """One line names the command that installs it."""
    load = builtins.__import__

    def without(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return load(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PlanError) as raised:
        PydanticAIClient(provider, "m", "http://127.0.0.1:9")
    assert f"pip install '{command}'" in str(raised.value)


def test_a_provider_nobody_knows(stand: StandIn) -> None:
    """It is a plan's mistake."""
    with pytest.raises(PlanError, match="nobody"):
        PydanticAIClient("nobody", "m")
    with pytest.raises(PlanError, match="base_url"):
        PydanticAIClient("anthropic", "m", "127.0.0.1")


def sockets() -> int:
    """How many sockets this process has."""
    found = 0
    for opened in OPEN.iterdir():
        with contextlib.suppress(OSError):
            found += str(opened.readlink()).startswith("socket:")
    return found


@pytest.mark.skipif(not OPEN.is_dir(), reason="sockets are counted by /proc")
@pytest.mark.parametrize("provider", PROVIDERS)
def test_nothing_is_left(stand: StandIn, provider: str) -> None:
    """After many questions at once, some cancelled in flight: no task, no thread, no socket."""

    async def run() -> None:
        gc.collect()
        before = sockets()
        client = PydanticAIClient(provider, MODELS[provider], base(stand, provider))
        await asyncio.gather(*(client.ask(question(f"\n{n}")) for n in range(12)))
        assert sockets() > before
        stand.script({"do": {"hang": True}})
        hanging = [asyncio.create_task(client.ask(question())) for _ in range(4)]
        await asyncio.sleep(0.2)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await client.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert sockets() == before

    threads = set(threading.enumerate())
    asyncio.run(run())
    assert set(threading.enumerate()) == threads
