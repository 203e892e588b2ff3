"""How much memory reading takes: `python tests/benchmarks/reader_memory.py [--spans 1000000] [--keep FOLDER]`.

Writes that many spans, six a trace, every span on a line of its own and the spans of a trace scattered over a thousand
others, and beside them the log records that hold what was asked and answered. A process of its own reads them the way
`groundtrace show` does, every trace into its record. Prints the most memory that process held, beside the 400 MB asked
for; it fails where it was more, or where a trace or a log record is missing from what came out.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from reader_speed import genai, sentence

ASKED_MB = 400
WINDOW = 1000
"""How many traces are under way at once."""
LOGGED = ("gen_ai.input.messages", "gen_ai.output.messages")
"""What the generation says in a log record instead of on its span."""


def main() -> None:
    """Write the files, read them in a child, print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--spans", type=int, default=1_000_000)
    asked.add_argument("--keep", type=Path, help="a folder where the files stay, and are read from where they stand")
    asked.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    told = asked.parse_args()
    if told.child:
        look(told.child)
        return
    traces = -(-told.spans // 6)
    with tempfile.TemporaryDirectory() as made:
        folder = told.keep or Path(made)
        folder.mkdir(exist_ok=True)
        if not (folder / "spans.jsonl").exists():
            began = time.monotonic()
            write(folder, traces)
            print(f"written in {time.monotonic() - began:,.0f} s")
        size = sum(file.stat().st_size for file in folder.iterdir())
        said = subprocess.run(
            [sys.executable, __file__, "--child", str(folder)], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    found = orjson.loads(said)
    print(f"{traces * 6:,} spans with {traces:,} log records, {size / 1e6:,.0f} MB of files")
    print(f"read: {found['records']:,} records, {found['whole']:,} of them whole, in {found['seconds']:,.0f} s")
    bare, most = found["bare_mb"], found["peak_mb"]
    print(f"peak memory: {most:,.0f} MB, of which {bare:,.0f} MB before the first line; asked: {ASKED_MB}")
    for note in found["notes"]:
        print(f"note: {note}")
    assert found["records"] == found["whole"] == traces
    assert found["peak_mb"] <= ASKED_MB


def look(folder: Path) -> None:
    """Read everything into records, as the child does."""
    from groundtrace.plan import Plan
    from groundtrace.run import look

    plan = Plan.model_validate({"sources": [f"otel:{folder / 'spans.jsonl'}"]})
    counted = {"records": 0, "whole": 0}

    def see(record: Any) -> None:
        counted["records"] += 1
        held = record.query and len(record.context) == 3 and len(record.citations) == 2
        counted["whole"] += bool(held and not record.gaps)

    bare, began = peak(), time.monotonic()
    report = look(plan, see)
    spent = time.monotonic() - began
    told = {**counted, "seconds": spent, "bare_mb": bare, "peak_mb": peak(), "notes": list(report.notes)}
    sys.stdout.buffer.write(orjson.dumps(told))


def peak() -> float:
    """The most memory this process held so far, in MB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


# --- the files ------------------------------------------------------------------------------------------------------


def write(folder: Path, traces: int) -> None:
    """The spans, shuffled within a window of traces, and their log records."""
    pick = random.Random(7)
    with (folder / "spans.jsonl").open("wb") as spans, (folder / "spans.logs.jsonl").open("wb") as logs:
        for first in range(0, traces, WINDOW):
            lines: list[bytes] = []
            said: list[bytes] = []
            for at in range(first, min(first + WINDOW, traces)):
                lines += trace(at, pick, said)
            pick.shuffle(lines)
            pick.shuffle(said)
            spans.write(b"\n".join(lines) + b"\n")
            logs.write(b"\n".join(said) + b"\n")


def trace(at: int, pick: random.Random, logs: list[bytes]) -> Iterator[bytes]:
    """The lines of one trace; its generation's messages go to `logs`."""
    told = {
        "question": f"When does the {sentence(pick, 5)[:-1].lower()} leave?",
        "passages": [sentence(pick) for _ in range(3)],
        "answer": f"{sentence(pick, 9)[:-1]} [2]. {sentence(pick, 9)[:-1]} [1].",
    }
    ident, began = f"{at + 1:032x}", 1_767_225_600_000_000_000 + at * 1_000_000
    for number, span in enumerate(genai(told)):
        attributes = dict(span["attributes"])
        names = {"traceId": ident, "spanId": f"{at + 1:08x}{number + 1:08x}"}
        if span["name"].startswith("chat"):
            moved = [pair(key, attributes.pop(key)) for key in LOGGED]
            named = {"eventName": "gen_ai.client.inference.operation.details", "timeUnixNano": str(began)}
            records = [{"scope": {"name": "helpdesk"}, "logRecords": [{**names, **named, "attributes": moved}]}]
            logs.append(orjson.dumps({"resourceLogs": [{"resource": SERVICE, "scopeLogs": records}]}))
        made = {
            **names,
            **({"parentSpanId": f"{at + 1:08x}{span['below'] + 1:08x}"} if number else {}),
            "name": span["name"],
            "kind": 1,
            "startTimeUnixNano": str(began + number),
            "endTimeUnixNano": str(began + 900_000 - number),
            "attributes": [pair(key, value) for key, value in attributes.items()],
            "status": {"code": 1},
        }
        scoped = [{"scope": {"name": "helpdesk"}, "spans": [made]}]
        yield orjson.dumps({"resourceSpans": [{"resource": SERVICE, "scopeSpans": scoped}]})


def pair(key: str, value: object) -> dict[str, Any]:
    """An attribute on the wire."""
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


SERVICE = {"attributes": [pair("service.name", "helpdesk")]}

if __name__ == "__main__":
    main()
