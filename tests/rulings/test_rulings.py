"""The law as cases a person can read: a record, what the judge said, and the card that must follow.

Each file holds the rulings of one rubric (or of all). A case says which ruling it is of, in `ruling`, in the law's own
words, and:

- `of`: the file's sample it starts from: a rubric, a record and a reply that is right in everything;
- `record`: what is other than in the sample: `answer`, `context` (texts, or tables with an id), whatever else the
  case is about; `gaps` are tables;
- `settings` of the rubric; `unassessed`: the dimensions the judge says it can't assess;
- `reply`: what the judge says, in the order it is asked; the last one is said again if it is asked more often. A
  table is the sample's reply with the values at these paths changed, a text is what the judge says as it stands, with
  `<reply>` for the sample's. "null" is null, "left out" takes the field away, "#4.30" is the number written so;
- `expect`: what must hold of the card. `scores` names values, `null` the scores that must be there without a value,
  `absent` those that must not be there, `published` all there are, in order; `labels` their labels; `asked` is how
  often the judge was asked; `faults` are pieces of the fault lines of the first reply; `review` and `flags` must hold
  at least these (nothing at all where the list is empty), `not_review` and `not_flags` none of these; `priority` is
  that of a review; `details` are details of the card, `finding` those of its first finding, `findings` those of each,
  `card` is the whole card, `sent` the first question's parts, all by path, "any" for whatever is there; `question` and
  `not_question` are pieces of the first question as the judge reads it; the rest are fields of the card.

Whatever a case is about, a reply with faults is asked for once more, with every fault line, and never a third time.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from groundtrace import record
from groundtrace.evaluate import evaluate
from groundtrace.model import Gap, Record, Scorecard, dump, load
from groundtrace.plugins import load as load_plugin
from groundtrace.rubrics.catalogue import CATALOGUE
from groundtrace.testing import ScriptedJudge

HERE = Path(__file__).parent
LONGEST_LINE = 400


def _cases() -> Iterator[Any]:
    for file in sorted(HERE.glob("*.toml")):
        told = tomllib.loads(file.read_text(encoding="utf-8"))
        for case in told["case"]:
            sample = told["samples"][case["of"]]
            whole = {**case, "rubric": sample["rubric"], "record": sample["record"] | case.get("record", {})}
            whole["reply"] = [_said(sample["reply"], reply) for reply in case.get("reply", ({},))]
            yield pytest.param(whole, id=f"{file.stem}: {case['name']}")


def _said(sample: str, reply: str | Mapping[str, Any]) -> str:
    """What the judge says: the text, or the sample's reply with some of its values changed."""
    if isinstance(reply, str):
        return reply.replace("<reply>", sample)
    changed = json.loads(sample)
    for path, value in reply.items():
        *steps, last = _steps(path)
        place = changed
        for step in steps:
            place = place[step]
        if value == "left out":
            del place[last]
        else:
            place[last] = value
    return re.sub(r'"#([^"]+)"|"null"', lambda number: number[1] or "null", json.dumps(changed, ensure_ascii=False))


def _steps(path: str) -> list[str | int]:
    return [int(step) if step.isdigit() else step for step in path.split(".")]


CASES = list(_cases())


def _record(told: Mapping[str, Any]) -> Record:
    fields = dict(told)
    gaps = tuple(Gap(**gap) for gap in fields.pop("gaps", ()))
    made = record(**({"query": "What do the papers say?"} | fields))
    return made.model_copy(update={"gaps": made.gaps + gaps}) if gaps else made


def _judged(case: Mapping[str, Any]) -> tuple[Scorecard, ScriptedJudge]:
    said = list(case["reply"])
    judge = ScriptedJudge(lambda _: said.pop(0) if len(said) > 1 else said[0], unassessed=case.get("unassessed", ()))
    rubric = load_plugin("rubric", {"use": case["rubric"], **case.get("settings", {})})
    (card,) = evaluate([_record(case["record"])], [rubric], judge, batch_id="batch 7")
    return card, judge


