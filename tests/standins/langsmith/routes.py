"""Which function answers which request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from . import feedback, parts, places, queries
from .asked import Asked
from .store import TENANT, Refusal
from .times import now


def info(asked: Asked) -> tuple[int, Any]:
    """What the server says of itself."""
    batches = {
        "use_multipart_endpoint": asked.store.multipart,
        "size_limit": 100,
        "size_limit_bytes": 20971520,
        "scale_up_qsize_trigger": 1000,
        "scale_up_nthreads_limit": 16,
        "scale_down_nempty_trigger": 4,
    }
    told = {"version": asked.store.version, "license_expiration_time": None, "instance_flags": asked.store.flags}
    return 200, told | {"batch_ingest_config": batches}


def settings(_: Asked) -> tuple[int, Any]:
    """The workspace."""
    return 200, {"id": TENANT, "display_name": "standin", "created_at": now(), "tenant_handle": "standin"}


def multipart(asked: Asked) -> tuple[int, Any]:
    """`POST /runs/multipart`."""
    if not asked.store.multipart:
        raise Refusal(404, "not found")
    parts.ingest(asked.store, asked.body)
    return 202, {"message": "Runs multipart ingested"}


def batch(asked: Asked) -> tuple[int, Any]:
    """`POST /runs/batch`."""
    for op in ("post", "patch"):
        for run in asked.body.get(op) or []:
            asked.store.upsert_run(op, run)
    return 202, {"message": "Runs batch ingested"}


def add_run(asked: Asked) -> tuple[int, Any]:
    """`POST /runs`."""
    asked.store.upsert_run("post", asked.body)
    return 202, {"message": "Run created"}


def change_run(asked: Asked, ident: str) -> tuple[int, Any]:
    """`PATCH /runs/{id}`."""
    asked.store.upsert_run("patch", {"id": ident, **asked.body})
    return 202, {"message": "Run updated"}


_ID = "([0-9a-f-]{36})"
_ROUTES: list[tuple[str, str, Callable[..., tuple[int, Any]]]] = [
    ("GET", "/_blob/([^/]+)/(.+)", queries.attachment),
    ("GET", "/_payload/([^/]+)/(inputs|outputs)", queries.payload),
    ("POST", "/runs/multipart", multipart),
    ("POST", "/runs/batch", batch),
    ("POST", "/runs", add_run),
    ("PATCH", f"/runs/{_ID}", change_run),
    ("POST", "/runs/query", queries.query_v1),
    ("GET", f"/runs/{_ID}", queries.one_run),
    ("POST", "/v2/(?:runs|traces)/query", queries.query_v2),
    ("GET", "/v2/traces/([^/]+)/runs", queries.trace_runs),
    ("GET POST", "/runs/rules", places.rules),
    ("GET", "/v2/runs/rules", places.rules),
    ("PATCH DELETE", f"/runs/rules/{_ID}", places.rule),
    ("GET", "/v2/runs/([^/]+)", queries.one_run),
    ("GET POST", "/sessions", places.sessions),
    ("GET PATCH", "/sessions/([^/]+)", places.session),
    ("GET POST", "/datasets", places.datasets),
    ("GET", f"/datasets/{_ID}", places.dataset),
    ("POST", "/examples(?:/bulk)?", places.add_examples),
    ("POST", "/platform/datasets/([^/]+)/examples", places.add_parts),
    ("GET", "/examples", places.examples),
    ("GET", "/examples/([^/]+)", places.example),
    ("POST", "/feedback", feedback.post),
    ("GET", "/feedback", feedback.listed),
    ("GET PATCH DELETE", f"/feedback/{_ID}", feedback.one),
    ("POST", "/feedback/tokens", feedback.tokens),
    ("GET POST PATCH", "/feedback-configs", feedback.configs),
    ("GET POST", "/annotation-queues", places.queues),
    ("GET PATCH DELETE", f"/annotation-queues/{_ID}", places.queue),
    ("GET POST", "/annotation-queues/([^/]+)/runs(?:/by-key)?", places.queued_runs),
    ("GET POST", "/platform/annotation-queues/([^/]+)/items", places.queued_items),
    ("POST", "/platform/annotation-queues/items/([^/]+)/status", places.item_status),
]
_OPEN = {"/info": info, "/settings": settings}
"""What is answered without a key."""


def answer(asked: Asked) -> tuple[int, Any]:
    """The answer to a request; Refusal where it is none."""
    if asked.method == "GET" and asked.path in _OPEN:
        return _OPEN[asked.path](asked)
    if not asked.headers.get("x-api-key") and not asked.path.startswith("/_"):
        raise Refusal(401, "Invalid token")
    if asked.path.startswith("/v2/") and not asked.store.flags["sdb_query_enabled"] and "rules" not in asked.path:
        raise Refusal(404, "Not Found")
    for methods, pattern, function in _ROUTES:
        if asked.method in methods.split() and (found := re.fullmatch(pattern, asked.path)):
            return function(asked, *found.groups())
    raise Refusal(404, f"no route {asked.method} {asked.path}")
