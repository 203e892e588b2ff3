"""Cards a person must see come into an annotation queue, and what the person says comes back."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.adapters.langsmith.review import labels, queue_id
from groundtrace.cli.answers import take
from groundtrace.model import Review, Score, Scorecard
from groundtrace.store import open_store
from pushing import PROJECT, Stand, standing, states
from standins.langsmith import TENANT

SOON = Review(reason="major_claim")
NOW = Review(reason="critical_claim", priority="now")


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in."""
    with standing(monkeypatch) as made:
        yield made


def _waiting(stand: Stand, n: int, value: float, review: Review = SOON, **told: Any) -> Scorecard:
    scores = (
        Score(name="rag_faithfulness", value=value, low=1, high=5, label="major", rationale="one claim is not backed"),
        Score(name="rag_faithfulness.claim_support", value=value, low=1, high=5),
    )
    return stand.card(n, *scores, rubric="rag_faithfulness", review=(review,), **told)


def _said(stand: Stand, n: int, key: str, score: float | None, **told: Any) -> None:
    """What a person answers in the app."""
    made = {"id": str(uuid.uuid4()), "run_id": str(uuid.UUID(int=n)), "key": f"groundtrace.{key}", "score": score}
    source = {"type": "app", "user_id": "u1", "user_name": told.pop("who", "Ada")}
    stand.store.upsert_feedback({**made, "feedback_source": source, **told})


def test_cards_that_wait_come_into_their_rubrics_queue_once(stand: Stand) -> None:
    """The most urgent first, the lowest of the others next; with the scores as its questions."""
    cards = [_waiting(stand, 1, 3), _waiting(stand, 2, 2), _waiting(stand, 3, 4, NOW), stand.card(4)]
    for _ in range(2):
        sink = stand.sink(queue=True)
        assert set(states(list(sink.write(cards)))) <= {"written", "unchanged"}
        assert not sink.notes()
    (queue,) = stand.store.queues.values()
    assert queue["id"] == queue_id(TENANT, "rag_faithfulness")
    assert queue["name"] == "groundtrace: rag_faithfulness"
    asked = {item["feedback_key"]: item for item in queue["rubric_items"]}
    assert "groundtrace.rag_faithfulness.claim_support" in asked
    assert [key for key, item in asked.items() if item["is_required"]] == ["groundtrace.rag_faithfulness"]
    items = list(stand.store.items.values())
    assert [item["run_id"] for item in items] == [str(uuid.UUID(int=n)) for n in (3, 2, 1)]
    assert {item["project_id"] for item in items} == {stand.project}
    posts = stand.asked("POST", "/items")
    assert [post["query"]["extend_trace_retention"] for post in posts] == [["false"]]
    priorities = {row["feedback_source"]["metadata"].get("priority") for row in stand.store.feedback.values()}
    assert priorities == {"now", "queue", None}


@pytest.mark.parametrize(("gone", "route"), [("/platform/", "/runs/by-key"), ("/platform/|by-key", "/runs")])
def test_older_servers_have_older_routes(stand: Stand, gone: str, route: str) -> None:
    """Of which one is there is found out; no run is added twice."""
    for method in ("GET", "POST"):
        stand.store.faults.append({"method": method, "path": gone, "status": 404, "times": 99})
    for _ in range(2):
        list(stand.sink(queue=True).write([_waiting(stand, 1, 3)]))
    assert len(stand.store.items) == 1
    added = [row for row in stand.asked("POST", "/annotation-queues/") if row["status"] == 200]
    assert [row["path"].endswith(route) for row in added] == [True]


def test_a_queue_that_is_refused_takes_no_score_back(stand: Stand) -> None:
    """It is said."""
    stand.store.faults.append({"method": "POST", "path": "/annotation-queues", "status": 403, "times": 9})
    sink = stand.sink(queue=True)
    assert states(list(sink.write([_waiting(stand, 1, 3)]))) == {"written": 2}
    assert sink.notes()[0].startswith("cards a person must see are not in the annotation queue")


