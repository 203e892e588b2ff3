"""Scores come onto a real MLflow's traces once, whole, and with nobody else's word touched."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from groundtrace.adapters.mlflow.sink import MLflowSink
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Finding, Label, Receipt, Ref, Review, Score
from groundtrace.ports import Sink
from groundtrace.testing import HOSTILE_TEXTS, SinkContract, sample_card
from mlflow_house import House, ident, lossy
from servers import Server


@pytest.fixture
def house(mlflow_server: Server) -> House:
    """An experiment of its own."""
    return House(mlflow_server.url)


def states(told: Iterable[Receipt]) -> dict[str, int]:
    """How many scores became what."""
    return dict(Counter(receipt.state for receipt in told))


class TestContract(SinkContract):
    """What `run` relies on."""

    @pytest.fixture(autouse=True)
    def _house(self, house: House) -> None:
        self.house = house
        self.trace_id = "tr-" + "0" * 31 + "1"
        if not house.api.told([self.trace_id]):  # the sample card's trace, once on this server
            span = {"spanId": "0" * 15 + "1", "name": "ask", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
            house.send("0" * 31 + "1", [span])
        for row in house.rows(self.trace_id):
            house.api.call("DELETE", f"/api/3.0/mlflow/traces/{self.trace_id}/assessments/{row['assessment_id']}")

    def make(self) -> Sink:
        return self.house.sink()

    def stored(self) -> Mapping[str, float | None]:
        found = {}
        for row in self.house.rows(self.trace_id):
            value = row["feedback"].get("value")
            found[row["metadata"]["groundtrace.score"]] = value if isinstance(value, float) else None
        return found


# --- what is written --------------------------------------------------------------------------------------------------


def test_an_assessment_says_what_it_is_of_and_who_says_so(house: House) -> None:
    """A number under a short name, why in its rationale, all else as texts."""
    (trace_id,) = house.ask(1)
    finding = Finding(slot="c1>p1", value=4, label="Strongly Implies", rationale="It follows.")
    told = {"prompt_hash": "abc", "confidence": 0.9, "span_id": "00f067aa0ba902b7", "findings": (finding,)}
    card = house.card(trace_id, **told)
    assert states(house.sink().write([card])) == {"written": 2}
    row = house.row(trace_id, "source_support")
    assert (row["feedback"]["value"], row["span_id"]) == (4, "00f067aa0ba902b7")
    assert row["source"] == {"source_type": "LLM_JUDGE", "source_id": "groundtrace/source_support"}
    assert row["rationale"].startswith("Strongly Implies. It follows")
    assert row["rationale"].endswith("(source_support 1 by scripted)")
    facts = row["metadata"]
    wanted = {"identifier": card.feedback_id("source_support"), "card_id": card.id, "judge": "scripted", "low": "1.0"}
    assert {f"groundtrace.{name}": fact for name, fact in wanted.items()}.items() <= facts.items()
    assert json.loads(facts["groundtrace.claims"])[0]["slot"] == "c1>p1"
    empty = house.row(trace_id, "citation_precision")
    assert empty["feedback"] == {"value": "not_applicable"}
    assert "groundtrace.claims" not in empty["metadata"]
    assert all(isinstance(fact, str) for fact in (*facts.values(), *empty["metadata"].values()))


def test_twice_is_once_and_another_version_takes_its_place(house: House) -> None:
    """What is found again is changed, and keeps its id; nothing is told that no longer holds."""
    (trace_id,) = house.ask(1)
    first = house.card(trace_id, confidence=0.9)
    list(house.sink().write([first]))
    before = house.rows(trace_id)
    assert states(house.sink().write([first])) == {"unchanged": 2}
    assert house.rows(trace_id) == before
    score = Score(name="source_support", value=2, low=1, high=5, label="Weakly Related", rationale="It does not.")
    second = house.card(trace_id, score, version="2")
    assert states(house.sink().write([second])) == {"written": 2}
    row = house.row(trace_id, "source_support")
    assert row["assessment_id"] in {one["assessment_id"] for one in before}
    assert (row["feedback"]["value"], row["metadata"]["groundtrace.version"]) == (2, "2")
    assert row["metadata"]["groundtrace.confidence"] == ""
    gone = house.row(trace_id, "citation_precision")
    assert gone["feedback"]["error"]["error_code"] == "withdrawn"
    assert len(house.rows(trace_id)) == 2


def test_what_could_not_be_scored_is_an_error_with_its_reason(house: House) -> None:
    """MLflow counts it as one, and nothing takes it for a zero or for a null."""
    (trace_id,) = house.ask(1)
    bare = house.card(trace_id, status="unscored", reason="context_off").model_copy(update={"scores": ()})
    assert states(house.sink().write([bare])) == {"written": 1}
    row = house.row(trace_id, "source_support")
    assert row["feedback"]["error"]["error_code"] == "context_off"
    assert row["feedback"].get("value") is None
    assert row["rationale"].startswith("context_off")


def test_a_card_a_person_must_decide_on_shows_no_number_and_no_green_true(house: House) -> None:
    """An error that says so, and nothing its score could be guessed from."""
    (trace_id,) = house.ask(1)
    review = (Review(reason="low_confidence", note="two quotes are missing"),)
    held = house.card(trace_id, status="pending_review", confidence=0.1, root_cause="generation", review=review)
    list(house.sink().write([held]))
    (row,) = house.rows(trace_id)
    error = row["feedback"]["error"]
    assert (error["error_code"], error["error_message"]) == ("needs_review", "low_confidence: two quotes are missing")
    told = {name.removeprefix("groundtrace.") for name in row["metadata"]}
    assert not {"confidence", "root_cause", "claims", "label"} & told
    decided = held.model_copy(update={"status": "scored", "judge_kind": "human", "decided_by": "human", "judge": "ada"})
    assert states(house.sink().write([decided])) == {"written": 2}
    row = house.row(trace_id, "source_support")
    assert (row["feedback"]["value"], row["source"]["source_type"]) == (4, "HUMAN")
    assert states(house.sink().write([decided])) == {"unchanged": 2}


@pytest.mark.parametrize("target", ["root", "answer", "retrieval", "trace"])
def test_scores_are_put_on_what_was_asked_for(house: House, target: str) -> None:
    """A span, or none."""
    (trace_id,) = house.ask(1)
    card = house.card(trace_id)
    ids = {name: f"{n}" * 16 for n, name in enumerate(("root", "answer", "retrieval"), 1)}
    placed = card.model_copy(
        update={"targets": {name: Ref("mlflow", house.id, trace_id, i) for name, i in ids.items()}}
    )
    assert states(house.sink(target=target).write([placed])) == {"written": 2}
    assert {row.get("span_id") for row in house.rows(trace_id)} == {ids.get(target)}


def test_another_kind_of_judge_takes_the_place_of_the_one_before(house: House) -> None:
    """Whose word an assessment is can't be changed; the offline judge's does not replace a model's."""
    (trace_id,) = house.ask(1)
    offline = house.card(trace_id, judge_kind="offline", judge="offline")
    model = house.card(trace_id, Score(name="source_support", value=2, low=1, high=5), judge_kind="llm")
    list(house.sink().write([offline]))
    assert house.row(trace_id, "source_support")["source"]["source_type"] == "CODE"
    list(house.sink().write([model]))
    row = house.row(trace_id, "source_support")
    assert (row["source"]["source_type"], row["feedback"]["value"]) == ("LLM_JUDGE", 2)
    assert states(house.sink().write([model])) == {"unchanged": 1}
    (first, *_) = list(house.sink().write([offline]))
    assert (first.state, first.reason) == ("kept", "a person's or a better judge's score stands")
    assert house.row(trace_id, "source_support")["feedback"]["value"] == 2


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_any_text_is_written_and_found_again(house: House, text: str) -> None:
    """Half characters, NULs and markup too; a long one is cut and says so."""
    (trace_id,) = house.ask(1)
    score = Score(name="source_support", value=3, low=1, high=5, label=text[:50] or None, rationale=text)
    finding = Finding(slot="c1", value=3, rationale=text)
    card = house.card(trace_id, score, findings=(finding,), judge=text[:100])
    assert states(house.sink().write([card])) == {"written": 1}
    assert states(house.sink().write([card])) == {"unchanged": 1}


