"""What people said of a trace on LangSmith, and whether it was a complaint.

LangSmith's thumbs are 1 and 0, so a number up to 0 is a complaint; where a feedback key has a range or categories of
its own, what stands below its middle is (above it, where lower is better). What judges said, ours or others', is not a
user's word: feedback whose source is a model, and all under our own names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from groundtrace.adapters.langsmith.filters import quoted
from groundtrace.adapters.langsmith.rows import PLATFORM, Row
from groundtrace.adapters.published import PREFIX
from groundtrace.adapters.times import nanoseconds, written
from groundtrace.model import Signal
from groundtrace.sampling import ERROR

_BY_MODELS = frozenset({"model", "auto_eval"})
BY_PEOPLE = ("app", "api")
"""Sources of feedback that people gave, in LangSmith or through the application."""

OVERLAP = 300 * 1_000_000_000
"""Nanoseconds after which feedback can surely be found: LangSmith counts it some time after it came."""

_MOST = 10_000


class Scale:
    """What is a complaint under each feedback key, from the workspace's feedback configs."""

    def __init__(self, configs: Iterable[Any] = ()) -> None:
        self._middles: dict[str, tuple[float, bool]] = {}
        self._labels: dict[str, dict[str, float]] = {}
        for told in configs:
            config = told.get("feedback_config") if isinstance(told, Mapping) else None
            key = told.get("feedback_key") if isinstance(told, Mapping) else None
            if isinstance(config, Mapping) and isinstance(key, str) and not key.startswith(PREFIX):
                self._add(key, config, lower=told.get("is_lower_score_better") is True)

    def _add(self, key: str, config: Mapping[str, Any], *, lower: bool) -> None:
        listed = config.get("categories")
        categories = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
        named = {str(one.get("label")): n for one in categories if (n := _number(one.get("value"))) is not None}
        low = min(named.values()) if named else _number(config.get("min"))
        high = max(named.values()) if named else _number(config.get("max"))
        if low is not None and high is not None and low < high:
            self._middles[key] = ((low + high) / 2, lower)
            self._labels[key] = named

    def is_complaint(self, key: str, score: object, value: object = None) -> bool:
        """Whether this score, or where there is none this label, complains.

        >>> Scale().is_complaint("thumb", 0), Scale().is_complaint("thumb", 1), Scale().is_complaint("note", None)
        (True, False, False)
        """
        number = _number(score)
        if number is None and isinstance(value, str):
            number = self._labels.get(key, {}).get(value)
        if number is None:
            return False
        if key not in self._middles:
            return number <= 0
        middle, lower = self._middles[key]
        return number > middle if lower else number < middle

    @property
    def filter(self) -> str:
        """What finds complaints, in the filter language; under a key with labels all that was said there.

        A label may come without a score, and that a filter can ask for one (`feedback_value`) is not documented.
        """
        parts = ["lte(feedback_score, 0)"]
        for key, (middle, lower) in sorted(self._middles.items()):
            named = f"eq(feedback_key, {quoted(key)})"
            below = f"{'gt' if lower else 'lt'}(feedback_score, {middle:g})"
            parts.append(named if self._labels[key] else f"and({named}, {below})")
        return parts[0] if len(parts) == 1 else f"or({', '.join(parts)})"


def signals(row: Row, scale: Scale) -> tuple[Signal, ...]:
    """What users said of a run, from its feedback counts, and whether it failed."""
    stats = row.get("feedback_stats")
    told = [_counted(str(key), one, scale) for key, one in stats.items()] if isinstance(stats, Mapping) else []
    failed = row.get("error")
    if failed or str(row.get("status") or "").lower() == "error":
        told.append(failure(failed))
    return tuple(one for one in told if one is not None)


def failure(error: object) -> Signal:
    """The signal that something in a trace failed."""
    line = error.strip().partition("\n")[0][:200] if isinstance(error, str) else ""
    return Signal(ERROR, value=True, comment=line, source=PLATFORM)


def _counted(key: str, one: object, scale: Scale) -> Signal | None:
    if key.startswith(PREFIX) or not isinstance(one, Mapping):
        return None
    sources = [_kind(source) for source in _list(one.get("sources"))]
    if sources and set(sources) <= _BY_MODELS:
        return None
    values = one.get("values")
    labels = [str(label) for label, count in values.items() if count] if isinstance(values, Mapping) else []
    average = _number(one.get("avg"))
    seen = [one.get("min"), one.get("max"), average]
    negative = any(scale.is_complaint(key, n) for n in seen) or any(scale.is_complaint(key, None, v) for v in labels)
    comment = next((text for text in _list(one.get("comments")) if isinstance(text, str)), "")
    value = average if average is not None else labels[0] if labels else None
    return Signal(key, value=value, negative=negative, comment=comment, source=PLATFORM)


def _kind(source: object) -> str:
    """The type of a source, which is told as a word, as an object, or as an object in a text."""
    told: object = source
    if isinstance(source, str) and source.startswith("{"):
        with suppress(orjson.JSONDecodeError):
            told = orjson.loads(source)
    return str(told.get("type")) if isinstance(told, Mapping) else str(told)


def complaint(row: Row, scale: Scale) -> Signal | None:
    """One line of feedback as a signal, where it is a user's complaint."""
    key, value = str(row.get("key") or ""), row.get("value")
    source = row.get("feedback_source")
    if key.startswith(PREFIX) or (isinstance(source, Mapping) and source.get("type") in _BY_MODELS):
        return None
    if not scale.is_complaint(key, row.get("score"), value):
        return None
    number, comment = _number(row.get("score")), row.get("comment")
    told = number if number is not None else value if isinstance(value, str) else None
    text = comment if isinstance(comment, str) else ""
    return Signal(key, value=told, negative=True, comment=text, source=PLATFORM)


def changed(row: Row) -> int | None:
    """When a line of feedback was last changed."""
    return nanoseconds(row.get("modified_at") or row.get("created_at"))


@dataclass
class Heard:
    """How far feedback was heard: until when, and which lines of the last minutes before that, with their times."""

    at: int
    lines: Mapping[str, int]

    @classmethod
    def of(cls, kept: str) -> Heard | None:
        """As it was kept; a plain time is one too."""
        try:
            told = json.loads(kept)
            return cls(int(told["at"]), {str(ident): int(at) for ident, at in dict(told["lines"]).items()})
        except (ValueError, TypeError, KeyError):
            at = nanoseconds(kept)
            return None if at is None else cls(at, {})

    @property
    def since(self) -> int:
        """From when on feedback is asked for: what came late to be found is asked for again."""
        return self.at - OVERLAP

    def is_new(self, row: Row) -> bool:
        """Whether a line was changed since, or was not to be found yet."""
        at = changed(row)
        if at is None:
            return True
        return at >= self.since and self.lines.get(str(row.get("id"))) != at

    def then(self, at: int, rows: Iterable[Row]) -> Heard:
        """How far it was heard once these lines were."""
        told = {str(row.get("id")): changed(row) for row in rows}
        lines = dict(self.lines) | {ident: when for ident, when in told.items() if when is not None}
        recent = sorted((when, ident) for ident, when in lines.items() if when >= at - OVERLAP)
        return Heard(at, {ident: when for when, ident in recent[-_MOST:]})

    def __str__(self) -> str:
        return json.dumps({"at": self.at, "time": written(self.at), "lines": self.lines}, separators=(",", ":"))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
