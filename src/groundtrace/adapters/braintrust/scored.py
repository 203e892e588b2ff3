"""A scorecard as a scorer span of Braintrust's, what one that is there says of itself, and its mirror on the root.

One span a card, under an id that is the card's: so the same card is the same row for ever. Braintrust's scores are
numbers of 0..1; the number as it was given stands with its range in the metadata, and for charts in the metrics.
Charts group by what stands on a span itself, so versions, judge and slices do; tables show columns of roots, so a root
is told the least that says how its rubrics fared.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from groundtrace.adapters.braintrust.api import Row
from groundtrace.adapters.braintrust.names import name_of
from groundtrace.adapters.braintrust.review import ASSIGNED, LISTS
from groundtrace.adapters.facts import cut, facts, fault, plain, sound
from groundtrace.adapters.ledger import Stamp, stamp
from groundtrace.adapters.published import Result
from groundtrace.model import Scorecard

OURS = "groundtrace"
"""The name in a row's metadata under which ours stands: a scorer span's stamp, or a root's mirror."""

STAMP = f"metadata.{OURS}"
"""The same, as a query gives it."""

AUTO = "_auto"
"""Stands behind the name of a score where a column of people's has it."""

RATIONALE = 10_000
"""Bytes of a rationale; the store has the whole text."""

TRIMMED = 500
"""And of one in a row that Braintrust refused as too large."""

FIELDS = (
    *(("id",), ("span_id",), ("root_span_id",), ("span_parents",), ("is_root",), ("created",), ("tags",), ("scores",)),
    *(("metrics", "end"), ("span_attributes", "type"), ("span_attributes", "purpose")),
    *(("metadata", OURS), ("metadata", LISTS), ("metadata", ASSIGNED)),
)
"""What is read of a row that is scored, and of a scorer span of ours: never what went in or came out."""

REPLACED = (("id",), ("expected",), ("metadata",))
"""What else is read of a scorer span of ours before another takes its place."""

_ALIKE = 1e-4
"""How far a number may be from the one that was written, and be it: who edits one changes more than that."""


class Names:
    """What our scores are called in a project; columns of people's keep their names, and what they hold.

    >>> names = Names(["groundtrace_source_support"])
    >>> names.of("source_support"), names.of("source_support.citation_precision")
    ('groundtrace_source_support_auto', 'groundtrace_source_support_citation_precision')
    """

    def __init__(self, columns: Iterable[str] = ()) -> None:
        self._columns = frozenset(columns)

    def of(self, score: str) -> str:
        """A score's name."""
        name = name_of(score)
        while name in self._columns:
            name += AUTO
        return name

    def met(self, scores: Iterable[str]) -> list[tuple[str, str]]:
        """The names among those of these scores that columns have already, each with what ours is called then."""
        return sorted({(name, self.of(score)) for score in scores if (name := name_of(score)) in self._columns})


class Seat(NamedTuple):
    """The span a card is about, as Braintrust has it."""

    id: str
    span_id: str
    trace: str
    row: Row

    @classmethod
    def of(cls, row: Row) -> Seat:
        """The span of a row."""
        return cls(str(row["id"]), str(row["span_id"]), str(row["root_span_id"]), row)


class Held(NamedTuple):
    """A scorer span of ours that is there: which content it is, whose word, and what was written then."""

    stamp: Stamp
    written: Mapping[str, float | None]
    """Its scores as they were written, by the name they have there."""

    names: tuple[str, ...]
    """Which scores those are."""

    row: Row
    """As it was read; with what people may have put on it, where it is about to be replaced."""

    @property
    def scores(self) -> Mapping[str, Any]:
        """Its scores as they are now."""
        told = self.row.get("scores")
        return told if isinstance(told, Mapping) else {}

    def edited(self, names: Iterable[str] = ()) -> bool:
        """Whether somebody changed a number of ours, or gave one under these names, where we had none."""
        changed = any(not _same(self.scores.get(name), number) for name, number in self.written.items())
        bare = (name for name in names if self.written and name not in self.written)
        return changed or any(self.scores.get(name) is not None for name in bare)


def held(row: Row) -> Held:
    """What a scorer span of ours says of itself."""
    told = row.get(STAMP)
    told = told if isinstance(told, Mapping) else {}
    scores = told.get("scores")
    scores = scores if isinstance(scores, Mapping) else {}
    known = {str(score): one for score, one in scores.items() if isinstance(one, Mapping) and "as" in one}
    return Held(
        stamp(str(told.get("content_hash")), told.get("judge_kind"), told.get("status")),
        {str(one.get("as")): one.get("score") for one in known.values()},
        tuple(known),
        row,
    )


