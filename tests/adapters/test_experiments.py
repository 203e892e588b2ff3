"""What an experiment hands over, in the form a platform would have it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from groundtrace.adapters.experiments import plain

UNBUILT = """
import groundtrace
from groundtrace.model import Value
groundtrace.langsmith.evaluator("source_support")
waiting, left = [Value], []
while waiting:
    value = waiting.pop()
    waiting += value.__subclasses__()
    left += [] if value.__pydantic_complete__ else [value.__name__]
print(left)
"""


def test_what_threads_share_is_built_before_they_start() -> None:
    """Pydantic 2.11 checks a value against its parent class while another thread builds its own."""
    done = subprocess.run([sys.executable, "-c", UNBUILT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_holds_itself_has_an_end() -> None:
    """Objects that point at each other are cut where they come again."""
    parent: dict[str, Any] = {"text": "a", "children": []}
    parent["children"] = [{"text": str(n), "parent": parent} for n in range(40)]
    assert plain(parent)["children"][39] == {"text": "39", "parent": None}


def test_arrays_and_old_models_are_what_they_hold() -> None:
    """As the SDK sends them."""

    class Array:
        def tolist(self) -> list[str]:
            return ["a", "b"]

    class Old:
        __fields__ = ("page_content",)

        def dict(self, **_: Any) -> dict[str, Any]:
            return {"page_content": "a"}

    assert plain({"array": Array(), "model": Old()}) == {"array": ["a", "b"], "model": {"page_content": "a"}}
