"""What a plan names, opened, and how its traces flow through it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias, cast

from groundtrace.cascade import cascade, check_judges
from groundtrace.evaluate import evaluate, never
from groundtrace.judges.patient import Patient
from groundtrace.model import Case, Usage
from groundtrace.plugins import load
from groundtrace.review import audited
from groundtrace.run.budget import Budget
from groundtrace.run.choosing import Choosing
from groundtrace.run.isolated import Careful, Isolated
from groundtrace.run.reading import Reading, resolver
from groundtrace.run.risk import Weighing, same_model
from groundtrace.run.writing import Door, Writing
from groundtrace.tally import About, Count, Report

if TYPE_CHECKING:
    from groundtrace.model import Record, Scorecard, Trace
    from groundtrace.plan import Plan
    from groundtrace.plugins import Spec
    from groundtrace.ports import Convention, Memory, Sink, Source
    from groundtrace.run.holds import Holds

_VAIN = 3
"""Batches none of which reached any sink, after which no more is asked: a judge is not paid for what goes nowhere."""

_DEEPER = "rag_faithfulness"
"""The rubric of ours that another one may send a record on to."""

_PAUSE, _PATIENCE = 0.2, 600.0
"""Seconds between two looks at the traces another run works on, and without one of them coming free until we leave."""

Watch: TypeAlias = Callable[[int, int], None]
"""Is told how far a run is: traces read, cards written."""

Cut: TypeAlias = "Callable[[Exception | None], None]"
"""Is told that a source was not read and judged to its end, and by what, where that is known."""

Saw: TypeAlias = "Callable[[int, Trace], None]"
"""Is told of every trace that is looked at, and of which source of the plan it is: its place, -1 for joined ones."""

Bank: TypeAlias = "tuple[Source, Sequence[Door]]"
"""A source and the sinks its cards go to."""


@dataclass
class River:
    """Everything a plan names, opened; nothing has been read, asked or written yet."""

    plan: Plan
    banks: Sequence[Bank]
    conventions: Sequence[Convention]
    rubrics: Sequence[Careful]
    judge: Patient
    full: Patient | None
    """The judge of a cascade, for what the first one doubts."""
    choosing: Choosing
    memory: Memory
    watch: Watch
    stopping: Callable[[], bool]
    budget: Budget
    cut: Cut
    saw: Saw
    places: Mapping[int, int]
    """Which source of the plan one is, by its identity."""
    broke: Callable[[Exception], None] = lambda _: None
    """Is told what the judge, or the memory, gave up with."""
    withheld: Callable[[Scorecard], bool] = lambda _: False
    """Whether a card is neither kept nor written: who asks comes back to its trace."""

    @classmethod
    def opened(
        cls,
        plan: Plan,
        memory: Memory,
        *,
        progress: Watch | None = None,
        stopping: Callable[[], bool] | None = None,
        cut: Cut | None = None,
        saw: Saw | None = None,
    ) -> Self:
        """Open all a plan names; PlanError or PlatformError where one of them can't be."""
        doors = [Door(_named(spec), load("sink", spec)) for spec in plan.sinks]
        apart = [load("source", spec) for spec in plan.sources]
        sources = _joined(apart)
        budget = Budget(plan.max_cost)
        wished = stopping or never
        judge = _asked(plan.judge, budget, wished)
        full = _asked(plan.cascade.judge, budget, wished) if plan.cascade else None
        if full is not None:
            check_judges(judge, full)
        if stopping is not None:
            for one in (*sources, *(door.sink for door in doors)):
                getattr(one, "stop_when", _unstopped)(stopping)
        Weighing(plan, _unsaid)  # what a plan names is had before anything starts
        resolver(plan, _unsaid)
        return cls(
            plan=plan,
            banks=[(source, doors if doors or plan.dry_run else [_home(source)]) for source in sources],
            conventions=plan.vocabularies(),
            rubrics=[Careful(load("rubric", spec)) for spec in plan.rubrics],
            judge=judge,
            full=full,
            choosing=Choosing.of(plan, [judge, full] if full else [judge], memory),
            memory=memory,
            watch=progress or _unwatched,
            stopping=lambda: wished() or budget.is_spent,
            budget=budget,
            cut=cut or _uncut,
            saw=saw or _unseen,
            places={id(source): at for at, source in enumerate(apart) if any(source is one for one in sources)},
        )

    @functools.cached_property
    def referrals(self) -> Mapping[str, Careful]:
        """The rubrics a card may send its record on to, beside those that are asked of every record."""
        asked = any(rubric.name == _DEEPER for rubric in self.rubrics)
        return {} if asked else {_DEEPER: Careful(load("rubric", _DEEPER))}

    @property
    def judges(self) -> str:
        """Who judges, in the order they are asked."""
        return f"{self.judge.id}, then {self.full.id}" if self.full else self.judge.id

    @property
    def asked(self) -> tuple[Patient, ...]:
        """The judges, in the order they are asked."""
        return (self.judge, self.full) if self.full else (self.judge,)

    def knock(self) -> None:
        """Have the judges open what they need and ask nothing: PlanError where a key is missing, say."""
        for judge in self.asked:
            for _ in judge.hear((), lambda _case, _reply: None):
                pass

    def reading(self, source: Source, holds: Holds | None = None) -> Reading:
        """One source, to be read for this plan."""
        take = {} if holds is None else {"take": holds.take_all}
        return Reading(
            source,
            self.plan,
            conventions=self.conventions,
            rubrics=self.rubrics,
            choosing=self.choosing,
            saw=functools.partial(self.saw, self.places.get(id(source), -1)),
            **take,
        )

    def flow(self, source: Source, doors: Sequence[Door], before: Report, holds: Holds | None = None) -> Report:
        """Read one source to its end; its cards go to these sinks. `before` is what the sources before it gave."""
        reading = self.reading(source, holds)
        kind = (self.full or self.judge).kind
        headline_only, heard = self.plan.scores == "headline", self.asked[-1]
        never_waits = self.asked[0].kind == heard.kind == "offline" and getattr(source, "at_hand", False)
        rests = never_waits or hasattr(heard, "when_idle")
        writing = Writing(doors, self.memory, holds, kind, headline_only=headline_only, rests=rests)
        # Of two judges the last is heard in this thread, and hears nothing while the first waits.
        getattr(heard, "when_idle", _unasked)(functools.partial(_rest, writing))
        passage = _Passage(self, reading, writing, before)
        try:
            with Isolated("keeping scores", writing.fail):
                if passage.carry(reading.records()):
                    self._wait(passage)
                    if holds is not None:
                        self._bring_back(passage, source)
        finally:
            with Isolated("keeping scores", writing.fail):
                writing.flush()
                if not self.stopping() and not writing.vain:
                    writing.left_over()
        reading.give_up()
        if reading.cut or passage.broken or writing.vain >= _VAIN or self.stopping():
            self.cut(reading.cut)
        notes = [*_notes(f"source {source.platform}", source), *self.choosing.purse.notes, *self.budget.notes]
        notes += [note for judge in self.asked for note in _notes(f"judge {judge.id}", judge)]
        notes += [note for door in doors for note in _notes(f"sink {door.shown}", door.sink)]
        notes += [note for rubric in self.rubrics for note in _notes(f"rubric {rubric.name}", rubric)]
        return reading.report + Report(notes=tuple(notes)) + writing.report

    def _bring_back(self, passage: _Passage, source: Source) -> None:
        """Look at the traces users complained about since the last run; how far that was is kept once all are written.

        Only a memory that outlives the run knows since when.
        """
        reading, writing = passage.reading, passage.writing
        if not hasattr(source, "late"):
            return
        if reading.cut is not None and not reading.seen:  # not there, or not for us: asked once, said once
            return
        place = f"feedback:{source.platform}:{getattr(source, 'project', None) or ''}"
        before = reading.report.left_behind + writing.report.left_behind
        if not passage.carry(reading.late(self.memory.cursor(place))):
            return
        self._wait(passage)
        writing.flush()
        left = reading.report.left_behind + writing.report.left_behind - before + len(reading.put_off)
        reached = getattr(source, "watermark", lambda: None)()
        if reached is not None and not left and not self.stopping():
            self.memory.move_cursor(place, reached)

    def _wait(self, passage: _Passage) -> None:
        """Take up the traces another run worked on as they come free: done by it they cost nothing, else they are ours.

        What is ours was written and given back before, so two runs never wait for each other.
        """
        reading, since = passage.reading, time.monotonic()
        while reading.put_off and not self.stopping() and time.monotonic() - since < _PATIENCE:
            passage.writing.flush()
            left = len(reading.put_off)
            if not passage.carry(reading.again()):
                return
            if len(reading.put_off) < left:
                since = time.monotonic()
            elif reading.put_off:
                time.sleep(_PAUSE)


