"""What is between the batch judge and a provider's batch API: questions handed in as one, results fetched when done.

A desk speaks to one provider through its SDK and turns what that raises into `Trouble`; it waits for nothing and tries
nothing twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import orjson

from groundtrace.judges.llm import refusals
from groundtrace.judges.llm.client import Answer, Question, Trouble

if TYPE_CHECKING:
    from groundtrace.judges.llm.batch_ledger import Sent

Outcome: TypeAlias = "tuple[str, Answer | Trouble]"
"""What came of one question: the id it was handed in under, and the answer or why there is none."""

_WIRE = frozenset(("openai", "anthropic", "httpx", "httpx2", "httpcore", "httpcore2"))
"""Packages whose errors are a provider's or the network's; another package's error is a mistake, and is raised."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How a batch stands; `trouble` is why it failed or is gone. One that expired has ended: it has what was done."""

    state: Literal["running", "ended", "failed", "gone"]
    trouble: Trouble | None = None


class Desk(Protocol):
    """One provider's batch API. `where` names provider and address: a batch is only looked for where it was sent."""

    where: str
    most: int
    """Questions the provider takes in one batch."""

    most_bytes: int
    """Bytes the provider takes in one batch."""

    def line(self, ident: str, question: Question) -> bytes:
        """One question as a line of JSON, ended by a newline."""
        ...

    def send(self, lines: IO[bytes], token: str) -> str:
        """Hand in all lines as one batch and say its id; raises Trouble. `token` is noted on it where that can be."""
        ...

    def newest(self) -> str:
        """The newest batch there is before one is sent, or "": what is found later is newer; raises Trouble."""
        ...

    def find(self, sent: Sent) -> str | None:
        """The id of a batch that was sent and whose answer never came, or None; raises Trouble."""
        ...

    def look(self, batch: str) -> Progress:
        """How a batch stands; raises Trouble."""
        ...

    def rows(self, batch: str) -> Iterator[bytes]:
        """The results there are, a line each, in any order; raises Trouble, of kind "request" where they are gone."""
        ...

    def read(self, row: bytes) -> Outcome | None:
        """What a line of results says, or None where it says nothing that can be read."""
        ...

    def close(self) -> None:
        """Let go of its connections."""
        ...


@contextlib.contextmanager
def spoken(door: refusals.Door) -> Iterator[None]:
    """Turn what an SDK raises inside into Trouble."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__.partition(".")[0] not in _WIRE:
            raise
        response, status = getattr(error, "response", None), getattr(error, "status_code", None)
        if response is None or not isinstance(status, int):
            raise refusals.broken(door, error) from None
        raise refusals.refused(door, status, getattr(error, "body", None), response.headers) from None


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""Whole lines out of pieces; a line ends at a newline and at nothing else.

    >>> list(whole_lines([b'{"a": 1}\n{"b"', b": 2}", b"\n", b"{}"]))
    [b'{"a": 1}', b'{"b": 2}', b'{}']
    """
    rest: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        for other in others:
            if line := b"".join(rest).strip():
                yield line
            rest = [other]
    if line := b"".join(rest).strip():
        yield line


def loaded(row: bytes) -> tuple[str, dict[str, Any]] | None:
    """A line of results and the id in it, or None where it holds none."""
    try:
        told = orjson.loads(row)
    except ValueError:
        return None
    ident = told.get("custom_id") if isinstance(told, dict) else None
    return (ident, told) if isinstance(ident, str) else None


def inside(told: Any, *names: str) -> Mapping[str, Any]:
    """The object below these names; an empty one where there is none.

    >>> inside({"response": {"body": {"id": 1}}}, "response", "body"), inside({"response": None}, "response", "body")
    ({'id': 1}, {})
    """
    for name in names:
        told = told.get(name) if isinstance(told, Mapping) else None
    return told if isinstance(told, Mapping) else {}
