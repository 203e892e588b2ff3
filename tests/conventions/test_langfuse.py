"""Langfuse: an observation at a time, and whole captured traces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.adapters.otel import OtelSource
from groundtrace.conventions.langfuse import Langfuse
from groundtrace.model import Reading, Record, Ref, Span, Trace, Window
from groundtrace.read import read
from groundtrace.testing import ConventionContract
from spans import CONVENTIONS

TRACES = Path(__file__).parent.parent / "fixtures" / "traces"
CAPTURED = sorted(path.name.removesuffix(".gold.json") for path in TRACES.glob("langfuse-*.gold.json"))

MOON = "The Moon is 384,400 km away from the Earth, on average."
MARS = "Mars is named for the Roman god of war, for its red colour."
ASKED = "How far is the Moon?"
ANSWER = "It is 384,400 km away [1]."
PROMPT = f"Documents:\n[1] {MOON}\n\n[2] {MARS}\n\nQuestion: {ASKED}"
TALK = [{"role": "system", "content": "Cite."}, {"role": "user", "content": PROMPT}]
TYPES = ["span", "generation", "retriever", "tool", "agent", "chain", "embedding", "evaluator", "guardrail", "event"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.just("__REDACTED__"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["args", "kwargs", "role", "content", "text", "type", "messages"]), inner)
    ),
    max_leaves=8,
)


def observation(ident: str, kind: str | None, parent: str | None = "root", **held: Any) -> Span:
    """An observation as the SDK exports it: all but texts as JSON. `I`, `O` are its input and output."""
    named = {f"langfuse.{name}".replace("__", "."): v for name, v in held.pop("also", {}).items()}
    sides = {"input": held.pop("I", None), "output": held.pop("O", None)}
    named |= {
        f"langfuse.observation.{side}": value if isinstance(value, str) else json.dumps(value)
        for side, value in sides.items()
        if value is not None
    }
    if kind is not None:
        named["langfuse.observation.type"] = kind
    at = held.pop("start", len(ident))
    return Span(ident, "t", held.pop("name", ident), parent, start=at, attributes=named, **held)


def reading(kind: str | None, **held: Any) -> Reading:
    """The reading of one observation inside a trace."""
    found = Langfuse().reading(observation("x", kind, **held))
    assert found is not None
    return found


def records(*spans: Span) -> tuple[Record, ...]:
    """The records of a trace of these."""
    return read(Trace(Ref("otel", trace_id="t"), spans), CONVENTIONS)


class TestLangfuse(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> Langfuse:
        """The convention."""
        return Langfuse()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        also = {"trace__tags": ["a"], "environment": "production", "trace__input": '{"question": "How far?"}'}
        return [
            observation("x", kind, I={"question": ASKED}, O=[{"text": MOON, "id": "a"}], also=also) for kind in TYPES
        ]


# --- captured traces --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CAPTURED)
def test_a_captured_trace_gives_the_record_of_what_was_run(name: str) -> None:
    """Query, passages in the prompt's order, answer, session, user, and the spans feedback goes to."""
    rows = {row["trace_id"]: row for row in json.loads((TRACES / f"{name}.gold.json").read_text("utf-8"))}
    seen = set()
    for trace in OtelSource(str(TRACES / f"{name}.jsonl")).traces(Window(), lambda _ref, _signals: True):
        (record,), row = read(trace, CONVENTIONS), rows[trace.ref.trace_id]
        seen.add(trace.ref.trace_id)
        assert (record.query, record.answer) == (row["query"], row["answer"])
        assert [(p.id, p.text) for p in record.context] == [(c["id"], c["content"]) for c in row["contexts"]]
        inline = [(c.start, c.passage_id) for c in record.citations if c.origin == "inline"]
        assert inline == [(c["start"], c["doc_id"]) for c in row["inline_citations"]]
        assert record.ref.keys == {"session_id": row["session_id"], "user_id": row["user_id"]}
        assert record.targets["root"].span_id == row["root_span_id"]
        assert record.targets["answer"].span_id == row["generation_span_id"]
        assert record.slices["environment"] == "production"
    assert seen == rows.keys()


# --- observations by type ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_in", "question"),
    [
        ({"args": [ASKED], "kwargs": {}}, ASKED),
        ({"args": [ASKED], "kwargs": {"model": "gpt-4o"}}, ASKED),
        ({"args": [], "kwargs": {"question": ASKED, "k": 3}}, ASKED),
        ({"args": [[{"id": "a", "text": MOON}]], "kwargs": {"question": ASKED}}, ASKED),
        ({"args": [[{"role": "user", "content": "Hi"}, {"role": "user", "content": ASKED}]], "kwargs": {}}, ASKED),
        ({"args": [{"messages": [["user", ASKED]]}], "kwargs": {}}, ASKED),
        ({"args": [], "kwargs": {"request": {"query": ASKED, "lang": "en"}}}, ASKED),
        ({"args": [3], "kwargs": {}}, None),
        ({"args": [], "kwargs": {}}, None),
        ({"args": "x", "kwargs": 3}, None),
        ({"question": ASKED}, ASKED),
        (ASKED, ASKED),
    ],
)
def test_the_question_is_found_among_a_function_s_arguments(given_in: Any, question: str | None) -> None:
    """Named so, else the first text."""
    found = reading("span", I=given_in, O="Far.")

    assert (found.query.value if found.query else None) == question


