"""Traces come out of OTLP files whole, whatever shape the files are in."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from groundtrace.adapters.jsonl import JsonlSource
from groundtrace.adapters.otel import OtelSource
from groundtrace.errors import PlanError
from groundtrace.model import Log, Ref, Span, Trace, Window
from groundtrace.ports import Source
from groundtrace.testing import SourceContract

FIXTURES = Path(__file__).parents[2] / "fixtures" / "otlp"
ODD = sorted(FIXTURES.glob("odd/*.expected"))
SECOND = 1_000_000_000
ALWAYS = Window()
METRICS = (
    '{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"gauge": {"dataPoints": [{"startTimeUnixNano": 1}]}}]}]}]}'
)


def read(path: Path | str, window: Window = ALWAYS, choose: Callable[..., bool] = lambda *_: True) -> list[Trace]:
    """The traces under a path, which must be read without a note."""
    source = OtelSource(str(path))
    traces = list(source.traces(window, choose))
    assert source.notes() == ()
    return traces


def span(number: int, trace: int = 1, start: int = SECOND, **more: Any) -> dict[str, Any]:
    """A span on the wire."""
    made = {"traceId": f"{trace:032x}", "spanId": f"{number:016x}", "name": f"step {number}"}
    return made | {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 5)} | more


def log(number: int, trace: int = 1, **more: Any) -> dict[str, Any]:
    """A log record on the wire."""
    return {"traceId": f"{trace:032x}", "spanId": f"{number:016x}", "timeUnixNano": "9", "eventName": "said"} | more


def spans(*of: dict[str, Any]) -> str:
    """One line of a file of traces."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(of)}]}]})


def logs(*of: dict[str, Any]) -> str:
    """One line of a file of log records."""
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": list(of)}]}]})


def put(file: Path, *lines: str) -> Path:
    """A file of these lines."""
    file.write_text("\n".join(lines))
    return file


class TestContract(SourceContract):
    """What `run` relies on in a source."""

    def make(self) -> Source:
        """Captured traces whose content is in the log records."""
        return OtelSource(str(FIXTURES / "openai-genai-eventonly.jsonl"))


# --- shapes of files ------------------------------------------------------------------------------------------------


def test_one_trace_reads_the_same_from_every_spelling() -> None:
    """Collector, naive protobuf JSON, snake case, Tempo's two APIs: hex and base64 ids, names and numbers."""
    read_from = {file.name: read(file) for file in sorted(FIXTURES.glob("formats/*"))}
    assert len(read_from) == 5
    first, *others = read_from.values()
    assert first[0].ref == Ref("otel", trace_id="6e612d7343726ea7c819cfeb7f8b3f5d")
    assert len(first[0].spans) == 10
    assert all(other == first for other in others)


@pytest.mark.parametrize("expected", ODD, ids=lambda file: file.stem)
def test_odd_files_lose_nothing_else(expected: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file beside its expectation: the spans that are read, and the line that tells of the rest."""
    monkeypatch.chdir(expected.parent)
    wanted = json.loads(expected.read_text())
    source = OtelSource(expected.stem)
    traces = list(source.traces(Window(), lambda *_: True))
    assert list(source.notes()) == wanted["notes"]
    assert {trace.ref.trace_id: _summary(trace) for trace in traces} == wanted["traces"]


def test_there_are_odd_files() -> None:
    """An empty folder proves nothing."""
    assert len(ODD) >= 28


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".zst", zstandard.ZstdCompressor().compress)])
def test_packed_files_and_their_packed_logs_read_the_same(
    ending: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """x.jsonl.gz finds x.logs.jsonl.gz."""
    for name in ("openai-genai-eventonly.jsonl", "openai-genai-eventonly.logs.jsonl"):
        (tmp_path / f"{name}{ending}").write_bytes(pack((FIXTURES / name).read_bytes()))
    assert read(tmp_path / f"openai-genai-eventonly.jsonl{ending}") == read(FIXTURES / "openai-genai-eventonly.jsonl")


def test_standard_input_is_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans and logs may come down one pipe."""
    both = [(FIXTURES / f"openai-genai-eventonly{end}.jsonl").read_bytes() for end in ("", ".logs")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(both))))
    assert read("-") == read(FIXTURES / "openai-genai-eventonly.jsonl")


