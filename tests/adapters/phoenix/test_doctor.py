"""What is between here and a real Phoenix is said in plain words."""

from __future__ import annotations

import pytest

from groundtrace.adapters.phoenix import doctor
from groundtrace.adapters.phoenix.api import Api
from groundtrace.adapters.phoenix.source import PhoenixSource
from groundtrace.model import Check
from servers import Server

from .conftest import Desk


def told(checks: list[Check]) -> dict[str, tuple[bool, str]]:
    """Each check by its name."""
    return {check.name: (check.well, check.detail) for check in checks}


def test_all_is_well(desk: Desk) -> None:
    """Address, key, version, project, configs."""
    desk.send()
    found = told(list(PhoenixSource(desk.project).doctor()))
    assert all(well for well, _ in found.values())
    assert found["Phoenix address"] == (True, desk.url)
    assert found["Phoenix version"][1].startswith("20.")
    assert desk.project in found["Phoenix project"][1]


def test_a_project_that_is_nearly_there(desk: Desk) -> None:
    """The one that may be meant is named."""
    desk.send()
    checks = list(doctor.checks(desk.api, desk.project.replace("tower", "towr")))
    wrong = next(check for check in checks if not check.well)
    assert wrong.name == "Phoenix project"
    assert f"did you mean {desk.project!r}?" in wrong.remedy


def test_an_address_where_nothing_is() -> None:
    """With the line that starts one."""
    (_, wrong) = doctor.checks(Api("http://127.0.0.1:1"), "p", patience=0.1)
    assert not wrong.well
    assert "phoenix serve" in wrong.remedy


def test_an_address_where_something_else_is(mlflow_server: Server) -> None:
    """Another server is not taken for Phoenix."""
    checks = list(doctor.checks(Api(mlflow_server.url), "p"))
    assert not checks[-1].well
    assert "this is no Phoenix: GET /v1/projects is answered with 404 and a web page" in checks[-1].detail
    assert "not the address of another service" in checks[-1].remedy


def test_the_key_and_headers_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go with every request, and nowhere else."""
    monkeypatch.setenv("PHOENIX_API_KEY", "secret-1")
    monkeypatch.setenv("PHOENIX_CLIENT_HEADERS", "x-team=a%20b,x-other=c")
    made = Api("http://127.0.0.1:1/v1/traces")
    assert made.url == "http://127.0.0.1:1"
    sent = made._rest._client.headers  # nothing of it is shown anywhere else
    assert (sent["authorization"], sent["x-team"], sent["x-other"]) == ("Bearer secret-1", "a b", "c")
    assert "secret-1" not in str([*doctor.checks(made, "p", patience=0.1)])
