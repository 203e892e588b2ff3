"""How one row is merged into another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Path = tuple[str, ...]


def merged(old: Mapping[str, Any], new: Mapping[str, Any], whole: Sequence[Path] = (), at: Path = ()) -> dict[str, Any]:
    """The old object with the new one in it, all the way down but for the paths that are replaced whole.

    Tags are a set, as the SDK's own merge has it.

    >>> merged({"a": {"b": 1}, "tags": ["x"]}, {"a": {"c": 2}, "tags": ["y", "x"]})
    {'a': {'b': 1, 'c': 2}, 'tags': ['x', 'y']}
    >>> merged({"a": {"b": 1}}, {"a": {"c": 2}}, [("a",)])
    {'a': {'c': 2}}
    """
    out = dict(old)
    for name, value in new.items():
        path, there = (*at, name), out.get(name)
        if path in whole:
            out[name] = value
        elif isinstance(there, dict) and isinstance(value, dict):
            out[name] = merged(there, value, whole, path)
        elif path == ("tags",) and isinstance(there, list) and isinstance(value, list):
            out[name] = [*there, *(tag for tag in value if tag not in there)]
        else:
            out[name] = value
    return out


def without(row: dict[str, Any], path: Sequence[str], values: Sequence[Any]) -> None:
    """Take values out of a list in a row."""
    at: Any = row
    for name in path[:-1]:
        at = at.get(name) if isinstance(at, dict) else None
    if isinstance(at, dict) and isinstance(at.get(path[-1]), list):
        at[path[-1]] = [value for value in at[path[-1]] if value not in values]
