"""Traces that were sent to us, as a source: those of a batch, whole, each read when its turn comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from groundtrace.adapters.otel.shelf import Held
from groundtrace.adapters.otel.source import errors, in_circles, whole
from groundtrace.adapters.otel.wire import Decoder
from groundtrace.errors import PlanError
from groundtrace.model import Check, Ref, Window

if TYPE_CHECKING:
    from groundtrace.model import Label, Trace
    from groundtrace.ports import Choose, Sink

SHARE = 0.1
"""The share of the traces looked at when nobody says: as of any live platform."""


class Arrived:
    """The traces of a batch: what was told of each, as requests of OTLP in protobuf, fetched when it is read.

    A trace that was sent without a span is none. Whoever sent them keeps no place for scores.
    """

    platform = "otel"
    default_share = SHARE

    def __init__(self, batch: Mapping[str, Callable[[], Iterable[bytes]]]) -> None:
        self._batch = batch
        self.unread = 0
        """Requests in it that could not be read: they were damaged on the disk."""

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:  # noqa: ARG002 - what is sent is new
        """The traces that `choose` picks, in the order they are given."""
        decoder = Decoder()
        for trace_id, parts in self._batch.items():
            held = Held()
            for data in parts():
                self._take(held, decoder, data)
            if held.spans and choose(Ref(self.platform, trace_id=trace_id), errors(held.spans)):
                yield whole(trace_id, held, in_circles(held.spans))

    def _take(self, held: Held, decoder: Decoder, data: bytes) -> None:
        decoded = decoder.decode(data)
        if decoded is None:
            self.unread += 1
            return
        for span in decoded.spans:
            held.take(span)
        held.logs += decoded.logs
        held.notes += [note.text for note in decoded.notes]

    def labels(self, since: int | None = None) -> Iterator[Label]:  # noqa: ARG002 - the port's parameter
        """Nothing: who sends traces sends no answers of people."""
        return iter(())

    def doctor(self) -> Iterator[Check]:
        """Nothing is between here and who sends."""
        return iter(())

    def home(self) -> Sink:
        """None: PlanError."""
        raise homeless()

    def notes(self) -> tuple[str, ...]:
        """What could not be read."""
        return (f"{self.unread} requests in the spool were damaged and left out",) if self.unread else ()


def homeless() -> PlanError:
    """What is said where nobody says where the scores of traces go that were sent to us."""
    hint = "name one: --to phoenix:PROJECT, --to otlp:http://HOST:4318 or --to otel:FOLDER; or use --forward URL"
    return PlanError("to", None, "is no place, and traces that are sent here have no platform to go home to", hint=hint)
