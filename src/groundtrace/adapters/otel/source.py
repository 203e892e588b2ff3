"""Traces from files: spread over lines, files and services, told twice, with their logs in another file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from groundtrace.adapters.files import companions, find, is_companion, is_own, join
from groundtrace.adapters.lines import LINE_MB, NOT_JSON, Losses, Problem, called, chunks, head, split
from groundtrace.adapters.otel import formats, protobuf
from groundtrace.adapters.otel.shelf import HELD_MB, Held, Shelf, start_of
from groundtrace.adapters.otel.sink import OtelSink
from groundtrace.adapters.otel.wire import Decoder
from groundtrace.errors import PlanError
from groundtrace.model import Check, Log, Ref, Signal, Span, Trace, Window

if TYPE_CHECKING:
    from groundtrace.adapters.lines import Text
    from groundtrace.adapters.otel.wire import Decoded
    from groundtrace.model import Label
    from groundtrace.ports import Choose, Source

_OPENING = 64
"""Bytes that tell protobuf from text."""

_NAMELESS = Problem("span has no trace id", "spans have no trace id", "skipped")
_MISSHAPEN = Problem("entry fits no OTLP message", "entries fit no OTLP message", "skipped")
_REPEATED = Problem("span came a second time", "spans came a second time", "the fuller copy was kept")
_CIRCLE = Problem("span stands below itself", "spans stand below themselves", "kept, read from where a circle starts")
_ORPHANS = Problem("log record names a trace that is not here", "log records name traces that are not here", "left out")
_OURS = Problem("was written by groundtrace", "", "skipped; give the traces it speaks of")
_NOTHING = Problem(
    "holds no trace files", "", "nothing to read; *.jsonl, *.json and *.pb are read, each also as .gz or .zst"
)
_LOGS = Problem("holds logs, not traces", "", "joined to the spans they name, where a file of traces holds those")


class OtelSource:
    """Traces from OTLP as JSON or protobuf: a file, a folder, a glob, or `-` for standard input; plain, .gz or .zst.

    The JSON of Jaeger, Zipkin, Tempo, Phoenix and MLflow is read as well; each file is told by what it holds.
    Spans are merged by trace id over all files; the log records of `x.logs.jsonl` beside `x.jsonl` are joined to the
    spans they name. A JSON text longer than `line_mb` MB is skipped. PlanError where the path leads nowhere; all other
    trouble is in `notes`, and counted in `losses`. Spans are held until the last file is read, those of the traces
    looked at only: in memory as far as they came from `held_mb` MB of files, else in a temporary file.
    """

    platform = "otel"

    def __init__(self, path: str, *, line_mb: int = LINE_MB, held_mb: float = HELD_MB) -> None:
        self.place = find(path, binary=True)
        self.line_mb = line_mb
        self.held_mb = held_mb
        self.losses = Losses()

    @property
    def at_hand(self) -> bool:
        """Whether no trace is waited for."""
        return self.place.is_at_hand

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:  # noqa: ARG002 - files are read whole; what was judged before is in the memory
        """The traces, by their first span's start; the window looks at the root's start.

        A trace without times is in every window. `choose` is asked once a trace; without a window, and unless it is
        `patient`, that is when its first span is met, so that the spans of a trace not looked at are never held.
        """
        self.losses = Losses()
        wanted = _Wanted(choose)
        always = window == Window()
        at_once = always and not getattr(choose, "patient", False)
        orphans = 0
        with Shelf(self.held_mb) as shelf:
            self._gather(shelf, wanted if at_once else None)
            for trace_id, start, of in shelf.traces():
                if not of.spans:
                    orphans += len(of.logs) if wanted.asked.get(trace_id, True) else 0
                elif at_once or ((always or _inside(window, of.spans, start)) and wanted(trace_id, errors(of.spans))):
                    yield self._whole(trace_id, of)
            if shelf.repeated:
                self.losses.add(self.place.path, _REPEATED, count=shelf.repeated)
        if orphans:
            self.losses.add(self.place.path, _ORPHANS, count=orphans)

    def join(self, other: Source) -> OtelSource | None:
        """The source that reads both as one, so that a trace in files of both is whole; None where it can't."""
        if not isinstance(other, OtelSource) or (place := join(self.place, other.place)) is None:
            return None
        both = copy(self)
        both.place, both.losses = place, Losses()
        both.line_mb, both.held_mb = max(self.line_mb, other.line_mb), max(self.held_mb, other.held_mb)
        return both

    def labels(self, since: int | None = None) -> Iterator[Label]:  # noqa: ARG002 - the port's parameter
        """Nothing: people can't answer in a file."""
        return iter(())

    def doctor(self) -> Iterator[Check]:
        """Whether each file can be read and starts like traces; standard input is not touched."""
        for file in filter(None, self._files()):
            held = _held(file)
            detail = held or "does not start like OTLP JSON or any other form of traces that is read"
            yield Check(str(file), held is not None, detail, "" if held else "export traces as OTLP JSON lines")

    def home(self) -> OtelSink:
        """The sink beside the files: x.groundtrace.logs.jsonl and x.groundtrace.jsonl for x.jsonl."""
        folder, stem = self.place.home()
        return OtelSink(str(folder), stem=stem)

    def notes(self) -> tuple[str, ...]:
        """What could not be read so far, one line each."""
        return self.losses.notes()

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Whether a file, or a file of a folder, starts like traces in a form that is read; nothing else is opened.

        >>> OtelSource.recognises(Path("no/such/file"))
        False
        """
        if path.is_dir():
            with suppress(PlanError):
                return any(cls.recognises(file) for file in find(str(path), binary=True).files())
        return _held(path) is not None

    def _files(self) -> list[Path | None]:
        """The files to read, each once, with the log records that stand beside them; None is standard input."""
        if self.place.kind == "stdin":
            return [None]
        files = self.place.files()
        beside = (more for file in files if not is_companion(file) for more in companions(file))
        return list({file.resolve(): file for file in (*files, *beside)}.values())

    def _gather(self, shelf: Shelf, wanted: _Wanted | None) -> None:
        """Everything onto the shelf; of the wanted traces only, where that can be told yet."""
        for name, line, size, decoded in self._read():
            kept = False
            for span in decoded.spans:
                if wanted is None or wanted(span.trace_id):
                    kept = True
                    if not shelf.of(span.trace_id).take(span):
                        self.losses.add(name, _REPEATED, line)
            for log in decoded.logs:
                if log.trace_id and (wanted is None or wanted.asked.get(log.trace_id, True)):
                    kept = True
                    shelf.of(log.trace_id).logs.append(log)
            for note in decoded.notes:
                self.losses.add(name, note.problem, line)
                shelf.of(note.trace_id).notes.append(note.text)
            if kept:
                shelf.took(size)

    def _read(self) -> Iterator[tuple[str, int, int, Decoded]]:
        """What each JSON text or message holds, with its size; what can't be read is counted."""
        decoder = Decoder()
        files = self._files()
        beside = {companion for file in files if file for companion in companions(file)}
        if not files:
            self.losses.add(self.place.path, _NOTHING)
        for file in files:
            if file is not None and is_own(file):
                self.losses.add(str(file), _OURS)
                continue
            spans = logs = False
            for text, unreadable in self._texts(file):
                decoded = decoder.decode(text.data)
                if decoded is None:
                    self.losses.add(text.file, unreadable, text.line)
                    continue
                self._count(text.file, text.line, decoded)
                spans, logs = spans or bool(decoded.spans), logs or bool(decoded.logs)
                yield text.file, text.line, len(text.data), decoded
            if logs and not spans and file not in beside:
                self.losses.add(str(file or "standard input"), _LOGS)

    def _texts(self, file: Path | None) -> Iterator[tuple[Text, Problem]]:
        """The texts or messages of a file, each with what it is called where it is neither."""
        data, start = chunks(file, self.losses), b""
        while len(start) < _OPENING and (piece := next(data, None)) is not None:
            start += piece
        whole = chain([start] if start else [], data)
        form = protobuf.form(start)
        if form is None:
            found, unreadable = split(whole, called(file), self.losses, self.line_mb), NOT_JSON
        else:
            found, unreadable = protobuf.split(whole, form, called(file), self.losses, self.line_mb), protobuf.DAMAGED
        return ((text, unreadable) for text in found)

    def _whole(self, trace_id: str, of: Held) -> Trace:
        """A trace, with what is odd about the whole of it noted."""
        circles = in_circles(of.spans)
        if circles:
            self.losses.add(self.place.path, _CIRCLE, count=len(circles))
        return whole(trace_id, of, circles)

    def _count(self, name: str, line: int, decoded: Decoded) -> None:
        if decoded.strange:
            strange = (f"line holds {decoded.strange}", f"lines hold {decoded.strange}")
            self.losses.add(name, Problem(*strange, "skipped; OTLP traces are read here"), line)
        if decoded.nameless:
            self.losses.add(name, _NAMELESS, line, decoded.nameless)
        if decoded.misshapen:
            self.losses.add(name, _MISSHAPEN, line, decoded.misshapen)


