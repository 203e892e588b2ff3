"""How long a request is waited for: as long as LangSmith says, and no longer than somebody has patience."""

from __future__ import annotations

import email.utils
from collections.abc import Iterator

import pytest

from groundtrace.adapters.langsmith.api import Api
from groundtrace.adapters.langsmith.doctor import checks
from groundtrace.adapters.patience import Refused
from groundtrace.errors import PlanError
from pushing import PROJECT, Stand, standing


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A stand-in."""
    with standing(monkeypatch) as made:
        yield made


def limited(stand: Stand, seconds: object, *, times: int = 1, path: str = "/sessions", skip: int = 0) -> None:
    """A rate limit of so many seconds."""
    told = {"status": 429, "times": times, "skip": skip, "headers": {"Retry-After": str(seconds)}}
    stand.store.faults.append({"method": "GET", "path": path, **told})


@pytest.mark.parametrize("patience", [10.0, 60.0])
def test_patience_ends_before_a_wait_that_would_outlast_it(stand: Stand, patience: float) -> None:
    """Nothing is slept in vain; what was named is in the error."""
    limited(stand, 3600)
    with pytest.raises(Refused) as caught:
        stand.api(patience=patience).call("GET", "/sessions")
    assert (caught.value.status, caught.value.retry_after, stand.slept) == (429, 3600, [])


def test_a_request_may_have_less_patience_than_its_line(stand: Stand) -> None:
    """And a wait that fits is kept to."""
    limited(stand, 9)
    assert stand.api().call("GET", "/sessions", patience=10.0)
    limited(stand, 11)
    with pytest.raises(Refused):
        stand.api().call("GET", "/sessions", patience=10.0)
    assert stand.slept == [9]


def test_waits_are_counted_together(stand: Stand) -> None:
    """On the clock of the line: two that fit alone don't fit both."""
    limited(stand, 6, times=9)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(Refused):
        Api(stand.url, patience=10.0, clock=lambda: now[0], sleep=sleep).call("GET", "/sessions")
    assert now == [6.0]


def test_random_waits_end_with_patience(stand: Stand) -> None:
    """The last try is at its end, not after it."""
    stand.store.faults.append({"method": "GET", "path": "/sessions", "status": 500, "times": 10**6})
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(Refused):
        Api(stand.url, patience=10.0, clock=lambda: now[0], sleep=sleep).call("GET", "/sessions")
    assert now == [pytest.approx(10.0)]


def test_without_patience_any_length_is_kept_to(stand: Stand) -> None:
    """An hour, if LangSmith says so."""
    limited(stand, 3600)
    assert stand.api().call("GET", "/sessions")
    assert stand.slept == [3600]


@pytest.mark.parametrize(
    "named", ["inf", "nan", "1e300", "9" * 400, "soon", "Thu, 01 Jan 99999999999999999999 00:00:00 GMT"]
)
def test_what_is_no_time_is_not_waited_for(stand: Stand, named: str) -> None:
    """The next try comes as soon as after any other trouble."""
    limited(stand, named)
    assert stand.api().call("GET", "/sessions")
    assert len(stand.slept) == 1
    assert stand.slept[0] < 60


def test_a_date_is_a_time_too(stand: Stand) -> None:
    """One that is over is now."""
    limited(stand, email.utils.formatdate(0, usegmt=True))
    assert stand.api().call("GET", "/sessions")
    assert stand.slept == [0.0]


def test_who_is_waited_for_by_somebody_gives_up(stand: Stand) -> None:
    """The doctor, and the look at what the server is."""
    for path in ("/info", "/settings"):
        limited(stand, 3600, path=path, times=99)
    api = stand.api()
    assert (api.info, api.generation) == ({}, "v2")
    for skip in (1, 0):  # the project is not told, then nothing is
        limited(stand, 3600, times=99, skip=skip)
        (trouble,) = [check for check in checks(stand.api(), PROJECT) if not check.well]
        assert "with 429" in trouble.detail
    assert not stand.slept


def test_an_address_that_never_answered_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most often it is mistyped, or the network is off: it is said soon, and where to set it."""
    monkeypatch.setenv("LANGSMITH_API_KEY", "ls-of-the-tests")
    slept: list[float] = []
    api = Api("http://127.0.0.1:9", clock=lambda: sum(slept), sleep=slept.append)
    with pytest.raises(Refused, match=r"Connection refused; is the address right \(LANGSMITH_ENDPOINT\)\?"):
        api.call("GET", "/sessions")
    assert 0 < sum(slept) < 30


def test_an_address_without_a_scheme_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not deep inside the SDK."""
    monkeypatch.setenv("LANGSMITH_API_KEY", "ls-of-the-tests")
    with pytest.raises(PlanError, match="is no address of LangSmith's API; write https://HOST, in LANGSMITH_ENDPOINT"):
        Api("api.example.org").project("p")


def test_an_option_that_is_none_is_not_taken_for_a_name(stand: Stand) -> None:
    """Where no project is called so."""
    with pytest.raises(PlanError, match="is no project here; foo is no option of langsmith:city-bot"):
        stand.api().project("city-bot,foo=1")
