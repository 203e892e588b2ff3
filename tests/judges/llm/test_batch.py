"""Cases asked by the batch: nothing mixed up, nothing paid for twice, nothing given up; through the real SDKs."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import groundtrace
from groundtrace.errors import PlanError, PlatformError
from groundtrace.judges.llm.anthropic_batch import AnthropicDesk
from groundtrace.judges.llm.batch import BatchJudge, in_words
from groundtrace.judges.llm.batch_desk import Progress
from groundtrace.judges.llm.client import Question, Trouble
from groundtrace.judges.llm.openai_batch import OpenAIDesk
from groundtrace.judges.llm.providers import http_of
from groundtrace.model import Case, Reply, Usage
from groundtrace.testing import JudgeContract, sample_case
from standins.llm import Asked, StandIn, hired

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

MODELS = {"openai": "gpt-5.2", "anthropic": "claude-sonnet-5-5"}
ECHO = {
    "type": "object",
    "properties": {"said": {"type": "string"}},
    "required": ["said"],
    "additionalProperties": False,
}
_TOWN = re.compile(r"town (\d+)\b")


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    """One stand-in for this page."""
    with hired() as made:
        yield made


@pytest.fixture
def stand(server: StandIn, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """It, which answers each question with the town it is about."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-standin")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-standin")
    put(server, batch={"polls": 1})
    return server


def put(server: StandIn, **script: Any) -> None:
    """A script under which every question is answered with its town."""
    server.script(**script)
    server.decide(echo)


def echo(asked: Asked) -> dict[str, Any] | None:
    """The town a question is about, where no rule has more to say."""
    return {"answer": {"said": town(asked.prompt)}}


def town(text: str) -> str:
    """The first town in a text."""
    found = _TOWN.search(text)
    return found[1] if found else ""


def case(number: int, **fields: Any) -> Case:
    """A question about a town."""
    body = {"claim": f"The ferry calls at town {number}.", "passage": {"id": "p1", "text": "It calls at many towns."}}
    return sample_case(**({"slot": f"c{number}>p1", "body": body, "schema": ECHO} | fields))


def cases(count: int) -> Iterator[Case]:
    """As many questions."""
    return map(case, range(count))


def plainly(asked: Case) -> Question:
    """In words, without a temperature."""
    return replace(in_words(asked), temperature=None)


def desk(name: str, stand: StandIn, kind: type[Any] | None = None) -> Any:
    """The provider's desk on loopback."""
    made = kind or {"openai": OpenAIDesk, "anthropic": AnthropicDesk}[name]
    return made(MODELS[name], stand.v1 if name == "openai" else stand.url)


def judge(name: str, stand: StandIn, ledger: Path, *, at: Any = None, **options: Any) -> BatchJudge:
    """A judge that looks every few milliseconds."""
    options = {"question": plainly, "interval": 0.01, "patience": 20} | options
    make = at or (lambda: desk(name, stand))
    return BatchJudge(f"{name}:model", make, ledger=ledger, **options)


def sizes(name: str, stand: StandIn, since: int) -> list[int]:
    """How many questions each batch held, oldest first; of those the stand-in got after `since`."""
    if name == "openai":
        with openai.OpenAI(api_key="k", base_url=stand.v1) as gpt:
            rows = [(int(one.id.split("_")[1]), one.request_counts.total) for one in gpt.batches.list(limit=100).data]
    else:
        with anthropic.Anthropic(api_key="k", base_url=stand.url) as claude:
            rows = [(int(one.id.split("_")[1]), total(one)) for one in claude.messages.batches.list(limit=100).data]
    return [count for number, count in sorted(rows) if number > since]


def total(batch: Any) -> int:
    """How many requests a message batch holds."""
    counts = batch.request_counts
    return int(counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired)


@pytest.fixture
def since(stand: StandIn) -> int:
    """The number of the last thing the stand-in made."""
    with openai.OpenAI(api_key="k", base_url=stand.v1) as sdk:
        return int(sdk.files.create(file=("mark", b"{}"), purpose="batch").id.split("-")[1])


def content(_: Case, __: Reply) -> Case | None:
    """A gate that takes everything."""
    return None


def said(reply: Reply) -> str:
    """What a reply says."""
    return str(json.loads(reply.text)["said"])


def right(heard: list[tuple[Case, Reply]], count: int) -> None:
    """Every case once, each with its own reply."""
    assert len(heard) == count == len({case.key for case, _ in heard})
    for asked, reply in heard:
        assert said(reply) == town(asked.body["claim"])


