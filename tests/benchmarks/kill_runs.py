"""Runs killed at random points: `python tests/benchmarks/kill_runs.py [--points 200] [--seed 1]`.

Half of the points fall on single runs on a SQLite store, half on two runs at once on one PostgreSQL store; ten to a
store. Prints a line a store: kills, scores lost and doubled, questions asked again, writes sent again.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import killed
import postgres
from killed import Outcome, Ward
from neighbours import unpack

PER_STORE = 10


def main() -> None:
    """Kill, go on, compare, print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--points", type=int, default=200)
    asked.add_argument("--seed", type=int, default=1)
    told = asked.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it started is ended
    pick = random.Random(told.seed)
    print(
        f"{'store':<14}{'kills':>6}{'cards':>7}{'lost':>6}{'doubled':>9}{'asked again':>13}{'sent again':>12}{'s':>7}"
    )
    with tempfile.TemporaryDirectory() as folder, postgres.running() as server:
        home = Path(folder)
        site, source = unpack("fakeplatform", home), killed.corpus(home / "traces.jsonl")
        found, whole = undisturbed(home, site, source)
        total = 0
        for at in range(-(-told.points // PER_STORE)):
            kind = ("sqlite", "postgresql")[at % 2]
            points = killed.points(pick, min(PER_STORE, told.points - at * PER_STORE), whole)
            place = home / f"store-{at}"
            place.mkdir()
            with killed.platform() as stand:
                where = str(place / "store.db") if kind == "sqlite" else postgres.new_schema(server)
                total += one(kind, Ward(place, site, source, where, stand), points, found)
    print(f"{total} kills in all, seed {told.seed}")


def undisturbed(home: Path, site: Path, source: Path) -> tuple[Outcome, dict[str, int]]:
    """What a run leaves that nobody kills."""
    (home / "undisturbed").mkdir()
    with killed.platform() as stand:
        ward = Ward(home / "undisturbed", site, source, str(home / "undisturbed" / "store.db"), stand)
        ward.end(ward.begin())
        return killed.outcome(ward), stand.told("/came")


def one(kind: str, ward: Ward, points: list[killed.Point], undisturbed: Outcome) -> int:
    """One store's line, and how many runs were killed; what does not hold ends the benchmark."""
    begin = time.perf_counter()
    try:
        reports = [killed.shoot(ward, points)] if kind == "sqlite" else killed.shoot_two(ward, points)
    finally:
        ward.clear()
    found = killed.outcome(ward)
    lost = sum(len(was.keys() - now.keys()) for was, now in _places(undisturbed, found))
    counts = f"{len(ward.killed):>6}{len(found.cards):>7}{lost:>6}{len(found.doubled):>9}"
    again = f"{found.asked_again:>13}{found.written_again:>12}"
    print(f"{kind:<14}{counts}{again}{time.perf_counter() - begin:>7.1f}", flush=True)
    killed.check(ward, undisturbed)
    for report in reports:
        killed.adds_up(report, undisturbed)
    return len(ward.killed)


def _places(was: Outcome, now: Outcome) -> list[tuple[Mapping[str, object], Mapping[str, object]]]:
    return [(was.cards, now.cards), (was.scores, now.scores)]


if __name__ == "__main__":
    main()
