"""One hearing of a judge that asks by the batch: rounds of cases that are sent, waited for, sorted and put to the gate.

Answers to questions that a run of before sent are found again in the ledger and waited for instead of being paid for
twice.
"""

from __future__ import annotations

import secrets
import tempfile
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, TypeAlias

from groundtrace.errors import PlatformError
from groundtrace.judges.llm.batch_desk import Desk, Progress
from groundtrace.judges.llm.batch_ledger import Sent
from groundtrace.judges.llm.client import TRANSIENT, Answer, Question, Trouble
from groundtrace.model import Reply

if TYPE_CHECKING:
    from groundtrace.judges.llm.batch import BatchJudge
    from groundtrace.model import Case
    from groundtrace.ports import Again

Heard: TypeAlias = "tuple[Case, Reply]"

_TRIES = 2
"""How often a question is asked that gets no answer."""

_ON_DISK = 8_000_000
"""Bytes from which on questions and results wait on the disk."""

_KEY = 32
"""Letters of a case's digest that tell it from others: 128 bits, so that an id fits into what providers allow."""


@dataclass(slots=True)
class _Asked:
    """A case that waits for its reply, and where answers to it were looked for."""

    case: Case
    key: str
    question: Question | None = None
    """As it was put last, without its texts."""

    tries: int = 0
    """How often no answer came."""

    settled: bool = False
    """Whether the batch it is in said all it has to say of it."""

    seen: list[tuple[str, str]] = field(default_factory=list)
    """Batches and keys it had an answer from, or none: free for nobody else, once the case is done."""


def _asked(case: Case, seen: Sequence[tuple[str, str]] = ()) -> _Asked:
    return _Asked(case, case.digest[:_KEY], seen=list(seen))


