"""Two editions of a rubric on the same records: what changed, and how sure that is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from groundtrace.errors import PlanError
from groundtrace.evaluate import evaluate
from groundtrace.intervals import Interval, kin, paired_interval
from groundtrace.judges.patient import Patient
from groundtrace.memory import InMemory
from groundtrace.model import JudgeKind, Passage, Record, Scorecard, Window
from groundtrace.plugins import Spec, load
from groundtrace.ports import Rubric
from groundtrace.read import read
from groundtrace.rubrics import copies
from groundtrace.rubrics.settings import NAMES

LABEL = "label"
"""The key of a golden record that holds what people say its score is."""

_HELD = "groundtrace.record"
_MOST = 5
"""Records that are named among those that changed."""

_SOURCES = ("document_id", "source", "url", "title")
"""Where a passage's metadata may say which document it is of."""


@dataclass(frozen=True, slots=True)
class Change:
    """One published score before and after, over the `n` records that have it both times, of so many `clusters` of kin.

    `gone` and `come` count those that had it before alone, and after alone.
    """

    score: str
    n: int
    before: float | None
    after: float | None
    change: float | None
    interval: Interval | None
    clusters: int = 0
    gone: int = 0
    come: int = 0


@dataclass(frozen=True, slots=True)
class Moved:
    """A record whose headline score changed."""

    record: str
    before: float
    after: float
    text: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What a test of a rubric's copy found; `agreement` is with people's labels, 1 where every score is the label."""

    rubric: str
    judge: str
    judge_kind: JudgeKind
    records: int
    versions: tuple[str, str]
    changes: tuple[Change, ...]
    unscored: tuple[int, int]
    agreement: Change | None
    moved: tuple[Moved, ...]
    notes: tuple[str, ...]

    @property
    def tested(self) -> int:
        """Records whose headline was scored both times."""
        return self.changes[0].n if self.changes else 0


class Golden(NamedTuple):
    """A record, its label and what it is kin by."""

    record: Record
    label: object
    marks: tuple[Hashable, ...]


def edition_of(path: Path) -> Any:
    """The rubric of a user's copy; PlanError where the file is no copy of one."""
    name = copies.named(path)
    if name not in NAMES:
        raise PlanError(f"{path}, rubric", name, "is no rubric that can be copied", valid=NAMES)
    return load("rubric", {"use": name, "copy": path})


def try_out(before: Rubric, after: Rubric, golden: Path, judge: Spec) -> Trial:
    """Put both editions to the judge on the records of a file, and compare what comes out.

    PlanError where the file holds nothing for the rubric.
    """
    source = load("source", {"use": "jsonl", "argument": str(golden)})
    every = list(_golden(source))
    suited = [one for one in every if one.record.kind in after.kinds]
    if not suited:
        hint = f"{after.name} is for records of kind {' or '.join(after.kinds)}"
        raise PlanError("golden", str(golden), "holds no record for this rubric", hint=hint)
    asked = Patient(load("judge", judge))
    old, new = (_judged([one.record for one in suited], rubric, asked) for rubric in (before, after))
    notes = list(source.notes())
    if len(every) > len(suited):
        notes.append(
            f"{len(every) - len(suited)} of {len(every)} records are of a kind {after.name} is not for: left out"
        )
    notes += [f"judge {asked.id} broke on record {ident}: {fault}" for (ident, _), fault in asked.broke.items()]
    clusters = dict(zip((one.record.id for one in suited), kin(one.marks for one in suited), strict=True))
    labels = dict(_labels(suited, new, notes))
    return Trial(
        rubric=after.name,
        judge=asked.id,
        judge_kind=asked.kind,
        records=len(suited),
        versions=(before.version, after.version),
        changes=tuple(_changes(old, new, clusters)),
        unscored=(_unscored(old), _unscored(new)),
        agreement=_agreement(labels, old, new, clusters),
        moved=tuple(_moved(suited, old, new)),
        notes=tuple(notes),
    )


# --- the golden file ------------------------------------------------------------------------------------------------


def _golden(source: Any) -> Iterator[Golden]:
    """The records of a file, in their order."""
    convention = load("convention", "record")
    for trace in source.traces(Window(), lambda _, __: True):
        held: Mapping[str, Any] = trace.spans[0].attributes[_HELD]
        for record in read(trace, [convention]):
            yield Golden(record, held.get(LABEL), (("trace", trace.ref.trace_id), *map(_document, record.context[:1])))


