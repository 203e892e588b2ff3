"""What goes wrong between us and Braintrust: waited for, split, told apart, and never a score lost without a word."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from groundtrace.adapters import rest
from groundtrace.adapters.braintrust import btql, doctor, sending
from groundtrace.adapters.braintrust.api import Api
from groundtrace.adapters.patience import Refused
from groundtrace.errors import PlanError, PlatformError
from groundtrace.model import Ref, Score
from scoring import PROJECT, Stand, about, ref, row_id, span_id, standing, states, trace_id

LONG = "because " * 500


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in."""
    with standing(monkeypatch) as made:
        yield made


def _ids(body: Any) -> set[str]:
    return {event["id"] for event in body["events"]}


# --- it passes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/project_logs", "/btql", "/v1/project_score"])
def test_a_long_rate_limit_is_waited_for(stand: Stand, path: str) -> None:
    """Ten minutes, if Braintrust says so; nothing is lost."""
    card = stand.card(1)
    stand.server.fail(path, 429, headers={"Retry-After": "600"})
    assert states(stand.sink().write([card])) == {"written": 2}
    assert 600 in stand.time.slept


def test_1414_errors_of_the_server_pass(stand: Stand) -> None:
    """A 500 is no answer."""
    card = stand.card(1)
    stand.insert_fails(500, 3)
    assert states(stand.sink().write([card])) == {"written": 2}
    assert len(stand.scorers()) == 1


@pytest.mark.parametrize("done", [True, False])
def test_a_connection_that_ends_before_the_answer_doubles_nothing(stand: Stand, *, done: bool) -> None:
    """The rows may have arrived; their ids are the same the next time."""
    card = stand.card(1)
    stand.insert_fails(times=1, drop=True, done=done)
    assert states(stand.sink().write([card])) == {"written": 2}
    assert len(stand.scorers()) == 1
    assert not stand.ghosts()


@pytest.mark.parametrize("path", ["/v1/project_logs", "/btql"])
def test_an_answer_that_is_cut_short_is_asked_for_again(stand: Stand, path: str) -> None:
    """Half of its JSON."""
    card = stand.card(1)
    stand.server.fail(path, torn=True)
    assert states(stand.sink().write([card])) == {"written": 2}


