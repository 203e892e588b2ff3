"""The river: traces in, records, cards, scores out; and the report of what happened, which adds up.

A bad plan never starts a run: everything a plan names is opened before the first trace is read. A bad trace never
stops one: what it raises is counted and named. `run(plan) == sum(run(part) for part in plan.split(n))`.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from groundtrace.adapters.published import results
from groundtrace.errors import InvalidVerdict, PlatformError
from groundtrace.evaluate import evaluate
from groundtrace.judges.patient import Patient
from groundtrace.memory import InMemory
from groundtrace.model import Case, Finding, Intent, Receipt, Record, Review, Scorecard
from groundtrace.plugins import load
from groundtrace.read import read
from groundtrace.read.gaps import unreadable
from groundtrace.rubrics.law import unscored, unscored_card
from groundtrace.sampling import sample
from groundtrace.tally import About, Report

if TYPE_CHECKING:
    from types import TracebackType

    from groundtrace.model import Ref, Reply, Signal, Trace
    from groundtrace.plan import Plan
    from groundtrace.plugins import Spec
    from groundtrace.ports import Convention, Memory, Rubric, Sink, Source

__all__ = ["Report", "look", "run"]

_BATCH = 16
"""Cards written at once: few enough that a run cut short loses little, enough that files are not opened for each."""

_VAIN = 3
"""Batches none of which reached any sink, after which no more is asked: a judge is not paid for what goes nowhere."""

_REPLIES = 4096
"""Replies kept within a run, so that equal questions close to each other are asked once."""

_PLUMBING = frozenset({
    "client", "code", "container", "db", "dns", "error", "exception", "faas", "host", "http", "k8s", "messaging", "net",
    "network", "otel", "peer", "process", "rpc", "server", "service", "telemetry", "thread", "tls", "url", "user_agent",
})  # fmt: skip
"""What the names of attributes start with that tell how a service is reached and runs, and nothing of what is asked."""

_SEEN = 5
"""Scopes or attributes named of a trace that nobody reads."""

_BROKE = "rubric_failed"
_DEEPER = "rag_faithfulness"
"""The rubric of ours that another one may send a record on to."""


Watch: TypeAlias = Callable[[int, int], None]
"""Is told how far a run is: traces read, cards written."""

Bank: TypeAlias = "tuple[Source, Sequence[tuple[str, Sink]]]"
"""A source and the sinks its cards go to, each with what the report calls it."""


def run(plan: Plan, *, memory: Memory | None = None, progress: Watch | None = None) -> Report:
    """Do what the plan says and report it. PlanError or PlatformError before anything starts; later trouble is told.

    With a `memory` that outlives the run, nothing is asked or written twice. `progress` is called from time to time.
    """
    started = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    begin = time.perf_counter()
    river = _open(plan, memory or _Passing(), progress or (lambda *_: None))
    judge = river.judge
    about = About(judge.id, judge.kind, judge.limits, batch_id=plan.batch_id or started, started=started)
    total = Report(about=about)
    for source, sinks in river.banks:
        total += river.survey(source) if plan.dry_run else river.flow(source, sinks, total)
    return total + Report(about=About(seconds=time.perf_counter() - begin))


def look(plan: Plan, see: Callable[[Record], None]) -> Report:
    """Read a plan's sources, show each record to `see`, and report; nothing is judged or written."""
    river = replace(_open(plan.model_copy(update={"dry_run": True}), _Passing(), lambda *_: None), rubrics=())
    return sum((river.survey(source, see) for source, _ in river.banks), Report())


def _open(plan: Plan, memory: Memory, watch: Watch) -> _River:
    """Everything a plan names, opened; nothing has been read, asked or written yet."""
    sinks = [(_named(spec), load("sink", spec)) for spec in plan.sinks]
    sources = _joined(load("source", spec) for spec in plan.sources)
    return _River(
        plan=plan,
        banks=[(source, sinks if sinks or plan.dry_run else [_home(source)]) for source in sources],
        conventions=plan.vocabularies(),
        rubrics=[_Careful(load("rubric", spec)) for spec in plan.rubrics],
        judge=Patient(load("judge", plan.judge)),
        memory=memory,
        watch=watch,
    )


