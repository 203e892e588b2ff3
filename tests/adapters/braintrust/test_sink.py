"""Scores come onto Braintrust's traces once, whole, below rows that are there, and with nobody else's touched."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import braintrust
import pytest

from braintrust_writing import installed, traced
from groundtrace.adapters.braintrust.api import Place
from groundtrace.adapters.braintrust.review import Answers
from groundtrace.adapters.braintrust.sink import CARDS, BraintrustSink
from groundtrace.errors import PlanError
from groundtrace.model import Ref, Review, Score, Scorecard
from groundtrace.ports import Sink
from groundtrace.testing import HOSTILE_TEXTS, SinkContract
from scoring import PROJECT, Stand, about, ref, row_id, span_id, standing, states, trace_id

WAITS = (Review(reason="critical_claim", priority="now"),)


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in that refuses queries without a bound."""
    with standing(monkeypatch, bounded=True) as made:
        yield made


class _AsIfPulled(BraintrustSink):
    """Takes the contract's cards, which are about no trace of Braintrust's, as being about the first one."""

    def write(self, cards: Any) -> Any:
        """Write them there."""
        of = ref(1, None)
        for card in cards:
            yield from super().write([card.model_copy(update={"ref": of, "targets": {"root": of}})])


class TestContract(SinkContract):
    """What `run` relies on."""

    @pytest.fixture(autouse=True)
    def _stands(self, stand: Stand) -> None:
        self.stand = stand
        stand.trace(1)

    def make(self) -> Sink:
        return _AsIfPulled(PROJECT, api=self.stand.api(), sleep=self.stand.time.sleep)

    def stored(self) -> Mapping[str, float | None]:
        return self.stand.scores()


# --- what is written --------------------------------------------------------------------------------------------------


def test_a_card_is_one_scorer_span_below_what_it_is_about(stand: Stand) -> None:
    """With everything a chart groups by, and everything a person needs to trust it."""
    slices = {"prompt_version": "v7", "environment": "prod", "generator_model": "gpt-x", "status": "mine"}
    card = stand.card(7, slices=slices, prompt_hash="abc", confidence=0.9, timestamp="2026-11-02T00:00:00Z")
    assert states(stand.sink().write([card])) == {"written": 2}
    row = stand.scorers()[card.id]
    assert (row["root_span_id"], row["span_parents"]) == (trace_id(7), [span_id(7)])
    assert row["span_id"] == uuid.UUID(card.id).hex[:16]
    assert row["span_attributes"] == {"type": "score", "purpose": "scorer", "name": "groundtrace_source_support"}
    assert row["scores"] == {"groundtrace_source_support": 0.75}
    empty = "groundtrace_source_support_citation_precision"
    assert row["output"] == {"groundtrace_source_support": {"score": 0.75}, empty: {"score": None}}
    root = stand.rows()[row_id(7)]
    end = root["metrics"]["end"]
    assert row["metrics"] == {"groundtrace_source_support_raw": 4, "start": end, "end": end}
    assert row["created"] == root["created"]
    metadata = row["metadata"]
    wanted = {"rubric": "source_support", "version": "1", "prompt_hash": "abc", "judge": "scripted", "card_id": card.id}
    wanted |= {"prompt_version": "v7", "environment": "prod", "model": "gpt-x", "slice_status": "mine"}
    wanted |= {"status": "scored", "confidence": 0.9, "judged_at": "2026-11-02T00:00:00Z"}
    wanted |= {"choice": "Strongly Implies", "rationale": "It follows."}
    assert wanted.items() <= metadata.items()
    said = {"value": 4, "low": 1, "high": 5, "label": "Strongly Implies", "rationale": "It follows."}
    assert metadata["groundtrace_source_support"] == said
    assert metadata[empty] == {"label": "not_applicable", "rationale": "the answer cites nothing"}
    assert metadata["groundtrace"]["content_hash"] == card.content_hash


def test_the_root_is_told_how_its_rubrics_fared_by_one_change(stand: Stand) -> None:
    """Two rubrics of one trace in one batch are one write of its row; nothing else on it changes."""
    bools = {"metrics": {"start": 1.0, "end": 2.5, "tokens": 7}, "tags": ["prod"], "scores": {"theirs": 0.5}}
    stand.trace(1, **bools)
    # Rows that were stored before Braintrust checked their types hold what it refuses today.
    key = ("project_logs", stand.project)
    stand.server.store.objects[key][row_id(1)]["metrics"]["is_byok"] = True
    before = stand.users_rows()
    cards = [about(1, project=stand.project), about(1, project=stand.project, rubric="rag_faithfulness")]
    assert states(stand.sink().write(cards)) == {"written": 4}
    (events,) = stand.inserts()
    assert [event["id"] for event in events] == [cards[0].id, cards[1].id, row_id(1)]
    assert [event.get("_is_merge") for event in events] == [None, None, True]
    after = stand.users_rows()
    told = after[row_id(1)]["metadata"].pop("groundtrace")
    assert json.dumps(after) == json.dumps(before)
    assert told["rubrics"].keys() == {"source_support", "rag_faithfulness"}
    assert (told["worst"], told["flagged"]) == (0.75, False)
    assert told["rubrics"]["source_support"] == {
        "score": 0.75, "label": "Strongly Implies", "lowest": 0.75, "status": "scored", "version": "1",
        "judge": "scripted", "card_id": cards[0].id,
    }  # fmt: skip
    assert len({row["_xact_id"] for row in stand.server.store.rows(key) if row["id"] in (cards[0].id, row_id(1))}) == 1


