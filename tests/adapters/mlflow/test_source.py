"""Traces come from a real MLflow whole, once, in the window and as they were sent."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from groundtrace.adapters.mlflow.api import Api
from groundtrace.adapters.mlflow.sink import MLflowSink
from groundtrace.adapters.mlflow.source import MLflowSource
from groundtrace.adapters.otel import OtelSource
from groundtrace.errors import PlanError, PlatformError
from groundtrace.memory import InMemory
from groundtrace.model import Record, Ref, Signal, Trace, Window
from groundtrace.plan import Plan
from groundtrace.ports import Source
from groundtrace.read import read
from groundtrace.run.watch import watch
from groundtrace.sampling import sample
from groundtrace.testing import SourceContract
from mlflow_house import House, ident
from servers import Server

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces"
VOCABULARIES = Plan(sources=("otel:-",)).vocabularies()
SECOND = 1_000_000_000


def every(ref: Ref, signals: tuple[Signal, ...]) -> bool:
    """Look at all of them."""
    return True


@pytest.fixture
def house(mlflow_server: Server) -> House:
    """An experiment of its own."""
    return House(mlflow_server.url)


class TestContract(SourceContract):
    """What `run` relies on."""

    @pytest.fixture(autouse=True)
    def _house(self, house: House) -> None:
        self.house = house
        house.ask(3)

    def make(self) -> Source:
        return self.house.source()


# --- what is read -----------------------------------------------------------------------------------------------------


def told(record: Record) -> object:
    """What of a record a judge sees, and what it lacks."""
    context = [(passage.id, passage.text) for passage in record.context]
    gaps = [(gap.field, gap.reason) for gap in record.gaps]
    return record.kind, record.query, context, record.answer, record.citations, gaps, record.slices


@pytest.mark.parametrize(
    "name",
    [
        "langchain-openinference",
        "langchain-genai",
        "langchain-traceloop",
        "langfuse-langchain",
        "llamaindex-openinference",
        "mlflow-functions",
        "langgraph-mlflow",
        "anthropic-mlflow-3.17",
    ],
)
def test_what_was_sent_is_read_as_from_a_file(house: House, name: str) -> None:
    """By whatever vocabulary: MLflow's translation of it hides nothing."""
    path = FIXTURES / f"{name}.jsonl"
    house.post(path)
    kept = OtelSource(str(path)).traces(Window(), every)
    wanted = {(record.ref.trace_id, record.ref.span_id): told(record) for t in kept for record in read(t, VOCABULARIES)}
    assert len(wanted) >= 3
    ids = [f"tr-{ident}" for ident in sorted({trace_id for trace_id, _ in wanted})]
    pulled = list(house.source(ids=ids).traces(Window(), every))
    assert all(trace.complete for trace in pulled)
    found = {
        (record.ref.trace_id.removeprefix("tr-"), record.ref.span_id): told(record)
        for trace in pulled
        for record in read(trace, VOCABULARIES)
    }
    assert found == wanted


def test_both_vocabularies_of_one_application_give_the_same_records(house: House) -> None:
    """OpenInference's and OpenTelemetry's."""
    ids = {style: set(house.ask(2, style)) for style in ("openinference", "genai")}
    records = {}
    for trace in house.source().traces(Window(), every):
        (record,) = read(trace, VOCABULARIES)
        style = next(name for name, held in ids.items() if trace.ref.trace_id in held)
        records.setdefault(style, []).append((record.query, [p.text for p in record.context], record.answer))
    assert sorted(records["openinference"]) == sorted(records["genai"])
    assert records["genai"][0][0].startswith("When does the ferry")


