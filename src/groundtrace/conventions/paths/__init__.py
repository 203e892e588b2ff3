"""Conventions a plan declares: `[conventions.mine]` with a path to each thing, for spans no vocabulary is known of.

`grammar` is what a path is, `table` what a plan may write, `spoken` what a span says by it, and `examples` holds a
mapping to the plan's own examples of spans and what is to be read from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from groundtrace.conventions.paths.examples import check, given_examples
from groundtrace.conventions.paths.spoken import Mapped
from groundtrace.conventions.paths.table import Table, read_table, written
from groundtrace.model import Reading, Span

__all__ = ["Paths", "declare", "settle"]


class Paths:
    """The mappings of one name: of those that fit a span, the first one reads it.

    >>> mine = Paths("mine", [read_table({"name": "mine", "query": "app.q", "answer": "app.a"})])
    >>> mine.reading(Span("1", "1", attributes={"app.q": "Who?", "app.a": "Ada."})).output.value
    'Ada.'
    """

    marks: tuple[str, ...] = ("",)

    def __init__(self, name: str, tables: Sequence[Table]) -> None:
        self.name = name
        self._mapped = tuple(Mapped(table) for table in tables)

    def reading(self, span: Span) -> Reading | None:
        """What the span holds at the paths; None where no mapping speaks of it."""
        return next((mapped.reading(span) for mapped in self._mapped if mapped.fits(span)), None)


def settle(tables: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The mappings of a plan, held to their examples, in the one form a plan keeps: examples of a file in place.

    PlanError names the key, the path and the position in it, or the example and the first difference.
    """
    read = [given_examples(read_table(table)) for table in tables]
    for convention in _made(read):
        check(convention, [table for table in read if table.name == convention.name])
    return tuple(written(table) for table in read)


def declare(tables: Iterable[Mapping[str, Any]]) -> tuple[Paths, ...]:
    """The conventions of a plan's mappings, one a name, in the order they were first named."""
    return _made([read_table(table) for table in tables])


def _made(tables: Sequence[Table]) -> tuple[Paths, ...]:
    names = dict.fromkeys(table.name for table in tables)
    return tuple(Paths(name, [table for table in tables if table.name == name]) for name in names)
