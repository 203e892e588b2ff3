"""Everything a plugin can get wrong after its module was found: while it is made, or in the middle of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from groundtrace.judges.offline import OfflineJudge
from groundtrace.model import Case, Finding, Receipt, Record, Ref, Reply, Scorecard, Span, Trace, Window
from groundtrace.rubrics.source_support import SourceSupport

if TYPE_CHECKING:
    from decimal import Decimal

    from groundtrace.ports import Again, Choose


class Hollow:
    """Calls itself a source and is none."""


class Explosive:
    """Raises while it is made."""

    def __init__(self, path: str = "") -> None:
        raise ZeroDivisionError(f"made of {path}")


class Untyped:
    """Has an option whose type only a type checker can see."""

    def __init__(self, *, limit: Decimal | None = None) -> None:
        self.limit = limit


class Mangled:
    """Good traces with one in the middle that holds no spans at all; or, with `breaks`, an end in a stack trace."""

    platform = "mangled"

    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:
        """Three traces, the second of which nobody can read."""
        for n in range(3):
            ref = Ref("mangled", trace_id=f"t{n}", span_id=f"s{n}")
            said = {"id": f"t{n}", "query": "Where?", "context": ["It is here."], "answer": "It is here [1]."}
            span = Span(f"s{n}", f"t{n}", attributes={"groundtrace.record": said}, scope="groundtrace.jsonl")
            if n == 1 and self.breaks:
                raise RuntimeError("the second page is missing")
            if choose(ref, ()):
                broken: Any = (None,)
                yield Trace(ref, spans=broken if n == 1 else (span,))

    def labels(self, since: int | None = None) -> Iterator[NoReturn]:
        """None."""
        yield from ()

    def doctor(self) -> Iterable[NoReturn]:
        """Nothing to say."""
        return []

    def home(self) -> Shredder:
        """What is written there is lost."""
        return Shredder()

    def notes(self) -> tuple[str, ...]:
        """Nothing."""
        return ()


class Shredder:
    """A sink that breaks on every card."""

    name = "shredder"
    updates: Literal["upsert", "append"] = "append"

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Break."""
        raise OSError("the paper is jammed")
        yield  # makes this a generator, which breaks when it is read


class Brittle(SourceSupport):
    """A rubric that breaks at one of its steps on a record whose id is t1."""

    def __init__(self, where: Literal["cases", "finding", "conclude"]) -> None:
        super().__init__()
        self.where = where

    def _break(self, record: Record, where: str) -> None:
        if record.id == "t1" and self.where == where:
            raise KeyError("brittle")

    def cases(self, record: Record, unassessed: frozenset[str]) -> Iterator[Case | Finding]:
        """The rubric's own, or a break."""
        self._break(record, "cases")
        return super().cases(record, unassessed)

    def finding(self, record: Record, case: Case, verdict: Any, unassessed: frozenset[str]) -> Finding:
        """The rubric's own, or a break."""
        self._break(record, "finding")
        return super().finding(record, case, verdict, unassessed)

    def conclude(self, record: Record, findings: tuple[Finding, ...]) -> Scorecard:
        """The rubric's own, or a break."""
        self._break(record, "conclude")
        return super().conclude(record, findings)


class Quitter:
    """A judge that answers wrongly a few times and then raises what it is told to."""

    id = "quitter"
    kind: Literal["llm"] = "llm"
    limits = ""

    def __init__(self, after: int, *, how: Literal["error", "interrupt"] = "error") -> None:
        self.after, self.how = after, how

    def unassessed(self, rubric: str) -> frozenset[str]:
        """Nothing."""
        return frozenset()

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Faults, then the end."""
        for n, case in enumerate(cases):
            if n == self.after:
                raise KeyboardInterrupt if self.how == "interrupt" else RuntimeError("no more")
            reply = Reply("", self.id, fault="no comment")
            again(case, reply)
            yield case, reply


class Stumbler:
    """The offline judge, but that it raises over a record of one name, or over every one."""

    id = "stumbler"
    kind: Literal["offline"] = "offline"
    limits = ""

    def __init__(self, over: str = "") -> None:
        self.over, self.judge = over, OfflineJudge()

    def unassessed(self, rubric: str) -> frozenset[str]:
        """What the offline judge can't assess."""
        return self.judge.unassessed(rubric)

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """The offline judge's replies, until it trips."""
        return self.judge.hear(map(self._step, cases), again)

    def _step(self, case: Case) -> Case:
        if self.over in ("", case.record_id):
            raise TypeError("I tripped")
        return case
