"""Projects, experiments, data sets, scores people may give, users."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from .asked import Asked
from .store import Refusal, Row


def login(asked: Asked) -> Any:
    """`POST /api/apikey/login`: the organisations of a key."""
    address = {"api_url": asked.store.url, "proxy_url": asked.store.url, "realtime_url": None}
    more = {"is_universal_api": True, "git_metadata": None}
    return {"org_info": [{"id": i, "name": n, **address, **more} for n, i in asked.store.orgs.items()]}


def ping(_: Asked) -> Any:
    """`GET /ping`."""
    return {"id": str(uuid.uuid4()), "email": "t@example.com"}


def add_project(asked: Asked) -> Any:
    """`POST /v1/project`: the project of a name, made where there is none."""
    name = asked.body.get("project_name") or asked.body["name"]
    made = asked.store.project(name, asked.body.get("org_name") or asked.org)
    return {"project": made} if asked.path.startswith("/api/") else made


def projects(asked: Asked) -> Any:
    """`GET /v1/project`."""
    org = asked.query.get("org_name") or asked.org
    rows = [row for row in asked.store.projects.values() if not org or row["org_id"] == asked.store.orgs.get(org)]
    return _listed(rows, asked, project_name="name")


def project(asked: Asked, ident: str) -> Any:
    """`GET /v1/project/{id}`."""
    return _one(asked.store.projects, ident)


def old_project(asked: Asked) -> Any:
    """`GET /api/project`, as SDKs up to 0.34 ask."""
    return {"project": _one(asked.store.projects, asked.query["id"]), **_one(asked.store.projects, asked.query["id"])}


def add_experiment(asked: Asked) -> Any:
    """`POST /v1/experiment`."""
    more = {name: asked.body.get(name) for name in ("base_exp_id", "metadata", "dataset_id", "tags")}
    new = bool(asked.body.get("ensure_new"))
    return asked.store.experiment(asked.body["project_id"], asked.body.get("name"), new=new, **more)


def register_experiment(asked: Asked) -> Any:
    """`POST /api/experiment/register`, as SDKs up to 0.34 ask."""
    told, store = asked.body, asked.store
    ident = told.get("project_id")
    place = store.projects[ident] if ident else store.project(told["project_name"], asked.org)
    new = not told.get("update")
    made = store.experiment(place["id"], told.get("experiment_name"), new=new, metadata=told.get("metadata"))
    return {"project": place, "experiment": made}


def experiments(asked: Asked) -> Any:
    """`GET /v1/experiment`."""
    return _listed(asked.store.experiments.values(), asked, experiment_name="name", project_id="project_id")


def experiment(asked: Asked, ident: str) -> Any:
    """`GET /v1/experiment/{id}`."""
    return _one(asked.store.experiments, ident)


def summary(asked: Asked, ident: str) -> Any:
    """`GET /v1/experiment/{id}/summarize`: the mean of each score, over all rows that have it."""
    store = asked.store
    made = _one(store.experiments, ident)
    told: dict[str, list[float]] = {}
    for row in store.found(("experiment", ident)):
        for name, value in (row.get("scores") or {}).items():
            if value is not None:
                told.setdefault(name, []).append(value)
    means = {
        name: {"name": name, "score": sum(values) / len(values), "improvements": 0, "regressions": 0}
        for name, values in told.items()
    }
    names = {"project_name": store.projects[made["project_id"]]["name"], "experiment_name": made["name"]}
    links = {"project_url": store.url, "experiment_url": store.url}
    return {**names, **links, "comparison_experiment_name": None, "metrics": {}, "scores": means}


def old_summary(asked: Asked) -> Any:
    """`GET /experiment-comparison2`, as older SDKs ask."""
    told = summary(asked, asked.query["experiment_id"])
    return {**told, "baseExperimentName": None, "baseExperimentId": None}


def no_base(_: Asked) -> Any:
    """`POST /api/base_experiment/get_id`: there is none."""
    raise Refusal(400, "no base experiment")


def add_dataset(asked: Asked) -> Any:
    """`POST /v1/dataset`."""
    return asked.store.dataset(asked.body["project_id"], asked.body["name"])


def register_dataset(asked: Asked) -> Any:
    """`POST /api/dataset/register`, as SDKs up to 0.34 ask."""
    told, store = asked.body, asked.store
    ident = told.get("project_id")
    place = store.projects[ident] if ident else store.project(told["project_name"], asked.org)
    return {"project": place, "dataset": store.dataset(place["id"], told["dataset_name"])}


def dataset(asked: Asked, ident: str) -> Any:
    """`GET /v1/dataset/{id}`."""
    return _one(asked.store.datasets, ident)


def add_score(asked: Asked) -> Any:
    """`POST` and `PUT /v1/project_score`: one that is there is left as it is by POST, and replaced by PUT."""
    store, told = asked.store, asked.body
    made = store.named(store.scores, told["name"], project_id=told["project_id"])
    if made is not None:
        if asked.method == "PUT":
            made.update(told)
        return made
    ids = {"id": str(uuid.uuid4()), "user_id": str(uuid.uuid4())}
    store.scores[ids["id"]] = {**ids, "created": store.now(), "position": None, **told}
    return store.scores[ids["id"]]


def scores(asked: Asked) -> Any:
    """`GET /v1/project_score`."""
    return _listed(asked.store.scores.values(), asked, project_score_name="name", project_id="project_id")


def score(asked: Asked, ident: str) -> Any:
    """`GET`, `PATCH` and `DELETE /v1/project_score/{id}`."""
    made = _one(asked.store.scores, ident)
    if asked.method == "PATCH":
        made.update(asked.body)
    if asked.method == "DELETE":
        del asked.store.scores[ident]
    return made


def users(asked: Asked) -> Any:
    """`GET /v1/user`."""
    return _listed(asked.store.users.values(), asked, email="email", given_name="given_name")


def _one(table: Mapping[str, Row], ident: str) -> Row:
    if ident not in table:
        raise Refusal(404, "not found")
    return table[ident]


def _listed(rows: Iterable[Row], asked: Asked, **named: str) -> Any:
    """Those that fit each parameter of the query that was given, with the page it asks for."""
    told = {field: asked.query[name] for name, field in named.items() if name in asked.query}
    fit = [row for row in rows if all(row.get(field) == value for field, value in told.items())]
    after = asked.query.get("starting_after")
    if after:
        ids = [row["id"] for row in fit]
        fit = fit[ids.index(after) + 1 :] if after in ids else fit
    return {"objects": fit[: int(asked.query.get("limit", 100))]}


def add_code(asked: Asked) -> Any:
    """`POST /function/code`: where to put a bundle."""
    key = str(uuid.uuid4())
    return {"url": f"{asked.store.url}/blob/{key}", "bundleId": key}


def add_functions(asked: Asked) -> Any:
    """`POST /insert-functions`: what a bundle holds."""
    asked.store.functions += asked.body["functions"]
    return {"functions": []}
