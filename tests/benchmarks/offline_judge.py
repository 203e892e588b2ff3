"""How the offline judge agrees with people, beside plain token overlap, on the open parts of public labelled sets.

Sets: those whose rubric is built and whose labelled dimension the judge assesses, i.e. source_support and
rag_faithfulness.claim_support; labels of abstention and source conflict are left out, for the judge declares those
unassessed. Which were left out stands below the table.
Everything was fixed before looking: a record is made by hand, goes through the rubric, the judge and the gate, and
the published number is read off its card, `source_support` (the answer's mean over its claims) or
`rag_faithfulness.claim_support`; 4 or more is positive, and so is nothing else: an unscored card is not, and counted.
Citation markers inside the labelled text are taken off, since the sets' passages are not numbered by them. Labels are
`label_mapped.binary`, null left out.

Token overlap is the share of the text's stemmed content words found in its passages, with the one cut that suits it
best on the mean of these very sets, which favours it.

Figures: balanced accuracy in percent with a 95 % interval from 1,000 bootstraps over `cluster`; the mean over sets and
the paired difference of the means. Data: the folder GROUNDTRACE_SHARED/data (`../shared/data` beside the project where
the variable is not set); it is not part of the project.

    python tests/benchmarks/offline_judge.py
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from groundtrace.evaluate import evaluate
from groundtrace.judges.offline import OfflineJudge
from groundtrace.lexical import overlap
from groundtrace.model import Record
from groundtrace.read import record
from groundtrace.rubrics.rag_faithfulness import RagFaithfulness
from groundtrace.rubrics.source_support import SourceSupport

PUBLISHED = {"source_support": "source_support", "rag_faithfulness.claim_support": "rag_faithfulness.claim_support"}
CUT = 4
OVERLAP_CUT = 0.72
DRAWS = 1_000
MARKER = re.compile(r"\s*\[\d{1,3}\]")

Cell = tuple[int, int, int, int]
"""Of one cluster: positives found, positives, negatives found, negatives."""


class Set(NamedTuple):
    """One labelled set: label, judge's verdict, overlap's verdict and cluster of each item; how many went unscored."""

    name: str
    rows: list[tuple[bool, bool, bool, str]]
    unscored: int
    seconds: float


def main() -> int:
    """Print the table; 2 where the data is missing."""
    folder = Path(os.environ.get("GROUNDTRACE_SHARED", Path(__file__).parents[2] / ".." / "shared")) / "data"
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        print(f"no labelled sets in {folder}; set GROUNDTRACE_SHARED to the folder that holds data/*.jsonl")
        return 2
    sets = [measured for path in files if (measured := measure(path)) is not None]
    report(sets)
    measured_names = {measured.name for measured in sets}
    print("left out:", ", ".join(path.stem for path in files if path.stem not in measured_names))
    return 0


def measure(path: Path) -> Set | None:
    """One file through the whole path; None where its labels are of another rubric or dimension."""
    items = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    items = [i for i in items if i["split"] == "open" and i["label_mapped"].get("binary") is not None]
    items = [item for item in items if item["label_mapped"]["rubric"] in PUBLISHED]
    if not items:
        return None
    rubric = SourceSupport() if items[0]["task"] == "source_support" else RagFaithfulness()
    start = time.process_time()
    values: dict[str, float | None] = {}
    for card in evaluate(records(items), [rubric], OfflineJudge()):
        name = PUBLISHED[items[0]["label_mapped"]["rubric"]]
        values[card.record_id] = next((score.value for score in card.scores if score.name == name), None)
    seconds = time.process_time() - start
    rows = [
        (
            item["label_mapped"]["binary"] == 1,
            (values[item["id"]] or 0) >= CUT,
            overlap(text(item), "\n".join(p["text"] for p in item["passages"])) >= OVERLAP_CUT,
            item["cluster"],
        )
        for item in items
    ]
    return Set(path.stem, rows, sum(value is None for value in values.values()), seconds)


def records(items: Iterable[dict[str, Any]]) -> Iterable[Record]:
    """What a judge may see of each item: query, passages, the labelled text; nothing else."""
    for item in items:
        yield record(item.get("query") or text(item), item["passages"], text(item), id=item["id"], citations=[])


def text(item: dict[str, Any]) -> str:
    """The labelled claim or answer, without citation markers."""
    return MARKER.sub("", item.get("claim") or item["answer"])


def cells(rows: Sequence[tuple[bool, bool, bool, str]], column: int) -> list[Cell]:
    """What a verdict got right, by cluster."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in rows:
        cell = found[row[3]]
        place = 0 if row[0] else 2
        cell[place] += row[column] == row[0]
        cell[place + 1] += 1
    return [(a, b, c, d) for a, b, c, d in found.values()]


def balanced(drawn: Iterable[Cell]) -> float:
    """Balanced accuracy in percent."""
    a, b, c, d = (sum(column) for column in zip(*drawn, strict=True))
    return 50 * (a / b + c / d) if b and d else 50.0


def interval(values: Iterable[float]) -> str:
    """The middle 95 %."""
    ordered = sorted(values)
    return f"{ordered[int(0.025 * len(ordered))]:5.1f}..{ordered[int(0.975 * len(ordered)) - 1]:5.1f}"


def report(sets: Sequence[Set]) -> None:
    """The table, the means over sets, and the paired difference of the means."""
    chance = random.Random(20)
    drawn: dict[str, tuple[list[float], list[float]]] = {}
    whole: dict[str, tuple[float, float]] = {}
    print(f"{'set':<24}{'n':>6}  {'offline judge':<20}{'token overlap':<20}{'unscored':>9}{'CPU s':>7}")
    for measured in sets:
        judge, plain = cells(measured.rows, 1), cells(measured.rows, 2)
        draws = [chance.choices(range(len(judge)), k=len(judge)) for _ in range(DRAWS)]
        drawn[measured.name] = (
            [balanced([judge[place] for place in draw]) for draw in draws],
            [balanced([plain[place] for place in draw]) for draw in draws],
        )
        whole[measured.name] = balanced(judge), balanced(plain)
        print(
            f"{measured.name:<24}{len(measured.rows):>6}"
            + "".join(
                f"  {w:5.1f} {interval(d)}" for w, d in zip(whole[measured.name], drawn[measured.name], strict=True)
            )
            + f"{measured.unscored:>9}{measured.seconds:>7.1f}"
        )
    means = [sum(pair[column] for pair in whole.values()) / len(whole) for column in (0, 1)]
    runs = [[sum(d[column][draw] for d in drawn.values()) / len(drawn) for draw in range(DRAWS)] for column in (0, 1)]
    print(f"{'mean over sets':<30}" + "".join(f"  {m:5.1f} {interval(r)}" for m, r in zip(means, runs, strict=True)))
    gap = [a - b for a, b in zip(*runs, strict=True)]
    print(f"{'judge minus overlap':<30}  {means[0] - means[1]:+5.1f} {interval(gap)}")


if __name__ == "__main__":
    sys.exit(main())
