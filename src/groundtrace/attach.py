"""What hangs in other people's houses: `groundtrace.langsmith.evaluator(...)`.

Each platform is a namespace, loaded with its first use; its SDK is loaded by the first thing made of it. Here names
become things and nothing more: what an SDK calls stands in the adapter of its platform.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from groundtrace.errors import PlanError
from groundtrace.judges.patient import Patient
from groundtrace.plan import Plan
from groundtrace.plugins import load
from groundtrace.run.isolated import Careful, Isolated
from groundtrace.run.reading import resolver

if TYPE_CHECKING:
    from langsmith import Client

    from groundtrace.adapters.langsmith.evaluator import Evaluator
    from groundtrace.plugins import Spec
    from groundtrace.ports import Judge, Rubric
    from groundtrace.read.resolve import Resolver

__all__ = ["langsmith"]

_SCORES = ("all", "headline")


class _LangSmith:
    """`groundtrace.langsmith`: evaluators for LangSmith's `evaluate` and `aevaluate`."""

    def __repr__(self) -> str:
        return "<groundtrace.langsmith: evaluator>"

    def evaluator(
        self,
        rubric: Spec | Rubric,
        *,
        judge: Spec | Judge = "offline",
        conventions: Spec | Sequence[Spec] | Mapping[str, Any] = (),
        kind: Literal["auto", "answer", "summary"] = "auto",
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
        return Evaluator(
            asked,
            Patient(cast("Judge", _made("judge", judge))),
            plan.vocabularies(),
            functools.partial(Isolated, ""),
            kind=plan.kind,
            passages=resolver(plan, _LOG.warning) if named is not None else cast("Resolver | None", passages),
            scores=scores,
            client=client,
        )


_LOG = logging.getLogger(__name__)

langsmith = _LangSmith()


def _made(kind: Literal["rubric", "judge"], given: object) -> object:
    """What a spec names, or the thing itself."""
    if isinstance(given, (str, Mapping)):
        return load(cast("Any", kind), given)
    if not hasattr(given, "cases" if kind == "rubric" else "hear"):
        hint = f'give a name, as in "{"source_support" if kind == "rubric" else "offline"}"'
        raise PlanError(kind, given, f"is no {kind}", hint=hint)
    return given