both = pytest.mark.parametrize("name", ["openai", "anthropic"])


class TestOpenAIBatches(JudgeContract):
    """What `evaluate` relies on."""

    @pytest.fixture(autouse=True)
    def _here(self, stand: StandIn, tmp_path: Path) -> None:
        put(stand, batch={"polls": 0}, strict=False)
        stand.decide(lambda _: {"answer": "{}"})
        self.made: Callable[[], BatchJudge] = lambda: judge("openai", stand, tmp_path / "l", most=500)

    def make(self) -> BatchJudge:
        return self.made()


class TestMessageBatches(JudgeContract):
    """The same of the other provider."""

    @pytest.fixture(autouse=True)
    def _here(self, stand: StandIn, tmp_path: Path) -> None:
        put(stand, batch={"polls": 0}, strict=False)
        stand.decide(lambda _: {"answer": "{}"})
        self.made: Callable[[], BatchJudge] = lambda: judge("anthropic", stand, tmp_path / "l", most=500)

    def make(self) -> BatchJudge:
        return self.made()


@both
def test_records_are_scored_at_half_the_price(name: str, stand: StandIn, tmp_path: Path) -> None:
    """The whole way with a real rubric: strict schemas, smart answers, the gate, the cost."""
    stand.decide(None)
    context = ["The night ferry leaves at 21:40 every day except Sunday.", "Bicycles travel free of charge."]
    answers = [f"The night ferry to quay {n} leaves at 21:40 except on Sundays [1]." for n in range(5)]
    records = [groundtrace.record(query="When?", context=context, answer=answer) for answer in answers]
    rubrics = [groundtrace.rubric("rag_faithfulness"), groundtrace.rubric("source_support")]
    made = judge(name, stand, tmp_path / "l", cost=lambda usage: usage.input * 2.0 + usage.output)
    cards = list(groundtrace.evaluate(records, rubrics, made))
    assert [card.status for card in cards] == ["scored"] * 10
    attempts = [attempt for card in cards for attempt in card.attempts]
    assert attempts
    for attempt in attempts:
        assert isinstance(attempt.usage, Usage)
        assert attempt.usage.input > 0 < attempt.usage.output
        assert attempt.cost == pytest.approx((attempt.usage.input * 2 + attempt.usage.output) / 2)
    tokens = stand.log()["tokens"]
    assert sum(a.usage.input for a in attempts if a.usage) == tokens["input"]
    assert sum(a.usage.cached for a in attempts if a.usage) == tokens["cached"]


@both
@pytest.mark.parametrize("seed", range(3))
def test_replies_are_never_mixed_up(name: str, stand: StandIn, tmp_path: Path, seed: int) -> None:
    """Results come in any order; equal questions are asked as often as they are put."""
    put(stand, batch={"polls": 1, "shuffle": seed})
    asked = [*cases(60), *(case(n, record_id="another") for n in range(0, 60, 3))]
    right(list(judge(name, stand, tmp_path / "l").hear(asked, content)), 80)
    assert stand.log()["requests"] == 80
    assert stand.log()["asked_times"] == {"1": 40, "2": 20}


