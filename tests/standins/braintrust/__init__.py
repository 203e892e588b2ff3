"""A stand-in for Braintrust, on this machine and in memory: its app and its API in one, and their troubles.

Shapes are those of the real SDK's own requests and of Braintrust's published OpenAPI; what the real service does where
neither tells is a choice of the stand-in's, and stands in the README beside this file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import ThreadingHTTPServer
from typing import Any

from .faults import Fault
from .server import handler
from .store import ORG, Store

__all__ = ["ORG", "Fault", "Standin", "Store"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class Standin:
    """A running stand-in; the settings are the store's, and the README says what each does."""

    def __init__(self, port: int = 0, api_keys: Iterable[str] = ("sk-test",), org: str = ORG, **settings: Any) -> None:
        self.store = Store(api_keys=api_keys, orgs=settings.pop("orgs", (org,)), **settings)
        self.httpd = _Server(("127.0.0.1", port), handler(self.store))
        self.url = self.store.url = f"http://127.0.0.1:{self.httpd.server_address[1]}"
        threading.Thread(target=self.httpd.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self.httpd.shutdown()
        self.httpd.server_close()

    def fail(
        self,
        prefix: str,
        status: int = 0,
        times: int = 1,
        headers: Mapping[str, str] | None = None,
        body: str = "injected",
        *,
        skip: int = 0,
        **trouble: Any,
    ) -> Fault:
        """Make trouble for the next requests under a path; see `Fault`."""
        fault = Fault(prefix, status, times, headers or {}, body, skip=skip, **trouble)
        self.store.faults.append(fault)
        return fault

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What was asked so far."""
        return self.store.requests

    @property
    def faults(self) -> list[Fault]:
        """The troubles it was told to make."""
        return self.store.faults

    @property
    def otel(self) -> list[dict[str, Any]]:
        """What came over OTLP, as it came."""
        return self.store.otel

    @property
    def org_id(self) -> str:
        """The id of the first organisation."""
        return next(iter(self.store.orgs.values()))

    @property
    def org_name(self) -> str:
        """The name of the first organisation."""
        return next(iter(self.store.orgs))

    @property
    def api_keys(self) -> set[str]:
        """The keys that are good."""
        return self.store.api_keys

    @property
    def max_payload(self) -> int:
        """The bytes of a request of rows above which it is refused."""
        return self.store.max_payload

    @max_payload.setter
    def max_payload(self, most: int) -> None:
        self.store.max_payload = most

    @property
    def visibility_delay(self) -> float:
        """Seconds between the arrival of a row and its being found."""
        return self.store.visibility_delay

    @visibility_delay.setter
    def visibility_delay(self, seconds: float) -> None:
        self.store.visibility_delay = seconds

    def asked(self, prefix: str, when: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[dict[str, Any]]:
        """The requests under a path so far."""
        return [told for told in list(self.requests) if told["path"].startswith(prefix) and when(told)]
