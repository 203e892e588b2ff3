"""The query and the answer: which place counts, and why there is none."""

from __future__ import annotations

from msgspec.structs import replace

from groundtrace.model import Span
from spans import MARS, MOON, PROMPT, call, listed, one, span, talk


def test_the_query_is_taken_from_the_first_place_that_holds_one() -> None:
    """A named part, the request, what was searched for, a tool's argument, the prompt's question, the user's words."""
    root = span("s0", "AGENT", Q="asked of the root")
    named = span("s1", "PROMPT", "s0", Q='{"question": "named in the prompt"}')
    search = span("s2", "RETRIEVER", "s0", Q="searched for", held=listed(MARS, MOON))
    tool = span("s3", "TOOL", "s0", Q='{"query": "asked of the tool"}', A="found")
    generation = call("s4", "s0")
    bare = replace(root, attributes={"openinference.span.kind": "AGENT"})

    assert one(root, named, search, tool, generation).query == "named in the prompt"
    assert one(root, search, tool, generation).query == "asked of the root"
    assert one(bare, search, tool, generation).query == "searched for"
    assert one(bare, tool, generation).query == "asked of the tool"
    assert one(bare, generation).query == "How far is the Moon?"
    assert one(bare, call("s4", "s0", prompt="How far?")).query == "How far?"


def test_a_prompt_that_is_the_requests_input_is_asked_what_it_asks() -> None:
    """It holds the passages, numbered or under a heading; another input is the question as it stands."""
    bare = f"Context:\n{MOON}\n\nQuestion: How far?"

    assert one(span("s0", "AGENT", Q=PROMPT), call("s1", "s0")).query == "How far is the Moon?"
    assert one(span("s0", "AGENT", Q=bare), call("s1", "s0", prompt=bare)).query == "How far?"
    typed = "Question: how far?"
    assert one(span("s0", "AGENT", Q=typed), call("s1", "s0", prompt=typed)).query == typed


def test_where_a_model_calls_its_tools_itself_the_user_asked_not_the_model() -> None:
    """What a tool was asked is the model's wording, and so is what a retriever below it was."""
    root = span("s0", "AGENT")
    tool = span("s1", "TOOL", "s0", Q='{"query": "moon distance"}', A=f"[1] {MOON}")
    search = span("s2", "RETRIEVER", "s1", Q="moon distance", held=listed(MOON))
    result = talk(("user", "How far is it?"), ("tool", f"[1] {MOON}"))
    generation = call("s3", "s0", prompt=None, also=result)

    assert one(root, tool, search, generation).query == "How far is it?"
    before = talk(("tool", f"[1] {MOON}"), ("user", "How far is it?"))
    assert one(root, tool, search, call("s3", "s0", prompt=None, also=before)).query == "moon distance"


def test_the_query_says_where_it_was_read() -> None:
    """The span and the attribute, for each thing in a record."""
    made = one(span("s0", "CHAIN", Q="How far?"), call("s1", "s0"))

    assert [(o.field, o.span_id, o.attribute) for o in made.origins] == [
        ("query", "s0", "input.value"),
        ("answer", "s1", "llm.output_messages.0.message.content"),
        ("context[0]", "s1", "llm.input_messages.0.message.content"),
        ("context[1]", "s1", "llm.input_messages.0.message.content"),
    ]


def test_what_a_user_masked_stays_masked_wherever_it_leaked() -> None:
    """The root's input decides: the same words in a retriever's query or a prompt do not count."""
    made = one(
        span("s0", "CHAIN", Q="__REDACTED__"),
        span("s1", "RETRIEVER", "s0", Q="How far is the Moon?", held=listed(MOON)),
        call("s2", "s0"),
    )

    assert made.query is None
    gap = made.gap("query")
    assert gap is not None
    assert gap.reason == "masked"
    assert "OPENINFERENCE_HIDE_INPUTS" in gap.remedy
    assert made.answer == "Far."


