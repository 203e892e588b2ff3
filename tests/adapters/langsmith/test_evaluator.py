"""The evaluator hangs in LangSmith's own `evaluate` and `aevaluate`: the real SDK, against a stand-in."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import inspect
import json
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import langsmith.utils
import pytest
from langsmith import Client, aevaluate, evaluate, traceable
from langsmith.evaluation import EvaluationResult
from langsmith.schemas import Run
from pydantic import BaseModel

import groundtrace
from groundtrace.adapters.langsmith.evaluator import Evaluator
from groundtrace.adapters.langsmith.feedback import COMMENT
from groundtrace.errors import PlanError
from standins.langsmith import Store, serve
from standins.llm import hired

PASSAGES = ["The bus leaves at nine.", "Coffee is free on Mondays."]
ANSWER = "The bus leaves at nine [1]."
MADE_UP = "The bus leaves at nine [1]. It is painted green [2]."
SUPPORT = "groundtrace.source_support"
CLAIMS = "groundtrace.rag_faithfulness.claim_support"
FAITHFUL = "groundtrace.rag_faithfulness"

Target = Callable[[dict[str, Any]], dict[str, Any]]


@dataclasses.dataclass
class House:
    """A client of the real SDK, and the platform it talks to."""

    client: Client
    store: Store

    def dataset(self, count: int = 1) -> str:
        """A dataset of questions; its name."""
        name = f"questions-{uuid.uuid4()}"
        made = self.client.create_dataset(name)
        examples = [{"inputs": {"question": f"When does bus {n} leave?"}} for n in range(count)]
        self.client.create_examples(dataset_id=made.id, examples=examples)
        return name

    def experiment(self, target: Target, evaluators: Sequence[Any] = (), count: int = 1) -> Any:
        """A target evaluated on a dataset, and all of it sent."""
        done = evaluate(target, data=self.dataset(count), evaluators=list(evaluators), client=self.client)
        list(done)
        self.client.flush()
        return done

    def told(self) -> dict[str, list[dict[str, Any]]]:
        """The feedback the platform holds, by key."""
        self.client.flush()
        found: dict[str, list[dict[str, Any]]] = {}
        for row in self.store.feedback.values():
            found.setdefault(row["key"], []).append(row)
        return found


def settle(monkeypatch: pytest.MonkeyPatch, url: str) -> Client:
    """A client of this address, in an environment that names it and nothing else."""
    import os

    for name in [name for name in os.environ if name.startswith(("LANGSMITH", "LANGCHAIN"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LANGSMITH_ENDPOINT", url)
    monkeypatch.setenv("LANGSMITH_API_KEY", "lsv2_of_the_tests")
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    langsmith.utils.get_env_var.cache_clear()
    return Client(api_url=url, api_key="lsv2_of_the_tests")


@pytest.fixture(params=["v2"])
def house(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A platform with the API of this generation."""
    server, store, url = serve(flags={"sdb_query_enabled": request.param == "v2"})
    client = settle(monkeypatch, url)
    yield House(client, store)
    getattr(client, "close", client.cleanup)()  # older versions have the one, newer both
    server.shutdown()
    server.server_close()
    langsmith.utils.get_env_var.cache_clear()


def of(name: str = "source_support", **options: Any) -> Evaluator:
    """An evaluator as a user makes it."""
    return groundtrace.langsmith.evaluator(name, **options)


def rows(done: Any) -> list[dict[str, EvaluationResult]]:
    """What each example got, by key."""
    return [{result.key: result for result in row["evaluation_results"]["results"]} for row in done]


def handing(context: Any, name: str = "context", answer: str = ANSWER) -> Target:
    """A target that returns its passages."""
    return lambda inputs: {"answer": answer, name: context}


@traceable(run_type="retriever")
def retrieve(query: str) -> list[str]:
    """What a user's own retriever gives."""
    return PASSAGES


def retrieving(inputs: dict[str, Any]) -> dict[str, Any]:
    """A target whose passages stand in a child run alone."""
    retrieve(inputs["question"])
    return {"answer": ANSWER}


def bare(inputs: dict[str, Any]) -> dict[str, Any]:
    """A target that says nothing of its passages."""
    return {"answer": ANSWER}


# --- twenty examples, two evaluators ----------------------------------------------------------------------------------


