"""Annotation configs: with them chips are coloured and people annotate in Phoenix by the same scale.

A config belongs to the whole server, by its name. One that is there, whoever made it, is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groundtrace.adapters.patience import Refused
from groundtrace.adapters.phoenix.annotations import SUPPORTED, UNSUPPORTED, Annotation
from groundtrace.adapters.phoenix.api import Api, part
from groundtrace.rubrics.catalogue import CATALOGUE

MARK = "groundtrace: "
"""How the description of a score's config begins whose rubric is a plugin's; the score's name follows."""

_KNOWN = {told.name: told for told in CATALOGUE}
_OTHER = "the annotation config {} is another on Phoenix: chips are coloured and people asked by that"


class Configs:
    """The configs of the scores that were written, each made and given to its project once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ids: dict[str, str | None] = {}
        self._given: set[tuple[str, str]] = set()
        self.notes: dict[str, None] = {}
        """What should be known of them."""

    def give(self, project: str, due: Iterable[Annotation]) -> None:
        """Have a config for each of these scores in the project; trouble with that keeps no score back."""
        wanted = {one.name: one for one in due if (project, one.name) not in self._given}
        for name, one in wanted.items():
            config = _config(one)
            if config is None:
                continue
            try:
                ident = self._made(name, config)
                if ident is not None:
                    self._api.call("PUT", f"/projects/{project}/annotation_configs/{part(ident)}")
            except Refused as refused:
                self.notes[f"annotation configs could not be set up: {refused}"] = None
                return
            self._given.add((project, name))

    def _made(self, name: str, config: Mapping[str, Any]) -> str | None:
        if name not in self._ids:
            there = self._there(name)
            if there is None:
                try:
                    there = _data(self._api.call("POST", "/annotation_configs", json=config))
                except Refused as refused:
                    if refused.status != 409:  # made by somebody else just now
                        raise
                    there = self._there(name)
            if there is not None and not _alike(there, config):
                self.notes[_OTHER.format(name)] = None
            self._ids[name] = str(there["id"]) if there is not None else None
        return self._ids[name]

    def _there(self, name: str) -> Mapping[str, Any] | None:
        try:
            return _data(self._api.call("GET", f"/annotation_configs/{part(name)}"))
        except Refused as refused:
            if refused.status == 404:
                return None
            raise


def _config(one: Annotation) -> dict[str, Any] | None:
    """What tells Phoenix of a score's scale; None for a score without one."""
    known = _KNOWN.get(one.result.score)
    if one.name == SUPPORTED:
        values = [{"label": SUPPORTED, "score": 1.0}, {"label": UNSUPPORTED, "score": 0.0}]
        says = "whether any claim of the answer is supported by this passage"
        return _told(one.name, "CATEGORICAL", says, lower=False) | {"values": values}
    low, high = (known.low, known.high) if known is not None else (one.result.low, one.result.high)
    if low is None or high is None:
        return None
    says = known.says if known is not None else f"{MARK}{one.result.score}"
    told = _told(one.name, "CONTINUOUS", says, lower=known is not None and known.lower_is_better)
    return told | {"lower_bound": float(low), "upper_bound": float(high)}


def _told(name: str, kind: str, says: str, *, lower: bool) -> dict[str, Any]:
    direction = "MINIMIZE" if lower else "MAXIMIZE"
    return {"name": name, "type": kind, "description": says, "optimization_direction": direction}


def _data(told: object) -> Mapping[str, Any] | None:
    data = told.get("data") if isinstance(told, Mapping) else None
    return data if isinstance(data, Mapping) and data.get("id") else None


def _alike(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a config scales a score as ours does, whatever it says about it."""
    return all(
        there.get(name) == told for name, told in wanted.items() if name not in ("name", "description", "values")
    )
