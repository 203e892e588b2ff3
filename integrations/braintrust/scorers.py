"""Scorers that run on Braintrust itself, for its playgrounds, its experiments and its online rules.

    pip install 'braintrust[cli]' autoevals openai     # what the command wants to find, to send it along
    braintrust push scorers.py --requirements requirements.txt --if-exists replace

The offline judge judges: it needs no network and no key, neither of which is yours to give there. Each scorer gives its
rubric's own score, under the name that `Eval` and `groundtrace run` give it too.

The command was run against a stand-in: with all that groundtrace brings along the bundle is 38 MB, 133 MB unpacked.
Whether Braintrust takes one of that size, and what it hands a scorer beside what is named here, was not seen.
"""

from __future__ import annotations

import os
from typing import Any

import braintrust
from braintrust import Score
from pydantic import BaseModel

import groundtrace

support = groundtrace.braintrust.scorer("source_support", scores="headline")
accuracy = groundtrace.braintrust.scorer("factual_accuracy", scores="headline")


class Case(BaseModel):
    """What Braintrust hands a scorer; passages stand in the output, the metadata or the trace."""

    input: Any = None
    output: Any = None
    expected: Any = None
    metadata: dict[str, Any] | None = None
    trace: Any = None


def source_support(
    output: Any,
    input: Any = None,  # noqa: A002 - Braintrust's word
    expected: Any = None,
    metadata: dict[str, Any] | None = None,
    trace: Any = None,
) -> Score:
    """Whether each claim of the answer is backed by a passage, and which is backed least."""
    return support(output, expected, input=input, metadata=metadata, trace=trace)[0]


def factual_accuracy(
    output: Any,
    input: Any = None,  # noqa: A002 - Braintrust's word
    expected: Any = None,
    metadata: dict[str, Any] | None = None,
    trace: Any = None,
) -> Score:
    """The share of the answer's claims that the passages bear out."""
    return accuracy(output, expected, input=input, metadata=metadata, trace=trace)[0]


project = braintrust.projects.create(name=os.environ.get("BRAINTRUST_PROJECT") or "bike-desk")
for scorer, handler in ((support, source_support), (accuracy, factual_accuracy)):
    project.scorers.create(
        name=scorer.__name__,
        slug=scorer.__name__.replace("_", "-"),
        description=handler.__doc__,
        parameters=Case,
        handler=handler,
    )
