"""Turns `name:argument,option=value` into the source, sink, convention, rubric or judge of that name.

Names are entry points (`groundtrace.sources`, `.sinks`, `.conventions`, `.rubrics`, `.judges`), ours and other people's
through the same door. A factory is called as `factory(argument, **options)`: its first positional parameter takes the
argument, its other named parameters are the options. GROUNDTRACE_PLUGINS=none leaves other people's out.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints, overload

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from groundtrace import ports
from groundtrace.errors import GroundtraceError, PlanError

if TYPE_CHECKING:
    from types import TracebackType

    from pydantic_core import ErrorDetails

Kind: TypeAlias = Literal["source", "sink", "convention", "rubric", "judge"]
Spec: TypeAlias = "str | Mapping[str, Any]"
"""`name:argument,option=value`, or the same as a table: `{use = "name", argument = "...", option = value}`."""

KINDS: tuple[Kind, ...] = get_args(Kind)

_PORTS: Mapping[Kind, type] = {
    "source": ports.Source,
    "sink": ports.Sink,
    "convention": ports.Convention,
    "rubric": ports.Rubric,
    "judge": ports.Judge,
}
_OURS = "groundtrace"
_COMPATIBLE = {"azure", "deepseek", "groq", "litellm", "mistral", "ollama", "openrouter", "vllm", "xai"}
_BY_ADDRESS = "it speaks OpenAI's API: write openai:MODEL,base_url=ADDRESS"
"""Said of a judge that is the name of a provider whose API is OpenAI's."""

_NAME = re.compile("[:,]")
_COMMA = re.compile(r"(?<!\\),")
_WITHOUT_OTHERS = "GROUNDTRACE_PLUGINS=none leaves out what groundtrace did not bring itself"


@dataclass(frozen=True, slots=True)
class Plugin:
    """One thing that can be named in a plan, and the distribution that brought it."""

    name: str
    kind: Kind
    distribution: str
    version: str
    value: str
    """Where it is: `module:attribute`."""


def installed(kind: Kind | None = None) -> tuple[Plugin, ...]:
    """Everything that can be named, of one kind or of all; nothing is imported.

    >>> [plugin.name for plugin in installed("judge") if plugin.distribution == "groundtrace"]
    ['offline']
    """
    return tuple(plugin for one in KINDS if kind in (None, one) for plugin, _ in _doors(one))


def find(kind: Kind, name: str) -> Callable[..., object]:
    """The factory behind a name, imported; PlanError where there is none, two, or a broken one."""
    doors = [door for door in _doors(kind) if door[0].name == name]
    if not doors:
        valid = sorted({plugin.name for plugin, _ in _doors(kind)})
        hint = _BY_ADDRESS if kind == "judge" and name.lower() in _COMPATIBLE else ""
        raise PlanError(kind, name, "is not installed", valid=valid, hint=hint)
    if len(doors) > 1:
        owners = " and ".join(sorted(f"{plugin.distribution} {plugin.version}" for plugin, _ in doors))
        raise PlanError(kind, name, f"is brought by {owners}", hint=f"uninstall one of them, or {_WITHOUT_OTHERS}")
    plugin, entry = doors[0]
    hint = "" if plugin.distribution == _OURS else _WITHOUT_OTHERS
    with _Blame(kind, name, f"of {plugin.distribution} {plugin.version} ({plugin.value}) does not import", hint):
        return cast("Callable[..., object]", entry.load())


@overload
def load(kind: Literal["source"], spec: Spec) -> ports.Source: ...
@overload
def load(kind: Literal["sink"], spec: Spec) -> ports.Sink: ...
@overload
def load(kind: Literal["convention"], spec: Spec) -> ports.Convention: ...
@overload
def load(kind: Literal["rubric"], spec: Spec) -> ports.Rubric: ...
@overload
def load(kind: Literal["judge"], spec: Spec) -> ports.Judge: ...
def load(kind: Kind, spec: Spec) -> object:
    """What a spec names, made with its argument and options; PlanError says what to change.

    >>> load("judge", "offline").kind
    'offline'
    >>> load("judge", "ofline")
    Traceback (most recent call last):
    groundtrace.errors.PlanError: judge: 'ofline' is not installed; did you mean 'offline'? Valid: offline
    """
    name = name_of(kind, spec)
    factory = find(kind, name)
    parameters = _Parameters(kind, name, factory)
    argument, options = parameters.read(spec)
    with _Blame(kind, _shown(spec), "could not be made"):
        made = factory(*([] if argument is None else [argument]), **options)
    port = _PORTS[kind]
    asked = sorted({*(n for n in vars(port) if not n.startswith("_")), *port.__annotations__})
    lacking = [attribute for attribute in asked if not hasattr(made, attribute)]
    if lacking:
        raise PlanError(kind, name, f"is no {kind}: it lacks {', '.join(lacking)}")
    return made


