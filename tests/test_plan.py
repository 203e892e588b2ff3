"""A plan is a file, a command line and a worker's orders; a bad one says what to change and never starts."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.errors import PlanError
from groundtrace.model import Window, dump, load
from groundtrace.plan import Plan

SPEC = "otel:spans.jsonl"
BUILT_IN = ("factual_accuracy", "rag_faithfulness", "source_support", "summary_groundedness")

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
tables = st.fixed_dictionaries(
    {"use": st.just("otel"), "argument": text.filter(lambda t: ":" not in t)},
    optional={"limit": st.integers(), "ratio": st.floats(allow_nan=False, allow_infinity=False), "on": st.booleans()},
)
moments = st.datetimes(dt.datetime(2020, 1, 1), dt.datetime(2030, 1, 1), timezones=st.just(dt.UTC))  # noqa: DTZ001
plans = st.builds(
    Plan,
    sources=st.lists(st.just(SPEC) | tables, min_size=1, max_size=3),
    sinks=st.lists(tables, max_size=2),
    sample=st.none() | st.floats(0, 1),
    risk=st.sampled_from(["normal", "high"]),
    since=st.none() | moments,
    batch_id=text,
    dry_run=st.booleans(),
    shard=st.none() | st.integers(0, 4).map(lambda n: (n, 5)),
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder and an environment that says nothing."""
    monkeypatch.chdir(tmp_path)
    for name in ("JUDGE", "SAMPLE", "RISK", "BATCH_ID"):
        monkeypatch.delenv(f"GROUNDTRACE_{name}", raising=False)
    return tmp_path


@given(plans)
def test_a_plan_reads_back_equal_from_json_from_toml_and_from_a_pickle(plan: Plan) -> None:
    """A plan can be stored, sent and written by hand."""
    import tomllib

    assert load(Plan, dump(plan)) == plan
    assert Plan(**tomllib.loads(plan.to_toml())) == plan
    assert pickle.loads(pickle.dumps(plan)) == plan


@given(plans, st.integers(1, 6), st.integers(1, 4), text)
def test_the_parts_of_a_plan_hold_every_trace_of_the_whole_exactly_once(
    plan: Plan, count: int, again: int, trace_id: str
) -> None:
    """Also when a part is split again."""
    parts = [part for half in plan.split(count) for part in half.split(again)]
    assert len(parts) == count * again
    assert sum(part.holds(trace_id) for part in parts) == plan.holds(trace_id)


def test_what_nobody_says_has_its_default() -> None:
    """A source is all a plan needs."""
    plan = Plan.from_args(sources=[SPEC])
    assert (plan.judge, plan.sinks, plan.rubrics) == ("offline", (), BUILT_IN)
    assert (plan.sample, plan.window, plan.dry_run) == (None, Window(), False)


