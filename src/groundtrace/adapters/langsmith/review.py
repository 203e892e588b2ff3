"""People on LangSmith: cards they must see go into annotation queues, and what they say comes back as labels.

A rubric has one queue a workspace, under an id made from both, whose questions are the rubric's scores: so an answer is
feedback under the score's own key. Not verified on a real account: that the newest route for items is there (older ones
are tried where it is not), and that items keep the order in which they were added, which is all the priority there is.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from groundtrace.adapters.asked import levels, questions, urgency
from groundtrace.adapters.langsmith import feedback
from groundtrace.adapters.langsmith.api import Api, Project
from groundtrace.adapters.langsmith.feedback import Place
from groundtrace.adapters.patience import Refused
from groundtrace.adapters.published import NOT_APPLICABLE, PREFIX
from groundtrace.adapters.times import nanoseconds, written
from groundtrace.model import NAMESPACE, Label, Scorecard
from groundtrace.rubrics.catalogue import CATALOGUE, Published

ITEMS = 100
"""Items a request."""

_QUEUE = "/annotation-queues"
_PLATFORM = "/api/v1/platform/annotation-queues"
_STATUSES = ("needs_my_review", "needs_others_review", "archived")
_RUNS = 50

_SOMEBODY = "somebody on LangSmith"
_INSTRUCTIONS = (
    "Score the answer by the passages that were retrieved for it, not by what is true elsewhere. "
    "What groundtrace found is in the run's feedback: its comment says why, with the words it leans on."
)


class Queues:
    """The annotation queues of a workspace, made as they are needed."""

    def __init__(self, api: Api, *, extend_retention: bool = False) -> None:
        self._api = api
        self._extend = {"extend_trace_retention": "true" if extend_retention else "false"}
        self._there: dict[str, set[str]] = {}
        """The runs in each queue, by the queue's id."""
        self._newest = True
        """Whether the server has the newest route for items."""

    def offer(self, waiting: Iterable[tuple[Scorecard, Place]]) -> int:
        """Add cards that wait for a person, the most urgent first; how many were not there before."""
        rubrics: dict[tuple[str, str], list[tuple[Scorecard, Place]]] = {}
        for card, place in waiting:
            workspace = self._api.project(place.project_id).workspace
            rubrics.setdefault((workspace, card.rubric), []).append((card, place))
        return sum(self._offered(queue_id(*named), cards) for named, cards in rubrics.items())

    def _offered(self, ident: str, cards: Sequence[tuple[Scorecard, Place]]) -> int:
        if ident not in self._there:
            self._make(ident, cards[0][0])
            self._there[ident] = set(self._listed(ident))
        there, new = self._there[ident], dict[str, Place]()
        for _, place in sorted(cards, key=lambda told: urgency(told[0])):
            if place.run_id not in there:
                new.setdefault(place.run_id, place)
        left = iter(new.values())
        while some := list(islice(left, ITEMS)):
            self._add(ident, some)
            there.update(place.run_id for place in some)
        return len(new)

    def _make(self, ident: str, card: Scorecard) -> None:
        """Have the queue, with a question a score; a range a score's key has already is left."""
        try:
            self._api.call("GET", f"{_QUEUE}/{ident}")
        except Refused as refused:
            if refused.status != 404:
                raise
        else:
            return
        asked = questions(card)
        for told in asked:
            config = {"type": "continuous", "min": told.low, "max": told.high}
            self._again("/feedback-configs", {"feedback_key": f"{PREFIX}{told.name}", "feedback_config": config})
        made = {
            "id": ident,
            "name": f"groundtrace: {card.rubric}",
            "description": f"Answers whose {card.rubric} a person should look at.",
            "rubric_instructions": _INSTRUCTIONS,
            "rubric_items": [_question(told, card.rubric) for told in asked],
        }
        self._again(_QUEUE, made)

    def _again(self, path: str, made: object) -> None:
        """Make something that may be there by now."""
        try:
            self._api.call("POST", path, json=made, tier="write")
        except Refused as refused:
            if refused.status not in (400, 409):
                raise

    def _listed(self, ident: str) -> Iterator[str]:
        """The runs in a queue, whether somebody has looked at them or not."""
        try:
            for status in _STATUSES:
                cursor: str | None = None
                while True:
                    asked = {"status": status, "page_size": ITEMS, "cursor": cursor}
                    told = self._api.call("GET", f"{_PLATFORM}/{ident}/items", params=asked)
                    page = told if isinstance(told, Mapping) else {}
                    yield from (str(item.get("run_id")) for item in page.get("items") or ())
                    if not (cursor := page.get("next_cursor")):
                        break
        except Refused as refused:
            if refused.status != 404:
                raise
            self._newest = False
            told = self._api.call("GET", f"{_QUEUE}/{ident}/runs")
            yield from (str(run.get("id")) for run in (told if isinstance(told, list) else ()))

    def _add(self, ident: str, places: Sequence[Place]) -> None:
        """Add runs by the newest route the server has."""
        kind = "project_id" if self._newest else "session_id"
        keys = [{"run_id": at.run_id, kind: at.project_id, "start_time": at.start_time} for at in places]
        if self._newest:
            items = [{"item_type": "RUN", **key} for key in keys]
            self._post(f"{_PLATFORM}/{ident}/items", {"items": items})
            return
        try:
            self._post(f"{_QUEUE}/{ident}/runs/by-key", keys)
        except Refused as refused:
            if refused.status not in (404, 405):
                raise
            self._post(f"{_QUEUE}/{ident}/runs", [at.run_id for at in places])

    def _post(self, path: str, told: object) -> None:
        self._api.call("POST", path, json=told, params=self._extend, tier="write")


