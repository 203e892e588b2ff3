"""Traces made wrong on purpose: captured ones with their spans, attributes and values mutated; and what must hold."""

from __future__ import annotations

import ast
import base64
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from groundtrace.adapters.otel import OtelSource
from groundtrace.model import Event, Record, Span, Trace, Window

TRACES = Path(__file__).parent / "fixtures" / "traces"
DEEP = 12
_PRINTED = re.compile(r"""=('(?:[^'\\\n]|\\.){1,5000}'|"(?:[^"\\\n]|\\.){1,5000}")""")

HOSTILE: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 0.5, float("nan"), float("inf"), [], {}, [None], [[]], ["a", 1], {"role": "user"}),
    *("", " ", "\x00", "\ud800", "\ufffd", "null", "[]", "{}", "[", '{"a": ', "__REDACTED__", "[REDACTED]", "x" * 3000),
    *("[1] a\n[2] b", "Question:", '{"messages": [[{"role": 7}]]}', '{"documents": {"a": 1}}', '[{"type": "text"}]'),
    *("[" * 400, '"' * 99, "```" * 50, "[1][2][3]" * 99, '{"parts": [null, 3, {"type": []}]}'),
    {"content": {"content": {}}},
)


@cache
def corpus() -> tuple[Trace, ...]:
    """Every captured trace there is."""
    found: list[Trace] = []
    for file in sorted(TRACES.glob("*.jsonl")):
        if not file.name.endswith(".logs.jsonl"):
            found += OtelSource(str(file)).traces(Window(), lambda _ref, _signals: True)
    return tuple(found)


def mutant(pick: random.Random) -> Trace:
    """A captured trace with one to six things wrong with it."""
    trace = pick.choice(corpus())
    for _ in range(pick.randint(1, 6)):
        trace = pick.choice(_WAYS)(trace, pick)
    return trace


def _changed(trace: Trace, pick: random.Random, change: Callable[[Span], Span]) -> Trace:
    if not trace.spans:
        return trace
    at = pick.randrange(len(trace.spans))
    return replace(trace, spans=(*trace.spans[:at], change(trace.spans[at]), *trace.spans[at + 1 :]))


def _value(trace: Trace, pick: random.Random) -> Trace:
    """One value of a span is another's, hostile, cut, or of another type."""

    def change(span: Span) -> Span:
        if not span.attributes:
            return span
        name = pick.choice(list(span.attributes))
        return replace(span, attributes={**span.attributes, name: _other(span.attributes[name], span, pick)})

    return _changed(trace, pick, change)


def _other(value: Any, span: Span, pick: random.Random) -> Any:
    words = value if isinstance(value, str) else ""
    at = pick.randrange(len(words) + 1)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: pick.choice(HOSTILE),
        lambda: words[:at],
        lambda: words[:at] + str(pick.choice(HOSTILE)) + words[at:],
        lambda: json.dumps(words),
        lambda: pick.choice(list(span.attributes.values())),
        lambda: _inside(value, pick),
        lambda: [value],
    )
    return pick.choice(ways)()


def _inside(value: Any, pick: random.Random) -> Any:
    """A JSON text with one of its leaves hostile."""
    try:
        held = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return value
    place = held
    for _ in range(DEEP):
        keys: list[Any] = list(place) if isinstance(place, dict) else []
        keys = list(range(len(place))) if isinstance(place, list) else keys
        if not keys:
            break
        key = pick.choice(keys)
        if not isinstance(place[key], (dict, list)) or pick.random() < 0.3:
            place[key] = pick.choice(HOSTILE)
            break
        place = place[key]
    return json.dumps(held, default=str)


def _name(trace: Trace, pick: random.Random) -> Trace:
    """An attribute is gone, or has another's name."""

    def change(span: Span) -> Span:
        held = dict(span.attributes)
        if held:
            value = held.pop(pick.choice(list(held)))
            if pick.random() < 0.5:
                held[pick.choice([name for other in trace.spans for name in other.attributes] or ["x"])] = value
        return replace(span, attributes=held)

    return _changed(trace, pick, change)


