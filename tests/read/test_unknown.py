"""A context is the whole of what an answer could lean on, or a gap: what told nothing, failed or came too late."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from groundtrace.model import Record, Span
from spans import MARS, MOON, PROMPT, VENUS, call, listed, one, span, talk

QUESTION = "How far is the Moon?"
ROOT = span("s0", "CHAIN", Q=QUESTION, A="Far.")
NONE_FOUND = {"output.value": "[]", "output.mime_type": "application/json"}


def called(*told: tuple[str, str | None], ids: bool = True) -> dict[str, Any]:
    """A conversation in which tools of these names were called, and answered with these texts if with any."""
    held: dict[str, Any] = {}
    for n, (name, _) in enumerate(told):
        where = f"llm.input_messages.1.message.tool_calls.{n}.tool_call"
        held |= {"llm.input_messages.1.message.role": "assistant", f"{where}.function.name": name}
        held |= {f"{where}.function.arguments": "{}"} | ({f"{where}.id": f"c{n}"} if ids else {})
    for n, (_, result) in enumerate(told):
        where = f"llm.input_messages.{n + 2}.message"
        if result is not None:
            held |= {f"{where}.role": "tool", f"{where}.content": result}
            held |= {f"{where}.tool_call_id": f"c{n}"} if ids else {}
    return held


def asked(*steps: Span, also: dict[str, Any] | None = None) -> Record:
    """The record of a question that is the whole prompt, after these steps."""
    return one(ROOT, *steps, call("s9", "s0", prompt=QUESTION, also=also or {}))


def reason(made: Record, field: str = "context") -> str | None:
    """Why the context is not known; None where it is."""
    gap = made.gap(field)
    assert field != "context" or gap is None or made.context == ()
    return gap.reason if gap is not None else None


def test_an_empty_retrieval_excuses_none_that_told_nothing_or_failed() -> None:
    """And a prompt that is not there to see may hold what was found elsewhere."""
    empty = span("s1", "RETRIEVER", "s0", held=NONE_FOUND)
    masked = one(ROOT, empty, call("s2", "s0", prompt="__REDACTED__"))

    assert (asked(empty).context, reason(asked(empty))) == ((), None)
    assert reason(asked(empty, span("s2", "RETRIEVER", "s0"))) == "content_off"
    assert reason(asked(replace(empty, status="error"))) == "error"
    assert reason(asked(empty, span("s2", "RETRIEVER", "s0", status="error"))) == "error"
    assert reason(masked) == "masked"


def test_a_step_that_told_nothing_leaves_the_context_open() -> None:
    """Be it a retriever, a tool, or one that lost all it held; one that failed gave nothing to lean on."""
    found, ran = span("s1", "RETRIEVER", "s0", held=listed(MARS)), span("s1", "TOOL", "s0", A=MARS)
    silent, idle = span("s2", "RETRIEVER", "s0"), span("s2", "TOOL", "s0", Q="moon")

    assert [reason(asked(found, s)) for s in (silent, idle)] == ["content_off", "content_off"]
    assert reason(asked(found, replace(silent, dropped=40))) == "truncated"
    assert reason(asked(ran, idle)) == "content_off"
    for step in (silent, idle):
        assert [p.text for p in asked(found, replace(step, status="error")).context] == [MARS]


def test_a_step_that_told_nothing_is_told_by_one_around_it_or_inside_or_after_or_by_the_prompt() -> None:
    """The prompt is what the model was shown."""
    found = span("s2", "RETRIEVER", "s1", held=listed(MARS, MOON))
    around = asked(span("s1", "TOOL", "s0", Q="moon"), found)
    inside = asked(span("s1", "TOOL", "s0", A=MARS), span("s2", "RETRIEVER", "s1"))
    kept = {"reranker.output_documents.0.document.content": MARS}
    after = asked(span("s1", "RETRIEVER", "s0"), span("s2", "RERANKER", "s0", held=kept))
    shown = one(ROOT, span("s1", "RETRIEVER", "s0"), span("s2", "TOOL", "s0"), call("s3", "s0", prompt=PROMPT))

    assert [[p.text for p in made.context] for made in (around, inside, after, shown)] == [
        [MARS, MOON],
        [MARS],
        [MARS],
        [MARS, MOON],
    ]


@pytest.mark.parametrize("ids", [True, False])
def test_each_call_of_a_tool_needs_its_answer(ids: bool) -> None:  # noqa: FBT001
    """One without leaves the context open; one that hands over, or failed, needs none."""
    half = asked(also=called(("search", MARS), ("search", None), ids=ids))
    whole = asked(also=called(("search", MARS), ("search", MOON), ids=ids))
    handed = asked(also=called(("search", MARS), ("transfer_to_faq", None), ids=ids))

    assert reason(half) == "content_off"
    assert [p.text for p in whole.context] == [MARS, MOON]
    assert [p.text for p in handed.context] == [MARS]


@pytest.mark.parametrize("nothing", ["[]", "{}", "null", '{"documents": []}'])
def test_an_empty_result_of_a_tool_is_no_passage(nothing: str) -> None:
    """It is a search that found nothing."""
    for made in (asked(also=called(("search", nothing))), asked(span("s1", "TOOL", "s0", A=nothing))):
        assert (made.context, made.gaps) == ((), ())
    assert [p.text for p in asked(also=called(("search", nothing), ("search", MOON))).context] == [MOON]


def test_what_failed_or_handed_over_is_no_passage() -> None:
    """Whether its words stand in the tool's span or in the prompt."""
    words = "Error: connection timed out"
    failed = span("s1", "TOOL", "s0", A=words, status="error")
    raised = span("s1", "TOOL", "s0", status="error", status_message="connection timed out")
    named = span("s1", "TOOL", "s0", status="error", held={"tool_call.id": "c0"})

    assert reason(asked(failed)) == "error"
    assert [p.text for p in asked(failed, span("s2", "TOOL", "s0", A=MARS)).context] == [MARS]
    for step in (failed, raised, named):
        assert [p.text for p in asked(step, also=called(("search", words), ("search", MOON))).context] == [MOON]
    handed = '{"assistant": "FAQ"}'
    assert [p.text for p in asked(also=called(("transfer_to_faq", handed), ("search", MOON))).context] == [MOON]
    step = span("s1", "TOOL", "s0", A=handed, held={"tool.name": "transfer_to_faq"})
    assert [p.text for p in asked(step, span("s2", "RETRIEVER", "s0", held=listed(MARS))).context] == [MARS]


