"""People on Braintrust: rows they must see come onto the review list, and what they say comes back as labels.

Not verified on a real account: where a review says whose it is (places that other rows use are tried; one that does
not say is somebody's, told apart by its row), and that a transaction tells when a row was changed (where it can't be
believed the row counts as new).
Reviews are rows of type "review" below the reviewed one, on which the mean of their numbers stands [documentation].
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from groundtrace.adapters.asked import asked, levels, urgency
from groundtrace.adapters.braintrust import btql, rows
from groundtrace.adapters.braintrust.api import Api, Place, Row, listed
from groundtrace.adapters.braintrust.columns import COLUMN, column, is_human, project_scores
from groundtrace.adapters.braintrust.names import name_of
from groundtrace.adapters.options import is_id
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.times import nanoseconds, written
from groundtrace.errors import PlanError
from groundtrace.model import Label, Scorecard

LISTS, ASSIGNED = "~__bt_review_lists", "~__bt_assignments"
DEFAULT_LIST = "__bt_default_review_list"
"""Where a row's metadata says that a person should see it, and who [Braintrust's knowledge base]."""

REACH = dt.timedelta(days=92)
"""How long before the last time rows may have begun that people said something of since."""

_TRACES = 50
_SOMEBODY = "somebody on Braintrust"
_FIELDS = (
    *(("id",), ("span_id",), ("root_span_id",), ("span_parents",), ("span_attributes",), ("scores",), ("metadata",)),
    *(("audit_data",), ("created",), ("_xact_id",)),
)
_AUTHORS = ("user_email", "email", "user_name", "name", "user_id", "reviewer", "reviewer_id", "author", "created_by")
_SECOND = 1_000_000_000


# --- what people must see ---------------------------------------------------------------------------------------------


def flag(card: Scorecard, row: Row, assignee: str = "") -> dict[str, Any] | None:
    """The merge that puts a row, as it was read, onto the review list; None where there is nothing to do.

    A row that is on the list already is left as it is, whoever put it there and whatever became of it: so nothing a
    person approved or rejected is asked again, and nobody is assigned anew. Other lists stay, and so does who is
    assigned: an array is replaced by a merge, so it is sent whole. Who reads the row later may have changed it since.

    >>> from groundtrace.testing import sample_card
    >>> from groundtrace.model import Review
    >>> card = sample_card(review=(Review(reason="critical_claim"),))
    >>> flag(card, {"id": "r", "metadata": None})["metadata"]
    {'~__bt_review_lists': {'__bt_default_review_list': {'status': 'PENDING'}}}
    >>> flag(card, {"id": "r", "metadata": {LISTS: {DEFAULT_LIST: {"status": "APPROVED"}}}})
    """
    if card.waits is None or not row.get("id"):
        return None
    lists, there = _kept(row, LISTS), _kept(row, ASSIGNED)
    entry = lists.get(DEFAULT_LIST) if isinstance(lists, Mapping) else None
    odd = (lists is not None and not isinstance(lists, Mapping)) or (
        entry is not None and not isinstance(entry, Mapping)
    )
    if odd or _table(entry).get("status"):
        return None
    told: dict[str, Any] = {LISTS: {**_table(lists), DEFAULT_LIST: {**_table(entry), "status": "PENDING"}}}
    if assignee and (there is None or isinstance(there, list)) and assignee not in (there or ()):
        told[ASSIGNED] = [*(there or ()), assignee]
    return {"id": row["id"], "metadata": told, "_is_merge": True, "_merge_paths": [["metadata", LISTS]]}


def _kept(row: Row, name: str) -> Any:
    """What a row's metadata holds, whether that was read whole or only this of it."""
    return row[f"metadata.{name}"] if f"metadata.{name}" in row else _table(row.get("metadata")).get(name)


def flags(waiting: Iterable[tuple[Scorecard, Row]], assignee: str = "") -> list[dict[str, Any]]:
    """One merge a row that people must see, the most urgent first, however many of its cards wait."""
    events: dict[str, dict[str, Any]] = {}
    for card, row in sorted(waiting, key=lambda told: urgency(told[0])):
        if (event := flag(card, row, assignee)) is not None:
            events.setdefault(str(event["id"]), event)
    return list(events.values())


