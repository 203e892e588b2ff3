"""Traces are pulled whole from Braintrust, each once, and what could not be had is counted."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import braintrust
import pytest
from langchain_core.runnables import RunnableLambda

from braintrust_pulling import DOCUMENT, NOW, PROJECT, WEEKS, Choosing, Stand, names, pulled, standing
from braintrust_writing import ANSWER, QUESTION, installed, write
from groundtrace.adapters.braintrust import btql
from groundtrace.adapters.braintrust.api import Api
from groundtrace.adapters.braintrust.source import BraintrustSource
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import JUDGE_MARK, Record, Signal, Trace, Window
from groundtrace.plugins import load
from groundtrace.ports import Convention, Source
from groundtrace.read import read
from groundtrace.testing import SourceContract
from standins.llm import hired


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in, which takes no query without a bound."""
    with standing(monkeypatch, bounded=True) as made:
        yield made


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Stand]:
    """A stand-in to which the SDK writes, now."""
    with standing(monkeypatch, bounded=True, clock=time.time) as made, installed(made, monkeypatch, tmp_path):
        yield made


def convention() -> Convention:
    """What reads Braintrust's rows."""
    return load("convention", "braintrust")


def later() -> dt.datetime:
    """A minute after what was just written."""
    return dt.datetime.fromtimestamp(time.time() + 60, dt.UTC)


class TestContract(SourceContract):
    """What `run` relies on."""

    @pytest.fixture(autouse=True)
    def _stands(self, stand: Stand) -> None:
        self.stand = stand
        for n in range(1, 4):
            stand.rag(n)

    def make(self) -> Source:
        return self.stand.source()


# --- whole traces -----------------------------------------------------------------------------------------------------


def test_250_traces_of_the_real_sdk_are_pulled_whole(live: Stand) -> None:
    """From functions, a wrapped client, LangChain and OpenTelemetry, with every span in its place, by few queries."""
    with hired() as provider:
        provider.script(base={"answer": ANSWER})
        write(250, provider.v1)
    live.store.requests.clear()
    source = live.source(later())
    traces = pulled(source, Window())
    assert len(traces) == 250
    assert sum(len(trace.spans) for trace in traces.values()) == len(live.store.rows(("project_logs", live.project)))
    queries = set()
    for trace in traces.values():
        assert trace.complete
        held = {span.id for span in trace.spans}
        assert all(span.parent_id in held for span in trace.spans if span.parent_id)
        (record,) = read(trace, [convention()])
        assert (record.answer, record.gaps) == (ANSWER, ())
        assert record.context[0].text == DOCUMENT["text"]
        assert record.ref.span_id == trace.ref.span_id
        queries.add(record.query)
    assert queries == {QUESTION.format(n=n) for n in range(250)}
    assert len(live.asked()) <= 12
    assert len(source.notes()) == 1  # of the window


def test_a_ref_carries_the_row_and_where_it_is_kept(stand: Stand) -> None:
    """All three ids differ."""
    (trace,) = (stand.rag(1),)
    (found,) = pulled(stand.source()).values()
    assert (found.ref.trace_id, found.ref.span_id, found.ref.project) == (trace, f"{1:016x}", stand.project)
    assert found.ref.keys == {"id": "row-1", "object": "project_logs"}


@pytest.mark.parametrize("share", [1, 49, 50, 51, 120])
def test_however_many_are_chosen_each_is_whole_and_only_they_are_fetched(stand: Stand, share: int) -> None:
    """By fifty ids at a time, and with a shape, a bound and a limit."""
    for n in range(1, 121):
        stand.rag(n)
    choose = Choosing(lambda ref, _: int(ref.trace_id, 16) <= share)
    traces = pulled(stand.source(), choose=choose)
    assert names(traces) == list(range(1, share + 1))
    assert all(len(trace.spans) == 2 for trace in traces.values())
    assert len(choose.signals) == 120
    asked = [told["body"]["query"] for told in stand.asked()]
    assert all(one["limit"] == 1000 and one["from"]["shape"] == "spans" for one in asked)
    ids = [one["filter"]["right"]["value"] for one in asked if one["filter"]["op"] == "in"]
    assert sorted(int(ident, 16) for page in ids for ident in page) == list(range(1, share + 1))
    assert max(map(len, ids)) <= 50


def test_more_roots_than_fit_on_a_page_are_all_seen(stand: Stand) -> None:
    """And no row twice, though rows change while they are read."""
    for n in range(1, 2201):
        stand.row(n)

    def choose(ref: Any, signals: Any) -> bool:
        n = int(ref.trace_id, 16)
        stand.merge(n, metadata={"seen": True})
        return n % 500 == 0

    assert names(pulled(stand.source(), choose=choose)) == [500, 1000, 1500, 2000]


def test_a_windows_bounds_are_kept(stand: Stand) -> None:
    """The first moment is in it, the last is not, and no trace is in two windows, however a time is written."""
    edge = NOW - dt.timedelta(hours=5)
    stand.rag(1, begun=edge)
    stand.rag(2, created=edge.isoformat().replace("+00:00", "Z"))
    stand.rag(3, created=(edge + dt.timedelta(hours=1)).astimezone(dt.timezone(dt.timedelta(hours=1))).isoformat())
    at = int(edge.timestamp()) * 10**9
    assert names(pulled(stand.source(), Window(at, at + 10**9))) == [1, 2]
    assert names(pulled(stand.source(), Window(at - 10**9, at))) == []
    assert names(pulled(stand.source(), Window(at - 10**9, at + 1))) == [1, 2]


