"""What a record lacks, why, and the setting that would bring it back.

Reasons: `content_off` (not captured), `masked` (its user hid it), `truncated` (a limit cut it), `elsewhere` (in logs or
a store that was not given), `not_instrumented` (nothing in the trace tells), `no_request` (nothing was asked in the
trace), `error` (the request failed), `no_answer` (it ended by asking for a tool), `ambiguous_answer` (several calls
could have made it), `ambiguous_numbering` (markers that count two lists), `not_given` (a record made by hand without
it), `malformed` (one with something of a wrong type there), `damaged` (characters of it are lost), `not_found` (nothing
stands where the user's own mapping says), `unreadable` and `still_growing` (a trace that can't be read, or not yet).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec.structs import replace

from groundtrace.model import Document, Gap, Message, Reading, Said, Span, State, Trace

Field = Literal["query", "context", "answer", "citations"]
Reason = Literal[
    "content_off", "masked", "truncated", "elsewhere", "not_instrumented", "no_request", "error", "no_answer",
    "ambiguous_answer", "ambiguous_numbering", "not_given", "malformed", "damaged", "not_found", "unreadable",
    "still_growing",
]  # fmt: skip

_REASONS: Mapping[State, Reason] = {
    "off": "content_off",
    "masked": "masked",
    "truncated": "truncated",
    "damaged": "damaged",
    "elsewhere": "elsewhere",
    "missing": "not_found",
}
_REMEDIES: Mapping[State, str] = {
    "off": "set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY (or EVENT_ONLY, SPAN_AND_EVENT) in the "
    "traced process, or unset OPENINFERENCE_HIDE_*: content capture is off",
    "masked": "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and what else masks this field in the "
    "traced process, if it may be judged",
    "truncated": "raise OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT and OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT in the traced process",
    "damaged": "characters of the text are lost (U+FFFD stands there): write the file as UTF-8, and cut texts between "
    "characters",
    "elsewhere": "give the logs beside the traces, as NAME.logs.jsonl",
    "missing": "mend the path in the plan, or record the value there",
}
_FIELDS: tuple[Field, ...] = ("query", "context", "answer")
_NO_UTF8 = "the file is not all UTF-8, and U+FFFD stands for what could not be read: write it as UTF-8"
_HALVES = "the text holds halves of characters (lone surrogates; U+FFFD stands there): cut texts between characters"
_DAMAGE = re.compile("[\ufffd\ud800-\udfff]")
_WHOLE_ENDS = ".!?…。！？)]}>\"'”’»*`"
_SHORTEST_LIMIT = 32
_USUAL_LIMITS = (*(2**n for n in range(7, 18)), *(10**n for n in range(3, 6)), 500, 2_000, 4_000, 5_000, 12_000, 50_000)
_UNMENDED: Mapping[str, str] = MappingProxyType({})
_FEW = 3  # what is left of a limit is room for an ellipsis that did not come


def gap(field: Field, reason: Reason, remedy: str) -> Gap:
    """What a field lacks; every gap says what to do about it.

    >>> gap("answer", "no_answer", "trace the whole request").reason
    'no_answer'
    """
    return Gap(field=field, reason=reason, remedy=remedy)


def lost(field: Field, state: State, remedy: str = "") -> Gap:
    """The gap of a field whose content is off, masked, truncated or elsewhere.

    >>> lost("query", "masked").reason
    'masked'
    """
    known: State = state if state in _REASONS else "off"
    return gap(field, _REASONS[known], remedy or _REMEDIES[known])


def length_limit(trace: Trace, readings: Iterable[Reading] = ()) -> int | None:
    """The length all values of a trace are cut at, None where none is: many values end at one length, amid a word.

    Looked for: texts of the greatest length, in different attributes, that end as no text ends. They are several
    texts, or it is one answer alone and a length that limits are usually set to.
    """
    held_texts = [span.attributes for span in trace.spans]
    held_texts += [log.attributes for span in trace.spans if span.logs for log in span.logs]
    lengths = [len(value) for held in held_texts for value in held.values() if type(value) is str]
    longest = max(lengths, default=0)
    if longest < _SHORTEST_LIMIT or lengths.count(longest) < 2:
        return None
    at_limit: dict[str, set[str]] = {}
    for held in held_texts:
        for name, value in held.items():
            if isinstance(value, str) and len(value) == longest:
                at_limit.setdefault(value, set()).add(name)
    broken = {value: names for value, names in at_limit.items() if value.rstrip()[-1:] not in _WHOLE_ENDS}
    kinds = {"".join(c for c in name if not c.isdigit()) for names in broken.values() for name in names}
    if len(kinds) < 2 or (len(broken) == 1 and not _is_cut_answer(next(iter(broken)), readings)):
        return None
    return longest


def _is_cut_answer(text: str, readings: Iterable[Reading]) -> bool:
    """Whether a text that breaks off amid a word at a usual limit, or a few characters before, is an answer."""
    usual = any(0 <= limit - len(text) <= _FEW for limit in _USUAL_LIMITS)
    return usual and text[-1].isalnum() and any(r.output is not None and r.output.value == text for r in readings)


def mended(trace: Trace) -> Mapping[str, str]:
    """The spans whose texts the source had to mend, with the remedy: it notes `span <id>: ... U+FFFD`."""
    if not trace.notes:
        return _UNMENDED
    notes = (note.partition(":") for note in trace.notes if "U+FFFD" in note)
    return {where.rpartition(" ")[2]: _NO_UTF8 if "UTF-8" in what else _HALVES for where, _, what in notes}


def is_damaged(text: str) -> bool:
    r"""Whether characters of a text are lost.

    >>> is_damaged("caf\ufffd"), is_damaged("half \ud83d"), is_damaged("café")
    (True, True, False)
    """
    return not text.isascii() and _DAMAGE.search(text) is not None


def part(said: Said, text: str) -> Said:
    r"""A part of what was said: it is whole where the damage is elsewhere.

    >>> part(Said("One. Tw\ufffd.", "output.value", "damaged"), "One.").state
    'present'
    """
    whole = said.state == "damaged" and not is_damaged(text)
    return Said(text, said.attribute, "present" if whole else said.state, said.remedy)


def limited(reading: Reading, span: Span, limit: int | None, *, mend: str | None) -> Reading:
    """A reading that knows what was cut: values of just the limit's length, lists on a span that lost attributes.

    `mend` is the remedy where the source put U+FFFD for characters of this span: a text that holds one is damaged.
    """
    if not span.dropped and limit is None and mend is None:
        return reading
    evicted = f"{_REMEDIES['truncated']} (this span lost {span.dropped} attributes)" if span.dropped else ""

    def cut(said: Said | None, *, listed: bool = False) -> Said | None:
        if said is None or not said.legible:
            return said
        if len(said.value) == limit or (listed and evicted):
            return replace(said, state="truncated", remedy=evicted)
        damaged = mend is not None and "\ufffd" in said.value
        return replace(said, state="damaged", remedy=mend or "") if damaged else said

    def cut_document(document: Document) -> Document:
        return replace(document, text=cut(document.text, listed=True))

    def cut_message(message: Message) -> Message:
        tools = tuple(replace(t, result=cut(t.result, listed=True)) for t in message.tools)
        documents = tuple(cut_document(d) for d in message.documents)
        return replace(message, text=cut(message.text, listed=True), documents=documents, tools=tools)

    cuts: dict[str, Any] = {
        "query": cut(reading.query),
        "output": cut(reading.output, listed=reading.output is not None and _is_listed(reading.output.attribute)),
        "documents": None if reading.documents is None else tuple(cut_document(d) for d in reading.documents),
        "messages": tuple(cut_message(m) for m in reading.messages),
        "variables": {name: said for name, words in reading.variables.items() if (said := cut(words)) is not None},
    }
    if reading.tool is not None:
        cuts["tool"] = replace(reading.tool, result=cut(reading.tool.result))
    if evicted and (reading.output is None or reading.role in {"retrieval", "rerank"}):
        cuts |= {"content": "truncated", "remedy": evicted}
    return replace(reading, **cuts)


def _is_listed(attribute: str) -> bool:
    """Whether an attribute is one of many that make a list, as llm.output_messages.0.message.content."""
    return any(part.isdigit() for part in attribute.split("."))


def nothing_asked(trace: Trace, read: Collection[int], names: Iterable[str]) -> tuple[Gap, ...]:
    """The gaps of a trace in which nothing was asked, as far as the known vocabularies tell.

    `read` are the positions of the spans they know: where they know all, the trace holds steps and nothing else.
    """
    unread = sorted({span.scope for at, span in enumerate(trace.spans) if span.scope and at not in read})
    heard = f" (of {', '.join(unread[:5])})" if unread else ""
    reason: Reason = "no_request" if read else "not_instrumented"
    remedy = f"no span speaks of a request or a call to a model in what is understood here ({', '.join(names)})"
    if len(read) < len(trace.spans):
        left = len(trace.spans) - len(read)
        remedy += f"; {left:,} {'span' if left == 1 else 'spans'}{heard} in another vocabulary or none"
        remedy += ": map them under [conventions.NAME] in a plan (docs/plan.md)"
    else:
        remedy += ": trace the whole request, its call to the model with it"
    return tuple(gap(field, reason, remedy) for field in _FIELDS)


def unreadable(*, growing: bool = False) -> tuple[Gap, ...]:
    """The gaps of a trace that raised where it was read, or that may still grow.

    >>> [g.reason for g in unreadable(growing=True)]
    ['still_growing', 'still_growing', 'still_growing']
    """
    reason: Reason = "still_growing" if growing else "unreadable"
    remedy = "run again when it has ended" if growing else "run --verbose on this trace, and report what it prints"
    return tuple(gap(field, reason, remedy) for field in _FIELDS)
