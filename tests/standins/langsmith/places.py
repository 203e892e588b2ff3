"""Projects, data sets, annotation queues and automation rules."""

from __future__ import annotations

import json
import uuid
from typing import Any

from .asked import Asked
from .rows import run_v1
from .store import TENANT, Refusal, Row
from .times import now


def sessions(asked: Asked) -> tuple[int, Any]:
    """`GET` and `POST /sessions`: projects by their other name."""
    store, body = asked.store, asked.body
    if asked.method == "GET":
        name, start = asked.one("name"), int(asked.one("offset", 0))
        rows = [row for row in store.sessions.values() if not name or row["name"] == name]
        return 200, rows[start:][: int(asked.one("limit", 100))]
    known = any(row["name"] == body["name"] for row in store.sessions.values())
    if known and asked.one("upsert") not in ("true", "True"):
        raise Refusal(409, "Session with this name already exists")
    row = store.session_by_name(body["name"])
    kept = ("extra", "description", "reference_dataset_id")
    row.update({name: value for name, value in body.items() if name in kept and value is not None})
    if body.get("id") and row["id"] != body["id"]:
        del store.sessions[row["id"]]
        row["id"] = body["id"]
        store.sessions[row["id"]] = row
    return 200, row


def session(asked: Asked, ident: str) -> tuple[int, Any]:
    """`GET` and `PATCH /sessions/{id}`."""
    row = asked.store.sessions.get(ident)
    if row is None:
        raise Refusal(404, "Session not found")
    if asked.method == "PATCH":
        row.update({name: value for name, value in asked.body.items() if value is not None})
    return 200, row


# --- data sets --------------------------------------------------------------------------------------------------------


def datasets(asked: Asked) -> tuple[int, Any]:
    """`GET` and `POST /datasets`."""
    held = asked.store.datasets
    if asked.method == "GET":
        name = asked.one("name")
        return 200, [row for row in held.values() if not name or row["name"] == name][: int(asked.one("limit", 100))]
    counts = {"example_count": 0, "session_count": 0}
    row = {"id": str(uuid.uuid4()), "tenant_id": TENANT, "created_at": now(), "modified_at": now(), **counts}
    held[row["id"]] = row | asked.body
    return 200, held[row["id"]]


def dataset(asked: Asked, ident: str) -> tuple[int, Any]:
    """`GET /datasets/{id}`."""
    return 200, asked.store.datasets[ident]


def add_examples(asked: Asked) -> tuple[int, Any]:
    """`POST /examples` and `/examples/bulk`."""
    rows = asked.body if isinstance(asked.body, list) else [asked.body]
    made = [_example(asked, row["dataset_id"], row) for row in rows]
    return 200, made if isinstance(asked.body, list) else made[0]


def add_parts(asked: Asked, ident: str) -> tuple[int, Any]:
    """`POST /platform/datasets/{id}/examples`, in parts."""
    told: dict[str, Row] = {}
    for name, _, data in asked.body:
        example, _, part = name.partition(".")
        row = told.setdefault(example, {"id": example})
        if part in ("inputs", "outputs"):
            row[part] = json.loads(data)
        elif not part:
            row.update(json.loads(data))
    made = [_example(asked, ident, row) for row in told.values()]
    return 201, {"example_ids": [row["id"] for row in made], "count": len(made), "as_of": now()}


def examples(asked: Asked) -> tuple[int, Any]:
    """`GET /examples`."""
    wanted, ids = asked.one("dataset"), asked.query.get("id")
    rows = [row for row in asked.store.examples.values() if not wanted or row["dataset_id"] == wanted]
    rows = [row for row in rows if not ids or row["id"] in ids]
    return 200, rows[int(asked.one("offset", 0)) :][: int(asked.one("limit", 100))]


def example(asked: Asked, ident: str) -> tuple[int, Any]:
    """`GET /examples/{id}`."""
    return 200, asked.store.examples[ident]


def _example(asked: Asked, of: str, told: Row) -> Row:
    row = {"created_at": now(), "modified_at": now(), "outputs": None, "metadata": None, **told, "dataset_id": of}
    row["id"] = str(row.get("id") or uuid.uuid4())
    asked.store.examples[row["id"]] = row
    asked.store.datasets[of]["example_count"] += 1
    return row


# --- annotation queues ------------------------------------------------------------------------------------------------


def queues(asked: Asked) -> tuple[int, Any]:
    """`GET` and `POST /annotation-queues`; the client may choose the id."""
    held, body = asked.store.queues, asked.body
    if asked.method == "GET":
        name, part = asked.one("name"), asked.one("name_contains")
        rows = [row for row in held.values() if not name or row["name"] == name]
        return 200, [row for row in rows if not part or part in row["name"]]
    ident = body.get("id") or str(uuid.uuid4())
    if ident in held:
        raise Refusal(409, "queue exists")
    times = {"created_at": now(), "updated_at": now()}
    held[ident] = {**body, "id": ident, "tenant_id": TENANT, **times, "queue_type": "single"}
    return 200, held[ident]


