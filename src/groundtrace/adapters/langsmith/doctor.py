"""What is well and what is not between here and LangSmith, in plain words; nothing is written to find out."""

from __future__ import annotations

import os
from collections.abc import Iterator

from groundtrace.adapters.langsmith.api import HOSTS, RATES, Api
from groundtrace.adapters.options import meant
from groundtrace.adapters.patience import Refused
from groundtrace.errors import PlanError
from groundtrace.model import Check

_ORG = "org_scoped_key_requires_workspace"
_SAMPLING = ("LANGSMITH_TRACING_SAMPLING_RATE", "LANGCHAIN_TRACING_SAMPLING_RATE")
_MOST = 100
"""Projects named to find the one that was meant."""


def checks(
    api: Api, project: str | None = None, *, extend_retention: bool = False, patience: float = 20.0
) -> Iterator[Check]:
    """Address, key, workspace, project, query API, rates, retention; a key that is not taken ends it.

    `patience` is after how many seconds something is asked for the last time.
    """
    try:
        where = f"{api.url} ({api.region})"
    except PlanError as error:
        yield Check("LangSmith", well=False, detail=str(error), remedy="set LANGSMITH_API_KEY, and LANGSMITH_ENDPOINT")
        return
    yield Check("LangSmith address", well=True, detail=where)
    yield from _sampling()
    try:
        told = api.call("GET", "/sessions", params={"limit": _MOST}, patience=patience)
    except Refused as refused:
        yield _refused(refused, api)
        return
    yield Check("LangSmith key", well=True, detail=f"is taken by the {api.region} region")
    rows = [row for row in told if isinstance(row, dict)] if isinstance(told, list) else []
    yield _workspace(api, rows)
    if project is not None:
        yield _project(api, project, [str(row.get("name")) for row in rows], patience)
    yield _generation(api)
    yield Check("LangSmith rates", well=True, detail=_rates())
    yield _retention(extend=extend_retention)


def _refused(refused: Refused, api: Api) -> Check:
    """Why the key is not taken, as far as the answer tells."""
    if refused.status == 0:
        remedy = f"is the address right? LANGSMITH_ENDPOINT and the option url set it; LangSmith's are {_regions()}"
        return Check("LangSmith key", well=False, detail=str(refused), remedy=remedy)
    if refused.status == 401:
        detail = "no key was sent, or LangSmith does not know it"
        return Check("LangSmith key", well=False, detail=detail, remedy="set LANGSMITH_API_KEY to a key of this region")
    if _ORG in refused.detail:
        detail = "the key is one of a whole organisation, and does not say which workspace is meant"
        remedy = "set LANGSMITH_WORKSPACE_ID to the workspace's id, or write workspace=ID"
        return Check("LangSmith workspace", well=False, detail=detail, remedy=remedy)
    if refused.status == 403:
        detail = f"the key is not allowed here: it is of another region than {api.region}, of another workspace than "
        detail += f"{os.environ.get('LANGSMITH_WORKSPACE_ID') or 'its own'}, or lacks the permission to read projects"
        remedy = f"keys don't say their region: try LANGSMITH_ENDPOINT with each of {_regions()}; "
        remedy += "then LANGSMITH_WORKSPACE_ID; then ask an admin for a role that may read and write feedback"
        return Check("LangSmith key", well=False, detail=detail, remedy=remedy)
    return Check(
        "LangSmith", well=False, detail=str(refused), remedy="try again later; https://status.smith.langchain.com"
    )


def _regions() -> str:
    return ", ".join(f"{host} ({name})" for host, name in HOSTS.items())


def _workspace(api: Api, rows: list[dict[str, object]]) -> Check:
    """Which workspace the key sees; that it can't be named is no fault."""
    ident = next((str(row["tenant_id"]) for row in rows if row.get("tenant_id")), "")
    try:
        told = api.call("GET", "/settings", patience=5)
    except Refused:
        told = None
    known = told if isinstance(told, dict) else {}
    named = " ".join(str(part) for part in (known.get("display_name"), known.get("id") or ident) if part)
    return Check("LangSmith workspace", well=True, detail=named or "is not told")


def _project(api: Api, name: str, names: list[str], patience: float) -> Check:
    """Whether the project is there; else which one may be meant."""
    try:
        found = api.project(name, patience=patience)
    except PlanError:
        near = meant(name, names)
        remedy = f"{near}LangSmith makes a project with its first trace; LANGSMITH_PROJECT names it to your code"
        detail = f"there is no project {name!r} in this workspace of the {api.region} region"
        return Check("LangSmith project", well=False, detail=detail, remedy=remedy)
    except Refused as refused:
        return Check("LangSmith project", well=False, detail=str(refused))
    return Check("LangSmith project", well=True, detail=f"{found.name} ({found.id})")


def _generation(api: Api) -> Check:
    version = api.info.get("version")
    if not api.info:
        return Check("LangSmith query API", well=True, detail="the server does not say; v2 is asked, then v1")
    detail = f"{api.generation}, server {version or 'of an unknown version'}"
    if api.generation == "v1":
        detail += "; LangSmith removes v1 on 31 January 2027, self-hosted with 0.18"
    return Check("LangSmith query API", well=True, detail=detail)


def _rates() -> str:
    said = {"query": "queries", "wide": "queries over more than 7 days", "run": "single runs", "write": "writes"}
    told = ", ".join(f"{RATES[tier][0]} {words} in {RATES[tier][1]:g} s" for tier, words in said.items())  # type: ignore[index]
    return f"kept to: {told}; where LangSmith says 429, its Retry-After is waited for"


def _retention(*, extend: bool) -> Check:
    """What writing scores costs beside the writing."""
    if extend:
        detail = "extend_retention=true: a score moves its trace from 14 days to 400, at ten times the price"
        return Check("LangSmith retention", well=True, detail=detail)
    detail = "scores leave a trace's retention as it is; LangSmith's default would extend it, at ten times the price"
    return Check("LangSmith retention", well=True, detail=detail)


def _sampling() -> Iterator[Check]:
    for name in _SAMPLING:
        if (rate := os.environ.get(name)) not in (None, "", "1", "1.0"):
            detail = f"{name}={rate} is set: harmless to groundtrace, which reads and writes everything; "
            detail += "your application sends that share of its traces, and its own feedback with them"
            yield Check("LangSmith sampling", well=True, detail=detail)