def _joined(sources: Iterable[Source]) -> list[Source]:
    """The sources, those that can be read as one joined: a trace may be spread over them, or stand in two."""
    apart: list[Source] = []
    for source in sources:
        joins = (getattr(held, "join", lambda _: None)(source) for held in apart)
        at, one = next(((at, one) for at, one in enumerate(joins) if one is not None), (len(apart), source))
        apart[at : at + 1] = [one]
    return apart


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


def _named(spec: Spec) -> str:
    """A spec in a few words."""
    return spec if isinstance(spec, str) else f"{spec['use']}:{spec.get('argument', '')}".rstrip(":")


def _home(source: Source) -> tuple[str, Sink]:
    """Where the scores of a source go by themselves, and what the report calls it: its files, where it has some."""
    sink = source.home()
    files = ", ".join(map(str, getattr(sink, "files", ())))
    return files or f"home of {source.platform}", sink


class _Isolated:
    """The one border where anything may be raised: it is told, and the run goes on with the next item.

    The stack trace goes to the log, at level debug.
    """

    def __init__(self, what: str, tell: Callable[[str], None]) -> None:
        self.what, self.tell = what, tell

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, InvalidVerdict):
            return False
        named = "" if isinstance(error, PlatformError) else f"{type(error).__name__}: "
        logging.getLogger(__name__).debug("%s", self.what or named, exc_info=error)
        self.tell(f"{self.what}{': ' if self.what else ''}{named}{error}"[:500])
        return True


