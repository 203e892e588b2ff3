"""What is well and what is not between here and MLflow, in plain words; nothing is written to find out."""

from __future__ import annotations

from collections.abc import Iterator

from groundtrace.adapters.mlflow.api import PASSWORD, TOKEN, USER, WHERE, Api
from groundtrace.adapters.mlflow.said import assessments, is_ours
from groundtrace.adapters.mlflow.spans import is_elsewhere
from groundtrace.adapters.patience import Refused, Stranger
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Check

_AS = "as http://127.0.0.1:5000"
_DAY = 86_400_000


def checks(api: Api, experiment: str, *, now: int, patience: float = 20.0) -> Iterator[Check]:
    """Address, login, experiment, traces; an address that does not answer ends it.

    `now` is in milliseconds since 1970, `patience` after how many seconds something is asked for the last time.
    """
    url = api.url
    yield Check("MLflow address", well=True, detail=url)
    try:
        found = api.experiment(experiment, patience=patience)
    except PlanError as error:
        yield Check("MLflow login", well=True, detail="is taken, or none is asked for")
        remedy = "MLflow's `mlflow.set_experiment` makes one; its page in MLflow shows its name and id"
        yield Check("MLflow experiment", well=False, detail=str(error), remedy=remedy)
        return
    except (Refused, PlatformError) as error:
        yield _refused(error, url)
        return
    yield Check("MLflow login", well=True, detail="is taken, or none is asked for")
    yield Check("MLflow experiment", well=True, detail=f"{found.name} ({found.id})")
    yield from _traces(api, found.id, now)


def _refused(error: PlatformError, url: str) -> Check:
    """Why the server does not let us in, as far as the answer tells."""
    if isinstance(error, Stranger):
        remedy = f"{WHERE} names the MLflow server itself, {_AS}, and not the address of another service"
        return Check("MLflow", well=False, detail=str(error), remedy=remedy)
    status = error.status if isinstance(error, Refused) else None
    if status == 0:
        remedy = f"is it running, and is {WHERE} right? `mlflow server --port 5000` starts one"
        return Check("MLflow", well=False, detail=str(error), remedy=remedy)
    if status == 401:
        detail = "no login was sent, or MLflow does not know it"
        remedy = f"set {USER} and {PASSWORD}, or {TOKEN}"
        return Check("MLflow login", well=False, detail=detail, remedy=remedy)
    if status == 403:
        detail = f"refused: {error}"
        remedy = f"where that is about the host, name it to the server (--allowed-hosts), or reach {url} by the name "
        remedy += "it knows; else ask for a login that may read and edit this experiment"
        return Check("MLflow login", well=False, detail=detail, remedy=remedy)
    return Check("MLflow", well=False, detail=str(error), remedy="look into the server's log")


def _traces(api: Api, experiment: str, now: int) -> Iterator[Check]:
    """Whether there are traces, and whether their spans can be asked for."""
    try:
        page = next(api.infos(experiment, now - _DAY, now), [])
    except Refused as refused:
        yield Check("MLflow traces", well=False, detail=str(refused), remedy="MLflow 3 has the API that is asked")
        return
    count = f"{len(page)}{' or more' if len(page) == 500 else ''} in the last 24 hours"
    scored = sum(any(is_ours(one) for one in assessments(info)) for info in page)
    yield Check("MLflow traces", well=True, detail=f"{count}, {scored} with scores of ours")
    if away := sum(map(is_elsewhere, page)):
        detail = f"{away} are kept as files beside the server, where their spans can't be asked for"
        yield Check("MLflow spans", well=False, detail=detail, remedy="trace with MLflow 3 against a database store")
