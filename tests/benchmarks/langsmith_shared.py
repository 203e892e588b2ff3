"""Whether another stand-in for LangSmith serves as well as ours: `python tests/benchmarks/langsmith_shared.py`.

Thirty traces that the real SDK wrote are pulled whole from `$GROUNDTRACE_SHARED/standins/langsmith/server.py`, by
either generation of the query API, and their scores are written, twice. Says so where that folder is missing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from groundtrace.adapters.langsmith.sink import LangSmithSink
from groundtrace.testing import sample_card
from pulling import later, pulled, standing, write

V1 = {"flags": {"ch_query_enabled": True, "sdb_query_enabled": False}}
SHARED = Path(os.environ.get("GROUNDTRACE_SHARED", Path(__file__).parents[3] / "shared"))


def main() -> None:
    """Pull, write, write again."""
    server = SHARED / "standins" / "langsmith" / "server.py"
    if not server.exists():
        print(f"{server} is not there: set GROUNDTRACE_SHARED")
        return
    spec = importlib.util.spec_from_file_location("shared_langsmith", server)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shared_langsmith"] = module
    spec.loader.exec_module(module)
    for name, told in (("v2", {}), ("v1", V1)):
        with pytest.MonkeyPatch.context() as patch, standing(patch, module.serve, **told) as stand:
            write(stand, 30)
            source = stand.source(later())
            traces = pulled(source)
            spans = sum(len(trace.spans) for trace in traces.values())
            assert (len(traces), spans) == (30, len(stand.store.runs))
            cards = [
                sample_card(ref=trace.ref, targets={"root": trace.ref}, id=f"{at:08x}-0000-5000-8000-000000000000")
                for at, trace in enumerate(traces.values())
            ]
            states = [[r.state for r in LangSmithSink(api=source.api).write(cards)] for _ in range(2)]
            print(
                f"{name}: {len(traces)} traces whole, {spans} runs; {_counted(states[0])}, then {_counted(states[1])}"
            )


def _counted(states: list[str]) -> str:
    return ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))


if __name__ == "__main__":
    main()