def test_answers_and_corrections_are_labels(stand: Stand) -> None:
    """Of the card they are about; what cannot be told apart is left."""
    one, two = _waiting(stand, 1, 3), _waiting(stand, 2, 2)
    list(stand.sink().write([one, two]))
    _said(stand, 1, "rag_faithfulness", 2, comment="it invents a date")
    _said(stand, 1, "rag_faithfulness.claim_support", None, value="not_applicable")
    _said(stand, 9, "rag_faithfulness", 1)  # a run we never scored
    row = stand.store.feedback[two.feedback_id("rag_faithfulness")]
    row["correction"] = {"score": 5}
    told = {(label.card_id, label.score): label for label in labels(stand.api(), stand.api().project(PROJECT))}
    assert told.keys() == {
        (one.id, "rag_faithfulness"),
        (one.id, "rag_faithfulness.claim_support"),
        (two.id, "rag_faithfulness"),
    }
    answer = told[one.id, "rag_faithfulness"]
    assert (answer.value, answer.who, answer.why) == (2, "Ada", "it invents a date")
    assert told[one.id, "rag_faithfulness.claim_support"].label == "not_applicable"
    assert told[two.id, "rag_faithfulness"].value == 5


def test_only_what_is_new_is_given(stand: Stand) -> None:
    """Since a time, by when it was said or changed."""
    list(stand.sink().write([_waiting(stand, 1, 3)]))
    _said(stand, 1, "rag_faithfulness", 2)
    later = int(dt.datetime.now(dt.UTC).timestamp() * 1e9) + 10**9
    assert not list(labels(stand.api(), stand.api().project(PROJECT), later))
    assert len(list(labels(stand.api(), stand.api().project(PROJECT), later - 3600 * 10**9))) == 1


@pytest.mark.parametrize("days", [15, 390])
def test_what_is_said_of_an_old_score_comes_back(stand: Stand, days: int) -> None:
    """A correction of ours, and an answer that was changed: it counts when that was, not when the row was made."""
    card = _waiting(stand, 1, 3)
    list(stand.sink().write([card]))
    _said(stand, 1, "rag_faithfulness.claim_support", 2)
    now = dt.datetime.now(dt.UTC)
    for row in stand.store.feedback.values():
        row |= {"created_at": (now - dt.timedelta(days=days)).isoformat(), "modified_at": now.isoformat()}
    stand.store.feedback[card.feedback_id("rag_faithfulness")]["correction"] = {"score": 1}
    since = int((now - dt.timedelta(hours=1)).timestamp() * 1e9)
    said = labels(stand.api(), stand.api().project(PROJECT), since)
    assert sorted((label.score, label.value) for label in said) == [
        ("rag_faithfulness", 1),
        ("rag_faithfulness.claim_support", 2),
    ]


def test_what_people_said_decides_the_cards_of_the_store(
    stand: Stand, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Corrected, accepted, or left with the reason; once, and the next write puts it on LangSmith."""
    one, two, three = (_waiting(stand, n, 3) for n in (1, 2, 3))
    where = str(tmp_path / "s.db")
    with open_store(where) as store:
        for card in (one, two):
            store.keep_card(card)
    list(stand.sink().write([one, two, three]))
    _said(stand, 1, "rag_faithfulness", 2, comment="it invents a date")
    _said(stand, 2, "rag_faithfulness", 3)
    _said(stand, 2, "rag_faithfulness.claim_support", 3)
    _said(stand, 3, "rag_faithfulness", 1)
    take(where, f"langsmith:{PROJECT},url={stand.url}")
    told = capsys.readouterr().err
    assert "corrected by Ada: rag_faithfulness 2 of 5" in told
    assert "accepted by Ada" in told
    assert f"left: what Ada said of card {three.id}, which is not in this store" in told
    assert "2 decisions taken" in told
    with open_store(where) as store:
        decided = [card for card in map(store.card, (one.id, two.id)) if card is not None]
        said = sorted((label.score, label.value, label.who) for label in store.labels())
    assert said == [
        ("rag_faithfulness", 2, "Ada"),
        ("rag_faithfulness", 3, "Ada"),
        ("rag_faithfulness.claim_support", 3, "Ada"),
    ]
    assert [card.decided_by for card in decided] == ["human", "human"]
    assert [card.headline.value for card in decided if card.headline] == [2, 3]
    assert states(list(stand.sink().write(decided))) == {"written": 4}
    assert states(list(stand.sink().write([one]))) == {"kept": 2}
    take(where, f"langsmith:{PROJECT},url={stand.url}")
    assert "0 decisions taken" in capsys.readouterr().err
