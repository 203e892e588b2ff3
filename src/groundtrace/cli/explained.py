"""What `groundtrace show --explain` prints: what each span said, and for every field where it was looked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from groundtrace.cli import plain, printed

if TYPE_CHECKING:
    from groundtrace.read.explain import Explained, Line, Place, Told

_SHOWN = 200
"""Characters of a text that are shown, where a line holds them."""

_DEEPEST = 12
"""Levels of a tree that are indented."""


Part = Text | Padding


def explained(one: Explained) -> Group:
    """A trace for a person who asks why it was read so."""
    parts: list[Part] = [Text(f"trace {plain(one.trace_id)}", "bold"), Text("What the spans say", "bold")]
    parts += [line for told in one.lines for line in _line(told)]
    for number, told in enumerate(one.records, start=1):
        which = f" {number} of {len(one.records)}" if len(one.records) > 1 else ""
        parts += [Text(), Text(f"What became of it: record{which} ({told.record.kind})", "bold"), *_told(told)]
    return Group(*parts)


def _line(line: Line) -> Iterator[Part]:
    indent = "  " * min(line.depth, _DEEPEST)
    named = plain(line.name) or "(no name)"
    yield _row(f"{indent}{named}", (f"  {line.role}", "cyan"), (f"  {line.span_id}", "dim"))
    for held in line.held:
        where = f" {plain(held.attribute)}" if held.attribute else ""
        state = f" ({held.state})" if held.state != "present" else ""
        yield _row(f"{indent}    {held.what}{state}", (where, "dim"), f": {_cut(held.text)}")
    if line.remark:
        yield _inset(Text(plain(line.remark), "yellow"), len(indent) + 4)


def _row(*parts: str | tuple[str, str]) -> Text:
    """One line of the terminal, cut where it ends."""
    row = Text.assemble(*parts)
    row.no_wrap, row.overflow = True, "ellipsis"
    return row


def _inset(text: Text, columns: int) -> Padding:
    return Padding(text, (0, 0, 0, columns))


def _told(told: Told) -> Iterator[Part]:
    said: dict[tuple[str, str], str] = {}
    for part in ("query", "context", "answer"):
        places = [place for place in told.places if place.part == part]
        gap = told.record.gap(part)
        yield Text(f"{part}", "bold")
        for at, place in enumerate(places, start=1):
            yield from _place(at, place)
        if gap is not None:
            before = said.setdefault((gap.reason, gap.remedy), part)
            why = f"{gap.reason}; {plain(gap.remedy)}" if before == part else f"as the {before}"
            yield _inset(Text(f"missing: {why}", "yellow"), 2)
        elif not places:
            yield Text("  nothing to choose from")


def _place(at: int, place: Place) -> Iterator[Part]:
    where = f"{plain(place.attribute)}, span {place.span_id}" if place.attribute else f"span {place.span_id}"
    yield _row(f"{at:>3}. {_cut(place.text)}")
    yield _inset(Text(where, "dim"), 5)
    yield _inset(Text(plain(place.verdict), "green" if place.verdict == "taken" else ""), 5)


def _cut(text: str) -> str:
    words = " ".join(plain(text).split())
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"


def show(found: Iterable[Explained]) -> None:
    """Print them one after the other."""
    out = printed.console()
    for one in found:
        out.print(explained(one))
        out.print()
