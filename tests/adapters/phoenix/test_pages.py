"""Phoenix's own pages in a browser, with our scores and labels on them. Pictures are left to be looked at."""

from __future__ import annotations

import re

import pytest

import browser
from groundtrace.adapters.phoenix.sink import PhoenixSink
from groundtrace.memory import InMemory
from groundtrace.model import Review
from groundtrace.plan import Plan
from groundtrace.run import run

from .conftest import Desk
from .test_sink import RUBRICS, card

WIDE = """(() => {
  const table = document.querySelector('table');
  for (const name of [...table.style]) if (/nnotations-size/.test(name)) table.style.setProperty(name, 560);
})()"""
"""Makes the columns of annotations wider, as a hand does that drags their edge."""


def shows(page: browser.Page, name: str, value: str) -> bool:
    """Whether a value stands beside a name, with nothing between them but what a screen reader says of it."""
    flat = re.sub(r"\s+", " ", page.text.replace("\xa0", " "))
    said = r"(?:(?:Favorable|Neutral|Unfavorable) score: )?"
    return re.search(rf"\b{re.escape(name)} {said}{re.escape(value)}", flat) is not None


@pytest.fixture
def judged(desk: Desk) -> Desk:
    """A project whose traces were scored: one by the offline judge, one that could not be judged, one held back."""
    well, failed, waiting = desk.send(3, session=f"s-{desk.project}")
    desk.trace, desk.llm, desk.retriever = well.trace, well.llm, well.retriever
    plan = Plan(sources={"use": "phoenix", "argument": desk.project, "ids": [well.trace]}, rubrics=RUBRICS, sample=1.0)
    run(plan, memory=InMemory())
    broke = {"status": "unscored", "reason": "judge_failed", "scores": (), "details": {"rationale": "no JSON, twice"}}
    held = {"status": "pending_review", "review": (Review(reason="figure_corrected"),)}
    cards = [card(failed, desk).model_copy(update=broke), card(waiting, desk).model_copy(update=held)]
    list(PhoenixSink(desk.project).write(cards))
    return desk


def test_a_trace_shows_its_scores(judged: Desk) -> None:
    """In its head, under its spans, and on the span itself; every colour by our own configs."""
    page = browser.look(
        f"{judged.url}/redirects/traces/{judged.trace}",
        "phoenix-trace",
        wait=["source_support", "chat tiny-1", "How tall is the Eiffel Tower"],
        settle=4,
    )
    assert shows(page, "source_support", "μ 3.50")
    assert shows(page, "min_source_support", "μ 2.00")
    assert shows(page, "abstention", "not_assessed")
    assert "Favorable score" in page.text
    assert "Unfavorable score" in page.text
    assert not page.strays


def test_an_answer_shows_all_of_them(judged: Desk) -> None:
    """On the span of the model's call, with a form to annotate by the same scales."""
    page = browser.look(
        f"{judged.url}/redirects/spans/{judged.llm}",
        "phoenix-answer",
        wait=["claim_support", "Messages"],
        tap=["Annotations"],
        size=(1800, 1500),
        settle=4,
    )
    for name, value in (("claim_support", "3.00"), ("citation_precision", "0.50"), ("source_support", "3.50")):
        assert shows(page, name, f"μ {value}")
    assert "from 1 to 5" in page.text


def test_the_table_shows_them_and_why_there_are_none(judged: Desk) -> None:
    """Of the request's span and of the trace, and in the chart above."""
    project = judged.id
    page = browser.look(
        f"{judged.url}/projects/{project}/traces",
        "phoenix-table",
        wait=["rag_query", "trace annotations"],
        script=WIDE,
        size=(2800, 800),
        settle=3,
    )
    table = page.html[page.html.index("<table") :]
    assert table.count("source_support") >= 6, "three traces, each on its span and as a whole"
    for said in ("3.50", "needs_review", "unscored"):
        assert said in table
    assert "Trace annotation scores" in page.text


def test_documents_show_what_they_back(judged: Desk) -> None:
    """Label, number and reason under each passage, and Phoenix's own metrics of retrieval."""
    page = browser.look(
        f"{judged.url}/redirects/spans/{judged.retriever}",
        "phoenix-documents",
        wait=["Directly Supports", "Weakly Related", "not_assessed"],
        size=(1800, 2400),
        settle=4,
    )
    assert "nearly word for word" in page.text
    assert "no claim of the answer was held against this passage" in page.text
    assert "unsupported" in page.text


def test_a_session_shows_the_mean_of_its_turns(judged: Desk) -> None:
    """Under the rubric's own name."""
    page = browser.look(
        f"{judged.url}/redirects/sessions/s-{judged.project}", "phoenix-session", wait=["source_support"], settle=4
    )
    assert "μ 3.50" in page.text.replace("\xa0", " ")
