"""The command line: `groundtrace demo`, `run`, `watch`, `serve`, `show`, `plugins`.

Results go to stdout, progress and trouble to stderr. Exit codes: 0 the run finished, whatever stayed unscored; 2 bad
plan; 3 a platform or a plugin refused, or stdout can't be written; 130 Ctrl-C.

Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groundtrace.cli.options import (
    AsJson,
    DryRun,
    Judge,
    Kinds,
    PlanFile,
    Quiet,
    Resume,
    Said,
    Share,
    Since,
    Sources,
    Store,
    Until,
    Verbose,
    plan_of,
    planned,
)
from groundtrace.errors import PlanError, PlatformError

if TYPE_CHECKING:
    from groundtrace.model import Record
    from groundtrace.plan import Plan
    from groundtrace.run import Watch
    from groundtrace.tally import Report

_FEW = 3
"""Lines of what was lost that are told without --verbose or --quiet."""

_CYCLES = 10_000
"""New objects after which Python looks for cycles among them: hardly any of ours are in one, and its own 700 cost a
fifteenth of a run."""

_PACE = 5.0
"""Seconds between two lines of progress where there is no terminal."""

app = typer.Typer(
    name="groundtrace",
    help="Groundedness scores for the traces you already have.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; text the terminal's encoding can't hold is escaped, a full disk behind stdout is told."""
    gc.set_threshold(_CYCLES)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except OSError as error:
        _silence()
        typer.echo(f"groundtrace: the output can't be written: {error.strerror or error}", err=True)
        sys.exit(3)


def _silence() -> None:
    """Let nothing more go to stdout, not even what waits in its buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        from groundtrace import __version__

        with _border():
            typer.echo(f"groundtrace {__version__}")
        raise typer.Exit


@app.callback()
def groundtrace(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Groundedness scores for the traces you already have."""


# --- commands -------------------------------------------------------------------------------------------------------


@app.command()
def demo(
    *,
    phoenix: Annotated[
        bool,
        typer.Option(
            "--phoenix",
            help="See the scores in Phoenix: start the one that is installed, send it the traces, score them there, "
            "and stay until Ctrl-C.",
        ),
    ] = False,
) -> None:
    """Judge five small traces offline and see what comes out; leaves its files in groundtrace-demo/."""
    if phoenix:
        from groundtrace.cli import phoenix as shown

        with _border():
            program = shown.installed()
            _unpack_demo(Path("groundtrace-demo"))
            report = shown.show(Path("groundtrace-demo"), program)
        _leave(report)
        return
    from groundtrace.cli import printed
    from groundtrace.memory import InMemory
    from groundtrace.plan import Plan
    from groundtrace.run import look, run

    with _border():
        folder = Path("groundtrace-demo")
        _unpack_demo(folder)
        cards = f"jsonl:{folder}/cards.groundtrace.jsonl"
        plan = Plan(sources=f"otel:{folder}/traces.jsonl", sinks=(f"otel:{folder}", cards), sample=1.0)
        memory = InMemory()
        records: list[Record] = []
        look(plan, records.append)
        report = run(plan, memory=memory)
        out = printed.console()
        out.print("Five answers of a library's help desk, read from their traces and judged offline.\n", style="dim")
        for number, record in enumerate(records, start=1):
            out.print(printed.story(number, record, memory))
        out.print(printed.summary(report, lowest=0))
        out.print(printed.next_steps(folder))
    _leave(report)


