"""Traces pulled from a LangSmith project: roots first, then all runs of those that were chosen, a hundred at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from groundtrace.adapters.langsmith import losses, rows, rules
from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.filters import Filter
from groundtrace.adapters.langsmith.hearing import Hearing
from groundtrace.adapters.langsmith.payloads import Payloads
from groundtrace.adapters.langsmith.queries import DAY, WEEK, Ask, Queries, of_roots
from groundtrace.adapters.langsmith.rows import PLATFORM, Row
from groundtrace.adapters.langsmith.said import Scale, failure, signals
from groundtrace.adapters.langsmith.webhook import delivery
from groundtrace.adapters.losses import Losses, Problem
from groundtrace.adapters.options import listed, pairs
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.times import last_day, nanoseconds, written
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Check, Label, Ref, Signal, Trace, Window

if TYPE_CHECKING:
    from groundtrace.adapters.langsmith.review import Answers
    from groundtrace.ports import Choose, Sink

_SECOND = 1_000_000_000
_BATCH = 100
"""Traces whose runs are asked for, and held, at a time."""

_TRIED = 5
"""Traces of a hundred that are asked for alone too, where none of the hundred has more than its root."""

_LONG, _ERA = 8 * WEEK, 400 * DAY
"""From which length on it is asked first whether there is anything in a time, and the longest that is asked for."""

_BEFORE = _AFTER = 900 * _SECOND
"""How far the clocks of two machines may be apart."""

_SPAN = WEEK - _AFTER
"""The longest time roots are asked for at once: what failed below them is asked for a little longer."""

_STALE = 3600 * _SECOND
"""After which a run that has not ended is taken to be lost: who watches it never said it had."""

_EVALUATORS = "evaluators"
"""The project the SDK traces evaluators into."""

Chosen = tuple[Row, Ref, tuple[Signal, ...]]
"""A root that was chosen, where feedback on it goes, and what users said of it."""


class LangSmithSource:
    """Traces of a LangSmith project, by its name or id; the key is LANGSMITH_API_KEY.

    `url` is the API's address (else LANGSMITH_ENDPOINT), `workspace` an id where the key is a whole organisation's.
    Only traces are looked at whose root fits: all `tags`, all `metadata` (a table, or key=value), feedback under the
    key `has_feedback`, with or without an `error`, and `filter`, in LangSmith's own language. A trace is left for the
    next run until `settle` seconds after its last run ended. Inputs and outputs kept apart from their runs are fetched
    up to `payload_mb` MB each. Without a time to begin at, the last 24 hours are looked at. With `ids` these traces and
    no others are looked at, whenever they were.
    """

    platform = PLATFORM
    default_share = 0.1

    def __init__(
        self,
        project: str,
        *,
        url: str | None = None,
        workspace: str | None = None,
        filter: str = "",  # noqa: A002 - LangSmith's own word
        tags: str | Sequence[str] = (),
        metadata: str | Mapping[str, str] = "",
        has_feedback: str = "",
        error: bool | None = None,
        settle: float = 30.0,
        payload_mb: float = 20.0,
        ids: str | Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        if project.strip().lower() == _EVALUATORS:
            hint = "name the project of the application"
            raise PlanError("langsmith", project, "holds what evaluators did, which is never judged", hint=hint)
        self.project = project
        self.api = Api(url, workspace)
        self._filter = Filter(listed(tags), pairs(metadata), has_feedback, error, filter).text
        self._settle, self._most = int(settle * _SECOND), int(payload_mb * 1_000_000)
        self._ids = listed(ids)
        self._clock = clock
        self._begin()
        self._hearing: Hearing | None = None
        self._answers: Answers | None = None

    def _begin(self) -> None:
        """Forget what was noted of an earlier reading."""
        self._losses, self._payloads = Losses(), Payloads(self._most, lambda: self.api.url)
        self._window_note = ""
        self._by_roots = self._at_once = True
        self._queries: Queries | None = None

    # --- the port -----------------------------------------------------------------------------------------------------

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:  # noqa: ARG002 - what was judged before is in the memory
        """The traces whose root began in the window, a week at a time, the oldest week first.

        A trace that has not ended, or ended just now, is given with `complete` false and without its children; one that
        began a day ago and never ended is counted and not given.
        """
        self._begin()
        if self._ids:
            yield from self._named(choose)
            return
        now = self._now()
        until = min(window.until, now) if window.until is not None else now
        since = window.since
        if since is None:
            since = until - DAY
            self._window_note = last_day(written(since)[:19])
        queries, scale = self._asking(), self._scale()
        seen: set[str] = set()
        try:
            for ask in self._weeks(queries, since, until):
                yield from self._slice(queries, ask, choose, scale, seen)
        finally:
            self._payloads.close()

    def late(self, window: Window, since: str | None, choose: Choose) -> Iterator[Trace]:
        """The traces, of any time, that users complained about after `since`, or since the window began."""
        if self._ids:
            return
        now = self._now()
        began = window.since if window.since is not None else now - DAY
        queries = self._asking()
        hearing = self._hearing = Hearing(self.api, self._project_id, queries, self._scale(), self._losses)
        try:
            for trace_id, told in hearing.complaints(since, began, now, self._filter).items():
                if choose(Ref(PLATFORM, self._project_id, trace_id), told):
                    yield from self._one(queries, trace_id, told, heard=hearing.heard[trace_id])
            hearing.end()
        finally:
            self._payloads.close()

    def watermark(self) -> str | None:
        """How far feedback was heard, once `late` came to its end."""
        return self._hearing.watermark if self._hearing else None

    delivered = staticmethod(delivery)
    """What a message of an automation rule names."""

    def attach(self, url: str, *, share: float, headers: Mapping[str, str]) -> Sequence[str]:
        """Have LangSmith tell an address of this project's new traces, once however often it is asked to."""
        return rules.attach(self.api, self.api.project(self.project), url, share=share, headers=headers)

    def detach(self, url: str) -> Sequence[str]:
        """Have LangSmith tell that address no more."""
        return rules.detach(self.api, self.api.project(self.project), url)

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """What people said on LangSmith of our scores."""
        from groundtrace.adapters.langsmith.review import Answers  # noqa: PLC0415 - only who asks needs it

        answers = self._answers = Answers(self.api, self._project_id)
        yield from answers.labels(since)

    def doctor(self) -> Iterable[Check]:
        """What is well and what is not between here and the project."""
        from groundtrace.adapters.langsmith import doctor  # noqa: PLC0415 - only who asks needs it

        yield from doctor.checks(self.api, self.project)

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for LangSmith no more once `stopping` says so."""
        self.api.stop_when(stopping)

    def home(self) -> Sink:
        """The sink that writes scores as feedback on these traces."""
        from groundtrace.adapters.langsmith.sink import LangSmithSink  # noqa: PLC0415 - a dry run needs none

        return LangSmithSink(self.project, api=self.api)

    def notes(self) -> tuple[str, ...]:
        """What was left or lost so far, one line each."""
        told = (*self._losses.notes(), *losses.apart(self._payloads.lost))
        again = self._queries.afresh if self._queries else 0
        more = [losses.AFRESH[again > 1].format(n=again)] if again else []
        said = self._answers.notes() if self._answers else ()
        return (*([self._window_note] if self._window_note else ()), *told, *more, *said)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def _project_id(self) -> str:
        return self.api.project(self.project).id

    def _now(self) -> int:
        return int(self._clock() * 1_000_000) * 1_000

    def _asking(self) -> Queries:
        if self._queries is None:
            self._queries = Queries(self.api, self._project_id)
        return self._queries

    def _scale(self) -> Scale:
        """What counts as a complaint in this workspace."""
        try:
            told = self.api.call("GET", "/feedback-configs", patience=10.0)
        except PlatformError:
            self._losses.add(losses.UNSCALED)
            return Scale()
        return Scale(told if isinstance(told, list) else ())

    def _weeks(self, queries: Queries, since: int, until: int) -> Iterator[Ask]:
        """The window a week at a time; long times in which nothing was are passed over at once."""
        while since < until:
            era = min(since + _ERA, until)
            whole = Ask(since, era, roots=True, filter=self._filter)
            if era - since > _LONG and queries.is_empty(whole):
                since = era
            while since < era:
                edge = min(since + _SPAN, era)
                yield replace(whole, since=since, until=edge)
                since = edge

    def _slice(self, queries: Queries, ask: Ask, choose: Choose, scale: Scale, seen: set[str]) -> Iterator[Trace]:
        """The traces of a week: each page of roots is chosen from before the next one is asked for."""
        failed: Mapping[str, Signal] = {}
        if getattr(choose, "patient", False):
            failed = self._failures(queries, ask)
        for page in queries.pages(ask):
            chosen: list[Chosen] = []
            for root in sorted(page.rows, key=lambda row: str(row.get("start_time"))):
                if not self._is_new(root, ask, seen):
                    continue
                told = signals(root, scale)
                trace_id = rows.trace_of(root)
                if trace_id in failed and not any(one.name == failed[trace_id].name for one in told):
                    told = (*told, failed[trace_id])
                at = rows.ref(root, self._project_id)
                if choose(at, told):
                    chosen.append((root, at, told))
            for batch in _batches(chosen):
                yield from self._whole(queries, batch)

    def _is_new(self, root: Row, ask: Ask, seen: set[str]) -> bool:
        """Whether a root is of this week, not seen before, and no judge's of ours."""
        start, ident = nanoseconds(root.get("start_time")), rows.trace_of(root)
        if start is not None and not ask.since <= start < ask.until:
            return False
        if ident in seen or rows.parent_of(root) is not None:  # a child whose parent was not named is listed too
            return False
        seen.add(ident)
        if start is None:
            self._losses.add(losses.NAMELESS)
            return False
        if rows.is_ours(root):
            self._losses.add(losses.OURS)
            return False
        return True

    def _named(self, choose: Choose) -> Iterator[Trace]:
        """The traces asked for by their ids, one at a time."""
        queries = self._asking()
        try:
            for trace_id in self._ids:
                if choose(Ref(PLATFORM, self._project_id, trace_id), ()):
                    yield from self._one(queries, trace_id, ())
        finally:
            self._payloads.close()

    def _failures(self, queries: Queries, ask: Ask) -> Mapping[str, Signal]:
        """The traces of a week in which any run failed."""
        found: dict[str, Signal] = {}
        for page in queries.pages(Ask(ask.since, min(ask.until + _AFTER, self._now()), failed=True)):
            for row in page.rows:
                found[rows.trace_of(row)] = failure(row.get("error"))
        return found

    def _one(
        self, queries: Queries, trace_id: str, told: tuple[Signal, ...], *, heard: int | None = None
    ) -> Iterator[Trace]:
        """One trace by its id; `heard` is when users last spoke of it, where that is known."""
        page = queries.trace(trace_id)
        root = next((row for row in page.rows if rows.parent_of(row) is None), None)
        if root is None and heard is not None and heard < self._now() - DAY:
            self._losses.add(losses.GONE)
            return
        if root is None:
            self._losses.add(losses.VANISHED)
            yield Trace(Ref(PLATFORM, self._project_id, trace_id), signals=told, complete=False)
            return
        if rows.is_ours(root):
            self._losses.add(losses.OURS)
            return
        at = rows.ref(root, self._project_id)
        waiting = self._waiting(root)
        if waiting is not None:
            yield from self._unready((root, at, told), waiting)
            return
        yield self._made((root, at, told), {str(row["id"]): row for row in page.rows}, page.damaged)

    def _whole(self, queries: Queries, chosen: Sequence[Chosen]) -> Iterator[Trace]:
        """The traces of these roots, with all their runs; those that are not over are given as they are."""
        over: list[Chosen] = []
        for one in chosen:
            waiting = self._waiting(one[0])
            if waiting is None:
                over.append(one)
            else:
                yield from self._unready(one, waiting)
        if not over:
            return
        if self._at_once and len(over) > 1:
            runs, damaged = self._runs(queries, over)
            if not self._fewer(queries, runs):
                for one in over:
                    yield self._completed(queries, one, runs.pop(one[1].trace_id), damaged)
                return
            self._at_once = False
            self._losses.add(losses.PARTIAL)
        for one in over:
            runs, damaged = self._runs(queries, [one])
            yield self._made(one, runs[one[1].trace_id], damaged)

    def _completed(self, queries: Queries, one: Chosen, held: dict[str, Row], damaged: set[str]) -> Trace:
        """A trace of those that came at once; asked for by itself where runs of it are missing."""
        if _lacking(held, one[0]):
            page = queries.trace(one[1].trace_id)
            held |= {str(row["id"]): row for row in page.rows}
            damaged = damaged | {*page.damaged}
        return self._made(one, held, damaged & held.keys())

    def _runs(self, queries: Queries, over: Sequence[Chosen]) -> tuple[dict[str, dict[str, Row]], set[str]]:
        """All runs of these traces, by trace and id: one trace in a request of its own, many in as few as there are."""
        if len(over) == 1:
            page = queries.trace(over[0][1].trace_id)
            return {over[0][1].trace_id: {str(row["id"]): row for row in page.rows}}, {*page.damaged}
        starts = [nanoseconds(root.get("start_time")) or 0 for root, _, _ in over]
        ends = [nanoseconds(root.get("end_time")) or 0 for root, _, _ in over]
        since, latest = min(starts) - _BEFORE, self._now() + _BEFORE
        ask = Ask(since, min(max(*starts, *ends) + _AFTER, since + WEEK, latest), whole=True)
        if self._by_roots:
            # The roots are named, so that a run that began long after its root ended costs nothing to be found.
            named = of_roots(replace(ask, until=min(since + WEEK, latest)), [str(root["id"]) for root, _, _ in over])
            try:
                return self._gathered(queries, named, over)
            except Refused as error:
                if error.status not in (400, 413, 422):
                    raise
                self._by_roots = False
                self._losses.add(losses.UNFILTERED)
        return self._gathered(queries, ask, over)

    def _gathered(
        self, queries: Queries, ask: Ask, over: Sequence[Chosen]
    ) -> tuple[dict[str, dict[str, Row]], set[str]]:
        found: dict[str, dict[str, Row]] = {one[1].trace_id: {} for one in over}
        damaged: set[str] = set()
        for page in queries.pages(ask):
            damaged |= {*page.damaged}
            for row in page.rows:
                held = found.get(rows.trace_of(row))
                if held is not None and len(held) < rows.MOST:
                    held[str(row["id"])] = row
        return found, damaged

    def _fewer(self, queries: Queries, runs: Mapping[str, dict[str, Row]]) -> bool:
        """Whether many traces at once come with fewer runs than one alone: asked where none of them has a child."""
        if any(len(held) > 1 for held in runs.values()):
            return False
        return any(len(queries.trace(ident).rows) > 1 for ident in list(runs)[:_TRIED])

    def _unready(self, one: Chosen, why: Problem) -> Iterator[Trace]:
        """A trace whose root is not over, as it is; none where no run is to wait for its end any more."""
        self._losses.add(why)
        if why is not losses.STALE:
            yield rows.trace(one[1], [one[0]], signals=one[2], complete=False)

    def _waiting(self, root: Row) -> Problem | None:
        """Why a trace is not looked at yet, by its root; None where it can be."""
        now = self._now()
        if not rows.is_over(root):
            start = nanoseconds(root.get("start_time"))
            return losses.STALE if start is not None and start < now - DAY else losses.PENDING
        return losses.YOUNG if self._is_young(root) else None

    def _is_young(self, row: Row) -> bool:
        """Whether a run ended just now; an end that is to come for long is a wrong clock's, and not waited for."""
        now, end = self._now(), nanoseconds(row.get("end_time"))
        return end is not None and now - self._settle < end < now + _AFTER

    def _made(self, one: Chosen, held: dict[str, Row], damaged: Iterable[str]) -> Trace:
        """A trace of its runs; it is not complete while some of them are still to end or to come."""
        root, at, told = one
        if not held:
            self._losses.add(losses.VANISHED)
            return rows.trace(at, [root], signals=told, complete=False)
        held.setdefault(str(root["id"]), root)
        held = {ident: self._payloads.filled(_as_dict(row)) for ident, row in held.items()}
        ended = nanoseconds(root.get("end_time")) or 0
        recent = ended > self._now() - _STALE
        problem = self._unfinished(held, recent=recent)
        if problem is not None:
            self._losses.add(problem)
        hurt = tuple(damaged)
        self._losses.add(losses.DAMAGED, len(hurt))
        notes = []
        if len(held) >= rows.MOST:
            self._losses.add(losses.FULL)
            notes.append(losses.FULL[0].format(n="this"))
        complete = problem not in (losses.GROWING, losses.YOUNG)
        return rows.trace(at, held.values(), signals=told, complete=complete, notes=notes, damaged=hurt)

    def _unfinished(self, held: Mapping[str, Row], *, recent: bool) -> Problem | None:
        """What of a trace has not ended or not come; once its root ended long ago, nothing more is waited for."""
        if any(not rows.is_over(row) for row in held.values()):
            return losses.GROWING if recent else losses.UNENDED
        if any(map(self._is_young, held.values())):
            return losses.YOUNG
        if any((above := rows.parent_of(row)) is not None and above not in held for row in held.values()):
            return losses.GROWING if recent else losses.ORPHANED
        return None


def _batches(chosen: Sequence[Chosen]) -> Iterator[Sequence[Chosen]]:
    """Traces whose runs are asked for at once: so many, of so long a time, that a day after them is in its week too."""
    batch: list[Chosen] = []
    since = until = 0
    for one in chosen:
        start = nanoseconds(one[0].get("start_time")) or 0
        end = max(start, nanoseconds(one[0].get("end_time")) or 0)
        if batch and (len(batch) == _BATCH or max(until, end) + DAY > since - _BEFORE + WEEK):
            yield batch
            batch = []
        since, until = (min(since, start), max(until, end)) if batch else (start, end)
        batch.append(one)
    if batch:
        yield batch


def _lacking(held: Mapping[str, Row], root: Row) -> bool:
    """Whether runs of a trace are missing among those that came: the root, or one that others stand below."""
    if str(root["id"]) not in held:
        return True
    return any((above := rows.parent_of(row)) is not None and above not in held for row in held.values())


def _as_dict(row: Row) -> dict[str, Any]:
    return row if isinstance(row, dict) else dict(row)