def _summary(trace: Trace) -> dict[str, Any]:
    def told(one: Span) -> dict[str, Any]:
        facts: dict[str, Any] = {"name": one.name, "parent_id": one.parent_id, "scope": one.scope}
        facts |= {"kind": one.kind.replace("internal", ""), "status": one.status.replace("unset", "")}
        facts |= {"attributes": one.attributes, "resource": one.resource, "logs": said(one.logs)}
        return {name: value for name, value in facts.items() if value}

    def said(records: tuple[Log, ...]) -> list[list[Any]]:
        return [[record.name, record.body] for record in records]

    by_id = {one.id: told(one) for one in trace.spans}
    return {"spans": by_id, "logs": said(trace.logs), "notes": list(trace.notes)}


# --- merging --------------------------------------------------------------------------------------------------------


def test_a_trace_is_merged_from_lines_files_and_services(tmp_path: Path) -> None:
    """Every exporter writes its own part when it likes."""
    whole = read(FIXTURES / "multi-service-openinference.jsonl")
    services = {str(one.resource.get("service.name")) for trace in whole for one in trace.spans}
    assert len(services) > 1
    lines = (FIXTURES / "multi-service-openinference.jsonl").read_text().splitlines()
    random.Random(4).shuffle(lines)
    for number, line in enumerate(lines):
        put(tmp_path / f"{number}.jsonl", line)
    assert read(tmp_path) == whole
    assert read(f"{tmp_path}/*.jsonl") == whole


