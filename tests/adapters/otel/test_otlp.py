"""Scores reach a backend of OpenTelemetry once each, in the context of what was judged, over HTTP and gRPC."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

from backend import Backend, attributes, backend
from groundtrace.adapters.otel.otlp import OtlpSink
from groundtrace.adapters.otel.sending import backend as opened
from groundtrace.adapters.otel.sending import headers_of
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.published import results
from groundtrace.errors import PlanError
from groundtrace.model import Ref, Score, Scorecard, card_id
from groundtrace.plan import Plan
from groundtrace.ports import Sink
from groundtrace.run import run
from groundtrace.store import open_store
from groundtrace.testing import HOSTILE_TEXTS, SinkContract, sample_card
from killed import corpus

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
ANSWER = Ref("otel", trace_id=TRACE, span_id=SPAN, keys={"response_id": "chatcmpl-1"})
ROOT = Ref("otel", trace_id=TRACE, span_id="00f067aa0ba90200")


@pytest.fixture
def there() -> Iterator[Backend]:
    """A backend on loopback."""
    with backend() as made:
        yield made


def card(*scores: Score, **fields: Any) -> Scorecard:
    """A card of a trace that came from OpenTelemetry."""
    made = {"ref": ROOT, "targets": {"root": ROOT, "answer": ANSWER}, "timestamp": "2026-11-30T10:00:00.5+00:00"}
    made |= {"id": card_id(ROOT, fields.get("rubric", "source_support")), "judge_kind": "llm"}
    return sample_card(*scores, **(made | fields))


def cards(n: int) -> list[Scorecard]:
    """Cards of as many traces."""
    refs = [Ref("otel", trace_id=f"{at + 1:032x}", span_id=f"{at + 1:016x}") for at in range(n)]
    return [card(ref=ref, targets={"root": ref}, id=card_id(ref, "source_support")) for ref in refs]


def sink(url: str, **more: Any) -> OtlpSink:
    """A sink that waits for nothing."""
    return OtlpSink(url, **{"patience": 5.0, "sleep": lambda _: None} | more)


def states(made: Sink, *told: Scorecard) -> dict[str, str]:
    """What became of each score."""
    return {receipt.score: receipt.state for receipt in made.write(told)}


class TestContract(SinkContract):
    """What `run` relies on in a sink; what was sent is known to the sink that sent it."""

    @pytest.fixture(autouse=True)
    def _somewhere(self, there: Backend) -> None:
        self.there, self.made = there, sink(there.http)

    def make(self) -> Sink:
        """The sink."""
        return self.made

    def stored(self) -> Mapping[str, float | None]:
        """What the newest event under each name says."""
        held = [attributes(log) for log in self.there.logs()]
        names = "gen_ai.evaluation.name", "gen_ai.evaluation.score.value"
        return {told[names[0]].removeprefix("groundtrace."): told.get(names[1]) for told in held}


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_an_event_a_score_and_a_span_a_card(there: Backend, scheme: str) -> None:
    """The event in the context of the answer's span, the evaluator span in a trace of its own, linked to it once."""
    assert set(states(sink(getattr(there, scheme)), card()).values()) == {"written"}
    told = [attributes(log) for log in there.logs()]
    assert {one["gen_ai.evaluation.name"] for one in told} == {
        "groundtrace.source_support",
        "groundtrace.source_support.citation_precision",
    }
    for log in there.logs():
        assert (log.trace_id.hex(), log.span_id.hex(), log.event_name) == (TRACE, SPAN, "gen_ai.evaluation.result")
    [span] = there.spans()
    assert span.trace_id.hex() != TRACE
    assert not span.parent_span_id
    [link] = span.links
    assert (link.trace_id.hex(), link.span_id.hex()) == (TRACE, SPAN)
    held = attributes(span)
    assert held["openinference.span.kind"] == "EVALUATOR"
    assert (held["evaluations.0.evaluation.name"], held["evaluations.0.evaluation.score"]) == (
        "groundtrace.source_support",
        4.0,
    )


