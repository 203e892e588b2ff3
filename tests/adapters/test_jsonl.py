"""Records come from JSON lines and scorecards go to them."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from groundtrace.adapters.jsonl import JsonlSink, JsonlSource
from groundtrace.adapters.otel import OtelSource
from groundtrace.errors import PlanError
from groundtrace.model import Attempt, Finding, Ref, Review, Scorecard, Trace, Window, dump, load
from groundtrace.ports import Sink, Source
from groundtrace.testing import HOSTILE_TEXTS, SinkContract, SourceContract, sample_card

RENAME = "skipped; a record's keys are query, context, answer, or source and summary: rename these"
FERRY = {"query": "When?", "context": ["The ferry leaves at 21:40."], "answer": "At 21:40 [1]."}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
records = st.fixed_dictionaries(
    {"answer": texts},
    optional={
        "query": texts | st.none(),
        "context": st.lists(texts | st.fixed_dictionaries({"id": texts, "text": texts}), max_size=3),
        "id": texts | st.integers(0, 3) | st.none(),
        "trace_id": st.sampled_from(["t1", "t2", ""]),
        "span_id": st.sampled_from(["s1", "s2"]),
        "score": st.floats(),
    },
)


def put(file: Path, *records: Any) -> Path:
    """A file of these lines; text stands as it is."""
    file.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records))
    return file


def read(path: Path | str) -> tuple[list[Trace], tuple[str, ...]]:
    """The traces under a path, and the notes."""
    source = JsonlSource(str(path))
    return list(source.traces(Window(since=1), lambda *_: True)), source.notes()


def record(trace: Trace) -> Any:
    """The object a trace carries."""
    (span,) = trace.spans
    return span.attributes["groundtrace.record"]


class TestSourceContract(SourceContract):
    """What `run` relies on in a source."""

    @pytest.fixture(autouse=True)
    def _somewhere(self, tmp_path: Path) -> None:
        self.file = put(tmp_path / "x.jsonl", FERRY, {"id": "b", "answer": "x"}, {"id": "b", "answer": "y"}, "torn {")

    def make(self) -> Source:
        """Three records, two of one id."""
        return JsonlSource(str(self.file))


class TestSinkContract(SinkContract):
    """What `run` relies on in a sink."""

    @pytest.fixture(autouse=True)
    def _somewhere(self, tmp_path: Path) -> None:
        self.file = tmp_path / "out" / "cards.jsonl"

    def make(self) -> Sink:
        """A sink into a folder that is not there yet."""
        return JsonlSink(str(self.file))

    def stored(self) -> Mapping[str, float | None]:
        """The newest line of each card."""
        lines = map(json.loads, self.file.read_text().splitlines())
        newest = {line["id"]: line for line in lines}
        return {score["name"]: score["value"] for line in newest.values() for score in line["scores"]}


# --- records in -----------------------------------------------------------------------------------------------------


def test_a_record_is_a_trace_of_one_span_that_carries_it(tmp_path: Path) -> None:
    """Its id is the trace's, unless it names one."""
    named = {"id": "r1", "trace_id": "t1", "span_id": "s1", "answer": "x", "anything": {"else": [1]}}
    (plain, whole), notes = read(put(tmp_path / "x.jsonl", {"id": "r0", **FERRY}, named))
    assert notes == ()
    assert record(plain) == {"id": "r0", **FERRY}
    assert (plain.ref.platform, plain.ref.trace_id, plain.spans[0].trace_id) == ("jsonl", "r0", "r0")
    assert len(plain.spans[0].id) == 16
    assert (plain.spans[0].scope, plain.spans[0].name) == ("groundtrace.jsonl", "record")
    assert record(whole) == named
    assert whole.ref == Ref("jsonl", trace_id="t1", span_id="s1")


def test_a_record_without_an_id_gets_one_from_its_content(tmp_path: Path) -> None:
    """The same in every run and in any order of its fields; one that OpenTelemetry could hold."""
    shuffled = dict(reversed(FERRY.items()))
    (first,), _ = read(put(tmp_path / "x.jsonl", FERRY))
    (second,), _ = read(put(tmp_path / "y.jsonl", {**shuffled, "id": None}))
    (third,), _ = read(put(tmp_path / "z.jsonl", shuffled))
    assert first == third
    assert record(first)["id"] == first.ref.trace_id != second.ref.trace_id
    assert len(bytes.fromhex(first.ref.trace_id)) == 16