@both
def test_what_expired_is_asked_once_more(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """Half of each batch expires: what was done counts, the rest goes into the next, then its case has a fault."""
    put(stand, batch={"polls": 0, "end": "expired", "done": 0.5})
    made = judge(name, stand, tmp_path / "l")
    heard = list(made.hear(cases(8), content))
    faults = [(asked, reply) for asked, reply in heard if reply.fault]
    assert sizes(name, stand, since) == [8, 4]
    assert len(faults) == 2
    assert all("expired" in str(reply.fault) and not reply.text and reply.usage is None for _, reply in faults)
    right([one for one in heard if one not in faults], 6)
    assert not made.ledger.open(made.id, made.where)


@both
@pytest.mark.parametrize("times", [1, 2])
def test_a_question_with_an_error(name: str, stand: StandIn, tmp_path: Path, times: int) -> None:
    """Once: asked again with the next batch. Twice: its case alone has a fault."""
    count = itertools.count(1)

    def decide(asked: Asked) -> dict[str, Any] | None:
        return {"status": 500} if town(asked.prompt) == "3" and next(count) <= times else echo(asked)

    stand.decide(decide)
    heard = {one[0].slot: one for one in judge(name, stand, tmp_path / "l").hear(cases(6), content)}
    assert stand.log()["requests"] == 7
    if times == 2:
        assert "500" in str(heard.pop("c3>p1")[1].fault)
    right(list(heard.values()), 6 if times == 1 else 5)


@both
def test_lines_that_are_lost(name: str, stand: StandIn, tmp_path: Path) -> None:
    """Results that leave questions out, which no contract allows, lose no case."""
    put(stand, batch={"polls": 0, "lost": 1.0})
    heard = list(judge(name, stand, tmp_path / "l").hear(cases(4), content))
    assert [reply.fault for _, reply in heard] == ["no result came for it"] * 4


def test_a_batch_that_fails(stand: StandIn, tmp_path: Path, since: int) -> None:
    """One that is not taken costs a try of each case; twice, and they have faults that say why."""
    put(stand, batch={"polls": 0, "end": "failed"})
    made = judge("openai", stand, tmp_path / "l")
    heard = list(made.hear(cases(3), content))
    assert sizes("openai", stand, since) == [3, 3]
    assert ["failed to validate" in str(reply.fault) for _, reply in heard] == [True] * 3
    assert "failed to validate" in made.notes()[0]


def test_a_full_queue_is_waited_for_with_smaller_batches(stand: StandIn, tmp_path: Path, since: int) -> None:
    """What the provider has no room for is sent again in parts, and costs no case a try."""

    class Crowded(OpenAIDesk):
        looks = itertools.count()

        def look(self, batch: str) -> Progress:
            fault = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}
            return Progress("failed", self._failed(fault)) if next(self.looks) < 2 else super().look(batch)

    made = judge("openai", stand, tmp_path / "l", at=lambda: desk("openai", stand, Crowded))
    right(list(made.hear(cases(8), content)), 8)
    assert sizes("openai", stand, since) == [8, 4, 2, 2, 2, 2]


@both
def test_what_the_gate_sends_back_goes_out_with_new_cases(
    name: str, stand: StandIn, tmp_path: Path, since: int
) -> None:
    """The second pass is no batch of its own; its replies are second attempts."""
    asked_again: list[tuple[str | None, int]] = []

    def again(asked: Case, reply: Reply) -> Case | None:
        asked_again.append((asked.remark, reply.attempt))
        odd = int(town(asked.body["claim"])) % 2
        return replace(asked, remark="- not so @ $") if odd and asked.remark is None else None

    made = judge(name, stand, tmp_path / "l", most=4)
    heard = list(made.hear(cases(8), again))
    right(heard, 8)
    assert sizes(name, stand, since) == [4, 4, 3, 1]
    assert Counter(asked_again) == {(None, 1): 8, ("- not so @ $", 2): 4}
    assert sorted(reply.attempt for _, reply in heard) == [1] * 4 + [2] * 4


