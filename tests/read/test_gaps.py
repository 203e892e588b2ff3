"""What a limit cut or a setting left out is a gap with its remedy, and never read as whole."""

from __future__ import annotations

import json

from groundtrace.model import Log, Record, Span
from spans import MARS, MOON, VENUS, call, listed, one, span


def test_a_passage_cut_at_a_limit_is_a_gap() -> None:
    """Many values end at one length, amid a word: what has that length is not whole."""
    cut = 60
    texts = [f"{MOON} {VENUS}"[:cut], f"{MARS} {VENUS} {MOON}"[:cut]]
    root = span("s0", "CHAIN", Q="How far?", A="Far.", held={"metadata": json.dumps({"session": "x" * 90})[:cut]})
    made = one(root, span("s1", "RETRIEVER", "s0", held=listed(*texts)))

    gap = made.gap("context")
    assert made.context == ()
    assert gap is not None
    assert gap.reason == "truncated"
    assert "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT" in gap.remedy


def test_chunks_of_one_size_are_not_taken_for_a_limit() -> None:
    """Splitters cut texts evenly, in one attribute; a limit cuts them all."""
    chunks = [f"{MOON} {VENUS} {MARS}"[n : n + 60] for n in range(3)]
    made = one(span("s0", "CHAIN", Q="How far?", A="Far."), span("s1", "RETRIEVER", "s0", held=listed(*chunks)))

    assert [p.text for p in made.context] == chunks


def test_a_span_that_lost_attributes_is_not_read_as_whole() -> None:
    """What is left of its lists may be half of them; the remedy names the limit."""
    root = span("s0", "CHAIN", Q="How far?", A="Far.")
    retrieved = one(root, span("s1", "RETRIEVER", "s0", held=listed(MOON), dropped=3))
    generated = one(root, call("s1", "s0", dropped=7, told=None, prompt=None))

    for made, field in ((retrieved, "context"), (generated, "answer")):
        gap = made.gap(field)
        assert gap is not None
        assert gap.reason == "truncated"
        assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in gap.remedy


def test_a_cut_prompt_leaves_the_markers_open_unless_it_still_shows_the_order() -> None:
    """The retriever's order is not the prompt's until something confirms it."""
    prompt = f"Facts: {MARS} {MOON} {VENUS} " + "and so on " * 30
    held = {"llm.input_messages.0.message.content": prompt[:200], "metadata": ("{" + "x" * 300)[:200]}

    def answered(*texts: str) -> Record:
        retriever = span("s1", "RETRIEVER", "s0", held=listed(*texts))
        return one(
            span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", told="Far [1].", prompt=None, also=held)
        )

    confirmed, open_ended = answered(MARS, MOON), answered(VENUS, MOON, MARS)

    assert [c.passage_id for c in confirmed.citations] == [confirmed.context[0].id]
    assert [c.passage_id for c in open_ended.citations] == [None]
    gap = open_ended.gap("citations")
    assert gap is not None
    assert gap.reason == "truncated"


def test_a_cut_input_that_still_shows_the_whole_question_is_enough() -> None:
    """What is left of it holds the words another place says; a part of a cut question is no question."""
    whole = span("s0", "CHAIN", Q='{"question": "How far is the Moon?", "history": ["and so o', A="Far.")
    torn = span("s0", "CHAIN", Q='{"question": "How far is the Moon and', A="Far.")
    search = span("s1", "RETRIEVER", "s0", Q="How far is the Moon?", held=listed(MOON))
    words = span("s1", "RETRIEVER", "s0", Q="the Moon", held=listed(MOON))

    assert one(whole, search).query == "How far is the Moon?"
    gap = one(torn, words).gap("query")
    assert gap is not None
    assert gap.reason == "truncated"


def test_halves_of_characters_are_a_gap() -> None:
    """A source that had to put U+FFFD for them says so on the trace."""
    spans = span("s0", "CHAIN", Q="How far?", A="Far \ufffd"), span("s1", "RETRIEVER", "s0", held=listed(MOON))
    note = "span s0: text that is no Unicode was replaced by U+FFFD"

    assert one(*spans).answer == "Far \ufffd"
    gap = one(*spans, notes=(note,)).gap("answer")
    assert gap is not None
    assert gap.reason == "truncated"


def test_content_that_is_off_is_said_to_be_off_with_the_setting() -> None:
    """For each field it hides."""
    silent = Span(
        "s0",
        "t",
        scope="opentelemetry.instrumentation.genai.openai",
        attributes={"gen_ai.operation.name": "chat"},
        logs=(Log("gen_ai.choice", {"index": 0}),),
    )
    made = one(silent)

    assert {(g.field, g.reason) for g in made.gaps} == {(f, "content_off") for f in ("query", "context", "answer")}
    assert all("SPAN_ONLY" in g.remedy for g in made.gaps)
