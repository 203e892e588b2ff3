"""Scores are counted once, few labels tell of them, and Prometheus finds them whole."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from groundtrace.adapters.otel.metrics import BUCKETS, OTHER, Measures, measures
from groundtrace.adapters.prometheus import PrometheusSink
from groundtrace.errors import PlanError
from groundtrace.memory import InMemory
from groundtrace.model import Review, Score
from groundtrace.plan import Plan
from groundtrace.plugins import load
from groundtrace.ports import Sink
from groundtrace.rubrics.catalogue import CATALOGUE
from groundtrace.run import run
from groundtrace.run.watch import watch
from groundtrace.testing import SinkContract, sample_card
from servers import free_port

ROUNDS = 3


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Each sample's value, by its name and its labels' values."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def served(port: int | None) -> str:
    """What Prometheus would read."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as reply:
        told: bytes = reply.read()
    return told.decode()


class TestContract(SinkContract):
    """What `run` relies on; a file's sums of single scores are those scores."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "scores.prom"

    def make(self) -> Sink:
        return PrometheusSink(str(self.path))

    def stored(self) -> Mapping[str, float | None]:
        told = samples(self.path.read_text())
        sums = {key[1]: value for key, value in told.items() if key[0] == "groundtrace_evaluation_score_sum"}
        return {name.removeprefix("groundtrace."): value for name, value in sums.items()}


# --- what is counted --------------------------------------------------------------------------------------------------


def test_the_edges_hold_every_step_of_both_scales() -> None:
    """A share of scores up to a whole or half step is read from one bucket; every range of ours is one of the two."""
    assert {1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 0.0, 0.25, 0.5, 0.75} <= {*BUCKETS}
    assert all(isinstance(edge, float) for edge in BUCKETS)
    assert {(told.low, told.high) for told in CATALOGUE} == {(1, 5), (0, 1)}


def test_a_card_is_measured_by_words_of_few_kinds() -> None:
    """What a sentence says is no label."""
    card = sample_card(
        Score(name="source_support", value=2, low=1, high=5),
        Score(name="source_support.citation_precision", value=None, low=0, high=1, rationale="cites nothing"),
        review=(Review(reason="low_support"), Review(reason="Something a plugin wrote: 17 claims")),
    )
    assert measures(card) == Measures(
        rubric="source_support",
        judge_kind="llm",
        status="scored",
        scores=(("groundtrace.source_support", 2.0, "1-5"),),
        unscored=None,
        review=frozenset({"low_support", OTHER}),
        faults=0,
        cost=0,
    )
    bare = sample_card(status="unscored", reason="context_off").model_copy(update={"scores": ()})
    assert (measures(bare).scores, measures(bare).unscored) == ((), "context_off")


# --- a port -----------------------------------------------------------------------------------------------------------


def test_a_port_is_of_this_machine_alone_and_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round of a watch opens it anew; what was counted stays."""
    first = PrometheusSink(str(free_port()))
    list(first.write([sample_card()]))
    second = load("sink", f"prometheus:{first.port}")
    assert {receipt.state for receipt in second.write([sample_card()])} == {"unchanged"}
    assert {receipt.state for receipt in second.write([sample_card(version="2")])} == {"written"}
    told = samples(served(first.port))
    key = ("groundtrace_evaluation_score_count", "groundtrace.source_support", "llm", "1-5")
    assert told[key] == 2
    assert not [name for name, *_ in told if name.startswith(("target_info", "python_", "process_"))]
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", int(first.port or 0))) == 0
    addresses = {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
    wanted = f":{first.port:04X}"
    assert {place for place in addresses if place.endswith(wanted) and place.startswith("00000000")} == set()


def test_a_port_somebody_else_has_is_a_bad_plan() -> None:
    """Before anything is judged."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PlanError, match="can't be listened at"):
            PrometheusSink(str(taken.getsockname()[1]))


@pytest.mark.parametrize("place", ["scores.txt", "metrics", "99999999", "http://127.0.0.1:9464"])
def test_what_is_neither_a_port_nor_a_file_is_refused(place: str) -> None:
    """With what would be one."""
    with pytest.raises(PlanError, match=r"is no port|ends in \.prom"):
        PrometheusSink(place)


def demo(folder: Path) -> str:
    """The five traces of the demo, in a folder."""
    for name in ("demo.jsonl", "demo.logs.jsonl"):
        (folder / name).write_bytes(resources.files("groundtrace.data").joinpath(name).read_bytes())
    return f"otel:{folder / 'demo.jsonl'}"


def test_a_watch_serves_what_all_its_rounds_counted(tmp_path: Path) -> None:
    """Each card once, however often its trace is seen again."""
    port = free_port()
    plan = Plan(sources=demo(tmp_path), sinks=f"prometheus:{port}", rubrics="source_support", audit_rate=0.0)
    plan = plan.model_copy(update={"since": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)})
    rounds = watch(plan, InMemory(), every=1, sleep=lambda _: None)
    seen = []
    for _ in range(ROUNDS):
        assert not next(rounds).trouble
        told = samples(served(port))
        seen.append({key: value for key, value in told.items() if key[0] == "groundtrace_evaluation_cards_total"})
    assert seen[0]
    assert seen == [seen[0]] * ROUNDS


# --- a file -----------------------------------------------------------------------------------------------------------


def command(folder: Path, store: str) -> str:
    """A run in a process of its own; what its file says."""
    words = ["run", demo(folder), "--to", f"prometheus:{folder / 'groundtrace.prom'}", "--rubric"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "groundtrace.cli", *words, "source_support", "--store", store, "--json"],
        cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not json.loads(done.stdout)["failed"]
    return (folder / "groundtrace.prom").read_text()


@pytest.mark.parametrize("store", ["none", "kept.db"])
def test_a_file_says_what_its_run_was_about_however_often_it_is_run(tmp_path: Path, store: str) -> None:
    """With a memory that knows all of it and without one."""
    first = command(tmp_path, store)
    counts = samples(first)
    cards = {key[2:]: value for key, value in counts.items() if key[0] == "groundtrace_evaluation_cards_total"}
    assert sum(value for (rubric, _), value in cards.items() if rubric == "source_support") == 5
    assert samples(command(tmp_path, store)) == counts
    assert [path.name for path in tmp_path.glob("*prom*")] == ["groundtrace.prom"], "what it was made of is gone"
    assert not re.search("[0-9a-f]{16}", first)


def test_a_file_that_can_not_be_written_is_told_and_made_up_for(tmp_path: Path) -> None:
    """What was counted is not lost, and not counted twice."""
    folder = tmp_path / "out"
    folder.mkdir()
    sink = PrometheusSink(str(folder / "scores.prom"))
    folder.rmdir()
    (told, *_) = list(sink.write([sample_card()]))
    assert (told.state, "can't be written" in str(told.reason)) == ("failed", True)
    folder.mkdir()
    assert {receipt.state for receipt in sink.write([sample_card()])} == {"written"}
    key = ("groundtrace_evaluation_score_count", "groundtrace.source_support", "llm", "1-5")
    assert samples((folder / "scores.prom").read_text())[key] == 1
    (folder / "scores.prom").unlink()
    list(sink.write([sample_card()]))
    assert (folder / "scores.prom").exists()


def test_a_folder_nobody_can_write_to_is_a_bad_plan(tmp_path: Path) -> None:
    """Before anything is judged."""
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match="is no folder"):
        PrometheusSink(str(tmp_path / "file" / "scores.prom"))
    with pytest.raises(PlanError, match=r"is not there; mkdir -p .*/nope/dir' makes it"):
        PrometheusSink(str(tmp_path / "two words" / "nope" / "dir" / "scores.prom"))
    assert not (tmp_path / "two words").exists()


def test_a_run_in_python_counts_in_the_file_of_its_process(tmp_path: Path) -> None:
    """Twice the same is once."""
    path = tmp_path / "scores.prom"
    plan = Plan(sources=demo(tmp_path), sinks=f"prometheus:{path}", rubrics="source_support", audit_rate=0.0)
    first = run(plan)
    before = path.read_text()
    assert {*next(iter(first.receipts.values()))} == {"written"}
    assert {*next(iter(run(plan).receipts.values()))} == {"unchanged"}
    assert path.read_text() == before
