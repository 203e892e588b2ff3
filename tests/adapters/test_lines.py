"""Files of JSON texts: found, unpacked, read in spite of damage, and every loss told."""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
import random
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.adapters import lines
from groundtrace.adapters.files import Place, companions, find, join
from groundtrace.adapters.lines import NOT_JSON, Losses, Problem, texts
from groundtrace.errors import PlanError

NUMBERED = [json.dumps({"n": n, "text": "something said " * 5}) for n in range(2_000)]
WHOLE = "\n".join(NUMBERED).encode()


def read(file: Path | None, line_mb: int = lines.LINE_MB) -> tuple[list[bytes], tuple[str, ...]]:
    """The texts of a file and what was told of the rest."""
    losses = Losses()
    return [text.data for text in texts(file, losses, line_mb)], losses.notes()


# --- where to read --------------------------------------------------------------------------------------------------


def test_a_literal_path_wins_over_a_glob(tmp_path: Path) -> None:
    """A file may be named like a pattern."""
    (tmp_path / "a[1].jsonl").write_text("{}")
    (tmp_path / "a1.jsonl").write_text("{}")
    assert find(str(tmp_path / "a[1].jsonl")).kind == "file"
    assert find(str(tmp_path / "a[12].jsonl")).files() == (tmp_path / "a1.jsonl",)


def test_a_folder_gives_its_trace_files_and_no_others(tmp_path: Path) -> None:
    """Our own output, hidden files and other people's files are left alone."""
    for name in ("b.jsonl", "a.json.gz", "c.ndjson.zst", "notes.txt", ".hidden.jsonl", "x.groundtrace.jsonl",
                 "x.groundtrace.logs.jsonl"):  # fmt: skip
        (tmp_path / name).write_text("{}")
    (tmp_path / "deeper.jsonl").mkdir()
    assert [file.name for file in find(str(tmp_path)).files()] == ["a.json.gz", "b.jsonl", "c.ndjson.zst"]


def test_a_glob_goes_through_folders_where_it_says_so(tmp_path: Path) -> None:
    """Two stars go down; our own output is skipped there too."""
    (tmp_path / "one" / "two").mkdir(parents=True)
    (tmp_path / "one" / "two" / "deep.jsonl").write_text("{}")
    (tmp_path / "one" / "own.groundtrace.jsonl").write_text("{}")
    assert [file.name for file in find(f"{tmp_path}/**/*.jsonl").files()] == ["deep.jsonl"]


def test_only_files_are_at_hand(tmp_path: Path) -> None:
    """A writer may let standard input and a pipe wait."""
    (tmp_path / "a.jsonl").touch()
    os.mkfifo(tmp_path / "pipe")
    places = ["-", str(tmp_path), str(tmp_path / "a.jsonl"), f"{tmp_path}/*.jsonl", str(tmp_path / "pipe")]
    assert [find(place).is_at_hand for place in places] == [False, True, True, True, False]
    both = join(find(places[1]), find(places[2])), join(find(places[2]), find(places[4]))
    assert [place is not None and place.is_at_hand for place in both] == [True, False]


def test_one_file_found_under_two_names_is_read_once(tmp_path: Path) -> None:
    """A link is not a second file."""
    (tmp_path / "a.jsonl").write_text("{}")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "a.jsonl")
    assert len(find(str(tmp_path)).files()) == 1


@pytest.mark.parametrize("path", ["", "nothing.jsonl", "*.nothing", "a\0b", "a" * 5_000])
def test_a_path_that_leads_nowhere_is_a_plan_error(path: str) -> None:
    """A bad plan never starts a run."""
    with pytest.raises(PlanError):
        find(path)


def test_a_missing_file_is_told_with_the_one_that_looks_like_it(tmp_path: Path) -> None:
    """The nearest name is offered."""
    (tmp_path / "spans.jsonl").write_text("{}")
    with pytest.raises(PlanError, match=r"does not exist; did you mean '.*/spans\.jsonl'"):
        find(str(tmp_path / "span.jsonl"))


