"""What a limit cut or a setting left out is a gap with its remedy, and never read as whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from groundtrace.conventions.paths import declare
from groundtrace.model import Gap, Log, Record, Ref, Span, Trace
from groundtrace.read import read, record
from groundtrace.read.gaps import Reason, unreadable
from spans import MARS, MOON, PROMPT, VENUS, call, found, listed, one, span

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
SETTINGS = {
    "content_off": (CAPTURE, "retrieval.documents.N.document.content"),
    "masked": ("OPENINFERENCE_HIDE_",),
    "truncated": ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"),
    "damaged": ("between characters", "as UTF-8"),
    "elsewhere": ("NAME.logs.jsonl", "OTEL_INSTRUMENTATION_GENAI_COMPLETION_HOOK"),
    "not_instrumented": ("instrument the", "input.value", "[conventions.NAME]"),
    "no_request": ("trace the whole request",),
    "error": ("nothing to judge",),
    "no_answer": ("under one root span",),
    "ambiguous_answer": ("as the output of the request's span",),
    "ambiguous_numbering": ("number the passages",),
    "not_given": ("give the record its",),
    "malformed": ("give a text",),
    "not_found": ("mend conventions.mine.",),
    "unreadable": ("--verbose",),
    "still_growing": ("run again",),
}
"""Each reason a field can be missing for, and what its remedy may name: a setting, an attribute or a thing to do."""


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


DAMAGED = "span {}: text that is no Unicode was replaced by U+FFFD"
NO_UTF8 = "span {}: bytes that are no UTF-8 were replaced by U+FFFD"


@pytest.mark.parametrize(("note", "remedy"), [(DAMAGED, "halves of characters"), (NO_UTF8, "write it as UTF-8")])
def test_lost_characters_are_a_gap_of_the_answer_or_the_passages_they_stood_in(note: str, remedy: str) -> None:
    """A source that put U+FFFD says on the trace for which span; without a word of it the text is as it was written."""
    answered = (
        span("s0", "CHAIN", Q="How \ufffd far?", A="Far \ufffd."),
        span("s1", "RETRIEVER", "s0", held=listed(MOON)),
    )
    held = listed(f"{MOON} \ufffd", MARS)
    retrieved = span("s0", "CHAIN", Q="How far?", A="Far."), span("s1", "RETRIEVER", "s0", held=held)

    for spans, ident, field in ((answered, "s0", "answer"), (retrieved, "s1", "context")):
        assert one(*spans).gaps == one(*spans, notes=(note.format("s9"),)).gaps == ()
        (gap,) = one(*spans, notes=(note.format(ident),)).gaps
        assert (gap.field, gap.reason) == (field, "damaged")
        assert remedy in gap.remedy


def test_lost_characters_elsewhere_leave_a_record_whole() -> None:
    """In the question, the instructions, or another request's passage."""
    prompt = f"Be brie\ufffd.\n\n{PROMPT}"
    asked = span("s0", "CHAIN", Q="How far is \ufffd Moon?"), call("s1", "s0", prompt=prompt)
    made = one(*asked, notes=(DAMAGED.format("s0"), DAMAGED.format("s1")))
    half = one(
        span("s0", "CHAIN", Q="How far is \ud800 Moon?"), call("s1", "s0", prompt=prompt.replace("\ufffd", "\ud800"))
    )

    for whole in (made, half):
        assert (whole.gaps, whole.query) == ((), "How far is \ufffd Moon?")
        assert [p.text for p in whole.context] == [MARS, MOON]

    two = [
        (span(f"s{n}", "CHAIN", Q="How far?", A="Far."), span(f"s{n + 1}", "RETRIEVER", f"s{n}", held=listed(text)))
        for n, text in ((0, f"{MOON} \ufffd"), (2, MARS))
    ]
    calls = [call(f"s{n + 10}", f"s{n}", prompt=None) for n in (0, 2)]
    first, second = found(*two[0], *two[1], *calls, notes=(DAMAGED.format("s1"),))
    assert ([g.field for g in first.gaps], second.gaps) == (["context"], ())


