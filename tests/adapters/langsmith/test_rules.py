"""The rule that tells an address of new traces is made once, changed where it differs, and removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from groundtrace.adapters.langsmith.api import Project
from groundtrace.adapters.langsmith.rules import attach, detach
from groundtrace.adapters.langsmith.source import LangSmithSource
from groundtrace.adapters.patience import Refused
from pushing import PROJECT, Stand, standing

URL = "https://example.org/langsmith"
SECRET = "a-secret-nobody-guesses"
HEADERS = {"X-Groundtrace-Secret": SECRET}


@pytest.fixture(params=["v2", "v1"])
def stand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in whose rules are listed in either way."""
    with standing(monkeypatch) as made:
        if request.param == "v1":
            fault(made, "GET", "/api/v2/runs/rules", 404, times=10**6)
        yield made


def fault(stand: Stand, method: str, path: str, status: int, *, times: int = 1, **more: Any) -> None:
    """A trouble the stand-in makes."""
    stand.store.faults.append({"method": method, "path": path, "status": status, "times": times, **more})


def attached(stand: Stand, share: float = 0.1, **headers: str) -> list[str]:
    """Attach an address; what was said."""
    project = Project(stand.project, PROJECT, "")
    return list(attach(stand.api(), project, URL, share=share, headers=headers or HEADERS))


def test_attached_twice_there_is_one_rule(stand: Stand) -> None:
    """With all it takes, and no trace kept longer for it."""
    first = attached(stand)
    second = attached(stand)
    (rule,) = stand.store.rules.values()
    ident = rule["id"]
    assert rule["webhooks"] == [{"url": URL, "headers": HEADERS}]
    assert (rule["session_id"], rule["sampling_rate"], rule["is_enabled"]) == (stand.project, 0.1, True)
    assert rule["extend_webhook_trace_retention"] is False
    what = f"10% of its new traces are told to {URL}; how long they are kept is not prolonged"
    assert first == [f"created rule {ident} of project ferries: {what}"]
    assert second == [f"rule {ident} of project ferries is there already: {what}"]


def test_a_rule_that_differs_is_changed(stand: Stand) -> None:
    """Its share, or the secret."""
    attached(stand)
    assert attached(stand, 0.5)[0].startswith("changed rule ")
    attached(stand, 0.5, **{"X-Groundtrace-Secret": "another-secret-of-ours"})
    (rule,) = stand.store.rules.values()
    assert rule["sampling_rate"] == 0.5
    assert rule["webhooks"][0]["headers"] == {"X-Groundtrace-Secret": "another-secret-of-ours"}


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"is_enabled": False}, "disabled"),
        ({"sampling_rate": 0.001}, "sampling rate 0.001"),
        ({"filter": 'eq(name, "x")'}, 'filter eq(name, "x")'),
        ({"filter": None}, "no filter"),
        ({"tree_filter": 'has(tags, "a")', "trace_filter": ""}, 'tree filter has(tags, "a")'),
        ({"extend_webhook_trace_retention": True}, "traces kept longer"),
    ],
)
def test_a_rule_somebody_changed_is_put_right_and_it_is_said_how_it_was(
    stand: Stand, odd: dict[str, Any], said: str
) -> None:
    """One that tells less than was asked for is not there already."""
    attached(stand)
    (rule,) = stand.store.rules.values()
    right = dict(rule)
    rule |= odd
    (line,) = attached(stand)
    assert line.startswith(f"changed rule {rule['id']} of project ferries ({said} before): 10% of its new traces")
    assert {name: told for name, told in rule.items() if told} == {name: told for name, told in right.items() if told}
    assert " is there already: " in attached(stand)[0]


def test_a_rule_that_does_more_is_left_and_it_is_said_how_it_differs(stand: Stand) -> None:
    """It is not ours to change; where it tells all that was asked for, nothing is amiss."""
    attached(stand)
    (rule,) = stand.store.rules.values()
    rule |= {"add_to_dataset_id": "d"}
    assert " is there already: " in attached(stand)[0]
    rule |= {"is_enabled": False, "sampling_rate": 0.001}
    before = dict(rule)
    (line,) = attached(stand)
    assert "tells the address, but not as was asked: disabled, sampling rate 0.001; it was left" in line
    assert "for it does more (add_to_dataset_id); by hand: project ferries" in line
    assert rule == before


