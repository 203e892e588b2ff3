"""Scores on a real Phoenix: there once however often they are written, read back as they were sent."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from exported import Chosen, Sent
from groundtrace.adapters.phoenix.api import Api
from groundtrace.adapters.phoenix.sink import PhoenixSink
from groundtrace.memory import InMemory
from groundtrace.model import Receipt, Ref, Review, Score, Scorecard, card_id
from groundtrace.plan import Plan
from groundtrace.ports import Sink
from groundtrace.run import run
from groundtrace.testing import SinkContract, sample_card

from .conftest import Desk

RUBRICS = ("source_support", "rag_faithfulness")


def card(sent: Sent, desk: Desk, *scores: Score, **fields: Any) -> Scorecard:
    """A card of a trace that was sent."""
    at = Ref("phoenix", desk.project, sent.trace, sent.root, {"session_id": sent.session} if sent.session else {})
    answer = Ref("phoenix", desk.project, sent.trace, sent.llm)
    rubric = fields.get("rubric", "source_support")
    made = {"ref": at, "id": card_id(at, rubric), "targets": {"root": at, "answer": answer}}
    return sample_card(*scores, **(made | fields))


def written(desk: Desk, *cards: Scorecard, **options: Any) -> list[Receipt]:
    """Write them; one receipt a score."""
    return list(PhoenixSink(desk.project, **options).write(cards))


def held(desk: Desk, kind: str, ident: str) -> dict[str, tuple[float | None, str | None]]:
    """Score and label of each annotation, by name; each name there once."""
    rows = desk.annotations(kind, ident)
    assert len({row["name"] for row in rows}) == len(rows)
    return {row["name"]: (row["result"]["score"], row["result"]["label"]) for row in rows}


class TestContract(SinkContract):
    """What every sink promises; the sample's trace is on Phoenix, and what is written is taken back each time."""

    @pytest.fixture(autouse=True)
    def _there(self, desk: Desk) -> Iterator[None]:
        spans = desk.api.pages("/projects", limit=100)
        known = next((str(row["name"]) for page in spans for row in page if row["name"].startswith("sample-")), None)
        if known is None:
            desk.project = f"sample-{desk.project}"
            desk.send(ids=Chosen([1], [1, 2, 3]))
        desk.project = known or desk.project
        self.desk = desk
        yield
        PhoenixSink(desk.project).undo("source_support")
        assert not desk.annotations("span", f"{1:016x}")
        assert not desk.annotations("trace", f"{1:032x}")

    def make(self) -> Sink:
        """The project."""
        return PhoenixSink(self.desk.project)

    def stored(self) -> Mapping[str, float | None]:
        """What is on the sample's root."""
        found = held(self.desk, "span", f"{1:016x}")
        names = {"citation_precision": "source_support.citation_precision"}
        return {names.get(name, name): score for name, (score, _) in found.items()}


def test_what_was_taken_back_is_written_again(desk: Desk) -> None:
    """A memory says that it was written; Phoenix, that it is there no more."""
    desk.send(2)
    memory = InMemory()
    plan = Plan(sources=f"phoenix:{desk.project}", rubrics="rag_faithfulness", sample=1.0, since="1h")
    (first,) = run(plan, memory=memory).receipts.values()
    assert PhoenixSink(desk.project).undo("rag_faithfulness") > 0
    assert list(run(plan, memory=memory).receipts.values()) == [first]
    assert list(run(plan, memory=memory).receipts.values()) == [{"unchanged": first["written"]}]


def test_a_project_that_is_not_there_takes_nothing(desk: Desk) -> None:
    """It is waited for, for a while: then the name is wrong."""
    (sent,) = desk.send()
    wrong = f"{desk.project}x"
    one = card(sent, desk, ref=Ref("otel", None, sent.trace, sent.root), targets={})
    (told, *_) = PhoenixSink(wrong, sleep=lambda _: None).write([one])
    assert told.state == "failed"
    assert f"did you mean {desk.project!r}?" in told.reason


def test_what_never_left_has_failed(desk: Desk) -> None:
    """Only what was sent can be there."""
    (sent,) = desk.send()
    api = Api("http://127.0.0.1:1", patience=0.0)
    (told, *_) = PhoenixSink(desk.project, api=api).write([card(sent, desk)])
    assert (told.state, "did not answer" in told.reason) == ("failed", True)