def test_every_score_of_every_example_is_under_its_own_key(house: House) -> None:
    """Twenty examples, two evaluators, no key of any model: all of it is on the platform, once."""
    done = house.experiment(retrieving, [of("rag_faithfulness"), of("source_support")], count=20)
    told = house.told()
    assert Counter({key: len(found) for key, found in told.items()}) == {
        CLAIMS: 20,
        "groundtrace.rag_faithfulness.assessed": 20,
        "groundtrace.rag_faithfulness.citation_accuracy": 20,
        "groundtrace.rag_faithfulness.abstention": 20,
        "groundtrace.rag_faithfulness.source_conflict": 20,
        SUPPORT: 20,
        "groundtrace.source_support.min": 20,
        "groundtrace.source_support.citation_precision": 20,
    }
    assert {row["score"] for row in told[SUPPORT]} == {5}
    roots = {str(row["run"].id) for row in done}
    assert {row["run_id"] for found in told.values() for row in found} == roots
    assert all(row["session_id"] and row["start_time"] and row["trace_id"] for row in told[SUPPORT])


def test_a_score_says_its_range_what_it_means_and_who_gave_it(house: House) -> None:
    """Range, label, rationale, versions; no score and no zero for what this judge does not assess."""
    house.experiment(retrieving, [of("rag_faithfulness"), of("source_support")])
    told = house.told()
    row = told[SUPPORT][0]
    assert row["feedback_config"] == {"type": "continuous", "min": 1.0, "max": 5.0}
    assert row["value"] == "Directly Supports"
    said, _, mark = row["comment"].partition("\n\n")
    assert (said, mark[:12]) == ("1 of 1 claims supported", "[groundtrace")
    about = row["feedback_source"]["metadata"]
    assert about["evaluator"] == "groundtrace/source_support"
    assert about["judge"].startswith("offline@")
    assert about["version"] == groundtrace.rubric("source_support").version
    assert (about["groundtrace"], about["slice.retriever"]) == (groundtrace.__version__, "retrieve")
    left_out = told["groundtrace.rag_faithfulness.abstention"][0]
    assert (left_out["score"], left_out["value"], left_out.get("error")) == (None, "not_assessed", None)
    assert FAITHFUL not in told


def test_a_model_judges_in_a_running_loop_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same object serves `evaluate` and `aevaluate`, outside of a loop and inside of one."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with hired() as stand:
        stand.script()
        judged = of("rag_faithfulness", judge=f"openai:gpt-4o,base_url={stand.v1}")
        offline = of("source_support")
        plain = rows(house.experiment(retrieving, [judged, offline], count=3))

        async def target(inputs: dict[str, Any]) -> dict[str, Any]:
            return retrieving(inputs)

        async def main() -> tuple[list[dict[str, EvaluationResult]], list[dict[str, EvaluationResult]]]:
            looped = await aevaluate(
                target, data=house.dataset(3), evaluators=[judged, offline], client=house.client, max_concurrency=3
            )
            awaited = [row async for row in looped]
            blocking = house.experiment(retrieving, [judged, offline], count=3)
            return rows(awaited), rows(blocking)

        awaited, blocking = asyncio.run(main())
    for told in (plain, awaited, blocking):
        assert [(row[FAITHFUL].score is not None, row[SUPPORT].score) for row in told] == [(True, 5)] * 3
    assert len(house.told()[FAITHFUL]) == 9


# --- experiments that were run before ---------------------------------------------------------------------------------


@pytest.mark.parametrize("house", ["v1", "v2"], indirect=True)
@pytest.mark.parametrize("nested", [True, False])
def test_passages_of_a_child_run_are_found_in_an_old_experiment(house: House, *, nested: bool) -> None:
    """With `load_nested` they are at hand, without it the trace is fetched; both find the same."""
    name = house.experiment(retrieving, count=3).experiment_name
    before = len(house.store.log)
    both = [of(), of("rag_faithfulness")]
    again = rows(evaluate(name, evaluators=both, client=house.client, load_nested=nested))
    assert [(row[SUPPORT].score, row[CLAIMS].score) for row in again] == [(5, 5)] * 3
    traces = [e for e in house.store.log[before:] if "/traces/" in e["path"] or "trace" in (e.get("json") or ())]
    assert len(traces) == (0 if nested else 3), "evaluators of the same runs share what was fetched"
    assert house.told()[SUPPORT][0]["feedback_source"]["metadata"]["slice.retriever"] == "retrieve"


