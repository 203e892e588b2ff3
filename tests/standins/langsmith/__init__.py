"""A stand-in for LangSmith, on this machine and in memory: what the real SDK needs of its HTTP API, and its troubles.

Shapes are inferred from the SDK's own requests and from LangSmith's published types; what the real service does where
neither tells is a choice of the stand-in's, and stands in the README beside this file.
"""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from typing import Any

from .server import handler
from .store import TENANT, Store

__all__ = ["TENANT", "Store", "serve"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def serve(port: int = 0, **settings: Any) -> tuple[ThreadingHTTPServer, Store, str]:
    """A running server, what it holds, and its address; the settings are the store's."""
    store = Store(**settings)
    server = _Server(("127.0.0.1", port), handler(store))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server, store, f"http://127.0.0.1:{server.server_address[1]}"
