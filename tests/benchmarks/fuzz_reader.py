"""Mutated traces, read: `python tests/benchmarks/fuzz_reader.py [--traces 100000] [--seed 1]`.

Every captured trace of the fixtures is a seed. Nothing may leave the reader, every record's texts must stand in its
trace, and a record must survive JSON. Prints how many were read and what was found.
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

import mutants
from groundtrace.model import Record, dump, load
from groundtrace.read import read
from spans import CONVENTIONS


def main() -> None:
    """Mutate, read, check, print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--traces", type=int, default=100_000)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--shown", type=int, default=5)
    told = asked.parse_args()
    began, kinds, raised, made_up = time.perf_counter(), Counter[str](), Counter[str](), 0
    for number in range(told.traces):
        trace = mutants.mutant(random.Random(f"{told.seed}/{number}"))
        try:
            records = read(trace, CONVENTIONS)
        except Exception:  # noqa: BLE001 - what this looks for
            where = traceback.format_exc().strip().splitlines()
            if where[-1] not in raised and len(raised) < told.shown:
                print(f"{told.seed}/{number}", *where[-6:], sep="\n  ")
            raised[where[-1]] += 1
            continue
        kinds.update(f"{record.kind}, {'whole' if not record.gaps else 'with gaps'}" for record in records)
        assert all(load(Record, dump(record)) == record for record in records)
        if found := mutants.invented(trace, records):
            made_up += 1
            if made_up <= told.shown:
                print(f"{told.seed}/{number} holds what its trace does not: {found[0][:300]!r}")
    spent = time.perf_counter() - began
    print(f"{told.traces:,} mutated traces from {len(mutants.corpus()):,}, seed {told.seed}, {spent:.0f} s")
    print("records: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common()))
    print(f"exceptions that left the reader: {sum(raised.values())}; records with text not in their trace: {made_up}")


if __name__ == "__main__":
    main()
