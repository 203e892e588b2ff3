"""Functions that a process of its own makes: it finds them by name, and this folder is on its path."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable


def doubling() -> Callable[[int], object]:
    """Made in the process: a function that doubles, hangs, breaks or leaves."""

    def double(value: int) -> object:
        if value == 13:
            time.sleep(600)
        if value == 14:
            os._exit(3)
        if value < 0:
            raise OSError("not below zero")
        if value == 99:
            print("what a plugin prints")
            return os.getpid(), os.environ.get("OTEL_SDK_DISABLED"), len(sys.argv)
        return 2 * value if value < 1000 else "x" * value

    return double


def broken() -> Callable[[int], object]:
    """Can't be made there."""
    raise ImportError("no such module")
