"""The scorer hangs in Braintrust's own `Eval` and `EvalAsync`: the real SDK, without an account and with a stand-in."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import inspect
import logging
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import braintrust
import braintrust.framework
import braintrust.logger
import pytest
from braintrust import Eval, EvalAsync, Score, traced

import groundtrace
from groundtrace.adapters.braintrust.names import name_of
from groundtrace.adapters.braintrust.scorer import Scorer
from groundtrace.errors import PlanError
from standins.braintrust import Standin
from standins.llm import hired

PASSAGES = ["The bus leaves at nine.", "Coffee is free on Mondays."]
ANSWER = "The bus leaves at nine [1]."
MADE_UP = "The bus leaves at nine [1]. It is painted green [2]."
SUPPORT = "groundtrace_source_support"
FAITHFUL = "groundtrace_rag_faithfulness"
CLAIMS = f"{FAITHFUL}_claim_support"
ALL_SUPPORT = {SUPPORT, f"{SUPPORT}_min", f"{SUPPORT}_citation_precision"}
ALL_FAITHFUL = {
    f"{FAITHFUL}_{name}" for name in ("assessed", "claim_support", "citation_accuracy", "abstention", "source_conflict")
}
"""What the offline judge gives: it does not assess all of it, so there is no score of the whole."""

TRACES = pytest.mark.skipif(
    "trace" not in inspect.getsource(braintrust.framework.EvalScorerArgs)
    and "trace" not in inspect.getsource(braintrust.framework),
    reason="the SDK hands scorers no trace",
)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Standin]:
    """An environment without a key, and a platform that would notice anyone who came by."""
    for name in [name for name in os.environ if name.startswith("BRAINTRUST")]:
        monkeypatch.delenv(name)
    with contextlib.closing(Standin()) as stand:
        monkeypatch.setenv("HOME", str(tmp_path))  # an SDK looks for keys in files
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("BRAINTRUST_APP_URL", stand.url)
        monkeypatch.setenv("BRAINTRUST_API_URL", stand.url)
        monkeypatch.setenv("BRAINTRUST_DISABLE_ATEXIT_FLUSH", "1")
        braintrust.logger._internal_reset_global_state()
        yield stand
        braintrust.logger._internal_reset_global_state()


@pytest.fixture
def somewhere(nowhere: Standin, monkeypatch: pytest.MonkeyPatch) -> Standin:
    """The same with a key."""
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-test")
    return nowhere


def of(name: str = "source_support", **options: Any) -> Scorer:
    """A scorer as a user makes it."""
    return groundtrace.braintrust.scorer(name, **options)


def cases(count: int = 1) -> list[dict[str, Any]]:
    """What an experiment is made of."""
    return [{"input": {"question": f"When does bus {n} leave?"}} for n in range(count)]


def experiment(task: Any, scores: Sequence[Any], data: Any = None, **options: Any) -> list[Any]:
    """An experiment that is not sent; what came of each case."""
    options.setdefault("no_send_logs", True)
    return list(Eval("buses", data=data or cases(), task=task, scores=list(scores), **options).results)


def errors(result: Any) -> dict[str, str]:
    """The last line of what each scorer raised."""
    return {name: told.strip().splitlines()[-1] for name, told in result.metadata.get("scorer_errors", {}).items()}


def handing(context: Any, name: str = "context", answer: str = ANSWER) -> Callable[[Any], dict[str, Any]]:
    """A task that returns its passages."""
    return lambda _: {"answer": answer, name: context}


@traced(type="tool")
def retrieve(query: str) -> list[dict[str, str]]:
    """What a user's own retriever gives."""
    return [{"id": str(n), "text": text} for n, text in enumerate(PASSAGES)]


def retrieving(asked: dict[str, str]) -> str:
    """A task whose passages stand in a span of its own alone."""
    retrieve(asked["question"])
    return ANSWER


def noting(asked: Any, hooks: Any) -> str:
    """A task that puts its passages where Braintrust's own scorers find them."""
    hooks.metadata["context"] = PASSAGES
    return ANSWER


# --- twenty cases, two scorers ----------------------------------------------------------------------------------------


