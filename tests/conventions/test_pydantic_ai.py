"""One span of pydantic-ai or the Logfire SDK at a time, and the records runs and calls make."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.pydantic_ai import PydanticAI
from groundtrace.model import Reading, Span
from groundtrace.testing import ConventionContract
from spans import MARS, MOON, PROMPT, found, one

SCRUBBED = "[Scrubbed due to 'session']"
QUESTION = "How far is the Moon?"
LISTED = f"[1] {MARS}\n\n[2] {MOON}"
SCOPES = ["pydantic-ai", "pydantic-evals", "logfire", "logfire.openai", "logfire.openai_agents", ""]
SPANS = [
    *("agent run", "running tool", "chat gpt-4o", "Responses API with {gen_ai.request.model!r}", "Function: {name}"),
    *(
        "Agent run: {name!r}",
        "OpenAI Agents trace: {name}",
        "Guardrail",
        "Embedding Creation",
        "evaluator: x",
        "search",
    ),
]
NAMES = st.sampled_from(
    [
        *("pydantic_ai.all_messages", "all_messages_events", "final_result", "tool_arguments", "tool_response"),
        *("gen_ai.tool.call.result", "gen_ai.input.messages", "gen_ai.output.messages", "events", "request_data"),
        *("response_data", "response", "input", "output", "name", "metadata", "model_name", "group_id"),
        *("logfire.span_type", "question", "query", "answer", "documents", "results"),
    ]
)
EVENT = st.fixed_dictionaries(
    {},
    optional={
        "event.name": st.sampled_from(["gen_ai.choice", "gen_ai.unknown", "gen_ai.user.message"]) | st.integers(),
        "role": st.sampled_from(["user", "assistant", "tool"]) | st.none() | st.integers(),
        "content": st.none() | st.integers() | st.text(max_size=6) | st.lists(st.text(max_size=3), max_size=2),
        "message": st.none() | st.dictionaries(st.sampled_from(["role", "content"]), st.text(max_size=4)),
        "data": st.none() | st.dictionaries(st.sampled_from(["type", "text", "results"]), st.just("input_text")),
    },
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["span", "null", SCRUBBED, '{"messages": [', "[" * 2000, '{"message": [1]}'])
    | st.lists(EVENT, max_size=4).map(json.dumps)
    | st.lists(EVENT, max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def told(scope: str, name: str = "span", /, *, ident: str = "s", parent: str | None = None, **held: Any) -> Span:
    """A span of this scope; double underscores in names stand for dots."""
    attributes = {key.replace("__", "."): v if isinstance(v, str) else json.dumps(v) for key, v in held.items()}
    return Span(ident, "t", name=name, parent_id=parent, scope=scope, attributes=attributes)


def reading(scope: str, name: str = "span", /, **held: Any) -> Reading:
    """The reading of such a span."""
    read = PydanticAI().reading(told(scope, name, **held))
    assert read is not None
    return read


def text_of(said: Any) -> str:
    """A text that is there."""
    assert said is not None
    assert said.state == "present"
    return str(said.value)


def user(text: str) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


class TestPydanticAI(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> PydanticAI:
        """The convention."""
        return PydanticAI()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        return [
            told("pydantic-ai", final_result="Far.", pydantic_ai__all_messages=[user(QUESTION)]),
            told("pydantic-ai", tool_arguments={"query": "moon"}, tool_response=LISTED),
            told("logfire.openai", request_data={"messages": [{"role": "user", "content": QUESTION}]}),
            told("logfire", logfire__span_type="span", question=QUESTION),
        ]


# --- pydantic-ai ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        {"pydantic_ai__all_messages": [user("Hi"), user(QUESTION)]},
        {
            "all_messages_events": [
                {"event.name": "gen_ai.system.message", "content": "Be brief.", "role": "system"},
                {"event.name": "gen_ai.user.message", "content": QUESTION, "role": "user", "gen_ai.message.index": 0},
                {"event.name": "gen_ai.assistant.message", "content": "Far.", "role": "assistant"},
            ]
        },
    ],
)
def test_a_run_holds_what_the_user_asked_and_its_result(messages: dict[str, Any]) -> None:
    """In formats 2 to 6, and as the events of format 1."""
    read = reading("pydantic-ai", "agent run", final_result="Far.", model_name="gpt-4o", **messages)

    assert (read.role, read.model) == ("agent", "gpt-4o")
    assert text_of(read.query) == QUESTION
    assert text_of(read.output) == "Far."


def test_a_structured_result_is_the_answer_in_it() -> None:
    """Else the object; nothing is none; one that breaks off is cut."""
    assert text_of(reading("pydantic-ai", final_result={"answer": "Far.", "sure": True}).output) == "Far."
    assert text_of(reading("pydantic-ai", final_result='{"km": 1, "sure": true}').output) == '{"km": 1, "sure": true}'
    assert reading("pydantic-ai", final_result="null").output is None
    cut = reading("pydantic-ai", final_result='{"answer": "It is very very f').output
    assert cut is not None
    assert cut.state == "truncated"


@pytest.mark.parametrize(
    "refusal",
    [
        "Validation feedback:\nCite.\n\nFix the errors and try again.",
        "Your previous response failed.\n<pyai:retry_feedback>\nCite.\n</pyai:retry_feedback>",
    ],
)
def test_what_is_said_of_a_refused_reply_is_no_question(refusal: str) -> None:
    """Neither the run's nor the call's; a call without any is left to the general convention."""
    run = reading("pydantic-ai", pydantic_ai__all_messages=[user(QUESTION), user(refusal)])
    call = reading("pydantic-ai", "chat", gen_ai__input__messages=[user(QUESTION), user(refusal)])

    assert text_of(run.query) == QUESTION
    assert [m.role for m in call.messages] == ["user", "system"]
    assert PydanticAI().reading(told("pydantic-ai", "chat", gen_ai__input__messages=[user(QUESTION)])) is None


def test_a_tool_is_named_by_formats_1_and_2_in_their_own_words() -> None:
    """What was asked, and what it answered."""
    read = reading("pydantic-ai", tool_arguments={"query": "moon"}, tool_response=LISTED, gen_ai__tool__name="kb")

    assert text_of(read.query) == "moon"
    assert read.tool is not None
    assert read.tool.name == "kb"
    assert text_of(read.tool.result) == LISTED


@pytest.mark.parametrize("name", ["tool_response", "gen_ai__tool__call__result"])
def test_a_scrubbed_result_is_a_masked_passage(name: str) -> None:
    """What the messages leak of it is no context: the gap says how to let it through."""
    read = reading("pydantic-ai", **{name: SCRUBBED})
    assert read.tool is not None
    assert [d.text and d.text.state for d in read.tool.documents] == ["masked"]

    talk = [user(QUESTION), {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "result": LISTED}]}]
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "Far [2]."}]}]
    record = one(
        told("pydantic-ai", "agent run", ident="a", final_result="Far [2].", pydantic_ai__all_messages=talk),
        told("pydantic-ai", "running tool", ident="b", parent="a", **{name: SCRUBBED}),
        told(
            *("pydantic-ai", "chat m"),
            ident="c",
            parent="a",
            gen_ai__operation__name="chat",
            gen_ai__input__messages=talk,
            gen_ai__output__messages=answer,
        ),
    )
    gap = record.gap("context")
    assert gap is not None
    assert (gap.reason, "ScrubbingOptions" in gap.remedy) == ("masked", True)
    assert record.answer == "Far [2]."


def test_a_scrubbed_answer_is_masked() -> None:
    """With the setting."""
    output = reading("pydantic-ai", final_result=SCRUBBED).output
    assert output is not None
    assert (output.state, "ScrubbingOptions" in output.remedy) == ("masked", True)


def test_content_that_is_not_included_names_the_setting() -> None:
    """Messages are kept without their content; all three gaps say so."""
    empty = [{"role": "user", "parts": [{"type": "text"}]}]
    record = one(
        told("pydantic-ai", "agent run", ident="a", pydantic_ai__all_messages=empty),
        told(
            *("pydantic-ai", "chat m"),
            ident="c",
            parent="a",
            gen_ai__operation__name="chat",
            gen_ai__input__messages=empty,
            gen_ai__output__messages=empty,
        ),
    )

    assert {(g.field, g.reason) for g in record.gaps} == {(f, "content_off") for f in ("query", "context", "answer")}
    assert {g.remedy for g in record.gaps} == {"use InstrumentationSettings(include_content=True)"}


# --- the Logfire SDK --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        {"message": {"role": "assistant", "content": "Far [2]."}, "usage": None},
        {"combined_chunk_content": "Far [2].", "chunk_count": 2},
        {"text": "Far [2].", "finish_reason": "stop"},
        {"message": {"content": "Far [2]."}},
    ],
)
def test_a_providers_request_and_reply_are_a_call(reply: dict[str, Any]) -> None:
    """Of OpenAI and of Anthropic, whose instructions stand apart; streamed or not."""
    talk = [{"role": "user", "content": PROMPT}]
    for request in (
        {"messages": [{"role": "system", "content": "Cite."}, *talk]},
        {"system": "Cite.", "messages": talk},
    ):
        read = reading("logfire.openai", request_data={"model": "m", **request}, response_data=reply)
        assert [m.role for m in read.messages] == ["system", "user"]
        assert text_of(read.output) == "Far [2]."

    record = one(told("logfire.openai", request_data={"messages": talk}, response_data=reply))
    assert (record.query, [p.text for p in record.context], record.answer) == (QUESTION, [MARS, MOON], "Far [2].")


def test_a_providers_call_for_a_tool_is_no_answer() -> None:
    """The tool's name and arguments are told."""
    asked = {"id": "c", "type": "function", "function": {"name": "kb", "arguments": '{"query": "moon"}'}}
    reply = {"message": {"role": "assistant", "content": None, "tool_calls": [asked]}}
    read = reading("logfire.openai", request_data={"messages": [{"role": "user", "content": "?"}]}, response_data=reply)

    assert read.output is None
    assert [(t.name, t.id) for t in read.calls] == [("kb", "c")]


