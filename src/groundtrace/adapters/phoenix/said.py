"""What people said of a trace on Phoenix, and whether it was a complaint.

Feedback is an annotation of a span or a trace whose annotator is a person. A number up to 0 is a complaint; where an
annotation config names bounds or labels, what stands below its middle is (above it, where lower is better). What is
under our own names is people's word on our scores, and no feedback on the trace.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from groundtrace.adapters.patience import Refused
from groundtrace.adapters.phoenix.api import ANNOTATIONS, PAGE, PLATFORM, TOGETHER, Api, Row
from groundtrace.adapters.published import short
from groundtrace.adapters.values import moment
from groundtrace.model import Signal
from groundtrace.rubrics.catalogue import CATALOGUE

OURS = "groundtrace:"
"""How the identifiers of our annotations begin."""

HUMAN = "HUMAN"
_NOTE = "note"
"""The name Phoenix keeps for notes, which are no verdict."""


_BRIEF = 8
"""Letters a name needs to say something by itself."""


def name_of(score: str) -> str:
    """What a score is called on Phoenix, which cuts names after some 15 characters: what tells it apart comes first.

    >>> name_of("source_support"), name_of("source_support.citation_precision"), name_of("source_support.min")
    ('source_support', 'citation_precision', 'min_source_support')
    >>> name_of("rag_faithfulness.assessed")
    'assessed_rag_faithfulness'
    """
    rubric, _, last = score.partition(".")
    told = short(score)
    return f"{last}_{rubric}" if last and (told == score or len(told) < _BRIEF) else told


NAMES = frozenset(name_of(told.name) for told in CATALOGUE)
"""What our scores are called on Phoenix."""


class Scale:
    """What is a complaint under each name, from the annotation configs."""

    def __init__(self, configs: Iterable[Row] = ()) -> None:
        self._middles: dict[str, tuple[float, bool]] = {}
        self._labels: dict[str, dict[str, float]] = {}
        for config in configs:
            name = config.get("name")
            if isinstance(name, str) and name not in NAMES:
                self._add(name, config)

    def _add(self, name: str, config: Row) -> None:
        values = config.get("values")
        held = [one for one in values if isinstance(one, Mapping)] if isinstance(values, list) else []
        named = {str(one.get("label")): n for one in held if (n := number(one.get("score"))) is not None}
        low = min(named.values()) if named else number(config.get("lower_bound"))
        high = max(named.values()) if named else number(config.get("upper_bound"))
        if low is not None and high is not None and low < high:
            self._middles[name] = ((low + high) / 2, config.get("optimization_direction") == "MINIMIZE")
            self._labels[name] = named

    def is_complaint(self, name: str, score: object, label: object = None) -> bool:
        """Whether this score, or where there is none this label, complains.

        >>> Scale().is_complaint("thumb", 0), Scale().is_complaint("thumb", 1), Scale().is_complaint("thumb", None)
        (True, False, False)
        """
        told = number(score)
        if told is None and isinstance(label, str):
            told = self._labels.get(name, {}).get(label)
        if told is None:
            return False
        if name not in self._middles:
            return told <= 0
        middle, lower = self._middles[name]
        return told > middle if lower else told < middle

    @property
    def filter(self) -> str:
        """What finds traces with complaints, and some more, in Phoenix's filter language: it knows no annotators."""
        parts = ["a.score <= 0"]
        for name, (middle, lower) in sorted(self._middles.items()):
            below = [f"a.score {'>' if lower else '<'} {middle:g}"]
            below += [f"a.label == {_quoted(word)}" for word in self._labels[name] if self._is_bad(name, word)]
            parts.append(f"(a.name == {_quoted(name)} and ({' or '.join(below)}))")
        asked = f"({' or '.join(parts)}) and {_quoted(OURS)} not in a.identifier"
        return " or ".join(f"any({asked} for a in {of})" for of in ("span_annotations", "trace_annotations"))

    def _is_bad(self, name: str, label: str) -> bool:
        return self.is_complaint(name, None, label)


def scale(api: Api) -> Scale:
    """What the server's annotation configs say is a complaint."""
    return Scale(row for page in api.pages("/annotation_configs", limit=100, patience=10.0) for row in page)