@pytest.mark.parametrize(
    ("path", "folder", "stem"),
    [
        ("in/x.jsonl", "in", "x"),
        ("in/x.jsonl.gz", "in", "x"),
        ("in/x.y.json.zst", "in", "x.y"),
        ("in/spans.txt", "in", "spans.txt"),
        ("in", "in", "in"),
        ("in/*.jsonl", "in", "in"),
        ("in/**/x*.jsonl", "in", "in"),
        ("*/x.jsonl", ".", "here"),
        (".", ".", "here"),
    ],
)
def test_what_is_written_stands_beside_what_was_read(
    path: str, folder: str, stem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's output has its name, a folder's or a glob's the folder's."""
    here = tmp_path / "here"
    (here / "in").mkdir(parents=True)
    for name in ("x.jsonl", "x.jsonl.gz", "x.y.json.zst", "spans.txt"):
        (here / "in" / name).write_text("{}")
    monkeypatch.chdir(here)
    assert find(path).home() == (Path(folder), stem)


def test_standard_input_has_no_place_to_write_beside() -> None:
    """The error says what to add."""
    with pytest.raises(PlanError, match="--to otel:FOLDER"):
        find("-").home()


def test_several_places_have_the_home_of_the_folder_that_holds_them(tmp_path: Path) -> None:
    """One file in two spellings is one file."""
    files = [tmp_path / "in" / "a" / "x.jsonl", tmp_path / "in" / "a" / "y.jsonl", tmp_path / "in" / "b" / "x.jsonl"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    x, y, z = (find(str(file)) for file in files)
    folder = tmp_path / "in"
    for places, home in (
        ((x, find(f"{folder}/b/../a/x.jsonl")), (folder / "a", "x")),
        ((x, y), (folder / "a", "a")),
        ((x, y, z), (folder, "in")),
        ((x, find(str(folder / "a"))), (folder / "a", "a")),
        ((z, find(f"{folder}/*/*.jsonl")), (folder, "in")),
    ):
        joined = functools.reduce(joined_place, places)
        assert joined.home() == home
        assert len({file.resolve() for file in joined.files()}) == len(joined.files())
    assert join(x, find("-")) is None


def joined_place(one: Place, more: Place) -> Place:
    """Two places that can be joined."""
    both = join(one, more)
    assert both is not None
    return both


# --- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.jsonl.zst", "misnamed.jsonl"])
def test_a_file_is_unpacked_by_its_first_bytes(name: str, tmp_path: Path) -> None:
    """Names lie, first bytes don't."""
    file = tmp_path / name
    packed = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}.get(name.rpartition(".")[2])
    file.write_bytes(packed(WHOLE) if packed else gzip.compress(WHOLE) if "misnamed" in name else WHOLE)
    assert read(file) == ([line.encode() for line in NUMBERED], ())


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
def test_packed_streams_may_follow_each_other(pack: object, tmp_path: Path) -> None:
    """Rotated archives are often joined with cat."""
    assert callable(pack)
    file = tmp_path / "x"
    file.write_bytes(pack(WHOLE + b"\n") + pack(WHOLE))
    found, notes = read(file)
    assert len(found) == 2 * len(NUMBERED)
    assert not notes


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_what_a_cut_archive_still_holds_is_read(pack: object, share: float, tmp_path: Path) -> None:
    """A full disk leaves half an archive; its half still counts."""
    assert callable(pack)
    written = [json.dumps(random.Random(n).randbytes(200).hex()).encode() for n in range(2_000)]
    packed = pack(b"\n".join(written))
    file = tmp_path / "x"
    file.write_bytes(packed[: int(len(packed) * share)])
    found, notes = read(file)
    assert len(found) > len(written) * share / 2
    assert found[:-1] == written[: len(found) - 1]
    assert f"{file}: the compressed data ends early: what stood before was read" in notes


def test_a_damaged_archive_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    """And it is said that what came out may be wrong."""
    packed = gzip.compress(WHOLE)
    file = tmp_path / "x.gz"
    file.write_bytes(packed[:3_000] + b"\xff" * 40 + packed[3_040:])
    found, notes = read(file)
    assert found[0] == NUMBERED[0].encode()
    assert any("damaged" in note for note in notes)


def test_an_archive_that_unpacks_to_more_than_memory_holds_is_bounded(tmp_path: Path) -> None:
    """A few kilobytes can't fill the memory."""
    file = tmp_path / "bomb.zst"
    file.write_bytes(zstandard.ZstdCompressor().compress(b"0" * (300 << 20) + b"\n{}\n"))
    assert file.stat().st_size < 50_000
    found, notes = read(file, line_mb=1)
    assert found == [b"{}"]
    assert notes == (f"{file}: 1 line is too long (line 1): skipped; the option line_mb raises the limit",)


def test_a_line_over_the_limit_is_skipped_and_its_neighbours_are_read(tmp_path: Path) -> None:
    """Memory is bounded, the rest is not lost."""
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"[1]\n" + b"[" + b"2," * (1 << 20) + b"2]\n[3]\n" + b"4" * (1 << 20 | 1))
    found, notes = read(file, line_mb=1)
    assert found == [b"[1]", b"[3]"]
    assert notes == (f"{file}: 2 lines are too long (lines 2, 4): skipped; the option line_mb raises the limit",)


