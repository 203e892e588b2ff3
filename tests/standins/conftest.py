"""One stand-in for a page of tests, scripted anew by each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from standins.llm import StandIn, standing


@pytest.fixture(scope="module")
def process() -> Iterator[StandIn]:
    """A stand-in in a process of its own."""
    with standing() as made:
        yield made


@pytest.fixture
def stand(process: StandIn) -> StandIn:
    """It, with everything before forgotten and every request kept."""
    process.script(keep=-1)
    return process
