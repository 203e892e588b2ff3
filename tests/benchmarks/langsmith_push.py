"""Scores written to LangSmith: `python tests/benchmarks/langsmith_push.py [--scores 2000]`.

CPU of this process a score, against a stand-in in another one, in batches as a run makes them: once written, once
changed, once left as they are; beside it the SDK's own `create_feedback` in the same run, which reads nothing and looks
at nothing afterwards. Then how much of the published rate of writes is used, in virtual time. Asked are 4 ms a score
written, and 90 % of the rate.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
import uuid
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from langsmith import Client

from groundtrace.adapters.langsmith.api import RATES, Api
from groundtrace.adapters.langsmith.sink import LangSmithSink
from groundtrace.adapters.throttle import Throttle
from groundtrace.model import Scorecard
from pushing import START, about
from standins.langsmith import serve

BATCH = 16
LATENCY = 0.15
PROJECT = "ferries"
_RATIONALE = "Both claims follow from the passages that were cited, word for word but for the date. " * 4


def stand(line: Connection) -> None:
    """Be LangSmith until told to end."""
    _, store, url = serve()
    line.send((url, store.session_by_name(PROJECT)["id"]))
    while line.recv() == "slow":
        for method in ("GET", "POST"):
            store.faults.append({"method": method, "path": "/feedback$", "delay": LATENCY, "times": 10**9})


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--scores", type=int, default=2000)
    told = asked.parse_args()
    os.environ["LANGSMITH_API_KEY"] = "lsv2_pt_benchmark"
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=stand, args=(there,), daemon=True)
    server.start()
    url, project = here.recv()
    cards = [_card(n, project) for n in range(told.scores // 2)]
    changed = [card.model_copy(update={"version": "2"}) for card in cards]
    for name, some, wanted in (("written", cards, 4.0), ("changed", changed, 4.0), ("unchanged", changed, None)):
        sink = LangSmithSink(PROJECT, api=_unhurried(url))
        began, wall = time.process_time(), time.perf_counter()
        states = [receipt.state for batch in _batches(some) for receipt in sink.write(batch)]
        spent, lasted = time.process_time() - began, time.perf_counter() - wall
        assert set(states) == {"unchanged" if name == "unchanged" else "written"}, set(states)
        limit = f", asked {wanted:g}" if wanted else ""
        print(f"{name}: {spent / len(states) * 1000:.2f} ms CPU a score{limit}; {len(states) / lasted:.0f} scores/s")
    print(f"the SDK's create_feedback: {_peer(url, project, told.scores // 4) * 1000:.2f} ms CPU a score")
    _rate(url, project, told.scores)
    here.send("slow")
    for concurrency in (8, 16, 32):
        _latency(url, project, told.scores, concurrency)
    here.send("end")
    server.join()


def _rate(url: str, project: str, scores: int) -> None:
    """Let time pass only where somebody waits: what is waited for is the throttle, shrunk to the scores there are."""
    most, seconds = scores // 4, RATES["write"][1] * (scores // 4) / RATES["write"][0]
    waited: list[float] = []
    api = Api(url, clock=lambda: sum(waited), sleep=waited.append)
    api._throttles["write"] = Throttle(most, seconds, clock=lambda: sum(waited), sleep=waited.append)
    sink = LangSmithSink(PROJECT, api=api)
    for batch in _batches([_card(n, project) for n in range(10**6, 10**6 + scores // 2)]):
        list(sink.write(batch))
    used = (scores - most) / sum(waited) / (RATES["write"][0] / RATES["write"][1])
    print(f"{used:.1%} of {RATES['write'][0]} writes a minute used once throttled, asked 90 %")


def _latency(url: str, project: str, scores: int, concurrency: int) -> None:
    """Write cards of five scores to a server that takes its time."""
    sink = LangSmithSink(PROJECT, api=_unhurried(url), concurrency=concurrency)
    began, cards = (
        time.perf_counter(),
        [_card(n, project, 5) for n in range(concurrency * 10**7, concurrency * 10**7 + scores // 5)],
    )
    for batch in _batches(cards):
        list(sink.write(batch))
    rate, published = scores / (time.perf_counter() - began), RATES["write"][0] / RATES["write"][1]
    print(f"{LATENCY * 1000:g} ms an answer, {concurrency} at once: {rate:.0f} scores/s, published are {published:.0f}")


def _peer(url: str, project: str, scores: int) -> float:
    client = Client(api_url=url, auto_batch_tracing=False, tracing_sampling_rate=1.0, info={"version": ""})
    began = time.process_time()
    for n in range(scores):
        run = uuid.UUID(int=n)
        client.create_feedback(
            run,
            "peer.source_support",
            score=4.0,
            value="Strongly Implies",
            comment=_RATIONALE,
            trace_id=run,
            session_id=project,
            start_time=START,
            feedback_id=uuid.uuid5(run, "peer"),
            extend_trace_retention=False,
            source_info={"rubric": "source_support", "version": "1"},
        )
    return (time.process_time() - began) / scores


def _card(n: int, project: str, count: int = 2) -> Scorecard:
    card = about(n + 1, project=project)
    names = ("source_support", *(f"source_support.{at}" for at in range(1, count)))
    scores = tuple(card.scores[0].model_copy(update={"rationale": _RATIONALE, "name": name}) for name in names)
    return card.model_copy(update={"scores": scores})


def _batches(cards: Iterable[Scorecard]) -> Iterable[Sequence[Scorecard]]:
    left = iter(cards)
    while batch := list(itertools.islice(left, BATCH)):
        yield batch


def _unhurried(url: str) -> Api:
    """A line that is not slowed down: it is not the rate that is measured."""
    moments = itertools.count(0, 3600)
    return Api(url, clock=lambda: float(next(moments)), sleep=lambda _: None)


if __name__ == "__main__":
    main()
