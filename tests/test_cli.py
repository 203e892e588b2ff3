"""The command line: what is printed where, which exit code, and that nothing makes it crash."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

import neighbours
from groundtrace.cli import _border, life, plain, printed
from groundtrace.tally import Low, Report
from terminal import groundtrace, shell

RECORD = {
    "id": "r1",
    "query": "Are dogs free?",
    "context": [{"id": "dogs", "text": "Dogs travel for free."}],
    "answer": "Dogs travel for free [1].",
}
FIELDS = {"trace_id", "span_id", "kind", "query", "context", "answer", "citations", "gaps"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the demo's traces and a file of records."""
    data = resources.files("groundtrace.data")
    for name, copy in (("demo.jsonl", "spans.jsonl"), ("demo.logs.jsonl", "spans.logs.jsonl")):
        (tmp_path / copy).write_bytes(data.joinpath(name).read_bytes())
    (tmp_path / "records.jsonl").write_text(json.dumps(RECORD) + "\n", encoding="utf-8")
    return tmp_path


def words(text: str) -> str:
    """What was printed, however it was wrapped."""
    return " ".join(text.split())


# --- run ------------------------------------------------------------------------------------------------------------


def test_run_prints_a_summary_and_writes_beside_the_traces(folder: Path) -> None:
    """Results on stdout, nothing on stderr, the files at home."""
    done = groundtrace("run spans.jsonl", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "5 traces read · 5 records" in done.stdout
    assert "source_support" in done.stdout
    assert "answer: truncated" in done.stdout
    assert "Judged offline. Counts words" in done.stdout
    assert "nan" not in done.stdout.lower().split()
    assert (folder / "spans.groundtrace.logs.jsonl").exists()
    assert (folder / "spans.groundtrace.jsonl").exists()


def test_a_second_run_adds_nothing_and_says_so(folder: Path) -> None:
    """Running twice is safe."""
    groundtrace("run spans.jsonl --quiet", folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = groundtrace("run spans.jsonl", folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert " unchanged" in done.stdout
    assert " written" not in done.stdout


def test_every_event_names_a_span_of_the_file(folder: Path) -> None:
    """Scores are found from the traces they are about."""
    groundtrace(
        "run otel:spans.jsonl --rubric rag_faithfulness --rubric source_support --judge offline --to otel:out", folder
    )
    spans = {
        (span["traceId"], span["spanId"])
        for line in (folder / "spans.jsonl").read_text(encoding="utf-8").splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    }
    events = [
        (record["traceId"], record["spanId"])
        for line in (folder / "out" / "scores.groundtrace.logs.jsonl").read_text(encoding="utf-8").splitlines()
        for resource in json.loads(line)["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
    ]
    assert events
    assert set(events) <= spans


def test_quiet_says_nothing_and_json_says_everything(folder: Path) -> None:
    """For scripts."""
    assert groundtrace("run spans.jsonl --quiet --to jsonl:a.jsonl", folder).stdout == ""
    told = json.loads(groundtrace("run spans.jsonl --json --to jsonl:b.jsonl", folder).stdout)
    assert told["traces"] == 5
    assert told["scores"]["source_support"]["mean"] == pytest.approx(
        told["scores"]["source_support"]["billionths"] / 1e9 / told["scores"]["source_support"]["count"]
    )


def test_a_dry_run_estimates_and_writes_nothing(folder: Path) -> None:
    """Before any money is spent."""
    before = sorted(path.name for path in folder.iterdir())
    done = groundtrace("run spans.jsonl --dry-run", folder)
    assert done.returncode == 0
    assert "no judge was asked, nothing was written" in done.stdout
    assert "0 US dollars" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_plan_file_runs_and_options_go_before_it(folder: Path) -> None:
    """`*.toml` is a plan."""
    (folder / "plan.toml").write_text('sources = "spans.jsonl"\nsinks = "jsonl:out.jsonl"\nsample = 0.0\n')
    assert json.loads(groundtrace("run plan.toml --json", folder).stdout)["traces"] == 0
    assert json.loads(groundtrace("run plan.toml --json --sample 1", folder).stdout)["traces"] == 5


def test_verbose_prints_the_plan_to_stderr(folder: Path) -> None:
    """What will be done, as a file could hold it."""
    done = groundtrace("run spans.jsonl --verbose --to jsonl:out.jsonl", folder)
    assert 'sources = ["otel:spans.jsonl"]' in done.stderr


def test_verbose_shows_what_was_behind_trouble(folder: Path) -> None:
    """A plugin's author needs the stack trace, everyone else the line."""
    site = neighbours.unpack("hostile", folder)
    line = f"{sys.executable} -m groundtrace.cli run spans.jsonl --to shredder"
    brief, full = (shell(line + more, folder, env={"PYTHONPATH": str(site)}) for more in ("", " --verbose"))
    assert brief.returncode == full.returncode == 3
    assert brief.stderr == "groundtrace: writing to shredder: OSError: the paper is jammed\n"
    assert "Traceback" in full.stderr
    assert "groundtrace_hostile" in full.stderr


def test_traces_come_in_through_standard_input(folder: Path) -> None:
    """Standard input has no home, so --to says where scores go."""
    spans = (folder / "spans.jsonl").read_bytes()
    refused = groundtrace("run otel:-", folder, stdin=spans)
    assert refused.returncode == 2
    assert "--to" in refused.stderr
    done = groundtrace("run otel:- --to jsonl:out.jsonl", folder, stdin=spans)
    assert "5 traces read" in done.stdout


def test_records_are_scored_without_any_trace(folder: Path) -> None:
    """Query, context and answer are enough."""
    done = groundtrace("run records.jsonl", folder)
    assert "1 trace read · 1 record" in done.stdout
    card = json.loads((folder / "records.groundtrace.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert (card["record_id"], card["trace_id"]) == ("r1", "r1")


def test_a_terminal_sees_how_far_it_is(folder: Path) -> None:
    """A moving line on stderr that leaves nothing behind on stdout."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "groundtrace.cli", "run", "spans.jsonl"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=theirs) as running:
        os.close(theirs)
        said = b""
        while True:
            try:
                said += os.read(ours, 4096)
            except OSError:  # the other end of a terminal closes like this
                break
        printed, _ = running.communicate()
    os.close(ours)
    assert b"traces read" in said
    assert running.returncode == 0
    assert b"\x1b" not in printed


# --- show -----------------------------------------------------------------------------------------------------------


def test_show_prints_each_thing_with_where_it_stood(folder: Path) -> None:
    """Query, passages, answer, citations and gaps, with span and attribute."""
    before = sorted(path.name for path in folder.iterdir())
    done = groundtrace("show spans.jsonl", folder)
    assert "from input.value, span" in done.stdout
    assert "from logs: gen_ai.output.messages, span" in done.stdout
    assert "cites [2] at 71: rooms" in words(done.stdout)
    assert "gap answer: truncated; raise OTEL_" in words(done.stdout)
    assert "5 traces read" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == before


def test_show_says_once_what_all_fields_lack_for_the_same_reason(folder: Path) -> None:
    """A trace in a foreign vocabulary: whose spans they are, and what would help."""
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "x"}
    held = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "ai"}, "spans": [span]}]}]}
    (folder / "foreign.jsonl").write_text(json.dumps(held), encoding="utf-8")
    told = words(groundtrace("show foreign.jsonl", folder).stdout)
    assert "gap query, context, answer: not_instrumented; no span speaks of a request" in told
    assert told[: told.index("1 trace read")].count("docs/plan.md") == 1


def test_show_as_json_is_one_object_a_record(folder: Path) -> None:
    """The shape other programs rely on."""
    done = groundtrace("show spans.jsonl --json", folder)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 5
    assert all(set(one) == FIELDS for one in told)
    first = told[0]
    assert set(first["context"][0]) == {"id", "text"}
    assert set(first["citations"][0]) == {"start", "end", "marker", "passage_id"}
    cited = first["citations"][0]
    assert first["answer"][cited["start"] : cited["end"]] == cited["marker"]
    assert {gap["field"] for gap in told[-1]["gaps"]} >= {"answer"}


PLAN = """
sources = "spans.jsonl"
[conventions.mine]
spans = {{ name = "generate" }}
query = "app.in.question"
answer = "app.answer"
context = "app.docs[*]"
examples = [{{ attributes = {{ "app.in" = {{ question = "Who?" }} }}, expect = {{ query = "{expected}" }} }}]
"""


@pytest.fixture
def own(folder: Path) -> Path:
    """The folder with a plan that maps spans of an application's own making, and these spans."""
    (folder / "plan.toml").write_text(PLAN.format(expected="Who?"), encoding="utf-8")
    held = {"app.in": '{"question": "Are dogs free?"}', "app.reply": "Yes [1]."}
    passages = {"arrayValue": {"values": [{"stringValue": '{"text": "Dogs travel for free."}'}]}}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in held.items()]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "generate"}
    span["attributes"] = [*attributes, {"key": "app.docs", "value": passages}]
    line = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    (folder / "own.jsonl").write_text(line + "\n", encoding="utf-8")
    return folder


def test_show_reads_by_the_mappings_of_a_plan(own: Path) -> None:
    """What stands at its paths, and for a path that leads nowhere what stands there instead."""
    told = words(groundtrace("show own.jsonl --plan plan.toml", own).stdout)
    assert f"query Are dogs free? from app.in.question, span {'b' * 16}" in told
    assert "Dogs travel for free. from app.docs[*], span" in told
    assert (
        "gap answer: not_found; mapping mine finds no answer at app.answer of span generate: "
        "the span holds app.in, app.reply, app.docs; record it there, or mend conventions.mine.answer in the plan"
    ) in told
    assert "5 traces read" in groundtrace("show plan.toml", own).stdout


def test_run_takes_sources_beside_a_plan(own: Path) -> None:
    """`--plan` says what the line does not."""
    (own / "plan.toml").write_text(PLAN.format(expected="Who?").replace('app.answer"', 'app.reply"'), encoding="utf-8")
    told = json.loads(groundtrace("run own.jsonl --plan plan.toml --to jsonl:out.jsonl --json", own).stdout)
    assert (told["traces"], told["records"]) == (1, {"answer": 1})
    assert told["cards"]["source_support"] == {"scored": 1}
    done = groundtrace("run plan.toml --plan plan.toml", own)
    assert (done.returncode, "stands beside other sources" in done.stderr) == (2, True)


def test_a_mapping_that_does_not_read_its_own_example_never_starts(own: Path) -> None:
    """One line with the example and the difference."""
    (own / "plan.toml").write_text(PLAN.format(expected="What?"), encoding="utf-8")
    done = groundtrace("run plan.toml", own)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("groundtrace: conventions.mine.examples[1].query: 'Who?' is read where 'What?' is")


def test_show_calls_a_summary_and_its_source_by_their_names(folder: Path) -> None:
    """Also where one of them is missing."""
    lines = [{"source": ["One.", "Two."], "summary": "Both.", "key_facts": ["One"]}, {"summary": "Both."}]
    (folder / "sums.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    told = words(groundtrace("show sums.jsonl", folder).stdout)
    assert "source p-" in told
    assert "summary Both. must hold One" in told
    assert "gap source: not_given; give the record its source" in told
    assert "2 records (2 of kind summary)" in told


def test_a_run_whose_rubrics_are_for_other_records_says_so(folder: Path) -> None:
    """An empty table would say nothing."""
    done = groundtrace("run records.jsonl --rubric summary_groundedness --to jsonl:out.jsonl", folder)
    assert done.returncode == 0
    assert "No record is of a kind that these rubrics are for." in done.stdout


def test_a_rubric_that_found_no_record_of_its_kind_is_named(folder: Path) -> None:
    """Beside others that did; of a plan that names none, nobody expects all four."""
    line = "run records.jsonl --rubric summary_groundedness --rubric source_support --to jsonl:out.jsonl"
    assert "No record is of a kind that is judged by summary_groundedness." in groundtrace(line, folder).stdout
    assert "No record is" not in groundtrace("run records.jsonl --to jsonl:out.jsonl", folder).stdout


def spans(path: Path, scope: str, attributes: dict[str, str], count: int = 1) -> None:
    """A file of traces of one span each."""
    held = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    lines = []
    for n in range(count):
        span = {"traceId": f"{n + 1:032x}", "spanId": "b" * 16, "name": "x", "attributes": held}
        lines.append(json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [span]}]}]}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("scope", "attributes", "why", "seen"),
    [
        ("apollo.app", {"ai.prompt": "Who?", "ai.text": "Ada."}, "no installed convention reads them", "apollo.app"),
        ("", {"my.prompt": "Who?", "your.text": "Ada."}, "no installed convention reads them", "my, your"),
        (
            "fetch",
            {"http.method": "GET", "url.full": "/"},
            "only HTTP, databases and the like, no request or call to a model",
            "http, url",
        ),
        (
            "openinference",
            {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "e"},
            "only steps such as embedding, no request or call to a model",
            "embedding",
        ),
    ],
)
def test_traces_nobody_reads_are_counted_with_what_was_seen(
    folder: Path, scope: str, attributes: dict[str, str], why: str, seen: str
) -> None:
    """They do not vanish behind a kind; what to do stands beside."""
    spans(folder / "odd.jsonl", scope, attributes, 3)
    told = words(groundtrace("run odd.jsonl", folder).stdout)
    how = "groundtrace show SOURCE --explain TRACE_ID shows what its spans say"
    assert f"Not read whole 3 x traces: {why} seen: {seen} {how}" in told
    assert json.loads(groundtrace("run odd.jsonl --json", folder).stdout)["unread"] == {why: {seen: 3}}