@settings(deadline=None)  # a disk has its own pace
@given(order=st.permutations(range(12)), cuts=st.lists(st.integers(0, 12), max_size=4))
def test_the_order_of_spans_in_files_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], cuts: list[int]
) -> None:
    """Any order, split over any files."""
    of = [span(number, trace=1 + number % 3, start=SECOND * (1 + number // 3)) for number in range(1, 13)]
    folder = tmp_path_factory.mktemp("any")
    bounds = [0, *sorted(cuts), 12]
    shuffled = [of[number] for number in order]
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        put(folder / f"{number}.jsonl", *[spans(one) for one in shuffled[start:end]], spans())
    straight = put(tmp_path_factory.mktemp("one") / "x.jsonl", spans(*of))
    assert read(folder) == read(straight)


def test_traces_come_by_their_first_span_then_by_id(tmp_path: Path) -> None:
    """Two runs give the same order."""
    file = put(tmp_path / "x.jsonl", spans(span(1, 3, 9 * SECOND)), spans(span(2, 2)), spans(span(3, 1)),
               spans(span(4, 4, 0), span(5, 3, SECOND // 2)))  # fmt: skip
    assert [int(trace.ref.trace_id, 16) for trace in read(file)] == [3, 1, 2, 4]


def test_of_a_repeated_span_the_fuller_copy_is_kept_in_any_order(tmp_path: Path) -> None:
    """More attributes, then the later end; a file read under two names changes nothing."""
    more = {"attributes": [{"key": "a", "value": {"intValue": 1}}]}
    copies = [span(1), span(1, **more), span(1, endTimeUnixNano=str(9 * SECOND)), span(1, **more)]
    for number, order in enumerate((copies, copies[::-1])):
        source = OtelSource(str(put(tmp_path / f"{number}.jsonl", *map(spans, order))))
        (trace,) = source.traces(Window(), lambda *_: True)
        assert [one.attributes for one in trace.spans] == [{"a": 1}]
        assert trace.notes == ("3 spans came more than once: the fuller copy was kept",)
        assert [(loss.count, loss.lines) for loss in source.losses] == [(3, [2, 3, 4])]


# --- too much for memory --------------------------------------------------------------------------------------------


@settings(deadline=None)  # a disk has its own pace
@given(
    order=st.permutations(range(24)),
    held=st.sampled_from([0.0, 0.0005, 0.001, 0.003]),
    window=st.sampled_from([ALWAYS, Window(until=8 * SECOND)]),
)
def test_what_goes_to_the_disk_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], held: float, window: Window
) -> None:
    """In the same order, with copies, logs, notes and losses, however little may be held in memory."""
    more: dict[str, Any] = {
        "attributes": [{"key": "n", "value": {"intValue": "9" * 30}}, {"key": "s", "value": {"stringValue": "é"}}]
    }
    lines = [spans(span(1 + n // 3, trace=1 + n % 3, start=SECOND * (9 - n % 3), **more)) for n in range(12)]
    lines += [spans(span(1, trace=1, start=9 * SECOND), span(5, trace=4, start=0), span(0, trace=2))]
    lines += [logs(log(1, trace=1 + n, timeUnixNano=str(9 + n))) for n in range(5)]
    lines += [spans(span(1, trace=1, start=9 * SECOND)).replace("step 1", "half \\ud83d"), "torn{"]
    lines += [spans(span(6, trace=5, parentSpanId=f"{6:016x}"))] * 4
    file = put(tmp_path_factory.mktemp("any") / "x.jsonl", *[lines[number] for number in order])

    def seen(held_mb: float) -> tuple[list[Trace], dict[Any, int], list[str]]:
        source = OtelSource(str(file), held_mb=held_mb)
        met: list[str] = []

        def choose(ref: Ref, _: object) -> bool:
            met.append(ref.trace_id)
            return int(ref.trace_id, 16) != 3

        traces = list(source.traces(window, choose))
        counts: dict[Any, int] = {}
        for loss in source.losses:
            counts[loss.problem] = counts.get(loss.problem, 0) + loss.count
        return traces, counts, met

    assert seen(held) == seen(64)


def test_the_temporary_file_is_nobody_elses_and_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read to the end, given up, or failed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    file = put(tmp_path / "x.jsonl", *[spans(span(1, trace)) for trace in range(1, 9)])
    modes: list[int] = []
    made = tempfile.TemporaryFile

    def watched(**named: Any) -> Any:
        opened = made(**named)
        modes.append(os.fstat(opened.fileno()).st_mode & 0o777)
        return opened

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    source = OtelSource(str(file), held_mb=0)
    assert len(list(source.traces(ALWAYS, lambda *_: True))) == 8
    given_up = source.traces(ALWAYS, lambda *_: True)
    next(given_up)
    del given_up
    failing = source.traces(Window(since=1), lambda *_: 1 // 0 == 0)
    with pytest.raises(ZeroDivisionError):
        next(failing)
    assert modes == [0o600] * 3
    assert not list((tmp_path / "t").iterdir())


def test_a_full_disk_is_said_before_anything_is_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace is never handed out in parts: the reading stops, and says what to change."""
    file = put(tmp_path / "x.jsonl", *[spans(span(1, trace)) for trace in range(1, 9)])
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "wb+", 0))  # noqa: PTH123, SIM115
    with pytest.raises(PlanError, match="TMPDIR"):
        list(OtelSource(str(file), held_mb=0).traces(ALWAYS, lambda *_: True))


def test_what_is_not_looked_at_is_never_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample of a large file costs what the sample holds."""
    file = put(tmp_path / "x.jsonl", *[spans(span(n, 1 + n % 100)) for n in range(1, 1001)])
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: pytest.fail("wrote to the disk"))
    source = OtelSource(str(file), held_mb=0.01)
    assert len(list(source.traces(ALWAYS, lambda ref, _: int(ref.trace_id, 16) == 7))) == 1


# --- logs -----------------------------------------------------------------------------------------------------------


def test_the_logs_beside_a_file_are_joined_to_the_spans_they_name() -> None:
    """Content that is in the logs signal only reaches its span."""
    traces = read(FIXTURES / "openai-genai-eventonly.jsonl")
    joined = [record for trace in traces for one in trace.spans for record in one.logs]
    assert len(joined) > 10
    assert all(record.name == "gen_ai.client.inference.operation.details" for record in joined)
    assert any("gen_ai.input.messages" in record.attributes for record in joined)
    assert not any(trace.logs for trace in traces)


def test_a_log_of_no_span_stays_with_its_trace(tmp_path: Path) -> None:
    """In the order of time."""
    put(tmp_path / "x.logs.jsonl", logs(log(7, timeUnixNano="3"), log(0, timeUnixNano="2"), log(1, trace=2)))
    source = OtelSource(str(put(tmp_path / "x.jsonl", spans(span(1)))))
    (trace,) = source.traces(Window(), lambda *_: True)
    assert [record.span_id for record in trace.logs] == [None, f"{7:016x}"]
    assert source.notes() == (f"{tmp_path}/x.jsonl: 1 log record names a trace that is not here: left out",)


def test_what_was_mended_in_a_log_is_noted_on_its_trace_whichever_is_read_first(tmp_path: Path) -> None:
    """A file of log records may come before the file of its spans."""
    broken = logs(log(1, body={"stringValue": "half @@"})).replace("@@", "\\ud83d")
    put(tmp_path / "a.logs.jsonl", broken)
    put(tmp_path / "b.jsonl", spans(span(1)))
    (trace,) = OtelSource(str(tmp_path)).traces(Window(), lambda *_: True)
    assert trace.spans[0].logs[0].body == "half \ufffd"
    assert trace.notes == (f"a log record of span {1:016x}: text that is no Unicode was replaced by U+FFFD",)


def test_logs_read_twice_are_there_once(tmp_path: Path) -> None:
    """A packed copy left beside the file doubles no message; equal records without a time are no copies."""
    said = logs(log(1), log(1, timeUnixNano="10"), log(1, timeUnixNano=None), log(1, timeUnixNano=None))
    put(tmp_path / "x.logs.jsonl", said)
    (tmp_path / "x.logs.jsonl.gz").write_bytes(gzip.compress(said.encode()))
    (trace,) = read(put(tmp_path / "x.jsonl", spans(span(1))))
    assert [record.time for record in trace.spans[0].logs] == [9, 10, None, None, None, None]


def test_logs_as_the_main_file_are_the_wrong_signal(tmp_path: Path) -> None:
    """Whatever the file is called."""
    for name in ("x.jsonl", "x.logs.jsonl"):
        source = OtelSource(str(put(tmp_path / name, logs(log(1)))))
        assert not list(source.traces(Window(), lambda *_: True))
        assert source.notes()[0].startswith(f"{tmp_path}/{name}: holds logs, not traces")


def test_a_folder_joins_logs_of_any_file_and_names_those_without_traces(tmp_path: Path) -> None:
    """x.logs.jsonl belongs to x.jsonl; events.jsonl belongs to nobody, and is joined all the same."""
    put(tmp_path / "x.jsonl", spans(span(1)))
    put(tmp_path / "x.logs.jsonl", logs(log(1)))
    put(tmp_path / "events.jsonl", logs(log(1, timeUnixNano="1")))
    source = OtelSource(str(tmp_path))
    (trace,) = source.traces(Window(), lambda *_: True)
    assert [record.time for record in trace.spans[0].logs] == [1, 9]
    assert [note.partition(":")[0] for note in source.notes()] == [f"{tmp_path}/events.jsonl"]


# --- what is looked at ----------------------------------------------------------------------------------------------


def test_the_window_looks_at_the_root(tmp_path: Path) -> None:
    """A late child changes nothing; the first span stands in for a root that is not there; no time is any time."""
    file = put(tmp_path / "x.jsonl", spans(
        span(1, 1, 10 * SECOND), span(2, 1, 5 * SECOND, parentSpanId=f"{1:016x}"),
        span(3, 2, 20 * SECOND), span(4, 3, 10 * SECOND, parentSpanId=f"{99:016x}"), span(5, 4, 0),
    ))  # fmt: skip

    def seen(since: int | None, until: int | None) -> list[int]:
        window = Window(since and since * SECOND, until and until * SECOND)
        return sorted(int(trace.ref.trace_id, 16) for trace in read(file, window))

    assert seen(None, None) == [1, 2, 3, 4]
    assert seen(10, 11) == [1, 3, 4]
    assert seen(11, None) == [2, 4]
    assert seen(None, 10) == [4]


def test_every_trace_is_asked_about_once(tmp_path: Path) -> None:
    """Whoever counts what was seen counts right; with a window, only what is in it is seen."""
    file = put(tmp_path / "x.jsonl", *[spans(span(n, 1 + n % 3, SECOND * (1 + n % 3))) for n in range(1, 31)])
    for window, count in ((Window(), 3), (Window(since=2 * SECOND), 2)):
        asked: list[Ref] = []
        read(file, window, lambda ref, signals, asked=asked: asked.append(ref) or signals != ())
        assert len(asked) == len(set(asked)) == count


def test_logs_of_traces_not_looked_at_are_no_loss(tmp_path: Path) -> None:
    """A sample makes no notes."""
    put(tmp_path / "x.logs.jsonl", logs(log(1, 1), log(2, 2)))
    file = put(tmp_path / "x.jsonl", spans(span(1, 1), span(2, 2)))
    assert len(read(file, choose=lambda ref, _: int(ref.trace_id, 16) == 2)) == 1


# --- the rest of the port -------------------------------------------------------------------------------------------


def test_our_own_output_is_never_read(tmp_path: Path) -> None:
    """Not in a folder, not by a glob, and by its name only to be refused."""
    put(tmp_path / "x.jsonl", spans(span(1)))
    own = put(tmp_path / "x.groundtrace.jsonl", spans(span(2, 2)))
    put(tmp_path / "x.groundtrace.logs.jsonl", logs(log(1)))
    assert read(tmp_path) == read(f"{tmp_path}/*") == read(tmp_path / "x.jsonl")
    source = OtelSource(str(own))
    assert not list(source.traces(Window(), lambda *_: True))
    assert source.notes() == (f"{own}: was written by groundtrace: skipped; give the traces it speaks of",)


def test_a_folder_without_traces_says_so(tmp_path: Path) -> None:
    """And names what it looks for."""
    source = OtelSource(str(tmp_path))
    assert not list(source.traces(Window(), lambda *_: True))
    assert source.notes()[0].startswith(f"{tmp_path}: holds no trace files")


def test_a_missing_path_is_a_plan_error() -> None:
    """Before anything starts."""
    with pytest.raises(PlanError, match="does not exist"):
        OtelSource("no/such/file.jsonl")


def test_a_second_reading_starts_its_notes_anew(tmp_path: Path) -> None:
    """Nothing is counted twice."""
    source = OtelSource(str(put(tmp_path / "x.jsonl", "torn{", spans(span(1)))))
    for _ in range(2):
        assert len(list(source.traces(Window(), lambda *_: True))) == 1
        assert source.notes() == (f"{tmp_path}/x.jsonl: 1 line is not JSON (line 1): skipped",)


def test_home_is_beside_the_files(tmp_path: Path) -> None:
    """One place for what was judged and what was found; standard input has none."""
    put(tmp_path / "x.jsonl", spans(span(1)))
    sink = OtelSource(str(tmp_path / "x.jsonl")).home()
    assert sink.events == tmp_path / "x.groundtrace.logs.jsonl"
    assert sink.spans == tmp_path / "x.groundtrace.jsonl"
    assert OtelSource(str(tmp_path)).home().spans == tmp_path / f"{tmp_path.name}.groundtrace.jsonl"
    with pytest.raises(PlanError, match="--to otel:FOLDER"):
        OtelSource("-").home()


def test_sources_that_are_joined_read_a_trace_of_both_as_one(tmp_path: Path) -> None:
    """Files given one by one are read as their folder is."""
    (tmp_path / "in").mkdir()
    put(tmp_path / "in" / "a.jsonl", spans(span(1)), spans(span(3, trace=2)))
    put(tmp_path / "in" / "b.jsonl", spans(span(1), span(2)))
    one, two = OtelSource(str(tmp_path / "in" / "a.jsonl"), line_mb=1), OtelSource(str(tmp_path / "in" / "b.jsonl"))
    both = one.join(two)
    assert both is not None
    folder = OtelSource(str(tmp_path / "in"))
    assert list(both.traces(ALWAYS, lambda *_: True)) == list(folder.traces(ALWAYS, lambda *_: True))
    assert both.notes() == folder.notes() != ()
    assert (both.line_mb, both.home().spans.name) == (two.line_mb, "in.groundtrace.jsonl")
    twice = one.join(OtelSource(f"{tmp_path}/in/../in/a.jsonl"))
    assert twice is not None
    assert len(list(twice.traces(ALWAYS, lambda *_: True))) == 2
    assert twice.notes() == ()
    assert twice.home().spans == one.home().spans
    assert one.join(OtelSource("-")) is None
    assert one.join(JsonlSource(str(tmp_path / "in"))) is None


def test_files_are_recognised_by_how_they_start(tmp_path: Path) -> None:
    """A bare path on the command line finds its source; a pipe or a missing file is not touched."""
    known = [*FIXTURES.glob("formats/*"), FIXTURES / "openai-genai-eventonly.logs.jsonl", FIXTURES / "formats"]
    assert all(map(OtelSource.recognises, known))
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(spans(span(1)).encode()))
    assert OtelSource.recognises(packed)
    records = put(tmp_path / "records.jsonl", '{"query": "resourceSpans", "answer": "a"}')
    unknown = [put(tmp_path / "metrics.jsonl", METRICS), records, tmp_path / "missing", Path("/dev/null")]
    assert not any(map(OtelSource.recognises, unknown))


def test_the_doctor_looks_at_every_file(tmp_path: Path) -> None:
    """And says what to do about the one that is not well."""
    put(tmp_path / "metrics.jsonl", METRICS)
    put(tmp_path / "x.jsonl", spans(span(1)))
    checks = {Path(check.name).name: check for check in OtelSource(str(tmp_path)).doctor()}
    assert checks["x.jsonl"].well
    assert not checks["metrics.jsonl"].well
    assert "OTLP" in checks["metrics.jsonl"].remedy
    assert not list(OtelSource(str(tmp_path)).labels())
