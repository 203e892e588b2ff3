"""Records in a file: the span the jsonl source makes of one JSON object, `groundtrace.record` holding the object."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from groundtrace.conventions.shapes import documents, listed, text
from groundtrace.model import Gap, Kind, Reading, Record, Span
from groundtrace.read.given import misfits, risk_of
from groundtrace.read.hand import made

ATTRIBUTE = "groundtrace.record"

_KNOWN = (
    *("query", "context", "answer", "source", "summary", "id", "trace_id", "span_id", "citations", "history"),
    *("key_facts", "kind", "slices", "metadata", "tags", "risk", "signals"),
)
_OTHERS = {
    **dict.fromkeys(("question", "user_input", "prompt", "input"), "query"),
    **dict.fromkeys(("contexts", "retrieved_contexts", "documents", "passages", "chunks"), "context"),
    **dict.fromkeys(("response", "output", "completion", "prediction", "generation"), "answer"),
}
"""Words that records of other houses have for these."""

_SUMMING = {"context": "source", "answer": "summary"}
_PLAIN = re.compile(r"[\w .-]{1,40}")
_LOOKED_AT = 40


class RecordConvention:
    """Reads a record that came ready made, with as little as `query`, `context` or `answer`, or a `summary`, in it."""

    name = "record"
    marks = (ATTRIBUTE,)

    def reading(self, span: Span) -> Reading | None:
        """The record, whatever the types in it; what it lacks is a gap."""
        held = span.attributes.get(ATTRIBUTE)
        if not isinstance(held, Mapping):
            return None
        kind: Kind = "summary" if _is_summary(held) else "answer"
        source, answer = _summed(held) if kind == "summary" else (held.get("context"), held.get("answer"))
        query, context = held.get("query"), _context(source)
        wrong = misfits(query, context, answer)
        talk = [
            (text(t.get("role")) or "user", text(t.get("text", t.get("content")))) for t in listed(held.get("history"))
        ]
        given = made(
            None if "query" in wrong else query,
            None if "context" in wrong else context,
            None if "answer" in wrong else answer,
            id=text(held.get("id")),
            citations=listed(held["citations"]) if isinstance(held.get("citations"), list) else None,
            history=[(role, words) for role, words in talk if words],
            key_facts=_texts(held.get("key_facts")),
            kind=kind,
            slices=_facts(held.get("metadata")) | _facts(held.get("slices")),
            tags=_texts(held.get("tags")),
            risk=risk_of(held.get("risk")) or "high",  # a word nobody knows was meant to say something
        )
        if given.gaps:
            given = given.model_copy(update={"gaps": tuple(_told(given, held, wrong))})
        return Reading("request", record=given)


def _told(given: Record, held: Mapping[str, Any], wrong: Mapping[str, str]) -> Iterator[Gap]:
    """The gaps of a record: what is of a wrong type, and what may stand there under another name."""
    for lack in given.gaps:
        word = _SUMMING.get(lack.field, lack.field) if given.kind == "summary" else lack.field
        if lack.field in wrong:
            said = wrong[lack.field].replace(lack.field, word, 1)
            yield lack.model_copy(update={"reason": "malformed", "remedy": said})
        elif lack.reason == "not_given" and (near := _near({lack.field, word}, held)):
            yield lack.model_copy(update={"remedy": f"{lack.remedy}: it holds {near!r}, did you mean {word!r}?"})
        else:
            yield lack


def _near(words: Iterable[str], held: Mapping[Any, Any]) -> str | None:
    """The first unknown key that looks like one of these, or that other houses have for it."""
    given = (k for k in list(held)[:_LOOKED_AT] if isinstance(k, str) and held[k] is not None)
    unknown = (k for k in given if k not in _KNOWN and _PLAIN.fullmatch(k))
    meant = ((k, _OTHERS.get(k.lower()) or next(iter(difflib.get_close_matches(k, _KNOWN, n=1)), "")) for k in unknown)
    return next((key for key, word in meant if word in words), None)


def _is_summary(held: Mapping[str, Any]) -> bool:
    """Whether an object tells of a summary: it says so, or has a summary where others have an answer."""
    kind = held.get("kind")
    return kind == "summary" or (kind is None and held.get("summary") is not None and held.get("answer") is None)


def _summed(held: Mapping[str, Any]) -> tuple[Any, Any]:
    """The source and the summary, under their own names or under those of every record."""
    source, summary = held.get("source"), held.get("summary")
    return source if source is not None else held.get("context"), summary if summary is not None else held.get("answer")


def _context(value: Any) -> Any:
    """The passages given: one alone as a list, all else as it is."""
    if isinstance(value, Mapping):
        found = documents(value, ATTRIBUTE)
        if found is None:
            return [value]
        return [
            {"id": d.id, "text": d.text.value if d.text else None, "score": d.score, "metadata": d.metadata}
            for d in found
        ]
    return [value] if isinstance(value, str) else value


def _texts(value: Any) -> list[str]:
    held: Iterable[Any] = value if isinstance(value, (list, tuple)) else [value]
    return [t for v in held if (t := text(v))]


def _facts(value: Any) -> dict[str, str]:
    return {str(k): t for k, v in value.items() if (t := text(v))} if isinstance(value, Mapping) else {}
