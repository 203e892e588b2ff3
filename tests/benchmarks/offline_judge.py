"""How the offline judge agrees with people, beside plain token overlap, on the open parts of public labelled sets.

Sets: those whose labelled score the judge gives: source_support, factual_accuracy, rag_faithfulness.claim_support and
summary_groundedness.factual_consistency; labels of abstention and source conflict are left out, for the judge declares
those unassessed. Which were left out stands below the table.
Everything was fixed before looking: a record is made by hand, goes through the rubric, the judge and the gate, and
the published number is read off its card, `source_support` (the answer's mean over its claims), `factual_accuracy`
(0 to 1, taken as 1 + 4 x), or the dimension; 4 or more is positive, and so is nothing else: a card without the number
is not, and counted. Citation markers inside the labelled text are taken off, since the sets' passages are not numbered
by them. Labels are `label_mapped.binary`, null left out.

Token overlap is the share of the text's stemmed content words found in its passages, with the one cut that suits it
best on the mean of these very sets, which favours it.

Of ragchecker_pairs people said which of two answers is the more correct: the share of pairs in which the answer with
the higher `factual_accuracy` is the one they preferred. A tie counts half, a card without the number as 0.

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
from groundtrace.model import Kind, Record
from groundtrace.ports import Rubric
from groundtrace.read import record
from groundtrace.rubrics.factual_accuracy import FactualAccuracy
from groundtrace.rubrics.rag_faithfulness import RagFaithfulness
from groundtrace.rubrics.source_support import SourceSupport
from groundtrace.rubrics.summary_groundedness import SummaryGroundedness

RUBRICS: dict[str, Rubric] = {
    rubric.name: rubric for rubric in (SourceSupport(), FactualAccuracy(), RagFaithfulness(), SummaryGroundedness())
}
PUBLISHED = (
    "source_support",
    "factual_accuracy",
    "rag_faithfulness.claim_support",
    "summary_groundedness.factual_consistency",
)
PAIRS = "ragchecker_pairs"
CUT = 4
OVERLAP_CUT = 0.71
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
    report_pairs(folder / f"{PAIRS}.jsonl")
    measured_names = {measured.name for measured in sets}
    print("left out:", ", ".join(path.stem for path in files if path.stem not in (*measured_names, PAIRS)))
    return 0


def measure(path: Path) -> Set | None:
    """One file through the whole path; None where its labels are of another rubric or dimension."""
    items = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    items = [i for i in items if i["split"] == "open" and i["label_mapped"].get("binary") is not None]
    items = [item for item in items if item["label_mapped"]["rubric"] in PUBLISHED]
    if not items:
        return None
    start = time.process_time()
    values = judged(items)
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


def judged(items: Sequence[dict[str, Any]]) -> dict[str, float | None]:
    """The number each item's card publishes, 1 to 5, by the item's id."""
    name = items[0]["label_mapped"]["rubric"]
    values: dict[str, float | None] = {}
    for card in evaluate(records(items), [RUBRICS[items[0]["task"]]], OfflineJudge()):
        score = next((score for score in card.scores if score.name == name), None)
        value = None if score is None else score.value
        values[card.record_id] = 1 + 4 * value if value is not None and score and score.high == 1 else value
    return values


def records(items: Iterable[dict[str, Any]]) -> Iterable[Record]:
    """What a judge may see of each item: query, passages, the labelled text; nothing else."""
    for item in items:
        kind: Kind = "summary" if "summary" in item else "answer"
        query = item.get("query") or text(item)
        yield record(query, item["passages"], text(item), id=item["id"], citations=[], kind=kind)


def text(item: dict[str, Any]) -> str:
    """The labelled claim, answer or summary, without citation markers."""
    return MARKER.sub("", next(item[part] for part in ("claim", "answer", "summary") if item.get(part) is not None))


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


def report_pairs(path: Path) -> None:
    """How often the answer people prefer is the one with the higher score."""
    if not path.exists():
        return
    items = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    items = [item for item in items if item["split"] == "open" and item["label_mapped"]["score"]]
    label = {"rubric": "factual_accuracy"}
    sides = [
        item | {"id": f"{item['id']}{side}", "answer": item["answer"][side], "label_mapped": label}
        for item in items
        for side in "ab"
    ]
    values = judged(sides)
    plain = {side["id"]: overlap(text(side), side["passages"][0]["text"]) for side in sides}
    told = []
    for scores in ({name: value or 0.0 for name, value in values.items()}, plain):
        won = [scores[f"{item['id']}b"] - scores[f"{item['id']}a"] for item in items]
        agreed = [
            0.5 if not gap else float((gap > 0) == (i["label_mapped"]["score"] > 0))
            for gap, i in zip(won, items, strict=True)
        ]
        chance = random.Random(20)
        draws = [100 * sum(chance.choices(agreed, k=len(agreed))) / len(agreed) for _ in range(DRAWS)]
        told.append(f"  {100 * sum(agreed) / len(agreed):5.1f} {interval(draws)}")
    silent = sum(value is None for value in values.values())
    print(f"{f'{PAIRS} (preferred)':<24}{len(items):>4}{''.join(told)}{silent:>9}")


if __name__ == "__main__":
    sys.exit(main())
