"""What a user can set of a rubric: its wording and its bounds, the built-in's own or a copy of them; and its version.

Every rubric stands on two files of one name: NAME.md, the prompt with places such as `{{levels.5}}` in it, and
NAME.toml, what the places are filled with and the bounds. `groundtrace rubric copy NAME` writes both out, and a plan
names the copy: `source_support,copy=rubrics/source_support.toml`. A copy is text and is never run.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from groundtrace.errors import PlanError, joined
from groundtrace.model import Value
from groundtrace.rubrics import law

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

BUILT_IN = "built-in"
"""What `made_from` says in the files that come with groundtrace."""

_SETTINGS, _PROMPT = ".toml", ".md"
_PLACE = re.compile(r"^\{\{([^{}\n]{1,80})\}\}\n|\{\{([^{}\n]{1,80})\}\}", re.MULTILINE)
_LARGEST = 1_000_000
"""Bytes of a file of a copy that are read."""

_PLAINER = (("a valid integer", "a whole number"), ("a valid string", "text"), ("a valid ", "a "))
"""What pydantic calls the kinds of values, and what a user would."""

_ABOUT = ("rubric", "made_from", "adopted")
"""Keys that say where a copy comes from and how far it is trusted: they move no score."""


class Example(Value):
    """A question and the reply a careful judge gives to it; `reply` is its JSON text."""

    reply: str

    def shown(self) -> str:
        """The example as the prompt shows it."""
        lines = [""]
        for name, value in self.model_dump(exclude={"reply"}).items():
            several = "; ".join(f'{at}: "{text}"' for at, text in enumerate(value, start=1))
            lines.append(f"{name.capitalize()}: " + (f'"{value}"' if isinstance(value, str) else several))
        return "\n".join([*lines, "", "```", self.reply.strip(), "```"])


class Settings(Value):
    """Where a copy comes from; each rubric adds what can be set of it.

    `rules` is the number of the rubric's rules in code, `wording` the tables that stand in the prompt.
    """

    name: ClassVar[str]
    rules: ClassVar[int]
    wording: ClassVar[tuple[str, ...]]

    rubric: str
    made_from: str
    adopted: str = ""
    """The version that was tested and found good: `groundtrace rubric test --adopt` writes it."""

    def hashed(self) -> dict[str, Any]:
        """The settings every version is made of; all others are hashed where they are not the built-in's."""
        raise NotImplementedError

    def fills(self) -> dict[str, str]:
        """What places of the prompt are filled with besides the wording; one that is not empty must have its place."""
        return {}

    def shows(self) -> dict[str, str]:
        """What may stand in the prompt and need not: the figures of its own example."""
        return {}


S = TypeVar("S", bound=Settings)
Schema = Callable[[S], type[BaseModel]]
Figures = Callable[[S, Any], Sequence[str]]
"""What is wrong in the arithmetic and the labels of a reply, under some settings; a line a fault."""


@dataclass(frozen=True)
class Sheet(Generic[S]):
    """A rubric's two files as they were read: `told` is the settings' text, `template` the prompt with its places.

    `path` is that of a copy's settings, None for the built-in.
    """

    path: Path | None
    told: str
    template: str
    settings: S


@dataclass(frozen=True)
class Edition(Generic[S]):
    """A rubric as it is put to the judge: its settings, its prompt, and the version that hashes all of it.

    `of_copy` is the version of the copy by itself, `of_built_in` that of the rubric nobody changed; all three are
    equal where nothing is set.
    """

    sheet: Sheet[S]
    own: Sheet[S]
    settings: S
    prompt: str
    prompt_hash: str
    version: str
    of_copy: str
    of_built_in: str

    @property
    def untested(self) -> bool:
        """Whether this is a copy whose words or bounds are not those that were last tested."""
        return self.of_copy not in {self.of_built_in, self.sheet.settings.adopted}

    def notes(self) -> tuple[str, ...]:
        """What a run with this edition should say of it, one line each."""
        path = self.sheet.path
        if path is None or not self.untested:
            return ()
        since = "changed since it was last tested" if self.sheet.settings.adopted else "was not tested yet"
        told = f"groundtrace rubric test {path} --golden FILE.jsonl shows what it moves, --adopt takes it on"
        return (f"{self.settings.name}: the copy {path} {since}; {told}",)