def test_session_tags_and_service_of_a_trace_reach_its_record(house: House) -> None:
    """They stand in what MLflow tells of the whole trace, and on no span."""
    (trace_id,) = house.ask(1)
    house.api.call("PATCH", f"/api/3.0/mlflow/traces/{trace_id}/tags", json={"key": "env", "value": "prod"})
    (trace,) = house.source().traces(Window(), every)
    (record,) = read(trace, VOCABULARIES)
    assert record.ref.keys["session_id"] == "session-0"
    assert record.slices["service"] == "ferry-desk"
    root = next(span for span in trace.spans if span.parent_id is None)
    assert root.attributes["mlflow.traceTag.env"] == "prod"


# --- pages, windows, filters ------------------------------------------------------------------------------------------


def test_more_traces_than_a_page_come_each_once_and_oldest_first(house: House) -> None:
    """MLflow gives 500 at most; spans are asked for only of those that were chosen."""
    ids = house.ask(520)
    asked: list[str] = []

    def some(ref: Ref, signals: tuple[Signal, ...]) -> bool:
        asked.append(ref.trace_id)
        return ref.trace_id in chosen

    chosen = {ids[0], ids[499], ids[500], ids[519]}
    traces = list(house.source().traces(Window(), some))
    assert sorted(asked) == sorted(ids)
    assert {trace.ref.trace_id for trace in traces} == chosen
    began = [(trace.spans[0].start or 0) // 1_000_000 for trace in traces]  # MLflow orders by milliseconds
    assert began == sorted(began)
    assert all(len(trace.spans) == 3 for trace in traces)


def test_a_window_holds_what_began_in_it(house: House) -> None:
    """From its begin on, up to its end."""
    house.ask(1)
    time.sleep(0.02)
    middle = time.time_ns()
    time.sleep(0.02)
    house.ask(1)
    before = list(house.source().traces(Window(middle - 60 * SECOND, middle), every))
    after = list(house.source().traces(Window(middle, None), every))
    assert len(before) == len(after) == 1
    assert (before[0].spans[0].start or 0) < middle <= (after[0].spans[0].start or 0)
    assert not list(house.source().traces(Window(middle + 3600 * SECOND, None), every))


def test_without_a_begin_a_day_is_looked_at_and_that_is_said(house: House) -> None:
    """What is older is not there."""
    old, start = ident(), time.time_ns() - 90_000 * SECOND
    house.send(old, [span("1", start=start)])
    house.ask(1)
    source = house.source()
    assert len(list(source.traces(Window(), every))) == 1
    assert source.notes()[0].startswith("looked at 24 hours, from ")
    assert len(list(house.source().traces(Window(0), every))) == 2


def test_a_filter_is_mlflows_own(house: House) -> None:
    """And one it does not take is named."""
    house.ask(2, failing=[1])
    (failed,) = house.source(filter="span.status = 'ERROR'").traces(Window(), every)
    assert any(one.status == "error" for one in failed.spans)
    with pytest.raises(PlatformError, match="Invalid"):
        list(house.source(filter="(oops)").traces(Window(), every))


def test_a_failed_span_is_told_to_who_wants_to_know(house: House) -> None:
    """As a signal named error; of MLflow's own word for the trace no trace of it is seen where the root is well."""

    class Patient:
        patient = True

        def __call__(self, ref: Ref, signals: tuple[Signal, ...]) -> bool:
            return any(signal.name == "error" for signal in signals)

    ids = house.ask(3, failing=[2])
    assert [trace.ref.trace_id for trace in house.source().traces(Window(), Patient())] == [ids[2]]


# --- what is not over -------------------------------------------------------------------------------------------------


def span(number: str, parent: str | None = None, start: int | None = None, **told: object) -> dict[str, object]:
    """A span as OTLP writes it."""
    began = start or time.time_ns() - 3 * SECOND
    made = {"spanId": number * 16, "name": f"span {number}", "startTimeUnixNano": str(began)}
    made |= {"endTimeUnixNano": str(began + SECOND // 100), **({"parentSpanId": parent * 16} if parent else {})}
    return {**made, **told}


def test_a_trace_that_ended_just_now_is_left_until_it_has_settled(house: House) -> None:
    """By the clock of who reads."""
    house.ask(1)
    (young,) = house.source(settle=30.0).traces(Window(), every)
    assert not young.complete
    (settled,) = house.source(settle=30.0, clock=lambda: time.time() + 60).traces(Window(), every)
    assert settled.complete


def test_a_trace_whose_root_is_still_to_come_is_left_and_one_that_never_came_is_counted(house: House) -> None:
    """A day is waited for it."""
    trace = ident()
    house.send(trace, [span("2", parent="1")])
    source = house.source()
    assert [t.complete for t in source.traces(Window(), every)] == [False]
    assert any("left for the next run" in note for note in source.notes())
    stale = house.source(clock=lambda: time.time() + 25 * 3600)
    assert not list(stale.traces(Window(0), every))
    assert any("never told to have ended" in note for note in stale.notes())
    house.send(trace, [span("1")])
    (whole,) = house.source().traces(Window(), every)
    assert (whole.complete, len(whole.spans)) == (True, 2)


def test_a_trace_that_lacks_a_span_between_is_left_for_an_hour_and_then_read_as_it_is(house: House) -> None:
    """What others stand below may still come."""
    house.send(ident(), [span("1"), span("3", parent="2")])
    assert [t.complete for t in house.source().traces(Window(), every)] == [False]
    later = house.source(clock=lambda: time.time() + 2 * 3600)
    assert [(t.complete, len(t.spans)) for t in later.traces(Window(0), every)] == [(True, 2)]
    assert any("read as it is" in note for note in later.notes())


def test_traces_of_our_own_judges_are_never_judged(house: House) -> None:
    """They are counted."""
    mark = [{"key": "groundtrace.judge", "value": {"boolValue": True}}]
    house.send(ident(), [span("1", attributes=mark)])
    source = house.source()
    assert not list(source.traces(Window(), every))
    assert any("of our own judges" in note for note in source.notes())


def test_ids_that_are_gone_are_counted(house: House) -> None:
    """With and without what MLflow puts before them."""
    known, gone = house.ask(1)[0], ident()
    source = house.source(ids=[known.removeprefix("tr-"), f"tr-{gone}"])
    assert [trace.ref.trace_id for trace in source.traces(Window(), every)] == [known]
    assert any("asked for by its id" in note for note in source.notes())


# --- what users say ---------------------------------------------------------------------------------------------------


def test_what_users_said_is_told_before_spans_are_fetched(house: House) -> None:
    """A thumb down picks its trace whatever the sample; a judge's word, or one on our own score, does not."""
    ids = house.ask(4)
    house.say(ids[0], "thumb", value=False, rationale="wrong hour")
    house.say(ids[1], "thumb", value=True)
    judged = {"source_type": "LLM_JUDGE", "source_id": "another"}
    house.api.create(
        ids[2],
        {"assessment_name": "safe", "trace_id": ids[2], "source": judged, "feedback": {"value": False}},
    )
    list(house.sink().write([house.card(ids[3])]))
    house.edit(house.row(ids[3], "source_support"), 0)
    picked = list(house.source().traces(Window(), sample(0.0)))
    assert [trace.ref.trace_id for trace in picked] == [ids[0]]
    assert picked[0].signals == (Signal("thumb", value=False, negative=True, comment="wrong hour", source="mlflow"),)


def test_a_complaint_that_comes_later_brings_its_trace_back_once(house: House) -> None:
    """From when it was heard on; what was said before is not asked again."""
    ids = house.ask(3)
    source = house.source()
    assert not list(source.late(Window(), None, every))
    heard = source.watermark()
    house.say(ids[1], "thumb", value=False)
    later = Window(time.time_ns() + SECOND)  # none of them began in it
    again = house.source(clock=lambda: time.time() + 1)
    assert [trace.ref.trace_id for trace in again.late(later, heard, every)] == [ids[1]]
    much = house.source(clock=lambda: time.time() + 1000)
    list(much.late(later, heard, every))
    assert not list(house.source(clock=lambda: time.time() + 1001).late(later, much.watermark(), every))


def test_a_watch_reads_a_trace_once_it_is_over(house: House) -> None:
    """The one whose parent is missing is asked for by its id when the window left it behind."""
    trace, began = ident(), time.time_ns() - 3 * SECOND
    house.send(trace, [span("2", parent="1", start=began)])
    plan = Plan(
        sources=f"mlflow:{house.name},tracking_uri={house.url},settle=0",
        sample=1.0,
        rubrics="source_support",
        since=dt.datetime.fromtimestamp(began / 1e9 - 1, dt.UTC),
    )
    now = [dt.datetime.now(dt.UTC)]
    rounds = watch(plan, InMemory(), every=1, overlap=0, clock=lambda: now[0], sleep=lambda _: None)
    first = next(rounds)
    assert (first.report.growing, first.trouble) == (1, "")
    house.send(trace, [span("1", start=began)])
    now[0] += dt.timedelta(hours=6)
    second = next(rounds)
    assert (second.report.traces, second.report.growing, second.trouble) == (1, 0, "")


# --- where it is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["", "databricks", "sqlite:///x.db", "mlruns"])
def test_what_is_no_address_is_said_before_anything_is_asked(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for door in (MLflowSource, MLflowSink):
        with pytest.raises(PlanError, match="mlflow server"):
            door("x", tracking_uri=uri)


def test_what_is_no_mlflow_is_told_at_once(phoenix_server: Server) -> None:
    """Phoenix gives its own page for any address."""
    with pytest.raises(PlatformError, match=r'this is no MLflow: .* with 200 and a web page, "Phoenix"'):
        list(MLflowSource("x", tracking_uri=phoenix_server.url).traces(Window(), every))
    checks = list(MLflowSource("x", tracking_uri=phoenix_server.url).doctor())
    assert "not the address of another service" in checks[-1].remedy


def test_the_address_and_the_login_come_from_the_environment(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is in the address is never shown."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", house.url)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret-token")
    assert not list(MLflowSource(house.name).traces(Window(), every))
    assert Api()._login() == {"Authorization": "Bearer secret-token"}  # no server of the tests asks for one
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://ada:hidden@127.0.0.1:9")
    source = MLflowSource("x")
    assert source.api.url == "http://127.0.0.1:9"
    assert Api()._login() == {"Authorization": "Basic YWRhOmhpZGRlbg=="}


def test_a_name_that_is_no_experiment_is_answered_with_the_nearest(house: House) -> None:
    """It is never made."""
    with pytest.raises(PlanError, match=f"did you mean '{house.name}'"):
        list(MLflowSource(f"{house.name}x", tracking_uri=house.url).traces(Window(), every))
    assert list(MLflowSource(house.id, tracking_uri=house.url).traces(Window(), every)) == []


def test_the_doctor_says_what_is_well(house: House) -> None:
    """And how to mend what is not."""
    house.ask(1)
    checks = {check.name: check for check in house.source().doctor()}
    assert all(check.well for check in checks.values())
    assert checks["MLflow traces"].detail == "1 in the last 24 hours, 0 with scores of ours"
    wrong = list(MLflowSource("absent", tracking_uri=house.url).doctor())
    assert [check.name for check in wrong if not check.well] == ["MLflow experiment"]


def test_the_doctor_of_nobody_is_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing listens there."""
    from groundtrace.adapters.mlflow import doctor

    told: Callable[..., list[object]] = lambda: list(doctor.checks(Api("http://127.0.0.1:9"), "x", now=0, patience=0))  # noqa: E731
    assert "did not answer" in str(told()[-1])


def test_a_trace_survives_being_pulled_twice(house: House) -> None:
    """The same spans, the same order."""
    house.ask(2)
    once: list[Trace] = list(house.source().traces(Window(), every))
    assert once == list(house.source().traces(Window(), every))
