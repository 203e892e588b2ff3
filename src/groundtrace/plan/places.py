"""What a bare path names: the source that recognises what lies there."""

from __future__ import annotations

import difflib
import glob
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from groundtrace.adapters.files import find as place
from groundtrace.adapters.files import is_own
from groundtrace.adapters.lines import obstacle
from groundtrace.errors import PlanError
from groundtrace.plugins import find, installed, name_of

_LINES = (".jsonl", ".ndjson", ".json")


def as_spec(spec: str, names: list[str]) -> str:
    """A source as a spec: one that names its source stays, a path is looked into to see who reads it."""
    if not spec.strip():
        raise PlanError("source", spec, "names nothing", hint=f"write a path, or NAME:WHERE (NAME: {', '.join(names)})")
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


def refuse_bare(spec: str, names: list[str]) -> None:
    """Refuse the path of a file or a folder where a sink is wanted: PlanError that says how it is written."""
    if name_of("sink", spec) in names or "://" in spec:
        return
    if Path(spec).suffix in _LINES:
        hint = f"write --to jsonl:{spec}"
    elif spec.endswith(("/", "\\")) or _is_folder(spec):
        hint = f"write --to otel:{spec}"
    elif {"/", "\\", "."} & {*name_of("sink", spec)}:
        hint = "write --to jsonl:FILE, or --to otel:FOLDER"
    else:
        return
    raise PlanError("sink", spec, "does not say as what scores are written", hint=hint)


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:  # a name too long to be one
        return False


def _sniffed(spec: str, paths: list[Path]) -> str:
    """The spec of the one source that recognises what lies at these paths."""
    readers: set[str] = set()
    yielding: set[str] = set()
    broken: list[PlanError] = []
    for plugin in installed("source"):
        try:
            factory = find("source", plugin.name)
        except PlanError as error:  # a neighbour's broken source is only in the way when nobody else reads this
            broken.append(error)
            continue
        recognises = getattr(factory, "recognises", None)
        if recognises is not None and any(recognises(path) for path in paths):
            (yielding if getattr(factory, "yields", False) else readers).add(plugin.name)
    readers = readers or yielding
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
    files = [file for path in paths for file in place(str(path), binary=True).files()]
    if not files:
        hint = "*.jsonl, *.ndjson and *.json are read, protobuf as *.pb, *.binpb or *.otlp, each also as .gz or .zst"
        raise PlanError("source", spec, "holds no files of traces or records", hint=hint)
    closed = [(file, problem) for file in files if (problem := obstacle(file))]
    if len(closed) == len(files):
        raise PlanError("source", str(closed[0][0]), closed[0][1])


def is_ours(spec: str | dict[str, Any]) -> bool:
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
