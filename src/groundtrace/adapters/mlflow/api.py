"""MLflow's REST API: where it is, who asks, and traces page after page.

Everything here was tried against a real server of 3.17.2. Not tried: one behind a login of its own, behind Databricks,
or on another database than SQLite. A page is an offset into what the server finds, so a trace that is deleted while
pages are read would hide another: each page begins anew where the last one ended.
"""

from __future__ import annotations

import base64
import functools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

from groundtrace.adapters.mlflow.times import milliseconds
from groundtrace.adapters.options import meant
from groundtrace.adapters.patience import Refused, Stranger
from groundtrace.adapters.rest import Method, Rest
from groundtrace.errors import PlanError, PlatformError

Row: TypeAlias = Mapping[str, Any]
"""A trace's info, a span or an assessment, as it came."""

PLATFORM = "mlflow"
WHERE = "MLFLOW_TRACKING_URI"
TOKEN, USER, PASSWORD = "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"

PAGE = 500
"""Traces listed at once, the most MLflow gives."""

_SHOWN = 10
"""Experiments that are named where none looks like the one that was meant."""

TOGETHER = 100
"""Traces whose infos are asked for at once."""

_V2, _V3 = "/api/2.0/mlflow", "/api/3.0/mlflow"
_AS = "as http://127.0.0.1:5000, which `mlflow server` starts"
_REMEDIES = {
    401: f"; are {TOKEN}, or {USER} and {PASSWORD}, right?",
    403: "; the login may lack the permission, or the server does not know itself by this host name: "
    "`groundtrace doctor` says more",
}


class Experiment(NamedTuple):
    """Where traces are kept."""

    id: str
    name: str


