"""An answer's claims and citations are the ones a reader sees, and every offset quotes the answer."""

from __future__ import annotations

import cProfile
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.citations import abstention, cite, claims
from groundtrace.citations.index import Index
from groundtrace.citations.layout import layout
from groundtrace.citations.markers import find, may_mark
from groundtrace.model import Citation, Mention, Passage

FIXTURES = Path(__file__).parent / "fixtures"
PASSAGES = tuple(Passage(id=f"p{rank}", text="The Moon is far.", rank=rank) for rank in range(1, 6))
PIECES = (
    *(
        "The Moon is far",
        "It is dry.",
        "[1]",
        "[2, 3]",
        "[1-3]",
        "[9]",
        "[p2]",
        "[^1]",
        "[^1]: x\n",
        "【4†s】",
        "[1](http://a.b)",
    ),
    *(" ", "\n", "\r\n", ". ", ", and ", "(", "see ", ")", "**", "`", "```\n", "# ", "> ", "- ", "1. ", "| a | b |\n"),
    *(
        "|---|---|\n",
        "Sources:\n",
        "Sources: ",
        "I don't know. ",
        "but ",
        "Why? ",
        "http://a.b/c?d",
        "([t](http://a.b))",
    ),
    *(
        "<sup>",
        "</sup>",
        "the documents do not mention it",
        "U.S.",
        "é",
        "e\u0301",
        "月は遠い。",
        "\x00",
        "\ud800",
        "\u200b",
        "…",
    ),
    *("(1)", "(2).", "¹", "².", "¹,²", "[0]", "[0, 1]", "x[1]", "<sup>2</sup>", "$", "\\(", "\\)", "1. http://a.b/c\n"),
    *("Source 2", "(Source 3)", "According to ", "Document 1: ", "Sources 1 and 9 ", " states "),
    *("<cite>1</cite>", '<cite id="2">', "</cite>", '<cite id="p3"/>', "<cite>", "<ref>", "[t](https://a.example/1)"),
)
LINKED = (
    *(Passage(id=f"p{rank}", text="", rank=rank, metadata={"url": f"https://a.example/{rank}"}) for rank in (1, 2)),
    Passage(id="7", text="", rank=3, metadata={"title": "t"}),
)
ANSWERS = st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=80)


def unescaped(text: str) -> str:
    r"""A fixture's text, with \n, \r, \x00 and \ud800 made what they stand for."""
    return re.sub(r"\\(?:[nr]|x[0-9a-f]{2}|u[0-9a-f]{4})", lambda found: json.loads(f'"{_in_json(found[0])}"'), text)


def _in_json(escape: str) -> str:
    return escape.replace("\\x", "\\u00")


def cases() -> Iterator[Any]:
    """The fixtures of answers and what they claim, named by file and first line."""
    for path in sorted((FIXTURES / "claims").glob("*.txt")):
        for case in path.read_text("utf-8").rstrip("\n").split("\n===\n"):
            name, _, rest = case.partition("\n")
            answer, _, expected = f"{rest}\n".rpartition("---\n")
            lines = [unescaped(line) for line in expected.splitlines()]
            yield pytest.param(unescaped(answer.removesuffix("\n")), lines, id=f"{path.stem}: {name.strip('# ')}")


def shown(answer: str, citations: tuple[Citation, ...]) -> list[str]:
    """What an answer claims and cites, one line a claim, as the fixtures write it."""
    found = claims(answer, citations)
    lines = [" <- ".join([c.text.replace("\n", "⏎"), *([pointed(c.citations)] if c.citations else [])]) for c in found]
    used = {id(citation) for claim in found for citation in claim.citations}
    loose = tuple(citation for citation in citations if id(citation) not in used)
    return [*lines, f"loose <- {pointed(loose)}"] if loose else lines


def pointed(citations: tuple[Citation, ...]) -> str:
    """Where citations point, a question mark for nowhere."""
    return " ".join(citation.passage_id or "?" for citation in citations)


@pytest.mark.parametrize(("answer", "expected"), list(cases()))
def test_an_answer_claims_and_cites_what_a_reader_sees(answer: str, expected: list[str]) -> None:
    """The fixtures say for each answer its claims in order, each with the passages it cites."""
    held_back = abstention(answer)
    said = [f"abstention: {held_back}"] if held_back else []
    assert said + shown(answer, cite(answer, PASSAGES)) == expected


def test_enough_answers_are_told_apart() -> None:
    """The loop above can't silently find nothing."""
    assert len(list(cases())) >= 60


