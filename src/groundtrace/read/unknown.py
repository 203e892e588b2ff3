"""What is not known of a context: steps that told nothing, failed or came too late, and why there are no passages.

A context is the whole of what an answer could lean on, or a gap. A step that ran and whose result is not in the trace
leaves it open, unless a step around or inside it told the result, or the prompt shows what came of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from groundtrace.model import Gap, Message, Said, Tool
from groundtrace.read.gaps import gap, lost
from groundtrace.read.known import MANY, Known
from groundtrace.read.tree import Request, Seen
from groundtrace.read.turns import asked_at
from groundtrace.text import folded

_STEPS = ("retrieval", "rerank", "tool")
_HANDOFF = re.compile(r"(?:transfer_(?:back_)?to_|hand_?off)", re.IGNORECASE)
_EMPTY = re.compile(r"\[\s*\]|\{\s*\}|null|\{\s*\"\w{1,40}\"\s*:\s*\[\s*\]\s*\}")
_SHORT = 100
_MANY = 50  # failed calls whose words are looked for among the answers
_FAULT = 12  # characters of an error message that tell it from a word a result may hold
_NO_TEXTS = (
    "the retriever's span holds ids and no texts: record them as retrieval.documents.N.document.content, or capture "
    "the prompt (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY), or name a function that gives texts by "
    'their ids: passages = "module:function" in a plan'
)
_NO_RESULT = (
    "what {name} gave is not in the trace: record it (output.value, gen_ai.tool.call.result), or capture it and the "
    "prompt (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY)"
)
_NO_DOCUMENTS = (
    "what {name} found is not in the trace: record it as retrieval.documents.N.document.content, or capture the prompt "
    "(OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY)"
)


# --- steps that do not count ------------------------------------------------------------------------------------------


def until_answered(request: Request, final: Seen | None) -> Request:
    """The request without the searches that began after the call that answered: nothing in the answer is theirs.

    A call is the one that answered if the request's output holds its words, or if none is recorded and no other call
    follows. What runs inside of it counts, whenever it began.
    """
    if final is None or final.reading.calls or final.reading.output is None:
        return request
    steps = request.of(*_STEPS)
    if not steps or steps[-1].place < final.place:
        return request
    late = {
        seen.place
        for seen in steps
        if seen.place > final.place and _began_after(seen, final) and final not in seen.above()
    }
    if not late or not _answered(request, final, final.reading.output):
        return request
    return Request(request.top, [seen for seen in request.seen if seen.place not in late])


def _began_after(seen: Seen, other: Seen) -> bool:
    return seen.span.start is not None and other.span.start is not None and seen.span.start > other.span.start


def _answered(request: Request, final: Seen, output: Said) -> bool:
    above = [s for s in final.above() if s.reading.role in {"request", "agent"}]
    told = (s.reading.output for s in (*([request.top] if request.top is not None else ()), *reversed(above)))
    outer = next((said for said in told if said is not None), None)
    if outer is not None:
        return output.legible and bool(output.value.strip()) and folded(output.value) in folded(outer.value)
    return all(s.place <= final.place for s in request.of("generation"))


def of_no_account(request: Request, final: Seen | None) -> Collection[Said]:
    """Results of tools that nothing can be read from: of calls that failed, or that handed over to another agent."""
    ran = [(s, s.reading.tool) for s in request.of("tool") if s.reading.tool is not None]
    messages = final.reading.messages if final is not None else ()
    if not ran and not any(message.tools for message in messages):
        return ()
    failed = [(s, tool) for s, tool in ran if s.span.status == "error"]
    found = {t.result for s, t in ran if t.result is not None and (s.span.status == "error" or _hands_over(t.name))}
    names = {t.id: t.name for m in messages for t in m.tools if t.result is None and t.id and t.name}
    ids = {t.id for _, t in failed if t.id}
    texts = {folded(t.result.value) for _, t in failed if t.result is not None}
    faults = {s.span.status_message for s, _ in failed[:_MANY] if len(s.span.status_message) >= _FAULT}
    for tool in (t for m in messages for t in m.tools):
        if tool.result is None:
            continue
        of_failed = tool.id in ids or (texts and folded(tool.result.value) in texts)
        of_failed = of_failed or any(fault in tool.result.value for fault in faults)
        if of_failed or _hands_over(tool.name or names.get(tool.id or "", "")):
            found.add(tool.result)
    return found


def _hands_over(name: str) -> bool:
    return _HANDOFF.match(name) is not None


def is_empty(said: Said) -> bool:
    """Whether a tool's result is JSON with nothing in it: a search that found nothing.

    >>> is_empty(Said("[]", "")), is_empty(Said('{"documents": []}', "")), is_empty(Said("None of these.", ""))
    (True, True, False)
    """
    return said.legible and len(said.value) < _SHORT and _EMPTY.fullmatch(said.value.strip()) is not None


def fed_elsewhere(known: Sequence[Known], request: Request, final: Seen | None) -> Collection[int]:
    """The documents (by `id`) that went into another call's prompt and not into the one that answered, which is there.

    They are examples, say, for a call that words the search. What another call made of them counts where the prompt
    holds it, as of a draft.
    """
    calls = request.of("generation")
    if final is None or len(calls) < 2 or not known or not _is_whole(final):
        return ()
    own = _texts(final)
    prompt, answer = folded("\n".join(own)), final.reading.output
    aside: list[str] = []
    near = {final.place, *(above.place for above in final.above())}
    for call in calls:
        told = call.reading.output
        made = folded(told.value) if told is not None and told.legible else ""
        counts = bool(made) and (made in prompt or (answer is not None and made == folded(answer.value)))
        if call.place not in near and final not in call.above() and not counts:
            aside += _texts(call)
    texts = ((id(k), k.document.text.value.strip()) for k in islice(known, MANY) if k.document.text is not None)
    return {at for at, text in texts if any(text in t for t in aside) and not any(text in t for t in own)}


def _is_whole(seen: Seen) -> bool:
    messages = seen.reading.messages
    return bool(messages) and all(m.text is None or m.text.legible for m in messages)


def _texts(seen: Seen) -> list[str]:
    return [m.text.value for m in seen.reading.messages if m.text is not None and m.text.legible]


# --- what is not known ------------------------------------------------------------------------------------------------


def lacking(request: Request, final: Seen | None, void: Collection[Said]) -> Gap | None:
    """The gap of a context of which one step's part is not known, where no text of the prompt shows the passages.

    What tools answered in the prompt tells all, as long as there is an answer for each call; `void` are those answers
    that nothing can be read from.
    """
    messages = final.reading.messages if final is not None else ()
    messages = messages[max(asked_at(messages), 0) :]
    if any(tool.result is not None and tool.result not in void for m in messages for tool in m.tools):
        called = _unanswered(request, messages)
        return lost("context", "off", _NO_RESULT.format(name=called.name or "a tool")) if called is not None else None
    seen = next(_untold(request), None)
    return _not_told(seen) if seen is not None else None


def _unanswered(request: Request, messages: Sequence[Message]) -> Tool | None:
    """A call of a tool that more calls than answers leave without one.

    What failed, what hands over and what the provider runs itself (`file_search_call`) needs none.
    """
    failed = {s.reading.tool.id for s in request.of("tool") if s.reading.tool is not None and s.span.status == "error"}
    tools = [tool for message in messages for tool in message.tools]
    answers = [tool for tool in tools if tool.result is not None]
    called: dict[str | int, Tool] = {}
    for at, tool in enumerate(tools):
        aside = _hands_over(tool.name) or tool.name.endswith("_call")
        if tool.result is None and not aside and (tool.id is None or tool.id not in failed):
            called.setdefault(tool.id or at, tool)
    by_id = Counter(tool.id for tool in answers)
    open_ones = [tool for tool in called.values() if not (tool.id and by_id[tool.id])]
    strays = sum(1 for tool in answers if not tool.id or tool.id not in called)
    return open_ones[strays] if len(open_ones) > strays else None


def _untold(request: Request) -> Iterator[Seen]:
    """Steps that ran and of which neither they, nor a step around or inside them, nor a reranker after tell."""
    steps = request.of(*_STEPS)
    told = [s for s in steps if _tells(s)]
    places = {s.place for s in told}
    holding = {above.place for s in told for above in s.above()}
    reranked = max((s.place for s in told if s.reading.role == "rerank"), default=-1)
    for seen in steps:
        tool = seen.reading.tool
        if seen.place in places or seen.place in holding or seen.span.status == "error":
            continue
        if (tool is not None and _hands_over(tool.name)) or any(a.place in places for a in seen.above()):
            continue
        if seen.reading.role != "retrieval" or seen.place > reranked:
            yield seen


def _tells(seen: Seen) -> bool:
    tool = seen.reading.tool
    return seen.reading.documents is not None or (
        tool is not None and (tool.result is not None or bool(tool.documents))
    )


def _not_told(seen: Seen) -> Gap:
    if seen.reading.content != "present":
        return lost("context", seen.reading.content, seen.reading.remedy)
    form = _NO_RESULT if seen.reading.role == "tool" else _NO_DOCUMENTS
    return lost("context", "off", seen.reading.remedy or form.format(name=seen.span.name or "a step"))


def nothing(
    request: Request, final: Seen | None, known: Sequence[Known], texts: Sequence[Said], answers: Sequence[Said]
) -> Gap | None:
    """Why there are no passages; None where all that searched returned nothing, and the prompt is there to see.

    `texts` are those of the prompt, `answers` what tools gave of which something could be read: all of it is empty.
    """
    retrievals = [
        s for s in request.seen if s.reading.role in {"retrieval", "rerank"} or s.reading.documents is not None
    ]
    hidden = next((said for said in (*texts, *answers) if not said.legible), None)
    if hidden is not None:
        return lost("context", hidden.state, hidden.remedy)
    failed = next((s for s in request.of(*_STEPS) if s.span.status == "error"), None)
    if failed is not None and not known:
        name = failed.span.name or "a step"
        return gap("context", "error", f"{name} failed, and what it would have found is not known: nothing to judge")
    if not known and (answers or any(s.reading.documents == () for s in retrievals)):
        silent = next(_untold(request), None)
        if silent is None and final is not None and final.reading.content != "present":
            silent = final
        return _not_told(silent) if silent is not None else lacking(request, final, set())
    return _not_seen(retrievals, final)


def _not_seen(retrievals: Sequence[Seen], final: Seen | None) -> Gap:
    """Why nothing is told of what was retrieved, if anything was."""
    for seen in (*retrievals, *([final] if final is not None else ())):
        if seen.reading.content != "present":
            return lost("context", seen.reading.content, seen.reading.remedy)
    if retrievals:
        remedy = next((s.reading.remedy for s in retrievals if s.reading.remedy), "")
        return lost("context", "off", remedy or _NO_TEXTS)
    if final is not None and final.span.status == "error":
        return gap("context", "error", "the request failed before anything was retrieved: there is nothing to judge")
    remedy = (
        "no retrieval, tool result or passage in a prompt is in the trace: instrument the retriever, if there is one"
    )
    return gap("context", "not_instrumented", remedy)
