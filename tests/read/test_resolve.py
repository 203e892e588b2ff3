"""Texts that only the user has: by the ids a retriever recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groundtrace.model import Record, Ref, Span, Trace
from groundtrace.read import read
from spans import CONVENTIONS, MARS, MOON, span

KEPT = {"doc-1": MARS, "doc-2": MOON}


def found(passages: Any, *ids: str, text: Mapping[str, str] | None = None) -> Record:
    """The record of a request whose retriever told these ids, some with a text."""
    held: dict[str, str] = {}
    for at, ident in enumerate(ids):
        held[f"retrieval.documents.{at}.document.id"] = ident
        held[f"retrieval.documents.{at}.document.metadata"] = '{"page": 3}'
        if text and ident in text:
            held[f"retrieval.documents.{at}.document.content"] = text[ident]
    spans: tuple[Span, ...] = (
        span("s0", "CHAIN", Q="How far is the Moon?", A="Far [2]."),
        span("s1", "RETRIEVER", "s0", Q="How far is the Moon?", held=held),
    )
    (record,) = read(Trace(Ref("otel", trace_id="t"), spans), CONVENTIONS, passages=passages)
    return record


def test_a_resolver_gives_the_texts_of_ids() -> None:
    """With the id, the place of the retriever and what is known beside."""
    asked: list[tuple[str, Mapping[str, Any]]] = []

    def passages(ident: str, metadata: Mapping[str, Any]) -> str | None:
        asked.append((ident, metadata))
        return KEPT[ident]

    record = found(passages, "doc-1", "doc-2")
    assert [(p.id, p.text) for p in record.context] == [("doc-1", MARS), ("doc-2", MOON)]
    assert record.context[0].metadata == {"page": 3}
    assert record.context[1].target == (Ref("otel", trace_id="t", span_id="s1"), 1)
    assert [c.passage_id for c in record.citations] == ["doc-2"]
    assert record.gaps == ()
    assert asked == [("doc-1", {"page": 3}), ("doc-2", {"page": 3})]
    assert {o.attribute for o in record.origins if o.field.startswith("context")} == {"passages"}


def test_without_a_resolver_ids_are_a_gap_that_names_it() -> None:
    """Never an empty context that is judged."""
    record = found(None, "doc-1", "doc-2")
    gap = record.gap("context")
    assert gap is not None
    assert record.context == ()
    assert 'passages = "module:function"' in gap.remedy


def test_a_text_that_is_nowhere_leaves_no_context_that_looks_whole() -> None:
    """One id nobody knows: what the answer leans on may be just that."""
    for record in (
        found(lambda ident, _: KEPT.get(ident), "doc-1", "doc-9"),
        found(None, "doc-1", "doc-9", text={"doc-1": MARS}),
        found(lambda ident, _: "  " if ident == "doc-9" else KEPT[ident], "doc-2", "doc-9"),
    ):
        gap = record.gap("context")
        assert gap is not None
        assert (gap.reason, record.context) == ("not_found", ())
        assert "doc-9" in gap.remedy


def test_what_the_trace_tells_is_never_replaced() -> None:
    """The resolver is asked only for what is not there."""
    record = found(lambda _ident, _metadata: "other", "doc-1", text={"doc-1": MARS})
    assert [p.text for p in record.context] == [MARS]
