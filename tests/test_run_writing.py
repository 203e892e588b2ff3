"""Cards on their way out, a batch at a time: what is kept, counted and written where a batch can't be whole."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from groundtrace.model import Receipt, Ref, Scorecard, card_id
from groundtrace.run.writing import BATCH, Door, Writing
from groundtrace.store import Store, open_store
from groundtrace.testing import sample_card


class Upserting:
    """A sink that replaces by id and is not read back; it counts what it was given."""

    name = "upserting"
    updates: Literal["upsert", "append"] = "upsert"

    def __init__(self) -> None:
        self.given: list[str] = []

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        for card in cards:
            self.given.append(card.record_id)
            for score in card.scores:
                yield Receipt(
                    card_id=card.id,
                    score=score.name,
                    state="written",
                    feedback_id=card.feedback_id(score.name),
                    content_hash=card.content_hash,
                )


def numbered(number: int, **more: object) -> Scorecard:
    """A card of its own trace; a detail that no JSON can say makes it one that can't be kept."""
    ref = Ref("testing", trace_id=f"{number + 1:032x}", span_id=f"{number + 1:016x}")
    ident = card_id(ref, "source_support")
    return sample_card(
        ref=ref, targets={"root": ref}, id=ident, record_id=str(number), basis=f"{number:016x}-b", **more
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store of this test's own."""
    with open_store(tmp_path / "store.db") as opened:
        yield opened


def kept(store: Store, count: int) -> int:
    """How many of the first numbered cards a store holds."""
    return sum(store.card(numbered(n).id) is not None for n in range(count))


def test_cards_of_which_nothing_is_sent_are_kept_all_the_same(store: Store) -> None:
    """They wait for no card that is sent."""
    writing = Writing([Door("up", Upserting())], store, None, "llm", headline_only=True)
    for n in range(5 * BATCH):
        writing.take(numbered(n, partial=True))
    assert kept(store, 5 * BATCH) == 5 * BATCH
    assert writing.report.receipts == {"up": {"partial and not sent": 5 * BATCH}}


def test_a_card_that_can_not_be_kept_takes_no_other_down(store: Store) -> None:
    """What came before it is kept, written and counted; what is counted is what was kept."""
    sink = Upserting()
    writing = Writing([Door("up", sink)], store, None, "llm")
    for n in range(3):
        writing.take(numbered(n))
    writing.take(numbered(3, details={"n": object()}))
    with pytest.raises(ValueError, match="serialize"):
        writing.flush()
    assert (sink.given, kept(store, 4)) == (["0", "1", "2"], 3)
    assert writing.report.cards == {"source_support": {"scored": 3}}
    assert writing.report.receipts == {"up": {"written": 6}}


def test_cards_that_are_only_written_again_do_not_suffer_from_one_that_can_not_be_kept(store: Store) -> None:
    """They were kept before."""
    for n in range(3):
        store.keep_card(numbered(n))
    sink = Upserting()
    writing = Writing([Door("up", sink)], store, None, "llm")
    for n in range(3):
        writing.take(numbered(n))
    writing.take(numbered(9, details={"n": object()}))
    with pytest.raises(ValueError, match="serialize"):
        writing.flush()
    assert sink.given == ["0", "1", "2"]


def test_a_place_that_is_named_twice_is_written_to_once(store: Store) -> None:
    """The second time everything stands there."""
    sink = Upserting()
    writing = Writing([Door("up", sink), Door("up", sink)], store, None, "llm")
    for n in range(4):
        writing.take(numbered(n))
    writing.flush()
    assert sink.given == ["0", "1", "2", "3"]
    assert writing.report.receipts == {"up": {"unchanged": 8, "written": 8}}


def test_a_card_that_comes_again_in_the_same_batch_is_one(store: Store) -> None:
    """What is known of the first decides on the second."""
    sink = Upserting()
    writing = Writing([Door("up", sink)], store, None, "llm")
    writing.take(numbered(0))
    writing.take(numbered(0))
    writing.flush()
    assert sink.given == ["0"]
    assert len(store.history(numbered(0).id)) == 1


class Measuring(Upserting):
    """A sink that notes how many cards it was given at once."""

    name = "measuring"

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        given = list(cards)
        self.sizes.append(len(given))
        return super().write(given)


class Rarely(Measuring):
    """A sink whose platform may be asked but rarely."""

    name = "rarely"
    batch = 2 * BATCH


def test_cards_that_come_quickly_are_written_many_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first few at once, for the sink may take none; then as many as come in a moment, up to a bound."""
    monkeypatch.setattr(time, "monotonic", lambda: 10.0)
    sink = Measuring()
    writing = Writing([Door("up", sink)], store, None, "llm", rests=True)
    for n in range(10 * BATCH):
        writing.take(numbered(n))
    assert sink.sizes == [BATCH, *[2 * BATCH] * 4]
    writing.rest()
    writing.rest()
    assert sink.sizes == [BATCH, *[2 * BATCH] * 4, BATCH]


def test_where_nobody_says_that_no_more_come_only_a_few_wait(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However quickly they come: the next may take a day."""
    monkeypatch.setattr(time, "monotonic", lambda: 10.0)
    sink = Measuring()
    writing = Writing([Door("up", sink)], store, None, "llm")
    for n in range(3 * BATCH):
        writing.take(numbered(n))
    assert sink.sizes == [BATCH, BATCH, BATCH]


def test_cards_that_come_slowly_are_written_as_soon_as_there_are_a_few(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not wait for the many that may never come."""
    clock = itertools.count(1.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    sink = Measuring()
    writing = Writing([Door("up", sink)], store, None, "llm", rests=True)
    for n in range(3 * BATCH):
        writing.take(numbered(n))
    assert sink.sizes == [BATCH, BATCH, BATCH]


def test_a_sink_may_have_more_cards_at_once(store: Store) -> None:
    """Then so does every other it stands beside, and what is left goes in the end."""
    sink, other = Rarely(), Upserting()
    writing = Writing([Door("up", other), Door("rarely", sink)], store, None, "llm")
    for n in range(5 * BATCH):
        writing.take(numbered(n))
    assert len(other.given) == 4 * BATCH
    writing.flush()
    assert sink.sizes == [2 * BATCH, 2 * BATCH, BATCH]
    assert len(other.given) == 5 * BATCH


@pytest.mark.parametrize("other", [lambda: None, "many", None, True])
def test_a_sinks_own_word_of_that_name_is_no_number_of_cards(store: Store, other: object) -> None:
    """A plugin may have had it before it meant anything."""
    sink = Upserting()
    sink.batch = other  # type: ignore[attr-defined]
    assert Writing([Door("up", sink)], store, None, "llm").batch == BATCH