@pytest.mark.parametrize("lack", ["absent", "running", "between"])
def test_what_is_not_there_yet_is_asked_for_again_by_the_next_evaluator(house: House, lack: str) -> None:
    """A trace of an old experiment may still be on its way in; a whole one is fetched once."""
    middle = traceable(name="middle")(retrieving)

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        return middle(inputs)

    house.experiment(target)
    runs = house.store.runs
    whole = {ident: dict(row) for ident, row in runs.items()}
    [root] = [Run(**row) for row in whole.values() if not row.get("parent_run_id")]
    [kid] = [row for row in runs.values() if row["run_type"] == "retriever"]
    if lack == "running":
        kid.update(end_time=None, outputs=None, status="pending")
    for row in (row for row in whole.values() if row["id"] != str(root.id)):
        if lack == "absent" or (lack == "between" and row["id"] != kid["id"]):
            del runs[row["id"]]
    of(client=house.client)(root)
    runs.update(whole)
    before = len(house.store.log)
    for name, key in (("source_support", SUPPORT), ("rag_faithfulness", CLAIMS)):
        told = {result.key: result.score for result in of(name, client=house.client)(root)["results"]}
        assert told[key] == 5
    assert len([row for row in house.store.log[before:] if "/traces/" in row["path"]]) == 1


