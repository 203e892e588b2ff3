"""What a user's own mapping says: believed before anything is looked for, also where it says that nothing is there.

Who names an attribute in a plan says that it may be judged, also where another span masks the same text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from groundtrace.model import Ref, Said
from groundtrace.read.context import Context, in_order
from groundtrace.read.exchange import Found, placed
from groundtrace.read.final import around
from groundtrace.read.gaps import lost
from groundtrace.read.tree import Request, Seen

_Field = Literal["query", "context", "answer"]


def declared_query(request: Request, final: Seen | None) -> Found | None:
    """The query as a mapping tells it; None where no mapping speaks for it."""
    told = [(seen.reading.query, seen) for seen in _declaring(request, final, "query")]
    return _text("query", told)


def declared_answer(request: Request, final: Seen | None) -> Found | None:
    """The answer as a mapping tells it; None where no mapping speaks for it."""
    told = [(seen.reading.output, seen) for seen in _declaring(request, final, "answer")]
    return _text("answer", told)


def declared_context(request: Request, final: Seen | None, ref: Ref) -> Context | None:
    """The context as a mapping tells it, in its order; None where no mapping speaks for it."""
    gaps = []
    for seen in _declaring(request, final, "context"):
        texts = [document.text for document in seen.reading.documents or ()]
        bad = [t for t in texts if t is not None and t.state != "present"]
        lacking = min(bad, key=lambda said: said.state != "masked", default=None)
        if lacking is None:
            return in_order(request, seen, ref)
        gaps.append(lost("context", lacking.state, lacking.remedy))
    return Context(gap=gaps[0]) if gaps else None


def _declaring(request: Request, final: Seen | None, field: _Field) -> Iterator[Seen]:
    """The spans whose mapping speaks for a field of the record, outermost first; each may come twice."""
    near = (*around(request, final), *((final,) if final is not None else ()))
    every = (*near, *request.of("request", "agent", "generation"))
    return (seen for seen in every if field in seen.reading.declared)


def _text(field: Literal["query", "answer"], told: list[tuple[Said | None, Seen]]) -> Found | None:
    """The first that is there, else the gap of the first that is not."""
    said = [(words, seen) for words, seen in told if words is not None]
    for words, seen in said:
        if words.state == "present" or (field == "query" and words.legible):
            return placed(field, words, seen)
    return Found(gap=lost(field, said[0][0].state, said[0][0].remedy)) if said else None
