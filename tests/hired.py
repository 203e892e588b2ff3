"""A judge that plans can name "hired" and that says what a test tells it to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import groundtrace.plugins
from groundtrace.testing import ScriptedJudge

SUPPORTED = {
    "score": 5,
    "support_level": "Directly Supports",
    "rationale": "The passage says it.",
    "key_evidence": "leaves at 21:40 every day",
    "missing_information": None,
    "confidence": 0.9,
}
"""A verdict of source support on a passage about the night ferry."""


@pytest.fixture
def hire(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedJudge]:
    """Let plans name a judge "hired" that says what it is told to."""
    true = groundtrace.plugins.load

    def hire(script: Any = SUPPORTED, **how: Any) -> ScriptedJudge:
        judge = ScriptedJudge(script, **how)

        def load(kind: Any, spec: Any) -> Any:
            return judge if (kind, spec) == ("judge", "hired") else true(kind, spec)

        monkeypatch.setattr(sys.modules["groundtrace.run.river"], "load", load)
        return judge

    return hire
