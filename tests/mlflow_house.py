"""A real MLflow for a test: an experiment of its own, traces sent to it by OTLP, and what stands on it afterwards."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode

from groundtrace.adapters.mlflow.api import Api, Row
from groundtrace.adapters.mlflow.said import assessments
from groundtrace.adapters.mlflow.sink import MLflowSink
from groundtrace.adapters.mlflow.source import MLflowSource
from groundtrace.model import Ref, Score, Scorecard, card_id
from groundtrace.testing import sample_card

TOWNS = ("Dover", "Calais", "Hull", "Ostend")
_HEADER = "x-mlflow-experiment-id"


@dataclass
class House:
    """An experiment of a running server."""

    url: str
    name: str = field(default_factory=lambda: f"desk-{uuid.uuid4().hex[:12]}")
    id: str = ""

    def __post_init__(self) -> None:
        self.api = Api(self.url)
        made = self.api.call("POST", "/api/2.0/mlflow/experiments/create", json={"name": self.name})
        self.id = str(made["experiment_id"])

    def source(self, **told: Any) -> MLflowSource:
        """The experiment's traces, however fresh."""
        return MLflowSource(self.name, **{"tracking_uri": self.url, "settle": 0.0, **told})

    def sink(self, **told: Any) -> MLflowSink:
        """Its assessments."""
        return MLflowSink(self.name, tracking_uri=self.url, **told)

    # --- traces in ----------------------------------------------------------------------------------------------------

    def ask(self, count: int, style: str = "openinference", failing: Sequence[int] = ()) -> list[str]:
        """Questions answered by an application that OpenTelemetry traces; the ids of its traces, as MLflow has them."""
        exporter = OTLPSpanExporter(endpoint=f"{self.url}/v1/traces", headers={_HEADER: self.id})
        provider = TracerProvider(resource=Resource.create({"service.name": "ferry-desk"}), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=10_000))
        tracer = provider.get_tracer("ferry-desk")
        ids = []
        for n in range(count):
            words = _WORDS[style](n)
            with tracer.start_as_current_span("ask", attributes=words["root"]) as root:
                with tracer.start_as_current_span("retrieve", attributes=words["retriever"]):
                    pass
                with tracer.start_as_current_span("answer", attributes=words["llm"]) as llm:
                    if n in failing:
                        llm.record_exception(ValueError("no more tokens"))
                        llm.set_status(_ERROR)
            ids.append(f"tr-{root.get_span_context().trace_id:032x}")
        assert provider.force_flush()
        provider.shutdown()
        return ids

    def post(self, lines: Path) -> None:
        """Traces of a file of OTLP JSON lines."""
        for line in lines.read_bytes().splitlines():
            headers = {"Content-Type": "application/json", _HEADER: self.id}
            told = httpx2.post(f"{self.url}/v1/traces", content=line, headers=headers, timeout=120)
            assert told.status_code == 200, told.text

    def send(self, trace: str, spans: Sequence[Mapping[str, Any]]) -> None:
        """Spans of one trace, made by hand."""
        told = [{"traceId": trace, "kind": 1, **span} for span in spans]
        body = {"resourceSpans": [{"scopeSpans": [{"spans": told}]}]}
        sent = httpx2.post(f"{self.url}/v1/traces", json=body, headers={_HEADER: self.id}, timeout=120)
        assert sent.status_code == 200, sent.text

    # --- what people say, and what stands there -----------------------------------------------------------------------

    def say(self, trace_id: str, name: str, value: Any, who: str = "ada", **told: Any) -> Row:
        """A person's word, as MLflow's pages send it."""
        source = {"source_type": "HUMAN", "source_id": who}
        return self.api.create(
            trace_id,
            {"assessment_name": name, "trace_id": trace_id, "source": source, "feedback": {"value": value}, **told},
        )

    def edit(self, row: Row, value: Any, who: str = "ada") -> Row:
        """A person's edit of an assessment: MLflow's pages send all that it said, with another value."""
        copied = {name: row[name] for name in ("span_id", "rationale", "metadata") if name in row}
        over = {**copied, "overrides": row["assessment_id"]}
        return self.say(row["trace_id"], row["assessment_name"], value, who, **over)

    def rows(self, *trace_ids: str) -> list[Row]:
        """All assessments that count, of these traces."""
        told = self.api.told(trace_ids).values()
        return [one for info in told for one in assessments(info) if one.get("valid") is not False]

    def row(self, trace_id: str, name: str) -> Row:
        """The one under a name."""
        (found,) = (one for one in self.rows(trace_id) if one["assessment_name"] == name)
        return found

    def card(self, trace_id: str, *scores: Score, **told: Any) -> Scorecard:
        """A card of a trace of MLflow's."""
        ref = Ref("mlflow", self.id, trace_id, told.pop("span_id", None))
        rubric = told.get("rubric", "source_support")
        made = {"id": card_id(ref, rubric), "ref": ref, "targets": {"root": ref, "answer": ref}}
        return sample_card(*scores, **{**made, **told})