def test_what_came_long_after_the_window_ended_is_part_of_its_trace(stand: Stand) -> None:
    """A child is fetched by its trace, not by its time."""
    begun = NOW - dt.timedelta(days=3)
    stand.rag(1, begun=begun)
    stand.row(2, 1, begun=begun + dt.timedelta(hours=23), output=[DOCUMENT])
    at = int(begun.timestamp()) * 10**9
    (trace,) = pulled(stand.source(), Window(at, at + 10**9)).values()
    assert len(trace.spans) == 3
    (alone,) = pulled(stand.source(ids=trace.ref.trace_id)).values()
    assert alone == trace


def test_without_a_time_the_last_day_is_looked_at_and_that_is_said(stand: Stand) -> None:
    """Never in silence."""
    stand.rag(1)
    stand.rag(2, begun=NOW - dt.timedelta(hours=30))
    source = stand.source()
    assert names(pulled(source, Window())) == [1]
    assert source.notes() == ("looked at 24 hours, from 2026-11-19T12:00:00 UTC on: --since gives another time",)


def test_months_are_read_a_piece_at_a_time_oldest_first(stand: Stand) -> None:
    """Each query with both bounds."""
    for n in range(1, 21):
        stand.rag(n, begun=NOW - dt.timedelta(days=10 * n))
    since = Window(int((NOW - dt.timedelta(days=300)).timestamp()) * 10**9, None)
    order = [int(trace.ref.trace_id, 16) for trace in stand.source().traces(since, lambda _ref, _signals: True)]
    assert sorted(order) == list(range(1, 21))
    pieces = [(300 - 10 * n) // 28 for n in order]
    assert pieces == sorted(pieces)


def test_an_experiment_is_read_whole(stand: Stand) -> None:
    """Whenever it ran, all of it unless somebody says otherwise; what its scorers said is no part of the answer."""
    made = stand.store.experiment(stand.project, "first try")
    for n in range(1, 4):
        stand.rag(n, experiment=made["id"], begun=NOW - dt.timedelta(days=200))
        scorer = {"type": "score", "purpose": "scorer", "name": "closeness"}
        stand.row(n + 500, n, experiment=made["id"], span_attributes=scorer, output={"score": 1}, scores={"close": 0})
    stand.rag(9)
    source = stand.source(experiment="first try")
    choose = Choosing(lambda _ref, _signals: True)
    traces = pulled(source, Window(), choose)
    assert names(traces) == [1, 2, 3]
    assert set(choose.signals.values()) == {()}
    for trace in traces.values():
        assert trace.ref.keys["object"] == f"experiment:{made['id']}"
        assert trace.ref.project == stand.project
        (record,) = read(trace, [convention()])
        assert (record.answer, [passage.text for passage in record.context]) == ("At 21:40 [1].", [DOCUMENT["text"]])
    assert (source.default_share, stand.source().default_share) == (1.0, 0.1)
    assert source.notes() == ()
    with pytest.raises(PlanError, match="is no experiment of ferries"):
        pulled(stand.source(experiment="second try"))


def test_a_project_is_never_made(stand: Stand) -> None:
    """A name nobody has is no plan."""
    source = BraintrustSource("feries", url=stand.url, app_url=stand.url, queries=6000)
    with pytest.raises(PlanError, match="is no project here"):
        pulled(source)
    assert len(stand.store.projects) == 1


def test_traces_are_asked_for_by_their_ids(stand: Stand) -> None:
    """Whenever they were; what is not there is left for the next run."""
    for n in range(1, 4):
        stand.rag(n, begun=NOW - dt.timedelta(days=100))
    stand.merge(2 + 10**6, scores={"thumb": 0})
    source = stand.source(ids=[f"{2:032x}", f"{9:032x}", f"{2:032x}"])
    traces = pulled(source, Window())
    assert [(one.name, one.negative) for one in traces[f"{2:032x}"].signals] == [("thumb", True)]
    assert {n: traces[f"{n:032x}"].complete for n in names(traces)} == {2: True, 9: False}
    assert source.notes() == ("1 trace was named, but Braintrust gave no root of it: left for the next run",)


# --- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({"tags": "prod"}, [1, 5]),
        ({"tags": ["prod", "eu"]}, [1]),
        ({"metadata": {"user": 'it\'s "q"'}}, [2]),
        ({"metadata": "version=7"}, [3, 5]),
        ({"metadata": {"deep.er": "true"}}, [3]),
        ({"error": True}, [4]),
        ({"error": False}, [1, 2, 3, 5]),
        ({"tags": "prod", "metadata": "version=7"}, [5]),
    ],
)
def test_traces_are_asked_for_by_what_their_roots_are(
    stand: Stand, told: dict[str, Any], wanted: list[int], *, refused: bool
) -> None:
    """Also where a framework nests them; also where Braintrust does not take the question."""
    stand.rag(1, tags=["prod", "eu"])
    stand.rag(2, metadata={"user": 'it\'s "q"'})
    stand.rag(3, metadata={"version": 7, "deep": {"er": True}})
    stand.rag(4, error="ValueError: no")
    stand.rag(5, metadata={"tags": ["prod"], "metadata": {"version": "7"}})
    names_metadata = lambda asked: "user" in str(asked) or "version" in str(asked)  # noqa: E731 - what is refused
    if refused:
        stand.standin.fail("/btql", 400, when=lambda body: names_metadata(body["query"]["filter"]))
    source = stand.source(**told)
    traces = pulled(source)
    assert names(traces) == wanted
    assert all(len(trace.spans) == 2 for trace in traces.values())
    asked_there = refused and names_metadata(told)
    assert bool([note for note in source.notes() if "looked through here" in note]) == asked_there