def test_written_twice_read_back_once(desk: Desk) -> None:
    """By two runs that know nothing of each other: the second changes nothing."""
    sent = desk.send(3, session=f"s-{desk.project}")
    plan = Plan(sources=f"phoenix:{desk.project}", rubrics=RUBRICS, sample=1.0, since="1h")
    first = run(plan, memory=InMemory())
    before = {one.llm: desk.annotations("span", one.llm) for one in sent}
    second = run(plan, memory=InMemory())
    place = f"phoenix:{desk.project}"
    assert first.receipts == {place: {"written": 24}}
    assert second.receipts == {place: {"unchanged": 24}}
    assert not first.failed
    assert before == {one.llm: desk.annotations("span", one.llm) for one in sent}, "not even a time has changed"
    for one in sent:
        answer, root = held(desk, "span", one.llm), held(desk, "span", one.root)
        assert answer["source_support"] == (3.5, "Strongly Implies")
        assert answer["min_source_support"] == (2, "Weakly Related")
        assert answer["citation_precision"] == (0.5, None)
        assert answer["abstention"] == (None, "not_assessed")
        assert len(answer) == 8
        assert set(root) == {"source_support", "assessed_rag_faithfulness"}, "as many as a table has room for"
        assert held(desk, "trace", one.trace) == root
        assert {name: answer[name] for name in root} == root
        assert not held(desk, "span", one.retriever)
    turns = desk.annotations("session", f"s-{desk.project}")
    assert sorted(row["name"] for row in turns) == ["assessed_rag_faithfulness"] * 3 + ["source_support"] * 3


def test_documents_show_what_backs_the_answer(desk: Desk) -> None:
    """By 1 to 5, and by a number of which Phoenix makes its metrics; one nobody spoke of has a label alone."""
    (one,) = desk.send()
    run(Plan(sources=f"phoenix:{desk.project}", rubrics="source_support", sample=1.0, since="1h"), memory=InMemory())
    rows = desk.documents(one.retriever)
    told = {(row["documentPosition"], row["name"]): (row["score"], row["label"]) for row in rows}
    assert told == {
        (0, "source_support"): (5, "Directly Supports"),
        (0, "supported"): (1, "supported"),
        (1, "source_support"): (2, "Weakly Related"),
        (1, "supported"): (0, "unsupported"),
        (2, "source_support"): (None, "not_assessed"),
        (2, "supported"): (None, "not_assessed"),
    }
    assert "nearly word for word" in rows[0]["explanation"]


def test_a_batch_with_spans_phoenix_does_not_know_is_split(desk: Desk) -> None:
    """Phoenix refuses such a batch whole: what it knows is written all the same, the rest is unconfirmed."""
    sent = desk.send(5)
    gone = [Sent(f"{n:032x}", f"{n:016x}", f"{n:016x}", f"{n + 9:016x}") for n in (0xBAD0, 0xBAD1)]
    cards = [card(one, desk) for one in (gone[0], *sent, gone[1])]
    waits: list[float] = []
    receipts = written(desk, *cards, sleep=waits.append)
    states = {receipt.card_id: receipt.state for receipt in receipts}
    assert [states[one.id] for one in cards] == ["unconfirmed", *["written"] * 5, "unconfirmed"]
    assert all("Phoenix has no span" in str(r.reason) for r in receipts if r.state == "unconfirmed")
    assert waits, "it was waited for"
    assert all(held(desk, "span", one.llm)["source_support"] == (4, "Strongly Implies") for one in sent)


def test_spans_that_are_still_on_their_way_are_waited_for(desk: Desk) -> None:
    """And the project, which comes with the first of them."""
    ids = Chosen([uuid.uuid4().int], [uuid.uuid4().int >> 64 for _ in range(3)])
    trace, spans = f"{ids.traces[0]:032x}", [f"{span:016x}" for span in ids.spans]
    due = card(Sent(trace, *spans), desk)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 1:
            desk.send(ids=ids)

    assert {receipt.state for receipt in written(desk, due, sleep=sleep)} == {"written"}
    assert len(slept) == 1


