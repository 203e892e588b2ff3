"""The stand-in platform's plugins keep what the ports promise, so that what is shown on them counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import killed
from groundtrace.model import Ref, Scorecard, Trace, dump
from groundtrace.plugins import load
from groundtrace.ports import Judge, Sink, Source
from groundtrace.testing import JudgeContract, SinkContract, SourceContract, sample_card
from killed import Platform
from neighbours import install


class _Standing:
    """Starts a stand-in for each test."""

    stand: Platform

    @pytest.fixture(autouse=True)
    def _stands(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        install("fakeplatform", tmp_path, monkeypatch)
        with killed.platform() as self.stand:
            yield


class TestSink(_Standing, SinkContract):
    """The sink that replaces by id."""

    def make(self) -> Sink:
        return load("sink", f"fake:{self.stand.url}")

    def stored(self) -> Mapping[str, float | None]:
        held: dict[str, Any] = self.stand.told("/scores")
        return {score["name"].removeprefix("groundtrace."): score["value"] for score in held.values()}

    def test_a_score_that_no_longer_stands_is_withdrawn(self) -> None:
        """The number goes, and the place says why."""
        list(self.make().write([sample_card()]))
        held = sample_card(status="pending_review")
        told = {receipt.score: receipt.state for receipt in self.make().write([held])}
        assert set(told.values()) == {"written"}
        assert not any(value is not None for value in self.stored().values())

    def test_trouble_is_told_apart(self) -> None:
        """A refusal failed; an answer that never came is unconfirmed, and the write may stand."""
        self.stand.told("/trouble", busy=1, drop=1)
        states = {receipt.score: receipt.state for receipt in self.make().write([_of_three()])}
        assert sorted(states.values()) == ["failed", "unconfirmed", "written"]
        assert {receipt.state for receipt in self.make().write([_of_three()])} == {"unchanged", "written"}
        assert len(self.stored()) == 3


class TestJudge(_Standing, JudgeContract):
    """The judge at the end of a line."""

    def make(self) -> Judge:
        return load("judge", f"fake:{self.stand.url},concurrency=3")


class TestSource(_Standing, SourceContract):
    """The live source."""

    def make(self) -> Source:
        self.stand.told("/traces", traces=[_posted(n) for n in range(60)])
        return load("source", f"fake:{self.stand.url}")

    def test_late_feedback_is_a_signal(self) -> None:
        """What a user said later is seen before a trace is chosen."""
        source = self.make()
        self.stand.told("/feedback", feedback=[{"trace": "t7", "name": "thumb", "value": -1.0, "time": 5}])
        chosen = self._traces(lambda ref, signals: any(signal.negative for signal in signals))
        assert [trace.ref.trace_id for trace in chosen] == ["t7"]
        assert source.platform == "fake"


def _of_three() -> Scorecard:
    """A card of three scores."""
    card = sample_card()
    more = card.scores[0].model_copy(update={"name": "source_support.claim_support"})
    return card.model_copy(update={"scores": (*card.scores, more)})


def _posted(n: int) -> dict[str, Any]:
    """A trace as the stand-in takes it."""
    return {"id": f"t{n}", "time": n, "whole": dump(Trace(Ref("fake", trace_id=f"t{n}")))}