def test_an_embedding_is_no_generation() -> None:
    """Although it, too, is a request with an input."""
    assert reading("logfire.openai", "Embedding Creation", request_data={"input": "moon"}).role == "embedding"


@pytest.mark.parametrize(
    "asked",
    [
        [{"event.name": "gen_ai.user.message", "role": "user", "content": PROMPT}],
        [{"event.name": "gen_ai.unknown", "role": "unknown", "data": {"type": "input_text", "text": PROMPT}}],
        [
            {"event.name": "gen_ai.user.message", "role": "user", "content": part}
            for part in PROMPT.split("\n\n", maxsplit=1)
        ],
    ],
)
@pytest.mark.parametrize(
    "answered",
    [
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "Far [2]."},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "Far [2]."}},
    ],
)
def test_events_are_a_talk_and_its_reply(asked: list[dict[str, Any]], answered: dict[str, Any]) -> None:
    """Parts of one message of the user's are events of their own, in older versions without a name."""
    record = one(told("logfire.openai", "Responses API", events=[*asked, answered]))
    assert (record.query, [p.text for p in record.context], record.answer) == (QUESTION, [MARS, MOON], "Far [2].")


def test_a_search_of_the_provider_gives_its_results_as_documents() -> None:
    """In an event that has no name."""
    searched = {"type": "file_search_call", "results": [{"file_id": "f", "text": MOON, "score": 0.5}]}
    events = [
        {"event.name": "gen_ai.user.message", "role": "user", "content": QUESTION},
        {"event.name": "gen_ai.unknown", "role": "assistant", "content": "See JSON", "data": searched},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": "Far."},
    ]
    annotation = {"type": "file_citation", "index": 3, "file_id": "f"}
    said = {"type": "message", "content": [{"type": "output_text", "text": "Far.", "annotations": [annotation]}]}
    record = one(told("logfire.openai_agents", "Responses API", events=events, response={"output": [said]}))

    assert [(p.id, p.text, p.score) for p in record.context] == [("f", MOON, 0.5)]
    assert record.answer == "Far."
    assert [(c.passage_id, c.origin) for c in record.citations] == [("f", "structured")]


