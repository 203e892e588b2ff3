"""Shapes many vocabularies share: texts and JSON in attributes, documents.

Everything here takes whatever a span holds and never raises: what has no known shape is None or empty. How deep it
looks is bounded, so that a hostile nesting costs nothing. What is said in turns stands in `messages`, what
a provider's reply cites in `cited`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice, zip_longest
from operator import itemgetter
from typing import Any

import orjson

from groundtrace.model import Document, Said, Struct
from groundtrace.read.masks import MASKS_START, is_mask

MANY = 10_000
"""How many items of a list are looked at."""

_DEPTH = 6
_SHARED, _FEW = 300, 40
"""More attributes of a span, or keys of an object, and what they tell is not kept: hostile spans come in any shape."""

# The way Python prints an object: it names a document and cuts its text.
_PRINTED = re.compile(r"<?\w+\(\w+=|<\w+[ .]|page_content=['\"]")
_LABELLED = re.compile(r"\[\d{1,3}\]\s+[^\s\]}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HALVES = "the text holds halves of characters (lone surrogates; U+FFFD stands there): cut texts between characters"

_TEXTS = ("page_content", "pageContent", "content", "text", "passage", "snippet", "body", "chunk")
_IDS = ("id", "doc_id", "document_id", "chunk_id", "passage_id", "file_id", "id_", "node_id")
_SCORES = ("score", "relevance_score", "similarity_score", "similarity")
_METADATA = ("metadata", "attributes", "meta")
_TIMES = ("timestamp", "date", "published_at", "published", "updated_at", "last_modified", "created_at")
_NAMED = frozenset((*_IDS[1:], *_TIMES))
_LISTS = (
    *("documents", "results", "passages", "sources", "chunks", "matches", "hits", "docs", "nodes", "items"),
    *("contexts", "context", "source_nodes", "source_documents"),
)
_SURELY = {"documents", "contexts", "passages", "chunks", "docs", "matches", "source_documents", "source_nodes"}
_WRAPPED = ("node", "document", "doc", "kwargs")
_WRAPS = frozenset(_WRAPPED)
_TAKEN = frozenset((*_TEXTS, *_IDS, *_SCORES, "type", "n", "index", "embedding", "lc"))
_FACTS = {*_IDS, *_SCORES, *_METADATA, "page_content", "pageContent", "source", "title", "url", "filename", "distance"}
"""What stands beside the text of a passage, and not beside that of a claim, a label or a part of a message."""
_PARTS = ("text", "input_text", "output_text", "tool_use", "tool_result", "tool_call", "reasoning", "thinking", "image")
CONTEXTS = (
    *("context", "contexts", "context_str", "documents", "docs", "passages", "chunks", "text_chunks", "nodes"),
    *("retrieved_documents", "retrieved_docs", "search_results", "source_documents", "source_nodes", "sources"),
)
"""What a context goes by among a function's arguments or results."""
_ANSWERED_BESIDE = {"answer", "response", "reply", "output", "messages", "choices", "generations", "final_answer"}
_LOOKS_UP = ("retriev", "search", "lookup", "look_up", "similarity", "knowledge_base", "vectorstore", "vector_store")
_GETS, _GOTTEN = ("get", "fetch", "find", "load", "query"), ("context", "doc", "passage", "chunk", "knowledge", "index")
_TALKS = ("answer", "agent", "chat", "generat", "respon", "synth", "assist", "rag_", "_rag", "pipeline", "workflow")
_ASKS = ("query", "queries", "question", "q", "search_query", "search_term", "user_query", "query_str", "keywords")
_PASSAGE = 40  # characters a passage has at least, where nothing but its length speaks for it
_SPEAKERS = ("human", "ai", "system", "tool", "AIMessageChunk")
"""What LangChain calls a message's type: a message is no document."""


# --- values -----------------------------------------------------------------------------------------------------------


class Decoded(Struct, frozen=True):
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
    if not isinstance(value, str) or value[:1].isalnum() or not is_json(value):
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


