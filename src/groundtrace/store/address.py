"""Where a store is: a file of SQLite, or a PostgreSQL database by URL; passwords are never shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from platformdirs import user_data_path
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from groundtrace.errors import PlanError

VALID = ("a path", "postgresql+psycopg://user@host/database")
_POSTGRES = {"postgresql+psycopg", "postgresql", "postgres"}
_SECRET = re.compile(r"pass|secret|token|key", re.IGNORECASE)
_USERINFO = re.compile(r"(://[^\s:/@\"]{0,200}:)[^\s@/\"]{1,1000}@")
_HEADER = b"SQLite format 3\0"


@dataclass(frozen=True)
class Address:
    """A database; `shown` is what people may see of it, `path` its file where it has one."""

    url: URL
    shown: str
    path: Path | None = None

    def scrub(self, text: str) -> str:
        """The text without this database's password, and without that of any other URL in it."""
        if isinstance(self.url.password, str) and self.url.password:
            for secret in {self.url.password, quote(self.url.password, safe=""), quote(self.url.password)}:
                text = text.replace(f":{secret}@", ":***@")
        return _USERINFO.sub(r"\1***@", text)


def address_of(where: str | Path | None) -> Address:
    """What `where` names: None is the file in the platform's data directory.

    >>> address_of("postgresql://me:secret@db/scores").shown
    'postgresql+psycopg://me:***@db/scores'
    """
    if where is None:
        folder = user_data_path("groundtrace")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PlanError(
                "store", str(folder), f"cannot be made: {error.strerror}", hint="name another place with --store"
            ) from None
        return _file(folder / "store.db")
    if str(where) in ("", ":memory:"):
        raise PlanError("store", str(where), "is no file", valid=VALID, hint="without a store everything is in memory")
    if isinstance(where, Path) or "://" not in where:
        return _file(Path(where).expanduser())
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise PlanError("store", where.split("://")[0] + "://...", "is no database URL", valid=VALID) from None
    if url.drivername.split("+")[0] == "sqlite" and url.database and url.database != ":memory:":
        return _file(Path(url.database))
    if url.drivername not in _POSTGRES:
        hint = "without a store everything is kept in memory" if url.drivername.startswith("sqlite") else ""
        raise PlanError("store", _shown(url), "is no database a store can be on", valid=VALID, hint=hint)
    url = url.set(drivername="postgresql+psycopg")
    return Address(url, _shown(url))


def _shown(url: URL) -> str:
    hidden = {name: "***" for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _file(path: Path) -> Address:
    """A file that is a store, or is not there yet and can be."""
    shown = str(path)
    if "\0" in shown:
        raise PlanError("store", shown, "is no path", valid=VALID)
    try:
        if path.is_dir():
            raise PlanError("store", shown, "is a folder", hint=f"name a file in it, such as {path / 'store.db'}")
        if not path.parent.is_dir():
            raise PlanError("store", shown, "stands in a folder that does not exist", hint=f"make {path.parent} first")
        if path.exists():
            with path.open("rb") as file:
                head = file.read(len(_HEADER))
            if head not in (_HEADER, b""):
                raise PlanError(
                    "store",
                    shown,
                    "is no store: not a SQLite file, or its first page is damaged",
                    hint="it was left as it is; name another file to start anew",
                )
    except OSError as error:
        raise PlanError("store", shown, f"cannot be read: {error.strerror}", hint="name another file") from None
    return Address(URL.create("sqlite+pysqlite", database=shown), shown, path)
