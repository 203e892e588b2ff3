"""The doctor says in plain words what is wrong with a key, an organisation, an address or a project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from groundtrace.adapters.braintrust.api import Api
from groundtrace.adapters.braintrust.doctor import checks
from groundtrace.adapters.braintrust.names import name_of
from groundtrace.model import Check
from standins.braintrust import Standin


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    """A stand-in with a project, and the environment of somebody who has a key for it."""
    for name in ("API_URL", "ORG_NAME"):
        monkeypatch.delenv(f"BRAINTRUST_{name}", raising=False)
    server = Standin(orgs=("acme",))
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-test")
    monkeypatch.setenv("BRAINTRUST_APP_URL", server.url)
    server.store.project("ferries")
    yield server
    server.close()


def _heard(project: str | None = "ferries", url: str | None = None, **told: Any) -> dict[str, Check]:
    api = Api(url, queries=told.pop("queries", 6000), sleep=lambda _: None, **told)
    return {check.name.removeprefix("Braintrust "): check for check in checks(api, project, patience=0.05)}


def _score(stand: Standin, name: str, score_type: str = "slider") -> None:
    project = stand.store.project("ferries")["id"]
    ident = f"score-{name}"
    stand.store.scores[ident] = {"id": ident, "project_id": project, "name": name, "score_type": score_type}


def test_all_is_well(stand: Standin) -> None:
    """And it says where, who and what; nothing is written, and one query is asked."""
    told = _heard(queries=20)
    assert all(check.well for check in told.values())
    assert list(told) == [
        *("organisation", "address", "key", "project", "logs", "data plane", "queries", "scores", "review"),
    ]
    assert told["organisation"].detail == f"acme ({stand.org_id})"
    assert told["address"].detail == f"{stand.url} (self-hosted)"
    assert told["project"].detail == f"ferries ({stand.store.project('ferries')['id']})"
    assert told["logs"].detail == "can be read; nothing came in the last hour"
    assert told["data plane"].detail.startswith("version ")
    assert told["queries"].detail.startswith("20 a minute")
    assert told["review"].detail == "no column asks people for our scores yet; review=true makes them"
    writes = [row["path"] for row in stand.requests if row["method"] != "GET"]
    assert writes == ["/api/apikey/login", "/api/apikey/login", "/btql"]


def test_what_came_just_now_is_said(stand: Standin) -> None:
    """Whether anything arrives is the first thing to know."""
    project = stand.store.project("ferries")["id"]
    stand.store.write([{"project_id": project, "log_id": "g", "id": "a"}])
    assert _heard()["logs"].detail == "can be read; something came in the last hour"


def test_no_key_is_said_before_anything_is_asked(stand: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    """With where to make one."""
    monkeypatch.delenv("BRAINTRUST_API_KEY")
    (check,) = _heard().values()
    assert (check.well, check.detail) == (False, "BRAINTRUST_API_KEY is not set")
    assert not stand.requests


def test_a_key_the_app_does_not_know(stand: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is never shown."""
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-of-somebody-else")
    (check,) = _heard().values()
    assert not check.well
    assert "does not know the key" in check.detail
    assert "BRAINTRUST_API_KEY" in check.remedy
    assert "somebody" not in f"{check}"


@pytest.mark.parametrize(
    ("status", "name", "said", "do"),
    [
        (401, "key", "another region or data plane", "https://api-eu.braintrust.dev"),
        (403, "key", "may not see the projects", "BRAINTRUST_ORG_NAME"),
        (404, "API", "is not Braintrust's API", "not the app's"),
        (503, "API", "503", "status.braintrust.dev"),
    ],
)
def test_an_api_that_refuses_is_explained(stand: Standin, status: int, name: str, said: str, do: str) -> None:
    """With what to try."""
    stand.fail("/v1/project", status, times=99)
    check = _heard()[name]
    assert not check.well
    assert said in check.detail
    assert do in check.remedy


