"""A Phoenix on this machine for as long as it is looked at: the program that is installed, and nothing in it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from groundtrace.errors import PlanError, PlatformError

INSTALL = "pip install arize-phoenix"
PORT = 6006
"""Phoenix's own; another where it is taken."""

_READY = 120.0
"""Seconds a start may take; on a loaded machine 40 were seen."""

_STOP = 10.0
_TAIL = 2000


def installed() -> str:
    """The program; PlanError with the line that installs it where there is none."""
    beside = Path(sys.executable).parent / ("phoenix.exe" if sys.platform == "win32" else "phoenix")
    found = str(beside) if beside.exists() else shutil.which("phoenix")
    if found is None:
        raise PlanError("demo", "--phoenix", "needs Phoenix, which is not installed", hint=INSTALL)
    return found


@contextmanager
def serving(program: str, *, ready: float = _READY) -> Iterator[str]:
    """A server on loopback with nothing in it, gone with all it held when the block ends; gives its address.

    PlatformError, with the end of what it said, where it does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="groundtrace-phoenix-", ignore_cleanup_errors=True) as folder:
        port = PORT if _is_free(PORT) else _free()
        log = Path(folder) / "log"
        with log.open("wb") as said:
            process = subprocess.Popen(  # noqa: S603 - the program that was found
                [program, "serve"],
                env=_settings(Path(folder), port),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us, and we end it
            )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url, log, ready)
            yield url
        finally:
            _end(process)


def _settings(folder: Path, port: int) -> Mapping[str, str]:
    """No setting of the user's own Phoenix, no word to anybody else, and nothing that acts by itself."""
    held = {key: value for key, value in os.environ.items() if not key.startswith(("PHOENIX_", "OTEL_"))}
    return held | {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(_free()),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_SQL_DATABASE_URL": f"sqlite:///{(folder / 'phoenix.db').as_posix()}",
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "PHOENIX_DISABLE_AGENT_ASSISTANT": "true",
        "PHOENIX_AGENTS_DISABLE_BASH": "true",
        "PHOENIX_ENABLE_MCP_SERVER": "false",
    }


def _wait(process: subprocess.Popen[bytes], url: str, log: Path, ready: float) -> None:
    until = time.monotonic() + ready
    while process.poll() is None and time.monotonic() < until:
        with suppress(httpx2.HTTPError):
            if httpx2.get(f"{url}/healthz", timeout=5).is_success:
                return
        time.sleep(0.1)
    state = "did not answer" if process.poll() is None else f"ended with {process.returncode}"
    tail = log.read_text(encoding="utf-8", errors="replace")[-_TAIL:]
    raise PlatformError(f"Phoenix {state}; the end of what it said:\n{tail}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it started."""
    for hard in (False, True):
        with suppress(ProcessLookupError):
            if sys.platform == "win32":
                process.kill() if hard else process.terminate()
            else:
                os.killpg(process.pid, signal.SIGKILL if hard else signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP)


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
