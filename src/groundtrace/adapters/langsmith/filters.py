"""Which runs are meant: a filter in plain values, written in LangSmith's filter language, or one written by hand.

What is written by hand is passed on as it is, once it was read: LangSmith answers a mistake in it late, or not at all.

The language, as documented [LangSmith's docs and command line]: `eq neq gt gte lt lte has in like notlike` compare a
field with a value, `search` takes one term, `and`, `or` and `not` join. Not verified on a real server: `notlike`, and
which fields beyond the documented ones can be asked for; a field that is not known is passed on.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from groundtrace.errors import PlanError

_COMPARING = ("eq", "neq", "gt", "gte", "lt", "lte", "has", "in", "like", "notlike")
_JOINING = ("and", "or")
_FUNCTIONS = (*_COMPARING, *_JOINING, "not", "search")
_FIELDS = (
    "id", "name", "run_type", "status", "start_time", "end_time", "latency", "error", "tags", "is_root", "thread_id",
    "metadata_key", "metadata_value", "input_key", "input_value", "output_key", "output_value", "feedback_key",
    "feedback_score", "feedback_value", "feedback_source", "total_tokens", "total_cost", "first_token_time", "trace_id",
    "parent_run_id", "reference_example_id", "prompt_tokens", "completion_tokens", "metadata",
)  # fmt: skip
_PAIRED = ("metadata", "input", "output")
_WORDS = {"true": True, "false": False, "null": None}
_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<word>[A-Za-z_][\w.]*)|(?P<sign>[(),\[\]]))"
)
_ALIKE = 0.8
_DEEPEST = 50


@dataclass(frozen=True, slots=True)
class Filter:
    r"""Which traces are meant, by their roots; what is empty is not asked.

    All `tags`, all `metadata`, feedback under the key `has_feedback`, with or without an `error`; and what `raw` says
    in the filter language. Times are a window's.

    >>> print(Filter(tags=("prod",), metadata={"env": 'it\'s "q"'}).text)
    and(has(tags, "prod"), and(eq(metadata_key, "env"), eq(metadata_value, "it's \"q\"")))
    >>> Filter().text
    ''
    """

    tags: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    has_feedback: str = ""
    error: bool | None = None
    raw: str = ""

    @property
    def text(self) -> str:
        """It in the filter language; "" where it asks nothing. PlanError where `raw` is no filter."""
        return both(*self._clauses())

    def _clauses(self) -> Iterator[str]:
        if self.raw.strip():
            yield lint(self.raw)
        for tag in self.tags:
            yield f"has(tags, {quoted(tag)})"
        for key, value in self.metadata.items():
            yield f"and(eq(metadata_key, {quoted(key)}), eq(metadata_value, {quoted(value)}))"
        if self.has_feedback:
            yield f"eq(feedback_key, {quoted(self.has_feedback)})"
        if self.error is not None:
            yield f'{"eq" if self.error else "neq"}(status, "error")'


def both(*filters: str) -> str:
    """A filter that holds where all of these do; empty ones ask nothing.

    >>> both("", 'eq(name, "a")'), both('eq(name, "a")', "eq(is_root, true)")
    ('eq(name, "a")', 'and(eq(name, "a"), eq(is_root, true))')
    """
    asked = [one for one in filters if one]
    return f"and({', '.join(asked)})" if len(asked) > 1 else "".join(asked)


def quoted(value: str) -> str:
    r"""A value as the filter language writes it, whatever it holds.

    >>> print(quoted('it\'s "q"'))
    "it's \"q\""
    """
    return json.dumps(value, ensure_ascii=False)


def is_search(written: str) -> bool:
    """Whether a filter searches texts, which LangSmith lets through a tenth as often.

    >>> is_search('search("tax")'), is_search('eq(name, "search(x)")')
    (True, False)
    """
    words = re.sub(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'", '""', written)
    return re.search(r"\bsearch\s*\(", words) is not None


# --- reading what was written by hand ---------------------------------------------------------------------------------


class Literal(NamedTuple):
    """A value; a list is one too."""

    value: object


class Name(NamedTuple):
    """A field."""

    name: str


class Call(NamedTuple):
    """A function of other nodes."""

    name: str
    given: tuple[Node, ...]


Node: TypeAlias = "Literal | Name | Call"


def lint(written: str) -> str:
    """The filter, if it can be one; else PlanError says what to write instead.

    >>> lint('search(name, "x")')
    Traceback (most recent call last):
    groundtrace.errors.PlanError: filter: 'search(name, "x")' gives search 2 arguments, it takes one; write ...
    """
    _check(_Parser(written).read(), written)
    return written.strip()


class _Parser:
    """Reads a filter from left to right."""

    def __init__(self, written: str) -> None:
        self.written = written
        self.tokens = list(self._split())
        self.at = 0

    def read(self) -> Node:
        """All of it as one node."""
        if not self.tokens:
            raise PlanError("filter", self.written, "says nothing")
        node = self._node(0)
        if self.at < len(self.tokens):
            hint = "join two with and(..., ...)"
            raise PlanError("filter", self.written, f"goes on after its end: {self._rest()}", hint=hint)
        return node

    def _split(self) -> Iterator[tuple[str, str]]:
        at = 0
        while self.written[at:].strip():
            found = _TOKEN.match(self.written, at)
            if found is None:
                here = self.written[at : at + 20].strip()
                hint = "a text stands in double quotes, and a quote inside it after a backslash"
                raise PlanError("filter", self.written, f"can't be read from here on: {here}", hint=hint)
            yield str(found.lastgroup), found.group(str(found.lastgroup))
            at = found.end()

    def _node(self, depth: int) -> Node:
        if self.at >= len(self.tokens) or depth > _DEEPEST:
            problem = "ends too early" if depth <= _DEEPEST else "is nested too deep"
            raise PlanError("filter", self.written, problem, hint="a bracket may be missing")
        kind, said = self.tokens[self.at]
        self.at += 1
        if kind == "text":
            return Literal(_text(said))
        if kind == "number":
            return Literal(float(said))
        if said == "[":
            return Literal([getattr(node, "value", None) for node in self._until("]", depth)])
        if kind == "sign":
            raise PlanError("filter", self.written, f"has a {said} too much before {self._rest()!r}")
        if self.at < len(self.tokens) and self.tokens[self.at] == ("sign", "("):
            self.at += 1
            return Call(said, tuple(self._until(")", depth)))
        return Literal(_WORDS[said]) if said in _WORDS else Name(said)

    def _until(self, end: str, depth: int) -> Iterator[Node]:
        while self.at < len(self.tokens) and self.tokens[self.at] != ("sign", end):
            yield self._node(depth + 1)
            if self.at < len(self.tokens) and self.tokens[self.at] == ("sign", ","):
                self.at += 1
        if self.at >= len(self.tokens):
            raise PlanError("filter", self.written, f"lacks a {end} at its end")
        self.at += 1

    def _rest(self) -> str:
        return " ".join(said for _, said in self.tokens[self.at :])[:40]


def _text(said: str) -> str:
    if said[0] == "'":
        return said[1:-1].replace("\\'", "'").replace("\\\\", "\\")
    try:
        return str(json.loads(said))
    except ValueError:
        return said[1:-1]


def _check(node: Node, written: str) -> None:
    """PlanError where a node can't be one."""
    if not isinstance(node, Call):
        told = node.name if isinstance(node, Name) else node.value
        raise PlanError("filter", written, f"has {told!r} where a condition is wanted", hint='such as eq(name, "x")')
    if node.name not in _FUNCTIONS:
        raise PlanError("filter", written, f"calls {node.name}, which the language does not have", hint=_nearest(node))
    count = len(node.given)
    if node.name in _JOINING or node.name == "not":
        if count < 1 or (node.name == "not" and count > 1):
            raise PlanError("filter", written, f"gives {node.name} {count} conditions")
        for part in node.given:
            _check(part, written)
    elif node.name == "search":
        _check_search(node, written)
    else:
        _check_comparison(node, written)


