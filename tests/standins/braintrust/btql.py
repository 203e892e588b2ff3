"""Braintrust's query language, as far as the stand-in answers it: trees as the SDK sends them, and plain text."""

from __future__ import annotations

import base64
import copy
import json
import operator
import re
from collections.abc import Mapping
from typing import Any

from .store import Key, Refusal, Store, public

Row = Mapping[str, Any]
_ORDERS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_SIGNS = {"=": "eq", "!=": "ne", ">": "gt", ">=": "ge", "<": "lt", "<=": "le", "in": "in"}
_CONDITION = re.compile(r"\(?([\w.]+)\s*(is not null|is null|in|>=|<=|!=|=|>|<)\s*(.*?)\)?$", re.IGNORECASE | re.DOTALL)
_BOUNDS = frozenset({"created", "_xact_id", "_pagination_key", "root_span_id", "id"})
"""What a query must speak of, or all there ever was is read."""


def run(store: Store, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a query; Refusal where it is none, or where the stand-in was told to refuse it."""
    asked = body["query"]
    tree = parse(asked) if isinstance(asked, str) else asked
    source = tree["from"]
    key: Key = (source["name"]["name"][0], source["args"][0]["value"])
    if store.bounded and not _BOUNDS & set(names(tree.get("filter") or {})):
        raise Refusal(400, "Query blocked: No filters available for segment elimination")
    limit = tree.get("limit") or store.default_limit
    if store.page_rows is not None and limit > store.page_rows:
        raise Refusal(504, "Query timed out")
    found = _found(store, key, tree, body.get("version"))
    start = int(base64.b64decode(tree["cursor"])) if tree.get("cursor") else 0
    end = start + min(limit, store.row_cap or limit)
    page = [_selected(row, tree.get("select")) for row in found[start:end]]
    if store.page_bytes is not None and len(json.dumps(page)) > store.page_bytes:
        raise Refusal(413, "Response too large")
    cursor = base64.b64encode(str(end).encode()).decode() if end < len(found) else None
    state = {"realtime_state": {"type": "on"}, "freshness_state": {}}
    return {"data": page, "schema": {}, "cursor": cursor, **state}


def _found(store: Store, key: Key, tree: Row, version: str | None) -> list[Row]:
    rows: list[Row] = list(store.found(key))
    if version:
        rows = [row for row in rows if int(row["_xact_id"]) <= int(version)]
    condition = tree.get("filter")
    if condition:
        traces = _traces(condition)
        some = rows if traces is None else [row for row in rows if row["root_span_id"] in traces]
        hit = [row for row in some if value(condition, row)]
        if tree["from"].get("shape") == "traces":
            roots = {row["root_span_id"] for row in hit}
            hit = [row for row in rows if row["root_span_id"] in roots]
        rows = hit
    newest = {"expr": {"op": "ident", "name": ["_pagination_key"]}, "dir": "desc"}
    for order in reversed(tree.get("sort") or [newest]):
        rows.sort(key=lambda row, by=order["expr"]: _place(value(by, row)), reverse=order.get("dir", "asc") == "desc")
    return rows


def _traces(condition: Row) -> frozenset[Any] | None:
    """The traces that a condition leaves, where it names them: looking at no others is all the speed there is."""
    for part in condition.get("children", ()) if condition["op"] == "and" else (condition,):
        if part["op"] == "in" and part["left"] == _ident("root_span_id") and isinstance(part["right"]["value"], list):
            return frozenset(part["right"]["value"])
    return None


def _place(told: Any) -> tuple[bool, Any]:
    return told is None, told


def _selected(row: Row, fields: Any) -> dict[str, Any]:
    if not isinstance(fields, list) or any(one.get("op") == "star" for one in fields):
        return copy.deepcopy(public(row))
    return copy.deepcopy({one["alias"]: value(one["expr"], row) for one in fields})


def value(tree: Row, row: Row) -> Any:  # noqa: C901, PLR0911 - a language is a list of cases
    """What an expression gives for a row; a comparison with what is not there is false."""
    op = tree["op"]
    if op == "literal":
        return tree["value"]
    if op == "ident":
        return _dug(row, tree["name"])
    if op in ("and", "or"):
        parts = tree["children"] if "children" in tree else (tree["left"], tree["right"])
        told = (bool(value(part, row)) for part in parts)
        return all(told) if op == "and" else any(told)
    if op == "not":
        return not value(tree["expr"], row)
    if op in ("isnull", "isnotnull"):
        return (value(tree["expr"], row) is None) == (op == "isnull")
    left, right = value(tree["left"], row), value(tree["right"], row)
    if op == "in":
        if not isinstance(right, list) or not right:
            raise Refusal(400, "IN takes a list that is not empty")
        return left in right
    if op == "includes":
        return isinstance(left, list) and all(one in left for one in (right if isinstance(right, list) else [right]))
    if left is None or right is None:
        return None if op == "sub" else False
    try:
        return left - right if op == "sub" else _ORDERS[op](left, right)
    except TypeError:
        return False
    except KeyError:
        raise Refusal(400, f"unknown operator {op}") from None


def names(tree: Row) -> set[str]:
    """The fields an expression speaks of."""
    if tree.get("op") == "ident":
        return {tree["name"][0]}
    parts = [*tree.get("children", ()), *(tree[side] for side in ("left", "right", "expr") if side in tree)]
    return {name for part in parts for name in names(part)}


def _dug(row: Row, path: list[str]) -> Any:
    at: Any = row
    for name in path:
        at = at.get(name) if isinstance(at, dict) else None
    return at


def parse(written: str) -> dict[str, Any]:
    """The tree of a text like `select: * | from: project_logs('id') spans | filter: a.b = 'x' | limit: 9`."""
    parts = [part.strip() for part in re.split(r"\n|\s\|\s", written) if part.strip()]
    told: dict[str, str] = {}
    for part in parts:
        found = re.match(r"(\w+)\s*:\s*(.*)$", part, re.DOTALL)
        if not found:
            raise Refusal(400, f"no clause: {part}")
        told[found[1]] = found[2]
    source = re.match(r"(\w+)\(\s*'([^']+)'\s*\)\s*(\w+)?", told.get("from", ""))
    if not source:
        raise Refusal(400, "from: no source")
    args = [{"op": "literal", "value": source[2]}]
    function = {"op": "function", "name": _ident(source[1]), "args": args, "shape": source[3] or "spans"}
    out: dict[str, Any] = {"from": function}
    if told.get("select", "*").strip() != "*":
        out["select"] = [{"alias": name.strip(), "expr": _ident(name.strip())} for name in told["select"].split(",")]
    if "filter" in told:
        clauses = re.split(r"\s+and\s+", told["filter"].strip("() "), flags=re.IGNORECASE)
        out["filter"] = {"op": "and", "children": [_clause(clause) for clause in clauses]}
    if "limit" in told:
        out["limit"] = int(told["limit"])
    if "cursor" in told:
        out["cursor"] = told["cursor"].strip("'\"")
    if "sort" in told:
        field, *way = told["sort"].split()
        out["sort"] = [{"expr": _ident(field), "dir": (way or ["asc"])[0].lower()}]
    return out


def _ident(name: str) -> dict[str, Any]:
    return {"op": "ident", "name": name.split(".")}


def _clause(written: str) -> dict[str, Any]:
    found = _CONDITION.match(written.strip())
    if not found:
        raise Refusal(400, f"no condition: {written}")
    field, sign, right = _ident(found[1]), found[2].lower(), found[3]
    if sign in ("is null", "is not null"):
        return {"op": sign.replace(" ", ""), "expr": field}
    told: Any = re.findall(r"'([^']*)'", right) if sign == "in" else None
    if told is None:
        told = right.strip("'") if right.startswith("'") else json.loads(right)
    return {"op": _SIGNS[sign], "left": field, "right": {"op": "literal", "value": told}}
