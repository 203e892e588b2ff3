"""Records in, scorecards out: JSON lines for those who have questions, contexts and answers, and no traces."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import orjson
from msgspec.structs import replace

from groundtrace.adapters.files import find, is_own, join
from groundtrace.adapters.ledger import Ledger, Line, Stamp, chunks, stamp, stamp_of, writable
from groundtrace.adapters.lines import LINE_MB, NOT_JSON, Losses, Problem, cleaned, damage, head, texts
from groundtrace.adapters.marks import Marks
from groundtrace.adapters.published import State, receipts
from groundtrace.errors import PlanError
from groundtrace.model import NAMESPACE, Check, Receipt, Ref, Scorecard, Signal, Span, Trace, canonical, parts
from groundtrace.read.given import oddities

if TYPE_CHECKING:
    from groundtrace.adapters.lines import Text
    from groundtrace.model import Label, Window
    from groundtrace.ports import Choose, Source

FIELDS = ("query", "context", "answer", "summary")
"""What makes an object a record: any one of them."""

ATTRIBUTE = "groundtrace.record"
"""The attribute of a record's one span that holds the object as it was read."""

SCOPE = "groundtrace.jsonl"
_DEEPEST = 64
_OPENING = 50
"""Lines of a file that are looked at to tell what it holds: the first may be torn, or odd."""

_STRANGERS = 3
_KEYS = 6
"""How many sets of strange keys are named, and how many keys of each."""
_HELD = {
    "targets",
    "rubric",
    "version",
    "judge",
    "judge_kind",
    "timestamp",
    "batch_id",
    "risk",
    "status",
    "reason",
    "flags",
}
"""The fields of a card that are written while a person has not decided: none tells how it was scored."""

_APART = {"ref", "review"}
"""The fields of a card that a line says in its own way."""

_CARD = re.compile(rb'\s*\{"id":"[^"]*","record_id":')
_KEY = re.compile(rb'"(query|context|answer|summary)"\s*:')

_WORD = re.compile(r"[\w.-]{1,40}")

_NO_RECORD = Problem("line is no record", "lines are no records", f"skipped; one holds {', '.join(FIELDS)}")
_OTLP = Problem("line is OTLP, no record", "lines are OTLP, no records", "skipped; read them as otel:PATH")
_TOO_DEEP = Problem("line is nested too deep", "lines are nested too deep", "skipped")
_TWICE = Problem("record came a second time", "records came a second time", "skipped")
_SAME_ID = Problem("record has another's id", "records have another's id", "read under the id with # and a number")
_SAME_SPAN = Problem("record has another's span", "records have another's span", "read under a span id of its own")
_REPLACED = Problem("line held text that is no Unicode", "lines held text that is no Unicode", "U+FFFD stands there")
_ODD_RISK = Problem(
    "record has a risk that is neither normal nor high",
    "records have a risk that is neither normal nor high",
    "taken as high",
)
_OURS = Problem("was written by groundtrace", "", "skipped; give the records it speaks of")
_NOTHING = Problem(
    "holds no files of records", "", "nothing to read; *.jsonl, *.ndjson and *.json are read, also as .gz or .zst"
)
_KEPT = "a person's or a better judge's card stands"


