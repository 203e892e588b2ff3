"""A LangSmith to push scores to: the stand-in, with runs, and cards that are about them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
from langsmith.utils import get_env_var

from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.sink import LangSmithSink
from groundtrace.model import Receipt, Ref, Score, Scorecard, card_id
from groundtrace.testing import sample_card
from standins.langsmith import Store, serve

PROJECT = "ferries"
START = dt.datetime(2026, 11, 1, 8, 0, tzinfo=dt.UTC)


@dataclass
class Stand:
    """The stand-in with one project, and how long was waited for it."""

    server: ThreadingHTTPServer
    store: Store
    url: str
    slept: list[float] = field(default_factory=list)

    @property
    def project(self) -> str:
        """The project's id."""
        return str(self.store.session_by_name(PROJECT)["id"])

    def api(self, **told: Any) -> Api:
        """A line to it on which nobody really waits."""
        return Api(self.url, sleep=self.slept.append, **told)

    def sink(self, **told: Any) -> LangSmithSink:
        """A sink on it."""
        return LangSmithSink(PROJECT, api=told.pop("api", None) or self.api(), sleep=self.slept.append, **told)

    def run(self, n: int, **told: Any) -> str:
        """The n-th trace's root, ended; its id."""
        ident = str(uuid.UUID(int=n))
        begun = START + dt.timedelta(seconds=n % 10**6)
        ended = begun + dt.timedelta(seconds=1)
        body = {"id": ident, "trace_id": ident, "name": "chain", "run_type": "chain", "session_name": PROJECT}
        body |= {"start_time": begun.isoformat(), "end_time": ended.isoformat(), "inputs": {}, "outputs": {}}
        self.store.upsert_run("post", body | told)
        return ident

    def card(self, n: int, *scores: Score, **told: Any) -> Scorecard:
        """A card about the n-th trace, which is there."""
        self.run(n)
        return about(n, *scores, project=self.project, **told)

    def asked(self, method: str, path: str = "") -> list[dict[str, Any]]:
        """What was asked of it."""
        return [row for row in self.store.log if row["method"] == method and path in row["path"]]

    def feedback(self) -> dict[str, Any]:
        """What it holds, without when that was changed."""
        return {
            key: {name: told for name, told in row.items() if name != "modified_at"}
            for key, row in self.store.feedback.items()
        }

    def scores(self) -> dict[str, float | None]:
        """What it holds, by score."""
        return {row["key"].removeprefix("groundtrace."): row["score"] for row in self.store.feedback.values()}


def about(n: int, *scores: Score, project: str | None = None, keys: bool = True, **told: Any) -> Scorecard:
    """A card about the n-th trace, as a pull would give it; with what its feedback needs, unless `keys` says no."""
    ident = str(uuid.UUID(int=n))
    known = {"start_time": (START + dt.timedelta(seconds=n)).isoformat()} if keys else {}
    ref = Ref("langsmith", project, ident, ident, known)
    card = sample_card(*scores, **told)
    update = {"id": card_id(ref, card.rubric), "record_id": ident, "ref": ref, "targets": {"root": ref}}
    return card.model_copy(update=update)


def states(receipts: Iterator[Receipt] | list[Receipt]) -> dict[str, int]:
    """How many scores became what."""
    found: dict[str, int] = {}
    for receipt in receipts:
        found[receipt.state] = found.get(receipt.state, 0) + 1
    return found


@contextmanager
def standing(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Iterator[Stand]:
    """A stand-in, and the environment of somebody who has a key for it."""
    for name in ("ENDPOINT", "WORKSPACE_ID", "PROFILE", "TRACING_SAMPLING_RATE", "PROJECT"):
        for prefix in ("LANGSMITH", "LANGCHAIN"):
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_pt_standin")
    get_env_var.cache_clear()  # the SDK remembers what it read
    server, store, url = serve(**settings)
    try:
        made = Stand(server, store, url)
        store.session_by_name(PROJECT)
        yield made
    finally:
        server.shutdown()
        server.server_close()
        get_env_var.cache_clear()