def judge(spec: Spec) -> ports.Judge:
    """A judge by its spec: "offline", or "name:argument,option=value". PlanError where it can't be had."""
    return load("judge", spec)


def rubric(spec: Spec) -> ports.Rubric:
    """A rubric by its spec: "source_support", or "source_support,pairs=all". PlanError where it can't be had."""
    return load("rubric", spec)


def function(where: str) -> Callable[..., object]:
    """A function of the user's own by "module:function"; modules of the current folder are found too.

    >>> function("json:dumps")({})
    '{}'
    >>> function("json:dump_all")
    Traceback (most recent call last):
    groundtrace.errors.PlanError: function: 'json:dump_all' is not in that module
    """
    module, _, name = where.partition(":")
    if not (module and name):
        raise PlanError("function", where, "names no function", hint="write module:function")
    with _Blame("function", where, "does not import"), _here():
        found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise PlanError("function", where, "is not in that module")
    if not callable(found):
        raise PlanError("function", where, "is no function")
    return found


def table(kind: Kind, spec: Spec) -> dict[str, Any]:
    """A spec as the table that says the same.

    >>> table("source", "otel:spans.jsonl,settle=5")
    {'use': 'otel', 'argument': 'spans.jsonl,settle=5'}
    """
    if not isinstance(spec, str):
        return dict(spec)
    name = name_of(kind, spec)
    argument, options = _Parameters(kind, name, find(kind, name)).split(spec)
    return {"use": name, **({} if argument is None else {"argument": argument}), **options}


@contextmanager
def _here() -> Iterator[None]:
    """Lets modules of the current folder be imported, after all that is installed."""
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def name_of(kind: Kind, spec: Spec) -> str:
    """The name a spec starts with: what stands before its first `:` or `,`.

    >>> name_of("judge", "openai:gpt-5.2,timeout=30"), name_of("judge", {"use": "offline"})
    ('openai', 'offline')
    """
    if isinstance(spec, str):
        return _NAME.split(spec, maxsplit=1)[0].strip()
    use = spec.get("use")
    if not isinstance(use, str):
        raise PlanError(kind, dict(spec), "does not say what to use", hint='write { use = "name", ... }')
    return use


def _doors(kind: Kind) -> Iterator[tuple[Plugin, EntryPoint]]:
    alone = os.environ.get("GROUNDTRACE_PLUGINS", "").strip().lower() == "none"
    for plugin, entry in _found(kind, tuple((place, _changed(place)) for place in sys.path)):
        if plugin.distribution == _OURS or not alone:
            yield plugin, entry


@functools.lru_cache(maxsize=len(KINDS))
def _found(kind: Kind, _: tuple[tuple[str, int], ...]) -> tuple[tuple[Plugin, EntryPoint], ...]:
    """What is installed in these places as they are now: to read every distribution's metadata takes a while."""
    found = []
    for entry in sorted(entry_points(group=f"groundtrace.{kind}s"), key=lambda e: (e.name, e.value)):
        owner, version = (entry.dist.name, entry.dist.version) if entry.dist else ("an unknown distribution", "?")
        found.append((Plugin(entry.name, kind, owner, version, entry.value), entry))
    return tuple(found)


def _changed(place: str) -> int:
    """When something was installed in a place last, or taken away."""
    try:
        return Path(place).stat().st_mtime_ns
    except OSError:
        return 0


_MISFITS: Mapping[str, str] = {
    "bool": "is neither true nor false",
    "date": "is no time",
    "datetime": "is no time",
    "dict": "is no table",
    "finite": "is no finite number",
    "float": "is no number",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "int": "is no whole number",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "list": "is no list",
    "literal": "must be {expected}",
    "string": "is no text",
    "too_long": "has {actual_length} entries, {max_length} at most are wanted",
    "too_short": "has {actual_length} entries, {min_length} at least are wanted",
    "tuple": "is no list",
}
"""What pydantic finds wrong, by the first part of its name for it, in words a user would say."""


def misfit(fault: ErrorDetails) -> str:
    """What is wrong with a value, in plain words.

    >>> misfit({"type": "tuple_type", "loc": (), "msg": "Input should be a valid tuple", "input": 7})
    'is no list'
    """
    words = _MISFITS.get(fault["type"]) or _MISFITS.get(fault["type"].partition("_")[0])
    return words.format(**fault.get("ctx", {})) if words else fault["msg"].removeprefix("Value error, ")


def _shown(spec: Spec) -> object:
    return spec if isinstance(spec, str) else dict(spec)