def test_twenty_cases_and_two_scorers_without_a_key(nowhere: Standin) -> None:
    """Right names, right scores, and nobody was asked anything."""

    def task(asked: dict[str, str]) -> dict[str, Any]:
        number = int(asked["question"].split()[3])
        return {"answer": MADE_UP if number % 2 else ANSWER, "context": PASSAGES}

    done = Eval("buses", cases(20), task, [of(), of("rag_faithfulness")], no_send_logs=True)
    assert len(done.results) == 20
    for result in done.results:
        assert set(result.scores) == ALL_SUPPORT | ALL_FAITHFUL
        assert errors(result) == {}
    told = Counter(result.scores[SUPPORT] for result in done.results)
    assert told == {1.0: 10, 0.5: 10}
    assert done.summary.scores[SUPPORT].score == 0.75
    assert not [name for name in done.summary.scores if name.endswith(("abstention", "source_conflict"))]
    assert nowhere.requests == []


def test_a_case_that_fails_leaves_the_others(nowhere: Standin, caplog: pytest.LogCaptureFixture) -> None:
    """Its task broke, its output can't be judged, another scorer broke: each has its reason, no other is touched."""

    def task(asked: dict[str, str]) -> Any:
        if "bus 1 " in asked["question"]:
            raise ValueError("the index is down")
        if "bus 2 " in asked["question"]:
            return {"answer": ANSWER}
        if "bus 3 " in asked["question"]:
            return None
        return {"answer": ANSWER, "context": PASSAGES}

    def broken(output: Any) -> float:
        raise RuntimeError("judge down")

    done = experiment(task, [of(), broken, of("rag_faithfulness")], cases(20))
    by = {result.input["question"].split()[3]: result for result in done}
    assert (by["1"].scores, repr(by["1"].error)) == ({}, "ValueError('the index is down')")
    for lost in ("2", "3"):
        assert by[lost].scores == {SUPPORT: None, FAITHFUL: None}
    rest = [result for name, result in by.items() if name not in "123" or len(name) > 1]
    assert len(rest) == 17
    for result in rest:
        assert result.scores[SUPPORT] == result.scores[CLAIMS] == 1
        assert errors(result) == {"broken": "RuntimeError: judge down"}
    said = [record.getMessage() for record in caplog.records if record.name.startswith("groundtrace")]
    lacking = sorted(line.partition(":")[0] for line in said if "no score: context_not_instrumented" in line)
    assert lacking == [FAITHFUL, SUPPORT], "each reason is told once"


def test_what_breaks_inside_is_a_reason_and_no_number() -> None:
    """A resolver of the user's raises: the case has no score, the other scorer has its own."""
    found = [{"id": "a"}, {"id": "b"}]
    texts = dict(zip("ab", PASSAGES, strict=True))
    broken = of(passages=lambda ident, _: 1 / 0)
    whole = of("rag_faithfulness", passages=lambda ident, _: texts[ident])
    [result] = experiment(handing(found), [broken, whole])
    assert (result.scores[SUPPORT], result.scores[CLAIMS]) == (None, 1)
    [score] = broken(output={"answer": ANSWER, "context": found})
    assert (score.score, score.metadata["reason"]) == (None, "scorer_failed")
    assert score.metadata["rationale"] == "ZeroDivisionError: division by zero"


def test_a_score_says_what_it_means_and_who_gave_it() -> None:
    """Rationale, the rubric's own number and range, label, versions."""
    [score, *_] = of()(output={"answer": ANSWER, "context": PASSAGES}, input="When does the bus leave?")
    assert (score.name, score.score) == (SUPPORT, 1)
    told = score.metadata
    assert (told["value"], told["low"], told["high"], told["label"]) == (5, 1, 5, "Directly Supports")
    assert told["rationale"] == "1 of 1 claims supported"
    assert (told["rubric"], told["version"]) == ("source_support", groundtrace.rubric("source_support").version)
    assert told["judge"].startswith("offline@")
    assert (told["judge_kind"], told["groundtrace_version"]) == ("offline", groundtrace.__version__)
    assert "retriever" not in told, "none was seen"