def edition(
    kind: type[S], schema: Schema[S], figures: Figures[S], copy: Path | None, said: Mapping[str, object]
) -> Edition[S]:
    """A rubric's edition: what is `said` goes before the copy, the copy before the built-in.

    A value that is None was not said. PlanError names the file, the key and the value that can't be used.
    """
    own = built_in(kind)
    sheet = own if copy is None else read(kind, copy)
    _hold_examples(sheet, schema(sheet.settings), figures)
    given = {key: value for key, value in said.items() if value is not None}
    settings = _valid(kind, sheet.settings.model_dump() | given, f"rubric {kind.name}") if given else sheet.settings
    prompt = fill(sheet, settings)
    of_built_in = _version(own.settings, fill(own, own.settings), schema, own)
    of_copy = of_built_in if sheet is own else _version(sheet.settings, fill(sheet, sheet.settings), schema, own)
    return Edition(
        sheet=sheet,
        own=own,
        settings=settings,
        prompt=prompt,
        prompt_hash=law.digest(prompt),
        version=of_copy if settings is sheet.settings else _version(settings, prompt, schema, own),
        of_copy=of_copy,
        of_built_in=of_built_in,
    )


def _version(settings: S, prompt: str, schema: Schema[S], own: Sheet[S]) -> str:
    """Rules, prompt, schema, settings; a setting that came later is hashed only where it is not the built-in's.

    So a new setting leaves the version of everyone who doesn't use it as it was, and their cards settled.
    """
    hashed = settings.hashed()
    mine, built = settings.model_dump(mode="json"), own.settings.model_dump(mode="json")
    moved = {key: v for key, v in mine.items() if key not in hashed and key not in _ABOUT and v != built[key]}
    return law.version(settings.rules, prompt, schema(settings), hashed | moved)


# --- reading --------------------------------------------------------------------------------------------------------


def built_in(kind: type[S]) -> Sheet[S]:
    """The files that come with groundtrace."""
    return _built_in(kind)


@functools.cache
def _built_in(kind: type[Any]) -> Sheet[Any]:
    folder = resources.files("groundtrace.rubrics")
    told, template = (folder.joinpath(kind.name + end).read_text(encoding="utf-8") for end in (_SETTINGS, _PROMPT))
    return Sheet(None, told, template, kind.model_validate(tomllib.loads(told)))


def read(kind: type[S], path: Path) -> Sheet[S]:
    """A copy, its prompt beside it; PlanError with everything that is wrong with its settings."""
    told = _text(path)
    given, own = _table(path, told), tomllib.loads(built_in(kind).told)
    if given.get("rubric") != kind.name:
        problem = f"is not the rubric this is a copy for: {kind.name}"
        raise PlanError(f"{path}, rubric", given.get("rubric"), problem, hint=f'write rubric = "{kind.name}"')
    faults = [*_strange(given, own, path, [*kind.model_fields]), *_lacking(given, own, path)]
    if faults:
        raise joined(faults)
    settings = _valid(kind, own | {"made_from": ""} | given, str(path))
    return Sheet(path, told, _text(path.with_suffix(_PROMPT)), settings)


def named(path: Path) -> object:
    """The rubric a copy says it is of, whatever stands there."""
    return _table(path, _text(path)).get("rubric")


def _text(path: Path) -> str:
    try:
        data = path.read_bytes() if path.stat().st_size <= _LARGEST else b""
        if path.stat().st_size > _LARGEST:
            raise PlanError("copy", str(path), f"is larger than {_LARGEST:,} bytes", hint="a prompt is a few pages")
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise PlanError("copy", str(path), "is not UTF-8 text", hint="save it as UTF-8") from None
    except (OSError, ValueError) as error:
        hint = "a copy is two files beside each other: NAME.toml and NAME.md"
        problem = error.strerror if isinstance(error, OSError) else error
        raise PlanError("copy", str(path), f"cannot be read: {problem}", hint=hint) from None


