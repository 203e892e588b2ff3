"""The stand-in for Braintrust takes what the real SDK sends, and refuses what Braintrust is known to refuse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from standins.braintrust import Standin

KEY = {"Authorization": "Bearer sk-test"}
Ask = Callable[..., httpx2.Response]


@pytest.fixture
def stand() -> Iterator[Standin]:
    """It."""
    with closing(Standin(orgs=("acme", "other"))) as made:
        yield made


@pytest.fixture
def ask(stand: Standin) -> Iterator[Ask]:
    """A line to it."""
    with httpx2.Client(base_url=stand.url, headers=KEY) as client:

        def asking(path: str, body: Any = None, **more: Any) -> httpx2.Response:
            return client.request("GET" if body is None else "POST", path, **{"json": body, **more})

        yield asking


@pytest.fixture
def logs(stand: Standin) -> str:
    """The id of a project."""
    return str(stand.store.project("rag")["id"])


def query(logs: str, **told: Any) -> dict[str, Any]:
    """The body of a query."""
    source = {"op": "function", "name": {"op": "ident", "name": ["project_logs"]}}
    return {"query": {"from": {**source, "args": [{"op": "literal", "value": logs}]}, **told}, "fmt": "json"}


ROOTS = {"op": "isnotnull", "expr": {"op": "ident", "name": ["id"]}}


def test_a_key_may_be_of_several_organisations(stand: Standin, ask: Ask) -> None:
    """A header chooses; the projects of another one are not told."""
    assert [org["name"] for org in ask("/api/apikey/login", {}).json()["org_info"]] == ["acme", "other"]
    ask("/v1/project", {"name": "theirs"}, headers={"x-bt-org-name": "other"})
    listed = [ask("/v1/project", params={"org_name": org}).json()["objects"] for org in ("acme", "other")]
    assert [[row["name"] for row in rows] for rows in listed] == [[], ["theirs"]]
    assert ask("/v1/project", headers={"x-bt-org-name": "none"}).status_code == 403
    assert ask("/v1/project", headers={"Authorization": "Bearer x"}).status_code == 401


def test_a_batch_with_a_poison_row_is_refused_whole(ask: Ask, stand: Standin, logs: str) -> None:
    """braintrust-sdk-javascript#1357."""
    good, bad = {"id": "a", "scores": {"x": 1}}, {"id": "b", "metrics": {"is_byok": True}}
    told = ask(f"/v1/project_logs/{logs}/insert", {"events": [good, bad]})
    assert told.status_code == 400
    assert json.loads(told.json()["Message"])["errors"][0]["path"] == ["metrics", "is_byok"]
    assert ask(f"/v1/project_logs/{logs}/insert", {"events": [{"id": "c", "scores": {"x": 5}}]}).status_code == 400
    assert ask(
        f"/v1/project_logs/{logs}/insert", "", json=None, content=b'{"events": [{"scores": {"x": NaN}}]}'
    ).is_error
    assert stand.store.rows(("project_logs", logs)) == []


def test_a_merge_keeps_what_it_does_not_name_and_makes_ghosts(ask: Ask, stand: Standin, logs: str) -> None:
    """A row's place among all stays, and its transaction does not."""
    first = {"id": "a", "span_id": "s", "root_span_id": "t", "metadata": {"x": 1, "y": {"z": 1}}, "tags": ["p"]}
    ask(f"/v1/project_logs/{logs}/insert", {"events": [first]})
    (before,) = stand.store.rows(("project_logs", logs))
    more = {"id": "a", "span_id": "other", "metadata": {"y": {"q": 2}}, "tags": ["n"], "_is_merge": True}
    ask(f"/v1/project_logs/{logs}/insert", {"events": [more, {"id": "b", "_is_merge": True}]})
    after, ghost = stand.store.rows(("project_logs", logs))
    assert after["metadata"] == {"x": 1, "y": {"z": 1, "q": 2}}
    assert (after["tags"], after["span_id"], after["is_root"]) == (["p", "n"], "s", True)
    assert after["_pagination_key"] == before["_pagination_key"]
    assert int(after["_xact_id"]) > int(before["_xact_id"])
    assert (ghost["_ghost"], ghost["root_span_id"]) == (True, "b")


def test_queries_are_cut_slow_blocked_or_counted_as_told(ask: Ask, stand: Standin, logs: str) -> None:
    """Each of the switches."""
    stand.store.write([{"id": str(n), "project_id": logs, "log_id": "g", "input": "x" * 100} for n in range(9)])
    store = stand.store
    assert len(ask("/btql", query(logs, limit=5)).json()["data"]) == 5
    store.row_cap = 2
    assert len(ask("/btql", query(logs, limit=5)).json()["data"]) == 2
    store.row_cap, store.page_rows = None, 4
    assert ask("/btql", query(logs, limit=5)).status_code == 504
    store.page_rows, store.page_bytes = None, 1000
    assert ask("/btql", query(logs, limit=5)).status_code == 413
    store.page_bytes, store.bounded = None, True
    assert "Query blocked" in ask("/btql", query(logs, limit=5)).text
    assert ask("/btql", query(logs, limit=5, filter=ROOTS)).status_code == 200
    store.queries = 1
    asked = [ask("/btql", query(logs, limit=5, filter=ROOTS)) for _ in range(2)]
    assert [told.status_code for told in asked] == [200, 429]
    assert 0 < int(asked[1].headers["Retry-After"]) <= 60


def test_faults_skip_what_goes_well_and_end(ask: Ask, stand: Standin, logs: str) -> None:
    """A row that was done though nobody heard of it is there."""
    stand.fail("/ping", 500, times=1, skip=1, headers={"Retry-After": "3"})
    assert [ask("/ping").status_code for _ in range(3)] == [200, 500, 200]
    stand.fail("/v1/project_logs", drop=True)
    with pytest.raises(httpx2.RemoteProtocolError):
        ask(f"/v1/project_logs/{logs}/insert", {"events": [{"id": "a"}]})
    stand.fail("/v1/project_logs", drop=True, done=False)
    with pytest.raises(httpx2.RemoteProtocolError):
        ask(f"/v1/project_logs/{logs}/insert", {"events": [{"id": "b"}]})
    assert [row["id"] for row in stand.store.rows(("project_logs", logs))] == ["a"]


def test_spans_of_opentelemetry_become_rows(ask: Ask, stand: Standin) -> None:
    """As far as that is documented."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="chat", trace_id=b"t" * 16, span_id=b"s" * 8)
    span.start_time_unix_nano, span.end_time_unix_nano = 1_500_000_000, 2_000_000_000
    for name, value in (("gen_ai.input.messages", '[{"role": "user"}]'), ("braintrust.output_json", '"yes"')):
        span.attributes.add(key=name).value.string_value = value
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 7
    span.events.add(name="gen_ai.evaluation.result")
    headers = {"x-bt-parent": "project_name:otel"}
    assert ask("/otel/v1/traces", "", json=None, content=request.SerializeToString(), headers=headers).is_success
    row, event = stand.store.rows(("project_logs", stand.store.project("otel")["id"]))
    assert (row["input"], row["output"]) == ([{"role": "user"}], "yes")
    assert row["metadata"] == {"gen_ai.operation.name": "chat"}
    assert row["metrics"] == {"start": 1.5, "end": 2.0, "prompt_tokens": 7}
    assert (row["root_span_id"], row["span_id"], row["is_root"]) == (b"t".hex() * 16, b"s".hex() * 8, True)
    assert event["span_attributes"]["type"] == "log"
