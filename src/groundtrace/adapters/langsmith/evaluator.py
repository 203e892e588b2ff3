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
import dataclasses
import datetime as dt
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from langsmith.evaluation import EvaluationResult, EvaluationResults, RunEvaluator
from langsmith.run_helpers import get_tracing_context
from msgspec.structs import replace
from pydantic import BaseModel

from groundtrace.adapters.langsmith import feedback, rows
from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.feedback import Place
from groundtrace.adapters.langsmith.payloads import Payloads
from groundtrace.adapters.langsmith.queries import Queries
from groundtrace.adapters.published import NOT_ASSESSED, PREFIX, Result, results
from groundtrace.errors import GroundtraceError
from groundtrace.evaluate import evaluate
from groundtrace.model import Ref
from groundtrace.read import read

if TYPE_CHECKING:
    import uuid

    from langsmith import Client
    from langsmith.run_trees import RunTree
    from langsmith.schemas import Example, Run

    from groundtrace.model import Record, Scorecard, Trace
    from groundtrace.ports import Convention, Judge, Rubric
    from groundtrace.read.resolve import Resolver
    from groundtrace.read.summaries import Wanted

Border: TypeAlias = "Callable[[Callable[[str], None]], AbstractContextManager[None, bool]]"
"""Inside of it anything may be raised; it tells what was, and goes on."""

_PATIENCE = 60.0
"""Seconds after which a trace is asked for no more, whatever LangSmith says to wait: an experiment waits meanwhile."""

_DEEP = 64
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

    `scores` "headline" gives the rubric's own score alone. `client` is asked for a trace where the run comes without
    its child runs; else the one that evaluates, else one made from the environment. What is raised inside is told by
    `border`, and becomes an error of that run: older SDKs lose what an evaluator raises.
    """

    def __init__(
        self,
        rubric: Rubric,
        judge: Judge,
        conventions: Sequence[Convention],
        border: Border,
        *,
        kind: Wanted = "auto",
        passages: Resolver | None = None,
        scores: Literal["all", "headline"] = "all",
        client: Client | None = None,
    ) -> None:
        self.__name__ = self.name = rubric.name
        self._rubric, self._judge, self._conventions, self._border = rubric, judge, conventions, border
        self._kind, self._passages, self._scores = kind, passages, scores
        self._client = client
        self._own: _Fetching | None = None

    def __repr__(self) -> str:
        return f"<groundtrace evaluator {self.name}, judge {self._judge.id}>"

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
        with self._border(said.append):
            _zoned(run)
            return EvaluationResults(results=self._judged(run))
        return EvaluationResults(results=[self._failed("evaluator_failed", said[0])])

    async def aevaluate_run(
        self,
        run: Run | RunTree,
        example: Example | None = None,
        evaluator_run_id: uuid.UUID | None = None,
    ) -> EvaluationResults:
        """As `evaluate_run`, beside the loop: what it runs meanwhile is not held up."""
        return await asyncio.to_thread(self.evaluate_run, run, example, evaluator_run_id)

    # --- scoring ------------------------------------------------------------------------------------------------------

    def _judged(self, run: Run | RunTree) -> list[EvaluationResult]:
        if run.error:
            said = run.error.strip().partition("\n")[0]
            return [self._failed("target_failed", f"there is nothing to judge: {said}")]
        records, looked = self._read(run)
        record = self._of(records, str(run.id))
        if record is None:
            ids = ", ".join(str(record.ref.span_id) for record in records)
            return [self._failed("ambiguous", f"the run holds {len(records)} requests ({ids}) and is none itself")]
        if record.kind == "other":
            said = "; ".join(f"{gap.field}: {gap.remedy or gap.reason}" for gap in record.gaps)
            return [self._failed("nothing_to_judge", f"no request was found in {looked}; {said}")]
        cards = list(evaluate([record], [self._rubric], self._judge))
        if not cards:
            kinds = " or ".join(self._rubric.kinds)
            hint = f"{self.name} is for records of kind {kinds}, and this run was read as one of kind {record.kind}"
            return [self._failed("other_kind", f'{hint}; say kind="summary" or kind="answer" to have it read as one')]
        return list(self._results(cards[0], looked))

    def _of(self, records: Sequence[Record], ident: str) -> Record | None:
        """The record that is the run's own, else the only one of a kind the rubric is for."""
        own = [record for record in records if record.ref.span_id == ident]
        suited = [record for record in records if record.kind in self._rubric.kinds]
        return next((found[0] for found in (own, suited, records) if len(found) == 1), None)

    def _results(self, card: Scorecard, looked: str) -> Iterator[EvaluationResult]:
        """A card as the SDK takes it; `looked` says where passages were looked for."""
        published = results(card)
        if card.status == "scored" and self._scores == "headline":
            published = tuple(result for result in published if result.score == self.name)
            if not published:
                why = f"{card.judge} does not assess all of {self.name}, which has no score of its own then"
                published = (Result(self.name, "", card.content_hash, label=NOT_ASSESSED, explanation=why),)
        for result in published:
            lacks = result.error is not None and (card.reason or "").startswith("context_")
            more = f". Looked in {looked}; {_RETURN}" if lacks else ""
            yield _result(card, dataclasses.replace(result, explanation=f"{result.explanation}{more}"))

    def _failed(self, reason: str, why: str) -> EvaluationResult:
        about = {"evaluator": f"groundtrace/{self.name}", "version": self._rubric.version, "judge": self._judge.id}
        comment = f"{reason}: {why}"[: feedback.COMMENT]
        return EvaluationResult(key=self.key, comment=comment, evaluator_info=about, extra={"error": True})

    # --- finding what was retrieved -----------------------------------------------------------------------------------

    def _read(self, run: Run | RunTree) -> tuple[tuple[Record, ...], str]:
        """The records of a run, and where they were looked for."""
        told = list(_rows(run))
        trace = rows.trace(Ref(rows.PLATFORM, _project(run), _trace_id(run)), told)
        records = self._records(trace)
        looked = _OUTPUTS if len(told) == 1 else f"{_OUTPUTS} and its {len(told) - 1} child runs"
        if len(told) > 1 or not any(map(_lacks, records)):
            return records, looked
        try:
            trace = _below(self._fetched(run), str(run.id))
        except GroundtraceError as error:
            return records, f"{looked}; its trace could not be fetched: {error}"
        if len(trace.spans) < 2:
            none = "there are no other runs in its trace" if trace.spans else "its trace is not there yet"
            return records, f"{looked}; {none}"
        return self._records(trace), f"{looked} and the {len(trace.spans)} runs of its trace"

    def _records(self, trace: Trace) -> tuple[Record, ...]:
        return read(trace, self._conventions, kind=self._kind, passages=self._passages)

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


