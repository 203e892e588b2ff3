"""Which call made the answer, where the request tells no output."""

from __future__ import annotations

import pytest

from spans import MARS, MOON, PROMPT, call, found, listed, one, span, talk

ANSWER = "It is 384,400 km away [2]."
ROOT = span("s0", "CHAIN", Q="How far is the Moon?")
SEARCH = span("s1", "RETRIEVER", "s0", held=listed(MARS, MOON, ids=["mars", "moon"]))


@pytest.mark.parametrize(
    "after",
    [
        f"Suggest three more questions. The answer was: {ANSWER}",
        f"Is this safe? Answer yes or no.\n\n{ANSWER}",
        f"Title this talk.\n\nUser: How far is the Moon?\nAssistant: {ANSWER}",
    ],
)
def test_what_is_made_of_the_answer_is_not_the_answer(after: str) -> None:
    """More questions, a check, a title; whether passages stand in the prompt, by number or not, or nowhere."""
    last = call("s3", "s0", told="How big is it?", prompt=after)
    for spans in (
        (ROOT, call("s2", "s0", told=ANSWER), last),
        (ROOT, SEARCH, call("s2", "s0", told=ANSWER, prompt=f"How far? {MARS} {MOON}"), last),
        (ROOT, SEARCH, call("s2", "s0", told=ANSWER, prompt="How far is the Moon?"), last),
    ):
        made = one(*spans)
        assert (made.answer, made.targets["answer"].span_id) == (ANSWER, "s2")
        assert [p.id for p in made.context] == ["mars", "moon"]


def test_what_words_the_question_or_the_search_is_not_the_answer() -> None:
    """It stands before what was searched, in a tool, or was given nothing of what was found."""
    worded = call("s2", "s0", told="moon distance now", prompt="Reword: How far is the Moon?", start=1)
    search = span("s3", "RETRIEVER", "s0", held=listed(MARS, MOON))
    tool, inside = span("s4", "TOOL", "s0", A=MOON), call("s5", "s4", told="It found the Moon.", prompt="Find.")
    told = talk(("user", "How far is the Moon?"), ("tool", MOON))

    assert one(ROOT, worded, search, call("s6", "s0", told=ANSWER, prompt="moon distance now?")).answer == ANSWER
    assert one(ROOT, worded, call("s6", "s0", told=ANSWER)).answer == ANSWER
    assert one(ROOT, worded, tool, inside, call("s6", "s0", told=ANSWER, prompt=None, also=told)).answer == ANSWER


def test_a_talk_that_goes_on_ends_with_the_answer() -> None:
    """What the model said before, and was asked to mend, is its own."""
    said = talk(("user", PROMPT), ("assistant", "Rather far away."), ("user", "Give a number."))

    assert (
        one(ROOT, call("s2", "s0", told="Rather far away."), call("s3", "s0", told=ANSWER, also=said)).answer == ANSWER
    )


def test_several_answers_are_none() -> None:
    """Branches that nothing joins, and a check that was given the passages: each may be the answer."""
    check = f"{PROMPT}\n\nIs this what they say? {ANSWER}"
    for spans in (
        (ROOT, call("s2", "s0", told="Far."), call("s3", "s0", told="Very far.")),
        (ROOT, call("s2", "s0", told=ANSWER), call("s3", "s0", told="yes", prompt=check)),
        (ROOT, *(call(f"s{n}", "s0", told=f"Text {n} at length.", prompt="How far is the Moon?") for n in (2, 3))),
    ):
        gap = one(*spans).gap("answer")
        assert gap is not None
        assert gap.reason == "ambiguous_answer"
        assert "output.value" in gap.remedy
    assert one(ROOT, call("s2", "s0", told="Far."), call("s3", "s0", told="far.")).answer == "far."
    assert len(found(call("s2", told="Far."), call("s3", told="Very far."))) == 2


def test_an_output_that_is_no_calls_own_leaves_the_call_to_be_told_apart() -> None:
    """It is the answer; the passages are those of the call whose words it holds, or that was given any."""
    last = call("s3", "s0", told="How big is it?", prompt=f"Suggest more: {ANSWER}")
    for told in (f"{ANSWER}\n\nSources: moon", "Far away, it says [2]."):
        root = span("s0", "CHAIN", Q="How far is the Moon?", A=told)
        made = one(root, call("s2", "s0", told=ANSWER), last)

        assert (made.answer, made.targets["answer"].span_id) == (told, "s2")
        assert [p.id for p in made.context] == ["mars", "moon"]
