"""What a provider's own reply cites, in the shape of each provider: offsets become code points of the answer.

From the providers' references: OpenAI (responses, chat completions, assistants), Anthropic, Cohere v1 and v2, Gemini,
Bedrock, Azure OpenAI on your data, and Haystack's answers. Captured replies stand behind OpenAI's responses,
Anthropic's blocks and Haystack's answers; the others are written from their documentation alone. Nothing here raises;
what has no known shape cites nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from groundtrace.conventions.shapes import MANY, decode, documents, listed, text
from groundtrace.model import Document, Mention

_DOC = re.compile(r"\[doc(\d{1,4})\]")
_ADDRESSES = ("url", "uri", "filepath", "chunk_id", "id", "title")
_LOCATIONS = ("s3Location", "webLocation", "confluenceLocation", "salesforceLocation", "sharePointLocation")


def may_cite(raw: str) -> bool:
    """Whether a reply as JSON text has a word without which it cites nothing.

    >>> may_cite('{"annotations": [{"type": "url_citation"}]}'), may_cite('{"text": "It did."}')
    (True, False)
    """
    return "citation" in raw or "groundingSupports" in raw or "grounding_supports" in raw or '"referenced"' in raw


def mentions(value: Any, attribute: str) -> tuple[Mention, ...]:
    """The citations in a provider's own reply, whichever provider's it is; offsets in the answer.

    >>> blocks = [{"type": "text", "text": "It did.", "citations": [{"document_index": 0, "cited_text": "It did so."}]}]
    >>> [(m.start, m.end, m.document, m.quote) for m in mentions({"content": blocks}, "output.value")]
    [(0, 7, 0, 'It did so.')]
    """
    held = decode(value).value
    if not isinstance(held, Mapping):
        return ()
    spoken: Any = held.get("content")
    if isinstance(held.get("output"), list):
        said_last = [o for o in held["output"] if isinstance(o, Mapping) and isinstance(o.get("content"), list)]
        spoken = said_last[-1]["content"] if said_last else None
    elif isinstance(held.get("choices"), list) and (chosen := listed(held["choices"][:1])):
        message = chosen[0].get("message")
        if (azure := _azure(message, attribute)) or (azure := _cohere(message, attribute)):
            return azure
        spoken = _chosen(message)
    if isinstance(spoken, list):
        return (*_blocks(spoken, attribute), *_cohere(held, attribute))
    for shape in (_cohere, _gemini, _bedrock, _azure, _haystack):
        found = shape(held, attribute)
        if found:
            return found
    return ()


def searched(value: Any, attribute: str) -> tuple[Document, ...] | None:
    """The passages of a search the provider ran itself, as its own reply lists them; None where it ran none.

    >>> searched({"output": [{"type": "file_search_call", "results": []}]}, "output.value")
    ()
    """
    held = decode(value).value
    if not isinstance(held, Mapping):
        return None
    found = [documents(o["results"], attribute) or () for o in listed(held.get("output")) if _is_list(o, "results")]
    if found:
        return tuple(d for docs in found for d in docs if d.text is not None)
    own = _own_search(held)
    return tuple(d for d in documents(own, attribute) or () if d.text is not None) or None if own else None


def _is_list(held: Mapping[str, Any], name: str) -> bool:
    return isinstance(held.get(name), list)


def _own_search(held: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What Azure, Bedrock or Gemini looked up, in the order its citations count it."""
    chosen = listed(held.get("choices"))[:1]
    message = chosen[0].get("message") if chosen else held
    azure = _azure_list(message) if isinstance(message, Mapping) else []
    if azure:
        return azure
    bedrock: dict[str, Mapping[str, Any]] = {}
    for reference in (r for cited in listed(held.get("citations")) for r in listed(cited.get("retrievedReferences"))):
        words, address = _reference(reference)
        if words is not None:
            bedrock.setdefault(words, {"text": words, **({"metadata": {"url": address}} if address else {})})
    if bedrock:
        return list(bedrock.values())
    chunks = [_chunk(chunk) for chunk in listed(_either(_grounding(held) or {}, "groundingChunks"))]
    return [{"text": w, "metadata": {"url": a} if a else {}} for w, a in chunks if w is not None]


