"""Requests that were given one text and gave back a summary of it: told by the user, or by what the prompt asks for.

The detector is cautious. It wants an instruction to summarise outside of the text, a text that is told apart from the
instruction (a variable of the prompt, a block, what stands under a heading or between fences), nothing retrieved, and
an answer shorter than the text. Whatever it is not sure of stays an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from groundtrace.model import Said
from groundtrace.read.exchange import QUESTIONS
from groundtrace.read.gaps import part
from groundtrace.read.prompt import has_question, numbered
from groundtrace.read.tree import Request, Seen

Wanted = Literal["auto", "answer", "summary"]
"""What records are read as: by the detector, never as summaries, or all as summaries."""

_ASKED = re.compile(
    r"\b(?:summari[sz](?:e|es|ing)|tl;?dr|condense)\b"
    r"|\b(?:write|give|create|produce|provide|generate|make|prepare|draft|return)\b[^.\n]{0,80}"
    r"\b(?:summary|synopsis|digest|précis|abstract(?! (?:class|method|factory|type|base|interface|syntax)))\b"
    r"|\bsummary(?: of the (?:following|text|article|document)\b|[ \t]*:)"
    r"|\bfass(?:e|en sie)\b[^.\n]{0,80}\bzusammen\b|\bzusammenfassung\b|\brésume[zr]?\b|\briassum\w*"
    r"|\bresum[ae]\b[^.\n]{0,30}\b(?:el|la|los|las|este|esta|texto|artículo|o|este)\b",
    re.IGNORECASE,
)
_REFUSED = re.compile(
    r"\b(?:not|never|without|don['’]?t|rather than|instead of|nicht)\b[^.\n]{0,30}\b(?:summar|condens|zusammen)"
    r"|\b(?:keys?|fields?|columns?|properties|schema|json)\b[^.\n]{0,80}\bsummary\b",
    re.IGNORECASE,
)
"""Words that look like such an instruction and are the contrary, or the name of one of several things to tell."""

_NAMES = (
    *("document", "text", "article", "source", "source_text", "content", "transcript", "passage", "body", "input_text"),
    *("doc", "docs", "documents", "story", "report", "email", "conversation", "chapter", "page_content", "context"),
    *("input_documents", "input"),
)
_HEADED = re.compile(
    r"^[ \t]*(?:[#>*_-]{1,6}[ \t]*)?(?:the[ \t]+)?(?:source[ \t]+)?"
    r"(?:text|article|document|source|transcript|passage|content|story|report|e-?mail|conversation|input)"
    r"[^\n:]{0,40}[*_]{0,3}:[*_]{0,3}[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"\"{3}|`{3}[\w+-]{0,20}\n|-{3,}[ \t]*\n|={3,}[ \t]*\n|<(?P<tag>\w{1,40})>")
_CLOSES = {'"""': '"""', "```": "\n```", "---": "\n---", "===": "\n==="}
_LABEL = re.compile(
    r"\n[ \t]*\n[ \t]*(?:[#>*_-]{1,6}[ \t]*)?(?:[\w-]+[ \t]+){0,3}summary[*_]{0,3}[ \t]*:[*_]{0,3}\s*\Z",
    re.IGNORECASE,
)
_ASKING = ("message", "user_message", "prompt", "topic", "instruction", "task")
_SHORTEST = 200
"""Characters from which a text is one that is summarised."""

_AROUND = 600
"""Characters before and after the text in which the instruction stands."""


def source_of(request: Request, final: Seen | None, named: Seen | None, wanted: Wanted) -> tuple[Said, Seen] | None:
    """The text a request was to summarise, and where it stands; None where it is no summary as far as can be told."""
    if wanted == "answer":
        return None
    if wanted == "summary":
        return next(_texts(final, named, least=1), None) or _everything(request, final)
    if final is None or _searched(request) or _is_question(final, named):
        return None
    answer = final.reading.output
    for said, seen in _texts(final, named, least=_SHORTEST):
        whole = said.state == "present" and answer is not None and answer.state == "present"
        if whole and answer is not None and len(answer.value) < len(said.value) and _is_asked(final, named, said.value):
            return said, seen
    return None


def _searched(request: Request) -> bool:
    """Whether anything was retrieved, reranked or found by a tool: then it is an answer from what was found."""
    if request.of("retrieval", "rerank", "tool"):
        return True
    return any(len(seen.reading.documents or ()) > 1 or seen.reading.calls for seen in request.seen)


def _is_question(final: Seen, named: Seen | None) -> bool:
    """Whether a question is told apart, or several passages are: then an answer from them is wanted."""
    if named is not None and any(name in named.reading.variables for name in (*QUESTIONS, *_ASKING)):
        return True
    spoken = [m.text.value for m in final.reading.messages if m.text is not None and m.role == "user"]
    return any(has_question(words) or _ends_in_one(words) or len(numbered(words)) > 1 for words in spoken[-1:])


def _ends_in_one(prompt: str) -> bool:
    """Whether the last line of several asks something that is no request for a summary."""
    before, _, last = prompt.rstrip().rpartition("\n")
    return bool(before.strip()) and last.rstrip(" \"'”*_)").endswith(("?", "？")) and not _ASKED.search(last)


def _is_asked(final: Seen, named: Seen | None, text: str) -> bool:
    """Whether the words around the text, the instructions or a variable ask for a summary."""
    told = [m.text.value for m in final.reading.messages if m.text is not None and m.role in {"user", "system"}]
    told += [
        said.value for said in (named.reading.variables.values() if named is not None else ()) if said.value != text
    ]
    for words in told:
        at = words.find(text)
        around = [words[:_AROUND], words[-_AROUND:]] if at < 0 and len(words) < len(text) else []
        if at >= 0:
            after = at + len(text)
            around = [words[max(0, at - _AROUND) : at], words[after : after + _AROUND], words[: min(at, _AROUND)]]
        if any(_REFUSED.search(piece) for piece in around):
            return False
        if any(_ASKED.search(piece) for piece in around):
            return True
    return False


def _texts(final: Seen | None, named: Seen | None, *, least: int) -> Iterator[tuple[Said, Seen]]:
    """The texts that are told apart from an instruction, best first."""
    if named is not None:
        known = (named.reading.variables.get(name) for name in _NAMES)
        yield from ((said, named) for said in known if said is not None and len(said.value.strip()) >= least)
    if final is None:
        return
    blocks = [d.text for m in final.reading.messages for d in m.documents if d.text is not None]
    if len(blocks) == 1 and len(blocks[0].value) >= least:
        yield blocks[0], final
    asked = [m.text for m in final.reading.messages if m.role == "user" and m.text is not None]
    if len(asked) == 1:
        said = asked[0]
        inner = _apart(said.value)
        if inner is not None and len(inner) >= least:
            yield part(said, inner), final


def _apart(prompt: str) -> str | None:
    """What of a prompt is the text: between fences, under a heading, else what follows the first paragraph."""
    label = _LABEL.search(prompt)
    prompt = prompt[: label.start()] if label else prompt
    fence = _FENCE.search(prompt)
    if fence is not None:
        tag = fence.group("tag")
        closing = f"</{tag}>" if tag else _CLOSES[fence.group()[:3]]
        end = prompt.find(closing, fence.end())
        if end >= 0 and len(prompt[fence.end() : end]) * 2 > len(prompt):
            return prompt[fence.end() : end].strip()
    heading = _HEADED.search(prompt)
    if heading is not None and len(prompt[heading.end() :]) * 2 > len(prompt):
        return prompt[heading.end() :].strip()
    first, blank, rest = prompt.partition("\n\n")
    return rest.strip() if blank and len(first) <= _AROUND else None


def _everything(request: Request, final: Seen | None) -> tuple[Said, Seen] | None:
    """All a request was given, where nothing tells an instruction and a text apart."""
    told: list[tuple[Said, Seen]] = []
    if final is not None:
        told += [(m.text, final) for m in final.reading.messages if m.role == "user" and m.text is not None][-1:]
    told += [(s.reading.query, s) for s in request.of("request", "agent") if s.reading.query is not None]
    # A question is no source: of short texts none is taken for one, masked ones say that they are.
    return next((pair for pair in told if len(pair[0].value) >= _SHORTEST or pair[0].state != "present"), None)
