"""One source, read: its records, and what became of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from groundtrace.model import Record
from groundtrace.plugins import function
from groundtrace.read import read
from groundtrace.read.gaps import unreadable
from groundtrace.run.choosing import OUR_OWN, UNPICKED
from groundtrace.run.holds import key_of
from groundtrace.run.isolated import Isolated
from groundtrace.run.risk import Weighing
from groundtrace.tally import COST_CAP, Count, Report

if TYPE_CHECKING:
    from groundtrace.model import Kind, Ref, Signal, Trace
    from groundtrace.plan import Plan
    from groundtrace.ports import Choose, Convention, Rubric, Source
    from groundtrace.read.resolve import Resolver
    from groundtrace.run.choosing import Choosing

_PLUMBING = frozenset({
    "client", "code", "container", "db", "dns", "error", "exception", "faas", "host", "http", "k8s", "messaging", "net",
    "network", "otel", "peer", "process", "rpc", "server", "service", "telemetry", "thread", "tls", "url", "user_agent",
})  # fmt: skip
"""What the names of attributes start with that tell how a service is reached and runs, and nothing of what is asked."""

_SEEN = 5
"""Scopes or attributes named of a trace that nobody reads."""

_AT_ONCE = 16
"""Traces that are taken together, where none of them is waited for: the memory keeps that in one step."""

_PUT_OFF = 1000
"""Traces that another run works on which are kept to be looked at again; of more, that run alone takes care."""


class Reading:
    """One source, read for a plan; `take` asks which traces are ours to work on, `saw` is told of each that is."""

    def __init__(
        self,
        source: Source,
        plan: Plan,
        *,
        conventions: Sequence[Convention],
        rubrics: Sequence[Rubric],
        choosing: Choosing,
        take: Callable[[Sequence[str]], Sequence[bool]] = lambda keys: [True] * len(keys),
        saw: Callable[[Trace], None] = lambda _: None,
    ) -> None:
        self._source, self._plan, self._take, self._saw = source, plan, take, saw
        self._conventions, self._rubrics = conventions, rubrics
        self._choosing = choosing
        self._looked_at: set[str] | None = set() if hasattr(source, "late") else None
        self._open: dict[str, int] = {}
        self.platform = source.platform
        self.put_off: list[Trace] = []
        """Traces another run worked on when they were read."""
        self.cut: Exception | None = None
        """What ended the reading before its end."""
        self.seen = self.traces = 0
        """Traces that were offered, and those of them that were looked at."""
        self._count = Count()
        self._usual: dict[Kind, Report] = {}
        """What is said of records that lack nothing, by their kind."""
        self._weighing = Weighing(plan, self._note)
        self._passages = resolver(plan, self._note)

    @property
    def report(self) -> Report:
        """What was read so far, counted."""
        return self._count.report + Report(seen=self.seen, traces=self.traces)

    def records(self) -> Iterator[Record]:
        """The records of every trace looked at; one that cannot be read is counted and named."""
        picked = _Picking(self._choose, patient=self._choosing.patient)
        yield from self._taken(lambda: self._source.traces(self._plan.window, picked))

    def late(self, since: str | None) -> Iterator[Record]:
        """The records of traces that a user complained about after `since` and that were not looked at just now."""
        source, picked = self._source, _Picking(self._choose_late, patient=self._choosing.patient)
        late = getattr(source, "late", None)
        if late is not None:
            yield from self._taken(lambda: late(self._plan.window, since, picked))

    def again(self) -> Iterator[Record]:
        """The records of traces that were put off and that nobody works on any more."""
        waiting, self.put_off = self.put_off, []
        for trace in waiting:
            if all(self._take([key_of(trace.ref)])):
                yield from self._records(trace)
            else:
                self.put_off.append(trace)

    def give_up(self) -> None:
        """Count what is still put off as left to the runs that work on it."""
        self._count.add(Report(held=len(self.put_off)))
        self.put_off = []

    def finish(self, record: Record) -> str | None:
        """Note that a record is done; the key of its trace once all of that are."""
        key = key_of(record.ref)
        self._open[key] = self._open.get(key, 1) - 1
        if self._open[key] > 0:
            return None
        del self._open[key]
        return key

    def _taken(self, traces: Callable[[], Iterator[Trace]]) -> Iterator[Record]:
        """The records of the traces that are ours to work on and that there is money for."""
        waits = not getattr(self._source, "at_hand", False)
        # Where money may run out, others have what is left.
        coming, at_once = self._traces(traces), 1 if waits or self._choosing.purse.capped else _AT_ONCE
        while some := list(islice(coming, at_once)):
            keys = [] if self._choosing.purse.is_empty() else [key_of(trace.ref) for trace in some]
            ours = dict(zip(keys, self._take(keys), strict=True))
            for trace in some:
                if self._choosing.purse.is_empty():
                    self._count.add(Report(passed={COST_CAP: 1}))
                elif ours.get(key_of(trace.ref)):
                    yield from self._records(trace)
                elif len(self.put_off) < _PUT_OFF:
                    self.put_off.append(trace)
                else:
                    self._count.add(Report(held=1))

    def _records(self, trace: Trace) -> Iterable[Record]:
        self._saw(trace)
        records: tuple[Record, ...] = ()
        with Isolated(f"trace {trace.ref.trace_id} could not be read", self._skip):
            if trace.complete:
                records = read(trace, self._conventions, kind=self._plan.kind, passages=self._passages)
        records = records or (_unread(trace),)
        self.traces += 1
        if trace.notes or not trace.complete:
            self._count.add(Report(growing=not trace.complete, mended=bool(trace.notes)))
        if trace.complete and all(record.kind == "other" for record in records):
            with Isolated("", lambda _: None):  # a neighbour's convention, asked again
                self._count.add(Report(unread=_unheard(trace, self._conventions)))
        for record in records:
            self._count.add(self._counted(record))
            key = key_of(record.ref)
            self._open[key] = self._open.get(key, 0) + 1
        return map(self._weighing.weighed, records)

    def _counted(self, record: Record) -> Report:
        usual = None if record.gaps else self._usual.get(record.kind)
        if usual is not None:
            return usual
        told = Report.of_record(record)
        if self._plan.names_rubrics:
            told = replace(told, suited={r.name: int(record.kind in r.kinds) for r in self._rubrics})
        if not record.gaps:
            self._usual[record.kind] = told
        return told

    def _traces(self, begin: Callable[[], Iterator[Trace]]) -> Iterator[Trace]:
        """What the source gives until its end, or until it fails: what came before that still counts."""
        traces: Iterator[Trace] | None = None
        while True:
            trace = None
            border = Isolated(f"reading {self._source.platform}", self._fail)
            with border:
                traces = begin() if traces is None else traces
                trace = next(traces, None)
            if trace is None:
                self.cut = self.cut or border.raised
                return
            if trace.spans and all(getattr(span, "is_judging", False) for span in trace.spans):
                self._count.add(Report(passed={OUR_OWN: 1}))
                continue
            yield trace

    def _choose(self, ref: Ref, signals: tuple[Signal, ...]) -> bool:
        if not self._plan.holds(ref.trace_id):
            return False
        share = getattr(self._source, "default_share", 1.0)
        why_not = self._choosing.why_not(ref, signals, share, self._note)
        self.seen += 1
        if why_not is not None:
            self._count.add(Report(passed={why_not: 1}))
        elif self._looked_at is not None:
            self._looked_at.add(ref.trace_id)
        return why_not is None

    def _choose_late(self, ref: Ref, signals: tuple[Signal, ...]) -> bool:
        if not self._plan.holds(ref.trace_id) or ref.trace_id in (self._looked_at or ()):
            return False
        why_not = self._choosing.why_not_late(ref, signals, self._note)
        if why_not != UNPICKED:
            self.seen += 1
            if why_not is not None:
                self._count.add(Report(passed={why_not: 1}))
        return why_not is None

    def _note(self, what: str) -> None:
        self._count.add(Report(notes=(what,)))

    def _skip(self, why: str) -> None:
        self._count.add(Report(skipped=1, notes=(why,)))

    def _fail(self, why: str) -> None:
        self._count.add(Report(failed=(why,)))


def resolver(plan: Plan, tell: Callable[[str], None]) -> Resolver | None:
    """The function that gives texts by their ids, as the plan names it; `tell` hears of an id it broke on."""
    if plan.passages is None:
        return None
    given = function(plan.passages)

    def passages(ident: str, metadata: Mapping[str, Any]) -> str | None:
        found: list[object] = []
        with Isolated(f"passages: {plan.passages} broke on {ident}", tell):
            found.append(given(ident, metadata))
            if not isinstance(found[0], (str, type(None))):
                raise TypeError(f"gave {type(found[0]).__name__}, where a text or None is wanted")
        return found[0] if found and isinstance(found[0], str) else None

    return passages


@dataclass(frozen=True)
class _Picking:
    """What a source asks of each trace; a patient one wants to know first whether the trace failed."""

    ask: Choose
    patient: bool

    def __call__(self, ref: Ref, signals: tuple[Signal, ...]) -> bool:
        return self.ask(ref, signals)


def _unread(trace: Trace) -> Record:
    """What stands for a trace that can't be read, or not yet."""
    return Record(id=trace.ref.trace_id, ref=trace.ref, kind="other", gaps=unreadable(growing=not trace.complete))


def _unheard(trace: Trace, conventions: Sequence[Convention]) -> dict[str, dict[str, int]]:
    """Why nothing to judge was found in a trace, and what was seen instead: steps, or whose scopes and attributes."""
    names = [name for span in trace.spans for name in (*span.attributes, span.scope)]
    known = [c for c in conventions if any(name.startswith(c.marks) for name in names)]
    roles = {said.role for span in trace.spans for c in known if (said := c.reading(span)) is not None} - {"other"}
    heads = sorted({name.partition(".")[0] for span in trace.spans for name in span.attributes} - {""})
    if roles:
        return {"only steps such as embedding, no request or call to a model": {", ".join(sorted(roles)): 1}}
    if heads and _PLUMBING.issuperset(heads):
        return {"only HTTP, databases and the like, no request or call to a model": {", ".join(heads[:_SEEN]): 1}}
    scopes = sorted({span.scope for span in trace.spans} - {""})
    return {"no installed convention reads them": {", ".join((scopes or heads)[:_SEEN]) or "no attributes": 1}}
