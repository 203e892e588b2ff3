"""Runs of the real command line on the stand-in platform, killed at random points, and what must hold afterwards."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import httpx2

from groundtrace.store import open_store

CONCURRENCY = 8
TRACES = 300
RUBRIC = "rag_faithfulness"
PROGRAM = (sys.executable, "-m", "groundtrace.cli")
Write = tuple[str, str, str]
"""What goes to a place: its sink, feedback id and content."""

Key = TypeVar("Key", bound=Hashable)
_STANDIN = Path(__file__).parent / "standins" / "platform.py"
_PATIENCE = 300.0
"""Seconds until a run that does not end is a hang."""

_THINGS = ("ferry", "tower", "museum", "bridge", "market", "library", "harbour", "garden")
_FACTS = (
    "The {thing} of town {n} opens at {a}:30 every day",
    "Town {n} built its {thing} in 18{b} with granite from the hills",
    "About {c} people visit the {thing} of town {n} in a year",
    "The {thing} of town {n} closes for repairs each February",
)


def corpus(path: Path, traces: int = TRACES, seed: int = 3) -> Path:
    """Traces whose questions no two of them share: two to four passages, cited answers more and less true."""
    pick = random.Random(seed)
    path.write_text("".join(json.dumps(_trace(n, pick)) + "\n" for n in range(traces)), encoding="utf-8")
    return path


def _trace(n: int, pick: random.Random) -> dict[str, Any]:
    thing = pick.choice(_THINGS)
    known = {"thing": thing, "n": n, "a": pick.randint(6, 11), "b": pick.randint(10, 99), "c": pick.randint(200, 9999)}
    facts = [fact.format(**known) for fact in pick.sample(_FACTS, pick.randint(2, 4))]
    wrong = known | {"a": 5, "b": "09", "c": 17}
    said = [(facts[at] if pick.random() < 0.6 else _FACTS[at].format(**wrong), at + 1) for at in range(2)]
    answer = " ".join(f"{text} [{at}]." for text, at in said)
    held = {f"retrieval.documents.{at}.document.content": f"{fact}." for at, fact in enumerate(facts)}
    query = f"What about the {thing} of town {n}?"
    spans = [
        _span(n, 1, None, "CHAIN", {"input.value": query, "output.value": answer}),
        _span(n, 2, 1, "RETRIEVER", {"input.value": query, **held}),
    ]
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "openinference.test"}, "spans": spans}]}]}


def _span(n: int, at: int, parent: int | None, kind: str, held: Mapping[str, str]) -> dict[str, Any]:
    told = {"openinference.span.kind": kind, **held}
    begin = 1_790_000_000_000_000_000 + n * 10**9 + at
    made: dict[str, Any] = {"traceId": f"{n + 1:032x}", "spanId": f"{n + 1:08x}{at:08x}", "name": kind.lower()}
    made |= {"startTimeUnixNano": str(begin), "endTimeUnixNano": str(begin + 10**8)}
    made["attributes"] = [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]
    return made | ({"parentSpanId": f"{n + 1:08x}{parent:08x}"} if parent else {})


@dataclass(frozen=True)
class Point:
    """Where a run is killed: seconds after the n-th question or write since the last kill; n = 0 is its start."""

    what: str
    n: int
    after: float


def points(pick: random.Random, count: int, whole: Mapping[str, int]) -> list[Point]:
    """Random points, half of them at a question, spread over what an undisturbed run takes; some at the start of a run.

    None falls on the last moments, when a run may be over before it is killed. Questions are ahead of the writes and
    end sooner.
    """
    early = [Point("start", 0, pick.uniform(0.1, 1.0)) for _ in range(count // 10)]
    kinds = ["ask" if at % 2 else "write" for at in range(count - len(early))]
    places = sorted((pick.uniform(0, 0.7 if what == "ask" else 0.93), what) for what in kinds)
    made = [
        Point(what, 1 + int((share - before) * whole[what]), pick.choice((0.0, pick.uniform(0, 0.02))))
        for (before, _), (share, what) in pairwise([(0.0, ""), *places])
    ]
    middle = len(made) // 2
    return [*made[:middle], *early, *made[middle:]]


class Platform:
    """The stand-in, as the test sees it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx2.Client(base_url=url, timeout=60, trust_env=False)

    def told(self, path: str, **said: Any) -> Any:
        """What it answers; with values, they are sent."""
        method = "POST" if said else "GET"
        return self._client.request(method, path, json=said or None).json()

    def close(self) -> None:
        """Let go of it."""
        self._client.close()

    def until(self, point: Point, runs: Sequence[subprocess.Popen[str]]) -> subprocess.Popen[str]:
        """Wait for a point; the run it falls on, which is in the middle of its work then."""
        end, by = time.monotonic() + _PATIENCE, None
        first = self.told("/came").get(point.what, 0)
        while point.n and by is None:
            over = all(run.poll() is not None for run in runs) or time.monotonic() > end
            by = self.told(f"/until/{point.what}?n={first + point.n}")
            assert by is not None or not over, f"the runs never came to {point}"
        time.sleep(point.after)
        return next((run for run in runs if run.pid == by), runs[-1])


