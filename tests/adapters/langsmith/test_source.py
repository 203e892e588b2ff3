"""Traces are pulled whole from LangSmith, each once, and what could not be had is counted."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundtrace.adapters.langsmith import rows
from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.queries import WEEK, Ask
from groundtrace.adapters.langsmith.said import Heard
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import JUDGE_MARK, Signal, Window
from groundtrace.plugins import load
from groundtrace.ports import Convention, Source
from groundtrace.read import read
from groundtrace.testing import SourceContract
from pulling import ANSWER, DOCUMENT, NOW, ROWS, WEEKS, Choosing, Stand, day, later, names, pulled, standing, write

V1 = {"flags": {"sdb_query_enabled": False}}
EXPECTED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "traces" / "langsmith-runs.expected.json").read_text(encoding="utf-8")
)["records"]


@pytest.fixture(params=["v2", "v1"])
def stand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in of either generation."""
    with standing(monkeypatch, **(V1 if request.param == "v1" else {})) as made:
        yield made


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in with the second query API."""
    with standing(monkeypatch) as made:
        yield made


def convention() -> Convention:
    """What reads LangSmith's rows."""
    return load("convention", "langsmith")


class TestContract(SourceContract):
    """What `run` relies on."""

    @pytest.fixture(autouse=True)
    def _stands(self, stand: Stand) -> None:
        self.stand = stand
        for n in range(1, 4):
            stand.rag(n)

    def make(self) -> Source:
        return self.stand.source()


# --- whole traces ---------------------------------------------------------------------------------


def test_250_traces_of_the_real_sdk_are_pulled_whole(stand: Stand) -> None:
    """Across pages, with every run in its place, by few requests."""
    write(stand, 250)
    stand.store.log.clear()
    source = stand.source(later())
    traces = pulled(source, day(later()))
    assert len(traces) == 250
    assert sum(len(trace.spans) for trace in traces.values()) == len(stand.store.runs)
    assert all(trace.complete for trace in traces.values())
    for trace in traces.values():
        held = {span.id for span in trace.spans}
        assert all(span.parent_id in held for span in trace.spans if span.parent_id)
        (record,) = read(trace, [convention()])
        assert record.answer is not None
        assert record.answer.startswith(ANSWER)
        assert record.context[0].text == DOCUMENT["page_content"]
        assert record.query is not None
        assert record.query.startswith("when ")
        assert record.ref.keys["run_id"] == trace.ref.span_id
        assert record.targets["root"].keys["start_time"].endswith("+00:00")
    asked = len(stand.asked("/query")) + len(stand.asked("/traces/"))
    assert asked <= (5 if source.api.generation == "v2" else 16)
    assert source.notes() == ()


def test_real_libraries_rows_are_read_as_they_are_from_the_page(stand: Stand) -> None:
    """LangChain, LangGraph, wrapped clients: what the convention's own test expects, through the API."""
    for row in ROWS:
        stand.store.upsert_run("post", row | {"session_id": stand.project})
    traces = pulled(stand.source(dt.datetime(2026, 12, 1, tzinfo=dt.UTC)))
    assert set(traces) == {row["trace_id"] for row in ROWS}
    for ident, told in EXPECTED.items():
        record = read(traces[ident], [convention()])[0]
        assert (record.kind, record.query, record.answer) == (told["kind"], told["query"], told["answer"])
        assert [passage.text for passage in record.context] == [text for _, text in told["context"]]


def test_only_what_is_chosen_is_fetched(stand: Stand) -> None:
    """And a single trace comes in a request of its own."""
    for n in range(1, 31):
        stand.rag(n)
    source = stand.source()
    wanted = str(uuid.UUID(int=7))
    choose = Choosing(lambda ref, _: ref.trace_id == wanted)
    assert list(pulled(source, choose=choose)) == [wanted]
    assert len(choose.asked) == 30
    asked = stand.asked("/runs")
    assert len([row for row in asked if "selects" in row["query"] or (row.get("json") or {}).get("trace")]) == 1


@pytest.mark.parametrize("share", [1, 2, 150])
def test_however_many_are_chosen_each_is_whole(stand: Stand, share: int) -> None:
    """One by itself, few, or more than are asked for at once."""
    for n in range(1, 161):
        stand.rag(n)
    choose = Choosing(lambda ref, _: uuid.UUID(ref.trace_id).int <= share)
    traces = pulled(stand.source(), choose=choose)
    assert names(traces) == list(range(1, share + 1))
    assert all(len(trace.spans) == 2 for trace in traces.values())


def test_where_many_roots_can_not_be_named_windows_are_read_whole(stand: Stand) -> None:
    """The same traces, and the report says how."""
    for n in range(1, 31):
        stand.rag(n)
    named = lambda body: "in(id" in (body.get("trace_filter") or "")  # noqa: E731 - what the fault looks for
    stand.fault("runs/query", 9, status=400, body={"detail": "Invalid filter"}, when=named)
    source = stand.source()
    traces = pulled(source)
    assert names(traces) == list(range(1, 31))
    assert all(len(trace.spans) == 2 for trace in traces.values())
    assert [note for note in source.notes() if "whole windows" in note]