def _lacks(record: Record) -> bool:
    """Whether more of the trace may tell what a record lacks."""
    return record.kind == "other" or record.gap("context") is not None or record.gap("answer") is not None


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


def plain(value: object, above: tuple[int, ...] = ()) -> Any:
    """A value as JSON has it: what a live run holds as objects, in the form the SDK sends them.

    >>> import datetime as dt
    >>> plain({"at": dt.datetime(2026, 11, 30, tzinfo=dt.UTC), "found": ("a", "b")})
    {'at': '2026-11-30T00:00:00+00:00', 'found': ['a', 'b']}
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if id(value) in above or len(above) >= _DEEP:  # it holds itself, or is no end of a thing
        return None
    path = (*above, id(value))
    held = _parts(value)
    if isinstance(held, Mapping):
        return {str(name): plain(part, path) for name, part in held.items()}
    if isinstance(held, (list, tuple, set, frozenset)):
        return [plain(part, path) for part in held]
    return held.isoformat() if isinstance(held, dt.datetime) else str(held)


def _parts(value: Any) -> Any:
    """What an object is made of, by name: models of pydantic, old and new, dataclasses, arrays."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    if isinstance(value, type):
        return value
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "__fields__") and hasattr(value, "dict"):
        return value.dict(exclude_none=True)
    return value.tolist() if hasattr(value, "tolist") else value


def _project(run: Run | RunTree) -> str | None:
    """The project's id where the run knows it, else its name."""
    return _project_id(run) or getattr(run, "session_name", None)


def _trace_id(run: Run | RunTree) -> str:
    return str(getattr(run, "trace_id", None) or run.id)


def _project_id(run: Run | RunTree) -> str | None:
    known = getattr(run, "session_id", None) or getattr(run, "project_id", None)
    return str(known) if known else None
