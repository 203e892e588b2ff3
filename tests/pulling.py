"""A LangSmith to pull traces from: the stand-in, with traces the real SDK wrote, and hand-made ones."""

from __future__ import annotations

import datetime as dt
import json
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from langsmith import Client, RunTree, traceable, tracing_context
from langsmith.utils import get_env_var

from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.source import LangSmithSource
from groundtrace.model import Ref, Signal, Trace, Window
from standins.langsmith import Store, serve

PROJECT = "ferries"
NOW = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)
"""When the pulls of hand-made traces take place."""

WEEKS = Window(int((NOW - dt.timedelta(days=30)).timestamp()) * 10**9, None)
ROWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "fixtures" / "traces" / "langsmith-runs.json").read_text(encoding="utf-8")
)
"""Runs of real LangChain, LangGraph, @traceable functions and wrapped clients."""

ANSWER = "At 21:40 [1]."
DOCUMENT = {"page_content": "The night ferry leaves at 21:40.", "metadata": {}, "type": "Document"}


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

    def source(self, now: dt.datetime = NOW, **told: Any) -> LangSmithSource:
        """A source on it, at that time, on which nobody really waits."""
        made = LangSmithSource(PROJECT, url=self.url, clock=now.timestamp, **told)
        made.api = Api(self.url, patience=5.0, sleep=self._sleep)
        return made

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        time.sleep(0.001)  # others have their turn

    def run(self, n: int, parent: int | None = None, *, root: int | None = None, **told: Any) -> str:
        """The n-th run, ended; the root of a trace unless a parent is named. Its id."""
        ident, top = str(uuid.UUID(int=n)), root or parent or n
        begun = told.pop("begun", NOW - dt.timedelta(hours=2) + dt.timedelta(seconds=n % 3600))
        body = {"id": ident, "trace_id": str(uuid.UUID(int=top)), "name": f"run {n}", "run_type": "chain"}
        body |= {"session_name": PROJECT, "start_time": begun.isoformat(), "inputs": {"q": "When?"}}
        body |= {"end_time": (begun + dt.timedelta(seconds=1)).isoformat(), "outputs": {"output": "At 21:40 [1]."}}
        body["parent_run_id"] = None if parent is None else str(uuid.UUID(int=parent))
        above = [] if parent is None else [self._order(parent)]
        body["dotted_order"] = ".".join([*above, f"{begun:%Y%m%dT%H%M%S%f}Z{ident}"])
        self.store.upsert_run("post", body | told)
        return ident

    def _order(self, n: int) -> str:
        """Where a run stands, also one that never came."""
        ident = str(uuid.UUID(int=n))
        return str(self.store.runs.get(ident, {}).get("dotted_order") or f"{NOW:%Y%m%dT%H%M%S%f}Z{ident}")

    def rag(self, n: int, **told: Any) -> str:
        """The n-th trace: a root and its retriever, whose number is a million higher."""
        retrieved = {"outputs": {"documents": [DOCUMENT]}, "run_type": "retriever", "inputs": {"query": "When?"}}
        ident = self.run(n, **told)
        self.run(n + 10**6, n, begun=told.get("begun", NOW - dt.timedelta(hours=2)), **retrieved)
        return ident

    def complain(self, n: int, key: str = "thumb", score: float | None = 0, **told: Any) -> str:
        """Feedback of a user on the n-th run; its id."""
        ident = str(uuid.uuid4())
        body = {"id": ident, "run_id": str(uuid.UUID(int=n)), "key": key, "score": score}
        self.store.upsert_feedback({**body, "feedback_source": {"type": "app"}, **told})
        return ident

    def asked(self, path: str) -> list[dict[str, Any]]:
        """What was asked of it."""
        return [row for row in self.store.log if path in row["path"]]

    def fault(self, path: str, times: int = 1, method: str = "POST", **told: Any) -> None:
        """Make trouble."""
        self.store.faults.append({"method": method, "path": path, "times": times, **told})


