"""Braintrust: a row at a time, whole traces of every producer, and its attributes over OpenTelemetry."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import braintrust_rows
from groundtrace.conventions.braintrust import Braintrust
from groundtrace.model import Reading, Record, Span
from groundtrace.read import read
from groundtrace.testing import ConventionContract
from spans import CONVENTIONS

TRACES = Path(__file__).parent.parent / "fixtures" / "traces"
ROWS: Mapping[str, list[dict[str, Any]]] = json.loads((TRACES / "braintrust-rows.json").read_text("utf-8"))
EXPECTED: Mapping[str, dict[str, Any]] = json.loads((TRACES / "braintrust-rows.expected.json").read_text("utf-8"))

MOON = "The Moon is 384,400 km away from the Earth, on average."
MARS = "Mars is named for the Roman god of war, for its red colour."
ASKED = "How far is the Moon?"
ANSWER = "It is 384,400 km away."
ATTACHED = {"type": "braintrust_attachment", "key": "k", "filename": "moon.json", "content_type": "application/json"}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just(ATTACHED),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "message", "role", "metadata", "documents", "index"]), inner)
    ),
    max_leaves=8,
)


def row(ident: str, name: str = "", kind: str | None = None, parent: str | None = "a", **held: Any) -> dict[str, Any]:
    """A row of the API; what is not told is null."""
    known = dict.fromkeys(("input", "output", "error", "scores", "metadata", "tags", "context"))
    attributes = {"name": name, "type": kind, **held.pop("attributes", {})}
    at = ord(ident[0])
    fixed = {"id": ident, "span_id": ident, "root_span_id": "a", "span_parents": None if parent is None else [parent]}
    times = {"metrics": {"start": float(at), "end": float(at) + 0.5}}
    return {**known, **fixed, **times, "is_root": parent is None, "span_attributes": attributes, **held}


def reading(**told: Any) -> Reading:
    """The reading of one row, inside a trace unless told otherwise."""
    found = Braintrust().reading(braintrust_rows.span(row("b", **told)))
    assert found is not None
    return found


def spoken(**attributes: Any) -> Reading | None:
    """The reading of a span with these attributes; two underscores in a name stand for a dot."""
    named = {f"braintrust.{name}".replace("__", "."): value for name, value in attributes.items()}
    return Braintrust().reading(Span("s", "t", "step", "p", attributes=named))


def one(rows: Sequence[Mapping[str, Any]]) -> Record:
    """The record of a trace that gives exactly one."""
    records = read(braintrust_rows.trace(rows), CONVENTIONS)
    assert len(records) == 1
    return records[0]


def rag(output: Any, name: str = "retrieve", kind: str | None = "tool", **more: Any) -> list[dict[str, Any]]:
    """A request whose passages only its retrieval tells."""
    call = [{"role": "user", "content": ASKED}]
    reply = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}]
    return [
        row("a", "ask", "task", None, input={"question": ASKED}, output=ANSWER),
        row("b", name, kind, input={"query": ASKED}, output=output, **more),
        row("c", "Chat Completion", "llm", input=call, output=reply, metadata={"model": "gpt-4o"}),
    ]


class TestBraintrust(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> Braintrust:
        """The convention."""
        return Braintrust()

    def own(self) -> Sequence[Span]:
        """Spans that speak it: every row, and its attributes."""
        attributes = {
            "braintrust.input_json": '{"question": "How far?"}',
            "braintrust.output": "Far.",
            "braintrust.metadata": '{"session_id": "s"}',
            "braintrust.span_attributes": '{"type": "task"}',
            "braintrust.tags": ["a"],
        }
        rows = [braintrust_rows.span(held) for rows in ROWS.values() for held in rows]
        return [Span("s", "t", attributes=attributes), *rows]


# --- every producer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("producer", EXPECTED)
def test_each_producer_s_rows_give_the_record_that_was_asked_and_answered(producer: str) -> None:
    """Written down from what was run, field by field."""
    rows, wanted = ROWS[producer], EXPECTED[producer]
    record = one(rows)
    names = {held["span_id"]: held["span_attributes"]["name"] for held in rows}
    names |= {
        held["span_id"]: held["span_attributes"]["name"] for held in rows if held["span_attributes"]["type"] != "log"
    }

    assert record.query == wanted["query"]
    assert [{"id": p.id, "text": p.text} for p in record.context] == wanted["context"]
    assert record.answer == wanted["answer"]
    assert [[c.start, c.passage_id] for c in record.citations] == wanted["citations"]
    assert [[g.field, g.reason] for g in record.gaps] == wanted["gaps"]
    assert {name: names[ref.span_id or ""] for name, ref in record.targets.items()} == {
        name: held
        for name, held in zip(
            ("root", "answer", "retrieval"), (wanted["root"], wanted["generation"], wanted["retrieval"]), strict=True
        )
        if held
    }
    assert record.slices.get("generator_model") == wanted["model"]
    assert record.slices.get("prompt_version") == wanted["prompt_version"]
    assert list(record.tags) == wanted["tags"]
    assert (record.ref.keys.get("session_id"), record.ref.keys.get("user_id")) == (wanted["session"], wanted["user"])


def test_every_producer_has_its_record() -> None:
    """None of them is left unchecked."""
    assert ROWS.keys() == EXPECTED.keys()


@pytest.mark.parametrize("kind", ["tool", "function", "task", None])
@pytest.mark.parametrize(
    "spelled",
    [
        [MOON, MARS],
        [{"page_content": MOON}, {"page_content": MARS}],
        [{"type": "Document", "page_content": text, "metadata": {}} for text in (MOON, MARS)],
        {"contexts": [MOON, MARS]},
        [
            {"lc": 1, "type": "constructor", "id": ["langchain", "Document"], "kwargs": {"page_content": text}}
            for text in (MOON, MARS)
        ],
        json.dumps([{"text": MOON}, {"text": MARS}]),
        [[{"page_content": MOON}, 0.5], [{"page_content": MARS}, 0.4]],
    ],
)
def test_one_retrieval_is_one_record_however_it_is_spelled(spelled: Any, kind: str | None) -> None:
    """Whatever type the user gave the step."""
    record = one(rag(spelled, kind=kind))

    assert [p.text for p in record.context] == [MOON, MARS]
    assert (record.query, record.answer, record.gaps) == (ASKED, ANSWER, ())


@pytest.mark.parametrize("kind", ["tool", "function"])
@pytest.mark.parametrize("odd", [42, {"foo": {"bar": 1}}, [[1, 2]], [{"x": 1}], ["a.pdf"], [None], None, "", True, {}])
def test_a_retrieval_of_a_shape_that_is_not_known_is_a_gap(odd: Any, kind: str) -> None:
    """Never a context that is empty and judged."""
    record = one(rag(odd, kind=kind))

    assert record.context == ()
    assert [g.field for g in record.gaps] == ["context"]
    assert "list of documents" in record.gaps[0].remedy


def test_a_retrieval_that_found_nothing_has_an_empty_context_and_no_gap() -> None:
    """That is a finding."""
    record = one(rag([]))

    assert (record.context, record.gaps) == ((), ())


# --- retrievals by evidence -------------------------------------------------------------------------------------------


def test_a_step_is_a_retrieval_by_what_it_gave_back() -> None:
    """Its type says nothing of it."""
    found = reading(name="kb", kind="function", input={"q": ASKED, "k": 2}, output=[{"id": "a", "text": MOON}])

    assert found.role == "retrieval"
    assert found.documents is not None
    assert found.documents[0].id == "a"
    assert found.query is not None
    assert (found.query.value, found.query.attribute) == (ASKED, "braintrust.row.input")


def test_the_glue_of_a_chain_did_not_look_anything_up() -> None:
    """It hands on what its retriever found."""
    parts = {"context": [{"page_content": MOON}], "question": ASKED}
    found = reading(name="RunnableParallel<context,question>", kind="task", input=ASKED, output=parts)
    sequence = reading(name="RunnableSequence", kind="task", input=ASKED, output=[{"page_content": MOON}])

    assert found.role == sequence.role == "request"
    assert sequence.output is None


def test_a_filled_template_names_its_parts() -> None:
    """The passages handed over as a list are documents of it."""
    given = {"context": [{"page_content": MOON}], "question": ASKED}
    found = reading(name="ChatPromptTemplate", kind="task", input=given, output={"messages": []})

    assert found.variables["question"].value == ASKED
    assert found.documents is not None
    assert found.documents[0].text is not None


def test_an_answer_with_its_sources_is_a_request() -> None:
    """Sources that are documents are passages of it, ids are not."""
    nodes = [{"node_id": "n1", "text": MOON, "score": 0.5}]
    found = reading(name="Engine", kind="task", input=ASKED, output={"response": ANSWER, "source_nodes": nodes})

    assert found.role == "request"
    assert found.output is not None
    assert found.output.value == ANSWER
    assert found.documents is not None
    assert found.documents[0].id == "n1"
    assert reading(name="ask", input=ASKED, output={"answer": ANSWER, "sources": ["n1"]}).documents is None


def test_a_tool_that_answers_in_words_is_a_tool() -> None:
    """Also one that is named as a retriever."""
    for name in ("look_at_sky", "search_docs"):
        found = reading(name=name, kind="tool", input={"query": ASKED}, output=f"[1] {MOON}")
        assert found.role == "tool"
        assert found.tool is not None
        assert found.tool.result is not None


def test_a_tool_s_message_is_unwrapped_with_the_documents_beside_it() -> None:
    """As LangChain's handler writes it."""
    message = {"type": "tool", "content": f"[1] {MOON}", "tool_call_id": "c", "artifact": [{"page_content": MOON}]}
    found = reading(name="look", kind="tool", input={"query": ASKED}, output=message)

    assert found.tool is not None
    assert found.tool.result is not None
    assert (found.tool.result.value, found.tool.id, len(found.tool.documents)) == (f"[1] {MOON}", "c", 1)


