"""A judge that goes on after it broke: what it raised becomes the fault of the case it broke on, and of no other."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from groundtrace.errors import PlanError, PlatformError
from groundtrace.judges.around import Around
from groundtrace.model import Reply

if TYPE_CHECKING:
    from types import TracebackType

    from groundtrace.model import Case
    from groundtrace.ports import Again, Judge

_BROKEN = 16
"""Cases in a row that a judge breaks on, after which it is the judge that is broken: what it raised is raised."""

_SHOWN = 200
"""Characters of what was raised that are told."""

Key = tuple[str, str, str]


class Patient(Around):
    """A judge like the one it is made of, heard anew after every break with the cases that have no reply yet.

    Where several were in flight, each is heard alone, to find the one it breaks on; one that was settled is not asked
    again. A platform's refusal is no break, and is raised; so is what the cases or the gate raise, which is not the
    judge's. `broke` holds what was raised, by record and rubric.
    """

    def __init__(self, judge: Judge) -> None:
        super().__init__(judge)
        self.broke: dict[tuple[str, str], str] = {}

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with its last reply; the one the judge broke on has a fault for a reply."""
        alone: deque[Case] = deque()
        flight, breaks = _Flight(iter(cases), again), 0
        while True:
            single, trouble = bool(alone), _Trouble()
            with trouble:
                for case, reply in self._judge.hear(flight.cases(alone), flight):
                    breaks = 0
                    flight.land(case)
                    yield case, reply
            left, error = flight.left(), trouble.error
            if error is None and not single:
                return
            if error is None:
                continue
            if flight.raised or not left:
                raise error
            yield from ((case, known) for case, known in left if known is not None)
            unknown = [case for case, known in left if known is None]
            if len(unknown) == 1:
                breaks += 1
                if breaks >= _BROKEN:
                    raise error
                yield unknown[0], self._fault(unknown[0], error)
            else:
                alone.extend(unknown)

    def _fault(self, case: Case, error: Exception) -> Reply:
        fault = f"{type(error).__name__}: {error}"[:_SHOWN]
        self.broke[case.record_id, case.rubric] = fault
        return Reply("", self.id, 1 if case.remark is None else 2, fault=fault)


class _Flight:
    """The cases a judge has and gave no reply to, and whether what is raised came from outside of it."""

    def __init__(self, source: Iterator[Case], again: Again) -> None:
        self._source, self._again = source, again
        self._together = getattr(again, "together", nullcontext)
        self._open: dict[Key, tuple[Case, Reply | None]] = {}
        self.raised = False
        """Whether the cases or the gate raised: it is so while they run."""

    def cases(self, alone: deque[Case]) -> Iterator[Case]:
        """The next case of those to be heard alone, or all that are still to come."""
        if alone:
            yield self._opened(alone.popleft())
            return
        while True:
            self.raised = True
            case = next(self._source, None)
            self.raised = False
            if case is None:
                return
            yield self._opened(case)

    def __call__(self, case: Case, reply: Reply) -> Case | None:
        """The gate's answer; a case it is done with is settled, whatever the judge does next."""
        self.raised = True
        repeat = self._again(case, reply)
        self.raised = False
        self._open[_key(case)] = (case, reply) if repeat is None else (repeat, None)
        return repeat

    @contextmanager
    def together(self) -> Iterator[None]:
        """The gate's, for replies that came at the same time; what its end raises is not the judge's either."""
        with self._together():
            yield
            self.raised = True
        self.raised = False

    def land(self, case: Case) -> None:
        """Its reply came."""
        self._open.pop(_key(case), None)

    def left(self) -> list[tuple[Case, Reply | None]]:
        """The cases in flight, each with its reply where it was settled; none is in flight any more."""
        left = list(self._open.values())
        self._open.clear()
        return left

    def _opened(self, case: Case) -> Case:
        self._open[_key(case)] = (case, None)
        return case


class _Trouble:
    """Holds what was raised inside; a platform's refusal, a bad plan and an interruption pass."""

    error: Exception | None = None

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, (PlanError, PlatformError)):
            return False
        logging.getLogger(__name__).debug("a judge broke", exc_info=error)
        self.error = error
        return True


def _key(case: Case) -> Key:
    return case.record_id, case.rubric, case.slot
