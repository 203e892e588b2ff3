"""A message is answered at once and for good: what it names is evaluated once, whatever happens in between."""

from __future__ import annotations

import datetime as dt
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import update
from starlette.applications import Starlette

import killed
from groundtrace.errors import PlanError
from groundtrace.model import Delivery
from groundtrace.serve import webhooks as serve
from groundtrace.serve.webhooks import Counts, Evaluation
from groundtrace.store import Store, open_store
from groundtrace.store.tables import inbox
from live import Desk, around, desk_in
from terminal import groundtrace

SECRET = "a-secret-nobody-guesses"
NOW = dt.datetime.now(dt.UTC)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A stand-in, with its plugins installed."""
    with desk_in(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """What outlives a receiver."""
    with open_store(tmp_path / "s.db") as made:
        yield made


@contextmanager
def receiving(desk: Desk, store: Store, **limits: Any) -> Iterator[tuple[httpx2.Client, Counts]]:
    """A receiver that nobody evaluates for, on a real server."""
    place, counts = serve.opened(desk.plan, "fake", "127.0.0.1:0"), Counts()
    place.socket.close()
    with served(serve.receiver("fake", place.delivered, SECRET, store, counts, **limits)) as client:
        yield client, counts


@contextmanager
def served(app: Starlette) -> Iterator[httpx2.Client]:
    """Somebody who asks an application on a real server."""
    at = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{at.getsockname()[1]}"
    with serve._answering(app, at), httpx2.Client(base_url=url, trust_env=False) as client:
        yield client


def told(desk: Desk, *traces: str) -> dict[str, Any]:
    """A message of the stand-in's rule."""
    return {"project": desk.stand.url, "traces": list(traces)}


def waiting(store: Store) -> list[str]:
    """The traces that wait."""
    return [due.trace_id for due in store.inbox.due("fake", 1000)]


@pytest.mark.parametrize(
    ("headers", "query", "status"),
    [
        ({"X-Groundtrace-Secret": SECRET}, "", 202),
        ({"Authorization": f"Bearer {SECRET}"}, "", 202),
        ({}, f"?secret={SECRET}", 202),
        ({}, "", 401),
        ({"X-Groundtrace-Secret": SECRET + "x"}, "", 401),
        ({"X-Groundtrace-Secret": ""}, "", 401),
        ({"Authorization": SECRET}, "", 401),
        ({}, "?secret=é", 401),
    ],
)
def test_only_who_knows_the_secret_is_heard(
    desk: Desk, store: Store, headers: dict[str, str], query: str, status: int
) -> None:
    """In a header, as a bearer token, or in the address; others leave nothing behind."""
    with receiving(desk, store) as (client, counts):
        for path in ("/", "/fake"):
            assert client.post(f"{path}{query}", json=told(desk, "t1"), headers=headers).status_code == status
    assert waiting(store) == (["t1"] if status == 202 else [])
    assert sum(counts.messages.values()) == 2
    assert SECRET not in str(counts)


def test_what_is_no_message_is_refused_and_counted(desk: Desk, store: Store) -> None:
    """By what is wrong with it; the platform does not send it again."""
    known = {"X-Groundtrace-Secret": SECRET}
    with receiving(desk, store, most_bytes=100) as (client, counts):

        def send(**more: Any) -> int:
            return client.post("/", **{"headers": known} | more).status_code

        assert send(content=b"x" * 101) == 413
        assert send(content=iter([b"x" * 60, b"y" * 60])) == 413
        assert send(content=b"{no json") == 400
        assert send(content=b"") == 400
        assert send(json=["something", "else"]) == 422
        assert send(json=told(desk), headers=known | {"Content-Encoding": "gzip"}) == 415
        assert client.get("/", headers=known).status_code == 405
        assert client.get("/health").json() == {
            "state": "starting",
            "waiting": 0,
            "messages": {
                "413 too large": 2,
                "400 no JSON": 2,
                "422 no message of a rule": 1,
                "415 compressed": 1,
            },
            "traces": {},
            "scores": {},
        }
    assert counts.messages.total() == 6


