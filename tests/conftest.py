"""What every test is held to."""

from pathlib import Path

import pytest

from guard import no_stray_sockets
from hired import hire
from postgres import schema, server
from servers import mlflow_server, phoenix_desk, phoenix_server

__all__ = [
    "hire",
    "mlflow_server",
    "no_stray_sockets",
    "own_store",
    "phoenix_desk",
    "phoenix_server",
    "schema",
    "server",
]


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a data directory of its own, and never the user's."""
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    return folder