def test_a_streamed_call_says_that_its_reply_stands_elsewhere() -> None:
    """Beside its reply's span it is no more than that; alone its answer is a gap with what to do."""
    talk = [user(PROMPT)]
    call = told("logfire.openai", ident="a", gen_ai__operation__name="chat", gen_ai__input__messages=talk)
    reply = [{"role": "assistant", "parts": [{"type": "text", "content": "Far [2]."}]}]
    streamed = told(
        *("logfire.openai", "streaming response"),
        ident="b",
        gen_ai__operation__name="chat",
        gen_ai__input__messages=talk,
        gen_ai__output__messages=reply,
    )
    alone = one(call)
    gap = alone.gap("answer")
    assert gap is not None
    assert (gap.reason, "logfire.span" in gap.remedy) == ("elsewhere", True)
    assert [p.text for p in alone.context] == [MARS, MOON]

    top = Span("top", "t", name="rag")
    below = [
        Span(s.id, "t", name=s.name, parent_id="top", scope=s.scope, attributes=s.attributes) for s in (call, streamed)
    ]
    assert one(top, *below).answer == "Far [2]."


def test_the_openai_agents_sdk_is_read_by_the_names_of_its_spans() -> None:
    """The trace is the request and holds the group, an agent is one, a function a tool, a guardrail stands aside."""
    scope = "logfire.openai_agents"
    trace = reading(scope, "OpenAI Agents trace: {name}", group_id="g")
    tool = reading(scope, "Function: {name}", name="kb", input={"query": "moon"}, output=LISTED)

    assert (trace.role, trace.session) == ("request", "g")
    assert reading(scope, "Agent run: {name!r}").role == "agent"
    assert reading(scope, "Guardrail {name!r}").aside
    assert tool.tool is not None
    assert (tool.tool.name, text_of(tool.tool.result)) == ("kb", LISTED)
    assert PydanticAI().reading(told(scope, "Handoff: a → b")) is None

    nothing = reading(scope, "Function: {name}", input="null", output="null")
    assert nothing.tool is not None
    assert nothing.tool.result is None
    off = reading(scope, "Responses API with {gen_ai.request.model!r}")
    assert (off.role, off.content, "trace_include_sensitive_data" in off.remedy) == ("generation", "off", True)

    spoken = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Far."}]
    read = reading(scope, "Chat completion", request_data={"messages": spoken})
    assert ([m.role for m in read.messages], text_of(read.output)) == (["user"], "Far.")


