"""`groundtrace serve`: the address a platform's rules tell of new traces."""

from __future__ import annotations

from typing import Annotated

import typer

from groundtrace.cli import _border, _tell, app, count, plain, talk
from groundtrace.cli.attach import HEADER, secret_of
from groundtrace.cli.options import Quiet, Said, Verbose, planned
from groundtrace.errors import PlanError


@app.command("serve")
@planned("sources", "max_cost", "since", "until")
def serve_command(
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
    listen: Annotated[
        str,
        typer.Option(
            help="Where to listen; a proxy with TLS belongs in front of any other place. (left out: 127.0.0.1:8123)",
            metavar="HOST:PORT",
            show_default=False,
        ),
    ] = "127.0.0.1:8123",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Score the traces that a platform's rule tells of, as they are told, until Ctrl-C or SIGTERM."""
    from groundtrace.cli import life
    from groundtrace.store import open_store

    with _border():
        from groundtrace import serve

        secret = secret_of(secret_env)
        name, comma, options = platform.partition(",")
        plan = said.plan(sources=[f"{name}:-{comma}{options}"])
        if plan.store == "none":
            hint = "leave --store out, or name a file or a PostgreSQL URL"
            raise PlanError("store", plan.store, "is not enough: what was answered must be kept", hint=hint)
        plan = plan.model_copy(update={"store": plan.store or "default", "since": None, "until": None})
        if plan.max_cost is not None:
            hint = "a day has one: write sample = {max_cost_per_day = ...}"
            raise PlanError("max_cost", plan.max_cost, "is of one run, and this one has no end", hint=hint)
        if plan.sample is None:  # the rule has a share of its own
            plan = plan.model_copy(update={"sample": 1.0})
        if verbose:
            talk(plan)
        where, again = None if plan.store == "default" else plan.store, "start it again to go on"
        place = serve.opened(plan, platform, listen)
        with open_store(where, keep_text=plan.keep_text) as store, life.stoppable(again) as asked:
            store.probe()
            if not quiet:
                waiting = count(store.inbox.count(name), "trace")
                typer.echo(f"groundtrace: listening at {place.url}/{name}; {waiting} of before to evaluate", err=True)
            counts = serve.serve(plan, place, secret, store, stopping=asked, tell=lambda why: _tell([why]))
            left = store.inbox.count(name)
        if not quiet:
            done = ", ".join(f"{n:,} {what}" for what, n in counts.traces.items()) or "none evaluated"
            kept = f"; {count(left, 'trace')} wait for the next start" if left else ""
            typer.echo(plain(f"groundtrace: stopped; traces: {done}{kept}"), err=True)
    raise typer.Exit(asked.code)
