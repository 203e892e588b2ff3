"""Rows people must see come onto the review list, and what people say on Braintrust comes back."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from groundtrace.adapters.braintrust.api import Api, Place
from groundtrace.adapters.braintrust.columns import Columns, column, is_human, project_scores
from groundtrace.adapters.braintrust.names import name_of
from groundtrace.adapters.braintrust.review import ASSIGNED, DEFAULT_LIST, LISTS, Answers, assignee, flag, flags
from groundtrace.adapters.braintrust.sink import BraintrustSink
from groundtrace.adapters.patience import Refused
from groundtrace.errors import PlanError
from groundtrace.model import Decision, Label, Ref, Review, Score, Scorecard, card_id
from groundtrace.review import decide
from groundtrace.rubrics.catalogue import CATALOGUE
from groundtrace.testing import sample_card
from standins.braintrust import Standin

SOON = Review(reason="major_claim")
NOW = Review(reason="critical_claim", priority="now")


@dataclass
class Stand:
    """A stand-in with one project."""

    server: Standin

    @property
    def project(self) -> str:
        """The project's id."""
        return str(self.server.store.project("ferries")["id"])

    @property
    def place(self) -> Place:
        """Its logs."""
        return Place("project_logs", self.project, self.project, "ferries")

    def api(self) -> Api:
        """A line to it on which nobody waits."""
        return Api(self.server.url, self.server.url, queries=100_000, patience=0)

    def write(self, **row: Any) -> str:
        """Put a row into the logs; its id."""
        given = {"project_id": self.project, "log_id": "g", **row}
        return self.server.store.write([given])[0][0]

    def trace(self, n: int, *rubrics: str, **told: Any) -> list[Scorecard]:
        """The n-th trace, with a card of ours on its root for each rubric, as its scorer spans tell them."""
        self.write(id=f"row{n}", span_id=f"root{n}", root_span_id=f"trace{n}", span_attributes={"type": "task"}, **told)
        return [self.scored(n, rubric, f"root{n}") for rubric in rubrics]

    def scored(self, n: int, rubric: str, span: str) -> Scorecard:
        """A card on a span of the n-th trace."""
        card = about(n, rubric, span)
        ranges = {score.name: {"low": score.low, "high": score.high} for score in card.scores}
        mark = {"card_id": card.id, "rubric": rubric, "scores": ranges}
        self.write(
            id=card.id,
            span_id=card.id[:8],
            root_span_id=f"trace{n}",
            span_parents=[span],
            span_attributes={"type": "score", "purpose": "scorer", "name": name_of(rubric)},
            scores={name_of(rubric): 0.5},
            metadata={"rubric": rubric, "groundtrace": mark},
        )
        return card

    def reviewed(self, n: int, span: str, scores: Mapping[str, Any], **told: Any) -> str:
        """What a person says of a span, on a row of its own, as Braintrust keeps it; the row's id."""
        given = {"root_span_id": f"trace{n}", "span_parents": [span], "span_attributes": {"type": "review"}}
        return self.write(
            id=told.pop("id", str(uuid.uuid4())), span_id=uuid.uuid4().hex[:16], scores=scores, **given, **told
        )

    def comment(self, row: str, text: str, source: str = "app", **metadata: Any) -> None:
        """What a person writes about a row."""
        said = {"_audit_source": source, "_audit_metadata": metadata or None}
        self.write(id=str(uuid.uuid4()), origin={"id": row}, comment={"text": text}, **said)

    def columns(self, *names: str, **told: Any) -> None:
        """Columns somebody set up by hand."""
        for name in names:
            made = {"project_id": self.project, "name": name, "score_type": "slider", **told}
            self.api().call("POST", "/v1/project_score", json=made)

    def said(self, since: int | None = None) -> tuple[list[Label], tuple[str, ...]]:
        """What people said, and what could not be taken."""
        answers = Answers(self.api(), self.place)
        return list(answers.labels(since)), answers.notes()

    def metadata(self, row: str) -> dict[str, Any]:
        """What a row's metadata says."""
        rows = {told["id"]: told for told in self.server.store.rows(("project_logs", self.project))}
        return dict(rows[row]["metadata"])


