"""The demo: five traces of the project's own, each read and judged as its story says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from terminal import groundtrace

SCORES = "scores.groundtrace.logs.jsonl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder the demo ran in once."""
    folder = tmp_path_factory.mktemp("demo")
    done = groundtrace("demo", folder)
    assert (done.returncode, done.stderr) == (0, "")
    (folder / "said.txt").write_text(done.stdout, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def cards(folder: Path) -> dict[tuple[int, str], dict[str, Any]]:
    """The cards it left, by number of the trace and rubric."""
    records = [
        json.loads(line)
        for line in groundtrace("show groundtrace-demo/traces.jsonl --json", folder).stdout.splitlines()
    ]
    number = {record["trace_id"]: n for n, record in enumerate(records, start=1)}
    lines = (folder / "groundtrace-demo" / "cards.groundtrace.jsonl").read_text(encoding="utf-8").splitlines()
    return {(number[card["trace_id"]], card["rubric"]): card for card in map(json.loads, lines)}


def scores(card: dict[str, Any]) -> dict[str, float | None]:
    """A card's scores by the last part of their names."""
    return {score["name"].rpartition(".")[2]: score["value"] for score in card["scores"]}


def test_the_good_answer_scores_high(cards: dict[tuple[int, str], dict[str, Any]]) -> None:
    """Every claim stands where it is cited."""
    assert scores(cards[1, "source_support"])["min"] >= 4
    assert scores(cards[1, "rag_faithfulness"])["claim_support"] == 5
    assert not cards[1, "rag_faithfulness"]["review"]


def test_the_unsupported_claim_is_found(cards: dict[tuple[int, str], dict[str, Any]]) -> None:
    """It is named, and the claims around it keep their scores."""
    card = cards[2, "rag_faithfulness"]
    assert scores(card)["claim_support"] <= 3
    lost = [claim["claim"] for finding in card["findings"] for claim in finding["details"]["unsupported_claims"]]
    assert lost == ["A lost library card is replaced within two working days for 10 euros."]
    assert scores(cards[2, "source_support"])["min"] >= 4


def test_the_wrong_citation_is_found(cards: dict[tuple[int, str], dict[str, Any]]) -> None:
    """The claim is true to the passages, but not to the one it cites."""
    assert scores(cards[3, "rag_faithfulness"])["citation_accuracy"] <= 3
    assert scores(cards[3, "rag_faithfulness"])["claim_support"] >= 4
    assert scores(cards[3, "source_support"])["min"] <= 2
    assert cards[3, "source_support"]["root_cause"] == "citation"


def test_the_abstention_is_told_apart(cards: dict[tuple[int, str], dict[str, Any]]) -> None:
    """An answer without claims is no bad answer."""
    assert "abstained" in cards[4, "rag_faithfulness"]["flags"]
    assert cards[4, "source_support"]["status"] == "unscored"


def test_the_cut_answer_is_not_judged_and_the_remedy_is_named(cards: dict[tuple[int, str], dict[str, Any]]) -> None:
    """A piece of an answer is never scored as if it were whole."""
    for rubric in ("source_support", "rag_faithfulness"):
        card = cards[5, rubric]
        assert (card["status"], card["scores"]) == ("unscored", [])
        assert any(gap["field"] == "answer" and "LENGTH_LIMIT" in gap["remedy"] for gap in card["gaps"])


def test_it_prints_what_a_person_needs_to_see(folder: Path) -> None:
    """The questions, what is wrong, where the scores are, what to do next."""
    printed = (folder / "said.txt").read_text(encoding="utf-8")
    said = " ".join(printed.split())
    assert "How long can I keep a book, and can I renew it?" in said
    assert "A lost library card is replaced within two working days" in said
    assert "answer: truncated" in said
    assert "Judged offline." in said
    assert "groundtrace show groundtrace-demo/traces.jsonl" in said
    assert max(map(len, printed.splitlines())) <= 100


def test_it_leaves_traces_events_spans_and_cards(folder: Path) -> None:
    """All in one folder, which can be thrown away."""
    left = {path.name for path in (folder / "groundtrace-demo").iterdir()}
    assert left == {"traces.jsonl", "traces.logs.jsonl", SCORES, "scores.groundtrace.jsonl", "cards.groundtrace.jsonl"}


def test_a_second_demo_works_and_writes_nothing_new(folder: Path) -> None:
    """And says so."""
    before = {path.name: path.read_bytes() for path in (folder / "groundtrace-demo").iterdir()}
    done = groundtrace("demo", folder)
    assert done.returncode == 0
    assert {path.name: path.read_bytes() for path in (folder / "groundtrace-demo").iterdir()} == before
    assert "unchanged" in done.stdout


def test_a_folder_it_cannot_write_to_is_a_clear_line(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "groundtrace-demo").write_text("in the way", encoding="utf-8")
    done = groundtrace("demo", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("groundtrace: demo: 'groundtrace-demo' cannot be written: ")


def test_traces_of_the_users_own_are_never_written_over(tmp_path: Path) -> None:
    """The file is named and stays as it was; the demo's own may be there."""
    mine = tmp_path / "groundtrace-demo" / "traces.jsonl"
    mine.parent.mkdir()
    mine.write_text("mine\n", encoding="utf-8")
    done = groundtrace("demo", tmp_path)
    assert (done.returncode, done.stdout, mine.read_text(encoding="utf-8")) == (2, "", "mine\n")
    assert "'groundtrace-demo/traces.jsonl' is there already and not the demo's" in done.stderr
    assert [path.name for path in mine.parent.iterdir()] == ["traces.jsonl"]
