"""Phoenix's REST API: where it is, who asks, and what it lists page after page.

All of it was tried against a real server of 20.26.1 on SQLite. Not tried: one with a login, another version, another
database, Phoenix in the cloud. A project is made by its first span, so until then there is none; reads are by its id,
for a name may hold what an address can't.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import httpx2

from groundtrace.adapters.options import meant
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.rest import Method, Rest
from groundtrace.errors import PlanError, PlatformError

Row: TypeAlias = Mapping[str, Any]
"""A trace, a span, an annotation or a config, as it came."""

PLATFORM = "phoenix"
WHERE, KEY, HEADERS = "PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_API_KEY", "PHOENIX_CLIENT_HEADERS"
HERE = "http://localhost:6006"
"""Where Phoenix is when nobody says anything else, by its own default."""

PAGE = 1000
"""Traces or spans listed at once, the most Phoenix gives."""

ANNOTATIONS = 10_000
"""Annotations listed at once, the most Phoenix gives; it gives ten where nobody asks."""

TOGETHER = 100
"""Traces or spans named in one request: their ids must fit into an address."""

_MOST, _SHOWN = 500, 10
"""Projects looked at to find the one that was meant, and named where none looks like it."""

_TRACES = "/v1/traces"
_REMEDIES = {
    401: f"; is {KEY} right?",
    403: f"; may the user whose key is in {KEY} do this?",
    507: "; its disk is full, or its storage is locked",
}


class Api:
    """Phoenix at one address: `base_url`, or PHOENIX_COLLECTOR_ENDPOINT, or this machine's.

    The key is in PHOENIX_API_KEY, further headers (`name=value,...`) in PHOENIX_CLIENT_HEADERS; neither is kept in a
    plan or shown. `patience` is as in `Rest`; `clock` and `sleep` are for tests.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = _address(base_url or os.environ.get(WHERE) or HERE)
        self._rest = Rest(
            "Phoenix",
            self.url,
            where=f"{WHERE}, or base_url",
            headers=_headers(),
            remedies=_REMEDIES,
            patience=patience,
            clock=clock,
            sleep=sleep,
        )
        self._known: dict[str, str] = {}

    @property
    def mended(self) -> int:
        """Answers so far that held halves of characters."""
        return self._rest.mended

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Ask nothing again once `stopping` says so."""
        self._rest.stop_when(stopping)

    def close(self) -> None:
        """Let go of the connections."""
        self._rest.close()

    def call(
        self,
        method: Method,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, Any] | None = None,
        patience: float | None = None,
    ) -> Any:
        """What Phoenix answers; Refused where it refuses. Paths begin behind `/v1`."""
        return self._rest.call(method, f"/v1{path}", json=json, params=params, patience=patience)

    def pages(
        self, path: str, params: Mapping[str, Any] | None = None, *, limit: int = PAGE, patience: float | None = None
    ) -> Iterator[list[Row]]:
        """All that is listed there, a page at a time; a page too large to be read is asked for in smaller ones."""
        cursor: str | None = None
        while True:
            try:
                asked = {**(params or {}), "limit": limit, "cursor": cursor}
                told = self.call("GET", path, params=asked, patience=patience)
            except Refused as refused:
                if refused.status != 413 or limit == 1:
                    raise
                limit = max(1, limit // 10)
                continue
            page = told if isinstance(told, Mapping) else {}
            yield [row for row in page.get("data") or () if isinstance(row, Mapping)]
            after = page.get("next_cursor")
            if after is None:
                return
            if after == cursor:
                raise PlatformError(f"Phoenix gave the same page of {path} twice")
            cursor = str(after)

    def version(self, *, seconds: float = 10.0) -> str:
        """Which version answers, which is told in plain text and without a key; empty where it is not told."""
        try:
            told = httpx2.get(f"{self.url}/arize_phoenix_version", timeout=seconds)
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return ""
        return told.text.strip()[:40] if told.is_success and "html" not in told.headers.get("content-type", "") else ""

    # --- projects -----------------------------------------------------------------------------------------------------

    def project(self, named: str, *, patience: float | None = None) -> str | None:
        """The id of a project, by its name or its id; None where there is none, or not yet."""
        if named not in self._known:
            found = next((ident for name, ident in self.projects(named, patience=patience) if name == named), None)
            if found is None and _is_id(named):
                found = self._by_id(named, patience)
            if found is None:
                return None
            self._known[named] = found
        return self._known[named]

    def projects(self, within: str = "", *, patience: float | None = None) -> Iterator[tuple[str, str]]:
        """Name and id of each project whose name holds this."""
        asked = {"name_contains": within or None}
        for page in self.pages("/projects", asked, limit=100, patience=patience):
            yield from ((str(row.get("name")), str(row.get("id"))) for row in page)

    def unknown(self, named: str) -> str:
        """What to say of a name that no project has: the one that may be meant, and why there may be none yet."""
        try:
            names = [name for name, _ in islice(self.projects(patience=5.0), _MOST)]
        except Refused:
            names = []
        there = f"there are {', '.join(sorted(names)[:_SHOWN])}" if names else "there is none"
        near = meant(named, names) or f"{there}; "
        return f"Phoenix has no project {named!r} at {self.url}: {near}a project is made by its first trace"

    def _by_id(self, ident: str, patience: float | None) -> str | None:
        try:
            told = self.call("GET", f"/projects/{part(ident)}", patience=patience)
        except Refused as refused:
            if refused.status in (404, 422):
                return None
            raise
        data = told.get("data") if isinstance(told, Mapping) else None
        return str(data["id"]) if isinstance(data, Mapping) and data.get("id") == ident else None


def part(text: str) -> str:
    """A text as one part of a path.

    >>> part("a/b?")
    'a%2Fb%3F'
    """
    return quote(text, safe="")


def _is_id(text: str) -> bool:
    """Whether a text may be one of Phoenix's ids, which are `Project:1` in base64."""
    return text.startswith("UHJvamVjdDo")


def _address(told: str) -> str:
    """Phoenix's own address: what its exporters are told may name where traces go.

    >>> _address("http://127.0.0.1:6006/v1/traces")
    'http://127.0.0.1:6006'
    """
    url = told.strip().rstrip("/").removesuffix(_TRACES).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        hint = f"write http://HOST:6006, in {WHERE} or the option base_url"
        raise PlanError("phoenix", told, "is no address of Phoenix", hint=hint)
    if parts.username or parts.password:
        raise PlanError("phoenix", parts.hostname, "holds a login", hint=f"a key goes into {KEY}")
    return url


def _headers() -> dict[str, str]:
    """What goes with every request: the key, and what else the environment names."""
    told = [pair.partition("=") for pair in os.environ.get(HEADERS, "").split(",") if "=" in pair]
    headers = {unquote(name.strip()): unquote(value.strip()) for name, _, value in told}
    key = os.environ.get(KEY)
    if key and not any(name.lower() == "authorization" for name in headers):
        headers["Authorization"] = f"Bearer {key.strip()}"
    return headers
