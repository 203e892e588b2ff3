"""Where a value stands in a span: `app.question`, `app.payload.input.question`, `app.docs[*].text`.

    path = key step*
    step = .key | [0] | [-1] | [*] | ["any key"]
    key  = any characters but . [ ] "  or, in quotation marks, any but "

A path starts with the name of an attribute, dots and all, and goes on inside its value. Where several names are its
beginning, the longest that leads to something counts. Values may be structured, JSON text, or JSON text inside JSON
text; a list that was flattened into attributes (`app.docs.0.text`) is one list. `[*]` stands for every item.
Nothing is evaluated, and reading takes time linear in what is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

import orjson

from groundtrace.conventions.shapes import MANY, decode, is_masked
from groundtrace.errors import PlanError
from groundtrace.model import State

Step: TypeAlias = "str | int | None"
"""A key, an index, or None for every item."""

_STEP = re.compile(
    r'(?P<key>[^.\[\]"]+)|"(?P<quoted>[^"]*)"|\[(?:(?P<index>-?[0-9]{1,6})|(?P<every>\*)|"(?P<named>[^"]*)")\]'
)
_LONGEST = 32  # steps of a path
_WRAPPED = 3  # JSON texts inside each other
_SHOWN = 12  # keys that are named where a path leads nowhere


@dataclass(frozen=True, slots=True)
class Path:
    """A path as it was written, and its steps."""

    text: str
    steps: tuple[Step, ...]

    @property
    def many(self) -> bool:
        """Whether it may lead to several values."""
        return None in self.steps


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why a path leads nowhere: how far it led, what is there, and whether that was cut or masked on the way."""

    where: str
    there: str
    state: State = "missing"

    def __str__(self) -> str:
        """What is there instead, for a remedy."""
        return f"{self.where} holds {self.there}" if self.where else f"the span holds {self.there}"


def parse(text: str, key: str) -> Path:
    """A path out of its text; PlanError under this key says where it goes wrong.

    >>> parse('app.docs[*]."a.b"[-1]', "context").steps
    ('app', 'docs', None, 'a.b', -1)
    >>> parse("app.docs[*", "context")
    Traceback (most recent call last):
    groundtrace.errors.PlanError: context: 'app.docs[*' is no path: character 9, '[*', is no step; steps are .key, ...
    """
    steps: list[Step] = []
    at = 0
    while at < len(text) or not steps:
        bracket = text.startswith("[", at) and bool(steps)
        dot = 0 if bracket or not steps else 1
        found = _STEP.match(text, at + dot)
        step = found and (found["key"] or found["quoted"])
        joined = not dot or text.startswith(".", at)
        if found is None or not joined or bool(step) == bracket or _padded(found):
            raise _bad(text, key, at)
        steps.append(_step(found))
        at = found.end()
    if len(steps) > _LONGEST:
        raise PlanError(key, text, f"is no path: it has more than {_LONGEST} steps")
    return Path(text, tuple(steps))


def _padded(found: re.Match[str]) -> bool:
    return found["key"] is not None and found["key"] != found["key"].strip()


def _step(found: re.Match[str]) -> Step:
    if found["every"]:
        return None
    if found["index"]:
        return int(found["index"])
    return found["key"] or found["quoted"] or found["named"]


def _bad(text: str, key: str, at: int) -> PlanError:
    rest = text[at : at + 20]
    problem = f"is no path: character {at + 1}, {rest!r}, is no step" if rest else "is no path: it ends too early"
    return PlanError(key, text, problem, hint='steps are .key, [0], [-1], [*] and ["any key"], after an attribute')


# --- following a path -------------------------------------------------------------------------------------------------


def follow(path: Path, attributes: Mapping[str, Any]) -> tuple[Any, ...] | Nothing:
    """The values a path leads to in a span's attributes, or why it leads nowhere.

    >>> follow(parse("app.in.question", ""), {"app.in": '{"question": "Who?"}'})
    ('Who?',)
    >>> str(follow(parse("app.in.query", ""), {"app.in": '{"question": "Who?"}'}))
    'app.in holds question'
    >>> follow(parse("docs[*].text", ""), {"docs.0.text": "A.", "docs.1.text": "B."})
    ('A.', 'B.')
    """
    names = _leading(path.steps)
    lost: Nothing | None = None
    for size in range(len(names), 0, -1):
        name = ".".join(names[:size])
        if name in attributes:
            held = inside(attributes[name], path.steps[size:], name)
            if not isinstance(held, Nothing):
                return held
            lost = lost or held
    flat = _unflattened(attributes, ".".join(names)) if lost is None else None
    if flat is not None:
        return inside(flat, path.steps[len(names) :], ".".join(names))
    return lost or Nothing("", _listed(attributes) if attributes else "no attributes")