class JsonlSource:
    """Records as JSON lines: a file, a folder, a glob, or `-` for standard input; plain, .gz or .zst.

    A line holds `query`, `context` (texts, or objects with `id` and `text`) and `answer`, or some of them, or
    the `source` and `summary` of a summary, and may hold `id`, `trace_id`, `span_id`, `signals` (what its user said:
    objects with `name`, `value`, `negative`, `comment`) and whatever else a record has. A
    record without an id gets one made from its content. Each becomes a trace of one span that carries the object. What
    is no record is named in `notes`.
    """

    platform = "jsonl"
    yields = True
    """What looks like records may be another's: traces hold queries and answers too."""

    def __init__(self, path: str, *, line_mb: int = LINE_MB) -> None:
        self.place = find(path)
        self.line_mb = line_mb
        self.losses = Losses()

    @property
    def at_hand(self) -> bool:
        """Whether no trace is waited for."""
        return self.place.is_at_hand

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:  # noqa: ARG002 - records have no time, and files are read whole
        """The records in the order they stand, one at a time; they have no time, so they are in every window."""
        self.losses = Losses()
        earlier = _Earlier()
        for text, item, replaced in self._objects():
            named = _named(item)
            name = earlier.name(named)
            if name is None:
                self.losses.add(text.file, _TWICE, text.line)
                continue
            notes = []
            if name != named["id"]:
                self.losses.add(text.file, _SAME_ID, text.line)
                named["id"] = name
                notes.append(f"its id stands on an earlier line: read as {name}")
            span = _span(named)
            if earlier.holds(span):
                self.losses.add(text.file, _SAME_SPAN, text.line)
                span = replace(span, id=_made_id(named["id"]))
                notes.append(f"its span stands on an earlier line: read as {span.id}")
            for field, wanted in oddities(named):
                self.losses.add(text.file, _ODD_RISK if field == "risk" else _odd(field, wanted), text.line)
            if replaced:
                notes.append(f"span {span.id}: {damage(text.data)}")
            ref = Ref(self.platform, trace_id=span.trace_id, span_id=span.id)
            signals = _signals(named.get("signals"))
            if choose(ref, signals):
                yield Trace(ref, (span,), signals=signals, notes=tuple(notes))

    def join(self, other: Source) -> JsonlSource | None:
        """The source that reads both as one, so that a record in both is read once; None where it can't."""
        if not isinstance(other, JsonlSource) or (place := join(self.place, other.place)) is None:
            return None
        both = copy(self)
        both.place, both.line_mb, both.losses = place, max(self.line_mb, other.line_mb), Losses()
        return both

    def labels(self, since: int | None = None) -> Iterator[Label]:  # noqa: ARG002 - the port's parameter
        """Nothing: people can't answer in a file."""
        return iter(())

    def doctor(self) -> Iterator[Check]:
        """Whether each file can be read and starts like records; standard input is not touched."""
        for file in self.place.files():
            well = self.recognises(file)
            detail = "records" if well else "does not start like records"
            yield Check(str(file), well, detail, "" if well else f"write one object a line with {', '.join(FIELDS)}")

    def home(self) -> JsonlSink:
        """The sink beside the file: x.groundtrace.jsonl for x.jsonl."""
        folder, stem = self.place.home()
        return JsonlSink(str(folder / f"{stem}.groundtrace.jsonl"))

    def notes(self) -> tuple[str, ...]:
        """What could not be read so far, one line each."""
        return self.losses.notes()

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Whether a file, or a file of a folder, has a record among its first lines; nothing else is opened.

        >>> JsonlSource.recognises(Path("no/such/file"))
        False
        """
        if path.is_dir():
            with suppress(PlanError):
                return any(cls.recognises(file) for file in find(str(path)).files())
        start = head(path)
        for text in (start, *start.splitlines()[:_OPENING]):
            with suppress(ValueError, RecursionError):
                told = {_problem(item) for item in _items(orjson.loads(text))}
                if told & {None, _OTLP}:
                    return _OTLP not in told
        return b"resourceSpans" not in start and _KEY.search(start) is not None

    def _objects(self) -> Iterator[tuple[Text, dict[str, Any], bool]]:
        """Each object that is a record, where it stands, and whether its text had to be mended."""
        files: tuple[Path | None, ...] = (None,) if self.place.kind == "stdin" else self.place.files()
        if not files:
            self.losses.add(self.place.path, _NOTHING)
        told: set[Problem] = set()
        for file in files:
            if file is not None and is_own(file):
                self.losses.add(str(file), _OURS)
                continue
            for text in texts(file, self.losses, self.line_mb):
                try:
                    value, replaced = _parsed(text.data)
                except (ValueError, RecursionError) as error:
                    problem = NOT_JSON if isinstance(error, ValueError) else _TOO_DEEP
                    self.losses.add(text.file, problem, text.line)
                    continue
                if replaced:
                    self.losses.add(text.file, _REPLACED, text.line)
                for item in _items(value):
                    reason = _problem(item)
                    if reason is None:
                        yield text, item, replaced
                        continue
                    if reason is _NO_RECORD:
                        named = _stranger(item)
                        told |= {named} if len(told) < _STRANGERS and named is not _NO_RECORD else set()
                        reason = named if named in told else reason
                    self.losses.add(text.file, _of_items(reason) if isinstance(value, list) else reason, text.line)


class JsonlSink:
    """Writes scorecards to a file, one a line; a card that stands there already is not written again.

    A card whose content changed is added as its newest version, so the last line of an id counts. That line stands
    for the whole card: what earlier lines of the id say is over. A card that waits for a person is written without its
    scores, and without anything they could be read from. PlanError where the file holds anything but scorecards.
    """

    name = "jsonl"
    updates: Literal["upsert", "append"] = "append"

    def __init__(self, path: str) -> None:
        file = Path(path)
        if path == "-" or file.is_dir():
            raise PlanError("to", path, "is no file", hint="name one, such as jsonl:cards.jsonl")
        writable(file.parent, (file,))
        if not _holds_cards(head(file)):
            raise PlanError("to", path, "holds something other than scorecards", hint="name another file")
        self.path = file
        self._ledger = Ledger(file, _stamps)

    @property
    def files(self) -> tuple[Path, ...]:
        """What it writes to."""
        return (self.path,)

    def notes(self) -> tuple[str, ...]:
        """What it found broken in its files, one line each."""
        return self._ledger.notes()

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Write the cards, and say what became of each score once its card is on the disk."""
        for chunk in chunks(cards):
            for card, (states, reason) in zip(chunk, self._written(chunk), strict=True):
                every = {card.feedback_id(score.name): states[card.id] for score in card.scores}
                yield from receipts(card, self.name, every or states, {"kept": _KEPT, "failed": reason})

    def _written(self, cards: Sequence[Scorecard]) -> Iterator[tuple[Mapping[str, State], str]]:
        """What became of each card, and why one failed; where they can't be written together, each is tried alone."""
        try:
            added = self._ledger.append([_line(card) for card in cards])
        except (OSError, TypeError, ValueError) as error:
            if len(cards) > 1:
                for card in cards:
                    yield from self._written([card])
            elif isinstance(error, OSError):
                yield {cards[0].id: "failed"}, error.strerror or str(error)
            else:
                raise
            return
        yield from ((states, "") for states in added)


