"""`groundtrace serve otlp` as a process of its own: started, asked how it is, killed, started again."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from groundtrace.serve.spool import Spool
from killed import PROGRAM

PATIENCE = 300.0
"""Seconds until something that does not come is a hang."""

_AT = re.compile(r"listening at (http://\S+?)(?: and, over gRPC, port (\d+))?;")
_CI = Path(__file__).parent.parent / ".ci" / "javascript.py"


class Serving:
    """One server's place, spool and store; a process of it at a time."""

    def __init__(self, folder: Path, *words: str, env: Mapping[str, str] | None = None) -> None:
        self.folder, self.words, self._env = folder, words, dict(env or {})
        folder.mkdir(exist_ok=True)
        self.port, self.grpc_port = _free(), _free()
        self.process: subprocess.Popen[bytes] | None = None
        self._log = folder / "log"

    @property
    def url(self) -> str:
        """Where it takes OTLP over HTTP."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What its processes said."""
        return self._log.read_text(encoding="utf-8")

    def start(self) -> None:
        """Start a process and wait until it listens."""
        before = self.log.count("listening at") if self._log.exists() else 0
        words = ["--listen", f"127.0.0.1:{self.port}", "--grpc", f"127.0.0.1:{self.grpc_port}"]
        words += ["--spool", str(self.folder / "spool"), "--store", str(self.folder / "store.db"), *self.words]
        env = {**os.environ, "PYTHONFAULTHANDLER": "1", **self._env}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*PROGRAM, "serve", "otlp", *words], cwd=self.folder, env=env, stdout=log, stderr=log
            )
        self.until(lambda: self.log.count("listening at") > before or self.process.poll() is not None)  # type: ignore[union-attr]
        assert self.process.poll() is None, self.log

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.kill()
        assert self.process.wait() == -signal.SIGKILL

    def stop(self, code: int = 0) -> None:
        """Ask it to stop, as a service is, and wait until it did."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=PATIENCE) == code, self.log
        assert "Traceback" not in self.log, self.log

    def health(self) -> dict[str, Any]:
        """How it is."""
        told: dict[str, Any] = httpx2.get(f"{self.url}/health", timeout=60, trust_env=False).json()
        return told

    def until(self, there: Callable[[], object]) -> None:
        """Wait until something is so."""
        end = time.monotonic() + PATIENCE
        while not there():
            assert time.monotonic() < end, f"it never came to that:\n{self.log}"
            time.sleep(0.05)


def cut_off(spool: Spool) -> None:
    """Leave a spool as a kill would: files are closed, and nothing else is done."""
    for segment in spool._segments.values():
        segment.file.close()
        segment.done.close()
    spool._alone.close()


@contextmanager
def serving(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Serving]:
    """A server that runs; whatever happens, none is left."""
    made = Serving(folder, *words, env=env)
    try:
        made.start()
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.process.kill()
            made.process.wait()


def modules() -> Path:
    """Where OpenTelemetry's JavaScript SDK is installed; the test fails where it is not."""
    spec = importlib.util.spec_from_file_location("ci_javascript", _CI)
    assert spec
    assert spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.built()
    assert found is not None, f"OpenTelemetry's JavaScript SDK is not installed: {module.MISSING}"
    return Path(found)


def emitting(kind: str, protocol: str, url: str, traces: int, out: Path) -> subprocess.Popen[bytes]:
    """An application that exports traces: "python" by http or grpc, "javascript" by json or proto."""
    here = Path(__file__).parent
    env = {name: told for name, told in os.environ.items() if not name.startswith("OTEL_")}
    if kind == "javascript":
        command = ["node", str(here / "javascript" / "emit.cjs")]
        env["NODE_PATH"] = str(modules())
    else:
        command = [sys.executable, str(here / "emit.py")]
    with out.with_suffix(".log").open("wb") as log:
        return subprocess.Popen([*command, protocol, url, str(traces), str(out)], env=env, stdout=log, stderr=log)


@dataclass(frozen=True)
class Export:
    """Spans an application exported together, and from when to when that was on its way."""

    ids: frozenset[tuple[str, str]]
    begin: float
    end: float


def emitted(out: Path) -> list[Export]:
    """What an application exported; all of it was taken."""
    assert out.exists(), out.with_suffix(".log").read_text(encoding="utf-8")
    told = json.loads(out.read_text(encoding="utf-8"))
    assert {one["code"] for one in told} == {0}
    return [Export(frozenset((t, s) for t, s in one["ids"]), one["begin"], one["end"]) for one in told]


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as at:
        return int(at.getsockname()[1])