def queue_id(workspace: str, rubric: str) -> str:
    """The id of a rubric's queue in a workspace, in every run."""
    return str(uuid.uuid5(NAMESPACE, f"langsmith queue {workspace} {rubric}"))


def _question(told: Published, rubric: str) -> dict[str, Any]:
    """A score as an item of a queue's rubric."""
    ends = {f"{told.low:g}": "worst", f"{told.high:g}": "best"}
    named = {str(at): word for at, word in levels(told).items()}
    return {
        "feedback_key": f"{PREFIX}{told.name}",
        "description": told.says or told.name,
        "score_descriptions": named or ends,
        "is_required": told.name == rubric,
    }


# --- what people said -----------------------------------------------------------------------------------------------


def labels(api: Api, project: Project, since: int | None = None) -> Iterator[Label]:
    """What people said of our scores in a project, since then (nanoseconds since 1970)."""
    return Answers(api, project.id).labels(since)


class Answers:
    """What people said on LangSmith about scores of ours: answers in the app, and corrections of our own feedback."""

    def __init__(self, api: Api, project_id: str) -> None:
        self._api, self._project = api, project_id
        self._lost = 0

    def notes(self) -> tuple[str, ...]:
        """What could not be told apart, for the report."""
        said = "answers on LangSmith belong to no card of ours, or to one of several on their run"
        return (f"{self._lost} {said}",) if self._lost else ()

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """Their labels, said or changed since then (nanoseconds since 1970).

        All feedback under our keys is looked through: LangSmith can leave out what was made before a time, and what was
        changed since may have been made at any.
        """
        after = None if since is None else dt.datetime.fromtimestamp(since / 1e9, dt.UTC)
        asked: dict[str, Any] = {"key": self._keys(), "session": self._project, "include_user_names": "true"}
        yield from self._corrections(asked, after)
        said = [
            row
            for page in feedback.pages(self._api, {**asked, "source": "app"})
            for row in page
            if isinstance(row, Mapping) and _is_new(row, after)
        ]
        cards = self._cards({str(row.get("run_id")) for row in said})
        for row in said:
            name = str(row.get("key")).removeprefix(PREFIX)
            found = cards.get((str(row.get("run_id")), name.partition(".")[0]), set())
            label = _label(row, row, name, next(iter(found), "")) if len(found) == 1 else None
            if label is None:
                self._lost += 1
            else:
                source = row.get("feedback_source")
                known = source if isinstance(source, Mapping) else {}
                who = str(known.get("user_name") or known.get("user_id") or _SOMEBODY)
                yield label.model_copy(update={"who": who, "why": str(row.get("comment") or "")})

    def _corrections(self, asked: Mapping[str, Any], after: dt.datetime | None) -> Iterator[Label]:
        for page in feedback.pages(self._api, {**asked, "source": feedback.SOURCE}):
            ours = {row.id: row for row in feedback.rows(page) if row.correction}
            for raw in page:
                row = ours.get(str(raw.get("id")))
                if row is None or not _is_new(raw, after):
                    continue
                told = row.correction if isinstance(row.correction, Mapping) else {"value": row.correction}
                label = _label(raw, told, row.name, row.card_id)
                if label is None:
                    self._lost += 1
                else:
                    yield label

    def _keys(self) -> list[str]:
        """The keys of our scores: those of the four rubrics, and those a plugin's rubric brought."""
        try:
            there = self._api.call("GET", "/feedback-configs")
        except Refused:
            there = ()
        named = {str(row.get("feedback_key")) for row in there or () if isinstance(row, Mapping)}
        ours = {f"{PREFIX}{told.name}" for told in CATALOGUE if not told.on_request}
        return sorted(ours | {key for key in named if key.startswith(PREFIX)})

    def _cards(self, runs: Iterable[str]) -> dict[tuple[str, str], set[str]]:
        """Which cards of ours are on these runs, by run and rubric."""
        found: dict[tuple[str, str], set[str]] = {}
        ids = iter(sorted(runs))
        while some := list(islice(ids, _RUNS)):
            for page in feedback.pages(self._api, {"run": some, "source": feedback.SOURCE}):
                for row in feedback.rows(page):
                    if row.card_id:
                        found.setdefault((row.run_id, row.name.partition(".")[0]), set()).add(row.card_id)
        return found


def _is_new(row: Mapping[str, Any], after: dt.datetime | None) -> bool:
    """Whether it was said or changed since then; what says no time is."""
    told = _when(row)
    return after is None or not told or dt.datetime.fromisoformat(told) >= after


def _when(row: Mapping[str, Any]) -> str:
    """When something was last said, in UTC, as every label says it; empty where that is not told."""
    told = nanoseconds(row.get("modified_at") or row.get("created_at"))
    return written(told) if told is not None else ""


def _label(row: Mapping[str, Any], told: Mapping[str, Any], name: str, card_id: str) -> Label | None:
    """What was said of a score; None where it is neither a number nor that the score does not apply."""
    score, value = told.get("score"), told.get("value")
    number = next((float(given) for given in (score, value) if isinstance(given, int | float)), None)
    word = value if isinstance(value, str) else None
    if not card_id or (number is None and word != NOT_APPLICABLE):
        return None
    when = _when(row)
    return Label(card_id=card_id, score=name, value=number, label=word, who=_SOMEBODY, when=when)
