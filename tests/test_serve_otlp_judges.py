"""A judge that can't be asked costs nobody a trace: what it gave out on waits, through a stop and a start."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from backend import attributes, backend
from groundtrace.errors import PlatformError
from groundtrace.model import Reply
from groundtrace.plan import Plan
from groundtrace.run.holds import Holds
from groundtrace.serve import judging, otlp
from groundtrace.serve.otlp import Server, Settings
from groundtrace.serve.spool import Spool
from groundtrace.store import open_store
from groundtrace.testing import ScriptedJudge
from hired import SUPPORTED, hire
from serving import serving
from standins.llm import StandIn, standing
from terminal import groundtrace
from test_serve_otlp import _as_before, post, traces

__all__ = ["hire"]
KEY = {"OPENAI_API_KEY": "sk-of-the-tests"}
WORDS = ("--sample", "1", "--idle", "0.3", "--rubric", "source_support", "--drain", "0.5")


@pytest.fixture(scope="module")
def stand() -> Iterator[StandIn]:
    """A provider of ours."""
    with standing() as made:
        yield made


def asked(stand: StandIn, to: Path) -> tuple[str, ...]:
    """The words for a server that asks it."""
    return (*WORDS, "--judge", f"openai:gpt-4o,base_url={stand.v1}", "--to", f"jsonl:{to}")


def statuses(at: Path) -> dict[str, str]:
    """The cards of source support that were written, by trace."""
    lines = at.read_text(encoding="utf-8").splitlines() if at.exists() else ()
    cards = [card for card in map(json.loads, lines) if card["rubric"] == "source_support"]
    assert len({card["trace_id"] for card in cards}) == len(cards)
    return {card["trace_id"]: card["status"] for card in cards}


@pytest.mark.parametrize(
    ("act", "said", "forwards"),
    [
        ({"status": 503, "message": "we are closed"}, "we are closed", True),
        ({"status": 503, "message": "we are closed"}, "we are closed", False),
        ({"status": 401, "message": "who is that"}, "refuses the key", False),
        ({"hang": True}, "", True),
    ],
)
def test_a_judge_that_is_away_leaves_traces_to_the_next_start(
    tmp_path: Path,
    stand: StandIn,
    act: dict[str, Any],
    said: str,
    forwards: bool,  # noqa: FBT001 - pytest's way
) -> None:
    """The health names it, a stop takes no longer for it, and no card says that nothing could be scored."""
    told, to = traces(tmp_path, 3), tmp_path / "cards.jsonl"
    stand.script({"do": act})
    with backend() as there:
        words = asked(stand, to) + (("--forward", there.http) if forwards else ())
        with serving(tmp_path / "s", *words, env=KEY) as made:
            assert post(made.url, told) == 200
            made.until(lambda: stand.log()["requests"])
            made.until(lambda: said in made.health()["state"])
            assert not said or "judge openai:gpt-4o" in made.health()["state"]
            made.stop()
            assert statuses(to) == {}
            assert len(there.spans()) == (6 if forwards else 0), "nobody's telemetry waits for a judge"
            assert "0 traces judged" in made.log
            assert f"wait for the next start{': judge openai:gpt-4o' * bool(said)}" in made.log
            assert "gave up" not in made.log
            stand.script()
            made.start()
            made.until(lambda: len(statuses(to)) == 3)
            made.stop()
        assert set(statuses(to).values()) == {"scored"}
        if forwards:
            _as_before(there.spans(), told)


def test_what_is_scored_when_the_time_is_over_goes_on_with_its_scores(tmp_path: Path, stand: StandIn) -> None:
    """What hangs beside it is left; the next start asks for that alone."""
    told, to = traces(tmp_path, 3), tmp_path / "cards.jsonl"
    stand.script({"when": {"overall": 2}, "do": {"hang": True}})
    with backend() as there, serving(tmp_path / "s", *asked(stand, to), "--forward", there.http, env=KEY) as made:
        assert post(made.url, told) == 200
        made.until(lambda: stand.log()["requests"] == 6)
        made.stop()
        _as_before(there.spans(), told)
        assert sum("gen_ai.evaluation.name" in attributes(span) for span in there.spans()) == 2
        stand.script()
        made.start()
        made.until(lambda: len(statuses(to)) == 3)
        made.stop()
        assert stand.log()["requests"] == 1, "what was answered is not asked again"
        assert set(statuses(to).values()) == {"scored"}


def test_a_trace_a_judge_will_not_have_is_given_up_by_itself(tmp_path: Path, stand: StandIn) -> None:
    """It is asked twice, while the others are scored; then its card says so."""
    told, to = traces(tmp_path, 3), tmp_path / "cards.jsonl"
    stand.script({"when": {"prompt": "town 1"}, "do": {"status": 400, "message": "not this one"}})
    with serving(tmp_path / "s", *asked(stand, to), env=KEY) as made:
        assert post(made.url, told) == 200
        made.until(lambda: made.health()["traces"].get("judged") == 2)
        assert sorted(statuses(to).values()) == ["scored"] * 2
        made.stop()
        assert sorted(statuses(to).values()) == ["scored", "scored", "unscored"]
        assert "3 traces judged" in made.log
    assert list((tmp_path / "s" / "spool").iterdir()) == [tmp_path / "s" / "spool" / "lock"]


def test_a_judge_without_its_key_is_said_before_anything_is_taken(tmp_path: Path) -> None:
    """Exit 2, as of a token that is not set."""
    env = {"OPENAI_API_KEY": "", "XDG_DATA_HOME": str(tmp_path)}
    done = groundtrace("serve otlp --to otel:out --judge openai:gpt-4o --listen 127.0.0.1:0", tmp_path, env=env)
    assert done.returncode == 2
    assert "needs a key; set OPENAI_API_KEY" in done.stderr
    assert "listening" not in done.stderr


def test_a_place_that_never_answers_holds_up_no_stop(tmp_path: Path) -> None:
    """The process ends, whatever of it still waits; the next start writes the scores."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        to = f"otlp:http://127.0.0.1:{silent.getsockname()[1]}"
        with serving(tmp_path / "s", *WORDS, "--to", to) as made:
            assert post(made.url, traces(tmp_path, 2)) == 200
            made.stop()
            assert "0 traces judged; 2 parcels wait for the next start" in made.log
            made.words = (*WORDS, "--to", f"jsonl:{tmp_path}/cards.jsonl")
            made.start()
            made.stop()
    assert set(statuses(tmp_path / "cards.jsonl").values()) == {"scored"}


