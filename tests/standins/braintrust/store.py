"""What the stand-in holds: organisations, projects, experiments, rows; the troubles it was told to make."""

from __future__ import annotations

import copy
import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .faults import Fault
from .merging import merged, without
from .times import written

ORG = "test-org"
Row = dict[str, Any]
Key = tuple[str, str]
"""A kind of object, and its id."""

_INTERNAL = frozenset(
    {
        "_is_merge",
        "_merge_paths",
        "_array_delete",
        "_audit_source",
        "_audit_metadata",
        "_object_delete",
        "_skip_async_scoring",
        "_async_scoring_control",
    }
)
_KEPT = frozenset({"id", "created", "span_id", "root_span_id", "span_parents", "_parent_id"})
"""What a merge never changes."""

_OWN = frozenset({"_visible_at", "_ghost"})
"""What the stand-in notes on a row."""

_EMPTY = (
    *("input", "output", "expected", "error", "scores", "metadata", "tags", "metrics", "context", "span_attributes"),
    *("origin", "comments", "audit_data", "_async_scoring_state", "facets", "classifications"),
)
_XACT_TOP = 0x0DE1 << 48


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.detail, self.headers = status, detail, headers or {}
        super().__init__(detail)


class Store:
    """All of it, in memory, and the switches a test turns: the README says what each is."""

    def __init__(
        self,
        *,
        api_keys: Iterable[str] = ("sk-test",),
        orgs: Sequence[str] = (ORG,),
        max_payload: int = 20 * 1024 * 1024,
        visibility_delay: float = 0.0,
        default_limit: int = 1000,
        row_cap: int | None = None,
        page_rows: int | None = None,
        page_bytes: int | None = None,
        queries: int | None = None,
        bounded: bool = False,
        latency: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.lock = threading.RLock()
        self.url = ""
        self.api_keys = set(api_keys)
        self.orgs = {name: str(uuid.uuid4()) for name in orgs}
        self.projects: dict[str, Row] = {}
        self.experiments: dict[str, Row] = {}
        self.datasets: dict[str, Row] = {}
        self.scores: dict[str, Row] = {}
        self.users: dict[str, Row] = {}
        self.objects: dict[Key, dict[str, Row]] = {}
        self.audit: dict[Key, list[Row]] = {}
        self.functions: list[Row] = []
        self.blobs: dict[str, bytes] = {}
        self.attachment_status: dict[str, Row] = {}
        self.requests: list[Row] = []
        self.otel: list[Row] = []
        self.faults: list[Fault] = []
        self.asked: deque[float] = deque()
        self.max_payload, self.visibility_delay = max_payload, visibility_delay
        self.default_limit, self.row_cap = default_limit, row_cap
        self.page_rows, self.page_bytes = page_rows, page_bytes
        self.queries, self.bounded, self.latency = queries, bounded, latency
        self.clock = clock
        self._xact = 0

    # --- objects ------------------------------------------------------------------------------------------------------

    def named(self, table: Mapping[str, Row], name: str, **same: Any) -> Row | None:
        """The object of a name."""
        with self.lock:
            fit = (one for one in table.values() if one["name"] == name)
            return next((one for one in fit if all(one.get(key) == value for key, value in same.items())), None)

    by_name = named

    def project(self, name: str, org: str | None = None) -> Row:
        """The project of a name, made where there is none."""
        org_id = self.orgs.get(org or "") or next(iter(self.orgs.values()))
        with self.lock:
            made = self.named(self.projects, name, org_id=org_id)
            if made is None:
                made = self._object(self.projects, name, org_id=org_id, deleted_at=None, user_id=None, settings=None)
            return made

    def experiment(self, project_id: str, name: str | None = None, *, new: bool = False, **more: Any) -> Row:
        """The experiment of a name, made where there is none, or where it has to be new."""
        with self.lock:
            name = name or f"exp-{len(self.experiments) + 1}"
            made = self.named(self.experiments, name, project_id=project_id)
            if made is not None and new:
                name, made = f"{name}-{uuid.uuid4().hex[:8]}", None
            return made or self._object(self.experiments, name, project_id=project_id, public=False, **more)

    def dataset(self, project_id: str, name: str) -> Row:
        """The data set of a name, made where there is none."""
        with self.lock:
            made = self.named(self.datasets, name, project_id=project_id)
            return made or self._object(self.datasets, name, project_id=project_id)

    def user(self, email: str, **more: Any) -> Row:
        """A new user of the organisation."""
        with self.lock:
            ident = str(uuid.uuid4())
            self.users[ident] = {"id": ident, "email": email, "given_name": None, "family_name": None, **more}
            return self.users[ident]

    def _object(self, table: dict[str, Row], name: str, **more: Any) -> Row:
        ident = str(uuid.uuid4())
        table[ident] = {"id": ident, "name": name, "created": self.now(), **more}
        return table[ident]

    def now(self) -> str:
        """This moment, as it is written."""
        return written(self.clock())

    # --- rows ---------------------------------------------------------------------------------------------------------

    def write(self, rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], str]:
        """Take rows, all or none of them, in one transaction: their ids, and its id."""
        with self.lock:
            keys = [_key_of(row) for row in rows]
            for row in rows:
                _checked(row)
            self._xact = max(self._xact + 1, _XACT_TOP | int(self.clock()) << 16)
            xact = str(self._xact)
            each = enumerate(zip(keys, rows, strict=True))
            return [self._take(key, copy.deepcopy(dict(row)), xact, n) for n, (key, row) in each], xact

    def _take(self, key: Key, raw: Row, xact: str, n: int) -> str:
        table, log = self.objects.setdefault(key, {}), self.audit.setdefault(key, [])
        ident = raw["id"] = str(raw.get("id") or uuid.uuid4())
        said = {"_xact_id": xact, "source": raw.get("_audit_source"), "metadata": raw.get("_audit_metadata")}
        if "comment" in raw:  # never a row of its own
            self._comment(table, log, raw, said)
            return ident
        if raw.get("_object_delete"):
            table.pop(ident, None)
            return ident
        merge = bool(raw.get("_is_merge"))
        body = {name: value for name, value in raw.items() if name not in _INTERNAL}
        old = table.get(ident)
        if merge and old is not None:
            paths = [tuple(path) for path in raw.get("_merge_paths") or ()]
            row = merged(old, {name: value for name, value in body.items() if name not in _KEPT}, paths)
            for told in raw.get("_array_delete") or ():
                without(row, told["path"], told["delete"])
        else:  # "if the existing row is not found, inserted as is": a ghost
            row = self._new(body, old, merge=merge)
            row["_pagination_key"] = old["_pagination_key"] if old else f"p{int(xact):020d}{n:06d}"
        row["_xact_id"] = xact
        row["is_root"] = not row.get("span_parents")
        table[ident] = row
        if said["source"]:
            log.append({"id": ident, **said, "audit_data": {"action": "merge" if merge else "upsert"}})
        return ident

    def _new(self, body: Row, old: Row | None, *, merge: bool) -> Row:
        row: Row = {**dict.fromkeys(_EMPTY), **body}
        row.setdefault("created", self.now())
        row.setdefault("span_id", row["id"])
        row.setdefault("root_span_id", row["span_id"])
        row.setdefault("span_parents", None)
        row["_ghost"] = merge
        row["_visible_at"] = old["_visible_at"] if old else self.clock() + self.visibility_delay
        return row

    def _comment(self, table: dict[str, Row], log: list[Row], raw: Row, said: Row) -> None:
        entry = {"id": raw["id"], "created": raw.get("created") or self.now(), "origin": raw.get("origin"), **said}
        entry["comment"] = raw["comment"]
        log[:] = [*(one for one in log if one.get("id") != raw["id"] or "comment" not in one), entry]
        target = table.get((raw.get("origin") or {}).get("id"))
        if target is not None:
            others = [one for one in target["comments"] or () if one["id"] != raw["id"]]
            target["comments"], target["_xact_id"] = [*others, entry], said["_xact_id"]

    def rows(self, key: Key) -> list[Row]:
        """Copies of the rows of an object that can be found by now, with what the stand-in noted on them."""
        with self.lock:
            return [copy.deepcopy(row) for row in self.found(key)]

    def found(self, key: Key) -> list[Row]:
        """Those rows themselves."""
        now = self.clock()
        return [row for row in self.objects.get(key, {}).values() if row["_visible_at"] <= now]


