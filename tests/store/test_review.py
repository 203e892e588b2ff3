"""What waits for a person and what people said, kept in a database."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text

from groundtrace.memory import InMemory
from groundtrace.model import Decision, Label, Ref, Review, Score, Scorecard, card_id
from groundtrace.review import decide, labels
from groundtrace.store import Store, open_store
from groundtrace.store.schema import VERSION
from groundtrace.testing import sample_card
from oldstore import give_back

FIRST = Path(__file__).parents[1] / "fixtures" / "store" / "schema-1.sql"
SECRET = "the canary sings at 21:40"
NOW = Review(reason="critical_claim", priority="now", note=SECRET)
LATER = Review(reason="low_support")


def card(name: str, *reviews: Review, value: float | None = 2, **fields: object) -> Scorecard:
    """A card of its own trace."""
    score = Score(name="source_support", value=value, low=1, high=5, rationale=SECRET)
    ident = card_id(Ref("testing", trace_id=name), "source_support")
    return sample_card(score, id=ident, record_id=name, review=reviews, **fields)


def waiting(store: Store | InMemory) -> list[str]:
    """The names of the cards that wait, in their order."""
    return [one.record_id for one in store.waiting()]


def downgrade(store: Store) -> None:
    """Make the tables those of version 1, as if a groundtrace of then had filled them."""
    with store._database.writing() as connection:
        for seq, body in connection.execute(text("SELECT seq, body FROM groundtrace_cards")).all():
            told = json.loads(body)
            for review in told["review"]:
                del review["weight"]
            old = {"seq": seq, "body": json.dumps(told, separators=(",", ":"))}
            connection.execute(text("UPDATE groundtrace_cards SET body = :body WHERE seq = :seq"), old)
        for line in (
            "DROP INDEX groundtrace_cards_waiting",
            "DROP INDEX groundtrace_replies_time",
            "DROP TABLE groundtrace_labels",
            "ALTER TABLE groundtrace_cards DROP COLUMN waits",
            "ALTER TABLE groundtrace_cards DROP COLUMN unit",
            "UPDATE groundtrace_meta SET value = '1' WHERE key = 'schema'",
        ):
            connection.execute(text(line))
        give_back(connection)


def test_the_queue_of_a_store_of_the_first_version_is_found(where: str) -> None:
    """More cards than are brought forward at once; one that is damaged is left to whoever reads it."""
    many = [card(f"{n:04}", *[LATER] * (n % 2), value=1 + n % 5) for n in range(1_200)]
    with open_store(where) as store:
        with store.batch():
            for one in [*many, card("urgent", NOW, value=5), card("bare", LATER, value=None), card("broken", NOW)]:
                store.keep_card(one)
        expected = ["urgent", *sorted((c.record_id for c in many if c.review), key=lambda name: int(name) % 5), "bare"]
        downgrade(store)
        with store._database.writing() as connection:
            broken = text("UPDATE groundtrace_cards SET body = 'torn' WHERE record_id = 'broken'")
            connection.execute(broken)
    with open_store(where) as store:
        assert waiting(store) == expected
        assert store.labels() == ()
        with store._database.reading() as connection:
            assert connection.execute(text("SELECT value FROM groundtrace_meta")).scalars().all() == [str(VERSION)]


def test_the_released_tables_of_the_first_version_take_what_is_new(tmp_path: Path) -> None:
    """A decision can be kept where the store was made by the version before."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as old:
        old.executescript(FIRST.read_text(encoding="utf-8"))
    old.close()
    with open_store(path) as store:
        (told,) = store.history(sample_card().id)
        assert told.content_hash == "198ce1f03a0cee3a88f6a7165965ac5e1c343735074c82e79b14bf6c471138fd"
        store.keep_card(card("new", LATER))
        store.keep_labels([Label(card_id=told.id, score="source_support", value=2)])
        assert waiting(store) == ["new"]
        assert len(store.labels("source_support")) == 1