@both
def test_hearing_twice(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """Each hearing has batches of its own; what was taken is asked anew."""
    made = judge(name, stand, tmp_path / "l")
    right(list(made.hear(cases(3), content)), 3)
    right(list(made.hear(cases(5), content)), 5)
    assert sizes(name, stand, since) == [3, 5]
    assert stand.log()["asked_times"] == {"1": 2, "2": 3}
    assert made.notes() == ()


@both
def test_a_batch_has_its_bounds(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """In cases and in bytes; of a long stream no more is pulled than fits."""
    made = judge(name, stand, tmp_path / "l", most=4)
    pulled = itertools.count()
    heard = made.hear((case(next(pulled)) for _ in range(10)), content)
    next(heard)
    assert next(pulled) == 4
    heard.close()
    with closing(desk(name, stand)) as at:
        line = len(at.line("x" * 34, plainly(case(1))))
    made = judge(name, stand, tmp_path / "m", most_bytes=3 * line)
    right(list(made.hear(cases(7), content)), 7)
    assert sizes(name, stand, since) == [4, 3, 3, 1]


# --- what is sent is paid for once ------------------------------------------------------------------------------------

CHILD = """
import sys
from dataclasses import replace
sys.path.insert(0, sys.argv[1])
from test_batch import *
name, url, ledger = sys.argv[2:]
made = judge(name, StandIn(url), Path(ledger))
for heard in made.hear(cases(6), content):
    print("heard", flush=True)
"""


def killed(name: str, stand: StandIn, ledger: Path) -> None:
    """A process that sends a batch and is killed while it waits for it."""
    tests = Path(__file__).parent.parent.parent
    env = os.environ | {"PYTHONPATH": str(tests)}
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), name, stand.url, str(ledger)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as child:
        try:
            end = time.monotonic() + 60
            while not (ledger.exists() and b'"sent"' in ledger.read_bytes()):
                assert child.poll() is None
                assert time.monotonic() < end
                time.sleep(0.02)
        finally:
            child.kill()
        assert child.stdout is not None
        assert child.stdout.read() == b""


@both
def test_a_killed_run_is_gone_on_with(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """The next process finds the batch by its questions, asks only what is new, and takes each answer once."""
    ledger = tmp_path / "l"
    put(stand, batch={"polls": 10_000_000})
    killed(name, stand, ledger)
    put(stand, batch={"polls": 0})
    made = judge(name, stand, ledger)
    right(list(made.hear(cases(8), content)), 8)
    assert sizes(name, stand, since) == [6, 2]
    assert stand.log()["requests"] == 8
    assert "sent before" in made.notes()[0]
    right(list(judge(name, stand, ledger).hear(cases(8), content)), 8)
    assert sizes(name, stand, since) == [6, 2, 8]


@both
def test_a_run_killed_before_it_was_told_the_id(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """The batch was made, nobody noted its id: it is looked for at the provider."""
    ledger = tmp_path / "l"
    put(stand, batch={"polls": 10_000_000})
    killed(name, stand, ledger)
    ledger.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0] + b'{"sent": "to')
    put(stand, batch={"polls": 0})
    made = judge(name, stand, ledger)
    right(list(made.hear(cases(6), content)), 6)
    assert sizes(name, stand, since) == [6]


@both
def test_a_run_killed_before_it_sent(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """What was only meant to be sent is sent now."""
    made = judge(name, stand, tmp_path / "l")
    with closing(made.hear(cases(3), content)) as heard:
        next(heard)
    first = json.loads((tmp_path / "l").read_bytes().splitlines()[0])
    first |= {"asked": "never", "count": 77}
    (tmp_path / "l").write_text(json.dumps(first) + "\n")
    right(list(judge(name, stand, tmp_path / "l").hear(cases(3), content)), 3)
    assert sizes(name, stand, since) == [3, 3]


@both
def test_another_judge_takes_nothing(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """A batch belongs to the model and settings it was asked with."""
    put(stand, batch={"polls": 10_000_000})
    killed(name, stand, tmp_path / "l")
    put(stand, batch={"polls": 0})
    made = judge(name, stand, tmp_path / "l")
    made.id = "another"
    right(list(made.hear(cases(6), content)), 6)
    assert sizes(name, stand, since) == [6, 6]


@both
def test_the_second_pass_is_gone_on_with_too(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """Cut while the second batch runs: the first replies are taken again, and so lead to the batch that holds them."""

    def again(asked: Case, _: Reply) -> Case | None:
        return None if asked.remark else replace(asked, remark="- not so @ $")

    stop = False

    def make() -> Any:
        at = desk(name, stand)
        real = at.look

        def look(batch: str) -> Progress:
            nonlocal stop
            stop = len(sizes(name, stand, since)) == 2
            return Progress("running") if stop else real(batch)

        at.look = look
        return at

    made = judge(name, stand, tmp_path / "l", at=make, stopping=lambda: stop)
    assert list(made.hear(cases(3), again)) == []
    assert "left with 3 cases" in made.notes()[0]
    right(list(judge(name, stand, tmp_path / "l").hear(cases(3), again)), 3)
    assert sizes(name, stand, since) == [3, 3]
    assert not made.ledger.open(made.id, made.where)


@both
def test_an_answer_that_was_looked_for_in_vain_is_asked_for_anew(
    name: str, stand: StandIn, tmp_path: Path, since: int
) -> None:
    """A batch of before held the question twice and failed it: the other of the two is no second try for one case."""
    put(stand, batch={"polls": 10_000_000})
    made = judge(name, stand, tmp_path / "l", stopping=lambda: True)
    assert list(made.hear([case(0), case(0, slot="twin>p1")], content)) == []
    put(stand, batch={"polls": 0})
    asked = itertools.count()
    stand.decide(lambda one: {"status": 500} if next(asked) < 2 else echo(one))
    right(list(judge(name, stand, tmp_path / "l").hear(cases(1), content)), 1)
    assert sizes(name, stand, since) == [2, 1]


@both
def test_closing_leaves_the_batch_running(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """It is said, and the answers nobody took are there for the next hearing."""
    made = judge(name, stand, tmp_path / "l")
    with closing(made.hear(cases(5), content)) as heard:
        first = [next(heard), next(heard)]
    assert "is left with 3 cases" in made.notes()[0]
    assert str(tmp_path / "l") in made.notes()[0]
    rest = [one for one in map(case, range(5)) if one.key != first[0][0].key]
    right([first[0], *judge(name, stand, tmp_path / "l").hear(rest, content)], 5)
    assert sizes(name, stand, since) == [5]


def test_it_stops_while_it_waits(stand: StandIn, tmp_path: Path) -> None:
    """A run that is to end is not held up by a batch that takes a day."""
    put(stand, batch={"polls": 10_000_000})
    begin = time.monotonic()
    made = judge("openai", stand, tmp_path / "l", interval=3600, stopping=lambda: time.monotonic() > begin + 0.3)
    assert list(made.hear(cases(2), content)) == []
    assert time.monotonic() < begin + 10
    assert "is left with 2 cases" in made.notes()[0]


# --- trouble ----------------------------------------------------------------------------------------------------------


def flaky(http: Any) -> Any:
    """A line on which every reading request fails three times: no connection, a 503, a body that is cut.

    `http` is httpx or httpx2, whichever the SDK stands on.
    """

    class Cut(http.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            yield b'{"custom_id": '
            raise http.RemoteProtocolError("peer closed connection")

    class Flaky(http.BaseTransport):  # type: ignore[misc]
        def __init__(self) -> None:
            self._real = http.HTTPTransport()
            self._tried: Counter[str] = Counter()

        def handle_request(self, request: Any) -> Any:
            nth = self._tried[str(request.url)] = self._tried[str(request.url)] + 1
            if request.method != "GET" or nth > 3:
                return self._real.handle_request(request)
            if nth == 1:
                raise http.ConnectError("refused", request=request)
            if nth == 2:
                return http.Response(503, headers={"retry-after": "0"}, json={"error": {"message": "later"}})
            return http.Response(200, stream=Cut())

        def close(self) -> None:
            self._real.close()

    return http.Client(transport=Flaky())


@both
def test_a_bad_line_gives_nothing_up(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """Polls and downloads are tried until they are well; a result that came twice counts once."""

    def make() -> Any:
        at = desk(name, stand)
        sdk = {"openai": openai, "anthropic": anthropic}[name]
        at._sdk = at._sdk.with_options(http_client=flaky(http_of(sdk.DefaultAsyncHttpxClient)))
        return at

    made = judge(name, stand, tmp_path / "l", at=make)
    made.sleep = lambda _: None  # type: ignore[method-assign]
    right(list(made.hear(cases(4), content)), 4)
    assert sizes(name, stand, since) == [4]
    assert made.notes() == ()


@both
def test_a_batch_whose_word_was_lost_is_not_sent_twice(name: str, stand: StandIn, tmp_path: Path, since: int) -> None:
    """The provider made the batch, the connection broke before it could say so."""
    times = itertools.count()

    def make() -> Any:
        at = desk(name, stand)
        send = at.send

        def lost(*given: Any) -> str:
            made = send(*given)
            if next(times) == 0:
                raise Trouble("connection", "the connection broke", retry_after=0)
            return str(made)

        at.send = lost
        return at

    made = judge(name, stand, tmp_path / "l", at=make)
    right(list(made.hear(cases(4), content)), 4)
    assert sizes(name, stand, since) == [4]


@both
def test_a_provider_that_takes_nothing_ends_it(name: str, stand: StandIn, tmp_path: Path) -> None:
    """Too many requests for longer than one waits; a wrong key at once; neither with the key in its words."""
    put(stand, batch={"refuse": 429})
    with pytest.raises(PlatformError, match="429"):
        list(judge(name, stand, tmp_path / "l", patience=0.2).hear(cases(2), content))
    stand.script(key="another")
    with pytest.raises(PlatformError, match="refuses the key"):
        list(judge(name, stand, tmp_path / "l").hear(cases(2), content))


@both
def test_an_unknown_model_ends_it(name: str, stand: StandIn, tmp_path: Path) -> None:
    """In one line, and what it said is not believed for ever."""
    put(stand, batch={"polls": 0}, models=["another"])
    with pytest.raises(PlatformError, match=f"no model '{MODELS[name]}'") as raised:
        list(judge(name, stand, tmp_path / "l").hear(cases(2), content))
    assert "\n" not in str(raised.value)
    put(stand, batch={"polls": 0})
    right(list(judge(name, stand, tmp_path / "l").hear(cases(2), content)), 2)


def test_some_answers_before_the_quota_is_spent(stand: StandIn, tmp_path: Path) -> None:
    """What was paid for is used before the run ends."""
    spent = {"status": 429, "kind": "insufficient_quota", "code": "insufficient_quota"}
    stand.decide(lambda asked: spent if town(asked.prompt) == "1" else echo(asked))
    heard = judge("openai", stand, tmp_path / "l").hear(cases(4), content)
    right([next(heard) for _ in range(3)], 3)
    with pytest.raises(PlatformError, match="quota"):
        next(heard)


def test_an_option_that_is_not_taken_is_left_out(stand: StandIn, tmp_path: Path, since: int) -> None:
    """Anthropic takes no temperature any more: the next batch goes without, and no case lost a try."""
    temperature: float | None = 0.0
    refused: list[str] = []

    def leaves_out(question: Question, option: str) -> bool:
        nonlocal temperature
        refused.append(option)
        temperature = None
        return question.temperature is not None

    made = judge(
        "anthropic",
        stand,
        tmp_path / "l",
        question=lambda asked: replace(in_words(asked), temperature=temperature),
        leaves_out=leaves_out,
    )
    barred = {"status": 400, "message": "temperature: Extra inputs are not permitted"}
    broken = iter([{"status": 529}])
    stand.decide(lambda asked: barred if "temperature" in asked.body else next(broken, echo(asked)))
    heard = list(made.hear(cases(3), content))
    right(heard, 3)
    assert refused == ["temperature"] * 3
    assert {reply.temperature for _, reply in heard} == {None}
    assert sizes("anthropic", stand, since) == [3, 3, 1]


@both
def test_a_batch_that_is_gone_is_asked_again(name: str, stand: StandIn, tmp_path: Path) -> None:
    """The provider forgot it: its questions are asked anew."""
    ledger = tmp_path / "l"
    put(stand, batch={"polls": 10_000_000})
    killed(name, stand, ledger)
    ledger.write_text(re.sub(r'"batch":"(msg)?batch_\d+"', r'"batch":"\1batch_9"', ledger.read_text()))
    put(stand, batch={"polls": 0})
    made = judge(name, stand, ledger)
    right(list(made.hear(cases(6), content)), 6)
    assert any("gone" in note for note in made.notes())


def test_results_that_were_deleted(stand: StandIn, tmp_path: Path, since: int) -> None:
    """The batch has ended, its files are gone: its questions are asked anew, and no later run stumbles over it."""
    ledger = tmp_path / "l"
    put(stand, batch={"polls": 10_000_000})
    killed("openai", stand, ledger)
    put(stand)
    with openai.OpenAI(api_key="k", base_url=stand.v1) as sdk:
        told = sdk.batches.list().data[0]
        while told.status != "completed":
            told = sdk.batches.retrieve(told.id)
        sdk.files.delete(told.output_file_id)
    for _ in range(2):
        made = judge("openai", stand, ledger)
        right(list(made.hear(cases(6), content)), 6)
    assert sizes("openai", stand, since) == [6, 6, 6]
    assert made.notes() == ()


@both
def test_hostile_results_are_no_answers(name: str, stand: StandIn) -> None:
    """Whatever stands in a line, reading it raises nothing."""
    at = desk(name, stand)
    at.close()
    for row in [b"", b"[]", b"{", b'{"custom_id": 1}', b"\xff", b"null", b"9" * 5000]:
        assert at.read(row) is None
    for row in [{}, {"response": []}, {"response": {"status_code": 200}}, {"error": 1}, {"result": {"type": []}},
                {"result": {"type": "errored", "error": None}}, {"result": {"type": "succeeded", "message": 3}},
                {"response": {"status_code": 200, "body": {"choices": 3, "usage": []}}}]:  # fmt: skip
        ident, _ = at.read(json.dumps({"custom_id": "x", **row}).encode())
        assert ident == "x"


@both
def test_without_a_key_nothing_is_made(name: str, stand: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable to set is named."""
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(PlanError, match=f"{name.upper()}_API_KEY"):
        desk(name, stand)
