"""A request, as the routes see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .store import Store


@dataclass(frozen=True)
class Asked:
    """What came: its path is without a prefix, but for /v2."""

    store: Store
    method: str
    path: str
    query: Mapping[str, list[str]]
    body: Any
    headers: Mapping[str, str]

    @property
    def host(self) -> str:
        """Where the stand-in is."""
        return f"http://{self.headers.get('Host')}"

    def one(self, name: str, default: Any = None) -> Any:
        """A parameter of the query."""
        return (self.query.get(name) or [default])[0]

    @property
    def selects(self) -> list[str]:
        """The fields that were asked for in the query."""
        told = [value for name in ("selects", "selects[]") for value in self.query.get(name, [])]
        return [name for value in told for name in value.split(",")]
