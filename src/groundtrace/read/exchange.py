"""What was asked and what was answered: the query, the answer, and the turns before.

The query is looked for where a user's own words are kept best: a prompt's named question, the request's input, what
was searched for, and only then the prompt itself; what a model searched for by a tool of its own comes last. Where the
request's input is the filled prompt, its question is the query. The answer is what the request gave back; it is the
generation's text where the two agree.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from groundtrace.model import Gap, Origin, Said, Struct, Turn
from groundtrace.read.final import around, is_ambiguous, outer_output
from groundtrace.read.gaps import gap, lost
from groundtrace.read.plain import sound
from groundtrace.read.prompt import Span, asked, context_section
from groundtrace.read.tree import Request, Seen
from groundtrace.read.turns import asked_at
from groundtrace.text import folded

_Place = tuple[Said, Seen]

QUESTIONS = ("question", "query", "query_str", "user_question", "user_query", "user_input", "input")
_FORMED = "final_result"
"""The tool by whose arguments pydantic-ai has a model give its answer; with several forms, their names follow."""
_ANSWERS = ("answer", "final_answer", "response")
_AMBIGUOUS = (
    "several calls to the model could have made the answer: record it as the output of the request's span "
    "(output.value, gen_ai.output.messages)"
)


class Found(Struct, frozen=True):
    """A text and where it was read, or the gap in its place."""

    value: str | None = None
    origins: tuple[Origin, ...] = ()
    gap: Gap | None = None


def named_parts(request: Request, final: Seen | None) -> Seen | None:
    """The span that names the parts of the final prompt: the last one before or around the generation."""
    last = final.place if final is not None else len(request.seen) and request.seen[-1].place
    for seen in reversed(request.seen):
        if seen.reading.variables and seen.place <= last:
            return seen
    return None


# --- the query --------------------------------------------------------------------------------------------------------


def find_query(
    request: Request, final: Seen | None, named: Seen | None, passages: Mapping[str, Sequence[Span]]
) -> Found:
    """The query: the first place that holds one decides; it is masked where the request or the generation masks it.

    Where it is JSON that breaks off, a later place counts whose words stand whole in what is left of it.
    `passages` tells where passages stand in the texts the model was shown: no question is looked for inside them.
    """
    for said in _asked_outright(request, final):
        if said.state == "masked":
            return Found(gap=lost("query", "masked", said.remedy))
    hidden: Said | None = None
    for said, seen in candidates(request, final, named, passages):
        if said.legible and (hidden is None or _shows(hidden.value, said.value)):
            return placed("query", said, seen)
        if said.state not in {"present", "truncated"}:
            return Found(gap=lost("query", said.state, said.remedy))
        hidden = hidden or said
    return Found(gap=_unasked(request, final) if hidden is None else lost("query", hidden.state, hidden.remedy))


def _asked_outright(request: Request, final: Seen | None) -> list[Said]:
    """What the request, the agents around the generation and the generation itself were asked."""
    asked = [s.reading.query for s in around(request, final) if s.reading.query is not None]
    return asked if final is None else [*asked, *_spoken_last(final)]


def _spoken_last(final: Seen) -> list[Said]:
    """The user's message that began the turn, if there is one."""
    messages = final.reading.messages
    at = asked_at(messages)
    said = messages[at].text if at >= 0 else None
    return [said] if said is not None else []


def _shows(left: str, words: str) -> bool:
    """Whether what is left of a JSON value holds these words as a whole string."""
    return json.dumps(words) in left or json.dumps(words, ensure_ascii=False) in left


def candidates(
    request: Request, final: Seen | None, named: Seen | None, passages: Mapping[str, Sequence[Span]]
) -> Iterator[_Place]:
    """The places a query is looked for, in the order they count."""
    if named is not None:
        variables = named.reading.variables
        for name in QUESTIONS:
            if name in variables:
                yield variables[name], named
    spoken = _spoken_last(final) if final is not None else []
    prompts = {said.value for said in spoken if passages.get(said.value) or context_section(said.value)}
    for said, seen in _asked_or_searched(request, final, spoken, passages):
        if said is not None:
            # What the request was asked may be the filled prompt itself: its question is in it.
            yield (_question_in(said, passages) if said.value in prompts else said), seen


