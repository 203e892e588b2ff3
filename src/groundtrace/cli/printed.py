"""What a person sees: a run's summary, a dry run's estimate, a record as it was read, the demo's stories.

Every function gives something rich can print, or JSON. Other people's text goes through `plain` first and is never
read as markup.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from groundtrace.cli import count, figure, plain
from groundtrace.model import card_id, dump
from groundtrace.run.choosing import UNPICKED
from groundtrace.tally import Report

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import ConsoleOptions, ConsoleRenderable, RenderResult

    from groundtrace.memory import InMemory
    from groundtrace.model import Gap, Record
    from groundtrace.plugins import Plugin
    from groundtrace.tally import Low, Tally

_BARS = "▁▂▃▄▅▆▇█"
_FEW = 3
"""Low cards that are shown without --verbose."""

_KINDS = 5
"""Remedies of one gap that are shown without --verbose."""

_DIGITS = re.compile(r"\d+")
_LOST = re.compile(r" \(this span lost \d+ attributes\)")
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)

_ENDLESS = 10_000
"""Characters of a line in which everything fits."""

_MANY = 30
"""Passages and citations of one record that are shown."""

_SUMMING: Mapping[str, str] = {"context": "source", "answer": "summary"}
"""What the fields of a record are called where it is a summary."""

Row = tuple[str, str, str]
"""A short word, a text and the text's style."""


class _Output(Console):
    """A console that tells when nobody reads any more, as every other stream does."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Piped(StringIO):
    """Standard output without the blanks that fill a terminal's lines."""

    def write(self, text: str) -> int:
        sys.stdout.write(_TRAILING.sub("", text))
        return len(text)

    def flush(self) -> None:
        sys.stdout.flush()


def console() -> Console:
    """Where results go; without a terminal a line is 100 characters, or $COLUMNS."""
    terminal = sys.stdout.isatty()
    width = None if terminal or "COLUMNS" in os.environ else 100
    return _Output(highlight=False, markup=False, emoji=False, width=width, file=None if terminal else _Piped())


# --- a run ----------------------------------------------------------------------------------------------------------


def _unjudged(report: Report) -> Iterator[str]:
    """Why nothing was judged, or nothing under some rubrics."""
    if not report.traces:
        yield _unpicked(report) or ("Nothing could be read." if report.failed else "Nothing was found to judge.")
    elif not report.cards and report.growing == report.traces:
        yield "No trace is over yet, or each ended just now: run again in a while."
    elif not report.cards:
        yield "No record is of a kind that these rubrics are for."
    elif idle := [plain(rubric) for rubric, records in report.suited.items() if not records]:
        yield f"No record is of a kind that is judged by {' or '.join(idle)}."


def _unpicked(report: Report) -> str:
    """That there is something, and the sample holds none of it."""
    left = 0 if report.traces else report.passed.get(UNPICKED, 0)
    return f"The sample holds none of {count(left, 'trace')}: --sample 1 looks at all." if left else ""


def summary(report: Report, *, lowest: int = _FEW, kinds: int | None = _KINDS) -> Group:
    """A run for a person: scores, cards, the lowest, what was not read whole, where the scores went."""
    parts: list[ConsoleRenderable] = [Text(reading(report), "bold")]
    parts += [Text(line) for line in _unjudged(report)]
    if report.scores:
        parts += [_GAP, _Scores(report)]
    if report.cards:
        parts += [_GAP, grid((rubric, _cards(report, rubric), "") for rubric in report.cards)]
    if report.lowest and lowest:
        rows = (row for low in report.lowest[:lowest] for row in _low(low))
        parts += [_GAP, Text("Look at these first", "bold"), grid(rows)]
    if report.gaps or report.unread:
        parts += [_GAP, Text("Not read whole", "bold"), grid(_losses(report, kinds))]
    parts += [part for told in _left_alone(report) for part in (_GAP, Text(told, "cyan"))]
    if report.receipts:
        went = ((_scored(states, none=not report.scores), plain(name), "") for name, states in report.receipts.items())
        parts += [_GAP, Text("Scores went to", "bold"), grid(went)]
    if report.about.judge_kind == "offline" and report.cards:
        parts += [_GAP, Text(f"Judged offline. {plain(report.about.limits)}", "dim")]
    return Group(*parts)


def _left_alone(report: Report) -> Iterator[str]:
    """What stands because of others: a model's or a person's scores, another run's traces."""
    if report.kept:
        whose = {"llm": "a model's", "human": "a person's"}
        kept = ", ".join(f"{count(n, 'score')} of {whose.get(kind, kind)}" for kind, n in report.kept.items())
        yield f"Kept: {kept}; this judge's word does not replace them."
    if report.held:
        yield f"{count(report.held, 'trace')} left to another run that works on them."


