"""Traces from OTLP JSON files: spread over lines, files and services, told twice, with their logs in another file."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from groundtrace.adapters.lines import (
    LINE_MB,
    NOT_JSON,
    Losses,
    Problem,
    companions,
    find,
    head,
    is_companion,
    is_own,
    join,
    texts,
)
from groundtrace.adapters.otel.sink import OtelSink
from groundtrace.adapters.otel.wire import Decoder
from groundtrace.errors import PlanError
from groundtrace.model import Check, Log, Ref, Signal, Span, Trace, Window

if TYPE_CHECKING:
    from groundtrace.adapters.otel.wire import Decoded
    from groundtrace.model import Label
    from groundtrace.ports import Choose, Source

_OTLP = re.compile(rb'"(resource_?[sS]pans|resource_?[lL]ogs|batches|scope_?[sS]pans|instrumentationLibrarySpans)"\s*:')

_NAMELESS = Problem("span has no trace id", "spans have no trace id", "skipped")
_MISSHAPEN = Problem("entry fits no OTLP message", "entries fit no OTLP message", "skipped")
_REPEATED = Problem("span came a second time", "spans came a second time", "the fuller copy was kept")
_CIRCLE = Problem("span stands below itself", "spans stand below themselves", "kept, read from where a circle starts")
_ORPHANS = Problem("log record names a trace that is not here", "log records name traces that are not here", "left out")
_OURS = Problem("was written by groundtrace", "", "skipped; give the traces it speaks of")
_NOTHING = Problem("holds no trace files", "", "nothing to read; *.jsonl and *.json are read, also as .gz or .zst")
_LOGS = Problem("holds logs, not traces", "", "joined to the spans they name, where a file of traces holds those")


@dataclass(slots=True)
class _Held:
    """What the files told of one trace so far."""

    spans: dict[str, Span] = field(default_factory=dict)
    logs: list[Log] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    repeated: int = 0


class OtelSource:
    """Traces from OTLP JSON: a file, a folder, a glob, or `-` for standard input; plain, .gz or .zst.

    Spans are merged by trace id over all files; the log records of `x.logs.jsonl` beside `x.jsonl` are joined to the
    spans they name. A JSON text longer than `line_mb` MB is skipped. PlanError where the path leads nowhere; all other
    trouble is in `notes`, and counted in `losses`. Spans are held until the last file is read, those of the traces
    looked at only: about as many bytes as their JSON has.
    """

    platform = "otel"

    def __init__(self, path: str, *, line_mb: int = LINE_MB) -> None:
        self.place = find(path)
        self.line_mb = line_mb
        self.losses = Losses()

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:  # noqa: ARG002 - files are read whole; what was judged before is in the memory
        """The traces, by their first span's start; the window looks at the root's start.

        A trace without times is in every window. `choose` is asked once a trace; without a window, and unless it is
        `patient`, that is when its first span is met, so that the spans of a trace not looked at are never held.
        """
        self.losses = Losses()
        wanted = _Wanted(choose)
        always = window == Window()
        at_once = always and not getattr(choose, "patient", False)
        held = self._gather(wanted if at_once else None)
        for start, trace_id in sorted((_start(of.spans.values()), name) for name, of in held.items() if of.spans):
            of = held.pop(trace_id)
            if at_once or ((always or _inside(window, of.spans, start)) and wanted(trace_id, _errors(of.spans))):
                circles = _in_circles(of.spans)
                if circles:
                    self.losses.add(self.place.path, _CIRCLE, count=len(circles))
                    of.notes += [f"span {ident}: stands below itself" for ident in circles]
                yield _whole(trace_id, of)
        orphans = sum(len(of.logs) for trace_id, of in held.items() if wanted.asked.get(trace_id, True))
        if orphans:
            self.losses.add(self.place.path, _ORPHANS, count=orphans)

    def join(self, other: Source) -> OtelSource | None:
        """The source that reads both as one, so that a trace in files of both is whole; None where it can't."""
        if not isinstance(other, OtelSource) or (place := join(self.place, other.place)) is None:
            return None
        both = copy(self)
        both.place, both.line_mb, both.losses = place, max(self.line_mb, other.line_mb), Losses()
        return both

    def labels(self, since: int | None = None) -> Iterator[Label]:  # noqa: ARG002 - the port's parameter
        """Nothing: people can't answer in a file."""
        return iter(())

    def doctor(self) -> Iterator[Check]:
        """Whether each file can be read and starts like OTLP JSON; standard input is not touched."""
        for file in filter(None, self._files()):
            well = self.recognises(file)
            detail = "OTLP JSON" if well else "does not start like OTLP JSON"
            yield Check(str(file), well, detail, "" if well else "export traces as OTLP JSON lines")

    def home(self) -> OtelSink:
        """The sink beside the files: x.groundtrace.logs.jsonl and x.groundtrace.jsonl for x.jsonl."""
        folder, stem = self.place.home()
        return OtelSink(str(folder), stem=stem)

    def notes(self) -> tuple[str, ...]:
        """What could not be read so far, one line each."""
        return self.losses.notes()

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Whether a file, or a file of a folder, starts like OTLP JSON; nothing else is opened.

        >>> OtelSource.recognises(Path("no/such/file"))
        False
        """
        if path.is_dir():
            with suppress(PlanError):
                return any(cls.recognises(file) for file in find(str(path)).files())
        return _OTLP.search(head(path)) is not None

    def _files(self) -> list[Path | None]:
        """The files to read, each once, with the log records that stand beside them; None is standard input."""
        if self.place.kind == "stdin":
            return [None]
        files = self.place.files()
        beside = (more for file in files if not is_companion(file) for more in companions(file))
        return list({file.resolve(): file for file in (*files, *beside)}.values())

    def _gather(self, wanted: _Wanted | None) -> dict[str, _Held]:
        """Everything by trace id; of the wanted traces only, where that can be told yet."""
        held: defaultdict[str, _Held] = defaultdict(_Held)
        for name, line, decoded in self._read():
            for span in decoded.spans:
                if wanted is None or wanted(span.trace_id):
                    of = held[span.trace_id]
                    known = of.spans.setdefault(span.id, span)
                    if known is not span:
                        of.spans[span.id] = max(known, span, key=_fullness)
                        of.repeated += 1
                        self.losses.add(name, _REPEATED, line)
            for log in decoded.logs:
                if log.trace_id and (wanted is None or wanted.asked.get(log.trace_id, True)):
                    held[log.trace_id].logs.append(log)
            for note in decoded.notes:
                self.losses.add(name, note.problem, line)
                held[note.trace_id].notes.append(note.text)
        return held

    def _read(self) -> Iterator[tuple[str, int, Decoded]]:
        """What each JSON text holds; what can't be read is counted."""
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
            for text in texts(file, self.losses, self.line_mb):
                decoded = decoder.decode(text.data)
                if decoded is None:
                    self.losses.add(text.file, NOT_JSON, text.line)
                    continue
                self._count(text.file, text.line, decoded)
                spans, logs = spans or bool(decoded.spans), logs or bool(decoded.logs)
                yield text.file, text.line, decoded
            if logs and not spans and file not in beside:
                self.losses.add(str(file or "standard input"), _LOGS)

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


