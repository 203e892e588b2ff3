"""What hangs in other people's houses: `groundtrace.langsmith.evaluator(...)`, `groundtrace.otel.processor(...)`.

Each platform is a namespace, loaded with its first use; its SDK is loaded by the first thing made of it. Here names
become things and nothing more: what an SDK calls stands in the adapter of its platform.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeAlias, TypeVar, cast

from groundtrace.adapters.experiments import Scoring
from groundtrace.errors import PlanError
from groundtrace.judges.patient import Patient
from groundtrace.plan import Plan
from groundtrace.plugins import load
from groundtrace.run.isolated import Careful, Isolated
from groundtrace.run.reading import resolver
from groundtrace.sampling import picked

if TYPE_CHECKING:
    from langsmith import Client
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from groundtrace.adapters.braintrust.scorer import Scorer
    from groundtrace.adapters.langsmith.evaluator import Evaluator
    from groundtrace.adapters.otel.exporter import Exporter
    from groundtrace.adapters.otel.processor import Processor
    from groundtrace.adapters.otel.telling import Kind
    from groundtrace.live import Judging
    from groundtrace.plugins import Spec
    from groundtrace.ports import Judge, Rubric
    from groundtrace.read.resolve import Resolver
    from groundtrace.read.summaries import Wanted
    from groundtrace.run.judging import Say

__all__ = ["braintrust", "langsmith", "otel"]

_SCORES = ("all", "headline")
_Conventions: TypeAlias = "Spec | Sequence[Spec] | Mapping[str, Any]"
_Said = TypeVar("_Said")
_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


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


def _by_name(make: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
    """The same, but a name that it does not take is answered with the one that was meant."""
    known = list(inspect.signature(make).parameters)[1:]

    @functools.wraps(make)
    def made(*args: _Given.args, **named: _Given.kwargs) -> _Made:
        for name in named:
            if name not in known:
                raise PlanError(f"groundtrace.otel.{make.__name__}", name, "is no argument of it", valid=known)
        return make(*args, **named)

    return made


class _OTel:
    """`groundtrace.otel`: a span processor and a span exporter for OpenTelemetry's SDK."""

    def __repr__(self) -> str:
        return "<groundtrace.otel: exporter, processor>"

    @_by_name
    def processor(
        self,
        rubrics: Spec | Rubric | Sequence[Spec | Rubric] = (),
        judge: Spec | Judge = "offline",
        *,
        sample: float = 0.1,
        tell: Sequence[Kind] = ("events", "spans", "metrics"),
        scores: Literal["all", "headline"] = "all",
        conventions: Spec | Sequence[Spec] | Mapping[str, Any] = (),
        kind: Literal["auto", "answer", "summary"] = "auto",
        passages: str | Resolver | None = None,
        settle: float = 2.0,
        lifetime: float = 300.0,
        most_spans: int = 2_000,
        held_spans: int = 20_000,
        held_mb: float = 64,
        drop: Literal["newest", "oldest"] = "newest",
        patience: float = 60.0,
        shutdown_seconds: float = 10.0,
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> Processor:
        """A span processor that judges a share of the traces once they are over, beside the program.

            provider.add_span_processor(groundtrace.otel.processor("source_support", sample=1))

        `rubrics` and `judge` are specs, as on the command line, or the things themselves; no rubrics means all.
        Add it before the processors that export. `sample` is the share of the traces, by their ids. `tell` is what
        becomes of scores: log events, evaluator spans, metrics, by the program's own providers or those given. A trace
        is over `settle` seconds after its last span; `lifetime` seconds, `most_spans` in one, `held_spans` and
        `held_mb` in all bound what is held. Where there is no room, the trace that comes is dropped, or with `drop`
        "oldest" the one that has been over for longest. `patience` is the seconds a judge that counts words has for a
        trace; one that asks a model has timeouts of its own. `scores`, `conventions`, `kind` and `passages` are those
        of a plan. PlanError where something asked for can't be had; from then on nothing is raised. `.counts` says what
        became of the traces.
        """
        from groundtrace.adapters.otel.processor import Processor  # noqa: PLC0415 - the SDK is loaded here
        from groundtrace.adapters.otel.said import said  # noqa: PLC0415 - same
        from groundtrace.adapters.otel.telling import Telling  # noqa: PLC0415 - same
        from groundtrace.live.gathering import Bounds  # noqa: PLC0415 - same

        if isinstance(tell, str):
            raise PlanError("tell", tell, "is no list", hint=f"write tell={[tell]!r}")
        strange = [one for one in tell if one not in _TOLD]
        if strange:
            raise PlanError("tell", strange[0], "is nothing that can be told", valid=_TOLD)
        if drop not in ("newest", "oldest"):
            raise PlanError("drop", drop, "is no way to drop", valid=("newest", "oldest"))
        _positive(
            settle=settle, lifetime=lifetime, most_spans=most_spans, held_spans=held_spans, held_mb=held_mb,
            patience=patience, shutdown_seconds=shutdown_seconds,
        )  # fmt: skip
        size = int(held_mb * 1_000_000)
        bounds = Bounds(settle, lifetime, most_spans, max(size // 8, 1), held_spans, size, drop)
        return Processor(
            _judging(
                said,
                rubrics,
                judge,
                conventions=conventions,
                kind=kind,
                passages=passages,
                scores=scores,
                patience=patience,
            ),
            functools.partial(Telling, kinds=tell, logger_provider=logger_provider, meter_provider=meter_provider),
            bounds=bounds,
            choose=_share(sample),
            seconds=shutdown_seconds,
            tracer_provider=tracer_provider,
        )

    @_by_name
    def exporter(
        self,
        inner: SpanExporter,
        rubrics: Spec | Rubric | Sequence[Spec | Rubric] = (),
        judge: Spec | Judge = "offline",
        *,
        deadline: float = 10.0,
        sample: float = 0.1,
        scores: Literal["all", "headline"] = "all",
        conventions: Spec | Sequence[Spec] | Mapping[str, Any] = (),
        kind: Literal["auto", "answer", "summary"] = "auto",
        passages: str | Resolver | None = None,
        settle: float = 1.0,
        lifetime: float = 60.0,
        most_spans: int = 2_000,
        held_spans: int = 20_000,
        held_mb: float = 64,
        shutdown_seconds: float = 10.0,
    ) -> Exporter:
        """A span exporter that puts the scores on the spans before `inner` sends them.

            BatchSpanProcessor(groundtrace.otel.exporter(OTLPSpanExporter(), "source_support", deadline=5))

        A share (`sample`) of the traces waits, from the first span on until the trace is over (`settle` seconds after
        its root came, `lifetime` seconds at most) and judged (`deadline` seconds at most). Every span is passed on
        exactly once: with scores, or as it was where they came too late or there was no room. The rest is as in
        `processor`.
        """
        from groundtrace.adapters.otel.exporter import Exporter  # noqa: PLC0415 - the SDK is loaded here
        from groundtrace.adapters.otel.said import additions  # noqa: PLC0415 - same
        from groundtrace.live.gathering import Bounds  # noqa: PLC0415 - same

        if not hasattr(inner, "export"):
            raise PlanError("inner", inner, "is no span exporter", hint=_AROUND)
        _positive(
            deadline=deadline, settle=settle, lifetime=lifetime, most_spans=most_spans, held_spans=held_spans,
            held_mb=held_mb, shutdown_seconds=shutdown_seconds,
        )  # fmt: skip
        size = int(held_mb * 1_000_000)
        return Exporter(
            inner,
            _judging(
                additions,
                rubrics,
                judge,
                conventions=conventions,
                kind=kind,
                passages=passages,
                scores=scores,
                patience=deadline,
            ),
            bounds=Bounds(settle, lifetime, most_spans, max(size // 8, 1), held_spans, size),
            choose=_share(sample),
            deadline=deadline,
            seconds=shutdown_seconds,
        )


_TOLD = ("events", "spans", "metrics")

_AROUND = "give the one that sends, and a processor around ours: BatchSpanProcessor(exporter(OTLPSpanExporter(), ...))"

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


otel = _OTel()


def _judging(
    say: Say[_Said],
    rubrics: Spec | Rubric | Sequence[Spec | Rubric],
    judge: Spec | Judge,
    *,
    conventions: Spec | Sequence[Spec] | Mapping[str, Any],
    kind: Literal["auto", "answer", "summary"],
    passages: str | Resolver | None,
    scores: Literal["all", "headline"],
    patience: float,
) -> Judging[_Said]:
    """What judges traces in this program: a process of its own where all has a name that can be told to it."""
    from groundtrace.run.judging import Elsewhere, Here  # noqa: PLC0415 - needed by what is attached to OpenTelemetry

    given = [rubrics] if isinstance(rubrics, (str, Mapping)) or hasattr(rubrics, "cases") else list(rubrics)
    specs = [one for one in given if isinstance(one, (str, Mapping))]
    named = passages if isinstance(passages, str) else None
    told: dict[str, Any] = {"conventions": conventions, "kind": kind, "passages": named, "scores": scores}
    if specs:
        told["rubrics"] = specs
    if isinstance(judge, (str, Mapping)):
        told["judge"] = judge
    plan = Plan(sources=("otel:-",), **told)  # none is read
    asked = [Careful(cast("Rubric", _made("rubric", one))) for one in given or plan.rubrics]
    for rubric in asked:
        for note in rubric.notes():
            _LOG.warning("rubric %s: %s", rubric.name, note)
    made = cast("Judge", _made("judge", judge))
    texts = resolver(plan, _LOG.warning) if named is not None else cast("Resolver | None", passages)
    vocabularies = plan.vocabularies()
    by_name = len(specs) == len(given) and "judge" in told and (named or passages is None)
    if by_name and not getattr(made, "traces", False):
        return Elsewhere(plan, say, patience=patience if made.kind == "offline" else None)
    only = scores == "headline"
    return Here(asked, made, vocabularies, say, kind=plan.kind, passages=texts, headline_only=only)


def _share(sample: float) -> Callable[[str], bool] | None:
    """What picks this share of the traces; None where it is all."""
    _no_text(sample=sample)
    if not _is_number(sample) or not 0 <= sample <= 1:
        raise PlanError("sample", sample, "is no share", hint="write a number from 0 to 1; 1 looks at all")
    return None if sample == 1 else functools.partial(picked, share=sample)


def _no_text(**given: object) -> None:
    """A number in quotes, as it comes from the environment, is told to be one."""
    for name, value in given.items():
        if isinstance(value, str):
            raise PlanError(name, value, "is text and no number", hint=f"write {name}=float(...)")


def _positive(**given: float) -> None:
    _no_text(**given)
    for name, value in given.items():
        if not _is_number(value) or not 0 < value < float("inf"):
            raise PlanError(name, value, "must be more than 0")


def _made(kind: Literal["rubric", "judge"], given: object) -> object:
    """What a spec names, or the thing itself; a judge that lacks a key is refused here, where somebody sees it."""
    if isinstance(given, (str, Mapping)):
        made = load(cast("Any", kind), given)
        if hasattr(made, "check"):
            made.check()
        return made
    if not hasattr(given, "cases" if kind == "rubric" else "hear"):
        hint = f'give a name, as in "{"source_support" if kind == "rubric" else "offline"}"'
        raise PlanError(kind, given, f"is no {kind}", hint=hint)
    return given


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
