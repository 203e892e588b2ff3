"""Asking an API over HTTP: what is no API is said at once, and nobody who wants to stop is kept."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from groundtrace.adapters.patience import Refused, Stranger
from groundtrace.adapters.rest import Rest
from groundtrace.plan import Plan
from groundtrace.run import run
from terminal import groundtrace

PAGE = b"<!doctype html>\n<html lang=en><title>Log&nbsp;in &amp; go</title><body>a page</body>"
HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain"

Answer = tuple[int, str, bytes]


class Door:
    """A server that gives these answers, the last one for ever; `asked` counts what came."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked, self.url = answers, 0, ""

    def next(self) -> Answer:
        """The answer to one more request."""
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


@contextmanager
def serving(door: Door) -> Iterator[Door]:
    """Serve it for a while."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Give the next answer."""
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, kind, body = door.next()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name the server looks for

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        door.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield door
        finally:
            server.shutdown()
            thread.join()


class Time:
    """A time that passes by waiting alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds so far."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.now += seconds


@contextmanager
def rest(url: str, time: Time) -> Iterator[Rest]:
    """The API of a tower at an address."""
    made = Rest("Tower", url, where="TOWER_URL", clock=time, sleep=time.sleep)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, HTML, PAGE), 'answered with 200 and a web page, "Log in & go"'),
        ((404, HTML, PAGE), 'answered with 404 and a web page, "Log in & go"'),
        ((302, HTML, b""), "answered with 302"),
        ((200, TEXT, b"OK"), "answered with 200 and OK"),
    ],
)
def test_what_is_another_server_is_told_at_once(answer: Answer, says: str) -> None:
    """Asked once, with the setting that names the address."""
    time = Time()
    with serving(Door(answer)) as door, rest(door.url, time) as api:
        with pytest.raises(Stranger, match="this is no Tower") as told:
            api.call("GET", "/v1/projects")
        assert door.asked == 1
    assert says in str(told.value)
    assert "TOWER_URL" in str(told.value)


def test_a_page_of_a_server_that_answered_before_passes() -> None:
    """What stands before it may be in trouble for a while."""
    time = Time()
    answers = (200, JSON, b"{}"), (200, HTML, PAGE), (502, HTML, PAGE), (200, JSON, b'{"a": 1}')
    with serving(Door(*answers)) as door, rest(door.url, time) as api:
        assert api.call("GET", "/") == {}
        assert api.call("GET", "/") == {"a": 1}


def test_a_page_is_told_by_its_title() -> None:
    """And never whole."""
    with serving(Door((502, HTML, PAGE))) as door, rest(door.url, Time()) as api, pytest.raises(Refused) as told:
        api.call("GET", "/", patience=0.0)
    assert str(told.value) == 'Tower refused GET / with 502: a web page, "Log in & go"'


def test_where_nothing_listens_is_given_up_soon() -> None:
    """It says so at once, and would for long."""
    time = Time()
    with socket.socket() as taken:  # bound, and never listening
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with rest(url, time) as api, pytest.raises(Refused, match="refused"):
            api.call("GET", "/")
    assert time.now <= 3.0


def test_nobody_who_wants_to_stop_is_kept() -> None:
    """What is waited for then is asked once more, and given up."""
    time = Time()
    with serving(Door((200, JSON, b"{}"), (503, JSON, b"{}"))) as door, rest(door.url, time) as api:
        api.call("GET", "/")
        api.stop_when(lambda: time.now > 1.0)
        with pytest.raises(Refused, match="503"):
            api.call("GET", "/")
    assert time.now < 2.0


def test_a_run_that_is_stopped_waits_for_no_platform() -> None:
    """It would for a quarter of an hour: the server answered once."""
    found = b'{"experiment": {"experiment_id": "1", "name": "desk"}}'
    with serving(Door((200, JSON, found), (503, JSON, b"{}"))) as door:
        plan = Plan(sources=f"mlflow:desk,tracking_uri={door.url}")
        report = run(plan, stopping=lambda: door.asked >= 3)
    assert report.about.state == "interrupted"
    assert "503" in report.failed[0]


def test_the_doctor_does_not_send_people_to_the_doctor(tmp_path: Path) -> None:
    """Where a server lets nobody in."""
    with serving(Door((403, JSON, b"{}"))) as door:
        done = groundtrace(f"doctor mlflow:desk,tracking_uri={door.url}", tmp_path)
    assert "MLflow login: refused" in done.stdout
    assert "says more" not in done.stdout


@pytest.mark.parametrize("spec", ["mlflow:desk,tracking_uri=mlruns", "phoenix:desk,base_url=mlruns"])
def test_what_is_no_address_is_a_bad_plan(spec: str, tmp_path: Path) -> None:
    """Whoever's it is: before anything is read."""
    done = groundtrace(f"run {spec}", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'mlruns' is no address of" in done.stderr


def test_a_run_that_reached_nobody_found_not_nothing(tmp_path: Path) -> None:
    """It could not look."""
    with serving(Door((200, HTML, PAGE))) as door:
        done = groundtrace(f"run mlflow:desk,tracking_uri={door.url}", tmp_path)
    assert done.returncode == 3
    assert "Nothing could be read." in done.stdout
    assert "this is no MLflow" in done.stderr
    assert "looked at 24 hours" not in done.stderr
