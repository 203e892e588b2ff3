"""Who asks Braintrust, where, how often, and what of its answers is not taken on trust."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from braintrust_pulling import PROJECT, Stand, standing
from groundtrace.adapters.braintrust import btql
from groundtrace.adapters.braintrust.api import Api
from groundtrace.adapters.patience import Refused
from groundtrace.errors import PlanError, PlatformError

ALL = btql.compared("ge", "created", "2020-01-01")


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in."""
    with standing(monkeypatch) as made:
        yield made


def lazy(stand: Stand, **told: Any) -> Api:
    """A line to it on which time passes only where somebody waits."""
    settings = {"queries": 6000, "clock": lambda: sum(stand.slept), "sleep": stand.slept.append, **told}
    return Api(stand.url, stand.url, **settings)


def ids(stand: Stand, api: Api, **told: Any) -> list[list[str]]:
    """The rows of a project as they come, page by page."""
    return [[str(row["id"]) for row in page] for page in api.pages(api.project(PROJECT), ALL, **told)]


def test_the_api_is_where_the_app_says(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless an address is given; an option goes before the environment."""
    monkeypatch.setenv("BRAINTRUST_APP_URL", stand.url)
    api = Api()
    assert (api.url, api.org.name, api.region) == (stand.url, "test-org", "self-hosted")
    monkeypatch.setenv("BRAINTRUST_API_URL", "https://api-eu.braintrust.dev/")
    assert (Api().url, Api().region) == ("https://api-eu.braintrust.dev", "EU")
    assert Api("https://api.braintrust.dev").region == "US"
    with pytest.raises(PlanError, match="is no address of Braintrust's API"):
        _ = Api("api.braintrust.dev").url


def test_a_key_of_several_organisations_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And sees that one's projects only."""
    with standing(monkeypatch, orgs=("acme", "other")) as stand:
        stand.store.project(PROJECT, "other")
        with pytest.raises(PlanError, match="is of several organisations") as caught:
            _ = Api(app_url=stand.url).url
        assert "acme" in str(caught.value)
        with pytest.raises(PlanError, match="is no organisation of this key"):
            _ = Api(app_url=stand.url, org="acmee").url
        ours, theirs = (Api(app_url=stand.url, org=name).project(PROJECT).id for name in ("acme", "other"))
        assert ours != theirs
        monkeypatch.setenv("BRAINTRUST_ORG_NAME", "other")
        assert Api(app_url=stand.url).project(PROJECT).id == theirs


def test_a_project_is_found_by_its_name_or_id_and_asked_for_once(stand: Stand) -> None:
    """What is neither is no plan."""
    api = lazy(stand)
    by_name = api.project(PROJECT)
    assert api.project(by_name.id) == by_name
    api.project(PROJECT)
    assert len(stand.standin.asked("/v1/project")) == 3  # by name, by the id as a name, by the id
    for odd in ("00000000-0000-0000-0000-000000000000", "ferrys", ""):
        with pytest.raises(PlanError, match="is no project here"):
            api.project(odd)
    assert len(stand.store.projects) == 1


def test_a_name_that_is_not_there_says_which_is_meant(stand: Stand) -> None:
    """Of a project and of an experiment; an option nobody knows is no part of a name."""
    api = lazy(stand)
    place = api.project(PROJECT)
    stand.store.experiment(place.id, "prompt-7")
    with pytest.raises(PlanError, match=f"'{PROJECT}s' is no project here; did you mean '{PROJECT}'. `groundtrace"):
        api.project(f"{PROJECT}s")
    with pytest.raises(PlanError, match=rf"is no experiment of {PROJECT}; did you mean 'prompt-7'\?$"):
        api.experiment(PROJECT, "promt-7")
    with pytest.raises(PlanError, match=f"is no project here; foo is no option of braintrust:{PROJECT}"):
        api.project(f"{PROJECT},foo=1")
    stand.standin.fail("/v1/project", 403, skip=1)
    with pytest.raises(PlanError, match=f"'{PROJECT}s' is no project here; this key may see none"):
        api.project(f"{PROJECT}s")


def test_without_a_key_nothing_is_asked(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the message says which variable."""
    monkeypatch.delenv("BRAINTRUST_API_KEY")
    with pytest.raises(PlanError, match="BRAINTRUST_API_KEY"):
        lazy(stand).project(PROJECT)
    assert stand.standin.requests == []
    with pytest.raises(PlanError, match="is no number of queries a minute"):
        Api(queries=0)


@pytest.mark.parametrize(("cap", "size"), [(None, 4), (3, 4), (1, 4), (None, 100)])
def test_pages_are_whole_whatever_the_server_gives_at_once(
    monkeypatch: pytest.MonkeyPatch, cap: int | None, size: int
) -> None:
    """A cap nobody tells of is found out by the first short page."""
    with standing(monkeypatch, row_cap=cap) as stand:
        for n in range(1, 12):
            stand.row(n)
        found = ids(stand, lazy(stand), size=size)
        assert [ident for page in found for ident in page] == [f"row-{n}" for n in range(1, 12)]


def test_a_page_is_halved_down_to_a_row_and_grows_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row that is too large is refused; rows before it came."""
    with standing(monkeypatch, page_bytes=6000) as stand:
        for n in range(1, 9):
            stand.row(n, output="x" * (2500 if n < 8 else 9000))
        api, found = lazy(stand), list[str]()
        with pytest.raises(Refused) as caught:
            found.extend(str(row["id"]) for page in api.pages(api.project(PROJECT), ALL) for row in page)
        assert caught.value.status == 413
        assert found == [f"row-{n}" for n in range(1, 8)]
        limits = [told["body"]["query"]["limit"] for told in stand.asked()]
        assert limits[0] == 1000
        assert limits[-1] == 1
        assert any(later > earlier for earlier, later in pairwise(limits))


def test_a_key_that_was_good_is_tried_again_for_a_while(stand: Stand) -> None:
    """Not for ever, and not one that never was."""
    stand.row(1)
    api = lazy(stand)
    stand.standin.fail("/btql", 401, times=3, body="invalid x-api-key")
    assert ids(stand, api) == [["row-1"]]
    stand.standin.fail("/btql", 401, times=10**6)
    began = sum(stand.slept)
    with pytest.raises(Refused, match="is BRAINTRUST_API_KEY right"):
        ids(stand, api)
    assert 100 < sum(stand.slept) - began < 200
    stand.slept.clear()
    stand.standin.faults.clear()
    stand.standin.fail("/v1/project", 401, times=10**6)
    with pytest.raises(Refused):
        lazy(stand).project(PROJECT)
    assert stand.slept == []


def test_halved_pages_and_tries_are_queries_too(stand: Stand) -> None:
    """Each waits for its place in the minute."""
    for n in range(1, 9):
        stand.row(n)
    stand.standin.fail("/btql", 429, times=4)
    stand.standin.fail("/btql", 504, times=4)
    api = lazy(stand, queries=5)
    assert sum(map(len, ids(stand, api))) == 8
    assert len(stand.asked()) > 8
    assert sum(stand.slept) >= 60


@pytest.mark.parametrize("answer", [b"[]", b'{"data": null}', b"<html>hello</html>", b'{"rows": []}'])
def test_an_answer_that_holds_no_rows_is_no_empty_project(stand: Stand, answer: bytes) -> None:
    """The address may be another thing's."""
    api = lazy(stand, patience=5.0)
    place = api.project(PROJECT)
    stand.standin.fail("/btql", 200, times=10**6, body=answer.decode())
    with pytest.raises(PlatformError):
        list(api.pages(place, ALL))


def test_rows_without_a_place_are_one_page_or_an_error(stand: Stand) -> None:
    """More than one page of them can't be read, and none is passed over in silence."""
    for n in range(1, 4):
        stand.row(n)
    for row in stand.store.objects["project_logs", stand.project].values():
        row["_pagination_key"] = None
    with pytest.raises(PlatformError, match="_pagination_key"):
        ids(stand, lazy(stand), size=2)


def test_no_value_can_be_taken_for_a_part_of_a_query(stand: Stand) -> None:
    """It is a literal in a tree."""
    odd = "'] | limit: 1 | filter: id != '\"\\ \n"
    stand.row(1, id=odd)
    stand.row(2)
    api = lazy(stand)
    where = btql.every(ALL, btql.within("id", [odd]))
    assert [row["id"] for page in api.pages(api.project(PROJECT), where) for row in page] == [odd]
    assert list(api.pages(api.project(PROJECT), btql.within("id", []))) == []
