"""How near a judge that asks over HTTP comes to a schedule that never leaves a place idle.

The law of `hear.py`, with the real SDK and a stand-in provider on loopback: 1,000 cases at concurrency 32, replies that
take lognormal latencies whose 99th percentile is 20 times their median, some cases refused once by the gate. The floor
is a simulated work-conserving schedule of the very same latencies in the order they were drawn; 0.95 of it is asked
for. Then the whole `groundtrace run` process, store and writes included: wall time as a multiple of the floor or of its
CPU time, whichever is longer; 1.2 is asked for on a quiet machine. Every request costs the judge a millisecond or two
of CPU, which is idle time to a schedule of 50 ms: with longer medians it counts less.

    python tests/benchmarks/judge_latencies.py [--medians 0.05 0.2] [--seeds 3]
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from hear import CASES, PLACES, RATIO, work_conserving
from judge_cpu import run

from groundtrace.model import Case, Reply
from groundtrace.plugins import judge
from groundtrace.testing import lognormal, sample_case
from standins.llm import Asked, StandIn, hired

WARM = PLACES
"""Cases asked before anything is measured: the SDK is loaded by then."""


class Draws:
    """Latencies given to questions as they come; the first few cost nothing."""

    def __init__(self, latencies: list[float], free: int) -> None:
        self.drawn: list[float] = []
        self._next = itertools.chain(itertools.repeat(0.0, free), map(self._kept, latencies))

    def _kept(self, latency: float) -> float:
        self.drawn.append(latency)
        return latency

    def act(self, _: Asked) -> dict[str, Any]:
        """What the stand-in does with a question."""
        return {"wait": next(self._next)}


def measured(stand: StandIn, draws: Draws, refused: int) -> tuple[float, float]:
    """Wall and CPU seconds of a hearing, in a process of its own; every `refused`-th case is asked again."""
    stand.script(base={"answer": "{}"}, strict=False)
    stand.decide(draws.act)
    command = [sys.executable, __file__, "--hear", stand.v1, "--refused", str(refused)]
    env = {**os.environ, "OPENAI_API_KEY": "sk-of-the-benchmark"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    wall, cpu = done.stdout.split()
    return float(wall), float(cpu)


def hear(address: str, refused: int) -> None:
    """Ask every case and print what it took."""
    made = judge(f"openai:gpt-4o,base_url={address},concurrency={PLACES},temperature=0")

    def again(case: Case, reply: Reply) -> Case | None:
        assert reply.fault is None, reply.fault
        due = refused and int(case.slot[1:-3]) % refused == 0 and not case.remark
        return sample_case(slot=case.slot, remark="again") if due else None

    list(made.hear((sample_case(slot=f"w{n}>p1") for n in range(WARM)), lambda _, __: None))
    began, spent = time.perf_counter(), time.process_time()
    heard = list(made.hear((sample_case(slot=f"c{n}>p1") for n in range(CASES)), again))
    assert len({case.slot for case, _ in heard}) == CASES
    print(time.perf_counter() - began, time.process_time() - spent)


def main() -> None:
    """Print a line a seed, for hearings and for whole runs."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--medians", type=float, nargs="+", default=[0.05, 0.2])
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--hear", default="", help=argparse.SUPPRESS)
    asked.add_argument("--refused", type=int, default=0, help=argparse.SUPPRESS)
    told = asked.parse_args()
    if told.hear:
        hear(told.hear, told.refused)
        return
    with hired() as stand, tempfile.TemporaryDirectory() as name:
        for median, seed, refused in itertools.product(told.medians, range(told.seeds), (0, 10)):
            draws = Draws(lognormal(median, RATIO, 2 * CASES, seed), WARM)
            wall, cpu = measured(stand, draws, refused)
            floor = work_conserving(draws.drawn, PLACES)
            print(
                f"hearing, median {median} s, seed {seed}, {len(draws.drawn)} questions: floor {floor:.2f} s, "
                f"measured {wall:.2f} s, ratio {floor / wall:.3f} (asked: 0.95), CPU {cpu:.2f} s"
            )
        stand.script()
        run(Path(name), CASES, stand)  # the stand-in has seen them all before anything is measured
        for median, seed in itertools.product(told.medians, range(told.seeds)):
            draws = Draws(lognormal(median, RATIO, 2 * CASES, seed), 0)
            stand.script()
            stand.decide(draws.act)
            took = run(Path(name), CASES, stand)
            floor = work_conserving(draws.drawn, PLACES)
            times = took["wall"] / max(floor, took["cpu"])
            print(
                f"run, median {median} s, seed {seed}, {len(draws.drawn)} questions: floor {floor:.2f} s, "
                f"CPU {took['cpu']:.2f} s, wall {took['wall']:.2f} s: {times:.2f}x (asked: 1.2)"
            )


if __name__ == "__main__":
    main()
