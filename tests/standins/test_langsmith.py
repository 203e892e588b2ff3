"""The stand-in for LangSmith refuses what LangSmith refuses."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.patience import Refused
from pulling import NOW, Stand, standing


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """It, with both query APIs."""
    with standing(monkeypatch) as made:
        yield made


@pytest.fixture
def api(stand: Stand) -> Api:
    """A line to it."""
    return Api(stand.url)


def query(stand: Stand, **told: Any) -> dict[str, Any]:
    """The body of a query of the second API, of the whole of November."""
    bounds = {"min_start_time": "2026-11-01T00:00:00Z", "max_start_time": "2026-11-30T00:00:00Z"}
    return {"project_ids": [stand.project], **bounds, **told}


def test_the_first_api_gives_a_hundred_at_most(stand: Stand, api: Api) -> None:
    """Issue 3455."""
    with pytest.raises(Refused, match="exceeds maximum") as caught:
        api.call("POST", "/runs/query", json={"session": [stand.project], "limit": 101})
    assert caught.value.status == 400


def test_the_second_api_looks_at_a_day_and_tells_ids_unless_it_is_asked(stand: Stand, api: Api) -> None:
    """Both silently."""
    stand.store.clock = lambda: NOW
    stand.rag(1)
    stand.rag(2, begun=NOW - dt.timedelta(days=2))
    told = api.call("POST", "/api/v2/runs/query", json={"project_ids": [stand.project], "is_root": True})
    assert told == {"items": [{"id": str(uuid.UUID(int=1))}], "next_cursor": None}
    told = api.call("POST", "/api/v2/runs/query", json=query(stand, is_root=True, selects=["STATUS", "RUN_TYPE"]))
    assert told["items"] == [{"status": "SUCCESS", "run_type": "CHAIN"}] * 2


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"page_size": 1001}, 422),
        ({"project_ids": []}, 422),
        ({"min_start_time": "2025-01-01T00:00:00Z"}, 400),
        ({"filter": 'search(name, "x")'}, 400),
        ({"filter": "neq(error, null)"}, 400),
        ({"min_feedback_modified_at": "2026-11-01T00:00:00Z"}, 400),
        ({"cursor": "bm8="}, 400),
    ],
)
def test_a_query_that_is_none_is_refused(stand: Stand, api: Api, told: dict[str, Any], status: int) -> None:
    """As LangSmith does."""
    with pytest.raises(Refused) as caught:
        api.call("POST", "/api/v2/runs/query", json=query(stand, **told))
    assert caught.value.status == status


def test_a_cursor_is_its_querys_own(stand: Stand, api: Api) -> None:
    """Another query's is refused."""
    for n in range(1, 4):
        stand.run(n)
    first = api.call("POST", "/api/v2/runs/query", json=query(stand, page_size=2))
    asked = query(stand, page_size=2, cursor=first["next_cursor"])
    assert len(api.call("POST", "/api/v2/runs/query", json=asked)["items"]) == 1
    with pytest.raises(Refused, match="another query"):
        api.call("POST", "/api/v2/runs/query", json={**asked, "is_root": True})


def test_runs_are_found_by_when_feedback_came(stand: Stand, api: Api) -> None:
    """The first moment counts, the last does not."""
    stand.store.clock = lambda: NOW
    stand.run(1)
    stand.complain(1)
    at, then = NOW.isoformat(), (NOW + dt.timedelta(seconds=1)).isoformat()
    condition = {"filter": "lte(feedback_score, 0)"}
    found = [
        len(api.call("POST", "/api/v2/runs/query", json=query(stand, **condition, **bounds))["items"])
        for bounds in (
            {"min_feedback_modified_at": at},
            {"min_feedback_modified_at": then},
            {"max_feedback_modified_at": at},
            {"max_feedback_modified_at": then},
        )
    ]
    assert found == [1, 0, 0, 1]


def test_rules_are_made_listed_and_taken_away(stand: Stand, api: Api) -> None:
    """By both ways of listing."""
    hook = {"url": "http://127.0.0.1:9/hook", "headers": {"x-secret": "s"}}
    body = {"display_name": "groundtrace", "session_id": stand.project, "sampling_rate": 1, "webhooks": [hook]}
    made = api.call("POST", "/runs/rules", json=body)
    assert [row["id"] for row in api.call("GET", "/runs/rules")] == [made["id"]]
    assert api.call("GET", "/api/v2/runs/rules")["items"][0]["webhooks"] == [hook]
    api.call("DELETE", f"/runs/rules/{made['id']}")
    assert api.call("GET", "/runs/rules") == []
    with pytest.raises(Refused, match="Rule not found"):
        api.call("DELETE", f"/runs/rules/{made['id']}")


def test_without_the_second_api_its_routes_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an older server of one's own."""
    with standing(monkeypatch, flags={"sdb_query_enabled": False}) as stand, pytest.raises(Refused) as caught:
        Api(stand.url).call("POST", "/api/v2/runs/query", json=query(stand))
    assert caught.value.status == 404
