"""A row as Braintrust's API tells it, as a span; the rows of a trace as a trace.

The row stays as it came, in the attribute `braintrust.row`: what it means is a convention's to say. Begin and end are
Unix seconds in its metrics; a row without a begin was written in one go, and is over. That the middle of a
transaction's id is the second in which a row was changed holds wherever both were seen, and is documented nowhere: one
that can't be that is not believed, and then only begins and ends say when a row was touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from groundtrace.adapters.braintrust.api import PLATFORM, Place, Row
from groundtrace.adapters.lines import REPLACED
from groundtrace.adapters.times import nanoseconds
from groundtrace.model import JUDGE_MARK, Ref, Signal, Span, Trace

ATTRIBUTE = "braintrust.row"
OURS = "groundtrace"
"""What stands in the metadata of rows we wrote, and of roots we told of our scores."""

SEEN = (
    ("id",), ("span_id",), ("root_span_id",), ("span_parents",), ("is_root",), ("created",), ("metrics",), ("scores",),
    ("span_attributes",), ("tags",), ("error",), ("_xact_id",), ("_pagination_key",), ("metadata", OURS),
    ("metadata", JUDGE_MARK), ("metadata", "tags"),
)  # fmt: skip
"""What is asked of a row before its trace is chosen: nothing that went in or came out."""

_ASIDE = frozenset({"score", "review", "automation", "facet", "preprocessor", "classifier"})
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_LATEST = 253_402_300_800
"""The year 10000, in seconds."""
_XACT_TOP = 0x0DE1
_TRACEBACK = "Traceback (most recent call last):"
_MARK = JUDGE_MARK.removeprefix(f"{OURS}.")


def told(row: Row, *path: str) -> Any:
    """What a row says under a path, whether it was asked for whole or by that path.

    >>> told({"metadata": {"a": {"b": 1}}}, "metadata", "a", "b"), told({"metadata.a": 2}, "metadata", "a")
    (1, 2)
    """
    dotted = ".".join(path)
    if dotted in row:
        return row[dotted]
    at: Any = row
    for name in path:
        at = at.get(name) if isinstance(at, Mapping) else None
    return at


def trace_of(row: Row) -> str:
    """The id of the trace a row is part of."""
    return str(row.get("root_span_id") or span_of(row))


def span_of(row: Row) -> str:
    """The id of a row's span; a row that lacks one is known by its own."""
    return str(row.get("span_id") or row["id"])


def parent_of(row: Row) -> str | None:
    """The span a row's span stands below: the first of its parents."""
    parents = row.get("span_parents")
    return str(parents[0]) if isinstance(parents, list) and parents and parents[0] else None


def is_root(row: Row) -> bool:
    """Whether a trace begins with a row: it has no parent, and does not merely log something."""
    return parent_of(row) is None and kind(row) not in {"log", *_ASIDE} and not is_scorer(row)


def kind(row: Row) -> str:
    """The type of a row's span."""
    return str(told(row, "span_attributes", "type") or "").lower()


def is_scorer(row: Row) -> bool:
    """Whether a row is what a scorer said or did."""
    return bool(told(row, "span_attributes", "purpose") == "scorer")


def is_aside(row: Row) -> bool:
    """Whether a row is no part of what the traced program did: a score, a review, an automation."""
    return kind(row) in _ASIDE or is_scorer(row)


def is_written(row: Row) -> bool:
    """Whether a row is a scorer span of ours."""
    return is_scorer(row) and told(row, "metadata", OURS) is not None


def is_ours(row: Row) -> bool:
    """Whether a judge of ours left a row: its metadata, flat or nested at the dots, or its tags carry the mark."""
    tags, inner = row.get("tags"), told(row, "metadata", OURS)
    nested = isinstance(inner, Mapping) and _MARK in inner and not is_scorer(row)
    return nested or told(row, "metadata", JUDGE_MARK) is not None or (isinstance(tags, list) and JUDGE_MARK in tags)


def begun(row: Row) -> int | None:
    """When a row's span began; else when the row was made."""
    began = seconds(told(row, "metrics", "start"))
    return began if began is not None else nanoseconds(row.get("created"))


def ended(row: Row) -> int | None:
    """When a row's span ended."""
    return seconds(told(row, "metrics", "end"))


def is_over(row: Row) -> bool:
    """Whether a row's span ended; one that never began was written in one go."""
    return ended(row) is not None or seconds(told(row, "metrics", "start")) is None


def changed(row: Row) -> int | None:
    """When a row was last changed, to the second, by its transaction; None where that can't be told.

    >>> row = {"_xact_id": "1000194776110029234", "created": "2025-03-18T14:16:28.539Z"}
    >>> changed(row) == nanoseconds("2025-03-18T14:16:29Z")
    True
    """
    made, xact = nanoseconds(row.get("created")), transaction(row)
    at = (xact >> 16 & 0xFFFF_FFFF) * _SECOND
    return at if xact >> 48 == _XACT_TOP and made is not None and at >= made - _DAY else None


