"""`groundtrace attach` and `detach`: whether a platform tells an address of its new traces."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from groundtrace.adapters.options import VARIABLE
from groundtrace.cli import _border, app, plain
from groundtrace.errors import PlanError

HEADER = "X-Groundtrace-Secret"
"""Where a message carries the secret."""

Project = Annotated[str, typer.Argument(metavar="PROJECT", help="Whose traces: langsmith:PROJECT.", show_default=False)]
Url = Annotated[
    str,
    typer.Option(
        help="The address of groundtrace serve, as the platform reaches it.", metavar="URL", show_default=False
    ),
]


@app.command("attach")
def attach_command(
    project: Project,
    *,
    url: Url,
    sample: Annotated[
        float,
        typer.Option(
            help="Share of the new traces that are told, 0 to 1. (left out: 0.1)",
            metavar="SHARE",
            min=0,
            max=1,
            show_default=False,
        ),
    ] = 0.1,
    secret_env: Annotated[
        str | None,
        typer.Option(
            help="The environment variable that holds the secret groundtrace serve asks for. (left out: none is sent)",
            metavar="NAME",
        ),
    ] = None,
) -> None:
    """Have a platform tell groundtrace serve of a project's new traces; a second time changes nothing."""
    with _border():
        _check(url)
        headers = {HEADER: secret_of(secret_env)} if secret_env else {}
        if not secret_env and "?" not in url:
            typer.echo(
                "groundtrace: no secret is sent: `groundtrace serve` refuses such messages; give --secret-env", err=True
            )
        _tell(_asked(project, "attach")(url, share=sample, headers=headers))


@app.command("detach")
def detach_command(project: Project, *, url: Url) -> None:
    """Have a platform tell that address of new traces no more."""
    with _border():
        _check(url)
        _tell(_asked(project, "detach")(url))


def secret_of(name: str, key: str = "secret_env") -> str:
    """The secret in an environment variable; PlanError where there is none, or one that could be guessed."""
    secret = os.environ.get(name, "")
    if not secret and not VARIABLE.fullmatch(name):  # the secret itself, it may be: it goes into no log
        hint = f"name the variable that holds the secret, not the secret: --{key.replace('_', '-')} NAME"
        raise PlanError(key, "***", "is no variable that is set", hint=hint)
    if not secret:
        raise PlanError(key, name, "is not set", hint=f"export {name}=$(openssl rand -hex 32)")
    if len(secret) < 16 or not secret.isascii() or not secret.isprintable():
        hint = f"16 or more characters of ASCII: export {name}=$(openssl rand -hex 32)"
        raise PlanError(key, name, "holds no secret that could be sent and not be guessed", hint=hint)
    return secret


def _asked(spec: str, what: str) -> Callable[..., Sequence[str]]:
    """How a project's platform is asked for it; PlanError where it can't be."""
    from groundtrace.plugins import load

    found: Any = getattr(load("source", spec), what, None)
    if found is None:
        raise PlanError("project", spec, "is of a platform that tells nobody of new traces", hint="langsmith does")
    return found  # type: ignore[no-any-return]  # the optional part of the port


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown, asked, _ = url.partition("?")  # behind it may be a secret
        raise PlanError("url", f"{shown}{asked and '?***'}", "is no address", hint="write https://HOST/PATH")


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        typer.echo(plain(line))