def test_a_server_that_hangs_is_asked_again(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever, and what arrived meanwhile is not doubled."""
    monkeypatch.setattr(rest, "_TIMEOUT", httpx2.Timeout(0.3))
    card = stand.card(1)
    stand.insert_fails(times=1, delay=1.0)
    assert states(stand.sink().write([card])) == {"written": 2}
    assert len(stand.scorers()) == 1


def test_a_key_that_is_refused_for_a_minute_heals(stand: Stand) -> None:
    """As one does on Braintrust under load."""
    cards = [stand.card(1), stand.card(2)]
    stand.insert_fails(401, 3)
    assert states(stand.sink().write(cards)) == {"written": 4}


# --- it stays ---------------------------------------------------------------------------------------------------------


def test_a_server_that_stays_down_fails_by_name(stand: Stand) -> None:
    """Every score is counted, with the reason."""
    card = stand.card(1)
    stand.insert_fails(500)
    receipts = list(stand.sink(api=stand.api(patience=5.0)).write([card]))
    assert states(receipts) == {"failed": 2}
    assert "with 500" in str(receipts[0].reason)


def test_a_server_that_stops_answering_is_not_asked_for_each_card(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was under way may have arrived, the rest was not sent; one look says which."""
    monkeypatch.setattr(sending, "ROWS", 4)
    cards = [stand.card(n) for n in range(1, 11)]
    stand.insert_fails(drop=True, skip=1)
    receipts = list(stand.sink(api=stand.api(patience=5.0)).write(cards))
    assert states(receipts) == {"written": 8, "failed": 12}
    assert len(stand.scorers()) == 4
    assert "did not answer" in str(receipts[-1].reason)


def test_what_may_have_arrived_and_is_not_there_is_unconfirmed(stand: Stand) -> None:
    """It is not called failed, for it may still come."""
    card = stand.card(1)
    stand.insert_fails(drop=True, done=False)
    receipts = list(stand.sink(api=stand.api(patience=5.0)).write([card]))
    assert states(receipts) == {"unconfirmed": 2}
    assert "did not answer" in str(receipts[0].reason)


@pytest.mark.parametrize("front", [True, False])
def test_an_api_that_can_not_be_reached_is_said_soon(stand: Stand, *, front: bool) -> None:
    """Within a quarter of a minute, with the setting that holds its address: the app's, or the API's own."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{closed.getsockname()[1]}"
    api = stand.api(**({"app_url": nowhere} if front else {"url": nowhere}))
    card = about(1, of=Ref("otel", None, trace_id(1), span_id(1))) if front else about(1, project=stand.project)
    variable = "BRAINTRUST_APP_URL" if front else "BRAINTRUST_API_URL"
    with pytest.raises(PlatformError, match=f"did not answer.*{variable}"):
        list(stand.sink(api=api).write([card]))
    assert stand.time() <= 20


@pytest.mark.parametrize(("status", "said"), [(401, "BRAINTRUST_API_KEY"), (403, "lack the permission")])
def test_what_holds_for_every_write_ends_them_all(
    stand: Stand, status: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clearly said, and nothing is counted as written that was not."""
    monkeypatch.setattr(sending, "ROWS", 2)
    cards = [stand.card(n) for n in range(1, 6)]
    stand.insert_fails(status, skip=2)
    left = stand.sink().write(cards)
    receipts = [next(left) for _ in range(10)]
    assert states(receipts) == {"written": 4, "failed": 6}
    with pytest.raises(PlatformError, match=said):
        next(left)
    if status == 403:
        assert len(stand.inserts()) == 3
    assert stand.time() <= 200


def test_a_key_that_is_wrong_ends_it_at_once(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """It never was good: nobody waits."""
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-wrong")
    left = stand.sink(api=stand.api(url=stand.url)).write([stand.card(1)])
    receipts = [next(left) for _ in range(2)]
    assert states(receipts) == {"failed": 2}
    with pytest.raises(PlatformError, match="BRAINTRUST_API_KEY") as raised:
        next(left)
    assert raised.value.denied
    assert "sk-wrong" not in str(raised.value)
    assert not stand.time.slept


def test_a_key_from_a_file_may_end_its_line(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a secret of CI's does."""
    monkeypatch.setenv("BRAINTRUST_API_KEY", "sk-test\n")
    assert states(stand.sink().write([stand.card(1)])) == {"written": 2}


@pytest.mark.parametrize("key", ["sk-hush\nsk-hush", "sk-h\u00fcsh", "sk-hush\u2028hush"])
def test_what_can_be_no_key_is_not_shown(stand: Stand, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """HTTP's own error would show it."""
    monkeypatch.setenv("BRAINTRUST_API_KEY", key)
    with pytest.raises(PlanError, match="BRAINTRUST_API_KEY") as raised:
        stand.api(url=stand.url).call("GET", "/v1/project")
    assert "sh" not in str(raised.value)
    checks = list(doctor.checks(stand.api(url=stand.url)))
    assert [check.well for check in checks] == [False]
    assert "hush" not in str(checks)


def test_an_organisation_may_be_called_what_no_header_can_say(stand: Stand) -> None:
    """Projects are asked for by its name all the same, and rows by ids."""
    stand.server.store.orgs["M\u00fcller"] = "11111111-1111-1111-1111-111111111111"
    stand.server.store.project(PROJECT, "M\u00fcller")
    line = stand.api(org="M\u00fcller")
    assert line.org.name == "M\u00fcller"
    assert line.project(PROJECT).id != stand.project


def test_a_header_that_is_no_header_is_not_shown(stand: Stand) -> None:
    """Whatever platform it is for."""
    line = rest.Rest("Ferries", stand.url, where="FERRIES_URL", headers={"key": "hush\n"}, patience=0.0)
    with pytest.raises(Refused) as raised:
        line.call("GET", "/")
    assert "hush" not in str(raised.value)
    line.close()


def test_columns_that_may_not_be_seen_keep_no_score_back(stand: Stand) -> None:
    """That a name may be taken is said."""
    card = stand.card(1)
    stand.server.fail("/v1/project_score", 403)
    sink = stand.sink()
    assert states(sink.write([card])) == {"written": 2}
    assert "column of people's" in sink.notes()[0]


# --- one spoils the rest ----------------------------------------------------------------------------------------------


def test_1357_one_row_that_is_refused_fails_alone(stand: Stand) -> None:
    """Among a hundred: with what was said of it; the root above it is told nothing of it."""
    cards = [stand.card(n) for n in range(100)]
    cards.insert(58, about(57, project=stand.project, rubric="rag_faithfulness"))
    poison = cards[57].id
    error = {"code": "invalid_type", "expected": "number", "received": "boolean", "path": ["metrics", "is_byok"]}
    told = {"Code": "BadRequestError", "Message": json.dumps({"error": "Invalid request", "errors": [error]})}
    stand.insert_fails(400, body=json.dumps(told), when=lambda body: poison in _ids(body))
    receipts = list(stand.sink().write(cards))
    assert states(receipts) == {"failed": 2, "written": 200}
    assert {receipt.card_id for receipt in receipts if receipt.state == "failed"} == {poison}
    assert "is_byok" in str(next(receipt.reason for receipt in receipts if receipt.state == "failed"))
    assert poison not in stand.scorers()
    rubrics = stand.users_rows()[row_id(57)]["metadata"]["groundtrace"]["rubrics"]
    assert rubrics.keys() == {"rag_faithfulness"}
    assert len(stand.inserts()) <= 2 * 8 + 2
    assert not stand.ghosts()


def test_1357_a_root_that_takes_no_change_costs_no_score(stand: Stand) -> None:
    """A row with a boolean among its metrics, which Braintrust would not touch: every score is written all the same."""
    cards = [stand.card(n) for n in range(100)]
    odd = row_id(50)
    stand.insert_fails(400, when=lambda body: odd in _ids(body), body="Expected number, received boolean")
    sink = stand.sink()
    assert states(sink.write(cards)) == {"written": 200}
    assert "groundtrace" not in stand.users_rows()[odd]["metadata"]
    assert "received boolean" in sink.notes()[0]


def test_a_server_that_goes_down_while_a_request_is_split_fails_by_name(stand: Stand) -> None:
    """What was taken before is written, and each of the others has a reason."""
    cards = [stand.card(n) for n in range(8)]
    stand.insert_fails(400, times=1)
    stand.insert_fails(500, skip=1)
    receipts = list(stand.sink(api=stand.api(patience=5.0), mirror=False).write(cards))
    assert states(receipts) == {"written": 8, "failed": 8}
    stand.server.faults.clear()
    stand.insert_fails(400, times=1)
    stand.insert_fails(500)
    cards = [card.model_copy(update={"version": "2"}) for card in cards]
    receipts = list(stand.sink(api=stand.api(patience=5.0), mirror=False).write(cards))
    assert states(receipts) == {"failed": 16}
    assert all("with 500" in str(receipt.reason) for receipt in receipts)


def test_columns_that_can_not_be_asked_for_stop_what_could_overwrite_them(stand: Stand) -> None:
    """A server that is down says nothing about names."""
    card = stand.card(1)
    stand.server.fail("/v1/project_score", 500, 10**6)
    assert states(stand.sink(api=stand.api(patience=5.0)).write([card])) == {"failed": 2}
    assert not stand.inserts()


def test_a_request_that_is_too_large_is_split(stand: Stand) -> None:
    """As often as needed."""
    score = Score(name="source_support", value=2, low=1, high=5, rationale=LONG)
    cards = [stand.card(n, score) for n in range(20)]
    stand.server.max_payload = 30_000
    assert states(stand.sink().write(cards)) == {"written": 20}
    assert len(stand.inserts()) > 5
    assert {row["metadata"]["rationale"] for row in stand.scorers().values()} == {LONG}


def test_a_row_that_is_too_large_by_itself_is_trimmed(stand: Stand) -> None:
    """The score matters more than all of its reasons; one that is too large even so fails alone."""
    score = Score(name="source_support", value=2, low=1, high=5, rationale=LONG)
    card = stand.card(1, score)
    stand.server.max_payload = 6_000
    assert states(stand.sink().write([card, stand.card(2)])) == {"written": 3}
    assert "(cut: " in stand.scorers()[card.id]["metadata"]["rationale"]
    stand.server.max_payload = 20_000_000
    assert states(stand.sink().write([card])) == {"unchanged": 1}
    stand.server.max_payload = 300
    receipts = list(stand.sink().write([stand.card(3)]))
    assert states(receipts) == {"failed": 2}
    assert "with 413" in str(receipts[0].reason)


def test_requests_hold_no_more_than_braintrust_takes(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known before they are sent, in bytes and in rows; a root is told with its cards."""
    monkeypatch.setattr(sending, "BYTES", 20_000)
    score = Score(name="source_support", value=2, low=1, high=5, rationale=LONG)
    cards = [stand.card(n, score) for n in range(10)]
    assert states(stand.sink().write(cards)) == {"written": 10}
    assert [len(events) for events in stand.inserts()] == [4, 4, 4, 4, 4]


# --- reading back -----------------------------------------------------------------------------------------------------


def test_rows_that_are_listed_late_are_waited_for(stand: Stand) -> None:
    """Taken, and to be seen some seconds later."""
    card = stand.card(1)
    stand.server.visibility_delay = 5
    assert states(stand.sink().write([card])) == {"written": 2}
    assert stand.time.slept == [1.0, 2.0, 4.0]


def test_a_row_that_is_not_listed_is_unconfirmed(stand: Stand) -> None:
    """The next run looks again, and writes nothing; the next batch does not wait as long."""
    card = stand.card(1)
    stand.trace(2)
    stand.server.visibility_delay = 10**6
    sink = stand.sink()
    receipts = list(sink.write([card]))
    assert states(receipts) == {"unconfirmed": 2}
    assert receipts[0].reason == "Braintrust took it and does not list it yet"
    assert 10 < sum(stand.time.slept) <= 60
    stand.time.slept.clear()
    list(sink.write([about(2, project=stand.project)]))
    assert sum(stand.time.slept) < 5
    stand.time.now += 10**6
    writes = len(stand.inserts())
    assert states(stand.sink().write([card])) == {"unchanged": 2}
    assert len(stand.inserts()) == writes


def test_rows_that_can_not_be_read_back_are_unconfirmed(stand: Stand) -> None:
    """With why; what was taken is not called lost."""
    stand.server.fail("/btql", 500, 10**6, skip=2)
    receipts = list(stand.sink(api=stand.api(patience=5.0)).write([stand.card(1)]))
    assert states(receipts) == {"unconfirmed": 2}
    assert "could not be read back" in str(receipts[0].reason)


def test_an_answer_without_rows_when_read_back_is_unconfirmed(stand: Stand) -> None:
    """A proxy in between may answer in Braintrust's place; what was taken is not called lost for it."""
    stand.server.fail("/btql", 200, body="{}", skip=2)
    receipts = list(stand.sink().write([stand.card(1)]))
    assert states(receipts) == {"unconfirmed": 2}
    assert "could not be read back" in str(receipts[0].reason)


def test_a_row_that_is_trimmed_keeps_what_people_wrote_on_it(stand: Stand) -> None:
    """Ours alone is cut."""
    card = stand.card(1, Score(name="source_support", value=4, low=1, high=5, rationale=LONG))
    list(stand.sink().write([card]))
    stored = stand.server.store.objects["project_logs", stand.project][card.id]
    theirs = {"ada": {"rationale": ["a", "b"]}, "bob": {"rationale": "x" * 900}}
    stored["metadata"] |= theirs
    newer = card.model_copy(update={"version": "2"})
    stand.insert_fails(413, 2, when=lambda body: card.id in _ids(body))
    assert states(stand.sink().write([newer])) == {"written": 1}
    row = stand.scorers()[card.id]["metadata"]
    assert ({name: row[name] for name in theirs}, row["version"]) == (theirs, "2")


@pytest.mark.parametrize("trouble", [{"status": 400}, {"status": 200, "body": "{}"}])
def test_what_people_put_on_a_span_must_be_known_before_it_is_replaced(stand: Stand, trouble: dict[str, Any]) -> None:
    """Else nothing is written over; what stands as it is, and what goes elsewhere, is not touched by that."""
    cards = [stand.card(n) for n in (1, 2)]
    list(stand.sink().write(cards))
    before = stand.rows()
    stand.server.fail("/btql", when=lambda body: "expected" in str(body), **trouble)
    newer = cards[0].model_copy(update={"version": "2"})
    assert states(stand.sink().write([newer, cards[1]])) == {"failed": 2, "unchanged": 2}
    assert stand.rows() == before


@pytest.mark.parametrize("body", ['"ok"', "[]", "5", '{"row_ids": 5}', ""])
def test_rows_that_were_taken_are_looked_for_whatever_was_answered(stand: Stand, body: str) -> None:
    """What Braintrust lists is what counts."""
    list(stand.sink().write([card := stand.card(1)]))
    stored = stand.server.store.objects["project_logs", stand.project]
    there = stored.pop(card.id)
    stand.insert_fails(200, 1, body=body)
    sink = stand.sink(sleep=lambda _: stored.setdefault(card.id, there))
    assert states(sink.write([card])) == {"written": 2}


@pytest.mark.parametrize("body", ['{"org_info": [5]}', '{"org_info": [{"id": "a"}]}', '{"org_info": 5}', "[]"])
def test_an_app_that_tells_no_organisations_is_said_to(stand: Stand, body: str) -> None:
    """It may be no app of Braintrust's."""
    stand.server.fail("/api/apikey/login", 200, 10**6, body=body)
    with pytest.raises(PlanError):
        stand.api().url  # noqa: B018 - asked for with its first use
    assert not list(doctor.checks(stand.api()))[-1].well


def test_a_run_that_was_killed_between_its_write_and_its_receipts_doubles_nothing(stand: Stand) -> None:
    """Whether its rows are to be seen by the next run or not yet."""

    def die(_: float) -> None:
        raise KeyboardInterrupt

    cards = [stand.card(n) for n in range(1, 6)]
    stand.server.visibility_delay = 3
    for _ in range(2):
        sink = stand.sink(sleep=die)
        with pytest.raises(KeyboardInterrupt):
            list(sink.write(cards))
    before = {key: row["_pagination_key"] for key, row in _all(stand).items()}
    assert len(before) == 5
    stand.time.now += 10
    assert states(stand.sink().write(cards)) == {"unchanged": 10}
    assert {key: row["_pagination_key"] for key, row in _all(stand).items()} == before
    assert not stand.ghosts()


def _all(stand: Stand) -> dict[str, Any]:
    """Scorer spans, whether they are listed or not."""
    stored = stand.server.store.objects["project_logs", stand.project]
    return {key: row for key, row in stored.items() if row["span_attributes"]["type"] == "score"}


def test_the_queries_of_a_lower_plan_are_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty a minute, and never a 429; at a hundred cards for two of them."""
    with standing(monkeypatch, queries=20) as stand:
        cards = [stand.card(n) for n in range(1500)]
        sink = stand.sink(api=stand.api(queries=20))
        assert states(sink.write(cards)) == {"written": 3000}
        assert not [told for told in stand.server.requests if told.get("status") == 429]
        assert stand.time() <= 65


def test_what_is_known_of_pages_is_known_to_all_of_a_process(stand: Stand) -> None:
    """A watch looks with a line of its own each round, and does not check the same again."""
    for _ in range(3):
        line = Api(stand.url, stand.url, queries=6000)
        bound = btql.within("root_span_id", [trace_id(1)])
        stand.trace(1)
        assert len([row for page in line.pages(line.project(PROJECT), bound) for row in page]) == 3
    assert stand.queries() == 4


@pytest.mark.parametrize(
    ("said", "holds"), [((10, None), 10), ((None, 10), 10), ((120, None), 120), ((120, 10), 10), ((None, None), 20)]
)
def test_how_many_queries_a_minute_holds_is_for_all_of_a_process(
    stand: Stand, said: tuple[int | None, int | None], holds: int
) -> None:
    """Who names no number, as a sink beside a source, raises none that was named; of two the lower one is kept to."""
    one, other = [Api(stand.url, stand.url, queries=queries).known.throttle for queries in said]
    assert one is other
    assert one.most == holds


def test_the_sink_makes_its_own_line(stand: Stand) -> None:
    """As a plan makes it: options and all."""
    from groundtrace.plugins import load

    stand.trace(1)
    sink = load("sink", f"braintrust:{PROJECT},app_url={stand.url},queries=600,target=answer,mirror=false")
    assert states(sink.write([about(1, of=ref(1, stand.project, "answer"))])) == {"written": 2}
    (row,) = stand.scorers().values()
    assert row["span_parents"] == [span_id(1, "answer")]
