"""Which function answers which request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from . import logs, objects
from .asked import Asked
from .store import Refusal

_ID = "([^/]+)"
_KIND = "(project_logs|experiment|dataset)"
_ROUTES: list[tuple[str, str, Callable[..., Any]]] = [
    ("POST", "/api/apikey/login", objects.login),
    ("GET POST", "/ping", objects.ping),
    ("POST", "/btql", logs.query),
    ("POST", "/logs3", logs.logs3),
    ("POST", "/logs3/overflow", logs.overflow),
    ("POST", "/v1/insert", logs.insert_all),
    ("POST", f"/v1/{_KIND}/{_ID}/insert", logs.insert),
    ("POST", f"/v1/{_KIND}/{_ID}/feedback", logs.feedback),
    ("GET POST", f"/v1/{_KIND}/{_ID}/fetch", logs.fetch),
    ("POST", "/otel/v1/traces", logs.traces),
    ("POST", "/attachment", logs.add_attachment),
    ("GET", "/attachment", logs.attachment),
    ("POST", "/attachment/status", logs.attachment_status),
    ("POST", "/(?:api/project/register|v1/project)", objects.add_project),
    ("GET", "/v1/project", objects.projects),
    ("GET", f"/v1/project/{_ID}", objects.project),
    ("GET", "/api/project", objects.old_project),
    ("POST", "/v1/experiment", objects.add_experiment),
    ("POST", "/api/experiment/register", objects.register_experiment),
    ("GET", "/v1/experiment", objects.experiments),
    ("GET", f"/v1/experiment/{_ID}/summarize", objects.summary),
    ("GET", "/experiment-comparison2", objects.old_summary),
    ("GET", f"/v1/experiment/{_ID}", objects.experiment),
    ("POST", "/api/base_experiment/get_id", objects.no_base),
    ("POST", "/v1/dataset", objects.add_dataset),
    ("POST", "/api/dataset/register", objects.register_dataset),
    ("GET", f"/v1/dataset/{_ID}", objects.dataset),
    ("POST PUT", "/v1/project_score", objects.add_score),
    ("GET", "/v1/project_score", objects.scores),
    ("GET PATCH DELETE", f"/v1/project_score/{_ID}", objects.score),
    ("GET", "/v1/user", objects.users),
    ("POST", "/function/code", objects.add_code),
    ("POST", "/insert-functions", objects.add_functions),
]


def answer(asked: Asked) -> Any:
    """The answer to a request, as bytes or as what JSON says; Refusal where it is none."""
    if asked.path.startswith("/blob/"):
        return blob(asked, asked.path.removeprefix("/blob/"))
    if asked.path == "/version":
        told = {"version": "standin", "commit": "0"}
        return {**told, "logs3_payload_max_bytes": asked.store.max_payload}
    key = (asked.headers.get("Authorization") or "").removeprefix("Bearer ")
    if key not in asked.store.api_keys:
        raise Refusal(401, "invalid api key")
    if asked.org is not None and asked.org not in asked.store.orgs:
        raise Refusal(403, f"no organisation of this key: {asked.org}")
    for methods, pattern, function in _ROUTES:
        if asked.method in methods.split() and (found := re.fullmatch(pattern, asked.path)):
            return function(asked, *found.groups())
    raise Refusal(404, f"stand-in: no route {asked.method} {asked.path}")


def blob(asked: Asked, key: str) -> Any:
    """Bytes kept under an address that needs no key."""
    if asked.method == "PUT":
        asked.store.blobs[key] = asked.raw
        return {}
    if key not in asked.store.blobs:
        raise Refusal(404, "not found")
    return asked.store.blobs[key]
