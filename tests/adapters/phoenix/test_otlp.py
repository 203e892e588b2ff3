"""A real Phoenix behind the proxy, and under the sink of OTLP: what it takes of both, and what it has no place for."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx2

from groundtrace.adapters.otel.otlp import OtlpSink
from groundtrace.model import Ref, card_id
from groundtrace.testing import sample_card
from killed import corpus
from servers import Server
from serving import serving


def spans(server: Server, project: str, count: int) -> list[dict[str, Any]]:
    """The spans of a project, once there are so many; they are taken in a queue."""
    end = time.monotonic() + 120
    while True:
        answer = httpx2.get(f"{server.url}/v1/projects/{project}/spans", params={"limit": 1000}, trust_env=False)
        found = answer.json()["data"] if answer.status_code == 200 else []
        if len(found) >= count:
            return list(found)
        assert time.monotonic() < end, answer.text
        time.sleep(0.2)


def over_grpc(server: Server) -> str:
    """Its second port, as an address of ours."""
    return server.grpc.replace("http://", "grpc://")


def test_spans_reach_phoenix_with_their_scores_on_them(phoenix_server: Server, tmp_path: Path) -> None:
    """Over HTTP and gRPC; log records have no place there, which is counted and keeps nothing else."""
    lines = corpus(tmp_path / "corpus.jsonl", 6).read_text(encoding="utf-8").splitlines()
    for scheme, url in (("http", phoenix_server.url), ("grpc", over_grpc(phoenix_server))):
        project = f"through-{scheme}"
        words = ("--sample", "1", "--idle", "0.3", "--rubric", "source_support", "--forward", url)
        with serving(tmp_path / scheme, *words) as made:
            for at, line in enumerate(lines[:3] if scheme == "http" else lines[3:]):  # Phoenix drops a span id it knows
                told = json.loads(line.replace('"traceId": "000', '"traceId": "abc'))  # others' tests count from 1 too
                named = {"key": "openinference.project.name", "value": {"stringValue": project}}
                told["resourceSpans"][0]["resource"] = {"attributes": [named]}
                assert httpx2.post(f"{made.url}/v1/traces", json=told, trust_env=False).status_code == 200, at
            record = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "said"}}]}]}]}
            assert httpx2.post(f"{made.url}/v1/logs", json=record, trust_env=False).status_code == 200
            found = spans(phoenix_server, project, 6)
            made.until(lambda at=made: at.health().get("lost") == {"log records": 1})
            made.stop()
        assert len(found) == 6
        scored = [span for span in found if span["attributes"].get("gen_ai.evaluation.name")]
        assert len(scored) == 3
        assert all(span["parent_id"] is None for span in scored)


def test_evaluator_spans_alone_are_sent_to_phoenix(phoenix_server: Server) -> None:
    """It takes no logs; a late child stands in the trace of what was judged."""
    ref = Ref("otel", trace_id="ab" * 16, span_id="cd" * 8)
    card = sample_card(ref=ref, targets={"root": ref}, id=card_id(ref, "source_support"))
    for url in (phoenix_server.url, over_grpc(phoenix_server)):
        sink = OtlpSink(url, spans="child")
        assert {receipt.state for receipt in sink.write([card])} == {"written"}
        [note] = sink.notes()
        assert "takes no logs" in note
    found = spans(phoenix_server, "default", 1)
    [child] = [span for span in found if span["context"]["trace_id"] == ref.trace_id]
    assert (child["name"], child["parent_id"], child["span_kind"]) == ("evaluate source_support", "cd" * 8, "EVALUATOR")
