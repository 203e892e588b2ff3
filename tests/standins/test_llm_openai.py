"""The OpenAI SDK against the stand-in: typed replies, errors, cached tokens, structured output, batches."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from groundtrace.rubrics.rag_faithfulness import FaithfulnessVerdict
from standins.ferry import case, closed, stands, turns
from standins.llm import StandIn

openai = pytest.importorskip("openai")

GPT = "gpt-5.2"


@pytest.fixture
def gpt(stand: StandIn) -> Iterator[Any]:
    """The OpenAI SDK with its own retries off."""
    with openai.OpenAI(api_key="k", base_url=stand.v1, max_retries=0, timeout=5) as client:
        yield client


def form() -> dict[str, Any]:
    """The rubric's schema as `response_format`."""
    held = {"name": "verdict", "strict": True, "schema": closed(dict(case().schema))}
    return {"type": "json_schema", "json_schema": held}


def test_chat_completions(gpt: Any, stand: StandIn) -> None:
    """Structured, the second time with the prefix from the cache."""
    first, second = (
        gpt.chat.completions.with_raw_response.create(
            model=GPT, messages=turns(), response_format=form(), temperature=0, seed=7, max_completion_tokens=2000
        )
        for _ in range(2)
    )
    reply = second.parse()
    stands(reply.choices[0].message.content)
    assert (reply.model, reply.choices[0].finish_reason, reply.choices[0].message.refusal) == (GPT, "stop", None)
    assert second.headers["x-request-id"] == reply._request_id
    assert second.headers["x-ratelimit-remaining-requests"].isdigit()
    cold, warm = first.parse().usage.prompt_tokens_details, reply.usage.prompt_tokens_details
    assert (cold.cached_tokens, cold.cache_write_tokens) == (0, warm.cached_tokens)
    assert 1024 <= warm.cached_tokens < reply.usage.prompt_tokens
    kept = stand.kept()[0]
    assert (kept["mode"], kept["path"]) == ("schema", "/v1/chat/completions")
    assert kept["headers"]["authorization"] == "Bearer k"
    assert kept["body"]["response_format"]["json_schema"]["strict"] is True


def test_openai_refuses_an_open_schema(gpt: Any, stand: StandIn) -> None:
    """As the provider does: the rubric's own JSON Schema has open objects and must be closed before it is sent."""
    held = {"name": "verdict", "strict": True, "schema": dict(case().schema)}
    ask: dict[str, Any] = {"model": GPT, "messages": turns()}
    ask["response_format"] = {"type": "json_schema", "json_schema": held}
    with pytest.raises(openai.BadRequestError, match="additionalProperties"):
        gpt.chat.completions.create(**ask)
    stand.script(strict=False)
    stands(gpt.chat.completions.create(**ask).choices[0].message.content)


def test_chat_parse_and_n(gpt: Any, stand: StandIn) -> None:
    """The SDK's own parsing of a pydantic model; several choices for one prompt."""
    stand.script(strict=False)
    reply = gpt.chat.completions.parse(model=GPT, messages=turns(), response_format=FaithfulnessVerdict, n=3)
    assert len(reply.choices) == 3
    assert isinstance(reply.choices[0].message.parsed, FaithfulnessVerdict)
    stand.script({"do": {"finish": "length"}}, strict=False)
    with pytest.raises(openai.LengthFinishReasonError):
        gpt.chat.completions.parse(model=GPT, messages=turns(), response_format=FaithfulnessVerdict)


def test_chat_endings(gpt: Any, stand: StandIn) -> None:
    """A refusal, a stop for length, a content filter, JSON mode, another model's name."""
    rules = [
        {"when": {"overall": 1}, "do": {"refuse": "No."}},
        {"when": {"overall": 2}, "do": {"finish": "length"}},
        {"when": {"overall": 3}, "do": {"finish": "filter"}},
        {"do": {"as_model": "gpt-5.2-2026-01-01"}},
    ]
    stand.script(*rules)
    told = [
        gpt.chat.completions.create(model=GPT, messages=turns(), response_format={"type": "json_object"})
        for _ in range(4)
    ]
    first, *rest = [reply.choices[0] for reply in told]
    assert (first.message.content, first.message.refusal, first.finish_reason) == (None, "No.", "stop")
    assert [choice.finish_reason for choice in rest] == ["length", "content_filter", "stop"]
    assert rest[1].message.content == ""
    assert told[3].model == "gpt-5.2-2026-01-01"


