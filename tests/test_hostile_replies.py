"""Whatever a judge writes: a score only where its reply bears it out, no NaN, and nothing raised."""

from __future__ import annotations

import json
import random

import pytest

import audited
import hostile
from hostile import RUBRICS


@pytest.mark.parametrize("rubric", RUBRICS)
def test_a_hostile_reply_gives_no_silent_score(rubric: str) -> None:
    """`python tests/benchmarks/hostile_replies.py` does it 100,000 times."""
    for number in range(150):
        picked = random.Random(f"ci/{rubric}/{number}")
        first, second = hostile.hostile(rubric, picked), hostile.hostile(rubric, picked)
        card = audited.judged(rubric, first, second)
        assert [fault for fault in audited.audit(card) if audited.CUT not in fault] == [], (
            number,
            card.attempts[-1].text[:2000],
        )


@pytest.mark.parametrize("rubric", RUBRICS)
def test_sound_replies_are_scored(rubric: str) -> None:
    """Else refusing everything would do."""
    for number in range(30):
        text = json.dumps(hostile.sound(rubric, random.Random(f"{rubric}/{number}")))
        card = audited.judged(rubric, text, text)
        assert (len(card.attempts), audited.audit(card)) == (1, [])
        assert any(score.value is not None for score in card.scores) or "null" in text


@pytest.mark.parametrize("rubric", RUBRICS)
def test_the_second_reading_sees_what_a_gate_lets_through(rubric: str) -> None:
    """A card whose reply is another than it was made from is found out: the audit can fail."""
    seen = 0
    for number in range(60):
        picked = random.Random(f"other/{rubric}/{number}")
        good, bad = json.dumps(hostile.sound(rubric, picked)), hostile.hostile(rubric, picked)
        card = audited.judged(rubric, good, good)
        if audited.judged(rubric, bad, bad).status == "unscored":
            last = card.attempts[-1].model_copy(update={"text": bad})
            seen += bool(audited.audit(card.model_copy(update={"attempts": (last,)})))
    assert seen >= 15
