"""Files and batches: OpenAI's, asked by file, and Anthropic's Message Batches; both done after a number of polls."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson

from . import anthropic_shapes, openai_shapes
from .asked import Body

if TYPE_CHECKING:
    from .server import Stand

Answered = tuple[int, Body | bytes]
Line = tuple[str, int, Body]
"""Of a request in a batch: its own id, the status and the body; status 0 was never asked."""

_ENDS = {"completed", "expired", "failed", "cancelled"}
_DUE = timedelta(hours=24)


@dataclass
class Batch:
    """One batch: what it asks, how often it was looked at, and what came of it."""

    id: str
    asks: list[tuple[str, str, Body]]
    """Of each request: its own id, where it goes, and its body."""

    source: str = ""
    endpoint: str = ""
    metadata: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    made: float = field(default_factory=time.time)
    polls: int = 0
    end: str | None = None
    """How it ended: completed, expired, failed or cancelled."""

    lines: list[Line] = field(default_factory=list)
    fault: str | None = None
    output: str | None = None
    errors: str | None = None
    cancelling: bool = False


class Batches:
    """The shelf of files and batches. Under the script's `batch`: `polls` until the `end`, the share that is `done` by
    then where it expires or is cancelled, the share of result lines that is `lost`, a seed to `shuffle` them by, and
    `refuse`, a status that every creation gets.
    """  # noqa: D205 - one sentence would not hold it

    def __init__(self, stand: Stand) -> None:
        self._stand = stand
        self._numbers = count(1)
        self._files: dict[str, tuple[Body, bytes]] = {}
        self._batches: dict[str, Batch] = {}

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answered | None:
        """What a request to files or batches gets, or None where it is to neither."""
        steps = path.strip("/").split("/")
        if "batches" in steps:
            ours = steps[steps.index("batches") + 1 :]
            if "messages" in steps:
                return self._message_batches(method, ours, headers, body)
            return self._file_batches(method, ours, body)
        if "files" in steps:
            return self._filed(method, steps[steps.index("files") + 1 :], headers, body)
        return None

    # --- OpenAI -----------------------------------------------------------------------------------------------------

    def _filed(self, method: str, ours: list[str], headers: Mapping[str, str], body: bytes) -> Answered:
        match method, ours:
            case "POST", []:
                told = _form(headers.get("content-type", ""), body)
                name, content = told["file"]
                return 200, self._keep(content, name or "upload.jsonl", told["purpose"][1].decode())
            case "GET", []:
                return 200, {"object": "list", "data": [told for told, _ in self._files.values()], "has_more": False}
            case "GET", [ident] if ident in self._files:
                return 200, self._files[ident][0]
            case "GET", [ident, "content"] if ident in self._files:
                return 200, self._files[ident][1]
            case "DELETE", [ident] if ident in self._files:
                del self._files[ident]
                return 200, {"id": ident, "object": "file", "deleted": True}
        return 404, openai_shapes.error(404, {"message": "No such File object.", "code": None})

    def _keep(self, content: bytes, name: str, purpose: str) -> Body:
        ident = f"file-{next(self._numbers):012d}"
        told: Body = {"id": ident, "object": "file", "bytes": len(content), "created_at": int(time.time()),
                      "filename": name, "purpose": purpose, "status": "processed"}  # fmt: skip
        self._files[ident] = (told, content)
        return told

    def _file_batches(self, method: str, ours: list[str], body: bytes) -> Answered:
        match method, ours:
            case "POST", []:
                refused = self._stand.script.batch.get("refuse")
                if refused:
                    return refused, openai_shapes.error(refused, {})
                return self._create(orjson.loads(body))
            case "GET", []:
                return 200, {
                    "object": "list",
                    "data": [_told(one) for one in self._all(anthropic=False)],
                    "has_more": False,
                }
            case "GET", [ident] if ident in self._batches:
                return 200, _told(self._looked_at(self._batches[ident]))
            case "POST", [ident, "cancel"] if ident in self._batches:
                self._batches[ident].cancelling = True
                return 200, _told(self._batches[ident])
        return 404, openai_shapes.error(404, {"message": "No batch found with that id.", "code": None})

    def _all(self, *, anthropic: bool) -> list[Batch]:
        newest = reversed(self._batches.values())
        return [one for one in newest if one.id.startswith("msgbatch_") is anthropic]

    def _create(self, told: Body) -> Answered:
        source = told["input_file_id"]
        if source not in self._files:
            return 400, openai_shapes.error(400, {"message": f"Invalid input_file_id: {source}"})
        batch = Batch(f"batch_{next(self._numbers):012d}", [], source, told["endpoint"], told.get("metadata"))
        for at, line in enumerate(self._files[source][1].splitlines(), 1):
            try:
                ask = orjson.loads(line)
                batch.asks.append((ask["custom_id"], ask["url"], ask["body"]))
            except (ValueError, KeyError, TypeError):
                batch.fault = f"This line is not parseable as valid JSON or lacks a field (line {at})."
        ids = [ident for ident, _, _ in batch.asks]
        if len(set(ids)) < len(ids):
            batch.fault = "The custom_id of a request in the file is used more than once."
        if any(url != batch.endpoint for _, url, _ in batch.asks):
            batch.fault = "The URL of a request does not match the batch's endpoint."
        self._batches[batch.id] = batch
        return 200, _told(batch)

    # --- Anthropic --------------------------------------------------------------------------------------------------

    def _message_batches(  # noqa: PLR0911 - one return a thing that can be asked
        self, method: str, ours: list[str], headers: Mapping[str, str], body: bytes
    ) -> Answered:
        host = headers.get("host", "")
        match method, ours:
            case "POST", []:
                refused = self._stand.script.batch.get("refuse")
                if refused:
                    return refused, anthropic_shapes.error(refused, {})
                asks = [(one["custom_id"], "/v1/messages", one["params"]) for one in orjson.loads(body)["requests"]]
                if len({ident for ident, _, _ in asks}) < len(asks) or not asks:
                    return 400, anthropic_shapes.error(400, {"message": "requests: custom_id must be unique"})
                batch = Batch(f"msgbatch_{next(self._numbers):012d}", asks, headers=headers)
                self._batches[batch.id] = batch
                return 200, _told_messages(batch, host)
            case "GET", []:
                rows = [_told_messages(one, host) for one in self._all(anthropic=True)]
                return 200, {"data": rows, "has_more": False, "first_id": None, "last_id": None}
            case "GET", [ident] if ident in self._batches:
                return 200, _told_messages(self._looked_at(self._batches[ident]), host)
            case "GET", [ident, "results"] if ident in self._batches and self._batches[ident].end:
                return 200, _lines(_result(line, self._batches[ident]) for line in self._shown(self._batches[ident]))
            case "POST", [ident, "cancel"] if ident in self._batches:
                self._batches[ident].cancelling = True
                return 200, _told_messages(self._batches[ident], host)
        return 404, anthropic_shapes.error(404, {"message": "No such batch."})

    # --- both -------------------------------------------------------------------------------------------------------

    def _looked_at(self, batch: Batch) -> Batch:
        """A poll; the one that was waited for ends it."""
        how = self._stand.script.batch
        batch.polls += 1
        if batch.end is not None or (batch.polls <= how.get("polls", 1) and not batch.fault):
            return batch
        end = "cancelled" if batch.cancelling else how.get("end", "completed")
        assert end in _ENDS, end
        batch.end = "failed" if batch.fault else end
        if batch.end == "failed":
            batch.fault = batch.fault or "The batch failed to validate."
            return batch
        done = len(batch.asks)
        if batch.end != "completed":
            done = round(done * how.get("done", 0.5))
        batch.lines = [self._asked(batch, *ask) for ask in batch.asks[:done]]
        batch.lines += [(ident, 0, {}) for ident, _, _ in batch.asks[done:]]
        if not batch.id.startswith("msgbatch_"):
            shown = self._shown(batch)
            good = [_row(line, batch) for line in shown if line[1] == 200]
            bad = [_row(line, batch) for line in shown if line[1] != 200]
            batch.output = self._keep(_lines(good), "output.jsonl", "batch_output")["id"] if good else None
            batch.errors = self._keep(_lines(bad), "errors.jsonl", "batch_output")["id"] if bad else None
        return batch

    def _asked(self, batch: Batch, ident: str, url: str, body: Body) -> Line:
        """One request of a batch, by the same script as any other."""
        from .server import read

        asked = read(url, body)
        if asked is None:
            return ident, 404, openai_shapes.error(404, {})
        asked.batched, asked.path, asked.headers = True, url, batch.headers
        act = self._stand.decide(asked)
        status, told, _ = self._stand.answered(asked, act)
        self._stand.log.statuses[f"batch {status}"] += 1
        return ident, status, told

    def _shown(self, batch: Batch) -> list[Line]:
        """The lines in the order they are given out: never that of the requests; some may be lost."""
        how = self._stand.script.batch
        luck = random.Random(how.get("shuffle", 0))
        lines = [line for line in batch.lines if luck.random() >= how.get("lost", 0.0)]
        luck.shuffle(lines)
        return lines


def _form(kind: str, body: bytes) -> dict[str, tuple[str | None, bytes]]:
    """A form's fields: file name and content by name."""
    boundary = kind.partition("boundary=")[2].strip('"').encode()
    fields: dict[str, tuple[str | None, bytes]] = {}
    for part in body.split(b"--" + boundary):
        head, found, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'(?<![a-z])name="([^"]*)"', head)
        if found and name:
            file = re.search(rb'filename="([^"]*)"', head)
            fields[name[1].decode()] = (file[1].decode() if file else None, content.removesuffix(b"\r\n"))
    return fields