@pytest.mark.parametrize("line", (FIXTURES / "citations" / "traces.jsonl").read_text("utf-8").splitlines())
def test_the_marks_of_captured_answers_are_found(line: str) -> None:
    """Answers of captured traces: where each mark starts, what it says and which passage it means."""
    gold = json.loads(line)
    passages = [Passage(id=name, text=name, rank=rank) for rank, name in enumerate(gold["passages"], start=1)]
    found = cite(gold["answer"], passages)
    assert [[c.start, c.marker, c.passage_id] for c in found] == gold["citations"]


MARKS: dict[str, Any] = json.loads((FIXTURES / "citations" / "marks.json").read_text("utf-8"))


def described(passages: list[dict[str, Any]]) -> list[Passage]:
    """Passages as the fixtures write them: an id, and what else is known of each."""
    own = {"id", "rank"}
    return [
        Passage(
            id=told["id"],
            text="",
            rank=told.get("rank", rank),
            metadata={key: value for key, value in told.items() if key not in own},
        )
        for rank, told in enumerate(passages, start=1)
    ]


def marked(answer: str, citations: tuple[Citation, ...]) -> list[list[str]]:
    """The marks of an answer in order, each with what it points to and its claim."""
    found: dict[tuple[int, str, str], list[str]] = {}
    for c in citations:
        key = c.start, c.marker or "", answer[c.claim_start : c.claim_end]
        found.setdefault(key, []).append(c.passage_id or "?")
    return [[mark, " ".join(targets), claim] for (_, mark, claim), targets in found.items()]


@pytest.mark.parametrize("case", MARKS["cases"], ids=lambda case: case["name"])
def test_a_mark_is_what_a_reader_takes_for_one(case: dict[str, Any]) -> None:
    """Every spelling of a mark, and beside it what looks like one and is none."""
    found = cite(case["answer"], described(case.get("passages", MARKS["passages"])))
    assert marked(case["answer"], found) == case["marks"]
    assert not found or may_mark(case["answer"])


def test_enough_marks_are_told_apart() -> None:
    """Marks and what is none, both."""
    assert len(MARKS["cases"]) >= 120
    assert sum(not case["marks"] for case in MARKS["cases"]) >= 40


def test_an_answer_counts_as_the_model_was_shown_to() -> None:
    """Where the passages' numbers stood before the model's eyes, [0] is out of range."""
    answer = "It is far [0]. It is dry [1]."
    assert pointed(cite(answer, PASSAGES)) == "p1 p2"
    assert pointed(cite(answer, PASSAGES, counted=True)) == "? p1"


def test_what_is_noted_of_the_whole_answer_adds_nothing_to_a_mark() -> None:
    """A builder that lists the documents its answer refers to says them once more."""
    found = cite("It is far [1].", PASSAGES, [Mention(document_id="p1"), Mention(document_id="p2")])
    assert [(c.origin, c.start, c.passage_id) for c in found] == [("structured", 0, "p2"), ("inline", 10, "p1")]


def test_a_piece_of_a_file_is_told_by_its_words() -> None:
    """All pieces of a file have its address; the quote is of one of them."""
    pieces = [
        Passage(id=f"f{rank}", text=words, rank=rank, metadata={"url": "s3://f"})
        for rank, words in enumerate(("It is far.", "It is dry."), start=1)
    ]
    noted = [Mention(0, 10, document_id="s3://f", quote="It is dry."), Mention(0, 10, document_id="s3://f")]
    assert pointed(cite("It's dry. ", pieces, noted)) == "f2 f1"


SILENCES, DENIALS = (FIXTURES / "citations" / "silences.txt").read_text("utf-8").rstrip("\n").split("\n---\n")


@pytest.mark.parametrize("sentence", SILENCES.splitlines()[1:])
def test_a_sentence_that_nothing_can_be_said_abstains(sentence: str) -> None:
    """In any of the ways assistants have to say so."""
    assert abstention(sentence) == "pure"
    assert claims(sentence, ()) == ()


@pytest.mark.parametrize("sentence", DENIALS.splitlines())
def test_a_denial_is_a_claim(sentence: str) -> None:
    """To say that something is not so is to say something."""
    assert abstention(sentence) is None
    assert [claim.text for claim in claims(sentence, ())] == [sentence]


MENTIONS: dict[str, Any] = json.loads((FIXTURES / "citations" / "mentions.json").read_text("utf-8"))


