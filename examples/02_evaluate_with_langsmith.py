"""Score an app in LangSmith's own `evaluate`; here nothing is uploaded, so no key and no network are needed.

Prints:

    When does the library open on weekdays?
      groundtrace.source_support                      5 of 5
      groundtrace.source_support.citation_precision   1 of 1
      groundtrace.rag_faithfulness.claim_support      5 of 5
      groundtrace.rag_faithfulness.citation_accuracy  5 of 5
    When does the café open?
      groundtrace.source_support                      2 of 5
      groundtrace.source_support.citation_precision   0 of 1
      groundtrace.rag_faithfulness.claim_support      1 of 5
      groundtrace.rag_faithfulness.citation_accuracy  3 of 5
"""

import datetime as dt
import sys
import uuid
import warnings
from contextlib import redirect_stdout

from langsmith import Client, evaluate, traceable
from langsmith.schemas import Example

import groundtrace

LEAFLET = {
    "opening": "The library opens at 9:00 on weekdays and at 10:00 on Saturdays.",
    "cafe": "The café sells coffee, tea and cake.",
}
ANSWERS = {
    "When does the library open on weekdays?": "It opens at 9:00 on weekdays [1].",
    "When does the café open?": "The café opens on Sundays at noon [2].",
}


@traceable(run_type="retriever")
def search(question: str) -> list[dict[str, str]]:  # noqa: ARG001 - so small a leaflet is handed over whole
    """A retriever; traced as one, its passages are found wherever it runs in the app."""
    return [{"id": name, "page_content": text} for name, text in LEAFLET.items()]


def app(inputs: dict[str, str]) -> dict[str, str]:
    """The app under test: retrieve, then answer."""
    search(inputs["question"])
    return {"answer": ANSWERS[inputs["question"]]}


# With a key of your own: `evaluate(app, data="the name of a dataset", evaluators=[...])`, and nothing else of this.
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DATASET = uuid.uuid4()
examples = [
    Example(id=uuid.uuid4(), dataset_id=DATASET, inputs={"question": question}, created_at=NOW) for question in ANSWERS
]
client = Client(api_url="http://127.0.0.1:9", api_key="none", info={}, auto_batch_tracing=False)
warnings.filterwarnings("ignore", message="'upload_.*' parameter is in beta")

with redirect_stdout(sys.stderr):  # the SDK prints the experiment's name
    done = evaluate(
        app,
        data=examples,
        evaluators=[groundtrace.langsmith.evaluator(name) for name in ("source_support", "rag_faithfulness")],
        client=client,
        upload_results=False,
    )

for row in done:
    print(row["example"].inputs["question"])
    for result in row["evaluation_results"]["results"]:
        if result.score is not None and not result.key.endswith(("min", "assessed")):
            print(f"  {result.key:<47} {result.score:g} of {result.feedback_config['max']:g}")
