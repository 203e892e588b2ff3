"""Whatever a provider says of when to come back is a time to wait, or nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from groundtrace.judges.llm.transport import parse_retry_after
from virtual_time import BEGAN


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7), ("0", 0), ("1.5", 1.5), (" 2 ", 2), (".5", 0.5), ("-3", 0), ("-0.5", 0), ("86400", 86_400),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30), ("Friday, 15-Jan-27 08:00:30 GMT", 30), ("Fri Jan 15 08:00:30 2027", 30),
        ("Fri, 15 Jan 2027 07:59:30 GMT", 0), ("Fri, 15 Jan 2027 09:00:30 +0100", 30),
        ("2027-01-15T08:00:30Z", 30), ("2027-01-15T08:00:00.250+00:00", 0.25), ("2027-01-15T08:00:30", 30),
        ("1s", 1), ("6m0s", 360), ("350ms", 0.35), ("1h2m3.5s", 3723.5), ("2d", 172_800), ("1m", 60), ("1m5ms", 60.005),
        ("1800000042", 42), ("1800000042000", 42), ("1800000042.5", 42.5), ("1700000000", 0),
        (None, None), ("", None), ("soon", None), ("nan", None), ("inf", None), ("1e3", None), ("+5", None),
        ("٣", None), ("1_000", None), ("1, 2", None), ("1.2.3s", None), ("s", None), ("--1", None), ("9" * 400, None),
        ("Fri, 99 Jan 2027 08:00:30 GMT", None), ("0001-01-01T00:00:00+14:00", 0),
        ({"Retry-After": "3"}, 3), ({"retry-after-ms": "350", "retry-after": "1"}, 0.35),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1), ({"RETRY-AFTER": "soon"}, None), ({}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "6m0s"}, None),
        ({"x-ratelimit-remaining-requests": "0"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1s",
          "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "4s", "retry-after": "soon"}, 4),
        ({"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:09Z"},
         9),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800000005000"}, 5),
    ],
)  # fmt: skip
def test_every_way_to_say_when_to_come_back(value: dict[str, str] | str | None, seconds: float | None) -> None:
    """At eight in the morning of 15 January 2027."""
    assert parse_retry_after(value, BEGAN) == (None if seconds is None else pytest.approx(seconds, abs=1e-6))


_HEADERS = ("retry-after", "Retry-After-Ms", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")


@given(
    st.one_of(
        st.text(),
        st.from_regex(r"[-+]?[0-9]*[.]?[0-9]*([eE][0-9]+)?(ms|s|m|h|d)?", fullmatch=True),
        st.from_regex(r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{2,6} [0-9:]{4,9} .{0,6}", fullmatch=True),
        st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,12}.{0,6}", fullmatch=True),
        st.dictionaries(st.sampled_from(_HEADERS), st.one_of(st.text(max_size=20), st.just("0"))),
    ),
    st.floats(0, 4e9),
)
@example("9999-12-31T23:59:59-14:00", 0.0)
@example("Mon, 01 Jan 0001 00:00:00 +2359", 0.0)
def test_whatever_is_said_is_a_time_to_wait_or_nothing(value: dict[str, str] | str, now: float) -> None:
    """Never raises, never negative, never endless."""
    seconds = parse_retry_after(value, now)
    assert seconds is None or (math.isfinite(seconds) and seconds >= 0)


@given(st.integers(0, 10**6), st.integers(0, 4 * 10**9))
def test_seconds_and_dates_say_the_same(seconds: int, now: int) -> None:
    """Also as milliseconds and as a span."""
    date = datetime.fromtimestamp(now, UTC) + timedelta(seconds=seconds)
    span = f"{seconds // 3600}h{seconds // 60 % 60}m{seconds % 60}s"
    for value in (str(seconds), format_datetime(date, usegmt=True), date.isoformat(), span):
        assert parse_retry_after(value, now) == seconds
    assert parse_retry_after({"retry-after-ms": str(seconds * 1000)}, now) == seconds
