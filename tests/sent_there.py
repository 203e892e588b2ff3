"""Functions that a process of its own makes: it finds them by name, and this folder is on its path."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator


def doubling() -> Callable[[int], Iterator[object]]:
    """Made in the process: a function that doubles, hangs, breaks or leaves."""

    def double(value: int) -> Iterator[object]:
        if value == 13:
            time.sleep(600)
        if value == 14:
            os._exit(3)
        if value < 0:
            raise OSError("not below zero")
        if value == 99:
            print("what a plugin prints")
            yield os.getpid(), os.environ.get("OTEL_SDK_DISABLED"), len(sys.argv)
        else:
            yield 2 * value if value < 1000 else "x" * value

    return double


def counting() -> Callable[[int], Iterator[int]]:
    """Counts up to what it is called with, and breaks at 13."""

    def count(value: int) -> Iterator[int]:
        for number in range(value):
            if number == 13:
                raise ValueError("13")
            yield number

    return count


def warning() -> Callable[[int], Iterator[int]]:
    """Warns before it answers."""

    def warn(value: int) -> Iterator[int]:
        logging.getLogger("groundtrace.judges").warning("still waiting, for the %d. time", value)
        yield value

    return warn


def broken() -> Callable[[int], Iterator[object]]:
    """Can't be made there."""
    raise ImportError("no such module")