def test_slices_are_told() -> None:
    """So that a chart can group by them."""
    [score, *_] = of()(output={"answer": ANSWER, "context": PASSAGES}, input="When?", metadata={"prompt_version": "v7"})
    assert score.metadata["prompt_version"] == "v7"


def test_a_score_that_is_not_assessed_says_so() -> None:
    """It is None and no zero."""
    told = {
        score.name: score for score in of("rag_faithfulness")({"answer": ANSWER, "context": PASSAGES}, input="When?")
    }
    left_out = told[f"{FAITHFUL}_abstention"]
    assert (left_out.score, left_out.metadata["reason"]) == (None, "not_assessed")
    assert "value" not in left_out.metadata


# --- every way to hand it over ----------------------------------------------------------------------------------------


def _seven(input: Any, output: Any, expected: Any, metadata: Any, trace: Any, id: Any, tags: Any) -> Any:  # noqa: A002, PLR0917
    return of()(output, expected, input=input, metadata=metadata, trace=trace, id=id, tags=tags)


def _rest(**given: Any) -> Any:
    return of()(**given)


async def _awaiting(output: Any, input: Any) -> Any:  # noqa: A002
    return await of().eval_async(output, input=input)


def _yielding(output: Any) -> Iterator[Score]:
    yield from of()(output)


class _Calling:
    def __call__(self, output: Any) -> Any:
        return of()(output)


class _Evaluating:
    async def eval_async(self, output: Any, **rest: Any) -> Any:
        return await of().eval_async(output, **rest)


FORMS: dict[str, tuple[Callable[[], Any], set[str]]] = {
    "the scorer": (of, ALL_SUPPORT),
    "its call": (lambda: of().__call__, ALL_SUPPORT),
    "its eval_async": (lambda: of().eval_async, ALL_SUPPORT),
    "a partial of it": (lambda: functools.partial(of(), metadata=None), ALL_SUPPORT),
    "a lambda": (lambda: lambda output: list(of()(output)), ALL_SUPPORT),
    "a function with every name": (lambda: _seven, ALL_SUPPORT),
    "a function that takes the rest": (lambda: _rest, ALL_SUPPORT),
    "a coroutine function": (lambda: _awaiting, ALL_SUPPORT),
    "a generator": (lambda: _yielding, ALL_SUPPORT),
    "an object that is called": (_Calling, ALL_SUPPORT),
    "an object with eval_async": (_Evaluating, ALL_SUPPORT),
    "a class with eval_async": (lambda: _Evaluating, ALL_SUPPORT),
    "one of its scores": (lambda: lambda output: of()(output)[0], {SUPPORT}),
    "a tuple of them": (lambda: lambda output: tuple(of()(output)), ALL_SUPPORT),
    "one as an object": (lambda: lambda output: of()(output)[0].as_dict(), {SUPPORT}),
}


def _given() -> set[str]:
    """The names the SDK hands a scorer."""
    names: set[str] = set()

    def seen(**given: Any) -> int:
        names.update(given)
        return 1

    experiment(handing(PASSAGES), [seen])
    return names


def _yields() -> bool:
    """Whether the SDK takes what a generator yields."""

    def one(output: Any) -> Iterator[Score]:
        yield Score("one", 1)

    return bool(experiment(handing(PASSAGES), [one])[0].scores)


NEEDS = {"a function with every name": lambda: {"id", "tags"} <= _given(), "a generator": _yields}
"""What older SDKs can't do, with anybody's scorers."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", ["Eval", "EvalAsync", "Eval in a loop"])
def test_every_form_gives_the_same(form: str, way: str) -> None:
    """Sync, async and in a running loop; by itself or inside of something of the user's."""
    if not NEEDS.get(form, lambda: True)():
        pytest.skip("the SDK has not learned that yet")
    make, names = FORMS[form]
    options: dict[str, Any] = {"data": cases(2), "task": handing(PASSAGES), "scores": [make()], "no_send_logs": True}
    if way == "Eval":
        done = Eval("buses", **options)
    elif way == "EvalAsync":
        done = asyncio.run(EvalAsync("buses", **options))
    else:

        async def main() -> Any:
            return await Eval("buses", **options)

        done = asyncio.run(main())
    assert [errors(result) for result in done.results] == [{}, {}]
    assert [result.scores for result in done.results] == [dict.fromkeys(names, 1.0)] * 2