def test_a_judge_that_gave_out_is_left_alone_for_a_while(tmp_path: Path, hire: Callable[..., ScriptedJudge]) -> None:
    """Longer each time, whatever comes meanwhile; at the end it is asked once more, and no trace is given up."""

    def refuse(_: Any) -> str:
        raise PlatformError("the key is refused")

    judge, told, now = hire(refuse), list[str](), [1000.0]
    plan = Plan(sources="otel:-", sinks=(f"jsonl:{tmp_path}/c.jsonl",), judge="hired", sample=1.0)
    with open_store(tmp_path / "store.db") as store:
        held = Settings(tmp_path / "spool", idle=0.0)
        server = Server(plan, held, store, told.append, clock=lambda: now[0])
        with server.spool, Holds(store, "us") as holds:
            for request in traces(tmp_path, 8)["resourceSpans"]:
                body = json.dumps({"resourceSpans": [request]}).encode()
                server.intake.take("traces", body, json=True, encoding="")
                now[0] += 0.3
                server.judging.once(holds)
            assert len(judge.heard) == 2, "at once, and after a second"
            assert server.judging.trouble == "judge scripted: the key is refused"
            server.assembly.hurry()
            server.judging.rest()
            assert len(judge.heard) == 3
            assert server.assembly.waiting()["traces"] == 8
            assert told == [server.judging.trouble]


class Desk:
    """A server without its doors, whose clock stands until it is moved."""

    def __init__(self, at: Path, judge: str, *, to: str = "") -> None:
        self.now, self.told, self.cards = 1000.0, list[str](), at / "c.jsonl"
        self.sent, self._store = iter(traces(at, 9)["resourceSpans"]), open_store(at / "store.db")
        sinks, rubrics = (to or f"jsonl:{self.cards}",), ("source_support",)
        plan = Plan(sources="otel:-", sinks=sinks, judge=judge, rubrics=rubrics, sample=1.0)
        held = Settings(at / "spool", idle=0.0)
        self.server = Server(plan, held, self._store, self.told.append, clock=lambda: self.now)
        self.server.counts.state = "well"

    def turn(self, *, more: int = 0, later: float = 0.0) -> str:
        """Take so many traces more, judge what is due so much later; what the health says then."""
        for _ in range(more):
            body = json.dumps({"resourceSpans": [next(self.sent)]}).encode()
            self.server.intake.take("traces", body, json=True, encoding="")
        self.now += later
        self.server.judging.once(self._holds)
        return str(self.server.told()[1]["state"])

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        for held in (self._store, self.server.spool):
            self._stack.enter_context(held)
        self._holds = self._stack.enter_context(Holds(self._store, "us"))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@pytest.mark.parametrize("company", [2, 0])
def test_a_trace_that_is_never_answered_holds_up_no_other(
    tmp_path: Path, hire: Callable[..., ScriptedJudge], company: int
) -> None:
    """Though the judge's last word is always of that: it is given out on twice while others are answered."""
    word = [""]

    def answer(case: Any) -> Any:
        word[0] = "too long for me" if f"town {company}" in case.render("n") else ""
        return Reply("", "scripted", fault=word[0]) if word[0] else SUPPORTED

    hire(answer).trouble = lambda: word[0]  # type: ignore[attr-defined]
    with Desk(tmp_path, "hired") as desk:
        said = desk.turn(more=1 + company)
        assert said == ("well" if company else "judge scripted: too long for me"), "alone it may as well be the judge"
        for _ in range(4):
            assert desk.turn(more=1, later=2) == "well", "the next is judged soon"
            assert desk.turn(later=130) == "well"
        cards = [json.loads(line) for line in desk.cards.read_text(encoding="utf-8").splitlines()]
        assert len(cards) == 5 + company
        assert [card["reason"] for card in cards].count("judge_failed") == 1
        assert desk.server.assembly.waiting()["traces"] == 0