def test_ids_that_are_no_text_become_text(tmp_path: Path) -> None:
    """Numbers are common ids."""
    (trace,), _ = read(put(tmp_path / "x.jsonl", {"id": 17, "trace_id": 5, "answer": "x"}))
    assert (record(trace)["id"], trace.ref.trace_id) == ("17", "5")


def test_what_shares_an_id_is_kept_apart_and_what_is_the_same_is_read_once(tmp_path: Path) -> None:
    """No card may be written over another's; the notes say which lines."""
    file = put(
        tmp_path / "x.jsonl",
        {"id": "a", "answer": "1"},
        {"id": "a", "answer": "2"},
        {"id": "a", "answer": "1"},
        {"id": "a#2", "answer": "3"},
        {"id": "b", "trace_id": "a", "span_id": "s", "answer": "4"},
        {"id": "c", "trace_id": "a", "span_id": "s", "answer": "5"},
    )
    traces, notes = read(file)
    assert [record(trace)["id"] for trace in traces] == ["a", "a#2", "a#2#2", "b", "c"]
    assert len({(trace.ref.trace_id, trace.ref.span_id) for trace in traces}) == 5
    assert [trace.notes != () for trace in traces] == [False, True, True, False, True]
    assert notes == (
        f"{file}: 2 records have another's id (lines 2, 4): read under the id with # and a number",
        f"{file}: 1 record came a second time (line 3): skipped",
        f"{file}: 1 record has another's span (line 6): read under a span id of its own",
    )


def test_what_is_no_record_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    """Torn lines, other objects, traces, numbers: each with its line."""
    file = put(
        tmp_path / "x.jsonl", FERRY, '{"query": "torn', {"question": "?"}, "[]", "5", {"answer": None},
        {"resourceSpans": []}, '{"answer": %s}' % ("[" * 5_000 + "]" * 5_000), {"context": []},
    )  # fmt: skip
    traces, notes = read(file)
    assert len(traces) == 2
    assert notes == (
        f"{file}: 1 line is not JSON (line 2): skipped",
        f"{file}: 1 line is no record, it holds question (line 3): {RENAME}",
        f"{file}: 2 lines are no records (lines 5, 6): skipped; one holds query, context, answer, summary",
        f"{file}: 1 line is OTLP, no record (line 7): skipped; read them as otel:PATH",
        f"{file}: 1 line is nested too deep (line 8): skipped",
    )


def test_what_keys_stood_in_lines_that_are_no_records_is_told(tmp_path: Path) -> None:
    """Those of a few shapes, as far as they are words; a file of a thousand shapes has no thousand notes."""
    file = tmp_path / "x.jsonl"
    ragas = {"question": "When?", "contexts": ["21:40"], "ground_truth": "21:40"}
    other = [{f"k{n}": 1} for n in range(5)]
    _, notes = read(put(file, ragas, ragas, {"no\nword": 1}, *other))
    assert notes == (
        f"{file}: 2 lines are no records, they hold question, contexts, ground_truth (lines 1, 2): {RENAME}",
        f"{file}: 4 lines are no records (lines 3, 6, 7 ...): skipped; one holds query, context, answer, summary",
        f"{file}: 1 line is no record, it holds k0 (line 4): {RENAME}",
        f"{file}: 1 line is no record, it holds k1 (line 5): {RENAME}",
    )


def test_bytes_that_are_no_utf8_are_told_from_halves_of_characters(tmp_path: Path) -> None:
    """The remedies differ."""
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"id": "a", "answer": "caf\xe9"}\n')
    (trace,), _ = read(file)
    assert trace.notes == (f"span {trace.spans[0].id}: bytes that are no UTF-8 were replaced by U+FFFD",)


def test_a_list_of_records_is_read_like_lines(tmp_path: Path) -> None:
    """However it is laid out."""
    several = [{"id": "a", **FERRY}, {"id": "b", "answer": "x"}]
    lines, _ = read(put(tmp_path / "x.jsonl", *several))
    for number, layout in enumerate((None, 1)):
        assert read(put(tmp_path / f"{number}.json", json.dumps(several, indent=layout))) == (lines, ())


def test_items_of_a_list_on_one_line_are_counted_as_items(tmp_path: Path) -> None:
    """One line is not several."""
    _, notes = read(put(tmp_path / "x.jsonl", [1, 2, FERRY, {"resourceSpans": []}]))
    assert [note.removeprefix(f"{tmp_path}/x.jsonl: ").split(": ")[0] for note in notes] == [
        "2 items are no records (line 1)",
        "1 item is OTLP, no record (line 1)",
    ]


