"""A stand-in for a live platform and a model's endpoint: in a process of its own, so that it outlives what is killed.

`python platform.py` prints its address, and ends with its standard input. It keeps traces and scores in memory,
replaces a score by its id, logs every write and every question; it can be told to be in trouble.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

_PAGE = 50


class Held:
    """What the platform holds, and what was done to it."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.traces: dict[str, dict[str, Any]] = {}
        self.feedback: list[dict[str, Any]] = []
        self.scores: dict[str, dict[str, Any]] = {}
        self.writes: list[dict[str, Any]] = []
        self.asks: list[dict[str, Any]] = []
        self.trouble = {"busy": 0, "drop": 0, "refuse": 0, "status": 500}
        self.came: dict[str, list[int]] = {"ask": [], "write": []}
        self.luck = random.Random(7)

    def put(self, ident: str, score: dict[str, Any]) -> str:
        """Put a score in its place."""
        known = self.scores.get(ident)
        self.writes.append({"id": ident, "hash": score["content_hash"], "by": score.pop("by"), "at": time.time()})
        self.scores[ident] = score
        return "unchanged" if known == score else "written"

    def page(self, since: float, until: float, start: int) -> dict[str, Any]:
        """Some traces of a window, without their spans."""
        due = [trace for trace in self.traces.values() if since <= (trace["time"] or 0) < until]
        told = [trace["id"] for trace in due[start : start + _PAGE]]
        return {"traces": told, "next": start + _PAGE if len(due) > start + _PAGE else None}


class Desk(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    held = Held()

    def do_GET(self) -> None:
        """Tell what is held."""
        held, url = self.held, urlsplit(self.path)
        said = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path.strip("/").split("/"):
            case ["scores"]:
                cards = set(said["cards"].split(",")) if "cards" in said else None
                with held.lock:
                    self._answer({i: s for i, s in held.scores.items() if cards is None or s["card"] in cards})
            case ["traces", *_] if held.trouble["refuse"]:
                held.trouble["refuse"] -= 1
                self._answer({"error": "not now"}, held.trouble["status"])
            case ["traces"]:
                since, until = float(said.get("since", 0)), float(said.get("until", "inf"))
                with held.lock:
                    self._answer(held.page(since, until, int(said.get("start", 0))))
            case ["traces", ident]:
                with held.lock:
                    self._answer(held.traces.get(unquote(ident)))
            case ["feedback"]:
                with held.lock:
                    self._answer([f for f in held.feedback if f["time"] >= float(said.get("since", 0))])
            case ["log"]:
                with held.lock:
                    self._answer({"writes": held.writes, "asks": held.asks})
            case ["came"]:
                with held.lock:
                    self._answer({what: len(by) for what, by in held.came.items()})
            case ["until", what]:  # who sent the n-th question or write, once it came; or soon nobody
                came, n = held.came[what], int(said["n"])
                with held.lock:
                    held.lock.wait_for(lambda: len(came) >= n, timeout=0.05)
                    self._answer(came[n - 1] if len(came) >= n else None)
            case _:
                self._answer(None, 404)

    def do_PUT(self) -> None:
        """Replace a score."""
        held, score = self.held, self._body()
        self._arrive("write", score["by"])
        with held.lock:
            if held.trouble["busy"]:
                held.trouble["busy"] -= 1
                self._answer({"error": "come back later"}, 503)
                return
            state = held.put(self.path.rpartition("/")[2], score)
            if held.trouble["drop"]:
                held.trouble["drop"] -= 1
                self.close_connection = True
                return
        self._answer({"state": state})

    def do_POST(self) -> None:
        """Take traces, questions and trouble."""
        held, said = self.held, self._body()
        match self.path.strip("/"):
            case "ask":
                self._arrive("ask", said["by"])
                with held.lock:
                    held.asks.append(said)
                    wait = min(held.luck.lognormvariate(-3.7, 0.6), 0.2)
                time.sleep(wait)
                self._answer({"heard": True})
            case "traces":
                with held.lock:
                    held.traces |= {trace["id"]: trace for trace in said["traces"]}
                self._answer(len(said))
            case "feedback":
                with held.lock:
                    held.feedback += said["feedback"]
                self._answer(len(said))
            case "trouble":
                with held.lock:
                    held.trouble |= said
                self._answer(said)
            case _:
                self._answer(None, 404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name
        """Say nothing."""

    def _arrive(self, what: str, by: int) -> None:
        with self.held.lock:
            self.held.came[what].append(by)
            self.held.lock.notify_all()

    def _body(self) -> Any:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionResetError
        return json.loads(body)

    def _answer(self, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)


class Server(ThreadingHTTPServer):
    """Nobody's death is news here."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that was killed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def main() -> None:
    """Serve until whoever started it closes its standard input, or is gone."""
    with Server(("127.0.0.1", 0), Desk) as server:
        threading.Thread(target=_end_with_input, args=[server], daemon=True).start()
        print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
        server.serve_forever()


def _end_with_input(server: Server) -> None:
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