def about(n: int, rubric: str = "rag_faithfulness", span: str = "", **told: Any) -> Scorecard:
    """A card about a span of the n-th trace."""
    ref = Ref("braintrust", trace_id=f"trace{n}", span_id=span or f"root{n}")
    scores = (
        Score(name=rubric, value=3, low=1, high=5, rationale="one claim is not backed"),
        Score(name=f"{rubric}.claim_support", value=2, low=1, high=5),
    )
    card = sample_card(*scores, rubric=rubric, **told)
    return card.model_copy(update={"id": card_id(ref, rubric), "ref": ref, "targets": {"root": ref}})


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in, and the environment of somebody who has a key for it."""
    for name in ("API_URL", "APP_URL", "ORG_NAME"):
        monkeypatch.delenv(f"BRAINTRUST_{name}", raising=False)
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-test")
    server = Standin()
    server.store.project("ferries")
    yield Stand(server)
    server.close()


# --- onto the list ----------------------------------------------------------------------------------------------------


def test_a_row_people_must_see_is_pending(stand: Stand) -> None:
    """By the merge that Braintrust documents: what else the metadata holds stays."""
    stand.trace(1, metadata={"prompt_version": "7"})
    (row,) = stand.server.store.rows(("project_logs", stand.project))
    event = flag(about(1, review=(SOON,)), row)
    assert event == {
        "id": "row1",
        "metadata": {LISTS: {DEFAULT_LIST: {"status": "PENDING"}}},
        "_is_merge": True,
        "_merge_paths": [["metadata", LISTS]],
    }
    stand.api().insert(stand.place, [event])
    assert stand.metadata("row1") == {"prompt_version": "7", LISTS: {DEFAULT_LIST: {"status": "PENDING"}}}
    (row,) = stand.server.store.rows(("project_logs", stand.project))
    assert flag(about(1, review=(SOON,)), row) is None


@pytest.mark.parametrize("status", ["PENDING", "APPROVED", "REJECTED", "something new"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_row_on_the_list_is_left_as_it_is(status: str, *, whole: bool) -> None:
    """Nothing is asked twice, nobody is assigned anew; whether the metadata was read whole or in parts."""
    lists = {DEFAULT_LIST: {"status": status}}
    row = {"id": "r", "metadata": {LISTS: lists}} if whole else {"id": "r", f"metadata.{LISTS}": lists}
    assert flag(about(1, review=(NOW,)), row, "u1") is None


def test_other_lists_and_who_is_assigned_are_kept() -> None:
    """A merge replaces what is under its path, and arrays: so both are sent whole."""
    row = {"id": "r", "metadata": {LISTS: {"mine": {"status": "APPROVED"}}, ASSIGNED: ["u0"], "model": "m"}}
    event = flag(about(1, review=(SOON,)), row, "u1")
    assert event is not None
    lists = {"mine": {"status": "APPROVED"}, DEFAULT_LIST: {"status": "PENDING"}}
    assert event["metadata"] == {LISTS: lists, ASSIGNED: ["u0", "u1"]}
    alone = flag(about(1, review=(SOON,)), row)
    assert alone is not None
    assert alone["metadata"] == {LISTS: lists}
    again = flag(about(1, review=(SOON,)), {**row, "metadata": {ASSIGNED: ["u1"]}}, "u1")
    assert again is not None
    assert ASSIGNED not in again["metadata"]


@pytest.mark.parametrize(
    "metadata", [{LISTS: ["a list"]}, {LISTS: {DEFAULT_LIST: "PENDING"}}], ids=["no table", "no entry"]
)
def test_a_list_of_another_form_is_left(metadata: dict[str, Any]) -> None:
    """What is not understood is not replaced."""
    assert flag(about(1, review=(SOON,)), {"id": "r", "metadata": metadata}) is None


def test_cards_nobody_must_see_flag_nothing() -> None:
    """Nor do those that a person decided."""
    row = {"id": "r", "metadata": None}
    assert flag(about(1), row) is None
    assert flag(about(1, review=(SOON,), decided_by="human"), row) is None


def test_a_row_is_flagged_once_the_most_urgent_first() -> None:
    """However many of its cards wait."""
    first, second = {"id": "a", "metadata": None}, {"id": "b", "metadata": None}
    calm, grave = about(1, review=(SOON,)), about(2, review=(NOW,))
    other = about(1, "source_support", review=(SOON,))
    events = flags([(calm, first), (other, first), (grave, second)], "u1")
    assert [event["id"] for event in events] == ["b", "a"]


def test_who_is_assigned_may_be_told_by_address_or_id(stand: Stand) -> None:
    """An address is looked up; who is not there is refused before anything is written."""
    ada = stand.server.store.user("Ada@example.com")
    assert assignee(stand.api(), "Ada@example.com") == ada["id"]
    assert assignee(stand.api(), ada["id"]) == ada["id"]
    for nobody in ("eve@example.com", str(uuid.UUID(int=5))):
        with pytest.raises(PlanError, match="is no user of this organisation"):
            assignee(stand.api(), nobody)


def test_an_id_is_taken_where_users_cannot_be_looked_up(stand: Stand) -> None:
    """A key may lack that permission."""
    stand.server.fail("/v1/user", 403, times=9)
    ident = str(uuid.UUID(int=5))
    assert assignee(stand.api(), ident) == ident


# --- the columns ------------------------------------------------------------------------------------------------------


def test_columns_are_made_once_and_never_changed(stand: Stand) -> None:
    """Choices for levels, sliders for shares; one that is there is its owner's."""
    stand.columns("human_source_support_min", description="mine")
    cards = [about(1), about(2, "source_support"), about(3)]
    columns = Columns(stand.api())
    made = columns.have(stand.project, cards)
    assert "human_rag_faithfulness_claim_support" in made
    assert "human_source_support_min" not in made
    assert columns.have(stand.project, cards) == []
    assert Columns(stand.api()).have(stand.project, cards) == []
    there = {row["name"]: row for row in project_scores(stand.api(), stand.project)}
    assert there["human_source_support_min"]["description"] == "mine"
    assert there["human_source_support_citation_precision"]["score_type"] == "slider"
    support = there["human_source_support"]
    assert support["score_type"] == "categorical"
    assert [told["value"] for told in support["categories"]] == [1, 0.75, 0.5, 0.25, 0]
    assert support["categories"][0]["name"] == "5: Directly Supports"
    names = [told["name"] for told in there["human_rag_faithfulness"]["categories"]]
    assert names == ["5: best", "4", "3", "2", "1: worst"]
    assert {row["method"] for row in stand.server.asked("/v1/project_score")} == {"GET", "POST"}
    assert all(is_human(row) for row in there.values())