def test_a_loop_is_not_held_up() -> None:
    """What else it runs goes on while a case is judged."""
    running = threading.Event()
    slow = copy.copy(groundtrace.judge("offline"))
    hear = slow.hear

    def heard(*asked: Any) -> Any:
        assert running.wait(10), "the loop stood still"
        return hear(*asked)

    slow.hear = heard  # type: ignore[method-assign]

    async def main() -> Any:
        scored = asyncio.create_task(of(judge=slow).eval_async({"answer": ANSWER, "context": PASSAGES}))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(running.set)
        return await scored

    assert asyncio.run(main())[0].score == 1


def test_it_is_called_in_a_running_loop_too() -> None:
    """As a function among other code."""

    async def main() -> Any:
        return of()({"answer": ANSWER, "context": PASSAGES})

    assert asyncio.run(main())[0].score == 1


@pytest.mark.parametrize("name", ["query", "context", "answer", "hooks", "outputs", "reference"])
def test_an_unknown_name_is_refused(name: str) -> None:
    """Never taken for something else, as the SDK does with functions of the user's own."""
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        of()(output=ANSWER, **{name: "x"})
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        asyncio.run(of().eval_async(output=ANSWER, **{name: "x"}))


def test_a_function_with_names_of_its_own_is_refused_by_ours() -> None:
    """The SDK binds them to whatever is left over; ours gets no chance to score that."""

    def odd(query: Any, context: Any, answer: Any) -> Any:
        return of()(query=query, context=context, answer=answer)  # type: ignore[call-arg]

    def hooked(input: Any, expected: Any, metadata: Any, hooks: Any, **rest: Any) -> Any:  # noqa: A002
        return of()(input=input, expected=expected, metadata=metadata, hooks=hooks, **rest)  # type: ignore[call-arg]

    data = [{"input": "Hello", "expected": "Hello world", "metadata": {"a": 1}}]
    [result] = experiment(lambda asked: asked + " world", [odd, hooked, of()], data)
    assert result.scores == {SUPPORT: None}
    assert {name: told.partition("(")[0] for name, told in errors(result).items()} == {
        "odd": "TypeError: Scorer.__call__",
        "hooked": "TypeError: Scorer.__call__",
    }


def test_the_sdk_binds_all_it_has_and_no_more() -> None:
    """Every name of the SDK's is one of ours: none is left over to be put elsewhere."""
    ours = set(inspect.signature(of().eval_async).parameters)
    assert _given() <= ours == {"input", "output", "expected", "metadata", "trace", "id", "tags"}


@pytest.mark.parametrize(
    "output",
    [None, "", 7, [], {}, ANSWER, {"answer": None}, {"answer": ANSWER}, {"answer": ANSWER, "context": []}, object()],
    ids=str,
)
@pytest.mark.parametrize("name", ["source_support", "rag_faithfulness", "factual_accuracy", "summary_groundedness"])
def test_whatever_comes_out_is_a_score_or_none(name: str, output: Any) -> None:
    """Each a `Score` of the SDK's, 0..1 or None with a reason; no NaN, no bool, no exception."""
    told = of(name)(output)
    assert told
    for score in told:
        assert type(score) is Score
        assert score.score is None or (type(score.score) is float and 0 <= score.score <= 1)
        assert score.score is not None or score.metadata["reason"]
    assert not any(isinstance(part, float) and math.isnan(part) for s in told for part in s.metadata.values())


# --- where passages stand ---------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Chunk:
    """A document of somebody's own."""

    text: str


class Document:
    """A document as LangChain's are: a pydantic model."""

    __fields__ = ("page_content",)

    def __init__(self, page_content: str) -> None:
        self.page_content = page_content

    def dict(self, **_: Any) -> dict[str, Any]:
        """As models of old gave theirs."""
        return {"page_content": self.page_content, "metadata": {}}