def test_what_stands_beside_the_texts_and_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A misspelt risk above all; what can be read, in whatever case, is not mentioned."""
    odd = {"tags": {"a": 1}, "slices": "b", "history": ["Hi"], "key_facts": [["a"]]}
    plain = {"tags": "a", "slices": {"a": 1}, "history": [{"role": "user", "content": "Hi"}], "key_facts": ["b"]}
    lines = [FERRY | {"id": "a", "risk": "hihg"}, FERRY | {"id": "b", "risk": "HIGH"}, FERRY | {"id": "c", "risk": 1}]
    traces, notes = read(put(tmp_path / "x.jsonl", *lines, FERRY | odd, FERRY | plain | {"id": "d", "risk": None}))
    assert len(traces) == 5
    assert [note.removeprefix(f"{tmp_path}/x.jsonl: ") for note in notes] == [
        "2 records have a risk that is neither normal nor high (lines 1, 3): taken as high",
        "1 record holds tags that can't be read whole (line 4): left out; give a list of texts",
        "1 record holds key_facts that can't be read whole (line 4): left out; give a list of texts",
        "1 record holds slices that can't be read whole (line 4): left out; give texts by name",
        "1 record holds history that can't be read whole (line 4): left out; give objects with role and text",
    ]


def test_text_that_is_no_unicode_is_mended_and_told(tmp_path: Path) -> None:
    """And numbers that are none are nothing."""
    file = put(tmp_path / "x.jsonl", '{"id": "a", "answer": "half \\ud83d", "score": NaN, "far": -1e999}')
    (trace,), notes = read(file)
    assert record(trace) == {"id": "a", "answer": "half \ufffd", "score": None, "far": None}
    assert trace.notes == (f"span {trace.spans[0].id}: text that is no Unicode was replaced by U+FFFD",)
    assert notes == (f"{file}: 1 line held text that is no Unicode (line 1): U+FFFD stands there",)
    file.write_bytes(b'{"id": "a", "answer": "caf\xe9"}')
    assert record(read(file)[0][0])["answer"] == "caf\ufffd"


def test_a_number_longer_than_others_take_ends_no_file(tmp_path: Path) -> None:
    """One beside text that is no Unicode is read by the patient one, which knows no greatest number."""
    odd = f'{{"answer": "half \\ud83d", "far": {10**40}}}'
    traces, _ = read(put(tmp_path / "x.jsonl", odd, FERRY))
    assert [record(trace)["answer"] for trace in traces] == ["half \ufffd", FERRY["answer"]]


@settings(deadline=None)  # a disk has its own pace
@given(st.lists(records, max_size=8))
def test_every_record_is_read_once_under_an_id_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, several: list[dict[str, Any]]
) -> None:
    """Whatever ids they bring, and JSON both ways."""
    traces, _ = read(put(tmp_path_factory.mktemp("any") / "x.jsonl", *several, FERRY))
    assert len({record(trace)["id"] for trace in traces}) == len(traces)
    assert len({(trace.ref.trace_id, trace.ref.span_id) for trace in traces}) == len(traces)
    assert len(traces) <= len(several) + 1
    for trace in traces:
        assert load(Trace, dump(trace)) == trace
        json.dumps(record(trace), allow_nan=False)


def test_files_folders_globs_archives_and_standard_input_are_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with traces; our own output is not read."""
    put(tmp_path / "a.jsonl", {"id": "a", **FERRY})
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json.dumps({"id": "b", **FERRY}).encode()))
    put(tmp_path / "a.groundtrace.jsonl", {"id": "c", **FERRY})
    for path in (tmp_path, f"{tmp_path}/*"):
        assert [trace.ref.trace_id for trace in read(path)[0]] == ["a", "b"]
    assert "was written by groundtrace" in read(tmp_path / "a.groundtrace.jsonl")[1][0]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(FERRY).encode())))
    assert len(read("-")[0]) == 1
    (tmp_path / "empty").mkdir()
    assert "holds no files of records" in read(tmp_path / "empty")[1][0]


def test_records_are_given_as_they_are_read(tmp_path: Path) -> None:
    """A file of any length is held a record at a time."""
    source = JsonlSource(str(put(tmp_path / "x.jsonl", FERRY, "torn {")))
    traces = source.traces(Window(), lambda *_: True)
    next(traces)
    assert source.notes() == ()
    assert not list(traces)
    assert len(source.notes()) == 1


