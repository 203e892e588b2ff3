"""The app in an experiment of Braintrust's own `Eval`, with two of groundtrace's scorers.

    braintrust eval eval_rag.py                  # with BRAINTRUST_API_KEY: an experiment of your project
    braintrust eval --no-send-logs eval_rag.py   # without: the same scores, on this machine alone
    python eval_rag.py                           # the one or the other, as there is a key

A model judges where GROUNDTRACE_JUDGE names one, as `openai:gpt-5.2`, or any other judge that `groundtrace plugins`
lists.
"""

from __future__ import annotations

import os
from typing import Any

from braintrust import Eval
from my_app import QUESTIONS, answer, search

import groundtrace

JUDGE = os.environ.get("GROUNDTRACE_JUDGE") or "offline"


def app(question: str) -> dict[str, Any]:
    """What is evaluated: the app, with the passages its answer stands on.

    An app that returns nothing but its answer puts them in `hooks.metadata["context"]`. In an experiment that is sent,
    the spans it traces say as much.
    """
    return {"answer": answer(question), "context": search(question)}


Eval(
    os.environ.get("BRAINTRUST_PROJECT") or "bike-desk",
    data=[{"input": question, "metadata": {"prompt_version": "7"}} for question in QUESTIONS],
    task=app,
    scores=[
        groundtrace.braintrust.scorer("source_support", judge=JUDGE),
        groundtrace.braintrust.scorer("rag_faithfulness", judge=JUDGE),
    ],
    no_send_logs=not os.environ.get("BRAINTRUST_API_KEY"),
)