def test_an_argument_goes_before_the_environment_the_environment_before_the_file(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Precedence, in one place."""
    (elsewhere / "plan.toml").write_text(f'sources = "{SPEC}"\nsample = 0.1\nrisk = "high"\nbatch_id = "file"\n')
    monkeypatch.setenv("GROUNDTRACE_SAMPLE", "0.2")
    monkeypatch.setenv("GROUNDTRACE_BATCH_ID", "around")
    plan = Plan.from_toml("plan.toml", batch_id="said", sample=None)
    assert (plan.batch_id, plan.sample, plan.risk) == ("said", 0.2, "high")


@pytest.mark.parametrize(
    ("name", "content"),
    [("groundtrace.toml", "sample = 0.3\n"), ("pyproject.toml", "[tool.groundtrace]\nsample = 0.3\n")],
)
def test_the_current_folder_can_hold_the_file(elsewhere: Path, name: str, content: str) -> None:
    """groundtrace.toml, or a table of pyproject.toml."""
    (elsewhere / name).write_text(content)
    assert Plan.from_args(sources=SPEC).sample == 0.3


def test_a_pyproject_that_says_nothing_about_groundtrace_says_nothing(elsewhere: Path) -> None:
    """Other tools' tables are theirs."""
    (elsewhere / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert Plan.from_args(sources=SPEC) == Plan(sources=SPEC)


def test_a_time_ago_a_date_and_a_time_all_become_a_moment() -> None:
    """What has no zone is UTC."""
    now = dt.datetime.now(dt.UTC)
    since = Plan(sources=SPEC, since="24h").since
    assert since is not None
    assert abs(since - (now - dt.timedelta(days=1))) < dt.timedelta(seconds=5)
    plan = Plan(sources=SPEC, since="2026-11-01", until="2026-11-02T00:00:00+01:00")
    assert plan.window == Window(1_793_491_200_000_000_000, 1_793_574_000_000_000_000)
    assert Plan(sources=SPEC, since=dt.date(2026, 11, 1)).since == plan.since


def write(path: Path, value: Any) -> Path:
    """A file of one JSON line."""
    path.write_text(json.dumps(value) + "\n", encoding="utf-8")
    return path


SPANS = {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1"}]}]}]}
RECORD = {"query": "q", "context": ["c"], "answer": "a"}


def test_a_bare_path_is_looked_into_to_see_who_reads_it(elsewhere: Path) -> None:
    """Nobody needs to know a source's name for a file."""
    write(elsewhere / "a.jsonl", SPANS)
    write(elsewhere / "b,c.jsonl", RECORD)
    assert Plan(sources=("a.jsonl", "b,c.jsonl")).sources == ("otel:a.jsonl", r"jsonl:b\,c.jsonl")
    assert Plan(sources=str(elsewhere / "a.jsonl")).sources == (f"otel:{elsewhere}/a.jsonl",)


ODD = ("[" * 5000, "5", '[1, {"a": 2}]')
"""First lines that tell nothing."""


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize(
    ("first", "reader", "good"),
    [
        *((first, "otel", SPANS) for first in ('{"resourceSpans": [{"sc', *ODD)),
        *((first, "jsonl", {**RECORD, "id": "a" * 3000}) for first in ('{"query": "torn', *ODD)),
    ],
)
def test_any_good_line_tells_who_reads_a_file(elsewhere: Path, first: str, reader: str, good: Any, pack: Any) -> None:
    """The first may be torn, deep or odd, and the file packed."""
    (elsewhere / "a.jsonl").write_bytes(pack(f"{first}\n{json.dumps(good)}\n".encode()))
    assert Plan(sources="a.jsonl").sources == (f"{reader}:a.jsonl",)


def test_a_glob_is_looked_into_and_a_file_of_that_very_name_goes_first(elsewhere: Path) -> None:
    """A literal path wins over a pattern."""
    write(elsewhere / "a1.jsonl", SPANS)
    assert Plan(sources="a*.jsonl").sources == ("otel:a*.jsonl",)
    write(elsewhere / "a*.jsonl", RECORD)
    assert Plan(sources="a*.jsonl").sources == ("jsonl:a*.jsonl",)


def test_a_source_named_twice_is_read_once(elsewhere: Path) -> None:
    """Overlapping globs of a shell count nothing double."""
    write(elsewhere / "a.jsonl", SPANS)
    assert Plan(sources=("a.jsonl", "otel:a.jsonl", "otel:b.jsonl")).sources == ("otel:a.jsonl", "otel:b.jsonl")


def test_a_folder_named_like_a_source_is_a_folder(elsewhere: Path) -> None:
    """A name alone names a source only where no such path exists."""
    (elsewhere / "otel").mkdir()
    write(elsewhere / "otel" / "a.jsonl", SPANS)
    assert Plan(sources="otel").sources == ("otel:otel",)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "plan: 'sources' is missing; say what to read"),
        ({"sources": []}, "sources: [] does not fit"),
        ({"sources": "spnas.jsonl"}, "source: 'spnas.jsonl' does not exist here; did you mean 'spans.jsonl'?"),
        ({"sources": "nowhere/x.jsonl"}, "source: 'nowhere/x.jsonl' does not exist here; a path that exists, or NAME:"),
        ({"sources": "x" * 5000}, "does not exist here"),
        ({"sources": "a\0b"}, "does not exist here"),
        ({"sources": "otle:x.jsonl"}, "source: 'otle' is not installed; did you mean 'otel'?"),
        ({"sources": "-"}, "source: '-' does not say what comes in; write otel:- or jsonl:-"),
        ({"sources": "empty.jsonl"}, "source: 'empty.jsonl' is empty"),
        ({"sources": SPEC, "rubric": "x"}, "plan: 'rubric' is no key of a plan; did you mean 'rubrics'?"),
        ({"sources": SPEC, "rubrics": []}, "rubrics: [] does not fit"),
        ({"sources": SPEC, "rubrics": ["r", "r,x=1"]}, "rubrics: 'r' is named twice"),
        ({"sources": SPEC, "sample": 10}, "sample: 10 does not fit: must be 1 or less"),
        ({"sources": SPEC, "sample": "nan"}, "sample: 'nan' does not fit"),
        ({"sources": SPEC, "risk": "hihg"}, "risk: 'hihg' does not fit: must be 'normal' or 'high'"),
        ({"sources": SPEC, "risk": {"tag": {}}}, "risk: 'tag' is no key of it; did you mean 'tags'? Valid: default"),
        ({"sources": SPEC, "sinks": "cards.jsonl"}, "sink: 'cards.jsonl' does not say as what"),
        ({"sources": SPEC, "sinks": "cards.jsonl"}, "write --to jsonl:cards.jsonl"),
        ({"sources": SPEC, "sinks": "nofolder/"}, "write --to otel:nofolder/"),
        ({"sources": SPEC, "sinks": "x.html"}, "write --to jsonl:FILE, or --to otel:FOLDER"),
        ({"sources": " "}, "source: ' ' names nothing; write a path, or NAME:WHERE"),
        ({"sources": SPEC, "since": "yesterday"}, "since: 'yesterday' does not fit: is no time; write 24h, 7d"),
        ({"sources": SPEC, "since": "1h", "until": "2h"}, "is not before until"),
        ({"sources": SPEC, "shard": [3, 3]}, "shard: (3, 3) is no part of a run"),
        ({"sources": SPEC, "judge": 7}, "judge: 7 does not fit: is neither a text nor a table"),
        ({"sources": 7}, "sources: 7 does not fit: is no list"),
        ({"sources": SPEC, "dry_run": "maybe"}, "dry_run: 'maybe' does not fit: is neither true nor false"),
        ({"sources": {"argument": "x"}, "rubrics": {"argument": "x"}}, "rubric: {'argument': 'x'} does not say"),
    ],
)
def test_a_bad_plan_says_what_to_change(elsewhere: Path, fields: dict[str, Any], says: str) -> None:
    """Before anything starts."""
    write(elsewhere / "spans.jsonl", SPANS)
    (elsewhere / "empty.jsonl").touch()
    with pytest.raises(PlanError) as error:
        Plan(**fields)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"sources = [", "plan: 'plan.toml' is not TOML"),
        (b"\xff", "plan: 'plan.toml' is not UTF-8 text"),
        (None, "plan: 'plan.toml' cannot be read: No such file or directory"),
    ],
)
def test_a_bad_plan_file_is_named(elsewhere: Path, content: bytes | None, says: str) -> None:
    """Unreadable, not text, not TOML."""
    if content is not None:
        (elsewhere / "plan.toml").write_bytes(content)
    with pytest.raises(PlanError) as error:
        Plan.from_toml("plan.toml")
    assert says in str(error.value)