def test_a_tool_that_gave_nothing_says_nothing() -> None:
    """Nothing to judge by."""
    found = reading(name="look", kind="tool", input={"query": ASKED}, output=[])

    assert found.tool is not None
    assert found.tool.result is None


def test_a_reranker_s_places_are_documents_in_their_order() -> None:
    """It gives back places in the list it was handed."""
    given = {"query": ASKED, "documents": [MARS, MOON]}
    places = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]
    for output in (places, {"results": places}):
        found = reading(name="rerank", kind="function", input=given, output=output)
        assert found.role == "rerank"
        assert found.documents is not None
        assert [d.text.value for d in found.documents if d.text] == [MOON, MARS]


def test_a_reranker_by_name_keeps_its_documents() -> None:
    """In its order."""
    found = reading(name="rerank_docs", kind="function", input={"query": ASKED}, output=[{"id": "a", "text": MOON}])

    assert found.role == "rerank"
    assert found.documents is not None


@pytest.mark.parametrize(
    "metadata",
    [
        {"retrieval.documents.0.document.content": MOON, "retrieval.documents.0.document.id": "a"},
        {"retrieval": {"documents": {"0": {"document": {"content": MOON, "id": "a"}}}}},
        {
            "gen_ai.retrieval.documents": json.dumps([{"id": "a", "content": MOON}]),
            "gen_ai.retrieval.query.text": ASKED,
        },
        {"gen_ai": {"retrieval": {"documents": [{"id": "a", "content": MOON}]}}},
    ],
)
def test_retrieval_attributes_left_in_the_metadata_are_read(metadata: Mapping[str, Any]) -> None:
    """Flat or nested."""
    found = reading(name="step", input=ASKED, metadata=metadata)

    assert found.role == "retrieval"
    assert found.documents is not None
    assert (found.documents[0].id, found.documents[0].text and found.documents[0].text.value) == ("a", MOON)
    assert found.query is not None


