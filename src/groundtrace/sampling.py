"""Which traces are looked at: a share of them, picked by trace id, and every one its user complained about.

The same trace is picked in every run and on every machine, and a smaller share's traces are among a larger one's.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from groundtrace.model import Ref, Signal
    from groundtrace.ports import Choose


def sample(share: float) -> Choose:
    """Choose this share of the traces (0..1) and all that carry negative feedback of a user.

    >>> from groundtrace.model import Ref, Signal
    >>> choose = sample(0.0)
    >>> choose(Ref("otel", trace_id="a"), ()), choose(Ref("otel", trace_id="a"), (Signal("thumb", negative=True),))
    (False, True)
    """

    def choose(ref: Ref, signals: tuple[Signal, ...]) -> bool:
        return _digest("sample", ref.trace_id) < share * 2**64 or any(signal.negative for signal in signals)

    return choose


def shard(trace_id: str, count: int) -> int:
    """Which of `count` shards a trace belongs to; says nothing about whether it is sampled.

    >>> shard("4bf92f3577b34da6a3ce929d0e0e4736", 1)
    0
    """
    return _digest("shard", trace_id) % count


def _digest(purpose: str, trace_id: str) -> int:
    """A number below 2**64 that only depends on what is hashed; the purpose keeps the two choices independent."""
    text = f"{purpose}:{trace_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
