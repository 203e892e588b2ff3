"""The OpenAI client against the stand-in with the real SDK: every mode, stop and error, and what is sent."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import platform
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, Literal

import pytest

from groundtrace.errors import PlanError
from groundtrace.judges.llm.client import Answer, Question, Trouble
from groundtrace.judges.llm.openai_api import OpenAIClient
from standins.ferry import case, stands
from standins.llm import StandIn, standing

pytest.importorskip("openai")
pytest.importorskip("aiohttp")

Api = Literal["chat", "responses"]
APIS: tuple[Api, ...] = ("chat", "responses")
KEY = "sk-test-0123456789abcdef"
OPEN = Path("/proc/self/fd")


@pytest.fixture(scope="module")
def process() -> Iterator[StandIn]:
    """A stand-in in a process of its own."""
    with standing() as made:
        yield made


@pytest.fixture
def stand(process: StandIn, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """It, with everything before forgotten, every request kept, and a key in the environment."""
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    process.script(keep=-1)
    return process


def question(body: str | None = None, **given: Any) -> Question:
    """The question of the ferry."""
    asked = case()
    return Question(asked.prefix, asked.render("5ea1") if body is None else body, asked.schema, "verdict", **given)


def with_client(use: Callable[[OpenAIClient], Awaitable[Any]], url: str | None, model: str, **given: Any) -> Any:
    """What a client gives, which is closed in the end."""

    async def run() -> Any:
        client = OpenAIClient(model, url, **given)
        try:
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(run())


def ask(stand: StandIn, *questions: Question, model: str = "gpt-5.2", **given: Any) -> list[Answer]:
    """The questions, one after the other."""

    async def use(client: OpenAIClient) -> list[Answer]:
        return [await client.ask(one) for one in questions or (question(),)]

    answers: list[Answer] = with_client(use, stand.v1, model, **given)
    return answers


def trouble(stand: StandIn, asked: Question | None = None, **given: Any) -> Trouble:
    """What a question that fails raises."""
    with pytest.raises(Trouble) as raised:
        ask(stand, asked or question(), **given)
    assert KEY not in raised.value.message
    assert "\n" not in raised.value.message
    return raised.value


# --- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("mode", "seen"), [("schema", "schema"), ("json", "json"), ("plain", "text")])
def test_modes(stand: StandIn, api: Api, mode: Any, seen: str) -> None:
    """Each way to ask for a form, by both APIs; the strict one is taken by a server that checks it."""
    (answer,) = ask(stand, question(mode=mode, temperature=0.0, max_tokens=900), api=api)
    stands(answer.text)
    assert (answer.stop, answer.model, answer.refusal) == ("", "gpt-5.2", "")
    (kept,) = stand.kept()
    body = kept["body"]
    assert kept["mode"] == seen
    turns = body["messages" if api == "chat" else "input"]
    assert turns == [{"role": "system", "content": case().prefix}, {"role": "user", "content": question().body}]
    assert body["temperature"] == 0.0
    assert body["max_tokens" if api == "chat" else "max_output_tokens"] == 900
    assert "stream" not in body
    assert ("store" in body) == (api == "responses")
    if mode == "schema":
        form = body["response_format"]["json_schema"] if api == "chat" else body["text"]["format"]
        assert (form["name"], form["strict"]) == ("verdict", True)


def test_what_is_not_set_is_not_sent(stand: StandIn) -> None:
    """Temperature, seed and the rest are left out where the plan does not name them."""
    ask(stand)
    ask(stand, seed=7, reasoning_effort="low")
    ask(stand, api="responses", reasoning_effort="low")
    bare, chat, response = (kept["body"] for kept in stand.kept())
    assert bare.keys() == {"model", "messages", "response_format"}
    assert (chat["seed"], chat["reasoning_effort"]) == (7, "low")
    assert response["reasoning"] == {"effort": "low"}
    with pytest.raises(PlanError, match="seed"):
        OpenAIClient("gpt-5.2", stand.v1, api="responses", seed=7)


def test_a_schema_that_cannot_be_strict(stand: StandIn) -> None:
    """It is sent as it is, and not held to."""
    free = Question("Reply in JSON.", "Well?", {"type": "object", "additionalProperties": {"type": "string"}}, "free")
    stand.script({"do": {"answer": "{}"}}, keep=-1)
    ask(stand, free)
    form = stand.kept()[0]["body"]["response_format"]["json_schema"]
    assert (form["strict"], form["schema"]) == (False, dict(free.schema))


@pytest.mark.parametrize("api", APIS)
def test_the_prefix_is_the_same_bytes(stand: StandIn, api: Api) -> None:
    """Two records share all that stands before them, so the second finds it in the provider's cache."""
    bodies: list[bytes] = []
    asked = [f"{question().body}\nOne.", f"{question().body}\nTwo é\ud800."]

    async def use(client: OpenAIClient) -> list[Answer]:
        put = client._sdk.ask  # the one place where the bytes are seen

        async def noted(url: str, words: bytes, key: str) -> Any:
            bodies.append(words)
            return await put(url, words, key)

        client._sdk.ask = noted  # type: ignore[method-assign]
        return [await client.ask(question(body)) for body in asked]

    first, second = with_client(use, stand.v1, "gpt-5.2", api=api)
    cut = bodies[0].index(b"One.")
    assert bodies[0][:cut] == bodies[1][:cut]
    assert len(bodies[0][:cut]) > len(case().prefix)
    assert (first.usage.cached, second.usage.cached > 1000) == (0, True)
    texts = [kept["body"]["messages" if api == "chat" else "input"][1]["content"] for kept in stand.kept()]
    assert texts == [asked[0], asked[1].replace("\ud800", "\ufffd")]