@dataclass
class _Passage:
    """One source on its way through a river."""

    river: River
    reading: Reading
    writing: Writing
    before: Report
    taken: int = 0
    broken: bool = False
    """Whether the judge, or the memory, gave up."""

    def carry(self, records: Iterable[Record]) -> bool:
        """Judge records and write their cards; False where going on is in vain."""
        river = self.river
        ask: Callable[..., Iterator[Scorecard]] = evaluate
        if river.full is not None and river.plan.cascade is not None:
            ask = functools.partial(cascade, full=river.full, band=river.plan.cascade.band)
        judged = ask(
            records,
            river.rubrics,
            river.judge,
            memory=river.memory,
            referrals=river.referrals,
            batch_id=self.before.about.batch_id,
            finished=lambda record: self.writing.finish(self.reading.finish(record)),
            stopping=river.stopping,
        )
        written = sum(sum(states.values()) for states in self.before.cards.values())
        cards = cast("Generator[Scorecard]", judged)
        with closing(cards):
            for card in self._heard(cards):
                if river.withheld(card):
                    self._name(card)
                    continue
                self.taken += 1
                self.writing.take(audited(self._marked(card), river.plan.audit_rate))
                self._name(card)
                river.watch(self.before.traces + self.reading.traces, written + self.taken)
                if self.writing.vain >= _VAIN:
                    platform = self.reading.platform
                    self.writing.fail(f"stopped judging {platform}: no score of {self.writing.lost} cards went out")
                    return False
        return not self.broken

    def _heard(self, cards: Iterator[Scorecard]) -> Iterator[Scorecard]:
        """The cards until their end, or until the judge fails: what came before that still counts."""
        while True:
            card, over = None, list[str]()
            border = Isolated(f"judge {self.river.judge.id}", over.append)
            with border:
                card = next(cards, None)
            for why in over:
                self.broken = True
                self.writing.fail(why)
            if border.raised is not None:
                self.river.broke(border.raised)
            if card is None:
                return
            yield card

    def _marked(self, card: Scorecard) -> Scorecard:
        """The card, with a mark where the model that wrote the answer judged it and nobody held it against people."""
        generator = card.slices.get("generator_model", "")
        if card.judge_kind != "llm" or card.calibration or not same_model(card.judge, generator):
            return card
        hint = "another judge, or a calibration of this one, would say more"
        self.writing.note(f"judge {card.judge}: the model {generator} wrote answers it judges; {hint}")
        return card.model_copy(update={"flags": tuple(sorted({*card.flags, "self_judged"}))})

    def _name(self, card: Scorecard) -> None:
        """Note which record the judge broke on."""
        for judge in filter(None, (self.river.judge, self.river.full)):
            fault = judge.broke.pop((card.record_id, card.rubric), None)
            if fault is None:
                continue
            where = f"record {card.record_id} of trace {card.ref.trace_id}"
            self.writing.note(f"judge {judge.id} broke on {card.rubric} of {where}: {fault}")