def test_columns_that_are_refused_are_asked_for_once(stand: Stand) -> None:
    """A plan may hold few: the rubrics' own scores come first."""
    stand.server.fail("/v1/project_score", 403, skip=3, times=1, method="POST", body="upgrade your plan")
    columns, cards = Columns(stand.api()), [about(1), about(2, "source_support")]
    with pytest.raises(Refused, match="upgrade your plan"):
        columns.have(stand.project, cards)
    there = [row["name"] for row in project_scores(stand.api(), stand.project)]
    assert there[:2] == ["human_rag_faithfulness", "human_source_support"]
    assert columns.have(stand.project, cards) == []


def test_no_column_is_called_like_a_score_of_ours() -> None:
    """It would be overwritten."""
    scores = [told.name for told in CATALOGUE]
    assert not {column(name) for name in scores} & {name_of(name) for name in scores}
    assert len({column(name) for name in scores}) == len(scores)


# --- what comes back --------------------------------------------------------------------------------------------------


def test_what_people_said_is_labels_on_the_scores_own_range(stand: Stand) -> None:
    """Each person's own word, with the comments that stand beside it; not the mean of them."""
    ada = stand.server.store.user("ada@example.com")
    faithful, support = stand.trace(1, "rag_faithfulness", "source_support")
    Columns(stand.api()).have(stand.project, [faithful, support])
    stand.reviewed(1, "root1", {column("rag_faithfulness"): 0.25}, metadata={"user_id": ada["id"]})
    stand.reviewed(1, "root1", {column("source_support"): 1, column("rag_faithfulness"): 0.75}, id="0badcafe-1")
    stand.write(id="row1", _is_merge=True, scores={column("rag_faithfulness"): 0.5, column("source_support"): 1})
    stand.comment("row1", "it invents a date", user_id=ada["id"])
    stand.comment("row1", "a machine's remark", source="external")
    labels, notes = stand.said()
    told = {(label.score, label.who): label for label in labels}
    assert {key: label.value for key, label in told.items()} == {
        ("rag_faithfulness", "ada@example.com"): 2,
        ("source_support", "somebody on Braintrust (0badcafe)"): 5,
        ("rag_faithfulness", "somebody on Braintrust (0badcafe)"): 4,
    }
    assert told["rag_faithfulness", "ada@example.com"].why == "it invents a date"
    assert told["rag_faithfulness", "ada@example.com"].card_id == faithful.id
    assert told["rag_faithfulness", "somebody on Braintrust (0badcafe)"].why == "ada@example.com: it invents a date"
    own = told["source_support", "somebody on Braintrust (0badcafe)"]
    assert (own.card_id, own.label) == (support.id, "Directly Supports")
    assert all(dt.datetime.fromisoformat(label.when).tzinfo for label in labels)
    assert notes == ()


