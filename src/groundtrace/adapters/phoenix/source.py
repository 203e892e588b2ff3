"""Traces pulled from a Phoenix project: listed first, then all spans of those that were chosen, fifty at a time."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from groundtrace.adapters import phoenix_json
from groundtrace.adapters.losses import Losses, Problem
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.phoenix.api import PAGE, PLATFORM, Api, Row
from groundtrace.adapters.phoenix.said import Heard, Mark, Scale, complaints, scale
from groundtrace.adapters.times import last_day
from groundtrace.adapters.values import moment
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Check, Label, Ref, Signal, Span, Trace, Window
from groundtrace.sampling import ERROR

if TYPE_CHECKING:
    from groundtrace.adapters.phoenix.review import Answers
    from groundtrace.ports import Choose, Sink

_SECOND = 1_000_000_000
DAY = 86_400 * _SECOND

_BATCH = 50
"""Traces whose spans are asked for, and held, at a time."""

_STALE = 900 * _SECOND
"""After which what a span stands below is taken never to come: it is traced elsewhere, or its export was lost."""

_AHEAD = 900 * _SECOND
"""How far the clocks of two machines may be apart."""

_LATE = 90 * DAY
"""How old a trace may be that a complaint brings back."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

OURS = "{n} trace of our own judges: left out", "{n} traces of our own judges: left out"
YOUNG = "{n} trace ended just now: left for the next run", "{n} traces ended just now: left for the next run"
GROWING = (
    "{n} trace has spans whose parents have not come yet: left for the next run",
    "{n} traces have spans whose parents have not come yet: left for the next run",
)
ORPHANED = (
    "{n} trace has spans whose parents are not on Phoenix: read as it is",
    "{n} traces have spans whose parents are not on Phoenix: read as they are",
)
VANISHED = (
    "{n} trace was named, but Phoenix has no spans of it: left for the next run",
    "{n} traces were named, but Phoenix has no spans of them: left for the next run",
)
DAMAGED = (
    "{n} answer of Phoenix held halves of characters, which are U+FFFD now",
    "{n} answers of Phoenix held halves of characters, which are U+FFFD now",
)
UNHEARD = ("Phoenix could not say which traces people complained of: they were sampled as all others",) * 2

Chosen = tuple[Ref, tuple[Signal, ...]]
"""A trace that was chosen, and what people said of it."""


