"""Texts are compared in one form, cut into sentences, and every offset leads back to what was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace import text as module
from groundtrace.text import fold, sentences

PIECES = (
    *(
        "The Moon",
        " is far",
        ". ",
        "? ",
        "\n",
        "\r\n",
        "\u2028",
        "- ",
        "1. ",
        "| a |",
        "**",
        "“",
        "'",
        "—",
        "  ",
        "3.5",
    ),
    *("U.S.", "\u00ad", "\u200b", "e\u0301", "ﬁ", "ß", "İ", "¨", "½", "ﷺ", "月は遠い。", "\ud800", "\x00"),
)
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=20).map("".join)
TEXTS = st.text(max_size=80) | MARKDOWN


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("Straße", "strasse"),
        ("“Don’t” ‘you’ «dare» `now`", "'don't' 'you' 'dare' 'now'"),
        ("1990–1995 — well‑known − 5", "1990-1995 - well-known - 5"),
        (" a \t\n b\u00a0 c ", "a b c"),
        ("co\u00adoper\u200bate", "cooperate"),
        ("ﬁnal Ⅳ ５", "final iv 5"),
        ("cafe\u0301", "café"),
        ("\u1112\u1161\u11ab", "한"),
        ("¨x", "¨x"),
        ("a \u200b b", "a b"),
        ("\u200b \ufeff", ""),
        ("\ud800\x00", "\ud800\x00"),
    ],
)
def test_what_a_reader_would_not_call_a_difference_is_gone(written: str, form: str) -> None:
    """Case, typography, invisible characters, runs of blanks and ways to write one letter make no difference."""
    assert fold(written).text == form


@given(TEXTS)
def test_a_folded_text_folds_to_itself(written: str) -> None:
    """The matching form is a form: making it twice changes nothing."""
    form = fold(written).text
    assert fold(form).text == form


@given(TEXTS, st.data())
def test_a_folded_place_leads_back_to_what_it_was_made_from(written: str, data: st.DataObject) -> None:
    """The span of the original that a folded stretch leads to holds all of it."""
    folded = fold(written)
    if folded.text:
        start = data.draw(st.integers(0, len(folded.text) - 1))
        end = data.draw(st.integers(start + 1, len(folded.text)))
        opens, closes = folded.span(start, end)
        assert 0 <= opens < closes <= len(written)
        assert folded.text[start:end].strip() in fold(written[opens:closes]).text


@given(st.text(alphabet="abc DEF.,'", max_size=60))
def test_in_plain_text_the_smallest_place_is_found(written: str) -> None:
    """Where nothing changes its length, offsets are the same on both sides."""
    plain = " ".join(written.split())
    assert fold(plain).text == plain.lower()
    assert [fold(plain).span(at, at + 1) for at in range(len(plain))] == [(at, at + 1) for at in range(len(plain))]


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Dr. Roe met Mr. X at 5 p.m. in Bonn. He left.", ["Dr. Roe met Mr. X at 5 p.m. in Bonn.", "He left."]),
        ("It is 3.5 m, e.g. here. See a.b/c?d=1. End.", ["It is 3.5 m, e.g. here.", "See a.b/c?d=1.", "End."]),
        ("one\ntwo\r\nthree\u2028four\x0bfive", ["one", "two", "three", "four", "five"]),
        ("- dust\n  * rocks\n3) ice\n(4) air\n> said", ["dust", "rocks", "ice", "air", "said"]),
        ("1. First item. Second.", ["First item.", "Second."]),
        ("# Moon\n## Sea ##", ["Moon", "Sea ##"]),
        ("| a. B | c |\n|---|---|\n| d | e |", ["| a. B | c |", "| d | e |"]),
        ("**Bold.** Next *one.* End.", ["**Bold.**", "Next *one.*", "End."]),
        ("Is it? 5. Yes.", ["Is it?", "5. Yes."]),
        ("月は遠い。古い。", ["月は遠い。", "古い。"]),
        ("Far\ud800 away. Dry\x00.", ["Far\ud800 away.", "Dry\x00."]),
        ("A. Lincoln was tall. J. R. R. Tolkien wrote.", ["A. Lincoln was tall.", "J. R. R. Tolkien wrote."]),
        ("--- ... !!!", []),
        ("", []),
        (" \n\t ", []),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(written: str, parts: list[str]) -> None:
    """Abbreviations and decimals end nothing; lines, items and rows do."""
    assert [written[start:end] for start, end in sentences(written)] == parts


@given(TEXTS)
def test_sentences_are_in_order_apart_and_bare(written: str) -> None:
    """Spans never overlap, hold no outer white space and no line break."""
    last = 0
    for start, end in sentences(written):
        assert last <= start < end <= len(written)
        assert written[start:end] == written[start:end].strip()
        assert "\n" not in written[start:end]
        last = end


@given(MARKDOWN)
def test_no_letter_is_lost_between_sentences(written: str) -> None:
    """What stands in no sentence is white space, punctuation or the number of a list item."""
    bounds = [0, *(edge for span in sentences(written) for edge in span), len(written)]
    between = [written[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True)]
    assert not any(c.isalpha() for c in "".join(between))


def test_a_long_line_is_cut_like_a_short_one() -> None:
    """A sentence ends where it ends, however long its line is and wherever a window of it falls."""
    short = "Dr. No met Mr. X in Bonn. He left at 5 p.m. on foot. 月は遠い。"
    expected = [short[start:end] for start, end in sentences(short)]
    long = short * 100
    assert [long[start:end] for start, end in sentences(long)] == expected * 100


@pytest.mark.parametrize("unit", ["It is far. ", "月は遠い。", "word ", "1. ", "\ud800. ", "e\u0301. ", '"', "(a. "])
def test_a_megabyte_reaches_the_library_once_in_pieces_it_can_bear(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes the square of what it is given at once, so each text is given about once, in windows."""
    given: list[int] = []
    library = module.get_sentence_boundaries

    def counting(language: str, piece: str) -> object:
        given.append(len(piece))
        return library(language, piece)

    monkeypatch.setattr(module, "get_sentence_boundaries", counting)
    size = 200_000
    sentences(unit * (size // len(unit)))
    assert sum(given) <= 4 * size
    many = [length for length in given if length > 2000]
    assert len(many) <= 12
