"""Storms of refusals in virtual time: `python tests/benchmarks/rate_limits.py [--schedules 10000] [--seed 0]`.

Half of the schedules keep every place busy through one storm and look at the throughput after it; the others are
`storms.wild`. An assertion that fails, or `Deadlock`, names what went wrong; the seed is printed. About four minutes of
CPU for 10,000.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

import storms

T = TypeVar("T")


def each(schedule: Callable[[int], T], seeds: Iterable[int]) -> list[T]:
    """What became of the schedule of each seed."""
    outcomes = []
    for seed in seeds:
        try:
            outcomes.append(schedule(seed))
        except BaseException:
            print(f"{schedule.__name__}, seed {seed}:")
            raise
    return outcomes


def main() -> None:
    """Run them and print what they came to."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--schedules", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=0)
    told = asked.parse_args()
    began, half = time.process_time(), told.schedules // 2
    wild = each(storms.wild, range(told.seed, told.seed + half))
    print(
        f"{half} wild schedules: {sum(o.served for o in wild)} served, {sum(o.failed for o in wild)} failed by "
        f"their deadline, {sum(o.cancelled for o in wild)} cancelled; {sum(o.asked for o in wild)} requests"
    )
    storm = each(storms.recovery, range(told.seed, told.seed + told.schedules - half))
    ratios = sorted(o.ratio for o in storm)
    backs = [o.back for o in storm if o.back is not None]
    print(
        f"{len(storm)} storms, {sum(o.refused for o in storm)} refusals: throughput after over before "
        f"mean {statistics.fmean(ratios):.3f}, median {statistics.median(ratios):.3f}, "
        f"1 % {ratios[len(ratios) // 100]:.3f}, least {ratios[0]:.3f}; back to 90 % for {storms.LOOKED:g} s within "
        f"{storms.WITHIN:g} s in {len(backs) / len(storm):.2%}; after their deadline: {sum(o.late for o in storm)}"
    )
    print(f"{time.process_time() - began:.0f} s CPU")


if __name__ == "__main__":
    main()
