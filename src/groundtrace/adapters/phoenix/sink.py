"""Scores as annotations on Phoenix: read what is there, write what differs, wait for spans that are still on their way.

Phoenix takes a batch whole or not at all: one span it does not know refuses all of it, so a refused batch is halved
until what is refused stands alone. What it does not know yet is waited for a while, for spans wait in a queue of
Phoenix's before they can be annotated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from groundtrace.adapters.facts import fault
from groundtrace.adapters.patience import AGAIN, Looks, Refused
from groundtrace.adapters.phoenix.annotations import (
    Annotation,
    Kind,
    Row,
    due_of,
    identifier,
    of_documents,
    of_result,
    of_session,
    placeless,
    row_of,
    spans_of,
)
from groundtrace.adapters.phoenix.api import ANNOTATIONS, PLATFORM, Api
from groundtrace.adapters.phoenix.configs import Configs
from groundtrace.adapters.phoenix.said import OURS, listed
from groundtrace.adapters.published import Result, State, receipts, results, withdrawn
from groundtrace.errors import PlanError
from groundtrace.model import Receipt, Scorecard

CARDS, ITEMS = 50, 200
"""Cards that are read about, and annotations that are sent, at once."""

_FATAL = frozenset({401, 403, 507})
"""What says that no other write will be taken either."""

_UNKNOWN = frozenset({404})
_KEPT = "a person's or a better judge's score stands"
_EDITED = "somebody changed it on Phoenix"
_NAME_IT = "write --to phoenix:PROJECT"
_ORDER: tuple[State, ...] = ("failed", "unconfirmed", "written", "kept", "unchanged")


class PhoenixSink:
    """Puts each published score on Phoenix as annotations of its spans and, where it is its rubric's own, of its trace.

    Names are short, for Phoenix cuts them: the rubric's own score has the rubric's name, others the last part of
    theirs. The identifier is made from the rubric, so a second run changes nothing, and a new version or another judge
    takes the place of the old one. What people said is never written over. With `sessions` a trace's score is one of
    its session's too, with `documents` the retriever's documents show how well each of them backs the answer; both are
    written with the scores they belong to, and not read back: Phoenix tells a session's under one project alone, and a
    document's not at all.

    `project` is where a card goes that does not say where it is from; `base_url` as for the source.
    """

    name = PLATFORM
    updates: Literal["upsert", "append"] = "upsert"
    reads_back = True
    batch = CARDS

    def __init__(
        self,
        project: str | None = None,
        *,
        base_url: str | None = None,
        sessions: bool = True,
        documents: bool = True,
        api: Api | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.api = api or Api(base_url)
        self._project = project or ""
        self._sessions, self._documents = sessions, documents
        self._configs = Configs(self.api)
        self._soon = Looks(sleep)
        self._left: dict[str, int] = {}
        """What could not be shown beside the scores, by why."""

    def notes(self) -> tuple[str, ...]:
        """What else should be known of what was written, one line each."""
        return (*self._configs.notes, *(f"{n:,} {why}" for why, n in self._left.items()))

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for Phoenix no more once `stopping` says so."""
        self.api.stop_when(stopping)

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Write the cards' scores and say what became of each one; PlatformError where Phoenix takes none at all."""
        left = iter(cards)
        while chunk := list(islice(left, CARDS)):
            yield from self._chunk(chunk)

    def undo(self, rubric: str, project: str | None = None) -> int:
        """Take back all that was written of a rubric to a project, documents aside; how many annotations of spans."""
        there = self.api.project(project or self._project)
        if there is None:
            return 0
        own = f"{OURS}{rubric}"
        found = [one for one in self._of_identifiers(there, "span", [own]) if one is not None]
        for request in {one.request for one in found}:
            for kind in ("trace", "session"):
                self._delete(there, kind, f"{own}:{request}")
        self._delete(there, "span", own)
        return len(found)

    def _delete(self, project: str, kind: str, found: str) -> None:
        asked = {"identifier": found, "delete_all": "true"}
        self.api.call("DELETE", f"/projects/{project}/{kind}_annotations", params=asked)

    def _chunk(self, cards: Sequence[Scorecard]) -> Iterator[Receipt]:
        leaving = [_Leaving(card) for card in cards]
        refused: Refused | None = None
        for name in dict.fromkeys(map(self._project_of, leaving)):
            here = [one for one in leaving if one.fate is None and one.project == name]
            if refused is None and here:
                refused = self._to_project(name, here)
            elif refused is not None:
                for one in here:
                    one.lose("failed", str(refused))
        for one in leaving:
            yield from one.receipts(self.name)
        if refused is not None and refused.status in _FATAL:
            raise refused

    # --- where they go ------------------------------------------------------------------------------------------------

    def _project_of(self, one: _Leaving) -> str:
        """The project a card goes to; it is lost where that is not known, or where its ids are none of Phoenix's."""
        if (wrong := placeless(one.card)) is not None:
            one.lose("failed", wrong)
            return ""
        of = one.card.ref
        one.project = (of.project if of.platform == PLATFORM else None) or self._project
        if not one.project:
            one.lose(
                "failed", str(PlanError("to", PLATFORM, "does not say which project a trace is in", hint=_NAME_IT))
            )
        return one.project

    def _to_project(self, name: str, here: Sequence[_Leaving]) -> Refused | None:
        """Write cards to one project; what was refused is given where it says that the next will be too."""
        sent = False
        try:
            project = self._there(name)
            if project is None:
                why = self.api.unknown(name)
                for one in here:
                    one.lose("failed", why)
                return None
            held = self._read(project, [one.card for one in here])
            for one in here:
                one.decide(held, sessions=self._sessions, documents=self._documents)
            self._configs.give(project, (write.of for one in here for write in one.going if write.state is None))
            sent = True
            self._send([write for one in here for write in one.going])
        except Refused as refused:
            for one in here:
                one.lose("unconfirmed" if sent and refused.status == 0 else "failed", str(refused))
            return refused
        return None

    def _there(self, name: str) -> str | None:
        looks = 0
        while (found := self.api.project(name)) is None and self._soon.allows(looks):
            looks += 1
        return found

    # --- what is there ------------------------------------------------------------------------------------------------

    def _read(self, project: str, cards: Sequence[Scorecard]) -> dict[tuple[Any, str, str], Row]:
        """Our annotations on these cards' spans and traces."""
        spans = sorted({ident for card in cards for ident in spans_of(card)})
        traces = sorted({card.ref.trace_id for card in cards})
        found: dict[tuple[Any, str, str], Row] = {}
        of: tuple[tuple[Kind, list[str]], ...] = (("span", spans), ("trace", traces))
        for kind, idents in of:
            names = {"identifier": sorted({identifier(card, kind) for card in cards})}
            rows = (row_of(kind, told) for told in listed(self.api, project, kind, idents, names))
            found |= {row.key: row for row in rows if row is not None}
        return found

    def _of_identifiers(self, project: str, kind: Kind, identifiers: Sequence[str]) -> Iterator[Row | None]:
        asked = {"identifier": list(identifiers)}
        for page in self.api.pages(f"/projects/{project}/{kind}_annotations", asked, limit=ANNOTATIONS):
            yield from (row_of(kind, told) for told in page)

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, going: Sequence[_Write]) -> None:
        """Send what is to be written, what is not read back before what tells that it was; unknown spans come soon."""
        for kind in ("document", "session", "span", "trace"):
            waiting = [write for write in going if write.of.place.kind == kind and write.state is None]
            looks = 0
            while waiting:
                for start in range(0, len(waiting), ITEMS):
                    self._post(kind, waiting[start : start + ITEMS])
                still = [write for write in waiting if write.state is None]
                if len(still) < len(waiting):
                    self._soon.met()
                    looks = 0
                waiting = still
                # a session may be of no project, or not be one at all: nobody waits for it
                if waiting and (kind == "session" or not self._soon.allows(looks)):
                    for write in waiting:
                        write.end("unconfirmed", f"Phoenix has no {kind} {write.of.place.ident}, or not yet")
                    break
                looks += 1
        for write in going:
            if write.beside and write.state not in ("written", "unchanged", "kept"):
                why = f"scores are not shown at {write.of.place.kind}s: {write.why}"
                self._left[why] = self._left.get(why, 0) + 1

    def _post(self, kind: str, batch: Sequence[_Write]) -> None:
        """Send a batch; one that is refused is halved until what is refused stands alone, and waits or has failed."""
        asked = {"data": [dict(write.of.body) for write in batch]}
        try:
            told = self.api.call("POST", f"/{kind}_annotations", json=asked, params={"sync": "true"})
        except Refused as refused:
            if refused.status in _FATAL or refused.status in AGAIN or refused.status == 0:
                raise
            if len(batch) > 1:
                half = len(batch) // 2
                self._post(kind, batch[:half])
                self._post(kind, batch[half:])
            elif refused.status not in _UNKNOWN:
                batch[0].end("failed", refused.detail or str(refused))
            return
        ids = told.get("data") if isinstance(told, Mapping) else None
        taken = isinstance(ids, list) and len(ids) == len(batch)
        for write in batch:
            write.end("written" if taken else "unconfirmed", "" if taken else "Phoenix did not say that it took it")