# --- what an app notes ------------------------------------------------------------------------------------------------


def test_an_app_notes_its_question_and_what_it_found() -> None:
    """The question is the request's, the answer what the function returned; a list of documents is a retrieval."""
    asked = reading("logfire", "answering", logfire__span_type="span", question=QUESTION, **{"return": "Far."})
    sought = reading(
        "logfire", "retrieve", logfire__span_type="span", query="moon", documents=[{"id": "m", "text": MOON}]
    )

    assert (asked.role, text_of(asked.query), text_of(asked.output)) == ("request", QUESTION, "Far.")
    assert (sought.role, text_of(sought.query)) == ("retrieval", "moon")
    assert sought.documents is not None
    assert [(d.id, text_of(d.text)) for d in sought.documents] == [("m", MOON)]


def test_a_list_of_ids_is_no_list_of_texts() -> None:
    """Their texts are a gap, never the ids; an unknown shape is not nothing."""
    ids = reading("logfire", "retrieve", logfire__span_type="span", documents=["apollo-1", "apollo-2"]).documents
    assert ids is not None
    assert [(d.id, d.text) for d in ids] == [("apollo-1", None), ("apollo-2", None)]
    odd = reading("logfire", "retrieve", logfire__span_type="span", documents=[{"vector": [1]}])
    assert (odd.documents, "record" in odd.remedy) == (None, True)
    assert reading("logfire", "retrieve", logfire__span_type="span", documents=[]).documents == ()


def test_other_notes_are_no_retrieval_and_no_request() -> None:
    """A log, a list that was not retrieved, a span that a provider's call is written on."""
    for span in (
        told("logfire", "saved", logfire__span_type="log", question=QUESTION),
        told("logfire", "saved", logfire__span_type="span", documents=["a b"]),
        told("logfire", "chat", logfire__span_type="span", question=QUESTION, gen_ai__operation__name="chat"),
        told("logfire", "rows", logfire__span_type="span", query="select 1"),
    ):
        assert PydanticAI().reading(span) is None


def test_what_an_evaluator_asks_is_no_part_of_the_request() -> None:
    """It stands aside, and the judge's own call with it."""
    judged = [{"role": "assistant", "parts": [{"type": "text", "content": "5"}]}]
    records = found(
        told("logfire", "answering", ident="a", logfire__span_type="span", question=QUESTION, answer="Far."),
        told("pydantic-evals", "evaluator: {evaluator_name}", ident="b", parent="a"),
        told(
            *("pydantic-ai", "chat m"),
            ident="c",
            parent="b",
            gen_ai__operation__name="chat",
            gen_ai__input__messages=[user("Rate it.")],
            gen_ai__output__messages=judged,
        ),
    )

    assert [(r.query, r.answer) for r in records] == [(QUESTION, "Far.")]


@given(st.sampled_from(SCOPES), st.sampled_from(SPANS), st.dictionaries(NAMES, VALUES, max_size=6))
def test_nothing_a_span_holds_makes_it_raise(scope: str, name: str, held: dict[str, Any]) -> None:
    """A reading, or none."""
    read = PydanticAI().reading(Span("s", "t", name=name, scope=scope, attributes=held))
    assert read is None or isinstance(read, Reading)
