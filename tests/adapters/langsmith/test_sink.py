"""Scores come onto LangSmith's runs once, whole, and with nobody else's touched."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from langsmith.utils import get_env_var

from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.sink import LangSmithSink
from groundtrace.adapters.langsmith.source import LangSmithSource
from groundtrace.errors import PlatformError
from groundtrace.model import Ref, Score, Window
from groundtrace.ports import Sink
from groundtrace.testing import HOSTILE_TEXTS, SinkContract, sample_card
from pushing import PROJECT, Stand, about, standing, states


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in that refuses feedback on runs it has not."""
    with standing(monkeypatch, strict=True) as made:
        yield made


class TestContract(SinkContract):
    """What `run` relies on."""

    @pytest.fixture(autouse=True)
    def _stands(self, stand: Stand) -> None:
        self.stand = stand
        stand.run(1)

    def make(self) -> Sink:
        return self.stand.sink()

    def stored(self) -> Mapping[str, float | None]:
        return self.stand.scores()


# --- what is written --------------------------------------------------------------------------------------------------


def test_feedback_says_what_it_is_of_and_who_says_so(stand: Stand) -> None:
    """Everything LangSmith needs to keep it, and everything a person needs to trust it."""
    card = stand.card(7, slices={"environment": "prod"}, prompt_hash="abc", confidence=0.9)
    assert states(list(stand.sink().write([card]))) == {"written": 2}
    headline = stand.store.feedback[card.feedback_id("source_support")]
    ident = str(uuid.UUID(int=7))
    assert (headline["run_id"], headline["trace_id"], headline["session_id"]) == (ident, ident, stand.project)
    assert headline["start_time"] == "2026-11-01T08:00:07+00:00"
    assert (headline["key"], headline["score"], headline["value"]) == (
        "groundtrace.source_support",
        4,
        "Strongly Implies",
    )
    assert headline["comment"].startswith("It follows.\n")
    assert headline["feedback_config"] == {"type": "continuous", "min": 1, "max": 5}
    assert headline["extend_trace_retention"] is False
    source = headline["feedback_source"]
    assert source["type"] == "model"
    wanted = {"rubric": "source_support", "version": "1", "prompt_hash": "abc", "judge": "scripted"}
    wanted |= {"slice.environment": "prod", "card_id": card.id, "content_hash": card.content_hash, "confidence": 0.9}
    assert wanted.items() <= source["metadata"].items()
    empty = stand.store.feedback[card.feedback_id("source_support.citation_precision")]
    assert (empty["score"], empty["value"], empty["error"]) == (None, "not_applicable", False)
    assert stand.store.fconfigs["groundtrace.source_support"]["feedback_config"]["max"] == 5


def test_what_could_not_be_scored_is_an_error_with_its_reason(stand: Stand) -> None:
    """Charts count it, and nothing takes it for a zero."""
    bare = stand.card(1, status="unscored", reason="context_off").model_copy(update={"scores": ()})
    assert states(list(stand.sink().write([bare]))) == {"written": 1}
    (row,) = stand.store.feedback.values()
    assert (row["score"], row["error"]) == (None, True)
    assert row["comment"].startswith("context_off")
    assert "feedback_config" not in row


def test_a_held_card_shows_nothing_its_score_could_be_guessed_from(stand: Stand) -> None:
    """A flag, and no number anywhere."""
    held = stand.card(1, status="pending_review", confidence=0.1, root_cause="generation")
    list(stand.sink().write([held]))
    (row,) = stand.store.feedback.values()
    assert (row["score"], row["value"]) == (None, "needs_review")
    assert not {"confidence", "root_cause"} & row["feedback_source"]["metadata"].keys()


