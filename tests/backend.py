"""A backend of OpenTelemetry on loopback, over HTTP and gRPC: it keeps what it was sent, and can be made to refuse."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

KINDS: Mapping[str, tuple[Any, Any]] = {
    "traces": (trace_service.ExportTraceServiceRequest, trace_service.ExportTraceServiceResponse),
    "logs": (logs_service.ExportLogsServiceRequest, logs_service.ExportLogsServiceResponse),
}
_METHODS = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
}


@dataclass
class Came:
    """One request: its signal, its message, whose connection it came by, its headers."""

    signal: str
    message: Any
    by: object
    headers: Mapping[str, str]

    @property
    def items(self) -> list[Any]:
        """Its spans or log records."""
        return list(items(self.message))


def items(message: Any) -> Iterator[Any]:
    """The spans or log records of a request."""
    for group in getattr(message, "resource_spans", None) or getattr(message, "resource_logs", ()):
        for scope in getattr(group, "scope_spans", None) or getattr(group, "scope_logs", ()):
            yield from getattr(scope, "spans", None) or getattr(scope, "log_records", ())


def ident(span: Any) -> tuple[str, str]:
    """What a span is known by."""
    return span.trace_id.hex(), span.span_id.hex()


def plain(value: Any) -> Any:
    """An AnyValue as Python has it."""
    kind = value.WhichOneof("value")
    held = getattr(value, kind) if kind else None
    return [plain(item) for item in held.values] if kind == "array_value" else held


def attributes(of: Any) -> dict[str, Any]:
    """Attributes by name; none is said twice."""
    assert len({pair.key for pair in of.attributes}) == len(of.attributes)
    return {pair.key: plain(pair.value) for pair in of.attributes}


@dataclass
class Backend:
    """What came, and what is to be answered: `refuse` gives a status and headers for some requests, or None."""

    came: list[Came] = field(default_factory=list)
    refuse: Any = None
    partial: Any = None
    """Gives how many of a request are left out, and why."""

    http: str = ""
    grpc: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def spans(self) -> list[Any]:
        """Every span that was taken, in the order they came."""
        with self.lock:
            return [span for one in self.came if one.signal == "traces" for span in one.items]

    def logs(self) -> list[Any]:
        """Every log record that was taken."""
        with self.lock:
            return [log for one in self.came if one.signal == "logs" for log in one.items]

    def take(
        self, signal: str, data: bytes, by: object, headers: Mapping[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        """Answer a request: the status, headers and body."""
        request, response = KINDS[signal]
        came = Came(signal, request.FromString(data), by, headers)
        said = self.refuse(came) if self.refuse else None
        if said is not None:
            status, more = said
            return status, more, b""
        with self.lock:
            self.came.append(came)
        left = self.partial(came) if self.partial else (0, "")
        if not left[0]:
            return 200, {}, b""
        name = "rejected_spans" if signal == "traces" else "rejected_log_records"
        return 200, {}, response(partial_success={name: left[0], "error_message": left[1]}).SerializeToString()


@contextmanager
def backend(port: int = 0) -> Iterator[Backend]:
    """A backend for as long as it is needed."""
    made = Backend()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {name.lower(): given for name, given in self.headers.items()}
            signal = self.path.removeprefix("/v1/")
            status, more, told = made.take(signal, body, self.client_address, headers)
            self.send_response(status)
            for name, given in {"Content-Type": "application/x-protobuf", **more}.items():
                self.send_header(name, given)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    class Services(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            signal = _METHODS.get(details.method)
            if signal is None:
                return None

            def answer(data: bytes, context: Any) -> bytes:
                headers = dict(context.invocation_metadata())
                status, _, told = made.take(signal, data, context.peer(), headers)
                if status != 200:
                    codes = {503: grpc.StatusCode.UNAVAILABLE, 400: grpc.StatusCode.INVALID_ARGUMENT}
                    codes[429] = grpc.StatusCode.RESOURCE_EXHAUSTED
                    context.abort(codes.get(status, grpc.StatusCode.UNIMPLEMENTED), "refused")
                return told

            return grpc.unary_unary_rpc_method_handler(answer)

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Who was killed has hung up."""

        request_queue_size = 128

    server = Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    over = grpc.server(ThreadPoolExecutor(8), handlers=[Services()], options=[("grpc.so_reuseport", 0)])
    made.grpc = f"grpc://127.0.0.1:{over.add_insecure_port('127.0.0.1:0')}"
    over.start()
    made.http = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield made
    finally:
        over.stop(0).wait()
        server.shutdown()
        server.server_close()
        thread.join()
