"""An evaluator for `evaluate`, `aevaluate` and existing experiments: the run it is shown becomes a record, and a card.

The passages are looked for where the reader looks in any trace: in the run's own inputs and outputs, in its child runs
and, where neither holds them and the SDK loaded no child runs, in the whole trace, fetched by its id. What has no
score has an error that says why; nothing is ever scored for want of passages.

Source: `langsmith.evaluation` of 0.15.1, run against a stand-in. A live target is a RunTree with its child runs and
without its project's id; a run of an existing experiment is a `schemas.Run`, without child runs unless `load_nested`.
Every evaluation writes new feedback, as the SDK's results have no id. Not verified, for no platform was at hand: how
soon the runs of a trace can be fetched after it ended.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
import threading
import time
from collections import deque
from collections.abc import Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from langsmith.evaluation import EvaluationResult, EvaluationResults, RunEvaluator
from langsmith.run_helpers import get_tracing_context
from msgspec.structs import replace

from groundtrace.adapters.experiments import Judged, Scoring, lacks, plain
from groundtrace.adapters.langsmith import feedback, rows
from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.feedback import Place
from groundtrace.adapters.langsmith.payloads import Payloads
from groundtrace.adapters.langsmith.queries import Queries
from groundtrace.adapters.published import PREFIX, Result
from groundtrace.errors import GroundtraceError
from groundtrace.model import Ref

if TYPE_CHECKING:
    import uuid

    from langsmith import Client
    from langsmith.run_trees import RunTree
    from langsmith.schemas import Example, Run

    from groundtrace.model import Record, Scorecard, Trace

_PATIENCE = 60.0
"""Seconds after which a trace is asked for no more, whatever LangSmith says to wait: an experiment waits meanwhile."""

_PAYLOAD = 20_000_000
_MANY, _FRESH = 64, 60.0
"""Whole traces held for other evaluators of the same runs, and for how many seconds."""

_ANYWHERE = Place("", "")
"""The SDK says itself which run its results are on."""

_OUTPUTS = "the run's outputs (context, contexts, documents, retrieved_contexts, sources that are more than names)"
_RETURN = (
    'let the target return its passages, {"answer": ..., "context": [...]}, or trace its retriever as a child run: '
    '@traceable(run_type="retriever")'
)


class Evaluator(RunEvaluator):
    """Scores a run under one rubric; the same object serves `evaluate` and `aevaluate`, in a running loop too.

    `client` is asked for a trace where the run comes without its child runs; else the one that evaluates, else one made
    from the environment. What is raised inside becomes an error of that run: older SDKs lose what an evaluator raises.
    """

    def __init__(self, scoring: Scoring, client: Client | None = None) -> None:
        self.__name__ = self.name = scoring.name
        self._scoring = scoring
        self._client = client
        self._own: _Fetching | None = None

    def __repr__(self) -> str:
        return f"<groundtrace evaluator {self.name}, judge {self._scoring.judge.id}>"

    def __call__(self, run: Run | RunTree, example: Example | None = None) -> EvaluationResults:
        """As `evaluate_run`."""
        return self.evaluate_run(run, example)

    @property
    def key(self) -> str:
        """What the rubric's own score is called on LangSmith; an error stands under it too."""
        return PREFIX + self.name

    @property
    def feedback_keys(self) -> list[str]:
        """Where the SDK counts its progress, and posts what an evaluator raised."""
        return [self.key]

    def evaluate_run(
        self,
        run: Run | RunTree,
        example: Example | None = None,  # noqa: ARG002 - the SDK gives it by name
        evaluator_run_id: uuid.UUID | None = None,  # noqa: ARG002 - same
    ) -> EvaluationResults:
        """The run's scores, each under its own key; an error where there is none. The example is not looked at."""
        said: list[str] = []
        with self._scoring.border(said.append):
            _zoned(run)
            return self._told(self._judged(run))
        return self._told(self._scoring.failed("evaluator_failed", said[0]))

    async def aevaluate_run(
        self,
        run: Run | RunTree,
        example: Example | None = None,
        evaluator_run_id: uuid.UUID | None = None,
    ) -> EvaluationResults:
        """As `evaluate_run`, beside the loop: what it runs meanwhile is not held up."""
        return await asyncio.to_thread(self.evaluate_run, run, example, evaluator_run_id)

    # --- scoring ------------------------------------------------------------------------------------------------------

    def _judged(self, run: Run | RunTree) -> Judged:
        if run.error:
            said = run.error.strip().partition("\n")[0]
            return self._scoring.failed("target_failed", f"there is nothing to judge: {said}")
        records, looked = self._read(run)
        return self._scoring.judged(records, str(run.id), looked, what="run", remedy=_RETURN)

    def _told(self, judged: Judged) -> EvaluationResults:
        card = judged.card
        told = [self._failed(result) if card is None else _result(card, result) for result in judged.results]
        return EvaluationResults(results=told)

    def _failed(self, result: Result) -> EvaluationResult:
        rubric, judge = self._scoring.rubric, self._scoring.judge
        about = {"evaluator": f"groundtrace/{self.name}", "version": rubric.version, "judge": judge.id}
        comment = f"{result.error}: {result.explanation}"[: feedback.COMMENT]
        return EvaluationResult(key=self.key, comment=comment, evaluator_info=about, extra={"error": True})

    # --- finding what was retrieved -----------------------------------------------------------------------------------

    def _read(self, run: Run | RunTree) -> tuple[tuple[Record, ...], str]:
        """The records of a run, and where they were looked for."""
        told = list(_rows(run))
        trace = rows.trace(Ref(rows.PLATFORM, _project(run), _trace_id(run)), told)
        records = self._scoring.records(trace)
        looked = _OUTPUTS if len(told) == 1 else f"{_OUTPUTS} and its {len(told) - 1} child runs"
        if len(told) > 1 or not any(map(lacks, records)):
            return records, looked
        try:
            trace = _below(self._fetched(run), str(run.id))
        except GroundtraceError as error:
            return records, f"{looked}; its trace could not be fetched: {error}"
        if len(trace.spans) < 2:
            none = "there are no other runs in its trace" if trace.spans else "its trace is not there yet"
            return records, f"{looked}; {none}"
        return self._scoring.records(trace), f"{looked} and the {len(trace.spans)} runs of its trace"

    def _fetched(self, run: Run | RunTree) -> Trace:
        """The whole trace of a run; raises what keeps it from being had."""
        client = self._client or get_tracing_context().get("client") or getattr(run, "ls_client", None)
        if client is None:
            self._own = self._own or _Fetching(None)
            return self._own.trace(run)
        return _fetching(client).trace(run)


