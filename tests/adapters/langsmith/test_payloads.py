"""What a row says is kept elsewhere is fetched from where nothing can be read along or reached by it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from groundtrace.adapters.langsmith.payloads import Payloads

HELD = {"input": "held"}
asked: list[str] = []


class _Desk(BaseHTTPRequestHandler):
    """Gives the same to everybody."""

    def do_GET(self) -> None:
        asked.append(self.path)
        body = json.dumps(HELD).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def desk() -> Iterator[str]:
    """A server on this machine; its address."""
    asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Desk)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def filled(place: str, api: str | None) -> tuple[Any, dict[str, int]]:
    """What a row holds after all, and what was lost."""
    payloads = Payloads(10**6, None if api is None else lambda: api)
    try:
        row = payloads.filled({"id": "x", "inputs": None, "inputs_s3_urls": {"ROOT": {"presigned_url": place}}})
    finally:
        payloads.close()
    return row["inputs"], payloads.lost


@pytest.mark.parametrize("api", [None, "", "https://api.example/api", "http://10.0.0.1:1984", "not an [address"])
def test_a_row_reaches_nothing_on_this_machine(desk: str, api: str | None) -> None:
    """Unless the API is on it."""
    assert filled(f"{desk}/admin", api) == (None, {"stand at an address that is not https: not fetched": 1})
    assert not asked


def test_where_the_api_is_on_this_machine_what_it_keeps_may_be_too(desk: str) -> None:
    """A LangSmith somebody tries at home, with its bucket beside it."""
    assert filled(f"{desk}/bucket", "http://localhost:1984/api") == (HELD, {})


@pytest.mark.parametrize("base", ["", "/api/v1"])
def test_an_address_without_a_place_is_the_apis(desk: str, base: str) -> None:
    """As the SDK takes it."""
    assert filled("/public/download?jwt=abc", f"{desk}{base}") == (HELD, {})
    assert asked == [f"{base}/public/download?jwt=abc"]


@pytest.mark.parametrize("place", ["/x", "//127.0.0.1/x", "x", "file:///etc/passwd", "http://[", "http:///x"])
def test_what_is_no_address_is_lost_aloud(place: str) -> None:
    """And counted."""
    assert filled(place, None) == (None, {"stand at an address that is not https: not fetched": 1})