@pytest.mark.parametrize("case", MENTIONS["cases"], ids=lambda case: case["name"])
def test_what_a_provider_noted_is_cited(case: dict[str, Any]) -> None:
    """Blocks, links, places and words that providers give, on the claims they stand for."""
    passages = [Passage(rank=rank, **passage) for rank, passage in enumerate(MENTIONS["passages"], start=1)]
    found = cite(case["answer"], passages, [Mention(**mention) for mention in case["mentions"]])
    assert [f"{c.origin} {c.start} {c.end} {c.passage_id or '?'}" for c in found] == case["citations"]
    assert [line for line in shown(case["answer"], found) if not line.startswith("loose")] == case["claims"]


# --- laws -------------------------------------------------------------------------------------------------------------


@st.composite
def noted_answers(draw: st.DrawFn) -> tuple[str, list[Mention]]:
    """An answer and what a careless provider might note on it."""
    answer = draw(ANSWERS)
    place = st.none() | st.integers(-2, len(answer) + 2)
    noted = st.builds(
        Mention,
        start=place,
        end=place,
        claim=st.none() | st.just(answer[3:9]) | st.text(max_size=5),
        document=st.none() | st.integers(-1, 7),
        document_id=st.none() | st.sampled_from(["p1", "zz", ""]),
        quote=st.none() | st.sampled_from(["The Moon", "x", ""]),
    )
    return answer, draw(st.lists(noted, max_size=3))


@given(noted_answers())
def test_citations_lie_within_the_answer_and_their_marks_quote_it(noted: tuple[str, list[Mention]]) -> None:
    """For any answer and anything noted on it; nothing raises."""
    answer, mentions = noted
    found = cite(answer, PASSAGES, mentions)
    for citation in found:
        assert 0 <= citation.start <= citation.end <= len(answer)
        assert 0 <= citation.claim_start <= citation.claim_end <= len(answer)
        assert citation.origin == "structured" or answer[citation.start : citation.end] == citation.marker
    assert list(found) == sorted(found, key=lambda citation: (citation.start, citation.end))
    assert sum(c.origin == "structured" for c in found) <= len(mentions)


@given(ANSWERS, st.sampled_from([(), PASSAGES, LINKED]))
def test_a_mark_points_to_passages_there_are_and_its_claim_holds_no_mark(
    answer: str, passages: tuple[Passage, ...]
) -> None:
    """For any answer: ids are ids of passages, claims are trimmed and apart from all marks."""
    found = cite(answer, passages)
    marks = {(citation.start, citation.end) for citation in found}
    known = {passage.id for passage in passages} | {None}
    for citation in found:
        claim = answer[citation.claim_start : citation.claim_end]
        assert citation.passage_id in known
        assert claim == claim.strip()
        assert all(end <= citation.claim_start or start >= citation.claim_end for start, end in marks)


@given(ANSWERS, st.sampled_from([(), PASSAGES, LINKED]))
def test_an_answer_with_marks_is_looked_through_for_them(answer: str, passages: tuple[Passage, ...]) -> None:
    """The quick look before never keeps a mark from being found."""
    assert may_mark(answer) or not find(answer, Index(passages), layout(answer))


@given(noted_answers())
def test_claims_quote_the_answer_never_overlap_and_hold_no_mark(noted: tuple[str, list[Mention]]) -> None:
    """For any answer and anything noted on it."""
    answer, mentions = noted
    citations = cite(answer, PASSAGES, mentions)
    marks = [(c.start, c.end) for c in citations if c.origin == "inline"]
    last = 0
    for number, claim in enumerate(claims(answer, citations), start=1):
        assert claim.id == f"c{number}"
        assert claim.text == answer[claim.start : claim.end] == claim.text.strip() != ""
        assert last <= claim.start
        assert all(end <= claim.start or start >= claim.end for start, end in marks)
        last = claim.end


@given(ANSWERS)
def test_a_citation_and_its_claim_know_the_same_words(answer: str) -> None:
    """Where a mark's claim stands is said once by the citation and once by the claim, and it is the same."""
    for claim in claims(answer, cite(answer, PASSAGES)):
        for citation in claim.citations:
            assert citation.claim_start <= claim.start < claim.end <= citation.claim_end


@given(ANSWERS)
def test_an_answer_abstains_purely_exactly_where_it_claims_nothing(answer: str) -> None:
    """Abstention and claims are two readings of the same statements."""
    held_back = abstention(answer)
    stated = bool(claims(answer, cite(answer, ())))
    assert held_back is None or (held_back == "partial") == stated


