"""Whether another stand-in for Braintrust serves as well as ours: `python tests/benchmarks/braintrust_shared.py`.

Thirty traces that the real SDK wrote to `$GROUNDTRACE_SHARED/standins/braintrust/standin.py` are pulled whole, and
their scores are written, twice, and once more as another version; then under the shared one's own troubles. What a
person must see is put on the review list, and an answer comes back. Says so where that folder is missing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import braintrust

from groundtrace.adapters.braintrust.api import Api
from groundtrace.adapters.braintrust.columns import column
from groundtrace.adapters.braintrust.sink import BraintrustSink
from groundtrace.adapters.braintrust.source import BraintrustSource
from groundtrace.model import Ref, Review, Scorecard, Trace, Window
from groundtrace.testing import sample_card

PROJECT, TRACES = "ferries", 30
SHARED = Path(os.environ.get("GROUNDTRACE_SHARED", Path(__file__).parents[3] / "shared"))


def main() -> None:
    """Pull, write, write again."""
    server = SHARED / "standins" / "braintrust" / "standin.py"
    if not server.exists():
        print(f"{server} is not there: set GROUNDTRACE_SHARED")
        return
    spec = importlib.util.spec_from_file_location("shared_braintrust", server)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["shared_braintrust"] = module
    spec.loader.exec_module(module)
    stand = module.Standin()
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"HOME": home, "BRAINTRUST_API_KEY": "sk-test", "BRAINTRUST_APP_URL": stand.url}
        os.environ |= {"BRAINTRUST_DISABLE_ATEXIT_FLUSH": "1", "BRAINTRUST_API_URL": stand.url}
        here = Path.cwd()
        os.chdir(home)
        try:
            _through(stand)
        finally:
            os.chdir(here)
            stand.close()


def _through(stand: Any) -> None:
    _write()
    source = BraintrustSource(PROJECT, settle=0, queries=10**6)
    traces = list(source.traces(Window(), lambda *_: True))
    spans = sum(len(trace.spans) for trace in traces)
    cards = [card(trace) for trace in traces]
    second = [one.model_copy(update={"version": "2"}) for one in cards]
    states = [_states(some) for some in (cards, cards, second)]
    print(f"{len(traces)} traces whole, {spans} spans; {', then '.join(states)}")
    rows = stand.store.rows(("project_logs", source.api.project(PROJECT).id))
    ghosts = [row["id"] for row in rows if row["_ghost"]]
    print(f"{len(rows) - spans} rows of ours below them, {len(ghosts)} ghosts")
    assert (len(traces), spans, len(rows) - spans, ghosts) == (TRACES, 3 * TRACES, TRACES, [])
    third = [one.model_copy(update={"version": "3"}) for one in cards]
    stand.fail("/v1/project_logs", 500, times=2)
    stand.fail("/btql", 429, headers={"Retry-After": "1"})
    print(f"with 500 and 429: {_states(third)}")
    span = traces[0].spans[0]
    wrong = Ref("braintrust", traces[0].ref.project, traces[0].ref.trace_id, span.id, {"id": span.id})
    print(f"a span's id in place of a row's: {_states([card(traces[0], wrong)])}")
    assert len(stand.store.rows(("project_logs", source.api.project(PROJECT).id))) == len(rows)
    _ask(source, third[0])


def _ask(source: BraintrustSource, scored: Scorecard) -> None:
    """A person must see a card, and says what it should be."""
    waits = scored.model_copy(update={"review": (Review(reason="low_support"),)})
    who = str(uuid.uuid4())
    sink = BraintrustSink(PROJECT, api=source.api, review=True, assignee=who)
    list(sink.write([waits]))
    place, ref = source.api.project(PROJECT), scored.ref
    answer = {"span_id": "f" * 16, "root_span_id": ref.trace_id, "span_parents": [ref.span_id]}
    answer |= {"span_attributes": {"type": "review"}, "scores": {column("source_support"): 0.25}}
    source.api.insert(place, [{**answer, "metadata": {"user_id": who}}])
    labels = [(label.score, label.value) for label in source.labels()]
    well = [check.well for check in source.doctor()]
    print(
        f"one card for a person to see: {', '.join(sink.notes()) or 'on the list'}; labels {labels}, {len(well)} checks"
    )
    assert labels == [("source_support", 2.0)]
    assert all(well)


def _write() -> None:
    logger = braintrust.init_logger(project=PROJECT)

    @braintrust.traced(name="retrieve", type="tool")
    def retrieve(query: str) -> list[dict[str, str]]:
        return [{"id": "d1", "text": f"About {query}: the night ferry leaves at 21:40."}]

    @braintrust.traced(name="chat", type="llm")
    def chat(question: str, passages: list[dict[str, str]]) -> str:
        return f"At 21:40 [1], as asked: {question} {len(passages)}"

    @braintrust.traced(name="answer")
    def answer(question: str) -> str:
        return chat(question, retrieve(question))

    for n in range(TRACES):
        answer(f"When does the ferry of town {n} leave?")
    logger.flush()


def card(trace: Trace, of: Ref | None = None) -> Scorecard:
    """A card about a trace's root."""
    root = next(span for span in trace.spans if span.parent_id is None)
    ref = of or Ref(trace.ref.platform, trace.ref.project, trace.ref.trace_id, root.id, trace.ref.keys)
    return sample_card(ref=ref, targets={"root": ref}, id=str(uuid.uuid5(uuid.NAMESPACE_URL, trace.ref.trace_id)))


def _states(cards: Sequence[Scorecard]) -> str:
    receipts = list(BraintrustSink(PROJECT, api=Api(queries=10**6)).write(cards))
    states = [receipt.state for receipt in receipts]
    return ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))


if __name__ == "__main__":
    main()
