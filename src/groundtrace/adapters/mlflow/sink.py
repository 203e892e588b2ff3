"""Scores as assessments of MLflow's traces: read what is there, write what differs, look whether it has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from groundtrace.adapters.facts import fault
from groundtrace.adapters.mlflow import assessments
from groundtrace.adapters.mlflow.api import Api
from groundtrace.adapters.mlflow.assessments import Held, Place, Where
from groundtrace.adapters.mlflow.said import assessments as listed
from groundtrace.adapters.patience import AGAIN, WAITS, Refused
from groundtrace.adapters.published import Result, State, receipts_of, results, withdrawn
from groundtrace.errors import PlanError
from groundtrace.model import Receipt, Scorecard

CARDS = 50
"""Cards whose traces are asked about at once."""

_FATAL = frozenset({401, 403})
"""What says that no other write will be taken either."""

_OF_ONE = frozenset({400, 404, 409, 413, 422})
"""What is said of one write alone; anything else was asked again for as long as is waited."""

_KEPT = "a person's or a better judge's score stands"
_EDITED = "somebody changed it on MLflow"
_ABSENT = "MLflow has no such trace, or not yet"


class MLflowSink:
    """Puts each published score on its trace as one assessment, under its short name.

    A second run changes nothing, and a new version replaces the old one in place: assessments are found by what their
    metadata says, then made, changed or left, and never deleted. What people said is never written over, nor what
    somebody changed of ours. `experiment` is only looked for, so that a wrong name is heard of: a trace's id says where
    it is. `target` is what carries the scores: the span of the whole request (`root`), of the answer or of the
    retriever, or no span but the `trace`; MLflow's table shows them all alike.
    """

    name = "mlflow"
    updates: Literal["upsert", "append"] = "upsert"
    reads_back = True
    batch = CARDS

    def __init__(
        self,
        experiment: str | None = None,
        *,
        tracking_uri: str | None = None,
        target: Where = "root",
        concurrency: int = 8,
        api: Api | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if concurrency < 1:
            raise PlanError("concurrency", concurrency, "is no number of threads")
        self.api = api or Api(tracking_uri)
        _ = self.api.url  # what is no address is said before anything starts
        self._experiment, self._target, self._threads = experiment, target, concurrency
        self._known, self._sleep = experiment is None, sleep

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for MLflow no more once `stopping` says so."""
        self.api.stop_when(stopping)

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Write the cards' scores and say what became of each one; PlatformError where MLflow takes none at all."""
        left = iter(cards)
        while chunk := list(islice(left, CARDS)):
            yield from self._chunk(chunk)

    def _chunk(self, cards: Sequence[Scorecard]) -> Iterator[Receipt]:
        if not self._known and self._experiment is not None:
            self.api.experiment(self._experiment)
            self._known = True
        leaving = [_Leaving(card, assessments.place_of(card, self._target)) for card in cards]
        held = self._read({one.place.trace_id for one in leaving if one.place})
        due = [write for one in leaving for write in one.decide(held)]
        refused = self._send([write for write in due if write.state is None])
        self._confirm([write for write in due if write.went])
        for one in leaving:
            yield from one.receipts(self.name)
        if refused is not None:
            raise refused

    def _read(self, trace_ids: Iterable[str], patience: float | None = None) -> dict[str, list[Held]]:
        """Our assessments of these traces, by trace; one that is not there is left out."""
        told = self.api.told(sorted(trace_ids), patience)
        return {trace_id: assessments.held(listed(info)) for trace_id, info in told.items()}

    def _send(self, due: Sequence[_Write]) -> Refused | None:
        """Send each; where MLflow refuses all, or did not answer one for as long as is waited, the rest is left."""
        stopped: list[Refused] = []

        def send(write: _Write) -> None:
            if not stopped and (refused := self._tried(write)) is not None:
                stopped.append(refused)

        if due:
            with ThreadPoolExecutor(min(self._threads, len(due)), "mlflow") as pool:
                list(pool.map(send, due))
        for write in due if stopped else ():
            if write.state is None:
                write.end("failed", str(stopped[0]))
        return next((refused for refused in stopped if refused.status in _FATAL), None)

    def _tried(self, write: _Write) -> Refused | None:
        """Send one; what was refused is given where it says that the next one will be too."""
        try:
            self._put(write)
        except Refused as refused:
            if refused.status == 0:
                write.doubt(str(refused))
            elif refused.status == 404:
                write.end("unconfirmed", _ABSENT)
            elif refused.status not in _FATAL:
                write.end("failed", str(refused))
            return None if refused.status in _OF_ONE else refused
        return None

    def _put(self, write: _Write) -> None:
        made, there = write.made, write.there
        if there is None:
            self._make(write, made)
        elif there.source_type == made["source"]["source_type"]:
            change = assessments.changed(made, there)
            self.api.change(write.place.trace_id, there.id, change, assessments.FIELDS)
        else:  # whose word it is can't be changed
            self._make(write, {**made, "overrides": there.id})
        write.end("written")

    def _make(self, write: _Write, made: Mapping[str, Any]) -> None:
        """Make one. What had no answer may have arrived, so it is looked for before it is sent again."""
        for wait in (*WAITS, None):
            try:
                self.api.create(write.place.trace_id, made)
            except Refused as refused:
                if refused.status not in AGAIN and refused.status != 0:
                    raise
                if write.is_in(self._read([write.place.trace_id]).get(write.place.trace_id, ())):
                    return
                if wait is None:
                    raise
                self._sleep(max(wait, refused.retry_after or 0.0))
            else:
                return

    def _confirm(self, went: Sequence[_Write]) -> None:
        """Look whether what was taken is there."""
        if not went:
            return
        try:
            held = self._read({write.place.trace_id for write in went})
        except Refused as refused:
            for write in went:
                write.end("unconfirmed", write.reason or f"it could not be read back: {refused}")
            return
        for write in went:
            if write.is_in(held.get(write.place.trace_id, ())):
                write.end("written")
            else:
                write.end("unconfirmed", write.reason or "MLflow took it and does not tell of it")