def test_nothing_of_the_environment_is_sent(stand: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """To an address of the plan goes the key and nothing else; a server without a key gets a placeholder."""
    for name in ("ORG_ID", "PROJECT_ID", "ADMIN_KEY", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", "secret-of-ours")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Ours: secret-of-ours\nAuthorization: secret-of-ours")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/secret-of-ours")
    ask(stand)
    monkeypatch.setenv("OTHER_KEY", "other-key")
    ask(stand, api_key_env="OTHER_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    ask(stand)
    first, second, third = (kept["headers"] for kept in stand.kept())
    told = str(first).lower()
    for ours in ("secret-of-ours", platform.python_version(), platform.machine(), platform.system()):
        assert ours.lower() not in told
    assert first["authorization"] == f"Bearer {KEY}"
    assert second["authorization"] == "Bearer other-key"
    assert third["authorization"] == "Bearer no-key"


def test_all_questions_of_a_judge_look_alike(stand: StandIn) -> None:
    """The first is built by the SDK, the others after it; no two are told to be one."""

    async def three(client: OpenAIClient) -> None:
        for _ in range(3):
            await client.ask(question())

    with_client(three, stand.v1, "gpt-5.2")
    heads = [dict(kept["headers"]) for kept in stand.kept()]
    keys = [key for head in heads if (key := head.pop("idempotency-key", None)) is not None]
    assert heads == heads[:1] * 3
    assert len({*keys}) in (0, 3)


def test_who_else_asks_by_the_same_sdk_is_no_example(stand: StandIn) -> None:
    """What another request is told, before or after, is its own: questions are like the first question alone."""

    async def mixed(client: OpenAIClient) -> None:
        sdk: Any = client._sdk
        words = "content" if "content" in inspect.signature(sdk.post).parameters else "body"  # until 2.x
        told: dict[str, Any] = {words: b'{"model": "gpt-5.2", "messages": []}', "cast_to": object}
        for name in ("before", "after"):
            await sdk.post(client._url, options={"headers": {"X-Other": name}, "idempotency_key": name}, **told)
            await client.ask(question())
        await client.ask(question())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of bytes as `body`
        with_client(mixed, stand.v1, "gpt-5.2")
    assert [kept["headers"].get("x-other") for kept in stand.kept()] == ["before", None, "after", None, None]


def test_the_environments_own_address(stand: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a base_url the SDK's variables count, all of them; without any there must be a key."""
    monkeypatch.setenv("OPENAI_BASE_URL", stand.v1)
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    with_client(lambda client: client.ask(question()), None, "gpt-5.2")
    assert stand.kept()[0]["headers"]["openai-organization"] == "org-1"
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(PlanError, match="OPENAI_API_KEY"):
        OpenAIClient("gpt-5.2")
    with pytest.raises(PlanError, match="http"):
        OpenAIClient("gpt-5.2", "127.0.0.1:8000/v1")


def test_an_address_with_a_question_mark(stand: StandIn) -> None:
    """Azure's version stands behind the path."""
    with_client(lambda client: client.ask(question()), f"{stand.v1}/?api-version=1", "gpt-5.2")
    assert stand.kept()[0]["path"] == "/v1/chat/completions"


# --- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", APIS)
def test_stops(stand: StandIn, api: Api) -> None:
    """A refusal, the end of its tokens, a filter: told apart, none raised."""
    stand.script({"do": {"refuse": "I will not."}})
    (refused,) = ask(stand, api=api)
    assert (refused.stop, refused.refusal, refused.text) == ("refusal", "I will not.", "")
    for finish, stop in (("length", "length"), ("filter", "filter")):
        stand.script({"do": {"finish": finish}})
        (answer,) = ask(stand, api=api)
        assert answer.stop == stop
    stand.script({"do": {"thoughts": "Let me see.", "usage": {"input": 9, "output": 4, "cached": 3}}})
    (answer,) = ask(stand, api=api)
    stands(answer.text)
    assert answer.usage is not None
    assert (answer.usage.input, answer.usage.output, answer.usage.cached) == (9, 4, 3)
    stand.script({"do": {"usage": None, "as_model": "gpt-5.2-2026-01-01"}})
    (answer,) = ask(stand, api=api)
    assert (answer.usage, answer.model) == (None, "gpt-5.2-2026-01-01")


def test_rate_limit_headers(stand: StandIn) -> None:
    """They come with the answer, and no other header does."""
    (answer,) = ask(stand)
    assert answer.limits["x-ratelimit-remaining-requests"].isdigit()
    assert all(name.startswith("x-ratelimit-") for name in answer.limits)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("<html>busy</html>", "server"), ("[]", "server"), ("", "server"), ('{"error": {"code": 429}}', "rate"),
        ('{"error": {"code": "rate_limit_exceeded"}}', "rate"), ('{"error": "upstream"}', "server"),
    ],
)  # fmt: skip
def test_an_error_dressed_as_success(stand: StandIn, reply: str, kind: str) -> None:
    """No JSON, no object, an error inside: never an empty answer."""
    stand.script({"do": {"raw": reply, "status": 200}})
    assert trouble(stand).kind == kind


@pytest.mark.parametrize("reply", ["{}", '{"choices": []}', '{"choices": [7]}', '{"choices": [{"message": null}]}'])
def test_a_reply_without_a_message(stand: StandIn, reply: str) -> None:
    """It is an empty one."""
    stand.script({"do": {"raw": reply, "status": 200}})
    assert ask(stand)[0].text == ""
    assert ask(stand, api="responses")[0].text == ""


def test_text_in_parts(stand: StandIn) -> None:
    """Some servers send a message's text in parts."""
    parts = '[{"type": "thinking", "text": "hm"}, {"type": "text", "text": "{"}, {"type": "text", "text": "}"}]'
    stand.script({"do": {"raw": f'{{"choices": [{{"message": {{"content": {parts}}}}}]}}', "status": 200}})
    assert ask(stand)[0].text == "{}"


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_keys_and_models(stand: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """What can never succeed is fatal, and says what to set."""
    stand.script(key="another")
    refused = trouble(stand)
    assert (refused.kind, refused.message) == (
        "fatal", "the server refuses the key (401): set OPENAI_API_KEY to a valid one"
    )  # fmt: skip
    monkeypatch.delenv("OPENAI_API_KEY")
    assert trouble(stand, api_key_env="MY_KEY").message == "the server wants a key (401): set MY_KEY"
    stand.script(models=["gpt-other"])
    unknown = trouble(stand)
    assert unknown.kind == "fatal"
    assert "'gpt-5.2'" in unknown.message
    stand.script({"do": {"status": 403, "message": "Country, region, or territory not supported"}})
    assert trouble(stand).kind == "fatal"
    stand.script({"do": {"status": 307, "raw": "", "headers": {"location": "http://127.0.0.1:9/"}}})
    assert "base_url" in trouble(stand).message


def test_the_key_is_never_told(stand: StandIn) -> None:
    """Not even where the server says it, whole or masked."""
    stand.script({"do": {"status": 500, "message": f"no luck\nwith {KEY} or sk-te*****cdef"}})
    assert trouble(stand).message == "the server says (500): no luck with [key] or [key]"


@pytest.mark.parametrize(
    ("status", "code", "message", "option"),
    [
        (400, None, "Invalid schema for response_format 'verdict': 'not' is not permitted.", "mode"),
        (400, None, "'response_format' of type 'json_schema' is not supported with this model.", "mode"),
        (400, None, "Invalid parameter: 'text.format' of type 'json_schema' is not supported.", "mode"),
        (400, None, "'messages' must contain the word 'json' in some form, to use 'response_format'.", "mode"),
        (422, None, "body.response_format: extra fields not permitted", "mode"),
        (400, "unsupported_value", "Unsupported value: 'temperature' does not support 0 with this model.",
         "temperature"),
        (400, "unsupported_parameter", "Unsupported parameter: 'seed'.", "seed"),
        (400, None, "Unrecognized request argument supplied: reasoning_effort", "reasoning_effort"),
        (400, "unsupported_parameter", "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
         "reasoning_effort"),
        (400, None, "max_tokens is too large: 99999. This model supports at most 4096 completion tokens.",
         "max_tokens"),
    ],
)  # fmt: skip
def test_options_that_are_not_taken(stand: StandIn, status: int, code: Any, message: str, option: str) -> None:
    """Each is told by our own name of it."""
    stand.script({"do": {"status": status, "code": code, "message": message}})
    found = trouble(stand)
    assert (found.kind, found.option) == ("unsupported", option)


def test_a_strict_schema_refused_in_earnest(stand: StandIn) -> None:
    """What the stand-in itself refuses, as the provider does: JSON mode without the word."""
    plain = Question("Judge.", "Well?", {}, "verdict", "json")
    found = trouble(stand, plain)
    assert (found.kind, found.option) == ("unsupported", "mode")


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (400, "context_length_exceeded", "This model's maximum context length is 8192 tokens. Reduce max_tokens.",
         "request"),
        (400, None, "Something else is wrong.", "request"),
        (413, None, "Too big.", "request"),
        (429, "insufficient_quota", "You exceeded your current quota.", "fatal"),
        (429, "rate_limit_exceeded", "Request too large for gpt-4o on tokens per min: Limit 3, Requested 4.",
         "request"),
        (402, None, "Insufficient credits.", "fatal"),
        (408, None, "Late.", "timeout"), (409, None, "Conflict.", "server"),
        (500, None, "Oops.", "server"), (502, None, "Oops.", "server"), (503, None, "Oops.", "server"),
        (529, None, "Overloaded.", "server"),
    ],
)  # fmt: skip
def test_errors(stand: StandIn, status: int, code: Any, message: str, kind: str) -> None:
    """What each status means, with the provider's words."""
    stand.script({"do": {"status": status, "code": code, "message": message}})
    found = trouble(stand)
    assert (found.kind, found.option) == (kind, "")
    assert message.split(".", maxsplit=1)[0] in found.message
    assert len(stand.kept()) <= 1  # the SDK's own retries are off


