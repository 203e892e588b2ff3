"""Quotes are found where they stand, facts where they are held, and what a rationale made up is told from the rest."""

from __future__ import annotations

import cProfile
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.evidence import carries, check_rationale, locate, paraphrases
from groundtrace.text import fold

FIXTURES = Path(__file__).parent / "fixtures" / "evidence"
QUOTES: dict[str, Any] = json.loads((FIXTURES / "quotes.json").read_text("utf-8"))
RATIONALES: dict[str, Any] = json.loads((FIXTURES / "rationales.json").read_text("utf-8"))

WORDS = ["the", "Moon", "is", "far", "from", "here", "384,400", "km", "and", "dry", "“so”", "—", "it's", "3.5", "über"]
PROSE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
TEXTS = PROSE | st.text(max_size=80)


def says_something(text: str) -> bool:
    """Whether a text has a letter or a digit, without which it is no quote."""
    return any(c.isalnum() for c in text)


# --- locate -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("match", "name", "quote", "stands", "why"), QUOTES["cases"])
def test_a_quote_stands_where_it_stands(match: str, name: str, quote: str, stands: str, why: str) -> None:
    """The fixture says for each quote how it is found, where, and what is special about it."""
    texts: dict[str | None, str] = {None if key == "answer" else key: text for key, text in QUOTES["texts"].items()}
    found = locate(quote, texts)
    assert found.match == match, why
    assert found.quote == quote
    if match == "absent":
        assert (found.passage_id, found.start, found.end, found.found) == (None, None, None, False)
    else:
        assert found.passage_id == name
        assert texts[found.passage_id][found.start : found.end] == stands


def test_the_answer_itself_is_a_text_without_a_name() -> None:
    """Offsets without a passage's id are the answer's."""
    found = locate("it rose", {"p": "It fell by 3 %.", None: "Then it rose."})
    assert (found.passage_id, found.start, found.end, found.match) == (None, 5, 12, "exact")


def test_the_better_match_wins_over_the_earlier_text() -> None:
    """A text that has it letter for letter comes before one that nearly has it."""
    texts: dict[str | None, str] = {"near": "REVENUE ROSE BY 12 PERCENT", "same": "revenue rose by 12 percent"}
    assert locate("revenue rose by 12 percent", texts).passage_id == "same"
    texts = {"far": "revenue rows by 14 percents", "near": "revenue rose by 14 percents"}
    assert locate("revenue rose by 14 percent!s", texts).passage_id == "near"


def test_a_whole_word_is_preferred_to_the_middle_of_one() -> None:
    """The year 2021 is no place to quote "21" from where it stands alone too."""
    assert locate("21", {"p": "In 2021 there were 21."}).start == 19


def test_how_near_is_near_enough_can_be_set() -> None:
    """The same quote is found at one threshold and not at another."""
    texts: dict[str | None, str] = {"p": "The treaty was signed in Vienna in the spring."}
    quote = "The treaty was sealed in Vienna in the autumn."
    assert locate(quote, texts, fuzzy=70).match == "fuzzy"
    assert locate(quote, texts, fuzzy=95).match == "absent"


@given(TEXTS, st.data())
def test_any_piece_of_any_text_is_found_letter_for_letter(text: str, data: st.DataObject) -> None:
    """Whatever the text and whichever piece is quoted."""
    start = data.draw(st.integers(0, len(text)))
    quote = text[start : data.draw(st.integers(start, len(text)))]
    found = locate(quote, {"p": text})
    if says_something(quote):
        assert found.match == "exact"
        assert text[found.start : found.end] == quote
    else:
        assert found.match == "absent"


@given(PROSE, st.data())
def test_case_blanks_and_typography_are_no_difference(text: str, data: st.DataObject) -> None:
    """A quote of whole words stands where its words stand, however it is typed."""
    words = text.split()
    first = data.draw(st.integers(0, len(words) - 1))
    chosen = words[first : data.draw(st.integers(first + 1, len(words)))]
    typed = data.draw(st.sampled_from([" ", "  ", "\n", "\u00a0"])).join(chosen).upper()
    typed = typed.replace("'", "’").replace("“", '"').replace("—", "–")
    found = locate(typed, {"p": text})
    if says_something(typed):
        assert found.found
        assert fold(text[found.start : found.end]).text.strip("' -") == fold(typed).text.strip("' -")


@given(TEXTS, TEXTS)
def test_what_is_found_lies_within_its_text(quote: str, text: str) -> None:
    """Offsets never leave the text, and never hold nothing."""
    found = locate(quote, {"p": text})
    if found.start is not None and found.end is not None:
        assert 0 <= found.start < found.end <= len(text)
        assert says_something(text[found.start : found.end])
    assert (found.start is None) == (found.match == "absent")


@given(st.lists(st.lists(st.sampled_from(WORDS[:5]), min_size=1).map(" ".join), min_size=2, max_size=4))
def test_parts_around_ellipses_stand_in_order(parts: list[str]) -> None:
    """From where the first part starts to where the last one ends."""
    text = "Once " + " then ".join(parts) + " at last."
    found = locate(" … ".join(parts), {"p": text})
    place = text[found.start : found.end]
    assert found.match == "normalised"
    assert place.startswith(parts[0])
    assert place.endswith(parts[-1])


