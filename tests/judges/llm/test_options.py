"""What stands around a model: votes, a redaction, a cache, spans; and that a batch can be named like any judge."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from groundtrace import record
from groundtrace.errors import PlanError
from groundtrace.evaluate import evaluate
from groundtrace.judges.llm.prices import price_of
from groundtrace.judges.llm.settings import Settings
from groundtrace.model import JUDGE_MARK, Record, Ref, Scorecard, Span, Trace
from groundtrace.plan import Plan
from groundtrace.plugins import judge, load
from groundtrace.read import read
from groundtrace.run import run
from standins.llm import StandIn, standing

RECORDS: list[Record] = [
    record(
        id=f"r{n}",
        query="When does it leave?",
        context=[f"The night ferry number {n} leaves at 21:40 and Ada Lovelace sells the tickets."],
        answer=f"The night ferry number {n} leaves at 21:40 [1].",
    )
    for n in range(4)
]


@pytest.fixture(scope="module")
def stand() -> Iterator[StandIn]:
    """A provider of ours."""
    with standing() as made:
        yield made


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-tests")


def cards(spec: str) -> list[Scorecard]:
    """The cards of the records by a judge of that spec."""
    return sorted(evaluate(RECORDS, [load("rubric", "rag_faithfulness")], judge(spec)), key=lambda c: c.record_id)


def test_three_votes_are_three_questions_and_one_card(stand: StandIn) -> None:
    """The judge's id says so."""
    stand.script()
    found = cards(f"openai:gpt-4o,base_url={stand.v1},votes=3")
    assert [card.status for card in found] == ["scored"] * 4
    assert stand.log()["asked_times"] == {"3": 4}
    assert {card.judge.rpartition(",")[2] for card in found} == {"votes=3"}


