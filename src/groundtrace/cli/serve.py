"""`groundtrace serve`: an address that platforms' rules tell of new traces, or that exporters send theirs to."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from groundtrace.cli import _border, _tell, app, count, plain, talk
from groundtrace.cli.attach import HEADER, secret_of
from groundtrace.cli.options import Quiet, Said, Verbose, planned
from groundtrace.errors import PlanError

if TYPE_CHECKING:
    from groundtrace.plan import Plan

_RULES = "PLATFORM"


class _Either(TyperGroup):
    """`otlp` is a command of its own; any other word is the platform whose rules send messages."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The command a line means."""
        if args and args[0] in self.commands and args[0] != _RULES:
            return super().resolve_command(ctx, args)
        if args and args[0][:1] not in ("", "-"):
            with _border():
                _check_platform(args[0].partition(",")[0])
        return _RULES, self.commands[_RULES], args


def _check_platform(word: str) -> None:
    """Say what a mistyped word may have meant, before what that lacks: PlanError where it names no platform."""
    from groundtrace.plugins import installed

    if word not in {plugin.name for plugin in installed("source")}:
        raise PlanError("serve", word, "is nothing that is served", valid=("langsmith", "otlp"))


serve = typer.Typer(cls=_Either, no_args_is_help=True)
app.add_typer(serve, name="serve", help="Score traces as they are told of, or sent, until Ctrl-C or SIGTERM.")

Listen = Annotated[
    str,
    typer.Option(
        help="Where to listen; a proxy with TLS belongs in front of any other place. (left out: 127.0.0.1:8123)",
        metavar="HOST:PORT",
        show_default=False,
    ),
]