@contextmanager
def standing(
    monkeypatch: pytest.MonkeyPatch, serving: Callable[..., tuple[Any, Any, str]] = serve, **settings: Any
) -> Iterator[Stand]:
    """A stand-in, and an environment in which the SDK finds a key."""
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_test")
    for name in ("LANGSMITH_ENDPOINT", "LANGSMITH_PROJECT", "LANGSMITH_WORKSPACE_ID", "LANGSMITH_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    get_env_var.cache_clear()
    server, store, url = serving(**settings)
    stand = Stand(server, store, url)
    store.session_by_name(PROJECT)
    try:
        yield stand
    finally:
        server.shutdown()
        server.server_close()
        get_env_var.cache_clear()


def pulled(
    source: LangSmithSource, window: Window = WEEKS, choose: Callable[..., bool] = lambda _ref, _signals: True
) -> dict[str, Trace]:
    """The traces a source gives, by id; none is given twice."""
    traces = list(source.traces(window, choose))
    found = {trace.ref.trace_id: trace for trace in traces}
    assert len(found) == len(traces)
    return found


def names(traces: dict[str, Trace]) -> list[int]:
    """The numbers of hand-made traces."""
    return sorted(uuid.UUID(ident).int for ident in traces)


class Choosing:
    """Chooses as it is told, and remembers what it was asked."""

    def __init__(self, wanted: Callable[[Ref, Sequence[Signal]], bool], *, patient: bool = False) -> None:
        self.wanted, self.patient = wanted, patient
        self.asked: list[str] = []
        self.signals: dict[str, tuple[Signal, ...]] = {}

    def __call__(self, ref: Ref, signals: tuple[Signal, ...]) -> bool:
        self.asked.append(ref.trace_id)
        self.signals[ref.trace_id] = signals
        return self.wanted(ref, signals)


# --- traces the real SDK writes -------------------------------------------------------------------


def write(stand: Stand, count: int) -> None:
    """Traces of five kinds in turn.

    @traceable functions, RunTrees made by hand, a wrapped client of OpenAI's, LangChain and LangGraph.
    """
    client = Client(api_url=stand.url, api_key="lsv2_test")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the libraries' own imports of what was moved
        from langchain_core.tracers import LangChainTracer
        from langsmith.wrappers import wrap_openai

        from chains import Runs, applications

    model = wrap_openai(
        openai.OpenAI(api_key="k", base_url="http://127.0.0.1:9/v1", http_client=httpx.Client(transport=_Reply())),
        tracing_extra={"client": client},
    )
    chain, graph = applications(DOCUMENT["page_content"], ANSWER)
    tracer, runs = LangChainTracer(client=client, project_name=PROJECT), Runs()

    @traceable(run_type="retriever", client=client, project_name=PROJECT)
    def search(query: str) -> list[dict[str, Any]]:
        return [DOCUMENT, {"page_content": f"About {query}", "metadata": {"id": query}}]

    @traceable(client=client, project_name=PROJECT)
    def traced(query: str) -> dict[str, str]:
        search(query)
        return {"answer": f"{ANSWER} ({query})"}

    @traceable(client=client, project_name=PROJECT)
    def asked(query: str) -> str:
        found = search(query)[0]["page_content"]
        told = [{"role": "user", "content": f"<context>{found}</context> {query}"}]
        return str(model.chat.completions.create(model="gpt-5.2", messages=told).choices[0].message.content)

    kinds: list[tuple[Callable[[str], object], int]] = [
        (traced, 2),
        (lambda query: _tree(client, query), 2),
        (asked, 3),
        (lambda query: chain(query, {"callbacks": [tracer, runs]}), 0),
        (lambda query: graph(query, {"callbacks": [tracer, runs]}), 0),
    ]
    written = 0
    with tracing_context(enabled=True, client=client, project_name=PROJECT):
        for n in range(count):
            ask, several = kinds[n % len(kinds)]
            ask(f"when {n}?")
            written += several
    client.flush()
    until = time.monotonic() + 60  # what is queued may still be under way once it was flushed
    while len(sent := [*stand.store.runs.values()]) < written + runs.begun or not all(r.get("end_time") for r in sent):
        assert time.monotonic() < until, "the SDK did not send all it had"
        time.sleep(0.01)
    getattr(client, "close", client.cleanup)()


def _tree(client: Client, query: str) -> None:
    root = RunTree(name="tree", run_type="chain", inputs={"question": query}, client=client, project_name=PROJECT)
    root.post()
    child = root.create_child(name="docs", run_type="retriever", inputs={"query": query})
    child.post()
    child.end(outputs={"documents": [DOCUMENT]})
    child.patch()
    root.end(outputs={"output": f"{ANSWER} ({query})"})
    root.patch()


class _Reply(httpx.BaseTransport):
    """A provider that always says the same."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
        told = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5.2", "choices": [choice]}
        return httpx.Response(
            200, json=told | {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        )


def day(now: dt.datetime = NOW) -> Window:
    """The day before a time."""
    return Window(int((now - dt.timedelta(days=1)).timestamp()) * 10**9, None)


def later(seconds: float = 3600.0) -> dt.datetime:
    """Some time after what the SDK just wrote."""
    return dt.datetime.fromtimestamp(time.time() + seconds, dt.UTC)
