"""Which traces are looked at: a share of them, picked by trace id, and every one its user complained about.

The same trace is picked in every run and on every machine, and a smaller share's traces are among a larger one's. A
trace is picked before any rubric is asked, so every rubric sees the same ones.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from groundtrace.errors import PlanError
from groundtrace.model import Value

if TYPE_CHECKING:
    from groundtrace.model import Ref, Signal
    from groundtrace.ports import Choose

ERROR = "error"
"""The name of the signal a source gives of a trace in which a span failed."""

IN_PROCESS = (
    "A trace is picked when it ends: feedback a user gives later cannot bring it back. "
    "A run over the platform or the files that hold the feedback can."
)
"""What sampling inside a running application can't do."""


class Sampling(Value):
    """Which traces are looked at, where a share alone does not say it.

    `share` (0..1) is the source's own where nobody says; `errors` adds every trace in which something failed;
    `predicate` ("module:function", of a Ref and its signals) adds every trace of which it says True; no more traces
    are taken once `max_cost_per_day` US dollars were spent on judges since midnight UTC.

    >>> Sampling(share=0.1, errrors=True)
    Traceback (most recent call last):
    groundtrace.errors.PlanError: sample: 'errrors' is no key of it; did you mean 'errors'? ...
    """

    share: float | None = Field(None, ge=0, le=1)
    errors: bool = False
    predicate: str | None = None
    max_cost_per_day: float | None = Field(None, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        for key in data if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                raise PlanError("sample", key, "is no key of it", valid=cls.model_fields)
        return data


def sample(share: float, *, errors: bool = False) -> Choose:
    """Choose this share of the traces (0..1), all with negative feedback of a user, and on request all that failed.

    >>> from groundtrace.model import Ref, Signal
    >>> choose = sample(0.0)
    >>> choose(Ref("otel", trace_id="a"), ()), choose(Ref("otel", trace_id="a"), (Signal("thumb", negative=True),))
    (False, True)
    """

    def choose(ref: Ref, signals: tuple[Signal, ...]) -> bool:
        wanted = any(signal.negative or (errors and signal.name == ERROR) for signal in signals)
        return wanted or picked(ref.trace_id, share)

    return choose


def picked(trace_id: str, share: float) -> bool:
    """Whether a trace is among this share of all, by its id alone.

    >>> picked("a", 1.0), picked("a", 0.0)
    (True, False)
    """
    return share >= 1 or drawn("sample", trace_id) < share * 2**64


def in_process(share: float) -> Choose:
    """Choose as `sample` does, inside a running application, where a trace is picked when it ends.

    Feedback a user gives later cannot bring a trace back there; `IN_PROCESS` says so, for reports and limits.

    >>> from groundtrace.model import Ref
    >>> in_process(1.0)(Ref("otel", trace_id="a"), ())
    True
    """
    return sample(share)


def shard(trace_id: str, count: int) -> int:
    """Which of `count` shards a trace belongs to; says nothing about whether it is sampled.

    >>> shard("4bf92f3577b34da6a3ce929d0e0e4736", 1)
    0
    """
    return drawn("shard", trace_id) % count


def drawn(purpose: str, ident: str) -> int:
    """A number below 2**64 that only depends on what is hashed; the purpose keeps the choices independent."""
    text = f"{purpose}:{ident}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
