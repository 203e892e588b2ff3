"""LangSmith's filter language, as far as the stand-in answers it."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .times import moment

Node = tuple[Any, ...]
Row = Mapping[str, Any]

_TOKEN = re.compile(
    r"\s*(?:(?P<str>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<num>-?\d+(?:\.\d+)?)"
    r"|(?P<name>[A-Za-z_][\w.]*)|(?P<p>[(),\[\]]))"
)
_WORDS = {"true": True, "false": False, "null": None}
_ORDERS = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
THREADS = ("session_id", "thread_id", "conversation_id")


def parse(written: str) -> Node:
    """The tree of a filter; ValueError says where it is none."""
    tokens, at = [], 0
    while written[at:].strip():
        found = _TOKEN.match(written, at)
        if not found:
            raise ValueError(f"bad filter at {at}: {written[at : at + 20]!r}")
        tokens.append((found.lastgroup, found.group(str(found.lastgroup))))
        at = found.end()
    node, rest = _node(tokens)
    if rest:
        raise ValueError("trailing tokens")
    return node


def _node(tokens: list[tuple[Any, Any]]) -> tuple[Node, list[tuple[Any, Any]]]:
    (kind, said), *rest = tokens
    if kind == "str":
        return ("lit", json.loads(said) if said[0] == '"' else said[1:-1].replace("\\'", "'")), rest
    if kind == "num":
        return ("lit", float(said)), rest
    if (kind, said) == ("p", "["):
        items, rest = _list(rest, "]")
        return ("lit", [item[1] for item in items]), rest
    if kind != "name":
        raise ValueError(f"unexpected {said!r}")
    if rest[:1] == [("p", "(")]:
        arguments, rest = _list(rest[1:], ")")
        return ("call", said, arguments), rest
    return (("lit", _WORDS[said]) if said in _WORDS else ("field", said)), rest


def _list(rest: list[tuple[Any, Any]], end: str) -> tuple[list[Node], list[tuple[Any, Any]]]:
    items = []
    while rest[0] != ("p", end):
        item, rest = _node(rest)
        items.append(item)
        rest = rest[1:] if rest[0] == ("p", ",") else rest
    return items, rest[1:]


def metadata(run: Row) -> Mapping[str, Any]:
    """A run's metadata."""
    return (run.get("extra") or {}).get("metadata") or {}


def _values(run: Row, name: str, feedback: Sequence[Row]) -> Sequence[Any]:
    """Every value a run offers for a field."""
    known = metadata(run)
    start, end = moment(run.get("start_time")), moment(run.get("end_time"))
    told: dict[str, Any] = {
        "tags": lambda: run.get("tags") or [],
        "metadata_key": lambda: list(known),
        "metadata_value": lambda: [str(value) for value in known.values()],
        "thread_id": lambda: [str(known[name]) for name in THREADS if name in known],
        "feedback_key": lambda: [said["key"] for said in feedback],
        "feedback_score": lambda: [said["score"] for said in feedback if said.get("score") is not None],
        "feedback_value": lambda: [said["value"] for said in feedback if said.get("value") is not None],
        "feedback_source": lambda: [(said.get("feedback_source") or {}).get("type") for said in feedback],
        "latency": lambda: [(end - start).total_seconds()] if start and end else [],
        "is_root": lambda: [run.get("parent_run_id") is None],
    }
    return list(told[name]()) if name in told else [run.get(name)]


def _compared(how: str, one: Any, other: Any) -> bool:
    if how == "eq":
        return one == other or (one is not None and other is not None and str(one) == str(other))
    if how == "neq":
        return not _compared("eq", one, other)
    if one is None or other is None:
        return False
    if isinstance(other, str) and re.fullmatch(r"\d+(\.\d+)?s", other):
        other = float(other[:-1])
    if isinstance(other, str) and isinstance(one, str):
        one, other = moment(one), moment(other)
    return bool(_ORDERS[how](one, other))


def matches(node: Node, run: Row, feedback: Sequence[Row]) -> bool:  # noqa: C901, PLR0911 - a language is a list of cases
    """Whether a filter holds of a run; ValueError where it is none."""
    if node[0] != "call":
        raise ValueError("filter must be a call")
    _, how, arguments = node
    if how == "and":
        return all(matches(part, run, feedback) for part in _unpaired(arguments, run, feedback))
    if how == "or":
        return any(matches(part, run, feedback) for part in arguments)
    if how == "not":
        return not matches(arguments[0], run, feedback)
    if how == "search":
        if len(arguments) != 1:
            raise ValueError(f'"search" requires 1 arguments, got {len(arguments)}')
        words = json.dumps([run.get(name) for name in ("inputs", "outputs", "error", "name")], default=str)
        return str(arguments[0][1]).lower() in words.lower()
    if how == "never":
        return False
    field, wanted = arguments[0][1], arguments[1][1]
    if how == "neq" and wanted is None:
        raise ValueError("neq does not take null")
    found = _values(run, field, feedback)
    if how == "has" and field == "metadata":
        return all(metadata(run).get(name) == value for name, value in json.loads(wanted).items())
    held = {"has": lambda: wanted in found, "in": lambda: any(value in wanted for value in found)}
    held["neq"] = lambda: all(_compared("neq", value, wanted) for value in found)
    if how in held:
        return held[how]()
    if how in ("eq", *_ORDERS):
        return any(_compared(how, value, wanted) for value in found)
    raise ValueError(f"unknown comparator {how}")


def _unpaired(arguments: Sequence[Node], run: Row, feedback: Sequence[Row]) -> Iterable[Node]:
    """What is left of an `and` once its metadata clauses, and its feedback clauses, were taken together."""
    told: dict[str, tuple[str, Any]] = {}
    for part in arguments:
        if part[0] == "call" and len(part[2]) == 2 and part[2][0][0] == "field" and part[2][1][0] == "lit":
            told[part[2][0][1]] = (part[1], part[2][1][1])
    done: set[str] = set()
    if {"metadata_key", "metadata_value"} <= told.keys():
        done |= {"metadata_key", "metadata_value"}
        (how, keys), (compare, value) = told["metadata_key"], told["metadata_value"]
        known = metadata(run)
        named = keys if how == "in" else [keys]
        if not any(name in known and _compared(compare, str(known[name]), value) for name in named):
            return [("call", "never", [])]
    if {"feedback_key", "feedback_score"} <= told.keys():
        done |= {"feedback_key", "feedback_score"}
        (_, key), (compare, value) = told["feedback_key"], told["feedback_score"]
        if not any(said["key"] == key and _compared(compare, said.get("score"), value) for said in feedback):
            return [("call", "never", [])]
    return [part for part in arguments if not (part[0] == "call" and part[2] and part[2][0][1] in done)]


def names(node: Node) -> Iterable[str]:
    """The fields a filter speaks of."""
    if node[0] == "field":
        yield node[1]
    for part in node[2] if node[0] == "call" else ():
        yield from names(part)