def test_where_many_traces_do_not_come_whole_they_are_asked_for_one_by_one(stand: Stand) -> None:
    """A server may take a filter of many roots and give those alone: nothing of them tells that runs are missing."""
    stand.run(1)
    for n in range(2, 31):
        stand.rag(n)
    named = lambda body: "in(id" in (body.get("trace_filter") or "")  # noqa: E731 - what the fault looks for
    roots = [stand.run(n) for n in range(1, 31)]
    bare = [{**stand.store.runs[ident], "_seen": None} for ident in roots]
    told = {"items": bare, "next_cursor": None, "runs": bare, "cursors": {"next": None}}
    stand.fault("runs/query", 9, status=200, body=told, when=named)
    source = stand.source()
    traces = pulled(source)
    assert names(traces) == list(range(1, 31))
    assert [len(trace.spans) for trace in traces.values()] == [1] + [2] * 29
    assert source.notes() == (
        "LangSmith gives fewer runs of many traces than of one: they were asked for one by one instead",
    )


def test_more_than_a_week_is_read_a_week_at_a_time_oldest_first(second: Stand) -> None:
    """Wider windows are let through a third as often; nothing is asked without both bounds."""
    for n in range(1, 31):
        second.rag(n, begun=NOW - dt.timedelta(days=n))
    order = [trace.ref.trace_id for trace in second.source().traces(_days(35), lambda _ref, _signals: True)]
    assert len(order) == 30
    weeks = [
        (NOW - dt.timedelta(days=uuid.UUID(ident).int) - (NOW - dt.timedelta(days=35))).days // 7 for ident in order
    ]
    assert weeks == sorted(weeks)
    for row in second.asked("/api/v2/runs/query"):
        since, until = (dt.datetime.fromisoformat(row["json"][f"{end}_start_time"]) for end in ("min", "max"))
        assert until - since <= dt.timedelta(days=7, hours=1)


def _days(count: int) -> Window:
    return Window(int((NOW - dt.timedelta(days=count)).timestamp()) * 10**9, None)


def test_without_a_time_the_last_day_is_looked_at_and_that_is_said(stand: Stand) -> None:
    """Never in silence."""
    stand.rag(1)
    stand.rag(2, begun=NOW - dt.timedelta(hours=30))
    source = stand.source()
    assert names(pulled(source, Window())) == [1]
    assert source.notes() == ("looked at 24 hours, from 2026-11-19T12:00:00 UTC on: --since gives another time",)
    assert stand.source().traces  # nothing was asked yet


def test_a_windows_bounds_are_kept(stand: Stand) -> None:
    """The first moment is in it, the last is not, and no trace is in two windows."""
    edge = NOW - dt.timedelta(hours=5)
    stand.rag(1, begun=edge)
    at = int(edge.timestamp()) * 10**9
    assert names(pulled(stand.source(), Window(at, at + 10**9))) == [1]
    assert names(pulled(stand.source(), Window(at - 10**9, at))) == []