def test_what_our_own_judges_left_is_no_trace(stand: Stand) -> None:
    """Whether their metadata or their tags say so."""
    stand.rag(1)
    stand.rag(2, metadata={JUDGE_MARK: "offline"})
    stand.rag(3, tags=[JUDGE_MARK])
    source, choose = stand.source(), Choosing(lambda _ref, _signals: True)
    assert names(pulled(source, choose=choose)) == [1]
    assert list(choose.signals) == [1]
    assert source.notes() == ("2 traces of our own judges: left out",)
    assert pulled(stand.source(ids=f"{2:032x}")) == {}


def test_rows_that_are_no_part_of_the_program_are_no_traces_and_no_content(stand: Stand) -> None:
    """Scores, reviews, automations, lines of a log."""
    stand.rag(1)
    for n, kind in enumerate(("score", "review", "automation", "facet", "preprocessor", "classifier"), 10):
        stand.row(n, 1, span_attributes={"type": kind, "name": kind}, output="The ferry sank.", input="What happened?")
        stand.row(n + 100, span_attributes={"type": kind, "name": kind})
    stand.row(20, 1, span_attributes={"type": "llm", "purpose": "scorer"}, output="It is bad.")
    stand.row(30, root=1, span_id=f"{1:016x}", span_attributes={"type": "log", "name": "info"}, input="Starting.")
    stand.row(31, span_attributes={"type": "log"})
    (trace,) = pulled(stand.source()).values()
    (record,) = read(trace, [convention()])
    assert (record.query, record.answer, record.gaps) == ("When?", "At 21:40 [1].", ())
    assert [passage.text for passage in record.context] == [DOCUMENT["text"]]
    assert [span.parent_id for span in trace.spans if span.id == "log row-30"] == [f"{1:016x}"]


# --- signals ----------------------------------------------------------------------------------------------------------


def test_what_users_said_is_told_before_a_trace_is_chosen(stand: Stand) -> None:
    """Thumbs, and columns of people's; not what scorers, aggregates or we said."""
    for n in range(1, 11):
        stand.rag(n)
    config = {"project_id": stand.project, "name": "stars", "score_type": "slider"}
    stand.store.scores["1"] = {"id": "1", **config}
    stand.store.scores["2"] = {"id": "2", **config, "name": "overall", "score_type": "weighted"}
    stand.store.scores["3"] = {"id": "3", **config, "name": "tone", "score_type": "online"}
    levels = [{"name": "bad", "value": 0.2}, {"name": "good", "value": 0.6}]
    stand.store.scores["4"] = {"id": "4", **config, "name": "kind", "score_type": "categorical", "categories": levels}
    stand.merge(1, scores={"thumb": 0})
    stand.merge(2, scores={"thumb": 1})
    stand.merge(3, scores={"stars": 0.25})
    stand.merge(4, scores={"stars": 0.75, "kind": 0.3})
    stand.merge(5, scores={"overall": 0, "tone": 0, "groundtrace_source_support": 0, "thumb": None})
    stand.merge(6 + 10**6, scores={"thumb": 0})
    stand.row(70, 7, span_attributes={"type": "score", "purpose": "scorer"}, scores={"auto": 0})
    stand.row(80, 8, span_attributes={"type": "review"}, scores={"stars": 0.1})
    stand.merge(9, scores={"human_rag_faithfulness": 0, "kind": 0.6})
    choose = Choosing(lambda _ref, signals: any(signal.negative for signal in signals))
    assert names(pulled(stand.source(), choose=choose)) == [1, 3, 4, 6]
    assert choose.signals[1] == (Signal("thumb", value=0.0, negative=True, source="braintrust"),)
    assert [(one.name, one.value, one.negative) for one in choose.signals[4]] == [
        ("stars", 0.75, False),
        ("kind", 0.3, True),
    ]
    assert choose.signals[5] == choose.signals[7] == choose.signals[8] == choose.signals[10] == ()


def test_comments_are_told_with_the_trace(stand: Stand) -> None:
    """The oldest first, wherever they stand; by themselves they complain of nothing."""
    stand.rag(1)
    stand.comment(1 + 10**6, "The wrong timetable.", "c2", created="2026-11-20T11:00:00Z")
    stand.comment(1, "Which boat?", "c1", created="2026-11-20T10:00:00Z")
    (trace,) = pulled(stand.source()).values()
    assert [(one.name, one.comment, one.negative) for one in trace.signals] == [
        ("comment", "Which boat?", False),
        ("comment", "The wrong timetable.", False),
    ]


def test_where_the_projects_scores_can_not_be_had_only_zero_complains(stand: Stand) -> None:
    """And that is said."""
    stand.rag(1)
    stand.merge(1, scores={"stars": 0.25})
    stand.standin.fail("/v1/project_score", 403)
    source, choose = stand.source(), Choosing(lambda _ref, signals: any(signal.negative for signal in signals))
    assert pulled(source, choose=choose) == {}
    assert source.notes() == ("the project's scores could not be had, so only scores of 0 count as complaints",)


def test_a_failure_anywhere_is_a_signal_to_who_asks_for_it(stand: Stand) -> None:
    """That of a root is always known; that of a child is asked for."""
    stand.rag(1)
    stand.rag(2, error="ValueError: no\n\nTraceback (most recent call last):\n  ...")
    stand.row(3)
    stand.row(4, 3, error="TimeoutError")
    plain = Choosing(lambda _ref, signals: any(one.name == "error" for one in signals))
    traces = pulled(stand.source(), choose=plain)
    assert names(traces) == [2]
    assert plain.signals[2][0].comment == "ValueError: no"
    states = {span.id: (span.status, span.status_message) for span in traces[f"{2:032x}"].spans}
    assert states == {f"{2:016x}": ("error", "ValueError: no"), f"{2 + 10**6:016x}": ("unset", "")}
    patient = Choosing(plain.wanted, patient=True)
    assert names(pulled(stand.source(), choose=patient)) == [2, 3]


