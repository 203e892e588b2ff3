"""Traces are pulled from a real Phoenix as they were sent there: whole, once, and only those that are wanted."""

from __future__ import annotations

import time
import uuid

import pytest
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

import exported
from exported import ANSWER, PASSAGES, QUESTION, SECOND, Style
from groundtrace.adapters.phoenix import source
from groundtrace.adapters.phoenix.api import Api
from groundtrace.adapters.phoenix.source import PhoenixSource
from groundtrace.errors import PlanError, PlatformError
from groundtrace.memory import InMemory
from groundtrace.model import JUDGE_MARK, Record, Ref, Signal, Trace, Window
from groundtrace.plan import Plan
from groundtrace.ports import Source
from groundtrace.run import look, run
from groundtrace.run.watch import watch
from groundtrace.testing import SourceContract

from .conftest import Desk

MINUTE = 60 * SECOND
HOUR = Window(since=time.time_ns() - 3600 * SECOND)


def every(_: Ref, __: tuple[Signal, ...]) -> bool:
    """All traces are wanted."""
    return True


def pulled(desk: Desk, **options: object) -> list[Trace]:
    """All traces of the project."""
    return list(PhoenixSource(desk.project, **options).traces(HOUR, every))  # type: ignore[arg-type]


class TestContract(SourceContract):
    """What every source promises."""

    @pytest.fixture(autouse=True)
    def _two(self, desk: Desk) -> None:
        desk.send(2)
        self.desk = desk

    def make(self) -> Source:
        """The project."""
        return PhoenixSource(self.desk.project)


@pytest.mark.parametrize("grpc", [False, True], ids=["http", "grpc"])
def test_every_style_gives_the_same_record(desk: Desk, *, grpc: bool) -> None:
    """Phoenix translates what it is sent; what is read of it stays the same."""
    styles: tuple[Style, ...] = ("openinference", "genai", "both")
    sent = [desk.send(style=style, session=desk.project, grpc=grpc)[0] for style in styles]
    records: list[Record] = []
    look(Plan(sources=f"phoenix:{desk.project}", sample=1.0, since="1h"), records.append)
    assert len(records) == 3
    for record in records:
        ids = next(one for one in sent if one.trace == record.ref.trace_id)
        assert record.query == QUESTION
        assert record.answer == ANSWER
        assert [(p.id, p.text, p.score) for p in record.context] == list(PASSAGES)
        assert [(p.target[0].span_id, p.target[1]) for p in record.context if p.target] == [
            (ids.retriever, at) for at in range(3)
        ]
        assert {name: ref.span_id for name, ref in record.targets.items()} == {
            "root": ids.root,
            "answer": ids.llm,
            "retrieval": ids.retriever,
        }
        assert record.ref.keys["session_id"] == desk.project
        assert not record.gaps


def test_a_trace_of_more_spans_than_a_page(desk: Desk) -> None:
    """1,203 spans: all of them, each once."""
    at = desk.now - 20 * MINUTE
    with exported.tracer(desk.url, desk.project, batched=True) as made:
        sent = exported.answered(made, at=at)
        above = SpanContext(int(sent.trace, 16), int(sent.root, 16), is_remote=True, trace_flags=TraceFlags(1))
        within = set_span_in_context(NonRecordingSpan(above))
        for n in range(1200):
            made.start_span(f"step {n}", within, start_time=at).end(at + SECOND)
    desk.wait(1203, [sent.trace])
    (one,) = pulled(desk)
    assert len(one.spans) == 1203
    assert len({span.id for span in one.spans}) == 1203
    assert one.complete


