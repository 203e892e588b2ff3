"""How near a judge's pool comes to a schedule that never leaves a place idle.

1,000 cases at concurrency 32 with lognormal latencies whose 99th percentile is 20 times their median, some of them
refused once by the gate; the floor is a simulated work-conserving schedule of the very same latencies in the order
they were drawn. Prints the ratio floor / measured for a few seeds; 1.0 is perfect, 0.95 is asked for.

    python tests/benchmarks/hear.py
"""

from __future__ import annotations

import heapq
import threading
import time

from groundtrace.judges import pool
from groundtrace.model import Case, Reply
from groundtrace.testing import lognormal, sample_case

CASES, PLACES, MEDIAN, RATIO = 1_000, 32, 0.05, 20


def work_conserving(latencies: list[float], places: int) -> float:
    """The makespan when each latency in turn takes the place that is free first."""
    free = [0.0] * places
    for latency in latencies:
        heapq.heappush(free, heapq.heappop(free) + latency)
    return max(free)


def measured(latencies: list[float], refused: int) -> tuple[float, list[float]]:
    """Seconds a real `hear` took, and the latencies in the order they were drawn; every `refused`-th is asked again."""
    lock, drawn = threading.Lock(), list[float]()

    def ask(case: Case) -> Reply:
        with lock:
            latency = latencies[len(drawn)]
            drawn.append(latency)
        time.sleep(latency)
        return Reply("{}", "slow")

    def again(case: Case, reply: Reply) -> Case | None:
        due = refused and int(case.slot[1:-3]) % refused == 0 and not case.remark
        return sample_case(slot=case.slot, remark="again") if due else None

    started = time.perf_counter()
    heard = list(pool.hear((sample_case(slot=f"c{n}>p1") for n in range(CASES)), again, ask, PLACES))
    assert len({case.slot for case, _ in heard}) == CASES
    return time.perf_counter() - started, drawn


def main() -> None:
    """Print a line a seed."""
    print(f"{CASES} cases, {PLACES} places, median {MEDIAN} s, p99 = {RATIO} x median")
    for seed in range(5):
        for refused in (0, 10):
            took, drawn = measured(lognormal(MEDIAN, RATIO, 2 * CASES, seed), refused)
            floor = work_conserving(drawn, PLACES)
            asked = f"{len(drawn)} questions"
            print(f"seed {seed}, {asked}: floor {floor:.2f} s, measured {took:.2f} s, ratio {floor / took:.3f}")


if __name__ == "__main__":
    main()
