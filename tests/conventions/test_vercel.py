"""One span of the Vercel AI SDK at a time, and a call of several steps as the record it makes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groundtrace.conventions.vercel import Vercel
from groundtrace.model import Reading, Span
from groundtrace.testing import ConventionContract
from spans import MARS, MOON, PROMPT, found, one

OPERATIONS = [
    *("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"),
    *("ai.generateText.doGenerate", "ai.streamText.doStream", "ai.generateObject.doGenerate"),
    *("ai.embed", "ai.embed.doEmbed", "ai.embedMany", "ai.toolCall", "ai.rerank", "ai.rerank.doRerank", "ai.other"),
]
NAMES = st.sampled_from(
    [
        *("ai.operationId", "ai.prompt", "ai.prompt.messages", "ai.response.text", "ai.response.object"),
        *("ai.response.toolCalls", "ai.response.finishReason", "ai.response.id", "ai.model.id", "ai.response.model"),
        *("ai.toolCall.name", "ai.toolCall.id", "ai.toolCall.args", "ai.toolCall.result", "ai.documents", "ai.ranking"),
        *("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.tags", "ai.settings.context.userId"),
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(
        ['{"index": -1}', '{"index": 7}', '"cut', '[{"role": "user", "content": [{"type": "tool-result"', "[" * 2000]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
ASKED = [{"role": "user", "content": [{"type": "text", "text": "How far is the Moon?"}]}]


def reading(operation: str, **attributes: Any) -> Reading:
    """The reading of a span of this operation; double underscores in names stand for dots, `ai.` for their start."""
    named = {f"ai.{name.replace('__', '.')}": value for name, value in attributes.items()}
    read = Vercel().reading(Span("s", "t", name=operation, attributes={"ai.operationId": operation, **named}))
    assert read is not None
    return read


def step(ident: str, parent: str, start: int, operation: str = "ai.generateText.doGenerate", **held: Any) -> Span:
    """A span of a call."""
    named = {f"ai.{name.replace('__', '.')}": value for name, value in held.items()}
    attributes = {"ai.operationId": operation, **named}
    return Span(ident, "t", name=operation, parent_id=parent or None, start=start, attributes=attributes)


class TestVercel(ConventionContract):
    """The contract every convention is held to."""

    def make(self) -> Vercel:
        """The convention."""
        return Vercel()

    def own(self) -> Sequence[Span]:
        """Spans that speak it."""
        held = {
            "ai.telemetry.metadata.sessionId": "s",
            "ai.prompt": '{"prompt": "How far?"}',
            "ai.response.text": "Far.",
        }
        return [Span("s", "t", name=o, attributes={"ai.operationId": o, **held}) for o in OPERATIONS]


def test_a_call_is_a_request_with_what_the_user_said_last_and_the_text_it_gave() -> None:
    """From a prompt of one text or a list of messages; the system's part is no question."""
    for prompt in (
        {"system": "Be brief.", "prompt": "How far?"},
        {
            "system": "Be brief.",
            "messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "How far?"}],
        },
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "How far?"}]}]},
    ):
        read = reading("ai.generateText", prompt=json.dumps(prompt), response__text="Far.", model__id="gpt-4o")

        assert read.role == "request"
        assert read.query is not None
        assert (read.query.value, read.query.attribute) == ("How far?", "ai.prompt")
        assert read.output is not None
        assert read.output.value == "Far."
        assert read.model == "gpt-4o"


def test_a_step_is_a_generation_with_its_talk_and_its_tools() -> None:
    """Version 5 and later write a tool's `input` and a typed `output`, version 4 `args` and a plain `result`."""
    newer = {"type": "tool-result", "toolCallId": "c", "toolName": "kb", "output": {"type": "text", "value": MOON}}
    older = {"type": "tool-result", "toolCallId": "c", "toolName": "kb", "result": MOON}
    for part in (newer, older):
        talk = [*ASKED, {"role": "tool", "content": [part]}]
        read = reading("ai.streamText.doStream", prompt__messages=json.dumps(talk), response__text="Far.")
        tool = read.messages[-1].tools[0]

        assert read.role == "generation"
        assert tool.result is not None
        assert (tool.name, tool.id, tool.result.value) == ("kb", "c", MOON)

    for key in ("input", "args"):
        asked = json.dumps([{"toolCallId": "c", "toolName": "kb", key: '{"query": "moon"}'}])
        read = reading("ai.generateText.doGenerate", prompt__messages=json.dumps(ASKED), response__toolCalls=asked)
        assert [(t.name, t.id, t.arguments and t.arguments.value) for t in read.calls] == [
            ("kb", "c", '{"query": "moon"}')
        ]