def test_a_late_child_stands_in_the_trace_itself(there: Backend) -> None:
    """Or there is no evaluator span at all."""
    states(sink(there.http, spans="child"), card())
    [span] = there.spans()
    assert (span.trace_id.hex(), span.parent_span_id.hex(), list(span.links)) == (TRACE, SPAN, [])
    assert span.name == "evaluate source_support"
    states(sink(there.http, spans="none"), card())
    assert len(there.spans()) == 1
    assert len(there.logs()) == 4


def test_only_what_is_new_is_sent(there: Backend) -> None:
    """A changed card is sent as its newest version; a score that is no more is withdrawn."""
    made = sink(there.http)
    states(made, card())
    assert set(states(made, card()).values()) == {"unchanged"}
    assert (len(there.logs()), len(there.spans())) == (2, 1)
    fewer = card(Score(name="source_support", value=2.0, low=1, high=5, label="Weakly Related", rationale="r"))
    assert states(made, fewer) == {"source_support": "written", "source_support.citation_precision": "written"}
    first, second = (attributes(log) for log in there.logs()[2:])
    assert (first["gen_ai.evaluation.score.value"], second["gen_ai.evaluation.score.label"]) == (2.0, "withdrawn")
    assert "gen_ai.evaluation.score.value" not in second


def test_what_a_store_knows_was_sent_is_not_sent_again(there: Backend, tmp_path: Path) -> None:
    """By another run, through another sink."""
    traces = corpus(tmp_path / "traces.jsonl", 5)
    plan = Plan(sources=f"otel:{traces}", sinks=(f"otlp:{there.http}",), rubrics=("source_support",), sample=1.0)
    with open_store(tmp_path / "s.db") as store:
        first = run(plan, memory=store)
        sent = len(there.logs())
        again = run(plan, memory=store)
    [told], [same] = first.receipts.values(), again.receipts.values()
    assert told["written"] == sent > 0
    assert same.keys() == {"unchanged"}
    assert len(there.logs()) == sent


def test_many_cards_go_together(there: Backend) -> None:
    """Each has its receipts."""
    told = list(sink(there.http).write(cards(100)))
    assert {receipt.state for receipt in told} == {"written"}
    assert len({receipt.card_id for receipt in told}) == 100
    assert len(there.spans()) == 100
    assert len(there.came) == 4


def test_a_backend_that_is_busy_is_asked_again(there: Backend) -> None:
    """In its own time."""
    waited: list[float] = []
    answers = iter([(429, {"Retry-After": "3"}), (503, {"Retry-After": "1"})])
    there.refuse = lambda came: next(answers, None)
    assert set(states(sink(there.http, patience=60.0, sleep=waited.append), card()).values()) == {"written"}
    assert waited == [3.0, 1.0]


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_what_is_refused_is_named(there: Backend, scheme: str) -> None:
    """And due the next time."""
    there.refuse = lambda came: (400, {})
    made = sink(getattr(there, scheme))
    [*told] = made.write([card()])
    assert {receipt.state for receipt in told} == {"failed"}
    assert "refused" in (told[0].reason or "")
    there.refuse = None
    assert set(states(made, card()).values()) == {"written"}


def test_what_is_left_out_of_a_request_is_not_confirmed(there: Backend) -> None:
    """Nobody says which of them it was."""
    there.partial = lambda came: (1, "too old")
    [*told] = sink(there.http).write(cards(3))
    assert {receipt.state for receipt in told} == {"unconfirmed"}
    assert "left out 1: too old" in (told[0].reason or "")


def test_a_backend_without_a_place_for_logs_is_sent_the_spans(there: Backend) -> None:
    """As Phoenix and MLflow are; it is noted once. One that takes neither is no place for scores."""
    there.refuse = lambda came: (405, {}) if came.signal == "logs" else None
    made = sink(there.http)
    assert {receipt.state for receipt in made.write(cards(100))} == {"written"}
    assert len(there.spans()) == 100
    [note] = made.notes()
    assert "takes no logs, so no events were sent" in note
    there.refuse = lambda came: (404, {})
    [*told] = sink(there.http).write([card()])
    assert {receipt.state for receipt in told} == {"failed"}