def test_a_masked_query_is_masked_although_a_template_names_it() -> None:
    """In the request, in an agent around the generation, or in what the generation was asked."""
    named = {"llm.prompt_template.variables": '{"question": "My number is 123, how far?"}'}
    root, agent = span("s0", "CHAIN", Q="__REDACTED__"), span("s1", "AGENT", "s0", Q="[MASKED]")
    plain = span("s0", "CHAIN", Q="My number is 123, how far?")

    for spans in (
        (root, call("s2", "s0", also=named)),
        (plain, agent, call("s2", "s1", also=named)),
        (plain, call("s2", "s0", prompt="__REDACTED__", also=named)),
    ):
        made = one(*spans)
        gap = made.gap("query")
        assert made.query is None
        assert gap is not None
        assert gap.reason == "masked"


def test_a_masked_part_of_an_answer_makes_it_a_gap() -> None:
    """By a token nobody writes for another reason, wherever the answer was told; an agent's mask counts, too."""
    told = "The fee for __REDACTED__ is [REDACTED]."
    masked = [
        one(span("s0", "CHAIN", Q="How far?", A=told), call("s1", "s0", told="The fee for Ann is 7.")),
        one(span("s0", "CHAIN", Q="How far?", A="The fee for Ann is 7."), call("s1", "s0", told=told)),
        one(span("s0", "CHAIN", Q="How far?", A="Far."), span("s1", "AGENT", "s0", A="<redacted>"), call("s2", "s1")),
    ]
    answer = "It was [redacted] by law.\n***\nThe rest is XXXX."

    for made in masked:
        gap = made.gap("answer")
        assert made.answer is None
        assert gap is not None
        assert gap.reason == "masked"
    assert one(span("s0", "CHAIN", Q="How far?"), call("s1", "s0", told=answer)).answer == answer


def test_masked_passages_are_a_gap_although_the_prompt_shows_them() -> None:
    """A retriever's text was hidden on purpose."""
    made = one(
        span("s0", "CHAIN", Q="How far?"), span("s1", "RETRIEVER", "s0", held=listed("__REDACTED__")), call("s2", "s0")
    )

    assert made.context == ()
    assert made.gap("context") is not None


def test_turns_before_the_last_question_are_history() -> None:
    """Kept apart from the query."""
    messages = talk(("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello."), ("user", "How far?"))
    made = one(call("s0", prompt=None, also=messages))

    assert made.query == "How far?"
    assert [(t.role, t.text) for t in made.history] == [("user", "Hi"), ("assistant", "Hello.")]


def test_the_answer_a_user_saw_wins_over_what_was_generated() -> None:
    """And where it differs, the record says where the generation's own text stands."""
    made = one(span("s0", "CHAIN", Q="How far?", A="It is far."), call("s1", "s0", told="far"))

    assert made.answer == "It is far."
    assert [o.field for o in made.origins][1:3] == ["answer", "answer.generated"]


def test_what_follows_the_answer_is_not_the_answer() -> None:
    """A title is generated last; the request's output tells which text was given."""
    made = one(
        span("s0", "AGENT", Q="How far?", A="Far."),
        call("s1", "s0", told="Far."),
        call("s2", "s0", told="Moon distance", prompt="Give this talk a title."),
    )

    assert made.answer == "Far."
    assert made.targets["answer"].span_id == "s1"
    assert [p.id for p in made.context] == ["mars", "moon"]


def test_of_a_wrapper_and_its_inner_call_the_inner_is_the_generation() -> None:
    """LlamaIndex's predict around chat, an SDK's own content-free span inside: one answer, one generation."""
    silent = Span(
        "s3",
        "t",
        parent_id="s2",
        start=3,
        scope="com.anthropic.sdk.python",
        attributes={"gen_ai.operation.name": "chat"},
    )
    made = one(span("s0", "CHAIN", Q="How far?"), call("s1", "s0"), call("s2", "s1"), silent)

    assert made.targets["answer"].span_id == "s2"
    assert made.answer == "Far."