@contextmanager
def platform() -> Iterator[Platform]:
    """A stand-in for as long as it is needed."""
    command = [sys.executable, str(_STANDIN)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            with closing(Platform(process.stdout.readline().strip())) as made:
                yield made
        finally:
            process.kill()


@dataclass
class Ward:
    """One store, the runs on it, and what was in flight whenever one of them was killed."""

    folder: Path
    site: Path
    source: Path
    where: str
    stand: Platform
    killed: dict[int, set[Write]] = field(default_factory=dict)
    """The processes that were killed before their end, each with what was noted and not confirmed then."""

    runs: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def sink(self) -> str:
        """The platform, as a run names it."""
        return f"fake:{self.stand.url}"

    @property
    def out(self) -> Path:
        """The JSON lines the runs write."""
        return self.folder / "cards.jsonl"

    def begin(self, *, resume: bool = False) -> subprocess.Popen[str]:
        """Start a run, or go on with the one that was killed."""
        words = ["--resume"] if resume else [str(self.source), "--rubric", RUBRIC]
        if not resume:
            words += ["--judge", f"fake:{self.stand.url},concurrency={CONCURRENCY}"]
            words += ["--to", f"jsonl:{self.out}", "--to", self.sink]
        command = [*PROGRAM, "run", *words, "--store", self.where, "--json"]
        env = os.environ | {"PYTHONPATH": str(self.site), "PYTHONFAULTHANDLER": "1"}
        env |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self.site.parent / "compiled")}
        told, trouble = (self._log(len(self.runs), kind) for kind in ("out", "err"))
        with told.open("w", encoding="utf-8") as out, trouble.open("w", encoding="utf-8") as err:
            made = subprocess.Popen(command, cwd=self.folder, env=env, text=True, stdout=out, stderr=err)
        self.runs.append(made)
        return made

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End a run as a power cut would, and note what it had in flight; the others stand still meanwhile."""
        living = [run for run in self.runs if run is not process and run.poll() is None]
        for run in living:
            run.send_signal(signal.SIGSTOP)
        process.kill()
        if process.wait() == -signal.SIGKILL:
            self.killed[process.pid] = waiting(self)
        for run in living:
            run.send_signal(signal.SIGCONT)

    def end(self, process: subprocess.Popen[str], expected: int = 0) -> dict[str, Any]:
        """Let a run come to its end; its report."""
        code = process.wait(timeout=_PATIENCE)
        told, trouble = (self._log(self.runs.index(process), kind).read_text("utf-8") for kind in ("out", "err"))
        assert code == expected, f"a run ended with {code}:\n{told}\n{trouble}"
        assert told, trouble
        report: dict[str, Any] = json.loads(told)
        return report

    def _log(self, number: int, kind: str) -> Path:
        return self.folder / f"run-{number}.{kind}"

    def clear(self) -> None:
        """End all that is left."""
        for run in self.runs:
            if run.poll() is None:
                run.send_signal(signal.SIGCONT)
                run.kill()
                run.wait()


def waiting(ward: Ward) -> set[Write]:
    """The writes that were noted and not confirmed, seen without touching a file the next run has to mend."""
    where = ward.where
    if "://" not in where:
        seen = ward.folder / "seen"
        shutil.rmtree(seen, ignore_errors=True)
        seen.mkdir()
        for file in Path(where).parent.glob(f"{Path(where).name}*"):
            if not file.name.endswith("-shm"):  # made anew from the others
                shutil.copy(file, seen)
        where = str(seen / Path(where).name)
    with open_store(where) as store:
        return {(intent.sink, intent.feedback_id, intent.content_hash) for intent in store.outbox()}


@dataclass(frozen=True)
class Outcome:
    """What a store's runs left behind."""

    cards: Mapping[str, object]
    """Of the JSON lines: the card's status and scores, by its id."""

    doubled: Sequence[str]
    """Cards that stand there more than once."""

    scores: Mapping[str, object]
    """Of the platform: name, value, label, reason and content, by feedback id."""

    asked: Mapping[str, Sequence[int]]
    """The processes that asked a question, by its digest."""

    written: Mapping[Write, Sequence[int]]
    """The processes whose write reached the platform."""

    waiting: Collection[Write]
    """Writes that were noted and never confirmed."""

    @property
    def asked_again(self) -> int:
        """How many questions came after an equal one."""
        return sum(len(by) - 1 for by in self.asked.values())

    @property
    def written_again(self) -> int:
        """How many writes came after an equal one."""
        return sum(len(by) - 1 for by in self.written.values())