def test_a_long_rationale_is_cut_and_says_so(stand: Stand) -> None:
    """No body is without bounds."""
    score = Score(name="source_support", value=2, low=1, high=5, rationale="because " * 5000)
    list(stand.sink().write([stand.card(1, score)]))
    (row,) = stand.store.feedback.values()
    assert len(row["comment"].encode()) <= 10_000
    assert "(cut: 40000 characters in all)" in row["comment"]


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_texts_arrive_and_change_nothing_the_second_time(stand: Stand, text: str) -> None:
    """Half characters, controls and marks of our own in a rationale."""
    score = Score(
        name="source_support", value=2.123456, low=1, high=5, rationale=text + "\n[groundtrace 0 scored llm: x]"
    )
    card = stand.card(1, score)
    assert states(list(stand.sink().write([card]))) == {"written": 1}
    assert states(list(stand.sink().write([card]))) == {"unchanged": 1}
    (row,) = stand.store.feedback.values()
    assert row["score"] == 2.1235
    assert "\x00" not in row["comment"]


def test_a_judges_own_trace_is_linked(stand: Stand) -> None:
    """From a score to how it came about, where a plugin's rubric names it."""
    run = str(uuid.uuid4())
    list(stand.sink().write([stand.card(1, details={"judge_run_id": run})]))
    row = next(iter(stand.store.feedback.values()))
    assert row["feedback_source"]["metadata"]["__run"] == {"run_id": run}


def test_feedback_goes_on_the_run_that_was_asked_for(stand: Stand) -> None:
    """Its own start is looked up, once for all cards: that of a trace is the root's."""
    card = stand.card(1)
    child = stand.run(99, trace_id=str(uuid.UUID(int=1)), parent_run_id=str(uuid.UUID(int=1)), run_type="retriever")
    at = Ref("langsmith", stand.project, card.ref.trace_id, child, card.ref.keys)
    card = card.model_copy(update={"targets": {**card.targets, "retrieval": at}})
    list(stand.sink(target="retrieval").write([card, stand.card(2)]))
    rows = list(stand.store.feedback.values())
    assert {row["run_id"] for row in rows} == {child, str(uuid.UUID(int=2))}
    assert next(row for row in rows if row["run_id"] == child)["start_time"] == "2026-11-01T08:01:39+00:00"
    assert len(stand.asked("POST", "/runs/query")) == 1


@pytest.mark.parametrize("flags", [{}, {"sdb_query_enabled": False}])
def test_runs_whose_start_is_not_known_are_looked_up_at_once(stand: Stand, flags: dict[str, bool]) -> None:
    """By either query API; a project may be named by its name."""
    stand.store.flags |= flags
    for n in range(1, 31):
        stand.run(n)
    cards = [about(n, project=PROJECT, keys=False) for n in range(1, 31)]
    assert states(list(stand.sink().write(cards))) == {"written": 60}
    assert len(stand.asked("POST", "/runs/query")) == 1
    starts = {row["run_id"]: row["start_time"] for row in stand.store.feedback.values()}
    assert starts[str(uuid.UUID(int=30))] == "2026-11-01T08:00:30+00:00"


def test_traces_of_opentelemetry_are_found_on_langsmith(stand: Stand) -> None:
    """Their spans were given ids LangSmith makes of them."""
    stand.run(0x00F067AA0BA902B7)
    ref = Ref("otel", trace_id="0" * 16 + "00f067aa0ba902b7", span_id="00f067aa0ba902b7")
    card = sample_card().model_copy(update={"ref": ref, "targets": {"root": ref}})
    assert states(list(stand.sink().write([card]))) == {"written": 2}
    (run,) = {row["run_id"] for row in stand.store.feedback.values()}
    assert run == "00000000-0000-0000-00f0-67aa0ba902b7"


def test_what_is_no_run_fails_alone(stand: Stand) -> None:
    """With the reason, beside one that is written."""
    odd = Ref("jsonl", trace_id="line 4")
    receipts = list(stand.sink().write([sample_card().model_copy(update={"ref": odd, "targets": {}}), stand.card(2)]))
    assert states(receipts) == {"failed": 2, "written": 2}
    assert next(r for r in receipts if r.state == "failed").reason == "'line 4' is no trace of LangSmith's"


