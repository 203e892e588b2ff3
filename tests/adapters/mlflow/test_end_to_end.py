"""From traces on a real MLflow to scores on its pages, by the whole river: again, by the command line, and back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from browser import look
from groundtrace.adapters.mlflow.api import Row
from groundtrace.memory import InMemory
from groundtrace.model import Score
from groundtrace.plan import Plan
from groundtrace.run import run
from groundtrace.store import open_store
from mlflow_house import House
from servers import Server, clean

TRACES = 8


@pytest.fixture
def house(mlflow_server: Server) -> House:
    """An experiment of its own."""
    return House(mlflow_server.url)


def plan(house: House, **told: Any) -> Plan:
    """A run over the experiment; its scores go home."""
    source = f"mlflow:{house.name},tracking_uri={house.url},settle=0"
    return Plan(**{"sources": source, "rubrics": "source_support", "sample": 1.0, "audit_rate": 0.0, **told})


def steady(rows: list[Row]) -> list[Row]:
    """Assessments in an order of their own."""
    return sorted(rows, key=lambda row: row["assessment_id"])


@pytest.mark.parametrize("style", ["openinference", "genai"])
def test_traces_are_scored_where_they_are_and_once(house: House, style: str) -> None:
    """Pulled, judged, written and read back; a run that remembers nothing finds all of it as it is."""
    ids = house.ask(TRACES, style)
    first = run(plan(house))
    assert (first.failed, first.traces) == ((), TRACES)
    (receipts,) = first.receipts.values()
    assert set(receipts) == {"written"}
    before = steady(house.rows(*ids))
    values = {row["trace_id"]: row["feedback"]["value"] for row in before if row["assessment_name"] == "source_support"}
    assert [values[trace_id] for trace_id in ids] == [5, 3] * (TRACES // 2)
    assert len({(row["trace_id"], row["assessment_name"]) for row in before}) == len(before) == receipts["written"]
    second = run(plan(house))
    (receipts,) = second.receipts.values()
    assert set(receipts) == {"unchanged"}
    assert steady(house.rows(*ids)) == before


def test_what_was_deleted_is_written_again(house: House) -> None:
    """A memory says that it was written; MLflow, that it is there no more."""
    ids = house.ask(2)
    memory = InMemory()
    source = f"mlflow:{house.name},tracking_uri={house.url},settle=0"
    plan = Plan(sources=source, rubrics="source_support", sample=1.0)
    (first,) = run(plan, memory=memory).receipts.values()
    gone = house.row(ids[0], "source_support")
    house.api.call("DELETE", f"/api/3.0/mlflow/traces/{ids[0]}/assessments/{gone['assessment_id']}")
    (second,) = run(plan, memory=memory).receipts.values()
    assert second == {"unchanged": first["written"] - 1, "written": 1}
    assert house.row(ids[0], "source_support")["feedback"] == gone["feedback"]


def test_a_complaint_brings_back_a_trace_that_was_passed_over(house: House) -> None:
    """Whatever the sample says, once."""
    ids = house.ask(4)
    memory = InMemory()
    assert run(plan(house, sample=0.0), memory=memory).traces == 0
    house.say(ids[2], "thumb", value=False)
    second = run(plan(house, sample=0.0), memory=memory)
    assert (second.traces, second.failed) == (1, ())
    scored = {row["trace_id"] for row in house.rows(*ids) if row["assessment_name"] == "source_support"}
    assert scored == {ids[2]}
    before = steady(house.rows(*ids))
    run(plan(house, sample=0.0), memory=memory)
    assert steady(house.rows(*ids)) == before


def command(house: House, folder: Path, *words: str) -> str:
    """What the command line printed; it has to end well."""
    env = clean() | {"MLFLOW_TRACKING_URI": house.url, "NO_COLOR": "1", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "groundtrace.cli", *words, "--store", str(folder / "s.db")],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_quiet_is_quiet(house: House, tmp_path: Path) -> None:
    """Which day was looked at is nothing that was lost."""
    spec = f"mlflow:{house.name},settle=0"
    assert "looked at 24 hours" in command(house, tmp_path, "run", spec)
    assert not command(house, tmp_path, "run", spec, "--quiet")


def test_what_is_not_over_is_no_record_of_a_kind(house: House, tmp_path: Path) -> None:
    """Nobody has read it yet."""
    house.ask(2)
    told = command(house, tmp_path, "run", f"mlflow:{house.name},settle=900", "--sample", "1")
    assert "2 traces read · 0 records · 2 not over yet" in told


def test_what_people_say_in_mlflow_decides_the_cards_here(house: House, tmp_path: Path) -> None:
    """Edited on MLflow's page, taken by `review --from`, and the next run leaves it as it is."""
    ids = house.ask(2)
    spec = f"mlflow:{house.name},settle=0"
    command(house, tmp_path, "run", spec, "--sample", "1", "--rubric", "source_support")
    house.edit(house.row(ids[1], "source_support"), 4, who="ada")
    said = command(house, tmp_path, "review", "--from", spec)
    assert "corrected by ada: source_support 4" in said
    assert "1 decision taken" in said
    with open_store(str(tmp_path / "s.db")) as store:
        (label,) = store.labels()
        card = store.card(label.card_id)
    assert (label.value, label.who) == (4, "ada")
    assert card is not None
    assert card.decided_by == "human"
    command(house, tmp_path, "run", spec, "--sample", "1", "--rubric", "source_support")
    row = house.row(ids[1], "source_support")
    assert (row["feedback"]["value"], row["source"]["source_id"]) == (4, "ada")