def test_a_later_rubric_joins_what_the_root_knows(stand: Stand) -> None:
    """The worst of all, whenever they came; what a root knows already is not sent again."""
    list(stand.sink().write([stand.card(1)]))
    low = Score(name="rag_faithfulness", value=2, low=1, high=5)
    later = about(1, low, project=stand.project, rubric="rag_faithfulness", review=WAITS)
    list(stand.sink().write([later]))
    told = stand.users_rows()[row_id(1)]["metadata"]["groundtrace"]
    assert (told["worst"], told["flagged"]) == (0.25, True)
    assert told["rubrics"].keys() == {"source_support", "rag_faithfulness"}
    (_, change) = stand.inserts()[-1]
    assert change["metadata"]["groundtrace"].keys() == {"rubrics", "worst", "flagged"}
    assert change["metadata"]["groundtrace"]["rubrics"].keys() == {"rag_faithfulness"}


def test_a_root_that_was_not_told_is_told_the_next_time(stand: Stand) -> None:
    """Though no score changes."""
    card = stand.card(1)
    list(stand.sink(mirror=False).write([card]))
    assert "groundtrace" not in stand.users_rows()[row_id(1)]["metadata"]
    assert states(stand.sink().write([card])) == {"unchanged": 2}
    assert "groundtrace" in stand.users_rows()[row_id(1)]["metadata"]
    assert not stand.ghosts()


@pytest.mark.parametrize(
    "theirs",
    [
        *("v2", 0, ["a"], {"version": 3}, {"flagged": "by Ada", "worst": "case"}, {"rubrics": ["a"]}, {"rubrics": "a"}),
        {"rubrics": {"source_support": "on"}},
    ],
)
def test_somebody_elses_groundtrace_in_a_roots_metadata_is_left(stand: Stand, theirs: Any) -> None:
    """It was there before us; of the scores none is lost for it."""
    stand.trace(1, metadata={"groundtrace": theirs})
    assert states(stand.sink().write([about(1, project=stand.project), stand.card(2)])) == {"written": 4}
    assert stand.users_rows()[row_id(1)]["metadata"] == {"groundtrace": theirs}
    assert "worst" in stand.users_rows()[row_id(2)]["metadata"]["groundtrace"]


def test_what_could_not_be_scored_has_no_number_and_says_why(stand: Stand) -> None:
    """And is no error of the application's."""
    bare = stand.card(1, status="unscored", reason="context_off").model_copy(update={"scores": ()})
    assert states(stand.sink().write([bare])) == {"written": 1}
    (row,) = stand.scorers().values()
    assert (row["scores"], row["error"]) == ({}, None)
    assert row["output"] == {"status": "unscored", "reason": "context_off"}
    assert (row["metadata"]["reason"], row["metadata"]["rationale"]) == ("context_off", "context_off")


def test_a_held_card_shows_nothing_its_score_could_be_guessed_from(stand: Stand) -> None:
    """A flag, and no number anywhere: not on the span, not on the root."""
    held = stand.card(1, status="pending_review", confidence=0.1, root_cause="generation", review=WAITS)
    list(stand.sink().write([held]))
    (row,) = stand.scorers().values()
    assert row["scores"] == {}
    assert row["metrics"].keys() == {"start", "end"}
    assert not {"confidence", "root_cause"} & row["metadata"].keys()
    assert row["metadata"]["choice"] == "needs_review"
    told = stand.users_rows()[row_id(1)]["metadata"]["groundtrace"]
    assert not {"score", "lowest", "label"} & told["rubrics"]["source_support"].keys()
    assert told["flagged"] is True