@pytest.mark.parametrize("odd", [5, True, "text", {"text": "a"}, [None, 5, "text"]])
def test_comments_and_audits_of_another_form_cost_no_answer(stand: Stand, odd: Any) -> None:
    """They say nothing; what else people said comes back."""
    (card,) = stand.trace(1, "source_support")
    Columns(stand.api()).have(stand.project, [card])
    ident = stand.reviewed(1, "root1", {column("source_support"): 1})
    rows = stand.server.store.objects["project_logs", stand.project]
    rows[ident] |= {"comments": odd, "audit_data": odd}
    rows["row1"]["comments"] = odd
    labels, _ = stand.said()
    assert [(label.score, label.value, label.why) for label in labels] == [("source_support", 5, "")]


def test_a_number_on_the_row_itself_counts_where_no_review_has_it(stand: Stand) -> None:
    """Which of older data planes, and of one that a project's own column of our name has."""
    (card,) = stand.trace(1, "rag_faithfulness")
    stand.columns(name_of("rag_faithfulness"), column("rag_faithfulness.claim_support"))
    mine = {name_of("rag_faithfulness"): 0, column("rag_faithfulness.claim_support"): 0.5, "helpful": 1}
    stand.write(id="row1", _is_merge=True, scores=mine, metadata={"user_id": "a user of the application"})
    labels, notes = stand.said()
    assert {(label.score, label.value, label.who, label.card_id) for label in labels} == {
        ("rag_faithfulness", 1, "somebody on Braintrust", card.id),
        ("rag_faithfulness.claim_support", 3, "somebody on Braintrust", card.id),
    }
    assert notes == ()


def test_our_own_numbers_are_no_persons(stand: Stand) -> None:
    """A column of our name says nothing of what a scorer wrote under it."""
    stand.trace(1, "rag_faithfulness")
    stand.columns(name_of("rag_faithfulness"))
    assert stand.said() == ([], ())