# --- what is not over -------------------------------------------------------------------------------------------------


def test_a_root_that_never_ended_is_not_judged(stand: Stand) -> None:
    """Its begin was sent and its end was not; left, and counted."""
    stand.rag(1)
    begun, long_ago = NOW - dt.timedelta(hours=1), NOW - dt.timedelta(days=3)
    stand.row(2, begun=begun, metrics={"start": begun.timestamp()})
    stand.row(3, begun=long_ago, metrics={"start": long_ago.timestamp()})
    stand.row(4, metrics=None)  # written in one go by a program of its own
    source = stand.source()
    assert {int(i, 16): trace.complete for i, trace in pulled(source).items()} == {1: True, 2: False, 4: True}
    assert sorted(source.notes()) == [
        "1 trace began more than a day ago and was never told to have ended: not judged",
        "1 trace has not ended: left for the next run",
    ]


def test_a_span_that_is_still_running_or_to_come_is_waited_for(stand: Stand) -> None:
    """Its trace is scored once it is there, and not as one that found nothing."""
    ended = NOW - dt.timedelta(minutes=4)
    stand.row(1, begun=ended)
    stand.row(2, 1, begun=ended, metrics={"start": ended.timestamp()}, output=None)
    stand.row(3, begun=ended)
    stand.row(4, 9, root=3, begun=ended)
    source = stand.source()
    assert [trace.complete for trace in pulled(source).values()] == [False, False]
    assert source.notes() == ("2 traces have spans that have not ended or not come yet: left for the next run",)
    stand.merge(2, metrics={"end": ended.timestamp() + 1}, output=[DOCUMENT])
    stand.row(9, 3, begun=ended)
    traces = pulled(stand.source())
    assert all(trace.complete for trace in traces.values())
    assert read(traces[f"{1:032x}"], [convention()])[0].context


def test_spans_that_were_lost_are_not_waited_for_for_ever(stand: Stand) -> None:
    """An hour after the root ended the trace is read as it is, and that is counted."""
    stand.row(1)
    stand.row(2, 1, metrics={"start": NOW.timestamp() - 7200})
    stand.row(3)
    stand.row(4, 9, root=3)
    source = stand.source()
    assert all(trace.complete for trace in pulled(source).values())
    assert sorted(source.notes()) == [
        "1 trace holds spans that were never told to have ended: read as it is",
        "1 trace lacks spans that others stand below: read as it is",
    ]


def test_a_trace_settles_before_it_is_looked_at(stand: Stand) -> None:
    """Half a minute after its last span ended, or others changed it; what we wrote ourselves is no such change."""
    clock = [NOW.timestamp() - 3600]
    stand.store.clock = lambda: clock[0]
    for n in range(1, 5):
        stand.rag(n)
    stand.rag(5, begun=NOW - dt.timedelta(seconds=20))
    stand.row(6, 1, begun=NOW - dt.timedelta(seconds=5))
    clock[0] = NOW.timestamp() - 10
    stand.merge(2, tags=["late"])
    stand.merge(3, metadata={"groundtrace": {"worst": 0.2}})
    ours = {"type": "score", "purpose": "scorer", "name": "groundtrace_source_support"}
    stand.row(7, 4, span_attributes=ours, metadata={"groundtrace": {"rubric": "x"}}, begun=NOW, scores={"a": 0})
    source = stand.source()
    traces = pulled(source)
    assert {n: traces[f"{n:032x}"].complete for n in names(traces)} == {1: False, 2: False, 3: True, 4: True, 5: False}
    assert {span.name for span in traces[f"{4:032x}"].spans} == {"row 4", "retrieve"}
    assert source.notes() == ("3 traces ended or were changed just now: left for the next run",)
    assert all(trace.complete for trace in pulled(stand.source(NOW + dt.timedelta(minutes=1))).values())
    assert all(trace.complete for trace in pulled(stand.source(settle=0)).values())


def test_a_clock_that_is_ahead_keeps_no_trace_for_ever(stand: Stand) -> None:
    """An end that is far to come is no end of just now."""
    at = NOW.timestamp()
    stand.row(1, metrics={"start": at - 7200, "end": at + 86_400})
    assert [trace.complete for trace in pulled(stand.source()).values()] == [True]


def test_a_row_that_can_be_found_only_later_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A root without its spans is not complete."""
    clock = [NOW.timestamp() - 600]
    with standing(monkeypatch, clock=lambda: clock[0]) as stand:
        begun = NOW - dt.timedelta(minutes=10)
        stand.row(1, begun=begun)
        stand.row(3, 2, root=1, begun=begun)
        stand.standin.visibility_delay = 900
        stand.row(2, 1, begun=begun)
        assert [trace.complete for trace in pulled(stand.source()).values()] == [False]
        clock[0] += 900
        assert [len(t.spans) for t in pulled(stand.source()).values() if t.complete] == [3]


# --- the shapes that broke others -------------------------------------------------------------------------------------


def run(n: int) -> Any:
    """A run of LangChain's with a search of its own."""

    async def search(query: str) -> list[dict[str, Any]]:
        return [{"page_content": f"Fact {n}: {query}", "metadata": {}, "type": "Document"}]

    async def answer(query: str) -> str:
        await RunnableLambda(search, name="search_documents").ainvoke(query)
        return f"Answer {n} [1]."

    return RunnableLambda(answer, name=f"run{n}")