def test_a_passage_that_lost_characters_in_the_prompt_makes_the_context_a_gap() -> None:
    """The prompt is what the model was shown."""
    prompt = PROMPT.replace("Roman", "Rom\ufffdn")
    made = one(span("s0", "CHAIN", Q="How far?"), call("s1", "s0", prompt=prompt), notes=(DAMAGED.format("s1"),))

    assert [(g.field, g.reason) for g in made.gaps] == [("context", "damaged")]
    assert made.context == ()


def test_a_mask_in_a_damaged_text_stays_a_mask() -> None:
    """What a user masked is not judged for a lost character beside it."""
    made = one(
        span("s0", "CHAIN", Q="How far?", A="Far \ud800 [REDACTED]."), span("s1", "RETRIEVER", "s0", held=listed(MOON))
    )

    assert [(g.field, g.reason) for g in made.gaps] == [("answer", "masked")]


def test_a_ready_made_record_is_whole_where_only_its_question_lost_characters() -> None:
    """The answer and the passages are what is judged."""

    def filed(**fields: Any) -> Record:
        held = {"query": "How far?", "context": [MOON, MARS], "answer": "Far.", **fields}
        (made,) = found(Span("s0", "t", attributes={"groundtrace.record": held}), notes=(NO_UTF8.format("s0"),))
        return made

    assert filed(query="How \ufffd?").gaps == ()
    for field, held in (("answer", "Far \ufffd."), ("context", [MOON, "Mars \ufffd"])):
        made = filed(**{field: held})
        assert [(g.field, g.reason) for g in made.gaps] == [(field, "damaged")]
        assert not getattr(made, field)
        assert "write it as UTF-8" in made.gaps[0].remedy


@pytest.mark.parametrize("name", ["app.prompt", "prompt", "aim.prompt", "generation.prompt"])
def test_a_vocabulary_that_is_not_understood_is_told_what_to_do_about(name: str) -> None:
    """Whose spans they are, what is understood, and the mapping that would help."""
    made = one(Span("s0", "t", scope="apollo.app", attributes={name: "How far?"}))

    for gap in made.gaps:
        assert "genai, " in gap.remedy
        assert "record, " in gap.remedy
        assert "; 1 span (of apollo.app) in another vocabulary or none" in gap.remedy
        assert "[conventions.NAME] in a plan (docs/plan.md)" in gap.remedy


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


