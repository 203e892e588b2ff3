"""The real servers the tests stand against answer, and know who they are."""

from __future__ import annotations

import urllib.request

import pytest

import servers
from servers import Server


def _told(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as reply:
        return str(reply.read().decode())


def _pinned(name: str, package: str) -> str:
    lines = servers.builder().requirements(name).read_text().splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))


def test_phoenix_is_the_one_that_was_asked_for(phoenix_server: Server) -> None:
    """By its own word."""
    assert _told(f"{phoenix_server.url}/arize_phoenix_version") == _pinned("phoenix", "arize-phoenix")


def test_mlflow_is_the_one_that_was_asked_for(mlflow_server: Server) -> None:
    """By its own word."""
    assert _told(f"{mlflow_server.url}/version") == _pinned("mlflow", "mlflow")


def test_a_server_that_is_not_there_fails_with_the_line_to_run(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not skipped over."""
    monkeypatch.setenv("GROUNDTRACE_SERVERS", str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(pytest.fail.Exception, match=r"python3 \.ci/servers\.py phoenix"):
        servers.programs("phoenix")