def test_tools_the_provider_ran_itself_are_no_calls_for_tools() -> None:
    """The step ended with its answer."""
    asked = json.dumps([{"toolCallId": "w", "toolName": "web_search", "input": "{}"}])
    read = reading(
        "ai.generateText.doGenerate",
        prompt__messages=json.dumps(ASKED),
        response__toolCalls=asked,
        response__text="Far.",
        response__finishReason="stop",
    )

    assert read.calls == ()
    assert read.output is not None


def test_the_answer_of_an_object_is_the_answer_in_it_else_the_object() -> None:
    """JSON that breaks off is cut."""
    for raw, told, state in (
        ('{"answer": "Far.", "sure": true}', "Far.", "present"),
        ('{"km": 384400, "sure": true}', '{"km": 384400, "sure": true}', "present"),
        ('{"answer": "It is very f', '{"answer": "It is very f', "truncated"),
    ):
        read = reading("ai.generateObject", prompt='{"prompt": "How far?"}', response__object=raw)
        assert read.output is not None
        assert (read.output.value, read.output.state) == (told, state)


def test_a_tool_answers_in_json_be_it_a_text_or_a_list() -> None:
    """A text in quotes comes out of them; what breaks off is cut; documents are told apart."""
    read = reading(
        "ai.toolCall", toolCall__name="kb", toolCall__args='{"query": "moon"}', toolCall__result=json.dumps(MOON)
    )
    assert read.tool is not None
    assert read.tool.result is not None
    assert (read.tool.name, read.tool.result.value) == ("kb", MOON)
    assert read.query is not None
    assert read.query.value == "moon"

    read = reading("ai.toolCall", toolCall__result=json.dumps({"documents": [{"id": "m", "text": MOON, "score": 0.5}]}))
    assert read.tool is not None
    assert [(d.id, d.score) for d in read.tool.documents] == [("m", 0.5)]

    read = reading("ai.toolCall", toolCall__result=json.dumps({"content": [{"type": "text", "text": MOON}]}))
    assert read.tool is not None
    assert read.tool.result is not None
    assert read.tool.result.value == MOON

    read = reading("ai.toolCall", toolCall__result=json.dumps(MOON)[:-9])
    assert read.tool is not None
    assert read.tool.result is not None
    assert read.tool.result.state == "truncated"


def test_a_reranker_keeps_the_documents_it_ranks_in_its_order() -> None:
    """Candidates are JSON, texts or objects; a place that is no candidate's tells nothing."""
    candidates = [json.dumps(MARS), json.dumps({"id": "m", "text": MOON})]
    ranking = ['{"index": 1, "relevanceScore": 0.9}', '{"index": 0, "relevanceScore": 0.1}']
    read = reading("ai.rerank.doRerank", documents=candidates, ranking=ranking)

    assert read.role == "rerank"
    assert read.documents is not None
    assert [(d.text and d.text.value, d.score) for d in read.documents] == [(MOON, 0.9), (MARS, 0.1)]
    for wrong in ('{"index": 2}', '{"index": -1}', '{"index": "1"}', "1"):
        assert reading("ai.rerank.doRerank", documents=candidates, ranking=[wrong]).documents is None


def test_what_was_not_recorded_names_the_setting() -> None:
    """Inputs, outputs, or both; a call for tools, or one that failed, has nothing to record."""
    asked = json.dumps(ASKED)
    for held, state, named in (
        ({"response__text": "Far."}, "off", "recordInputs"),
        ({"prompt__messages": asked, "response__finishReason": "stop"}, "off", "recordOutputs"),
        ({"response__finishReason": "stop"}, "off", "recordInputs and recordOutputs"),
        ({"prompt__messages": asked, "response__finishReason": "tool-calls"}, "present", ""),
        ({"prompt__messages": asked, "response__finishReason": "stop", "response__text": "Far."}, "present", ""),
    ):
        read = reading("ai.generateText.doGenerate", **held)
        assert read.content == state
        assert named in read.remedy


