"""Texts that a trace does not hold, had from where the user keeps them: by the ids its retrievers recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from groundtrace.model import Document, Reading, Said

Resolver: TypeAlias = Callable[[str, Mapping[str, Any]], str | None]
"""Gives the text of a document by its id and its metadata, or None."""

PLACE = "passages"
"""What is named as the place of a text that a resolver gave."""

NOT_GIVEN = "the function named by `passages` has no text for the id"


def resolved(reading: Reading, passages: Resolver) -> Reading:
    """A reading whose documents have their texts, as far as the resolver knows them."""
    documents = reading.documents
    tool = reading.tool
    if documents and any(_bare(document) for document in documents):
        reading = replace(reading, documents=tuple(_with_text(document, passages) for document in documents))
    if tool is not None and any(_bare(document) for document in tool.documents):
        tool = replace(tool, documents=tuple(_with_text(document, passages) for document in tool.documents))
        reading = replace(reading, tool=tool)
    return reading


def _bare(document: Document) -> bool:
    return document.text is None and bool(document.id)


def _with_text(document: Document, passages: Resolver) -> Document:
    if not _bare(document) or document.id is None:
        return document
    found = passages(document.id, document.metadata)
    if not isinstance(found, str) or not found.strip():
        return document
    return replace(document, text=Said(found, PLACE))
