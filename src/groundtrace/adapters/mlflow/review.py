"""What people said on MLflow of our scores: other values put in their places or beside them, as labels.

In MLflow's pages a person edits an assessment, which puts one of their own in its place (`overrides`, with a copy of
all that ours said), or adds one under the score's name. Both are a HUMAN's word. MLflow finds no trace by when anything
was said of it, so what is told of the traces is looked through, page by page, without their spans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from groundtrace.adapters.losses import Losses
from groundtrace.adapters.mlflow import assessments, said
from groundtrace.adapters.mlflow.api import Api
from groundtrace.adapters.mlflow.assessments import Held
from groundtrace.adapters.mlflow.times import said as written
from groundtrace.adapters.published import NOT_APPLICABLE
from groundtrace.model import Label

_LONGEST = 400 * 86_400_000
"""How old a trace may be, in milliseconds, whose assessments are looked through."""

_SOMEBODY = "somebody on MLflow"
_LOST = (
    "{n} answer on MLflow is no number, nor not_applicable, or may be of one of several cards: left out",
    "{n} answers on MLflow are no numbers, nor not_applicable, or may be of one of several cards: left out",
)


class Answers:
    """What people said of scores of ours in an experiment."""

    def __init__(self, api: Api, experiment: str) -> None:
        self._api, self._experiment = api, experiment
        self._losses = Losses()

    def notes(self) -> tuple[str, ...]:
        """What could not be told apart, for the report."""
        return self._losses.notes()

    def labels(self, since: int | None, *, until: int) -> Iterator[Label]:
        """Their labels, said or changed since then (nanoseconds since 1970); `until` is now, in milliseconds."""
        after = 0 if since is None else since // 1_000_000
        for page in self._api.infos(self._experiment, until - _LONGEST, until):
            for info in page:
                yield from self._of(said.assessments(info), after)

    def _of(self, rows: list[Mapping[str, Any]], after: int) -> Iterator[Label]:
        """The labels of one trace."""
        ours = assessments.held(rows)
        ids = {one.get("assessment_id"): one for one in rows}
        for one in rows:
            when = said.changed(one)
            is_persons = said.source_type(one) == said.HUMAN and not said.is_ours(one) and one.get("valid") is not False
            edited = next((row for row in ours if row.id == one.get("assessment_id") and row.edited), None)
            if not (is_persons or edited) or (when is not None and when < after):
                continue
            meant = [edited] if edited else _meant(one, ours, ids)
            if not meant:
                continue
            label = _label(one, meant[0]) if len(meant) == 1 else None
            if label is None:
                self._losses.add(_LOST)
            else:
                yield label


def _meant(one: Mapping[str, Any], ours: list[Held], ids: Mapping[Any, Mapping[str, Any]]) -> list[Held]:
    """Which of our scores a person's assessment is of: the one it replaces, else those of its name and span."""
    replaced = one.get("overrides")
    while replaced is not None and (below := ids.get(replaced)) is not None and not said.is_ours(below):
        replaced = below.get("overrides")  # a person's word may have replaced another's
    by_id = [row for row in ours if row.id == replaced]
    if by_id:
        return by_id
    alike = [row for row in ours if ids[row.id].get("assessment_name") == one.get("assessment_name")]
    there = [row for row in alike if row.span_id == (one.get("span_id") or None)]
    return there or alike


def _label(one: Mapping[str, Any], of: Held) -> Label | None:
    """What was said of a score; None where it is neither a number nor that the score does not apply."""
    value, when, why = said.value_of(one), said.changed(one), one.get("rationale")
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)  # a person types a number into a field that held a word
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    word = value if isinstance(value, str) else None
    if not of.card_id or (number is None and word != NOT_APPLICABLE):
        return None
    source = one.get("source")
    who = source.get("source_id") if isinstance(source, Mapping) and not said.is_ours(one) else None
    return Label(
        card_id=of.card_id,
        score=of.score,
        value=number,
        label=word,
        who=str(who or _SOMEBODY),
        when="" if when is None else written(when),
        why=why if isinstance(why, str) and why != of.rationale else "",  # MLflow's pages offer ours to begin with
    )