def test_a_decision_outlives_the_process(where: str) -> None:
    """Card and labels are there, as they were."""
    flagged = card("one", NOW)
    made = Decision(card_id=flagged.id, state="accepted", who="Ada", when="2026-11-30", why="I read it")
    with open_store(where) as store:
        store.keep_card(flagged)
        store.keep_card(decide(flagged, made))
        store.keep_labels(labels(flagged, made))
    with open_store(where) as store:
        assert store.card(flagged.id) == decide(flagged, made)
        assert store.history(flagged.id)[0] == flagged
        assert store.labels() == labels(flagged, made)
        assert waiting(store) == []


def test_without_texts_a_decision_says_who_and_what_and_not_why(tmp_path: Path) -> None:
    """Why somebody decided may quote what must not be kept; who waits is found all the same."""
    flagged = card("one", NOW)
    correction = Label(card_id=flagged.id, score="source_support", value=3, why=SECRET)
    made = Decision(
        card_id=flagged.id, state="corrected", who="Ada", when="2026-11-30", why=SECRET, labels=(correction,)
    )
    with open_store(tmp_path / "store.db", keep_text=False) as store:
        store.keep_card(flagged)
        assert waiting(store) == ["one"]
        store.keep_card(decide(flagged, made))
        store.keep_labels(labels(flagged, made))
        found = store.card(flagged.id)
        assert found is not None
        assert found.content_hash == decide(flagged, made).content_hash
        assert found.scores[0].value == 3
        told = {"state": "corrected", "who": "Ada", "when": "2026-11-30", "why": "", "before": {"source_support": 2}}
        assert found.details["decision"] == {**told, "judge": "scripted", "judge_kind": "llm"}
        assert [(label.value, label.who, label.why) for label in store.labels()] == [(3, "Ada", "")]
        assert not any(SECRET.encode() in file.read_bytes() for file in tmp_path.iterdir())


def test_cards_are_found_by_the_start_of_their_id(where: str, opened: Callable[..., Store]) -> None:
    """And by nothing a database would read as more than letters."""
    store = opened(where)
    first, second = card("a"), card("b")
    for one in (first, first.model_copy(update={"version": "2"}), second):
        store.keep_card(one)
    assert store.card_ids(first.id) == store.card_ids(first.id[:8]) == (first.id,)
    assert set(store.card_ids("")) == {first.id, second.id}
    assert len(store.card_ids("", 1)) == 1
    for odd in ("%", "_", "'", "\0", "\ud800", first.id + "0"):
        assert store.card_ids(odd) == ()


def test_the_queue_reads_no_card_it_does_not_give(tmp_path: Path, opened: Callable[..., Store]) -> None:
    """Ten of two thousand are found in the indexes."""
    store = opened(tmp_path / "store.db")
    with store.batch():
        for n in range(2_000):
            store.keep_card(card(f"{n:04}", *[LATER] * (n % 100 == 0)))
    asked: list[str] = []
    event.listen(store._database._engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
    assert len(list(store.waiting(limit=10))) == 10
    (statement,) = asked
    with store._database.reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", ("", "now", 10, 0)).all()
    assert any("groundtrace_cards_waiting" in step[3] for step in plan), plan
    assert any("groundtrace_cards_newest" in step[3] for step in plan), plan


steps = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([(), (NOW,), (LATER,), (LATER, NOW), (Review(reason="audit", weight=100),)]),
        st.sampled_from([None, 1, 2, 5]),
        st.sampled_from(["full", "human"]),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_both_memories_agree_about_who_waits(told: list[tuple[str, tuple[Review, ...], float | None, str]]) -> None:
    """Whatever was kept, and kept again."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db") as store:
        here = InMemory()
        for name, reviews, value, by in told:
            for memory in (store, here):
                memory.keep_card(card(name, *reviews, value=value, decided_by=by))
            assert list(store.waiting()) == list(here.waiting())
            assert list(store.waiting("source_support", 1)) == list(here.waiting("source_support", 1))