# --- what is not ------------------------------------------------------------------------------------------------------


def test_what_a_person_put_in_its_place_stands(house: House) -> None:
    """MLflow's pages copy all our assessment said, and still it is theirs; it comes back as a label."""
    (trace_id,) = house.ask(1)
    card = house.card(trace_id)
    list(house.sink().write([card]))
    house.edit(house.row(trace_id, "source_support"), 2)
    newer = house.card(trace_id, Score(name="source_support", value=5, low=1, high=5), version="2")
    told = {receipt.score: receipt.state for receipt in house.sink().write([newer])}
    assert told["source_support"] == "kept"
    row = house.row(trace_id, "source_support")
    assert (row["feedback"]["value"], row["source"]["source_id"]) == (2, "ada")
    (label,) = house.source().labels()
    assert label == Label(card_id=card.id, score="source_support", value=2, who="ada", when=label.when)


def test_what_somebody_changed_of_ours_is_kept(house: House) -> None:
    """A number that is not the one we wrote is somebody's, whoever it was."""
    (trace_id,) = house.ask(1)
    card = house.card(trace_id)
    list(house.sink().write([card]))
    row = house.row(trace_id, "source_support")
    house.api.change(trace_id, row["assessment_id"], {"feedback": {"value": 1}}, ["feedback"])
    told = {receipt.score: (receipt.state, receipt.reason) for receipt in house.sink().write([card])}
    assert told["source_support"] == ("kept", "somebody changed it on MLflow")
    (label,) = house.source().labels()
    assert (label.score, label.value, label.who) == ("source_support", 1, "somebody on MLflow")