@app.command("run")
@planned()
def run_command(
    *,
    said: Said,
    resume: Resume = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score traces and write the scores beside them, or where --to says."""
    from groundtrace.adapters.times import is_window
    from groundtrace.cli import life, printed
    from groundtrace.run import run

    with _border():
        if resume:
            found = life.unfinished(said.keys["store"], [*said.names, *(["--dry-run"] if dry_run else [])])
            if found is None:
                return
            run_id, plan = found
        else:
            run_id, plan = "", said.plan(dry_run=dry_run or None)
            plan = plan.model_copy(update={"store": plan.store or "default"})
        if verbose:
            talk(plan)
        with _progress(quiet=quiet) as watch, life.stoppable("" if plan.dry_run else life.command(plan)) as stopping:
            report = run(plan, progress=watch, stopping=stopping, run_id=run_id)
        if as_json:
            typer.echo(printed.report_json(report))
        elif not quiet:
            shown = printed.estimate if plan.dry_run else printed.summary
            printed.console().print(shown(report, lowest=10, kinds=None) if verbose else shown(report))
        else:
            report = replace(report, notes=tuple(note for note in report.notes if not is_window(note)))
    notes = 0 if as_json else _FEW if not (quiet or verbose) else None
    _leave(report, notes=notes, how=life.command(plan, report.about.batch_id))


@app.command()
def show(
    sources: Sources = None,
    *,
    plan_file: PlanFile = None,
    card: Annotated[
        str | None,
        typer.Option(
            help="Instead of a SOURCE: a card of the store, by its id or the start of it; what was asked, every reply "
            "with what was wrong with it, and the card's versions.",
            metavar="ID",
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            help="How one trace was read: what each of its spans says, and for each field the places it was looked "
            "for, in order, and why each of them was taken or not.",
            metavar="TRACE_ID",
        ),
    ] = None,
    kind: Kinds = None,
    sample: Share = None,
    since: Since = None,
    until: Until = None,
    store: Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a record.")] = False,
) -> None:
    """Print the records as they were read, where each thing stood, and what to change where something is missing."""
    if card is not None:
        from groundtrace.cli import kept

        with _border():
            kept.show(card, store, as_json=as_json)
        return
    from groundtrace.cli import printed
    from groundtrace.run import look

    if explain is not None:
        from groundtrace.cli import explained
        from groundtrace.run.explaining import explanations

        with _border():
            if as_json:
                raise PlanError("json", "--explain", "is for people", hint="leave one of the two out")
            explained.show(explanations(plan_of(sources, plan_file, kind=kind, since=since, until=until), explain))
        return
    out = printed.console()

    def see(record: Record) -> None:
        if as_json:
            typer.echo(printed.record_json(record))
        else:
            out.print(printed.record(record))

    with _border():
        plan = plan_of(sources, plan_file, kind=kind, sample=sample, since=since, until=until)
        report = look(plan, see)
        if not as_json:
            out.print(printed.looked(report))
    _leave(report, notes=None)


@app.command()
def doctor(
    sources: Sources = None,
    *,
    judge: Judge = None,
    plan_file: PlanFile = None,
) -> None:
    """Say what is well and what is not with sources and a judge; one case is judged, and what it cost is said."""
    from groundtrace.cli.doctor import examine

    with _border():
        plan = plan_of(sources or (None if plan_file else ["otel:-"]), plan_file, judge=judge)
        sound = examine(
            plan, sources=bool(sources or plan_file), judge=judge is not None or bool(plan_file) or not sources
        )
    raise typer.Exit(0 if sound else 3)


@app.command()
def plugins() -> None:
    """List every source, sink, convention, rubric and judge that can be named, and who brought it."""
    from groundtrace.cli import printed
    from groundtrace.plugins import installed

    with _border():
        printed.console().print(printed.plugins(installed()))


# --- between the user and the rest ----------------------------------------------------------------------------------


@contextmanager
def _border() -> Iterator[None]:
    """What goes wrong on purpose becomes one line and an exit code, never a traceback."""
    try:
        yield
    except (PlanError, PlatformError) as error:
        _tell(str(error).split("\n") if getattr(error, "others", ()) else [str(error)])
        raise typer.Exit(2 if isinstance(error, PlanError) else 3) from None
    except BrokenPipeError:  # whoever reads has seen enough: `groundtrace show FILE | head -1`
        _silence()
        raise typer.Exit(0) from None
    except KeyboardInterrupt as stop:
        how = f". Go on with: {stop}" if str(stop) else ""
        typer.echo(f"groundtrace: stopped; what was written before stays{how}", err=True)
        raise typer.Exit(130) from None


def _leave(report: Report, *, notes: int | None = 0, how: str = "") -> None:
    """Say what failed and what was lost, of that at most so many lines; end with the code the report asks for."""
    _tell(report.failed, report.about.more_failed)
    if notes != 0:
        hidden = len(report.notes[notes:]) if notes is not None else 0
        _tell(report.notes[:notes], report.about.more_notes + hidden, "; --verbose shows more" if hidden else "")
    if report.about.state == "interrupted":
        typer.echo(f"groundtrace: stopped; what was in flight is finished and kept. Go on with: {how}", err=True)
        raise typer.Exit(130)
    if report.failed:
        raise typer.Exit(3)


def _tell(lines: Sequence[str], more: int = 0, where: str = "") -> None:
    """Trouble, a line each, on stderr."""
    for line in [*lines, *([f"... and {more:,} more{where}"] if more else [])]:
        typer.echo(f"groundtrace: {plain(line)}", err=True)


def talk(plan: Plan) -> None:
    """Show the plan, and from now on what is behind trouble."""
    logging.basicConfig()
    logging.getLogger("groundtrace").setLevel(logging.DEBUG)
    typer.echo(plain(plan.to_toml(), lines=True), err=True, nl=False)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Watch]:
    """How far a run is: a moving line on a terminal, a line now and then elsewhere."""
    if quiet:
        yield lambda *_: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("reading")
            yield lambda traces, cards: bar.update(task, description=_so_far(traces, cards))
    else:
        last = time.monotonic()

        def tell(traces: int, cards: int) -> None:
            nonlocal last
            if time.monotonic() - last >= _PACE:
                last = time.monotonic()
                typer.echo(f"groundtrace: {_so_far(traces, cards)}", err=True)

        yield tell


def _so_far(traces: int, cards: int) -> str:
    return f"{count(traces, 'trace')} read, {count(cards, 'card')} done"


def _unpack_demo(folder: Path) -> None:
    """Copy the demo's traces where they can be looked at; a file of the user's own is never written over."""
    packed = resources.files("groundtrace.data")
    held = {
        name.replace("demo", "traces"): packed.joinpath(name).read_bytes() for name in ("demo.jsonl", "demo.logs.jsonl")
    }
    try:
        folder.mkdir(exist_ok=True)
        for name, content in held.items():
            if (folder / name).exists() and (folder / name).read_bytes() != content:
                hint = "move it away, or run the demo in another folder"
                raise PlanError("demo", str(folder / name), "is there already and not the demo's", hint=hint)
        for name, content in held.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise PlanError("demo", str(folder), f"cannot be written: {error.strerror}") from None


def count(n: int, what: str) -> str:
    """A number and its noun.

    >>> count(1, "trace"), count(2000, "card")
    ('1 trace', '2,000 cards')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def figure(value: float) -> str:
    """A score as a person reads it: to hundredths.

    >>> figure(0.3333), figure(4.0), figure(4.5)
    ('0.33', '4', '4.5')
    """
    return f"{round(value, 2):g}"


def plain(text: str, limit: int | None = None, *, lines: bool = False) -> str:
    r"""Other people's text, safe on a terminal: control and direction characters are shown and not obeyed.

    >>> plain("a\x1b[31mb\u202ec"), plain("a\n\tb"), plain("abcdef", 4)
    ('a\\x1b[31mb\\u202ec', 'a b', 'abc…')
    """
    if not lines:
        text = " ".join(text.split())
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return "".join(c if c in "\n\u200d" or unicodedata.category(c)[0] != "C" else ascii(c)[1:-1] for c in text)


from groundtrace.cli import attach as _attach  # noqa: E402, F401 - adds its commands, and needs what stands above
from groundtrace.cli import review as _review  # noqa: E402, F401 - adds its command, and needs what stands above
from groundtrace.cli import rubric as _rubric  # noqa: E402, F401 - same
from groundtrace.cli import serve as _serve  # noqa: E402, F401 - same
from groundtrace.cli import watch as _watch  # noqa: E402, F401 - same