def _line(card: Scorecard) -> Line:
    return Line({card.id: stamp_of(card, card.content_hash)}, lambda _: line(card, card.content_hash))


def line(card: Scorecard, content_hash: str) -> dict[str, Any]:
    """A scorecard as one flat object: where it belongs first, then what was found, then how it was found.

    Of a card that waits for a person only what says which card waits and why: no score leaves in another guise.
    """
    held = card.status == "pending_review"
    try:
        fields = parts(card)
    except TypeError:  # a plugin's own kind of card, or a whole number in it where one with a point belongs
        fields = card.model_dump(mode="json")
    said = {name: told for name, told in fields.items() if name in _HELD or not (held or name in _APART)}
    said |= {"scores": [], "findings": []} if held else {}
    placed: dict[str, Any] = {"id": card.id, "record_id": card.record_id, "content_hash": content_hash}
    placed |= {"platform": card.ref.platform, "project": card.ref.project}
    placed |= {"trace_id": card.ref.trace_id, "span_id": card.ref.span_id}
    first = ("rubric", "version", "judge", "judge_kind", "status", "reason", "scores", "findings")
    placed |= {name: said[name] for name in first} | {"review": [review.reason for review in card.review]}
    return placed | said


# --- a record -------------------------------------------------------------------------------------------------------


def _parsed(data: bytes) -> tuple[Any, bool]:
    """A JSON text, and whether some of it was no Unicode; numbers that are none are null."""
    try:
        value, replaced = orjson.loads(data), False
    except ValueError:
        raw = json.loads(data.decode("utf-8", "surrogateescape"), parse_constant=lambda _: None, parse_float=_finite)
        value = cleaned(raw)
        replaced = value != raw
    # What has few brackets is not nested deep: it need not be walked through.
    if data.count(b"[") + data.count(b"{") >= _DEEPEST - 1 and not _fits(value, _DEEPEST):
        raise RecursionError("nested too deep")
    return value, replaced


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _fits(value: object, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_fits(item, depth - 1) for item in inner)


