"""The app in an experiment of LangSmith's own `evaluate`, with two of groundtrace's evaluators.

    LANGSMITH_API_KEY=... python evaluate_my_app.py

makes the dataset "tent desk" where it is not there yet, runs an experiment on it and prints what the experiment's page
shows. Without a key the same happens on this machine alone. A model judges with `--judge openai:gpt-5.2`, or any other
judge that `groundtrace plugins` lists.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import uuid
import warnings
from contextlib import redirect_stdout
from typing import Any

from langsmith import Client, evaluate
from langsmith.schemas import Example
from my_app import QUESTIONS, answer

import groundtrace

DATASET = "tent desk"


def app(inputs: dict[str, str]) -> dict[str, str]:
    """What is evaluated: the app as it is. Its passages are found in its retriever's run."""
    return answer(inputs["question"])


def dataset(client: Client) -> str:
    """The name of the dataset, made where it is not there yet."""
    if not client.has_dataset(dataset_name=DATASET):
        made = client.create_dataset(DATASET)
        client.create_examples(dataset_id=made.id, examples=[{"inputs": {"question": asked}} for asked in QUESTIONS])
    return DATASET


def examples() -> list[Example]:
    """The same questions, for an experiment that is not uploaded."""
    now, of = dt.datetime.now(dt.UTC), uuid.uuid4()
    return [Example(id=uuid.uuid4(), dataset_id=of, inputs={"question": a}, created_at=now) for a in QUESTIONS]


def experiment(judge: str) -> Any:
    """The app evaluated: on LangSmith with a key, else here."""
    evaluators = [
        groundtrace.langsmith.evaluator("source_support", judge=judge),
        groundtrace.langsmith.evaluator("rag_faithfulness", judge=judge),
    ]
    if os.environ.get("LANGSMITH_API_KEY"):
        client = Client()
        done = evaluate(app, data=dataset(client), evaluators=evaluators, client=client, experiment_prefix="tent-desk")
        client.flush()
        return done
    warnings.filterwarnings("ignore", message="'upload_.*' parameter is in beta")
    client = Client(api_url="http://127.0.0.1:9", api_key="none", info={}, auto_batch_tracing=False)
    return evaluate(app, data=examples(), evaluators=evaluators, client=client, upload_results=False)


def main() -> None:
    """Run the experiment and print its scores."""
    parser = argparse.ArgumentParser(description="Evaluate the app.")
    parser.add_argument("--judge", default="offline", help="who judges (left out: offline)")
    with redirect_stdout(sys.stderr):  # the SDK prints where the experiment is
        done = experiment(parser.parse_args().judge)
    rows = {row["example"].inputs["question"]: row["evaluation_results"]["results"] for row in done}
    for asked in QUESTIONS:
        print(asked)
        for result in rows[asked]:
            if (result.extra or {}).get("error"):
                print(f"  {result.key:<46}  {result.comment}")
            elif result.score is not None:
                print(f"  {result.key:<46}  {result.score:.1f}  {result.value or ''}".rstrip())


if __name__ == "__main__":
    main()