def survey(river: River, source: Source, see: Callable[[Record], None] = lambda _: None) -> Report:
    """Read one source to its end and count what a judge would be asked, in tokens of about four characters."""
    reading, asked = river.reading(source), Count()
    price: Callable[[Usage], float | None] = getattr(river.judge, "price", lambda _: None)
    for record in reading.records():
        see(record)
        for rubric in (rubric for rubric in river.rubrics if record.kind in rubric.kinds):
            for item in rubric.cases(record, river.judge.unassessed(rubric.name)):
                if isinstance(item, Case):
                    tokens = -(-(len(item.prefix) + len(item.render("0" * 16))) // 4)
                    asked.add(Report(cases=1, tokens=tokens, about=About(cost=price(Usage(tokens, 0)))))
    return reading.report + Report(notes=tuple(_notes(f"source {source.platform}", source))) + asked.report


def _notes(what: str, told: Source | Sink | Careful | Patient) -> list[str]:
    """What a source, a sink, a rubric or a judge has to say for the report, or that it could not."""
    said: list[str] = []
    with Isolated(f"notes of {what} are lost", said.append):
        said += map(str, getattr(told, "notes", tuple)())
    return said


def _asked(spec: Spec, budget: Budget, stopping: Callable[[], bool]) -> Patient:
    """A judge whose cost is counted, that goes on after it broke, and that ends where the run does."""
    judge = Patient(budget.watching(load("judge", spec)))
    getattr(judge, "stop_when", _unstopped)(lambda: stopping() or budget.is_spent)
    return judge


def _joined(sources: Iterable[Source]) -> list[Source]:
    """The sources, those that can be read as one joined: a trace may be spread over them, or stand in two."""
    apart: list[Source] = []
    for source in sources:
        joins = (getattr(held, "join", lambda _: None)(source) for held in apart)
        at, one = next(((at, one) for at, one in enumerate(joins) if one is not None), (len(apart), source))
        apart[at : at + 1] = [one]
    return apart


def _named(spec: Spec) -> str:
    """A spec in a few words."""
    return spec if isinstance(spec, str) else f"{spec['use']}:{spec.get('argument', '')}".rstrip(":")


def _home(source: Source) -> Door:
    """Where the scores of a source go by themselves; the report calls it by its files, or by the project."""
    sink: Sink = source.home()
    files = ", ".join(map(str, getattr(sink, "files", ())))
    project = getattr(source, "project", None)
    return Door(files or (f"{source.platform}:{project}" if project else f"home of {source.platform}"), sink)


def _unsaid(_: str) -> None:
    """Nothing was weighed yet."""


def _rest(writing: Writing) -> None:
    """Write what waits; trouble with that is no trouble of the judge's, in whose middle it is done."""
    with Isolated("keeping scores", writing.fail):
        writing.rest()


def _unasked(_: Callable[[], None]) -> None:
    """One that never waits."""


def _unstopped(_: Callable[[], bool]) -> None:
    """A judge, source or sink that never waits for long."""


def _unseen(_: int, __: Trace) -> None:
    """Nobody wants to know which traces there were."""


def _uncut(_: Exception | None) -> None:
    """Nobody minds."""


def _unwatched(_: int, __: int) -> None:
    """Nobody looks on."""