def test_an_answer_is_about_the_card_of_its_span(stand: Stand) -> None:
    """On a scorer it is that card's; below several cards of a rubric, with none of its own, it is nobody's."""
    stand.trace(1)
    stand.write(id="a", span_id="a", root_span_id="trace1", span_parents=["root1"])
    one, two = (stand.scored(1, "rag_faithfulness", span) for span in ("a", "b"))
    Columns(stand.api()).have(stand.project, [one])
    head = column("rag_faithfulness")
    stand.reviewed(1, "a", {head: 0}, metadata={"user_email": "on a"})
    stand.reviewed(1, two.id[:8], {head: 1}, metadata={"user_email": "on the scorer"})
    stand.reviewed(1, "root1", {head: 0.5})
    labels, notes = stand.said()
    assert {(label.card_id, label.value, label.who) for label in labels} == {
        (one.id, 1, "on a"),
        (two.id, 5, "on the scorer"),
    }
    assert notes == ("answers on Braintrust that are of no card of ours, or of one of several on their span: 1",)


def test_what_cannot_be_mapped_is_counted_and_named(stand: Stand) -> None:
    """Columns of the project's own, traces we never scored, what is no share, comments with no score beside them."""
    stand.trace(1, "rag_faithfulness")
    stand.trace(2)
    stand.columns(column("rag_faithfulness"), "helpful")
    stand.reviewed(1, "root1", {"helpful": 1, "tone": 0, "human_rating": 0.5, column("rag_faithfulness"): None})
    stand.reviewed(2, "root2", {column("rag_faithfulness"): 1})
    stand.trace(3, "rag_faithfulness")
    stand.comment("row1", "beside a number of the project's own")
    stand.comment("row3", "look at this")
    stand.comment("row2", "of a trace that is none of ours")
    labels, notes = stand.said()
    assert labels == []
    assert notes == (
        "answers on Braintrust that are of no card of ours, or of one of several on their span: 1",
        "answers in columns of no score of ours (helpful, human_rating, tone): 3",
        "comments on Braintrust that stand beside no score a person gave: 1",
    )


def test_scores_of_a_plugins_rubric_are_told_by_its_scorer(stand: Stand) -> None:
    """With the range that stands there."""
    (card,) = stand.trace(1, "tone")
    Columns(stand.api()).have(stand.project, [card])
    stand.reviewed(1, "root1", {column("tone"): 0.5, column("tone.claim_support"): 1}, metadata={"user_email": "a@b"})
    labels, _ = stand.said()
    assert {(label.score, label.value) for label in labels} == {("tone", 3), ("tone.claim_support", 5)}