def _same(one: object, other: object) -> bool:
    """Whether two numbers, or the lack of one, are the same."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, abs_tol=_ALIKE)
    return one is None and other is None


# --- what is sent ---------------------------------------------------------------------------------------------------


def unit(result: Result) -> float | None:
    """A result's value on 0..1, as Braintrust counts; None where there is none.

    >>> unit(Result("source_support", "id", "hash", value=4, low=1, high=5))
    0.75
    """
    if result.value is None or result.low is None or result.high is None:
        return None
    return (result.value - result.low) / (result.high - result.low)


def wrong(result: Result) -> str | None:
    """Why a result is not sent: what no number of 0..1 can be made of, or Braintrust would not understand.

    >>> wrong(Result("source_support", "id", "hash", value=7, low=1, high=5))
    'a value must be a number of 1 to 5, not 7 @ $.source_support.value'
    """
    if (told := fault(result)) is not None or result.value is None:
        return told
    low, high = result.low, result.high
    fits = low is not None and high is not None and low < high and low <= result.value <= high
    if not fits or not math.isfinite(unit(result) or 0.0):
        return f"a value must be a number of {low} to {high}, not {result.value} @ $.{result.score}.value"
    return None


def span(card: Scorecard, told: Sequence[Result], at: Seat, names: Names, before: Held | None = None) -> dict[str, Any]:
    """The whole scorer span of a card; in place of one that was there before, it keeps what people put on that.

    Its times are those of the end of the span it is about: so charts over time show when an answer was given and not
    when it was judged, and a trace that is scored a week later is not a week long. When it was judged is `judged_at`.
    """
    scores = {names.of(result.score): unit(result) for result in told}
    given = {name: value for name, value in scores.items() if value is not None}
    metrics = {f"{names.of(r.score)}_raw": float(r.value) for r in told if r.value is not None}
    row: dict[str, Any] = {
        "id": card.id,
        "span_id": uuid.UUID(card.id).hex[:16],
        "root_span_id": at.trace,
        "span_parents": [at.span_id],
        "span_attributes": {"type": "score", "purpose": "scorer", "name": names.of(card.rubric)},
        "output": _output(card, scores),
        "scores": given,
        "metadata": _metadata(card, told, names, scores),
        "metrics": metrics,
    }
    if (end := _moment(at.row)) is not None:
        metrics |= {"start": end, "end": end}
    if isinstance(created := at.row.get("created"), str):
        row["created"] = created
    return row if before is None else _over(row, before)


def _over(row: dict[str, Any], before: Held) -> dict[str, Any]:
    """The row in place of one: scores that are no longer given are cleared, people's own are kept."""
    gone = dict.fromkeys(name for name in before.written if name not in row["scores"])
    theirs = {name: value for name, value in before.scores.items() if name not in before.written}
    row["scores"] = {**theirs, **gone, **row["scores"]}
    for name in ("tags", "expected"):
        if before.row.get(name) is not None:
            row[name] = before.row[name]
    told, stamp_ = before.row.get("metadata"), before.row.get(STAMP)
    ours = stamp_.get("own") if isinstance(stamp_, Mapping) else None
    if isinstance(told, Mapping) and isinstance(ours, list):
        theirs_too = {name: value for name, value in told.items() if name not in ours and name != OURS}
        row["metadata"] = {**theirs_too, **row["metadata"]}
    for name in (LISTS, ASSIGNED):
        if (kept := before.row.get(f"metadata.{name}")) is not None:
            row["metadata"][name] = kept
    return row


def _output(card: Scorecard, scores: Mapping[str, float | None]) -> dict[str, Any]:
    """The scores as the SDK's own `Eval` writes those of a scorer that gives several; why, where there are none."""
    if card.status == "scored":
        return {name: {"score": value} for name, value in scores.items()}
    return {"status": card.status, "reason": sound(card.reason or "a person must decide")}


def _metadata(
    card: Scorecard, told: Sequence[Result], names: Names, scores: Mapping[str, float | None]
) -> dict[str, Any]:
    facts_of = facts(card) | plain({"reason": card.reason, "judged_at": card.timestamp})
    slices = plain({name.replace(".", "_"): value for name, value in card.slices.items()})
    slices = {(f"slice_{name}" if name in facts_of else name): value for name, value in slices.items()}
    if "generator_model" in slices:
        slices.setdefault("model", slices["generator_model"])
    main = next((result for result in told if result.score == card.rubric), told[0] if told else None)
    why = {} if main is None else plain({"choice": main.label}) | _why(main)
    mark = {
        "card_id": card.id,
        "rubric": card.rubric,
        "content_hash": card.content_hash,
        "judge_kind": card.judge_kind,
        "status": card.status,
        "scores": _marks(card, told, names, scores),
    }
    each = {names.of(result.score): _said(result) for result in told}
    said = {**slices, **each, **facts_of, **why}
    return {**said, OURS: {**mark, "own": [*said]}}


def _marks(
    card: Scorecard, told: Sequence[Result], names: Names, scores: Mapping[str, float | None]
) -> dict[str, dict[str, Any]]:
    """The ranges of a card's scores, held back or not; and what was written of each, by which an edit is known."""
    marks: dict[str, dict[str, Any]] = {one.name: {"low": one.low, "high": one.high} for one in card.scores}
    for result in told:
        name = names.of(result.score)
        marks.setdefault(result.score, {}).update({"as": name, "score": scores[name]})
    return marks


