"""Scores written to Braintrust: `python tests/benchmarks/braintrust_push.py [--scores 8000]`.

Scores a second, by the clock and by the CPU of this process alone, against a stand-in in another one, of which is said
how much of the time it was busy. Cards of four scores, 16 at once, as most sinks are given them, and as many as a run
gives this one; once written, once changed, once left as they are. No rate is kept to. Then how many cards a minute the
documented rate of queries lets through, in virtual time. Asked are 2000 scores a second on this side.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from groundtrace.adapters.braintrust.api import QUERIES, Api
from groundtrace.adapters.braintrust.sink import BraintrustSink
from groundtrace.model import Scorecard
from scoring import PROJECT, Stand, Time, about
from standins.braintrust import Standin

SIZES, SCORES = (16, BraintrustSink.batch), 4
ASKED = 2000
_RATIONALE = "Both claims follow from the passages that were cited, word for word but for the date. " * 4


def stand(line: Connection, traces: int) -> None:
    """Be Braintrust until told to end; say how long it was busy when asked."""
    server = Standin()
    made = Stand(server, Time())
    for n in range(traces):
        made.trace(n)
    line.send((server.url, made.project))
    while line.recv() == "busy":
        server.requests.clear()
        line.send(time.process_time())


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--scores", type=int, default=8000)
    told = asked.parse_args()
    count = told.scores // SCORES
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=stand, args=(there, 2 * count), daemon=True)
    server.start()
    url, project = here.recv()
    os.environ |= {"BRAINTRUST_API_KEY": "sk-test", "BRAINTRUST_APP_URL": url}
    for at, size in enumerate(SIZES):
        cards = [card(n, project) for n in range(at * count, (at + 1) * count)]
        changed = [one.model_copy(update={"version": "2"}) for one in cards]
        print(f"{size} cards at once")
        _measure("written", cards, "written", size, here)
        _measure("changed", changed, "written", size, here)
        _measure("unchanged", changed, "unchanged", size, here)
    _rate(project, count)
    here.send("end")
    server.join()


def _measure(name: str, cards: Sequence[Scorecard], state: str, size: int, line: Connection) -> None:
    """Write some cards, and say how long it took, and whom."""
    sink = BraintrustSink(PROJECT, api=Api(queries=10**6))
    busy, began, started = _busy(line), time.process_time(), time.perf_counter()
    states = [receipt.state for batch in batches(cards, size) for receipt in sink.write(batch)]
    spent, lasted = time.process_time() - began, time.perf_counter() - started
    busy = _busy(line) - busy
    assert set(states) == {state}, set(states)
    here, wall = len(states) / spent, len(states) / lasted
    print(f"    {name}: {here:.0f} scores a second of CPU (asked {ASKED}), {wall:.0f} by the clock", end="; ")
    print(f"{spent / len(states) * 1000:.2f} ms CPU a score; the stand-in was busy {busy / lasted:.0%} of the time")


def _busy(line: Connection) -> float:
    line.send("busy")
    return float(line.recv())


def _rate(project: str, count: int) -> None:
    """Let time pass only where somebody waits, by the documented rate of queries."""
    for size in SIZES:
        moment = Time()
        sink = BraintrustSink(PROJECT, api=Api(clock=moment, sleep=moment.sleep), sleep=moment.sleep)
        some = [card(n, project).model_copy(update={"version": f"of {size}"}) for n in range(count)]
        for batch in batches(some, size):
            list(sink.write(batch))
        print(f"{QUERIES} queries a minute, {size} cards at once: {count / moment() * 60:.0f} cards a minute")


def card(n: int, project: str) -> Scorecard:
    """A card of a few scores about the n-th trace, as a rubric makes one."""
    made = about(n, project=project, slices={"prompt_version": "v7", "environment": "prod"})
    names = ("source_support", *(f"source_support.{at}" for at in range(1, SCORES)))
    scores = tuple(made.scores[0].model_copy(update={"rationale": _RATIONALE, "name": name}) for name in names)
    return made.model_copy(update={"scores": scores})


def batches(cards: Iterable[Scorecard], size: int) -> Iterable[Sequence[Scorecard]]:
    """The cards, so many at a time."""
    left = iter(cards)
    while batch := list(itertools.islice(left, size)):
        yield batch


if __name__ == "__main__":
    main()
