"""What people said on Phoenix of our scores, as labels.

A person's annotation under the name of a score of ours, on a span, trace or session that has it, is their word on it;
so is an annotation of ours that somebody changed there. People annotate by the configs we leave, so by the same scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from groundtrace.adapters.losses import Losses
from groundtrace.adapters.phoenix.annotations import Kind, Place, Row, row_of
from groundtrace.adapters.phoenix.api import ANNOTATIONS, Api
from groundtrace.adapters.phoenix.api import Row as Told
from groundtrace.adapters.phoenix.configs import MARK
from groundtrace.adapters.phoenix.said import HUMAN, OURS, is_ours, listed, number, result_of
from groundtrace.adapters.published import NOT_APPLICABLE
from groundtrace.adapters.values import moment
from groundtrace.model import Label
from groundtrace.rubrics.catalogue import CATALOGUE

_SOMEBODY = "somebody on Phoenix"
_RUBRICS = tuple(dict.fromkeys(told.name.partition(".")[0] for told in CATALOGUE))
_LOST = (
    "{n} answer on Phoenix is no number on its score's scale, or could be about several cards: left out",
    "{n} answers on Phoenix are no numbers on their scores' scales, or could be about several cards: left out",
)

_Ours: TypeAlias = "dict[tuple[Place, str], list[Row]]"


class Answers:
    """What people said about scores of ours in one project."""

    def __init__(self, api: Api, project: str) -> None:
        self._api, self._project = api, project
        self._losses = Losses()

    def notes(self) -> tuple[str, ...]:
        """What could not be told, for the report."""
        return self._losses.notes()

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """Their labels, said or changed since then (nanoseconds since 1970).

        All of our annotations are looked through: Phoenix lists them by identifier and not by time.
        """
        spans = self._ours("span", [f"{OURS}{rubric}" for rubric in self._rubrics()])
        traces = self._beside("trace", spans)
        said: dict[tuple[str, str, str], Label] = {}
        for kind, ours in (("span", spans), ("trace", traces)):
            for label in self._of(kind, ours, since):  # type: ignore[arg-type]  # the literals stand above
                key = label.card_id, label.score, label.who
                if key not in said or said[key].when <= label.when:  # on the span and on the trace: the last word
                    said[key] = label
        yield from said.values()

    def _rubrics(self) -> Iterable[str]:
        """Our four rubrics, and those of plugins that left a config."""
        found = dict.fromkeys(_RUBRICS)
        for page in self._api.pages(f"/projects/{self._project}/annotation_configs", limit=100):
            told = (str(row.get("description") or "") for row in page)
            found |= dict.fromkeys(one.removeprefix(MARK).partition(".")[0] for one in told if one.startswith(MARK))
        return found

    def _ours(self, kind: Kind, identifiers: list[str]) -> _Ours:
        found: _Ours = {}
        asked = {"identifier": identifiers}
        for page in self._api.pages(f"/projects/{self._project}/{kind}_annotations", asked, limit=ANNOTATIONS):
            for told in page:
                row = row_of(kind, told)
                if row is not None and row.card_id:
                    found.setdefault((row.place, row.name), []).append(row)
        return found

    def _beside(self, kind: Kind, spans: _Ours) -> _Ours:
        """Our annotations of the traces of these spans, which have an identifier for each request."""
        identifiers = sorted({f"{row.identifier}:{row.request}" for rows in spans.values() for row in rows})
        found: _Ours = {}
        for start in range(0, len(identifiers), 100):
            for key, rows in self._ours(kind, identifiers[start : start + 100]).items():
                found.setdefault(key, []).extend(rows)
        return found

    def _of(self, kind: Kind, ours: _Ours, since: int | None) -> Iterator[Label]:
        """What people said beside these annotations of ours, and what they changed of them."""
        for rows in ours.values():
            for row in rows:
                if row.edited and _is_new(row.told, since):
                    yield from self._label(row.told, row)
        idents = sorted({place.ident for place, _ in ours})
        for told in listed(self._api, self._project, kind, idents):
            if told.get("annotator_kind") != HUMAN or is_ours(told) or not _is_new(told, since):
                continue
            place = Place(kind, str(told.get(f"{kind}_id")))
            rows = ours.get((place, str(told.get("name"))), [])
            if len({row.card_id for row in rows}) == 1:
                yield from self._label(told, rows[0])
            elif rows:
                self._losses.add(_LOST)

    def _label(self, told: Told, row: Row) -> Iterator[Label]:
        """A person's word on the score of a row; none where it is neither a number nor that it does not apply."""
        result = result_of(told)
        score, word = number(result.get("score")), result.get("label")
        low, high = row.low, row.high
        outside = score is not None and low is not None and high is not None and not low <= score <= high
        if outside or (score is None and word != NOT_APPLICABLE) or not row.stamp.score:
            self._losses.add(_LOST)
            return
        yield Label(
            card_id=row.card_id,
            score=row.stamp.score,
            value=score,
            label=word if isinstance(word, str) else None,
            who=f"Phoenix {told['user_id']}" if told.get("user_id") else _SOMEBODY,
            when=str(told.get("updated_at") or ""),
            why=str(result.get("explanation") or ""),
        )


def _is_new(told: Told, since: int | None) -> bool:
    """Whether it was said or changed since then; what says no time is."""
    when = moment(told.get("updated_at"))
    return since is None or when is None or when >= since
