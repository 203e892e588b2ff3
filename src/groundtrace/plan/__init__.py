"""The plan of a run: what to read, by which rubrics and judge, and where the scores go.

One value for the plan file, the command line and a worker's orders; the one place where an argument goes before the
environment, the environment before a file, and a file before the default. It never holds a secret: those stay in the
environment, under the names the platforms' own SDKs read.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from groundtrace.cascade import BAND, check_band
from groundtrace.conventions.paths import declare, settle
from groundtrace.errors import PlanError, joined
from groundtrace.model import Risk, Value, Window
from groundtrace.plan.places import as_spec, is_ours, refuse_bare
from groundtrace.plan.words import LACKING, LOGIN, as_toml, pairs, plan_errors, refusals, refuse_secrets
from groundtrace.plugins import Kind, installed, load, name_of
from groundtrace.ports import Convention
from groundtrace.sampling import Sampling, shard

_ENVIRONMENT: Mapping[str, str] = {
    "GROUNDTRACE_JUDGE": "judge",
    "GROUNDTRACE_SAMPLE": "sample",
    "GROUNDTRACE_RISK": "risk",
    "GROUNDTRACE_BATCH_ID": "batch_id",
    "GROUNDTRACE_STORE": "store",
}
_ALWAYS_SHOWN = frozenset({"rubrics", "judge", "risk"})
"""Keys that a written plan shows also where they have their default."""

_RUBRICS = ("factual_accuracy", "rag_faithfulness", "source_support", "summary_groundedness")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _vocabularies(value: object) -> object:
    """A table of mappings by name becomes the list of them; its `use` names installed conventions beside them.

    >>> _vocabularies({"use": "genai", "mine": [{"query": "app.q"}]})
    ('genai', {'name': 'mine', 'query': 'app.q'})
    """
    if not isinstance(value, Mapping):
        return _many(value)
    used = value.get("use", ())
    tables = {name: item for name, item in value.items() if name != "use"}
    if isinstance(used, str) and used and not any(isinstance(item, (Mapping, list)) for item in tables.values()):
        return (value,)
    listed: list[object] = [*used] if isinstance(used, (list, tuple)) else [used]
    for name, item in tables.items():
        for table in item if isinstance(item, (list, tuple)) else (item,):
            if not isinstance(table, Mapping):
                raise PlanError(f"conventions.{name}", table, "is no mapping", hint="write a table: [conventions.NAME]")
            if "name" in table:
                hint = "for the name of a span write spans = { name = ... }"
                raise PlanError(f"conventions.{name}.name", table["name"], "is no key under a heading", hint=hint)
            listed.append({"name": name, **table})
    return tuple(listed)


def _many(value: object) -> object:
    """One spec where a list is wanted is a list of one."""
    return (value,) if isinstance(value, (str, Mapping)) else value


def _moment(value: object) -> object:
    """`24h` is that long ago; a date is its midnight; a time without a zone is UTC.

    >>> _moment("2026-11-29")
    datetime.datetime(2026, 11, 29, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if isinstance(value, str) and (ago := re.fullmatch(r"(\d{1,6})([smhdw])", value.strip())):
        seconds = int(ago[1]) * _UNITS[ago[2]]
        return dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(seconds=seconds)
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError("is no time; write 24h, 7d, 2026-11-29 or 2026-11-29T08:30Z") from None
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - gets its zone on the next line
    return value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo is None else value


_Spec = str | dict[str, Any]
Specs = Annotated[tuple[_Spec, ...], BeforeValidator(_many)]
Vocabularies = Annotated[tuple[_Spec, ...], BeforeValidator(_vocabularies)]
Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]
Sample = Annotated[
    Annotated[float, Field(ge=0, le=1), Tag("=share")] | Annotated[Sampling, Tag("=table")],
    Discriminator(lambda value: "=table" if isinstance(value, (Mapping, Sampling)) else "=share"),
]
"""A share, or a table that says more; the tags never show."""


