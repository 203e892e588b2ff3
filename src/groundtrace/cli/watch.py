"""`groundtrace watch`: rounds without end, a line each."""

from __future__ import annotations

import datetime as dt
import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from groundtrace.cli import _border, _leave, _progress, _tell, app, count, plain, talk
from groundtrace.cli.options import AsJson, Quiet, Said, Verbose, planned
from groundtrace.errors import PlanError

if TYPE_CHECKING:
    from groundtrace.plan import Plan
    from groundtrace.run.watch import Round
    from groundtrace.tally import Report

_KNOWN = 1000
"""Notes that are told once and not with every round, as long as no more came than these."""

_COUNT = re.compile(r"\d+")


@app.command("watch")
@planned("until")
def watch_command(
    *,
    said: Said,
    every: Annotated[
        float,
        typer.Option(help="Seconds between two rounds. (left out: 60)", metavar="SECONDS", min=1, show_default=False),
    ] = 60,
    overlap: Annotated[
        float,
        typer.Option(
            help="How far each round looks back behind the last, for traces that end or arrive late. (left out: 900)",
            metavar="SECONDS",
            min=0,
            show_default=False,
        ),
    ] = 900,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score traces as they come, round after round, until Ctrl-C; goes on where the last watch came to."""
    from groundtrace.cli import life, printed
    from groundtrace.run import remembering
    from groundtrace.run.watch import watch

    with _border():
        plan = said.plan()
        if plan.store == "none":
            hint = "leave --store out, or name a file or a PostgreSQL URL"
            raise PlanError("store", plan.store, "is not enough for a watch, which goes by what it did", hint=hint)
        plan = plan.model_copy(update={"store": plan.store or "default"})
        if verbose:
            talk(plan)
        told, last = _Told(), None
        again = "the same command"
        still = quiet or not sys.stderr.isatty()  # in a log a line a round is enough
        with remembering(plan, None) as memory, life.stoppable(again) as asked, _progress(quiet=still) as progress:
            assert memory is not None  # noqa: S101 - the plan has a store
            if not quiet:
                from groundtrace.run.watch import begin_of, reached

                mark, now = reached(plan, memory), dt.datetime.now(dt.UTC)
                typer.echo(_opening(plan, begin_of(plan, mark, now, overlap), every, known=mark is not None), err=True)
            rounds = watch(plan, memory, every=every, overlap=overlap, stopping=asked, progress=progress)
            for last in rounds:
                told.trouble(last.report)
                if not quiet:
                    told.sample(last.report)
                if as_json:
                    typer.echo(printed.report_json(last.report))
                elif not quiet:
                    typer.echo(line(last, stopping=asked()))
    if not asked() and last is not None:  # the money is spent
        _leave(last.report, how=again)
    raise typer.Exit(asked.code)


class _Told:
    """Says what went wrong in a round, and what was lost, once and not with every round that sees it again."""

    def __init__(self) -> None:
        self._before: frozenset[str] = frozenset()
        self._notes: set[str] = set()
        self._sampled = False

    def sample(self, report: Report) -> None:
        """Tell, once, that the sample leaves traces out."""
        from groundtrace.run.choosing import UNPICKED

        left = report.passed.get(UNPICKED, 0)
        if left and not self._sampled:
            self._sampled = True
            some = f"{left:,} of {count(report.seen, 'trace')}"
            _tell([f"the sample leaves {some} out: --sample 1, or share = 1 under [sample] in a plan, looks at all"])

    def trouble(self, report: Report) -> None:
        """Tell what is new in a round's report."""
        _tell([why for why in report.failed if why not in self._before], report.about.more_failed)
        self._before = frozenset(report.failed)
        told = {_COUNT.sub("#", note): note for note in report.notes}
        _tell([note for alike, note in told.items() if alike not in self._notes])
        self._notes = self._notes | told.keys() if len(self._notes) < _KNOWN else {*told}


def line(one: Round, *, stopping: bool = False) -> str:
    """What a round did, for a terminal and a log alike."""
    report = one.report
    went = [states.get("written", 0) for states in report.receipts.values() if report.scores]
    same = sum(states.get("unchanged", 0) + states.get("kept", 0) for states in report.receipts.values())
    lost = sum(states.get("failed", 0) + states.get("unconfirmed", 0) for states in report.receipts.values())
    unscored = sum(n for states in report.cards.values() for state, n in states.items() if state != "scored")
    some = f"{report.traces:,} of {count(report.seen, 'trace')}" if report.seen > report.traces else ""
    said = [some or count(report.traces, "trace"), f"{count(sum(went), 'score')} written"]
    said += [f"{same:,} as before"] * bool(same) + [f"{lost:,} not written"] * bool(lost)
    said += [f"{unscored:,} unscored"] + [f"{one.given_up:,} given up"] * bool(one.given_up) + [_cost(report)]
    if one.trouble and not stopping:
        said.append(f"cut short: {plain(one.trouble, 120)}; again in {one.wait:.0f} s")
    when = one.until.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return f"{when} round {one.number}: {', '.join(said)}"


def _cost(report: Report) -> str:
    """What a round cost, or that nobody knows."""
    if report.about.judge_kind == "offline" or not report.about.calls:
        return "0 US dollars"
    return "cost unknown" if report.about.cost is None else f"{report.about.cost:.4f} US dollars"


def _opening(plan: Plan, since: dt.datetime, every: float, *, known: bool) -> str:
    """What is watched, from when on, and where what was done is kept."""
    from groundtrace.run.watch import names_of
    from groundtrace.store.address import address_of

    why = "by --since" if plan.since else "where the last watch came to, and a little before" if known else "24 hours"
    begin = since.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    kept = address_of(None if plan.store == "default" else plan.store).shown
    what = plain(names_of(plan))
    return f"groundtrace: watching {what} every {every:g} s, from {begin} ({why}); what was done is kept in {kept}"