SHAPES: dict[str, Any] = {
    "texts": PASSAGES,
    "a tuple": tuple(PASSAGES),
    "text": [{"id": "a", "text": PASSAGES[0]}, {"id": "b", "text": PASSAGES[1]}],
    "page_content": [{"page_content": text} for text in PASSAGES],
    "documents": [Document(text) for text in PASSAGES],
    "dataclasses": [Chunk(text) for text in PASSAGES],
    "within": {"documents": [{"text": text} for text in PASSAGES]},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["context", "contexts", "documents", "retrieved_contexts", "passages"])
@pytest.mark.parametrize("place", ["output", "metadata", "output within"])
def test_every_shape_of_passages_reads_alike(shape: str, name: str, place: str) -> None:
    """As a part of what the task returns, or in the case's metadata."""
    held = SHAPES[shape]
    output: Any = {"answer": MADE_UP} if place == "metadata" else {"answer": MADE_UP, name: held}
    output = {"output": output} if place == "output within" else output
    told = of()(output, input={"question": "When?"}, metadata={name: held} if place == "metadata" else None)
    assert {score.name: score.score for score in told} == {
        SUPPORT: 0.5,
        f"{SUPPORT}_min": 0,
        f"{SUPPORT}_citation_precision": 0.5,
    }


def test_the_task_notes_them_for_scorers() -> None:
    """In the metadata of its hooks, with its answer as the output."""
    [result] = experiment(noting, [of()])
    assert result.scores[SUPPORT] == 1


def test_the_cases_own_metadata_and_input_hold_them() -> None:
    """As a dataset has them."""
    told = [
        {"input": "When?", "metadata": {"context": PASSAGES}},
        {"input": {"question": "When?", "context": PASSAGES}},
    ]
    assert [result.scores[SUPPORT] for result in experiment(lambda _: ANSWER, [of()], told)] == [1, 1]


def test_what_the_task_returned_goes_before_the_datasets() -> None:
    """It is what was really retrieved."""
    [score, *_] = of()({"answer": ANSWER, "context": PASSAGES}, metadata={"context": ["Nothing of the kind."]})
    assert score.score == 1


def test_passages_joined_to_one_text_are_one_passage() -> None:
    """As a prompt is filled with them."""
    output = {"answer": "The bus leaves at nine.", "context": "\n\n".join(PASSAGES)}
    told = {score.name: score.score for score in of("rag_faithfulness")(output, input="When?")}
    assert told[CLAIMS] == 1


@pytest.mark.parametrize("name", ["documents", "chunks", "source_documents"])
@pytest.mark.parametrize("place", ["output", "metadata"])
def test_names_of_files_are_no_passages(name: str, place: str) -> None:
    """A data set often holds the ones that should be found: no answer is judged by their names."""
    files = {name: ["buses.pdf", "https://buses.example/coffee"]}
    output = {"answer": ANSWER, **(files if place == "output" else {})}
    [score] = of()(output, input="When?", metadata=files if place == "metadata" else None)
    assert (score.score, score.metadata["reason"]) == (None, "context_not_instrumented")


@pytest.mark.parametrize("task", [lambda _: ANSWER, handing([7, 8]), handing({"a": {"b": 1}}), handing(None)])
def test_without_passages_there_is_no_number(task: Any) -> None:
    """Nor a perfect score; the reason says where they were looked for and what to do."""
    [result] = experiment(task, [of("rag_faithfulness")])
    assert result.scores == {FAITHFUL: None}
    [score] = of("rag_faithfulness")(task("When?"), input="When?")
    assert score.metadata["reason"].startswith("context_")
    for part in ("Looked in the output", 'let the task return its passages, {"answer"', 'hooks.metadata["context"]'):
        assert part in score.metadata["rationale"]


def test_a_mapping_finds_passages_under_names_of_ones_own() -> None:
    """As in a plan: a path starts at the case's row as the API would hand it over."""
    mine = {
        "query": "braintrust.row.input.question",
        "context": "braintrust.row.output.evidence.found[*]",
        "answer": "braintrust.row.output.said",
    }
    output = {"said": ANSWER, "evidence": {"found": PASSAGES}}
    [lost] = of()(output, input={"question": "When?"})
    assert lost.score is None
    [score, *_] = of(conventions={"mine": mine})(output, input={"question": "When?"})
    assert score.score == 1