class PhoenixSource:
    """Traces of a Phoenix project, by its name or id; the key, where Phoenix asks for one, is PHOENIX_API_KEY.

    `base_url` is Phoenix's address (else PHOENIX_COLLECTOR_ENDPOINT, else this machine's). Only traces are looked at
    that fit `filter`, in Phoenix's own language for traces, with or without an `error`, of one `session`. A trace is
    left for the next run until `settle` seconds after its last span ended. Without a time to begin at, the last 24
    hours are looked at. With `ids` these traces and no others are looked at, whenever they were.
    """

    platform = PLATFORM
    default_share = 0.1

    def __init__(
        self,
        project: str,
        *,
        base_url: str | None = None,
        filter: str = "",  # noqa: A002 - Phoenix's own word
        error: bool | None = None,
        session: str = "",
        settle: float = 30.0,
        ids: str | Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.project = project
        self.api = Api(base_url)
        failed = {None: "", True: "error_count > 0", False: "error_count == 0"}[error]
        self._filter = " and ".join(f"({one})" for one in (filter.strip(), failed) if one)
        self._told_filter, self._session = filter, session
        self._settle = int(settle * _SECOND)
        self._ids = ((ids,) if ids else ()) if isinstance(ids, str) else tuple(ids)
        self._clock = clock
        self._watermark: str | None = None
        self._answers: Answers | None = None
        self._begin()

    def _begin(self) -> None:
        """Forget what was noted of an earlier reading."""
        self._losses = Losses()
        self._notes: dict[str, None] = {}

    # --- the port -----------------------------------------------------------------------------------------------------

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:  # noqa: ARG002 - what was judged before is in the memory
        """The traces that began in the window, the oldest first.

        A trace that ended just now, or of which parents are still to come, is given with `complete` false.
        PlatformError for a project that is not there, or not yet.
        """
        self._begin()
        project = self._there()
        if self._ids:
            yield from self._whole(project, self._chosen(((ident, ()) for ident in self._ids), choose))
            return
        now = self._now()
        until = min(window.until, now) if window.until is not None else now
        since = window.since
        if since is None:
            since = until - DAY
            self._note(last_day(written(since)[:19]))
        asked = self._asked(since, until)
        heard = self._heard(project, asked)
        failed = self._failed(project, asked) if getattr(choose, "patient", False) else frozenset[str]()
        seen: set[str] = set()
        for page in self._listed(project, asked):
            told = []
            for row in page:
                ident = str(row.get("trace_id"))
                if ident in seen:
                    continue
                seen.add(ident)
                told.append((row, _signals(ident, heard, failed)))
            yield from self._page(project, told, choose)

    def late(self, window: Window, since: str | None, choose: Choose) -> Iterator[Trace]:
        """The traces, of any time in 90 days, that people complained about after `since`, or since the window began."""
        self._watermark = None
        if self._ids:
            return
        project = self._there()
        now = self._now()
        mark = (Mark.of(since) if since else None) or Mark(window.since if window.since is not None else now - DAY)
        heard = self._heard(project, self._asked(now - _LATE, now))
        new = {
            ident: told.signals
            for ident, told in sorted(heard.items())
            if any(mark.is_new(*complaint) for complaint in told.complaints.items())
        }
        yield from self._whole(project, self._chosen(new.items(), choose))
        # Phoenix's own times are compared with each other: no other clock has a say in it
        then = mark.then(complaint for told in heard.values() for complaint in told.complaints.items())
        self._watermark = " ".join([written(then.at), *sorted(then.known)])

    def watermark(self) -> str | None:
        """How far people's word was heard, once `late` came to its end."""
        return self._watermark

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """What people said on Phoenix of our scores."""
        from groundtrace.adapters.phoenix.review import Answers  # noqa: PLC0415 - only who asks needs it

        answers = self._answers = Answers(self.api, self._there())
        yield from answers.labels(since)

    def doctor(self) -> Iterable[Check]:
        """What is well and what is not between here and the project."""
        from groundtrace.adapters.phoenix import doctor  # noqa: PLC0415 - only who asks needs it

        yield from doctor.checks(self.api, self.project)

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for Phoenix no more once `stopping` says so."""
        self.api.stop_when(stopping)

    def home(self) -> Sink:
        """The sink that writes scores as annotations on these traces."""
        from groundtrace.adapters.phoenix.sink import PhoenixSink  # noqa: PLC0415 - a dry run needs none

        return PhoenixSink(self.project, api=self.api)

    def notes(self) -> tuple[str, ...]:
        """What was left or lost so far, one line each."""
        said = self._answers.notes() if self._answers else ()
        return (*self._notes, *self._losses.notes(), *said)

    # --- listing ------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return int(self._clock() * 1_000_000) * 1_000

    def _note(self, what: str) -> None:
        self._notes[what] = None

    def _there(self) -> str:
        """The project's id. PlatformError where there is none: it is made by its first span, or the name is wrong."""
        project = self.api.project(self.project)
        if project is None:
            raise PlatformError(self.api.unknown(self.project))
        return project

    def _asked(self, since: int, until: int) -> dict[str, Any]:
        """Which traces are meant, as Phoenix is asked."""
        asked = {"start_time": written(since), "end_time": written(until), "sort": "start_time", "order": "asc"}
        return asked | {"filter": self._filter or None, "session_identifier": self._session or None}

    def _listed(self, project: str, asked: Mapping[str, Any]) -> Iterator[list[Row]]:
        """The traces that are meant, a page at a time; PlanError where Phoenix does not take the filter."""
        try:
            yield from self.api.pages(f"/projects/{project}/traces", asked)
        except Refused as refused:
            if refused.status == 400 and self._told_filter:
                hint = 'it is an expression such as: any(span.name == "search" for span in spans)'
                raise PlanError("filter", self._told_filter, f"is refused: {refused.detail}", hint=hint) from None
            raise

    def _heard(self, project: str, asked: Mapping[str, Any]) -> dict[str, Heard]:
        """What people said of the traces they complained of."""
        try:
            return complaints(self.api, project, self._scale(), asked)
        except Refused as refused:
            if refused.status not in (400, 404, 422):
                raise
            if refused.status == 400:  # the user's own filter may be what is refused
                for _ in self._listed(project, {**asked, "limit": 1}):
                    break
            self._losses.add(UNHEARD)
            return {}

    def _scale(self) -> Scale:
        try:
            return scale(self.api)
        except PlatformError:  # without it, what counts is whether a number is above 0
            return Scale()

    def _failed(self, project: str, asked: Mapping[str, Any]) -> frozenset[str]:
        """The traces in which a span failed."""
        both = " and ".join(one for one in (self._filter, "(error_count > 0)") if one)
        pages = self._listed(project, {**asked, "filter": both})
        return frozenset(str(row.get("trace_id")) for page in pages for row in page)

    # --- choosing and fetching ----------------------------------------------------------------------------------------

    def _page(self, project: str, told: Sequence[tuple[Row, tuple[Signal, ...]]], choose: Choose) -> Iterator[Trace]:
        """The traces of a page that are chosen; those that ended just now are not fetched."""
        ready: list[Chosen] = []
        for row, signals in told:
            ref = Ref(PLATFORM, self.project, str(row.get("trace_id")))
            if not choose(ref, signals):
                continue
            if self._is_young(moment(row.get("end_time"))):
                self._losses.add(YOUNG)
                yield Trace(ref, signals=signals, complete=False)
            else:
                ready.append((ref, signals))
        yield from self._whole(project, ready)

    def _chosen(self, told: Iterable[tuple[str, tuple[Signal, ...]]], choose: Choose) -> list[Chosen]:
        refs = ((Ref(PLATFORM, self.project, ident), signals) for ident, signals in told)
        return [(ref, signals) for ref, signals in refs if choose(ref, signals)]

    def _whole(self, project: str, chosen: Sequence[Chosen]) -> Iterator[Trace]:
        """These traces with all their spans."""
        for start in range(0, len(chosen), _BATCH):
            batch = chosen[start : start + _BATCH]
            held: dict[str, dict[str, Span]] = {ref.trace_id: {} for ref, _ in batch}
            for span in self._spans(project, list(held)):
                held.get(span.trace_id, {}).setdefault(span.id, span)
            for ref, signals in batch:
                yield from self._made(ref, signals, held.pop(ref.trace_id))

    def _spans(self, project: str, traces: list[str]) -> Iterator[Span]:
        before = self.api.mended
        asked = {"trace_id": traces, "sort": "id", "order": "asc"}
        for page in self.api.pages(f"/projects/{project}/spans", asked, limit=PAGE):
            yield from phoenix_json.spans(page) or ()
        self._losses.add(DAMAGED, self.api.mended - before)

    def _made(self, ref: Ref, signals: tuple[Signal, ...], held: Mapping[str, Span]) -> Iterator[Trace]:
        """A trace of its spans; it is not complete while some of them may still come."""
        if not held:
            self._losses.add(VANISHED)
            yield Trace(ref, signals=signals, complete=False)
            return
        spans = sorted(held.values(), key=lambda span: (span.start or 0, span.parent_id is not None, span.id))
        if any(span.is_judging for span in spans if span.parent_id not in held):
            self._losses.add(OURS)
            return
        problem = self._unfinished(held)
        if problem is not None:
            self._losses.add(problem)
        yield Trace(ref, tuple(spans), signals=signals, complete=problem not in (YOUNG, GROWING))

    def _unfinished(self, held: Mapping[str, Span]) -> Problem | None:
        """What of a trace has not come; once its last span ended long ago, nothing more is waited for."""
        ended = max((span.end or 0 for span in held.values()), default=0)
        if self._is_young(ended):
            return YOUNG
        if any(span.parent_id and span.parent_id not in held for span in held.values()):
            return GROWING if ended > self._now() - _STALE else ORPHANED
        return None

    def _is_young(self, end: int | None) -> bool:
        """Whether it ended just now; an end that is to come for long is a wrong clock's, and not waited for."""
        now = self._now()
        return end is not None and now - self._settle < end < now + _AHEAD


def written(at: int) -> str:
    """A time in nanoseconds since 1970 as Phoenix is told it.

    >>> written(1_700_000_000_000_001_000)
    '2023-11-14T22:13:20.000001+00:00'
    """
    return (_EPOCH + dt.timedelta(microseconds=at // 1000)).isoformat(timespec="microseconds")


def _signals(ident: str, heard: Mapping[str, Heard], failed: frozenset[str]) -> tuple[Signal, ...]:
    told = heard[ident].signals if ident in heard else ()
    return (*told, Signal(ERROR, value=True, source=PLATFORM)) if ident in failed else told