def _errors(spans: Mapping[str, Span]) -> tuple[Signal, ...]:
    """That a trace failed, told once, as its first failed span tells it."""
    failed = next((span for span in spans.values() if span.status == "error"), None)
    return (Signal("error", value=True, comment=failed.status_message),) if failed else ()


def _whole(trace_id: str, of: _Held) -> Trace:
    """A trace in the order it ran, each log record with the span it names."""
    joined: dict[str, list[Log]] = {}
    rest: list[Log] = []
    for log in _distinct(sorted(of.logs, key=lambda log: log.time or math.inf)):
        (joined.setdefault(log.span_id, []) if log.span_id in of.spans else rest).append(log)
    spans = sorted(of.spans.values(), key=lambda span: (span.start or math.inf, span.id))
    repeated = [f"{of.repeated} spans came more than once: the fuller copy was kept"] if of.repeated else []
    return Trace(
        ref=Ref(OtelSource.platform, trace_id=trace_id),
        spans=tuple(replace(span, logs=tuple(joined[span.id])) if span.id in joined else span for span in spans),
        logs=tuple(rest),
        notes=(*of.notes, *repeated),
    )


def _in_circles(spans: Mapping[str, Span]) -> list[str]:
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


def _fullness(span: Span) -> tuple[int, int, str]:
    return len(span.attributes), span.end or 0, repr((span.attributes, span.events))


def _start(spans: Iterable[Span]) -> float:
    return min((span.start for span in spans if span.start), default=math.inf)


def _inside(window: Window, spans: dict[str, Span], first: float) -> bool:
    """Whether the root starts in the window; the first span stands in for a root that is missing or has no time."""
    start = _start(span for span in spans.values() if span.parent_id not in spans)
    start = first if start == math.inf else start
    return start == math.inf or (
        (window.since is None or start >= window.since) and (window.until is None or start < window.until)
    )