@dataclass
class _River:
    plan: Plan
    banks: Sequence[Bank]
    conventions: Sequence[Convention]
    rubrics: Sequence[Rubric]
    judge: Patient
    memory: Memory
    watch: Watch

    def flow(self, source: Source, sinks: Sequence[tuple[str, Sink]], before: Report) -> Report:
        """Read one source to its end; its cards go to these sinks. `before` is what the sources before it gave."""
        reading, writing = _Reading(self, source), _Writing(sinks, self.memory)
        written = sum(sum(states.values()) for states in before.cards.values())
        ours = {rubric.name for rubric in self.rubrics}
        judged = evaluate(
            reading.records(),
            self.rubrics,
            self.judge,
            memory=self.memory,
            referrals={} if _DEEPER in ours else {_DEEPER: _Careful(load("rubric", _DEEPER))},
            batch_id=before.about.batch_id,
        )
        try:
            cards = cast("Generator[Scorecard]", judged)
            with _Isolated("keeping scores", writing.fail), closing(cards):
                for count, card in enumerate(self._heard(cards, writing.fail), start=written + 1):
                    writing.take(card)
                    self._name(card, writing)
                    self.watch(before.traces + reading.report.traces, count)
                    if writing.vain >= _VAIN:
                        writing.fail(f"stopped judging {source.platform}: no score of {_VAIN * _BATCH} cards went out")
                        break
        finally:
            with _Isolated("keeping scores", writing.fail):
                writing.flush()
        notes = (note for _, sink in sinks for note in getattr(sink, "notes", tuple)())
        return reading.report + Report(notes=(*source.notes(), *notes)) + writing.report

    def _name(self, card: Scorecard, writing: _Writing) -> None:
        """Note which record the judge broke on."""
        fault = self.judge.broke.pop((card.record_id, card.rubric), None)
        if fault is not None:
            where = f"record {card.record_id} of trace {card.ref.trace_id}"
            writing.note(f"judge {self.judge.id} broke on {card.rubric} of {where}: {fault}")

    def _heard(self, cards: Iterator[Scorecard], tell: Callable[[str], None]) -> Iterator[Scorecard]:
        """The cards until their end, or until the judge fails: what came before that still counts."""
        while True:
            card = None
            with _Isolated(f"judge {self.judge.id}", tell):
                card = next(cards, None)
            if card is None:
                return
            yield card

    def survey(self, source: Source, see: Callable[[Record], None] = lambda _: None) -> Report:
        """Read one source to its end and count what a judge would be asked, in tokens of about four characters."""
        reading, total = _Reading(self, source), Report()
        for record in reading.records():
            see(record)
            for rubric in (rubric for rubric in self.rubrics if record.kind in rubric.kinds):
                for item in rubric.cases(record, self.judge.unassessed(rubric.name)):
                    if isinstance(item, Case):
                        asked = len(item.prefix) + len(item.render("0" * 16))
                        total += Report(cases=1, tokens=-(-asked // 4))
        return reading.report + Report(notes=source.notes()) + total


class _Reading:
    """One source, read: its records, and what became of the rest."""

    def __init__(self, river: _River, source: Source) -> None:
        self._river, self._source = river, source
        share = river.plan.sample
        self._sampled = sample(getattr(source, "default_share", 1.0) if share is None else share)
        self.report = Report()

    def records(self) -> Iterator[Record]:
        """The records of every trace looked at; one that cannot be read is counted and named."""
        for trace in self._traces():
            records: tuple[Record, ...] = (_unread(trace),)
            with _Isolated(f"trace {trace.ref.trace_id} could not be read", self._skip):
                records = read(trace, self._river.conventions) if trace.complete else records
            one = Report(traces=1, growing=not trace.complete, mended=bool(trace.notes))
            self.report += sum(map(self._counted, records), one)
            if trace.complete and all(record.kind == "other" for record in records):
                with _Isolated("", lambda _: None):  # a neighbour's convention, asked again
                    self.report += Report(unread=_unheard(trace, self._river.conventions))
            for record in records:
                raised = self._river.plan.risk == "high" and record.risk != "high"
                yield record.model_copy(update={"risk": "high"}) if raised else record

    def _counted(self, record: Record) -> Report:
        named = self._river.rubrics if self._river.plan.names_rubrics else ()
        return Report.of_record(record) + Report(suited={r.name: int(record.kind in r.kinds) for r in named})

    def _traces(self) -> Iterator[Trace]:
        """What the source gives until its end, or until it fails: what came before that still counts."""
        traces = self._source.traces(self._river.plan.window, self._choose)
        while True:
            trace = None
            with _Isolated(f"reading {self._source.platform}", self._fail):
                trace = next(traces, None)
            if trace is None:
                return
            yield trace

    def _choose(self, ref: Ref, signals: tuple[Signal, ...]) -> bool:
        if not self._river.plan.holds(ref.trace_id):
            return False
        looked_at = self._sampled(ref, signals)
        self.report += Report(seen=1, left_out=int(not looked_at))
        return looked_at

    def _skip(self, why: str) -> None:
        self.report += Report(skipped=1, notes=(why,))

    def _fail(self, why: str) -> None:
        self.report += Report(failed=(why,))


class _Writing:
    """The sinks of one source: told in batches; the memory knows of every write before it leaves."""

    def __init__(self, sinks: Sequence[tuple[str, Sink]], memory: Memory) -> None:
        self._sinks, self._memory = sinks, memory
        self._waiting: list[Scorecard] = []
        self.vain = 0
        """Batches in a row of which every write to every sink failed."""
        self.report = Report()

    def take(self, card: Scorecard) -> None:
        """Write a card, now or with the next few."""
        self._memory.keep_card(card)
        self.report += Report.of_card(card)
        self._waiting.append(card)
        if len(self._waiting) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Write what waits to every sink; one that fails keeps no other from its cards."""
        cards, self._waiting = self._waiting, []
        went: Counter[str] = Counter()
        for name, sink in self._sinks if cards else ():
            states: Counter[str] = Counter()
            for receipt in self._written(name, sink, cards):
                self._memory.keep_receipt(receipt)
                states[receipt.state] += 1
                if receipt.state == "failed":
                    self.fail(f"writing to {name}: {receipt.reason}")
            self.report += Report(receipts={name: dict(states)})
            went += states
        self.vain = self.vain + 1 if set(went) == {"failed"} else self.vain if not cards else 0

    def note(self, what: str) -> None:
        """Note what was lost."""
        self.report += Report(notes=(what,))

    def fail(self, why: str) -> None:
        """Note what a platform or a plugin refused."""
        self.report += Report(failed=(why,))

    def _written(self, name: str, sink: Sink, cards: Sequence[Scorecard]) -> Iterator[Receipt]:
        """What became of every score; the memory is told before it leaves and asked whether it did already."""
        left: dict[tuple[str, str], Intent] = {}
        for card in cards:
            for told in results(card):
                intent = Intent(
                    sink=name,
                    card_id=card.id,
                    score=told.score,
                    feedback_id=told.feedback_id,
                    content_hash=card.content_hash,
                )
                known = self._memory.intend(intent)
                if known is None:
                    left[intent.card_id, intent.score] = intent
                else:
                    yield known.model_copy(update={"state": "unchanged"})
        ids, said = {card_id for card_id, _ in left}, list[str]()
        with _Isolated("", said.append):
            for receipt in sink.write([card for card in cards if card.id in ids]):
                left.pop((receipt.card_id, receipt.score), None)
                yield receipt.model_copy(update={"sink": name})
        bare = {card.id for card in cards if card.status != "scored"}
        for intent in left.values():
            if said:
                yield Receipt(**intent.model_dump(), state="failed", reason=said[0])
            elif intent.card_id not in bare:  # a sink need not speak of what has no score
                yield Receipt(**intent.model_dump(), state="unconfirmed", reason="the sink said nothing about it")


class _Passing(InMemory):
    """The memory of a run nobody asks afterwards: the newest replies and nothing else, so that it never grows."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: OrderedDict[tuple[str, str], Reply] = OrderedDict()

    def reply(self, judge: str, digest: str) -> Reply | None:
        return self._newest.get((judge, digest))

    def keep_reply(self, judge: str, digest: str, reply: Reply, faults: tuple[str, ...], **_: str) -> None:
        if not faults and reply.fault is None:
            self._newest[judge, digest] = reply
            if len(self._newest) > _REPLIES:
                self._newest.popitem(last=False)

    def keep_card(self, card: Scorecard) -> None:
        """Cards go to the sinks."""

    def intend(self, intent: Intent) -> Receipt | None:
        """The sinks know what they hold."""

    def keep_receipt(self, receipt: Receipt) -> None:
        """The report counts them."""


class _Careful:
    """A rubric whose trouble with one record becomes that card's reason and not the end of the run."""

    def __init__(self, rubric: Rubric) -> None:
        self._rubric = rubric
        self.name, self.version, self.prompt_hash = rubric.name, rubric.version, rubric.prompt_hash
        self.kinds = rubric.kinds
        self.schema = rubric.schema

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterable[Case | Finding]:
        said: list[str] = []
        with _Isolated(f"rubric {self.name}", said.append):
            return list(self._rubric.cases(record, unassessed))
        return [unscored(_BROKE, said[0])]

    def finding(self, record: Record, case: Case, verdict: Any, unassessed: frozenset[str]) -> Finding:
        said: list[str] = []
        with _Isolated(f"rubric {self.name}", said.append):
            return self._rubric.finding(record, case, verdict, unassessed)
        raise InvalidVerdict([f"{said[0]} @ $"])

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        said = [finding.rationale for finding in findings if finding.reason == _BROKE]
        if not said:
            with _Isolated(f"rubric {self.name}", said.append):
                return self._rubric.conclude(record, findings)
        card = unscored_card(self, record, [unscored(_BROKE, said[0])])
        return card.model_copy(update={"review": (Review(reason=_BROKE, note=said[0]),)})
