"""How much memory a whole run judged by a model takes: `python tests/benchmarks/judge_memory.py [--records N ...]`.

The whole `groundtrace run jsonl:... --judge openai:... --store ...` process against a stand-in provider on loopback, at
so many records in turn (all three of 1,000, 10,000 and 100,000 with `--all`): its memory at each tenth of the way, the
most it held, and how many bytes a record that is beyond the smallest run. 150 MB at 1,000 records are asked for, and as
much at 100,000: it fails where it was more. `--growth N` says instead which lines hold more memory at nine tenths of N
records than half-way; where that is a cache with a bound, it ends somewhere.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from judge_cpu import records

from standins.llm import StandIn, standing

ASKED_MB = 150
ALL = (1_000, 10_000, 100_000)
OPTIONS = ["--rubric", "rag_faithfulness", "--to", "jsonl:cards.jsonl", "--store", "store.db", "--quiet"]


def command(stand: StandIn) -> list[str]:
    """What is run, after the name of the program."""
    return ["run", "jsonl:records.jsonl", "--judge", f"openai:gpt-4o,base_url={stand.v1}", *OPTIONS]


def resident(process: int) -> float:
    """What a process holds now, in MB; 0 once it is gone."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if len(pages) > 1 else 0.0


def looked_at(process: int, cards: Path, count: int) -> Iterator[tuple[int, float]]:
    """How many tenths of the cards were written, and what the process held then, as they come."""
    tenth, lines, read = 0, 0, 0
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if cards.exists():
            with cards.open("rb") as file:
                file.seek(read)
                added = file.read()
            read, lines = read + len(added), lines + added.count(b"\n")
        if lines * 10 // count > tenth:
            tenth = lines * 10 // count
            yield tenth, resident(process)
        time.sleep(0.2)


def peak(folder: Path, count: int, stand: StandIn) -> float:
    """The most memory of one run, in MB."""
    for name in ("cards.jsonl", "store.db"):
        (folder / name).unlink(missing_ok=True)
    records(folder / "records.jsonl", count)
    env, began = {**os.environ, "OPENAI_API_KEY": "sk-of-the-benchmark"}, time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "groundtrace.cli", *command(stand)], cwd=folder, env=env)
    for tenth, held in looked_at(process.pid, folder / "cards.jsonl", count):
        print(f"  {tenth * 10} % of {count:,}: {held:.0f} MB", flush=True)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"the run ended with {status}"
    cards = sum(1 for _ in (folder / "cards.jsonl").open("rb"))
    assert cards == count, f"{cards} cards for {count} records"
    most = usage.ru_maxrss / 1024
    print(f"{count:,} records: at most {most:.0f} MB, in {time.monotonic() - began:,.0f} s")
    return most


def growth(folder: Path, count: int, stand: StandIn) -> None:
    """Print what the package's lines held at the end beyond what they held half-way, in bytes a record."""
    records(folder / "records.jsonl", count)
    child = [sys.executable, __file__, "--child", str(count), "--", *command(stand)]
    subprocess.run(child, cwd=folder, env={**os.environ, "OPENAI_API_KEY": "sk-of-the-benchmark"}, check=True)


def traced(count: int, line: list[str]) -> None:
    """Run the command line in this process, with a look at its memory half-way and at nine tenths."""
    looks: list[tracemalloc.Snapshot] = []

    def look() -> None:
        for part in (0.5, 0.9):
            while not Path("cards.jsonl").exists() or lines("cards.jsonl") < count * part:
                time.sleep(0.2)
            looks.append(tracemalloc.take_snapshot())

    tracemalloc.start()
    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    sys.argv = ["groundtrace", *line]
    try:
        runpy.run_module("groundtrace.cli", run_name="__main__")
    except SystemExit:
        watch.join(30)
    between = count * 0.4
    for stat in looks[1].compare_to(looks[0], "lineno")[:15]:
        frame = stat.traceback[0]
        where = f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}"
        print(f"{stat.size_diff / between:8.0f} bytes a record, {stat.count_diff / between:5.2f} pieces: {where}")


def lines(name: str) -> int:
    """How many lines a file has."""
    with Path(name).open("rb") as file:
        return sum(1 for _ in file)


def main() -> None:
    """Run at each number of records, print, compare."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--records", type=int, nargs="+", default=list(ALL[:2]))
    asked.add_argument("--all", action="store_true")
    asked.add_argument("--growth", type=int, default=0)
    asked.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    asked.add_argument("line", nargs="*", help=argparse.SUPPRESS)
    told, rest = asked.parse_known_args()
    if told.child:
        traced(told.child, [*told.line, *rest])
        return
    with tempfile.TemporaryDirectory() as name, standing() as stand:
        stand.script()
        if told.growth:
            growth(Path(name), told.growth, stand)
            return
        counts = ALL if told.all else told.records
        peaks = [peak(Path(name), count, stand) for count in counts]
    for count, most in zip(counts[1:], peaks[1:], strict=True):
        each = (most - peaks[0]) * 2**20 / (count - counts[0])
        print(f"{count:,} records beside {counts[0]:,}: {most - peaks[0]:+.0f} MB, {each:,.0f} bytes a record")
    assert max(peaks) <= ASKED_MB, f"{max(peaks):.0f} MB, asked: {ASKED_MB}"


if __name__ == "__main__":
    main()