def assignee(api: Api, named: str) -> str:
    """The id of a user, by the id itself or by an e-mail address. PlanError where the organisation has none such."""
    told = named.strip()
    by_id = is_id(told)
    try:
        found = _users(api, {"ids": told} if by_id else {"email": told})
    except Refused as refused:
        if by_id and refused.status in (403, 404):  # users can't be looked up with this key; the id is who it is
            return told
        raise
    fit = [row for row in found if told.casefold() in (str(row.get("id")).casefold(), str(row.get("email")).casefold())]
    if not fit:
        raise PlanError("assignee", named, "is no user of this organisation", hint="write an e-mail address or an id")
    return str(fit[0]["id"])


def _users(api: Api, which: Mapping[str, Any]) -> list[Row]:
    told = api.call("GET", "/v1/user", params={**which, "org_name": api.org.name})
    return [row for row in listed(told, "objects") if row.get("id")]


# --- what they said ---------------------------------------------------------------------------------------------------


class _Said(NamedTuple):
    """A number a person gave: in which column, of which span, and on which row that stands."""

    column: str
    unit: object
    span_id: str
    trace_id: str
    row: Row
    who: str


class _Card(NamedTuple):
    """A card of ours as its scorer row tells it."""

    id: str
    rubric: str
    span_id: str
    parent_id: str
    scores: Mapping[str, tuple[float, float]]
    """Its scores' ranges, by name, as far as the row tells."""


