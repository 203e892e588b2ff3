"""Records in a file: the span the jsonl source makes of one JSON object, `groundtrace.record` holding the object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from groundtrace.conventions.shapes import documents, listed, text
from groundtrace.model import Kind, Reading, Span
from groundtrace.read import record

ATTRIBUTE = "groundtrace.record"


class RecordConvention:
    """Reads a record that came ready made, with as little as `query`, `context` or `answer` in it."""

    name = "record"
    marks = (ATTRIBUTE,)

    def reading(self, span: Span) -> Reading | None:
        """The record, whatever the types in it; what it lacks is a gap."""
        held = span.attributes.get(ATTRIBUTE)
        if not isinstance(held, Mapping):
            return None
        kind: Kind = "summary" if held.get("kind") == "summary" else "answer"
        risk: Literal["normal", "high"] = "high" if held.get("risk") == "high" else "normal"
        talk = [
            (text(t.get("role")) or "user", text(t.get("text", t.get("content")))) for t in listed(held.get("history"))
        ]
        given = record(
            _words(held.get("query")),
            _context(held.get("context")),
            _words(held.get("answer")),
            id=text(held.get("id")),
            citations=listed(held["citations"]) if isinstance(held.get("citations"), list) else None,
            history=[(role, words) for role, words in talk if words],
            key_facts=_texts(held.get("key_facts")),
            kind=kind,
            slices=_facts(held.get("metadata")) | _facts(held.get("slices")),
            tags=_texts(held.get("tags")),
            risk=risk,
        )
        return Reading("request", record=given)


def _words(value: Any) -> str | None:
    """A text; anything else as its JSON."""
    if value is None or isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return None


def _context(value: Any) -> list[str | Mapping[str, Any]] | None:
    """The passages given: texts and objects as they are, one alone as a list; None where none are given."""
    if isinstance(value, Mapping):
        found = documents(value, ATTRIBUTE)
        if found is None:
            return [value]
        return [
            {"id": d.id, "text": d.text.value if d.text else "", "score": d.score, "metadata": d.metadata}
            for d in found
        ]
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)):
        return None
    return [v if isinstance(v, (str, Mapping)) else _words(v) or "" for v in value if v is not None]


def _texts(value: Any) -> list[str]:
    held: Iterable[Any] = value if isinstance(value, (list, tuple)) else [value]
    return [t for v in held if (t := text(v))]


def _facts(value: Any) -> dict[str, str]:
    return {str(k): t for k, v in value.items() if (t := text(v))} if isinstance(value, Mapping) else {}