class Heard:
    """What people said of one trace; `complaints` are the annotations that complain, by when they last did."""

    def __init__(self) -> None:
        self.signals: tuple[Signal, ...] = ()
        self.complaints: dict[str, int] = {}

    def add(self, row: Row, scale: Scale) -> None:
        """Take up an annotation, if a person said it of the trace."""
        name = str(row.get("name") or "")
        if row.get("annotator_kind") != HUMAN or name in NAMES or name == _NOTE or is_ours(row):
            return
        result = result_of(row)
        score, label = number(result.get("score")), result.get("label")
        negative = scale.is_complaint(name, score, label)
        value = score if score is not None else label if isinstance(label, str) else None
        comment = str(result.get("explanation") or "")
        self.signals = (*self.signals, Signal(name, value=value, negative=negative, comment=comment, source=PLATFORM))
        if negative:
            self.complaints[str(row.get("id"))] = moment(row.get("updated_at")) or 0


class Mark:
    """How far complaints were heard: up to a time, and at that time these. Phoenix on SQLite counts in seconds.

    >>> mark = Mark.of("2023-11-14T22:13:20+00:00 U3Bhbg==")
    >>> mark.is_new("U3Bhbg==", mark.at), mark.is_new("VHJhY2U=", mark.at)
    (False, True)
    """

    def __init__(self, at: int, known: frozenset[str] = frozenset()) -> None:
        self.at, self.known = at, known

    @classmethod
    def of(cls, told: str) -> Mark | None:
        """The mark that says so; None where it is none."""
        when, *known = told.split()
        at = moment(when)
        return None if at is None else cls(at, frozenset(known))

    def is_new(self, ident: str, when: int) -> bool:
        """Whether a complaint was not heard before."""
        return when > self.at or (when == self.at and ident not in self.known)

    def then(self, heard: Iterable[tuple[str, int]]) -> Mark:
        """The mark once these were heard."""
        new = [(ident, when) for ident, when in heard if self.is_new(ident, when)]
        last = max((when for _, when in new), default=self.at)
        known = frozenset(ident for ident, when in new if when == last)
        return Mark(last, known | self.known if last == self.at else known)


def complaints(api: Api, project: str, scale: Scale, asked: Mapping[str, Any]) -> dict[str, Heard]:
    """What people said of the traces somebody complained of, by trace; `asked` narrows down which traces are meant."""
    filters = [f"({one})" for one in (asked.get("filter"), scale.filter) if one]
    params = {**asked, "filter": " and ".join(filters), "include_spans": "true"}
    heard: dict[str, Heard] = {}
    for page in api.pages(f"/projects/{project}/traces", params, limit=PAGE // 10):
        spans = {str(span.get("span_id")): str(row.get("trace_id")) for row in page for span in row.get("spans") or ()}
        here = {str(row.get("trace_id")): Heard() for row in page}
        for row in listed(api, project, "span", list(spans)):
            here[spans[str(row.get("span_id"))]].add(row, scale)
        for row in listed(api, project, "trace", list(here)):
            here[str(row.get("trace_id"))].add(row, scale)
        heard |= {trace_id: told for trace_id, told in here.items() if told.complaints}
    return heard


def listed(
    api: Api, project: str, of: str, idents: list[str], params: Mapping[str, Any] | None = None
) -> Iterator[Row]:
    """The annotations of these spans, traces or sessions; where none of them is there, there are none."""
    for start in range(0, len(idents), TOGETHER):
        asked = {**(params or {}), f"{of}_ids": idents[start : start + TOGETHER]}
        try:
            for page in api.pages(f"/projects/{project}/{of}_annotations", asked, limit=ANNOTATIONS):
                yield from page
        except Refused as refused:
            if refused.status != 404:
                raise


def result_of(row: Row) -> Mapping[str, Any]:
    """Score, label and explanation of an annotation."""
    told = row.get("result")
    return told if isinstance(told, Mapping) else {}


def is_ours(row: Row) -> bool:
    """Whether groundtrace wrote an annotation."""
    return str(row.get("identifier") or "").startswith(OURS)


def number(value: object) -> float | None:
    """A number, or None where it is none."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _quoted(text: str) -> str:
    """A text as Phoenix's filter language has it, which is Python's."""
    return json.dumps(text, ensure_ascii=False)
