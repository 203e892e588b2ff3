"""Scores leave as OTLP that OpenTelemetry's own parser reads, once each, beside the span that was judged."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from groundtrace.adapters.otel import OtelSink, OtelSource
from groundtrace.errors import PlanError
from groundtrace.model import Evidence, Ref, Review, Score, Scorecard, Window, card_id
from groundtrace.ports import Sink
from groundtrace.testing import HOSTILE_TEXTS, SinkContract, sample_card

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
ANSWER = Ref("otel", trace_id=TRACE, span_id=SPAN, keys={"response_id": "chatcmpl-1"})
ROOT = Ref("otel", trace_id=TRACE, span_id="00f067aa0ba90200")
STANDARD = {
    "gen_ai.evaluation.name",
    "gen_ai.evaluation.score.value",
    "gen_ai.evaluation.score.label",
    "gen_ai.evaluation.explanation",
    "gen_ai.response.id",
    "error.type",
}


def card(*scores: Score, **fields: Any) -> Scorecard:
    """A card of a trace that came from OpenTelemetry."""
    made = {"ref": ROOT, "targets": {"root": ROOT, "answer": ANSWER}, "timestamp": "2026-11-30T10:00:00.5+00:00"}
    made |= {"id": card_id(ROOT, fields.get("rubric", "source_support")), "judge_kind": "llm"}
    return sample_card(*scores, **(made | fields))


def unscored(**fields: Any) -> Scorecard:
    """A card nobody could judge."""
    return card(status="unscored", reason="context_off", **fields).model_copy(update={"scores": ()})


def parsed(file: Path, message: type[Any]) -> Iterator[Any]:
    """Every line of a file through OpenTelemetry's own messages; unknown fields and wrong types are refused."""
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        yield json_format.Parse(json.dumps(in_base64(json.loads(line))), message())


def in_base64(value: Any) -> Any:
    """OTLP JSON writes ids in hex, protobuf's parser wants base64."""
    if isinstance(value, list):
        return [in_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in ids else in_base64(item)
        for key, item in value.items()
    }


def plain(value: Any) -> Any:
    """An AnyValue as Python has it."""
    kind = value.WhichOneof("value")
    held = getattr(value, kind) if kind else None
    return [plain(item) for item in held.values] if kind == "array_value" else held


def attributes(of: Any) -> dict[str, Any]:
    """Attributes by name; a name said twice would be lost on many platforms."""
    assert len({pair.key for pair in of.attributes}) == len(of.attributes)
    return {pair.key: plain(pair.value) for pair in of.attributes}


def events(sink: OtelSink) -> list[Any]:
    """The log records a sink wrote."""
    return [
        record
        for data in parsed(sink.events, LogsData)
        for of_resource in data.resource_logs
        for of_scope in of_resource.scope_logs
        for record in of_scope.log_records
    ]