def test_a_card_of_no_project_fails_alone(stand: Stand) -> None:
    """Of none, where the sink has none either, or of one that is not there."""
    sink = LangSmithSink(api=stand.api())
    stand.run(1)
    receipts = list(sink.write([about(1), about(2, project="nope"), stand.card(3)]))
    assert states(receipts) == {"failed": 4, "written": 2}
    assert "write --to langsmith:PROJECT" in str(receipts[0].reason)
    assert "'nope' is no project" in str(receipts[2].reason)


def test_runs_that_are_gone_are_not_waited_for_at_every_batch(stand: Stand) -> None:
    """Others being there says nothing about them."""
    sink = stand.sink()
    list(sink.write([about(1, project=stand.project), stand.card(2)]))
    stand.slept.clear()
    receipts = list(sink.write([about(3, project=stand.project), stand.card(4)]))
    assert states(receipts) == {"unconfirmed": 2, "written": 2}
    assert sum(stand.slept) < 5


def test_a_project_that_is_not_there_is_named(stand: Stand) -> None:
    """With the first card that needs it; making the sink asks nobody."""
    sink = LangSmithSink("nope", api=stand.api())
    assert not stand.store.log
    receipts = list(sink.write([about(1)]))
    assert states(receipts) == {"failed": 2}
    assert "'nope' is no project" in str(receipts[0].reason)


# --- writing again ----------------------------------------------------------------------------------------------------


def test_a_second_run_leaves_exactly_the_same_feedback(stand: Stand) -> None:
    """Not a write, and one look for all of them."""
    cards = [stand.card(n) for n in range(1, 41)]
    list(stand.sink().write(cards))
    before = {key: dict(row) for key, row in stand.store.feedback.items()}
    stand.store.log.clear()
    assert states(list(stand.sink().write(cards))) == {"unchanged": 80}
    assert stand.store.feedback == before
    assert not stand.asked("POST")
    assert not stand.asked("PATCH")
    assert len(stand.asked("GET", "/feedback")) == 1


def test_a_changed_rubric_version_updates_in_place(stand: Stand) -> None:
    """The same row, on the same run, at the same place."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    before = stand.feedback()
    newer = card.scores[0].model_copy(update={"value": 2.0, "label": "Weakly Related"})
    changed = card.model_copy(update={"version": "2", "scores": (newer, *card.scores[1:])})
    assert states(list(stand.sink().write([changed]))) == {"written": 2}
    after = stand.feedback()
    assert after.keys() == before.keys()
    row = after[card.feedback_id("source_support")]
    assert (row["score"], row["value"], row["feedback_source"]["metadata"]["version"]) == (2, "Weakly Related", "2")
    for key, told in after.items():
        assert [told[name] for name in _FIXED] == [before[key][name] for name in _FIXED]
    assert states(list(stand.sink().write([changed]))) == {"unchanged": 2}


_FIXED = ("run_id", "trace_id", "session_id", "start_time", "key", "created_at")


def test_a_server_that_changes_only_what_it_documents_is_not_written_to_forever(stand: Stand) -> None:
    """The comment says which version a row is of, where the metadata can't be changed."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    changed = card.model_copy(update={"version": "2"})
    odd = {"when": lambda body: "feedback_source" in body, "status": 422, "times": 99}
    stand.store.faults.append({"method": "PATCH", "path": "/feedback/", **odd})
    sink = stand.sink(concurrency=1)
    assert states(list(sink.write([changed]))) == {"written": 2}
    assert len(stand.asked("PATCH")) == 3  # it was tried once
    row = stand.store.feedback[card.feedback_id("source_support")]
    assert row["feedback_source"]["metadata"]["version"] == "1"
    assert "source_support 2 by scripted]" in row["comment"]
    assert states(list(stand.sink().write([changed]))) == {"unchanged": 2}


