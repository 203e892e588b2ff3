"""What the dashboard shows is what was scored: Prometheus itself scrapes, answers its queries and checks the alerts."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from groundtrace.adapters.prometheus import PrometheusSink
from groundtrace.model import Attempt, Ref, Review, Score, Scorecard, card_id
from groundtrace.testing import sample_card
from servers import clean, free_port, stop

HERE = Path(__file__).parent
PATIENCE = 60.0
SUPPORT = [1, 2, 2, 3, 4, 5, 5, 5, 4.5, 2.5]
PRECISION = [0.0, 0.25, 0.5, 1.0]


def program(name: str) -> str:
    """A program of Debian's package; the test fails with the line to run where it is not there."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"the tests need {name}: apt-get install -y --no-install-recommends prometheus", pytrace=False)
    return found


def promtool(*words: str) -> None:
    """Run Prometheus' own checks on the files of this folder."""
    done = subprocess.run([program("promtool"), *words], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    """The script that builds the dashboard."""
    spec = importlib.util.spec_from_file_location("build_dashboard", HERE / "build_dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def card(number: int, rubric: str, *scores: Score, **told: Any) -> Scorecard:
    """A card of a trace of its own."""
    ref = Ref("testing", trace_id=f"{number:032x}", span_id=f"{number:016x}")
    made = sample_card(*scores, rubric=rubric, ref=ref, id=card_id(ref, rubric), **told)
    return made if scores else made.model_copy(update={"scores": ()})


def cards() -> list[Scorecard]:
    """Ten scored cards, two that were not, one that waits, one whose judge erred at a price."""
    found = []
    for number, value in enumerate(SUPPORT):
        scores = [Score(name="source_support", value=value, low=1, high=5)]
        if number < len(PRECISION):
            scores.append(Score(name="source_support.citation_precision", value=PRECISION[number], low=0, high=1))
        found.append(card(number, "source_support", *scores))
    found += [card(20 + n, "source_support", status="unscored", reason="context_off") for n in range(2)]
    waits = (Review(reason="low_support", note="a sentence that is no label"),)
    found.append(card(30, "source_support", status="pending_review", review=waits))
    attempts = (
        Attempt(slot="c1", attempt=1, judge="m", text="?", faults=("no JSON",), cost=0.25),
        Attempt(slot="c1", attempt=2, judge="m", text="{}", cost=0.5),
    )
    found.append(
        card(40, "rag_faithfulness", Score(name="rag_faithfulness", value=4, low=1, high=5), attempts=attempts)
    )
    return found


class Prometheus:
    """A running Prometheus, and its answers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, expression: str) -> dict[tuple[str, ...], float]:
        """The value of each series that fits, by its labels' values."""
        query = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{query}", timeout=10) as reply:
            told = json.load(reply)
        assert told["status"] == "success"
        return {
            tuple(value for name, value in sorted(row["metric"].items()) if name != "__name__"): float(row["value"][1])
            for row in told["data"]["result"]
        }

    def wait(self, expression: str, value: float) -> None:
        """Wait until an expression has a value: that it is ready does not mean that it has scraped."""
        end = time.monotonic() + PATIENCE
        while value not in self.ask(expression).values():
            assert time.monotonic() < end, self.ask(expression)
            time.sleep(0.2)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that has scraped all cards from a sink's port; all of them were counted before its first look."""
    sink = PrometheusSink(str(free_port()))
    assert {receipt.state for receipt in sink.write(cards())} == {"written"}
    assert {receipt.state for receipt in sink.write(cards())} == {"unchanged"}
    folder = tmp_path_factory.mktemp("prometheus")
    config = (HERE / "prometheus.yml").read_text(encoding="utf-8")
    assert "127.0.0.1:9464" in config
    config = config.replace("127.0.0.1:9464", f"127.0.0.1:{sink.port}")
    (folder / "prometheus.yml").write_text(f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n{config}")
    shutil.copy(HERE / "alerts.yml", folder)
    url = f"127.0.0.1:{free_port()}"
    command = [program("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address={url}"], cwd=folder, env=clean(), stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    running = Prometheus(f"http://{url}")
    try:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                running.wait('up{job="groundtrace"}', 1)
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.1)
        running.wait("groundtrace:score:count", len(SUPPORT))
        yield running
    finally:
        stop(process)


def test_the_dashboard_is_the_one_that_is_built(builder: ModuleType) -> None:
    """Who changes one changes the other."""
    assert (HERE / "dashboard.json").read_text(encoding="utf-8") == builder.dashboard()
    panels = json.loads(builder.dashboard())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_each_panel_shows_what_was_scored(scraped: Prometheus) -> None:
    """Every query of the dashboard, as Grafana would send it: the mean, the count and the share that are known."""
    panels = json.loads((HERE / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    shown = {}
    for panel in panels:
        for target in panel.get("targets", ()):
            shown[panel["title"]] = scraped.ask(target["expr"].replace("$__rate_interval", "1m"))
    support, precision = ("groundtrace.source_support",), ("groundtrace.source_support.citation_precision",)
    faithful = ("groundtrace.rag_faithfulness",)
    late = shown.pop("Mean score of late (only where a watch or a server goes on)")
    assert not [value for value in late.values() if value == value]  # noqa: PLR0124 - 0/0: nothing came since, as it says
    assert shown.pop("Mean score") == {
        support: pytest.approx(sum(SUPPORT) / len(SUPPORT)),
        precision: pytest.approx(sum(PRECISION) / len(PRECISION)),
        faithful: 4,
    }
    assert shown.pop("Scores counted") == {support: len(SUPPORT), precision: len(PRECISION), faithful: 1}
    assert shown.pop("Share of low scores") == {support: 0.3, precision: 0.5, faithful: 0}
    assert shown.pop("Cards by what became of them") == {
        ("source_support", "scored"): 10,
        ("source_support", "unscored"): 2,
        ("source_support", "pending_review"): 1,
        ("rag_faithfulness", "scored"): 1,
    }
    assert shown.pop("Not scored, by why") == {("context_off", "source_support"): 2}
    assert shown.pop("To be looked at by a person, by why") == {("low_support", "source_support"): 1}
    assert shown.pop("Replies of the judge that were not valid") == {("rag_faithfulness",): 1}
    assert shown.pop("What the judge cost (US dollars)") == {("rag_faithfulness",): 0.75}
    assert not shown


def test_the_alerts_are_well_and_count_the_same(scraped: Prometheus) -> None:
    """Promtool checks them and their tests; on what was scraped they say what the dashboard does."""
    promtool("check", "rules", "alerts.yml")
    promtool("check", "config", "prometheus.yml")
    promtool("test", "rules", "alerts_test.yml")
    scraped.wait("groundtrace:score:low_share", 0.3)
    assert scraped.ask("groundtrace:score:mean")["groundtrace.source_support", "1-5"] == pytest.approx(3.4)


def test_no_label_names_a_trace_or_holds_a_sentence(scraped: Prometheus) -> None:
    """However many cards there are, the series stay few."""
    names = {value for labels in scraped.ask('{job="groundtrace"}') for value in labels}
    assert not [name for name in names if re.search("[0-9a-f]{16}", name)]
    assert not [name for name in names if " " in name]


def test_a_file_is_read_by_promtool_as_metrics(tmp_path: Path) -> None:
    """As node-exporter would read it."""
    path = tmp_path / "groundtrace.prom"
    list(PrometheusSink(str(path)).write(cards()))
    done = subprocess.run(
        [program("promtool"), "check", "metrics"], input=path.read_bytes(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_the_files_that_the_readme_names_are_there() -> None:
    """And every one that is there is named."""
    named = set(re.findall(r"\]\(([\w.]+)\)", (HERE / "README.md").read_text(encoding="utf-8")))
    there = {path.name for path in HERE.iterdir() if path.is_file()} - {"README.md", Path(__file__).name}
    assert named == there