def public(row: Mapping[str, Any]) -> Row:
    """A row as the API tells it."""
    return {name: value for name, value in row.items() if name not in _OWN}


def _key_of(row: Mapping[str, Any]) -> Key:
    if row.get("experiment_id"):
        return ("experiment", str(row["experiment_id"]))
    if row.get("dataset_id"):
        return ("dataset", str(row["dataset_id"]))
    if row.get("log_id") == "g" and row.get("project_id"):
        return ("project_logs", str(row["project_id"]))
    raise Refusal(400, "row has no object id: need experiment_id | dataset_id | project_id+log_id='g'")


def _checked(row: Mapping[str, Any]) -> None:
    """Refuse a row whose scores or metrics are no numbers, as the real service was seen to."""
    scores, metrics = row.get("scores"), row.get("metrics")
    for name, told in (("scores", scores), ("metrics", metrics)):
        if told is not None and not isinstance(told, dict):
            raise _ill_typed([name], "object", told)
        for key, value in (told or {}).items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise _ill_typed([name, key], "number", value)
    for key, value in (scores or {}).items():
        if value is not None and not 0 <= value <= 1:
            raise Refusal(400, f"ValueError: scores.{key}: {value} outside [0,1]")


def _ill_typed(path: list[str], expected: str, value: object) -> Refusal:
    """The answer quoted in braintrust-sdk-javascript#1357."""
    kinds = {bool: "boolean", int: "number", float: "number", str: "string"}
    received = kinds.get(type(value), "object")
    error = {"code": "invalid_type", "expected": expected, "received": received, "path": path}
    error["message"] = f"Expected {expected}, received {received}"
    message = json.dumps({"error": "Invalid request", "errors": [error]})
    told = {"Code": "BadRequestError", "Message": message, "InternalTraceId": uuid.uuid4().hex}
    return Refusal(400, json.dumps({**told, "Path": "/logs3", "Service": "api"}))