@pytest.mark.parametrize("edit", ["x", "", "qq"])
def test_a_slip_in_a_long_passage_is_found_in_the_right_place(edit: str) -> None:
    """In a passage of a megabyte the library is only sent to the likeliest place, which must be the right one."""
    rest = " ".join(f"Filler sentence number {n} says nothing of interest to anyone." for n in range(16_000))
    wanted = " ".join(f"The probe measured {n} degrees in crater {n * 7} before it fell silent." for n in range(9))
    quote = wanted.replace("crater 21", f"crat{edit}r 21").replace("silent", f"sil{edit}nt", 2)
    text = f"{rest[:700_000]} {wanted} {rest[700_000:]}"
    found = locate(quote, {"p": text})
    assert found.match == "fuzzy"
    assert text[found.start : found.end] == wanted


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        (" " * 300_000 + "x", " " * 300_000),
        ("a..." * 75_000, "a b " * 75_000),
        ("[ " * 150_000 + "x", "[ " * 150_000),
        ("a" * 150_000 + "b", "a" * 300_000),
        ('"' * 300_000, '"' * 300_000),
        ("x" * 3000, "ab" * 150_000),
        ("\ud800\x00" * 50_000 + "a", "\x00" * 300_000),
    ],
)
def test_hostile_quotes_and_texts_are_only_long(quote: str, text: str) -> None:
    """Nothing a judge or a passage says makes looking for it take the square of its length."""
    assert locate(quote, {"p": text}).match in ("exact", "normalised", "absent")


# --- paraphrases and carries ------------------------------------------------------------------------------------------

TEXT = (
    "Cloud services revenue of Acme Corp grew 12% in Q3 2024, while hardware grew 3%. "
    "The National Aeronautics and Space Administration is a customer since 14 May 2019."
)


@pytest.mark.parametrize(
    ("quote", "same"),
    [
        ("Acme Corp's revenue from cloud services grew by 12%", True),
        ("In Q3 2024 hardware revenue grew", True),
        ("NASA is a customer of Acme", True),
        ("revenue grew 13%", False),
        ("revenue grew 12% in Q4 2025", False),
        ("Globex revenue grew 12%", False),
        ("a customer since 15 May 2019", False),
        ("unrelated words about gardening, twelve percent", False),
        ("it is of the", False),
        ("", False),
    ],
)
def test_a_paraphrase_adds_no_fact_and_keeps_most_words(quote: str, *, same: bool) -> None:
    """New numbers, dates and names are no paraphrase, nor is what says something else."""
    assert paraphrases(quote, TEXT) is same


@pytest.mark.parametrize(
    ("claim", "span", "carried"),
    [
        ("Apollo 11 landed on July 20, 1969", "The landing of Apollo 11: 20 July 1969.", True),
        ("It landed on 1969-07-20", "It landed on July 20, 1969.", True),
        ("It landed in July 1969", "It landed on July 20, 1969.", True),
        ("It landed on July 20, 1969", "It landed in July 1969.", False),
        ("Revenue was $4.2 billion", "revenue of 4,200 million dollars", True),
        ("Revenue was $4.2 billion", "revenue of 4.3 billion dollars", False),
        ("Neil Armstrong walked on the Moon", "Armstrong, first name Neil, walked on the Moon", True),
        ("Neil Armstrong walked on the Moon", "the astronaut walked on the Moon", False),
        ("The astronauts collected rocks", "the astronauts brought rocks home", True),
        ("The astronauts collected rocks", "cats sleep all day", False),
        ("NASA paid", "the National Aeronautics and Space Administration paid", True),
        ("It is so", "", False),
    ],
)
def test_a_span_carries_a_claims_own_facts_or_does_not(claim: str, span: str, *, carried: bool) -> None:
    """All its numbers, dates and names, in any form; for a claim without any, half of its words."""
    assert carries(claim, span) is carried


@given(PROSE)
def test_every_text_carries_and_paraphrases_itself(text: str) -> None:
    """Nothing is strange to itself."""
    if fold(text).text and any(word in text for word in ("Moon", "far", "384,400", "dry", "3.5", "über")):
        assert carries(text, text)
        assert paraphrases(text, text)


# --- the rationale check ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verdict", "given_texts", "rationale", "why"), RATIONALES["cases"])
def test_a_rationale_is_at_fault_in_doubt_or_fine(verdict: str, given_texts: str, rationale: str, why: str) -> None:
    """The fixture says for each rationale what it is and why."""
    found = check_rationale(rationale, RATIONALES["given"][given_texts])
    assert ("fault" if found.faults else "doubt" if found.doubts else "fine") == verdict, (why, found)


@given(st.sampled_from(sorted(RATIONALES["given"])), st.data())
def test_what_was_given_may_always_be_said(name: str, data: st.DataObject) -> None:
    """A rationale that only repeats what it was given is never at fault."""
    texts = RATIONALES["given"][name]
    said = data.draw(st.permutations(texts))
    assert check_rationale(" ".join(said), texts).faults == ()


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_any_rationale_can_be_checked(rationale: str, texts: list[str]) -> None:
    """Whatever it says, there is an answer, and no line is both a fault and a doubt."""
    found = check_rationale(rationale, texts)
    assert not set(found.faults) & set(found.doubts)


@pytest.mark.parametrize("unit", ["'", '"', "not ", "“a b” ", "'a ", "(1) ", "no 'x y', ", "Abc Def ", "12 ", "\ud800"])
def test_a_rationale_four_times_as_long_is_four_times_the_work(unit: str) -> None:
    """Quotes within quotes and denials of denials take no more than their length, counted in calls."""

    def calls(length: int) -> int:
        profile = cProfile.Profile()
        profile.runcall(check_rationale, unit * (length // len(unit)), ["The Moon is 384,400 km away."])
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(20_000) <= 5 * calls(5_000)
