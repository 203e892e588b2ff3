"""Rows as they are sent, fetched and spoken of."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any
from urllib.parse import quote

from . import btql, otlp
from .asked import Asked
from .store import Key, Refusal, Row, public


def logs3(asked: Asked) -> Any:
    """`POST /logs3`, as the SDK sends its rows; more of them than fit stand elsewhere."""
    told = asked.body
    if isinstance(told["rows"], dict):
        told = json.loads(asked.store.blobs[told["rows"]["key"]])
    elif len(asked.raw) > asked.store.max_payload:
        raise Refusal(413, "Request entity too large")
    ids, xact = asked.store.write(told["rows"])
    return {"ids": ids, "xact_id": xact}


def overflow(asked: Asked) -> Any:
    """`POST /logs3/overflow`: where to put rows that do not fit into a request."""
    key = f"overflow/{uuid.uuid4().hex}"
    return {"method": "PUT", "signedUrl": f"{asked.store.url}/blob/{key}", "headers": {}, "key": key}


def insert(asked: Asked, kind: str, ident: str) -> Any:
    """`POST /v1/{kind}/{id}/insert`."""
    if len(asked.raw) > asked.store.max_payload:
        raise Refusal(413, "Request entity too large")
    ids = _ids(asked, kind, ident)
    return {"row_ids": asked.store.write([{**event, **ids} for event in asked.body["events"]])[0]}


def insert_all(asked: Asked) -> Any:
    """`POST /v1/insert`: rows and feedback of several objects."""
    out: Row = {}
    for kind, objects in asked.body.items():
        for ident, told in objects.items():
            ids = _ids(asked, kind, ident)
            made = asked.store.write([{**event, **ids} for event in told.get("events") or ()])[0]
            asked.store.write([row for one in told.get("feedback") or () for row in _feedback(one, ids)])
            out.setdefault(kind, {})[ident] = {"row_ids": made}
    return out


def feedback(asked: Asked, kind: str, ident: str) -> Any:
    """`POST /v1/{kind}/{id}/feedback`."""
    ids = _ids(asked, kind, ident)
    asked.store.write([row for one in asked.body["feedback"] for row in _feedback(one, ids)])
    return {"status": "success"}


def _feedback(told: Row, ids: Row) -> list[Row]:
    """What an item of feedback makes of its row, and its comment."""
    base = {**ids, "_audit_source": told.get("source") or "external", "_audit_metadata": told.get("metadata")}
    said = {name: told[name] for name in ("scores", "expected", "tags") if told.get(name) is not None}
    rows = [{"id": told["id"], **said, **base, "_is_merge": True}] if said else []
    if told.get("comment"):
        comment = {"origin": {"id": told["id"]}, "comment": {"text": told["comment"]}}
        rows.append({"id": str(uuid.uuid4()), **comment, **base})
    return rows


def fetch(asked: Asked, kind: str, ident: str) -> Any:
    """`/v1/{kind}/{id}/fetch`: whole traces, those that changed last first; the limit counts traces."""
    told = {**asked.query, **(asked.body or {})}
    rows = asked.store.found((kind, ident))
    last: dict[str, str] = {}
    for row in rows:
        last[row["root_span_id"]] = max(last.get(row["root_span_id"], "0"), row["_xact_id"])
    order = sorted(last, key=lambda trace: (last[trace], trace), reverse=True)
    start = int(base64.b64decode(told["cursor"])) if told.get("cursor") else 0
    end = start + int(told.get("limit") or 100)
    events = [public(row) for trace in order[start:end] for row in rows if row["root_span_id"] == trace]
    more = {"cursor": base64.b64encode(str(end).encode()).decode()} if events else {}
    return {"events": events, **more}


def query(asked: Asked) -> Any:
    """`POST /btql`."""
    store = asked.store
    if store.queries is not None:
        now = store.clock()
        while store.asked and store.asked[0] <= now - 60:
            store.asked.popleft()
        if len(store.asked) >= store.queries:
            after = max(1, round(store.asked[0] + 60 - now))
            raise Refusal(429, "Too many requests", {"Retry-After": str(after)})
        store.asked.append(now)
    return btql.run(store, asked.body)


def traces(asked: Asked) -> Any:
    """`POST /otel/v1/traces`."""
    parent = asked.headers.get("x-bt-parent") or "project_name:default-otel-project"
    asked.store.otel.append({"parent": parent, "raw": asked.raw})
    asked.store.write(otlp.rows(asked.store, asked.raw, parent, asked.org))
    return b""


def add_attachment(asked: Asked) -> Any:
    """`POST /attachment`: where to put one."""
    return {"signedUrl": f"{asked.store.url}/blob/{asked.body['key']}", "headers": {}}


def attachment(asked: Asked) -> Any:
    """`GET /attachment`: where one is; by its key, or by its address in a bucket of the user's."""
    key = asked.query["key"] if "key" in asked.query else asked.query["url"]
    if "url" in asked.query and key not in asked.store.blobs:
        raise Refusal(400, "no integration reads this bucket")
    status = asked.store.attachment_status.get(key, {"upload_status": "done"})
    return {"downloadUrl": f"{asked.store.url}/blob/{quote(key)}", "status": status}


def attachment_status(asked: Asked) -> Any:
    """`POST /attachment/status`: whether it arrived."""
    asked.store.attachment_status[asked.body["key"]] = asked.body["status"]
    return {}


def _ids(asked: Asked, kind: str, ident: str) -> Row:
    """How a row says of which object it is; an object nobody made has none."""
    key: Key = (kind, ident)
    tables = {
        "project_logs": asked.store.projects,
        "experiment": asked.store.experiments,
        "dataset": asked.store.datasets,
    }
    if ident not in tables[kind]:
        raise Refusal(404, f"no such {kind}: {ident}")
    named = {
        "project_logs": {"project_id": ident, "log_id": "g"},
        "experiment": {"experiment_id": ident},
        "dataset": {"dataset_id": ident},
    }
    return named[key[0]]
