"""`groundtrace rubric copy, diff, test`: what a user sees of a rubric of their own, and what is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import neighbours
from terminal import groundtrace

COPY = "rubrics/source_support.toml"
WIDTH = 100


def record(at: int, **fields: Any) -> dict[str, Any]:
    """A record of two cited claims, the first of which is wrong every other time, and one that is uncited."""
    told = f"The night ferry number {at} leaves at 21:{10 + at + at % 2} [1]. Bicycles are free [2]. Dogs are free."
    context = [
        {"id": "p1", "text": f"The night ferry number {at} leaves at 21:{10 + at} every day except Sunday."},
        {"id": "p2", "text": "Bicycles travel free on all crossings."},
    ]
    return {"id": f"r{at}", "query": "When does it leave?", "context": context, "answer": told} | fields


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a golden file of eight records and a copy nobody touched."""
    write(tmp_path, [record(at, label=5 - at % 2 * 2) for at in range(8)])
    assert groundtrace("rubric copy source_support", tmp_path).returncode == 0
    return tmp_path


def write(folder: Path, records: list[dict[str, Any]], name: str = "golden.jsonl") -> None:
    """Records as a file of JSON lines."""
    (folder / name).write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


def change(folder: Path, old: str, new: str, file: str = COPY) -> None:
    """A copy with a text of it replaced."""
    text = (folder / file).read_text("utf-8")
    assert text.count(old) == 1
    (folder / file).write_text(text.replace(old, new), "utf-8")


def comparison(folder: Path, more: str = "") -> dict[str, Any]:
    """What a test says as JSON."""
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl --json {more}", folder)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    told: dict[str, Any] = json.loads(line)
    return told