def test_an_outage_is_no_traces_fault_however_often_it_is_met(
    tmp_path: Path, hire: Callable[..., ScriptedJudge]
) -> None:
    """While nobody is answered nothing is held against a trace."""
    word = ["we are closed"]

    def answer(_: Any) -> Any:
        return Reply("", "scripted", fault=word[0]) if word[0] else SUPPORTED

    hire(answer).trouble = lambda: word[0]  # type: ignore[attr-defined]
    with Desk(tmp_path, "hired") as desk:
        for _ in range(5):
            assert desk.turn(more=1, later=70) == "judge scripted: we are closed"
        assert not desk.cards.exists()
        word[0] = ""
        assert desk.turn(later=70) == "well"
        assert len(statuses(desk.cards)) == 5
        assert "judge_failed" not in desk.cards.read_text(encoding="utf-8")


def test_writing_again_says_nothing_of_a_judge(tmp_path: Path, hire: Callable[..., ScriptedJudge]) -> None:
    """A batch without a trace leaves it in trouble, and puts off no question."""

    def refuse(_: Any) -> str:
        raise PlatformError("the key is refused")

    judge = hire(refuse)
    with Desk(tmp_path, "hired") as desk:
        assert desk.turn(more=1) == "judge scripted: the key is refused"
        for _ in range(20):
            assert desk.turn(later=1) == "judge scripted: the key is refused"
        assert len(judge.heard) == 1
        desk.turn(more=1, later=0)
        assert len(judge.heard) == 2, "it was put off for a second, and not again by what was written"


def test_why_scores_are_not_written_is_said_beside_the_judges_trouble(
    tmp_path: Path, hire: Callable[..., ScriptedJudge]
) -> None:
    """Neither wipes the other."""
    away, judge = [""], hire()
    judge.trouble = lambda: away[0]  # type: ignore[attr-defined]
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Desk(tmp_path, "hired", to=f"otlp:http://127.0.0.1:{port}") as desk:
        unwritten = desk.turn(more=1)
        assert unwritten.startswith("writing to ")
        judging = desk.server.judging
        judging._look()
        assert judging.trouble == unwritten
        away[0] = "503"
        judging._look()
        assert judging.trouble == f"{unwritten}; judge scripted: 503"
        away[0] = ""
        judging._look()
        assert judging.trouble == unwritten


@pytest.mark.parametrize(("trouble", "breaks"), [("a text", 0), (lambda: 1 / 0, 1), (lambda: None, 0)])
def test_a_judge_that_can_not_say_how_it_is_is_asked_all_the_same(
    tmp_path: Path, hire: Callable[..., ScriptedJudge], trouble: Any, breaks: int
) -> None:
    """It ends no server."""
    judge = hire()
    judge.trouble = trouble  # type: ignore[attr-defined]
    with Desk(tmp_path, "hired") as desk:
        assert desk.turn(more=2) == "well"
        desk.server.judging._look()
        assert len(statuses(desk.cards)) == 2
        said = "judge scripted can't say whether it is in trouble: ZeroDivisionError: division by zero"
        assert desk.told.count(said) == breaks


def test_a_judge_that_never_returns_is_left(
    tmp_path: Path, hire: Callable[..., ScriptedJudge], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had stays in the spool, though it can't be told to stop."""
    monkeypatch.setattr(judging, "_GRACE", 0.1)
    begun, over = threading.Event(), threading.Event()

    def hang(_: Any) -> str:
        begun.set()
        over.wait(60)
        return "{}"

    hire(hang)
    to = tmp_path / "cards.jsonl"
    plan = Plan(sources="otel:-", sinks=(f"jsonl:{to}",), judge="hired", rubrics=("source_support",), sample=1.0)
    held = Settings(tmp_path / "spool", idle=0.0, drain=0.0)
    place = otlp.opened(plan, held, "127.0.0.1:0")
    with open_store(tmp_path / "store.db") as store:
        server = Server(plan, held, store, lambda _: None)
        sent = threading.Thread(target=post, args=(place.url, traces(tmp_path, 2)))
        sent.start()
        server.run(place, begun.is_set)
        sent.join()
        over.set()
        assert server.judging.left
        assert server.summary() == "4 spans taken, 0 traces judged; 2 parcels wait for the next start"
    assert statuses(to) == {}
    with Spool(tmp_path / "spool") as spool:
        assert [piece.done for piece in spool.found] == [0, 0]