# --- in blocks: Anthropic, OpenAI -------------------------------------------------------------------------------------


def _blocks(spoken: Iterable[Any], attribute: str) -> Iterator[Mention]:
    """Anthropic's citations of a block, OpenAI's annotations within one."""
    at = 0
    for block in islice(spoken, MANY):
        words = block.get("text") if isinstance(block, Mapping) else None
        noted = listed(block.get("annotations")) if isinstance(block, Mapping) else []
        if isinstance(words, Mapping):  # assistants keep the text and its annotations one level down
            noted, words = listed(words.get("annotations")), words.get("value")
        if not isinstance(words, str):
            continue
        for cited in listed(block.get("citations")):
            yield mention(cited, at, at + len(words), attribute)
        for note in noted:
            yield _annotation(note, at, attribute)
        at += len(words)


def _chosen(told: Any) -> Any:
    """A chat completion's message as blocks; its annotations stand beside its text."""
    if not isinstance(told, Mapping):
        return None
    content = told.get("content")
    return content if isinstance(content, list) else [{"text": content, "annotations": told.get("annotations")}]


def mention(cited: Mapping[str, Any], start: int, end: int, attribute: str) -> Mention:
    """One of Anthropic's citations of the block that stands from `start` to `end` in the answer.

    Its place among the citable blocks of the request tells the passage; a web search's result has an address instead.
    """
    place = cited.get("document_index") if cited.get("document_index") is not None else cited.get("search_result_index")
    where = place if isinstance(place, int) and not isinstance(place, bool) and place >= 0 else None
    ident = None if where is not None else text(cited.get("url")) or text(cited.get("source"))
    return Mention(
        start, end, document=where, document_id=ident, quote=text(cited.get("cited_text")), attribute=attribute
    )


def _annotation(noted: Mapping[str, Any], at: int, attribute: str) -> Mention:
    """One of OpenAI's annotations; a file citation is a place right behind the claim, a link stands where it is."""
    inner = noted.get(str(noted.get("type")))
    told = {**noted, **inner} if isinstance(inner, Mapping) else noted  # chat completions name the kind twice
    ident = text(told.get("file_id")) or text(told.get("url")) or text(told.get("filename"))
    quote = text(told.get("quote"))
    here = told.get("index")
    start, end = _placed(told.get("start_index", here), told.get("end_index", here), at)
    return Mention(start, end, document_id=ident, quote=quote, attribute=attribute)


def _placed(start: Any, end: Any, at: int = 0) -> tuple[int | None, int | None]:
    """A stretch that starts and ends at these numbers, in a text that starts at `at`; nowhere where it can't."""
    if _counts(start) and _counts(end) and start <= end:
        return at + start, at + end
    return None, None


