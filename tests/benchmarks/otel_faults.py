"""What a program feels of a judge that fails behind it: `python tests/benchmarks/otel_faults.py [QUESTIONS] [SHARE]`.

The program of `otel_live.py` is traced in turns with two processors that do nothing and with ours, whose judge asks a
provider on loopback that fails in one way after another: every kind of fault of the judge's own tests, and none. How
long questions and ends of spans take is shown for each kind and compared over all. It fails where a question's 99th
percentile is more than a tenth longer, where anything was raised into the program, or where a trace is unaccounted for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from opentelemetry.sdk.trace import SpanProcessor
from otel_live import Program, at, compared

import groundtrace
from faults import FAULTS
from groundtrace.live import BROKEN
from standins.llm import standing

BLOCK = 20
"""Questions a program answers before the next one's turn."""

WARM = 40
"""Questions answered before anything is measured: the judge's process is there by then."""

ACCOUNTED = ("judged", "failed", "nothing_to_judge", "full", "shutdown", "not_in_sample")


class Behind:
    """Questions answered before failing judges."""

    def __init__(self, address: str, questions: int, share: float) -> None:
        self.judge = f"openai:gpt-4o,base_url={address},timeout=1,deadline=2"
        self.questions, self.share = questions, share
        self.idle, self.again, self.all = (Program(SpanProcessor()) for _ in range(3))
        """`all` is never asked: it holds the times of ours, over all kinds."""
        self.missed: list[str] = []

    def fault(self, name: str) -> None:
        """Answer questions while the provider fails in this way."""
        ours = groundtrace.otel.processor(
            "rag_faithfulness", self.judge, sample=self.share, settle=0.1, shutdown_seconds=4
        )
        live = Program(ours)
        live.block(WARM)  # what is loaded once is no cost of a fault
        ours.force_flush()
        live.forget()
        begun = len(self.idle.questions)
        for _ in range(self.questions // BLOCK):
            for program in (self.idle, self.again, live):
                program.block(BLOCK)
        live.tracers.shutdown()
        counts = dict(ours.counts)
        for times in ("ends", "questions", "own"):
            getattr(self.all, times).extend(getattr(live, times))
        without, held99 = at(self.idle.questions[begun:], 0.99), at(live.questions, 0.99)
        print(f"{name:44.44} p99 {without:8.0f} without {held99:8.0f} with; {counts}", flush=True)
        self.missed += self.strange(name, counts)

    def strange(self, name: str, counts: Mapping[str, int]) -> list[str]:
        """What of the counts may not be."""
        told, asked = sum(counts.get(what, 0) for what in ACCOUNTED), WARM + self.questions // BLOCK * BLOCK
        wrong = [f"{name}: raised {counts[BROKEN]} times"] if counts.get(BROKEN) else []
        return wrong + ([f"{name}: {asked} traces, {told} accounted for"] if asked != told else [])


def main(questions: int, share: float) -> None:
    """Answer this many questions behind each kind of fault."""
    os.environ["OPENAI_API_KEY"] = "sk-of-the-benchmark"
    faults: list[dict[str, Any]] = [{}, *FAULTS]
    print(f"{len(faults)} kinds, {questions} questions behind each, sample={share:g}; microseconds")
    with standing() as stand:
        behind = Behind(stand.v1, questions, share)
        for fault in faults:
            stand.script({"when": {"prompt": "ferry"}, "do": fault} if fault else {"when": {}, "do": {}})
            behind.fault(str(fault or "no fault"))
    sys.exit("; ".join(behind.missed + compared((behind.idle, behind.again, behind.all))))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400, float(sys.argv[2]) if len(sys.argv) > 2 else 0.1)