def test_when_to_come_back(stand: StandIn) -> None:
    """Seconds, a date, milliseconds, a quota's reset."""
    for how, least in (("seconds", 7), ("date", 5), ("ms", 7), ("reset", 7)):
        stand.script({"do": {"status": 429, "retry_after": 7, "retry_as": how}})
        found = trouble(stand)
        assert found.kind == "rate"
        assert found.retry_after is not None
        assert least <= found.retry_after <= 7
    stand.script({"do": {"status": 503, "headers": {"retry-after": formatdate(time.time() + 60, usegmt=True)}}})
    assert 50 < (trouble(stand).retry_after or 0) <= 60
    stand.script({"do": {"status": 429, "headers": {"retry-after": "soon"}}}, limits=False)
    assert trouble(stand).retry_after is None


def test_a_filter_on_the_question(stand: StandIn) -> None:
    """Azure refuses the question with a 400: that is how this record ends, not trouble with the request."""
    words = "The response was filtered due to Azure OpenAI's content management policy."
    stand.script({"do": {"status": 400, "code": "content_filter", "message": words}})
    (answer,) = ask(stand)
    assert (answer.stop, answer.refusal, answer.text) == ("filter", words, "")


def test_connections(stand: StandIn) -> None:
    """A connection that breaks is no timeout, whatever the transport calls it; nor is one nobody takes."""
    for where in ("before", "close", "headers", "body"):
        stand.script({"do": {"reset": where}})
        assert trouble(stand).kind == "connection", where
    with pytest.raises(Trouble) as raised:
        with_client(lambda client: client.ask(question()), "http://127.0.0.1:9/v1", "gpt-5.2")
    assert raised.value.kind == "connection"


