"""Braintrust's query language as a tree: values are literals in it, so that none can be taken for part of a query.

The forms are those the SDK sends itself (braintrust 0.48.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

Tree: TypeAlias = dict[str, Any]
"""An expression."""

NOTHING: Tree = {"op": "literal", "value": False}
"""What no row fits."""


def ident(*path: str) -> Tree:
    """A field of a row, by the names that lead to it."""
    return {"op": "ident", "name": list(path)}


def literal(value: object) -> Tree:
    """A value as it is."""
    return {"op": "literal", "value": value}


def compared(op: Literal["eq", "ne", "lt", "le", "gt", "ge"], field: str | Sequence[str], value: object) -> Tree:
    """A field held against a value; a row without the field does not fit."""
    path = (field,) if isinstance(field, str) else field
    return {"op": op, "left": ident(*path), "right": literal(value)}


def within(field: str | Sequence[str], values: Iterable[object]) -> Tree:
    """A field that is one of these; of no values no row is, for Braintrust refuses an empty list."""
    path, listed = (field,) if isinstance(field, str) else field, list(values)
    return {"op": "in", "left": ident(*path), "right": literal(listed)} if listed else NOTHING


def missing(*path: str) -> Tree:
    """A field that is not there."""
    return {"op": "isnull", "expr": ident(*path)}


def given(*path: str) -> Tree:
    """A field that is there."""
    return {"op": "isnotnull", "expr": ident(*path)}


def every(*parts: Tree | None) -> Tree:
    """All of these; what is None is left out."""
    return _joined("and", parts)


def some(*parts: Tree | None) -> Tree:
    """Any of these."""
    return _joined("or", parts)


def _joined(op: str, parts: Iterable[Tree | None]) -> Tree:
    told = [part for part in parts if part is not None]
    if len(told) == 1:
        return told[0]
    return {"op": op, "children": told} if told else literal(op == "and")


def query(
    kind: str,
    ident_: str,
    where: Tree,
    *,
    limit: int,
    sort: str = "_pagination_key",
    descending: bool = False,
    fields: Sequence[Sequence[str]] = (),
) -> Mapping[str, Any]:
    """A whole query of an object's spans: always with a shape, a bound and a limit. `fields` are paths; none is all."""
    chosen: list[Mapping[str, Any]] = [{"alias": ".".join(path), "expr": ident(*path)} for path in fields]
    return {
        "select": chosen or [{"op": "star"}],
        "from": {"op": "function", "name": ident(kind), "args": [literal(ident_)], "shape": "spans"},
        "filter": where,
        "sort": [{"expr": ident(sort), "dir": "desc" if descending else "asc"}],
        "limit": limit,
    }
