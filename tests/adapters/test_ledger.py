"""A file that only grows: locked, read back, mended, never written twice."""

from __future__ import annotations

import enum
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import to_json

from groundtrace.adapters.jsonl import JsonlSink
from groundtrace.adapters.ledger import Ledger, Line, Stamp, encode, stamp, writable
from groundtrace.errors import PlanError
from groundtrace.testing import sample_card


def stamps(line: bytes) -> Iterator[tuple[str, Stamp]]:
    """Lines of these tests hold ids and what stands under them."""
    try:
        yield from ((key, Stamp(*value)) for key, value in json.loads(line).items())
    except ValueError:
        return


def ledger(path: Path) -> Ledger:
    """A ledger that knows nothing yet."""
    return Ledger(path, stamps)


def add(to: Ledger, **due: Stamp) -> dict[str, Any]:
    """Add a line, and give what became of each id."""

    def compose(keys: Collection[str]) -> dict[str, Any]:
        return {key: due[key][:2] for key in keys}

    (states,) = to.append([Line(due, compose)])
    return dict(states)


def test_what_stands_there_is_not_written_again(tmp_path: Path) -> None:
    """By whoever opens the file next, and only what changed is added."""
    path = tmp_path / "new" / "folder" / "x.jsonl"
    one = ledger(path)
    assert add(one, a=Stamp("1", 1), b=Stamp("1", 1)) == {"a": "written", "b": "written"}
    for same in (one, ledger(path)):
        assert add(same, a=Stamp("1", 1), b=Stamp("1", 1)) == {"a": "unchanged", "b": "unchanged"}
    assert add(ledger(path), a=Stamp("2", 1), b=Stamp("1", 1)) == {"a": "written", "b": "unchanged"}
    assert add(one, a=Stamp("2", 1)) == {"a": "unchanged"}
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"a": ["1", 1], "b": ["1", 1]},
        {"a": ["2", 1]},
    ]


def test_a_better_judge_stands(tmp_path: Path) -> None:
    """Lower ranks never replace higher ones; equals do."""
    path = tmp_path / "x.jsonl"
    said = [
        add(ledger(path), a=stamp(*of))["a"]
        for of in [
            ("1", "llm", "unscored"),
            ("2", "offline", "scored"),
            ("3", "llm", "scored"),
            ("4", "offline", "scored"),
            ("5", "llm", "scored"),
            ("6", "human", "scored"),
            ("7", "llm", "scored"),
        ]
    ]
    assert said == ["written", "written", "written", "kept", "written", "written", "kept"]


def test_two_writers_see_each_other(tmp_path: Path) -> None:
    """Each reads what the other added before it adds."""
    one, other = ledger(tmp_path / "x.jsonl"), ledger(tmp_path / "x.jsonl")
    assert add(one, a=Stamp("1", 1)) == {"a": "written"}
    assert add(other, a=Stamp("1", 1), b=Stamp("1", 1)) == {"a": "unchanged", "b": "written"}
    assert add(one, b=Stamp("1", 1)) == {"b": "unchanged"}


