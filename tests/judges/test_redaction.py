"""Nothing that was to stay leaves for a judge, and its quotes are found in the record all the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.citations import cite
from groundtrace.evaluate import evaluate
from groundtrace.judges.combine import Cached, Voting
from groundtrace.judges.redaction import Redacting
from groundtrace.model import Case, Passage, Record, Reply, Scorecard
from groundtrace.rubrics.rag_faithfulness import RagFaithfulness
from groundtrace.rubrics.source_support import LEVELS, SourceSupport
from groundtrace.testing import HOSTILE_TEXTS, JudgeContract, ScriptedJudge, sample_case, sample_record

PASSAGE = "Ms Ada Quill (ada.quill@corvin.example) signed on 4 May; Bo Reed (bo@corvin.example) did not sign."
CLAIM = "Ada Quill signed on 4 May [1]."
SUPPORT = SourceSupport()
_MAIL = re.compile(r"[\w.]+@[\w.]+\w")
_NAME = re.compile(r"\bAda Quill\b|\bBo Reed\b")


def by_kind(text: str) -> str:
    """One placeholder for all of a kind."""
    return _NAME.sub("[PERSON]", _MAIL.sub("[EMAIL]", text))


def numbered(text: str) -> str:
    """One placeholder for each original."""
    names = {"Ada Quill": "PERSON_1", "Bo Reed": "PERSON_2"}
    return _NAME.sub(lambda found: names[found[0]], _MAIL.sub(lambda found: f"<mail {len(found[0])}>", text))


def with_spans(text: str) -> tuple[str, list[tuple[int, int, str]]]:
    """The same, saying where."""
    spans = [(m.start(), m.end(), "[EMAIL]") for m in _MAIL.finditer(text)]
    spans += [(m.start(), m.end(), "[PERSON]") for m in _NAME.finditer(text)]
    return by_kind(text), spans


def dropped(text: str) -> str:
    """Nothing is put in the place."""
    return _NAME.sub("", _MAIL.sub("", text))


def crossed_out(text: str) -> str:
    """A sign for every letter."""
    cross = lambda found: "█" * len(found[0])  # noqa: E731
    return _NAME.sub(cross, _MAIL.sub(cross, text))


WAYS = [by_kind, numbered, with_spans, dropped, crossed_out]
SECRETS = ("Ada", "Quill", "Bo Reed", "corvin")


def record(answer: str = CLAIM, passage: str = PASSAGE, **fields: Any) -> Record:
    """A record that holds names."""
    context = (Passage(id="p1", text=passage, rank=1, metadata={"author": "Bo Reed", "title": "Minutes"}),)
    return sample_record(answer, (passage,), **({"context": context, "citations": cite(answer, context)} | fields))


def judged(script: Any, way: Any, rec: Record | None = None) -> tuple[Scorecard, ScriptedJudge]:
    """The card of a record a redacting judge was asked about, and the judge inside."""
    judge = ScriptedJudge(script)
    (card,) = evaluate([rec or record()], [SUPPORT], Redacting(judge, way))
    return card, judge


def verdict(score: int, quote: str, **fields: Any) -> dict[str, Any]:
    """What a careful judge would write."""
    made: dict[str, Any] = {"score": score, "support_level": LEVELS[score], "rationale": "It is as the passage says."}
    made |= {"key_evidence": quote, "missing_information": None if score == 5 else "more", "confidence": 0.9}
    return made | fields


def quoting(start: str, end: str) -> Callable[[Case], dict[str, Any]]:
    """A judge that quotes what it was shown, from these words to those."""

    def script(case: Case) -> dict[str, Any]:
        text = case.body["passage"]["text"]
        return verdict(4, text[text.index(start) : text.index(end) + len(end)])

    return script


class TestRedacting(JudgeContract):
    """A judge that is shown less is a judge."""

    def make(self) -> Redacting:
        return Redacting(ScriptedJudge("{}", concurrency=4), by_kind)


class TestFailing(JudgeContract):
    """One that may show nothing is one too, apart from asking again."""

    def make(self) -> Redacting:
        return Redacting(ScriptedJudge("{}", concurrency=4), lambda text: 1 // 0)  # type: ignore[return-value,arg-type]

    def test_a_case_asked_again_is_yielded_once(self) -> None:
        """A fault is final."""


@pytest.mark.parametrize("way", WAYS)
def test_nothing_redacted_leaves_and_the_quote_is_found_in_the_record(way: Any) -> None:
    """Whatever stands in the place, the evidence is the record's own words."""
    card, judge = judged(quoting("Ms ", "did not sign."), way)
    for case in judge.heard:
        sent = json.dumps(case.body) + case.render("n") + (case.remark or "")
        assert not [secret for secret in SECRETS if secret in sent]
    (evidence,) = card.findings[0].evidence
    assert card.status == "scored"
    assert (evidence.quote, evidence.match) == (PASSAGE, "exact")
    assert PASSAGE[evidence.start : evidence.end] == PASSAGE
    assert (card.record_id, card.findings[0].slot) == ("sample", "c1>p1")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("start", "end", "stood"), [
    ("signed on", "4 May", "signed on 4 May"),
    ("signed on", "did not sign", "signed on 4 May; Bo Reed (bo@corvin.example) did not sign"),
])  # fmt: skip
def test_a_quote_is_brought_back_by_where_it_stands(way: Any, start: str, end: str, stood: str) -> None:
    """Of two people with one placeholder the right one is meant."""
    card, _ = judged(quoting(start, end), way)
    assert card.findings[0].evidence[0].quote == stood
    assert card.findings[0].evidence[0].match == "exact"