def test_a_rule_of_ours_beside_one_that_does_more_is_the_one_that_is_changed(stand: Stand) -> None:
    """Whichever was made first."""
    webhooks = [{"url": URL, "headers": HEADERS}]
    busy = {"display_name": "busy", "session_id": stand.project, "webhooks": webhooks, "add_to_dataset_id": "d"}
    stand.api().call("POST", "/runs/rules", json=busy)
    stand.api().call("POST", "/runs/rules", json={**busy, "add_to_dataset_id": None, "sampling_rate": 1})
    first, other = attached(stand)
    assert first.startswith("changed rule ")
    assert other.endswith("tells the same address: it was left")


def test_a_secret_in_an_address_is_not_said(stand: Stand) -> None:
    """Not by what was done, not by what to do by hand, not where the server gives it back."""
    secret = "hunter2hunter2hunter2"
    url, api, project = f"{URL}?secret={secret}", stand.api(), Project(stand.project, PROJECT, "")
    said = [*attach(api, project, url, share=0.1, headers={}), *attach(api, project, url, share=1, headers={})]
    said += attach(api, project, URL, share=1, headers={})
    (rule, _) = stand.store.rules.values()
    rule["webhooks"].append({"url": f"{URL}/other?secret={secret}"})
    said += detach(api, project, url)
    rule["webhooks"].pop()
    said += [*detach(api, project, url), *detach(api, project, url)]
    assert said[0].endswith(f"told to {URL}?***; how long they are kept is not prolonged")
    for method, act in (("POST", attach), ("GET", detach)):
        fault(stand, method, "/runs/rules", 403, body={"detail": f"no {url}, {secret}"}, times=9)
        with pytest.raises(Refused) as caught:
            act(api, project, url, **({"share": 1, "headers": {}} if act is attach else {}))
        said += [str(caught.value), caught.value.detail]
    assert secret not in "".join(said)


def test_detached_there_is_none_and_others_stay(stand: Stand) -> None:
    """A rule of another address, of another project, or that does more, is not ours to remove."""
    attached(stand)
    project = Project(stand.project, PROJECT, "")
    other = str(stand.store.session_by_name("boats")["id"])
    api = stand.api()
    attach(api, Project(other, "boats", ""), URL, share=1, headers={})
    attach(api, project, f"{URL}/more", share=1, headers={})
    busy = {"display_name": "busy", "session_id": stand.project, "webhooks": [{"url": URL}], "add_to_dataset_id": "d"}
    held = api.call("POST", "/runs/rules", json=busy)["id"]
    assert [line.split(" ")[0] for line in detach(api, project, URL)] == ["removed", "rule"]
    left = {rule["id"]: rule["session_id"] for rule in stand.store.rules.values()}
    assert (len(left), left[held]) == (3, stand.project)
    assert detach(api, Project(other, "boats", ""), URL)[0].startswith("removed rule ")
    assert detach(api, Project(other, "boats", ""), URL) == [f"no rule of project boats tells {URL}"]


def test_more_rules_than_a_page_holds_are_seen(stand: Stand) -> None:
    """The one of ours may be the last."""
    api, project = stand.api(), Project(stand.project, PROJECT, "")
    for n in range(45):
        attach(api, project, f"{URL}/{n}", share=1, headers={})
    assert attach(api, project, f"{URL}/3", share=1, headers={})[0].endswith("is not prolonged")
    assert len(stand.store.rules) == 45


def test_an_answer_that_never_came_makes_no_second_rule(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked whether the first is there."""
    fault(stand, "POST", "/runs/rules", 503, times=2)
    attached(stand)
    assert len(stand.asked("POST", "/runs/rules")) == 3
    assert len(stand.store.rules) == 1


@pytest.mark.parametrize("status", [400, 403, 422])
def test_where_the_server_refuses_it_is_said_how_it_is_done_by_hand(stand: Stand, status: int) -> None:
    """And a secret it gives back is not told."""
    fault(stand, "POST", "/runs/rules", status, body={"detail": f"webhooks: unknown field, {SECRET}"})
    with pytest.raises(Refused) as caught:
        attached(stand)
    said = str(caught.value)
    assert "no rule was made or changed; by hand: project ferries, Automations, New: runs that are roots" in said
    assert f"sampling rate 0.1, action Webhook to {URL}, with the header X-Groundtrace-Secret" in said
    assert SECRET not in said + caught.value.detail
    assert not stand.store.rules


def test_the_source_does_it_for_its_project(stand: Stand) -> None:
    """As the command line asks it to."""
    source = LangSmithSource(PROJECT, url=stand.url)
    source.attach(URL, share=0.2, headers={})
    (rule,) = stand.store.rules.values()
    assert rule["sampling_rate"] == 0.2
    source.detach(URL)
    assert not stand.store.rules
