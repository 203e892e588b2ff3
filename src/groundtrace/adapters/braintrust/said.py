"""What people said of a trace on Braintrust, and whether it was a complaint.

A score on a row of the traced program is taken for a user's: scorers' are on spans of their own. A thumb is 1 or 0, so
0 is a complaint; in a human-review column what stands below the middle of its values is. Under the names of aggregates
and of online rules no user speaks, nor under our own, nor in the columns in which people answer us. Not verified: that
the rows tell all of this, for only the audit log says who gave a score. Numbers of reviews stand on the reviewed row as
well [documentation]; a comment is nobody's complaint by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from groundtrace.adapters.asked import asked
from groundtrace.adapters.braintrust import rows
from groundtrace.adapters.braintrust.api import PLATFORM, Row
from groundtrace.adapters.braintrust.columns import column, is_human
from groundtrace.model import Signal
from groundtrace.sampling import ERROR

COMMENT = "comment"
"""The name of the signal a comment gives."""

_OWN = ("groundtrace_", "groundtrace.")
_ANSWERS = frozenset(column(one.name) for one in asked())
_MOST = 20
"""Comments of one trace that are told."""


class Scale:
    """What is a complaint under each name, from the scores a project is set up with."""

    def __init__(self, configs: Iterable[Row] = ()) -> None:
        self._middles: dict[str, float] = {}
        self._others: set[str] = set()
        for config in configs:
            name = str(config.get("name"))
            if not is_human(config):
                self._others.add(name)
                continue
            listed = config.get("categories")
            values = [one.get("value") for one in _list(listed) if isinstance(one, Mapping)]
            numbers = [number for value in values if (number := _number(value)) is not None]
            self._middles[name] = (min(numbers) + max(numbers)) / 2 if numbers else 0.5

    def is_a_users(self, name: str) -> bool:
        """Whether a user may have given a score of this name.

        >>> Scale().is_a_users("thumb"), Scale().is_a_users("groundtrace_source_support")
        (True, False)
        """
        return not name.startswith(_OWN) and name not in self._others and name not in _ANSWERS

    def is_complaint(self, name: str, value: float) -> bool:
        """Whether it complains.

        >>> Scale().is_complaint("thumb", 0), Scale().is_complaint("thumb", 0.4)
        (True, False)
        """
        return value < self._middles[name] if name in self._middles else value <= 0


def scored(row: Row, scale: Scale) -> Iterator[Signal]:
    """The scores users gave on a row."""
    scores = row.get("scores")
    if not isinstance(scores, Mapping) or rows.is_aside(row):
        return
    for name, value in scores.items():
        number = _number(value)
        if number is not None and scale.is_a_users(str(name)):
            negative = scale.is_complaint(str(name), number)
            yield Signal(str(name), value=number, negative=negative, source=PLATFORM)


def failed(row: Row) -> Iterator[Signal]:
    """That something failed."""
    if row.get("error"):
        yield Signal(ERROR, value=True, comment=rows.line_of(row["error"]), source=PLATFORM)


def together(told: Iterable[Signal]) -> tuple[Signal, ...]:
    """One signal a name, a complaint before others; of comments all."""
    first: dict[Any, Signal] = {}
    for one in told:
        key = (one.name, one.comment) if one.name == COMMENT else one.name
        if key not in first or (one.negative and not first[key].negative):
            first[key] = one
    return tuple(first.values())


def commented(held: Iterable[Row]) -> Iterator[Signal]:
    """The comments people left anywhere on a trace, the oldest first."""
    found: dict[str, tuple[str, str]] = {}
    for row in held:
        for one in _list(row.get("comments")):
            comment = one.get("comment") if isinstance(one, Mapping) else None
            text = comment.get("text") if isinstance(comment, Mapping) else comment
            if isinstance(text, str) and text.strip() and rows.told(one, "metadata", rows.OURS) is None:
                found[str(one.get("id"))] = (str(one.get("created") or ""), text.strip())
    for _, text in sorted(found.values())[:_MOST]:
        yield Signal(COMMENT, comment=text, source=PLATFORM)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
