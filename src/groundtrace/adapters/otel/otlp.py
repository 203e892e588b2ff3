"""Scores sent to a backend of OpenTelemetry: log events in the context of what was judged, and evaluator spans."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from groundtrace.adapters.ledger import chunks, encode
from groundtrace.adapters.marks import Marks
from groundtrace.adapters.otel.requests import Signal, taken
from groundtrace.adapters.otel.sending import TIMEOUT, backend, headers_of, takes_none
from groundtrace.adapters.otel.sink import carrier, child, events, ids
from groundtrace.adapters.patience import Patience, Refused
from groundtrace.adapters.published import Result, State, receipts, results, withdrawn
from groundtrace.model import Receipt, Scorecard

_WORD = 2**62 - 1


class OtlpSink:
    """Sends scores by OTLP: one `gen_ai.evaluation.result` log event a score and one evaluator span a card.

    `http://HOST:4318` and `https://HOST` are OTLP over HTTP, `grpc://HOST:4317` and `grpcs://HOST` over gRPC. The event
    carries the ids of the span that was judged. `spans` says what becomes of the evaluator span: "links", a trace of
    its own with one link to the span that was judged, as OpenInference has it; "child", a late child of that span,
    shown within its trace everywhere; "none". `headers_env` names the environment variable that holds headers, written
    as OTEL_EXPORTER_OTLP_HEADERS is. What takes no logs (Phoenix, MLflow) is sent the spans alone, which is noted.

    A backend can't be asked what it holds. What a store's receipts say was sent is not sent again; without a store,
    what this sink sent itself is not. What was not answered may have arrived: it is sent again, as all exporters do.
    Events follow once the spans were taken: a span that is sent again has the same id, an event would be there twice.
    A score that an earlier run sent and that no longer holds is withdrawn only by the sink that sent it.
    """

    name = "otlp"
    updates: Literal["upsert", "append"] = "append"

    def __init__(
        self,
        url: str,
        *,
        spans: Literal["links", "child", "none"] = "links",
        headers_env: str | None = None,
        timeout: float = TIMEOUT,
        patience: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._backend = backend(url, headers=headers_of(headers_env), timeout=timeout)
        weakref.finalize(self, self._backend.close)  # nobody tells a sink that it is not needed any more
        self._made = {"links": carrier, "child": child, "none": None}[spans]
        self._patience = Patience(patience, clock=clock, sleep=sleep)
        self._sent = Marks()
        """What was sent under each feedback id, as a hash."""
        self._scores: set[str] = set()
        self._takes: dict[Signal, bool] = {"logs": True, "traces": self._made is not None}
        self._notes: list[str] = []

    def notes(self) -> tuple[str, ...]:
        """What the backend has no place for."""
        return tuple(self._notes)

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Send the cards' scores, and say what became of each one once the backend answered."""
        for chunk in chunks(cards):
            leaving = [self._leaving(card) for card in chunk]
            state, reason = self._went([one for one in leaving if one.new])
            for one in leaving:
                fresh = {result.feedback_id for result in one.new}
                states: dict[str, State] = {
                    key: state if key in fresh else "unchanged" for key in [*one.due, *(fresh - one.due.keys())]
                }
                if state == "written":
                    self._learn(one.new)
                over = [result.score for result in one.new if result.feedback_id not in one.due]
                yield from receipts(one.card, self.name, states, {state: reason} if reason else {}, over)

    def _leaving(self, card: Scorecard) -> _Leaving:
        """What of a card is due, and what of that is new; with what takes the place of scores that no longer hold."""
        due = {result.feedback_id: result for result in results(card)}
        ended = [gone for gone in withdrawn(card, self._scores) if gone.feedback_id in self._sent]
        told = [*due.values(), *ended]
        return _Leaving(card, due, [one for one in told if self._sent.get(one.feedback_id) != _hash(one)])

    def _learn(self, sent: Iterable[Result]) -> None:
        for result in sent:
            self._sent[result.feedback_id] = _hash(result)
            self._scores.add(result.score)

    def _went(self, leaving: Sequence[_Leaving]) -> tuple[State, str]:
        """What became of all that is new, and why it was not taken."""
        if not leaving:
            return "unchanged", ""
        logs = [events(one.card, one.new) for one in leaving]
        spans = [self._made(one.card, one.new) for one in leaving if ids(one.card)[1]] if self._made else []
        fates = [self._sends("traces", spans)]
        if fates[0] is None or fates[0].taken:
            fates.append(self._sends("logs", logs))
        worst = next((fate for fate in fates if fate and fate.state != "written"), None)
        if worst is not None:
            return worst.state, worst.reason
        if not any(fates):
            return "failed", f"{self._backend.url} takes neither logs nor spans"
        return "written", ""

    def _sends(self, signal: Signal, told: Sequence[dict[str, Any]]) -> _Fate | None:
        """What became of what is sent of one signal; None where nothing is, or the backend has no place for it."""
        if not told or not self._takes[signal]:
            return None
        parts = [taken(signal, encode(one), json=True, apart=_together).parcels for one in told]
        data = b"".join(parcel.data for part in parts for parcel in part)
        try:
            sent = self._patience.asked(lambda: self._backend.send(signal, data))
        except Refused as refused:
            if takes_none(refused):
                self._takes[signal] = False
                what = "no logs, so no events" if signal == "logs" else "no spans, so no evaluator spans"
                self._notes.append(f"{self._backend.url} takes {what} were sent: {refused}")
                return None
            state: State = "unconfirmed" if refused.status == 0 and self._reached else "failed"
            return _Fate(state, str(refused), taken=False)
        self._reached = True
        if sent.refused:
            why = f"{self._backend.url} left out {sent.refused}: {sent.why or 'it does not say why'}"
            return _Fate("unconfirmed", why)
        return _Fate("written")

    _reached = False
    """Whether the backend took anything so far: of one that never did, what was not answered did not arrive."""


class _Fate(NamedTuple):
    """What became of a request, and whether the backend took it, all of it or all but some."""

    state: State
    reason: str = ""
    taken: bool = True


class _Leaving:
    """A card on its way out: its results by feedback id, and those that are new."""

    def __init__(self, card: Scorecard, due: dict[str, Result], new: Sequence[Result]) -> None:
        self.card, self.due, self.new = card, due, new


def _hash(result: Result) -> int:
    return hash(result.content_hash) & _WORD


def _together(_: str) -> bool:
    return False