def _table(path: Path, told: str) -> dict[str, Any]:
    try:
        return tomllib.loads(told)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        hint = "" if path.suffix == _SETTINGS else "name the NAME.toml of a copy"
        raise PlanError("copy", str(path), f"is not TOML: {error}", hint=hint) from None


def _strange(
    given: Mapping[str, Any], own: Mapping[str, Any], path: Path, known: list[str], at: str = ""
) -> Iterator[PlanError]:
    """Keys the rubric does not know, and what is a table here and none in the built-in, or the other way round."""
    for key, value in given.items():
        whole = f"{at}.{key}" if at else key
        if key not in known:
            where = f"[{at}]" if at else "this rubric"
            yield PlanError(f"{path}, {at or 'key'}", key, f"is no key of {where}", valid=known)
        elif isinstance(own.get(key), dict) != isinstance(value, dict):
            wanted = f"a table: [{whole}]" if isinstance(own.get(key), dict) else "no table"
            yield PlanError(f"{path}, {whole}", value, f"must be {wanted}")
        elif isinstance(value, dict):
            yield from _strange(value, own[key], path, [*own[key]], whole)


def _lacking(given: Mapping[str, Any], own: Mapping[str, Any], path: Path, at: str = "") -> Iterator[PlanError]:
    """Keys missing from a table that is given: half a scale is no scale."""
    for key, value in own.items():
        if at and key not in given:
            yield PlanError(f"{path}, {at}", key, "is missing", hint=f"write it back; the built-in has {value!r}")
        elif isinstance(value, dict) and isinstance(given.get(key), dict):
            yield from _lacking(given[key], value, path, f"{at}.{key}" if at else key)


def _valid(kind: type[S], told: Mapping[str, Any], where: str) -> S:
    """The settings, every value held against what it may be."""
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        raise joined([_fault(fault, where) for fault in error.errors(include_url=False)]) from None


def _fault(fault: ErrorDetails, where: str) -> PlanError:
    """What is wrong with one value, in words."""
    key = ".".join(str(step) for step in fault["loc"])
    said = fault["msg"].removeprefix("Value error, ").replace("Input should", "should")
    said = functools.reduce(lambda words, pair: words.replace(*pair), _PLAINER, said)
    missing, strange = fault["type"] == "missing", fault["type"] == "extra_forbidden"
    problem = "is missing" if missing else "is no key here" if strange else said
    return PlanError(
        where if missing or strange else f"{where}, {key}", key if missing or strange else fault["input"], problem
    )


def _hold_examples(sheet: Sheet[S], schema: type[BaseModel], figures: Figures[S]) -> None:
    """An example whose reply breaks the contract, or is wrong in a figure, would teach the fault."""
    for at, example in enumerate(getattr(sheet.settings, "examples", ())):
        where = f"{sheet.path}, examples.{at}.reply"
        try:
            verdict = schema.model_validate(json.loads(example.reply, parse_float=Decimal))
        except ValidationError as error:
            raise joined([_fault(fault, where) for fault in error.errors(include_url=False)]) from None
        except (ValueError, RecursionError) as error:
            hint = "write the JSON object between ''' and '''"
            raise PlanError(where, example.reply[:80], f"is not JSON: {error}", hint=hint) from None
        faults = [fault.rpartition(" @ $.") for fault in figures(sheet.settings, verdict)]
        if faults:
            raise joined([PlanError(where, place, f"is wrong: {what}") for what, _, place in faults])


# --- the prompt -----------------------------------------------------------------------------------------------------


