"""A Braintrust to pull traces from: the stand-in, with traces the real SDK wrote, and hand-made ones."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from groundtrace.adapters.braintrust.api import Api
from groundtrace.adapters.braintrust.source import BraintrustSource
from groundtrace.model import Ref, Signal, Trace, Window
from standins.braintrust import Standin

PROJECT = "ferries"
NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
"""When the pulls of hand-made traces take place."""

WEEKS = Window(int((NOW - dt.timedelta(days=30)).timestamp()) * 10**9, None)
DOCUMENT = {"id": "d1", "text": "The night ferry leaves at 21:40.", "score": 0.9}
KEY = "sk-test"


@dataclass
class Stand:
    """The stand-in with one project, and how long was waited for it."""

    standin: Standin
    slept: list[float] = field(default_factory=list)

    @property
    def store(self) -> Any:
        """What it holds."""
        return self.standin.store

    @property
    def url(self) -> str:
        """Where it is."""
        return self.standin.url

    @property
    def project(self) -> str:
        """The project's id."""
        return str(self.store.project(PROJECT)["id"])

    def source(self, now: dt.datetime = NOW, **told: Any) -> BraintrustSource:
        """A source on it, at that time, on which nobody really waits."""
        made = BraintrustSource(PROJECT, url=self.url, app_url=self.url, queries=6000, clock=now.timestamp, **told)
        clock = lambda: sum(self.slept)  # noqa: E731 - time passes where somebody waits
        made.api = Api(self.url, self.url, queries=6000, patience=60.0, clock=clock, sleep=self.slept.append)
        return made

    def row(self, n: int, parent: int | None = None, *, root: int | None = None, **told: Any) -> str:
        """The n-th row, its span ended; the root of a trace unless a parent is named. Its id."""
        top = root or parent or n
        begun = told.pop("begun", NOW - dt.timedelta(hours=2) + dt.timedelta(seconds=n % 3600))
        at = begun.timestamp()
        body: dict[str, Any] = {"id": f"row-{n}", "span_id": f"{n:016x}", "root_span_id": f"{top:032x}"}
        body |= {"span_parents": None if parent is None else [f"{parent:016x}"], "created": begun.isoformat()}
        body |= {"metrics": {"start": at, "end": at + 1}, "input": {"question": "When?"}, "output": "At 21:40 [1]."}
        body["span_attributes"] = {"name": f"row {n}", "type": "function"}
        where = self.store.experiments.get(told.pop("experiment", ""))
        kept = {"experiment_id": where["id"]} if where else {"project_id": self.project, "log_id": "g"}
        self.store.write([{**body, **kept, **told}])
        return f"row-{n}"

    def rag(self, n: int, **told: Any) -> str:
        """The n-th trace: a root and its retriever, whose number is a million higher. The trace's id."""
        self.row(n, **told)
        more = {name: told[name] for name in ("experiment",) if name in told}
        begun = told.get("begun", NOW - dt.timedelta(hours=2))
        kind = {"name": "retrieve", "type": "tool"}
        self.row(n + 10**6, n, begun=begun, input={"q": "When?"}, output=[DOCUMENT], span_attributes=kind, **more)
        return f"{n:032x}"

    def merge(self, n: int, **told: Any) -> None:
        """Change the n-th row."""
        self.store.write([{"id": f"row-{n}", "project_id": self.project, "log_id": "g", "_is_merge": True, **told}])

    def comment(self, n: int, text: str, ident: str = "c", **told: Any) -> None:
        """Say something of the n-th row."""
        origin = {"origin": {"id": f"row-{n}"}, "comment": {"text": text}}
        self.store.write([{"id": ident, "project_id": self.project, "log_id": "g", **origin, **told}])

    def asked(self, where: str = "") -> list[dict[str, Any]]:
        """The queries that were asked, those of whose filter this is a part."""
        return [told for told in self.standin.asked("/btql") if where in str(told["body"]["query"])]


@contextmanager
def standing(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[Stand]:
    """A stand-in at the time of hand-made pulls, and an environment with a key."""
    monkeypatch.setenv("BRAINTRUST_API_KEY", KEY)
    for name in ("BRAINTRUST_API_URL", "BRAINTRUST_APP_URL", "BRAINTRUST_ORG_NAME"):
        monkeypatch.delenv(name, raising=False)
    settings.setdefault("clock", (NOW - dt.timedelta(hours=1)).timestamp)
    standin = Standin(api_keys=(KEY,), **settings)
    stand = Stand(standin)
    stand.store.project(PROJECT)
    try:
        yield stand
    finally:
        standin.close()


def pulled(
    source: BraintrustSource, window: Window = WEEKS, choose: Callable[..., bool] = lambda _ref, _signals: True
) -> dict[str, Trace]:
    """The traces a source gives, by id; none is given twice."""
    traces = list(source.traces(window, choose))
    found = {trace.ref.trace_id: trace for trace in traces}
    assert len(found) == len(traces)
    return found


def names(traces: dict[str, Trace]) -> list[int]:
    """The numbers of hand-made traces."""
    return sorted(int(ident, 16) for ident in traces)


class Choosing:
    """Chooses as it is told, and remembers what it was asked."""

    def __init__(self, wanted: Callable[[Ref, Sequence[Signal]], bool], *, patient: bool = False) -> None:
        self.wanted, self.patient = wanted, patient
        self.signals: dict[int, tuple[Signal, ...]] = {}

    def __call__(self, ref: Ref, signals: tuple[Signal, ...]) -> bool:
        assert int(ref.trace_id, 16) not in self.signals, "asked twice"
        self.signals[int(ref.trace_id, 16)] = signals
        return self.wanted(ref, signals)