def test_a_trace_that_is_not_there_is_tried_again(house: House) -> None:
    """It may come; what is none of MLflow's is said to be none."""
    absent = house.card(f"tr-{ident()}")
    strange = sample_card(ref=Ref("langsmith", trace_id="abc"), targets={})
    told = list(house.sink().write([absent, strange]))
    assert {receipt.state for receipt in told if receipt.card_id == absent.id} == {"unconfirmed"}
    assert {receipt.state for receipt in told if receipt.card_id == strange.id} == {"failed"}


def test_traces_that_came_as_files_are_found_by_their_ids(house: House) -> None:
    """OpenTelemetry's id is MLflow's, with a word before it."""
    (trace_id,) = house.ask(1)
    ref = Ref("otel", trace_id=trace_id.removeprefix("tr-"), span_id="00f067aa0ba902b7")
    card = sample_card(ref=ref, targets={"root": ref})
    assert states(house.sink().write([card])) == {"written": 2}
    assert len(house.rows(trace_id)) == 2


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_one_odd_score_keeps_no_other_from_being_written(house: House) -> None:
    """It is named."""
    (trace_id,) = house.ask(1)
    odd = Score(name="source_support", value=3, low=1, high=5).model_copy(update={"label": ["x"]})
    well = Score(name="source_support.min", value=3, low=1, high=5)
    told = {receipt.score: receipt.state for receipt in house.sink().write([house.card(trace_id, odd, well)])}
    assert told == {"source_support": "failed", "source_support.min": "written"}


def test_a_wrong_experiment_or_address_is_heard_of(house: House) -> None:
    """Before anything is written."""
    with pytest.raises(PlanError, match="no experiment"):
        list(MLflowSink("absent", tracking_uri=house.url).write([house.card("tr-1")]))
    sink = MLflowSink(tracking_uri="http://127.0.0.1:9")
    sink.api.rest._patience._seconds = 0.0  # a person would wait a quarter of a minute for it
    with pytest.raises(PlatformError, match="did not answer"):
        list(sink.write([house.card("tr-1")]))


@pytest.mark.parametrize("fate", ["answer", "503", "500"])
def test_what_had_no_answer_is_looked_for_before_it_is_sent_again(house: House, fate: str) -> None:
    """Whether it had arrived or not, it is there once."""
    ids = house.ask(3)
    fates = dict.fromkeys(("POST 1", "POST 3", "POST 4"), fate)
    posts = itertools.count(1)

    def lose(method: str, path: str) -> str:
        return fates.get(f"POST {next(posts)}", "") if path.endswith("/assessments") else ""

    with lossy(house.url, lose) as url:
        waited: list[float] = []
        sink = MLflowSink(house.name, tracking_uri=url, concurrency=1, sleep=waited.append)
        assert states(sink.write([house.card(trace_id) for trace_id in ids])) == {"written": 6}
        sink.api.rest.close()
    assert bool(waited) is (fate != "answer")
    found = Counter((row["trace_id"], row["assessment_name"]) for row in house.rows(*ids))
    assert set(found.values()) == {1}
    assert len(found) == 6


def test_a_server_that_takes_nothing_is_tried_for_a_while_and_then_told_of(house: House) -> None:
    """One write's trouble is all writes' then: the rest is not tried; nothing is doubled later."""
    (trace_id,) = house.ask(1)
    waited: list[float] = []
    with lossy(house.url, lambda _, path: "503" if path.endswith("/assessments") else "") as url:
        sink = MLflowSink(house.name, tracking_uri=url, concurrency=1, sleep=waited.append)
        assert states(sink.write([house.card(trace_id)])) == {"failed": 2}
        sink.api.rest.close()
    assert waited == [1.0, 2.0, 4.0, 8.0, 15.0]
    assert states(house.sink().write([house.card(trace_id)])) == {"written": 2}


# --- what people say --------------------------------------------------------------------------------------------------


def test_people_add_words_of_their_own_and_take_scores_back(house: House) -> None:
    """Beside ours under its name, and that it does not apply; a word that is no score is counted."""
    ids = house.ask(3)
    cards = [house.card(trace_id) for trace_id in ids]
    list(house.sink().write(cards))
    house.say(ids[0], "source_support", 5, who="ben", rationale="it is all there")
    house.edit(house.row(ids[1], "source_support"), "not_applicable")
    house.say(ids[2], "source_support", "nonsense")
    house.say(ids[2], "thumb", value=False)
    source = house.source()
    labels = {label.card_id: label for label in source.labels()}
    first = labels[cards[0].id]
    assert (first.value, first.who, first.why) == (5, "ben", "it is all there")
    assert (labels[cards[1].id].value, labels[cards[1].id].label) == (None, "not_applicable")
    assert cards[2].id not in labels
    assert any("answer on MLflow" in note for note in source.notes())


def test_only_what_was_said_since_is_told(house: House) -> None:
    """By when it was said or changed."""
    (trace_id,) = house.ask(1)
    list(house.sink().write([house.card(trace_id)]))
    said = house.say(trace_id, "source_support", 5)
    import datetime as dt

    moment = dt.datetime.fromisoformat(said["create_time"]).timestamp()
    assert len(list(house.source().labels(int((moment - 1) * 1e9)))) == 1
    assert not list(house.source().labels(int((moment + 1) * 1e9)))
