"""Requests that summarise one text: told apart from answers, cautiously."""

from __future__ import annotations

import json
from typing import Any

import pytest

from groundtrace.model import Record, Ref, Trace
from groundtrace.read import read
from spans import CONVENTIONS, MOON, call, listed, span

ARTICLE = (
    "The harbour council met on Monday to decide on the new ferry. It will carry 300 people and 40 cars, and it will "
    "leave every hour from May on. The old ferry, built in 1962, goes to a museum on the northern island. A ticket "
    "costs 4 euros, as before; children under 6 travel free of charge."
)
SUMMARY = "A new ferry for 300 people leaves hourly from May on."


def made(prompt: str, told: str = SUMMARY, **more: Any) -> Record:
    """The record of one call with this prompt."""
    kind = more.pop("kind", "auto")
    spans = (*more.pop("beside", ()), call("s9", told=told, prompt=prompt, **more))
    (record,) = read(Trace(Ref("otel", trace_id="t"), spans), CONVENTIONS, kind=kind)
    return record


@pytest.mark.parametrize(
    "prompt",
    [
        f"Summarize the following article:\n\n{ARTICLE}",
        f"Summarise this text in one sentence.\n\nText:\n{ARTICLE}",
        f"Write a concise summary of the following:\n\n\n{ARTICLE}\n\n\nCONCISE SUMMARY:",
        f'Give me a short summary.\n\n"""{ARTICLE}"""',
        f"Please provide a brief summary of the document below.\n<document>{ARTICLE}</document>",
        f"Condense it for a newsletter.\n\n---\n{ARTICLE}\n---",
        f"Fasse den folgenden Text zusammen:\n\n{ARTICLE}",
        f"TL;DR\n\nArticle: {ARTICLE}",
    ],
)
def test_a_prompt_that_asks_for_a_summary_gives_one(prompt: str) -> None:
    """The text alone is the context; a summary has no query and no gap for it."""
    record = made(prompt)
    assert record.kind == "summary"
    assert [p.text for p in record.context] == [ARTICLE]
    assert (record.query, record.answer) == (None, SUMMARY)
    assert record.gaps == ()


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        (f"Answer from the text.\n\n{ARTICLE}", SUMMARY),
        (f"Documents:\n[1] {ARTICLE}\n\n[2] {MOON}\n\nQuestion: Summarise the ferry's timetable.", SUMMARY),
        (f"Context:\n{ARTICLE}\n\nQuestion: Can you summarise it?", SUMMARY),
        ("Summarize the following article:\n\nToo short.", "Short."),
        (f"Summarize the following article:\n\n{ARTICLE}", ARTICLE + " And more of it, which no summary is."),
        (f"Translate into German.\n\n{ARTICLE} The council will summarise its talks.", SUMMARY),
        ("Summarise what you know of ferries.", SUMMARY),
        (f"Please review my resume for the ferry company.\n\n{ARTICLE}", SUMMARY),
        (f"Answer from the article. Do not summarize it.\n\nArticle:\n{ARTICLE}", SUMMARY),
        (f"Summarise it and answer.\n\nArticle:\n{ARTICLE}\n\nHow many people does it carry?", SUMMARY),
        (f"Write an abstract class for this.\n\n{ARTICLE}", SUMMARY),
        (f"Return JSON with the keys topic, urgency and summary.\n\n{ARTICLE}", SUMMARY),
    ],
)
def test_what_is_not_sure_stays_an_answer(prompt: str, told: str) -> None:
    """Other instructions, questions, several passages, a text too short, a reply that is longer."""
    assert made(prompt, told).kind == "answer"


def test_what_was_retrieved_is_answered_from() -> None:
    """A retriever in the trace: the question may well say "summarise"."""
    beside = (span("s1", "RETRIEVER", Q="Summarise", held=listed(ARTICLE)),)
    assert made(f"Summarize the following article:\n\n{ARTICLE}", beside=beside).kind == "answer"


def test_a_variable_of_the_prompt_is_the_text() -> None:
    """LangChain's prompt template tells it apart; the instruction may be anywhere in the prompt."""
    prompt = f"{ARTICLE}\n\nSummarize the text above in one sentence."
    given = json.dumps({"text": ARTICLE})
    template, chain = span("s1", "PROMPT", "s0", Q=given), span("s0", "CHAIN", Q=given, A=SUMMARY)
    record = made(prompt, beside=(chain, template), parent="s0")
    assert (record.kind, [p.text for p in record.context], record.answer) == ("summary", [ARTICLE], SUMMARY)


def test_the_detector_can_be_turned_off_and_forced() -> None:
    """`kind` is the user's word."""
    prompt = f"Summarize the following article:\n\n{ARTICLE}"
    assert made(prompt, kind="answer").kind == "answer"
    forced = made(f"Newsletter, please.\n\n{ARTICLE}", kind="summary")
    assert (forced.kind, [p.text for p in forced.context]) == ("summary", [ARTICLE])
    whole = made(ARTICLE, kind="summary")
    assert (whole.kind, [p.text for p in whole.context]) == ("summary", [ARTICLE])
    masked = made("__REDACTED__", kind="summary")
    assert [(g.field, g.reason) for g in masked.gaps] == [("context", "masked")]
