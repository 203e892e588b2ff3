"""The stand-in platform's plugins: a live source, a sink that replaces by id, a judge at the end of a line."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace as of_dataclass
from typing import TYPE_CHECKING, Any, Literal

import httpx2
from msgspec.structs import replace

from groundtrace.adapters.published import PREFIX, Result, State, receipts, results, withdrawn
from groundtrace.errors import PlatformError
from groundtrace.judges.offline import OfflineJudge
from groundtrace.judges.pool import hear
from groundtrace.model import Case, Check, Delivery, Label, Receipt, Ref, Reply, Scorecard, Signal, Trace, Window, load

if TYPE_CHECKING:
    from groundtrace.ports import Again, Choose, Sink


class FakeSource:
    """Traces of the stand-in, page by page; the spans of a trace are fetched once it is chosen."""

    platform = "fake"
    default_share = 0.1

    def __init__(self, url: str, *, ids: tuple[str, ...] = ()) -> None:
        self._url, self._line, self._ids = url, _Line(url), ids

    @staticmethod
    def delivered(told: Any) -> Delivery:
        """What a message names: the stand-in's address is the project."""
        if not isinstance(told, dict) or "traces" not in told:
            raise PlatformError("no message of a rule")
        return Delivery("rule", tuple((told["project"], ident) for ident in told["traces"]))

    def _named(self, choose: Choose) -> Iterator[Trace]:
        """The traces asked for by id; one that is not there yet may come."""
        for ident in self._ids:
            if choose(Ref("fake", trace_id=ident), ()):
                held = self._line.asked("GET", f"/traces/{ident}")
                whole = load(Trace, held["whole"]) if held else Trace(Ref("fake", trace_id=ident), complete=False)
                yield replace(whole, ref=of_dataclass(whole.ref, platform="fake", trace_id=ident))

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:
        """Each trace that is chosen; feedback that came later counts."""
        if self._ids:
            yield from self._named(choose)
            return
        late: dict[str, tuple[Signal, ...]] = {}
        for said in self._line.asked("GET", "/feedback"):
            signal = Signal(said["name"], said["value"], negative=said["value"] < 0)
            late[said["trace"]] = (*late.get(said["trace"], ()), signal)
        bounds = {"since": window.since, "until": window.until, "start": 0}
        while bounds["start"] is not None:
            page = self._line.asked("GET", "/traces", params={k: v for k, v in bounds.items() if v is not None})
            for ident in page["traces"]:
                signals = late.get(ident, ())
                if choose(Ref("fake", trace_id=ident), signals):
                    whole = load(Trace, self._line.asked("GET", f"/traces/{ident}")["whole"])
                    yield replace(whole, ref=of_dataclass(whole.ref, platform="fake", trace_id=ident), signals=signals)
            bounds["start"] = page["next"]

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """None here."""
        yield from ()

    def doctor(self) -> Iterable[Check]:
        """Whether it answers."""
        return [Check("answers", well=self._line.asked("GET", "/feedback") is not None)]

    def home(self) -> Sink:
        """The scores go to where the traces are."""
        return FakeSink(self._url)

    def notes(self) -> tuple[str, ...]:
        """Nothing is unreadable here."""
        return ()


class FakeSink:
    """Puts each score in its place; what the card no longer says there is withdrawn."""

    name = "fake"
    updates: Literal["upsert", "append"] = "upsert"

    def __init__(self, url: str) -> None:
        self._line = _Line(url)

    def write(self, cards: Iterable[Scorecard]) -> Iterable[Receipt]:
        """Write card after card; each score's fate is as the platform tells it."""
        for card in cards:
            held = self._line.asked("GET", "/scores", params={"cards": card.id})
            over = withdrawn(card, [score["name"].removeprefix(PREFIX) for score in held.values()])
            states: dict[str, State] = {}
            lost: list[Receipt] = []
            why = ""
            for result in (*results(card), *over):
                try:
                    states[result.feedback_id] = self._put(card, result)
                except httpx2.TransportError:  # it may have arrived
                    lost.append(_unconfirmed(card, result))
                except PlatformError as error:
                    states[result.feedback_id], why = "failed", str(error)
            unsure = {receipt.score for receipt in lost}
            told = receipts(card, self.name, states, {"failed": why}, [result.score for result in over])
            yield from (receipt for receipt in told if receipt.score not in unsure)
            yield from lost

    def _put(self, card: Scorecard, result: Result) -> State:
        body = {
            "card": card.id,
            "trace": card.ref.trace_id,
            "name": result.name,
            "value": result.value,
            "label": result.label,
            "reason": result.explanation or result.error,
            "content_hash": result.content_hash,
            "by": os.getpid(),
        }
        state: State = self._line.asked("PUT", f"/scores/{result.feedback_id}", json=body)["state"]
        return state


class FakeJudge:
    """A model somewhere else that takes its time and answers as the offline judge would."""

    kind: Literal["llm"] = "llm"
    limits = "Answers as the offline judge does."

    def __init__(self, url: str, *, concurrency: int = 8) -> None:
        self.id = "fake:model"
        self._wise = OfflineJudge()
        self._line, self._concurrency = _Line(url), concurrency

    def unassessed(self, rubric: str) -> frozenset[str]:
        """What the offline judge can't assess."""
        return self._wise.unassessed(rubric)

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Ask several at once."""
        return hear(cases, again, self._ask, self._concurrency)

    def _ask(self, case: Case) -> Reply:
        try:
            self._line.asked("POST", "/ask", json={"digest": case.digest, "by": os.getpid()})
        except (PlatformError, httpx2.TransportError) as error:
            return Reply("", self.id, fault=str(error))
        ((_, reply),) = self._wise.hear([case], lambda _, __: None)
        return of_dataclass(reply, judge=self.id)


class _Line:
    """A line to the stand-in, that is cut when nobody holds it any more: no port says when a plugin is done with."""

    def __init__(self, url: str) -> None:
        self._client = httpx2.Client(base_url=url, timeout=60, trust_env=False)
        weakref.finalize(self, self._client.close)

    def asked(self, method: str, path: str, **told: Any) -> Any:
        """The answer; PlatformError where it is a refusal."""
        answer = self._client.request(method, path, **told)
        if answer.status_code != 200:
            denied = answer.status_code in (401, 403)
            raise PlatformError(f"fake: {method} {path} was answered by {answer.status_code}", denied=denied)
        return answer.json()


def _unconfirmed(card: Scorecard, result: Result) -> Receipt:
    return Receipt(
        card_id=card.id,
        score=result.score,
        state="unconfirmed",
        reason="the connection ended before the answer",
        feedback_id=result.feedback_id,
        content_hash=card.content_hash,
    )
