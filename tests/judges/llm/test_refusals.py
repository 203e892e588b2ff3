"""What errors mean, whatever they hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groundtrace.judges.llm.refusals import Door, broken, filtered, refused

KEY = "AIzaSyTestTestTestTest"
DOOR = Door("google", "gemini", "GOOGLE_API_KEY", KEY)

told = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(f"with {KEY}, retryDelay: '1.2.3s'"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "param", "details", "innererror", "reason"]), inner
        )
    ),
    max_leaves=10,
)


@given(st.integers(300, 599), told, st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text()))
def test_never_anything_but_trouble(status: int, body: object, headers: dict[str, str]) -> None:
    """Hostile bodies and headers give one short line without the key, and a wait that makes sense."""
    filtered(status, body)
    found = refused(DOOR, status, body, headers)
    assert KEY not in found.message
    assert "\n" not in found.message
    assert len(found.message) < 500
    assert found.retry_after is None or found.retry_after >= 0
    assert (found.kind == "unsupported") == bool(found.option)


def test_waits_in_a_body() -> None:
    """Google says in the body when to come back."""
    body = {"error": {"code": 429, "details": [{"@type": "RetryInfo", "retryDelay": "3.5s"}]}}
    assert refused(DOOR, 429, body).retry_after == 3.5


def test_a_failure_of_the_sdk_itself() -> None:
    """It is no broken connection, so it is not asked again for minutes."""
    assert broken(DOOR, TypeError("unexpected")).kind == "request"
    assert broken(DOOR, TimeoutError()).kind == "timeout"
    assert broken(DOOR, ConnectionResetError()).kind == "connection"
