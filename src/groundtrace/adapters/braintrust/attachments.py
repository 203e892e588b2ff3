"""Attachments among what went in and came out: those that hold text or JSON are put in their place.

A reference names a file Braintrust keeps (`braintrust_attachment`), one in a bucket of the user's
(`external_attachment`), or holds the file itself (`inline_attachment`, a data: address). For the first two
`GET /attachment` gives an address that is good for a while [the SDK]; what a row itself names is never fetched.
Pictures and other files, and what can't be had, stay references: the convention makes gaps of them.
"""

from __future__ import annotations

import binascii
import functools
from base64 import b64decode
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from groundtrace.adapters.apart import Fetching, Lost
from groundtrace.adapters.braintrust.api import Api, Row
from groundtrace.adapters.patience import Refused
from groundtrace.errors import PlanError, PlatformError

_SIDES = ("input", "output")
_KEPT = {"braintrust_attachment": "key", "external_attachment": "url"}
_INLINE = "inline_attachment"
_TEXTS = ("text/", "application/json", "application/x-ndjson", "application/yaml", "application/xml")
_SUFFIXES = (".json", ".txt", ".md", ".csv", ".yaml", ".yml", ".xml", ".html")
_UNTOLD = frozenset({"", "application/octet-stream"})
_DEEP, _MANY = 8, 100
"""How deep attachments are looked for, and how many are fetched of a row."""

_PATIENCE = 30.0


class Attachments:
    """Puts attachments of at most `most` bytes each in their place; `lost` says why some could not be had."""

    def __init__(self, api: Api, most: int) -> None:
        self._api = api
        self._fetching = Fetching(most, "attachment_mb")
        self.lost = self._fetching.lost

    def close(self) -> None:
        """Cut the line, if there was one."""
        self._fetching.close()

    def filled(self, row: Row) -> Row:
        """The row with its attachments in their places, as far as they could be had; what held none is the same."""
        left = [_MANY]
        changed = {side: told for side in _SIDES if (told := self._told(row.get(side), left)) is not row.get(side)}
        return {**row, **changed} if changed else row

    @functools.cached_property
    def _org(self) -> str | None:
        try:
            return self._api.org.id
        except (PlanError, PlatformError):  # an API of one's own is asked without; it says if it minds
            return None

    def _told(self, value: Any, left: list[int], depth: int = 0) -> Any:
        """A value with its attachments in their places, or the very same."""
        if depth > _DEEP:
            return value
        if isinstance(value, Mapping):
            if _is_text(value):
                return self._resolved(value, left)
            parts = {name: self._told(part, left, depth + 1) for name, part in value.items()}
            return parts if any(parts[name] is not value[name] for name in parts) else value
        if isinstance(value, list):
            listed = [self._told(part, left, depth + 1) for part in value]
            return listed if any(a is not b for a, b in zip(listed, value, strict=True)) else value
        return value

    def _resolved(self, told: Mapping[str, Any], left: list[int]) -> Any:
        left[0] -= 1
        if left[0] < 0:
            self.lost[f"are more than {_MANY} of one row: left out"] += 1
            return told
        try:
            return _decoded(self._inline(told) if told["type"] == _INLINE else self._kept(told), told)
        except Lost as lost:
            self.lost[str(lost)] += 1
            return told

    def _inline(self, told: Mapping[str, Any]) -> bytes:
        head, comma, data = str(told.get("src") or "").partition(",")
        if not (comma and head.startswith("data:")):
            raise Lost("stand at an address a row names: not fetched")
        self._fetching.check(len(data) * 3 // 4)
        try:
            return b64decode(data, validate=True) if head.endswith(";base64") else unquote_to_bytes(data)
        except (binascii.Error, ValueError):
            raise Lost("are torn") from None

    def _kept(self, told: Mapping[str, Any]) -> bytes:
        name = _KEPT[str(told["type"])]
        asked = {name: told.get(name), "filename": told.get("filename"), "content_type": told.get("content_type")}
        try:
            found = self._api.call("GET", "/attachment", params={**asked, "org_id": self._org}, patience=_PATIENCE)
        except Refused as refused:
            raise Lost(f"could not be asked for: {refused.status or 'no answer'}") from None
        place = found.get("downloadUrl") if isinstance(found, Mapping) else None
        status = found.get("status") if isinstance(found, Mapping) else None
        arrived = status.get("upload_status") if isinstance(status, Mapping) else "done"
        if arrived != "done":
            raise Lost(f"were not uploaded: {arrived}")
        if not isinstance(place, str):
            raise Lost("have no address")
        return self._fetching.fetch(place, self._api.url)


def _is_text(told: Mapping[str, Any]) -> bool:
    """Whether an object is a reference to a file that can be read.

    >>> kept = {"type": "braintrust_attachment", "key": "k", "filename": "a.json", "content_type": "application/json"}
    >>> _is_text(kept), _is_text({**kept, "content_type": "image/png"}), _is_text({"type": "text", "text": "a"})
    (True, False, False)
    """
    if told.get("type") not in (*_KEPT, _INLINE):
        return False
    kind = str(told.get("content_type") or "").lower().partition(";")[0].strip()
    named = str(told.get("filename") or "").lower().endswith(_SUFFIXES)
    return kind.startswith(_TEXTS) or kind.endswith("+json") or (kind in _UNTOLD and named)


def _decoded(data: bytes, told: Mapping[str, Any]) -> Any:
    """What a file says: as JSON where it is that, else as text."""
    kind, name = str(told.get("content_type") or "").lower(), str(told.get("filename") or "").lower()
    if "json" in kind or name.endswith(".json"):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            raise Lost("are no JSON") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Lost("are no text") from None