# --- copy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["factual_accuracy", "rag_faithfulness", "source_support", "summary_groundedness"])
def test_copy_writes_both_files_and_says_what_to_write_in_the_plan(name: str, tmp_path: Path) -> None:
    """What it prints runs as it stands."""
    done = groundtrace(f"rubric copy {name} mine", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(file.name for file in (tmp_path / "mine").iterdir()) == [f"{name}.md", f"{name}.toml"]
    assert all(len(line) <= WIDTH for line in done.stdout.splitlines())
    (line,) = re.findall(r"rubrics = .*", done.stdout)
    write(tmp_path, [record(0), {"id": "s", "source": "It leaves at nine.", "summary": "It leaves at nine."}])
    (tmp_path / "plan.toml").write_text(f'sources = ["jsonl:golden.jsonl"]\n{line}\n', "utf-8")
    ran = groundtrace("run plan.toml --store none --json", tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert name in json.loads(ran.stdout)["cards"]
    (said,) = re.findall(r"groundtrace (rubric diff .*)", done.stdout)
    assert groundtrace(said, tmp_path).stdout.endswith("Nothing differs.\n")


def test_copy_writes_over_nothing(folder: Path) -> None:
    """Whatever the user wrote stays."""
    change(folder, "supported = 4", "supported = 3")
    before = (folder / COPY).read_bytes()
    done = groundtrace("rubric copy source_support", folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'rubrics/source_support.toml' is there already; name another folder" in done.stderr
    assert (folder / COPY).read_bytes() == before


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("rubric copy source_suport", "did you mean 'source_support'?"),
        ("rubric copy source_support golden.jsonl", "cannot be written"),
        ("rubric diff rubrics/none.toml", "cannot be read: No such file or directory"),
        ("rubric diff golden.jsonl", "is not TOML"),
        ("rubric test rubrics/source_support.toml --golden none.jsonl", "none.jsonl"),
        ("rubric test rubrics/source_support.toml --golden golden.jsonl --judge ofline", "did you mean 'offline'?"),
        ("rubric test rubrics/source_support.toml --golden golden.jsonl --against none.toml", "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(line: str, says: str, folder: Path) -> None:
    """Before anything is asked or written."""
    done = groundtrace(line, folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_rubric_without_a_copy_is_named_with_those_that_have_one(folder: Path) -> None:
    """A file of settings for something else."""
    (folder / "other.toml").write_text('rubric = "mine"\n', "utf-8")
    done = groundtrace("rubric diff other.toml", folder)
    assert done.returncode == 2
    assert "other.toml, rubric: 'mine' is no rubric that can be copied; Valid: factual_accuracy" in done.stderr


# --- diff -----------------------------------------------------------------------------------------------------------


def test_diff_shows_the_lines_that_differ_and_both_versions(folder: Path) -> None:
    """Settings first, then the prompt; what says where a copy comes from is no difference."""
    change(folder, "supported = 4", "supported = 3")
    change(folder, "Judge by the passage alone.", "Judge by the passage\x1b[31m.", "rubrics/source_support.md")
    done = groundtrace(f"rubric diff {COPY}", folder)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0].split() == ["built-in", "2.60c3f94d0d11"]
    assert re.fullmatch(rf"copy      2\.[0-9a-f]{{12}}  {COPY}", lines[1])
    assert [line.split("#")[0].strip() for line in lines if line[:2] in ("-s", "+s")] == [
        "-supported = 4",
        "+supported = 3",
    ]
    assert "+- Judge by the passage\\x1b[31m. What you know from elsewhere is not there." in lines
    assert "made_from" not in done.stdout


def test_diff_says_when_only_comments_differ(folder: Path) -> None:
    """They move no score."""
    change(folder, "# the lowest score", "# our own lowest score")
    done = groundtrace(f"rubric diff {COPY}", folder)
    assert done.stdout.endswith("None of this moves a score: the version is the built-in's.\n")


def test_diff_says_when_the_built_in_changed_since_the_copy_was_made(folder: Path) -> None:
    """Some of the lines may not be the user's."""
    change(folder, 'made_from = "2.60c3f94d0d11"', 'made_from = "1.000000000000"')
    done = groundtrace(f"rubric diff {COPY}", folder)
    assert "The copy was made from 1.000000000000; where the built-in changed since then" in done.stdout
    change(folder, 'made_from = "1.000000000000"\n', "")
    assert "does not say what it was made from" in groundtrace(f"rubric diff {COPY}", folder).stdout


# --- test -----------------------------------------------------------------------------------------------------------


def test_a_test_shows_each_score_before_and_after_with_an_interval(folder: Path) -> None:
    """And agreement with people, where they said something; on 100 columns nothing wraps."""
    change(folder, 'pairs = "auto"', 'pairs = "all"')
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(len(line) <= WIDTH for line in done.stdout.splitlines())
    rows = {" ".join(found[0].split()): found[1:] for found in re.findall(
        r"^ (\S.*?)  +(\d+) +([\d.]+) +([\d.]+) *(\S*) *(.*?) *$", done.stdout, re.MULTILINE)}  # fmt: skip
    assert list(rows) == [
        "source_support", "source_support.min", "source_support.citation_precision",
        "agreement with the labels", "records unscored",
    ]  # fmt: skip
    n, before, after, moved, sure = rows["source_support"]
    low, high = map(float, sure.split(" to "))
    assert n == "8"
    assert float(after) - float(before) == pytest.approx(float(moved), abs=0.011)
    assert low <= float(moved) <= high
    assert rows["source_support.citation_precision"][4] == "no change"
    assert "Changed most" in done.stdout
    assert "The offline judge reads no prompt" in done.stdout
    assert f"groundtrace rubric test {COPY} --golden golden.jsonl --adopt" in done.stdout


def test_a_test_of_the_built_in_finds_nothing(folder: Path) -> None:
    """No change is told as none, not as an interval of no width."""
    told = comparison(folder)
    assert {change["change"] for change in told["changes"]} == {0}
    assert {change["interval"] for change in told["changes"]} == {None}
    assert told["moved"] == []
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl", folder)
    assert done.stdout.endswith("The copy is the built-in.\n")


def test_json_holds_all_of_it(folder: Path) -> None:
    """One object; the headline first."""
    change(folder, 'pairs = "auto"', 'pairs = "all"')
    told = comparison(folder)
    first = told["changes"][0]
    assert (first["score"], first["n"], first["clusters"]) == ("source_support", 8, 8)
    assert first["interval"]["low"] <= first["change"] <= first["interval"]["high"]
    assert first["interval"]["level"] == 0.95
    assert told["unscored"] == [0, 0]
    assert told["records"] == 8
    assert 0 <= told["agreement"]["after"] <= 1
    assert len(told["moved"]) == 5
    assert told["versions"][0] == "2.60c3f94d0d11" != told["versions"][1]
    assert told["adopted"] is False


def test_records_of_one_document_count_together(folder: Path) -> None:
    """Eight records of two documents are two, and of one say nothing."""
    change(folder, 'pairs = "auto"', 'pairs = "all"')
    for documents in (2, 1):
        rows = [record(at) for at in range(8)]
        for at, row in enumerate(rows):
            row["context"][0]["metadata"] = {"source": f"timetable {at % documents}"}
        write(folder, rows)
        first = comparison(folder)["changes"][0]
        assert (first["n"], first["clusters"]) == (8, documents)
        assert (first["interval"] is None) == (documents == 1)
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl", folder)
    assert "all of one source" in done.stdout
    assert "count together in the intervals: 8 records of 1 source." in done.stdout


def test_one_record_pretends_to_nothing(folder: Path) -> None:
    """And is nothing to adopt a copy by."""
    change(folder, 'pairs = "auto"', 'pairs = "all"')
    write(folder, [record(0)])
    before = (folder / COPY).read_bytes()
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl", folder)
    assert done.returncode == 0
    assert "too few records" in done.stdout
    assert "Too few records to say anything" in done.stdout
    adopted = groundtrace(f"rubric test {COPY} --golden golden.jsonl --adopt", folder)
    assert (adopted.returncode, adopted.stdout) == (2, "")
    assert "was scored both times on 1 record, and that says nothing" in adopted.stderr
    assert (folder / COPY).read_bytes() == before


def test_adopting_writes_one_line(folder: Path) -> None:
    """Byte for byte the rest stays; tested again, it says so."""
    change(folder, 'pairs = "auto"', 'pairs = "all"')
    before = (folder / COPY).read_bytes()
    told = comparison(folder, "--adopt")
    line = f'adopted = "{told["versions"][1]}"\n'.encode()
    assert told["adopted"] is True
    assert (folder / COPY).read_bytes().replace(line, b"") == before
    assert line in (folder / COPY).read_bytes()
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl", folder)
    assert done.stdout.endswith("This version is adopted already.\n")


def test_a_copy_is_compared_with_another(folder: Path) -> None:
    """And with one of another rubric it is not."""
    assert groundtrace("rubric copy source_support before", folder).returncode == 0
    assert groundtrace("rubric copy rag_faithfulness", folder).returncode == 0
    change(folder, 'pairs = "auto"', 'pairs = "all"')
    change(folder, 'pairs = "auto"', 'pairs = "all"', "before/source_support.toml")
    change(folder, "supported = 4", "supported = 5", "before/source_support.toml")
    told = comparison(folder, "--against before/source_support.toml")
    assert [change["change"] == 0 for change in told["changes"]] == [True, True, False]
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl --against rubrics/rag_faithfulness.toml", folder)
    assert done.returncode == 2
    assert "is a copy of rag_faithfulness, and rubrics/source_support.toml of source_support" in done.stderr


def test_labels_off_the_scale_are_left_out_and_told(folder: Path) -> None:
    """The rest still counts."""
    labels: list[Any] = [5, 3.5, "good", True, 9, None, -1, 4]
    write(folder, [record(at, label=label) for at, label in enumerate(labels)])
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl --json", folder)
    assert json.loads(done.stdout)["agreement"]["n"] == 3
    assert "labels that are no number from 1 to 5 are left out: 4 of 8, such as 'good', True, 9" in done.stderr


def test_records_of_another_kind_and_lines_that_are_none_are_told(folder: Path) -> None:
    """They are no reason to stop; a file with nothing else is."""
    other = [{"id": "s", "source": "It leaves at nine.", "summary": "It leaves at nine."}, {"a": 1}]
    write(folder, [*map(record, range(3)), *other])
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl --json", folder)
    assert json.loads(done.stdout)["records"] == 3
    assert "1 of 4 records are of a kind source_support is not for: left out" in done.stderr
    assert "golden.jsonl" in done.stderr
    write(folder, other)
    none = groundtrace(f"rubric test {COPY} --golden golden.jsonl", folder)
    assert none.returncode == 2
    assert "holds no record for this rubric; source_support is for records of kind answer" in none.stderr


def test_a_record_the_judge_breaks_on_is_unscored_both_times(folder: Path) -> None:
    """Counted, named, and the rest is compared."""
    around = {"PYTHONPATH": str(neighbours.unpack("hostile", folder))}
    write(folder, [record(at, answer=f"The night ferry number {at} leaves at 21:{10 + at} [1].") for at in range(4)])
    done = groundtrace(f"rubric test {COPY} --golden golden.jsonl --judge stumbler:r3 --json", folder, env=around)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["unscored"], told["changes"][0]["n"]) == ([1, 1], 3)
    assert "broke on record r3" in done.stderr
