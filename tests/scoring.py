"""A Braintrust to write scores to: the stand-in, with traces, and cards that are about them, in a time of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from groundtrace.adapters.braintrust.api import Api
from groundtrace.adapters.braintrust.sink import BraintrustSink
from groundtrace.model import Receipt, Ref, Score, Scorecard, card_id
from groundtrace.testing import sample_card
from standins.braintrust import Standin

PROJECT = "ferries"
BEGAN = 1_793_520_000.0
"""When the stand-in's time begins, in seconds since 1970."""

SPANS = ("root", "answer", "retrieval")
_VARIABLES = ("API_URL", "APP_URL", "ORG_NAME", "API_KEY")


@dataclass
class Time:
    """Passes only where somebody waits."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        """Seconds since it began."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Pass."""
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class Stand:
    """The stand-in with one project."""

    server: Standin
    time: Time

    @property
    def project(self) -> str:
        """The project's id."""
        return str(self.server.store.project(PROJECT)["id"])

    @property
    def url(self) -> str:
        """Where it is."""
        return self.server.url

    def api(self, **told: Any) -> Api:
        """A line to it on which nobody really waits."""
        told = {"queries": 6000, "clock": self.time, "sleep": self.time.sleep, **told}
        return Api(**told)

    def sink(self, **told: Any) -> BraintrustSink:
        """A sink on it."""
        told = {"project": PROJECT, "api": self.api(), "sleep": self.time.sleep, **told}
        return BraintrustSink(**told)

    def trace(self, n: int, *, project: str = "", experiment: str = "", **root: Any) -> None:
        """The n-th trace: its root, a generation and a retriever; `root` is more of the root's row."""
        place = {"experiment_id": experiment} if experiment else {"project_id": project or self.project, "log_id": "g"}
        rows = []
        for at, name in enumerate(SPANS):
            row = {"id": row_id(n, name), "span_id": span_id(n, name), "root_span_id": trace_id(n), **place}
            row |= {"span_attributes": {"name": name, "type": ("task", "llm", "function")[at]}, "input": name}
            row |= {"metrics": {"start": BEGAN + n, "end": BEGAN + n + 3 - at}, "metadata": {"prompt_version": "v7"}}
            row |= {"created": f"2026-11-01T08:{n // 60 % 60:02}:{n % 60:02}.000Z"}
            rows.append(row | ({"span_parents": [span_id(n, "root")]} if at else {}))
        rows[0] |= root
        self.server.store.write(rows)

    def card(self, n: int, *scores: Score, **told: Any) -> Scorecard:
        """A card about the n-th trace, which is there."""
        self.trace(n)
        return about(n, *scores, project=self.project, **told)

    def rows(self, kind: str = "project_logs", ident: str = "") -> dict[str, dict[str, Any]]:
        """What it holds, by row, without what changes with every write."""
        key = (kind, ident or self.project)
        return {row["id"]: {k: v for k, v in row.items() if k != "_xact_id"} for row in self.server.store.rows(key)}

    def scorers(self) -> dict[str, dict[str, Any]]:
        """The scorer spans it holds, by row."""
        return {key: row for key, row in self.rows().items() if row["span_attributes"]["type"] == "score"}

    def users_rows(self) -> dict[str, dict[str, Any]]:
        """The other rows."""
        return {key: row for key, row in self.rows().items() if row["span_attributes"]["type"] != "score"}

    def ghosts(self) -> list[str]:
        """Rows that came of a change of what was not there."""
        return [row["id"] for row in self.rows().values() if row["_ghost"]]

    def scores(self) -> dict[str, float | None]:
        """What it holds on scorer spans, as it was before it was brought onto 0..1, by score."""
        held: dict[str, float | None] = {}
        for row in self.scorers().values():
            for score, told in row["metadata"]["groundtrace"]["scores"].items():
                number = (row["scores"] or {}).get(told.get("as"))
                held[score] = number if number is None else told["low"] + number * (told["high"] - told["low"])
        return held

    def inserts(self) -> list[list[dict[str, Any]]]:
        """The rows of every request that brought some."""
        return [told["body"]["events"] for told in self.server.requests if told["path"].endswith("/insert")]

    def queries(self) -> int:
        """How many queries were asked."""
        return len(self.server.asked("/btql"))

    def insert_fails(self, status: int = 0, times: int = 10**6, **told: Any) -> None:
        """Make trouble for what brings rows to the project."""
        self.server.fail(f"/v1/project_logs/{self.project}/insert", status, times, **told)


def row_id(n: int, name: str = "root") -> str:
    """The id of a row of the n-th trace."""
    return f"{SPANS.index(name):08x}-0000-4000-8000-{n:012x}"


def span_id(n: int, name: str = "root") -> str:
    """The id of its span."""
    return f"{SPANS.index(name) + 1:04x}{n:012x}"


def trace_id(n: int) -> str:
    """The id of the n-th trace."""
    return f"{n + 10**6:032x}"


def ref(n: int, project: str | None, name: str = "root", *, keys: Mapping[str, str] | None = None) -> Ref:
    """A span of the n-th trace as a pull gives it: with the id of the root's row."""
    told = {"id": row_id(n), "object": "project_logs"} if keys is None else keys
    return Ref("braintrust", project, trace_id(n), span_id(n, name), told)


def about(n: int, *scores: Score, project: str | None = None, of: Ref | None = None, **told: Any) -> Scorecard:
    """A card about the n-th trace, as a pull would give it, or about what another ref names."""
    root = of or ref(n, project)
    card = sample_card(*scores, **told)
    targets = {"root": root} if of else {name: ref(n, project, name) for name in SPANS}
    update = {"id": card_id(root, card.rubric), "record_id": trace_id(n), "ref": root, "targets": targets}
    return card.model_copy(update=update)


def states(receipts: Iterable[Receipt]) -> dict[str, int]:
    """How many scores became what."""
    found: dict[str, int] = {}
    for receipt in receipts:
        found[receipt.state] = found.get(receipt.state, 0) + 1
    return found


@contextmanager
def standing(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[Stand]:
    """A stand-in, and the environment of somebody who has a key for it."""
    for name in _VARIABLES:
        monkeypatch.delenv(f"BRAINTRUST_{name}", raising=False)
    time = Time()
    server = Standin(clock=lambda: BEGAN + time(), **settings)
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-test")
    monkeypatch.setenv("BRAINTRUST_APP_URL", server.url)
    try:
        made = Stand(server, time)
        server.store.project(PROJECT)
        yield made
    finally:
        server.close()