def test_a_long_rationale_is_cut_and_says_so(stand: Stand) -> None:
    """No row is without bounds."""
    score = Score(name="source_support", value=2, low=1, high=5, rationale="because " * 5000)
    list(stand.sink().write([stand.card(1, score)]))
    (row,) = stand.scorers().values()
    assert len(row["metadata"]["rationale"].encode()) <= 10_000
    assert "(cut: 40000 characters in all)" in row["metadata"]["rationale"]


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_texts_arrive_and_change_nothing_the_second_time(stand: Stand, text: str) -> None:
    """Half characters, controls and marks of our own, in every text of a card."""
    score = Score(name="source_support", value=2.1, low=1, high=5, rationale=text, label=text[:50])
    card = stand.card(1, score, slices={text[:50]: text}, judge=text[:50], version=text[:20])
    assert states(stand.sink().write([card])) == {"written": 1}
    assert states(stand.sink().write([card])) == {"unchanged": 1}
    assert len(stand.inserts()) == 1
    assert "\x00" not in json.dumps(stand.scorers(), ensure_ascii=False)


def test_1357_a_score_that_is_no_number_is_refused_before_it_is_sent(stand: Stand) -> None:
    """NaN, an infinity, one out of its range: alone, named, and beside good ones that are written."""
    good = Score(name="source_support.citation_precision", value=0.5, low=0, high=1)
    cards = []
    for n, value in enumerate((float("nan"), float("inf"), 7.0, "0.5")):
        bad = Score.model_construct(
            name="source_support", value=value, low=1.0, high=5.0, label=None, rationale="", evidence=()
        )
        cards.append(_hashed(stand.card(n, good), (bad, good)))
    receipts = list(stand.sink().write([*cards, stand.card(9)]))
    assert states(receipts) == {"failed": 4, "written": 6}
    reasons = [receipt.reason for receipt in receipts if receipt.state == "failed"]
    assert reasons == [
        "a value must be a number, not nan @ $.source_support.value",
        "a value must be a number, not inf @ $.source_support.value",
        "a value must be a number of 1.0 to 5.0, not 7.0 @ $.source_support.value",
        "a value must be a number, not 0.5 @ $.source_support.value",
    ]
    assert {tuple(row["scores"]) for key, row in stand.scorers().items() if key != stand.card(9).id} == {
        ("groundtrace_source_support_citation_precision",)
    }
    assert not [told for told in stand.server.requests if "nan" in json.dumps(told["body"]).lower()]


def _hashed(card: Scorecard, scores: tuple[Score, ...]) -> Scorecard:
    """A card with scores no card could be made with, as broken code might hand them over."""
    assert card.content_hash
    broken = card.model_copy(update={"scores": scores})
    object.__getattribute__(broken, "__dict__")["_content_hash"] = card.content_hash
    return broken


def test_two_scores_that_would_have_one_name_are_not_mixed_up(stand: Stand) -> None:
    """The first has it; the other is named. A card of which nothing can be sent fails as one."""
    twins = [Score(name=f"tone{mark}x", value=1, low=0, high=2) for mark in "._"]
    receipts = list(stand.sink().write([stand.card(1, *twins, rubric="tone")]))
    assert [receipt.state for receipt in receipts] == ["written", "failed"]
    assert receipts[1].reason == "tone_x would be called groundtrace_tone_x, as tone.x is"
    bad = Score.model_construct(
        name="source_support", value=9.0, low=1.0, high=5.0, label=None, rationale="", evidence=()
    )
    receipts = list(stand.sink().write([_hashed(stand.card(2, twins[0]), (bad,))]))
    assert [receipt.state for receipt in receipts] == ["failed"]
    assert len(stand.scorers()) == 1


def test_an_unscored_card_says_its_reason_before_what_is_known_of_it(stand: Stand) -> None:
    """Both, in the rationale."""
    told = {"status": "unscored", "reason": "context_off", "details": {"rationale": "no passages were traced"}}
    list(stand.sink().write([stand.card(1, **told).model_copy(update={"scores": ()})]))
    (row,) = stand.scorers().values()
    assert row["metadata"]["rationale"] == "context_off: no passages were traced"


# --- where it goes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["root", "answer", "retrieval"])
def test_scores_go_below_the_span_that_was_asked_for(stand: Stand, target: Any) -> None:
    """A pull keeps the root's row for a whole trace: of another span the row is looked up, in the same query."""
    sink = stand.sink(target=target)
    list(sink.write([stand.card(1)]))
    asked = stand.queries()
    card = stand.card(2)
    list(sink.write([card]))
    row = stand.scorers()[card.id]
    assert row["span_parents"] == [span_id(2, target)]
    assert row["metrics"]["end"] == stand.rows()[row_id(2, target)]["metrics"]["end"]
    assert "groundtrace" in stand.rows()[row_id(2)]["metadata"]
    assert stand.queries() - asked == 2  # what is there, and what has come
    assert not stand.ghosts()