def test_what_a_redaction_takes_never_leaves_and_quotes_come_back(
    stand: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of the user's own, named in the spec."""
    code = "def names(text):\n    return text.replace('Ada Lovelace', '[PERSON]')\n"
    (tmp_path / "hidden.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    stand.script(keep=-1)
    found = cards(f"openai:gpt-4o,base_url={stand.v1},redact=hidden:names")
    assert [card.status for card in found] == ["scored"] * 4
    sent = str(stand.kept())
    assert "[PERSON]" in sent
    assert "Ada Lovelace" not in sent
    assert all(card.judge.endswith("redact=hidden:names") for card in found)


def test_a_redaction_that_is_not_there_is_said_before_anything_is_asked(stand: StandIn) -> None:
    """And no judge without it is made."""
    with pytest.raises(PlanError, match="no_such_module"):
        judge(f"openai:gpt-4o,base_url={stand.v1},redact=no_such_module:names")


def test_a_cache_answers_the_second_time(stand: StandIn, tmp_path: Path) -> None:
    """Also with votes inside: what was concluded is kept."""
    spec = f"openai:gpt-4o,base_url={stand.v1},votes=3,cache={tmp_path / 'replies'}"
    stand.script()
    first, asked = cards(spec), stand.log()["requests"]
    second = cards(spec)
    assert asked == 12
    assert stand.log()["requests"] == asked
    assert [c.scores for c in first] == [c.scores for c in second]


class Collector(BaseHTTPRequestHandler):
    """Takes what an exporter sends."""

    taken: list[bytes]

    def do_POST(self) -> None:
        """One export."""
        self.taken.append(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def test_a_traced_judge_leaves_spans_that_are_never_judged(
    stand: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By OTLP to a collector; what it got is then read as a file of traces."""
    stand.script()
    taken: list[bytes] = []
    server = HTTPServer(("127.0.0.1", 0), type("Ours", (Collector,), {"taken": taken}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    try:
        cards(f"openai:gpt-4o,base_url={stand.v1},trace_judge=true")
    finally:
        server.shutdown()
        server.server_close()
    spans = [
        span
        for body in taken
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]
    assert len(spans) == 4
    told = {pair.key: pair.value for pair in spans[0].attributes}
    assert told["gen_ai.operation.name"].string_value == "chat"
    assert told["gen_ai.request.model"].string_value == "gpt-4o"
    assert told["gen_ai.usage.input_tokens"].int_value > 0
    assert spans[0].end_time_unix_nano > spans[0].start_time_unix_nano
    assert "ferry" not in str(spans)
    (tmp_path / "judged.pb").write_bytes(b"".join(taken))  # messages one after the other are one message
    monkeypatch.chdir(tmp_path)
    report = run(Plan(sources="otel:judged.pb", store="none"))
    assert (report.traces, report.cards, report.passed) == (0, {}, {"left by our own judges": 4})


def test_a_judges_span_inside_a_users_trace_is_not_read() -> None:
    """Marked by an attribute where the scope got lost on the way."""
    said = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    messages = '[{"role": "user", "parts": [{"type": "text", "content": "Are dogs free?"}]}]'
    answer = '[{"role": "assistant", "parts": [{"type": "text", "content": "Yes."}], "finish_reason": "stop"}]'
    theirs = {**said, "gen_ai.input.messages": messages, "gen_ai.output.messages": answer}
    ours = {**said, JUDGE_MARK: "openai:m", "gen_ai.output.messages": answer.replace("Yes.", "No.")}
    spans = (
        Span(id="1", trace_id="t", start=1, end=2, attributes=theirs),
        Span(id="2", trace_id="t", parent_id="1", start=3, end=4, attributes=ours),
    )
    (found,) = read(Trace(ref=Ref("otel", trace_id="t"), spans=spans), [load("convention", "genai")])
    assert found.answer == "Yes."


@pytest.mark.parametrize("name", ["openai-batch", "anthropic-batch"])
def test_a_batch_is_named_like_any_judge(stand: StandIn, tmp_path: Path, name: str) -> None:
    """The same cards as a live judge's, at half its price."""
    stand.script(batch={"polls": 2})
    base = stand.v1 if name == "openai-batch" else stand.url
    model = "gpt-4o" if name == "openai-batch" else "claude-sonnet-4-6"
    prices = "input_price=2,output_price=4"
    found = cards(f"{name}:{model},base_url={base},interval=0.01,ledger={tmp_path / 'sent'},{prices}")
    assert [card.status for card in found] == ["scored"] * 4
    live = cards(f"{name.removesuffix('-batch')}:{model},base_url={base},{prices}")
    assert [card.scores for card in found] == [card.scores for card in live]
    assert [card.judge for card in found] == [card.judge for card in live]
    for card in found:
        (asked,) = card.attempts
        assert asked.usage is not None
        assert asked.cost == pytest.approx((asked.usage.input * 2 + asked.usage.output * 4) / 1e6 / 2)


def test_a_run_that_is_stopped_does_not_wait_for_its_batch(
    stand: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that the batch is running, and the next run takes its answers: nothing is asked twice."""
    stand.script(batch={"polls": 1_000_000})
    monkeypatch.chdir(tmp_path)
    line = '{{"id": "r{n}", "query": "When?", "context": ["The ferry {n} leaves at 9."], "answer": "At 9 [1]."}}\n'
    (tmp_path / "few.jsonl").write_text("".join(line.format(n=n) for n in range(3)), encoding="utf-8")
    spec = f"openai-batch:gpt-4o,base_url={stand.v1},interval=0.01,ledger={tmp_path / 'sent'}"
    plan = Plan(sources="few.jsonl", judge=spec, rubrics="rag_faithfulness", store=str(tmp_path / "kept.db"))
    end = time.monotonic() + 2
    stopped = run(plan, stopping=lambda: time.monotonic() > end)
    assert stopped.cards == {}
    assert any("batch" in note for note in stopped.notes)
    stand.script(batch={"polls": 0})
    report = run(plan)
    assert report.cards["rag_faithfulness"] == {"scored": 3}


def test_a_server_the_environment_names_is_not_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    """It shares no replies with OpenAI and has no prices of its; OpenAI's own address is OpenAI."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    own = Settings("openai", "gpt-5.2")
    assert (own.id, price_of(own) is not None) == ("openai:gpt-5.2", True)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert own.id == Settings("openai", "gpt-5.2", base_url="http://127.0.0.1:9/v1").id != "openai:gpt-5.2"
    assert price_of(own) is None
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1/")
    assert (own.id, price_of(own) is not None) == ("openai:gpt-5.2", True)


@pytest.mark.parametrize("prices", [(-2.0, 8.0), (2.0, -8.0)])
def test_a_price_below_nothing(prices: tuple[float, float]) -> None:
    """It would let any sum be spent."""
    with pytest.raises(PlanError, match="less than nothing"):
        Settings("openai", "m", input_price=prices[0], output_price=prices[1])
