"""`groundtrace rubric`: take a copy of a rubric, see what it changes, and test it before it is used."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundtrace.cli import _border, _tell, app, count, plain
from groundtrace.errors import PlanError

if TYPE_CHECKING:
    from groundtrace.cli.trial import Change, Trial
    from groundtrace.rubrics.copies import Edition

_FEWEST = 2
"""Records with a score both times below which a test says nothing."""

rubric = typer.Typer(
    name="rubric",
    help="Copy a rubric's wording and bounds, see what a copy changes, test it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(rubric)

Copy = Annotated[Path, typer.Argument(metavar="COPY", help="A copy: its NAME.toml.", show_default=False)]


@rubric.command()
def copy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The rubric, such as source_support.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the copy goes.")] = Path("rubrics"),
) -> None:
    """Write a rubric's settings (NAME.toml) and prompt (NAME.md) where you can change them; writes over nothing."""
    from groundtrace.plugins import load
    from groundtrace.rubrics import copies
    from groundtrace.rubrics.settings import NAMES

    with _border():
        if name not in NAMES:
            raise PlanError("rubric", name, "can't be copied", valid=NAMES)
        made: Any = load("rubric", name)
        settings, prompt = copies.write(made.edition, folder)
        spec = str(settings).replace(",", "\\,")
        typer.echo(f"{plain(str(settings))}   anchors, bounds, weights, examples: whatever can be set")
        typer.echo(f"{plain(str(prompt))}   the prompt, with places for them")
        typer.echo(f"\nChange them, and name the copy in the plan:\n\n    rubrics = [{_quoted(f'{name},copy={spec}')}]")
        typer.echo(f"\nSee what it changes:  groundtrace rubric diff {plain(str(settings))}")
        typer.echo(f"See what it moves:    groundtrace rubric test {plain(str(settings))} --golden FILE.jsonl")


@rubric.command()
def diff(path: Copy) -> None:
    """Show what a copy changes, line by line, and both versions."""
    from groundtrace.cli.trial import edition_of

    with _border():
        edition: Edition[Any] = edition_of(path).edition
        for line in _differences(edition):
            typer.echo(plain(line, lines=True))