def test_a_score_the_newest_card_lacks_is_withdrawn(stand: Stand) -> None:
    """The number goes, the row stays and says why."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    held = card.model_copy(update={"status": "pending_review"})
    receipts = list(stand.sink().write([held]))
    assert {receipt.state for receipt in receipts} == {"written"}
    assert not [score for score in stand.scores().values() if score is not None]
    values = {row["value"] for row in stand.store.feedback.values()}
    assert values == {"needs_review", "withdrawn"}
    assert states(list(stand.sink().write([held]))) == {"unchanged": 2}


def test_a_persons_word_is_kept(stand: Stand) -> None:
    """A decision, a correction, an edited number: none is written over; feedback of the app is not even looked at."""
    decided = stand.card(1, decided_by="human", judge_kind="human", judge="Ada")
    plain, edited = stand.card(2), stand.card(3)
    stand.store.upsert_feedback(
        {"id": str(uuid.uuid4()), "run_id": str(uuid.UUID(int=2)), "key": "groundtrace.source_support", "score": 1,
         "feedback_source": {"type": "app"}}
    )  # fmt: skip
    list(stand.sink().write([decided, plain, edited]))
    stand.store.feedback[plain.feedback_id("source_support")]["correction"] = {"score": 1}
    stand.store.feedback[edited.feedback_id("source_support")]["score"] = 3
    before = stand.feedback()
    said = {"judge_kind": "llm", "judge": "other"}
    again = [stand.card(1, **said), stand.card(2, **said), edited]
    receipts = list(stand.sink().write(again))
    kept = {(r.card_id, r.score): r.reason for r in receipts if r.state == "kept"}
    assert kept[decided.id, "source_support"] == "a person's or a better judge's score stands"
    assert kept[plain.id, "source_support"] == "a person's or a better judge's score stands"
    assert kept[edited.id, "source_support"] == "somebody changed it on LangSmith"
    after = stand.feedback()
    other = plain.feedback_id("source_support.citation_precision")
    assert {key: row for key, row in after.items() if key != other} == {
        key: row for key, row in before.items() if key != other
    }
    assert not stand.asked("DELETE")


@pytest.mark.parametrize("number", [1, None])
def test_an_edited_number_is_kept_from_every_later_version(stand: Stand, number: float | None) -> None:
    """Whatever version or judge comes next, and where the score would be withdrawn; a person takes it out too."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    key = card.feedback_id("source_support")
    stand.store.feedback[key]["score"] = number
    before = dict(stand.store.feedback[key])
    newer = card.model_copy(update={"version": "2", "judge": "other", "judge_kind": "llm"})
    for next_one in (newer, card.model_copy(update={"status": "pending_review"})):
        receipts = list(stand.sink().write([next_one]))
        kept = {r.score: r.reason for r in receipts if r.state == "kept"}
        assert kept == {"source_support": "somebody changed it on LangSmith"}
        assert stand.store.feedback[key] == before


