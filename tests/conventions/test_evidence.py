"""Retrievals told by evidence: names, shapes and arguments that prove that a step looked something up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.shapes import asks, documents, given_back, handed, looks_up, retrieved

MOON = "The Moon is 384,400 km away from the Earth, on average."
MARS = "Mars is named for the Roman god of war, for its red colour."
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from([MOON, '{"a":']),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["documents", "ids", "text", "id", "metadata", "context", "answer"]), inner)
    ),
    max_leaves=12,
)


def texts(found: Any) -> list[str | None] | None:
    """The texts of documents."""
    return None if found is None else [d.text.value if d.text is not None else None for d in found]


@pytest.mark.parametrize(
    "name", ["retrieve", "VectorStoreRetriever", "get_context", "vector-search", "fetch documents"]
)
def test_a_name_says_that_a_step_looks_something_up(name: str) -> None:
    """In whichever way names are written."""
    assert looks_up(name)


@pytest.mark.parametrize("name", ["answer", "research", "search_agent", "rag_search", "chat_with_docs", "kb", ""])
def test_a_name_that_answers_or_says_nothing_is_no_retrieval(name: str) -> None:
    """What answers is the request itself, however much it also searches."""
    assert not looks_up(name)


def test_a_query_by_name_is_a_search() -> None:
    """A text by any other name may be anything."""
    assert asks({"query": "How far?", "k": 3})
    assert asks('{"q": "How far?"}')
    assert not asks({"text": "How far?"})
    assert not asks("How far?")


@pytest.mark.parametrize(
    "value",
    [
        [{"page_content": MOON}, {"page_content": MARS}],
        [{"pageContent": MOON, "metadata": {}}, {"pageContent": MARS, "metadata": {}}],
        [{"id": "a", "text": MOON}, {"id": "b", "text": MARS}],
        [{"node_id": "a", "text": MOON, "score": 0.5}, {"node_id": "b", "text": MARS}],
        {"documents": [{"content": MOON, "source": "a"}, {"content": MARS, "source": "b"}]},
        {"matches": [{"id": "a", "metadata": {"text": MOON}}, {"id": "b", "metadata": {"text": MARS}}]},
        {"ids": [["a", "b"]], "documents": [[MOON, MARS]], "metadatas": [[{}, None]], "distances": [[0.1, 0.2]]},
    ],
)
def test_passages_prove_a_retrieval_by_themselves(value: Any) -> None:
    """A text with what only passages have beside it."""
    assert texts(retrieved(value, "output")) == [MOON, MARS]


@pytest.mark.parametrize(
    "value",
    [
        [{"text": "The Moon is far.", "supported": True}],
        [{"type": "text", "text": MOON, "id": "a"}],
        [{"role": "assistant", "content": MOON}],
        {"answer": "Far.", "documents": [{"id": "a", "text": MOON}]},
        [MOON, MARS],
        [],
        {"rows": [{"x": 1}]},
        MOON,
        None,
    ],
)
def test_what_might_be_something_else_proves_nothing(value: Any) -> None:
    """Claims, parts of messages, messages, an answer with its sources, texts, nothing at all."""
    assert retrieved(value, "output") is None


def test_texts_are_passages_where_a_query_was_asked_or_the_name_says_so() -> None:
    """Queries made of a query are none, and names are not texts."""
    assert texts(retrieved([MOON, MARS], "output", asked=True)) == [MOON, MARS]
    assert texts(retrieved(["The Moon.", "So far."], "output", named=True)) == ["The Moon.", "So far."]
    assert retrieved([MOON, f"{MARS[:-1]}?"], "output", asked=True) is None
    assert retrieved(["a.pdf", "b.pdf"], "output", named=True) is None


def test_nothing_found_is_a_finding_only_of_a_retriever() -> None:
    """An empty list of anything else is an empty list."""
    assert retrieved([], "output", named=True) == ()
    assert retrieved({"documents": []}, "output") == ()
    assert retrieved({"results": []}, "output") is None


def test_a_retriever_gives_back_documents_or_a_text_or_what_is_not_known() -> None:
    """One document stands for a list of one; parts of a message are its text."""
    assert texts(given_back({"page_content": MOON, "metadata": {}}, "output")[0]) == [MOON]
    assert given_back(MOON, "output") == (None, MOON)
    assert given_back([{"type": "text", "text": MOON}], "output") == (None, MOON)
    assert given_back({"foo": 1}, "output") == (None, None)
    assert given_back(["a.pdf"], "output") == (None, None)
    assert texts(given_back({"documents": [MOON], "messages": []}, "output")[0]) == [MOON]


def test_sources_by_name_are_not_the_passages_handed_over() -> None:
    """An answer's sources may be ids, and ids stand in prompts too."""
    assert handed({"answer": "Far.", "sources": ["moon", "mars"]}, "output") == ({}, None)
    assert texts(handed({"question": "How far?", "docs": [MOON]}, "input")[1]) == [MOON]
    assert handed({"question": "How far?", "context": MOON}, "input")[0]["context"].value == MOON
    assert handed({"question": "How far?"}, "input") == ({}, None)


def test_a_vector_store_s_columns_are_documents() -> None:
    """With their ids and what is known of each."""
    found = documents({"ids": [["a"]], "documents": [[MOON]], "metadatas": [[{"source": "x"}]]}, "output")

    assert found is not None
    assert (found[0].id, found[0].metadata) == ("a", {"source": "x"})


@given(value=VALUES, named=st.booleans(), asked=st.booleans())
def test_no_value_breaks_it(value: Any, named: bool, asked: bool) -> None:  # noqa: FBT001 - drawn
    """Whatever a step gives back."""
    retrieved(value, "x", named=named, asked=asked)
    given_back(value, "x")
    handed(value, "x")
    asks(value)
