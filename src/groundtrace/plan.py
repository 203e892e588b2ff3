"""The plan of a run: what to read, by which rubrics and judge, and where the scores go.

One value for the plan file, the command line and a worker's orders; the one place where an argument goes before the
environment, the environment before a file, and a file before the default. It never holds a secret: those stay in the
environment, under the names the platforms' own SDKs read.
"""

from __future__ import annotations

import datetime as dt
import difflib
import glob
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self, cast
from urllib.parse import unquote

from pydantic import (
    AwareDatetime,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_validator,
    model_validator,
)

from groundtrace.adapters.lines import find as place
from groundtrace.adapters.lines import is_own, obstacle
from groundtrace.conventions.paths import declare, settle
from groundtrace.errors import PlanError
from groundtrace.model import Risk, Value, Window
from groundtrace.plugins import Kind, find, installed, load, misfit, name_of
from groundtrace.ports import Convention
from groundtrace.sampling import shard

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_ENVIRONMENT: Mapping[str, str] = {
    "GROUNDTRACE_JUDGE": "judge",
    "GROUNDTRACE_SAMPLE": "sample",
    "GROUNDTRACE_RISK": "risk",
    "GROUNDTRACE_BATCH_ID": "batch_id",
}
_RUBRICS = ("factual_accuracy", "rag_faithfulness", "source_support", "summary_groundedness")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_LACKING = "is missing"
_SECRET = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|token|secret|password|passwd"
    r"|authorization|credentials?)$",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"://[^/@\s:]*:[^/@\s]+@|\bBearer\s+\S", re.IGNORECASE)
_PAIR = re.compile(r"(?:^|[\s,;&?#{\"'])([\w%-]{1,64})[\"']?\s{0,9}[:=]\s{0,9}[\"']?[^\s,;&\"']")
"""A name and the start of its value, as options, headers, the query of an address and JSON spell them."""
_ENVIRONMENTS: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "braintrust": "BRAINTRUST_API_KEY",
    "google": "GOOGLE_API_KEY",
    "langsmith": "LANGSMITH_API_KEY",
    "mlflow": "MLFLOW_TRACKING_TOKEN",
    "openai": "OPENAI_API_KEY",
    "otlp": "OTEL_EXPORTER_OTLP_HEADERS",
    "phoenix": "PHOENIX_API_KEY",
}
"""Where the platforms' own SDKs look for a secret."""


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


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, (list, tuple)) else (value,)


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


