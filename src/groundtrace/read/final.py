"""The call that made the answer, among all that a request made.

Where the request's own output is the text of one, or holds it, it is that one. Else it is the last one that was given
what was found for the answer, else the last one that follows all searching, was asked the request's own question, and
was not given what an earlier one had said: a title, a check, a guess at the next question are made of the answer. Where
that leaves several that say different things, and the request tells no output, the answer is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from groundtrace.model import Said
from groundtrace.read.context import holds_passages
from groundtrace.read.prompt import context_section
from groundtrace.read.tree import Request, Seen
from groundtrace.read.turns import asked_at
from groundtrace.text import folded

_SEARCHES = ("retrieval", "rerank", "tool")
_TOLD_APART = 12  # characters of an output that tell it from others, in a prompt
_SAME = 40  # characters of a document that tell it from others
_MANY = 200  # documents looked for in prompts


def final_generation(request: Request) -> Seen | None:
    """The generation that made the answer: the last one with content, innermost where one wraps another.

    What follows the answer (a title, a guess at the next question) is not the answer.
    """
    return _chosen(request)[0]


def is_ambiguous(request: Request) -> bool:
    """Whether several generations could have made the answer, and the request tells no output."""
    return len(request.of("generation")) > 1 and _chosen(request)[1]


def around(request: Request, final: Seen | None) -> Sequence[Seen]:
    """The request's span and the requests or agents around the generation, outermost first."""
    top = request.top
    inner = [top] if top is not None else []
    if final is None or final is top or final.parent is top:
        return inner
    above = [s for s in final.above() if s.reading.role in {"request", "agent"}]
    return [*inner, *(s for s in reversed(above) if top is None or s.place > top.place)]


def outer_output(request: Request, final: Seen | None) -> tuple[Said, Seen] | None:
    """What the request or an agent around the generation gave back, the outermost that tells any."""
    for seen in around(request, final):
        if seen.reading.output is not None:
            return seen.reading.output, seen
    return None


def _chosen(request: Request) -> tuple[Seen | None, bool]:
    """The generation that made the answer, and whether it could be another one."""
    calls = request.of("generation")
    if len(calls) < 2:
        return (calls[0] if calls else None), False
    calls = [s for s in calls if _holds_content(s)] or calls
    wrapping: set[int] = set()
    for seen in calls:
        for above in seen.above():
            if above.place in wrapping:
                break
            wrapping.add(above.place)
    inner = [s for s in calls if s.place not in wrapping]
    if len(inner) < 2:
        return (inner[-1] if inner else None), False
    outer = outer_output(request, inner[-1])
    if outer is not None:
        told = folded(outer[0].value)
        same = [s for s in inner if _told(s) == told]
        same = same or [s for s in inner if len(_told(s) or "") >= _TOLD_APART and (_told(s) or "") in told]
        if same:
            return same[-1], False
    if not _answers(inner[-1]):
        return inner[-1], False
    answering = [s for s in inner if _answers(s)]
    # What a tool or a retriever generates inside, as an agent that is called like a tool, is no answer.
    outside = [s for s in answering if not any(a.reading.role in _SEARCHES for a in s.above())]
    last, doubted = _likeliest(request, outside or answering)
    return last, doubted and outer is None


def _holds_content(seen: Seen) -> bool:
    return bool(seen.reading.messages or seen.reading.output or seen.reading.calls)


def _answers(seen: Seen) -> bool:
    return seen.reading.output is not None and not seen.reading.calls and seen.span.status != "error"


def _told(seen: Seen) -> str | None:
    return folded(seen.reading.output.value) if seen.reading.output is not None else None


# --- where the request tells no output --------------------------------------------------------------------------------


def _likeliest(request: Request, told: list[Seen]) -> tuple[Seen, bool]:
    outputs = {seen.place: _told(seen) or "" for seen in told}
    if len({*outputs.values()}) < 2:
        return told[-1], False
    starts = _starts(request)
    pool = [s for s in told if _was_given(s, starts)]
    if not pool:
        searched = max((s.place for s in request.of(*_SEARCHES)), default=-1)
        late = [s for s in told if s.place > searched] or told
        query = _query(request, told[-1])
        asked = [s for s in late if query and query in _prompt(s)] or late
        free = [s for s in asked if not _leans(s, [out for at, out in outputs.items() if at < s.place])]
        # Where nothing was searched, the earlier one may have worded the question, as well as given the answer.
        pool = free if free and (searched >= 0 or len(asked) == len(free)) else asked
    last = pool[-1]
    rivals = [s for s in pool if outputs[s.place] != outputs[last.place] and not _goes_on(last, outputs[s.place])]
    return last, bool(rivals) and request.top is not None


def _starts(request: Request) -> Collection[str]:
    """How the documents begin that were found for the request."""
    found = [d for s in request.of(*_SEARCHES) for d in s.reading.documents or ()]
    found += [d for s in request.of("tool") if s.reading.tool is not None for d in s.reading.tool.documents]
    texts = (d.text.value.strip() for d in found if d.text is not None and d.text.legible)
    return {text[:_SAME] for text in islice(texts, _MANY) if len(text) >= _TOLD_APART}


def _was_given(seen: Seen, starts: Collection[str]) -> bool:
    """Whether a generation was given passages, documents that were found, or what tools answered in this turn."""
    messages = seen.reading.messages
    if any(tool.result is not None for m in messages[max(asked_at(messages), 0) :] for tool in m.tools):
        return True
    texts = [m.text.value for m in messages if m.text is not None and m.text.legible and m.role in {"user", "system"}]
    return (
        any(start in text for start in starts for text in texts)
        or holds_passages(seen)
        or any(context_section(text) is not None for text in texts)
    )


def _query(request: Request, final: Seen) -> str:
    said = next((s.reading.query for s in around(request, final) if s.reading.query is not None), None)
    return folded(said.value) if said is not None and said.legible else ""


def _prompt(seen: Seen) -> str:
    """What the instructions and the user say to the model: what it said itself before is no part of it."""
    told = (m.text for m in seen.reading.messages if m.role in {"user", "system"})
    return folded("\n".join(said.value for said in told if said is not None and said.legible))


def _leans(seen: Seen, earlier: Sequence[str]) -> bool:
    """Whether a generation was given what one before it had said."""
    prompt = _prompt(seen)
    return any(len(out) >= _TOLD_APART and out in prompt for out in earlier)


def _goes_on(seen: Seen, earlier: str) -> bool:
    """Whether a generation goes on with the talk in which an earlier one spoke."""
    told = (m.text for m in seen.reading.messages if m.role == "assistant")
    return any(said is not None and folded(said.value) == earlier for said in told)
