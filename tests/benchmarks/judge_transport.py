"""What one call of a model costs this side, without anything around it: `python tests/benchmarks/judge_transport.py`.

The questions of so many records through `OpenAIClient`, 32 at a time, against a stand-in provider in a process of its
own that answers at once; beside it the same texts over aiohttp alone, which is the floor, and through the SDK's own
`with_raw_response`. CPU time of this process, the least of some rounds; the three take turns, so that a clock that
changes meets them alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
import openai
import orjson

from benchmarks.judge_cpu import records
from groundtrace import record, rubric
from groundtrace.judges.llm.client import Question
from groundtrace.judges.llm.openai_api import OpenAIClient
from standins.llm import standing

AT_ONCE = 32
Call: TypeAlias = "Callable[[Question], Awaitable[object]]"


def questions(count: int) -> list[Question]:
    """Those of records no two of which are equal."""
    rule = rubric("rag_faithfulness")
    with tempfile.TemporaryDirectory() as name:
        lines = records(Path(name) / "records.jsonl", count).read_text().splitlines()
    made = (record(**json.loads(line)) for line in lines)
    cases = [case for one in made for case in rule.cases(one, frozenset())]
    return [Question(case.prefix, case.render("0123456789abcdef"), case.schema, "verdict") for case in cases]


def body(question: Question) -> dict[str, Any]:
    """What the client sends, but for the form of the answer."""
    turns = [{"role": "system", "content": question.prefix}, {"role": "user", "content": question.body}]
    return {"model": "gpt-4o", "messages": turns}


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Call]:
    """The client of a judge."""
    client = OpenAIClient("gpt-4o", url)
    try:
        yield client.ask
    finally:
        await client.close()


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Call]:
    """The floor: the same texts by aiohttp."""
    head = {"Authorization": "Bearer sk-of-the-benchmark", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def call(question: Question) -> object:
            sent = orjson.dumps(body(question))
            async with session.post(f"{url}/chat/completions", data=sent, headers=head) as response:
                return orjson.loads(await response.read())

        yield call


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[Call]:
    """The SDK as anybody uses it who does not want its typed answers."""
    sdk = openai.AsyncOpenAI(base_url=url, max_retries=0, http_client=openai.DefaultAioHttpClient())
    try:

        async def call(question: Question) -> object:
            reply = await sdk.chat.completions.with_raw_response.create(**body(question))
            return orjson.loads(reply.content)

        yield call
    finally:
        await sdk.close()


async def asked(way: Callable[[str], Any], url: str, told: Sequence[Question]) -> float:
    """CPU milliseconds a call."""
    async with way(url) as call:
        left = iter(told)

        async def work() -> None:
            for question in left:
                await call(question)

        begun = time.process_time()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return 1000 * (time.process_time() - begun) / len(told)


def main() -> None:
    """Ask, compare, print."""
    wanted = argparse.ArgumentParser(description=__doc__)
    wanted.add_argument("--calls", type=int, default=1000)
    wanted.add_argument("--rounds", type=int, default=5)
    told = wanted.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "sk-of-the-benchmark")
    cases = questions(told.calls)
    with standing() as stand:
        stand.script()
        taken = [[asyncio.run(asked(way, stand.v1, cases)) for way in (ours, bare, raw)] for _ in range(told.rounds)]
    least = [min(column) for column in zip(*taken, strict=True)]
    print(f"a call: {least[0]:.2f} ms (asked: 1.0), aiohttp alone {least[1]:.2f}, with_raw_response {least[2]:.2f}")


if __name__ == "__main__":
    main()