def test_a_trace_of_more_runs_than_langsmith_keeps_says_so(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some may be missing; it is not gathered from pages beyond that, but asked for in one go."""
    monkeypatch.setattr(rows, "MOST", 20)
    stand.rag(1)
    stand.rag(2)
    for n in range(100, 140):
        stand.run(n, 2)
    source = stand.source()
    traces = pulled(source)
    assert [len(trace.spans) for trace in traces.values()] == [2, 42]
    assert source.notes() == ("1 trace has as many runs as LangSmith keeps of one, 25,000: there may have been more",)
    assert traces[str(uuid.UUID(int=2))].notes


def test_a_run_that_began_long_after_its_root_ended_is_part_of_its_trace(stand: Stand) -> None:
    """Of many traces at once as of one: what is done in the background comes hours later."""
    begun = NOW - dt.timedelta(days=3)
    for n in (1, 2):
        stand.rag(n, begun=begun)
    stand.run(3, 1, begun=begun + dt.timedelta(hours=23), run_type="retriever", outputs={"documents": [DOCUMENT]})
    source = stand.source()
    traces = pulled(source)
    assert [len(traces[str(uuid.UUID(int=n))].spans) for n in (1, 2)] == [3, 2]
    assert not [row for row in stand.asked("/traces/") if row["method"] == "GET"]
    (alone,) = pulled(stand.source(ids=str(uuid.UUID(int=1)))).values()
    assert alone == traces[alone.ref.trace_id]


def test_runs_are_asked_for_at_the_full_rate(stand: Stand) -> None:
    """However far apart the roots of a page are, and whatever failed: never more than a week at once."""
    begun = NOW - dt.timedelta(days=14)
    for n in range(1, 101):
        stand.rag(n, begun=begun + dt.timedelta(minutes=101.7 * (n - 1)))
    stand.rag(101, begun=begun, end_time=(begun + dt.timedelta(days=9)).isoformat())
    stand.run(102, 1, begun=begun + dt.timedelta(days=7) - dt.timedelta(minutes=1), error="ValueError()")
    source = stand.source()
    asked, call = [], source.api.call

    def noted(*told: Any, **more: Any) -> Any:
        if "query" in told[1]:
            asked.append(more["tier"])
        return call(*told, **more)

    source.api.call = noted  # type: ignore[method-assign] - what it is asked is what is looked at
    window = Window(int(begun.timestamp()) * 10**9, None)
    choose = Choosing(lambda _ref, _signals: True, patient=True)
    assert names(pulled(source, window, choose)) == list(range(1, 102))
    assert {*asked} == {"query"}
    assert "error" in {one.name for one in choose.signals[str(uuid.UUID(int=1))]}


def test_v1_is_asked_by_when_runs_began_whatever_its_end_time_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that began in a window and ended after it is in that window, and only there."""
    with standing(monkeypatch, **V1) as stand:
        begun = NOW - dt.timedelta(hours=5)
        stand.rag(1, begun=begun, end_time=(begun + dt.timedelta(hours=2)).isoformat(), tags=["prod"])
        at, hour = int(begun.timestamp()) * 10**9, 3600 * 10**9
        assert names(pulled(stand.source(tags="prod"), Window(at, at + hour))) == [1]
        assert names(pulled(stand.source(), Window(at - hour, at))) == []
        assert not [row for row in stand.asked("/runs/query") if "end_time" in row["json"]]


def test_a_long_empty_time_is_passed_over(stand: Stand) -> None:
    """Since the beginning is no thousand questions."""
    stand.rag(1)
    assert names(pulled(stand.source(), Window(0))) == [1]
    assert len(stand.asked("/query")) < 120


@pytest.mark.parametrize(
    ("ask", "tier"),
    [
        (Ask(0, WEEK), "query"),
        (Ask(0, WEEK + 1), "wide"),
        (Ask(0, WEEK, filter='search("x")'), "search"),
        (Ask(0, WEEK, filter='eq(name, "search(x)")'), "query"),
    ],
)
def test_a_query_is_counted_as_langsmith_counts_it(ask: Ask, tier: str) -> None:
    """A search is let through a tenth as often, a wide window a third as often."""
    assert ask.tier == tier


# --- what is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({"tags": "prod"}, [1]),
        ({"tags": ["prod", "eu"]}, [1]),
        ({"metadata": {"user": 'it\'s "q"'}}, [2]),
        ({"metadata": 'user=it\'s "q"'}, [2]),
        ({"has_feedback": "thumb"}, [3]),
        ({"error": True}, [4]),
        ({"error": False}, [1, 2, 3]),
        ({"filter": 'eq(name, "run 2")'}, [2]),
        ({"filter": 'or(eq(name, "run 2"), eq(name, "run 1"))', "tags": "eu"}, [1]),
        ({"filter": 'search("21:40")', "error": True}, [4]),
    ],
)
def test_traces_are_asked_for_by_what_their_roots_are(stand: Stand, told: dict[str, Any], wanted: list[int]) -> None:
    """In plain values, or in LangSmith's own language."""
    stand.rag(1, tags=["prod", "eu"])
    stand.rag(2, extra={"metadata": {"user": 'it\'s "q"'}})
    stand.rag(3)
    stand.rag(4, error="ValueError: no")
    stand.complain(3)
    traces = pulled(stand.source(**told))
    assert names(traces) == wanted
    assert all(len(trace.spans) == 2 for trace in traces.values())


def test_a_project_that_is_not_there_and_one_of_evaluators_are_no_plan(stand: Stand) -> None:
    """Nothing is created, and no evaluator is judged."""
    source = stand.source()
    source.project = "feries"
    with pytest.raises(PlanError, match="is no project"):
        pulled(source)
    assert len(stand.store.sessions) == 1
    with pytest.raises(PlanError, match="never judged"):
        type(source)("evaluators", url=stand.url)


def test_what_our_own_judges_left_is_no_trace(stand: Stand) -> None:
    """Whether their metadata or their tags say so."""
    stand.rag(1)
    stand.rag(2, extra={"metadata": {JUDGE_MARK: "true"}})
    stand.rag(3, tags=[JUDGE_MARK])
    source, choose = stand.source(), Choosing(lambda _ref, _signals: True)
    assert names(pulled(source, choose=choose)) == [1]
    assert len(choose.asked) == 1
    assert source.notes() == ("2 traces of our own judges: left out",)


# --- signals --------------------------------------------------------------------------------------