def test_an_edited_number_of_a_score_that_had_none_is_kept(stand: Stand) -> None:
    """A person gave the number we did not have."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    key = card.feedback_id("source_support.citation_precision")
    assert stand.store.feedback[key]["score"] is None
    stand.store.feedback[key]["score"] = 0.5
    receipts = list(stand.sink().write([card.model_copy(update={"version": "2"})]))
    assert {r.score for r in receipts if r.state == "kept"} == {"source_support.citation_precision"}
    assert stand.store.feedback[key]["score"] == 0.5


def test_a_key_with_another_range_is_left_and_said(stand: Stand) -> None:
    """Somebody else's choice of a chart's bounds."""
    theirs = {"type": "continuous", "min": 0, "max": 100}
    stand.store.configure({"feedback_key": "groundtrace.source_support", "feedback_config": theirs})
    sink = stand.sink()
    assert states(list(sink.write([stand.card(1)]))) == {"written": 2}
    assert stand.store.fconfigs["groundtrace.source_support"]["feedback_config"] == theirs
    assert sink.notes() == ("groundtrace.source_support has another range on LangSmith: its charts are drawn by that",)


# --- trouble ----------------------------------------------------------------------------------------------------------


def _fault(stand: Stand, method: str, path: str, status: int, times: int = 1, **told: Any) -> None:
    stand.store.faults.append({"method": method, "path": path, "status": status, "times": times, **told})


def test_a_long_rate_limit_is_waited_for(stand: Stand) -> None:
    """Ten minutes, if LangSmith says so; nothing is lost."""
    card = stand.card(1)
    _fault(stand, "POST", "/feedback$", 429, headers={"Retry-After": "600"})
    assert states(list(stand.sink().write([card]))) == {"written": 2}
    assert 600 in stand.slept


def test_errors_of_the_server_pass(stand: Stand) -> None:
    """A 500 is no answer."""
    card = stand.card(1)
    _fault(stand, "POST", "/feedback$", 500, 3)
    assert states(list(stand.sink().write([card]))) == {"written": 2}
    assert len(stand.store.feedback) == 2


def test_a_server_that_stays_down_fails_by_name(stand: Stand) -> None:
    """Every score is counted, with the reason."""
    card = stand.card(1)
    _fault(stand, "POST", "/feedback$", 500, 10**6)
    receipts = list(stand.sink(api=stand.api(patience=0.05)).write([card]))
    assert states(receipts) == {"failed": 2}
    assert "with 500" in str(receipts[0].reason)


def test_a_server_that_stops_answering_is_not_asked_for_each_score(stand: Stand) -> None:
    """What was under way may have arrived, the rest was not sent; one look says which."""
    cards = [stand.card(n) for n in range(1, 11)]
    stand.store.faults.append({"method": "POST", "path": "/feedback$", "drop": True, "times": 10**6, "skip": 5})
    receipts = list(stand.sink(api=stand.api(patience=0.05), concurrency=1).write(cards))
    assert states(receipts) == {"written": 6, "failed": 14}
    assert len(stand.store.feedback) == 6


def test_a_row_that_was_deleted_since_it_was_read_is_created(stand: Stand) -> None:
    """By somebody else."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    listed = [dict(row) for row in stand.store.feedback.values()]
    stand.store.feedback.clear()
    stand.store.faults.append({"method": "GET", "path": "/feedback$", "status": 200, "body": listed, "times": 1})
    changed = card.model_copy(update={"version": "2"})
    assert states(list(stand.sink().write([changed]))) == {"written": 2}
    assert len(stand.store.feedback) == 2


def test_one_item_that_is_refused_fails_alone(stand: Stand) -> None:
    """With what was said of it."""
    cards = [stand.card(n) for n in range(1, 4)]
    wanted = cards[1].feedback_id("source_support")
    _fault(stand, "POST", "/feedback$", 422, 9, body={"detail": "no"}, when=lambda body: body["id"] == wanted)
    receipts = list(stand.sink().write(cards))
    assert states(receipts) == {"written": 5, "failed": 1}
    (failed,) = [receipt for receipt in receipts if receipt.state == "failed"]
    assert (failed.card_id, failed.score) == (cards[1].id, "source_support")
    assert "422: no" in str(failed.reason)


def test_an_id_that_is_there_is_changed_instead(stand: Stand) -> None:
    """Feedback that was not listed when it was looked for."""
    card = stand.card(1)
    list(stand.sink().write([card.model_copy(update={"version": "0"})]))
    stand.store.same_id = "conflict"
    _fault(stand, "GET", "/feedback$", 200, body=[])
    assert states(list(stand.sink().write([card]))) == {"written": 2}
    assert len(stand.store.feedback) == 2
    assert len(stand.asked("PATCH", "/feedback/")) == 2


def test_a_body_that_is_too_large_is_trimmed(stand: Stand) -> None:
    """The score matters more than all of its reasons."""
    score = Score(name="source_support", value=2, low=1, high=5, rationale="because " * 500)
    _fault(stand, "POST", "/feedback$", 413, 9, when=lambda body: len(body["comment"]) > 2000)
    sink = stand.sink()
    card = stand.card(1, score)
    assert states(list(sink.write([card]))) == {"written": 1}
    assert any("too long" in note for note in sink.notes())
    assert states(list(stand.sink().write([card]))) == {"unchanged": 1}


