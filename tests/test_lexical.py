"""Numbers, dates, names and words are read the same however they are written, and a claim's cover is what it says."""

from __future__ import annotations

import datetime as dt
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.lexical import (
    COVERING,
    Comparison,
    Passages,
    Tokens,
    compare,
    content_words,
    dates,
    derivable,
    names,
    numbers,
    overlap,
)
from groundtrace.lexical.words import STOP_WORDS, frequencies, weight

FIXTURES = Path(__file__).parent / "fixtures" / "lexical"
CASES = json.loads((FIXTURES / "compare.json").read_text("utf-8"))
LENGTH = 120_000
HOSTILE = {
    "one long word": "a" * LENGTH,
    "one long number": "1" * LENGTH,
    "commas": "1," * (LENGTH // 2),
    "number words": "hundred and " * (LENGTH // 12),
    "pronouns": "one " * (LENGTH // 4),
    "capitals": "A " * (LENGTH // 2),
    "initials": "U." * (LENGTH // 2),
    "dates": "July 1 " * (LENGTH // 7),
    "months and spaces": ("July" + " " * 996) * (LENGTH // 1000),
    "combining marks": "a" + "\u0301\u0327" * (LENGTH // 2),
    "apostrophes": "a'" * (LENGTH // 2),
    "slashes": "12/1" * (LENGTH // 4),
    "lone surrogates": "\ud800" * LENGTH,
    "NUL": "\0" * LENGTH,
    "ideographs": "漢字" * (LENGTH // 2),
    "no full stop": "word another thing " * (LENGTH // 19),
}
WORDS = st.sampled_from(
    ["moon", "the", "Eagle", "landed", "on", "1969", "NASA", "seven", "of", "dust", "grey", "Aldrin"]
)
PHRASES = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)


def rows(name: str) -> Iterator[list[str]]:
    """The rows of a fixture table, escapes resolved."""
    for line in (FIXTURES / name).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            text, *rest = line.split("\t")
            yield [text.replace("\\n", "\n").replace("\\u00a0", "\u00a0"), *rest]


@pytest.mark.parametrize(("text", "expected"), list(rows("numbers.tsv")))
def test_numbers_have_one_spelling(text: str, expected: str) -> None:
    """A judge that writes "one thousand" and a passage that writes "1,000" agree."""
    assert numbers(text) == set(expected.split())


def test_a_number_is_read_whole_or_not_at_all() -> None:
    """What can't end where the digits end is not cut back until it can."""
    assert numbers("July 20, 1969") == {"20", "1969"}
    assert numbers("1,000ab_ and 12ab_") == frozenset()


@pytest.mark.parametrize(("text", "expected"), list(rows("dates.tsv")))
def test_dates_have_one_spelling(text: str, expected: str) -> None:
    """Whatever order and separators a date is written in, it is one date."""
    assert dates(text) == set(expected.split())


@pytest.mark.parametrize(("text", "expected"), list(rows("names.tsv")))
def test_names_are_what_is_capitalised_in_its_own_right(text: str, expected: str) -> None:
    """The capital that merely opens a sentence makes no name."""
    assert names(text) == set(filter(None, expected.split("|")))


@pytest.mark.parametrize(("number", "given_numbers", "expected", "why"), list(rows("derivable.tsv")))
def test_a_number_follows_from_two_others_or_does_not(number: str, given_numbers: str, expected: str, why: str) -> None:
    """The fixture says for each case why."""
    assert derivable(number, given_numbers.split()) is (expected == "yes"), why


@given(st.integers(0, 10**12))
def test_thousands_separators_change_no_number(value: int) -> None:
    """For any whole number."""
    assert numbers(f"{value:,}") == numbers(str(value)) == {str(value)}


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_sums_and_differences_are_derivable(one: int, other: int) -> None:
    """For any two numbers."""
    given_numbers = [str(one), str(other)]
    if one != other:
        assert derivable(str(one + other), given_numbers)
        assert derivable(str(abs(one - other)), given_numbers)


@given(st.dates(min_value=dt.date(1000, 1, 1)))
def test_a_date_is_the_same_in_words_and_in_digits(day: dt.date) -> None:
    """For any day with a year of four digits."""
    spoken = f"{day:%B} {day:%d}, {day:%Y}"
    assert dates(f"It was on {spoken}.") == dates(f"It was on {day:%Y-%m-%d}.") == {f"{day:%Y-%m-%d}"}


def test_content_words_are_stems_without_stop_words_in_reading_order() -> None:
    """Contractions go, the country stays."""
    assert content_words("They aren't walking; the US astronauts’ walks lasted 1,000 days.") == (
        "walk",
        "us",
        "astronaut",
        "walk",
        "last",
        "1000",
        "day",
    )


def test_overlap_is_the_share_of_the_claims_content_words() -> None:
    """And 0 where the claim has none."""
    assert overlap("Astronauts walked on Mars", "An astronaut walks") == pytest.approx(2 / 3)
    assert overlap("the of and", "anything") == 0
    assert overlap("dust", "") == 0


def test_rare_words_weigh_more_than_common_ones_and_stop_words_nothing() -> None:
    """What a word tells is how rare it is."""
    assert weight("mycobacterium") > weight("water") > weight("the") == weight(".") == weight("isn't") == 0


def test_the_shipped_frequencies_are_whole() -> None:
    """A truncated table would weigh every word the same and nobody would notice."""
    table = frequencies()
    assert len(table) > 10_000
    assert max(table, key=table.__getitem__) == "#windows"
    assert table["the"] > table["water"] > table["#windows"] // 1000
    assert all(word == word.lower() for word in STOP_WORDS)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_claim_is_covered_as_far_as_the_passages_hold_it(case: dict[str, object]) -> None:
    """What is missing, weakest or in doubt is named; the fixture says what."""
    texts = case["passages"]
    found = compare(case["claim"], Passages(texts))
    low, high = case.get("score", [0, 1])
    assert low <= found.score <= high
    if "covers" in case:
        assert [texts[place][start:end] for place, start, end in found.sentences] == case["covers"]
    for name in ("weakest_clause", "negation_clash", "personal", "english"):
        if name in case:
            assert getattr(found, name) == case[name]
    for name in ("missing_numbers", "missing_names", "antonym_clash"):
        if name in case:
            assert list(getattr(found, name) or ()) == list(case[name] or ())


@given(PHRASES)
def test_what_a_passage_says_word_for_word_is_wholly_covered(phrase: str) -> None:
    """Whatever is said, saying the same is full cover."""
    found = compare(phrase, Passages([f"{phrase}."]))
    assert (found.score, found.cover, found.phrasing) == (1.0, 1.0, 1.0)
    assert not found.missing_numbers
    assert not found.missing_names


@given(PHRASES, st.lists(PHRASES, max_size=6), st.randoms())
def test_the_order_of_the_passages_changes_nothing(claim: str, texts: list[str], chance: random.Random) -> None:
    """Retrieval order is no evidence."""
    shuffled = list(texts)
    chance.shuffle(shuffled)
    one, other = compare(claim, Passages(texts)), compare(claim, Passages(shuffled))
    assert (one.score, one.cover, one.phrasing) == (other.score, other.cover, other.phrasing)


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=3))
def test_whatever_the_text_shares_are_shares_and_sentences_stand_in_it(claim: str, texts: list[str]) -> None:
    """No text pushes a share out of 0..1 or an offset out of its passage."""
    found = compare(claim, Passages(texts))
    assert all(0 <= share <= 1 for share in (found.score, found.cover, found.phrasing, found.weakest_cover))
    assert len(found.sentences) <= COVERING
    assert all(texts[place][start:end].strip() for place, start, end in found.sentences)


@given(st.text(max_size=200))
def test_every_reader_takes_any_text(text: str) -> None:
    """Nothing raises, and everything comes back in its one spelling."""
    assert all(number == "".join(number.split()) for number in numbers(text))
    assert all(date.count("-") in (1, 2, 3) for date in dates(text))
    assert all(name == name.casefold() for name in names(text))
    assert all(content_words(text))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_read_in_time_and_without_trouble(text: str) -> None:
    """Anything slower than linear would not end here."""
    assert max(map(len, content_words(text)), default=0) < 200
    assert isinstance(numbers(text) | dates(text) | names(text), frozenset)
    assert compare("The Eagle landed on July 20, 1969.", Passages([text])).score < 0.45
    assert compare(text[:5000], Passages(["The Eagle has landed."])).score < 0.45


def test_a_very_long_sentence_is_covered_in_pieces_one_can_read() -> None:
    """A page without a full stop is still quoted in readable pieces."""
    text = "grey dust and stones " * 400 + "where the Eagle landed in 1969 " + "grey dust and stones " * 400
    found = compare("The Eagle landed in 1969", Passages([text]))
    assert found.score > 0.8
    assert all(end - start < 700 for _, start, end in found.sentences)


def test_passages_use_the_tokeniser_they_are_given() -> None:
    """That is how a judge remembers texts it has seen."""
    seen: list[str] = []

    def tokenise(text: str) -> Tokens:
        seen.append(text)
        return Tokens(text)

    assert compare("dust", Passages(["grey dust"], tokenise)).score == 1
    assert seen == ["grey dust", "dust"]


def test_the_same_text_is_scored_the_same_in_every_process() -> None:
    """Sets have an order of their own in each process; no score may depend on it."""
    program = (
        "from groundtrace.lexical import Passages, compare\nfrom groundtrace.lexical.words import stem\n"
        "text = 'Grey dust lay on the Moon. The Eagle landed in 1969. Dust lay on the Eagle. Moon dust is grey.'\n"
        "print(compare('In 1969 the Eagle landed in grey Moon dust, said Aldrin.', Passages([text, text])))\n"
        "print([stem(word) for word in ('1,2', '3,4,5', '7,8', '12,9')])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
    assert Comparison.__name__ in told.pop()