class Risks(Value):
    """How much depends on a record: by tag, by slice ("name=value") or by `predicate` ("module:function" of a record).

    Of several answers "high" stands; a tag or slice that is "normal" is spared a default of "high".
    """

    default: Risk = "normal"
    tags: dict[str, Risk] = Field(default_factory=dict)
    slices: dict[str, Risk] = Field(default_factory=dict)
    predicate: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        for key in data if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                raise PlanError("risk", key, "is no key of it", valid=cls.model_fields)
        return data


Risking = Annotated[
    Annotated[Risk, Tag("=risk")] | Annotated[Risks, Tag("=table")],
    Discriminator(lambda value: "=table" if isinstance(value, (Mapping, Risks)) else "=risk"),
]
"""A risk for all, or a table of which records have it."""


class Cascade(Value):
    """A full judge for what the first one doubts: flagged cards, and those whose score lies within `band`, on 0..1."""

    judge: _Spec
    band: tuple[float, float] = BAND

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        check_band("cascade.band", self.band)
        return self


class Plan(Value):
    """Everything a run needs to know; frozen, JSON and TOML both ways.

    `sources` are specs or paths, each read once; no `sinks` means home, where the traces came from; `conventions`
    are specs and mappings, and no spec among them means all that are installed; `kind` says what requests are read
    as ("auto": a summary where the prompt asks for one), `passages` ("module:function" of an id and its metadata)
    gives texts that traces do not hold; no `sample` means the source's own share (files: all); it is a share or a
    table, see `groundtrace.sampling.Sampling`. With a `cascade`, `judge` comes first and the cascade's judge gets
    what it doubts. `risk` may be a table of `Risks`. `scores` "headline" sends each rubric's own score alone.
    `store` is what outlives the run: a path, a PostgreSQL URL, "default" for the platform's data directory or
    "none"; without one nothing does (the command line takes "default"). With `keep_text` false it holds no answers,
    passages or rationales. Past `max_cost` US dollars nothing more is asked. Of the cards nobody has to see,
    `audit_rate` go to review too. `shard` (which, of how many) is a part of a run. Relative paths start at the
    current folder, a plan file's too.

    >>> Plan(sources="otel:spans.jsonl").judge
    'offline'
    >>> Plan(sources="otel:spans.jsonl", jugde="offline")
    Traceback (most recent call last):
    groundtrace.errors.PlanError: plan: 'jugde' is no key of a plan; did you mean 'judge'? ...
    """

    sources: Specs = Field(min_length=1)
    sinks: Specs = ()
    rubrics: Specs = Field(_RUBRICS, min_length=1)
    judge: _Spec = "offline"
    conventions: Vocabularies = ()
    kind: Literal["auto", "answer", "summary"] = "auto"
    passages: str | None = None
    sample: Sample | None = None
    cascade: Cascade | None = None
    risk: Risking = "normal"
    scores: Literal["all", "headline"] = "all"
    since: Moment | None = None
    until: Moment | None = None
    batch_id: str = ""
    store: str | None = None
    keep_text: bool = True
    max_cost: float | None = Field(None, gt=0)
    audit_rate: float = Field(0.01, ge=0, le=1)
    dry_run: bool = False
    shard: tuple[int, int] | None = None

    @classmethod
    def from_args(cls, *, plan_file: str | Path | None = None, **arguments: Any) -> Self:
        """A plan from arguments, then the environment, then a plan file; what nobody says has its default.

        Without `plan_file`, `groundtrace.toml` or `[tool.groundtrace]` of `pyproject.toml` in the current folder is
        the file. An argument that is None was not given.
        """
        said = {key: value for key, value in arguments.items() if value is not None}
        around = {key: os.environ[name] for name, key in _ENVIRONMENT.items() if os.environ.get(name)}
        file, filed = _filed(plan_file)
        try:
            return cls(**{**filed, **around, **said})
        except PlanError as error:
            for fault in (error, *error.others):
                where = "" if fault.of in said else f"from {file}" if fault.of in filed else ""
                if fault.of in around and fault.of not in said:
                    where = f"from the environment: GROUNDTRACE_{fault.of.upper()}"
                fault.hint = "; ".join(filter(None, (fault.hint, where and f"it comes {where}")))
            raise

    @classmethod
    def from_toml(cls, path: str | Path, **arguments: Any) -> Self:
        """A plan from its file; arguments and the environment go before what the file says."""
        return cls.from_args(plan_file=path, **arguments)

    @property
    def window(self) -> Window:
        """The time looked at, in nanoseconds."""
        epoch, step = dt.datetime.fromtimestamp(0, dt.UTC), dt.timedelta(microseconds=1)
        return Window(*(None if t is None else (t - epoch) // step * 1000 for t in (self.since, self.until)))

    @property
    def names_rubrics(self) -> bool:
        """Whether the rubrics are others than those of a plan that names none."""
        return self.rubrics != _RUBRICS

    def vocabularies(self) -> tuple[Convention, ...]:
        """The conventions of this plan, made: its own mappings first, for the first to know a thing is believed."""
        named = [spec for spec in self.conventions if not _is_mapping(spec)]
        names = named or [plugin.name for plugin in installed("convention")]
        mapped = declare(spec for spec in self.conventions if isinstance(spec, dict) and _is_mapping(spec))
        return (*mapped, *(load("convention", spec) for spec in names))

    def split(self, count: int) -> tuple[Self, ...]:
        """The plan in `count` parts by trace id, together as much as the whole: `run(plan) == sum(run(part))`."""
        if count < 1:
            raise PlanError("split", count, "is no number of parts", hint="write 1 or more")
        which, of = self.shard or (0, 1)
        return tuple(self.model_copy(update={"shard": (which + of * part, of * count)}) for part in range(count))

    def holds(self, trace_id: str) -> bool:
        """Whether a trace belongs to this part of the run."""
        return self.shard is None or shard(trace_id, self.shard[1]) == self.shard[0]

    def to_toml(self) -> str:
        """The plan as a file that reads back equal.

        >>> print(Plan(sources="otel:spans.jsonl", sample=0.5).to_toml(), end="")
        sources = ["otel:spans.jsonl"]
        rubrics = ["factual_accuracy", "rag_faithfulness", "source_support", "summary_groundedness"]
        judge = "offline"
        sample = 0.5
        risk = "normal"
        """
        fields = self.model_dump(exclude_none=True)
        shown = {key for key, value in fields.items() if value != type(self).model_fields[key].default}
        return "".join(f"{key} = {as_toml(value)}\n" for key, value in fields.items() if key in shown | _ALWAYS_SHOWN)

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """The plan, or all that is wrong with it: with each key by itself, else with all of them together."""
        refused = [fault for key, value in pairs(data) for fault in refusals(key, value, cls.model_fields)]
        together: list[PlanError] = []
        if not refused:
            try:
                return handler(data)
            except ValidationError as error:
                together = plan_errors(error)
            except PlanError as error:
                together = [error]
        alone = [fault for key, value in pairs(data) for fault in cls._faults(key, value, handler)]
        lacking = [fault for fault in together if fault.problem == LACKING]
        raise joined([*lacking, *refused, *alone] or together)

    @classmethod
    def _faults(cls, key: str, value: Any, handler: ModelWrapValidatorHandler[Self]) -> list[PlanError]:
        """What is wrong with one key of a plan, as if nothing else were said."""
        if any(refusals(key, value, cls.model_fields)):
            return []
        try:
            handler({"sources": ("otel:-",), key: value})
        except ValidationError as error:
            faults = list({str(fault): fault for fault in plan_errors(error)}.values())
        except PlanError as error:
            faults = [error]
        else:
            faults = []
        for fault in faults:
            fault.of = key
        return faults

    @field_validator("conventions")
    @classmethod
    def _without_secrets(cls, specs: tuple[_Spec, ...]) -> tuple[_Spec, ...]:
        for spec in specs:
            if not _is_mapping(spec):
                refuse_secrets(spec)
            elif LOGIN.search(json.dumps(spec, default=str)):  # a path may well be called app.token; a login is no path
                raise PlanError("conventions", "(not shown)", "holds a password, which does not belong in a plan")
        return specs

    @field_validator("sources")
    @classmethod
    def _named(cls, specs: tuple[_Spec, ...]) -> tuple[_Spec, ...]:
        names = [plugin.name for plugin in installed("source")]
        given = [spec for spec in specs if not is_ours(spec)]  # a shell's *.jsonl finds what was written before too
        named = [as_spec(spec, names) if isinstance(spec, str) else spec for spec in given or specs]
        return tuple(spec for at, spec in enumerate(named) if spec not in named[:at])

    @field_validator("sinks")
    @classmethod
    def _whole(cls, specs: tuple[_Spec, ...]) -> tuple[_Spec, ...]:
        names = [plugin.name for plugin in installed("sink")]
        for spec in specs:
            if isinstance(spec, str):
                refuse_bare(spec, names)
        return specs

    @field_validator("rubrics", "conventions")
    @classmethod
    def _distinct(cls, specs: tuple[_Spec, ...], info: Any) -> tuple[_Spec, ...]:
        kind = cast("Kind", info.field_name.removesuffix("s"))
        names = [name_of(kind, spec) for spec in specs if not _is_mapping(spec)]
        for name in names:
            if names.count(name) > 1:
                raise PlanError(info.field_name, name, "is named twice")
        return specs

    @field_validator("conventions")
    @classmethod
    def _declared(cls, specs: tuple[_Spec, ...]) -> tuple[_Spec, ...]:
        names = [plugin.name for plugin in installed("convention")]
        for spec in specs:
            if isinstance(spec, dict) and _is_mapping(spec) and spec["name"] in names:
                problem = "is the name of an installed convention"
                raise PlanError("conventions", spec["name"], problem, hint="give your mapping a name of its own")
        mapped = iter(settle(spec for spec in specs if isinstance(spec, dict) and _is_mapping(spec)))
        return tuple(next(mapped) if _is_mapping(spec) else spec for spec in specs)

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.since and self.until and self.since >= self.until:
            raise PlanError("since", self.since.isoformat(), f"is not before until ({self.until.isoformat()})")
        if self.shard and not 0 <= self.shard[0] < self.shard[1]:
            raise PlanError("shard", self.shard, "is no part of a run", hint="write [which, of how many], from 0")
        return self


def _is_mapping(spec: _Spec) -> bool:
    """Whether an entry of `conventions` is a mapping of the user's own."""
    return isinstance(spec, dict) and "use" not in spec and isinstance(spec.get("name"), str)


def _filed(path: str | Path | None) -> tuple[str, dict[str, Any]]:
    """The plan file and what it says: the one named, or the current folder's own, or nothing."""
    if path is not None:
        return str(path), _own(Path(path))
    if Path("groundtrace.toml").is_file():
        return "groundtrace.toml", _own(Path("groundtrace.toml"))
    if Path("pyproject.toml").is_file():
        tools = _read_toml(Path("pyproject.toml")).get("tool")
        own = tools.get("groundtrace") if isinstance(tools, dict) else None
        return "pyproject.toml", own if isinstance(own, dict) else {}
    return "", {}


def _own(path: Path) -> dict[str, Any]:
    """A file that is a plan from its first line on; a heading as in pyproject.toml is none of its keys."""
    told = _read_toml(path)
    for heading, table in (("groundtrace", told), ("tool.groundtrace", told.get("tool"))):
        if isinstance(table, dict) and isinstance(table.get("groundtrace"), dict):
            hint = f"the whole file is the plan: drop the [{heading}] header"
            raise PlanError("plan", str(path), f"has a header [{heading}]", hint=hint)
    return told


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError("plan", str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PlanError("plan", str(path), "is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError("plan", str(path), f"is not TOML: {error}") from None