class Plan(Value):
    """Everything a run needs to know; frozen, JSON and TOML both ways.

    `sources` are specs or paths, each read once; no `sinks` means home, where the traces came from; `conventions` are
    specs and mappings, and no spec among them means all that are installed; no `sample` means the source's own share
    (files: all). `shard` (which, of how many) is a part of a run. Relative paths start at the current folder, a plan
    file's too.

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
    sample: float | None = Field(None, ge=0, le=1)
    risk: Risk = "normal"
    since: Moment | None = None
    until: Moment | None = None
    batch_id: str = ""
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
        return "".join(
            f"{key} = {_toml(value)}\n" for key, value in fields.items() if value is not False and value not in ((), "")
        )

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """The plan, or all that is wrong with it: with each key by itself, else with all of them together."""
        refused = [fault for key, value in _pairs(data) for fault in _refusals(key, value, cls.model_fields)]
        together: list[PlanError] = []
        if not refused:
            try:
                return handler(data)
            except ValidationError as error:
                together = _plan_errors(error)
            except PlanError as error:
                together = [error]
        alone = [fault for key, value in _pairs(data) for fault in cls._faults(key, value, handler)]
        lacking = [fault for fault in together if fault.problem == _LACKING]
        raise _joined([*lacking, *refused, *alone] or together)

    @classmethod
    def _faults(cls, key: str, value: Any, handler: ModelWrapValidatorHandler[Self]) -> list[PlanError]:
        """What is wrong with one key of a plan, as if nothing else were said."""
        if any(_refusals(key, value, cls.model_fields)):
            return []
        try:
            handler({"sources": ("otel:-",), key: value})
        except ValidationError as error:
            faults = list({str(fault): fault for fault in _plan_errors(error)}.values())
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
                _refuse_secrets(spec)
            elif _LOGIN.search(
                json.dumps(spec, default=str)
            ):  # a path may well be called app.token; a login is no path
                raise PlanError("conventions", "(not shown)", "holds a password, which does not belong in a plan")
        return specs

    @field_validator("sources")
    @classmethod
    def _named(cls, specs: tuple[_Spec, ...]) -> tuple[_Spec, ...]:
        names = [plugin.name for plugin in installed("source")]
        given = [spec for spec in specs if not _is_ours(spec)]  # a shell's *.jsonl finds what was written before too
        named = [_source(spec, names) if isinstance(spec, str) else spec for spec in given or specs]
        return tuple(spec for at, spec in enumerate(named) if spec not in named[:at])

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


# --- files and paths ------------------------------------------------------------------------------------------------


def _filed(path: str | Path | None) -> tuple[str, dict[str, Any]]:
    """The plan file and what it says: the one named, or the current folder's own, or nothing."""
    if path is not None:
        return str(path), _read_toml(Path(path))
    if Path("groundtrace.toml").is_file():
        return "groundtrace.toml", _read_toml(Path("groundtrace.toml"))
    if Path("pyproject.toml").is_file():
        tools = _read_toml(Path("pyproject.toml")).get("tool")
        own = tools.get("groundtrace") if isinstance(tools, dict) else None
        return "pyproject.toml", own if isinstance(own, dict) else {}
    return "", {}


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError("plan", str(path), f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PlanError("plan", str(path), "is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError("plan", str(path), f"is not TOML: {error}") from None


def _source(spec: str, names: list[str]) -> str:
    """A source as a spec: one that names its source stays, a path is looked into to see who reads it."""
    name = name_of("source", spec)
    if name in names and spec.strip() != name:
        return spec
    if _exists(spec):
        return _sniffed(spec, [Path(spec)])
    if name in names:
        return spec
    if found := sorted(glob.glob(spec, recursive=True)):  # noqa: PTH207 - Path.glob takes no absolute pattern
        return _sniffed(spec, [Path(path) for path in found])
    if spec.strip() == "-":
        raise PlanError("source", spec, "does not say what comes in", hint="write otel:- or jsonl:-")
    if ":" in spec and not {"/", "."} & set(name):
        find("source", name)
    beside = _beside(Path(spec))
    hint = f"did you mean {beside!r}?" if beside else f"a path that exists, or NAME:WHERE (NAME: {', '.join(names)})"
    raise PlanError("source", spec, "does not exist here", hint=hint)


def _sniffed(spec: str, paths: list[Path]) -> str:
    """The spec of the one source that recognises what lies at these paths."""
    readers, broken = set(), []
    for plugin in installed("source"):
        try:
            recognises = getattr(find("source", plugin.name), "recognises", None)
        except PlanError as error:  # a neighbour's broken source is only in the way when nobody else reads this
            broken.append(error)
            continue
        if recognises is not None and any(recognises(path) for path in paths):
            readers.add(plugin.name)
    if len(readers) == 1:
        return f"{readers.pop()}:{spec.replace(',', chr(92) + ',')}"
    if broken:
        raise broken[0]
    if readers:
        forms = " or ".join(f"{name}:{spec}" for name in sorted(readers))
        raise PlanError("source", spec, "can be read in more than one way", hint=f"write {forms}")
    _refuse_closed(spec, paths)
    hint = f"if it should hold traces, write otel:{spec} to see what is wrong with it; records: jsonl:{spec}"
    raise PlanError("source", spec, "holds no traces or records that an installed source recognises", hint=hint)


def _refuse_closed(spec: str, paths: list[Path]) -> None:
    """Say of files that nobody can read, or that hold nothing, that it is so."""
    files = [file for path in paths for file in place(str(path)).files()]
    if not files:
        hint = "*.jsonl and *.json are read, also as .gz or .zst"
        raise PlanError("source", spec, "holds no files of traces or records", hint=hint)
    closed = [(file, problem) for file in files if (problem := obstacle(file))]
    if len(closed) == len(files):
        raise PlanError("source", str(closed[0][0]), closed[0][1])


def _is_ours(spec: _Spec) -> bool:
    """Whether a source is the path of a file that groundtrace wrote."""
    return isinstance(spec, str) and is_own(Path(spec)) and _exists(spec)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # a name too long to be one
        return False


def _beside(path: Path) -> str | None:
    """The file next to a missing one that is spelled most like it."""
    near = difflib.get_close_matches(path.name, _names(path.parent), n=1)
    return str(path.parent / near[0]) if near else None


def _names(folder: Path) -> Iterable[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except (OSError, ValueError):
        return []


# --- errors, secrets, TOML ------------------------------------------------------------------------------------------


def _pairs(data: object) -> Iterable[tuple[str, Any]]:
    return data.items() if isinstance(data, Mapping) else ()


def _refusals(key: str, value: object, valid: Iterable[str]) -> Iterator[PlanError]:
    """What is refused before anything is looked into: a key that is none, a secret."""
    if key not in valid:
        strange = PlanError("plan", key, "is no key of a plan", valid=valid)
        strange.of = key
        yield strange
        return
    try:
        for spec in _listed(value) if key in ("sources", "sinks", "rubrics", "judge") else ():
            _refuse_secrets(spec)
    except PlanError as error:
        error.of = key
        yield error


def _plan_errors(error: ValidationError) -> list[PlanError]:
    """What pydantic does not like, in our words."""
    return [_plan_error(fault) for fault in error.errors(include_url=False)]


def _plan_error(fault: ErrorDetails) -> PlanError:
    steps = [str(step) for step in fault["loc"] if not str(step).startswith(("str", "dict["))]
    if fault["type"] == "missing":
        return PlanError("plan", ".".join(steps), _LACKING, hint="say what to read: a SOURCE, or sources = [...]")
    either = "is neither a text nor a table" if len(steps) < len(fault["loc"]) else misfit(fault)
    return PlanError(".".join(steps) or "plan", fault["input"], f"does not fit: {either}")


def _joined(faults: list[PlanError]) -> PlanError:
    """All that is wrong as one error."""
    first, *others = faults
    first.others = tuple(others)
    return first


def _refuse_secrets(spec: object) -> None:
    """A plan is written to files and reports; a password in it would be too. The refusal does not repeat it."""
    name = next((name for name, value in _said(spec) if value not in (None, "") and _SECRET.search(unquote(name))), "")
    if name or _LOGIN.search(spec if isinstance(spec, str) else json.dumps(spec, default=str)):
        use = spec.get("use") if isinstance(spec, Mapping) else spec
        plugin = _ENVIRONMENTS.get(re.split("[:,]", use, maxsplit=1)[0].strip()) if isinstance(use, str) else None
        hint = "set it in the environment instead" + (f": {plugin}" if plugin else ", under the name its SDK reads")
        raise PlanError(name or "address", "(not shown)", "is a secret and does not belong in a plan", hint=hint)


def _said(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Every name in a spec with its value, however deep, also those inside of texts."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            # an option named `key` is one; deeper down, a key may be of anything
            yield ("api_key" if not name and key == "key" else str(key)), item if _is_text(item) else None
            yield from _said(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _said(item, name or "-")
    elif isinstance(value, str):
        yield from ((match[1], "-") for match in _PAIR.finditer(value))


def _is_text(value: object) -> bool:
    return isinstance(value, (str, int, float))


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dt.datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
