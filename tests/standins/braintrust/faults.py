"""Troubles a test asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Fault:
    """What goes wrong with the next `times` requests under `prefix`, once `skip` of them went well.

    With a `status` that is the answer, with `headers` and `body`; the request is not done then. `delay` is seconds
    before the answer. `torn` cuts the answer in half; with `drop` there is none: the connection ends after the request
    was done (`done=False`: before it is). `method` and `when`, a function of the request's body, choose requests.
    """

    prefix: str
    status: int = 0
    times: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = "injected"
    skip: int = 0
    delay: float = 0.0
    torn: bool = False
    drop: bool = False
    done: bool = True
    method: str = ""
    when: Callable[[Any], bool] = lambda _: True

    def takes(self, method: str, path: str, body: Any) -> bool:
        """Whether it happens to this request, which counts it."""
        fits = path.startswith(self.prefix) and self.method in ("", method)
        if not fits or self.times <= 0 or not self.when(body):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True