def outcome(ward: Ward) -> Outcome:
    """Look at all places a run leaves something in."""
    texts = [json.loads(line) for line in ward.out.read_text(encoding="utf-8").splitlines() if _whole(line)]
    counts = Counter(card["id"] for card in texts)
    log, held = ward.stand.told("/log"), ward.stand.told("/scores")
    told = ("name", "value", "label", "reason", "content_hash")
    return Outcome(
        cards={
            card["id"]: (card["status"], [(s["name"], s["value"], s["label"]) for s in card["scores"]])
            for card in texts
        },
        doubled=[ident for ident, count in counts.items() if count > 1],
        scores={ident: [score[name] for name in told] for ident, score in held.items()},
        asked=_by((ask["digest"], ask["by"]) for ask in log["asks"]),
        written=_by(((ward.sink, write["id"], write["hash"]), write["by"]) for write in log["writes"]),
        waiting=waiting(ward),
    )


def _by(log: Iterable[tuple[Key, int]]) -> dict[Key, list[int]]:
    """Who did each thing, in order."""
    made: dict[Key, list[int]] = {}
    for key, process in log:
        made.setdefault(key, []).append(process)
    return made


def _whole(line: str) -> bool:
    """Whether a line is a text; a kill may leave half of one, which is no card."""
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def check(ward: Ward, undisturbed: Outcome) -> None:
    """Nothing is lost, doubled or left over; what was asked or written again was in flight at a kill."""
    found = outcome(ward)
    assert found.cards == undisturbed.cards
    assert not found.doubled
    assert found.scores == undisturbed.scores
    assert not found.waiting
    _once(ward, found.asked)
    _once(ward, found.written)
    again = Counter(by for askers in found.asked.values() for by in askers[:-1])
    assert max(again.values(), default=0) <= CONCURRENCY, f"asked again, of what each killed run had asked: {again}"
    for write, writers in found.written.items():
        for by in ward.killed.keys() & writers[:-1]:
            assert write in ward.killed[by], f"{write} was confirmed by {by} and written again"


def _once(ward: Ward, done: Mapping[Key, Sequence[int]]) -> None:
    """No process does a thing twice, and what several did, all but one were killed at."""
    for key, by in done.items():
        assert len(set(by)) == len(by), f"{key} was done twice by one process: {by}"
        assert len(set(by) - ward.killed.keys()) <= 1, f"{key} was done by {by}, and killed were {set(ward.killed)}"


def adds_up(report: Mapping[str, Any], undisturbed: Outcome) -> None:
    """The report of the run that came to its end tells of every trace, card and write."""
    assert report["traces"] == report["seen"] == TRACES
    assert sum(report["cards"][RUBRIC].values()) == len(undisturbed.cards)
    assert not report["failed"]
    assert report["held"] == 0
    for states in report["receipts"].values():
        assert not {"failed", "unconfirmed"} & states.keys()
        assert sum(states.values()) >= len(undisturbed.scores)


def shoot(ward: Ward, where: Sequence[Point]) -> dict[str, Any]:
    """Kill one run after another of a store, each gone on with by the next, and let the last end; its report."""
    for point in where:
        ward.kill(ward.stand.until(point, [ward.begin(resume=bool(ward.runs))]))
    return ward.end(ward.begin(resume=True))


def shoot_two(ward: Ward, where: Sequence[Point]) -> list[dict[str, Any]]:
    """The same with two runs at once on the store: each point kills the one it falls on, which is started again."""
    runs = [ward.begin(), ward.begin()]
    for point in where:
        over = ward.stand.until(point, runs)
        ward.kill(over)
        runs[runs.index(over)] = ward.begin()
    return [ward.end(run) for run in runs]