def estimate(report: Report, *, lowest: int = 0, kinds: int | None = _KINDS) -> Group:  # noqa: ARG001 - called as `summary` is
    """What a dry run found: how much a judge would be asked."""
    asked = report.about.cost
    cost = "not known for this judge" if asked is None else f"about {asked:.2f} US dollars for what is asked"
    cost += "" if asked is None else "; replies come on top, and questions asked twice"
    cost = "0 US dollars" if report.about.judge_kind == "offline" else cost
    rows = [
        ("questions", f"{report.cases:,} for judge {plain(report.about.judge)}", ""),
        ("tokens", f"about {report.tokens:,} in; an estimate that takes four characters for a token", ""),
        ("cost", cost, ""),
        ("dry run", "no judge was asked, nothing was written", ""),
    ]
    return Group(*_read(report), grid([*rows, *_losses(report, kinds)]))


def report_json(report: Report) -> str:
    """The report as one JSON object, with the means worked out."""
    told = json.loads(dump(report))
    for name, tally in report.scores.items():
        told["scores"][name]["mean"] = tally.mean
    return json.dumps(told)


def reading(report: Report) -> str:
    """How much was read, in one line."""
    traces = f"{count(report.traces, 'trace')} read"
    sampled = f" of {report.seen:,}" if report.seen > report.traces else ""
    passed = [f"{n:,} {why}" for why, n in report.passed.items() if n]
    sampled += f" ({', '.join(passed)})" if passed else ""
    kinds = {**report.records, "other": max(0, report.records.get("other", 0) - report.growing)}
    called = {"other": "without a request"}
    others = [f"{n:,} {called.get(kind, f'of kind {kind}')}" for kind, n in kinds.items() if n and kind != "answer"]
    records = count(sum(kinds.values()), "record") + (f" ({', '.join(others)})" if others else "")
    lost = [f"{n:,} {what}" for n, what in ((report.skipped, "unreadable"), (report.growing, "not over yet")) if n]
    seconds = [f"{report.about.seconds:.1f} s"] if report.about.seconds else []
    return " · ".join([traces + sampled, records, *lost, *seconds])


def _read(report: Report) -> list[Text]:
    """How much was read, and what to do where that was nothing."""
    unpicked = _unpicked(report)
    return [Text(reading(report), "bold"), *([Text(unpicked)] if unpicked else [])]


def looked(report: Report) -> Group:
    """What was read, and what was not whole, counted by what is missing and why."""
    rows = list(_losses(report, None))
    more: list[ConsoleRenderable] = [_GAP, Text("Not read whole", "bold"), grid(rows)] if rows else []
    return Group(*_read(report), *more)