def test_scores_move_where_another_span_is_asked_for(stand: Stand) -> None:
    """The same row, below it."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    assert states(stand.sink(target="answer").write([card])) == {"written": 2}
    assert [row["span_parents"] for row in stand.scorers().values()] == [[span_id(1, "answer")]]
    assert states(stand.sink(target="answer").write([card])) == {"unchanged": 2}


def test_11899_a_trace_that_is_known_by_its_span_alone_gets_its_score_on_the_row(stand: Stand) -> None:
    """Its id is looked up; no new trace appears."""
    stand.trace(1)
    before = stand.users_rows().keys()
    card = about(1, of=ref(1, stand.project, keys={}))
    assert states(stand.sink(project=None).write([card])) == {"written": 2}
    assert stand.scorers()[card.id]["span_parents"] == [span_id(1)]
    assert "groundtrace" in stand.users_rows()[row_id(1)]["metadata"]
    assert stand.users_rows().keys() == before
    assert not stand.ghosts()


def test_11899_ids_of_the_real_sdk_are_told_apart(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A row, a span and a trace have three ids: known by its span it is scored, by that as a row's it is not."""
    with installed(stand, monkeypatch, tmp_path):
        logger = braintrust.init_logger(project=PROJECT)
        traced("When does the ferry leave?")
        logger.flush()
        root = next(row for row in stand.rows().values() if row["is_root"])
        before = stand.rows().keys()
        assert root["id"] not in {root["span_id"], root["root_span_id"]}  # which older SDKs have as one
        at = Ref("braintrust", stand.project, root["root_span_id"], root["span_id"])
        sink = stand.sink()
        wrong = Ref(*(at.platform, at.project, at.trace_id, at.span_id), {"id": root["span_id"]})
        assert states(sink.write([about(1, of=wrong)])) == {"failed": 2}
        assert stand.rows().keys() == before
        card = about(1, of=at)
        assert states(sink.write([card])) == {"written": 2}
        assert stand.rows().keys() == before | {card.id}
        assert stand.scorers()[card.id]["span_parents"] == [root["span_id"]]
        assert not stand.ghosts()


@pytest.mark.parametrize(
    ("ident", "why"),
    [
        (
            span_id(1),
            f"{span_id(1)} is the id of a span, not of a row; the row of the span {span_id(1)} is {row_id(1)}",
        ),
        (row_id(404), f"has no row {row_id(404)} in the trace {trace_id(1)}; the row of the span"),
        (row_id(2), f"the row {row_id(2)} is of the trace {trace_id(2)}, not of {trace_id(1)}"),
    ],
)
def test_11899_a_wrong_id_is_refused_and_nothing_is_written(stand: Stand, ident: str, why: str) -> None:
    """A span's own id, one that is nowhere, another trace's: each with what is right, beside cards that go well."""
    stand.trace(1)
    good = stand.card(2)
    before = stand.users_rows()
    wrong = about(1, of=ref(1, stand.project, keys={"id": ident, "object": "project_logs"}))
    receipts = list(stand.sink(mirror=False).write([wrong, good]))
    assert states(receipts) == {"failed": 2, "written": 2}
    assert why in str(receipts[0].reason)
    assert stand.users_rows() == before
    assert [row["id"] for row in stand.scorers().values()] == [good.id]
    assert not stand.time.slept


def test_a_row_of_which_nothing_is_there_is_refused_after_a_while(stand: Stand) -> None:
    """A trace that was deleted since it was pulled: it does not come back as a ghost."""
    receipts = list(stand.sink().write([about(5, project=stand.project)]))
    assert states(receipts) == {"failed": 2}
    assert f"no row {row_id(5)} in the trace {trace_id(5)}" in str(receipts[0].reason)
    assert not stand.rows()
    assert 10 < sum(stand.time.slept) <= 60


def test_two_spans_of_one_id_are_not_guessed_between(stand: Stand) -> None:
    """Lines of a log share a span's id and are none; a second span is said."""
    stand.trace(1)
    place = {"project_id": stand.project, "log_id": "g", "root_span_id": trace_id(1), "span_id": span_id(1)}
    stand.server.store.write([{"id": "line", **place, "span_attributes": {"type": "log"}}])
    card = about(1, of=ref(1, stand.project, keys={}))
    assert states(stand.sink().write([card])) == {"written": 2}
    stand.server.store.write([{"id": "twin", **place, "span_attributes": {"type": "task"}}])
    receipts = list(stand.sink().write([card.model_copy(update={"version": "2"})]))
    assert states(receipts) == {"failed": 2}
    assert "has 2 rows of the span" in str(receipts[0].reason)


def test_traces_of_opentelemetry_are_found_on_braintrust(stand: Stand) -> None:
    """Their ids are those of the spans it ingested; where only the trace is known it is its root."""
    stand.trace(1)
    stand.trace(2)
    spans = [Ref("otel", None, trace_id(1), span_id(1), {"id": "theirs"}), Ref("otel", None, trace_id(2))]
    cards = [about(n, of=of) for n, of in enumerate(spans, 1)]
    assert states(stand.sink().write(cards)) == {"written": 4}
    assert {tuple(row["span_parents"]) for row in stand.scorers().values()} == {(span_id(1),), (span_id(2),)}


