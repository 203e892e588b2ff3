"""The passages an answer was given, in the order its markers count them."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from groundtrace.model import Span
from spans import MARS, MOON, PROMPT, VENUS, call, listed, one, span, talk


def test_the_prompt_numbers_the_passages_and_the_retriever_knows_them() -> None:
    """Both ranks are kept, and the place feedback on a passage goes to."""
    retriever = span("s1", "RETRIEVER", "s0", held=listed(MOON, MARS, VENUS, ids=["moon", "mars", "venus"]))
    made = one(span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", told="Far [2]."))

    assert [(p.id, p.rank, p.retrieval_rank) for p in made.context] == [("mars", 1, 2), ("moon", 2, 1)]
    target = made.context[1].target
    assert target is not None
    assert (target[0].span_id, target[1]) == ("s1", 0)
    assert [(c.marker, c.passage_id) for c in made.citations] == [("[2]", "moon")]
    assert made.targets["retrieval"].span_id == "s1"


def test_passages_a_prompt_holds_without_numbers_count_in_its_order() -> None:
    """What was retrieved and not put into the prompt is no context."""
    retriever = span("s1", "RETRIEVER", "s0", held=listed(MOON, MARS, VENUS, ids=["moon", "mars", "venus"]))
    made = one(
        span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", prompt=f"Facts:\n{MARS}\n\n{MOON}\n\nHow far?")
    )

    assert [(p.id, p.rank, p.retrieval_rank) for p in made.context] == [("mars", 1, 2), ("moon", 2, 1)]


def test_without_a_prompt_the_rerankers_order_counts() -> None:
    """And the retriever's place and score stay known."""
    reranked = {f"reranker.output_documents.{n}.document.content": text for n, text in enumerate([MARS, MOON])}
    made = one(
        span("s0", "CHAIN", Q="How far?", A="Far."),
        span("s1", "RETRIEVER", "s0", held=listed(MOON, MARS, VENUS, ids=["moon", "mars", "venus"])),
        span("s2", "RERANKER", "s0", held=reranked),
    )

    assert [(p.id, p.rank, p.retrieval_rank) for p in made.context][:2] == [("mars", 1, 2), ("moon", 2, 1)]


def test_ids_alone_are_joined_with_the_prompts_texts() -> None:
    """GenAI retrieval spans hold no texts; without the prompt's there is no context, and the remedy says so."""
    ids = [{"id": "moon", "score": 0.9}, {"id": "mars", "score": None}]
    retrieval = Span(
        "s1",
        "t",
        parent_id="s0",
        start=1,
        attributes={"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": json.dumps(ids)},
    )
    root = span("s0", "CHAIN", Q="How far?")

    joined = one(root, retrieval, call("s2", "s0"))
    alone = one(replace(root, attributes={**root.attributes, "output.value": "Far."}), retrieval)

    assert [(p.id, p.score, p.retrieval_rank) for p in joined.context] == [("mars", None, 2), ("moon", 0.9, 1)]
    gap = alone.gap("context")
    assert gap is not None
    assert gap.reason == "content_off"


def test_a_retrieval_that_found_nothing_is_an_empty_context_and_no_gap() -> None:
    """Empty is not unknown."""
    root = span("s0", "CHAIN", Q="How far?", A="I don't know.")
    empty = one(root, span("s1", "RETRIEVER", "s0", A='{"documents": []}'))
    unknown = one(root)

    assert (empty.context, empty.gaps) == ((), ())
    gap = unknown.gap("context")
    assert gap is not None
    assert gap.reason == "not_instrumented"


def test_tool_results_of_this_turn_are_the_context() -> None:
    """Numbered, listed as JSON, or as they are; those before the last question belong to another turn."""
    messages = talk(
        ("user", "Hi"), ("tool", f"[1] {VENUS}"), ("assistant", "Hello."), ("user", "How far?"), ("tool", MOON)
    )
    found_listed = json.dumps({"documents": [{"id": "mars", "text": MARS}]})
    more = {"llm.input_messages.5.message.role": "tool", "llm.input_messages.5.message.content": found_listed}
    made = one(call("s0", prompt=None, also=messages | more))

    assert [(p.rank, p.text) for p in made.context] == [(1, MOON), (2, MARS)]
    assert made.context[1].id == "mars"