def test_a_range_that_was_refused_is_left_out(stand: Stand) -> None:
    """The score is written without it."""
    card = stand.card(1)
    refused = {"body": {"detail": "Feedback config already exists"}, "when": lambda body: "feedback_config" in body}
    _fault(stand, "POST", "/feedback$", 400, 9, **refused)
    assert states(list(stand.sink().write([card]))) == {"written": 2}


@pytest.mark.parametrize(("status", "said"), [(401, "LANGSMITH_API_KEY"), (403, "another region"), (501, "501")])
def test_what_holds_for_every_write_ends_them_all(stand: Stand, status: int, said: str) -> None:
    """Clearly said, and nothing is counted as written that was not."""
    _fault(stand, "POST", "/feedback$", status, 10**6, skip=3)
    left = stand.sink(concurrency=1).write([stand.card(n) for n in range(1, 6)])
    receipts = [next(left) for _ in range(10)]
    assert states(receipts) == {"written": 3, "failed": 7}
    with pytest.raises(PlatformError, match=said):
        next(left)
    posts = [row for row in stand.asked("POST", "/feedback") if row["path"].endswith("/feedback")]
    assert len(posts) == 4


def test_feedback_that_is_not_listed_is_unconfirmed(stand: Stand) -> None:
    """Taken and not to be seen; the next run looks again, and writes nothing."""
    card = stand.card(1)
    _fault(stand, "GET", "/feedback$", 200, 10**6, body=[])
    receipts = list(stand.sink().write([card]))
    assert states(receipts) == {"unconfirmed": 2}
    assert receipts[0].reason == "LangSmith took it and does not list it yet"
    assert 10 < sum(stand.slept) <= 60
    stand.store.faults.clear()
    stand.store.log.clear()
    assert states(list(stand.sink().write([card]))) == {"unchanged": 2}
    assert not stand.asked("POST", "/feedback")


def test_what_is_lagging_is_not_waited_for_at_every_batch(stand: Stand) -> None:
    """Half a minute once, then a second."""
    _fault(stand, "GET", "/feedback$", 200, 10**6, body=[])
    sink = stand.sink()
    list(sink.write([stand.card(1)]))
    stand.slept.clear()
    list(sink.write([stand.card(2)]))
    assert sum(stand.slept) < 5