def test_a_call_for_a_tool_is_no_answer() -> None:
    """A trace that ends there says so."""
    asks = {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search"}
    made = one(call("s0", told=None, also=asks))

    gap = made.gap("answer")
    assert made.answer is None
    assert gap is not None
    assert gap.reason == "no_answer"
    assert "search" in gap.remedy


def _formed(ident: str, name: str, arguments: str | None) -> Span:
    """A call to a model that answers by calling a tool."""
    at = "llm.output_messages.0.message.tool_calls.0.tool_call.function"
    return call(
        ident, "s0", told=None, also={f"{at}.name": name, **({f"{at}.arguments": arguments} if arguments else {})}
    )


def test_an_answer_may_be_given_by_the_arguments_of_a_tool() -> None:
    """Of the one pydantic-ai names so, or of one that nothing runs and that has an answer among its arguments."""
    root = span("s0", "CHAIN", Q="How far?")
    made = one(root, _formed("s1", "Answer", '{"answer": "Far [2].", "sure": true}'))

    assert (made.answer, [c.passage_id for c in made.citations]) == ("Far [2].", ["moon"])
    assert ("answer", "s1") in [(o.field, o.span_id) for o in made.origins]
    assert one(root, _formed("s1", "final_result", '{"answer": "Far."}')).answer == "Far."
    assert one(root, _formed("s1", "final_result_Place", '{"km": 384400}')).answer == '{"km": 384400}'


def test_what_a_tool_is_asked_is_no_answer() -> None:
    """One without an answer among its arguments, one that ran before or after, one whose arguments are not there."""
    root, reply = span("s0", "CHAIN", Q="How far?"), '{"response": "Far."}'
    ran = span("s1", "TOOL", "s0", A="sent", held={"tool.name": "send"})
    for spans in (
        (_formed("s2", "search", '{"query": "moon"}'),),
        (_formed("s2", "search", "{"),),
        (_formed("s2", "final_result", None),),
        (ran, _formed("s2", "send", reply)),
        (_formed("s0a", "send", reply), _formed("s2", "send", reply)),
        (_formed("s2", "send", reply), replace(ran, id="s3", start=3)),
    ):
        gap = one(root, *spans).gap("answer")
        assert gap is not None
        assert gap.reason == "no_answer"
        assert "output.value" in gap.remedy


def test_a_failed_generation_is_no_answer() -> None:
    """Whatever text is left of it; the first line of the error is said."""
    made = one(
        span("s0", "CHAIN", Q="How far?", A="Error!", status="error"),
        call("s1", "s0", told="The Moon is", status="error", status_message="404: no such model\nTraceback"),
    )

    gap = made.gap("answer")
    assert made.answer is None
    assert gap is not None
    assert gap.reason == "error"
    assert "404: no such model" in gap.remedy
    assert "Traceback" not in gap.remedy
    evicted = one(span("s0", "CHAIN", Q="How far?"), call("s1", "s0", told=None, status="error", dropped=4)).gap(
        "answer"
    )
    assert evicted is not None
    assert evicted.reason == "error"


def test_a_retry_that_succeeds_is_the_answer() -> None:
    """The failed call before it counts for nothing."""
    root = Span("s0", "t", start=0)

    assert one(root, call("s1", "s0", told=None, status="error"), call("s2", "s0", told="Far.")).answer == "Far."


def test_what_an_evaluator_generates_is_no_answer() -> None:
    """A judge inside the traced request speaks of the answer, not for it."""
    made = one(
        span("s0", "CHAIN", Q="How far?"),
        call("s1", "s0", told="Far."),
        span("s2", "EVALUATOR", "s0"),
        call("s3", "s2", told="Score: 5"),
    )

    assert made.answer == "Far."


def test_an_answer_without_a_traced_generation_is_the_requests_output() -> None:
    """Calls to a model are not always instrumented."""
    made = one(
        span("s0", "CHAIN", Q="How far?", A="Far [1]."), span("s1", "RETRIEVER", "s0", held=listed(MOON, ids=["moon"]))
    )

    assert (made.answer, made.gaps) == ("Far [1].", ())
    assert [c.passage_id for c in made.citations] == ["moon"]
