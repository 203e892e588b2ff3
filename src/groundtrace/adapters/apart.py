"""What a platform keeps apart from its row, under an address: fetched over https, within a bound, with nobody's key.

An address stands in a row, and rows are other people's: it is taken where it is https, the platform's own, or on this
machine where the platform is on it too. So nobody reads along, and a row reaches nothing inside a network.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from urllib.parse import urlsplit

import httpx2

_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)


class Lost(Exception):
    """What stands apart can't be had; the message goes behind "kept apart from 3 runs"."""


class Fetching:
    """Fetches what stands apart, of at most `most` bytes each; `option` is what lets more through.

    `lost` says why some could not be had, and how many.
    """

    def __init__(self, most: int, option: str) -> None:
        self._most, self._option = most, option
        self._client: httpx2.Client | None = None
        self.lost: Counter[str] = Counter()

    def close(self) -> None:
        """Cut the line, if there was one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def fetch(self, place: str, api: str) -> bytes:
        """What stands at an address; `api` is where the platform is. Raises Lost."""
        if not is_safe(place, api):
            raise Lost("stand at an address that is not https: not fetched")
        if self._client is None:  # its own: the key of the platform's API is nobody else's business
            self._client = httpx2.Client(timeout=_TIMEOUT, follow_redirects=False)
        data = bytearray()
        try:
            with self._client.stream("GET", place) as answer:
                if answer.status_code != httpx2.codes.OK:
                    raise Lost(f"could not be fetched: {answer.status_code}")
                for piece in answer.iter_bytes():
                    data += piece
                    self.check(len(data))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Lost(f"could not be fetched: {type(error).__name__}") from None
        return bytes(data)

    def check(self, size: int) -> None:
        """Raise Lost where that is more than is taken."""
        if size > self._most:
            raise Lost(f"are larger than {self._most // 1_000_000} MB: {self._option} lets more through")


def is_safe(place: str, api: str) -> bool:
    """Whether a row may have something fetched from there.

    >>> is_safe("https://bucket.example/x", ""), is_safe("http://10.0.0.1/x", "https://api.example")
    (True, False)
    >>> [is_safe("http://127.0.0.1:9/x", api) for api in ("https://api.example", "http://localhost:1984/api")]
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
