"""The stand-in platform with traces of its own, for what looks at it again and again or is told by it."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import killed
import neighbours
from groundtrace.model import Ref, Trace, Window, dump
from groundtrace.plan import Plan
from groundtrace.plugins import load

SECOND = 10**9


class Desk:
    """The stand-in platform, and traces to put on it."""

    def __init__(self, stand: killed.Platform, folder: Path) -> None:
        self.stand = stand
        file = killed.corpus(folder / "corpus.jsonl", traces=40)
        self.traces: list[Trace] = list(load("source", f"otel:{file}").traces(Window(None, None), lambda *_: True))
        self.plan = Plan(sources=f"fake:{stand.url}", rubrics=killed.RUBRIC, sample=1.0)

    def put(self, number: int, when: dt.datetime, **changed: Any) -> str:
        """A trace that began then; its id."""
        whole, ident = replace(self.traces[number], **changed), f"t{number}"
        whole = replace(whole, ref=Ref("fake", trace_id=ident))
        told = {"id": ident, "time": int(when.timestamp()) * SECOND, "whole": dump(whole)}
        self.stand.told("/traces", traces=[told])
        return ident

    def scored(self) -> set[str]:
        """The traces that have scores."""
        return {score["trace"] for score in self.stand.told("/scores").values() if score["value"] is not None}

    def written(self) -> list[str]:
        """What was written, in order."""
        return [write["id"] for write in self.stand.told("/log")["writes"]]

    def asked(self) -> list[str]:
        """What the judge at the end of the line was asked, in order."""
        return [ask["digest"] for ask in self.stand.told("/log")["asks"]]


@contextmanager
def desk_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A stand-in, with its plugins installed, and the folder the current one."""
    neighbours.install("fakeplatform", folder, monkeypatch)
    monkeypatch.chdir(folder)
    with killed.platform() as stand:
        yield Desk(stand, folder)


def around() -> dict[str, str]:
    """Where a process finds the stand-in's plugins."""
    return {"PYTHONPATH": os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])}


def entries(folder: Path, **doors: str) -> str:
    """A folder that, on the path, brings sources and sinks by name (`source_NAME=module:attribute`)."""
    info = folder / "entries" / "entries-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: entries\nVersion: 0\n", encoding="utf-8")
    groups: dict[str, list[str]] = {}
    for door, value in doors.items():
        kind, _, name = door.partition("_")
        groups.setdefault(kind, []).append(f"{name} = {value}\n")
    text = "".join(f"[groundtrace.{kind}s]\n{''.join(lines)}\n" for kind, lines in groups.items())
    (info / "entry_points.txt").write_text(text, encoding="utf-8")
    return str(info.parent)