class _Blame(AbstractContextManager[None]):
    """Other people's code can raise anything while it loads; what it raises becomes a PlanError that names it."""

    def __init__(self, kind: str, spec: object, problem: str, hint: str = "") -> None:
        self.kind, self.spec, self.problem, self.hint = kind, spec, problem, hint

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, GroundtraceError):
            said = f"{self.problem}: {type(error).__name__}: {error}"
            raise PlanError(self.kind, self.spec, said, hint=self.hint) from error


class _Parameters:
    """What a factory takes: one argument or none, and the options it declares by name."""

    def __init__(self, kind: Kind, name: str, factory: Callable[..., object]) -> None:
        self.kind, self.name, self.factory = kind, name, factory
        with _Blame(kind, name, "does not say what it takes"):
            declared = list(inspect.signature(factory).parameters.values())
        positional = [p for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        self.argument = positional[0] if positional else None
        keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.options = {p.name: p for p in declared if p.kind in keyword and p is not self.argument}

    def read(self, spec: Spec) -> tuple[object, dict[str, object]]:
        """The argument (None: not given) and the options a spec gives, each as the factory's annotation asks."""
        argument, given = self.split(spec) if isinstance(spec, str) else self._unpack(spec)
        for option in given:
            if option not in self.options:
                raise self._no_option(option)
        if argument is None and self.argument is not None and self.argument.default is inspect.Parameter.empty:
            form = f"{self.name}:{self.argument.name.upper()}"
            raise PlanError(self.kind, _shown(spec), "needs an argument", hint=f"write {form}")
        if argument is not None and self.argument is None:
            raise PlanError(self.kind, _shown(spec), "takes no argument", hint=f"write {self.name}")
        for option, parameter in self.options.items():
            if parameter.default is inspect.Parameter.empty and option not in given:
                raise PlanError(self.kind, _shown(spec), f"needs the option {option!r}")
        kinds = self._annotations() if given or argument is not None else {}
        if argument is not None and self.argument is not None:
            argument = self._convert(self.argument.name, kinds.get(self.argument.name, Any), argument)
        return argument, {o: self._convert(o, kinds.get(o, Any), v) for o, v in given.items()}

    def split(self, spec: str) -> tuple[str | None, dict[str, object]]:
        """The argument and the options of a spec, as they are written."""
        rest = spec[len(_NAME.split(spec, maxsplit=1)[0]) :]
        first, *segments = _COMMA.split(rest.removeprefix(":"))
        parts: list[list[str]] = [["", first]]
        for segment in segments:
            word, equals, value = segment.partition("=")
            word = word.strip()
            if equals and word in self.options:
                parts.append([word, value])
            elif not rest.startswith(":"):
                raise self._no_option(word)
            elif equals and (near := difflib.get_close_matches(word, self.options, n=1, cutoff=0.8)):
                hint = r"where the comma belongs to the argument, write \,"
                raise PlanError(f"{self.kind} {self.name}", word, "is no option of it", valid=near, hint=hint)
            else:
                parts[-1][1] += f",{segment}"
        twice = [word for word in self.options if sum(part[0] == word for part in parts) > 1]
        if twice:
            raise PlanError(f"{self.kind} {self.name}", twice[0], "is given twice")
        (_, argument), *options = [(word, value.replace("\\,", ",")) for word, value in parts]
        return argument or None, dict(options)

    def _no_option(self, word: str) -> PlanError:
        hint = "" if self.options else "it has none"
        return PlanError(f"{self.kind} {self.name}", word, "is no option of it", valid=sorted(self.options), hint=hint)

    def _unpack(self, spec: Mapping[str, Any]) -> tuple[object, dict[str, object]]:
        return spec.get("argument"), {key: value for key, value in spec.items() if key not in ("use", "argument")}

    def _annotations(self) -> dict[str, Any]:
        takes = self.factory.__init__ if inspect.isclass(self.factory) else self.factory
        with _Blame(self.kind, self.name, "has options whose types cannot be read"):
            # What it returns need not be importable: only what it takes is looked at.
            told = {name: kind for name, kind in inspect.get_annotations(takes).items() if name != "return"}
            held = SimpleNamespace(__annotations__=told)
            return get_type_hints(held, getattr(inspect.unwrap(takes), "__globals__", None))

    def _convert(self, option: str, kind: Any, value: object) -> object:
        if isinstance(value, str) and any(get_origin(one) is Callable for one in (kind, *get_args(kind))):
            return function(value)
        try:
            return TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False)).validate_python(value)
        except PydanticUserError:  # a type with a config of its own, or one pydantic does not know
            return value
        except ValidationError as error:
            problem = misfit(error.errors()[0])
            raise PlanError(f"{self.kind} {self.name}, {option}", value, f"does not fit: {problem}") from error
