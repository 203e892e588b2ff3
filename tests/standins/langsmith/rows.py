"""A run as v1 and as v2 of the API tell it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .asked import Asked
from .language import THREADS, metadata
from .store import Row
from .times import moment

_ALWAYS = {"id", "name", "run_type", "start_time", "trace_id", "dotted_order", "session_id", "status", "app_path"}


def _thread(run: Row) -> Any:
    known = metadata(run)
    return next((known[name] for name in THREADS if name in known), None)


def run_v1(asked: Asked, run: Row, select: Sequence[str] | None = None, feedback: list[Row] | None = None) -> Row:
    """A run of `/runs/query` and `/runs/{id}`."""
    out = {name: value for name, value in run.items() if not name.startswith("_") and name != "session_name"}
    out.setdefault("extra", {})
    out["feedback_stats"] = asked.store.stats(run["id"], feedback)
    out["thread_id"] = _thread(run)
    told = {name: kind for (ident, name), (kind, _) in asked.store.attachments.items() if ident == run["id"]}
    out["s3_urls"] = {
        f"attachment.{name}": {"presigned_url": f"{asked.host}/_blob/{run['id']}/{name}", "mime_type": kind}
        for name, kind in told.items()
    } or None
    for side in ("inputs", "outputs"):
        most = asked.store.inline
        if most is not None and len(json.dumps(out.get(side), default=str)) > most:
            out[side] = None
            place = f"{asked.host}/_payload/{run['id']}/{side}"
            out[f"{side}_s3_urls"] = {"ROOT": {"presigned_url": place, "s3_url": None}}
    return {name: value for name, value in out.items() if name in _ALWAYS | {*select}} if select else out


def run_v2(asked: Asked, run: Row, selects: Sequence[str], feedback: list[Row] | None = None) -> Row:
    """A run of the second API: only what was asked for, and that is its id where nothing was."""
    start, end = moment(run.get("start_time")), moment(run.get("end_time"))
    known = asked.store.attachments
    told = {
        "run_type": lambda: (run.get("run_type") or "").upper() or None,
        "status": run["status"].upper,
        "start_time": lambda: start and start.isoformat(),
        "end_time": lambda: end and end.isoformat(),
        "latency_seconds": lambda: (end - start).total_seconds() if start and end else None,
        "metadata": lambda: metadata(run),
        "parent_run_ids": lambda: run.get("parent_run_ids") or [],
        "project_id": lambda: run["session_id"],
        "is_root": lambda: run.get("parent_run_id") is None,
        "thread_id": lambda: _thread(run),
        "feedback_stats": lambda: asked.store.stats(run["id"], feedback),
        "inputs_preview": lambda: json.dumps(run.get("inputs"), default=str)[:120],
        "outputs_preview": lambda: json.dumps(run.get("outputs"), default=str)[:120],
        "attachments": lambda: {
            name: f"{asked.host}/_blob/{run['id']}/{name}" for ident, name in known if ident == run["id"]
        },
    }
    names = [name.lower() for name in selects or ["ID"]]
    plain = ("id", "name", "inputs", "outputs", "error", "extra", "tags", "events", "trace_id", "dotted_order")
    more = (*plain, "reference_example_id", "app_path")
    return {name: told[name]() if name in told else run.get(name) for name in names if name in told or name in more}
