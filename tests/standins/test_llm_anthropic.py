"""The Anthropic SDK against the stand-in: typed replies, errors, cache breakpoints, structured output, batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from groundtrace.rubrics.rag_faithfulness import FaithfulnessVerdict
from standins.ferry import case, closed, stands, turns
from standins.llm import StandIn

anthropic = pytest.importorskip("anthropic")

CLAUDE = "claude-sonnet-5-5"


@pytest.fixture
def claude(stand: StandIn) -> Iterator[Any]:
    """The Anthropic SDK with its own retries off."""
    with anthropic.Anthropic(api_key="k", base_url=stand.url, max_retries=0, timeout=5) as client:
        yield client


def message(ttl: str | None = None) -> dict[str, Any]:
    """The question as a message, with a breakpoint after the rubric."""
    system, user = turns()
    mark = {"type": "ephemeral"} | ({"ttl": ttl} if ttl else {})
    block = {"type": "text", "text": system["content"], "cache_control": mark}
    return {"model": CLAUDE, "max_tokens": 2000, "system": [block], "messages": [user]}


def test_messages(claude: Any, stand: StandIn) -> None:
    """Structured, with a cache written once and read after that."""
    held = {"type": "json_schema", "schema": closed(dict(case().schema))}
    cold, warm = (claude.messages.create(**message("1h"), output_config={"format": held}) for _ in range(2))
    stands(warm.content[0].text)
    assert (warm.stop_reason, warm.model) == ("end_turn", CLAUDE)
    written, read = cold.usage.cache_creation_input_tokens, warm.usage.cache_read_input_tokens
    assert written == read >= 1024
    assert cold.usage.cache_creation.ephemeral_1h_input_tokens == written
    assert cold.usage.cache_read_input_tokens == warm.usage.cache_creation_input_tokens == 0
    assert 0 < warm.usage.input_tokens < read
    headers = stand.kept()[0]["headers"]
    assert headers["anthropic-version"]
    assert "Bearer k" in headers.get("authorization", "") or headers["x-api-key"] == "k"


def test_messages_by_tool_and_thinking(claude: Any, stand: StandIn) -> None:
    """A verdict as a tool's input; thoughts before the text; the SDK's own parsing."""
    tool = {"name": "verdict", "description": "The verdict.", "input_schema": dict(case().schema)}
    stand.script(base={"thoughts": "Claim by claim."})
    reply = claude.messages.create(**message(), tools=[tool], tool_choice={"type": "tool", "name": "verdict"})
    assert [block.type for block in reply.content] == ["thinking", "tool_use"]
    assert reply.stop_reason == "tool_use"
    stands(json.dumps(reply.content[1].input))
    stand.script(strict=False, keep=-1)
    parsed = claude.messages.parse(**message(), output_format=FaithfulnessVerdict)
    assert isinstance(parsed.parsed_output, FaithfulnessVerdict)
    assert stand.kept()[0]["body"]["output_config"]["format"]["type"] == "json_schema"


def test_messages_endings(claude: Any, stand: StandIn) -> None:
    """A refusal, a stop for length, and nothing at all."""
    rules = [
        {"when": {"overall": 1}, "do": {"refuse": True}},
        {"when": {"overall": 2}, "do": {"finish": "length"}},
        {"do": {"spoil": "empty"}},
    ]
    stand.script(*rules)
    told = [claude.messages.create(**message()) for _ in range(3)]
    assert [reply.stop_reason for reply in told] == ["refusal", "max_tokens", "end_turn"]
    assert told[2].content == []


def test_messages_refuses_what_the_api_refuses(claude: Any, stand: StandIn) -> None:
    """Bounds in a schema, and a temperature since the version that took it out."""
    held = {"type": "json_schema", "schema": {"type": "integer", "minimum": 1}}
    with pytest.raises(anthropic.BadRequestError, match="minimum"):
        claude.messages.create(**message(), output_config={"format": held})
    ask = message() | {"extra_body": {"temperature": 0}}
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        claude.messages.create(**ask, extra_headers={"anthropic-version": "2026-10-21"})
    stands(claude.messages.create(**ask, extra_headers={"anthropic-version": "2023-06-01"}).content[0].text)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "BadRequestError"), (401, "AuthenticationError"), (403, "PermissionDeniedError"), (404, "NotFoundError"),
        (429, "RateLimitError"), (500, "InternalServerError"), (529, "OverloadedError"),
    ],
)  # fmt: skip
def test_anthropic_errors(claude: Any, stand: StandIn, status: int, error: str) -> None:
    """Each status as the SDK's own class."""
    stand.script({"do": {"status": status, "retry_after": 3}})
    with pytest.raises(anthropic.APIStatusError) as raised:
        claude.messages.create(**message())
    assert type(raised.value).__name__ == error
    assert raised.value.response.headers["retry-after"] == "3"
    assert raised.value.request_id


# --- batches ----------------------------------------------------------------------------------------------------------


def begun(claude: Any, count: int) -> Any:
    """A batch of messages."""
    ask = {"model": CLAUDE, "max_tokens": 100}
    requests = [
        {"custom_id": f"case-{at}", "params": ask | {"messages": [{"role": "user", "content": f"Question {at}"}]}}
        for at in range(count)
    ]
    return claude.messages.batches.create(requests=requests)


def test_message_batch(stand: StandIn, claude: Any) -> None:
    """In progress, then ended with what succeeded and what did not."""
    bad = {"when": {"prompt": "Question 1"}, "do": {"status": 529}}
    stand.script(bad, {"do": {"answer": '{"score": 5}'}}, batch={"polls": 1})
    batch = begun(claude, 3)
    assert (batch.processing_status, batch.request_counts.processing) == ("in_progress", 3)
    assert claude.messages.batches.retrieve(batch.id).processing_status == "in_progress"
    assert claude.messages.batches.retrieve(batch.id).processing_status == "ended"
    told = {row.custom_id: row.result for row in claude.messages.batches.results(batch.id)}
    assert {ident: result.type for ident, result in told.items()} == {
        "case-0": "succeeded", "case-1": "errored", "case-2": "succeeded"
    }  # fmt: skip
    assert told["case-0"].message.content[0].text == '{"score": 5}'
    assert told["case-0"].message.usage.service_tier == "batch"
    assert told["case-1"].error.error.type == "overloaded_error"


@pytest.mark.parametrize(("end", "word"), [("expired", "expired"), ("cancelled", "canceled")])
def test_message_batch_in_part(stand: StandIn, claude: Any, end: str, word: str) -> None:
    """Half of it expires or is cancelled."""
    stand.script(batch={"polls": 0, "end": end})
    batch = claude.messages.batches.retrieve(begun(claude, 4).id)
    assert (getattr(batch.request_counts, word), batch.request_counts.succeeded) == (2, 2)
    told = sorted(row.result.type for row in claude.messages.batches.results(batch.id))
    assert told == sorted([word, word, "succeeded", "succeeded"])


def test_message_batch_loses_lines(stand: StandIn, claude: Any) -> None:
    """Results that leave requests out, which no contract allows and a client has to notice."""
    stand.script(batch={"polls": 0, "lost": 1.0})
    batch = claude.messages.batches.retrieve(begun(claude, 4).id)
    assert list(claude.messages.batches.results(batch.id)) == []
    stand.script(batch={"polls": 5})
    assert claude.messages.batches.cancel(begun(claude, 2).id).processing_status == "canceling"
