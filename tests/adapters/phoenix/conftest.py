"""A project of its own on a real Phoenix, and traces sent to it by OpenTelemetry's SDK."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx2
import pytest

import exported
from exported import SECOND, Sent
from groundtrace.adapters.phoenix.api import HEADERS, KEY, WHERE, Api
from servers import Server

DEADLINE = 60.0
"""Seconds until what was sent must be readable."""


class Desk:
    """A project nobody else uses."""

    def __init__(self, server: Server) -> None:
        self.url, self.project = server.url, f"tower-{uuid.uuid4().hex[:12]}"
        self.grpc = server.grpc
        self.api = Api(server.url)
        self.now = time.time_ns()
        self.trace = self.llm = self.retriever = ""

    def send(self, count: int = 1, *, ago: float = 600, grpc: bool = False, ids: Any = None, **more: Any) -> list[Sent]:
        """Send some requests that ended so many seconds ago, and wait until they can be read."""
        at = self.now - int(ago * SECOND) - 2 * SECOND
        with exported.tracer(self.grpc if grpc else self.url, self.project, grpc=grpc, ids=ids) as made:
            sent = [exported.answered(made, at=at - n * SECOND, **more) for n in range(count)]
        self.wait(3 * count if more.get("rooted", True) else 2 * count, [one.trace for one in sent])
        return sent

    def wait(self, spans: int, traces: list[str]) -> None:
        """Wait until so many spans of these traces are there."""
        self.until(lambda: len(self.spans(traces)) >= spans)

    def until(self, done: Callable[[], bool]) -> None:
        """Ask until it is so."""
        ends = time.monotonic() + DEADLINE
        while not done():
            assert time.monotonic() < ends, "Phoenix did not show it in time"
            time.sleep(0.1)

    def spans(self, traces: list[str]) -> list[Mapping[str, Any]]:
        """The spans of these traces as they are on Phoenix."""
        project = self.api.project(self.project)
        if project is None:
            return []
        asked = {"trace_id": traces}
        return [row for page in self.api.pages(f"/projects/{project}/spans", asked) for row in page]

    def annotations(self, kind: str, ident: str) -> list[Mapping[str, Any]]:
        """All annotations of a span, trace or session, whoever made them."""
        pages = self.api.pages(f"/projects/{self.id}/{kind}_annotations", {f"{kind}_ids": [ident]}, limit=10_000)
        return [row for page in pages for row in page]

    @property
    def id(self) -> str:
        """The project's id."""
        found = self.api.project(self.project)
        assert found is not None
        return found

    def said(self, kind: str, ident: str, name: str, **result: Any) -> None:
        """A person's annotation, as an application sends it."""
        body = {
            f"{kind}_id": ident, "name": name, "annotator_kind": "HUMAN", "result": result, "identifier": "visitor",
        }  # fmt: skip
        self.api.call("POST", f"/{kind}_annotations", json={"data": [body]}, params={"sync": "true"})

    def graphql(self, query: str, **variables: Any) -> Mapping[str, Any]:
        """What Phoenix's own pages ask."""
        reply = httpx2.post(f"{self.url}/graphql", json={"query": query, "variables": variables}, timeout=30)
        told: Mapping[str, Any] = reply.json()
        assert not told.get("errors"), told
        data: Mapping[str, Any] = told["data"]
        return data

    def documents(self, span: str) -> list[Mapping[str, Any]]:
        """The annotations of a retriever's documents, by document and name; REST can't tell them."""
        node = next(row["id"] for row in self.spans_named(span))
        asked = "query($id: ID!) { node(id: $id) { ... on Span { documentEvaluations { name score label explanation "
        asked += "documentPosition annotatorKind } } } }"
        told: list[Mapping[str, Any]] = self.graphql(asked, id=node)["node"]["documentEvaluations"]
        return sorted(told, key=lambda one: (one["documentPosition"], one["name"]))

    def spans_named(self, span: str) -> list[Mapping[str, Any]]:
        """A span by its id."""
        return [row for page in self.api.pages(f"/projects/{self.id}/spans", {"span_id": [span]}) for row in page]


@pytest.fixture
def desk(phoenix_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A project of its own, at the address the environment names."""
    for name in (KEY, HEADERS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(WHERE, phoenix_server.url)
    made = Desk(phoenix_server)
    yield made
    made.api.close()
