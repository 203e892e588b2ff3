"""Scores sent as OpenTelemetry's metrics: what this process counted, whole, after every few cards.

What is sent are sums since the process began, so one that was not taken is made up for by the next. The exporters are
OpenTelemetry's own, which try again within their timeout.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from groundtrace.adapters.ledger import chunks
from groundtrace.adapters.otel.metrics import Counted
from groundtrace.adapters.otel.sending import TIMEOUT, backend, headers_of
from groundtrace.adapters.patience import deepest
from groundtrace.model import Receipt, Scorecard

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExporter

_PROTO = "opentelemetry.exporter.otlp.proto"
_LOGS = f"{_PROTO}.http.metric_exporter", f"{_PROTO}.grpc.metric_exporter", f"{_PROTO}.grpc.exporter"
"""Where the exporters tell of their tries."""

_open: dict[tuple[str, str | None], _Sent] = {}
_opening = threading.Lock()


class OtlpMetricsSink:
    """Counts scores and sends the counts by OTLP: a histogram of scores, counters of what else became of cards.

    `http://HOST:4318` and `https://HOST` are OTLP over HTTP, `grpc://HOST:4317` and `grpcs://HOST` over gRPC, and
    `headers_env` names the environment variable that holds headers, as for the sink `otlp`. What is told of the sender
    is in OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME (left out: `groundtrace`). Nothing in it names a trace.
    """

    name = "otlp-metrics"
    updates: Literal["upsert", "append"] = "append"

    def __init__(self, url: str, *, headers_env: str | None = None, timeout: float = TIMEOUT) -> None:
        backend(url).close()  # what is no address is said before anything is judged
        headers = headers_of(headers_env)
        with _opening:
            key = url, headers_env
            if key not in _open:
                _open[key] = _Sent(url, headers, timeout)
            self._place = _open[key]

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Count the cards in, and say so once the counts were taken."""
        for chunk in chunks(cards):
            yield from self._place.counted.told(chunk, self.name, self._place.send)


class _Sent:
    """One backend of this process, whoever opens it: every round of a watch opens it anew."""

    def __init__(self, url: str, headers: dict[str, str], timeout: float) -> None:
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - loaded for a sink that is used
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415 - same
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - same

        self._url = url
        self._reader: InMemoryMetricReader = InMemoryMetricReader()
        told = Resource.create()
        if str(told.attributes.get("service.name", "")).startswith("unknown_service"):
            told = told.merge(Resource({"service.name": "groundtrace"}))
        provider = MeterProvider([self._reader], resource=told, shutdown_on_exit=False)
        self.counted = Counted(provider.get_meter("groundtrace"))
        self._exporter = _exporter(url, headers, timeout)
        self._why = ""
        weakref.finalize(self, self._exporter.shutdown)

    def send(self, new: bool) -> str:  # noqa: FBT001 - the form `Counted` asks for
        """Send all that is counted, where something is new; why it was not taken."""
        from opentelemetry.sdk.metrics.export import MetricExportResult  # noqa: PLC0415 - loaded by now

        data = self._reader.get_metrics_data() if new else None
        if data is None:
            return ""
        with _overheard() as heard:
            if self._exporter.export(data) is MetricExportResult.SUCCESS:
                return ""
        self._why = heard.reason or self._why
        return f"{self._url} did not take the metrics{f': {self._why}' if self._why else ''}"


class _Overheard(logging.Filter):
    """Keeps what one thread logs from the log, and of it the cause, or else the last line."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = self._cause = ""
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it goes on to the log."""
        if record.thread != self._thread:
            return True
        told = record.args if isinstance(record.args, tuple) else ()
        self._cause = next((deepest(one) for one in told if isinstance(one, BaseException)), self._cause)
        self.reason = self._cause or " ".join(record.getMessage().split())[:300]
        return False


@contextmanager
def _overheard() -> Iterator[_Overheard]:
    """What OpenTelemetry's exporters say while we send: the reason of our own word, and no lines beside it."""
    heard = _Overheard()
    for name in _LOGS:
        logging.getLogger(name).addFilter(heard)
    try:
        yield heard
    finally:
        for name in _LOGS:
            logging.getLogger(name).removeFilter(heard)


def _exporter(url: str, headers: dict[str, str], timeout: float) -> MetricExporter:
    parts = urlsplit(url)
    given: dict[str, Any] = {"headers": headers or None, "timeout": timeout}
    if parts.scheme.startswith("grpc"):
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415 - loaded where it is used
            OTLPMetricExporter as OverGrpc,
        )

        return OverGrpc(endpoint=parts.netloc, insecure=parts.scheme == "grpc", **given)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - same
        OTLPMetricExporter as OverHttp,
    )

    return OverHttp(endpoint=f"{url.rstrip('/')}/v1/metrics", **given)
