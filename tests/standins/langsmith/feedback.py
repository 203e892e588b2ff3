"""Feedback, how its keys are shown, and the links through which it is given."""

from __future__ import annotations

import uuid
from typing import Any

from .asked import Asked
from .store import Refusal, Row
from .times import ZONED, moment, now


def post(asked: Asked) -> tuple[int, Any]:
    """`POST /feedback`."""
    store, body = asked.store, asked.body
    run = body.get("run_id")
    if run and not body.get("session_id"):
        if not store.flags["ch_query_enabled"]:
            raise Refusal(501, "session_id is required on this deployment")
        if str(run) not in {run["id"] for run in store.visible()}:
            raise Refusal(404, "Run not found")
    if run and store.strict and str(run) not in {run["id"] for run in store.visible()}:
        raise Refusal(404, "Run not found")
    _checked(body)
    body = {"id": str(uuid.uuid4()), **body}
    if store.same_id == "conflict" and str(body["id"]) in store.feedback:
        raise Refusal(409, "feedback with this id exists")
    return 200, store.upsert_feedback(body)


def _checked(body: Row) -> None:
    if isinstance(body.get("score"), float) and round(body["score"], 4) != body["score"]:
        raise Refusal(422, "score: at most 4 decimal places")
    if isinstance(body.get("value"), list):
        raise Refusal(422, "value: a list is no value")
    if body.get("start_time") and not ZONED.search(str(body["start_time"])):
        raise Refusal(422, "start_time must be RFC3339")


def listed(asked: Asked) -> tuple[int, Any]:
    """`GET /feedback`: a bare list, by offset."""
    tests = {
        "run": lambda told, wanted: told["run_id"] in wanted,
        "session": lambda told, wanted: told["session_id"] in wanted,
        "key": lambda told, wanted: told["key"] in wanted,
        "source": lambda told, wanted: (told.get("feedback_source") or {}).get("type") in wanted,
        "min_created_at": lambda told, wanted: moment(told["created_at"]) >= moment(wanted[0]),
        "max_created_at": lambda told, wanted: moment(told["created_at"]) <= moment(wanted[0]),
    }
    limit = int(asked.one("limit", 100))
    if limit > 100:
        raise Refusal(422, "limit: at most 100")
    rows = list(asked.store.feedback.values())
    for name, test in tests.items():
        if asked.query.get(name):
            rows = [told for told in rows if test(told, asked.query[name])]
    return 200, rows[int(asked.one("offset", 0)) :][:limit]


def one(asked: Asked, ident: str) -> tuple[int, Any]:
    """`GET`, `PATCH` and `DELETE /feedback/{id}`."""
    held = asked.store.feedback
    if ident not in held:
        raise Refusal(404, "Feedback not found")
    if asked.method == "DELETE":
        del held[ident]
        return 200, {}
    if asked.method == "PATCH":
        _checked(asked.body)
        held[ident].update(asked.body, modified_at=asked.store.clock().isoformat())
    return 200, held[ident]


def tokens(asked: Asked) -> tuple[int, Any]:
    """`POST /feedback/tokens`: links through which feedback is given without a key."""
    made = []
    for body in asked.body if isinstance(asked.body, list) else [asked.body]:
        ident = body.get("id") or str(uuid.uuid4())
        told = {"id": ident, "url": f"{asked.host}/feedback/tokens/{ident}", "expires_at": now()}
        asked.store.tokens[ident] = {**told, "_body": body}
        made.append(told)
    return 200, made if isinstance(asked.body, list) else made[0]


def configs(asked: Asked) -> tuple[int, Any]:
    """`/feedback-configs`: the same again is well, another one of the same key is not."""
    store, body = asked.store, asked.body
    if asked.method == "GET":
        wanted = asked.query.get("key")
        return 200, [told for told in store.fconfigs.values() if not wanted or told["feedback_key"] in wanted]
    held = store.fconfigs.get(body["feedback_key"])
    if asked.method == "PATCH":
        if held is None:
            raise Refusal(404, "not found")
        held.update({name: value for name, value in body.items() if value is not None}, modified_at=now())
        return 200, held
    if held is not None and held["feedback_config"] != body["feedback_config"]:
        raise Refusal(400, "Feedback config already exists")
    return 200, held or store.configure(body)
