"""Scores as scorer spans on Braintrust: read what is there, write what differs, look whether it has come."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from groundtrace.adapters.braintrust import btql, review, scored
from groundtrace.adapters.braintrust.api import PLATFORM, Api, Place, Row
from groundtrace.adapters.braintrust.columns import Columns, project_scores
from groundtrace.adapters.braintrust.scored import Held, Names, Seat, Sent
from groundtrace.adapters.braintrust.seats import Lost, Rows, ref_of, where
from groundtrace.adapters.braintrust.sending import Parcel, as_json, send
from groundtrace.adapters.ledger import stamp_of
from groundtrace.adapters.patience import AGAIN, Looks, Refused
from groundtrace.adapters.published import Result, State, receipts, results, withdrawn
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Receipt, Ref, Scorecard, Target

CARDS = 100
"""Cards that are looked up, sent and read back at once: two queries, of which there are few in a minute.

A third looks at what people put on those of ours that are to be replaced.
"""

_BRIEF = 10.0
"""Seconds after which a server that did not answer before is looked at no more."""

_NAME_IT = "write --to braintrust:PROJECT"
_KEPT = "a person's or a better judge's score stands"
_EDITED = "somebody changed it on Braintrust"


class BraintrustSink:
    """Puts each card below the span it is about, as one scorer span with all of its scores, `groundtrace_` before each.

    Ids are made from the trace and the rubric, so a second run changes nothing and a new version replaces the old one
    in place: rows are read, then written or left, and never deleted. A card goes only below a row that was read: what
    names none that is there is refused, for Braintrust would make a new trace of it. What people said (decisions,
    numbers somebody edited) is never written over; a name that a column of the project has gets `_auto` behind it.

    `project` is where a card goes that does not say where it is from, or `experiment` of it; it is asked for with the
    first of them. `target` is the span of the whole request, of the answer or of the retriever. `mirror` tells the
    root in its metadata, under `groundtrace`, how its rubrics fared: columns and filters of the logs see roots.
    `review` puts roots of cards a person must see on the review list, and asks for their scores in columns of
    people's; `assignee` is who then looks at them, by e-mail address or id.

    Not verified on a real account: that a row written whole takes the place of an earlier one of its id, that a batch
    with one row Braintrust does not take is refused as a whole (each half is sent then, down to that row), which
    characters a score's name may have, whether a merge into a root starts a project's online rules for it again (none
    is sent where a root knows already; `mirror=false` sends none), and how soon a row is listed: one not listed after
    half a minute is "unconfirmed", so the next run looks again.
    """

    name = PLATFORM
    updates: Literal["upsert", "append"] = "upsert"
    batch = CARDS

    def __init__(
        self,
        project: str | None = None,
        *,
        experiment: str | None = None,
        url: str | None = None,
        app_url: str | None = None,
        org: str | None = None,
        queries: int | None = None,
        target: Target = "root",
        mirror: bool = True,
        review: bool = False,
        assignee: str | None = None,
        api: Api | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if experiment and not project:
            raise PlanError("to", f"braintrust:,experiment={experiment}", "names no project", hint=_NAME_IT)
        if assignee and not review:
            raise PlanError("assignee", assignee, "is nobody to look at anything without review=true")
        self.api = api or Api(url, app_url, org, queries=queries)
        self._project, self._experiment = project or "", experiment or ""
        self._target: Target = target
        self._mirror, self._review, self._assigned = mirror, review, assignee or ""
        self._names: dict[str, Names] = {}
        self._assignee: str | None = None
        """The id of who looks at what people must see; None until that is asked for."""
        self._columns = Columns(self.api)
        self._notes: dict[str, None] = {}
        self._flagged = self._made = 0
        """How many roots came onto the review list, and how many columns were made for what people answer."""
        self._ingest, self._listing = Looks(sleep), Looks(sleep)

    def notes(self) -> tuple[str, ...]:
        """What else should be known of what was written, one line each."""
        done = ((self._flagged, "trace{} put onto the review list"), (self._made, "human-review column{} made"))
        told = [f"{n:,} {what.format('' if n == 1 else 's')}" for n, what in done if n]
        return (*self._notes, *([", ".join(told)] if told else []))

    def stop_when(self, stopping: Callable[[], bool]) -> None:
        """Wait for Braintrust no more once `stopping` says so."""
        self.api.stop_when(stopping)

    def write(self, cards: Iterable[Scorecard]) -> Iterator[Receipt]:
        """Write the cards' scores and say what became of each one; PlatformError where Braintrust takes none at all."""
        for chunk in _chunks(cards):
            yield from self._chunk(chunk)

    def _chunk(self, cards: Sequence[Scorecard]) -> Iterator[Receipt]:
        leaving = [_Leaving(card, ref_of(card, self._target), ref_of(card, "root")) for card in cards]
        there: dict[Place, list[_Leaving]] = {}
        for one in leaving:
            try:
                there.setdefault(self._place(one.ref), []).append(one)
            except PlanError as error:
                one.end("failed", str(error))
        refused: PlatformError | None = None
        for place, some in there.items():
            try:
                refused = self._through(place, some) or refused
            except PlatformError as error:
                for one in some:
                    if one.state is None:
                        one.end("failed", str(error))
                unreached = isinstance(error, Refused) and error.status == 0
                refused = error if error.denied or unreached else refused
        for one in leaving:
            yield from one.receipts(self.name)
        if refused is not None:
            raise refused

    def _through(self, place: Place, leaving: Sequence[_Leaving]) -> Refused | None:
        """All that goes to one place; what says that nothing will be taken there is given."""
        self._locate(place, leaving)
        names = self._named(place, leaving)
        for one in leaving:
            one.decide(names)
        self._replaced(place, leaving)
        for one in leaving:
            one.compose(names)
        roots = self._roots(place, leaving)
        seated = {id(one) for root in roots for one in root.leaving}
        groups: list[list[Parcel]] = [[*root.due(), root] for root in roots]
        groups += [[one] for one in leaving if one.state is None and id(one) not in seated]
        refused = send(self.api, place, groups)
        self._confirm(place, [one for one in leaving if one.went])
        for root in roots:
            self._flagged += root.went and root.flags is not None
            if root.trouble:
                self._note(f"roots are not told how their rubrics fared, or put on the review list: {root.trouble}")
        return refused

    # --- where they go ------------------------------------------------------------------------------------------------

    def _place(self, ref: Ref) -> Place:
        """The logs or the experiment a ref is in; else those the sink was made for."""
        if ref.platform == PLATFORM and ref.project:
            kind, _, ident = ref.keys.get("object", "").partition(":")
            if kind == "experiment" and ident:
                return Place("experiment", ident, ref.project, "")
            if kind == "project_logs":
                return Place("project_logs", ref.project, ref.project, "")
            if not self._project:
                return self.api.project(ref.project)
        if not self._project:
            raise PlanError("to", PLATFORM, "does not say which project its trace is in", hint=_NAME_IT)
        return self._home

    @functools.cached_property
    def _home(self) -> Place:
        if self._experiment:
            return self.api.experiment(self._project, self._experiment)
        return self.api.project(self._project)

    def _locate(self, place: Place, leaving: Sequence[_Leaving]) -> None:
        """Find every card's row, and what is there of ours; a row that is not there yet is waited for a while."""
        looks = 0
        lacking = [one for one in leaving if one.state is None]
        while lacking:
            rows = Rows(self._read(place, lacking))
            for one in lacking:
                one.sit(rows)
            still = [one for one in lacking if one.seat is None and one.state is None]
            if looks and len(still) < len(lacking):
                self._ingest.met()
            if not still or not self._ingest.allows(looks):
                break
            lacking, looks = still, looks + 1
        for one in leaving:
            if one.state is None and one.lost is not None and one.seat is None:
                one.end("failed" if one.lost.lack == "absent" else "unconfirmed", one.lost.reason)

    def _read(self, place: Place, leaving: Sequence[_Leaving]) -> Iterator[Row]:
        """The rows they are about and our own that are there, by one query."""
        refs = [ref for one in leaving for ref in (one.ref, one.root_ref) if ref.trace_id]
        if not refs:
            return
        asked = where(refs, [one.card.id for one in leaving])
        for page in self.api.pages(place, asked, fields=scored.FIELDS):
            yield from page

    def _named(self, place: Place, leaving: Sequence[_Leaving]) -> Names:
        """What scores are called here; a name a column has is said."""
        if place.project_id not in self._names and any(one.seat for one in leaving):
            try:
                listed = project_scores(self.api, place.project_id)
            except Refused as refused:
                if refused.status in {0, 401, *AGAIN}:
                    raise
                self._note(f"whether a column of people's has a name of our scores is not known: {refused}")
                listed = []
            columns = [str(row.get("name")) for row in listed if row.get("score_type") != "online"]
            self._names[place.project_id] = Names(columns)
        names = self._names.get(place.project_id) or Names()
        for name, ours in names.met(result.score for one in leaving for result in one.results):
            self._note(f"{name} is a column of people's in this project: ours is {ours}")
        return names

    def _replaced(self, place: Place, leaving: Sequence[_Leaving]) -> None:
        """Read what people put on those of ours that are to be replaced: no write takes that away."""
        due = {one.card.id: one for one in leaving if one.state is None and one.held is not None}
        traces = sorted({one.ref.trace_id for one in due.values()})
        asked = btql.every(btql.within("root_span_id", traces), btql.within("id", sorted(due)))
        for page in self.api.pages(place, asked, fields=scored.REPLACED) if due else ():
            for row in page:
                if (one := due.get(str(row.get("id")))) is not None and one.held is not None:
                    one.held = one.held._replace(row={**one.held.row, **row})

    # --- what roots are told ------------------------------------------------------------------------------------------

    def _roots(self, place: Place, leaving: Sequence[_Leaving]) -> list[_Root]:
        """Every root that may be told something, with its cards; those a person must see are flagged."""
        roots: dict[str, _Root] = {}
        for one in leaving if self._mirror or self._review else ():
            if one.root is not None and one.state in (None, "unchanged"):
                roots.setdefault(one.root.id, _Root(one.root, mirrored=self._mirror)).leaving.append(one)
        if self._review:
            waiting = [(one, root) for root in roots.values() for one in root.leaving if one.card.waits]
            self._ask_people(place, [one.card for one, _ in waiting])
            for one, root in waiting:
                root.flags = root.flags or review.flag(one.card, _nested(root.seat.row), self._assignee or "")
        return list(roots.values())

    def _ask_people(self, place: Place, cards: Sequence[Scorecard]) -> None:
        """Have columns for what people are asked, and know who they are; trouble with that takes no score back."""
        if not cards:
            return
        try:
            if self._assignee is None:
                self._assignee = ""
                self._assignee = review.assignee(self.api, self._assigned) if self._assigned else ""
            self._made += len(self._columns.have(place.project_id, cards))
        except (Refused, PlanError) as error:
            self._note(f"what people must see is on the review list, and not all is set up for them: {error}")

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def _confirm(self, place: Place, went: Sequence[_Leaving]) -> None:
        """Look whether what was taken is listed; a while later again, and else it is unconfirmed."""
        missing = list(went)
        patience = _BRIEF if all(one.state == "unconfirmed" for one in missing) else None
        for looks in count():
            if not missing:
                return
            try:
                there = self._listed(place, missing, patience)
            except PlatformError as refused:
                for one in missing:
                    one.end("unconfirmed", one.reason or f"it could not be read back: {refused}")
                return
            for one in missing:
                if there.get(one.card.id) == one.card.content_hash:
                    one.end("written")
            missing = [one for one in missing if there.get(one.card.id) != one.card.content_hash]
            if not missing:
                self._listing.met()
            elif not self._listing.allows(looks):
                for one in missing:
                    one.end("unconfirmed", one.reason or "Braintrust took it and does not list it yet")
                return

    def _listed(self, place: Place, went: Sequence[_Leaving], patience: float | None) -> Mapping[str, str]:
        """Which content stands in each of these rows."""
        asked = btql.every(
            btql.within("root_span_id", sorted({one.ref.trace_id for one in went})),
            btql.within("id", sorted(one.card.id for one in went)),
        )
        fields = (("id",), ("metadata", scored.OURS))
        pages = self.api.pages(place, asked, fields=fields, patience=patience)
        return {str(row.get("id")): scored.held(row).stamp.content_hash for page in pages for row in page}

    def _note(self, what: str) -> None:
        self._notes[what] = None


