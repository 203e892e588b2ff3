"""A row is a span whatever it lacks, and of what came twice the newest counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from groundtrace.adapters.braintrust import rows
from groundtrace.adapters.braintrust.api import Place
from groundtrace.adapters.braintrust.filters import Filter
from groundtrace.adapters.braintrust.hearing import Heard
from groundtrace.adapters.braintrust.said import Scale, scored, together
from groundtrace.model import JUDGE_MARK, Ref, Signal, Trace, dump, load
from groundtrace.plugins import load as plugin
from groundtrace.read import read

LOGS = Place("project_logs", "p", "p", "ferries")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
ROWS: dict[str, list[dict[str, Any]]] = orjson.loads((FIXTURES / "braintrust-rows.json").read_bytes())
TOP = 0x0DE1 << 48


def row(ident: str = "a", xact: int = 1, **told: Any) -> dict[str, Any]:
    """A row."""
    return {"id": ident, "span_id": ident, "root_span_id": "t", "_xact_id": str(TOP | xact), **told}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_rows_of_real_libraries_are_traces(name: str) -> None:
    """As conventions are shown them elsewhere, and through JSON and back."""
    held = ROWS[name]
    root = next(filter(rows.is_root, held))
    trace = rows.trace(rows.ref(root, LOGS), held)
    assert load(Trace, dump(trace)) == trace
    assert {span.attributes[rows.ATTRIBUTE]["id"] for span in trace.spans} == {one["id"] for one in held}
    assert read(trace, [plugin("convention", "braintrust")])


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"span_parents": None, "metrics": None, "span_attributes": None, "metadata": None, "tags": None},
        {"span_parents": "x", "metrics": [], "span_attributes": "y", "metadata": 3, "tags": "z", "created": 5},
        {"span_parents": [None], "metrics": {"start": "soon", "end": True}, "error": {"message": "no"}, "scores": 1},
        {"metrics": {"start": float("inf"), "end": 1e300}, "_xact_id": None, "created": "yesterday"},
    ],
)
def test_a_row_may_hold_anything(told: dict[str, Any]) -> None:
    """Nothing raises."""
    odd = {**row(), **told}
    assert rows.trace(rows.ref(odd, LOGS), [odd]).spans[0].parent_id is None
    assert (rows.is_root(odd), rows.is_ours(odd), rows.is_written(odd)) == (True, False, False)
    rows.changed(odd)
    rows.begun(odd)
    assert rows.is_over(odd)
    assert list(scored(odd, Scale())) == []
    assert Filter(("a",), {"b.c": "1"}, error=True).fits(odd) is False


STEPS = "Traceback (most recent call last):\n  File 'a.py', line 1, in f\n    f()\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (f"ValueError: no\n\n{STEPS}", "ValueError: no"),
        (f"{STEPS}KeyError: 'x'\n", "KeyError: 'x'"),
        (f"{STEPS}KeyError: 'x'\n\nDuring handling of this:\n\n{STEPS}a.Refused: no\nand why\n", "a.Refused: no"),
        (STEPS, "Traceback (most recent call last):"),
        ({"message": "no"}, "no"),
        (3, "3"),
    ],
)
def test_an_error_is_what_was_raised(error: object, said: str) -> None:
    """Whether the SDK logged its traceback behind it or ahead of it."""
    assert rows.line_of(error) == said


def test_of_a_row_that_comes_twice_the_newest_counts() -> None:
    """Transactions are numbers, however many digits they have; also where two rows share a span."""
    old, new = row(xact=9, output="old"), row(xact=10, output="new")
    for told in ([old, new], [new, old]):
        assert rows.newest(told)["a"]["output"] == "new"
    short, long = {**old, "_xact_id": "9"}, {**new, "_xact_id": "10"}
    assert rows.newest([long, short])["a"]["output"] == "new"
    other = row("b", 11, span_id="a", output="newest")
    (span,) = rows.trace(Ref("braintrust"), [other, new, old]).spans
    assert span.attributes[rows.ATTRIBUTE]["output"] == "newest"


def test_a_line_of_a_log_shares_a_span_and_takes_no_place() -> None:
    """It comes last, below the span it is of."""
    said = row("l", span_id="a", span_attributes={"type": "log", "name": "info"}, metrics={"start": 1, "end": 1})
    trace = rows.trace(Ref("braintrust"), [said, row(metrics={"start": 5, "end": 6})])
    assert [(span.id, span.parent_id) for span in trace.spans] == [("a", None), ("log l", "a")]


def test_scores_of_ours_are_not_in_a_trace_and_others_are_aside() -> None:
    """The convention knows those by their kind."""
    scorer = {"type": "score", "purpose": "scorer"}
    ours = row("x", span_parents=["a"], span_attributes=scorer, metadata={"groundtrace": {"rubric": "r"}})
    theirs = row("y", span_parents=["a"], span_attributes=scorer)
    assert [span.id for span in rows.trace(Ref("braintrust"), [row(), ours, theirs]).spans] == ["a", "y"]


def test_what_a_judge_of_ours_left_is_marked() -> None:
    """Whoever reads the trace passes it over."""
    assert rows.span(row(metadata={JUDGE_MARK: "offline"})).is_judging
    assert rows.is_ours({"id": "a", f"metadata.{JUDGE_MARK}": "offline"})  # as a query by paths gives it
    assert rows.is_ours(row(metadata={"groundtrace": {"judge": "offline"}}))  # as spans of OpenTelemetry may come
    assert not rows.is_ours(row(metadata={"groundtrace": {"worst": 0.2}}))


@pytest.mark.parametrize(
    ("xact", "created", "moment"),
    [
        ("1000194776110029234", "2025-03-18T14:16:28.539Z", 1_742_307_389_000_000_000),
        (str(TOP | 7), "2025-03-18T14:16:28.539Z", None),
        ("1000194776110029234", "2025-04-18T14:16:28.539Z", None),
        ("1000194776110029234", None, None),
        ("x", "2025-03-18T14:16:28.539Z", None),
        (None, "2025-03-18T14:16:28.539Z", None),
    ],
)
def test_when_a_row_was_changed_is_believed_only_where_it_can_be(xact: Any, created: Any, moment: int | None) -> None:
    """A transaction before its row was made is no time."""
    assert rows.changed({"_xact_id": xact, "created": created}) == moment


def test_one_name_is_told_once_and_a_complaint_before_praise() -> None:
    """Comments are each their own."""
    good, bad = Signal("thumb", value=1.0), Signal("thumb", value=0.0, negative=True)
    said = (Signal("comment", comment="a"), Signal("comment", comment="b"))
    assert together([good, bad, *said]) == (bad, *said)
    assert together([bad, good]) == (bad,)


@pytest.mark.parametrize("kept", ["", "no", "[]", "{}", '{"after": 1, "upto": "x", "told": {}}', '{"after": 1}'])
def test_a_watermark_that_is_none_is_none(kept: str) -> None:
    """It is heard anew then."""
    assert Heard.of(kept) is None


def test_a_watermark_is_read_back() -> None:
    """As it was kept."""
    heard = Heard(TOP, TOP + 5, {"a": "thumb 0"})
    assert Heard.of(str(heard)) == heard