# --- plugins, help --------------------------------------------------------------------------------------------------


def test_plugins_are_listed_with_who_brought_them(folder: Path) -> None:
    """Also other people's."""
    site = neighbours.unpack("neighbour", folder)
    done = groundtrace("plugins", folder, env={"PYTHONPATH": str(site)})
    assert ["judge", "silent", "groundtrace-neighbour", "1.2.0"] in [line.split() for line in done.stdout.splitlines()]


def test_the_version_is_told(folder: Path) -> None:
    """On the command line and in Python."""
    import groundtrace as package

    assert groundtrace("--version", folder).stdout == f"groundtrace {package.__version__}\n"


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    """Asking what there is costs nothing."""
    code = (
        "import sys\nfrom groundtrace.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'opentelemetry', 'langsmith', 'rapidfuzz', 'rich.progress', 'groundtrace.evaluate'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# --- trouble --------------------------------------------------------------------------------------------------------


def test_a_folder_that_takes_no_files_is_exit_code_3(folder: Path) -> None:
    """Scores that could not be written are told."""
    done = groundtrace("run spans.jsonl --to otel:/proc/nowhere", folder)
    assert done.returncode in (2, 3)  # refused before the run, or failed in it, as the system tells
    assert "/proc/nowhere" in done.stderr


def test_a_window_without_traces_says_so(folder: Path) -> None:
    """Nothing is not everything."""
    done = groundtrace("run spans.jsonl --since 2030-01-01", folder)
    assert done.returncode == 0
    assert "Nothing was found to judge." in done.stdout


def test_reasons_are_not_called_scores(tmp_path: Path) -> None:
    """Of what could not be judged it is written why."""
    (tmp_path / "bare.jsonl").write_text('{"query": "Why?", "answer": "Because."}\n', encoding="utf-8")
    done = groundtrace("run bare.jsonl --rubric source_support --to otel:out", tmp_path)
    assert "no score; 1 reason why written  otel:out" in done.stdout


@pytest.mark.parametrize("command", ["run", "show", "run --dry-run"])
def test_a_sample_that_holds_nothing_says_so(folder: Path, command: str) -> None:
    """Of a platform a tenth is looked at when nobody says: of ten traces that may be none."""
    done = groundtrace(f"{command} spans.jsonl --sample 0", folder)
    assert done.returncode == 0
    assert "--sample 1 looks at all." in done.stdout
    assert "Nothing was found" not in done.stdout


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("run", "plan: 'sources' is missing; say what to read"),
        ("run nowhere.jsonl", "source: 'nowhere.jsonl' does not exist here"),
        ("run span.jsonl", "did you mean 'spans.jsonl'?"),
        ("run otel:nowhere.jsonl", "'nowhere.jsonl' does not exist"),
        ("run otle:spans.jsonl", "source: 'otle' is not installed; did you mean 'otel'?"),
        ("run spans.jsonl --judge offline,x=1", "judge offline: 'x' is no option of it; it has none"),
        (
            "run spans.jsonl --judge ofline",
            "judge: 'ofline' is not installed; did you mean 'offline'? Valid: anthropic, ",
        ),
        (
            "run spans.jsonl --rubric source_suport",
            "rubric: 'source_suport' is not installed; did you mean 'source_sup",
        ),
        ("run spans.jsonl --to jsnl:x", "sink: 'jsnl' is not installed; did you mean 'jsonl'?"),
        ("run spans.jsonl --sample 2", "sample: 2.0 does not fit: must be 1 or less"),
        ("run spans.jsonl --since soon", "since: 'soon' does not fit: is no time"),
        ("run plan.toml", "plan: 'plan.toml' cannot be read: No such file or directory"),
        ("run plan.toml spans.jsonl", "source: 'plan.toml' is a plan and stands beside other sources"),
        ("run empty.jsonl", "source: 'empty.jsonl' is empty"),
        ("run bare", "source: 'bare' holds no files of traces or records; *.jsonl, *.ndjson and *.json are read"),
        ("run odd.jsonl", "source: 'odd.jsonl' holds no traces or records that an installed source recognises"),
        ("run spans.jsonl.xz", "source: 'spans.jsonl.xz' is compressed in a way that is not read: gz and zst are"),
        ("run spans.jsonl.bz2", "source: 'spans.jsonl.bz2' is compressed in a way that is not read: gz and zst are"),
        ("run /proc/self/mem", "source: '/proc/self/mem' can't be read (Input/output error)"),
        ("show nowhere.jsonl", "source: 'nowhere.jsonl' does not exist here"),
    ],
)
def test_a_bad_command_is_one_clear_line_and_exit_code_2(folder: Path, line: str, says: str) -> None:
    """And nothing was done."""
    (folder / "empty.jsonl").touch()
    (folder / "bare").mkdir()
    (folder / "odd.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    for packed, ending in ((lzma.compress(b"{}"), "xz"), (bz2.compress(b"{}"), "bz2")):
        (folder / f"spans.jsonl.{ending}").write_bytes(packed)
    before = sorted(path.name for path in folder.iterdir())
    done = groundtrace(line, folder)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in folder.iterdir()) == before