def apart(records: Iterable[Record]) -> dict[str | None, tuple[str | None, list[str]]]:
    """What each record asks, says and was given."""
    return {record.query: (record.answer, [passage.text for passage in record.context]) for record in records}


THREE = {f"question {n}?": (f"Answer {n} [1].", [f"Fact {n}: question {n}?"]) for n in range(3)}


def test_bug_5_three_async_runs_of_langchain_are_three_records(live: Stand) -> None:
    """Each with its own question, answer and passages."""
    from braintrust.integrations.langchain import BraintrustCallbackHandler

    logger = braintrust.init_logger(project=PROJECT)
    handler = BraintrustCallbackHandler(logger)

    async def all_of_them() -> None:
        for n in range(3):
            await run(n).ainvoke(f"question {n}?", config={"callbacks": [handler]})

    asyncio.run(all_of_them())
    logger.flush()
    traces = pulled(live.source(later()), Window())
    assert apart(record for trace in traces.values() for record in read(trace, [convention()])) == THREE


def test_bug_5_runs_an_older_sdk_nested_in_one_trace_are_three_records_too(stand: Stand) -> None:
    """braintrust-sdk-python#621: 0.30.1 puts run1 below run0, which had ended, and run2 below run1."""
    at = NOW.timestamp() - 7200
    for n in range(3):
        end = at + 2 * n
        ident, above = f"run-{n}", n or None
        told = {"metadata": {"parent_run_id": None, "run_id": ident, "tags": []}, "input": f"question {n}?"}
        stand.row(n + 1, above, root=1, metrics={"start": end, "end": end + 1}, output=f"Answer {n} [1].", **told)
        found = [{"page_content": f"Fact {n}: question {n}?", "metadata": {}, "type": "Document"}]
        below = {"metadata": {"parent_run_id": ident, "run_id": f"search-{n}"}, "output": found}
        named = {"name": "search_documents", "type": "task"}
        times = {"start": end + 0.1, "end": end + 0.2}
        stand.row(n + 11, n + 1, root=1, metrics=times, span_attributes=named, input=f"question {n}?", **below)
    (trace,) = pulled(stand.source()).values()
    records = read(trace, [convention()])
    assert apart(records) == THREE
    assert [record.ref.span_id for record in records] == [f"{n:016x}" for n in (1, 2, 3)]


def test_bug_8_parents_in_a_list_fractional_seconds_and_null(stand: Stand) -> None:
    """latitude-llm#3849: the tree and the durations are right."""
    at = 1_795_996_164.8562458
    begun = dt.datetime.fromtimestamp(at, dt.UTC)
    now = begun + dt.timedelta(hours=1)
    stand.row(1, begun=begun, span_parents=None, metrics={"start": at, "end": at + 0.25})
    stand.row(2, begun=begun, span_parents=[], metrics={"start": at, "end": at + 0.5})
    stand.row(3, 1, begun=begun, metrics={"start": at, "end": at + 0.125}, output=[DOCUMENT])
    traces = pulled(stand.source(now), Window())
    assert names(traces) == [1, 2]
    spans = {span.id: span for span in traces[f"{1:032x}"].spans}
    assert spans[f"{3:016x}"].parent_id == f"{1:016x}"
    assert spans[f"{1:016x}"].parent_id is None
    assert spans[f"{1:016x}"].start == 1_795_996_164_856_246_000
    assert spans[f"{3:016x}"].end == 1_795_996_164_981_246_000


def test_half_characters_are_mended_and_told(stand: Stand) -> None:
    """One lone surrogate in a page costs no other row of it."""
    stand.rag(1, output="At 21:40 \ud83d.")
    stand.rag(2)
    source = stand.source()
    traces = pulled(source)
    assert names(traces) == [1, 2]
    assert traces[f"{1:032x}"].notes == (f"span {1:016x}: text that is no Unicode was replaced by U+FFFD",)
    assert source.notes() == ("1 row held halves of characters, which are U+FFFD now",)


def test_ids_may_be_anything(stand: Stand) -> None:
    """Older SDKs' are UUIDs, the root's span and its trace the same."""
    ident = "4a794caf-04e4-496d-aa56-2aa9ca32e7af"
    stand.row(1, span_id=ident, root_span_id=ident)
    stand.row(2, span_parents=[ident], root_span_id=ident)
    (trace,) = stand.source().traces(WEEKS, lambda _ref, _signals: True)
    assert (trace.ref.trace_id, trace.ref.span_id, len(trace.spans)) == (ident, ident, 2)


# --- attachments ------------------------------------------------------------------------------------------------------


def test_attachments_that_hold_text_are_put_in_their_place(live: Stand) -> None:
    """Those the SDK uploads, those in a bucket, and those a row holds itself; without our key."""
    logger = braintrust.init_logger(project=PROJECT)
    with logger.start_span(name="answer", type="function") as span:
        span.log(input={"question": "When?"}, output="At 21:40 [1].")
        with span.start_span(name="retrieve", type="tool") as below:
            below.log(input="When?", output=braintrust.JSONAttachment([DOCUMENT]))
    logger.flush()
    source = live.source(later())
    (trace,) = pulled(source, Window()).values()
    (record,) = read(trace, [convention()])
    assert ([passage.text for passage in record.context], record.gaps) == ([DOCUMENT["text"]], ())
    fetched = [told for told in live.standin.asked("/blob/") if told["method"] == "GET"]
    assert len(fetched) == 1
    assert "authorization" not in {name.lower() for name in fetched[0]["headers"]}
    assert len(source.notes()) == 1