def test_a_text_over_several_lines_may_be_as_long_as_a_line(tmp_path: Path) -> None:
    """One limit for both layouts."""
    file = tmp_path / "x.json"
    file.write_text(json.dumps(["y" * 50] * 40_000, indent=1))
    assert read(file, line_mb=1)[1] == (
        f"{file}: holds one JSON text that is too long: skipped; the option line_mb raises the limit",
    )
    assert len(read(file, line_mb=3)[0]) == 1


def test_a_file_that_is_gone_or_closed_to_us_is_told(tmp_path: Path) -> None:
    """Trouble with one file is no exception."""
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    found, notes = read(loop)
    assert not found
    assert notes[0].startswith(f"{loop}: can't be read (")


def test_standard_input_is_read_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed or not, any line ends; read twice, it is empty."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(b"[1]\r\n[2]"))))
    assert read(None) == ([b"[1]", b"[2]"], ())
    assert read(None) == ([], ("standard input: is empty: nothing to read",))


def test_a_text_knows_where_it_starts(tmp_path: Path) -> None:
    """Line numbers are those of the file, blank lines counted."""
    file = tmp_path / "x.json"
    file.write_text('\n{\n "a": 1\n}\n\n{\n "b": 2\n}{"c": 3}\n')
    losses = Losses()
    assert [(text.line, json.loads(text.data)) for text in texts(file, losses)] == [
        (2, {"a": 1}),
        (6, {"b": 2}),
        (8, {"c": 3}),
    ]
    assert not losses.notes()


PIECES = st.sampled_from([b'{"a": 1}', b"{", b"[1,", b"", b"\0", b"\xff", b'"x"', b"]"])


@settings(deadline=None)  # a disk has its own pace
@given(st.lists(PIECES, max_size=12), st.sampled_from([b"\n", b"\r\n"]))
def test_whatever_a_file_holds_its_whole_lines_are_given(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], end: bytes
) -> None:
    """Damage never spreads to the next line."""
    file = tmp_path_factory.mktemp("any") / "x.jsonl"
    file.write_bytes(end.join([b'{"first": 0}', *pieces]))
    found, _ = read(file)
    assert found[0] == b'{"first": 0}'
    assert found.count(b'{"a": 1}') == pieces.count(b'{"a": 1}')


@settings(deadline=None)  # a disk has its own pace
@given(cut=st.integers(min_value=0, max_value=len(WHOLE)))
def test_a_file_cut_anywhere_gives_every_line_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    """A torn end costs one line at most."""
    file = tmp_path_factory.mktemp("cut") / "x.jsonl"
    file.write_bytes(WHOLE[:cut])
    found, _ = read(file)
    whole = WHOLE[:cut].count(b"\n")
    assert found[:whole] == [line.encode() for line in NUMBERED[:whole]]
    assert len(found) <= whole + 1


# --- telling --------------------------------------------------------------------------------------------------------


def test_equal_problems_are_counted_together() -> None:
    """One note, a count, the first lines."""
    losses = Losses()
    for line in (4, 9, 12, 13):
        losses.add("a.jsonl", NOT_JSON, line)
    losses.add("b.jsonl", NOT_JSON, 1)
    assert losses.notes() == (
        "a.jsonl: 4 lines are not JSON (lines 4, 9, 12 ...): skipped",
        "b.jsonl: 1 line is not JSON (line 1): skipped",
    )
    assert [(loss.file, loss.count) for loss in losses] == [("a.jsonl", 4), ("b.jsonl", 1)]


def test_a_problem_of_many_files_is_one_note() -> None:
    """A folder of rubbish gives no thousand notes."""
    losses = Losses()
    for number in range(500):
        losses.add(f"{number}.jsonl", NOT_JSON, 1, count=2)
        losses.add(f"{number}.jsonl", Problem("is empty", "", "nothing to read"))
    assert losses.notes() == (
        "500 files (0.jsonl, 1.jsonl, 2.jsonl ...): 1,000 lines are not JSON: skipped",
        "500 files (0.jsonl, 1.jsonl, 2.jsonl ...): is empty: nothing to read",
    )


def test_logs_are_found_beside_their_spans_packed_or_not(tmp_path: Path) -> None:
    """Only under the same name."""
    for name in ("x.jsonl", "x.logs.jsonl", "x.logs.json.gz", "y.logs.jsonl"):
        (tmp_path / name).write_text("{}")
    assert {file.name for file in companions(tmp_path / "x.jsonl")} == {"x.logs.jsonl", "x.logs.json.gz"}
    assert not companions(tmp_path / "y.jsonl.gz")[1:]


def test_standard_input_is_no_file() -> None:
    """It is read where it is, not listed."""
    assert Place("-", "stdin").files() == ()