def test_files_of_records_are_recognised_by_how_they_start(tmp_path: Path) -> None:
    """A bare path on the command line finds its source."""
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(FERRY).encode()))
    known = [
        put(tmp_path / "a.jsonl", "", FERRY),
        put(tmp_path / "b.json", json.dumps([FERRY], indent=1)),
        put(tmp_path / "c.jsonl", {"context": ["x" * 100_000], "answer": "long"}),
        put(tmp_path / "d.jsonl", "torn {", FERRY),
        put(tmp_path / "s.jsonl", {"source": "The ferry leaves at 21:40.", "summary": "At 21:40."}),
        packed,
        tmp_path,
    ]
    assert all(map(JsonlSource.recognises, known))
    assert not any(map(OtelSource.recognises, known))
    (tmp_path / "folder").mkdir()
    unknown = [
        put(tmp_path / "e.jsonl", {"resourceSpans": [], "query": 1}, FERRY),
        put(tmp_path / "f.jsonl", {"rubric": "source_support"}),
        put(tmp_path / "g.jsonl", ""),
        tmp_path / "missing",
        tmp_path / "folder",
    ]
    assert [path.name for path in unknown if JsonlSource.recognises(path)] == ["e.jsonl"]
    assert OtelSource.recognises(unknown[0])


def test_home_and_doctor_know_the_files(tmp_path: Path) -> None:
    """Cards go beside the records; a file that is none is told."""
    file = put(tmp_path / "x.jsonl", FERRY)
    source = JsonlSource(str(file))
    assert source.home().path == tmp_path / "x.groundtrace.jsonl"
    put(tmp_path / "y.jsonl", {"other": 1})
    assert [check.well for check in JsonlSource(str(tmp_path)).doctor()] == [True, False]
    assert not list(source.labels())
    with pytest.raises(PlanError, match="standard input"):
        JsonlSource("-").home()
    with pytest.raises(PlanError, match="does not exist"):
        JsonlSource(str(tmp_path / "missing.jsonl"))


# --- scorecards out -------------------------------------------------------------------------------------------------


def written(path: Path) -> list[dict[str, Any]]:
    """The lines of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def state(path: Path, *cards: Scorecard) -> list[str]:
    """What became of the cards' scores."""
    return [receipt.state for receipt in JsonlSink(str(path)).write(cards)]


def test_a_scorecard_is_one_flat_line(tmp_path: Path) -> None:
    """Where it belongs first, then what was found, then everything needed to trust it."""
    finding = Finding(slot="c1:p1", value=4, label="Strongly Implies")
    card = sample_card(findings=(finding,), review=(Review(reason="low_support", note="see"),), limits="blind")
    state(tmp_path / "x.jsonl", card)
    (line,) = written(tmp_path / "x.jsonl")
    assert list(line)[:16] == [
        "id", "record_id", "content_hash", "platform", "project", "trace_id", "span_id", "rubric", "version", "judge",
        "judge_kind", "status", "reason", "scores", "findings", "review",
    ]  # fmt: skip
    assert (line["id"], line["record_id"], line["content_hash"]) == (card.id, "sample", card.content_hash)
    assert (line["platform"], line["trace_id"], line["span_id"]) == ("testing", card.ref.trace_id, card.ref.span_id)
    assert line["scores"][0] == {
        "name": "source_support",
        "value": 4.0,
        "low": 1.0,
        "high": 5.0,
        "label": "Strongly Implies",
        "rationale": "It follows.",
        "evidence": [],
    }
    assert line["findings"][0]["slot"] == "c1:p1"
    assert line["review"] == ["low_support"]
    assert line["limits"] == "blind"
    assert {name for name in Scorecard.model_fields if name != "ref"} <= line.keys()


def test_a_held_card_leaves_nothing_its_scores_could_be_read_from(tmp_path: Path) -> None:
    """Not in findings, details, evidence or replies; every score has its receipt."""
    card = sample_card(
        status="pending_review",
        findings=(Finding(slot="a", value=2.75, details={"score": 2.75}),),
        details={"mean": 2.75, "claims": [{"score": 2.75}]},
        review=(Review(reason="low_support", note="2.75 of 5"),),
        attempts=(Attempt(slot="a", attempt=1, judge="j", text='{"score": 2.75}'),),
        flags=("uncited",),
        confidence=2.75,
    )
    assert state(tmp_path / "x.jsonl", card) == ["written", "written"]
    (line,) = written(tmp_path / "x.jsonl")
    assert (line["status"], line["scores"], line["findings"]) == ("pending_review", [], [])
    assert (line["review"], line["flags"], line["record_id"]) == (["low_support"], ["uncited"], "sample")
    assert (line["rubric"], line["trace_id"]) == (card.rubric, card.ref.trace_id)
    assert "2.75" not in json.dumps(line | {"content_hash": ""})
    assert not {"details", "attempts", "confidence", "root_cause"} & line.keys()
    assert set(state(tmp_path / "x.jsonl", card)) == {"unchanged"}