def _attached(stand: Stand, reference: dict[str, Any], **told: Any) -> tuple[Any, tuple[str, ...]]:
    """What stands in an output after all, and what the report says."""
    stand.rag(1, output={"answer": reference})
    source = stand.source(**told)
    (trace,) = pulled(source).values()
    (held,) = (span.attributes["braintrust.row"] for span in trace.spans if span.id == trace.ref.span_id)
    return held["output"]["answer"], source.notes()


KEPT = {"type": "braintrust_attachment", "key": "k", "filename": "a.txt", "content_type": "text/plain"}
INLINE = {"type": "inline_attachment", "content_type": "text/plain"}
DATA = f"data:application/json;base64,{base64.b64encode(b'[1]').decode()}"


@pytest.mark.parametrize(
    ("reference", "held"),
    [
        (KEPT, "At 21:40."),
        ({**KEPT, "content_type": "application/octet-stream"}, "At 21:40."),
        ({**INLINE, "src": "data:text/plain,At%2021:40."}, "At 21:40."),
        ({"type": "external_attachment", "url": "s3://b/a.txt", "filename": "a.txt"}, "At 21:40."),
        (
            {"type": "inline_attachment", "src": DATA, "content_type": "application/json"},
            [1],
        ),
    ],
)
def test_an_attachment_is_read_as_what_it_is(stand: Stand, reference: dict[str, Any], held: Any) -> None:
    """Text, or JSON."""
    stand.store.blobs |= {"k": b"At 21:40.", "s3://b/a.txt": b"At 21:40."}
    assert _attached(stand, reference) == (held, ())


@pytest.mark.parametrize(
    ("reference", "told", "why"),
    [
        ({**KEPT, "key": "gone"}, {}, "could not be fetched: 404"),
        (KEPT, {"attachment_mb": 0.000001}, "are larger than 0 MB: attachment_mb lets more through"),
        ({**KEPT, "content_type": "application/json"}, {}, "are no JSON"),
        ({**KEPT, "key": "bad"}, {}, "are no text"),
        ({**KEPT, "key": "late"}, {}, "were not uploaded: uploading"),
        ({"type": "external_attachment", "url": "s3://b/k", "filename": "a.txt"}, {}, "could not be asked for: 400"),
        (
            {**INLINE, "src": "http://127.0.0.1/x"},
            {},
            "stand at an address a row names: not fetched",
        ),
        (
            {**INLINE, "src": "data:text/plain;base64,!"},
            {},
            "are torn",
        ),
    ],
)
def test_an_attachment_that_can_not_be_had_is_a_gap_and_counted(
    stand: Stand, reference: dict[str, Any], told: dict[str, Any], why: str
) -> None:
    """It stays a reference, of which the convention makes a gap."""
    stand.store.blobs |= {"k": b"At 21:40.", "bad": b"\xff\xfe", "late": b"x"}
    stand.store.attachment_status["late"] = {"upload_status": "uploading"}
    held, notes = _attached(stand, reference, **told)
    assert held == reference
    assert notes == (f"attachments in 1 places {why}",)


def test_pictures_are_left_alone(stand: Stand) -> None:
    """Nothing is asked for."""
    picture = {**KEPT, "filename": "a.png", "content_type": "image/png"}
    assert _attached(stand, picture) == (picture, ())
    assert not stand.standin.asked("/attachment")


# --- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500, "times": 2},
        {"status": 502, "body": "<html>bad gateway</html>"},
        {"status": 401, "times": 3, "body": "invalid x-api-key"},
        {"status": 429, "headers": {"Retry-After": "2"}},
        {"torn": True},
        {"drop": True},
        {"delay": 0.2},
    ],
    ids=["500", "502", "401 that heals", "429", "torn", "dropped", "slow"],
)
def test_trouble_that_passes_costs_no_trace(stand: Stand, fault: dict[str, Any]) -> None:
    """Whichever page it meets."""
    for n in range(1, 121):
        stand.rag(n)
    for skip in range(3):
        stand.standin.fail("/btql", **fault, skip=skip)
    traces = pulled(stand.source())
    assert names(traces) == list(range(1, 121))
    assert all(len(trace.spans) == 2 for trace in traces.values())


@pytest.mark.parametrize("limits", [{"page_rows": 9}, {"page_bytes": 4000}, {"row_cap": 7}])
def test_pages_that_can_not_be_had_are_halved(monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]) -> None:
    """A query that takes too long, an answer that is too large, a cap nobody tells of."""
    with standing(monkeypatch, **limits) as stand:
        for n in range(1, 61):
            stand.rag(n)
        traces = pulled(stand.source())
        assert names(traces) == list(range(1, 61))
        assert all(len(trace.spans) == 2 for trace in traces.values())


