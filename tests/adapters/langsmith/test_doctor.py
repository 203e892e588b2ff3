"""The doctor says in plain words what is wrong with a key, a region, a workspace or a project."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groundtrace.adapters.langsmith.doctor import checks
from groundtrace.model import Check
from pushing import PROJECT, Stand, standing


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in."""
    with standing(monkeypatch) as made:
        yield made


def _heard(stand: Stand, project: str = PROJECT, **told: bool) -> dict[str, Check]:
    return {check.name.removeprefix("LangSmith "): check for check in checks(stand.api(), project, **told)}


def test_all_is_well(stand: Stand) -> None:
    """And it says where, who, what and at what cost."""
    told = _heard(stand)
    assert all(check.well for check in told.values())
    assert list(told) == ["address", "key", "workspace", "project", "query API", "rates", "retention"]
    assert told["workspace"].detail.startswith("standin ")
    assert told["project"].detail == f"{PROJECT} ({stand.project})"
    assert told["query API"].detail == "v2, server 0.18.5"
    assert "5000 writes in 60 s" in told["rates"].detail
    assert told["retention"].detail.startswith("scores leave a trace's retention as it is")
    assert "400" in _heard(stand, extend_retention=True)["retention"].detail
    assert not [row for row in stand.store.log if row["method"] != "GET"]


@pytest.mark.parametrize(
    ("status", "body", "name", "said", "do"),
    [
        (401, {"detail": "Invalid token"}, "key", "does not know it", "LANGSMITH_API_KEY"),
        (403, {"error": "Forbidden"}, "key", "another region than self-hosted", "https://eu.api.smith.langchain.com"),
        (
            403,
            {"error": "org_scoped_key_requires_workspace"},
            "workspace",
            "a whole organisation",
            "LANGSMITH_WORKSPACE_ID",
        ),
    ],
)
def test_a_refused_key_is_explained(  # noqa: PLR0917 - a table
    stand: Stand, status: int, body: dict[str, str], name: str, said: str, do: str
) -> None:
    """With what to try."""
    stand.store.faults.append({"method": "GET", "path": "/sessions", "status": status, "body": body, "times": 9})
    check = _heard(stand)[name]
    assert not check.well
    assert said in check.detail
    assert do in check.remedy


def test_a_project_that_is_not_there_has_a_neighbour(stand: Stand) -> None:
    """A letter is soon wrong."""
    check = _heard(stand, "feries")["project"]
    assert not check.well
    assert "did you mean 'ferries'?" in check.remedy


def test_a_server_that_says_nothing_of_itself_is_no_trouble(stand: Stand) -> None:
    """`/info` is down at times."""
    stand.store.faults.append({"method": "GET", "path": "/info", "status": 404, "times": 99})
    assert _heard(stand)["query API"].detail == "the server does not say; v2 is asked, then v1"


def test_sampling_of_the_application_is_said_to_be_harmless(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """It drops the application's traces, and nothing of ours."""
    monkeypatch.setenv("LANGSMITH_TRACING_SAMPLING_RATE", "0.1")
    check = _heard(stand)["sampling"]
    assert check.well
    assert "harmless" in check.detail


def test_nobody_there(stand: Stand) -> None:
    """An address where nothing listens."""
    stand.server.shutdown()
    stand.server.server_close()
    told = {check.name: check for check in checks(stand.api(), PROJECT, patience=0.05)}
    assert not told["LangSmith key"].well
    assert "LANGSMITH_ENDPOINT" in told["LangSmith key"].remedy