@contextmanager
def lossy(url: str, lose: Callable[[str, str], str]) -> Iterator[str]:
    """A way to a server on which things are lost: `lose` hears a request's method and path and says what becomes of it.

    "" passes it on, "answer" passes it on and drops the answer, any other is a status that is answered instead.
    """

    class Way(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fate = lose(self.command, self.path)
            if fate in ("", "answer"):
                headers = {"Content-Type": "application/json"} if body else {}
                told = httpx2.request(self.command, f"{url}{self.path}", content=body, headers=headers, timeout=60)
            if fate == "answer":
                self.close_connection = True
                return
            content = told.content if fate == "" else b"{}"
            self.send_response(told.status_code if fate == "" else int(fate))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = pass_on  # noqa: N815 - the names the library looks for

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Way) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _openinference(n: int) -> dict[str, dict[str, Any]]:
    question, passage, answer = _said(n)
    document = "retrieval.documents.0.document"
    return {
        "root": {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answer,
                 "session.id": f"session-{n % 7}"},
        "retriever": {"openinference.span.kind": "RETRIEVER", "input.value": question,
                      f"{document}.id": f"kb-{n}", f"{document}.content": passage},
        "llm": {"openinference.span.kind": "LLM", "llm.model_name": "tiny-1",
                "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": question,
                "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": answer},
    }  # fmt: skip


def _genai(n: int) -> dict[str, dict[str, Any]]:
    question, passage, answer = _said(n)
    asked = f'[{{"role":"user","parts":[{{"type":"text","content":"{question}"}}]}}]'
    said = f'[{{"role":"assistant","parts":[{{"type":"text","content":"{answer}"}}],"finish_reason":"stop"}}]'
    documents = f'[{{"id":"kb-{n}","content":"{passage}","score":0.9}}]'
    return {
        "root": {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": f"session-{n % 7}"},
        "retriever": {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": question,
                      "gen_ai.retrieval.documents": documents},
        "llm": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "tiny-1",
                "gen_ai.input.messages": asked, "gen_ai.output.messages": said},
    }  # fmt: skip


def _said(n: int) -> tuple[str, str, str]:
    """A question, a passage, and an answer that every other time tells another hour than the passage."""
    town = f"{TOWNS[n % len(TOWNS)]}{n}"
    hour = "21:40" if n % 2 == 0 else "09:15"
    passage = f"The night ferry of {town} leaves at 21:40 every day."
    return (
        f"When does the ferry of {town} leave?",
        passage,
        f"The night ferry of {town} leaves at {hour} every day [1].",
    )


_WORDS = {"openinference": _openinference, "genai": _genai}


_ERROR = Status(StatusCode.ERROR, "no more tokens")


def ident() -> str:
    """A trace id nobody has."""
    return uuid.uuid4().hex
