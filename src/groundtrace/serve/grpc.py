"""The same over gRPC: exporters that speak it are taken in by the same intake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from groundtrace.adapters.otel.requests import METHODS, Signal, answer, retry_info
from groundtrace.errors import PlanError
from groundtrace.serve.intake import MOST, Answer, Intake, admit
from groundtrace.serve.listening import digest, opened_socket

try:
    import grpc  # type: ignore[import-untyped]
except ImportError:
    raise PlanError("grpc", "grpcio", "is not installed", hint="pip install 'groundtrace[serve]'") from None

if TYPE_CHECKING:
    from collections.abc import Callable

_THREADS, _AT_ONCE = 8, 32
"""Requests that are read at once, and those that one connection may have open: others wait with who sends them.

No limit over all of them: grpcio's own refuses with RESOURCE_EXHAUSTED and no delay, and what is refused so is dropped.
"""

_LEAST = 1, 84
"""The first grpcio whose limit on a message holds while it is unpacked; of older ones only a few were mended."""

_VERSION = tuple(int(part) for part in grpc.__version__.split(".")[:2])
if _VERSION < _LEAST:
    problem = "unpacks whatever it is sent before it looks how large it is"
    raise PlanError("grpc", f"grpcio {grpc.__version__}", problem, hint="pip install 'groundtrace[serve]'")

_CODES: Mapping[int, Any] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""What gRPC calls what HTTP has statuses for. RESOURCE_EXHAUSTED with a delay is to be sent again, without one not."""


class Grpc:
    """A place gRPC is listened at, taken before the first request; PlanError where it can't be."""

    def __init__(self, listen: str, token: str | None) -> None:
        opened_socket(listen, "grpc").close()  # grpcio itself writes pages to stderr where it is taken
        self._token = None if token is None else digest(token)
        self._intake: Intake | None = None
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="grpc"),
            handlers=[_Services(self)],
            options=[
                ("grpc.max_receive_message_length", MOST),
                ("grpc.so_reuseport", 0),
                ("grpc.max_connection_idle_ms", 300_000),
                ("grpc.max_concurrent_streams", _AT_ONCE),
            ],
        )
        try:
            self.port = self._server.add_insecure_port(listen)
        except RuntimeError as error:
            raise PlanError("grpc", listen, f"can't be listened at: {error}") from None

    @contextmanager
    def answering(self, intake: Intake) -> Iterator[None]:
        """Take requests into this intake; at the end who is being answered is answered."""
        self._intake = intake
        self._server.start()
        try:
            yield
        finally:
            self._server.stop(grace=5).wait()

    def take(self, signal: Signal, body: bytes, context: Any) -> bytes:
        """Answer one request."""
        headers = {name: given for name, given in context.invocation_metadata() if isinstance(given, str)}
        intake = self._intake
        assert intake is not None  # noqa: S101 - started with one
        try:
            admit(headers.get("authorization", ""), self._token)
            with intake.room(len(body)):
                told = intake.take(signal, body, json=False, encoding="")
        except Answer as refused:
            intake.refused(refused, context.peer(), "grpc ")
            code = _CODES.get(refused.status, grpc.StatusCode.UNKNOWN)
            if refused.again is not None:
                details = retry_info(code.value[0], refused.why, refused.again)
                context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(code, refused.why)
        intake.counted("grpc taken")
        return answer(signal, told, json=False)


class _Services(grpc.GenericRpcHandler):  # type: ignore[misc]  # the package has no types
    """OTLP's two services, by the names of their methods; others are UNIMPLEMENTED."""

    def __init__(self, of: Grpc) -> None:
        self._methods = {
            method: grpc.unary_unary_rpc_method_handler(_taking(of, signal)) for signal, method in METHODS.items()
        }

    def service(self, handler_call_details: Any) -> Any:
        """Who answers a method."""
        return self._methods.get(handler_call_details.method)


def _taking(of: Grpc, signal: Signal) -> Callable[[bytes, Any], bytes]:
    return lambda body, context: of.take(signal, body, context)