def test_more_than_can_wait_is_sent_again(desk: Desk, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform comes again after a 5xx; none of the message is kept."""
    monkeypatch.setattr(serve, "MOST_WAITING", 2)
    with receiving(desk, store) as (client, _):
        known = {"X-Groundtrace-Secret": SECRET}
        assert client.post("/", json=told(desk, "a", "b", "c"), headers=known).status_code == 503
        assert client.post("/", json=told(desk, "a", "b"), headers=known).status_code == 202
    assert waiting(store) == ["a", "b"]


def test_a_run_nobody_can_read_is_counted(desk: Desk, store: Store) -> None:
    """The others of its message are kept."""
    counts = Counts()
    app = serve.receiver("fake", lambda _: Delivery("rule", (("p", "a"),), 2), SECRET, store, counts)
    with served(app) as client:
        answer = client.post("/", json={}, headers={"X-Groundtrace-Secret": SECRET})
    assert (answer.status_code, answer.json()) == (202, {"traces": 1, "unreadable": 2})
    assert (waiting(store), counts.traces) == (["a"], {"unreadable": 2})


def test_who_says_nothing_keeps_nobody_out(desk: Desk, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are: at once others are heard, and soon they are hung up on."""
    monkeypatch.setattr(serve, "_CONNECTIONS", 8)
    monkeypatch.setattr(serve, "_SECONDS", 0.5)
    with receiving(desk, store) as (client, _):
        at = client.base_url.host, client.base_url.port
        assert at[1] is not None
        for said in (b"", b"POST / HTTP/1.1\r\nX-Slow: "):
            held = [socket.create_connection((at[0], at[1])) for _ in range(20)]
            for line in held:
                with suppress(OSError):
                    line.sendall(said)
            assert client.get("/health").status_code == 200
            known = {"X-Groundtrace-Secret": SECRET}
            assert client.post("/", json=told(desk, "t1"), headers=known).status_code == 202
            for line in held:
                line.settimeout(10)
                with suppress(ConnectionError):
                    assert line.recv(1) == b""
                line.close()


# --- evaluating -----------------------------------------------------------------------------------------------------


class Clock:
    """The time, as the test has it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def evaluation(desk: Desk, store: Store, clock: Clock | None = None) -> tuple[Evaluation, Counts, list[str]]:
    """What evaluates, what it counted, and what it said."""
    counts, said = Counts(), list[str]()
    made = Evaluation(desk.plan, {"use": "fake"}, store, counts, said.append, clock=clock or Clock())
    return made, counts, said


def test_the_traces_named_are_evaluated_and_no_others(desk: Desk, store: Store) -> None:
    """From the platform's API; delivered again, nothing is asked or written again."""
    for n in range(4):
        desk.put(n, NOW)
    ours = [(desk.stand.url, f"t{n}") for n in (1, 3)]
    for _ in range(2):
        store.inbox.put("fake", ours, most=10)
        store.inbox.put("fake", ours, most=10)
        evaluating, counts, said = evaluation(desk, store)
        assert evaluating.once()
        assert not evaluating.once()
        assert (counts.traces, said) == ({"evaluated": 2}, [])
    assert desk.scored() == {"t1", "t3"}
    written = desk.written()
    assert written
    assert len(written) == len({*written})


def test_a_trace_delivered_while_it_is_evaluated_is_evaluated_again(desk: Desk, store: Store) -> None:
    """It may have changed since it was read."""
    store.inbox.put("fake", [(desk.stand.url, "t1")], most=10)
    (due,) = store.inbox.due("fake", 10)
    store.inbox.put("fake", [(desk.stand.url, "t1")], most=10)
    store.inbox.done([due])
    assert waiting(store) == ["t1"]


def test_one_that_is_not_there_keeps_no_other(desk: Desk, store: Store) -> None:
    """It is asked for again, and given up after a day; that is counted and named."""
    ids = [desk.put(n, NOW) for n in range(33)]
    store.inbox.put("fake", [(desk.stand.url, ident) for ident in ("absent", *ids)], most=100)
    clock = Clock()
    evaluating, counts, said = evaluation(desk, store, clock)
    assert evaluating.once()
    assert not evaluating.once()
    assert (counts.traces, counts.state) == ({"put off": 1, "evaluated": 33}, "well")
    assert desk.scored() == {*ids}
    for _ in range(4):
        clock.now += 1000
        while evaluating.once():
            pass
    assert (waiting(store), said) == (["absent"], [])
    later = desk.put(34, NOW)
    store.inbox.put("fake", [(desk.stand.url, later)], most=100)
    assert evaluating.once()
    assert later in desk.scored()
    aged(store)
    clock.now += 1000
    assert evaluating.once()
    assert (waiting(store), counts.traces["given up"], counts.traces["evaluated"]) == ([], 1, 34)
    assert said == [
        "gave up 1 traces a day after they were delivered (absent): they are not over, or not there",
    ]


def aged(store: Store) -> None:
    """All that waits was delivered long ago."""
    with store._database.writing(at_once=True) as connection:
        connection.execute(update(inbox).values(time="2026-01-01T00:00:00+00:00"))


@pytest.mark.parametrize("refused", [1, 5])
def test_one_hiccup_after_a_long_outage_loses_nothing(desk: Desk, store: Store, refused: int) -> None:
    """Nobody is given up for what befell a whole batch, nor with one who never came; that one is, and alone."""
    ids = [desk.put(n, NOW) for n in range(5)]
    store.inbox.put("fake", [(desk.stand.url, ident) for ident in ("absent", *ids)], most=100)
    aged(store)
    desk.stand.told("/trouble", refuse=refused, status=500)
    clock = Clock()
    evaluating, counts, said = evaluation(desk, store, clock)
    for _ in range(refused):
        assert evaluating.once()
        clock.now += 1000
    assert "given up" not in counts.traces
    assert len(waiting(store)) == 6
    for _ in range(3):
        while evaluating.once():
            pass
        clock.now += 1000
    assert desk.scored() == {*ids}
    assert (waiting(store), counts.traces["evaluated"], counts.traces["given up"]) == ([], 5, 1)
    assert [line for line in said if "gave up" in line] == [
        "gave up 1 traces a day after they were delivered (absent): they are not over, or not there"
    ]


@pytest.mark.parametrize("status", [429, 500, 401])
def test_what_the_platform_refuses_is_asked_for_again(desk: Desk, store: Store, status: int) -> None:
    """And what was delivered waits meanwhile."""
    desk.put(1, NOW)
    store.inbox.put("fake", [(desk.stand.url, "t1")], most=10)
    desk.stand.told("/trouble", refuse=1, status=status)
    clock = Clock()
    evaluating, counts, said = evaluation(desk, store, clock)
    assert evaluating.once()
    assert (counts.state, waiting(store)) == ("in trouble", ["t1"])
    assert said == [f"reading fake: fake: GET /traces/t1 was answered by {status}"]
    clock.now += 31
    assert evaluating.once()
    assert (counts.state, waiting(store), desk.scored()) == ("well", [], {"t1"})


@pytest.mark.parametrize(
    ("spec", "listen", "said"),
    [
        ("otel", "127.0.0.1:0", "sends no messages of new traces"),
        ("fake", "127.0.0.1", "is no place to listen"),
        ("fake", "127.0.0.1:99999", "is no place to listen"),
        ("fake", "192.0.2.1:80", "can't be listened at"),
        ("fake,no=1", "127.0.0.1:0", "'no' is no option of it"),
        ("nobody", "127.0.0.1:0", "is not installed"),
    ],
)
def test_what_cannot_be_served_is_said_before_the_first_message(desk: Desk, spec: str, listen: str, said: str) -> None:
    """With what to write instead."""
    with pytest.raises(PlanError, match=said):
        serve.opened(desk.plan, spec, listen)


# --- the command ----------------------------------------------------------------------------------------------------


@contextmanager
def command(desk: Desk, folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], httpx2.Client]]:
    """A receiver as a user starts it."""
    env = {**os.environ, **around(), "HOOK": SECRET}
    line = [*killed.PROGRAM, "serve", "fake", "--secret-env", "HOOK", "--listen", "127.0.0.1:0"]
    line += ["--store", str(folder / "s.db"), "--rubric", killed.RUBRIC, *words]
    with subprocess.Popen(line, cwd=folder, env=env, text=True, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert "listening at http://127.0.0.1:" in first, first + process.stderr.read()
        url = first.partition("listening at ")[2].partition("/fake;")[0]
        known = {"X-Groundtrace-Secret": SECRET}
        with httpx2.Client(base_url=url, headers=known, trust_env=False, timeout=30) as client:
            try:
                yield process, client
            finally:
                process.kill()


def until(done: Callable[[], bool]) -> None:
    """Wait for what must come."""
    end = time.monotonic() + 120
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


class SlowJudge:
    """A judge's line that takes every question and answers none until it is let go."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.held: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                self.held.append(self.socket.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        """Hang up on everybody."""
        self.socket.close()
        for line in self.held:
            line.close()


@pytest.fixture
def slow() -> Iterator[SlowJudge]:
    """A judge that takes for ever."""
    made = SlowJudge()
    yield made
    made.close()


def test_killed_between_the_answer_and_the_evaluation(desk: Desk, tmp_path: Path, slow: SlowJudge) -> None:
    """It is evaluated once after the next start; the answer did not wait for the judge."""
    ids = [desk.put(n, NOW) for n in range(5)]
    with command(desk, tmp_path, "--judge", f"fake:{slow.url}") as (process, client):
        assert client.post("/fake", json=told(desk, ids[0])).status_code == 202
        until(lambda: bool(slow.held))
        begun = time.monotonic()
        for _ in range(2):
            assert client.post("/fake", json=told(desk, *ids)).status_code == 202
        assert time.monotonic() - begun < 2
        assert client.get("/health").json()["waiting"] == 5
        process.kill()
    assert not desk.scored()
    with command(desk, tmp_path, "--judge", f"fake:{desk.stand.url}") as (process, client):
        until(lambda: client.get("/health").json()["waiting"] == 0)
        assert client.get("/health").json()["traces"] == {"evaluated": 5}
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert desk.scored() == {*ids}
    written, asked = desk.written(), desk.asked()
    assert len(written) == len({*written})
    assert len(asked) == len({*asked})


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_ends_when_it_is_told_to(desk: Desk, tmp_path: Path, number: int, code: int) -> None:
    """What it did and what waits is said."""
    ident = desk.put(0, NOW)
    with command(desk, tmp_path) as (process, client):
        client.post("/fake", json=told(desk, ident))
        until(lambda: client.get("/health").json()["waiting"] == 0)
        client.post("/fake", json=told(desk, "absent"))
        until(lambda: "put off" in client.get("/health").json()["traces"])
        process.send_signal(number)
        _, trouble = process.communicate(timeout=60)
        assert process.returncode == code
    assert trouble.splitlines() == [
        "groundtrace: stopping; what is in flight finishes (Ctrl-C again stops at once)",
        "groundtrace: stopped; traces: 1 evaluated, 1 put off; 1 trace wait for the next start",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--secret-env NOT_THERE", "secret_env: 'NOT_THERE' is not set; export NOT_THERE="),
        ("--secret-env SHORT", "holds no secret that could be sent and not be guessed"),
        ("--secret-env HOOK --store none", "what was answered must be kept"),
        ("", "Missing option '--secret-env'"),
    ],
)
def test_it_refuses_to_start_without_what_it_needs(desk: Desk, tmp_path: Path, words: str, said: str) -> None:
    """A secret above all, which is never shown."""
    done = groundtrace(f"serve fake {words}", tmp_path, env={**around(), "HOOK": SECRET, "SHORT": "abc123"})
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert "abc123" not in done.stderr


def test_without_its_extra_it_says_what_to_install(desk: Desk, tmp_path: Path) -> None:
    """Before anything starts."""
    code = "import sys; sys.modules['uvicorn'] = None\nfrom groundtrace.cli import main\nmain()"
    line = [sys.executable, "-c", code, "serve", "fake", "--secret-env", "HOOK"]
    env = {**os.environ, **around(), "HOOK": SECRET}
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "groundtrace: serve: 'starlette and uvicorn' are not installed; pip install 'groundtrace[serve]'"
    ]
