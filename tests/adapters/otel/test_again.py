"""The demo's traces leave as if they had ended just now, with what stood in their logs."""

from __future__ import annotations

from importlib import resources

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from groundtrace.adapters.otel.again import requests

ENDED = 1_800_000_000_000_000_000


def test_traces_end_then_and_hold_what_their_logs_held() -> None:
    """All of them, as long before as they did, in a project by its name."""
    data = resources.files("groundtrace.data")
    traces, logs = (data.joinpath(name).read_bytes() for name in ("demo.jsonl", "demo.logs.jsonl"))
    told = list(requests(traces, logs, project="mine", ended=ENDED))
    assert sum(count for _, count in told) == 15
    groups = [group for body, _ in told for group in ExportTraceServiceRequest.FromString(body).resource_spans]
    named = [{pair.key: pair.value.string_value for pair in group.resource.attributes} for group in groups]
    assert {one["openinference.project.name"] for one in named} == {"mine"}
    spans = [span for group in groups for scope in group.scope_spans for span in scope.spans]
    assert max(span.end_time_unix_nano for span in spans) == ENDED
    assert all(span.start_time_unix_nano < span.end_time_unix_nano for span in spans)
    held = [{pair.key: pair.value for pair in span.attributes} for span in spans if span.name.startswith("chat ")]
    assert len(held) == 2
    assert all(one["gen_ai.output.messages"].string_value.startswith('[{"role":"assistant"') for one in held)
    assert all(len({pair.key for pair in span.attributes}) == len(span.attributes) for span in spans)
