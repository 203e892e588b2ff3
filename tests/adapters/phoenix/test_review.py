"""What people annotate on a real Phoenix comes back as labels on the cards it is about."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from exported import SECOND, Sent
from groundtrace.adapters.phoenix.sink import PhoenixSink
from groundtrace.adapters.phoenix.source import PhoenixSource
from groundtrace.model import Label, Score, Scorecard
from groundtrace.store import open_store

from .conftest import Desk
from .test_sink import card

_CREATE = "mutation($input: [CreateSpanAnnotationInput!]!) { createSpanAnnotations(input: $input) { __typename } }"
_PATCH = "mutation($input: [PatchAnnotationInput!]!) { patchSpanAnnotations(input: $input) { __typename } }"


def scored(desk: Desk, sent: Sent) -> Scorecard:
    """A card of a trace, written."""
    made = card(sent, desk)
    list(PhoenixSink(desk.project).write([made]))
    return made


def on_the_page(desk: Desk, span: str, name: str, **said: Any) -> None:
    """What Phoenix's own page sends when a person annotates a span by a config."""
    (row,) = desk.spans_named(span)
    told = {"spanId": row["id"], "name": name, "annotatorKind": "HUMAN", "source": "APP", "metadata": {}, **said}
    desk.graphql(_CREATE, input=[told])


def labels(desk: Desk, since: int | None = None) -> list[Label]:
    """What the source gives."""
    return sorted(PhoenixSource(desk.project).labels(since), key=lambda label: label.score)


def test_what_a_person_annotated_is_a_label(desk: Desk) -> None:
    """By the config of a score, on its span; the words are the reason."""
    one, _ = desk.send(2)
    made = scored(desk, one)
    on_the_page(desk, one.llm, "source_support", score=2.0, explanation="Nobody says when.")
    on_the_page(desk, one.llm, "citation_precision", label="not_applicable")
    precision, support = sorted(labels(desk), key=lambda label: len(label.score), reverse=True)
    assert (support.card_id, support.score, support.value, support.why) == (
        made.id,
        "source_support",
        2.0,
        "Nobody says when.",
    )
    assert support.who == "somebody on Phoenix"
    assert (precision.score, precision.value, precision.label) == (
        "source_support.citation_precision",
        None,
        "not_applicable",
    )


def test_what_somebody_changed_of_ours_is_a_label(desk: Desk) -> None:
    """And the score stays as they left it."""
    (one,) = desk.send()
    made = scored(desk, one)
    row = next(row for row in desk.annotations("span", one.root) if row["name"] == "source_support")
    desk.graphql(_PATCH, input=[{"annotationId": row["id"], "score": 5.0, "annotatorKind": "HUMAN"}])
    (label,) = labels(desk)
    assert (label.card_id, label.score, label.value) == (made.id, "source_support", 5.0)


def test_on_a_trace_too_and_the_last_word_counts(desk: Desk) -> None:
    """A person who said it on the span and on the trace said it once."""
    (one,) = desk.send()
    scored(desk, one)
    on_the_page(desk, one.llm, "source_support", score=2.0)

    def said_later() -> bool:  # Phoenix on SQLite counts in seconds
        desk.said("trace", one.trace, "source_support", score=3)
        rows = [*desk.annotations("span", one.llm), *desk.annotations("trace", one.trace)]
        return len({row["updated_at"] for row in rows if row["annotator_kind"] == "HUMAN"}) == 2

    desk.until(said_later)
    (label,) = labels(desk)
    assert label.value == 3


def test_what_is_no_verdict_on_a_score_of_ours_is_none(desk: Desk) -> None:
    """A number off the scale is counted; thumbs, notes and other people's names are not ours."""
    (one,) = desk.send()
    scored(desk, one)
    on_the_page(desk, one.llm, "source_support", score=9.0)
    desk.said("span", one.llm, "thumb", score=0)
    desk.said("span", one.retriever, "source_support", score=1)
    source = PhoenixSource(desk.project)
    assert not list(source.labels())
    assert [note for note in source.notes() if note.startswith("1 answer on Phoenix")]


def test_only_what_was_said_since(desk: Desk) -> None:
    """By Phoenix's own time."""
    (one,) = desk.send()
    scored(desk, one)
    on_the_page(desk, one.llm, "source_support", score=2.0)
    assert labels(desk, since=desk.now - 60 * SECOND)
    assert not labels(desk, since=time.time_ns() + 60 * SECOND)


def test_scores_of_a_rubric_of_your_own(desk: Desk) -> None:
    """A plugin's too, found by the config its scores left in the project."""
    (one,) = desk.send()
    mine = card(one, desk, Score(name="tone", value=1, low=0, high=2), rubric="tone")
    list(PhoenixSink(desk.project).write([mine]))
    desk.said("span", one.llm, "tone", score=2)
    assert [(label.card_id, label.value) for label in labels(desk)] == [(mine.id, 2)]


def test_labels_of_a_store(desk: Desk, tmp_path: Path) -> None:
    """They are kept as any other."""
    (one,) = desk.send()
    scored(desk, one)
    on_the_page(desk, one.llm, "source_support", score=2.0)
    with open_store(tmp_path / "store.db") as store:
        store.keep_labels(labels(desk))
        assert [label.value for label in store.labels("source_support")] == [2.0]
