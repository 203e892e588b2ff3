"""The memory that outlives the run keeps the port's promises, on both databases, between processes and threads."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.errors import PlatformError
from groundtrace.memory import InMemory
from groundtrace.model import Intent, Receipt, Reply, Usage
from groundtrace.store import Store, open_store
from groundtrace.store.tables import plain, said
from groundtrace.testing import MemoryContract, sample_card, sample_record
from nursery import Nursery, lines

if TYPE_CHECKING:
    from groundtrace.model import Scorecard
    from groundtrace.ports import Memory


class TestStore(MemoryContract):
    """The contract every memory is held to."""

    @pytest.fixture(autouse=True)
    def _where(self, where: str, opened: Callable[..., Store]) -> None:
        self._make = lambda: opened(where)

    def make(self) -> Memory:
        return self._make()


class TestAnotherProcessOpensIt(MemoryContract):
    """The contract holds too where every call comes from a store opened anew."""

    @pytest.fixture(autouse=True)
    def _where(self, tmp_path: Path) -> None:
        self._path = tmp_path / "store.db"

    def make(self) -> Memory:
        return _Reopened(self._path)  # type: ignore[return-value]


class _Reopened:
    """A store that is closed and opened again between any two calls; a batch is one call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store = open_store(path)

    def __getattr__(self, name: str) -> object:
        if self._store._database._batch.depth == 0:
            self._store.close()
            self._store = open_store(self._path)
        return getattr(self._store, name)


def test_what_was_told_is_there_after_closing(where: str) -> None:
    """Everything, as it was."""
    reply = Reply("text", "model-1", 2, Usage(1, 2, 3), 0.25, 1.5, cached=True, flags=("odd",), temperature=0.0)
    intent = Intent(sink="s", card_id="c", score="x", feedback_id="f", content_hash="h")
    failed = Receipt(**intent.model_dump(), state="failed", reason="refused")
    with open_store(where) as store:
        store.start_run("run-1", "{}")
        store.keep_record(sample_record())
        store.keep_reply("judge", "digest", reply, (), card_id=sample_card().id, slot="c1>p1")
        store.keep_card(sample_card())
        store.intend(intent)
        store.keep_receipt(failed)
        store.move_cursor("source", "42")
    with open_store(where) as store:
        assert store.reply("judge", "digest") == reply
        assert store.card(sample_card().id) == sample_card()
        assert store.record(sample_card()) == sample_record()
        assert list(store.outbox()) == [intent]
        assert store.cursor("source") == "42"
        last = store.last_run()
        assert last is not None
        assert last.state == "running"


def test_a_confirmed_write_is_not_forgotten_for_a_later_failure(where: str, opened: Callable[..., Store]) -> None:
    """What stands on the platform stands, whatever a second attempt met."""
    store = opened(where)
    intent = Intent(sink="s", card_id="c", score="x", feedback_id="f", content_hash="h")
    store.intend(intent)
    written = Receipt(**intent.model_dump(), state="written")
    store.keep_receipt(written)
    store.keep_receipt(written.model_copy(update={"state": "failed"}))
    assert store.intend(intent) == written
    assert list(store.outbox()) == []


def test_an_intent_makes_durable_what_was_told_before_it(where: str, opened: Callable[..., Store]) -> None:
    """A write leaves only when the card it comes from is safe; another process sees both."""
    store, other = opened(where), opened(where)
    with store.batch():
        store.keep_card(sample_card())
        assert other.card(sample_card().id) is None
        store.intend(Intent(sink="s", card_id="c", score="x", feedback_id="f", content_hash="h"))
        assert other.card(sample_card().id) == sample_card()
        assert len(list(other.outbox())) == 1
        store.move_cursor("source", "42")
        assert other.cursor("source") is None
    assert other.cursor("source") == "42"


def test_nothing_is_half_kept_where_a_write_breaks_a_batch(tmp_path: Path, opened: Callable[..., Store]) -> None:
    """A batch that broke says so at its end too, even where the first word was not heard."""
    store = opened(tmp_path / "store.db")
    heard: list[str] = []
    with pytest.raises(PlatformError), store.batch():  # noqa: PT012 - that it goes on in the batch is the subject
        store.move_cursor("source", "42")
        for word in (b"no text", "a text"):
            try:
                store.keep_reply("judge", "digest", Reply(word, "judge"), ())  # type: ignore[arg-type]
            except PlatformError as error:
                heard.append(str(error))
    assert len(heard) == 2
    assert store.reply("judge", "digest") is None
    assert store.cursor("source") is None
    store.move_cursor("source", "44")
    assert store.cursor("source") == "44"


def test_threads_share_a_store(where: str, opened: Callable[..., Store]) -> None:
    """Nothing is lost, nothing mixed, batches or not."""
    store = opened(where)

    def work(thread: int) -> bool:
        for n in range(40):
            with store.batch():
                store.keep_reply("judge", f"{thread}-{n}", Reply(f"{thread}-{n}", "judge"), ())
                store.keep_card(sample_card(id=_id(thread * 100 + n)))
            reply = store.reply("judge", f"{thread}-{n}")
            assert reply is not None
            assert reply.text == f"{thread}-{n}"
        return True

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(6))) == [True] * 6
    assert all(store.card(_id(thread * 100 + n)) for thread in range(6) for n in range(40))


def test_threads_that_live_for_a_moment_leave_no_connection_behind(where: str, opened: Callable[..., Store]) -> None:
    """A judge may have a thread of its own for every few cards."""
    store = opened(where)
    store.keep_card(sample_card())
    found: list[Scorecard | None] = []
    for _ in range(100):
        thread = threading.Thread(target=lambda: found.append(store.card(sample_card().id)))
        thread.start()
        thread.join()
    assert found == [sample_card()] * 100
    assert len(store._database._readers) <= 1