def test_a_span_that_is_ingested_late_gets_its_scores_once(stand: Stand) -> None:
    """Where its row is not known it is waited for."""
    stand.server.visibility_delay = 2.5
    card = about(1, of=ref(1, stand.project, keys={}))
    stand.trace(1)
    stand.server.visibility_delay = 0
    assert states(stand.sink().write([card])) == {"written": 2}
    assert stand.time.slept == [1.0, 2.0]
    assert len(stand.inserts()) == 1


def test_a_span_that_never_comes_is_unconfirmed(stand: Stand) -> None:
    """It is looked for by the next run again; others of the batch are written, and the next batch waits less."""
    sink = stand.sink()
    receipts = list(sink.write([about(5, of=ref(5, stand.project, keys={})), stand.card(6)]))
    assert states(receipts) == {"unconfirmed": 2, "written": 2}
    assert f"has no span {span_id(5)} of the trace" in str(receipts[0].reason)
    stand.time.slept.clear()
    list(sink.write([about(7, of=ref(7, stand.project, keys={}))]))
    assert sum(stand.time.slept) <= 10


def test_scores_go_into_the_experiment_their_trace_is_in(stand: Stand) -> None:
    """Whether the ref says so or the sink does; the logs stay as they are."""
    experiment = stand.server.store.experiment(stand.project, "nightly")["id"]
    stand.trace(1, experiment=experiment)
    pulled = about(1, of=ref(1, stand.project, keys={"id": row_id(1), "object": f"experiment:{experiment}"}))
    assert states(stand.sink(project=None).write([pulled])) == {"written": 2}
    bare = about(1, of=Ref("otel", None, trace_id(1), span_id(1)), rubric="rag_faithfulness")
    assert states(stand.sink(experiment="nightly").write([bare])) == {"written": 2}
    rows = stand.rows("experiment", experiment)
    assert {pulled.id, bare.id} <= rows.keys()
    assert rows[row_id(1)]["metadata"]["groundtrace"]["rubrics"].keys() == {"source_support", "rag_faithfulness"}
    assert not stand.rows()


def test_a_card_of_no_project_fails_alone(stand: Stand) -> None:
    """Of none, where the sink has none either, or of no trace."""
    nowhere = about(1, of=Ref("jsonl", trace_id="line 4"))
    receipts = list(stand.sink(project=None).write([nowhere, stand.card(3)]))
    assert states(receipts) == {"failed": 2, "written": 2}
    assert "write --to braintrust:PROJECT" in str(receipts[0].reason)
    receipts = list(stand.sink().write([about(1, of=Ref("braintrust", stand.project)), stand.card(4)]))
    assert states(receipts) == {"failed": 2, "written": 2}
    assert receipts[0].reason == "it does not say which trace it is of"


def test_a_project_that_is_not_there_is_named_and_not_made(stand: Stand) -> None:
    """With the first card that needs it; making the sink asks nobody."""
    sink = BraintrustSink("nope", api=stand.api())
    assert not stand.server.requests
    receipts = list(sink.write([about(1, of=Ref("otel", None, trace_id(1), span_id(1)))]))
    assert states(receipts) == {"failed": 2}
    assert "'nope' is no project" in str(receipts[0].reason)
    assert [project["name"] for project in stand.server.store.projects.values()] == [PROJECT]


def test_a_name_of_several_projects_is_not_guessed_at(stand: Stand) -> None:
    """A key of several organisations sees each one's; with an address given, none was asked for."""
    stand.server.store.orgs["other"] = "11111111-1111-1111-1111-111111111111"
    stand.server.store.project(PROJECT, "other")
    with pytest.raises(PlanError, match="several organisations") as raised:
        stand.api(url=stand.url).project(PROJECT)
    assert "BRAINTRUST_ORG_NAME" in str(raised.value)
    assert stand.api(url=stand.url, org="test-org").project(PROJECT).id == stand.project


def test_options_that_make_no_sense_are_refused() -> None:
    """Before anything is judged."""
    with pytest.raises(PlanError, match="names no project"):
        BraintrustSink(experiment="nightly")
    with pytest.raises(PlanError, match="without review=true"):
        BraintrustSink(PROJECT, assignee="ada@example.org")
    with pytest.raises(PlanError, match="queries"):
        BraintrustSink(PROJECT, queries=0)


# --- writing again ----------------------------------------------------------------------------------------------------