def spans(sink: OtelSink) -> list[Any]:
    """The spans a sink wrote."""
    return [
        span
        for data in parsed(sink.spans, TracesData)
        for of_resource in data.resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def write(folder: Path, *cards: Scorecard) -> OtelSink:
    """A sink that wrote these cards."""
    sink = OtelSink(str(folder))
    list(sink.write(cards))
    return sink


class TestContract(SinkContract):
    """What `run` relies on in a sink."""

    @pytest.fixture(autouse=True)
    def _somewhere(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "out"

    def make(self) -> Sink:
        """A sink into a folder that is not there yet."""
        return OtelSink(str(self.folder))

    def stored(self) -> Mapping[str, float | None]:
        """The newest event of each score."""
        held = [attributes(event) for event in events(OtelSink(str(self.folder)))]
        return {
            said["gen_ai.evaluation.name"].removeprefix("groundtrace."): said.get("gen_ai.evaluation.score.value")
            for said in held
        }


# --- events ---------------------------------------------------------------------------------------------------------


def test_an_event_names_the_span_that_was_judged_and_says_it_all(tmp_path: Path) -> None:
    """The standard attributes, the range, who judged by which rubric, and on what evidence."""
    found = [Evidence(quote="a", passage_id="p1", start=0, end=1, match=match) for match in ("exact", "fuzzy")]
    lost = [Evidence(quote="b", match="paraphrase"), Evidence(quote="c")]
    score = Score(
        name="source_support",
        value=4,
        low=1,
        high=5,
        label="Strongly Implies",
        rationale="So.",
        evidence=(*found, *lost),
    )
    judged = card(
        score, judge="gpt-x", prompt_hash="abc", review=(Review(reason="low_support"),), limits="blind",
        source_ids=("p1", "p2"), slices={"environment": "prod"}, batch_id="b1", temperature=0.0,
    )  # fmt: skip
    sink = write(tmp_path, judged)
    (event,) = events(sink)
    assert (event.trace_id.hex(), event.span_id.hex()) == (TRACE, SPAN)
    assert event.event_name == "gen_ai.evaluation.result"
    assert event.body.string_value == "groundtrace.source_support = 4 of 1..5 (Strongly Implies)"
    assert event.time_unix_nano == int(dt.datetime(2026, 11, 30, 10, 0, 0, 500_000, dt.UTC).timestamp() * 1e9)
    assert event.severity_number == 9
    said = attributes(event)
    assert {name: value for name, value in said.items() if name in STANDARD} == {
        "gen_ai.evaluation.name": "groundtrace.source_support",
        "gen_ai.evaluation.score.value": 4.0,
        "gen_ai.evaluation.score.label": "Strongly Implies",
        "gen_ai.evaluation.explanation": "So.",
        "gen_ai.response.id": "chatcmpl-1",
    }
    assert said["gen_ai.evaluation.target"] == "answer"
    assert said["gen_ai.evaluation.evaluator.version"] == "1"
    assert json.loads(said["gen_ai.evaluation.evaluator.source"])["arguments"] == {"judge": "gpt-x"}
    ours = {name.removeprefix("groundtrace."): value for name, value in said.items() if name.startswith("groundtrace.")}
    assert ours == {
        "score.low": 1.0,
        "score.high": 5.0,
        "evidence.located": 2,
        "evidence.paraphrase": 1,
        "evidence.absent": 1,
        "rubric.name": "source_support",
        "rubric.version": "1",
        "prompt.hash": "abc",
        "judge.id": "gpt-x",
        "judge.kind": "llm",
        "judge.temperature": 0.0,
        "judge.limits": "blind",
        "card.id": judged.id,
        "record.id": "sample",
        "feedback.id": judged.feedback_id("source_support"),
        "content.hash": judged.content_hash,
        "batch.id": "b1",
        "status": "scored",
        "partial": False,
        "risk": "normal",
        "decided_by": "full",
        "review": ["low_support"],
        "source_ids": ["p1", "p2"],
        "slice.environment": "prod",
    }


def test_every_score_is_an_event_and_null_is_no_number(tmp_path: Path) -> None:
    """A label says why there is none."""
    first, second = map(attributes, events(write(tmp_path, card())))
    assert first["gen_ai.evaluation.score.value"] == 4.0
    assert "gen_ai.evaluation.score.value" not in second
    assert second["gen_ai.evaluation.score.label"] == "not_applicable"


def test_an_unscored_card_is_an_error_without_a_score(tmp_path: Path) -> None:
    """A warning, with the reason as its type and a sentence beside it."""
    (event,) = events(write(tmp_path, unscored(details={"rationale": "the context was not captured; set X=1"})))
    said = attributes(event)
    assert (event.severity_number, said["error.type"]) == (13, "context_off")
    assert said["gen_ai.evaluation.explanation"] == "the context was not captured; set X=1"
    assert not {"gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"} & said.keys()


def test_a_held_card_is_a_flag_without_a_score(tmp_path: Path) -> None:
    """Somebody must look; nothing counts yet."""
    sink = write(tmp_path, card(status="pending_review", review=(Review(reason="low_support"),)))
    said = attributes(*events(sink))
    assert said["gen_ai.evaluation.score.label"] == "needs_review"
    assert "gen_ai.evaluation.score.value" not in said
    assert "groundtrace.score.low" not in said


@pytest.mark.parametrize(
    ("targets", "name", "ids"),
    [
        ({"root": ROOT, "answer": ANSWER}, "answer", (TRACE, SPAN)),
        ({"root": ROOT}, "root", (TRACE, ROOT.span_id)),
        ({}, "record", (TRACE, ROOT.span_id)),
        ({"root": Ref("otel", trace_id=TRACE)}, "root", (TRACE, "")),
    ],
)
def test_the_target_is_the_answers_span_else_the_root(
    targets: dict[Any, Ref], name: str, ids: tuple[str, str], tmp_path: Path
) -> None:
    """Where dashboards look for it; without a span there is nothing to link, and so no evaluator span."""
    sink = write(tmp_path, card(targets=targets))
    for event in events(sink):
        assert (event.trace_id.hex(), event.span_id.hex()) == ids
        assert attributes(event)["gen_ai.evaluation.target"] == name
    assert len(spans(sink)) == bool(ids[1])


def test_ids_that_are_not_opentelemetrys_stand_in_attributes(tmp_path: Path) -> None:
    """A record of a file, or a run of another platform: nothing is forged into a trace id."""
    ref = Ref("jsonl", trace_id="question-7", span_id="0123456789abcdef")
    for event in events(write(tmp_path, card(ref=ref, targets={}, id=card_id(ref, "source_support")))):
        assert (event.trace_id, event.span_id) == (b"", b"")
        said = attributes(event)
        assert said["groundtrace.target.platform"] == "jsonl"
        assert said["groundtrace.target.trace_id"] == "question-7"
        assert said["groundtrace.target.span_id"] == "0123456789abcdef"


def test_a_card_without_a_time_is_of_now(tmp_path: Path) -> None:
    """An event without a time is lost in most stores."""
    before = dt.datetime.now(dt.UTC).timestamp()
    for event in events(write(tmp_path, card(timestamp=""))):
        assert before - 1 < event.time_unix_nano / 1e9 < before + 60
        assert event.observed_time_unix_nano == event.time_unix_nano


# --- evaluator spans ------------------------------------------------------------------------------------------------


def test_an_evaluator_span_carries_the_card_with_one_link(tmp_path: Path) -> None:
    """A trace of its own, as OpenInference asks; the link alone names the target."""
    judged = card()
    (span,) = spans(write(tmp_path, judged))
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [(TRACE, SPAN)]
    assert span.trace_id.hex() == judged.id.replace("-", "") != TRACE
    assert not span.parent_span_id
    assert span.start_time_unix_nano == span.end_time_unix_nano > 0
    said = attributes(span)
    assert said["openinference.span.kind"] == "EVALUATOR"
    first = {name.rpartition(".")[2]: value for name, value in said.items() if name.startswith("evaluations.0.")}
    told = json.loads(first.pop("metadata"))
    assert first == {
        "name": "groundtrace.source_support",
        "score": 4.0,
        "label": "Strongly Implies",
        "explanation": "It follows.",
        "annotator_kind": "LLM",
        "identifier": "groundtrace.source_support",
    }
    assert told["feedback.id"] == judged.feedback_id("source_support")
    assert (told["score.low"], told["score.high"], told["rubric.version"]) == (1, 5, "1")
    assert said["evaluations.1.evaluation.label"] == "not_applicable"
    assert "evaluations.1.evaluation.score" not in said


def test_an_evaluator_span_says_why_its_card_is_unscored(tmp_path: Path) -> None:
    """As the event does, in the metadata: on the span itself it would be that span's error."""
    (span,) = spans(write(tmp_path, card(status="unscored", reason="judge_failed", scores=())))
    assert json.loads(attributes(span)["evaluations.0.evaluation.metadata"])["error.type"] == "judge_failed"
    assert "error.type" not in attributes(span)


@pytest.mark.parametrize(("kind", "annotator"), [("llm", "LLM"), ("offline", "CODE"), ("human", "HUMAN")])
def test_the_annotator_is_said_in_openinferences_words(kind: Any, annotator: str, tmp_path: Path) -> None:
    """A lexical judge is code."""
    (span,) = spans(write(tmp_path, card(judge_kind=kind)))
    assert attributes(span)["evaluations.0.evaluation.annotator_kind"] == annotator


def test_every_evaluation_has_a_name_and_something_to_say(tmp_path: Path) -> None:
    """Also the one that failed."""
    (span,) = spans(write(tmp_path, unscored()))
    said = attributes(span)
    assert said["evaluations.0.evaluation.name"] == "groundtrace.source_support"
    assert said["evaluations.0.evaluation.explanation"] == "context_off"


# --- once -----------------------------------------------------------------------------------------------------------


def state(folder: Path, *cards: Scorecard) -> list[str]:
    """What became of the cards' scores."""
    return [receipt.state for receipt in OtelSink(str(folder)).write(cards)]


def test_a_second_run_adds_nothing(tmp_path: Path) -> None:
    """Not a byte, whoever runs it and whenever: the time of judging is no content."""
    cards = [card(), card(rubric="rag_faithfulness"), unscored(rubric="factual_accuracy")]
    assert set(state(tmp_path, *cards)) == {"written"}
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    later = [one.model_copy(update={"timestamp": "2027-01-01T00:00:00+00:00", "batch_id": "other"}) for one in cards]
    assert set(state(tmp_path, *later)) == {"unchanged"}
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_changed_card_is_added_as_its_newest_version(tmp_path: Path) -> None:
    """Under the same ids; and back again is a change too."""
    old, new = card(), card(version="2")
    assert [set(state(tmp_path, one)) for one in (old, new, old, old)] == [*[{"written"}] * 3, {"unchanged"}]
    written = [attributes(event) for event in events(OtelSink(str(tmp_path)))]
    assert [said["groundtrace.rubric.version"] for said in written] == ["1", "1", "2", "2", "1", "1"]
    assert len({said["groundtrace.feedback.id"] for said in written}) == 2
    assert len({span.trace_id for span in spans(OtelSink(str(tmp_path)))}) == 1


def test_an_offline_card_does_not_replace_a_models(tmp_path: Path) -> None:
    """It is counted as kept; a person's word stands against both."""
    assert set(state(tmp_path, card())) == {"written"}
    (kept, *_) = OtelSink(str(tmp_path)).write([card(judge_kind="offline")])
    assert kept.state == "kept"
    assert kept.reason
    assert set(state(tmp_path, card(judge_kind="human"))) == {"written"}
    assert set(state(tmp_path, card(version="3"))) == {"kept"}
    assert len(events(OtelSink(str(tmp_path)))) == 4
    assert len(spans(OtelSink(str(tmp_path)))) == 2


def test_what_a_crash_left_undone_is_done_by_the_next_run(tmp_path: Path) -> None:
    """An event without its evaluator span, or a torn line: each file is made whole, nothing is doubled."""
    cards = [card(), card(rubric="rag_faithfulness")]
    sink = write(tmp_path, *cards)
    whole = {file: file.read_bytes() for file in tmp_path.iterdir()}
    sink.spans.write_bytes(whole[sink.spans][: len(whole[sink.spans]) * 2 // 3])
    write(tmp_path, *cards)
    assert sink.events.read_bytes() == whole[sink.events]
    torn, *healed = sink.spans.read_bytes().splitlines()[1:]
    assert whole[sink.spans].splitlines()[0] == sink.spans.read_bytes().splitlines()[0]
    assert whole[sink.spans].splitlines()[1].startswith(torn)
    assert healed == whole[sink.spans].splitlines()[1:]


def test_a_disk_that_takes_nothing_is_a_receipt(tmp_path: Path) -> None:
    """The run goes on, and the report says what failed and why."""
    (tmp_path / "scores.groundtrace.logs.jsonl").symlink_to("/dev/full")
    receipts = list(OtelSink(str(tmp_path)).write([card()]))
    assert {receipt.state for receipt in receipts} == {"failed"}
    assert receipts[0].reason == "No space left on device"


@settings(deadline=None)  # a disk has its own pace
@given(text=st.text() | st.sampled_from(HOSTILE_TEXTS), value=st.floats(1, 5) | st.none())
def test_whatever_a_card_says_is_valid_otlp_and_written_once(
    tmp_path_factory: pytest.TempPathFactory, text: str, value: float | None
) -> None:
    """Other people's text goes through whole, but for half characters."""
    folder = tmp_path_factory.mktemp("any")
    score = Score(name="source_support", value=value, low=1, high=5, rationale=text, label=text or None)
    hostile = card(score, record_id=text, judge=text, slices={"x": text})
    sink = write(folder, hostile)
    (event,) = events(sink)
    assert attributes(event).get("gen_ai.evaluation.score.value") == value
    (span,) = spans(sink)
    assert json.loads(attributes(span)["evaluations.0.evaluation.metadata"])["card.id"] == hostile.id
    assert state(folder, hostile) == ["unchanged"]


# --- places ---------------------------------------------------------------------------------------------------------


def test_no_source_reads_what_a_sink_wrote(tmp_path: Path) -> None:
    """Scores of scores are nobody's wish."""
    write(tmp_path, card())
    source = OtelSource(str(tmp_path))
    assert not list(source.traces(Window(), lambda *_: True))
    assert source.notes()[0].startswith(f"{tmp_path}: holds no trace files")


def test_the_files_are_named_by_their_stem(tmp_path: Path) -> None:
    """Two runs into one folder can be kept apart."""
    sink = OtelSink(str(tmp_path), stem="nightly")
    list(sink.write([card()]))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "nightly.groundtrace.jsonl",
        "nightly.groundtrace.logs.jsonl",
    ]
    with pytest.raises(PlanError, match="file name"):
        OtelSink(str(tmp_path), stem="../elsewhere")


def test_nothing_is_made_before_there_is_something_to_write(tmp_path: Path) -> None:
    """A dry run leaves no trace; a place that can't be written is refused at once."""
    assert not list(OtelSink(str(tmp_path / "new" / "folder")).write([]))
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError, match="is a file"):
        OtelSink(str(tmp_path / "file"))


# --- what no longer stands ------------------------------------------------------------------------------------------


def newest(sink: OtelSink) -> dict[str, tuple[float | None, str | None]]:
    """The newest value and label of each score, in the events; the spans must say the same."""
    told = {}
    for said in map(attributes, events(sink)):
        name = said["gen_ai.evaluation.name"].removeprefix("groundtrace.")
        told[name] = said.get("gen_ai.evaluation.score.value"), said.get("gen_ai.evaluation.score.label")
    in_spans = {}
    for said in map(attributes, spans(sink)):
        for number in range(sum(name.endswith(".name") for name in said)):
            field = f"evaluations.{number}.evaluation"
            name = said[f"{field}.name"].removeprefix("groundtrace.")
            in_spans[name] = said.get(f"{field}.score"), said.get(f"{field}.label")
    assert in_spans == told
    return told


SCORES = (
    Score(name="source_support", value=4, low=1, high=5),
    Score(name="source_support.min", value=2, low=1, high=5),
)


@pytest.mark.parametrize(
    ("later", "headline", "why"),
    [
        (card(*SCORES, status="pending_review"), "needs_review", "a person must decide"),
        (unscored(), None, "not scored: context_off"),
        (card(SCORES[0], judge="gpt-x"), None, "the newest card, by gpt-x, has no such score"),
    ],
    ids=["held", "unscored", "fewer scores"],
)
def test_a_score_that_the_newest_card_does_not_publish_is_withdrawn(
    later: Scorecard, headline: str | None, why: str, tmp_path: Path
) -> None:
    """Whoever reads the newest event of each score sees no number of an older card; and it is said once."""
    first = card(*SCORES)
    sink = write(tmp_path, first)
    receipts = list(sink.write([later]))
    assert {receipt.state for receipt in receipts} == {"written"}
    assert "source_support.min" in {receipt.score for receipt in receipts}
    value = 4.0 if later.status == "scored" else None
    assert newest(sink) == {"source_support": (value, headline), "source_support.min": (None, "withdrawn")}
    assert attributes(events(sink)[-1])["gen_ai.evaluation.explanation"] == why
    before = sink.events.read_bytes()
    assert set(state(tmp_path, later)) == {"unchanged"}
    assert sink.events.read_bytes() == before
    assert set(state(tmp_path, first)) == {"written"}
    assert newest(sink)["source_support.min"] == (2.0, None)


def test_what_a_weaker_judge_left_over_is_withdrawn_and_what_a_better_one_said_is_not(tmp_path: Path) -> None:
    """The offline judge's partial mean goes when a model's card comes, and does not come back."""
    rubric = "rag_faithfulness"
    partial = card(
        Score(name=rubric, value=None, low=1, high=5),
        Score(name=f"{rubric}.assessed", value=3, low=1, high=5),
        rubric=rubric, judge_kind="offline", partial=True,
    )  # fmt: skip
    whole = card(Score(name=rubric, value=4, low=1, high=5), rubric=rubric)
    sink = write(tmp_path, card(), partial, whole)
    told = newest(sink)
    assert (told[rubric], told[f"{rubric}.assessed"]) == ((4.0, None), (None, "withdrawn"))
    assert told["source_support"] == (4.0, "Strongly Implies")
    assert set(state(tmp_path, partial)) == {"kept"}
    assert newest(sink) == told


def test_a_held_card_says_nothing_its_score_could_be_guessed_from(tmp_path: Path) -> None:
    """Why it is held is for the person who decides."""
    held = card(status="pending_review", confidence=0.4, root_cause="retrieval_empty")
    (event,) = events(write(tmp_path, held))
    assert not {"groundtrace.confidence", "groundtrace.root_cause"} & attributes(event).keys()
