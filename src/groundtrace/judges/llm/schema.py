"""A rubric's JSON Schema as providers' structured outputs take it, or word that it can't be said that way.

The subset is the one OpenAI, Anthropic and Google share: closed objects, every field required, no bounds. What it
leaves out is checked by the gate all the same, which reads every reply against the rubric's own schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from groundtrace.judges.llm.client import Question

_T = TypeVar("_T")
_KEPT = 64
"""Rubrics, copies and settings a client remembers."""

_NULL = {"type": "null"}
_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (type(None), "null"),
)
_UNSAYABLE = frozenset(
    ("prefixItems", "patternProperties", "not", "if", "dependentSchemas", "dependentRequired", "contains")
)
"""Words that change what is meant, so that a schema without them would ask for something else."""


class _OpenError(ValueError):
    """The schema allows what the subset can't say."""


def strict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema a provider can hold a reply to, or None where it allows what can't be said that way.

    A field that may be left out may be null instead, since every field is required; bounds, defaults and titles are
    dropped.

    >>> strict({"type": "object", "properties": {"score": {"type": "integer", "minimum": 1}}, "required": ["score"]})
    ... # doctest: +NORMALIZE_WHITESPACE
    {'type': 'object', 'properties': {'score': {'type': 'integer'}}, 'required': ['score'],
     'additionalProperties': False}
    >>> strict({"type": "object", "additionalProperties": {"type": "string"}}) is None
    True
    """
    try:
        made = _closed(schema)
        named = {name: _closed(inner) for name, inner in (schema.get("$defs") or {}).items()}
    except (_OpenError, AttributeError, KeyError, RecursionError, TypeError):  # the last four: no schema at all
        return None
    if made.get("type") != "object":
        return None
    return {**made, "$defs": named} if named else made


def label(name: str) -> str:
    """The schema's name in the letters providers allow.

    >>> label("source support/v1")
    'source_support_v1'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "verdict"


class Kept(Generic[_T]):
    """What was made of the part of a question that its record does not change, for all that are equal in it."""

    def __init__(self, make: Callable[[Question], _T]) -> None:
        self._make = make
        self._made: dict[tuple[Any, ...], list[tuple[Mapping[str, Any], _T]]] = {}

    def of(self, question: Question) -> _T:
        """What was made for an equal question, or is made now."""
        key = (question.prefix, question.name, question.mode, question.temperature, question.max_tokens)
        known = self._made.get(key, [])
        for schema, made in known:
            if schema is question.schema or schema == question.schema:  # some rubrics make it anew for each record
                return made
        if len(self._made) + len(known) > _KEPT:
            self.forget()
        made = self._make(question)
        self._made.setdefault(key, []).append((question.schema, made))
        return made

    def forget(self) -> None:
        """Make all anew."""
        self._made.clear()


def _closed(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or _UNSAYABLE & schema.keys():
        raise _OpenError
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    told = {"description": schema["description"]} if isinstance(schema.get("description"), str) else {}
    if choices := _choices(schema):
        return {"anyOf": choices} | told
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values is not None:
        return {"type": _type_of(values), "enum": list(values)} | told
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else list(kind or ())
    if not kinds:
        raise _OpenError
    made: dict[str, Any] = {"type": kind if isinstance(kind, str) else kinds}
    if "object" in kinds:
        made |= _fields(schema)
    if "array" in kinds:
        made["items"] = _closed(schema.get("items"))
    return made | told


def _choices(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What it may be, one of; a single part of `allOf` is that part."""
    parts = schema.get("allOf")
    if parts is not None and len(parts) != 1:
        raise _OpenError
    return [_closed(one) for one in schema.get("anyOf") or schema.get("oneOf") or parts or ()]


def _fields(schema: Mapping[str, Any]) -> dict[str, Any]:
    fields = schema.get("properties")
    if not fields or isinstance(schema.get("additionalProperties"), Mapping):
        raise _OpenError
    needed = schema.get("required", ())
    made = {name: _closed(one) if name in needed else _nullable(_closed(one)) for name, one in fields.items()}
    return {"properties": made, "required": list(made), "additionalProperties": False}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """It or null."""
    if "anyOf" in schema:
        return schema if _NULL in schema["anyOf"] else {**schema, "anyOf": [*schema["anyOf"], _NULL]}
    if schema.get("type") == "null" or "null" in _listed(schema.get("type")):
        return schema
    return {"anyOf": [schema, _NULL]}


def _listed(kind: Any) -> Sequence[str]:
    return kind if isinstance(kind, list) else ()


def _type_of(values: Sequence[Any]) -> str | list[str]:
    """The type of listed values, which providers want said.

    >>> _type_of([1, 0.5, None]), _type_of(["a", "b"])
    (['number', 'null'], 'string')
    """
    found = [next((name for kind, name in _TYPES if isinstance(value, kind)), "") for value in values]
    if "" in found or not found:
        raise _OpenError
    if "number" in found:
        found = ["number" if name == "integer" else name for name in found]
    names = list(dict.fromkeys(found))
    return names[0] if len(names) == 1 else names
