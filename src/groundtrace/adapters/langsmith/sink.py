"""Scores as feedback on LangSmith's runs: read what is there, write what differs, look whether it has come."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Literal

from groundtrace.adapters.facts import fault
from groundtrace.adapters.langsmith import feedback
from groundtrace.adapters.langsmith.api import CONNECTIONS, Api
from groundtrace.adapters.langsmith.feedback import Place, Row
from groundtrace.adapters.langsmith.review import Queues
from groundtrace.adapters.langsmith.rows import zoned
from groundtrace.adapters.patience import Looks, Refused
from groundtrace.adapters.published import Result, State, receipts_of, results, withdrawn
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Receipt, Scorecard, Target

RUNS = 50
"""Runs asked about at once: their ids must fit into an address."""

_BRIEF = 10.0
"""Seconds after which a server that did not answer before is looked at no more."""

_FATAL = frozenset({401, 403, 501})
"""What says that no other write will be taken either."""

_OF_ONE = frozenset({400, 409, 413, 422})
"""What is said of one write alone; anything else was asked again for as long as is waited."""

_NAME_IT = "write --to langsmith:PROJECT"
_ABOUT_CONFIG = "config"
_OTHER_RANGE = "{} has another range on LangSmith: its charts are drawn by that"
_MENDS = 3
"""How often one write is mended: an id that is there, a range that differs, a body too large."""

_FULL = "; where the limit of extended retention is reached, extend_retention=false still writes"
_BEFORE = dt.timedelta(days=400)
"""How long before now a run is looked for: LangSmith refuses a span of more than 401 days."""

_KEPT = "a person's or a better judge's score stands"
_EDITED = "somebody changed it on LangSmith"


class LangSmithSink:
    """Puts each published score on its run as one feedback, `groundtrace.` before its name.

    Ids are made from the trace and the score, so a second run changes nothing and a new version replaces the old one in
    place: rows are read, then created, changed or left, and never deleted (LangSmith brings deleted ones back). What
    people said (feedback of the app, corrections of ours, numbers somebody edited) is never written over.

    `project` is where a card goes that does not say where it is from; it is asked for with the first of them. `target`
    is the run of the whole request, of the answer or of the retriever; LangSmith's tables, charts and filters look at
    roots. `queue` puts cards a person must see into the rubric's annotation queue.

    Feedback costs: by LangSmith's default it moves a trace from 14 days of retention to 400, at ten times the price.
    Here it does not, unless `extend_retention` says so. Only self-hosted servers that know the flag can heed it.

    Not verified on a real account: that a change may carry more than score, value and comment (a server that refuses
    that is asked for those alone) and leaves retention as it is, that feedback on a run not ingested is refused with
    404, and how soon feedback is listed; a row not listed after half a minute is "unconfirmed", so the next run looks
    again.
    """

    name = "langsmith"
    updates: Literal["upsert", "append"] = "upsert"

    def __init__(
        self,
        project: str | None = None,
        *,
        url: str | None = None,
        workspace: str | None = None,
        target: Target = "root",
        extend_retention: bool = False,
        queue: bool = False,
        concurrency: int = CONNECTIONS,
        api: Api | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if concurrency < 1:
            raise PlanError("concurrency", concurrency, "is no number of threads")
        self.api = api or Api(url, workspace)
        self._project = project or ""
        self._target: Target = target
        self._extend, self._threads = extend_retention, concurrency
        self._queues = Queues(self.api, extend_retention=extend_retention) if queue else None
        self._ranges: dict[str, dict[str, Any] | None] = {}
        self._bare = False
        """Whether LangSmith refused a change of more than it documents."""
        self._notes: dict[str, None] = {}
        self._ingest, self._listing = Looks(sleep), Looks(sleep)

    def notes(self) -> tuple[str, ...]:
        """What else should be known of what was written, one line each."""
        return tuple(self._notes)

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for LangSmith no more once `stopping` says so."""
        self.api.stop_when(stopping)

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Write the cards' scores and say what became of each one; PlatformError where LangSmith takes none at all."""
        left = iter(cards)
        while chunk := list(islice(left, RUNS)):
            yield from self._chunk(chunk)

    def _chunk(self, cards: Sequence[Scorecard]) -> Iterator[Receipt]:
        leaving = [_Leaving(card, feedback.place_of(feedback.target_of(card, self._target))) for card in cards]
        self._locate(leaving)
        known = [one for one in leaving if one.fate is None]
        held = self._read({one.place.run_id for one in known if one.place})
        due = [write for one in known for write in one.decide(held, extend=self._extend)]
        self._prepare(due)
        refused = self._send(due)
        self._confirm([write for write in due if write.went])
        if refused is None and self._queues is not None:
            self._offer([one for one in known if one.card.waits])
        for one in leaving:
            yield from one.receipts(self.name)
        if refused is not None:
            raise refused

    # --- where they go ------------------------------------------------------------------------------------------------

    def _locate(self, leaving: Sequence[_Leaving]) -> None:
        """Find the project and the start of every run; one that is not ingested yet is waited for a while."""
        for one in leaving:
            if one.place is None:
                one.lose("failed", f"{one.card.ref.trace_id!r} is no trace of LangSmith's")
                continue
            try:
                one.place = one.place._replace(project_id=self._project_of(one.place.project_id))
            except PlanError as error:
                one.lose("failed", str(error))
        looks = 0
        while lacking := [one for one in leaving if one.fate is None and one.place and not one.place.start_time]:
            found = self._look_up([one.place for one in lacking if one.place])
            for one in lacking:
                one.place = found.get(one.place.run_id, one.place) if one.place else None
            if found:
                looks = 0
            elif self._ingest.allows(looks):
                looks += 1
            else:
                for one in lacking:
                    run_id = one.place.run_id if one.place else ""
                    one.lose("unconfirmed", f"LangSmith has no run {run_id} in this project, or not yet")

    def _project_of(self, named: str) -> str:
        """A project's id: its own, or that of its name, or of the one the sink was made for."""
        if ident := feedback.identity(named):
            return ident
        if not (named or self._project):
            raise PlanError("to", "langsmith", "does not say which project its run is in", hint=_NAME_IT)
        return self.api.project(named or self._project).id

    def _look_up(self, places: Sequence[Place]) -> dict[str, Place]:
        """Runs by their ids, with what their feedback needs."""
        found: dict[str, Place] = {}
        for project in {place.project_id for place in places}:
            ids = sorted({place.run_id for place in places if place.project_id == project})
            for row in self._runs(project, ids):
                ident, start = feedback.identity(row.get("id")), zoned(row.get("start_time"))
                if ident and start:
                    trace = feedback.identity(row.get("trace_id")) or ident
                    found[ident] = Place(ident, trace, project, start)
        return found

    def _runs(self, project: str, ids: Sequence[str]) -> Iterable[Mapping[str, Any]]:
        if self.api.generation == "v2":
            since = (dt.datetime.now(dt.UTC) - _BEFORE).isoformat()
            asked = {
                "project_ids": [project],
                "ids": ids,
                "selects": ["ID", "TRACE_ID", "START_TIME"],
                "min_start_time": since,
                "page_size": 1000,
            }
            try:
                return _items(self.api.call("POST", "/api/v2/runs/query", json=asked, tier="wide"), "items")
            except Refused as refused:
                if refused.status != 404:
                    raise
        asked = {"id": ids, "session": [project], "select": ["id", "trace_id", "start_time"], "limit": 100}
        return _items(self.api.call("POST", "/runs/query", json=asked, tier="query"), "runs")

    # --- what is there ------------------------------------------------------------------------------------------------

    def _read(self, runs: Iterable[str], patience: float | None = None) -> dict[str, Row]:
        """Our feedback on these runs, by id. Keys are not named: a score of an earlier version may have any."""
        found: dict[str, Row] = {}
        ids = iter(sorted(runs))
        while asked := list(islice(ids, RUNS)):
            for told in feedback.pages(self.api, {"run": asked, "source": feedback.SOURCE}, patience):
                found |= {row.id: row for row in feedback.rows(told)}
        return found

    def _prepare(self, due: Sequence[_Write]) -> None:
        """Give every key its range before its first score, so that charts have bounds; one that differs is left."""
        wanted = {write.result.name: feedback.ranged(write.result) for write in due if write.state is None}
        new = {key: config for key, config in wanted.items() if config and key not in self._ranges}
        if not new:
            return
        self._ranges |= new
        try:
            there = self.api.call("GET", "/feedback-configs", params={"key": sorted(new)})
            known = {row["feedback_key"]: row.get("feedback_config") for row in there or () if "feedback_key" in row}
            for key, config in new.items():
                if key not in known:
                    asked = {"feedback_key": key, "feedback_config": config}
                    self.api.call("POST", "/feedback-configs", json=asked, tier="write")
                elif not _alike(known[key], config):
                    self._ranges[key] = None
                    self._note(_OTHER_RANGE.format(key))
        except Refused as refused:
            self._note(f"the ranges of scores are not set up front: {refused}")

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, due: Sequence[_Write]) -> PlatformError | None:
        """Send what is to be written; what says that nothing will be taken ends it."""
        waiting = [write for write in due if write.state is None]
        for looks in count():
            if not waiting:
                break
            if (refused := self._send_once(waiting)) is not None:
                return refused
            waiting = [write for write in waiting if write.state is None]
            if not waiting and looks:
                self._ingest.met()
            elif waiting and not self._ingest.allows(looks):
                for write in waiting:
                    write.end("unconfirmed", "LangSmith has no such run yet")
                break
        return None

    def _send_once(self, waiting: Sequence[_Write]) -> PlatformError | None:
        """Send each; where LangSmith refuses all, or did not answer one for as long as is waited, the rest is left."""
        stopped: list[Refused] = []

        def send(write: _Write) -> None:
            if not stopped and (refused := self._tried(write)) is not None:
                stopped.append(refused)

        with ThreadPoolExecutor(min(self._threads, len(waiting)), "langsmith") as pool:
            list(pool.map(send, waiting))
        for write in waiting if stopped else ():
            if write.state is None:
                write.end("failed", str(stopped[0]))
        fatal = next((refused for refused in stopped if refused.status in _FATAL), None)
        return self._why(fatal) if fatal else None

    def _tried(self, write: _Write) -> Refused | None:
        """Send one; what was refused is given where it says that the next one will be too."""
        try:
            self._put(write)
        except Refused as refused:
            if refused.status == 404:
                write.there = False  # not ingested yet; or the row was deleted since it was read
                return None
            if refused.status == 0:
                write.doubt(str(refused))
            elif refused.status not in _FATAL:
                write.end("failed", str(refused))
            return None if refused.status in _OF_ONE else refused
        return None

    def _why(self, refused: Refused) -> PlatformError:
        more = _FULL if refused.status == 403 and self._extend else ""
        return PlatformError(f"{refused}{more}") if more else refused

    def _put(self, write: _Write) -> None:
        """Create or change one row; what can be mended of it is, and it is sent once more."""
        made = write.made
        if self._ranges.get(write.result.name) is None:
            made = _without_range(made)
        bare = self._bare
        for _ in range(_MENDS):
            try:
                self._ask(write, made, bare=bare)
            except Refused as refused:
                if refused.status in (400, 422) and write.there and not bare:
                    bare = True
                elif (mended := self._mended(write, made, refused)) is not None:
                    made = mended
                else:
                    raise
            else:
                self._bare = self._bare or (write.there and bare)
                return
        self._ask(write, made, bare=bare)

    def _mended(self, write: _Write, made: Mapping[str, Any], refused: Refused) -> Mapping[str, Any] | None:
        """What to send instead of what was refused; None where nothing can be mended."""
        key = write.result.name
        if refused.status == 409 and not write.there:
            write.there = True
            return made
        if refused.status == 400 and _ABOUT_CONFIG in refused.detail.lower() and "feedback_config" in made:
            self._ranges[key] = None
            self._note(_OTHER_RANGE.format(key))
            return _without_range(made)
        if refused.status == 413 and len(made["comment"]) > feedback.TRIMMED:
            self._note("LangSmith refused comments as too long: they are cut, the store has them whole")
            return feedback.trimmed(made)
        return None

    def _ask(self, write: _Write, made: Mapping[str, Any], *, bare: bool) -> None:
        if write.there:
            change = feedback.changed(made, bare=bare)
            self.api.call("PATCH", f"/feedback/{write.result.feedback_id}", json=change, tier="write")
        else:
            self.api.call("POST", "/feedback", json=made, tier="write")
        write.end("written")

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def _confirm(self, went: Sequence[_Write]) -> None:
        """Look whether what was taken is listed; a while later again, and else it is unconfirmed."""
        missing = list(went)
        patience = _BRIEF if all(write.state == "unconfirmed" for write in missing) else None
        for looks in count():
            if not missing:
                return
            try:
                held = self._read({write.made["run_id"] for write in missing}, patience)
            except Refused as refused:
                for write in missing:
                    write.end("unconfirmed", write.reason or f"it could not be read back: {refused}")
                return
            for write in missing:
                if write.stands(held):
                    write.end("written")
            missing = [write for write in missing if not write.stands(held)]
            if not missing:
                self._listing.met()
            elif not self._listing.allows(looks):
                for write in missing:
                    write.end("unconfirmed", write.reason or "LangSmith took it and does not list it yet")
                return

    def _offer(self, waiting: Sequence[_Leaving]) -> None:
        """Put cards a person must see into their queues; trouble with that takes no score back."""
        if self._queues is None or not waiting:
            return
        try:
            self._queues.offer([(one.card, one.place) for one in waiting if one.place])
        except (Refused, PlanError) as error:
            self._note(f"cards a person must see are not in the annotation queue: {error}")

    def _note(self, what: str) -> None:
        self._notes[what] = None