@pytest.mark.parametrize(
    ("input", "metadata"),
    [
        ("Summarise it.", {"documents": PASSAGES}),
        ({"document": " ".join(PASSAGES)}, None),
        (" ".join(PASSAGES), None),
        ({"instruction": "Summarise it.", "context": " ".join(PASSAGES)}, None),
    ],
)
def test_a_summary_is_judged_by_its_source(input: Any, metadata: Any) -> None:  # noqa: A002
    """Which is what the task was given, or stands in the case's metadata."""
    made = of("summary_groundedness", kind="summary")
    told = {s.name: s.score for s in made("The bus leaves at nine.", input=input, metadata=metadata)}
    assert told["groundtrace_summary_groundedness_factual_consistency"] == 1


# --- experiments that are sent ----------------------------------------------------------------------------------------


def rows(stand: Standin) -> list[dict[str, Any]]:
    """What the platform holds of its one experiment."""
    braintrust.flush()
    [ident] = stand.store.experiments
    return list(stand.store.rows(("experiment", ident)))


def test_an_experiment_that_is_sent_holds_its_scores(somewhere: Standin) -> None:
    """On the scorers' spans, under the same names as without an account, with why."""
    done = Eval("buses", cases(20), handing(PASSAGES), [of(), of("rag_faithfulness")])
    scored = [row for row in rows(somewhere) if row["span_attributes"].get("type") == "score"]
    told = Counter(name for row in scored for name, value in (row["scores"] or {}).items() if value is not None)
    nulls = {f"{FAITHFUL}_abstention", f"{FAITHFUL}_source_conflict"}
    assert told == dict.fromkeys(ALL_SUPPORT | (ALL_FAITHFUL - nulls), 20)
    assert {row["span_attributes"]["name"] for row in scored} == {SUPPORT, FAITHFUL}
    assert {row["span_attributes"]["purpose"] for row in scored} == {"scorer"}
    one = next(row for row in scored if row["span_attributes"]["name"] == SUPPORT)
    assert one["metadata"][SUPPORT]["rationale"] == "1 of 1 claims supported"
    assert one["metadata"][SUPPORT]["value"] == 5
    assert len(done.results) == 20
    assert done.summary.scores[SUPPORT].score == 1
    assert "NaN" not in str([request["body"] for request in somewhere.requests])


def test_a_run_over_the_experiment_gives_the_same_names_and_scores(somewhere: Standin) -> None:
    """So charts of logs and of experiments are alike; what the scorers left is no part of what is judged."""
    done = Eval("buses", cases(5), handing(PASSAGES, answer=MADE_UP), [of(), of("rag_faithfulness")])
    here = Counter((name, score) for r in done.results for name, score in r.scores.items() if score is not None)
    before = {row["id"] for row in rows(somewhere)}
    [name] = [experiment["name"] for experiment in somewhere.store.experiments.values()]
    source = f"braintrust:buses,experiment={name},app_url={somewhere.url},settle=0,queries=6000"
    report = groundtrace.run(
        groundtrace.Plan(sources=source, rubrics=("source_support", "rag_faithfulness"), sample=1.0, audit_rate=0.0)
    )
    assert (report.traces, report.failed) == (5, ())
    written = [row for row in rows(somewhere) if row["id"] not in before]
    assert Counter(told for row in written for told in row["scores"].items()) == here


@TRACES
@pytest.mark.parametrize("cached", [True, False])
def test_passages_of_the_tasks_own_spans_are_found(somewhere: Standin, *, cached: bool) -> None:
    """The SDK holds them still, or fetches them."""
    if not cached and "enable_cache" not in inspect.signature(Eval).parameters:
        pytest.skip("the SDK always holds them")
    options: dict[str, Any] = {} if cached else {"enable_cache": False}
    options["max_concurrency"] = 1  # what threads log at one moment the SDK's cache loses now and then
    done = experiment(retrieving, [of(), of("rag_faithfulness")], cases(3), no_send_logs=False, **options)
    assert [(result.scores[SUPPORT], result.scores[CLAIMS]) for result in done] == [(1, 1)] * 3
    asked = somewhere.asked("/btql")
    assert (len(asked) == 0) is cached
    one = next(row for row in rows(somewhere) if row["span_attributes"]["name"] == SUPPORT)
    assert one["metadata"][SUPPORT]["retriever"] == "retrieve"