class _Wanted:
    """What `choose` said of each trace: it is asked once."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self.asked: dict[str, bool] = {}

    def __call__(self, trace_id: str, signals: tuple[Signal, ...] = ()) -> bool:
        if trace_id not in self.asked:
            self.asked[trace_id] = self._choose(Ref(OtelSource.platform, trace_id=trace_id), signals)
        return self.asked[trace_id]


def errors(spans: Mapping[str, Span]) -> tuple[Signal, ...]:
    """That a trace failed, told once, as its first failed span tells it."""
    failed = next((span for span in spans.values() if span.status == "error"), None)
    return (Signal("error", value=True, comment=failed.status_message),) if failed else ()


def _held(file: Path) -> str | None:
    """What the traces in a file look like they are, or None."""
    start = head(file)
    return "OTLP protobuf" if protobuf.form(start) else formats.named(start)


def whole(trace_id: str, of: Held, circles: Iterable[str] = ()) -> Trace:
    """A trace in the order it ran, each log record with the span it names; with what is odd about it noted."""
    joined: dict[str, list[Log]] = {}
    rest: list[Log] = []
    for log in _distinct(sorted(of.logs, key=lambda log: log.time or math.inf)):
        (joined.setdefault(log.span_id, []) if log.span_id in of.spans else rest).append(log)
    spans = ordered(of.spans.values())
    repeated = [f"{of.repeated} spans came more than once: the fuller copy was kept"] if of.repeated else []
    return Trace(
        ref=Ref(OtelSource.platform, trace_id=trace_id),
        spans=tuple(replace(span, logs=tuple(joined[span.id])) if span.id in joined else span for span in spans),
        logs=tuple(rest),
        notes=(*of.notes, *(f"span {ident}: stands below itself" for ident in circles), *repeated),
    )


def ordered(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans of a trace in the order they began."""
    return tuple(sorted(spans, key=lambda span: (span.start or math.inf, span.id)))


def in_circles(spans: Mapping[str, Span]) -> list[str]:
    """The spans whose parents lead back to them; each span is walked over once."""
    done: set[str] = set()
    found: list[str] = []
    for ident in spans:
        walked: dict[str, int] = {}
        at: str | None = ident
        while at is not None and at in spans and at not in done and at not in walked:
            walked[at] = len(walked)
            at = spans[at].parent_id
        if at is not None and at in walked:
            found += list(walked)[walked[at] :]
        done |= walked.keys()
    return found


def _distinct(logs: Iterable[Log]) -> Iterator[Log]:
    """Log records, without the copies that a file read twice brings; only a time tells a copy from a repetition."""
    seen: set[int] = set()
    for log in logs:
        mark = hash(repr(log)) if log.time else id(log)
        if mark not in seen:
            seen.add(mark)
            yield log


def _inside(window: Window, spans: dict[str, Span], first: float) -> bool:
    """Whether the root starts in the window; the first span stands in for a root that is missing or has no time."""
    start = start_of({span.id: span for span in spans.values() if span.parent_id not in spans})
    start = first if start == math.inf else start
    return start == math.inf or (
        (window.since is None or start >= window.since) and (window.until is None or start < window.until)
    )
