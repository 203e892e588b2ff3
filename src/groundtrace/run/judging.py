"""Traces to cards inside another program: read, ask, conclude; nothing is fetched, kept or written.

`Here` judges in the thread that asks, `Elsewhere` in a process of its own. Neither ever raises.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from groundtrace.adapters.published import results
from groundtrace.evaluate import evaluate
from groundtrace.judges.patient import Patient
from groundtrace.live import Judged, Unscored
from groundtrace.live.apart import Apart, Lost
from groundtrace.plugins import load
from groundtrace.read import read
from groundtrace.run.isolated import Careful, Isolated
from groundtrace.run.reading import resolver
from groundtrace.run.writing import headline

if TYPE_CHECKING:
    from groundtrace.model import Record, Scorecard, Trace
    from groundtrace.plan import Plan
    from groundtrace.ports import Convention, Judge
    from groundtrace.read.resolve import Resolver
    from groundtrace.read.summaries import Wanted


Said = TypeVar("Said")
Say: TypeAlias = "Callable[[Sequence[Scorecard]], Said]"
"""Makes of a trace's cards what is to be said of it."""

_LOOK, _LONG, _RARELY = 1.0, 5.0, 300.0
"""Seconds between two looks at a judge that is being asked, without an answer until it is said why, between two of
those."""

_SHOWN = 500
"""Characters of a reason that are told."""

_LOG = logging.getLogger(__name__)


class Here(Generic[Said]):
    """Gives traces back in the order they are done; `say` makes of their cards what is wanted of them."""

    def __init__(
        self,
        rubrics: Sequence[Careful],
        judge: Judge,
        conventions: Sequence[Convention],
        say: Say[Said],
        *,
        kind: Wanted = "auto",
        passages: Resolver | None = None,
        headline_only: bool = False,
    ) -> None:
        self._rubrics = rubrics
        self._judge, self._conventions = Patient(judge), conventions
        self._waiting = Waiting(getattr(judge, "trouble", None))
        self._say, self._headline_only = say, headline_only
        self._kind, self._passages = kind, passages

    def __call__(self, traces: Sequence[Trace]) -> Iterator[Judged[Said]]:
        """Each trace once; those of which nothing is asked come first, what the judge gave up on last."""
        asked: list[Record] = []
        left: dict[str, int] = {}
        """How many cards of a trace are still to come."""
        cards: dict[str, list[Scorecard]] = {}
        for trace in traces:
            trace_id, said = trace.ref.trace_id, list[str]()
            records: Sequence[Record] = ()
            with Isolated(f"trace {trace_id} could not be read", said.append):
                records = read(trace, self._conventions, kind=self._kind, passages=self._passages)
            count = sum(record.kind in rubric.kinds for record in records for rubric in self._rubrics)
            if said or not count:
                yield Judged(trace_id, why="".join(said))
            else:
                asked += records
                left[trace_id], cards[trace_id] = count, []
        said = []
        with Isolated("", said.append), self._waiting.watched():
            for card in evaluate(asked, self._rubrics, self._judge):
                trace_id = card.ref.trace_id
                cards[trace_id].append(headline(card) if self._headline_only else card)
                left[trace_id] -= 1
                if not left[trace_id]:
                    del left[trace_id]
                    whole = cards.pop(trace_id)
                    yield Judged(trace_id, self._say(whole), unscored=tuple(_unscored(whole)))
        self._judge.broke.clear()  # the cards say it, and this has no end
        for trace_id in left:
            yield Judged(trace_id, why=said[0] if said else "the judge said nothing of it")

    def ready(self) -> None:
        """All is at hand."""

    def close(self) -> None:
        """Nothing is held."""


def _unscored(cards: Iterable[Scorecard]) -> Iterator[Unscored]:
    """Why cards have no score, with the remedy of the first gap."""
    for card in cards:
        for result in results(card):
            if result.error is not None:
                yield Unscored(result.error, f"{card.rubric}: {result.explanation}"[:_SHOWN])


class Waiting:
    """Says why a judge gives no answer while it gives none: once for a while, however often it is asked again.

    `trouble` is the judge's own word for it, "" where all is well; None where it has none.
    """

    def __init__(self, trouble: Callable[[], str] | None) -> None:
        self._trouble = trouble
        self._next = float("-inf")
        """When it may be said again."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have an eye on the judge while it is asked."""
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over,), name="groundtrace-waiting", daemon=True)
        if self._trouble is not None:
            with suppress(RuntimeError):  # no thread is to be had: the interpreter is going
                thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.ident is not None:
                thread.join()

    def _watch(self, over: threading.Event) -> None:
        since = time.monotonic()
        while not over.wait(_LOOK):
            now, why = time.monotonic(), self._why()
            if not why:
                since = now
            elif now - since >= _LONG and now >= self._next:
                self._next = now + _RARELY
                _LOG.warning("the judge gives no answer, and is asked again: %s", why)

    def _why(self) -> str:
        said: list[str] = []
        with Isolated("", said.append):
            return self._trouble() if self._trouble else ""
        return said[0]


class Elsewhere(Generic[Said]):
    """Gives traces back from a process that has nothing but a plan, each as it is done.

    `patience` is the seconds a trace has, asked one by one; without it they are asked together, as a judge that waits
    for a model wants them, and have the time that judge gives them. `say` is a function of a module, as is all that
    goes there.
    """

    def __init__(self, plan: Plan, say: Say[Said], *, patience: float | None) -> None:
        made = functools.partial(_alone, plan, say)
        self._child: Apart[Sequence[Trace], Judged[Said]] = Apart(made, patience=patience)
        self._together = patience is None

    def __call__(self, traces: Sequence[Trace]) -> Iterator[Judged[Said]]:
        """Each trace once."""
        for asked in [traces] if self._together else [[trace] for trace in traces]:
            left = dict.fromkeys(trace.ref.trace_id for trace in asked)
            try:
                for judged in self._child(asked):
                    del left[judged.trace_id]
                    yield judged
            except Lost as lost:
                for trace_id in left:
                    yield Judged(trace_id, why=f"judging it: {lost}")

    @property
    def pid(self) -> int | None:
        """The process there is now."""
        return self._child.pid

    def ready(self) -> None:
        """Start the process, unless there is one."""
        with suppress(Lost):
            self._child.start()

    def close(self) -> None:
        """End the process."""
        self._child.close()


def here(plan: Plan, say: Say[Said], tell: Callable[[str], None]) -> Here[Said]:
    """What a plan names, made, to judge here; its sources and sinks are not looked at."""
    rubrics = [Careful(load("rubric", spec)) for spec in plan.rubrics]
    return Here(
        rubrics,
        load("judge", plan.judge),
        plan.vocabularies(),
        say,
        kind=plan.kind,
        passages=resolver(plan, tell),
        headline_only=plan.scores == "headline",
    )


def _alone(plan: Plan, say: Say[Said]) -> Here[Said]:
    """The same, made where it runs."""
    return here(plan, say, lambda _: None)
