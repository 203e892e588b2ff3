"""How a request comes in and an answer goes out, with the troubles a test asked for."""

from __future__ import annotations

import gzip
import json
import socket
import time
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from .asked import Asked
from .faults import Fault
from .routes import answer
from .store import Refusal, Row, Store

_RAW = ("/blob/", "/otel/")
"""Under what bodies are no JSON."""


def handler(store: Store) -> type[BaseHTTPRequestHandler]:
    """What answers requests from a store."""
    return type("Handling", (_Handler,), {"store": store})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # headers and body leave together
    store: Store

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Print nothing."""

    def _dispatch(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        entry: Row = {"method": self.command, "path": path, "query": query, "body": None, "size": len(raw)}
        entry["headers"], entry["at"] = dict(self.headers), self.store.clock()
        torn = False
        if raw and not path.startswith(_RAW):
            try:
                entry["body"] = json.loads(raw, parse_constant=_no_number)
            except ValueError:
                torn = True
        with self.store.lock:
            self.store.requests.append(entry)
            fault = next((f for f in self.store.faults if f.takes(self.command, path, entry["body"])), None)
        asked = Asked(self.store, self.command, path, query, entry["body"], raw, self.headers)
        self._answered(asked, entry, fault, torn=torn)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _dispatch  # noqa: N815 - the parent's names

    def _answered(self, asked: Asked, entry: Row, fault: Fault | None, *, torn: bool) -> None:
        if fault is not None and fault.drop and not fault.done:
            self._cut()
            return
        status, told, headers = self._told(asked, fault, torn=torn)
        entry["status"] = status
        time.sleep(self.store.latency + (fault.delay if fault else 0.0))
        if fault is not None and fault.drop:
            self._cut()
            return
        data = told if isinstance(told, bytes) else str(told).encode()
        plain = isinstance(told, bytes) or status != 200
        self._send(status, data[: len(data) // 2] if fault and fault.torn else data, headers, plain=plain)

    def _told(self, asked: Asked, fault: Fault | None, *, torn: bool) -> tuple[int, bytes | str, Mapping[str, str]]:
        if fault is not None and fault.status:
            return fault.status, fault.body, fault.headers
        if torn:
            return 400, "invalid json", {}
        try:
            with self.store.lock:
                told = answer(asked)
                return 200, told if isinstance(told, bytes) else json.dumps(told), {}
        except Refusal as refusal:
            return refusal.status, refusal.detail, refusal.headers
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return 400, f"{type(error).__name__}: {error}", {}

    def _send(self, status: int, data: bytes, headers: Mapping[str, str], *, plain: bool) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if plain else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("x-bt-internal-trace-id", uuid.uuid4().hex)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def _cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _no_number(written: str) -> Any:
    raise ValueError(f"{written} is no JSON")
