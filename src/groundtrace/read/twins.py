"""Requests that two instrumentations recorded of one call: the same question, the same answer, at the same time.

Each instrumentation may begin a tree of its own. The one that tells more stays; where it retrieved nothing, it gets
what the other did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from groundtrace.model import Said, Span
from groundtrace.text import folded

if TYPE_CHECKING:
    from groundtrace.read.tree import Request, Seen

_SEARCHES = ("retrieval", "rerank", "tool")


def without_twins(found: Sequence[Request]) -> list[Request]:
    """The requests, those once that several instrumentations recorded."""
    scopes = {_own(request).span.scope for request in found}
    if len(scopes) < 2 and "" not in scopes:
        return list(found)
    alike: dict[str, list[Request]] = {}
    for request in found:
        answer = _answer(request)
        if answer:
            alike.setdefault(answer, []).append(request)
    left_out: set[int] = set()
    for group in alike.values():
        kept: list[Request] = []
        for request in sorted(group, key=_tells, reverse=True):
            twin = next((k for k in kept if _is_one_call(k, request)), None)
            if twin is None:
                kept.append(request)
                continue
            left_out.add(id(request))
            if not twin.of(*_SEARCHES):
                twin.take(request.of(*_SEARCHES))
    return [request for request in found if id(request) not in left_out]


def _own(request: Request) -> Seen:
    return request.top or request.seen[-1]


def _tells(request: Request) -> tuple[bool, bool, bool, int]:
    """How much a request tells: a prompt, what was searched, its own span; of two alike the earlier one counts."""
    prompted = any(s.reading.messages for s in request.of("generation"))
    return prompted, bool(request.of(*_SEARCHES)), request.top is not None, -request.seen[0].place


def _are_apart(one: Span, other: Span) -> bool:
    """Whether two instrumentations recorded these; where no scope tells, two that share no vocabulary."""
    if one.scope and other.scope:
        return one.scope != other.scope
    return {n.partition(".")[0] for n in one.attributes}.isdisjoint(n.partition(".")[0] for n in other.attributes)


def _is_one_call(one: Request, other: Request) -> bool:
    """Whether two requests with one answer are the same, recorded by different instrumentations."""
    if not _are_apart(_own(one).span, _own(other).span) or not _overlap(_times(one), _times(other)):
        return False
    (asked, prompt), (also, given) = _asked(one), _asked(other)
    if asked and also:
        return asked == also
    return bool((asked and asked in given) or (also and also in prompt) or (prompt and prompt == given))


def _answer(request: Request) -> str:
    """What was answered; of calls without a request around them, what the last one said."""
    said = request.top.reading.output if request.top is not None else None
    last = (s.reading.output for s in reversed(request.of("generation")) if s.reading.output is not None)
    return _words(said or next(last, None))


def _asked(request: Request) -> tuple[str, str]:
    """What the request was asked, and what the user said last to the model."""
    query = request.top.reading.query if request.top is not None else None
    calls = reversed(request.of("generation"))
    spoken = (m.text for s in calls for m in reversed(s.reading.messages) if m.role == "user" and m.text is not None)
    return _words(query), _words(next(spoken, None))


def _words(said: Said | None) -> str:
    return folded(said.value) if said is not None and said.legible else ""


def _times(request: Request) -> tuple[int, int] | None:
    """When it began and ended; None where no clock tells."""
    own = (request.top,) if request.top is not None and request.top.span.end is not None else request.seen
    starts = [s.span.start for s in own if s.span.start is not None]
    ends = [s.span.end if s.span.end is not None else s.span.start for s in own]
    known = [end for end in ends if end is not None]
    return (min(starts), max(known)) if starts and known else None


def _overlap(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is not None and other is not None and one[0] < other[1] and other[0] < one[1]
