"""What hangs in a platform's own experiments: one rubric and one judge, put to each thing an experiment hands over."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel

from groundtrace.adapters.published import NOT_ASSESSED, Result, results
from groundtrace.evaluate import evaluate
from groundtrace.model import built
from groundtrace.read import read

if TYPE_CHECKING:
    from groundtrace.model import Record, Scorecard, Trace
    from groundtrace.ports import Convention, Judge, Rubric
    from groundtrace.read.resolve import Resolver
    from groundtrace.read.summaries import Wanted

Border: TypeAlias = "Callable[[Callable[[str], None]], AbstractContextManager[None, bool]]"
"""Inside of it anything may be raised; it tells what was, and goes on."""

_DEEP = 64


class Judged(NamedTuple):
    """What is said of one thing: its card, where there came to be one, and what is published of it."""

    card: Scorecard | None
    results: tuple[Result, ...]


class Scoring:
    """One rubric and one judge, ready for what an experiment hands over.

    `scores` "headline" gives the rubric's own score alone. What is raised inside is told by `border`, and becomes an
    error of that one thing.
    """

    def __init__(
        self,
        rubric: Rubric,
        judge: Judge,
        conventions: Sequence[Convention],
        border: Border,
        *,
        kind: Wanted = "auto",
        passages: Resolver | None = None,
        scores: Literal["all", "headline"] = "all",
    ) -> None:
        built()  # experiments score in threads
        self.rubric, self.judge, self.border = rubric, judge, border
        self.name, self.kind = rubric.name, kind
        self._conventions, self._passages, self._scores = conventions, passages, scores

    def records(self, trace: Trace) -> tuple[Record, ...]:
        """The records of a trace, read as the user wants them read."""
        return read(trace, self._conventions, kind=self.kind, passages=self._passages)

    def judged(self, records: Sequence[Record], ident: str, looked: str, *, what: str, remedy: str) -> Judged:
        """The card of the record that is this span's own; an error says why there is none.

        `what` is the platform's word for what was handed over, `looked` where passages were looked for, and `remedy`
        how its user brings them there.
        """
        record = self._of(records, ident)
        if record is None:
            ids = ", ".join(str(record.ref.span_id) for record in records)
            return self.failed("ambiguous", f"the {what} holds {len(records)} requests ({ids}) and is none itself")
        if record.kind == "other":
            said = "; ".join(f"{gap.field}: {gap.remedy or gap.reason}" for gap in record.gaps)
            return self.failed("nothing_to_judge", f"no request was found in {looked}; {said}")
        cards = list(evaluate([record], [self.rubric], self.judge))
        if not cards:
            kinds = " or ".join(self.rubric.kinds)
            hint = f"{self.name} is for records of kind {kinds}, and this {what} was read as one of kind {record.kind}"
            return self.failed("other_kind", f'{hint}; say kind="summary" or kind="answer" to have it read as one')
        return Judged(cards[0], tuple(self._told(cards[0], f"{looked}; {remedy}")))

    def failed(self, reason: str, why: str) -> Judged:
        """An error under the rubric's own name, where there is no card."""
        return Judged(None, (Result(self.name, "", "", explanation=why, error=reason),))

    def _of(self, records: Sequence[Record], ident: str) -> Record | None:
        """The record that is the span's own, else the only one of a kind the rubric is for."""
        own = [record for record in records if record.ref.span_id == ident]
        suited = [record for record in records if record.kind in self.rubric.kinds]
        return next((found[0] for found in (own, suited, records) if len(found) == 1), None)

    def _told(self, card: Scorecard, looked: str) -> list[Result]:
        published = results(card)
        if card.status == "scored" and self._scores == "headline":
            published = tuple(result for result in published if result.score == self.name)
            if not published:
                why = f"{card.judge} does not assess all of {self.name}, which has no score of its own then"
                published = (Result(self.name, "", card.content_hash, label=NOT_ASSESSED, explanation=why),)
        if not (card.reason or "").startswith("context_"):
            return list(published)
        return [
            dataclasses.replace(result, explanation=f"{result.explanation}. Looked in {looked}")
            if result.error is not None
            else result
            for result in published
        ]


def lacks(record: Record) -> bool:
    """Whether more of the trace may tell what a record lacks."""
    return record.kind == "other" or record.gap("context") is not None or record.gap("answer") is not None


def plain(value: object, above: tuple[int, ...] = ()) -> Any:
    """A value as JSON has it: what a live span holds as objects, in the form an SDK sends them.

    >>> import datetime as dt
    >>> plain({"at": dt.datetime(2026, 11, 30, tzinfo=dt.UTC), "found": ("a", "b")})
    {'at': '2026-11-30T00:00:00+00:00', 'found': ['a', 'b']}
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if id(value) in above or len(above) >= _DEEP:  # it holds itself, or is no end of a thing
        return None
    path = (*above, id(value))
    held = _parts(value)
    if isinstance(held, Mapping):
        return {str(name): plain(part, path) for name, part in held.items()}
    if isinstance(held, (list, tuple, set, frozenset)):
        return [plain(part, path) for part in held]
    return held.isoformat() if isinstance(held, dt.datetime) else str(held)


def _parts(value: Any) -> Any:
    """What an object is made of, by name: models of pydantic, old and new, dataclasses, arrays."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    if isinstance(value, type):
        return value
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "__fields__") and hasattr(value, "dict"):
        return value.dict(exclude_none=True)
    return value.tolist() if hasattr(value, "tolist") else value