def test_nobody_there_is_said() -> None:
    """Where nothing answered, nothing arrived."""
    with backend() as gone:
        url = gone.http
    clock = iter(range(0, 1000, 5))
    [*told] = sink(url, clock=lambda: float(next(clock))).write([card()])
    assert {receipt.state for receipt in told} == {"failed"}
    assert "did not answer" in (told[0].reason or "")


def test_a_card_of_elsewhere_names_its_target_in_attributes(there: Backend) -> None:
    """OTLP has no room for other platforms' ids; a link could not be made."""
    ref = Ref("langsmith", trace_id="0198a1b2-0000-7000-8000-000000000001")
    assert set(states(sink(there.http), card(ref=ref, targets={"root": ref})).values()) == {"written"}
    log = there.logs()[0]
    assert not log.trace_id
    assert attributes(log)["groundtrace.target.trace_id"] == ref.trace_id
    assert there.spans() == []


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_any_text_arrives(there: Backend, text: str) -> None:
    """Half characters as U+FFFD."""
    score = Score(name="source_support", value=4.0, low=1, high=5, label="Implies", rationale=text)
    assert set(states(sink(there.http), card(score)).values()) == {"written"}


def test_headers_come_from_the_environment(there: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """As OpenTelemetry writes them; what they hold is never shown."""
    monkeypatch.setenv("KEYS", "Authorization=Bearer%20s3cret, x-project = a%2Cb")
    states(sink(there.http, headers_env="KEYS"), card())
    states(sink(there.grpc, headers_env="KEYS"), card())
    for came in there.came:
        assert (came.headers["authorization"], came.headers["x-project"]) == ("Bearer s3cret", "a,b")
    monkeypatch.setenv("BAD", "s3cret")
    for name, said in (("NONE", "is not set"), ("BAD", "holds no headers")):
        with pytest.raises(PlanError, match=said) as caught:
            headers_of(name)
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "localhost:4318", "ftp://host", "http://", "http://me:s3cret@host", "http://host?key=s3cret", "http://h:x"],
)
def test_what_is_no_address_is_said(url: str) -> None:
    """Without what may be a secret in it."""
    with pytest.raises(PlanError, match=r"is no address of a backend|holds more than an address") as caught:
        OtlpSink(url)
    assert "s3cret" not in str(caught.value)


def test_a_whole_address_is_one_too(there: Backend) -> None:
    """As settings have it for one signal."""
    states(sink(f"{there.http}/v1/traces"), card())
    assert len(there.came) == 2
    assert json.loads(attributes(there.logs()[0])["gen_ai.evaluation.evaluator.source"])["name"]


def test_events_are_there_once_where_spans_had_to_be_tried_again(there: Backend) -> None:
    """A backend that takes events and fails at spans, run after run: a span has an id of its own, an event has none."""
    there.refuse = lambda came: (500, {}) if came.signal == "traces" else None
    for _ in range(3):
        assert set(states(sink(there.http, patience=0.0), card()).values()) == {"failed"}
    assert there.logs() == []
    there.refuse = None
    assert set(states(sink(there.http), card()).values()) == {"written"}
    assert (len(there.logs()), len(there.spans())) == (len(results(card())), 1)


def test_events_are_sent_where_a_span_is_left_out(there: Backend) -> None:
    """That it was is told."""
    there.partial = lambda came: (1, "too old") if came.signal == "traces" else (0, "")
    assert set(states(sink(there.http), card()).values()) == {"unconfirmed"}
    assert len(there.logs()) == len(results(card()))


def test_who_is_busy_is_told_from_who_is_sent_too_much() -> None:
    """They have one word in gRPC: what is too large is sent in halves, who is busy is asked again."""
    with backend() as there:
        to = opened(there.grpc)
        there.refuse = lambda _: (429, {})
        with pytest.raises(Refused) as busy:
            to.send("traces", b"")
        there.refuse = None
        large = trace_service.ExportTraceServiceRequest()
        scope = large.resource_spans.add().scope_spans.add()
        scope.spans.add(name=random.Random(0).randbytes(3 << 20).hex())
        with pytest.raises(Refused) as giant:
            to.send("traces", large.SerializeToString())
        to.close()
    assert (busy.value.status, giant.value.status) == (429, 413)
    assert there.came == []