@TRACES
def test_a_trace_that_can_not_be_had_is_a_reason(somewhere: Standin) -> None:
    """Not a zero; the other cases and scorers are as they are."""
    somewhere.fail("/btql", 403, times=99)
    done = experiment(retrieving, [of()], cases(1), no_send_logs=False, enable_cache=False)
    assert [result.scores for result in done] == [{SUPPORT: None}]
    one = next(row for row in rows(somewhere) if row["span_attributes"]["name"] == SUPPORT)
    assert "its trace could not be had: " in one["metadata"]["rationale"]
    assert one["scores"] == {SUPPORT: None}


@TRACES
def test_without_logs_the_platform_is_not_asked_for_spans(nowhere: Standin) -> None:
    """The SDK would log in, without a key, to hear that there are none."""
    [result] = experiment(retrieving, [of()])
    assert result.scores == {SUPPORT: None}
    assert nowhere.requests == []


@TRACES
def test_the_spans_are_found_from_a_function_of_the_users(somewhere: Standin) -> None:
    """Which is not asynchronous, and is called in the SDK's loop."""

    def mine(input: Any, output: Any, trace: Any) -> Any:  # noqa: A002
        return of()(output, input=input, trace=trace)

    [result] = experiment(retrieving, [mine], no_send_logs=False)
    assert result.scores[SUPPORT] == 1


def test_a_model_judges_in_a_running_loop_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same object serves `Eval` and `EvalAsync`."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with hired() as stand:
        stand.script()
        judged = of("rag_faithfulness", judge=f"openai:gpt-4o,base_url={stand.v1}")
        plain = experiment(handing(PASSAGES), [judged, of()], cases(3))
        options: dict[str, Any] = {"scores": [judged, of()], "no_send_logs": True}
        looped = asyncio.run(EvalAsync("buses", data=cases(3), task=handing(PASSAGES), **options)).results
    for done in (plain, looped):
        assert [(r.scores[FAITHFUL] is not None, r.scores[SUPPORT]) for r in done] == [(True, 1)] * 3


def test_a_judge_that_fails_leaves_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reply passed no gate, twice."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with hired() as stand:
        stand.script({"do": {"answer": "It looks fine to me."}})
        judged = of("rag_faithfulness", judge=f"openai:gpt-4o,base_url={stand.v1}")
        [result] = experiment(handing(PASSAGES), [judged, of()])
        [score] = judged({"answer": ANSWER, "context": PASSAGES}, input="When?")
    assert result.scores == {FAITHFUL: None, **dict.fromkeys(ALL_SUPPORT, 1)}
    assert (score.score, score.metadata["reason"]) == (None, "invalid_verdict")


# --- inputs that broke others -----------------------------------------------------------------------------------------


def test_all_of_a_card_may_be_null(nowhere: Standin) -> None:
    """An experiment that is not sent, and a scorer whose every score is None: skipped, no crash, no zero."""
    done = Eval("buses", cases(2), lambda _: "Hi!", [of(), of("rag_faithfulness")], no_send_logs=True)
    assert [result.scores for result in done.results] == [{SUPPORT: None, FAITHFUL: None}] * 2
    assert done.summary.scores == {}
    assert [errors(result) for result in done.results] == [{}, {}]