def test_what_users_said_is_told_before_a_trace_is_chosen(stand: Stand) -> None:
    """Thumbs and stars; not what judges said, and not what we said."""
    for n in range(1, 8):
        stand.rag(n)
    stars = {"type": "continuous", "min": 1, "max": 5}
    stand.store.configure({"feedback_key": "stars", "feedback_config": stars})
    stand.complain(1, comment="Wrong boat.")
    stand.complain(2, score=1)
    stand.complain(3, "stars", 2)
    stand.complain(4, "stars", 4)
    stand.complain(5, "groundtrace.source_support", 0)
    stand.complain(6, "quality", 0, feedback_source={"type": "model"})
    choose = Choosing(lambda _ref, signals: any(signal.negative for signal in signals))
    assert names(pulled(stand.source(), choose=choose)) == [1, 3]
    told = {uuid.UUID(ident).int: signals for ident, signals in choose.signals.items()}
    assert told[1] == (Signal("thumb", value=0.0, negative=True, comment="Wrong boat.", source="langsmith"),)
    assert [(one.name, one.value, one.negative) for one in told[4]] == [("stars", 4.0, False)]
    assert told[5] == told[6] == told[7] == ()


def test_a_failure_anywhere_is_a_signal_to_who_asks_for_it(stand: Stand) -> None:
    """That of a root is always known; that of a child costs a query."""
    stand.rag(1)
    stand.rag(2, error="ValueError('no')\nTraceback")
    stand.run(3)
    stand.run(4, 3, error="TimeoutError()")
    plain = Choosing(lambda _ref, signals: any(one.name == "error" for one in signals))
    assert names(pulled(stand.source(), choose=plain)) == [2]
    assert plain.signals[str(uuid.UUID(int=2))][0].comment == "ValueError('no')"
    patient = Choosing(plain.wanted, patient=True)
    assert names(pulled(stand.source(), choose=patient)) == [2, 3]


# --- what is not over -----------------------------------------------------------------------------


def test_issue_453_a_root_that_never_ended_is_not_judged(stand: Stand) -> None:
    """POSTed and never PATCHed: pending, without outputs; left, and counted."""
    stand.rag(1)
    stand.run(2, end_time=None, outputs=None)
    stand.run(3, end_time=None, outputs=None, begun=NOW - dt.timedelta(days=3))
    source = stand.source()
    traces = pulled(source)
    assert {uuid.UUID(i).int: trace.complete for i, trace in traces.items()} == {1: True, 2: False}
    assert sorted(source.notes()) == [
        "1 trace began more than a day ago and was never told to have ended: not judged",
        "1 trace has not ended: left for the next run",
    ]


def test_issue_453_a_retriever_that_is_still_running_is_waited_for(stand: Stand) -> None:
    """Its trace is scored once it is there, and not as one that found nothing."""
    ended = NOW - dt.timedelta(minutes=4)
    stand.run(1, begun=ended - dt.timedelta(seconds=1))
    stand.run(2, 1, begun=ended, run_type="retriever", end_time=None, outputs=None)
    source = stand.source()
    assert [trace.complete for trace in pulled(source).values()] == [False]
    assert source.notes() == ("1 trace has runs that have not ended or not come yet: left for the next run",)
    stand.run(2, 1, begun=ended, run_type="retriever", outputs={"documents": [DOCUMENT]})
    (trace,) = pulled(stand.source()).values()
    assert trace.complete
    assert read(trace, [convention()])[0].context


def test_issue_453_a_retriever_that_came_late_is_seen_by_the_next_run(stand: Stand) -> None:
    """What was judged without it had a gap where its passages were to be, so nothing was called invented."""
    stand.run(1, begun=NOW - dt.timedelta(minutes=10))
    (trace,) = pulled(stand.source()).values()
    (record,) = read(trace, [convention()])
    assert [gap.field for gap in record.gaps] == ["context"]
    stand.run(2, 1, begun=NOW - dt.timedelta(minutes=10), run_type="retriever", outputs={"documents": [DOCUMENT]})
    (trace,) = pulled(stand.source()).values()
    assert read(trace, [convention()])[0].gaps == ()


def test_a_trace_settles_before_it_is_looked_at(stand: Stand) -> None:
    """Half a minute after its last run ended."""
    stand.rag(1, begun=NOW - dt.timedelta(seconds=20))
    stand.run(2, begun=NOW - dt.timedelta(minutes=5))
    stand.run(3, 2, begun=NOW - dt.timedelta(seconds=5))
    source = stand.source()
    assert [trace.complete for trace in pulled(source).values()] == [False, False]
    assert source.notes() == ("2 traces ended just now: left for the next run",)
    assert all(trace.complete for trace in pulled(stand.source(NOW + dt.timedelta(minutes=1))).values())