def test_a_second_run_leaves_exactly_the_same_rows(stand: Stand) -> None:
    """Not a write, and one look for all of them."""
    cards = [stand.card(n) for n in range(1, 41)]
    list(stand.sink().write(cards))
    before, wrote = stand.server.store.rows(("project_logs", stand.project)), len(stand.inserts())
    asked, sink = stand.queries(), stand.sink()
    assert states(sink.write(cards)) == {"unchanged": 80}
    assert stand.server.store.rows(("project_logs", stand.project)) == before
    assert len(stand.inserts()) == wrote
    assert stand.queries() - asked == 2  # the second: whether a short page is the last, asked once a line
    list(sink.write(cards))
    assert stand.queries() - asked == 3


def test_a_changed_rubric_version_updates_in_place(stand: Stand) -> None:
    """The same row, below the same span."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    before = stand.rows()
    newer = card.scores[0].model_copy(update={"value": 2.0, "label": "Weakly Related"})
    changed = card.model_copy(update={"version": "2", "scores": (newer, *card.scores[1:])})
    assert states(stand.sink().write([changed])) == {"written": 2}
    after = stand.rows()
    assert after.keys() == before.keys()
    assert after[card.id]["scores"]["groundtrace_source_support"] == 0.25
    assert (after[card.id]["metadata"]["version"], after[card.id]["metadata"]["choice"]) == ("2", "Weakly Related")
    for name in ("id", "span_id", "root_span_id", "span_parents", "created", "_pagination_key"):
        assert after[card.id][name] == before[card.id][name]
    told = after[row_id(1)]["metadata"]["groundtrace"]
    assert (told["worst"], told["rubrics"]["source_support"]["version"]) == (0.25, "2")
    assert states(stand.sink().write([changed])) == {"unchanged": 2}


def test_a_score_that_is_no_longer_given_is_cleared(stand: Stand) -> None:
    """Left out the first time, null the next; so it is where the card is held, and it is withdrawn with a receipt."""
    precise = Score(name="source_support.citation_precision", value=0.5, low=0, high=1)
    card = stand.card(1, stand.card(1).scores[0], precise)
    list(stand.sink().write([card]))
    gone = card.model_copy(update={"scores": stand.card(1).scores})
    assert states(stand.sink().write([gone])) == {"written": 2}
    name = "groundtrace_source_support_citation_precision"
    assert stand.scorers()[card.id]["scores"] == {"groundtrace_source_support": 0.75, name: None}
    held = card.model_copy(update={"status": "pending_review"})
    receipts = list(stand.sink().write([held]))
    assert {receipt.score: receipt.state for receipt in receipts} == {
        "source_support": "written",
        "source_support.citation_precision": "written",
    }
    assert not [score for score in stand.scorers()[card.id]["scores"].values() if score is not None]
    told = stand.users_rows()[row_id(1)]["metadata"]["groundtrace"]
    assert (told["worst"], told["rubrics"]["source_support"]["score"]) == (None, None)
    writes = len(stand.inserts())
    assert states(stand.sink().write([held])) == {"unchanged": 2}
    assert len(stand.inserts()) == writes


def test_a_card_that_publishes_nothing_leaves_nothing(stand: Stand) -> None:
    """Where nothing was before; what an earlier version said is withdrawn, and trouble is told of it all the same."""
    whole = stand.card(1)
    empty = Score(name="source_support", value=None, low=1, high=5)
    bare = whole.model_copy(update={"partial": True, "scores": (empty,)})
    assert states(stand.sink().write([bare])) == {"unchanged": 1}
    assert not stand.inserts()
    list(stand.sink().write([whole]))
    assert states(stand.sink().write([bare])) == {"written": 2}
    assert not [score for score in stand.scorers()[whole.id]["scores"].values() if score is not None]
    lost = about(9, empty, project=stand.project, partial=True)
    assert states(stand.sink().write([lost])) == {"failed": 1}


def test_a_persons_or_a_better_judges_word_is_kept(stand: Stand) -> None:
    """Neither the span nor what the root was told of it is written over."""
    decided = stand.card(1, decided_by="human", judge_kind="human", judge="Ada")
    better = stand.card(2, judge_kind="llm", judge="large")
    list(stand.sink().write([decided, better]))
    before = stand.rows()
    again = [stand.card(1, judge_kind="llm", judge="other"), stand.card(2, judge_kind="offline", judge="offline")]
    stand.server.store.objects[("project_logs", stand.project)][row_id(1)]["metadata"] = before[row_id(1)]["metadata"]
    stand.server.store.objects[("project_logs", stand.project)][row_id(2)]["metadata"] = before[row_id(2)]["metadata"]
    receipts = list(stand.sink().write(again))
    assert states(receipts) == {"kept": 4}
    assert {receipt.reason for receipt in receipts} == {"a person's or a better judge's score stands"}
    assert stand.rows() == before
    # A better judge may.
    assert states(stand.sink().write([stand.card(2, judge_kind="human", judge="Ada")])) == {"written": 2}


@pytest.mark.parametrize("number", [0.1, None])
def test_an_edited_number_is_kept_from_every_later_version(stand: Stand, number: float | None) -> None:
    """Whatever version or judge comes next, and where the score would be withdrawn; a person takes it out too."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    stored = stand.server.store.objects[("project_logs", stand.project)]
    stored[card.id]["scores"]["groundtrace_source_support"] = number
    before = stand.rows()
    newer = card.model_copy(update={"version": "2", "judge": "other", "judge_kind": "llm"})
    for next_one in (newer, card.model_copy(update={"status": "pending_review"}), card):
        receipts = list(stand.sink().write([next_one]))
        assert {receipt.state: receipt.reason for receipt in receipts} == {"kept": "somebody changed it on Braintrust"}
        assert stand.rows() == before


