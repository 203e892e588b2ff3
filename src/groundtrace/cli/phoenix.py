"""`groundtrace demo --phoenix`: the demo's traces in a real Phoenix, with our scores on them."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from groundtrace.adapters.otel.again import requests
from groundtrace.adapters.otel.sending import backend
from groundtrace.adapters.phoenix.api import Api
from groundtrace.adapters.phoenix.server import installed, serving
from groundtrace.cli import printed
from groundtrace.errors import PlatformError
from groundtrace.memory import InMemory
from groundtrace.plan import Plan
from groundtrace.run import run

if TYPE_CHECKING:
    from groundtrace.tally import Report

PROJECT = "groundtrace-demo"
_SECOND = 1_000_000_000
_PATIENCE = 60.0
"""Seconds until all that was sent must be readable."""


__all__ = ["installed", "show"]


def show(folder: Path, program: str) -> Report:
    """Start Phoenix, send it the demo's traces, score them there, say where to look, and stay until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends us, the server ends too
    out = printed.console()
    out.print("Starting Phoenix, which takes a while ...", style="dim")
    with serving(program) as url:
        _send(folder, url)
        source: dict[str, Any] = {"use": "phoenix", "argument": PROJECT, "base_url": url, "settle": 0}
        plan = Plan(sources=(source,), sample=1.0)
        report = run(plan, memory=InMemory())
        out.print(printed.summary(report, lowest=2))
        out.print(_links(url, report))
        _stay()
    out.print("Phoenix is gone, and all that was in it.", style="dim")
    return report


def _send(folder: Path, url: str) -> None:
    """Send the traces by OTLP, and wait until they can be read."""
    traces, logs = ((folder / name).read_bytes() for name in ("traces.jsonl", "traces.logs.jsonl"))
    to, sent = backend(url), 0
    for data, count in requests(traces, logs, project=PROJECT, ended=time.time_ns() - 60 * _SECOND):
        to.send("traces", data)
        sent += count
    to.close()
    api, until = Api(url), time.monotonic() + _PATIENCE
    while _there(api) < sent:
        if time.monotonic() > until:
            raise PlatformError(f"Phoenix took {sent} spans and does not show all of them")
        time.sleep(0.1)
    api.close()


def _there(api: Api) -> int:
    project = api.project(PROJECT)
    return 0 if project is None else sum(len(page) for page in api.pages(f"/projects/{project}/spans"))


def _links(url: str, report: Report) -> Group:
    """Where to look first."""
    rows = [("all", f"{url}/redirects/projects/{PROJECT}", "")]
    rows += [("lowest", f"{url}/redirects/traces/{low.trace_id}", "") for low in report.lowest[:1] if low.trace_id]
    rows.append(("end", "Ctrl-C", ""))
    return Group(Text(""), Text("In Phoenix", "bold"), printed.grid(rows))


def _stay() -> None:
    """Return when somebody has seen enough: Ctrl-C, or SIGTERM."""
    over = threading.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, lambda *_: over.set())
    while not over.wait(0.5):
        pass
