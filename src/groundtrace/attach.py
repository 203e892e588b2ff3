"""What hangs in other people's houses: `groundtrace.langsmith.evaluator(...)`, `groundtrace.braintrust.scorer(...)`.

Each platform is a namespace, loaded with its first use; its SDK is loaded by the first thing made of it. Here names
become things and nothing more: what an SDK calls stands in the adapter of its platform.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from groundtrace.adapters.experiments import Scoring
from groundtrace.errors import PlanError
from groundtrace.judges.patient import Patient
from groundtrace.plan import Plan
from groundtrace.plugins import load
from groundtrace.run.isolated import Careful, Isolated
from groundtrace.run.reading import resolver

if TYPE_CHECKING:
    from langsmith import Client

    from groundtrace.adapters.braintrust.scorer import Scorer
    from groundtrace.adapters.langsmith.evaluator import Evaluator
    from groundtrace.plugins import Spec
    from groundtrace.ports import Judge, Rubric
    from groundtrace.read.resolve import Resolver
    from groundtrace.read.summaries import Wanted

__all__ = ["braintrust", "langsmith"]

_SCORES = ("all", "headline")
_Conventions: TypeAlias = "Spec | Sequence[Spec] | Mapping[str, Any]"


class _LangSmith:
    """`groundtrace.langsmith`: evaluators for LangSmith's `evaluate` and `aevaluate`."""

    def __repr__(self) -> str:
        return "<groundtrace.langsmith: evaluator>"

    def evaluator(
        self,
        rubric: Spec | Rubric,
        *,
        judge: Spec | Judge = "offline",
        conventions: _Conventions = (),
        kind: Wanted = "auto",
        passages: str | Resolver | None = None,
        scores: Literal["all", "headline"] = "all",
        client: Client | None = None,
    ) -> Evaluator:
        """An evaluator for LangSmith's `evaluate` and `aevaluate`, of experiments run now or long ago.

            from langsmith import evaluate
            evaluate(target, data="my-dataset", evaluators=[groundtrace.langsmith.evaluator("rag_faithfulness")])

        `rubric` and `judge` are specs, as on the command line, or the things themselves. The passages are found in
        what the target returns, in its child runs or in its whole trace. `conventions`, `kind` and `passages` are those
        of a plan: a mapping says where an app of your own keeps them, `conventions={"mine": {"context": "..."}}`, and
        `passages` is a function of an id and its metadata, or the name of one. `scores` "headline" leaves out what is
        beside the rubric's own score. `client` fetches traces; else the one that evaluates does.
        PlanError where something asked for can't be had.
        """
        from groundtrace.adapters.langsmith.evaluator import Evaluator  # noqa: PLC0415 - the SDK is loaded here

        return Evaluator(_scoring(rubric, judge, conventions, kind=kind, passages=passages, scores=scores), client)


class _Braintrust:
    """`groundtrace.braintrust`: scorers for Braintrust's `Eval`."""

    def __repr__(self) -> str:
        return "<groundtrace.braintrust: scorer>"

    def scorer(
        self,
        rubric: Spec | Rubric,
        *,
        judge: Spec | Judge = "offline",
        conventions: _Conventions = (),
        kind: Wanted = "auto",
        passages: str | Resolver | None = None,
        scores: Literal["all", "headline"] = "all",
    ) -> Scorer:
        """A scorer for Braintrust's `Eval` and `EvalAsync`, with or without an account.

            from braintrust import Eval
            Eval("my project", data=..., task=..., scores=[groundtrace.braintrust.scorer("source_support")])

        The passages are found in what the task returns, `{"answer": ..., "context": [...]}`, in the case's input or
        metadata (`hooks.metadata["context"] = [...]`), or in what the task traced. All else is as for
        `groundtrace.langsmith.evaluator`. PlanError where something asked for can't be had.
        """
        from groundtrace.adapters.braintrust.scorer import Scorer  # noqa: PLC0415 - the SDK is loaded here

        return Scorer(_scoring(rubric, judge, conventions, kind=kind, passages=passages, scores=scores))


_LOG = logging.getLogger(__name__)

langsmith = _LangSmith()
braintrust = _Braintrust()


def _scoring(
    rubric: Spec | Rubric,
    judge: Spec | Judge,
    conventions: _Conventions,
    *,
    kind: Wanted,
    passages: str | Resolver | None,
    scores: Literal["all", "headline"],
) -> Scoring:
    """What every platform's experiments are scored with, from what their users give."""
    if scores not in _SCORES:
        raise PlanError("scores", scores, "is no choice of scores", valid=_SCORES)
    named = passages if isinstance(passages, str) else None
    plan = Plan(
        sources=("otel:-",),  # none is read
        conventions=cast("Any", conventions),
        kind=kind,
        passages=named,
    )
    asked = Careful(cast("Rubric", _made("rubric", rubric)))
    for note in asked.notes():
        _LOG.warning("rubric %s: %s", asked.name, note)
    return Scoring(
        asked,
        Patient(cast("Judge", _made("judge", judge))),
        plan.vocabularies(),
        functools.partial(Isolated, ""),
        kind=plan.kind,
        passages=resolver(plan, _LOG.warning) if named is not None else cast("Resolver | None", passages),
        scores=scores,
    )


def _made(kind: Literal["rubric", "judge"], given: object) -> object:
    """What a spec names, or the thing itself."""
    if isinstance(given, (str, Mapping)):
        return load(cast("Any", kind), given)
    if not hasattr(given, "cases" if kind == "rubric" else "hear"):
        hint = f'give a name, as in "{"source_support" if kind == "rubric" else "offline"}"'
        raise PlanError(kind, given, f"is no {kind}", hint=hint)
    return given