def _counts(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# --- Cohere -----------------------------------------------------------------------------------------------------------


def _cohere(held: Any, attribute: str) -> tuple[Mention, ...]:
    """Cohere's: v2 has them in its message with sources, v1 beside its text with the documents' ids.

    v2 counts within the content block a citation names by `content_index`.
    """
    inner = held.get("message") if isinstance(held, Mapping) else None
    held = inner if isinstance(inner, Mapping) else held
    if not isinstance(held, Mapping):
        return ()
    cited = [c for c in listed(held.get("citations")) if "start" in c and ("sources" in c or "document_ids" in c)]
    starts = _starts(held.get("content")) if cited else []
    found: list[Mention] = []
    for one in cited:
        block = one.get("content_index", 0)
        start, end = _placed(
            one["start"], one.get("end"), starts[block] if _counts(block) and block < len(starts) else 0
        )
        for ident, quote in _sources(one):
            found.append(Mention(start, end, text(one.get("text")), None, ident, quote, attribute))
    return tuple(found)


def _starts(content: Any) -> list[int]:
    """Where each block of text starts in the text they make together."""
    found, at = [], 0
    for block in listed(content):
        found.append(at)
        at += len(block["text"]) if isinstance(block.get("text"), str) else 0
    return found


def _sources(cited: Mapping[str, Any]) -> Iterator[tuple[str | None, str | None]]:
    """The documents a citation names, with their text where it is told."""
    for ident in islice(cited.get("document_ids") or (), MANY) if _is_list(cited, "document_ids") else ():
        if text(ident):
            yield text(ident), None
    for source in listed(cited.get("sources")):
        document = source.get("document")
        document = document if isinstance(document, Mapping) else {}
        words = next((w for key in ("text", "snippet", "content") if (w := text(document.get(key)))), None)
        # Cohere numbers the documents that came without an id itself: their own, if any, is inside.
        yield text(document.get("id")) or text(source.get("id")), words


# --- Gemini -----------------------------------------------------------------------------------------------------------


def _gemini(held: Mapping[str, Any], attribute: str) -> tuple[Mention, ...]:
    """Gemini's: stretches of the answer, counted in bytes of UTF-8 within a part, and the chunks that support them."""
    grounding = _grounding(held)
    if grounding is None:
        return ()
    chunks = [_chunk(chunk) for chunk in listed(_either(grounding, "groundingChunks"))]
    parts = _parts(held)
    found: list[Mention] = []
    for support in listed(_either(grounding, "groundingSupports")):
        segment = support.get("segment")
        if not isinstance(segment, Mapping):
            continue
        start, end = _segment(segment, parts)
        numbers = _either(support, "groundingChunkIndices")
        for number in islice(numbers, MANY) if isinstance(numbers, list) else ():
            quote, address = chunks[number] if _counts(number) and number < len(chunks) else (None, None)
            claim = text(segment.get("text"))
            found.append(Mention(start, end, claim, document_id=address, quote=quote, attribute=attribute))
    return tuple(found)


def _either(held: Mapping[str, Any], name: str) -> Any:
    """A field of Google's by its name in JSON or in Python."""
    return held.get(name, held.get(re.sub(r"([A-Z])", r"_\1", name).lower()))


def _candidate(held: Mapping[str, Any]) -> Mapping[str, Any]:
    first = listed(held.get("candidates"))[:1]
    return first[0] if first else held


def _grounding(held: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found = _either(_candidate(held), "groundingMetadata")
    return found if isinstance(found, Mapping) else None


def _chunk(chunk: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The text of a chunk, where Gemini looked it up in documents, and its address."""
    inner = chunk.get("retrievedContext", chunk.get("retrieved_context", chunk.get("web")))
    inner = inner if isinstance(inner, Mapping) else {}
    return text(inner.get("text")), text(inner.get("uri")) or text(inner.get("title"))


class _Part:
    """A text of the answer by its bytes, and where it starts in code points."""

    def __init__(self, words: str, at: int) -> None:
        self.at = at
        self.ascii = words.isascii()
        self.size = len(words)
        self.ends: list[int] = []
        total = 0
        for char in () if self.ascii else words:
            total += 1 if char < "\x80" else 2 if char < "\u0800" else 3 if char < "\U00010000" else 4
            self.ends.append(total)

    def place(self, offset: int) -> int:
        """The code point a byte belongs to: where a byte lies within a character, its start."""
        return self.at + min(offset, self.size) if self.ascii else self.at + bisect_right(self.ends, offset)

    def splits(self, offset: int) -> bool:
        """Whether an offset lies within a character."""
        if self.ascii or offset >= (self.ends[-1] if self.ends else 0):
            return False
        whole = bisect_right(self.ends, offset)
        return offset != (self.ends[whole - 1] if whole else 0)


def _parts(held: Mapping[str, Any]) -> list[_Part]:
    content = _candidate(held).get("content")
    listed_parts = listed(content.get("parts")) if isinstance(content, Mapping) else []
    alone = content if isinstance(content, str) else held.get("text")
    if not listed_parts and isinstance(alone, str):
        listed_parts = [{"text": alone}]
    found: list[_Part] = []
    at = 0
    for part in listed_parts:
        words = part.get("text") if isinstance(part.get("text"), str) and not part.get("thought") else ""
        found.append(_Part(words or "", at))
        at += len(words or "")
    return found


def _segment(segment: Mapping[str, Any], parts: list[_Part]) -> tuple[int | None, int | None]:
    """A segment in code points; an end within a character takes it in."""
    index, first, last = (_either(segment, name) for name in ("partIndex", "startIndex", "endIndex"))
    index, first = index or 0, first or 0  # what is 0 is left out
    if not (_counts(index) and index < len(parts) and _counts(first) and _counts(last) and first <= last):
        return None, None
    part = parts[index]
    start, end = part.place(first), part.place(last)
    return start, end + 1 if part.splits(last) else end


# --- Bedrock, Azure, Haystack -----------------------------------------------------------------------------------------


def _bedrock(held: Mapping[str, Any], attribute: str) -> tuple[Mention, ...]:
    """Bedrock's: a part of the answer and the references retrieved for it; its last character is counted in."""
    found: list[Mention] = []
    for cited in listed(held.get("citations")):
        part = cited.get("generatedResponsePart")
        part = part.get("textResponsePart") if isinstance(part, Mapping) else None
        if not isinstance(part, Mapping):
            continue
        span = part.get("span")
        span = span if isinstance(span, Mapping) else {}
        start, last = _placed(span.get("start"), span.get("end"))
        words = text(part.get("text"))
        # The documented end is inclusive; the words tell where a reply counts otherwise.
        end = None if start is None or last is None else start + len(words) if words else last + 1
        for reference in listed(cited.get("retrievedReferences")):
            quote, address = _reference(reference)
            found.append(Mention(start, end, words, document_id=address, quote=quote, attribute=attribute))
    return tuple(found)


def _reference(reference: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The text and the address of what Bedrock retrieved."""
    content, location = reference.get("content"), reference.get("location")
    words = text(content.get("text")) if isinstance(content, Mapping) else None
    places = (location.get(name) for name in _LOCATIONS) if isinstance(location, Mapping) else ()
    held = next((p for p in places if isinstance(p, Mapping)), {})
    return words, text(held.get("uri")) or text(held.get("url"))


def _azure_list(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    context = message.get("context")
    context = decode(context).value if isinstance(context, str) else context
    return listed(context.get("citations")) if isinstance(context, Mapping) else []


def _azure(message: Any, attribute: str) -> tuple[Mention, ...]:
    """Azure OpenAI's on your data: [doc1] in the text counts the citations listed beside it, from 1."""
    cited = _azure_list(message) if isinstance(message, Mapping) else []
    said = message.get("content") if cited else None
    if not isinstance(said, str):
        return ()
    found: list[Mention] = []
    for mark in islice(_DOC.finditer(said), MANY):
        number = int(mark[1]) - 1
        one = cited[number] if 0 <= number < len(cited) else {}
        address = next((t for key in _ADDRESSES if (t := text(one.get(key)))), None)
        found.append(Mention(*mark.span(), document_id=address, quote=text(one.get("content")), attribute=attribute))
    return tuple(found)


def _haystack(held: Mapping[str, Any], attribute: str) -> tuple[Mention, ...]:
    """Haystack's: the documents an answer refers to, of the answer as a whole.

    Without a pattern for references its builder hands on every document there was; only what it flags was cited.
    """
    first = listed(held.get("answers"))[:1]
    answer = first[0].get("init_parameters", first[0]) if first else {}
    found: list[Mention] = []
    for document in listed(answer.get("documents")) if isinstance(answer, Mapping) else ():
        meta = document.get("meta")
        flagged = meta.get("referenced") if isinstance(meta, Mapping) else None
        if flagged is True or document.get("referenced") is True:
            quote = text(document.get("content"))
            found.append(Mention(document_id=text(document.get("id")), quote=quote, attribute=attribute))
    return tuple(found)
