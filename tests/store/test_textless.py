"""Without texts: nothing anybody wrote reaches the database, and what is left is still of use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundtrace.model import Attempt, Evidence, Finding, Gap, Intent, Receipt, Reply, Review, Score, Usage
from groundtrace.store import Store, open_store
from groundtrace.store.textless import masked, textless
from groundtrace.testing import sample_card, sample_record

CANARY = "the canary sings at 21:40 in Sandhaven"
FAULTS = (
    f'the quote "{CANARY}" stands in no passage @ $.key_evidence',
    f"Input should be a valid integer; got '{CANARY}' @ $.claims[0].score",
    "the rationale names Canary, which stands nowhere @ $.rationale",
    f"refused: {CANARY}",
)
PROOF = Evidence(quote=CANARY, passage_id="p1", start=0, end=len(CANARY), match="exact")
CARD = sample_card(
    Score(name="source_support", value=4, low=1, high=5, label="Strongly Implies", rationale=CANARY, evidence=(PROOF,)),
    basis="b1",
    reason=CANARY,
    findings=(
        Finding(
            slot="c1>p1", value=4, rationale=CANARY, evidence=(PROOF,), details={"claim": CANARY, "pairs": 3, CANARY: 1}
        ),
    ),
    review=(Review(reason="low_support", note=CANARY),),
    details={"claims": [CANARY], "mean": 4.0, "deep": {"ok": True, "said": CANARY}},
    gaps=(Gap(field="query", reason=CANARY, remedy=CANARY),),
    attempts=(Attempt(slot="c1>p1", attempt=1, judge="judge", text=CANARY, faults=FAULTS, notes=(CANARY,), cost=0.5),),
)


def tell_all(store: Store) -> None:
    """Tell a store texts in every place it takes them."""
    store.start_run("run", "{}")
    store.keep_record(sample_record(answer=CANARY, passages=[CANARY], query=CANARY))
    store.keep_reply("judge", "d", Reply(CANARY, "judge", usage=Usage(7, 8), cost=0.5), (), card_id=CARD.id)
    store.keep_reply("judge", "d", Reply(CANARY, "judge", 2, fault=f"refused: {CANARY}"), FAULTS, card_id=CARD.id)
    store.keep_card(CARD)
    name = CARD.rubric
    ids = {"feedback_id": CARD.feedback_id(name), "content_hash": CARD.content_hash}
    intent = Intent(sink="s", card_id=CARD.id, score=name, **ids)
    store.intend(intent)
    store.keep_receipt(Receipt(**intent.model_dump(), state="failed", reason=f"400: {CANARY}"))
    store.keep_receipt(Receipt(**intent.model_dump(), state="written", reason=f'echo "{CANARY}"'))
    low = {"claim": CANARY, "why": CANARY, "value": 2.0}
    told = {"failed": [f"trace 1: {CANARY}"], "notes": [f"line 2: {CANARY}"], "lowest": [low], "cards": 3}
    store.end_run("run", "finished", json.dumps(told))


def files(folder: Path) -> bytes:
    """Every byte of the database, its write-ahead log included."""
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


def test_no_text_reaches_the_file(tmp_path: Path) -> None:
    """Neither while the store is open nor after; with texts kept, the same search finds them."""
    for keep_text, folder in ((False, tmp_path / "without"), (True, tmp_path / "with")):
        folder.mkdir()
        with open_store(folder / "store.db", keep_text=keep_text) as store:
            tell_all(store)
            assert (folder / "store.db-wal").stat().st_size
            while_open = files(folder)
        for found in (while_open, files(folder)):
            for word in (b"canary", b"Canary", b"Sandhaven", b"21:40"):
                assert (word in found) is keep_text, word


def test_what_is_left_stands_for_the_whole_card(where: str, opened: Callable[..., Store]) -> None:
    """Its hash and basis are the whole card's until it is changed, and it says that it is not whole."""
    store = opened(where, keep_text=False)
    store.keep_card(CARD)
    left = store.card(CARD.id)
    assert left is not None
    assert left.emptied is not None
    assert (left.content_hash, left.basis) == (CARD.content_hash, CARD.basis)
    assert left.model_copy(update={"risk": "high"}).content_hash != CARD.content_hash
    assert (left.scores[0].value, left.scores[0].label) == (4, "Strongly Implies")
    assert left.findings[0].details == {"claim": "", "pairs": 3}
    assert left.details == {"claims": [""], "mean": 4.0, "deep": {"ok": True, "said": ""}}
    store.keep_card(CARD)
    assert len(store.history(CARD.id)) == 1


def test_nothing_is_taken_from_a_store_without_texts_instead_of_a_judge(
    where: str, opened: Callable[..., Store]
) -> None:
    """There is nothing to take; figures and the kinds of faults can be looked up."""
    store = opened(where, keep_text=False)
    tell_all(store)
    assert store.reply("judge", "d") is None
    kept = store.card(CARD.id)
    assert kept is not None
    assert kept.basis == "b1"
    assert not kept.rests_on("b1")
    assert store.record(CARD) is None
    first, second = store.attempts(CARD.id)
    assert (first.text, first.cost, first.usage, first.faults) == ("", 0.5, Usage(7, 8), ())
    assert second.faults == (
        "the quote … stands in no passage @ $.key_evidence",
        "… should be a valid integer @ $.claims[0].score",
        "the rationale names … which stands nowhere @ $.rationale",
        "refused",
    )
    run = store.last_run()
    assert run is not None
    assert json.loads(run.report) == {
        "failed": ["trace 1"],
        "notes": ["line 2"],
        "lowest": [{"claim": "", "why": "", "value": 2.0}],
        "cards": 3,
    }


def test_the_same_write_is_known_again(where: str, opened: Callable[..., Store]) -> None:
    """A run over the same traces writes nothing, texts or not."""
    store = opened(where, keep_text=False)
    tell_all(store)
    ids = {"feedback_id": CARD.feedback_id(CARD.rubric), "content_hash": CARD.content_hash}
    assert store.intend(Intent(sink="s", card_id=CARD.id, score=CARD.rubric, **ids)) is not None


def test_an_emptied_card_is_emptied_once() -> None:
    """Doing it again changes nothing."""
    once = textless(CARD)
    assert textless(once) == once


@given(st.text(), st.sampled_from(["'", '"', "`", "“", "«"]))
def test_a_fault_line_quotes_nothing_once_masked(quoted: str, mark: str) -> None:
    """Whatever stands between its marks, marks included."""
    line = masked(f"the quote {mark}{quoted}{mark} stands nowhere @ $.a[0].b")
    assert line.startswith("the quote …")
    assert line.endswith(" @ $.a[0].b")


@pytest.mark.parametrize("line", ["a" * 1_000_000, "'" * 1_000_000, " @ $" * 250_000, "$." + "[0]" * 300_000])
def test_masking_takes_no_time(line: str) -> None:
    """Hostile lines are short work."""
    import time

    begin = time.perf_counter()
    masked(line)
    assert time.perf_counter() - begin < 2