def test_a_clock_that_is_ahead_keeps_no_trace_for_ever(stand: Stand) -> None:
    """An end that is far to come is no end of just now."""
    stand.run(1, end_time=(NOW + dt.timedelta(days=3)).isoformat())
    stand.run(2)
    stand.run(3, 2, end_time=(NOW + dt.timedelta(days=3)).isoformat())
    assert {uuid.UUID(i).int: t.complete for i, t in pulled(stand.source()).items()} == {1: True, 2: True}


def test_runs_that_were_lost_are_not_waited_for_for_ever(stand: Stand) -> None:
    """An hour after the root ended the trace is read as it is, and that is counted."""
    stand.run(1)
    stand.run(2, 1, end_time=None, outputs=None)
    stand.run(3)
    stand.run(4, 9, root=3)
    source = stand.source()
    assert all(trace.complete for trace in pulled(source).values())
    assert sorted(source.notes()) == [
        "1 trace holds runs that were never told to have ended: read as it is",
        "1 trace lacks runs that others stand below: read as it is",
    ]


def test_issue_751_a_child_is_put_in_its_place_by_its_dotted_order(stand: Stand) -> None:
    """Also where its parent is not named."""
    stand.run(1)
    stand.run(2, 1)
    body = stand.store.runs[stand.run(3, root=1, parent=2)]
    body |= {"parent_run_id": None, "parent_run_ids": []}
    assert body["dotted_order"].count(".") == 2
    (trace,) = pulled(stand.source()).values()
    assert {span.id: span.parent_id for span in trace.spans}[body["id"]] == str(uuid.UUID(int=2))


# --- the shapes that broke others -----------------------------------------------------------------


def test_issue_3455_150_roots_are_pulled_in_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """v1 takes no more than 100 at once: two pages of roots, and no 400."""
    with standing(monkeypatch, **V1) as stand:
        for n in range(1, 151):
            stand.rag(n)
        assert names(pulled(stand.source(), day())) == list(range(1, 151))
        asked = [row for row in stand.asked("/runs/query") if row["json"].get("is_root")]
        assert [row["status"] for row in asked] == [200, 200]


def test_issue_2852_documents_of_a_child_are_found(stand: Stand) -> None:
    """The retriever two levels below is part of the trace."""
    stand.run(1)
    stand.run(2, 1)
    stand.run(3, 2, root=1, run_type="retriever", outputs={"documents": [DOCUMENT]})
    (trace,) = pulled(stand.source()).values()
    (record,) = read(trace, [convention()])
    assert [passage.text for passage in record.context] == [DOCUMENT["page_content"]]
    assert record.context[0].target is not None
    assert record.context[0].target[0].span_id == str(uuid.UUID(int=3))


@pytest.mark.parametrize(
    "outputs",
    [
        {"output": ["One fact.", "Another fact."]},
        {"documents": [{"page_content": "One fact."}, {"page_content": "Another fact."}]},
        {"contexts": ["One fact.", "Another fact."]},
        {
            "output": [
                {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "document", "Document"],
                 "kwargs": {"page_content": text, "metadata": {}, "type": "Document"}}
                for text in ("One fact.", "Another fact.")
            ]
        },
    ],
    ids=["strings", "dicts", "contexts", "constructors"],
)  # fmt: skip
def test_ragas_2261_what_a_retriever_returned_is_the_same_however_it_is_shaped(
    stand: Stand, outputs: dict[str, Any]
) -> None:
    """Never a silent zero."""
    stand.run(1)
    stand.run(2, 1, run_type="retriever", outputs=outputs)
    (trace,) = pulled(stand.source()).values()
    (record,) = read(trace, [convention()])
    assert [passage.text for passage in record.context] == ["One fact.", "Another fact."]


def test_ragas_2261_a_shape_nobody_knows_is_a_gap(stand: Stand) -> None:
    """And not a context that is empty."""
    stand.run(1)
    stand.run(2, 1, run_type="retriever", outputs={"hits": {"total": 3}})
    (trace,) = pulled(stand.source()).values()
    (record,) = read(trace, [convention()])
    assert [gap.field for gap in record.gaps] == ["context"]


@pytest.mark.parametrize(
    "outputs", [{"output": {"answer": "At 21:40.", "context": [DOCUMENT]}}, {"answer": "At 21:40."}]
)
def test_issue_2571_an_answer_is_the_same_wrapped_or_not(stand: Stand, outputs: dict[str, Any]) -> None:
    """Outputs changed under users' feet."""
    stand.run(1, outputs=outputs)
    (trace,) = pulled(stand.source()).values()
    assert read(trace, [convention()])[0].answer == "At 21:40."


def test_issue_2533_a_time_without_a_zone_is_told_with_one(stand: Stand) -> None:
    """Feedback filed under a time without a zone is refused, or lost."""
    stand.run(1, start_time="2026-11-06T10:00:00.123456", end_time="2026-11-06T10:00:01.123456")
    (trace,) = pulled(stand.source()).values()
    assert trace.ref.keys["start_time"] == "2026-11-06T10:00:00.123456+00:00"
    assert trace.spans[0].start == 1_793_959_200_123_456_000


