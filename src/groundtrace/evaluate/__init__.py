"""Records to scorecards: ask, validate, ask once more with the faults, check the evidence, conclude or refer.

The one place where a judge is called. A reply is text nobody believes until it passed the gate:

1. exactly one JSON object, none that stands in the record, that fits the rubric's schema strictly;
2. what a schema cannot say (arithmetic, label against score, null rules): the rubric's `finding`;
3. every quote the verdict leans on is located: the rubric's `finding` as well;
4. a fault is asked once more, with its lines;
5. twice: the finding is unscored, its attempts are kept, and the card goes to review.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from groundtrace.errors import InvalidVerdict, PlanError
from groundtrace.evaluate.reply import bounded, early, extras, fit, parse
from groundtrace.model import Attempt, Case, Finding, Record, Review, Scorecard, canonical, card_id, fields_spelled
from groundtrace.review import broke, outranks, subject_of

__all__ = ["evaluate", "parse"]

if TYPE_CHECKING:
    from groundtrace.model import Reply
    from groundtrace.ports import Judge, Memory, Rubric

_DRAIN = 256
"""Finished cards held back at most while the judge is looking for its next case."""


def evaluate(
    records: Iterable[Record],
    rubrics: Sequence[Rubric],
    judge: Judge,
    *,
    memory: Memory | None = None,
    referrals: Mapping[str, Rubric] | None = None,
    batch_id: str = "",
    finished: Callable[[Record], None] | None = None,
    stopping: Callable[[], bool] | None = None,
    deeper: Judge | None = None,
    wanted: Callable[[Rubric], bool] | None = None,
    sent: Callable[[Record, str], bool] | None = None,
) -> Iterator[Scorecard]:
    """Score records: one card for each record and rubric, in the order they finish.

    A record gives none for a rubric that is not for its kind (one of kind "other", for any); what can't be judged
    gives an unscored card that says why. `referrals` are rubrics a card may send its record on to. Records are pulled
    as the judge has room, so a stream of any length is held a piece at a time. With a `memory`, equal questions are
    asked of a judge once, and a card whose word weighs more than this judge's is given as it is. `finished` is told of
    every record whose last card was taken. Once `stopping` says so nothing more is asked: what is in flight finishes,
    and a card that lacks an answer is not given. A card that the `deeper` judge gave for the same record stands, and
    only what outranks that one. `wanted` says under which rubrics the record pulled last is looked at. `sent` is asked
    before a record is sent on to a rubric, and says whether it may be; else it may where that is none of `rubrics`.
    PlanError where something other than records, rubrics and a judge is given.
    """
    _check(records, rubrics, judge)
    hearing = _Hearing(
        records,
        rubrics=rubrics,
        judge=judge,
        memory=memory,
        referrals=referrals or {},
        batch_id=batch_id,
        stopping=stopping or never,
        deeper=deeper,
        wanted=wanted,
        sent=sent,
    )
    return _evaluated(hearing, finished or _nobody)


def never() -> bool:
    """Nothing stops it."""
    return False


def _always(_: Rubric) -> bool:
    return True


def _nobody(_: Record) -> None:
    """Nobody asked to be told."""


def _check(records: object, rubrics: object, judge: object) -> None:
    """Say at once what would otherwise fail deep inside: a name for a thing, one thing for several."""
    if isinstance(records, (Record, str, Mapping)) or not isinstance(records, Iterable):
        raise PlanError("records", type(records).__name__, "is no series of records", hint="give a list of records")
    if isinstance(rubrics, str) or not isinstance(rubrics, Sequence) or not all(hasattr(r, "cases") for r in rubrics):
        hint = 'give a list of rubrics, as in [groundtrace.rubric("source_support")]'
        raise PlanError("rubrics", rubrics, "is no list of rubrics", hint=hint)
    if not hasattr(judge, "hear"):
        raise PlanError("judge", judge, "is no judge", hint='give a judge, as in groundtrace.judge("offline")')


def _evaluated(hearing: _Hearing, tell: Callable[[Record], None]) -> Iterator[Scorecard]:
    judge = hearing.judge
    gate = _Gate(hearing)
    while not hearing.over:
        for case, reply in judge.hear(hearing.cases(), gate):
            hearing.answered(case, reply)
            yield from hearing.finished(tell)
        hearing.silence()
        yield from hearing.finished(tell)


class _Gate:
    """The gate as a judge knows it; what several replies tell the memory may be kept together."""

    def __init__(self, hearing: _Hearing) -> None:
        self._hearing = hearing

    def __call__(self, case: Case, reply: Reply) -> Case | None:
        """None when the case is decided, else the case to ask next."""
        return self._hearing.again(case, reply)

    def together(self) -> AbstractContextManager[None]:
        """What is told inside is kept at its end, as one."""
        return self._hearing.together()


@dataclass
class _Under:
    """A record under its rubrics, and those of them whose card was not handed out yet."""

    record: Record
    waiting: set[str]
    referred: set[str] = field(default_factory=set)
    kept: bool = False

    def basis(self, rubric: Rubric, judge: Judge) -> str:
        """Equal for the same content under the same rubric and judge: nothing new can come of asking again.

        Its first part is the question's and the answer's alone; see `review.subject_of`.
        """
        subject, content = self._digests
        return f"{subject[:16]}-{_hash(f'{rubric.version} {judge.id} {content}')}"

    @functools.cached_property
    def _digests(self) -> tuple[str, str]:
        """What is asked and answered, and all a judge can be shown, in short; once for all rubrics and judges."""
        record = self.record
        unseen = {"signals", "origins"}
        content = fields_spelled(record, unseen) or canonical(record.model_dump(exclude=unseen), default=str)
        asked = canonical([record.kind, record.query, record.answer], default=str)
        return hashlib.sha256(asked).hexdigest(), hashlib.sha256(content).hexdigest()


@dataclass
class _Open:
    """A card in the making."""

    under: _Under
    rubric: Rubric
    basis: str
    slots: list[str] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    digests: dict[str, str] = field(default_factory=dict)
    """Of the questions, by slot, as they were asked first."""
    waiting: set[str] = field(default_factory=set)
    temperature: float | None = None

    @property
    def record(self) -> Record:
        return self.under.record


class _Hearing:
    """The state of one `evaluate`: which cards are open, and what was said about them.

    `cases` and `again` run wherever the judge runs them, one at a time; the rest runs in the caller's thread.
    """

    def __init__(
        self,
        records: Iterable[Record],
        *,
        rubrics: Sequence[Rubric],
        judge: Judge,
        memory: Memory | None,
        referrals: Mapping[str, Rubric],
        batch_id: str,
        stopping: Callable[[], bool],
        deeper: Judge | None,
        wanted: Callable[[Rubric], bool] | None,
        sent: Callable[[Record, str], bool] | None,
    ) -> None:
        self._records = iter(records)
        self._rubrics = rubrics
        self.judge = judge
        self._memory = memory
        self._referrals = referrals
        self._batch_id = batch_id
        self._stopping = stopping
        self._deeper = deeper
        self._wanted = wanted or _always
        named = {rubric.name for rubric in rubrics}
        self._sent = sent or (lambda _, name: name not in named)
        self._stopped = False
        self._open: dict[tuple[str, str], _Open] = {}
        self._referred: deque[tuple[_Under, Rubric]] = deque()
        self._done: deque[tuple[_Under, Scorecard | None]] = deque()
        self._exhausted = False
        self._gathers = False
        self._told: list[Callable[[], None]] = []
        """What replies told and the memory was not told yet: of one turn of the judge's, at most."""

    @property
    def over(self) -> bool:
        return self._stopped or (self._exhausted and not self._referred and not self._open)

    def cases(self) -> Iterator[Case]:
        """The questions, as the judge has room; ends early when many cards wait to be handed out, or at a stop."""
        for case in self._questions():
            if self._halted():
                return
            yield case

    def _questions(self) -> Iterator[Case]:
        while len(self._done) < _DRAIN and not self._halted():
            if self._referred:
                yield from self._begin(*self._referred.popleft())
                continue
            record = next(self._records, None)
            if record is None:
                self._exhausted = True
                return
            suited = [rubric for rubric in self._rubrics if record.kind in rubric.kinds and self._wanted(rubric)]
            under = _Under(record, {rubric.name for rubric in suited})
            if not suited:
                self._done.append((under, None))
            for rubric in suited:
                yield from self._begin(under, rubric)

    def _halted(self) -> bool:
        """Whether nothing more is asked; said once, it stays so."""
        self._stopped = self._stopped or self._stopping()
        return self._stopped

    def _begin(self, under: _Under, rubric: Rubric) -> Iterator[Case]:
        """Open a card and give its questions; one decided by rule or by memory alone is concluded here."""
        record = under.record
        basis = under.basis(rubric, self.judge)
        deeper = under.basis(rubric, self._deeper) if self._deeper else ""
        settled = self._settled(card_id(record.ref, rubric.name), basis, deeper)
        if settled is not None:
            self._refer(under, settled)  # what it asked for before is known as well, or due
            self._done.append((under, settled))
            return
        name = record.id
        while (name, rubric.name) in self._open:  # two records of one id in flight: their answers must not mix
            name += "'"
        opened = _Open(under, rubric, basis)
        asked: list[Case] = []
        for item in rubric.cases(record, self.judge.unassessed(rubric.name)):
            opened.slots.append(item.slot)
            if isinstance(item, Finding):
                opened.findings[item.slot] = item
            else:
                asked.append(item if item.record_id == name else replace(item, record_id=name))
        opened.waiting = {case.slot for case in asked}
        self._open[name, rubric.name] = opened
        for case in asked:
            if not self._recalled(case):
                yield case
        if not opened.waiting:
            self._conclude(name, rubric.name)

    def _settled(self, ident: str, basis: str, deeper: str) -> Scorecard | None:
        """The card this very record got before from this judge or the deeper one, unless the judge had failed.

        Whatever it was made from, one that weighs more than this judge's word needs no question.
        """
        known = self._memory.card(ident, subject_of(basis)) if self._memory else None
        if known is None:
            return None
        if outranks(known, (self._deeper or self.judge).kind, basis):
            return known.model_copy(update={"attempts": _as_known(known.attempts)})
        if broke(known) or not known.rests_on(basis, deeper):
            return None
        return known.model_copy(update={"attempts": _as_known(known.attempts), "batch_id": self._batch_id})

    def _recalled(self, case: Case) -> bool:
        """Whether an equal question was answered before, and the answer still passes the gate."""
        if self._memory is None:
            return False
        opened = self._open[case.record_id, case.rubric]
        digest = opened.digests[case.slot] = case.digest
        known = self._memory.reply(self.judge.id, digest)
        if known is None:
            return False
        recalled = replace(known, cached=True)
        finding, faults, notes = self._hold(opened, case, recalled)
        if finding is None or faults:
            return False
        self._note(opened, case, recalled, (), notes)
        opened.findings[case.slot] = _flagged(finding, recalled.flags)
        opened.waiting.discard(case.slot)
        return True

    def again(self, case: Case, reply: Reply) -> Case | None:
        """The gate: None when the case is decided, else the same case with the fault lines as its remark."""
        opened = self._open.get((case.record_id, case.rubric))
        if opened is None or case.slot in opened.findings:
            return None
        finding, faults, notes = self._hold(opened, case, reply)
        keep = functools.partial(self._keep_reply, opened, case, reply, faults)
        if self._gathers:
            self._told.append(keep)
        else:
            self._keep_told([keep])
        self._note(opened, case, reply, faults, notes)
        if finding is not None and (not faults or case.remark is not None):
            opened.findings[case.slot] = _flagged(finding, reply.flags)
            return None
        if reply.fault is None and case.remark is None:
            return replace(case, remark="\n".join(f"- {fault}" for fault in faults))
        opened.findings[case.slot] = _unscored(case.slot, "judge_failed" if reply.fault else "invalid_verdict", faults)
        return None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Keep what replies tell inside in one step at the end: a memory is not held while they are looked at."""
        self._gathers = True
        try:
            yield
        finally:
            self._gathers, told, self._told = False, self._told, []
            self._keep_told(told)

    def _keep_told(self, told: Sequence[Callable[[], None]]) -> None:
        if self._memory and told:
            with self._memory.batch():
                for keep in told:
                    keep()

    def _keep_reply(self, opened: _Open, case: Case, reply: Reply, faults: tuple[str, ...]) -> None:
        """Keep a reply, and the record it is about."""
        if self._memory:
            question, of_card = opened.digests[case.slot], card_id(opened.record.ref, case.rubric)
            self._keep(opened.under)
            self._memory.keep_reply(self.judge.id, question, reply, faults, card_id=of_card, slot=case.slot)

    def _keep(self, under: _Under) -> None:
        """Keep a record that something is said of now, once."""
        if self._memory and not under.kept:
            self._memory.keep_record(under.record)
            under.kept = True

    def answered(self, case: Case, reply: Reply) -> None:
        """Take a case's last reply; a judge that never asked `again` is held to the same gate here."""
        opened = self._open.get((case.record_id, case.rubric))
        if opened is None or case.slot not in opened.waiting:
            return
        if case.slot not in opened.findings and self.again(case, reply) is not None:
            opened.findings[case.slot] = _unscored(case.slot, "invalid_verdict", opened.attempts[-1].faults)
        opened.waiting.discard(case.slot)
        if not opened.waiting:
            self._conclude(case.record_id, case.rubric)

    def silence(self) -> None:
        """Conclude what a judge left without a word; after a stop it had no chance to answer, and is left open."""
        if self._halted():
            self._open.clear()
        for key, opened in list(self._open.items()):
            for slot in opened.waiting:
                opened.findings.setdefault(slot, _unscored(slot, "judge_silent", ("no reply came",)))
            self._conclude(*key)

    def finished(self, tell: Callable[[Record], None]) -> Iterator[Scorecard]:
        """The cards that are done; `tell` hears of a record once its last one was taken."""
        while self._done:
            under, card = self._done.popleft()
            if card is not None:
                yield card
                under.waiting.discard(card.rubric)
            if not under.waiting:
                tell(under.record)

    def _hold(self, opened: _Open, case: Case, reply: Reply) -> tuple[Finding | None, tuple[str, ...], tuple[str, ...]]:
        """Hold a reply against schema and record: (finding or None, faults, notes on what was overlooked)."""
        if reply.fault is not None:
            return None, (reply.fault,), ()
        if (ended := early(reply)) is not None:
            return None, (ended,), ()
        unassessed = self.judge.unassessed(case.rubric)
        notes: tuple[str, ...] = ()
        try:
            told, notes = parse(reply.text, case)
            verdict = fit(opened.rubric.schema(unassessed), told)
            notes += tuple(f"unknown field ignored @ {path}" for path in extras(verdict, "$"))
            return opened.rubric.finding(opened.record, case, verdict, unassessed), (), notes
        except InvalidVerdict as invalid:
            return invalid.standing, invalid.faults, notes

    def _note(self, opened: _Open, case: Case, reply: Reply, faults: tuple[str, ...], notes: tuple[str, ...]) -> None:
        opened.temperature = reply.temperature
        opened.attempts.append(
            Attempt(
                slot=case.slot,
                attempt=1 if case.remark is None else 2,
                judge=reply.judge,
                text=_whole(bounded(reply.text)),
                faults=faults,
                cached=reply.cached,
                notes=notes,
                usage=reply.usage,
                cost=reply.cost,
                latency=reply.latency,
                source_ids=tuple(_sources(case.body)),
            )
        )

    def _conclude(self, name: str, rubric: str) -> None:
        opened = self._open.pop((name, rubric), None)
        if opened is None:  # two threads saw the last answer come in: the pop says who concludes
            return
        self._keep(opened.under)
        order = {slot: at for at, slot in enumerate(opened.slots)}
        findings = tuple(opened.findings[slot] for slot in opened.slots)
        card = opened.rubric.conclude(opened.record, findings)
        attempts = sorted(opened.attempts, key=lambda a: (order[a.slot], a.attempt))
        review = card.review + self._refer(opened.under, card)
        held = card.status == "scored" and opened.record.risk == "high" and review
        stamped = card.model_copy(
            update={
                "judge": self.judge.id,
                "judge_kind": self.judge.kind,
                "limits": self.judge.limits,
                "temperature": None if opened.temperature is None else float(opened.temperature),
                "timestamp": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
                "batch_id": self._batch_id,
                "basis": opened.basis,
                "attempts": tuple(attempts),
                "decided_by": "full" if attempts else "rule",
                "review": review,
                "status": "pending_review" if held else card.status,
            }
        )
        self._done.append((opened.under, stamped))

    def _refer(self, under: _Under, card: Scorecard) -> tuple[Review, ...]:
        """Put the record to the rubrics its card asks for, or to a person where they ran already or aren't there."""
        reviews = []
        for name in card.refer:
            if name in under.referred:
                continue
            if name in self._referrals and self._sent(under.record, name):
                under.referred.add(name)
                under.waiting.add(name)
                self._referred.append((under, self._referrals[name]))
            else:
                reviews.append(Review(reason="red_flag", note=f"{card.rubric} asks for a deeper look"))
        return tuple(reviews)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _as_known(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Attempts of an earlier time: nobody was asked anew."""
    return tuple(attempt.model_copy(update={"cached": True}) for attempt in attempts)


def _unscored(slot: str, reason: str, faults: tuple[str, ...]) -> Finding:
    return Finding(slot=slot, status="unscored", reason=reason, rationale="; ".join(faults), flags=(reason,))


def _flagged(finding: Finding, flags: tuple[str, ...]) -> Finding:
    """The finding with what the judge noticed beside its verdict."""
    if not flags:
        return finding
    new = tuple(flag for flag in flags if flag not in finding.flags)
    return finding.model_copy(update={"flags": finding.flags + new}) if new else finding


def _whole(text: str) -> str:
    """Text that any JSON writer takes: a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _sources(body: Mapping[str, Any]) -> Iterator[str]:
    """The ids of the passages a case shows."""
    for value in body.values():
        if isinstance(value, str):
            continue
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, (dict, Mapping)) and "text" in item and "id" in item:
                yield str(item["id"])
