"""Sends spans and log records to a backend of OpenTelemetry, over HTTP or gRPC, and says what became of them.

The address says which: `http://` and `https://` take protobuf at `/v1/traces` and `/v1/logs` below it, `grpc://` and
`grpcs://` (with TLS) are gRPC. What an answer names as refused is told; what was not answered may have arrived.
"""

from __future__ import annotations

import gzip
import os
import re
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import httpx2

from groundtrace.adapters.options import VARIABLE
from groundtrace.adapters.otel.requests import METHODS, Signal, delay_of, rejected, said
from groundtrace.adapters.patience import Refused, deepest, retry_after
from groundtrace.errors import PlanError

if TYPE_CHECKING:
    from types import ModuleType

TIMEOUT = 30.0
"""Seconds a backend may take for one request."""

_PORT = 4317
"""Where OTLP over gRPC is taken when nobody says."""

_MOST = 1 << 20
"""Bytes of an answer that are read."""

_SMALL = 1024
"""Bytes that are not worth packing."""

_TOO_LARGE = re.compile("larger|exceed.*(size|length)|too (large|big)", re.IGNORECASE)
"""What gRPC says of a message that is too large, in its C, Go and Java versions; it has no code of its own for that."""

_TAKES_NONE = frozenset({404, 405, 501})


class Sent(NamedTuple):
    """How many spans or log records of a request the backend did not take, and why."""

    refused: int = 0
    why: str = ""


class Backend(Protocol):
    """Where spans and log records are sent."""

    url: str

    def send(self, signal: Signal, data: bytes) -> Sent:
        """Send one request, once; Refused where it was not taken as a whole, of status 0 where no answer came."""
        ...

    def close(self) -> None:
        """Let go of the connections."""
        ...


def backend(
    url: str, *, headers: Mapping[str, str] | None = None, timeout: float = TIMEOUT, key: str = "to"
) -> Backend:
    """The backend at an address; PlanError where that is none."""
    parts = urlsplit(url)
    hint = "write http://HOST:4318, https://HOST, grpc://HOST:4317 or grpcs://HOST"
    shown = f"{parts.scheme}://{parts.hostname or ''}..." if parts.scheme else url
    try:
        known = parts.scheme in ("http", "https", "grpc", "grpcs") and parts.hostname and (parts.port or True)
    except ValueError:
        known = False
    if not known:
        raise PlanError(key, shown, "is no address of a backend", hint=hint)
    if parts.username or parts.password or parts.query:
        raise PlanError(key, shown, "holds more than an address", hint="secrets go into headers: headers_env=NAME")
    if parts.scheme.startswith("grpc"):
        target = parts.netloc if parts.port else f"{parts.netloc.removesuffix(':')}:{_PORT}"
        return _OverGrpc(parts.scheme == "grpcs", target, dict(headers or {}), timeout)
    return _OverHttp(url, dict(headers or {}), timeout)


def takes_none(refused: Refused) -> bool:
    """Whether a refusal says that this signal has no place there, as Phoenix and MLflow say of logs."""
    return refused.status in _TAKES_NONE


def headers_of(name: str | None, key: str = "headers_env") -> dict[str, str]:
    """The headers an environment variable holds, written as OpenTelemetry does: `a=1,b=2`, values percent-encoded.

    PlanError where it is not set, or holds none; what it holds is never shown.
    """
    if name is None:
        return {}
    told = os.environ.get(name, "")
    if not told.strip():
        if not VARIABLE.fullmatch(name):  # the headers themselves, they may be: they go into no log
            raise PlanError(key, "***", "is no variable that is set", hint="name the variable that holds the headers")
        raise PlanError(key, name, "is not set", hint=f"export {name}='authorization=Bearer%20...'")
    found: dict[str, str] = {}
    for pair in told.split(","):
        header, equals, given = pair.partition("=")
        header, given = header.strip().lower(), unquote(given.strip())
        if not pair.strip():
            continue
        if not (
            equals and header and header.isascii() and given.isascii() and given.isprintable() and " " not in header
        ):
            raise PlanError(key, name, "holds no headers", hint="they are written NAME=VALUE,NAME=VALUE")
        found[header] = given
    return found