@dataclass
class _Leaving:
    """A card on its way out, and what became of it (None: nothing yet)."""

    card: Scorecard
    ref: Ref
    root_ref: Ref
    seat: Seat | None = None
    root: Seat | None = None
    lost: Lost | None = None
    held: Held | None = None
    told: list[Result] = field(default_factory=list)
    """Its results that are sent."""
    wrong: dict[str, str] = field(default_factory=dict)
    """Those that are not, by their feedback ids, and why."""
    state: State | None = None
    reason: str = ""
    went: bool = False
    _row: dict[str, Any] = field(default_factory=dict)
    _packed: bytes = b""

    @property
    def sent(self) -> Sent:
        """What of it leaves."""
        return Sent(self.card, self.told)

    @functools.cached_property
    def results(self) -> tuple[Result, ...]:
        """What is published of it."""
        return results(self.card)

    def end(self, state: State, reason: str = "") -> None:
        """Note what became of it."""
        self.state, self.reason = state, reason

    def sit(self, rows: Rows) -> None:
        """Take the row it is about, if that was read; what its ref says wrongly is refused at once."""
        found = rows.seat(self.ref)
        if isinstance(found, Lost):
            self.lost = found
            if found.lack == "wrong":
                self.end("failed", found.reason)
            return
        self.seat = found
        root = found if self.root_ref == self.ref else rows.seat(self.root_ref)
        self.root = root if isinstance(root, Seat) else None
        there = rows.by_id.get(self.card.id)
        self.held = scored.held(there) if there is not None else None

    def decide(self, names: Names) -> None:
        """What is to be done with it, held against what is there."""
        if self.state is not None or self.seat is None:
            return
        taken: dict[str, str] = {}
        for result in self.results:
            name = names.of(result.score)
            wrong = scored.wrong(result)
            if wrong is None and name in taken:
                wrong = f"{result.score} would be called {name}, as {taken[name]} is"
            if wrong is not None:
                self.wrong[result.feedback_id] = wrong
            else:
                taken[name] = result.score
                self.told.append(result)
        if self.wrong and not self.told:
            self.end("failed", next(iter(self.wrong.values())))
        elif not self.told and self.held is None:  # nothing of it is published, and nothing was
            self.root = None
            self.end("unchanged")
        elif self.held is not None:
            self._stand(self.held, taken, self.seat)

    def compose(self, names: Names) -> None:
        """Make the row, where one is to be sent."""
        if self.state is None and self.seat is not None:
            self._row = scored.span(self.card, self.told, self.seat, names, self.held)
            self._packed = as_json(self._row)

    def _stand(self, there: Held, named: Mapping[str, str], at: Seat) -> None:
        """Leave what is there, where it is to be left; equal content under another name or span is moved."""
        due = stamp_of(self.card, self.card.content_hash)
        if there.edited(named):
            self.end("kept", _EDITED)
        elif there.stamp.content_hash != due.content_hash:
            if there.stamp.rank > due.rank:
                self.end("kept", _KEPT)
        elif there.written.keys() == named.keys() and there.row.get("span_parents") == [at.span_id]:
            self.end("unchanged")

    def packed(self) -> bytes | None:
        """The row as it is sent."""
        return self._packed

    def lighter(self) -> bool:
        """Have shorter rationales, once."""
        before, self._row = self._row, scored.trimmed(self._row)
        self._packed = as_json(self._row)
        return self._row != before

    def came(self) -> None:
        """It was taken."""
        self.end("written")
        self.went = True

    def failed(self, refused: Refused) -> None:
        """It was not taken; where no answer came it may have arrived."""
        self.end("failed" if refused.status else "unconfirmed", str(refused))
        self.went = refused.status == 0

    def receipts(self, sink: str) -> Iterator[Receipt]:
        """What became of each of its scores."""
        state: State = self.state or "failed"
        names = self.held.names if self.held is not None and state == "written" else ()
        over = [ended.score for ended in withdrawn(self.card, names)]
        due = [result.feedback_id for result in self.results] or [self.card.feedback_id(self.card.rubric)]
        states: dict[str, State] = dict.fromkeys([*due, *map(self.card.feedback_id, over)], state)
        states |= dict.fromkeys(self.wrong, "failed")
        reasons = ({state: self.reason} if self.reason else {}) | self.wrong
        yield from receipts(self.card, sink, states, reasons, over)