def _leading(steps: Sequence[Step]) -> list[str]:
    """The keys a path starts with: all that may be part of the attribute's name."""
    names = []
    for step in steps:
        if not isinstance(step, str):
            break
        names.append(step)
    return names


def inside(value: Any, steps: Sequence[Step], where: str) -> tuple[Any, ...] | Nothing:
    """The values these steps lead to inside a value; every item must go the whole way."""
    held = [value]
    for step in steps:
        reached: list[Any] = []
        for at, item in enumerate(held):
            taken = _taken(item, step)
            if isinstance(taken, Nothing):
                item_of = f", item {at + 1} of {len(held)}," if len(held) > 1 else ""
                return replace(taken, where=f"{where}{item_of}")
            reached.extend(islice(taken, MANY + 1 - len(reached)))
        held = reached
        where += "[*]" if step is None else f"[{step}]" if isinstance(step, int) else f".{step}"
    return tuple(held)


def _taken(value: Any, step: Step) -> Sequence[Any] | Nothing:
    found = unpacked(value)
    if step is None:
        return found if isinstance(found, (list, tuple)) else seen(value)
    if isinstance(step, int):
        listed = isinstance(found, (list, tuple)) and -len(found) <= step < len(found)
        return [found[step]] if listed else seen(value)
    return [found[step]] if isinstance(found, Mapping) and step in found else seen(value)


def unpacked(value: Any) -> Any:
    """A value out of the JSON texts it is wrapped in; a text that is no JSON stays one.

    >>> import json
    >>> unpacked(json.dumps(json.dumps({"a": 1}))), unpacked('"Who?"'), unpacked("Who?")
    ({'a': 1}, 'Who?', 'Who?')
    """
    for _ in range(_WRAPPED):
        if not isinstance(value, str):
            break
        inner = _unquoted(value) if value.startswith('"') and value.endswith('"') else decode(value).value
        if inner == value:
            break
        value = inner
    return value


def _unquoted(value: str) -> str:
    try:
        inner = orjson.loads(value)
    except ValueError:
        return value
    return inner if isinstance(inner, str) else value


def seen(value: Any) -> Nothing:
    """What stands where something else was looked for.

    >>> seen({"query": "Who?", "k": 4}).there, seen([1, 2]).there, seen("Who?").there
    ('query, k', 'a list of 2', 'a text')
    """
    found = unpacked(value)
    if isinstance(found, Mapping):
        return Nothing("", _listed(found) if found else "an empty object")
    if isinstance(found, (list, tuple)):
        return Nothing("", f"a list of {len(found)}" if found else "an empty list")
    if isinstance(found, str):
        if is_masked(found):
            return Nothing("", "a masked text", "masked")
        if decode(found).cut:
            return Nothing("", "JSON that breaks off", "truncated")
        return Nothing("", "a text" if found.strip() else "an empty text")
    return Nothing("", "nothing" if found is None else f"a {type(found).__name__}")


def _listed(keys: Iterable[Any]) -> str:
    shown = [str(key)[:80] for key in islice(keys, _SHOWN + 1)]
    return ", ".join(shown[:_SHOWN]) + (" and more" if len(shown) > _SHOWN else "")


def _unflattened(attributes: Mapping[str, Any], name: str) -> Any:
    """The attributes below a name as one value, None where there are none; numbered ones are a list in their order."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(f"{name}."):
            *above, leaf = key[len(name) + 1 :].split(".", _LONGEST)
            node: Any = tree
            for step in above:
                node = node.setdefault(step, {}) if isinstance(node, dict) else None
            if isinstance(node, dict):
                node.setdefault(leaf, value)
    return _numbered(tree) if tree else None


def _numbered(tree: dict[str, Any], depth: int = _LONGEST) -> Any:
    """A tree in which branches whose keys are all numbers are lists, in their order."""
    held = {k: _numbered(v, depth - 1) if isinstance(v, dict) and depth else v for k, v in tree.items()}
    if held and all(key.isascii() and key.isdigit() and len(key) < 9 for key in held):
        return [held[key] for key in sorted(held, key=int)]
    return held
