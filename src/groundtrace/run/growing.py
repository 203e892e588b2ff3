"""The traces a watch saw and that were not over: kept by their ids, and asked for by them once they left its window.

A trace may go on for longer than a watch looks back. What is kept is a place in the memory beside the mark of the
watch, so it outlives a restart. One that is not over after a day, or whose source can't be asked by id, is given up:
that is counted and named.
"""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import orjson

from groundtrace.plugins import find, name_of, table
from groundtrace.sampling import Sampling

if TYPE_CHECKING:
    from groundtrace.model import Trace
    from groundtrace.plan import Plan
    from groundtrace.ports import Memory

GIVEN_UP = dt.timedelta(days=1)
"""How long after a trace was first seen it is given up."""

MOST = 1000
"""Traces that are kept; of more, those seen first are given up."""

_AT_ONCE = 100
"""Traces asked for by their ids in one round."""

_RARER, _RAREST = 8, dt.timedelta(hours=1)
"""A trace is asked for again after this part of the time it is known, and never less often than that."""

_NAMED = 20


class _Key(NamedTuple):
    """A trace of a source, which is told by its place in the plan."""

    source: int
    trace_id: str


class Growing:
    """The traces that are not over, of the watch at one place of a memory, in the round that ends at `now`."""

    def __init__(self, plan: Plan, memory: Memory, place: str, now: dt.datetime) -> None:
        self._plan, self._memory, self._place, self._now = plan, memory, f"growing:{place}", now
        self._before = memory.cursor(self._place)
        told = orjson.loads(self._before) if self._before else []
        self._known = {
            _Key(source, ident): (dt.datetime.fromisoformat(first), dt.datetime.fromisoformat(asked))
            for source, ident, first, asked in told
        }
        """Since when a trace is known, and when it was looked at last."""
        self._seen: dict[_Key, bool] = {}
        self._gone: dict[str, list[str]] = {}

    def saw(self, source: int, trace: Trace) -> None:
        """Hear of a trace that was looked at."""
        self._seen[_Key(source, trace.ref.trace_id)] = trace.complete

    def settle(self, asked: Sequence[tuple[int, str]] = (), *, well: bool) -> None:
        """Take up what was seen. Of traces that were asked for, those nobody gave are nobody's: they are passed over.

        A reading that did not go well is done again, so it ends the waiting for none.
        """
        for key, complete in self._seen.items():
            if not complete:
                self._known[key] = (self._known.get(key, (self._now,))[0], self._now)
        over = {
            *(key for key, complete in self._seen.items() if complete),
            *({_Key(*key) for key in asked} - {*self._seen}),
        }
        for key in over if well else ():
            self._known.pop(key, None)

    def to_ask(self) -> Sequence[tuple[int, str]]:
        """Those to be asked for by their ids now: what this round's window did not hold, each less and less often."""
        able = {at for at in range(len(self._plan.sources)) if self._offers_ids(at)}
        unseen = [key for key in self._known if key not in self._seen]
        self._give_up([key for key in unseen if key.source not in able], "they left the window, and can't be had by id")
        due = [
            (asked, key)
            for key, (first, asked) in self._known.items()
            if key not in self._seen and self._now - asked >= min((self._now - first) / _RARER, _RAREST)
        ]
        return [key for _, key in sorted(due)[:_AT_ONCE]]

    def asking(self, asked: Sequence[tuple[int, str]], left: float | None) -> Plan:
        """The plan of a run over these traces: they were picked before, whatever share of all that was."""
        places = sorted({source for source, _ in asked})
        sources = tuple(
            {**table("source", self._plan.sources[at]), "ids": [ident for source, ident in asked if source == at]}
            for at in places
        )
        sample = self._plan.sample
        sample = sample.model_copy(update={"share": 1.0}) if isinstance(sample, Sampling) else 1.0
        changed = {"sources": sources, "since": None, "until": None, "sample": sample, "max_cost": left}
        return self._plan.model_copy(update=changed)

    def kept(self) -> Sequence[str]:
        """Keep what is waited for; a note of each kind that is given up, and how many of them."""
        old = [key for key, (first, _) in self._known.items() if self._now - first >= GIVEN_UP]
        self._give_up(old, "they were not over a day after they were first seen")
        first = sorted(self._known, key=lambda key: self._known[key])
        self._give_up(first[: max(0, len(first) - MOST)], f"more than {MOST:,} were not over")
        rows = [[*key, *(when.isoformat() for when in known)] for key, known in sorted(self._known.items())]
        told = orjson.dumps(rows).decode()
        if told != (self._before or "[]"):
            self._memory.move_cursor(self._place, told)
        return [
            f"gave up {len(ids):,} traces ({', '.join(ids[:_NAMED])}{' ...' * (len(ids) > _NAMED)}): {why}"
            for why, ids in self._gone.items()
        ]

    @property
    def given_up(self) -> int:
        """How many were given up in this round."""
        return sum(map(len, self._gone.values()))

    def _give_up(self, keys: Iterable[_Key], why: str) -> None:
        for key in keys:
            del self._known[key]
            self._gone.setdefault(why, []).append(key.trace_id)

    def _offers_ids(self, at: int) -> bool:
        """Whether a source can be asked for traces by their ids: it has an option of that name."""
        return "ids" in inspect.signature(find("source", name_of("source", self._plan.sources[at]))).parameters
