"""Traces pulled from Braintrust: `python tests/benchmarks/braintrust_pull.py [--rows 8000] [--traces 2000]`.

CPU from the bytes of a page to traces, and on to records, beside what it takes to decode the page alone; the rows are
those real libraries wrote through the SDK, copied under ids of their own, each page in turns of which the quickest
counts. Then how many queries a whole pull takes, and how much of the documented rate it uses once it is throttled, in
virtual time in which an answer takes a third of a second: no minute of it may hold more than 20.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import orjson

from braintrust_pulling import KEY, NOW, PROJECT, Stand
from groundtrace.adapters.braintrust import rows
from groundtrace.adapters.braintrust.api import QUERIES, Api, Place
from groundtrace.adapters.braintrust.source import BraintrustSource
from groundtrace.model import Record, Trace, Window
from groundtrace.plugins import load
from groundtrace.read import read
from standins.braintrust import Standin

TURNS = 7
LATENCY = 0.33
PLACE = Place("project_logs", str(uuid.UUID(int=1)), str(uuid.UUID(int=1)), PROJECT)
ROWS: dict[str, list[dict[str, Any]]] = orjson.loads(
    (Path(__file__).parents[1] / "fixtures" / "traces" / "braintrust-rows.json").read_bytes()
)
"""Rows of real libraries, by what wrote them."""


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rows", type=int, default=8000)
    asked.add_argument("--traces", type=int, default=2000)
    told = asked.parse_args()
    os.environ["BRAINTRUST_API_KEY"] = KEY
    _cpu(_copies(told.rows))
    _rate(told.traces)


def _cpu(copies: Sequence[dict[str, Any]]) -> None:
    page = orjson.dumps({"data": copies, "cursor": None})
    convention = load("convention", "braintrust")

    def decoded() -> Any:
        return orjson.loads(page)["data"]

    def traces() -> list[Trace]:
        return _traces(decoded())

    def records() -> list[Record]:
        return [record for trace in traces() for record in read(trace, [convention])]

    turns = [[_spent(one) for one in (decoded, traces, records)] for _ in range(TURNS)]
    spent = [min(turn[at] for turn in turns) for at in range(3)]
    made = len(traces()), len(records())
    print(f"{len(copies)} rows, {made[0]} traces, {made[1]} records, {len(page):,} bytes")
    for name, seconds in zip(("page decoded", "page to traces", "page to records"), spent, strict=True):
        share = f"{seconds / spent[0]:.1f} x decoding"
        print(f"{name}: {seconds / len(copies) * 1e6:.1f} us CPU a row, {len(copies) / seconds:,.0f} rows/s, {share}")
    print(f"page to records: {made[1] / spent[2]:,.0f} records/s")


def _traces(page: Iterable[rows.Row]) -> list[Trace]:
    grouped: dict[str, list[rows.Row]] = {}
    for row in page:
        grouped.setdefault(rows.trace_of(row), []).append(row)
    roots = {ident: next(filter(rows.is_root, held), held[0]) for ident, held in grouped.items()}
    return [rows.trace(rows.ref(roots[ident], PLACE), held) for ident, held in grouped.items()]


def _spent(what: Callable[[], Any]) -> float:
    began = time.process_time()
    what()
    return time.process_time() - began


def _copies(count: int) -> list[dict[str, Any]]:
    """As many rows as that, or a few more, each trace under an id of its own."""
    made: list[dict[str, Any]] = []
    while len(made) < count:
        for held in ROWS.values():
            top = uuid.uuid5(uuid.NAMESPACE_OID, str(len(made))).hex
            told = {"root_span_id": top, "created": NOW.isoformat(), "_xact_id": "1000194776110029234"}
            made += [{**row, **told, "id": f"{top}-{n}"} for n, row in enumerate(held)]
    return made


def _rate(traces: int) -> None:
    """Pull so many traces of three spans: time passes where somebody waits, and with each answer."""
    passed, begun = [0.0], list[float]()
    with closing(Standin(api_keys=(KEY,), clock=(NOW - dt.timedelta(hours=1)).timestamp)) as standin:
        stand = Stand(standin)
        for n in range(1, traces + 1):
            stand.row(n)
            stand.row(n + 10**6, n)
            stand.row(n + 2 * 10**6, n)

        class Counted(Api):
            """Notes when a query began, and lets an answer take its time."""

            def _page(self, *told: Any, **more: Any) -> Any:
                answer = super()._page(*told, **more)
                begun.append(passed[0])
                passed[0] += LATENCY
                return answer

        def sleep(seconds: float) -> None:
            passed[0] += seconds

        source = BraintrustSource(PROJECT, url=stand.url, app_url=stand.url, clock=NOW.timestamp)
        source.api = Counted(stand.url, stand.url, clock=lambda: passed[0], sleep=sleep)
        pulled = list(source.traces(Window(), lambda _ref, _signals: True))
    spans = sum(len(trace.spans) for trace in pulled)
    assert (len(pulled), spans) == (traces, 3 * traces)
    print(f"{len(pulled)} traces of {spans} spans whole by {len(begun)} queries")
    whole = (len(begun) - 1) // QUERIES * QUERIES  # what was let through at once is counted with the time after it
    if whole:
        used = whole / (begun[whole] - begun[0]) / (QUERIES / 60)
        print(f"{begun[-1]:.0f} s of virtual time: {used:.1%} of the documented rate used while throttled")
    fullest = max(sum(at <= other < at + 60 for other in begun) for at in begun)
    print(f"the fullest minute holds {fullest} of {QUERIES}")


if __name__ == "__main__":
    main()