def test_a_server_that_gives_few_rows_a_page_is_found_out_late_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short page that was whole says nothing of longer ones."""
    with standing(monkeypatch, row_cap=10) as stand:
        source = stand.source()
        stand.rag(1)
        assert names(pulled(source)) == [1]
        for n in range(2, 26):
            stand.rag(n)
        traces = pulled(source)
        assert names(traces) == [*range(1, 26)]
        assert all(len(trace.spans) == 2 for trace in traces.values())


def test_a_page_that_grew_meanwhile_is_not_held_against_shorter_ones(stand: Stand) -> None:
    """Rows come while pages are read: that costs no second query for each page ever after."""
    api = stand.source().api
    api.known.learn(9, more=False)
    api.known.learn(5, more=True)
    for n in range(1, 5):
        stand.row(n)
    bound = btql.given("id")
    place = api.project(PROJECT)
    assert [len(page) for page in api.pages(place, bound)] == [4]
    assert len(stand.asked()) == 1
    for n in range(5, 7):
        stand.row(n)
    assert [len(page) for page in api.pages(place, bound)] == [6]
    assert len(stand.asked()) == 3


def test_rows_that_do_not_say_where_they_stand_are_one_page(stand: Stand) -> None:
    """The field may be null; more of them than fit on a page can't be told apart from none, and that is said."""
    for n in range(1, 4):
        stand.rag(n)
    for row in stand.store.objects["project_logs", stand.project].values():
        row["_pagination_key"] = None
    assert names(pulled(stand.source())) == [1, 2, 3]
    stand.store.row_cap, source = 2, stand.source()
    source.api.known.cut = 1
    with pytest.raises(PlatformError, match="_pagination_key"):
        pulled(source)


def test_a_trace_of_thousands_of_spans_does_not_cost_every_second_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than can be had at once is not asked for after each page anew."""
    with standing(monkeypatch, page_rows=30) as stand:
        stand.rag(1)
        for n in range(2, 502):
            stand.row(n, 1)
        (trace,) = pulled(stand.source()).values()
        assert len(trace.spans) == 502
        refused = [told for told in stand.asked("'op': 'in'") if told["status"] == 504]
        assert len(refused) <= 12


def test_a_trace_that_is_too_large_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row alone is more than Braintrust gives: it is counted, and the other traces come."""
    with standing(monkeypatch, page_bytes=30_000) as stand:
        for n in range(1, 9):
            stand.rag(n)
        stand.merge(4, output="x" * 40_000)
        source = stand.source()
        assert names(pulled(source)) == [1, 2, 3, 5, 6, 7, 8]
        assert source.notes() == ("1 trace is larger than Braintrust gives at once, even row by row: not judged",)
        assert pulled(stand.source(ids=f"{4:032x}")) == {}


def test_queries_are_no_more_than_the_plan_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty a minute, so that none is refused; each is one, however often a page is halved."""
    passed = [0.0]
    with standing(monkeypatch, queries=20, clock=lambda: NOW.timestamp() - 3600 + passed[0]) as stand:
        for n in range(1, 1301):
            stand.row(n)

        def sleep(seconds: float) -> None:
            passed[0] += seconds

        source = BraintrustSource(PROJECT, url=stand.url, app_url=stand.url, clock=NOW.timestamp)
        source.api = Api(stand.url, stand.url, clock=lambda: passed[0], sleep=sleep)
        assert len(pulled(source)) == 1300
        asked = stand.asked()
        assert len(asked) > 20
        assert {told["status"] for told in asked} == {200}
        assert passed[0] >= 60


def test_a_429_is_waited_for_as_long_as_it_says(stand: Stand) -> None:
    """Also where that is an hour."""
    stand.rag(1)
    stand.standin.fail("/btql", 429, times=2, headers={"Retry-After": "3600"})
    source = stand.source()
    source.api = Api(stand.url, stand.url, queries=6000, sleep=stand.slept.append)
    assert names(pulled(source)) == [1]
    assert stand.slept.count(3600.0) == 2


def test_wrong_keys_end_the_reading_at_once(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that was never good does not heal."""
    stand.rag(1)
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-wrong")
    with pytest.raises(PlatformError, match="is BRAINTRUST_API_KEY right") as caught:
        pulled(stand.source())
    assert caught.value.denied
    assert "sk-wrong" not in str(caught.value)
    assert stand.slept == []


def test_an_address_that_does_not_answer_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a quarter of a minute, not the SDK's nine, and the error says which setting to look at."""
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-test")
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    source = BraintrustSource(PROJECT, url="http://127.0.0.1:9", clock=NOW.timestamp)
    source.api = Api("http://127.0.0.1:9", "http://127.0.0.1:9", clock=lambda: passed[0], sleep=sleep)
    with pytest.raises(PlatformError, match=r"did not answer GET /v1/project.*BRAINTRUST_API_URL"):
        pulled(source)
    assert passed[0] <= 30


def test_an_api_that_goes_away_ends_the_reading_aloud(stand: Stand) -> None:
    """What came before counts."""
    for n in range(1, 121):
        stand.rag(n)
    stand.standin.fail("/btql", 503, times=10**6, skip=4)
    source, found = stand.source(), list[Trace]()
    with pytest.raises(PlatformError, match="503"):
        found.extend(source.traces(WEEKS, lambda _ref, _signals: True))
    assert source.api.rest.url == stand.url


# --- complaints that come late ----------------------------------------------------------------------------------------


def _late(source: BraintrustSource, since: str | None, window: Window = WEEKS) -> list[int]:
    return names({t.ref.trace_id: t for t in source.late(window, since, lambda _ref, signals: signals[0].negative)})


@pytest.fixture
def aged(stand: Stand) -> tuple[Stand, list[float]]:
    """Five traces of three weeks ago, and the time."""
    clock = [NOW.timestamp() - 20 * 86_400]
    stand.store.clock = lambda: clock[0]
    for n in range(1, 6):
        stand.rag(n, begun=NOW - dt.timedelta(days=20))
    clock[0] = NOW.timestamp() - 600
    return stand, clock


