"""`groundtrace review`: what waits for a person, what the person decides, and how it reaches the platform."""

from __future__ import annotations

import getpass
import json
import threading
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from groundtrace.cli import review
from groundtrace.errors import PlatformError
from groundtrace.model import Finding, Ref, Review, Score, Scorecard, card_id
from groundtrace.plan import Plan
from groundtrace.run import run
from groundtrace.run.holds import key_of
from groundtrace.store import open_store, owner
from groundtrace.testing import HOSTILE_TEXTS, sample_card, sample_record
from terminal import groundtrace

SCORES = (
    Score(name="rag_faithfulness", value=2.5, low=1, high=5, label="major", rationale="one claim has no support"),
    Score(name="rag_faithfulness.claim_support", value=2, low=1, high=5, rationale="half of it is backed"),
)
CLAIM = Finding(slot="answer", value=2, details={"unsupported_claims": [{"claim": "Dogs fly.", "severity": "major"}]})


def card(name: str, *reviews: Review, scores: tuple[Score, ...] = SCORES, **fields: Any) -> Scorecard:
    """A card of its own trace that waits for the reasons given."""
    ref = Ref("testing", trace_id=name)
    made = {"id": card_id(ref, "rag_faithfulness"), "ref": ref, "rubric": "rag_faithfulness", "findings": (CLAIM,)}
    return sample_card(*scores, review=reviews, record_id=name, **(made | fields))