def transaction(row: Row) -> int:
    """The transaction that changed a row last, a number that grows; 0 where there is none."""
    try:
        return int(str(row.get("_xact_id")))
    except ValueError:
        return 0


def at_transaction(moment: int) -> int:
    """A transaction that no later one is below.

    >>> at_transaction(nanoseconds("2025-03-18T14:16:29Z")) < 1000194776110029234
    True
    """
    return _XACT_TOP << 48 | moment // _SECOND << 16


def seconds(value: object) -> int | None:
    """Unix seconds, however many digits they have, in nanoseconds.

    >>> seconds(1795996164.8562458), seconds(1), seconds(None), seconds(float("nan"))
    (1795996164856246000, 1000000000, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LATEST:  # NaN is neither
        return None
    return round(value * 1_000_000) * 1_000


def newest(page: Iterable[Row], held: dict[str, Row] | None = None) -> dict[str, Row]:
    """Rows by their ids, of each the one that was changed last; one without an id is no row."""
    found = {} if held is None else held
    for row in page:
        ident = str(row.get("id") or "")
        if not ident:
            continue
        there = found.get(ident)
        if there is None or transaction(row) >= transaction(there):
            found[ident] = row
    return found


def ref(root: Row, place: Place) -> Ref:
    """Where scores on a trace go: its root's row, in the logs or the experiment it is kept in.

    A Ref to another span of the trace carries these keys as well: whose row `id` is has to be looked at.
    """
    kept = "project_logs" if place.kind == "project_logs" else f"experiment:{place.id}"
    keys = {"id": str(root["id"]), "object": kept}
    return Ref(PLATFORM, place.project_id, trace_of(root), span_of(root), keys)


def span(row: Row) -> Span:
    """A row as a span that holds it; one that logs something stands below the span whose id it shares."""
    attributes: dict[str, Any] = {ATTRIBUTE: row}
    if is_ours(row):
        attributes[JUDGE_MARK] = True
    logs = kind(row) == "log"
    name, error = told(row, "span_attributes", "name"), row.get("error")
    return Span(
        f"log {row['id']}" if logs else span_of(row),
        trace_of(row),
        name if isinstance(name, str) else "",
        span_of(row) if logs else parent_of(row),
        "internal",
        begun(row),
        ended(row),
        "error" if error else "unset",
        line_of(error) if error else "",
        attributes,
    )


def line_of(error: object) -> str:
    """What an error says, in a line; of a traceback, which is what the SDK logs, what was raised in the end."""
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("name") or ""
    said = str(error).strip()
    if said.startswith(_TRACEBACK):
        steps = said.rpartition(_TRACEBACK)[2].split("\n")
        said = next((line for line in steps if line.strip() and not line.startswith(" ")), said)
    return said.partition("\n")[0][:200]


def trace(
    of: Ref,
    rows: Iterable[Row],
    *,
    signals: Sequence[Signal] = (),
    complete: bool = True,
    notes: Sequence[str] = (),
    damaged: Iterable[str] = (),
) -> Trace:
    """The rows of a trace in the order their spans began, but for scores of ours; what logs something comes last.

    Of rows that share a span the one that was changed last counts. `damaged` are rows that lost characters.
    """
    hurt = frozenset(damaged)
    held: dict[str, tuple[int, Span]] = {}
    told_of: dict[str, None] = {}
    for row in rows:
        if is_written(row):
            continue
        made, xact = span(row), transaction(row)
        if made.id not in held or held[made.id][0] < xact:
            held[made.id] = (xact, made)
        if str(row["id"]) in hurt:
            told_of[f"span {made.id}: {REPLACED}"] = None
    found = {ident: one for ident, (_, one) in held.items()}
    spans = [replace(one, parent_id=None) if _begins(one, found) else one for one in found.values()]
    spans.sort(key=lambda one: (one.id.startswith("log "), one.start or 0, one.id))
    return Trace(of, tuple(spans), signals=tuple(signals), complete=complete, notes=(*notes, *told_of))


def _begins(one: Span, found: Mapping[str, Span]) -> bool:
    """Whether a span with a parent begins a request of its own.

    SDKs before 0.31 put a run of LangChain below the one before it, which had ended: one that says of itself that no
    run stands above it [braintrust-sdk-python#621].
    """
    above = found.get(one.parent_id) if one.parent_id else None
    metadata = one.attributes[ATTRIBUTE].get("metadata")
    if above is None or not isinstance(metadata, Mapping) or not metadata.get("run_id"):
        return False
    alone = "parent_run_id" in metadata and metadata["parent_run_id"] is None
    return alone and one.start is not None and above.end is not None and above.end <= one.start
