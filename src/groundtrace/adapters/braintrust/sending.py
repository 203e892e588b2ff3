"""Rows on their way to Braintrust: as many in a request as it takes, halved where one of them spoils the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import orjson

from groundtrace.adapters.braintrust.api import Api, Place
from groundtrace.adapters.patience import Refused

ROWS = 200
"""Rows a request: the SDK sends a hundred, Braintrust's own example a thousand."""

BYTES = 5 * 1024 * 1024
"""And bytes: the SDK's own limit, where the server names none, is 6 MiB."""

_ONE_SPOILS = frozenset({400, 413, 422})
"""What is said of a request that may be well without one of its rows, or with fewer of them."""

_FATAL = frozenset({401, 403})
"""What says that nothing else will be taken either."""


class Parcel(Protocol):
    """One row to be sent, and who is told what became of it."""

    def packed(self) -> bytes | None:
        """The row as JSON; None where there is nothing to send any more."""
        ...

    def lighter(self) -> bool:
        """Have less to say, where that is possible."""
        ...

    def came(self) -> None:
        """It was taken."""
        ...

    def failed(self, refused: Refused) -> None:
        """It was not taken, or that is not known (status 0)."""
        ...


def send(api: Api, place: Place, groups: Iterable[Sequence[Parcel]]) -> Refused | None:
    """Send rows, those of a group with each other, each once; gives what says that no more will be taken.

    Where Braintrust did not answer, or takes nothing for as long as is waited, what is left is not sent.
    """
    stopped: Refused | None = None
    for parcels in _requests(groups):
        if stopped is None:
            stopped = _sent(api, place, parcels)
        else:
            for parcel in parcels:
                parcel.failed(_unsent(stopped))
    return stopped if stopped is not None and stopped.status in _FATAL else None


def _sent(api: Api, place: Place, parcels: Sequence[Parcel]) -> Refused | None:
    """Send some rows at once; what was refused is given where it says that the next ones will be too."""
    told = [(parcel, packed) for parcel in parcels if (packed := parcel.packed()) is not None]
    if not told:
        return None
    try:
        api.insert(place, [orjson.Fragment(packed) for _, packed in told])
    except Refused as refused:
        if refused.status not in _ONE_SPOILS:
            for parcel, _ in told:
                parcel.failed(refused)
            return refused
        if len(told) == 1:
            return _alone(api, place, told[0][0], refused)
    else:
        for parcel, _ in told:
            parcel.came()
        return None
    half = len(told) // 2
    stopped = _sent(api, place, [parcel for parcel, _ in told[:half]])
    rest = [parcel for parcel, _ in told[half:]]
    if stopped is None:
        return _sent(api, place, rest)
    for parcel in rest:
        parcel.failed(_unsent(stopped))
    return stopped


def _alone(api: Api, place: Place, parcel: Parcel, refused: Refused) -> Refused | None:
    """One row that was refused by itself; one too large is sent once more with less in it."""
    if refused.status == 413 and parcel.lighter():
        return _sent(api, place, [parcel])
    parcel.failed(refused)
    return None


def _unsent(stopped: Refused) -> Refused:
    """The same trouble, of a row that was never sent: so it did not arrive."""
    return stopped if stopped.status else Refused(str(stopped), status=503)


def _requests(groups: Iterable[Sequence[Parcel]]) -> Iterator[list[Parcel]]:
    """Groups as many at a time as a request may hold."""
    some: list[Parcel] = []
    size = 0
    for group in groups:
        weight = sum(len(parcel.packed() or b"") for parcel in group)
        if some and (len(some) + len(group) > ROWS or size + weight > BYTES):
            yield some
            some, size = [], 0
        some += group
        size += weight
    if some:
        yield some


def as_json(row: dict[str, Any]) -> bytes:
    """A row as it is sent."""
    return orjson.dumps(row)
