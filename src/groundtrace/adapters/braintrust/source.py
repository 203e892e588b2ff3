"""Traces pulled from a project of Braintrust's, or an experiment: roots first, then all spans of those chosen.

When a row was made bounds what is asked, for begin and end are fields of its metrics; the SDK makes both at once. Not
verified on a real account: that `created` takes part in a comparison as the documentation's own examples have it, and
that fields of fields can be asked for by their path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from groundtrace.adapters.braintrust import btql, losses, rows
from groundtrace.adapters.braintrust.api import PLATFORM, Api, Place, Row
from groundtrace.adapters.braintrust.attachments import Attachments
from groundtrace.adapters.braintrust.columns import project_scores
from groundtrace.adapters.braintrust.filters import ROOTS, Filter
from groundtrace.adapters.braintrust.hearing import UNSCORED, Hearing
from groundtrace.adapters.braintrust.said import Scale, commented, failed, scored, together
from groundtrace.adapters.losses import Losses, Problem
from groundtrace.adapters.options import listed, pairs
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.times import last_day, nanoseconds, written
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Check, Label, Ref, Signal, Trace, Window

if TYPE_CHECKING:
    from groundtrace.adapters.braintrust.review import Answers
    from groundtrace.ports import Choose, Sink

T = TypeVar("T")

_SECOND = 1_000_000_000
DAY = 86_400 * _SECOND
_SLICE = 28 * DAY
"""The longest time roots are asked for at once."""

_BATCH = 50
"""Traces whose spans are asked for, and held, at a time [as Braintrust's own command line does]."""

_MARGIN = _SECOND
"""How much more is asked for than is meant: what a time is compared by to the digit is the server's matter."""

_AFTER = 900 * _SECOND
"""How far the clocks of two machines may be apart, and how long after its root what is below it is looked for."""

_STALE = 3600 * _SECOND
"""After which a span that has not ended is taken to be lost: who watches it never said it had."""


class Chosen(NamedTuple):
    """A trace that was chosen: its root as it was seen, where scores on it go, and what users said of it."""

    root: Row
    ref: Ref
    signals: tuple[Signal, ...]


class BraintrustSource:
    """Traces of a Braintrust project, by its name or id, or of an `experiment` of it; the key is BRAINTRUST_API_KEY.

    `url` is the API's address (else BRAINTRUST_API_URL, else the one that `app_url` or BRAINTRUST_APP_URL names), `org`
    the organisation where the key is of several, `queries` how many queries your plan allows a minute. Only traces are
    looked at whose root fits: all `tags`, all `metadata` (a table, or key=value), with or without an `error`. A trace
    is left for the next run until `settle` seconds after its last span ended or was changed by others. Attachments that
    hold text are fetched up to `attachment_mb` MB each. Without a time to begin at, the last 24 hours are looked at,
    and all of an experiment. With `ids` these traces and no others are looked at, whenever they were.
    """

    platform = PLATFORM
    default_share = 0.1

    def __init__(
        self,
        project: str,
        *,
        experiment: str = "",
        url: str | None = None,
        app_url: str | None = None,
        org: str | None = None,
        queries: int | None = None,
        tags: str | Sequence[str] = (),
        metadata: str | Mapping[str, str] = "",
        error: bool | None = None,
        settle: float = 30.0,
        attachment_mb: float = 20.0,
        ids: str | Sequence[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not project.strip():
            raise PlanError(PLATFORM, project, "names no project", hint="write braintrust:PROJECT")
        self.project = f"{project}/{experiment}" if experiment else project
        self.api = Api(url, app_url, org, queries=queries)
        self._names = (project, experiment)
        self._filter = Filter(listed(tags), pairs(metadata), error)
        self._settle, self._most = int(settle * _SECOND), int(attachment_mb * 1_000_000)
        self._ids = listed(ids)
        self._clock = clock
        self._begin()
        self._place: Place | None = None
        self._hearing: Hearing | None = None
        self._answers: Answers | None = None
        if experiment:
            self.default_share = 1.0  # made to be looked at whole

    def _begin(self) -> None:
        """Forget what was noted of an earlier reading."""
        self._losses, self._attachments = Losses(), Attachments(self.api, self._most)
        self._window_note = ""
        self._asks_metadata = True

    # --- the port -----------------------------------------------------------------------------------------------------

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:  # noqa: ARG002 - what was judged before is in the memory
        """The traces whose root was made in the window, four weeks at a time, the oldest first.

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
        if since is None and self._at.kind == "experiment":
            since = min(nanoseconds("2020-01-01") or 0, until)
        elif since is None:
            since = until - DAY
            self._window_note = last_day(written(since)[:19])
        scale, seen = self._scale(), set[str]()
        step = until - since if self._at.kind == "experiment" else _SLICE
        try:
            while since < until:
                edge = min(since + step, until)
                yield from self._slice(since, edge, choose, scale, seen)
                since = edge
        finally:
            self._attachments.close()

    def late(self, window: Window, since: str | None, choose: Choose) -> Iterator[Trace]:
        """The traces, of any time, that users complained about after `since`, or since the window began."""
        if self._ids:
            return
        began = window.since if window.since is not None else self._now() - DAY
        scale = self._scale()
        hearing = self._hearing = Hearing(self.api, self._at, scale)
        try:
            found = hearing.complaints(since, began)
            picked = [ident for ident, (_, told) in found.items() if choose(self._bare(ident), told)]
            for ids in _batches(picked):
                yield from self._by_ids(ids, scale, {ident: found[ident] for ident in ids})
            hearing.end()
        finally:
            self._attachments.close()

    def watermark(self) -> str | None:
        """How far feedback was heard, once `late` came to its end."""
        return self._hearing.watermark if self._hearing else None

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """What people said on Braintrust of our scores."""
        from groundtrace.adapters.braintrust.review import Answers  # noqa: PLC0415 - only who asks needs it

        answers = self._answers = Answers(self.api, self._at)
        yield from answers.labels(since)

    def doctor(self) -> Iterable[Check]:
        """What is well and what is not between here and the project."""
        from groundtrace.adapters.braintrust import doctor  # noqa: PLC0415 - only who asks needs it

        yield from doctor.checks(self.api, *self._names)

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for Braintrust no more once `stopping` says so."""
        self.api.stop_when(stopping)

    def home(self) -> Sink:
        """The sink that writes scores beside these traces."""
        from groundtrace.adapters.braintrust.sink import BraintrustSink  # noqa: PLC0415 - a dry run needs none

        return BraintrustSink(self._names[0], api=self.api)

    def notes(self) -> tuple[str, ...]:
        """What was left or lost so far, one line each."""
        told = (*self._losses.notes(), *losses.apart(self._attachments.lost))
        said = self._answers.notes() if self._answers else ()
        return (*([self._window_note] if self._window_note else ()), *told, *said)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def _at(self) -> Place:
        """Where the rows are."""
        if self._place is None:
            project, experiment = self._names
            self._place = self.api.experiment(project, experiment) if experiment else self.api.project(project)
        return self._place

    def _now(self) -> int:
        return int(self._clock() * 1_000_000) * 1_000

    def _bare(self, trace_id: str) -> Ref:
        return Ref(PLATFORM, self._at.project_id, trace_id)

    def _scale(self) -> Scale:
        """What counts as a complaint in this project; that the project is not there is no trouble with its scores."""
        at = self._at
        try:
            return Scale(project_scores(self.api, at.project_id, 10.0))
        except PlatformError:
            self._losses.add(losses.UNSCALED)
            return Scale()

    def _slice(self, since: int, until: int, choose: Choose, scale: Scale, seen: set[str]) -> Iterator[Trace]:
        """The traces of a time: each page of roots is chosen from before the next one is asked for."""
        below = self._below(since, until, scale, patient=bool(getattr(choose, "patient", False)))
        for page in self._roots(_made(since, until)):
            chosen: list[Chosen] = []
            for root in page:
                made = nanoseconds(root.get("created"))
                if made is not None and not since <= made < until:
                    continue
                if not self._is_new(root, seen) or not self._filter.fits(root):
                    continue
                trace_id, at = rows.trace_of(root), rows.ref(root, self._at)
                told = together((*scored(root, scale), *failed(root), *below.get(trace_id, ())))
                if choose(at, told):
                    chosen.append(Chosen(root, at, told))
            for batch in _batches(chosen):
                yield from self._whole(batch)

    def _roots(self, bound: btql.Tree) -> Iterator[list[Row]]:
        """Pages of roots; looked through here for metadata, where Braintrust does not take that question."""
        fields = (*rows.SEEN, *self._filter.fields)
        if self._asks_metadata and self._filter.where is not None:
            try:
                yield from self.api.pages(self._at, btql.every(bound, ROOTS, self._filter.where), fields=fields)
            except Refused as refused:
                if refused.status != 400:
                    raise
                self._asks_metadata = False
                self._losses.add(losses.UNFILTERED)
            else:
                return
        yield from self.api.pages(self._at, btql.every(bound, ROOTS), fields=fields)

    def _below(self, since: int, until: int, scale: Scale, *, patient: bool) -> Mapping[str, tuple[Signal, ...]]:
        """What was said of spans below the roots of a time; with patience, whether they failed."""
        bound = _made(since, min(until + _AFTER, self._now()))
        said = btql.some(btql.given("scores"), btql.given("error") if patient else None)
        found: dict[str, tuple[Signal, ...]] = {}
        child = btql.given("span_parents")
        for page in self.api.pages(self._at, btql.every(bound, child, said, UNSCORED), fields=rows.SEEN):
            for row in page:
                told = (*scored(row, scale), *(failed(row) if patient else ()))
                if told:
                    trace_id = rows.trace_of(row)
                    found[trace_id] = (*found.get(trace_id, ()), *told)
        return found

    def _is_new(self, root: Row, seen: set[str]) -> bool:
        """Whether a trace begins with a row, was not seen before, and is no judge's of ours."""
        if not root.get("id"):
            self._losses.add(losses.NAMELESS)
            return False
        if not rows.is_root(root) or rows.trace_of(root) in seen:
            return False
        seen.add(rows.trace_of(root))
        if nanoseconds(root.get("created")) is None:
            self._losses.add(losses.NAMELESS)
            return False
        if rows.is_ours(root):
            self._losses.add(losses.OURS)
            return False
        return True

    def _named(self, choose: Choose) -> Iterator[Trace]:
        """The traces asked for by their ids."""
        scale = self._scale()
        try:
            for ids in _batches([ident for ident in dict.fromkeys(self._ids) if choose(self._bare(ident), ())]):
                yield from self._by_ids(ids, scale)
        finally:
            self._attachments.close()

    def _by_ids(
        self, ids: Sequence[str], scale: Scale, heard: Mapping[str, tuple[Row, tuple[Signal, ...]]] | None = None
    ) -> Iterator[Trace]:
        """Traces by their ids; `heard` is what users said of them, and of which row."""
        held, damaged = self._rows(ids)
        for ident in ids:
            if ident not in held:
                continue
            row, told = heard[ident] if heard is not None else ({}, ())
            root = _root_of(held[ident].values())
            if root is None:
                made = nanoseconds(row.get("created")) if heard is not None else None
                gone = made is not None and made < self._now() - DAY
                self._losses.add(losses.GONE if gone else losses.VANISHED)
                if not gone:
                    yield Trace(self._bare(ident), signals=told, complete=False)
            elif rows.is_ours(root):
                self._losses.add(losses.OURS)
            elif heard is None or self._filter.fits(root):
                said = (signal for row in held[ident].values() for signal in scored(row, scale))
                one = Chosen(root, rows.ref(root, self._at), together((*told, *said, *failed(root))))
                waiting = self._waiting(root, heard=heard is not None)
                if waiting is not None:
                    yield from self._unready(one, waiting)
                else:
                    yield self._completed(one, held[ident], damaged, heard=heard is not None)

    def _whole(self, chosen: Sequence[Chosen]) -> Iterator[Trace]:
        """The traces of these roots, with all their spans; those that are not over are given as they are."""
        over: list[Chosen] = []
        for one in chosen:
            waiting = self._waiting(one.root)
            if waiting is None:
                over.append(one)
            else:
                yield from self._unready(one, waiting)
        if not over:
            return
        held, damaged = self._rows([one.ref.trace_id for one in over])
        for one in over:
            if (mine := held.pop(one.ref.trace_id, None)) is not None:
                yield self._completed(one, mine, damaged)

    def _rows(self, ids: Sequence[str]) -> tuple[dict[str, dict[str, Row]], set[str]]:
        """All rows of these traces, by trace and id, each as it was changed last; and which of them lost characters.

        A trace that is too large to be had is not among them, and keeps none of the others.
        """
        try:
            return self._fetched(ids)
        except Refused as refused:
            if refused.status != 413:
                raise
        found: dict[str, dict[str, Row]] = {}
        damaged: set[str] = set()
        if len(ids) == 1:
            self._losses.add(losses.LARGE)
        for ident in ids if len(ids) > 1 else ():
            held, hurt = self._rows([ident])
            found, damaged = {**found, **held}, damaged | hurt
        return found, damaged

    def _fetched(self, ids: Sequence[str]) -> tuple[dict[str, dict[str, Row]], set[str]]:
        found: dict[str, dict[str, Row]] = {ident: {} for ident in ids}
        damaged: set[str] = set()
        mended = self.api.rest.mended
        for page in self.api.pages(self._at, btql.within("root_span_id", ids)):
            if self.api.rest.mended > mended:
                mended = self.api.rest.mended
                damaged |= {str(row["id"]) for row in page if "\ufffd" in str(row)}
            for row in page:
                if (held := found.get(rows.trace_of(row))) is not None:
                    rows.newest([row], held)
        return found, damaged

    def _completed(self, one: Chosen, held: dict[str, Row], damaged: set[str], *, heard: bool = False) -> Trace:
        """A trace of its rows; it is not complete while some of its spans are still to end or to come."""
        if _root_of(held.values()) is None:
            self._losses.add(losses.VANISHED)
            return rows.trace(one.ref, [one.root], signals=one.signals, complete=False)
        recent = (rows.ended(one.root) or rows.begun(one.root) or 0) > self._now() - _STALE
        problem = self._unfinished(held.values(), recent=recent, heard=heard)
        if problem is not None:
            self._losses.add(problem)
        hurt = damaged & held.keys()
        self._losses.add(losses.DAMAGED, len(hurt))
        filled = [self._attachments.filled(row) if not rows.is_aside(row) else row for row in held.values()]
        return rows.trace(
            one.ref,
            filled,
            signals=(*one.signals, *commented(held.values())),
            complete=problem not in (losses.GROWING, losses.YOUNG),
            damaged=hurt,
        )

    def _unready(self, one: Chosen, why: Problem) -> Iterator[Trace]:
        """A trace whose root is not over, as it is; none where no span is to wait for its end any more."""
        self._losses.add(why)
        if why is not losses.STALE:
            yield rows.trace(one.ref, [one.root], signals=one.signals, complete=False)

    def _waiting(self, root: Row, *, heard: bool = False) -> Problem | None:
        """Why a trace is not looked at yet, by its root; None where it can be."""
        now = self._now()
        if not rows.is_over(root):
            began = rows.begun(root)
            return losses.STALE if began is not None and began < now - DAY else losses.PENDING
        return losses.YOUNG if self._is_young(root, heard=heard) else None

    def _unfinished(self, held: Iterable[Row], *, recent: bool, heard: bool) -> Problem | None:
        """What of a trace has not ended or not come; once its root ended long ago, nothing more is waited for."""
        theirs = [row for row in held if not rows.is_written(row)]
        spans = {rows.span_of(row) for row in theirs}
        if any(not rows.is_over(row) for row in theirs if not rows.is_aside(row)):
            return losses.GROWING if recent else losses.UNENDED
        if any(self._is_young(row, heard=heard) for row in theirs):
            return losses.YOUNG
        if any((above := rows.parent_of(row)) is not None and above not in spans for row in theirs):
            return losses.GROWING if recent else losses.ORPHANED
        return None

    def _is_young(self, row: Row, *, heard: bool = False) -> bool:
        """Whether a span ended just now, or others changed its row; a time that is to come for long is a wrong clock's.

        What users said of a row, or we on a root, changed it too.
        """
        times = [rows.ended(row) or rows.begun(row)]
        if not heard and rows.told(row, "metadata", rows.OURS) is None:
            times.append(rows.changed(row))
        now = self._now()
        return any(at is not None and now - self._settle < at < now + _AFTER for at in times)


def _made(since: int, until: int) -> btql.Tree:
    """Rows made in a time, and a little around it."""
    return btql.every(
        btql.compared("ge", "created", written(since - _MARGIN)),
        btql.compared("lt", "created", written(until + _MARGIN)),
    )


def _root_of(held: Iterable[Row]) -> Row | None:
    """The row a trace begins with: of several the one its trace is named after, else the one that began first."""
    roots = [row for row in held if rows.is_root(row)]
    return min(roots, key=lambda row: (rows.span_of(row) != rows.trace_of(row), rows.begun(row) or 0), default=None)


def _batches(told: Sequence[T]) -> Iterator[Sequence[T]]:
    """As many of them as are asked for at once."""
    for at in range(0, len(told), _BATCH):
        yield told[at : at + _BATCH]