LATER = card("later", Review(reason="major_claim", note="a major claim has no support"))
URGENT = card("urgent", Review(reason="critical_claim", priority="now"), status="pending_review")
BARE = card("bare", Review(reason="judge_failed"), findings=(), status="unscored", reason="judge_failed").model_copy(
    update={"scores": ()}
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store in which three cards wait, and one does not."""
    with open_store(tmp_path / "s.db") as store:
        for one in (LATER, BARE, URGENT, card("fine")):
            store.keep_card(one)
        store.keep_record(sample_record(id="later", ref=LATER.ref))
    return tmp_path


def told(line: str, folder: Path, code: int = 0) -> str:
    """What a review of the folder's store says, on stdout where it went well."""
    done = groundtrace(f"review --store s.db {line}", folder)
    assert done.returncode == code, done.stdout + done.stderr
    assert bool(done.stderr) is bool(code)
    return " ".join((done.stderr or done.stdout).split())


# --- the queue ------------------------------------------------------------------------------------------------------


def test_what_waits_is_listed_most_urgent_first(folder: Path) -> None:
    """Each with how low it is, whose it is, why it waits and the claim behind it; and what to type next."""
    said = told("", folder)
    places = [said.index(f"trace {name} ") for name in ("urgent", "later", "bare")]
    assert places == sorted(places)
    assert "fine" not in said
    assert "now rag_faithfulness.claim_support 2 of 5, held until a person decides" in said
    assert f"card {LATER.id[:13]} · trace later · scripted major_claim: a major claim has no support" in said
    assert '"Dogs fly." half of it is backed' in said
    assert "rag_faithfulness not judged: judge_failed" in said
    assert said.endswith("groundtrace review CARD --accept | --reject | --correct NAME=VALUE, with --why TEXT")


def test_the_list_can_be_shorter_and_of_one_rubric(folder: Path) -> None:
    """As many as there is time for."""
    said = told("--limit 1", folder)
    assert "later" not in said
    assert "and 2 more; --limit shows more" in said
    assert "more" not in told("--limit 3", folder)
    assert told("--rubric source_support", folder) == "No card waits for a person."
    with open_store(folder / "s.db") as store:
        store.keep_card(card("own", Review(reason="odd")).model_copy(update={"rubric": "tone"}))
    assert "trace own" in told("--rubric tone", folder)


def test_scripts_get_one_object_a_card(folder: Path) -> None:
    """With everything the list shows, and nothing where nothing waits."""
    lines = [json.loads(line) for line in groundtrace("review --store s.db --json", folder).stdout.splitlines()]
    assert [(line["trace_id"], line["priority"]) for line in lines] == [
        *(("urgent", "now"), ("later", "queue"), ("bare", "queue")),
    ]
    assert lines[1]["review"][0] == {
        **LATER.review[0].model_dump(),
        "weight": 1.0,
    }
    assert (lines[1]["claim"], lines[1]["scores"][0]["value"]) == ("Dogs fly.", 2.5)
    assert told("--rubric source_support --json", folder) == ""


def test_before_the_first_run_nothing_waits(tmp_path: Path) -> None:
    """And no store is made by looking."""
    done = groundtrace("review", tmp_path, env={"XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert (done.returncode, done.stdout.strip()) == (0, "No card waits for a person.")
    assert not list(tmp_path.rglob("*.db"))


def test_one_card_is_shown_with_its_record(folder: Path) -> None:
    """What a person needs to decide: every score by its name, and what it was made from."""
    said = told(LATER.id[:6], folder)
    assert "rag_faithfulness 2.5 of 5 (major): one claim has no support" in said
    assert "The night ferry leaves at 21:40 every day." in said
    assert f"groundtrace review {LATER.id[:13]} --accept" in said


# --- decisions ------------------------------------------------------------------------------------------------------


def test_a_card_is_accepted(folder: Path) -> None:
    """A held one counts from now on; it leaves the queue, and the labels are kept."""
    said = told(f"{URGENT.id} --accept --who Ada --why 'it is so'", folder)
    assert "accepted by Ada: rag_faithfulness 2.5 of 5 (major), rag_faithfulness.claim_support 2 of 5" in said
    assert "its scores count from now on" in said
    assert "the next run over this trace with this store puts it on the platform" in said
    assert "urgent" not in told("", folder)
    with open_store(folder / "s.db") as store:
        assert [(label.score, label.value, label.why) for label in store.labels()] == [
            *(("rag_faithfulness", 2.5, "it is so"), ("rag_faithfulness.claim_support", 2, "it is so")),
        ]


def test_a_card_is_corrected_and_what_was_left_is_said(folder: Path) -> None:
    """Means are not moved behind a person's back; whoever is not named is who runs it."""
    said = told(f"{LATER.id[:8]} --correct rag_faithfulness.claim_support=4 --why 'see page 2'", folder)
    assert f"corrected by {getpass.getuser()}: rag_faithfulness.claim_support 4 of 5" in said
    assert "not corrected, so as the judge had it: rag_faithfulness 2.5 of 5 (major)" in said
    assert "decided rag_faithfulness 2.5 of 5" in told(LATER.id, folder)
    assert "see page 2" in told(LATER.id, folder)


@pytest.mark.parametrize(
    ("typed", "value", "label"),
    [("=3.5:minor", 3.5, "minor"), ("=4", 4, None), ("=:minor", 2.5, "minor"), ("=NULL", None, None)],
)
def test_a_correction_is_a_value_a_label_or_both(
    typed: str, value: float | None, label: str | None, folder: Path
) -> None:
    """Null says that the score does not apply."""
    told(f"{LATER.id} --correct rag_faithfulness{typed}", folder)
    with open_store(folder / "s.db") as store:
        found = store.card(LATER.id)
        assert found is not None
        assert (found.scores[0].value, found.scores[0].label) == (value, label)


def test_a_card_that_was_not_judged_is_given_a_score(folder: Path) -> None:
    """One its rubric publishes, within its range."""
    said = told(f"{BARE.id} --correct rag_faithfulness=4:minor --who Ada", folder)
    assert "corrected by Ada: rag_faithfulness 4 of 5 (minor)" in said
    with open_store(folder / "s.db") as store:
        found = store.card(BARE.id)
        assert found is not None
        assert (found.status, found.reason, [score.value for score in found.scores]) == ("scored", None, [4])
        assert [(label.score, label.value) for label in store.labels()] == [("rag_faithfulness", 4)]


def test_a_decision_is_about_the_record_that_was_shown(folder: Path) -> None:
    """What another record's card with the same id says is no earlier version of it."""
    with open_store(folder / "s.db") as store:
        shown = LATER.model_copy(update={"basis": "one-x"})
        decided = shown.model_copy(update={"decided_by": "human", "judge_kind": "human", "judge": "Ada"})
        for version in (shown, LATER.model_copy(update={"basis": "two-x", "scores": ()}), decided):
            store.keep_card(version)
    told(f"{LATER.id} --accept --who Ada", folder)
    with open_store(folder / "s.db") as store:
        found = store.card(LATER.id)
        assert found is not None
        assert (found.basis, found.scores) == ("one-x", SCORES)


def test_who_decides_again_starts_from_what_the_judge_said(folder: Path) -> None:
    """The last word counts; of a person who took it back nothing is learned."""
    told(f"{LATER.id} --reject --who Ada", folder)
    told(f"{LATER.id} --accept --who Ada", folder)
    with open_store(folder / "s.db") as store:
        assert len(store.labels()) == 2
        assert (store.card(LATER.id) or LATER).scores == SCORES
    assert "rag_faithfulness has no score any more" in told(f"{LATER.id} --reject --who Ada", folder)
    with open_store(folder / "s.db") as store:
        assert store.labels() == ()


@pytest.mark.parametrize(
    ("correction", "says"),
    [
        ("rag_faithfulness=2:majr", "'majr' is no label of rag_faithfulness; did you mean 'major'? Valid: none, minor"),
        ("rag_faithfulness=2:not_assessed", "Valid: none, minor, major, critical"),
        ("rag_faithfulness.claim_support=2:major", "is no label of rag_faithfulness.claim_support, which has none"),
    ],
)
def test_a_label_that_the_score_does_not_have_is_refused(folder: Path, correction: str, says: str) -> None:
    """It names those there are."""
    done = groundtrace(f"review --store s.db {LATER.id} --correct {correction}", folder)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_label_is_spelt_as_its_score_has_it(folder: Path) -> None:
    """In whatever case it was typed; a score without a value may say why."""
    assert "rag_faithfulness 2 of 5 (critical)" in told(f"{LATER.id} --correct rag_faithfulness=2:CRITICAL", folder)
    told(f"{LATER.id} --correct rag_faithfulness=null:not_applicable", folder)


BAD = [
    ("abc --accept", "is too short"),
    ("abcdef --accept", "is not in this store"),
    ("--accept", "card: '' is not named"),
    (f"{LATER.id} --accept --reject", "--accept --reject' are two decisions"),
    (f"{LATER.id} --correct rag_faithfulness=6", "rag_faithfulness: 6.0 is outside the score's range, 1 to 5"),
    (f"{LATER.id} --correct faithfulness=4", "did you mean 'rag_faithfulness'?"),
    (f"{LATER.id} --correct rag_faithfulness", "write NAME=VALUE"),
    (f"{LATER.id} --correct rag_faithfulness=", "write NAME=VALUE"),
    (f"{LATER.id} --correct rag_faithfulness=nan", "write NAME=VALUE"),
    (f"{LATER.id} --correct rag_faithfulness=1e999", "write NAME=VALUE"),
    (f"{BARE.id} --correct rag_faithfulness=6", "rag_faithfulness: 6.0 is outside the score's range, 1 to 5"),
    (f"{BARE.id} --correct rag_faithfulness=:minor", "write NAME=VALUE"),
    (f"{BARE.id} --correct source_support=4", "is no score of this card"),
    ("--rubric rag_faithfullness", "did you mean 'rag_faithfulness'?"),
    ("--store postgresql://me:hunter2@localhost/x", "set PGPASSWORD, or write it to ~/.pgpass"),
    (f"{LATER.id} --accept --who ''", "who: '' is no name"),
    ("--store none", "keeps nothing to look at"),
    ("--store nowhere.db", "'nowhere.db' is not there"),
]


@pytest.mark.parametrize(("line", "said"), BAD, ids=[line for line, _ in BAD])
def test_what_makes_no_sense_is_refused_and_changes_nothing(line: str, said: str, folder: Path) -> None:
    """One line that says what to do, exit code 2."""
    assert said in told(line, folder, code=2)
    with open_store(folder / "s.db") as store:
        assert store.history(LATER.id) == (LATER,)
        assert store.labels() == ()
    assert not (folder / "nowhere.db").exists()


def test_an_id_that_begins_two_is_not_guessed(folder: Path) -> None:
    """Neither is decided."""
    twin = LATER.id[:8] + "0" * 28
    with open_store(folder / "s.db") as store:
        store.keep_card(card("twin").model_copy(update={"id": twin}))
    said = told(f"{LATER.id[:8]} --accept", folder, code=2)
    assert "is the start of 2 cards" in said
    assert "later" in told("", folder)


def test_a_decision_waits_for_a_run_that_has_the_trace_in_hand(folder: Path) -> None:
    """What that run writes would stand over it."""
    with open_store(folder / "s.db") as store:
        key, run_owner = key_of(LATER.ref), owner("run")
        assert store.lease(key, run_owner, 60)
        with pytest.raises(PlatformError, match="a run works on trace later now"), review._held(store, LATER, 0.3):
            pytest.fail("the trace was the run's")  # _held itself: from outside this takes ten seconds
        done = threading.Timer(1.5, lambda: store.release(key, run_owner))
        done.start()
        began = time.monotonic()
        told(f"{LATER.id} --accept", folder)
        assert time.monotonic() - began > 1
        done.join()
        assert store.lease(key, run_owner, 60), "it was given back"


def test_without_texts_no_reason_is_kept(tmp_path: Path) -> None:
    """Where a run kept no texts, a decision keeps none."""
    with open_store(tmp_path / "s.db", keep_text=False) as store:
        store.keep_card(LATER)
    told(f"{LATER.id} --correct rag_faithfulness=4 --who Ada --why 'the canary sings'", tmp_path)
    assert not any(b"canary" in file.read_bytes() for file in tmp_path.iterdir())
    assert "corrected by Ada" in told(LATER.id, tmp_path)


def test_other_peoples_text_does_nothing_to_the_terminal(folder: Path) -> None:
    """Neither in the list nor of a card in full."""
    with open_store(folder / "s.db") as store:
        for n, text in enumerate(HOSTILE_TEXTS):
            finding = Finding(slot="a", value=1, details={"claim": text})
            scores = (Score(name="rag_faithfulness", value=1, low=1, high=5, label=text, rationale=text),)
            reviews = (Review(reason=text, note=text),)
            store.keep_card(card(f"{n}{text}", *reviews, scores=scores, findings=(finding,), judge=text))
    for line in ("", "--json"):
        done = groundtrace(f"review --store s.db --limit 50 {line}", folder)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
        assert "\u202e" not in done.stdout
    for n, text in enumerate(HOSTILE_TEXTS):
        ident = card_id(Ref("testing", trace_id=f"{n}{text}"), "rag_faithfulness")
        assert "\x1b" not in told(ident, folder)


# --- on the platform ------------------------------------------------------------------------------------------------


def test_the_next_run_puts_a_decision_on_the_platform_and_no_run_takes_it_back(tmp_path: Path) -> None:
    """In place, once; the judge is not asked about it again."""
    for name, copy in (("demo.jsonl", "t.jsonl"), ("demo.logs.jsonl", "t.logs.jsonl")):
        (tmp_path / copy).write_bytes(resources.files("groundtrace.data").joinpath(name).read_bytes())
    cards = tmp_path / "cards.jsonl"
    plan = Plan(sources=f"otel:{tmp_path}/t.jsonl", sinks=(f"jsonl:{cards}",), store=str(tmp_path / "s.db"))

    def newest() -> dict[str, Any]:
        lines = map(json.loads, cards.read_text(encoding="utf-8").splitlines())
        return {line["id"]: line for line in lines}

    run(plan)
    ident = json.loads(groundtrace("review --store s.db --json --limit 1", tmp_path).stdout)["id"]
    before = newest()
    told(f"{ident} --correct source_support=2.5 --who Ada", tmp_path)
    for _ in range(2):
        run(plan)
        after = newest()
        assert (after[ident]["judge"], after[ident]["judge_kind"]) == ("Ada", "human")
        assert after[ident]["scores"][0]["value"] == 2.5
        assert {key: line for key, line in after.items() if key != ident} == {
            key: line for key, line in before.items() if key != ident
        }
    told(f"{ident} --reject --who Ada", tmp_path)
    run(plan)
    assert (newest()[ident]["status"], newest()[ident]["scores"]) == ("unscored", [])
    assert len(cards.read_text(encoding="utf-8").splitlines()) == len(before) + 2
