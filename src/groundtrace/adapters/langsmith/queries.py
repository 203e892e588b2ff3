"""Runs asked of LangSmith, a page at a time, by whichever of its two query APIs it has.

Always with both bounds of the time: where v2 is given none it looks at the last day, and says nothing of the rest. Not
verified on a real server, and therefore checked against what comes back: that `trace_filter` takes `in(id, [...])` of
many roots (where it is refused, the window is read whole; where it gives less than one trace asked for by itself does,
all are asked for one by one), how a cursor that is no longer good is refused (any 400, 404
or 410 to a request with one), and that a query by feedback's time takes any condition on feedback. v1's `start_time` is
taken to mean runs that began then or later [the SDK]; until when they began is said in the filter language.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from groundtrace.adapters.langsmith.api import Api, Tier
from groundtrace.adapters.langsmith.filters import both, is_search
from groundtrace.adapters.langsmith.rows import ROOT, ROOT_V1, WHOLE, WHOLE_V1, Row
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.times import written

DAY = 86_400 * 1_000_000_000
WEEK = 7 * DAY
"""Nanoseconds of the widest window that is asked for at the full rate."""

PAGE, PAGE_V1 = 1000, 100
_AFRESH = 5
"""Times a window is begun again without getting any further."""

_OVER = frozenset({400, 404, 410})


@dataclass(frozen=True, slots=True)
class Ask:
    """Which runs, and which of their fields: those of a root, or `whole` ones."""

    since: int
    until: int
    roots: bool = False
    filter: str = ""
    trace_filter: str = ""
    failed: bool = False
    feedback_since: int | None = None
    whole: bool = False
    most: int = PAGE

    @property
    def tier(self) -> Tier:
        """What kind of query LangSmith counts it as."""
        if is_search(self.filter) or is_search(self.trace_filter):
            return "search"
        return "wide" if self.until - self.since > WEEK else "query"


class Page(NamedTuple):
    """Runs as they came; `damaged` are the ids of those that lost characters."""

    rows: list[dict[str, Any]]
    damaged: tuple[str, ...] = ()


class Queries:
    """Asks for the runs of one project."""

    def __init__(self, api: Api, project: str) -> None:
        self._api, self._project = api, project
        self._generation = api.generation
        self.afresh = 0
        """Windows begun again, since their cursor was no longer good."""

    @property
    def generation(self) -> str:
        """Which of the two query APIs is asked."""
        return self._generation

    def pages(self, ask: Ask) -> Iterator[Page]:
        """The runs, newest first; those of a window that is begun again come again."""
        cursor: str | None = None
        page = furthest = left = 0
        while True:
            try:
                mended = self._api.mended
                rows, cursor = self._page(ask, cursor)
            except Refused as error:
                left = _AFRESH if page > furthest else left
                furthest = max(furthest, page)
                if cursor is None or error.status not in _OVER or left == 0:
                    raise
                self.afresh, left, cursor, page = self.afresh + 1, left - 1, None, 0
                continue
            page += 1
            yield Page(rows, _damaged(rows) if self._api.mended > mended else ())
            if cursor is None:
                return

    def is_empty(self, ask: Ask) -> bool:
        """Whether there is no run of the kind."""
        return not self._page(replace(ask, most=1), None)[0]

    def trace(self, ident: str) -> Page:
        """All runs of a trace, in one go; none where LangSmith has none."""
        mended = self._api.mended
        rows = self._trace(ident, self._generation)
        if not rows and self._generation == "v2" and not self._settled:
            rows = self._trace(ident, "v1")  # a route that is not there is answered as a trace that is not
            if rows:
                self._generation = "v1"
        return Page(rows, _damaged(rows) if self._api.mended > mended else ())

    def _trace(self, ident: str, generation: str) -> list[dict[str, Any]]:
        """The runs of a trace as one of the APIs gives them; none where it answers that it is not there."""
        try:
            if generation == "v2":
                params = {"project_id": self._project, "selects": [*WHOLE]}
                told = self._api.call("GET", f"/api/v2/traces/{ident}/runs", params=params, tier="query")
                return _rows(told, "items")
            asked = {"session": [self._project], "trace": ident, "select": [*WHOLE_V1]}
            return _rows(self._api.call("POST", "/runs/query", json=asked, tier="query"), "runs")
        except Refused as error:
            if error.status != 404:
                raise
            return []

    @property
    def _settled(self) -> bool:
        """Whether the server said which APIs it has."""
        return isinstance(self._api.info.get("instance_flags"), dict)

    def _page(self, ask: Ask, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        if self._generation == "v2":
            try:
                told = self._api.call("POST", "/api/v2/runs/query", json=self._v2(ask, cursor), tier=ask.tier)
            except Refused as error:
                if error.status != 404 or cursor is not None or self._settled:
                    raise
                self._generation = "v1"  # nothing said which API is there, and it is not this one
            else:
                return _rows(told, "items"), told.get("next_cursor") or None
        if ask.feedback_since is not None:
            raise Refused("LangSmith's first query API can't be asked by when feedback came", status=400)
        told = self._api.call("POST", "/runs/query", json=self._v1(ask, cursor), tier=ask.tier)
        cursors = told.get("cursors") if isinstance(told, dict) else None
        return _rows(told, "runs"), (cursors.get("next") or None) if isinstance(cursors, dict) else None

    def _v2(self, ask: Ask, cursor: str | None) -> dict[str, Any]:
        body: dict[str, Any] = {
            "project_ids": [self._project],
            "min_start_time": written(ask.since),
            "max_start_time": written(ask.until),
            "page_size": ask.most,
            "selects": [*(WHOLE if ask.whole else ROOT)],
            "cursor": cursor,
            "is_root": True if ask.roots else None,
            "has_error": True if ask.failed else None,
            "filter": ask.filter or None,
            "trace_filter": ask.trace_filter or None,
            "min_feedback_modified_at": None if ask.feedback_since is None else written(ask.feedback_since),
        }
        return {name: value for name, value in body.items() if value is not None}

    def _v1(self, ask: Ask, cursor: str | None) -> dict[str, Any]:
        # Its `end_time` may mean when runs began or when they ended, and that is not documented.
        begun = f"lte(start_time, {json.dumps(written(ask.until).replace('+00:00', 'Z'))})"
        body: dict[str, Any] = {
            "session": [self._project],
            "start_time": written(ask.since),
            "limit": min(ask.most, PAGE_V1),
            "select": [*(WHOLE_V1 if ask.whole else ROOT_V1)],
            "cursor": cursor,
            "is_root": True if ask.roots else None,
            "error": True if ask.failed else None,
            "filter": both(ask.filter, begun),
            "trace_filter": ask.trace_filter or None,
            "skip_prev_cursor": True,
        }
        return {name: value for name, value in body.items() if value is not None}


def of_roots(ask: Ask, roots: Sequence[str]) -> Ask:
    """The same question of the traces of these roots only."""
    return replace(ask, trace_filter=f"in(id, {json.dumps([*roots])})")


def _rows(told: object, name: str) -> list[dict[str, Any]]:
    """The runs of an answer; Refused where it holds none of the kind, which is not the same as that there are none."""
    rows = told.get(name) if isinstance(told, dict) else None
    if not isinstance(rows, list):
        raise Refused(f"LangSmith's answer has no {name}", status=502)
    return [row for row in rows if isinstance(row, dict) and row.get("id")]


def _damaged(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(str(row["id"]) for row in rows if "\ufffd" in json.dumps(row, ensure_ascii=False))
