"""Exports traces by OpenTelemetry's Python SDK: `emit.py http|grpc URL TRACES OUT`.

To OUT goes what was exported together, and from when to when (seconds since 1970) that was on its way.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

PATIENCE = 120
SPANS = 10
"""Spans a trace has."""


def exporter(protocol: str, url: str) -> Any:
    """The SDK's own."""
    if protocol == "http":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(f"{url}/v1/traces", timeout=PATIENCE)
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGrpc

    return OverGrpc(url, insecure=True, timeout=PATIENCE)


def watched(inner: Any, requests: list[dict[str, Any]]) -> Any:
    """The exporter, with a note of all it is given."""
    send = inner.export

    def export(spans: Any) -> Any:
        ids = [(f"{one.context.trace_id:032x}", f"{one.context.span_id:016x}") for one in spans]
        told = {"ids": ids, "begin": time.time()}
        requests.append(told)
        result = send(spans)
        told |= {"end": time.time(), "code": result.value}
        return result

    inner.export = export
    return inner


def main(protocol: str, url: str, traces: int, out: Path) -> None:
    """Make traces as fast as they can be made, and wait until they are all taken."""
    provider = TracerProvider(resource=Resource({"service.name": f"python-{protocol}"}))
    requests: list[dict[str, Any]] = []
    sending = watched(exporter(protocol, url), requests)
    provider.add_span_processor(
        BatchSpanProcessor(sending, max_queue_size=1_000_000, max_export_batch_size=512, schedule_delay_millis=10)
    )
    tracer = provider.get_tracer("openinference.test", "1")

    def span(name: str, kind: str, parent: Span | None = None, **attributes: Any) -> Any:
        told = {"openinference.span.kind": kind} | {key.replace("__", "."): value for key, value in attributes.items()}
        return tracer.start_span(name, trace.set_span_in_context(parent) if parent else None, attributes=told)

    for n in range(traces):
        query, fact = f"What about the tower of town {n}?", f"The tower of town {n} opens at {6 + n % 6}:30 every day"
        root = span("ask", "CHAIN", input__value=query)
        found = {"retrieval__documents__0__document__content": f"{fact}."}
        span("find", "RETRIEVER", root, input__value=query, **found).end()
        for step in range(SPANS - 2):
            span(f"step {step}", "CHAIN", root, step=step, note="é" * 50).end()
        root.set_attribute("output.value", f"{fact} [1].")
        root.end()
    provider.force_flush(PATIENCE * 1000)
    provider.shutdown()
    out.write_text(json.dumps(requests), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