def _lines(rows: Iterable[Body]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def _row(line: Line, batch: Batch) -> Body:
    """A line of an output or error file."""
    ident, status, told = line
    row: Body = {"id": f"batch_req_{ident}", "custom_id": ident, "response": None, "error": None}
    if status:
        row["response"] = {"status_code": status, "request_id": f"req_{ident}", "body": told}
    else:
        what = (
            "could not be executed before the completion window expired" if batch.end == "expired" else "was cancelled"
        )
        row["error"] = {"code": f"batch_{batch.end}", "message": f"This request {what}."}
    return row


def _result(line: Line, batch: Batch) -> Body:
    """A line of Anthropic's results."""
    ident, status, told = line
    if status == 200:
        result: Body = {"type": "succeeded", "message": told}
    elif status:
        result = {"type": "errored", "error": told}
    else:
        result = {"type": "canceled" if batch.end == "cancelled" else "expired"}
    return {"custom_id": ident, "result": result}


def _told(batch: Batch) -> Body:
    """A batch as OpenAI tells of it."""
    made = int(batch.made)
    status = batch.end or ("cancelling" if batch.cancelling else "in_progress" if batch.polls else "validating")
    done = sum(status == 200 for _, status, _ in batch.lines)
    told: Body = {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "input_file_id": batch.source,
        "completion_window": "24h",
        "status": status,
        "output_file_id": batch.output,
        "error_file_id": batch.errors,
        "created_at": made,
        "in_progress_at": made if batch.polls else None,
        "expires_at": made + int(_DUE.total_seconds()),
        "metadata": batch.metadata,
        "request_counts": {"total": len(batch.asks), "completed": done, "failed": len(batch.lines) - done},
        "errors": None,
    }
    if batch.end == "failed":
        data = [{"code": "invalid_request", "line": None, "message": batch.fault, "param": None}]
        told["errors"] = {"object": "list", "data": data}
    if batch.end:
        told[f"{batch.end}_at"] = int(time.time())
    return told


def _told_messages(batch: Batch, host: str) -> Body:
    """A batch as Anthropic tells of it: whatever it ends with, it is ended."""
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    for line in batch.lines:
        counts[_result(line, batch)["result"]["type"]] += 1
    if not batch.end:
        counts["processing"] = len(batch.asks)
    made = datetime.fromtimestamp(batch.made, UTC)
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": "ended" if batch.end else "canceling" if batch.cancelling else "in_progress",
        "request_counts": counts,
        "created_at": made.isoformat(),
        "expires_at": (made + _DUE).isoformat(),
        "ended_at": datetime.now(UTC).isoformat() if batch.end else None,
        "archived_at": None,
        "cancel_initiated_at": None,
        "results_url": f"http://{host}/v1/messages/batches/{batch.id}/results" if batch.end else None,
    }