class _Scores:
    """The table of scores; where the lines are short, without their spread rather than with names cut in two."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = _scores(self._report)
        needed = Measurement.get(console, options.update(width=_ENDLESS), table).maximum
        if needed > options.max_width:
            table.columns = [column for column in table.columns if column.header != "Spread"]
        yield table


def _scores(report: Report) -> Table:
    table = _table("Score", "Mean", "Lowest", "Range", "Spread", "Cards")
    for name, tally in sorted(report.scores.items(), key=_order):
        rubric, _, part = name.partition(".")
        headed = rubric in report.scores or f"{rubric}.assessed" in report.scores
        table.add_row(
            f"  {part}" if headed and part not in ("", "assessed") else name,
            _figure(tally.mean),
            _figure(tally.minimum),
            f"{tally.low:g} to {tally.high:g}",
            _spread(tally),
            f"{tally.count:,}" + (f" of {tally.count + tally.nulls:,}" if tally.nulls else ""),
        )
    return table


def _order(item: tuple[str, Tally]) -> tuple[str, bool, str]:
    """A rubric's headline before its parts."""
    rubric, _, part = item[0].partition(".")
    return rubric, part not in ("", "assessed"), part


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _spread(tally: Tally) -> str:
    """How the values lie over their range, lowest fifth first."""
    top = max(tally.fifths)
    return " ".join(_BARS[-(-n * (len(_BARS) - 1) // top)] if n else "·" for n in tally.fifths) if top else "-"


def _cards(report: Report, rubric: str) -> str:
    states = report.cards[rubric]
    parts = [f"{states['scored']:,} scored"] if states.get("scored") else []
    if states.get("pending_review"):
        parts.append(f"{states['pending_review']:,} held until a person decides")
    if states.get("unscored"):
        reasons = ", ".join(f"{n:,} {plain(why)}" for why, n in report.reasons.get(rubric, {}).items())
        parts.append(f"{states['unscored']:,} not judged ({reasons})")
    if report.abstained.get(rubric):
        parts.append(f"{report.abstained[rubric]:,} abstained (not in the means of claims)")
    if report.review.get(rubric):
        parts.append(f"{report.review[rubric]:,} for a person to see")
    return " · ".join(parts)


def _part(name: str) -> str:
    """A score's name within its rubric."""
    return name.partition(".")[2] or "mean"


def _low(low: Low) -> Iterator[Row]:
    yield f"{figure(low.value)} of {low.high:g}", f"{low.score}, trace {plain(low.trace_id)}", "bold"
    if low.claim.rstrip(".") not in low.why:
        yield "", f'"{plain(low.claim, 240)}"', ""
    yield "", plain(low.why, 400) + (f" (cause: {low.cause})" if low.cause else ""), "dim"


def _losses(report: Report, limit: int | None) -> Iterator[Row]:
    """What was not read: traces without anything to judge, then what records lack, each with what to do."""
    for why, seen in report.unread.items():
        yield f"{sum(seen.values()):,} x", f"{'trace' if sum(seen.values()) == 1 else 'traces'}: {plain(why)}", "yellow"
        yield from _kinds({f"seen: {what}": n for what, n in seen.items()}, limit)
        mapping = (
            "; a mapping in a plan reads spans of your own (docs/plan.md)" if why.startswith("no installed") else ""
        )
        yield "", f"groundtrace show SOURCE --explain TRACE_ID shows what its spans say{mapping}", "dim"
    for gap, remedies in report.gaps.items():
        yield f"{sum(remedies.values()):,} x", plain(gap), "yellow"
        yield from _kinds(remedies, limit)


def _kinds(texts: Mapping[str, int], limit: int | None) -> Iterator[Row]:
    """Texts that tell one thing, those that differ in numbers alone as one; the most frequent first."""
    groups: dict[str, list[str]] = {}
    for text in filter(None, texts):
        groups.setdefault(_DIGITS.sub("0", text), []).append(text)
    told = sorted(((sum(texts[text] for text in group), group[0]) for group in groups.values()), key=lambda t: -t[0])
    for n, text in told[:limit]:
        yield "", plain(_LOST.sub("", text), 480) + (f" ({n:,} x)" if len(told) > 1 else ""), "dim"
    if limit is not None and len(told) > limit:
        yield "", f"... and {count(len(told) - limit, 'more kind')}; --verbose shows them", "dim"


def _scored(states: Mapping[str, int], *, none: bool = False) -> str:
    """What became of scores; where there was none, of the reasons why.

    >>> _scored({"kept": 1, "written": 20})
    '1 score kept, 20 written'
    >>> _scored({"written": 3}, none=True)
    'no score; 3 reasons why written'
    """
    noun, after = ("reason", " why") if none else ("score", "")
    return "no score; " * none + ", ".join(
        f"{n:,} {state}" if at else f"{count(n, noun)}{after} {state}" for at, (state, n) in enumerate(states.items())
    )


# --- a record -------------------------------------------------------------------------------------------------------


def record(one: Record) -> Table:
    """A record as it was read, each thing with the span and attribute it came from, each gap with its remedy."""
    origins = {origin.field: origin for origin in one.origins}

    summing = one.kind == "summary"

    def told(word: str, text: str, field: str) -> Iterator[Row]:
        yield word, text, ""
        if origin := origins.get(field):
            yield "", f"from {plain(origin.attribute)}, span {plain(origin.span_id or '-')}", "dim"

    rows: list[Row] = [("trace", f"{plain(one.ref.trace_id)} ({one.kind})", "bold")]
    if one.query is not None:
        rows += told("query", plain(one.query, 600), "query")
    for number, passage in enumerate(one.context[:_MANY]):
        text = f"{plain(passage.id)}: {plain(passage.text, 300)}"
        word = f"[{passage.rank}]" if not summing else "source" if number == 0 else ""
        rows += told(word, text, f"context[{number}]")
    rows += _rest(one.context, "passage")
    if one.answer is not None:
        rows += told("summary" if summing else "answer", plain(one.answer, 1200), "answer")
    rows += [("must hold", plain(fact, 300), "") for fact in one.key_facts[:_MANY]]
    rows += [("risk", one.risk, "")] if one.risk == "high" else []
    rows += [("tags", plain(", ".join(one.tags), 300), "")] if one.tags else []
    slices = ", ".join(f"{name}={value}" for name, value in one.slices.items())
    rows += [("slices", plain(slices, 300), "")] if slices else []
    for citation in one.citations[:_MANY]:
        nowhere = (
            "not resolved, for the context is not whole" if one.gap("context") else "no passage that was retrieved"
        )
        target = plain(citation.passage_id) if citation.passage_id else nowhere
        where = f"{plain(citation.marker or 'a citation')} at {citation.start}: {target}"
        rows.append(("cites", where, "" if citation.passage_id else "yellow"))
    rows += _rest(one.citations, "citation")
    rows += [("gap", missing, "yellow") for missing in _missing(one.gaps, _SUMMING if summing else {})]
    return grid([*rows, ("", "", "")])


def _rest(things: Sequence[object], what: str) -> list[Row]:
    more = len(things) - _MANY
    return [("", f"and {count(more, what)} more; --json shows them all", "dim")] if more > 0 else []


def _missing(gaps: Iterable[Gap], words: Mapping[str, str]) -> list[str]:
    """What is missing, why and what to do: once for all fields that lack it for the same reason."""
    alike: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        alike.setdefault((gap.reason, gap.remedy), []).append(words.get(gap.field, gap.field))
    return [
        f"{', '.join(fields)}: {plain(reason)}" + (f"; {plain(remedy)}" if remedy else "")
        for (reason, remedy), fields in alike.items()
    ]


def record_json(one: Record) -> str:
    """A record as one line of JSON."""
    cited = [{"start": c.start, "end": c.end, "marker": c.marker, "passage_id": c.passage_id} for c in one.citations]
    told = {
        "trace_id": one.ref.trace_id,
        "span_id": one.ref.span_id,
        "kind": one.kind,
        "query": one.query,
        "context": [{"id": passage.id, "text": passage.text} for passage in one.context],
        "answer": one.answer,
        "citations": cited,
        "gaps": [{"field": gap.field, "reason": gap.reason, "remedy": gap.remedy} for gap in one.gaps],
    }
    return json.dumps(told)


# --- the demo, the plugins ------------------------------------------------------------------------------------------


def story(number: int, one: Record, memory: InMemory) -> Table:
    """One of the demo's traces: what was asked and answered, how it scored and why."""
    rows: list[Row] = [(str(number), plain(one.query or "-"), "bold")]
    if one.answer:
        rows.append(("", plain(one.answer, 400), ""))
    known = (memory.card(card_id(one.ref, rubric)) for rubric in ("source_support", "rag_faithfulness"))
    for card in filter(None, known):
        told = ", ".join(f"{_part(s.name)} {figure(s.value)}" for s in card.scores if s.value is not None)
        abstained = " (the answer abstains)" if "abstained" in card.flags else ""
        if card.status == "unscored":
            rows.append(("", f"{card.rubric}  not judged: {plain(card.reason or '-')}", "yellow"))
        else:
            rows.append(("", f"{card.rubric}  {told}{abstained}", "cyan"))
        rows += [("", f"→ {plain(low.why, 300)}", "yellow") for low in Report.of_card(card).lowest]
    rows += [("", f"→ {row}", "yellow") for row in _missing(one.gaps, {})]
    return grid([*rows, ("", "", "")], width=2)


def next_steps(folder: Path) -> Group:
    """What to do after the demo, in three lines."""
    rows = [
        ("look", f"groundtrace show {folder}/traces.jsonl    what was read, and from which attribute", ""),
        ("scores", f"{folder}/scores.groundtrace.logs.jsonl    events with your spans' ids", ""),
        ("yours", "groundtrace run FILE_OR_FOLDER --dry-run    then without --dry-run", ""),
    ]
    return Group(_GAP, Text("Next", "bold"), grid(rows))


def plugins(found: Iterable[Plugin]) -> Table:
    """What can be named, and who brought it."""
    table = _table("Kind", "Name", "Distribution", "Version")
    for plugin in found:
        table.add_row(*map(plain, (plugin.kind, plugin.name, plugin.distribution, plugin.version)))
    return table


# --- pieces ---------------------------------------------------------------------------------------------------------

_GAP = Text("")


def _table(*headings: str) -> Table:
    return Table(*headings, box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")


def grid(rows: Iterable[Row], width: int = 9) -> Table:
    """Rows of a short word and a text that keeps its indent when it wraps."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(min_width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    for word, text, style in rows:
        grid.add_row(Text(word, "dim"), Text(text, style))
    return grid
