"""Inputs and outputs too large for their row, which LangSmith keeps apart under an address that is good for a while.

Attachments are kept so too, and are left alone. Not verified: that v2 tells such addresses, for how long they work, and
that they may be relative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from groundtrace.adapters.apart import Fetching, Lost
from groundtrace.adapters.lines import mended

_SIDES = ("inputs", "outputs")


class Payloads:
    """Fetches what stands apart from rows, of at most `most` bytes each; `lost` says why some could not be had.

    `api` tells the API's address, which is only asked for once something stands apart.
    """

    def __init__(self, most: int, api: Callable[[], str] | None = None) -> None:
        self._api = api
        self._fetching = Fetching(most, "payload_mb")
        self.lost = self._fetching.lost

    def filled(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with its inputs and outputs, as far as they could be had."""
        for side in _SIDES:
            place = _address(row.get(f"{side}_s3_urls"))
            if row.get(side) or place is None:
                continue
            try:
                row = {**row, side: self._fetch(place)}
            except Lost as lost:
                self.lost[str(lost)] += 1
        return row

    def close(self) -> None:
        """Cut the line, if there was one."""
        self._fetching.close()

    def _fetch(self, place: str) -> Any:
        api = self._api() if self._api else ""
        data = self._fetching.fetch(_resolved(place, api), api)
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            pass
        try:
            return mended(data)
        except ValueError:
            raise Lost("are no JSON") from None


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
