"""Runs killed at random points lose nothing, double nothing and ask at most what was in flight again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import killed
from killed import Outcome, Platform, Ward
from neighbours import unpack

_SEEDS = (11, 12)
_POINTS, _POINTS_OF_TWO = 12, 6


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in's plugins, installed."""
    return unpack("fakeplatform", tmp_path_factory.mktemp("plugins"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of all runs."""
    return killed.corpus(tmp_path_factory.mktemp("corpus") / "traces.jsonl")


@pytest.fixture
def stand() -> Iterator[Platform]:
    """A platform of its own for each test."""
    with killed.platform() as made:
        yield made


@pytest.fixture(scope="module")
def undisturbed(site: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, dict[str, int]]:
    """What a run leaves that nobody kills, and how many questions and writes it takes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with killed.platform() as stand:
        ward = Ward(folder, site, source, str(folder / "store.db"), stand)
        report = ward.end(ward.begin())
        found = killed.outcome(ward)
        killed.adds_up(report, found)
        assert len(found.cards) == killed.TRACES == len(found.asked)
        assert not found.asked_again
        assert not found.written_again
        assert not found.waiting
        return found, stand.told("/came")


@pytest.fixture
def ward(tmp_path: Path, site: Path, source: Path, stand: Platform) -> Iterator[Ward]:
    """A store, and runs on it; none outlives the test."""
    made = Ward(tmp_path, site, source, str(tmp_path / "store.db"), stand)
    yield made
    made.clear()


@pytest.mark.parametrize("seed", _SEEDS)
def test_kills_lose_and_double_nothing(seed: int, ward: Ward, undisturbed: tuple[Outcome, dict[str, int]]) -> None:
    """Whatever was in flight, going on to the end leaves what an undisturbed run leaves."""
    found, whole = undisturbed
    report = killed.shoot(ward, killed.points(random.Random(seed), _POINTS, whole))
    assert len(ward.killed) == _POINTS
    killed.adds_up(report, found)
    killed.check(ward, found)


def test_two_workers_on_postgresql_share_the_work_and_survive_kills(
    ward: Ward, schema: str, undisturbed: tuple[Outcome, dict[str, int]]
) -> None:
    """Two runs at once on one store, each killed and started again, leave what one leaves."""
    found, whole = undisturbed
    ward.where = schema
    for report in killed.shoot_two(ward, killed.points(random.Random(21), _POINTS_OF_TWO, whole)):
        killed.adds_up(report, found)
    assert len(ward.killed) == _POINTS_OF_TWO
    killed.check(ward, found)


def test_a_platform_in_trouble_gets_the_rest_from_the_next_run(
    ward: Ward, undisturbed: tuple[Outcome, dict[str, int]]
) -> None:
    """What it refused, and what it may have taken without a word, is sent again; nothing else is, and nobody asked."""
    found, _ = undisturbed
    ward.stand.told("/trouble", busy=40, drop=30)
    first = ward.end(ward.begin(), expected=3)
    states = first["receipts"][ward.sink]
    assert (states["failed"], states["unconfirmed"]) == (40, 30)
    waiting = killed.waiting(ward)
    assert len(waiting) == 70
    killed.adds_up(ward.end(ward.begin(resume=True)), found)
    after = killed.outcome(ward)
    assert after.scores == found.scores
    assert after.cards == found.cards
    assert not after.waiting
    assert not after.asked_again
    again = {write for write, by in after.written.items() if len(by) > 1}
    assert again <= waiting
    assert len(again) == 30