def test_a_trace_s_own_input_and_output_are_the_request_s() -> None:
    """As SDKs before version 5 set them."""
    also = {"trace__input": '{"question": "Why?"}', "trace__output": '{"answer": "So."}'}
    found = reading("span", I=ASKED, O="Far.", also=also)

    assert found.query is not None
    assert found.output is not None
    assert (found.query.value, found.query.attribute) == ("Why?", "langfuse.trace.input")
    assert found.output.value == "So."


def test_a_generation_holds_the_conversation_and_the_reply() -> None:
    """Messages, or messages beside tools; a text, a message, output items or choices."""
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    told = [ANSWER, {"role": "assistant", "content": ANSWER}, item, [item]]
    told.append([{"role": "assistant", "content": ANSWER}, {"role": "assistant", "content": "Another."}])
    for given_in in (TALK, {"tools": [], "messages": TALK}, {"input": PROMPT}, PROMPT):
        for output in told:
            found = reading("generation", I=given_in, O=output)
            assert found.messages[-1].text is not None
            assert found.messages[-1].text.value == PROMPT
            assert found.output is not None
            assert found.output.value == ANSWER


def test_a_call_of_a_tool_is_no_answer() -> None:
    """As the OpenAI wrapper and the LangChain handler write it."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    plain = {"name": "look", "args": {"query": "Moon"}, "id": "c", "type": "tool_call"}
    for content, asked in ((None, call), ("", plain)):
        found = reading("generation", I=TALK, O={"role": "assistant", "content": content, "tool_calls": [asked]})
        assert (found.output, [t.name for t in found.calls]) == (None, ["look"])


def test_tool_definitions_among_the_messages_are_no_results() -> None:
    """The LangChain handler puts them behind what the user said."""
    definition = {"role": "tool", "content": {"type": "function", "function": {"name": "look"}}}
    found = reading("generation", I=[*TALK, definition], O=ANSWER)

    assert [m.role for m in found.messages] == ["system", "user"]


def test_a_file_search_gives_documents_and_citations() -> None:
    """The Responses API's own search."""
    noted = [{"type": "file_citation", "file_id": "f1", "index": 22}]
    items = [
        {"type": "file_search_call", "results": [{"file_id": "f1", "text": MOON, "score": 0.9}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER, "annotations": noted}],
        },
    ]
    found = reading("generation", I={"input": ASKED, "tools": []}, O=items)

    assert found.documents is not None
    assert (found.documents[0].id, found.citations[0].document_id) == ("f1", "f1")


def test_a_retriever_s_documents_a_text_and_an_odd_shape() -> None:
    """What is not known is a gap, an empty list is a finding."""
    listed = reading("retriever", I=ASKED, O=[{"id": "a", "text": MOON}])
    assert listed.documents is not None
    assert (listed.documents[0].id, listed.query and listed.query.value) == ("a", ASKED)
    assert reading("retriever", I=ASKED, O=[]).documents == ()
    worded = reading("retriever", I=ASKED, O=f"[1] {MOON}")
    assert worded.tool is not None
    assert worded.tool.result is not None
    odd = reading("retriever", I=ASKED, O={"foo": 1})
    assert (odd.documents, "list of documents" in odd.remedy) == (None, True)


def test_a_tool_is_read_with_the_documents_it_lists() -> None:
    """A message of LangChain's is unwrapped."""
    message = {"type": "tool", "content": f"[1] {MOON}", "artifact": [{"page_content": MOON}], "tool_call_id": "c"}
    found = reading("tool", I={"query": ASKED}, O=message)

    assert found.tool is not None
    assert found.tool.result is not None
    assert (found.tool.result.value, len(found.tool.documents)) == (f"[1] {MOON}", 1)


def test_a_span_is_a_retrieval_by_what_it_gave_back() -> None:
    """Or by its name, inside a trace."""
    assert reading("span", I=ASKED, O=[{"id": "a", "text": MOON}]).role == "retrieval"
    assert (
        reading("span", name="vector-search", I={"query": ASKED}, O={"documents": [MOON], "count": 1}).role
        == "retrieval"
    )
    assert reading("span", name="get_context", I=ASKED, O=f"{MOON}\n\n{MARS}").role == "tool"
    assert reading("span", name="rerank", I=ASKED, O=[{"id": "a", "text": MOON}]).role == "rerank"
    assert (
        reading("chain", name="RunnableParallel<context>", I=ASKED, O={"context": [{"page_content": MOON}]}).role
        == "request"
    )
    assert reading("span", name="ask", I=ASKED, O={"answer": ANSWER, "sources": ["a", "b"]}).documents is None