def test_the_session_the_user_and_the_tags_are_the_apps_own() -> None:
    """In the metadata of the call, from version 7 on in its runtime context, whatever the app calls them."""
    for start in ("telemetry.metadata", "settings.context"):
        for key in ("sessionId", "session_id", "threadId", "chatId"):
            held = {f"{start}.{key}": "s", f"{start}.userId": "u", f"{start}.tags": ["a", 1]}
            read = reading("ai.embed", **held)
            assert (read.role, read.session, read.user, read.tags) == ("embedding", "s", "u", ("a", "1"))

    told = Span("s", "t", attributes={"gen_ai.operation.name": "chat", "ai.settings.context.sessionId": "s"})
    beside = Vercel().reading(told)
    assert beside is not None
    assert (beside.role, beside.session) == ("other", "s")


def test_spans_of_others_are_left_alone() -> None:
    """TruLens, too, writes attributes that begin with `ai.`; an outer rerank tells no order."""
    assert Vercel().reading(Span("s", "t", attributes={"ai.observability.span_type": "retrieval"})) is None
    assert Vercel().reading(Span("s", "t", attributes={"ai.operationId": "ai.rerank", "ai.documents": ['"a"']})) is None


def test_a_prompt_that_breaks_off_is_cut() -> None:
    """The call's and the step's."""
    read = reading("ai.generateText", prompt='{"prompt": "How far is the')
    assert read.query is not None
    assert read.query.state == "truncated"

    read = reading("ai.generateText.doGenerate", prompt__messages='[{"role": "user", "content": "How far is the')
    assert read.messages[0].text is not None
    assert read.messages[0].text.state == "truncated"


def test_a_call_and_its_steps_are_one_record_with_the_question_out_of_the_prompt() -> None:
    """The prompt holds the passages; the app's own span around it says nothing."""
    asked = json.dumps([{"role": "user", "content": [{"type": "text", "text": PROMPT}]}])
    record = one(
        Span("app", "t", name="POST /api/chat", start=1),
        step("call", "app", 2, "ai.generateText", prompt=json.dumps({"prompt": PROMPT}), response__text="Far [2]."),
        step("step", "call", 3, prompt__messages=asked, response__text="Far [2].", response__finishReason="stop"),
    )

    assert record.query == "How far is the Moon?"
    assert [p.text for p in record.context] == [MARS, MOON]
    assert record.answer == "Far [2]."
    assert [c.passage_id for c in record.citations] == [record.context[1].id]
    assert record.gaps == ()


def test_what_the_user_asked_is_the_query_not_what_the_model_searched_for() -> None:
    """The tool's result is the context, the last step's text the answer."""
    listed = f"[1] {MARS}\n\n[2] {MOON}"
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "kb", "output": {"type": "text", "value": listed}}
    talk = [*ASKED, {"role": "tool", "content": [result]}]
    calls = json.dumps([{"toolCallId": "c", "toolName": "kb", "input": '{"query": "moon"}'}])
    record = one(
        step("call", "", 1, "ai.streamText", prompt=json.dumps({"messages": ASKED}), response__text="Far [2]."),
        step("one", "call", 2, prompt__messages=json.dumps(ASKED), response__toolCalls=calls),
        step(
            *("tool", "call", 3, "ai.toolCall"),
            toolCall__name="kb",
            toolCall__args='{"query": "moon"}',
            toolCall__result=json.dumps(listed),
        ),
        step("two", "call", 4, prompt__messages=json.dumps(talk), response__text="Far [2]."),
    )

    assert record.query == "How far is the Moon?"
    assert [p.text for p in record.context] == [MARS, MOON]
    assert record.answer == "Far [2]."


def test_two_calls_below_one_span_are_two_records() -> None:
    """A title that is made after the answer is none of its words."""
    asked = json.dumps([{"role": "user", "content": PROMPT}])
    records = found(
        Span("app", "t", name="POST /api/chat", start=1),
        step("call", "app", 2, "ai.streamText", prompt=json.dumps({"prompt": PROMPT}), response__text="Far [2]."),
        step("step", "call", 3, prompt__messages=asked, response__text="Far [2]."),
        step("other", "app", 4, "ai.generateText", prompt='{"prompt": "A title!"}', response__text="The Moon"),
        step(
            "title", "other", 5, prompt__messages='[{"role": "user", "content": "A title!"}]', response__text="The Moon"
        ),
    )

    assert [(r.answer, len(r.context)) for r in records] == [("Far [2].", 2), ("The Moon", 0)]


@given(st.sampled_from(OPERATIONS), st.dictionaries(NAMES, VALUES, max_size=6))
def test_nothing_a_span_holds_makes_it_raise(operation: str, held: dict[str, Any]) -> None:
    """A reading, or none."""
    read = Vercel().reading(Span("s", "t", name=operation, attributes=held))
    assert read is None or isinstance(read, Reading)