@pytest.mark.parametrize(
    ("metadata", "role"),
    [
        ({"openinference.span.kind": "RETRIEVER"}, "retrieval"),
        ({"openinference.span.kind": "LLM"}, "generation"),
        ({"gen_ai.operation.name": "execute_tool"}, "tool"),
        ({"gen_ai": {"operation": {"name": "invoke_agent"}}}, "agent"),
        ({"traceloop.span.kind": "workflow"}, "request"),
        ({"openinference.span.kind": 3}, "request"),
    ],
)
def test_what_others_called_a_span_counts(metadata: Mapping[str, Any], role: str) -> None:
    """Where the ingestion left it."""
    assert reading(name="step", input=ASKED, output=None, metadata=metadata).role == role


# --- generations ------------------------------------------------------------------------------------------------------


def test_the_first_choice_is_the_answer_and_calls_are_no_answer() -> None:
    """Of several choices, and of a choice that asks for a tool."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"query": "Moon"}'}}
    choices = [{"index": i, "message": {"role": "assistant", "content": text}} for i, text in enumerate(["A.", "B."])]
    asked = [{"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}]
    talk = [{"role": "user", "content": ASKED}]

    found = reading(kind="llm", input=talk, output=choices)
    assert found.output is not None
    assert (found.output.value, found.output.attribute) == ("A.", "braintrust.row.output")
    called = reading(kind="llm", input=talk, output=asked)
    assert called.output is None
    assert [(t.name, t.id) for t in called.calls] == [("look", "c1")]
    assert called.content == "present"


def test_a_response_s_instructions_search_and_citations_are_read() -> None:
    """The Responses API: a list of output items; the instructions stand in the metadata."""
    results = [{"file_id": "f1", "filename": "moon.txt", "text": MOON, "score": 0.9}]
    noted = [{"type": "file_citation", "file_id": "f1", "index": 22}]
    items = [
        {"type": "file_search_call", "results": results},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": noted}],
        },
    ]
    found = reading(kind="llm", input=ASKED, output=items, metadata={"instructions": "Be brief.", "id": "resp_1"})

    assert [m.role for m in found.messages] == ["system", "user"]
    assert found.output is not None
    assert found.output.value == ANSWER
    assert found.documents is not None
    assert found.documents[0].id == "f1"
    assert found.citations[0].document_id == "f1"
    assert found.response_id == "resp_1"


def test_a_framework_s_model_span_is_a_generation_by_its_messages() -> None:
    """LlamaIndex types it a task."""
    talk = [{"role": "user", "content": ASKED}]
    found = reading(name="OpenAI", kind="task", input=talk, output={"role": "assistant", "content": ANSWER})

    assert found.role == "generation"
    assert reading(name="call", input=talk, output=ANSWER).role == "generation"
    assert reading(name="call", parent=None, input=talk, output=ANSWER).role == "request"


def test_an_embedding_is_no_answer() -> None:
    """The client's wrapper types it llm as well."""
    assert reading(kind="llm", input="Moon", output={"embedding_length": 3}).role == "embedding"


