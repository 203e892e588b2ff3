"""Where a source of files reads: found by path, folder or glob, and the names of what belongs together."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from groundtrace.errors import PlanError

OWN = (".groundtrace.jsonl", ".groundtrace.logs.jsonl")
"""How the names of the files end that groundtrace writes; no source reads them."""

_JSON = (".jsonl", ".ndjson", ".json")
_BINARY = (".pb", ".binpb", ".otlp")
"""How protobuf is named; only a source that reads it looks for it in folders."""
_ENDINGS = _JSON + _BINARY
_PACKED = ("", ".gz", ".zst")
_SHOWN = 3
"""Names told in a row; the rest is told by dots."""
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a source reads: a file, a folder, the files of a glob, standard input, or several of these places."""

    path: str
    kind: Literal["file", "folder", "glob", "stdin", "several"]
    parts: tuple[Place, ...] = ()
    binary: bool = False
    """Whether protobuf is looked for in a folder as well."""

    def files(self) -> tuple[Path, ...]:
        """The files there, each once; groundtrace's own and hidden ones are left out of folders and globs."""
        if self.kind == "stdin":
            return ()
        if self.kind == "several":
            first: dict[Path, Path] = {}
            for file in (file for part in self.parts for file in part.files()):
                first.setdefault(file.resolve(), file)
            return tuple(first.values())
        if self.kind == "file":
            return (Path(self.path),)
        if self.kind == "glob":
            found: Iterable[Path] = map(Path, glob.iglob(self.path, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
        else:
            endings = _ENDINGS if self.binary else _JSON
            found = (path for path in Path(self.path).iterdir() if _bare(path.name, endings) != path.name)
        distinct = {path.resolve(): path for path in found if path.is_file() and not _left_out(path)}
        return tuple(sorted(distinct.values()))

    @property
    def is_at_hand(self) -> bool:
        """Whether reading never waits for a writer, as it does at standard input or at a pipe."""
        if self.kind == "several":
            return all(part.is_at_hand for part in self.parts)
        return self.kind in ("folder", "glob") or (self.kind == "file" and Path(self.path).is_file())

    def home(self) -> tuple[Path, str]:
        """The folder and the stem of what is written beside it; PlanError for standard input, which has no place.

        Several places that are not one file have the home of the folder that holds them all.
        """
        if self.kind == "stdin":
            raise PlanError("to", "-", "standard input has no place to write beside", hint="name one: --to otel:FOLDER")
        path = Path(self.path)
        if self.kind == "several":
            homes = {
                (folder.resolve(), stem): (folder, stem) for folder, stem in (part.home() for part in self.parts[::-1])
            }
            if len(homes) == 1:
                return next(iter(homes.values()))
            path = _common([folder for folder, _ in homes.values()])
        if self.kind == "file":
            return path.parent, _bare(path.name)
        if self.kind == "glob":
            fixed = [part for part, _ in zip(path.parts, _unmagical(path.parts), strict=False)]
            path = Path(*fixed)
        return path, path.resolve().name or "traces"


def join(one: Place, more: Place) -> Place | None:
    """Two places read as one, or None where one of them is standard input."""
    if "stdin" in (one.kind, more.kind):
        return None
    parts = tuple(part for place in (one, more) for part in (place.parts or (place,)))
    return Place(", ".join(part.path for part in parts[:_SHOWN]) + (" ..." if parts[_SHOWN:] else ""), "several", parts)


def find(path: str, *, binary: bool = False) -> Place:
    """Where a path leads: a literal path wins over a glob; PlanError where nothing is there."""
    if path == "-":
        return Place(path, "stdin")
    try:
        if Path(path).is_dir():
            os.scandir(path).close()
            return Place(path, "folder", binary=binary)
        if path and Path(path).exists():
            return Place(path, "file")
        if _MAGIC.search(path) and any(glob.iglob(path, recursive=True)):  # noqa: PTH207 - see Place.files
            return Place(path, "glob")
    except (OSError, ValueError) as error:  # a name too long, a NUL in it, a loop of links, a folder closed to us
        raise PlanError("source", path, f"can't be looked at ({error})") from error
    problem = "matches no file" if _MAGIC.search(path) else "does not exist"
    raise PlanError("source", path, problem, valid=_neighbours(Path(path)))


def companions(file: Path) -> tuple[Path, ...]:
    """The files of log records beside a file of spans: x.logs.jsonl for x.jsonl, packed or not."""
    beside = (file.with_name(f"{_bare(file.name)}.logs{end}{pack}") for end in _ENDINGS for pack in _PACKED)
    return tuple(path for path in beside if path.is_file() and not is_own(path))


def is_companion(file: Path) -> bool:
    """Whether a file is named as the log records of another.

    >>> is_companion(Path("x.logs.jsonl.gz")), is_companion(Path("logs.jsonl"))
    (True, False)
    """
    return _bare(file.name).endswith(".logs")


def is_own(file: Path) -> bool:
    """Whether a file is named as one that groundtrace wrote."""
    return file.name.removesuffix(".gz").removesuffix(".zst").endswith(OWN)


def _common(folders: list[Path]) -> Path:
    """The folder that holds all of these, written as the user did where it is one of them."""
    try:
        common = Path(os.path.commonpath([folder.resolve() for folder in folders]))
    except ValueError:  # on different drives
        hint = "say where scores go: --to otel:FOLDER"
        raise PlanError("to", ", ".join(map(str, folders)), "have no folder in common", hint=hint) from None
    return next((folder for folder in folders if folder.resolve() == common), common)


def _left_out(path: Path) -> bool:
    return path.name.startswith(".") or is_own(path)


def _bare(name: str, endings: tuple[str, ...] = _ENDINGS) -> str:
    """A file's name without these endings, packed or not."""
    for end in (end + pack for end in endings for pack in _PACKED):
        if name.endswith(end) and name != end:
            return name.removesuffix(end)
    return name


def _unmagical(parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        if _MAGIC.search(part):
            return
        yield part


def _neighbours(path: Path) -> list[str]:
    """The names beside a missing path that look like it, as the user would write them."""
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - names, not paths, are compared
    except (OSError, ValueError):
        return []
    return [str(path.with_name(name)) for name in difflib.get_close_matches(path.name, names, n=_SHOWN)]
