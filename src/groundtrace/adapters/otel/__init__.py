"""OpenTelemetry files: traces in, evaluation events and evaluator spans out, both as OTLP JSON lines."""

from groundtrace.adapters.otel.sink import OtelSink
from groundtrace.adapters.otel.source import OtelSource

__all__ = ["OtelSink", "OtelSource"]
