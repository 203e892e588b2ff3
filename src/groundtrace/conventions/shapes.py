"""Shapes many vocabularies share: texts and JSON in attributes, documents, a provider's own citations.

Everything here takes whatever a span holds and never raises: what has no known shape is None or empty. How deep it
looks is bounded, so that a hostile nesting costs nothing. What is said in turns stands in `messages`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson

from groundtrace.model import Document, Mention, Said
from groundtrace.read.masks import is_mask

MANY = 10_000
"""How many items of a list are looked at."""

_DEPTH = 6

# The way Python prints an object: it names a document and cuts its text.
_PRINTED = re.compile(r"<?\w+\(\w+=|<\w+[ .]")
_LABELLED = re.compile(r"\[\d{1,3}\]\s+[^\s\]}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HALVES = "the text holds halves of characters (lone surrogates; U+FFFD stands there): cut texts between characters"

_TEXTS = ("page_content", "content", "text", "passage", "snippet", "body", "chunk")
_IDS = ("id", "doc_id", "document_id", "chunk_id", "passage_id", "file_id", "id_")
_SCORES = ("score", "relevance_score", "similarity_score", "similarity")
_METADATA = ("metadata", "attributes", "meta")
_TIMES = ("timestamp", "date", "published_at", "published", "updated_at", "last_modified", "created_at")
_LISTS = ("documents", "results", "passages", "sources", "chunks", "matches", "hits", "docs", "nodes", "items")
_WRAPPED = ("node", "document", "doc", "kwargs")


# --- values -----------------------------------------------------------------------------------------------------------


class Decoded(NamedTuple):
    """What an attribute holds; `cut` where it is JSON that breaks off at its end."""

    value: Any
    cut: bool = False


def decode(value: Any) -> Decoded:
    """The value an attribute holds: a JSON object or list decoded, anything else as it is.

    >>> decode('{"a": [1]}').value, decode("[1] Plain text.").value
    ({'a': [1]}, '[1] Plain text.')
    >>> decode('{"a": "It was cut he').cut
    True
    """
    if not isinstance(value, str) or (head := value[:64].lstrip())[:1] not in ("{", "[") or _LABELLED.match(head):
        return Decoded(value)
    try:
        return Decoded(orjson.loads(value))
    except ValueError:
        pass
    # The patient one: NaN, lone surrogates, control characters; and it says where JSON breaks off.
    try:
        return Decoded(json.loads(value, strict=False))
    except json.JSONDecodeError as error:
        ended = len(value) > 16 and (error.pos >= len(value) - 6 or error.msg.startswith("Unterminated string"))
        return Decoded(value, cut=ended)
    except (ValueError, RecursionError):
        return Decoded(value)


def is_masked(value: Any) -> bool:
    """Whether a value is a text that says that its user had it masked.

    >>> is_masked("__REDACTED__"), is_masked("The file was redacted."), is_masked(7)
    (True, False, False)
    """
    return isinstance(value, str) and is_mask(value)


def said(value: Any, attribute: str, remedy: str = "") -> Said | None:
    """A text as a span says it, None where it says none; `remedy` is kept where the text is masked.

    >>> said("Hello", "input.value"), said(7, "input.value")
    (Said(value='Hello', attribute='input.value', state='present', remedy=''), None)
    """
    if not isinstance(value, str) or not value or value.isspace():
        return None
    if not value.isascii() and _SURROGATE.search(value):
        return Said(value, attribute, "damaged", _HALVES)
    return Said(value, attribute, "masked", remedy) if is_masked(value) else Said(value, attribute)


def text(value: Any) -> str | None:
    """A value as a short text: strings and numbers; None for the rest."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def number(value: Any) -> float | None:
    """A finite number, also when it is written as text; never NaN.

    >>> number("0.5"), number("nan"), number(True)
    (0.5, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < float("inf") else None


# --- documents ------------------------------------------------------------------------------------------------------


def documents(value: Any, attribute: str) -> tuple[Document, ...] | None:
    """The documents a value lists, in order; None where it lists none and () where it lists nothing.

    A list of texts or of objects with a text or an id, or an object that holds such a list.

    >>> [d.id for d in documents('{"documents": [{"id": "a", "page_content": "Text."}]}', "output.value")]
    ['a']
    >>> documents('{"documents": []}', ""), documents("Just words.", "")
    ((), None)
    """
    found = decode(value).value
    for _ in range(_DEPTH):
        if isinstance(found, (list, tuple)):
            read = [_document(item, attribute) for item in islice(found, MANY)]
            kept = tuple(d for d in read if d is not None)
            return kept if len(kept) == len(read) else None
        if not isinstance(found, Mapping):
            return None
        inner = next((found[key] for key in _LISTS if isinstance(found.get(key), (list, tuple, Mapping))), None)
        if inner is None:
            return None
        found = inner
    return None


def _document(item: Any, attribute: str) -> Document | None:
    if isinstance(item, str):
        return Document(said(item, attribute)) if item.strip() and not _PRINTED.match(item) else None
    if not isinstance(item, Mapping) or "role" in item:
        return None
    for key in _WRAPPED:
        if isinstance(item.get(key), Mapping):
            item = {**{k: v for k, v in item.items() if k != key}, **item[key]}
    written = _first_text(item, _TEXTS)
    ident = _first(item, _IDS)
    if written is None and ident is None:
        return None
    metadata = metadata_of(item)
    other_id, when = id_and_time(metadata)
    ident = ident or other_id
    when = _first(item, _TIMES) or when
    score = next((n for key in _SCORES if (n := number(item.get(key))) is not None), None)
    return Document(said(written, attribute), ident, score, metadata, when)


def metadata_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is known of a document beside its text: its own metadata, else its other plain fields."""
    for key in _METADATA:
        held = decode(item.get(key)).value
        if isinstance(held, Mapping):
            return held
    taken = {*_TEXTS, *_IDS, *_SCORES, "type", "n", "index", "embedding"}
    return {k: v for k, v in item.items() if k not in taken and isinstance(v, (str, int, float)) and v != ""}


