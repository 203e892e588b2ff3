"""The options a plan is made of on the command line: said once, for every command that has a plan."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groundtrace.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from groundtrace.plan import Plan

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE",
        help="What to read: otel:PATH, jsonl:PATH, a path whose content says which, langsmith:PROJECT, "
        "braintrust:PROJECT, phoenix:PROJECT, mlflow:EXPERIMENT, or one plan file (*.toml). A PATH is a file, a "
        "folder, a glob or - for standard input.",
        show_default=False,
    ),
]
PlanFile = Annotated[
    str | None,
    typer.Option("--plan", help="A plan file for whatever this line does not say.", metavar="FILE"),
]
Rubrics = Annotated[
    list[str] | None,
    typer.Option(
        help="A rubric; repeat for more. (left out: the four built in, each for its kind of record)", metavar="RUBRIC"
    ),
]
Judge = Annotated[
    str | None,
    typer.Option(help="Who judges. (left out: offline, which needs no key and no network)", metavar="JUDGE"),
]
Sinks = Annotated[
    list[str] | None,
    typer.Option(
        help="Where scores go: otel:FOLDER, otlp:URL, jsonl:FILE, langsmith:PROJECT, braintrust:PROJECT, "
        "phoenix:PROJECT, mlflow:EXPERIMENT, prometheus:PORT or FILE.prom; repeat for more. (left out: beside the "
        "traces, or on them)",
        metavar="SINK",
    ),
]
Kinds = Annotated[
    str | None,
    typer.Option(
        "--kind",
        help="What requests are read as: auto, a summary where the prompt asks for one; answer, none; summary, all. "
        "(left out: auto)",
        metavar="KIND",
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        help="US dollars the judges may cost; then nothing more is asked, and --resume goes on.", metavar="USD"
    ),
]
Share = Annotated[
    float | None,
    typer.Option(
        help="Share of the traces to look at, 0 to 1. (left out: of files all, of a platform 0.1)", metavar="SHARE"
    ),
]
Since = Annotated[str | None, typer.Option(help="Only traces from then on: 24h, 7d, 2026-11-29.", metavar="TIME")]
Until = Annotated[str | None, typer.Option(help="Only traces before then.", metavar="TIME")]
Cascade = Annotated[
    str | None,
    typer.Option(help="A full judge for what the first one doubts. (left out: none)", metavar="JUDGE"),
]
Scores = Annotated[
    str | None,
    typer.Option(help="Which scores are sent: all, or headline, each rubric's own. (left out: all)", metavar="WHICH"),
]
Store = Annotated[
    str | None,
    typer.Option(
        help="What is remembered between runs, so that nothing is judged or written twice: a file, a PostgreSQL URL, "
        "or none. (left out: a file in your data directory)",
        metavar="WHERE",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that was stopped or killed last.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and count; no judge is asked, nothing is written.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but trouble and what was lost.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Print the plan, everything that was noted, and what was behind trouble."),
]


@dataclass(frozen=True)
class Said:
    """What a command line says of a plan; what was not given says nothing."""

    sources: Sequence[str] | None
    plan_file: str | None
    keys: dict[str, Any]

    @property
    def names(self) -> list[str]:
        """What was given, by name."""
        given = {**self.keys, "source": self.sources, "--plan": self.plan_file}
        return [name for name, value in given.items() if value not in (None, []) and name != "store"]

    def plan(self, sources: Sequence[str] | None = None, **more: Any) -> Plan:
        """The plan it makes, with what else is known."""
        return plan_of(sources or self.sources, self.plan_file, **{**self.keys, **more})


def plan_of(sources: Sequence[str] | None, plan_file: str | None = None, **said: Any) -> Plan:
    """The plan of a command line; an option that was not given says nothing."""
    from groundtrace.plan import Plan

    files = [source for source in sources or () if source.endswith(".toml")]
    if files and (len(sources or ()) > 1 or plan_file is not None):
        hint = f"a plan names its own; for these sources write --plan {files[0]}"
        raise PlanError("source", files[0], "is a plan and stands beside other sources", hint=hint)
    given = {key: value for key, value in said.items() if value not in (None, [])}
    if files:
        return Plan.from_toml(files[0], **given)
    return Plan.from_args(plan_file=plan_file, sources=sources or None, **given)


def _said(
    sources: Sources = None,
    *,
    rubric: Rubrics = None,
    judge: Judge = None,
    cascade: Cascade = None,
    to: Sinks = None,
    scores: Scores = None,
    kind: Kinds = None,
    max_cost: MaxCost = None,
    sample: Share = None,
    since: Since = None,
    until: Until = None,
    plan_file: PlanFile = None,
    store: Store = None,
) -> Said:
    """What of a plan a command line says; its parameters are the options."""
    deeper = {"judge": cascade} if cascade else None
    keys: dict[str, Any] = {"scores": scores, "cascade": deeper, "kind": kind, "max_cost": max_cost}
    keys |= {"rubrics": rubric, "judge": judge, "sinks": to, "sample": sample, "since": since, "until": until}
    return Said(sources, plan_file, {**keys, "store": store})


def planned(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of a plan, some left out; it is called with what was said of them as `said`."""

    def around(command: Callable[..., None]) -> Callable[..., None]:
        told = inspect.signature(_said, eval_str=True).parameters.values()
        shared = {parameter.name: parameter for parameter in told if parameter.name not in without}
        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [*shared.values(), *(parameter for parameter in own if parameter.name != "said")]

        @functools.wraps(command)
        def call(**given: Any) -> None:
            command(said=_said(**{name: given.pop(name) for name in shared}), **given)

        parameters.sort(key=lambda parameter: parameter.kind)
        call.__dict__["__signature__"] = inspect.Signature(parameters)
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return around
