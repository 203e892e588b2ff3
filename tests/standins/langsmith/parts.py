"""A batch in parts, as the SDK sends its runs and its feedback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .store import Refusal, Row, Store
from .times import ZONED, moment

Part = tuple[str, Mapping[str, str], bytes]


def split(raw: bytes, kind: str) -> Iterator[Part]:
    """Each part's name, headers and bytes."""
    boundary = re.search(r'boundary="?([^";]+)"?', kind)
    if not boundary:
        raise ValueError("missing boundary")
    for chunk in raw.split(b"--" + boundary.group(1).encode()):
        piece = chunk.removeprefix(b"\r\n")
        if not piece or piece.startswith(b"--"):
            continue
        head, _, data = piece.partition(b"\r\n\r\n")
        lines = (line.partition(":") for line in head.decode().split("\r\n"))
        headers = {name.strip().lower(): value.strip() for name, _, value in lines}
        named = re.search(r'name="([^"]*)"', headers.get("content-disposition", ""))
        sized = "content-length" in headers
        data = data[: int(headers["content-length"])] if sized else data.removesuffix(b"\r\n")
        yield named.group(1) if named else "", headers, data


def ingest(store: Store, parts: Iterable[Part]) -> None:
    """Take a batch: each run's own part and those of its fields, attachments, feedback."""
    runs: dict[tuple[str, str], Any] = {}
    fields: dict[tuple[str, str], Row] = {}
    feedback = []
    for name, headers, data in parts:
        what, ident, *field = name.split(".", 2)
        if what == "attachment":
            store.attachments[ident, field[0]] = (headers.get("content-type", "").split(";")[0], data)
        elif what == "feedback":
            feedback.append(json.loads(data))
        elif field:
            fields.setdefault((what, ident), {})[field[0]] = json.loads(data)
        else:
            runs[what, ident] = json.loads(data)
    if any(not body.get("trace_id") or not body.get("dotted_order") for body in runs.values()):
        raise Refusal(422, "trace_id and dotted_order are required")
    for key in {**runs, **fields}:
        store.upsert_run(key[0], {"id": key[1], **runs.get(key, {}), **fields.get(key, {})})
    for told in feedback:
        if moment(told.get("start_time")) and not ZONED.search(told["start_time"]):
            raise Refusal(422, "start_time must be RFC3339")
        store.upsert_feedback(told)