@dataclass
class Answers:
    """What people said on Braintrust about scores of ours: numbers in human-review columns, with comments for why."""

    api: Api
    place: Place
    _lost: int = field(default=0, init=False)
    _odd: int = field(default=0, init=False)
    _bare: int = field(default=0, init=False)
    _foreign: dict[str, int] = field(default_factory=dict, init=False)
    _mute: bool = field(default=False, init=False)
    """Whether the server knows no comments."""

    def notes(self) -> tuple[str, ...]:
        """What could not be told apart or taken, for the report."""
        said = (
            (self._lost, "answers on Braintrust that are of no card of ours, or of one of several on their span"),
            (self._odd, "answers on Braintrust that are no numbers from 0 to 1"),
            (
                sum(self._foreign.values()),
                f"answers in columns of no score of ours ({', '.join(sorted(self._foreign))})",
            ),
            (self._bare, "comments on Braintrust that stand beside no score a person gave"),
        )
        mute = (
            "this data plane tells no comments (those before 1.1.27 don't): why people said something is not known",
        )
        return (*(f"{what}: {count}" for count, what in said if count), *(mute if self._mute else ()))

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """Their labels, said or changed since then (nanoseconds since 1970).

        Rows that began up to REACH before are looked through. What does not tell when it was changed counts as new.
        """
        known = project_scores(self.api, self.place.project_id)
        human = {name for row in known if is_human(row) and (name := str(row.get("name"))).startswith(_MARKS)}
        found = list(rows.newest(row for row in self._rows(human, since)).values())
        said = _given(found, human)
        comments = [told for row in found for told in _comments(row)]
        cards = self._cards({one.trace_id for one in said} | {told.trace_id for told in comments})
        people = self._people([*(one.who for one in said), *(told.who for told in comments)])
        for one in said:
            if _is_new(one.row, since) and (label := self._label(one, cards.get(one.trace_id, ()))) is not None:
                who = people.get(one.who, one.who) or _somebody(one.row)
                yield label.model_copy(update={"who": who, "why": _why(one, comments, people)})
        spans = {one.span_id for one in said}
        alone = (told for told in comments if told.span_id not in spans and told.trace_id in cards)
        self._bare += sum(_after(nanoseconds(told.when), since) for told in alone)

    def _label(self, one: _Said, cards: Sequence[_Card]) -> Label | None:
        """What was said, as a label; None, counted, where it is of no card of ours."""
        named = [
            (card, *told)
            for card in cards
            for told in _scores(card)
            if one.column in (column(told[0]), name_of(told[0]))
        ]
        if not named and one.column not in _OURS:
            self._foreign[one.column] = self._foreign.get(one.column, 0) + 1
            return None
        fit = _meant(one.span_id, [card for card, *_ in named])
        if fit is None:
            self._lost += 1
            return None
        unit = one.unit
        if isinstance(unit, bool) or not isinstance(unit, int | float) or not 0 <= unit <= 1:
            self._odd += 1
            return None
        _, name, (low, high) = next(told for told in named if told[0] is fit)
        value = round(low + unit * (high - low), 4)
        word = _words(name).get(value)
        when = rows.changed(one.row) or nanoseconds(one.row.get("created"))
        return Label(card_id=fit.id, score=name, value=value, label=word, when=written(when) if when else "")

    # --- asking -------------------------------------------------------------------------------------------------------

    def _rows(self, human: Iterable[str], since: int | None) -> Iterator[Row]:
        """Reviews, rows with a number in one of these columns, and rows with comments."""
        now = dt.datetime.now(dt.UTC)
        last = now if since is None else min(now, dt.datetime.fromtimestamp(since / _SECOND, dt.UTC))
        began = btql.compared("ge", "created", (last - REACH).isoformat())
        reviews = btql.compared("eq", ("span_attributes", "type"), "review")
        numbers = [btql.given("scores", name) for name in sorted(human)]
        where = btql.every(began, btql.some(reviews, *numbers, btql.given("comments")))
        pages = self.api.pages(self.place, where, fields=(*_FIELDS, ("comments",)))
        try:
            first = next(pages, [])
        except Refused as refused:
            if refused.status != 400:
                raise
            self._mute = True
            where = btql.every(began, btql.some(reviews, *numbers))
            pages = self.api.pages(self.place, where, fields=_FIELDS)
            first = next(pages, [])
        yield from first
        for page in pages:
            yield from page

    def _cards(self, traces: Iterable[str]) -> dict[str, list[_Card]]:
        """Our cards on these traces."""
        found: dict[str, list[_Card]] = {}
        ids = iter(sorted(traces))
        while some := list(islice(ids, _TRACES)):
            scorers = btql.compared("eq", ("span_attributes", "purpose"), "scorer")
            where = btql.every(btql.within("root_span_id", some), scorers)
            for page in self.api.pages(self.place, where, fields=_FIELDS):
                for row in page:
                    if (card := _card(row)) is not None:
                        found.setdefault(rows.trace_of(row), []).append(card)
        return found

    def _people(self, named: Iterable[str]) -> dict[str, str]:
        """E-mail addresses for users who are told by their id, as far as the key may see them."""
        ids = sorted({who for who in named if is_id(who)})
        if not ids:
            return {}
        try:
            return {str(row["id"]): str(row["email"]) for row in _users(self.api, {"ids": ids}) if row.get("email")}
        except Refused:
            return {}


class _Comment(NamedTuple):
    text: str
    who: str
    when: object
    span_id: str
    trace_id: str


_MARKS = (COLUMN, name_of(""))
"""How columns begin in which a person may speak of a score of ours."""

_OURS = frozenset(name for told in asked() for name in (column(told.name), name_of(told.name)))
"""Those of the rubrics that are ours; a plugin's are known by its cards."""


def _given(found: Sequence[Row], human: set[str]) -> list[_Said]:
    """The numbers people gave; the mean on a row whose reviews are there is none of them."""
    by_person, on_row = list[_Said](), list[_Said]()
    for row in found:
        scores = {str(name): unit for name, unit in _table(row.get("scores")).items() if unit is not None}
        trace = rows.trace_of(row)
        if rows.kind(row) == "review":
            span = rows.parent_of(row) or ""
            by_person += (_Said(name, unit, span, trace, row, _author(row)) for name, unit in scores.items())
        else:
            marks = COLUMN if rows.is_scorer(row) else _MARKS  # what a scorer says under other names is its own word
            mine = ((name, unit) for name, unit in scores.items() if name in human and name.startswith(marks))
            on_row += (_Said(name, unit, rows.span_of(row), trace, row, _last_hand(row)) for name, unit in mine)
    reviewed = {(one.span_id, one.column) for one in by_person}
    return [*by_person, *(one for one in on_row if (one.span_id, one.column) not in reviewed)]