@pytest.mark.parametrize("case", CASES)
def test_the_ruling_holds(case: Mapping[str, Any]) -> None:
    """What the law rules is what the card shows."""
    card, judge = _judged(case)
    want = dict(case["expect"])
    told = f"{card.attempts[0].faults if card.attempts else ''} {card.scores} {card.flags} {card.review}"
    _asked_once_more(card, judge)
    assert load(Scorecard, dump(card)) == card
    assert len(judge.heard) == want.pop("asked", len(judge.heard)), told
    lines = "\n".join(card.attempts[0].faults) if card.attempts else ""
    for piece in want.pop("faults", ()):
        assert piece in lines, told
    _scores(want, card, told)
    for field, there in (("review", {review.reason for review in card.review}), ("flags", set(card.flags))):
        wanted = want.pop(field, None)
        assert (not there) if wanted == [] else set(wanted or ()) <= there, told
        assert not set(want.pop(f"not_{field}", ())) & there, told
    for name, value in want.pop("priority", {}).items():
        assert {review.reason: review.priority for review in card.review}[name] == value, told
    _question(want, judge)
    _holds(want.pop("details", {}), card.details)
    findings = [{**finding.details, **finding.model_dump(exclude={"details"})} for finding in card.findings]
    _holds(want.pop("finding", {}), findings[0])
    rows = want.pop("findings", None)
    assert rows is None or len(rows) == len(findings), findings
    for row, finding in zip(rows or (), findings, strict=False):
        _holds(row, finding)
    _holds(want.pop("card", {}), card.model_dump())
    _holds(want, card.model_dump())


def _scores(want: dict[str, Any], card: Scorecard, told: str) -> None:
    """The scores there are, those without a value, and their labels."""
    scores = {score.name: score.value for score in card.scores}
    assert list(scores) == want.pop("published", list(scores))
    for name, value in want.pop("scores", {}).items():
        assert scores.get(name) == pytest.approx(value, abs=1e-4), (name, told)
    for name in want.pop("null", ()):
        assert name in scores, (name, told)
        assert scores[name] is None, (name, told)
    assert not set(want.pop("absent", ())) & set(scores), told
    labels = {score.name: score.label for score in card.scores}
    for name, label in want.pop("labels", {}).items():
        assert labels[name] == (None if label == "null" else label), told


def _question(want: dict[str, Any], judge: ScriptedJudge) -> None:
    """What the judge was asked first, by its parts and as it reads it."""
    case = judge.heard[0] if judge.heard else None
    text = case.prefix + "\n" + case.render("KEY") if case else ""
    for piece in want.pop("question", ()):
        assert piece in text
    for piece in want.pop("not_question", ()):
        assert piece not in text
    _holds(want.pop("sent", {}), case.body if case else {})


def _holds(want: Mapping[str, Any], there: Any) -> None:
    """Each value wanted is there, at the end of its path; "null" is None, "any" is anything but that or nothing."""
    for path, value in want.items():
        found = there
        for step in _steps(path):
            found = found[step]
        if value == "any":
            assert found not in (None, "", [], {}, ()), path
        else:
            found = list(found) if isinstance(found, tuple) else found
            assert found == (None if value == "null" else value), (path, found)


def _asked_once_more(card: Scorecard, judge: ScriptedJudge) -> None:
    """A reply with faults is asked for once more, with every line of them; each says what is wrong and where."""
    for attempt in card.attempts:
        assert all(" @ $" in line and len(line) < LONGEST_LINE and "\n" not in line for line in attempt.faults)
        mates = [other for other in card.attempts if other.slot == attempt.slot]
        assert [mate.attempt for mate in mates] == list(range(1, len(mates) + 1))
        assert len(mates) == (2 if mates[0].faults else 1)
        remarks = [case.remark or "" for case in judge.heard if case.slot == attempt.slot]
        assert len(remarks) == len(mates)
        assert all(f"- {line}" in remarks[-1] for line in mates[0].faults)


def test_every_score_is_in_the_catalogue_and_every_entry_is_a_score() -> None:
    """Name, range and whether it may be null are what docs/scores.md says of all cards of the rulings."""
    entries, seen, nulls = {entry.name: entry for entry in CATALOGUE}, set(), set()
    for case in CASES:
        card, _ = _judged(case.values[0])
        names = [score.name for score in card.scores]
        assert names == [entry.name for entry in CATALOGUE if entry.name in names]
        for score in card.scores:
            entry = entries[score.name]
            assert (score.low, score.high) == (entry.low, entry.high)
            assert (score.label is None) or entry.labels or score.label in ("not_applicable", "not_assessed")
            seen.add(score.name)
            if score.value is None:
                nulls.add(score.name)
    assert seen == set(entries)
    assert not {name for name in nulls if entries[name].null.startswith("never")}


def test_every_case_names_its_ruling_once() -> None:
    """A ruling without words, or a case twice, is a mistake in the file."""
    names = [case.values[0]["name"] for case in CASES]
    assert len(set(names)) == len(names)
    assert all(len(case.values[0]["ruling"].split()) >= 4 for case in CASES)