def test_sampling_of_the_application_drops_no_feedback(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK drops feedback with the traces it leaves out, unless told."""
    monkeypatch.setenv("LANGSMITH_TRACING_SAMPLING_RATE", "0.0")
    get_env_var.cache_clear()
    cards = [stand.card(n) for n in range(1, 31)]
    assert states(list(stand.sink().write(cards))) == {"written": 60}
    assert len(stand.store.feedback) == 60


def test_a_connection_that_ends_before_the_answer_doubles_nothing(stand: Stand) -> None:
    """The write may have arrived; its id is the same the next time."""
    card = stand.card(1)
    stand.store.faults.append({"method": "POST", "path": "/feedback$", "drop": True, "times": 1})
    assert states(list(stand.sink().write([card]))) == {"written": 2}
    assert len(stand.store.feedback) == 2


def test_read_pages_are_followed(stand: Stand) -> None:
    """A run may hold a lot of other feedback."""
    card = stand.card(1)
    for n in range(230):
        told = {"id": str(uuid.UUID(int=n + 1000)), "run_id": str(uuid.UUID(int=1)), "key": f"other{n}", "score": 1}
        stand.store.upsert_feedback(told | {"feedback_source": {"type": "model"}})
    list(stand.sink().write([card]))
    assert states(list(stand.sink().write([card]))) == {"unchanged": 2}


# --- what others met (issues of LangSmith's SDK) ----------------------------------------------------------------------


def test_2533_a_start_without_a_zone_gets_one(stand: Stand) -> None:
    """LangSmith refuses it, and the SDK's background path loses it without a word."""
    card = stand.card(1)
    keys = {"start_time": "2026-03-06T10:00:00.123456"}
    ref = Ref("langsmith", stand.project, card.ref.trace_id, card.ref.span_id, keys)
    card = card.model_copy(update={"ref": ref, "targets": {"root": ref}})
    assert states(list(stand.sink().write([card]))) == {"written": 2}
    assert {row["start_time"] for row in stand.store.feedback.values()} == {"2026-03-06T10:00:00.123456+00:00"}


@pytest.mark.parametrize("flags", [{}, {"sdb_query_enabled": False}])
@pytest.mark.parametrize("begun", ["2026-11-01T08:00:01.25", "2026-11-01T08:00:01", "2026-11-01T09:00:01.000001+01:00"])
def test_a_start_has_the_same_bytes_however_it_is_known(stand: Stand, flags: dict[str, bool], begun: str) -> None:
    """Pulled with its trace, or looked up for its feedback: as the API spells it, by which LangSmith files it."""
    stand.store.flags |= flags
    ident = stand.run(1, start_time=begun)
    (pulled,) = LangSmithSource(PROJECT, url=stand.url, ids=(ident,)).traces(Window(), lambda *_: True)
    looked_up = about(1, project=stand.project, keys=False)
    starts = set()
    for card in (looked_up.model_copy(update={"ref": pulled.ref, "targets": {"root": pulled.ref}}), looked_up):
        assert states(list(stand.sink().write([card]))) == {"written": 2}
        starts |= {row["start_time"] for row in stand.store.feedback.values()}
        stand.store.feedback.clear()
    assert starts == {pulled.ref.keys["start_time"]}


def test_2525_feedback_that_was_deleted_and_came_back_is_one_current_score(stand: Stand) -> None:
    """The server brings back what somebody deleted; ours is under its own id, and nothing is deleted."""
    card = stand.card(1)
    revived = {"id": str(uuid.uuid4()), "run_id": str(uuid.UUID(int=1)), "key": "groundtrace.source_support"}
    stand.store.upsert_feedback(revived | {"score": 1, "value": "a", "feedback_source": {"type": "model"}})
    list(stand.sink().write([card]))
    list(stand.sink().write([card.model_copy(update={"version": "2"})]))
    ours = [row for row in stand.store.feedback.values() if row["id"] == card.feedback_id("source_support")]
    assert [row["feedback_source"]["metadata"]["version"] for row in ours] == ["2"]
    assert len(stand.store.feedback) == 3
    assert not stand.asked("DELETE")


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_1924_a_list_is_refused_before_it_is_sent(stand: Stand) -> None:
    """Such a value once broke every later listing; the field is named."""
    good = stand.card(1).scores[1]
    bad = Score.model_construct(
        name="source_support", value=4.0, low=1.0, high=5.0, label=["Some string here"], rationale="", evidence=()
    )
    receipts = list(stand.sink().write([stand.card(1, bad, good)]))
    assert states(receipts) == {"failed": 1, "written": 1}
    reason = next(receipt.reason for receipt in receipts if receipt.state == "failed")
    assert reason == "a label must be text, not ['Some string here'] @ $.source_support.label"
    assert len(stand.store.feedback) == 1


def test_2006_a_run_that_is_ingested_late_gets_its_feedback_once(stand: Stand) -> None:
    """Two 404s, then well."""
    card = stand.card(1)
    _fault(stand, "POST", "/feedback$", 404, 4, body={"detail": "Run not found"})
    assert states(list(stand.sink().write([card]))) == {"written": 2}
    assert len(stand.store.feedback) == 2
    assert stand.slept == [1.0, 2.0]


def test_153_a_run_that_never_comes_is_unconfirmed(stand: Stand) -> None:
    """Whether its start is known or must be looked up."""
    receipts = list(stand.sink().write([about(5, project=stand.project), about(6, project=stand.project, keys=False)]))
    assert states(receipts) == {"unconfirmed": 4}
    assert not stand.store.feedback
    assert sum(stand.slept) <= 90


def test_the_sink_makes_its_own_line(stand: Stand) -> None:
    """As a plan makes it."""
    card = stand.card(1)
    sink = LangSmithSink(PROJECT, url=stand.url)
    assert isinstance(sink.api, Api)
    assert states(list(sink.write([card]))) == {"written": 2}