def _tree(trace: Trace, pick: random.Random) -> Trace:
    """A span is lost, told twice, hangs elsewhere, or below itself."""
    if not trace.spans:
        return trace
    span, other = pick.choice(trace.spans), pick.choice(trace.spans)
    way = pick.randrange(4)
    if way == 0:
        return replace(trace, spans=tuple(s for s in trace.spans if s is not span))
    if way == 1:
        return replace(trace, spans=(*trace.spans, replace(span, id=pick.choice((span.id, "f" * 16)))))
    if way == 2:
        return replace(trace, spans=tuple(replace(s, parent_id=other.id) if s is span else s for s in trace.spans))
    shuffled = list(trace.spans)
    pick.shuffle(shuffled)
    return replace(trace, spans=tuple(shuffled))


def _facts(trace: Trace, pick: random.Random) -> Trace:
    """Times, status, counts, events and logs that are not what they were."""

    def change(span: Span) -> Span:
        odd: dict[str, Any] = {
            "start": pick.choice((None, 0, -5, 2**70)),
            "status": pick.choice(("unset", "ok", "error", "?")),
            "dropped": pick.choice((0, 3)),
            "events": (*span.events, Event("exception", 0, {"exception.message": pick.choice(HOSTILE)})),
            "logs": (),
            "scope": pick.choice(("", "openinference.x", "com.anthropic.sdk.python", "\ud800")),
        }
        name = pick.choice(list(odd))
        return replace(span, **{name: odd[name]})

    return _changed(trace, pick, change)


_WAYS: tuple[Callable[[Trace, random.Random], Trace], ...] = (_value, _value, _value, _name, _tree, _facts)


# --- what must hold -------------------------------------------------------------------------------------------------


def invented(trace: Trace, records: tuple[Record, ...]) -> list[str]:
    """The texts of records that are not in their trace, apart from what stands between letters and digits."""
    leaves = {squeezed for text in _leaves(trace) if (squeezed := _squeezed(text))}
    held: list[str] = []
    for record in records:
        told = [record.query, record.answer, *(p.text for p in record.context), *(turn.text for turn in record.history)]
        held += [text for text in told if text and not _told(_squeezed(text), leaves)]
    return held


def _told(text: str, leaves: set[str]) -> bool:
    """Whether a text stands in one of the trace's, or is several of them put together."""
    if any(text in leaf for leaf in leaves):
        return True
    reached = {0}
    for at in range(len(text)):
        if at in reached:
            reached |= {at + len(leaf) for leaf in leaves if text.startswith(leaf, at)}
    return len(text) in reached


def _squeezed(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


def _leaves(trace: Trace) -> Iterator[str]:
    """Every text of a trace, however deep it is packed."""
    for span in trace.spans:
        yield from _texts(span.attributes, DEEP)
        yield from _texts([event.attributes for event in span.events], DEEP)
        yield from _texts([[log.body, log.attributes] for log in span.logs], DEEP)
    yield from _texts([[log.body, log.attributes] for log in trace.logs], DEEP)


def _texts(value: Any, depth: int) -> Iterator[str]:
    if depth == 0 or value is None:
        return
    if isinstance(value, str):
        yield value
        yield from _unpacked(value, depth - 1)
    elif isinstance(value, Mapping):
        yield from map(str, value)
        for inner in value.values():
            yield from _texts(inner, depth - 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner, depth - 1)
    elif isinstance(value, bool):
        yield "true" if value else "false"  # as its JSON has it: what a tool answered may be no more than that
    else:
        yield str(value)


def _unpacked(value: str, depth: int) -> Iterator[str]:
    """What a text is the JSON or the base64 of, and the texts in it that Python printed."""
    with suppress(ValueError, RecursionError):
        if value[:64].lstrip()[:1] in ("{", "[", '"'):
            yield from _texts(json.loads(value, strict=False), depth)
        elif len(value) > 8 and " " not in value[:200]:
            yield base64.b64decode(value, validate=True).decode("utf-8", "replace")
    for printed in _PRINTED.findall(value[:100_000]):
        with suppress(ValueError, SyntaxError):
            yield ast.literal_eval(printed)