def is_json(value: str) -> bool:
    """Whether a text starts as a JSON object or list does.

    >>> is_json(' {"a": 1}'), is_json("[1] Plain text."), is_json("Plain.")
    (True, False, False)
    """
    start = value[:1]
    if start.isspace():
        value = value[:64].lstrip()
        start = value[:1]
    return start == "{" or (start == "[" and (not value[1:2].isdigit() or _LABELLED.match(value[:64]) is None))


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
    if type(value) is str and value and value[0] not in MASKS_START and value.isascii():
        return Said(value, attribute)  # as most are
    if not isinstance(value, str) or not value or value.isspace():
        return None
    if not value.isascii() and _SURROGATE.search(value):
        return Said(value, attribute, "damaged", _HALVES)
    return Said(value, attribute, "masked", remedy) if is_mask(value) else Said(value, attribute)


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
    return found if math.isfinite(found) else None


# --- what was flattened into attributes -------------------------------------------------------------------------------


def numbered(attributes: Mapping[str, Any], prefix: str) -> list[tuple[int, dict[str, Any]]]:
    """Flat attributes below a prefix as nested objects, in order: `0.message.role` is (0, {"message": {"role": ...}}).

    >>> numbered({"m.1.role": "ai", "m.0.role": "user", "m.0.tool.name": "find"}, "m.")
    [(0, {'role': 'user', 'tool': {'name': 'find'}}), (1, {'role': 'ai'})]
    """
    return [(index, filled(tree, attributes)) for index, tree in layout(attributes, prefix)]


def layout(attributes: Mapping[str, Any], prefix: str) -> tuple[tuple[int, dict[str, Any]], ...]:
    """The same with each attribute's name for its value; what spans share is worked out once, and not to be changed."""
    names = tuple(attributes)
    return _layout(names, prefix) if len(names) <= _SHARED else _layout.__wrapped__(names, prefix)


@lru_cache(maxsize=1024)
def _layout(names: tuple[str, ...], prefix: str) -> tuple[tuple[int, dict[str, Any]], ...]:
    """The same with names for values: spans of one kind have the same attributes, so it is worked out once for all."""
    tree: dict[str, Any] = {}
    for name in names:
        if not name.startswith(prefix):
            continue
        *path, leaf = name[len(prefix) :].split(".", 12)
        node: Any = tree
        for step in path:
            node = node.setdefault(step, {}) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.setdefault(leaf, name)
    return tuple(in_order(tree))


def in_order(tree: Any) -> list[tuple[int, dict[str, Any]]]:
    """The objects of a nested list that was flattened, by their numbers."""
    if not isinstance(tree, Mapping):
        return []
    return sorted(
        ((int(k), v) for k, v in tree.items() if k.isascii() and k.isdigit() and len(k) < 9 and isinstance(v, dict)),
        key=itemgetter(0),
    )