@dataclass
class _Write:
    """One annotation on its way, and what became of it (None: nothing yet); `beside` the scores that are read back."""

    of: Annotation
    beside: bool = False
    state: State | None = None
    why: str = ""

    def end(self, state: State, why: str = "") -> None:
        """Note what became of it."""
        self.state, self.why = state, why


@dataclass
class _Leaving:
    """A card on its way out."""

    card: Scorecard
    project: str = ""
    writes: list[_Write] = field(default_factory=list)
    extras: list[_Write] = field(default_factory=list)
    faults: dict[str, tuple[Result, str]] = field(default_factory=dict)
    over: list[str] = field(default_factory=list)
    fate: tuple[State, str] | None = None

    @property
    def going(self) -> Sequence[_Write]:
        """All that may be sent."""
        return [*self.writes, *self.extras]

    def lose(self, state: State, reason: str) -> None:
        """Note that nothing more of it can be sent."""
        self.fate = state, reason

    def decide(self, held: Mapping[Any, Row], *, sessions: bool, documents: bool) -> None:
        """What is to be done with each of its results, held against what is there."""
        card = self.card
        mine = [row for row in held.values() if row.card_id == card.id]
        ended = withdrawn(card, {row.stamp.score for row in mine if row.stamp.score})
        self.over = [result.score for result in ended]
        for result in (*results(card), *ended):
            if (wrong := fault(result)) is not None:
                self.faults[result.feedback_id] = result, wrong
                continue
            new = [_Write(annotation) for annotation in of_result(card, result)]
            for write in new:
                _against(held.get(write.of.key), card, write)
            kept = next((write for write in new if write.state == "kept"), None)
            if kept is not None:  # who changed a score in one place means it everywhere
                for write in new:
                    write.end("kept", kept.why)
            self.writes += new
            if any(write.state is None for write in new):
                self._beside(result, sessions=sessions, documents=documents and (bool(mine) or card.status == "scored"))

    def _beside(self, result: Result, *, sessions: bool, documents: bool) -> None:
        """What goes with a result and is not read back."""
        told: list[Annotation] = [*of_session(self.card, result)] if sessions else []
        told += of_documents(self.card, result) if documents else ()
        self.extras += (_Write(annotation, beside=True) for annotation in told)

    def receipts(self, sink: str) -> Iterator[Receipt]:
        """What became of each of its scores: the worst of what became of its annotations."""
        states: dict[str, State] = {}
        reasons: dict[str, str] = {}
        if self.fate is not None:
            fate, why = self.fate
            states = {result.feedback_id: fate for result in results(self.card)}
            reasons = {fate: why}
        for write in self.writes:
            ident, state = write.of.result.feedback_id, write.state
            if state is None or ((known := states.get(ident)) and _ORDER.index(known) <= _ORDER.index(state)):
                continue
            states[ident] = state
            reasons |= {ident: write.why, state: write.why} if write.why else {}
        for ident, (_, why) in self.faults.items():
            states[ident], reasons[ident] = "failed", why
        changed = {write.of.result.score for write in self.writes if write.state not in ("unchanged", "kept")}
        yield from receipts(self.card, sink, states, reasons, [name for name in self.over if name in changed])


def _against(row: Row | None, card: Scorecard, write: _Write) -> None:
    """Hold an annotation against the one that is there."""
    if row is None:
        return
    due = due_of(card, write.of.result)
    if row.edited:
        write.end("kept", _EDITED)
    elif row.stamp.content_hash == due.content_hash and row.card_id == card.id:
        write.end("unchanged")
    elif row.stamp.rank > due.rank:
        write.end("kept", _KEPT)