def test_a_managed_prompt_names_its_version_and_parts() -> None:
    """As `load_prompt().build()` leaves it in the metadata."""
    prompt = {"id": "p", "version": "5878", "variables": {"question": ASKED, "context": MOON}}
    found = reading(kind="llm", input=[{"role": "user", "content": MOON}], output=ANSWER, metadata={"prompt": prompt})

    assert found.slices == {"prompt_version": "5878"}
    assert found.variables["question"].value == ASKED


# --- what stands aside, and what is not there -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["score", "review", "automation", "facet", "preprocessor", "classifier"])
def test_scores_and_reviews_stand_aside(kind: str) -> None:
    """And all that runs inside them."""
    assert reading(kind=kind, input=ASKED, output=ANSWER).aside


def test_a_scorer_stands_aside_by_its_purpose() -> None:
    """Whatever its type."""
    assert reading(kind="task", attributes={"purpose": "scorer"}, input=ASKED, output=ANSWER).aside
    found = spoken(span_attributes='{"type": "score", "purpose": "scorer"}', scores='{"x": 1}', output_json="{}")
    assert found is not None
    assert found.aside
    assert reading(input=ASKED, output="No.", metadata={"openinference.span.kind": "EVALUATOR"}).aside


def test_a_line_of_a_log_is_no_step() -> None:
    """`Logger.info()` writes rows too."""
    found = reading(kind="log", input="Looking up.", output=ANSWER)

    assert (found.role, found.aside, found.output) == ("other", False, None)


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"context": [MOON, "The sun is farther away."]}, [MOON, "The sun is farther away."]),
        ({"context": MOON}, [MOON]),
        ({"retrieved_contexts": [{"text": MOON}]}, [MOON]),
        ({"context": {"env": "prod"}}, []),
        ({"documents": ["handbook.pdf"]}, []),
    ],
)
def test_a_case_of_an_experiment_names_passages_in_its_metadata(metadata: dict[str, Any], found: list[str]) -> None:
    """There a scorer of `Eval` finds them; of logs metadata is no place for passages."""
    case = [
        row("a", "eval", "eval", None, input=ASKED, output=ANSWER, metadata=metadata),
        row("b", "task", "task", input=ASKED, output=ANSWER),
    ]
    assert [passage.text for passage in one(case).context] == found
    logged = [row("a", "ask", "task", None, input=ASKED, output=ANSWER, metadata=metadata), case[1]]
    assert one(logged).context == ()


