"""A place for a store on each database, and processes to work on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import nursery as nursery_program
from groundtrace.store import Store, open_store
from nursery import Nursery


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a store: on each database in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return str(request.getfixturevalue("schema"))


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    """Opens stores that are closed after the test."""
    stores: list[Store] = []

    def open_(where: object, **options: object) -> Store:
        stores.append(open_store(where, **options))  # type: ignore[arg-type]
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


@pytest.fixture(scope="session")
def _program() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, nursery_program.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        yield program
        assert program.stdin
        program.stdin.close()


@pytest.fixture
def nursery(_program: subprocess.Popen[str]) -> Iterator[Nursery]:
    """Processes for one test; none outlives it."""
    made = Nursery(_program)
    yield made
    made.clear()
