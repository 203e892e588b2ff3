"""Traces pulled from LangSmith: `python tests/benchmarks/langsmith_pull.py [--runs 4000]`.

CPU from the bytes of a page to traces, and on to records, beside what the SDK takes in the same run to make its `Run`
models of the same rows, decoded already; and of decoded rows to traces, which is what stands in those models' place.
Asked is that page to records is twice as quick as the models alone; what is reached is printed. Each is measured in
turns and the quickest counts. The rows are those real libraries wrote, copied under ids of their own. Then how much
of the published rate of queries is used once throttled, in virtual time in which an answer takes a third of a second;
asked are 90 %, and no window of it may hold more.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import orjson
from langsmith.schemas import Run

from groundtrace.adapters.langsmith import rows
from groundtrace.adapters.langsmith.api import RATES, Api
from groundtrace.adapters.langsmith.source import LangSmithSource
from groundtrace.model import Record, Window
from groundtrace.plugins import load
from groundtrace.read import read
from pulling import PROJECT, ROWS
from standins.langsmith import serve

TURNS = 7
LATENCY = 0.33
NOW = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)


def main() -> None:
    """Measure and print."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--runs", type=int, default=4000)
    asked.add_argument("--requests", type=int, default=120)
    told = asked.parse_args()
    os.environ["LANGSMITH_API_KEY"] = "lsv2_pt_benchmark"
    _cpu(_copies(told.runs))
    _rate(told.requests)


def _cpu(copies: Sequence[dict[str, Any]]) -> None:
    page = orjson.dumps({"items": [_selected(row) for row in copies], "next_cursor": None})
    convention = load("convention", "langsmith")

    def spans() -> int:
        return sum(len(trace.spans) for trace in _traces(orjson.loads(page)["items"]))

    def records() -> list[Record]:
        found = _traces(orjson.loads(page)["items"])
        return [record for trace in found for record in read(trace, [convention])]

    def models() -> list[Run]:
        return [Run(**row) for row in copies]

    def decoded() -> Any:
        return orjson.loads(page)

    held = decoded()["items"]

    def mapped() -> Any:
        return _traces(held)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        turns = [[_spent(one) for one in (decoded, mapped, spans, records, models)] for _ in range(TURNS)]
    parts = [min(turn[at] for turn in turns) / len(copies) * 1e6 for at in range(5)]
    names = ("page decoded", "decoded rows to traces", "page to traces", "page to records", "the SDK's Run() alone")
    print(f"{len(copies)} runs in {sum(row['parent_run_id'] is None for row in copies)} traces, {len(page):,} bytes")
    for name, cost in zip(names, parts, strict=True):
        print(f"{name}: {cost:.1f} us CPU a run")
    for name, cost in zip(names[1:4], parts[1:4], strict=True):
        print(f"{name}: {parts[4] / cost:.2f} x as quick as Run() alone{', asked 2 x' if name == names[3] else ''}")


def _selected(row: dict[str, Any]) -> dict[str, Any]:
    """A row as v2 tells it to who asks for the fields the source asks for."""
    more = {"run_type": row["run_type"].upper(), "status": row["status"].upper(), "project_id": row["session_id"]}
    told = row | more | {"metadata": row["extra"].get("metadata", {}), "thread_id": None}
    return {name.lower(): told.get(name.lower()) for name in rows.WHOLE}


def _traces(page: Iterable[rows.Row]) -> list[Any]:
    grouped: dict[str, list[rows.Row]] = {}
    for row in page:
        grouped.setdefault(rows.trace_of(row), []).append(row)
    roots = {ident: next((r for r in held if rows.parent_of(r) is None), held[0]) for ident, held in grouped.items()}
    return [rows.trace(rows.ref(roots[ident], "p"), held) for ident, held in grouped.items()]


def _spent(what: Callable[[], Any]) -> float:
    began = time.process_time()
    what()
    return time.process_time() - began


def _copies(count: int) -> list[dict[str, Any]]:
    """As many runs as that, or a few more, under ids of their own."""
    made: list[dict[str, Any]] = []
    while len(made) < count:
        turn = len(made)
        names = {row["id"]: str(uuid.uuid5(uuid.UUID(row["id"]), str(turn))) for row in ROWS}
        text = orjson.dumps(ROWS).decode()
        for old, new in names.items():
            text = text.replace(old, new)
        made += orjson.loads(text)
    return made


def _rate(requests: int) -> None:
    """Pull through as many queries as that: time passes where somebody waits, and with each answer."""
    _, store, url = serve(flags={"sdb_query_enabled": False})
    for n in range(requests * 100):
        begun = NOW - dt.timedelta(hours=20) + dt.timedelta(seconds=n)
        body = {"id": str(uuid.UUID(int=n + 1)), "name": "root", "run_type": "chain", "session_name": PROJECT}
        store.upsert_run("post", body | {"start_time": begun.isoformat(), "end_time": begun.isoformat()})
    passed, begun_at = [0.0], list[float]()

    class Counted(Api):
        """Notes when a query began, and lets an answer take its time."""

        def _once(self, method: Any, path: str, *told: Any) -> Any:
            answer = super()._once(method, path, *told)
            if path.endswith("/query"):
                begun_at.append(passed[0])
                passed[0] += LATENCY
            return answer

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    source = LangSmithSource(PROJECT, url=url, clock=NOW.timestamp)
    source.api = Counted(url, clock=lambda: passed[0], sleep=sleep)
    list(source.traces(Window(int((NOW - dt.timedelta(days=1)).timestamp()) * 10**9), lambda _ref, _signals: False))
    most, seconds = RATES["query"]
    used = (len(begun_at) - most) / (begun_at[-1] - begun_at[0]) / (most / seconds)
    fullest = max(sum(at <= other < at + seconds for other in begun_at) for at in begun_at)
    print(
        f"{len(begun_at)} queries in {begun_at[-1]:.0f} s of virtual time: {used:.1%} of the published rate, asked 90 %"
    )
    print(f"the fullest {seconds:g} s hold {fullest} of {most}")


if __name__ == "__main__":
    main()