def test_only_what_is_new_is_given(stand: Stand) -> None:
    """By the time in the transaction's id; where that tells none, it is given again, for it may be new."""
    (card,) = stand.trace(1, "rag_faithfulness")
    Columns(stand.api()).have(stand.project, [card])
    row = stand.reviewed(1, "root1", {column("rag_faithfulness"): 0.25}, metadata={"user_email": "a@b"})
    later = int(dt.datetime.now(dt.UTC).timestamp() + 3600) * 10**9
    stored = stand.server.store.objects["project_logs", stand.project][row]
    stored["_xact_id"] = "7"
    assert len(stand.said(later)[0]) == 1
    stored["_xact_id"] = str(0x0DE1 << 48 | (later // 10**9 - 3600) << 16 | 7)
    assert stand.said(later)[0] == []
    assert len(stand.said(later - 2 * 3600 * 10**9)[0]) == 1
    stored["_xact_id"] = str(0x0DE1 << 48 | (later // 10**9 + 60) << 16)
    assert len(stand.said(later)[0]) == 1


def test_a_data_plane_without_comments_tells_its_scores(stand: Stand) -> None:
    """An older one refuses a query for a field it does not know."""
    (card,) = stand.trace(1, "rag_faithfulness")
    Columns(stand.api()).have(stand.project, [card])
    stand.reviewed(1, "root1", {column("rag_faithfulness"): 0.25}, metadata={"user_email": "a@b"})
    stand.server.fail("/btql", 400, times=1, body="unknown field comments")
    labels, notes = stand.said()
    assert [label.value for label in labels] == [2]
    assert notes[0].startswith("this data plane tells no comments")


def test_every_question_is_bounded(stand: Stand) -> None:
    """By time or by trace, with a limit."""
    stand.trace(1, "rag_faithfulness")
    stand.reviewed(1, "root1", {column("rag_faithfulness"): 0.25})
    stand.said()
    asked = [row["body"]["query"] for row in stand.server.asked("/btql")]
    assert len(asked) == 3, "and the first short page is checked to be the last"
    for query in asked:
        assert query["limit"]
        assert any(bound in str(query["filter"]) for bound in ("'created'", "'root_span_id'"))


# --- the whole way ----------------------------------------------------------------------------------------------------


def test_from_the_sink_to_a_person_and_back(stand: Stand) -> None:
    """The root is on the list, the columns are there, and the answer is of the card that was written."""
    ada = stand.server.store.user("ada@example.com")
    stand.trace(1, metadata={"prompt_version": "7"})
    ref = Ref("braintrust", stand.project, "trace1", "root1", {"id": "row1", "object": "project_logs"})
    card = about(1, review=(NOW,)).model_copy(update={"ref": ref, "targets": {"root": ref}})
    calm = about(1, "source_support").model_copy(update={"ref": ref, "targets": {"root": ref}})
    for notes in (("1 trace put onto the review list, 5 human-review columns made",), ()):
        sink = BraintrustSink("ferries", api=stand.api(), review=True, assignee="ada@example.com", sleep=lambda _: None)
        assert {receipt.state for receipt in sink.write([card, calm])} <= {"written", "unchanged"}
        assert sink.notes() == notes
    metadata = stand.metadata("row1")
    assert metadata[LISTS] == {DEFAULT_LIST: {"status": "PENDING"}}
    assert metadata[ASSIGNED] == [ada["id"]]
    assert metadata["prompt_version"] == "7"
    assert stand.metadata(card.id)["priority"] == "now"
    stand.write(id="row1", _is_merge=True, metadata={LISTS: {DEFAULT_LIST: {"status": "APPROVED"}}})
    stand.reviewed(1, "root1", {column("rag_faithfulness"): 0}, metadata={"user_id": ada["id"]})
    stand.comment("row1", "it invents a date", user_id=ada["id"])
    (label,), notes = stand.said()
    assert notes == ()
    assert (label.card_id, label.score, label.value) == (card.id, "rag_faithfulness", 1)
    assert (label.who, label.why) == ("ada@example.com", "it invents a date")
    decided = decide(
        card, Decision(card_id=card.id, state="corrected", who=label.who, when=label.when, labels=(label,))
    )
    sink = BraintrustSink("ferries", api=stand.api(), review=True, sleep=lambda _: None)
    assert {receipt.state for receipt in sink.write([decided])} == {"written"}
    assert {receipt.state for receipt in sink.write([card])} == {"kept"}
    assert stand.metadata("row1")[LISTS] == {DEFAULT_LIST: {"status": "APPROVED"}}


def test_scores_a_plugins_rubric_wrote_come_back_on_their_range(stand: Stand) -> None:
    """As the scorer span that the sink wrote tells it."""
    stand.trace(1)
    ref = Ref("braintrust", stand.project, "trace1", "root1", {"id": "row1", "object": "project_logs"})
    made = sample_card(Score(name="tone", value=3, low=0, high=10), rubric="tone", review=(SOON,))
    card = made.model_copy(update={"id": card_id(ref, "tone"), "ref": ref, "targets": {"root": ref}})
    sink = BraintrustSink("ferries", api=stand.api(), review=True, sleep=lambda _: None)
    assert {receipt.state for receipt in sink.write([card])} == {"written"}
    stand.reviewed(1, "root1", {column("tone"): 0.8}, metadata={"user_email": "a@b"})
    (label,), _ = stand.said()
    assert (label.card_id, label.score, label.value) == (card.id, "tone", 8)