def _every_gap() -> Iterator[Gap]:
    """The gaps of traces that are each broken in another way."""
    bare = {"gen_ai.operation.name": "chat"}
    asks = {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search"}
    tools = [
        span(f"s{n}", "TOOL", "s0", A=f"[1] {text}\n\n[2] {VENUS} {n}", held={"tool.name": f"t{n}"})
        for n, text in enumerate((MOON, MARS), start=1)
    ]
    genai = "opentelemetry.instrumentation.genai.openai"
    traces = [
        [Span("s0", "t", scope=genai, attributes=bare)],
        [Span("s0", "t", scope="gcp.vertex.agent", attributes=bare)],
        [Span("s0", "t", scope=genai, attributes={**bare, "gen_ai.input.messages_ref": "s3://b/1"})],
        [span("s0", "CHAIN", Q="__REDACTED__", A="__REDACTED__")],
        [span("s0", "CHAIN", Q="How far?", A="Far."), span("s1", "RETRIEVER", "s0", held=listed(MOON), dropped=3)],
        [
            span("s0", "CHAIN", Q="How far?", A="Far."),
            span("s1", "RETRIEVER", "s0", held={"output.value": '[{"id": "a"}]'}),
        ],
        [span("s0", "CHAIN", Q="How far?", A="Far."), span("s1", "RETRIEVER", "s0", Q="far")],
        [span("s0", "CHAIN", A="Far.")],
        [span("s0", "CHAIN", Q="How far?", status="error", status_message="no route")],
        [call("s0", status="error", told=None, prompt="How far?")],
        [call("s0", told=None, prompt="How far?")],
        [call("s0", told=None, also=asks)],
        [span("s0", "CHAIN", Q="How far?"), call("s1", "s0", told="Far."), call("s2", "s0", told="Very far.")],
        [span("s0", "AGENT", Q="How far?", A="Far [1]."), *tools],
        [span("s0", "EMBEDDING")],
        [Span("s0", "t", scope="mlflow", attributes={"a": 1})],
    ]
    records = [made for spans in traces for made in found(*spans)]
    records += [one(span("s0", "CHAIN", Q="How far?", A="\ufffd"), notes=("span s0: was replaced by U+FFFD",))]
    records += [one(span("s0", "CHAIN", Q="How far?", A="\ufffd"), notes=(NO_UTF8.format("s0"),))]
    records += found(Span("s0", "t", attributes={"groundtrace.record": {"answer": 5}}))
    records += [record(None, None, None), record(None, None, None, kind="summary")]
    mine = declare([{"name": "mine", "spans": {"name": "*"}, "query": "q", "answer": "a", "context": "d"}])
    records += read(Trace(Ref("otel", trace_id="t"), (Span("s0", "t"),)), mine)
    yield from (gap for made in records for gap in made.gaps)
    yield from (*unreadable(), *unreadable(growing=True))


def test_every_reason_comes_with_a_remedy_that_names_what_to_change() -> None:
    """A gap nobody can do anything about is half a gap."""
    gaps = list(_every_gap())

    assert {gap.reason for gap in gaps} == set(get_args(Reason)) == set(SETTINGS)
    for gap in gaps:
        assert any(setting in gap.remedy for setting in SETTINGS[gap.reason]), gap
    named = {setting for settings in SETTINGS.values() for setting in settings}
    assert {setting for setting in named if any(setting in gap.remedy for gap in gaps)} == named


def test_the_capture_setting_is_told_with_all_its_values() -> None:
    """A value that is not one of them switches capture off without a word."""
    bare = Span(
        "s0", "t", scope="opentelemetry.instrumentation.genai.openai", attributes={"gen_ai.operation.name": "chat"}
    )
    remedies = {gap.remedy for gap in one(bare).gaps}

    for value in ("NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT"):
        assert all(value in remedy for remedy in remedies)


@pytest.mark.parametrize("size", [512, 510, 4096])
def test_an_answer_cut_at_a_usual_limit_is_a_gap_by_itself(size: int) -> None:
    """It stands alike in two places, is the longest value of the trace, and ends amid a word at a usual length."""
    answer = ("The Moon is far [1] and it goes on. " * size)[: size - 4] + "dinn"

    made = one(span("s0", "CHAIN", Q="How far?", A=answer), call("s1", "s0", told=answer))

    gap = made.gap("answer")
    assert made.answer is None
    assert gap is not None
    assert gap.reason == "truncated"


def test_an_answer_of_any_other_length_or_end_is_whole() -> None:
    """Something longer in the trace, a sentence's end, a length no limit has, a passage of a splitter's size."""
    words = "The Moon is far [1] and it goes on. " * 60
    cut, ended, odd = f"{words[:508]}dinn", f"{words[:508]}end.", f"{words[:596]}dinn"
    chunk = span("s1", "RETRIEVER", "s0", held={**listed(cut), "metadata": cut})

    for answer in (ended, odd):
        assert one(span("s0", "CHAIN", Q="How far?", A=answer), call("s1", "s0", told=answer)).answer == answer
    longer = call("s1", "s0", told=cut, prompt=f"{PROMPT} {words}")
    assert one(span("s0", "CHAIN", Q="How far?", A=cut), longer).answer == cut
    assert [p.text for p in one(span("s0", "CHAIN", Q="How far?", A="Far."), chunk).context] == [cut]