def test_two_lists_that_count_the_same_leave_the_markers_open() -> None:
    """[1] could be either: the passages stand, the citations do not."""
    messages = talk(("user", "How far?"), ("tool", f"[1] {MOON}\n\n[2] {MARS}"), ("tool", f"[1] {VENUS}"))
    made = one(call("s0", prompt=None, told="Far [1].", also=messages))

    assert [p.rank for p in made.context] == [1, 2, 3]
    gap = made.gap("citations")
    assert gap is not None
    assert gap.reason == "ambiguous_numbering"
    assert [c.passage_id for c in made.citations] == [None]


def test_a_passage_shown_twice_is_one() -> None:
    """Nested retrievers and repeated searches tell the same texts."""
    retrievers = [span(f"s{n}", "RETRIEVER", "s0", held=listed(MOON, MARS)) for n in (1, 2)]
    made = one(span("s0", "CHAIN", Q="How far?", A="Far."), *retrievers)

    assert [p.text for p in made.context] == [MOON, MARS]
    assert len({p.id for p in made.context}) == 2


def test_ids_that_repeat_are_told_apart() -> None:
    """Chunks of one file share its name."""
    made = one(
        span("s0", "CHAIN", Q="q", A="a"), span("s1", "RETRIEVER", "s0", held=listed(MOON, MARS, ids=["f", "g"]))
    )
    shared = one(call("s0", prompt=f"Documents:\n[1] (source: f) {MOON}\n\n[2] (source: f) {MARS}\n\nQuestion: q"))

    assert [p.id for p in made.context] == ["f", "g"]
    assert [p.id for p in shared.context] == ["f", "f#2"]


def test_chunks_that_share_an_id_are_all_kept() -> None:
    """An index may name documents and retrieve pieces of them."""
    made = one(
        span("s0", "CHAIN", Q="q", A="a"), span("s1", "RETRIEVER", "s0", held=listed(MOON, MARS, ids=["f", "f"]))
    )

    assert [(p.id, p.text, p.retrieval_rank) for p in made.context] == [("f", MOON, 1), ("f#2", MARS, 2)]


def test_a_prompt_that_counts_from_zero_is_counted_from_zero() -> None:
    """[0] is the first passage there."""
    made = one(call("s0", prompt=f"Context:\n[0] {MOON}\n[1] {MARS}\n\nQuestion: How far?", told="Far [0]."))

    assert [p.rank for p in made.context] == [0, 1]
    assert [c.passage_id for c in made.citations] == [made.context[0].id]


def test_a_context_without_numbers_is_one_passage() -> None:
    """Nothing tells its pieces apart; all of it was given."""
    made = one(call("s0", prompt=f"Context:\n{MOON}\n\n{MARS}\n\nQuestion: How far?"))

    assert [p.text for p in made.context] == [f"{MOON}\n\n{MARS}"]
    assert made.query == "How far?"


def test_blocks_handed_over_are_passages_and_citations_point_to_them() -> None:
    """By their position among all blocks of the request; offsets are the answer's."""
    block = {"type": "document", "source": {"type": "text", "data": MOON}, "title": "Moon"}
    contents = {
        "llm.input_messages.0.message.contents.0.message_content.type": "document",
        "llm.input_messages.0.message.contents.0.message_content.text": json.dumps(block),
        "llm.input_messages.0.message.contents.1.message_content.type": "text",
        "llm.input_messages.0.message.contents.1.message_content.text": "How far?",
    }
    reply = {"content": [{"text": "It is far.", "citations": [{"document_index": 0, "cited_text": "384,400 km"}]}]}
    made = one(call("s0", prompt=None, told="It is far.", also=contents, A=json.dumps(reply)))

    assert (made.query, [p.text for p in made.context]) == ("How far?", [MOON])
    assert [(c.origin, c.passage_id) for c in made.citations] == [("structured", made.context[0].id)]
    assert made.context[0].metadata == {"title": "Moon"}


