"""What a plan writes about one kind of span: `[conventions.NAME]`, as it was read and found to make sense."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError

from groundtrace.conventions.paths.grammar import Path, parse
from groundtrace.errors import PlanError
from groundtrace.model import Kind, Role, Span, Value

Patterns = Annotated[
    tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v), Field(min_length=1)
]  # fmt: skip

ONE = ("query", "answer", "summary", "session", "user", "model", "response_id")
"""Keys that hold a path to one value."""

SEVERAL = ("context", "source", "key_facts")
"""Keys that hold a path to as many values as there are."""

WITHIN = ("text", "id", "score", "title", "timestamp")
"""Keys that hold a path inside one item of the context."""

_ROLES: tuple[Role, ...] = ("request", "agent", "generation", "retrieval", "rerank", "tool")
_SEARCHING = ("retrieval", "rerank", "tool")


class Spans(Value):
    """Which spans a mapping speaks of: each by its exact value, or a glob of it; all that are given must fit."""

    name: Patterns | None = None
    scope: Patterns | None = None
    kind: Patterns | None = None
    attributes: dict[str, Patterns] = Field(default_factory=dict)

    def fit(self, span: Span) -> bool:
        """Whether this span is one of them."""
        own = ((self.name, span.name), (self.scope, span.scope), (self.kind, span.kind))
        held = ((patterns, _plain(span.attributes.get(name))) for name, patterns in self.attributes.items())
        return all(_fits(patterns, value) for patterns, value in (*own, *held) if patterns is not None)


def _fits(patterns: Iterable[str], value: str | None) -> bool:
    return value is not None and any(value == pattern or fnmatchcase(value, pattern) for pattern in patterns)


def _plain(value: object) -> str | None:
    """An attribute's value as a pattern can be written for it; None where it has no plain form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


class Example(Value):
    """A span's attributes, and what is to be read from them."""

    attributes: dict[str, Any]
    expect: dict[str, Any] = Field(min_length=1)
    name: str | None = None
    scope: str | None = None
    kind: str | None = None


class Table(Value):
    """One mapping as a plan holds it: which spans, their role, and the path to each thing."""

    name: str = Field(min_length=1)
    spans: Spans | None = None
    role: Literal["request", "agent", "generation", "retrieval", "rerank", "tool"] | None = None
    kind: Literal["answer", "summary"] | None = None
    query: str | None = None
    answer: str | None = None
    context: str | None = None
    source: str | None = None
    summary: str | None = None
    text: str | None = None
    id: str | None = None
    score: str | None = None
    title: str | None = None
    timestamp: str | None = None
    key_facts: str | None = None
    session: str | None = None
    user: str | None = None
    model: str | None = None
    response_id: str | None = None
    examples: tuple[Example, ...] | str = ()

    @property
    def key(self) -> str:
        """How a plan calls it."""
        return f"conventions.{self.name}"

    @property
    def summing(self) -> bool:
        """Whether it tells of summaries."""
        return self.kind == "summary" or self.summary is not None

    @property
    def plays(self) -> Role:
        """The role of its spans: where none is given, a request; a retrieval where it tells a context and no answer."""
        searched = self.context is not None and self.answer is None and not self.summing
        return self.role or ("retrieval" if searched else "request")

    @property
    def of(self) -> Kind:
        """The kind of record it tells of."""
        return "summary" if self.summing else "answer"

    def paths(self) -> dict[str, Path]:
        """The path of each key that has one."""
        written = {key: getattr(self, key) for key in (*ONE, *SEVERAL, *WITHIN)}
        return {key: parse(text, f"{self.key}.{key}") for key, text in written.items() if text is not None}

    def sensible(self) -> Self:
        """The table itself; PlanError where its keys do not go together."""
        for key, path in self.paths().items():
            if key not in SEVERAL and path.many:
                raise PlanError(f"{self.key}.{key}", path.text, "leads to many values", hint="name one, as in [-1]")
        if self.summing:
            self._refuse(("query", "answer", "context"), "is of an answer; a summary has source and summary")
            self._ask(("source", "summary"))
            if self.plays in _SEARCHING:
                raise PlanError(f"{self.key}.role", self.role, "gives no summary", valid=_ROLES[:3])
        else:
            self._refuse(("source", "key_facts"), "is of a summary; write summary, or context and answer")
        if self.plays in _SEARCHING:
            self._refuse(("answer",), f"stands on a span of role {self.plays}, which gives none")
            self._ask(("context",))
        if not any(getattr(self, key) for key in ("query", "answer", "context", "summary")):
            raise PlanError(self.key, self.name, "tells nothing", hint="write query, answer or context")
        if self.context is None and self.source is None:
            self._refuse(WITHIN, "is a path inside an item of the context, and there is no context")
        return self

    def _refuse(self, keys: Iterable[str], problem: str) -> None:
        for key in keys:
            if getattr(self, key) is not None:
                raise PlanError(f"{self.key}.{key}", getattr(self, key), problem)

    def _ask(self, keys: Iterable[str]) -> None:
        for key in keys:
            if getattr(self, key) is None:
                raise PlanError(self.key, self.name, f"does not say where its {key} is", hint=f"write {key} = PATH")


# --- out of a plan ----------------------------------------------------------------------------------------------------


def read_table(given: Mapping[str, Any]) -> Table:
    """A mapping out of what a plan says; PlanError names the key that is wrong and what would be right."""
    name = given.get("name")
    key = f"conventions.{name}"
    _known(given, Table, key)
    if isinstance(spans := given.get("spans"), Mapping):
        _known(spans, Spans, f"{key}.spans")
        if not any(spans.values()):
            raise PlanError(f"{key}.spans", dict(spans), "names no span", hint='write { name = "generate" }')
    if given.get("role") not in (None, *_ROLES):
        raise PlanError(f"{key}.role", given["role"], "is no role of a span", valid=_ROLES)
    try:
        return Table.model_validate(dict(given)).sensible()
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        steps = [str(step) for step in fault["loc"] if not str(step).startswith(("tuple[", "str", "function-"))]
        problem = f"does not fit: {fault['msg'].removeprefix('Value error, ')}"
        raise PlanError(".".join((key, *steps)), fault["input"], problem) from None


def _known(given: Mapping[str, Any], kind: type[Value], key: str) -> None:
    for name in given:
        if name not in kind.model_fields:
            raise PlanError(key, name, "is no key of a mapping", valid=kind.model_fields)


def written(table: Table) -> dict[str, Any]:
    """A mapping as a plan can hold it in JSON and TOML: what was said, examples in place, nothing else."""
    held: dict[str, Any] = table.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    for example in held.get("examples", ()):
        given = example["attributes"].items()
        example["attributes"] = {name: _without_null(value) for name, value in given if value is not None}
        example["expect"] = {name: value for name, value in example["expect"].items() if value is not None}
    return held


def _without_null(value: Any) -> Any:
    """A structured value as JSON text where null is in it, which TOML can't say and a mapping reads as well."""
    if not isinstance(value, (dict, list)):
        return value
    text = json.dumps(value, ensure_ascii=False, allow_nan=True)
    return text if "null" in text or "NaN" in text or "Infinity" in text else value
