"""Which traces are meant, by their roots: as Braintrust is asked, and as its answer is held to.

Braintrust's language has no documented tree for "the list holds", so tags are looked through here. Frameworks nest the
user's own metadata and tags in the metadata [LangChain's handler does]: either place counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from groundtrace.adapters.braintrust import btql
from groundtrace.adapters.braintrust.api import Row
from groundtrace.adapters.braintrust.rows import told

ROOTS = btql.some(
    btql.compared("eq", "is_root", value=True), btql.every(btql.missing("is_root"), btql.missing("span_parents"))
)
"""Rows with which traces begin."""


@dataclass(frozen=True, slots=True)
class Filter:
    """All `tags`, all `metadata` (a dotted key goes into an object), with or without an `error`; or nothing at all.

    >>> Filter(metadata={"user.tier": "1"}).fits({"metadata": {"metadata": {"user": {"tier": 1}}}})
    True
    """

    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    error: bool | None = None

    @property
    def fields(self) -> tuple[tuple[str, ...], ...]:
        """What has to be asked of a row to know whether it fits."""
        return tuple(path for key in self.metadata for path in _paths(key))

    @property
    def where(self) -> btql.Tree | None:
        """As much of it as Braintrust can be asked; None where that is nothing."""
        parts = [*self._clauses()]
        return btql.every(*parts) if parts else None

    def fits(self, row: Row) -> bool:
        """Whether a root fits it."""
        listed = [tag for tags in (row.get("tags"), told(row, "metadata", "tags")) for tag in _list(tags)]
        if not {*self.tags} <= {str(tag) for tag in listed}:
            return False
        if self.error is not None and bool(row.get("error")) != self.error:
            return False
        return all(any(_is(told(row, *path), value) for path in _paths(key)) for key, value in self.metadata.items())

    def _clauses(self) -> Iterator[btql.Tree]:
        for key, value in self.metadata.items():
            yield btql.some(*(btql.compared("eq", path, one) for path in _paths(key) for one in _readings(value)))
        if self.error is not None:
            yield btql.given("error") if self.error else btql.missing("error")


def _paths(key: str) -> tuple[tuple[str, ...], ...]:
    """Where a user's own metadata may stand."""
    return ("metadata", *key.split(".")), ("metadata", "metadata", *key.split("."))


def _readings(value: str) -> list[Any]:
    """A value as it is written, and as the number or the truth it may be.

    >>> _readings("7"), _readings("true"), _readings("prod")
    (['7', 7], ['true', True], ['prod'])
    """
    try:
        read = json.loads(value, parse_constant=str)
    except ValueError:
        return [value]
    return [value, read] if isinstance(read, int | float) else [value]


def _is(held: object, value: str) -> bool:
    return any(held == one and isinstance(held, bool) == isinstance(one, bool) for one in _readings(value))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