def test_turns_of_a_thread_know_their_thread(stand: Stand) -> None:
    """Which stands in their metadata; a project's id is never taken for it."""
    for n in range(1, 4):
        stand.run(n, extra={"metadata": {"thread_id": "t1"}})
    traces = pulled(stand.source())
    records = [read(trace, [convention()])[0] for trace in traces.values()]
    assert [record.ref.keys["session_id"] for record in records] == ["t1"] * 3
    assert [record.ref.project for record in records] == [stand.project] * 3
    assert names(traces) == [uuid.UUID(ident).int for ident in traces]


# --- large payloads -------------------------------------------------------------------------------


def test_payloads_kept_apart_are_fetched_and_attachments_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without our key, and up to a bound."""
    with standing(monkeypatch, **V1, inline=200) as stand:
        long = "The night ferry leaves at 21:40. " * 20
        ident = stand.rag(1, outputs={"output": long})
        stand.store.attachments[ident, "scan"] = ("image/png", b"PNG")
        (trace,) = pulled(stand.source()).values()
        assert read(trace, [convention()])[0].answer == long
        (asked,) = stand.asked("/_payload/")
        assert "x-api-key" not in {name.lower() for name in asked["headers"]}
        assert not stand.asked("/_blob/")
        source = stand.source(payload_mb=0.0001)
        (trace,) = pulled(source).values()
        assert [gap.field for gap in read(trace, [convention()])[0].gaps] == ["answer"]
        assert [note for note in source.notes() if "payload_mb" in note]
        stand.fault("/_payload/", 5, method="GET", status=403)
        source = stand.source()
        pulled(source)
        assert source.notes() == ("inputs or outputs kept apart from 1 runs could not be fetched: 403",)


def test_payloads_are_not_fetched_from_where_others_read_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor from inside the network."""
    with standing(monkeypatch, **V1) as stand:
        place = {"ROOT": {"presigned_url": "http://10.0.0.1/latest/meta-data"}}
        stand.run(1, outputs=None, outputs_s3_urls=place)
        source = stand.source()
        pulled(source)
        assert [note for note in source.notes() if "not https" in note]


# --- trouble --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500, "times": 2},
        {"status": 502, "times": 1, "body": "<html>bad gateway</html>"},
        {"torn": True, "times": 1},
        {"drop": True, "times": 1},
        {"delay": 0.2, "times": 2},
    ],
    ids=["500", "502", "torn", "dropped", "slow"],
)
def test_trouble_that_passes_costs_no_trace(stand: Stand, fault: dict[str, Any]) -> None:
    """Whichever page it meets."""
    for n in range(1, 121):
        stand.rag(n)
    for skip in range(3):
        stand.fault("runs/query", **fault, skip=skip)
    traces = pulled(stand.source())
    assert names(traces) == list(range(1, 121))
    assert all(len(trace.spans) == 2 for trace in traces.values())


def test_a_429_is_waited_for_as_long_as_it_says(stand: Stand) -> None:
    """Also where that is longer than the SDK would wait."""
    stand.rag(1)
    stand.fault("runs/query", 2, status=429, headers={"Retry-After": "3600"})
    source = stand.source()
    source.api = Api(stand.url, sleep=stand.slept.append)
    assert names(pulled(source)) == [1]
    assert stand.slept.count(3600.0) == 2


def test_without_info_the_second_api_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the first one where the second is not there."""
    for told in ({}, V1):
        with standing(monkeypatch, **told) as stand:
            stand.rag(1)
            stand.fault("/info", 99, method="GET", status=404)
            assert names(pulled(stand.source())) == [1]
            assert stand.asked("/api/v2/runs/query")


def test_without_info_traces_are_found_by_their_ids_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that has no route for it says the same as one that has no such trace."""
    for told in ({}, V1):
        for more in ({"method": "GET", "status": 404}, {"method": "GET", "body": {"version": "0.12"}, "status": 200}):
            with standing(monkeypatch, **told) as stand:
                stand.rag(1)
                stand.fault("/info", 99, **more)
                (trace,) = pulled(stand.source(ids=str(uuid.UUID(int=1)))).values()
                assert (trace.complete, len(trace.spans)) == (True, 2)
                (trace,) = pulled(stand.source(ids=str(uuid.UUID(int=9)))).values()
                assert not trace.complete
                stand.complain(1)
                stand.complain(1, score=1)
                source = stand.source(later())
                assert _late(source, None) == [1]
                assert not [note for note in source.notes() if "listed instead" in note]


