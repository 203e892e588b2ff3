"""Where a turn of a talk begins: among the spans of a session, and among the messages of a prompt.

A session is what stands around several turns and says nothing itself. It is told apart from a pipeline, whose steps
pass on what earlier ones put out, and from an agent that calls others, which generates beside them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from groundtrace.model import Message
from groundtrace.text import folded

if TYPE_CHECKING:
    from groundtrace.read.tree import Seen

_TOLD_APART = 12
"""Characters of a text that, found in another, were passed on: shorter ones stand anywhere."""
_MANY = 20  # turns that are compared with each other
_NOT_THE_USER = re.compile(
    r"\sFix the errors and try again\.\s*\Z"  # pydantic-ai's retry
    r"|\A\s*(?:<system-reminder>(?:(?!</system-reminder>).)*</system-reminder>\s*)+\Z",
    re.DOTALL,
)
_ANSWERED = re.compile(
    "Final result processed|Tool not executed - a final result|Output tool not used|Returning structured response"
)
"""What pydantic-ai and LangChain note as the result of the tool by which a model gives its answer."""


def asked_at(messages: Sequence[Message]) -> int:
    """The position of the user's message that began the last turn; -1 where there is none.

    None begins one that stands beside results of tools, or follows them before the user was answered, or is a
    framework's own: a reminder, or the request to try again.
    """
    began, waiting = -1, False
    for at, message in enumerate(messages):
        results = [tool for tool in message.tools if tool.result is not None] if message.tools else []
        # Most prompts have one message of the user's: nothing is looked for in the first.
        if (
            message.role == "user"
            and message.text is not None
            and (began < 0 or not (results or waiting or _NOT_THE_USER.search(message.text.value)))
        ):
            began, waiting = at, False
        if message.role == "assistant" and message.text is not None:
            answered = {tool.id for tool in results}
            waiting = any(tool.result is None and tool.id not in answered for tool in message.tools)
        elif results:
            waiting = not any(_ANSWERED.match(tool.result.value) for tool in results if tool.result is not None)
    return began


def sessions(order: Sequence[Seen]) -> tuple[set[int], set[int]]:
    """The spans that stand around several turns, and those turns, by their places.

    A turn is what was asked something and holds a generation: a request or an agent, or a step that says both what it
    was given and what it gave.
    """
    around: set[int] = set()
    turns: set[int] = set()
    if not any(map(is_silent, order)):
        return around, turns
    found = _Below()
    for seen in reversed(order):
        role = seen.reading.role
        nearest, beside, holds = found.of(seen)
        if not holds:
            continue
        if is_silent(seen) and not beside and _are_turns(nearest[::-1]):
            around.add(seen.place)
            turns.update(s.place for s in nearest)
        elif role in {"request", "agent"} or (role == "other" and seen.reading.query and seen.reading.output):
            nearest, beside = [seen], False
        elif role == "tool":
            nearest, beside = [], True
        if seen.parent is not None:
            found.tell(seen.parent, nearest, beside=beside)
    return around, turns


class _Below:
    """What stands below each span, told from the last one to the first: the nearest turns, and whether it generates."""

    def __init__(self) -> None:
        self._nearest: dict[int, list[Seen]] = {}
        self._holding: set[int] = set()
        self._generating: set[int] = set()

    def of(self, seen: Seen) -> tuple[list[Seen], bool, bool]:
        """The nearest turns below a span, the last one first; whether it generates beside them, or at all."""
        beside = seen.reading.role == "generation" or seen.place in self._generating
        return self._nearest.pop(seen.place, []), beside, beside or seen.place in self._holding

    def tell(self, above: Seen, nearest: list[Seen], *, beside: bool) -> None:
        """Tell what was found below the next one of a span's children."""
        self._holding.add(above.place)
        if beside:
            self._generating.add(above.place)
        if above.place in self._nearest:
            self._nearest[above.place] += nearest
        elif nearest:
            self._nearest[above.place] = nearest


def is_silent(seen: Seen) -> bool:
    """Whether a request or an agent tells neither what it was asked nor what it answered, and nothing hides it."""
    reading = seen.reading
    if reading.role not in {"request", "agent"}:
        return False
    says = reading.query or reading.output or reading.record or reading.declared
    return not says and reading.content in {"present", "off"}


def _are_turns(asked: Sequence[Seen]) -> bool:
    """Whether these were asked different things, and not what another of them had put out, the last least of all."""
    few = [*asked[: _MANY - 1], *asked[_MANY - 1 :][-1:]]
    if len(few) < 2 or any(s.reading.query is None for s in few):
        return False
    queries = [folded(s.reading.query.value) if s.reading.query is not None else "" for s in few]
    outputs = [folded(s.reading.output.value) if s.reading.output is not None else "" for s in few]
    free = [at for at, query in enumerate(queries) if not any(_passed_on(out, query) for out in outputs[:at])]
    return free[-1] == len(few) - 1 and len({queries[at] for at in free}) > 1


def _passed_on(output: str, query: str) -> bool:
    """Whether a step was asked what an earlier one put out, or one thing of several."""
    if output == query:
        return bool(output)
    return (len(output) >= _TOLD_APART and output in query) or (len(query) >= _TOLD_APART and query in output)
