"""What went wrong with a database, in words that say what to do; nothing of SQL reaches a user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from groundtrace.errors import GroundtraceError, PlanError, PlatformError

if TYPE_CHECKING:
    from groundtrace.store.address import Address

AGAIN = "what was kept before is safe; mend it and run again with --resume"
_FIRST = "mend it and run again"
"""Said where no run began: there is none to go on with."""
ANEW = "it was left as it is: move it aside to start anew, or save what it holds with `sqlite3 FILE .recover`"
_NO_TEXT = "Could not decode to UTF-8"
"""How Python's sqlite3 says that it met bytes that are no text; what follows shows them."""

_WRITE_LOCK = "120"
"""The byte of the shared-memory file that the writer of a SQLite database in WAL mode holds (sqlite.org/walformat)."""


def trouble(error: Exception, where: Address, *, opening: bool) -> GroundtraceError:
    """The error to raise instead of SQLAlchemy's or a driver's; while `opening`, what never worked is the plan's."""
    origin: BaseException = getattr(error, "orig", None) or error
    told = _told(origin, where, opening=opening)
    told.of = "store"
    return told


def _told(origin: BaseException, where: Address, *, opening: bool) -> GroundtraceError:
    said = next(iter(str(origin).strip().splitlines()), type(origin).__name__)
    said = where.scrub(said)
    if where.path is not None:
        code = getattr(origin, "sqlite_errorname", "")
        return _of_sqlite(code, said, where.path, opening=opening)
    return _of_postgres(getattr(origin, "sqlstate", None) or "", said, where.shown, opening=opening)


def _of_sqlite(code: str, said: str, path: Path, *, opening: bool) -> GroundtraceError:
    def starts(*names: str) -> bool:
        return code.startswith(tuple(f"SQLITE_{name}" for name in names))

    if said.startswith(_NO_TEXT):
        return PlanError("store", str(path), "is damaged (a text in it is none)", hint=ANEW)
    if starts("CORRUPT", "NOTADB"):
        return PlanError("store", str(path), f"is damaged ({said})", hint=ANEW)
    if starts("BUSY", "LOCKED", "PROTOCOL"):
        again = "run again" if opening else "run again with --resume"
        then = f"let it finish or end it, then {again}, or name another with --store"
        return PlatformError(f"the store {path} is locked{_holders(path)}; {then}")
    if starts("FULL"):
        return PlatformError(f"no room left for the store {path}; {_FIRST if opening else AGAIN}")
    if starts("READONLY", "CANTOPEN", "PERM", "AUTH") and opening:
        problem = "cannot be opened for writing" if path.exists() else "cannot be made here"
        hint = "give write access to the file and its folder, or name another with --store"
        return PlanError("store", str(path), f"{problem} ({said})", hint=hint)
    return PlatformError(f"the store {path} cannot be written or read ({said}); {_FIRST if opening else AGAIN}")


def _of_postgres(state: str, said: str, shown: str, *, opening: bool) -> GroundtraceError:
    if opening and (state == "3D000" or ('database "' in said and "does not exist" in said)):
        return PlanError("store", shown, f"does not exist ({said})", hint="make it with createdb")
    if state == "53100":
        return PlatformError(f"no room left for the store {shown}; {_FIRST if opening else AGAIN}")
    return PlatformError(f"the store {shown} cannot be reached or used ({said}); {_FIRST if opening else AGAIN}")


def _holders(path: Path) -> str:
    """Who writes to a database in WAL mode now, as far as the kernel tells."""
    try:
        node = Path(f"{path}-shm").stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return " by another process"
    held = [line.split() for line in lines]
    found = {
        line[4]
        for line in held
        if len(line) == 8 and line[3] == "WRITE" and line[5].endswith(f":{node}") and line[6] == _WRITE_LOCK
    }
    named = [f"process {pid}{_command(pid)}" for pid in sorted(found)]
    return f" by {', '.join(named)}" if named else " by another process"


def _command(pid: str) -> str:
    """The program a process runs, without its arguments: those may hold secrets."""
    try:
        return f" ({Path('/proc', pid, 'comm').read_text(encoding='utf-8', errors='replace').strip()})"
    except OSError:
        return ""