class _Fetching:
    """Traces as one client sees them: evaluators of the same runs share its rate, and the traces of the last minute."""

    def __init__(self, client: Client | None) -> None:
        self._api = Api(patience=_PATIENCE)
        if client is not None:
            self._api.client = client
        self._held: dict[str, tuple[float, Trace]] = {}
        self._lock = threading.Lock()

    def trace(self, run: Run | RunTree) -> Trace:
        """The trace of a run, or what of it is there: that alone is asked for again by the next evaluator."""
        ident, project = _trace_id(run), _project(run)
        if _project_id(run) is None:  # a live run, which may not have left yet
            self._api.client.flush()
            return self._asked(self._api.project(project or "").id, ident)[0]
        with self._lock:
            at, held = self._held.get(ident, (-_FRESH, None))
        if held is None or time.monotonic() - at > _FRESH:
            held, whole = self._asked(str(project), ident)
            if not whole:
                return held
            with self._lock:
                self._held[ident] = time.monotonic(), held
                while len(self._held) > _MANY:
                    del self._held[next(iter(self._held))]
        return held

    def _asked(self, project: str, ident: str) -> tuple[Trace, bool]:
        """A trace, and whether all of it seems to be there: runs below its root, all of them ended and joined."""
        queries, payloads = Queries(self._api, project), Payloads(_PAYLOAD, lambda: self._api.url)
        try:
            page = queries.trace(ident)
            held = [payloads.filled(row) for row in page.rows]
        finally:
            payloads.close()
        trace = rows.trace(Ref(rows.PLATFORM, project, ident), held, damaged=page.damaged)
        known = {span.id for span in trace.spans}
        joined = all(span.parent_id is None or span.parent_id in known for span in trace.spans)
        return trace, len(known) > 1 and joined and all(map(rows.is_over, held))


