"""The Google SDK against the stand-in: typed replies, errors, cached tokens, thoughts, structured output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from standins.ferry import case, stands, turns
from standins.llm import StandIn

genai = pytest.importorskip("google.genai")

GEMINI = "gemini-2.5-flash"


@pytest.fixture
def gemini(stand: StandIn) -> Iterator[Any]:
    """The Google SDK; it does not retry unless told."""
    client = genai.Client(api_key="k", http_options={"base_url": stand.url, "timeout": 5000})
    yield client
    client.close()


def generated(client: Any, **config: Any) -> Any:
    """The question put to Gemini."""
    system, user = turns()
    config = {"system_instruction": system["content"], "temperature": 0} | config
    return client.models.generate_content(model=GEMINI, contents=user["content"], config=config)


def test_generate_content(gemini: Any, stand: StandIn) -> None:
    """Structured by JSON Schema, with cached tokens and thoughts apart."""
    stand.script(base={"thoughts": "Claim by claim."}, keep=-1)
    how = {"response_mime_type": "application/json", "response_json_schema": dict(case().schema)}
    _, reply = (generated(gemini, **how) for _ in range(2))
    stands(reply.text)
    assert reply.candidates[0].content.parts[0].thought
    assert reply.candidates[0].finish_reason == "STOP"
    usage = reply.usage_metadata
    assert 1024 <= usage.cached_content_token_count < usage.prompt_token_count
    assert usage.thoughts_token_count > 0
    config = stand.kept()[0]["body"]["generationConfig"]
    assert config.keys() >= {"responseMimeType", "responseJsonSchema", "temperature"}
    assert stand.kept()[0]["headers"]["x-goog-api-key"] == "k"


def test_gemini_endings(gemini: Any, stand: StandIn) -> None:
    """Safety, length, recitation, a blocked prompt."""
    rules = [
        {"when": {"overall": at}, "do": {"finish": how}} for at, how in enumerate(("filter", "length", "recitation"), 1)
    ]
    stand.script(*rules, {"do": {"blocked": "PROHIBITED_CONTENT"}})
    told = [generated(gemini) for _ in range(4)]
    assert [reply.candidates[0].finish_reason.name for reply in told[:3]] == ["SAFETY", "MAX_TOKENS", "RECITATION"]
    assert told[0].text is None
    assert told[3].candidates is None
    assert told[3].prompt_feedback.block_reason.name == "PROHIBITED_CONTENT"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429, 500, 503])
def test_gemini_errors(gemini: Any, stand: StandIn, status: int) -> None:
    """A client's and a server's errors; when to come back stands in the details."""
    stand.script({"do": {"status": status, "retry_after": 7}})
    with pytest.raises(genai.errors.APIError) as raised:
        generated(gemini)
    assert isinstance(raised.value, genai.errors.ClientError if status < 500 else genai.errors.ServerError)
    assert raised.value.code == status
    assert raised.value.details["error"]["details"][0]["retryDelay"] == "7s"