def id_and_time(metadata: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """A document's id and time where only its metadata tells them."""
    return _first(metadata, _IDS[1:]), _first(metadata, _TIMES)


def _first(item: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    return next((t for key in keys if (t := text(item.get(key)))), None)


def _first_text(item: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """The first of these fields that holds a text, be it in blocks."""
    for key in keys:
        held = item.get(key)
        if isinstance(held, str) and held:
            return held
        if isinstance(held, list) and held and (joined := blocks(held)):
            return joined
    return None


def blocks(parts: Iterable[Any]) -> str:
    """The text of a list of text blocks."""
    texts = (p if isinstance(p, str) else p.get("text") for p in islice(parts, MANY) if isinstance(p, (str, Mapping)))
    return "\n".join(t for t in texts if isinstance(t, str))


# --- structured citations ---------------------------------------------------------------------------------------------


def mentions(value: Any, attribute: str) -> tuple[Mention, ...]:
    """The citations in a provider's own reply: Anthropic's blocks, OpenAI's annotations; offsets in the answer.

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
    if not isinstance(spoken, list):
        return ()
    found: list[Mention] = []
    at = 0
    for block in islice(spoken, MANY):
        words = block.get("text") if isinstance(block, Mapping) else None
        if not isinstance(words, str):
            continue
        found.extend(mention(cited, at, at + len(words), attribute) for cited in listed(block.get("citations")))
        found.extend(_annotation(noted, at, attribute) for noted in listed(block.get("annotations")))
        at += len(words)
    return tuple(found)


def mention(cited: Mapping[str, Any], start: int, end: int, attribute: str) -> Mention:
    """One of Anthropic's citations of the block that stands from `start` to `end` in the answer."""
    place = cited.get("document_index") if cited.get("document_index") is not None else cited.get("search_result_index")
    where = place if isinstance(place, int) and not isinstance(place, bool) and place >= 0 else None
    ident = None if where is not None else text(cited.get("url")) or text(cited.get("source"))
    return Mention(
        start, end, document=where, document_id=ident, quote=text(cited.get("cited_text")), attribute=attribute
    )


def _annotation(noted: Mapping[str, Any], at: int, attribute: str) -> Mention:
    """One of OpenAI's annotations; a file citation is a place right behind the claim, a link stands where it is."""
    ident = text(noted.get("file_id")) or text(noted.get("url")) or text(noted.get("filename"))
    start, end = noted.get("start_index", noted.get("index")), noted.get("end_index", noted.get("index"))
    if isinstance(start, int) and isinstance(end, int) and 0 <= start <= end:
        return Mention(at + start, at + end, document_id=ident, attribute=attribute)
    return Mention(document_id=ident, attribute=attribute)


def listed(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list, nothing where it is none."""
    return [v for v in islice(value, MANY) if isinstance(v, Mapping)] if isinstance(value, (list, tuple)) else []