def test_a_second_run_adds_nothing_and_a_change_adds_a_version(tmp_path: Path) -> None:
    """The time of judging is no content; the last line of an id counts."""
    path = tmp_path / "x.jsonl"
    card = sample_card(timestamp="2026-01-01T00:00:00+00:00")
    assert set(state(path, card)) == {"written"}
    assert set(state(path, card.model_copy(update={"timestamp": "2027-01-01T00:00:00+00:00"}))) == {"unchanged"}
    assert set(state(path, card.model_copy(update={"version": "2"}))) == {"written"}
    assert [(line["id"], line["version"]) for line in written(path)] == [(card.id, "1"), (card.id, "2")]


def test_an_offline_card_does_not_replace_a_models(tmp_path: Path) -> None:
    """It is counted as kept."""
    path = tmp_path / "x.jsonl"
    assert set(state(path, sample_card())) == {"written"}
    assert set(state(path, sample_card(judge_kind="offline"))) == {"kept"}
    assert len(written(path)) == 1


@settings(deadline=None)  # a disk has its own pace
@given(text=st.text() | st.sampled_from(HOSTILE_TEXTS))
def test_whatever_a_card_says_is_one_line_and_written_once(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """Line ends and half characters in other people's text included."""
    path = tmp_path_factory.mktemp("any") / "x.jsonl"
    card = sample_card(record_id=text, details={"text": text}, judge=text)
    assert set(state(path, card)) == {"written"}
    assert set(state(path, card)) == {"unchanged"}
    assert path.read_bytes().count(b"\n") == 1
    assert len(written(path)) == 1


def test_a_file_of_anything_else_is_never_written_to(tmp_path: Path) -> None:
    """Records given as the place to write would be mixed with cards."""
    for number, content in enumerate((json.dumps(FERRY), "id,score\n1,2\n", '{"id":"a","answer":"x"}')):
        file = tmp_path / f"{number}.jsonl"
        file.write_text(content)
        with pytest.raises(PlanError, match="something other than scorecards"):
            JsonlSink(str(file))
        assert file.read_text() == content
    for path in ("-", str(tmp_path)):
        with pytest.raises(PlanError, match="is no file"):
            JsonlSink(path)


def test_a_file_that_was_torn_at_its_first_line_is_gone_on_with(tmp_path: Path) -> None:
    """A crash is no foreign content."""
    file = tmp_path / "x.jsonl"
    state(file, sample_card())
    file.write_bytes(file.read_bytes()[:30])
    assert set(state(file, sample_card())) == {"written"}
    assert set(state(file, sample_card())) == {"unchanged"}


def test_a_disk_that_takes_nothing_is_a_receipt(tmp_path: Path) -> None:
    """The run goes on, and the report says what failed and why."""
    (tmp_path / "x.jsonl").symlink_to("/dev/full")
    (first, *_) = JsonlSink(str(tmp_path / "x.jsonl")).write([sample_card()])
    assert (first.state, first.reason) == ("failed", "No space left on device")


class Reserved(Scorecard):
    """A plugin's card, which keeps something to itself."""

    secret: str = Field(default="not told", exclude=True)


@pytest.mark.parametrize("confidence", [1, 1.0])
@pytest.mark.parametrize("kind", [Scorecard, Reserved])
def test_a_plugins_card_is_written_as_any_other(kind: type[Scorecard], confidence: float, tmp_path: Path) -> None:
    """Of whatever class it is, and with a whole number where one with a point belongs."""
    card = kind(**vars(sample_card())).model_copy(update={"confidence": confidence})
    receipts = list(JsonlSink(str(tmp_path / "cards.jsonl")).write([card]))
    assert {receipt.state for receipt in receipts} == {"written"}
    written = (tmp_path / "cards.jsonl").read_text(encoding="utf-8")
    assert "not told" not in written
    assert '"confidence":1.0' in written
