"""What judges do wrong behind a program that is judged while it runs."""

from __future__ import annotations

from typing import Any

from standins.llm.spoil import WAYS

READ_THROUGH = {"fenced", "prose", "extra_field", "echo_before", "echo_after"}
OTHER_RUBRICS = {"missing_id", "dropped_claim", "extra_id", "duplicate_id", "wrong_level"} | {
    *("parrot", "parrot_before", "parrot_after")
}
"""What the gate reads through, and what needs claims, labels or a forged record: as in the tests of the judge."""

FAULTS: list[dict[str, Any]] = [
    {"refuse": True},
    {"finish": "length", "answer": '{"dimensions": {'},
    {"finish": "filter", "answer": ""},
    {"answer": ""},
    {"answer": "NaN"},
    {"answer": '{"score": 1e999}'},
    *({"spoil": way} for way in sorted(set(WAYS) - READ_THROUGH - OTHER_RUBRICS)),
    {"status": 429, "retry_after": 0.2},
    {"status": 500},
    {"status": 503},
    {"reset": "before"},
    {"reset": "body"},
    {"hang": True},
    {"drip": {"bytes": 1, "every": 0.5}},
    {"status": 401, "message": "no such key"},
    {"status": 404, "message": "no such model"},
]
"""Every kind of fault of the judge's own tests: replies, transport, access; each as a script's rule does it."""
