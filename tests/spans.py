"""Hand-made traces: spans by kind, and what they are read as."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from groundtrace.model import Record, Ref, Signal, Span, Trace
from groundtrace.plugins import installed, load
from groundtrace.read import read

CONVENTIONS = tuple(load("convention", plugin.name) for plugin in installed("convention"))
"""All that come with groundtrace."""

MOON = "The Moon is 384,400 km away from the Earth, on average."
MARS = "Mars is named for the Roman god of war, for its red colour."
VENUS = "Venus turns the other way round, and very slowly at that."
PROMPT = f"Documents:\n[1] (source: mars) {MARS}\n\n[2] (source: moon) {MOON}\n\nQuestion: How far is the Moon?"


def found(*spans: Span, notes: tuple[str, ...] = (), signals: tuple[Signal, ...] = ()) -> tuple[Record, ...]:
    """The records of a trace of these spans."""
    return read(Trace(Ref("otel", trace_id="t"), spans, signals=signals, notes=notes), CONVENTIONS)


def one(*spans: Span, notes: tuple[str, ...] = ()) -> Record:
    """The record of a trace that gives exactly one."""
    records = found(*spans, notes=notes)
    assert len(records) == 1
    return records[0]


def span(ident: str, kind: str, parent: str | None = None, *, start: int | None = None, **held: Any) -> Span:
    """An OpenInference span; of the named values `Q`, `A` stand for input.value and output.value."""
    named = {"input.value": held.pop("Q", None), "output.value": held.pop("A", None), **held.pop("held", {})}
    attributes = {name: value for name, value in named.items() if value is not None}
    at = int("".join(c for c in ident if c.isdigit()) or 0) if start is None else start
    return Span(
        ident,
        "t",
        name=ident,
        parent_id=parent,
        start=at,
        attributes={"openinference.span.kind": kind, **attributes},
        **held,
    )


def call(
    ident: str, parent: str | None = None, *, told: str | None = "Far.", prompt: str | None = PROMPT, **more: Any
) -> Span:
    """A call to a model with one user message."""
    held = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": prompt}
    held["llm.output_messages.0.message.content"] = told
    held |= more.pop("also", {})
    return span(ident, "LLM", parent, held={k: v for k, v in held.items() if v is not None}, **more)


def talk(*messages: tuple[str, str]) -> dict[str, str]:
    """Input messages as attributes."""
    pairs = enumerate(messages)
    return {
        f"llm.input_messages.{n}.message.{key}": value
        for n, (role, content) in pairs
        for key, value in (("role", role), ("content", content))
    }


def listed(*texts: str, ids: Iterable[str] = ()) -> dict[str, Any]:
    """Retrieved documents as attributes."""
    held: dict[str, Any] = {f"retrieval.documents.{n}.document.content": text for n, text in enumerate(texts)}
    return held | {f"retrieval.documents.{n}.document.id": ident for n, ident in enumerate(ids)}