def test_what_a_retriever_found_is_not_doubled_by_the_metadata_of_its_case() -> None:
    """Whoever traces and names the same passages has them once."""
    found = rag([{"id": "a", "text": MOON}])
    found[0] = row("a", "eval", "eval", None, input=ASKED, output=ANSWER, metadata={"context": [MOON]})
    assert [passage.text for passage in one(found).context] == [MOON]


@pytest.mark.parametrize(
    "output", [ATTACHED, [{"id": "a", "text": ATTACHED}], {"documents": [{"id": "a", "text": ATTACHED}]}]
)
def test_passages_in_an_attachment_are_elsewhere(output: Any) -> None:
    """The gap says what to log in its place."""
    record = one(rag(output))

    assert record.context == ()
    assert [(g.field, g.reason) for g in record.gaps] == [("context", "elsewhere")]
    assert "JSONAttachment" in record.gaps[0].remedy


def test_one_passage_in_an_attachment_makes_the_context_incomplete() -> None:
    """The others are not judged as if they were all."""
    record = one(rag([{"id": "a", "text": MOON}, {"id": "b", "text": ATTACHED}]))

    assert [(g.field, g.reason) for g in record.gaps] == [("context", "elsewhere")]


def test_an_answer_in_an_attachment_is_elsewhere() -> None:
    """Be it the whole output or the text of its message."""
    whole = reading(kind="llm", input=[{"role": "user", "content": ASKED}], output=ATTACHED)
    assert whole.output is not None
    assert whole.output.state == "elsewhere"
    choice = [{"index": 0, "message": {"role": "assistant", "content": ATTACHED}}]
    inner = reading(kind="llm", input=[{"role": "user", "content": ASKED}], output=choice)
    assert (inner.output, inner.content) == (None, "elsewhere")
    tool = reading(kind="tool", name="look", input={"query": ASKED}, output=ATTACHED).tool
    assert tool is not None
    assert tool.result is not None
    assert tool.result.state == "elsewhere"


def test_an_image_in_an_attachment_leaves_the_text() -> None:
    """Parts of other kinds are not what is judged."""
    parts = [{"type": "text", "text": ASKED}, {"type": "image_url", "image_url": {"url": ATTACHED}}]
    found = reading(kind="llm", input=[{"role": "user", "content": parts}], output=ANSWER)

    assert found.messages[0].text is not None
    assert (found.messages[0].text.value, found.content) == (ASKED, "present")


def test_a_span_that_logged_nothing_names_the_switch() -> None:
    """`notrace_io`; a failed call logs no output either, and that is no switch."""
    assert "notrace_io" in reading(kind="llm").remedy
    assert reading(kind="llm").content == "off"
    assert reading(kind="llm", error="boom").content == "present"


def test_masked_texts_say_what_masks_them() -> None:
    """The masking function, and one that failed."""
    for mask in ("[REDACTED]", "ERROR: Failed to mask field 'output' - ValueError"):
        found = reading(kind="llm", input=[{"role": "user", "content": ASKED}], output=mask)
        assert found.output is not None
        assert found.output.state == "masked"
        assert "set_masking_function" in found.output.remedy


def test_json_that_breaks_off_is_cut() -> None:
    """In either form."""
    cut = '[{"id": "a", "text": "The Moon is 384,400 km aw'
    row_of = reading(name="retrieve", kind="tool", input={"query": ASKED}, output=cut)
    assert row_of.documents is not None
    assert row_of.documents[0].text is not None
    assert row_of.documents[0].text.state == "truncated"
    found = spoken(input_json='{"question": "How far is the Mo', output="Far.", span_attributes='{"type": "task"}')
    assert found is not None
    assert found.query is not None
    assert found.query.state == "truncated"


# --- facts ------------------------------------------------------------------------------------------------------------


