"""The two query APIs: runs, traces, one run, what stands apart from its row."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import language
from .asked import Asked
from .rows import run_v1, run_v2
from .store import Refusal, Row
from .times import moment

_LONGEST = dt.timedelta(days=401)


def query_v1(asked: Asked) -> tuple[int, Any]:
    """`POST /runs/query`; with a trace named, all of it comes at once."""
    body = asked.body or {}
    limit = body.get("limit") or 100
    if limit > asked.store.max_limit:
        raise Refusal(400, "Limit exceeds maximum allowed value of 100")
    tests = {
        "id": lambda run, told: run["id"] in set(map(str, told)),
        "session": lambda run, told: run["session_id"] in set(map(str, told)),
        "trace": lambda run, told: run["trace_id"] == str(told),
        "is_root": lambda run, told: (run.get("parent_run_id") is None) == told,
        "run_type": lambda run, told: run.get("run_type") == told,
        "error": lambda run, told: bool(run.get("error")) == told,
        "start_time": lambda run, told: moment(run["start_time"]) >= moment(told),
        "end_time": lambda run, told: moment(run["start_time"]) <= moment(told),
        "parent_run": lambda run, told: str(run.get("parent_run_id")) == str(told),
    }
    rows = _fitting(asked.store.visible(), tests, body)
    feedback = asked.store.feedback_by_run()
    rows = _filtered(asked, rows, body, feedback)
    rows.sort(key=_place, reverse=body.get("order", "desc") == "desc")
    following = None
    if not body.get("trace"):
        rows, following = _page(rows, body, limit, descending=body.get("order", "desc") == "desc")
    told = [run_v1(asked, run, body.get("select"), feedback.get(run["id"], [])) for run in rows]
    return 200, {"runs": told, "cursors": {"next": following, "prev": None}}


def query_v2(asked: Asked) -> tuple[int, Any]:
    """`POST /v2/runs/query` and `/v2/traces/query`."""
    body, traces = asked.body or {}, asked.path.startswith("/v2/traces")
    projects = body.get("project_ids") or ([body["project_id"]] if body.get("project_id") else None)
    if not projects:
        raise Refusal(422, "project_ids is required")
    size = body.get("page_size") or (20 if traces else 100)
    if not 1 <= size <= (100 if traces else 1000):
        raise Refusal(422, "page_size out of range")
    here = asked.store.clock()
    since = moment(body.get("min_start_time")) or here - dt.timedelta(days=1)
    until = moment(body.get("max_start_time")) or here
    if until - since > _LONGEST:
        raise Refusal(400, "time span exceeds 401 days")
    tests = {
        "is_root": lambda run, told: (run.get("parent_run_id") is None) == told,
        "trace_id": lambda run, told: run["trace_id"] == told,
        "run_type": lambda run, told: (run.get("run_type") or "").upper() == told,
        "ids": lambda run, told: run["id"] in told,
        "trace_ids": lambda run, told: run["trace_id"] in told,
        "has_error": lambda run, told: bool(run.get("error")) == told,
    }
    rows = [run for run in asked.store.visible() if run["session_id"] in set(map(str, projects))]
    rows = [run for run in rows if since <= (moment(run["start_time"]) or since) <= until]
    rows = _fitting(rows, tests, {**body, "is_root": True} if traces else body)
    feedback = asked.store.feedback_by_run()
    rows = _told_lately(asked, _filtered(asked, rows, body, feedback), feedback)
    rows.sort(key=_place, reverse=True)
    page, following = _page(rows, body, size)
    items = [run_v2(asked, run, body.get("selects") or [], feedback.get(run["id"], [])) for run in page]
    wrapped: list[Any] = [{"root_run": item, "trace_aggregates": None} for item in items] if traces else items
    return 200, {"items": wrapped, "next_cursor": following}


def trace_runs(asked: Asked, trace: str) -> tuple[int, Any]:
    """`GET /v2/traces/{id}/runs`: all of it, in the order it ran."""
    if not asked.one("project_id"):
        raise Refusal(422, "project_id is required")
    rows = sorted((run for run in asked.store.visible() if run["trace_id"] == trace), key=_place)
    if not rows:
        raise Refusal(404, "Trace not found")
    feedback = asked.store.feedback_by_run()
    rows = _filtered(asked, rows, {"filter": asked.one("filter")}, feedback)
    return 200, {"items": [run_v2(asked, run, asked.selects, feedback.get(run["id"], [])) for run in rows]}


def one_run(asked: Asked, ident: str) -> tuple[int, Any]:
    """A single run of either API."""
    run = next((run for run in asked.store.visible() if run["id"] == ident), None)
    if run is None:
        raise Refusal(404, "Run not found")
    return 200, run_v2(asked, run, asked.selects) if asked.path.startswith("/v2") else run_v1(asked, run)


def attachment(asked: Asked, ident: str, name: str) -> tuple[int, Any]:
    """What was sent along with a run."""
    return 200, asked.store.attachments[ident, name][1]


def payload(asked: Asked, ident: str, side: str) -> tuple[int, Any]:
    """Inputs or outputs that stand apart from their row."""
    return 200, asked.store.runs[ident].get(side)


def _fitting(rows: Iterable[Row], tests: Mapping[str, Any], body: Mapping[str, Any]) -> list[Row]:
    asked = [(test, body[name]) for name, test in tests.items() if body.get(name) is not None]
    return [run for run in rows if all(test(run, told) for test, told in asked)]


def _filtered(
    asked: Asked, rows: Iterable[Row], body: Mapping[str, Any], feedback: Mapping[str, list[Row]]
) -> list[Row]:
    try:
        own, root, tree = (
            language.parse(body[name]) if body.get(name) else None for name in ("filter", "trace_filter", "tree_filter")
        )

        def holds(node: Any, run: Row) -> bool:
            return language.matches(node, run, feedback.get(run["id"], []))

        for node in filter(None, (own, root, tree)):
            holds(node, {"id": ""})  # a mistake is one where no run is too
        found = [run for run in rows if own is None or holds(own, run)]
        if root is not None:
            roots = asked.store.runs
            found = [run for run in found if run["trace_id"] in roots and holds(root, roots[run["trace_id"]])]
        if tree is not None:
            whole = {run["trace_id"] for run in asked.store.runs.values() if holds(tree, run)}
            found = [run for run in found if run["trace_id"] in whole]
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise Refusal(400, f"Invalid filter: {error}") from None
    return found


def _told_lately(asked: Asked, rows: list[Row], feedback: Mapping[str, list[Row]]) -> list[Row]:
    body = asked.body or {}
    since, until = moment(body.get("min_feedback_modified_at")), moment(body.get("max_feedback_modified_at"))
    if since is None and until is None:
        return rows
    filters = [language.parse(body[name]) for name in ("filter", "trace_filter", "tree_filter") if body.get(name)]
    if not any(name.startswith("feedback_") for node in filters for name in language.names(node)):
        raise Refusal(400, "feedback modified bounds need a feedback condition")

    def lately(told: Row) -> bool:
        at = moment(told["modified_at"])
        return at is not None and (since is None or at >= since) and (until is None or at < until)

    return [run for run in rows if any(map(lately, feedback.get(run["id"], [])))]


def _place(run: Row) -> tuple[str, str]:
    start = moment(run.get("start_time"))
    return (start.isoformat(timespec="microseconds") if start else "", run["id"])


def _page(
    rows: Sequence[Row], body: Mapping[str, Any], size: int, *, descending: bool = True
) -> tuple[list[Row], str | None]:
    """A page and the cursor of the next: where it ended, bound to its query."""
    query = {name: value for name, value in body.items() if name != "cursor"}
    bound = hashlib.sha256(json.dumps(query, sort_keys=True, default=str).encode()).hexdigest()[:16]
    if body.get("cursor"):
        try:
            *place, of = json.loads(base64.b64decode(body["cursor"]))
        except ValueError:
            raise Refusal(400, "Invalid cursor") from None
        if of != bound:
            raise Refusal(400, "Cursor is of another query")
        after = tuple(place)
        rows = [run for run in rows if (_place(run) < after if descending else _place(run) > after)]
    page = list(rows[:size])
    more = len(rows) > size
    return page, base64.b64encode(json.dumps([*_place(page[-1]), bound]).encode()).decode() if more else None