def filled(tree: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A laid out object with the values of its attributes."""
    return {key: attributes[name] if type(name) is str else filled(name, attributes) for key, name in tree.items()}


# --- documents ------------------------------------------------------------------------------------------------------


def documents(value: Any, attribute: str) -> tuple[Document, ...] | None:
    """The documents a value lists, in order; None where it lists none and () where it lists nothing.

    A list of texts or of objects with a text or an id, or an object that holds such a list.

    >>> [d.id for d in documents('{"documents": [{"id": "a", "page_content": "Text."}]}', "output.value")]
    ['a']
    >>> documents('{"documents": []}', ""), documents("Just words.", "")
    ((), None)
    """
    items = _items(decode(value).value)
    if items is None:
        return None
    found = []
    for item in islice(items, MANY):
        if (document := _document(item, attribute)) is None:
            return None
        found.append(document)
    return tuple(found)


def _items(value: Any) -> list[Any] | tuple[Any, ...] | None:
    """The list a value is or holds under a name that lists go by."""
    for _ in range(_DEPTH):
        if isinstance(value, (list, tuple)):
            return value
        if value is None or not isinstance(value, Mapping):
            return None
        inner = next((value[key] for key in _LISTS if isinstance(value.get(key), (list, tuple, Mapping))), None)
        value = _columns(value) or inner
    return None


def _columns(held: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A vector store's answer in columns, a list for each query asked at once: Chroma's ids, documents, metadatas."""
    found = [held.get(name) for name in ("ids", "documents", "metadatas")]
    first = [c[0] if isinstance(c, list) and len(c) == 1 and isinstance(c[0], list) else [] for c in found]
    rows = zip_longest(*(column[:MANY] for column in first))
    return [{"id": i, "text": t, "metadata": m} for i, t, m in rows] if first[0] and first[1] else []


def _document(item: Any, attribute: str) -> Document | None:
    if isinstance(item, str):
        return Document(said(item, attribute)) if item.strip() and not _PRINTED.match(item) else None
    score = number(item[1]) if isinstance(item, (list, tuple)) and len(item) == 2 else None
    if score is not None and isinstance(item[0], Mapping):
        item = {"score": score, **item[0]}  # LangChain's pairs of a document and its score
    if not isinstance(item, (dict, Mapping)) or "role" in item:  # what is a dict is soon known to be one
        return None
    keys = _keys_of(item)
    if keys.wraps:
        for key in _WRAPPED:
            if isinstance(item.get(key), Mapping):
                item = {**{k: v for k, v in item.items() if k != key}, **item[key]}
        keys = _keys_of(item)
    if keys.typed and item["type"] in _SPEAKERS and "content" in item:
        return None
    written = _first_text(item, keys.texts)
    ident = _first(item, keys.ids)
    if written is None and ident is None:
        return None
    metadata = metadata_of(item)
    written = written or _first_text(metadata, _TEXTS)  # as vector stores keep it
    other_id, when = id_and_time(metadata)
    dated = _first(item, keys.times) if keys.times else None
    return Document(said(written, attribute), ident or other_id, _score(item, keys.scores), metadata, dated or when)


class _Keys(Struct, frozen=True):
    """Which of an object's keys tell a document's text, id, score and time, in the order they count."""

    texts: tuple[str, ...]
    ids: tuple[str, ...]
    scores: tuple[str, ...]
    times: tuple[str, ...]
    wraps: bool
    typed: bool


def _keys_of(item: Mapping[str, Any]) -> _Keys:
    """What an object's keys tell; those of one list have the same, so it is worked out once for all."""
    keys = tuple(item)
    return _told_by(keys) if len(keys) <= _FEW else _told_by.__wrapped__(keys)


@lru_cache(maxsize=256)
def _told_by(keys: tuple[str, ...]) -> _Keys:
    texts, ids, scores, times = (tuple(k for k in known if k in keys) for known in (_TEXTS, _IDS, _SCORES, _TIMES))
    return _Keys(texts, ids, scores, times, not _WRAPS.isdisjoint(keys), "type" in keys)


def metadata_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is known of a document beside its text: its own metadata, else its other plain fields."""
    for key in _METADATA:
        if key in item and isinstance(held := decode(item[key]).value, (dict, Mapping)):
            return held
    return {k: v for k, v in item.items() if k not in _TAKEN and isinstance(v, (str, int, float)) and v != ""}


def id_and_time(metadata: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """A document's id and time where only its metadata tells them."""
    if _NAMED.isdisjoint(metadata):
        return None, None
    return _first(metadata, _IDS[1:]), _first(metadata, _TIMES)


def _first(item: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    for key in keys:
        if key in item and (told := text(item[key])):
            return told
    return None


def _score(item: Mapping[str, Any], keys: Iterable[str]) -> float | None:
    """The first of these fields that holds a number."""
    for key in keys:
        if (told := number(item[key])) is not None:
            return told
    return None


def _first_text(item: Mapping[str, Any], keys: Iterable[str]) -> str | None:
    """The first of these fields that holds a text, be it in blocks."""
    for key in keys:
        if key not in item:
            continue
        held = item[key]
        if isinstance(held, str) and held:
            return held
        if isinstance(held, list) and held and (joined := blocks(held)):
            return joined
    return None


def blocks(parts: Iterable[Any]) -> str:
    """The text of a list of text blocks."""
    texts = (p if isinstance(p, str) else p.get("text") for p in islice(parts, MANY) if isinstance(p, (str, Mapping)))
    return "\n".join(t for t in texts if isinstance(t, str))


# --- a retrieval told by evidence -----------------------------------------------------------------------------------


def looks_up(name: str) -> bool:
    """Whether a step's name says that it looks something up, and does not answer.

    >>> looks_up("VectorStoreRetriever"), looks_up("get_context"), looks_up("search_and_answer"), looks_up("research")
    (True, True, False, False)
    """
    words = name[:200].lower().replace("-", "_").replace(" ", "_").replace("research", "")
    if any(word in words for word in _TALKS):
        return False
    got = any(word in words for word in _GETS) and any(word in words for word in _GOTTEN)
    return got or any(word in words for word in _LOOKS_UP)


def asks(value: Any) -> bool:
    """Whether what a function was called with is a search: a query by that name.

    >>> asks({"query": "How far?", "k": 3}), asks({"text": "It is far. It is cold."})
    (True, False)
    """
    held = decode(value).value
    return isinstance(held, Mapping) and any(held.get(name) for name in _ASKS)


def retrieved(value: Any, attribute: str, *, named: bool = False, asked: bool = False) -> tuple[Document, ...] | None:
    """The passages a step gave back, as far as their shape proves that it looked them up; None where it does not.

    For vocabularies in which any function may be a retriever. `named`: its name says that it is one; then no passages
    are (), nothing found. `asked`: it was called with a query; then texts alone are passages where they are as long.

    >>> [d.id for d in retrieved([{"id": "a", "text": "The Moon."}], "output") or ()]
    ['a']
    >>> retrieved([{"type": "text", "text": "Hi."}], "output"), retrieved([], "output"), retrieved(["One.", "Two."], "")
    (None, None, None)
    """
    held = decode(value).value
    if isinstance(held, Mapping) and _ANSWERED_BESIDE & held.keys():
        return None
    items = _items(held)
    found = documents(items, attribute) if items is not None else None
    if not items or not found:
        emptied = found == () and isinstance(held, Mapping) and _SURELY & held.keys()
        return found if named or emptied else None
    if any(isinstance(item, Mapping) and item.get("type") in _PARTS for item in islice(items, MANY)):
        return None
    texts = [item for item in islice(items, MANY) if isinstance(item, str)]
    if texts:
        long = all(len(t) >= _PASSAGE and not t.rstrip().endswith("?") for t in texts)
        return found if _worded(texts) and (named or (asked and long)) else None
    proven = all(isinstance(item, Mapping) and _FACTS & item.keys() for item in islice(items, MANY))
    return found if named or ((asked or proven) and all(d.text is not None for d in found)) else None


def given_back(value: Any, attribute: str) -> tuple[tuple[Document, ...] | None, str | None]:
    """What a retriever gave back: its documents, or the text it gave instead; neither where its shape is not known.

    >>> given_back({"page_content": "The Moon.", "metadata": {}}, "output")[0][0].text.value
    'The Moon.'
    >>> given_back([{"type": "text", "text": "The Moon."}], "output"), given_back(["a.pdf"], "output")
    ((None, 'The Moon.'), (None, None))
    """
    held = decode(value).value
    if isinstance(held, str):
        return None, held
    found = retrieved(held, attribute, named=True)
    if found is None and isinstance(held, Mapping):
        found = handed(held, attribute)[1] or retrieved([held], attribute)
    parts = listed(held)
    if found is None and parts and len(parts) == len(held) and all(part.get("type") in _PARTS for part in parts):
        return None, blocks(held) or None
    return found, None


def _worded(items: Iterable[Any]) -> bool:
    """Whether those of these that are texts are more than names, ids or addresses."""
    texts = (item.strip() for item in islice(items, MANY) if isinstance(item, str))
    return all(" " in t or "\n" in t or not t.isascii() for t in texts)


def handed(held: Any, attribute: str) -> tuple[dict[str, Said], tuple[Document, ...] | None]:
    """What a function or template was given by name: the texts, and the passages handed over among them as a list.

    Nothing where none of the names is a context's: then it is not a prompt that is filled.

    >>> handed({"question": "How far?", "docs": ["The Moon is far."]}, "input")[0]["question"].value
    'How far?'
    >>> handed({"question": "How far?"}, "input")
    ({}, None)
    """
    if not isinstance(held, Mapping) or not any(name in held for name in CONTEXTS):
        return {}, None
    named = {str(k): s for k, v in islice(held.items(), MANY) if (s := said(v, attribute)) is not None}
    lists = (held[name] for name in CONTEXTS if isinstance(held.get(name), (list, tuple)) and _worded(held[name]))
    texts = (tuple(d for d in documents(value, attribute) or () if d.text is not None) for value in lists)
    found = next((t for t in texts if t), None)
    return (named, found) if found or any(name in named for name in CONTEXTS) else ({}, None)


def listed(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list, nothing where it is none."""
    return [v for v in islice(value, MANY) if isinstance(v, Mapping)] if isinstance(value, (list, tuple)) else []