def test_a_line_left_torn_is_ended_and_kept(tmp_path: Path) -> None:
    """What a crash cut off is written again, on a line of its own."""
    path = tmp_path / "x.jsonl"
    add(ledger(path), a=Stamp("1", 1))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"b": ["1",')
    assert add(ledger(path), a=Stamp("1", 1), b=Stamp("1", 1)) == {"a": "unchanged", "b": "written"}
    assert path.read_bytes() == whole + b'{"b": ["1",\n' + b'{"b":["1",1]}\n'


def test_a_last_line_without_its_end_still_counts(tmp_path: Path) -> None:
    """An editor may have taken it."""
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": ["1", 1]}')
    assert add(ledger(path), a=Stamp("1", 1), b=Stamp("1", 1)) == {"a": "unchanged", "b": "written"}
    assert len(path.read_text().splitlines()) == 2


@settings(deadline=None, max_examples=40)  # a disk has its own pace
@given(cut=st.integers(min_value=0, max_value=200))
def test_a_file_cut_anywhere_heals(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    """Nothing is lost that stood there whole, nothing doubled, and a third run adds nothing."""
    path = tmp_path_factory.mktemp("cut") / "x.jsonl"
    due = {f"id {number}": Stamp("1", 1) for number in range(10)}
    for key, value in due.items():
        add(ledger(path), **{key: value})
    path.write_bytes(path.read_bytes()[:cut])
    for _ in range(2):
        again = ledger(path)
        for key, value in due.items():
            add(again, **{key: value})
        grown = path.read_bytes()
    found = [key for line in grown.splitlines() for key, _ in stamps(line)]
    assert sorted(found) == sorted(due)
    assert path.read_bytes() == grown


def test_a_file_replaced_by_another_is_read_anew(tmp_path: Path) -> None:
    """Rotation by a log keeper loses no score: it is written to the new file."""
    path = tmp_path / "x.jsonl"
    one = ledger(path)
    add(one, a=Stamp("1", 1))
    path.rename(tmp_path / "x.jsonl.1")
    assert add(one, a=Stamp("1", 1)) == {"a": "written"}
    path.write_text("")
    assert add(one, a=Stamp("1", 1)) == {"a": "written"}


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_ledger import add, ledger
from groundtrace.adapters.jsonl import JsonlSink
from groundtrace.adapters.ledger import Stamp
for number in range(60):
    add(ledger(Path(sys.argv[2])), **{f"id {number}": Stamp("1", 1)})
"""


def test_processes_may_write_at_once(tmp_path: Path) -> None:
    """Three of them write the same sixty things: sixty lines."""
    path = tmp_path / "x.jsonl"
    run = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(path)]
    running = [subprocess.Popen(run, stderr=subprocess.PIPE) for _ in range(3)]
    assert [(process.communicate()[1], process.returncode) for process in running] == [(b"", 0)] * 3
    found = [key for line in path.read_bytes().splitlines() for key, _ in stamps(line)]
    assert sorted(found) == sorted(f"id {number}" for number in range(60))


FULL = """
import resource, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
from test_ledger import add, ledger
from groundtrace.adapters.jsonl import JsonlSink
from groundtrace.adapters.ledger import Stamp
one = ledger(Path(sys.argv[2]))
for size in (20, 200, 30):
    try:
        print(add(one, **{f"id of {size}": Stamp("1" * size, 1)}))
    except OSError as error:
        print(error.strerror)
"""


def test_what_does_not_fit_on_the_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """The part that did fit is taken back, and the next line finds its place."""
    path = tmp_path / "x.jsonl"
    run = [sys.executable, "-c", FULL, str(Path(__file__).parent), str(path)]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["{'id of 20': 'written'}", "File too large", "{'id of 30': 'written'}"]
    assert [list(json.loads(line)) for line in path.read_text().splitlines()] == [["id of 20"], ["id of 30"]]


def test_half_characters_are_written_as_what_they_are() -> None:
    """Text of traces is not always text."""
    value = {"a\ud800": ["\udfff", ("pair \ud83d\ude00", 1, None)]}
    assert json.loads(encode(value)) == {"a\ufffd": ["\ufffd", ["pair 😀", 1, None]]}


@settings(deadline=None)  # a busy machine is no fault
@given(st.text() | st.characters(categories=["Zl", "Zp", "Cc"]))
def test_a_line_is_one_line_for_every_reader(text: str) -> None:
    """Python, Java and JavaScript end lines at more than line feeds."""
    (line,) = encode({"text": text}).decode().splitlines()
    assert json.loads(line) == {"text": text}


def test_a_place_that_can_not_be_written_is_a_plan_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is judged."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "deeper"):
        with pytest.raises(PlanError, match="is a file"):
            writable(folder)
    writable(tmp_path / "not" / "yet")
    assert not (tmp_path / "not").exists()
    (tmp_path / "scores.jsonl").mkdir()
    with pytest.raises(PlanError, match=r"can't be written to; name a place that is yours: --to"):
        writable(tmp_path, [tmp_path / "scores.jsonl"])
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path)  # root may write anywhere
    with pytest.raises(PlanError, match=r"can't be written to; name a place that is yours: --to"):
        writable(tmp_path)


def test_what_is_over_is_written_only_where_it_stands(tmp_path: Path) -> None:
    """The ledger tells which scores are in the file, also those that others added."""
    path = tmp_path / "x.jsonl"
    one = ledger(path)
    add(one, a=Stamp("1", 1, "mean"), b=Stamp("1", 2, "min"))
    path.write_bytes(path.read_bytes() + b'{"c": ["1", 1, "max"]}\n')
    told: list[set[str]] = []

    def over(scores: Collection[str]) -> dict[str, Stamp]:
        told.append(set(scores))
        return {key: Stamp("gone", 1) for key in "bcd"}

    for _ in range(2):
        (states,) = one.append([Line({"a": Stamp("2", 1)}, lambda keys: {key: ["2", 1] for key in keys}, over)])
    assert told[0] == {"mean", "min", "max"}
    assert states == {"a": "unchanged", "b": "kept", "c": "unchanged"}
    assert json.loads(path.read_text().splitlines()[-1]) == {"a": ["2", 1], "c": ["2", 1]}


def test_lines_added_together_see_each_other(tmp_path: Path) -> None:
    """As if each had been added alone, on the disk at once."""
    path = tmp_path / "x.jsonl"
    one = ledger(path)

    def due(**stamps: Stamp) -> Line:
        def over(scores: Collection[str]) -> dict[str, Stamp]:
            return {"old": Stamp("gone", 1)} if "mean" in scores else {}

        return Line(stamps, lambda keys: {key: stamps.get(key, Stamp("gone", 1)) for key in keys}, over)

    said = one.append([
        due(old=Stamp("1", 1, "mean")), due(a=Stamp("1", 2)), due(a=Stamp("1", 2)), due(a=Stamp("2", 1)),
    ])  # fmt: skip
    assert said == [
        {"old": "written"}, {"a": "written", "old": "written"}, {"a": "unchanged", "old": "unchanged"},
        {"a": "kept", "old": "unchanged"},
    ]  # fmt: skip
    assert len(path.read_bytes().splitlines()) == 2
    assert add(ledger(path), a=Stamp("1", 2)) == {"a": "unchanged"}


NARROW = """
import resource, signal, sys
from groundtrace.model import Ref
from groundtrace.plugins import load
from groundtrace.testing import sample_card
sink = load("sink", sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
long = {"rationale": "why " * 20_000}
cards = [sample_card(*(score.model_copy(update=more) for score in sample_card().scores), id=ident, ref=ref)
         for ident, ref, more in [(f"0000000{n}-0000-5000-8000-000000000000", Ref("otel", trace_id=f"{n:032x}",
                                   span_id=f"{n:016x}"), long if n == 2 else {}) for n in (1, 2, 3)]]
print(*(receipt.state for receipt in sink.write(cards) if receipt.score == "source_support"))
"""


@pytest.mark.parametrize("sink", ["jsonl:cards.jsonl", "otel:scores"])
def test_a_disk_without_room_for_all_takes_what_it_can(tmp_path: Path, sink: str) -> None:
    """Cards that would have been written alone are not lost with the one that is too long."""
    run = [sys.executable, "-c", NARROW, sink]
    said = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert said.split() == ["written", "failed", "written"]


PICKLED = """
import pickle, sys
from groundtrace.testing import sample_card
sink = pickle.loads(sys.stdin.buffer.read())
print({receipt.state for receipt in sink.write([sample_card()])})
"""


def test_a_sink_in_another_process_learns_what_stands_there(tmp_path: Path) -> None:
    """What is remembered is told apart by hashes, which are another process's own."""
    sink = JsonlSink(str(tmp_path / "cards.jsonl"))
    assert {receipt.state for receipt in sink.write([sample_card()])} == {"written"}
    done = subprocess.run([sys.executable, "-c", PICKLED], input=pickle.dumps(sink), capture_output=True, check=True)
    assert done.stdout.split() == [b"{'unchanged'}"]


@pytest.mark.parametrize("odd", [10**30, object()])
def test_a_card_that_no_line_can_say_keeps_no_other_back(tmp_path: Path, odd: object) -> None:
    """What came before it in its chunk is written, and said to be."""
    cards = [sample_card(id=f"0000000{n}-0000-5000-8000-000000000000", details={"n": n}) for n in range(3)]
    cards.append(sample_card(details={"n": odd}))
    with pytest.raises((TypeError, ValueError)):
        list(JsonlSink(str(tmp_path / "cards.jsonl")).write(cards))
    assert len((tmp_path / "cards.jsonl").read_bytes().splitlines()) == 3


class Colour(enum.Enum):
    """What no JSON has as a key."""

    RED = "red"


def test_keys_that_are_no_texts_are_spelled_as_in_all_json_of_ours() -> None:
    """Else a line would not say what its hash was made of."""
    odd = {True: 1, None: 2, Colour.RED: 3, (1, 2): 4, 1.5: 5}
    assert json.loads(encode(odd)) == json.loads(to_json(odd))