def test_more_traces_than_a_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, each once, the oldest first."""
    monkeypatch.setattr(source, "PAGE", 2)
    monkeypatch.setattr(Api.pages, "__kwdefaults__", {"limit": 2, "patience": None})
    sent = desk.send(7)
    assert [trace.ref.trace_id for trace in pulled(desk)] == [one.trace for one in reversed(sent)]
    assert all(len(trace.spans) == 3 for trace in pulled(desk))


def test_what_ended_just_now_waits(desk: Desk) -> None:
    """For `settle` seconds, and then it is whole."""
    desk.send(ago=5)

    def seen(later: float, **options: float) -> list[tuple[bool, int]]:
        asked = PhoenixSource(desk.project, clock=lambda: desk.now / SECOND + later, **options)
        return [(trace.complete, len(trace.spans)) for trace in asked.traces(HOUR, every)]

    assert seen(0) == [(False, 0)]
    assert seen(0, settle=1) == [(True, 3)]
    assert seen(26) == [(True, 3)]


def test_what_lacks_its_root_waits_a_while(desk: Desk) -> None:
    """The root of a long request comes last; one that is traced elsewhere never comes."""
    desk.send(ago=120, rooted=False)
    asked = PhoenixSource(desk.project)
    assert [trace.complete for trace in asked.traces(HOUR, every)] == [False]
    assert "parents have not come yet" in asked.notes()[0]
    later = PhoenixSource(desk.project, clock=lambda: desk.now / SECOND + 1200)
    assert [trace.complete for trace in later.traces(HOUR, every)] == [True]
    assert "parents are not on Phoenix: read as it is" in later.notes()[0]


def test_what_people_complained_of_is_told_before_it_is_fetched(desk: Desk) -> None:
    """A thumb down on the trace or on a span of it; not a thumb up, and not what a program said."""
    down, under, up, quiet = desk.send(4)
    desk.said("trace", down.trace, "thumb", score=0, label="down", explanation="This is wrong.")
    desk.said("span", under.llm, "thumb", score=0)
    desk.said("trace", up.trace, "thumb", score=1)
    robot = {"trace_id": quiet.trace, "name": "toxicity", "annotator_kind": "CODE", "result": {"score": 0}}
    desk.api.call("POST", "/trace_annotations", json={"data": [robot]}, params={"sync": "true"})
    heard: dict[str, tuple[Signal, ...]] = {}

    def wanted(ref: Ref, signals: tuple[Signal, ...]) -> bool:
        heard[ref.trace_id] = signals
        return any(signal.negative for signal in signals)

    found = {trace.ref.trace_id for trace in PhoenixSource(desk.project).traces(HOUR, wanted)}
    assert found == {down.trace, under.trace}
    assert heard[down.trace] == (Signal("thumb", 0.0, negative=True, comment="This is wrong.", source="phoenix"),)
    assert heard[up.trace] == heard[quiet.trace] == ()


def test_a_config_says_what_a_complaint_is(desk: Desk) -> None:
    """Stars from 1 to 5 and labels have a middle of their own."""
    stars, mood = f"stars {desk.project}", f"mood {desk.project}"
    bounds = {"type": "CONTINUOUS", "optimization_direction": "MAXIMIZE", "lower_bound": 1, "upper_bound": 5}
    desk.api.call("POST", "/annotation_configs", json={"name": stars, **bounds})
    values = [{"label": 'it\'s "fine"', "score": 1}, {"label": 'it\'s "bad"', "score": 0}]
    kind = {"type": "CATEGORICAL", "optimization_direction": "MAXIMIZE", "values": values}
    desk.api.call("POST", "/annotation_configs", json={"name": mood, **kind})
    two, four, bad, fine = desk.send(4)
    desk.said("trace", two.trace, stars, score=2)
    desk.said("trace", four.trace, stars, score=4)
    desk.said("span", bad.root, mood, label='it\'s "bad"')
    desk.said("span", fine.root, mood, label='it\'s "fine"')
    wanted = PhoenixSource(desk.project).traces(HOUR, lambda _, told: any(signal.negative for signal in told))
    assert {trace.ref.trace_id for trace in wanted} == {two.trace, bad.trace}


def test_a_complaint_that_comes_later_brings_its_trace_back_once(desk: Desk) -> None:
    """Whenever the trace was; the same complaint does not bring it twice."""
    first, second = desk.send(2, ago=1800)
    asked = PhoenixSource(desk.project)
    assert not list(asked.late(HOUR, None, every))
    mark = asked.watermark()
    desk.said("trace", first.trace, "thumb", score=0)
    assert [trace.ref.trace_id for trace in asked.late(Window(since=desk.now), mark, every)] == [first.trace]
    mark = asked.watermark()
    assert not list(asked.late(Window(since=desk.now), mark, every))
    desk.said("span", second.llm, "thumb", score=0)
    assert [trace.ref.trace_id for trace in asked.late(Window(since=desk.now), mark, every)] == [second.trace]


def test_failures_are_told_to_who_asks_for_them(desk: Desk) -> None:
    """And the filter options choose between traces with and without."""
    (failed,) = desk.send(error=True)
    (well,) = desk.send()

    class Patient:
        patient = True

        def __call__(self, _: Ref, signals: tuple[Signal, ...]) -> bool:
            return any(signal.name == "error" for signal in signals)

    found = [trace.ref.trace_id for trace in PhoenixSource(desk.project).traces(HOUR, Patient())]
    assert found == [failed.trace]
    assert [trace.ref.trace_id for trace in pulled(desk, error=True)] == [failed.trace]
    assert [trace.ref.trace_id for trace in pulled(desk, error=False)] == [well.trace]


def test_a_filter_in_phoenix_own_language(desk: Desk) -> None:
    """It picks; one that is none is refused with Phoenix's own words, before anything is judged."""
    desk.send(1)
    (other,) = desk.send(1, session=f"s-{desk.project}")
    assert [trace.ref.trace_id for trace in pulled(desk, session=f"s-{desk.project}")] == [other.trace]
    assert len(pulled(desk, filter="num_spans == 3")) == 2
    assert not pulled(desk, filter="num_spans > 3")
    with pytest.raises(PlanError, match="filter: 'num_spans >' is refused"):
        pulled(desk, filter="num_spans >")


