"""Batches through the real SDKs: filed, polled, in part expired, failed, cancelled."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from standins.llm import StandIn, standing

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

GPT, CLAUDE = "gpt-5.2", "claude-sonnet-5-5"


@pytest.fixture(scope="module")
def process() -> Iterator[StandIn]:
    """One stand-in for this page."""
    with standing() as made:
        yield made


@pytest.fixture
def gpt(process: StandIn) -> Iterator[Any]:
    """The OpenAI SDK."""
    with openai.OpenAI(api_key="k", base_url=process.v1, max_retries=0) as client:
        yield client


@pytest.fixture
def claude(process: StandIn) -> Iterator[Any]:
    """The Anthropic SDK."""
    with anthropic.Anthropic(api_key="k", base_url=process.url, max_retries=0) as client:
        yield client


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


def test_openai_batch(process: StandIn, gpt: Any) -> None:
    """In progress for two polls, then done; what failed stands in the error file."""
    bad = {"when": {"prompt": "Question 3"}, "do": {"status": 429}}
    process.script(bad, {"do": {"answer": {"score": 5}}}, batch={"polls": 2})
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
    assert process.log()["requests"] == 5


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_openai_batch_in_part(process: StandIn, gpt: Any, end: str) -> None:
    """What was done before the end can be used; the rest is told as not asked."""
    process.script(batch={"polls": 0, "end": end, "done": 0.5})
    batch = filed(gpt, 6)
    batch = gpt.batches.retrieve(batch.id)
    assert batch.status == end
    assert len(rows(gpt, batch.output_file_id)) == 3
    assert {row["error"]["code"] for row in rows(gpt, batch.error_file_id).values()} == {f"batch_{end}"}


def test_openai_batch_fails(process: StandIn, gpt: Any) -> None:
    """By the script, by its own faults, and at the door."""
    process.script(batch={"polls": 0, "end": "failed"})
    failed = gpt.batches.retrieve(filed(gpt, 2).id)
    assert (failed.status, failed.output_file_id) == ("failed", None)
    assert failed.errors.data[0].message
    process.script(batch={"polls": 0})
    assert gpt.batches.retrieve(filed(gpt, 2, ids="same").id).status == "failed"
    process.script(batch={"refuse": 429})
    with pytest.raises(openai.RateLimitError):
        filed(gpt, 2)
    process.script()
    assert gpt.batches.cancel(filed(gpt, 2).id).status == "cancelling"


def begun(claude: Any, count: int) -> Any:
    """A batch of messages."""
    ask = {"model": CLAUDE, "max_tokens": 100}
    requests = [
        {"custom_id": f"case-{at}", "params": ask | {"messages": [{"role": "user", "content": f"Question {at}"}]}}
        for at in range(count)
    ]
    return claude.messages.batches.create(requests=requests)


def test_message_batch(process: StandIn, claude: Any) -> None:
    """In progress, then ended with what succeeded and what did not."""
    bad = {"when": {"prompt": "Question 1"}, "do": {"status": 529}}
    process.script(bad, {"do": {"answer": '{"score": 5}'}}, batch={"polls": 1})
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
def test_message_batch_in_part(process: StandIn, claude: Any, end: str, word: str) -> None:
    """Half of it expires or is cancelled."""
    process.script(batch={"polls": 0, "end": end})
    batch = claude.messages.batches.retrieve(begun(claude, 4).id)
    assert (getattr(batch.request_counts, word), batch.request_counts.succeeded) == (2, 2)
    told = sorted(row.result.type for row in claude.messages.batches.results(batch.id))
    assert told == sorted([word, word, "succeeded", "succeeded"])


def test_message_batch_loses_lines(process: StandIn, claude: Any) -> None:
    """Results that leave requests out, which no contract allows and a client has to notice."""
    process.script(batch={"polls": 0, "lost": 1.0})
    batch = claude.messages.batches.retrieve(begun(claude, 4).id)
    assert list(claude.messages.batches.results(batch.id)) == []
    process.script(batch={"polls": 5})
    assert claude.messages.batches.cancel(begun(claude, 2).id).processing_status == "canceling"
