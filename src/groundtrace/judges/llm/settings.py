"""What can be set of a model that judges, and what of it can change a reply."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import Literal

from groundtrace.errors import PlanError

Api = Literal["chat", "responses"]
Structured = Literal["auto", "schema", "json", "plain"]
"""How the shape of a reply is asked for; "auto" is the best the provider takes."""

_ASIDE = frozenset(("timeout", "deadline", "concurrency", "input_price", "output_price", "base_url"))
"""Settings that change how long a judge waits or what it costs, and no reply; a server is told by a hash."""

_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True, slots=True)
class Settings:
    """A model and all that is asked of it.

    `timeout` bounds one attempt and `deadline` one case, in seconds; `concurrency` is how many calls are in flight at
    most. `temperature` None is never sent. Prices are in US dollars a million tokens, where the model's are not known.
    """

    provider: str
    model: str
    base_url: str | None = None
    temperature: float | None = 0.0
    timeout: float = 60.0
    deadline: float = 300.0
    concurrency: int = 32
    seed: int | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    api: Api = "chat"
    structured: Structured = "auto"
    input_price: float | None = None
    output_price: float | None = None

    def __post_init__(self) -> None:
        _positive("timeout", self.timeout)
        _positive("deadline", self.deadline)
        _positive("concurrency", self.concurrency)
        if not self.model:
            raise PlanError("judge", self.provider, "names no model", hint=f"write {self.provider}:MODEL")
        if (self.input_price is None) != (self.output_price is None):
            raise PlanError("input_price", self.input_price, "stands alone", hint="give output_price beside it")
        for name, price in (("input_price", self.input_price), ("output_price", self.output_price)):
            if price is not None and price < 0:
                raise PlanError(name, price, "is less than nothing", hint="write US dollars a million tokens")

    @property
    def server(self) -> str | None:
        """The address of another's server, also one that OpenAI's own variable names; None for the provider's own."""
        if self.base_url is not None or self.provider != "openai":
            return self.base_url
        told = os.environ.get("OPENAI_BASE_URL", "").strip().rstrip("/")
        return told if told not in ("", _OPENAI) else None

    @property
    def id(self) -> str:
        """The model and every setting that changes a reply: equal ids may share replies."""
        defaults = type(self)(self.provider, self.model)
        told = [
            f"{name}={value}"
            for name, value in asdict(self).items()
            if name not in _ASIDE and value != getattr(defaults, name)
        ]
        if self.server:
            told.append(f"at={hashlib.sha256(self.server.rstrip('/').encode()).hexdigest()[:8]}")
        return ",".join((f"{self.provider}:{self.model}", *told))

    def __repr__(self) -> str:
        return json.dumps(self.id)


def _positive(name: str, value: float) -> None:
    if not value > 0:
        raise PlanError(name, value, "is too little", hint="write a number above 0")