def _said(result: Result) -> dict[str, Any]:
    """What is known of one score beside its number of 0..1."""
    told = {"value": result.value, "low": result.low, "high": result.high, "label": result.label}
    said = plain(told) if result.value is not None else plain({"label": result.label})
    return said | _why(result)


def _why(result: Result) -> dict[str, str]:
    """Its rationale, as far as there is one and there is room for it."""
    why = result.explanation or result.error or ""
    if result.error and result.error not in why:
        why = f"{result.error}: {why}"
    return {"rationale": cut(sound(why), RATIONALE)} if why else {}


def trimmed(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same row with the least of ours that still says what it is."""
    metadata: dict[str, Any] = {}
    ours = row["metadata"][OURS]["own"]
    for name, value in row["metadata"].items():
        if name not in ours:  # people's, or the stamp
            metadata[name] = value
        elif name == "rationale":
            metadata[name] = cut(value, TRIMMED)
        elif isinstance(value, Mapping) and "rationale" in value:
            metadata[name] = {**value, "rationale": cut(value["rationale"], TRIMMED)}
        elif name not in ("source_ids", "limits"):
            metadata[name] = value
    return {**row, "metadata": metadata}


def _moment(row: Row) -> float | None:
    """When a span ended, in seconds since 1970."""
    end = row.get("metrics.end")
    return float(end) if isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end) else None


# --- the mirror -----------------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """A card, and those of its results that are sent."""

    card: Scorecard
    results: Sequence[Result]


def mirror(row: Row, cards: Sequence[Sent], unchanged: Sequence[Sent] = ()) -> dict[str, Any] | None:
    """What a root is to be told of its cards, as a change that is merged into it; None where it knows.

    Of `unchanged` cards it is told only where it knows nothing of their rubric, or of an earlier state of them.
    """
    before = {} if row.get(STAMP) is None else row[STAMP]
    if not _is_mirror(before):
        return None  # somebody else's
    known = {name: plain(dict(one)) for name, one in before.get("rubrics", {}).items()}
    mended = (one for one in unchanged if known.get(one.card.rubric, {}).get("card_id") in (None, one.card.id))
    new = {one.card.rubric: _short(*one) for one in (*mended, *cards)}
    after = {**known, **new}
    numbers = [one[name] for one in after.values() for name in ("score", "lowest") if _is_number(one.get(name))]
    whole = {"worst": min(numbers, default=None), "flagged": any(one.get("review") for one in after.values())}
    rubrics = {name: one for name, one in new.items() if known.get(name) != one}
    told = {name: value for name, value in whole.items() if before.get(name) != value}
    if not rubrics and not told:
        return None
    changed = {name: {**dict.fromkeys(known.get(name, ())), **one} for name, one in rubrics.items()}
    return {"metadata": {OURS: {**({"rubrics": changed} if changed else {}), **told}}}


def _short(card: Scorecard, told: Sequence[Result]) -> dict[str, Any]:
    """A card in a few words; of one that waits for a person no number."""
    numbers = {result.score: unit(result) for result in told} if card.status == "scored" else {}
    main = next((result for result in told if result.score == card.rubric and card.status == "scored"), None)
    short = {
        "score": numbers.get(card.rubric),
        "label": main.label if main else None,
        "lowest": min((number for number in numbers.values() if number is not None), default=None),
        "status": card.status,
        "reason": card.reason,
        "review": card.waits,
        "version": card.version,
        "judge": card.judge,
        "card_id": card.id,
    }
    return plain(short)


def _is_mirror(told: object) -> bool:
    """Whether a root's metadata was told there by us, or says nothing."""
    rubrics = told.get("rubrics") if isinstance(told, Mapping) else None
    ours = isinstance(rubrics, Mapping) and all(isinstance(one, Mapping) for one in rubrics.values())
    return ours or told == {}


def _is_number(told: object) -> bool:
    return isinstance(told, int | float) and not isinstance(told, bool)


def together(row_id: str, changes: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Several changes of one row as one that is merged into it, for two writes of a row in a batch are one's loss.

    >>> together("r", [{"metadata": {"a": 1}}, None, {"metadata": {"b": 2}, "_merge_paths": [["metadata", "b"]]}])
    {'id': 'r', '_is_merge': True, 'metadata': {'a': 1, 'b': 2}, '_merge_paths': [['metadata', 'b']]}
    """
    event: dict[str, Any] = {"id": row_id, "_is_merge": True}
    paths: list[Any] = []
    for change in changes:
        if change is None:
            continue
        paths += [path for path in change.get("_merge_paths", ()) if path not in paths]
        own = {name: value for name, value in change.items() if not name.startswith("_") and name != "id"}
        _merge(event, own)
    if len(event) == 2:
        return None
    return {**event, "_merge_paths": paths} if paths else event


def _merge(into: dict[str, Any], new: Mapping[str, Any]) -> None:
    for name, value in new.items():
        there = into.get(name)
        if isinstance(there, dict) and isinstance(value, Mapping):
            _merge(there, value)
        else:
            into[name] = dict(value) if isinstance(value, Mapping) else value