def _document(passage: Passage) -> tuple[str, str]:
    """Which document a passage is of, as far as it says: else it is its own."""
    named = next((str(passage.metadata[key]) for key in _SOURCES if passage.metadata.get(key)), None)
    return ("document", named) if named else ("text", passage.text)


def _labels(suited: Sequence[Golden], cards: Mapping[str, Scorecard], notes: list[str]) -> Iterator[tuple[str, float]]:
    """The labels that are numbers on the rubric's scale; of the others it is noted why they are left out."""
    scales = {(card.scores[0].low, card.scores[0].high) for card in cards.values() if card.scores}
    low, high = next(iter(scales), (-math.inf, math.inf))
    wrong: Counter[str] = Counter()
    for one in suited:
        if one.label is None:
            continue
        if isinstance(one.label, (int, float)) and not isinstance(one.label, bool) and low <= one.label <= high:
            yield one.record.id, float(one.label)
        else:
            wrong[repr(one.label)[:40]] += 1
    if wrong:
        shown = ", ".join(list(wrong)[:3])
        told = f"labels that are no number from {low:g} to {high:g} are left out"
        notes.append(f"{told}: {wrong.total()} of {len(suited)}, such as {shown}")


# --- comparing ------------------------------------------------------------------------------------------------------


def _judged(records: Sequence[Record], rubric: Rubric, judge: Patient) -> dict[str, Scorecard]:
    return {card.record_id: card for card in evaluate(records, [rubric], judge, memory=InMemory())}


def _unscored(cards: Mapping[str, Scorecard]) -> int:
    return sum(card.status == "unscored" for card in cards.values())


def _values(cards: Mapping[str, Scorecard], score: str) -> dict[str, float]:
    """A score by record, where it has a value."""
    every = ((ident, held) for ident, card in cards.items() for held in card.scores if held.name == score)
    return {ident: held.value for ident, held in every if held.value is not None}


def _changes(
    before: Mapping[str, Scorecard], after: Mapping[str, Scorecard], clusters: Mapping[str, int]
) -> Iterator[Change]:
    """Each published score, the headline first."""
    names = dict.fromkeys(score.name for cards in (after, before) for card in cards.values() for score in card.scores)
    for name in sorted(names, key=lambda name: (name.count("."), list(names).index(name))):
        yield _change(name, _values(before, name), _values(after, name), clusters)


def _change(name: str, before: Mapping[str, float], after: Mapping[str, float], clusters: Mapping[str, int]) -> Change:
    both = [ident for ident in before if ident in after]
    old, new = ([values[ident] for ident in both] for values in (before, after))
    gone, come = len(before) - len(both), len(after) - len(both)
    if not both:
        return Change(name, 0, None, None, None, None, 0, gone, come)
    families = [clusters[ident] for ident in both]
    interval = paired_interval(old, new, families)
    was, now = (math.fsum(values) / len(values) for values in (old, new))
    return Change(name, len(both), was, now, now - was, interval, len(set(families)), gone, come)


def _agreement(
    labels: Mapping[str, float],
    before: Mapping[str, Scorecard],
    after: Mapping[str, Scorecard],
    clusters: Mapping[str, int],
) -> Change | None:
    """How near the headline is to people's labels: 1 on the label, 0 at the other end of the scale."""
    if not labels:
        return None
    old, new = (
        {
            ident: 1 - abs(score.value - labels[ident]) / (score.high - score.low)
            for ident, card in cards.items()
            if ident in labels and (score := next(iter(card.scores), None)) is not None and score.value is not None
        }
        for cards in (before, after)
    )
    return _change("agreement", old, new, clusters)


def _moved(
    suited: Sequence[Golden], before: Mapping[str, Scorecard], after: Mapping[str, Scorecard]
) -> Iterator[Moved]:
    """The records whose headline changed most."""
    found = []
    for one in suited:
        old, new = (next(iter(cards[one.record.id].scores), None) for cards in (before, after))
        if old is not None and new is not None and old.name == new.name and None not in (old.value, new.value):
            found.append(Moved(one.record.id, old.value or 0, new.value or 0, one.record.answer or ""))
    changed = [moved for moved in found if moved.before != moved.after]
    yield from sorted(changed, key=lambda m: -abs(m.after - m.before))[:_MOST]