@pytest.mark.parametrize("how", [{"hang": True}, {"hang": "body"}, {"drip": {"bytes": 1, "every": 0.05}}])
def test_timeouts(stand: StandIn, how: dict[str, Any]) -> None:
    """The time holds for the whole attempt: a slow drip does not stretch it."""
    stand.script({"do": how})
    begun = time.monotonic()
    assert trouble(stand, timeout=0.4).kind == "timeout"
    assert time.monotonic() - begun < 2


def test_the_servers_word_for_the_limit(stand: StandIn) -> None:
    """One knows `max_tokens`, one `max_completion_tokens`: the other is taken where the server names it."""
    refusal = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    old = {"when": {"has": "max_tokens"}, "do": {"status": 400, "message": refusal, "code": "unsupported_parameter"}}
    stand.script(old, keep=-1)
    answers = ask(stand, question(max_tokens=500), question(max_tokens=500))
    assert [answer.stop for answer in answers] == ["", ""]
    assert [kept["body"].get("max_completion_tokens") for kept in stand.kept()] == [None, 500, 500]


# --- what is left behind ----------------------------------------------------------------------------------------------


def sockets() -> int:
    """How many sockets this process has."""
    found = 0
    for opened in OPEN.iterdir():
        with contextlib.suppress(OSError):
            found += str(opened.readlink()).startswith("socket:")
    return found


