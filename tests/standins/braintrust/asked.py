"""A request, as the routes see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .store import Store


@dataclass(frozen=True)
class Asked:
    """What came."""

    store: Store
    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    raw: bytes
    headers: Mapping[str, str]

    @property
    def org(self) -> str | None:
        """The organisation the request names."""
        return self.headers.get("x-bt-org-name")