class _Earlier:
    """What stood on earlier lines."""

    def __init__(self) -> None:
        self._contents, self._names, self._spans = Marks(), Marks(), Marks()
        self._counts: dict[str, int] = {}
        """How many records had an id so far, of those that more than one had."""

    def name(self, item: Mapping[str, Any]) -> str | None:
        """The id to read a record under: its own, or with a number where another has it; None where it came before."""
        ident = item["id"]
        if not self._contents.add(canonical(item)):
            return None
        number = self._counts.get(ident, 0) + 1
        name = ident if number == 1 else f"{ident}#{number}"
        while not self._names.add(name):
            number += 1
            name = f"{ident}#{number}"
        if number > 1:
            self._counts[ident] = number
        return str(name)

    def holds(self, span: Span) -> bool:
        """Whether another record had this span; it is held from now on."""
        return not self._spans.add((span.trace_id, span.id))


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else [value]


def _problem(item: object) -> Problem | None:
    """Why an item is no record; None where it is one."""
    if isinstance(item, dict) and any(item.get(name) is not None for name in FIELDS):
        return None
    return _OTLP if isinstance(item, dict) and {"resourceSpans", "resourceLogs"} & item.keys() else _NO_RECORD


def _of_items(problem: Problem) -> Problem:
    """What is said of lines, said of the items of a list, of which one line may hold many."""
    one, many = problem.one.replace("line", "item", 1), problem.many.replace("lines", "items", 1)
    return problem._replace(one=one, many=many)


def _stranger(item: object) -> Problem:
    """What an object without a record's fields holds instead, as far as its keys are plain words."""
    held = list(item)[:_DEEPEST] if isinstance(item, dict) else []
    keys = [key for key in held if key not in FIELDS and _WORD.fullmatch(key)]
    if not keys:
        return _NO_RECORD
    shown = ", ".join(keys[:_KEYS]) + (" ..." if len(keys) > _KEYS else "")
    outcome = f"skipped; a record's keys are {', '.join(FIELDS[:3])}, or source and summary: rename these"
    return Problem(f"line is no record, it holds {shown}", f"lines are no records, they hold {shown}", outcome)


def _odd(field: str, wanted: str) -> Problem:
    """A field beside a record's texts that can't be read whole."""
    said = f"{field} that can't be read whole"
    return Problem(f"record holds {said}", f"records hold {said}", f"left out; give {wanted}")


def _named(item: Mapping[str, Any]) -> dict[str, Any]:
    """The record with its id as text, or with one made from its content."""
    given = _text(item.get("id"))
    if given:
        return {**item, "id": given}
    content = {key: value for key, value in item.items() if key != "signals"}  # feedback comes later to the same record
    return {**item, "id": uuid.uuid5(NAMESPACE, canonical(content).decode()).hex}


def _signals(value: object) -> tuple[Signal, ...]:
    """What a user said of a record, as far as it can be read; `name` alone is enough."""
    told = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return tuple(
        Signal(
            item["name"],
            value=said if isinstance(said := item.get("value"), str | int | float) else None,
            negative=item.get("negative") is True,
            comment=_text(item.get("comment")),
            source=_text(item.get("source")),
        )
        for item in told
        if isinstance(item.get("name"), str)
    )


def _span(item: Mapping[str, Any]) -> Span:
    trace_id = _text(item.get("trace_id")) or item["id"]
    span_id = _text(item.get("span_id")) or _made_id(item["id"])
    return Span(id=span_id, trace_id=trace_id, name="record", attributes={ATTRIBUTE: item}, scope=SCOPE)


def _made_id(record_id: str) -> str:
    return uuid.uuid5(NAMESPACE, record_id).hex[:16]


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else canonical(value).decode()


# --- reading it back ------------------------------------------------------------------------------------------------


def _holds_cards(start: bytes) -> bool:
    """Whether a file starts like one of scorecards: is empty, or torn by a crash in its first line, or has one."""
    lines = start.strip().splitlines()
    if len(lines) == 1 and lines[0].startswith(b'{"id"') and not _CARD.match(lines[0]):
        with suppress(ValueError):
            orjson.loads(lines[0])
            return False
        return True
    return not lines or any(map(_CARD.match, lines))


class _Written(msgspec.Struct, gc=False):
    """What tells one written card from another."""

    id: str
    content_hash: str
    judge_kind: str
    status: str


def _stamps(written: bytes) -> Iterator[tuple[str, Stamp]]:
    with suppress(ValueError, RecursionError):
        card = msgspec.json.decode(written, type=_Written)
        yield card.id, stamp(card.content_hash, card.judge_kind, card.status)
