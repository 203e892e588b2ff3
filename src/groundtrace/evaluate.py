"""Records to scorecards: ask, validate, ask once more with the faults, check the evidence, conclude or refer.

The one place where a judge is called. A reply is text nobody believes until it passed the gate:

1. exactly one JSON object that fits the rubric's schema strictly;
2. what a schema cannot say (arithmetic, label against score, null rules): the rubric's `finding`;
3. every quote the verdict leans on is located: the rubric's `finding` as well;
4. a fault is asked once more, with its lines;
5. twice: the finding is unscored, its attempts are kept, and the card goes to review.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import BaseModel, ValidationError

from groundtrace.errors import InvalidVerdict, PlanError
from groundtrace.model import Attempt, Case, Finding, Record, Review, Scorecard, card_id

if TYPE_CHECKING:
    from groundtrace.model import Reply
    from groundtrace.ports import Judge, Memory, Rubric

_TRANSIENT = ("judge_failed", "judge_silent")
"""Reasons that say nothing about the record: such a card is worth asking again."""

_DRAIN = 256
"""Finished cards held back at most while the judge is looking for its next case."""

_LONGEST_REPLY = 1_000_000
"""Characters of a reply that are read at all."""

_SHOWN = 120
"""Characters of a wrong value that are shown to the judge."""

_LONGEST_NUMBER, _LONGEST_EXPONENT = 300, 4
"""Characters a number and its exponent may have."""


def evaluate(
    records: Iterable[Record],
    rubrics: Sequence[Rubric],
    judge: Judge,
    *,
    memory: Memory | None = None,
    referrals: Mapping[str, Rubric] | None = None,
    batch_id: str = "",
) -> Iterator[Scorecard]:
    """Score records: one card for each record and rubric, in the order they finish.

    A record gives none for a rubric that is not for its kind (one of kind "other", for any); what can't be judged
    gives an unscored card that says why. `referrals` are rubrics a card may send its record on to. Records are pulled
    as the judge has room, so a stream of any length is held a piece at a time. With a `memory`, equal questions are
    asked of a judge once. PlanError where something other than records, rubrics and a judge is given.
    """
    _check(records, rubrics, judge)
    return _evaluated(
        _Hearing(records, rubrics=rubrics, judge=judge, memory=memory, referrals=referrals or {}, batch_id=batch_id)
    )


def _check(records: object, rubrics: object, judge: object) -> None:
    """Say at once what would otherwise fail deep inside: a name for a thing, one thing for several."""
    if isinstance(records, (Record, str, Mapping)) or not isinstance(records, Iterable):
        raise PlanError("records", type(records).__name__, "is no series of records", hint="give a list of records")
    if isinstance(rubrics, str) or not isinstance(rubrics, Sequence) or not all(hasattr(r, "cases") for r in rubrics):
        hint = 'give a list of rubrics, as in [groundtrace.rubric("source_support")]'
        raise PlanError("rubrics", rubrics, "is no list of rubrics", hint=hint)
    if not hasattr(judge, "hear"):
        raise PlanError("judge", judge, "is no judge", hint='give a judge, as in groundtrace.judge("offline")')


def _evaluated(hearing: _Hearing) -> Iterator[Scorecard]:
    judge = hearing.judge
    while not hearing.over:
        for case, reply in judge.hear(hearing.cases(), hearing.again):
            hearing.answered(case, reply)
            yield from hearing.finished()
        hearing.silence()
        yield from hearing.finished()


@dataclass
class _Open:
    """A card in the making."""

    record: Record
    rubric: Rubric
    basis: str
    slots: list[str] = field(default_factory=list)
    findings: dict[str, Finding] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    temperature: float | None = None


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
    ) -> None:
        self._records = iter(records)
        self._rubrics = rubrics
        self.judge = judge
        self._memory = memory
        self._referrals = referrals
        self._batch_id = batch_id
        self._open: dict[tuple[str, str], _Open] = {}
        self._referred: deque[tuple[Record, Rubric]] = deque()
        self._done: deque[Scorecard] = deque()
        self._exhausted = False

    @property
    def over(self) -> bool:
        return self._exhausted and not self._referred and not self._open

    def cases(self) -> Iterator[Case]:
        """The questions, as the judge has room; ends early when many cards wait to be handed out."""
        while len(self._done) < _DRAIN:
            if self._referred:
                yield from self._begin(*self._referred.popleft())
                continue
            record = next(self._records, None)
            if record is None:
                self._exhausted = True
                return
            for rubric in self._rubrics:
                if record.kind in rubric.kinds:
                    yield from self._begin(record, rubric)

    def _begin(self, record: Record, rubric: Rubric) -> Iterator[Case]:
        """Open a card and give its questions; one decided by rule or by memory alone is concluded here."""
        basis = _basis(record, rubric, self.judge)
        settled = self._settled(card_id(record.ref, rubric.name), basis)
        if settled is not None:
            self._done.append(settled)
            return
        name = record.id
        while (name, rubric.name) in self._open:  # two records of one id in flight: their answers must not mix
            name += "'"
        opened = _Open(record, rubric, basis)
        asked: list[Case] = []
        for item in rubric.cases(record, self.judge.unassessed(rubric.name)):
            opened.slots.append(item.slot)
            if isinstance(item, Finding):
                opened.findings[item.slot] = item
            else:
                asked.append(replace(item, record_id=name))
        opened.waiting = {case.slot for case in asked}
        self._open[name, rubric.name] = opened
        for case in asked:
            if not self._recalled(case):
                yield case
        if not opened.waiting:
            self._conclude(name, rubric.name)

    def _settled(self, ident: str, basis: str) -> Scorecard | None:
        """The card this very record got from this judge under this version before, unless the judge had failed."""
        known = self._memory.settled(ident, basis) if self._memory else None
        if known is None or known.reason in _TRANSIENT or any(f.reason in _TRANSIENT for f in known.findings):
            return None
        attempts = tuple(attempt.model_copy(update={"cached": True}) for attempt in known.attempts)
        return known.model_copy(update={"attempts": attempts, "batch_id": self._batch_id})

    def _recalled(self, case: Case) -> bool:
        """Whether an equal question was answered before, and the answer still passes the gate."""
        known = self._memory.reply(self.judge.id, case.digest) if self._memory else None
        if known is None:
            return False
        recalled = replace(known, cached=True)
        opened = self._open[case.record_id, case.rubric]
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
        if self._memory:
            question = replace(case, remark=None).digest
            of_card = card_id(opened.record.ref, case.rubric)
            self._memory.keep_reply(self.judge.id, question, reply, faults, card_id=of_card, slot=case.slot)
        self._note(opened, case, reply, faults, notes)
        if finding is not None and (not faults or case.remark is not None):
            opened.findings[case.slot] = _flagged(finding, reply.flags)
            return None
        if reply.fault is None and case.remark is None:
            return replace(case, remark="\n".join(f"- {fault}" for fault in faults))
        opened.findings[case.slot] = _unscored(case.slot, "judge_failed" if reply.fault else "invalid_verdict", faults)
        return None

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
        """Conclude what a judge left without a word."""
        for key, opened in list(self._open.items()):
            for slot in opened.waiting:
                opened.findings.setdefault(slot, _unscored(slot, "judge_silent", ("no reply came",)))
            self._conclude(*key)

    def finished(self) -> Iterator[Scorecard]:
        while self._done:
            yield self._done.popleft()

    def _hold(self, opened: _Open, case: Case, reply: Reply) -> tuple[Finding | None, tuple[str, ...], tuple[str, ...]]:
        """Hold a reply against schema and record: (finding or None, faults, notes on what was overlooked)."""
        if reply.fault is not None:
            return None, (reply.fault,), ()
        unassessed = self.judge.unassessed(case.rubric)
        notes: tuple[str, ...] = ()
        try:
            told, notes = parse(reply.text)
            verdict = _fit(opened.rubric.schema(unassessed), told)
            notes += tuple(f"unknown field ignored @ {path}" for path in _extras(verdict, "$"))
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
                text=_whole(reply.text),
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
        order = {slot: at for at, slot in enumerate(opened.slots)}
        findings = tuple(opened.findings[slot] for slot in opened.slots)
        card = opened.rubric.conclude(opened.record, findings)
        attempts = sorted(opened.attempts, key=lambda a: (order[a.slot], a.attempt))
        review = card.review + self._refer(opened.record, card)
        held = card.status == "scored" and opened.record.risk == "high" and review
        self._done.append(
            card.model_copy(
                update={
                    "judge": self.judge.id,
                    "judge_kind": self.judge.kind,
                    "limits": self.judge.limits,
                    "temperature": opened.temperature,
                    "timestamp": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
                    "batch_id": self._batch_id,
                    "basis": opened.basis,
                    "attempts": tuple(attempts),
                    "decided_by": "full" if attempts else "rule",
                    "review": review,
                    "status": "pending_review" if held else card.status,
                }
            )
        )

    def _refer(self, record: Record, card: Scorecard) -> tuple[Review, ...]:
        """Put the record to the rubrics its card asks for, or to a person where they ran already or aren't there."""
        ran = {rubric.name for rubric in self._rubrics}
        reviews = []
        for name in card.refer:
            if name not in ran and name in self._referrals:
                self._referred.append((record, self._referrals[name]))
            else:
                reviews.append(Review(reason="red_flag", note=f"{card.rubric} asks for a deeper look"))
        return tuple(reviews)