@functools.lru_cache(maxsize=8)
def _fetching(client: Client) -> _Fetching:
    return _Fetching(client)


# --- results ----------------------------------------------------------------------------------------------------------


def _result(card: Scorecard, result: Result) -> EvaluationResult:
    """One line of a card, said as the sink says it; without a value it has no number, whatever its label says."""
    made = feedback.body(card, result, _ANYWHERE, extend=False)
    return EvaluationResult(
        key=made["key"],
        score=made["score"],
        value=made["value"],
        comment=made["comment"],
        evaluator_info={**made["feedback_source"]["metadata"], "groundtrace": _version()},
        feedback_config=made.get("feedback_config"),
        extra={"error": True} if made["error"] else None,
    )


@functools.cache
def _version() -> str:
    return version("groundtrace")


def _below(trace: Trace, ident: str) -> Trace:
    """A run of a trace with all below it: what else is in the trace is not its own."""
    held = {ident}
    while more := {span.id for span in trace.spans if span.parent_id in held} - held:
        held |= more
    return replace(trace, spans=tuple(span for span in trace.spans if span.id in held))


# --- runs -------------------------------------------------------------------------------------------------------------


def _zoned(run: Run | RunTree) -> None:
    """Give a run's start its zone: older SDKs send it as it is with the feedback, which is refused then and lost."""
    began = getattr(run, "start_time", None)
    if isinstance(began, dt.datetime) and began.tzinfo is None:
        run.start_time = began.replace(tzinfo=dt.UTC)


def _rows(run: Run | RunTree) -> Iterator[dict[str, Any]]:
    """A run and all below it, each as a row of the API."""
    waiting: deque[Run | RunTree] = deque([run])
    while waiting:
        at = waiting.popleft()
        yield _row(at)
        waiting.extend(getattr(at, "child_runs", None) or ())


def _row(run: Run | RunTree) -> dict[str, Any]:
    """A run as the API would hand it over; what a live one still holds as objects, as it will be sent.

    The SDK has three kinds of run: live ones, those of its first API and those of its second.
    """
    above = getattr(run, "parent_run_id", None)
    told = {
        "id": str(run.id),
        "trace_id": _trace_id(run),
        "parent_run_id": str(above) if above else None,
        "parent_run_ids": getattr(run, "parent_run_ids", None),
        "session_id": _project_id(run),
        "name": run.name,
        "run_type": run.run_type,
        "status": "error" if run.error else "success" if run.end_time else "pending",
        "start_time": run.start_time,
        "end_time": run.end_time,
        "error": run.error,
        "inputs": run.inputs,
        "outputs": run.outputs,
        "extra": {"metadata": getattr(run, "metadata", None) or {}},
        "tags": list(run.tags or ()),
    }
    for side in ("inputs_s3_urls", "outputs_s3_urls"):
        if getattr(run, side, None):
            told[side] = getattr(run, side)
    return {name: plain(value) for name, value in told.items()}


def _project(run: Run | RunTree) -> str | None:
    """The project's id where the run knows it, else its name."""
    return _project_id(run) or getattr(run, "session_name", None)


def _trace_id(run: Run | RunTree) -> str:
    return str(getattr(run, "trace_id", None) or run.id)


def _project_id(run: Run | RunTree) -> str | None:
    known = getattr(run, "session_id", None) or getattr(run, "project_id", None)
    return str(known) if known else None