def test_a_cursor_that_ran_out_starts_its_window_again_without_doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace is lost, none is asked about twice."""
    with standing(monkeypatch, **V1) as stand:
        for n in range(1, 351):
            stand.rag(n)
        paged = lambda body: body.get("cursor") and body.get("is_root")  # noqa: E731 - what the fault looks for
        stand.fault("runs/query", 2, status=400, body={"detail": "Cursor expired"}, when=paged, skip=1)
        source, choose = stand.source(), Choosing(lambda _ref, _signals: True)
        assert names(pulled(source, choose=choose)) == list(range(1, 351))
        assert len(choose.asked) == 350
        assert source.notes() == (
            "2 windows were begun again, for LangSmith's cursor had run out: no trace was taken twice",
        )


def test_a_cursor_that_never_holds_ends_the_reading_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came before counts."""
    with standing(monkeypatch, **V1) as stand:
        for n in range(1, 151):
            stand.rag(n)
        stand.fault("runs/query", 99, status=400, body={"detail": "Bad cursor"}, when=lambda body: body.get("cursor"))
        with pytest.raises(PlatformError, match="Bad cursor"):
            pulled(stand.source())


def test_half_characters_are_mended_and_told(stand: Stand) -> None:
    """One lone surrogate in a page costs no other run of it."""
    stand.rag(1, outputs={"output": "At 21:40 \ud83d."})
    stand.rag(2)
    source = stand.source()
    traces = pulled(source)
    assert names(traces) == [1, 2]
    trace = traces[str(uuid.UUID(int=1))]
    assert trace.notes == (f"span {uuid.UUID(int=1)}: text that is no Unicode was replaced by U+FFFD",)
    assert traces[str(uuid.UUID(int=2))].notes == ()
    assert source.notes() == ("1 run held halves of characters, which are U+FFFD now",)


def test_a_listed_trace_of_which_nothing_comes_is_left_for_the_next_run(stand: Stand) -> None:
    """Not judged on its root alone."""
    stand.rag(1)
    stand.fault("/traces/", 1, method="GET", status=404)
    stand.fault("runs/query", 1, status=404, when=lambda body: body.get("trace"))
    source = stand.source()
    assert [trace.complete for trace in pulled(source).values()] == [False]
    assert source.notes() == ("1 trace was listed, but LangSmith gave none of its runs: left for the next run",)


def test_wrong_keys_end_the_reading_at_once(stand: Stand) -> None:
    """A 403 is no trouble that passes."""
    stand.rag(1)
    stand.fault("runs/query", 99, status=403, body={"error": "Forbidden"})
    with pytest.raises(PlatformError, match="another region or workspace"):
        pulled(stand.source())
    assert stand.slept == []


# --- complaints that come late --------------------------------------------------------------------


def test_a_late_complaint_brings_its_trace_back_once(stand: Stand) -> None:
    """Whatever its age, and whichever run of it was complained about."""
    clock = [NOW]
    stand.store.clock = lambda: clock[0]
    for n in range(1, 6):
        stand.rag(n, begun=NOW - dt.timedelta(days=20))
    stand.complain(1)
    clock[0] = NOW + dt.timedelta(hours=1)
    source = stand.source(clock[0])
    assert list(source.traces(Window(), lambda _ref, _signals: True)) == []
    before = Window(int((NOW - dt.timedelta(minutes=1)).timestamp()) * 10**9, None)
    assert _late(source, None, before) == [1]
    mark = source.watermark()
    assert mark is not None
    clock[0] += dt.timedelta(hours=1)
    stand.complain(2, score=1)
    stand.complain(10**6 + 3, comment="Wrong.")
    stand.complain(4, "groundtrace.rag_faithfulness", 0, feedback_source={"type": "model"})
    source = stand.source(clock[0] + dt.timedelta(seconds=30))
    traces = {t.ref.trace_id: t for t in source.late(Window(), mark, lambda _ref, signals: signals[0].negative)}
    assert names(traces) == [3]
    (trace,) = traces.values()
    assert trace.complete
    assert len(trace.spans) == 2
    assert trace.ref.keys["run_id"] == trace.ref.trace_id
    assert trace.signals == (Signal("thumb", value=0.0, negative=True, comment="Wrong.", source="langsmith"),)
    assert _late(stand.source(clock[0] + dt.timedelta(minutes=2)), source.watermark()) == []


def test_a_complaint_that_can_be_found_only_later_is_not_missed(stand: Stand) -> None:
    """LangSmith counts feedback some time after it came."""
    clock = [NOW]
    stand.store.clock = lambda: clock[0]
    stand.rag(1)
    source = stand.source(NOW + dt.timedelta(seconds=60))
    assert _late(source, None) == []
    stand.complain(1)  # a minute before the watermark
    assert _late(stand.source(NOW + dt.timedelta(hours=1)), source.watermark()) == [1]


