"""Inputs and outputs too large for their row, which LangSmith keeps apart under an address that is good for a while.

Attachments are kept so too, and are left alone. Not verified: that v2 tells such addresses, and for how long they work.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
import orjson

from groundtrace.adapters.lines import cleaned

_SIDES = ("inputs", "outputs")
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)


class Payloads:
    """Fetches what stands apart from rows, of at most `most` bytes each; `lost` says why some could not be had."""

    def __init__(self, most: int) -> None:
        self._most = most
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
        if not _is_safe(place):
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
            return cleaned(json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: None))
        except (ValueError, RecursionError):
            raise _Lost("are no JSON") from None


class _Lost(Exception):
    """A payload can't be had."""


def _address(told: object) -> str | None:
    root = told.get("ROOT") if isinstance(told, Mapping) else None
    place = root.get("presigned_url") if isinstance(root, Mapping) else None
    return place if isinstance(place, str) else None


def _is_safe(place: str) -> bool:
    """Whether nobody between here and there can read along, or there is here.

    >>> _is_safe("https://bucket.example/x"), _is_safe("http://127.0.0.1:9/x"), _is_safe("http://10.0.0.1/x")
    (True, True, False)
    """
    try:
        parts = urlsplit(place)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    if parts.scheme != "http":
        return False
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