@dataclass
class _Write:
    """One result on its way: what is sent of it, what is there, and what became of it (None: nothing yet)."""

    result: Result
    place: Place
    made: Mapping[str, Any]
    there: Held | None
    state: State | None = None
    reason: str = ""
    went: bool = False

    def end(self, state: State, reason: str = "") -> None:
        """Note what became of it."""
        self.state, self.reason, self.went = state, reason, state == "written"

    def doubt(self, reason: str) -> None:
        """Note that no answer came: it may have arrived."""
        self.state, self.reason, self.went = "unconfirmed", reason, True

    def is_in(self, held: Iterable[Held]) -> bool:
        """Whether it is there as it was to be."""
        row = _of(held, self.result.feedback_id, self.place)
        return row is not None and assessments.stands(row, self.made)


@dataclass
class _Leaving:
    """A card on its way out."""

    card: Scorecard
    place: Place | None
    writes: list[_Write] = field(default_factory=list)
    fate: tuple[State, str] | None = None

    def decide(self, held: Mapping[str, Sequence[Held]]) -> list[_Write]:
        """What is to be done with each of its results, held against what is there."""
        if self.place is None:
            self.fate = "failed", f"{self.card.ref.trace_id!r} is no trace of MLflow's"
            return []
        if self.place.trace_id not in held:
            self.fate = "unconfirmed", _ABSENT
            return []
        rows = held[self.place.trace_id]
        mine = [row.score for row in rows if row.identifier == self.card.feedback_id(row.score)]
        for result in (*results(self.card), *withdrawn(self.card, mine)):
            if (wrong := fault(result)) is not None:
                self.writes.append(_Write(result, self.place, {}, None, "failed", wrong))
                continue
            row = _of(rows, result.feedback_id, self.place)
            write = _Write(result, self.place, assessments.body(self.card, result, self.place), row)
            if row is not None:
                self._against(row, write)
            self.writes.append(write)
        return self.writes

    def _against(self, row: Held, write: _Write) -> None:
        due = assessments.due_of(self.card, write.result)
        if row.edited:
            write.state, write.reason = "kept", _EDITED
        elif row.stamp.content_hash == due.content_hash:
            write.state = "unchanged"
        elif row.stamp.rank > due.rank or row.outspoken:
            write.state, write.reason = "kept", _KEPT

    def receipts(self, sink: str) -> Iterator[Receipt]:
        """What became of each of its scores."""
        return receipts_of(self.card, sink, self.writes, self.fate)


def _of(held: Iterable[Held], identifier: str, place: Place) -> Held | None:
    """The assessment of a score that is at a place."""
    return next((row for row in held if row.identifier == identifier and row.span_id == place.span_id), None)