@rubric.command("test")
def try_copy(
    path: Copy,
    *,
    golden: Annotated[
        Path,
        typer.Option(
            metavar="FILE.jsonl",
            help="The records to test on, as jsonl: reads them; each may have a label, the score people give it.",
        ),
    ],
    judge: Annotated[
        str, typer.Option(metavar="JUDGE", help="Who judges; the one that will use the copy.")
    ] = "offline",
    against: Annotated[
        Path | None,
        typer.Option(metavar="COPY", help="Another copy to compare with. (left out: the built-in)", show_default=False),
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Write into the copy that this version of it was tested.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the test as one JSON object.")] = False,
) -> None:
    """Judge the same records by the built-in and by a copy, and say what changes and how sure that is."""
    from groundtrace.cli import printed
    from groundtrace.cli.trial import edition_of, try_out
    from groundtrace.model import dump
    from groundtrace.plugins import load
    from groundtrace.rubrics import copies

    with _border():
        after = edition_of(path)
        before = load("rubric", after.name) if against is None else edition_of(against)
        if before.name != after.name:
            raise PlanError("against", str(against), f"is a copy of {before.name}, and {path} of {after.name}")
        trial = try_out(before, after, golden, judge)
        if adopt and trial.tested < _FEWEST:
            _tell(trial.notes)
            told = f"was scored both times on {count(trial.tested, 'record')}, and that says nothing"
            raise PlanError("adopt", str(path), told, hint=f"give a golden file with {_FEWEST} or more")
        if adopt:
            copies.adopt(path, after.version)
        if as_json:
            typer.echo(json.dumps(json.loads(dump(trial)) | {"adopted": adopt}))
        else:
            names = ("built-in" if against is None else str(against), str(path))
            printed.console().print(*_report(trial, names), sep="\n")
            typer.echo(f"\n{_next(trial, path, golden, after, adopt=adopt)}")
        _tell(trial.notes)


# --- what a copy changes --------------------------------------------------------------------------------------------


def _differences(edition: Edition[Any]) -> Iterator[str]:
    """Both versions, then what differs in the settings and in the prompt."""
    sheet, own, name = edition.sheet, edition.own, edition.settings.name
    yield f"built-in  {edition.of_built_in}"
    yield f"copy      {edition.of_copy}  {sheet.path}"
    made_from = sheet.settings.made_from
    if made_from != edition.of_built_in:
        since = f"was made from {made_from}" if made_from else "does not say what it was made from"
        yield f"\nThe copy {since}; where the built-in changed since then, its lines differ below as yours do."
    settings = sheet.path or Path(name)
    files = (
        (f"{name}.toml", str(settings), own.told, sheet.told),
        (f"{name}.md", str(settings.with_suffix(".md")), own.template, sheet.template),
    )
    lines: list[str] = []
    for theirs, mine, old, new in files:
        before, after = _without_origin(old), _without_origin(new)
        lines += difflib.unified_diff(before, after, f"built-in {theirs}", mine, lineterm="", n=1)
    if lines:
        yield ""
        yield from lines
    if edition.of_copy == edition.of_built_in:
        yield "\nNothing differs." if not lines else "\nNone of this moves a score: the version is the built-in's."


def _without_origin(text: str) -> list[str]:
    """The lines of a file without those that say where it comes from."""
    return [line for line in text.splitlines() if line.split("=")[0].strip() not in {"made_from", "adopted"}]


# --- what a test found ----------------------------------------------------------------------------------------------


def _report(trial: Trial, names: tuple[str, str]) -> Iterator[Any]:
    """A test for a person: scores before and after, what changed most."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    yield Text(f"{trial.rubric} on {count(trial.records, 'record')}, judge {plain(trial.judge)}", "bold")
    for word, name, version in zip(("before", "after"), names, trial.versions, strict=True):
        yield Text(f"{word:<7} {version}  {plain(name)}")
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("score", overflow="fold")
    for heading in ("n", "before", "after", "change", "95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    for change in (*trial.changes, *([trial.agreement] if trial.agreement else [])):
        named = "agreement with the labels" if change is trial.agreement else change.score
        table.add_row(named, f"{change.n:,}", *_figures(change))
    table.add_row("records unscored", f"{trial.records:,}", *(f"{n:,}" for n in trial.unscored))
    yield table
    for change in trial.changes:
        if change.gone or change.come:
            yield Text(f"{change.score}: {change.gone:,} records lost it, {change.come:,} gained it", "dim")
    if trial.changes and trial.changes[0].clusters < trial.changes[0].n:
        told = f"{count(trial.changes[0].n, 'record')} of {count(trial.changes[0].clusters, 'source')}"
        yield Text(f"Records of one document or trace count together in the intervals: {told}.", "dim")
    if trial.moved:
        yield Text("Changed most", "bold")
    for moved in trial.moved:
        yield Text(f"  {moved.before:g} to {moved.after:g}  {plain(moved.record, 24)}  {plain(moved.text, 60)}")
    if trial.judge_kind == "offline":
        yield Text(
            "The offline judge reads no prompt: wording and examples move nothing here; bounds and weights do.", "dim"
        )


def _figures(change: Change) -> tuple[str, ...]:
    """The cells of one row."""
    if change.before is None or change.after is None or change.change is None:
        return ("", "", "", "never scored both times")
    if change.interval is not None:
        sure = f"{_signed(change.interval.low)} to {_signed(change.interval.high)}"
    elif change.n < _FEWEST:
        sure = "too few records"
    elif not change.change:
        sure = "no change"
    else:
        sure = "all of one source" if change.clusters < _FEWEST else "all alike"
    return f"{change.before:.2f}", f"{change.after:.2f}", _signed(change.change), sure


def _signed(value: float) -> str:
    """A change, with its sign where it has one.

    >>> _signed(0.125), _signed(-0.001)
    ('+0.12', '0.00')
    """
    return f"{value:+.2f}" if abs(value) >= 0.005 else "0.00"


def _next(trial: Trial, path: Path, golden: Path, after: Any, *, adopt: bool) -> str:
    """What stands now, and what to do."""
    if adopt:
        return f"Adopted: {plain(str(path))} says that {after.version} was tested."
    if not after.edition.untested:
        return "This version is adopted already." if after.edition.settings.adopted else "The copy is the built-in."
    if trial.tested < _FEWEST:
        return f"Too few records to say anything: give {_FEWEST} or more."
    return f"To adopt it:  groundtrace rubric test {plain(str(path))} --golden {plain(str(golden))} --adopt"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