class _OverHttp:
    """Protobuf over HTTP."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        base = url.rstrip("/")
        for signal in METHODS:
            base = base.removesuffix(f"/v1/{signal}")
        self.url = base
        self._client = httpx2.Client(
            headers={"Content-Type": "application/x-protobuf", **headers},
            timeout=httpx2.Timeout(timeout, connect=min(timeout, 10.0)),
            follow_redirects=False,  # the headers would go along
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def send(self, signal: Signal, data: bytes) -> Sent:
        """Send one request, once."""
        where = f"{self.url}/v1/{signal}"
        packed = len(data) > _SMALL
        body, more = (gzip.compress(data, 1), {"Content-Encoding": "gzip"}) if packed else (data, {})
        try:
            with self._client.stream("POST", where, content=body, headers=more) as response:
                held = b""
                for part in response.iter_bytes():
                    held += part
                    if len(held) > _MOST:
                        break
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Refused(f"{where} did not answer: {deepest(error)}", status=0) from None
        if not response.is_success:
            status, detail = response.status_code, _text(response.headers.get("content-type", ""), held)
            message = f"{where} refused with {status}{f': {detail}' if detail else ''}"
            raise Refused(message, status=status, detail=detail, retry_after=retry_after(response.headers))
        return Sent(*rejected(signal, held)) if "protobuf" in response.headers.get("content-type", "") else Sent()


class _OverGrpc:
    """The same over gRPC; one connection, opened with the first request."""

    def __init__(self, tls: bool, target: str, headers: Mapping[str, str], timeout: float) -> None:  # noqa: FBT001 - the scheme's
        self.url = f"grpc{'s' if tls else ''}://{target}"
        self._grpc = _grpc()
        self._tls, self._target, self._timeout = tls, target, timeout
        self._headers = tuple(headers.items())
        self._lock = threading.Lock()
        self._channel: Any = None

    def close(self) -> None:
        """Let go of the connection."""
        if self._channel is not None:
            self._channel.close()

    def send(self, signal: Signal, data: bytes) -> Sent:
        """Send one request, once."""
        grpc = self._grpc
        with self._lock:
            if self._channel is None:
                options = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", _MOST))
                secure = (grpc.ssl_channel_credentials(),) if self._tls else ()
                opened = grpc.secure_channel if self._tls else grpc.insecure_channel
                self._channel = opened(self._target, *secure, options=options, compression=grpc.Compression.Gzip)
        call = self._channel.unary_unary(METHODS[signal], request_serializer=None, response_deserializer=None)
        try:
            return Sent(*rejected(signal, call(data, timeout=self._timeout, metadata=self._headers)))
        except grpc.RpcError as error:
            raise self._refused(error, signal) from None

    def _refused(self, error: Any, signal: Signal) -> Refused:
        code, detail = error.code(), " ".join(str(error.details() or "").split())[:300]
        trailers = error.trailing_metadata() or ()
        named = next((delay_of(told) for name, told in trailers if name == "grpc-status-details-bin"), None)
        status = _STATUSES.get(code.name, 500)
        if code.name == "RESOURCE_EXHAUSTED":  # busy, or the request is too large
            status = 413 if named is None and _TOO_LARGE.search(detail) else 429
        message = f"{self.url} refused {signal} with {code.name}{f': {detail}' if detail else ''}"
        return Refused(message, status=status, detail=detail, retry_after=named)


_STATUSES: Mapping[str, int] = {
    "UNAVAILABLE": 0,
    "DEADLINE_EXCEEDED": 0,
    "CANCELLED": 503,
    "ABORTED": 503,
    "OUT_OF_RANGE": 503,
    "DATA_LOSS": 503,
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "UNIMPLEMENTED": 404,
}
"""What HTTP would have said; 0 where no answer came."""


def _grpc() -> ModuleType:
    try:
        import grpc  # type: ignore[import-untyped]  # noqa: PLC0415 - only who speaks it needs it
    except ImportError:
        raise PlanError("to", "grpc://", "needs grpcio", hint="pip install 'groundtrace[serve]'") from None
    module: ModuleType = grpc
    return module


def _text(kind: str, held: bytes) -> str:
    """The reason in an error's body, in a line."""
    from groundtrace.adapters.patience import said as in_text  # noqa: PLC0415 - beside the other `said`

    return said(held)[:300] if "protobuf" in kind else in_text(held.decode(errors="replace"))