def test_what_is_not_scored_has_a_label_and_no_number(desk: Desk) -> None:
    """Null, unscored, held for review: each says why, nothing is left empty, nothing becomes a number."""
    null, failed, waiting = desk.send(3)
    bare = Score(name="source_support.citation_precision", value=None, low=0, high=1)
    written(desk, card(null, desk, Score(name="source_support", value=4.25, low=1, high=5), bare))
    reasons = {"status": "unscored", "reason": "judge_failed", "scores": (), "details": {"rationale": "no JSON, twice"}}
    written(desk, card(failed, desk).model_copy(update=reasons))
    review = {"status": "pending_review", "review": (Review(reason="figure_corrected", note="it was wrong twice"),)}
    written(desk, card(waiting, desk).model_copy(update=review))
    assert held(desk, "span", null.llm) == {
        "source_support": (4.25, None),
        "citation_precision": (None, "not_applicable"),
    }
    (row,) = desk.annotations("span", failed.llm)
    assert row["result"] == {"score": None, "label": "unscored", "explanation": "judge_failed: no JSON, twice"}
    (row,) = desk.annotations("trace", waiting.trace)
    assert row["result"]["score"] is None
    assert row["result"]["label"] == "needs_review"
    assert row["result"]["explanation"] == "figure_corrected: it was wrong twice"


def test_a_label_that_is_no_text_is_never_sent(desk: Desk) -> None:
    """One receipt says so; the others of its card are written."""
    (one,) = desk.send()
    odd = Score.model_construct(
        name="source_support.min", value=float("nan"), low=1, high=5, label=None, rationale="", evidence=()
    )
    whole = Score(name="source_support", value=3, low=1, high=5)
    receipts = written(desk, card(one, desk).model_copy(update={"scores": (whole, odd)}))
    assert {receipt.score: receipt.state for receipt in receipts} == {
        "source_support": "written",
        "source_support.min": "failed",
    }
    assert held(desk, "span", one.llm) == {"source_support": (3, None)}


def test_more_annotations_than_phoenix_gives_unasked(desk: Desk) -> None:
    """It lists ten where nobody says how many: all of a span's are looked at before one is written."""
    (one,) = desk.send()
    others = [
        {"span_id": one.llm, "name": f"other {n}", "annotator_kind": "CODE", "result": {"score": n}} for n in range(25)
    ]
    desk.api.call("POST", "/span_annotations", json={"data": others}, params={"sync": "true"})
    scores = [Score(name=f"mine.{'x' * 9}{n}", value=n, low=0, high=20) for n in range(14)]
    due = card(one, desk, Score(name="mine", value=1, low=0, high=20), *scores, rubric="mine")
    assert {receipt.state for receipt in written(desk, due)} == {"written"}
    assert {receipt.state for receipt in written(desk, due)} == {"unchanged"}
    assert len(held(desk, "span", one.llm)) == 25 + 15


def test_a_new_version_takes_the_place_of_the_old(desk: Desk) -> None:
    """And what it has no more is withdrawn: a label, and no number."""
    (one,) = desk.send()
    written(desk, card(one, desk))
    less = card(one, desk, Score(name="source_support", value=2, low=1, high=5, label="Weakly Related"), version="2")
    receipts = written(desk, less)
    assert {receipt.score: receipt.state for receipt in receipts} == {
        "source_support": "written",
        "source_support.citation_precision": "written",
    }
    assert held(desk, "span", one.llm) == {
        "source_support": (2, "Weakly Related"),
        "citation_precision": (None, "withdrawn"),
    }
    assert {receipt.state for receipt in written(desk, less)} == {"unchanged"}


def test_a_better_word_stays(desk: Desk) -> None:
    """A model's score outranks the offline judge's; a number somebody changed there outranks both."""
    first, second = desk.send(2)
    written(desk, card(first, desk, judge_kind="llm"))
    offline = card(first, desk, Score(name="source_support", value=1, low=1, high=5), judge_kind="offline")
    assert {receipt.state for receipt in written(desk, offline)} == {"kept"}
    written(desk, card(second, desk))
    row = next(row for row in desk.annotations("span", second.llm) if row["name"] == "source_support")
    patch = "mutation($input: [PatchAnnotationInput!]!) { patchSpanAnnotations(input: $input) { __typename } }"
    desk.graphql(patch, input=[{"annotationId": row["id"], "score": 1.0, "annotatorKind": "HUMAN"}])
    again = written(desk, card(second, desk, version="2"))
    assert {receipt.score: (receipt.state, receipt.reason) for receipt in again} == {
        "source_support": ("kept", "somebody changed it on Phoenix"),
        "source_support.citation_precision": ("written", None),
    }
    assert held(desk, "span", second.llm)["source_support"][0] == 1