def test_a_key_of_several_organisations_must_say_which(stand: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the environment or the option; a wrong one is named beside the right ones."""
    stand.store.orgs["other"] = "11111111-1111-1111-1111-111111111111"
    check = _heard()["organisation"]
    assert (check.well, check.detail) == (False, "the key is of several, and none is named")
    assert check.remedy == "set BRAINTRUST_ORG_NAME, or write org=NAME: the key is of acme, other"
    assert _heard(org="acme")["organisation"].detail.endswith("; the key is of other too")
    monkeypatch.setenv("BRAINTRUST_ORG_NAME", "acne")
    assert _heard()["organisation"].detail == "'acne' is no organisation of this key"


def test_a_project_that_is_not_there_has_a_neighbour_and_is_not_made(stand: Standin) -> None:
    """A letter is soon wrong."""
    check = _heard("feries")["project"]
    assert not check.well
    assert "did you mean 'ferries'?" in check.remedy
    assert [row["name"] for row in stand.store.projects.values()] == ["ferries"]


def test_an_experiment_is_looked_for_too(stand: Standin) -> None:
    """Where one is named."""
    project = stand.store.project("ferries")["id"]
    stand.store.experiment(project, "night", new=False)
    api = Api(queries=6000)
    told = {check.name: check for check in checks(api, "ferries", "night")}
    assert told["Braintrust experiment"].detail.startswith("night (")
    assert told["Braintrust logs"].well
    told = {check.name: check for check in checks(api, "ferries", "day")}
    assert not told["Braintrust experiment"].well
    assert told["Braintrust experiment"].detail == "there is no experiment 'day' in ferries"


def test_logs_that_may_not_be_read(stand: Standin) -> None:
    """A key may see a project and not its rows."""
    stand.fail("/btql", 403, times=9)
    check = _heard()["logs"]
    assert not check.well
    assert "may read this project's logs" in check.remedy


def test_names_that_meet_ours(stand: Standin) -> None:
    """A column of people's makes ours step aside, a rule would overwrite it."""
    _score(stand, "human_source_support")
    _score(stand, "helpful")
    _score(stand, "quality", "online")
    told = _heard()
    assert told["scores"].well
    assert told["review"].detail == "columns in which people give our scores: 1"
    assert told["online rules"].detail.startswith("1 in this project; whether they run again")
    _score(stand, name_of("rag_faithfulness"))
    assert "groundtrace_rag_faithfulness of this project" in _heard()["scores"].detail
    _score(stand, name_of("source_support"), "online")
    clash = _heard()["scores"]
    assert not clash.well
    assert clash.detail == "online rules are called groundtrace_source_support"


def test_an_old_data_plane_says_what_it_lacks(stand: Standin) -> None:
    """And one that says nothing of itself is no trouble."""
    stand.fail("/version", 200, times=1, body='{"version": "1.1.26", "logs3_payload_max_bytes": 6000000}')
    detail = _heard()["data plane"].detail
    assert detail.startswith("version 1.1.26; rows of up to 6 MB a request")
    assert detail.endswith("it does not tell people's comments")
    stand.fail("/version", 404, times=9)
    assert _heard()["data plane"].detail == "its version is not told"


def test_an_app_out_of_reach_is_no_end_where_the_api_is_named(stand: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Self-hosted, the two are two machines."""
    monkeypatch.setenv("BRAINTRUST_APP_URL", "http://127.0.0.1:9")
    told = _heard(url=stand.url)
    assert not told["app"].well
    assert "BRAINTRUST_APP_URL" in told["app"].remedy
    assert told["project"].well
    assert list(_heard()) == ["app"]


def test_an_address_that_is_none(stand: Standin) -> None:
    """Without a scheme."""
    check = _heard(url="api.braintrust.dev")["address"]
    assert not check.well
    assert "https://HOST" in check.remedy