@pytest.mark.parametrize("prompt", [f"Context:\n[1] {MOON}\n[2] {MOON}\n[3] {MARS}\n\nQuestion: How far?", None])
def test_a_passage_that_repeats_in_a_list_is_counted_each_time(prompt: str | None) -> None:
    """The markers count it twice, by the prompt's numbers or by the retriever's order."""
    retriever = span("s1", "RETRIEVER", "s0", held=listed(MOON, MOON, MARS, ids=["a", "b", "c"]))
    made = one(
        span("s0", "CHAIN", Q="How far?"),
        retriever,
        call("s2", "s0", prompt=prompt, told="Far [1], so far [2]. Red [3]."),
    )

    assert [(p.id, p.text, p.rank, p.retrieval_rank) for p in made.context] == [
        ("a", MOON, 1, 1),
        ("b", MOON, 2, 2),
        ("c", MARS, 3, 3),
    ]
    assert [p.target and p.target[1] for p in made.context] == [0, 1, 2]
    assert [c.passage_id for c in made.citations] == ["a", "b", "c"]


def test_a_passage_that_repeats_without_an_id_gets_one_of_its_own() -> None:
    """The ids count on; without numbers it counts as often as the prompt holds it."""
    retriever = span("s1", "RETRIEVER", "s0", held=listed(MOON, MOON, MARS))
    twice = one(
        span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", prompt=f"Facts:\n{MARS}\n{MOON}\n{MOON}")
    )
    once = one(span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", prompt=f"Facts:\n{MARS}\n{MOON}"))

    assert [p.text for p in twice.context] == [MARS, MOON, MOON]
    assert twice.context[2].id == f"{twice.context[1].id}#2"
    assert [p.text for p in once.context] == [MARS, MOON]


def test_a_numbered_passage_that_repeats_is_the_one_its_id_names() -> None:
    """Two files hold the same text."""
    retriever = span("s1", "RETRIEVER", "s0", held=listed(MOON, MOON, ids=["a", "b"]))
    prompt = f"Documents:\n[1] (source: b) {MOON}\n\n[2] (source: a) {MOON}\n\nQuestion: How far?"
    made = one(span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", prompt=prompt))

    assert [(p.id, p.rank, p.retrieval_rank) for p in made.context] == [("b", 1, 2), ("a", 2, 1)]
    elsewhere = one(
        span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", prompt=prompt.replace("source: ", "source: x/"))
    )
    assert [(p.id, p.rank, p.retrieval_rank) for p in elsewhere.context] == [("a", 1, 1), ("b", 2, 2)]


def test_blocks_that_repeat_are_cited_each_by_its_place() -> None:
    """A citation of the second is of the second."""
    block = json.dumps({"type": "document", "source": {"type": "text", "data": MOON}})
    where = "llm.input_messages.0.message.contents"
    contents = {
        f"{where}.{n}.message_content.{key}": value
        for n in (0, 1)
        for key, value in (("type", "document"), ("text", block))
    }
    contents |= {f"{where}.2.message_content.type": "text", f"{where}.2.message_content.text": "How far?"}
    reply = {"content": [{"text": "It is far.", "citations": [{"document_index": 1, "cited_text": "384,400 km"}]}]}
    made = one(call("s0", prompt=None, told="It is far.", also=contents, A=json.dumps(reply)))

    assert [p.text for p in made.context] == [MOON, MOON]
    assert [c.passage_id for c in made.citations] == [made.context[1].id]


def test_a_masked_part_of_a_passage_makes_the_context_a_gap() -> None:
    """What is left of it is not judged as if it were whole; a masked part of the question is no part of the context."""
    hidden = f"{MOON} It was __REDACTED__."
    root, bare = span("s0", "CHAIN", Q="How far?"), span("s1", "RETRIEVER", "s0", held=listed(MOON))
    masked = [
        one(root, span("s1", "RETRIEVER", "s0", held=listed(hidden)), call("s2", "s0")),
        one(root, call("s2", "s0", prompt=PROMPT.replace("colour", "[REDACTED_COLOUR]"))),
        one(root, call("s2", "s0", prompt=None, also=talk(("user", "How far?"), ("tool", hidden)))),
    ]

    for made in masked:
        gap = made.gap("context")
        assert made.context == ()
        assert gap is not None
        assert gap.reason == "masked"
    assert one(root, bare, call("s2", "s0", prompt=PROMPT.replace("How far", "[REDACTED], how far"))).context
    assert one(root, bare, call("s2", "s0", prompt=PROMPT.replace("\n\n[2]", "\n***\n[2]"))).context


SYSTEM = f"Documents:\n[1] {MOON}\n\n[2] {MARS}"
"""Instructions that number both passages."""


@pytest.mark.parametrize(
    "words",
    [
        f'You said "{MARS}": why?',
        "I have two options:\n[1] stay\n[2] go\nWhich?",
        "My results so far:\n1. I saw it big\n2. I saw it small\n\nHow far is the Moon?",
    ],
)
def test_the_text_that_holds_most_of_what_was_retrieved_shows_the_passages(words: str) -> None:
    """A quote or a list in what the user says hides none of the numbered ones."""
    retriever = span("s1", "RETRIEVER", "s0", held=listed(MARS, MOON, ids=["mars", "moon"]))
    answer = call("s2", "s0", prompt=None, told="Far [1].", also=talk(("system", SYSTEM), ("user", words)))
    made = one(span("s0", "CHAIN", Q="How far?"), retriever, answer)

    assert [(p.id, p.rank) for p in made.context] == [("moon", 1), ("mars", 2)]
    assert [c.passage_id for c in made.citations] == ["moon"]


def test_a_plain_list_of_the_users_counts_where_no_other_text_numbers_passages() -> None:
    """Of two that do, the user's own is the prompt."""
    plain = f"Search results:\n1. {VENUS}\n2. {MARS}\n\nHow far?"
    hidden = one(call("s0", prompt=None, also=talk(("system", SYSTEM), ("user", plain))))
    alone = one(call("s0", prompt=plain))
    both = one(call("s0", prompt=None, also=talk(("system", SYSTEM), ("user", PROMPT))))

    assert [p.text for p in hidden.context] == [MOON, MARS]
    assert [p.text for p in alone.context] == [VENUS, MARS]
    assert [p.text for p in both.context] == [MARS, MOON]


def test_a_few_words_that_were_retrieved_and_stand_in_the_instructions_hide_no_passages() -> None:
    """They may stand anywhere."""
    retriever = span("s1", "RETRIEVER", "s0", held=listed("The Moon", ids=["title"]))
    words = talk(("system", "You know all about the Moon."), ("user", PROMPT))
    made = one(span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", prompt=None, also=words))

    assert [p.rank for p in made.context] == [1, 2]
    assert MARS in made.context[0].text


def test_passages_may_stand_in_a_message_before_the_question() -> None:
    """In one of this turn; what was said before the assistant spoke is history."""
    given = f"Documents:\n[1] {MARS}\n\n[2] {MOON}"
    retriever = span("s1", "RETRIEVER", "s0", held=listed(MOON, MARS))
    now = talk(("system", "Cite."), ("user", given), ("user", "How far?"))
    before = talk(("user", given), ("assistant", "Understood."), ("user", "How far?"))
    made = one(span("s0", "CHAIN", Q="How far?"), retriever, call("s2", "s0", prompt=None, told="Far [2].", also=now))

    assert [p.text for p in made.context] == [MARS, MOON]
    assert [c.passage_id for c in made.citations] == [made.context[1].id]
    assert made.query == "How far?"
    assert one(call("s0", prompt=None, also=now)).context
    assert one(call("s0", prompt=None, also=before)).context == ()
