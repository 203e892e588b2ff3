"""Hostile replies through the gate: `python tests/benchmarks/hostile_replies.py [--replies 100000] [--seed 1]`.

Every reply is a sound one of one of the four rubrics with up to six things wrong with it; where it is refused, another
one follows. Every card is read a second time, from scratch. Prints how many were scored and what was found.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import audited
import hostile


def main() -> None:
    """Spoil, judge, read again, print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--replies", type=int, default=100_000)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--shown", type=int, default=5)
    told = asked.parse_args()
    began, states, raised, silent = time.perf_counter(), Counter[str](), Counter[str](), 0
    replies, number, cut, slowest = 0, 0, 0, 0.0
    while replies < told.replies:
        rubric = list(hostile.RUBRICS)[number % 4]
        picked = random.Random(f"{told.seed}/{rubric}/{number}")
        number += 1
        first, second = hostile.hostile(rubric, picked), hostile.hostile(rubric, picked)
        start = time.perf_counter()
        try:
            card = audited.judged(rubric, first, second)
        except Exception:  # noqa: BLE001 - what this looks for
            where = traceback.format_exc().strip().splitlines()
            if where[-1] not in raised and len(raised) < told.shown:
                print(f"{told.seed}/{rubric}/{number - 1}", *where[-8:], sep="\n  ")
            raised[where[-1]] += 1
            replies += 1
            continue
        slowest = max(slowest, time.perf_counter() - start)
        replies += len(card.attempts)
        states[f"{card.status}{', corrected' if 'figure_corrected' in card.flags else ''}"] += 1
        every = audited.audit(card)
        cut += any(audited.CUT in fault for fault in every)
        if found := [fault for fault in every if audited.CUT not in fault]:
            silent += 1
            if silent <= told.shown:
                print(f"{told.seed}/{rubric}/{number - 1}: {found[:3]} from {card.attempts[-1].text[:1500]!r}")
    spent = time.perf_counter() - began
    print(
        f"{replies:,} hostile replies for {number:,} records, seed {told.seed}, {spent:.0f} s, slowest {slowest:.2f} s"
    )
    print("cards: " + ", ".join(f"{count:,} {state}" for state, count in states.most_common()))
    print(f"exceptions that left the gate: {sum(raised.values())}; silent scores or NaN: {silent}")
    print(f"cards that rest on a quote which cuts a number in two (letter for letter, so by the law): {cut}")


if __name__ == "__main__":
    main()