def test_every_fault_of_a_command_has_its_line(folder: Path) -> None:
    """All in one go."""
    done = groundtrace("run nowhere.jsonl --sample 2 --since soon", folder)
    assert [line[:20] for line in done.stderr.splitlines()] == [
        "groundtrace: source:",
        "groundtrace: sample:",
        "groundtrace: since: ",
    ]


def test_a_platform_that_gives_out_is_exit_code_3_with_what_was_scored(folder: Path) -> None:
    """The summary is still printed."""
    site = neighbours.unpack("neighbour", folder)
    done = groundtrace("run neighbour:5,fail_after=2 --to jsonl:out.jsonl", folder, env={"PYTHONPATH": str(site)})
    assert done.returncode == 3
    assert done.stderr == "groundtrace: reading neighbour: neighbour: the door is locked\n"
    assert "2 traces read" in done.stdout


def test_ctrl_c_is_exit_code_130_without_a_traceback(folder: Path) -> None:
    """The usual code of an interrupted program."""
    line = json.dumps(RECORD)
    with (folder / "many.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(f'{line[:-1]}, "n": {n}}}\n' for n in range(20_000))
    command = [sys.executable, "-m", "groundtrace.cli", "run", "jsonl:many.jsonl"]
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # a shell that runs the tests in the background ignores the signal, and its children inherit that
    piped["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, cwd=folder, **piped) as running:
        while not (folder / "many.groundtrace.jsonl").exists():
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, trouble = running.communicate(timeout=30)
    assert running.returncode == 130
    how = "Go on with: groundtrace run --resume"
    assert trouble.splitlines()[-1].startswith(
        f"groundtrace: stopped; what was in flight is finished and kept. {how} (run "
    )
    assert trouble.rstrip().endswith(f", in {folder})")
    assert "Traceback" not in trouble


def test_a_second_ctrl_c_says_how_to_go_on_too(capsys: pytest.CaptureFixture[str]) -> None:
    """The run is in the store as much as after the first."""
    how = "groundtrace run --resume"
    with pytest.raises(typer.Exit) as left, _border(), life.stoppable(how):
        list(map(signal.raise_signal, [signal.SIGINT] * 2))
    assert left.value.exit_code == 130
    said = f"groundtrace: stopped; what was written before stays. Go on with: {how}"
    assert capsys.readouterr().err.splitlines()[-1] == said


def test_a_cascade_of_one_judge_is_refused_before_anything_starts(folder: Path) -> None:
    """Also where nothing would be asked."""
    for line in ("run records.jsonl --cascade offline", "run records.jsonl --cascade offline --dry-run"):
        done = groundtrace(line, folder)
        assert done.returncode == 2
        assert "is the judge that is asked first; name another judge" in done.stderr
    assert not (folder / "records.groundtrace.jsonl").exists()


def test_a_provider_that_speaks_openais_api_is_said_to(folder: Path) -> None:
    """A misspelt name is another matter."""
    said = "it speaks OpenAI's API: write openai:MODEL,base_url=ADDRESS"
    assert said in groundtrace("run records.jsonl --judge ollama:qwen3", folder).stderr
    assert said not in groundtrace("run records.jsonl --judge ofline", folder).stderr


def test_a_folder_that_cannot_be_made_is_found_before_judging(folder: Path) -> None:
    """And is named once; a dry run leaves none behind."""
    name = "a" * 300
    done = groundtrace(f"run records.jsonl --to otel:{name}", folder)
    assert (done.returncode, done.stdout, done.stderr.count(name)) == (2, "", 1)
    assert "can't be made" in done.stderr
    assert groundtrace("run records.jsonl --to otel:new/er --dry-run", folder).returncode == 0
    assert not (folder / "new").exists()


def test_show_prints_what_a_record_is_weighed_and_compared_by(folder: Path) -> None:
    """Risk where it is high, tags, slices; a word that is no risk is told. Lines end where their text does."""
    records = [RECORD | {"risk": "hihg", "tags": ["a", "b"], "slices": {"team": "x"}}, RECORD | {"id": "r2"}]
    (folder / "two.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    done = groundtrace("show two.jsonl", folder)
    first, second = done.stdout.split("trace      r2")
    assert "risk       high\ntags       a, b\nslices     team=x\n" in first
    assert not {"risk ", "tags ", "slices "} & {line[:7] for line in second.splitlines()}
    assert "1 record has a risk that is neither normal nor high (line 1): taken as high" in done.stderr
    assert done.stdout.splitlines() == [line.rstrip() for line in done.stdout.splitlines()]


def test_short_lines_cost_the_spread_before_the_names(folder: Path) -> None:
    """A score's name cut in two can't be looked up."""
    wide, narrow = (groundtrace("run records.jsonl", folder, env={"COLUMNS": n}).stdout for n in ("100", "62"))
    assert "Spread" in wide
    assert "Spread" not in narrow
    assert "rag_faithfulness.assessed " in narrow


def test_a_low_score_is_shown_in_hundredths(folder: Path) -> None:
    """0.3333 of 1 is more than anybody knows."""
    low = Low(0.3333, "r", "c", "r.part", 0.3333, 1, "", "why", "id", "t", None)
    Console(file=(out := io.StringIO())).print(printed.summary(Report(traces=1, lowest=(low,))))
    assert "0.33 of 1" in out.getvalue()


DAMAGED = {
    "torn.jsonl": b'{"resourceSpans": [\n',
    "binary.jsonl": bytes(range(256)) * 20,
    "array.jsonl": b"[1, 2, 3]\n",
    "logs.jsonl": resources.files("groundtrace.data").joinpath("demo.logs.jsonl").read_bytes(),
    "null.jsonl": b"null\n\n\n",
    "deep.jsonl": b"[" * 100_000,
}


@pytest.mark.parametrize("name", [*DAMAGED, "cut.jsonl.gz"])
def test_a_damaged_file_is_told_and_costs_nothing_else(folder: Path, name: str) -> None:
    """The good file beside it is read; what is lost has a line."""
    damaged = folder / "in" / name
    damaged.parent.mkdir()
    shutil.copy(folder / "spans.jsonl", damaged.with_name("good.jsonl"))
    packed = gzip.compress((folder / "records.jsonl").read_bytes() * 50)
    damaged.write_bytes(DAMAGED.get(name, packed[: len(packed) // 2]))
    done = groundtrace("run otel:in --to jsonl:out.jsonl --verbose", folder)
    assert done.returncode == 0
    assert "5 traces read" in done.stdout
    assert name in done.stderr
    assert name not in done.stdout
    alone = groundtrace(f"run otel:in/{name} --to jsonl:alone.jsonl", folder)
    assert alone.returncode == 0
    assert "0 traces read" in alone.stdout
    assert name in alone.stderr


def test_hostile_text_is_shown_and_not_obeyed(folder: Path) -> None:
    """Escape sequences, direction marks, markup, half characters: nothing reaches the terminal as an order."""
    hostile = "\x1b[31mred\x07 \u202eback [bold]markup[/bold] \x9b2J \x00 end"
    record = {"id": "h", "query": hostile, "context": [hostile], "answer": f"{hostile} [1]."}
    (folder / "hostile.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    for command in ("show jsonl:hostile.jsonl", "run jsonl:hostile.jsonl --to jsonl:out.jsonl"):
        done = groundtrace(command, folder)
        assert done.returncode == 0
        assert not set(done.stdout) & set("\x1b\x07\u202e\x9b\x00")
    shown = groundtrace("show jsonl:hostile.jsonl", folder).stdout
    assert "[bold]markup[/bold]" in shown
    assert r"\x1b[31mred" in shown


def test_text_that_the_terminal_cannot_hold_is_escaped(folder: Path) -> None:
    """Half characters, and letters a narrow encoding lacks."""
    odd = {"query": "half \ud800", "context": ["café"], "answer": "café [1]"}
    (folder / "odd.jsonl").write_text(json.dumps(odd) + "\n", encoding="utf-8")
    for command in ("show jsonl:odd.jsonl", "show jsonl:odd.jsonl --json", "run jsonl:odd.jsonl --to jsonl:out.jsonl"):
        done = groundtrace(command, folder, env={"PYTHONIOENCODING": "ascii"})
        assert done.returncode == 0
        assert done.stdout
        assert done.stdout.isascii()


def test_an_answer_of_a_megabyte_is_shown_short(folder: Path) -> None:
    """Nobody scrolls through it, and it is still judged."""
    record = {**RECORD, "answer": "Dogs travel for free [1]. " * 40_000}
    (folder / "long.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    done = groundtrace("show jsonl:long.jsonl", folder)
    assert done.returncode == 0
    assert len(done.stdout) < 200_000


def test_a_reader_that_leaves_early_is_no_trouble(folder: Path) -> None:
    """`groundtrace show FILE | head -1`: nothing on stderr, and the exit code of a command that did its work."""
    many = "".join(json.dumps({**RECORD, "id": f"r{n}", "answer": "Free [1]. " * 2000}) + "\n" for n in range(60))
    (folder / "many.jsonl").write_text(many, encoding="utf-8")
    for command in ("show many.jsonl --json", "show many.jsonl", "run spans.jsonl"):
        program = [sys.executable, "-m", "groundtrace.cli", *command.split()]
        with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as left:
            assert left.stdout
            if command.startswith("show"):
                assert left.stdout.readline()
            left.stdout.close()
            assert left.stderr
            assert left.stderr.read() == ""
        assert left.returncode == 0


@pytest.mark.parametrize("command", ["show spans.jsonl", "show spans.jsonl --json", "run spans.jsonl", "plugins"])
def test_a_full_disk_behind_the_output_is_one_line(folder: Path, command: str) -> None:
    """And exit code 3: what was asked for is not there."""
    done = groundtrace(f"{command} > /dev/full", folder)
    assert (done.returncode, done.stderr) == (
        3,
        "groundtrace: the output can't be written: No space left on device\n",
    )


def test_quiet_still_says_what_was_lost(folder: Path) -> None:
    """Silence means that everything was read."""
    lines = [json.dumps(RECORD), "torn {", '{"answer": 1', "5"]
    (folder / "torn.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = groundtrace("run torn.jsonl --quiet", folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "groundtrace: torn.jsonl: 1 line is no record (line 4): skipped; one holds query, context, answer, summary",
        "groundtrace: torn.jsonl: 2 lines are not JSON (lines 2, 3): skipped",
    ]


def test_the_files_that_were_written_are_named(folder: Path) -> None:
    """One can open them, and find them beside the traces."""
    assert (
        "written  spans.groundtrace.logs.jsonl, spans.groundtrace.jsonl"
        in groundtrace("run spans.jsonl", folder).stdout
    )


def test_what_a_shell_expands_is_read_as_one_and_our_own_files_are_left_out(folder: Path) -> None:
    """The second `run *.jsonl` finds the files of the first."""
    for _ in range(2):
        done = groundtrace("run spans.jsonl spans.logs.jsonl records.jsonl *.groundtrace.jsonl", folder)
        assert done.returncode in (0, 2)
    names = sorted(path.name for path in folder.glob("*.jsonl"))
    done = groundtrace(f"run {' '.join(names)}", folder)
    assert done.returncode == 0
    assert "6 traces read · 6 records" in done.stdout


def test_a_home_that_takes_no_files_is_refused_before_anything_is_judged(folder: Path) -> None:
    """With what to write instead."""
    (folder / "spans.groundtrace.logs.jsonl").mkdir()
    done = groundtrace("run spans.jsonl", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'spans.groundtrace.logs.jsonl' can't be written to; name a place that is yours: --to" in done.stderr


def test_plain_text_keeps_its_letters() -> None:
    """Only what a terminal would obey is escaped."""
    assert plain("naïve 你好 👩‍🔬 עברית") == "naïve 你好 👩‍🔬 עברית"
    assert plain("a\ud800b") == r"a\ud800b"


def test_remedies_that_differ_in_numbers_are_one_line_and_many_are_cut() -> None:
    """The report of a bad day fits a screen."""
    failed = {f"the call failed: {code} after {n} s": 1 for n in range(10) for code in "abcdefgh"}
    out = Console(width=100, record=True, file=io.StringIO())
    out.print(printed.summary(Report(traces=80, records={"answer": 80}, gaps={"answer: error": failed})))
    told = out.export_text()
    assert "the call failed: a after 0 s (10 x)" in told
    assert told.count("the call failed") == 5
    assert "... and 3 more kinds; --verbose shows them" in told