def _comments(row: Row) -> Iterator[_Comment]:
    """What people wrote about a row in the app."""
    span = rows.parent_of(row) if rows.kind(row) == "review" else rows.span_of(row)
    for told in _list(row.get("comments")):
        if not isinstance(told, Mapping) or told.get("source") not in ("app", None):
            continue
        text = told.get("comment")
        text = text.get("text") if isinstance(text, Mapping) else text
        if isinstance(text, str) and text.strip():
            yield _Comment(text.strip(), _author(told), told.get("created"), str(span), rows.trace_of(row))


def _why(one: _Said, comments: Iterable[_Comment], people: Mapping[str, str]) -> str:
    """The comments on the same span that this person may have written; with their author, where that is not sure."""
    fit = [told for told in comments if told.span_id == one.span_id and one.who in ("", told.who or one.who)]
    said = (f"{people.get(told.who, told.who)}: {told.text}" if told.who and not one.who else told.text for told in fit)
    return "; ".join(dict.fromkeys(said))


def _meant(span_id: str, cards: Sequence[_Card]) -> _Card | None:
    """The card an answer on a span is about: the scorer's own, that of the span, or the only one of the trace."""
    for fit in ([c for c in cards if c.span_id == span_id], [c for c in cards if c.parent_id == span_id], list(cards)):
        if fit:
            return fit[0] if len(fit) == 1 else None
    return None


def _card(row: Row) -> _Card | None:
    """The card behind a scorer row; None where the row is not ours."""
    mark = _table(_table(row.get("metadata")).get("groundtrace"))
    rubric, ident = mark.get("rubric"), row.get("id")
    if not isinstance(rubric, str) or not isinstance(ident, str) or mark.get("card_id") != ident:
        return None
    ranges = {}
    for name, told in _table(mark.get("scores")).items():
        low, high = _table(told).get("low"), _table(told).get("high")
        if isinstance(low, int | float) and isinstance(high, int | float) and low < high:
            ranges[str(name)] = (float(low), float(high))
    parent = rows.parent_of(row) or ""
    return _Card(ident, rubric, rows.span_of(row), parent, ranges)


def _scores(card: _Card) -> Iterator[tuple[str, tuple[float, float]]]:
    """What a person may say of a card."""
    ours = {told.name: (told.low, told.high) for told in asked() if told.name.partition(".")[0] == card.rubric}
    yield from ({**card.scores, **ours}).items()


def _words(score: str) -> dict[float, str]:
    return next((levels(told) for told in asked() if told.name == score), {})


# --- rows -------------------------------------------------------------------------------------------------------------


def _table(told: object) -> Mapping[str, Any]:
    return told if isinstance(told, Mapping) else {}


def _list(told: object) -> Sequence[Any]:
    return told if isinstance(told, list) else ()


def _author(told: Mapping[str, Any]) -> str:
    """Who wrote a row or a comment; empty where that is not told."""
    for held in (told.get("user"), told.get("metadata"), told):
        for name in _AUTHORS:
            who = _table(held).get(name)
            if isinstance(who, str) and who.strip():
                return who.strip()
    return _last_hand(told)


def _last_hand(row: Mapping[str, Any]) -> str:
    """Who changed a row last in the app, as its audit says; empty where it does not."""
    for told in reversed(_list(row.get("audit_data"))):
        if isinstance(told, Mapping) and told.get("source") == "app":
            return _author({name: held for name, held in told.items() if name != "audit_data"})
    return ""


def _somebody(row: Row) -> str:
    return f"{_SOMEBODY} ({str(row.get('id'))[:8]})" if rows.kind(row) == "review" else _SOMEBODY


def _is_new(row: Row, since: int | None) -> bool:
    """Whether a row was changed since then; what can't be told to be older is."""
    return _after(rows.changed(row), since)


def _after(moment: int | None, since: int | None) -> bool:
    return since is None or moment is None or moment + _SECOND >= since
