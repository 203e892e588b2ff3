"""Inputs and outputs too large for their row, which LangSmith keeps apart under an address that is good for a while.

Attachments are kept so too, and are left alone. What a row names is fetched over https, from the API's own address, and
from this machine where the API is on it too: nobody reads along then, and a row reaches nothing inside a network. Not
verified: that v2 tells such addresses, for how long they work, and that they may be relative.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson

from groundtrace.adapters.lines import mended

_SIDES = ("inputs", "outputs")
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)


class Payloads:
    """Fetches what stands apart from rows, of at most `most` bytes each; `lost` says why some could not be had.

    `api` tells the API's address, which is only asked for once something stands apart.
    """

    def __init__(self, most: int, api: Callable[[], str] | None = None) -> None:
        self._most = most
        self._api = api
        self._client: httpx2.Client | None = None
        self.fetched = 0
        self.lost: dict[str, int] = {}

    def filled(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with its inputs and outputs, as far as they could be had."""
        for side in _SIDES:
            place = _address(row.get(f"{side}_s3_urls"))
            if row.get(side) or place is None:
                continue
            try:
                row = {**row, side: self._fetch(place)}
                self.fetched += 1
            except (_Lost, httpx2.HTTPError, httpx2.InvalidURL) as error:
                why = str(error) if isinstance(error, _Lost) else f"could not be fetched: {type(error).__name__}"
                self.lost[why] = self.lost.get(why, 0) + 1
        return row

    def close(self) -> None:
        """Cut the line, if there was one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _fetch(self, place: str) -> Any:
        api = self._api() if self._api else ""
        place = _resolved(place, api)
        if not _is_safe(place, api):
            raise _Lost("stand at an address that is not https: not fetched")
        if self._client is None:  # its own: the key of LangSmith's API is nobody else's business
            self._client = httpx2.Client(timeout=_TIMEOUT, follow_redirects=False)
        data = bytearray()
        with self._client.stream("GET", place) as answer:
            if answer.status_code != httpx2.codes.OK:
                raise _Lost(f"could not be fetched: {answer.status_code}")
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > self._most:
                    raise _Lost(f"are larger than {self._most // 1_000_000} MB: payload_mb lets more through")
        try:
            return orjson.loads(bytes(data))
        except orjson.JSONDecodeError:
            pass
        try:
            return mended(data)
        except ValueError:
            raise _Lost("are no JSON") from None


class _Lost(Exception):
    """A payload can't be had."""


def _address(told: object) -> str | None:
    root = told.get("ROOT") if isinstance(told, Mapping) else None
    place = root.get("presigned_url") if isinstance(root, Mapping) else None
    return place if isinstance(place, str) else None


def _resolved(place: str, api: str) -> str:
    """An address, of the API where it names no place; as the SDK puts them together.

    >>> _resolved("/public/x?jwt=a", "https://host.example/api/v1"), _resolved("/api/x", "https://host.example/api")
    ('https://host.example/api/v1/public/x?jwt=a', 'https://host.example/api/x')
    """
    if not api or not place.startswith("/") or place.startswith("//"):
        return place
    base = api.rstrip("/")
    if place.startswith("/api/"):
        base = base.removesuffix("/v1").removesuffix("/api")
    return f"{base}{place}"


def _is_safe(place: str, api: str) -> bool:
    """Whether a row may have something fetched from there.

    >>> _is_safe("https://bucket.example/x", ""), _is_safe("http://10.0.0.1/x", "https://api.example")
    (True, False)
    >>> [_is_safe("http://127.0.0.1:9/x", api) for api in ("https://api.example", "http://localhost:1984/api")]
    [False, True]
    """
    try:
        parts, home = urlsplit(place), urlsplit(api)
        host = parts.hostname or ""
        if parts.scheme == "https" or not host:
            return bool(host)
        own = bool(api) and parts.netloc == home.netloc and parts.scheme == home.scheme
        return parts.scheme == "http" and (own or (_is_here(host) and _is_here(home.hostname or "")))
    except ValueError:
        return False


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