def test_an_evaluator_and_a_guardrail_stand_aside() -> None:
    """With all that runs inside them."""
    assert reading("evaluator", O=ANSWER).aside
    assert reading("guardrail", O=ANSWER).aside


def test_a_framework_s_call_around_a_client_s_is_one_request() -> None:
    """Nothing else was traced: both show the same prompt and say the same."""
    outer = observation("outer", "generation", None, I=TALK, O=ANSWER)
    inner = observation("inner!", "generation", "outer", I=TALK, O=ANSWER)

    (record,) = records(outer, inner)
    assert (record.query, len(record.context), record.gaps) == (ASKED, 2, ())
    assert record.targets["answer"].span_id == "inner!"


# --- facts, and what is not there -------------------------------------------------------------------------------------


def test_facts_come_from_the_span_and_also_stand_on_spans_of_others() -> None:
    """Session, user, tags, environment, prompt; a call of another vocabulary stays the other's."""
    also = {"observation__prompt__name": "rag", "observation__prompt__version": 7, "environment": "production"}
    also |= {"trace__tags": ["a", "b"], "session__id": "s", "user__id": "u", "observation__model__name": "gpt-4o"}
    found = reading("generation", I=TALK, O=ANSWER, also=also)
    assert (found.session, found.user, found.tags, found.model) == ("s", "u", ("a", "b"), "gpt-4o")
    assert found.slices == {"prompt": "rag", "prompt_version": "7", "environment": "production"}

    attributes = {"gen_ai.operation.name": "chat", "session.id": "s", "langfuse.trace.input": ASKED}
    other = Langfuse().reading(Span("x", "t", attributes=attributes))
    assert other is not None
    assert (other.role, other.query, other.session) == ("other", None, "s")
    assert Langfuse().reading(Span("x", "t", attributes={"langfuse.internal.is_app_root": True})) is None


def test_a_request_of_others_with_the_trace_s_input_is_a_request() -> None:
    """A web framework's span, say."""
    found = reading(None, also={"trace__input": ASKED, "trace__output": ANSWER})

    assert (found.role, found.query and found.query.value) == ("request", ASKED)


@pytest.mark.parametrize("kind", ["generation", "retriever", "span"])
def test_an_observation_without_content_names_the_switch(kind: str) -> None:
    """The decorator's own, or the environment's."""
    found = reading(kind)

    assert found.content == "off"
    assert "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED" in found.remedy


def test_content_that_was_not_captured_is_a_gap_of_each_field() -> None:
    """With the remedy of the span it should be on."""
    (record,) = records(
        observation("root", "span", None), observation("found", "retriever"), observation("called", "generation")
    )

    assert {g.field: g.reason for g in record.gaps} == dict.fromkeys(("query", "context", "answer"), "content_off")
    assert all("LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED" in g.remedy for g in record.gaps)


@pytest.mark.parametrize("mask", ["[REDACTED]", "<fully masked due to failed mask function>", "***"])
def test_masked_texts_name_the_mask_function(mask: str) -> None:
    """Also where it failed and the SDK masked everything."""
    for found in (reading("span", I=mask, O=mask), reading("generation", I=TALK, O=mask)):
        assert found.output is not None
        assert (found.output.state, "mask=" in found.output.remedy) == ("masked", True)
    documents = reading("retriever", I=ASKED, O=mask).documents
    assert documents is not None
    assert documents[0].text is not None
    assert documents[0].text.state == "masked"


def test_media_is_kept_elsewhere() -> None:
    """A reference stands in its place."""
    found = reading("generation", I=TALK, O="@@@langfuseMedia:type=text/plain|id=x|source=bytes@@@")

    assert found.output is not None
    assert found.output.state == "elsewhere"


@pytest.mark.parametrize("kind", ["span", "generation", "retriever", "tool"])
def test_json_that_breaks_off_is_cut(kind: str) -> None:
    """A value limit leaves half an object."""
    cut = '[{"role": "user", "content": "How far is the Mo'
    found = reading(kind, I=cut, O=cut)

    told = [found.query, found.output, *(m.text for m in found.messages), *(d.text for d in found.documents or ())]
    told.append(found.tool.result if found.tool else None)
    assert {s.state for s in told if s is not None} == {"truncated"}


@given(kind=st.sampled_from([*TYPES, None]), name=st.sampled_from(["retrieve", "x"]), sides=st.tuples(VALUES, VALUES))
def test_no_observation_breaks_it(kind: str | None, name: str, sides: tuple[Any, Any]) -> None:
    """Whatever its attributes hold, as JSON or as they are."""
    for given_in, told in (sides, [json.dumps(side) for side in sides]):
        held: Mapping[str, Any] = {
            "langfuse.observation.type": kind,
            "langfuse.observation.input": given_in,
            "langfuse.observation.output": told,
            "langfuse.trace.input": told,
            "langfuse.trace.tags": given_in,
            "langfuse.environment": told,
        }
        Langfuse().reading(Span("x", "t", name, "p", attributes=held))
