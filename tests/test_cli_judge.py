"""A model as the judge on the command line: what it may cost, what is wrong with it, and how that is said."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from standins.llm import StandIn, standing
from terminal import groundtrace

KEY = {"OPENAI_API_KEY": "sk-of-the-tests"}
PRICES = "input_price=2,output_price=4"
LINE = '{{"id": "r{n}", "query": "When?", "context": ["Ferry {n} leaves at 9."], "answer": "Ferry {n} at 9 [1]."}}\n'


@pytest.fixture(scope="module")
def stand() -> Iterator[StandIn]:
    """A provider of ours."""
    with standing() as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with thirty records."""
    (tmp_path / "records.jsonl").write_text("".join(LINE.format(n=n) for n in range(30)), encoding="utf-8")
    return tmp_path


def words(text: str) -> str:
    """What was printed, however it was wrapped."""
    return " ".join(text.split())


def test_a_run_asks_a_model_and_says_what_it_cost(stand: StandIn, folder: Path) -> None:
    """And asks nothing the second time."""
    stand.script()
    line = f"run records.jsonl --judge openai:gpt-4o,base_url={stand.v1},{PRICES} --rubric rag_faithfulness --json"
    first = json.loads(groundtrace(f"{line} --store kept.db", folder, env=KEY).stdout)
    assert first["cards"]["rag_faithfulness"] == {"scored": 30}
    assert first["about"]["calls"] == stand.log()["requests"] == 30
    told = first["about"]
    assert told["cost"] == pytest.approx((told["tokens_in"] * 2 + told["tokens_out"] * 4) / 1e6)
    groundtrace(f"{line} --store kept.db", folder, env=KEY)
    assert stand.log()["requests"] == 30


def test_max_cost_stops_a_run_and_resume_goes_on(stand: StandIn, folder: Path) -> None:
    """Nothing is lost, nothing is asked twice."""
    stand.script()
    spec = f"openai:gpt-4o,base_url={stand.v1},concurrency=2,{PRICES}"
    line = f"run records.jsonl --judge {spec} --rubric rag_faithfulness --store kept.db --json"
    done = groundtrace(f"{line} --max-cost 0.08", folder, env=KEY)
    first = json.loads(done.stdout)
    scored = first["cards"]["rag_faithfulness"]["scored"]
    assert 0 < scored < 30
    assert 0.08 <= first["about"]["cost"] < 0.1
    assert any("max_cost is 0.08" in note for note in first["notes"])
    groundtrace("run --resume --store kept.db", folder, env=KEY)
    assert stand.log()["requests"] == 30
    written = (folder / "records.groundtrace.jsonl").read_text(encoding="utf-8")
    assert all(f'"r{n}"' in written for n in range(30))


def test_max_cost_refuses_a_judge_whose_price_nobody_knows(stand: StandIn, folder: Path) -> None:
    """Before the first question, and with what to do."""
    stand.script()
    line = f"run records.jsonl --judge openai:gpt-4o,base_url={stand.v1} --max-cost 1"
    done = groundtrace(line, folder, env=KEY)
    assert done.returncode == 2
    assert "input_price and output_price" in words(done.stderr)
    assert stand.log()["requests"] == 0


def test_a_dry_run_says_what_a_model_would_cost(stand: StandIn, folder: Path) -> None:
    """And asks it nothing; a price nobody knows is said to be unknown."""
    stand.script()
    spec = f"openai:gpt-4o,base_url={stand.v1}"
    priced = groundtrace(f"run records.jsonl --dry-run --judge {spec},input_price=100,output_price=4", folder, env=KEY)
    assert "US dollars for what is asked; replies come on top" in words(priced.stdout)
    unknown = groundtrace(f"run records.jsonl --dry-run --judge {spec}", folder, env=KEY)
    assert "not known for this judge" in words(unknown.stdout)
    assert stand.log()["requests"] == 0


def test_a_wrong_key_ends_the_run_with_one_line(stand: StandIn, folder: Path) -> None:
    """That says which variable to mend; the key is nowhere in it."""
    stand.script(key="sk-another")
    done = groundtrace(f"run records.jsonl --judge openai:gpt-4o,base_url={stand.v1}", folder, env=KEY)
    assert done.returncode != 0
    assert "OPENAI_API_KEY" in done.stdout + done.stderr
    assert "sk-of-the-tests" not in done.stdout + done.stderr
    assert stand.log()["requests"] <= 32


def test_the_doctor_judges_one_case(stand: StandIn, folder: Path) -> None:
    """What is well, and what it costs."""
    stand.script({"do": {"answer": '{"score": 5, "rationale": "It says so."}'}})
    line = f"doctor --judge openai:gpt-4o,base_url={stand.v1},{PRICES},votes=3"
    done = groundtrace(line, folder, env=KEY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok answers" not in done.stdout
    told = words(done.stdout)
    assert "answers in" in told
    assert "JSON schema is taken" in told
    assert "US dollars for this case" in told
    assert stand.log()["requests"] == 1


def test_the_doctor_of_a_batch_asks_live(stand: StandIn, folder: Path) -> None:
    """Nobody waits a day to hear that a key is wrong."""
    stand.script({"do": {"answer": '{"score": 5, "rationale": "It says so."}'}})
    line = f"doctor --judge openai-batch:gpt-4o,base_url={stand.v1}"
    done = groundtrace(line, folder, env=KEY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answers in" in words(done.stdout)
    assert "in a batch it costs half" in words(done.stdout)
    stand.script(key="sk-another")
    assert groundtrace(line, folder, env=KEY).returncode == 3


def test_the_doctor_says_what_is_wrong(stand: StandIn, folder: Path) -> None:
    """An unknown model, by name, and a failing exit code for scripts."""
    stand.script(models=["gpt-4o"])
    done = groundtrace(f"doctor --judge openai:gpt-9,base_url={stand.v1}", folder, env=KEY)
    assert done.returncode == 3
    assert "gpt-9" in done.stdout


def test_an_extra_that_is_missing_is_named_with_its_command(folder: Path) -> None:
    """As on a machine where only groundtrace is installed."""
    code = "import sys; sys.modules['openai'] = None\nfrom groundtrace.cli import main\nmain()"
    (folder / "without.py").write_text(code, encoding="utf-8")
    from terminal import shell

    line = f"{sys.executable} without.py run records.jsonl --judge openai:gpt-4o"
    done = shell(line, folder, env=KEY)
    assert done.returncode == 2, done.stderr
    assert "pip install 'groundtrace[openai]'" in words(done.stderr)