# --- the gate's first two steps --------------------------------------------------------------------------------------


def parse(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The one JSON object in a reply, and notes on what stood around it; raises InvalidVerdict.

    Numbers with a point come back as Decimal, so that the digits the judge wrote are known.

    >>> parse('{"score": 4}')
    ({'score': 4}, ())
    >>> parse('Here it is: {"score": 4.50}')
    ({'score': Decimal('4.50')}, ('text around the JSON object ignored',))
    """
    if len(text) > _LONGEST_REPLY:
        raise InvalidVerdict([f"the reply has {len(text)} characters, {_LONGEST_REPLY} at most @ $"])
    decoder = json.JSONDecoder(
        parse_float=_figure, parse_int=_count, parse_constant=_no_constant, object_pairs_hook=_distinct
    )
    opening = _OBJECT.search(text)
    if opening is None:
        raise InvalidVerdict(["reply holds no JSON object @ $"])
    start = opening.start()
    told, end = _decoded(decoder, text, start)
    second = _OBJECT.search(text, end)
    if second is not None:
        raise InvalidVerdict(["reply holds more than one JSON object, one is wanted @ $"])
    if text[:start].rstrip().endswith("["):
        raise InvalidVerdict(["reply is a JSON array, one object is wanted @ $"])
    around = (text[:start] + text[end:]).strip()
    return told, ("text around the JSON object ignored",) if around else ()


_OBJECT = re.compile(r"\{\s*[\"}]")
"""Where a JSON object begins; a brace in prose does not."""


def _decoded(decoder: json.JSONDecoder, text: str, start: int) -> tuple[dict[str, Any], int]:
    try:
        return decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON ({error.msg}, line {error.lineno} column {error.colno})"
    except RecursionError:
        problem = "not valid JSON (nested too deeply)"
    raise InvalidVerdict([f"{problem} @ $"])


def _figure(digits: str) -> Decimal:
    """A number with a point or an exponent, as it was written."""
    return Decimal(_bounded(digits))


def _count(digits: str) -> int:
    return int(_bounded(digits))


def _bounded(digits: str) -> str:
    """A number's digits, unless working with it would take all time and memory: no score needs that many."""
    if len(digits) > _LONGEST_NUMBER or len(digits.lower().partition("e")[2]) > _LONGEST_EXPONENT:
        raise InvalidVerdict([f"the number {digits[:20]}... is out of all bounds @ $"])
    return digits


def _no_constant(name: str) -> NoReturn:
    raise InvalidVerdict([f"{name} is no number @ $"])


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are distinct: of two equal keys nobody can say which was meant."""
    told = dict(pairs)
    if len(told) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidVerdict([f"key {twice!r} stands twice in one object @ $"])
    return told


def _fit(schema: type[BaseModel], told: dict[str, Any]) -> BaseModel:
    """The verdict, if what was told fits the schema; else InvalidVerdict, a line a fault."""
    try:
        return schema.model_validate(told)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        raise InvalidVerdict([f"{fault['msg']}{_got(fault)} @ {_path(fault['loc'])}" for fault in faults]) from None


def _path(steps: Iterable[int | str]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _got(fault: Any) -> str:
    """What was given, where it helps: a missing field has nothing to show."""
    if fault["type"] == "missing":
        return ""
    shown = str(fault["input"]) if isinstance(fault["input"], Decimal) else repr(fault["input"])
    return f"; got {shown[:_SHOWN]}"


def _extras(verdict: Any, path: str) -> Iterator[str]:
    """Where fields stand that the schema does not know."""
    if isinstance(verdict, BaseModel):
        yield from (f"{path}.{name}" for name in verdict.model_extra or {})
        for name in type(verdict).model_fields:
            yield from _extras(getattr(verdict, name), f"{path}.{name}")
    elif isinstance(verdict, (list, tuple)):
        for at, item in enumerate(verdict):
            yield from _extras(item, f"{path}[{at}]")


def _basis(record: Record, rubric: Rubric, judge: Judge) -> str:
    """Equal for the same content under the same rubric and judge: nothing new can come of asking again."""
    content = json.dumps(record.model_dump(exclude={"signals", "origins"}), sort_keys=True, default=str)
    return hashlib.sha256(f"{rubric.version} {judge.id} {content}".encode("utf-8", "replace")).hexdigest()


def _unscored(slot: str, reason: str, faults: tuple[str, ...]) -> Finding:
    return Finding(slot=slot, status="unscored", reason=reason, rationale="; ".join(faults), flags=(reason,))


def _flagged(finding: Finding, flags: tuple[str, ...]) -> Finding:
    """The finding with what the judge noticed beside its verdict."""
    new = tuple(flag for flag in flags if flag not in finding.flags)
    return finding.model_copy(update={"flags": finding.flags + new}) if new else finding


def _whole(text: str) -> str:
    """Text that any JSON writer takes: a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _sources(body: Mapping[str, Any]) -> Iterator[str]:
    """The ids of the passages a case shows."""
    for value in body.values():
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Mapping) and "text" in item and "id" in item:
                yield str(item["id"])
