"""How many claim-passage pairs the offline judge answers in a second of CPU on one core.

Cases go through `OfflineJudge.hear` as rubrics make them and come back as JSON. Texts are those of the labelled sets
(see offline_judge.py): a claim with its own passage of 60 to 200 words, or with passages joined to about 320 words.
"first" is a fresh process meeting every word and passage for the first time; "again" is the same cases once more with
a fresh judge, so that words are known and passages are not; "3 claims" puts three claims to each passage, as an answer
does. At least 500 are asked for.

    python tests/benchmarks/offline_speed.py
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from groundtrace.judges.offline import OfflineJudge
from groundtrace.model import Case

SETS = ("ab_gensearch", "ab_hagrid", "factcheckbench_stance")
PAIRS = 1_500

Pair = tuple[str, str]


def main() -> int:
    """Print the table; 2 where the data is missing."""
    folder = Path(os.environ.get("GROUNDTRACE_SHARED", Path(__file__).parents[2] / ".." / "shared")) / "data"
    if not all((folder / f"{name}.jsonl").exists() for name in SETS):
        print(f"no labelled sets in {folder}; set GROUNDTRACE_SHARED to the folder that holds data/*.jsonl")
        return 2
    short = [pair for pair in pairs(folder) if 60 <= len(pair[1].split()) <= 200][:PAIRS]
    long = list(joined(short, 320))
    print(f"{'pairs':<28}{'n':>6}{'words':>7}{'first':>9}{'again':>9}{'3 claims':>10}   pairs/s of CPU")
    for name, some in (("claim and one passage", short), ("claim and 320 words", long)):
        three = [(some[(at + step) % len(some)][0], text) for at, (_, text) in enumerate(some) for step in range(3)]
        words = sum(len(text.split()) for _, text in some) / len(some)
        rates = [rate(some), rate(some), rate(three)]
        print(f"{name:<28}{len(some):>6}{words:>7.0f}{rates[0]:>9.0f}{rates[1]:>9.0f}{rates[2]:>10.0f}")
    return 0


def pairs(folder: Path) -> Iterator[Pair]:
    """Each labelled claim with each of its passages."""
    for name in SETS:
        for line in (folder / f"{name}.jsonl").read_text("utf-8").splitlines():
            item = json.loads(line)
            for passage in item["passages"]:
                yield item["claim"], passage["text"]


def joined(short: Sequence[Pair], words: int) -> Iterator[Pair]:
    """Neighbouring passages put together until they have that many words."""
    held: list[str] = []
    for claim, text in short:
        held.append(text)
        if sum(len(part.split()) for part in held) >= words:
            yield claim, "\n".join(held)
            held = []


def rate(some: Sequence[Pair]) -> float:
    """Pairs a second of CPU through a fresh judge."""
    cases = [
        Case("source_support", "1", "r", f"c{at}>p", "", {"claim": claim, "passage": {"id": "p", "text": text}}, {})
        for at, (claim, text) in enumerate(some)
    ]
    judge = OfflineJudge()
    start = time.process_time()
    heard = sum(1 for _ in judge.hear(cases, lambda case, reply: None))
    return heard / (time.process_time() - start)


if __name__ == "__main__":
    sys.exit(main())