def _nearest(node: Call) -> str:
    near = difflib.get_close_matches(node.name, _FUNCTIONS, n=1)
    return f"did you mean {near[0]}?" if near else f"it has {', '.join(_FUNCTIONS)}"


def _check_search(node: Call, written: str) -> None:
    if len(node.given) == 1 and isinstance(node.given[0], Literal):
        return
    term = next((quoted(str(n.value)) for n in node.given if isinstance(n, Literal)), '"term"')
    named = next((n.name for n in node.given if isinstance(n, Name)), "name")
    hint = f"write search({term}), or eq({named}, {term}) for a whole value"
    raise PlanError("filter", written, f"gives search {len(node.given)} arguments, it takes one", hint=hint)


def _check_comparison(node: Call, written: str) -> None:
    if len(node.given) != 2:
        hint = f"write {node.name}(field, value)"
        raise PlanError("filter", written, f"gives {node.name} {len(node.given)} arguments, it takes two", hint=hint)
    named, value = node.given
    if not isinstance(named, Name):
        raise PlanError("filter", written, f"compares no field in {node.name}", hint=f"write {node.name}(field, value)")
    if not isinstance(value, Literal):
        told = value.name if isinstance(value, Name) else f"{value.name}(...)"
        hint = f"write {node.name}({named.name}, {quoted(told)}) if it is a text"
        raise PlanError("filter", written, f"compares {named.name} with {told}, which is no value", hint=hint)
    if value.value is None and (node.name, named.name) == ("neq", "error"):
        hint = 'write eq(status, "error"), or neq(status, "error")'
        raise PlanError("filter", written, f"compares {named.name} with null, which LangSmith refuses", hint=hint)
    if (node.name == "in") != isinstance(value.value, list):
        form = "[...]" if node.name == "in" else "one value"
        raise PlanError("filter", written, f"gives {node.name} no {form}", hint=f"write {_listed(node, named, value)}")
    _check_field(node, named, value, written)


def _listed(node: Call, named: Name, value: Literal) -> str:
    held = value.value if isinstance(value.value, list) else [value.value]
    told = ", ".join(json.dumps(one, ensure_ascii=False) for one in held)
    return f"in({named.name}, [{told}])" if node.name in ("in", "eq") else f"{node.name}({named.name}, value)"


def _check_field(node: Call, named: Name, value: Literal, written: str) -> None:
    """Fields that look like a known one are meant to be it; others are LangSmith's to know."""
    first, _, inner = named.name.partition(".")
    if first in _PAIRED and inner:
        told = json.dumps(value.value, ensure_ascii=False)
        how = node.name if node.name != "has" else "eq"
        hint = f"write and(eq({first}_key, {quoted(inner)}), {how}({first}_value, {told}))"
        raise PlanError("filter", written, f"asks for {named.name}, which is no field", hint=hint)
    if named.name in _FIELDS:
        return
    near = difflib.get_close_matches(named.name, _FIELDS, n=1, cutoff=_ALIKE)
    if near:
        raise PlanError("filter", written, f"asks for {named.name}", hint=f"did you mean {near[0]}?")