@dataclass
class _Root:
    """A root that is told of its cards, by one change for all of them."""

    seat: Seat
    mirrored: bool
    leaving: list[_Leaving] = field(default_factory=list)
    flags: dict[str, Any] | None = None
    trouble: str = ""
    went: bool = False

    def due(self) -> list[_Leaving]:
        """The cards below it that are to be written."""
        return [one for one in self.leaving if one.state is None]

    def packed(self) -> bytes | None:
        """The change; of cards that were refused meanwhile it says nothing."""
        standing = [one.sent for one in self.leaving if one.state in (None, "written")]
        unchanged = [one.sent for one in self.leaving if one.state == "unchanged"]
        told = scored.mirror(self.seat.row, standing, unchanged) if self.mirrored else None
        flags = self.flags if standing or unchanged else None
        event = scored.together(self.seat.id, [told, flags])
        return None if event is None else as_json(event)

    def lighter(self) -> bool:
        """It has little to say as it is."""
        return False

    def came(self) -> None:
        """It was taken."""
        self.went = True

    def failed(self, refused: Refused) -> None:
        """It was not taken, which takes no score back."""
        self.trouble = str(refused)


def _chunks(cards: Iterable[Scorecard]) -> Iterator[list[Scorecard]]:
    """The cards, as many at a time as go at once; two versions of one card never do."""
    some: dict[str, Scorecard] = {}
    for card in cards:
        if card.id in some or len(some) == CARDS:
            yield list(some.values())
            some = {}
        some[card.id] = card
    if some:
        yield list(some.values())


def _nested(row: Row) -> Row:
    """A row as the review list reads it."""
    names = (review.LISTS, review.ASSIGNED)
    metadata = {name: row.get(f"metadata.{name}") for name in names}
    return {"id": row.get("id"), "metadata": {name: told for name, told in metadata.items() if told is not None}}