def test_an_old_experiment_is_asked_of_the_client_given(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else of the one that evaluates: the environment may name another place, or none."""
    name = house.experiment(retrieving).experiment_name
    monkeypatch.setenv("LANGSMITH_ENDPOINT", "http://127.0.0.1:9")
    langsmith.utils.get_env_var.cache_clear()
    [evaluated] = rows(evaluate(name, evaluators=[of()], client=house.client))
    run = Run(**next(row for row in house.store.runs.values() if not row.get("parent_run_id")))
    [given] = [r for r in of(client=house.client)(run)["results"] if r.key == SUPPORT]
    assert evaluated[SUPPORT].score == given.score == 5


def test_a_run_inside_a_trace_is_judged_by_what_is_its_own(house: House) -> None:
    """What another part of the trace retrieved is no passage of it."""
    inner = traceable(name="inner")(retrieving)
    other = traceable(name="other")(bare)

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        other(inputs)
        return inner(inputs)

    house.experiment(target)
    runs = {row["name"]: Run(**row) for row in house.store.runs.values()}
    [found] = [r for r in of(client=house.client)(runs["inner"])["results"] if r.key == SUPPORT]
    assert (found.score, found.extra) == (5, None)
    [lost] = of(client=house.client)(runs["other"])["results"]
    assert (lost.score, lost.extra) == (None, {"error": True})


@pytest.mark.skipif(not hasattr(langsmith, "Langsmith"), reason="the SDK knows the first API alone")
def test_a_run_of_the_second_api_is_one(house: House) -> None:
    """It has other names for some things; its passages are fetched."""
    house.experiment(retrieving)
    [(ident, row)] = [(i, row) for i, row in house.store.runs.items() if not row.get("parent_run_id")]
    chosen = ["ID", "TRACE_ID", "PROJECT_ID", "NAME", "RUN_TYPE", "START_TIME", "END_TIME", "INPUTS", "OUTPUTS"]
    with langsmith.Langsmith(api_key="lsv2_of_the_tests", base_url=house.client.api_url) as second:
        run = second.runs.retrieve_v2(ident, project_id=row["session_id"], selects=chosen)
    told = {result.key: result.score for result in of(client=house.client)(run)["results"]}
    assert told[SUPPORT] == 5


def test_a_trace_that_can_not_be_fetched_is_an_error_that_says_so(house: House) -> None:
    """Not a zero, and not a score for want of passages."""
    name = house.experiment(retrieving).experiment_name
    house.store.faults.append({"method": "GET", "path": r"/traces/", "status": 403, "times": 9})
    [row] = rows(evaluate(name, evaluators=[of()], client=house.client))
    assert (row[SUPPORT].score, row[SUPPORT].extra) == (None, {"error": True})
    assert row[SUPPORT].comment is not None
    assert "its trace could not be fetched: LangSmith refused" in row[SUPPORT].comment


def test_a_run_that_began_at_a_time_without_a_zone_gets_one(house: House) -> None:
    """The SDK sends its feedback with the run's start, and the platform refuses one without a zone: it was lost."""
    house.experiment(retrieving)
    run = Run(**next(row for row in house.store.runs.values() if not row.get("parent_run_id")))
    run.start_time = dt.datetime(2026, 3, 6, 10, 0, 0, 123456)  # noqa: DTZ001 - it is the test
    of()(run)
    assert run.start_time.isoformat() == "2026-03-06T10:00:00.123456+00:00"


# --- where passages stand ---------------------------------------------------------------------------------------------


class Document(BaseModel):
    """A document as LangChain's are: a live run holds them as they are."""

    page_content: str
    metadata: dict[str, Any] = {}
    id: str | None = None


@dataclasses.dataclass
class Chunk:
    """A document of somebody's own."""

    text: str


def constructor(text: str) -> dict[str, Any]:
    """A document as LangChain's own JSON has it."""
    kind = ["langchain", "schema", "document", "Document"]
    return {"lc": 1, "type": "constructor", "id": kind, "kwargs": {"page_content": text, "type": "Document"}}


SHAPES: dict[str, Any] = {
    "strings": PASSAGES,
    "page_content": [{"page_content": text} for text in PASSAGES],
    "documents": [Document(page_content=text) for text in PASSAGES],
    "dataclasses": [Chunk(text) for text in PASSAGES],
    "constructors": [constructor(text) for text in PASSAGES],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["context", "contexts", "documents", "retrieved_contexts", "a child run"])
def test_every_shape_of_passages_reads_alike(house: House, shape: str, name: str) -> None:
    """As a part of what the target returns, or as what a retriever gave: live, and from the platform."""
    held = SHAPES[shape]

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        if name != "a child run":
            return {"answer": MADE_UP, name: held}
        traceable(run_type="retriever", name="search")(lambda query: held)(inputs["question"])
        return {"answer": MADE_UP}

    done = house.experiment(target, [of()])
    again = evaluate(done.experiment_name, evaluators=[of()], client=house.client)
    scores = [{key: result.score for key, result in row.items()} for row in (*rows(done), *rows(again))]
    expected = {SUPPORT: 3, f"{SUPPORT}.min": 1, f"{SUPPORT}.citation_precision": 0.5}
    assert scores == [expected, expected]


def test_an_answer_under_output_is_the_same_answer(house: House) -> None:
    """Outputs were wrapped under users' feet once."""
    told = [
        rows(house.experiment(target, [of()]))[0][SUPPORT]
        for target in (handing(PASSAGES), lambda inputs: {"output": {"answer": ANSWER, "context": PASSAGES}})
    ]
    assert [(result.score, str(result.comment)[:23]) for result in told] == [(5, "1 of 1 claims supported")] * 2


def test_sources_are_passages_where_they_are_more_than_names(house: House) -> None:
    """A list of plain texts is most often one of addresses."""
    documents = [{"page_content": text} for text in PASSAGES]
    [row] = rows(house.experiment(handing(documents, "sources"), [of()]))
    assert row[SUPPORT].score == 5
    [row] = rows(house.experiment(handing(["https://buses.example/1"], "sources"), [of()]))
    assert "sources that are more than names" in str(row[SUPPORT].comment)


def test_passages_joined_to_one_text_are_one_passage(house: House) -> None:
    """As a prompt is filled with them."""
    [row] = rows(
        house.experiment(handing("\n\n".join(PASSAGES), answer="The bus leaves at nine."), [of("rag_faithfulness")])
    )
    assert row[CLAIMS].score == 5


@pytest.mark.parametrize("target", [bare, handing([7, 8]), handing({"a": {"b": 1}}), handing(None)])
def test_without_passages_there_is_an_error_and_no_number(house: House, target: Target) -> None:
    """Nor a perfect score; the comment says where they were looked for and what to do."""
    [row] = rows(house.experiment(target, [of("rag_faithfulness")]))
    assert set(row) == {FAITHFUL}
    result = row[FAITHFUL]
    assert (result.score, result.value, result.extra) == (None, None, {"error": True})
    assert result.comment is not None
    for part in ("context", "Looked in the run's outputs", 'let the target return its passages, {"answer"'):
        assert part in result.comment
    [sent] = house.told()[FAITHFUL]
    assert (sent["score"], sent["error"]) == (None, True)


def test_a_search_that_found_nothing_is_no_missing_context(house: House) -> None:
    """It was seen, and is judged as such."""

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        traceable(run_type="retriever", name="search")(lambda query: [])(inputs["question"])
        return {"answer": ANSWER}

    [row] = rows(house.experiment(target, [of("rag_faithfulness")]))
    assert row[CLAIMS].score == 1


def test_a_mapping_finds_passages_under_names_of_ones_own(house: House) -> None:
    """As in a plan: a path starts at the run as the API hands it over."""
    mine = {
        "query": "langsmith.run.inputs.question",
        "context": "langsmith.run.outputs.evidence.found[*]",
        "answer": "langsmith.run.outputs.said",
    }

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        return {"said": ANSWER, "evidence": {"found": PASSAGES}}

    [lost] = rows(house.experiment(target, [of()]))
    assert lost[SUPPORT].extra == {"error": True}
    [row] = rows(house.experiment(target, [of(conventions={"mine": mine})]))
    assert row[SUPPORT].score == 5


def test_a_function_gives_texts_that_no_trace_holds(house: House) -> None:
    """And where it breaks, what it raised stands under the evaluator's own key; the others stand."""
    texts = dict(zip("ab", PASSAGES, strict=True))

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        traceable(run_type="retriever", name="search")(lambda query: [{"id": "a"}, {"id": "b"}])(inputs["question"])
        return {"answer": ANSWER}

    [row] = rows(house.experiment(target, [of(passages=lambda ident, _: texts[ident])]))
    assert row[SUPPORT].score == 5
    broken = of(passages=lambda ident, _: 1 / 0)  # type: ignore[arg-type, return-value]
    [row] = rows(house.experiment(target, [broken, of("rag_faithfulness", passages=lambda ident, _: texts[ident])]))
    assert (row[SUPPORT].score, row[SUPPORT].extra) == (None, {"error": True})
    assert row[SUPPORT].comment == "evaluator_failed: ZeroDivisionError: division by zero"
    assert row[CLAIMS].score == 5


# --- one example, and the others --------------------------------------------------------------------------------------


def test_a_target_that_fails_leaves_the_others(house: House) -> None:
    """Its own example says that there is nothing to judge."""

    def target(inputs: dict[str, Any]) -> dict[str, Any]:
        if "bus 1 " in inputs["question"]:
            raise ValueError("the index is down")
        return retrieving(inputs)

    told = rows(house.experiment(target, [of()], count=3))
    assert sorted(str(row[SUPPORT].score) for row in told) == ["5.0", "5.0", "None"]
    [failed] = [row[SUPPORT] for row in told if row[SUPPORT].score is None]
    assert failed.comment is not None
    assert failed.comment.startswith("target_failed: there is nothing to judge: ValueError('the index is down')")
    assert failed.extra == {"error": True}


def test_a_judge_that_fails_leaves_no_number(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reply passed no gate, twice."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with hired() as stand:
        stand.script({"do": {"answer": "It looks fine to me."}})
        judge = f"openai:gpt-4o,base_url={stand.v1}"
        [row] = rows(house.experiment(retrieving, [of("rag_faithfulness", judge=judge), of()]))
    assert (row[FAITHFUL].score, row[FAITHFUL].extra) == (None, {"error": True})
    assert row[FAITHFUL].comment is not None
    assert row[FAITHFUL].comment.startswith("invalid_verdict: ")
    assert row[SUPPORT].score == 5


# --- what a user gives and gets ---------------------------------------------------------------------------------------


def test_an_evaluator_is_named_and_says_its_key() -> None:
    """The SDK names experiments' progress and what an evaluator raised by these."""
    made = of("rag_faithfulness")
    assert (made.__name__, made.feedback_keys) == ("rag_faithfulness", [FAITHFUL])
    assert repr(made).startswith("<groundtrace evaluator rag_faithfulness, judge offline@")
    assert langsmith.evaluation.evaluator.RunEvaluator in type(made).__mro__


def test_an_experiment_counts_its_progress_by_our_key(house: House) -> None:
    """A callable that names no keys has none there."""
    house.experiment(retrieving, [of("rag_faithfulness"), of()])
    told = [json.dumps(entry.get("json")) for entry in house.store.log if entry["path"].endswith("/sessions")]
    named = [body for body in told if "evaluator_keys" in body]
    assert all(f'"{FAITHFUL}", "{SUPPORT}"' in body for body in named)


@pytest.mark.parametrize(
    "options",
    [
        {"num_repetitions": 2},
        {"max_concurrency": 4},
        {"disable_evaluator_tracing": True},
        {"upload_runs": False},
        {"blocking": False},
    ],
    ids=str,
)
def test_the_options_of_evaluate_are_no_matter(house: House, options: dict[str, Any]) -> None:
    """Each example has its scores, however it is run."""
    if not options.keys() <= inspect.signature(evaluate).parameters.keys():
        pytest.skip("the SDK has no such option")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="'upload_.*' parameter is in beta")
        done = evaluate(retrieving, data=house.dataset(3), evaluators=[of()], client=house.client, **options)
    found = rows(done)
    assert len(found) == 3 * options.get("num_repetitions", 1)
    assert {row[SUPPORT].score for row in found} == {5}


def test_a_user_may_call_it_in_an_evaluator_of_their_own(house: House) -> None:
    """It is a function of a run and an example too; what it gives, the SDK takes from another's hands."""
    ours = of()

    def mine(run: Any, example: Any) -> Any:
        return ours(run, example)

    [row] = rows(house.experiment(retrieving, [mine]))
    assert row[SUPPORT].score == 5


def test_the_headline_alone_may_be_wanted(house: House) -> None:
    """A judge that does not assess all of a rubric says so instead of a number."""
    both = [of("source_support", scores="headline"), of("rag_faithfulness", scores="headline")]
    [row] = rows(house.experiment(retrieving, both))
    assert set(row) == {SUPPORT, FAITHFUL}
    assert (row[FAITHFUL].score, row[FAITHFUL].value, row[FAITHFUL].extra) == (None, "not_assessed", None)


def test_a_rubric_for_other_records_says_how_to_have_it_read_as_one(house: House) -> None:
    """A summary is no answer, unless the user says so."""
    [row] = rows(house.experiment(handing(PASSAGES, "document"), [of("summary_groundedness")]))
    result = row["groundtrace.summary_groundedness"]
    assert result.extra == {"error": True}
    assert result.comment is not None
    assert 'kind="summary"' in result.comment


def test_a_judge_and_a_rubric_may_be_given_themselves(house: House) -> None:
    """As well as their names."""
    made = of(groundtrace.rubric("source_support"), judge=groundtrace.judge("offline"))  # type: ignore[arg-type]
    [row] = rows(house.experiment(retrieving, [made]))
    assert row[SUPPORT].score == 5


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("rag_faithfulnes", {}, "did you mean 'rag_faithfulness'"),
        ("source_support", {"judge": "ofline"}, "did you mean 'offline'"),
        ("source_support", {"judge": 7}, "judge: 7 is no judge"),
        (["source_support"], {}, "is no rubric"),
        ("source_support", {"scores": "some"}, "Valid: all, headline"),
        ("source_support", {"kind": "answr"}, "answr"),
        ("source_support", {"conventions": "langsmit"}, "did you mean 'langsmith'"),
        ("source_support", {"passages": "nowhere:found"}, "nowhere:found"),
    ],
)
def test_what_can_not_be_had_is_said_before_anything_runs(name: Any, options: dict[str, Any], said: str) -> None:
    """With what would be valid."""
    with pytest.raises(PlanError, match=said):
        of(name, **options)


def test_a_comment_is_bounded(house: House) -> None:
    """The platform names no limit, and need not be sent a book."""
    answer = " ".join(
        f"Bus {n} leaves at nine and is painted green, as all of the buses of this town are." for n in range(300)
    )
    done = rows(house.experiment(handing(PASSAGES, answer=answer), [of("rag_faithfulness"), of()]))
    assert all(len((result.comment or "").encode()) <= COMMENT for row in done for result in row.values())