def _asked_or_searched(
    request: Request, final: Seen | None, spoken: Sequence[Said], passages: Mapping[str, Sequence[Span]]
) -> Iterator[tuple[Said | None, Seen]]:
    """What was asked, what was searched for, and what the user said: the first of them where a query stands best."""
    for seen in around(request, final):
        yield seen.reading.query, seen
    searched = ((s.reading.query, s) for s in (*request.of("retrieval"), *request.of("rerank"), *request.of("tool")))
    told = ((_question_in(said, passages), final) for said in spoken if final is not None)
    # A model that calls its tools itself words what they search for: there the user's own words are in the talk.
    order = (told, searched) if final is not None and _called(final) else (searched, told)
    yield from itertools.chain(*order)


def _called(final: Seen) -> bool:
    """Whether the talk goes on after the user spoke, with what tools answered."""
    messages = final.reading.messages
    asked = asked_at(messages)
    return asked >= 0 and any(tool.result is not None for message in messages[asked + 1 :] for tool in message.tools)


def _question_in(said: Said, passages: Mapping[str, Sequence[Span]]) -> Said:
    return replace(said, value=asked(said.value, passages.get(said.value, ()))) if said.legible else said


def _unasked(request: Request, final: Seen | None) -> Gap:
    for seen in (*([final] if final is not None else ()), *around(request, final)):
        if seen.reading.content != "present":
            return lost("query", seen.reading.content, seen.reading.remedy)
    remedy = "record the user's question as the input of the request's span (input.value, gen_ai.input.messages)"
    return gap("query", "not_instrumented", remedy)


# --- the answer -------------------------------------------------------------------------------------------------------


def find_answer(request: Request, final: Seen | None) -> Found:
    """The answer: what the request gave back, or the generation's own text where that is the same or all there is."""
    outer = outer_output(request, final)
    own = (final.reading.output, final) if final is not None and final.reading.output is not None else None
    hidden = _hidden(request, outer, own, final)
    if hidden is None and outer is None and is_ambiguous(request):
        hidden = gap("answer", "ambiguous_answer", _AMBIGUOUS)
    if hidden is not None:
        return Found(gap=hidden)
    answers = final is not None and final.span.status != "error" and not final.reading.calls
    told: list[_Place] = []
    if outer is not None and outer[0].state == "present" and _delivered(request, final):
        told.append(outer)
    if own is not None and own[0].state == "present" and answers:
        told.append(own)
    if not told:
        handed = _handed_over(request, final) if outer is None and own is None else None
        return Found(gap=_unanswered(request, final)) if handed is None else handed
    if len(told) > 1 and _alike(told[0][0].value, told[1][0].value):
        told = told[1:]
    names = ("answer", "answer.generated")
    origins = tuple([_origin(name, *place) for name, place in zip(names, told, strict=False)])
    return Found(sound(told[0][0].value), origins)


def _alike(one: str, other: str) -> bool:
    return one == other or folded(one) == folded(other)


def _hidden(request: Request, outer: _Place | None, own: _Place | None, final: Seen | None) -> Gap | None:
    """The gap where the answer is masked or cut; a whole output of the generation needs no other."""
    for said in (*[s.reading.output for s in around(request, final)], own[0] if own is not None else None):
        if said is not None and said.state == "masked":
            return lost("answer", "masked", said.remedy)
    if own is not None:
        return lost("answer", own[0].state, own[0].remedy) if own[0].state != "present" else None
    if final is not None and final.reading.content == "truncated" and final.span.status != "error":
        # What the request shows may be the answer, yet what was generated is gone: nothing confirms it.
        return lost("answer", "truncated", final.reading.remedy)
    return (
        lost("answer", outer[0].state, outer[0].remedy)
        if outer is not None and outer[0].state in {"truncated", "damaged", "off", "elsewhere"}
        else None
    )