def test_a_late_complaint_brings_its_trace_back_once(aged: tuple[Stand, list[float]]) -> None:
    """Whatever its age, and whichever row of it was complained about; what we change ourselves says nothing new."""
    stand, clock = aged
    stand.merge(1, scores={"thumb": 0})
    source = stand.source()
    assert list(source.traces(Window(), lambda _ref, _signals: True)) == []
    day = Window(int((NOW - dt.timedelta(days=1)).timestamp()) * 10**9, None)
    assert _late(source, None, day) == [1]
    clock[0] += 3600
    stand.merge(1, metadata={"groundtrace": {"worst": 0.1}})
    stand.merge(2, scores={"thumb": 1})
    stand.merge(10**6 + 3, scores={"thumb": 0})
    stand.merge(4, scores={"groundtrace_rag_faithfulness": 0})
    stand.row(50, 5, span_attributes={"type": "score", "purpose": "scorer"}, scores={"thumb": 0})
    second = stand.source(NOW + dt.timedelta(hours=1))
    (trace,) = second.late(day, source.watermark(), lambda _ref, signals: signals[0].negative)
    assert (int(trace.ref.trace_id, 16), trace.complete, len(trace.spans)) == (3, True, 2)
    assert trace.ref.keys["id"] == "row-3"
    assert trace.signals == (Signal("thumb", value=0.0, negative=True, source="braintrust"),)
    clock[0] += 3600
    stand.merge(1, scores={"other": 0})
    third = stand.source(NOW + dt.timedelta(hours=2))
    assert _late(third, second.watermark()) == [1]
    assert _late(stand.source(NOW + dt.timedelta(hours=3)), third.watermark()) == []


def test_a_complaint_that_can_be_found_only_later_is_not_missed(aged: tuple[Stand, list[float]]) -> None:
    """A transaction may come to be seen after a later one: the time before is asked for once more."""
    stand, clock = aged
    stand.merge(1, scores={"thumb": 0})
    stand.merge(2, scores={"thumb": 0})
    hidden = stand.store.objects["project_logs", stand.project]["row-1"]
    hidden["_visible_at"] = clock[0] + 60
    source = stand.source()
    assert _late(source, None) == [2]
    clock[0] += 120
    assert _late(stand.source(), source.watermark()) == [1]


def test_a_complaint_that_comes_to_be_seen_rounds_later_is_not_missed(aged: tuple[Stand, list[float]]) -> None:
    """A watch that asks every few seconds has heard of later ones twice by then."""
    stand, clock = aged
    stand.merge(1, scores={"thumb": 0})
    stand.store.objects["project_logs", stand.project]["row-1"]["_visible_at"] = clock[0] + 60
    mark, heard = None, []
    for n in (2, 3, 4, 5):
        clock[0] += 10
        stand.merge(n, scores={"thumb": 0})
        source = stand.source()
        heard += _late(source, mark)
        mark = source.watermark()
    clock[0] += 120
    assert heard == [2, 3, 4, 5]
    assert _late(stand.source(), mark) == [1]


def test_the_first_hearing_begins_with_the_window(aged: tuple[Stand, list[float]]) -> None:
    """What was complained of before it is over; that holds where transactions tell no time as well."""
    stand, clock = aged
    clock[0] = NOW.timestamp() - 10 * 86_400
    stand.merge(1, scores={"thumb": 0})
    clock[0] = NOW.timestamp() - 600
    stand.rag(9)
    stand.merge(2, scores={"thumb": 0})
    day = Window(int((NOW - dt.timedelta(days=1)).timestamp()) * 10**9, None)
    assert _late(stand.source(), None, day) == [2]
    plain = iter(range(10**6))
    for row in sorted(stand.store.objects["project_logs", stand.project].values(), key=lambda row: row["_xact_id"]):
        row["_xact_id"] = str(0x0DE1 << 48 | next(plain))
    assert _late(stand.source(), None, day) == [2]


def test_an_empty_project_is_heard_of_later(stand: Stand) -> None:
    """There is no mark to keep yet."""
    source = stand.source()
    assert _late(source, None) == []
    assert source.watermark() is None


def test_a_complaint_about_what_is_not_there_is_not_heard_for_ever(stand: Stand) -> None:
    """For a day its root may still come."""
    stand.row(1, 7, begun=NOW - dt.timedelta(hours=2), scores={"thumb": 0})
    stand.row(2, 8, begun=NOW - dt.timedelta(days=2), scores={"thumb": 0})
    source = stand.source()
    traces = {int(t.ref.trace_id, 16): t for t in source.late(WEEKS, None, lambda _ref, _signals: True)}
    assert {n: trace.complete for n, trace in traces.items()} == {7: False}
    assert source.watermark() is not None
    assert sorted(source.notes()) == [
        "1 trace that users complained about lacks its root for more than a day: not judged",
        "1 trace was named, but Braintrust gave no root of it: left for the next run",
    ]


def test_late_complaints_are_held_to_the_filter_too(stand: Stand) -> None:
    """Who looks at prod is not brought dev."""
    for n, tag in ((1, "prod"), (2, "dev")):
        stand.rag(n, tags=[tag])
        stand.merge(n, scores={"thumb": 0})
    assert _late(stand.source(tags="prod"), None) == [1]


def test_a_watermark_is_not_moved_by_a_reading_that_was_not_whole(aged: tuple[Stand, list[float]]) -> None:
    """Nor by one that failed."""
    stand, _ = aged
    stand.merge(1, scores={"thumb": 0})
    source = stand.source()
    assert source.watermark() is None
    next(source.late(WEEKS, None, lambda _ref, _signals: True), None)
    assert source.watermark() is None
    stand.standin.fail("/btql", 503, times=10**6)
    with pytest.raises(PlatformError):
        _late(source, None)
    assert source.watermark() is None