@pytest.mark.parametrize("asked", ["List 3 movies about sci-fi in the genre of fiction.", "3, sci-fi, fiction, movies"])
@pytest.mark.parametrize("name", ["source_support", "rag_faithfulness", "factual_accuracy"])
def test_a_context_of_names_gives_bounded_scores(name: str, asked: str) -> None:
    """Where another's went to 9.81 by how the question was put."""
    answer = (
        "Here are three science fiction movies: 1. Ex Machina, about a programmer and an android with a mind of her "
        "own. 2. I Am Mother, about a girl who is raised by a robot. 3. Mother/Android, about a couple on the run."
    )
    data = [{"input": asked, "metadata": {"context": ["ex machina", "i am mother", "mother/android"]}}]
    [result] = experiment(lambda _: answer, [of(name)], data)
    assert errors(result) == {}
    assert result.scores
    assert all(value is None or 0 <= value <= 1 for value in result.scores.values())
    assert any(value is not None for value in result.scores.values())


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but there is no information about that.",
        "I couldn't find any information on completing your account. Can I help you with anything else today?",
    ],
)
@pytest.mark.parametrize("context", [None, [], [""]], ids=str)
def test_nothing_was_retrieved_and_nothing_said(answer: str, context: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Where others divide by zero: no number for support, and the reason beside it."""
    caplog.set_level(logging.ERROR)
    output = {"answer": answer, "context": context}
    [score] = of()(output, input="How do I complete my account?")
    assert (score.score, bool(score.metadata["reason"]), bool(score.metadata["rationale"])) == (None, True, True)
    told = of("rag_faithfulness")(output, input="How do I complete my account?")
    assert all(s.score is None or 0 <= s.score <= 1 for s in told)
    if context != []:
        assert [(s.name, s.score) for s in told] == [(FAITHFUL, None)]


# --- what a user gives and gets ---------------------------------------------------------------------------------------


def test_a_scorer_is_named_for_its_score() -> None:
    """The SDK names its span and its errors by it."""
    made = of("rag_faithfulness")
    assert braintrust.framework._scorer_name(made, 3) == made.__name__ == FAITHFUL == name_of("rag_faithfulness")
    assert repr(made).startswith("<groundtrace scorer rag_faithfulness, judge offline@")
    assert repr(groundtrace.braintrust) == "<groundtrace.braintrust: scorer>"


def test_no_two_scores_share_a_name() -> None:
    """Their dots become underscores, as they do already in some names."""
    from groundtrace.rubrics.catalogue import CATALOGUE

    names = [name_of(told.name) for told in CATALOGUE]
    assert len(set(names)) == len(names)
    assert all(name.replace("_", "").isalnum() for name in names)


def test_the_headline_alone_may_be_wanted() -> None:
    """A judge that does not assess all of a rubric says so instead of a number."""
    both = [of(scores="headline"), of("rag_faithfulness", scores="headline")]
    [result] = experiment(handing(PASSAGES), both)
    assert result.scores == {SUPPORT: 1, FAITHFUL: None}
    [score] = both[1]({"answer": ANSWER, "context": PASSAGES}, input="When?")
    assert score.metadata["reason"] == "not_assessed"


def test_a_rubric_for_other_records_says_how_to_have_it_read_as_one() -> None:
    """An answer is no summary, unless the user says so."""
    [score] = of("summary_groundedness")({"answer": ANSWER, "context": PASSAGES}, input="When?")
    assert score.metadata["reason"] == "other_kind"
    assert 'kind="summary"' in score.metadata["rationale"]


def test_a_judge_and_a_rubric_may_be_given_themselves() -> None:
    """As well as their names."""
    made = of(groundtrace.rubric("source_support"), judge=groundtrace.judge("offline"))  # type: ignore[arg-type]
    assert made({"answer": ANSWER, "context": PASSAGES})[0].score == 1


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("rag_faithfulnes", {}, "did you mean 'rag_faithfulness'"),
        ("source_support", {"judge": "ofline"}, "did you mean 'offline'"),
        (["source_support"], {}, "is no rubric"),
        ("source_support", {"scores": "some"}, "Valid: all, headline"),
        ("source_support", {"conventions": "braintrus"}, "did you mean 'braintrust'"),
    ],
)
def test_what_can_not_be_had_is_said_before_anything_runs(name: Any, options: dict[str, Any], said: str) -> None:
    """With what would be valid."""
    with pytest.raises(PlanError, match=said):
        of(name, **options)


@pytest.mark.parametrize("options", [{"trial_count": 2}, {"max_concurrency": 4}, {"timeout": 60}], ids=str)
def test_the_options_of_eval_are_no_matter(options: dict[str, Any]) -> None:
    """Each case has its scores, however it is run."""
    found = experiment(handing(PASSAGES), [of()], cases(3), **options)
    assert len(found) == 3 * options.get("trial_count", 1)
    assert {result.scores[SUPPORT] for result in found} == {1}
