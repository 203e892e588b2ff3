"""Complaints that came after a trace was passed over: found by when feedback was changed.

Which lines of feedback those are is asked of `GET /feedback`, which tells them one by one with their times; which runs
to ask it about, v2 finds by feedback's time, and v1, which can't, lists all feedback of the project since then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from groundtrace.adapters.langsmith import losses
from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.feedback import pages
from groundtrace.adapters.langsmith.filters import both
from groundtrace.adapters.langsmith.queries import DAY, Ask, Queries
from groundtrace.adapters.langsmith.rows import Row, trace_of
from groundtrace.adapters.langsmith.said import BY_PEOPLE, OVERLAP, Heard, Scale, changed, complaint
from groundtrace.adapters.losses import Losses
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.times import written
from groundtrace.model import Signal

_LONGEST = 400 * DAY
"""How old a trace may be that feedback brings back: LangSmith keeps none longer."""

_RUNS, _ROOTS = 50, 100
"""Runs asked about at once, and traces."""


class Hearing:
    """Asks for the complaints that came since the last time."""

    def __init__(self, api: Api, project: str, queries: Queries, scale: Scale, lost: Losses) -> None:
        self._api, self._project, self._queries, self._scale, self._losses = api, project, queries, scale, lost
        self._then: Heard | None = None
        self.watermark: str | None = None
        """How far it was heard, once all of it was taken."""
        self.heard: dict[str, int] = {}
        """When users last complained of each trace."""

    def complaints(self, since: str | None, began: int, now: int, asked: str) -> dict[str, tuple[Signal, ...]]:
        """What users complained of after `since` (else after `began`), by trace; of those only that fit a filter."""
        heard = (Heard.of(since) if since else None) or Heard(began + OVERLAP, {})
        found: dict[str, tuple[Signal, ...]] = {}
        new = []
        for row in self._lines(heard, now):
            told = complaint(row, self._scale)
            trace_id = str(row.get("trace_id") or row.get("run_id") or "")
            if told is None or not trace_id or not heard.is_new(row):  # feedback on a whole project names no trace
                continue
            new.append(row)
            self.heard[trace_id] = max(self.heard.get(trace_id, 0), changed(row) or now)
            found[trace_id] = (*found.get(trace_id, ()), told)
        self._then = heard.then(now, new)
        if not asked or not found:
            return found
        fitting = {*self._fitting(tuple(found), asked, now)}
        return {trace_id: told for trace_id, told in found.items() if trace_id in fitting}

    def end(self) -> None:
        """Note that all of it was taken."""
        self.watermark = str(self._then) if self._then else None

    def _lines(self, heard: Heard, now: int) -> Iterator[Row]:
        """The lines of feedback since then; each once."""
        seen: set[str] = set()
        for row in self._listed(heard, now):
            ident = str(row.get("id"))
            if ident not in seen:
                seen.add(ident)
                yield row

    def _listed(self, heard: Heard, now: int) -> Iterator[Row]:
        if self._queries.generation == "v2":
            try:
                runs = [*self._complained(heard, now)]
            except Refused as error:
                if error.status not in (400, 422):
                    raise
                if self._queries.generation == "v2":
                    self._losses.add(losses.UNLISTED)
            else:
                for start in range(0, len(runs), _RUNS):
                    yield from self._feedback({"run": runs[start : start + _RUNS]})
                return
        yield from self._feedback({"session": self._project, "min_created_at": written(heard.since)})

    def _complained(self, heard: Heard, now: int) -> Iterable[str]:
        """The runs under which a complaint was left or changed since then, by anybody."""
        ask = Ask(now - _LONGEST, now, filter=self._scale.filter, feedback_since=heard.since)
        return dict.fromkeys(str(row["id"]) for page in self._queries.pages(ask) for row in page.rows)

    def _feedback(self, of: dict[str, Any]) -> Iterator[Row]:
        """Lines of feedback people left, page by page."""
        for page in pages(self._api, {**of, "source": [*BY_PEOPLE]}):
            yield from (row for row in page if isinstance(row, dict))

    def _fitting(self, traces: Sequence[str], asked: str, now: int) -> Iterator[str]:
        """Those of these traces whose root fits a filter."""
        for start in range(0, len(traces), _ROOTS):
            named = f"in(id, {json.dumps(traces[start : start + _ROOTS])})"
            ask = Ask(now - _LONGEST, now, roots=True, filter=both(asked, named))
            for page in self._queries.pages(ask):
                yield from map(trace_of, page.rows)
