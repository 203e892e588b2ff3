"""How a request comes in and an answer goes out, with the troubles a test asked for."""

from __future__ import annotations

import json
import re
import socket
import time
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import zstandard

from .asked import Asked
from .parts import split
from .routes import answer
from .store import Refusal, Row, Store

_PREFIX = re.compile(r"^(/api)?/v1(?=/)|^/api(?=/)")
"""An address with or without its tail is in use: BASE, BASE/api and BASE/api/v1."""


def handler(store: Store) -> type[BaseHTTPRequestHandler]:
    """What answers requests from a store."""
    return type("Handling", (_Handler,), {"store": store})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store: Store

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Print nothing."""

    def _dispatch(self) -> None:
        store = self.store
        parts = urlsplit(self.path)
        path, query, raw = parts.path, parse_qs(parts.query), self._body()
        entry: Row = {"method": self.command, "path": path, "query": query, "headers": dict(self.headers)}
        entry["bytes"] = len(raw)
        body: Any = None
        try:
            body = self._decoded(raw, entry)
        except (ValueError, zstandard.ZstdError) as error:
            entry["error"] = repr(error)
        with store.lock:
            store.log.append(entry)
            fault = _due(store.faults, self.command, path, body)
        if fault is not None and "status" in fault:
            entry["status"] = fault["status"]
            time.sleep(fault.get("delay", 0.0))
            self._send(fault["status"], fault.get("body", {"detail": "injected"}), fault)
            return
        status, told = self._answered(path, query, body, entry)
        entry["status"] = status
        self._send(status, told, fault)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = _dispatch  # noqa: N815 - the parent's names

    def _answered(self, path: str, query: dict[str, list[str]], body: Any, entry: Row) -> tuple[int, Any]:
        plain = path[len("/api") :] if path.startswith("/api/v2") else _PREFIX.sub("", path)
        try:
            with self.store.lock:
                return answer(Asked(self.store, self.command, plain, query, body, self.headers))
        except Refusal as refusal:
            return refusal.status, {"detail": refusal.detail}
        except Exception as error:  # noqa: BLE001 - a stand-in shows everything
            entry["error"] = repr(error)
            return 500, {"detail": repr(error)}

    def _decoded(self, raw: bytes, entry: Row) -> Any:
        if self.headers.get("Content-Encoding") == "zstd":
            raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)  # sent without its size
            entry["zstd"] = True
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/"):
            found = list(split(raw, kind))
            entry["parts"] = [(name, len(data)) for name, _, data in found]
            return found
        if raw:
            entry["json"] = json.loads(raw)
        return entry.get("json")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        out = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            out += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return out

    def _send(self, status: int, told: Any, fault: Row | None) -> None:
        """Send an answer, or what a fault makes of it: slow, torn, or none at all."""
        fault = fault or {}
        if fault.get("drop"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        data = told if isinstance(told, bytes) else json.dumps(told, default=str).encode()
        if fault.get("torn"):
            data = data[: len(data) // 2]
        if not fault.get("status"):
            time.sleep(fault.get("delay", 0.0))
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream" if isinstance(told, bytes) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (fault.get("headers") or {}).items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _due(faults: list[Row], method: str, path: str, body: Any) -> Row | None:
    """The fault that is to happen now: the first that fits, has times left, and was not told to wait."""
    for fault in faults:
        if fault["times"] <= 0 or fault["method"] != method or not re.search(fault["path"], path):
            continue
        if "when" in fault and not fault["when"](body):
            continue
        if fault.get("skip", 0) > 0:
            fault["skip"] -= 1
            continue
        fault["times"] -= 1
        return fault
    return None