@pytest.mark.skipif(not OPEN.is_dir(), reason="sockets are counted by /proc")
def test_nothing_is_left(stand: StandIn) -> None:
    """After many questions at once, some cancelled in flight: no task, no thread, no socket."""

    async def run() -> None:
        gc.collect()
        threads, before = set(threading.enumerate()), sockets()
        client = OpenAIClient("gpt-5.2", stand.v1, concurrency=8)
        await asyncio.gather(*(client.ask(question(f"Number {n}")) for n in range(24)))
        assert sockets() > before
        stand.script({"do": {"hang": True}})
        hanging = [asyncio.create_task(client.ask(question())) for _ in range(4)]
        await asyncio.sleep(0.2)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await client.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert set(threading.enumerate()) == threads
        assert sockets() == before

    asyncio.run(run())
    ends = time.monotonic() + 3
    while stand.log()["in_flight"] and time.monotonic() < ends:
        time.sleep(0.02)
    assert stand.log()["in_flight"] == 0


def test_as_many_at_once_as_allowed(stand: StandIn) -> None:
    """The connections bear what `concurrency` says."""
    stand.script(base={"wait": 0.1})

    async def use(client: OpenAIClient) -> None:
        await asyncio.gather(*(client.ask(question()) for _ in range(40)))

    with_client(use, stand.v1, "gpt-5.2", concurrency=40)
    assert stand.log()["most_in_flight"] == 40