def test_a_store_may_be_let_go_of_while_others_use_it(where: str, opened: Callable[..., Store]) -> None:
    """What is under way ends well, and what comes after begins anew."""
    store = opened(where)
    store.keep_card(sample_card())
    over = threading.Event()

    def read() -> bool:
        while not over.is_set():
            assert store.card(sample_card().id) == sample_card()
        return True

    def write() -> bool:
        while not over.is_set():
            store.move_cursor("source", "here")
        return True

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(read), pool.submit(read), pool.submit(write)]
        for _ in range(30):
            store.close()
        over.set()
        assert [one.result() for one in working] == [True] * 3


def test_a_forked_process_finds_its_own_way(where: str, opened: Callable[..., Store]) -> None:
    """It uses no connection of its parent, and what it tells is there."""
    store = opened(where)
    store.move_cursor("source", "parent")
    child = os.fork()
    if not child:
        seen = store.cursor("source")
        store.move_cursor("source", f"child of {seen}")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert store.cursor("source") == "child of parent"


def test_a_store_is_opened_by_many_at_once(where: str, nursery: Nursery, tmp_path: Path) -> None:
    """Its tables are made once."""
    logs = [tmp_path / f"log-{n}" for n in range(8)]
    for log in logs:
        nursery.start("tell", where, log, name=log.name)
    for log in logs:
        lines(log, until="done")
    with open_store(where) as store:
        assert [store.cursor(log.name) for log in logs] == ["here"] * 8


def test_a_url_with_a_secret_in_it_is_never_stored(where: str, opened: Callable[..., Store]) -> None:
    """Plans may name databases."""
    store = opened(where)
    store.start_run("run", json.dumps({"store": "postgresql://me:hunter2@db/x", "judge": "offline"}))
    store.end_run("run", "finished", json.dumps({"failed": ["could not reach https://me:hunter2@host/"]}))
    run = store.last_run()
    assert run is not None
    assert "hunter2" not in run.plan + run.report
    assert json.loads(run.plan) == {"store": "postgresql://me:***@db/x", "judge": "offline"}


@given(st.text())
def test_any_text_is_made_fit_for_a_database_and_back(text: str) -> None:
    """Also what no encoding takes."""
    assert said(plain(text)) == text
    assert "\0" not in plain(text)
    plain(text).encode()


_PLACES = st.sampled_from(["f1", "f2"])
_CONTENTS = st.sampled_from(["a", "b", "c"])
_STATES = st.sampled_from(["written", "unchanged", "kept", "failed", "unconfirmed"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_PLACES, _CONTENTS, st.none() | _STATES), max_size=14))
def test_both_memories_answer_alike_about_writes(steps: list[tuple[str, str, str | None]]) -> None:
    """Whatever is noted and confirmed, in whatever order."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db") as store:
        memory = InMemory()
        for place, content, state in steps:
            intent = Intent(sink="s", card_id="c", score="x", feedback_id=place, content_hash=content)
            if state is None:
                assert store.intend(intent) == memory.intend(intent)
            else:
                receipt = Receipt(**intent.model_dump(), state=state)  # type: ignore[arg-type]
                store.keep_receipt(receipt)
                memory.keep_receipt(receipt)
            assert {i.model_dump_json() for i in store.outbox()} == {i.model_dump_json() for i in memory.outbox()}


_BATCHES = st.lists(st.tuples(st.booleans(), st.lists(st.tuples(_PLACES, _CONTENTS, _STATES), max_size=5)), max_size=8)


@settings(max_examples=80, deadline=None)
@given(_BATCHES)
def test_many_writes_at_once_are_as_one_after_the_other(batches: list[tuple[bool, list[tuple[str, str, str]]]]) -> None:
    """The same place may come twice in a batch."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db") as store:
        memory = InMemory()
        for noting, steps in batches:
            intents = [
                Intent(sink="s", card_id="c", score="x", feedback_id=place, content_hash=content)
                for place, content, _ in steps
            ]
            told = [Receipt(**i.model_dump(), state=s) for i, (_, _, s) in zip(intents, steps, strict=True)]  # type: ignore[arg-type]
            if noting:
                assert store.intend_all(intents) == [memory.intend(intent) for intent in intents]
            else:
                store.keep_receipts(told)
                for receipt in told:
                    memory.keep_receipt(receipt)
            assert [i.model_dump_json() for i in store.outbox() if i.feedback_id == "f1"] == [
                i.model_dump_json() for i in memory.outbox() if i.feedback_id == "f1"
            ]


def _id(number: int) -> str:
    return f"00000000-0000-5000-8000-{number:012d}"


def test_two_writers_of_one_card_lose_nothing_of_each_others(where: str, opened: Callable[..., Store]) -> None:
    """Each notes and confirms a score of its own, of cards nobody has written before, at the same moment."""
    stores = {"a": opened(where), "b": opened(where)}
    together = threading.Barrier(2)

    def write(score: str) -> None:
        for card in map(str, range(20)):
            intent = Intent(sink="k", card_id=card, score=score, feedback_id=f"{card}-{score}", content_hash="h")
            together.wait(60)
            assert stores[score].intend(intent) is None
            together.wait(60)
            stores[score].keep_receipts([Receipt(**vars(intent), state="written", reason=None)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, stores))
    assert not list(stores["a"].outbox())
    for card in map(str, range(20)):
        for score in stores:
            intent = Intent(sink="k", card_id=card, score=score, feedback_id=f"{card}-{score}", content_hash="h")
            assert stores["b"].intend(intent) is not None