def test_a_window_holds_what_began_in_it(desk: Desk) -> None:
    """From its start on, up to its end, and no more; the oldest first."""
    old, older = desk.send(2, ago=1200)
    (new,) = desk.send(1, ago=300)
    found = [trace.ref.trace_id for trace in PhoenixSource(desk.project).traces(HOUR, every)]
    assert found == [older.trace, old.trace, new.trace]
    late = Window(since=desk.now - 600 * SECOND, until=desk.now)
    assert [trace.ref.trace_id for trace in PhoenixSource(desk.project).traces(late, every)] == [new.trace]


def test_a_project_that_is_not_there_is_said_and_made_by_its_first_span(desk: Desk) -> None:
    """With the one that may be meant."""
    asked = PhoenixSource(desk.project)
    for ask in (asked.traces(HOUR, every), asked.late(HOUR, None, every), asked.labels()):
        with pytest.raises(PlatformError, match=f"Phoenix has no project {desk.project!r}"):
            list(ask)
    desk.send()
    assert len(list(asked.traces(HOUR, every))) == 1
    with pytest.raises(PlatformError, match=rf"did you mean {desk.project!r}\?"):
        list(PhoenixSource(f"{desk.project}x").traces(HOUR, every))


def test_a_run_of_a_project_that_is_not_there_fails(desk: Desk) -> None:
    """It is no run that found nothing; a watch goes on, and says so with each round."""
    report = run(Plan(sources=f"phoenix:{desk.project}", sample=1.0))
    assert [f"Phoenix has no project {desk.project!r}" in why for why in report.failed] == [True]
    rounds = watch(Plan(sources=f"phoenix:{desk.project}", sample=1.0), InMemory(), every=1, sleep=lambda _: None)
    assert "has no project" in next(rounds).trouble
    desk.send()
    second = next(rounds)
    assert (second.trouble, second.report.traces) == ("", 1)


def test_a_project_by_a_name_no_address_can_hold(desk: Desk) -> None:
    """And by its id."""
    desk.project = f"a/b ?#{uuid.uuid4().hex}"
    desk.send()
    assert len(pulled(desk)) == 1
    by_id = PhoenixSource(desk.id)
    assert [len(trace.spans) for trace in by_id.traces(HOUR, every)] == [3]


def test_our_own_judges_traces_are_left_out(desk: Desk) -> None:
    """They are never judged."""
    desk.send(more={JUDGE_MARK: "source_support"})
    asked = PhoenixSource(desk.project)
    assert not list(asked.traces(HOUR, every))
    assert "1 trace of our own judges: left out" in asked.notes()


def test_traces_by_their_ids(desk: Desk) -> None:
    """Those and no others, whenever they were; one that is not there may still come."""
    one, _ = desk.send(2, ago=30 * 3600)
    found = pulled(desk, ids=[one.trace, "f" * 32])
    assert [(trace.ref.trace_id, trace.complete) for trace in found] == [(one.trace, True), ("f" * 32, False)]


def test_an_address_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said soon, with the setting that names it."""
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", "http://127.0.0.1:1")
    asked = PhoenixSource("p")
    asked.api = Api(patience=0.1)
    with pytest.raises(PlatformError, match="is the address right"):
        list(asked.traces(HOUR, every))
    with pytest.raises(PlanError, match="is no address of Phoenix"):
        PhoenixSource("p", base_url="localhost:6006")
