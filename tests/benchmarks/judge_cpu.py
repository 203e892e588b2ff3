"""What a record judged by a model costs this side: `python tests/benchmarks/judge_cpu.py [--records 1000]`.

The whole `groundtrace run jsonl:... --judge openai:...` process at so many records minus the same at 100, store
included, one case a record (`rag_faithfulness`, 2 kB of context), against a stand-in provider on loopback that answers
at once; then wall time with 50 ms answers at concurrency 32 beside the ideal, and the peak of its memory. CPU time is
solid on a busy machine, wall time is not. To see a peer in the same run, install openevals in an environment of its own
and give it: `--openevals PATH/bin/python`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from standins.llm import StandIn, standing

FEW = 100
WORDS = "The night ferry of line {n} leaves pier {n} at 21:40 and takes 95 minutes to the northern island. "
PEER = """
import asyncio, json, sys, time
from openevals.llm import create_async_llm_as_judge
from openai import AsyncOpenAI
lines = [json.loads(line) for line in open(sys.argv[1])][: int(sys.argv[2])]
judge = create_async_llm_as_judge(prompt="{context} {inputs} {outputs}", judge=AsyncOpenAI(
    base_url=sys.argv[3], api_key="sk-of-the-benchmark"), model="gpt-4o", continuous=True)
async def main():
    gate = asyncio.Semaphore(32)
    async def one(row):
        async with gate:
            return await judge(inputs=row["query"], outputs=row["answer"], context="\\n".join(row["context"]))
    await asyncio.gather(*(one(row) for row in lines), return_exceptions=True)
asyncio.run(main())
print(time.process_time())
"""


def records(path: Path, count: int) -> Path:
    """Records no two of which are equal, with 2 kB of context each."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(count):
            told = WORDS.format(n=n)
            row = {"id": f"r{n}", "query": f"When does line {n} leave?", "context": [told * 7] * 3}
            row["answer"] = f"The night ferry of line {n} leaves pier {n} at 21:40 [1]."
            file.write(json.dumps(row) + "\n")
    return path


def run(folder: Path, count: int, stand: StandIn, **more: Any) -> dict[str, float]:
    """One run in a process of its own: CPU seconds, wall seconds, peak memory in MB."""
    records(folder / "records.jsonl", count)
    options = ",".join(f"{name}={value}" for name, value in {"base_url": stand.v1, **more}.items())
    command = [sys.executable, "-m", "groundtrace.cli", "run", "jsonl:records.jsonl", "--rubric", "rag_faithfulness"]
    command += ["--judge", f"openai:gpt-4o,{options}", "--to", "jsonl:cards.jsonl", "--store", "store.db", "--quiet"]
    for name in ("cards.jsonl", "store.db"):
        (folder / name).unlink(missing_ok=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, "OPENAI_API_KEY": "sk-of-the-benchmark"})
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    assert status == 0, f"the run ended with {status}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": cpu, "wall": wall, "peak": usage.ru_maxrss / 1024}


def main() -> None:
    """Run, compare, print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--records", type=int, default=1000)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--openevals", default="")
    told = asked.parse_args()
    with tempfile.TemporaryDirectory() as name, standing() as stand:
        folder = Path(name)
        stand.script()
        for count in (told.records, FEW):
            run(folder, count, stand)  # the stand-in has seen them all before anything is measured
        # One after the other, round by round: the clock of a machine changes within minutes, for all of them alike.
        rounds = [_round(folder, told.records, stand, told.openevals) for _ in range(told.rounds)]
        many, few = (min((one[at] for one in rounds), key=lambda one: one["cpu"]) for at in (0, 1))
        each = 1000 * (many["cpu"] - few["cpu"]) / (told.records - FEW)
        print(f"client CPU a record: {each:.2f} ms (asked: 1.7), {few['cpu']:.2f} s for {FEW} records")
        print(f"peak memory at {told.records} records: {many['peak']:.0f} MB (asked: 150)")
        if told.openevals:
            peer = [min(one[at]["cpu"] for one in rounds) for at in (2, 3)]
            print(f"openevals in the same run: {1000 * (peer[0] - peer[1]) / (told.records - FEW):.2f} ms a record")
        stand.script(base={"wait": 0.05})
        slow = min((run(folder, told.records, stand) for _ in range(told.rounds)), key=lambda one: one["wall"])
        ideal = max(0.05 * told.records / 32, slow["cpu"])
        times = slow["wall"] / ideal
        print(f"with 50 ms answers: wall {slow['wall']:.2f} s, ideal or CPU {ideal:.2f} s: {times:.2f}x (asked: 1.2)")


def _round(folder: Path, count: int, stand: StandIn, openevals: str) -> list[dict[str, float]]:
    """Many records and few of ours, then of the peer if it is asked for."""
    ours = [run(folder, count, stand), run(folder, FEW, stand)]
    if not openevals:
        return ours
    stand.script({"do": {"answer": '{"score": 1.0, "reasoning": "well"}'}})
    records(folder / "records.jsonl", count)
    peer = [{"cpu": _peer(openevals, folder, some, stand)} for some in (count, FEW)]
    stand.script()
    return [*ours, *peer]


def _peer(python: str, folder: Path, count: int, stand: StandIn) -> float:
    done = subprocess.run(
        [python, "-c", PEER, str(folder / "records.jsonl"), str(count), stand.v1],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