def test_all_that_is_wrong_is_told_with_where_it_stands(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each, so that one attempt is enough."""
    (elsewhere / "plan.toml").write_text('sources = "nowhere.jsonl"\nsample = 2\nrubic = "x"\njudge = 7\n')
    monkeypatch.setenv("GROUNDTRACE_RISK", "hihg")
    with pytest.raises(PlanError) as error:
        Plan.from_toml("plan.toml", judge="offline", since="soon")
    lines = str(error.value).splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["plan:", "source:", "sample:", "risk:", "since:"]
    assert [line.rpartition("; ")[2] for line in lines[:4]] == [
        *["it comes from plan.toml"] * 3,
        "it comes from the environment: GROUNDTRACE_RISK",
    ]
    assert "it comes from" not in lines[4]
    assert pickle.loads(pickle.dumps(error.value)).others[0].value == "nowhere.jsonl"


def test_a_bad_value_from_the_environment_says_that_it_comes_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody searches the command line for it."""
    monkeypatch.setenv("GROUNDTRACE_SAMPLE", "half")
    with pytest.raises(
        PlanError, match=r"sample: 'half' does not fit.*it comes from the environment: GROUNDTRACE_SAMP"
    ):
        Plan.from_args(sources=SPEC)


@pytest.mark.parametrize(
    "judge",
    [
        "openai:gpt,api_key=hunter2",
        "openai:gpt,apiKey=hunter2",
        {"use": "openai", "api_key": "hunter2"},
        {"use": "openai", "key": "hunter2"},
        "openai:gpt,base_url=http://me:hunter2@host/v1",
        {"use": "openai", "base_url": "http://me:hunter2@host/v1"},
        {"use": "openai", "headers": {"api_key": "hunter2"}},
        {"use": "openai", "headers": [{"X-Api-Key": "hunter2"}]},
        {"use": "openai", "extra": {"deep": {"er": {"access-token": "hunter2"}}}},
        {"use": "openai", "header": "x-api-key: hunter2"},
        {"use": "openai", "headers": ["Authorization: Basic hunter2"]},
        {"use": "openai", "headers": {"X": "Bearer hunter2"}},
        {"use": "openai", "body": '{"api_key": "hunter2"}'},
        "openai:gpt,base_url=https://h/v1?model=x&api_key=hunter2",
        "openai:gpt,base_url=https://h/v1?api%5Fkey=hunter2",
        ["x", {"use": "openai", "password": "hunter2"}],
    ],
)
def test_a_secret_does_not_belong_in_a_plan_and_the_refusal_does_not_repeat_it(judge: Any) -> None:
    """Plans are written to files and logs."""
    with pytest.raises(PlanError, match="set it in the environment instead") as error:
        Plan(sources=SPEC, judge=judge)
    assert "hunter2" not in str(error.value)
    assert "hunter2" not in repr(error.value)
    assert "OPENAI_API_KEY" in str(error.value) or isinstance(judge, list)


def test_a_secret_is_refused_wherever_it_stands_and_the_variable_is_named() -> None:
    """In sinks and sources, in a file's text too; a platform nobody knows has its own SDK's name."""
    for key, spec, says in (
        ("sinks", "otlp:https://h/v1?api_key=hunter2", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("sources", {"use": "langsmith", "argument": "p", "headers": {"x-api-key": "hunter2"}}, "LANGSMITH_API_KEY"),
        ("rubrics", "mine:x,token=hunter2", "under the name its SDK reads"),
        ("conventions", "mine:x,token=hunter2", "under the name its SDK reads"),
    ):
        with pytest.raises(PlanError, match=says) as error:
            Plan.model_validate_json(json.dumps({"sources": SPEC, key: [spec]}))
        assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    "judge",
    [
        "openai:gpt,max_tokens=100,base_url=http://127.0.0.1:8000/v1?version=2",
        {"use": "openai", "headers": {"x-tenant": "a"}, "tokenizer": "t", "api_key": ""},
        {"use": "openai", "cache": {"key": "by content"}, "url": "https://me@host/token/1"},
        "openai:key-lookup,prompt=say monkey: banana",
    ],
)
def test_what_is_no_secret_is_no_secret(judge: Any) -> None:
    """Tokens are also counted, and keys also open maps."""
    assert Plan(sources=SPEC, judge=judge).judge == judge


@pytest.mark.parametrize("heading", ["groundtrace", "tool.groundtrace"])
def test_a_header_as_in_pyproject_is_named(elsewhere: Path, heading: str) -> None:
    """A plan's own file has none."""
    (elsewhere / "groundtrace.toml").write_text(f"[{heading}]\nsample = 0.3\n")
    with pytest.raises(PlanError, match=rf"drop the \[{heading}\] header"):
        Plan.from_args(sources=SPEC)
