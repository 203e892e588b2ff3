"""Human-review columns on Braintrust: in which people give scores, each beside the score it is about.

A column holds 0 to 1, whatever the score's range, and is called `human_` and the score's name: one that is called like
a score of ours would be overwritten by it [Braintrust's knowledge base]. To ask for one that is there gives it back as
it is [OpenAPI], so none is ever changed. Which columns a project may have, and how many, is a matter of its plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from groundtrace.adapters.asked import levels, questions
from groundtrace.adapters.braintrust.api import Api, Row, listed
from groundtrace.model import Scorecard
from groundtrace.rubrics.catalogue import Published

COLUMN = "human_"
"""Stands before a score's name where people are asked for it."""

_LISTED = 1000
_ODD = re.compile(r"\W", re.ASCII)


def column(score: str) -> str:
    """The name of the column in which people give a score: no dot, which queries would have to quote.

    >>> column("rag_faithfulness.claim_support")
    'human_rag_faithfulness_claim_support'
    """
    return COLUMN + _ODD.sub("_", score)


def project_scores(api: Api, project_id: str, patience: float | None = None) -> list[Row]:
    """The scores a project is set up with: human-review columns, aggregates and online rules."""
    found: dict[str, Row] = {}
    last: str | None = None
    while True:
        asked_for = {"project_id": project_id, "limit": _LISTED, "starting_after": last}
        told = api.call("GET", "/v1/project_score", params=asked_for, patience=patience)
        page = {str(row["id"]): row for row in listed(told, "objects") if row.get("id")}
        new = page.keys() - found.keys()
        found |= page
        if len(page) < _LISTED or not new:
            return [row for row in found.values() if str(row.get("project_id") or project_id) == project_id]
        last = next(reversed(page))


def is_human(row: Row) -> bool:
    """Whether a score of a project is a column that people fill in with numbers."""
    config = row.get("config")
    aside = isinstance(config, Mapping) and config.get("destination") == "expected"
    return row.get("score_type") in ("slider", "categorical") and not aside


class Columns:
    """The human-review columns for our scores, made as they are needed: each once, and never changed."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._there: dict[str, set[str]] = {}
        """The names that are taken in each project."""

    def have(self, project_id: str, cards: Iterable[Scorecard]) -> list[str]:
        """Make the columns that lack for these cards; the names of those that were made.

        A column of that name that is there stays as it is: its owner may have set it up otherwise.
        """
        told_of = [told for card in cards for told in questions(card)]
        # the rubrics' own scores first: a plan may hold few columns
        due = {column(told.name): told for told in sorted(told_of, key=lambda told: "." in told.name)}
        if due.keys() <= self._there.get(project_id, set()):
            return []
        there = {str(row.get("name")) for row in project_scores(self._api, project_id)}
        self._there[project_id] = there | due.keys()  # one that is refused now would be again
        made = [name for name in due if name not in there]
        for name in made:
            self._api.call("POST", "/v1/project_score", json={"project_id": project_id, **_column(due[name])})
        return made


def _column(told: Published) -> dict[str, Any]:
    """A score as a column: a choice where it has a few levels, else a slider."""
    steps = told.high - told.low
    about = f"{told.says or told.name} (groundtrace: {told.name})"
    made: dict[str, Any] = {"name": column(told.name), "description": about}
    if not (told.low == int(told.low) and 1 < steps <= 10 and steps == int(steps)):
        return {**made, "score_type": "slider"}
    words = levels(told)
    ends = {told.high: "best", told.low: "worst"}
    categories = []
    for n in range(int(told.high), int(told.low) - 1, -1):
        word = words.get(n) or ends.get(n)
        categories.append({"name": f"{n}: {word}" if word else str(n), "value": (n - told.low) / steps})
    return {**made, "score_type": "categorical", "categories": categories}
