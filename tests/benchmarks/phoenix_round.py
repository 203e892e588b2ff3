"""What a round over Phoenix costs: traces pulled, scores written, and written again, on a real server.

`python tests/benchmarks/phoenix_round.py [TRACES]`; CPU of this process alone, the server's is its own.
"""

from __future__ import annotations

import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import exported
import servers
from exported import SECOND
from groundtrace.adapters.phoenix.api import Api
from groundtrace.adapters.phoenix.sink import PhoenixSink
from groundtrace.adapters.phoenix.source import PhoenixSource
from groundtrace.evaluate import evaluate
from groundtrace.memory import InMemory
from groundtrace.model import Window
from groundtrace.plugins import load
from groundtrace.read import read


def timed(what: str, count: int, work: Callable[[], Any]) -> Any:
    """Do it, and say what it cost for each."""
    cpu, wall = time.process_time(), time.monotonic()
    made = work()
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    print(f"{what:32} {1000 * cpu / count:7.2f} ms CPU each, {1000 * wall / count:7.2f} ms in all ({count})")
    return made


def main() -> None:
    """Send, pull, score, write twice."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with tempfile.TemporaryDirectory() as folder, servers.running("phoenix", Path(folder)) as server:
        project, now = f"round-{uuid.uuid4().hex[:8]}", time.time_ns()
        with exported.tracer(server.url, project, batched=True) as made:
            for n in range(count):
                exported.answered(made, at=now - (600 + n) * SECOND)
        api = Api(server.url)
        while (at := api.project(project)) is None or sum(map(len, api.pages(f"/projects/{at}/spans"))) < 3 * count:
            time.sleep(0.2)
        source = PhoenixSource(project, base_url=server.url)
        traces = timed("pulled", count, lambda: list(source.traces(Window(), lambda *_: True)))
        conventions = [load("convention", name) for name in ("openinference", "genai")]
        records = [record for trace in traces for record in read(trace, conventions)]
        rubrics = [load("rubric", name) for name in ("source_support", "rag_faithfulness")]
        cards = list(evaluate(records, rubrics, load("judge", "offline"), memory=InMemory()))
        scores = sum(len(card.scores) for card in cards)
        for what in ("cards written", "cards written again"):
            sink = PhoenixSink(project, base_url=server.url)
            told = timed(what, len(cards), lambda sink=sink: list(sink.write(cards)))
            states = sorted({(receipt.state) for receipt in told})
            print(f"{'':32} {len(told)} receipts of {scores} scores: {', '.join(states)}")


if __name__ == "__main__":
    main()
