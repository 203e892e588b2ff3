"""A real PostgreSQL, started for the tests on a socket of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

_INSTALL = "the tests need the PostgreSQL server: apt-get install -y postgresql"


def _server_program(name: str) -> str:
    """A program of the server; Debian keeps them out of the path."""
    homes = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda home: int(home.parent.name.split(".")[0]))
    found = shutil.which(name, path=os.pathsep.join([*map(str, reversed(homes)), os.environ.get("PATH", "")]))
    if found is None:
        pytest.fail(_INSTALL, pytrace=False)
    return found


def _as_postgres(*command: str) -> None:
    """Run a program of the server; it refuses to run as root."""
    user = "postgres" if os.geteuid() == 0 else None
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, user=user, group=user, extra_groups=[] if user else None,
        cwd="/", stdin=subprocess.DEVNULL, env={"LC_ALL": "C.UTF-8", "PATH": os.environ.get("PATH", "")},
    )  # fmt: skip
    assert done.returncode == 0, f"{command[0]} failed: {done.stdout}{done.stderr}"


@contextmanager
def running() -> Iterator[str]:
    """A PostgreSQL server; gives the URL of its database."""
    initdb, control = _server_program("initdb"), _server_program("pg_ctl")
    folder = Path(tempfile.mkdtemp(prefix="gt-pg-", dir="/tmp"))  # a socket's path must be short
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    data = str(folder / "data")
    try:
        _as_postgres(initdb, "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        options = f"-c listen_addresses='' -k {folder} -c fsync=off -c full_page_writes=off"
        _as_postgres(control, "-D", data, "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql+psycopg://tester@/postgres?host={quote(str(folder), safe='')}"
        finally:
            _as_postgres(control, "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_numbers = itertools.count(1)


def new_schema(url: str) -> str:
    """A schema nobody else uses, as a URL."""
    import psycopg

    name = f"t{next(_numbers)}"
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{url}&options=-csearch_path%3D{name}"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A PostgreSQL server; gives the URL of its database."""
    with running() as url:
        yield url


@pytest.fixture
def schema(server: str) -> str:
    """A schema nobody else uses, as a URL."""
    return new_schema(server)