class Api:
    """MLflow at one address, `tracking_uri` or MLFLOW_TRACKING_URI.

    Who asks is in MLFLOW_TRACKING_TOKEN, or in MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, and is never kept
    or shown. `patience` is as in `Rest`; `clock` and `sleep` are for tests.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        patience: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._uri = tracking_uri or os.environ.get(WHERE) or ""
        self._patience, self._clock, self._sleep = patience, clock, sleep
        self._known: dict[str, Experiment] = {}

    @functools.cached_property
    def url(self) -> str:
        """The server's address, without a login that may stand in it; PlanError where it is none."""
        parts = urlsplit(self._uri.strip())
        if not self._uri:
            raise PlanError(PLATFORM, WHERE, "is not set", hint=f"it names an MLflow server, {_AS}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            shown = self._uri if "@" not in self._uri else parts.scheme
            hint = f"{WHERE}, or tracking_uri, names one, {_AS}"
            raise PlanError(PLATFORM, shown, "is no address of an MLflow server", hint=hint)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    @functools.cached_property
    def rest(self) -> Rest:
        """The API itself."""
        return Rest(
            "MLflow",
            self.url,
            where=WHERE,
            headers=self._login(),
            remedies=_REMEDIES,
            patience=self._patience,
            clock=self._clock,
            sleep=self._sleep,
        )

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Ask nothing again once `stopping` says so."""
        self.rest.stop_when(stopping)

    def _login(self) -> dict[str, str]:
        parts = urlsplit(self._uri.strip())
        user = unquote(parts.username or "") or os.environ.get(USER) or ""
        password = unquote(parts.password or "") or os.environ.get(PASSWORD) or ""
        if user and password:  # as MLflow's own client has it, this goes before the token
            return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
        token = os.environ.get(TOKEN)
        return {"Authorization": f"Bearer {token}"} if token else {}

    def call(
        self,
        method: Method,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, Any] | None = None,
        patience: float | None = None,
    ) -> Any:
        """What MLflow answers, decoded; asked again where that may help. Raises Refused."""
        return self.rest.call(method, path, json=json, params=params, patience=patience)

    # --- experiments --------------------------------------------------------------------------------------------------

    def experiment(self, name: str, *, patience: float | None = None) -> Experiment:
        """The experiment of a name or id; it is never created. PlanError where there is none."""
        if name not in self._known:
            row = self._found("get-by-name", {"experiment_name": name}, patience)
            if row is None and name.isdecimal():
                row = self._found("get", {"experiment_id": name}, patience)
            if row is None:
                raise PlanError("experiment", name, "is no experiment here", hint=self._unknown(name))
            if row.get("lifecycle_stage") == "deleted":
                hint = "restore it in MLflow first"
                raise PlanError("experiment", name, "is an experiment that was deleted", hint=hint)
            self._known[name] = Experiment(str(row["experiment_id"]), str(row.get("name") or name))
        return self._known[name]

    def _found(self, path: str, params: Mapping[str, str], patience: float | None) -> Row | None:
        try:
            told = self.call("GET", f"{_V2}/experiments/{path}", params=params, patience=patience)
        except Refused as refused:
            if refused.status in (400, 404) and not isinstance(refused, Stranger):
                return None
            raise
        row = told.get("experiment") if isinstance(told, Mapping) else None
        if not isinstance(row, Mapping) or "experiment_id" not in row:
            raise PlatformError(f"{self.url} answers, and not as MLflow does: is the address right ({WHERE})?")
        return row

    def _unknown(self, name: str) -> str:
        """What to say of a name that no experiment has."""
        try:
            told = self.call("POST", f"{_V2}/experiments/search", json={"max_results": PAGE}, patience=5.0)
        except Refused:
            told = None
        listed = told.get("experiments") if isinstance(told, Mapping) else None
        names = [str(row.get("name")) for row in listed or () if isinstance(row, Mapping)]
        if near := meant(name, names):
            return f"{near}It was looked for at {self.url}"
        there = ", ".join(sorted(names)[:_SHOWN])
        return f"at {self.url} there are {there}" if names else f"there is none at {self.url}"

    # --- traces -------------------------------------------------------------------------------------------------------

    def infos(self, experiment: str, since: int, until: int, where: str = "") -> Iterator[list[Row]]:
        """What is told of the traces that began in a time (milliseconds since 1970), oldest first, page after page.

        `where` is a filter in MLflow's own language. Each trace comes once. Raises Refused.
        """
        seen: set[str] = set()
        token: str | None = None
        while True:
            told = self._search(experiment, since, until, where, token)
            page, token = _rows(told, "traces"), told.get("next_page_token")
            new = [row for row in page if str(row.get("trace_id")) not in seen]
            seen.update(str(row.get("trace_id")) for row in new)
            if new:
                yield new
            if not token:
                return
            last = milliseconds(page[-1].get("request_time")) if page else None
            if last is not None and last > since:
                since, token = last, None

    def _search(self, experiment: str, since: int, until: int, where: str, token: str | None) -> Row:
        bounds = f"trace.timestamp_ms >= {since} AND trace.timestamp_ms < {until}"
        asked = {
            "locations": [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}}],
            "filter": f"{bounds} AND {where}" if where else bounds,
            "max_results": PAGE,
            "order_by": ["timestamp_ms ASC", "request_id ASC"],
            "page_token": token,
        }
        told = self.call(
            "POST", f"{_V3}/traces/search", json={name: one for name, one in asked.items() if one is not None}
        )
        return told if isinstance(told, Mapping) else {}

    def told(self, trace_ids: Sequence[str], patience: float | None = None) -> dict[str, Row]:
        """What is told of these traces, with their assessments, by id; one that is not there is left out."""
        found: dict[str, Row] = {}
        for start in range(0, len(trace_ids), TOGETHER):
            asked = {"trace_ids": [*trace_ids[start : start + TOGETHER]]}
            told = self.call("POST", f"{_V3}/traces/batchGetInfos", json=asked, patience=patience)
            found |= {str(row.get("trace_id")): row for row in _rows(told, "trace_infos")}
        return found

    def whole(self, trace_ids: Sequence[str]) -> dict[str, tuple[Row, list[Row]]]:
        """These traces, each with what is told of it and its spans, by id; one that is not there is left out."""
        told = self.call("GET", f"{_V3}/traces/batchGet", params={"trace_ids": [*trace_ids]})
        found = {}
        for row in _rows(told, "traces"):
            info = row.get("trace_info")
            if isinstance(info, Mapping):
                found[str(info.get("trace_id"))] = (info, _rows(row, "spans"))
        return found

    def partly(self, trace_id: str) -> list[Row]:
        """The spans that came of a trace which is not whole. Raises Refused."""
        asked = {"trace_id": trace_id, "allow_partial": "true"}
        try:
            told = self.call("GET", f"{_V3}/traces/get", params=asked)
        except Refused as refused:
            if refused.status == 404:
                return []
            raise
        return _rows(told.get("trace") if isinstance(told, Mapping) else None, "spans")

    # --- assessments --------------------------------------------------------------------------------------------------

    def create(self, trace_id: str, assessment: Row) -> Row:
        """Put a new assessment on a trace, asked for once: a second time may make a second one. As it is kept.

        Raises Refused, with 404 where there is no such trace.
        """
        path = f"{_V3}/traces/{trace_id}/assessments"
        return _one(self.call("POST", path, json={"assessment": assessment}, patience=0.0))

    def change(self, trace_id: str, assessment_id: str, assessment: Row, fields: Sequence[str]) -> Row:
        """Change these fields of an assessment; metadata that is not named stays. Raises Refused."""
        asked = {"assessment": assessment, "update_mask": ",".join(fields)}
        told = self.call("PATCH", f"{_V3}/traces/{trace_id}/assessments/{assessment_id}", json=asked)
        return _one(told)


def _rows(told: object, name: str) -> list[Row]:
    listed = told.get(name) if isinstance(told, Mapping) else None
    return [row for row in listed or () if isinstance(row, Mapping)]


def _one(told: object) -> Row:
    row = told.get("assessment") if isinstance(told, Mapping) else None
    return row if isinstance(row, Mapping) else {}
