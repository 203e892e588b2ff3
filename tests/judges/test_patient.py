"""A judge that broke is heard anew: one reply a case, a fault where it broke, and nobody asked twice for nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from groundtrace.errors import PlatformError
from groundtrace.judges import pool
from groundtrace.judges.patient import Patient
from groundtrace.model import Case, JudgeKind, Reply
from groundtrace.ports import Again
from groundtrace.testing import sample_case

CASES = [sample_case(record_id=f"r{n}") for n in range(40)]


class Pooled:
    """Asks four at once; over some records it raises."""

    id = "pooled"
    kind: JudgeKind = "llm"
    limits = ""

    def __init__(self, over: Iterable[str], error: Exception) -> None:
        self.over, self.error = set(over), error
        self.asked: Counter[str] = Counter()

    def unassessed(self, rubric: str) -> frozenset[str]:
        """Nothing."""
        return frozenset()

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """In a pool."""
        return pool.hear(cases, again, self._ask, 4)

    def _ask(self, case: Case) -> Reply:
        self.asked[case.record_id] += 1
        if case.record_id in self.over:
            raise self.error
        return Reply("{}", self.id)


def test_every_case_has_one_reply_and_only_the_broken_ones_a_fault() -> None:
    """Also where several were in flight, and what was settled is not asked again."""
    judge = Pooled({"r3", "r4", "r20", "r39"}, KeyError("gone"))
    patient = Patient(judge)
    heard = [(case.record_id, reply.fault) for case, reply in patient.hear(iter(CASES), lambda *_: None)]
    assert sorted(name for name, _ in heard) == sorted(case.record_id for case in CASES)
    assert {name: fault for name, fault in heard if fault} == dict.fromkeys(judge.over, "KeyError: 'gone'")
    assert {name for name, _ in patient.broke} == judge.over
    assert max(count for name, count in judge.asked.items() if name not in judge.over) == 1


def test_a_judge_broken_on_everything_raises_what_it_raised() -> None:
    """Not once a case."""
    judge = Pooled({case.record_id for case in CASES}, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        list(Patient(judge).hear(iter(CASES), lambda *_: None))
    assert len(judge.asked) < len(CASES)


def test_a_platforms_refusal_is_no_break() -> None:
    """It says nothing about the case."""
    with pytest.raises(PlatformError):
        list(Patient(Pooled({"r2"}, PlatformError("quota"))).hear(iter(CASES), lambda *_: None))


def test_what_the_gate_raises_is_not_the_judges() -> None:
    """A memory that is full does not make every answer a fault."""

    def full(case: Case, reply: Reply) -> None:
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        list(Patient(Pooled((), ValueError())).hear(iter(CASES), full))


class Forgetful:
    """A gate whose memory can't keep what came together."""

    def __call__(self, case: Case, reply: Reply) -> None:
        """All is well."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Until it is to be kept."""
        yield
        raise OSError("full")


class Together(Pooled):
    """Puts every reply to the gate in one go."""

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """One by one."""
        for case in cases:
            with again.together():  # type: ignore[attr-defined]
                again(case, Reply("{}", self.id))
            yield case, Reply("{}", self.id)


def test_what_could_not_be_kept_together_is_not_the_judges() -> None:
    """It is raised, and no case is heard again."""
    with pytest.raises(OSError, match="full"):
        list(Patient(Together((), ValueError())).hear(iter(CASES), Forgetful()))