def test_people_find_a_config_for_each_score(desk: Desk) -> None:
    """With its bounds and its direction, given to the project; one that is there and differs is left, and said."""
    (one,) = desk.send()
    worse = Score(name="summary_groundedness.omission_rate", value=0.25, low=0, high=1)
    whole = Score(name="summary_groundedness", value=4, low=1, high=5, label="Good")
    other = {"name": f"mine {desk.project}", "type": "FREEFORM", "optimization_direction": "NONE"}
    desk.api.call("POST", "/annotation_configs", json=other)
    mine = Score(name=other["name"], value=1, low=0, high=2)
    sink = PhoenixSink(desk.project)
    list(
        sink.write(
            [card(one, desk, whole, worse, rubric="summary_groundedness"), card(one, desk, mine, rubric=mine.name)]
        )
    )
    told = desk.api.call("GET", f"/projects/{desk.id}/annotation_configs", params={"limit": 100})["data"]
    configs = {row["name"]: row for row in told}
    assert set(configs) == {"summary_groundedness", "omission_rate", mine.name}
    said = configs["summary_groundedness"]
    assert (said["type"], said["lower_bound"], said["upper_bound"]) == ("CONTINUOUS", 1, 5)
    assert said["optimization_direction"] == "MAXIMIZE"
    assert configs["omission_rate"]["optimization_direction"] == "MINIMIZE"
    assert configs[mine.name]["type"] == "FREEFORM"
    assert [note for note in sink.notes() if mine.name in note]


def test_a_session_phoenix_does_not_know_loses_no_score(desk: Desk) -> None:
    """It is said once, and how many."""
    (one,) = desk.send()
    one.session = f"never-{desk.project}"
    sink = PhoenixSink(desk.project)
    assert {receipt.state for receipt in sink.write([card(one, desk)])} == {"written"}
    assert [note for note in sink.notes() if note.startswith("1 scores are not shown at sessions")]


def test_a_run_is_taken_back(desk: Desk) -> None:
    """Ours and nothing else, by what it is found by."""
    (one,) = desk.send(session=f"s-{desk.project}")
    written(desk, card(one, desk), card(one, desk, rubric="rag_faithfulness"))
    desk.said("span", one.llm, "source_support", score=5)
    assert PhoenixSink(desk.project).undo("source_support") == 3
    rows = desk.annotations("span", one.llm)
    assert sorted((row["name"], row["identifier"]) for row in rows if row["name"] == "source_support") == [
        ("source_support", "visitor")
    ]
    assert "rag_faithfulness" in held(desk, "trace", one.trace)
    assert "source_support" not in held(desk, "trace", one.trace)
    assert [row["name"] for row in desk.annotations("session", one.session)] == ["rag_faithfulness"]


def test_a_card_from_elsewhere(desk: Desk) -> None:
    """Ids are OpenTelemetry's own; what has none has no place, and what names no project says so."""
    (one,) = desk.send()
    at, answer = Ref("otel", trace_id=one.trace, span_id=one.root), Ref("otel", trace_id=one.trace, span_id=one.llm)
    from_file = card(one, desk).model_copy(update={"ref": at, "targets": {"root": at, "answer": answer}})
    assert {receipt.state for receipt in written(desk, from_file)} == {"written"}
    nowhere = list(PhoenixSink().write([from_file]))
    assert {receipt.state for receipt in nowhere} == {"failed"}
    assert "write --to phoenix:PROJECT" in str(nowhere[0].reason)
    foreign = Ref("langsmith", trace_id="b1f0c1de-0000-4000-8000-000000000000")
    lost = written(desk, from_file.model_copy(update={"ref": foreign, "targets": {}}))
    assert {receipt.state for receipt in lost} == {"failed"}
    assert "is no id of a trace" in str(lost[0].reason)
