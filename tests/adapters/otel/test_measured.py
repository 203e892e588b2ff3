"""Counts of scores arrive at a backend of OpenTelemetry, whole, and say nothing twice."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from groundtrace.adapters.otel.measured import OtlpMetricsSink
from groundtrace.adapters.otel.metrics import BUCKETS, CARDS, SCORE
from groundtrace.errors import PlanError
from groundtrace.model import Score
from groundtrace.testing import sample_card
from hosts import collector


def metrics(body: bytes) -> dict[str, Any]:
    """The metrics of a request, by name."""
    told = ExportMetricsServiceRequest.FromString(body)
    return {one.name: one for group in told.resource_metrics for scope in group.scope_metrics for one in scope.metrics}


def test_a_histogram_and_counters_arrive_with_few_labels() -> None:
    """Sums since the process began, in every request; what is known already is not sent again."""
    with collector() as taken:
        sink = OtlpMetricsSink(taken.url)
        assert {receipt.state for receipt in sink.write([sample_card()])} == {"written"}
        assert {receipt.state for receipt in OtlpMetricsSink(taken.url).write([sample_card()])} == {"unchanged"}
        low = Score(name="source_support", value=2, low=1, high=5)
        assert {receipt.state for receipt in sink.write([sample_card(low, version="2")])} == {"written"}
        first, second = taken.taken["/v1/metrics"]
    (point,) = metrics(second)[SCORE].histogram.data_points
    assert (point.count, point.sum) == (2, 6)
    assert tuple(point.explicit_bounds) == BUCKETS
    assert {pair.key for pair in point.attributes} == {
        "gen_ai.evaluation.name",
        "groundtrace.scale",
        "groundtrace.judge.kind",
    }
    assert [one.as_int or one.as_double for one in metrics(first)[CARDS].sum.data_points] == [1]
    assert b"groundtrace" in ExportMetricsServiceRequest.FromString(first).resource_metrics[0].SerializeToString()


def test_what_was_not_taken_is_made_up_for(caplog: pytest.LogCaptureFixture) -> None:
    """By the next request, and counted once; why is said once, by us."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        sink = OtlpMetricsSink(url, timeout=1.5)  # nobody listens; it tries twice
        (told, *_) = sink.write([sample_card()])
    assert told.state == "failed"
    assert "did not take the metrics: [Errno 111] Connection refused" in str(told.reason)
    assert not caplog.messages
    place = sink._place  # who listens later has another port
    with collector() as taken:
        place._exporter = OtlpMetricsSink(taken.url)._place._exporter
        assert {receipt.state for receipt in sink.write([sample_card()])} == {"written"}
        (body,) = taken.taken["/v1/metrics"]
    (point,) = metrics(body)[SCORE].histogram.data_points
    assert point.count == 1


def test_what_is_no_address_is_a_bad_plan() -> None:
    """Before anything is judged."""
    with pytest.raises(PlanError, match="no address"):
        OtlpMetricsSink("metrics.example.com")