class Hearing:
    """One `hear`: what waits to be asked, what is waited for, and the batches of before that hold answers."""

    def __init__(self, judge: BatchJudge, desk: Desk, cases: Iterator[Case], again: Again) -> None:
        self._judge, self._desk, self._cases, self._again = judge, desk, cases, again
        self._ledger = judge.ledger
        self._queue: deque[_Asked] = deque()
        self._most = judge.most
        self._fatal = ""
        self._waited: dict[str, tuple[Sent, list[_Asked]]] = {}
        self._taken: dict[str, list[str]] = {}
        self._before: dict[str, list[Sent]] = {}

    def heard(self) -> Iterator[Heard]:
        """Every case with its last reply; PlatformError where no question can ever succeed."""
        for sent in self._ledger.open(self._judge.id, self._desk.where):
            for key in sent.left:
                self._before.setdefault(key, []).append(sent)
        while self._gather():
            for token in list(self._waited):
                sent, asked = self._waited[token]
                yield from self._settle(sent, asked)
                self._waited.pop(token, None)
                self._tell_taken()
                if self._fatal:  # only now: what was paid for is used first
                    raise PlatformError(self._fatal)

    def leave(self) -> None:
        """Note what was used, and say what is left to a later run."""
        self._tell_taken()
        for sent, asked in self._waited.values():
            if left := sum(not one.settled for one in asked):
                cases = f"{left} case" if left == 1 else f"{left} cases"
                self._judge.note(
                    f"batch {sent.batch} ({self._desk.where}) is left with {cases} in it; "
                    f"the next run with the ledger {self._ledger.path} takes its answers"
                )

    # --- a round ----------------------------------------------------------------------------------------------------

    def _gather(self) -> bool:
        """Take as many cases as fit, find those that were sent before, send the others; False where there are none."""
        new: list[_Asked] = []
        count = size = 0
        with tempfile.SpooledTemporaryFile(_ON_DISK) as lines:
            while count < self._most and (asked := self._next()) is not None:
                count, asked.settled = count + 1, False
                question = self._judge.question(asked.case)
                asked.question = Question("", "", {}, question.name, question.mode, question.temperature)
                if self._found(asked):
                    continue
                line = self._desk.line(f"{asked.key}-{len(new)}", question)
                if new and size + len(line) > self._judge.most_bytes:
                    self._queue.appendleft(asked)
                    break
                lines.write(line)
                size += len(line)
                new.append(asked)
            if new:
                self._send(new, lines)
        return bool(self._waited)

    def _next(self) -> _Asked | None:
        """What is to be asked once more first, then new cases."""
        if self._queue:
            return self._queue.popleft()
        case = next(self._cases, None)
        return None if case is None else _asked(case)

    def _found(self, asked: _Asked) -> bool:
        """Whether a batch of before holds this question, which is then waited for there."""
        for sent in self._before.get(asked.key, ()):
            if sent.left[asked.key] > 0 and (sent.token, asked.key) not in asked.seen and self._is_there(sent):
                sent.left[asked.key] -= 1
                self._wait_for(sent).append(asked)
                self._judge.note(f"answers of batch {sent.batch}, sent before, are taken and not asked for again")
                return True
        return False

    def _wait_for(self, sent: Sent) -> list[_Asked]:
        return self._waited.setdefault(sent.token, (sent, []))[1]

    def _is_there(self, sent: Sent) -> bool:
        """Whether a batch was really made, of which only that it would be sent is known."""
        if sent.batch is None:
            sent.batch = self._judge.patiently(lambda: self._lost(sent), ever=False)
            if sent.batch is None:
                sent.left.clear()
                return False
            self._ledger.sent(sent)
        return True

    def _send(self, new: list[_Asked], lines: IO[bytes]) -> None:
        """Send a batch: what is in it is noted before, its id as soon as it has one."""
        keys = Counter(asked.key for asked in new)
        judge, now = self._judge, datetime.now(UTC)
        after = judge.patiently(self._desk.newest, ever=False)
        sent = Sent(secrets.token_hex(8), judge.id, self._desk.where, now, len(new), after, keys)
        self._ledger.asked(sent)
        unsure = False

        def send() -> str:
            nonlocal unsure
            if unsure and (found := self._lost(sent)):
                return found
            try:
                return self._desk.send(lines, sent.token)
            except Trouble as trouble:
                unsure = unsure or trouble.kind != "rate"  # the word of it may be lost, and the batch made
                raise

        sent.batch = judge.patiently(send, ever=False)
        self._ledger.sent(sent)
        self._wait_for(sent).extend(new)

    def _lost(self, sent: Sent) -> str | None:
        """The batch that was made although nobody could tell us so; None where there is none, or none is told."""
        try:
            return self._desk.find(sent)
        except Trouble as trouble:
            if trouble.kind in TRANSIENT:
                raise
            return None

    # --- what came of it --------------------------------------------------------------------------------------------

    def _settle(self, sent: Sent, asked: list[_Asked]) -> Iterator[Heard]:
        """Wait for a batch and put every answer in it to the gate."""
        progress = self._ended(sent)
        if progress.state != "ended":
            yield from self._failed(sent, asked, progress)
            return
        with tempfile.SpooledTemporaryFile(_ON_DISK) as rows:
            gone = self._judge.patiently(lambda: self._fetch(sent, rows), ever=True)
            if gone is not None:
                yield from self._failed(sent, asked, Progress("gone", gone))
                return
            rows.seek(0)
            yield from self._sorted(sent, asked, rows)

    def _sorted(self, sent: Sent, asked: list[_Asked], rows: Iterable[bytes]) -> Iterator[Heard]:
        """Give every result to the case that asked for it; what has none counts as no answer."""
        waiting: dict[str, deque[_Asked]] = {}
        for one in asked:
            one.seen.append((sent.token, one.key))
            waiting.setdefault(one.key, deque()).append(one)
        for row in rows:
            outcome = self._desk.read(row)
            mine = waiting.get(outcome[0].rpartition("-")[0]) if outcome else None
            if outcome and mine:
                yield from self._concluded(mine.popleft(), outcome[1])
        for one in (one for left in waiting.values() for one in left):
            yield from self._unanswered(one, "no result came for it")

    def _ended(self, sent: Sent) -> Progress:
        """How a batch ended, however long it takes."""
        batch = sent.batch or ""
        for pause in self._judge.looks():
            progress = self._judge.patiently(lambda: self._desk.look(batch), ever=True)
            if progress.state != "running":
                return progress
            self._judge.sleep(pause)
        raise AssertionError  # the looks have no end

    def _fetch(self, sent: Sent, rows: IO[bytes]) -> Trouble | None:
        """All results of a batch, onto the disk where they are many; word that they are gone where they are.

        From the start where the connection broke.
        """
        rows.seek(0)
        rows.truncate()
        try:
            for row in self._desk.rows(sent.batch or ""):
                rows.write(row + b"\n")
        except Trouble as trouble:
            if trouble.kind != "request":
                raise
            return trouble
        return None

    def _failed(self, sent: Sent, asked: list[_Asked], progress: Progress) -> Iterator[Heard]:
        """A batch that has no results: too much at once is sent again in smaller ones, all else counts as no answer."""
        self._ledger.over(sent.token)
        trouble = progress.trouble or Trouble("request", "the batch failed")
        self._judge.note(f"batch {sent.batch} {progress.state}: {trouble.message}")
        if trouble.kind == "fatal" and progress.state == "failed":
            raise PlatformError(trouble.message)
        if trouble.kind == "rate" and self._most > 1:
            self._most = max(1, min(self._most, len(asked)) // 2)
            self._queue.extend(asked)
            self._waited.pop(sent.token)
            self._judge.sleep(next(self._judge.looks()))
            return
        for one in asked:
            yield from self._unanswered(one, trouble.message)

    def _concluded(self, one: _Asked, outcome: Answer | Trouble) -> Iterator[Heard]:
        """Put an answer to the gate; what got none, or is to be asked once more, waits for the next round."""
        judge, question, one.settled = self._judge, one.question, True
        if isinstance(outcome, Answer):
            reply = Reply(
                text=outcome.text or outcome.refusal,
                judge=judge.id,
                attempt=1 if one.case.remark is None else 2,
                usage=outcome.usage,
                cost=judge.price(outcome.usage),
                stop=outcome.stop,
                temperature=question.temperature if question else None,
            )
            yield from self._gated(one, reply)
        elif outcome.kind == "fatal":
            self._taken_by(one)
            self._fatal = outcome.message
        else:
            if outcome.kind == "unsupported" and question and judge.leaves_out(question, outcome.option):
                one.tries -= 1
            yield from self._unanswered(one, outcome.message)

    def _unanswered(self, one: _Asked, why: str) -> Iterator[Heard]:
        one.tries, one.settled = one.tries + 1, True
        if one.tries < _TRIES:
            self._queue.append(one)
            return
        attempt = 1 if one.case.remark is None else 2
        yield from self._gated(one, Reply("", self._judge.id, attempt, fault=why))

    def _gated(self, one: _Asked, reply: Reply) -> Iterator[Heard]:
        repeat = self._again(one.case, reply)
        if repeat is None:
            yield one.case, reply
            self._taken_by(one)
        else:
            self._queue.append(_asked(repeat, one.seen))

    def _taken_by(self, one: _Asked) -> None:
        for token, key in one.seen:
            self._taken.setdefault(token, []).append(key)

    def _tell_taken(self) -> None:
        """Note which answers were used, so that they are not given again."""
        taken, self._taken = self._taken, {}
        for token, keys in taken.items():
            self._ledger.taken(token, keys)