def fill(sheet: Sheet[S], settings: S) -> str:
    """The prompt with every place filled; a place alone on its line that has nothing to say takes its line away."""
    wording = {at: text for table in settings.wording for at, text in _leaves(table, getattr(settings, table))}
    examples = "\n".join(example.shown() for example in getattr(settings, "examples", ()))
    needed = wording | settings.fills() | {"examples": examples}
    every = needed | settings.shows()
    held = {alone or within for alone, within in _PLACE.findall(sheet.template)}
    file = str(sheet.path.with_suffix(_PROMPT)) if sheet.path else settings.name + _PROMPT
    valid = [_braced(place) for place in every]
    strange = [PlanError(file, _braced(p), "is no place of this prompt", valid=valid) for p in sorted(held - {*every})]
    absent = [place for place, text in needed.items() if text and place not in held]
    hint = "put it where those words should stand"
    faults = strange + [PlanError(file, _braced(place), "is missing", hint=hint) for place in absent]
    if faults:
        raise joined(faults)

    def put(place: re.Match[str]) -> str:
        if place[1] is None:
            return every[place[2]]
        return f"{every[place[1]]}\n" if every[place[1]] else ""

    return _PLACE.sub(put, sheet.template)


def _braced(place: str) -> str:
    return f"{{{{{place}}}}}"


def _leaves(at: str, value: object) -> Iterator[tuple[str, str]]:
    """The texts of a table by their path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{at}.{key}", inner)
    else:
        yield at, law.plain(value) if isinstance(value, float) else str(value)


# --- writing --------------------------------------------------------------------------------------------------------


def write(held: Edition[S], folder: Path) -> tuple[Path, Path]:
    """Write a rubric's two files into a folder, where they are the user's own; what is there is never written over."""
    name = held.settings.name
    told = held.own.told.replace(f'made_from = "{BUILT_IN}"', f'made_from = "{held.of_built_in}"', 1)
    settings, prompt = folder / (name + _SETTINGS), folder / (name + _PROMPT)
    for file in (settings, prompt):
        if file.exists() or file.is_symlink():
            raise PlanError("copy", str(file), "is there already", hint="name another folder, or move it away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in ((settings, told), (prompt, held.own.template)):
            with file.open("x", encoding="utf-8", newline="\n") as out:
                out.write(text)
    except OSError as error:
        raise PlanError("copy", str(folder), f"cannot be written: {error.strerror}") from None
    return settings, prompt


def adopt(path: Path, version: str) -> None:
    """Write into a copy which version was tested; every other byte stays as it is."""
    try:
        after = adopted(path.read_bytes(), version)
        if after is None:
            hint = f'write adopted = "{version}" above its first table'
            raise PlanError("adopt", str(path), "is written so that the line can't be put in", hint=hint)
        file = path.resolve()
        beside = file.with_name(f".{file.name}.new")
        beside.write_bytes(after)
        beside.chmod(file.stat().st_mode & 0o7777)
        beside.replace(file)
    except OSError as error:
        raise PlanError("adopt", str(path), f"cannot be written: {error.strerror}") from None


def adopted(told: bytes, version: str) -> bytes | None:
    r"""The settings with `adopted` set, or None where that would change anything else.

    >>> adopted(b'made_from = "1.a"\r\n\r\nsupported = 4\r\n', "1.b")
    b'made_from = "1.a"\r\nadopted = "1.b"\r\n\r\nsupported = 4\r\n'
    """
    end = b"\r\n" if b"\r\n" in told else b"\n"
    lines, line = told.split(end), f'adopted = "{version}"'.encode()
    at = next((n for n, text in enumerate(lines) if re.match(rb"adopted\s*=", text)), None)
    if at is None:
        above = (n for n, text in enumerate(lines) if re.match(rb"(\xef\xbb\xbf)?(made_from|rubric)\s*=", text))
        lines.insert(max(above, default=-1) + 1, line)
    else:
        lines[at] = line
    after = end.join(lines)
    try:
        was, now = (tomllib.loads(text.decode("utf-8-sig")) for text in (told, after))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None
    was.pop("adopted", None)
    return after if now.pop("adopted", None) == version and now == was else None
