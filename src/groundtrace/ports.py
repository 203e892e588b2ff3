"""The five ports and the memory: where other people's systems, vocabularies, rules and judges plug in.

A port is a Protocol of one or two methods that exchange values; `groundtrace.testing` ships the contract test of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from groundtrace.model import (
        Attempt,
        Case,
        Check,
        Finding,
        Intent,
        JudgeKind,
        Kind,
        Label,
        Reading,
        Receipt,
        Record,
        Ref,
        Reply,
        Run,
        RunState,
        Scorecard,
        Signal,
        Span,
        Trace,
        Window,
    )

Choose: TypeAlias = "Callable[[Ref, tuple[Signal, ...]], bool]"
"""Says whether a trace is looked at; asked before its children are fetched."""

Again: TypeAlias = "Callable[[Case, Reply], Case | None]"
"""The gate's answer to a reply: None, it is done; or the same case with a remark, to be asked at once.

It may have `together()`, a context for the replies that came at the same time: the memory keeps them in one step at its
end, so nothing slow is done in it, and no reply is handed on before.
"""


@runtime_checkable
class Source(Protocol):
    """Pulls traces from where they are kept; knows transport, not vocabulary.

    A source of files may also have a class method `recognises(path) -> bool`, so that a bare path finds it (with a true
    attribute `yields` only where no other source recognises it), and `join(other)`, the source that reads both as one,
    or None; one of a live platform `default_share`, the share of its traces looked at when nobody says (else all). A
    source that knows of feedback when it came may also have `late(window, since, choose) -> Iterator[Trace]`, the
    traces whose users said something after `since` (None: nobody asked before; then since the window's start), of any
    time, that `choose` picks; and `watermark() -> str | None`, the `since` of the next call once `late` has ended. That
    is kept under the source's `platform` and `project`.

    One whose platform tells an address of new traces may have `attach(url, *, share, headers)` and `detach(url)`, each
    giving lines that say what was done; and a static `delivered(message) -> Delivery`, what such a message names,
    PlatformError where it names nothing. One that can be asked for traces by their ids has an option `ids`, the only
    traces that are then looked at.

    One that waits for nobody, as a source of files, has a true attribute `at_hand`: some traces are then taken at once.

    A failed span is told to `choose` as a signal named "error". A source that must not wait for a trace's end with
    its question may leave that out, unless `choose` has a true attribute `patient`.
    """

    platform: str

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:
        """The traces of a window that `choose` picks, each whole; raises PlatformError when the platform does."""
        ...

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """What people said on the platform about our scores since then."""
        ...

    def doctor(self) -> Iterable[Check]:
        """What is well and what is not between here and the platform."""
        ...

    def home(self) -> Sink:
        """The sink that puts feedback back where these traces came from."""
        ...

    def notes(self) -> tuple[str, ...]:
        """What could not be read so far, one line each, for the run's report."""
        ...


@runtime_checkable
class Convention(Protocol):
    """Knows one vocabulary: looks at one span and says what it holds.

    `marks` are attribute prefixes or scope names; only spans that carry one are shown to it. The mark "" stands on
    every span. Where several know a span, what the first says counts, and the others fill in what it left out; one that
    others build upon may have a true attribute `fallback`, and is heard after them.
    """

    name: str
    marks: tuple[str, ...]

    def reading(self, span: Span) -> Reading | None:
        """What this span holds, or None where it does not speak this vocabulary. Never raises."""
        ...


@runtime_checkable
class Rubric(Protocol):
    """Asks and reads, and never calls a judge: all pure. `kinds` are the kinds of record it is for."""

    name: str
    version: str
    prompt_hash: str
    kinds: tuple[Kind, ...]

    def schema(self, unassessed: frozenset[str]) -> type[Any]:
        """The pydantic model a reply must fit, given what the judge declares it can't assess."""
        ...

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterable[Case | Finding]:
        """The questions this record raises; a Finding needs no judge."""
        ...

    def finding(self, record: Record, case: Case, verdict: Any, unassessed: frozenset[str]) -> Finding:
        """The verdict, held against the record; raises InvalidVerdict with what the judge must mend."""
        ...

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        """The record's card; who judged, when and in which batch is stamped by `evaluate`."""
        ...


@runtime_checkable
class Judge(Protocol):
    """Answers cases. `id` names the model and every setting that changes a reply; `limits` what it can't see.

    One that costs money may also have `priced`, whether its price is known, and `price(usage)`, in US dollars; one that
    waits for long `stop_when(stopping)`; one that can leave what is in flight `cut_when(late)`; one that knows that no
    answer comes just now `when_idle(what)`, what it calls then in the thread that hears; any of them `notes()`,
    for the report, `trouble()`, why it gives no answer just now, `doctor()`, and `check()`, which raises PlanError
    where something is missing that no case can do without, such as a key, and asks nobody.
    """

    id: str
    kind: JudgeKind
    limits: str

    def unassessed(self, rubric: str) -> frozenset[str]:
        """The dimensions of this rubric the judge declares it can't assess."""
        ...

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with the last reply to it, as they finish; cases are pulled as places come free.

        After every reply `again` is asked: where it returns a case, that case takes the freed place at once.
        Pulling `cases` and calling `again` is done by one thread at a time. Trouble with one case is a Reply with a
        `fault`, never an exception.
        """
        ...


@runtime_checkable
class Sink(Protocol):
    """Puts scores where people look. "upsert" platforms replace by id; "append" ones skip what is there.

    One that writes files may also have, for the report, `files`, their paths, and `notes()`, what is broken in them;
    one that asks its platform before each batch `batch`, how many cards it would have at once. One with a true
    `reads_back` looks at what is there before it writes: it is given also what a memory says was written, for somebody
    may have deleted it. One that waits for long may have `stop_when(stopping)`, as a source may.
    """

    name: str
    updates: Literal["upsert", "append"]

    def write(self, cards: Iterable[Scorecard]) -> Iterable[Receipt]:
        """Write the cards' scores and say what became of each one. Writing twice changes nothing."""
        ...


@runtime_checkable
class Memory(Protocol):
    """Told before anything leaves, asked before anything is done again."""

    def reply(self, judge: str, digest: str) -> Reply | None:
        """An accepted reply of this judge to an equal question, or None."""
        ...

    def keep_reply(
        self, judge: str, digest: str, reply: Reply, faults: tuple[str, ...], *, card_id: str = "", slot: str = ""
    ) -> None:
        """Keep a reply before it is used, with the faults the gate found in it and the card it is for."""
        ...

    def spent(self, since: str, judge: str | None = None) -> float | None:
        """What the replies kept since then (ISO time, UTC) cost in US dollars; None if the price of one is unknown.

        Those of one judge, by its id, if it is named. A reply that was taken from the memory cost nothing, nor did one
        that never came.
        """
        ...

    def attempts(self, card_id: str) -> tuple[Attempt, ...]:
        """Every reply that was kept for a card, in the order they came."""
        ...

    def keep_record(self, record: Record) -> None:
        """Keep a record, so that its cards can be looked at with what they were made from."""
        ...

    def record(self, card: Scorecard) -> Record | None:
        """The record a card was made from, as it was last kept, or None."""
        ...

    def card(self, card_id: str, subject: str = "") -> Scorecard | None:
        """The newest version of a card, or None; with a subject (`review.subject_of`), of those that are of it.

        A version that does not say what it is of is of any.
        """
        ...

    def keep_card(self, card: Scorecard) -> None:
        """Keep a card as its newest version; one of equal content and basis takes its place, others stay."""
        ...

    def history(self, card_id: str) -> tuple[Scorecard, ...]:
        """Every version of a card, oldest first."""
        ...

    def waiting(self, rubric: str | None = None, limit: int | None = None) -> Iterable[Scorecard]:
        """The cards a person must see and nobody decided, by their newest version; of one rubric if it is named.

        What is looked at now comes first, then the card with the lowest score on its own range, then the oldest.
        """
        ...

    def keep_labels(self, labels: Iterable[Label], *, instead_of: tuple[str, str] | None = None) -> None:
        """Keep what a person said of scores; what the same person said of the same score before is over.

        With a card's id and a person in `instead_of`, all that person said of the card before is over.
        """
        ...

    def labels(self, rubric: str | None = None) -> tuple[Label, ...]:
        """What people said of scores, by card, score and person; of one rubric's if it is named."""
        ...

    def intend(self, intent: Intent) -> Receipt | None:
        """Note a write before it goes out, with all that was told before; the receipt of an equal one, or None.

        A receipt counts while what it confirms still stands: not once other content went to the same place.
        """
        ...

    def intend_all(self, intents: Sequence[Intent]) -> list[Receipt | None]:
        """As `intend`, of many in their order: a sink's batch at once."""
        ...

    def keep_receipt(self, receipt: Receipt) -> None:
        """Note what became of a write."""
        ...

    def keep_receipts(self, told: Sequence[Receipt]) -> None:
        """As `keep_receipt`, of many in their order."""
        ...

    def outbox(self) -> Iterable[Intent]:
        """The writes that were noted and never confirmed."""
        ...

    def forget(self, intent: Intent) -> None:
        """Take a write out of the outbox that nobody wants any more."""
        ...

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Take a piece of work for a while; False where another owner holds it."""
        ...

    def release(self, key: str, owner: str) -> None:
        """Give a piece of work back."""
        ...

    def cursor(self, source: str) -> str | None:
        """How far a source was read."""
        ...

    def move_cursor(self, source: str, value: str) -> None:
        """Note how far a source was read."""
        ...

    def start_run(self, run_id: str, plan_json: str) -> None:
        """Note that a run begins, or goes on; what is kept from now on is its work."""
        ...

    def end_run(self, run_id: str, state: RunState, report_json: str = "") -> None:
        """Note how a run ended."""
        ...

    def last_run(self, state: RunState | None = None) -> Run | None:
        """The run that began or went on last, of those in this state if one is named."""
        ...

    def runs(self, *states: RunState) -> Iterable[Run]:
        """The runs, the one that began or went on last first; those in one of these states if any is named."""
        ...

    def batch(self) -> AbstractContextManager[None]:
        """Keep what this thread tells inside as one: quicker, and durable at the end or with the next intent."""
        ...