def test_a_search_after_the_answer_is_no_part_of_its_context() -> None:
    """Unless what answered is not in the trace, or comes after it."""
    first, late = (span(f"s{n}", "RETRIEVER", "s0", held=listed(text)) for n, text in ((1, MOON), (3, MARS)))
    plain = call("s2", "s0", prompt=QUESTION)
    worded = call("s2", "s0", prompt=QUESTION, told="distance of the Moon")

    assert [p.text for p in one(ROOT, first, plain, late).context] == [MOON]
    assert [p.text for p in one(ROOT, worded, late).context] == [MARS]
    assert [p.text for p in one(ROOT, worded, late, call("s4", "s0", prompt=QUESTION)).context] == [MARS]
    within = span("s3", "RETRIEVER", "s2", held=listed(MARS))
    assert [p.text for p in one(ROOT, plain, within).context] == [MARS]


def test_what_was_retrieved_for_another_call_is_no_part_of_the_context() -> None:
    """Examples for the call that words the search, say; what was made of it for the answer is one."""
    example, found = (span(f"s{n}", "RETRIEVER", "s0", held=listed(text)) for n, text in ((1, VENUS), (3, MOON)))
    worded = call("s2", "s0", prompt=f"Reword as in: {VENUS} {QUESTION}", told="distance of the Moon")
    final = call("s4", "s0", prompt=QUESTION)
    drafted = call("s4", "s0", prompt="Say it shortly: distance of the Moon")

    assert [p.text for p in one(ROOT, example, worded, found, final).context] == [MOON]
    assert reason(one(ROOT, example, worded, final)) == "not_instrumented"
    assert [p.text for p in one(ROOT, example, worded, drafted).context] == [VENUS]


def test_a_masked_result_is_not_pieced_together_from_where_it_leaked() -> None:
    """A tool's, in its span or in the prompt; the prompt's own named context; the prompt that held the passages."""
    hidden, found = span("s1", "TOOL", "s0", A="__REDACTED__"), span("s2", "RETRIEVER", "s0", held=listed(MOON))
    named = {"llm.prompt_template.variables": '{"context": "__REDACTED__", "question": "How far is the Moon?"}'}

    assert reason(asked(hidden, also=called(("search", MOON)))) == "masked"
    assert reason(asked(hidden, found)) == "masked"
    assert reason(asked(span("s1", "TOOL", "s0", A=MOON), also=called(("search", "__REDACTED__")))) == "masked"
    assert reason(one(ROOT, found, call("s3", "s0", also=named))) == "masked"
    assert reason(one(ROOT, found, call("s3", "s0", prompt="__REDACTED__"))) == "masked"
    shown = talk(("system", f"Documents:\n[1] {MOON}\n\n[2] {MARS}"), ("user", "__REDACTED__"))
    assert [p.text for p in one(ROOT, found, call("s3", "s0", prompt=None, also=shown)).context] == [MOON, MARS]


def test_a_damaged_prompt_that_shows_no_passages_leaves_the_markers_open() -> None:
    """The retriever's order is not the prompt's until something confirms it."""
    found = span("s1", "RETRIEVER", "s0", held=listed(MOON, MARS))
    prompt = f"Facts: {MARS} {MOON} How far?".replace("i", "\ufffd")
    notes = ("span s2: bytes that are no UTF-8 were replaced by U+FFFD",)
    made = one(span("s0", "CHAIN", Q=QUESTION), found, call("s2", "s0", prompt=prompt, told="Far [1]."), notes=notes)

    assert [p.text for p in made.context] == [MOON, MARS]
    assert reason(made, "citations") == "damaged"
    assert [c.passage_id for c in made.citations] == [None]
