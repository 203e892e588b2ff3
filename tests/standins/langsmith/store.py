"""What the stand-in holds: projects, runs, feedback, data sets, queues, rules; the troubles it was told to make."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from .times import now

TENANT = "11111111-1111-4111-8111-111111111111"
FLAGS = {
    "zstd_compression_enabled": True,
    "dataset_examples_multipart_enabled": True,
    "ch_query_enabled": True,
    "sdb_query_enabled": True,
}
Row = dict[str, Any]


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str) -> None:
        self.status, self.detail = status, detail


class Store:
    """All of it, in memory, and the switches a test turns.

    `flags` are the server's instance flags, `multipart` whether it takes batches in parts, `visible_after` the seconds
    between the arrival of a run and its being found, `stats_after` those between feedback and its being counted.
    `inline` is the most bytes of inputs or outputs that v1 tells in the row (None: all), `strict` refuses feedback on
    runs that are not there even if it names its project, `same_id` says what a second POST of an id does.
    """

    def __init__(
        self,
        *,
        flags: Mapping[str, bool] | None = None,
        version: str = "0.18.5",
        multipart: bool = True,
        visible_after: float = 0.0,
        max_limit: int = 100,
        stats_after: float = 0.0,
        inline: int | None = None,
        strict: bool = False,
        same_id: str = "replace",
        clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self.lock = threading.RLock()
        self.sessions: dict[str, Row] = {}
        self.runs: dict[str, Row] = {}
        self.feedback: dict[str, Row] = {}
        self.datasets: dict[str, Row] = {}
        self.examples: dict[str, Row] = {}
        self.queues: dict[str, Row] = {}
        self.items: dict[str, Row] = {}
        self.fconfigs: dict[str, Row] = {}
        self.tokens: dict[str, Row] = {}
        self.rules: dict[str, Row] = {}
        self.attachments: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.log: list[Row] = []
        self.faults: list[Row] = []
        self.ingest_errors: list[str] = []
        self.version, self.multipart = version, multipart
        self.flags = {**FLAGS, **(flags or {})}
        self.visible_after, self.stats_after = visible_after, stats_after
        self.max_limit, self.inline, self.strict, self.same_id = max_limit, inline, strict, same_id
        self.clock = clock

    def session_by_name(self, name: str) -> Row:
        """The project of a name, made where there is none."""
        for session in self.sessions.values():
            if session["name"] == name:
                return session
        ident = str(uuid.uuid4())
        self.sessions[ident] = {
            "id": ident,
            "name": name,
            "tenant_id": TENANT,
            "start_time": now(),
            "end_time": None,
            "extra": {},
            "reference_dataset_id": None,
            "description": None,
        }
        return self.sessions[ident]

    def upsert_run(self, op: str, body: Mapping[str, Any]) -> Row:
        """Take what is said of a run; posts and patches may come in any order."""
        ident = str(body["id"])
        run = self.runs.setdefault(ident, {"id": ident, "_seen": self.clock()})
        empty = (None, {}, []) if op == "post" else (None,)
        run.update({name: value for name, value in body.items() if value not in empty or name not in run})
        if not run.get("session_id"):
            run["session_id"] = self.session_by_name(run.get("session_name") or "default")["id"]
        run["trace_id"] = str(run.get("trace_id") or ident)
        run["status"] = "error" if run.get("error") else "success" if run.get("end_time") else "pending"
        run["app_path"] = f"/o/{TENANT}/projects/p/{run['session_id']}/r/{ident}?trace_id={run['trace_id']}"
        above = [part.split("Z", 1)[1] for part in (run.get("dotted_order") or "").split(".") if "Z" in part]
        run["parent_run_ids"] = above[:-1]
        return run

    def upsert_feedback(self, body: Mapping[str, Any]) -> Row:
        """Take feedback; what it says of its run is filled in from the run."""
        told = dict(body)
        old = self.feedback.get(str(told["id"]))
        told["created_at"] = old["created_at"] if old else told.get("created_at") or self.clock().isoformat()
        told["modified_at"] = self.clock().isoformat()
        run = self.runs.get(str(told.get("run_id")))
        for name in ("session_id", "trace_id", "start_time") if run else ():
            told[name] = told.get(name) or (run or {}).get(name)
        if told.get("feedback_config") and told["key"] not in self.fconfigs:
            self.configure({"feedback_key": told["key"], "feedback_config": told["feedback_config"]})
        for name in ("run_id", "trace_id", "session_id", "score", "value", "comment", "correction"):
            told.setdefault(name, None)
        self.feedback[str(told["id"])] = told
        return told

    def configure(self, body: Mapping[str, Any]) -> Row:
        """Keep how a feedback key is to be shown."""
        made = {"id": str(uuid.uuid4()), "tenant_id": TENANT, "modified_at": now(), "is_lower_score_better": False}
        self.fconfigs[body["feedback_key"]] = {**made, **body}
        return self.fconfigs[body["feedback_key"]]

    def feedback_by_run(self) -> Mapping[str, list[Row]]:
        """The feedback of each run."""
        found: dict[str, list[Row]] = defaultdict(list)
        for told in self.feedback.values():
            found[str(told["run_id"])].append(told)
        return found

    def stats(self, run_id: str, feedback: list[Row] | None = None) -> Row:
        """What was said of a run, summed up by key."""
        edge = (self.clock() - dt.timedelta(seconds=self.stats_after)).isoformat()
        by_key: dict[str, list[Row]] = {}
        for told in self.feedback_by_run()[run_id] if feedback is None else feedback:
            if not self.stats_after or told["created_at"] <= edge:
                by_key.setdefault(told["key"], []).append(told)
        return {key: _summed(told) for key, told in by_key.items()}

    def visible(self) -> list[Row]:
        """The runs that can be found by now."""
        edge = self.clock() - dt.timedelta(seconds=self.visible_after)
        return [run for run in self.runs.values() if run["_seen"] <= edge]


def _summed(told: list[Row]) -> Row:
    scores = [float(said["score"]) for said in told if said.get("score") is not None]
    values: dict[str, int] = {}
    for said in told:
        if said.get("value") is not None:
            values[str(said["value"])] = values.get(str(said["value"]), 0) + 1
    return {
        "n": len(told),
        "avg": sum(scores) / len(scores) if scores else None,
        "min": min(scores, default=None),
        "max": max(scores, default=None),
        "values": values,
        "comments": [said["comment"] for said in told if said.get("comment")],
        "sources": [(said.get("feedback_source") or {}).get("type") for said in told],
        "errors": sum(bool((said.get("extra") or {}).get("error") or said.get("error")) for said in told),
    }
