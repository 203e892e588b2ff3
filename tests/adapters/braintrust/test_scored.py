"""A card as a scorer span and a root's mirror: laws that hold for any cards, in any order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groundtrace.adapters.braintrust.scored import Names, Seat, Sent, held, mirror, span, together, unit
from groundtrace.adapters.published import results
from groundtrace.model import Review, Score, Scorecard
from scoring import about, row_id, span_id, trace_id
from standins.braintrust.merging import merged

RUBRICS = ("source_support", "rag_faithfulness", "tone")
SEAT = Seat(row_id(1), span_id(1), trace_id(1), {"metrics.end": 2.5, "created": "2026-11-01T08:00:00Z"})


@st.composite
def cards(draw: st.DrawFn) -> Scorecard:
    """A card about the first trace, of any of three rubrics."""
    rubric = draw(st.sampled_from(RUBRICS))
    names = draw(st.lists(st.sampled_from(("", ".a", ".b", ".c")), unique=True, max_size=4))
    value = st.none() | st.floats(1, 5)
    scores = tuple(Score(name=rubric + name, value=draw(value), low=1, high=5) for name in names)
    told: dict[str, Any] = {"status": draw(st.sampled_from(("scored", "unscored", "pending_review")))}
    told |= {"review": (Review(reason="x"),) if draw(st.booleans()) else (), "version": draw(st.sampled_from("12"))}
    card = about(1, project="p", rubric=rubric, **told)
    return card.model_copy(update={"scores": scores, "reason": "context_off" if told["status"] == "unscored" else None})


def _sent(card: Scorecard) -> Sent:
    return Sent(card, results(card))


def _read(row: dict[str, Any]) -> dict[str, Any]:
    """A scorer span as it is read back: over JSON, and only what is asked for."""
    row = json.loads(json.dumps(row, allow_nan=False))
    asked = {"id": row["id"], "scores": row["scores"], "span_parents": row["span_parents"], "tags": row.get("tags")}
    return {**asked, "metadata.groundtrace": row["metadata"]["groundtrace"]}


@given(st.lists(cards(), min_size=1, max_size=5))
def test_a_span_says_what_was_written_on_it_whatever_was_there_before(versions: list[Scorecard]) -> None:
    """Nothing of ours is taken for an edit, every number fits, and what is no longer given is null."""
    names, before, there = Names(), None, dict[str, Any]()
    for card in versions:
        told = results(card)
        row = span(card, told, SEAT, names, before)
        before = held(_read(row))
        assert not before.edited()
        assert before.stamp.content_hash == card.content_hash
        assert set(before.names) == {result.score for result in told}
        given_now = {names.of(r.score): unit(r) for r in told if r.value is not None}
        assert {name: number for name, number in row["scores"].items() if number is not None} == given_now
        assert all(0 <= number <= 1 for number in given_now.values())
        cleared = {name for name, number in row["scores"].items() if number is None}
        assert {name for name, number in there.items() if number is not None} <= cleared | given_now.keys()
        there = row["scores"]


@given(st.lists(st.lists(cards(), min_size=1, max_size=3), min_size=1, max_size=4))
def test_a_root_that_was_told_has_nothing_to_be_told(batches: list[list[Scorecard]]) -> None:
    """Whatever came before; and it knows the newest of every rubric, with no number of what is held."""
    root: dict[str, Any] = {"id": row_id(1), "metadata": {"mine": 1}}
    newest: dict[str, Scorecard] = {}
    for batch in batches:
        newest |= {card.rubric: card for card in batch}
        event = together(root["id"], [mirror(_seen(root), [_sent(card) for card in batch])])
        if event is not None:
            root = merged(root, {"metadata": event["metadata"]}, [])
        latest = list({card.rubric: card for card in batch}.values())
        assert mirror(_seen(root), [_sent(card) for card in latest]) is None
        assert mirror(_seen(root), [], [_sent(card) for card in newest.values()]) is None
    told = root["metadata"]["groundtrace"]
    assert root["metadata"]["mine"] == 1
    assert told["rubrics"].keys() == newest.keys()
    assert told["flagged"] is any(card.waits for card in newest.values())
    for rubric, card in newest.items():
        known = told["rubrics"][rubric]
        assert (known["status"], known["version"]) == (card.status, card.version)
        headline = card.headline.unit if card.headline and card.status == "scored" else None
        assert known.get("score") == headline
    numbers = [unit(r) for card in newest.values() if card.status == "scored" for r in results(card)]
    assert told.get("worst") == min((n for n in numbers if n is not None), default=None)


def _seen(root: dict[str, Any]) -> dict[str, Any]:
    """A root as it is read."""
    return {"id": root["id"], "metadata.groundtrace": json.loads(json.dumps(root["metadata"].get("groundtrace")))}