def _handed_over(request: Request, final: Seen | None) -> Found | None:
    """The answer in the arguments of a tool that only gives it a form; None where there may be such a tool to run.

    Nothing follows the call, which is the only one. Its name is the one pydantic-ai gives it; or no tool of that name
    is called anywhere else, and an argument is named as the answer.
    """
    if final is None or final.span.status == "error" or len(final.reading.calls) != 1:
        return None
    call = final.reading.calls[0]
    steps = request.of("generation", "tool", "retrieval", "rerank")
    if call.arguments is None or not call.arguments.legible or any(s.place > final.place for s in steps):
        return None
    formed = call.name == _FORMED or call.name.startswith(f"{_FORMED}_")
    ran = {s.reading.tool.name for s in request.of("tool") if s.reading.tool is not None}
    asked = {tool.name for s in request.of("generation") for m in s.reading.messages for tool in m.tools}
    earlier = {tool.name for s in request.of("generation") if s is not final for tool in s.reading.calls}
    if call.name in ran or (not formed and call.name in asked | earlier):
        return None
    words = _answer_in(call.arguments.value) or (call.arguments.value if formed else None)
    if words is None:
        return None
    if call.arguments.state != "present":
        return Found(gap=lost("answer", call.arguments.state, call.arguments.remedy))
    return placed("answer", replace(call.arguments, value=words), final)


def _answer_in(arguments: str) -> str | None:
    """The answer among the arguments of a call.

    >>> _answer_in('{"answer": "Far.", "sure": true}'), _answer_in('{"query": "moon"}')
    ('Far.', None)
    """
    try:
        held = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    told = [held.get(name) for name in _ANSWERS] if isinstance(held, dict) else []
    return next((text for text in told if isinstance(text, str) and text.strip()), None)


def _delivered(request: Request, final: Seen | None) -> bool:
    """Whether the request's own output is an answer: a failed request's is its error."""
    failed = final is not None and final.span.status == "error"
    return not (failed and request.top is not None and request.top.span.status == "error")


def _unanswered(request: Request, final: Seen | None) -> Gap:
    """Why there is no answer."""
    failed = next((s for s in (final, request.top) if s is not None and s.span.status == "error"), None)
    if failed is not None:
        lines = _fault(failed).splitlines() or ["the call to the model failed"]
        return gap("answer", "error", f"the request failed, there is nothing to judge: {lines[0][:200]}")
    if final is not None and final.reading.calls:
        name = final.reading.calls[-1].name or "a tool"
        remedy = (
            f"the last call to the model in this trace asks for {name}: trace the whole request under one root span, "
            "with its answer as that span's output (output.value, gen_ai.output.messages)"
        )
        return gap("answer", "no_answer", remedy)
    if final is not None and final.reading.content != "present":
        return lost("answer", final.reading.content, final.reading.remedy)
    if final is not None:
        return lost("answer", "off")
    remedy = "record the answer as the output of the request's span, or instrument the call to the model"
    return gap("answer", "not_instrumented", remedy)


def _fault(failed: Seen) -> str:
    """What went wrong, as the span's status or its exception event tells."""
    told = (e.attributes.get("exception.message") for e in reversed(failed.span.events) if e.name == "exception")
    return (failed.span.status_message or next((t for t in told if isinstance(t, str)), "")).strip()


def history(final: Seen | None) -> tuple[Turn, ...]:
    """What user and assistant said before the last question."""
    messages = final.reading.messages if final is not None else ()
    began = asked_at(messages)
    if began <= 0:
        return ()
    spoken = [m for m in messages[:began] if m.role in {"user", "assistant"}]
    return tuple(
        [Turn.trusted(role=m.role, text=sound(m.text.value)) for m in spoken if m.text is not None and m.text.legible]
    )


def placed(field: str, said: Said, seen: Seen) -> Found:
    """A text that is there, with the place it was read at."""
    return Found(sound(said.value), (_origin(field, said, seen),))


def _origin(field: str, said: Said, seen: Seen) -> Origin:
    return Origin.trusted(field=field, span_id=sound(seen.span.id), attribute=sound(said.attribute))
