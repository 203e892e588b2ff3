"""A mapping held to the plan's own examples: a span's attributes, and what is to be read from them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from groundtrace.conventions.paths.table import Example, Table
from groundtrace.errors import PlanError
from groundtrace.model import Document, Reading, Said, Span
from groundtrace.ports import Convention

_FACTS = ("session", "user", "model", "response_id")
_EXPECTED = ("query", "answer", "context", "source", "summary", "key_facts", *_FACTS)
_LARGEST = 1_000_000


def given_examples(table: Table) -> Table:
    """The mapping with its examples in place, where they stand in a file: one JSON object a line."""
    if not isinstance(table.examples, str):
        return table
    key, name = f"{table.key}.examples", table.examples
    try:
        with Path(name).open(encoding="utf-8") as file:
            text = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise PlanError(key, name, f"cannot be read: {why}") from None
    if len(text) > _LARGEST:
        raise PlanError(key, name, f"holds more than {_LARGEST:,} characters", hint="a few examples are enough")
    lines = ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())
    examples = tuple(_example(line, f"{key}, {name} line {number}") for number, line in lines)
    if not examples:
        raise PlanError(key, name, "holds no example", hint='write { "attributes": {...}, "expect": {...} } a line')
    return table.model_copy(update={"examples": examples})


def _example(line: str, key: str) -> Example:
    try:
        return Example.model_validate(json.loads(line))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "it"
        raise PlanError(key, line[:80], f"is no example: {where}: {fault['msg']}") from None
    except (ValueError, RecursionError):
        raise PlanError(key, line[:80], "is no JSON") from None


def check(convention: Convention, tables: Iterable[Table]) -> None:
    """Read every example of these mappings; PlanError names the first that reads otherwise, and the difference."""
    for table in tables:
        for number, example in enumerate(table.examples, start=1):
            if isinstance(example, Example):
                _hold(convention, table, example, f"{table.key}.examples[{number}]")


def _hold(convention: Convention, table: Table, example: Example, key: str) -> None:
    for name in example.expect:
        if name not in _EXPECTED:
            raise PlanError(f"{key}.expect", name, "is nothing a mapping reads", valid=_EXPECTED)
    reading = convention.reading(_span(table, example))
    if reading is None:
        raise PlanError(key, example.name or table.name, "is a span that the mapping does not speak of")
    for name, expected in example.expect.items():
        differing = _difference(reading, name, expected)
        if differing is not None:
            raise PlanError(f"{key}.{name}", *differing)


def _span(table: Table, example: Example) -> Span:
    """The example's span; what it does not say of itself is as the mapping asks for."""
    asked = table.spans

    def own(name: str) -> str:
        patterns = getattr(asked, name) if asked is not None else None
        return str(getattr(example, name) or (patterns or [""])[0])

    held = {name: patterns[0] for name, patterns in (asked.attributes if asked is not None else {}).items()}
    attributes = {**held, **example.attributes}
    return Span("example", "example", own("name"), kind=own("kind"), scope=own("scope"), attributes=attributes)


# --- what is found against what is expected ---------------------------------------------------------------------------


def _difference(reading: Reading, name: str, expected: Any) -> tuple[object, str] | None:
    """What was found instead and how it differs; None where it is what was expected."""
    if name in {"context", "source"}:
        return _differing_passages(reading, expected)
    if name == "key_facts":
        return _differing(list(reading.key_facts), expected)
    if name in _FACTS:
        return _differing(getattr(reading, name), expected)
    found = reading.query if name == "query" else reading.output
    return _missing(found) or _differing(found.value if found is not None else None, expected)


def _differing_passages(reading: Reading, expected: Any) -> tuple[object, str] | None:
    listed = reading.tool.documents if reading.tool is not None else reading.documents
    lacking = reading.tool.result if reading.tool is not None else None
    told = (lacking, *(document.text for document in listed or ()))
    missing = next(filter(None, map(_missing, told)), None)
    if missing is None and listed is None:
        missing = None, f"is no context{': ' if reading.remedy else ''}{reading.remedy}"
    if missing is not None:
        return missing
    asked = expected if isinstance(expected, list) else [expected]
    for at, (document, one) in enumerate(itertools.zip_longest(listed or (), asked), start=1):
        if document is None or one is None:
            return len(listed or ()), f"is how many passages are read, {len(asked)} are expected"
        for part, value, wanted in _parts(document, one):
            if (differing := _differing(value, wanted)) is not None:
                return differing[0], f"{differing[1]} (passage {at}{part})"
    return None


def _parts(document: Document, expected: Any) -> Iterator[tuple[str, Any, Any]]:
    """What an example says of a passage: its text, or some of its facts by name."""
    held = {
        "text": document.text.value if document.text is not None else None,
        "id": document.id,
        "score": document.score,
        "timestamp": document.timestamp,
        "title": document.metadata.get("title"),
    }
    if not isinstance(expected, Mapping):
        yield "", held["text"], expected
        return
    yield from ((f", {name}", held.get(name), value) for name, value in expected.items())


def _missing(found: Said | None) -> tuple[object, str] | None:
    if found is None or found.state == "present":
        return None
    return (
        None,
        f"is what is read ({found.state}): {found.remedy}" if found.remedy else f"is what is read: {found.state}",
    )


def _differing(found: Any, expected: Any) -> tuple[object, str] | None:
    if found == expected:
        return None
    if not (isinstance(found, str) and isinstance(expected, str)):
        return found, f"is read where {expected!r} is expected"
    pairs = enumerate(itertools.zip_longest(found, expected))
    at = next(at for at, (one, other) in pairs if one != other)
    start = max(0, at - 20)
    seen, wanted = found[start : at + 60], expected[start : at + 60]
    return seen, f"is read where {wanted!r} is expected; they differ from character {at + 1} on"