@dataclass
class _Write:
    """One result on its way: what is sent of it, whether a row is there, and what became of it (None: nothing yet)."""

    result: Result
    made: Mapping[str, Any]
    there: bool
    state: State | None = None
    reason: str = ""
    went: bool = False

    def end(self, state: State, reason: str = "") -> None:
        """Note what became of it."""
        self.state, self.reason, self.went = state, reason, state == "written"

    def doubt(self, reason: str) -> None:
        """Note that no answer came: it may have arrived."""
        self.state, self.reason, self.went = "unconfirmed", reason, True

    def stands(self, held: Mapping[str, Row]) -> bool:
        """Whether it is listed."""
        row = held.get(self.result.feedback_id)
        return row is not None and feedback.holds(row, self.made, self.result)


@dataclass
class _Leaving:
    """A card on its way out."""

    card: Scorecard
    place: Place | None
    writes: list[_Write] = field(default_factory=list)
    fate: tuple[State, str] | None = None

    def lose(self, state: State, reason: str) -> None:
        """Note that nothing of it can be sent."""
        self.fate = state, reason

    def decide(self, held: Mapping[str, Row], *, extend: bool) -> list[_Write]:
        """What is to be done with each of its results, held against what is there."""
        if self.place is None:  # lost before
            return []
        here = (row for row in held.values() if row.run_id == self.place.run_id)
        ended = withdrawn(self.card, [row.name for row in here if row.id == self.card.feedback_id(row.name)])
        for result in (*results(self.card), *ended):
            if (wrong := fault(result)) is not None:
                self.writes.append(_Write(result, {}, there=False, state="failed", reason=wrong))
                continue
            row = held.get(result.feedback_id)
            made = feedback.body(self.card, result, self.place, extend=extend)
            write = _Write(result, made, there=row is not None)
            if row is not None:
                self._against(row, write)
            self.writes.append(write)
        return self.writes

    def _against(self, row: Row, write: _Write) -> None:
        due = feedback.due_of(self.card, write.result)
        if row.edited:
            write.state, write.reason = "kept", _EDITED
        elif row.stamp.content_hash == due.content_hash:
            edited = not feedback.same(row.score, write.made["score"])
            write.state, write.reason = ("kept", _EDITED) if edited else ("unchanged", "")
        elif row.stamp.rank > due.rank:
            write.state, write.reason = "kept", _KEPT

    def receipts(self, sink: str) -> Iterator[Receipt]:
        """What became of each of its scores."""
        return receipts_of(self.card, sink, self.writes, self.fate)


def _items(told: object, name: str) -> Iterable[Mapping[str, Any]]:
    listed = told.get(name) if isinstance(told, Mapping) else None
    return [item for item in listed or () if isinstance(item, Mapping)]


def _alike(known: object, wanted: Mapping[str, Any]) -> bool:
    """Whether two ranges are the same, however the server spells its numbers."""
    if not isinstance(known, Mapping):
        return False
    return all(known.get(name) == told for name, told in wanted.items())


def _without_range(made: Mapping[str, Any]) -> dict[str, Any]:
    return {name: told for name, told in made.items() if name != "feedback_config"}