@given(ANSWERS, st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=4))
def test_citations_from_elsewhere_break_nothing(answer: str, places: list[tuple[int, int]]) -> None:
    """A record made by hand may hold citations that overlap or lie outside the answer."""
    given_citations = [Citation(marker="x", start=a, end=b, claim_start=0, claim_end=0) for a, b in places]
    last = 0
    for claim in claims(answer, given_citations):
        assert answer[claim.start : claim.end] == claim.text
        assert last <= claim.start
        last = claim.end


# --- numbers, ids and bounds ------------------------------------------------------------------------------------------


def test_numbers_count_passages_by_rank_before_they_are_ids() -> None:
    """A passage whose id is "2" is not meant by [2] where another one is the second."""
    passages = [Passage(id="2", text="", rank=1), Passage(id="1", text="", rank=2), Passage(id="1200", text="", rank=3)]
    assert pointed(cite("It is far [1] and dry [2] and old [1200].", passages)) == "2 1 1200"


def test_ids_are_taken_as_they_are() -> None:
    """Ids may hold blanks, signs and commas."""
    passages = [Passage(id="a, b", text="", rank=1), Passage(id="kb/moon#3", text="", rank=2)]
    assert (
        pointed(cite("It is far [a, b]. It is dry [kb/moon#3]. It is old [kb/moon#44].", passages))
        == "a, b kb/moon#3 ?"
    )


def test_without_passages_numbers_point_nowhere() -> None:
    """A citation where nothing was retrieved is kept, unresolved."""
    assert pointed(cite("It is far [1].", [])) == "?"


def test_a_range_never_makes_more_citations_than_are_plausible() -> None:
    """Neither one range nor a hundred thousand of them."""
    many = [Passage(id=f"m{rank}", text="", rank=rank) for rank in range(1, 61)]
    assert len(cite("It is far [1-60].", many)) == 60
    assert len(cite("It is far [1-999999999].", many)) == 1
    assert len(cite("It is far [1-60]. " * 2000, many)) <= 22_000


def test_a_mark_of_one_passage_points_to_it_however_many_came_before() -> None:
    """An answer of a megabyte cites its last sentence too."""
    found = cite("It is far [1]. " * 20_100, PASSAGES)
    assert {citation.passage_id for citation in found} == {PASSAGES[0].id}


def test_pictures_are_no_marks() -> None:
    """The text that stands for a picture may be a number."""
    assert cite("![1](moon.png)", PASSAGES) == ()


# --- size -------------------------------------------------------------------------------------------------------------


UNITS = (
    *(
        "Apollo 11 landed in 1969 [1], and Collins stayed [2]. ",
        "- item [3]\n",
        "[1]",
        "[",
        "[1 ",
        "`a",
        "```\n",
        "```a\n",
    ),
    *(
        "| a | b [1] |\n",
        "word ",
        " ",
        "\n",
        "月は遠い[1]。",
        "I don't know. ",
        "Why? ",
        "(",
        "([a](b.c)) ",
        "[1](",
        "a:\n",
    ),
    *(
        "<sup>[1]</sup>",
        "[^1]: x\n",
        "Sources:\n[1] x\n",
        "Sources: [1]\n",
        "a\n---\n",
        "|---",
        "|: -",
        "sources  ",
        "~~~a ~",
        "See [1]. ",
        "\ud800. ",
    ),
    *(
        "it is, but it is not; ",
        "**a** ",
        "this is a very long line which is wrapped over here\n",
        "n't ",
        "* ",
        "\x00",
    ),
    *(
        "far (1). ",
        "(1)",
        "far¹. ",
        "¹",
        "<sup>1</sup>",
        "far (Source 1). ",
        "(Source 1",
        "Source 1: a\n",
        "Sources 1, ",
    ),
    *("<cite>1</cite>", '<cite id="1">a', "</cite>", "<cite ", "$a", "$[1]$ ", "\\( ", "\\[ ", "x[1]", "[0]. ", "[[["),
    *("1. http://a.b\n", "[a](http://b.c) ", "[a](", "In Document 1 "),
)


@pytest.mark.parametrize("unit", UNITS)
def test_an_answer_four_times_as_long_is_four_times_the_work(unit: str) -> None:
    """Counted in calls, so that a slow machine changes nothing."""

    def calls(length: int) -> int:
        answer = unit * (length // len(unit))
        profile = cProfile.Profile()
        profile.runcall(lambda: (claims(answer, cite(answer, PASSAGES)), abstention(answer)))
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(16_000) <= 5 * calls(4_000)
