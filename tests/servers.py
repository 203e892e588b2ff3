"""Real Phoenix and MLflow servers, each started once a session on loopback, with nothing of this machine's settings."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import ModuleType

import pytest

READY = 120.0
"""Seconds a server may take to answer; a loaded machine was seen to need 25."""
STOP = 20.0
"""Seconds a server may take to end when told to."""
TAIL = 4000
"""Characters of a server's log that a failure shows."""
STRANGE = ("PHOENIX_", "MLFLOW_", "OTEL_", "GROUNDTRACE_", "PYTHONPATH", "VIRTUAL_ENV")
"""Settings of this machine that no server of the tests may see."""


@dataclass(frozen=True)
class Server:
    """A server that answers: where, as which process, and where its log and its files are."""

    url: str
    grpc: str
    """Address of its second port; empty where it has one only."""
    pid: int
    folder: Path
    started: float
    """Seconds from its start to its first answer."""

    @property
    def log(self) -> str:
        """What it has said so far."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True)
class _Way:
    """How a server is started."""

    health: str
    command: Callable[[Path, Path, int], list[str]]
    settings: Callable[[Path, int, int], dict[str, str]]


def _phoenix_settings(folder: Path, port: int, grpc: int) -> dict[str, str]:
    return {
        "PHOENIX_HOST": "127.0.0.1", "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_WORKING_DIR": str(folder), "PHOENIX_SQL_DATABASE_URL": f"sqlite:///{folder}/phoenix.db",
        "PHOENIX_TELEMETRY_ENABLED": "false", "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true", "PHOENIX_ENABLE_MCP_SERVER": "false",
        "PHOENIX_AGENTS_DISABLE_BASH": "true",
    }  # fmt: skip


def _mlflow_command(programs: Path, folder: Path, port: int) -> list[str]:
    return [
        str(programs / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
        "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "artifacts"),
    ]  # fmt: skip


_WAYS = {
    "phoenix": _Way("/healthz", lambda programs, *_: [str(programs / "phoenix"), "serve"], _phoenix_settings),
    "mlflow": _Way(
        "/health",
        _mlflow_command,
        lambda *_: {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        },
    ),
}


def builder() -> ModuleType:
    """The script that builds the environments: it alone knows where they stand."""
    path = Path(__file__).parent.parent / ".ci" / "servers.py"
    spec = importlib.util.spec_from_file_location("_ci_servers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def programs(name: str) -> Path:
    """Where the programs of a server's environment are; the test fails with the line to run where there is none."""
    found: Path | None = builder().built(name)
    if found is None:
        pytest.fail(f"the tests need {name}: python3 .ci/servers.py {name}", pytrace=False)
    return found


def clean() -> dict[str, str]:
    """This machine's environment without what would steer a server or its clients."""
    return {key: value for key, value in os.environ.items() if not key.startswith(STRANGE)}


def free_port() -> int:
    """A port of loopback nobody listens on at this moment."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server and all it started; what outlives its polite end in its group is killed."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP)


@contextmanager
def running(name: str, folder: Path) -> Iterator[Server]:
    """A server, its data in the folder, until the block ends."""
    way, where = _WAYS[name], programs(name)
    for attempt in (1, 2):  # a port that was free may be taken by the time the server asks for it
        port, grpc = free_port(), free_port()
        url, began = f"http://127.0.0.1:{port}", time.monotonic()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                way.command(where, folder, port), env=clean() | way.settings(folder, port, grpc), cwd=folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            while process.poll() is None and time.monotonic() - began < READY and not _answers(url + way.health):
                time.sleep(0.1)
            took = time.monotonic() - began
            server = Server(url, f"http://127.0.0.1:{grpc}" if name == "phoenix" else "", process.pid, folder, took)
            if process.poll() is not None and attempt == 1:
                continue
            if process.poll() is not None or took >= READY:
                state = f"ended with {process.returncode}" if process.poll() is not None else f"silent for {took:.0f} s"
                pytest.fail(f"{name} {state}; the end of its log:\n{server.log[-TAIL:]}", pytrace=False)
            yield server
            return
        finally:
            stop(process)


@pytest.fixture(scope="session")
def phoenix_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Phoenix; tests take a project of their own on it."""
    with running("phoenix", tmp_path_factory.mktemp("phoenix")) as server:
        yield server


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An MLflow; tests take an experiment of their own on it."""
    with running("mlflow", tmp_path_factory.mktemp("mlflow")) as server:
        yield server


@pytest.fixture(scope="session")
def phoenix_desk(phoenix_server: Server) -> Server:
    """A Phoenix on which the demo's traces are in `my-project`."""
    from groundtrace.adapters.otel.again import requests
    from groundtrace.adapters.otel.sending import backend
    from groundtrace.adapters.phoenix.api import Api

    data = resources.files("groundtrace.data")
    told = [data.joinpath(name).read_bytes() for name in ("demo.jsonl", "demo.logs.jsonl")]
    to, sent = backend(phoenix_server.url), 0
    for body, count in requests(*told, project="my-project", ended=time.time_ns() - 60 * 10**9):
        to.send("traces", body)
        sent += count
    to.close()
    api, until = Api(phoenix_server.url), time.monotonic() + READY
    while (at := api.project("my-project")) is None or sum(map(len, api.pages(f"/projects/{at}/spans"))) < sent:
        assert time.monotonic() < until, "Phoenix did not show what it was sent"
        time.sleep(0.1)
    api.close()
    return phoenix_server