def test_a_late_complaint_may_be_a_label(stand: Stand) -> None:
    """Under a key with labels it has no score."""
    stand.store.clock = lambda: NOW
    labels = [{"value": 0, "label": "bad"}, {"value": 1, "label": "good"}]
    config = {"type": "categorical", "categories": labels}
    stand.store.configure({"feedback_key": "quality", "feedback_config": config})
    for n in range(1, 4):
        stand.rag(n, begun=NOW - dt.timedelta(days=3))
    stand.complain(1, "quality", None, value="bad")
    stand.complain(2, "quality", 0)
    stand.complain(3, "quality", None, value="good")
    source = stand.source(NOW + dt.timedelta(minutes=1))
    assert _late(source, None) == [1, 2]
    assert source.notes() == ()


def test_feedback_that_is_not_counted_yet_is_heard_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counts of a run lag behind; a complaint they do not show brings its trace back all the same, once."""
    for told in ({}, V1):
        clock = [NOW]
        with standing(monkeypatch, **told, stats_after=60.0, clock=lambda now=clock: now[0]) as stand:
            stand.rag(1)
            stand.complain(1)
            clock[0] += dt.timedelta(seconds=40)
            choose = Choosing(lambda _ref, signals: any(signal.negative for signal in signals))
            source = stand.source(clock[0])
            assert pulled(source, choose=choose) == {}
            assert choose.signals[str(uuid.UUID(int=1))] == ()
            assert _late(source, None) == [1]
            clock[0] += dt.timedelta(seconds=40)
            again = stand.source(clock[0])
            assert names(pulled(again, choose=choose)) == [1]
            assert _late(again, source.watermark()) == []


def test_a_complaint_about_what_never_ended_is_not_heard_for_ever(stand: Stand) -> None:
    """Nothing is left for the next run: the trace is counted, and not judged."""
    clock = [NOW - dt.timedelta(days=2)]
    stand.store.clock = lambda: clock[0]
    stand.run(1, begun=NOW - dt.timedelta(days=5), end_time=None, outputs=None)
    stand.rag(2, begun=NOW - dt.timedelta(days=5))
    stand.complain(1)
    stand.complain(2)
    source = stand.source()
    assert _late(source, None) == [2]
    assert source.watermark() is not None
    assert source.notes() == ("1 trace began more than a day ago and was never told to have ended: not judged",)


def test_a_complaint_about_what_is_gone_is_not_heard_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a day its trace may still come; feedback on a whole project is about no trace."""
    with standing(monkeypatch, **V1) as stand:
        stand.store.clock = lambda: NOW
        stand.complain(1, session_id=stand.project)
        stand.complain(2, session_id=stand.project, run_id=None)
        (trace,) = stand.source().late(WEEKS, None, lambda _ref, _signals: True)
        assert (uuid.UUID(trace.ref.trace_id).int, trace.complete) == (1, False)
        source = stand.source(NOW + dt.timedelta(days=1, minutes=1))
        assert _late(source, None) == []
        assert source.notes() == (
            "1 trace that users complained about more than a day ago has no root on LangSmith: not judged",
        )


def test_late_complaints_are_held_to_the_filter_too(stand: Stand) -> None:
    """Who looks at prod is not brought dev."""
    clock = [NOW]
    stand.store.clock = lambda: clock[0]
    stand.rag(1, tags=["prod"])
    stand.rag(2, tags=["dev"])
    stand.complain(1)
    stand.complain(2)
    assert _late(stand.source(NOW + dt.timedelta(minutes=1), tags="prod"), None) == [1]


def test_where_feedback_times_can_not_be_asked_for_all_of_it_is_listed(second: Stand) -> None:
    """The same complaints, and the report says how."""
    clock = [NOW]
    second.store.clock = lambda: clock[0]
    second.rag(1)
    second.complain(1)
    second.fault("runs/query", 9, status=400, when=lambda body: body.get("min_feedback_modified_at"))
    source = second.source(NOW + dt.timedelta(minutes=1))
    assert _late(source, None) == [1]
    assert [note for note in source.notes() if "listed instead" in note]


def test_a_watermark_is_not_moved_by_a_reading_that_failed(stand: Stand) -> None:
    """Nor before all was taken."""
    stand.rag(1)
    stand.complain(1)
    source = stand.source(later())
    assert source.watermark() is None
    next(source.late(WEEKS, None, lambda _ref, _signals: True), None)
    assert source.watermark() is None


def _late(source: Any, since: str | None, window: Window = WEEKS) -> list[int]:
    return names({t.ref.trace_id: t for t in source.late(window, since, lambda _ref, _signals: True)})


def test_a_watermark_is_read_back(stand: Stand) -> None:
    """As it was kept, or as a plain time."""
    heard = Heard(10**18, {"a": 10**18 - 5})
    assert Heard.of(str(heard)) == heard
    assert Heard.of("2026-11-20T12:00:00Z") == Heard(int(NOW.timestamp()) * 10**9, {})
    assert Heard.of("no time") is None