def test_responses(gpt: Any, stand: StandIn) -> None:
    """The Responses API: structured text, a refusal item, an incomplete status, reasoning."""
    system, user = turns()
    held = {"type": "json_schema", "name": "verdict", "strict": True, "schema": closed(dict(case().schema))}
    ask: dict[str, Any] = {"model": GPT, "instructions": system["content"], "input": user["content"]}
    ask |= {"text": {"format": held}, "reasoning": {"effort": "low"}, "store": False}
    rules = [
        {"when": {"overall": 3}, "do": {"refuse": "No."}},
        {"when": {"overall": 4}, "do": {"finish": "length"}},
        {"do": {"thoughts": "Let me look at each claim in turn."}},
    ]
    stand.script(*rules)
    _, good, refused, short = (gpt.responses.create(**ask) for _ in range(4))
    stands(good.output_text)
    assert good.status == "completed"
    assert [item.type for item in good.output] == ["reasoning", "message"]
    assert good.usage.input_tokens_details.cached_tokens >= 1024
    assert good.usage.output_tokens_details.reasoning_tokens > 0
    assert refused.output[0].content[0].type == "refusal"
    assert refused.output[0].content[0].refusal == "No."
    assert (short.status, short.incomplete_details.reason) == ("incomplete", "max_output_tokens")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, "BadRequestError"), (401, "AuthenticationError"), (403, "PermissionDeniedError"), (404, "NotFoundError"),
        (429, "RateLimitError"), (500, "InternalServerError"), (502, "InternalServerError"),
        (503, "InternalServerError"),
    ],
)  # fmt: skip
def test_openai_errors(gpt: Any, stand: StandIn, status: int, error: str) -> None:
    """Each status as the SDK's own class, with what the server said."""
    stand.script({"do": {"status": status, "message": "in plain words", "retry_after": 2}})
    with pytest.raises(openai.APIStatusError, match="in plain words") as raised:
        gpt.chat.completions.create(model=GPT, messages=turns())
    assert type(raised.value).__name__ == error
    assert raised.value.response.headers["retry-after"] == "2"


def test_openai_hangs_and_resets(gpt: Any, stand: StandIn) -> None:
    """No reply in time, a connection that breaks before, in and after the headers."""
    stand.script({"do": {"hang": True}})
    with pytest.raises(openai.APITimeoutError):
        gpt.with_options(timeout=0.3).chat.completions.create(model=GPT, messages=turns())
    for where in ("before", "close", "headers", "body"):
        stand.script({"do": {"reset": where}})
        with pytest.raises(openai.APIConnectionError):
            gpt.chat.completions.create(model=GPT, messages=turns())
    stand.script({"do": {"drip": {"bytes": 400, "every": 0.01}}})
    stands(gpt.chat.completions.create(model=GPT, messages=turns()).choices[0].message.content)


def test_openai_on_aiohttp(stand: StandIn) -> None:
    """The transport the judge will use, many at once."""

    async def ask() -> list[Any]:
        http = openai.DefaultAioHttpClient()
        async with openai.AsyncOpenAI(api_key="k", base_url=stand.v1, max_retries=0, http_client=http) as client:
            return await asyncio.gather(
                *(client.chat.completions.create(model=GPT, messages=turns()) for _ in range(40))
            )

    stand.script(base={"wait": 0.05})
    for reply in asyncio.run(ask()):
        stands(reply.choices[0].message.content)
    assert stand.log()["most_in_flight"] > 20
    assert stand.log()["in_flight"] == 0


