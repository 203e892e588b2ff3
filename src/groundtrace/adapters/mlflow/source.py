"""Traces pulled from an MLflow experiment: what is told of them first, then the spans of those that were chosen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from groundtrace.adapters.losses import Losses, Problem
from groundtrace.adapters.mlflow import losses, said, spans
from groundtrace.adapters.mlflow.api import PLATFORM, Api, Row
from groundtrace.adapters.mlflow.times import lasted, milliseconds
from groundtrace.adapters.mlflow.times import said as written
from groundtrace.adapters.times import last_day
from groundtrace.model import Check, Label, Ref, Signal, Trace, Window

if TYPE_CHECKING:
    from groundtrace.adapters.mlflow.review import Answers
    from groundtrace.ports import Choose, Sink

_DAY = 86_400_000
_TOGETHER = 20
"""Traces whose spans are asked for, and held, at a time."""

_AFTER = 900_000
"""How far the clocks of two machines may be apart, in milliseconds."""

_STALE = 3_600_000
"""After which a span that has not ended, or has not come, is taken to be lost."""

_OVERLAP = 300_000
"""What was said within so many milliseconds before the last look is looked at again."""

_LATE = 30 * _DAY
"""How old a trace may be that a complaint brings back: MLflow finds none by when something was said of it."""

Chosen = tuple[Row, tuple[Signal, ...]]
"""What is told of a trace that was chosen, and what people said of it."""


class MLflowSource:
    """Traces of an MLflow experiment, by its name or id, from the server `tracking_uri` or MLFLOW_TRACKING_URI.

    Who asks is in MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD. Only traces are
    looked at that fit `filter`, in MLflow's own language (``tag.`env` = 'prod' AND trace.status = 'OK'``). A trace is
    left for the next run until `settle` seconds after it ended. Without a time to begin at, the last 24 hours are
    looked at. With `ids` these traces and no others are looked at, whenever they were.
    """

    platform = PLATFORM
    default_share = 0.1

    def __init__(
        self,
        experiment: str,
        *,
        tracking_uri: str | None = None,
        filter: str = "",  # noqa: A002 - MLflow's own word
        settle: float = 30.0,
        ids: str | Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.project = experiment
        self.api = Api(tracking_uri)
        _ = self.api.url  # what is no address is said before anything starts
        self._filter, self._settle = filter.strip(), int(settle * 1000)
        self._ids = ((ids,) if ids else ()) if isinstance(ids, str) else tuple(ids)
        self._clock = clock
        self._begin()
        self._watermark: str | None = None
        self._answers: Answers | None = None

    def _begin(self) -> None:
        """Forget what was noted of an earlier reading."""
        self._losses, self._window_note = Losses(), ""

    # --- the port -----------------------------------------------------------------------------------------------------

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:  # noqa: ARG002 - what was judged before is in the memory
        """The traces that began in the window, oldest first; one that may still grow is given with `complete` false."""
        self._begin()
        if self._ids:
            yield from self._named(choose)
            return
        now = self._now()
        until = now if window.until is None else min(-(-window.until // 1_000_000), now)
        since = until - _DAY if window.since is None else window.since // 1_000_000
        experiment = self._experiment
        if window.since is None:
            self._window_note = last_day(written(since)[:19])
        patient = getattr(choose, "patient", False)
        failed = self._failed(since, until) if patient else frozenset()
        for page in self.api.infos(experiment, since, until, self._filter):
            chosen: list[Chosen] = []
            for info in page:
                told = said.signals(info, failed=str(info.get("trace_id")) in failed)
                if choose(spans.ref(info, experiment), told):
                    chosen.append((info, told))
            yield from self._whole(chosen)

    def late(self, window: Window, since: str | None, choose: Choose) -> Iterator[Trace]:
        """The traces of the last 30 days that users complained about after `since`, or since the window began."""
        if self._ids:
            return
        now = self._now()
        began = now - _DAY if window.since is None else window.since // 1_000_000
        heard = _heard(since)
        after = began if heard is None else heard - _OVERLAP
        self._watermark = None
        experiment = self._experiment
        for page in self.api.infos(experiment, now - _LATE, now, self._filter):
            chosen = [(info, told) for info in page if (told := said.complaints(info, after))]
            yield from self._whole([one for one in chosen if choose(spans.ref(one[0], experiment), one[1])])
        self._watermark = json.dumps({"at": now, "time": written(now)})

    def watermark(self) -> str | None:
        """How far was heard, once `late` came to its end."""
        return self._watermark

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """What people said on MLflow of our scores."""
        from groundtrace.adapters.mlflow.review import Answers  # noqa: PLC0415 - only who asks needs it

        answers = self._answers = Answers(self.api, self._experiment)
        yield from answers.labels(since, until=self._now())

    def doctor(self) -> Iterable[Check]:
        """What is well and what is not between here and the experiment."""
        from groundtrace.adapters.mlflow import doctor  # noqa: PLC0415 - only who asks needs it

        yield from doctor.checks(self.api, self.project, now=self._now())

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for MLflow no more once `stopping` says so."""
        self.api.stop_when(stopping)

    def home(self) -> Sink:
        """The sink that writes scores as assessments of these traces."""
        from groundtrace.adapters.mlflow.sink import MLflowSink  # noqa: PLC0415 - a dry run needs none

        return MLflowSink(self.project, api=self.api)

    def notes(self) -> tuple[str, ...]:
        """What was left or lost so far, one line each."""
        said_of = self._answers.notes() if self._answers else ()
        return (*([self._window_note] if self._window_note else ()), *self._losses.notes(), *said_of)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def _experiment(self) -> str:
        return self.api.experiment(self.project).id

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _failed(self, since: int, until: int) -> frozenset[str]:
        """The traces of a time in which any span failed."""
        where = "span.status = 'ERROR'" + (f" AND {self._filter}" if self._filter else "")
        pages = self.api.infos(self._experiment, since, until, where)
        return frozenset(str(info.get("trace_id")) for page in pages for info in page)

    def _named(self, choose: Choose) -> Iterator[Trace]:
        """The traces asked for by their ids."""
        ids = [ident if ident.startswith("tr") else f"tr-{ident}" for ident in self._ids]
        told = self.api.told(ids)
        self._losses.add(losses.GONE, len({*ids} - {*told}))
        yield from self._whole([(told[i], ()) for i in ids if i in told and choose(self._ref(i), ())])

    def _ref(self, trace_id: str) -> Ref:
        return Ref(PLATFORM, self._experiment, trace_id)

    def _whole(self, chosen: Sequence[Chosen]) -> Iterator[Trace]:
        """The chosen traces with their spans; those that are not over are given as they are."""
        over: list[Chosen] = []
        for info, told in chosen:
            waiting = self._waiting(info)
            if waiting is None:
                over.append((info, told))
            elif self._noted(waiting) is not losses.STALE:
                yield Trace(spans.ref(info, self._experiment), signals=told, complete=False)
        for start in range(0, len(over), _TOGETHER):
            batch = over[start : start + _TOGETHER]
            found = self.api.whole([str(info.get("trace_id")) for info, _ in batch])
            for info, told in batch:
                yield from self._made(*found.get(str(info.get("trace_id")), (info, [])), told)

    def _made(self, info: Row, rows: Sequence[Row], told: tuple[Signal, ...]) -> Iterator[Trace]:
        """A trace of its spans; it is not complete while some of them are still to end or to come."""
        if not rows and not spans.is_elsewhere(info) and not self._is_recent(_end_of(info)):
            rows = self.api.partly(str(info.get("trace_id")))  # what is not all there is not given with others
        if not rows:
            elsewhere = spans.is_elsewhere(info)
            self._noted(losses.ELSEWHERE if elsewhere else losses.VANISHED)
            if not elsewhere:
                yield Trace(spans.ref(info, self._experiment), signals=told, complete=False)
            return
        made = spans.trace(info, rows, self._experiment, signals=told)
        if all(span.is_judging for span in made.spans):
            self._noted(losses.OURS)
            return
        problem = self._unfinished(made)
        if problem is not None:
            self._noted(problem)
        yield replace(made, complete=problem not in (losses.GROWING, losses.YOUNG))

    def _noted(self, problem: Problem) -> Problem:
        self._losses.add(problem)
        return problem

    def _waiting(self, info: Row) -> Problem | None:
        """Why a trace is not looked at yet, by what is told of it; None where it can be."""
        if info.get("state") == "IN_PROGRESS":
            began = milliseconds(info.get("request_time"))
            return losses.STALE if began is not None and began < self._now() - _DAY else losses.PENDING
        return losses.YOUNG if self._is_young(_end_of(info)) else None

    def _is_young(self, end: int | None) -> bool:
        """Whether something ended just now; an end that is to come for long is a wrong clock's, and not waited for."""
        now = self._now()
        return end is not None and now - self._settle < end < now + _AFTER

    def _is_recent(self, end: int | None) -> bool:
        """Whether what is missing may still come."""
        return end is not None and end > self._now() - _STALE

    def _unfinished(self, made: Trace) -> Problem | None:
        """What of a trace has not ended or not come; long after the last one that did, nothing more is waited for."""
        ends = [span.end // 1_000_000 for span in made.spans if span.end is not None]
        recent = self._is_recent(max(ends, default=None))
        held = {span.id for span in made.spans}
        if any(span.end is None for span in made.spans):
            return losses.GROWING if recent else losses.UNENDED
        if any(self._is_young(end) for end in ends):
            return losses.YOUNG
        if any(span.parent_id is not None and span.parent_id not in held for span in made.spans):
            return losses.GROWING if recent else losses.ORPHANED
        return None


def _end_of(info: Row) -> int | None:
    """When a trace ended, as far as it is told."""
    began = milliseconds(info.get("request_time"))
    return None if began is None else began + (lasted(info.get("execution_duration")) or 0)


def _heard(kept: str | None) -> int | None:
    """Until when was heard, as it was kept."""
    try:
        return int(json.loads(kept)["at"]) if kept else None
    except (ValueError, TypeError, KeyError):
        return None
