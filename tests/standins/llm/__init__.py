"""A stand-in for the providers of language models, on this machine: OpenAI, Anthropic and Gemini in one server.

`standing()` runs it in a process of its own, `hired()` in a thread of this one, where a script may be a function. How
to script it stands in the README beside this file.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from .asked import Asked
from .script import Script
from .server import Stand, serve

__all__ = ["Asked", "Script", "StandIn", "hired", "standing"]

_TESTS = Path(__file__).parent.parent.parent


class StandIn:
    """The stand-in, as a test sees it."""

    def __init__(self, url: str, stand: Stand | None = None) -> None:
        self.url = url
        self._stand = stand
        self._client = httpx2.Client(base_url=url, timeout=60, trust_env=False)

    @property
    def v1(self) -> str:
        """The base of what speaks as OpenAI does."""
        return f"{self.url}/v1"

    def script(self, *rules: Mapping[str, Any], **settings: Any) -> None:
        """Follow these rules from now on; what came before is forgotten."""
        answer = self._client.post("/script", json={"rules": list(rules), **settings})
        if answer.status_code != 200:
            raise ValueError(answer.json()["error"])

    def decide(self, decide: Callable[[Asked], Mapping[str, Any] | None] | None) -> None:
        """Ask a function first, under the rules as they are; only where the server is in this process."""
        assert self._stand is not None, "a function can't be sent to another process: give rules"
        self._stand.script.decide = decide

    def log(self) -> dict[str, Any]:
        """What came, in counts."""
        told: dict[str, Any] = self._client.get("/log").json()
        return told

    def kept(self) -> list[dict[str, Any]]:
        """The requests that were kept, whole, oldest first; as many as the script's `keep`, -1 for all."""
        told: list[dict[str, Any]] = self._client.get("/log?kept").json()["kept"]
        return told

    def close(self) -> None:
        """Let go of it."""
        self._client.close()


@contextmanager
def standing() -> Iterator[StandIn]:
    """A stand-in in a process of its own, for as long as it is needed."""
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    }
    command = [sys.executable, "-m", "standins.llm"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout
            with closing(StandIn(process.stdout.readline().strip())) as made:
                yield made
        finally:
            process.kill()


@contextmanager
def hired() -> Iterator[StandIn]:
    """A stand-in in a thread of this process."""
    stand, loop = Stand(), asyncio.new_event_loop()
    server, url = loop.run_until_complete(serve(stand))
    thread = threading.Thread(target=loop.run_forever, name="llm-standin", daemon=True)
    thread.start()
    try:
        with closing(StandIn(url, stand)) as made:
            yield made
    finally:
        asyncio.run_coroutine_threadsafe(_end(server, stand), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end(server: asyncio.Server, stand: Stand) -> None:
    server.close()
    for door in list(stand.connections):
        door.transport.abort()
    await server.wait_closed()
    await asyncio.sleep(0)  # the doors hear that they are closed
