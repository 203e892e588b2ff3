"""What is well and what is not between here and Phoenix, in plain words; nothing is written to find out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from groundtrace.adapters.options import meant
from groundtrace.adapters.patience import Refused, Stranger
from groundtrace.adapters.phoenix.api import HERE, KEY, WHERE, Api
from groundtrace.errors import PlatformError
from groundtrace.model import Check

_TRIED = "20.26"
"""The version groundtrace was run with; which others have all that is asked for is not known."""

_MOST = 500
"""Projects named to find the one that was meant."""


def checks(api: Api, project: str | None = None, *, patience: float = 10.0) -> Iterator[Check]:
    """Address, key, version, project, annotation configs; an address that does not answer ends it."""
    yield Check("Phoenix address", well=True, detail=api.url)
    try:
        names = [name for name, _ in islice(api.projects(patience=patience), _MOST)]
    except Refused as refused:
        yield _refused(refused)
        return
    except PlatformError as error:
        yield Check("Phoenix", well=False, detail=str(error))
        return
    yield Check("Phoenix key", well=True, detail="is taken, or none is asked for")
    yield _version(api)
    if project is not None:
        yield _project(api, project, names, patience)
    yield _configs(api, patience)


def _refused(refused: Refused) -> Check:
    if isinstance(refused, Stranger):
        remedy = f"{WHERE} names Phoenix itself, as {HERE}, and not the address of another service"
        return Check("Phoenix", well=False, detail=str(refused), remedy=remedy)
    if refused.status == 0:
        remedy = f"start one with `phoenix serve`, which is at {HERE}; {WHERE} and the option base_url name another"
        return Check("Phoenix", well=False, detail=str(refused), remedy=remedy)
    if refused.status in (401, 403):
        remedy = f"set {KEY} to a key of this Phoenix: Settings, API keys"
        return Check("Phoenix key", well=False, detail=str(refused), remedy=remedy)
    if refused.status in (404, 405):
        remedy = f"{WHERE} names Phoenix itself, as {HERE}, and not the address of another service"
        return Check("Phoenix", well=False, detail=f"this is no Phoenix: {refused}", remedy=remedy)
    return Check("Phoenix", well=False, detail=str(refused))


def _version(api: Api) -> Check:
    """Which version answers; another than the one that was tried is no fault."""
    told = api.version()
    if not told:
        return Check("Phoenix version", well=True, detail="is not told")
    tried = "" if told.startswith(_TRIED) else f"; groundtrace was tried with {_TRIED}"
    return Check("Phoenix version", well=True, detail=f"{told}{tried}")


def _project(api: Api, name: str, names: list[str], patience: float) -> Check:
    found = api.project(name, patience=patience)
    if found is not None:
        return Check("Phoenix project", well=True, detail=f"{name} ({found})")
    near = meant(name, names)
    remedy = f"{near}Phoenix makes a project with its first trace; openinference.project.name in the resource names it"
    return Check("Phoenix project", well=False, detail=f"there is no project {name!r}", remedy=remedy)


def _configs(api: Api, patience: float) -> Check:
    """Whether annotation configs can be had, without which chips have no colour."""
    try:
        told = api.call("GET", "/annotation_configs", params={"limit": 1}, patience=patience)
    except Refused as refused:
        return Check("Phoenix annotation configs", well=False, detail=str(refused))
    there = bool(told.get("data")) if isinstance(told, Mapping) else False
    detail = "people annotate by them, and chips are coloured" if there else "none yet: the first scores bring theirs"
    return Check("Phoenix annotation configs", well=True, detail=detail)
