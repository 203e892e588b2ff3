"""Someone else's live platform, kept in a file: traces by the day, and feedback with the day it came."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from groundtrace.adapters.jsonl import JsonlSink
from groundtrace.model import Case, Check, Label, Ref, Reply, Signal, Span, Trace, Window
from groundtrace.ports import Choose, Sink
from groundtrace.testing import ScriptedJudge

DAY = 86_400 * 10**9


class CriticSource:
    """`{"traces": {id: day}, "feedback": [{"trace", "day", "negative"}]}`: a tenth is looked at when nobody says."""

    platform = "critic"
    default_share = 0.1

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.project = self.path.stem
        self._seen: str | None = None

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:
        """The traces of the window, with the feedback that is there by now."""
        for trace_id, day in self._told()["traces"].items():
            if (window.since or 0) <= day * DAY < (window.until or 10**30):
                yield from self._chosen(trace_id, choose)

    def late(self, window: Window, since: str | None, choose: Choose) -> Iterator[Trace]:
        """The traces with feedback of a later day than `since`."""
        after = (window.since or 0) // DAY - 1 if since is None else int(since)
        fresh = [said for said in self._told()["feedback"] if said["day"] > after]
        self._seen = str(max([after, *(said["day"] for said in fresh)]))
        for trace_id in dict.fromkeys(said["trace"] for said in fresh):
            yield from self._chosen(trace_id, choose)

    def watermark(self) -> str | None:
        """The day of the newest feedback seen."""
        return self._seen

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """None."""
        yield from ()

    def doctor(self) -> Iterable[Check]:
        """Always well."""
        return [Check("file", well=True)]

    def home(self) -> Sink:
        """Cards beside the file."""
        return JsonlSink(str(self.path.with_suffix(".cards.jsonl")))

    def notes(self) -> tuple[str, ...]:
        """Nothing is ever lost."""
        return ()

    def _told(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return told

    def _chosen(self, trace_id: str, choose: Choose) -> Iterator[Trace]:
        ref = Ref(self.platform, self.project, trace_id, f"{trace_id}-root")
        mine = [said for said in self._told()["feedback"] if said["trace"] == trace_id]
        signals = tuple(Signal("thumb", negative=said["negative"]) for said in mine)
        if choose(ref, signals):
            said = {
                "id": trace_id,
                "query": "Where?",
                "context": [f"It is at {trace_id}."],
                "answer": f"{trace_id} [1].",
            }
            span = Span(f"{trace_id}-root", trace_id, attributes={"groundtrace.record": said})
            yield Trace(ref, (span,), signals=signals)


def priced(cost: str = "") -> ScriptedJudge:
    """A judge that says nothing usable, at this price a reply; without one its price is unknown."""

    def answer(_: Case) -> Reply:
        return Reply("{}", "priced", cost=float(cost) if cost else None)

    return ScriptedJudge(answer, id="priced")