# --- on the pages -----------------------------------------------------------------------------------------------------


GOT_IT = "//button[normalize-space()='Got it']"
"""Closes a window that lies over the page."""

OPEN = "(//*[normalize-space(text())='{}'])[last()]/following::button[2]"
"""What opens an assessment in the trace's pane, by its name."""


def pressing(*buttons: str) -> str:
    """A script that presses buttons, by their XPath, one after the other; one that is not there is passed over."""
    return f"""async () => {{
        for (const path of {json.dumps(buttons)}) {{
            const found = document.evaluate(path, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
            if (found.snapshotLength) found.snapshotItem(found.snapshotLength - 1).click();
            await new Promise(done => setTimeout(done, 2000));
        }}
    }}"""


def test_scores_and_labels_are_seen_on_mlflows_pages(house: House) -> None:
    """In the table a column a score; on the trace's page the number, its label and why, or an error with its reason."""
    ids = house.ask(4)
    scores = (
        Score(name="source_support", value=2, low=1, high=5, label="Weakly Related", rationale="No passage says so."),
        Score(name="source_support.citation_precision", value=0.25, low=0, high=1),
    )
    root = house.source().api.whole([ids[0]])[ids[0]][1][0]
    assert root["name"] == "ask"
    card = house.card(ids[0], *scores)
    bare = house.card(ids[0], rubric="factual_accuracy", status="unscored", reason="context_off")
    held = house.card(ids[1], rubric="factual_accuracy", status="pending_review")
    told = [card, bare.model_copy(update={"scores": ()}), held]
    list(house.sink().write([*told, house.card(ids[1]), house.card(ids[2])]))
    place = f"{house.url}/#/experiments/{house.id}/traces"
    table = look(place, "mlflow-table", wait=["source_support"], script=pressing(GOT_IT), size=(3000, 900), settle=3)
    for name in ("source_support", "citation_precision", "factual_accuracy"):
        assert name in table.text
    for seen in ("0.25", "not_applicable"):
        assert seen in table.text
    assert not table.strays
    opened = [OPEN.format(name) for name in ("factual_accuracy", "citation_precision", "source_support")]
    page = look(
        f"{place}?selectedEvaluationId={ids[0]}",
        "mlflow-trace",
        wait=["retrieve"],
        script=pressing(GOT_IT, "//button[starts-with(normalize-space(), 'Assess')]", *opened),
        size=(1900, 1500),
        settle=3,
    )
    pane = page.text[page.text.rindex("Assessments") :]
    for seen in ("source_support", "Weakly Related. No passage says so", "0.25", "Error", "context_off"):
        assert seen in pane
    assert "True" not in pane