def test_facts_are_found_in_the_metadata_and_in_what_a_framework_nests_there() -> None:
    """Session, user, prompt version, environment, model; tags without those that count a chain's steps."""
    origin = {"span_origin": {"name": "x", "environment": {"type": "server", "name": "production"}}}
    nested = {"prompt_version": "v7", "thread_id": "s1", "user_id": "u1", "ls_model_name": "gpt-4o"}
    found = reading(
        kind="task",
        input=ASKED,
        output=ANSWER,
        context=origin,
        metadata={"metadata": nested, "tags": ["seq:step:1", "prod"]},
    )

    assert (found.session, found.user, found.model) == ("s1", "u1", "gpt-4o")
    assert found.slices == {"prompt_version": "v7", "environment": "production"}
    assert found.tags == ("prod",)
    assert reading(kind="task", tags=["own"], metadata={"tags": ["other"]}).tags == ("own",)


def test_a_row_without_parents_or_times_is_read() -> None:
    """Rows of old SDKs: the root's span id is the trace's, and all ids are UUIDs."""
    rows = rag([{"id": "a", "text": MOON}])
    for held in rows:
        held.pop("metrics")
        held.pop("is_root")
    rows[0]["span_parents"] = []

    assert one(rows).answer == ANSWER


def test_a_row_that_a_stray_score_made_is_shown_and_never_judged() -> None:
    """A score sent for a row that is not there becomes a row of its own, with nothing else in it."""
    stray = {"id": "x", "span_id": "x", "root_span_id": "x", "span_parents": None, "scores": {"groundedness": 0.1}}

    assert one([stray]).kind == "other"


def test_a_log_row_that_shares_a_span_s_id_does_not_take_its_place() -> None:
    """It comes last."""
    rows = [row("a", "note", "log", None, input="Asked."), *rag([{"id": "a", "text": MOON}])]

    assert one(rows).query == ASKED


# --- over OpenTelemetry -----------------------------------------------------------------------------------------------


def test_attributes_are_read_as_a_row_is() -> None:
    """JSON ones before plain ones, with the place each was read at."""
    found = spoken(
        input_json='{"question": "How far?"}',
        input="Ignored",
        output="Far.",
        metadata='{"session_id": "s", "user_id": "u", "prompt_version": "v1"}',
        tags=["a"],
        span_attributes='{"type": "task"}',
    )

    assert found is not None
    assert found.query is not None
    assert (found.query.value, found.query.attribute) == ("How far?", "braintrust.input_json")
    assert found.output is not None
    assert (found.output.value, found.output.attribute) == ("Far.", "braintrust.output")
    assert (found.session, found.user, found.tags, found.slices) == ("s", "u", ("a",), {"prompt_version": "v1"})


def test_documents_over_opentelemetry_are_a_retrieval() -> None:
    """By their shape again."""
    found = spoken(input="How far?", output_json=json.dumps([{"id": "a", "content": MOON, "score": 0.5}]))

    assert found is not None
    assert found.role == "retrieval"


def test_what_the_processor_puts_on_every_span_says_nothing() -> None:
    """Other vocabularies speak for such a span."""
    assert spoken(context_json='{"span_origin": {}}', parent="project_name:rag") is None


def test_metadata_beside_another_vocabulary_adds_to_it() -> None:
    """The call's role and content stay the other's."""
    attributes = {"gen_ai.operation.name": "chat", "braintrust.metadata": '{"session_id": "s"}'}
    found = Braintrust().reading(Span("s", "t", attributes=attributes))

    assert found is not None
    assert (found.role, found.session) == ("other", "s")


@given(
    kind=st.sampled_from(["llm", "tool", "task", "function", "eval", "score", "log", None, "x"]),
    name=st.sampled_from(["retrieve", "step", "rerank", "RunnableSequence"]),
    sides=st.tuples(VALUES, VALUES),
    facts=st.tuples(VALUES, VALUES),
)
def test_no_row_breaks_it(kind: str | None, name: str, sides: tuple[Any, Any], facts: tuple[Any, Any]) -> None:
    """Whatever a row holds, in either form."""
    (given_in, told), (metadata, other) = sides, facts
    held = row("b", name, kind, input=given_in, output=told, metadata=metadata, tags=other, context=other)
    Braintrust().reading(Span("s", "t", name, "p", attributes={braintrust_rows.ROW: held}))
    Braintrust().reading(Span("s", "t", attributes={braintrust_rows.ROW: {**held, "span_attributes": other}}))
    named = {"input_json": given_in, "output_json": told, "metadata": metadata, "span_attributes": other, "tags": told}
    Braintrust().reading(Span("s", "t", name, attributes={f"braintrust.{n}": v for n, v in named.items()}))