def queue(asked: Asked, ident: str) -> tuple[int, Any]:
    """`GET`, `PATCH` and `DELETE /annotation-queues/{id}`."""
    if ident not in asked.store.queues:
        raise Refusal(404, "queue not found")
    if asked.method == "DELETE":
        return 200, asked.store.queues.pop(ident)
    if asked.method == "PATCH":
        asked.store.queues[ident].update(asked.body, updated_at=now())
    return 200, asked.store.queues[ident]


def queued_runs(asked: Asked, ident: str) -> tuple[int, Any]:
    """`GET` and `POST /annotation-queues/{id}/runs`, also by key."""
    if asked.method == "GET":
        rows = [row for row in asked.store.items.values() if row["queue_id"] == ident]
        seen = ("added_at", "last_reviewed_time")
        return 200, [
            run_v1(asked, asked.store.runs[row["run_id"]]) | {name: row[name] for name in seen} for row in rows
        ]
    told = [{"run_id": row} if isinstance(row, str) else row for row in asked.body]
    return 200, [_item(asked, ident, {**row, "item_type": "RUN"}) for row in told]


def queued_items(asked: Asked, ident: str) -> tuple[int, Any]:
    """`GET` and `POST /platform/annotation-queues/{id}/items`."""
    if asked.method == "POST":
        return 200, {"items": [_item(asked, ident, row) for row in asked.body.get("items", [])]}
    status = asked.one("status")
    if status not in ("needs_my_review", "needs_others_review", "archived"):
        raise Refusal(400, "status is required")
    rows = [row for row in asked.store.items.values() if row["queue_id"] == ident]
    rows = [row for row in rows if (row["status"] == "archived") == (status == "archived")]
    start, size = int(asked.one("cursor") or 0), int(asked.one("page_size", 20))
    following = str(start + size) if start + size < len(rows) else None
    return 200, {"items": rows[start : start + size], "next_cursor": following}


def item_status(asked: Asked, ident: str) -> tuple[int, Any]:
    """`POST /platform/annotation-queues/items/{id}/status`."""
    if asked.body["status"] == "completed":
        asked.store.items[ident].update(status="archived", last_reviewed_time=now())
    return 200, {"id": ident, "status": asked.body["status"]}


def _item(asked: Asked, of: str, told: Row) -> Row:
    held = asked.store.items
    if of not in asked.store.queues:
        raise Refusal(404, "queue not found")
    if told.get("run_id") and told["run_id"] not in asked.store.runs:
        raise Refusal(404, "run not found")
    same = (of, told.get("run_id"), told.get("thread_id"))
    for row in held.values():
        if (row["queue_id"], row.get("run_id"), row.get("thread_id")) == same:
            return row
    row = {
        "id": str(uuid.uuid4()),
        "queue_id": of,
        "item_type": told.get("item_type", "RUN"),
        "run_id": told.get("run_id"),
        "thread_id": told.get("thread_id"),
        "project_id": told.get("project_id") or told.get("session_id"),
        "start_time": told.get("start_time"),
        "added_at": now(),
        "last_reviewed_time": None,
        "status": "needs_my_review",
    }
    held[row["id"]] = row
    return row


# --- automation rules -------------------------------------------------------------------------------------------------


def rules(asked: Asked) -> tuple[int, Any]:
    """`GET` and `POST /runs/rules`, and `GET /v2/runs/rules` in pages."""
    held = asked.store.rules
    if asked.method == "POST":
        row = {"id": str(uuid.uuid4()), "tenant_id": TENANT, "created_at": now(), **asked.body}
        if not row.get("display_name") or not (row.get("session_id") or row.get("dataset_id")):
            raise Refusal(422, "display_name, and session_id or dataset_id, are required")
        held[row["id"]] = row
        return 200, row
    wanted = asked.one("session_id") or asked.one("project_id")
    rows = [row for row in held.values() if not wanted or row.get("session_id") == wanted]
    if not asked.path.startswith("/v2"):
        return 200, rows
    start, size = int(asked.one("cursor") or 0), int(asked.one("page_size") or asked.one("limit") or 20)
    following = str(start + size) if start + size < len(rows) else None
    return 200, {"items": rows[start : start + size], "next_cursor": following}


def rule(asked: Asked, ident: str) -> tuple[int, Any]:
    """`PATCH` and `DELETE /runs/rules/{id}`."""
    if ident not in asked.store.rules:
        raise Refusal(404, "Rule not found")
    if asked.method == "DELETE":
        return 200, asked.store.rules.pop(ident)
    asked.store.rules[ident].update(asked.body)
    return 200, asked.store.rules[ident]
