"""How fast a platform may be asked: so many requests in so many seconds, over all threads of this process."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable


class Throttle:
    """Lets `most` requests begin in any `seconds`; who is too early waits.

    A platform counts when a request reaches it, so a little `slack` (a share of the seconds) is left between windows.

    >>> waited = []
    >>> throttle = Throttle(2, 10, clock=lambda: sum(waited), sleep=waited.append, slack=0)
    >>> for _ in range(3):
    ...     throttle.wait()
    >>> waited
    [10.0]
    """

    def __init__(
        self,
        most: int,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        slack: float = 0.02,
    ) -> None:
        self.most, self.seconds = most, float(seconds)
        self._window = self.seconds * (1 + slack)
        self._clock, self._sleep = clock, sleep
        self._begun: deque[float] = deque(maxlen=most)
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when the next request may begin."""
        with self._lock:  # held while waiting: others are behind this one
            if len(self._begun) == self.most:
                left = self._begun[0] + self._window - self._clock()
                if left > 0:
                    self._sleep(left)
            self._begun.append(self._clock())

    def keep_to(self, most: int) -> None:
        """Let so many begin from now on; those that began count."""
        with self._lock:
            self.most, self._begun = most, deque(self._begun, maxlen=most)
