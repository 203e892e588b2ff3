"""What a filled prompt holds: the passages it numbers, and the question it asks.

The numbers count as long as they lie outside of the passages' own text: a list or a reference inside a passage is
never taken for a label. All patterns take linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from msgspec.structs import replace

from groundtrace.model import Struct
from groundtrace.text import fold, folded

Span = tuple[int, int]

_WORDS = r"(?:documents?|docs?|sources?|passages?|contexts?|chunks?|references?|results?|snippets?|excerpts?|articles?)"
_BEFORE = r"^[ \t]*(?:[#>*=_-]{1,6}[ \t]*)?"
_LABELS = {
    "brackets": re.compile(_BEFORE + r"[\[【](?P<n>\d{1,3})[\]】][*_]{0,2}[ \t]*[:.–-]?[ \t]*", re.MULTILINE),
    "words": re.compile(
        _BEFORE
        + r"\[?"
        + _WORDS
        + r"[ \t]*(?:no\.?[ \t]*)?[#\[(]?(?P<n>\d{1,3})[\])]?[*_=]{0,3}[ \t]*(?=[:.(\n–-])[:.–-]?[ \t]*",
        re.MULTILINE | re.IGNORECASE,
    ),
    "points": re.compile(_BEFORE + r"(?P<n>\d{1,3})[.)][ \t]+", re.MULTILINE),
}
_BRACKETS = _LABELS["brackets"]
_TAG = re.compile(
    r"<(?P<tag>document|doc|source|passage|context|chunk|result|item|search_result)(?P<facts>(?:\s[^<>]{0,500})?)>"
)
_FACT = re.compile(r"([\w-]{1,40})\s*=\s*[\"']([^\"'<>]{0,400})[\"']")
_INNER_TEXT = re.compile(r"<(document_contents?|content|text|page_content)>")
_INNER_ID = re.compile(r"<(?:source|id|document_id)>([^<>]{1,300})</(?:source|id|document_id)>")
_SOURCE = re.compile(
    r"[(\[][ \t]*(?:source|id|doc[ _]?id|document[ _]?id|ref)[ \t]*[:=][ \t]*"
    r"(?P<id>[^()\[\]\n]{1,300}?)[ \t]*[)\]][ \t]*[:.–-]?\s*",
    re.IGNORECASE,
)
_BESIDE = re.compile(rf"{_BRACKETS.pattern}(?:{_SOURCE.pattern})?", re.MULTILINE | re.IGNORECASE)
_HEADING = re.compile(rf"\b(?:{_WORDS}|information|knowledge|evidence|extracts?)\b", re.IGNORECASE)
_ASKS = (
    r"(?:the[ \t]+)?(?:(?:user|my|current|new|original|latest|follow-?up|standalone)(?:'s)?[ \t]+)?"
    r"(?:question|query|user[ \t]+(?:input|message|request)|frage|pregunta|domanda|pergunta|вопрос|質問|问题)"
)
_QUESTION = re.compile(
    rf"^(?:[ \t]*(?:[#>*_-]{{1,6}}|\[\[)?[ \t#]{{0,4}}{_ASKS}[ \t]*"
    rf"(?:[*_# \t]{{0,6}}\]\]|[*_]{{0,3}}[:：][*_]{{0,3}}|$)"
    rf"|[ \t]*<(?P<tag>question|query|user_query|user_question)>)[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)
_NEXT = re.compile(
    r"^[ \t]*(?:[#>*_-]{1,6}|\[\[)?[ \t#]{0,4}"
    r"(?:(?:helpful |final |your |the )?(?:answer|response|reply|output|reasoning|assistant)"
    r"|context|documents|sources|passages|instructions?)[ \t]*(?:[*_# \t]{0,6}\]\]|[*_]{0,3}[:：])"
    r"|^[ \t]*</|^Respond with\b|^-{3,}[ \t]*$|^```",
    re.MULTILINE | re.IGNORECASE,
)
_CLOSED = re.compile(r"^[ \t]*(?:</\w|-{3,}[ \t]*$|={3,}[ \t]*$|```|\[\[[ \t]*#|#{1,4}[ \t]\w)", re.MULTILINE)
_CONTEXT = re.compile(
    r"^[ \t]*(?:[#>*_-]{1,6}[ \t]*)?(?:(?:the |retrieved |relevant |given )*"
    r"(?:contexts?|documents?|sources?|passages?|search results|context information))[^\n:]{0,60}:[*_]{0,3}[ \t]*$|"
    r"^[ \t]*(?:[#>*_-]{1,6}[ \t]*)?context[*_]{0,3}:[*_]{0,3}",
    re.MULTILINE | re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]*(?P<fence>-{3,}|={3,}|`{3})[ \t]*$", re.MULTILINE)
_LEFT_OVER = re.compile(r"\A(?:\s*(?:</[\w-]{1,40}>|-{3,}|={3,}|```))+")
_BLANK = re.compile(r"\n[ \t]*\n")
_DIGIT = re.compile(r"\d")
_OF_LABELS = frozenset("([:.–-")
"""A passage that starts so goes on as its label does: where one ends and the other starts is looked at closely."""
_MANY = 2_000


def _at_lines(pattern: re.Pattern[str], text: str, start: int = 0, end: int | None = None) -> Iterator[re.Match[str]]:
    """The matches of a pattern that opens a line and ends in it: asked once a line, not at every character."""
    end = len(text) if end is None else end
    at = start if start == 0 or text[start - 1] == "\n" else text.find("\n", start, end) + 1 or end
    while at < end:
        if (match := pattern.match(text, at, end)) is not None:
            yield match
        at = text.find("\n", at, end) + 1 or end


def _opening(pattern: re.Pattern[str], text: str, start: int = 0) -> re.Match[str] | None:
    return next(_at_lines(pattern, text, start), None)


class Entry(Struct, frozen=True):
    """A passage as a prompt shows it: its number, the id beside it, its text, and where all of it stands."""

    number: int
    id: str | None
    text: str
    start: int
    end: int


class _Label(Struct, frozen=True):
    number: int
    start: int
    end: int
    apart: bool
    sourced: bool


def places(texts: Sequence[str], prompt: str) -> tuple[Span | None, ...]:
    """Where each text stands in a prompt, apart from white space, case and quote style; None where it does not.

    A text given twice is looked for twice.

    >>> places(["The  Moon.", "Mars."], "[1] the moon. [2] Venus.")
    ((4, 13), None)
    >>> places(["Mars.", "Mars.", "Mars."], "[1] Mars. [2] Mars.")
    ((4, 9), (14, 19), None)
    """
    whole = None
    found: list[Span | None] = []
    after: dict[str, int] = {}
    after_folded: dict[str, int] = {}
    for text in texts:
        words = text.strip()
        at = prompt.find(words, after.get(words, 0)) if words else -1
        if at >= 0 or not words or words in after:
            found.append((at, at + len(words)) if at >= 0 else None)
            after[words] = at + len(words) if at >= 0 else len(prompt)
            continue
        whole = whole or fold(prompt)
        key = folded(words)
        at = whole.text.find(key, after_folded.get(key, 0)) if key else -1
        after_folded[key] = at + len(key) if at >= 0 else len(whole.text)
        found.append(whole.span(at, at + len(key)) if at >= 0 else None)
    return tuple(found)


def numbered(prompt: str, known: Iterable[Span] = (), *, loose: bool = False) -> tuple[Entry, ...]:
    r"""The passages a prompt numbers, in its order; () where it numbers none.

    `known` are places of texts known to be passages: no label is looked for inside them, and a passage ends where
    they end. Numbers run on from 0 or 1. `loose` is for texts that hold nothing else (a tool's result, a variable):
    there a list needs no heading.

    >>> entries = numbered("Documents:\n[1] (source: a) Moon.\n\n[2] (source: b) Mars.\n\nQuestion: Which?")
    >>> [(e.number, e.id, e.text) for e in entries]
    [(1, 'a', 'Moon.'), (2, 'b', 'Mars.')]
    """
    spans = sorted(known)
    beside = _beside(prompt, spans)
    if beside:
        return beside
    tagged = _tagged(prompt)
    if tagged:
        return tagged
    chains: list[list[_Label]] = []
    for style, pattern in _LABELS.items():
        # What starts after a chain that is there already numbers nothing outside of it.
        if not chains or any(m.start() < chains[-1][0].start for m in islice(_at_lines(pattern, prompt), 1)):
            chain = _chain(prompt, spans, style, loose=loose)
            if chain and (not chains or chain[0].start < chains[-1][0].start):
                chains.append(chain)
    if not chains:
        section = None if loose else context_section(prompt)
        return _within(prompt, section, spans) if section is not None else ()
    # Labels stand outermost: what starts first numbers the passages, what starts later may be their own text.
    chain = chains[-1]
    ends = [*(label.start for label in chain[1:]), _end(prompt, chain, spans)]
    return tuple(_entry(prompt, label, end, spans) for label, end in zip(chain, ends, strict=True))


def _beside(prompt: str, spans: Sequence[Span]) -> tuple[Entry, ...]:
    """The known passages where a label stands right before each, and they count just these.

    It is what all of the search after this one would find.
    """
    if len(spans) < 2 or "<" in prompt:
        return ()
    found: list[Entry] = []
    after = due = 0
    for start, end in spans:
        line = prompt.rfind("\n", after, start) + 1
        label = _BESIDE.fullmatch(prompt, line, start) if line > after or after == 0 else None
        if label is None or prompt[start] in _OF_LABELS:
            return ()
        number, ident = int(label["n"]), label["id"]
        if found and (number != due or (ident is None) is not (found[0].id is None)):
            return ()
        due = number + 1
        found.append(Entry(number, ident and ident.strip(), prompt[start:end].strip(), line, end))
        after = end
    first = found[0]
    if first.number > 1:
        return ()
    more = prompt.find(f"[{due}]", after) >= 0 or prompt.find(f"[{first.number}]", 0, first.start) >= 0
    return () if more or _numbers_otherwise(prompt, first.start) else tuple(found)


def _numbers_otherwise(prompt: str, end: int) -> bool:
    """Whether labels of a kind other than brackets stand before a place."""
    if _DIGIT.search(prompt, 0, end) is None:
        return False
    others = (pattern for pattern in _LABELS.values() if pattern is not _BRACKETS)
    return any(next(_at_lines(pattern, prompt, 0, end), None) for pattern in others)


def _within(prompt: str, section: Span, spans: Sequence[Span]) -> tuple[Entry, ...]:
    """What a section numbers whose first label stands on the line of its heading."""
    start, end = section
    inside = [(a - start, b - start) for a, b in spans if start <= a and b <= end]
    found = numbered(prompt[start:end], inside, loose=True)
    return tuple(replace(e, start=e.start + start, end=e.end + start) for e in found)


def _entry(prompt: str, label: _Label, end: int, spans: Sequence[Span]) -> Entry:
    start = label.end
    source = _SOURCE.match(prompt, start, end)
    start = source.end() if source else start
    inside = next((s for s in spans if label.start < s[0] < end), None)
    end = inside[1] if inside is not None and inside[1] <= end else end
    return Entry(
        label.number, source.group("id").strip() if source else None, prompt[start:end].strip(), label.start, end
    )


def _tagged(prompt: str) -> tuple[Entry, ...]:
    """Passages in tags: <document index="1" id="a">...</document>, with or without tags for their parts."""
    found: list[Entry] = []
    at = prompt.find("<")
    while at >= 0 and len(found) < _MANY and (opening := _TAG.search(prompt, at)) is not None:
        closing = f"</{opening.group('tag')}>"
        end = prompt.find(closing, opening.end())
        if end < 0:
            break
        body = prompt[opening.end() : end]
        if opening.group("tag") == "context" and _TAG.search(body):
            at = opening.end()  # it holds the passages, it is none
            continue
        at = end + len(closing)
        facts = dict(_FACT.findall(opening.group("facts")))
        ident = next((facts[k] for k in ("id", "source", "doc_id", "document_id", "name") if facts.get(k)), None)
        inner = _INNER_TEXT.search(body)
        inner_end = body.find(f"</{inner.group(1)}>", inner.end()) if inner else -1
        beside = _INNER_ID.search(body, 0, inner.start()) if inner else None
        given = next((facts[k] for k in ("index", "n", "number", "rank") if facts.get(k, "").isdecimal()), None)
        number = int(given) if given and len(given) < 4 else len(found) + 1
        words = body[inner.end() : inner_end] if inner is not None and inner_end >= 0 else body
        found.append(
            Entry(number, ident or (beside.group(1).strip() if beside else None), words.strip(), opening.start(), at)
        )
    return tuple(found)


def _chain(prompt: str, spans: Sequence[Span], style: str, *, loose: bool) -> list[_Label]:
    """The labels of one style that count passages: consecutive, alike, outside of passages, and under a heading."""
    labels = list(islice(_labels(prompt, spans, _LABELS[style]), _MANY))
    starts = [at for at, label in enumerate(labels) if label.number <= 1]
    headed = {at for at in starts if _headed(prompt, labels[at].start)}
    if loose and starts and not prompt[: labels[starts[0]].start].strip():
        headed.add(starts[0])
    best: list[_Label] = []
    # A later list wins only under a heading of its own: an example's passages stand before the real ones.
    for at in [*starts[:1], *[at for at in starts[1:] if at in headed][-8:]]:
        chain = _follow(labels[at:], apart=True)
        chain = chain if len(chain) > 1 else _follow(labels[at:], apart=False)
        counts = at in headed or (style != "points" and (len(chain) > 1 or chain[0].sourced))
        if counts and (not best or (not loose and chain[0].start > best[-1].start)):
            best = chain
    return best


def _labels(prompt: str, spans: Sequence[Span], style: re.Pattern[str]) -> Iterator[_Label]:
    at = 0
    for match in _at_lines(style, prompt):
        while at < len(spans) and spans[at][1] <= match.start():
            at += 1
        if at < len(spans) and spans[at][0] <= match.start() and match.end() < spans[at][1]:
            continue
        above = prompt[max(0, match.start() - 80) : match.start()].rstrip(" \t")
        apart = not above.strip() or above[:-1].rstrip(" \t").endswith("\n")
        sourced = _SOURCE.match(prompt, match.end()) is not None
        yield _Label(int(match["n"]), match.start(), match.end(), apart, sourced)


def _follow(labels: Sequence[_Label], *, apart: bool) -> list[_Label]:
    """The first label and those that count on from it in the same shape; `apart` asks for a blank line before each."""
    chain = [labels[0]]
    for label in labels[1:]:
        if label.number == chain[-1].number + 1 and label.sourced == chain[0].sourced and (label.apart or not apart):
            chain.append(label)
    return chain


def _headed(prompt: str, start: int) -> bool:
    """Whether the lines right above speak of passages."""
    above = [line for line in prompt[max(0, start - 600) : start].split("\n") if line.strip()][-2:]
    return any(_HEADING.search(line) and (len(line) < 200) for line in above)


def _end(prompt: str, chain: Sequence[_Label], spans: Sequence[Span]) -> int:
    """Where the last passage ends: at its known end, the question, a closing line, or the first blank line."""
    last = chain[-1]
    inside = next((s for s in spans if s[0] > last.start), None)
    if inside is not None:
        return inside[1]
    # A passage may hold questions of its own (an FAQ does): the prompt's is the last one.
    asked = [m.start() for m in _at_lines(_QUESTION, prompt, last.end) if m.start() > last.end][-1:]
    ends = (_CLOSED,) if asked else (_NEXT, _CLOSED)
    stops = [m.start() for pattern in ends if (m := _opening(pattern, prompt, last.end))]
    end = min([*asked, *stops] or [len(prompt)])
    blank = _BLANK.search(prompt, last.end, end)
    single = all(not _BLANK.search(prompt[a.end : b.start].strip()) for a, b in pairwise(chain))
    return blank.start() if blank is not None and single and len(chain) > 1 else end


def context_section(prompt: str) -> Span | None:
    r"""Where a prompt gives its context under a heading without numbering it; None where it does not.

    >>> prompt = "Context:\nThe Moon is far.\n\nQuestion: How far?"
    >>> prompt[slice(*context_section(prompt))]
    'The Moon is far.'
    """
    span = _fenced(prompt)
    heading = _opening(_CONTEXT, prompt) if span is None else None
    if heading is not None:
        stops = (_opening(pattern, prompt, heading.end()) for pattern in (_QUESTION, _NEXT))
        span = heading.end(), min((m.start() for m in stops if m is not None), default=len(prompt))
    body = prompt[slice(*span)] if span is not None else ""
    if span is None or not body.strip():
        return None
    start = span[0] + len(body) - len(body.lstrip())
    return start, start + len(body.strip())


def _fenced(prompt: str) -> Span | None:
    """What stands between two fences (----, ====, ```) of which the first has a heading right above."""
    for fence in islice(_at_lines(_FENCE, prompt), _MANY):
        above = prompt[max(0, fence.start() - 200) : fence.start()].rstrip("\n").rpartition("\n")[2]
        end = prompt.find(f"\n{fence.group('fence')}", fence.end()) if _HEADING.search(above) else -1
        if end >= 0:
            return fence.end(), end
    return None


def has_question(prompt: str) -> bool:
    r"""Whether a prompt has a heading for its question.

    >>> has_question("The Moon.\n\nQuestion: How far?"), has_question("How far?")
    (True, False)
    """
    return _opening(_QUESTION, prompt) is not None


def asked(prompt: str, passages: Iterable[Span] = ()) -> str:
    r"""The question a prompt asks: after its last "Question:", else what stands beside its passages, else all of it.

    >>> asked("Context: The Moon.\nQuestion: How far?\nAnswer:"), asked("How far?")
    ('How far?', 'How far?')
    >>> asked("Docs:\n[1] The Moon.\n\nHow far?", [(6, 19)])
    'How far?'
    """
    spans = sorted(passages)
    outside = [m for m in _at_lines(_QUESTION, prompt) if not _inside(m.start(), spans)]
    if outside:
        last = outside[-1]
        tag = last.group("tag")
        end = prompt.find(f"</{tag}>", last.end()) if tag else -1
        after = _opening(_NEXT, prompt, last.end())
        stops = [e for e in (end, after.start() if after else -1, *(a for a, _ in spans if a >= last.end())) if e >= 0]
        words = prompt[last.end() : min(stops, default=len(prompt))].strip()
        if words:
            return words
    if not spans:
        return prompt.strip()
    after_them = _LEFT_OVER.sub("", prompt[max(b for _, b in spans) :], count=1).strip()
    before = [p for p in _BLANK.split(prompt[: spans[0][0]].strip()) if not _HEADING.search(p[:200])]
    return after_them or (before[-1].strip() if before else "") or prompt.strip()


def _inside(at: int, spans: Sequence[Span]) -> bool:
    near = bisect_right(spans, at, key=lambda span: span[0]) - 1
    return near >= 0 and at < spans[near][1]