@serve.command(_RULES)
@planned("sources", "max_cost", "since", "until")
def rules_command(
    platform: Annotated[
        str,
        typer.Argument(
            metavar="PLATFORM",
            help="Whose rules send messages: langsmith, with options as a source has them (langsmith,settle=5).",
            show_default=False,
        ),
    ],
    *,
    said: Said,
    secret_env: Annotated[
        str,
        typer.Option(
            help=f"The environment variable that holds the secret; a message carries it in the header {HEADER}, as a "
            "bearer token, or as ?secret= in its address.",
            metavar="NAME",
            show_default=False,
        ),
    ],
    listen: Listen = "127.0.0.1:8123",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score the traces that a platform's rule tells of, as they are told, until Ctrl-C or SIGTERM."""
    from groundtrace.cli import life
    from groundtrace.store import open_store

    with _border():
        from groundtrace.serve import webhooks

        secret = secret_of(secret_env)
        name, comma, options = platform.partition(",")
        plan = _endless(said.plan(sources=[f"{name}:-{comma}{options}"]))
        if plan.sample is None:  # the rule has a share of its own
            plan = plan.model_copy(update={"sample": 1.0})
        if verbose:
            talk(plan)
        where, again = _where(plan), "the same command"
        place = webhooks.opened(plan, platform, listen)
        with open_store(where, keep_text=plan.keep_text) as store, life.stoppable(again) as asked:
            store.probe()
            if not quiet:
                waiting = count(store.inbox.count(name), "trace")
                typer.echo(f"groundtrace: listening at {place.url}/{name}; {waiting} of before to evaluate", err=True)
            counts = webhooks.serve(plan, place, secret, store, stopping=asked, tell=lambda why: _tell([why]))
            left = store.inbox.count(name)
        if not quiet:
            done = ", ".join(f"{n:,} {what}" for what, n in counts.traces.items()) or "none evaluated"
            kept = f"; {count(left, 'trace')} wait for the next start" if left else ""
            typer.echo(plain(f"groundtrace: stopped; traces: {done}{kept}"), err=True)
    raise typer.Exit(asked.code)


@serve.command("otlp")
@planned("sources", "max_cost", "since", "until")
def otlp_command(
    *,
    said: Said,
    listen: Annotated[
        str,
        typer.Option(
            help="Where OTLP over HTTP is taken; any place but loopback needs a token. (left out: 127.0.0.1:4318)",
            metavar="HOST:PORT",
            show_default=False,
        ),
    ] = "127.0.0.1:4318",
    grpc: Annotated[
        str | None,
        typer.Option(help="Where OTLP over gRPC is taken, as 127.0.0.1:4317. (left out: nowhere)", metavar="HOST:PORT"),
    ] = None,
    forward: Annotated[
        str | None,
        typer.Option(
            help="Where every span and log record is sent on to, with the scores on the spans they are about: "
            "http://HOST:4318, https://, grpc://HOST:4317 or grpcs://. (left out: nowhere)",
            metavar="URL",
        ),
    ] = None,
    forward_headers_env: Annotated[
        str | None,
        typer.Option(
            help="The environment variable that holds headers for it, written NAME=VALUE,NAME=VALUE. (left out: none)",
            metavar="NAME",
        ),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(
            help="The environment variable that holds the bearer token exporters must send. (left out: none is asked)",
            metavar="NAME",
        ),
    ] = None,
    idle: Annotated[
        float,
        typer.Option(
            help="Seconds without a word after which a trace whose root ended is over. (left out: 10)",
            metavar="SECONDS",
            min=0,
            show_default=False,
        ),
    ] = 10,
    deadline: Annotated[
        float,
        typer.Option(
            help="Seconds a span is held for its scores at most, with --forward; then it goes on as it came. "
            "(left out: 60)",
            metavar="SECONDS",
            min=0,
            show_default=False,
        ),
    ] = 60,
    drain: Annotated[
        float,
        typer.Option(
            help="Seconds for what is here when asked to stop; the rest waits on the disk. (left out: 20)",
            metavar="SECONDS",
            min=0,
            show_default=False,
        ),
    ] = 20,
    spool: Annotated[
        Path | None,
        typer.Option(
            help="The folder where what came waits, one server's alone. (left out: one in your data directory)",
            metavar="FOLDER",
        ),
    ] = None,
    spool_mb: Annotated[
        int,
        typer.Option(
            help="MB that may wait there; then exporters are told to come again. (left out: 2048)",
            metavar="MB",
            min=1,
            show_default=False,
        ),
    ] = 2048,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Take what OpenTelemetry's exporters send, score the traces in it, and send all of it on if asked to."""
    from groundtrace.cli import life
    from groundtrace.store import open_store

    with _border():
        from groundtrace.adapters.otel.sending import headers_of
        from groundtrace.serve import otlp
        from groundtrace.serve.assembly import Limits
        from groundtrace.store.address import address_of

        plan = _endless(said.plan(sources=["otel:-"]))  # none is read: they are sent
        if verbose:
            talk(plan)
        settings = otlp.Settings(
            spool or _spool(),
            forward=forward,
            headers=headers_of(forward_headers_env, "forward_headers_env"),
            token=None if token_env is None else secret_of(token_env, "token_env"),
            idle=idle,
            deadline=deadline,
            drain=drain,
            limits=Limits(spool=spool_mb << 20),
        )
        place = otlp.opened(plan, settings, listen, grpc)
        again = "the same command"
        with open_store(_where(plan), keep_text=plan.keep_text) as store, life.stoppable(again) as asked:
            store.probe()
            server = otlp.Server(plan, settings, store, lambda why: _tell([why]))
            if not quiet:
                also = f" and, over gRPC, port {place.grpc.port}" if place.grpc else ""
                waits = count(server.assembly.waiting()["kept"], "parcel")
                typer.echo(
                    plain(
                        f"groundtrace: listening at {place.url}{also}; {waits} of before in the spool {settings.spool}"
                    ),
                    err=True,
                )
                kept = address_of(_where(plan)).shown
                typer.echo(plain(f"groundtrace: {server.judging.told()}; the store is {kept}"), err=True)
            server.run(place, asked)
        if not quiet:
            typer.echo(plain(f"groundtrace: stopped; {server.summary()}"), err=True)
        if server.judging.left:
            _go(asked.code)
    raise typer.Exit(asked.code)


def _go(code: int) -> None:
    """End the process now: all is kept and closed, and a judge's threads that never end are not waited for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _endless(plan: Plan) -> Plan:
    """A plan as it is for what has no end; PlanError where it asks for what only a run can have."""
    if plan.store == "none":
        hint = "leave --store out, or name a file or a PostgreSQL URL"
        raise PlanError("store", plan.store, "is not enough: what was answered must be kept", hint=hint)
    if plan.max_cost is not None:
        hint = "a day has one: write sample = {max_cost_per_day = ...}"
        raise PlanError("max_cost", plan.max_cost, "is of one run, and this one has no end", hint=hint)
    return plan.model_copy(update={"store": plan.store or "default", "since": None, "until": None})


def _where(plan: Plan) -> str | None:
    return None if plan.store == "default" else plan.store


def _spool() -> Path:
    """The folder in the user's data directory."""
    from platformdirs import user_data_path

    return user_data_path("groundtrace") / "otlp"