def test_what_people_put_on_our_span_outlives_a_new_version(stand: Stand) -> None:
    """Scores of other names, tags, and that they are to look at it."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    stored = stand.server.store.objects[("project_logs", stand.project)][card.id]
    stored["scores"]["human_source_support"], stored["tags"] = 1, ["odd"]
    lists = {"__bt_default_review_list": {"status": "APPROVED"}}
    stored["metadata"] |= {"~__bt_review_lists": lists, "~__bt_assignments": ["u1"]}
    assert states(stand.sink().write([card.model_copy(update={"version": "2"})])) == {"written": 2}
    row = stand.scorers()[card.id]
    assert (row["scores"]["human_source_support"], row["tags"]) == (1, ["odd"])
    assert (row["metadata"]["~__bt_review_lists"], row["metadata"]["~__bt_assignments"]) == (lists, ["u1"])
    assert row["metadata"]["version"] == "2"


def test_what_people_wrote_on_our_span_outlives_a_new_version(stand: Stand) -> None:
    """What should have come out, and free answers, which Braintrust keeps in the metadata; our own facts are new."""
    card = stand.card(1, slices={"town": "Kiel"})
    list(stand.sink().write([card]))
    stored = stand.server.store.objects[("project_logs", stand.project)][card.id]
    stored["expected"] = {"verdict": "wrong"}
    stored["metadata"] |= {"Why?": "the date is made up", "notes": {"ada": [1]}}
    newer = card.model_copy(update={"version": "2", "slices": {"port": "Kiel"}})
    assert states(stand.sink().write([newer])) == {"written": 2}
    row = stand.scorers()[card.id]
    assert row["expected"] == {"verdict": "wrong"}
    assert (row["metadata"]["Why?"], row["metadata"]["notes"]) == ("the date is made up", {"ada": [1]})
    assert (row["metadata"]["version"], row["metadata"]["port"], "town" in row["metadata"]) == ("2", "Kiel", False)


def test_a_number_people_gave_where_we_gave_none_is_kept(stand: Stand) -> None:
    """A partial card has no headline; a person gives one, and a better judge has one of its own."""
    (empty, part), whole = _partial()
    card = stand.card(1, empty, part, partial=True)
    list(stand.sink().write([card]))
    stored = stand.server.store.objects[("project_logs", stand.project)][card.id]
    stored["scores"]["groundtrace_source_support"] = 0.25
    better = about(1, whole, part, project=stand.project, judge_kind="llm", judge="large")
    assert states(stand.sink().write([better])) == {"kept": 2}
    assert stand.scorers()[card.id]["scores"]["groundtrace_source_support"] == 0.25


def _partial() -> tuple[tuple[Score, Score], Score]:
    empty = Score(name="source_support", value=None, low=1, high=5, rationale="not assessed")
    part = Score(name="source_support.min", value=2, low=1, high=5, rationale="x")
    return (empty, part), empty.model_copy(update={"value": 4, "rationale": "x"})


def test_no_name_of_ours_is_a_columns(stand: Stand) -> None:
    """Though a column has the evading name too."""
    taken = ["groundtrace_source_support", "groundtrace_source_support_auto"]
    for name in taken:
        stand.server.store.scores[name] = {
            "id": name,
            "project_id": stand.project,
            "name": name,
            "score_type": "slider",
        }
    assert states(stand.sink().write([stand.card(1)])) == {"written": 2}
    (row,) = stand.scorers().values()
    assert not {*taken} & {*row["scores"]}
    assert row["scores"]["groundtrace_source_support_auto_auto"] == 0.75


def test_a_name_that_a_column_of_people_has_is_not_ours(stand: Stand) -> None:
    """It gets another, which is said; where the column comes later the score moves, and its old name is cleared."""
    card = stand.card(1)
    list(stand.sink().write([card]))
    column = {"id": "c", "project_id": stand.project, "name": "groundtrace_source_support", "score_type": "slider"}
    stand.server.store.scores["c"] = column
    sink = stand.sink()
    assert states(sink.write([card])) == {"written": 2}
    note = "groundtrace_source_support is a column of people's in this project: ours is groundtrace_source_support_auto"
    assert sink.notes() == (note,)
    scores = stand.scorers()[card.id]["scores"]
    assert scores["groundtrace_source_support"] is None
    assert {name: score for name, score in scores.items() if score is not None} == {
        "groundtrace_source_support_auto": 0.75
    }
    assert states(stand.sink().write([card])) == {"unchanged": 2}


def test_two_versions_of_a_card_in_one_batch_are_written_in_their_order(stand: Stand) -> None:
    """A request never names one row twice."""
    card = stand.card(1)
    newer = card.model_copy(update={"version": "2"})
    receipts = list(stand.sink().write([card, newer, stand.card(2)]))
    assert states(receipts) == {"written": 6}
    assert stand.scorers()[card.id]["metadata"]["version"] == "2"
    for events in stand.inserts():
        assert len({event["id"] for event in events}) == len(events)


def test_many_cards_go_a_hundred_at_a_time(stand: Stand) -> None:
    """Two queries and one request for each hundred."""
    cards = [stand.card(n) for n in range(2 * CARDS + 1)]
    sink = stand.sink()
    assert states(sink.write(cards)) == {"written": 2 * len(cards)}
    assert stand.queries() == 7
    assert [len(events) for events in stand.inserts()] == [2 * CARDS, 2 * CARDS, 2]


# --- people -----------------------------------------------------------------------------------------------------------


def test_what_a_person_must_see_comes_onto_the_review_list(stand: Stand) -> None:
    """With what the root is told, as one change; who is assigned already stays, and nobody is asked twice."""
    ada = stand.server.store.user("ada@example.org")["id"]
    stand.trace(1, metadata={"~__bt_assignments": ["bob"]})
    waiting = about(1, project=stand.project, status="pending_review", review=WAITS)
    sink = stand.sink(review=True, assignee="ada@example.org")
    assert states(sink.write([waiting, stand.card(2)])) == {"written": 4}
    (said,) = sink.notes()
    assert said.startswith("1 trace put onto the review list, ")
    changes = [event for event in stand.inserts()[0] if event.get("_is_merge")]
    assert len({event["id"] for event in changes}) == len(changes) == 2
    metadata = stand.users_rows()[row_id(1)]["metadata"]
    assert metadata["~__bt_review_lists"] == {"__bt_default_review_list": {"status": "PENDING"}}
    assert metadata["~__bt_assignments"] == ["bob", ada]
    assert metadata["groundtrace"]["flagged"] is True
    assert "~__bt_review_lists" not in stand.users_rows()[row_id(2)]["metadata"]
    assert {row["name"] for row in stand.server.store.scores.values()} >= {"human_source_support"}
    writes = len(stand.inserts())
    assert states(stand.sink(review=True, assignee="ada@example.org").write([waiting])) == {"unchanged": 2}
    assert len(stand.inserts()) == writes


def test_trouble_with_review_takes_no_score_back(stand: Stand) -> None:
    """Nobody of that name: the rows are on the list all the same."""
    waiting = stand.card(1, status="pending_review", review=WAITS)
    sink = stand.sink(review=True, assignee="nobody@example.org")
    assert states(sink.write([waiting])) == {"written": 2}
    assert "nobody@example.org" in sink.notes()[0]
    assert "~__bt_review_lists" in stand.users_rows()[row_id(1)]["metadata"]


def test_what_a_person_says_of_a_card_comes_back_as_its_label(stand: Stand) -> None:
    """Of a held card of somebody's own rubric too: the span knows its scores' ranges, and nothing of their numbers."""
    score = Score(name="tone", value=2, low=0, high=4)
    held = stand.card(1, score, rubric="tone", status="pending_review", review=WAITS)
    assert states(stand.sink(review=True).write([held])) == {"written": 1}
    (row,) = stand.scorers().values()
    assert row["metadata"]["groundtrace"]["scores"] == {
        "tone": {"low": 0, "high": 4, "as": "groundtrace_tone", "score": None}
    }
    said = {"id": "said", "root_span_id": trace_id(1), "span_id": "5a1d", "span_parents": [span_id(1)]}
    said |= {"span_attributes": {"type": "review"}, "scores": {"human_tone": 0.75}, "metadata": {"user": "ada"}}
    stand.server.store.write([said | {"project_id": stand.project, "log_id": "g"}])
    place = Place("project_logs", stand.project, stand.project, PROJECT)
    (label,) = Answers(stand.api(), place).labels()
    assert (label.card_id, label.score, label.value) == (held.id, "tone", 3)