def test_openai_models(gpt: Any, stand: StandIn) -> None:
    """What there is, and what there is not."""
    assert GPT in [model.id for model in gpt.models.list()]
    with pytest.raises(openai.NotFoundError):
        gpt.models.retrieve("gpt-none")
    stand.script(models=["only-this"], key="right")
    with pytest.raises(openai.AuthenticationError):
        gpt.chat.completions.create(model=GPT, messages=turns())
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        gpt.with_options(api_key="right").chat.completions.create(model=GPT, messages=turns())


# --- batches ----------------------------------------------------------------------------------------------------------


def filed(gpt: Any, count: int, *, ids: Any = None) -> Any:
    """A batch of questions, uploaded and begun."""
    lines = [
        {"custom_id": ids or f"case-{at}", "method": "POST", "url": "/v1/chat/completions",
         "body": {"model": GPT, "messages": [{"role": "user", "content": f"Question {at}"}]}}
        for at in range(count)
    ]  # fmt: skip
    content = io.BytesIO("\n".join(map(json.dumps, lines)).encode())
    file = gpt.files.create(file=("ask.jsonl", content), purpose="batch")
    assert (file.filename, file.purpose, file.bytes) == ("ask.jsonl", "batch", len(content.getvalue()))
    return gpt.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"run": "1"}
    )


def rows(gpt: Any, ident: str | None) -> dict[str, Any]:
    """A result file's lines by their own id."""
    assert ident is not None
    read = [json.loads(line) for line in gpt.files.content(ident).text.splitlines()]
    return {row["custom_id"]: row for row in read}


def test_openai_batch(stand: StandIn, gpt: Any) -> None:
    """In progress for two polls, then done; what failed stands in the error file."""
    bad = {"when": {"prompt": "Question 3"}, "do": {"status": 429}}
    stand.script(bad, {"do": {"answer": {"score": 5}}}, batch={"polls": 2})
    batch = filed(gpt, 5)
    assert batch.status == "validating"
    assert [gpt.batches.retrieve(batch.id).status for _ in range(3)] == ["in_progress", "in_progress", "completed"]
    batch = gpt.batches.retrieve(batch.id)
    assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (5, 4, 1)
    good, wrong = rows(gpt, batch.output_file_id), rows(gpt, batch.error_file_id)
    assert good.keys() == {"case-0", "case-1", "case-2", "case-4"}
    assert list(good) != sorted(good)
    said = good["case-0"]["response"]
    assert (said["status_code"], said["body"]["choices"][0]["message"]["content"]) == (200, '{"score": 5}')
    assert wrong["case-3"]["response"]["status_code"] == 429
    assert batch.id in [one.id for one in gpt.batches.list()]
    assert stand.log()["requests"] == 5


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_openai_batch_in_part(stand: StandIn, gpt: Any, end: str) -> None:
    """What was done before the end can be used; the rest is told as not asked."""
    stand.script(batch={"polls": 0, "end": end, "done": 0.5})
    batch = filed(gpt, 6)
    batch = gpt.batches.retrieve(batch.id)
    assert batch.status == end
    assert len(rows(gpt, batch.output_file_id)) == 3
    assert {row["error"]["code"] for row in rows(gpt, batch.error_file_id).values()} == {f"batch_{end}"}


def test_openai_batch_fails(stand: StandIn, gpt: Any) -> None:
    """By the script, by its own faults, and at the door."""
    stand.script(batch={"polls": 0, "end": "failed"})
    failed = gpt.batches.retrieve(filed(gpt, 2).id)
    assert (failed.status, failed.output_file_id) == ("failed", None)
    assert failed.errors.data[0].message
    stand.script(batch={"polls": 0})
    assert gpt.batches.retrieve(filed(gpt, 2, ids="same").id).status == "failed"
    stand.script(batch={"refuse": 429})
    with pytest.raises(openai.RateLimitError):
        filed(gpt, 2)
    stand.script()
    assert gpt.batches.cancel(filed(gpt, 2).id).status == "cancelling"
