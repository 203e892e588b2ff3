"""Someone else's plugins: a source of made-up traces, a sink that writes letters, a judge that says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from groundtrace.errors import PlatformError
from groundtrace.model import (
    Case,
    Check,
    Label,
    Receipt,
    Ref,
    Reply,
    Scorecard,
    Signal,
    Span,
    Trace,
    Window,
)
from groundtrace.ports import Again, Choose, Sink


class LetterSource:
    """Traces t0, t1 ...: every fifth is hated by its user; after `fail_after` the platform is gone.

    `default_share` is what is looked at when nobody says, as a live platform's source would have it.
    """

    platform = "neighbour"

    def __init__(self, count: int = 3, *, fail_after: int | None = None, mood: Literal["good", "bad"] = "good") -> None:
        self.count, self.fail_after, self.mood = count, fail_after, mood
        self.default_share = 0.1 if mood == "bad" else 1.0

    def traces(self, window: Window, choose: Choose, resume: str | None = None) -> Iterator[Trace]:
        """Each trace that is chosen."""
        for n in range(self.count):
            if n == self.fail_after:
                raise PlatformError("neighbour: the door is locked", retry_after=5)
            ref = Ref("neighbour", trace_id=f"t{n}", span_id=f"s{n}")
            signals = (Signal("thumb", value=-1.0, negative=True),) if n % 5 == 4 else ()
            if choose(ref, signals):
                said = {"id": f"t{n}", "query": "Where?", "context": ["Here."], "answer": "Here [1]."}
                span = Span(f"s{n}", f"t{n}", attributes={"groundtrace.record": said}, scope="groundtrace.jsonl")
                yield Trace(ref, spans=(span,), signals=signals)

    def labels(self, since: int | None = None) -> Iterator[Label]:
        """None yet."""
        yield from ()

    def doctor(self) -> Iterable[Check]:
        """Always well."""
        return [Check("door", well=True)]

    def home(self) -> Sink:
        """Letters go to the current folder."""
        return LetterSink(".")

    def notes(self) -> tuple[str, ...]:
        """Nothing is ever unreadable here."""
        return ()


class LetterSink:
    """Writes one file a card into a folder."""

    name = "neighbour"
    updates: Literal["upsert", "append"] = "upsert"

    def __init__(self, folder: str, *, full: bool = False) -> None:
        self.folder, self.full = Path(folder), full

    def write(self, cards: Iterable[Scorecard]) -> Iterable[Receipt]:
        """One receipt for each score, or for the card where it has none; a full letter box takes nothing."""
        for card in cards:
            if self.full:
                raise PlatformError("neighbour: the letter box is full")
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{card.id}.txt").write_text(card.content_hash, encoding="utf-8")
            for score in [score.name for score in card.scores] or [card.rubric]:
                feedback = card.feedback_id(score)
                yield Receipt(
                    card_id=card.id,
                    score=score,
                    state="written",
                    feedback_id=feedback,
                    content_hash=card.content_hash,
                )


class SilentJudge:
    """Never finds words; `patience` and `stern` are only there to be set."""

    kind: Literal["llm"] = "llm"
    limits = "Says nothing."

    def __init__(self, model: str, *, patience: float = 1.0, stern: bool = False, tries: int = 1) -> None:
        self.id = f"silent:{model}"
        self.model, self.patience, self.stern, self.tries = model, patience, stern, tries

    def unassessed(self, rubric: str) -> frozenset[str]:
        """It would assess everything, if it spoke."""
        return frozenset()

    def hear(self, cases: Iterable[Case], again: Again) -> Iterator[tuple[Case, Reply]]:
        """Each case with a fault."""
        for case in cases:
            reply = Reply("", self.id, fault="it was at a loss for words")
            again(case, reply)
            yield case, reply
