"""What came and what became of it, since the start: for whoever looks whether we are well."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any


class Counts:
    """Counters by name, safe from any thread; `state` is how it goes, in a few words.

    >>> counts = Counts()
    >>> counts.add("spans", "taken", 3)
    >>> counts.told()["spans"]
    {'taken': 3}
    """

    def __init__(self) -> None:
        self.state = "starting"
        self._counters: dict[str, Counter[str]] = {}
        self._lock = threading.Lock()

    def add(self, name: str, what: str, n: int = 1) -> None:
        """Count."""
        with self._lock:
            self._counters.setdefault(name, Counter())[what] += n

    def of(self, name: str) -> dict[str, int]:
        """What was counted under a name."""
        with self._lock:
            return dict(self._counters.get(name, ()))

    def told(self) -> dict[str, Any]:
        """All of it."""
        with self._lock:
            return {"state": self.state, **{name: dict(counter) for name, counter in self._counters.items()}}
