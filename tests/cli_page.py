"""docs/cli.md, made from the command line itself: `python tests/cli_page.py > docs/cli.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer.main

import groundtrace.cli


def page() -> str:
    """The page as it should stand."""
    group: Any = typer.main.get_command(groundtrace.cli.app)
    parts = [
        "<!-- Made by `python tests/cli_page.py > docs/cli.md`; a test compares the two. -->",
        "# The command line",
        group.help,
        (groundtrace.cli.__doc__ or "").split("\n\n")[1],
    ]
    for name, command in _commands(group):
        arguments = "".join(f" {_place(p)}" for p in command.params if p.param_type_name == "argument")
        parts += [f"## groundtrace {name.removesuffix(arguments)}{arguments}", command.help.strip()]
        rows = list(_rows(command))
        if rows:
            parts.append("\n".join(["| option | what it does |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _commands(group: Any) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from ((f"{name} {inner}", found) for inner, found in _commands(command))
        else:
            yield name, command


def _place(argument: Any) -> str:
    return argument.metavar + ("..." if argument.nargs == -1 else "")


def _rows(command: Any) -> Iterator[str]:
    for parameter in command.params:
        option = _place(parameter) if parameter.param_type_name == "argument" else parameter.opts[0]
        value = f" {parameter.metavar}" if parameter.param_type_name == "option" and parameter.metavar else ""
        yield f"| `{option}{value}` | {parameter.help} |"


if __name__ == "__main__":
    sys.stdout.write(page())
