"""What a rule delivered waits until it is evaluated, each trace once, whatever dies."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

from groundtrace.store import Store

Opened = Callable[..., Store]


def test_what_was_kept_is_there_for_whoever_opens_the_store_next(where: str, opened: Opened) -> None:
    """In the order it came, and of its platform alone."""
    kept = opened(where).inbox
    assert kept.put("langsmith", [("p", "b"), ("p", "a"), ("q", "a"), ("p", "b")], most=10)
    assert kept.put("other", [("p", "b")], most=10)
    found = opened(where).inbox.due("langsmith", 10)
    assert [(due.project, due.trace_id, due.attempts) for due in found] == [("p", "b", 0), ("p", "a", 0), ("q", "a", 0)]
    assert (kept.count("langsmith"), kept.count("other"), kept.count("nobody")) == (3, 1, 0)


def test_it_is_there_after_a_kill(where: str, opened: Opened) -> None:
    """The moment `put` returned."""
    opened(where)
    code = (
        "import os, signal, sys; from groundtrace.store import open_store; store = open_store(sys.argv[1]);"
        "store.inbox.put('langsmith', [('p', 'a')], most=10); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, where], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [due.trace_id for due in opened(where).inbox.due("langsmith", 10)] == ["a"]


def test_a_trace_stands_there_once_and_begins_anew(where: str, opened: Opened) -> None:
    """However often it is delivered; what was delivered again meanwhile is not done."""
    inbox = opened(where).inbox
    inbox.put("langsmith", [("p", "a")], most=10)
    (first,) = inbox.due("langsmith", 10)
    inbox.put_off([first])
    assert inbox.due("langsmith", 10)[0].attempts == 1
    inbox.put("langsmith", [("p", "a")], most=10)
    (second,) = inbox.due("langsmith", 10)
    assert (second.seq, second.turn, second.attempts) == (first.seq, first.turn + 1, 0)
    inbox.done([first])
    inbox.put_off([first])
    assert inbox.due("langsmith", 10) == (second,)
    inbox.done([second])
    assert not inbox.due("langsmith", 10)


def test_it_has_a_bound_and_keeps_all_of_a_message_or_nothing(where: str, opened: Opened) -> None:
    """Who sent it is told to come again."""
    inbox = opened(where).inbox
    assert not inbox.put("langsmith", [("p", "a"), ("p", "b")], most=1)
    assert inbox.count("langsmith") == 0
    assert inbox.put("langsmith", [("p", "a")], most=1)
    assert inbox.put("langsmith", [], most=1)


def test_those_nobody_tried_come_first(where: str, opened: Opened) -> None:
    """Those that never end stand behind all that is new."""
    inbox = opened(where).inbox
    inbox.put("langsmith", [("p", str(n)) for n in range(4)], most=10)
    first, _, third, _ = inbox.due("langsmith", 10)
    inbox.put_off([third, first])
    inbox.put("langsmith", [("p", "new")], most=10)
    assert [due.trace_id for due in inbox.due("langsmith", 10)] == ["1", "3", "new", "0", "2"]
    assert [due.trace_id for due in inbox.due("langsmith", 2)] == ["1", "3"]
