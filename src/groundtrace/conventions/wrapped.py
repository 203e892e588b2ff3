"""The question and the answer inside a value, however a framework wraps them.

Like `shapes`, nothing here raises, and what has no known shape is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from groundtrace.conventions.messages import CHOICES, last_user_text, message, messages
from groundtrace.conventions.shapes import decode

_DEPTH = 6
_QUESTIONS = ("question", "query", "user_question", "user_query", "user_input", "query_str", "input", "q")
_BARE_QUESTIONS = ("message", "prompt", "text", "content")
_ANSWERS = (
    *("answer", "output", "response", "result", "reply", "output_text", "final_answer", "text", "content"),
    *("generation", "raw"),
)
# The way Python prints an object: a generator that streamed the answer, say, or LlamaIndex's StopEvent(result=...).
_PRINTED = re.compile(r"<[^<>\n]{0,200}\bobject\b[^<>\n]{0,100}>|[A-Z]\w{0,60}\(\w{1,60}=.*(?:\)|\.\.\.)", re.DOTALL)


def question(value: Any) -> str | None:
    """The question inside a request's input, however its framework wraps it; None where none can be told.

    >>> question('{"messages": [["user", "Who?"]]}'), question({"data": {"builder": {"query": "Who?"}}})
    ('Who?', 'Who?')
    >>> question("Who?"), question({"a": 1, "b": 2})
    ('Who?', None)
    """
    found = decode(value)
    held = found.value
    for _ in range(_DEPTH):
        if isinstance(held, str) or not isinstance(held, Mapping) or len(held) != 1:
            break
        held = decode(next(iter(held.values()))).value
    if isinstance(held, str):
        return None if found.cut else held or None
    if isinstance(held, (list, tuple)):
        return _asked_last(held)
    for level, group in enumerate(_levels(held)):
        asked = next(_questions(group, _QUESTIONS + (_BARE_QUESTIONS if level == 0 else ())), None)
        if asked:
            return asked
    return None


def _levels(value: Any) -> Iterator[list[Mapping[str, Any]]]:
    """The objects inside a value, level by level."""
    group = [value] if isinstance(value, Mapping) else []
    for _ in range(_DEPTH - 2):
        if group:
            yield group
        inner = (v for held in group for v in islice(held.values(), 100))
        group = list(islice((v for v in inner if isinstance(v, Mapping)), 200))


def _questions(group: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> Iterator[str]:
    for key in keys:
        yield from (held[key] for held in group if isinstance(held.get(key), str) and held[key])
    for held in group:
        for talk in (held.get("messages"), held.get("input")):
            if isinstance(talk, (list, tuple)) and (asked := _asked_last(talk)):
                yield asked


def _asked_last(talk: Iterable[Any]) -> str | None:
    last = last_user_text(messages(tuple(talk), ""))
    return last.value if last is not None else None


def reply(value: Any, depth: int = _DEPTH) -> str | None:
    """The answer inside an output, however its framework wraps it; None where none can be told.

    >>> reply('{"choices": [{"message": {"role": "assistant", "content": "Yes."}}]}'), reply("Yes.")
    ('Yes.', 'Yes.')
    >>> reply({"reasoning": "Clear.", "answer": "Yes."}), reply({"messages": [["user", "Hm?"], ["ai", "Yes."]]})
    ('Yes.', 'Yes.')
    >>> reply({"intent": 3, "sure": True}) is None
    True
    """
    found = decode(value)
    held = found.value
    if found.cut or depth == 0:
        return None
    if isinstance(held, str):
        return None if not held or (held.endswith((">", ")", "...")) and _PRINTED.fullmatch(held)) else held
    if isinstance(held, (list, tuple)):
        return reply(held[0], depth - 1) if len(held) == 1 else _spoken_last(held)
    return _reply_in(held, depth) if isinstance(held, Mapping) else None


def _reply_in(held: Mapping[str, Any], depth: int) -> str | None:
    if isinstance(held.get("messages"), (list, tuple)):
        return _spoken_last(held["messages"])
    spoken = message({"role": "assistant", **held}, "")
    if spoken is not None and spoken.text is not None:
        return spoken.text.value
    inner = [held[k][0] for k in CHOICES if isinstance(held.get(k), list) and held[k]]
    inner = inner or [held[k] for k in _ANSWERS if k in held] or list(held.values())[: 1 if len(held) == 1 else 0]
    return next((r for i in inner if (r := reply(i, depth - 1))), None)


def _spoken_last(talk: Iterable[Any]) -> str | None:
    """What the assistant said last; None where the talk ends otherwise, as with a tool it asked for."""
    spoken = messages(tuple(talk), "")
    last = spoken[-1] if spoken else None
    return last.text.value if last is not None and last.role == "assistant" and last.text is not None else None