def test_a_quote_that_is_only_nearly_there_stays_so() -> None:
    """Placeholders are put back in their order; the judge's own slip is left in."""
    told = "[PERSON] (([EMAIL]) signed on 4 May; [PERSON] ([EMAIL]) did not sign"
    card, _ = judged(verdict(4, told), by_kind)
    (evidence,) = card.findings[0].evidence
    assert evidence.match == "fuzzy"
    assert evidence.quote.startswith("Ada Quill ((ada.quill@corvin.example) signed")


def test_a_placeholder_nobody_can_tell_apart_is_left() -> None:
    """Nothing is guessed; the gate decides what it is worth."""
    card, _ = judged(verdict(4, "On 4 May [PERSON] and [EMAIL] went home to paint the fence."), by_kind)
    assert card.status == "unscored"
    assert "[PERSON] and [EMAIL] went home" in card.attempts[0].text


def test_a_rationale_names_whom_it_means() -> None:
    """Free words are brought back as well, where a placeholder has one meaning."""
    card, _ = judged(verdict(4, "signed on 4 May", rationale="PERSON_1 did sign, PERSON_12 is unknown."), numbered)
    assert card.findings[0].rationale == "Ada Quill did sign, PERSON_12 is unknown."


def test_what_is_no_quote_is_left_alone() -> None:
    """Keys, labels, numbers, spacing and faults of a reply stay letter for letter."""
    text = '  {"score":4.50, "PERSON_1": "Strongly Implies", "x": "PERSON_1", "x": NaN, "broken": "PERSON_1'
    heard = Redacting(ScriptedJudge(text), numbered).hear([sample_case(body={"claim": "Ada Quill"})], lambda *_: None)
    ((_, reply),) = heard
    assert reply.text == text.replace('"x": "PERSON_1"', '"x": "Ada Quill"')


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("padding", range(100, 121, 3))
def test_the_faults_of_a_reply_do_not_tell_what_was_redacted(way: Any, padding: int) -> None:
    """They quote the reply as it was brought back, cut after 120 characters, wherever that is."""

    def script(case: Case) -> Any:
        shown = case.body["passage"]["text"]
        return verdict(4, "zyx " * (padding // 4) + "q" * (padding % 4) + shown)

    card, judge = judged(script, way)
    assert card.status == "unscored"
    (_, second) = judge.heard
    assert second.remark
    assert not [secret for secret in SECRETS if secret in second.remark]


def test_a_reply_accepted_the_second_time_is_brought_back_too() -> None:
    """The gate sees the case as it was."""
    good = quoting("Ms ", "4 May")
    card, judge = judged(lambda case: good(case) if case.remark else "no JSON", by_kind)
    assert (card.status, len(judge.heard)) == ("scored", 2)
    assert card.findings[0].evidence[0].match == "exact"


def test_ids_and_markers_are_texts_too() -> None:
    """A passage named by a mail address is not sent by its name."""
    passage = Passage(id="ada.quill@corvin.example", text="The tower is 90 metres high.", rank=1)
    answer = "The tower is 90 metres high. It was opened in 1880."
    rec = sample_record(answer, context=(passage,))

    def script(case: Case) -> dict[str, Any]:
        assert "corvin" not in case.render("n")
        named = case.body["passages"][0]["id"]
        span = ["The tower is 90 metres high."]
        scored = {"score": 3, "justification": "Half of it.", "evidence_spans": span}
        null = {"score": None, "justification": "Does not apply.", "evidence_spans": []}
        names = ("citation_accuracy", "abstention_appropriateness", "source_conflict_handling")
        lost = {"claim": "It was opened in 1880.", "closest_retrieved_passage": named, "severity": "minor"}
        made = {"overall_faithfulness_score": 3.0, "unsupported_claims": [lost], "hallucination_flags": []}
        return made | {"dimension_scores": {"claim_support": scored, **dict.fromkeys(names, null)}}

    (card,) = evaluate([rec], [RagFaithfulness()], Redacting(ScriptedJudge(script), by_kind))
    assert card.status == "scored"
    assert card.findings[0].details["unsupported_claims"][0]["closest_retrieved_passage"] == passage.id


@pytest.mark.parametrize("way", [
    lambda text: 1 // 0,
    lambda text: None,
    lambda text: (text, [(0, 10**9, "x")]),
    lambda text: ("another", [(0, 1, "x")]),
    lambda text: (5, []),
    lambda text: (text, [(0, 2, text[:2]), (1, 3, text[1:3])]),
])  # fmt: skip
def test_where_redaction_fails_nothing_is_sent(way: Any) -> None:
    """And the record alone is unscored, with a fault that does not tell what it says."""
    card, judge = judged(verdict(4, "signed"), way)
    assert not judge.heard
    assert (card.status, card.reason) == ("unscored", "judge_failed")
    assert card.findings[0].rationale.startswith("redaction failed, nothing was sent: ")
    assert not [secret for secret in SECRETS if secret in card.findings[0].rationale]


def test_where_the_faults_cannot_be_redacted_the_case_ends() -> None:
    """The second question is not sent."""

    def way(text: str) -> str:
        if text.startswith("- "):
            raise KeyError(text)
        return text

    card, judge = judged("no JSON", way)
    assert len(judge.heard) == 1
    assert (card.status, card.reason) == ("unscored", "judge_failed")
    assert card.findings[0].rationale == "redaction failed, nothing was sent: KeyError"


def test_one_text_that_cannot_be_redacted_costs_one_record() -> None:
    """In a stream of any length."""

    def way(text: str) -> str:
        if "poison" in text:
            raise ValueError
        return text

    records = [record("poison [1]." if n % 3 == 0 else CLAIM, id=f"r{n}") for n in range(2000)]
    judge = ScriptedJudge(quoting("signed", "4 May"), concurrency=8)
    cards = list(evaluate(records, [SUPPORT], Redacting(judge, way)))
    assert len(cards) == 2000
    assert {c.record_id for c in cards if c.status == "unscored"} == {f"r{n}" for n in range(0, 2000, 3)}


def test_who_judged_says_what_was_redacted() -> None:
    """A judge that is shown less is another judge."""
    inner = ScriptedJudge("{}")
    assert Redacting(inner, by_kind).id == f"scripted,redact={__name__}:by_kind"
    assert Redacting(inner, by_kind, name="hide:all").id == "scripted,redact=hide:all"
    card, _ = judged(quoting("signed", "4 May"), by_kind)
    assert card.judge == card.attempts[0].judge


def test_it_combines() -> None:
    """Votes and caches around it see the record, inside it what was left."""
    judge, shelf = ScriptedJudge(quoting("Ms ", "did not sign.")), dict[str, str]()
    for built in (
        Cached(Voting(Redacting(judge, by_kind), 3), shelf),
        Cached(Voting(Redacting(judge, by_kind), 3), shelf),
    ):
        (card,) = evaluate([record()], [SUPPORT], built)
        assert card.findings[0].evidence[0].match == "exact"
    assert len(judge.heard) == 3
    inside: dict[str, str] = {}
    (card,) = evaluate([record()], [SUPPORT], Redacting(Cached(judge, inside), by_kind))
    assert card.findings[0].evidence[0].match == "exact"
    assert not [secret for secret in SECRETS if secret in "".join(inside.values())]


@given(st.text(alphabet="ab .@[]XY", max_size=60), st.data())
def test_any_stretch_is_brought_back_to_where_it_stood(text: str, data: st.DataObject) -> None:
    """Whatever is replaced by whatever: a stretch that cuts no placeholder leads to its own original."""
    secret = re.compile("a[ab]*")
    mark = data.draw(st.sampled_from(["", "X", "[X]", "XYXY"]))

    def way(told: str) -> tuple[str, list[tuple[int, int, str]]]:
        return secret.sub(mark, told), [(m.start(), m.end(), mark) for m in secret.finditer(told)]

    def echo(case: Case) -> dict[str, str]:
        return {"said": case.body["claim"]}

    case = sample_case(body={"claim": text})
    ((_, reply),) = Redacting(ScriptedJudge(echo), way).hear([case], lambda *_: None)
    told = json.loads(reply.text)["said"]
    if way(text)[0].strip():  # what was left out at an edge is no part of a quote
        assert told == (text if mark else re.sub("^a[ab]*|a[ab]*$", "", text))


@pytest.mark.parametrize("way", WAYS)
def test_hostile_texts_go_out_and_come_back(way: Any) -> None:
    """Whatever a record and a reply hold."""
    for text in HOSTILE_TEXTS:
        case = sample_case(body={"claim": f"Ada Quill {text}", "passage": {"id": "p", "text": text, "rank": 3}})
        heard = Redacting(ScriptedJudge(lambda _, said=text: Reply(said, "j")), way).hear([case], lambda *_: None)
        ((same, _),) = heard
        assert same is case
